// Expressions are drawn from the table of forms, from the outside in, with the axes that they may
// have. Every form has a kind of numbers for its result and for its operands, so that a program is
// legal and its values stay of moderate size:
//
//   T  -1 to 1          U  0 to 1, an end excluded   C  0 or 1        N  at most 0       Q  at least 0      P  at least 0.1
//   D  a decay          B  moderate                  A  any, of states that are assigned before             X  any
//   Y  complex, at most about 1                      V  complex, with a real part of at most 0              Z  complex
//
// A state that grows with itself is read in the place of an X alone: what makes an A or a B of it
// is bounded.
#include <string.h>

#include "compiler/base/vec.h"
#include "tests/random/draw.h"
#include "tests/random/program.h"

// heads, keys, values, others; M is as large as K; folds go over J
enum { G, H, R, K, V, N, M, J, AXES };
enum { HEADS = 1 << G | 1 << H | 1 << R, ALL = (1 << J) - 1 };

static const char axis_names[AXES + 1] = "GHRKVNMJ";

typedef struct expr {
  const char *text;
  unsigned axes;
} expr;

typedef enum variable_kind { INPUT, PARAM, LET_VALUE, STATE } variable_kind;

typedef struct variable {
  const char *name;
  variable_kind kind;
  unsigned axes;
  char numbers;   // as above
  bool assigned;  // a state
  bool read;      // by an output
} variable;

typedef struct maker {
  arena *memory;
  uint64_t random;
  contents *has;
  const char *name, *declarations, *functions, *body;
  VEC(variable) variables;
  int order[AXES], size[AXES];  // of the header; 0: known at run time
  unsigned active, used, told;  // axes of the program, of its header, of its inputs and parameters
  place place;                  // of what is drawn now
  // constructs that the program shall have, the first one in this place
  int target, second;
  place target_place;
  bool insists;
  int wanted;  // construct, at once; -1: none
  int statements, names;
} maker;

#define TEXT(...) arena_printf(m->memory, __VA_ARGS__)

static int below(maker *m, int limit) { return random_below(&m->random, limit); }
static bool chance(maker *m, int percent) { return random_chance(&m->random, percent); }

// ---- forms -----------------------------------------------------------------------------------

// `$T`: an operand, `$=` one of the result's kind; `@`: axes that the form removes, `&`: axes that
// stay. The results: kinds, or several of them, `=` all but C and V, `^` the real ones of these,
// `~` those of sums, `!` those of odd functions.
typedef struct form {
  const char *construct, *text, *results;
} form;

static const form forms[] = {
    {"input", "#input", "BAXZ"},
    {"param", "#param", "BAXZ"},
    {"promise", "#promise", "TNPU"},
    {"let", "#let", "="},
    {"state", "#state", "TAXZ"},
    {"state[t-1]", "#previous", "TAXZ"},
    {"lag", "#lag", "BAXZT"},
    {"long lag", "#long", "BAXZT"},
    {"number", "#number", "="},
    {"size", "#size", "PBAX"},
    {"index", "#index", "QBAX"},
    {"pi", "(pi / 4)", "UPB"},
    {"read", "#read", "AXZ"},
    {"slice", "#slice$=", "="},
    {"rename", "#rename$=", "="},
    {"dense", "#dense$=", "~"},
    {"fold", "#fold$=", "TBAX"},
    {"fn", "soft_#($X)", "T"},
    {"fn of axes", "unit_#[&]($X)", "T"},
    {"exp", "exp($T)", "PB"},
    {"exp", "exp($N)", "DTQ"},
    {"log", "log($P)", "A"},
    {"sqrt", "sqrt($P)", "P"},
    {"rsqrt", "rsqrt($P)", "QB"},
    {"abs", "abs($X)", "Q"},
    {"abs", "abs($=)", "!"},
    {"sigmoid", "sigmoid($X)", "U"},
    {"log_sigmoid", "log_sigmoid($X)", "N"},
    {"log_sigmoid", "log_sigmoid($=)", "BAX"},
    {"softplus", "softplus($X)", "Q"},
    {"softplus", "softplus($=)", "BAX"},
    {"silu", "silu($=)", "!"},
    {"gelu", "gelu($=)", "!"},
    {"relu", "relu($=)", "!"},
    {"relu", "relu($X)", "Q"},
    {"tanh", "tanh($X)", "T"},
    {"sin", "sin($B)", "T"},
    {"cos", "cos($B)", "T"},
    {"expm1", "expm1($T)", "B"},
    {"expm1", "expm1($N)", "NT"},
    {"log1p", "log1p($Q)", "Q"},
    {"log1p", "log1p($U)", "UB"},
    {"min", "min($=, $=)", "^"},
    {"max", "max($=, $=)", "^"},
    {"clamp", "clamp($X, -0.7, 0.8)", "T"},
    {"clamp", "clamp($X, -0.5, $U)", "T"},
    {"where", "where($C, $=, $=)", "="},
    {"where", "where($X > 1.2, 0, $D)", "D"},
    {"stop_gradient", "stop_gradient($=)", "="},
    {"<", "($X < $X)", "C"},
    {"<=", "($X <= $X)", "C"},
    {">", "($X > $X)", "C"},
    {">=", "($X >= $X)", "C"},
    {"==", "(relu($X) == 0)", "C"},
    {"+", "($= + $=)", "~"},
    {"+", "(0.2 + $Q)", "P"},
    {"+", "($P + $Q)", "P"},
    {"+", "($N + $N)", "N"},
    {"-", "($= - $=)", "~"},
    {"-", "(1 - $U)", "U"},
    {"neg", "(-$=)", "!DYZ"},
    {"neg", "(-$Q)", "N"},
    {"*", "($T * $=)", "!DYZ"},
    {"*", "($B * $=)", "BAZ"},
    {"*", "($U * $=)", "UDNQ"},
    {"/", "($= / $P)", "BAXZ"},
    {"/", "($T / (1 + $Q))", "T"},
    {"whole power", "($T)^2", "TQ"},
    {"whole power", "($T)^3", "T"},
    {"whole power", "($P)^-2", "Q"},
    {"power", "($U)^0.3", "U"},
    {"power", "($P)^$T", "Q"},
    {"power", "2^$T", "PB"},
    {"sum", "sum[@]($=)", "~"},
    {"mean", "mean[@]($=)", "="},
    {"max[]", "max[@]($=)", "^"},
    {"min[]", "min[@]($=)", "^"},
    {"norm", "norm[@]($X)", "Q"},
    {"norm", "norm[@]($A)", "A"},
    {"normalize", "normalize[&]($X)", "T"},
    {"softmax", "softmax[&]($X)", "U"},
    {"complex", "complex($A, $A)", "Z"},
    {"complex", "complex(0.6 * $T, 0.6 * $T)", "Y"},
    {"complex", "complex($N, $B)", "V"},
    {"polar", "polar($A, $B)", "Z"},
    {"polar", "polar($D, $B)", "Y"},
    {"re", "re($Z)", "A"},
    {"im", "im($Z)", "A"},
    {"conj", "conj($=)", "YZ"},
    {"abs of complex", "abs($Z)", "A"},
    {"exp of complex", "exp($V)", "Y"},
    {"expm1 of complex", "expm1($V)", "Z"},
    {"/ by complex", "($= / complex(2, $T))", "YZ"},
    {"* of complex", "($Y * $=)", "YZ"},
    {"power of complex", "($Y)^2", "YZ"},
    {"power of complex", "(complex(2, $T))^-1", "Y"},
    {"norm of complex", "norm[@]($Z)", "A"},
    {"normalize of complex", "normalize[&]($Z)", "YZ"},
};
enum { FORMS = sizeof forms / sizeof *forms };

