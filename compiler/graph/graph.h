// The graph: models with all layers written out, as operations on rows of numbers, and what is done
// with them.
//
// A model knows four operations: embed, linear, call (of a recurrence), loss. Sums, gates, norms,
// convolutions and lags between them are gathered into recurrences without states. Their gradients,
// carried tails and kernels then come from the same pipeline as those of the user's recurrences.
// Equal ones, as those of the layers of a repeat, are compiled once.
//
// A tensor is a row of numbers for each token: a part of the rows of a buffer. Sizes are known at
// compile time; batch and time are not. graph_build checks layers, models, inits, trains and
// evaluates; to_json writes what librec executes.
#pragma once

#include "compiler/abi/closed_sets.h"
#include "compiler/base/intern.h"
#include "compiler/sema/typed.h"

#define NONE (-1)

// ---- weights ---------------------------------------------------------------------------------

// Elements first .. first + count - 1 of a parameter: a named part of it, or all.
typedef struct graph_part {
  const char *name;  // NULL: the whole parameter
  int64_t first, count;
  int axis_count;  // the part's shape, for `index` and for the check of `~`
  const char *axes[TYPED_MAX_AXES];
  int64_t sizes[TYPED_MAX_AXES];
  const typed_start *by_default;  // never NULL but for a param without `~`
  const typed_start *start;       // by an init, else by_default; NULL: nothing says how it starts
  span span;                      // where it is created
} graph_part;

typedef struct graph_parameter {
  parameter_kind kind;
  const char *name;  // its path: layers.3.in_proj.weight
  int rank;
  int64_t shape[TYPED_MAX_AXES + 2];
  int64_t elements;
  double eps;             // of a norm: what it adds to the mean of squares
  const char *lag_name;   // of a convolution: how its tail is called in its layer
  VEC(graph_part) parts;  // in order, without gaps
  const ast_item *owner;  // the layer or model that has it, for `init .. for`
  const char *prefix;     // of its layer's instance: layers.3.
  const char *local;      // its path inside the owner: in_proj.weight, A_log
  int repeat_index;       // instance of the outermost repeat, or NONE
  span span;
} graph_parameter;

// ---- operations ------------------------------------------------------------------------------

typedef struct graph_tensor {
  const char *name;  // for people
  int buffer;
  int64_t offset, elements;  // in the rows of the buffer
} graph_tensor;

typedef struct graph_buffer {
  int64_t elements;  // of a row
  bool gradient;
  int64_t place;  // of its rows in the memory plan, in elements per token
} graph_buffer;

// A parameter, or some of its elements, as an operation uses it.
typedef struct graph_use {
  int parameter;
  int64_t first;
} graph_use;

// What a state starts from where a call is not given it.
typedef struct graph_begin {
  double number[2];
  graph_use use;  // parameter: NONE: `number`
  // numbers of the parameter along the state's axes; 0: it lacks the axis
  int64_t strides[TYPED_MAX_AXES];
} graph_begin;

typedef struct graph_state {
  const char *name;  // layers.0.h, layers.0.conv1d.lag
  int64_t elements;  // of one sequence
  bool lag;          // the tail of a lag buffer, not a state of a recurrence
  bool complex;      // each entry is two elements
  bool counter;      // no input reaches it: every sequence has the same values
  int repeat_index;
  int axis_count;
  const char *axes[TYPED_MAX_AXES];
  int64_t sizes[TYPED_MAX_AXES];
  int learned;               // the parameter that sequences may start from, or NONE
  const graph_begin *begin;  // NULL: zero
} graph_state;

typedef struct graph_op {
  model_op_kind kind;
  int kernel;  // CALL: position in program.kernels
  // tensors; EMBED has none (it reads the tokens); CALL: by input of the kernel
  VEC(int) inputs;
  VEC(int) outputs;     // tensors; LOSS: none. LINEAR: the parts of its row, in order
  int row;              // LINEAR: the tensor of the whole row, else NONE
  VEC(graph_use) uses;  // EMBED: the table. LINEAR: weight [, bias]. CALL: by param of the kernel
  VEC(int) states;      // CALL: model states, by state of the kernel, then by lag buffer
} graph_op;

typedef enum gradient_step_kind {
  GRADIENT_OF,    // the gradients of operation `op`
  GRADIENT_ADD,   // d[to] += d[from]
  GRADIENT_ZERO,  // d[to] = 0
} gradient_step_kind;

// One step of the backward pass. d_inputs[i] belongs to inputs[i] of the operation. The gradient of
// the logits takes their place: the loss writes it.
typedef struct gradient_step {
  gradient_step_kind kind;
  int op;
  VEC(int) d_inputs;   // tensors of gradient buffers; NONE: not wanted
  VEC(int) d_outputs;  // LINEAR: one, of the whole row. NONE: zero, nothing reads the output
  bool add;            // LINEAR: adds to d_inputs[0]
  VEC(int) add_use;    // CALL: by use; 1 if an earlier step has written this gradient
  int to, from;
} gradient_step;

// A kernel that the models call: a user's recurrence at the sizes of a call, or a gathered one.
typedef struct graph_kernel {
  const char *name;  // of the recurrence: LM.ssd, LM.pointwise1
  typed_body *body;
  const char *stem;  // ssd
  const char *text;  // the body with the stem as its name: equal kernels have equal texts
} graph_kernel;

