// Shift registers: states of which each entry along an axis is a value of this step, or another
// entry a step before.
//
//   W = where(index[N] == 0, x, sum[M](where(index[M] == index[N] - 1, W[t-1]{N -> M}, 0)))
//     ->  W = where(index[N] == 0, x, where(index[N] == 1, W[t-1][N = 0], W[t-1][N = 1]))       N = 3
//   y = sum[N](w * W)
//     ->  y = w[N = 0] * x + w[N = 1] * W[t-1][N = 0] + w[N = 2] * W[t-1][N = 1]
//
// However the update is written: it is computed entry by entry, with a number for each index. The
// entries of such a state are values of earlier steps, which chunks know without going through the
// steps. A sum over the entries, each of which is another value, is written out.

#include "compiler/recurrence/make.h"
#include "compiler/recurrence/normalise.h"
#include "compiler/recurrence/structure.h"

enum { BUDGET_OF_STATE = 20000, BUDGET_OF_SUM = 256 };  // values looked at

typedef struct place {
  axis_set bound;  // axes of which one entry is meant
  int entry[TYPED_MAX_AXES];
} place;

// Values of one body, at single entries of some axes, as values of another.
typedef struct reader {
  const typed_body *from;
  builder *b;
  const value_id *map;   // by value of `from`
  const int *axis_of;    // by tensor: the axis along which a state is looked at; -1: none
  bool *made;            // by value: of such a state
  axis_set *positional;  // by value: axes whose indices it is made of
  axis_set *others;      // by value: axes of states that are not looked at, where no sum is between
  place place;
  int budget;
  bool failed;
} reader;

// ---- what values are made of -----------------------------------------------------------------

static void describe_shifted_value(reader *r, value_id id) {
  const typed_value *v = &r->from->values.items[id];
  for (int k = 0; k < value_arity(v->op); k++) {
    r->made[id] |= r->made[v->args[k]];
    r->positional[id] |= r->positional[v->args[k]];
    r->others[id] |= r->others[v->args[k]];
  }
  if (v->op == VALUE_PREVIOUS) r->made[id] = r->axis_of[v->index] >= 0;
  if (v->op == VALUE_PREVIOUS && !r->made[id]) r->others[id] = v->axes;
  if (v->op == VALUE_INDEX) r->positional[id] = v->axes;
  if (v->op == VALUE_RENAME)
    r->positional[id] = axes_renamed(r->positional[id], v->index, v->index2);
  if (v->op == VALUE_RENAME) r->others[id] = axes_renamed(r->others[id], v->index, v->index2);
  r->positional[id] &= v->axes;
  r->others[id] &= v->axes;
}

static reader reader_new(arena *memory, const typed_body *from, const int *axis_of) {
  int count = from->values.count;
  reader r = {.from = from, .axis_of = axis_of};
  r.made = ARENA_ARRAY(memory, bool, count);
  r.positional = ARENA_ARRAY(memory, axis_set, count);
  r.others = ARENA_ARRAY(memory, axis_set, count);
  for (int i = 0; i < count; i++) describe_shifted_value(&r, i);
  return r;
}

// ---- a value at a place ----------------------------------------------------------------------

static value_id value_here(reader *r, value_id id);

static void bind_entry(reader *r, int axis, int entry) {
  r->place.bound |= axis_bit(axis);
  r->place.entry[axis] = entry;
}

static value_id sliced(reader *r, value_id id) {
  value_id x = r->map[id];
  axis_set axes = value_at(r->b, x)->axes & r->place.bound;
  for (int axis = 0; axis < r->from->axes.count; axis++) {
    if (!axis_in(axes, axis)) continue;
    x = make_value(
        r->b, (typed_value){
                  .op = VALUE_SLICE, .args = {x}, .index = axis, .steps = r->place.entry[axis]});
  }
  return x;
}

