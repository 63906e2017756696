// The part of a value that is a factor times a state, from those of its operands.
#include "compiler/tile/share.h"

bool share_is_any(const share *x) {
  bool any = x->mixed;
  for (int k = 0; k < MOST_PARTS; k++) any = any || x->of[k] != NO_TILE;
  return any;
}

const share share_none = {{NO_TILE, NO_TILE, NO_TILE, NO_TILE}, false};

static const share mixture = {{NO_TILE, NO_TILE, NO_TILE, NO_TILE}, true};

// x + y or x - y, where what is missing is 0.
static tile_id combined(tile_program *p, tile_op op, tile_id x, tile_id y) {
  if (y == NO_TILE) return x;
  if (x == NO_TILE) return op == TILE_ADD ? y : tile_unary(p, TILE_NEG, y);
  return tile_binary(p, op, x, y);
}

static tile_id chosen(tile_program *p, tile_id condition, tile_id x, tile_id y) {
  if (x == NO_TILE && y == NO_TILE) return NO_TILE;
  tile_id zero = tile_number(p, 0);
  return tile_select(p, condition, x == NO_TILE ? zero : x, y == NO_TILE ? zero : y);
}

static share scaled(tile_program *p, tile_op op, share x, tile_id by) {
  for (int k = 0; k < MOST_PARTS; k++)
    if (x.of[k] != NO_TILE) x.of[k] = tile_binary(p, op, x.of[k], by);
  return x;
}

tile_id share_negated(tile_program *p, tile_id x) { return combined(p, TILE_SUB, NO_TILE, x); }

// An operation along axes that the state lacks is one on its factor. It wants the factor to have
// them. Signs stay outside, so that equal factors are one value.
static share moved(share_list *x, tile_value v, const share *from, axis_set along) {
  tile_program *p = x->program;
  if (along & x->axes) return mixture;
  axis_set whole = p->values.items[v.args[0]].axes & ~x->axes;
  share made = share_none;
  for (int k = 0; k < MOST_PARTS; k++) {
    tile_id factor = from->of[k];
    if (factor == NO_TILE) continue;
    bool minus = p->values.items[factor].op == TILE_NEG;
    if (minus) factor = p->values.items[factor].args[0];
    v.args[0] = tile_reduce(p, TILE_EXPAND, factor, whole | p->values.items[factor].axes);
    made.of[k] = minus ? share_negated(p, tile_append(p, v)) : tile_append(p, v);
  }
  return made;
}

// Of a sum, a difference or a negative.
static share added(tile_program *p, tile_op op, const share *a, const share *b) {
  share made = share_none;
  for (int k = 0; k < MOST_PARTS; k++)
    made.of[k] = op == TILE_NEG ? combined(p, TILE_SUB, NO_TILE, a->of[k])
                                : combined(p, op, a->of[k], b->of[k]);
  return made;
}

static share of_choice(tile_program *p, tile_id condition, const share *a, const share *b) {
  share made = share_none;
  for (int k = 0; k < MOST_PARTS; k++) made.of[k] = chosen(p, condition, a->of[k], b->of[k]);
  return made;
}

// select (x == 0) 0 (x * y) keeps y from making 0 * y what it is not: it is linear in x all the
// same.
static bool is_guarded_product(const tile_program *p, const tile_value *v) {
  const tile_value *condition = &p->values.items[v->args[0]],
                   *product = &p->values.items[v->args[2]];
  if (v->op != TILE_SELECT || condition->op != TILE_EQUAL || product->op != TILE_MUL) return false;
  if (!tile_is_number(p, v->args[1], 0)) return false;
  for (int k = 0; k < 2; k++) {
    tile_id x = condition->args[k];
    if (!tile_is_number(p, condition->args[1 - k], 0)) continue;
    if (product->args[0] == x || product->args[1] == x) return true;
  }
  return false;
}

// Do a real and an imaginary part have of a complex state what a complex factor of it makes?
static bool is_complex_factor(tile_program *p, const share *re, const share *im) {
  for (int k = 2; k < MOST_PARTS; k++)
    if (re->of[k] != NO_TILE || im->of[k] != NO_TILE) return false;
  return im->of[1] == re->of[0] && share_negated(p, re->of[1]) == im->of[0];
}

