// The tile IR: straight-line programs over tensors with named axes.
//
// A program computes one STEP of a recurrence, or one CHUNK of consecutive steps. In a chunk,
// values may have the time axis `t`, and a second one `s` for pairs of steps. A program has no
// loops. The schedule runs it once per step or chunk, forward or in reverse, and hands the state
// from one run to the next. There are no transposes and no positions: elementwise operations align
// axes by name and broadcast, `dot` names the axes that it contracts.
//
//   %7 [t,G,R]   = softplus %6
//   %9 [t,s,G]   = dot %4 %8 over N            scores, shared by the heads of a group
//   %12 [t,G,R,P] = dot %10 %11 over s
//
// Sections. A value that depends on nothing but parameters is computed once before the loop over
// time (prologue). `accumulate x` is the sum of x over all runs of the program; what depends on it
// is computed once after the loop (epilogue). Gradients of parameters are made that way. Everything
// else is the body. The section of a value follows from its operands; it is not stored.
//
// Grid axes. Some axes (batch always; those in `grid`) may be cut into independent instances by the
// schedule, each with one entry or a range of entries. Nothing in a forward program consumes them.
// In a backward program SUM and DOT may: they add up the entries of their own instance. The value
// is then PARTIAL over that axis, and so are values made of it (tile_partial). Reverse mode keeps
// to one rule: terms that are added to a partial value are partial over the same axes. A term that
// is not is counted in entry 0 alone (`sum (select (index == 0) x 0)`). For every result:
//   - the value is partial over a grid axis: the stores of the instances along it are summed (a state's cotangent
//     stays partial from run to run where its place says so, and is summed after the last);
//   - it neither has a grid axis nor is partial over it: the instances with index 0 of that axis store it.
// Complex numbers do not exist here: builders make pairs of tiles.
#pragma once

#include "compiler/recurrence/recurrence.h"

#define TILE_RUNTIME_SIZE (-1)

// Entries that an axis of run-time size is taken to have where work, memory and layouts are
// compared. A guess.
#define TILE_TYPICAL_SIZE 64
#define TILE_MAX_AXES 64 /* of a program: as many as an axis_set holds */

typedef int32_t tile_id;
#define NO_TILE ((tile_id) - 1)

typedef enum tile_form { TILE_STEP, TILE_CHUNK } tile_form;

typedef struct tile_axis {
  const char *name;
  // compile-time size, TILE_RUNTIME_SIZE: told at run time. Time axes: the chunk length
  int64_t size;
  int body_axis;  // position in the body's header, -1 for time axes and axes of the program alone
} tile_axis;

// What an argument or a result of a program is, seen from the recurrence.
typedef enum tile_role {
  // arguments
  TILE_INPUT,  // input `tensor` at these steps
  TILE_PARAM,  // parameter `tensor`
  TILE_STATE,  // state before the first of these steps (a TENSOR_STATE, or a slot of a lag buffer)
  // backward: value `stash` of the forward pass at these steps. In step form the steps are computed
  // again; in chunk form forward has saved it
  TILE_STASH,
  TILE_D_OUTPUT,      // cotangent of output `tensor`
  TILE_D_NEXT_STATE,  // cotangent of the state after these steps
  // results
  TILE_OUTPUT,
  TILE_NEXT_STATE,
  TILE_KEEP,  // value `stash`, kept for the backward run of the same steps
  TILE_D_INPUT,
  TILE_D_PARAM,
  TILE_D_STATE
} tile_role;

