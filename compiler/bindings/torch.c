// Modules of torch: a recurrence with its parameters, a layer by itself, a model. They say what they
// take and return; torch_support.py reads in the manifest how they run and start.
//
//   class ssd_module:   ssd_module(G, R);  forward(x, dt, B, C, h0_h=None, cu_seqlens=None), step(x, dt, B, C, h0_h=None)
//   class Mamba2:       forward(u, states=None, cu_seqlens=None) -> v, states;  step(u, states) -> v, states
//   class LM:           forward(tokens, states=None, cu_seqlens=None) -> logits, states;  step(token, states) -> logits, states
#include "compiler/bindings/python.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

// What modules begin with. `made`: what reads the manifest for them.
static void put_reset(const python_printer *p, const char *made) {
  PUT("        self.reset_parameters()\n\n    def reset_parameters(self) -> None:\n"
      "        \"\"\"Draws every parameter anew.\"\"\"\n        %s.reset(self)\n\n",
      made);
}

// ---- a recurrence with its parameters --------------------------------------------------------

static const typed_axis *axis_of(const python_recurrence *r, int axis) {
  return &r->abi->body->axes.items[axis];
}

static bool start_names(const typed_start *start, int axis) {
  for (int i = 0; start && i < start->values.count; i++) {
    const start_value *v = &start->values.items[i];
    if (v->kind == START_VALUE && v->op == VALUE_AXIS_SIZE && v->axis == axis) return true;
  }
  return false;
}

// Whether a parameter has the axis, its start names it, or either an axis that is computed from
// others.
static bool is_needed(const python_recurrence *r, int axis) {
  const typed_body *body = r->abi->body;
  vec_each(const typed_tensor, t, body->tensors) {
    for (int k = 0; t->kind == TENSOR_PARAM && k < body->axes.count; k++)
      if ((axis_in(t->axis_set, k) || start_names(t->start, k)) &&
          (k == axis || axis_of(r, k)->size_expr))
        return true;
  }
  return false;
}

// Whether parameters depend on the variant.
static bool has_variants(const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  for (int axis = 0; axis < r->abi->body->axes.count; axis++)
    for (int i = 1; i < f->variants.count; i++)
      if (axis_of(&f->variants.items[i], axis)->size != axis_of(r, axis)->size &&
          is_needed(r, axis))
        return true;
  return false;
}

// An axis that whoever makes the module tells.
static bool is_argument(const python_function *f, int axis) {
  const python_recurrence *r = &f->variants.items[0];
  bool open = axis_of(r, axis)->size == TYPED_RUNTIME_SIZE && !axis_of(r, axis)->size_expr;
  return (open && is_needed(r, axis)) || (python_is_chosen(r, axis) && has_variants(f));
}

static void put_init(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  python_scope scope = {.memory = p->memory};
  const char *sizes = "";
  PUT("    def __init__(self");
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    if (!is_argument(f, i)) continue;
    const char *axis = axis_of(r, i)->name, *name = python_name(&scope, axis);
    PUT(", %s: int", name);
    sizes = arena_printf(p->memory, "%s%s\"%s\": %s", sizes, *sizes ? ", " : "", axis, name);
  }
  PUT(", device=None, dtype=None):\n        super().__init__()\n"
      "        _functions_%s.add_parameters(self, {%s}, device, dtype)\n",
      f->symbol, sizes);
}

static void put_call(const python_printer *p, const python_function *f, bool step) {
  const python_recurrence *r = &f->variants.items[0];
  const char *given = "";
  PUT("    def %s(self", step ? "step" : "forward");
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    if (python_is_param(r, memory)) continue;
    PUT(", %s%s", r->names[memory], python_is_optional(r, memory) ? "=None" : "");
    given = arena_printf(p->memory, "%s, %s", given, r->names[memory]);
  }
  PUT("%s):\n        return %s%s(*_functions_%s.with_parameters(self%s)%s)\n%s",
      step ? "" : ", cu_seqlens=None", f->name, step ? "_step" : "", f->symbol, given,
      step ? "" : ", cu_seqlens", step ? "\n\n" : "\n");
}

