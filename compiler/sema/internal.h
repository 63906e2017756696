// What the files of sema share: the checker, its scopes and messages. No other layer includes this.
#pragma once

#include "compiler/sema/names.h"
#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"

typedef enum function_state { FUNCTION_UNSEEN, FUNCTION_ACTIVE, FUNCTION_DONE } function_state;

// An fn of some file. A wrong one is reported once, where it stands; calls of it are errors without
// a message.
typedef struct function {
  const ast_item *item;
  const typed_file *file;
  function_state state;
  bool wrong;
} function;

// The stack is finite: expressions inside each other, those of called functions included.
enum { DEEPEST_NESTING = 2000, DEEPEST_CALLS = 64 };

// A text with more mistakes is no program; the rest is not looked at.
enum { MOST_ERRORS = 1000 };

struct sema {
  arena *memory;
  interner *names;
  diag *messages;
  sources *all;
  sema_options options;  // a copy: layers ask for instances later
  typed_program *program;
  VEC(function *) functions;
  name_map function_index;  // by item
  int depth;                // of expressions and functions being checked inside each other
  // an import could not be read or parsed: names may be missing, bodies are not checked
  bool broken;
  const char *word_t, *word_pi, *word_complex, *word_std;
};

// ---- built-in functions (builtin.c) ----------------------------------------------------------

typedef enum builtin_kind {
  BUILTIN_ELEMENTWISE,
  BUILTIN_REDUCTION,
  BUILTIN_INDEX,
  BUILTIN_FOLD,
  BUILTIN_START,  // only after `~`
  BUILTIN_LAYER,  // only in layers and models
} builtin_kind;

typedef struct builtin {
  const char *name;
  builtin_kind kind;
  int arity;
  value_op op;      // ELEMENTWISE; REDUCTION: the main step
  bool complex_ok;  // takes complex operands
} builtin;

// The row of this name and kind, or NULL.
const builtin *builtin_find(const char *name, builtin_kind kind);
// Any row of this name: such a name cannot be declared as a function.
const builtin *builtin_any(const char *name);
// The i-th built-in that an expression may call, for suggestions; NULL beyond the last.
const char *builtin_name(int i);
// The i-th built-in of a kind; NULL beyond the last.
const char *builtin_name_of(builtin_kind kind, int i);

// What an operator means.
value_op operation_of(ast_binary_op op);

// The value of an elementwise operation on constants. False if the operation has no constant value.
bool fold_constant(value_op op, const double *numbers, double *result);

// ---- scopes (scope.c) ------------------------------------------------------------------------

typedef enum symbol_kind {
  SYMBOL_AXIS,
  SYMBOL_INPUT,
  SYMBOL_PARAM,
  SYMBOL_STATE,
  SYMBOL_OUTPUT,
  SYMBOL_LET,
  SYMBOL_BINDER,     // s of fold[M](s = ...)
  SYMBOL_PARAMETER,  // of an fn
} symbol_kind;

typedef struct symbol {
  symbol_kind kind;
  const char *name;
  span span;
  int index;           // AXIS: in body.axes. INPUT .. OUTPUT: in body.tensors
  sema_operand value;  // LET, BINDER, PARAMETER, and STATE, OUTPUT once assigned
  bool declared;       // its statement has been reached
  bool assigned;       // STATE, OUTPUT: its assignment has been reached
  bool used;
  bool hidden;             // BINDER: its fold is over
  span assigned_at;        // STATE, OUTPUT: where the text assigns it first; no place if nowhere
  struct symbol *earlier;  // of the same name: a binder whose fold is over
} symbol;

// Values that are made once: leaves, slices and renames, by a hash of what they are.
typedef struct shared_value {
  value_id id;
  int next;  // in the same bucket, -1 for none
} shared_value;

enum { SHARED_BUCKETS = 1024, MOST_EXPRESSIONS = 1 << 20 };

// What all scopes of one body share.
typedef struct body_state {
  int slice[TYPED_MAX_AXES];  // inside fold[M]: the current entry of M, else -1
  bool too_large;             // the message about its size was given: nothing more is built
  int expressions;            // checked so far, repeats by folds and calls included
  int buckets[SHARED_BUCKETS];
  VEC(shared_value) shared;
} body_state;

struct sema_scope {
  sema *sema;
  const typed_file *file;
  typed_body *body;
  body_state *state;
  VEC(symbol *) symbols;
  name_map index;                   // the latest symbol of each name
  const struct sema_scope *caller;  // the scope that called this fn, or NULL
  const char *function;             // the fn's name, or NULL
  span call;                        // where it was called; no place outside of calls
  sema_call_hook *hook;
  void *hook_context;
};

extern const sema_operand operand_error;

sema_operand operand_constant(double number);

symbol *scope_find(const sema_scope *scope, const char *name);
// The same for a name of the text, which is noted for editors.
symbol *scope_lookup(const sema_scope *scope, const ast_name *name);
// Adds a name; NULL after the message that it is taken or reserved.
symbol *scope_declare(sema_scope *scope, symbol_kind kind, const char *name, span where);
const char *symbol_kind_text(symbol_kind kind);
// Marks every name of an expression as used: after an error in it nothing is said about unused
// names.
void scope_use_all(sema_scope *scope, const ast_expr *e);

