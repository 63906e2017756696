// Products by wgmma (sm_90a): the four warps of a warpgroup compute 64 rows of the result. Hardware
// works asynchronously.
//
//   %12 [t,P] = dot %10 %11 over s, 64 rows   ->   fence; for s by 16: sums = wgmma sums, %10 at s, %11 at s; commit; wait
//   r * dot %1 %2 + dot %3 %4                 ->   fence; both, with sums of their own; commit; wait; sums = r * others + sums
//
// Operands are read from shared memory once for all four warps; with mma each warp loads its own by
// ldmatrix. Operands lie in tiles of 64 columns (view.width). A row of a tile has 128 bytes, or 64
// or 32 if there are no more columns. Its 16-byte vectors are swizzled as for ldmatrix. A tile
// begins at a multiple of 1024 bytes, eight rows after eight. The accumulator has the layout of
// mma, so that elementwise code around a product is the same. A thread that writes an operand ends
// with a fence; then all threads meet.
#include "compiler/base/ice.h"
#include "compiler/lower/gpu/mma.h"

enum { DEPTH = GPU_GROUP_DEPTH, GROUP_ROWS = GPU_GROUP_ROWS, ROWS_OF_PATTERN = 8 };
// An A operand in registers is loaded before the first product.
enum { MOST_DEPTH_IN_REGISTERS = 64 };

// ---- which products --------------------------------------------------------------------------

static bool is_known_int(ir x, int64_t *n) { return x && int_known(x, n); }

// Does a step along an axis, or an index map's offset, move by whole tiles of 8 rows and so many
// columns?
static bool keeps_place(const view *v, int64_t step, int columns) {
  return step / v->width % ROWS_OF_PATTERN == 0 && step % v->width % columns == 0;
}

// Does the operand lie in tiles, K-major or (*transposed) MN-major?
static bool is_in_tiles(lower *l, const mma *p, const mma_operand *o, int columns,
                        bool *transposed) {
  int k = p->factors->dot->k;
  int64_t along_k, along_line, n;
  const view *v = &o->v;
  if (!v->width || !gpu_in_shared_memory(v->base)) return false;
  if (!is_known_int(v->stride[k], &along_k) || !is_known_int(v->stride[o->line], &along_line))
    return false;
  *transposed = along_k == v->width && along_line == 1;
  if (!*transposed && (along_k != 1 || along_line != v->width)) return false;
  if (!*transposed) columns = DEPTH;
  if (v->offset && (!is_known_int(v->offset, &n) || !keeps_place(v, n, columns))) return false;
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    if (axis == k || axis == o->line || !axis_in(o->axes, axis) || !v->stride[axis]) continue;
    if (axis_in(l->m->instance, axis) || !is_known_int(v->stride[axis], &n)) return false;
    if (!keeps_place(v, n, columns)) return false;
  }
  return true;
}

bool gpu_is_group(lower *l, const mma *p) {
  bool transposed;
  const plan_dot *dot = p->factors->dot;
  if (!dot->wgmma) return false;
  bool may = known_size(l, dot->k) <= MOST_DEPTH_IN_REGISTERS ||
             is_in_tiles(l, p, &p->a, GROUP_ROWS, &transposed);
  may = may && is_in_tiles(l, p, &p->b, p->tiles * GPU_TILE_COLUMNS, &transposed);
  if (!may && !l->entries) ICE("lower", "an operand of wgmma does not lie in tiles");
  return may;  // turns of a repeat may differ in the entry that a slice takes
}

// ---- operands --------------------------------------------------------------------------------

// The descriptor of gpu_ops.def: the address of the first element, and two byte offsets. K-major
// operands ignore the first offset, which is 1 by convention.
static ir descriptor_of(lower *l, const mma *p, const mma_operand *o, const place_in_loops *at,
                        ir line, int64_t k, bool transposed) {
  emitter *e = l->e;
  uint64_t across = transposed ? (uint64_t)(o->v.tile * 2 / 16) : 1;
  int width = o->v.width < VIEW_TILE ? o->v.width : VIEW_TILE;
  uint64_t mode = width == 64 ? 1 : width == 32 ? 2 : 3;
  uint64_t distances =
      across << 16 | (uint64_t)(ROWS_OF_PATTERN * width * 2 / 16) << 32 | mode << 62;
  place_in_loops where = *at;
  where.index[o->line] = line;
  where.index[p->factors->dot->k] = integer(e, k);
  ir first = view_address(l, &o->v, &where, o->axes);
  first = gpu_call(e, GPU_SHARED_ADDRESS, &first, 1);
  if (p->unknown_zero) first = int_add(e, first, p->unknown_zero);
  first = LLVMBuildLShr(e->b, first, LLVMConstInt(e->i32, 4, 0), "");
  first = LLVMBuildZExt(e->b, first, e->i64, "");
  return bit_or(e, first, LLVMConstInt(e->i64, distances, 0));
}

