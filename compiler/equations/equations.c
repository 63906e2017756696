// The document: the recurrence, its structure, the chunk program and the derived backward.
//
//   recurrence leaky(D)                             the recurrence as the source says it
//     h[t,D] = keep[t] * h[t-1] + ...
//   structure of h: ...                             what linearity found
//     log decay[t,D] = log_sigmoid(f[t])
//   chunk of c = 32 steps ...                       what code is made of
//   backward ...
#include "compiler/equations/equations.h"

#include <string.h>

#include "compiler/base/text.h"
#include "compiler/equations/formula.h"
#include "compiler/schedule/programs.h"

enum { WIDTH = 100 };

typedef struct document {
  arena *a;
  FILE *out;
  equation_style style;
} document;

// ---- lines ----

// Where to break behind `from`: at the sign of a sum in as few brackets as possible, before column
// `width`; 0: nowhere.
static size_t break_at(const char *text, size_t from, size_t width) {
  size_t best = 0;
  int depth = 0, least = 100;
  for (size_t i = from; text[i]; i++) {
    depth += (text[i] == '(' || text[i] == '[') - (text[i] == ')' || text[i] == ']');
    bool sign = text[i] == ' ' && (text[i + 1] == '+' || text[i + 1] == '-') && text[i + 2] == ' ';
    if (i - from >= width && best) break;
    if (!sign || depth > least || i < from + 3) continue;
    best = i;
    least = depth;
  }
  return best;
}

static void put_text_equation(const document *d, const equation *e) {
  char *right = formula_text(d->a, e->right);
  fprintf(d->out, "    %s = ", formula_text(d->a, e->left));
  size_t used = strlen(formula_text(d->a, e->left)) + 7, from = 0;
  while (strlen(right + from) + used > WIDTH) {
    size_t at = break_at(right, from, WIDTH - used);
    if (!at) break;
    fprintf(d->out, "%.*s\n      ", (int)(at - from), right + from);
    from = at;
    used = 6;
  }
  fprintf(d->out, "%s\n", right + from);
}

enum { LINE_WEIGHT = 24 };  // symbols in a line of LaTeX

// A sum term by term, in lines.
static void put_latex_terms(const document *d, const formula *f, const char *sign, int *used) {
  bool sum = f->kind == FORMULA_ADD || f->kind == FORMULA_SUBTRACT;
  bool flat = sum && strcmp(sign, "-") != 0;
  if (flat) {
    put_latex_terms(d, f->args[0], sign, used);
    put_latex_terms(d, f->args[1], f->kind == FORMULA_ADD ? "+" : "-", used);
    return;
  }
  const char *form = sum ? "\\left(%s\\right)" : "%s";
  if (*used && *used + f->weight > LINE_WEIGHT) {
    fputs(" \\\\\n    &\\quad ", d->out);
    *used = 0;
  }
  fprintf(d->out, *sign ? " %s " : "%s ", sign);
  fprintf(d->out, form, formula_latex(d->a, f));
  *used += f->weight;
}

static void put_latex_equation(const document *d, const equation *e, bool last) {
  int used = 0;
  const char *axes = e->left->count ? e->left->args[0]->axes : e->left->axes;
  fprintf(d->out, "  %s &=", formula_latex(d->a, e->left));
  put_latex_terms(d, e->right, "", &used);
  if (axes) fprintf(d->out, " && \\text{\\scriptsize $[\\mathit{%s}]$}", axes);
  fprintf(d->out, "%s\n", last ? "" : " \\\\");
}

static void put_equations(const document *d, const equation_list *list) {
  if (list->count && d->style == EQUATIONS_LATEX) fputs("\\begin{align*}\n", d->out);
  for (int i = 0; i < list->count; i++)
    if (d->style == EQUATIONS_TEXT)
      put_text_equation(d, &list->items[i]);
    else
      put_latex_equation(d, &list->items[i], i + 1 == list->count);
  if (list->count && d->style == EQUATIONS_LATEX) fputs("\\end{align*}\n", d->out);
}

// Text with what LaTeX gives a meaning behind a backslash.
static const char *prose(const document *d, const char *text) {
  if (d->style == EQUATIONS_TEXT) return text;
  const char *out = "";
  for (const char *c = text; *c; c++) {
    bool special = strchr("_%&#${}", *c) != NULL;
    if (*c == '<' || *c == '>')
      out = arena_printf(d->a, "%s$%c$", out, *c);
    else if (*c == '^' || *c == '~' || *c == '\\')
      out = arena_printf(d->a, "%s\\char`\\%c{}", out, *c);
    else
      out = arena_printf(d->a, "%s%s%c", out, special ? "\\" : "", *c);
  }
  return out;
}

