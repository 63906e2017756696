/* GPU: where buffers, states and the rows of a chunk lie.
 *
 *   each thread alone    registers; rows of a chunk again in shared memory, neighbours from thread to thread
 *   a thread block       states, then the rows of this chunk, then buffers, first fit by their lives, in shared memory;
 *                        what does not fit in the block's scratch
 */
#include "gpu_parts.h"
#include "host_parts.h"

/* ---- places ---- */

/* Whole lines of banks. */
static int64_t up(int64_t n) { return (n + 31) / 32 * 32; }

/* Numbers of 32 bits. */
static int64_t words_of(const plan_buffer *b) {
  return up(number_is_narrow(b->stored) ? (b->numbers.factor + 1) / 2 : b->numbers.factor);
}

/* First fit behind the placed buffers that live at the same time, from `base` on. */
static int64_t first_fit(const part *p, int index, int64_t base, bool on_chip) {
  const plan_buffer *b = &p->p->buffers.items[index];
  int64_t offset = base;
  for (int k = 0; k < index; k++) {
    const plan_buffer *other = &p->p->buffers.items[k];
    location at = p->buffer_at[k];
    if (at.offset < 0 || at.sized >= 0 || at.on_chip != on_chip) continue;
    if (other->last < b->first || b->last < other->first) continue;
    int64_t end = at.offset + words_of(other);
    if (at.offset < offset + words_of(b) && offset < end) {
      offset = end;
      k = -1;
    }
  }
  return offset;
}

static bool is_placed_here(const plan_buffer *b) {
  return b->last >= 0 && b->carried < 0 && !b->persistent;
}

static void place_by_lives(host *h, part *p) {
  int64_t chip = h->on_chip, scratch = h->shared_numbers;
  for (int i = 0; i < p->p->buffers.count; i++) {
    plan_buffer *b = &p->p->buffers.items[i];
    if (!is_placed_here(b) || b->numbers.sizes || p->buffer_at[i].offset >= 0) continue;
    int64_t numbers = words_of(b), offset = first_fit(p, i, chip, true);
    bool fits = offset + numbers <= h->chip_limit;
    if (!fits) offset = first_fit(p, i, scratch, false);
    p->buffer_at[i] = (location){offset, -1, fits};
    int64_t *used = fits ? &h->on_chip : &h->shared_numbers;
    if (offset + numbers > *used) *used = offset + numbers;
  }
}

static void open_places(host *h, part *p) {
  p->buffer_at = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) p->buffer_at[i] = (location){-1, -1, false};
}

static void place_part(host *h, part *p) {
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
  for (int c = 0; c < p->carried.count; c++)
    p->carried.items[c].memory.stack = p->carried_at[c].offset < 0;
  if (h->m.kind == MAP_BLOCK) place_by_lives(h, p);
}

void gpu_place(host *h) {
  place_part(h, &h->main);
  if (h->has_again) place_part(h, &h->again);
}

/* What the prologue makes is read in every run. */
static void place_prologue(host *h, part *p) {
  open_places(h, p);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (is_placed_here(b) && p->p->nests.items[b->first].region == REGION_PROLOGUE)
      p->buffer_at[i] = gpu_take(h, words_of(b));
  }
}

/* Shared memory: cotangents of states and what prologues make; behind them either the rows and buffers of the chunks back,
 * or states, rows and buffers of the chunks again. */
void gpu_plan_chunks(host *h) {
  host_plan_program(h, &h->main, h->k->program, true);
  host_plan_program(h, &h->again, h->k->recompute, false);
  gpu_place_sums(h);
  host_place_carried(h, &h->main);
  place_prologue(h, &h->main);
  place_prologue(h, &h->again);
  int64_t shared = h->on_chip;
  host_place_pads(h, &h->main);
  host_place_history(h, &h->main);
  place_part(h, &h->main);
  int64_t back = h->on_chip;
  h->on_chip = shared;
  host_place_carried(h, &h->again);
  host_place_pads(h, &h->again);
  place_part(h, &h->again);
  if (back > h->on_chip) h->on_chip = back;
}

static int64_t most_sums(const host *h, const part *p) {
  int64_t most = 0;
  for (int n = 0; n < p->p->nests.count; n++) {
    int64_t numbers = team_numbers(&h->m, p->p, &p->p->nests.items[n], h->team.threads);
    if (numbers > most) most = numbers;
  }
  return most;
}

void gpu_place_sums(host *h) {
  if (h->m.kind == MAP_BLOCK) {
    h->sums = h->on_chip;
    h->on_chip += GPU_MOST_WARPS;
    return;
  }
  int64_t numbers = most_sums(h, &h->main);
  if (h->has_again && most_sums(h, &h->again) > numbers) numbers = most_sums(h, &h->again);
  h->sums = h->on_chip;
  h->on_chip += up(numbers);
}

view gpu_view(host *h, lower *l, const plan_buffer *b, location at, ir rows_before) {
  emitter *e = h->e;
  ir base = host_located(h, at);
  int64_t threads = h->m.kind == MAP_THREADS ? h->team.threads : 1;
  base = element(e, e->real, base, int_mul(e, rows_before, integer(e, threads)));
  if (threads > 1) base = element(e, e->real, base, h->team.thread);
  plan_buffer plain = *b;
  plain.stack = true;
  view v = buffer_view(l, &plain, base);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (v.stride[axis]) v.stride[axis] = int_mul(e, v.stride[axis], integer(e, threads));
  }
  return v;
}

/* ---- rows of a chunk ---- */

typedef struct stage_data {
  const view *from, *to;
  axis_set axes;
  int t;
  ir rows;
} stage_data;

/* Rows beyond the end of the sequence are 0. */
static void stage_row(lower *l, const place_in_loops *at, void *data) {
  const stage_data *d = data;
  emitter *e = l->e;
  ir slot = stack_slot(e, e->real, "row");
  store_real(e, real_number(e, 0, 0), slot);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, at->index[d->t], d->rows));
  store_real(e, view_load(l, d->from, at, d->axes), slot);
  branch_end(e, &branch);
  view_store(l, d->to, at, d->axes, load_real(e, slot, 0));
}

void gpu_stage_rows(host *h, part *p, int argument, ir begin, ir rows) {
  emitter *e = h->e;
  int t = p->program->time_axis;
  const tile_place *place = &p->program->arguments.items[argument];
  const pad *d = &p->pads[argument];
  view memory = host_at_time(h, p->memory[argument], begin, p->time_stride[argument]);
  ir present = memory.present;
  memory.present = NULL;
  memory.stride[t] = p->time_stride[argument];
  view copy = {.base = host_located(h, d->at), .stored = memory.stored, .alignment = 16};
  copy.stride[t] = integer(e, d->row);
  copy.swizzle = view_swizzle(copy.stored, d->row);
  for (int x = 0; x < place->axis_count; x++) {
    int axis = place->axes[x];
    if (!axis_in(h->m.instance, axis)) copy.stride[axis] = integer(e, d->stride[axis]);
  }
  axis_set axes = tile_place_axes(p->program, place);
  stage_data data = {.from = &memory, .to = &copy, .axes = axes, .t = t};
  data.rows = present ? int_choose(e, present, rows, integer(e, 0)) : rows;
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, axes), false, stage_row, &data);
  p->l.arguments[argument] = copy;
}
