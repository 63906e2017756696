// GPU: where buffers, states and the rows of a chunk lie.
//
//   each thread alone    registers; recomputed rows of a chunk in shared memory, neighbours from thread to thread
//   a thread block       states, then the rows of this chunk, then buffers, first fit by their lives, in shared memory;
//                        buffers that do not fit lie in the block's scratch
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/first_fit.h"
#include "compiler/plan/kernel_plan.h"

// Whole lines of banks.
static int64_t up(int64_t n) { return (n + 31) / 32 * 32; }

static int64_t buffer_words(const plan_buffer *b) { return up(plan_words(b).factor); }

// wgmma reads its operands at multiples of 1024 bytes. A smaller place is no operand of it.
int64_t gpu_shared_place(const kernel_plan *w, int64_t at, int64_t words) {
  enum { WORDS = 256 };
  return w->m.warpgroups && words >= WORDS ? (at + WORDS - 1) / WORDS * WORDS : at;
}

location gpu_take(kernel_plan *w, int64_t numbers) {
  if (w->m.kind == MAP_THREADS) numbers *= w->threads;
  numbers = up(numbers);
  int64_t at = gpu_shared_place(w, w->shared_words, numbers);
  if (at + numbers > w->shared_limit) return kernel_take_scratch(w, numbers);
  w->shared_words = at + numbers;
  return (location){at, -1, true};
}

// ---- memory that lives from run to run ----

static const location in_registers = {-1, -1, false};

// A gathered sum lies in scratch, because it is added to only once a chunk.
static location gpu_place_persistent(kernel_plan *w, const plan_buffer *b) {
  bool seldom = w->m.kind == MAP_BLOCK && b->gathered && !b->numbers.sizes;
  if (seldom) return kernel_take_scratch(w, b->numbers.factor);
  if (w->register_pressure && !b->numbers.sizes) return gpu_take(w, b->numbers.factor);
  if (w->in_tiles) return kernel_take_of_instance(w, b->numbers.factor);
  if (w->m.kind == MAP_THREADS && !b->numbers.sizes) return in_registers;
  return kernel_take_extent(w, b->numbers, 1);
}

// Of a register-resident state memory has the 16-bit copy alone, or nothing.
static void gpu_place_carried(kernel_plan *w, program_plan *p) {
  p->carried_at = ARENA_ARRAY(w->a, location, p->carried.count);
  for (int c = 0; c < p->carried.count; c++) {
    plan_buffer memory = p->carried.items[c].memory;
    const carried_pair *pair = &p->p->carried[c];
    if (pair->accumulator >= 0)
      memory.numbers.factor = pair->has_copy ? (memory.numbers.factor + 1) / 2 : 0;
    bool registers = w->m.kind == MAP_THREADS && !memory.numbers.sizes && !w->m.looped;
    p->carried_at[c] = registers     ? in_registers
                       : w->in_tiles ? gpu_take(w, memory.numbers.factor)
                                     : gpu_place_persistent(w, &memory);
  }
  kernel_place_persistent(w, p, gpu_place_persistent);
}

static void gpu_place_around(kernel_plan *w, program_plan *p) {
  gpu_place_carried(w, p);
  kernel_place_staging(w, p);
}

// ---- buffers by their lives ----

// Buffers that are placed already, in shared memory or in scratch.
static placed_list placed_buffers(const kernel_plan *w, const program_plan *p, bool on_chip) {
  placed_list list = {0};
  for (int k = 0; k < p->p->buffers.count; k++) {
    const plan_buffer *b = &p->p->buffers.items[k];
    location at = p->buffer_at[k];
    if (at.offset < 0 || at.sized >= 0 || at.in_shared != on_chip) continue;
    first_fit_add(w->a, &list, (placed){at.offset, at.offset + buffer_words(b), b->first, b->last});
  }
  return list;
}

// The first free offset from `base` on, among the placed buffers that are alive at the same time.
static int64_t first_fit(const kernel_plan *w, const placed_list *list, const plan_buffer *b,
                         int64_t base) {
  int64_t words = buffer_words(b), offset = gpu_shared_place(w, base, words), end;
  int next = 0;
  while ((end = first_fit_end(list, &next, offset, words, b->first, b->last)) >= 0)
    offset = gpu_shared_place(w, end, words);
  return offset;
}

