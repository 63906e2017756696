// Cuts the trunk into recurrences without states, between the operations.
//
//   %5 = out_proj            pointwise1(D) { input x0[D], x1[D]  param p0[D]  output y0[D], y1[D]
//   %6 = add %1 %5              y0 = x0 + x1
//   %9 = .. rms_norm %6         y1 = rms_norm of y0 times p0 }
//   in_proj of %9            op: call pointwise1 (%1, %5) -> %6, %9
//
// A value belongs to the level of the last operation before it. A value that only later levels read
// moves there, so that a gate is computed where it is applied. Values of one level that touch each
// other are one recurrence. Nothing of a level lies behind an operation that reads the level, so
// the recurrences and operations have an order.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/graph/build.h"

// A value of the trunk that lies in memory.
typedef struct row {
  value_id value;
  axis_order order;
  int tensor;  // of the model, once it is made
} row;

typedef struct region {
  int level;
  VEC(int) outputs;  // rows
} region;

typedef struct gathering {
  graph_builder *b;
  int count;  // values of the trunk
  bool *is_free, *live;
  bool *op_live;
  int *level, *op_level;
  int *leader;       // union-find over values
  int *region_of;    // by leader, then by value
  value_id *mapped;  // by value: its image in the body that is being extracted
  VEC(row) rows;
  VEC(region) regions;
  const trunk_row *results;
  int result_count;
} gathering;

static const typed_value *trunk_value_at(const gathering *g, value_id v) {
  return &g->b->trunk->values.items[v];
}

// What a value reads: its operands, and the source of the lag buffer.
static int reads(const gathering *g, value_id v, value_id *out) {
  const typed_value *value = trunk_value_at(g, v);
  if (value->op == VALUE_LAG) {
    out[0] = g->b->trunk->lags.items[value->index].source;
    return 1;
  }
  for (int i = 0; i < value_arity(value->op); i++) out[i] = value->args[i];
  return value_arity(value->op);
}

static bool is_trunk_input(const gathering *g, value_id v) {
  return trunk_value_at(g, v)->op == VALUE_INPUT;
}

static bool is_inner(const gathering *g, value_id v) {
  return g->live[v] && !g->is_free[v] && !is_trunk_input(g, v);
}

static int tensor_op(const gathering *g, value_id v) {
  return g->b->tensors.items[trunk_value_at(g, v)->index].op;
}

// ---- levels ----------------------------------------------------------------------------------

static void find_live_values(gathering *g) {
  graph_builder *b = g->b;
  value_id read[3];
  for (int i = 0; i < g->result_count; i++) g->live[g->results[i].value] = true;
  for (value_id v = g->count - 1; v >= 0; v--) {
    if (!g->live[v]) continue;
    for (int i = reads(g, v, read); i-- > 0;) g->live[read[i]] = true;
    if (!is_trunk_input(g, v)) continue;
    int op = tensor_op(g, v);
    if (op == NONE) {
      diag_error(b->diag, trunk_value_at(g, v)->span,
                 "expected the token to be read by embed alone, found it in an expression");
      continue;
    }
    g->op_live[op] = true;
    for (int i = 0; i < b->ops.items[op].inputs.count; i++)
      g->live[b->ops.items[op].inputs.items[i].value] = true;
  }
}

static void find_gather_levels(gathering *g) {
  graph_builder *b = g->b;
  value_id read[3];
  for (value_id v = 0; v < g->count; v++) {
    if (!g->live[v]) continue;
    value_op op = trunk_value_at(g, v)->op;
    g->is_free[v] = op != VALUE_INPUT && op != VALUE_LAG;
    if (op == VALUE_INPUT && tensor_op(g, v) != NONE) {
      const trunk_op *made = &b->ops.items[tensor_op(g, v)];
      int level = 0;
      for (int i = 0; i < made->inputs.count; i++)
        if (g->level[made->inputs.items[i].value] > level)
          level = g->level[made->inputs.items[i].value];
      g->level[v] = g->op_level[tensor_op(g, v)] = level + 1;
    }
    for (int i = reads(g, v, read); i-- > 0;) {
      if (!g->is_free[read[i]]) g->is_free[v] = false;
      if (g->level[read[i]] > g->level[v]) g->level[v] = g->level[read[i]];
    }
  }
}

