// Loops over time: steps or chunks, in order or in reverse.
//
//   backward, step form:  for each chunk from the last: recompute its steps from the saved state, then the same steps back
#include "compiler/kernel/frame.h"
#include "compiler/lower/host/nests.h"

// ---- step form ----

static void set_step(kernel_frame *h, part *p, ir t) {
  lower *l = &p->l;
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (p->program->arguments.items[i].time && p->memory[i].base) {
      if (gpu_row_of_step(h, p, i, t, &l->arguments[i])) continue;
      l->arguments[i] = frame_at_time(h, p->memory[i], t, p->time_stride[i]);
    }
  }
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    if (place->time && p->result_memory[i].base) {
      l->results[i].at = frame_at_time(h, p->result_memory[i], t, p->result_time_stride[i]);
    }
  }
}

enum { STEPS_AHEAD = 8, CACHE_LINE = 64 };

// The lines of a row at the point, or vector, at hand.
typedef struct fetch_data {
  const view *row;
  axis_set axes;
  bool write;
} fetch_data;

static void fetch_point(lower *l, const place_in_loops *at, void *data) {
  const fetch_data *d = data;
  int64_t stride = 0;
  if (at->vector_axis >= 0 && at->lanes) int_known(d->row->stride[at->vector_axis], &stride);
  if (stride != 1) return;
  int bytes = number_is_narrow(d->row->stored) ? 2 : l->m->f64 ? 8 : 4;
  ir address = view_address(l, d->row, at, d->axes);
  for (int n = 0; n < at->lanes; n += CACHE_LINE / bytes)
    fetch_line(l->e, element(l->e, view_type(l->e, d->row), address, integer(l->e, n)), d->write, 3);
}

// Rows in lanes, or in the tile; what has both is a matrix, which would push others out.
static void fetch_tensor(kernel_frame *h, part *p, const tile_place *place, view tensor, ir t, ir stride, bool write) {
  axis_set axes = kernel_axes_of_place(place);
  if (!place->time || !tensor.base) return;
  bool lane = plan_has_lane(&h->m, axes);
  if (lane == (plan_tile_axes(&h->m, axes) != 0)) return;
  view v = frame_at_time(h, tensor, t, stride);
  fetch_data data = {&v, axes, write};
  p->l.outside = h->at;
  if (lane) {
    place_in_loops at = h->at;
    fetch_point(&p->l, &at, &data);
  } else {
    lower_points(&p->l, plan_tile_axes(&h->m, axes), false, fetch_point, &data);
  }
}

// Steps lie further apart than a page when there are many channels: nobody but us knows what is read next.
static void fetch_ahead(kernel_frame *h, part *p, ir t) {
  if (h->m.kind != MAP_LANES) return;
  ir ahead = int_add(h->e, t, integer(h->e, p->backward ? -STEPS_AHEAD : STEPS_AHEAD));
  for (int i = 0; i < p->program->arguments.count; i++) {
    fetch_tensor(h, p, &p->program->arguments.items[i], p->memory[i], ahead, p->time_stride[i], false);
  }
  for (int i = 0; i < p->program->results.count; i++) {
    fetch_tensor(h, p, &p->program->results.items[i].place, p->result_memory[i], ahead, p->result_time_stride[i], true);
  }
}

static void one_step(kernel_frame *h, part *p, ir t) {
  fetch_ahead(h, p, t);
  set_step(h, p, t);
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
}

ir frame_chunk_count(kernel_frame *h) {
  emitter *e = h->e;
  int chunk = h->k->program->form == TILE_CHUNK ? h->k->program->chunk : h->k->chunk;
  ir up = int_add(e, h->time, integer(e, chunk - 1));
  return LLVMBuildSDiv(e->b, up, integer(e, chunk), "");
}

void frame_steps_forward(kernel_frame *h) {
  emitter *e = h->e;
  part *p = &h->main;
  bool ahead = gpu_steps_ahead(h);
  if (!h->described->writes_saved && !ahead) {
    emit_loop loop = loop_begin(e, integer(e, 0), h->time, 1, "time");
    one_step(h, p, loop.index);
    loop_end(e, &loop);
    return;
  }
  ir count = frame_chunk_count(h);
  if (ahead) gpu_open_steps(h, integer(e, 0), int_compare(e, LLVMIntSGT, count, integer(e, 0)));
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  if (ahead) {
    ir next = int_add(e, chunks.index, integer(e, 1));
    gpu_next_steps(h, chunks.index, chunks.index, next, int_compare(e, LLVMIntSLT, next, count));
  }
  if (h->described->writes_saved) frame_save_states(h, p, chunks.index);
  ir begin = int_mul(e, chunks.index, integer(e, h->k->chunk));
  ir end = int_min(e, int_add(e, begin, integer(e, h->k->chunk)), h->time);
  emit_loop loop = loop_begin(e, begin, end, 1, "time");
  one_step(h, p, loop.index);
  loop_end(e, &loop);
  loop_end(e, &chunks);
}