static bool is_placed_here(const plan_buffer *b) {
  return b->last >= 0 && b->carried < 0 && !b->persistent && !b->kept;
}

typedef struct sized_buffer {
  int64_t words;
  bool before;  // it is placed before all buffers without this mark
  int index;
} sized_buffer;

static int compare_sizes(const void *left, const void *right) {
  const sized_buffer *x = left, *y = right;
  if (x->before != y->before) return x->before ? -1 : 1;
  if (x->words != y->words) return x->words > y->words ? -1 : 1;
  return x->index < y->index ? -1 : 1;
}

// Buffers by size, the largest first: small buffers fit into the gaps. Buffers of fewer words than
// `first` come before all others.
static int *buffers_by_size(kernel_plan *w, const program_plan *p, int64_t first) {
  int count = p->p->buffers.count;
  sized_buffer *sorted = ARENA_ARRAY(w->a, sized_buffer, count);
  int *order = ARENA_ARRAY(w->a, int, count);
  for (int i = 0; i < count; i++) {
    int64_t words = buffer_words(&p->p->buffers.items[i]);
    sorted[i] = (sized_buffer){words, words < first, i};
  }
  qsort(sorted, (size_t)count, sizeof *sorted, compare_sizes);
  for (int i = 0; i < count; i++) order[i] = sorted[i].index;
  return order;
}

// Places the buffers in this order. Do all fit into shared memory?
static bool place_in_order(kernel_plan *w, program_plan *p, const int *order) {
  int64_t chip = w->shared_words, scratch = w->shared_numbers;
  placed_list lists[] = {placed_buffers(w, p, false), placed_buffers(w, p, true)};
  bool all = true;
  for (int n = 0; n < p->p->buffers.count; n++) {
    int i = order[n];
    plan_buffer *b = &p->p->buffers.items[i];
    if (!is_placed_here(b) || b->numbers.sizes || p->buffer_at[i].offset >= 0) continue;
    int64_t numbers = buffer_words(b), offset = first_fit(w, &lists[1], b, chip);
    bool fits = offset + numbers <= w->shared_limit;
    if (!fits) offset = first_fit(w, &lists[0], b, scratch);
    p->buffer_at[i] = (location){offset, -1, fits};
    first_fit_add(w->a, &lists[fits], (placed){offset, offset + numbers, b->first, b->last});
    int64_t *used = fits ? &w->shared_words : &w->shared_numbers;
    if (offset + numbers > *used) *used = offset + numbers;
    all = all && fits;
  }
  return all;
}

// If buffers must go to scratch, small ones stay: they are read most often for each byte.
static void place_by_lives(kernel_plan *w, program_plan *p) {
  int64_t chip = w->shared_words, scratch = w->shared_numbers;
  size_t bytes = (size_t)p->p->buffers.count * sizeof *p->buffer_at;
  location *before = ARENA_ARRAY(w->a, location, p->p->buffers.count);
  memcpy(before, p->buffer_at, bytes);
  if (place_in_order(w, p, buffers_by_size(w, p, 0))) return;
  w->shared_words = chip;
  w->shared_numbers = scratch;
  memcpy(p->buffer_at, before, bytes);
  place_in_order(w, p, buffers_by_size(w, p, GPU_COST_SMALL_BUFFER));
}

static void open_places(kernel_plan *w, program_plan *p) {
  p->buffer_at = ARENA_ARRAY(w->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) p->buffer_at[i] = (location){-1, -1, false};
}

// Is it a buffer of the prologue? A next state that no nest makes, such as the tail of a lag, is
// copied after all nests; its buffer has no nest.
static bool is_of_prologue(const program_plan *p, const plan_buffer *b) {
  return is_placed_here(b) && b->first < p->p->nests.count &&
         p->p->nests.items[b->first].region == REGION_PROLOGUE;
}

