// What the parts of the chunk builder for linear states share.
//
// A recurrence whose states are affine in their own previous value becomes one straight-line
// program for a chunk of steps. Affine means entry by entry, and through sums over the states:
//
//   linear_scan.c   how states are used; which of them are scanned; results
//   visit.c         values of the body one after another, states when they are read
//   scan.c          what all of these ask: values added to the body, states before the chunk, reasons against it
//   linear.c        values that are linear in states not yet summed: sums of products
//   decay.c         what a state keeps between two steps: masks of scalar decays, pyramids of all others
//   level.c         segments of 2, 4, 8 .. steps and their halves: axes, and values cut along them
//   block.c         decays that are never small: one anchor for a segment of steps
//   phase.c         the rotations among them, moved to the reads and writes
//   contract.c      reads (what the chunk wrote, what was there before) and the state after the chunk
//   group.c         states that depend on each other: updates, decays, increments
//   coupled.c       states that others add to themselves: masks of pairs of states
//   joint.c         states that add each other: products of small matrices, scanned where entries are used
//   turn.c          two of them that turn into each other, as one complex number does
//   low_rank.c      sums over a state that enter its own update: a triangular system
//   sequence.c      states that are an ordinary value at every step of the chunk: delays, shift registers, those of semiring.c
//   toeplitz.c      states whose decay, keys and reads are the same at all steps: blocks made once for all chunks
//   stepwise.c      states that are not linear, entry by entry: their steps one after another
//   mixed.c         linear states that mix entries along a small axis: likewise, on the host
//   semiring.c      h = a * h[t-1] + x entry by entry, m = max(f + m[t-1], i): scans over the steps
//   lag_matrix.c    lags of outer products: each slot of the buffer as a state, or writes a step later
//   lag.c           values of earlier steps: shifts, the slots of their buffers before and after the chunk
//
// Padded rows: decays are 1 and keys are 0 there, so the state after a chunk that is not full is
// right.
#pragma once

#include "compiler/chunk/chunk.h"
#include "compiler/chunk/lower.h"

typedef enum scan_purpose { SCAN_FOR_GPU, SCAN_FOR_HOST, SCAN_FOR_HOST_FORWARD } scan_purpose;

enum { JOINT_MAX = 4 };  // states that add each other

enum {
  // sums of more products, or products of more factors, are left to the step program
  PRODUCTS_MAX = 64
};

typedef VEC(recurrence_factor) scan_factors;

typedef enum scan_part { PART_WHOLE, PART_REAL, PART_IMAGINARY } scan_part;

// scale * factors * state; or one part of that complex number. Factors are values without states.
typedef struct scan_product {
  double scale;
  int state;      // position in scan.states; -1: none
  bool previous;  // S[t-1] rather than S
  scan_part part;
  scan_factors factors;
  const struct scan_product *earlier;  // times the factors of this one a step before; NULL: none
} scan_product;

// A sum of products.
typedef struct linear {
  VEC(scan_product) products;
} linear;

// A factor of a state's decay, with the key or value axes that no other factor has.
typedef struct decay_factor {
  tile_id log;                 // its logarithm, 0 on padded rows; NO_TILE where there is none
  tile_pair factor;            // 1 on padded rows
  axis_set axes;               // among the keys and values; 0: one number for the whole matrix
  struct decay_level *levels;  // by level, made on demand: see decay.c
} decay_factor;

// A factor exp(i angle) of a state's decay; axes as above. whole + rest is the angle, 0 on padded
// rows.
typedef struct scan_phase {
  axis_set axes;
  tile_id angle, whole, rest;
} scan_phase;

typedef struct toeplitz toeplitz;

typedef enum scan_progress { UNTOUCHED, IN_WORK, MADE } scan_progress;

