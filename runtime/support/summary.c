// Makes the summary of a segment of time: NAME_summary, NAME_summary_backward.
//
//   states 0, transfers 1      ->  SUMMARY, all steps  ->  own, factors
//   columns of the identity    ->  SUMMARY, all steps, tokens along the value axis 0  ->  columns of the matrix, block by block
//
// Of packed sequences it is the last one that goes on behind the segment, and the first one that
// has begun before it. Where they are not the same one, nothing of the states before the segment is
// left.
#include <string.h>

#include "runtime/support/segment.h"

typedef struct maker {
  const call *call;
  const segment_layout *layout;
  char *summary;
  char *zeros;     // as many as any state has, or a row of tokens
  char *identity;  // columns of a block: states, as segment_states_bytes counts them
  int64_t block;   // -1: own and factors
  bool given;      // the states before are the caller's
} maker;

static int64_t zeros_bytes(const segment_layout *l) {
  const call *c = l->call;
  int64_t bytes = 0;
  for (int i = 0; i < l->part_count; i++)
    bytes = larger(bytes, segment_memory_bytes(l, segment_part(l, i)->memory));
  for (int i = 0; l->value_axis >= 0 && i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (!stage_is_state(memory))
      bytes = larger(bytes, round_up(call_numbers(c, memory) * l->number_bytes, REC_ALIGNMENT));
  }
  return bytes;
}

static int64_t maker_bytes(const segment_layout *l) {
  return zeros_bytes(l) + (l->value_axis >= 0 ? segment_states_bytes(l) : 0);
}

static const rec_table_kernel *maker_kernel(const call *c, bool back) {
  return kernel_of_call(c, back ? REC_KERNEL_SUMMARY_BACK : REC_KERNEL_SUMMARY);
}

// All steps as one sequence need the most.
int64_t segment_workspace(const segment_layout *l, bool recompute) {
  if (l->why_not) return 0;
  call one = *l->call;
  const rec_table_kernel *kernel = maker_kernel(&one, l->back);
  one.packed = false;
  int64_t saved = kernel->reads_saved && recompute ? call_saved_room(l->call).bytes : 0;
  int64_t stage = stage_bytes(&one, kernel);
  if (saved) stage = larger(stage, stage_bytes(&one, kernel_of_call(&one, REC_KERNEL_STATES)));
  return maker_bytes(l) + saved + stage;
}

// ---- states of a run -------------------------------------------------------------------------

static void *maker_before(const maker *m, const rec_table_part *part, int memory) {
  if (m->block >= 0)
    return part->columns ? m->identity + segment_state_at(m->layout, part->state) : NULL;
  if (!m->given) return NULL;
  void *data = call_data(m->call, table_memory(m->call->table, memory));
  return data ? data : m->zeros;
}

static void *maker_after(const maker *m, const rec_table_part *part) {
  if (m->block < 0) return m->summary + segment_memory_at(m->layout, part->memory);
  if (!part->columns) return NULL;
  return m->summary + segment_columns_at(m->layout, part->memory, m->block);
}

// Lag buffers before the segment are the caller's; nobody wants those after it.
static void *maker_state(void *context, int memory, int64_t slice) {
  const maker *m = context;
  (void)slice;
  for (int i = 0; i < m->layout->part_count; i++) {
    const rec_table_part *part = segment_part(m->layout, i);
    if (part->memory == memory) return maker_after(m, part);
    if (part->kind == REC_PART_OWN && part->state == memory) return maker_before(m, part, memory);
  }
  const rec_table_memory *of = table_memory(m->call->table, memory);
  return of->depth && of->copy_from < 0 ? call_data(m->call, of) : NULL;
}

// ---- columns of the identity -----------------------------------------------------------------

// The column whose 1 lies in this entry of an instance, counted from the first one of its state;
// -1: it has another entry of the value axis.
static int64_t column_of_entry(const maker *m, const rec_table_memory *memory, const int64_t *index,
                               int64_t first) {
  const call *c = m->call;
  const int32_t *axes = table_at(c->table, memory->axes_at);
  int64_t row = 0, value = 0;
  for (int k = 0; k < memory->axis_count; k++)
    if (axes[k] == m->layout->value_axis)
      value = index[k];
    else if (segment_counts_along(m->layout, axes[k]))
      row = row * c->axis_size[axes[k]] + index[k];
  // the columns value, value + entries, .. have their 1 in this entry
  int64_t column = m->block * c->axis_size[m->layout->value_axis] + value - first;
  return column / memory->factor == row && column >= 0 ? column : -1;
}

static void set_one(const call *c, char *data, int64_t at) {
  if (c->table->number_bytes == 8)
    ((double *)(void *)data)[at] = 1;
  else
    ((float *)(void *)data)[at] = 1;
}

static void set_identity(const maker *m, int index_of_part) {
  const call *c = m->call;
  const rec_table_part *part = segment_part(m->layout, index_of_part);
  const rec_table_memory *memory = table_memory(c->table, part->memory);
  const int32_t *axes = table_at(c->table, memory->axes_at);
  char *data = m->identity + segment_state_at(m->layout, part->state);
  int64_t index[REC_AXES_MAX] = {0},
          entries = m->layout->entries * segment_numbers(m->layout, part),
          first = segment_first_column(m->layout, index_of_part);
  memset(data, 0, (size_t)(entries * memory->factor * c->table->number_bytes));
  for (int64_t entry = 0; entry < entries; entry++) {
    int64_t column = column_of_entry(m, memory, index, first);
    if (column >= 0) set_one(c, data, entry * memory->factor + column % memory->factor);
    for (int k = memory->axis_count - 1; k >= 0 && ++index[k] == c->axis_size[axes[k]]; k--)
      index[k] = 0;
  }
}

