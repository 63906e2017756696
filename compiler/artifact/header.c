// Prints the C header of a library: what runtime/shared/launch.h says, then per recurrence its
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
static void put_comment(const printer *b, const char *text, const char *indent) {
  for (const char *p = text; *p; p++) {
    if (*p == '\n')
      fprintf(b->out, "\n%s", indent);
    else if (p[0] == '*' && p[1] == '/')
      fprintf(b->out, "* ");
    else if (p[0] == '/' && p[1] == '*')
      fprintf(b->out, "/ ");
    else
      fprintf(b->out, "%c", *p);
  }
}

// launch.h without its own first comment and include guard stays as it is: the guard keeps two
// headers from clashing.
static void put_launch(const printer *b) {
  const embedded_file *launch = embedded_find(embedded_support, "launch");
  if (!launch) ICE("artifact", "launch.h is not embedded");
  fprintf(b->out, "%s\n", (const char *)launch->data);
}

static void put_axes(const printer *b, const abi_recurrence *abi) {
  const typed_body *body = abi->body;
  for (int i = 0; i < abi->fields.count; i++) {
    const abi_field *field = &abi->fields.items[i];
    if (field->kind != ABI_AXIS) continue;
    const typed_axis *axis = &body->axes.items[field->index];
    fprintf(b->out, "  int64_t %s;", field->name);
    if (axis->size != TYPED_RUNTIME_SIZE)
      fprintf(b->out, "  /* %lld, or 0 */", (long long)axis->size);
    else if (axis->size_expr)
      fprintf(b->out, "  /* %s, or 0 */", expr_to_text(b->arena, axis->size_expr));
    fprintf(b->out, "\n");
  }
}

