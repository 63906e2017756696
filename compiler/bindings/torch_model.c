// A model, or a layer by itself, as a module of torch: its graph, operation by operation, with
// parameters of its public names.
//
//   LM(): forward(tokens, states=None, cu_seqlens=None) -> logits, states;  step(token, states) -> logits, states
//   Mamba2(): forward(u, states=None, cu_seqlens=None) -> v, states;  step(u, states) -> v, states
//
// A tensor of the graph is a row of numbers for each token. `_t3` is tensor 3: [batch, time,
// numbers], of a step [batch, numbers].
#include <ctype.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/bindings/torch.h"
#include "compiler/graph/build.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static const python_function *kernel_of(const python_printer *p, int number) {
  const char *name = p->graph->kernels.items[number].name;
  for (int i = 0; i < p->functions.count; i++)
    if (strcmp(p->functions.items[i].variants.items[0].abi->body->name, name) == 0)
      return &p->functions.items[i];
  ICE("bindings", "no kernel '%s'", name);
}

// ---- parameters ------------------------------------------------------------------------------

static void put_shape(const python_printer *p, const int64_t *sizes, int count) {
  PUT("(");
  for (int i = 0; i < count; i++)
    PUT("%s%lld%s", i ? " " : "", (long long)sizes[i], i + 1 < count || count == 1 ? "," : "");
  PUT(")");
}

static void put_parameters(const python_printer *p, const graph_model *m) {
  PUT("    def __init__(self, device=None, dtype=None):\n        super().__init__()\n        dtype "
      "= dtype or "
      "_wide(_TYPES[0])\n");
  for (int i = 0; i < m->parameters.count; i++) {
    PUT("        _add_parameter(self, \"%s\", ", m->parameters.items[i].name);
    put_shape(p, m->parameters.items[i].shape, m->parameters.items[i].rank);
    PUT(", device, dtype)\n");
  }
  PUT("        self.reset_parameters()\n\n");
}

// A part of a parameter as the variable `_weight`.
static void put_part(const python_printer *p, const graph_parameter *w, const graph_part *part) {
  PUT("            _weight = self.get_parameter(\"%s\").view(-1)[%lld:%lld]", w->name,
      (long long)part->first, (long long)(part->first + part->count));
  if (w->kind == PARAMETER_CONVOLUTION && w->rank) {
    PUT(".view(-1, %lld)", (long long)w->shape[w->rank - 1]);
  } else if (part->axis_count) {
    PUT(".view(");
    put_shape(p, part->sizes, part->axis_count);
    PUT(")");
  }
  PUT("\n            _shape = _weight.shape\n");
}

// Parts of parameters whose draws the starts of others ask for. `_draw3` is a variable with that of
// number 3.
typedef struct part_place {
  int parameter, part;
} part_place;
typedef VEC(part_place) part_places;

static const char *draw_variable(const python_printer *p, const part_places *draws, part_place of) {
  for (int i = 0; i < draws->count; i++)
    if (draws->items[i].parameter == of.parameter && draws->items[i].part == of.part)
      return arena_printf(p->memory, "_draw%d", i);
  return NULL;
}

static part_place place_of_path(const python_printer *p, const graph_model *m, part_place near,
                                const char *path) {
  const graph_parameter *w = &m->parameters.items[near.parameter];
  part_place found;
  if (!parameter_find_path(p->memory, m, w, &w->parts.items[near.part], path, &found.parameter,
                           &found.part))
    ICE("bindings", "no weight '%s'", path);
  return found;
}

static void add_draws(const python_printer *p, const graph_model *m, part_place of,
                      part_places *draws) {
  const typed_start *start = m->parameters.items[of.parameter].parts.items[of.part].start;
  for (int i = 0; start && i < start->values.count; i++) {
    if (start->values.items[i].kind != START_OTHER_DRAW) continue;
    part_place other = place_of_path(p, m, of, start->values.items[i].path);
    if (!draw_variable(p, draws, other)) vec_push(p->memory, draws, other);
  }
}