// The view of row `step` of something kept for every step of a chunk.
static view kept_row(kernel_frame *h, const plan_buffer *b, location at, ir step, lower *l) {
  ir row = int_mul(h->e, step, lower_extent(h->e, h->axis_size, plan_words(b)));
  if (!h->e->gpu) return buffer_view(l, b, element(h->e, h->e->real, frame_located(h, at), row));
  view v = gpu_view(h, l, b, at, row);
  if (!at.on_chip) v.swizzle = 0;  // there are no banks
  return v;
}

// Steps of the chunk again: states before each of them and stashes go to scratch.
static void recompute_step(kernel_frame *h, ir t, ir step) {
  part *again = &h->recompute, *p = &h->main;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role != TILE_STATE) continue;
    view row = kept_row(h, &p->at->history[i], p->at->history_at[i], step, &again->l);
    for (int c = 0; c < again->carried.count; c++) {
      if (plan_same_state(&again->carried.items[c].place, place)) frame_copy_state(h, again, place, &again->l.carried[c], &row);
    }
  }
  for (int i = 0; i < again->program->results.count; i++) {
    const tile_place *place = &again->program->results.items[i].place;
    if (place->role != TILE_KEEP) continue;
    result_target *target = &again->l.results[i];
    *target = (result_target){.active = LLVMConstInt(h->e->i1, 1, 0)};
    target->at = kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step, &again->l);
  }
  one_step(h, again, t);
}

// What was kept of a step, and what it keeps for the product over all steps of the chunk.
static void set_kept_rows(kernel_frame *h, part *p, ir step) {
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role == TILE_STATE) {
      p->l.arguments[i] = kept_row(h, &p->at->history[i], p->at->history_at[i], step, &p->l);
    }
    if (place->role == TILE_STASH) {
      p->l.arguments[i] = kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step, &p->l);
    }
  }
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->kept) p->l.buffers[i] = kept_row(h, b, p->at->kept_at[i], step, &p->l).base;
  }
}

static void backward_step(kernel_frame *h, ir t, ir step) {
  set_kept_rows(h, &h->main, step);
  one_step(h, &h->main, t);
}

static bool has_steps_region(const plan *p) {
  for (int n = 0; n < p->nests.count; n++) {
    if (p->nests.items[n].region == REGION_STEPS) return true;
  }
  return false;
}

// What a product over steps reads of one of them.
static view row_of_operand(kernel_frame *h, part *p, tile_id id, int pack, ir step) {
  const tile_program *program = p->p->program;
  tile_id root = plan_root(program, id);
  const tile_value *v = &program->values.items[root];
  int buffer = pack >= 0 ? pack : p->p->values[root].buffer;
  if (buffer >= 0) return kept_row(h, &p->p->buffers.items[buffer], p->at->kept_at[buffer], step, &p->l);
  const tile_place *place = tile_place_of(program, v);
  int argument = tile_argument_number(v);
  if (place->role == TILE_STATE) return kept_row(h, &p->at->history[argument], p->at->history_at[argument], step, &p->l);
  return kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step, &p->l);
}

static void clear_row(kernel_frame *h, part *p, tile_id id, int pack, ir step) {
  const tile_program *program = p->p->program;
  view row = row_of_operand(h, p, id, pack, step);
  tile_id of = pack >= 0 ? id : plan_root(program, id);
  lower_copy_view(&p->l, NULL, &row, program->values.items[of].axes);
}

// GPU: products over steps are as long as a chunk. The steps behind the end of a sequence are 0.
static void clear_missing_steps(kernel_frame *h, part *p, ir steps) {
  emit_loop loop = loop_begin(h->e, steps, integer(h->e, h->k->chunk), 1, "missing");
  for (int n = 0; n < p->p->nests.count; n++) {
    const plan_nest *nest = &p->p->nests.items[n];
    if (nest->region != REGION_STEPS) continue;
    clear_row(h, p, nest->dot.a, nest->dot.pack_a, loop.index);
    clear_row(h, p, nest->dot.b, nest->dot.pack_b, loop.index);
  }
  loop_end(h->e, &loop);
}

