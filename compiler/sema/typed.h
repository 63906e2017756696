// The typed program: what sema hands to every later layer.
//
// A recurrence body is a flat list of values in evaluation order (operands stand before their
// users), each with its axes and its element kind. Functions are inlined, folds are written out,
// names are resolved; nothing later looks at the AST of a recurrence again. The recurrence IR
// (recurrence.h) is this same list after normalisation, with the structure of each state beside it.
//
//   let a = sigmoid(x)            %3 [H,K] = input x
//   S = a * S[t-1] + k * v        %4 [H,K] = sigmoid %3        "a"
//                                 %5 [H,K,V] = previous S
//                                 %6 [H,K,V] = mul %4 %5
//
// Elementwise operands align by axis name; a missing axis broadcasts. `axis_set` holds axes by
// their position in the header, and "the order of the axes" of a value is always header order.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/base/source.h"
#include "compiler/base/vec.h"
#include "compiler/syntax/ast.h"

#define TYPED_MAX_AXES \
  48 /* per recurrence; leaves room for time axes in an axis_set of later layers */
#define TYPED_RUNTIME_SIZE (-1)
#define TYPED_MAX_VALUES 2048 /* of one body: code for more takes above 30 s or 2 GB to compile */

typedef uint64_t axis_set;
typedef int32_t value_id;  // position in body.values; -1 for none
#define NO_VALUE ((value_id) - 1)

static inline axis_set axis_bit(int axis) { return (axis_set)1 << axis; }
static inline bool axis_in(axis_set set, int axis) { return (set >> axis) & 1; }
// The first axis of a set that has some.
static inline int axis_first(axis_set set) { return __builtin_ctzll(set); }
static inline axis_set axes_renamed(axis_set axes, int from, int to) {
  return axis_in(axes, from) ? (axes & ~axis_bit(from)) | axis_bit(to) : axes;
}

// A header axis.
typedef struct typed_axis {
  const char *name;  // interned
  // compile-time size, or TYPED_RUNTIME_SIZE: told by the tensors at run time
  int64_t size;
  // a run-time size computed from other axes (E = 2*D with D at run time), else NULL
  const ast_expr *size_expr;
  // run-time size: at least this many, for slices read entry least - 1; else 0
  int64_t least;
  bool summed;     // some reduction, slice or rename of the source consumes it
  bool stands_in;  // the size is none of the program's: a layer is checked alone
  span span;
} typed_axis;

typedef enum value_op {
#define VALUE_OP(id, text, arity, class, linear, called, cost, complex_cost, value) VALUE_##id,
#include "compiler/sema/value_ops.def"
#undef VALUE_OP
  VALUE_OP_COUNT
} value_op;

// One step of a start expression (`~ ...`).
typedef enum start_kind {
  START_VALUE,  // an elementwise row of value_ops.def, NUMBER or AXIS_SIZE: see `op`
  START_INDEX,  // 0, 1, .. along `axis`
  // uniform(args[0], args[1]): every START_ draw is one draw per entry of the parameter
  START_UNIFORM,
  START_LOGUNIFORM,    // exp(uniform(log args[0], log args[1]))
  START_NORMAL,        // normal(mean args[0], standard deviation args[1])
  START_INV_SOFTPLUS,  // log(exp(args[0]) - 1)
  START_IDENTITY,      // the weight that hands its input through
  START_LAYER,         // the weight's layer, counted from 0
  START_LAYERS,        // how many layers the model has
  START_LEGS_IMAG,     // HiPPO-LegS of size args[0]: imaginary part of eigenvalue `axis`
  START_LEGS_INPUT,    // the length of its input along that eigenvector
  START_OTHER_DRAW     // `path`: the very draw that weight would start with (init only)
} start_kind;

typedef struct start_value {
  start_kind kind;
  value_op op;    // START_VALUE
  int args[3];    // earlier positions in the list
  double number;  // NUMBER
  int axis;       // INDEX, AXIS_SIZE: position among the axes that the start was checked against
  int exponent;   // WHOLE_POWER
  bool complex;
  const char *path;  // OTHER_DRAW: as written, `in_proj.C`
} start_value;