// Fills the part, or a variable.
static void put_start(const python_printer *p, const graph_model *m, part_place of,
                      const typed_start *start, const part_places *draws, const char *variable) {
  const graph_parameter *w = &m->parameters.items[of.parameter];
  const graph_part *part = &w->parts.items[of.part];
  put_part(p, w, part);
  if (!start) {
    PUT("            _weight.zero_()  # nothing says how it starts\n");
    return;
  }
  const char *sizes[TYPED_MAX_AXES],
      **others = arena_alloc(p->memory, sizeof *others * (size_t)start->values.count);
  int places[TYPED_MAX_AXES], layers = model_depth(m);
  for (int i = 0; i < part->axis_count; i++) {
    sizes[i] = arena_printf(p->memory, "%lld", (long long)part->sizes[i]);
    places[i] = i;
  }
  for (int i = 0; i < start->values.count; i++)
    if (start->values.items[i].kind == START_OTHER_DRAW)
      others[i] = draw_variable(p, draws, place_of_path(p, m, of, start->values.items[i].path));
  torch_put_start(p->out, &(torch_start){.start = start,
                                         .weight = variable ? NULL : "_weight",
                                         .variable = variable,
                                         .draws = others,
                                         .sizes = sizes,
                                         .places = places,
                                         .is_convolution = w->kind == PARAMETER_CONVOLUTION,
                                         .layer = w->repeat_index == NONE ? 0 : w->repeat_index,
                                         .layers = layers > 0 ? layers : 1});
}

static void put_reset_part(const python_printer *p, const graph_model *m, part_place of,
                           const part_places *draws) {
  const graph_parameter *w = &m->parameters.items[of.parameter];
  const graph_part *part = &w->parts.items[of.part];
  const char *drawn = draw_variable(p, draws, of);
  if (!drawn || part->start != part->by_default) {
    put_start(p, m, of, part->start, draws, NULL);
    return;
  }
  put_part(p, w, part);
  PUT("            _start(_weight, %s)\n", drawn);
}

static void put_reset(const python_printer *p, const graph_model *m) {
  PUT("    def reset_parameters(self) -> None:\n        \"\"\"Draws every parameter anew.\"\"\"\n  "
      "      with "
      "torch.no_grad():\n");
  part_places draws = {0};
  for (int i = 0; i < m->parameters.count; i++)
    for (int k = 0; k < m->parameters.items[i].parts.count; k++)
      add_draws(p, m, (part_place){i, k}, &draws);
  for (int i = 0; i < draws.count; i++) {
    const graph_parameter *w = &m->parameters.items[draws.items[i].parameter];
    const char *variable = draw_variable(p, &draws, draws.items[i]);
    put_start(p, m, draws.items[i], w->parts.items[draws.items[i].part].by_default, &draws,
              variable);
  }
  for (int i = 0; i < m->parameters.count; i++)
    for (int k = 0; k < m->parameters.items[i].parts.count; k++)
      put_reset_part(p, m, (part_place){i, k}, &draws);
  if (!m->parameters.count) PUT("            pass\n");
  PUT("\n");
}

// ---- operations ------------------------------------------------------------------------------

// A parameter as an expression that old versions of torch.compile follow, too: getattr(self.layers,
// "0").norm.weight
static const char *parameter_text(const python_printer *p, const char *path) {
  const char *text = "self";
  for (const char *at = path; *at; at += strcspn(at, ".") + (at[strcspn(at, ".")] == '.')) {
    const char *name = arena_printf(p->memory, "%.*s", (int)strcspn(at, "."), at);
    python_scope free = {.memory = p->memory};
    bool is_plain = !isdigit((unsigned char)*name) && strcmp(python_name(&free, name), name) == 0;
    text = arena_printf(p->memory, is_plain ? "%s.%s" : "getattr(%s, \"%s\")", text, name);
  }
  return text;
}

// So many elements of a parameter in a shape.
static void put_use(const python_printer *p, const graph_model *m, const graph_use *use,
                    int64_t count, const char *shape) {
  const graph_parameter *w = &m->parameters.items[use->parameter];
  bool whole = use->first == 0 && count == w->elements;
  PUT("%s", parameter_text(p, w->name));
  if (!whole) PUT(".flatten()[%lld:%lld]", (long long)use->first, (long long)(use->first + count));
  PUT(".reshape(%s)", shape);
}

