// GPU: loops over the chunks of a sequence (those over single steps: ../steps.c). They stage the
// rows of the next chunk.
//
//   chunks:   for chunk:  rows of the next chunk; body                              forward; backward, if the states are given
//   groups:   for group of chunks from the last:  states again, chunk after chunk; the same chunks back
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"

// ---- step form ----

// The row of an operand that a product over steps reads for one step.
static view row_of_operand(kernel_frame *h, frame_program *p, tile_id id, int pack, ir step) {
  const tile_program *program = p->p->program;
  tile_id root = plan_root(program, id);
  const tile_value *v = tile_at(program, root);
  int buffer = pack >= 0 ? pack : p->p->values[root].buffer;
  if (buffer >= 0)
    return frame_kept_row(h, &p->p->buffers.items[buffer], p->at->kept_at[buffer], step, &p->l);
  const tile_place *place = tile_place_of(program, v);
  int argument = tile_argument_number(v);
  if (place->role == TILE_STATE)
    return frame_kept_row(h, &p->at->history[argument], p->at->history_at[argument], step, &p->l);
  return frame_kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step,
                        &p->l);
}

static void clear_row(kernel_frame *h, frame_program *p, tile_id id, int pack, ir step) {
  const tile_program *program = p->p->program;
  view row = row_of_operand(h, p, id, pack, step);
  tile_id of = pack >= 0 ? id : plan_root(program, id);
  lower_copy_view(&p->l, NULL, &row, tile_at(program, of)->axes);
}

// A product over steps has the length of a chunk, so rows of steps after the end of a sequence are
// 0.
void gpu_clear_missing_steps(kernel_frame *h, ir steps) {
  frame_program *p = &h->main;
  emit_loop loop = loop_begin(h->e, steps, integer(h->e, h->k->chunk), 1, "missing");
  vec_each(const plan_nest, nest, p->p->nests) {
    if (nest->region != REGION_STEPS) continue;
    clear_row(h, p, nest->dot.a, nest->dot.pack_a, loop.index);
    clear_row(h, p, nest->dot.b, nest->dot.pack_b, loop.index);
  }
  loop_end(h->e, &loop);
}

// ---- chunk form ----

// Points the arguments of a chunk that forward has saved at `saved`. staging.c sets the other rows.
static void set_saved(kernel_frame *h, frame_program *p, ir chunk) {
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (!kernel_is_saved(p->backward, place)) continue;
    view *saved = &p->l.arguments[i];
    *saved = frame_saved_view(h, place, chunk);
    if (h->gpu->team.shares)
      saved->aligned = gpu_aligned(h, p, saved, tile_place_axes(p->program, place));
  }
}

// Points result i at the chunk's rows; the first `stored` rows are stored.
static void set_result(kernel_frame *h, frame_program *p, int i, ir chunk, ir begin, ir stored) {
  emitter *e = h->e;
  result_target *target = &p->l.results[i];
  axis_set axes = tile_place_axes(p->program, &p->program->results.items[i].place);
  if (!frame_result_of_chunk(h, p, i, chunk, begin)) return;
  if (target->single) {
    target->tensor = frame_at_time(h, target->tensor, begin, p->result_time_stride[i]);
    target->tensor.stride[p->program->time_axis] = p->result_time_stride[i];
    target->tensor.aligned = gpu_aligned(h, p, &target->tensor, axes);
  }
  target->limit = int_choose(e, target->active, stored, integer(e, 0));
  if (h->gpu->team.shares) target->at.aligned = gpu_aligned(h, p, &target->at, axes);
}

static void set_chunk(kernel_frame *h, frame_program *p, ir chunk) {
  emitter *e = h->e;
  ir begin = int_mul_n(e, chunk, p->program->chunk);
  ir rows = int_min(e, int_sub(e, h->time, begin), integer(e, p->program->chunk));
  p->l.rows = rows = LLVMBuildTrunc(e->b, rows, e->i32, "");
  ir stored = h->gpu->slice.in_warm_up
                  ? int_choose(e, h->gpu->slice.in_warm_up, LLVMConstNull(LLVMTypeOf(rows)), rows)
                  : rows;
  set_saved(h, p, chunk);
  for (int i = 0; i < p->program->results.count; i++) set_result(h, p, i, chunk, begin, stored);
}

// Recomputes the addresses of tensors for each chunk, from an opaque offset of 0. Addresses kept
// through a chunk would take registers that products need. Returns the offset that close_again
// restores.
static ir open_again(kernel_frame *h, frame_program *p, ir chunk) {
  emitter *e = h->e;
  ir slots = h->slots, last = LLVMConstInt(LLVMTypeOf(chunk), 63, 0);
  ir zero = LLVMBuildAShr(e->b, chunk, last, "");
  h->slots = element(e, LLVMInt8TypeInContext(e->context), slots, zero);
  frame_open_instance(h, p);
  return slots;
}

