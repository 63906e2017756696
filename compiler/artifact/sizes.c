// How many bytes `saved` has, as a formula of the caller's sizes.
//
//   states of 24 * 64 * 128 numbers, 64 steps between saved ones  ->  batch * ceil_div(time, 64) * 786432
//
// The support code lays `saved` out by the same counts (rec_table.saved, .kept) and chunk lengths.
#include "compiler/artifact/tables.h"
#include "compiler/base/ice.h"

codegen_bytes artifact_saved_numbers(arena *a, const abi_recurrence *abi) {
  codegen_bytes count = {0};
  vec_each(const abi_memory, memory, abi->memories) {
    if (memory->role != ABI_H0) continue;
    int axes[TYPED_MAX_AXES];
    int axis_count = abi_axes(abi, memory, axes);
    axis_set set = 0;
    for (int k = 0; k < axis_count; k++) set |= axis_bit(axes[k]);
    vec_push(a, &count.terms, (codegen_bytes_term){abi_factor(abi, memory), set});
  }
  return count;
}

// An axis by the member of the arguments that has its size.
static const size_formula *axis_formula(arena *a, const abi_recurrence *abi, int axis) {
  int64_t size = abi->body->axes.items[axis].size;
  if (size != TYPED_RUNTIME_SIZE) return size_number(a, size);
  return size_name(a, abi_field_of(abi, ABI_AXIS, axis)->name);
}

// The bytes of a count of numbers, each of which takes `bytes`.
static const size_formula *bytes_formula(arena *a, const abi_recurrence *abi,
                                         const codegen_bytes *count, int64_t bytes) {
  const size_formula *total = size_number(a, count->constant * bytes);
  for (int i = 0; i < count->terms.count; i++) {
    const size_formula *open = size_number(a, 1);
    int64_t fixed = count->terms.items[i].coefficient * bytes;
    for (int axis = 0; axis < abi->body->axes.count; axis++) {
      if (!axis_in(count->terms.items[i].axes, axis)) continue;
      int64_t size = abi->body->axes.items[axis].size;
      if (size != TYPED_RUNTIME_SIZE)
        fixed *= size;
      else
        open = size_multiply(a, open, axis_formula(a, abi, axis));
    }
    total = size_add(a, total, size_multiply(a, open, size_number(a, fixed)));
  }
  return total;
}

static const codegen_kernel *kernel_of_kind(const artifact_kernels *kernels, int device,
                                            kernel_kind kind) {
  if (device == ARTIFACT_HOST) {
    for (int i = 0; i < kernels->host.count; i++)
      if (kernels->host.items[i].kernel->kind == kind) return &kernels->host.items[i];
  } else {
    for (int i = 0; i < kernels->gpu[device].count; i++)
      if (kernels->gpu[device].items[i].base.kernel->kind == kind)
        return &kernels->gpu[device].items[i].base;
  }
  ICE("artifact", "no kernel of kind %d", kind);
}

// As entry.c and gpu.c count them: a packed sequence begins a chunk of its own, where one carries
// anything to the next step.
static const size_formula *chunks_formula(arena *a, int64_t chunk, bool carries, bool packed) {
  const size_formula *time = size_name(a, "time");
  if (packed && carries)
    return size_add(a, size_floor_div(a, time, chunk), size_name(a, "sequences"));
  const size_formula *chunks = size_ceil_div(a, time, chunk);
  return packed ? chunks : size_multiply(a, size_name(a, "batch"), chunks);
}

static const char *saved_text(arena *a, const artifact_recurrence *r,
                              const artifact_kernels *kernels, number_type dtype, int device,
                              bool packed) {
  const codegen_kernel *backward = kernel_of_kind(kernels, device, KERNEL_BACKWARD);
  if (!backward->reads_saved) return "0";
  int64_t bytes = dtype == NUMBER_F64 ? 8 : 4,
          chunk = device == ARTIFACT_HOST ? r->kernels->chunk : backward->chunk;
  codegen_bytes saved = artifact_saved_numbers(a, r->inner ? r->inner : r->abi);
  const size_formula *of_chunk = bytes_formula(a, r->abi, &saved, bytes);
  if (device == ARTIFACT_HOST)
    of_chunk = size_add(a, of_chunk, bytes_formula(a, r->abi, &backward->kept, bytes));
  bool carries = !kernel_of_kind(kernels, device, KERNEL_FORWARD)->time_splits;
  return size_text(a, size_multiply(a, chunks_formula(a, chunk, carries, packed),
                                    size_align(a, of_chunk, REC_ALIGNMENT)));
}

_Static_assert((int)ARTIFACT_CLASSES == (int)REC_GPU_CLASSES,
               "abi.h counts the classes as library.h does");

artifact_saved_texts artifact_saved_formulas(arena *a, const artifact *library,
                                             const artifact_recurrence *r) {
  artifact_kernels kernels = artifact_describe(a, library, r);
  artifact_saved_texts texts = {0};
  for (int device = ARTIFACT_HOST; device < ARTIFACT_CLASSES; device++) {
    if (device != ARTIFACT_HOST && !kernels.gpu[device].count) continue;
    texts.batch[device + 1] = saved_text(a, r, &kernels, library->dtype, device, false);
    texts.packed[device + 1] = saved_text(a, r, &kernels, library->dtype, device, true);
  }
  return texts;
}
