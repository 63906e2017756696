// Makes programs from a seed. Axes have small sizes; one may be known at run time. There are lets, and up to three states of
// random forms: gates of every kind, delta rules, delays, stabilisers, dense, nonlinear and complex updates. Outputs read the
// states. A single number is never normalised, because only rounding would be left.
//
// Expressions are built bottom up with their axes, so that every program is legal. A statement assigns exactly the axes of its
// target. Run-time axes are never summed, and every declared name is used. Values stay of moderate size.
#include "tests/random/generate.h"

#include <stdbool.h>
#include <string.h>

#include "compiler/base/vec.h"
#include "tests/random/draw.h"

enum { H, K, V, M, F, AXES };  // heads (perhaps at run time), two that are summed, one as large as K, one for folds
enum { DEPTH = 3, LEAVES_MAX = 10 };

static const char *const axis_names[AXES] = {"H", "K", "V", "M", "F"};

// A piece of text and what it stands for.
typedef struct expr {
  const char *text;
  unsigned axes;
  bool complex;
} expr;

// Something that has a name: input, parameter, let.
typedef struct leaf {
  const char *name;
  unsigned axes;
  bool complex, input, used;
} leaf;

typedef struct state {
  const char *name;
  unsigned axes;
  bool complex, assigned;
} state;

typedef struct maker {
  arena *memory;
  uint64_t random;
  int sizes[AXES];
  bool run_time;  // H has no size
  unsigned used_axes;
  VEC(leaf)
  inputs, params, lets;
  VEC(state)
  states;
  bool reads_states;  // states may occur in expressions made now
  const char *body;
} maker;

static int below(maker *m, int limit) { return random_below(&m->random, limit); }
static bool chance(maker *m, int percent) { return random_chance(&m->random, percent); }

static expr make(maker *m, unsigned axes, bool complex, const char *text) {
  (void)m;
  return (expr){text, axes, complex};
}

#define TEXT(...) arena_printf(m->memory, __VA_ARGS__)

// Some of the axes in a set.
static unsigned subset(maker *m, unsigned axes) { return axes & (unsigned)next_random(&m->random); }

static const char *axes_text(maker *m, unsigned axes) {
  const char *text = "";
  m->used_axes |= axes;
  for (int i = 0; i < AXES; i++) {
    if (axes >> i & 1) text = TEXT("%s%s%s", text, *text ? "," : "", axis_names[i]);
  }
  return text;
}

static const char *declared(maker *m, const char *name, unsigned axes) {
  return axes ? TEXT("%s[%s]", name, axes_text(m, axes)) : name;
}

// ---- Leaves ----------------------------------------------------------------------------------------------------------------

static expr use(maker *m, leaf *l) {
  l->used = true;
  return make(m, l->axes, l->complex, l->name);
}

// An input or parameter with exactly these axes.
static expr need(maker *m, unsigned axes, bool complex, bool param) {
  leaf *items = param ? m->params.items : m->inputs.items;
  int count = param ? m->params.count : m->inputs.count;
  int matches = 0;
  for (int i = 0; i < count; i++) matches += items[i].axes == axes && items[i].complex == complex;
  if (matches && (chance(m, 60) || count >= LEAVES_MAX)) {
    int chosen = below(m, matches);
    for (int i = 0; i < count; i++) {
      if (items[i].axes == axes && items[i].complex == complex && chosen-- == 0) return use(m, &items[i]);
    }
  }
  m->used_axes |= axes;
  leaf added = {TEXT("%c%d", param ? 'p' : 'x', count), axes, complex, !param, true};
  if (param)
    vec_push(m->memory, &m->params, added);
  else
    vec_push(m->memory, &m->inputs, added);
  return make(m, axes, complex, added.name);
}

// An earlier value of an input or a let.
static expr lagged(maker *m, unsigned allowed, bool complex) {
  expr now = {0};
  for (int i = 0; i < m->lets.count && !now.text; i++) {
    leaf *let = &m->lets.items[i];
    if (!(let->axes & ~allowed) && let->complex == complex && chance(m, 30)) now = use(m, let);
  }
  if (!now.text) now = need(m, subset(m, allowed), complex, false);
  return make(m, now.axes, complex, TEXT("%s[t-%d]", now.text, 1 + below(m, 3)));
}

