// GPU: neighbouring elements that one thread loads or stores as a vector.
//
//   y [t, P] at 4 entries of P   ->   ld.shared.v4.f32 where rows begin at multiples of 16 bytes
//                                     st.global.v4 if the kernel finds that the caller's rows do, else number by number
//
// Scattered elements, and elements that an index map has moved, go one by one.
#include "compiler/lower/gpu/nests.h"

static int power_of_two_in(int64_t n, int most) {
  int power = 1;
  while (power < most && n % (2 * power) == 0) power *= 2;
  return power;
}

// The length of the aligned vectors that the place's lanes consist of. Indices of the axis in lanes
// are multiples of the lanes.
static int piece_of(lower *l, const view *v, const place_in_loops *at, axis_set axes, int base) {
  int piece = at->lanes;
  int64_t n;
  if (!int_is(v->stride[at->vector_axis], 1)) return 1;
  if (base < piece) piece = power_of_two_in(base, piece);
  if (v->offset) piece = int_known(v->offset, &n) ? power_of_two_in(n, piece) : 1;
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    if (axis == at->vector_axis || !axis_in(axes, axis) || !v->stride[axis]) continue;
    piece = int_known(v->stride[axis], &n) ? power_of_two_in(n, piece) : 1;
  }
  return piece;
}

static bool may_be_aligned(const view *v, const place_in_loops *at) {
  return v->aligned && int_is(v->stride[at->vector_axis], 1);
}

static place_in_loops scalar_place(lower *l, const place_in_loops *at, int lane) {
  place_in_loops one = *at;
  one.index[at->vector_axis] = int_add_n(l->e, at->index[at->vector_axis], lane);
  one.vector_axis = -1;
  one.lanes = 0;
  return one;
}

static unsigned bytes_of_vector(const view *v, int piece) {
  return (unsigned)(number_is_narrow(v->stored) ? 2 * piece : 4 * piece);
}

// ---- loads ----

// bf16 pairs are words: a shift makes the low number, a mask the high one.
static ir load_words(lower *l, ir address, int piece) {
  emitter *e = l->e;
  ir all = LLVMGetPoison(LLVMVectorType(e->i32, (unsigned)piece));
  ir words = LLVMBuildLoad2(e->b, LLVMVectorType(e->i32, (unsigned)piece / 2), address, "");
  LLVMSetAlignment(words, (unsigned)(2 * piece));
  for (int i = 0; i < piece; i++) {
    ir word = LLVMBuildExtractElement(e->b, words, integer(e, i / 2), "");
    ir bits = i % 2 ? bit_and(e, word, LLVMConstInt(e->i32, 0xffff0000u, 0))
                    : LLVMBuildShl(e->b, word, LLVMConstInt(e->i32, 16, 0), "");
    all = LLVMBuildInsertElement(e->b, all, bits, integer(e, i), "");
  }
  return LLVMBuildBitCast(e->b, all, real_type(e, piece), "");
}

static ir load_piece(lower *l, const view *v, ir address, int piece) {
  emitter *e = l->e;
  if (v->stored == NUMBER_BF16 && piece % 2 == 0) return load_words(l, address, piece);
  LLVMTypeRef type = LLVMVectorType(view_type(e, v), (unsigned)piece);
  ir x = LLVMBuildLoad2(e->b, type, address, "");
  LLVMSetAlignment(x, bytes_of_vector(v, piece));
  return number_is_narrow(v->stored) ? narrow_widened(e, v->stored, x) : x;
}

static ir load_by(lower *l, const view *v, const place_in_loops *at, axis_set axes, int piece) {
  emitter *e = l->e;
  if (piece == at->lanes) return load_piece(l, v, view_address(l, v, at, axes), piece);
  ir all = LLVMGetPoison(real_type(e, at->lanes));
  for (int lane = 0; lane < at->lanes; lane += piece) {
    place_in_loops one = scalar_place(l, at, lane);
    ir x = piece > 1 ? load_piece(l, v, view_address(l, v, &one, axes), piece)
                     : view_load(l, v, &one, axes);
    for (int i = 0; i < piece; i++) {
      ir number = piece > 1 ? LLVMBuildExtractElement(e->b, x, integer(e, i), "") : x;
      all = LLVMBuildInsertElement(e->b, all, number, integer(e, lane + i), "");
    }
  }
  return all;
}

static ir load_number(lower *l, const view *v, ir address) {
  emitter *e = l->e, as = emit_as(e, view_type(e, v));
  return number_is_narrow(v->stored) ? load_narrow(e, v->stored, address, NULL, NULL, 0)
                                     : as_real(e, load_real(&as, address, 0));
}