// An input or output of a layer that is called by itself.
typedef struct graph_port {
  const char *name;
  int tensor;
  int axis_count;
  const char *axes[TYPED_MAX_AXES];
  int64_t sizes[TYPED_MAX_AXES];
  bool complex;  // each entry is two elements
} graph_port;

typedef struct graph_model {
  const char *name;  // LM
  const char *text;  // LM(depth = 2, D = 64): as a train block asks for it
  int vocabulary;
  VEC(graph_parameter) parameters;
  VEC(graph_tensor) tensors;
  VEC(graph_buffer) buffers;
  VEC(graph_state) states;
  VEC(graph_op) ops;            // forward, in order; the loss last
  VEC(gradient_step) gradient;  // backward, in order
  int logits;                   // tensor
  VEC(graph_port) inputs;       // of a layer by itself, which has no embed, logits, loss, gradient
  VEC(graph_port) outputs;
  int64_t row_elements;  // memory plan: elements per token of all buffers together
  span span;
} graph_model;

// ---- training and judging --------------------------------------------------------------------

// A number that goes from the first step of an entry to its last in a straight line.
typedef struct graph_ramp {
  double from, to;
} graph_ramp;

// A constant times ramps.
typedef struct graph_weight {
  double constant;
  VEC(graph_ramp) ramps;
} graph_weight;

typedef struct graph_choice {
  graph_weight weight;  // of a mix; all weights of an entry sum to 1
  intervention_kind kind;
  graph_ramp number;  // of noise: the standard deviation, or beta; else 0
} graph_choice;

// What sequences start from, in steps from .. to - 1, in the layers first_layer .. last_layer - 1.
typedef struct graph_intervention {
  int64_t from, to;
  int first_layer, last_layer;
  VEC(graph_choice) choices;
  const ast_names *per;  // axes of a state with statistics of their own; NULL: all but two
} graph_intervention;

typedef struct graph_task {
  const task_rules *rules;
  const char *text;          // as written
  int64_t shortest, length;  // sequences have lengths between them
  int64_t alphabet, count;   // letters; those to be selected, or pairs
  bool all;                  // the loss counts every next token
} graph_task;

// A label that weighs something else than 1 in the loss.
typedef struct label_weight {
  int64_t label;
  double weight;
} label_weight;

// data text(file, ..) or tokens(file, ..)
typedef struct graph_source {
  const char *file;  // beside the .rec file; NULL: the data are a task
  source_kind tokens;
  token_format format;  // of ids; of a text, by content or raw
  int bits;             // of ids, of a number in the file; 0: what the file says
  double split;
  bool streaming, apart;
  int64_t separator;  // -1: none
} graph_source;

typedef struct graph_train {
  const char *name, *after;  // after: or NULL
  int model;
  const char *init_text;  // as written, for reports; NULL: none
  graph_source source;
  graph_task task;
  int64_t context, batch, steps, seed;
  optimizer_kind optimizer;
  double optimizer_own;  // its own setting
  double rate, beta1, beta2, epsilon, weight_decay, clip;
  VEC(int) no_decay;   // parameters that do not decay though matrices do
  int64_t accumulate;  // parts of a batch that run one after another
  int64_t segments;    // parts of the context
  exchange_kind exchange;
  schedule_kind schedule;
  int64_t warmup, decay;  // steps
  double floor;
  int64_t loss_from;  // the first token of a sequence that counts
  double loss_rest;   // what a token of a task weighs that is no answer
  VEC(label_weight) labels;
  VEC(graph_intervention) interventions;
  const ast_item *item;
} graph_train;

typedef struct graph_evaluate {
  const char *name, *after;  // after: the train block judged
  int64_t until;             // perplexity(until = N); 0: not asked for
  int64_t state_until;       // state_norm(until = N); 0: not asked for
  VEC(int64_t) lengths;      // accuracy(lengths = (N, ..))
  int64_t remembrance;       // remembrance(T = N); 0: not asked for
  double tolerance;          // of perplexity's verdict, in bits
  int64_t attention;         // attention(T = N); 0: not asked for
  int64_t overflow;          // overflow(T = N); 0: not asked for
  bool learned;              // initial_state(learned): not from zero
  distance_kind distance;    // of remembrance
  const ast_item *item;
} graph_evaluate;

typedef struct graph_program {
  VEC(graph_kernel) kernels;
  VEC(graph_model) models;  // of the train blocks, then those of the file that none of them has
  // of layers that no model has: their weights, with sizes that stand in for those of callers
  VEC(graph_model) alone;
  VEC(graph_model) layers;  // those of graph_build_layers, which can be run
  VEC(graph_train) trains;
  VEC(graph_evaluate) evaluates;
} graph_program;

// Checks everything of sections 4 and 5 and builds the graphs. NULL if the file has no layer,
// model, init, train or evaluate; with errors in `diag` the result is partial. Not to be called
// after errors of sema.
graph_program *graph_build(arena *memory, interner *names, diag *messages,
                           const typed_program *program);

// Adds the file's layers whose sizes are all known, each by itself: its inputs are what an embed
// without a table makes.
void graph_build_layers(arena *memory, interner *names, diag *messages,
                        const typed_program *program, graph_program *result);

// `--emit=graph`: parameters, operations, the backward pass, the memory plan, the schedule table.
char *graph_print(arena *memory, const graph_program *program);

// The manifest's "program" (JSON text).
char *graph_to_json(arena *memory, const graph_program *program);

// The start of a recurrence's parameter as a tree of lists (start_json.c); null without one.
struct cJSON *tensor_start_json(arena *memory, const typed_body *body, const typed_tensor *tensor);
