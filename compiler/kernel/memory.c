/* Memory: how a clone uses the axes of a kernel, and where everything that it holds lies in scratch.
 *
 *   Mamba on x86-64-v4: lanes 32 of D; state [N] x 32 and sums of parameters, then rows of a chunk again, then buffers
 */
#include "compiler/kernel/frame.h"

/* ---- the mapping of a clone ---- */

static axis_set consumed_or_instance(const kernel *k) {
  return (host_grid_of(k) & ~host_parts_of(k)) | ~k->program->grid;
}

axis_set host_parts_of(const kernel *k) {
  axis_set parts = k->lanes == LANES_TILE ? axis_bit(k->lane_axis) : 0;
  return k->part_entries ? parts | axis_bit(k->part_axis) : parts;
}

/* Elements of all states per lane: decides how many lanes are computed together. A run-time size counts as a large one. */
static int64_t state_points(const kernel *k) {
  enum { TYPICAL_SIZE = 64 };
  int64_t points = 0;
  for (int i = 0; i < k->program->arguments.count; i++) {
    const tile_place *place = &k->program->arguments.items[i];
    if (place->role != TILE_STATE && place->role != TILE_D_NEXT_STATE) continue;
    int64_t n = 1;
    for (int x = 0; x < place->axis_count; x++) {
      int axis = place->axes[x];
      int64_t size = k->program->axes.items[axis].size;
      if (!axis_in(host_grid_of(k), axis)) n *= size == TILE_RUNTIME_SIZE ? TYPICAL_SIZE : size;
    }
    points += n;
  }
  return points;
}

static bool has_shared_work(const kernel *k, int inner) {
  for (int i = 0; i < k->program->values.count; i++) {
    const tile_value *v = &k->program->values.items[i];
    if (v->op == TILE_DOT && !axis_in(v->axes, inner)) return true;
  }
  return false;
}

/* Programs of many values are compiled for one vector of lanes, and for masked lanes only: code is what costs then. */
enum { MANY_VALUES = 200 };

bool host_is_long(const kernel *k) {
  return k->program->values.count + (k->recompute ? k->recompute->values.count : 0) > MANY_VALUES;
}

enum { RANKS_PER_AXIS = PLAN_MAX_AXES, TIME_RANK = PLAN_MAX_AXES };

/* Entries that do not fill a vector: tiles do not end with such an axis, whatever the caller's tensors look like. */
static bool is_narrow(const mapping *m, int axis) {
  const tile_program *p = m->kernel->program;
  int64_t size = p->axes.items[axis].size;
  return m->kind == MAP_LANES && p->form == TILE_CHUNK && size > 0 && size < 8;
}

/* Steps: rows of no tensor lie along it, though rows lie side by side along it. */
static bool is_outer(const mapping *m, int axis) {
  const typed_body *body = &m->kernel->recurrence->body;
  if (m->kind != MAP_LANES || m->kernel->program->form != TILE_STEP || m->lane_axis >= 0) return false;
  bool found = false;
  for (int i = 0; i < body->tensors.count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    if (!axis_in(t->axis_set, axis) || t->axis_count < 2) continue;
    if (t->axes[t->axis_count - 1] == axis) return false;
    found = true;
  }
  return found;
}

static bool comes_first(const mapping *m, int axis) { return is_narrow(m, axis) || is_outer(m, axis); }

static int rank_of_body_axis(const mapping *m, int axis) {
  const kernel *k = m->kernel;
  axis_set low = consumed_or_instance(k);
  return RANKS_PER_AXIS * (axis == k->program->time_axis   ? TIME_RANK
                           : axis == k->program->pair_axis ? TIME_RANK + 1
                           : comes_first(m, axis)          ? axis
                           : axis_in(low, axis)            ? TIME_RANK + 2 + axis
                                                           : 2 * TIME_RANK + 2 + axis);
}

static bool is_local(const tile_program *p, int axis) {
  return p->axes.items[axis].body_axis < 0 && axis != p->time_axis && axis != p->pair_axis;
}

/* Narrow axes and time first, what instances are cut from last. Parts of an axis stand where it stands, outer before
 * inner: then a value with both lies in memory as one with the whole axis. */
