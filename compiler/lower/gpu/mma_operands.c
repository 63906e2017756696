// Operands of products on tensor cores, as registers of the lanes of a warp.
//
// ldmatrix loads an operand that lies in whole rows of 16 bytes in shared memory. It transposes
// 16-bit elements if the other axis is contiguous. Of other operands each lane gathers its own
// elements. Sizes that are no multiples of 16 read 0 beyond their end.
#include "compiler/lower/gpu/mma.h"

enum { TILE_ROWS = GPU_TILE_ROWS, TILE_COLUMNS = GPU_TILE_COLUMNS };

ir gpu_mma_below(lower *l, ir index, int axis) {
  return int_compare(l->e, LLVMIntSLT, index, integer(l->e, known_size(l, axis)));
}

bool gpu_mma_is_tf32(const mma *p) { return p->type == NUMBER_F32; }

// Do rows consist of 16-byte vectors at multiples of 16 bytes, for all indices?
static bool has_vector_rows(lower *l, const mma *p, const mma_operand *o, int contiguous) {
  int64_t stride;
  int row = gpu_mma_is_tf32(p) ? 4 : 8;
  if (!gpu_in_shared_memory(o->v.base)) return false;
  if (o->v.alignment < row || number_is_narrow(o->v.stored) == gpu_mma_is_tf32(p)) return false;
  if (!int_is(o->v.stride[contiguous], 1)) return false;
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    if (axis == contiguous || !axis_in(o->axes, axis) || !o->v.stride[axis]) continue;
    if (axis_in(l->m->instance, axis)) return false;
    if (!int_known(o->v.stride[axis], &stride) || stride % row) return false;
  }
  return true;
}

static void choose_way(lower *l, const mma *p, mma_operand *o, int k, int line_tile) {
  o->way = BY_ELEMENTS;
  if (known_size(l, o->line) % line_tile || known_size(l, k) % p->depth) return;
  if (has_vector_rows(l, p, o, k)) o->way = BY_MATRIX;
  if (!gpu_mma_is_tf32(p) && has_vector_rows(l, p, o, o->line)) o->way = BY_MATRIX_TRANSPOSED;
}

void gpu_mma_take(lower *l, mma *p, const gpu_factors *f) {
  p->factors = f;
  p->a = (mma_operand){.v = f->a, .axes = f->a_axes, .line = f->dot->i};
  p->b = (mma_operand){.v = f->b, .axes = f->b_axes, .line = f->dot->j};
  choose_way(l, p, &p->a, f->dot->k, TILE_ROWS);
  choose_way(l, p, &p->b, f->dot->k, TILE_COLUMNS);
}

typedef struct operand_place {
  place_in_loops at;
  // i1: of the tensor; NULL: always. Outside of it the place is that of the first element.
  ir inside;
} operand_place;

static operand_place place_of_element(lower *l, const mma *p, const mma_operand *o,
                                      const place_in_loops *at, ir line, ir k) {
  emitter *e = l->e;
  int depth = p->factors->dot->k;
  int tile = o->line == p->factors->dot->j ? p->tiles * TILE_COLUMNS : TILE_ROWS;
  bool whole_lines = known_size(l, o->line) % tile == 0,
       whole_depth = known_size(l, depth) % p->depth == 0;
  ir inside = NULL;
  if (!whole_lines) inside = gpu_mma_below(l, line, o->line);
  if (!whole_depth) {
    ir here = gpu_mma_below(l, k, depth);
    inside = inside ? bit_and(e, inside, here) : here;
  }
  operand_place where = {*at, inside};
  where.at.index[o->line] = inside ? int_choose(e, inside, line, integer(e, 0)) : line;
  where.at.index[depth] = inside ? int_choose(e, inside, k, integer(e, 0)) : k;
  return where;
}

// One element of an operand, or neighbours; 0 outside of the tensor.
static ir mma_operand_number(lower *l, const mma *p, const mma_operand *o, const place_in_loops *at,
                             ir line, ir k) {
  operand_place where = place_of_element(l, p, o, at, line, k);
  ir x = view_load(l, &o->v, &where.at, o->axes);
  return where.inside ? choose(l->e, where.inside, x, real_number(l->e, 0, ir_lanes(x))) : x;
}

static ir inside_or_zero(emitter *e, const operand_place *where, ir bits) {
  return where->inside ? LLVMBuildSelect(e->b, where->inside, bits, LLVMConstInt(e->i32, 0, 0), "")
                       : bits;
}

// The bits of one element, or of a pair of neighbours (NULL: they are no word), where memory has
// the operand's type.
static ir element_bits(lower *l, const mma *p, const mma_operand *o, const place_in_loops *at,
                       ir line, ir k) {
  emitter *e = l->e;
  operand_place where = place_of_element(l, p, o, at, line, k);
  if (at->lanes) {
    ir pair = gpu_load_pair(l, &o->v, &where.at, o->axes);
    return pair ? inside_or_zero(e, &where, pair) : NULL;
  }
  ir bits = LLVMBuildLoad2(e->b, e->i16, view_address(l, &o->v, &where.at, o->axes), "");
  return inside_or_zero(e, &where, LLVMBuildZExt(e->b, bits, e->i32, ""));
}

static bool has_bits(const mma *p, const mma_operand *o) {
  return o->v.stored == p->type && !o->v.present;
}

static ir packed(lower *l, const mma *p, ir low, ir high) {
  gpu_op op = p->type == NUMBER_BF16 ? GPU_CVT_BF16X2 : GPU_CVT_F16X2;
  return gpu_call(l->e, op, (ir[]){low, high}, 2);
}

