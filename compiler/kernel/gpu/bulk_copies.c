// GPU: bulk copies (TMA, sm_90a) of the rows of a chunk, in place of 16 bytes to a thread (staging.c).
//
//   k [t, H, K = 128], 64 steps   ->   thread 0:  expect 16384 bytes; tile of 64 steps at column 0, tile at column 64
//                                      all:       wait for them; barrier
//
// A tensor map describes the tile ("box" below); the copy writes it in the swizzled layout that wgmma reads. Bulk copies bring
// whole chunks alone, because rows beyond the end of a sequence must be 0. Rows without a map (runtime/support/gpu_maps.c) are
// copied by 16 bytes. Rows with a double buffer use two mbarriers in turn; rows without one use a third.
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

enum { THIRD = 2, BARRIERS = 3, BARRIER_WORDS = 2, NUMBER_BYTES = 2 };

// ---- barriers ----

// An i32.
static ir of_32(emitter *e, int64_t x) { return LLVMConstInt(e->i32, (unsigned long long)x, 0); }

// i32: the mbarrier of this iteration; `turn` NULL: of rows without a double buffer.
static ir number_of(kernel_frame *h, ir turn) {
  emitter *e = h->e;
  if (!turn) return of_32(e, THIRD);
  return LLVMBuildAnd(e->b, LLVMBuildTrunc(e->b, turn, e->i32, ""), of_32(e, 1), "");
}

// The mbarriers lie behind the sums of warps in shared memory.
static ir barrier_at(kernel_frame *h, ir number) {
  enum { MOST_BLOCK_WARPS = GPU_BLOCK_THREADS / GPU_WARP_LANES };
  _Static_assert(MOST_BLOCK_WARPS + BARRIERS * BARRIER_WORDS <= GPU_MOST_WARPS, "as many words as gpu_place_sums takes");
  emitter *e = h->e;
  ir word = LLVMBuildMul(e->b, number, of_32(e, BARRIER_WORDS), "");
  word = LLVMBuildAdd(e->b, word, of_32(e, MOST_BLOCK_WARPS), "");
  return element(e, e->real, h->gpu->team.sums, LLVMBuildZExt(e->b, word, e->i64, ""));
}

static emit_branch one_thread(kernel_frame *h) {
  ir first = int_compare(h->e, LLVMIntEQ, h->gpu->team.thread, of_32(h->e, 0));
  return branch_begin(h->e, first);
}

void gpu_open_bulk(kernel_frame *h) {
  emitter *e = h->e;
  if (!h->plan->maps.count) return;
  h->gpu->bulk_phases = stack_slot(e, e->i32, "phases");
  LLVMBuildStore(e->b, of_32(e, 0), h->gpu->bulk_phases);
  emit_branch branch = one_thread(h);
  for (int i = 0; i < BARRIERS; i++) gpu_call(e, GPU_MBARRIER_INIT, (ir[]){barrier_at(h, of_32(e, i)), of_32(e, 1)}, 2);
  branch_end(e, &branch);
  gpu_call(e, GPU_FENCE_ASYNC, NULL, 0);
  gpu_call(e, GPU_BARRIER, NULL, 0);
}

// Bit n of bulk_phases is the parity of the current phase of mbarrier n.
void gpu_wait_bulk(kernel_frame *h, ir turn) {
  emitter *e = h->e;
  ir number = number_of(h, turn), phases = LLVMBuildLoad2(e->b, e->i32, h->gpu->bulk_phases, "");
  ir parity = LLVMBuildAnd(e->b, LLVMBuildLShr(e->b, phases, number, ""), of_32(e, 1), "");
  gpu_call(e, GPU_MBARRIER_WAIT, (ir[]){barrier_at(h, number), parity}, 2);
  ir bit = LLVMBuildShl(e->b, of_32(e, 1), number, "");
  LLVMBuildStore(e->b, LLVMBuildXor(e->b, phases, bit, ""), h->gpu->bulk_phases);
}

// ---- copies ----

// i1: bulk copies bring the rows of the argument; the same for the whole block.
static ir comes_in_bulk(kernel_frame *h, const frame_program *p, int argument, ir mapped, ir whole) {
  emitter *e = h->e;
  ir bit = integer(e, INT64_C(1) << p->at->maps[argument]);
  ir there = int_compare(e, LLVMIntNE, LLVMBuildAnd(e->b, mapped, bit, ""), integer(e, 0));
  if (p->memory[argument].present) there = LLVMBuildAnd(e->b, there, p->memory[argument].present, "");
  return LLVMBuildAnd(e->b, there, whole, "");
}

