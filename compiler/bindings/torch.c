// A recurrence as operators of PyTorch: forward, forward that saves, backward, step; their fakes, autograd and autocast.
//
// The text is straight lines for each recurrence: a call of one small step takes microseconds, which a loop over a table
// would double. Names that begin with `_` are the generated text's own; a recurrence's names never do.
#include "compiler/bindings/torch.h"
#include "compiler/base/ice.h"

#include <ctype.h>
#include <string.h>

#define PUT(...) fprintf(p->out, __VA_ARGS__)

static const abi_field *field_of(const python_recurrence *r, int field) { return &r->abi->fields.items[field]; }
static const typed_axis *axis_of(const python_recurrence *r, int axis) { return &r->abi->body->axes.items[axis]; }
static bool is_told(const typed_axis *axis) { return axis->size == TYPED_RUNTIME_SIZE; }

void torch_put_operands(const python_printer *p, const python_recurrence *r, bool step) {
  python_put_names(p, r, &r->operands);
  if (!step) PUT(", cu_seqlens");
}

// ---- sizes -----------------------------------------------------------------------------------

int torch_place_of(const python_recurrence *r, int memory, int axis, bool step) {
  const abi_memory *m = python_memory(r, memory);
  int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, m, axes);
  int leading = !abi_per_batch(r->abi, m) ? 0 : m->token && !step ? 2 : 1;
  for (int i = 0; i < count; i++)
    if (axes[i] == axis) return leading + (m->lag >= 0) + i;
  return -1;
}

// Where the size of an axis comes from: others, or the first operand that has it.
static void put_axis(const python_printer *p, const python_recurrence *r, int axis, bool step) {
  if (axis_of(r, axis)->size_expr) {
    const char *size = python_size(p->memory, r, axis_of(r, axis)->size_expr, true);
    PUT(strpbrk(size, "/.") || strstr(size, "**") ? "        %s = int(%s)\n" : "        %s = %s\n", r->axes[axis], size);
    return;
  }
  for (int i = 0; i < r->operands.count; i++) {
    int place = torch_place_of(r, r->operands.items[i], axis, step);
    if (place < 0) continue;
    PUT("        %s = %s.shape[%d]\n", r->axes[axis], r->names[r->operands.items[i]], place);
    return;
  }
  PUT("        raise AttributeError(\"%s\")\n", axis_of(r, axis)->name);
}

const char *torch_type_of(const python_printer *p, const python_recurrence *r, int memory) {
  return arena_printf(p->memory, "torch.%s", python_dtype(r, memory));
}

static void put_conditions(const python_printer *p, const python_recurrence *r, bool step) {
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    const char *name = r->names[memory], *shape = python_shape(p->memory, r, memory, step), *type = torch_type_of(p, r, memory);
    const char *joined = i ? "and " : "";
    if (python_is_optional(r, memory))
      PUT("            %s(%s is None or %s.shape == %s and %s.dtype is %s)\n", joined, name, name, shape, name, type);
    else
      PUT("            %s%s.shape == %s\n            and %s.dtype is %s\n", joined, name, shape, name, type);
  }
  if (!step)
    PUT("            and (cu_seqlens is None or _batch == 1 and cu_seqlens.dim() == 1 and _states >= 0 and cu_seqlens.dtype is "
        "torch.int32)\n");
}

// "_batch, _time, _states, _H": what the functions below go by.
static void put_sizes(const python_printer *p, const python_recurrence *r, bool step) {
  PUT(step ? "_batch, _states" : "_batch, _time, _states");
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (is_told(axis_of(r, i))) PUT(", %s", r->axes[i]);
}

