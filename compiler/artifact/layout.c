// Lays out NAME_arguments: which memories a caller hands over for a recurrence, in which order,
// under which C names.
//
//   recurrence f(G) { input x[G]  param a[G]  state h[G]  output y[G] .. }
//
//   size, batch, time, sequences, G, cu_seqlens, x, x_batch_stride, x_time_stride, a, h0_h, hT_h,
//     y, y_batch_stride,
//   y_time_stride, d_x, d_x_batch_stride, d_x_time_stride, d_a, d_h0_h, d_hT_h, d_y, ..
//
// Every field takes eight bytes, so the offsets are those of any C compiler on a 64-bit machine.
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "compiler/artifact/abi.h"
#include "compiler/base/ice.h"

// Words that C or C++ reserves, types of the header, and macros of compilers and of the C library.
static const char reserved_words[] =
    " EOF I INFINITY NAN NULL REC_ABI_MAJOR REC_ABI_MINOR REC_ALIGNMENT REC_LAUNCH_H alignas "
    "alignof and and_eq asm auto "
    "bitand bitor bool break case catch char char16_t char32_t char8_t class co_await co_return "
    "co_yield compl complex "
    "concept const const_cast consteval constexpr constinit continue contract_assert decltype "
    "default delete do double "
    "dynamic_cast else enum errno explicit export extern false float for friend goto if imaginary "
    "inline int int32_t "
    "int64_t linux long mutable namespace new noexcept noreturn not not_eq nullptr operator or "
    "or_eq private protected "
    "public reflexpr register reinterpret_cast requires restrict return short signed sizeof static "
    "static_assert "
    "static_cast stderr stdin stdout struct switch template this thread_local throw true try "
    "typedef typeid typename "
    "typeof typeof_unqual uint16_t uint64_t union unix unsigned using virtual void volatile "
    "wchar_t while xor xor_eq ";

static bool is_reserved_in_c(arena *a, const char *name) {
  return strstr(reserved_words, arena_printf(a, " %s ", name)) != NULL;
}

static bool has_suffix(const char *name, const char *suffix) {
  size_t length = strlen(name), end = strlen(suffix);
  return length >= end && strcmp(name + length - end, suffix) == 0;
}

// Macros of the headers that the generated one includes: INT32_MAX, SIZE_WIDTH.
static bool is_macro(const char *name) {
  static const char *const types[] = {"INT", "UINT", "SIZE", "PTRDIFF", "WCHAR", "WINT", "SIG"};
  bool found = false;
  if (has_suffix(name, "_MAX") || has_suffix(name, "_MIN") || has_suffix(name, "_WIDTH"))
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
      found |= strncmp(name, types[i], strlen(types[i])) == 0;
  return found;
}

// Names that C and C++ leave to compilers: _Bool, __asm.
static bool is_of_compilers(const char *name) {
  return name[0] == '_' && (name[1] == '_' || isupper((unsigned char)name[1]));
}

static char *c_name(arena *a, const char *name) {
  char *safe = arena_strdup(a, name);
  for (char *p = safe; *p; p++)
    if (!isalnum((unsigned char)*p)) *p = '_';
  return safe;
}

// In C++ no member has the name of its struct.
static bool is_taken_member(arena *a, const abi_recurrence *abi, const char *name) {
  if (strcmp(name, arena_printf(a, "%s_arguments", abi->symbol)) == 0) return true;
  for (int i = 0; i < abi->fields.count; i++)
    if (strcmp(abi->fields.items[i].name, name) == 0) return true;
  return false;
}

static int add_abi_field(arena *a, abi_recurrence *abi, abi_field_kind kind, int index,
                         const char *wanted) {
  const char *name = arena_printf(a, "%s%s", is_of_compilers(wanted) ? "x" : "", c_name(a, wanted));
  while (is_reserved_in_c(a, name) || is_macro(name) || is_taken_member(a, abi, name))
    name = arena_printf(a, "%s_", name);
  int position = abi->fields.count;
  vec_push(a, &abi->fields, (abi_field){name, kind, 8 * position, index});
  abi->arguments_size = 8 * (position + 1);
  return position;
}

