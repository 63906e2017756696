// The actions of lexer.re: tokens with their place, text and documentation.
#include "compiler/syntax/lexer_support.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/syntax/parser.h"

static const struct {
  int kind;
  const char *name;
  const char *spelling;  // NULL: many spellings
} kinds[] = {
    {0, "END", NULL},
    {TK_NAME, "NAME", NULL},
    {TK_INT, "INT", NULL},
    {TK_FLOAT, "FLOAT", NULL},
    {TK_PERCENT, "PERCENT", NULL},
    {TK_STRING, "STRING", NULL},
    {TK_RECURRENCE, "RECURRENCE", "recurrence"},
    {TK_FN, "FN", "fn"},
    {TK_LAYER, "LAYER", "layer"},
    {TK_MODEL, "MODEL", "model"},
    {TK_INIT, "INIT", "init"},
    {TK_TRAIN, "TRAIN", "train"},
    {TK_EVALUATE, "EVALUATE", "evaluate"},
    {TK_IMPORT, "IMPORT", "import"},
    {TK_INPUT, "INPUT", "input"},
    {TK_PARAM, "PARAM", "param"},
    {TK_STATE, "STATE", "state"},
    {TK_OUTPUT, "OUTPUT", "output"},
    {TK_LET, "LET", "let"},
    {TK_REPEAT, "REPEAT", "repeat"},
    {TK_IN, "IN", "in"},
    {TK_FOR, "FOR", "for"},
    {TK_AFTER, "AFTER", "after"},
    {TK_LP, "LP", "("},
    {TK_RP, "RP", ")"},
    {TK_LB, "LB", "["},
    {TK_RB, "RB", "]"},
    {TK_LC, "LC", "{"},
    {TK_RC, "RC", "}"},
    {TK_COMMA, "COMMA", ","},
    {TK_COLON, "COLON", ":"},
    {TK_DOT, "DOT", "."},
    {TK_DOTDOT, "DOTDOT", ".."},
    {TK_ARROW, "ARROW", "->"},
    {TK_TILDE, "TILDE", "~"},
    {TK_ASSIGN, "ASSIGN", "="},
    {TK_PLUS, "PLUS", "+"},
    {TK_MINUS, "MINUS", "-"},
    {TK_STAR, "STAR", "*"},
    {TK_SLASH, "SLASH", "/"},
    {TK_CARET, "CARET", "^"},
    {TK_LT, "LT", "<"},
    {TK_LE, "LE", "<="},
    {TK_GT, "GT", ">"},
    {TK_GE, "GE", ">="},
    {TK_EQ, "EQ", "=="},
};
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

const char *token_kind_name(int kind) {
  for (int i = 0; i < KIND_COUNT; i++)
    if (kinds[i].kind == kind) return kinds[i].name;
  return "NONE";
}

const char *token_kind_spelling(int kind) {
  for (int i = 0; i < KIND_COUNT; i++)
    if (kinds[i].kind == kind) return kinds[i].spelling;
  return NULL;
}

static int reserved_word(const char *text, size_t length) {
  for (int i = 0; i < KIND_COUNT; i++) {
    const char *word = kinds[i].spelling;
    if (word && islower((unsigned char)word[0]) && strlen(word) == length &&
        memcmp(word, text, length) == 0) {
      return kinds[i].kind;
    }
  }
  return TK_NONE;
}

lexer lexer_start(arena *a, interner *names, diag *d, const source *s) {
  return (lexer){
      .memory = a, .names = names, .diag = d, .source = s, .begin = (const unsigned char *)s->text};
}

static span span_of(const lexer *lx, const unsigned char *from, const unsigned char *to) {
  return (span){.source = lx->source->id,
                .begin = (uint32_t)(from - lx->begin),
                .end = (uint32_t)(to - lx->begin)};
}

static const char *interned(lexer *lx, const unsigned char *from, const unsigned char *to) {
  return intern_n(lx->names, (const char *)from, (size_t)(to - from));
}

static token *add_token(lexer *lx, int kind, const unsigned char *from, const unsigned char *to) {
  vec_push(lx->memory, &lx->out.tokens,
           (token){.kind = kind,
                   .span = span_of(lx, from, to),
                   .doc = lx->doc.count ? lx->doc.items : NULL,
                   .first_on_line = !lx->line_has_token});
  lx->doc.items = NULL;
  lx->doc.count = lx->doc.capacity = 0;
  lx->line_has_token = true;
  return &lx->out.tokens.items[lx->out.tokens.count - 1];
}

static token *last_token(lexer *lx) {
  return lx->out.tokens.count ? &lx->out.tokens.items[lx->out.tokens.count - 1] : NULL;
}

token_stream lexer_finish(lexer *lx) {
  const unsigned char *end = lx->begin + lx->source->size;
  add_token(lx, 0, end, end);
  return lx->out;
}

// ---- space and comments -------------------------------------------------------------------------

void lex_newline(lexer *lx) { lx->line_has_token = false; }

