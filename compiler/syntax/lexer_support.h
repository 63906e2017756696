// The actions of lexer.re. Each takes the lexeme [from, to).
#pragma once

#include "compiler/syntax/token.h"

typedef struct lexer {
  arena *memory;
  interner *names;
  diag *diag;
  const source *source;
  const unsigned char *begin;
  token_stream out;
  VEC(char) doc;        // `///` text that waits for the next token, ended by a NUL; empty without
  bool line_has_token;  // since the last newline
} lexer;

lexer lexer_start(arena *a, interner *names, diag *d, const source *s);
token_stream lexer_finish(lexer *lx);

void lex_newline(lexer *lx);
void lex_comment(lexer *lx, const unsigned char *from, const unsigned char *to, bool is_doc);
void lex_hash_comment(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_byte_order_mark(lexer *lx, const unsigned char *from, const unsigned char *to);

void lex_word(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_number(lexer *lx, int kind, const unsigned char *from, const unsigned char *to);
void lex_bad_number(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_string(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_open_string(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_single_quoted(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_mark(lexer *lx, int kind, const unsigned char *from, const unsigned char *to);
void lex_percent(lexer *lx, const unsigned char *from, const unsigned char *to);
void lex_compound_assignment(lexer *lx, const unsigned char *from, const unsigned char *to);

// A lexeme of other languages: `kind` is the token it stands for (or TK_NONE).
void lex_foreign(lexer *lx, int kind, const char *hint, const unsigned char *from,
                 const unsigned char *to);

// These find the end of the lexeme themselves and return it.
const unsigned char *lex_block_comment(lexer *lx, const unsigned char *from);
const unsigned char *lex_unicode(lexer *lx, const unsigned char *from);
