// Expressions are built bottom up with their axes, so that every program is legal: what a statement assigns has exactly the axes
// of its target. Whoever needs an input declares it; named values are used again, so that lags and lets have several readers.
#include "tests/random/heads.h"

#include "compiler/base/vec.h"
#include "tests/random/draw.h"

enum { G, R, Q, P, N, AXES };  // three of heads, values, keys: keys alone are always summed
enum { HEADS = 1 << G | 1 << R | 1 << Q };

static const char *const axis_names[AXES] = {"G", "R", "Q", "P", "N"};

typedef struct piece {
  const char *text;
  unsigned axes;
} piece;

typedef enum named_kind { INPUT, PARAM, LET, STATE } named_kind;

typedef struct named {
  const char *name;
  unsigned axes;
  named_kind kind;
} named;

typedef struct maker {
  arena *memory;
  uint64_t random;
  int order[AXES];     // of the header
  int64_t size[AXES];  // 0: told at run time
  unsigned heads, used;
  VEC(named) values;
  const char *declarations, *states, *outputs, *body;
  int names;
  bool stateless;
} maker;

#define TEXT(...) arena_printf(m->memory, __VA_ARGS__)

static int below(maker *m, int limit) { return random_below(&m->random, limit); }
static bool chance(maker *m, int percent) { return random_chance(&m->random, percent); }

// The axes, but for some of the heads'.
static unsigned some(maker *m, unsigned axes) {
  return chance(m, 40) ? axes : axes & ~(HEADS & (unsigned)next_random(&m->random));
}

static const char *brackets(maker *m, unsigned axes) {
  const char *list = "";
  m->used |= axes;
  for (int i = 0; i < AXES; i++) {
    if (axes >> m->order[i] & 1) list = TEXT("%s%s%s", list, *list ? "," : "", axis_names[m->order[i]]);
  }
  return *list ? TEXT("[%s]", list) : "";
}

static const char *new_name(maker *m, char prefix) { return TEXT("%c%d", prefix, m->names++); }

static piece remember(maker *m, const char *name, unsigned axes, named_kind kind) {
  vec_push(m->memory, &m->values, ((named){name, axes, kind}));
  return (piece){name, axes};
}

static piece declare(maker *m, unsigned axes, named_kind kind) {
  const char *name = new_name(m, kind == PARAM ? 'p' : 'x');
  m->declarations = TEXT("%s  %s %s%s\n", m->declarations, kind == PARAM ? "param" : "input", name, brackets(m, axes));
  return remember(m, name, axes, kind);
}

static piece let(maker *m, piece x) {
  const char *name = new_name(m, 'l');
  m->body = TEXT("%s  let %s = %s\n", m->body, name, x.text);
  return remember(m, name, x.axes, LET);
}

static const char *declare_state(maker *m, unsigned axes) {
  const char *name = new_name(m, 'S');
  m->states = TEXT("%s  state %s%s\n", m->states, name, brackets(m, axes));
  return name;
}

static void assign(maker *m, const char *name, piece x) { m->body = TEXT("%s  %s = %s\n", m->body, name, x.text); }

static void output(maker *m, piece x) {
  const char *name = new_name(m, 'y');
  m->outputs = TEXT("%s  output %s%s\n", m->outputs, name, brackets(m, x.axes));
  assign(m, name, x);
}

// ---- values --------------------------------------------------------------------------------------------------------------

// An input or let with these axes, perhaps one that others use; a parameter now and then.
static piece token(maker *m, unsigned axes) {
  for (int i = 0; i < m->values.count; i++) {
    const named *v = &m->values.items[i];
    if (v->axes == axes && (v->kind == INPUT || v->kind == LET) && chance(m, 30)) return (piece){v->name, v->axes};
  }
  return declare(m, axes, INPUT);
}

static piece value(maker *m, unsigned axes) { return chance(m, 15) ? declare(m, axes, PARAM) : token(m, axes); }