typedef struct box_place {
  ir coordinates[4];  // i32
} box_place;

static box_place place_of_box(kernel_frame *h, const frame_program *p, int argument, ir chunk) {
  emitter *e = h->e;
  const tile_place *place = &p->program->arguments.items[argument];
  row_axes row;
  gpu_find_row(h->plan, p->at, place, &row);
  ir column = integer(e, 0), other = column, inner = integer(e, 1);
  int outermost = place->axes[row.first];
  if (axis_in(h->m.tiled, outermost)) {
    int64_t entry = row.numbers / plan_axis_size(&h->m, p->program, outermost);
    column = int_mul(e, h->tile_first, integer(e, entry));
  }
  for (int x = row.first - 1; x >= 0; x--) {
    other = int_add(e, other, int_mul(e, h->at.index[place->axes[x]], inner));
    inner = int_mul(e, inner, h->axis_size[place->axes[x]]);
  }
  ir step = int_add(e, h->gpu->entry_step, int_mul(e, chunk, integer(e, p->program->chunk)));
  ir sequences = frame_field(h, h->frame, offsetof(rec_gpu_frame, cu_seqlens), e->data);
  ir entry = int_choose(e, LLVMBuildIsNull(e->b, sequences, ""), h->batch, integer(e, 0));
  ir all[] = {column, other, step, entry};
  box_place at;
  for (int i = 0; i < 4; i++) at.coordinates[i] = LLVMBuildTrunc(e->b, all[i], e->i32, "");
  return at;
}

static void start_boxes(kernel_frame *h, const frame_program *p, int argument, ir to, ir chunk, ir barrier) {
  emitter *e = h->e;
  int number = p->at->maps[argument];
  const codegen_gpu_map *m = &h->plan->maps.items[number];
  LLVMTypeRef bytes = LLVMInt8TypeInContext(e->context);
  ir map = element(e, bytes, h->frame, integer(e, h->plan->maps_at + (int64_t)sizeof(rec_gpu_map) * number));
  box_place at = place_of_box(h, p, argument, chunk);
  int64_t boxes = p->at->staging_buffers[argument].row / m->box;
  for (int64_t i = 0; i < boxes; i++) {
    ir box = element(e, e->i16, to, integer(e, i * m->box * m->steps));
    ir column = LLVMBuildAdd(e->b, at.coordinates[0], of_32(e, i * m->box), "");
    ir args[] = {box, map, barrier, column, at.coordinates[1], at.coordinates[2], at.coordinates[3]};
    gpu_call(e, GPU_BULK_4, args, 7);
  }
}

// i32: the bytes of the argument that bulk copies bring.
static ir bytes_of_rows(kernel_frame *h, const frame_program *p, int argument, ir bulk) {
  int64_t bytes = p->at->staging_buffers[argument].row * p->program->chunk * NUMBER_BYTES;
  return LLVMBuildSelect(h->e->b, bulk, of_32(h->e, bytes), of_32(h->e, 0), "");
}

void gpu_start_bulk(kernel_frame *h, frame_program *p, ir turn, ir chunk, ir *bulk) {
  emitter *e = h->e;
  ir mapped = frame_field(h, h->frame, gpu_bytes_before_maps(h->plan), e->i64), bytes = of_32(e, 0);
  ir begin = int_mul(e, chunk, integer(e, p->program->chunk));
  ir whole = int_compare(e, LLVMIntSGE, int_sub(e, h->time, begin), integer(e, p->program->chunk));
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (!gpu_is_bulk(p->at, i) || gpu_is_ahead(p, i) != (turn != NULL)) continue;
    bulk[i] = comes_in_bulk(h, p, i, mapped, whole);
    bytes = LLVMBuildAdd(e->b, bytes, bytes_of_rows(h, p, i, bulk[i]), "");
  }
  emit_branch branch = one_thread(h);
  ir barrier = barrier_at(h, number_of(h, turn));
  gpu_call(e, GPU_MBARRIER_EXPECT, (ir[]){barrier, bytes}, 2);
  for (int i = 0; i < p->program->arguments.count; i++) {
    if (!bulk[i]) continue;
    emit_branch here = branch_begin(e, bulk[i]);
    start_boxes(h, p, i, gpu_rows_place(h, &p->at->staging_buffers[i], turn), chunk, barrier);
    branch_end(e, &here);
  }
  branch_end(e, &branch);
}