static void sink(gathering *g) {
  graph_builder *b = g->b;
  int *wanted = ARENA_ARRAY(b->arena, int, g->count);  // the lowest level that reads the value
  value_id read[3];
  for (value_id v = 0; v < g->count; v++) wanted[v] = INT32_MAX;
  for (int i = 0; i < b->ops.count; i++)
    for (int k = 0; g->op_live[i] && k < b->ops.items[i].inputs.count; k++)
      wanted[b->ops.items[i].inputs.items[k].value] = -1;
  for (int i = 0; i < g->result_count; i++) wanted[g->results[i].value] = -1;
  for (value_id v = g->count - 1; v >= 0; v--) {
    if (!g->live[v]) continue;
    if (is_inner(g, v) && wanted[v] != INT32_MAX && wanted[v] > g->level[v])
      g->level[v] = wanted[v];
    for (int i = reads(g, v, read); i-- > 0;)
      if (g->level[v] < wanted[read[i]]) wanted[read[i]] = g->level[v];
  }
}

// ---- regions ---------------------------------------------------------------------------------

static int leader(gathering *g, int v) {
  while (g->leader[v] != v) v = g->leader[v] = g->leader[g->leader[v]];
  return v;
}

static void join_leaders(gathering *g, int a, int b) {
  a = leader(g, a), b = leader(g, b);
  if (a < b)
    g->leader[b] = a;
  else
    g->leader[a] = b;
}

// Values of one level are joined if one reads the other, or if both read the same memory and have
// the same axes.
static void join_values(gathering *g) {
  value_id read[3];
  // the last value that reads this one from memory
  int *reader = ARENA_ARRAY(g->b->arena, int, g->count);
  for (value_id v = 0; v < g->count; v++) g->leader[v] = v, reader[v] = -1;
  for (value_id v = 0; v < g->count; v++) {
    if (!is_inner(g, v)) continue;
    for (int i = reads(g, v, read); i-- > 0;) {
      value_id r = read[i];
      if (g->is_free[r]) continue;
      if (is_inner(g, r) && g->level[r] == g->level[v]) {
        join_leaders(g, r, v);
        continue;
      }
      if (reader[r] >= 0 && g->level[reader[r]] == g->level[v] &&
          trunk_value_at(g, reader[r])->axes == trunk_value_at(g, v)->axes)
        join_leaders(g, reader[r], v);
      reader[r] = v;
    }
  }
}

static void make_regions(gathering *g) {
  graph_builder *b = g->b;
  for (value_id v = 0; v < g->count; v++) {
    g->region_of[v] = -1;
    if (!is_inner(g, v)) continue;
    int first = leader(g, v);
    if (first == v) {
      g->region_of[v] = g->regions.count;
      vec_push(b->arena, &g->regions, (region){.level = g->level[v]});
    }
    g->region_of[v] = g->region_of[first];
  }
}

static bool same_order(axis_order a, axis_order b) {
  return a.count == b.count && !memcmp(a.axes, b.axes, sizeof(int) * (size_t)a.count);
}

static int find_row(const gathering *g, value_id value, const axis_order *order) {
  for (int i = 0; i < g->rows.count; i++)
    if (g->rows.items[i].value == value && (!order || same_order(g->rows.items[i].order, *order)))
      return i;
  return -1;
}

static int add_gather_row(gathering *g, value_id value, axis_order order) {
  vec_push(g->b->arena, &g->rows, (row){value, order, NONE});
  return g->rows.count - 1;
}

// The row of an inner value in this order, or of an input in another order than its operation
// writes: an output of a region.
static void want_row(gathering *g, value_id value, axis_order order) {
  graph_builder *b = g->b;
  if (find_row(g, value, &order) >= 0) return;
  int r = g->region_of[value];
  if (is_trunk_input(g, value)) {  // a copy
    r = g->regions.count;
    vec_push(b->arena, &g->regions, (region){.level = g->level[value]});
  }
  int place = add_gather_row(g, value, order);
  vec_push(b->arena, &g->regions.items[r].outputs, place);
}

