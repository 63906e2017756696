// GPU: tokens of the next steps, where each thread runs a recurrence by itself (MAP_THREADS).
//
//   for chunk of steps:                       start chunk 0
//     for t:                                  for chunk:  wait; barrier; start chunk + 1 into the other half
//       x, b <- tokens of step t        ->      for t:    x, b <- shared memory
//       h = a h + x b                                     h = a h + x b
//
// A token takes longer to load than a step to compute, and each step depends on the one before: without a copy ahead, every
// load would be waited for. Each thread copies its own entry of a row along the lane axis, neighbours next to neighbours. The
// threads copy a row that all of them read together, once for the block. Numbers of 32 bits are copied by cp.async. It does
// not take single numbers of 16 bits, so these are loaded and stored, a whole chunk at once. Rows are copied ahead as long as
// a multiprocessor holds as many blocks as without them. Short rows, which all threads read, come first.
#include "compiler/kernel/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

typedef struct row_shape {
  axis_set axes;
  int64_t numbers;  // of a thread, or of all if the row has no lane axis; 0: not known
  bool lane, narrow;
} row_shape;

static const tile_place *place_of(const part *p, int argument) { return &p->program->arguments.items[argument]; }

static row_shape shape_of(const kernel_frame *h, const part *p, int argument) {
  enum { MOST_NUMBERS = 64 };
  const tile_place *place = place_of(p, argument);
  row_shape s = {.axes = frame_axes_of_place(place), .numbers = 1};
  int slot = frame_find_slot(h->described, place->role, place->tensor, place->lag);
  s.narrow = number_is_narrow(h->m.dtype) && h->described->slots.items[slot].narrow;
  s.lane = axis_in(s.axes, h->team.axis);
  axis_set tile = plan_tile_axes(&h->m, s.axes);
  for (int axis = 0; axis < p->program->axes.count; axis++) {
    int64_t size = axis_in(tile, axis) ? plan_axis_size(&h->m, p->program, axis) : 1;
    s.numbers = size == TILE_RUNTIME_SIZE ? 0 : s.numbers * size;
  }
  if (s.numbers > MOST_NUMBERS) s.numbers = 0;
  return s;
}

static int64_t row_of(const kernel_frame *h, row_shape s) { return s.lane ? s.numbers * h->team.threads : s.numbers; }

// ---- places ----

static bool is_token(const tile_place *place) {
  return place->time && (place->role == TILE_INPUT || place->role == TILE_D_OUTPUT);
}

static bool is_ahead(const part *p, int argument) { return is_token(place_of(p, argument)) && p->pads[argument].ahead.on_chip; }

// Backward, the steps that are computed again read tokens that the steps back read as well.
static int same_of_main(const kernel_frame *h, const part *p, int argument) {
  const tile_place *place = place_of(p, argument);
  for (int i = 0; p != &h->main && i < h->main.program->arguments.count; i++) {
    const tile_place *other = place_of(&h->main, i);
    bool same = other->role == place->role && other->tensor == place->tensor && other->lag == place->lag &&
                other->component == place->component;
    if (same && is_ahead(&h->main, i)) return i;
  }
  return -1;
}

static location take_words(kernel_frame *h, int64_t words) {
  location at = {h->on_chip, -1, true};
  h->on_chip += words;
  return at;
}

// Numbers of shared memory that a block may take for rows.
static int64_t limit_of(const kernel_frame *h) {
  enum { BLOCKS = 4, OF_A_KIB = 256, OF_A_BLOCK = GPU_SYSTEM_KIB * OF_A_KIB };
  bool large = h->chip_limit > GPU_SMALL_KIB * OF_A_KIB;
  int64_t all = gpu_shared_kib(large ? GPU_SM_90A : GPU_SM_80) * OF_A_KIB, blocks = all / (h->on_chip + OF_A_BLOCK);
  if (blocks > BLOCKS) blocks = BLOCKS;
  int64_t limit = blocks ? all / blocks - OF_A_BLOCK : 0;
  return limit < h->chip_limit ? limit : h->chip_limit;
}