static void rank_axes(mapping *m) {
  const tile_program *p = m->kernel->program;
  for (int axis = 0; axis < p->axes.count; axis++) {
    m->rank[axis] =
        is_local(p, axis) ? RANKS_PER_AXIS * TIME_RANK + 1 : rank_of_body_axis(m, axis);
  }
  bool changed = true;
  for (int round = 0; changed && round < RANKS_PER_AXIS / 2; round++) {
    changed = false;
    for (int i = 0; i < p->values.count; i++) {
      const tile_value *v = &p->values.items[i];
      if (v->op != TILE_SPLIT && v->op != TILE_JOIN) continue;
      int *outer = &m->rank[v->index2], *inner = &m->rank[v->index3];
      int whole = m->rank[v->index] / RANKS_PER_AXIS * RANKS_PER_AXIS;
      if (is_local(p, v->index2) && *outer <= whole) *outer = whole + 1, changed = true;
      if (is_local(p, v->index3) && *inner <= *outer) *inner = *outer + 1, changed = true;
    }
  }
}

mapping host_mapping_of(const kernel *k, codegen_clone clone, number_type dtype) {
  bool f64 = dtype == NUMBER_F64;
  mapping m = {
      .kernel = k, .dtype = dtype, .f64 = f64, .lane_axis = k->lane_axis, .shared_axis = -1};
  m.width = codegen_lanes(clone, f64);
  for (int i = 0; i < k->grid_count; i++) m.instance |= axis_bit(k->grid_axes[i]);
  if (clone == CLONE_GPU) {
    m.kind = k->lane_axis >= 0 && k->lanes == LANES_OWN ? MAP_THREADS : MAP_BLOCK;
    m.parts = host_parts_of(k);
    m.instance = host_grid_of(k) & ~m.parts;
    m.lane_axis = -1;
    m.groups = k->groups && m.kind == MAP_BLOCK && number_is_narrow(dtype);
    rank_axes(&m);
    return m;
  }
  if (k->lane_axis >= 0) {
    int64_t points = state_points(k);
    bool one = host_is_long(k) || k->program->form == TILE_CHUNK;
    int together = one ? 1 : points > 32 || points <= 2 ? 4 : 2;
    m.lanes = m.width * together < k->lane_block ? m.width * together : k->lane_block;
  }
  int inner = k->grid_count ? k->grid_axes[k->grid_count - 1] : -1;
  bool whole = k->program->form == TILE_CHUNK && m.lane_axis < 0;
  if (whole && inner >= 0 && has_shared_work(k, inner)) {
    m.chunks_outside = true;
    m.shared_axis = inner;
  }
  rank_axes(&m);
  return m;
}

/* ---- memory ---- */

static int64_t rounded_up(int64_t n) { return (n + 15) / 16 * 16; }

static int64_t take(int64_t *total, int64_t numbers) {
  int64_t offset = *total;
  *total += rounded_up(numbers);
  return offset;
}

/* GPU: shared memory while there is some. Where threads share nothing each has its own numbers. */
location gpu_take(host *h, int64_t numbers) {
  if (h->m.kind == MAP_THREADS) numbers *= h->team.threads;
  numbers = (numbers + 31) / 32 * 32; /* lines of banks */
  int64_t at = gpu_chip_place(h, h->on_chip, numbers);
  if (at + numbers > h->chip_limit) return (location){take(&h->shared_numbers, numbers), -1, false};
  h->on_chip = at + numbers;
  return (location){at, -1, true};
}

/* Scratch of the call for so many of an extent. */
static location take_extent(host *h, extent numbers, int64_t times) {
  numbers.factor *= times;
  if (h->m.kind != MAP_LANES && !numbers.sizes) return gpu_take(h, numbers.factor);
  if (!numbers.sizes) return (location){take(&h->shared_numbers, numbers.factor), -1, false};
  if (h->k->program->form == TILE_CHUNK) ICE("kernel", "%s has run-time tiles", h->symbol);
  vec_push(h->a, &h->sized, numbers);
  return (location){0, h->sized.count - 1, false};
}

enum { STACK_VECTORS = 32 };

static const location on_stack = {-1, -1, false};

/* What lives from run to run. Lanes of a state need not be in it: a buffer without the lane axis is small, too. */
static location place_persistent(host *h, const plan_buffer *b) {
  if (h->crowded && !b->numbers.sizes) return gpu_take(h, b->numbers.factor);
  if (h->in_passes) return (location){take(&h->instance_numbers, b->numbers.factor), -1, false};
  if (h->m.kind == MAP_THREADS && !b->numbers.sizes) return on_stack;
  bool small = !b->numbers.sizes && b->numbers.factor <= (int64_t)STACK_VECTORS * h->m.width;
  if (!h->m.chunks_outside && b->lane && small) return on_stack;
  if (h->m.chunks_outside)
    return (location){take(&h->instance_numbers, b->numbers.factor), -1, false};
  return take_extent(h, b->numbers, 1);
}

