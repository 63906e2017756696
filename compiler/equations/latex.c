// Formulas as LaTeX.
//
//   h_{t} = e^{g_{t}}\, h_{t-1} + \delta_{t}\, B_{t}\, x_{t}
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/equations/formula.h"

// ---- names ----

static bool is_greek(const char *word) {
  static const char *const greek[] = {
      "alpha", "beta",  "gamma", "delta",  "epsilon", "zeta",  "eta", "theta", "kappa", "lambda",
      "mu",    "nu",    "xi",    "pi",     "rho",     "sigma", "tau", "phi",   "chi",   "psi",
      "omega", "Gamma", "Delta", "Lambda", "Sigma",   "Phi",   "Psi", "Omega"};
  for (size_t i = 0; i < sizeof greek / sizeof *greek; i++)
    if (strcmp(word, greek[i]) == 0) return true;
  return false;
}

static char *word_of(arena *a, const char *word) {
  if (is_greek(word)) return arena_printf(a, "\\%s", word);
  if (strlen(word) <= 1) return arena_strdup(a, word);
  return arena_printf(a, "\\mathit{%s}", word);
}

// The letters, then digits and what stands behind the first underscore as a subscript.
static char *latex_name(arena *a, const char *name, const char *index) {
  size_t letters = strlen(name);
  const char *under = strchr(name + 1, '_');
  if (under) letters = (size_t)(under - name);
  while (letters > 1 && isdigit((unsigned char)name[letters - 1])) letters--;
  char *word = word_of(a, arena_printf(a, "%.*s", (int)letters, name));
  const char *rest = name + letters + (name[letters] == '_');
  char *below = arena_strdup(a, "");
  for (const char *c = rest; *c; c++)
    below = *c == '_' ? arena_printf(a, "%s\\_", below) : arena_printf(a, "%s%c", below, *c);
  bool digits = below[strspn(below, "0123456789")] == 0;
  if (*below && !digits) below = arena_printf(a, "\\mathrm{%s}", below);
  const char *comma = *below && index ? "," : "";
  if (!*below && !index) return word;
  return arena_printf(a, "%s_{%s%s%s}", word, below, comma, index ? index : "");
}

// An index is text: names, numbers, + - * <= and the like.
static char *latex_index(arena *a, const char *index) {
  static const struct {
    const char *text, *latex;
  } signs[] = {{"<=", "\\le "}, {">=", "\\ge "},  {"->", "\\to "}, {"==", "="},
               {"*", "\\,"},    {"%", "\\bmod "}, {"{", "\\{"},    {"}", "\\}"}};
  char *out = arena_strdup(a, "");
  for (const char *c = index; *c;) {
    size_t length = 0;
    while (isalnum((unsigned char)c[length]) || c[length] == '_') length++;
    if (length && !isdigit((unsigned char)*c)) {
      out = arena_printf(a, "%s%s", out,
                         latex_name(a, arena_printf(a, "%.*s", (int)length, c), NULL));
      c += length;
      continue;
    }
    size_t s = 0, count = sizeof signs / sizeof *signs;
    while (s < count && strncmp(c, signs[s].text, strlen(signs[s].text)) != 0) s++;
    out =
        s < count ? arena_printf(a, "%s%s", out, signs[s].latex) : arena_printf(a, "%s%c", out, *c);
    c += s < count ? strlen(signs[s].text) : 1;
    if (s < count && *c == ' ') c++;
  }
  return out;
}

// ---- formulas ----

// As in text, but for what brackets and fractions hold together.
static int binding_of(const formula *f) {
  if (f->kind == FORMULA_COMPARE || f->kind == FORMULA_DIVIDE) return BINDS_ATOM;
  return f->kind == FORMULA_OVER ? BINDS_PRODUCT : formula_binding(f);
}

typedef struct writer {
  arena *a;
  FILE *out;
} writer;

static void put_latex_formula(const writer *w, const formula *f, int least);

static void put_latex_number(const writer *w, double number) {
  char text[40];
  snprintf(text, sizeof text, "%.6g", number);
  char *e = strchr(text, 'e');
  if (!e) {
    fputs(text, w->out);
    return;
  }
  fprintf(w->out, "%.*s \\cdot 10^{%d}", (int)(e - text), text, atoi(e + 1));
}

static void put_latex_call(const writer *w, const formula *f) {
  static const char *const known[] = {"exp", "log", "tanh", "sin", "cos", "max", "min"};
  const char *name = NULL;
  if (strcmp(f->name, "sigmoid") == 0) name = "\\sigma";
  if (strcmp(f->name, "log_sigmoid") == 0) name = "\\log\\sigma";
  for (size_t i = 0; i < sizeof known / sizeof *known && !name; i++)
    if (strcmp(f->name, known[i]) == 0) name = arena_printf(w->a, "\\%s", known[i]);
  if (!name) {
    name = arena_strdup(w->a, "");
    for (const char *c = f->name; *c; c++)
      name = arena_printf(w->a, *c == '_' ? "%s\\_" : "%s%c", name, *c);
    name = arena_printf(w->a, "\\operatorname{%s}", name);
  }
  fprintf(w->out, "%s\\left(", name);
  for (int i = 0; i < f->count; i++) {
    if (i) fputs(", ", w->out);
    put_latex_formula(w, f->args[i], BINDS_COMPARISON);
  }
  fputs("\\right)", w->out);
}