static void place_rows(kernel_frame *h, part *p, int argument, int64_t limit) {
  enum { LINE = 32 };
  row_shape s = shape_of(h, p, argument);
  int same = same_of_main(h, p, argument);
  int64_t numbers = row_of(h, s) * h->k->chunk;
  int64_t words = ((s.narrow ? (numbers + 1) / 2 : numbers) + LINE - 1) / LINE * LINE;
  if (same >= 0) {
    p->pads[argument] = h->main.pads[same];
  } else if (words && h->on_chip + 2 * words <= limit) {
    p->pads[argument].at = take_words(h, words);
    p->pads[argument].ahead = take_words(h, words);
  }
}

// Of both programs, where there are two.
static int parts_of(kernel_frame *h, part *parts[2]) {
  parts[0] = &h->main;
  parts[1] = &h->recompute;
  return h->recomputes ? 2 : 1;
}

void gpu_place_steps(kernel_frame *h) {
  part *parts[2];
  if (h->m.kind != MAP_THREADS) return;
  int64_t limit = limit_of(h);
  for (int n = 0, count = 2 * parts_of(h, parts); n < count; n++) {
    part *p = parts[n / 2];
    for (int i = 0; i < p->program->arguments.count; i++) {
      bool lane = is_token(place_of(p, i)) && shape_of(h, p, i).lane;
      if (is_token(place_of(p, i)) && lane == n % 2) place_rows(h, p, i, limit);
    }
  }
}

bool gpu_steps_ahead(kernel_frame *h) {
  part *parts[2];
  if (h->m.kind != MAP_THREADS) return false;
  for (int n = 0, count = parts_of(h, parts); n < count; n++) {
    for (int i = 0; i < parts[n]->program->arguments.count; i++)
      if (is_ahead(parts[n], i)) return true;
  }
  return false;
}

// ---- copies ----

// The row of a step of the chunk whose rows begin at `base`: along the lane axis the thread's own entry.
static view row_at(kernel_frame *h, const part *p, int argument, ir base, ir step) {
  emitter *e = h->e;
  const tile_place *place = place_of(p, argument);
  row_shape s = shape_of(h, p, argument);
  view v = {.stored = p->memory[argument].stored};
  int64_t stride = s.lane ? h->team.threads : 1;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int axis = place->axes[x];
    if (axis_in(h->m.instance, axis)) continue;
    v.stride[axis] = integer(e, stride);
    stride *= plan_axis_size(&h->m, p->program, axis);
  }
  ir at = int_mul(e, step, integer(e, row_of(h, s)));
  if (s.lane) at = int_add(e, at, h->team.thread);
  v.base = element(e, view_type(e, &v), base, at);
  return v;
}

static ir half_of(kernel_frame *h, const pad *d, ir turn) {
  ir odd = int_compare(h->e, LLVMIntNE, int_rem(h->e, turn, integer(h->e, 2)), integer(h->e, 0));
  return LLVMBuildSelect(h->e->b, odd, frame_located(h, d->ahead), frame_located(h, d->at), "");
}

typedef struct row_copy {
  view from, to;
  axis_set axes;
  ir there;  // i1: the step and the tensor are
} row_copy;

static void copy_number(lower *l, const place_in_loops *at, void *data) {
  const row_copy *c = data;
  emitter *e = l->e;
  ir from = view_address(l, &c->from, at, c->axes), to = view_address(l, &c->to, at, c->axes);
  ir zero = LLVMConstInt(e->i32, 0, 0);
  if (!number_is_narrow(c->from.stored)) {
    ir bytes = LLVMBuildSelect(e->b, c->there, LLVMConstInt(e->i32, 4, 0), zero, "");
    gpu_call(e, GPU_CP_ASYNC4, (ir[]){to, from, bytes}, 3);
    return;
  }
  emit_branch branch = branch_begin(e, c->there);
  LLVMBuildStore(e->b, LLVMBuildLoad2(e->b, e->i16, from, ""), to);
  branch_else(e, &branch);
  LLVMBuildStore(e->b, LLVMConstInt(e->i16, 0, 0), to);
  branch_end(e, &branch);
}