// Names the memory that an argument is read from or a result is written to.
typedef struct tile_place {
  tile_role role;
  int tensor;      // position in body.tensors; -1 for a lag buffer or a stash
  int lag;         // position in body.lags, else -1
  int slot;        // lag buffer: 0 is the oldest entry, depth - 1 the newest
  int component;   // 0: real part or the real tensor, 1: imaginary part
  int stash;       // TILE_STASH, TILE_KEEP
  int axis_count;  // axes in memory order, time not among them; complex pairs not either
  int axes[TYPED_MAX_AXES];
  bool time;   // one per step: in chunk form the value also has axis t
  bool ahead;  // an argument of steps: the row of the step after; of the last one, any row
  // not the state (or its cotangent), but what a part of time leaves of it (tile_transfer)
  bool transfer;
  // with `transfer`, of states that are made of each other: 1 + the state (a tensor) that the
  // factor multiplies; 0: the state itself
  int source;
  // slice summaries: 1 + the running maximum (a tensor) that the state is held relative to; a
  // maximum has its own number; 0: none. With `transfer`: a sum of logarithms (recurrence_relative)
  int relative;
  // TILE_D_NEXT_STATE, TILE_D_STATE: grid axes of run-time size that the state lacks, and over
  // which its cotangent is partial from run to run. The cotangent of the first run is in entry 0
  // alone
  axis_set partial;
  const char *name;  // for people: the source's name; `x.lag` for a lag buffer; NULL if it has none
} tile_place;

typedef enum tile_op {
#define TILE_OP(id, ...) TILE_##id,
#include "compiler/tile/ops.def"
#undef TILE_OP
  TILE_OP_COUNT
} tile_op;

// What holds of an operation, whatever its operands are: see ops.def.
typedef enum tile_property {
#define TILE_PROPERTY(word) TILE_POSITION_OF_##word,
#include "compiler/tile/ops.def"
#undef TILE_PROPERTY
#define TILE_PROPERTY(word) TILE_##word = 1 << TILE_POSITION_OF_##word,
#include "compiler/tile/ops.def"
#undef TILE_PROPERTY
} tile_property;

typedef struct tile_value {
  tile_op op;
  tile_id args[3];
  axis_set axes;  // bits over tile_program.axes
  axis_set over;  // reductions, dot: the axes removed
  double number;
  // argument, axes, slice entry, distance: see ops.def, and the names by operation below
  int index, index2, index3;
  const char *name;  // for people: the source's name, or NULL
  // what the source wrote it for; of derivatives the value that they belong to
  span where;
} tile_value;

// ---- index, index2 and index3 by operation ---------------------------------------------------

// ARGUMENT
static inline int tile_argument_number(const tile_value *v) { return v->index; }
// AXIS_SIZE, INDEX
static inline int tile_index_axis(const tile_value *v) { return v->index; }
// RENAME
static inline int tile_renamed_from(const tile_value *v) { return v->index; }
static inline int tile_renamed_to(const tile_value *v) { return v->index2; }
// SLICE, PLACE
static inline int tile_entry_axis(const tile_value *v) { return v->index; }
static inline int tile_entry(const tile_value *v) { return v->index2; }
// SHIFT
static inline int tile_shift_axis(const tile_value *v) { return v->index; }
static inline int tile_shift_distance(const tile_value *v) { return v->index2; }
// SPLIT, JOIN
static inline int tile_whole_axis(const tile_value *v) { return v->index; }
static inline int tile_outer_axis(const tile_value *v) { return v->index2; }
static inline int tile_inner_axis(const tile_value *v) { return v->index3; }
// PREFIX, RUNNING_PRODUCT; SEGMENT, SEGMENT_ADJOINT and CAUSAL, whose other steps are those of the pairs
static inline int tile_step_axis(const tile_value *v) { return v->index2; }
static inline int tile_other_step_axis(const tile_value *v) { return v->index3; }
static inline bool tile_is_exclusive(const tile_value *v) { return v->index & 1; }
static inline bool tile_is_from_end(const tile_value *v) { return v->index & 2; }
static inline bool tile_is_running(tile_op op) {
  return op == TILE_PREFIX || op == TILE_RUNNING_PRODUCT;
}
// SOLVE: axes of the matrix; the right side and the result have the row axis
static inline int tile_row_axis(const tile_value *v) { return v->index; }
static inline int tile_column_axis(const tile_value *v) { return v->index2; }
static inline bool tile_is_transposed(const tile_value *v) { return v->index3; }
// SCAN goes along tile_step_axis, too
static inline bool tile_is_scan(tile_op op) {
  return op == TILE_SCAN || op == TILE_SCAN_PAIR || op == TILE_SCAN_JOINT;
}
// SCAN_PAIR: of two entries, real and imaginary part. SCAN_JOINT: of the numbers that make each
// other, those before the step being on `over`.
static inline int tile_part_axis(const tile_value *v) { return v->index3; }
enum { TILE_PARTS_MAX = 8 };
static inline int tile_from_axis(const tile_value *v) { return v->over ? axis_first(v->over) : -1; }
static inline axis_set tile_scan_axes(const tile_value *v) {
  axis_set steps = axis_bit(tile_step_axis(v));
  return v->op == TILE_SCAN ? steps : steps | axis_bit(tile_part_axis(v));
}
// AT_END
static inline int tile_steps_before_end(const tile_value *v) { return v->index2; }

