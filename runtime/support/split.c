// Combines time slices by their states.
//
//   ends:   every slice but the last from a zero state (the first from h0)     side by side
//   carry:  the product of the decays of every inner slice                     side by side
//   scan:   before[p + 1] = carry[p] * before[p] + end[p]                      one after another
//   whole:  every slice from its state                                         side by side
//
// Where a product of decays overflows, the call runs as one slice.
//
// Backward is the same in reverse with cotangents: after[p - 1] = conj(carry[p]) * after[p] +
// start[p]. start[p] is the gradient of slice p's initial state for a zero cotangent after it.
#include "runtime/support/split.h"

#include <string.h>

enum { CUT_PARTS_MAX = 16, CUT_STEPS_MIN = 256 };

// The states that a slice has at its two ends.
typedef enum state_end { BEFORE, AFTER, D_BEFORE, D_AFTER } state_end;

typedef struct state_memory {
  state_end end;
  int64_t at;       // numbers before it in a buffer that holds all states
  int64_t numbers;  // a complex number is two
  bool complex;
} state_memory;

// Final states know their initial ones, gradients of initial states the cotangents of final ones.
static bool is_pair(const rec_table_memory *memory, bool gradients) {
  int32_t use = gradients ? memory->backward_use : memory->forward_use;
  return use == REC_WRITE_OPTIONAL && memory->copy_from >= 0;
}

static int64_t padded(const call *c, int64_t numbers) {
  return round_up(numbers, REC_ALIGNMENT / c->table->number_bytes);
}

static state_memory find_state(const call *c, int index) {
  for (int gradients = 0; gradients < 2; gradients++) {
    int64_t at = 0;
    for (int i = 0; i < c->table->memory_count; i++) {
      const rec_table_memory *memory = table_memory(c->table, i);
      if (!is_pair(memory, gradients)) continue;
      int64_t numbers = call_numbers(c, memory);
      if (i == index || memory->copy_from == index)
        return (state_memory){
            .end = gradients ? (i == index ? D_BEFORE : D_AFTER) : (i == index ? AFTER : BEFORE),
            .at = at,
            .numbers = numbers,
            .complex = memory->factor == 2};
      at += padded(c, numbers);
    }
  }
  return (state_memory){0};
}

// Numbers of all states, each padded to whole cache lines.
static int64_t all_numbers(const call *c) {
  int64_t total = 0;
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (is_pair(memory, false)) total += padded(c, call_numbers(c, memory));
  }
  return total;
}

// Gradients of states that several instances share are sums; those are not cut.
static bool adds_states(const call *c, const rec_table_kernel *kernel) {
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, kernel, i);
    if (slot->accumulated && stage_is_state(table_memory(c->table, slot->memory))) return true;
  }
  return false;
}

static bool is_compiled(const rec_table_kernel *kernel) {
  for (int clone = 0; clone < REC_CLONES; clone++)
    if (kernel->functions[clone]) return true;
  return false;
}

static bool can_be_cut(const call *c) {
  const rec_table_kernel *kernels = c->table->kernels;
  return !c->packed && c->time >= SPLIT_TIME_MIN && is_compiled(&kernels[REC_KERNEL_CARRY]) &&
         !adds_states(c, &kernels[REC_KERNEL_BACKWARD]) &&
         stage_plan(c, &kernels[REC_KERNEL_FORWARD]).tasks == 1;
}

void split_most(call *c) {
  c->slices = c->slice_steps = 0;
  if (!can_be_cut(c)) return;
  c->slices = CUT_PARTS_MAX;
  c->slice_steps = round_up((c->time + c->slices - 1) / c->slices, c->table->chunk);
}

void split_plan(call *c) {
  c->slices = c->slice_steps = 0;
  if (!can_be_cut(c)) return;
  int64_t slices = smaller(CUT_PARTS_MAX, c->time / CUT_STEPS_MIN);
  c->slice_steps = round_up((c->time + slices - 1) / slices, c->table->chunk);
  c->slices = (c->time + c->slice_steps - 1) / c->slice_steps;
  if (c->slices < FEWEST_SLICES) c->slices = c->slice_steps = 0;
}

// ---- buffers: [slice][states], and one state of ones ------------------------------------------

typedef struct split {
  const call *call;
  int64_t stride;  // numbers of all states
  char *before;    // forward: state before each slice; then all but the first is read and written
  char *after;     // backward: cotangent of the state after each slice
  char *carry;     // product of the decays of each slice
  char *ones;
  void *stage;  // workspace of the stages
} split;

static int64_t buffers_bytes(const call *c, bool backward) {
  int64_t states = all_numbers(c) * c->table->number_bytes;
  return states * ((backward ? 3 : 2) * c->slices + 1);
}