static const char *memory_words(const abi_recurrence *abi, const abi_memory *memory) {
  if (memory->lag >= 0) {
    switch (memory->role) {
      case ABI_H0: return "lag buffer before the first step, oldest entry first; NULL: zero";
      case ABI_HT: return "lag buffer after the last step; NULL: not wanted";
      case ABI_D_H0: return "its gradient before the first step; NULL: not wanted";
      default: return "its gradient after the last step; NULL: zero";
    }
  }
  tensor_kind kind = abi->body->tensors.items[memory->tensor].kind;
  switch (memory->role) {
    case ABI_VALUE: return kind == TENSOR_INPUT ? "input" : kind == TENSOR_PARAM ? "parameter" : "output: written";
    case ABI_H0: return "state before the first step; NULL: zero";
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
  bool output = memory->tensor >= 0 && abi->body->tensors.items[memory->tensor].kind == TENSOR_OUTPUT;
  if (memory->role == ABI_VALUE) return !output;
  if (memory->role == ABI_D_VALUE) return output;
  return memory->role == ABI_H0 || memory->role == ABI_D_HT;
}

static const char *c_type(number_type type) {
  static const char *const types[NUMBER_TYPE_COUNT] = {[NUMBER_F32] = "float", [NUMBER_F64] = "double", "uint16_t", "uint16_t"};
  return types[type];
}

static void put_memories(const printer *b, const abi_recurrence *abi, number_type dtype) {
  bool gradients = false;
  for (int i = 0; i < abi->memories.count; i++) {
    const abi_memory *memory = &abi->memories.items[i];
    bool gradient = memory->role >= ABI_D_VALUE;
    if (gradient != gradients) fprintf(b->out, "\n  /* Only read and written by %s_backward. */\n", abi->symbol);
    gradients = gradient;
    const char *doc = memory->tensor >= 0 && !gradient ? abi->body->tensors.items[memory->tensor].doc : NULL;
    number_type type = abi_number_type(memory, dtype);
    fprintf(b->out, "  %s%s *%s;  /* %s%s%s %s", is_read_only(abi, memory) ? "const " : "", c_type(type),
            abi->fields.items[memory->data].name, number_is_narrow(type) ? number_type_text(type) : "",
            number_is_narrow(type) ? " " : "", abi_shape(b->arena, abi, memory), memory_words(abi, memory));
    if (doc) {
      fprintf(b->out, ". ");
      put_comment(b, doc, "     ");
    }
    fprintf(b->out, " */\n");
    if (memory->token)
      fprintf(b->out, "  int64_t %s, %s;\n", abi->fields.items[memory->batch_stride].name,
              abi->fields.items[memory->time_stride].name);
  }
}

static void put_recurrence(const printer *b, const artifact_recurrence *r, number_type dtype) {
  const abi_recurrence *abi = r->abi;
  const char *symbol = abi->symbol;
  fprintf(b->out, "\n/* ---- %s ----\n", abi->body->name);
  if (abi->body->doc) {
    fprintf(b->out, " * ");
    put_comment(b, abi->body->doc, " * ");
    fprintf(b->out, "\n");
  }
  fprintf(b->out, " * Form: %s. Backward starts from states saved every %d steps. */\n", r->kernels->form, r->kernels->chunk);
  fprintf(b->out, "typedef struct %s_arguments {\n", symbol);
  fprintf(b->out, "  uint64_t size;      /* sizeof(%s_arguments) */\n", symbol);
  fprintf(b->out, "  int64_t batch;      /* sequences side by side */\n");
  fprintf(b->out, "  int64_t time;       /* steps */\n");
  fprintf(b->out, "  int64_t sequences;  /* packed sequences, with cu_seqlens; else 0 */\n");
  put_axes(b, abi);
  fprintf(b->out,
          "  const int32_t *cu_seqlens;  /* NULL, or sequences + 1 offsets into time (batch == 1) "
          "*/\n\n");
  put_memories(b, abi, dtype);
  fprintf(b->out, "} %s_arguments;\n\n", symbol);
  fprintf(b->out, "int %s_forward(const %s_arguments *arguments, const rec_launch *launch);\n", symbol, symbol);
  fprintf(b->out, "int %s_backward(const %s_arguments *arguments, const rec_launch *launch);\n", symbol, symbol);
  fprintf(b->out, "int %s_step(const %s_arguments *arguments, const rec_launch *launch);\n", symbol, symbol);
  fprintf(b->out, "int %s_sizes(const %s_arguments *arguments, rec_sizes *sizes);\n", symbol, symbol);
}

static const char introduction[] =
    "/* Generated by recc %s from %s. Do not edit.\n"
    " *\n"
    " * Each recurrence NAME has four entry points, each returning REC_OK or another rec_status; "
    "%srec_error() is then this\n"
    " * thread's message, one line of what was expected and what was found.\n"
    " *   NAME_sizes     tells the bytes of workspace and of `saved`; it reads the sizes of the "
    "arguments, no pointers\n"
    " *   NAME_forward   reads inputs, parameters and h0; writes outputs and hT\n"
    " *   NAME_backward  reads inputs, parameters, h0 and the gradients by outputs and hT; writes "
    "every other gradient\n"
    " *   NAME_step      is NAME_forward for one step (time = 1; packed: at most one of each "
    "sequence)\n"
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
    " * crosses a boundary; a sequence of no steps hands its state through. NAME_sizes tells what is "
    "enough for any lengths;\n"
    " * it does not read cu_seqlens.\n"
    " *\n"
    " * Numbers are %s, sizes counts of entries; a step has no unit but the model's "
    "own. */\n";

static const char *const words_of[NUMBER_TYPE_COUNT] = {
    [NUMBER_F32] = "float32 (float)",
    [NUMBER_F64] = "float64 (double)",
    [NUMBER_BF16] =
        "bfloat16 where the type is uint16_t (the upper half of a float's bits), else "
        "float32 (float)",
    [NUMBER_F16] = "float16 where the type is uint16_t (IEEE half precision), else float32 (float)"};

char *artifact_header(arena *a, const artifact *library) {
  text_stream text;
  printer b = {.arena = a, .out = text_begin(&text)};
  // Of two libraries of the same name both headers count.
  char *guard = arena_printf(a, "%s_%s", library->name, artifact_hash(a, library));
  for (char *p = guard; *p; p++) *p = isalnum((unsigned char)*p) ? (char)toupper((unsigned char)*p) : '_';
  const char *slash = strrchr(library->sources.items[0]->path, '/');
  fprintf(b.out, introduction, REC_VERSION, slash ? slash + 1 : library->sources.items[0]->path, library->prefix,
          words_of[library->dtype]);
  fprintf(b.out, "#ifndef REC_GENERATED_%s\n#define REC_GENERATED_%s\n\n", guard, guard);
  put_launch(&b);
  fprintf(b.out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  fprintf(b.out, "/* This thread's last message, \"\" before any. */\nconst char *%srec_error(void);\n\n", library->prefix);
  fprintf(b.out,
          "/* What this library is: JSON with its recurrences, their tensors, its source and options. "
          "*/\n");
  fprintf(b.out, "extern const char %srec_manifest[];\n", library->prefix);
  for (int i = 0; i < library->recurrences.count; i++) put_recurrence(&b, &library->recurrences.items[i], library->dtype);
  fprintf(b.out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  return text_end(&text, a);
}
