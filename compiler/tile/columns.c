// States whose columns along one axis are independent: what a part of time leaves of them is one
// matrix for all columns.
//
//   S = S - b k (k . S) + b k v     along V:  each column is  (I - b k k') column + b k v
//
// A value is one of four. It may be the same for all columns. It may be linear in the columns of
// states, and 0 where they and all tokens and parameters with the axis are 0. It may be 0 in that
// case without states. Or it is none of these. If every next state is of the second kind, the
// program itself, run on columns of the identity without such tokens, makes the matrix.
#include "compiler/tile/tile.h"

typedef enum column_kind {
  SAME,      // for all columns; what has the axis is not read
  LINEAR,    // in states
  VANISHES,  // with what has the axis; no state enters
  STAYS,     // it is read, and the value need not vanish
  OTHER
} column_kind;

typedef struct finder {
  const tile_program *p;
  tile_role read;
  const bool *states;  // by tensor: those that are meant
  int axis;
  column_kind *kinds;
} finder;

static bool vanishes(const finder *x, tile_id id) {
  return x->kinds[id] == VANISHES || tile_is_number(x->p, id, 0);
}

static column_kind argument_column(const finder *x, const tile_value *v) {
  const tile_place *place = tile_place_of(x->p, v);
  bool axis = axis_in(tile_place_axes(x->p, place), x->axis);
  if (place->role == x->read && place->lag < 0)
    return axis && place->tensor >= 0 && x->states[place->tensor] ? LINEAR : OTHER;
  if (place->role == TILE_STATE || place->role == TILE_STASH) return axis ? OTHER : SAME;
  return axis ? VANISHES : SAME;
}

// Of a sum, or of what takes one or the other.
static column_kind of_both(const finder *x, tile_id a, tile_id b) {
  column_kind p = x->kinds[a], q = x->kinds[b];
  if (p == OTHER || q == OTHER) return OTHER;
  if (p == LINEAR || q == LINEAR) {
    bool first = p == LINEAR || vanishes(x, a), second = q == LINEAR || vanishes(x, b);
    return first && second ? LINEAR : OTHER;
  }
  if (p == SAME && q == SAME) return SAME;
  return vanishes(x, a) && vanishes(x, b) ? VANISHES : STAYS;
}

static column_kind of_product(const finder *x, tile_id a, tile_id b) {
  column_kind p = x->kinds[a], q = x->kinds[b];
  if (p == OTHER || q == OTHER) return OTHER;
  if (p == LINEAR || q == LINEAR) return p == SAME || q == SAME ? LINEAR : OTHER;
  if (p == SAME && q == SAME) return SAME;
  return p == VANISHES || q == VANISHES ? VANISHES : STAYS;
}

static column_kind of_quotient(const finder *x, tile_id a, tile_id b) {
  column_kind p = x->kinds[a], q = x->kinds[b];
  if (q == SAME) return p;
  return p == OTHER || p == LINEAR || q == OTHER || q == LINEAR ? OTHER : STAYS;
}

// X = R + A X.
static column_kind of_solution(const finder *x, tile_id a, column_kind kind) {
  column_kind matrix = x->kinds[a];
  if (matrix == SAME) return kind;
  if (matrix == OTHER || matrix == LINEAR || kind == OTHER || kind == LINEAR) return OTHER;
  return kind == VANISHES ? VANISHES : STAYS;
}

// Whatever else: only what no state enters.
static column_kind of_any(const finder *x, const tile_value *v) {
  bool same = true, zero = tile_op_is(v->op, TILE_LINEAR | TILE_KEEPS_ZERO);
  for (int k = 0; k < tile_arity(v->op); k++) {
    column_kind kind = x->kinds[v->args[k]];
    if (kind == LINEAR || kind == OTHER) return OTHER;
    same = same && kind == SAME;
    zero = zero && vanishes(x, v->args[k]);
  }
  if (v->op == TILE_INDEX && tile_index_axis(v) == x->axis) return STAYS;
  return same ? SAME : zero ? VANISHES : STAYS;
}

