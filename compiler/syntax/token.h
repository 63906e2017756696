// Tokens: what lexer.re makes of a source, and what parser.y reads. The kinds TK_... are numbered
// by Lemon (parser.h).
#pragma once

#include <stdbool.h>

#include "compiler/base/diag.h"
#include "compiler/base/intern.h"
#include "compiler/base/source.h"
#include "compiler/base/vec.h"

// A lexeme that the language does not know is a token as well. The parser makes every complaint,
// because it knows what it expected there. It has either a complaint or a hint, and stands for the
// known token nearest to it.
typedef struct token {
  int kind;  // TK_...; TK_NONE: no known token is near, the lexeme is skipped
  span span;
  // NAME and numbers: as written, interned; STRING: the inside, escapes resolved; else NULL
  const char *text;
  const char *doc;        // the text of the `///` lines before it, or NULL
  bool first_on_line;     // only space and comments before it on its line
  const char *complaint;  // not NULL: the whole message about this lexeme
  const char *hint;       // not NULL: the message is "expected ..., found 'lexeme'; hint"
} token;
typedef VEC(token) tokens;

enum { TK_NONE = -1 };

// Hints about `&&` and `and`, `||` and `or`.
#define HINT_BOTH "two conditions hold when their product is 1: write a * b"
#define HINT_EITHER "one of two conditions holds when max(a, b) is 1"

// Comments go to a side list by position, for the formatter; `///` too.
typedef struct comment {
  span span;      // without the line end
  bool own_line;  // no token before it on its line
  int next;       // index of the token that follows it
} comment;
typedef VEC(comment) comments;

typedef struct token_stream {
  tokens tokens;  // the last one is the end of the file (kind 0)
  comments comments;
} token_stream;

// Never fails: mistakes are in the tokens, except those about comments, which go to `d`.
token_stream lex_source(arena *a, interner *names, diag *d, const source *s);

// "NAME", "LP", "LET": for --emit=tokens.
const char *token_kind_name(int kind);

// As it is spelled: "(", "let"; NULL for kinds with many spellings.
const char *token_kind_spelling(int kind);