static bool want_result(gathering *g, const trunk_row *wanted) {
  if (g->is_free[wanted->value])
    return diag_error(
        g->b->diag, trunk_value_at(g, wanted->value)->span,
        "expected a value that depends on the token, found one of weights and numbers alone");
  want_row(g, wanted->value, wanted->order);
  return true;
}

static void make_gather_rows(gathering *g) {
  graph_builder *b = g->b;
  for (value_id v = 0; v < g->count; v++) {
    if (!g->live[v] || !is_trunk_input(g, v)) continue;
    const typed_tensor *t = &b->trunk->tensors.items[trunk_value_at(g, v)->index];
    axis_order order = order_of_tensor(t);
    add_gather_row(g, v, order);
  }
  for (int i = 0; i < b->ops.count; i++)
    for (int k = 0; g->op_live[i] && k < b->ops.items[i].inputs.count; k++)
      if (!want_result(g, &b->ops.items[i].inputs.items[k])) return;
  for (int i = 0; i < g->result_count; i++)
    if (!want_result(g, &g->results[i])) return;
  value_id read[3];
  for (value_id v = 0; v < g->count; v++)
    for (int i = is_inner(g, v) ? reads(g, v, read) : 0; i-- > 0;) {
      value_id r = read[i];
      if (!is_inner(g, r) || g->region_of[r] == g->region_of[v] || find_row(g, r, NULL) >= 0)
        continue;
      want_row(g, r, order_of_set(trunk_value_at(g, r)->axes));
    }
}

// ---- a region as a recurrence ----------------------------------------------------------------

typedef struct extraction {
  gathering *g;
  const region *from;
  int number;
  typed_body *body;
  value_id *mapped;  // by value of the trunk
  int *axis_map;     // by axis of the trunk, -1: not met
  graph_op *op;
  VEC(int) lag_from;  // by lag of the body: the trunk's
} extraction;

static int extract_axis(extraction *x, int axis) {
  graph_builder *b = x->g->b;
  if (x->axis_map[axis] >= 0) return x->axis_map[axis];
  typed_axis own = {.name = b->trunk->axes.items[axis].name,
                    .size = b->trunk->axes.items[axis].size};
  for (int i = 0; i < x->body->axes.count; i++)
    // another layer's axis of the same name and another size
    if (x->body->axes.items[i].name == own.name) {
      own.name = intern(b->names, arena_printf(b->arena, "%s%d", own.name, x->body->axes.count));
      i = -1;
    }
  vec_push(b->arena, &x->body->axes, own);
  return x->axis_map[axis] = x->body->axes.count - 1;
}

static axis_set extract_set(extraction *x, axis_set set) {
  axis_set out = 0;
  for (int i = 0; i < TYPED_MAX_AXES; i++)
    if (axis_in(set, i)) out |= axis_bit(extract_axis(x, i));
  return out;
}

static int add_extracted_tensor(extraction *x, tensor_kind kind, const char *letter, int number,
                                axis_order order, bool complex) {
  graph_builder *b = x->g->b;
  typed_tensor t = {.kind = kind,
                    .name = intern(b->names, arena_printf(b->arena, "%s%d", letter, number)),
                    .axis_count = order.count,
                    .axes = ARENA_ARRAY(b->arena, int, order.count + 1),
                    .complex = complex,
                    .assigned = NO_VALUE};
  for (int i = 0; i < order.count; i++) {
    t.axes[i] = extract_axis(x, order.axes[i]);
    t.axis_set |= axis_bit(t.axes[i]);
  }
  vec_push(b->arena, &x->body->tensors, t);
  return x->body->tensors.count - 1;
}

static value_id append_extracted(extraction *x, typed_value value) {
  value.name = NULL;
  value.span = (span){0};
  return body_append(x->g->b->arena, x->body, value);
}

