// States that stand beside a matrix as one more of its rows: they get a key axis of one entry.
// Chunks then solve for what a step reads of both.
//
//   W = W[t-1] + k * r                              W = W[t-1] + k * r
//   b = b[t-1] + r                            ->    b = b[t-1] + r                        b[V] is b[one,V]
//   r = v - sum[K](k * W[t-1]) - b[t-1]             r = v - sum[K](k * W[t-1]) - sum[one](b[t-1])
//
// The update of such a state keeps the axis where it adds the state to something else. Everything
// else has the sum. In memory the tensor is as it was.
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"

typedef struct unit_rows {
  arena *memory;
  const typed_body *from;
  int axis;         // the one of one entry
  bool *is_row;     // by tensor
  bool *entries;    // by value: has entries of rows that no sum has
  bool *of_states;  // by value
  int *uses;        // by value
  value_id *kept;   // by value: with the axis; NO_VALUE until it is made
  bool fits;
} unit_rows;

static const typed_value *old_value(const unit_rows *r, value_id id) {
  return &r->from->values.items[id];
}

// ---- which states ----------------------------------------------------------------------------

// Does a state that it depends on, and that depends on it, have its axes and others?
static bool is_row(const recurrence *from, const state_graph *g, int tensor) {
  const typed_tensor *t = &from->body.tensors.items[tensor];
  int node = t->kind == TENSOR_STATE ? g->node_of_state[tensor] : -1;
  for (int i = 0; node >= 0 && i < from->body.tensors.count; i++) {
    const typed_tensor *other = &from->body.tensors.items[i];
    if (other->kind != TENSOR_STATE || other->axis_set == t->axis_set) continue;
    if (!(t->axis_set & ~other->axis_set) && node_coupled(g, node, g->node_of_state[i]))
      return true;
  }
  return false;
}

static bool find_rows(unit_rows *r, const recurrence *from) {
  state_graph g = state_graph_make(r->memory, &from->body);
  bool any = false;
  r->is_row = ARENA_ARRAY(r->memory, bool, from->body.tensors.count);
  for (int i = 0; i < from->body.tensors.count; i++) any |= r->is_row[i] = is_row(from, &g, i);
  return any;
}

static void describe_values(unit_rows *r) {
  int count = r->from->values.count;
  r->entries = ARENA_ARRAY(r->memory, bool, count);
  r->of_states = values_made_of(r->memory, r->from, -1);
  r->uses = ARENA_ARRAY(r->memory, int, count);
  r->kept = ARENA_ARRAY(r->memory, value_id, count);
  for (value_id i = 0; i < count; i++) {
    const typed_value *v = old_value(r, i);
    unsigned dependent = 0;
    for (int k = 0; k < value_arity(v->op); k++) {
      r->uses[v->args[k]]++;
      dependent |= (unsigned)r->entries[v->args[k]] << k;
    }
    int state = state_assigned(r->from, i);
    r->entries[i] = (v->op == VALUE_PREVIOUS && r->is_row[v->index]) ||
                    (state >= 0 && r->is_row[state]) ||
                    (dependent && v->op != VALUE_SUM && !value_moves_entries(v->op) &&
                     value_is_linear_in(v->op, dependent));
    r->kept[i] = NO_VALUE;
  }
}

// ---- the copy --------------------------------------------------------------------------------

// What adds another state to a row, and is used elsewhere, too, stays one value.
static bool keeps_axis(const unit_rows *r, value_id id) {
  const typed_value *v = old_value(r, id);
  bool adds_others = false;
  for (int k = 0; k < value_arity(v->op); k++)
    adds_others |= r->of_states[v->args[k]] && !r->entries[v->args[k]];
  return r->entries[id] && !(adds_others && r->uses[id] > 1);
}

static value_id with_axis(unit_rows *r, builder *b, const value_id *map, value_id id) {
  if (r->kept[id] != NO_VALUE) return r->kept[id];
  if (!keeps_axis(r, id)) return map[id];
  typed_value v = *old_value(r, id);
  for (int k = 0; k < value_arity(v.op); k++) v.args[k] = with_axis(r, b, map, v.args[k]);
  return r->kept[id] = make_value(b, v);
}

static value_id row_rewritten(builder *b, const value_id *map, value_id old, void *context) {
  unit_rows *r = context;
  typed_value v = *old_value(r, old);
  int state = state_assigned(r->from, old);
  bool assigned = state >= 0 && r->is_row[state];
  if (!assigned && !(v.op == VALUE_PREVIOUS && r->is_row[v.index])) return NO_VALUE;
  for (int k = 0; k < value_arity(v.op); k++) v.args[k] = with_axis(r, b, map, v.args[k]);
  r->kept[old] = make_value(b, v);
  if (!axis_in(value_at(b, r->kept[old])->axes, r->axis)) {
    r->fits = false;
    return NO_VALUE;
  }
  return make_sum(b, r->kept[old], axis_bit(r->axis));
}

static typed_body body_with_axis(unit_rows *r) {
  typed_body body = *r->from;
  vec_keep(r->memory, &body.axes);
  vec_keep(r->memory, &body.tensors);
  vec_push(r->memory, &body.axes, ((typed_axis){.name = "one", .size = 1, .span = body.span}));
  for (int i = 0; i < body.tensors.count; i++)
    if (r->is_row[i]) body.tensors.items[i].axis_set |= axis_bit(r->axis);
  return body;
}

recurrence *recurrence_with_unit_keys(arena *memory, const recurrence *from) {
  unit_rows r = {
      .memory = memory, .from = &from->body, .axis = from->body.axes.count, .fits = true};
  if (r.axis >= TYPED_MAX_AXES || !find_rows(&r, from)) return NULL;
  describe_values(&r);
  typed_body body = body_with_axis(&r);
  recurrence *made = ARENA_NEW(memory, recurrence);
  made->body = body_rewritten(memory, &body, row_rewritten, &r);
  if (!r.fits) return NULL;
  for (int i = 0; i < made->body.tensors.count; i++)
    if (r.is_row[i])
      made->body.tensors.items[i].assigned = r.kept[from->body.tensors.items[i].assigned];
  find_structure(memory, made);
  return made;
}