void lex_byte_order_mark(lexer *lx, const unsigned char *from, const unsigned char *to) {
  if (from != lx->begin)
    lex_foreign(lx, TK_NONE, "this character has no meaning: remove it", from, to);
}

static void add_comment(lexer *lx, const unsigned char *from, const unsigned char *to) {
  while (to > from && isspace(to[-1])) to--;
  vec_push(lx->memory, &lx->out.comments,
           (comment){.span = span_of(lx, from, to),
                     .own_line = !lx->line_has_token,
                     .next = lx->out.tokens.count});
}

// Adds one `///` line to the documentation of the next token, without the slashes and one space.
static void add_doc_line(lexer *lx, const unsigned char *from, const unsigned char *to) {
  from += 3;
  if (from < to && *from == ' ') from++;
  while (to > from && isspace(to[-1])) to--;
  if (lx->doc.count) lx->doc.items[lx->doc.count - 1] = '\n';
  for (; from < to; from++) vec_push(lx->memory, &lx->doc, (char)*from);
  vec_push(lx->memory, &lx->doc, 0);
}

void lex_comment(lexer *lx, const unsigned char *from, const unsigned char *to, bool is_doc) {
  add_comment(lx, from, to);
  if (!is_doc) return;
  if (lx->line_has_token) {
    diag_error(lx->diag, span_of(lx, from, from + 3),
               "expected '///' first on its line; it documents what follows it: write '//'");
    return;
  }
  add_doc_line(lx, from, to);
}

void lex_hash_comment(lexer *lx, const unsigned char *from, const unsigned char *to) {
  diag_error(lx->diag, span_of(lx, from, from + 1),
             "expected '//', found '#'; a comment starts with '//'");
  add_comment(lx, from, to);
}

const unsigned char *lex_block_comment(lexer *lx, const unsigned char *from) {
  diag_error(lx->diag, span_of(lx, from, from + 2),
             "expected '//', found '/*'; a comment starts with '//' and ends with its line");
  const char *close = strstr((const char *)from + 2, "*/");
  const unsigned char *to = close ? (const unsigned char *)close + 2 : lx->begin + lx->source->size;
  if (memchr(from, '\n', (size_t)(to - from))) lx->line_has_token = false;
  return to;
}

// ---- names, numbers, strings --------------------------------------------------------------------

void lex_word(lexer *lx, const unsigned char *from, const unsigned char *to) {
  int kind = reserved_word((const char *)from, (size_t)(to - from));
  const char *text = interned(lx, from, to);
  token *t = add_token(lx, kind == TK_NONE ? TK_NAME : kind, from, to);
  t->text = text;
}

void lex_number(lexer *lx, int kind, const unsigned char *from, const unsigned char *to) {
  token *t = add_token(lx, kind, from, to);
  t->text = interned(lx, from, to);
  if (isinf(strtod(t->text, NULL)))
    t->complaint = arena_printf(lx->memory, "expected a number below 1.8e308, found '%s'", t->text);
}

// 2k, 1e, 3_000: the digits are a number, the letters are not.
void lex_bad_number(lexer *lx, const unsigned char *from, const unsigned char *to) {
  token *t = add_token(lx, TK_INT, from, to);
  const unsigned char *letters = from;
  while (isdigit(*letters) || *letters == '.') letters++;
  int digits = (int)(letters - from), rest = (int)(to - letters);
  t->text = interned(lx, from, letters);
  if (memchr(from, '.', (size_t)digits)) t->kind = TK_FLOAT;
  if (rest == 1 && (*letters == 'e' || *letters == 'E')) {
    t->complaint = arena_printf(lx->memory, "expected digits after '%.*s', found none",
                                digits + rest, (const char *)from);
  } else if (rest == 1 && (*letters == 'k' || *letters == 'K') && t->kind == TK_INT) {
    t->complaint = arena_printf(lx->memory, "expected a number, found '%.*sk'; write %.*s000",
                                digits, (const char *)from, digits, (const char *)from);
  } else {
    t->complaint = arena_printf(
        lx->memory, "expected a number, found '%.*s'; is an operator missing before '%.*s'?",
        digits + rest, (const char *)from, rest, (const char *)letters);
  }
}

// Copies the inside of a string with its escapes resolved; complains about the first unknown one.
static void set_string_text(lexer *lx, token *t, const unsigned char *from,
                            const unsigned char *to) {
  char *text = arena_alloc(lx->memory, (size_t)(to - from) + 1);
  char *out = text;
  for (const unsigned char *p = from; p < to; p++) {
    if (*p != '\\' || p + 1 == to) {
      *out++ = (char)*p;
      continue;
    }
    p++;
    if (*p == 'n' || *p == 't') {
      *out++ = *p == 'n' ? '\n' : '\t';
    } else {
      if (*p != '"' && *p != '\\' && !t->complaint)
        t->complaint =
            "expected \\n, \\t, \\\" or \\\\ in a string, found another escape; "
            "a backslash is written \\\\";
      *out++ = (char)*p;
    }
  }
  t->text = text;
}