typedef struct scan_state {
  const state_structure *structure;
  int tensor, group;
  // its values at all steps are tiles: then `steps` has them, and the rest is unused
  bool sequence;
  bool mixed;  // a sequence whose entries along a small axis make each other (mixed.c)
  tile_pair steps;
  recurrence_shift *shift;  // it is a shift register; NULL: it is none
  // what a slot of a lag buffer holds (lag_matrix.c); lag -1: a state of the recurrence
  int lag, slot;
  bool delayed;  // an outer product of the step before, as a matrix whose decay is 0
  bool at_end;   // made of other states, and read by none: there is one after the chunk
  // the chunk starts after its first step's decay, from this matrix (lag_matrix.c); re = NO_TILE:
  // it starts before
  tile_pair after_decay;
  bool finds_axes;        // the structure does not tell its keys and values (group.c)
  bool entries;           // it is used entry by entry, not by sums and additions to states alone
  axis_set keys, values;  // axes that reads sum, axes that outer products make
  axis_set summed;        // axes that some read sums
  const linear *update;   // the whole of it
  value_id decay_value;   // what S[t-1] is multiplied by, and its logarithm; NO_VALUE: 1, none
  value_id log_decay;
  VEC(decay_factor) decay;  // none: the decay is 1
  // pairs in segments of 2^block steps have one reference; 0: there are none
  int block;
  // Pairs have the chunk's start for a reference (block.c). With seldom_levels, a chunk where the
  // number `unsafe` is not 0 takes the scores of levels in their place.
  bool by_start, seldom_levels;
  tile_id unsafe;
  VEC(scan_phase) phases;  // factors of modulus 1, which are not in `decay` (phase.c)
  linear increment;        // products without a state
  // decay, keys and reads are the same at all steps: toeplitz.c has it all
  bool invariant;
  toeplitz *toeplitz;
  VEC(scan_product) sources;  // other states in the update
  // what it and other states keep of each other; NULL: `decay` and `phases` say it
  struct scan_joint *joint;
} scan_state;

// States that depend on each other.
typedef struct scan_group {
  scan_progress progress;
  // what is solved for: sums over its states in their updates, in order, and values that alone
  // use them (low_rank.c)
  VEC(value_id) unknown;
} scan_group;

// The time axis cut into segments of 2^level steps and these into halves: axes made on demand, -1
// until then.
typedef struct scan_axes {
  int segment, step,
      pair_step;  // segments of n steps; steps in one; the same for the other step of a pair
} scan_axes;

// Segments of up to 2^7 steps have decays and scores of their own. The level of a whole chunk,
// which masks alone have, may be higher.
enum { LEVELS_MAX = 8, CHUNK_LEVELS = 13 };
_Static_assert(1 << (CHUNK_LEVELS - 1) == CHUNK_MOST_STEPS, "the longest chunk has the last level");

typedef struct scan {
  arena *arena;
  const recurrence *from;
  bool host;           // its products have the range of f32 (block.c)
  bool forward_alone;  // no gradient is derived (block.c)
  typed_body *body;    // a copy, to which values are added
  tile_program *program;
  lowering values;                // of values without states
  linear **linears;               // by value of the body; NULL for those without states
  bool *visited, *unknown;        // by value of the body; unknown: not solved for yet
  const linear **definition;      // by value of the body: what an unknown that is no sum is made of
  int *uses;                      // by value of the body as it was
  const recurrence_reads *reads;  // `from` is a copy with lags of its own; NULL: it is none
  int declared_lags;              // lag buffers of the recurrence; behind them, those of the copy
  bool *lag_in_work;              // by lag buffer: its source is being visited
  bool *lag_is_states;            // by lag buffer: its slots are states; NULL: none are
  int capacity;                   // of these arrays
  scan_state *states;
  int state_count;
  scan_group *groups;  // by the first state of each
  int making;          // the group whose decays and updates are being made; -1: none
  int part;            // axis of real and imaginary parts; -1 until it is needed
  int middle;          // axis of the steps between two others; -1 until it is needed
  scan_axes axes[CHUNK_LEVELS];
  int half, other_half;           // axes of the two halves
  int distances[LEVELS_MAX + 1];  // axes of toeplitz.c, by level
  const char *reason;             // why there is no chunk program
} scan;