static int64_t elements_of(const graph_model *m, int tensor) {
  return m->tensors.items[tensor].elements;
}

static bool is_layer(const graph_model *m) { return m->outputs.count > 0; }

static int rank_of(const graph_port *port) { return port->axis_count + port->complex; }

// Numbers of an input in one row.
static void put_input(const python_printer *p, const graph_model *m, const graph_port *port,
                      const char *name, bool step) {
  int64_t sizes[TYPED_MAX_AXES + 1];
  memcpy(sizes, port->sizes, sizeof *sizes * (size_t)port->axis_count);
  sizes[port->axis_count] = 2;
  PUT("        _t%d = _row_of(%s, \"%s: %s\", ", port->tensor, name, m->name, name);
  put_shape(p, sizes, rank_of(port));
  PUT(", %d)\n", step ? 1 : 2);
}

// A row as an output with its axes.
static void put_output(const python_printer *p, const graph_port *port) {
  PUT("_t%d", port->tensor);
  if (!rank_of(port)) PUT(".squeeze(-1)");
  if (rank_of(port) < 2) return;
  PUT(".unflatten(-1, (");
  for (int i = 0; i < port->axis_count; i++)
    PUT("%s%lld", i ? ", " : "", (long long)port->sizes[i]);
  PUT("%s))", port->complex ? ", 2" : "");
}

static void put_embed(const python_printer *p, const graph_model *m, const graph_op *op) {
  if (is_layer(m)) return;  // the caller makes the inputs
  int64_t columns = elements_of(m, op->outputs.items[0]);
  PUT("        _t%d = torch.nn.functional.embedding(tokens, ", op->outputs.items[0]);
  put_use(p, m, &op->uses.items[0], m->parameters.items[op->uses.items[0].parameter].elements,
          arena_printf(p->memory, "-1, %lld", (long long)columns));
  PUT(").to(_dtype)\n");
}

static void put_linear(const python_printer *p, const graph_model *m, const graph_op *op) {
  int64_t rows = elements_of(m, op->row), columns = elements_of(m, op->inputs.items[0]);
  PUT("        _t%d = torch.nn.functional.linear(_t%d, ", op->row, op->inputs.items[0]);
  put_use(p, m, &op->uses.items[0], rows * columns,
          arena_printf(p->memory, "%lld, %lld", (long long)rows, (long long)columns));
  PUT(".to(_dtype)");
  if (op->uses.count > 1) {
    PUT(", ");
    put_use(p, m, &op->uses.items[1], rows, arena_printf(p->memory, "%lld", (long long)rows));
    PUT(".to(_dtype)");
  }
  PUT(")\n");
  const graph_tensor *row = &m->tensors.items[op->row];
  for (int i = 0; i < op->outputs.count; i++) {
    const graph_tensor *part = &m->tensors.items[op->outputs.items[i]];
    if (op->outputs.items[i] == op->row) continue;
    long long first = part->offset - row->offset;
    PUT("        _t%d = _t%d[..., %lld:%lld]\n", op->outputs.items[i], op->row, first,
        first + (long long)part->elements);
  }
}

// The axes of a tensor of a kernel, whose sizes are all known: "1, 4, 32".
static const char *sizes_text(const python_printer *p, const python_recurrence *r, int memory) {
  int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(p->memory, "%s%s%lld", text, i ? ", " : "",
                        (long long)r->abi->body->axes.items[axes[i]].size);
  int lag = python_memory(r, memory)->lag,
      depth = lag >= 0 ? r->abi->body->lags.items[lag].depth : 1;
  bool is_complex = abi_factor(r->abi, python_memory(r, memory)) > depth;
  return is_complex ? arena_printf(p->memory, "%s%s2", text, *text ? ", " : "") : text;
}

static int64_t count_of(const python_recurrence *r, int memory) {
  int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
  int64_t elements = abi_factor(r->abi, python_memory(r, memory));
  for (int i = 0; i < count; i++) elements *= r->abi->body->axes.items[axes[i]].size;
  return elements;
}

