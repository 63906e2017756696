// Prints the C header of a library: what compiler/abi/launch.h says, then per recurrence its
// arguments and entry points.
//
//   mamba2.rec  ->  mamba2.h with mamba2_arguments, mamba2_forward, mamba2_backward, mamba2_step,
//     mamba2_sizes
#include <ctype.h>
#include <string.h>

#include "compiler/artifact/abi.h"
#include "compiler/base/embedded.h"
#include "compiler/base/ice.h"
#include "compiler/base/text.h"
#include "compiler/syntax/syntax.h"

typedef struct printer {
  arena *arena;
  FILE *out;
} printer;

// Text of the source inside a comment: it must not end the comment.
static void put_c_comment(const printer *b, const char *text, const char *indent) {
  for (const char *p = text; *p; p++)
    if (*p == '\n')
      fprintf(b->out, "\n%s", indent);
    else if (p[0] == '*' && p[1] == '/')
      fprintf(b->out, "* ");
    else if (p[0] == '/' && p[1] == '*')
      fprintf(b->out, "/ ");
    else
      fprintf(b->out, "%c", *p);
}

// launch.h without its own first comment and include guard stays as it is: the guard keeps two
// headers from clashing.
static void put_launch(const printer *b) {
  const embedded_file *launch = embedded_find(embedded_support, "launch");
  if (!launch) ICE("artifact", "launch.h is not embedded");
  fprintf(b->out, "%s\n", (const char *)launch->data);
}

static int64_t variant_axis_size(const artifact *library, const artifact_entry *entry, int variant,
                                 int axis) {
  return library->recurrences.items[entry->variants.items[variant]]
      .abi->body->axes.items[axis]
      .size;
}

// 64, or 0; 64 or 128 for variants that share the struct.
static const char *variant_sizes_text(const printer *b, const artifact *library,
                                      const artifact_entry *entry, int axis, int64_t size) {
  const char *text = arena_printf(b->arena, "%lld", (long long)size);
  bool several = false;
  for (int i = 1; entry && i < entry->variants.count; i++) {
    int64_t other = variant_axis_size(library, entry, i, axis);
    bool told = false;
    for (int k = 0; k < i; k++) told |= variant_axis_size(library, entry, k, axis) == other;
    if (!told) text = arena_printf(b->arena, "%s or %lld", text, (long long)other);
    several |= !told;
  }
  return several ? text : arena_printf(b->arena, "%s, or 0", text);
}

static void put_axis_fields(const printer *b, const artifact *library, const abi_recurrence *abi,
                            const artifact_entry *entry) {
  const typed_body *body = abi->body;
  vec_each(const abi_field, field, abi->fields) {
    if (field->kind != ABI_AXIS) continue;
    const typed_axis *axis = &body->axes.items[field->index];
    fprintf(b->out, "  int64_t %s;", field->name);
    if (axis->size != TYPED_RUNTIME_SIZE)
      fprintf(b->out, "  /* %s */",
              variant_sizes_text(b, library, entry, field->index, axis->size));
    else if (axis->size_expr)
      fprintf(b->out, "  /* %s, or 0 */", expr_to_text(b->arena, axis->size_expr));
    fprintf(b->out, "\n");
  }
}

static const char *memory_words(arena *a, const abi_recurrence *abi, const abi_memory *memory) {
  if (memory->lag >= 0) {
    switch (memory->role) {
      case ABI_H0: return "lag buffer before the first step, oldest entry first; NULL: zero";
      case ABI_HT: return "lag buffer after the last step; NULL: not wanted";
      case ABI_D_H0: return "its gradient before the first step; NULL: not wanted";
      default: return "its gradient after the last step; NULL: zero";
    }
  }
  const typed_tensor *tensor = &abi->body->tensors.items[memory->tensor];
  tensor_kind kind = tensor->kind;
  switch (memory->role) {
    case ABI_VALUE:
      return kind == TENSOR_INPUT   ? "input"
             : kind == TENSOR_PARAM ? "parameter"
                                    : "output: written; NULL: not wanted";
    case ABI_H0:
      return arena_printf(a, "state before the first step; NULL: %s",
                          tensor->begin ? begin_text(a, abi->body, tensor) : "zero");
    case ABI_HT: return "state after the last step: written; NULL: not wanted";
    case ABI_D_VALUE:
      return kind == TENSOR_OUTPUT ? "gradient of the loss by the output, read; NULL: zero"
                                   : "gradient: written; NULL: not wanted";
    case ABI_D_H0: return "gradient by the state before the first step: written; NULL: not wanted";
    case ABI_D_HT: return "gradient by the state after the last step, read; NULL: zero";
  }
  return "";
}

static bool is_read_only(const abi_recurrence *abi, const abi_memory *memory) {
  bool output =
      memory->tensor >= 0 && abi->body->tensors.items[memory->tensor].kind == TENSOR_OUTPUT;
  if (memory->role == ABI_VALUE) return !output;
  if (memory->role == ABI_D_VALUE) return output;
  return memory->role == ABI_H0 || memory->role == ABI_D_HT;
}