static void put_heading(const document *d, int level, const char *text) {
  if (d->style == EQUATIONS_TEXT)
    fprintf(d->out, level ? "\n  %s\n" : "%s\n", text);
  else
    fprintf(d->out, "\n\\%s*{%s}\n", level ? "subsection" : "section", prose(d, text));
}

static void put_line(const document *d, const char *text) {
  fprintf(d->out, d->style == EQUATIONS_TEXT ? "  %s\n" : "%s\n", prose(d, text));
}

// ---- parts ----

static const char *equation_header(arena *a, const typed_body *body) {
  const char *text = arena_printf(a, "recurrence %s", body->name);
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "(", axis->name);
    if (axis->size >= 0) text = arena_printf(a, "%s = %lld", text, (long long)axis->size);
  }
  return body->axes.count ? arena_printf(a, "%s)", text) : text;
}

static void put_declarations(const document *d, const typed_body *body) {
  static const char *const words[] = {"input ", "param ", "state ", "output"};
  for (int kind = 0; kind < 4; kind++) {
    const char *line = "";
    vec_each(const typed_tensor, t, body->tensors) {
      if ((int)t->kind != kind) continue;
      line = arena_printf(d->a, "%s%s%s", line, *line ? ", " : "", t->name);
      for (int x = 0; x < t->axis_count; x++)
        line = arena_printf(d->a, "%s%s%s", line, x ? "," : "[", body->axes.items[t->axes[x]].name);
      line = arena_printf(d->a, "%s%s%s", line, t->axis_count ? "]" : "",
                          t->complex ? " : complex" : "");
      if (t->begin) line = arena_printf(d->a, "%s from %s", line, begin_text(d->a, body, t));
    }
    if (*line) put_line(d, arena_printf(d->a, "%s %s", words[kind], line));
    if (*line && d->style == EQUATIONS_LATEX) fputs("\n", d->out);
  }
}

static const formula *state_symbol(const document *d, const char *name, const char *index) {
  return formula_symbol(d->a, name, index);
}

// state = decay * state before + increment, in the names of the parts.
static equation update_equation(const document *d, const typed_tensor *t, const state_structure *s,
                                const char *decay, const char *increment) {
  const formula *before = state_symbol(d, t->name, "t-1"), *x = before;
  if (s->decay != NO_VALUE) {
    const formula *factor = formula_symbol(d->a, decay, "t");
    if (s->log_decay != NO_VALUE) factor = formula_call(d->a, "exp", &factor, 1);
    x = formula_binary(d->a, FORMULA_MULTIPLY, factor, before);
  }
  if (s->class == STATE_LOW_RANK)
    x = formula_binary(d->a, FORMULA_ADD, x, formula_symbol(d->a, "low_rank", "t"));
  if (s->increment != NO_VALUE)
    x = formula_binary(d->a, FORMULA_ADD, x, formula_symbol(d->a, increment, "t"));
  return (equation){state_symbol(d, t->name, "t"), x};
}

static const char *free_name(const document *d, const typed_body *body, const char *name) {
  for (int number = 1;; number++) {
    const char *tried = number == 1 ? name : arena_printf(d->a, "%s%d", name, number);
    bool taken = false;
    for (int i = 0; i < body->tensors.count; i++)
      taken |= strcmp(body->tensors.items[i].name, tried) == 0;
    for (int i = 0; i < body->values.count; i++)
      taken |= body->values.items[i].name && strcmp(body->values.items[i].name, tried) == 0;
    if (!taken) return tried;
  }
}

static bool has_parts(const state_structure *s) {
  return s->class == STATE_SCALAR_DECAY || s->class == STATE_AXIS_DECAY ||
         s->class == STATE_ELEMENTWISE || s->class == STATE_LOW_RANK;
}

static void put_state_equation(const document *d, const typed_body *body, const typed_tensor *t,
                               const state_structure *s) {
  if (!has_parts(s)) return;
  const char *decay = free_name(d, body, s->log_decay != NO_VALUE ? "g" : "a");
  const char *increment = free_name(d, body, "w");
  equation_list list = {0};
  vec_push(d->a, &list, update_equation(d, t, s, decay, increment));
  equation_part parts[2];
  int count = 0;
  if (s->decay != NO_VALUE)
    parts[count++] = (equation_part){decay, s->log_decay != NO_VALUE ? s->log_decay : s->decay};
  if (s->increment != NO_VALUE) parts[count++] = (equation_part){increment, s->increment};
  equation_list rest = equations_of_parts(d->a, body, parts, count);
  for (int i = 0; i < rest.count; i++) vec_push(d->a, &list, rest.items[i]);
  put_equations(d, &list);
}

