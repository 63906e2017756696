// The words of syntax messages: what fits now, what was found.
//
//   {+ - * / ^ < <= > >= == ( [ { . .. -> = ) ,}   becomes   "an operator, ')' or ','"
#include <string.h>

#include "compiler/syntax/parse.h"
#include "compiler/syntax/parser.h"

// The kinds that fit, and the words chosen for groups of them.
typedef struct expectation {
  bool kinds[TOKEN_KINDS_MAX];
  const char *words[TOKEN_KINDS_MAX];
  int count;
} expectation;

static void add_word(expectation *e, const char *word) { e->words[e->count++] = word; }

static void drop_expected(expectation *e, const int *kinds, int count) {
  for (int i = 0; i < count; i++) e->kinds[kinds[i]] = false;
}
#define DROP(e, ...)                             \
  drop_expected((e), (const int[]){__VA_ARGS__}, \
                (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

static bool in_header_or_axes(const parse *p) {
  const token *innermost = count_brackets(p).innermost;
  if (!innermost) return false;
  if (innermost->kind == TK_LB) return true;
  if (innermost->kind == TK_LC) return fits2(p, TK_NAME, TK_ARROW);
  return fits2(p, TK_NAME, TK_COMMA) && fits2(p, TK_NAME, TK_ASSIGN) && !fits(p, TK_INT);
}

// What a lone name would be here.
static const char *name_role(const parse *p) {
  if (in_header_or_axes(p)) return fits2(p, TK_NAME, TK_MINUS) ? "an axis or 't'" : "an axis";
  if (fits2(p, TK_NAME, TK_IN)) return "a declaration";
  if (peek(p, -1)->kind == TK_COLON && current_item(p) != TK_TRAIN) return "'complex'";
  if (current_item(p) == TK_INIT && fits2(p, TK_NAME, TK_TILDE)) return "a parameter's path";
  if (current_item(p) == TK_EVALUATE && fits(p, TK_RC)) return "a task";
  return "a name";
}

static void group_operators(expectation *e) {
  if (!e->kinds[TK_STAR]) return;
  add_word(e, "an operator");
  DROP(e, TK_PLUS, TK_MINUS, TK_STAR, TK_SLASH, TK_CARET, TK_LT, TK_LE, TK_GT, TK_GE, TK_EQ);
  DROP(e, TK_LP, TK_LB, TK_LC, TK_DOT, TK_DOTDOT, TK_ARROW, TK_ASSIGN);
}

static void group_expressions(const parse *p, expectation *e) {
  if (!e->kinds[TK_INT] || !e->kinds[TK_LP] || !e->kinds[TK_STRING]) return;
  bool value = e->kinds[TK_LC] && current_item(p) == TK_TRAIN;
  add_word(e, value ? "a value" : "an expression");
  DROP(e, TK_INT, TK_FLOAT, TK_PERCENT, TK_STRING, TK_LP, TK_MINUS, TK_REPEAT);
  if (value) e->kinds[TK_LC] = false;
  if (!e->kinds[TK_LET]) e->kinds[TK_NAME] = false;
}

static void group_names(const parse *p, expectation *e) {
  if (e->kinds[TK_LET] && e->kinds[TK_INT] && e->kinds[TK_FN]) {  // after a point
    memset(e->kinds, 0, sizeof e->kinds);
    add_word(e, "a name");
  } else if (e->kinds[TK_FN]) {
    add_word(e, "a recurrence, layer, model, fn, init, train, evaluate or import");
    DROP(e, TK_RECURRENCE, TK_LAYER, TK_MODEL, TK_FN, TK_INIT, TK_TRAIN, TK_EVALUATE, TK_IMPORT);
  } else if (e->kinds[TK_LET]) {
    add_word(e, "a statement");
    DROP(e, TK_LET, TK_INPUT, TK_PARAM, TK_STATE, TK_OUTPUT, TK_NAME);
  } else if (e->kinds[TK_MODEL]) {
    add_word(e, "a setting");
    DROP(e, TK_MODEL, TK_INIT, TK_NAME);
  } else if (e->kinds[TK_PERCENT] && e->kinds[TK_NAME]) {
    add_word(e, fits2(p, TK_NAME, TK_LP) ? "a range or a kind" : "a number or a name");
    DROP(e, TK_NAME, TK_INT, TK_FLOAT, TK_PERCENT);
  } else if (e->kinds[TK_NAME]) {
    add_word(e, name_role(p));
    DROP(e, TK_NAME, TK_LP);
  }
  if (e->kinds[TK_INT]) {
    add_word(e, "a whole number");
    e->kinds[TK_INT] = false;
  }
  if (e->kinds[TK_STRING]) {
    add_word(e, "a file name in quotes");
    e->kinds[TK_STRING] = false;
  }
}

static void add_single_kinds(const parse *p, expectation *e) {
  static const int order[] = {TK_ASSIGN, TK_LB,    TK_LP,    TK_LC,   TK_RP,   TK_RB,    TK_RC,
                              TK_COMMA,  TK_COLON, TK_TILDE, TK_IN,   TK_FOR,  TK_AFTER, TK_ARROW,
                              TK_DOTDOT, TK_DOT,   TK_MINUS, TK_PLUS, TK_CARET};
  for (size_t i = 0; i < sizeof order / sizeof *order; i++)
    if (e->kinds[order[i]]) add_word(e, kind_text(p, order[i]));
}

static expectation expectation_now(const parse *p) {
  expectation e = {0};
  for (int kind = 1; kind < token_kind_count; kind++) e.kinds[kind] = fits(p, kind);
  group_operators(&e);
  group_expressions(p, &e);
  group_names(p, &e);
  add_single_kinds(p, &e);
  return e;
}

// "a", "a or b", "a, b or c"
static const char *join_words(const parse *p, const expectation *e) {
  const char *text = e->count ? e->words[0] : "the end of the file";
  for (int i = 1; i < e->count; i++)
    text = arena_printf(p->memory, "%s%s%s", text, i + 1 == e->count ? " or " : ", ", e->words[i]);
  return text;
}

const char *expected_text(const parse *p) {
  expectation e = expectation_now(p);
  return join_words(p, &e);
}

const char *expected_before(const parse *p, int missing) {
  expectation e = expectation_now(p);
  for (int i = 0; i < e.count; i++) {
    bool statement = strcmp(e.words[i], "a statement") == 0;
    if (!statement && strcmp(e.words[i], "a setting") != 0) continue;
    return arena_printf(p->memory, "%s or a new %s",
                        is_operator(missing) ? "an operator" : kind_text(p, missing),
                        statement ? "statement" : "setting");
  }
  return join_words(p, &e);
}

const char *kind_text(const parse *p, int kind) {
  const char *spelling = token_kind_spelling(kind);
  return spelling ? arena_printf(p->memory, "'%s'", spelling) : "a name";
}

const char *found_text(const parse *p, const token *t) {
  enum { SHOWN = 40 };
  if (t->kind == 0) return "the end of the file";
  int length = (int)(t->span.end - t->span.begin);
  const char *text = p->source->text + t->span.begin;
  if (length <= SHOWN) return arena_printf(p->memory, "'%.*s'", length, text);
  length = SHOWN;
  while (length > 0 && ((unsigned char)text[length] & 0xC0) == 0x80) length--;
  return arena_printf(p->memory, "'%.*s...'", length, text);
}

void say_always(parse *p, span where, const char *text) {
  p->mistakes++;
  diag_error(p->diag, where, "%s", text);
  p->fed = 0;
}

void say_text(parse *p, span where, const char *text) {
  if (p->fed >= SILENCE || diag_error_count(p->diag) == 0) {
    say_always(p, where, text);
  } else {
    p->mistakes++;
    p->fed = 0;
  }
}

const char *expected_found(const parse *p, const char *expected, const char *found,
                           const char *hint) {
  return arena_printf(p->memory, "expected %s, found %s%s%s", expected, found, hint ? "; " : "",
                      hint ? hint : "");
}

void say(parse *p, span where, const char *expected, const char *found, const char *hint) {
  say_text(p, where, expected_found(p, expected, found, hint));
}