void scan_refuse(scan *s, const char *reason);
const char *scan_state_name(const scan *s, int state);
// Where the source says how the state goes on.
span scan_update_span(const scan *s, int state);
static inline axis_set scan_time_bit(const scan *s) { return axis_bit(s->program->time_axis); }
// A value added to the body.
value_id scan_append(scan *s, typed_value value);
// After values were added by others.
void scan_grow(scan *s);
// The tiles of a value that depends on no state (or on states already read).
tile_pair scan_pure(scan *s, value_id id);
// Values that were linear in these states become tiles, now that those are values at every step.
void scan_settle(scan *s, int group);
// Makes the decay and the increment of a state and of its group; false if there is a reason against
// a chunk program.
bool scan_make_state(scan *s, int state);
// A state (the slot of a lag) before the chunk; S[t-1] at every step, where S is `steps`.
tile_pair scan_before(scan *s, int state);
tile_pair scan_first_step(scan *s, tile_pair x);  // its value at the chunk's first step
tile_id scan_is_first_step(scan *s);
tile_pair scan_shifted(scan *s, int state, tile_pair steps);
// A value at the last step of the chunk that lies inside the sequence, or `back` steps before it.
tile_pair scan_at_end(scan *s, tile_pair x, int back);
// Is the value a sum of products none of whose factors has all of the axes?
bool scan_is_outer(const scan *s, value_id id, axis_set axes);
// Is it a product with all of these axes, neither factor of which has them all? A state that it is
// added to is a matrix: cheaper in single steps, or by products, than at all steps of a chunk.
bool scan_multiplies_apart(const scan *s, value_id id, axis_set axes);
// By value: do states of the group before the step, or before that, enter it? By value, up to the
// state's update: is the update made of it?
bool *scan_made_of(const scan *s, int group);
// Entries of the axes of the body together; those of run-time size count as one.
double scan_entries(const scan *s, axis_set axes);
// Is the state the only one of its group?
bool scan_is_alone(const scan *s, int state);
bool *scan_needed_by(const scan *s, int state);
// The state whose value after the step this is, delays apart; -1 if there is none.
int scan_updated_state(const scan *s, value_id id);
// The update of a state as a sum of products, itself not counting as the state.
const linear *scan_update(scan *s, int state);
// Visits the values that `id` is made of and returns it as a sum of products; NULL if there is a
// reason against it.
const linear *scan_visit(scan *s, value_id id);
// The same for a value that must be free of states not summed; `what` names it in the reason if it
// is not.
tile_pair scan_value(scan *s, value_id id, const char *what);
// What a lag remembers, at all steps.
tile_pair scan_lag(scan *s, int lag);

// ---- linear.c: sums of products --------------------------------------------------------------
linear *linear_new(scan *s);
linear *linear_of_state(scan *s, int state, bool previous);
linear *linear_of_factor(scan *s, value_id id);
linear *linear_sum(scan *s, const linear *x, const linear *y, double scale_of_y);
// x times (divided by) a value without states.
linear *linear_scaled(scan *s, const linear *x, value_id factor, bool divides);
linear *linear_part(scan *s, const linear *x, scan_part part);
// condition ? x : y
linear *linear_where(scan *s, value_id condition, const linear *x, const linear *y);
// A product without state as a value of the body.
value_id linear_as_value(scan *s, const scan_product *product);
bool linear_has_states(const linear *x);
bool linear_has_unknown(const scan *s, const linear *x);
// The product whose factors have axes of at most one of two sets each; several, where sums had to
// be opened.
linear *linear_opened(scan *s, const scan_product *product, axis_set left, axis_set right);
// Factors with some of `axes` (or, without `with`, with none of them) times each other; 1 if there
// are none.
tile_pair linear_factors(scan *s, const scan_product *product, axis_set axes, bool with);
// A sum of products without states; 0 if there are none.
tile_pair linear_pure(scan *s, const linear *x);

// ---- decay.c: decays of a chunk --------------------------------------------------------------
// The factor of each step; 1 at steps behind the sequence, where it would multiply numbers without a
// bound.
tile_pair decay_one_on_padding(scan *s, tile_pair factor);
void decay_make(scan *s, int state);
// Is the decay over `axes` a mask: one number for the whole matrix at each step, kept as a
// logarithm?
bool decay_is_mask(const scan_state *state);
// Factors of the decay that have some of `axes`; those without any key or value axis belong to the
// first set.
typedef enum decay_side { DECAY_ALL, DECAY_KEYS, DECAY_VALUES } decay_side;
// From the chunk's start to each step (S[t-1]: to the step before), [t]; the factors that keys
// (values) have. Of states that keep each other coupled.c tells these three.
tile_pair decay_from_start(scan *s, int state, bool previous, axis_set keys, decay_side side);
// From each step to the chunk's end, [t]; of the whole chunk.
tile_pair decay_to_end(scan *s, int state, axis_set keys, decay_side side);
tile_pair decay_total(scan *s, int state);
// Refuses chunks that cannot be halved down to single steps; `what` needs that.
void decay_check_length(scan *s, const char *what);
// Has the decay some value axis?
bool decay_has_values(const scan *s, int state, axis_set keys);
// exp of the sums between the two steps of each pair where the first comes later (or is the same
// unless `strict`), 0 elsewhere, [t,s]. Masks alone.
tile_id decay_mask(scan *s, int state, bool previous, bool strict);

