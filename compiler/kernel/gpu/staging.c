// GPU: staging buffers. The rows of a chunk of every argument are copied into shared memory before
// they are read.
//
//   x [t, H, P]   ->   16 bytes to a thread by cp.async where the rows begin at multiples of 16 bytes, 0 beyond the end
//
//   start chunk 0
//   for chunk i:  wait; barrier; start chunk i + 1 into the other half of the buffer; compute chunk i
//
// Strides are known at run time: a kernel holds both kinds of copies and decides once a chunk.
// Unaligned 16-bit elements are loaded and stored one by one. Rows without a second half are
// copied, and waited for, at the start of their own chunk.
#include "compiler/emit/marks.h"
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

enum { PIECE = 16 };

typedef struct staged {
  view from, to;
  axis_set axes;
  int t;
  ir rows;  // rows inside the sequence: the others are 0
} staged;

// Has the argument a double buffer?
static bool is_ahead(const frame_program *p, int argument) {
  return gpu_is_staged(p->at, argument) && p->at->staging_buffers[argument].ahead.offset >= 0;
}

// ---- copies ----

static ir bytes_if(lower *l, const staged *s, const place_in_loops *at, int64_t bytes) {
  emitter *e = l->e;
  ir inside = int_compare(e, LLVMIntSLT, at->index[s->t], s->rows);
  ir some = LLVMConstInt(e->i32, (unsigned long long)bytes, 0);
  return LLVMBuildSelect(e->b, inside, some, LLVMConstInt(e->i32, 0, 0), "");
}

static void start_copy(lower *l, const staged *s, const place_in_loops *at, gpu_op op,
                       int64_t bytes) {
  ir to = view_address(l, &s->to, at, s->axes), from = view_address(l, &s->from, at, s->axes);
  gpu_call(l->e, op, (ir[]){to, from, bytes_if(l, s, at, bytes)}, 3);
}

static void copy_piece(lower *l, const place_in_loops *at, void *data) {
  start_copy(l, data, at, GPU_CP_ASYNC16, PIECE);
}

static void copy_word(lower *l, const place_in_loops *at, void *data) {
  start_copy(l, data, at, GPU_CP_ASYNC4, 4);
}

static void copy_number(lower *l, const place_in_loops *at, void *data) {
  const staged *s = data;
  emitter *e = l->e;
  ir slot = real_slot(e, real_number(e, 0, 0), "row");
  emit_branch branch = branch_begin(e, int_compare(e, LLVMIntSLT, at->index[s->t], s->rows));
  store_real(e, view_load(l, &s->from, at, s->axes), slot);
  branch_end(e, &branch);
  view_store(l, &s->to, at, s->axes, load_real(e, slot, 0));
}

// ---- one argument ----

// Time, then the axes of a row in their order in memory.
static loop_axes row_loop_axes(const kernel_frame *h, const frame_program *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  loop_axes all = {.count = 1, .axes = {p->program->time_axis}};
  for (int x = 0; x < place->axis_count; x++)
    if (!axis_in(h->m.instance, place->axes[x])) all.axes[all.count++] = place->axes[x];
  return all;
}

// Elements of a 16-byte vector, if rows consist of such vectors; else 0.
static int numbers_of_piece(const kernel_frame *h, const frame_program *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  int numbers = number_is_narrow(p->memory[argument].stored) ? 8 : 4;
  if (!p->at->staging_buffers[argument].at.in_shared || !place->axis_count ||
      kernel_is_complex(h->k, place))
    return 0;
  int last = place->axes[place->axis_count - 1];
  if (axis_in(h->m.instance, last)) return 0;
  int64_t size = plan_axis_size(p->program, last);
  return size != TILE_RUNTIME_SIZE && size % numbers == 0 ? numbers : 0;
}

// i1: rows begin at multiples of 16 bytes. The first one is at `address`; the strides of `axes`
// decide about the others.
static ir rows_aligned(emitter *e, const view *v, ir address, axis_set axes) {
  int64_t bytes = number_is_narrow(v->stored) ? 2 : 4;
  ir bits = LLVMBuildPtrToInt(e->b, address, e->i64, "");
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    int64_t known;
    if (!axis_in(axes, axis) || !v->stride[axis]) continue;
    if (int_known(v->stride[axis], &known) && (known * bytes % PIECE == 0 || known == 1)) continue;
    ir stride = int_mul(e, v->stride[axis], LLVMConstInt(e->i64, (unsigned long long)bytes, 0));
    bits = bit_or(e, bits, stride);
  }
  ir rest = bit_and(e, bits, LLVMConstInt(e->i64, PIECE - 1, 0));
  return int_compare(e, LLVMIntEQ, rest, integer(e, 0));
}

ir gpu_aligned(kernel_frame *h, frame_program *p, const view *v, axis_set axes) {
  ir first = view_address(&p->l, v, &h->at, h->m.instance & axes);
  return rows_aligned(h->e, v, first, axes & ~h->m.instance);
}