// A factor of moderate size with at most these axes.
static piece factor(maker *m, unsigned axes) {
  for (int i = 0; i < m->values.count; i++) {
    const named *v = &m->values.items[i];
    if (v->axes & ~axes || !chance(m, 15)) continue;
    if (v->kind == STATE) return (piece){TEXT("tanh(%s)", v->name), v->axes};
    if (v->kind != PARAM) return (piece){TEXT("tanh(%s[t-%d])", v->name, 1 + below(m, 2)), v->axes};
  }
  piece x = value(m, some(m, axes));
  return (piece){TEXT(chance(m, 50) ? "(0.5 + sigmoid(%s))" : "tanh(%s)", x.text), x.axes};
}

// Of the step before, by a lag or by a state that holds it.
static piece earlier(maker *m, piece x) {
  if (m->stateless || chance(m, 70)) return (piece){TEXT("%s[t-%d]", x.text, 1 + below(m, 3)), x.axes};
  const char *held = declare_state(m, x.axes);
  assign(m, held, x);
  return (piece){TEXT("%s[t-1]", held), x.axes};
}

static piece of_two_steps(maker *m, unsigned axes) {
  static const char *const forms[] = {"silu(%s + %s * %s)", "%s + %s * %s", "%s - %s * tanh(%s)", "%s * sigmoid(%s + %s)"};
  piece x = token(m, axes), w = chance(m, 70) ? declare(m, some(m, axes), PARAM) : factor(m, axes);
  return (piece){TEXT(forms[below(m, 4)], x.text, w.text, earlier(m, x).text), axes};
}

// Keys, values, queries: exactly these axes.
static piece vector(maker *m, unsigned axes) {
  int form = below(m, 8);
  if (form < 2) return value(m, axes);
  if (form < 4) return let(m, of_two_steps(m, axes));
  if (form == 4) return earlier(m, token(m, axes));
  piece x = value(m, axes);
  if (form == 5 && axes >> N & 1) return let(m, (piece){TEXT("softmax[N](%s)", x.text), axes});
  if (form == 6) return let(m, (piece){TEXT("%s * %s", x.text, factor(m, axes).text), axes});
  return let(m, (piece){TEXT("silu(%s)", x.text), axes});
}

static piece gate(maker *m, unsigned axes) {
  static const char *const forms[] = {"sigmoid(%s)",          "sigmoid(%s)^(1/4)", "exp(-softplus(%s))",
                                      "(1.05 * sigmoid(%s))", "0.9 * tanh(%s)",    "exp(-exp(%s))"};
  int form = below(m, 8);
  if (form > 5) return (piece){form == 6 ? "0.9" : "1", 0};
  piece x = value(m, axes);
  piece made = {TEXT(forms[form], x.text), axes};
  return chance(m, 30) ? let(m, made) : made;
}

// ---- states --------------------------------------------------------------------------------------------------------------

static void finish_state(maker *m, const char *name, unsigned axes, const char *text) {
  assign(m, name, (piece){text, axes});
  remember(m, name, axes, STATE);
}

// A row of the state, and added to it a matrix of parameters times a vector that some of the heads may share. Its sum keeps the
// row in one instance.
static void read_row(maker *m, const char *name, unsigned axes) {
  piece x = vector(m, (chance(m, 50) ? some(m, axes & HEADS) : 0) | 1u << P), w = declare(m, 1u << N | 1u << P, PARAM);
  piece row = let(m, (piece){TEXT("sum[P](%s * %s) + %s", w.text, x.text, name), axes});
  output(m, row);
  output(m, (piece){TEXT("sum[N](%s)", row.text), axes & HEADS});
}

// One number for some of the heads, or a row of them.
static void small_state(maker *m) {
  unsigned axes = some(m, m->heads) | (chance(m, 50) ? 1u << N : 0);
  piece x = vector(m, axes);
  const char *name = declare_state(m, axes), *before = TEXT("%s[t-1]", name);
  if (chance(m, 25)) {
    finish_state(m, name, axes, TEXT("max(log_sigmoid(%s) + %s, %s)", x.text, before, x.text));
    return;
  }
  if (axes >> N & 1 && m->size[P] && chance(m, 80)) read_row(m, before, axes);
  const char *kept = TEXT("%s * %s", gate(m, some(m, axes)).text, before);
  finish_state(m, name, axes, TEXT(chance(m, 30) ? "tanh(0.5 * %s + %s)" : "%s + 0.5 * %s", kept, x.text));
}

