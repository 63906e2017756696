// Inside the front end: the state of one parse. The driver (parse.c), the search for repairs
// (repair.c) and the words of the messages (expected.c, mistakes.c) share it.
#pragma once

#include "compiler/syntax/ast_build.h"
#include "compiler/syntax/parser_state.h"
#include "compiler/syntax/token.h"

typedef struct parse {
  arena *memory;
  interner *names;
  diag *diag;
  const source *source;
  tokens tokens;
  parser *parser;
  builder builder;
  int at;         // the next token
  int fed;        // tokens taken since the last message
  int mistakes;   // met so far, also those that were not reported
  int statement;  // first token of the statement that is being read, or -1
  int setting;    // the name of the setting that is being read, or -1
  bool stopped;   // the end of the file does not fit and nothing can be closed
  bool *starts;   // [tokens.count]: a statement, setting, entry or item starts here
} parse;

// Parses a whole file; the tree is in builder.file, and `starts` is filled (parser is gone).
parse parse_all(arena *a, interner *names, diag *d, const source *s, token_stream stream);

// Tokens that must fit between two messages: what follows a mistake closely is often its echo.
enum { SILENCE = 5 };

// The token at an offset from the next one; beyond either end, the last or first token.
const token *peek(const parse *p, int offset);

// Would the parser take these kinds now, one after the other? A kind of TK_NONE is skipped.
bool fits(const parse *p, int kind);
bool fits2(const parse *p, int first, int second);

// Feeds one token to the parser, which must fit (or be JUNK).
void feed(parse *p, int kind, const token *t);
// Feeds a token that is not in the source, in front of the next one.
void feed_invented(parse *p, int kind);

// Reports a token that does not fit, and repairs or recovers.
void unexpected(parse *p);

// Brackets that are open on the parser's stack.
typedef struct bracket_counts {
  int all, braces;
  const token *innermost;  // or NULL
} bracket_counts;
bracket_counts count_brackets(const parse *p);

// The kind of the item that is being read (TK_RECURRENCE .. TK_EVALUATE), or TK_NONE between items.
int current_item(const parse *p);

bool is_item_word(int kind);
bool is_statement_word(int kind);  // let, input, param, state, output
bool is_opening(int kind);         // ( [ {
bool is_closing(int kind);         // ) ] }
bool is_operator(int kind);
bool is_comparison(int kind);
bool is_punctuation(int kind);
// By its look: a statement word, or a name first on its line before '='.
bool starts_statement(const parse *p, int index);

typedef enum repair_action {
  REPAIR_NONE,
  REPAIR_INSERT,
  REPAIR_REPLACE,
  REPAIR_REMOVE
} repair_action;

typedef struct repair {
  repair_action action;
  int kind;   // of the token to insert, or to put in place
  int score;  // how many of the next tokens fit afterwards, at most REPAIR_WINDOW
} repair;

enum { REPAIR_WINDOW = 5 };

// The smallest change after which most of the next tokens fit; REPAIR_NONE if at most one would.
repair find_repair(const parse *p);

// How many of the tokens from `index` on would fit after `t`, at most REPAIR_WINDOW; all of them
// counts as that many.
int count_fitting(const parse *p, trial t, int index);

void apply_repair(parse *p, repair r);

// Gives up the statement, setting or item that is being read, and goes on where the next one seems
// to start. Returns true: the mistake is dealt with.
bool skip_to_recovery_point(parse *p);

// ---- expected.c ---------------------------------------------------------------------------------

// What fits now, in words: "an operator, ')' or ','".
const char *expected_text(const parse *p);
// The same when a token is missing before the next one: "',' or a new statement".
const char *expected_before(const parse *p, int missing);
// The next token in words: "'k'", "the end of the file".
const char *found_text(const parse *p, const token *t);
// "'('" for a kind with one spelling; "a name" else.
const char *kind_text(const parse *p, int kind);

// Reports unless the last message was given just before. `hint` may be NULL.
void say(parse *p, span where, const char *expected, const char *found, const char *hint);
// The same for a message that is not built from expected and found.
void say_text(parse *p, span where, const char *text);
// A mistake that is no echo of another, whatever was said before: a lexeme outside the language.
void say_always(parse *p, span where, const char *text);
const char *expected_found(const parse *p, const char *expected, const char *found,
                           const char *hint);

// ---- mistakes.c ---------------------------------------------------------------------------------

// Usual mistakes that are known before the next token is fed. True if one was reported and handled.
bool mistake_before(parse *p);
// Usual mistakes at a token that does not fit. True if one was reported and handled.
bool mistake_at(parse *p);
