// Finds the first number outside of its promised range.
//
//   input g[H] in [-5, 0]  ->  f_forward: expected g in [-5, 0], as promised, found 0.25 in step 3
//     of batch entry 1, [H=2]
//
// A chunk never holds the states between its ends. Those come from the single-step form, one entry
// after another, step by step.
#include "runtime/support/promise.h"

#include <stdio.h>
#include <string.h>

#include "runtime/support/error.h"
#include "runtime/support/narrow.h"
#include "runtime/support/stage.h"

static double stored_number(const call *c, const rec_table_memory *memory, const void *data,
                            int64_t index) {
  if (memory->stored != REC_STORED_NUMBER)
    return (double)rec_widen(((const uint16_t *)data)[index], memory->stored);
  return c->table->number_bytes == 8 ? ((const double *)data)[index]
                                     : (double)((const float *)data)[index];
}

// The bound as the memory can hold it: a number that was rounded to it keeps the promise.
static double bound_of(const call *c, const rec_table_memory *memory, double bound) {
  float single = (float)bound;
  uint16_t half;
  if (memory->stored == REC_STORED_NUMBER)
    return c->table->number_bytes == 8 ? bound : (double)single;
  rec_narrow(&half, &single, 1, memory->stored);
  return (double)rec_widen(half, memory->stored);
}

// "[G=0,R=3]", or nothing; a complex number's part behind it.
static void place_text(const call *c, const rec_table_memory *memory, int64_t index, char *text,
                       size_t size) {
  const int32_t *axes = table_at(c->table, memory->axes_at);
  int64_t numbers = call_numbers(c, memory) / memory->factor, at = index / memory->factor;
  size_t used = 0;
  *text = 0;
  for (int k = 0; k < memory->axis_count && used < size; k++) {
    numbers /= c->axis_size[axes[k]];
    used += (size_t)snprintf(text + used, size - used, "%s%s=%lld", k ? "," : ", [",
                             table_text(c->table, table_axis(c->table, axes[k])->name_at),
                             (long long)(at / numbers));
    at %= numbers;
  }
  if (memory->axis_count && used < size) used += (size_t)snprintf(text + used, size - used, "]");
  if (memory->factor == 2 && used < size)
    snprintf(text + used, size - used, ", %s part", index % 2 ? "imaginary" : "real");
}

// step -1: the memory has none.
static rec_status report_broken_promise(const call *c, const rec_table_memory *memory, double found,
                                        int64_t entry, int64_t step, int64_t index) {
  char place[160], where[96] = "";
  const char *of = c->packed ? "sequence" : "batch entry";
  place_text(c, memory, index, place, sizeof place);
  if (step >= 0)
    snprintf(where, sizeof where, " in step %lld of %s %lld", (long long)step, of,
             (long long)entry);
  else if (memory->per_batch)
    snprintf(where, sizeof where, " in %s %lld", of, (long long)entry);
  return call_fail(c, REC_ERROR_PROMISE, "expected %s in [%.9g, %.9g], as promised, found %.9g%s%s",
                   table_text(c->table, memory->name_at), memory->low, memory->high, found, where,
                   place);
}

// The numbers of one entry or step. `step` stands in the message.
static rec_status check_promised_numbers(const call *c, const rec_table_memory *memory,
                                         const void *data, int64_t entry, int64_t step) {
  int64_t numbers = call_numbers(c, memory);
  double low = bound_of(c, memory, memory->low), high = bound_of(c, memory, memory->high);
  for (int64_t k = 0; k < numbers; k++) {
    double x = stored_number(c, memory, data, k);
    if (!(x >= low && x <= high)) return report_broken_promise(c, memory, x, entry, step, k);
  }
  return REC_OK;
}

static int64_t entry_steps(const call *c, int64_t entry) {
  return c->packed ? (int64_t)c->cu_seqlens[entry + 1] - c->cu_seqlens[entry] : c->time;
}

static int64_t first_step_in_entry(const call *c, int64_t entry) {
  return c->packed ? c->cu_seqlens[entry] : 0;
}

static rec_status check_promised_tokens(const call *c, const rec_table_memory *memory) {
  rec_slot slot = call_slot(c, memory);
  rec_status status = REC_OK;
  for (int64_t e = 0; e < call_entries(c) && status == REC_OK; e++) {
    int64_t at =
        (c->packed ? 0 : e) * slot.batch_stride + first_step_in_entry(c, e) * slot.time_stride;
    for (int64_t t = 0; t < entry_steps(c, e) && status == REC_OK; t++)
      status = check_promised_numbers(
          c, memory,
          (const char *)slot.data + (at + t * slot.time_stride) * table_bytes(c->table, memory), e,
          t);
  }
  return status;
}