void host_place_carried(host *h, part *p) {
  p->carried_at = ARENA_ARRAY(h->a, location, p->carried.count);
  for (int c = 0; c < p->carried.count; c++) {
    plan_buffer words = p->carried.items[c].memory, *memory = &words;
    if (p->p->carried[c].sums >= 0)
      words.numbers.factor = p->p->carried[c].shown ? (words.numbers.factor + 1) / 2 : 0;
    bool registers = h->m.kind == MAP_THREADS && !memory->numbers.sizes;
    if (h->m.looped) registers = false;
    p->carried_at[c] =
        registers      ? on_stack
        : h->in_passes ? gpu_take(h, memory->numbers.factor) : place_persistent(h, memory);
  }
  p->persistent_at = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    p->persistent_at[i] = b->persistent ? place_persistent(h, b) : on_stack;
  }
}

static void place_scratch(host *h, part *p) {
  p->scratch = ARENA_ARRAY(h->a, location, p->p->scratch.count);
  for (int i = 0; i < p->p->scratch.count; i++)
    p->scratch[i] = take_extent(h, p->p->scratch.items[i], 1);
}

/* Buffers with a row for every step of a chunk. */
static void place_kept(host *h, part *p) {
  p->kept_at = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->kept) p->kept_at[i] = take_extent(h, plan_words(b), h->k->chunk);
  }
}

bool host_is_complex(const host *h, const tile_place *place) {
  const typed_body *body = &h->k->recurrence->body;
  if (place->tensor >= 0) return body->tensors.items[place->tensor].complex;
  return place->lag >= 0 && body->lags.items[place->lag].complex; /* values that forward keeps are of neither */
}

/* Chunk form: rows beyond the end of the sequence are read from a copy that ends in zeros. Strides inside a row stay as
 * they are in memory where they are known. What is stored in 16 bits, or lies in lanes, is always read from a copy, which is
 * dense. */
void host_place_pads(host *h, part *p) {
  p->pads = ARENA_ARRAY(h->a, pad, p->program->arguments.count);
  if (p->program->form != TILE_CHUNK) return;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (!place->time || place->role == TILE_STASH) continue;
    int64_t stride = host_is_complex(h, place) ? 2 : 1, dense = 1, last = 0;
    bool lanes = plan_has_lane(&h->m, host_axes_of_place(place));
    bool narrow = host_stores_narrow(h, place);
    if (narrow || h->m.kind == MAP_BLOCK || lanes) stride = -1;
    if (lanes) dense = h->m.lanes, last = dense - 1;
    for (int x = place->axis_count - 1; x >= 0; x--) {
      int axis = place->axes[x];
      if (axis == h->m.lane_axis) continue;
      int64_t size = p->program->axes.items[axis].size;
      if (!axis_in(h->m.instance, axis)) {
        p->pads[i].stride[axis] = stride > 0 ? stride : dense;
        last += (size - 1) * p->pads[i].stride[axis];
        dense *= size;
      }
      stride = stride > 0 && size != TILE_RUNTIME_SIZE ? stride * size : -1;
      if (stride < 0 && dense <= last) dense = last + 1;
    }
    p->pads[i].row = last + 1;
    if (h->m.kind == MAP_BLOCK) {
      int64_t numbers = (last + 1) * p->program->chunk;
      p->pads[i].at = gpu_take(h, narrow ? (numbers + 1) / 2 : numbers);
      continue;
    }
    p->pads[i].offset = take(&h->shared_numbers, (last + 1) * p->program->chunk);
  }
}

/* Rows of what is kept between the states that forward saves: steps, or chunks. */
static int64_t kept_rows(const host *h) { return h->k->chunk / h->k->program->chunk; }

/* In chunk form with 16 bits where products read the state, and round it; states go on from what is not rounded. */
static void place_state(host *h, part *p, int argument, const plan_buffer *memory) {
  plan_buffer *row = &p->history[argument];
  *row = *memory;
  if (h->k->program->form != TILE_CHUNK) {
    p->history_at[argument] = take_extent(h, row->numbers, kept_rows(h));
    return;
  }
  row->groups = false;
  row->stored = plan_narrows_argument(&h->m, p->p, argument) ? h->m.dtype : NUMBER_F32;
  int64_t words = plan_words(row).factor * kept_rows(h);
  h->history += words;
  p->history_at[argument] = (location){take(&h->shared_numbers, words), -1, false};
}