static const char *c_type(number_type type) {
  static const char *const types[NUMBER_TYPE_COUNT] = {
      [NUMBER_F32] = "float", [NUMBER_F64] = "double", "uint16_t", "uint16_t"};
  return types[type];
}

static void put_struct_memories(const printer *b, const abi_recurrence *abi, const char *symbol,
                                number_type dtype) {
  bool gradients = false;
  vec_each(const abi_memory, memory, abi->memories) {
    bool gradient = memory->role >= ABI_D_VALUE;
    if (gradient != gradients)
      fprintf(b->out, "\n  /* Only read and written by %s_backward. */\n", symbol);
    gradients = gradient;
    const char *doc =
        memory->tensor >= 0 && !gradient ? abi->body->tensors.items[memory->tensor].doc : NULL;
    number_type type = abi_number_type(memory, dtype);
    fprintf(b->out, "  %s%s *%s;  /* %s%s%s %s", is_read_only(abi, memory) ? "const " : "",
            c_type(type), abi->fields.items[memory->data].name,
            number_is_narrow(type) ? number_type_text(type) : "", number_is_narrow(type) ? " " : "",
            abi_shape(b->arena, abi, memory, ",", true), memory_words(b->arena, abi, memory));
    if (doc) {
      fprintf(b->out, ". ");
      put_c_comment(b, doc, "     ");
    }
    fprintf(b->out, " */\n");
    if (memory->token)
      fprintf(b->out, "  int64_t %s, %s;\n", abi->fields.items[memory->batch_stride].name,
              abi->fields.items[memory->time_stride].name);
  }
}

static void put_struct(const printer *b, const artifact *library, const artifact_recurrence *r,
                       const artifact_entry *entry) {
  const abi_recurrence *abi = r->abi;
  const char *symbol = entry ? entry->symbol : abi->symbol;
  fprintf(b->out, "typedef struct %s_arguments {\n", symbol);
  fprintf(b->out, "  uint64_t size;      /* sizeof(%s_arguments) */\n", symbol);
  fprintf(b->out, "  int64_t batch;      /* sequences side by side */\n");
  fprintf(b->out, "  int64_t time;       /* steps */\n");
  fprintf(b->out, "  int64_t sequences;  /* packed sequences, with cu_seqlens; else 0 */\n");
  put_axis_fields(b, library, abi, entry);
  fprintf(b->out,
          "  const int32_t *cu_seqlens;  /* NULL, or sequences + 1 offsets into time (batch == 1) "
          "*/\n\n");
  put_struct_memories(b, abi, symbol, r->variant->dtype);
  fprintf(b->out, "} %s_arguments;\n\n", symbol);
}