typedef struct tile_result {
  tile_place place;
  tile_id value;
} tile_result;

typedef struct tile_program {
  arena *arena;      // where its parts live
  const char *name;  // ssd.forward, ssd.backward, ..
  tile_form form;
  int chunk;                  // steps in a chunk; 1 in step form
  bool host;                  // a chunk for the host: its exponentials may be products (finish.c)
  int time_axis, pair_axis;   // positions of t and s in axes; -1 in step form
  axis_set grid;              // axes that may be cut into instances
  VEC(tile_axis) axes;        // the body's axes first, at the same positions
  VEC(tile_place) arguments;  // an ARGUMENT value reads arguments[index]
  VEC(tile_value) values;     // operands before users; hash-consed by tile_append
  VEC(tile_result) results;
  span where;      // of values that are appended next and do not say it themselves
  int32_t *table;  // hash table over values: position + 1, 0 for a free slot
  int table_size;  // a power of two, or 0
} tile_program;

// What an ARGUMENT reads.
static inline const tile_place *tile_place_of(const tile_program *program, const tile_value *v) {
  return &program->arguments.items[v->index];
}
// Of an argument by its number.
static inline const tile_place *tile_argument_place(const tile_program *p, int argument) {
  return &p->arguments.items[argument];
}

typedef enum tile_section { TILE_PROLOGUE, TILE_BODY, TILE_EPILOGUE } tile_section;

// ---- the table of operations -----------------------------------------------------------------
int tile_arity(tile_op op);
const char *tile_op_text(tile_op op);
const char *tile_op_detail(tile_op op);  // for print.c and parse.c: the column of ops.def
tile_op tile_op_find(const char *text);  // TILE_OP_COUNT if there is none
bool tile_elementwise(tile_op op);
double tile_op_cost(tile_op op);
// On a GPU in 16 bits.
double tile_op_instructions(tile_op op);
double tile_op_specials(tile_op op);
// An elementwise operation on numbers, in double precision.
value_function *tile_function_of(tile_op op);
// Whether one of these properties (bits) holds.
bool tile_op_is(tile_op op, unsigned properties);
const char *tile_role_text(tile_role role);
// Whether a role is written by a program (a result) rather than read (an argument).
bool tile_role_is_result(tile_role role);

static inline const tile_value *tile_at(const tile_program *program, tile_id id) {
  return &program->values.items[id];
}

// ---- building (construct.c, fold.c) ----------------------------------------------------------

// Every function simplifies and shares equal values; `axes` of the value handed over is computed,
// not read. Appending broadcasts: an operand that lacks an axis has the same value along it. That
// holds for reductions: the sum of x over an axis that x lacks is x times its size. Simplification
// may therefore drop axes. In the finished program every operation has the axes that it names
// (tile_verify).
tile_program *tile_program_new(arena *a, const char *name, const typed_body *body, tile_form form,
                               int chunk);
