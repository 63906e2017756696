// GPU: where buffers, states and the rows of a chunk lie.
//
//   each thread alone    registers; recomputed rows of a chunk in shared memory, neighbours from thread to thread
//   a thread block       states, then the rows of this chunk, then buffers, first fit by their lives, in shared memory;
//                        buffers that do not fit lie in the block's scratch
#include <stdlib.h>
#include <string.h>

#include "compiler/kernel/frame.h"
#include "compiler/lower/gpu/nests.h"
#include "compiler/plan/first_fit.h"

// ---- places ----

// Whole lines of banks.
static int64_t up(int64_t n) { return (n + 31) / 32 * 32; }

static int64_t words_of(const plan_buffer *b) { return up(plan_words(b).factor); }

// Buffers that are placed already, on the chip or in scratch.
static placed_list placed_buffers(const kernel_frame *h, const part *p, bool on_chip) {
  placed_list list = {0};
  for (int k = 0; k < p->p->buffers.count; k++) {
    const plan_buffer *b = &p->p->buffers.items[k];
    location at = p->buffer_at[k];
    if (at.offset < 0 || at.sized >= 0 || at.on_chip != on_chip) continue;
    first_fit_add(h->a, &list, (placed){at.offset, at.offset + words_of(b), b->first, b->last});
  }
  return list;
}

// Behind the placed buffers that live at the same time, from `base` on.
static int64_t first_fit(const kernel_frame *h, const placed_list *list, const plan_buffer *b, int64_t base) {
  int64_t words = words_of(b), offset = gpu_chip_place(h, base, words), end;
  int next = 0;
  while ((end = first_fit_end(list, &next, offset, words, b->first, b->last)) >= 0) offset = gpu_chip_place(h, end, words);
  return offset;
}

static bool is_placed_here(const plan_buffer *b) { return b->last >= 0 && b->carried < 0 && !b->persistent && !b->kept; }

typedef struct sized_buffer {
  int64_t words;
  bool before;  // it comes before all that are not
  int index;
} sized_buffer;

static int compare_sizes(const void *left, const void *right) {
  const sized_buffer *x = left, *y = right;
  if (x->before != y->before) return x->before ? -1 : 1;
  if (x->words != y->words) return x->words > y->words ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

// Buffers by size, the largest first: small ones fit into what is left between them. Those of fewer words than `first`
// come before all others.
static int *by_size(kernel_frame *h, const part *p, int64_t first) {
  int count = p->p->buffers.count;
  sized_buffer *sorted = ARENA_ARRAY(h->a, sized_buffer, count);
  int *order = ARENA_ARRAY(h->a, int, count);
  for (int i = 0; i < count; i++) {
    int64_t words = words_of(&p->p->buffers.items[i]);
    sorted[i] = (sized_buffer){words, words < first, i};
  }
  qsort(sorted, (size_t)count, sizeof *sorted, compare_sizes);
  for (int i = 0; i < count; i++) order[i] = sorted[i].index;
  return order;
}

// Whether all fit on the chip.
static bool place_in_order(kernel_frame *h, part *p, const int *order) {
  int64_t chip = h->on_chip, scratch = h->shared_numbers;
  placed_list lists[] = {placed_buffers(h, p, false), placed_buffers(h, p, true)};
  bool all = true;
  for (int n = 0; n < p->p->buffers.count; n++) {
    int i = order[n];
    plan_buffer *b = &p->p->buffers.items[i];
    if (!is_placed_here(b) || b->numbers.sizes || p->buffer_at[i].offset >= 0) continue;
    int64_t numbers = words_of(b), offset = first_fit(h, &lists[1], b, chip);
    bool fits = offset + numbers <= h->chip_limit;
    if (!fits) offset = first_fit(h, &lists[0], b, scratch);
    p->buffer_at[i] = (location){offset, -1, fits};
    first_fit_add(h->a, &lists[fits], (placed){offset, offset + numbers, b->first, b->last});
    int64_t *used = fits ? &h->on_chip : &h->shared_numbers;
    if (offset + numbers > *used) *used = offset + numbers;
    all = all && fits;
  }
  return all;
}

// If something must go to scratch, it is not what is small: that is read most often for each byte.
static void place_by_lives(kernel_frame *h, part *p) {
  enum { SMALL = 1024 };
  int64_t chip = h->on_chip, scratch = h->shared_numbers;
  size_t bytes = (size_t)p->p->buffers.count * sizeof *p->buffer_at;
  location *before = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  memcpy(before, p->buffer_at, bytes);
  if (place_in_order(h, p, by_size(h, p, 0))) return;
  h->on_chip = chip;
  h->shared_numbers = scratch;
  memcpy(p->buffer_at, before, bytes);
  place_in_order(h, p, by_size(h, p, SMALL));
}

static void open_places(kernel_frame *h, part *p) {
  p->buffer_at = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) p->buffer_at[i] = (location){-1, -1, false};
}

