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
#include "runtime/support/fold.h"

enum { SLICES = 2 };

static gpu_time_cut cut_of(const segment_layout *l) {
  int64_t steps = larger(l->call->time, 1);
  return (gpu_time_cut){.slices = SLICES, .slice_steps = steps, .maker = l->maker};
}

static gpu_outside steps_outside(const segment_layout *l) {
  if (!l->back) return (gpu_outside){.behind = 1};
  return (gpu_outside){.before = l->call->time + l->maker->warm_up_steps};
}

static bool is_alone(const call *c) { return !c->packed || c->sequences <= 1; }

static bool reads_saved(const segment_layout *l) {
  if (is_alone(l->call)) return l->maker->base.reads_saved;
  return l->back && gpu_kernel_of(l->device, REC_KERNEL_BACKWARD)->base.reads_saved;
}

// ---- one sequence of several -----------------------------------------------------------------

// As a call of its own, whose states lie in the workspace.
static call sequence_alone(const segment_layout *l) {
  call one = *l->call;
  int64_t sequence = l->back ? 0 : one.sequences - 1;
  one.sequences = one.saved_sequences = 1;
  one.first_state += sequence;
  if (one.cu_seqlens) one.cu_seqlens += sequence;
  return one;
}

static int64_t bytes_of_sequence(const segment_layout *l) {
  call one = sequence_alone(l);
  int kind = l->back ? REC_KERNEL_BACKWARD : REC_KERNEL_FORWARD;
  return stage_pointers_bytes(l->call) + segment_states_bytes(l) +
         gpu_kind_bytes(&one, l->device, kind);
}

// Gives the call memory for the states that it leaves.
static char *give_states_memory(const segment_layout *l, call *one, char *workspace) {
  void **replaced = stage_replace_nothing(one, workspace);
  workspace += stage_pointers_bytes(one);
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (segment_is_state(part))
      replaced[part->memory] = workspace + segment_state_at(l, part->state);
  }
  return workspace + segment_states_bytes(l);
}

static rec_status run_sequence(const segment_layout *l, gpu_saved saved, char *summary,
                               char *workspace) {
  call one = sequence_alone(l);
  char *rest = give_states_memory(l, &one, workspace);
  folding f = {.layout = l, .both = summary};
  fold_copy(&f, summary, NULL, segment_bytes(l));
  if (f.status == REC_OK)
    f.status = gpu_run_kind(&one, l->device, l->back ? REC_KERNEL_BACKWARD : REC_KERNEL_FORWARD,
                            GPU_STATES, saved, rest);
  for (int i = 0; i < l->part_count && f.status == REC_OK; i++) {
    const rec_table_part *part = segment_part(l, i);
    bool own = part->kind == REC_PART_OWN;
    fold_given(&f, i, own ? call_data(&one, table_memory(one.table, part->memory)) : NULL);
  }
  return f.status;
}

// ---- all steps ---------------------------------------------------------------------------------

static int64_t slices_bytes(const segment_layout *l) { return SLICES * segment_bytes(l); }

static rec_status run_segment_steps(const segment_layout *l, gpu_saved saved, char *summary,
                                    char *workspace) {
  gpu_kernel_run run = {.kernel = l->maker,
                        .saved = reads_saved(l) ? saved : (gpu_saved){0},
                        .results = GPU_SAVED,
                        .cut = cut_of(l),
                        .outside = steps_outside(l)};
  run.summaries = (rec_gpu_summaries){.data = (float *)(void *)workspace, .stride = l->stride};
  rec_status status = l->device->clear(l->call, workspace, slices_bytes(l));
  if (status == REC_OK)
    status = gpu_run_kernel(l->call, l->device, &run, workspace + slices_bytes(l));
  int64_t bytes = l->stride * l->number_bytes;
  for (int64_t entry = 0; entry < l->entries && status == REC_OK; entry++)
    status = l->device->copy(l->call, summary + entry * bytes,
                             workspace + (SLICES * entry + l->back) * bytes, bytes);
  return status;
}

// ---- calls -------------------------------------------------------------------------------------

int64_t gpu_segment_workspace(const segment_layout *l, bool recompute) {
  if (l->why_not || l->entries == 0) return 0;
  const call *c = l->call;
  int64_t saved = recompute && reads_saved(l) ? gpu_saved_of(c, l->device).bytes : 0;
  int64_t bytes = slices_bytes(l) + gpu_kernel_bytes(c, l->device, l->maker, cut_of(l));
  if (!is_alone(c)) bytes = larger(bytes, bytes_of_sequence(l));
  if (saved) bytes = larger(bytes, gpu_kind_bytes(c, l->device, REC_KERNEL_STATES));
  return saved + bytes;
}

// Backward: the states before each chunk, which forward has left or which are made again, in the
// workspace.
static rec_status open_gpu_saved(const segment_layout *l, bool recompute, gpu_saved *saved,
                                 char **workspace) {
  const call *c = l->call;
  *saved = (gpu_saved){0};
  if (!l->back || !reads_saved(l)) return REC_OK;
  *saved = gpu_saved_of(c, l->device);
  saved->data = c->launch->saved;
  if (!recompute)
    return call_check_buffer(c, "saved", c->launch->saved, c->launch->saved_bytes, saved->bytes);
  saved->data = *workspace;
  *workspace += saved->bytes;
  call one = is_alone(c) ? *c : sequence_alone(l);
  return gpu_run_kind(&one, l->device, REC_KERNEL_STATES, GPU_SAVED, *saved, *workspace);
}

static rec_status make_segment_summary(const segment_layout *l, char *summary) {
  const rec_launch *launch = l->call->launch;
  bool recompute = l->back && !launch->saved;
  gpu_saved saved;
  char *workspace = launch->workspace;
  rec_status status = call_check_buffer(l->call, "a workspace", workspace, launch->workspace_bytes,
                                        gpu_segment_workspace(l, recompute));
  if (status == REC_OK) status = open_gpu_saved(l, recompute, &saved, &workspace);
  if (status != REC_OK) return status;
  return is_alone(l->call) ? run_segment_steps(l, saved, summary, workspace)
                           : run_sequence(l, saved, summary, workspace);
}

// `call` as it was read.
rec_status gpu_summarise_segment(const call *call_read, bool back, void *summary) {
  call c = *call_read;
  gpu_device device;
  rec_status status = gpu_device_find(&c, c.launch->device_kind, &device);
  if (status != REC_OK) return status;
  call_flatten(&c, &gpu_kernel_of(&device, REC_KERNEL_FORWARD)->base);
  segment_layout l = segment_layout_of(&c, &device, back);
  status = segment_check(&l);
  if (status == REC_OK) status = segment_check_memory(&c, summary);
  if (status == REC_OK) status = segment_check_operands(&l, &l.maker->base);
  return status == REC_OK && l.entries > 0 ? make_segment_summary(&l, summary) : status;
}
