// Formulas as text, in the notation of the language.
//
//   h[t] = exp(g[t]) * h[t-1] + delta[t] * B[t] * x[t]
#include "compiler/base/text.h"
#include "compiler/equations/formula.h"

static void put_formula_text(FILE *out, const formula *f, int least);

static void put_two(FILE *out, const formula *f, const char *sign, int left, int right) {
  put_formula_text(out, f->args[0], left);
  fputs(sign, out);
  put_formula_text(out, f->args[1], right);
}

static void put_call_arguments(FILE *out, const formula *f) {
  fputc('(', out);
  for (int i = 0; i < f->count; i++) {
    if (i) fputs(", ", out);
    put_formula_text(out, f->args[i], BINDS_COMPARISON);
  }
  fputc(')', out);
}

static void put_bare(FILE *out, const formula *f) {
  switch (f->kind) {
    case FORMULA_NUMBER: fprintf(out, "%.6g", f->number); return;
    case FORMULA_SYMBOL:
      fprintf(out, "%s%s", f->gradient ? "d." : "", f->name);
      if (f->index || f->axes)
        fprintf(out, "[%s%s%s]", f->index ? f->index : "", f->index && f->axes ? "," : "",
                f->axes ? f->axes : "");
      return;
    case FORMULA_CALL:
      fputs(f->name, out);
      put_call_arguments(out, f);
      return;
    case FORMULA_NEGATE:
      fputc('-', out);
      put_formula_text(out, f->args[0], BINDS_PRODUCT);
      return;
    case FORMULA_ADD: put_two(out, f, " + ", BINDS_SUM, BINDS_SUM); return;
    case FORMULA_SUBTRACT: put_two(out, f, " - ", BINDS_SUM, BINDS_PRODUCT); return;
    case FORMULA_MULTIPLY: put_two(out, f, " * ", BINDS_PRODUCT, BINDS_PRODUCT); return;
    case FORMULA_DIVIDE: put_two(out, f, " / ", BINDS_PRODUCT, BINDS_POWER); return;
    case FORMULA_POWER: put_two(out, f, "^", BINDS_ATOM, BINDS_ATOM); return;
    case FORMULA_COMPARE:
      put_formula_text(out, f->args[0], BINDS_SUM);
      fprintf(out, " %s ", f->name);
      put_formula_text(out, f->args[1], BINDS_SUM);
      return;
    case FORMULA_OVER:
      fprintf(out, "%s[%s]", f->name, f->index);
      put_call_arguments(out, f);
      return;
    case FORMULA_CHANGED:
      put_formula_text(out, f->args[0], BINDS_ATOM);
      fputs(f->index, out);
      return;
  }
}

static void put_formula_text(FILE *out, const formula *f, int least) {
  bool open = formula_binding(f) < least;
  if (open) fputc('(', out);
  put_bare(out, f);
  if (open) fputc(')', out);
}

char *formula_text(arena *a, const formula *f) {
  text_stream text;
  FILE *out = text_begin(&text);
  put_formula_text(out, f, BINDS_COMPARISON);
  return text_end(&text, a);
}
