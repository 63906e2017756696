// Host: loops over the chunks of a sequence, in order or in reverse, and what a loop over single
// steps (../steps.c) prefetches.
//
//   chunks:   for chunk: body                            forward; backward, if the states before each chunk are saved
//   groups:   for group of chunks from the last:  load the states before it; chunk after chunk: keep the states, states again;
//             the same chunks back
#include "compiler/kernel/host/loops.h"
#include "compiler/lower/host/nests.h"

// ---- step form: the rows of a step a few steps ahead ----

enum { STEPS_AHEAD = 8 };

typedef struct fetch_data {
  const view *row;
  axis_set axes;
  int last;  // contiguous
  bool write;
} fetch_data;

static int numbers_of_line(const lower *l, const view *v) {
  return FETCH_LINE / number_stored_bytes(v->stored, l->m->f64);
}

static bool is_contiguous(const view *v, int axis) {
  return axis >= 0 && int_is(v->stride[axis], 1);
}

// Prefetches the lines of a vector of lanes.
static void fetch_lanes(lower *l, const place_in_loops *at, const fetch_data *d) {
  if (!at->lanes || !is_contiguous(d->row, at->vector_axis)) return;
  ir address = view_address(l, d->row, at, d->axes);
  for (int n = 0; n < at->lanes; n += numbers_of_line(l, d->row))
    fetch_line(l->e, element(l->e, view_type(l->e, d->row), address, integer(l->e, n)), d->write,
               3);
}

static void fetch_number(lower *l, const place_in_loops *at, const fetch_data *d, ir index) {
  place_in_loops number = *at;
  number.index[d->last] = index;
  fetch_line(l->e, view_address(l, d->row, &number, d->axes), d->write, 3);
}

// Prefetches the lines of a row. It may begin within a line: its last number is fetched, too.
static void fetch_row(lower *l, const place_in_loops *at, void *data) {
  const fetch_data *d = data;
  emitter *e = l->e;
  ir size = l->axis_size[d->last];
  emit_loop loop = loop_begin(e, integer(e, 0), size, numbers_of_line(l, d->row), "line");
  fetch_number(l, at, d, loop.index);
  loop_end(e, &loop);
  fetch_number(l, at, d, int_sub_n(e, size, 1));
}

// Rows in lanes, or in the tile; what has both is a matrix, which would push others out.
static void fetch_tensor(kernel_frame *h, frame_program *p, const tile_place *place, view tensor,
                         ir t, ir stride, bool write) {
  axis_set axes = tile_body_axes(place), tile = plan_tile_axes(&h->m, axes);
  if (!place->time || place->ahead || !tensor.base) return;
  bool lane = plan_has_lane(&h->m, axes);
  if (lane == (tile != 0)) return;
  view v = frame_at_time(h, tensor, t, stride);
  loop_axes rows = lower_by_rank(&p->l, tile);
  fetch_data data = {&v, axes, lane ? -1 : rows.axes[--rows.count], write};
  p->l.outside = h->at;
  place_in_loops at = lane ? h->at : lower_start_place(&p->l, false);
  if (lane)
    fetch_lanes(&p->l, &at, &data);
  else if (is_contiguous(&v, data.last))
    lower_loops_over(&p->l, &rows, 0, &at, fetch_row, &data);
}

// Steps lie further apart than a page when there are many channels: no processor foresees them.
static void fetch_ahead(kernel_frame *h, frame_program *p, ir t) {
  if (h->m.kind != MAP_LANES) return;
  ir ahead = int_add_n(h->e, t, p->backward ? -STEPS_AHEAD : STEPS_AHEAD);
  for (int i = 0; i < p->program->arguments.count; i++)
    fetch_tensor(h, p, &p->program->arguments.items[i], p->memory[i], ahead, p->time_stride[i],
                 false);
  for (int i = 0; i < p->program->results.count; i++)
    fetch_tensor(h, p, &p->program->results.items[i].place, p->result_memory[i], ahead,
                 p->result_time_stride[i], true);
}

void host_arguments_of_step(kernel_frame *h, frame_program *p, ir t) {
  fetch_ahead(h, p, t);
  for (int i = 0; i < p->program->arguments.count; i++) frame_argument_of_step(h, p, i, t);
}

// ---- chunk form ----

typedef struct pad_data {
  const view *from, *to;
  axis_set axes;
  int t;
  ir rows;
} pad_data;

static void pad_point(lower *l, const place_in_loops *at, void *data) {
  const pad_data *d = data;
  emitter *e = l->e;
  if (at->vector_axis == d->t) {
    place_in_loops where = *at;
    where.mask = lane_mask(e, int_sub(e, d->rows, at->index[d->t]), at->lanes);
    view_store(l, d->to, at, d->axes, view_load(l, d->from, &where, d->axes));
    return;
  }
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, at->index[d->t], d->rows));
  view_store(l, d->to, at, d->axes, view_load(l, d->from, at, d->axes));
  branch_else(e, &branch);
  view_store(l, d->to, at, d->axes, real_number(e, 0, 0));
  branch_end(e, &branch);
}

