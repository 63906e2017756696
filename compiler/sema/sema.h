// From syntax tree to typed program: names, imports, sizes, axes and kinds of values, every rule of
// the language about recurrences and functions. Layers and models stay syntax trees; graph checks
// them with the helpers below.
//
//   recurrence r(G, N = 4) {            recurrence r(G, N = 4)
//     input x[G,N]                        input x[G,N]
//     output y[G]                         output y[G] = %3
//     let g = sigmoid(x)                  %0 [G,N] = input x
//     y = mean[N](g)                      %1 [G,N] = sigmoid %0 "g"
//   }                                     %2 [G] = sum[N] %1 ...
#pragma once

#include "compiler/base/embedded.h"
#include "compiler/base/intern.h"
#include "compiler/sema/typed.h"

typedef struct sema sema;

typedef struct sema_options {
  size_override *overrides;  // of -D; `used` is set. An override that fits nothing is an error
  int override_count;
  const embedded_file *stdlib;  // where `import std.NAME` looks: a table as in embedded.h, or NULL
  struct name_uses *uses;       // names.h: what names mean is noted there; or NULL
} sema_options;

// Checks a file and what it imports (loaded into `all`). All errors are reported; after errors the
// result is partial and must not be compiled. Never NULL.
typed_program *sema_check(arena *memory, interner *names, diag *messages, sources *all,
                          const ast_file *file, const sema_options *options);

// What a name means in a file; NULL if it is unknown there.
const typed_name *sema_find(const typed_file *file, const char *name);
// Notes for editors (names.h) that an item is named there, or something that no scope has.
void sema_note_item(const sema *s, span where, const ast_item *item);
void sema_note_name(const sema *s, const ast_name *name, span declared, const char *kind);

// ---- headers and instances -------------------------------------------------------------------

typedef struct size_binding {
  const char *axis;  // interned
  int64_t size;
  bool stands_in;  // for one that only a caller knows
} size_binding;

// A name of an init's header and the number that a train gives it.
typedef struct number_binding {
  const char *name;  // interned
  double number;
} number_binding;

// The axes of a header with their sizes: from `bindings` (a call's), else -D, else the default,
// else at run time. False after an error. A binding that is no name of the header is the caller's
// to refuse.
bool sema_header(sema *s, const typed_name *item, const ast_header *header,
                 const size_binding *bindings, int binding_count, typed_body *body);

// body.c: a recurrence, with the sizes that a layer's call gives it. `call` is noted under its
// errors. NULL after an error.
typed_body *sema_instantiate(sema *s, const typed_name *recurrence, const size_binding *bindings,
                             int binding_count, span call);

// ---- expressions of layers -------------------------------------------------------------------

typedef enum operand_kind {
  OPERAND_ERROR,  // a message was given: say no more
  OPERAND_CONSTANT,
  OPERAND_VALUE,
} operand_kind;

// The result of an expression. A constant has no value yet: sema_value makes one.
typedef struct sema_operand {
  operand_kind kind;
  value_id id;    // VALUE
  double number;  // CONSTANT
  axis_set axes;  // as the source sees it; the value itself may lack some of them and broadcasts
  bool complex;
} sema_operand;

typedef struct sema_scope sema_scope;

// Called for a call whose name is neither a built-in of expressions nor an fn (linear, ssd, Mamba2,
// ...). Checks it and puts its value in this body into `result`, usually an INPUT value that it has
// added. False: unknown name.
typedef bool sema_call_hook(void *context, sema_scope *scope, const ast_expr *call,
                            sema_operand *result);

// A scope for expressions that append to `body`, whose axes are declared names in it. `file` lends
// its fns.
sema_scope *sema_scope_new(sema *s, const typed_file *file, typed_body *body);
void sema_scope_set_hook(sema_scope *scope, sema_call_hook *hook, void *context);

// Names a value that already stands in the body. False, with a message at `where`, if the name is
// taken or reserved.
bool sema_bind_let(sema_scope *scope, const char *name, span where, value_id value);
// Names a number (the header of an `init`).
bool sema_bind_constant(sema_scope *scope, const char *name, span where, double number);
// Adds a tensor to the body (input or param) and names it.
bool sema_bind_tensor(sema_scope *scope, const typed_tensor *tensor);
// Names the numbers of an init's header: from `given` (the train's), else -D, else the default,
// which may use earlier ones. False after an error.
bool sema_bind_header(sema_scope *scope, const typed_name *init, const number_binding *given,
                      int given_count);
// Was the name mentioned by any expression so far?
bool sema_is_used(const sema_scope *scope, const char *name);

// Appends the values of an expression to the scope's body. After an error the result has kind
// OPERAND_ERROR.
sema_operand sema_expression(sema_scope *scope, const ast_expr *expression);
// A value of the scope's body as an operand.
sema_operand operand_of_value(const sema_scope *scope, value_id id);
// The value of an operand; a constant becomes a NUMBER. Not for errors.
value_id sema_value(sema_scope *scope, sema_operand operand);
// A constant expression over sizes, numbers and functions. False after an error; `what` is wanted,
// for the message.
bool sema_constant(sema_scope *scope, const ast_expr *expression, const char *what, double *result);
// The same, which must come out whole and at least `least`.
bool sema_whole(sema_scope *scope, const ast_expr *expression, const char *what, int64_t least,
                int64_t *result);

// Axis names to a set; unknown and repeated ones are errors. `order` (may be NULL) gets the
// positions as written.
bool sema_axes(sema_scope *scope, const ast_names *names, axis_set *set, int *order);

// ---- starts ----------------------------------------------------------------------------------

typedef bool sema_path_hook(void *context, const ast_expr *path);  // is there such a weight?

// Checks `~ expr` for a weight with axes `axes` (positions in the scope's body). With `paths`,
// names of weights may occur (in an `init`). NULL after an error.
const typed_start *sema_check_start(sema_scope *scope, const ast_expr *start, axis_set axes,
                                    sema_path_hook *paths, void *context);

// How many of `args` a step reads.
int start_arity(const start_value *v);

// One line that reads back: `uniform 1 16; log 2; ...`. See start_print.c.
char *start_print(arena *memory, const typed_body *body, const typed_start *start);