// Products over all steps of the chunk.
static void gather_steps(kernel_frame *h, part *p, ir steps) {
  if (!has_steps_region(p->p)) return;
  if (h->e->gpu) clear_missing_steps(h, p, steps);
  set_kept_rows(h, p, integer(h->e, 0));
  p->l.steps = steps;
  lower_region(&p->l, REGION_STEPS);
}

static void load_saved(kernel_frame *h, part *p, ir chunk) {
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    view memory = frame_saved_view(h, place, chunk);
    // once a group, a thread's own pairs may as well come number by number: they are not copied by a function
    bool alone = frame_kept_of(p, &p->l.carried[c]);
    if (h->team.shares && !alone) memory.aligned = gpu_aligned(h, p, &memory, kernel_axes_of_place(place));
    frame_copy_state(h, p, place, &memory, &p->l.carried[c]);
  }
  frame_show_states(h, p);
}

void frame_steps_backward(kernel_frame *h) {
  emitter *e = h->e;
  ir count = frame_chunk_count(h), last = int_sub(e, count, integer(e, 1));
  bool ahead = gpu_steps_ahead(h);
  if (ahead) gpu_open_steps(h, last, int_compare(e, LLVMIntSGT, count, integer(e, 0)));
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  ir chunk = int_sub(e, last, chunks.index);
  if (ahead) {
    ir after = int_add(e, chunks.index, integer(e, 1));
    gpu_next_steps(h, chunks.index, chunk, int_sub(e, last, after), int_compare(e, LLVMIntSLT, after, count));
  }
  ir begin = int_mul(e, chunk, integer(e, h->k->chunk));
  ir steps = int_min(e, int_sub(e, h->time, begin), integer(e, h->k->chunk));
  if (h->recomputes) {
    load_saved(h, &h->recompute, chunk);
    emit_loop again = loop_begin(e, integer(e, 0), steps, 1, "again");
    recompute_step(h, int_add(e, begin, again.index), again.index);
    loop_end(e, &again);
  }
  emit_loop back = loop_begin(e, integer(e, 0), steps, 1, "back");
  ir step = int_sub(e, int_sub(e, steps, integer(e, 1)), back.index);
  backward_step(h, int_add(e, begin, step), step);
  loop_end(e, &back);
  gather_steps(h, &h->main, steps);
  loop_end(e, &chunks);
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
    v.stride[axis] = same ? a->stride[axis] : LLVMBuildSelect(e->b, first, a->stride[axis], b->stride[axis], "");
  }
  return v;
}

// The argument at the rows of this chunk: in memory, or a copy that ends in zeros if rows are missing. The copy of what
// instances share is made for the first of them (`new_group`; NULL: for each).
static void set_rows(kernel_frame *h, part *p, int i, ir begin, ir rows, ir new_group) {
  emitter *e = h->e;
  int t = p->program->time_axis;
  const tile_place *place = &p->program->arguments.items[i];
  const pad *d = &p->at->pads[i];
  view memory = frame_at_time(h, p->memory[i], begin, p->time_stride[i]);
  ir present = memory.present;
  memory.present = NULL;
  memory.stride[t] = p->time_stride[i];
  ir inside = integer(e, 0);
  view copy = {.base = frame_scratch_at(h, h->scratch, d->offset)};
  copy.stride[t] = integer(e, d->row);
  bool lanes = plan_has_lane(&h->m, kernel_axes_of_place(place));
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
  if (always) padded = LLVMConstInt(e->i1, 1, 0);
  axis_set axes = tile_place_axes(p->program, place);
  bool shared = new_group && plan_is_shared(&h->m, plan_own_axes(place));
  emit_branch branch = branch_begin(e, shared ? LLVMBuildAnd(e->b, padded, new_group, "") : padded);
  pad_data data = {.from = &memory, .to = &copy, .axes = axes & ~h->m.instance, .t = t, .rows = available};
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, axes), lanes, pad_point, &data);
  branch_end(e, &branch);
  p->l.arguments[i] = always ? copy : one_of_both(e, padded, &copy, &memory);
}

