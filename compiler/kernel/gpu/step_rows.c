// GPU: tokens of the next steps, where each thread runs a recurrence by itself (MAP_THREADS).
//
//   for chunk of steps:                       start chunk 0
//     for t:                                  for chunk:  wait; barrier; start chunk + 1 into the other half
//       x, b <- tokens of step t        ->      for t:    x, b <- shared memory
//       h = a h + x b                                     h = a h + x b
//
// A token takes longer to load than a step to compute, and each step depends on the one before.
// Without a copy ahead, every step would wait for its load. Each thread copies its own entry of a
// row along the lane axis; neighbouring threads copy neighbours. All threads together copy a row
// that every thread reads. cp.async copies 32-bit elements. It takes no single 16-bit elements, so
// these are loaded and stored, a whole chunk at once; those that every thread reads are widened on
// the way.
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

// The programs of the kernel; returns their number.
static int programs_of(kernel_frame *h, frame_program *programs[2]) {
  programs[0] = &h->main;
  programs[1] = &h->recompute;
  return h->recomputes ? 2 : 1;
}

bool gpu_steps_ahead(kernel_frame *h) {
  frame_program *programs[2];
  if (h->m.kind != MAP_THREADS) return false;
  for (int n = 0, count = programs_of(h, programs); n < count; n++) {
    for (int i = 0; i < programs[n]->program->arguments.count; i++)
      if (gpu_is_step_ahead(programs[n]->at, i)) return true;
  }
  return false;
}

// ---- copies ----

// The row of a step of the chunk at `base`; along the lane axis, the thread's own entry.
static view step_row_view(kernel_frame *h, const frame_program *p, int argument, ir base, ir step) {
  emitter *e = h->e;
  const tile_place *place = tile_argument_place(p->program, argument);
  row_shape s = gpu_row_shape(h->plan, p->at, argument);
  view v = {.stored = number_is_narrow(p->memory[argument].stored) && !s.narrow
                          ? NUMBER_F32
                          : p->memory[argument].stored};
  int64_t stride = s.lane ? h->gpu->team.threads : 1;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int axis = place->axes[x];
    if (axis_in(h->m.instance, axis)) continue;
    v.stride[axis] = integer(e, stride);
    stride *= plan_axis_size(p->program, axis);
  }
  ir at = int_mul_n(e, step, gpu_numbers_of_row(h->plan, s));
  if (s.lane) at = int_add(e, at, h->gpu->team.thread);
  v.base = element(e, view_type(e, &v), base, at);
  return v;
}

static ir buffer_half(kernel_frame *h, const staging_buffer *d, ir turn) {
  ir odd = int_compare(h->e, LLVMIntNE, int_rem_n(h->e, turn, 2), integer(h->e, 0));
  return LLVMBuildSelect(h->e->b, odd, frame_located(h, d->ahead), frame_located(h, d->at), "");
}

typedef struct row_copy {
  view from, to;
  axis_set axes;
  // i1: the step lies inside the sequence, and the tensor is present; NULL: both are known
  ir there;
} row_copy;

static void copy_by_hardware(lower *l, const place_in_loops *at, const row_copy *c) {
  emitter *e = l->e;
  ir from = view_address(l, &c->from, at, c->axes), to = view_address(l, &c->to, at, c->axes);
  ir bytes = LLVMConstInt(e->i32, 4, 0), zero = LLVMConstInt(e->i32, 0, 0);
  if (c->there) bytes = LLVMBuildSelect(e->b, c->there, bytes, zero, "");
  gpu_call(e, GPU_CP_ASYNC4, (ir[]){to, from, bytes}, 3);
}

static void copy_bits(lower *l, const place_in_loops *at, const row_copy *c) {
  emitter *e = l->e;
  ir bits = LLVMBuildLoad2(e->b, e->i16, view_address(l, &c->from, at, c->axes), "");
  LLVMBuildStore(e->b, bits, view_address(l, &c->to, at, c->axes));
}

static void widen_copied_row(lower *l, const place_in_loops *at, const row_copy *c) {
  view from = c->from;
  from.present = NULL;
  view_store(l, &c->to, at, c->axes, view_load(l, &from, at, c->axes));
}

static void copy_number(lower *l, const place_in_loops *at, void *data) {
  const row_copy *c = data;
  emitter *e = l->e;
  bool widens = c->to.stored != c->from.stored;
  if (!number_is_narrow(c->from.stored)) {
    copy_by_hardware(l, at, c);
    return;
  }
  emit_branch branch = {0};
  if (c->there) branch = branch_begin(e, c->there);
  if (widens)
    widen_copied_row(l, at, c);
  else
    copy_bits(l, at, c);
  if (!c->there) return;
  branch_else(e, &branch);
  view_store(l, &c->to, at, c->axes, real_number(e, 0, 0));
  branch_end(e, &branch);
}

static row_copy copy_of_step(kernel_frame *h, frame_program *p, int argument, ir base, ir begin,
                             ir step) {
  emitter *e = h->e;
  ir t = int_add(e, begin, step);
  row_copy c = {.axes = tile_body_axes(tile_argument_place(p->program, argument)),
                .from = frame_at_time(h, p->memory[argument], t, p->time_stride[argument]),
                .to = step_row_view(h, p, argument, base, step),
                .there = int_compare(e, LLVMIntSLT, t, h->time)};
  if (c.from.present) c.there = bit_and(e, c.there, c.from.present);
  return c;
}