// Levels: segments of n = 2^level steps, pairs of which are halves. What a step reads lies in the
// second half, what was written in the first. A level below 0 stands for all pairs of steps within
// segments of 2^-level steps (block.c). level_first is the lowest level that a state needs,
// level_next the one after it.
int level_first(const scan *s, int state);
int level_next(int level);
const scan_axes *level_axes(scan *s, int level);
tile_pair level_split(scan *s, tile_pair x, int level);
int decay_levels(const scan *s);
// The second halves of a value over t: [segments of 2n, step]; the first halves: [segments of 2n,
// pair step].
tile_pair level_rows(scan *s, tile_pair x, int level);
tile_pair level_columns(scan *s, tile_pair x, int level);
// A half placed in the axis of both, 0 at the other.
tile_pair level_place_half(scan *s, tile_pair x, int half);
tile_pair level_to_pair_step(scan *s, tile_pair x, int level);
// Decays from the start of the second half to its steps; from the steps of the first half to its
// end, of what `writer` wrote. Of states that keep each other they are vectors of so many terms,
// whose products are added; 1 elsewhere.
int level_terms(const scan *s, int state, axis_set keys, decay_side side);
tile_pair level_row_decay(scan *s, int state, bool previous, axis_set keys, decay_side side,
                          int level, int term);
tile_pair level_column_decay(scan *s, int state, int writer, axis_set keys, decay_side side,
                             int level, int term);
// Pairs of segments of a value over segments and steps, as halves; one of them; and back to
// segments twice as long.
tile_pair level_halve(scan *s, tile_pair x, int level);
tile_pair level_half(scan *s, tile_pair x, int level, int half);
tile_pair level_join(scan *s, tile_pair x, int level);
tile_pair level_unhalve(scan *s, tile_pair x, int level);  // pairs of segments that were halved
int level_half_axis(scan *s, bool other);
// The half and the inner axis (-1: none) of a value become the axis `joined`.
tile_pair level_join_halves(scan *s, tile_pair x, int half, int inner, int joined);
tile_id level_is_half(scan *s, int half);
// Back to t: a value at the second halves, 0 at the first.
tile_pair level_place_rows(scan *s, tile_pair x, int level);
// Scores of all levels from the first one, [segments, step, pair step] each, as one matrix [t,s]; 0
// on the diagonal and above. Those of a block stand in the place of the highest level that it
// replaces, level_place.
int level_place(int level);
tile_pair level_assemble(scan *s, int first, const tile_pair *scores);

// ---- block.c: decays that are never small ----------------------------------------------------

// Chooses the segments, for a state whose decay is made.
void block_make(scan *s, int state);
// Decays from the middle of a segment to its steps (S[t-1]: to those before), and back from its
// steps to the middle.
tile_pair block_row_decay(scan *s, decay_factor *factor, bool previous, int level);
tile_pair block_column_decay(scan *s, decay_factor *factor, int level);
// From the start of a segment to its steps (S[t-1]: to those before); from after them to its end.
tile_pair block_from_start(scan *s, decay_factor *factor, bool previous, int level);
tile_pair block_to_end(scan *s, decay_factor *factor, int level);
// Of a state whose pairs have the chunk's start for a reference (by_start): decays from there to the
// steps (S[t-1]: to those before), their reciprocals, and the decay over the chunk.
tile_pair block_start_row(scan *s, int state, bool previous);
tile_pair block_start_column(scan *s, int state);
tile_pair block_total(scan *s, const scan_state *state);
// Scores within segments: 0 but where a step reads an earlier one.
tile_pair block_masked(scan *s, tile_pair scores, int level);

// ---- phase.c: rotations ----------------------------------------------------------------------

