// Programs are built of terms: a value of some step, weighted. Each term knows its axes, and an output has those of its terms
// that are not reduced, so every program is legal. Inputs and parameters are declared when they are first read: none is unused.
#include "tests/random/stateless.h"

#include "compiler/base/vec.h"
#include "tests/random/draw.h"

enum { G, K, V, AXES };  // G perhaps at run time: never summed then
static const char *const axis_names[AXES] = {"G", "K", "V"};

typedef struct value {
  const char *text;
  unsigned axes;
} value;

typedef struct maker {
  arena *memory;
  uint64_t random;
  bool run_time;  // G has no size
  unsigned used;  // axes of the header
  VEC(value) inputs, params, lets;
  const char *body;
} maker;

#define TEXT(...) arena_printf(m->memory, __VA_ARGS__)

static int below(maker *m, int limit) { return random_below(&m->random, limit); }
static bool chance(maker *m, int percent) { return random_chance(&m->random, percent); }

static unsigned some_axes(maker *m) {
  unsigned axes = (unsigned)next_random(&m->random) & ((1u << AXES) - 1);
  return m->run_time && chance(m, 80) ? axes | 1u << G : axes;
}

static const char *axes_text(maker *m, unsigned axes) {
  const char *text = "";
  m->used |= axes;
  for (int i = 0; i < AXES; i++)
    if (axes >> i & 1) text = TEXT("%s%s%s", text, *text ? "," : "", axis_names[i]);
  return text;
}

static const char *declared(maker *m, const char *name, unsigned axes) {
  return axes ? TEXT("%s[%s]", name, axes_text(m, axes)) : name;
}

static value input(maker *m) {
  enum { MOST = 4 };
  if (m->inputs.count && (m->inputs.count == MOST || chance(m, 40))) return m->inputs.items[below(m, m->inputs.count)];
  value added = {TEXT("x%d", m->inputs.count), some_axes(m)};
  m->used |= added.axes;
  vec_push(m->memory, &m->inputs, added);
  return added;
}

static value param(maker *m) {
  value added = {TEXT("w%d", m->params.count), some_axes(m)};
  m->used |= added.axes;
  vec_push(m->memory, &m->params, added);
  return added;
}

// An input or a let, now or some steps ago.
static value of_some_step(maker *m) {
  value v = m->lets.count && chance(m, 40) ? m->lets.items[below(m, m->lets.count)] : input(m);
  if (chance(m, 70)) v.text = TEXT("%s[t-%d]", v.text, chance(m, 10) ? 9 : 1 + below(m, 4));
  return v;
}

static value weighted(maker *m) {
  static const char *const gates[] = {"sigmoid(%s)", "tanh(%s)", "silu(%s)", "exp(-softplus(%s))"};
  value v = of_some_step(m), w;
  int kind = below(m, 5);
  if (kind == 0) return v;
  if (kind == 4) return (value){TEXT(gates[below(m, 4)], v.text), v.axes};
  w = kind < 3 ? param(m) : of_some_step(m);
  return (value){TEXT("%s * %s", w.text, v.text), v.axes | w.axes};
}

// Without some of its axes.
static value reduced(maker *m, value v, unsigned axes) {
  static const char *const ways[] = {"sum", "sum", "mean", "max"};
  if (!(v.axes & axes)) return v;
  const char *gone = axes_text(m, v.axes & axes);
  return (value){TEXT("%s[%s](%s)", ways[below(m, 4)], gone, v.text), v.axes & ~axes};
}

static value sum_of_terms(maker *m, unsigned allowed) {
  value sum = {"", 0};
  for (int count = 1 + below(m, 4); count > 0; count--) {
    value term = reduced(m, weighted(m), ~allowed);
    sum = (value){TEXT("%s%s%s", sum.text, *sum.text ? " + " : "", term.text), sum.axes | term.axes};
  }
  return sum;
}

static unsigned allowed_axes(maker *m) {
  unsigned axes = (unsigned)next_random(&m->random) & ((1u << AXES) - 1);
  return m->run_time ? axes | 1u << G : axes;
}

static void add_let(maker *m) {
  value sum = sum_of_terms(m, allowed_axes(m));
  value let = {TEXT("l%d", m->lets.count), sum.axes};
  m->body = TEXT("%s  let %s = %s\n", m->body, let.text, sum.text);
  vec_push(m->memory, &m->lets, let);
}

static const char *add_output(maker *m, int number) {
  value sum = sum_of_terms(m, allowed_axes(m));
  const char *name = TEXT("y%d", number);
  m->body = TEXT("%s  %s = %s\n", m->body, name, sum.text);
  return TEXT("  output %s\n", declared(m, name, sum.axes));
}

static const char *declarations(maker *m, const char *word, const value *items, int count) {
  const char *text = "";
  for (int i = 0; i < count; i++) text = TEXT("%s  %s %s\n", text, word, declared(m, items[i].text, items[i].axes));
  return text;
}

// An input or a parameter must tell a size that is known at run time.
static void tell_size(maker *m) {
  value v = {TEXT("x%d", m->inputs.count), 1u << G};
  vec_push(m->memory, &m->inputs, v);
  m->used |= v.axes;
  m->body = TEXT("  let told = %s\n", v.text);
  vec_push(m->memory, &m->lets, ((value){"told", v.axes}));
}

static const char *header(maker *m) {
  static const int sizes[] = {1, 2, 3, 5, 8, 16, 33, 130};
  const char *text = "";
  for (int i = 0; i < AXES; i++) {
    if (!(m->used >> i & 1)) continue;
    const char *size = i == G && m->run_time ? "" : TEXT(" = %d", sizes[below(m, i == G ? 8 : 6)]);
    text = TEXT("%s%s%s%s", text, *text ? ", " : "", axis_names[i], size);
  }
  return text;
}

char *stateless_recurrence(arena *memory, uint64_t seed, const char *name) {
  maker made = {.memory = memory, .random = seed, .body = ""}, *m = &made;
  m->run_time = chance(m, 40);
  if (m->run_time) tell_size(m);
  for (int count = below(m, 3); count > 0; count--) add_let(m);
  const char *outputs = "";
  for (int count = 1 + below(m, 2), i = 0; i < count; i++) outputs = TEXT("%s%s", outputs, add_output(m, i));
  if (!m->inputs.count) outputs = TEXT("%s%s", outputs, add_output(m, 2));
  const char *inputs = declarations(m, "input", m->inputs.items, m->inputs.count);
  const char *params = declarations(m, "param", m->params.items, m->params.count);
  return TEXT("recurrence %s(%s) {\n%s%s%s%s}\n", name, header(m), inputs, params, outputs, m->body);
}
