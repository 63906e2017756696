// Summaries of segments of time as the support code reads them (rec_table_summary in
// compiler/abi/library.h).
//
//   results of SUMMARY: next h, next h transfer   ->   part OWN of h, in hT_h; part FACTOR of h in h, in memory of its own
#include "compiler/abi/library.h"
#include "compiler/artifact/tables.h"
#include "compiler/base/ice.h"
#include "compiler/plan/kernel_plan.h"

const codegen_kernel *artifact_summary_kernel(const artifact_kernels *kernels, bool back) {
  for (int i = 0; i < kernels->host.count; i++)
    if (kernels->host.items[i].kernel->kind == (back ? KERNEL_SUMMARY_BACK : KERNEL_SUMMARY))
      return &kernels->host.items[i];
  return NULL;
}

artifact_transfers artifact_transfers_of(arena *a, const artifact_kernels *kernels) {
  artifact_transfers all = {0};
  vec_each(const codegen_kernel, k, kernels->host) {
    for (int slot = 0; kernel_summarises(k->kernel->kind) && slot < k->slots.count; slot++)
      if (k->slots.items[slot].transfer) vec_push(a, &all, &k->slots.items[slot]);
  }
  return all;
}

int artifact_transfer_number(const artifact_transfers *all, const codegen_slot *slot) {
  for (int i = 0; i < all->count; i++)
    if (all->items[i] == slot) return i;
  ICE("artifact", "a transfer of tensor %d has no memory", slot->tensor);
}

static int state_memory(const abi_recurrence *abi, bool back, int tensor) {
  return abi_find(abi, back ? ABI_D_HT : ABI_H0, tensor, -1);
}

// The slot that a result is written to.
static const codegen_slot *result_slot(const codegen_kernel *k, const tile_place *place) {
  vec_each(const codegen_slot, slot, k->slots) {
    bool same = slot->role == place->role && slot->tensor == place->tensor && slot->lag < 0;
    if (same && slot->transfer == place->transfer && slot->source == place->source) return slot;
  }
  ICE("artifact", "%s has no memory for %s", k->kernel->symbol, place->name ? place->name : "?");
}

// `host`: the kernel on the host, NULL: of a GPU.
static rec_table_part transfer_part(const abi_recurrence *abi, const artifact_transfers *transfers,
                                    const kernel *k, const codegen_kernel *host,
                                    const tile_place *place) {
  bool back = k->kind == KERNEL_SUMMARY_BACK;
  rec_table_part part = {.kind = REC_PART_LAG,
                         .memory = -1,
                         .state = -1,
                         .component = place->component,
                         .source = -1,
                         .maximum = -1};
  if (place->lag >= 0) return part;
  part.state = state_memory(abi, back, place->tensor);
  if (place->relative) part.maximum = state_memory(abi, back, place->relative - 1);
  if (!place->transfer) {
    part.kind = REC_PART_OWN;
    part.memory = abi_find(abi, back ? ABI_D_H0 : ABI_HT, place->tensor, -1);
    part.columns =
        k->transition_size && !place->relative && !kernel_has_factor(k->program, place->tensor);
    return part;
  }
  part.kind = place->relative ? REC_PART_LOGARITHM : REC_PART_FACTOR;
  if (host)
    part.memory =
        abi->memories.count + artifact_transfer_number(transfers, result_slot(host, place));
  if (!place->relative)
    part.source = place->source ? state_memory(abi, back, place->source - 1) : part.state;
  return part;
}

artifact_summary_parts artifact_summary_parts_of(arena *a, const abi_recurrence *abi,
                                                 const artifact_transfers *transfers,
                                                 const kernel *k, const codegen_kernel *host) {
  artifact_summary_parts parts = {0};
  for (int i = 0; i < k->program->results.count; i++) {
    const tile_place *place = &k->program->results.items[i].place;
    if (place->role == TILE_KEEP) continue;
    artifact_summary_part part = {transfer_part(abi, transfers, k, host, place), place};
    if (!host || place->lag < 0) vec_push(a, &parts, part);
  }
  return parts;
}

// ---- instances -------------------------------------------------------------------------------

// Axes along which the summaries of a kernel may be folded in blocks.
static axis_set axes_to_cut(const kernel *k) {
  if (!k->transition_size) return k->cut;
  if (k->segment) return k->transition_axes;
  return kernel_instances(k) & ~axis_bit(k->value_axis);
}

// Of all kernels that make summaries; 0: there are none.
static axis_set all_axes_to_cut(const artifact_kernels *kernels) {
  axis_set common = ~(axis_set)0;
  bool any = false;
  for (int devices = -1; devices < REC_GPU_CLASSES; devices++) {
    int count = devices < 0 ? kernels->host.count : kernels->gpu[devices].count;
    for (int i = 0; i < count; i++) {
      const kernel *k =
          devices < 0 ? kernels->host.items[i].kernel : kernels->gpu[devices].items[i].base.kernel;
      if (!kernel_summarises(k->kind)) continue;
      common &= axes_to_cut(k);
      any = true;
    }
  }
  return any ? common : 0;
}

static const typed_tensor *next_state(const typed_body *body, int *at) {
  while (++*at < body->tensors.count)
    if (body->tensors.items[*at].kind == TENSOR_STATE) return &body->tensors.items[*at];
  return NULL;
}

axis_set artifact_instance_axes(const typed_body *body, const artifact_kernels *kernels) {
  axis_set common = all_axes_to_cut(kernels), axes = 0;
  int at = -1, other;
  const typed_tensor *first = next_state(body, &at), *t;
  for (int x = 0; first && x < first->axis_count && axis_in(common, first->axes[x]); x++) {
    for (other = at; (t = next_state(body, &other));)
      if (x >= t->axis_count || t->axes[x] != first->axes[x]) return axes;
    axes |= axis_bit(first->axes[x]);
  }
  return axes;
}

static int64_t common_divisor(int64_t x, int64_t y) { return y ? common_divisor(y, x % y) : x; }

// Chunks of forward and backward, on the host and on GPUs. Fewer than 128 steps would gain nothing.
int64_t artifact_segment_multiple(const artifact_kernels *kernels, int chunk) {
  int64_t multiple = 128;
  multiple = multiple / common_divisor(multiple, chunk) * chunk;
  for (int devices = 0; devices < REC_GPU_CLASSES; devices++)
    for (int i = 0; i < kernels->gpu[devices].count; i++)
      multiple = multiple / common_divisor(multiple, kernels->gpu[devices].items[i].base.chunk) *
                 kernels->gpu[devices].items[i].base.chunk;
  return multiple;
}