static view staged_copy(kernel_frame *h, const frame_program *p, int argument, ir base) {
  const staging_buffer *d = &p->at->staging_buffers[argument];
  const tile_place *place = tile_argument_place(p->program, argument);
  view copy = {.base = base, .stored = p->memory[argument].stored, .alignment = 16};
  copy.stride[p->program->time_axis] = integer(h->e, d->row);
  copy.layout = plan_layout_of_rows(copy.stored, d->row);
  bool group = p->p->wgmma_layout[argument] && h->m.warpgroups;
  if (copy.layout.pattern && group) view_in_tiles(&copy, d->row, p->program->chunk);
  for (int x = 0; x < place->axis_count; x++) {
    int axis = place->axes[x];
    if (!axis_in(h->m.instance, axis)) copy.stride[axis] = integer(h->e, d->stride[axis]);
  }
  return copy;
}

static staged staged_argument(kernel_frame *h, frame_program *p, int argument, ir base, ir chunk) {
  emitter *e = h->e;
  ir begin = int_mul_n(e, chunk, p->program->chunk);
  staged s = {.t = p->program->time_axis,
              .axes = tile_place_axes(p->program, tile_argument_place(p->program, argument))};
  s.from = p->memory[argument];
  s.from.base = p->row_start[argument];
  s.from = frame_at_time(h, s.from, begin, p->time_stride[argument]);
  ir present = s.from.present;
  s.from.present = NULL;
  s.from.stride[s.t] = p->time_stride[argument];
  s.to = staged_copy(h, p, argument, base);
  s.rows = int_min(e, int_sub(e, h->time, begin), integer(e, p->program->chunk));
  if (present) s.rows = int_choose(e, present, s.rows, integer(e, 0));
  return s;
}

// ---- one function for all rows of a shape ----

enum { MOST_ARGUMENTS = 3 + PLAN_MAX_AXES };

typedef struct row_copy {
  staged s;
  loop_axes all;
  int numbers;  // elements of a 16-byte vector; 0: rows have none
  bool words;   // else by words of 4 bytes
} row_copy;

// The function's name, made from all that it depends on.
static const char *row_copy_name(lower *l, const row_copy *c) {
  arena *a = l->e->a;
  bool chip = gpu_in_shared_memory(c->s.to.base);
  const char *name = arena_printf(a, "%d_%d_%d%s%s", l->team->threads, c->s.to.stored, c->numbers,
                                  c->words ? "_words" : "", chip ? "" : "_outside");
  if (c->s.to.width)
    name = arena_printf(a, "%s_tiles%d_%lld", name, c->s.to.width, (long long)c->s.to.tile);
  for (int i = 0; i < c->all.count; i++) {
    int axis = c->all.axes[i];
    int64_t from = 0, to = 0;
    int_known(c->s.from.stride[axis], &from);
    int_known(c->s.to.stride[axis], &to);
    name = arena_printf(a, "%s_%lld_%lld_%lld", name, (long long)known_size(l, axis),
                        (long long)from, (long long)to);
  }
  return gpu_short_name(l->e, "rows", name);
}

// Arguments: `to`, `from`, the rows inside the sequence, and strides that are known at run time
// alone.
static int arguments_of(const row_copy *c, ir *args) {
  int count = 3;
  int64_t known;
  args[0] = c->s.to.base;
  args[1] = c->s.from.base;
  args[2] = c->s.rows;
  for (int i = 0; i < c->all.count; i++) {
    ir stride = c->s.from.stride[c->all.axes[i]];
    if (!int_known(stride, &known)) args[count++] = stride;
  }
  return count;
}

static void copy_rows(lower *l, row_copy *c, const ir *args) {
  emitter *e = l->e;
  staged *s = &c->s;
  int count = 3;
  int64_t known;
  s->to.base = args[0];
  s->from.base = args[1];
  s->rows = args[2];
  for (int i = 0; i < c->all.count; i++) {
    ir *stride = &s->from.stride[c->all.axes[i]];
    if (!int_known(*stride, &known)) *stride = args[count++];
  }
  s->axes &= ~l->m->instance;
  place_in_loops at = {.vector_axis = -1};
  emit_branch branch = {0};
  if (c->numbers) {
    branch = branch_begin(e, rows_aligned(e, &s->from, args[1], s->axes));
    gpu_shared_pieces(l, &c->all, c->numbers, GPU_SHORT_BODY, &at, copy_piece, s);
    branch_else(e, &branch);
  }
  gpu_shared_pieces(l, &c->all, 1, GPU_SHORT_BODY, &at, c->words ? copy_word : copy_number, s);
  if (c->numbers) branch_end(e, &branch);
}

