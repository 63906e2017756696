// `--emit=tokens`: the tokens of a file, one a line: `LINE:COLUMN KIND lexeme`, then what hangs on
// it.
#include "compiler/syntax/syntax.h"
#include "compiler/syntax/token.h"

void print_tokens(FILE *out, arena *a, diag *d, const source *s) {
  token_stream stream = lex_source(a, interner_new(a), d, s);
  vec_each(const token, t, stream.tokens) {
    source_position at = source_locate(s, t->span.begin);
    fprintf(out, "%d:%d %s", at.line, at.column, token_kind_name(t->kind));
    if (t->kind != 0)
      fprintf(out, " %.*s", (int)(t->span.end - t->span.begin), s->text + t->span.begin);
    if (t->doc) fputs("  /// documented", out);
    fputc('\n', out);
    if (t->complaint) diag_error(d, t->span, "%s", t->complaint);
    if (t->hint) diag_error(d, t->span, "this is no token of the language; %s", t->hint);
  }
  vec_each(const comment, c, stream.comments) {
    source_position at = source_locate(s, c->span.begin);
    fprintf(out, "%d:%d comment %.*s\n", at.line, at.column, (int)(c->span.end - c->span.begin),
            s->text + c->span.begin);
  }
}