bool gpu_has_pairs(lower *l, const view *v, int axis) {
  return known_size(l, axis) % 2 == 0 && int_is(v->stride[axis], 1);
}

static ir pair_at(lower *l, const mma *p, const mma_operand *o, const place_in_loops *at, ir line,
                  ir k) {
  emitter *e = l->e;
  int depth = p->factors->dot->k;
  if (gpu_has_pairs(l, &o->v, depth)) {
    place_in_loops wide = *at;
    wide.vector_axis = depth;
    wide.lanes = 2;
    ir pair = has_bits(p, o) ? element_bits(l, p, o, &wide, line, k) : NULL;
    if (pair) return pair;
    ir both = mma_operand_number(l, p, o, &wide, line, k);
    return packed(l, p, LLVMBuildExtractElement(e->b, both, integer(e, 0), ""),
                  LLVMBuildExtractElement(e->b, both, integer(e, 1), ""));
  }
  ir next = int_add_n(l->e, k, 1);
  if (has_bits(p, o)) {
    ir low = element_bits(l, p, o, at, line, k), high = element_bits(l, p, o, at, line, next);
    return bit_or(e, low, LLVMBuildShl(e->b, high, LLVMConstInt(e->i32, 16, 0), ""));
  }
  return packed(l, p, mma_operand_number(l, p, o, at, line, k),
                mma_operand_number(l, p, o, at, line, next));
}

// Register r of an operand whose line is this one: a pair of 16 bits, or the bits of one f32.
// `half` counts halves of the instruction's depth.
static ir register_at(lower *l, const mma *p, const mma_operand *o, const place_in_loops *at,
                      ir line, ir k, int half) {
  emitter *e = l->e;
  if (!gpu_mma_is_tf32(p)) {
    ir depth = int_add(e, k, int_mul_n(e, p->pair, 2));
    return pair_at(l, p, o, at, line, int_add_n(l->e, depth, half * 8));
  }
  ir x = mma_operand_number(l, p, o, at, line, int_add_n(l->e, int_add(e, k, p->pair), half * 4));
  return LLVMBuildBitCast(e->b, x, e->i32, "");
}

// Lane 8 m + i has row i of matrix m. The matrices of A are rows 0-7 and 8-15, then the same of the
// next half of k; those of B, of 8 columns, are the first and the other half of k. A row has 8
// elements of 16 bits, or 4 of 32 bits, whose two halves a lane gets together. `line`: of matrix 0.
static void load_matrices(lower *l, const mma *p, const mma_operand *o, const place_in_loops *at,
                          ir line, ir k, ir *out) {
  emitter *e = l->e;
  bool a = o == &p->a, transposed = o->way == BY_MATRIX_TRANSPOSED;
  ir row = int_rem_n(e, p->lane, 8), matrix = int_div_n(e, p->lane, 8);
  ir second = a ? int_mul_n(e, int_rem_n(e, matrix, 2), 8) : NULL;
  ir half = (a ? int_div : int_rem)(e, matrix, integer(e, 2));
  ir later = int_mul_n(e, half, p->depth / 2);
  place_in_loops where = *at;
  if (a) line = int_add(e, line, second);
  ir depth = int_add(e, k, later);
  where.index[o->line] = transposed ? line : int_add(e, line, row);
  where.index[p->factors->dot->k] = transposed ? int_add(e, depth, row) : depth;
  ir address = view_address(l, &o->v, &where, o->axes);
  gpu_op plain = a ? GPU_LDMATRIX_X4 : GPU_LDMATRIX_X2,
         turned = a ? GPU_LDMATRIX_X4_TRANS : GPU_LDMATRIX_X2_TRANS;
  ir all = gpu_call(e, transposed ? turned : plain, &address, 1);
  for (unsigned i = 0; i < (a ? 4 : 2); i++) out[i] = LLVMBuildExtractValue(e->b, all, i, "");
}

void gpu_mma_a(lower *l, const mma *p, const place_in_loops *at, ir k, ir out[4]) {
  emitter *e = l->e;
  if (p->a.way == BY_ELEMENTS) {
    ir row = int_add(e, p->first_row, p->group);
    for (int r = 0; r < 4; r++)
      out[r] = register_at(l, p, &p->a, at, int_add_n(l->e, row, r % 2 * 8), k, r / 2);
  } else {
    load_matrices(l, p, &p->a, at, p->first_row, k, out);
  }
  ir signs = LLVMConstInt(e->i32, gpu_mma_is_tf32(p) ? 0x80000000u : 0x80008000u, 0);
  for (int r = 0; p->factors->minus && r < 4; r++) out[r] = LLVMBuildXor(e->b, out[r], signs, "");
}

void gpu_mma_b(lower *l, const mma *p, const place_in_loops *at, int tile, ir k, ir out[2]) {
  emitter *e = l->e;
  ir column = int_add_n(l->e, p->first_column, tile * TILE_COLUMNS);
  if (p->b.way != BY_ELEMENTS) {
    // columns beyond the last are not stored; memory behind the matrix may be written at the same
    // time, so the last ones are read instead
    int64_t last = known_size(l, p->b.line) - TILE_COLUMNS;
    if (known_size(l, p->b.line) % (p->tiles * TILE_COLUMNS))
      column = int_min(e, column, integer(e, last));
    load_matrices(l, p, &p->b, at, column, k, out);
    return;
  }
  column = int_add(e, column, p->group);
  for (int r = 0; r < 2; r++) out[r] = register_at(l, p, &p->b, at, column, k, r);
}