static expr previous_state(maker *m, unsigned allowed, bool complex) {
  int matches = 0;
  for (int i = 0; i < m->states.count; i++) {
    matches += !(m->states.items[i].axes & ~allowed) && m->states.items[i].complex == complex;
  }
  if (!matches || !m->reads_states) return need(m, subset(m, allowed), complex, false);
  int chosen = below(m, matches);
  for (int i = 0;; i++) {
    const state *s = &m->states.items[i];
    if ((s->axes & ~allowed) || s->complex != complex || chosen-- > 0) continue;
    bool now = s->assigned && chance(m, 70);
    return make(m, s->axes, complex, now ? s->name : TEXT("%s[t-1]", s->name));
  }
}

static expr leaf_value(maker *m, unsigned allowed, bool complex) {
  int kind = below(m, 10);
  if (kind < 4) return need(m, subset(m, allowed), complex, false);
  if (kind < 6) return need(m, subset(m, allowed & ~(1u << F)), complex, true);
  if (kind == 6) return lagged(m, allowed, complex);
  if (kind == 7) return previous_state(m, allowed, complex);
  for (int i = 0; i < m->lets.count; i++) {
    leaf *let = &m->lets.items[i];
    if (!(let->axes & ~allowed) && let->complex == complex && chance(m, 50)) return use(m, let);
  }
  if (complex) return need(m, subset(m, allowed), true, false);
  if (kind == 8 && (allowed >> K & 1)) {
    m->used_axes |= 1u << K;
    return make(m, 1u << K, false, "(index[K] / K)");
  }
  return make(m, 0, false, TEXT("%d.%d", below(m, 2), 1 + below(m, 9)));
}

// ---- Real expressions --------------------------------------------------------------------------------------------------------

static expr real(maker *m, unsigned allowed, int depth);
static expr complex_value(maker *m, unsigned allowed, int depth);

static expr unary(maker *m, unsigned allowed, int depth) {
  static const char *const forms[] = {
      "tanh(%s)",
      "sigmoid(%s)",
      "softplus(%s)",
      "silu(%s)",
      "gelu(%s)",
      "relu(%s)",
      "sin(%s)",
      "cos(%s)",
      "abs(%s)",
      "exp(0.3 * tanh(%s))",
      "log1p(abs(%s))",
      "expm1(0.2 * %s)",
      "sqrt(0.1 + abs(%s))",
      "log_sigmoid(%s)",
      "(-%s)",
      "clamp(%s, -0.5, 0.7)",
      "stop_gradient(%s)",
      "(%s)^2",
      "tanh(%s)^3",
      "(1 + (%s)^2)^-1",
      "sigmoid(%s)^0.3",
      "(1 - sigmoid(%s))",
      "rsqrt(0.5 + softplus(%s))",
      "log(0.2 + softplus(%s))",
      "(%s > 0)",
  };
  expr e = real(m, allowed, depth - 1);
  const char *form = forms[below(m, (int)(sizeof forms / sizeof *forms))], *hole = strstr(form, "%s");
  return make(m, e.axes, false, TEXT("%.*s%s%s", (int)(hole - form), form, e.text, hole + 2));
}

static expr binary(maker *m, unsigned allowed, int depth) {
  expr a = real(m, allowed, depth - 1), b = real(m, allowed, depth - 1);
  unsigned axes = a.axes | b.axes;
  switch (below(m, 8)) {
    case 0:
    case 1: return make(m, axes, false, TEXT("(%s + %s)", a.text, b.text));
    case 2: return make(m, axes, false, TEXT("(%s - %s)", a.text, b.text));
    case 3:
    case 4: return make(m, axes, false, TEXT("(%s * %s)", a.text, b.text));
    case 5: return make(m, axes, false, TEXT("(%s / (1.5 + tanh(%s)))", a.text, b.text));
    case 6: return make(m, axes, false, TEXT("max(%s, %s)", a.text, b.text));
    default: return make(m, axes, false, TEXT("min(%s, %s)", a.text, b.text));
  }
}

static expr choice(maker *m, unsigned allowed, int depth) {
  static const char *const tests[] = {"<", "<=", ">", ">="};
  expr a = real(m, allowed, 1), b = real(m, allowed, 1), c = real(m, allowed, depth - 1), d = real(m, allowed, depth - 1);
  return make(m, a.axes | b.axes | c.axes | d.axes, false,
              TEXT("where(%s %s %s, %s, %s)", a.text, tests[below(m, 4)], b.text, c.text, d.text));
}