// Numbers that a kind takes, beside its own.
static bool is_among(char kind, char wanted) {
  static const char *const wider[] = {"TBAXD", "BAX", "AX",     "X",  "UTBAXQD", "QX", "PQX",
                                      "NX",    "D",   "CTBAXQ", "YZ", "Z",       "V"};
  for (size_t i = 0; i < sizeof wider / sizeof *wider; i++)
    if (wider[i][0] == kind) return strchr(wider[i], wanted);
  return false;
}

static const char *kinds_of(char result) {
  switch (result) {
    case '=': return "TBAXPQNUDYZ";
    case '^': return "TBAXPQNUD";
    case '~': return "BAXZ";
    case '!': return "TBAX";
    default: return NULL;
  }
}

static bool gives(const form *f, char wanted) {
  for (const char *r = f->results; *r; r++) {
    const char *several = kinds_of(*r);
    if (several ? strchr(several, wanted) != NULL : is_among(*r, wanted)) return true;
  }
  return false;
}

// ---- constructs ------------------------------------------------------------------------------

typedef void state_maker(maker *m, variable s);

typedef struct state_kind {
  const char *name;
  unsigned needs;  // axes
  char numbers;    // of the state
  bool complex;    // or complex ones
  unsigned has;    // places
  state_maker *make;
} state_kind;

static state_maker affine, outer_product, two_taps, delta, delta_of_decayed, erased, folded,
    dense_state, delay, maximum, average, stabilised, own_decay, coupled, ring, turning, cell, gru,
    lstm, normalised;

static const state_kind state_kinds[] = {
    {"affine state", 0, 'A', true, 1 << UPDATE | 1 << DECAY, affine},
    {"outer product", 1 << K | 1 << V, 'A', true, 1 << DECAY | 1 << KEY, outer_product},
    {"two taps", 1 << K | 1 << V, 'A', false, 1 << DECAY, two_taps},
    {"delta rule", 1 << K | 1 << V, 'A', false, 1 << DECAY | 1 << GATE | 1 << KEY, delta},
    {"delta rule of the decayed", 1 << K | 1 << V, 'A', false, 1 << DECAY | 1 << GATE | 1 << KEY,
     delta_of_decayed},
    {"erasure", 1 << K | 1 << V, 'A', false, 1 << DECAY | 1 << GATE | 1 << KEY, erased},
    {"folded delta rule", 1 << K | 1 << V, 'A', false, 1 << DECAY | 1 << GATE | 1 << KEY, folded},
    {"dense state", 1 << K, 'A', false, 1 << UPDATE, dense_state},
    {"delay", 0, 'A', true, 1 << UPDATE, delay},
    {"running maximum", 0, 'A', false, 1 << UPDATE | 1 << DECAY, maximum},
    {"running average", 0, 'A', false, 1 << UPDATE | 1 << GATE, average},
    {"stabiliser", 1 << K, 'A', false, 1 << UPDATE | 1 << DECAY | 1 << GATE, stabilised},
    {"stabiliser of its own decay", 0, 'A', false, 1 << UPDATE | 1 << GATE, own_decay},
    {"normaliser", 1 << K | 1 << V, 'A', false, 1 << DECAY | 1 << KEY, normalised},
    {"coupled states", 0, 'A', false, 1 << UPDATE, coupled},
    {"ring of states", 0, 'A', true, 1 << UPDATE | 1 << DECAY, ring},
    {"turning states", 0, 'A', false, 1 << UPDATE | 1 << DECAY, turning},
    {"cell", 1 << K, 'T', false, 1 << UPDATE, cell},
    {"gru", 1 << K, 'T', false, 1 << UPDATE | 1 << GATE, gru},
    {"lstm", 1 << K, 'T', false, 1 << UPDATE | 1 << GATE, lstm},
};
enum { STATE_KINDS = sizeof state_kinds / sizeof *state_kinds };

// What a state starts from, constructs behind the kinds of states.
enum { FROM_NUMBER, FROM_PARAMETER, STARTS };
static const char *const start_names[STARTS] = {"start from a number", "start from a parameter"};

static const char kinds[] = "TBAXPQNUDCYZV";
static const char *names[MOST_CONSTRUCTS];
static int name_count, expression_count, construct_of[FORMS];
enum { UNREACHED = 100 };
// how many forms inside each other until one of a kind has a construct
static int distances[128][MOST_CONSTRUCTS];

static int find_construct(const char *name) {
  for (int i = 0; i < name_count; i++)
    if (!strcmp(names[i], name)) return i;
  return -1;
}

static int distance_through(int number, char kind, int construct) {
  int least = UNREACHED;
  if (construct_of[number] == construct) return 1;
  for (const char *t = forms[number].text; (t = strchr(t, '$')); t++) {
    int inside = distances[(int)(t[1] == '=' ? kind : t[1])][construct];
    if (inside + 1 < least) least = inside + 1;
  }
  return least;
}

static bool shorten_distances(void) {
  bool changed = false;
  for (int i = 0; i < FORMS; i++)
    for (const char *kind = kinds; *kind; kind++)
      for (int c = 0; c < expression_count && gives(&forms[i], *kind); c++) {
        int through = distance_through(i, *kind, c), *known = &distances[(int)*kind][c];
        changed |= through < *known;
        if (through < *known) *known = through;
      }
  return changed;
}

static void prepare(void) {
  if (name_count) return;
  for (int i = 0; i < FORMS; i++) {
    int known = find_construct(forms[i].construct);
    if (known < 0) names[known = name_count++] = forms[i].construct;
    construct_of[i] = known;
  }
  expression_count = name_count;
  for (int i = 0; i < STATE_KINDS; i++) names[name_count++] = state_kinds[i].name;
  for (int i = 0; i < STARTS; i++) names[name_count++] = start_names[i];
  for (const char *kind = kinds; *kind; kind++)
    for (int c = 0; c < expression_count; c++) distances[(int)*kind][c] = UNREACHED;
  while (shorten_distances()) {
  }
}

int construct_count(void) {
  prepare();
  return name_count;
}

const char *construct_name(int construct) { return names[construct]; }
bool has_places(int construct) { return construct < expression_count; }
bool has_place(int construct, place where) {
  return has_places(construct) && (where != READ || strcmp(names[construct], "read") != 0);
}

