// Two real states that turn into each other: one complex number in all but name.
//
//   p = r * (cos(a) * p[t-1] - sin(a) * u[t-1]) + ..       (p + iu) = r e^(ia) (p + iu)[t-1] + ..
//   u = r * (sin(a) * p[t-1] + cos(a) * u[t-1]) + ..
//
//   between s and t:   exp(segment of log r)[t,s] * R(angle up to t) R(-angle up to s)
//
// R(x) = (cos x, -sin x; sin x, cos x). Rotations commute, so all pairs of steps share one
// reference, the start of the chunk, and r alone is a mask. Angles are summed as those of complex
// decays (phase.c). That needs a logarithm of r, one number for the whole matrix. Other rotations
// are matrices like any other (joint.c). So are states that are read before their step, because a
// read of the last write would turn it forth and back.
#include "compiler/chunk/scan.h"

// ---- recognition -----------------------------------------------------------------------------

// The only product of the update with that state, before its step; NULL if there are others.
static const scan_product *only_product(const scan *s, int of, int state) {
  const linear *update = s->states[of].update;
  const scan_product *found = NULL;
  vec_each(const scan_product, product, update->products) {
    if (product->state != state) continue;
    if (found || !product->previous || product->part != PART_WHOLE) return NULL;
    found = product;
  }
  return found;
}

// The argument of a factor that is this function; the other factors go to `rest`.
static value_id taken_out(scan *s, const scan_product *product, value_op function,
                          scan_product *rest) {
  value_id argument = NO_VALUE;
  *rest = (scan_product){.scale = product->scale, .state = -1};
  for (int i = 0; i < product->factors.count; i++) {
    recurrence_factor factor = product->factors.items[i];
    const typed_value *v = &s->body->values.items[factor.value];
    if (argument == NO_VALUE && v->op == function && !factor.divides)
      argument = v->args[0];
    else
      vec_push(s->arena, &rest->factors, factor);
  }
  return argument;
}

static bool same_factors(const scan_product *x, const scan_product *y) {
  bool used[PRODUCTS_MAX] = {0};
  if (x->factors.count != y->factors.count) return false;
  for (int i = 0; i < x->factors.count; i++) {
    int k = 0;
    while (k < y->factors.count &&
           (used[k] || y->factors.items[k].value != x->factors.items[i].value ||
            y->factors.items[k].divides != x->factors.items[i].divides))
      k++;
    if (k == y->factors.count) return false;
    used[k] = true;
  }
  return true;
}

static tile_id safe_value(scan *s, value_id id) {
  return lower_valid(s->program, scan_pure(s, id).re);
}

scan_turn *turn_find(scan *s, int first, int second) {
  const scan_product *kept = only_product(s, first, first), *back = only_product(s, first, second);
  const scan_product *forth = only_product(s, second, first),
                     *also = only_product(s, second, second);
  if (!kept || !back || !forth || !also) return NULL;
  if (phase_is_read_before(s, first) || phase_is_read_before(s, second)) return NULL;
  if (kept->scale != also->scale || forth->scale != -back->scale) return NULL;
  if (!same_factors(kept, also) || !same_factors(forth, back)) return NULL;
  scan_product radius, other;
  value_id angle = taken_out(s, kept, VALUE_COS, &radius);
  if (angle == NO_VALUE || angle != taken_out(s, forth, VALUE_SIN, &other)) return NULL;
  bool backwards = forth->scale == -kept->scale;
  if (!same_factors(&radius, &other) || !(backwards || forth->scale == kept->scale)) return NULL;
  value_id r = linear_as_value(s, &radius), log = recurrence_decay_log(s->arena, s->body, r);
  scan_grow(s);
  if (log == NO_VALUE || s->reason) return NULL;
  scan_turn *turn = ARENA_NEW(s->arena, scan_turn);
  turn->log = safe_value(s, log);
  const axis_set axes = s->states[first].keys | s->states[first].values | s->states[first].summed;
  if (s->program->values.items[turn->log].axes & axes) return NULL;
  tile_id a = scan_pure(s, angle).re;
  if (backwards) a = tile_unary(s->program, TILE_NEG, a);
  turn->phase = (scan_phase){.axes = s->program->values.items[a].axes & axes, .angle = a};
  phase_cut(s, &turn->phase);
  return turn;
}

// ---- decays ----------------------------------------------------------------------------------

// One entry of the matrix of a complex number.
static tile_pair matrix_entry(scan *s, tile_pair z, int row, int column) {
  if (row == column) return pair_real(z.re);
  return pair_real(row ? z.im : tile_unary(s->program, TILE_NEG, z.im));
}

static tile_pair inverse_turn(scan *s, tile_pair z) {
  return (tile_pair){z.re, tile_unary(s->program, TILE_NEG, z.im)};
}

tile_pair turn_row(scan *s, const scan_turn *turn, bool previous, int row, int column) {
  return matrix_entry(s, phase_rotation(s, &turn->phase, previous ? PHASE_BEFORE : PHASE_UP_TO),
                      row, column);
}

tile_pair turn_column(scan *s, const scan_turn *turn, int row, int column) {
  return matrix_entry(s, inverse_turn(s, phase_rotation(s, &turn->phase, PHASE_UP_TO)), row,
                      column);
}

tile_id turn_mask(scan *s, const scan_turn *turn, bool previous) {
  tile_id sums = tile_indexed(s->program, TILE_SEGMENT, turn->log, previous ? 1 : 0, 0);
  return tile_select(s->program, tile_leaf(s->program, TILE_CAUSAL, 1),
                     tile_unary(s->program, TILE_EXP, sums), tile_number(s->program, 0));
}

// Over the steps up to each (or before it, or after it), or over all.
tile_pair turn_over(scan *s, const scan_turn *turn, phase_sum which, int row, int column) {
  tile_pair z = phase_rotation(s, &turn->phase, which);
  tile_id sums = phase_sum_of(s, turn->log, which);
  tile_pair radius = pair_real(tile_unary(s->program, TILE_EXP, sums));
  return pair_mul(s->program, radius, matrix_entry(s, z, row, column));
}