static expr reduction(maker *m, unsigned allowed, int depth) {
  static const char *const names[] = {"sum", "mean", "max", "min", "norm", "softmax", "normalize"};
  int axis = chance(m, 50) ? K : V, kind = below(m, m->sizes[axis] > 1 ? 7 : 6);
  unsigned bit = 1u << axis;
  expr e = real(m, allowed | bit, depth - 1);
  if (!(e.axes & bit)) e = make(m, e.axes | bit, false, TEXT("(%s * %s)", e.text, need(m, bit, false, chance(m, 50)).text));
  m->used_axes |= bit;
  bool keeps = kind >= 5;
  if (keeps && !(allowed & bit)) kind = 0, keeps = false;
  return make(m, keeps ? e.axes : e.axes & ~bit, false, TEXT("%s[%s](%s)", names[kind], axis_names[axis], e.text));
}

static expr slice(maker *m, unsigned allowed) {
  int axis = chance(m, 30) ? H : chance(m, 50) ? K : V;
  unsigned bit = 1u << axis;
  expr e = need(m, subset(m, allowed & ~bit) | bit, false, false);
  int size = axis == H && m->run_time ? 1 : m->sizes[axis];
  return make(m, e.axes & ~bit, false, TEXT("%s[%s = %d]", e.text, axis_names[axis], below(m, size)));
}

// sum[M](A * e{K -> M}): a dense product.
static expr renamed(maker *m, unsigned allowed, int depth) {
  expr e = real(m, (allowed & ~(1u << M)) | 1u << K, depth - 1);
  if (!(e.axes >> K & 1)) e = make(m, e.axes | 1u << K, false, TEXT("(%s * %s)", e.text, need(m, 1u << K, false, false).text));
  unsigned outer = chance(m, 70) && (allowed >> K & 1) ? 1u << K : 0;
  expr matrix = need(m, outer | 1u << M, false, true);
  return make(m, (e.axes & ~(1u << K)) | outer, false, TEXT("sum[M](%s * (%s){K -> M})", matrix.text, e.text));
}

static expr folded(maker *m, unsigned allowed) {
  unsigned inner = allowed & ~(1u << F);
  expr start = real(m, inner, 1), a = need(m, subset(m, inner) | 1u << F, false, false);
  expr b = need(m, subset(m, inner) | 1u << F, false, chance(m, 30));
  static const char *const bodies[] = {"tanh(%s * s + %s)", "sigmoid(%s) * s + %s", "s - %s * sin(s) * %s", "max(s * %s, %s)"};
  const char *body = TEXT(bodies[below(m, 4)], a.text, b.text);
  return make(m, (start.axes | a.axes | b.axes) & ~(1u << F), false, TEXT("fold[F](s = %s, %s)", start.text, body));
}

static expr part_of_complex(maker *m, unsigned allowed, int depth) {
  static const char *const names[] = {"re", "im", "abs"};
  expr e = complex_value(m, allowed, depth - 1);
  return make(m, e.axes, false, TEXT("%s(%s)", names[below(m, 3)], e.text));
}

static expr real(maker *m, unsigned allowed, int depth) {
  if (depth <= 0 || chance(m, 15)) return leaf_value(m, allowed, false);
  int kind = below(m, 100);
  if (kind < 35) return unary(m, allowed, depth);
  if (kind < 68) return binary(m, allowed, depth);
  if (kind < 80) return reduction(m, allowed, depth);
  if (kind < 85) return choice(m, allowed, depth);
  if (kind < 89) return slice(m, allowed);
  if (kind < 93) return part_of_complex(m, allowed, depth);
  if (kind < 96 && !(allowed >> M & 1)) return renamed(m, allowed, depth);
  if (kind < 98 && !(allowed >> F & 1)) return folded(m, allowed);
  return leaf_value(m, allowed, false);
}

// ---- Complex expressions -----------------------------------------------------------------------------------------------------