void frame_set_chunk(kernel_frame *h, part *p, ir chunk, ir new_group) {
  emitter *e = h->e;
  lower *l = &p->l;
  ir begin = int_mul(e, chunk, integer(e, p->program->chunk));
  ir rows = int_min(e, int_sub(e, h->time, begin), integer(e, p->program->chunk));
  if (e->gpu) rows = LLVMBuildTrunc(e->b, rows, e->i32, "");
  l->rows = rows;
  ir stored = h->slice.in_warm_up ? int_choose(e, h->slice.in_warm_up, LLVMConstNull(LLVMTypeOf(rows)), rows) : rows;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    bool saved = kernel_is_saved(p->backward, place);
    if (place->time && !saved && !e->gpu) set_rows(h, p, i, begin, rows, new_group);
    if (!saved) continue;
    l->arguments[i] = frame_saved_view(h, place, chunk);
    axis_set axes = tile_place_axes(p->program, place);
    if (h->team.shares) l->arguments[i].aligned = gpu_aligned(h, p, &l->arguments[i], axes);
  }
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    result_target *target = &l->results[i];
    if (place->role == TILE_KEEP) {
      target->at = frame_saved_view(h, place, chunk);
      target->active = frame_saves(h);
    }
    if (!place->time || !p->result_memory[i].base) continue;
    target->at = frame_at_time(h, p->result_memory[i], begin, p->result_time_stride[i]);
    target->at.stride[p->program->time_axis] = p->result_time_stride[i];
    if (target->single) {
      target->tensor = frame_at_time(h, target->tensor, begin, p->result_time_stride[i]);
      target->tensor.stride[p->program->time_axis] = p->result_time_stride[i];
      axis_set axes = tile_place_axes(p->program, place);
      target->tensor.aligned = gpu_aligned(h, p, &target->tensor, axes);
    }
    target->limit = int_choose(e, target->active, stored, integer(e, 0));
    if (h->team.shares) target->at.aligned = gpu_aligned(h, p, &target->at, tile_place_axes(p->program, place));
  }
}

ir frame_chunk_in_order(kernel_frame *h, ir index) {
  if (!h->main.backward) return index;
  return int_sub(h->e, int_sub(h->e, frame_chunk_count(h), integer(h->e, 1)), index);
}

// GPU: forward saves the states before every few chunks.
static void save_some_states(kernel_frame *h, ir chunk) {
  emitter *e = h->e;
  int64_t every = h->k->chunk / h->k->program->chunk;
  if (every == 1) {
    frame_save_states(h, &h->main, chunk);
    return;
  }
  ir rest = int_rem(e, chunk, integer(e, every));
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntEQ, rest, integer(e, 0)));
  frame_save_states(h, &h->main, int_div(e, chunk, integer(e, every)));
  branch_end(e, &branch);
}

void frame_chunk_body(kernel_frame *h, ir chunk) {
  if (h->described->writes_saved) save_some_states(h, chunk);
  lower_region(&h->main.l, REGION_BODY);
  lower_commit(&h->main.l);
}

// GPU: where tensors lie is computed again for each chunk, from an offset that is 0: kept through a chunk, it takes registers
// that products need. Returns what close_again puts back.
static ir open_again(kernel_frame *h, part *p, ir chunk) {
  emitter *e = h->e;
  ir slots = h->slots, last = LLVMConstInt(LLVMTypeOf(chunk), 63, 0);
  ir zero = LLVMBuildAShr(e->b, chunk, last, "");
  h->slots = element(e, LLVMInt8TypeInContext(e->context), slots, zero);
  frame_open_instance(h, p);
  return slots;
}

static void close_again(kernel_frame *h, part *p, ir slots) {
  h->slots = slots;
  frame_open_instance(h, p);
}

// The states before a chunk of the group, to be read when it goes back.
static void keep_states(kernel_frame *h, ir index) {
  part *again = &h->recompute, *p = &h->main;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role != TILE_STATE) continue;
    view row = kept_row(h, &p->at->history[i], p->at->history_at[i], index, &again->l);
    for (int c = 0; c < again->carried.count; c++) {
      if (plan_same_state(&again->carried.items[c].place, place)) frame_copy_state(h, again, place, &again->l.carried[c], &row);
    }
  }
}

