// A recurrence and its parameters as a module of torch, which start as the source says.
//
//   ssd_module(G, R): A_log, dt_bias, D; forward(x, dt, B, C, h0_h=None, cu_seqlens=None); step(x, dt, B, C, h0_h=None)
#include <string.h>

#include "compiler/bindings/torch.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static bool is_param(const python_recurrence *r, int memory) { return !abi_per_batch(r->abi, python_memory(r, memory)); }

// Names that modules of torch have.
static const char taken[] =
    " T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda double dump_patches eval "
    "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu load_state_dict modules mtia "
    "named_buffers named_children named_modules named_parameters parameters register_buffer register_module register_parameter "
    "requires_grad_ reset_parameters set_extra_state set_submodule share_memory state_dict step to to_empty train training "
    "type "
    "xpu zero_grad ";

// The member of the module that has a parameter.
static const char *attribute(const python_printer *p, const python_recurrence *r, int memory) {
  bool is_taken = strstr(taken, arena_printf(p->memory, " %s ", r->names[memory])) != NULL;
  return is_taken ? arena_printf(p->memory, "%s_", r->names[memory]) : r->names[memory];
}

static int param_count(const python_recurrence *r) {
  int count = 0;
  for (int i = 0; i < r->operands.count; i++) count += is_param(r, r->operands.items[i]);
  return count;
}

// An axis that whoever makes the module tells.
static bool is_argument(const python_recurrence *r, int axis) {
  const typed_axis *a = &r->abi->body->axes.items[axis];
  if (a->size != TYPED_RUNTIME_SIZE || a->size_expr) return false;
  for (int i = 0; i < r->operands.count; i++) {
    if (!is_param(r, r->operands.items[i])) continue;
    int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, r->operands.items[i]), axes);
    for (int k = 0; k < count; k++)
      if (axes[k] == axis || r->abi->body->axes.items[axes[k]].size_expr) return true;
  }
  return false;
}

static void put_init(const python_printer *p, const python_recurrence *r) {
  python_scope scope = {.memory = p->memory};
  const typed_body *body = r->abi->body;
  const char *names[TYPED_MAX_AXES];
  PUT("    def __init__(self");
  for (int i = 0; i < body->axes.count; i++) {
    if (!is_argument(r, i)) continue;
    names[i] = python_name(&scope, body->axes.items[i].name);
    PUT(", %s: int", names[i]);
  }
  PUT(", device=None):\n        super().__init__()\n");
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    if (is_argument(r, i)) PUT("        %s = %s\n", r->axes[i], names[i]);
    if (axis->size == TYPED_RUNTIME_SIZE && axis->size_expr)
      PUT("        %s = int(%s)\n", r->axes[i], python_size(p->memory, r, axis->size_expr, true));
  }
  for (int i = 0; i < r->operands.count; i++)
    if (is_param(r, r->operands.items[i]))
      PUT("        self.%s = torch.nn.Parameter(torch.empty(%s, dtype=_NUMBERS, device=device))\n",
          attribute(p, r, r->operands.items[i]), python_shape(p->memory, r, r->operands.items[i], false));
  PUT("        self.reset_parameters()\n\n");
}

static void put_start(const python_printer *p, const python_recurrence *r, int memory) {
  const typed_start *start = r->abi->body->tensors.items[python_memory(r, memory)->tensor].start;
  const char *weight = arena_printf(p->memory, "self.%s", attribute(p, r, memory));
  if (!start || !torch_start_is_own(start)) {
    PUT("            %s.zero_()  # the source does not say how it starts\n", weight);
    return;
  }
  const char *sizes[TYPED_MAX_AXES];
  int places[TYPED_MAX_AXES], axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    places[i] = -1;
    for (int k = 0; k < count; k++)
      if (axes[k] == i) places[i] = k;
    int64_t size = r->abi->body->axes.items[i].size;
    sizes[i] = size != TYPED_RUNTIME_SIZE ? arena_printf(p->memory, "%lld", (long long)size)
                                          : arena_printf(p->memory, "_shape[%d]", places[i]);
  }
  PUT("            _shape = %s.shape\n", weight);
  torch_put_start(p->out, &(torch_start){.start = start, .weight = weight, .sizes = sizes, .places = places, .layers = 1});
}

static void put_reset(const python_printer *p, const python_recurrence *r) {
  PUT("    def reset_parameters(self) -> None:\n        \"\"\"Draws every parameter anew.\"\"\"\n        with "
      "torch.no_grad():\n");
  for (int i = 0; i < r->operands.count; i++)
    if (is_param(r, r->operands.items[i])) put_start(p, r, r->operands.items[i]);
  PUT("\n");
}

static void put_call(const python_printer *p, const python_recurrence *r, bool step) {
  PUT("    def %s(self", step ? "step" : "forward");
  for (int i = 0; i < r->operands.count; i++)
    if (!is_param(r, r->operands.items[i]))
      PUT(", %s%s", r->names[r->operands.items[i]], python_is_optional(r, r->operands.items[i]) ? "=None" : "");
  PUT("%s):\n        return %s%s(", step ? "" : ", cu_seqlens=None", r->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    bool own = is_param(r, memory);
    PUT("%s%s%s", i ? ", " : "", own ? "self." : "", own ? attribute(p, r, memory) : r->names[memory]);
  }
  PUT("%s)\n%s", step ? "" : ", cu_seqlens", step ? "\n\n" : "\n");
}

void torch_put_module(const python_printer *p, const python_recurrence *r) {
  if (!param_count(r)) return;
  PUT("class %s_module(torch.nn.Module):\n    \"\"\"%s with its parameters, which start as the source says.\"\"\"\n\n", r->name,
      r->name);
  put_init(p, r);
  put_reset(p, r);
  put_call(p, r, false);
  put_call(p, r, true);
}
