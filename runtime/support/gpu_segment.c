// Makes the summary of a segment of time on a GPU. The kernels of slice summaries make it: they
// make that of every slice but the last one, backward but the first one. The segment is the other
// one of two slices.
//
//   forward    [ segment ][ a step that no kernel takes ]      slice 0
//   backward   [ steps that no kernel takes ][ segment ]       slice 1; where slices warm up, a chunk more in front
//
// Of packed sequences it is the last one that goes on behind the segment, and the first one that
// has begun before it. Where they are not the same one, nothing of the states before the segment is
// left, and FORWARD or BACKWARD of that one makes the rest.
#include <string.h>

#include "runtime/support/error.h"
#include "runtime/support/gpu_parts.h"
#include "runtime/support/segment.h"
#include "runtime/support/stage.h"

enum { SLICES = 2 };

static gpu_time_cut cut_of(const gpu_parts *p) {
  int64_t steps = larger(p->call->time, 1);
  return (gpu_time_cut){.slices = SLICES, .slice_steps = steps, .maker = p->maker};
}

static gpu_outside outside_of(const gpu_parts *p) {
  if (!p->back) return (gpu_outside){.behind = 1};
  return (gpu_outside){.before = p->call->time + p->maker->warm_up_steps};
}

static bool is_alone(const call *c) { return !c->packed || c->sequences <= 1; }

static bool reads_saved(const gpu_parts *p) {
  if (is_alone(p->call)) return p->maker->base.reads_saved;
  return p->back && gpu_kernel_of(p->device, REC_KERNEL_BACKWARD)->base.reads_saved;
}

// ---- one sequence of several -----------------------------------------------------------------

// As a call of its own, whose states lie in the workspace.
static call sequence_alone(const gpu_parts *p) {
  call one = *p->call;
  int64_t sequence = p->back ? 0 : one.sequences - 1;
  one.sequences = one.saved_sequences = 1;
  one.first_state += sequence;
  if (one.cu_seqlens) one.cu_seqlens += sequence;
  return one;
}

static int64_t bytes_of_sequence(const gpu_parts *p) {
  call one = sequence_alone(p);
  int kind = p->back ? REC_KERNEL_BACKWARD : REC_KERNEL_FORWARD;
  return stage_pointers_bytes(p->call) + gpu_states_bytes(p) +
         gpu_kind_bytes(&one, p->device, kind);
}

// Gives the call memory for the states that it leaves.
static char *give_states_memory(const gpu_parts *p, call *one, char *workspace) {
  void **replaced = stage_replace_nothing(one, workspace);
  workspace += stage_pointers_bytes(one);
  for (int i = 0; i < p->maker->part_count; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    if (part->kind != REC_PART_OWN || part->component) continue;
    const rec_table_memory *after = gpu_state_after(p, part->state);
    replaced[after - table_memory(one->table, 0)] = workspace + gpu_state_at(p, part->state);
  }
  return workspace + gpu_states_bytes(p);
}

static rec_status run_sequence(const gpu_parts *p, gpu_saved saved, float *summary,
                               char *workspace) {
  call one = sequence_alone(p);
  char *rest = give_states_memory(p, &one, workspace);
  rec_status status = p->device->clear(&one, summary, gpu_parts_bytes(p));
  if (status == REC_OK)
    status = gpu_run_kind(&one, p->device, p->back ? REC_KERNEL_BACKWARD : REC_KERNEL_FORWARD,
                          GPU_STATES, saved, rest);
  for (int i = 0; i < p->maker->part_count && status == REC_OK; i++) {
    const rec_table_gpu_part *part = gpu_part(p, i);
    const float *state =
        part->kind == REC_PART_OWN ? call_data(&one, gpu_state_after(p, part->state)) : NULL;
    status = gpu_fold_given(p, summary, i, state);
  }
  return status;
}

// ---- all steps ---------------------------------------------------------------------------------

static int64_t slices_bytes(const gpu_parts *p) { return SLICES * gpu_parts_bytes(p); }

static rec_status run_steps(const gpu_parts *p, gpu_saved saved, float *summary, char *workspace) {
  gpu_kernel_run run = {.kernel = p->maker,
                        .saved = reads_saved(p) ? saved : (gpu_saved){0},
                        .results = GPU_SAVED,
                        .cut = cut_of(p),
                        .outside = outside_of(p)};
  const float *slices = (const float *)(const void *)workspace;
  run.summaries = (rec_gpu_summaries){.data = (float *)(void *)workspace, .stride = p->stride};
  rec_status status = p->device->clear(p->call, workspace, slices_bytes(p));
  if (status == REC_OK)
    status = gpu_run_kernel(p->call, p->device, &run, workspace + slices_bytes(p));
  for (int64_t entry = 0; entry < p->entries && status == REC_OK; entry++) {
    const float *from = slices + (SLICES * entry + p->back) * p->stride;
    status = p->device->copy(p->call, summary + entry * p->stride, from,
                             p->stride * (int64_t)sizeof(float));
  }
  return status;
}

// ---- calls -------------------------------------------------------------------------------------

