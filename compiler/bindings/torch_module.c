// A recurrence and its parameters as a module of torch, which start as the source says.
//
//   ssd_module(G, R): A_log, dt_bias, D; forward(x, dt, B, C, h0_h=None, cu_seqlens=None); step(x, dt, B, C, h0_h=None)
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/bindings/torch.h"

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static bool is_param(const python_recurrence *r, int memory) {
  return !abi_per_batch(r->abi, python_memory(r, memory));
}

// Names that modules of torch have.
static const char taken[] =
    " T_destination add_module apply bfloat16 buffers call_super_init children compile cpu cuda "
    "double dump_patches eval "
    "extra_repr float forward get_buffer get_extra_state get_parameter get_submodule half ipu "
    "load_state_dict modules mtia "
    "named_buffers named_children named_modules named_parameters parameters register_buffer "
    "register_module register_parameter "
    "requires_grad_ reset_parameters set_extra_state set_submodule share_memory state_dict step to "
    "to_empty train training "
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

static const typed_axis *axis_of(const python_recurrence *r, int axis) {
  return &r->abi->body->axes.items[axis];
}

// Whether the variants differ in the size of an axis.
static bool differs(const python_function *f, int axis) {
  for (int i = 1; i < f->variants.count; i++)
    if (axis_of(&f->variants.items[i], axis)->size != axis_of(&f->variants.items[0], axis)->size)
      return true;
  return false;
}

// A size, or the local variable that has it.
static const char *size_of(const python_printer *p, const python_function *f, int axis) {
  const python_recurrence *r = &f->variants.items[0];
  return differs(f, axis) ? r->axes[axis] : python_axis(p->memory, r, axis);
}

static const typed_start *start_of(const python_recurrence *r, int memory) {
  return r->abi->body->tensors.items[python_memory(r, memory)->tensor].start;
}

static bool start_uses(const typed_start *start, int axis) {
  for (int i = 0; start && i < start->values.count; i++) {
    const start_value *v = &start->values.items[i];
    if (v->kind == START_VALUE && v->op == VALUE_AXIS_SIZE && v->axis == axis) return true;
  }
  return false;
}

// Whether a parameter needs the size of an axis, or one that is computed from others.
static bool is_needed(const python_recurrence *r, int axis) {
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    if (!is_param(r, memory)) continue;
    int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
    for (int k = 0; k < count; k++)
      if (axes[k] == axis || axis_of(r, axes[k])->size_expr) return true;
    if (start_uses(start_of(r, memory), axis)) return true;
  }
  return false;
}

// Whether parameters depend on the variant.
static bool has_variants(const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  for (int axis = 0; axis < r->abi->body->axes.count; axis++)
    if (differs(f, axis) && is_needed(r, axis)) return true;
  return false;
}

// An axis that whoever makes the module tells.
static bool is_argument(const python_function *f, int axis) {
  const python_recurrence *r = &f->variants.items[0];
  bool open = axis_of(r, axis)->size == TYPED_RUNTIME_SIZE && !axis_of(r, axis)->size_expr;
  return (open && is_needed(r, axis)) || (python_is_chosen(r, axis) && has_variants(f));
}

// Sizes that follow from others: by a formula, or because a variant has them.
static void put_following_size(const python_printer *p, const python_function *f, int axis) {
  const python_recurrence *r = &f->variants.items[0];
  const typed_axis *a = axis_of(r, axis);
  if (a->size == TYPED_RUNTIME_SIZE && a->size_expr) {
    PUT("        %s = int(%s)\n", r->axes[axis], python_size(p->memory, r, a->size_expr));
  } else if (differs(f, axis) && is_needed(r, axis) && !is_argument(f, axis)) {
    PUT("        %s = (", r->axes[axis]);
    for (int i = 0; i < f->variants.count && f->variants.items[i].dtype == r->dtype; i++)
      PUT("%s%lld", i ? ", " : "", (long long)axis_of(&f->variants.items[i], axis)->size);
    PUT(")[_variant]\n");
  }
}

static bool is_local(const python_function *f, int axis) {
  const typed_axis *a = axis_of(&f->variants.items[0], axis);
  return is_argument(f, axis) || (a->size == TYPED_RUNTIME_SIZE && a->size_expr) ||
         differs(f, axis);
}

static bool starts_use(const python_recurrence *r, int axis) {
  for (int i = 0; i < r->operands.count; i++)
    if (is_param(r, r->operands.items[i]) && start_uses(start_of(r, r->operands.items[i]), axis))
      return true;
  return false;
}

// Sizes that starts know: "_G, _R", of one "_G,".
static const char *start_sizes(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  const char *text = "";
  int count = 0;
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (is_local(f, i) && starts_use(r, i))
      text = arena_printf(p->memory, "%s%s%s", text, count++ ? ", " : "", r->axes[i]);
  return count == 1 ? arena_printf(p->memory, "%s,", text) : text;
}

static const char *shape_of(const python_printer *p, const python_function *f, int memory) {
  const python_recurrence *r = &f->variants.items[0];
  int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, python_memory(r, memory), axes);
  const char *text = "";
  for (int i = 0; i < count; i++)
    text = arena_printf(p->memory, "%s%s%s", text, i ? ", " : "", size_of(p, f, axes[i]));
  if (abi_factor(r->abi, python_memory(r, memory)) > 1)
    text = arena_printf(p->memory, "%s%s2", text, count++ ? ", " : "");
  return arena_printf(p->memory, count == 1 ? "(%s,)" : "(%s)", text);
}

