// The syntax tree of a .rec file: what was written, in the order it was written, with no meaning
// added. Built by parser.y through the constructors in ast_build.h, read by sema and by the
// printer. Names are interned (intern.h): compare them with ==. Every node carries the span of its
// text; a node without a text has the zeroed span. A tree that was parsed with errors is partial:
// lists lack entries that could not be read. No pointer below is NULL unless its comment says so.
#pragma once

#include <stdbool.h>

#include "compiler/base/source.h"
#include "compiler/base/vec.h"

typedef struct ast_expr ast_expr;
typedef struct ast_stmt ast_stmt;

// A name where it stands. `text` is NULL for an optional name that is absent.
typedef struct ast_name {
  const char *text;  // interned
  span span;
} ast_name;
typedef VEC(ast_name) ast_names;

typedef VEC(ast_expr *) ast_exprs;
typedef VEC(ast_stmt *) ast_stmts;

// ---- expressions --------------------------------------------------------------------------------

typedef enum ast_expr_kind {
  AST_NUMBER,   // 64  0.5  1e-3
  AST_PERCENT,  // 10%
  AST_STRING,   // "text"
  AST_NAME,     // x: a value, or an axis (its size)
  AST_PATH,     // in_proj.C, layers.3.in_proj
  AST_NEGATE,   // -x
  AST_BINARY,   // a + b
  AST_CALL,     // f(x), sum[K](e), uniform(1, 16), Mamba2(x, N = 64), layers(0..3)
  AST_INDEXED,  // index[N]: a name with axes that is not called
  AST_LAG,      // h[t-1]
  AST_SLICE,    // e[K = 0]
  AST_RENAME,   // e{N -> M}
  AST_TUPLE,    // (a, b)
  AST_REPEAT,   // repeat depth (x = x0) { ... }
  AST_AXES,     // [H, K]: only after `name =` in an argument; may be empty
  AST_MIX,      // mix { 0.9: state_passing, 0.1: zero }: only as a setting's value or a kind
} ast_expr_kind;

typedef enum ast_binary_op {
#define BINARY_OP(id, word, sign, level, left, right, operation) AST_##id,
#include "compiler/syntax/binary_ops.def"
#undef BINARY_OP
} ast_binary_op;

typedef enum ast_arg_kind {
  AST_ARG_POSITIONAL,  // value
  AST_ARG_NAMED,       // name = value
  AST_ARG_ARROW,       // value -> to, as in ramp(1 -> 0)
  AST_ARG_RANGE,       // value .. to, as in layers(0..3)
} ast_arg_kind;

typedef struct ast_arg {
  ast_arg_kind kind;
  span span;
  ast_name name;    // NAMED; else absent
  ast_expr *value;  // the value, or the left end
  ast_expr *to;     // ARROW, RANGE; else NULL
} ast_arg;
typedef VEC(ast_arg) ast_args;

// [axis = value] of a slice, (name = value) of a repeat.
typedef struct ast_binding {
  ast_name name;
  ast_expr *value;
  span span;
} ast_binding;
typedef VEC(ast_binding) ast_bindings;

// {from -> to}
typedef struct ast_renaming {
  ast_name from, to;
  span span;
} ast_renaming;
typedef VEC(ast_renaming) ast_renamings;

// weight: kind
typedef struct ast_mix_entry {
  ast_expr *weight;
  ast_expr *kind;  // NAME, CALL or MIX
  span span;
} ast_mix_entry;
typedef VEC(ast_mix_entry) ast_mix_entries;

enum { AST_HEIGHT_MAX = 1000 };

struct ast_expr {
  ast_expr_kind kind;
  span span;  // from its first to its last byte; parentheses around it are not part of it
  // nodes on the longest path down, at most AST_HEIGHT_MAX: recursive passes are safe
  int height;
  union {
    struct {
      double value;
      const char *text;  // as written, interned
      bool is_integer;   // digits only
    } number;
    struct {
      double value;      // 10% is 0.1
      const char *text;  // as written with the sign, interned
    } percent;
    struct {
      const char *text;  // escapes resolved, NUL-terminated, may be empty
    } string;
    ast_name name;
    struct {
      ast_names steps;  // at least two; a step may be a number's text
    } path;
    struct {
      ast_expr *operand;
    } negate;
    struct {
      ast_binary_op op;
      span op_span;
      ast_expr *left, *right;
    } binary;
    struct {
      ast_name callee;
      ast_names axes;  // f[K](..): in the order written; f(..): none
      ast_args args;   // possibly none
    } call;
    struct {
      ast_name name;
      ast_names axes;  // at least one
    } indexed;
    struct {
      ast_name name;    // h
      ast_name time;    // t: the parser has checked it
      ast_expr *steps;  // the NUMBER behind the minus; a whole number
    } lag;
    struct {
      ast_expr *operand;
      ast_bindings slices;  // at least one: axis = position
    } slice;
    struct {
      ast_expr *operand;
      ast_renamings renamings;  // at least one
    } rename;
    struct {
      ast_exprs items;  // at least two
    } tuple;
    struct {
      ast_expr *count;       // a NAME, a whole NUMBER, or any expression that stood in parentheses
      ast_bindings carried;  // at least one: name = first value
      ast_expr *body;        // the body as one expression, or NULL
      ast_stmts statements;  // else: AST_LET and AST_ASSIGN, at least one
    } repeat;
    struct {
      ast_mix_entries entries;  // at least one
    } mix;
    struct {
      ast_names names;
    } axes;
  };
};