void lex_string(lexer *lx, const unsigned char *from, const unsigned char *to) {
  set_string_text(lx, add_token(lx, TK_STRING, from, to), from + 1, to - 1);
}

void lex_open_string(lexer *lx, const unsigned char *from, const unsigned char *to) {
  while (to > from + 1 && isspace(to[-1])) to--;
  token *t = add_token(lx, TK_STRING, from, to);
  t->complaint = "expected '\"' before the end of the line; the string is not closed";
  set_string_text(lx, t, from + 1, to);
}

void lex_single_quoted(lexer *lx, const unsigned char *from, const unsigned char *to) {
  token *t = add_token(lx, TK_STRING, from, to);
  t->complaint = "expected '\"', found '''; strings stand in double quotes";
  set_string_text(lx, t, from + 1, to - 1);
}

// ---- punctuation --------------------------------------------------------------------------------

void lex_mark(lexer *lx, int kind, const unsigned char *from, const unsigned char *to) {
  add_token(lx, kind, from, to);
}

void lex_foreign(lexer *lx, int kind, const char *hint, const unsigned char *from,
                 const unsigned char *to) {
  add_token(lx, kind, from, to)->hint = hint;
}

void lex_percent(lexer *lx, const unsigned char *from, const unsigned char *to) {
  const token *before = last_token(lx);
  bool after_number = before && (before->kind == TK_INT || before->kind == TK_FLOAT);
  lex_foreign(
      lx, TK_NONE,
      after_number ? "a percentage is one word: write 10%" : "there is no remainder operator", from,
      to);
}

void lex_compound_assignment(lexer *lx, const unsigned char *from, const unsigned char *to) {
  const token *before = last_token(lx);
  const char *name = before && before->kind == TK_NAME ? before->text : "S";
  lex_foreign(lx, TK_ASSIGN,
              arena_printf(lx->memory, "a value is assigned once: write %s = %s[t-1] %c ...", name,
                           name, from[0]),
              from, to);
}

// ---- characters beyond ASCII --------------------------------------------------------------------

static const struct {
  const char *character;
  int kind;
  const char *hint;
} unicode_marks[] = {
    {"\xC2\xB7", TK_STAR, "write '*'"},      // middle dot
    {"\xC3\x97", TK_STAR, "write '*'"},      // multiplication sign
    {"\xE2\x8B\x85", TK_STAR, "write '*'"},  // dot operator
    {"\xE2\x8A\x99", TK_STAR, "write '*'"},  // circled dot
    {"\xE2\x88\x97", TK_STAR, "write '*'"},  // asterisk operator
    {"\xC3\xB7", TK_SLASH, "write '/'"},
    {"\xE2\x88\x92", TK_MINUS, "write '-'"},
    {"\xE2\x80\x93", TK_MINUS, "write '-'"},  // en dash
    {"\xE2\x89\xA4", TK_LE, "write '<='"},
    {"\xE2\x89\xA5", TK_GE, "write '>='"},
    {"\xE2\x86\x92", TK_ARROW, "write '->'"},
    {"\xE2\x88\xBC", TK_TILDE, "write '~'"},
    {"\xE2\x80\x9C", TK_NONE, "strings stand in plain double quotes"},
    {"\xE2\x80\x9D", TK_NONE, "strings stand in plain double quotes"},
    {"\xC2\xA0", TK_NONE, "this is a no-break space: write a plain one"},
};
enum { UNICODE_MARK_COUNT = sizeof unicode_marks / sizeof *unicode_marks };

// Row of unicode_marks that the text starts with, or -1.
static int unicode_mark_at(const unsigned char *p) {
  for (int i = 0; i < UNICODE_MARK_COUNT; i++) {
    const char *c = unicode_marks[i].character;
    if (strncmp((const char *)p, c, strlen(c)) == 0) return i;
  }
  return -1;
}

static bool continues_name(const unsigned char *p) {
  return *p >= 0x80 ? unicode_mark_at(p) < 0 : isalnum(*p) || *p == '_';
}

static const unsigned char *end_of_name(const unsigned char *p) {
  while (continues_name(p)) {
    do p++;
    while ((*p & 0xC0) == 0x80);
  }
  return p;
}

const unsigned char *lex_unicode(lexer *lx, const unsigned char *from) {
  int mark = unicode_mark_at(from);
  if (mark >= 0) {
    const unsigned char *to = from + strlen(unicode_marks[mark].character);
    lex_foreign(lx, unicode_marks[mark].kind, unicode_marks[mark].hint, from, to);
    return to;
  }
  const unsigned char *to = end_of_name(from);
  token *t = last_token(lx);
  bool joins = t && t->kind == TK_NAME && t->span.end == (uint32_t)(from - lx->begin);
  if (joins) {
    from = lx->begin + t->span.begin;
    t->span.end = (uint32_t)(to - lx->begin);
  } else {
    t = add_token(lx, TK_NAME, from, to);
  }
  t->text = interned(lx, from, to);
  t->complaint = arena_printf(
      lx->memory,
      "expected a name, found '%s'; names consist of the letters A-Z and a-z, digits and '_'",
      t->text);
  return to;
}