static value_id extract_input(extraction *x, value_id v) {
  gathering *g = x->g;
  int place = find_row(g, v, NULL);
  const row *r = &g->rows.items[place];
  int tensor = add_extracted_tensor(x, TENSOR_INPUT, "x", x->op->inputs.count, r->order,
                                    trunk_value_at(g, v)->complex);
  vec_push(g->b->arena, &x->op->inputs, place);  // a row for now; a tensor once all are made
  return append_extracted(x, (typed_value){.op = VALUE_INPUT, .index = tensor});
}

static value_id extract_param(extraction *x, const typed_value *value) {
  graph_builder *b = x->g->b;
  const typed_tensor *t = &b->trunk->tensors.items[value->index];
  axis_order order = order_of_tensor(t);
  int tensor = add_extracted_tensor(x, TENSOR_PARAM, "p", x->op->uses.count, order, t->complex);
  vec_push(b->arena, &x->op->uses, b->tensors.items[value->index].use);
  return append_extracted(x, (typed_value){.op = VALUE_PARAM, .index = tensor});
}

static value_id extract(extraction *x, value_id v);

static value_id extract_lag(extraction *x, const typed_value *value) {
  graph_builder *b = x->g->b;
  const typed_lag *lag = &b->trunk->lags.items[value->index];
  value_id from = extract(x, lag->source);  // first: what is lagged may have lags of its own
  int place = 0;
  while (place < x->lag_from.count && x->lag_from.items[place] != value->index) place++;
  if (place == x->lag_from.count) {
    const typed_value *s = &x->body->values.items[from];
    bool input = s->op == VALUE_INPUT;
    const char *name = input ? x->body->tensors.items[s->index].name
                             : intern(b->names, arena_printf(b->arena, "v%d", place));
    vec_push(b->arena, &x->body->lags,
             (typed_lag){.name = name,
                         .input = input ? s->index : NONE,
                         .source = from,
                         .axes = extract_set(x, lag->axes),
                         .complex = lag->complex});
    vec_push(b->arena, &x->lag_from, value->index);
  }
  if (value->steps > x->body->lags.items[place].depth)
    x->body->lags.items[place].depth = value->steps;
  return append_extracted(x, (typed_value){.op = VALUE_LAG, .index = place, .steps = value->steps});
}

static value_id extract(extraction *x, value_id v) {
  gathering *g = x->g;
  if (x->mapped[v] != NO_VALUE) return x->mapped[v];
  const typed_value *value = trunk_value_at(g, v);
  value_id made;
  if (is_trunk_input(g, v) || (!g->is_free[v] && g->region_of[v] != x->number)) {
    made = extract_input(x, v);
  } else if (value->op == VALUE_PARAM) {
    made = extract_param(x, value);
  } else if (value->op == VALUE_LAG) {
    made = extract_lag(x, value);
  } else {
    typed_value copy = *value;
    for (int i = 0; i < value_arity(value->op); i++) copy.args[i] = extract(x, value->args[i]);
    copy.over = extract_set(x, value->over);
    if (value->op == VALUE_INDEX || value->op == VALUE_SLICE || value->op == VALUE_RENAME)
      copy.index = extract_axis(x, value->index);
    if (value->op == VALUE_RENAME) copy.index2 = extract_axis(x, value->index2);
    made = append_extracted(x, copy);
  }
  return x->mapped[v] = made;
}

// ---- kernels ---------------------------------------------------------------------------------

// The kernel with this body: one that exists, or a new one. `stem` names new ones: LM.ssd,
// LM.pointwise1.
static int kernel_for(graph_builder *b, typed_body *body, const char *stem, bool numbered) {
  graph_program *program = b->result;
  body->name = stem, body->doc = NULL, body->span = (span){0};
  const char *text = typed_print_body(b->arena, body);
  int same_stem = 0;
  for (int i = 0; i < program->kernels.count; i++) {
    if (strcmp(program->kernels.items[i].stem, stem) != 0) continue;
    same_stem++;
    if (!strcmp(program->kernels.items[i].text, text)) return i;
  }
  const char *number = numbered || same_stem ? arena_printf(b->arena, "%d", same_stem + 1) : "";
  body->name = intern(b->names, arena_printf(b->arena, "%s.%s%s", b->model->name, stem, number));
  vec_push(b->arena, &program->kernels,
           (graph_kernel){.name = body->name, .stem = stem, .text = text, .body = body});
  return program->kernels.count - 1;
}