static unsigned decay_axes(maker *m, unsigned axes) {
  int form = below(m, 6);
  unsigned heads = some(m, axes & HEADS);
  return form < 3 ? heads : form == 3 ? heads | 1u << N : form == 4 ? heads | (axes & 1u << P) : some(m, axes);
}

static piece read_of(maker *m, const char *name, unsigned axes) {
  piece q = vector(m, some(m, m->heads) | 1u << N);
  return (piece){TEXT("sum[N](%s * %s)", q.text, name), (axes | q.axes) & ~(1u << N)};
}

static void read_memory(maker *m, const char *name, unsigned axes) {
  piece y = read_of(m, name, axes);
  if (axes >> P & 1 && m->size[P] && chance(m, 10)) output(m, (piece){TEXT("sum[P,N](%s)", name), axes & HEADS});
  if (chance(m, 8)) output(m, (piece){name, axes});
  switch (below(m, 5)) {
    case 0: y = (piece){TEXT("%s * %s", factor(m, y.axes).text, y.text), y.axes}; break;
    case 1: y = (piece){TEXT("%s + %s", y.text, vector(m, y.axes).text), y.axes}; break;
    case 2: {
      piece kept = let(m, y);
      y = (piece){TEXT("%s - 0.5 * %s", kept.text, earlier(m, kept).text), y.axes};
      break;
    }
    default: break;
  }
  unsigned summed = y.axes & HEADS;
  for (int axis = 0; axis < P; axis++)
    if (summed >> axis & 1 && m->size[axis] && chance(m, 8))
      y = (piece){TEXT("sum[%s](%s)", axis_names[axis], y.text), y.axes & ~(1u << axis)};
  output(m, y);
}

// A matrix of keys and values that some of the heads may share.
static void memory_state(maker *m) {
  unsigned axes = (chance(m, 75) ? m->heads : some(m, m->heads)) | 1u << N | (chance(m, 85) ? 1u << P : 0);
  bool key_lacks = chance(m, 60);
  piece k = vector(m, key_lacks ? some(m, axes & ~(1u << P)) : axes & ~(1u << P));
  piece v = vector(m, key_lacks ? axes & ~(1u << N) : some(m, axes & ~(1u << N)) | (axes & 1u << P));
  piece a = gate(m, decay_axes(m, axes));
  const char *name = declare_state(m, axes), *before = TEXT("%s[t-1]", name);
  piece early = {0};
  if (chance(m, 25)) early = let(m, read_of(m, before, axes));
  const char *text = TEXT("%s * %s + %s * %s", a.text, before, k.text, v.text);
  if (chance(m, 25)) {
    piece unit = let(m, (piece){TEXT("normalize[N](%s)", k.text), k.axes});
    piece b = gate(m, some(m, axes & HEADS));
    text = TEXT("%s * %s + %s * %s * (%s - sum[N](%s * %s))", a.text, before, b.text, unit.text, v.text, unit.text, before);
  }
  finish_state(m, name, axes, text);
  if (early.text) output(m, early);
  read_memory(m, name, axes);
}

// Complex entries, of keys alone or with values: what decays them may be a parameter's, the same at all steps.
static void turning_state(maker *m) {
  unsigned axes = some(m, m->heads) | 1u << N | (chance(m, 30) ? 1u << P : 0);
  piece angle = chance(m, 50) ? declare(m, some(m, axes & ~(1u << P)), PARAM) : token(m, some(m, axes & HEADS));
  piece radius = gate(m, decay_axes(m, axes & ~(1u << P)));
  const char *name = new_name(m, 'S');
  m->states = TEXT("%s  state %s%s : complex\n", m->states, name, brackets(m, axes));
  assign(m, name, (piece){TEXT("polar(%s, 2 * %s) * %s[t-1] + %s", radius.text, angle.text, name, vector(m, axes).text), axes});
  piece q = vector(m, some(m, m->heads) | 1u << N);
  const char *part = chance(m, 70) ? "re" : chance(m, 50) ? "im" : "abs";
  output(m, (piece){TEXT("%s(sum[N](%s * %s))", part, q.text, name), (axes | q.axes) & ~(1u << N)});
}

