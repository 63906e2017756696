// A program is a list of memories. The decay, keys, values, erasure and reads of each are drawn separately, so that structures
// meet that no paper has together. Whoever needs an input declares it.
#include "tests/random/mixture.h"

#include "compiler/base/vec.h"
#include "tests/random/draw.h"

typedef struct mixer {
  arena *memory;
  uint64_t random;
  const char *declarations, *states, *body, *outputs;
  int inputs, memories;
  bool folds, is_complex;  // of the memory made now
} mixer;

#define TEXT(...) arena_printf(m->memory, __VA_ARGS__)

static int below(mixer *m, int limit) { return random_below(&m->random, limit); }
static bool chance(mixer *m, int percent) { return random_chance(&m->random, percent); }

// A new input, or now and then a parameter, with these axes.
static const char *value(mixer *m, const char *axes) {
  bool param = chance(m, 15);
  const char *name = TEXT("%c%d", param ? 'p' : 'x', m->inputs++);
  m->declarations = TEXT("%s  %s %s[%s]\n", m->declarations, param ? "param" : "input", name, axes);
  return name;
}

static const char *token(mixer *m, const char *prefix, const char *axes, const char *promise) {
  const char *name = TEXT("%s%d", prefix, m->inputs++);
  m->declarations = TEXT("%s  input %s[%s]%s\n", m->declarations, name, axes, promise);
  return name;
}

static const char *let(mixer *m, const char *text) {
  const char *name = TEXT("l%d", m->inputs++);
  m->body = TEXT("%s  let %s = %s\n", m->body, name, text);
  return name;
}

static void assign(mixer *m, const char *name, const char *text) { m->body = TEXT("%s  %s = %s\n", m->body, name, text); }

static const char *state(mixer *m, const char *axes, bool complex) {
  const char *name = TEXT("S%d", m->inputs++);
  m->states = TEXT("%s  state %s[%s]%s\n", m->states, name, axes, complex ? " : complex" : "");
  return name;
}

// ---- Decays --------------------------------------------------------------------------------------------------------------

// One factor with at most these axes.
static const char *factor(mixer *m, const char *axes) {
  static const char *const of_values[] = {
      "sigmoid(%s)",       "sigmoid(%s)^(1/4)",        "exp(-softplus(%s))", "tanh(%s)",
      "(1 - sigmoid(%s))", "(1.05 * sigmoid(2 + %s))", "exp(-4 * exp(%s))",  "exp(-exp(-0.5) * sigmoid(%s))"};
  static const char *const of_heads[] = {"exp(-exp(%s) * softplus(%s))", "where(%s > 1, 0, sigmoid(%s))"};
  int form = below(m, 12);
  if (form < 8) return TEXT(of_values[form], value(m, axes));
  if (form == 8) return TEXT("exp(%s)", token(m, "promised", axes, " in [-3, 0]"));
  if (form == 9) return TEXT("where(%s > 1.2, 0, 0.9)", token(m, "x", axes, ""));
  const char *x = value(m, "H");
  return TEXT(of_heads[form - 10], x, value(m, axes));
}

static const char *two_factors(mixer *m, const char *axes, const char *others) {
  const char *x = factor(m, axes);
  return TEXT("%s * %s", x, factor(m, others));
}

// Rows and columns apart, under resets of all or of some.
static const char *two_sides_and_resets(mixer *m) {
  const char *kept = two_factors(m, "H,K", "H,V");
  const char *axes = chance(m, 30) ? "H,K" : chance(m, 30) ? "H,V" : "H", *other = "0";
  if (chance(m, 30)) kept = TEXT("where(%s > 1.2, 0, %s)", value(m, chance(m, 50) ? "H" : axes), kept);
  if (!axes[1] && chance(m, 30)) other = two_factors(m, "H", "H,K");
  return TEXT("where(%s > 1.2, %s, %s)", value(m, axes), other, kept);
}

static const char *decay(mixer *m) {
  static const char *const constants[] = {"1", "0.9", "-0.8", "exp(log1p(-2^(-3 - index[H])))"};
  const char *radius;
  switch (below(m, 10)) {
    case 0: radius = constants[below(m, 4)]; break;
    case 1:
    case 2: radius = factor(m, "H"); break;
    case 3:
    case 4: radius = factor(m, "H,K"); break;
    case 5: radius = factor(m, "H,V"); break;
    case 6: radius = two_factors(m, "H,K", "H,V"); break;
    case 7: radius = two_factors(m, "H", "H,K"); break;
    case 8: radius = two_sides_and_resets(m); break;
    default: radius = factor(m, "H,K,V"); break;
  }
  if (m->is_complex) radius = TEXT("polar(%s, 2 * %s)", radius, value(m, chance(m, 50) ? "H" : "H,K"));
  return chance(m, 50) ? let(m, radius) : radius;
}

