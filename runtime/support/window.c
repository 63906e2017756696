#include "runtime/support/window.h"

#include "runtime/support/alone.h"

enum {
  WINDOW_STEPS_MIN = 128,  // fewer do not repay the gradients of states that go through memory
  WINDOW_COPIES = 1 << 21  // bytes, about
};

static const rec_table_kernel *kernel_of_backward(const call *c) {
  return &c->table->kernels[REC_KERNEL_BACKWARD];
}

// The gradient of a state before the steps; copy_from is that of the state after them.
static bool is_state_gradient(const rec_table_memory *memory) {
  return stage_is_state(memory) && memory->backward_use == REC_WRITE_OPTIONAL;
}

static int64_t window_state_bytes(const call *c, const rec_table_memory *memory) {
  return round_up(call_total(c, memory) * c->table->number_bytes, REC_ALIGNMENT);
}

static int64_t all_states_bytes(const call *c) {
  int64_t bytes = 0;
  for (int i = 0; i < c->table->memory_count; i++)
    if (is_state_gradient(table_memory(c->table, i)))
      bytes += window_state_bytes(c, table_memory(c->table, i));
  return bytes;
}

// Can a window begin anywhere? Its states must come from `saved` or not be needed, and nobody adds
// to their gradients.
static bool has_windows(const call *c) {
  const rec_table_kernel *kernel = kernel_of_backward(c);
  if (c->packed || c->slices || c->replaced || kernel->time_splits) return false;
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, kernel, i);
    const rec_table_memory *memory = table_memory(c->table, slot->memory);
    if (!stage_is_state(memory)) continue;
    bool before = memory->forward_use == REC_READ_OPTIONAL;
    if (slot->accumulated || (before && !kernel->reads_saved)) return false;
  }
  return true;
}

static call window_call(const call *c, int64_t first, int64_t steps) {
  call one = *c;
  one.first_step += first;
  one.time = smaller(steps, c->time - first);
  return one;
}

int64_t window_steps(const call *c) {
  if (c->time < 2 * WINDOW_STEPS_MIN || !has_windows(c)) return 0;
  int64_t chunk = c->table->chunk, least = round_up(WINDOW_STEPS_MIN, chunk);
  call one = window_call(c, 0, least);
  int64_t of_step = stage_step_copies(&one, kernel_of_backward(c));
  if (of_step == 0) return 0;
  int64_t steps = larger(least, WINDOW_COPIES / of_step / chunk * chunk);
  bool worth =
      2 * steps <= c->time && 2 * window_bytes(c, steps) <= stage_bytes(c, kernel_of_backward(c));
  return worth ? steps : 0;
}

// [replaced pointers and gradients of parameters] [gradients of states] [stage]
int64_t window_bytes(const call *c, int64_t steps) {
  call one = window_call(c, 0, steps);
  return alone_gradients_bytes(c) + all_states_bytes(c) + stage_bytes(&one, kernel_of_backward(c));
}

// Gradients of states lie between windows in one buffer: an instance reads its own at its first
// step and writes them at its last. At both ends of time they are the caller's.
static void replace_state_gradients(const call *c, void **replaced, char *buffer, bool first,
                                    bool last) {
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (!is_state_gradient(memory)) continue;
    if (!last) replaced[memory->copy_from] = buffer;
    if (!first) replaced[i] = buffer;
    buffer += window_state_bytes(c, memory);
  }
}

void window_run(const call *c, int64_t steps, stage_saved saved, void *workspace) {
  int64_t windows = (c->time + steps - 1) / steps,
          saved_numbers = steps / c->table->chunk * saved.chunk_stride;
  char *buffer = (char *)workspace + alone_gradients_bytes(c),
       *stage = buffer + all_states_bytes(c);
  for (int64_t w = windows - 1; w >= 0; w--) {
    call one = window_call(c, w * steps, steps);
    bool last = w == windows - 1;
    void **replaced =
        last ? stage_replace_nothing(&one, workspace) : alone_replace_gradients(&one, workspace);
    replace_state_gradients(&one, replaced, buffer, w == 0, last);
    stage_saved of_window = saved;
    if (saved.data)
      of_window.data = (char *)saved.data + w * saved_numbers * c->table->number_bytes;
    stage_run(&one, kernel_of_backward(c), of_window, STAGE_ALL, NULL, stage);
    if (!last) alone_add_gradients(c, &one);
  }
}