// The assembler keeps descriptors for later products, two registers for each, unless it cannot know
// that they are the same.
static void make_descriptors_anew(lower *l, mma *p) {
  p->unknown_zero = gpu_lacks_registers(l) ? gpu_unknown_zero(l) : NULL;
}

typedef struct registers_of_a {
  ir parts[MOST_DEPTH_IN_REGISTERS / DEPTH][4];
} registers_of_a;

// ---- the product -----------------------------------------------------------------------------

// The operation for this number of columns: those for 8, 16, 32 and 64 columns are rows of
// gpu_ops.def at equal distances.
static gpu_op for_columns(const mma *p, gpu_op of_8) {
  int rows = GPU_WGMMA_FENCE_N16 - GPU_WGMMA_FENCE_N8, more = 0;
  for (int tiles = p->tiles; tiles > 1; tiles /= 2) more += rows;
  return (gpu_op)((int)of_8 + more);
}

enum { MOST_SUMS = 4 * GPU_MOST_KEPT };

static void call_with_sums(lower *l, const mma *p, gpu_op op, ir *sums, const ir *more, int count) {
  ir args[GPU_MOST_ARGUMENTS] = {0};
  int all = 4 * p->tiles;
  for (int i = 0; i < all; i++) args[i] = sums[i];
  for (int i = 0; i < count; i++) args[all + i] = more[i];
  ir result = gpu_call(l->e, for_columns(p, op), args, all + count);
  for (int i = 0; i < all; i++) sums[i] = LLVMBuildExtractValue(l->e->b, result, (unsigned)i, "");
}

static ir i32_flag(lower *l, int x) { return LLVMConstInt(l->e->i32, (unsigned long long)x, 1); }

static void one_step(lower *l, const mma *p, const place_in_loops *at, int64_t k,
                     const ir *registers, ir *sums) {
  bool across_a = false, across_b = false, f16 = p->type == NUMBER_F16;
  is_in_tiles(l, p, &p->b, p->tiles * GPU_TILE_COLUMNS, &across_b);
  ir b = descriptor_of(l, p, &p->b, at, p->first_column, k, across_b);
  if (registers) {
    ir more[] = {registers[0],   registers[1],         registers[2], registers[3], b,
                 i32_flag(l, 1), i32_flag(l, across_b)};
    gpu_op op = f16 ? GPU_WGMMA_REGISTERS_N8_F16 : GPU_WGMMA_REGISTERS_N8_BF16;
    call_with_sums(l, p, op, sums, more, 7);
    return;
  }
  is_in_tiles(l, p, &p->a, GROUP_ROWS, &across_a);
  ir a = descriptor_of(l, p, &p->a, at, p->group_row, k, across_a);
  ir more[] = {a, b, i32_flag(l, p->factors->minus ? -1 : 1), i32_flag(l, across_a),
               i32_flag(l, across_b)};
  call_with_sums(l, p, f16 ? GPU_WGMMA_N8_F16 : GPU_WGMMA_N8_BF16, sums, more, 5);
}

// A product over all of k, between fence and commit.
typedef struct group_product {
  ir sums[MOST_SUMS];
  registers_of_a a;
  bool in_registers;  // A is in registers
} group_product;

static group_product open_product(lower *l, const mma *p, const place_in_loops *at) {
  bool transposed;
  group_product g = {.in_registers = !is_in_tiles(l, p, &p->a, GROUP_ROWS, &transposed)};
  int64_t depth = known_size(l, p->factors->dot->k);
  for (int64_t k = 0; g.in_registers && k < depth; k += DEPTH)
    gpu_mma_a(l, p, at, integer(l->e, k), g.a.parts[k / DEPTH]);
  return g;
}

