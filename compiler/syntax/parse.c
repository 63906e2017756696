// The driver of the parser: text to tree, with all syntax errors of the file in one run.
//
// Before a token is fed, the tables are asked whether it fits (parser_state.h). The parser has not
// yet reduced then, so the expected tokens are known exactly. If it does not fit, three things are
// tried. A usual mistake has words of its own (mistakes.c). Otherwise simulation looks for the
// smallest repair (repair.c), which the hint names and the parser applies. Otherwise the statement
// is given up.
#include "compiler/syntax/parse.h"

#include "compiler/base/ice.h"
#include "compiler/syntax/parser.h"
#include "compiler/syntax/syntax.h"

enum {
  NESTING_MAX = 200,       // brackets inside each other
  MISTAKES_MAX = 1000,     // reported or not: what has more is no program
  ROUNDS_MAX = 64,         // at one token
  STACK_DEPTH_MAX = 8000,  // chains of prefix operators, which need no bracket
};

const token *peek(const parse *p, int offset) {
  int index = p->at + offset;
  if (index < 0) index = 0;
  if (index >= p->tokens.count) index = p->tokens.count - 1;
  return &p->tokens.items[index];
}

bool fits(const parse *p, int kind) {
  trial t = parser_try(p->parser);
  return trial_accepts(&t, kind);
}

bool fits2(const parse *p, int first, int second) {
  trial t = parser_try(p->parser);
  return trial_accepts(&t, first) && (second == TK_NONE || trial_accepts(&t, second));
}

void feed(parse *p, int kind, const token *t) {
  parser_feed(p->parser, kind, t, &p->builder);
  if (kind != TK_JUNK) p->fed++;
}

void feed_invented(parse *p, int kind) {
  token *t = ARENA_NEW(p->memory, token);
  span where = peek(p, 0)->span;
  where.end = where.begin;
  const char *text = kind == TK_NAME ? "?" : kind == TK_STRING ? "" : "0";
  *t = (token){.kind = kind, .span = where, .text = intern(p->names, text)};
  feed(p, kind, t);
}

bool is_opening(int kind) { return kind == TK_LP || kind == TK_LB || kind == TK_LC; }
bool is_closing(int kind) { return kind == TK_RP || kind == TK_RB || kind == TK_RC; }

bracket_counts count_brackets(const parse *p) {
  bracket_counts open = {0};
  int closed = 0;
  // From the top: a closing bracket there pairs with the next opening one below, which has not been
  // reduced yet.
  for (int i = parser_depth(p->parser) - 1; i >= 0; i--) {
    const token *t = parser_stack_token(p->parser, i);
    if (!t) continue;
    if (is_closing(t->kind)) {
      closed++;
    } else if (is_opening(t->kind)) {
      if (closed > 0) {
        closed--;
        continue;
      }
      if (open.all++ == 0) open.innermost = t;
      if (t->kind == TK_LC) open.braces++;
    }
  }
  return open;
}

bool is_item_word(int kind) {
  return kind == TK_RECURRENCE || kind == TK_LAYER || kind == TK_MODEL || kind == TK_FN ||
         kind == TK_INIT || kind == TK_TRAIN || kind == TK_EVALUATE || kind == TK_IMPORT;
}

bool is_statement_word(int kind) {
  return kind == TK_LET || kind == TK_INPUT || kind == TK_PARAM || kind == TK_STATE ||
         kind == TK_OUTPUT;
}

bool is_comparison(int kind) {
  return kind == TK_LT || kind == TK_LE || kind == TK_GT || kind == TK_GE || kind == TK_EQ;
}

bool is_operator(int kind) {
  return kind == TK_PLUS || kind == TK_MINUS || kind == TK_STAR || kind == TK_SLASH ||
         kind == TK_CARET || is_comparison(kind);
}

bool is_punctuation(int kind) {
  const char *spelling = token_kind_spelling(kind);
  return spelling && !(spelling[0] >= 'a' && spelling[0] <= 'z');
}

int current_item(const parse *p) {
  for (int i = 0; i < parser_depth(p->parser); i++) {
    const token *t = parser_stack_token(p->parser, i);
    if (t) return is_item_word(t->kind) ? t->kind : TK_NONE;
  }
  return TK_NONE;
}

bool starts_statement(const parse *p, int index) {
  const token *t = &p->tokens.items[index];
  if (is_statement_word(t->kind)) return true;
  return t->kind == TK_NAME && t->first_on_line && index + 1 < p->tokens.count &&
         t[1].kind == TK_ASSIGN;
}

// ---- what is remembered about the place in the program ------------------------------------------