tile_id tile_append(tile_program *program, tile_value value);
// The same without simplification: shares equal values only.
tile_id tile_append_exact(tile_program *program, tile_value value);
// The value with the images of its operands in their place.
tile_value tile_with_images(tile_value value, const tile_id *image);
// The value that tile_append_exact would find; NO_TILE if there is none.
tile_id tile_find(const tile_program *program, tile_value value);
// A new program with the same axes, form, grid and arguments, and neither values nor results.
tile_program *tile_program_like(arena *a, const char *name, const tile_program *program);
// The same program in another arena, without what was made on the way to it: that may be freed.
tile_program *tile_program_copy(arena *a, const tile_program *program);
// A copy in `a` of what is in `scratch`, which ends.
tile_program *tile_program_out_of(arena *scratch, arena *a, const tile_program *program);

tile_id tile_number(tile_program *program, double number);
tile_id tile_leaf(tile_program *program, tile_op op, int index);
tile_id tile_unary(tile_program *program, tile_op op, tile_id x);
tile_id tile_binary(tile_program *program, tile_op op, tile_id x, tile_id y);
tile_id tile_select(tile_program *program, tile_id condition, tile_id x, tile_id y);
tile_id tile_seldom(tile_program *program, tile_id condition, tile_id x, tile_id y);
// SUM, MAX_OVER, MIN_OVER, EXPAND.
tile_id tile_reduce(tile_program *program, tile_op op, tile_id x, axis_set over);
tile_id tile_dot(tile_program *program, tile_id x, tile_id y, axis_set over);
// RENAME (index becomes index2), SLICE, PLACE (entry index2 of axis index), SHIFT (by index2 along
// index). PREFIX, SEGMENT, SEGMENT_ADJOINT: along t and s, `index` as in ops.def.
tile_id tile_indexed(tile_program *program, tile_op op, tile_id x, int index, int index2);
// PREFIX, SEGMENT, SEGMENT_ADJOINT along any axis and, where pairs are meant, its pair axis; CAUSAL
// of any two axes (x is not read). `kind` is the row's index.
tile_id tile_along(tile_program *program, tile_op op, tile_id x, int kind, int axis, int pair);
// SPLIT (x has `axis`) and JOIN (x has `outer` and `inner`).
tile_id tile_regroup(tile_program *program, tile_op op, tile_id x, int axis, int outer, int inner);
// Values h = a h[t-1] + x along an axis, from the end if so. `part`: the axis of real and imaginary
// parts of a and h; -1: all are real, and so is x, which `re` is.
tile_id tile_scan(tile_program *program, tile_id a, tile_id re, tile_id im, int axis, int part,
                  bool from_end);
// The numbers on `to` are made of those that the step before had on `from`.
tile_id tile_scan_joint(tile_program *program, tile_id a, tile_id x, int axis, int from, int to,
                        bool from_end);
// X[row] = R[row] + sum of matrix[row,pair] X[pair] over pair < row. `transposed`: of
// matrix[pair,row] over pair > row; the first index of the matrix is still on `row`.
tile_id tile_solve(tile_program *program, tile_id matrix, tile_id r, int row, int pair,
                   bool transposed);