// A start expression after checks: functions inlined, a flat list like a body, the last value being
// the result. A value that is used twice is drawn once. The text form (sema.h: start_print) is what
// artifacts carry.
typedef struct typed_start {
  VEC(start_value) values;
  const ast_expr *source;
} typed_start;

// What a state is before the first step of a sequence, where the caller does not give it (`state
// m[D] ~ -1e38`, `~ m0`).
typedef struct typed_begin {
  // position in tensors, above the state's; it has some of the state's axes; NO_PARAMETER: `number`
  int parameter;
  double number[2];  // real and imaginary part
} typed_begin;
enum { NO_PARAMETER = -1 };

typedef enum tensor_kind { TENSOR_INPUT, TENSOR_PARAM, TENSOR_STATE, TENSOR_OUTPUT } tensor_kind;

// An input, parameter, state or output.
typedef struct typed_tensor {
  tensor_kind kind;
  const char *name;  // interned
  const char *doc;   // text of `///`, or NULL
  int axis_count;
  int *axes;  // header positions in the order declared: the order in memory
  axis_set axis_set;
  bool complex;   // two numbers an element (re, im) in memory
  bool promised;  // `in [low, high]`
  bool wide,
      // stored in full precision where other tokens and their gradients have 16 bits. Such tensors
      // are made of others (recurrence_delay_lags), or are gradients that are added to afterwards
      wide_gradient;
  double low, high;
  const typed_start *start;  // param: `~ expr`, else NULL
  const typed_begin *begin;  // state: `~ expr`, else NULL: 0
  // state, output: the value after this step, -1 for inputs and params. It may lack some
  // axes of the tensor (`h = 0`): it broadcasts. It is complex exactly if the tensor is
  value_id assigned;
  span span;
} typed_tensor;

// The lag buffer of an input or a let: its last `depth` values, carried like a state, named
// `NAME.lag`. `source` may lack some of `axes` (`let a[G] = 1`): it broadcasts.
typedef struct typed_lag {
  const char *name;  // the source's name, without `.lag`
  int input;         // position of the lagged input in body.tensors, or -1 for a let
  value_id source;   // the value that is remembered (an INPUT value, or the let's)
  int depth;         // largest lag used
  axis_set axes;     // in memory: an input's in its declared order, a let's in header order
  bool complex;
} typed_lag;

typedef struct typed_value {
  value_op op;
  value_id args[3];
  // exactly the axes that the operands give it; broadcasting is never a value of its own
  axis_set axes;
  axis_set over;  // REDUCE: the axes removed
  bool complex;
  bool kink;          // SQRT: gradient 0 at 0
  double number;      // NUMBER
  int index, index2;  // tensor, lag, axis or exponent: see value_ops.def
  int steps;          // LAG: steps back; SLICE: entry
  const char *name;   // the let, state or output that names it, or NULL
  span span;          // where the source wrote it
} typed_value;

// A body: what recurrences are made of (layers make bodies for their pointwise parts, too).
typedef struct typed_body {
  const char *name;
  const char *doc;
  span span;
  VEC(typed_axis) axes;
  VEC(typed_tensor) tensors;  // in the order declared
  VEC(typed_lag) lags;        // in the order first used
  VEC(typed_value) values;
} typed_body;

// What a name of a file means: one space for recurrences, fns, layers and models, own and imported.
typedef struct typed_name {
  const char *name;
  const ast_item *item;
  struct typed_file *file;  // where the item stands: its own names are looked up there
} typed_name;

typedef struct typed_import {
  struct typed_file *file;
  span span;  // what stands behind `import`
} typed_import;

// A source file and the names that its items see.
typedef struct typed_file {
  const ast_file *file;
  // recurrences, fns, layers, models: own ones first, then those of its imports
  VEC(typed_name) names;
  VEC(typed_name) inits;  // a space of their own
  VEC(typed_import) imports;
  struct name_map *name_index;  // positions in names and inits, by name
  struct name_map *init_index;
} typed_file;

