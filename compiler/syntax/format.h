// Inside the formatter: lines that are built from tokens (format.c), the space between two tokens
// (format_space.c), and the alignment of neighbouring lines (format_align.c).
#pragma once

#include "compiler/syntax/parse.h"

// Lines of the same class that follow each other are aligned.
typedef enum line_class {
  LINE_OTHER,
  LINE_COMMENT,      // nothing but a comment
  LINE_DECLARATION,  // input, param, ...: names start in one column, `~` stand in one
  LINE_LET,          // let a = ...: the `=` stand in one column
  LINE_ASSIGN,       // a = ...
  LINE_START,        // path ~ ... of an init
  LINE_SETTING,      // the values start in one column
  LINE_ENTRY,        // 0..20 : kind
} line_class;

typedef struct line {
  line_class class;
  int indent;
  bool blank_before;
  bool starts_item;
  char *text;           // without indent and comment
  int word_end;         // offset behind the first word, 0: none
  int sign;             // offset of the `=`, `~` or `:` to align, 0: none
  const char *comment;  // behind the text, or NULL
} line;
typedef VEC(line) lines;

// What a bracket holds decides about the space inside it.
typedef enum bracket_kind {
  BRACKET_PLAIN,   // (..), [K = 0], [0, 1]
  BRACKET_AXES,    // [G,R]
  BRACKET_LAG,     // [t-1]
  BRACKET_RENAME,  // {N -> M}
  BRACKET_ITEM,    // { of an item
  BRACKET_BLOCK,   // { of a repeat, mix or setting
} bracket_kind;

typedef struct bracket {
  bracket_kind kind;
  bool breaks;  // a block whose content stands on lines of its own
} bracket;

bracket_kind bracket_kind_at(const tokens *all, int index);

// Where a token stands: the innermost bracket that is open before it, and whether it belongs to a
// train block.
typedef struct place {
  bracket_kind inside;
  bool in_train;
} place;

// Spaces before token `index` where it stands on the same line as the one before.
int spaces_before(const parse *p, int index, place where);

void align_lines(arena *a, lines *all);