// What a value over two parts has of the imaginary part is i times what it has of the real one.
static tile_id times_i(tile_program *p, const tile_value *v, tile_id x) {
  int part = tile_part_axis(v);
  tile_id re = tile_indexed(p, TILE_SLICE, x, part, 0),
          im = tile_indexed(p, TILE_SLICE, x, part, 1);
  return tile_binary(p, TILE_SUB, tile_indexed(p, TILE_PLACE, re, part, 1),
                     tile_indexed(p, TILE_PLACE, im, part, 0));
}

// A scan is linear in what it adds at each step.
static share of_scan(share_list *x, tile_value v, const share *const *args) {
  share made = share_none;
  if (share_is_any(args[0]) || (tile_scan_axes(&v) & x->axes)) return mixture;
  bool complex = v.op == TILE_SCAN_PAIR && is_complex_factor(x->program, args[1], args[2]);
  for (int k = 0; k < (complex ? 1 : MOST_PARTS); k++) {
    bool any = false;
    for (int i = 1; i < tile_arity(v.op); i++) {
      any = any || args[i]->of[k] != NO_TILE;
      v.args[i] = args[i]->of[k] == NO_TILE ? tile_number(x->program, 0) : args[i]->of[k];
    }
    if (any) made.of[k] = tile_append(x->program, v);
  }
  if (complex) made.of[1] = times_i(x->program, &v, made.of[0]);
  return made;
}

// Of a value whose operands have these shares, some of them any.
static share made_share(share_list *x, const tile_value *v, const share *const *args) {
  tile_program *p = x->program;
  bool first = share_is_any(args[0]), second = args[1] && share_is_any(args[1]);
  switch (v->op) {
    case TILE_EXPAND:
    case TILE_STOP: return *args[0];
    case TILE_NEG:
    case TILE_ADD:
    case TILE_SUB: return added(p, v->op, args[0], args[1]);
    case TILE_MUL:
      if (first && second) return mixture;
      return first ? scaled(p, TILE_MUL, *args[0], v->args[1])
                   : scaled(p, TILE_MUL, *args[1], v->args[0]);
    case TILE_DIV: return second ? mixture : scaled(p, TILE_DIV, *args[0], v->args[1]);
    case TILE_SELECT:
    case TILE_SELDOM: return first ? mixture : of_choice(p, v->args[0], args[1], args[2]);
    case TILE_SUM: return moved(x, *v, args[0], v->over);
    case TILE_SPLIT:
    case TILE_JOIN:
      return moved(x, *v, args[0],
                   axis_bit(tile_whole_axis(v)) | axis_bit(tile_outer_axis(v)) |
                       axis_bit(tile_inner_axis(v)));
    case TILE_SLICE:
    case TILE_PLACE: return moved(x, *v, args[0], axis_bit(tile_entry_axis(v)));
    case TILE_SHIFT: return moved(x, *v, args[0], axis_bit(tile_shift_axis(v)));
    case TILE_SCAN:
    case TILE_SCAN_PAIR:
    case TILE_SCAN_JOINT: return of_scan(x, *v, args);
    default: return mixture;
  }
}

// The operation is one on each entry by itself, or not linear.
static bool keeps_points(tile_op op) { return tile_elementwise(op) || tile_op_is(op, TILE_PICKS); }

static bool is_bent(tile_op op) {
  return keeps_points(op) && !tile_op_is(op, TILE_LINEAR | TILE_LINEAR_IN_ONE);
}

share share_of(share_list *x, tile_id id) {
  tile_value v = x->program->values.items[id];  // a copy: values are appended
  const share *args[3] = {0};
  bool any = false, mixed = false;
  if (is_guarded_product(x->program, &v)) return x->shares[v.args[2]];
  for (int k = 0; k < tile_arity(v.op); k++) {
    args[k] = &x->shares[v.args[k]];
    any = any || share_is_any(args[k]);
    mixed = mixed || args[k]->mixed;
  }
  if (mixed) {
    if (is_bent(v.op)) x->bent = true;
    return mixture;
  }
  share made = any ? made_share(x, &v, args) : share_none;
  if (made.mixed && keeps_points(v.op) && v.op != TILE_EQUAL) x->bent = true;
  return made;
}