static view one_of_both(emitter *e, ir first, const view *a, const view *b) {
  view v = {.base = LLVMBuildSelect(e->b, first, a->base, b->base, "")};
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (!b->stride[axis]) continue;
    int64_t x, y;
    bool same = int_known(a->stride[axis], &x) && int_known(b->stride[axis], &y) && x == y;
    v.stride[axis] =
        same ? a->stride[axis] : LLVMBuildSelect(e->b, first, a->stride[axis], b->stride[axis], "");
  }
  return v;
}

// Does a product read the rows as they lie, once for each block of its own?
static bool is_read_again(const frame_program *p, int argument) {
  vec_each(const plan_nest, nest, p->p->nests) {
    if (nest->kind != NEST_DOT || nest->dot.pack_b >= 0) continue;
    const tile_value *of = tile_at(p->p->program, plan_root(p->p->program, nest->dot.b));
    if (of->op == TILE_ARGUMENT && of->index == argument) return true;
  }
  return false;
}

// Rows a multiple of 4096 bytes apart share the sets of the first-level cache, which has 8 to 12 lines
// of a set. A product reads such rows from the second-level cache for each of its blocks. In chunks of
// 16 steps that cache has no time for them, for the state passes through it as often.
static ir rows_collide(kernel_frame *h, const frame_program *p, int i) {
  enum { SET_DISTANCE = 4096, COLLIDING = 16 };
  emitter *e = h->e;
  if (p->program->chunk != COLLIDING || !is_read_again(p, i)) return LLVMConstInt(e->i1, 0, 0);
  ir distance = int_mul_n(e, p->time_stride[i], h->m.f64 ? 8 : 4);
  ir place = bit_and(e, distance, integer(e, SET_DISTANCE - 1));
  return int_compare(e, LLVMIntEQ, place, integer(e, 0));
}

// The argument at the rows of this chunk: in memory, or a copy that ends in zeros if rows are
// missing or collide. The copy of what instances share is made for the first of them (`new_group`;
// NULL: for each).
static void set_rows(kernel_frame *h, frame_program *p, int i, ir begin, ir rows, ir new_group) {
  emitter *e = h->e;
  int t = p->program->time_axis;
  const tile_place *place = &p->program->arguments.items[i];
  const staging_buffer *d = &p->at->staging_buffers[i];
  view memory = frame_at_time(h, p->memory[i], begin, p->time_stride[i]);
  ir present = memory.present;
  memory.present = NULL;
  memory.stride[t] = p->time_stride[i];
  ir inside = integer(e, 0);
  view copy = {.base = frame_located(h, d->at)};
  copy.stride[t] = integer(e, d->row);
  bool lanes = plan_has_lane(&h->m, tile_body_axes(place));
  copy.internal = lanes;
  for (int x = 0; x < place->axis_count; x++) {
    int axis = place->axes[x];
    if (axis == h->m.lane_axis) {
      copy.stride[axis] = integer(e, 1);
    } else if (axis_in(h->m.instance, axis)) {
      inside = int_add(e, inside, int_mul(e, h->at.index[axis], memory.stride[axis]));
      memory.stride[axis] = NULL;
    } else {
      copy.stride[axis] = integer(e, d->stride[axis]);
    }
  }
  bool always = number_is_narrow(memory.stored) || lanes;
  memory.base = element(e, view_type(e, &memory), memory.base, inside);
  ir available = present ? int_choose(e, present, rows, integer(e, 0)) : rows;
  ir padded = int_compare(e, LLVMIntSLT, available, integer(e, p->program->chunk));
  padded = bit_or(e, padded, rows_collide(h, p, i));
  if (always) padded = LLVMConstInt(e->i1, 1, 0);
  axis_set axes = tile_place_axes(p->program, place);
  bool shared = new_group && plan_is_shared(&h->m, plan_own_axes(place));
  emit_branch branch = branch_begin(e, shared ? bit_and(e, padded, new_group) : padded);
  pad_data data = {
      .from = &memory, .to = &copy, .axes = axes & ~h->m.instance, .t = t, .rows = available};
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, axes), lanes, pad_point, &data);
  branch_end(e, &branch);
  p->l.arguments[i] = always ? copy : one_of_both(e, padded, &copy, &memory);
}