// Elements that a thread holds all the time.
static int64_t numbers_of_thread(const program_plan *p) {
  int64_t numbers = 0;
  for (int c = 0; c < p->carried.count; c++) numbers += p->carried.items[c].memory.numbers.factor;
  vec_each(const plan_buffer, b, p->p->buffers)
    if (!b->numbers.sizes && (b->persistent || is_of_prologue(p, b))) numbers += b->numbers.factor;
  return numbers;
}

static int64_t numbers_over_axes(const tile_program *program, axis_set axes) {
  int64_t numbers = 1;
  for (int axis = 0; axis < program->axes.count; axis++) {
    int64_t size = axis_in(axes, axis) ? plan_axis_size(program, axis) : 1;
    if (size != TILE_RUNTIME_SIZE) numbers *= size;
  }
  return numbers;
}

static bool is_carried(const plan *p, int argument) {
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].argument == argument) return true;
  return false;
}

// Is it alive when the nest begins and after it? A buffer that the nest fills may take the place of
// one that it reads last.
static bool lives_into(int nest, int first, int last) { return first < nest && nest <= last; }

// Elements that a thread holds before a nest, beside its states: buffers, and values that it has
// read and will read again. LLVM loads the latter once.
static int64_t numbers_before(const kernel_plan *w, const program_plan *p, int nest) {
  const tile_program *program = p->p->program;
  int64_t numbers = 0;
  vec_each(const plan_buffer, b, p->p->buffers) {
    bool mine = is_placed_here(b) && !b->numbers.sizes && !is_of_prologue(p, b);
    if (mine && lives_into(nest, b->first, b->last)) numbers += b->numbers.factor;
  }
  for (tile_id id = 0; id < program->values.count; id++) {
    const tile_value *v = tile_at(program, id);
    const plan_value *pv = &p->p->values[id];
    if (v->op != TILE_ARGUMENT || is_carried(p->p, tile_argument_number(v))) continue;
    if (lives_into(nest, pv->first_read, pv->last_read))
      numbers += numbers_over_axes(program, plan_tile_axes(&w->m, v->axes));
  }
  return numbers;
}

static int64_t most_between_nests(const kernel_plan *w, const program_plan *p) {
  int64_t most = 0;
  for (int n = 1; n < p->p->nests.count; n++) {
    int64_t numbers = numbers_before(w, p, n);
    if (numbers > most) most = numbers;
  }
  return most;
}

static int64_t numbers_of_states(const kernel_plan *w) {
  int64_t numbers = 0;
  for (int c = 0; c < w->main.carried.count; c++)
    numbers += w->main.carried.items[c].memory.numbers.factor;
  return numbers;
}

// Does a step alone exceed the registers? Backward also holds the gradients that it adds up. ptxas
// reloads some values that backward reads again, so backward may have more.
static bool is_long_step(const kernel_plan *w) {
  int64_t between = most_between_nests(w, &w->main);
  if (!w->recomputes) return numbers_of_states(w) + between > GPU_COST_ALIVE;
  return numbers_of_thread(&w->main) + between > GPU_COST_ALIVE_BACK;
}

// Do states and sums exceed the registers, beside temporaries? Backward holds states and their
// cotangents at once.
static bool has_register_pressure(const kernel_plan *w) {
  if (w->m.kind != MAP_THREADS) return false;
  if (is_long_step(w)) return true;
  if (!w->recomputes) return numbers_of_thread(&w->main) > GPU_COST_HELD;
  return numbers_of_thread(&w->main) + numbers_of_thread(&w->recompute) > GPU_COST_HELD_BACK;
}

// Do the states alone exceed the registers, or the values of a step?
static bool carries_many(const kernel_plan *w) {
  return numbers_of_states(w) > GPU_COST_CARRIED || is_long_step(w);
}