// The name in `rec apply` files.
static const char *apply_name(arena *a, abi_role role, const char *name, bool lag) {
  static const char *const prefixes[] = {[ABI_VALUE] = "",     [ABI_H0] = "h0.",
                                         [ABI_HT] = "hT.",     [ABI_D_VALUE] = "d.",
                                         [ABI_D_H0] = "d.h0.", [ABI_D_HT] = "d.hT."};
  return arena_printf(a, "%s%s%s", prefixes[role], name, lag ? ".lag" : "");
}

static void add_abi_memory(arena *a, abi_recurrence *abi, abi_role role, int tensor, int lag) {
  const typed_body *body = abi->body;
  const char *name = lag >= 0 ? body->lags.items[lag].name : body->tensors.items[tensor].name;
  tensor_kind kind = lag >= 0 ? TENSOR_STATE : body->tensors.items[tensor].kind;
  abi_memory memory = {
      .role = role, .tensor = tensor, .lag = lag, .batch_stride = -1, .time_stride = -1};
  memory.token = kind == TENSOR_INPUT || kind == TENSOR_OUTPUT;
  if (tensor >= 0)
    memory.wide = role == ABI_D_VALUE ? body->tensors.items[tensor].wide_gradient
                                      : body->tensors.items[tensor].wide;
  memory.apply_name = apply_name(a, role, name, lag >= 0);
  int index = abi->memories.count;
  memory.data = add_abi_field(a, abi, ABI_DATA, index, memory.apply_name);
  if (memory.token) {
    const char *base = abi->fields.items[memory.data].name;
    memory.batch_stride =
        add_abi_field(a, abi, ABI_BATCH_STRIDE, index, arena_printf(a, "%s_batch_stride", base));
    memory.time_stride =
        add_abi_field(a, abi, ABI_TIME_STRIDE, index, arena_printf(a, "%s_time_stride", base));
  }
  vec_push(a, &abi->memories, memory);
}

static bool is_among_symbols(const char *symbol, const char *const *others, int count) {
  for (int i = 0; i < count; i++)
    if (strcmp(others[i], symbol) == 0) return true;
  return false;
}

// f_summary_backward is of f alone: f and f_summary are not the symbols of one library.
static bool shares_entries(arena *a, const char *symbol, const char *const *others, int count) {
  if (is_among_symbols(arena_printf(a, "%s_summary", symbol), others, count)) return true;
  for (int i = 0; i < count; i++)
    if (strcmp(arena_printf(a, "%s_summary", others[i]), symbol) == 0) return true;
  return false;
}

const char *abi_symbol(arena *a, const char *prefix, const typed_body *body,
                       const char *const *others, int count) {
  const char *symbol = arena_printf(a, "%s%s", prefix, c_name(a, body->name));
  // rec_sizes is a type of the header
  while (strcmp(symbol, "rec") == 0 || is_among_symbols(symbol, others, count) ||
         shares_entries(a, symbol, others, count))
    symbol = arena_printf(a, "%s_", symbol);
  return symbol;
}

const char *abi_variant_symbol(arena *a, const char *plain, const char *suffix,
                               const char *const *others, int count) {
  const char *symbol = arena_printf(a, "%s%s", plain, suffix);
  while (*suffix && is_among_symbols(symbol, others, count))
    symbol = arena_printf(a, "%s_", symbol);
  return symbol;
}

bool abi_same_arguments(const abi_recurrence *left, const abi_recurrence *right) {
  bool same = left->fields.count == right->fields.count;
  for (int i = 0; same && i < left->fields.count; i++)
    same = left->fields.items[i].kind == right->fields.items[i].kind &&
           strcmp(left->fields.items[i].name, right->fields.items[i].name) == 0;
  return same;
}

