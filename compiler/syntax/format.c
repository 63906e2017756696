// `rec fmt`: the standard layout of a program. It works on the tokens and the comments, so no
// comment can be lost; the parser has told where statements start.
//
//   recurrence r(D){input x[D] state h[D]          recurrence r(D) {
//   output y[D] // the answer                        input  x[D]
//   h=x+h[t-1] y=h}                                  state  h[D]
//                                                    output y[D]  // the answer
//                                                    h = x + h[t-1]
//                                                    y = h
//                                                  }
//
// A statement starts a line. Line breaks inside statements and between settings are the author's,
// indented. At most one blank line is kept, and one stands between items. Formatting what has been
// formatted changes nothing.
#include "compiler/syntax/format.h"

#include <string.h>

#include "compiler/syntax/parser.h"
#include "compiler/syntax/syntax.h"

enum { INDENT = 2, CONTINUATION = 4 };

typedef struct formatter {
  parse p;
  comments comments;
  int next_comment;
  lines lines;
  VEC(char) text;  // of the line that is being written
  line current;
  bool open;  // a line is being written
  VEC(bracket) brackets;
  int item;      // TK_RECURRENCE ...: the item that is being written
  uint32_t end;  // where the last token or comment ended in the source
} formatter;

static const token *token_at(const formatter *f, int i) { return &f->p.tokens.items[i]; }

static bracket innermost(const formatter *f) {
  if (f->brackets.count == 0) return (bracket){.kind = BRACKET_PLAIN};
  return f->brackets.items[f->brackets.count - 1];
}

static int block_depth(const formatter *f) {
  int depth = 0;
  for (int i = 0; i < f->brackets.count; i++) depth += f->brackets.items[i].breaks;
  return depth;
}

// ---- lines --------------------------------------------------------------------------------------

static void put_source_text(formatter *f, const char *text, size_t length) {
  for (size_t i = 0; i < length; i++) vec_push(f->p.memory, &f->text, text[i]);
}

static void put_spaces(formatter *f, int count) {
  for (int i = 0; i < count; i++) put_source_text(f, " ", 1);
}

static void end_line(formatter *f) {
  if (!f->open) return;
  vec_push(f->p.memory, &f->text, 0);
  f->current.text = f->text.items;
  vec_push(f->p.memory, &f->lines, f->current);
  f->open = false;
}

// Are there two line ends or more in the source between what was written last and this place?
static bool blank_line_before(const formatter *f, uint32_t begin) {
  int newlines = 0;
  for (uint32_t i = f->end; i < begin; i++) newlines += f->p.source->text[i] == '\n';
  return newlines >= 2;
}

static void start_line(formatter *f, int indent, uint32_t begin, bool after_open) {
  end_line(f);
  f->text.items = NULL;
  f->text.count = f->text.capacity = 0;
  f->current = (line){.indent = indent};
  f->current.blank_before = f->lines.count > 0 && !after_open && blank_line_before(f, begin);
  f->open = true;
}

// ---- where a line breaks ------------------------------------------------------------------------

static bool follows_open_block(const formatter *f, int i) {
  return i > 0 && token_at(f, i - 1)->kind == TK_LC && innermost(f).breaks;
}

static bool breaks_before(const formatter *f, int i) {
  const token *t = token_at(f, i);
  bracket in = innermost(f);
  if (i == 0 || follows_open_block(f, i)) return true;
  if (t->kind == TK_RC && in.breaks) return true;
  if (t->kind == TK_LC || t->kind == TK_COMMA) return false;
  if (f->p.starts[i]) {
    if (f->brackets.count == 0) return true;
    if (in.kind == BRACKET_ITEM) return f->item != TK_TRAIN || t->first_on_line;
    if (in.kind == BRACKET_BLOCK && in.breaks) return true;
  }
  return t->first_on_line;
}

static int indent_of(const formatter *f, int i) {
  const token *t = token_at(f, i);
  bracket in = innermost(f);
  int depth = block_depth(f);
  if (t->kind == TK_RC && in.breaks) return INDENT * (depth - 1);
  if (is_closing(t->kind)) return INDENT * depth;
  bool fresh = f->p.starts[i] || follows_open_block(f, i) || i == 0 || t->kind == 0 ||
               (in.breaks && token_at(f, i - 1)->kind == TK_COMMA);
  return INDENT * depth + (fresh ? 0 : CONTINUATION);
}

// ---- comments -----------------------------------------------------------------------------------

static const char *comment_text(const formatter *f, const comment *c) {
  return arena_strndup(f->p.memory, f->p.source->text + c->span.begin, c->span.end - c->span.begin);
}

// A comment before token i. One behind a token ends its line; one of its own line stands where the
// token would.
static void put_source_comment(formatter *f, const comment *c, int i) {
  if (!c->own_line && f->open && !f->current.comment) {
    f->current.comment = comment_text(f, c);
  } else {
    bool closes = token_at(f, i)->kind == TK_RC && innermost(f).breaks;
    int indent = closes ? INDENT * block_depth(f) : indent_of(f, i);
    start_line(f, indent, c->span.begin,
               follows_open_block(f, i) && !f->current.comment && f->current.class != LINE_COMMENT);
    const char *text = comment_text(f, c);
    put_source_text(f, text, strlen(text));
    f->current.class = LINE_COMMENT;
  }
  f->end = c->span.end;
}

// Writes the comments before token i; true if the line must end after them.
static bool put_comments(formatter *f, int i) {
  bool any = false;
  while (f->next_comment < f->comments.count && f->comments.items[f->next_comment].next <= i) {
    put_source_comment(f, &f->comments.items[f->next_comment++], i);
    any = true;
  }
  return any;
}

