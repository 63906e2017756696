// Step form: the loops over the steps of a sequence, and the rows that are kept of steps. Chunk
// form: what the loops over chunks share (host/time_loop.c, gpu/time_loop.c).
//
//   forward, step form:   for each chunk: save the state; its steps
//   backward, step form:  for each chunk from the last: recompute its steps from the saved state, then the same steps back
#include "compiler/kernel/frame.h"

ir frame_chunk_count(kernel_frame *h) {
  emitter *e = h->e;
  int chunk = h->k->program->form == TILE_CHUNK ? h->k->program->chunk : h->k->chunk;
  ir up = int_add_n(e, h->time, chunk - 1);
  return LLVMBuildSDiv(e->b, up, integer(e, chunk), "");
}

ir frame_chunk_in_order(kernel_frame *h, ir index) {
  if (!h->main.backward) return index;
  return int_sub(h->e, int_sub_n(h->e, frame_chunk_count(h), 1), index);
}

// ---- one step ----

void frame_argument_of_step(kernel_frame *h, frame_program *p, int i, ir t) {
  const tile_place *place = &p->program->arguments.items[i];
  if (!place->time || !p->memory[i].base) return;
  if (place->ahead) t = int_min(h->e, int_add_n(h->e, t, 1), int_sub_n(h->e, h->time, 1));
  p->l.arguments[i] = frame_at_time(h, p->memory[i], t, p->time_stride[i]);
}

static void set_results(kernel_frame *h, frame_program *p, ir t) {
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    if (place->time && p->result_memory[i].base)
      p->l.results[i].at = frame_at_time(h, p->result_memory[i], t, p->result_time_stride[i]);
  }
}

static void emit_step(kernel_frame *h, frame_program *p, ir t) {
  h->hooks->arguments_of_step(h, p, t);
  set_results(h, p, t);
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
}

// ---- rows kept of steps and of chunks ----

view frame_kept_row(kernel_frame *h, const plan_buffer *b, location at, ir step, lower *l) {
  ir row =
      int_mul(h->e, step,
              lower_extent(h->e, h->axis_size, plan_words_of_kept_row(h->main.p, b, at.in_shared)));
  return h->hooks->view_of(h, l, b, at, row);
}

void frame_keep_states(kernel_frame *h, ir index) {
  frame_program *again = &h->recompute, *p = &h->main;
  bool beside = false;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role != TILE_STATE) continue;
    view row = frame_kept_row(h, &p->at->history[i], p->at->history_at[i], index, &again->l);
    for (int c = 0; c < again->carried.count; c++) {
      if (!plan_same_state(&again->carried.items[c].place, place)) continue;
      h->hooks->copy_state(h, again, place, &again->l.carried[c], &row, beside);
      // a state in registers waits for nothing
      beside = beside || again->p->carried[c].accumulator < 0;
    }
  }
}

// The row of a stash for a step. A sum that opens a step has two rows, of this step and of the next.
// The last step of a chunk reads its own row ahead: nothing reads the sum that it makes of it.
static view row_of_stash(kernel_frame *h, const tile_place *place, ir step, lower *l) {
  emitter *e = h->e;
  if (h->plan->opening.program && place->stash >= h->plan->first_opening)
    step = bit_and(e, step, integer(e, 1));
  else if (place->ahead)
    step = int_min(e, int_add_n(e, step, 1), integer(e, h->k->chunk - 1));
  return frame_kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step,
                        l);
}

// A step of a program that keeps values of it as row `step` of their stashes.
static void keeping_step(kernel_frame *h, frame_program *p, ir t, ir step) {
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    if (place->role != TILE_KEEP) continue;
    result_target *target = &p->l.results[i];
    *target = (result_target){.active = LLVMConstInt(h->e->i1, 1, 0)};
    target->at = row_of_stash(h, place, step, &p->l);
  }
  emit_step(h, p, t);
}

// What was kept of a step, and what it keeps for the product over all steps of the chunk.
static void set_kept_rows(kernel_frame *h, frame_program *p, ir step) {
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role == TILE_STATE && p->backward)
      p->l.arguments[i] = frame_kept_row(h, &p->at->history[i], p->at->history_at[i], step, &p->l);
    if (place->role == TILE_STASH) p->l.arguments[i] = row_of_stash(h, place, step, &p->l);
  }
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->kept) p->l.buffers[i] = frame_kept_row(h, b, p->at->kept_at[i], step, &p->l).base;
  }
}

static void step_back(kernel_frame *h, ir t, ir step) {
  set_kept_rows(h, &h->main, step);
  emit_step(h, &h->main, t);
}

static bool gathers_steps(const frame_program *p) {
  for (int n = 0; n < p->p->nests.count; n++)
    if (p->p->nests.items[n].region == REGION_STEPS) return true;
  return false;
}

static void gather_steps(kernel_frame *h, ir steps) {
  frame_program *p = &h->main;
  if (!gathers_steps(p)) return;
  if (h->hooks->clear_missing_steps) h->hooks->clear_missing_steps(h, steps);
  set_kept_rows(h, p, integer(h->e, 0));
  p->l.steps = steps;
  lower_region(&p->l, REGION_STEPS);
}

// ---- all steps ----

// The sums that open the first step.
static void open_first_step(kernel_frame *h, ir begin, ir end) {
  emitter *e = h->e;
  emit_branch any = branch_begin(e, int_compare(e, LLVMIntSLT, begin, end));
  set_kept_rows(h, &h->opening, integer(e, 0));
  keeping_step(h, &h->opening, begin, integer(e, 0));
  branch_end(e, &any);
}

