// A program is made from the inside out. Code that needs a value of certain axes makes an expression for it. An expression that
// lacks a leaf declares an input or a parameter. So everything declared is used, and every axis comes from somewhere.
// Declarations are printed at the end.
#include "tests/recurrence/structured.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/vec.h"

enum { H, K, V, N, M, J, AXES };  // heads, keys, values, a dense axis and its twin, micro-steps of a fold

static const char *const axis_names[AXES] = {"H", "K", "V", "N", "M", "J"};

typedef unsigned axes;

typedef struct tensor {
  char *name;
  axes axes;
  bool complex;
  bool parameter;
  bool promised;
} tensor;

typedef struct expression {
  const char *text;  // in parentheses where it needs them
  axes axes;
} expression;

typedef struct generator {
  arena *memory;
  const char *name;
  uint64_t random;
  VEC(tensor) tensors;  // inputs and parameters
  VEC(tensor) lets;     // real ones, usable as leaves
  VEC(char *) declarations;
  VEC(char *) body;
  VEC(expression) reads;  // of states, for the outputs
  axes used;
  int state_count;
  bool has_unit, has_soft;
} generator;

#define TEXT(g, ...) arena_printf((g)->memory, __VA_ARGS__)

static uint64_t next_random(generator *g) {
  g->random += 0x9E3779B97F4A7C15u;
  uint64_t x = g->random;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

static int below(generator *g, int n) { return (int)(next_random(g) % (uint64_t)n); }
static bool chance(generator *g, int percent) { return below(g, 100) < percent; }
static axes bit(int axis) { return 1u << axis; }

// The axes of a declaration may stand in any order.
static const char *shuffled_axis_list(generator *g, axes set) {
  const char *text = "";
  while (set) {
    int axis = below(g, AXES);
    if (!(set & bit(axis))) continue;
    set &= ~bit(axis);
    text = TEXT(g, "%s%s%s", text, *text ? "," : "", axis_names[axis]);
  }
  return *text ? TEXT(g, "[%s]", text) : "";
}

static axes some_of(generator *g, axes set) {
  axes chosen = 0;
  for (int i = 0; i < AXES; i++) {
    if ((set & bit(i)) && chance(g, 60)) chosen |= bit(i);
  }
  return chosen;
}

// ---- leaves -------------------------------------------------------------------------------------

// A real input or parameter with exactly these axes.
static expression leaf(generator *g, axes set) {
  g->used |= set;
  for (int i = 0; i < g->tensors.count; i++) {
    const tensor *t = &g->tensors.items[i];
    if (t->axes == set && !t->complex && chance(g, 40)) return (expression){t->name, set};
  }
  bool parameter = chance(g, 35);
  int number = g->tensors.count;
  tensor t = {TEXT(g, "%c%d", parameter ? 'p' : 'x', number), set, false, parameter, chance(g, 10)};
  vec_push(g->memory, &g->tensors, t);
  return (expression){t.name, set};
}

static expression input_leaf(generator *g, axes set) {
  for (int i = 0; i < g->tensors.count; i++) {
    const tensor *t = &g->tensors.items[i];
    if (t->axes == set && !t->complex && !t->parameter) return (expression){t->name, set};
  }
  g->used |= set;
  tensor t = {TEXT(g, "x%d", g->tensors.count), set, false, false, false};
  vec_push(g->memory, &g->tensors, t);
  return (expression){t.name, set};
}

static expression complex_leaf(generator *g, axes set) {
  g->used |= set;
  tensor t = {TEXT(g, "z%d", g->tensors.count), set, true, chance(g, 40), false};
  vec_push(g->memory, &g->tensors, t);
  return (expression){t.name, set};
}

// A leaf that may also be a let or a lag, with axes among `within`.
static expression any_leaf(generator *g, axes within) {
  if (g->lets.count && chance(g, 40)) {
    const tensor *t = &g->lets.items[below(g, g->lets.count)];
    if ((t->axes & ~within) == 0) {
      const char *text = chance(g, 30) ? TEXT(g, "%s[t-%d]", t->name, 1 + below(g, 3)) : t->name;
      return (expression){text, t->axes};
    }
  }
  if (chance(g, 15)) {
    expression x = input_leaf(g, some_of(g, within));
    return (expression){TEXT(g, "%s[t-%d]", x.text, 1 + below(g, 3)), x.axes};
  }
  if (chance(g, 10)) {
    static const char *const numbers[] = {"0.5", "-1", "2", "0.3", "pi / 4", "0"};
    return (expression){TEXT(g, "(%s)", numbers[below(g, 6)]), 0};
  }
  return leaf(g, some_of(g, within));
}

// ---- expressions: values of some units at most --------------------------------------------------

static expression expr(generator *g, axes within, int depth);

static expression wrap(generator *g, const char *before, expression x, const char *after) {
  return (expression){TEXT(g, "%s%s%s", before, x.text, after), x.axes};
}

static expression unary(generator *g, axes within, int depth) {
  static const char *const forms[][2] = {
      {"tanh(", ")"},
      {"sigmoid(", ")"},
      {"log_sigmoid(", ")"},
      {"softplus(", ")"},
      {"silu(", ")"},
      {"gelu(", ")"},
      {"sin(", ")"},
      {"cos(", ")"},
      {"exp(0.5 * tanh(", "))"},
      {"expm1(0.5 * tanh(", "))"},
      {"(-", ")"},
      {"log1p(tanh(", ")^2)"},
      {"sqrt(1 + tanh(", ")^2)"},
      {"rsqrt(1 + tanh(", ")^2)"},
      {"log(1.5 + tanh(", "))"},
      {"tanh(", ")^3"},
      {"sigmoid(", ")^0.3"},
      {"sigmoid(", ")^-2"},
      {"(1 - sigmoid(", "))"},
      {"stop_gradient(", ")"},
      {"sqrt(sigmoid(", "))"},
      {"exp(-softplus(", "))"},
  };
  int form = below(g, (int)(sizeof forms / sizeof *forms));
  return wrap(g, forms[form][0], expr(g, within, depth - 1), forms[form][1]);
}

// What has a kink or a jump, on leaves whose numbers are exact.
static expression kinked(generator *g, axes within) {
  expression x = leaf(g, some_of(g, within)), y = leaf(g, some_of(g, within));
  axes both = x.axes | y.axes;
  switch (below(g, 9)) {
    case 0: return (expression){TEXT(g, "max(%s, %s)", x.text, y.text), both};
    case 1: return (expression){TEXT(g, "min(%s, %s)", x.text, y.text), both};
    case 2: return (expression){TEXT(g, "(%s < %s) * %s", x.text, y.text, x.text), both};
    case 3: return (expression){TEXT(g, "(%s >= %s) * %s", x.text, y.text, y.text), both};
    case 4: return (expression){TEXT(g, "max(%s, 0.125) * %s", x.text, y.text), both};
    case 5: return (expression){TEXT(g, "clamp(%s, -0.5, 0.25) - %s", x.text, y.text), both};
    case 6: return (expression){TEXT(g, "relu(%s) + %s", x.text, y.text), both};
    case 7: return (expression){TEXT(g, "abs(%s) * %s", x.text, y.text), both};
    default: return (expression){TEXT(g, "clamp(%s, -0.75, 0.5 + 0.25 * abs(%s))", x.text, y.text), both};
  }
}

static expression binary(generator *g, axes within, int depth) {
  expression x = expr(g, within, depth - 1), y = expr(g, within, depth - 1);
  axes both = x.axes | y.axes;
  switch (below(g, 7)) {
    case 0: return (expression){TEXT(g, "(%s + %s)", x.text, y.text), both};
    case 1: return (expression){TEXT(g, "(%s - %s)", x.text, y.text), both};
    case 2: return (expression){TEXT(g, "(%s / (1 + tanh(%s)^2))", x.text, y.text), both};
    case 3: return (expression){TEXT(g, "sigmoid(%s)^softplus(%s)", x.text, y.text), both};
    case 4: {
      expression c = leaf(g, some_of(g, within));
      return (expression){TEXT(g, "where(%s > 0, %s, %s)", c.text, x.text, y.text), both | c.axes};
    }
    case 5: return (expression){TEXT(g, "exp(-softplus(%s)) * exp(0.5 * tanh(%s))", x.text, y.text), both};
    default: return (expression){TEXT(g, "tanh(%s) * %s", x.text, y.text), both};
  }
}

// A reduction over K, which is always a compile-time axis; a slice of it; the position along it.
static expression reduction(generator *g, axes within, int depth) {
  static const char *const forms[][2] = {{"mean[K](", ")"}, {"sum[K](0.5 * ", ")"}, {"sqrt(1 + norm[K](", ")^2)"}};
  expression k = leaf(g, some_of(g, within) | bit(K));
  switch (below(g, 6)) {
    case 0: return (expression){TEXT(g, "max[K](%s)", k.text), k.axes & ~bit(K)};
    case 1: return (expression){TEXT(g, "min[K](%s)", k.text), k.axes & ~bit(K)};
    case 2: return (expression){TEXT(g, "%s[K = %d]", k.text, below(g, 2)), k.axes & ~bit(K)};
    case 3: return (expression){TEXT(g, "mean[K](sin(index[K]) * %s)", k.text), k.axes & ~bit(K)};
    default: {
      expression x = expr(g, within | bit(K), depth - 1);
      expression product = {TEXT(g, "%s * %s", k.text, x.text), k.axes | x.axes};
      int form = below(g, 3);
      product = wrap(g, forms[form][0], product, forms[form][1]);
      product.axes &= ~bit(K);
      return product;
    }
  }
}

// Complex values inside, a real one outside.
static expression through_complex(generator *g, axes within, int depth) {
  expression x = expr(g, within, depth - 1), y = expr(g, within, depth - 1);
  static const char *const forms[] = {"re(complex(%s, 1) * polar(0.5, %s))", "im(exp(complex(-softplus(%s), %s)))",
                                      "abs(complex(1 + sigmoid(%s), %s))",   "re(complex(%s, 1) / complex(2, sin(%s)))",
                                      "re(conj(complex(%s, %s))^2)",         "im(expm1(complex(-sigmoid(%s), %s)))"};
  int form = below(g, 6);
  const char *first = strstr(forms[form], "%s"), *second = strstr(first + 2, "%s");
  const char *text = TEXT(g, "%.*s%s%.*s%s%s", (int)(first - forms[form]), forms[form], x.text, (int)(second - first - 2),
                          first + 2, TEXT(g, "tanh(%s)", y.text), second + 2);
  return (expression){text, x.axes | y.axes};
}

static expression vector_form(generator *g, axes within) {
  static const char *const names[] = {"normalize[K](", "softmax[K]("};
  if (!(within & bit(K))) return leaf(g, some_of(g, within));
  expression x = leaf(g, some_of(g, within) | bit(K));
  if (chance(g, 25)) {
    g->has_unit = true;
    return wrap(g, TEXT(g, "unit_%s[K](", g->name), x, ")");
  }
  return wrap(g, names[below(g, 2)], x, ")");
}

static expression expr(generator *g, axes within, int depth) {
  if (depth <= 0) return any_leaf(g, within);
  int pick = below(g, 100);
  if (pick < 30) return unary(g, within, depth);
  if (pick < 60) return binary(g, within, depth);
  if (pick < 70) return kinked(g, within);
  if (pick < 80) return reduction(g, within, depth);
  if (pick < 86) return through_complex(g, within, depth);
  if (pick < 92) return vector_form(g, within);
  if (pick < 95) {
    g->has_soft = true;
    return wrap(g, TEXT(g, "soft_%s(", g->name), expr(g, within, depth - 1), ")");
  }
  return any_leaf(g, within);
}

// An expression with exactly these axes.
static expression exact(generator *g, axes set, int depth) {
  expression x = expr(g, set, depth);
  axes missing = set & ~x.axes;
  if (!missing) return x;
  expression y = leaf(g, missing | some_of(g, set));
  return (expression){TEXT(g, "%s * tanh(%s)", y.text, x.text), set};
}

static expression let(generator *g, expression x) {
  char *name = TEXT(g, "e%d", g->lets.count);
  vec_push(g->memory, &g->body, TEXT(g, "  let %s = %s\n", name, x.text));
  vec_push(g->memory, &g->lets, ((tensor){.name = name, .axes = x.axes}));
  return (expression){name, x.axes};
}

static expression maybe_let(generator *g, expression x) { return chance(g, 50) ? let(g, x) : x; }

// ---- states -------------------------------------------------------------------------------------

static char *declare_state(generator *g, axes set, bool complex) {
  char *name = TEXT(g, "S%d", g->state_count++);
  vec_push(g->memory, &g->declarations,
           TEXT(g, "  state %s%s%s\n", name, shuffled_axis_list(g, set), complex ? " : complex" : ""));
  g->used |= set;
  return name;
}

static void assign(generator *g, const char *name, const char *text) {
  vec_push(g->memory, &g->body, TEXT(g, "  %s = %s\n", name, text));
}

static void add_read(generator *g, const char *text, axes set) { vec_push(g->memory, &g->reads, ((expression){text, set})); }

// A factor for a state's previous value: below 1 or not much above it.
static expression constant_decay(generator *g) {
  static const char *const numbers[] = {"0", "1", "-0.8", "1.02", "0.9"};
  return (expression){numbers[below(g, 5)], 0};
}

static expression gate(generator *g, axes within) {
  static const char *const forms[][2] = {
      {"tanh(", ")"},          {"sigmoid(", ")"},        {"(1 - sigmoid(", "))"},  {"(1 - 0.5 * tanh(", ")^2)"},
      {"sigmoid(", ")^(1/4)"}, {"exp(-softplus(", "))"}, {"exp(-exp(tanh(", ")))"}};
  int form = below(g, (int)(sizeof forms / sizeof *forms));
  return wrap(g, forms[form][0], expr(g, within, 1), forms[form][1]);
}

static expression decay(generator *g, axes within) {
  if (chance(g, 15)) return constant_decay(g);
  if (chance(g, 10)) return leaf(g, some_of(g, within));
  expression x = gate(g, within);
  if (chance(g, 60)) return x;
  expression y = expr(g, within, 1);
  axes both = x.axes | y.axes;
  switch (below(g, 3)) {
    case 0: {
      expression reset = input_leaf(g, some_of(g, within));
      return (expression){TEXT(g, "where(%s > 0.6, sigmoid(%s) * 0, %s)", reset.text, y.text, x.text), reset.axes | both};
    }
    case 1: return (expression){TEXT(g, "sigmoid(%s)^softplus(%s) * %s", y.text, y.text, x.text), both};
    default: return (expression){TEXT(g, "sigmoid(%s) * %s", y.text, x.text), both};
  }
}

// S = decay * S[t-1] + k * v, read by sum[K](q * S) after or before the step.
static void outer_product_state(generator *g) {
  axes heads = some_of(g, bit(H)), keys = heads | bit(K), values = heads | bit(V), all = keys | values;
  axes of_decay = chance(g, 50) ? heads : chance(g, 50) ? keys : all;
  char *name = declare_state(g, all, false);
  expression a = maybe_let(g, decay(g, of_decay));
  expression k = maybe_let(g, exact(g, keys, 2)), v = maybe_let(g, exact(g, values, 2));
  expression q = exact(g, keys, 1);
  bool before = chance(g, 25);
  const char *read = TEXT(g, "sum[K](%s * %s%s)", q.text, name, before ? "[t-1]" : "");
  assign(g, name, TEXT(g, "%s * %s[t-1] + %s * (%s)", a.text, name, k.text, v.text));
  add_read(g, read, values);
}

static void elementwise_state(generator *g) {
  axes all = some_of(g, bit(H) | bit(V)) | bit(K);
  char *name = declare_state(g, all, false);
  expression a = maybe_let(g, decay(g, all)), x = maybe_let(g, exact(g, all, 2));
  assign(g, name, TEXT(g, "%s * %s[t-1] + %s", a.text, name, x.text));
  if (chance(g, 50)) {
    add_read(g, name, all);
  } else {
    add_read(g, TEXT(g, "sum[K](%s * %s)", exact(g, all, 1).text, name), all & ~bit(K));
  }
}

static const char *complex_decay(generator *g, axes within, const char *z) {
  expression radius = expr(g, within, 1), angle = expr(g, within, 1);
  switch (below(g, 3)) {
    case 0: return TEXT(g, "polar(sigmoid(%s), %s)", radius.text, angle.text);
    case 1: return TEXT(g, "exp(complex(-softplus(%s), %s))", radius.text, angle.text);
    default: return TEXT(g, "(0.5 * %s * tanh(%s) * cos(%s))", z, radius.text, angle.text);
  }
}

static void complex_state(generator *g) {
  axes all = some_of(g, bit(H)) | bit(K);
  char *name = declare_state(g, all, true);
  expression x = exact(g, all, 1), z = complex_leaf(g, all);
  const char *a = complex_decay(g, all, z.text);
  assign(g, name, TEXT(g, "%s * %s[t-1] + %s%s", a, name, x.text, chance(g, 50) ? TEXT(g, " * %s", z.text) : ""));
  add_read(g, TEXT(g, "re(sum[K](%s * %s))", z.text, name), all & ~bit(K));
}

// The delta rule, or several of its steps in a fold.
static void low_rank_state(generator *g) {
  axes heads = some_of(g, bit(H)), keys = heads | bit(K), values = heads | bit(V);
  bool folded = chance(g, 40);
  axes steps = folded ? bit(J) : 0;
  char *name = declare_state(g, keys | values, false);
  expression a = maybe_let(g, decay(g, heads)), k = leaf(g, keys | steps), v = leaf(g, values | steps);
  expression b = leaf(g, heads | steps), q = exact(g, keys, 1);
  const char *gain = TEXT(g, "sigmoid(%s)", b.text), *unit = let(g, wrap(g, "normalize[K](", k, ")")).text;
  const char *old = TEXT(g, "%s * %s[t-1]", a.text, name);
  if (folded) {
    assign(g, name, TEXT(g, "fold[J](s = %s, s + %s * %s * (%s - sum[K](%s * s)))", old, gain, unit, v.text, unit));
  } else {
    assign(g, name, TEXT(g, "%s + %s * %s * (%s - sum[K](%s * %s[t-1]))", old, gain, unit, v.text, unit, name));
  }
  add_read(g, TEXT(g, "sum[K](%s * %s)", q.text, name), values);
}

static void dense_state(generator *g) {
  axes all = some_of(g, bit(H)) | bit(N);
  char *name = declare_state(g, all, false);
  expression A = leaf(g, bit(N) | bit(M)), x = exact(g, all, 1);
  const char *inside = TEXT(g, "sum[M](0.3 * %s * %s[t-1]{N -> M}) + %s", A.text, name, x.text);
  assign(g, name, chance(g, 30) ? TEXT(g, "tanh(%s)", inside) : inside);
  if (chance(g, 50)) {
    add_read(g, TEXT(g, "%s[N = 1]", name), all & ~bit(N));
  } else {
    add_read(g, name, all);
  }
}

static void delay_state(generator *g) {
  axes set = some_of(g, bit(H) | bit(K) | bit(V));
  char *name = declare_state(g, set, false);
  expression x = exact(g, set, 2);
  add_read(g, TEXT(g, "%s[t-1]", name), set);
  assign(g, name, x.text);
}

static void maximum_state(generator *g) {
  axes set = some_of(g, bit(H));
  axes keys = set | bit(K);
  char *m = declare_state(g, set, false), *c = declare_state(g, keys, false);
  expression f = exact(g, set, 1), i = exact(g, set, 1), k = exact(g, keys, 1), q = exact(g, keys, 1);
  const char *shift = TEXT(g, "log_sigmoid(%s)", f.text);
  const char *largest = TEXT(g, "max(%s + %s[t-1], %s)", shift, m, i.text);
  assign(g, m, chance(g, 50) ? TEXT(g, "stop_gradient(%s)", largest) : largest);
  assign(g, c, TEXT(g, "exp(%s + %s[t-1] - %s) * %s[t-1] + exp(%s - %s) * %s", shift, m, m, c, i.text, m, k.text));
  add_read(g, TEXT(g, "sum[K](%s * %s) / (1 + %s^2)", q.text, c, m), set);
}

static void coupled_states(generator *g) {
  axes set = some_of(g, bit(H) | bit(V));
  char *a = declare_state(g, set, false), *b = declare_state(g, set, false);
  expression x = exact(g, set, 1), y = exact(g, set, 1);
  bool nonlinear = chance(g, 40);
  assign(g, a, TEXT(g, "0.6 * %s[t-1] + 0.5 * %s%s[t-1]%s + %s", a, nonlinear ? "sin(" : "", b, nonlinear ? ")" : "", x.text));
  assign(g, b, TEXT(g, "0.4 * %s - 0.5 * %s[t-1] + %s", chance(g, 50) ? a : TEXT(g, "%s[t-1]", a), b, y.text));
  add_read(g, TEXT(g, "(%s + %s)", a, b), set);
}

static void nonlinear_state(generator *g) {
  axes set = some_of(g, bit(H) | bit(V) | bit(K));
  char *name = declare_state(g, set, false);
  expression x = exact(g, set, 1), z = maybe_let(g, wrap(g, "sigmoid(", exact(g, set, 1), ")"));
  switch (below(g, 3)) {
    case 0:
      assign(g, name, TEXT(g, "(1 - %s) * %s[t-1] + %s * tanh(%s + 0.7 * %s[t-1])", z.text, name, z.text, x.text, name));
      break;
    case 1: assign(g, name, TEXT(g, "sigmoid(%s[t-1] + %s) * %s[t-1] + %s", name, x.text, name, z.text)); break;
    default: {
      expression r = let(g, (expression){TEXT(g, "tanh(%s[t-1])", name), set});
      assign(g, name, TEXT(g, "0.5 * %s[t-2] + %s * cos(%s)", r.text, z.text, x.text));
      break;
    }
  }
  add_read(g, name, set);
}

static void any_state(generator *g) {
  typedef void state_function(generator *);
  static state_function *const kinds[] = {outer_product_state, outer_product_state, outer_product_state, elementwise_state,
                                          elementwise_state,   complex_state,       complex_state,       low_rank_state,
                                          dense_state,         delay_state,         maximum_state,       coupled_states,
                                          nonlinear_state};
  kinds[below(g, (int)(sizeof kinds / sizeof *kinds))](g);
}

// ---- the program --------------------------------------------------------------------------------

static void add_output(generator *g, int number, expression x) {
  static const char *const forms[][2] = {{"", ""}, {"silu(", ")"}, {"0.5 * ", ""}, {"tanh(0.25 * (", "))"}};
  int form = below(g, 4);
  if (chance(g, 50)) {
    expression skip = expr(g, x.axes, 1);
    x = (expression){TEXT(g, "(%s + %s)", x.text, skip.text), x.axes | skip.axes};
  }
  vec_push(g->memory, &g->declarations, TEXT(g, "  output y%d%s\n", number, shuffled_axis_list(g, x.axes)));
  vec_push(g->memory, &g->body, TEXT(g, "  y%d = %s%s%s\n", number, forms[form][0], x.text, forms[form][1]));
}

// One output for each read, or one for several of them.
static void add_outputs(generator *g) {
  int number = 0;
  for (int i = 0; i < g->reads.count; i++) {
    expression x = g->reads.items[i];
    while (i + 1 < g->reads.count && chance(g, 60)) {
      const expression *other = &g->reads.items[++i];
      x = (expression){TEXT(g, "(%s) * tanh(%s)", x.text, other->text), x.axes | other->axes};
    }
    add_output(g, number++, x);
  }
}

static const char *header(generator *g) {
  // K, N, M and J are summed, sliced, renamed or folded over: sizes of the source. H is told at run
  // time, V sometimes.
  int n = 1 + below(g, 3);
  const char *sizes[AXES] = {"",
                             TEXT(g, " = %d", 2 + below(g, 4)),
                             chance(g, 50) ? "" : TEXT(g, " = %d", 1 + below(g, 4)),
                             TEXT(g, " = %d", n + 1),
                             " = N",
                             TEXT(g, " = %d", 1 + below(g, 3))};
  const char *text = "";
  for (int i = 0; i < AXES; i++) {
    if (g->used & bit(i)) text = TEXT(g, "%s%s%s%s", text, *text ? ", " : "", axis_names[i], sizes[i]);
  }
  return *text ? TEXT(g, "(%s)", text) : "";
}

static void print_tensor(generator *g, FILE *out, const tensor *t) {
  fprintf(out, "  %s %s%s%s", t->parameter ? "param" : "input", t->name, shuffled_axis_list(g, t->axes),
          t->complex ? " : complex" : "");
  if (t->promised) fputs(" in [-1, 1]", out);
  if (t->parameter && !t->complex) fputs(" ~ uniform(-1, 1)", out);
  fputc('\n', out);
}

static char *print_program(generator *g) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  if (!out) abort();
  if (g->has_unit) fprintf(out, "fn unit_%s[K](x) = x / (1 + norm[K](x))\n", g->name);
  if (g->has_soft) fprintf(out, "fn soft_%s(x) = x / sqrt(1 + x^2)\n", g->name);
  fprintf(out, "recurrence %s%s {\n", g->name, header(g));
  for (int i = 0; i < g->tensors.count; i++) print_tensor(g, out, &g->tensors.items[i]);
  for (int i = 0; i < g->declarations.count; i++) fputs(g->declarations.items[i], out);
  for (int i = 0; i < g->body.count; i++) fputs(g->body.items[i], out);
  fputs("}\n", out);
  fclose(out);
  char *copy = arena_strdup(g->memory, text);
  free(text);
  return copy;
}

char *structured_recurrence(arena *memory, uint64_t seed, const char *name) {
  generator g = {.memory = memory, .name = name, .random = seed};
  input_leaf(&g, some_of(&g, bit(H) | bit(K)));
  for (int i = below(&g, 4); i > 0; i--) let(&g, expr(&g, bit(H) | bit(K) | bit(V), 3));
  for (int i = 1 + below(&g, 3); i > 0; i--) any_state(&g);
  add_read(&g, g.tensors.items[0].name, g.tensors.items[0].axes);
  add_outputs(&g);
  return print_program(&g);
}