// The states before each chunk of a group, from those that were saved before the first.
static void chunks_again(kernel_frame *h, ir first, ir chunks) {
  emitter *e = h->e;
  part *again = &h->recompute;
  ir runs = int_sub(e, chunks, integer(e, 1));
  gpu_open_chunks(h, again, first, int_compare(e, LLVMIntSGT, runs, integer(e, 0)));
  emit_loop loop = loop_begin(e, integer(e, 0), chunks, 1, "again");
  ir slots = open_again(h, again, loop.index);
  keep_states(h, loop.index);
  ir after = int_add(e, loop.index, integer(e, 1));
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, loop.index, runs));
  ir chunk = int_add(e, first, loop.index), next = int_add(e, first, after);
  ir more = int_compare(e, LLVMIntSLT, after, runs);
  gpu_next_chunk(h, again, loop.index, chunk, next, more);
  frame_set_chunk(h, again, chunk, NULL);
  lower_region(&again->l, REGION_BODY);
  lower_commit(&again->l);
  branch_end(e, &branch);
  loop_end(e, &loop);
  close_again(h, again, slots);
}

// Chunk `number` of the group that begins at `first`; the loop is at its iteration `turn`.
static void chunk_back(kernel_frame *h, ir first, ir number, ir turn) {
  part *p = &h->main;
  emitter *e = h->e;
  ir chunk = int_add(e, first, number), before = int_sub(e, chunk, integer(e, 1));
  h->tiles.chunk = number;
  open_again(h, p, turn);
  gpu_next_chunk(h, p, turn, chunk, before, int_compare(e, LLVMIntSGT, number, integer(e, 0)));
  frame_set_chunk(h, p, chunk, NULL);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role == TILE_STATE) p->l.arguments[i] = kept_row(h, &p->at->history[i], p->at->history_at[i], number, &p->l);
  }
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
  h->tiles.chunk = NULL;
}

void frame_group_back(kernel_frame *h, ir group, ir first, ir chunks) {
  emitter *e = h->e;
  load_saved(h, &h->recompute, group);
  chunks_again(h, first, chunks);
  ir last = int_sub(e, chunks, integer(e, 1)), slots = h->slots;
  gpu_open_chunks(h, &h->main, int_add(e, first, last), int_compare(e, LLVMIntSGE, last, integer(e, 0)));
  emit_loop turns = loop_begin(e, integer(e, 0), chunks, 1, "back");
  chunk_back(h, first, int_sub(e, last, turns.index), turns.index);
  loop_end(e, &turns);
  h->slots = slots;
}

// Groups of chunks from the last: states again, then the same chunks back.
void frame_groups_back(kernel_frame *h) {
  emitter *e = h->e;
  ir every = integer(e, h->k->chunk / h->k->program->chunk), count = frame_chunk_count(h);
  ir groups = int_div(e, int_add(e, count, int_sub(e, every, integer(e, 1))), every);
  emit_loop loop = loop_begin(e, integer(e, 0), groups, 1, "group");
  ir group = int_sub(e, int_sub(e, groups, integer(e, 1)), loop.index);
  ir first = int_mul(e, group, every), chunks = int_min(e, int_sub(e, count, first), every);
  gpu_begin_group(h, group);
  (h->plan->in_tiles ? gpu_group_in_passes : frame_group_back)(h, group, first, chunks);
  gpu_end_group(h);
  loop_end(e, &loop);
  if (!h->plan->in_tiles) frame_open_instance(h, &h->main);
}

void frame_chunks_inside(kernel_frame *h) {
  emitter *e = h->e;
  if (h->recomputes) {
    frame_groups_back(h);
    return;
  }
  ir count = frame_chunk_count(h);
  if (e->gpu) {
    ir any = int_compare(e, LLVMIntSGT, count, integer(e, 0));
    gpu_open_chunks(h, &h->main, frame_chunk_in_order(h, integer(e, 0)), any);
  }
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  ir chunk = frame_chunk_in_order(h, chunks.index);
  ir slots = NULL;
  if (e->gpu) {
    gpu_end_warm_up(h, &h->main, chunks.index);
    slots = open_again(h, &h->main, chunks.index);
    ir next = int_add(e, chunks.index, integer(e, 1));
    ir more = int_compare(e, LLVMIntSLT, next, count);
    gpu_next_chunk(h, &h->main, chunks.index, chunk, frame_chunk_in_order(h, next), more);
  }
  frame_set_chunk(h, &h->main, chunk, NULL);
  ir last = int_sub(e, count, integer(e, 1));
  host_fetch_next(h, &h->main, frame_chunk_in_order(h, int_min(e, int_add(e, chunks.index, integer(e, 1)), last)));
  frame_chunk_body(h, chunk);
  loop_end(e, &chunks);
  if (e->gpu) close_again(h, &h->main, slots);
}