static expr complex_value(maker *m, unsigned allowed, int depth) {
  if (depth <= 0) return leaf_value(m, allowed, true);
  expr a, b;
  switch (below(m, 8)) {
    case 0:
      a = real(m, allowed, depth - 1);
      b = real(m, allowed, depth - 1);
      return make(m, a.axes | b.axes, true, TEXT("complex(%s, %s)", a.text, b.text));
    case 1:
      a = real(m, allowed, depth - 1);
      b = real(m, allowed, depth - 1);
      return make(m, a.axes | b.axes, true, TEXT("polar(sigmoid(%s), %s)", a.text, b.text));
    case 2:
      a = complex_value(m, allowed, depth - 1);
      b = complex_value(m, allowed, depth - 1);
      return make(m, a.axes | b.axes, true, TEXT("(%s * %s)", a.text, b.text));
    case 3:
      a = complex_value(m, allowed, depth - 1);
      b = real(m, allowed, depth - 1);
      return make(m, a.axes | b.axes, true, TEXT("(%s + %s)", a.text, b.text));
    case 4: a = complex_value(m, allowed, depth - 1); return make(m, a.axes, true, TEXT("conj(%s)", a.text));
    case 5:
      a = real(m, allowed, depth - 1);
      b = real(m, allowed, depth - 1);
      return make(m, a.axes | b.axes, true, TEXT("exp(complex(-softplus(%s), %s))", a.text, b.text));
    case 6:
      a = complex_value(m, allowed, depth - 1);
      b = need(m, a.axes, false, false);
      return make(m, a.axes, true, TEXT("where(%s > 0, %s, 0.5)", b.text, a.text));
    default: return leaf_value(m, allowed, true);
  }
}

// ---- Statements ------------------------------------------------------------------------------------------------------------

static void statement(maker *m, const char *text) { m->body = TEXT("%s  %s\n", m->body, text); }

// The same value with exactly the wanted axes: what is too much is summed, what lacks comes from an input.
static expr exactly(maker *m, expr e, unsigned axes) {
  unsigned surplus = e.axes & ~axes, lacking = axes & ~e.axes;
  if (surplus) e = make(m, e.axes & axes, e.complex, TEXT("sum[%s](%s)", axes_text(m, surplus), e.text));
  if (lacking) e = make(m, axes, e.complex, TEXT("(%s + 0.3 * %s)", e.text, need(m, lacking, false, false).text));
  return e;
}

static void add_let(maker *m, unsigned axes) {
  bool complex = chance(m, 12);
  expr e = complex ? complex_value(m, axes, DEPTH - 1) : real(m, axes, DEPTH);
  const char *name = TEXT("l%d", m->lets.count);
  statement(m, TEXT("let %s = %s", name, e.text));
  vec_push(m->memory, &m->lets, (leaf){name, e.axes, complex, false, false});
}

// A factor of the state's own previous value. It reads no state: that would make the update nonlinear, which is another form.
static expr real_gate(maker *m, unsigned axes) {
  static const char *const of_inputs[] = {
      "sigmoid(%s)",    "sigmoid(%s)^(1/4)",  "(1 - sigmoid(%s))",       "tanh(%s)",
      "(-sigmoid(%s))", "exp(-softplus(%s))", "(1.1 * sigmoid(3 + %s))", "where(%s > 0.8, 0, 0.7)",
  };
  static const char *const of_both[] = {"exp(-exp(%s) * softplus(%s))", "(sigmoid(%s) * exp(-softplus(%s)))",
                                        "(tanh(%s) * sigmoid(%s))"};
  int kind = below(m, 14);
  if (kind == 12) return make(m, 0, false, "1");
  if (kind == 13) return make(m, 0, false, "0.5");
  bool saved = m->reads_states;
  m->reads_states = false;
  expr x = real(m, axes, 2);
  m->reads_states = saved;
  if (kind < 8) return make(m, x.axes, false, TEXT(of_inputs[kind], x.text));
  if (kind == 11) return make(m, x.axes, false, x.text);
  expr p = need(m, subset(m, axes), false, true);
  return make(m, x.axes | p.axes, false, TEXT(of_both[kind - 8], p.text, x.text));
}

static expr complex_gate(maker *m, unsigned axes) {
  expr x = need(m, subset(m, axes), false, false), p = need(m, subset(m, axes), false, true);
  switch (below(m, 4)) {
    case 0: return make(m, x.axes | p.axes, true, TEXT("polar(sigmoid(%s), %s)", x.text, p.text));
    case 1: return make(m, x.axes | p.axes, true, TEXT("exp(complex(-softplus(%s), %s))", x.text, p.text));
    case 2: return make(m, x.axes | p.axes, true, TEXT("exp(0.3 * complex(-exp(%s), %s))", p.text, x.text));
    default: return make(m, x.axes | p.axes, true, TEXT("complex(0.6 * tanh(%s), 0.6 * tanh(%s))", x.text, p.text));
  }
}