static void put_check(const python_printer *p, const python_recurrence *r, bool step) {
  const char *first = r->names[r->operands.items[0]];
  PUT("def _%s_%s(", step ? "stepsizes" : "sizes", r->symbol);
  torch_put_operands(p, r, step);
  PUT("):\n    \"\"\"The sizes of a call, if all of its tensors fit.\"\"\"\n    try:\n        _batch = %s.shape[0]\n", first);
  if (!step) PUT("        _time = %s.shape[1]\n", first);
  PUT(step ? "        _states = _batch\n" : "        _states = _batch if cu_seqlens is None else cu_seqlens.shape[0] - 1\n");
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (is_told(axis_of(r, i))) put_axis(p, r, i, step);
  PUT("        if (\n");
  put_conditions(p, r, step);
  PUT("        ):\n            return ");
  put_sizes(p, r, step);
  PUT("\n    except (AttributeError, IndexError):  # too few axes\n        pass\n    _refuse(_table_%s, ", r->symbol);
  python_put_tuple(p, r, &r->operands);
  PUT(step ? ", step=True)\n\n\n" : ", cu_seqlens)\n\n\n");
}

// ---- saved -----------------------------------------------------------------------------------

// A name of a formula of the manifest: a member of the arguments, or a function.
static const char *formula_name(const python_recurrence *r, const char *name) {
  if (strcmp(name, "sequences") == 0) return "_states";
  if (strcmp(name, "batch") == 0) return "_batch";
  if (strcmp(name, "time") == 0) return "_time";
  for (int i = 0; i < r->abi->fields.count; i++)
    if (field_of(r, i)->kind == ABI_AXIS && strcmp(field_of(r, i)->name, name) == 0) return r->axes[field_of(r, i)->index];
  return NULL;  // a function, which torch_support.py has with `_` in front
}