// What a state starts from, which learned states are added to: " + 0.5", the parameter's numbers
// along the state's axes.
static const char *begin_added(const python_printer *p, const graph_model *m, const graph_state *s,
                               int first) {
  const char *sizes = "", *strides = "";
  if (!s->begin) return "";
  if (s->begin->use.parameter == NONE) {
    const double *x = s->begin->number;
    return s->complex ? arena_printf(p->memory, " + torch.tensor((%.9g, %.9g), device=_t%d.device)",
                                     x[0], x[1], first)
                      : arena_printf(p->memory, " + %.9g", x[0]);
  }
  for (int i = 0; i < s->axis_count; i++) {
    sizes = arena_printf(p->memory, "%s%lld, ", sizes, (long long)s->sizes[i]);
    strides = arena_printf(p->memory, "%s%lld, ", strides, (long long)s->begin->strides[i]);
  }
  return arena_printf(p->memory, " + %s.to(_numbers).reshape(-1)[%lld:].as_strided((%s%s), (%s%s))",
                      parameter_text(p, m->parameters.items[s->begin->use.parameter].name),
                      (long long)s->begin->use.first, sizes, s->complex ? "2, " : "", strides,
                      s->complex ? "1, " : "");
}

// A state that sequences start from: the caller's, else the parameter that has the learned one,
// else none: the library knows.
static void put_state(const python_printer *p, const graph_model *m, const graph_state *state,
                      int first, bool step) {
  if (state->learned == NONE)
    PUT("states.get(\"%s\")", state->name);
  else
    PUT("_state_of(states, \"%s\", %s.to(_numbers)%s, _t%d%s)", state->name,
        parameter_text(p, m->parameters.items[state->learned].name),
        begin_added(p, m, state, first), first, step ? "" : ", cu_seqlens");
}

static void put_operand(const python_printer *p, const graph_model *m, const graph_op *op,
                        const python_recurrence *r, int i, bool step) {
  int memory = r->operands.items[i], inputs = python_token_count(r, &r->operands);
  if (i < inputs) {
    const char *sizes = sizes_text(p, r, memory);
    *sizes ? PUT("_t%d.unflatten(-1, (%s,))", op->inputs.items[i], sizes)
           : PUT("_t%d.squeeze(-1)", op->inputs.items[i]);
  } else if (i - inputs < op->uses.count) {
    put_use(p, m, &op->uses.items[i - inputs], count_of(r, memory),
            arena_printf(p->memory, "(%s)", sizes_text(p, r, memory)));
    PUT(".to(_numbers)");
  } else {
    put_state(p, m, &m->states.items[op->states.items[i - inputs - op->uses.count]],
              m->ops.items[0].outputs.items[0], step);
  }
}

static void put_call(const python_printer *p, const graph_model *m, const graph_op *op, bool step) {
  const python_function *f = kernel_of(p, op->kernel);
  const python_recurrence *r = &f->variants.items[0];
  int outputs = python_token_count(r, &r->results);
  PUT("        ");
  for (int i = 0; i < r->results.count; i++) {
    i < outputs ? PUT("_t%d", op->outputs.items[i])
                : PUT("_states[\"%s\"]", m->states.items[op->states.items[i - outputs]].name);
    PUT(i + 1 < r->results.count ? ", " : " = ");
  }
  PUT("%s%s(\n", f->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++) {
    PUT("            ");
    put_operand(p, m, op, r, i, step);
    PUT(",\n");
  }
  if (!step) PUT("            cu_seqlens,\n");
  PUT("        )\n");
  for (int i = 0; i < outputs; i++) {
    int tensor = op->outputs.items[i];
    bool is_row = *sizes_text(p, r, r->results.items[i]);
    is_row ? PUT("        _t%d = _t%d.flatten(%d)\n", tensor, tensor, step ? 1 : 2)
           : PUT("        _t%d = _t%d.unsqueeze(-1)\n", tensor, tensor);
  }
}

// "[batch, time, H, V = 64]"
static const char *port_words(const python_printer *p, const graph_port *port, bool step) {
  const char *text = step ? "batch" : "batch, time";
  for (int i = 0; i < port->axis_count; i++)
    text = arena_printf(p->memory, "%s, %s = %lld", text, port->axes[i], (long long)port->sizes[i]);
  return arena_printf(p->memory, "[%s%s]", text, port->complex ? ", 2" : "");
}