// ---- Keys and values -----------------------------------------------------------------------------------------------------

// The value of the step before, held by a state or by a lag.
static const char *earlier(mixer *m, const char *x, const char *axes) {
  if (chance(m, 50)) return TEXT("%s[t-%d]", x, 1 + below(m, 2));
  const char *held = state(m, axes, false);
  assign(m, held, x);
  return TEXT("%s[t-1]", held);
}

static const char *vector(mixer *m, const char *axes, const char *axis) {
  int form = below(m, 6);
  if (form == 0) {
    const char *x = token(m, "x", axes, "");
    return let(m, TEXT("%s + 0.4 * %s", x, earlier(m, x, axes)));
  }
  const char *x = value(m, axes);
  if (form == 1) return let(m, TEXT("softmax[%s](%s)", axis, x));
  return form == 2 ? TEXT("silu(%s)", x) : x;
}

static const char *key(mixer *m) { return vector(m, "H,K", "K"); }

static const char *unit_key(mixer *m) { return let(m, TEXT("normalize[K](%s)", key(m))); }

static const char *gain(mixer *m) {
  const char *b = value(m, "H");
  return TEXT(chance(m, 30) ? "2 * sigmoid(%s)" : "sigmoid(%s)", b);
}

// ---- Updates -------------------------------------------------------------------------------------------------------------

static const char *write(mixer *m) {
  if (chance(m, 15)) {
    // Two taps: what was written a step ago, again.
    const char *k = token(m, "x", "H,K", ""), *v = token(m, "x", "H,V", "");
    return TEXT("%s * %s + 0.5 * %s[t-1] * %s[t-1]", k, v, k, v);
  }
  const char *v = vector(m, "H,V", "V"), *k = key(m);
  if (chance(m, 20)) k = TEXT("%s * %s", gain(m), k);
  return TEXT("%s * %s", k, v);
}

// S minus what keys find in it, on the kept or on the earlier state, along one direction or two.
static const char *erased(mixer *m, const char *kept, const char *before) {
  const char *from = chance(m, 50) ? kept : before, *b = gain(m);
  int form = below(m, 4);
  if (form == 3) {
    const char *u = let(m, TEXT("normalize[V](%s)", value(m, "H,V")));
    return TEXT("%s - %s * %s * sum[V](%s * %s)", kept, b, u, u, from);
  }
  const char *k = unit_key(m);
  if (form == 0) {
    const char *e = let(m, TEXT("%s - sum[K](%s * %s)", vector(m, "H,V", "V"), k, from));
    return TEXT("%s + %s * %s * %s", kept, b, k, e);
  }
  const char *other = unit_key(m);
  if (form == 1) return TEXT("%s - %s * %s * sum[K](%s * %s)", kept, b, other, k, from);
  const char *third = unit_key(m);
  return TEXT("%s - %s * %s * sum[K](%s * %s) - 0.5 * %s * sum[K](%s * %s)", kept, b, k, k, from, other, third, from);
}

// Several delta steps one after the other.
static const char *folded(mixer *m, const char *kept) {
  m->folds = true;
  const char *k = let(m, TEXT("normalize[K](%s)", value(m, "H,J,K"))), *b = value(m, "H,J"), *v = value(m, "H,J,V");
  return TEXT("fold[J](s = %s, s + sigmoid(%s) * %s * (%s - sum[K](%s * s)))", kept, b, k, v, k);
}

static const char *update(mixer *m, const char *name) {
  const char *before = TEXT("%s[t-1]", name), *kept = TEXT("%s * %s", decay(m), before);
  if (m->is_complex && chance(m, 50)) {
    const char *re = key(m), *im = value(m, "H,K");
    return TEXT("%s + complex(%s, %s) * %s", kept, re, im, vector(m, "H,V", "V"));
  }
  if (m->is_complex || chance(m, 60)) return TEXT("%s + %s", kept, write(m));
  kept = let(m, kept);
  if (chance(m, 20)) return folded(m, kept);
  const char *rest = erased(m, kept, before);
  return TEXT("%s + %s", rest, write(m));
}

// ---- Reads ---------------------------------------------------------------------------------------------------------------

static const char *read_of(mixer *m, const char *text) {
  const char *sum = TEXT("sum[K](%s * %s)", key(m), text);
  if (!m->is_complex) return sum;
  return TEXT("%s(%s)", chance(m, 50) ? "re" : "im", sum);
}