// May the rotations of this state be moved? phase_add: exp(i angle) belongs to its decay; `axes` as
// in decay_factor. phase_make: all of them are known.
bool phase_fits(const scan *s, const scan_state *state);
void phase_add(scan *s, scan_state *state, axis_set axes, tile_id angle);
void phase_make(scan *s, scan_state *state);
// Phases without key and value axes; with some of the axes `keys`; with others. Sides can be added
// up.
enum { PHASE_SCALAR = 1, PHASE_KEYS = 2, PHASE_VALUES = 4 };
// What stands on reads and on writes, [t]: the rotation from the chunk's start to the step, and the
// inverse one. From each step to the chunk's end, [t]; of the whole chunk.
tile_pair phase_of_read(scan *s, int state, axis_set keys, int sides);
tile_pair phase_of_write(scan *s, int state, axis_set keys, int sides);
tile_pair phase_to_end(scan *s, int state, axis_set keys, int sides);
tile_pair phase_of_chunk(scan *s, int state);
bool phase_has_side(const scan *s, int state, axis_set keys, int sides);
// The steps of the chunk up to each; those before it; those after it; all. The sum of x over them,
// and of angles as a complex number of modulus 1; phase_cut readies one with an angle alone for
// that.
typedef enum phase_sum { PHASE_UP_TO, PHASE_BEFORE, PHASE_AFTER, PHASE_ALL } phase_sum;
tile_id phase_sum_of(scan *s, tile_id x, phase_sum which);
void phase_cut(scan *s, scan_phase *phase);
tile_pair phase_rotation(scan *s, const scan_phase *phase, phase_sum which);
bool phase_is_read_before(const scan *s, int state);

// ---- contract.c: reads and writes ------------------------------------------------------------

// sum[over] of a product, with or without a state.
tile_pair contract_product(scan *s, const scan_product *product, axis_set over);
// What each step reads of the writes of each earlier step by the keys of one product, [t,s]. A step
// that reads S also reads its own write. Where values decay apart, each value has a matrix of its
// own.
tile_pair contract_pairs(scan *s, const scan_product *read, int writer, const scan_product *written,
                         axis_set over);
// The state after the chunk.
tile_pair contract_next_state(scan *s, int state);
tile_pair contract_at_pair(scan *s, tile_pair x);
// The states before the chunk, as a read sees them.
tile_pair contract_before(scan *s, const scan_product *read, axis_set over);
// What one product of a state's increment adds to a read of that state, or of one that it reaches.
tile_pair contract_written(scan *s, const scan_product *read, int writer,
                           const scan_product *written, axis_set over);

// ---- low_rank.c ------------------------------------------------------------------------------
// A value made of unknown sums that nothing else uses is solved for in their place, if it has their
// axes.
void low_rank_replace(scan *s, value_id id);
// Solves for the sums in the updates of a group, whose increments and decays are made.
void low_rank_solve(scan *s, int group);

// ---- group.c ---------------------------------------------------------------------------------
void group_find(scan *s);

// ---- coupled.c -------------------------------------------------------------------------------
// Does what `from` writes enter `to`?
bool coupled_reaches(const scan *s, int to, int from);
// Do masks say all about the states that a state adds?
bool coupled_by_masks(const scan *s, int state);
// What `to` holds, at t or before it, of the write of `from` at s, [t,s]; at each step, of `from`
// before the chunk, [t]. At the end: of the write of `from` at each step, [t], and of `from` before
// the chunk. The factors that keys (values) have.
tile_pair coupled_mask(scan *s, int to, int from, bool previous);
tile_pair coupled_from_start(scan *s, int to, int from, bool previous, axis_set keys,
                             decay_side side);
tile_pair coupled_to_end(scan *s, int to, int from, axis_set keys, decay_side side);
tile_pair coupled_total(scan *s, int to, int from);
// The factor of a state that another adds, at each step; 0 on padded rows.
tile_pair coupled_factor(scan *s, const scan_product *link);
// The same, any number on padded rows.
tile_pair coupled_unmasked_factor(scan *s, const scan_product *link);
// What `to` has of a write of `from` in the same step.
tile_pair coupled_within_step(scan *s, int to, int from, axis_set keys, decay_side side);

// ---- joint.c ---------------------------------------------------------------------------------
// The matrices of a group whose decays are made; the states that it adds belong to them.
void joint_make(scan *s, int group);
// The values of its states at all steps, where they are used entry by entry.
void joint_scan(scan *s, int group);
bool joint_has(const scan *s, int to, int from);
bool joint_is_mask(const scan_state *state);
bool joint_on_side(const scan *s, int state, axis_set keys, decay_side side);
int joint_count(const scan *s, int state);
tile_pair joint_row(scan *s, int to, bool previous, int level, int member);
tile_pair joint_column(scan *s, int to, int from, int level, int member);
tile_pair joint_within_step(scan *s, int to, int from);
tile_pair joint_mask(scan *s, int to, int from, bool previous);
tile_pair joint_from_start(scan *s, int to, int from, bool previous);
tile_pair joint_to_end(scan *s, int to, int from);
tile_pair joint_total(scan *s, int to, int from);
// Scores of all pairs of steps that have one reference; 0 but where a step reads an earlier one.
tile_pair joint_masked(scan *s, int to, bool previous, tile_pair scores);

