// Inside compiler/graph: a model while it is being built.
//
// Every layer and model that is called becomes an `instance` with a body of its own, in whose names
// sema checks the layer's expressions. The values of all instances are lifted into one body, the
// trunk, whose inputs are the results of the operations (linear, embed, recurrences). gather.c then
// cuts the trunk into recurrences without states.
#pragma once

#include "compiler/graph/graph.h"
#include "compiler/sema/sema.h"

// An ordered list of axes of a body: how a row of numbers lies in memory.
typedef struct axis_order {
  int count;
  int axes[TYPED_MAX_AXES];
} axis_order;

// A value of the trunk as rows in memory.
typedef struct trunk_row {
  value_id value;
  axis_order order;
  bool complex;
} trunk_row;

typedef struct trunk_op {
  model_op_kind kind;
  VEC(trunk_row) inputs;
  VEC(int) outputs;  // trunk tensors (inputs of the trunk)
  VEC(graph_use) uses;
  const typed_body *recurrence;
  const char *recurrence_name;
  VEC(int) states;  // model states
} trunk_op;

// Beside each tensor of the trunk.
typedef struct trunk_tensor {
  int op, output;  // an input: which operation makes it; -1 for a param
  graph_use use;   // a param: where its elements are
} trunk_tensor;

typedef struct trunk_lag {
  const char *name;  // path of the state
  int repeat_index;
} trunk_lag;

typedef struct graph_builder {
  arena *arena;
  interner *names;
  diag *diag;
  const typed_program *program;
  graph_program *result;
  graph_model *model;
  typed_body *trunk;
  VEC(trunk_tensor) tensors;
  VEC(trunk_lag) lags;
  VEC(trunk_op) ops;
  VEC(const typed_name *) active;  // layers being written out, against recursion
  VEC(const ast_item *) built;     // layers and models written out so far
  int embedding;                   // parameter of the embed, or NONE
  axis_order embedding_order;
} graph_builder;

typedef enum binding_kind { BINDING_GIVEN, BINDING_LET, BINDING_CARRIED } binding_kind;

typedef struct binding {
  const char *name;
  value_id value;
  span span;
  binding_kind kind;
  bool used;
} binding;

// Where a lag buffer of a body was made: values are lifted later, when a repeat may be over.
typedef struct lag_place {
  const char *prefix;
  int repeat_index;
} lag_place;

typedef struct instance {
  graph_builder *b;
  const typed_name *item;
  typed_body *body;
  sema_scope *scope;
  const char *prefix;  // "" or "layers.0."
  // what the prefix ends with if a path is taken by another layer: "Mamba2."
  const char *component;
  int repeat_index;
  axis_set axes_used;  // by the bodies of repeats
  bool model;
  int hidden;                  // names made for the components of tuples
  VEC(value_id) lifted;        // by value of the body: its value in the trunk, or NO_VALUE
  VEC(value_id) tensor_value;  // by tensor of the body: the trunk's value
  VEC(int) lag_map;            // by lag of the body: the trunk's lag, or -1
  VEC(lag_place) lag_places;   // by lag of the body, as far as told by instance_note_lags
  VEC(binding) bindings;       // inputs, params and lets, for the scopes of repeats
  VEC(value_id) outputs;       // by output: value of the body
  VEC(typed_tensor) output_tensors;
  VEC(const char *) failed;  // names whose statement was refused: who reads them is not checked
  // the let or output whose right side is being checked, for the names of weights
  const char *bound_to;
} instance;

// ---- trunk.c ----
int trunk_axis(graph_builder *b, const char *name, int64_t size);
// The trunk's value for a value of the instance.
value_id trunk_lift(instance *in, value_id value);
axis_order trunk_order(instance *in, axis_order order);
// Remembers that the lag buffers made since the last note belong to the present prefix.
void instance_note_lags(instance *in);
// A new input of the trunk, made by the operation to be added next, and its value in the instance's
// body.
int trunk_add_input(graph_builder *b, const char *name, axis_order trunk_axes, bool complex, int op,
                    int output);
value_id instance_add_input(instance *in, const char *name, axis_order order, bool complex,
                            value_id trunk_value);
// The value of an input or a param of a body.
value_id tensor_value(arena *a, typed_body *body, int tensor);
value_id trunk_input_value(graph_builder *b, int tensor);
// The trunk's value for the last tensor of the instance's body.
void set_tensor_value(instance *in, value_id trunk_value);
// A real param of the instance's body whose elements are `use`.
value_id instance_add_param(instance *in, const char *name, axis_order order, graph_use use);
value_id trunk_add_param(instance *in, const char *name, axis_order order, bool complex,
                         graph_use use);
axis_order order_of_set(axis_set set);
// The axes of a tensor as it has them in memory.
axis_order order_of_tensor(const typed_tensor *tensor);
int64_t order_elements(const typed_body *body, axis_order order);
axis_set order_set(axis_order order);
// "D, N": the names of a header, or "none".
const char *header_text(arena *memory, const ast_header *header);
// "[G,R,P]"
const char *order_text(arena *memory, const typed_body *body, axis_order order);
const char *set_text(arena *memory, const typed_body *body, axis_set set);

// ---- parameters.c ----
// A new parameter named by the instance's path and `local`; an equal path is an error.
int parameter_add(instance *in, parameter_kind kind, const char *local, span where);
void parameter_shape(graph_builder *b, int parameter, int64_t size);
// Complex weights are not trained in this version: an error.
void parameter_complex(graph_builder *b, int parameter, bool complex);
// Appends a part with the default start.
void parameter_part(instance *in, int parameter, const char *name, const typed_body *body,
                    axis_order order, const typed_start *start, span where);