// All steps of a chunk lie inside the sequence: addresses go on by a stride, and nothing is asked
// on the way.
static void start_own_inside(kernel_frame *h, frame_program *p, int argument, ir base, ir begin) {
  row_copy c = copy_of_step(h, p, argument, base, begin, integer(h->e, 0));
  LLVMTypeRef number = view_type(h->e, &c.from);
  c.there = NULL;
  for (int step = 0; step < h->k->chunk; step++) {
    c.to = step_row_view(h, p, argument, base, integer(h->e, step));
    p->l.outside = h->at;
    lower_points(&p->l, plan_tile_axes(&h->m, c.axes), false, copy_number, &c);
    c.from.base = element(h->e, number, c.from.base, p->time_stride[argument]);
  }
}

// Each thread copies its own entry of all steps.
static void start_own(kernel_frame *h, frame_program *p, int argument, ir base, ir begin) {
  emit_loop loop = loop_begin(h->e, integer(h->e, 0), integer(h->e, h->k->chunk), 1, "ahead");
  row_copy c = copy_of_step(h, p, argument, base, begin, loop.index);
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, c.axes), false, copy_number, &c);
  loop_end(h->e, &loop);
}

// All threads together copy the rows of all steps.
static void start_common(kernel_frame *h, frame_program *p, int argument, ir base, ir begin) {
  emitter *e = h->e;
  const tile_place *place = tile_argument_place(p->program, argument);
  place_in_loops at = h->at;
  ir points = integer(e, gpu_row_shape(h->plan, p->at, argument).numbers * h->k->chunk);
  emit_loop loop = loop_begin(e, h->gpu->team.thread, points, h->gpu->team.threads, "ahead");
  ir rest = loop.index;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int axis = place->axes[x];
    if (axis_in(h->m.instance, axis)) continue;
    ir size = integer(e, plan_axis_size(p->program, axis));
    at.index[axis] = int_rem(e, rest, size);
    rest = int_div(e, rest, size);
  }
  row_copy c = copy_of_step(h, p, argument, base, begin, rest);
  copy_number(&p->l, &at, &c);
  loop_end(e, &loop);
}

// i1: all steps of the chunk from `begin` on lie inside the sequence, and the tensor is present.
static ir all_inside(kernel_frame *h, const frame_program *p, int argument, ir begin) {
  emitter *e = h->e;
  ir inside = int_compare(e, LLVMIntSLE, int_add_n(e, begin, h->k->chunk), h->time);
  ir present = p->memory[argument].present;
  return present ? bit_and(e, inside, present) : inside;
}

static void start_chunk(kernel_frame *h, ir turn, ir chunk) {
  frame_program *programs[2];
  ir begin = int_mul_n(h->e, chunk, h->k->chunk);
  for (int n = 0, count = programs_of(h, programs); n < count; n++) {
    frame_program *p = programs[n];
    for (int i = 0; i < p->program->arguments.count; i++) {
      if (!gpu_copies_step(h->plan, p->at, i)) continue;
      ir base = buffer_half(h, &p->at->staging_buffers[i], turn);
      if (gpu_row_shape(h->plan, p->at, i).lane) {
        emit_branch branch = branch_begin(h->e, all_inside(h, p, i, begin));
        start_own_inside(h, p, i, base, begin);
        branch_else(h->e, &branch);
        start_own(h, p, i, base, begin);
        branch_end(h->e, &branch);
      } else {
        start_common(h, p, i, base, begin);
      }
    }
  }
  gpu_call(h->e, GPU_CP_ASYNC_COMMIT, NULL, 0);
}

// ---- chunks ----

void gpu_open_steps(kernel_frame *h, ir first, ir any) {
  mark_place(h->e, "rows of the first chunk", (span){0});
  gpu_call(h->e, GPU_BARRIER, NULL, 0);  // earlier code may still read these buffers
  emit_branch branch = branch_begin(h->e, any);
  start_chunk(h, integer(h->e, 0), first);
  branch_end(h->e, &branch);
}

void gpu_next_steps(kernel_frame *h, ir turn, ir chunk, ir next, ir more) {
  mark_place(h->e, "rows of the next chunk", (span){0});
  emitter *e = h->e;
  frame_program *programs[2];
  gpu_call(e, GPU_CP_ASYNC_WAIT_0, NULL, 0);
  gpu_call(e, GPU_BARRIER, NULL, 0);
  emit_branch branch = branch_begin(e, more);
  start_chunk(h, int_add_n(e, turn, 1), next);
  branch_end(e, &branch);
  for (int n = 0, count = programs_of(h, programs); n < count; n++) {
    frame_program *p = programs[n];
    p->first_step = int_mul_n(e, chunk, h->k->chunk);
    p->rows = ARENA_ARRAY(h->a, ir, p->program->arguments.count);
    for (int i = 0; i < p->program->arguments.count; i++)
      if (gpu_is_step_ahead(p->at, i))
        p->rows[i] = buffer_half(h, &p->at->staging_buffers[i], turn);
  }
}

void gpu_arguments_of_step(kernel_frame *h, frame_program *p, ir t) {
  for (int i = 0; i < p->program->arguments.count; i++)
    if (p->rows && p->rows[i])
      p->l.arguments[i] = step_row_view(h, p, i, p->rows[i], int_sub(h->e, t, p->first_step));
    else
      frame_argument_of_step(h, p, i, t);
}