// ---- runs ------------------------------------------------------------------------------------

static void run_maker(maker *m, bool back, stage_saved saved, void *workspace) {
  stage_slices whole = {.first = 0, .last = 1, .state = maker_state, .context = m};
  stage_run(m->call, maker_kernel(m->call, back), saved, STAGE_STATES, &whole, workspace);
}

static void run_columns(maker *m, bool back, stage_saved saved, void *workspace) {
  call c = *m->call;
  c.zeros = m->zeros;
  c.zero_axis = m->layout->value_axis;
  maker columns = *m;
  columns.call = &c;
  for (columns.block = 0; columns.block < segment_blocks(m->layout); columns.block++) {
    for (int i = 0; i < m->layout->part_count; i++) {
      const rec_table_part *part = segment_part(m->layout, i);
      if (part->columns && !part->component) set_identity(&columns, i);
    }
    run_maker(&columns, back, saved, workspace);
  }
}

static void fill_numbers(const call *c, char *data, int64_t numbers, double number) {
  if (c->table->number_bytes == 8)
    for (int64_t k = 0; k < numbers; k++) ((double *)(void *)data)[k] = number;
  else
    for (int64_t k = 0; k < numbers; k++) ((float *)(void *)data)[k] = (float)number;
}

// Nothing of the states before is left.
static void clear_transfers(const maker *m) {
  const call *c = m->call;
  const segment_layout *l = m->layout;
  for (int i = 0; i < l->part_count; i++) {
    const rec_table_part *part = segment_part(l, i);
    double none = part->kind == REC_PART_LOGARITHM ? SEGMENT_NO_MAXIMUM : 0;
    int64_t numbers = l->entries * segment_numbers(l, part) * segment_pair(l, part);
    if (part->component) continue;
    if (part->kind != REC_PART_OWN)
      fill_numbers(c, m->summary + segment_memory_at(l, part->memory), numbers, none);
    for (int64_t b = 0; part->columns && b < segment_blocks(l); b++)
      fill_numbers(c, m->summary + segment_columns_at(l, part->memory, b), numbers, 0);
  }
}

// ---- calls -----------------------------------------------------------------------------------

// The sequence that goes on behind the segment, or backward before it, as a call of its own. It has
// `all` steps if there is no other sequence.
static call open_sequence(const call *c, bool back, bool *alone) {
  call one = *c;
  *alone = !c->packed || c->sequences <= 1;
  one.packed = false;
  one.sequences = 0;
  one.cu_seqlens = NULL;
  if (*alone) return one;
  int64_t sequence = back ? 0 : c->sequences - 1;
  one.first_state = sequence;
  one.first_step = c->cu_seqlens[sequence];
  one.time = (int64_t)c->cu_seqlens[sequence + 1] - c->cu_seqlens[sequence];
  return one;
}

// Backward: the states before each chunk, which forward has left or which are made again, in the
// workspace.
static rec_status find_saved(const call *c, bool back, stage_saved *saved, bool *again) {
  *saved = (stage_saved){0};
  *again = false;
  if (!maker_kernel(c, back)->reads_saved) return REC_OK;
  call_room room = call_saved_room(c);
  *again = !c->launch->saved;
  *saved = (stage_saved){c->launch->saved, room.chunks * room.chunk_numbers, room.chunk_numbers};
  return *again
             ? REC_OK
             : call_check_buffer(c, "saved", c->launch->saved, c->launch->saved_bytes, room.bytes);
}

static void make_host_summary(const call *c, bool back, char *summary, stage_saved saved,
                              bool again, char *workspace) {
  bool alone;
  call one = open_sequence(c, back, &alone);
  segment_layout l = segment_layout_of(&one, NULL, back);
  maker m = {.call = &one, .layout = &l, .summary = summary, .block = -1, .given = !alone};
  m.zeros = workspace;
  m.identity = workspace + zeros_bytes(&l);
  memset(m.zeros, 0, (size_t)zeros_bytes(&l));
  workspace += maker_bytes(&l);
  if (again) {
    saved.data = workspace;
    workspace += call_saved_room(c).bytes;
    stage_run(&one, kernel_of_call(c, REC_KERNEL_STATES), saved, STAGE_SAVED, NULL, workspace);
  }
  run_maker(&m, back, saved, workspace);
  if (alone)
    run_columns(&m, back, saved, workspace);
  else
    clear_transfers(&m);
  segment_guard(&l, summary, false);
}

rec_status summarise_segment(const rec_table *table, const void *arguments,
                             const rec_launch *launch, bool back, void *summary) {
  call c;
  stage_saved saved;
  bool again;
  rec_status status =
      call_read(&c, table, back ? "summary_backward" : "summary", arguments, launch);
  if (status == REC_OK) status = call_check_instances(&c);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    return gpu_summarise_segment(&c, back, summary);
  if (status != REC_OK) return status;
  segment_layout l = segment_layout_of(&c, NULL, back);
  status = segment_check(&l);
  if (status == REC_OK) status = segment_check_memory(&c, summary);
  if (status == REC_OK) status = segment_check_operands(&l, maker_kernel(&c, back));
  if (status == REC_OK) status = call_choose_clone(&c, maker_kernel(&c, back));
  if (status != REC_OK) return status;
  call_flatten(&c, &table->kernels[REC_KERNEL_FORWARD]);
  l = segment_layout_of(&c, NULL, back);
  status = find_saved(&c, back, &saved, &again);
  if (status == REC_OK)
    status = call_check_buffer(&c, "a workspace", launch->workspace, launch->workspace_bytes,
                               segment_workspace(&l, again));
  if (status == REC_OK) make_host_summary(&c, back, summary, saved, again, launch->workspace);
  return status;
}
