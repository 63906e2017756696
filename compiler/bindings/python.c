// Text of Python that is the same for every framework: shapes in words, docstrings, the table of a
// recurrence.
#include "compiler/bindings/python.h"

#include <string.h>

#include "compiler/base/embedded.h"
#include "compiler/base/ice.h"
#include "compiler/base/text.h"

const abi_memory *python_memory(const python_recurrence *r, int memory) {
  return &r->abi->memories.items[memory];
}

bool python_is_own(const python_recurrence *r) { return strchr(r->abi->body->name, '.') == NULL; }

bool python_is_param(const python_recurrence *r, int memory) {
  return !abi_per_batch(r->abi, python_memory(r, memory));
}

bool python_is_optional(const python_recurrence *r, int memory) {
  abi_role role = python_memory(r, memory)->role;
  return role == ABI_H0 || role >= ABI_D_VALUE;
}

const char *python_type(number_type dtype) {
  static const char *const words[NUMBER_TYPE_COUNT] = {[NUMBER_F32] = "float32",
                                                       [NUMBER_F64] = "float64",
                                                       [NUMBER_BF16] = "bfloat16",
                                                       [NUMBER_F16] = "float16"};
  return words[dtype];
}

static const char *python_dtype(const python_recurrence *r, int memory) {
  return python_type(abi_number_type(python_memory(r, memory), r->dtype));
}

static bool has_type_before(const python_function *f, int memory, int variant) {
  const char *type = python_dtype(&f->variants.items[variant], memory);
  for (int i = 0; i < variant; i++)
    if (strcmp(python_dtype(&f->variants.items[i], memory), type) == 0) return true;
  return false;
}

// The types of all variants: "float32 or bfloat16".
static const char *dtypes_text(arena *a, const python_function *f, int memory) {
  const char *text = python_dtype(&f->variants.items[0], memory);
  for (int i = 1; i < f->variants.count; i++)
    if (!has_type_before(f, memory, i))
      text = arena_printf(a, "%s or %s", text, python_dtype(&f->variants.items[i], memory));
  return text;
}

bool python_is_chosen(const python_recurrence *r, int axis) {
  for (int i = 0; i < r->made->fixed.count; i++)
    if (strcmp(r->made->fixed.items[i].axis, r->abi->body->axes.items[axis].name) == 0) return true;
  return false;
}

// Whether the size of an axis is computed from one of that name.
static bool mentions(const ast_expr *size, const char *name) {
  switch (size->kind) {
    case AST_NAME: return strcmp(size->name.text, name) == 0;
    case AST_NEGATE: return mentions(size->negate.operand, name);
    case AST_BINARY: return mentions(size->binary.left, name) || mentions(size->binary.right, name);
    case AST_CALL:
      for (int i = 0; i < size->call.args.count; i++)
        if (mentions(size->call.args.items[i].value, name)) return true;
      return false;
    default: return false;
  }
}

static bool makes_other_axes(const typed_body *body, int axis) {
  for (int i = 0; i < body->axes.count; i++)
    if (body->axes.items[i].size_expr &&
        mentions(body->axes.items[i].size_expr, body->axes.items[axis].name))
      return true;
  return false;
}

// Whether entries of the axis are told apart, or meet.
static bool value_joins(const typed_value *v, int axis) {
  switch (v->op) {
    case VALUE_AXIS_SIZE:
    case VALUE_INDEX:
    case VALUE_SLICE: return v->index == axis;
    case VALUE_RENAME: return v->index == axis || v->index2 == axis;
    case VALUE_SUM:
    case VALUE_MAX_OVER:
    case VALUE_MIN_OVER: return axis_in(v->over, axis);
    default: return false;
  }
}

// Whether entries of the axis have nothing to do with each other, as batch entries have not: a call
// over some of them computes their part of all results. Tensors without the axis are shared by all
// of its entries.
static bool is_instance_axis(const python_recurrence *r, int axis) {
  const typed_body *body = r->abi->body;
  if (body->axes.items[axis].size != TYPED_RUNTIME_SIZE || body->axes.items[axis].size_expr ||
      makes_other_axes(body, axis))
    return false;
  for (int i = 0; i < body->values.count; i++)
    if (value_joins(&body->values.items[i], axis)) return false;
  for (int i = 0; i < body->lags.count; i++)
    if (!axis_in(body->lags.items[i].axes, axis)) return false;
  vec_each(const typed_tensor, t, body->tensors)
    if ((t->kind == TENSOR_STATE || t->kind == TENSOR_OUTPUT) && !axis_in(t->axis_set, axis))
      return false;
  return true;
}

// A docstring must not end early, and a backslash begins an escape.
void python_put_text(FILE *out, const char *text, const char *indent) {
  for (const char *p = text; *p; p++)
    if (*p == '\n')
      fprintf(out, "\n%s", p[1] && p[1] != '\n' ? indent : "");
    else if (*p == '\\' || *p == '"')
      fprintf(out, "\\%c", *p);
    else if ((unsigned char)*p >= 32)
      fputc(*p, out);
}