static column_kind unless_along(const finder *x, const tile_value *v, axis_set along) {
  column_kind kind = x->kinds[v->args[0]];
  return kind == LINEAR && axis_in(along, x->axis) ? OTHER : kind;
}

// A condition that knows a state is never linear in it, whatever the branches are.
static column_kind choice_column(const finder *x, const tile_value *v) {
  column_kind condition = x->kinds[v->args[0]], both = of_both(x, v->args[1], v->args[2]);
  if (condition == LINEAR || condition == OTHER) return OTHER;
  if (condition == SAME || both == OTHER || both == VANISHES) return both;
  return both == LINEAR ? OTHER : STAYS;
}

static column_kind column_kind_of(const finder *x, const tile_value *v) {
  switch (v->op) {
    case TILE_ARGUMENT: return argument_column(x, v);
    case TILE_NEG:
    case TILE_STOP:
    case TILE_EXPAND: return x->kinds[v->args[0]];
    case TILE_ADD:
    case TILE_SUB: return of_both(x, v->args[0], v->args[1]);
    case TILE_MUL: return of_product(x, v->args[0], v->args[1]);
    case TILE_DOT:
      if (of_product(x, v->args[0], v->args[1]) == LINEAR && axis_in(v->over, x->axis))
        return OTHER;
      return of_product(x, v->args[0], v->args[1]);
    case TILE_DIV: return of_quotient(x, v->args[0], v->args[1]);
    case TILE_SELECT:
    case TILE_SELDOM: return choice_column(x, v);
    case TILE_SUM: return unless_along(x, v, v->over);
    case TILE_RENAME: return unless_along(x, v, axis_bit(tile_renamed_from(v)));
    case TILE_SLICE:
    case TILE_PLACE: return unless_along(x, v, axis_bit(tile_entry_axis(v)));
    case TILE_SHIFT: return unless_along(x, v, axis_bit(tile_shift_axis(v)));
    case TILE_SPLIT: return unless_along(x, v, axis_bit(tile_whole_axis(v)));
    case TILE_JOIN:
      return unless_along(x, v,
                          axis_bit(tile_whole_axis(v)) | axis_bit(tile_outer_axis(v)) |
                              axis_bit(tile_inner_axis(v)));
    case TILE_PREFIX: return unless_along(x, v, axis_bit(tile_step_axis(v)));
    case TILE_SOLVE:
    case TILE_SCAN:
    case TILE_SCAN_JOINT: return of_solution(x, v->args[0], x->kinds[v->args[1]]);
    case TILE_SCAN_PAIR: return of_solution(x, v->args[0], of_both(x, v->args[1], v->args[2]));
    default: return of_any(x, v);
  }
}

static bool is_linear_program(finder *x) {
  for (int i = 0; i < x->p->values.count; i++)
    x->kinds[i] = column_kind_of(x, &x->p->values.items[i]);
  vec_each(const tile_result, r, x->p->results) {
    if (r->place.transfer || r->place.tensor < 0 || !x->states[r->place.tensor]) continue;
    if (x->kinds[r->value] != LINEAR && !vanishes(x, r->value)) return false;
    if (!axis_in(tile_place_axes(x->p, &r->place), x->axis)) return false;
  }
  return true;
}

bool tile_find_columns(arena *a, const tile_program *program, tile_role read, const bool *states,
                       axis_set axes, int *axis) {
  finder x = {.p = program, .read = read, .states = states};
  x.kinds = ARENA_ARRAY(a, column_kind, program->values.count);
  for (x.axis = 0; x.axis < program->axes.count; x.axis++) {
    if (!axis_in(axes, x.axis) || !is_linear_program(&x)) continue;
    *axis = x.axis;
    return true;
  }
  return false;
}
