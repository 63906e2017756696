// The "program" of a manifest (compiler/graph/json.c says what it holds) as C structures.
#pragma once

#include <cjson/cJSON.h>

#include "compiler/abi/segment.h"
#include "runtime/internal.h"
#include "runtime/train/data/data.h"

enum { NO_TENSOR = -1 };
// The manifest's numbers are doubles, which hold all whole numbers up to this one.
#define MOST_SEED (((int64_t)1 << 53) - 1)

// Part of the rows of a buffer: the row of token i of n starts at place * n + i * stride + offset.
typedef struct model_tensor {
  int64_t place, stride, offset, elements;
  const char *name;  // for people
} model_tensor;

typedef struct model_part {
  int64_t first, count;
  const cJSON *by_default, *start;  // start expressions; JSON null: none
} model_part;

typedef struct model_parameter {
  const char *name;
  parameter_kind kind;
  bool decays;  // a matrix: weight decay acts on it
  int rank;
  const int64_t *shape;
  int64_t elements, place;  // place: in the block of all parameters
  double eps;               // of a norm: what it adds to the mean of squares; else 0
  bool begun_by_sum;        // the first step that has its gradient adds (model_step.begins_sum)
  int part_count;
  const model_part *parts;
} model_parameter;

enum { MOST_STATE_AXES = 16 };

// One of the axes of a state: element e stands at e / stride % size along it.
typedef struct state_axis {
  const char *name;
  int64_t size, stride;
} state_axis;

// What a state starts from where a call is not given it; not `given`: zero.
typedef struct model_begin {
  bool given;
  double number[2];                  // real and imaginary part
  int parameter;                     // -1: `number`
  int64_t first;                     // number of the parameter
  int64_t strides[MOST_STATE_AXES];  // of the parameter along the state's axes
} model_begin;

// Carried from one window to the next. In a block for B sequences its numbers start at place * B,
// sequence after sequence.
typedef struct model_state {
  const char *name;
  int64_t elements, place;
  bool lag;
  bool counter;           // no input reaches it: noise would take it off its values
  int layer;              // of the outermost repeat, -1 outside
  int64_t heads;          // all axes but the last two
  int64_t head_elements;  // element e belongs to head e / head_elements % heads
  int axis_count;
  state_axis axes[MOST_STATE_AXES];
  int parts;    // numbers of an entry
  int learned;  // the parameter that sequences may start from, or -1
  model_begin begin;
} model_state;

typedef struct model_use {
  int parameter;
  int64_t first;
} model_use;

typedef struct model_op {
  model_op_kind kind;
  int kernel;  // OP_CALL: position in program.kernels
  int in_count, out_count, use_count, state_count;
  const int *in, *out, *states;
  const model_use *uses;
  int row;  // OP_LINEAR: the tensor of the whole row
} model_op;

typedef enum model_step_kind { STEP_OF, STEP_ADD, STEP_ZERO } model_step_kind;

typedef struct model_step {
  model_step_kind kind;
  int op;
  int in_count, out_count, use_count;
  const int *d_in, *d_out, *add_use;
  bool add;
  bool begins_sum;  // OP_LINEAR, OP_EMBED: no step before has the gradient of its matrix
  int to, from;
} model_step;

typedef struct train_model {
  const cJSON *json;
  const char *name, *text;
  int64_t vocabulary;
  int64_t row;  // elements per token of all buffers
  int logits;
  int parameter_count, state_count, tensor_count, op_count, step_count;
  const model_parameter *parameters;
  const model_state *states;
  const model_tensor *tensors;
  const model_op *ops;
  const model_step *steps;     // the backward pass
  int64_t parameter_elements;  // of the block of all parameters, gaps included
  int64_t weight_count;        // without gaps
  int64_t state_elements;      // of all states of one sequence
  int64_t largest_parameter;
} train_model;

// A number that goes from the first step of its intervention to the last in a straight line.
typedef struct number_ramp {
  double from, to;
} number_ramp;

typedef struct state_choice {
  intervention_kind kind;
  double weight;  // times all ramps
  int ramp_count;
  const number_ramp *ramps;
  number_ramp number;  // of noise: the standard deviation, or beta
} state_choice;

// What sequences start from, in steps from .. to - 1, for the states of the layers first_layer ..
// last_layer - 1.
typedef struct intervention {
  int64_t from, to;
  int first_layer, last_layer;
  int choice_count;
  const state_choice *choices;
  bool has_per;  // fitted noise has statistics of its own along these axes, else by head
  int per_count;
  const char *const *per;
} intervention;

typedef struct weighted_label {
  int label;
  double weight;
} weighted_label;

typedef struct train_block {
  const cJSON *json;
  const char *name, *after, *init, *file;  // after, init may be NULL; file: NULL with a task
  bool generated;                          // the data are those of `task`
  train_task task;
  train_source source;
  int model;
  int64_t context, batch, steps, warmup, decay;
  int64_t accumulate;  // parts of a batch that run one after another
  int64_t segments;    // parts of the context, run layer by layer
  exchange_kind exchange;
  uint64_t seed;
  schedule_kind schedule;
  optimizer_kind optimizer;
  double optimizer_own;  // its own setting
  double rate, beta1, beta2, epsilon, weight_decay, clip, floor;
  int no_decay_count;
  const int *no_decay;  // parameters
  int64_t loss_from;    // the first tokens of a sequence that count
  double loss_rest;     // what a token of a task weighs that is no answer
  int label_count;      // labels that weigh something else than 1
  const weighted_label *labels;
  int intervention_count;
  const intervention *interventions;
} train_block;

typedef struct evaluate_block {
  const char *name, *after;
  int64_t until, state_until;  // of perplexity and state_norm; 0: not asked for
  int length_count;            // of accuracy
  const int *lengths;
  int64_t remembrance;  // its T; 0: not asked for
  int64_t attention;    // its T; 0: not asked for
  int64_t overflow;     // its T; 0: not asked for
  bool learned;         // from the learned states, not from zero
  double tolerance;     // of the verdict of perplexity, in bits
  distance_kind distance;
} evaluate_block;

typedef struct train_program {
  int kernel_count, model_count, block_count, evaluate_count;
  const char **kernels;  // names of the module's recurrences
  const train_model *models;
  const train_block *blocks;
  const evaluate_block *evaluates;
  rec_blocks memory;  // of everything above
} train_program;

// `json` must outlive the program. The text comes from a library, which may be damaged: everything
// is checked.
rec_status train_program_read(const cJSON *json, train_program **program);
void train_program_free(train_program *program);  // NULL is allowed

// NULL: none
const model_parameter *train_model_parameter(const train_model *model, const char *name);
const train_block *train_program_block(const train_program *program,
                                       const char *name);  // NULL: none
// What a token of the block's data is: byte, character or token.
const char *train_block_unit(const train_block *block);