static void put_structure(const document *d, const recurrence *r) {
  const char *report = recurrence_report(d->a, NULL, r), *line = strchr(report, '\n');
  if (!r->states.count) return;
  put_heading(d, 1, "structure");
  for (int i = 0, next = 0; i < r->body.tensors.count && line; i++) {
    const typed_tensor *t = &r->body.tensors.items[i];
    if (t->kind != TENSOR_STATE) continue;
    const char *begin = line + 1 + strspn(line + 1, " ");
    line = strchr(begin, '\n');
    put_line(d, arena_printf(d->a, "%.*s", (int)(line - begin), begin));
    while (line && strncmp(line + 1, "    ", 4) == 0) line = strchr(line + 1, '\n');
    put_state_equation(d, &r->body, t, &r->states.items[next++]);
  }
}

static void put_programs(const document *d, const tile_program *forward, const char *what,
                         const char *note) {
  put_heading(d, 1, what);
  if (note) put_line(d, note);
  const tile_program *values = program_rewritten(d->a, PROGRAM_VALUES, forward);
  equation_list list = equations_of_program(d->a, values, NULL);
  put_equations(d, &list);
  const tile_program *backward = program_rewritten(d->a, PROGRAM_BACKWARD, forward);
  put_heading(d, 1,
              forward->form == TILE_CHUNK
                  ? "backward of the chunk, from the last chunk to the first"
                  : "backward of the step, from the last step to the first");
  put_line(d,
           d->style == EQUATIONS_TEXT
               ? "d.x is the gradient of the loss by x; names without an equation are those above"
               : "a bar marks the gradient of the loss; names without an equation are those above");
  list = equations_of_program(d->a, backward, values);
  put_equations(d, &list);
}

// Decays that are no masks are multiplied level by level, over 1, 2, 4, .. steps: two levels tell
// how.
enum { TWO_LEVELS = 4 };

static void put_forms(const document *d, const recurrence *r, int length) {
  const char *reason = "";
  const tile_program *chunk = program_of_length(d->a, PROGRAM_CHUNK, r, length, &reason);
  bool refused = r->states.count && !chunk;
  bool levels = chunk && tile_has_op(chunk, TILE_SPLIT);
  if (levels) chunk = program_of_length(d->a, PROGRAM_CHUNK, r, length = TWO_LEVELS, &reason);
  if (chunk && !tile_has_op(chunk, TILE_DOT)) {
    chunk = NULL;
    reason = "chunks would be scans without products";
  }
  if (r->states.count && chunk) {
    const char *note =
        levels ? "steps t, s, j from 0; longer chunks repeat the levels; index 0 of a state: "
                 "before the chunk, index c: after it"
               : "steps t, s, j = 1 .. c; index 0: before the chunk, index c: after it";
    put_programs(d, chunk, arena_printf(d->a, "chunk of c = %d steps", length), note);
    return;
  }
  const char *why = r->states.count ? arena_printf(d->a, "no chunked form: %s", reason) : NULL;
  const tile_program *on_host =
      refused ? program_of_length(d->a, PROGRAM_HOST_CHUNK, r, length, &reason) : NULL;
  if (on_host && tile_has_op(on_host, TILE_DOT))
    why = "chunks, on the host alone, make these steps in order between products of all of them";
  put_programs(d, program_of(d->a, PROGRAM_STEP, r), "step", why);
}

char *equations_print(arena *a, const typed_body *written, const recurrence *r, int chunk,
                      equation_style style) {
  text_stream text;
  document d = {.a = a, .out = text_begin(&text), .style = style};
  const typed_body *body = written ? written : &r->body;
  put_heading(&d, 0, equation_header(a, body));
  put_declarations(&d, body);
  if (style == EQUATIONS_TEXT) fputc('\n', d.out);
  equation_list list = equations_of_body(a, body);
  put_equations(&d, &list);
  put_structure(&d, r);
  put_forms(&d, r, chunk);
  return text_end(&text, a);
}

const char *equations_begin(equation_style style) {
  if (style == EQUATIONS_TEXT) return "";
  return "\\documentclass{article}\n"
         "\\usepackage[a4paper,landscape,margin=15mm]{geometry}\n"
         "\\usepackage{amsmath}\n"
         "\\allowdisplaybreaks\n"
         "\\setlength{\\parindent}{0pt}\n"
         "\\begin{document}\n";
}

const char *equations_end(equation_style style) {
  return style == EQUATIONS_TEXT ? "" : "\\end{document}\n";
}
