// Formulas are made. What no reader wants to see is left out at once: 1 * x, x + 0, x + -y, x * -y.
#include "compiler/equations/formula.h"

#include <string.h>

static formula *new_formula(arena *a, formula_kind kind, int weight) {
  formula *f = ARENA_NEW(a, formula);
  f->kind = kind;
  f->weight = weight;
  return f;
}

bool formula_is_number(const formula *f, double number) {
  return f->kind == FORMULA_NUMBER && f->number == number;
}

formula *formula_number(arena *a, double number) {
  if (number < 0) return formula_unary(a, FORMULA_NEGATE, formula_number(a, -number));
  formula *f = new_formula(a, FORMULA_NUMBER, 1);
  f->number = number;
  return f;
}

formula *formula_symbol(arena *a, const char *name, const char *index) {
  formula *f = new_formula(a, FORMULA_SYMBOL, 1);
  f->name = name;
  f->index = index && *index ? index : NULL;
  return f;
}

formula *formula_left(arena *a, const char *name, const char *index, const char *axes) {
  formula *f = formula_symbol(a, name, index);
  f->axes = *axes ? axes : NULL;
  return f;
}

formula *formula_call(arena *a, const char *name, const formula *const *args, int count) {
  formula *f = new_formula(a, FORMULA_CALL, 0);
  f->name = name;
  f->count = count;
  for (int i = 0; i < count; i++) {
    f->args[i] = args[i];
    f->weight += args[i]->weight;
  }
  return f;
}

formula *formula_unary(arena *a, formula_kind kind, const formula *x) {
  formula *f = formula_call(a, NULL, &x, 1);
  f->kind = kind;
  if (kind == FORMULA_NEGATE && x->kind == FORMULA_NEGATE) *f = *x->args[0];
  return f;
}

// x * -y = -(x * y), and so on.
static formula *signed_product(arena *a, formula_kind kind, const formula *x, const formula *y) {
  bool minus = (x->kind == FORMULA_NEGATE) != (y->kind == FORMULA_NEGATE);
  if (x->kind == FORMULA_NEGATE) x = x->args[0];
  if (y->kind == FORMULA_NEGATE) y = y->args[0];
  formula *product = formula_binary(a, kind, x, y);
  return minus ? formula_unary(a, FORMULA_NEGATE, product) : product;
}

formula *formula_binary(arena *a, formula_kind kind, const formula *x, const formula *y) {
  bool signs = x->kind == FORMULA_NEGATE || y->kind == FORMULA_NEGATE;
  if (signs && (kind == FORMULA_MULTIPLY || kind == FORMULA_DIVIDE))
    return signed_product(a, kind, x, y);
  formula *f = formula_call(a, NULL, (const formula *[]){x, y}, 2);
  f->kind = kind;
  bool additive = kind == FORMULA_ADD || kind == FORMULA_SUBTRACT;
  if (additive && formula_is_number(y, 0)) *f = *x;
  if (kind == FORMULA_ADD && formula_is_number(x, 0)) *f = *y;
  if (kind == FORMULA_MULTIPLY && formula_is_number(x, 1)) *f = *y;
  if (kind == FORMULA_MULTIPLY && formula_is_number(y, 1)) *f = *x;
  if (f->kind == kind && additive && y->kind == FORMULA_NEGATE) {
    f->kind = kind == FORMULA_ADD ? FORMULA_SUBTRACT : FORMULA_ADD;
    f->args[1] = y->args[0];
  }
  return f;
}

formula *formula_compare(arena *a, const char *name, const formula *x, const formula *y) {
  formula *f = formula_binary(a, FORMULA_COMPARE, x, y);
  f->name = name;
  return f;
}

formula *formula_over(arena *a, const char *name, const char *index, const formula *x) {
  if (x->kind == FORMULA_NEGATE && strcmp(name, "sum") == 0)
    return formula_unary(a, FORMULA_NEGATE, formula_over(a, name, index, x->args[0]));
  formula *f = formula_unary(a, FORMULA_OVER, x);
  f->name = name;
  f->index = index;
  return f;
}

formula *formula_changed(arena *a, const char *index, const formula *x) {
  formula *f = formula_unary(a, FORMULA_CHANGED, x);
  f->index = index;
  return f;
}

formula *formula_operation(arena *a, const char *text, const formula *const *args, int count) {
  static const struct {
    const char *text;
    formula_kind kind;
    const char *sign;  // of comparisons
  } rows[] = {{"add", FORMULA_ADD, NULL},      {"sub", FORMULA_SUBTRACT, NULL},
              {"mul", FORMULA_MULTIPLY, NULL}, {"div", FORMULA_DIVIDE, NULL},
              {"pow", FORMULA_POWER, NULL},    {"neg", FORMULA_NEGATE, NULL},
              {"lt", FORMULA_COMPARE, "<"},    {"le", FORMULA_COMPARE, "<="},
              {"gt", FORMULA_COMPARE, ">"},    {"ge", FORMULA_COMPARE, ">="},
              {"eq", FORMULA_COMPARE, "=="}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (strcmp(rows[i].text, text) != 0) continue;
    if (rows[i].sign) return formula_compare(a, rows[i].sign, args[0], args[1]);
    return count == 1 ? formula_unary(a, rows[i].kind, args[0])
                      : formula_binary(a, rows[i].kind, args[0], args[1]);
  }
  return formula_call(a, text, args, count);
}

int formula_binding(const formula *f) {
  switch (f->kind) {
    case FORMULA_COMPARE: return BINDS_COMPARISON;
    case FORMULA_ADD:
    case FORMULA_SUBTRACT: return BINDS_SUM;
    case FORMULA_MULTIPLY:
    case FORMULA_DIVIDE: return BINDS_PRODUCT;
    case FORMULA_NEGATE: return BINDS_SIGN;
    case FORMULA_POWER: return BINDS_POWER;
    default: return BINDS_ATOM;
  }
}
