// Formulas: what bodies and tile programs are turned into before they are printed. Internal to
// compiler/equations.
//
//   sum[N](C[t] * h[0])     over "sum", index "N" of a product of two symbols
#pragma once

#include "compiler/base/arena.h"
#include "compiler/base/vec.h"
#include "compiler/equations/equations.h"
#include "compiler/tile/tile.h"

typedef enum formula_kind {
  FORMULA_NUMBER,  // number
  FORMULA_SYMBOL,  // name[index], with `gradient` d.name[index]; or a place on a time axis: t/2
  FORMULA_CALL,    // name(args)
  FORMULA_NEGATE,
  FORMULA_ADD,
  FORMULA_SUBTRACT,
  FORMULA_MULTIPLY,
  FORMULA_DIVIDE,
  FORMULA_POWER,
  FORMULA_COMPARE,  // name: < <= ==; 1 or 0
  FORMULA_OVER,     // name[index](args[0]): sum, max, min, ..
  FORMULA_CHANGED   // args[0] with other axes: index "{N -> M}", "[K = 0]"
} formula_kind;

typedef struct formula {
  formula_kind kind;
  const char *name, *index;  // index: NULL for none
  const char *axes;          // SYMBOL on a left side: "G,R", else NULL
  bool gradient;
  double number;
  int count;
  const struct formula *args[3];
  int weight;  // symbols and numbers in it
} formula;

formula *formula_number(arena *a, double number);
formula *formula_symbol(arena *a, const char *name, const char *index);
// The same on a left side, where all axes are told.
formula *formula_left(arena *a, const char *name, const char *index, const char *axes);
formula *formula_unary(arena *a, formula_kind kind, const formula *x);
formula *formula_binary(arena *a, formula_kind kind, const formula *x, const formula *y);
formula *formula_call(arena *a, const char *name, const formula *const *args, int count);
formula *formula_compare(arena *a, const char *name, const formula *x, const formula *y);
formula *formula_over(arena *a, const char *name, const char *index, const formula *x);
formula *formula_changed(arena *a, const char *index, const formula *x);
// An operation by its text, as bodies and tile programs have it: add, lt, sigmoid.
formula *formula_operation(arena *a, const char *text, const formula *const *args, int count);
bool formula_is_number(const formula *f, double number);

// How tightly a formula holds together: an operand that binds less is put into parentheses.
enum { BINDS_COMPARISON, BINDS_SUM, BINDS_SIGN, BINDS_PRODUCT, BINDS_POWER, BINDS_ATOM };
int formula_binding(const formula *f);

char *formula_text(arena *a, const formula *f);   // text.c
char *formula_latex(arena *a, const formula *f);  // latex.c

// left = right
typedef struct equation {
  const formula *left, *right;
} equation;
typedef VEC(equation) equation_list;

// body.c: the lets, states and outputs of a body, named values first where they are used.
equation_list equations_of_body(arena *a, const typed_body *body);
// Some values of a body under names of their own, and what they need that has no name in the
// source.
typedef struct equation_part {
  const char *name;
  value_id value;
} equation_part;
equation_list equations_of_parts(arena *a, const typed_body *body, const equation_part *parts,
                                 int count);

// program.c. `forward` NULL: the program is one; else its equations are known already, and the
// values that they name are not written again.
equation_list equations_of_program(arena *a, const tile_program *program,
                                   const tile_program *forward);