// Under register pressure, values that are alive all the time lie in shared memory, neighbouring
// threads side by side. With m.looped all arrays of a thread do, because states and cotangents
// exceed the registers as well.
static void place_under_pressure(kernel_plan *w, program_plan *p) {
  for (int i = 0; i < p->p->buffers.count; i++) {
    plan_buffer *b = &p->p->buffers.items[i];
    bool mine = is_of_prologue(p, b) || (w->m.looped && is_placed_here(b));
    if (b->numbers.sizes || (!b->persistent && !mine)) continue;
    b->stack = false;
    if (mine) p->buffer_at[i] = gpu_take(w, b->numbers.factor);
  }
}

static void place_program(kernel_plan *w, program_plan *p) {
  if (!p->buffer_at) open_places(w, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    plan_buffer *b = &p->p->buffers.items[i];
    b->stack = w->m.kind == MAP_THREADS && !b->numbers.sizes;
    if (!is_placed_here(b) || !b->numbers.sizes) continue;
    p->buffer_at[i] = kernel_take_extent(w, b->numbers, 1);
  }
  for (int c = 0; c < p->carried.count; c++)
    p->carried.items[c].memory.stack = p->carried_at[c].offset < 0;
  if (w->register_pressure) place_under_pressure(w, p);
  if (w->m.kind == MAP_BLOCK) place_by_lives(w, p);
}

static bool has_matrices(const program_plan *p) {
  vec_each(const plan_nest, nest, p->p->nests)
    if (nest->kind == NEST_DOT && (nest->dot.i < 0 || nest->region == REGION_STEPS)) return true;
  return false;
}

// The parameter that the prologue copies into the buffer; -1: the prologue copies none.
static int copied_parameter(const program_plan *p, int buffer) {
  vec_each(const plan_nest, nest, p->p->nests) {
    if (nest->kind != NEST_PACK || nest->region != REGION_PROLOGUE || nest->pack != buffer)
      continue;
    const tile_value *v = tile_at(p->p->program, nest->packed);
    return v->op == TILE_ARGUMENT ? tile_place_of(p->program, v)->tensor : -1;
  }
  return -1;
}

// The buffer of the main program with the same copy, or -1.
static int same_copy(const kernel_plan *w, const program_plan *p, int buffer) {
  const plan_buffer *b = &p->p->buffers.items[buffer];
  int tensor = copied_parameter(p, buffer);
  for (int i = 0; p != &w->main && tensor >= 0 && i < w->main.p->buffers.count; i++) {
    const plan_buffer *other = &w->main.p->buffers.items[i];
    bool same = b->stored == other->stored && !memcmp(b->stride, other->stride, sizeof b->stride);
    if (same && copied_parameter(&w->main, i) == tensor) return i;
  }
  return -1;
}

static void place_matrices(kernel_plan *w, program_plan *p) {
  open_places(w, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (!is_of_prologue(p, b) || b->numbers.sizes) continue;
    int same = same_copy(w, p, i);
    p->buffer_at[i] = same >= 0 ? w->main.buffer_at[same] : gpu_take(w, buffer_words(b));
  }
}

static bool place_all_matrices(kernel_plan *w) {
  if (w->m.kind != MAP_BLOCK || w->k->program->form != TILE_STEP) return false;
  if (!has_matrices(&w->main) && !(w->recomputes && has_matrices(&w->recompute))) return false;
  place_matrices(w, &w->main);
  if (w->recomputes) place_matrices(w, &w->recompute);
  return true;
}

static void place_programs(kernel_plan *w) {
  place_program(w, &w->main);
  if (w->recomputes) place_program(w, &w->recompute);
  gpu_place_ahead(w);
  gpu_place_steps(w);
}

// Values of the prologue are read in every run, so they come first in shared memory.
static void place_prologue(kernel_plan *w, program_plan *p) {
  open_places(w, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (is_of_prologue(p, b)) p->buffer_at[i] = gpu_take(w, buffer_words(b));
  }
}

static bool may_sum(const mapping *m, const tile_place *place) {
  if (m->kind != MAP_THREADS || place->role == TILE_KEEP) return false;
  int lanes = m->kernel->lane_axis;
  return lanes < 0 || !axis_in(tile_body_axes(place), lanes);
}