// The axis of this name, which must be one of the header. -1 after a message.
int scope_axis(sema_scope *scope, const ast_name *name);
// An axis of brackets (-1: a message has said that there is none) to the others; false after the
// message that it stands there already.
bool add_axis(sema_scope *scope, const ast_name *name, int axis, axis_set *set);

// ---- for editors (names.c) -------------------------------------------------------------------

void note_symbol_use(const sema_scope *scope, const symbol *s, span where);
// "recurrence", "function", ..
const char *item_kind_text(ast_item_kind kind);

// ---- messages (message.c) --------------------------------------------------------------------

// An error inside a scope; in an fn the calls that led there are noted. Returns false.
bool scope_error(const sema_scope *scope, span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// The same. Returns operand_error.
sema_operand wrong_operand(const sema_scope *scope, span where, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void note_symbol(const sema_scope *scope, const symbol *s);
int line_of(const sema *s, span where);

// "[G,K]", or "no axes".
const char *axes_text(const sema_scope *scope, axis_set axes);
// The same in the order of a declared tensor.
const char *tensor_axes_text(const sema_scope *scope, const typed_tensor *tensor);
// "q[G,K]", "(q * k)[G,K]", "q, which has no axes".
const char *with_axes_text(const sema_scope *scope, const ast_expr *e, axis_set axes);
// An expression for a message: its text if that is short.
const char *short_text(const sema *s, const ast_expr *e);
// "'K'"; where an fn's axis K stands for another one: "'K', which is N in this call".
const char *axis_here_text(const sema_scope *scope, const char *written, int axis);
// A number as the source would write it.
const char *number_text(const sema *s, double number);

// Collects names that resemble `name`; `best` is the closest so far or NULL.
typedef struct suggestion {
  const char *name, *best;
  int distance;
  int seen;  // only so many candidates are looked at
} suggestion;
void suggest(suggestion *s, const char *candidate);
// "; did you mean 'x'?" or "".
const char *suggestion_text(const sema *s, const suggestion *found);
// Behind the message: the name that was meant, in place of the one at `where`.
void offer_suggestion(const sema *s, const suggestion *found, span where);

// ---- expressions (expression.c, call.c, fold.c, build.c) -------------------------------------

sema_operand check_expression(sema_scope *scope, const ast_expr *e);
// As check_expression, refusing complex values; `user` names who wants it real: "sigmoid".
sema_operand check_real(sema_scope *scope, const ast_expr *e, const char *user);
sema_operand check_call(sema_scope *scope, const ast_expr *e);
sema_operand check_fold(sema_scope *scope, const ast_expr *e);
// The axes in brackets, which the operand must have. 0 after an error.
axis_set check_operand_axes(sema_scope *scope, const ast_names *names, const ast_expr *operand,
                            sema_operand value);
// Reports that the axis has no compile-time size although it `what` ("is sliced").
void report_runtime_axis(const sema_scope *scope, int axis, span where, const char *what);
// Positional arguments, exactly `count`; false after a message.
bool check_arity(const sema_scope *scope, const ast_expr *call, const char *signature, int count);
// "expected the axes of sum, found '('": the call lacks its brackets.
void report_missing_axes(const sema_scope *scope, const ast_expr *call, const char *axes);

// New values; operands that are errors give errors, constants are computed, the size of the body is
// limited.
sema_operand build_unary(sema_scope *scope, value_op op, sema_operand a, span where);
sema_operand build_binary(sema_scope *scope, value_op op, sema_operand a, sema_operand b,
                          span where);
sema_operand build_operation(sema_scope *scope, value_op op, const sema_operand *args, span where);
sema_operand build_value(sema_scope *scope, typed_value value);
// The message that a body is too large, once.
sema_operand refuse_growth(sema_scope *scope, span where);
// Forgets the values from `count` on, which nothing uses.
void drop_values(sema_scope *scope, int count);
// `exponent_place`: where messages about the exponent point; `where`: the whole power.
sema_operand build_power(sema_scope *scope, sema_operand base, sema_operand exponent,
                         span exponent_place, span where);
sema_operand build_reduction(sema_scope *scope, value_op op, sema_operand a, axis_set over,
                             span where);
sema_operand build_slice(sema_scope *scope, sema_operand a, int axis, int64_t entry, span where);
sema_operand build_rename(sema_scope *scope, sema_operand a, int from, int to, span where);
sema_operand build_complex(sema_scope *scope, sema_operand a);
// Inside folds, the current slice of a value that has a folded axis.
sema_operand build_current_slice(sema_scope *scope, sema_operand a, span where);

// ---- the rest --------------------------------------------------------------------------------

// function.c: names, arities and recursion of an fn, checked once. Returns whether it can be
// called.
bool check_function(sema *s, const typed_name *fn);

// unknown_function.c: what to write in place of a call of this name.
const char *unknown_function_hint(const sema_scope *scope, const char *name);
// A name that stands in its place; NULL: none is near.
const char *function_meant(const sema_scope *scope, const char *name);

// imports.c: loads imports and fills the name spaces of every file.
void resolve_files(sema *s, const ast_file *file);
