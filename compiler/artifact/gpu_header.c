// Prints the C header for those who launch the PTX of --emit=ptx by themselves, through the Driver
// API.
//
//   recurrence gla(H, K = 64, V = 128)  ->  gla_forward_parameter { rec_gpu_frame frame; int64_t H, K, V; rec_gpu_slot q, .. },
//     GLA_FORWARD_SYMBOL, _THREADS, _SHARED_BYTES, gla_forward_items(&parameter), gla_forward_scratch_bytes(&parameter), ..
#include <ctype.h>
#include <string.h>

#include "compiler/artifact/tables.h"
#include "compiler/base/embedded.h"
#include "compiler/base/ice.h"
#include "compiler/base/text.h"
#include "compiler/plan/kernel_plan.h"

typedef struct printer {
  arena *arena;
  FILE *out;
  const abi_recurrence *abi;
  const codegen_gpu_kernel *k;
  const char *prefix;  // gla_forward
} printer;

static const char *upper(arena *a, const char *name) {
  char *text = arena_strdup(a, name);
  for (char *c = text; *c; c++) *c = (char)toupper((unsigned char)*c);
  return text;
}

static const char *header_kind_text(kernel_kind kind) {
  switch (kind) {
    case KERNEL_FORWARD: return "forward";
    case KERNEL_STEP: return "step";
    case KERNEL_STATES: return "states";
    case KERNEL_BACKWARD: return "backward";
    case KERNEL_SUMMARY: return "part";
    case KERNEL_SUMMARY_BACK: return "part_backward";
    case KERNEL_SLICE: break;
  }
  ICE("artifact", "kernel of kind %d", kind);
}

static const char *header_axis_name(const printer *p, int axis) {
  return abi_field_of(p->abi, ABI_AXIS, axis)->name;
}

static const abi_memory *slot_memory(const printer *p, const codegen_slot *slot) {
  int memory = abi_find(p->abi, artifact_slot_role(slot->role), slot->tensor, slot->lag);
  if (memory < 0) ICE("artifact", "a slot of %s is no tensor of the recurrence", p->prefix);
  return &p->abi->memories.items[memory];
}

static const char *slot_name(const printer *p, const codegen_slot *slot) {
  return p->abi->fields.items[slot_memory(p, slot)->data].name;
}

// " * parameter->H" for each of these axes
static void put_size_factors(printer *p, axis_set axes) {
  for (int axis = 0; axis < p->abi->body->axes.count; axis++)
    if (axis_in(axes, axis)) fprintf(p->out, " * parameter->%s", header_axis_name(p, axis));
}

static void put_count(printer *p, const char *what, const codegen_bytes *count) {
  fprintf(p->out,
          "static inline int64_t %s_%s(const %s_parameter *parameter) {\n  (void)parameter;\n",
          p->prefix, what, p->prefix);
  fprintf(p->out, "  return %lld", (long long)count->constant);
  for (int i = 0; i < count->terms.count; i++) {
    fprintf(p->out, " + %lld", (long long)count->terms.items[i].coefficient);
    put_size_factors(p, count->terms.items[i].axes);
  }
  fprintf(p->out, ";\n}\n");
}

static void put_lane_blocks(printer *p) {
  const kernel *k = p->k->base.kernel;
  if (k->lane_axis < 0) return;
  fprintf(p->out, " * ((parameter->%s + %d) / %d)", header_axis_name(p, k->lane_axis),
          k->lane_block - 1, k->lane_block);
}

static void put_items(printer *p) {
  const kernel *k = p->k->base.kernel;
  if (p->k->sequences)
    fprintf(p->out,
            "/* With frame.batched_items = 0: items may also be batches of %d entries. */\n",
            p->k->sequences);
  fprintf(p->out,
          "/* frame.blocks; a grid has as many blocks, or fewer. */\n"
          "static inline int64_t %s_items(const %s_parameter *parameter) {\n"
          "  return parameter->frame.entries * parameter->frame.slices",
          p->prefix, p->prefix);
  put_size_factors(p, kernel_instances(k));
  put_lane_blocks(p);
  fprintf(p->out, ";\n}\n");
}

// As gpu_frame.h numbers them.
static void put_copies(printer *p, const codegen_slot *slot) {
  const kernel *k = p->k->base.kernel;
  const abi_memory *memory = slot_memory(p, slot);
  fprintf(p->out, "/* Copies of %s for rec_gpu_sum to add up. */\n", slot_name(p, slot));
  fprintf(
      p->out,
      "static inline int64_t %s_copies_%s(const %s_parameter *parameter) {\n  (void)parameter;\n  "
      "return 1",
      p->prefix, slot_name(p, slot), p->prefix);
  if (!abi_per_batch(p->abi, memory)) fprintf(p->out, " * parameter->frame.entries");
  if (!memory->token) fprintf(p->out, " * parameter->frame.slices");
  put_size_factors(p, slot->summed & kernel_instances(k));
  if (k->lane_axis >= 0 && axis_in(slot->summed, k->lane_axis)) put_lane_blocks(p);
  fprintf(p->out, ";\n}\n");
}

static const char *slot_type_text(const printer *p, const codegen_slot *slot, number_type dtype) {
  if (slot->accumulated) return "f32, in copies";
  return number_type_text(abi_number_type(slot_memory(p, slot), dtype));
}