// A program after name resolution: the file's own items and what it imports; layers and models
// still as AST.
typedef struct typed_program {
  typed_file *main;
  // own and imported by the file itself, with the sizes of their headers
  VEC(typed_body *) recurrences;
  // own and imported layers and models, then inits, then own trains, evaluates
  VEC(typed_name) layers;
  // the file first, then every import, for embedding: files[i]->file->source
  VEC(typed_file *) files;
  struct sema *sema;  // for sema.h: instances of recurrences, expressions of layers
} typed_program;

// `-D axis=size` and `-D item.axis=size` of the command line.
typedef struct size_override {
  const char *item;  // NULL: wherever a declaration of the file has that axis
  const char *axis;
  int64_t size;
  bool used;
} size_override;

int value_arity(value_op op);
const char *value_op_text(value_op op);
// Looks an operation up by its text; VALUE_OP_COUNT if there is none.
value_op value_op_find(const char *text);
// The result of an elementwise operation for real operands (the column `value`), which has three
// entries.
typedef double value_function(const double *operands);
value_function *value_function_of(value_op op);
// Is the result linear over the real numbers in these operands together (bit k: operand k), the
// others held (the column `linear`)?
bool value_is_linear_in(value_op op, unsigned operands);
// Is it linear, but entries or parts of its operands stand elsewhere in the result?
bool value_moves_entries(value_op op);
// Multiply-adds of one entry (the columns `cost` and `complex cost`).
int value_cost(const typed_value *v);

// Appends a value; its axes and element kind follow from the operands by the row's class.
// For synthesised bodies (layers) and normalisation. The caller has checked that the operation is
// legal.
value_id body_append(arena *arena, typed_body *body, typed_value value);
// Equal values are one operation of the same operands; names and places do not count.
uint64_t hash_typed_value(const typed_value *v);
bool same_typed_value(const typed_value *a, const typed_value *b);
// The axes and element kind that body_append would give; operands must be legal positions.
void value_set_shape(const typed_body *body, typed_value *value);
typedef enum value_class {
  CLASS_LEAF,
  CLASS_REAL,
  CLASS_FIELD,
  CLASS_COMPARE,
  CLASS_TO_REAL,
  CLASS_TO_COMPLEX,
  CLASS_REDUCE,
  CLASS_AXIS
} value_class;
value_class value_op_class(value_op op);

// Removes the values, and then the lag buffers, on which no state and no output depends.
void body_prune(arena *arena, typed_body *body);

// Does a state start from something else than 0?
bool body_begins(const typed_body *body);

// Prints a body as `--emit=types` does.
char *typed_print_body(arena *arena, const typed_body *body);
// The size of an axis that has `size_expr`, from those of the others; NaN: it has none.
double typed_axis_value(const typed_body *body, int axis, const int64_t *sizes);
// "H,K" in header order; of a tensor in the order of memory.
const char *body_axes_text(arena *arena, const typed_body *body, axis_set axes);
// The axis of this name; -1: it has none.
int body_axis_named(const typed_body *body, const char *name);
const char *body_order_text(arena *arena, const typed_body *body, const int *axes, int count);
// Parts that other texts of bodies share: "input", "  input x[H,K] in [0, 1]", and what a leaf
// reads, " x".
const char *tensor_kind_text(tensor_kind kind);
// What a state starts from: "m0", "-1e+38", of a complex state "(1, 0)".
char *begin_text(arena *arena, const typed_body *body, const typed_tensor *state);
// " : complex in [0, 1]", and " ~ m0" of a state.
void print_tensor_kind(FILE *out, const typed_body *body, const typed_tensor *tensor);
void print_tensor(FILE *out, const typed_body *body, const typed_tensor *tensor);
void print_leaf(FILE *out, const typed_body *body, const typed_value *v);
// "[H,K]" in header order, "[]" for none.
void print_axis_list(FILE *out, const typed_body *body, axis_set axes);
