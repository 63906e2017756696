// Races in the tensors of a launch, which all blocks share and no barrier of the launch orders.
//
//   block 0 writes d_bias[3], block 4 reads or writes it   ->   a race
//   thread 3 writes y[5], thread 40 of its block reads it, no barrier between them   ->   a race, as in shared memory
//
// Bytes are known by their addresses: two tensors of a launch may lie in one place. A page of
// memory that a thread touches gets cells like those of shared memory, and the blocks that have
// touched each of them.
#include <stdlib.h>
#include <string.h>

#include "runtime/support/simt/block.h"

enum { PAGE_BYTES = 4096, CELLS = PAGE_BYTES / SHADOW_BYTES, LISTS = 4096 };

// Blocks of a cell, each plus 1; 0: none.
typedef struct cell_blocks {
  uint32_t writer, reader;  // `reader` may be SEVERAL
  uint32_t last;            // the block that the shadow cell speaks of
} cell_blocks;

#define SEVERAL UINT32_MAX

typedef struct race_page {
  struct race_page *next;
  uintptr_t number;
  shadow_cell cells[CELLS];
  cell_blocks blocks[CELLS];
} race_page;

struct simt_races {
  race_page *last;  // touched
  race_page *lists[LISTS];
};

bool races_open(simt_block *b) {
  if (!b->launch->watched) return true;
  b->races = calloc(1, sizeof *b->races);
  return b->races != NULL;
}

void races_free(simt_block *b) {
  simt_races *races = b->races;
  for (int i = 0; races && i < LISTS; i++) {
    for (race_page *page = races->lists[i], *next; page; page = next) {
      next = page->next;
      free(page);
    }
  }
  free(races);
}

static race_page *page_of(simt_races *races, uintptr_t number) {
  if (races->last && races->last->number == number) return races->last;
  race_page **list = &races->lists[number % LISTS], *page = *list;
  while (page && page->number != number) page = page->next;
  if (!page) {
    page = calloc(1, sizeof *page);
    if (!page) simt_fail("touches more global memory than there is memory to watch");
    page->number = number;
    page->next = *list;
    *list = page;
  }
  return races->last = page;
}

static void check_blocks(const simt_block *b, const shadow *s, const cell_blocks *blocks, int cell,
                         bool write) {
  uint32_t own = (uint32_t)b->number + 1;
  const char *does = write ? "writes" : "reads";
  long long byte = s->first + (long long)cell * SHADOW_BYTES;
  if (blocks->writer && blocks->writer != own)
    simt_fail("race: %s byte %lld of %s, which block %u wrote in the same launch", does, byte,
              s->name, blocks->writer - 1);
  if (!write || !blocks->reader || blocks->reader == own) return;
  if (blocks->reader == SEVERAL)
    simt_fail("race: writes byte %lld of %s, which several blocks read in the same launch", byte,
              s->name);
  simt_fail("race: writes byte %lld of %s, which block %u read in the same launch", byte, s->name,
            blocks->reader - 1);
}

static void note_block(const simt_block *b, race_page *page, int cell, bool write) {
  uint32_t own = (uint32_t)b->number + 1;
  cell_blocks *blocks = &page->blocks[cell];
  if (blocks->last != own) page->cells[cell] = (shadow_cell){0};
  blocks->last = own;
  if (write)
    blocks->writer = own;
  else
    blocks->reader = blocks->reader && blocks->reader != own ? SEVERAL : own;
}

static void check_page(simt_block *b, const simt_region *region, race_page *page, uint32_t first,
                       uint32_t bytes, bool write) {
  int64_t start = (int64_t)(page->number * PAGE_BYTES - (uintptr_t)region->data);
  const shadow s = {.name = region->name, .cells = page->cells, .first = start};
  for (uint32_t cell = first / SHADOW_BYTES;
       cell < (first + bytes + SHADOW_BYTES - 1) / SHADOW_BYTES; cell++) {
    check_blocks(b, &s, &page->blocks[cell], (int)cell, write);
    note_block(b, page, (int)cell, write);
  }
  shadow_check(b, &s, b->running, first, bytes, write);
}

void races_check(simt_block *b, const simt_region *region, const void *at, uint32_t bytes,
                 bool write) {
  uintptr_t from = (uintptr_t)at, end = from + bytes;
  while (from < end) {
    uintptr_t number = from / PAGE_BYTES,
              stop = (number + 1) * PAGE_BYTES < end ? (number + 1) * PAGE_BYTES : end;
    check_page(b, region, page_of(b->races, number), (uint32_t)(from % PAGE_BYTES),
               (uint32_t)(stop - from), write);
    from = stop;
  }
}
