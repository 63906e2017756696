// The lexer: source text to tokens (token.h), by re2c. The source ends with a NUL and holds no
// other.
//
//   let a = 2*x   // twice      LET  NAME a  ASSIGN  INT 2  STAR  NAME x    comment "// twice"
//
// Lexemes outside the language become the nearest token with a complaint or a hint (token.h).
#include "compiler/syntax/lexer_support.h"
#include "compiler/syntax/parser.h"

token_stream lex_source(arena *a, interner *names, diag *d, const source *s) {
  lexer lx = lexer_start(a, names, d, s);
  const unsigned char *YYCURSOR = lx.begin, *YYMARKER = lx.begin;
  for (;;) {
    const unsigned char *from = YYCURSOR;
    /*!re2c
      re2c:define:YYCTYPE = "unsigned char";
      re2c:yyfill:enable = 0;

      letter  = [A-Za-z_];
      digit   = [0-9];
      name    = letter (letter | digit)*;
      int     = digit+;
      exp     = [eE] [+-]? digit+;
      float   = int "." int exp? | int exp;
      rest    = [^\n\x00]*;
      char    = [^"\\\n\x00] | "\\" [^\n\x00];

      // space and comments
      [ \t\r\v\f]+                  { continue; }
      "\n"                          { lex_newline(&lx); continue; }
      "\xEF\xBB\xBF"                { lex_byte_order_mark(&lx, from, YYCURSOR); continue; }
      "///" ([^/\n\x00] rest)?      { lex_comment(&lx, from, YYCURSOR, true); continue; }
      "//" rest                     { lex_comment(&lx, from, YYCURSOR, false); continue; }
      "/*"                          { YYCURSOR = lex_block_comment(&lx, from); continue; }
      "#" rest                      { lex_hash_comment(&lx, from, YYCURSOR); continue; }
      "\x00"                        { break; }

      // names and numbers; a number that runs into a letter is one bad lexeme, else `steps 2k`
      // would be two settings
      name                          { lex_word(&lx, from, YYCURSOR); continue; }
      int                           { lex_number(&lx, TK_INT, from, YYCURSOR); continue; }
      float                         { lex_number(&lx, TK_FLOAT, from, YYCURSOR); continue; }
      (int | float) "%"             { lex_number(&lx, TK_PERCENT, from, YYCURSOR); continue; }
      (int | float) name            { lex_bad_number(&lx, from, YYCURSOR); continue; }
      ["] char* ["]                 { lex_string(&lx, from, YYCURSOR); continue; }
      ["] char* "\\"?               { lex_open_string(&lx, from, YYCURSOR); continue; }
      ['] [^'\n\x00]* [']           { lex_single_quoted(&lx, from, YYCURSOR); continue; }
      [\x80-\xFF]                   { YYCURSOR = lex_unicode(&lx, from); continue; }

      // punctuation
      "("                           { lex_mark(&lx, TK_LP, from, YYCURSOR); continue; }
      ")"                           { lex_mark(&lx, TK_RP, from, YYCURSOR); continue; }
      "["                           { lex_mark(&lx, TK_LB, from, YYCURSOR); continue; }
      "]"                           { lex_mark(&lx, TK_RB, from, YYCURSOR); continue; }
      "{"                           { lex_mark(&lx, TK_LC, from, YYCURSOR); continue; }
      "}"                           { lex_mark(&lx, TK_RC, from, YYCURSOR); continue; }
      ","                           { lex_mark(&lx, TK_COMMA, from, YYCURSOR); continue; }
      ":"                           { lex_mark(&lx, TK_COLON, from, YYCURSOR); continue; }
      "."                           { lex_mark(&lx, TK_DOT, from, YYCURSOR); continue; }
      ".."                          { lex_mark(&lx, TK_DOTDOT, from, YYCURSOR); continue; }
      "->"                          { lex_mark(&lx, TK_ARROW, from, YYCURSOR); continue; }
      "~"                           { lex_mark(&lx, TK_TILDE, from, YYCURSOR); continue; }
      "="                           { lex_mark(&lx, TK_ASSIGN, from, YYCURSOR); continue; }
      "+"                           { lex_mark(&lx, TK_PLUS, from, YYCURSOR); continue; }
      "-"                           { lex_mark(&lx, TK_MINUS, from, YYCURSOR); continue; }
      "*"                           { lex_mark(&lx, TK_STAR, from, YYCURSOR); continue; }
      "/"                           { lex_mark(&lx, TK_SLASH, from, YYCURSOR); continue; }
      "^"                           { lex_mark(&lx, TK_CARET, from, YYCURSOR); continue; }
      "<"                           { lex_mark(&lx, TK_LT, from, YYCURSOR); continue; }
      "<="                          { lex_mark(&lx, TK_LE, from, YYCURSOR); continue; }
      ">"                           { lex_mark(&lx, TK_GT, from, YYCURSOR); continue; }
      ">="                          { lex_mark(&lx, TK_GE, from, YYCURSOR); continue; }
      "=="                          { lex_mark(&lx, TK_EQ, from, YYCURSOR); continue; }

      // what other languages write
      "**"                          { lex_foreign(&lx, TK_CARET, "power is written '^'", from, YYCURSOR); continue; }
      "@"                           { lex_foreign(&lx, TK_STAR, "a product over an axis is written sum[K](a * b)", from, YYCURSOR); continue; }
      ";"                           { lex_foreign(&lx, TK_NONE, "statements need no separator: remove it", from, YYCURSOR); continue; }
      [-+*/^] "="                   { lex_compound_assignment(&lx, from, YYCURSOR); continue; }
      ":="                          { lex_foreign(&lx, TK_ASSIGN, "write '='", from, YYCURSOR); continue; }
      "=>"                          { lex_foreign(&lx, TK_ARROW, "write '->'", from, YYCURSOR); continue; }
      "..."                         { lex_foreign(&lx, TK_DOTDOT, "write '..'", from, YYCURSOR); continue; }
      "!="                          { lex_foreign(&lx, TK_EQ, "write 1 - (a == b)", from, YYCURSOR); continue; }
      "!"                           { lex_foreign(&lx, TK_NONE, "the opposite of a condition c is 1 - c", from, YYCURSOR); continue; }
      "&" | "&&"                    { lex_foreign(&lx, TK_STAR, HINT_BOTH, from, YYCURSOR); continue; }
      "|" | "||"                    { lex_foreign(&lx, TK_PLUS, HINT_EITHER, from, YYCURSOR); continue; }
      "?"                           { lex_foreign(&lx, TK_NONE, "there are no branches: write where(condition, a, b)", from, YYCURSOR); continue; }
      "%"                           { lex_percent(&lx, from, YYCURSOR); continue; }
      *                             { lex_foreign(&lx, TK_NONE, "this character has no meaning: remove it", from, YYCURSOR); continue; }
    */
  }
  return lexer_finish(&lx);
}