rec_status gpu_check_made(const gpu_parts *p) {
  const call *c = p->call;
  const rec_table_summary *of = segment_of(c, p->back);
  for (int i = 0; p->stride && i < p->maker->part_count; i++)
    if (gpu_part(p, i)->axis_count > GPU_PARTS_AXES)
      return call_fail(c, REC_ERROR_UNSUPPORTED, "expected states of at most %d axes, found %d",
                       GPU_PARTS_AXES, gpu_part(p, i)->axis_count);
  if (p->stride) return REC_OK;
  const char *why =
      of->why_at ? table_text(c->table, of->why_at) : "its states mix too many entries for a GPU";
  return call_fail(c, REC_ERROR_UNSUPPORTED,
                   "expected a recurrence that has summaries, found that %s", why);
}

// What the kernel reads.
static rec_status check_operands(const gpu_parts *p) {
  const rec_table_kernel *base = &p->maker->base;
  rec_status status = REC_OK;
  for (int i = 0; i < base->slot_count && status == REC_OK; i++) {
    const rec_table_slot *slot = table_slot(p->call->table, base, i);
    const rec_table_memory *memory = table_memory(p->call->table, slot->memory);
    if (!slot->written)
      status =
          call_check_memory(p->call, memory, p->back ? memory->backward_use : memory->forward_use);
  }
  return status;
}

static int64_t workspace_of_summary(const gpu_parts *p, bool recompute) {
  if (!p->stride || p->entries == 0) return 0;
  const call *c = p->call;
  int64_t saved = recompute && reads_saved(p) ? gpu_saved_of(c, p->device).bytes : 0;
  int64_t bytes = slices_bytes(p) + gpu_kernel_bytes(c, p->device, p->maker, cut_of(p));
  if (!is_alone(c)) bytes = larger(bytes, bytes_of_sequence(p));
  if (saved) bytes = larger(bytes, gpu_kind_bytes(c, p->device, REC_KERNEL_STATES));
  return saved + bytes;
}

// Backward: the states before each chunk, which forward has left or which are made again, in the
// workspace.
static rec_status open_gpu_saved(const gpu_parts *p, bool recompute, gpu_saved *saved,
                                 char **workspace) {
  const call *c = p->call;
  *saved = (gpu_saved){0};
  if (!p->back || !reads_saved(p)) return REC_OK;
  *saved = gpu_saved_of(c, p->device);
  saved->data = c->launch->saved;
  if (!recompute)
    return call_check_buffer(c, "saved", c->launch->saved, c->launch->saved_bytes, saved->bytes);
  saved->data = *workspace;
  *workspace += saved->bytes;
  call one = is_alone(c) ? *c : sequence_alone(p);
  return gpu_run_kind(&one, p->device, REC_KERNEL_STATES, GPU_SAVED, *saved, *workspace);
}

static rec_status make(const gpu_parts *p, float *summary) {
  const rec_launch *launch = p->call->launch;
  bool recompute = p->back && !launch->saved;
  gpu_saved saved;
  char *workspace = launch->workspace;
  rec_status status = call_check_buffer(p->call, "a workspace", workspace, launch->workspace_bytes,
                                        workspace_of_summary(p, recompute));
  if (status == REC_OK) status = open_gpu_saved(p, recompute, &saved, &workspace);
  if (status != REC_OK) return status;
  return is_alone(p->call) ? run_steps(p, saved, summary, workspace)
                           : run_sequence(p, saved, summary, workspace);
}

rec_status gpu_summary_call(const call *call_read, bool back, void *summary) {
  call c = *call_read;
  gpu_device device;
  rec_status status = gpu_device_find(&c, c.launch->device_kind, &device);
  if (status != REC_OK) return status;
  call_flatten(&c, &gpu_kernel_of(&device, REC_KERNEL_FORWARD)->base);
  gpu_parts p = gpu_parts_of(&c, &device, back);
  status = gpu_check_made(&p);
  if (status == REC_OK) status = segment_check_memory(&c, summary);
  if (status == REC_OK) status = check_operands(&p);
  if (status != REC_OK || p.entries == 0) return status;
  return make(&p, summary);
}

// `call` as it was read.
void gpu_segment_room(const call *call_read, const gpu_device *device, rec_sizes *sizes) {
  call c = *call_read;
  call_flatten(&c, &gpu_kernel_of(device, REC_KERNEL_FORWARD)->base);
  gpu_parts p = gpu_parts_of(&c, device, false), back = gpu_parts_of(&c, device, true);
  sizes->summary = gpu_parts_bytes(&p);
  sizes->summary_backward = gpu_parts_bytes(&back);
  sizes->workspace_summary = workspace_of_summary(&p, false);
  sizes->workspace_summary_backward = workspace_of_summary(&back, false);
  sizes->workspace_summary_backward_recompute = workspace_of_summary(&back, true);
  sizes->workspace_fold = larger(gpu_fold_workspace(&p), gpu_fold_workspace(&back));
  sizes->segment_multiple = c.table->segment_multiple;
  sizes->instances = p.stride ? gpu_parts_instances(&p) : 0;
}
