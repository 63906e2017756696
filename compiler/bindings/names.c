// Names in Python files. A recurrence's own names stay as they are wherever Python and the
// generated text leave them free.
#include <ctype.h>
#include <string.h>

#include "compiler/base/text.h"
#include "compiler/bindings/python.h"

// Words of Python, its functions and exceptions that the fixed texts use, and names of files and
// arguments.
static const char reserved_words[] =
    " False None True and as assert async await break class continue def del elif else except "
    "finally for from "
    "global if import in is lambda nonlocal not or pass raise return try while with yield match "
    "case "
    "AttributeError Exception KeyError NotImplementedError OSError RuntimeError TypeError "
    "ValueError abs all any "
    "bool bytes complex dict enumerate eval float getattr globals hasattr int isinstance iter len "
    "list map max min "
    "next open print set sorted staticmethod str sum super tuple type zip range "
    "self torch jax jnp np numpy NamedTuple Optional Callable Sequence Tensor RecError cu_seqlens "
    "threads save "
    "saved device dtype wanted ctx annotations ctypes functools json math os re struct threading ";

static bool is_reserved_in_python(arena *a, const char *name) {
  return strstr(reserved_words, arena_printf(a, " %s ", name)) != NULL;
}

static bool is_python_name_taken(const python_scope *scope, const char *name) {
  for (int i = 0; i < scope->names.count; i++)
    if (strcmp(scope->names.items[i], name) == 0) return true;
  return false;
}

const char *python_name(python_scope *scope, const char *wanted) {
  const char *name = wanted;
  while (is_reserved_in_python(scope->memory, name) || is_python_name_taken(scope, name))
    name = arena_printf(scope->memory, "%s_", name);
  vec_push(scope->memory, &scope->names, name);
  return name;
}

// A field of the arguments; names with `_` in front are those of the generated text.
static const char *field_name(python_scope *scope, const char *field) {
  return python_name(scope, *field == '_' ? arena_printf(scope->memory, "x%s", field) : field);
}

// A name that leaves those of a recurrence's further functions and classes free, too.
static const char *function_name(python_scope *module, const char *symbol) {
  static const char *const endings[] = {"_step", "_backward", "_result", "_gradients", "_module"};
  const char *name = field_name(module, symbol);
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
    if (!is_python_name_taken(module, arena_printf(module->memory, "%s%s", name, endings[i])))
      continue;
    return function_name(module, arena_printf(module->memory, "%s_", symbol));
  }
  for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
    vec_push(module->memory, &module->names,
             arena_printf(module->memory, "%s%s", name, endings[i]));
  return name;
}

static void add_role(arena *a, const python_recurrence *r, memory_list *list, abi_role role,
                     int kind) {
  for (int i = 0; i < r->abi->memories.count; i++) {
    const abi_memory *memory = &r->abi->memories.items[i];
    bool of_kind =
        memory->lag >= 0 || (int)r->abi->body->tensors.items[memory->tensor].kind == kind;
    if (memory->role == role && of_kind) vec_push(a, list, i);
  }
}

// Lag buffers stand behind all tensors in the arguments, and so here.
static void add_lists(arena *a, python_recurrence *r) {
  add_role(a, r, &r->operands, ABI_VALUE, TENSOR_INPUT);
  add_role(a, r, &r->operands, ABI_VALUE, TENSOR_PARAM);
  add_role(a, r, &r->operands, ABI_H0, TENSOR_STATE);
  add_role(a, r, &r->results, ABI_VALUE, TENSOR_OUTPUT);
  add_role(a, r, &r->results, ABI_HT, TENSOR_STATE);
  add_role(a, r, &r->cotangents, ABI_D_VALUE, TENSOR_OUTPUT);
  add_role(a, r, &r->cotangents, ABI_D_HT, TENSOR_STATE);
  add_role(a, r, &r->gradients, ABI_D_VALUE, TENSOR_INPUT);
  add_role(a, r, &r->gradients, ABI_D_VALUE, TENSOR_PARAM);
  add_role(a, r, &r->gradients, ABI_D_H0, TENSOR_STATE);
}

static python_recurrence python_recurrence_of(arena *a, const artifact_recurrence *made) {
  const abi_recurrence *abi = made->abi;
  python_recurrence r = {.made = made,
                         .abi = abi,
                         .dtype = made->variant->dtype,
                         .symbol = abi->symbol,
                         .locals = {.memory = a}};
  r.names = arena_alloc(a, sizeof *r.names * (size_t)abi->memories.count);
  for (int i = 0; i < abi->memories.count; i++)
    r.names[i] = field_name(&r.locals, abi->fields.items[abi->memories.items[i].data].name);
  add_lists(a, &r);
  return r;
}

python_function python_function_of(arena *a, const artifact *library, int first,
                                   python_scope *module) {
  const char *plain = library->recurrences.items[first].plain;
  python_function f = {.name = function_name(module, plain + strlen(library->prefix)),
                       .symbol = plain};
  for (int i = first; i < library->recurrences.count; i++) {
    if (strcmp(library->recurrences.items[i].plain, plain) != 0) break;
    vec_push(a, &f.variants, python_recurrence_of(a, &library->recurrences.items[i]));
  }
  return f;
}

const char *bindings_module_name(arena *a, const char *path) {
  char *name = file_stem(a, path);
  for (char *p = name; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
  python_scope scope = {.memory = a};
  return python_name(&scope, isalpha((unsigned char)*name)
                                 ? name
                                 : arena_printf(a, "rec%s%s", *name == '_' ? "" : "_", name));
}