void host_set_chunk(kernel_frame *h, frame_program *p, ir chunk, ir new_group) {
  emitter *e = h->e;
  lower *l = &p->l;
  ir begin = int_mul_n(e, chunk, p->program->chunk);
  ir rows = int_min(e, int_sub(e, h->time, begin), integer(e, p->program->chunk));
  l->rows = rows;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (kernel_is_saved(p->backward, place)) {
      if (!h->recomputes) l->arguments[i] = frame_saved_view(h, place, chunk);
    } else if (place->time) {
      set_rows(h, p, i, begin, rows, new_group);
    }
  }
  for (int i = 0; i < p->program->results.count; i++) {
    if (!frame_result_of_chunk(h, p, i, chunk, begin)) continue;
    l->results[i].limit = int_choose(e, l->results[i].active, rows, integer(e, 0));
  }
}

void host_chunk_body(kernel_frame *h, ir chunk) {
  if (h->described->writes_saved) frame_save_before_chunk(h, chunk);
  lower_region(&h->main.l, REGION_BODY);
  lower_commit(&h->main.l);
}

static void host_chunks_inside(kernel_frame *h) {
  emitter *e = h->e;
  ir count = frame_chunk_count(h);
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  ir chunk = frame_chunk_in_order(h, chunks.index);
  host_set_chunk(h, &h->main, chunk, NULL);
  ir last = int_sub_n(e, count, 1);
  host_fetch_next(h, &h->main,
                  frame_chunk_in_order(h, int_min(e, int_add_n(e, chunks.index, 1), last)));
  host_chunk_body(h, chunk);
  loop_end(e, &chunks);
}

// ---- chunk form, backward: groups of chunks ----

static bool keeps_recomputed(const frame_program *again) {
  for (int i = 0; i < again->program->results.count; i++)
    if (again->program->results.items[i].place.role == TILE_KEEP) return true;
  return false;
}

static view row_of_stash(kernel_frame *h, lower *l, const tile_place *place, ir number) {
  return frame_kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], number,
                        l);
}

// Recomputes chunk `number` of the group that begins at `first`, and keeps what its backward reads.
static void chunk_again(kernel_frame *h, ir first, ir number) {
  emitter *e = h->e;
  frame_program *again = &h->recompute;
  ir chunk = int_add(e, first, number);
  host_set_chunk(h, again, chunk, NULL);
  for (int i = 0; i < again->program->results.count; i++) {
    const tile_place *place = &again->program->results.items[i].place;
    if (place->role != TILE_KEEP) continue;
    again->l.results[i] = (result_target){.active = LLVMConstInt(e->i1, 1, 0),
                                          .at = row_of_stash(h, &again->l, place, number)};
    again->l.results[i].limit = integer(e, again->program->chunk);
  }
  host_fetch_next(h, again,
                  int_min(e, int_add_n(e, chunk, 1), int_sub_n(e, frame_chunk_count(h), 1)));
  lower_region(&again->l, REGION_BODY);
  lower_commit(&again->l);
}

// Recomputes the states before each chunk of a group, and values of each. Nothing reads the states
// behind its last chunk.
static void host_recompute_chunks(kernel_frame *h, ir first, ir chunks) {
  emitter *e = h->e;
  bool keeps = keeps_recomputed(&h->recompute);
  ir last = int_sub_n(e, chunks, 1);
  emit_loop loop = loop_begin(e, integer(e, 0), keeps ? chunks : last, 1, "again");
  frame_keep_states(h, loop.index);
  chunk_again(h, first, loop.index);
  loop_end(e, &loop);
  if (!keeps) frame_keep_states(h, last);
}

// Backward of chunk `number` of the group that begins at `first`.
static void host_chunk_back(kernel_frame *h, ir first, ir number) {
  frame_program *p = &h->main;
  emitter *e = h->e;
  ir chunk = int_add(e, first, number);
  host_set_chunk(h, p, chunk, NULL);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    view *at = &p->l.arguments[i];
    if (place->role == TILE_STATE)
      *at = frame_kept_row(h, &p->at->history[i], p->at->history_at[i], number, &p->l);
    if (place->role == TILE_STASH) *at = row_of_stash(h, &p->l, place, number);
  }
  host_fetch_next(h, p, int_max(e, int_sub_n(e, chunk, 1), integer(e, 0)));
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
}

static void group_back(kernel_frame *h, ir group, ir first, ir chunks) {
  emitter *e = h->e;
  host_load_saved(h, &h->recompute, group);
  host_recompute_chunks(h, first, chunks);
  emit_loop back = loop_begin(e, integer(e, 0), chunks, 1, "back");
  host_chunk_back(h, first, int_sub(e, int_sub_n(e, chunks, 1), back.index));
  loop_end(e, &back);
}

void host_loop_over_time(kernel_frame *h) {
  if (h->k->program->form == TILE_CHUNK)
    if (h->recomputes)
      frame_groups_back(h, group_back);
    else
      host_chunks_inside(h);
  else
    frame_loop_over_steps(h);
}