// ---- programs ------------------------------------------------------------------------------------------------------------

// No state but lags.
static void stateless_output(maker *m) {
  unsigned axes = some(m, m->heads) | (chance(m, 50) ? 1u << P : 0);
  piece w = declare(m, some(m, axes), PARAM), x = token(m, axes);
  switch (below(m, 6)) {
    case 0: output(m, (piece){TEXT("%s * %s", w.text, earlier(m, x).text), axes}); break;
    case 1:
      output(m, (piece){TEXT("%s * %s", x.text, earlier(m, x).text), axes});
      output(m, (piece){TEXT("%s + %s", x.text, w.text), axes});
      break;
    case 2: output(m, (piece){TEXT("%s * %s - %s", w.text, earlier(m, x).text, vector(m, axes).text), axes}); break;
    case 3: {
      piece again = let(m, (piece){TEXT("tanh(%s + %s)", w.text, earlier(m, x).text), axes});
      output(m, (piece){TEXT("%s * %s", again.text, earlier(m, again).text), axes});
      break;
    }
    case 4: {
      piece k = vector(m, axes | 1u << N), q = vector(m, some(m, m->heads) | 1u << N);
      output(m, (piece){TEXT("sum[N](%s * %s)", k.text, q.text), (k.axes | q.axes) & ~(1u << N)});
      output(m, (piece){TEXT("%s / (1 + %s^2)", x.text, w.text), axes});
      break;
    }
    default: output(m, (piece){TEXT("%s * %s + %s", w.text, x.text, vector(m, axes).text), axes});
  }
}

static void choose_axes(maker *m) {
  static const unsigned heads[] = {1 << G, 1 << G | 1 << R, 1 << G | 1 << R, 1 << G | 1 << R | 1 << Q};
  m->heads = heads[below(m, 4)];
  for (int i = 0; i < AXES; i++) m->order[i] = i;
  for (int i = 0; i < AXES && chance(m, 60); i++) {
    int a = below(m, AXES), b = below(m, AXES), kept = m->order[a];
    m->order[a] = m->order[b];
    m->order[b] = kept;
  }
  for (int i = 0; i < P; i++) m->size[i] = chance(m, 60) ? 0 : 1 + below(m, 4);
  m->size[P] = chance(m, 25) ? 0 : 3 + below(m, 14);
  m->size[N] = chance(m, 30) ? 16 : 4 + below(m, 9);
}

static const char *header(maker *m) {
  const char *list = "";
  for (int i = 0; i < AXES; i++) {
    int axis = m->order[i];
    if (!(m->used >> axis & 1)) continue;
    const char *size = m->size[axis] ? TEXT(" = %d", (int)m->size[axis]) : "";
    list = TEXT("%s%s%s%s", list, *list ? ", " : "", axis_names[axis], size);
  }
  return list;
}

char *recurrence_of_heads(arena *memory, uint64_t seed, const char *name) {
  maker made = {.memory = memory, .random = seed, .declarations = "", .states = "", .outputs = "", .body = ""}, *m = &made;
  choose_axes(m);
  m->stateless = chance(m, 25);
  piece x = declare(m, some(m, m->heads), INPUT);
  if (m->stateless) {
    for (int i = 1 + below(m, 2); i > 0; i--) stateless_output(m);
  } else {
    int small = below(m, 3), memories = small && chance(m, 20) ? 0 : chance(m, 20) ? 2 : 1;
    for (int i = small; i > 0; i--) small_state(m);
    for (int i = memories; i > 0; i--) (chance(m, 88) ? memory_state : turning_state)(m);
  }
  output(m, (piece){TEXT("%s * %s", x.text, factor(m, x.axes).text), x.axes});
  return TEXT("recurrence %s(%s) {\n%s%s%s%s}\n", name, header(m), m->declarations, m->states, m->outputs, m->body);
}