static rec_status check_memory(const call *c, const rec_table_memory *memory) {
  const char *data = call_data(c, memory);
  if (!memory->promised || !data || call_total(c, memory) == 0) return REC_OK;
  if (memory->token) return check_promised_tokens(c, memory);
  int64_t bytes = call_numbers(c, memory) * table_bytes(c->table, memory);
  rec_status status = REC_OK;
  for (int64_t e = 0; e < (memory->per_batch ? call_entries(c) : 1) && status == REC_OK; e++)
    status = check_promised_numbers(c, memory, data + e * bytes, e, -1);
  return status;
}

rec_status promise_check_operands(const call *c, bool backward) {
  rec_status status = REC_OK;
  for (int i = 0; i < c->table->memory_count && status == REC_OK; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    int32_t use = backward ? memory->backward_use : memory->forward_use;
    if (use == REC_READ || use == REC_READ_OPTIONAL) status = check_memory(c, memory);
  }
  return status;
}

rec_status promise_check_outputs(const call *c) {
  rec_status status = REC_OK;
  for (int i = 0; i < c->table->memory_count && status == REC_OK; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (memory->forward_use == REC_WRITE) status = check_memory(c, memory);
  }
  return status;
}

// ---- states, step by step --------------------------------------------------------------------

// A memory of final states that knows its initial ones.
static bool is_final(const rec_table_memory *memory) {
  return memory->forward_use == REC_WRITE_OPTIONAL && memory->copy_from >= 0;
}

static bool promises_states(const call *c) {
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    if (is_final(memory) && memory->promised) return true;
  }
  return false;
}

// Bytes of the states of one entry.
static int64_t all_bytes(const call *c) {
  int64_t bytes = 0;
  for (int i = 0; i < c->table->memory_count; i++)
    if (is_final(table_memory(c->table, i)))
      bytes += call_entry_bytes(c, table_memory(c->table, i));
  return bytes;
}

// A call of single steps of one entry.
static call single_step_call(const call *c) {
  call one = *c;
  one.packed = false;
  one.batch = 1;
  one.time = 1;
  one.slices = 0;
  return one;
}

int64_t promise_bytes(const call *c) {
  if (!promises_states(c)) return 0;
  call one = single_step_call(c);
  return stage_pointers_bytes(c) + 2 * all_bytes(c) +
         stage_bytes(&one, kernel_of_call(c, REC_KERNEL_STEP));
}

typedef struct walk {
  const call *call;
  void **replaced;  // by memory
  char *before, *after, *stage;
} walk;

// States before the first step.
static void start_walk(const walk *w, int64_t entry) {
  const call *c = w->call;
  char *to = w->before;
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *final = table_memory(c->table, i);
    if (!is_final(final)) continue;
    size_t bytes = (size_t)(call_numbers(c, final) * c->table->number_bytes);
    const char *initial = call_data(c, table_memory(c->table, final->copy_from));
    if (initial)
      memcpy(to, initial + (size_t)entry * bytes, bytes);
    else
      memset(to, 0, bytes);
    to += call_entry_bytes(c, final);
  }
}

// One step from `before` to `after`, which then change their places.
static rec_status walk_step(walk *w, const call *one, int64_t entry, int64_t step) {
  const call *c = w->call;
  int64_t at = 0;
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *final = table_memory(c->table, i);
    if (!is_final(final)) continue;
    w->replaced[final->copy_from] = w->before + at;
    w->replaced[i] = w->after + at;
    at += call_entry_bytes(c, final);
  }
  stage_run(one, kernel_of_call(c, REC_KERNEL_STEP), (stage_saved){0}, STAGE_STATES, NULL,
            w->stage);
  rec_status status = REC_OK;
  for (int i = 0; i < c->table->memory_count && status == REC_OK; i++) {
    const rec_table_memory *final = table_memory(c->table, i);
    if (is_final(final) && final->promised)
      status = check_promised_numbers(c, final, w->replaced[i], entry, step);
  }
  char *before = w->before;
  w->before = w->after;
  w->after = before;
  return status;
}

rec_status promise_check_states(const call *c, void *workspace) {
  if (!promises_states(c)) return REC_OK;
  walk w = {.call = c, .replaced = workspace};
  w.before = (char *)workspace + stage_pointers_bytes(c);
  w.after = w.before + all_bytes(c);
  w.stage = w.after + all_bytes(c);
  memset(w.replaced, 0, sizeof *w.replaced * (size_t)c->table->memory_count);
  call one = single_step_call(c);
  one.replaced = w.replaced;
  rec_status status = REC_OK;
  for (int64_t e = 0; e < call_entries(c) && status == REC_OK; e++) {
    start_walk(&w, e);
    one.first_entry = c->packed ? 0 : e;
    for (int64_t t = 0; t < entry_steps(c, e) && status == REC_OK; t++) {
      one.first_step = first_step_in_entry(c, e) + t;
      status = walk_step(&w, &one, e, t);
    }
  }
  return status;
}