static expr increment(maker *m, const state *s) {
  if (s->complex) return complex_value(m, s->axes, 2);
  if ((s->axes >> K & 1) && (s->axes >> V & 1) && chance(m, 60)) {
    expr k = need(m, subset(m, s->axes & ~(1u << V)) | 1u << K, false, false);
    expr v = need(m, subset(m, s->axes & ~(1u << K)) | 1u << V, false, false);
    return make(m, k.axes | v.axes, false, TEXT("%s * %s", k.text, v.text));
  }
  return real(m, s->axes, 2);
}

static const char *affine(maker *m, const state *s) {
  expr gate = s->complex ? complex_gate(m, s->axes) : real_gate(m, s->axes), more = increment(m, s);
  return TEXT("%s * %s[t-1] + %s", gate.text, s->name, more.text);
}

// S + beta k (v - k^T S): a state with keys and values.
static const char *delta_rule(maker *m, const state *s) {
  unsigned outer = s->axes & (1u << H);
  expr k = need(m, outer | 1u << K, false, false), v = need(m, outer | 1u << V, false, false);
  expr beta = need(m, subset(m, outer), false, false), gate = real_gate(m, outer);
  const char *name = TEXT("k%s", s->name), *error = TEXT("e%s", s->name);
  statement(m, TEXT(m->sizes[K] > 1 ? "let %s = normalize[K](%s)" : "let %s = tanh(%s)", name, k.text));
  if (chance(m, 50)) {
    statement(m, TEXT("let %s = %s - sum[K](%s * %s[t-1])", error, v.text, name, s->name));
    return TEXT("%s * %s[t-1] + 2 * sigmoid(%s) * %s * %s", gate.text, s->name, beta.text, name, error);
  }
  const char *decayed = TEXT("g%s", s->name);
  statement(m, TEXT("let %s = %s * %s[t-1]", decayed, gate.text, s->name));
  statement(m, TEXT("let %s = %s - sum[K](%s * %s)", error, v.text, name, decayed));
  return TEXT("%s + sigmoid(%s) * %s * %s", decayed, beta.text, name, error);
}

static const char *nonlinear(maker *m, const state *s) {
  expr x = real(m, s->axes, 2), p = need(m, subset(m, s->axes), false, true);
  if (chance(m, 50)) return TEXT("tanh(%s * %s[t-1] + %s)", p.text, s->name, x.text);
  return TEXT("sigmoid(%s + %s[t-1]) * %s[t-1] + tanh(%s)", p.text, s->name, s->name, x.text);
}

static const char *dense(maker *m, const state *s) {
  expr matrix = need(m, 1u << K | 1u << M, false, true), x = real(m, s->axes, 1);
  return TEXT("0.4 * sum[M](%s * %s[t-1]{K -> M}) + %s", matrix.text, s->name, x.text);
}

static const char *update(maker *m, const state *s) {
  int kind = below(m, 100);
  bool keys = s->axes >> K & 1, values = s->axes >> V & 1;
  if (s->complex || kind < 50) return affine(m, s);
  if (kind < 62 && keys && values) return delta_rule(m, s);
  if (kind < 70) {
    expr f = real(m, s->axes, 1), i = real(m, s->axes, 2);
    return TEXT("max(log_sigmoid(%s) + %s[t-1], %s)", f.text, s->name, i.text);
  }
  if (kind < 78) return nonlinear(m, s);
  if (kind < 84 && keys) return dense(m, s);
  if (kind < 90) return exactly(m, real(m, s->axes, 2), s->axes).text;  // a delay: no reading of itself, unless drawn
  return affine(m, s);
}

static void add_states(maker *m) {
  int count = 1 + below(m, 3);
  for (int i = 0; i < count; i++) {
    unsigned axes = subset(m, 1u << H | 1u << K | 1u << V);
    if (chance(m, 40)) axes |= 1u << K | 1u << V;
    vec_push(m->memory, &m->states, (state){TEXT("S%d", i), axes, chance(m, 18), false});
    m->used_axes |= axes;
  }
  for (int i = 0; i < count; i++) {
    m->reads_states = true;
    statement(m, TEXT("S%d = %s", i, update(m, &m->states.items[i])));
    m->states.items[i].assigned = true;
    if (chance(m, 30)) add_let(m, m->states.items[i].axes);
  }
}