// Loads neighbours from an address of unknown alignment, one by one.
static ir load_neighbours(lower *l, const view *v, ir address, int count) {
  emitter *e = l->e;
  ir all = LLVMGetPoison(real_type(e, count));
  for (int i = 0; i < count; i++) {
    ir x = load_number(l, v, element(e, view_type(e, v), address, integer(e, i)));
    all = LLVMBuildInsertElement(e->b, all, x, integer(e, i), "");
  }
  return all;
}

static ir load_lanes(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  if (!may_be_aligned(v, at))
    return load_by(l, v, at, axes, piece_of(l, v, at, axes, v->alignment ? v->alignment : 1));
  ir slot = stack_slot(e, real_type(e, at->lanes), "numbers"),
     address = view_address(l, v, at, axes);
  emit_branch branch = branch_begin(e, v->aligned);
  store_real(e, load_piece(l, v, address, at->lanes), slot);
  branch_else(e, &branch);
  store_real(e, load_neighbours(l, v, address, at->lanes), slot);
  branch_end(e, &branch);
  return load_real(e, slot, at->lanes);
}

// Loads a vector; 0 where the tensor is absent.
static ir load_if_present(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  view there = *v;
  there.present = NULL;
  int lanes = view_in_lanes(v, at, axes) ? at->lanes : 0;
  ir slot = real_slot(e, real_number(e, 0, lanes), "optional");
  emit_branch branch = branch_begin(e, v->present);
  store_real(e, view_load(l, &there, at, axes), slot);
  branch_end(e, &branch);
  return load_real(e, slot, lanes);
}

ir gpu_load(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  if (v->present) return load_if_present(l, v, at, axes);
  if (view_in_lanes(v, at, axes)) return load_lanes(l, v, at, axes);
  return load_number(l, v, view_address(l, v, at, axes));
}

ir gpu_load_pair(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  if (!number_is_narrow(v->stored) || v->present || !view_in_lanes(v, at, axes)) return NULL;
  if (piece_of(l, v, at, axes, v->alignment ? v->alignment : 1) < 2) return NULL;
  ir pair = LLVMBuildLoad2(l->e->b, l->e->i32, view_address(l, v, at, axes), "");
  LLVMSetAlignment(pair, 4);
  return pair;
}

// ---- stores ----

static ir vector_elements(lower *l, ir x, int first, int count) {
  emitter *e = l->e;
  if (count == ir_lanes(x)) return x;
  if (count == 1) return LLVMBuildExtractElement(e->b, x, integer(e, first), "");
  return lanes_from(e, x, first, count);
}

static void store_piece(lower *l, const view *v, ir address, ir x) {
  emitter *e = l->e;
  int piece = ir_lanes(x);
  if (number_is_narrow(v->stored)) x = narrow_pairs(e, v->stored, x);
  ir store = LLVMBuildStore(e->b, x, address);
  LLVMSetAlignment(store, bytes_of_vector(v, piece));
}

static void store_by(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x,
                     int piece) {
  for (int lane = 0; lane < at->lanes; lane += piece) {
    place_in_loops one = scalar_place(l, at, lane);
    if (piece > 1)
      store_piece(l, v, view_address(l, v, &one, axes), vector_elements(l, x, lane, piece));
    else
      view_store(l, v, &one, axes, vector_elements(l, x, lane, 1));
  }
}

static void store_vector_number(lower *l, const view *v, ir address, ir x) {
  emitter *e = l->e, as = emit_as(e, view_type(e, v));
  if (number_is_narrow(v->stored))
    store_narrow(e, v->stored, x, address, NULL, NULL);
  else
    store_real(&as, as_real(&as, x), address);
}

static void store_neighbours(lower *l, const view *v, ir address, ir x) {
  emitter *e = l->e;
  for (int i = 0; i < ir_lanes(x); i++) {
    ir at = element(e, view_type(e, v), address, integer(e, i));
    store_vector_number(l, v, at, vector_elements(l, x, i, 1));
  }
}

static void store_lanes(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x) {
  emitter *e = l->e;
  if (!may_be_aligned(v, at)) {
    store_by(l, v, at, axes, x, piece_of(l, v, at, axes, v->alignment ? v->alignment : 1));
    return;
  }
  ir address = view_address(l, v, at, axes);
  emit_branch branch = branch_begin(e, v->aligned);
  store_piece(l, v, address, x);
  branch_else(e, &branch);
  store_neighbours(l, v, address, x);
  branch_end(e, &branch);
}

void gpu_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x) {
  if (view_in_lanes(v, at, axes)) {
    store_lanes(l, v, at, axes, spread(l->e, x, at->lanes));
    return;
  }
  ir address = view_address(l, v, at, axes);
  emit_branch branch = {0};
  if (l->only) branch = branch_begin(l->e, l->only);
  store_vector_number(l, v, address, x);
  if (l->only) branch_end(l->e, &branch);
}
