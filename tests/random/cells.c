// A list of lets, each of which reads those before it, inputs and states; then what every state becomes.
#include "tests/random/cells.h"

#include <stdbool.h>

#include "compiler/base/vec.h"

typedef struct maker {
  arena *memory;
  uint64_t random;
  bool heads, square, narrow;  // matrices that it has
  int names, states;
  const char *declarations, *body;
  VEC(const char *) values;  // with the axes of a state
} maker;

#define TEXT(...) arena_printf(m->memory, __VA_ARGS__)

static uint64_t draw(maker *m) {
  uint64_t z = m->random += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int below(maker *m, int limit) { return (int)(draw(m) % (uint64_t)limit); }
static bool chance(maker *m, int percent) { return below(m, 100) < percent; }

static const char *declared(maker *m, const char *word, const char *axes) {
  const char *name = TEXT("%c%d", word[0], m->names++);
  m->declarations = TEXT("%s  %s %s[%s]\n", m->declarations, word, name, axes);
  return name;
}

static const char *whole(const maker *m) { return m->heads ? "H,D" : "D"; }

static const char *let(maker *m, const char *text) {
  const char *name = TEXT("l%d", m->names++);
  m->body = TEXT("%s  let %s = %s\n", m->body, name, text);
  return name;
}

static const char *input(maker *m) {
  const char *name = declared(m, "input", whole(m));
  return chance(m, 20) ? TEXT("(%s + 0.5 * %s[t-1])", name, name) : name;
}

static const char *some(maker *m) { return m->values.items[below(m, m->values.count)]; }

static const char *before(maker *m) { return TEXT("s%d[t-1]", below(m, m->states)); }

// A matrix of all heads, or of each.
static const char *matrix(maker *m, const char *axes) {
  return declared(m, "param", m->heads && chance(m, 60) ? TEXT("H,%s", axes) : axes);
}

static const char *turned(maker *m) {
  const char *x = chance(m, 60) ? before(m) : some(m);
  int form = below(m, 4);
  (form == 1 ? &m->narrow : &m->square)[0] = true;
  switch (form) {
    case 0: return TEXT("sum[E](%s * %s{D -> E})", matrix(m, "E,D"), x);
    case 1: {
      const char *narrow = let(m, TEXT("sum[D](%s * %s)", matrix(m, "R,D"), x));
      return TEXT("sum[R](%s * %s)", matrix(m, "D,R"), narrow);
    }
    default: return TEXT("sum[E](%s * %s{D -> E})", matrix(m, "D,E"), x);
  }
}

static const char *gated(maker *m, const char *x) {
  static const char *const gates[] = {"sigmoid(%s)",        "tanh(%s)",      "tanh(%s)",
                                      "exp(-softplus(%s))", "sigmoid(%s)^2", "silu(tanh(%s))"};
  return TEXT(gates[below(m, 6)], x);
}

static const char *over_row(maker *m, const char *x) {
  static const char *const rows[] = {"%s / sqrt(1 + mean[D](%s^2))", "%s - 0.5 * mean[D](%s)", "%s / (1 + max[D](abs(%s)))"};
  return TEXT(rows[below(m, 3)], x, x);
}

static void add_value(maker *m) {
  const char *x = TEXT("%s + 0.5 * %s", chance(m, 70) ? turned(m) : before(m), input(m));
  if (chance(m, 50)) x = TEXT("%s + %s", x, declared(m, "param", whole(m)));
  const char *name = let(m, gated(m, x));
  if (chance(m, 25)) name = TEXT("(%s)", over_row(m, name));
  vec_push(m->memory, &m->values, name);
}

static void add_state(maker *m, int number) {
  const char *a = some(m), *b = some(m);
  const char *text;
  switch (below(m, 5)) {
    case 0: text = TEXT("tanh(%s + 0.5 * %s)", turned(m), a); break;
    case 1: text = TEXT("%s * %s", a, b); break;
    case 2: text = TEXT("max(0.5 * s%d[t-1], %s)", number, a); break;
    default: text = TEXT("0.5 * %s * s%d[t-1] + 0.5 * %s", a, number, b); break;
  }
  m->body = TEXT("%s  s%d = %s\n", m->body, number, text);
}

// Everything has a reader.
static const char *everything(maker *m) {
  const char *sum = TEXT("s0%s", chance(m, 30) ? "[t-1]" : "");
  for (int i = 1; i < m->states; i++) sum = TEXT("%s + s%d", sum, i);
  for (int i = 0; i < m->values.count; i++) sum = TEXT("%s + %s", sum, m->values.items[i]);
  return sum;
}

char *random_cell(arena *memory, uint64_t seed, const char *name) {
  static const int sizes[] = {16, 17, 20, 24, 32, 33};
  maker made = {.memory = memory, .random = seed, .declarations = "", .body = ""}, *m = &made;
  m->heads = chance(m, 40);
  m->states = 1 + below(m, 3);
  int size = sizes[below(m, 6)], values = 1 + below(m, 4);
  const char *first = declared(m, "input", whole(m));
  vec_push(memory, &m->values, first);
  for (int i = 0; i < values; i++) add_value(m);
  const char *states = "";
  for (int i = 0; i < m->states; i++) {
    add_state(m, i);
    states = TEXT("%s  state s%d[%s]\n", states, i, whole(m));
  }
  const char *axes = TEXT("%sD = %d", m->heads ? "H = 2, " : "", size);
  if (m->square) axes = TEXT("%s, E = D", axes);
  if (m->narrow) axes = TEXT("%s, R = %d", axes, 8 + 4 * below(m, 3));
  return TEXT("recurrence %s(%s) {\n%s%s  output y[%s]\n%s  y = %s\n}\n", name, axes, m->declarations, states, whole(m),
              m->body, everything(m));
}