static graph_op region_op(gathering *g, int number) {
  graph_builder *b = g->b;
  graph_op op = {.kind = OP_CALL, .row = NONE};
  extraction x = {.g = g,
                  .from = &g->regions.items[number],
                  .number = number,
                  .body = ARENA_NEW(b->arena, typed_body),
                  .mapped = g->mapped,
                  .axis_map = ARENA_ARRAY(b->arena, int, TYPED_MAX_AXES),
                  .op = &op};
  for (int i = 0; i < g->count; i++) x.mapped[i] = NO_VALUE;
  for (int i = 0; i < TYPED_MAX_AXES; i++) x.axis_map[i] = -1;
  // axes in the order of memory first, so that they can be joined
  for (int i = 0; i < x.from->outputs.count; i++) {
    const row *r = &g->rows.items[x.from->outputs.items[i]];
    for (int k = 0; k < r->order.count; k++) extract_axis(&x, r->order.axes[k]);
  }
  for (int i = 0; i < x.from->outputs.count; i++) {
    int place = x.from->outputs.items[i];
    value_id made = is_trunk_input(g, g->rows.items[place].value)
                        ? extract_input(&x, g->rows.items[place].value)
                        : extract(&x, g->rows.items[place].value);
    int tensor = add_extracted_tensor(&x, TENSOR_OUTPUT, "y", i, g->rows.items[place].order,
                                      x.body->values.items[made].complex);
    x.body->tensors.items[tensor].assigned = made;
    vec_push(b->arena, &op.outputs, place);
  }
  join_all_axes(b, x.body);
  for (int i = 0; i < x.body->lags.count; i++) {
    const trunk_lag *lag = &b->lags.items[x.lag_from.items[i]];
    const typed_lag *own = &x.body->lags.items[i];
    vec_push(b->arena, &op.states,
             state_add(b, lag->name, lag->repeat_index, x.body, order_of_set(own->axes), own->depth,
                       own->complex));
  }
  if (x.body->values.count > TYPED_MAX_VALUES)
    diag_error(
        b->diag, b->trunk->span,
        "expected at most %d operations between two operations with weights, found %d; a layer is "
        "written out at each call",
        TYPED_MAX_VALUES, x.body->values.count);
  op.kernel = kernel_for(b, x.body, "pointwise", true);
  return op;
}

static graph_op plain_op(gathering *g, int number) {
  graph_builder *b = g->b;
  const trunk_op *from = &b->ops.items[number];
  graph_op op = {.kind = from->kind, .row = NONE, .kernel = NONE};
  for (int i = 0; i < from->inputs.count; i++)
    vec_push(b->arena, &op.inputs,
             find_row(g, from->inputs.items[i].value, &from->inputs.items[i].order));
  for (int i = 0; i < from->outputs.count; i++) {
    int place = 0;  // the input value that reads this output; -1 if nothing does
    while (place < g->rows.count &&
           !(is_trunk_input(g, g->rows.items[place].value) &&
             trunk_value_at(g, g->rows.items[place].value)->index == from->outputs.items[i]))
      place++;
    vec_push(b->arena, &op.outputs, place < g->rows.count ? place : -1 - from->outputs.items[i]);
  }
  for (int i = 0; i < from->uses.count; i++) vec_push(b->arena, &op.uses, from->uses.items[i]);
  for (int i = 0; i < from->states.count; i++)
    vec_push(b->arena, &op.states, from->states.items[i]);
  if (from->kind == OP_CALL) {
    typed_body *copy = ARENA_NEW(b->arena, typed_body);
    *copy = *from->recurrence;
    op.kernel = kernel_for(b, copy, from->recurrence_name, false);
  }
  return op;
}

// ---- tensors and buffers ---------------------------------------------------------------------