int64_t split_bytes(const call *c, bool backward) {
  int64_t stage = 0;
  for (int i = 0; i < REC_KERNEL_COUNT; i++) {
    const rec_table_kernel *kernel = &c->table->kernels[i];
    if (i == REC_KERNEL_STEP || (i == REC_KERNEL_BACKWARD && !backward)) continue;
    if (is_compiled(kernel)) stage = larger(stage, stage_bytes(c, kernel));  // some are GPUs' alone
  }
  return buffers_bytes(c, backward) + stage;
}

static char *state_at(const split *s, char *buffer, int64_t slice, int64_t at) {
  return buffer + (slice * s->stride + at) * s->call->table->number_bytes;
}

static void set_ones(const split *s) {
  const call *c = s->call;
  for (int i = 0; i < c->table->memory_count; i++) {
    if (!is_pair(table_memory(c->table, i), false)) continue;
    state_memory m = find_state(c, i);
    void *data = state_at(s, s->ones, 0, m.at);
    for (int64_t k = 0; k < m.numbers; k++) {
      double one = m.complex && k % 2 ? 0 : 1;
      if (c->table->number_bytes == 8)
        ((double *)data)[k] = one;
      else
        ((float *)data)[k] = (float)one;
    }
  }
}

static split split_new(const call *c, bool backward, void *workspace) {
  split s = {.call = c, .stride = all_numbers(c)};
  int64_t bytes = s.stride * c->table->number_bytes;
  s.before = workspace;
  s.carry = s.before + bytes * c->slices;
  s.ones = s.carry + bytes * c->slices;
  s.after = s.ones + bytes;
  s.stage = (char *)workspace + buffers_bytes(c, backward);
  set_ones(&s);
  return s;
}

// Copies the caller's states of one kind, zero where there are none.
static void copy_callers(const split *s, state_end end, char *buffer, int64_t slice) {
  const call *c = s->call;
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (!stage_is_state(memory)) continue;
    state_memory m = find_state(c, i);
    if (m.end != end) continue;
    void *to = state_at(s, buffer, slice, m.at);
    const void *from = call_data(c, memory);
    size_t bytes = (size_t)(m.numbers * c->table->number_bytes);
    if (from)
      memcpy(to, from, bytes);
    else
      memset(to, 0, bytes);
  }
}

// ---- passes: which memory holds a slice's states ----------------------------------------------

static void *callers(const split *s, int memory) {
  return call_data(s->call, table_memory(s->call->table, memory));
}

static void *ends_state(void *context, int memory, int64_t slice) {
  const split *s = context;
  state_memory m = find_state(s->call, memory);
  if (m.end == BEFORE) return slice == 0 ? state_at(s, s->before, 0, m.at) : NULL;
  return state_at(s, s->before, slice + 1, m.at);
}

static void *carry_state(void *context, int memory, int64_t slice) {
  const split *s = context;
  state_memory m = find_state(s->call, memory);
  return m.end == BEFORE ? state_at(s, s->ones, 0, m.at) : state_at(s, s->carry, slice, m.at);
}

static void *whole_state(void *context, int memory, int64_t slice) {
  const split *s = context;
  state_memory m = find_state(s->call, memory);
  if (m.end == BEFORE) return state_at(s, s->before, slice, m.at);
  return slice == s->call->slices - 1 ? callers(s, memory) : NULL;
}

// The states themselves come from `saved`.
static void *starts_state(void *context, int memory, int64_t slice) {
  const split *s = context;
  state_memory m = find_state(s->call, memory);
  if (m.end == D_BEFORE) return state_at(s, s->after, slice - 1, m.at);
  bool last = slice == s->call->slices - 1;
  return m.end == D_AFTER && last ? state_at(s, s->after, slice, m.at) : NULL;
}

static void *whole_gradient(void *context, int memory, int64_t slice) {
  const split *s = context;
  state_memory m = find_state(s->call, memory);
  if (m.end == D_AFTER) return state_at(s, s->after, slice, m.at);
  return m.end == D_BEFORE && slice == 0 ? callers(s, memory) : NULL;
}

static void run_pass(split *s, int kind, stage_saved saved, stage_results results, int64_t first,
                     int64_t last, void *(*state)(void *, int, int64_t)) {
  stage_slices slices = {.first = first, .last = last, .state = state, .context = s};
  stage_run(s->call, &s->call->table->kernels[kind], saved, results, &slices, s->stage);
}

// ---- the scan --------------------------------------------------------------------------------

// to += factor * from, with the factor's conjugate in the backward direction.
#define DEFINE_ADD_CARRIED(name, number)                                                \
  static void name(number *to, const number *factor, const number *from, int64_t count, \
                   bool complex, number sign) {                                         \
    if (!complex) {                                                                     \
      for (int64_t k = 0; k < count; k++) to[k] += factor[k] * from[k];                 \
      return;                                                                           \
    }                                                                                   \
    for (int64_t k = 0; k < count; k += 2) {                                            \
      number re = factor[k], im = sign * factor[k + 1];                                 \
      to[k] += re * from[k] - im * from[k + 1];                                         \
      to[k + 1] += re * from[k + 1] + im * from[k];                                     \
    }                                                                                   \
  }