static void all_steps(lower *l, const mma *p, const place_in_loops *at, const group_product *g,
                      ir *sums) {
  int64_t depth = known_size(l, p->factors->dot->k);
  for (int64_t k = 0; k < depth; k += DEPTH)
    one_step(l, p, at, k, g->in_registers ? g->a.parts[k / DEPTH] : NULL, sums);
}

static void load_sums(lower *l, const mma *p, ir *sums) {
  for (int i = 0; i < 4 * p->tiles; i++) sums[i] = load_real(l->e, p->sums[i / 4][i % 4], 0);
}

static void store_sums(lower *l, const mma *p, const ir *sums, ir slots[][4]) {
  for (int i = 0; i < 4 * p->tiles; i++) store_real(l->e, sums[i], slots[i / 4][i % 4]);
}

void gpu_group_multiply(lower *l, mma *p, const place_in_loops *at) {
  make_descriptors_anew(l, p);
  group_product g = open_product(l, p, at);
  load_sums(l, p, g.sums);
  call_with_sums(l, p, GPU_WGMMA_FENCE_N8, g.sums, NULL, 0);
  all_steps(l, p, at, &g, g.sums);
  gpu_call(l->e, GPU_WGMMA_COMMIT, NULL, 0);
  call_with_sums(l, p, GPU_WGMMA_WAIT_N8, g.sums, NULL, 0);
  store_sums(l, p, g.sums, p->sums);
}

bool gpu_are_groups(lower *l, mma *p) {
  bool both = p->nest->two && !p->operands->other.summed && !p->operands->first.summed;
  for (int i = 1; i >= 0; i--) {
    gpu_mma_take(l, p, i ? &p->operands->other : &p->operands->first);
    both = both && gpu_is_group(l, p);
  }
  return both;
}

// Both products run at the same time. A product that is scaled before the sum has an accumulator of
// its own.
void gpu_group_multiply_both(lower *l, mma *p, const place_in_loops *at) {
  bool apart = p->nest->scaled != NO_TILE;
  make_descriptors_anew(l, p);
  gpu_mma_take(l, p, &p->operands->other);
  group_product other = open_product(l, p, at);
  gpu_mma_take(l, p, &p->operands->first);
  group_product first = open_product(l, p, at);
  load_sums(l, p, first.sums);
  for (int i = 0; apart && i < 4 * p->tiles; i++) other.sums[i] = real_number(l->e, 0, 0);
  call_with_sums(l, p, GPU_WGMMA_FENCE_N8, first.sums, NULL, 0);
  if (apart) call_with_sums(l, p, GPU_WGMMA_FENCE_N8, other.sums, NULL, 0);
  gpu_mma_take(l, p, &p->operands->other);
  all_steps(l, p, at, &other, apart ? other.sums : first.sums);
  gpu_mma_take(l, p, &p->operands->first);
  all_steps(l, p, at, &first, first.sums);
  gpu_call(l->e, GPU_WGMMA_COMMIT, NULL, 0);
  call_with_sums(l, p, GPU_WGMMA_WAIT_N8, first.sums, NULL, 0);
  store_sums(l, p, first.sums, p->sums);
  if (!apart) return;
  call_with_sums(l, p, GPU_WGMMA_WAIT_N8, other.sums, NULL, 0);
  store_sums(l, p, other.sums, p->others);
}

// ---- fences after stores to operands ---------------------------------------------------------

void gpu_fence_groups(lower *l) { gpu_call(l->e, GPU_FENCE_ASYNC, NULL, 0); }

static bool is_read_by_groups(const lower *l, tile_id id) {
  const plan_value *pv = &l->p->values[id];
  int buffer = pv->into != NO_TILE ? l->p->values[pv->into].buffer : pv->buffer;
  if (buffer < 0) return false;
  const plan_buffer *b = &l->p->buffers.items[buffer];
  return b->wgmma_layout || (b->carried >= 0 && l->carried[b->carried].width);
}

bool gpu_nest_feeds_groups(const lower *l, const plan_nest *nest) {
  if (!l->m->warpgroups) return false;
  if (nest->kind == NEST_PACK) return l->p->buffers.items[nest->pack].wgmma_layout;
  for (int i = 0; i < nest->values.count; i++)
    if (is_read_by_groups(l, nest->values.items[i])) return true;
  return false;
}
