// A view of the parser's state: what it would accept now. Implemented at the end of parser.y, where
// Lemon's tables are visible; used by the driver and by the error messages.
#pragma once

#include "compiler/syntax/token.h"

typedef void parser;
struct builder;

enum { TOKEN_KINDS_MAX = 64 };      // more than there are kinds; parser.y checks it
extern const int token_kind_count;  // kinds are 0 (the end) .. count-1

parser *parser_new(void);
void parser_free(parser *p);
void parser_feed(parser *p, int kind, const token *t, struct builder *b);

// The parser's stack: entries 0 .. depth-1 from the bottom. A token for terminals, NULL for what
// has been reduced.
int parser_depth(const parser *p);
const token *parser_stack_token(const parser *p, int i);

// A run of the tables beside the parser: it starts in the parser's state and takes tokens one by
// one without changing the parser. States pushed since then lie in `states`; `base` entries of the
// parser's stack lie below them.
enum { TRIAL_STATES = 64 };
typedef struct trial {
  const parser *parser;
  int base;
  int pushed;
  unsigned short states[TRIAL_STATES];
} trial;

trial parser_try(const parser *p);

// Takes one token; false (and the trial is over) if it does not fit. The end of the file has kind
// 0.
bool trial_accepts(trial *t, int kind);
