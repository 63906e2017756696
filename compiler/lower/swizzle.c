// Addresses of swizzled memory.
//
//   row r, column c of 64 numbers of 16 bits      r * 64 + (c xor 8 * (r mod 8))
//
// An index is a sum of terms: of the lane, of the loops, of constants. A swizzle reads and changes
// low bits alone. A term that has none of them, such as 16 rows times a loop's index, is added
// behind the swizzle. Of the low bits, those of constants trade places by a constant. What remains
// depends on the lane: LLVM computes it once.
//
//   row 16 * i + lane / 4 + 8, column 2 * (lane % 4) + 8 * n      (x xor 8 * (n % 8)) + 1024 * i + 512
//                                                                 x: the swizzled place of row lane / 4, column 2 * (lane % 4)
#include "compiler/base/ice.h"
#include "compiler/emit/fields.h"
#include "compiler/lower/nest_target.h"

// A row of tiles of 64 columns has a line in each tile.
enum { TILE_LINE = 6 };

typedef struct swizzle {
  plan_swap swaps[PLAN_MOST_SWAPS];
  int count;
  int64_t changed, read;  // the bits of an offset that it changes, and by which it does
  int64_t reach;          // it reads no bit from this one on
} swizzle;

static swizzle swizzle_of(const view *v) {
  plan_layout layout = v->layout;
  if (v->width) layout.line = TILE_LINE;
  swizzle s = {.reach = 1};
  s.count = plan_swaps_of(layout, v->stored, s.swaps);
  // Shorter rows of tiles have fewer pieces.
  if (v->width && v->width < VIEW_TILE) s.swaps[0].bits &= v->width - 1;
  for (int i = 0; i < s.count; i++)
    s.changed |= s.swaps[i].bits, s.read |= s.swaps[i].bits << s.swaps[i].down;
  while (s.reach <= s.read) s.reach *= 2;
  return s;
}

static ir swizzled(emitter *e, const swizzle *s, ir offset) {
  LLVMTypeRef type = LLVMTypeOf(offset);
  ir to = offset;
  for (int i = 0; i < s->count; i++) {
    ir bits = LLVMBuildLShr(e->b, offset, LLVMConstInt(type, (unsigned)s->swaps[i].down, 0), "");
    bits = bit_and(e, bits, LLVMConstInt(type, (unsigned)s->swaps[i].bits, 0));
    to = LLVMBuildXor(e->b, to, bits, "");
  }
  return to;
}

static int64_t swizzled_constant(const swizzle *s, int64_t offset) {
  int64_t to = offset;
  for (int i = 0; i < s->count; i++) to ^= (offset >> s->swaps[i].down) & s->swaps[i].bits;
  return to;
}

// Does a term change nothing that the swizzle reads or changes, where no other term has its bits?
static bool is_beside(const swizzle *s, const int_terms *all, int number) {
  uint64_t bits = int_bits(all->items[number]), others = (uint64_t)(all->constant & (s->reach - 1));
  for (int i = 0; i < all->count; i++)
    if (i != number) others |= int_bits(all->items[i]);
  return !(bits & ((uint64_t)(s->read | s->changed) | others));
}

// Terms that the swizzle sees, and those that are added behind it.
static void part(const swizzle *s, const int_terms *all, int_terms *low, int_terms *high) {
  *low = *high = (int_terms){0};
  for (int i = 0; i < all->count; i++) {
    bool above = !(int_bits(all->items[i]) & (uint64_t)(s->reach - 1));
    int_terms *t = above || is_beside(s, all, i) ? high : low;
    t->items[t->count++] = all->items[i];
  }
  low->constant = all->constant & (s->reach - 1);
  high->constant = all->constant - low->constant;
}

static ir moved_address(lower *l, const view *v, ir base, ir by) {
  return element(l->e, view_type(l->e, v), base, by);
}

static int bytes_of_row(lower *l, const view *v) {
  return number_is_narrow(v->stored)                                    ? 2
         : view_type(l->e, v) == LLVMDoubleTypeInContext(l->e->context) ? 8
                                                                        : 4;
}

// Terms of 64 bits, which the sizes of the caller's tensors decide, and the others.
static void part_by_width(emitter *e, const int_terms *all, int_terms *wide, int_terms *narrow) {
  *wide = (int_terms){0}, *narrow = (int_terms){.constant = all->constant};
  for (int i = 0; i < all->count; i++) {
    int_terms *t = LLVMTypeOf(all->items[i]) == e->i64 ? wide : narrow;
    t->items[t->count++] = all->items[i];
  }
}