// ---- turn.c ----------------------------------------------------------------------------------
typedef struct scan_turn {
  tile_id log;  // of the radius
  scan_phase phase;
} scan_turn;
// How two states turn into each other; NULL if they do not, or not simply.
scan_turn *turn_find(scan *s, int first, int second);
// Entries of the rotation from the chunk's start to each step, and of its inverse. Then the radius
// that remains between pairs of steps. Both cover the steps of a chunk.
tile_pair turn_row(scan *s, const scan_turn *turn, bool previous, int row, int column);
tile_pair turn_column(scan *s, const scan_turn *turn, int row, int column);
tile_id turn_mask(scan *s, const scan_turn *turn, bool previous);
tile_pair turn_over(scan *s, const scan_turn *turn, phase_sum which, int row, int column);

// ---- sequence.c ------------------------------------------------------------------------------
// Is the state a value at every step rather than a matrix that is read by sums, which it may be as
// well?
bool sequence_fits(const scan *s, int state, bool or_matrix);
void sequence_make(scan *s, int state);
// The state after the chunk; an entry of S[t-1] at every step, of a shift register.
tile_pair sequence_next(scan *s, int state);
tile_pair sequence_entry_before(scan *s, int state, int entry);

// ---- stepwise.c ------------------------------------------------------------------------------
// Is the update of the state short, entry by entry and made of no other state that it enters?
bool stepwise_fits(const scan *s, int state);
// Every operand of the update that the state does not enter. The state at all steps, from what
// these are at all steps, by value.
typedef VEC(value_id) stepwise_operands;
stepwise_operands stepwise_operands_of(scan *s, int state);
tile_pair stepwise_steps(scan *s, int state, const tile_pair *beside);
// The update at all steps, of a state that was `before` at all of them.
tile_pair stepwise_updated(scan *s, int state, const tile_pair *beside, tile_pair before);

// ---- mixed.c ---------------------------------------------------------------------------------
// Is the update linear, made of no other state that it enters, and does it mix entries along one
// small axis alone?
bool mixed_fits(const scan *s, int state);
// The state at all steps, from what stepwise_operands_of names.
tile_pair mixed_steps(scan *s, int state, const tile_pair *beside);

// ---- toeplitz.c ------------------------------------------------------------------------------
// Are the decay, the keys and the reads of a state the same at all steps?
bool toeplitz_fits(const scan *s, int state);
void toeplitz_make(scan *s, int state);
// The axes of one distance of a block, where matrices that are the same at all steps write and
// read: such states are scanned. 0 elsewhere.
axis_set toeplitz_of_matrices(const scan *s, int state);
// sum[over] of a product with the state; the state after the chunk.
tile_pair toeplitz_read(scan *s, const scan_product *product, axis_set over);
tile_pair toeplitz_next(scan *s, int state);

// ---- semiring.c ------------------------------------------------------------------------------
// Two operations, of which the second distributes over the first.
typedef enum semiring {
  PLUS_TIMES,
  MAX_PLUS,      // of equal ones the maximum is x
  MAX_PLUS_KEPT  // the one carried on
} semiring;
// The values h = a x h[t-1] + x of a chunk, [t], from the one before it.
tile_pair semiring_scan(scan *s, semiring ring, tile_pair a, tile_pair x, tile_pair before);

// ---- lag_matrix.c ----------------------------------------------------------------------------
// Makes states of the slots of the lags of matrices; false if there are none. How many there are.
bool lag_matrix_make(scan *s);
int lag_matrix_slots(const scan *s);
// Where a state adds nothing but such slots, it writes their products itself; false elsewhere.
bool lag_matrix_written(scan *s, int state);

// ---- lag.c -----------------------------------------------------------------------------------
// The value of a VALUE_LAG; the results of a lag. x: its source at all steps.
tile_pair lag_read(scan *s, const typed_value *v, tile_pair x);
void lag_results(scan *s, int lag, tile_pair x);
// x so many steps earlier; before the chunk it was `before[0]` at the first of these steps, and so
// on.
tile_pair lag_shifted(scan *s, tile_pair x, int steps, const tile_pair *before);
tile_pair lag_slot_before(scan *s, int lag, int slot);