static void record(maker *m, int construct) {
  m->has->places[construct] |= (uint8_t)(1 << m->place);
}

// ---- names -----------------------------------------------------------------------------------

static const char *axes_text(maker *m, unsigned axes) {
  const char *text = "";
  m->used |= axes;
  for (int i = 0; i < AXES; i++)
    if (axes >> m->order[i] & 1)
      text = TEXT("%s%s%c", text, *text ? "," : "", axis_names[m->order[i]]);
  return text;
}

// A tensor's axes stand in any order.
static const char *brackets(maker *m, unsigned axes) {
  const char *text = "";
  if (axes && chance(m, 40)) return TEXT("[%s]", axes_text(m, axes));
  m->used |= axes;
  while (axes) {
    int axis = below(m, AXES);
    if (!(axes >> axis & 1)) continue;
    text = TEXT("%s%s%c", text, *text ? "," : "", axis_names[axis]);
    axes &= ~(1u << axis);
  }
  return *text ? TEXT("[%s]", text) : "";
}

static unsigned subset(maker *m, unsigned axes) {
  unsigned some = axes & (unsigned)next_random(&m->random);
  return chance(m, 50) ? some | (axes & (unsigned)next_random(&m->random)) : some;
}

// Axes that may be summed.
static unsigned closed(const maker *m) {
  unsigned axes = 0;
  for (int i = 0; i < J; i++)
    if (m->size[i]) axes |= 1u << i;
  return axes;
}

static variable remember(maker *m, variable v) {
  vec_push(m->memory, &m->variables, v);
  return v;
}

static bool is_complex(char numbers) { return strchr("YZV", numbers) != NULL; }

static const char *start_of(maker *m, unsigned axes, char numbers);

static variable declare(maker *m, variable_kind kind, unsigned axes, char numbers) {
  static const char *const words[] = {"input", "param", "", "state"}, prefixes[] = "xplS";
  variable v = {TEXT("%c%d", prefixes[kind], m->names++), kind, axes, numbers, false, false};
  const char *start = kind == STATE ? start_of(m, axes, numbers) : "";
  m->declarations = TEXT("%s  %s %s%s%s%s\n", m->declarations, words[kind], v.name,
                         brackets(m, axes), is_complex(numbers) ? " : complex" : "", start);
  if (kind != STATE) m->told |= axes;
  return remember(m, v);
}

// What a state starts from: a number, or a parameter declared for it or before, with some of its
// axes.
static const char *start_of(maker *m, unsigned axes, char numbers) {
  static const char *const reals[] = {"1", "-0.5", "0.25", "-2"};
  int wanted = m->second - expression_count - STATE_KINDS;
  if (wanted < 0 && !chance(m, 30)) return "";
  if (wanted < 0) wanted = below(m, STARTS);
  record(m, expression_count + STATE_KINDS + wanted);
  if (wanted == FROM_NUMBER) {
    bool complex = is_complex(numbers) && chance(m, 50);
    return complex ? TEXT(" ~ complex(%s, %s)", reals[below(m, 4)], reals[below(m, 4)])
                   : TEXT(" ~ %s", reals[below(m, 4)]);
  }
  vec_each(const variable, v, m->variables) {
    bool fits =
        v->kind == PARAM && !(v->axes & ~axes) && is_complex(v->numbers) == is_complex(numbers);
    if (fits && chance(m, 30)) return TEXT(" ~ %s", v->name);
  }
  variable v = declare(m, PARAM, subset(m, axes), is_complex(numbers) ? 'Z' : 'B');
  return TEXT(" ~ %s", v.name);
}

static const char *range_of(char numbers) {
  return numbers == 'T'   ? "[-1, 1]"
         : numbers == 'N' ? "[-3, 0]"
         : numbers == 'P' ? "[0.5, 2]"
                          : "[0.125, 0.875]";
}

static variable promised(maker *m, unsigned axes, char numbers) {
  bool param = chance(m, 30);
  variable v = {
      TEXT("in%c%d", numbers, m->names++), param ? PARAM : INPUT, axes, numbers, false, false};
  m->declarations = TEXT("%s  %s %s%s in %s\n", m->declarations, param ? "param" : "input", v.name,
                         brackets(m, axes), range_of(numbers));
  m->told |= axes;
  return remember(m, v);
}

static void statement(maker *m, const char *text) {
  m->body = TEXT("%s  %s\n", m->body, text);
  m->statements++;
}

static expr let(maker *m, expr e, char numbers) {
  const char *name = TEXT("l%d", m->names++);
  statement(m, TEXT("let %s = %s", name, e.text));
  remember(m, (variable){name, LET_VALUE, e.axes, numbers, false, false});
  return (expr){name, e.axes};
}

// ---- leaves ----------------------------------------------------------------------------------

static const expr none = {NULL, 0};

// What a variable holds where it is read now. A lag is 0 before the sequence starts.
static char numbers_now(const variable *v, bool lag) {
  if (v->kind == STATE && !v->assigned)
    return v->numbers == 'A' ? 'X' : v->numbers == 'T' ? 'T' : 0;
  return !lag ? v->numbers : v->numbers == 'P' ? 'Q' : v->numbers == 'U' ? 'T' : v->numbers;
}

// One of the variables of some kinds, with at most these axes and at least those.
static const variable *find(maker *m, unsigned variable_kinds, char kind, unsigned least,
                            unsigned most, bool lag) {
  const variable *found = NULL;
  for (int i = 0, count = 0; i < m->variables.count; i++) {
    const variable *v = &m->variables.items[i];
    if (!(variable_kinds >> v->kind & 1) || v->axes & ~most || least & ~v->axes) continue;
    if (is_among(numbers_now(v, lag), kind) && below(m, ++count) == 0) found = v;
  }
  return found;
}

enum { ENOUGH = 7 };

static variable token(maker *m, variable_kind kind, char numbers, unsigned axes, bool exactly) {
  const variable *v = find(m, 1u << kind, numbers, exactly ? axes : 0, axes, false);
  if (v && (chance(m, 50) || m->variables.count > ENOUGH)) return *v;
  return declare(m, kind, exactly ? axes : subset(m, axes), is_complex(numbers) ? 'Z' : 'B');
}

// Numbers of a kind with exactly these axes.
static expr shaped(maker *m, char kind, unsigned axes) {
  static const char *const ways[][2] = {
      {"T", "tanh(%s)"},     {"U", "sigmoid(%s)"},     {"P", "(0.2 + softplus(%s))"},
      {"Q", "softplus(%s)"}, {"N", "(-softplus(%s))"}, {"D", "sigmoid(%s)"},
      {"C", "(%s > 0)"},     {"Y", "polar(0.9, %s)"},  {"V", "complex(-0.5, %s)"}};
  const variable *v = find(m, 1u << INPUT | 1u << PARAM | 1u << LET_VALUE, kind, axes, axes, false);
  if (v && chance(m, 40)) return (expr){v->name, axes};
  variable_kind source = chance(m, 20) ? PARAM : INPUT;
  if (kind == 'Z' && chance(m, 50)) return (expr){token(m, source, 'Z', axes, true).name, axes};
  const char *name = token(m, source, 'B', axes, true).name;
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
    if (ways[i][0][0] == kind) {
      const char *hole = strchr(ways[i][1], '%');
      return (expr){TEXT("%.*s%s%s", (int)(hole - ways[i][1]), ways[i][1], name, hole + 2), axes};
    }
  return (expr){name, axes};
}