// Entries differ along axes whose indices the value is made of: there the sum is written out.
static value_id sum_entry_by_entry(reader *r, value_id id, axis_set over) {
  axis_set apart = over & r->positional[id];
  if (!apart) return make_sum(r->b, value_here(r, id), over);
  int axis = axis_first(apart);
  int64_t size = r->from->axes.items[axis].size;
  place outer = r->place;
  value_id sum = NO_VALUE;
  r->failed |= size == TYPED_RUNTIME_SIZE;
  for (int i = 0; i < size && !r->failed; i++) {
    bind_entry(r, axis, i);
    value_id term = sum_entry_by_entry(r, id, over & ~axis_bit(axis));
    sum = sum == NO_VALUE ? term : make_binary(r->b, VALUE_ADD, sum, term);
    r->place = outer;
  }
  return sum == NO_VALUE ? r->map[id] : sum;
}

static value_id renamed_here(reader *r, const typed_value *v) {
  place outer = r->place;
  r->place.bound &= ~axis_bit(v->index);
  if (axis_in(outer.bound, v->index2)) bind_entry(r, v->index, outer.entry[v->index2]);
  r->place.bound &= ~axis_bit(v->index2);
  value_id x = value_here(r, v->args[0]);
  r->place = outer;
  if (!axis_in(value_at(r->b, x)->axes, v->index)) return x;
  return make_value(
      r->b, (typed_value){.op = VALUE_RENAME, .args = {x}, .index = v->index, .index2 = v->index2});
}

static value_id slice_here(reader *r, const typed_value *v) {
  place outer = r->place;
  bind_entry(r, v->index, v->steps);
  value_id x = value_here(r, v->args[0]);
  r->place = outer;
  return x;
}

static value_id where_here(reader *r, typed_value v) {
  v.args[0] = value_here(r, v.args[0]);
  const typed_value *condition = value_at(r->b, v.args[0]);
  if (condition->op == VALUE_NUMBER) return value_here(r, v.args[condition->number != 0 ? 1 : 2]);
  for (int k = 1; k < 3; k++) v.args[k] = value_here(r, v.args[k]);
  return make_value(r->b, v);
}

static value_id operation_here(reader *r, typed_value v) {
  for (int k = 0; k < value_arity(v.op); k++) v.args[k] = value_here(r, v.args[k]);
  for (int k = 0; k < 2 && v.op == VALUE_MUL; k++)
    if (is_the_number(r->b, v.args[k], 0)) return v.args[k];
  return make_value(r->b, v);
}

static bool is_elementwise(value_op op) {
  value_class class = value_op_class(op);
  return class != CLASS_LEAF && class != CLASS_REDUCE && class != CLASS_AXIS;
}

static value_id value_here(reader *r, value_id id) {
  typed_value v = r->from->values.items[id];
  r->failed |= --r->budget < 0 || (r->others[id] & r->place.bound);
  bool whole = !(v.axes & r->place.bound);
  if (r->failed || (whole && v.op != VALUE_SLICE)) return r->map[id];
  v.name = NULL;
  if (!r->made[id] && !r->positional[id]) return sliced(r, id);
  switch (v.op) {
    case VALUE_INDEX: return make_number(r->b, r->place.entry[v.index]);
    case VALUE_PREVIOUS: return sliced(r, id);
    case VALUE_SUM: return sum_entry_by_entry(r, v.args[0], v.over);
    case VALUE_RENAME: return renamed_here(r, &v);
    case VALUE_SLICE: return slice_here(r, &v);
    case VALUE_WHERE: return where_here(r, v);
    default: break;
  }
  if (is_elementwise(v.op)) return operation_here(r, v);
  r->failed |= r->made[id];
  return sliced(r, id);
}

static value_id shift_entry(reader *r, value_id id, int axis, int entry) {
  r->place.bound = 0;
  bind_entry(r, axis, entry);
  return value_here(r, id);
}

// ---- which states ----------------------------------------------------------------------------

bool *values_made_of(arena *memory, const typed_body *body, int tensor) {
  bool *made = ARENA_ARRAY(memory, bool, body->values.count);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    made[i] = v->op == VALUE_PREVIOUS && (tensor < 0 || v->index == tensor);
    for (int k = 0; k < value_arity(v->op); k++) made[i] |= made[v->args[k]];
  }
  return made;
}