static void start_rows(lower *l, row_copy *c) {
  ir args[MOST_ARGUMENTS], own[MOST_ARGUMENTS], function;
  LLVMTypeRef types[MOST_ARGUMENTS];
  emitter *e = l->e, inside;
  int count = arguments_of(c, args);
  for (int i = 0; i < count; i++) types[i] = LLVMTypeOf(args[i]);
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)count, 0);
  if (emit_shared(e, row_copy_name(l, c), type, &function, &inside, own)) {
    lower here = *l;
    here.e = &inside;
    l->target->enter(&here);
    copy_rows(&here, c, own);
    emit_shared_end(&inside);
  }
  LLVMBuildCall2(e->b, type, function, args, (unsigned)count, "");
}

static void start_argument(kernel_frame *h, frame_program *p, int argument, ir base, ir chunk) {
  row_copy c = {.s = staged_argument(h, p, argument, base, chunk),
                .all = row_loop_axes(h, p, argument),
                .numbers = numbers_of_piece(h, p, argument)};
  c.words = !number_is_narrow(c.s.from.stored) && p->at->staging_buffers[argument].at.in_shared;
  start_rows(&p->l, &c);
}

// ---- chunks ----

// The half of the double buffer that holds the chunk of iteration `turn`.
static ir rows_place(kernel_frame *h, const staging_buffer *d, ir turn) {
  emitter *e = h->e;
  ir base = frame_located(h, d->at);
  if (d->ahead.offset < 0) return base;
  ir odd = int_rem_n(e, turn, 2);
  ir second = int_compare(e, LLVMIntNE, odd, integer(e, 0));
  return LLVMBuildSelect(e->b, second, frame_located(h, d->ahead), base, "");
}

static int start_arguments(kernel_frame *h, frame_program *p, ir turn, ir chunk, bool ahead) {
  int count = 0;
  p->l.outside = h->at;
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (!gpu_is_staged(p->at, i) || is_ahead(p, i) != ahead) continue;
    start_argument(h, p, i, rows_place(h, &p->at->staging_buffers[i], turn), chunk);
    count++;
  }
  return count;
}

static bool any_ahead(const frame_program *p) {
  for (int i = 0; i < p->program->arguments.count; i++)
    if (is_ahead(p, i)) return true;
  return false;
}

// An instance's rows begin where those of its first step do: computed before the loop over chunks.
static void find_rows(kernel_frame *h, frame_program *p) {
  p->row_start = ARENA_ARRAY(h->a, ir, p->program->arguments.count);
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (!gpu_is_staged(p->at, i)) continue;
    axis_set axes = tile_place_axes(p->program, tile_argument_place(p->program, i));
    p->row_start[i] = view_address(&p->l, &p->memory[i], &h->at, axes & h->m.instance);
  }
}

// Earlier code may still read or write the staging buffers.
void gpu_open_chunks(kernel_frame *h, frame_program *p, ir first, ir any) {
  mark_place(h->e, "rows of the first chunk", (span){0});
  emitter *e = h->e;
  find_rows(h, p);
  if (!any_ahead(p)) return;
  lower_barrier(&p->l);
  emit_branch branch = branch_begin(e, any);
  start_arguments(h, p, integer(e, 0), first, true);
  branch_end(e, &branch);
  gpu_call(e, GPU_CP_ASYNC_COMMIT, NULL, 0);
}

// Like stores by threads, cp.async needs a proxy fence before wgmma reads the data.
static void fence_rows(frame_program *p) {
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (!gpu_is_staged(p->at, i) || !p->p->wgmma_layout[i] || !p->l.m->warpgroups) continue;
    gpu_fence_groups(&p->l);
    return;
  }
}

// The copies of this chunk were started one iteration ago. The wait comes before the barrier, which
// shows the copies to all threads. After the barrier no thread reads the other half.
void gpu_next_chunk(kernel_frame *h, frame_program *p, ir turn, ir chunk, ir next, ir more) {
  mark_place(h->e, "rows of the next chunk", (span){0});
  emitter *e = h->e;
  bool ahead = any_ahead(p);
  if (ahead) gpu_call(e, GPU_CP_ASYNC_WAIT_0, NULL, 0);
  if (ahead) fence_rows(p);
  lower_barrier(&p->l);
  gpu_forget_accesses(&p->l, true);
  int own = start_arguments(h, p, turn, chunk, false);
  if (own) gpu_call(e, GPU_CP_ASYNC_COMMIT, NULL, 0);
  if (ahead) {
    emit_branch branch = branch_begin(e, more);
    start_arguments(h, p, int_add_n(e, turn, 1), next, true);
    branch_end(e, &branch);
    gpu_call(e, GPU_CP_ASYNC_COMMIT, NULL, 0);
  }
  if (own) {
    gpu_call(e, ahead ? GPU_CP_ASYNC_WAIT_1 : GPU_CP_ASYNC_WAIT_0, NULL, 0);
    fence_rows(p);
    lower_barrier(&p->l);
  }
  for (int i = 0; i < p->program->arguments.count; i++)
    if (gpu_is_staged(p->at, i))
      p->l.arguments[i] = staged_copy(h, p, i, rows_place(h, &p->at->staging_buffers[i], turn));
}