static const char *number(maker *m, char kind) {
  static const char *const decays[] = {"1", "0.9", "(-0.8)", "0", "1.02"};
  switch (kind) {
    case 'D': return decays[below(m, 5)];
    case 'N': return "(-0.4)";
    case 'P': return "1.5";
    case 'U': return "0.9";
    case 'C': return "1";
    case 'Y': return "polar(0.9, 0.7)";
    case 'V': return "complex(-0.3, 1)";
    default: return chance(m, 50) ? "0.7" : "0.25";
  }
}

// The numbers with these axes among theirs.
static expr with_axes(maker *m, expr e, char kind, unsigned axes) {
  unsigned lacking = axes & ~e.axes;
  if (!lacking) return e;
  expr x = shaped(m, kind, lacking | (chance(m, 30) ? e.axes : 0));
  return (expr){TEXT(strchr("BAXZ", kind) ? "(%s + %s)" : "(0.5 * (%s + %s))", e.text, x.text),
                e.axes | x.axes};
}

static expr draw(maker *m, char kind, unsigned allowed, int depth);
static expr part(maker *m, place where, char kind, unsigned allowed, int depth);

static int one_of(maker *m, unsigned axes) {
  int axis;
  do axis = below(m, AXES);
  while (!(axes >> axis & 1));
  return axis;
}

// What depends on a state may lag by 64 steps in all.
static expr lagged(maker *m, char kind, unsigned allowed, int steps) {
  enum { MOST_OF_STATES = 3 };
  unsigned sources = 1u << INPUT | (steps <= MOST_OF_STATES ? 1u << LET_VALUE : 0);
  const variable *v = find(m, sources, kind, 0, allowed, true);
  if (!v && strchr("TNPU", kind)) return none;
  variable x = v ? *v : token(m, INPUT, kind, allowed, false);
  return (expr){TEXT("%s[t-%d]", x.name, steps), x.axes};
}

static expr of_variable(maker *m, variable_kind which, char kind, unsigned allowed, bool previous) {
  const char *lag = previous ? "[t-1]" : "";
  const variable *v = find(m, 1u << which, kind, 0, allowed, false);
  if (!v || (which == STATE && !v->assigned && !previous)) return none;
  return (expr){TEXT("%s%s", v->name, lag), v->axes};
}

// What the state has and the result has not is summed against a query, or sliced if its size is
// open.
static expr read_of(maker *m, const variable *s, unsigned allowed) {
  unsigned gone = s->axes & ~allowed, open = gone & ~closed(m);
  const char *text = TEXT("%s%s", s->name, s->assigned && chance(m, 75) ? "" : "[t-1]");
  if (open) {
    const char *slices = "";
    for (int i = 0; i < AXES; i++)
      if (open >> i & 1) slices = TEXT("%s%s%c = 0", slices, *slices ? ", " : "", axis_names[i]);
    m->used |= open;
    text = TEXT("%s[%s]", s->assigned ? s->name : TEXT("(%s)", text), slices);
  }
  gone &= ~open;
  unsigned heads = allowed & (s->axes | (HEADS & m->active));
  expr q = with_axes(m, part(m, READ, 'X', heads | gone, below(m, 3)), 'X', gone);
  text = TEXT("%s * %s", q.text, text);
  return (expr){gone ? TEXT("sum[%s](%s)", axes_text(m, gone), text) : TEXT("(%s)", text),
                (q.axes | (s->axes & ~open)) & ~gone};
}

static expr read_any(maker *m, char kind, unsigned allowed) {
  const variable *s = find(m, 1u << STATE, kind, 0, ~0u, false);
  if (!s || !s->assigned || m->place == READ || (kind == 'Z' && !is_complex(s->numbers)))
    return none;
  variable copy = *s;
  return read_of(m, &copy, allowed);
}

static expr leaf(maker *m, const char *text, char kind, unsigned allowed) {
  if (!strcmp(text, "#let")) return of_variable(m, LET_VALUE, kind, allowed, false);
  if (!strcmp(text, "#state")) return of_variable(m, STATE, kind, allowed, false);
  if (!strcmp(text, "#previous")) return of_variable(m, STATE, kind, allowed, true);
  if (!strcmp(text, "#lag")) return lagged(m, kind, allowed, 1 + below(m, 3));
  if (!strcmp(text, "#long")) return lagged(m, kind, allowed, 17 + below(m, 24));
  if (!strcmp(text, "#number")) return (expr){number(m, kind), 0};
  if (!strcmp(text, "#read")) return read_any(m, kind, allowed);
  if (!strcmp(text, "#size")) {
    const char *axis = axes_text(m, 1u << one_of(m, allowed ? allowed : 1u << K));
    return (expr){TEXT("(%s / 8)", axis), 0};
  }
  if (!strcmp(text, "#index")) {
    if (!allowed) return none;
    unsigned axis = 1u << one_of(m, allowed);
    return (expr){TEXT("(0.25 * index[%s])", axes_text(m, axis)), axis};
  }
  if (!strcmp(text, "#promise")) {
    variable v = promised(m, subset(m, allowed), strchr("TNPU", kind) ? kind : 'T');
    return (expr){v.name, v.axes};
  }
  variable v = token(m, strcmp(text, "#param") ? INPUT : PARAM, kind, allowed, false);
  return (expr){v.name, v.axes};
}

static expr plain(maker *m, char kind, unsigned allowed) {
  static const char *const leaves[] = {"#let",   "#state", "#previous", "#input",
                                       "#param", "#lag",   "#number"};
  int which = m->place == OUTPUT && chance(m, 40) ? 1 : below(m, 12);
  if (which < 7 && (which < 3 || strchr("BAXZ", kind))) {
    expr e = leaf(m, leaves[which], kind, allowed);
    if (e.text) {
      record(m, find_construct(which == 2 ? "state[t-1]" : leaves[which] + 1));
      return e;
    }
  }
  return shaped(m, kind, subset(m, allowed));
}

// ---- expressions -----------------------------------------------------------------------------

static expr sliced(maker *m, char kind, unsigned allowed, int depth) {
  int axis = one_of(m, m->active);
  expr e = with_axes(m, draw(m, kind, allowed | 1u << axis, depth - 1), kind, 1u << axis);
  m->used |= 1u << axis;
  return (expr){
      TEXT("(%s)[%c = %d]", e.text, axis_names[axis], m->size[axis] ? below(m, m->size[axis]) : 0),
      e.axes & ~(1u << axis)};
}

