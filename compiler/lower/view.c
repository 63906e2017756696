// Views: memory under index maps.
//
//   %5 [segment4,step4,K] = split %2 t      the memory of %2, the stride of segment4 four times that of t
//   %6 [segment4,K] = slice %5 step4 = 1    the same memory from one stride of step4 further on
//
// Nothing is copied. A view has an address and a stride for each axis; a load through the view
// returns the value that the map says.
#include "compiler/base/ice.h"
#include "compiler/lower/nest_target.h"

ir lower_extent(emitter *e, const ir *axis_size, extent x) {
  ir n = integer(e, x.factor);
  for (int axis = 0; axis < PLAN_MAX_AXES && x.factor; axis++)
    if (axis_in(x.sizes, axis)) n = int_mul(e, n, axis_size[axis]);
  return n;
}

view buffer_view(lower *l, const plan_buffer *b, ir base) {
  view v = {.base = base, .internal = true, .stored = b->stored, .alignment = 16};
  int last = b->axis_count ? b->axes[b->axis_count - 1] : -1;
  if (l->target->layout && last >= 0 && b->axis_count > 1 && !b->kept && !b->by_vectors)
    v.layout = l->target->layout(l, b, base);
  if (b->wgmma_layout && v.layout.pattern && !b->numbers.sizes)
    view_in_tiles(&v, known_size(l, last), b->numbers.factor / known_size(l, last));
  int spacing = l->target->spacing ? l->target->spacing(l, b, &v.base) : 1;
  for (int i = 0; i < b->axis_count; i++) {
    extent stride = b->stride[b->axes[i]];
    stride.factor *= spacing;
    v.stride[b->axes[i]] = lower_extent(l->e, l->axis_size, stride);
  }
  if (b->lane) v.stride[l->m->lane_axis] = integer(l->e, 1);
  return v;
}

LLVMTypeRef view_type(emitter *e, const view *v) {
  if (number_is_narrow(v->stored)) return e->i16;
  return v->stored == NUMBER_F64 ? LLVMDoubleTypeInContext(e->context) : e->memory;
}

void view_in_tiles(view *v, int64_t row, int64_t rows) {
  if (!plan_is_in_tiles(row, rows)) return;
  v->width = (int)row;
  v->tile = rows * VIEW_TILE;
}

bool view_moves_along(lower *l, const view *v, const place_in_loops *at, axis_set axes, int axis) {
  if (!axis_in(axes, axis) || !v->stride[axis]) return false;
  if (v->internal && axis == l->m->lane_axis) return false;
  if (!at->index[axis])
    ICE("lower", "axis %s is read outside its loop", l->p->program->axes.items[axis].name);
  return true;
}

ir view_address(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  if (v->width || v->layout.pattern || l->target->by_bits)
    return view_address_swizzled(l, v, at, axes);
  ir offset = integer(e, 0);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (!view_moves_along(l, v, at, axes, axis)) continue;
    offset = int_add(e, offset, int_mul(e, at->index[axis], v->stride[axis]));
  }
  return element(e, view_type(e, v), v->base, offset);
}

bool view_in_lanes(const view *v, const place_in_loops *at, axis_set axes) {
  return at->lanes && axis_in(axes, at->vector_axis) && v->stride[at->vector_axis];
}

ir view_load(lower *l, const view *v, const place_in_loops *at, axis_set axes) {
  return l->target->load(l, v, at, axes);
}

void view_store(lower *l, const view *v, const place_in_loops *at, axis_set axes, ir x) {
  l->target->store(l, v, at, axes, x);
}

view lower_buffer(lower *l, int buffer) {
  const plan_buffer *b = &l->p->buffers.items[buffer];
  if (b->carried >= 0) return l->carried[b->carried];
  return buffer_view(l, b, l->buffers[buffer]);
}

view lower_operand(lower *l, tile_id id, int pack) {
  return pack < 0 ? value_view(l, id) : lower_buffer(l, pack);
}

static view renamed_view(view x, int from, int to) {
  ir stride = x.stride[from];
  x.stride[from] = NULL;
  x.stride[to] = stride;
  return x;
}

static view sliced_view(lower *l, view x, int axis, ir entry) {
  ir offset = int_mul(l->e, entry, x.stride[axis]);
  int64_t known = 1;
  int_known(offset, &known);
  while (x.alignment > 1 && known % x.alignment) x.alignment /= 2;
  if (x.layout.pattern) {
    x.offset = x.offset ? int_add(l->e, x.offset, offset) : offset;
    x.stride[axis] = NULL;
    return x;
  }
  x.base = element(l->e, view_type(l->e, &x), x.base, offset);
  x.stride[axis] = NULL;
  return x;
}

static view split_view(lower *l, view x, const tile_value *v) {
  ir stride = x.stride[tile_whole_axis(v)];
  x.stride[tile_whole_axis(v)] = NULL;
  x.stride[tile_outer_axis(v)] = int_mul_n(l->e, stride, known_size(l, tile_inner_axis(v)));
  x.stride[tile_inner_axis(v)] = stride;
  return x;
}

static view joined_view(view x, const tile_value *v) {
  ir stride = x.stride[tile_inner_axis(v)];
  x.stride[tile_outer_axis(v)] = x.stride[tile_inner_axis(v)] = NULL;
  x.stride[tile_whole_axis(v)] = stride;
  return x;
}

// Operands of products: memory under index maps.
view value_view(lower *l, tile_id id) {
  const tile_value *v = value(l, id);
  switch (v->op) {
    case TILE_ARGUMENT: return l->arguments[tile_argument_number(v)];
    case TILE_STOP: return value_view(l, v->args[0]);
    case TILE_RENAME:
      return renamed_view(value_view(l, v->args[0]), tile_renamed_from(v), tile_renamed_to(v));
    case TILE_SLICE:
      return sliced_view(l, value_view(l, v->args[0]), tile_entry_axis(v), lower_entry(l, id));
    case TILE_SPLIT: return split_view(l, value_view(l, v->args[0]), v);
    case TILE_JOIN: return joined_view(value_view(l, v->args[0]), v);
    case TILE_EXPAND: {
      view x = value_view(l, v->args[0]);
      for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
        if (axis_in(v->over, axis)) x.stride[axis] = NULL;
      return x;
    }
    default: return lower_buffer(l, l->p->values[id].buffer);
  }
}

view view_of_product(lower *l, tile_id operand, view sum) {
  const tile_value *v = value(l, operand);
  switch (v->op) {
    case TILE_DOT: return sum;
    case TILE_JOIN: return view_of_product(l, v->args[0], split_view(l, sum, v));
    case TILE_PLACE:
      return view_of_product(l, v->args[0],
                             sliced_view(l, sum, tile_entry_axis(v), lower_entry(l, operand)));
    case TILE_RENAME:
      return view_of_product(l, v->args[0],
                             renamed_view(sum, tile_renamed_to(v), tile_renamed_from(v)));
    default: ICE("lower", "%s is no place of a sum", tile_op_text(v->op));
  }
}