static void put_entry_points(const printer *b, const char *symbol) {
  static const struct {
    const char *name, *parameters;
  } functions[] = {
      {"forward", "const rec_launch *launch"},
      {"backward", "const rec_launch *launch"},
      {"step", "const rec_launch *launch"},
      {"sizes", "rec_sizes *sizes"},
      {"summary", "const rec_launch *launch, void *summary"},
      {"summary_backward", "const rec_launch *launch, void *summary"},
      {"fold", "const rec_launch *launch, const rec_segments *segments"},
      {"combine", "const rec_launch *launch, const rec_segments *segments, void *summary"}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    fprintf(b->out, "int %s_%s(const %s_arguments *arguments, %s);\n", symbol, functions[i].name,
            symbol, functions[i].parameters);
}

// The same arguments under another name.
static void put_same(const printer *b, const char *symbol, const char *as) {
  fprintf(b->out, "typedef %s_arguments %s_arguments;\n\n", as, symbol);
}

static void put_title(const printer *b, const artifact_recurrence *r, const char *name) {
  fprintf(b->out, "\n/* ---- %s ----\n", name);
  if (!r->abi->body->doc) return;
  fprintf(b->out, " * ");
  put_c_comment(b, r->abi->body->doc, " * ");
  fprintf(b->out, "\n");
}

// What picks one of several sizes, and the struct that these share.
static void put_choice(const printer *b, const artifact *library, const artifact_entry *entry) {
  const artifact_recurrence *first = &library->recurrences.items[entry->variants.items[0]];
  put_title(b, first, entry->symbol);
  fprintf(b->out, " * For several sizes, by those of the arguments. */\n");
  put_struct(b, library, first, entry);
  put_entry_points(b, entry->symbol);
}

static const artifact_entry *entry_of_variant(const artifact *library, int index) {
  for (int e = 0; e < library->entries.count; e++)
    for (int i = 0; i < library->entries.items[e].variants.count; i++)
      if (library->entries.items[e].variants.items[i] == index) return &library->entries.items[e];
  return NULL;
}

static void put_recurrence(const printer *b, const artifact *library, int index) {
  const artifact_recurrence *r = &library->recurrences.items[index];
  const artifact_entry *entry = entry_of_variant(library, index);
  if (entry && entry->variants.items[0] == index) put_choice(b, library, entry);
  put_title(b, r, strcmp(r->abi->symbol, r->plain) == 0 ? r->abi->body->name : r->abi->symbol);
  for (int i = 0; i < r->fixed.count; i++)
    fprintf(b->out, "%s%s = %lld", i ? ", " : " * With ", r->fixed.items[i].axis,
            (long long)r->fixed.items[i].size);
  if (r->fixed.count) fprintf(b->out, ".\n");
  fprintf(b->out, " * Form: %s. Backward starts from states saved every %d steps. */\n",
          r->kernels->form, r->kernels->chunk);
  if (entry)
    put_same(b, r->abi->symbol, entry->symbol);
  else
    put_struct(b, library, r, NULL);
  put_entry_points(b, r->abi->symbol);
}

static void put_other_names(const printer *b, const artifact *library) {
  vec_each(const artifact_entry, entry, library->entries) {
    if (!entry->same_as) continue;
    fprintf(b->out, "\n/* ---- %s is %s ---- */\n", entry->symbol, entry->same_as);
    put_same(b, entry->symbol, entry->same_as);
    put_entry_points(b, entry->symbol);
  }
}

// Of all types, what numbers are in memory.
static const char *words_of_numbers(const printer *b, const artifact *library) {
  static const char *const words[NUMBER_TYPE_COUNT] = {
      [NUMBER_F32] = "float32 (float)",
      [NUMBER_F64] = "float64 (double)",
      [NUMBER_BF16] =
          "bfloat16 where the type is uint16_t (the upper half of a float's bits), else "
          "float32 (float)",
      [NUMBER_F16] =
          "float16 where the type is uint16_t (IEEE half precision), else float32 (float)"};
  const char *text = words[library->dtypes.items[0]];
  for (int i = 1; i < library->dtypes.count; i++)
    text =
        arena_printf(b->arena, "%s;\n * with _%s: %s", text,
                     number_type_text(library->dtypes.items[i]), words[library->dtypes.items[i]]);
  return text;
}

static const char introduction[] =
    "/* Generated by recc %s from %s. Do not edit.\n"
    " *\n"
    " * Each recurrence NAME has eight entry points, each returning REC_OK or another rec_status; "
    "%srec_error() is then this\n"
    " * thread's message, one line of what was expected and what was found.\n"
    " *   NAME_sizes     tells the bytes of workspace and of `saved`; it reads the sizes of the "
    "arguments, no pointers\n"
    " *   NAME_forward   reads inputs, parameters and h0; writes outputs and hT\n"
    " *   NAME_backward  reads inputs, parameters, h0 and the gradients by outputs and hT; writes "
    "every other gradient\n"
    " *   NAME_step      is NAME_forward for one step (time = 1; packed: at most one of each "
    "sequence)\n"
    " *   NAME_summary, NAME_summary_backward, NAME_fold, NAME_combine   are for segments of time "
    "on several machines "
    "(rec_segments)\n"
    " * The caller allocates everything; a call allocates nothing. Fill the structs with zeros and "
    "set what is needed.\n"
    " *\n"
    " * Tensors are dense, row-major, with axes in the order shown. Strides count numbers (a "
    "complex entry is two numbers,\n"
    " * re and im) from one batch entry or step to the next; 0 means dense. hT may be h0 itself; "
    "no other result may\n"
    " * overlap what is read. An axis whose size is fixed or computed from others may be left 0. "
    "Gradients are written,\n"
    " * not added to.\n"
    " *\n"
    " * Packed sequences: batch = 1, time = steps of all together, sequence i is the steps "
    "cu_seqlens[i] to\n"
    " * cu_seqlens[i + 1] - 1 (perhaps none). States and lag buffers then have `sequences` entries "
    "in place of `batch`; no lag\n"
    " * crosses a boundary; a sequence of no steps hands its state through. NAME_sizes tells what "
    "is "
    "enough for any lengths;\n"
    " * it does not read cu_seqlens.\n"
    " *\n"
    " * Numbers are %s, sizes counts of entries; a step has no unit but the model's "
    "own. */\n";

char *artifact_header(arena *a, const artifact *library) {
  text_stream text;
  printer b = {.arena = a, .out = text_begin(&text)};
  // Of two libraries of the same name both headers count.
  char *guard = arena_printf(a, "%s_%s", library->name, artifact_hash(a, library));
  for (char *p = guard; *p; p++)
    *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
  fprintf(b.out, introduction, REC_VERSION, file_name(library->sources.items[0]->path),
          library->prefix, words_of_numbers(&b, library));
  fprintf(b.out, "#ifndef REC_GENERATED_%s\n#define REC_GENERATED_%s\n\n", guard, guard);
  put_launch(&b);
  fprintf(b.out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  fprintf(b.out,
          "/* This thread's last message, \"\" before any. */\nconst char *%srec_error(void);\n\n",
          library->prefix);
  fprintf(
      b.out,
      "/* What this library is: JSON with its recurrences, their tensors, its source and options. "
      "*/\n");
  fprintf(b.out, "extern const char %srec_manifest[];\n", library->prefix);
  for (int i = 0; i < library->recurrences.count; i++) put_recurrence(&b, library, i);
  put_other_names(&b, library);
  fprintf(b.out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  return text_end(&text, a);
}