DEFINE_ADD_CARRIED(add_carried_floats, float)
DEFINE_ADD_CARRIED(add_carried_doubles, double)

// Adds what slice `slice` carries from one of its ends to the other.
static void carry_over(const split *s, char *states, int64_t slice, int64_t from, int64_t to,
                       bool conjugate) {
  const call *c = s->call;
  for (int i = 0; i < c->table->memory_count; i++) {
    if (!is_pair(table_memory(c->table, i), false)) continue;
    state_memory m = find_state(c, i);
    void *target = state_at(s, states, to, m.at);
    const void *factor = state_at(s, s->carry, slice, m.at),
               *source = state_at(s, states, from, m.at);
    if (c->table->number_bytes == 8)
      add_carried_doubles(target, factor, source, m.numbers, m.complex, conjugate ? -1 : 1);
    else
      add_carried_floats(target, factor, source, m.numbers, m.complex, conjugate ? -1 : 1);
  }
}

// ---- calls -----------------------------------------------------------------------------------

static void find_states(split *s) {
  int64_t slices = s->call->slices;
  stage_saved none = {0};
  copy_callers(s, BEFORE, s->before, 0);
  run_pass(s, REC_KERNEL_STATES, none, STAGE_STATES, 0, slices - 1, ends_state);
  for (int64_t p = 1; p < slices - 1; p++) carry_over(s, s->before, p, p, p + 1, false);
}

static void find_carries(split *s) {
  stage_saved none = {0};
  run_pass(s, REC_KERNEL_CARRY, none, STAGE_STATES, 1, s->call->slices - 1, carry_state);
}

static bool is_finite(const call *c, const char *numbers, int64_t count) {
  bool finite = true;
  for (int64_t k = 0; k < count; k++) {
    double x = c->table->number_bytes == 8 ? ((const double *)(const void *)numbers)[k]
                                           : (double)((const float *)(const void *)numbers)[k];
    finite &= x - x == 0;
  }
  return finite;
}

// Decays above 1 may have a product without a number where the states, step by step, stay finite.
static bool carries_are_finite(const split *s) {
  const call *c = s->call;
  for (int64_t p = 1; p < c->slices - 1; p++) {
    for (int i = 0; i < c->table->memory_count; i++) {
      if (!is_pair(table_memory(c->table, i), false)) continue;
      state_memory m = find_state(c, i);
      if (!is_finite(c, state_at(s, s->carry, p, m.at), m.numbers)) return false;
    }
  }
  return true;
}

// The call without its cut: one slice needs no more workspace than many.
static call uncut(const call *c) {
  call whole = *c;
  whole.slices = whole.slice_steps = 0;
  return whole;
}

void split_forward_call(const call *c, stage_saved saved, void *workspace) {
  split s = split_new(c, false, workspace);
  find_carries(&s);
  if (!carries_are_finite(&s)) {
    call whole = uncut(c);
    stage_run(&whole, &c->table->kernels[REC_KERNEL_FORWARD], saved, STAGE_ALL, NULL, s.stage);
    return;
  }
  find_states(&s);
  run_pass(&s, REC_KERNEL_FORWARD, saved, STAGE_ALL, 0, c->slices, whole_state);
}

void split_backward_call(const call *c, stage_saved saved, bool recompute, void *workspace) {
  split s = split_new(c, true, workspace);
  find_carries(&s);
  if (!carries_are_finite(&s)) {
    const rec_table_kernel *kernels = c->table->kernels;
    call whole = uncut(c);
    if (recompute)
      stage_run(&whole, &kernels[REC_KERNEL_STATES], saved, STAGE_SAVED, NULL, s.stage);
    stage_run(&whole, &kernels[REC_KERNEL_BACKWARD], saved, STAGE_ALL, NULL, s.stage);
    return;
  }
  if (recompute) {
    find_states(&s);
    run_pass(&s, REC_KERNEL_STATES, saved, STAGE_SAVED, 0, c->slices, whole_state);
  }
  copy_callers(&s, D_AFTER, s.after, c->slices - 1);
  run_pass(&s, REC_KERNEL_BACKWARD, saved, STAGE_STATES, 1, c->slices, starts_state);
  for (int64_t p = c->slices - 2; p >= 1; p--) carry_over(&s, s.after, p, p, p - 1, true);
  run_pass(&s, REC_KERNEL_BACKWARD, saved, STAGE_ALL, 0, c->slices, whole_gradient);
}
