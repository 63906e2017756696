// GPU: the layout of each f32 buffer and state in shared memory, chosen over all that read and
// write it.
//
//   state S [K 128,V 128] f32      read and written as accumulators: lanes have rows 0 .. 7 and pairs of columns
//                                  read as operand B: lanes have rows 0, 2, 4, 6 and columns 0 .. 7
//                                  -> PATTERN_GRAY: both without conflicts
//
// For each access of a warp the lanes' addresses are counted in each pattern (banks.c). A pattern
// costs instructions as well: a few for a nest, where lanes have places of a fragment; else a few
// for each access.
#include <string.h>

#include "compiler/plan/gpu/nest_work.h"
#include "compiler/plan/planner.h"

enum { LANES = GPU_WARP_LANES, NUMBER_BYTES = 4 };

// Patterns without groups, then those with groups of 4, 8, 16 and 32 lines.
enum { FIRST_GROUP = 2, LAST_GROUP = 5, GROUPED = PATTERN_COUNT - PATTERN_GROUPS };
enum { CANDIDATES = PATTERN_GROUPS + GROUPED * (LAST_GROUP - FIRST_GROUP + 1) };

static plan_layout candidate(int number, int line) {
  if (number < PATTERN_GROUPS) return (plan_layout){(plan_pattern)number, line, 0};
  number -= PATTERN_GROUPS;
  return (plan_layout){(plan_pattern)(PATTERN_GROUPS + number % GROUPED), line,
                       FIRST_GROUP + number / GROUPED};
}

// The memory of buffers, then of carried values.
typedef struct memory_cost {
  bool chosen;  // it may have any pattern
  int line;
  double cycles[CANDIDATES];
} memory_cost;

// Wavefronts that have been counted before.
typedef struct known_access {
  int64_t offsets[LANES];
  int numbers, line;
  int wavefronts[CANDIDATES];
} known_access;

enum { MOST_KNOWN = 16 };

typedef struct layouts {
  access_visitor visitor;
  planner *q;
  double share;  // of the runs of the body: how often the nest runs that is visited
  memory_cost *memory;
  known_access *known;
  int known_count;
} layouts;

// ---- an access ----

// Addresses of fragments are made once for all elements, and so are those of code whose constants
// are all that numbers trade places by. Where such constants are nothing that they trade places by,
// all these lines have one address. Elsewhere the bits that trade places are put into each address.
static double layout_instructions(const nest_access *access, const memory_cost *memory,
                                  int number) {
  plan_swap swaps[PLAN_MOST_SWAPS];
  int64_t read = 0;
  const int lines = 1 << access->lines,
            count = plan_swaps_of(candidate(number, memory->line), NUMBER_F32, swaps);
  for (int i = 0; i < count; i++) read |= swaps[i].bits << swaps[i].down;
  if (!count) return 0;
  read >>= memory->line;
  if (access->fragment) return read & (lines - 1) ? 1 : 1.0 / lines;
  return read / lines == 0 ? 1 : 1 + count;
}

static int wavefronts_in(plan_layout layout, const known_access *x) {
  int64_t places[LANES];
  for (int lane = 0; lane < LANES; lane++)
    places[lane] = x->offsets[lane] < 0
                       ? -1
                       : NUMBER_BYTES * plan_offset_in(layout, NUMBER_F32, x->offsets[lane]);
  return plan_wavefronts(places, NUMBER_BYTES * x->numbers);
}

// Do the lanes that are served together have numbers of one block of banks? Then no pattern changes
// anything.
static bool is_in_blocks(const known_access *x) {
  int together = LANES / x->numbers;
  for (int lane = 0; lane < LANES; lane++)
    if (x->offsets[lane] / PLAN_BANKS != x->offsets[lane / together * together] / PLAN_BANKS)
      return false;
  return true;
}

static void count_wavefronts(known_access *x) {
  bool same = is_in_blocks(x);
  for (int i = 0; i < CANDIDATES; i++)
    x->wavefronts[i] = same && i ? x->wavefronts[0] : wavefronts_in(candidate(i, x->line), x);
}

