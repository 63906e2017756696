// What can be said of a value's sign at a glance: whatever the inputs are, zeros of padded rows
// included.
//
//   rsqrt (sum (k * k) over K + 1e-6)     its operand is positive
//   div x (select valid y 1)              its denominator is not 0 on padded rows
#include "compiler/tile/tile.h"

enum { DEEPEST = 16 };

typedef enum sign { UNKNOWN, NOT_NEGATIVE, POSITIVE } sign;

static sign tile_sign(const tile_program *p, tile_id id, int depth);

static sign lesser(sign x, sign y) { return x < y ? x : y; }
static sign greater(sign x, sign y) { return x > y ? x : y; }

static sign sign_of_two(const tile_program *p, const tile_value *v, int depth) {
  sign x = tile_sign(p, v->args[0], depth), y = tile_sign(p, v->args[1], depth);
  bool square = v->args[0] == v->args[1];
  switch (v->op) {
    case TILE_ADD: return x && y ? greater(x, y) : UNKNOWN;
    case TILE_MAX: return greater(x, y);
    case TILE_MUL:
    case TILE_DOT: return square ? NOT_NEGATIVE : lesser(lesser(x, y), NOT_NEGATIVE);
    default: return UNKNOWN;
  }
}

// Products and exponentials of finite numbers may vanish: not negative is all that they are.
static sign tile_sign(const tile_program *p, tile_id id, int depth) {
  const tile_value *v = &p->values.items[id];
  if (depth > DEEPEST) return UNKNOWN;
  switch (v->op) {
    case TILE_NUMBER: return v->number > 0 ? POSITIVE : v->number == 0 ? NOT_NEGATIVE : UNKNOWN;
    case TILE_SOFTPLUS:
    case TILE_SIGMOID: return POSITIVE;
    case TILE_ABS:
    case TILE_HYPOT:
    case TILE_EXP:
    case TILE_EXP2:
    case TILE_RELU: return NOT_NEGATIVE;
    case TILE_SQRT:
    case TILE_SQRT_KINK:
    case TILE_SUM:
    case TILE_RENAME: return tile_sign(p, v->args[0], depth + 1);
    case TILE_ADD:
    case TILE_MUL:
    case TILE_MAX:
    case TILE_DOT: return sign_of_two(p, v, depth + 1);
    case TILE_SELECT:
    case TILE_SELDOM:
      return lesser(tile_sign(p, v->args[1], depth + 1), tile_sign(p, v->args[2], depth + 1));
    default: return UNKNOWN;
  }
}

static bool not_positive(const tile_program *p, tile_id id, int depth) {
  const tile_value *v = &p->values.items[id];
  if (depth > DEEPEST) return false;
  switch (v->op) {
    case TILE_NUMBER: return v->number <= 0;
    case TILE_LOG_SIGMOID:
    case TILE_PREFIX:
    case TILE_SEGMENT: return true;
    case TILE_NEG: return tile_sign(p, v->args[0], depth + 1) != UNKNOWN;
    case TILE_SUM:
    case TILE_RENAME: return not_positive(p, v->args[0], depth + 1);
    case TILE_ADD:
      return not_positive(p, v->args[0], depth + 1) && not_positive(p, v->args[1], depth + 1);
    case TILE_SELECT:
    case TILE_SELDOM:
      return not_positive(p, v->args[1], depth + 1) && not_positive(p, v->args[2], depth + 1);
    case TILE_MUL:
      for (int k = 0; k < 2; k++)
        if (not_positive(p, v->args[k], depth + 1) && tile_sign(p, v->args[1 - k], depth + 1))
          return true;
      return false;
    default: return false;
  }
}

// A sum over steps, or what is left of one behind another or behind its last step.
static bool is_over_steps(const tile_program *p, tile_id id, int depth) {
  const tile_value *v = &p->values.items[id];
  if (depth > DEEPEST) return false;
  switch (v->op) {
    case TILE_PREFIX: return true;
    case TILE_SUM: return p->time_axis >= 0 && axis_in(v->over, p->time_axis);
    case TILE_SLICE: return is_over_steps(p, v->args[0], depth + 1);
    case TILE_SUB: {
      const tile_value *sums = &p->values.items[v->args[0]];
      bool rest = sums->op == TILE_PREFIX && sums->args[0] == v->args[1];
      return is_over_steps(p, v->args[0], depth + 1) &&
             (rest || is_over_steps(p, v->args[1], depth + 1));
    }
    default: return false;
  }
}

bool tile_may_overflow(const tile_program *p, tile_id id) {
  tile_id exponent = p->values.items[id].args[0];
  return !is_over_steps(p, exponent, 0) && !not_positive(p, exponent, 0);
}

bool tile_is_positive(const tile_program *p, tile_id id) { return tile_sign(p, id, 0) == POSITIVE; }

bool tile_is_not_positive(const tile_program *p, tile_id id) { return not_positive(p, id, 0); }

bool tile_is_not_negative(const tile_program *p, tile_id id) { return tile_sign(p, id, 0); }

bool tile_padding_is_1(const tile_program *p, tile_id id) {
  const tile_value *v = &p->values.items[id];
  return v->op == TILE_SELECT && p->values.items[v->args[0]].op == TILE_VALID &&
         tile_is_number(p, v->args[2], 1);
}