static void close_again(kernel_frame *h, frame_program *p, ir slots) {
  h->slots = slots;
  frame_open_instance(h, p);
}

// Recomputes the states before each chunk of a group, from the states saved before the first.
static void gpu_recompute_chunks(kernel_frame *h, ir first, ir chunks) {
  emitter *e = h->e;
  frame_program *again = &h->recompute;
  ir runs = int_sub_n(e, chunks, 1);
  gpu_open_chunks(h, again, first, int_compare(e, LLVMIntSGT, runs, integer(e, 0)));
  emit_loop loop = loop_begin(e, integer(e, 0), chunks, 1, "again");
  ir slots = open_again(h, again, loop.index);
  frame_keep_states(h, loop.index);
  ir after = int_add_n(e, loop.index, 1);
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, loop.index, runs));
  ir chunk = int_add(e, first, loop.index), next = int_add(e, first, after);
  ir more = int_compare(e, LLVMIntSLT, after, runs);
  gpu_next_chunk(h, again, loop.index, chunk, next, more);
  set_chunk(h, again, chunk);
  lower_region(&again->l, REGION_BODY);
  lower_commit(&again->l);
  branch_end(e, &branch);
  loop_end(e, &loop);
  close_again(h, again, slots);
}

// Backward of chunk `number` of the group that begins at `first`, in iteration `turn` of the loop.
static void gpu_chunk_back(kernel_frame *h, ir first, ir number, ir turn) {
  frame_program *p = &h->main;
  emitter *e = h->e;
  ir chunk = int_add(e, first, number), before = int_sub_n(e, chunk, 1);
  h->gpu->tiles.chunk = number;
  open_again(h, p, turn);
  gpu_next_chunk(h, p, turn, chunk, before, int_compare(e, LLVMIntSGT, number, integer(e, 0)));
  set_chunk(h, p, chunk);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role == TILE_STATE)
      p->l.arguments[i] =
          frame_kept_row(h, &p->at->history[i], p->at->history_at[i], number, &p->l);
  }
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
  h->gpu->tiles.chunk = NULL;
}

void gpu_group_back(kernel_frame *h, ir group, ir first, ir chunks) {
  emitter *e = h->e;
  gpu_load_saved(h, &h->recompute, group);
  gpu_recompute_chunks(h, first, chunks);
  ir last = int_sub_n(e, chunks, 1), slots = h->slots;
  gpu_open_chunks(h, &h->main, int_add(e, first, last),
                  int_compare(e, LLVMIntSGE, last, integer(e, 0)));
  emit_loop turns = loop_begin(e, integer(e, 0), chunks, 1, "back");
  gpu_chunk_back(h, first, int_sub(e, last, turns.index), turns.index);
  loop_end(e, &turns);
  h->slots = slots;
}

static void chunks_or_tiles_back(kernel_frame *h, ir group, ir first, ir chunks) {
  gpu_begin_group(h, group);
  (h->plan->in_tiles ? gpu_group_in_value_tiles : gpu_group_back)(h, group, first, chunks);
  gpu_end_group(h);
}

void gpu_groups_back(kernel_frame *h) {
  frame_groups_back(h, chunks_or_tiles_back);
  if (!h->plan->in_tiles) frame_open_instance(h, &h->main);
}

static void gpu_chunks_inside(kernel_frame *h) {
  emitter *e = h->e;
  frame_program *p = &h->main;
  ir count = frame_chunk_count(h), any = int_compare(e, LLVMIntSGT, count, integer(e, 0));
  gpu_open_chunks(h, p, frame_chunk_in_order(h, integer(e, 0)), any);
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  ir chunk = frame_chunk_in_order(h, chunks.index);
  gpu_end_warm_up(h, p, chunks.index);
  ir slots = open_again(h, p, chunks.index);
  ir next = int_add_n(e, chunks.index, 1);
  ir more = int_compare(e, LLVMIntSLT, next, count);
  gpu_next_chunk(h, p, chunks.index, chunk, frame_chunk_in_order(h, next), more);
  set_chunk(h, p, chunk);
  if (h->described->writes_saved) frame_save_before_chunk(h, chunk);
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
  loop_end(e, &chunks);
  close_again(h, p, slots);
}

void gpu_loop_over_time(kernel_frame *h) {
  if (h->k->program->form == TILE_CHUNK)
    (h->recomputes ? gpu_groups_back : gpu_chunks_inside)(h);
  else
    frame_loop_over_steps(h);
}