static void add_output(mixer *m, const char *axes, const char *text) {
  const char *name = TEXT("y%d", m->inputs++);
  m->outputs = TEXT("%s  output %s[%s]\n", m->outputs, name, axes);
  assign(m, name, text);
}

static void read_after(mixer *m, const char *name, const char *bonus) {
  const char *y = read_of(m, name);
  if (bonus) y = TEXT("%s * tanh(%s)", y, bonus);
  switch (below(m, 5)) {
    case 0: y = TEXT("%s / (1 + abs(%s))", y, read_of(m, name)); break;
    case 1: y = TEXT("%s + %s", y, value(m, "H,V")); break;
    case 2: {
      const char *held = let(m, y);
      y = TEXT("%s - 0.5 * %s[t-1]", held, held);
      break;
    }
    default: break;
  }
  add_output(m, "H,V", y);
}

// A matrix by itself.
static void plain_memory(mixer *m) {
  m->is_complex = chance(m, 15);
  const char *name = state(m, chance(m, 70) ? "H,K,V" : "H,V,K", m->is_complex), *bonus = NULL;
  if (chance(m, 35)) {
    const char *before = TEXT("%s[t-1]", name);
    if (chance(m, 50)) {
      const char *k = value(m, "H,K");
      before = TEXT("(%s + %s * %s)", before, k, value(m, "H,V"));
    }
    bonus = let(m, read_of(m, before));
  }
  const char *text = update(m, name);
  assign(m, name, text);
  read_after(m, name, bonus);
}

// A matrix and the normaliser that the same keys write, with or without a stabiliser.
static void normalised_memory(mixer *m) {
  const char *C = state(m, "H,K,V", false), *n = state(m, "H,K", false), *f, *i;
  const char *k = let(m, TEXT("softplus(%s)", key(m))), *floor = "0.1", *scale;
  if (chance(m, 60)) {
    const char *top = state(m, "H", false), *raw = value(m, "H");
    const char *reset = value(m, "H");
    const char *log_f = let(m, TEXT("where(%s > 1.3, -1e4, log_sigmoid(%s))", reset, value(m, "H")));
    const char *largest = TEXT("max(%s + %s[t-1], 3 * %s)", log_f, top, raw);
    assign(m, top, chance(m, 70) ? TEXT("stop_gradient(%s)", largest) : largest);
    f = let(m, TEXT("exp(%s + %s[t-1] - %s)", log_f, top, top));
    i = let(m, TEXT("exp(3 * %s - %s)", raw, top));
    floor = TEXT("exp(-%s)", top);
  } else {
    f = let(m, factor(m, chance(m, 50) ? "H" : "H,K"));
    i = gain(m);
  }
  const char *v = vector(m, "H,V", "V"), *q = let(m, TEXT("softplus(%s)", key(m)));
  assign(m, C, TEXT("%s * %s[t-1] + %s * %s * %s", f, C, i, k, v));
  assign(m, n, TEXT("%s * %s[t-1] + %s * %s", f, n, i, k));
  scale = chance(m, 50) ? TEXT("max(sum[K](%s * %s), %s)", q, n, floor) : TEXT("(sum[K](%s * %s) + %s)", q, n, floor);
  add_output(m, "H,V", TEXT("sum[K](%s * %s) / %s", q, C, scale));
}

// Two matrices that read each other, or a chain of which the second reads the first.
static void coupled_memory(mixer *m) {
  m->is_complex = false;
  const char *A = state(m, "H,K,V", false), *B = state(m, "H,K,V", false);
  bool chain = chance(m, 40);
  const char *a = factor(m, "H"), *b = factor(m, chance(m, 50) ? "H" : "H,K"), *w = write(m);
  if (chain)
    assign(m, A, TEXT("%s * %s[t-1] + %s", a, A, w));
  else
    assign(m, A, TEXT("0.8 * %s * %s[t-1] - 0.3 * %s[t-1] + %s", a, A, B, w));
  assign(m, B, TEXT("0.9 * %s * %s[t-1] + 0.2 * %s%s", b, B, A, chance(m, 50) ? "" : "[t-1]"));
  read_after(m, chance(m, 50) ? A : B, NULL);
  read_after(m, B, NULL);
}