static void put_formula(const python_printer *p, const python_recurrence *r, const char *formula) {
  for (const char *c = formula; *c;) {
    size_t length = strspn(c, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    if (!length || isdigit((unsigned char)*c)) {
      length = length ? length : 1;
      PUT("%.*s", (int)length, c);
    } else {
      const char *name = arena_printf(p->memory, "%.*s", (int)length, c), *local = formula_name(r, name);
      PUT("%s%s", local ? "" : "_", local ? local : name);
    }
    c += length;
  }
}

// "A if cu_seqlens is None else B"
static void put_saved_of(const python_printer *p, const python_recurrence *r, const artifact_saved_texts *saved, int device) {
  PUT("(");
  put_formula(p, r, saved->batch[device + 1]);
  PUT(") if _offsets is None else (");
  put_formula(p, r, saved->packed[device + 1]);
  PUT(")");
}

static void put_saved(const python_printer *p, const python_recurrence *r) {
  artifact_saved_texts saved = artifact_saved_formulas(p->memory, r->made->variant, r->made);
  PUT("def _saved_%s(_is_cpu, _offsets, ", r->symbol);
  put_sizes(p, r, false);
  PUT("):\n    \"\"\"Bytes that forward saves for backward.\"\"\"\n    if not _is_cpu:\n        _saved = 0\n");
  for (int class = 0; class < ARTIFACT_CLASSES; class ++) {
    if (!saved.batch[class + 1]) continue;
    PUT("        _saved = torch.sym_max(_saved, ");  // enough for each class of GPUs
    put_saved_of(p, r, &saved, class);
    PUT(")\n");
  }
  PUT("        return _saved\n    return ");
  put_saved_of(p, r, &saved, ARTIFACT_HOST);
  PUT("\n\n\n");
}

// ---- calls -----------------------------------------------------------------------------------

// Takes a tensor where the library can read it: a token has strides, all else is dense.
static void put_reading(const python_printer *p, const python_recurrence *r, int memory, bool step) {
  const char *name = r->names[memory];
  bool optional = python_is_optional(r, memory);
  if (python_memory(r, memory)->token)
    PUT("    _b_%s = _t_%s = 0\n    if %s%s%snot %s.is_contiguous():\n        %s, _b_%s, _t_%s = _rows(%s%s)\n", name, name,
        optional ? name : "", optional ? " is not None" : "", optional ? " and " : "", name, name, name, name, name,
        step ? ", 1" : "");
  else
    PUT("    if %s%s%snot %s.is_contiguous():\n        %s = %s.contiguous()\n", optional ? name : "",
        optional ? " is not None" : "", optional ? " and " : "", name, name, name);
}

static bool is_in(const memory_list *list, int memory) {
  for (int i = 0; i < list->count; i++)
    if (list->items[i] == memory) return true;
  return false;
}

// What a call hands over: operands and results of forward, or operands, cotangents and gradients of backward.
typedef struct call_lists {
  const memory_list *read[2], *written;
  bool step;
} call_lists;

static void put_address(const python_printer *p, const python_recurrence *r, const call_lists *lists, int memory) {
  const char *name = r->names[memory];
  bool token = python_memory(r, memory)->token;
  bool read = is_in(lists->read[0], memory) || (lists->read[1] && is_in(lists->read[1], memory));
  bool written = is_in(lists->written, memory);
  if (!read && !written)
    PUT(", 0%s", token ? ", 0, 0" : "");
  else if (read && python_is_optional(r, memory))
    PUT(", 0 if %s is None else %s.data_ptr()", name, name);
  else
    PUT(", %s.data_ptr()", name);
  if (token && read) PUT(", _b_%s, _t_%s", name, name);
  if (token && written) PUT(", 0, 0");
}

// Fields of the arguments up to the last that forward reads; backward reads all.
static int field_count(const python_recurrence *r, bool backward) {
  int count = r->abi->fields.count;
  for (int i = 0; !backward && i < r->abi->memories.count; i++)
    if (python_memory(r, i)->role >= ABI_D_VALUE && python_memory(r, i)->data < count) count = python_memory(r, i)->data;
  return count;
}

static void put_arguments(const python_printer *p, const python_recurrence *r, const call_lists *lists, bool backward) {
  int count = field_count(r, backward);
  PUT("    _arguments = _%s_%s.pack(%d, _batch, %s, %s", backward ? "BACKWARD" : "FORWARD", r->symbol, r->abi->arguments_size,
      lists->step ? "1" : "_time", lists->step ? "0" : "0 if cu_seqlens is None else _states");
  for (int i = 0; i < r->abi->body->axes.count; i++) PUT(", %s", python_axis(p->memory, r, i));
  PUT(lists->step ? ", 0" : ", 0 if cu_seqlens is None else cu_seqlens.data_ptr()");
  for (int i = 0; i < r->abi->memories.count; i++)
    if (python_memory(r, i)->data < count) put_address(p, r, lists, i);
  PUT(")\n");
}

static void put_formats(const python_printer *p, const python_recurrence *r) {
  int forward = field_count(r, false), all = r->abi->fields.count;
  PUT("_FORWARD_%s = struct.Struct(\"=%dq%dx\")\n_BACKWARD_%s = struct.Struct(\"=%dq\")\n\n\n", r->symbol, forward,
      8 * (all - forward), r->symbol, all);
}

static void put_key(const python_printer *p, const python_recurrence *r, bool step) {
  PUT(step ? "(-1, _batch" : "(_batch, _time, None if cu_seqlens is None else _states");
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (is_told(axis_of(r, i))) PUT(", %s", r->axes[i]);
  PUT(")");
}

static void put_new(const python_printer *p, const python_recurrence *r, int memory, bool step) {
  const char *first = r->names[r->operands.items[0]];
  const char *type = torch_type_of(p, r, memory);
  bool other = strcmp(type, torch_type_of(p, r, r->operands.items[0])) != 0;
  PUT("%s.new_empty(%s%s)", first, python_shape(p->memory, r, memory, step),
      other ? arena_printf(p->memory, ", dtype=%s", type) : "");
}

static void put_results(const python_printer *p, const python_recurrence *r, bool step) {
  for (int i = 0; i < r->results.count; i++) {
    PUT("    %s = ", r->names[r->results.items[i]]);
    put_new(p, r, r->results.items[i], step);
    PUT("\n");
  }
}

static void put_sizes_line(const python_printer *p, const python_recurrence *r, bool step) {
  PUT("    ");
  put_sizes(p, r, step);
  PUT(" = _%s_%s(", step ? "stepsizes" : "sizes", r->symbol);
  torch_put_operands(p, r, step);
  PUT(")\n");
}

static void put_saved_call(const python_printer *p, const python_recurrence *r) {
  const char *first = r->names[r->operands.items[0]];
  PUT("%s.new_empty(_saved_%s(%s.is_cpu, cu_seqlens, ", first, r->symbol, first);
  put_sizes(p, r, false);
  PUT("), dtype=torch.uint8)");
}

// The body of forward, forward that saves, and step.
static void put_forward(const python_printer *p, const python_recurrence *r, const char *kind, bool step, bool save) {
  PUT("def _%s_%s(", kind, r->symbol);
  torch_put_operands(p, r, step);
  PUT("):\n");
  put_sizes_line(p, r, step);
  put_results(p, r, step);
  if (save) {
    PUT("    _saved = ");
    put_saved_call(p, r);
    PUT("\n");
  }
  for (int i = 0; i < r->operands.count; i++) put_reading(p, r, r->operands.items[i], step);
  call_lists lists = {.read = {&r->operands, NULL}, .written = &r->results, .step = step};
  put_arguments(p, r, &lists, false);
  PUT("    _run(_table_%s, _table_%s.%s, %s, ", r->symbol, r->symbol, step ? "step" : "forward", step ? "_STEP" : "_FORWARD");
  put_key(p, r, step);
  PUT(", _arguments, %s%s)\n    return ", r->names[r->operands.items[0]], save ? ", _saved" : "");
  python_put_names(p, r, &r->results);
  PUT("%s\n\n\n", save ? ", _saved" : "");
}

static void put_fake(const python_printer *p, const python_recurrence *r, const char *kind, bool step, bool save) {
  PUT("def _fake%s_%s(", kind, r->symbol);
  torch_put_operands(p, r, step);
  PUT("):\n");
  put_sizes_line(p, r, step);
  PUT("    if not _is_on(%s.device, (", r->names[r->operands.items[0]]);
  torch_put_operands(p, r, step);
  PUT("%s)):\n        _refuse(_table_%s, ", step && r->operands.count == 1 ? "," : "", r->symbol);
  python_put_tuple(p, r, &r->operands);
  PUT(step ? ", step=True)\n" : ", cu_seqlens)\n");
  put_results(p, r, step);
  PUT("    return ");
  python_put_names(p, r, &r->results);
  if (save) {
    PUT(", ");
    put_saved_call(p, r);
  }
  PUT("\n\n\n");
}

static void put_backward_parameters(const python_printer *p, const python_recurrence *r) {
  torch_put_operands(p, r, false);
  PUT(", saved, ");
  python_put_names(p, r, &r->cotangents);
  PUT(", wanted");
}

// Gradients that nobody wants are empty, and no memory of the library's.
static void put_gradients(const python_printer *p, const python_recurrence *r) {
  const char *first = r->names[r->operands.items[0]];
  for (int i = 0; i < r->gradients.count; i++) {
    PUT("    %s = ", r->names[r->gradients.items[i]]);
    put_new(p, r, r->gradients.items[i], false);
    PUT(" if wanted & %lld else %s.new_empty(0)\n", 1LL << i, first);
  }
}

static void put_backward(const python_printer *p, const python_recurrence *r) {
  PUT("def _backward_%s(", r->symbol);
  put_backward_parameters(p, r);
  PUT("):\n");
  put_sizes_line(p, r, false);
  put_gradients(p, r);
  for (int i = 0; i < r->operands.count; i++) put_reading(p, r, r->operands.items[i], false);
  for (int i = 0; i < r->cotangents.count; i++) put_reading(p, r, r->cotangents.items[i], false);
  PUT("    saved = _aligned(saved)\n");
  call_lists lists = {.read = {&r->operands, &r->cotangents}, .written = &r->gradients};
  put_arguments(p, r, &lists, true);
  PUT("    _run(_table_%s, _table_%s.backward, _BACKWARD, ", r->symbol, r->symbol);
  put_key(p, r, false);
  PUT(", _arguments, %s, saved)\n    return ", r->names[r->operands.items[0]]);
  python_put_names(p, r, &r->gradients);
  PUT("\n\n\ndef _fakebackward_%s(", r->symbol);
  put_backward_parameters(p, r);
  PUT("):\n");
  put_sizes_line(p, r, false);
  put_gradients(p, r);
  PUT("    return ");
  python_put_names(p, r, &r->gradients);
  PUT("\n\n\n");
}

// ---- autograd and autocast -------------------------------------------------------------------

static void put_function(const python_printer *p, const python_recurrence *r) {
  PUT("class _Function_%s(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, ", r->symbol);
  torch_put_operands(p, r, false);
  PUT("):\n        with torch._C._AutoDispatchBelowAutograd():\n            *_results, _saved = _op_save_%s(", r->symbol);
  torch_put_operands(p, r, false);
  PUT(")\n        ctx.save_for_backward(");
  torch_put_operands(p, r, false);
  PUT(", _saved)\n        ctx.set_materialize_grads(False)\n        return %s\n\n",
      r->results.count == 1 ? "_results[0]" : "tuple(_results)");
  PUT("    @staticmethod\n    def backward(ctx, ");
  python_put_names(p, r, &r->cotangents);
  PUT("):\n        _needs = ctx.needs_input_grad\n        _wanted = 0");
  for (int i = 0; i < r->operands.count; i++) PUT(" | _needs[%d] << %d", i, i);
  PUT("\n        _gradients = _op_backward_%s(*ctx.saved_tensors, ", r->symbol);
  python_put_names(p, r, &r->cotangents);
  PUT(", _wanted)\n        return (");
  for (int i = 0; i < r->operands.count; i++)
    PUT(r->operands.count == 1 ? "_gradients if _needs[%d] else None, " : "_gradients[%d] if _needs[%d] else None, ", i, i);
  PUT("None)\n\n\n");
}

void torch_put_needs_gradient(const python_printer *p, const python_recurrence *r) {
  PUT("torch.is_grad_enabled() and (");
  for (int i = 0; i < r->operands.count; i++) {
    const char *name = r->names[r->operands.items[i]];
    if (i) PUT(" or ");
    python_is_optional(r, r->operands.items[i]) ? PUT("%s is not None and %s.requires_grad", name, name)
                                                : PUT("%s.requires_grad", name);
  }
  PUT(")");
}

static void put_no_tangents(const python_printer *p, const python_recurrence *r) {
  PUT("    if _forward_ad._current_level >= 0:\n        _refuse_tangents(\"%s\", ", r->abi->body->name);
  python_put_tuple(p, r, &r->operands);
  PUT(")\n");
}

static void put_autograd(const python_printer *p, const python_recurrence *r) {
  PUT("def _autograd_%s(", r->symbol);
  torch_put_operands(p, r, false);
  PUT("):\n");
  put_no_tangents(p, r);
  PUT("    if ");
  torch_put_needs_gradient(p, r);
  PUT(":\n        return _Function_%s.apply(", r->symbol);
  torch_put_operands(p, r, false);
  PUT(")\n    with torch._C._AutoDispatchBelowAutograd():\n        return _op_%s(", r->symbol);
  torch_put_operands(p, r, false);
  PUT(")\n\n\n");
  // A step that is to be differentiated is a forward over one.
  int inputs = python_token_count(r, &r->operands), outputs = python_token_count(r, &r->results);
  PUT("def _autogradstep_%s(", r->symbol);
  torch_put_operands(p, r, true);
  PUT("):\n");
  put_no_tangents(p, r);
  PUT("    if ");
  torch_put_needs_gradient(p, r);
  PUT(":\n        _results = _op_%s(", r->symbol);
  for (int i = 0; i < r->operands.count; i++) PUT("%s%s, ", r->names[r->operands.items[i]], i < inputs ? ".unsqueeze(1)" : "");
  PUT("None)\n        return ");
  for (int i = 0; i < r->results.count; i++)
    PUT("%s_results%s%s", i ? ", " : "", r->results.count == 1 ? "" : arena_printf(p->memory, "[%d]", i),
        i < outputs ? ".squeeze(1)" : "");
  PUT("\n    with torch._C._AutoDispatchBelowAutograd():\n        return _op_step_%s(", r->symbol);
  torch_put_operands(p, r, true);
  PUT(")\n\n\n");
}

static void put_second(const python_printer *p, const python_recurrence *r) {
  PUT("def _autogradbackward_%s(*_arguments):\n    if torch.is_grad_enabled() and _needs_gradient(_arguments):\n"
      "        return _Once.apply(_op_backward_%s, \"%s\", *_arguments)\n"
      "    with torch._C._AutoDispatchBelowAutograd():\n        return _op_backward_%s(*_arguments)\n\n\n",
      r->symbol, r->symbol, r->abi->body->name, r->symbol);
}

static void put_autocast(const python_printer *p, const python_recurrence *r, bool step) {
  PUT("def _autocast%s_%s(", step ? "step" : "", r->symbol);
  torch_put_operands(p, r, step);
  PUT("):\n    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):\n        return _op_%s%s(", step ? "step_" : "", r->symbol);
  for (int i = 0; i < r->operands.count; i++)
    PUT("%s_cast(%s, %s)", i ? ", " : "", r->names[r->operands.items[i]], torch_type_of(p, r, r->operands.items[i]));
  PUT(step ? ")\n\n\n" : ", cu_seqlens)\n\n\n");
}

// ---- definitions -----------------------------------------------------------------------------

static void put_schema(const python_printer *p, const python_recurrence *r, const memory_list *list, bool first) {
  for (int i = 0; i < list->count; i++)
    PUT("%sTensor%s %s", i || !first ? ", " : "", python_is_optional(r, list->items[i]) ? "?" : "", r->names[list->items[i]]);
}

static void put_returns(const python_printer *p, int count) {
  PUT(") -> %s", count == 1 ? "" : "(");
  for (int i = 0; i < count; i++) PUT("%sTensor", i ? ", " : "");
  PUT(count == 1 ? "" : ")");
}

void torch_put_schema_of(const python_printer *p, const python_recurrence *r, bool step, bool save) {
  PUT("    \"(");
  put_schema(p, r, &r->operands, true);
  if (!step) PUT(", Tensor? cu_seqlens");
  put_returns(p, r->results.count + save);
  PUT("\",\n    ");
}

static void put_definition(const python_printer *p, const python_recurrence *r, const char *variable, const char *name,
                           bool step, bool save, const char *functions) {
  PUT("%s%s = _operator(\n    _table_%s,\n    \"%s_%s\",\n", variable, r->symbol, r->symbol, r->symbol, name);
  torch_put_schema_of(p, r, step, save);
  for (const char *c = functions; *c; c++) *c == '%' ? PUT("%s", r->symbol) : PUT("%c", *c);
  PUT(",\n)\n");
}

static void put_definitions(const python_printer *p, const python_recurrence *r) {
  put_definition(p, r, "_op_", "forward", false, false, "_forward_%, _fake_%, _autograd_%, _autocast_%");
  put_definition(p, r, "_op_save_", "forward_save", false, true, "_save_%, _fakesave_%");
  put_definition(p, r, "_op_step_", "step", true, false, "_step_%, _fakestep_%, _autogradstep_%, _autocaststep_%");
  PUT("_op_backward_%s = _operator(\n    _table_%s,\n    \"%s_backward\",\n    \"(", r->symbol, r->symbol, r->symbol);
  put_schema(p, r, &r->operands, true);
  PUT(", Tensor? cu_seqlens, Tensor saved");
  put_schema(p, r, &r->cotangents, false);
  PUT(", int wanted");
  put_returns(p, r->gradients.count);
  PUT("\",\n    _backward_%s, _fakebackward_%s, _autogradbackward_%s,\n)\n\n\n", r->symbol, r->symbol, r->symbol);
}

void torch_put_operators(const python_printer *p, const python_recurrence *r) {
  put_formats(p, r);
  put_check(p, r, false);
  put_check(p, r, true);
  put_saved(p, r);
  put_forward(p, r, "forward", false, false);
  put_forward(p, r, "save", false, true);
  put_forward(p, r, "step", true, false);
  put_backward(p, r);
  put_fake(p, r, "", false, false);
  put_fake(p, r, "save", false, true);
  put_fake(p, r, "step", true, false);
  put_function(p, r);
  put_autograd(p, r);
  put_second(p, r);
  put_autocast(p, r, false);
  put_autocast(p, r, true);
  put_definitions(p, r);
}
