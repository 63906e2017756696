// What the front end offers: source text to tree, tree to text, source text to well-formatted
// source text.
#pragma once

#include <stdio.h>

#include "compiler/base/diag.h"
#include "compiler/base/intern.h"
#include "compiler/syntax/ast.h"

// The tree of a source. After errors (they are in `d`) it is partial and must not be compiled.
ast_file *parse_source(arena *a, interner *names, diag *d, const source *s);

// `--emit=tokens`: one token per line, `LINE:COLUMN NAME text`.
void print_tokens(FILE *out, arena *a, diag *d, const source *s);

// `--emit=ast`: the tree as indented text.
void print_ast(FILE *out, const ast_file *file);

// Parts of expressions: names with something between them, "[H,K]", a string in quotes with the
// escapes of the language.
void print_names(FILE *out, const ast_names *names, const char *separator);
void print_axis_names(FILE *out, const ast_names *axes);
void print_quoted(FILE *out, const char *text);

// Names with something between them.
const char *names_text(arena *a, const ast_names *names, const char *separator);

// One expression in one line, with the fewest parentheses; it parses back to an equal tree. For
// messages and reports.
char *expr_to_text(arena *a, const ast_expr *e);

// `rec fmt`: the source in its standard layout. NULL if it does not parse (the errors are in `d`).
char *format_source(arena *a, interner *names, diag *d, const source *s);