void python_put_doc(const python_printer *p, const python_function *f) {
  const typed_body *body = f->variants.items[0].abi->body;
  fprintf(p->out, "    \"\"\"");
  body->doc ? python_put_text(p->out, body->doc, "    ")
            : (void)fprintf(p->out, "The recurrence %s.", body->name);
  fprintf(p->out, "\n\n");
}

// What a tensor is, where its shape does not tell it.
static const char *role_text(const python_recurrence *r, int memory) {
  const abi_memory *m = python_memory(r, memory);
  bool lag = m->lag >= 0;
  switch (m->role) {
    case ABI_H0:
      return lag ? ", its last values before the first step, oldest first; None: zero"
                 : ", before the first step; None: zero";
    case ABI_HT: return lag ? ", its last values" : ", after the last step";
    case ABI_D_VALUE:
    case ABI_D_H0:
    case ABI_D_HT: return ", gradient";
    default: return "";
  }
}

void python_put_tensors(const python_printer *p, const python_function *f, const memory_list *list,
                        bool step) {
  const python_recurrence *r = &f->variants.items[0];
  for (int i = 0; i < list->count; i++) {
    int memory = list->items[i], tensor = python_memory(r, memory)->tensor;
    const char *doc = tensor >= 0 ? r->abi->body->tensors.items[tensor].doc : NULL;
    fprintf(p->out, "    %s: %s %s%s", r->names[memory],
            abi_shape(p->memory, r->abi, python_memory(r, memory), ", ", !step),
            dtypes_text(p->memory, f, memory), role_text(r, memory));
    if (doc) {
      fprintf(p->out, "; ");
      python_put_text(p->out, doc, "        ");
    }
    fprintf(p->out, "\n");
  }
}

void python_put_rule(FILE *out, const char *title) {
  fprintf(out, "# ---- %s ", title);
  for (size_t column = strlen(title) + 8; column < 120; column++) fputc('-', out);
  fprintf(out, "\n\n");
}

// ---- the family ------------------------------------------------------------------------------

// Fields of a recurrence whose names Python does not leave free: { "from": "from_" }.
static void put_renamed(const python_printer *p, const python_recurrence *r) {
  bool first = true;
  for (int i = 0; i < r->abi->memories.count; i++) {
    const char *field = r->abi->fields.items[python_memory(r, i)->data].name;
    if (strcmp(r->names[i], field) == 0) continue;
    fprintf(p->out, "%s\"%s\": \"%s\"", first ? ", renamed={" : ", ", field, r->names[i]);
    first = false;
  }
  if (!first) fprintf(p->out, "}");
}

static void put_instances(const python_printer *p, const python_recurrence *r) {
  bool first = true;
  for (int i = 0; i < r->abi->body->axes.count; i++) {
    if (!is_instance_axis(r, i)) continue;
    fprintf(p->out, "%s\"%s\", ", first ? ", instances=(" : "", r->abi->body->axes.items[i].name);
    first = false;
  }
  if (!first) fprintf(p->out, ")");
}

void python_put_family(const python_printer *p, const python_function *f) {
  const python_recurrence *r = &f->variants.items[0];
  fprintf(p->out, "_family(\"%s\"", f->symbol);
  put_renamed(p, r);
  put_instances(p, r);
  fprintf(p->out, ")");
}

// ---- lists -----------------------------------------------------------------------------------

void python_put_names(const python_printer *p, const python_recurrence *r,
                      const memory_list *list) {
  for (int i = 0; i < list->count; i++)
    fprintf(p->out, "%s%s", i ? ", " : "", r->names[list->items[i]]);
}

void python_put_tuple(const python_printer *p, const python_recurrence *r,
                      const memory_list *list) {
  fprintf(p->out, "(");
  python_put_names(p, r, list);
  fprintf(p->out, list->count == 1 ? ",)" : ")");
}

void python_put_fields(const python_printer *p, const python_function *f, const memory_list *list,
                       const char *type) {
  const python_recurrence *r = &f->variants.items[0];
  for (int i = 0; i < list->count; i++) {
    int memory = list->items[i];
    fprintf(p->out, "    %s: %s  # %s %s\n", r->names[memory], type,
            abi_shape(p->memory, r->abi, python_memory(r, memory), ", ", true),
            dtypes_text(p->memory, f, memory));
  }
}

// ---- embedded text ---------------------------------------------------------------------------

void python_put_embedded(FILE *out, const char *name) {
  const embedded_file *file = embedded_find(embedded_bindings, name);
  const char *from = file ? strstr((const char *)file->data, "\n# ----") : NULL;
  if (!from) ICE("bindings", "no text '%s'", name);
  fprintf(out, "%s\n\n", from);
}