void torch_put_module(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  bool has_params = false;
  for (int i = 0; i < r->operands.count; i++)
    has_params |= python_is_param(r, r->operands.items[i]);
  if (!has_params) return;
  PUT("class %s_module(torch.nn.Module):\n    \"\"\"%s with its parameters, which start as the "
      "source says.\"\"\"\n\n",
      f->name, f->name);
  put_init(p, f);
  put_reset(p, arena_printf(p->memory, "_functions_%s", f->symbol));
  put_call(p, f, false);
  put_call(p, f, true);
}

// ---- layers and models -----------------------------------------------------------------------

static bool is_layer(const graph_model *m) { return m->outputs.count > 0; }

// "v [batch, time, H, V = 64], .."
static void put_ports(const python_printer *p, const graph_port *ports, int count, bool step) {
  for (int i = 0; i < count; i++) {
    PUT("%s%s [batch%s", i ? ", " : "", ports[i].name, step ? "" : ", time");
    for (int k = 0; k < ports[i].axis_count; k++)
      PUT(", %s = %lld", ports[i].axes[k], (long long)ports[i].sizes[k]);
    PUT("%s]", ports[i].complex ? ", 2" : "");
  }
}

static void put_doc(const python_printer *p, const graph_model *m, bool step) {
  PUT("        \"\"\"");
  if (is_layer(m)) {
    put_ports(p, m->outputs.items, m->outputs.count, step);
    PUT(", and the states behind, by their names, of ");
    put_ports(p, m->inputs.items, m->inputs.count, step);
  } else if (step) {
    PUT("One token of each sequence, tokens [batch]: its logits [batch, %d], and the states for "
        "the next",
        m->vocabulary);
  } else {
    PUT("Logits [batch, time, %d] of tokens [batch, time], and the states behind them, by their "
        "names",
        m->vocabulary);
  }
  PUT(".\"\"\"\n");
}

static void put_run(const python_printer *p, const graph_model *m, const char *name, bool step) {
  python_scope scope = {.memory = p->memory};
  const char *given = "";
  python_name(&scope, "states");
  PUT("    def %s(self", step ? "step" : "forward");
  for (int i = 0; i < (is_layer(m) ? m->inputs.count : 1); i++) {
    const char *input = is_layer(m) ? python_name(&scope, m->inputs.items[i].name) : "tokens";
    PUT(", %s: torch.Tensor", input);
    given = arena_printf(p->memory, "%s%s%s", given, i ? ", " : "", input);
  }
  PUT(", states: Optional[dict] = None%s) -> tuple:\n",
      step ? "" : ", cu_seqlens: Optional[torch.Tensor] = None");
  put_doc(p, m, step);
  PUT("        return _graph_%s.run(self, [%s], states%s)\n%s", name, given,
      step ? ", step=True" : ", cu_seqlens", step ? "\n\n" : "\n");
}

static void put_class(const python_printer *p, const graph_model *m, const char *name) {
  python_put_rule(p->out, m->text);
  PUT("class %s(torch.nn.Module):\n    \"\"\"The %s %s. Its parameters have the names of the "
      "source's.\"\"\"\n\n    def __init__(self, device=None, dtype=None):\n"
      "        super().__init__()\n        _graph_%s.add_parameters(self, device, dtype)\n",
      name, is_layer(m) ? "layer" : "model", m->text, name);
  put_reset(p, arena_printf(p->memory, "_graph_%s", name));
  put_run(p, m, name, false);
  put_run(p, m, name, true);
}

void torch_put_models(const python_printer *p, bool classes) {
  python_scope names = {.memory = p->memory};
  for (int i = 0; i < p->functions.count; i++) python_name(&names, p->functions.items[i].name);
  for (int layers = 1; p->graph && layers >= 0; layers--) {
    int count = layers ? p->graph->layers.count : p->graph->models.count;
    for (int i = 0; i < count; i++) {
      const graph_model *m = layers ? &p->graph->layers.items[i] : &p->graph->models.items[i];
      const char *name = python_name(&names, m->name);
      if (classes)
        put_class(p, m, name);
      else
        PUT("_graph_%s = _Graph(_manifest[\"program\"][\"%s\"][%d])\n", name,
            layers ? "layers" : "models", i);
    }
  }
}