// The next state that is made of no nest, such as the tail of a lag, is copied behind all nests: its buffer has none.
static bool is_of_prologue(const part *p, const plan_buffer *b) {
  return is_placed_here(b) && b->first < p->p->nests.count && p->p->nests.items[b->first].region == REGION_PROLOGUE;
}

// Numbers that a thread holds all the time.
static int64_t numbers_of_thread(const part *p) {
  int64_t numbers = 0;
  for (int c = 0; c < p->carried.count; c++) numbers += p->carried.items[c].memory.numbers.factor;
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (!b->numbers.sizes && (b->persistent || is_of_prologue(p, b))) numbers += b->numbers.factor;
  }
  return numbers;
}

static int64_t numbers_over(const kernel_frame *h, const tile_program *program, axis_set axes) {
  int64_t numbers = 1;
  for (int axis = 0; axis < program->axes.count; axis++) {
    int64_t size = axis_in(axes, axis) ? plan_axis_size(&h->m, program, axis) : 1;
    if (size != TILE_RUNTIME_SIZE) numbers *= size;
  }
  return numbers;
}

static bool is_carried(const plan *p, int argument) {
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].argument == argument) return true;
  return false;
}

// What a nest fills takes the place of what it empties.
static bool lives_into(int nest, int first, int last) { return first < nest && nest <= last; }

// Numbers that a thread has when it comes to a nest, beside its states: buffers, and what it has read and will read again,
// which LLVM reads once.
static int64_t numbers_before(const kernel_frame *h, const part *p, int nest) {
  const tile_program *program = p->p->program;
  int64_t numbers = 0;
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    bool mine = is_placed_here(b) && !b->numbers.sizes && !is_of_prologue(p, b);
    if (mine && lives_into(nest, b->first, b->last)) numbers += b->numbers.factor;
  }
  for (tile_id id = 0; id < program->values.count; id++) {
    const tile_value *v = &program->values.items[id];
    const plan_value *pv = &p->p->values[id];
    if (v->op != TILE_ARGUMENT || is_carried(p->p, tile_argument_number(v))) continue;
    if (lives_into(nest, pv->first_read, pv->last_read)) numbers += numbers_over(h, program, plan_tile_axes(&h->m, v->axes));
  }
  return numbers;
}

static int64_t most_between_nests(const kernel_frame *h, const part *p) {
  int64_t most = 0;
  for (int n = 1; n < p->p->nests.count; n++) {
    int64_t numbers = numbers_before(h, p, n);
    if (numbers > most) most = numbers;
  }
  return most;
}

static int64_t numbers_of_states(const kernel_frame *h) {
  int64_t numbers = 0;
  for (int c = 0; c < h->main.carried.count; c++) numbers += h->main.carried.items[c].memory.numbers.factor;
  return numbers;
}

// Is a step alone too much for registers? Backward also holds the gradients that it adds up; ptxas reads again part of what
// backward reads again, so that more is allowed there.
static bool is_long_step(const kernel_frame *h) {
  enum { MOST_ALIVE = 136, MOST_ALIVE_BACK = 184 };
  int64_t between = most_between_nests(h, &h->main);
  if (!h->recomputes) return numbers_of_states(h) + between > MOST_ALIVE;
  return numbers_of_thread(&h->main) + between > MOST_ALIVE_BACK;
}

// More than registers hold beside what is computed with; backward computes with the states and their cotangents at once.
bool gpu_is_crowded(const kernel_frame *h) {
  enum { MOST_NUMBERS = 128, MOST_BACK = 90 };
  if (h->m.kind != MAP_THREADS) return false;
  if (is_long_step(h)) return true;
  if (!h->recomputes) return numbers_of_thread(&h->main) > MOST_NUMBERS;
  return numbers_of_thread(&h->main) + numbers_of_thread(&h->recompute) > MOST_BACK;
}

// Are the states alone too many, or what a step computes?
bool gpu_carries_many(const kernel_frame *h) {
  enum { MOST_CARRIED = 96 };
  return numbers_of_states(h) > MOST_CARRIED || is_long_step(h);
}

// What is alive all the time lies in shared memory then, neighbours from thread to thread. States and their cotangents
// backward, or states and factors of a part of time, are too many as well: all arrays do.
static void place_crowded(kernel_frame *h, part *p) {
  for (int i = 0; i < p->p->buffers.count; i++) {
    plan_buffer *b = &p->p->buffers.items[i];
    bool mine = is_of_prologue(p, b) || (h->m.looped && is_placed_here(b));
    if (b->numbers.sizes || (!b->persistent && !mine)) continue;
    b->stack = false;
    if (mine) p->buffer_at[i] = gpu_take(h, b->numbers.factor);
  }
}