void host_place_history(host *h, part *p) {
  p->history = ARENA_ARRAY(h->a, plan_buffer, p->program->arguments.count);
  p->history_at = ARENA_ARRAY(h->a, location, p->program->arguments.count);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    p->history_at[i] = on_stack;
    if (!h->has_again || p != &h->main || place->role != TILE_STATE) continue;
    for (int c = 0; c < h->again.carried.count; c++) {
      const carried_value *state = &h->again.carried.items[c];
      if (plan_same_state(&state->place, place)) place_state(h, p, i, &state->memory);
    }
    if (p->history_at[i].offset < 0)
      ICE("kernel", "no recomputation of state %s", place->name ? place->name : "?");
  }
}

static void place_stashes(host *h) {
  if (!h->has_again) return;
  const tile_program *program = h->k->recompute;
  for (int i = 0; i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    if (place->role == TILE_KEEP && place->stash >= h->stash_count)
      h->stash_count = place->stash + 1;
  }
  h->stash_at = ARENA_ARRAY(h->a, location, h->stash_count);
  h->stashes = ARENA_ARRAY(h->a, plan_buffer, h->stash_count);
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *r = &program->results.items[i];
    if (r->place.role != TILE_KEEP) continue;
    axis_set axes = program->values.items[r->value].axes;
    bool lane = h->m.lane_axis >= 0 && axis_in(axes, h->m.lane_axis);
    plan_buffer b = plan_buffer_for(&h->m, program, plan_tile_axes(&h->m, axes), lane, -1);
    h->stashes[r->place.stash] = b;
    h->stash_at[r->place.stash] = take_extent(h, b.numbers, h->k->chunk);
  }
}

void host_plan_program(host *h, part *p, const tile_program *program, bool backward) {
  p->program = program;
  p->backward = backward;
  p->carried = plan_carried(h->a, &h->m, program, backward);
  p->p = plan_program(h->a, &h->m, program, &p->carried);
  for (int c = 0; c < p->carried.count; c++) /* memory has a copy */
    if (p->p->carried[c].sums >= 0) {
      p->carried.items[c].memory.stored = h->m.dtype;
      p->carried.items[c].memory.groups = p->p->carried[c].groups;
    }
}

static void place_around(host *h, part *p) {
  host_place_carried(h, p);
  host_place_pads(h, p);
}

void host_plan(host *h) {
  h->in_passes = gpu_has_passes(h->k);
  h->has_again = host_reads_saved(h->k) && h->k->recompute;
  if (h->has_again && h->k->program->form == TILE_CHUNK) {
    gpu_plan_chunks(h);
    gpu_place_columns(h);
    return;
  }
  if (h->has_again) host_plan_program(h, &h->again, h->k->recompute, false);
  bool back = h->k->kind == KERNEL_BACKWARD || h->k->kind == KERNEL_PART_BACK;
  host_plan_program(h, &h->main, h->k->program, back);
  h->crowded = gpu_is_crowded(h);
  h->m.looped = h->crowded && (h->has_again || gpu_carries_many(h));
  if (h->has_again) place_around(h, &h->again);
  place_around(h, &h->main);
  if (h->m.kind != MAP_LANES) gpu_place_sums(h);
  host_place_history(h, &h->main);
  place_stashes(h);
  if (h->m.kind != MAP_LANES) {
    gpu_place(h);
    gpu_place_columns(h);
    return;
  }
  place_scratch(h, &h->main);
  if (h->has_again) place_scratch(h, &h->again);
  place_kept(h, &h->main);
}

codegen_bytes host_bytes_of(const host *h) {
  int64_t size = h->m.f64 ? 8 : 4;
  if (h->in_passes)
    return (codegen_bytes){
        .constant = (h->shared_numbers + h->instance_numbers * gpu_most_passes(h->k)) * size + 64};
  codegen_bytes bytes = {.constant = h->shared_numbers * size + 64,
                         .per_instance = h->instance_numbers * size};
  for (int i = 0; i < h->sized.count; i++) {
    const extent *block = &h->sized.items[i];
    codegen_bytes_add(h->a, &bytes, (codegen_bytes_term){block->factor * size, block->sizes});
  }
  return bytes;
}