static void put_around(const writer *w, const char *before, const formula *f, const char *after) {
  fputs(before, w->out);
  put_latex_formula(w, f, BINDS_COMPARISON);
  fputs(after, w->out);
}

// Functions that have a notation of their own.
static bool put_notation(const writer *w, const formula *f) {
  if (strcmp(f->name, "where") == 0) {
    put_around(w, "\\begin{cases} ", f->args[1], " & \\text{if } ");
    put_around(w, "", f->args[0], " \\\\ ");
    put_around(w, "", f->args[2], " & \\text{else} \\end{cases}");
  } else if (strcmp(f->name, "sqrt") == 0) {
    put_around(w, "\\sqrt{", f->args[0], "}");
  } else if (strcmp(f->name, "rsqrt") == 0) {
    put_around(w, "\\frac{1}{\\sqrt{", f->args[0], "}}");
  } else if (strcmp(f->name, "abs") == 0) {
    put_around(w, "\\left|", f->args[0], "\\right|");
  } else if (strcmp(f->name, "exp") == 0 && f->weight <= 4) {
    put_around(w, "e^{", f->args[0], "}");
  } else {
    return false;
  }
  return true;
}

static void put_latex_over(const writer *w, const formula *f) {
  bool sum = strcmp(f->name, "sum") == 0;
  fprintf(w->out, "%s_{%s} ", sum ? "\\sum" : arena_printf(w->a, "\\operatorname*{%s}", f->name),
          latex_index(w->a, f->index));
  put_latex_formula(w, f->args[0], BINDS_PRODUCT);
}

static void put_two(const writer *w, const formula *f, const char *sign, int left, int right) {
  put_latex_formula(w, f->args[0], left);
  fputs(sign, w->out);
  put_latex_formula(w, f->args[1], right);
}

static bool is_symbol_name(const char *text) {
  for (const char *c = text; *c; c++)
    if (!isalnum((unsigned char)*c) && *c != '_') return false;
  return !isdigit((unsigned char)*text);
}

static void put_symbol(const writer *w, const formula *f) {
  if (!is_symbol_name(f->name)) {  // a place: t/2
    fputs(latex_index(w->a, f->name), w->out);
    return;
  }
  const char *index = f->index ? latex_index(w->a, f->index) : NULL;
  char *name = latex_name(w->a, f->name, index);
  fprintf(w->out, f->gradient ? "\\overline{%s}" : "%s", name);
}

// A sum takes all that follows it: as a left factor it stands in parentheses.
static bool ends_in_sum(const formula *f) {
  while (f->kind == FORMULA_MULTIPLY) f = f->args[1];
  return f->kind == FORMULA_OVER;
}

static void put_bare(const writer *w, const formula *f) {
  switch (f->kind) {
    case FORMULA_NUMBER: put_latex_number(w, f->number); return;
    case FORMULA_SYMBOL: put_symbol(w, f); return;
    case FORMULA_CALL:
      if (!put_notation(w, f)) put_latex_call(w, f);
      return;
    case FORMULA_NEGATE:
      fputc('-', w->out);
      put_latex_formula(w, f->args[0], BINDS_PRODUCT);
      return;
    case FORMULA_ADD: put_two(w, f, " + ", BINDS_SUM, BINDS_SUM); return;
    case FORMULA_SUBTRACT: put_two(w, f, " - ", BINDS_SUM, BINDS_PRODUCT); return;
    case FORMULA_MULTIPLY:
      put_two(w, f, "\\, ", ends_in_sum(f->args[0]) ? BINDS_ATOM : BINDS_PRODUCT, BINDS_PRODUCT);
      return;
    case FORMULA_DIVIDE:
      put_around(w, "\\frac{", f->args[0], "}{");
      put_around(w, "", f->args[1], "}");
      return;
    case FORMULA_POWER:
      put_latex_formula(w, f->args[0], BINDS_ATOM);
      put_around(w, "^{", f->args[1], "}");
      return;
    case FORMULA_COMPARE:
      put_around(w, "[", f->args[0], "");
      fprintf(w->out, " %s ", latex_index(w->a, f->name));
      put_around(w, "", f->args[1], "]");
      return;
    case FORMULA_OVER: put_latex_over(w, f); return;
    case FORMULA_CHANGED:
      put_latex_formula(w, f->args[0], BINDS_ATOM);
      fprintf(w->out, "%s", latex_index(w->a, f->index));
      return;
  }
}

static void put_latex_formula(const writer *w, const formula *f, int least) {
  bool open = binding_of(f) < least;
  if (open) fputs("\\left(", w->out);
  put_bare(w, f);
  if (open) fputs("\\right)", w->out);
}

char *formula_latex(arena *a, const formula *f) {
  text_stream text;
  FILE *out = text_begin(&text);
  put_latex_formula(&(writer){a, out}, f, BINDS_COMPARISON);
  return text_end(&text, a);
}