static void find_shifted_entry(const typed_body *body, value_id id, int tensor,
                               recurrence_shift *shift, int entry) {
  const typed_value *v = &body->values.items[id];
  bool slice = v->op == VALUE_SLICE && v->index == shift->axis;
  const typed_value *of = slice ? &body->values.items[v->args[0]] : NULL;
  bool moved = slice && of->op == VALUE_PREVIOUS && of->index == tensor;
  shift->entries[entry].value = moved ? NO_VALUE : id;
  shift->entries[entry].from = moved ? v->steps : -1;
}

// Values of this step reach all entries, and no entry is kept for ever.
static bool moves_on(const recurrence_shift *shift) {
  bool any = false;
  for (int i = 0; i < shift->count; i++) {
    int entry = i, hops = 0;
    while (shift->entries[entry].from >= 0 && hops++ <= shift->count)
      entry = shift->entries[entry].from;
    if (shift->entries[entry].from >= 0) return false;
    any |= hops > 0;
  }
  return any;
}

static bool values_are_of_this_step(arena *memory, const typed_body *body, int tensor,
                                    const recurrence_shift *shift) {
  const bool *made = values_made_of(memory, body, tensor);
  for (int i = 0; i < shift->count; i++) {
    value_id value = shift->entries[i].value;
    if (value != NO_VALUE && made[value]) return false;
  }
  return true;
}

// The axis whose index the condition compares with this entry; -1: it does something else.
static int axis_tested(const typed_body *body, value_id condition, int entry) {
  const typed_value *v = &body->values.items[condition];
  if (v->op != VALUE_EQUAL) return -1;
  const typed_value *index = &body->values.items[v->args[0]],
                    *number = &body->values.items[v->args[1]];
  bool tests = index->op == VALUE_INDEX && number->op == VALUE_NUMBER && number->number == entry;
  return tests ? index->index : -1;
}

bool recurrence_is_shift(arena *memory, const typed_body *body, int state,
                         recurrence_shift *shift) {
  const typed_tensor *t = &body->tensors.items[state];
  value_id id = t->assigned;
  *shift = (recurrence_shift){.axis = -1};
  for (;;) {
    const typed_value *v = &body->values.items[id];
    int axis = v->op == VALUE_WHERE ? axis_tested(body, v->args[0], shift->count) : -1;
    if (axis < 0 || (shift->axis >= 0 && axis != shift->axis)) break;
    if (shift->count + 1 >= SHIFT_ENTRIES_MAX) return false;
    shift->axis = axis;
    find_shifted_entry(body, v->args[1], state, shift, shift->count++);
    id = v->args[2];
  }
  if (shift->axis < 0 || !axis_in(t->axis_set, shift->axis)) return false;
  find_shifted_entry(body, id, state, shift, shift->count++);
  return body->axes.items[shift->axis].size == shift->count && moves_on(shift) &&
         values_are_of_this_step(memory, body, state, shift);
}

// ---- the form that is known ------------------------------------------------------------------

static value_id written_out(reader *r, int state) {
  int axis = r->axis_of[state];
  value_id update = r->from->tensors.items[state].assigned;
  int last = (int)r->from->axes.items[axis].size - 1;
  value_id made = shift_entry(r, update, axis, last);
  for (int entry = last - 1; entry >= 0; entry--) {
    value_id x = shift_entry(r, update, axis, entry);
    value_id index = make_value(r->b, (typed_value){.op = VALUE_INDEX, .index = axis});
    made =
        make_where(r->b, make_binary(r->b, VALUE_EQUAL, index, make_number(r->b, entry)), x, made);
  }
  return made;
}