// A new axis that this program alone has, of a size known now. A bug if there is none left.
int tile_axis_new(tile_program *program, const char *name, int64_t size);
// How many more axes a program may have.
int tile_axes_left(const tile_program *program);
// The value of a new argument.
tile_id tile_argument(tile_program *program, tile_place place);
// Adds a result; a value that lacks axes of its place is expanded to them.
void tile_add_result(tile_program *program, tile_place place, tile_id value);
bool tile_has_op(const tile_program *program, tile_op op);
bool tile_has_products(const tile_program *program);  // or triangular systems
// By value: how many operands and results it is.
int *tile_count_uses(arena *arena, const tile_program *program);
// The results of `from`, whose values have these images in `to`; adding them expands values that
// lack axes of their places.
void tile_copy_results(tile_program *to, const tile_program *from, const tile_id *image);
void tile_add_results(tile_program *to, const tile_program *from, const tile_id *image);
// A place for a tensor of the body; `component` 0 or 1.
tile_place tile_tensor_place(tile_role role, const typed_body *body, int tensor, int component);
axis_set tile_place_axes(const tile_program *program, const tile_place *place);
// The axes of a value from its operands by the rule of its operation, without any check.
axis_set tile_axes_of(const tile_program *program, const tile_value *v);
// The axes of the body alone.
axis_set tile_body_axes(const tile_place *place);
bool tile_is_number(const tile_program *program, tile_id x, double number);
// A sum of products with a matrix of parameters, over axes that both factors have: which operand of
// the MUL below is the matrix;
// -1: it is no such sum.
int tile_parameter_matrix(const tile_program *program, const tile_section *sections, tile_id sum);
// Above 0 whatever the inputs are, as far as a glance tells; 1 on padded rows (sign.c).
bool tile_is_positive(const tile_program *program, tile_id x);
// Never above 0, or never below it, whatever the inputs are, as far as a glance tells.
bool tile_is_not_positive(const tile_program *program, tile_id x);
bool tile_is_not_negative(const tile_program *program, tile_id x);
// May the exponential y be infinite? Not if its exponent is known to be at most 0, or is a sum over
// steps.
bool tile_may_overflow(const tile_program *program, tile_id y);
bool tile_padding_is_1(const tile_program *program, tile_id x);
// Sets `grid` of a forward program: the body's axes that no operation consumes.
void tile_find_grid(tile_program *program);

// ---- text, checks ----------------------------------------------------------------------------
char *tile_print(arena *a, const tile_program *program);
tile_program *tile_parse(arena *a, interner *names, diag *messages, const source *text);
// NULL, or what is wrong: operands before users, shapes by the row's rule, sections, results.
const char *tile_verify(arena *a, const tile_program *program);
// The section of every value, as an array over values in `arena`.
tile_section *tile_sections(arena *a, const tile_program *program);
// The same for one value, from the sections of its operands.
tile_section tile_value_section(const tile_program *program, tile_id id,
                                const tile_section *sections);
// The grid axes over which each value is a sum of its own instance only, as an array over values in
// `arena`.
axis_set *tile_partial(arena *a, const tile_program *program);
// The same for one value, from the sets of its operands.
axis_set tile_partial_value(const tile_program *program, tile_id id, const axis_set *partial);
// A value that one operand of a SELDOM alone needs: the condition, and whether it is the operand that
// is seldom taken. Condition NO_TILE: it is needed always.
typedef struct tile_branch {
  tile_id condition;
  bool rare;
} tile_branch;
// branches.c: by value, as an array in `arena`.
tile_branch *tile_branches(arena *a, const tile_program *program);
// Floating-point operations of a value at each point: the cost of its operation, without the
// exponential that an earlier value has made.
double tile_value_operations(const tile_program *program, tile_id id);
// The operations of all points of a value, for given sizes of the body's axes.
double tile_value_cost(const tile_program *program, tile_id id, const int64_t *axis_sizes);

// ---- transformations -------------------------------------------------------------------------

// Rewrites until nothing changes, then the order of products (simplify.c, arrange.c); drops what no
// result needs.
tile_program *tile_simplify(arena *a, const tile_program *program);
// The last pass before code is made, after reverse mode: exponentials to base 2. tile_differentiate
// does it for what it returns.
tile_program *tile_finish(arena *a, const tile_program *program);
// Keeps only the results whose role is in the set of bits (1 << role), and what they need,
// arguments too.
tile_program *tile_restrict(arena *a, const tile_program *program, unsigned roles);
// Has it an argument of one of these roles (bits)?
bool tile_takes(const tile_program *program, unsigned roles);