// ---- statements of recurrences, layers and models -----------------------------------------------

// A name that is being declared, with its stated axes.
typedef struct ast_bind {
  ast_name name;
  ast_names axes;  // let a[G]: stated; let a: none, they are inferred
  span span;
} ast_bind;
typedef VEC(ast_bind) ast_binds;

// One declared tensor. `input reset` has no axes.
typedef struct ast_decl {
  ast_name name;
  ast_names axes;
  ast_name type;         // `: complex`, or absent
  ast_expr *low, *high;  // `in [low, high]`; NULL without a range
  span range_span;
  ast_expr *start;  // param and state only: `~ start`, or NULL
  ast_expr *value;  // output only: `= value`, or NULL
  const char *doc;  // the `///` lines before it without the slashes, joined by '\n', or NULL
  span span;
} ast_decl;
typedef VEC(ast_decl) ast_decls;

typedef enum ast_stmt_kind {
  AST_INPUT,   // input a[G], b
  AST_PARAM,   // param w[G] ~ 1
  AST_STATE,   // state h[G,N]
  AST_OUTPUT,  // output y[G], output y[G] = expr
  AST_LET,     // let a = e, let a[G] = e, let (a[G], b) = e
  AST_ASSIGN,  // a = e
} ast_stmt_kind;

struct ast_stmt {
  ast_stmt_kind kind;
  span span;
  const char *doc;  // of LET and ASSIGN, else NULL (the declarations have their own)
  union {
    ast_decls decls;  // INPUT, PARAM, STATE, OUTPUT: at least one
    struct {
      bool is_tuple;    // written with parentheses
      ast_binds binds;  // one without parentheses, at least one with them
      ast_expr *value;
    } let;
    struct {
      ast_name name;
      ast_expr *value;
    } assign;
  };
};

// ---- items --------------------------------------------------------------------------------------

// One name of a header: `G`, or `N = 128`.
typedef struct ast_header_axis {
  ast_name name;
  ast_expr *value;  // or NULL
  span span;
} ast_header_axis;
typedef VEC(ast_header_axis) ast_header;

// path ~ expr in an init.
typedef struct ast_init_entry {
  ast_names path;  // at least one step
  ast_expr *start;
  const char *doc;  // or NULL
  span span;
} ast_init_entry;
typedef VEC(ast_init_entry) ast_init_entries;

// One line of a setting's block: `0..20: kind`, `layers(0..3): kind`, `kind`.
typedef struct ast_setting_entry {
  ast_expr *from, *to;  // the range's edges (NAME, NUMBER or PERCENT), both NULL without one
  ast_expr *filter;     // the CALL before the colon, or NULL; never together with a range
  ast_expr *kind;       // NAME, CALL or MIX
  span span;
} ast_setting_entry;
typedef VEC(ast_setting_entry) ast_setting_entries;

// One setting of a train block: a name and exactly one value.
typedef struct ast_setting {
  ast_name name;                // `model` and `init` too
  ast_expr *value;              // an expression or a MIX; NULL if the value is a block
  ast_setting_entries entries;  // { ... }
  span span;
} ast_setting;
typedef VEC(ast_setting) ast_settings;

typedef enum ast_item_kind {
  AST_RECURRENCE,
  AST_LAYER,
  AST_MODEL,
  AST_FN,
  AST_IMPORT,
  AST_INIT,
  AST_TRAIN,
  AST_EVALUATE,
} ast_item_kind;

typedef struct ast_item {
  ast_item_kind kind;
  span span;
  const char *doc;  // the `///` lines before it, as in ast_decl, or NULL
  ast_name name;    // absent for imports
  union {
    struct {
      ast_header header;
      ast_stmts statements;
    } body;  // RECURRENCE, LAYER, MODEL
    struct {
      ast_names axes;    // fn unit[K](x)
      ast_names params;  // at least one
      ast_expr *value;
    } fn;
    struct {
      const char *file;  // import "file.rec": the text, else NULL
      ast_names path;    // import std.mamba2: the steps, else empty
      span target_span;  // of the string or path
    } import;
    struct {
      ast_header header;
      ast_name target;  // for NAME
      ast_init_entries entries;
    } init;
    struct {
      ast_name after;  // or absent
      ast_settings settings;
    } train;
    struct {
      ast_name after;   // or absent
      ast_exprs tasks;  // each a NAME or a CALL
    } evaluate;
  };
} ast_item;
typedef VEC(ast_item *) ast_items;

typedef struct ast_file {
  const source *source;
  ast_items items;
} ast_file;