static void place_part(kernel_frame *h, part *p) {
  if (!p->buffer_at) open_places(h, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    plan_buffer *b = &p->p->buffers.items[i];
    b->stack = h->m.kind == MAP_THREADS && !b->numbers.sizes;
    if (!is_placed_here(b) || !b->numbers.sizes) continue;
    extent numbers = b->numbers;
    if (h->m.kind == MAP_THREADS) numbers.factor *= h->team.threads;
    vec_push(h->a, &h->sized, numbers);
    p->buffer_at[i] = (location){0, h->sized.count - 1, false};
  }
  for (int c = 0; c < p->carried.count; c++) p->carried.items[c].memory.stack = p->carried_at[c].offset < 0;
  if (h->crowded) place_crowded(h, p);
  if (h->m.kind == MAP_BLOCK) place_by_lives(h, p);
}

static bool has_matrices(const part *p) {
  for (int n = 0; n < p->p->nests.count; n++) {
    const plan_nest *nest = &p->p->nests.items[n];
    if (nest->kind == NEST_DOT && (nest->dot.i < 0 || nest->region == REGION_STEPS)) return true;
  }
  return false;
}

// The parameter that the prologue copies into the buffer; -1: it does not.
static int copied_parameter(const part *p, int buffer) {
  for (int n = 0; n < p->p->nests.count; n++) {
    const plan_nest *nest = &p->p->nests.items[n];
    if (nest->kind != NEST_PACK || nest->region != REGION_PROLOGUE || nest->pack != buffer) continue;
    const tile_value *v = &p->p->program->values.items[nest->packed];
    return v->op == TILE_ARGUMENT ? tile_place_of(p->program, v)->tensor : -1;
  }
  return -1;
}

// Where the main program has the same copy; its number, or -1.
static int same_copy(const kernel_frame *h, const part *p, int buffer) {
  const plan_buffer *b = &p->p->buffers.items[buffer];
  int tensor = copied_parameter(p, buffer);
  for (int i = 0; p != &h->main && tensor >= 0 && i < h->main.p->buffers.count; i++) {
    const plan_buffer *other = &h->main.p->buffers.items[i];
    bool same = b->stored == other->stored && !memcmp(b->stride, other->stride, sizeof b->stride);
    if (same && copied_parameter(&h->main, i) == tensor) return i;
  }
  return -1;
}

static void place_matrices(kernel_frame *h, part *p) {
  open_places(h, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (!is_of_prologue(p, b) || b->numbers.sizes) continue;
    int same = same_copy(h, p, i);
    p->buffer_at[i] = same >= 0 ? h->main.buffer_at[same] : gpu_take(h, words_of(b));
  }
}

bool gpu_place_matrices(kernel_frame *h) {
  if (h->m.kind != MAP_BLOCK || h->k->program->form != TILE_STEP) return false;
  if (!has_matrices(&h->main) && !(h->recomputes && has_matrices(&h->recompute))) return false;
  place_matrices(h, &h->main);
  if (h->recomputes) place_matrices(h, &h->recompute);
  return true;
}

void gpu_place(kernel_frame *h) {
  place_part(h, &h->main);
  if (h->recomputes) place_part(h, &h->recompute);
  gpu_place_ahead(h);
  gpu_place_steps(h);
}

// What the prologue makes is read in every run.
static void place_prologue(kernel_frame *h, part *p) {
  open_places(h, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (is_of_prologue(p, b)) p->buffer_at[i] = gpu_take(h, words_of(b));
  }
}

// Shared memory: cotangents of states and what prologues make; behind them either the rows and buffers of the chunks back,
// or states, rows and buffers of the chunks again.
void gpu_plan_chunks(kernel_frame *h) {
  frame_plan_program(h, &h->main, h->k->program, true);
  frame_plan_program(h, &h->recompute, h->k->recompute, false);
  gpu_place_sums(h);
  frame_place_carried(h, &h->main);
  place_prologue(h, &h->main);
  place_prologue(h, &h->recompute);
  int64_t shared = h->on_chip;
  frame_place_pads(h, &h->main);
  frame_place_history(h, &h->main);
  if (h->tiles.used) gpu_place_passes(h);
  place_part(h, &h->main);
  int64_t back = h->on_chip;
  h->on_chip = shared;
  frame_place_carried(h, &h->recompute);
  frame_place_pads(h, &h->recompute);
  place_part(h, &h->recompute);
  if (back > h->on_chip) h->on_chip = back;
  gpu_place_ahead(h);
}

static int64_t most_sums(const kernel_frame *h, const part *p) {
  int64_t most = 0;
  for (int n = 0; n < p->p->nests.count; n++) {
    int64_t numbers = team_numbers(&h->m, p->p, &p->p->nests.items[n], h->team.threads);
    if (numbers > most) most = numbers;
  }
  return most;
}

void gpu_place_sums(kernel_frame *h) {
  if (h->m.kind == MAP_BLOCK) {
    h->sums = h->on_chip;
    h->on_chip += GPU_MOST_WARPS;
    return;
  }
  int64_t numbers = most_sums(h, &h->main);
  if (gpu_guard_sums(h) > numbers) numbers = gpu_guard_sums(h);
  if (h->recomputes && most_sums(h, &h->recompute) > numbers) numbers = most_sums(h, &h->recompute);
  h->sums = h->on_chip;
  h->on_chip += up(numbers);
}