static void steps_between(kernel_frame *h, ir begin, ir end) {
  emitter *e = h->e;
  bool opened = h->plan->opening.program;
  if (opened) open_first_step(h, begin, end);
  emit_loop loop = loop_begin(e, begin, end, 1, "time");
  ir step = h->plan->panels || opened ? int_sub(e, loop.index, begin) : NULL;
  if (step) set_kept_rows(h, &h->main, step);
  if (opened)
    keeping_step(h, &h->main, loop.index, int_add_n(e, step, 1));
  else
    emit_step(h, &h->main, loop.index);
  loop_end(e, &loop);
}

static ir begin_of_chunk(kernel_frame *h, ir chunk) { return int_mul_n(h->e, chunk, h->k->chunk); }

static ir end_of_chunk(kernel_frame *h, ir chunk) {
  ir end = int_add_n(h->e, begin_of_chunk(h, chunk), h->k->chunk);
  return int_min(h->e, end, h->time);
}

void frame_steps_of_chunk(kernel_frame *h, ir chunk) {
  if (h->described->writes_saved) h->hooks->save_states(h, &h->main, chunk);
  steps_between(h, begin_of_chunk(h, chunk), end_of_chunk(h, chunk));
}

void frame_share_steps(kernel_frame *h, ir chunk) {
  ir begin = begin_of_chunk(h, chunk);
  emit_loop loop = loop_begin(h->e, begin, end_of_chunk(h, chunk), 1, "shared");
  keeping_step(h, &h->common, loop.index, int_sub(h->e, loop.index, begin));
  loop_end(h->e, &loop);
}

static bool copies_ahead(kernel_frame *h) {
  return h->hooks->steps_ahead && h->hooks->steps_ahead(h);
}

static void emit_steps_forward(kernel_frame *h) {
  emitter *e = h->e;
  bool ahead = copies_ahead(h);
  if (!h->described->writes_saved && !ahead) {
    steps_between(h, integer(e, 0), h->time);
    return;
  }
  ir count = frame_chunk_count(h);
  if (ahead)
    h->hooks->open_steps(h, integer(e, 0), int_compare(e, LLVMIntSGT, count, integer(e, 0)));
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  if (ahead) {
    ir next = int_add_n(e, chunks.index, 1);
    h->hooks->next_steps(h, chunks.index, chunks.index, next,
                         int_compare(e, LLVMIntSLT, next, count));
  }
  frame_steps_of_chunk(h, chunks.index);
  loop_end(e, &chunks);
}

static void emit_steps_again(kernel_frame *h, ir chunk, ir begin, ir steps) {
  emitter *e = h->e;
  h->hooks->load_saved(h, &h->recompute, chunk);
  emit_loop again = loop_begin(e, integer(e, 0), steps, 1, "again");
  frame_keep_states(h, again.index);
  keeping_step(h, &h->recompute, int_add(e, begin, again.index), again.index);
  loop_end(e, &again);
}

static void steps_backward(kernel_frame *h) {
  emitter *e = h->e;
  ir count = frame_chunk_count(h), last = int_sub_n(e, count, 1);
  bool ahead = copies_ahead(h);
  if (ahead) h->hooks->open_steps(h, last, int_compare(e, LLVMIntSGT, count, integer(e, 0)));
  emit_loop chunks = loop_begin(e, integer(e, 0), count, 1, "chunk");
  ir chunk = int_sub(e, last, chunks.index);
  if (ahead) {
    ir after = int_add_n(e, chunks.index, 1);
    h->hooks->next_steps(h, chunks.index, chunk, int_sub(e, last, after),
                         int_compare(e, LLVMIntSLT, after, count));
  }
  ir begin = begin_of_chunk(h, chunk), steps = int_sub(e, end_of_chunk(h, chunk), begin);
  if (h->recomputes) emit_steps_again(h, chunk, begin, steps);
  emit_loop back = loop_begin(e, integer(e, 0), steps, 1, "back");
  ir step = int_sub(e, int_sub_n(e, steps, 1), back.index);
  step_back(h, int_add(e, begin, step), step);
  loop_end(e, &back);
  gather_steps(h, steps);
  loop_end(e, &chunks);
}

void frame_loop_over_steps(kernel_frame *h) {
  (h->main.backward ? steps_backward : emit_steps_forward)(h);
}

// ---- one chunk ----

void frame_groups_back(kernel_frame *h,
                       void (*back)(kernel_frame *h, ir group, ir first, ir chunks)) {
  emitter *e = h->e;
  ir every = integer(e, h->k->chunk / h->k->program->chunk), count = frame_chunk_count(h);
  ir groups = int_div(e, int_add(e, count, int_sub_n(e, every, 1)), every);
  emit_loop loop = loop_begin(e, integer(e, 0), groups, 1, "group");
  ir group = int_sub(e, int_sub_n(e, groups, 1), loop.index);
  ir first = int_mul(e, group, every);
  back(h, group, first, int_min(e, int_sub(e, count, first), every));
  loop_end(e, &loop);
}

bool frame_result_of_chunk(kernel_frame *h, frame_program *p, int i, ir chunk, ir begin) {
  const tile_place *place = &p->program->results.items[i].place;
  result_target *target = &p->l.results[i];
  if (place->role == TILE_KEEP) {
    if (h->recomputes) return false;  // kept in scratch
    target->at = frame_saved_view(h, place, chunk);
    target->active = frame_saves(h);
  }
  if (!place->time || !p->result_memory[i].base) return false;
  target->at = frame_at_time(h, p->result_memory[i], begin, p->result_time_stride[i]);
  target->at.stride[p->program->time_axis] = p->result_time_stride[i];
  return true;
}
