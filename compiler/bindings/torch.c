// A recurrence as operators of PyTorch: forward, forward that saves, backward, step; their fakes, autograd and autocast; the
// functions that users call.
//
//   gla(q, k, v, gate, h0_S=None, cu_seqlens=None) -> gla_result(y, hT_S)
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

static const char *name_of(const python_recurrence *r, const memory_list *list, int i) { return r->names[list->items[i]]; }

// "q, k, v, gate, h0_S": of operands also with `cu_seqlens`, which is their last argument.
static void put_names(const python_printer *p, const python_recurrence *r, const memory_list *list) {
  for (int i = 0; i < list->count; i++) PUT("%s%s", i ? ", " : "", name_of(r, list, i));
}

static void put_operands(const python_printer *p, const python_recurrence *r, bool step) {
  put_names(p, r, &r->operands);
  if (!step) PUT(", cu_seqlens");
}

static void put_tuple(const python_printer *p, const python_recurrence *r, const memory_list *list) {
  PUT("(");
  put_names(p, r, list);
  PUT("%s)", list->count == 1 ? "," : "");
}

// ---- sizes -----------------------------------------------------------------------------------

// The place of an axis among those of a tensor, -1 if it has none.
static int place_of(const python_recurrence *r, int memory, int axis, bool step) {
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
    int place = place_of(r, r->operands.items[i], axis, step);
    if (place < 0) continue;
    PUT("        %s = %s.shape[%d]\n", r->axes[axis], name_of(r, &r->operands, i), place);
    return;
  }
  PUT("        raise AttributeError(\"%s\")\n", axis_of(r, axis)->name);
}

static const char *type_of(const python_printer *p, const python_recurrence *r, int memory) {
  return arena_printf(p->memory, "torch.%s", python_dtype(r, memory));
}

