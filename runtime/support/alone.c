// Makes of a packed sequence a call without packing.
//
//   lengths 3 1 5000 2, one instance  ->  3, 1 and 2 together, then 5000 in 16 time slices; its gradients of parameters are
//     formed in the workspace and added to those of the others
#include "runtime/support/alone.h"

#include <string.h>

// At most so many sequences run alone.
enum { ALONE_MAX = 4 };

static call sequence_of(const call *c, int64_t sequence) {
  call one = *c;
  one.packed = false;
  one.sequences = one.alone = 0;
  one.cu_seqlens = NULL;
  one.replaced = NULL;
  one.time = (int64_t)c->cu_seqlens[sequence + 1] - c->cu_seqlens[sequence];
  one.first_step = c->cu_seqlens[sequence];
  one.first_state = sequence;
  split_plan(&one);
  return one;
}

void alone_plan(call *c) {
  c->alone = 0;
  // only sizes, or enough of them
  if (!c->packed || c->longest == 0 || c->longest * ALONE_MAX < c->time) return;
  if (!sequence_of(c, c->longest_at).slices) return;
  c->alone = larger(SPLIT_TIME_MIN, (c->time + ALONE_MAX - 1) / ALONE_MAX);
}

// ---- gradients of parameters -----------------------------------------------------------------

static bool is_parameter_gradient(const rec_table_memory *memory) {
  return !memory->per_batch && memory->backward_use == REC_WRITE_OPTIONAL;
}

int64_t alone_gradients_bytes(const call *c) {
  int64_t bytes = stage_pointers_bytes(c);
  for (int i = 0; i < c->table->memory_count; i++)
    if (is_parameter_gradient(table_memory(c->table, i)))
      bytes += call_entry_bytes(c, table_memory(c->table, i));
  return bytes;
}

// Lets the call write the gradients that are wanted into the workspace.
void **alone_replace_gradients(call *one, void *workspace) {
  void **replaced = stage_replace_nothing(one, workspace);
  char *at = (char *)workspace + stage_pointers_bytes(one);
  for (int i = 0; i < one->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(one->table, i);
    if (!is_parameter_gradient(memory)) continue;
    if (call_data(one, memory)) replaced[i] = at;
    at += call_entry_bytes(one, memory);
  }
  return replaced;
}

void alone_add_gradients(const call *c, const call *one) {
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (!one->replaced[i] || !is_parameter_gradient(memory)) continue;
    int64_t numbers = call_numbers(c, memory);
    const void *from = one->replaced[i];
    void *to = call_data(c, memory);
    if (c->table->number_bytes == 8)
      for (int64_t k = 0; k < numbers; k++) ((double *)to)[k] += ((const double *)from)[k];
    else
      for (int64_t k = 0; k < numbers; k++) ((float *)to)[k] += ((const float *)from)[k];
  }
}

// ---- runs ------------------------------------------------------------------------------------

// The whole time as one sequence in the most slices needs the most.
int64_t alone_bytes(const call *c, bool backward) {
  if (!c->packed) return 0;
  call one = *c;
  one.packed = false;
  split_most(&one);
  if (!one.slices) return 0;
  return alone_gradients_bytes(c) + split_bytes(&one, backward);
}

static stage_saved saved_of(const call *c, stage_saved saved, int64_t sequence) {
  int64_t numbers = call_chunks_before(c, sequence) * saved.chunk_stride;
  if (saved.data) saved.data = (char *)saved.data + numbers * c->table->number_bytes;
  return saved;
}

static bool runs_alone(const call *c, int64_t sequence) {
  return call_runs_alone(c, (int64_t)c->cu_seqlens[sequence + 1] - c->cu_seqlens[sequence]);
}

void alone_forward_calls(const call *c, stage_saved saved, char *workspace, alone_run *run) {
  for (int64_t s = 0; s < c->sequences; s++) {
    if (!runs_alone(c, s)) continue;
    call one = sequence_of(c, s);
    run(&one, saved_of(c, saved, s), false, workspace);
  }
}

void alone_backward_calls(const call *c, stage_saved saved, bool recompute, char *workspace,
                          alone_run *run) {
  for (int64_t s = 0; s < c->sequences; s++) {
    if (!runs_alone(c, s)) continue;
    call one = sequence_of(c, s);
    alone_replace_gradients(&one, workspace);
    run(&one, saved_of(c, saved, s), recompute, workspace + alone_gradients_bytes(c));
    alone_add_gradients(c, &one);
  }
}