// {K -> M}, or back.
static expr renamed_to(maker *m, int to, char kind, unsigned allowed, int depth) {
  int from = K + M - to;
  expr e = draw(m, kind, (allowed & ~(1u << to)) | 1u << from, depth - 1);
  e = with_axes(m, e, kind, 1u << from);
  m->used |= 1u << K | 1u << M;
  return (expr){TEXT("(%s){%c -> %c}", e.text, axis_names[from], axis_names[to]),
                (e.axes & ~(1u << from)) | 1u << to};
}

static expr renamed(maker *m, char kind, unsigned allowed, int depth) {
  unsigned free = allowed & (1u << K | 1u << M);
  return free ? renamed_to(m, one_of(m, free), kind, allowed, depth) : none;
}

static expr dense(maker *m, char kind, unsigned allowed, int depth) {
  int to = allowed >> M & 1 ? K : M;
  unsigned row = chance(m, 70) ? allowed & 1u << (K + M - to) : 0;
  expr e = renamed_to(m, to, kind, allowed, depth);
  variable w =
      declare(m, PARAM, row | 1u << to | (chance(m, 30) ? subset(m, allowed & HEADS) : 0), 'B');
  return (expr){TEXT("sum[%c](%s * %s)", axis_names[to], w.name, e.text),
                (e.axes | w.axes) & ~(1u << to)};
}

static expr fold(maker *m, char kind, unsigned allowed, int depth) {
  static const char *const bodies[] = {"%s * s + %s", "tanh(%s * s + %s)", "max(%s * s, %s)",
                                       "s - 0.5 * %s * sin(s) * %s"};
  unsigned inside = allowed | 1u << J;
  bool tight = kind == 'T';
  if (allowed >> J & 1) return none;
  expr start = draw(m, kind, allowed, 1), a = draw(m, 'T', inside, 1);
  expr b = with_axes(m, draw(m, kind, inside, depth - 1), kind, 1u << J);
  const char *body = bodies[tight ? 1 + below(m, 2) : below(m, 4)],
             *second = strchr(strchr(body, '%') + 1, '%');
  m->used |= 1u << J;
  body = TEXT("%.*s%s%.*s%s%s", (int)(strchr(body, '%') - body), body, a.text,
              (int)(second - strchr(body, '%') - 2), strchr(body, '%') + 2, b.text, second + 2);
  return (expr){TEXT("fold[J](s = %s, %s)", start.text, body),
                (start.axes | a.axes | b.axes) & ~(1u << J)};
}

// Where the text has the name of a function of the program.
static void define(maker *m, const char *text) {
  static const char *const functions[][2] = {
      {"soft_", "fn soft_%s(x) = x / sqrt(1 + x^2)\n"},
      {"unit_", "fn unit_%s[A](x) = x / (1 + norm[A](x))\n"}};
  for (int i = 0; i < 2; i++)
    if (!strncmp(text, functions[i][0], 5) && !strstr(m->functions, functions[i][0])) {
      const char *hole = strchr(functions[i][1], '%');
      m->functions = TEXT("%s%.*s%s%s", m->functions, (int)(hole - functions[i][1]),
                          functions[i][1], m->name, hole + 2);
    }
}

// The axes of a reduction, mostly one. Only a softmax, a normalised vector or a function keeps
// them.
static unsigned reduced(maker *m, const char *text, unsigned allowed) {
  unsigned possible = closed(m) & m->active;
  if (!strchr(text, '&')) {
    unsigned first = 1u << one_of(m, possible);
    return chance(m, 15) ? first | 1u << one_of(m, possible) : first;
  }
  for (int i = 0; i < AXES; i++)
    if (m->size[i] == 1) possible &= ~(1u << i);
  possible &= allowed;
  return possible ? 1u << one_of(m, possible) : 0;
}

static expr expand(maker *m, const char *text, char kind, unsigned allowed, int depth) {
  bool reduces = strpbrk(text, "@&");
  unsigned over = reduces ? reduced(m, text, allowed) : 0, axes = 0;
  const char *made = "";
  if (reduces && !over) return none;
  define(m, text);
  for (const char *t = text; *t; t++) {
    if (*t == '$') {
      char operand = *++t == '=' ? kind : *t;
      expr e = with_axes(m, draw(m, operand, allowed | over, depth - 1), operand, over);
      made = TEXT("%s%s", made, e.text);
      axes |= e.axes;
    } else if (*t == '@' || *t == '&') {
      made = TEXT("%s%s", made, axes_text(m, over));
    } else {
      made = *t == '#' ? TEXT("%s%s", made, m->name) : TEXT("%s%c", made, *t);
    }
  }
  return (expr){made, strchr(text, '@') ? axes & ~over : axes};
}

static expr make(maker *m, const form *f, char kind, unsigned allowed, int depth) {
  const char *text = f->text;
  if (*text != '#') return expand(m, text, kind, allowed, depth);
  if (!strcmp(f->construct, "slice")) return sliced(m, kind, allowed, depth);
  if (!strcmp(f->construct, "rename")) return renamed(m, kind, allowed, depth);
  if (!strcmp(f->construct, "dense")) return dense(m, kind, allowed, depth);
  if (!strcmp(f->construct, "fold")) return fold(m, kind, allowed, depth);
  return leaf(m, text, kind, allowed);
}

// Any form of the kind; if a construct is wanted, one of those that lead to it soonest, `slack`
// longer at most.
static int choose(maker *m, char kind, int slack) {
  int chosen = -1, least = m->wanted < 0 ? 0 : distances[(int)kind][m->wanted] + slack;
  for (int i = 0, count = 0; i < FORMS; i++) {
    if (!gives(&forms[i], kind)) continue;
    if (m->wanted >= 0 && distance_through(i, kind, m->wanted) > least) continue;
    if (below(m, ++count) == 0) chosen = i;
  }
  return chosen;
}

static expr draw(maker *m, char kind, unsigned allowed, int depth) {
  enum { TRIES = 6, DEEPEST = -6 };
  if (depth < DEEPEST || (m->wanted >= 0 && distances[(int)kind][m->wanted] == UNREACHED))
    m->wanted = -1;
  for (int i = 0; i < TRIES && (depth > 0 || m->wanted >= 0); i++) {
    int chosen = choose(m, kind, i / 2), wanted = m->wanted;
    if (chosen < 0) break;
    if (construct_of[chosen] == wanted) m->wanted = -1;
    expr e = make(m, &forms[chosen], kind, allowed, depth);
    if (e.text) {
      record(m, construct_of[chosen]);
      return e;
    }
    m->wanted = wanted;
  }
  return plain(m, kind, allowed);
}

// ---- parts of statements ---------------------------------------------------------------------

static bool is_missing(const maker *m) {
  return !(m->has->places[m->target] >> m->target_place & 1);
}

static expr part(maker *m, place where, char kind, unsigned allowed, int depth) {
  place around = m->place;
  int outer = m->wanted;
  m->place = where;
  if (outer < 0 && where == m->target_place && is_missing(m)) m->wanted = m->target;
  if (outer < 0 && m->wanted < 0 && !m->has->places[m->second] && has_places(m->second) &&
      (m->insists || chance(m, 25)))
    m->wanted = m->second;
  expr e = draw(m, kind, allowed, depth);
  if (outer < 0) m->wanted = -1;
  m->place = around;
  return e;
}