static bool within_settings(const parse *p) { return fits(p, TK_MODEL) && !fits(p, TK_FN); }

static bool is_word_or_number(int kind) {
  return kind == TK_NAME || kind == TK_INT || kind == TK_FLOAT || kind == TK_PERCENT;
}

// Is the next token, which fits, the first of a statement, setting, entry or item?
static bool is_start(const parse *p, const token *t) {
  int item = current_item(p);
  if (item == TK_NONE) return is_item_word(t->kind);
  if (is_item_word(t->kind) && fits(p, TK_FN)) return !fits(p, TK_LET);  // not a step of a path
  if (is_statement_word(t->kind)) return fits(p, TK_LET) && !fits(p, TK_FN);
  if (item == TK_TRAIN && fits(p, TK_PERCENT) && !fits(p, TK_STRING))
    return is_word_or_number(t->kind) && peek(p, -1)->kind != TK_DOTDOT;  // an entry
  if (within_settings(p)) return t->kind == TK_NAME || t->kind == TK_MODEL || t->kind == TK_INIT;
  if (t->kind != TK_NAME) return false;
  // An expression never continues with a name; but the body of a repeat may be one.
  if (fits(p, TK_LET) && !fits(p, TK_FN)) return !fits(p, TK_INT) || peek(p, 1)->kind == TK_ASSIGN;
  return fits(p, TK_RC) && (item == TK_INIT || item == TK_EVALUATE);
}

static void note_place(parse *p, const token *t) {
  bool start = is_start(p, t);
  p->starts[p->at] = start;
  if (!start) return;
  p->statement = p->at;
  p->setting = within_settings(p) ? p->at : -1;
}

// A line that begins with `-` or `(` continues the line above, which surprises where it is not
// indented.
static void warn_of_continuation(parse *p, const token *t) {
  if (!t->first_on_line || (t->kind != TK_MINUS && t->kind != TK_LP) || p->statement < 0) return;
  const token *first = &p->tokens.items[p->statement];
  if (!first->first_on_line) return;
  uint32_t indent = source_indent(p->source, t->span.begin);
  if (indent != source_indent(p->source, first->span.begin)) return;
  diag_warning(p->diag, t->span,
               "this line continues the statement above it; indent it to show that");
}

// ---- the loop -----------------------------------------------------------------------------------

static void take_parsed_token(parse *p) {
  const token *t = peek(p, 0);
  note_place(p, t);
  warn_of_continuation(p, t);
  feed(p, t->kind, t);
  p->at++;
}

static const char *not_closed(const parse *p, const token *bracket) {
  source_position at = source_locate(p->source, bracket->span.begin);
  return arena_printf(p->memory, "'%s' at %d:%d is not closed", token_kind_spelling(bracket->kind),
                      at.line, at.column);
}

static const char *repair_hint(const parse *p, repair r) {
  const token *innermost = count_brackets(p).innermost;
  const token *found = peek(p, 0);
  switch (r.action) {
    case REPAIR_INSERT:
      if (is_closing(r.kind) && innermost) return not_closed(p, innermost);
      if (r.kind == TK_NAME) return NULL;
      if (is_operator(r.kind)) {
        trial t = parser_try(p->parser);
        bool comma = trial_accepts(&t, TK_COMMA) && count_fitting(p, t, p->at) == r.score;
        return comma ? "is ',' or an operator missing before it?"
                     : "is an operator missing before it?";
      }
      return arena_printf(p->memory, "is %s missing before it?", kind_text(p, r.kind));
    case REPAIR_REPLACE:
      if (r.kind == TK_NAME) return "it is a reserved word";
      return arena_printf(p->memory, "write %s", kind_text(p, r.kind));
    case REPAIR_REMOVE: return "remove it";
    case REPAIR_NONE: break;
  }
  bool ends_all = found->kind == 0 || (is_item_word(found->kind) && found->first_on_line);
  return ends_all && innermost ? not_closed(p, innermost) : NULL;
}

// The repair as an edit of the text. What is missing belongs behind the token before, a bracket
// that ends a statement above all.
static void offer_repair(parse *p, repair r) {
  const token *found = peek(p, 0), *before = peek(p, -1);
  const char *spelling = r.action == REPAIR_REMOVE ? "" : token_kind_spelling(r.kind);
  span where = found->span;
  if (r.action == REPAIR_NONE || !spelling) return;
  if (r.action == REPAIR_INSERT && p->at > 0) where.begin = where.end = before->span.end;
  diag_fix(p->diag, where, spelling);
}

