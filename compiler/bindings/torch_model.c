// A model as a module of torch: its graph, operation by operation, with parameters of its public names.
//
//   LM(): forward(tokens, states=None, cu_seqlens=None) -> logits, states;  step(token, states) -> logits, states
//
// A tensor of the graph is a row of numbers for each token. `_t3` is tensor 3: [batch, time, numbers], of a step [batch, numbers].
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/bindings/torch.h"
#include "compiler/graph/build.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static const python_function *kernel_of(const python_printer *p, int number) {
  const char *name = p->graph->kernels.items[number].name;
  for (int i = 0; i < p->functions.count; i++)
    if (strcmp(p->functions.items[i].variants.items[0].abi->body->name, name) == 0) return &p->functions.items[i];
  ICE("bindings", "no kernel '%s'", name);
}

// ---- parameters ------------------------------------------------------------------------------

static void put_shape(const python_printer *p, const int64_t *sizes, int count) {
  PUT("(");
  for (int i = 0; i < count; i++) PUT("%s%lld%s", i ? " " : "", (long long)sizes[i], i + 1 < count || count == 1 ? "," : "");
  PUT(")");
}

static void put_parameters(const python_printer *p, const graph_model *m) {
  PUT("    def __init__(self, device=None, dtype=None):\n        super().__init__()\n        dtype = dtype or "
      "_wide(_TYPES[0])\n");
  for (int i = 0; i < m->parameters.count; i++) {
    PUT("        _add_parameter(self, \"%s\", ", m->parameters.items[i].name);
    put_shape(p, m->parameters.items[i].shape, m->parameters.items[i].rank);
    PUT(", device, dtype)\n");
  }
  PUT("        self.reset_parameters()\n\n");
}

// A part of a parameter; where an init asks for the draw of another weight, it starts as without the init.
static void put_part(const python_printer *p, const graph_model *m, const graph_parameter *w, const graph_part *part) {
  const typed_start *start = part->start && torch_start_is_own(part->start) ? part->start : part->by_default;
  const char *sizes[TYPED_MAX_AXES];
  int places[TYPED_MAX_AXES];
  for (int i = 0; i < part->axis_count; i++) {
    sizes[i] = arena_printf(p->memory, "%lld", (long long)part->sizes[i]);
    places[i] = i;
  }
  PUT("            _weight = self.get_parameter(\"%s\").view(-1)[%lld:%lld]", w->name, (long long)part->first,
      (long long)(part->first + part->count));
  bool is_tap = w->kind == PARAMETER_CONVOLUTION;
  if (is_tap && w->rank) {
    PUT(".view(-1, %lld)", (long long)w->shape[w->rank - 1]);
  } else if (part->axis_count) {
    PUT(".view(");
    put_shape(p, part->sizes, part->axis_count);
    PUT(")");
  }
  PUT("\n            _shape = _weight.shape\n");
  if (!start || !torch_start_is_own(start)) {
    PUT("            _weight.zero_()  # nothing says how it starts\n");
    return;
  }
  int layers = model_depth(m);
  torch_put_start(p->out, &(torch_start){.start = start,
                                         .weight = "_weight",
                                         .sizes = sizes,
                                         .places = places,
                                         .is_convolution = is_tap,
                                         .layer = w->repeat_index == NONE ? 0 : w->repeat_index,
                                         .layers = layers > 0 ? layers : 1});
}

static void put_reset(const python_printer *p, const graph_model *m) {
  PUT("    def reset_parameters(self) -> None:\n        \"\"\"Draws every parameter anew.\"\"\"\n        with "
      "torch.no_grad():\n");
  for (int i = 0; i < m->parameters.count; i++)
    for (int k = 0; k < m->parameters.items[i].parts.count; k++)
      put_part(p, m, &m->parameters.items[i], &m->parameters.items[i].parts.items[k]);
  if (!m->parameters.count) PUT("            pass\n");
  PUT("\n");
}

// ---- operations ------------------------------------------------------------------------------

// So many elements of a parameter in a shape.
static void put_use(const python_printer *p, const graph_model *m, const graph_use *use, int64_t count, const char *shape) {
  const graph_parameter *w = &m->parameters.items[use->parameter];
  bool whole = use->first == 0 && count == w->elements;
  PUT("self.get_parameter(\"%s\")", w->name);
  if (!whole) PUT(".flatten()[%lld:%lld]", (long long)use->first, (long long)(use->first + count));
  PUT(".reshape(%s)", shape);
}

static int64_t elements_of(const graph_model *m, int tensor) { return m->tensors.items[tensor].elements; }