static const char *exact(maker *m, place where, char kind, unsigned axes, int depth) {
  return with_axes(m, part(m, where, kind, axes, depth), kind, axes).text;
}

static unsigned heads_of(maker *m, variable s) {
  return chance(m, 60) ? s.axes & HEADS : subset(m, s.axes & HEADS);
}

// A decay of all entries, of rows, of columns or of entries; perhaps by a let.
static const char *decay_within(maker *m, variable s, unsigned axes) {
  char kind = is_complex(s.numbers) ? 'Y' : 'D';
  expr d = part(m, DECAY, kind, axes & s.axes, 2);
  return chance(m, 25) ? let(m, d, kind).text : d.text;
}

static const char *decay(maker *m, variable s) {
  unsigned axes[] = {HEADS, HEADS, HEADS | 1 << K, HEADS | 1 << V, ALL};
  return decay_within(m, s, axes[below(m, 5)]);
}

static const char *gate(maker *m, variable s) { return part(m, GATE, 'U', s.axes & HEADS, 2).text; }
static const char *increment(maker *m, variable s) {
  return part(m, UPDATE, is_complex(s.numbers) ? 'Z' : 'A', s.axes, 2).text;
}
static const char *key(maker *m, variable s) {
  unsigned axes = heads_of(m, s) | 1u << K;
  return exact(m, KEY, 'B', axes, below(m, 3));
}
static const char *value(maker *m, variable s) {
  return exact(m, KEY, 'B', (s.axes & ~(1u << K)) | 1u << V, below(m, 3));
}

static const char *unit_key(maker *m, variable s) {
  unsigned axes = heads_of(m, s) | 1u << K;
  const char *unit = m->size[K] > 1 ? "normalize[K]" : "tanh",
             *k = exact(m, KEY, 'B', axes, below(m, 2));
  return let(m, (expr){TEXT("%s(%s)", unit, k), axes}, 'T').text;
}

static const char *product(maker *m, variable s) {
  bool complex = is_complex(s.numbers) && chance(m, 60);
  const char *k = complex ? exact(m, KEY, 'Z', s.axes & (HEADS | 1u << K), 1) : key(m, s),
             *v = value(m, s);
  return chance(m, 40) ? TEXT("%s * %s * %s", gate(m, s), k, v) : TEXT("%s * %s", k, v);
}

static const char *before(maker *m, variable s) { return TEXT("%s[t-1]", s.name); }

static void assign(maker *m, variable s, const char *text) {
  statement(m, TEXT("%s = %s", s.name, text));
  for (int i = 0; i < m->variables.count; i++)
    if (m->variables.items[i].name == s.name) m->variables.items[i].assigned = true;
}

static variable partner(maker *m, variable s, unsigned axes) {
  return declare(m, STATE, axes, s.numbers);
}

// ---- kinds of states -------------------------------------------------------------------------

static void affine(maker *m, variable s) {
  const char *d = decay_within(m, s, s.axes);
  assign(m, s, TEXT("%s * %s + %s", d, before(m, s), increment(m, s)));
}

static void outer_product(maker *m, variable s) {
  const char *d = decay(m, s);
  assign(m, s, TEXT("%s * %s + %s", d, before(m, s), product(m, s)));
}

// What was written a step ago, again.
static void two_taps(maker *m, variable s) {
  const char *d = decay(m, s), *k = token(m, INPUT, 'B', s.axes & (HEADS | 1u << K), true).name;
  const char *v = token(m, INPUT, 'B', s.axes & ~(1u << K), true).name;
  assign(m, s, TEXT("%s * %s + %s * %s + 0.5 * %s[t-1] * %s[t-1]", d, before(m, s), k, v, k, v));
}

static void delta(maker *m, variable s) {
  const char *k = unit_key(m, s), *v = value(m, s), *d = decay_within(m, s, HEADS);
  expr e =
      let(m, (expr){TEXT("%s - sum[K](%s * %s)", v, k, before(m, s)), s.axes & ~(1u << K)}, 'X');
  assign(m, s, TEXT("%s * %s + %s * %s * %s", d, before(m, s), gate(m, s), k, e.text));
}

static void delta_of_decayed(maker *m, variable s) {
  const char *d = decay(m, s), *k = unit_key(m, s), *v = value(m, s);
  expr kept = let(m, (expr){TEXT("%s * %s", d, before(m, s)), s.axes}, 'X');
  expr e = let(m, (expr){TEXT("%s - sum[K](%s * %s)", v, k, kept.text), s.axes & ~(1u << K)}, 'X');
  assign(m, s, TEXT("%s + %s * %s * %s", kept.text, gate(m, s), k, e.text));
}

static void erased(maker *m, variable s) {
  const char *k = unit_key(m, s), *other = unit_key(m, s), *d = decay_within(m, s, HEADS),
             *g = gate(m, s);
  const char *rest =
      TEXT("%s * %s - 0.5 * %s * %s * sum[K](%s * %s)", d, before(m, s), g, k, other, before(m, s));
  if (chance(m, 30))
    rest = TEXT("%s - 0.3 * %s * sum[K](%s * %s)", rest, other, other, before(m, s));
  assign(m, s, TEXT("%s + %s", rest, product(m, s)));
}

static void folded(maker *m, variable s) {
  unsigned heads = heads_of(m, s), steps = 1u << J;
  const char *d = decay(m, s), *unit = m->size[K] > 1 ? "normalize[K]" : "tanh";
  expr k = {TEXT("%s(%s)", unit, exact(m, KEY, 'B', heads | steps | 1u << K, 1)),
            heads | steps | 1u << K};
  const char *u = let(m, k, 'T').text, *v = exact(m, KEY, 'B', (s.axes & ~(1u << K)) | steps, 1);
  const char *g = part(m, GATE, 'U', heads | steps, 1).text;
  m->used |= steps;
  assign(m, s,
         TEXT("fold[J](s = %s * %s, s + %s * %s * (%s - sum[K](%s * s)))", d, before(m, s), g, u, v,
              u));
}

static void dense_state(maker *m, variable s) {
  variable w = declare(m, PARAM, (chance(m, 30) ? s.axes & HEADS : 0) | 1u << K | 1u << M, 'B');
  m->used |= 1u << M;
  assign(
      m, s,
      TEXT("0.5 * M^-0.5 * sum[M](%s * %s{K -> M}) + %s", w.name, before(m, s), increment(m, s)));
}

static void delay(maker *m, variable s) {
  assign(m, s, exact(m, UPDATE, is_complex(s.numbers) ? 'Z' : 'A', s.axes, 2));
}

static void maximum(maker *m, variable s) {
  const char *f = part(m, DECAY, 'N', s.axes, 1).text, *x = exact(m, UPDATE, 'A', s.axes, 2);
  assign(m, s, TEXT("%s(%s + %s, %s)", chance(m, 80) ? "max" : "min", f, before(m, s), x));
}