static void put_conditions(const python_printer *p, const python_recurrence *r, bool step) {
  for (int i = 0; i < r->operands.count; i++) {
    int memory = r->operands.items[i];
    const char *name = r->names[memory], *shape = python_shape(p->memory, r, memory, step), *type = type_of(p, r, memory);
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
  const char *first = name_of(r, &r->operands, 0);
  PUT("def _%s_%s(", step ? "stepsizes" : "sizes", r->symbol);
  put_operands(p, r, step);
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
  put_tuple(p, r, &r->operands);
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
  const char *first = name_of(r, &r->operands, 0);
  const char *type = type_of(p, r, memory);
  bool other = strcmp(type, type_of(p, r, r->operands.items[0])) != 0;
  PUT("%s.new_empty(%s%s)", first, python_shape(p->memory, r, memory, step),
      other ? arena_printf(p->memory, ", dtype=%s", type) : "");
}

static void put_results(const python_printer *p, const python_recurrence *r, bool step) {
  for (int i = 0; i < r->results.count; i++) {
    PUT("    %s = ", name_of(r, &r->results, i));
    put_new(p, r, r->results.items[i], step);
    PUT("\n");
  }
}

static void put_sizes_line(const python_printer *p, const python_recurrence *r, bool step) {
  PUT("    ");
  put_sizes(p, r, step);
  PUT(" = _%s_%s(", step ? "stepsizes" : "sizes", r->symbol);
  put_operands(p, r, step);
  PUT(")\n");
}

static void put_saved_call(const python_printer *p, const python_recurrence *r) {
  const char *first = name_of(r, &r->operands, 0);
  PUT("%s.new_empty(_saved_%s(%s.is_cpu, cu_seqlens, ", first, r->symbol, first);
  put_sizes(p, r, false);
  PUT("), dtype=torch.uint8)");
}

// The body of forward, forward that saves, and step.
static void put_forward(const python_printer *p, const python_recurrence *r, const char *kind, bool step, bool save) {
  PUT("def _%s_%s(", kind, r->symbol);
  put_operands(p, r, step);
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
  PUT(", _arguments, %s%s)\n    return ", name_of(r, &r->operands, 0), save ? ", _saved" : "");
  put_names(p, r, &r->results);
  PUT("%s\n\n\n", save ? ", _saved" : "");
}

static void put_fake(const python_printer *p, const python_recurrence *r, const char *kind, bool step, bool save) {
  PUT("def _fake%s_%s(", kind, r->symbol);
  put_operands(p, r, step);
  PUT("):\n");
  put_sizes_line(p, r, step);
  PUT("    if not _is_on(%s.device, (", name_of(r, &r->operands, 0));
  put_operands(p, r, step);
  PUT("%s)):\n        _refuse(_table_%s, ", step && r->operands.count == 1 ? "," : "", r->symbol);
  put_tuple(p, r, &r->operands);
  PUT(step ? ", step=True)\n" : ", cu_seqlens)\n");
  put_results(p, r, step);
  PUT("    return ");
  put_names(p, r, &r->results);
  if (save) {
    PUT(", ");
    put_saved_call(p, r);
  }
  PUT("\n\n\n");
}

static void put_backward_parameters(const python_printer *p, const python_recurrence *r) {
  put_operands(p, r, false);
  PUT(", saved, ");
  put_names(p, r, &r->cotangents);
  PUT(", wanted");
}

// Gradients that nobody wants are empty, and no memory of the library's.
static void put_gradients(const python_printer *p, const python_recurrence *r) {
  const char *first = name_of(r, &r->operands, 0);
  for (int i = 0; i < r->gradients.count; i++) {
    PUT("    %s = ", name_of(r, &r->gradients, i));
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
  PUT(", _arguments, %s, saved)\n    return ", name_of(r, &r->operands, 0));
  put_names(p, r, &r->gradients);
  PUT("\n\n\ndef _fakebackward_%s(", r->symbol);
  put_backward_parameters(p, r);
  PUT("):\n");
  put_sizes_line(p, r, false);
  put_gradients(p, r);
  PUT("    return ");
  put_names(p, r, &r->gradients);
  PUT("\n\n\n");
}

// ---- autograd and autocast -------------------------------------------------------------------

static void put_function(const python_printer *p, const python_recurrence *r) {
  PUT("class _Function_%s(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, ", r->symbol);
  put_operands(p, r, false);
  PUT("):\n        with torch._C._AutoDispatchBelowAutograd():\n            *_results, _saved = _op_save_%s(", r->symbol);
  put_operands(p, r, false);
  PUT(")\n        ctx.save_for_backward(");
  put_operands(p, r, false);
  PUT(", _saved)\n        ctx.set_materialize_grads(False)\n        return %s\n\n",
      r->results.count == 1 ? "_results[0]" : "tuple(_results)");
  PUT("    @staticmethod\n    def backward(ctx, ");
  put_names(p, r, &r->cotangents);
  PUT("):\n        _needs = ctx.needs_input_grad\n        _wanted = 0");
  for (int i = 0; i < r->operands.count; i++) PUT(" | _needs[%d] << %d", i, i);
  PUT("\n        _gradients = _op_backward_%s(*ctx.saved_tensors, ", r->symbol);
  put_names(p, r, &r->cotangents);
  PUT(", _wanted)\n        return (");
  for (int i = 0; i < r->operands.count; i++)
    PUT(r->operands.count == 1 ? "_gradients if _needs[%d] else None, " : "_gradients[%d] if _needs[%d] else None, ", i, i);
  PUT("None)\n\n\n");
}

// "torch.is_grad_enabled() and (..)"
static void put_needs_gradient(const python_printer *p, const python_recurrence *r) {
  PUT("torch.is_grad_enabled() and (");
  for (int i = 0; i < r->operands.count; i++) {
    const char *name = name_of(r, &r->operands, i);
    if (i) PUT(" or ");
    python_is_optional(r, r->operands.items[i]) ? PUT("%s is not None and %s.requires_grad", name, name)
                                                : PUT("%s.requires_grad", name);
  }
  PUT(")");
}

static void put_autograd(const python_printer *p, const python_recurrence *r) {
  PUT("def _autograd_%s(", r->symbol);
  put_operands(p, r, false);
  PUT("):\n    if ");
  put_needs_gradient(p, r);
  PUT(":\n        return _Function_%s.apply(", r->symbol);
  put_operands(p, r, false);
  PUT(")\n    with torch._C._AutoDispatchBelowAutograd():\n        return _op_%s(", r->symbol);
  put_operands(p, r, false);
  PUT(")\n\n\n");
  // A step that is to be differentiated is a forward over one.
  int inputs = python_token_count(r, &r->operands), outputs = python_token_count(r, &r->results);
  PUT("def _autogradstep_%s(", r->symbol);
  put_operands(p, r, true);
  PUT("):\n    if ");
  put_needs_gradient(p, r);
  PUT(":\n        _results = _op_%s(", r->symbol);
  for (int i = 0; i < r->operands.count; i++) PUT("%s%s, ", name_of(r, &r->operands, i), i < inputs ? ".unsqueeze(1)" : "");
  PUT("None)\n        return ");
  for (int i = 0; i < r->results.count; i++)
    PUT("%s_results%s%s", i ? ", " : "", r->results.count == 1 ? "" : arena_printf(p->memory, "[%d]", i),
        i < outputs ? ".squeeze(1)" : "");
  PUT("\n    with torch._C._AutoDispatchBelowAutograd():\n        return _op_step_%s(", r->symbol);
  put_operands(p, r, true);
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
  put_operands(p, r, step);
  PUT("):\n    with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):\n        return _op_%s%s(", step ? "step_" : "", r->symbol);
  for (int i = 0; i < r->operands.count; i++)
    PUT("%s_cast(%s, %s)", i ? ", " : "", name_of(r, &r->operands, i), type_of(p, r, r->operands.items[i]));
  PUT(step ? ")\n\n\n" : ", cu_seqlens)\n\n\n");
}

// ---- definitions -----------------------------------------------------------------------------

static void put_schema(const python_printer *p, const python_recurrence *r, const memory_list *list, bool first) {
  for (int i = 0; i < list->count; i++)
    PUT("%sTensor%s %s", i || !first ? ", " : "", python_is_optional(r, list->items[i]) ? "?" : "", name_of(r, list, i));
}

static void put_returns(const python_printer *p, int count) {
  PUT(") -> %s", count == 1 ? "" : "(");
  for (int i = 0; i < count; i++) PUT("%sTensor", i ? ", " : "");
  PUT(count == 1 ? "" : ")");
}

static void put_schema_of(const python_printer *p, const python_recurrence *r, bool step, bool save) {
  PUT("    \"(");
  put_schema(p, r, &r->operands, true);
  if (!step) PUT(", Tensor? cu_seqlens");
  put_returns(p, r->results.count + save);
  PUT("\",\n    ");
}

static void put_definition(const python_printer *p, const python_recurrence *r, const char *variable, const char *name,
                           bool step, bool save, const char *functions) {
  PUT("%s%s = _operator(\n    _table_%s,\n    \"%s_%s\",\n", variable, r->symbol, r->symbol, r->symbol, name);
  put_schema_of(p, r, step, save);
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

// ---- what users call -------------------------------------------------------------------------

static void put_result_class(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  if (r->results.count == 1) return;
  PUT("class %s_result(NamedTuple):\n    \"\"\"What %s returns.\"\"\"\n\n", f->name, f->name);
  for (int i = 0; i < r->results.count; i++)
    PUT("    %s: torch.Tensor  # %s %s\n", name_of(r, &r->results, i),
        python_shape_words(p->memory, r, r->results.items[i], false), python_dtypes(p->memory, f, r->results.items[i]));
  PUT("\n\n");
}

// The size that an operand has, which is the same from the end for steps.
static void put_chosen_axis(const python_printer *p, const python_recurrence *r, int axis) {
  for (int i = 0; i < r->operands.count; i++) {
    const abi_memory *m = python_memory(r, r->operands.items[i]);
    int axes[TYPED_MAX_AXES], count = abi_axes(r->abi, m, axes), at = 0;
    while (at < count && axes[at] != axis) at++;
    if (at == count) continue;
    bool is_complex = abi_factor(r->abi, m) > (m->lag >= 0 ? r->abi->body->lags.items[m->lag].depth : 1);
    PUT("        %s = %s.shape[%d]\n", r->axes[axis], name_of(r, &r->operands, i), at - count - is_complex);
    return;
  }
}

static bool is_told_by_operands(const python_recurrence *r, int axis) {
  for (int i = 0; i < r->operands.count; i++)
    if (place_of(r, r->operands.items[i], axis, false) >= 0) return true;
  return false;
}

static void put_condition(const python_printer *p, const python_function *f, int variant) {
  const python_recurrence *r = &f->variants.items[variant];
  const char *joined = "";
  PUT("        if ");
  if (p->library->dtypes.count > 1) {
    PUT("_type is %s", type_of(p, r, r->operands.items[0]));
    joined = " and ";
  }
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    if (!python_is_chosen(r, i) || !is_told_by_operands(r, i)) continue;
    PUT("%s%s == %lld", joined, r->axes[i], (long long)axis_of(r, i)->size);
    joined = " and ";
  }
  PUT("%s:\n            return %d\n", *joined ? "" : "True", variant);
}

// Which variant a call takes: its position in `_ops_NAME`. Straight lines, as all that small calls pass.
static void put_pick(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  PUT("def _pick_%s(", f->symbol);
  put_names(p, r, &r->operands);
  PUT(", _step):\n    \"\"\"The position of the variant that has the type and the sizes of a call.\"\"\"\n    try:\n");
  if (p->library->dtypes.count > 1) PUT("        _type = _type_for(%s)\n", name_of(r, &r->operands, 0));
  for (int i = 0; i < r->abi->body->axes.count; i++)
    if (python_is_chosen(r, i) && is_told_by_operands(r, i)) put_chosen_axis(p, r, i);
  for (int i = 0; i < f->variants.count; i++) put_condition(p, f, i);
  PUT("    except (AttributeError, IndexError):  # too few axes\n        pass\n    _refuse(_family_%s[0], ", f->symbol);
  put_tuple(p, r, &r->operands);
  PUT(", step=_step)\n\n\n");
  static const char *const variables[] = {"_ops_", "_op_", "_stepops_", "_op_step_"};
  for (int i = 0; i < 2; i++) {
    PUT("%s%s = (", variables[2 * i], f->symbol);
    for (int k = 0; k < f->variants.count; k++) PUT("%s%s%s", k ? ", " : "", variables[2 * i + 1], f->variants.items[k].symbol);
    PUT(")\n");
  }
  PUT("\n\n");
}

// One function of the variants, which begins with `prefix`, or what picks among them.
static void put_of_variants(const python_printer *p, const python_function *f, const char *prefix, bool step) {
  if (f->variants.count == 1) {
    PUT("%s%s", prefix, f->variants.items[0].symbol);
    return;
  }
  PUT("_picking((");
  for (int i = 0; i < f->variants.count; i++) PUT("%s%s%s", i ? ", " : "", prefix, f->variants.items[i].symbol);
  PUT("), _pick_%s, %d, %s)", f->symbol, f->variants.items[0].operands.count, step ? "True" : "False");
}

// The operator for calls without gradients, one for all variants.
static void put_quick(const python_printer *p, const python_function *f, bool step) {
  const char *word = step ? "step_" : "", *entry = step ? "step" : "forward";
  PUT("_quick_%s%s = _quick_operator(\n    \"%s_quick_%s\",\n    \"rec_torch_%s_%s\",\n", word, f->symbol, f->symbol, entry,
      f->symbol, entry);
  put_schema_of(p, &f->variants.items[0], step, false);
  put_of_variants(p, f, step ? "_fakestep_" : "_fake_", step);
  PUT(", ");
  put_of_variants(p, f, step ? "_op_step_" : "_op_", step);
  PUT(",\n)\n%s", step ? "\n\n" : "");
}

static void put_public(const python_printer *p, const python_function *f, bool step) {
  const python_recurrence *r = &f->variants.items[0];
  bool one = r->results.count == 1;
  const char *result = one ? "torch.Tensor" : arena_printf(p->memory, "%s_result", f->name);
  const char *made = one ? "" : arena_printf(p->memory, "%s_result(*", f->name), *end = one ? "" : ")";
  PUT("def %s%s(\n", f->name, step ? "_step" : "");
  for (int i = 0; i < r->operands.count; i++)
    PUT("    %s: %s,\n", name_of(r, &r->operands, i),
        python_is_optional(r, r->operands.items[i]) ? "Optional[torch.Tensor] = None" : "torch.Tensor");
  if (!step) PUT("    cu_seqlens: Optional[torch.Tensor] = None,\n");
  PUT(") -> %s:\n", result);
  if (step)
    PUT("    \"\"\"One step of %s, without an axis of time: hand its states to the next.\n\n", f->name);
  else
    python_put_doc(p, f);
  python_put_tensors(p, f, &r->operands, step);
  if (!step)
    PUT("    cu_seqlens: None, or int32: the offsets of sequences packed behind one another in one batch entry, and their "
        "end;\n"
        "        states then have one entry for each sequence\n");
  PUT("    \"\"\"\n    if not (");
  for (int i = 0; i < r->operands.count; i++)
    if (!python_is_optional(r, r->operands.items[i]))
      PUT("%sisinstance(%s, torch.Tensor)", i ? " and " : "", name_of(r, &r->operands, i));
  PUT("):\n        _refuse(_family_%s[0], ", f->symbol);
  put_tuple(p, r, &r->operands);
  PUT(step ? ", step=True)\n" : ", cu_seqlens)\n");
  PUT("    if not (");
  put_needs_gradient(p, r);
  PUT("):\n        try:\n            return %s_quick_%s%s(", made, step ? "step_" : "", f->symbol);
  put_operands(p, r, step);
  PUT("%s)\n        except RuntimeError:  # the other operator says what it is\n            pass\n    return %s", end, made);
  if (f->variants.count == 1) {
    PUT("_op_%s%s(", step ? "step_" : "", r->symbol);
  } else {
    PUT("%s%s[_pick_%s(", step ? "_stepops_" : "_ops_", f->symbol, f->symbol);
    put_names(p, r, &r->operands);
    PUT(", %s)](", step ? "True" : "False");
  }
  put_operands(p, r, step);
  PUT("%s)\n\n\n", end);
}

static void put_operators(const python_printer *p, const python_recurrence *r) {
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

void torch_put_function(const python_printer *p, const python_function *f) {
  python_put_rule(p->out, f->variants.items[0].abi->body->name);
  python_put_tables(p, f);
  for (int i = 0; i < f->variants.count; i++) put_operators(p, &f->variants.items[i]);
  if (f->variants.count > 1) put_pick(p, f);
  put_quick(p, f, false);
  put_quick(p, f, true);
  put_result_class(p, f);
  put_public(p, f, false);
  put_public(p, f, true);
  torch_put_module(p, f);
}