// A token that does not fit and is no usual mistake.
void unexpected(parse *p) {
  repair r = find_repair(p);
  const token *found = peek(p, 0);
  int errors = diag_error_count(p->diag);
  bool missing = r.action == REPAIR_INSERT && r.kind != TK_NAME && !is_closing(r.kind);
  const char *expected = missing ? expected_before(p, r.kind) : expected_text(p);
  say(p, found->span, expected, found_text(p, found), repair_hint(p, r));
  if (diag_error_count(p->diag) > errors) offer_repair(p, r);
  if (r.action == REPAIR_NONE)
    skip_to_recovery_point(p);
  else
    apply_repair(p, r);
}

// A lexeme outside the language becomes the nearest token, or nothing.
static void foreign_lexeme(parse *p) {
  const token *t = peek(p, 0);
  say_always(p, t->span, expected_found(p, expected_text(p), found_text(p, t), t->hint));
  token *plain = ARENA_NEW(p->memory, token);
  *plain = *t;
  plain->hint = NULL;
  if (t->kind == TK_NONE) {
    p->at++;
  } else if (fits(p, t->kind)) {
    feed(p, t->kind, plain);
    p->at++;
  } else {
    // now an ordinary token that does not fit, close to the last message
    p->tokens.items[p->at] = *plain;
  }
}

static bool too_deep(parse *p) {
  if (parser_depth(p->parser) <= NESTING_MAX) return false;  // each bracket is an entry of its own
  bool deep = parser_depth(p->parser) > STACK_DEPTH_MAX ||
              (is_opening(peek(p, 0)->kind) && count_brackets(p).all >= NESTING_MAX);
  if (deep)
    say_text(p, peek(p, 0)->span,
             arena_printf(p->memory,
                          "expected at most %d brackets inside each other; name parts with let",
                          NESTING_MAX));
  return deep;
}

// Every round consumes a token or, a few times at most, invents one; this makes sure of it for
// every input.
static void enforce_progress(parse *p, int *furthest, int *rounds) {
  if (p->at > *furthest) {
    *furthest = p->at;
    *rounds = 0;
  } else if (++*rounds > ROUNDS_MAX) {
    if (peek(p, 0)->kind == 0) p->stopped = true;
    p->at++;
  }
  if (p->mistakes > MISTAKES_MAX) p->stopped = true;
}

static void parse_tokens(parse *p) {
  for (int furthest = -1, rounds = 0; !p->builder.accepted && !p->stopped && !too_deep(p);) {
    enforce_progress(p, &furthest, &rounds);
    if (p->stopped) return;
    const token *t = peek(p, 0);
    if (t->complaint) {
      say_always(p, t->span, t->complaint);
      p->tokens.items[p->at].complaint = NULL;
    } else if (t->hint) {
      foreign_lexeme(p);
    } else if (mistake_before(p)) {
      continue;
    } else if (fits(p, t->kind)) {
      take_parsed_token(p);
    } else if (!mistake_at(p)) {
      unexpected(p);
    }
  }
}

// `///` lines that no declaration took.
static void warn_of_lost_docs(parse *p) {
  for (int i = 0; i < p->tokens.count; i++) {
    const token *t = &p->tokens.items[i];
    if (!t->doc || p->builder.documented[i]) continue;
    diag_warning(p->diag, t->span,
                 "the '///' text above documents nothing: no declaration starts here");
  }
}

parse parse_all(arena *a, interner *names, diag *d, const source *s, token_stream stream) {
  parse p = {.memory = a,
             .names = names,
             .diag = d,
             .source = s,
             .tokens = stream.tokens,
             .fed = SILENCE,
             .statement = -1,
             .setting = -1};
  ast_file *file = ARENA_NEW(a, ast_file);
  file->source = s;
  p.builder = (builder){.memory = a, .diag = d, .file = file, .tokens = &p.tokens};
  p.builder.documented = ARENA_ARRAY(a, bool, stream.tokens.count);
  p.starts = ARENA_ARRAY(a, bool, stream.tokens.count);
  p.parser = parser_new();
  int errors_before = diag_error_count(d);
  parse_tokens(&p);
  parser_free(p.parser);
  p.builder.tokens = NULL;
  bool failed = diag_error_count(d) > errors_before;
  if (!failed && !p.builder.accepted) ICE("parse", "the file '%s' was left unfinished", s->path);
  if (!failed) warn_of_lost_docs(&p);
  return p;
}

ast_file *parse_source(arena *a, interner *names, diag *d, const source *s) {
  parse p = parse_all(a, names, d, s, lex_source(a, names, d, s));
  return p.builder.file;
}