// ---- tokens -------------------------------------------------------------------------------------

// What kind of line token i starts.
static line_class line_class_of(const formatter *f, int i) {
  const token *t = token_at(f, i);
  if (!f->p.starts[i] && !(follows_open_block(f, i) && f->item == TK_TRAIN)) return LINE_OTHER;
  if (t->kind == TK_LET) return token_at(f, i + 1)->kind == TK_LP ? LINE_OTHER : LINE_LET;
  if (is_statement_word(t->kind)) return LINE_DECLARATION;
  if (f->item == TK_INIT) return LINE_START;
  if (f->item == TK_TRAIN) return innermost(f).kind == BRACKET_ITEM ? LINE_SETTING : LINE_ENTRY;
  return t->kind == TK_NAME && f->item != TK_EVALUATE ? LINE_ASSIGN : LINE_OTHER;
}

// Remembers the sign that this line's neighbours may share a column with.
static void note_sign(formatter *f, const token *t) {
  line *l = &f->current;
  if (l->sign || !l->class) return;
  bracket in = innermost(f);
  bool top = in.kind == BRACKET_ITEM || (in.kind == BRACKET_BLOCK && in.breaks);
  bool wanted = (l->class == LINE_DECLARATION && t->kind == TK_TILDE) ||
                ((l->class == LINE_LET || l->class == LINE_ASSIGN) && t->kind == TK_ASSIGN) ||
                (l->class == LINE_START && t->kind == TK_TILDE) ||
                (l->class == LINE_ENTRY && t->kind == TK_COLON);
  if (top && wanted) l->sign = f->text.count;
}

static void open_bracket(formatter *f, int i) {
  const token *t = token_at(f, i);
  bracket b = {.kind = bracket_kind_at(&f->p.tokens, i)};
  if (t->kind == TK_LC && f->brackets.count == 0 && b.kind == BRACKET_BLOCK && f->item != TK_FN) {
    b = (bracket){.kind = BRACKET_ITEM, .breaks = true};
  } else if (b.kind == BRACKET_BLOCK) {
    bool comment_follows =
        f->next_comment < f->comments.count && f->comments.items[f->next_comment].next == i + 1;
    b.breaks = token_at(f, i + 1)->first_on_line || comment_follows;
  }
  vec_push(f->p.memory, &f->brackets, b);
}

static void put_token(formatter *f, int i, bool must_break) {
  const token *t = token_at(f, i);
  if (f->p.starts[i] && f->brackets.count == 0) f->item = t->kind;
  bool breaks = must_break || breaks_before(f, i);
  if (breaks) {
    bool after_open =
        (follows_open_block(f, i) || (t->kind == TK_RC && innermost(f).breaks)) && !must_break;
    bool closes = t->kind == TK_RC && innermost(f).breaks;
    line_class class = line_class_of(f, i);
    start_line(f, indent_of(f, i), t->span.begin, after_open || closes);
    f->current.class = class;
    f->current.starts_item = f->p.starts[i] && f->brackets.count == 0;
  } else {
    place where = {.inside = innermost(f).kind, .in_train = f->item == TK_TRAIN};
    put_spaces(f, spaces_before(&f->p, i, where));
  }
  note_sign(f, t);
  put_source_text(f, f->p.source->text + t->span.begin, t->span.end - t->span.begin);
  if (breaks && (f->current.class == LINE_DECLARATION || f->current.class == LINE_SETTING))
    f->current.word_end = f->text.count;
  if (is_opening(t->kind)) open_bracket(f, i);
  if (is_closing(t->kind)) f->brackets.count--;
  f->end = t->span.end;
}

// ---- the whole ----------------------------------------------------------------------------------

static bool is_one_line_item(const formatter *f, int i) {
  const char *text = f->lines.items[i].text;
  return strncmp(text, "import ", 7) == 0 || strncmp(text, "fn ", 3) == 0;
}

// One blank line before each item (before the comments that belong to it); imports and functions
// may stand together.
static void separate_items(formatter *f) {
  for (int i = 1; i < f->lines.count; i++) {
    line *l = &f->lines.items[i];
    if (!l->starts_item) continue;
    int first = i;
    while (first > 0 && f->lines.items[first - 1].class == LINE_COMMENT &&
           !f->lines.items[first].blank_before) {
      first--;
    }
    bool together =
        is_one_line_item(f, i) && f->lines.items[i - 1].starts_item && is_one_line_item(f, i - 1);
    if (first > 0 && !together) f->lines.items[first].blank_before = true;
  }
}

static char *join_lines(formatter *f) {
  f->text.items = NULL;
  f->text.count = f->text.capacity = 0;
  vec_each(const line, l, f->lines) {
    if (l->blank_before) put_source_text(f, "\n", 1);
    put_spaces(f, l->indent);
    put_source_text(f, l->text, strlen(l->text));
    if (l->comment) put_source_text(f, l->comment, strlen(l->comment));
    put_source_text(f, "\n", 1);
  }
  vec_push(f->p.memory, &f->text, 0);
  return f->text.items;
}

char *format_source(arena *a, interner *names, diag *d, const source *s) {
  int errors_before = diag_error_count(d);
  token_stream stream = lex_source(a, names, d, s);
  formatter f = {.comments = stream.comments};
  f.p = parse_all(a, names, d, s, stream);
  if (diag_error_count(d) > errors_before) return NULL;
  for (int i = 0; i < f.p.tokens.count; i++) {
    bool must_break = put_comments(&f, i);
    if (token_at(&f, i)->kind != 0) put_token(&f, i, must_break);
  }
  end_line(&f);
  separate_items(&f);
  align_lines(a, &f.lines);
  return join_lines(&f);
}