static int add_model_buffer(graph_builder *b, int64_t elements) {
  vec_push(b->arena, &b->model->buffers, (graph_buffer){.elements = elements});
  return b->model->buffers.count - 1;
}

static int add_model_tensor(graph_builder *b, const char *name, int buffer, int64_t offset,
                            int64_t elements) {
  vec_push(b->arena, &b->model->tensors, (graph_tensor){name, buffer, offset, elements});
  return b->model->tensors.count - 1;
}

// Rows become tensors: each output a buffer of its own, the parts of a linear parts of one.
static void place_outputs(gathering *g, graph_op *op) {
  graph_builder *b = g->b;
  int64_t total = 0;
  int shared = op->kind == OP_LINEAR ? add_model_buffer(b, 0) : NONE;
  for (int i = 0; i < op->outputs.count; i++) {
    int place = op->outputs.items[i];
    axis_order order;
    bool complex;
    const char *name;
    if (place >= 0) {
      order = g->rows.items[place].order;
      complex = trunk_value_at(g, g->rows.items[place].value)->complex;
      name = trunk_value_at(g, g->rows.items[place].value)->name;
    } else {  // an output that nothing reads
      const typed_tensor *t = &b->trunk->tensors.items[-1 - place];
      order = order_of_tensor(t);
      complex = t->complex, name = t->name;
    }
    int64_t elements = order_elements(b->trunk, order) * (complex ? 2 : 1);
    int buffer = shared == NONE ? add_model_buffer(b, elements) : shared;
    int tensor =
        add_model_tensor(b, name ? name : "value", buffer, shared == NONE ? 0 : total, elements);
    total += elements;
    if (place >= 0) g->rows.items[place].tensor = tensor;
    op->outputs.items[i] = tensor;
  }
  if (shared == NONE) return;
  b->model->buffers.items[shared].elements = total;
  op->row =
      op->outputs.count == 1 ? op->outputs.items[0] : add_model_tensor(b, "row", shared, 0, total);
}

static void emit_op(gathering *g, graph_op op) {
  for (int i = 0; i < op.inputs.count; i++)
    op.inputs.items[i] = g->rows.items[op.inputs.items[i]].tensor;
  place_outputs(g, &op);
  vec_push(g->b->arena, &g->b->model->ops, op);
}

static void emit_level(gathering *g, int level) {
  for (int i = 0; i < g->b->ops.count; i++)
    if (g->op_live[i] && g->op_level[i] == level) emit_op(g, plain_op(g, i));
  for (int i = 0; i < g->regions.count; i++)
    if (g->regions.items[i].level == level && g->regions.items[i].outputs.count)
      emit_op(g, region_op(g, i));
}

bool gather_operations(graph_builder *b, const trunk_row *results, int count, int *tensors) {
  int n = b->trunk->values.count, m = b->ops.count;
  gathering g = {.b = b,
                 .count = n,
                 .is_free = ARENA_ARRAY(b->arena, bool, n),
                 .live = ARENA_ARRAY(b->arena, bool, n),
                 .op_live = ARENA_ARRAY(b->arena, bool, m + 1),
                 .level = ARENA_ARRAY(b->arena, int, n),
                 .op_level = ARENA_ARRAY(b->arena, int, m + 1),
                 .leader = ARENA_ARRAY(b->arena, int, n),
                 .region_of = ARENA_ARRAY(b->arena, int, n),
                 .mapped = ARENA_ARRAY(b->arena, value_id, n),
                 .results = results,
                 .result_count = count};
  int errors = diag_error_count(b->diag);
  find_live_values(&g);
  find_gather_levels(&g);
  sink(&g);
  join_values(&g);
  make_regions(&g);
  make_gather_rows(&g);
  if (diag_error_count(b->diag) > errors) return false;
  int last = 0;
  for (value_id v = 0; v < n; v++)
    if (g.live[v] && g.level[v] > last) last = g.level[v];
  for (int level = 0; level <= last; level++) emit_level(&g, level);
  for (int i = 0; i < count; i++)
    tensors[i] = g.rows.items[find_row(&g, results[i].value, &results[i].order)].tensor;
  return diag_error_count(b->diag) == errors;
}
