// Prints what each GPU kernel takes, for --emit=resources and kernels_generated/resources.txt. The
// hash is that of the module before the passes of LLVM.
//
//   gla(H, K = 64, V = 128), bf16, module 0f63d9a2c51b7e84
//     forward     46.88 k * H operations a step, 1152 * H bytes; 1 launch
//     backward    92 k * H operations a step, 1792 * H bytes; 2 launches
//     kernel                               for             threads   shared  outside  products  barriers  instructions
//     rec_kernel_gla_forward_gpu           sm_80               256    52864        0         4        21          6083
//     rec_kernel_gla_forward_groups_gpu    sm_90a              256   185344        0         4        33          8414
#include <string.h>

#include "compiler/artifact/tables.h"
#include "compiler/base/ice.h"
#include "compiler/base/text.h"
#include "compiler/schedule/report.h"

// Names of the targets whose devices run the form of a kernel.
static const char *devices_text(arena *a, const artifact *library, device_class devices) {
  const char *text = "";
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++) {
    if (!(library->gpu_targets >> target & 1) || !codegen_gpu_is_of_class(target, devices))
      continue;
    text = arena_printf(a, "%s%s%s", text, *text ? "," : "", codegen_gpu_target_name(target));
  }
  return text;
}

static const codegen_function_size *function_size_of(const codegen_gpu_object *object,
                                                     const char *symbol) {
  for (int i = 0; i < object->functions.count; i++)
    if (strcmp(object->functions.items[i].symbol, symbol) == 0) return &object->functions.items[i];
  ICE("resources", "%s was not lowered", symbol);
}

static const char *body_sizes_text(arena *a, const typed_body *body) {
  const char *text = "";
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    text = arena_printf(a, "%s%s%s", text, i ? ", " : "", axis->name);
    if (axis->size != TYPED_RUNTIME_SIZE)
      text = arena_printf(a, "%s = %lld", text, (long long)axis->size);
  }
  return text;
}

// Two kernels may be one function, such as those that summarise time slices forward and backward.
static bool is_printed(const codegen_gpu_object *object, int index) {
  for (int i = 0; i < index; i++) {
    const char *earlier = object->kernels.items[i].symbol;
    if (earlier && strcmp(earlier, object->kernels.items[index].symbol) == 0) return true;
  }
  return false;
}

static void put_kernel_resources(arena *a, FILE *out, const artifact *library,
                                 const codegen_gpu_object *object, int index) {
  const codegen_gpu_kernel *k = &object->kernels.items[index];
  if (!k->symbol) {
    fprintf(out, "  none: %s\n", k->why_not);
    return;
  }
  if (is_printed(object, index)) return;
  const codegen_function_size *size = function_size_of(object, k->symbol);
  fprintf(out, "  %-60s %-14s %7d %8d %8lld %9d %9d %13d\n", k->symbol,
          devices_text(a, library, k->base.kernel->gpu.device_class), k->threads, k->shared_bytes,
          (long long)k->base.scratch.constant, k->products, size->barriers, size->instructions);
}

// The kernel, the one that makes the states it starts from, the one that adds up what blocks sum
// each for itself.
static int launches_with(const codegen_gpu_kernel *k) {
  bool sums = false;
  for (int i = 0; i < k->base.slots.count; i++) sums |= k->base.slots.items[i].accumulated;
  return 1 + k->base.reads_saved + sums;
}

static int launches_of(const codegen_gpu_object *object, const recurrence *made, kernel_kind kind) {
  vec_each(const codegen_gpu_kernel, k, object->kernels)
    if (k->base.kernel->kind == kind && k->base.kernel->recurrence == made) return launches_with(k);
  return 0;
}

static void put_pass(arena *a, FILE *out, const recurrence_kernels *kernels, number_type dtype,
                     kernel_kind kind, int launches) {
  fprintf(out, "  %-10s %s; %d launch%s\n", kind == KERNEL_FORWARD ? "forward" : "backward",
          schedule_report_step(a, kernels, dtype, kind), launches, launches == 1 ? "" : "es");
}

static void put_recurrence(arena *a, FILE *out, const artifact *library,
                           const artifact_recurrence *r, const codegen_gpu_object *object) {
  const recurrence *made = r->gpu.small->recurrence;
  fprintf(out, "%s(%s), %s, module %s\n", made->body.name, body_sizes_text(a, &made->body),
          number_type_text(library->dtype), object->hash);
  put_pass(a, out, r->gpu.small, library->dtype, KERNEL_FORWARD,
           launches_of(object, made, KERNEL_FORWARD));
  put_pass(a, out, r->gpu.small, library->dtype, KERNEL_BACKWARD,
           launches_of(object, made, KERNEL_BACKWARD));
  fprintf(out, "  %-60s %-14s %7s %8s %8s %9s %9s %13s\n", "kernel", "for", "threads", "shared",
          "outside", "products", "barriers", "instructions");
  for (int i = 0; i < object->kernels.count; i++)
    if (object->kernels.items[i].base.kernel->recurrence == made)
      put_kernel_resources(a, out, library, object, i);
}

char *artifact_resources(arena *a, const artifact *library, const codegen_gpu_object *object) {
  text_stream text;
  FILE *out = text_begin(&text);
  for (int i = 0; i < library->recurrences.count; i++) {
    if (i) fprintf(out, "\n");
    put_recurrence(a, out, library, &library->recurrences.items[i], object);
  }
  return text_end(&text, a);
}

// Lines of the report for one form; `kib` as schedule_report_gpu.
static const char *report_of(arena *a, const recurrence_kernels *kernels,
                             codegen_gpu_options options, int kib) {
  report_resources *resources = ARENA_ARRAY(a, report_resources, kernels->kernels.count);
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel_kind kind = kernels->kernels.items[i].kind;
    if (kind != KERNEL_FORWARD && kind != KERNEL_BACKWARD) continue;
    codegen_gpu_kernel k = codegen_gpu_describe(a, &kernels->kernels.items[i], options);
    resources[i] = (report_resources){k.threads,         k.shared_bytes, k.base.scratch.constant,
                                      launches_with(&k), k.products,     k.wgmma_products};
  }
  return schedule_report_gpu(a, kernels, options, resources, kib);
}

// Of every form, where more shared memory changes something.
const char *artifact_gpu_report(arena *a, const gpu_forms *forms, codegen_gpu_options options) {
  if (!forms->small) return "";
  const char *text = report_of(a, forms->small, options, 0);
  const recurrence_kernels *more[] = {forms->large, forms->warpgroups};
  for (int i = 0; i < 2; i++)
    if (more[i])
      text = arena_printf(a, "%s%s", text, report_of(a, more[i], options, GPU_LARGE_KIB));
  return text;
}