static const known_access *known_of(layouts *c, const known_access *x) {
  for (int i = 0; i < MOST_KNOWN && i < c->known_count; i++) {
    const known_access *known = &c->known[i];
    bool same = known->numbers == x->numbers && known->line == x->line;
    if (same && memcmp(known->offsets, x->offsets, sizeof x->offsets) == 0) return known;
  }
  known_access *next = &c->known[c->known_count++ % MOST_KNOWN];
  *next = *x;
  count_wavefronts(next);
  return next;
}

// Wavefronts of all warps, and instructions of each.
static void visit(access_visitor *self, const nest_access *access) {
  layouts *c = (layouts *)self;
  const plan_lanes *at = access->at;
  const plan_access *x = access->x;
  if (x->memory < 0 || !c->memory[x->memory].chosen) return;
  memory_cost *memory = &c->memory[x->memory];
  bool apart = plan_lies_apart(x, at);
  double times = access->times * (apart && x->stride[at->vector] ? at->numbers : 1);
  known_access seen = {.numbers = apart ? 1 : at->numbers, .line = memory->line};
  plan_offsets_of(x, at, seen.offsets);
  const known_access *known = known_of(c, &seen);
  for (int i = 0; i < CANDIDATES; i++) {
    const gpu_work work = {
        .wavefronts = times * known->wavefronts[i],
        .busiest = times / access->warps * layout_instructions(access, memory, i)};
    memory->cycles[i] += c->share * gpu_cycles_added(&work);
  }
}

// ---- choice ----

// A row of 32 numbers or of a multiple is a line, or the largest power of two that divides it.
static int line_bits(int64_t row) {
  enum { LEAST = 5 };
  int line = LEAST;
  while (row % ((int64_t)2 << line) == 0) line++;
  return line;
}

static void open_memory(const layouts *c, memory_cost *memory, const plan_buffer *b) {
  enum { LINE = 32 };
  bool plain = b->numbers.sizes || b->lane || b->kept || b->gathered || b->axis_count < 2 ||
               b->stored != NUMBER_F32;
  if (plain || b->numbers.factor % LINE) return;
  memory->chosen = true;
  memory->line = line_bits(plan_typical_size(c->q->program, b->axes[b->axis_count - 1]));
}

static void open_all(arena *a, layouts *c) {
  plan *p = c->q->p;
  c->memory = ARENA_ARRAY(a, memory_cost, p->buffers.count + p->carried_count + 1);
  for (int i = 0; i < p->buffers.count; i++) {
    const plan_buffer *b = &p->buffers.items[i];
    if (b->carried < 0 && b->last >= 0) open_memory(c, &c->memory[i], b);
  }
  for (int s = 0; s < p->carried_count; s++)
    if (p->carried[s].accumulator < 0)
      open_memory(c, &c->memory[p->buffers.count + s], &c->q->carried->items[s].memory);
  // Sums along time in levels have addresses of their own.
  for (tile_id id = 0; id < c->q->program->values.count; id++)
    if (p->values[id].buffer >= 0 && plan_levels_of(c->q->m, c->q->program, id))
      c->memory[p->values[id].buffer].chosen = false;
}

// The pattern of the fewest cycles; the plainest of equal ones.
static plan_layout best_layout(const memory_cost *memory) {
  int best = 0;
  for (int i = 1; memory->chosen && i < CANDIDATES; i++)
    if (memory->cycles[i] < memory->cycles[best]) best = i;
  return best ? candidate(best, memory->line) : (plan_layout){0};
}

void plan_choose_layouts(planner *q) {
  plan *p = q->p;
  if (q->m->kernel->program->form != TILE_CHUNK) return;
  arena *scratch = arena_new();
  const placed_program counted = {.m = q->m, .p = p, .threads = q->m->threads};
  layouts c = {.visitor = {visit}, .q = q, .known = ARENA_ARRAY(scratch, known_access, MOST_KNOWN)};
  open_all(scratch, &c);
  for (int n = 0; n < p->nests.count; n++) {
    region where = p->nests.items[n].region;
    c.share = where == REGION_PROLOGUE || where == REGION_EPILOGUE ? gpu_cost_seldom : 1;
    gpu_work_of_nest(scratch, &counted, &p->nests.items[n], NULL, &c.visitor);
  }
  for (int i = 0; i < p->buffers.count; i++) p->buffers.items[i].layout = best_layout(&c.memory[i]);
  for (int s = 0; s < p->carried_count; s++)
    p->carried[s].layout = best_layout(&c.memory[p->buffers.count + s]);
  arena_free(scratch);
}