// An address by the bits of the thread's number and of loops; NULL: the offset is no sum of bits.
static ir address_by_fields(lower *l, const view *v, const swizzle *s, const int_terms *offset) {
  emitter *e = l->e;
  int_fields f = {0};
  int_swap swaps[PLAN_MOST_SWAPS];
  int_terms wide, narrow;
  if (!l->target->by_bits || !l->target->by_bits(l, &f)) return NULL;
  part_by_width(e, offset, &wide, &narrow);
  if ((wide.count && s->count) || !int_fields_of(&f, &narrow) ||
      f.count * (1 + s->count) > INT_MOST_FIELDS)
    return NULL;
  for (int i = 0; i < s->count; i++)
    swaps[i] = (int_swap){(uint32_t)s->swaps[i].bits, s->swaps[i].down};
  int_fields_swap(&f, swaps, s->count);
  if (!int_fields_shift(&f, __builtin_ctz((unsigned)bytes_of_row(l, v)))) return NULL;
  LLVMTypeRef byte = LLVMInt8TypeInContext(e->context);
  ir base = wide.count ? moved_address(l, v, v->base, int_sum(e, &wide)) : v->base,
     number = int_fields_number(e, &f);
  if (number) base = element(e, byte, base, number);
  return element(e, byte, base, integer(e, f.constant));
}

static ir address_of(lower *l, const view *v, const int_terms *offset) {
  emitter *e = l->e;
  const swizzle s = swizzle_of(v);
  ir by_fields = address_by_fields(l, v, &s, offset);
  if (by_fields) return by_fields;
  int_terms low, high;
  part(&s, offset, &low, &high);
  int64_t place = low.constant;
  low.constant = 0;
  ir variable = low.count ? int_sum(e, &low) : NULL;
  if (variable && int_bits(variable) & (uint64_t)place)
    variable = int_add_n(e, variable, place), place = 0;
  place = swizzled_constant(&s, place);
  ir base = v->base;
  if (variable) {
    variable = swizzled(e, &s, variable);
    if (place & s.changed)
      variable = LLVMBuildXor(
          e->b, variable, LLVMConstInt(LLVMTypeOf(variable), (unsigned)(place & s.changed), 0), "");
    base = moved_address(l, v, base, variable);
    place &= ~s.changed;
  }
  int64_t constant = high.constant + place;
  high.constant = 0;
  if (high.count) base = moved_address(l, v, base, int_sum(e, &high));
  return moved_address(l, v, base, integer(e, constant));
}

// ---- tiles of 64 columns of all rows, or whole rows if they are shorter ----

static int64_t known(ir x) {
  int64_t n;
  if (!int_known(x, &n)) ICE("lower", "rows in tiles of unknown length");
  return n;
}

static void one_term(emitter *e, int_terms *t) {
  ir sum = int_sum(e, t);
  *t = (int_terms){.items = {sum}, .count = 1};
}

// Each term of the column, by tiles and within one: no two have the same bits.
static void add_columns(emitter *e, const view *v, int_terms *column, int_terms *offset) {
  if (!int_terms_apart(column)) one_term(e, column);
  ir width = integer(e, VIEW_TILE);
  for (int i = 0; i < column->count; i++) {
    ir x = column->items[i];
    uint64_t bits = int_bits(x);
    if (bits & (VIEW_TILE - 1))
      int_add_terms(e, offset, bits >= VIEW_TILE ? int_rem(e, x, width) : x, 1);
    if (bits >= VIEW_TILE) int_add_terms(e, offset, int_div(e, x, width), v->tile);
  }
  offset->constant += column->constant % VIEW_TILE + column->constant / VIEW_TILE * v->tile;
}

static void add_index(lower *l, const view *v, ir index, int64_t stride, int_terms *row,
                      int_terms *column) {
  if (stride % v->width)
    int_add_terms(l->e, column, index, stride);
  else
    int_add_terms(l->e, row, index, stride / v->width);
}

// Of memory in tiles: each axis counts rows, or columns of one.
static int_terms offset_in_tiles(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  int_terms row = {0}, column = {0}, offset = {0};
  if (v->offset) {
    int_add_terms(e, &row, int_div_n(e, v->offset, v->width), 1);
    int_add_terms(e, &column, int_rem_n(e, v->offset, v->width), 1);
  }
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    if (view_moves_along(l, v, at, axes, axis))
      add_index(l, v, at->index[axis], known(v->stride[axis]), &row, &column);
  int width = v->width < VIEW_TILE ? v->width : VIEW_TILE;
  for (int i = 0; i < row.count; i++) int_add_terms(e, &offset, row.items[i], width);
  offset.constant += row.constant * width;
  if (v->width > VIEW_TILE) {
    add_columns(e, v, &column, &offset);
    return offset;
  }
  for (int i = 0; i < column.count; i++) int_add_terms(e, &offset, column.items[i], 1);
  offset.constant += column.constant;
  return offset;
}

static int_terms offset_in_rows(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  int_terms offset = {0};
  if (v->offset) int_add_terms(e, &offset, v->offset, 1);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    int64_t stride;
    if (!view_moves_along(l, v, at, axes, axis)) continue;
    if (int_known(v->stride[axis], &stride))
      int_add_terms(e, &offset, at->index[axis], stride);
    else
      int_add_terms(e, &offset, int_mul(e, at->index[axis], v->stride[axis]), 1);
  }
  return offset;
}

ir view_address_swizzled(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  int_terms offset = v->width ? offset_in_tiles(l, v, at, axes) : offset_in_rows(l, v, at, axes);
  return address_of(l, v, &offset);
}