static void put_parameter(printer *p, number_type dtype) {
  const typed_body *body = p->abi->body;
  fprintf(p->out, "typedef struct %s_parameter {\n  rec_gpu_frame frame;\n", p->prefix);
  for (int axis = 0; axis < body->axes.count; axis++) {
    fprintf(p->out, "  int64_t %s;", header_axis_name(p, axis));
    if (body->axes.items[axis].size != TYPED_RUNTIME_SIZE)
      fprintf(p->out, "  /* %lld */", (long long)body->axes.items[axis].size);
    fprintf(p->out, "\n");
  }
  vec_each(const codegen_slot, slot, p->k->base.slots)
    fprintf(p->out, "  rec_gpu_slot %s;  /* %s, %s%s */\n", slot_name(p, slot),
            abi_shape(p->arena, p->abi, slot_memory(p, slot), ",", true),
            slot_type_text(p, slot, dtype), slot->written ? ": written" : "");
  fprintf(p->out, "} %s_parameter;\n", p->prefix);
}

static void put_kernel_header(printer *p, number_type dtype) {
  const codegen_gpu_kernel *k = p->k;
  const char *name = upper(p->arena, p->prefix);
  fprintf(p->out, "\n/* ---- %s ---- */\n", p->prefix);
  if (!k->symbol) {
    fprintf(p->out, "\n/* Not made: %s. */\n", k->why_not);
    return;
  }
  fprintf(p->out, "\n#define %s_SYMBOL \"%s\"\n", name, k->symbol);
  fprintf(p->out, "enum { %s_THREADS = %d, %s_SHARED_BYTES = %d", name, k->threads, name,
          k->shared_bytes);
  if (k->base.reads_saved || k->base.writes_saved)
    fprintf(p->out, ", %s_CHUNK = %d", name, k->base.chunk);
  fprintf(p->out, " };\n");
  put_parameter(p, dtype);
  fprintf(p->out, "_Static_assert(sizeof(%s_parameter) == %d, \"as the kernel reads it\");\n",
          p->prefix, k->parameter_bytes);
  put_items(p);
  fprintf(p->out,
          "/* frame.scratch: so many bytes for each block of the grid, frame.scratch_stride apart. "
          "*/\n");
  put_count(p, "scratch_bytes", &k->base.scratch);
  if (k->summary.terms.count) {
    fprintf(p->out, "/* The stride of its frame.summaries, if frame.slices > 1. */\n");
    put_count(p, "summary_elements", &k->summary);
  }
  for (int i = 0; i < k->base.slots.count; i++)
    if (k->base.slots.items[i].accumulated) put_copies(p, &k->base.slots.items[i]);
}

static void put_frame(printer *p) {
  const embedded_file *frame = embedded_find(embedded_support, "gpu_frame");
  if (!frame) ICE("artifact", "gpu_frame.h is not embedded");
  fprintf(p->out, "%s", (const char *)frame->data);
}

static const char introduction[] =
    "/* The parameters of GPU kernels compiled by recc %s from %s.\n"
    " *\n"
    " * The PTX is what recc prints with --emit=ptx and the same options. A launch: fill "
    "NAME_parameter (its pointers are the\n"
    " * device's; a slot without data is absent), set frame.blocks to NAME_items, give "
    "frame.scratch NAME_scratch_bytes for each\n"
    " * block, and hand the struct to cuLaunchKernel as the only parameter. Sizes of axes that the "
    "code fixes must be those.";

static const char about_large[] =
    "\n * NAME_large takes the place of NAME in the PTX of targets whose devices have %d KiB of "
    "shared memory for a block.";

static const char about_groups[] =
    "\n * NAME_groups takes its place in the PTX for sm_90a: with products by warpgroups.";

// Kernels of one form for all devices come with those of CLASS_SMALL.
static void put_kernels(printer *p, const recurrence_kernels *kernels, device_class devices,
                        const artifact *library) {
  codegen_gpu_options options = {.dtype = library->dtype, .tf32 = library->tf32};
  for (int n = 0; kernels && n < kernels->kernels.count; n++) {
    const kernel *k = &kernels->kernels.items[n];
    if (devices != CLASS_SMALL &&
        (!(k->gpu.device_class & devices) || k->gpu.device_class & (devices - 1)))
      continue;
    codegen_gpu_kernel described = codegen_gpu_describe(p->arena, k, options);
    p->k = &described;
    p->prefix = arena_printf(p->arena, "%s_%s%s", p->abi->symbol, header_kind_text(k->kind),
                             devices == CLASS_LARGE        ? "_large"
                             : devices == CLASS_WARPGROUPS ? "_groups"
                                                           : "");
    if (k->gpu.few) p->prefix = arena_printf(p->arena, "%s_few", p->prefix);
    put_kernel_header(p, library->dtype);
  }
}

char *artifact_gpu_header(arena *a, const artifact *library) {
  text_stream text;
  printer p = {.arena = a, .out = text_begin(&text)};
  const char *path = library->sources.items[0]->path;
  const char *guard =
      upper(a, library->recurrences.count ? library->recurrences.items[0].abi->symbol : "NONE");
  bool large = false, groups = false;
  for (int i = 0; i < library->recurrences.count; i++) {
    large = large || library->recurrences.items[i].gpu.large;
    groups = groups || library->recurrences.items[i].gpu.warpgroups;
  }
  fprintf(p.out, introduction, REC_VERSION, file_name(path));
  if (large) fprintf(p.out, about_large, GPU_LARGE_KIB);
  if (groups) fprintf(p.out, about_groups);
  fprintf(p.out, " */\n");
  fprintf(p.out, "#ifndef REC_GPU_%s_H\n#define REC_GPU_%s_H\n\n", guard, guard);
  put_frame(&p);
  vec_each(const artifact_recurrence, r, library->recurrences) {
    p.abi = r->inner ? r->inner : r->abi;
    put_kernels(&p, r->gpu.small, CLASS_SMALL, library);
    put_kernels(&p, r->gpu.large, CLASS_LARGE, library);
    put_kernels(&p, r->gpu.warpgroups, CLASS_WARPGROUPS, library);
  }
  fprintf(p.out, "\n#endif\n");
  return text_end(&text, a);
}