// A read of a state: what the output does not have is summed against an input.
static expr read_state(maker *m, const state *s, unsigned axes) {
  unsigned gone = s->axes & ~axes;
  const char *name = chance(m, 75) ? s->name : TEXT("%s[t-1]", s->name);
  expr query = need(m, subset(m, axes) | gone, false, false);
  const char *product = TEXT("%s * %s", query.text, name);
  if (gone) product = TEXT("sum[%s](%s)", axes_text(m, gone), product);
  if (s->complex) product = TEXT("%s(%s)", chance(m, 50) ? "re" : "im", product);
  return make(m, (query.axes | s->axes) & ~gone, false, product);
}

static const char *add_outputs(maker *m) {
  int count = 1 + below(m, 2);
  const char *declarations = "";
  for (int i = 0; i < count; i++) {
    unsigned axes = subset(m, 1u << H | 1u << K | 1u << V) | (m->run_time ? 1u << H : 0);
    bool complex = chance(m, 8);
    expr sum = complex ? complex_value(m, axes, 2) : real(m, axes, DEPTH);
    for (int s = 0; s < m->states.count; s++) {
      if (i > 0 && chance(m, 50)) continue;
      expr read = read_state(m, &m->states.items[s], axes);
      sum = make(m, sum.axes | read.axes, complex, TEXT("%s + %s", sum.text, read.text));
    }
    for (int l = 0; l < m->lets.count; l++) {
      leaf *let = &m->lets.items[l];
      if (let->used) continue;
      expr part = use(m, let);
      if (let->complex) part = make(m, let->axes, false, TEXT("re(%s)", let->name));
      part = make(m, part.axes, false, TEXT("tanh(%s)", part.text));
      if (part.axes & ~axes)
        part = make(m, part.axes & axes, false, TEXT("sum[%s](%s)", axes_text(m, part.axes & ~axes), part.text));
      sum = make(m, sum.axes | part.axes, complex, TEXT("%s + %s", sum.text, part.text));
    }
    sum = exactly(m, sum, axes);
    declarations = TEXT("%s  output %s%s\n", declarations, declared(m, TEXT("y%d", i), axes), complex ? " : complex" : "");
    statement(m, TEXT("y%d = %s", i, sum.text));
  }
  return declarations;
}

static const char *declarations_of(maker *m, const char *word, const leaf *items, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++) {
    text = TEXT("%s  %s %s%s\n", text, word, declared(m, items[i].name, items[i].axes), items[i].complex ? " : complex" : "");
  }
  return text;
}

static const char *header(maker *m) {
  const char *text = "";
  if (m->used_axes >> M & 1) m->used_axes |= 1u << K;
  for (int i = 0; i < AXES; i++) {
    if (!(m->used_axes >> i & 1)) continue;
    const char *size = i == H && m->run_time ? "" : i == M ? " = K" : TEXT(" = %d", m->sizes[i]);
    text = TEXT("%s%s%s%s", text, *text ? ", " : "", axis_names[i], size);
  }
  return text;
}

char *random_recurrence(arena *memory, uint64_t seed, const char *name) {
  maker made = {.memory = memory, .random = seed, .body = ""}, *m = &made;
  for (int i = 0; i < AXES; i++) m->sizes[i] = 1 + below(m, i == F ? 3 : i == H ? 3 : 6);
  m->run_time = chance(m, 60);
  unsigned all = 1u << H | 1u << K | 1u << V;
  // A run-time axis must be told by an input, and a recurrence has one at least.
  need(m, m->run_time ? 1u << H : 1u << K, false, false);
  m->inputs.items[0].used = false;
  for (int i = below(m, 3); i > 0; i--) add_let(m, subset(m, all));
  add_states(m);
  if (!m->inputs.items[0].used) vec_push(memory, &m->lets, (leaf){"x0", m->inputs.items[0].axes, false, false, false});
  const char *outputs = add_outputs(m), *states = "";
  for (int i = 0; i < m->states.count; i++) {
    const state *s = &m->states.items[i];
    states = TEXT("%s  state %s%s\n", states, declared(m, s->name, s->axes), s->complex ? " : complex" : "");
  }
  const char *inputs = declarations_of(m, "input", m->inputs.items, m->inputs.count);
  const char *params = declarations_of(m, "param", m->params.items, m->params.count);
  return TEXT("recurrence %s(%s) {\n%s%s%s%s%s}\n", name, header(m), inputs, params, states, outputs, m->body);
}