// The most elements of shared memory that a nest needs to sum its results over threads
// (lower/gpu/nests.c).
static int64_t numbers_of_sums(const mapping *m, const plan *p, const plan_nest *nest,
                               int threads) {
  int64_t numbers = 0;
  for (int i = 0; i < nest->results.count; i++) {
    const tile_place *place = &p->program->results.items[nest->results.items[i]].place;
    int64_t points = plan_entries(p->program, nest->axes);
    if (may_sum(m, place)) numbers += (points < 0 ? 1 : points) * (threads / GPU_WARP_LANES);
  }
  return numbers;
}

static int64_t most_sums(const kernel_plan *w, const program_plan *p) {
  int64_t most = 0;
  for (int n = 0; n < p->p->nests.count; n++) {
    int64_t numbers = numbers_of_sums(&w->m, p->p, &p->p->nests.items[n], w->threads);
    if (numbers > most) most = numbers;
  }
  return most;
}

static void place_sums(kernel_plan *w) {
  if (w->m.kind == MAP_BLOCK) {
    w->sums = w->shared_words;
    w->shared_words += GPU_MOST_WARPS;
    return;
  }
  int64_t numbers = most_sums(w, &w->main);
  if (gpu_overflow_sums(w) > numbers) numbers = gpu_overflow_sums(w);
  if (w->recomputes && most_sums(w, &w->recompute) > numbers) numbers = most_sums(w, &w->recompute);
  w->sums = w->shared_words;
  w->shared_words += up(numbers);
}

// ---- the plan of a kernel ----

// Backward with recomputed states. Shared memory begins with the cotangents of states and the
// values of prologues. Behind them lie the rows and buffers of backward, or the states, rows and
// buffers of the recomputation, in the same place.
static void plan_groups_of_chunks(kernel_plan *w) {
  kernel_plan_program(w, &w->main, w->k->program, true);
  kernel_plan_program(w, &w->recompute, w->k->recompute, false);
  place_sums(w);
  gpu_place_carried(w, &w->main);
  place_prologue(w, &w->main);
  place_prologue(w, &w->recompute);
  int64_t shared = w->shared_words;
  kernel_place_staging(w, &w->main);
  kernel_place_history(w, &w->main);
  if (w->in_tiles) gpu_place_value_tiles(w);
  place_program(w, &w->main);
  int64_t back = w->shared_words;
  w->shared_words = shared;
  gpu_place_carried(w, &w->recompute);
  kernel_place_staging(w, &w->recompute);
  place_program(w, &w->recompute);
  if (back > w->shared_words) w->shared_words = back;
  gpu_place_ahead(w);
}

// All other kernels. A step with matrices of parameters reads its buffers again and again, but what
// is kept of a chunk once or twice. Its buffers therefore come first in shared memory.
static void plan_in_one_pass(kernel_plan *w) {
  bool back = kernel_goes_back(w->k->kind);
  if (w->recomputes) kernel_plan_program(w, &w->recompute, w->k->recompute, false);
  kernel_plan_program(w, &w->main, w->k->program, back);
  w->register_pressure = has_register_pressure(w);
  w->m.looped = w->register_pressure && (w->recomputes || carries_many(w));
  if (w->recomputes) gpu_place_around(w, &w->recompute);
  gpu_place_around(w, &w->main);
  place_sums(w);
  bool dense = place_all_matrices(w);
  if (dense) place_programs(w);
  kernel_place_history(w, &w->main);
  kernel_place_stashes(w);
  if (!dense) place_programs(w);
  kernel_place_kept(w, &w->main);
}

void gpu_plan_make(kernel_plan *w) {
  w->take = gpu_take;
  w->copies = w->m.kind == MAP_THREADS ? w->threads : 1;
  w->in_tiles = gpu_has_value_tiles(w->k);
  if (w->in_tiles) w->value_tiles = gpu_most_value_tiles(w->k);
  bool again = w->recomputes && w->k->program->form == TILE_CHUNK;
  (again ? plan_groups_of_chunks : plan_in_one_pass)(w);
  gpu_place_columns(w);
  gpu_mark_products(w, &w->main);
  if (w->recomputes) gpu_mark_products(w, &w->recompute);
}