abi_recurrence *abi_layout(arena *a, const typed_body *body, const char *symbol) {
  abi_recurrence *abi = ARENA_NEW(a, abi_recurrence);
  abi->body = body;
  abi->symbol = symbol;
  add_abi_field(a, abi, ABI_SIZE, -1, "size");
  add_abi_field(a, abi, ABI_BATCH, -1, "batch");
  add_abi_field(a, abi, ABI_TIME, -1, "time");
  add_abi_field(a, abi, ABI_SEQUENCES, -1, "sequences");
  for (int i = 0; i < body->axes.count; i++)
    add_abi_field(a, abi, ABI_AXIS, i, body->axes.items[i].name);
  add_abi_field(a, abi, ABI_CU_SEQLENS, -1, "cu_seqlens");
  for (int gradient = 0; gradient < 2; gradient++) {
    for (int i = 0; i < body->tensors.count; i++) {
      if (body->tensors.items[i].kind == TENSOR_STATE) {
        add_abi_memory(a, abi, gradient ? ABI_D_H0 : ABI_H0, i, -1);
        add_abi_memory(a, abi, gradient ? ABI_D_HT : ABI_HT, i, -1);
      } else {
        add_abi_memory(a, abi, gradient ? ABI_D_VALUE : ABI_VALUE, i, -1);
      }
    }
    for (int i = 0; i < body->lags.count; i++) {
      add_abi_memory(a, abi, gradient ? ABI_D_H0 : ABI_H0, -1, i);
      add_abi_memory(a, abi, gradient ? ABI_D_HT : ABI_HT, -1, i);
    }
  }
  return abi;
}

const abi_field *abi_field_of(const abi_recurrence *abi, abi_field_kind kind, int index) {
  vec_each(const abi_field, field, abi->fields)
    if (field->kind == kind && field->index == index) return field;
  ICE("artifact", "no field of kind %d for %d in the arguments of %s", kind, index, abi->symbol);
}

int abi_find(const abi_recurrence *abi, abi_role role, int tensor, int lag) {
  for (int i = 0; i < abi->memories.count; i++) {
    const abi_memory *memory = &abi->memories.items[i];
    if (memory->role == role && memory->tensor == tensor && memory->lag == lag) return i;
  }
  return -1;
}

int abi_axes(const abi_recurrence *abi, const abi_memory *memory, int axes[TYPED_MAX_AXES]) {
  const typed_body *body = abi->body;
  int tensor = memory->lag >= 0 ? body->lags.items[memory->lag].input : memory->tensor;
  int count = 0;
  if (tensor >= 0) {
    for (; count < body->tensors.items[tensor].axis_count; count++)
      axes[count] = body->tensors.items[tensor].axes[count];
  } else {
    for (int axis = 0; axis < body->axes.count; axis++)
      if (axis_in(body->lags.items[memory->lag].axes, axis)) axes[count++] = axis;
  }
  return count;
}

static bool is_complex_memory(const abi_recurrence *abi, const abi_memory *memory) {
  const typed_body *body = abi->body;
  return memory->lag >= 0 ? body->lags.items[memory->lag].complex
                          : body->tensors.items[memory->tensor].complex;
}

bool abi_per_batch(const abi_recurrence *abi, const abi_memory *memory) {
  return memory->lag >= 0 || abi->body->tensors.items[memory->tensor].kind != TENSOR_PARAM;
}

int abi_factor(const abi_recurrence *abi, const abi_memory *memory) {
  int depth = memory->lag >= 0 ? abi->body->lags.items[memory->lag].depth : 1;
  return is_complex_memory(abi, memory) ? 2 * depth : depth;
}

number_type abi_number_type(const abi_memory *memory, number_type dtype) {
  return number_is_narrow(dtype) && (!memory->token || memory->wide) ? NUMBER_F32 : dtype;
}

const char *abi_shape(arena *a, const abi_recurrence *abi, const abi_memory *memory,
                      const char *comma, bool time) {
  int axes[TYPED_MAX_AXES];
  int count = abi_axes(abi, memory, axes);
  const char *text = abi_per_batch(abi, memory) ? "batch" : "";
  if (memory->token && time) text = arena_printf(a, "%s%stime", text, comma);
  if (memory->lag >= 0)
    text = arena_printf(a, "%s%s%d", text, comma, abi->body->lags.items[memory->lag].depth);
  for (int i = 0; i < count; i++)
    text = arena_printf(a, "%s%s%s", text, *text ? comma : "", abi->body->axes.items[axes[i]].name);
  if (is_complex_memory(abi, memory)) text = arena_printf(a, "%s%s2", text, *text ? comma : "");
  return arena_printf(a, "[%s]", text);
}