// The program that yields states (`states` TILE_NEXT_STATE), or cotangents of states
// (TILE_D_STATE), alone, each with its factor. Run over a time slice from 0 and 1, it yields e and
// f. The state after the slice is f * (state before it) + e, entry by entry. The factor of a
// complex state is complex, and conjugate for cotangents. A few states that are made of each other,
// entry by entry, have one for each pair (tile_place.source). States that mix their entries have no
// factor (tile_find_columns). Their place holds a transition matrix instead, if all of them have
// independent columns along *value_axis, one of `column_axes`; -1: there are no such states. States
// that are marked as relative are left as they are. Of cotangents of earlier steps nothing is left
// where a chunk makes its own; those that nothing is made of are left out. NULL where there is
// neither: *why then says so. `earlier_given`: who runs the program hands it the steps before the
// first one.
tile_program *tile_transfer(arena *a, const tile_program *program, tile_role states,
                            bool earlier_given, axis_set column_axes, int *value_axis,
                            const char **why);
// columns.c: the axis, one of `axes`, along which the columns of these next states (by tensor) or
// cotangents are independent. One matrix maps all columns. Added terms are 0 without the tokens and
// parameters that have the axis. `read`: the role of the state before.
bool tile_find_columns(arena *a, const tile_program *program, tile_role read, const bool *states,
                       axis_set axes, int *axis);

// The program of a kernel that cuts no other axes than these: sums over the rest are whole, no
// value is partial over it. Arguments and results stay.
tile_program *tile_uncut(arena *a, const tile_program *program, axis_set cut);

// Drops values that no result needs; the arguments stay.
tile_program *tile_drop_unused(arena *a, const tile_program *program);

// Reverse mode. `backward` takes the arguments of `forward` and the cotangents of its outputs and
// next states. It returns gradients of inputs, parameters and states: of every argument of
// `forward`, zeros included. Forward values are computed again inside it. In step form, dear values
// are handed over instead: `recompute` is the forward program that yields the next states and keeps
// these values.
typedef struct tile_gradient {
  tile_program *backward;
  // step form: next states and TILE_KEEP results; chunk form: next states only
  tile_program *recompute;
  int stash_count;
} tile_gradient;
tile_gradient tile_differentiate(arena *a, const tile_program *forward);
// Chunk form: `backward` reads these of its values as stashes 0, 1, .. and does not compute them.
// `forward` keeps the same values (by its own numbers).
tile_program *tile_read_stashes(arena *a, const tile_program *backward, const tile_id *values,
                                int count);
tile_program *tile_keep_stashes(arena *a, const tile_program *forward, const tile_id *values,
                                int count);
// Step form: the dear values of a body that lack the axis and follow from tokens alone, as a program
// that keeps them as stashes 0, 1, .. It has no results if there are none. `rest` reads them.
tile_program *tile_values_without(arena *a, const tile_program *program, int axis,
                                  tile_program **rest);
// Step form, by value: is it a sum over states that their update waits for, of what is made of
// states, tokens and parameters entry by entry?
bool *tile_opening_sums(arena *a, const tile_program *program);
// Has an opening sum axis `lane`?
bool tile_opens(arena *a, const tile_program *program, int lane);
// The program that reads those of them with axis `lane` as stashes `first`, .., and keeps those of
// the next step, whose tokens it reads ahead. `before` keeps those of the first step. NULL: there
// are none.
tile_program *tile_open_ahead(arena *a, const tile_program *program, int lane, int first,
                              tile_program **before);
// The argument that reads this place; -1: none does.
int tile_find_argument(const tile_program *program, const tile_place *place);
// By value of `program`: the value of `in` that is computed alike from the same arguments, or
// NO_TILE.
tile_id *tile_find_equal(arena *a, const tile_program *in, const tile_program *program);
// The derivative of a value by an earlier one, added to the program: of sum(dy * y) by each entry of
// x. Where each entry of y is made of the same entry of x, dy 1 gives the slopes.
tile_id tile_derivative(tile_program *program, tile_id y, tile_id x, tile_id dy);
// WITH_GRADIENT is its value, and what only gradients were for is gone. The program itself, if it
// has none.
const tile_program *tile_without_gradients(arena *a, const tile_program *program);
// The backward program alone, as people write it: forward values are computed again, exponentials
// are natural.
tile_program *tile_backward(arena *a, const tile_program *forward);