static void put_layer_doc(const python_printer *p, const graph_model *m, bool step) {
  PUT("        \"\"\"");
  for (int i = 0; i < m->outputs.count; i++)
    PUT("%s%s %s", i ? ", " : "", m->outputs.items[i].name,
        port_words(p, &m->outputs.items[i], step));
  PUT(", and the states behind, by their names, of ");
  for (int i = 0; i < m->inputs.count; i++)
    PUT("%s%s %s", i ? ", " : "", m->inputs.items[i].name,
        port_words(p, &m->inputs.items[i], step));
  PUT(".\"\"\"\n");
}

static void put_model_doc(const python_printer *p, const graph_model *m, bool step) {
  if (step)
    PUT("        \"\"\"One token of each sequence, tokens [batch]: its logits [batch, %d], and the "
        "states for the "
        "next.\"\"\"\n",
        m->vocabulary);
  else
    PUT("        \"\"\"Logits [batch, time, %d] of tokens [batch, time], and the states behind "
        "them, by their names.\"\"\"\n",
        m->vocabulary);
}

static void put_signature(const python_printer *p, const graph_model *m, const char *const *names,
                          bool step) {
  PUT("    def %s(self, ", step ? "step" : "forward");
  if (!is_layer(m)) PUT("tokens: torch.Tensor, ");
  for (int i = 0; i < m->inputs.count; i++) PUT("%s: torch.Tensor, ", names[i]);
  PUT("states: Optional[dict] = None%s) -> tuple:\n",
      step ? "" : ", cu_seqlens: Optional[torch.Tensor] = None");
}

static void put_returned(const python_printer *p, const graph_model *m) {
  PUT("        return ");
  if (!is_layer(m)) PUT("_t%d, ", m->logits);
  for (int i = 0; i < m->outputs.count; i++) {
    put_output(p, &m->outputs.items[i]);
    PUT(", ");
  }
  PUT("_states\n\n");
}

static void put_run(const python_printer *p, const graph_model *m, bool step) {
  python_scope scope = {.memory = p->memory};
  const char **names = arena_alloc(p->memory, sizeof *names * (size_t)(m->inputs.count + 1));
  python_name(&scope, "states");
  for (int i = 0; i < m->inputs.count; i++) names[i] = python_name(&scope, m->inputs.items[i].name);
  put_signature(p, m, names, step);
  is_layer(m) ? put_layer_doc(p, m, step) : put_model_doc(p, m, step);
  PUT("        states = states or {}\n        _states = {}\n        _dtype, _numbers = "
      "_types_of(self, %s)\n",
      is_layer(m) ? names[0] : "None");
  for (int i = 0; i < m->inputs.count; i++) put_input(p, m, &m->inputs.items[i], names[i], step);
  for (int i = 0; i < m->ops.count; i++) {
    const graph_op *op = &m->ops.items[i];
    switch (op->kind) {
      case OP_EMBED: put_embed(p, m, op); break;
      case OP_LINEAR: put_linear(p, m, op); break;
      case OP_CALL: put_call(p, m, op, step); break;
      default: break;  // the loss is the caller's
    }
  }
  put_returned(p, m);
  if (step) PUT("\n");
}

static void put_class(const python_printer *p, python_scope *names, const graph_model *m) {
  python_put_rule(p->out, m->text);
  PUT("class %s(torch.nn.Module):\n    \"\"\"The %s %s. Its parameters have the names of the "
      "source's.\"\"\"\n\n",
      python_name(names, m->name), is_layer(m) ? "layer" : "model", m->text);
  put_parameters(p, m);
  put_reset(p, m);
  put_run(p, m, false);
  put_run(p, m, true);
}

void torch_put_models(const python_printer *p) {
  python_scope names = {.memory = p->memory};
  if (!p->graph) return;
  for (int i = 0; i < p->functions.count; i++) python_name(&names, p->functions.items[i].name);
  for (int i = 0; i < p->graph->layers.count; i++) put_class(p, &names, &p->graph->layers.items[i]);
  for (int i = 0; i < p->graph->models.count; i++) put_class(p, &names, &p->graph->models.items[i]);
}