static void average(maker *m, variable s) {
  const char *g = part(m, GATE, 'U', s.axes, 2).text, *x = exact(m, UPDATE, 'A', s.axes, 2);
  assign(m, s, TEXT("%s + %s * (%s - %s)", before(m, s), g, x, before(m, s)));
}

// m = max(f + m[t-1], i), as xLSTM has it.
static void stabilised(maker *m, variable s) {
  unsigned heads = s.axes & HEADS;
  variable top = partner(m, s, heads);
  const char *f = let(m, part(m, DECAY, 'N', heads, 2), 'N').text;
  const char *i = let(m, (expr){exact(m, GATE, 'A', heads, 1), heads}, 'A').text;
  const char *largest = TEXT("max(%s + %s, %s)", f, before(m, top), i);
  assign(m, top, chance(m, 60) ? TEXT("stop_gradient(%s)", largest) : largest);
  const char *x = increment(m, s);
  assign(m, s,
         TEXT("exp(%s + %s - %s) * %s + exp(%s - %s) * %s", f, before(m, top), top.name,
              before(m, s), i, top.name, x));
}

// The maximum so far scales what is summed.
static void own_decay(maker *m, variable s) {
  variable top = partner(m, s, subset(m, s.axes));
  const char *x = let(m, (expr){exact(m, GATE, 'A', top.axes, 2), top.axes}, 'A').text;
  assign(m, top, TEXT("max(%s, %s)", before(m, top), x));
  assign(m, s,
         TEXT("exp(%s - %s) * %s + exp(%s - %s) * %s", before(m, top), top.name, before(m, s), x,
              top.name, increment(m, s)));
}

// A memory and the sum of its keys.
static void normalised(maker *m, variable s) {
  variable n = partner(m, s, s.axes & ~(1u << V));
  const char *d = let(m, part(m, DECAY, 'D', s.axes & HEADS, 2), 'D').text,
             *k = exact(m, KEY, 'B', n.axes, 1);
  assign(m, s, TEXT("%s * %s + %s * %s", d, before(m, s), k, value(m, s)));
  assign(m, n, TEXT("%s * %s + %s", d, before(m, n), k));
}

static void coupled(maker *m, variable s) {
  variable other = partner(m, s, s.axes);
  const char *x = increment(m, s), *how = chance(m, 40) ? "sin" : "";
  assign(m, s, TEXT("0.6 * %s - 0.3 * %s(%s) + %s", before(m, s), how, before(m, other), x));
  const char *from = chance(m, 50) ? s.name : before(m, s), *y = exact(m, UPDATE, 'T', s.axes, 1);
  assign(m, other, TEXT("0.5 * %s + 0.4 * %s + %s", before(m, other), from, y));
}

// Each keeps a share of itself and adds another one. Their axes are the same in different orders.
static void ring(maker *m, variable s) {
  variable all[3] = {s};
  int count = 2 + below(m, 2);
  for (int i = 1; i < count; i++) all[i] = partner(m, s, s.axes);
  for (int i = 0; i < count; i++) {
    const char *d = decay(m, s), *x = i && chance(m, 40) ? "" : TEXT(" + %s", increment(m, s));
    const char *share = part(m, DECAY, 'T', heads_of(m, s), 1).text,
               *next = before(m, all[(i + 1) % count]);
    assign(m, all[i],
           TEXT("0.6 * %s * %s - 0.3 * %s * %s%s", d, before(m, all[i]), share, next, x));
  }
}

// One complex number in two real states.
static void turning(maker *m, variable s) {
  variable other = partner(m, s, s.axes);
  expr r = let(m, part(m, DECAY, 'D', s.axes, 1), 'D'),
       angle = let(m, part(m, DECAY, 'B', s.axes, 1), 'B');
  const char *x = increment(m, s);
  const char *turn[2] = {TEXT("%s * cos(%s) * %s", r.text, angle.text, before(m, s)),
                         TEXT("%s * sin(%s) * %s", r.text, angle.text, before(m, other))};
  assign(m, s, TEXT("%s - %s + %s", turn[0], turn[1], x));
  turn[0] = TEXT("%s * sin(%s) * %s", r.text, angle.text, before(m, s));
  turn[1] = TEXT("%s * cos(%s) * %s", r.text, angle.text, before(m, other));
  assign(m, other, TEXT("%s + %s", turn[0], turn[1]));
}

// A state turned by a matrix of parameters, or by a pair of narrow ones.
static const char *turned(maker *m, variable s) {
  unsigned matrix = (chance(m, 30) ? s.axes & HEADS : 0) | 1u << K | 1u << M;
  m->used |= 1u << M;
  return TEXT("sum[M](%s * %s{K -> M})", declare(m, PARAM, matrix, 'B').name, before(m, s));
}

static void cell(maker *m, variable s) {
  const char *w = chance(m, 60) ? turned(m, s) : before(m, s),
             *x = exact(m, UPDATE, 'X', s.axes, 2);
  assign(m, s, TEXT("tanh(%s + %s)", w, x));
}

static void gru(maker *m, variable s) {
  const char *inner = turned(m, s), *outer = exact(m, GATE, 'X', s.axes, 1);
  const char *z = let(m, (expr){TEXT("sigmoid(%s + %s)", inner, outer), s.axes}, 'U').text;
  const char *kept =
      let(m, (expr){TEXT("%s * %s", part(m, GATE, 'U', s.axes, 1).text, before(m, s)), s.axes}, 'T')
          .text;
  variable w = declare(m, PARAM, 1u << K | 1u << M, 'B');
  const char *x = exact(m, UPDATE, 'X', s.axes, 1);
  assign(m, s,
         TEXT("(1 - %s) * %s + %s * tanh(sum[M](%s * %s{K -> M}) + %s)", z, before(m, s), z, w.name,
              kept, x));
}

static void lstm(maker *m, variable s) {
  variable c = partner(m, s, s.axes);
  const char *inner = turned(m, s), *f = exact(m, GATE, 'X', s.axes, 1),
             *i = exact(m, GATE, 'X', s.axes, 1);
  const char *x = exact(m, UPDATE, 'X', s.axes, 1), *o = exact(m, GATE, 'X', s.axes, 1);
  assign(m, c,
         TEXT("sigmoid(%s + %s) * %s + sigmoid(%s) * tanh(%s)", inner, f, before(m, c), i, x));
  assign(m, s, TEXT("sigmoid(%s) * tanh(%s)", o, c.name));
}

// ---- programs --------------------------------------------------------------------------------

