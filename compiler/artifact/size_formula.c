#include "compiler/artifact/size_formula.h"

#include <stdbool.h>

#include "compiler/base/text.h"

typedef enum formula_kind {
  FORMULA_NUMBER,
  FORMULA_NAME,
  FORMULA_ADD,
  FORMULA_MULTIPLY,
  FORMULA_FLOOR_DIV,
  FORMULA_CEIL_DIV,
  FORMULA_ALIGN
} formula_kind;

struct size_formula {
  formula_kind kind;
  int64_t number;
  const char *name;
  const size_formula *left, *right;
};

static const size_formula *make_size_formula(arena *a, size_formula f) {
  size_formula *made = ARENA_NEW(a, size_formula);
  *made = f;
  return made;
}

const size_formula *size_number(arena *a, int64_t number) {
  return make_size_formula(a, (size_formula){FORMULA_NUMBER, .number = number});
}
const size_formula *size_name(arena *a, const char *name) {
  return make_size_formula(a, (size_formula){FORMULA_NAME, .name = name});
}

static bool is_formula_number(const size_formula *f, int64_t number) {
  return f->kind == FORMULA_NUMBER && f->number == number;
}

static int64_t formula_value(formula_kind kind, int64_t left, int64_t right) {
  switch (kind) {
    case FORMULA_ADD: return left + right;
    case FORMULA_MULTIPLY: return left * right;
    case FORMULA_FLOOR_DIV: return left / right;
    case FORMULA_CEIL_DIV: return (left + right - 1) / right;
    default: return (left + right - 1) / right * right;
  }
}

static const size_formula *binary_formula(arena *a, formula_kind kind, const size_formula *left,
                                          const size_formula *right) {
  if (left->kind == FORMULA_NUMBER && right->kind == FORMULA_NUMBER)
    return size_number(a, formula_value(kind, left->number, right->number));
  return make_size_formula(a, (size_formula){kind, .left = left, .right = right});
}

const size_formula *size_add(arena *a, const size_formula *left, const size_formula *right) {
  if (is_formula_number(left, 0)) return right;
  return is_formula_number(right, 0) ? left : binary_formula(a, FORMULA_ADD, left, right);
}

const size_formula *size_multiply(arena *a, const size_formula *left, const size_formula *right) {
  if (is_formula_number(left, 0) || is_formula_number(right, 0)) return size_number(a, 0);
  if (is_formula_number(left, 1)) return right;
  return is_formula_number(right, 1) ? left : binary_formula(a, FORMULA_MULTIPLY, left, right);
}

static int64_t greatest_common_divisor(int64_t x, int64_t y) {
  return y == 0 ? x : greatest_common_divisor(y, x % y);
}

static const size_formula *divide_size(arena *a, formula_kind kind, const size_formula *left,
                                       int64_t right) {
  return right == 1 ? left : binary_formula(a, kind, left, size_number(a, right));
}

const size_formula *size_floor_div(arena *a, const size_formula *left, int64_t divisor) {
  return divide_size(a, FORMULA_FLOOR_DIV, left, divisor);
}
const size_formula *size_ceil_div(arena *a, const size_formula *left, int64_t divisor) {
  return divide_size(a, FORMULA_CEIL_DIV, left, divisor);
}

// A number that the formula is always a multiple of.
static int64_t formula_factor(const size_formula *f) {
  switch (f->kind) {
    case FORMULA_NUMBER: return f->number;
    case FORMULA_ADD:
      return greatest_common_divisor(formula_factor(f->left), formula_factor(f->right));
    case FORMULA_MULTIPLY: return formula_factor(f->left) * formula_factor(f->right);
    case FORMULA_ALIGN: return f->right->number;
    default: return 1;
  }
}

const size_formula *size_align(arena *a, const size_formula *left, int64_t multiple) {
  return formula_factor(left) % multiple == 0 ? left
                                              : divide_size(a, FORMULA_ALIGN, left, multiple);
}

// ---- text ------------------------------------------------------------------------------------

static const struct {
  const char *before, *between, *after;
} words[] = {[FORMULA_ADD] = {"", " + ", ""},
             [FORMULA_MULTIPLY] = {"", " * ", ""},
             [FORMULA_FLOOR_DIV] = {"floor_div(", ", ", ")"},
             [FORMULA_CEIL_DIV] = {"ceil_div(", ", ", ")"},
             [FORMULA_ALIGN] = {"align(", ", ", ")"}};

static void print_formula(FILE *out, const size_formula *f, bool in_product) {
  if (f->kind == FORMULA_NUMBER) {
    fprintf(out, "%lld", (long long)f->number);
  } else if (f->kind == FORMULA_NAME) {
    fputs(f->name, out);
  } else {
    bool product = f->kind == FORMULA_MULTIPLY, parentheses = in_product && f->kind == FORMULA_ADD;
    fprintf(out, "%s%s", parentheses ? "(" : "", words[f->kind].before);
    print_formula(out, f->left, product);
    fputs(words[f->kind].between, out);
    print_formula(out, f->right, product);
    fprintf(out, "%s%s", words[f->kind].after, parentheses ? ")" : "");
  }
}

const char *size_text(arena *a, const size_formula *f) {
  text_stream text;
  FILE *out = text_begin(&text);
  print_formula(out, f, false);
  return text_end(&text, a);
}