static row_copy copy_of_step(kernel_frame *h, part *p, int argument, ir base, ir begin, ir step) {
  emitter *e = h->e;
  ir t = int_add(e, begin, step);
  row_copy c = {.axes = frame_axes_of_place(place_of(p, argument)),
                .from = frame_at_time(h, p->memory[argument], t, p->time_stride[argument]),
                .to = row_at(h, p, argument, base, step),
                .there = int_compare(e, LLVMIntSLT, t, h->time)};
  if (c.from.present) c.there = LLVMBuildAnd(e->b, c.there, c.from.present, "");
  return c;
}

// Each thread its own entry, of all steps.
static void start_own(kernel_frame *h, part *p, int argument, ir base, ir begin) {
  emit_loop loop = loop_begin(h->e, integer(h->e, 0), integer(h->e, h->k->chunk), 1, "ahead");
  row_copy c = copy_of_step(h, p, argument, base, begin, loop.index);
  p->l.outside = h->at;
  lower_points(&p->l, plan_tile_axes(&h->m, c.axes), false, copy_number, &c);
  loop_end(h->e, &loop);
}

// All threads together the numbers of all steps.
static void start_common(kernel_frame *h, part *p, int argument, ir base, ir begin) {
  emitter *e = h->e;
  const tile_place *place = place_of(p, argument);
  place_in_loops at = h->at;
  ir points = integer(e, shape_of(h, p, argument).numbers * h->k->chunk);
  emit_loop loop = loop_begin(e, h->team.thread, points, h->team.threads, "ahead");
  ir rest = loop.index;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    int axis = place->axes[x];
    if (axis_in(h->m.instance, axis)) continue;
    ir size = integer(e, plan_axis_size(&h->m, p->program, axis));
    at.index[axis] = int_rem(e, rest, size);
    rest = int_div(e, rest, size);
  }
  row_copy c = copy_of_step(h, p, argument, base, begin, rest);
  copy_number(&p->l, &at, &c);
  loop_end(e, &loop);
}

static void start_chunk(kernel_frame *h, ir turn, ir chunk) {
  part *parts[2];
  ir begin = int_mul(h->e, chunk, integer(h->e, h->k->chunk));
  for (int n = 0, count = parts_of(h, parts); n < count; n++) {
    part *p = parts[n];
    for (int i = 0; i < p->program->arguments.count; i++) {
      if (!is_token(place_of(p, i)) || !is_ahead(p, i) || same_of_main(h, p, i) >= 0) continue;
      ir base = half_of(h, &p->pads[i], turn);
      if (shape_of(h, p, i).lane) {
        start_own(h, p, i, base, begin);
      } else {
        start_common(h, p, i, base, begin);
      }
    }
  }
  gpu_call(h->e, GPU_CP_ASYNC_COMMIT, NULL, 0);
}

// ---- chunks ----

void gpu_open_steps(kernel_frame *h, ir first, ir any) {
  gpu_call(h->e, GPU_BARRIER, NULL, 0);  // what ran before may still read these places
  emit_branch branch = branch_begin(h->e, any);
  start_chunk(h, integer(h->e, 0), first);
  branch_end(h->e, &branch);
}

void gpu_next_steps(kernel_frame *h, ir turn, ir chunk, ir next, ir more) {
  emitter *e = h->e;
  part *parts[2];
  gpu_call(e, GPU_CP_ASYNC_WAIT_0, NULL, 0);
  gpu_call(e, GPU_BARRIER, NULL, 0);
  emit_branch branch = branch_begin(e, more);
  start_chunk(h, int_add(e, turn, integer(e, 1)), next);
  branch_end(e, &branch);
  for (int n = 0, count = parts_of(h, parts); n < count; n++) {
    part *p = parts[n];
    p->first_step = int_mul(e, chunk, integer(e, h->k->chunk));
    p->rows = ARENA_ARRAY(h->a, ir, p->program->arguments.count);
    for (int i = 0; i < p->program->arguments.count; i++)
      if (is_ahead(p, i)) p->rows[i] = half_of(h, &p->pads[i], turn);
  }
}

bool gpu_row_of_step(kernel_frame *h, const part *p, int argument, ir t, view *row) {
  if (!p->rows || !p->rows[argument]) return false;
  *row = row_at(h, p, argument, p->rows[argument], int_sub(h->e, t, p->first_step));
  return true;
}