static void choose_axes(maker *m) {
  static const int keys[] = {1, 2, 3, 4, 4, 5, 8, 16}, many[] = {17, 20, 24, 33},
                   values[] = {0, 0, 1, 2, 3, 5, 8, 9}, wide_keys[] = {4, 8, 12, 16},
                   wide_values[] = {8, 8, 16, 24}, wide_others[] = {2, 3, 4, 8};
  for (int i = 0; i < AXES; i++) m->order[i] = i;
  for (int i = 0; i < AXES; i++) {
    int a = below(m, AXES), kept = m->order[a];
    m->order[a] = m->order[i];
    m->order[i] = kept;
  }
  for (int i = G; i <= R; i++) m->size[i] = chance(m, 40) ? 0 : 1 + below(m, 3);
  m->size[K] = m->size[M] = chance(m, 8) ? many[below(m, 4)] : keys[below(m, 8)];
  m->size[V] = values[below(m, 8)];
  m->size[N] = 1 + below(m, 4);
  m->size[J] = 1 + below(m, 3);
  if (chance(m, 15)) {  // several axes of a state that fill vectors
    m->size[K] = m->size[M] = wide_keys[below(m, 4)];
    m->size[V] = wide_values[below(m, 4)];
    m->size[N] = wide_others[below(m, 4)];
    m->size[J] = wide_others[below(m, 4)];
  }
  m->active = 1u << K | ((unsigned)next_random(&m->random) & ALL & ~(1u << M));
  m->active |= 1u << one_of(m, HEADS);
  if (chance(m, 60)) m->active &= ~(1u << one_of(m, HEADS | 1u << N));
}

static unsigned some_axes(maker *m) { return subset(m, m->active); }

static void add_let(maker *m, char kind) {
  enum { MOST_STATEMENTS = 9 };
  unsigned axes = some_axes(m);
  if (m->statements < MOST_STATEMENTS) let(m, part(m, LET, kind, axes, 2), kind);
}

static void add_state(maker *m, int kind) {
  const state_kind *k = &state_kinds[kind];
  bool complex = k->complex && chance(m, 20);
  unsigned axes = k->needs | some_axes(m);
  variable s = declare(m, STATE, axes, complex ? 'Z' : k->numbers);
  m->place = UPDATE;
  record(m, find_construct(k->name));
  k->make(m, s);
}

// A kind with an expression in the wanted place.
static int kind_of_state(maker *m) {
  unsigned wanted = m->target_place <= KEY && is_missing(m) ? 1u << m->target_place : 0;
  int kind;
  int second = m->second - expression_count;
  if (second >= 0 && second < STATE_KINDS && !m->has->places[m->second]) return second;
  do kind = below(m, STATE_KINDS);
  while (wanted & ~state_kinds[kind].has);
  return kind;
}

static expr joined(maker *m, expr a, expr b) {
  static const char *const signs[] = {"+", "+", "-", "*"};
  if (!a.text) return b;
  return (expr){TEXT("%s %s %s", a.text, signs[below(m, 4)], b.text), a.axes | b.axes};
}

// Of a state or a let that no output reads.
static expr unread(maker *m, unsigned allowed) {
  for (int i = 0; i < m->variables.count; i++) {
    variable v = m->variables.items[i];
    if (v.read || (v.kind != STATE && (v.kind != LET_VALUE || v.axes & ~allowed)) || !chance(m, 80))
      continue;
    m->variables.items[i].read = true;
    expr e = v.kind == STATE ? read_of(m, &v, allowed) : (expr){v.name, v.axes};
    if (is_complex(v.numbers)) e.text = TEXT("%s(%s)", chance(m, 50) ? "re" : "im", e.text);
    return e;
  }
  return none;
}

static void add_output(maker *m) {
  bool complex = chance(m, 8);
  unsigned allowed = some_axes(m);
  const variable *s = find(m, 1u << STATE, 'X', 0, ~0u, false);
  if (chance(m, 15)) allowed |= 1u << M;
  if (s && chance(m, 60)) allowed |= s->axes;
  expr e = none, more;
  m->place = OUTPUT;
  while ((more = unread(m, allowed)).text) e = joined(m, e, more);
  if (!e.text || m->insists || chance(m, 60))
    e = joined(m, e,
               part(m, OUTPUT, complex ? 'Z' : 'X', allowed, chance(m, 40) ? 1 : below(m, 4)));
  const char *name = TEXT("y%d", m->names++);
  statement(m, TEXT("%s = %s", name, e.text));
  m->declarations = TEXT("%s  output %s%s%s\n", m->declarations, name, brackets(m, e.axes),
                         complex ? " : complex" : "");
}

static bool lacks_something(const maker *m) {
  bool second = has_places(m->second) && !m->has->places[m->second];
  return second || (m->target_place >= READ && is_missing(m));
}

static void add_statements(maker *m) {
  bool stateless = has_places(m->second) && m->target_place >= LET && chance(m, 30);
  for (int i = below(m, 3); i > 0; i--) add_let(m, "TBAXXPNUZ"[below(m, 9)]);
  for (int i = stateless ? 0 : chance(m, 35) ? 1 : 2; i > 0; i--) {
    add_state(m, kind_of_state(m));
    if (chance(m, 30)) add_let(m, "TBAXNZ"[below(m, 6)]);
  }
  if (m->target_place == LET && is_missing(m)) add_let(m, 'X');
  for (int i = 1 + below(m, 2); i > 0; i--) add_output(m);
  m->insists = true;
  for (int i = 0; i < 2 && lacks_something(m); i++) add_output(m);
}

// An input or a parameter tells each size that is not in the header, and there is an input.
static void tell_sizes(maker *m) {
  unsigned untold = m->used & ~closed(m) & ~(1u << J) & ~m->told;
  bool any = strstr(m->declarations, "  input ");
  if (any && !untold) return;
  variable v = declare(m, INPUT, untold, 'B');
  statement(m, TEXT("let told = %s", v.name));
}

static const char *header(maker *m) {
  const char *text = "";
  if (m->used >> M & 1) m->used |= 1u << K;
  for (int i = 0, later = -1; i < AXES || later >= 0; i++) {
    int axis = i < AXES ? m->order[i] : later;
    if (i >= AXES) later = -1;
    if (!(m->used >> axis & 1)) continue;
    if (axis == M && i < AXES) {  // behind K
      later = M;
      continue;
    }
    const char *size = axis == M ? " = K" : m->size[axis] ? TEXT(" = %d", m->size[axis]) : "";
    text = TEXT("%s%s%c%s", text, *text ? ", " : "", axis_names[axis], size);
  }
  return *text ? TEXT("(%s)", text) : "";
}

char *random_program(arena *memory, uint64_t seed, const char *name, contents *has) {
  contents own = {0};
  maker made = {.memory = memory,
                .random = seed,
                .has = has ? has : &own,
                .name = name,
                .declarations = "",
                .functions = "",
                .body = "",
                .wanted = -1},
        *m = &made;
  prepare();
  *m->has = own;
  choose_axes(m);
  do {
    m->target = below(m, expression_count);
    m->target_place = (place)below(m, PLACES);
  } while (!has_place(m->target, m->target_place));
  m->second = below(m, name_count);
  add_statements(m);
  tell_sizes(m);
  return TEXT("%srecurrence %s%s {\n%s%s}\n", m->functions, name, header(m), m->declarations,
              m->body);
}