// Two or three matrices in a ring. Each keeps a share of itself and adds another one, before or after its step. All entries
// share the factors, or rows (or columns) have their own. One matrix may be corrected by what another holds.
static void ring_of_memories(mixer *m) {
  static const char *const axes[] = {"H", "H", "H,K", "H,V"};
  int shape = below(m, 4), count = shape < 2 && chance(m, 30) ? 3 : 2;
  const char *names[3], *side = axes[shape];
  m->is_complex = chance(m, 15);
  for (int i = 0; i < count; i++) names[i] = state(m, "H,K,V", m->is_complex);
  for (int i = 0; i < count; i++) {
    const char *next = names[(i + 1) % count], *own = factor(m, chance(m, 50) ? "H" : side);
    const char *add = TEXT("0.4 * tanh(%s) * %s[t-1]", value(m, chance(m, 50) ? "H" : side), next);
    const char *text = TEXT("0.8 * %s * %s[t-1] - %s", own, names[i], add);
    if (i && chance(m, 50)) text = TEXT("%s + 0.3 * %s", text, names[i - 1]);
    if (i == 0 || chance(m, 40)) text = TEXT("%s + %s", text, write(m));
    if (!m->is_complex && chance(m, 25)) {
      const char *k = unit_key(m);
      text = TEXT("%s - 0.5 * %s * sum[K](%s * %s[t-1])", text, k, k, next);
    }
    assign(m, names[i], text);
  }
  read_after(m, names[0], NULL);
  read_after(m, names[count - 1], NULL);
}

// Two matrices that turn into each other: one complex number in two real states.
static void turning_memory(mixer *m) {
  m->is_complex = false;
  const char *A = state(m, "H,K,V", false), *B = state(m, "H,K,V", false), *c, *s, *erase = "";
  const char *angle = TEXT("(2 * %s)", value(m, chance(m, 60) ? "H" : chance(m, 50) ? "H,K" : "H,V"));
  if (chance(m, 70)) {
    const char *r = let(m, factor(m, chance(m, 50) ? "H" : "H,K"));
    c = TEXT("%s * cos(%s)", r, angle);
    s = TEXT("%s * sin(%s)", r, angle);
  } else {
    c = let(m, TEXT("0.6 * tanh(%s)", angle));
    s = let(m, TEXT("0.6 * sigmoid(%s)", angle));
  }
  if (chance(m, 25)) {
    const char *k = unit_key(m);
    erase = TEXT(" - 0.5 * %s * sum[K](%s * %s[t-1])", k, k, chance(m, 50) ? A : B);
  }
  bool sign = chance(m, 50);
  assign(m, A, TEXT("%s * %s[t-1] %s %s * %s[t-1] + %s%s", c, A, sign ? "-" : "+", s, B, write(m), erase));
  const char *added = chance(m, 60) ? TEXT(" + %s", write(m)) : "";
  assign(m, B, TEXT("%s * %s[t-1] %s %s * %s[t-1]%s", c, B, sign ? "+" : "-", s, A, added));
  read_after(m, A, chance(m, 30) ? read_of(m, TEXT("%s[t-1]", B)) : NULL);
  read_after(m, B, NULL);
}

// Entries by themselves, summed or not.
static void elementwise_memory(mixer *m) {
  m->is_complex = chance(m, 40);
  const char *name = state(m, "H,K", m->is_complex), *radius = factor(m, chance(m, 80) ? "H,K" : "K");
  if (m->is_complex) radius = TEXT("polar(%s, 3 * %s)", radius, value(m, "H,K"));
  const char *x = value(m, "H");
  assign(m, name, TEXT("%s * %s[t-1] + %s * %s", radius, name, x, key(m)));
  add_output(m, "H", read_of(m, name));
}

char *mixed_recurrence(arena *memory, uint64_t seed, const char *name) {
  mixer made = {.memory = memory, .random = seed, .declarations = "", .states = "", .body = "", .outputs = ""}, *m = &made;
  int K = 8 + below(m, 5), V = 3 + below(m, 7);
  token(m, "x", "H,K", "");
  add_output(m, "H", TEXT("sum[K](x0) + sum[V](%s)", value(m, "H,V")));
  for (int i = 1 + below(m, 2); i > 0; i--) {
    int kind = below(m, 100);
    m->is_complex = false;
    if (kind < 50)
      plain_memory(m);
    else if (kind < 63)
      normalised_memory(m);
    else if (kind < 72)
      coupled_memory(m);
    else if (kind < 77)
      ring_of_memories(m);
    else if (kind < 86)
      turning_memory(m);
    else
      elementwise_memory(m);
  }
  return TEXT("recurrence %s(H, K = %d, V = %d%s) {\n%s%s%s%s}\n", name, K, V,
              m->folds ? TEXT(", J = %d", 1 + below(m, 3)) : "", m->declarations, m->states, m->outputs, m->body);
}