static void put_arguments(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  python_scope scope = {.memory = p->memory};
  const char *names[TYPED_MAX_AXES];
  PUT("    def __init__(self");
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    if (!is_argument(f, i)) continue;
    names[i] = python_name(&scope, axis_of(r, i)->name);
    PUT(", %s: int", names[i]);
  }
  PUT(", device=None, dtype=None):\n        super().__init__()\n");
  bool chosen = false;
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    if (is_argument(f, i)) PUT("        %s = %s\n", r->axes[i], names[i]);
    chosen |= is_argument(f, i) && python_is_chosen(r, i);
  }
  if (!chosen) return;
  PUT("        self._variant = _variant = _find_sizes(_functions_%s.family, {", f->symbol);
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (is_argument(f, i) && python_is_chosen(r, i))
      PUT("\"%s\": %s, ", axis_of(r, i)->name, names[i]);
  PUT("})\n");
}

static void put_init(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  put_arguments(p, f);
  for (int i = 0; i < r->abi->body->axes.count; i++) put_following_size(p, f, i);
  if (*start_sizes(p, f)) PUT("        self._sizes = (%s)\n", start_sizes(p, f));
  PUT("        dtype = _wide(dtype or torch.%s)\n", python_type(r->dtype));
  for (int i = 0; i < r->operands.count; i++)
    if (is_param(r, r->operands.items[i]))
      PUT("        self.%s = torch.nn.Parameter(torch.empty(%s, dtype=dtype, device=device))\n",
          attribute(p, r, r->operands.items[i]), shape_of(p, f, r->operands.items[i]));
  PUT("        self.reset_parameters()\n\n");
}

// The start of a parameter in a variant, whose sizes may be numbers in it.
static const char *start_text(const python_printer *p, const python_function *f, int variant,
                              int memory) {
  const python_recurrence *r = &f->variants.items[variant];
  const typed_start *start = start_of(r, memory);
  const char *weight = arena_printf(p->memory, "self.%s", attribute(p, r, memory));
  if (!start)
    return arena_printf(
        p->memory, "            %s.zero_()  # the source does not say how it starts\n", weight);
  const char *sizes[TYPED_MAX_AXES];
  int places[TYPED_MAX_AXES], axes[TYPED_MAX_AXES],
      count = abi_axes(r->abi, python_memory(r, memory), axes);
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    sizes[i] = size_of(p, f, i);
    places[i] = -1;
    for (int k = 0; k < count; k++)
      if (axes[k] == i) places[i] = k;
  }
  text_stream text;
  FILE *out = text_begin(&text);
  fprintf(out, "            _shape = %s.shape\n", weight);
  torch_put_start(
      out, &(torch_start){
               .start = start, .weight = weight, .sizes = sizes, .places = places, .layers = 1});
  return text_end(&text, p->memory);
}

static void put_start(const python_printer *p, const python_function *f, int memory) {
  VEC(const char *) texts = {0};
  bool differ = false;
  for (int i = 0; i < f->variants.count && f->variants.items[i].dtype == f->variants.items[0].dtype;
       i++) {
    vec_push(p->memory, &texts, start_text(p, f, i, memory));
    differ |= strcmp(texts.items[i], texts.items[0]) != 0;
  }
  if (!differ) PUT("%s", texts.items[0]);
  for (int i = 0; differ && i < texts.count; i++) {
    PUT("            if self._variant == %d:\n", i);
    for (const char *line = texts.items[i]; *line; line = strchr(line, '\n') + 1)
      PUT("    %.*s", (int)(strchr(line, '\n') - line) + 1, line);
  }
}

static void put_reset(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  PUT("    def reset_parameters(self) -> None:\n        \"\"\"Draws every parameter anew.\"\"\"\n");
  if (*start_sizes(p, f)) PUT("        %s = self._sizes\n", start_sizes(p, f));
  PUT("        with torch.no_grad():\n");
  for (int i = 0; i < r->operands.count; i++)
    if (is_param(r, r->operands.items[i])) put_start(p, f, r->operands.items[i]);
  PUT("\n");
}

static void put_call(const python_printer *p, const python_function *f, bool step) {
  const python_recurrence *r = &f->variants.items[0];
  PUT("    def %s(self", step ? "step" : "forward");
  for (int i = 0; i < r->operands.count; i++)
    if (!is_param(r, r->operands.items[i]))
      PUT(", %s%s", r->names[r->operands.items[i]],
          python_is_optional(r, r->operands.items[i]) ? "=None" : "");
  PUT("%s):\n        return %s%s(", step ? "" : ", cu_seqlens=None", f->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    if (i) PUT(", ");
    is_param(r, memory) ? PUT("self.%s", attribute(p, r, memory)) : PUT("%s", r->names[memory]);
  }
  PUT("%s)\n%s", step ? "" : ", cu_seqlens", step ? "\n\n" : "\n");
}

void torch_put_module(const python_printer *p, const python_function *f) {
  if (!param_count(&f->variants.items[0]) || !python_is_own(&f->variants.items[0])) return;
  PUT("class %s_module(torch.nn.Module):\n    \"\"\"%s with its parameters, which start as the "
      "source says.\"\"\"\n\n",
      f->name, f->name);
  put_init(p, f);
  put_reset(p, f);
  put_call(p, f, false);
  put_call(p, f, true);
}