const typed_start *start_number(arena *memory, double number);
const typed_start *start_uniform(arena *memory, double low, double high);
const typed_start *start_normal(arena *memory, double mean, double deviation);
// Applies `init NAME(args)` to the weights of the model in the layers first .. last - 1.
bool parameters_init(graph_builder *b, graph_model *model, const ast_expr *setting, int first,
                     int last);
// What a path means beside part `own` of the weight `near`, in the same layer instance: this part,
// if it means that too.
bool parameter_find_path(arena *memory, const graph_model *model, const graph_parameter *near,
                         const graph_part *own, const char *path, int *parameter, int *part);
// Is `path` the parameter's own, inside its layer or whole, with or without `.weight`?
bool parameter_named(arena *memory, const graph_parameter *p, const char *path);
// Instances of the outermost repeats: one more than the greatest.
int model_depth(const graph_model *model);
// A weight, zero at first, for each state of the layers first .. last - 1 that has none yet.
void parameters_learn_states(graph_builder *b, graph_model *model, int first, int last);
// Errors for weights that nothing starts.
void parameters_check(graph_builder *b, const graph_model *model);

// ---- layer.c ----
// Writes a layer or model out. Its inputs are the trunk values `arguments` (none for a model). NULL
// after an error.
instance *layer_instance(graph_builder *b, instance *caller, const typed_name *item,
                         const size_binding *bindings, int binding_count, const value_id *arguments,
                         int argument_count, const char *name, span call);
// What a right side is bound to.
typedef struct layer_target {
  const char *name;
  bool has_axes;
  axis_order order;
  span span;
} layer_target;
typedef VEC(sema_operand) operands;

// ---- mention.c ----
bool expr_mentions(const ast_expr *e, const char *name);
bool stmt_mentions(const ast_stmt *s, const char *name);

// ---- calls.c ----
bool layer_call(void *context, sema_scope *scope, const ast_expr *call, sema_operand *result);
bool name_is_printable(instance *in, const ast_expr *value);
bool call_is(const ast_expr *e, const char *name);
bool call_linear(instance *in, const ast_expr *call, const layer_target *targets, int target_count,
                 operands *out);
bool call_embed(instance *in, const ast_expr *call, const layer_target *target, sema_operand *out);
bool call_unembed(instance *in, const ast_expr *call, const layer_target *target,
                  sema_operand *out);
bool call_conv1d(instance *in, const ast_expr *call, operands *out);
// items.c: how many names the statements of a kind declare.
int declared_count(ast_stmt_kind kind, const ast_item *item);
// items.c: a recurrence or layer with any number of outputs; false if the name is neither, *good
// false after an error.
bool call_item(instance *in, const ast_expr *call, operands *out, bool *good);
// The argument at a place, of those without a name; NULL: there are fewer.
const ast_expr *call_positional(const ast_expr *call, int place);
// tuples.c: an expression that may be a tuple.
bool layer_tuple(instance *in, const ast_expr *e, operands *out);

// A carried state of the model: items.c. `depth`: steps of the tail of a lag buffer, 0: a state of
// a recurrence.
int state_add(graph_builder *b, const char *name, int repeat_index, const typed_body *body,
              axis_order order, int64_t depth, bool complex);

// ---- data.c: generated tasks ----
const task_rules *task_rules_find(const char *name);  // NULL: none
int task_settings(const task_rules *rules);           // how many names it has
// `values`: by place in the rules' names, NULL where absent.
bool task_read(graph_builder *b, sema_scope *scope, const ast_expr *e,
               const ast_expr *const *values, graph_task *task);
// lengths = 20, or lengths = (20, 40)
bool task_read_lengths(graph_builder *b, sema_scope *scope, const ast_expr *e,
                       const graph_task *task, graph_evaluate *to);
// "copying, stack_copying, .."
const char *task_list(arena *memory);
// The tokens of its longest sequence.
int64_t task_sequence_tokens(const graph_task *t);
// Do the sequences of the block's task fit its model and context?
bool task_check(graph_builder *b, const graph_train *train, const graph_model *model, span where);

// ---- source.c: files of data ----
typedef struct source_rules {
  const char *name;          // text
  const char *const *names;  // of its settings
  int name_count;
} source_rules;
const source_rules *source_rules_find(const char *name);  // NULL: none

// ---- start_json.c ----
// The start of a part of a parameter as a tree of lists; null without one.
struct cJSON *part_start_json(arena *memory, const graph_model *model,
                              const graph_parameter *parameter, const graph_part *part,
                              const typed_start *start);

// ---- gather.c, gradient.c, memory.c, settings.c ----
// The operations of the model, and the tensor of each result; false after an error.
bool gather_operations(graph_builder *b, const trunk_row *results, int count, int *tensors);
// join_axes.c: every pair of axes of the body that occurs together.
void join_all_axes(graph_builder *builder, typed_body *body);
void gradient_build(arena *memory, graph_model *model);
void memory_plan(arena *memory, graph_model *model);
void settings_build(graph_builder *b);
// The model of a train block or declaration with the sizes of `call` (AST_CALL or AST_NAME; NULL:
// as declared).
int model_build(graph_builder *b, const typed_name *item, const ast_expr *call, span where);