static bool shifts_along(arena *memory, const typed_body *body, int state, int axis, int *axis_of) {
  axis_of[state] = axis;
  reader r = reader_new(memory, body, axis_of);
  typed_body copy = body_copy(memory, body);
  builder b = builder_new(memory, &copy);
  value_id *same = ARENA_ARRAY(memory, value_id, body->values.count);
  for (int i = 0; i < body->values.count; i++) same[i] = i;
  r.b = &b;
  r.map = same;
  r.budget = BUDGET_OF_STATE;
  copy.tensors.items[state].assigned = written_out(&r, state);
  recurrence_shift shift;
  bool found = !r.failed && recurrence_is_shift(memory, &copy, state, &shift) && shift.axis == axis;
  if (!found) axis_of[state] = -1;
  return found;
}

// Is an entry of the state read, or the state under the name of another axis?
static bool is_rearranged(arena *memory, const typed_body *body, int state) {
  const bool *made = values_made_of(memory, body, state);
  vec_each(const typed_value, v, body->values)
    if ((v->op == VALUE_RENAME || v->op == VALUE_SLICE) && made[v->args[0]]) return true;
  return false;
}

static bool find_shift_axis(arena *memory, const typed_body *body, int state, int *axis_of) {
  const typed_tensor *t = &body->tensors.items[state];
  if (t->kind != TENSOR_STATE || !is_rearranged(memory, body, state)) return false;
  for (int axis = 0; axis < body->axes.count; axis++) {
    int64_t size = body->axes.items[axis].size;
    bool fits = axis_in(t->axis_set, axis) && size >= 2 && size <= SHIFT_ENTRIES_MAX;
    if (fits && shifts_along(memory, body, state, axis, axis_of)) return true;
  }
  return false;
}

// ---- the new body ----------------------------------------------------------------------------

static int shifted_state(const reader *r, value_id id) {
  for (int i = 0; i < r->from->tensors.count; i++)
    if (r->axis_of[i] >= 0 && r->from->tensors.items[i].assigned == id) return i;
  return -1;
}

static int axis_summed(const reader *r, const typed_value *sum) {
  for (int i = 0; i < r->from->tensors.count; i++) {
    int axis = r->axis_of[i];
    if (axis >= 0 && axis_in(sum->over, axis)) return axis;
  }
  return -1;
}

static value_id sum_written_out(reader *r, const typed_value *sum, int axis) {
  int64_t size = r->from->axes.items[axis].size;
  value_id made = NO_VALUE;
  r->budget = BUDGET_OF_SUM;
  r->failed = false;
  for (int entry = 0; entry < size; entry++) {
    value_id term =
        make_sum(r->b, shift_entry(r, sum->args[0], axis, entry), sum->over & ~axis_bit(axis));
    made = made == NO_VALUE ? term : make_binary(r->b, VALUE_ADD, made, term);
  }
  return r->failed ? NO_VALUE : made;
}

static value_id rewrite_shifted(builder *b, const value_id *map, value_id old, void *context) {
  reader *r = context;
  const typed_value *v = &r->from->values.items[old];
  r->b = b;
  r->map = map;
  r->budget = BUDGET_OF_STATE;
  int state = shifted_state(r, old);
  if (state >= 0) return written_out(r, state);
  if (v->op != VALUE_SUM || !r->made[v->args[0]]) return NO_VALUE;
  int axis = axis_summed(r, v);
  return axis < 0 ? NO_VALUE : sum_written_out(r, v, axis);
}

void write_out_shifts(arena *memory, recurrence *r) {
  int count = r->body.tensors.count;
  int *axis_of = ARENA_ARRAY(memory, int, count), *found = ARENA_ARRAY(memory, int, count);
  bool any = false;
  for (int i = 0; i < count; i++) axis_of[i] = found[i] = -1;
  for (int i = 0; i < count; i++) {
    if (!find_shift_axis(memory, &r->body, i, axis_of)) continue;
    found[i] = axis_of[i];
    axis_of[i] = -1;
    any = true;
  }
  if (!any) return;
  reader all = reader_new(memory, &r->body, found);
  r->body = body_rewritten(memory, &r->body, rewrite_shifted, &all);
  remove_dead_values(memory, r);
}
