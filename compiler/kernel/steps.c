// Steps of a sequence and rows that are kept of them, as the loops over time of the host and of GPUs need them
// (host/time_loop.c, gpu/time_loop.c).
//
//   backward, step form:  for each chunk from the last: recompute its steps from the saved state, then the same steps back
#include "compiler/kernel/frame.h"

ir frame_chunk_count(kernel_frame *h) {
  emitter *e = h->e;
  int chunk = h->k->program->form == TILE_CHUNK ? h->k->program->chunk : h->k->chunk;
  ir up = int_add(e, h->time, integer(e, chunk - 1));
  return LLVMBuildSDiv(e->b, up, integer(e, chunk), "");
}

ir frame_chunk_in_order(kernel_frame *h, ir index) {
  if (!h->main.backward) return index;
  return int_sub(h->e, int_sub(h->e, frame_chunk_count(h), integer(h->e, 1)), index);
}

// ---- one step ----

void frame_argument_of_step(kernel_frame *h, frame_program *p, int i, ir t) {
  if (!p->program->arguments.items[i].time || !p->memory[i].base) return;
  p->l.arguments[i] = frame_at_time(h, p->memory[i], t, p->time_stride[i]);
}

static void set_results(kernel_frame *h, frame_program *p, ir t) {
  for (int i = 0; i < p->program->results.count; i++) {
    const tile_place *place = &p->program->results.items[i].place;
    if (place->time && p->result_memory[i].base) {
      p->l.results[i].at = frame_at_time(h, p->result_memory[i], t, p->result_time_stride[i]);
    }
  }
}

void frame_step(kernel_frame *h, frame_program *p, ir t) {
  h->hooks->arguments_of_step(h, p, t);
  set_results(h, p, t);
  lower_region(&p->l, REGION_BODY);
  lower_commit(&p->l);
}

// ---- rows kept of steps and of chunks ----

view frame_kept_row(kernel_frame *h, const plan_buffer *b, location at, ir step, lower *l) {
  ir row = int_mul(h->e, step, lower_extent(h->e, h->axis_size, plan_words(b)));
  return h->hooks->view_of(h, l, b, at, row);
}

void frame_keep_states(kernel_frame *h, ir index) {
  frame_program *again = &h->recompute, *p = &h->main;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role != TILE_STATE) continue;
    view row = frame_kept_row(h, &p->at->history[i], p->at->history_at[i], index, &again->l);
    for (int c = 0; c < again->carried.count; c++) {
      if (plan_same_state(&again->carried.items[c].place, place)) frame_copy_state(h, again, place, &again->l.carried[c], &row);
    }
  }
}

void frame_recompute_step(kernel_frame *h, ir t, ir step) {
  frame_program *again = &h->recompute;
  frame_keep_states(h, step);
  for (int i = 0; i < again->program->results.count; i++) {
    const tile_place *place = &again->program->results.items[i].place;
    if (place->role != TILE_KEEP) continue;
    result_target *target = &again->l.results[i];
    *target = (result_target){.active = LLVMConstInt(h->e->i1, 1, 0)};
    target->at = frame_kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step, &again->l);
  }
  frame_step(h, again, t);
}

// What was kept of a step, and what it keeps for the product over all steps of the chunk.
static void set_kept_rows(kernel_frame *h, frame_program *p, ir step) {
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (place->role == TILE_STATE) {
      p->l.arguments[i] = frame_kept_row(h, &p->at->history[i], p->at->history_at[i], step, &p->l);
    }
    if (place->role == TILE_STASH) {
      p->l.arguments[i] = frame_kept_row(h, &h->plan->stashes[place->stash], h->plan->stash_at[place->stash], step, &p->l);
    }
  }
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->kept) p->l.buffers[i] = frame_kept_row(h, b, p->at->kept_at[i], step, &p->l).base;
  }
}

void frame_step_back(kernel_frame *h, ir t, ir step) {
  set_kept_rows(h, &h->main, step);
  frame_step(h, &h->main, t);
}

bool frame_gathers_steps(const frame_program *p) {
  for (int n = 0; n < p->p->nests.count; n++) {
    if (p->p->nests.items[n].region == REGION_STEPS) return true;
  }
  return false;
}

void frame_gather_steps(kernel_frame *h, ir steps) {
  frame_program *p = &h->main;
  if (!frame_gathers_steps(p)) return;
  set_kept_rows(h, p, integer(h->e, 0));
  p->l.steps = steps;
  lower_region(&p->l, REGION_STEPS);
}

// ---- one chunk ----

bool frame_result_of_chunk(kernel_frame *h, frame_program *p, int i, ir chunk, ir begin) {
  const tile_place *place = &p->program->results.items[i].place;
  result_target *target = &p->l.results[i];
  if (place->role == TILE_KEEP) {
    target->at = frame_saved_view(h, place, chunk);
    target->active = frame_saves(h);
  }
  if (!place->time || !p->result_memory[i].base) return false;
  target->at = frame_at_time(h, p->result_memory[i], begin, p->result_time_stride[i]);
  target->at.stride[p->program->time_axis] = p->result_time_stride[i];
  return true;
}