static void put_embed(const python_printer *p, const graph_model *m, const graph_op *op) {
  int64_t columns = elements_of(m, op->outputs.items[0]);
  PUT("        _t%d = torch.nn.functional.embedding(tokens, ", op->outputs.items[0]);
  put_use(p, m, &op->uses.items[0], m->parameters.items[op->uses.items[0].parameter].elements,
          arena_printf(p->memory, "-1, %lld", (long long)columns));
  PUT(").to(_dtype)\n");
}

static void put_linear(const python_printer *p, const graph_model *m, const graph_op *op) {
  int64_t rows = elements_of(m, op->row), columns = elements_of(m, op->inputs.items[0]);
  PUT("        _t%d = torch.nn.functional.linear(_t%d, ", op->row, op->inputs.items[0]);
  put_use(p, m, &op->uses.items[0], rows * columns, arena_printf(p->memory, "%lld, %lld", (long long)rows, (long long)columns));
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
    PUT("        _t%d = _t%d[..., %lld:%lld]\n", op->outputs.items[i], op->row, first, first + (long long)part->elements);
  }
}

// The axes of a tensor of a kernel, whose sizes are all known: "1, 4, 32".
static const char *sizes_text(const python_printer *p, const python_recurrence *r, int memory) {
  int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(p->memory, "%s%s%lld", text, i ? ", " : "", (long long)r->abi->body->axes.items[axes[i]].size);
  int lag = python_memory(r, memory)->lag, depth = lag >= 0 ? r->abi->body->lags.items[lag].depth : 1;
  bool is_complex = abi_factor(r->abi, python_memory(r, memory)) > depth;
  return is_complex ? arena_printf(p->memory, "%s%s2", text, *text ? ", " : "") : text;
}

static int64_t count_of(const python_recurrence *r, int memory) {
  int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
  int64_t elements = abi_factor(r->abi, python_memory(r, memory));
  for (int i = 0; i < count; i++) elements *= r->abi->body->axes.items[axes[i]].size;
  return elements;
}

static void put_operand(const python_printer *p, const graph_model *m, const graph_op *op, const python_recurrence *r, int i) {
  int memory = r->operands.items[i], inputs = python_token_count(r, &r->operands);
  if (i < inputs) {
    const char *sizes = sizes_text(p, r, memory);
    *sizes ? PUT("_t%d.unflatten(-1, (%s,))", op->inputs.items[i], sizes) : PUT("_t%d.squeeze(-1)", op->inputs.items[i]);
  } else if (i - inputs < op->uses.count) {
    put_use(p, m, &op->uses.items[i - inputs], count_of(r, memory), arena_printf(p->memory, "(%s)", sizes_text(p, r, memory)));
    PUT(".to(_numbers)");
  } else {
    PUT("states.get(\"%s\")", m->states.items[op->states.items[i - inputs - op->uses.count]].name);
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
    put_operand(p, m, op, r, i);
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

static void put_run(const python_printer *p, const graph_model *m, bool step) {
  if (step)
    PUT("    def step(self, tokens: torch.Tensor, states: Optional[dict] = None) -> tuple:\n"
        "        \"\"\"One token of each sequence, tokens [batch]: its logits [batch, %d], and the states for the "
        "next.\"\"\"\n",
        m->vocabulary);
  else
    PUT("    def forward(self, tokens: torch.Tensor, states: Optional[dict] = None, cu_seqlens: Optional[torch.Tensor] = None) "
        "-> tuple:\n"
        "        \"\"\"Logits [batch, time, %d] of tokens [batch, time], and the states behind them, by their names.\"\"\"\n",
        m->vocabulary);
  PUT("        states = states or {}\n        _states = {}\n        _dtype, _numbers = _types_of(self)\n");
  for (int i = 0; i < m->ops.count; i++) {
    const graph_op *op = &m->ops.items[i];
    switch (op->kind) {
      case OP_EMBED: put_embed(p, m, op); break;
      case OP_LINEAR: put_linear(p, m, op); break;
      case OP_CALL: put_call(p, m, op, step); break;
      default: break;  // the loss is the caller's
    }
  }
  PUT("        return _t%d, _states\n\n%s", m->logits, step ? "\n" : "");
}

void torch_put_models(const python_printer *p) {
  python_scope names = {.memory = p->memory};
  for (int i = 0; i < p->functions.count; i++) python_name(&names, p->functions.items[i].name);
  for (int i = 0; p->graph && i < p->graph->models.count; i++) {
    const graph_model *m = &p->graph->models.items[i];
    const char *name = python_name(&names, m->name);
    python_put_rule(p->out, m->text);
    PUT("class %s(torch.nn.Module):\n    \"\"\"The model %s. Its parameters have the names of the source's.\"\"\"\n\n", name,
        m->text);
    put_parameters(p, m);
    put_reset(p, m);
    put_run(p, m, false);
    put_run(p, m, true);
  }
}
