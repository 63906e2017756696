// Sums of the copies of a result that several tasks of a stage added to, in the order of the copies.
#include <stdatomic.h>
#include <string.h>

#include "runtime/support/narrow.h"
#include "runtime/support/stage.h"

enum {
  SUM_LANES = 128,
  SUM_BLOCK = 4096,  // numbers of one task
};

typedef struct sum {
  const call *call;
  rec_slot result;
  const char *copies;
  int64_t copy_count, copy_stride;  // numbers
  int64_t batch_stride;             // numbers between batch entries of the copies
  int64_t batch, steps, numbers;    // entries: batch x steps x numbers
  int64_t blocks;                   // of one batch entry
  bool parameter;
  int stored;
  _Atomic int64_t next;
} sum;

// The few copies of a token's gradient are added as the kernel adds.
#define DEFINE_SUM(name, number)                                                           \
  static void name(number *restrict result, const void *restrict from, int64_t copy_count, \
                   int64_t stride, int64_t count) {                                        \
    const number *numbers = from;                                                          \
    memcpy(result, numbers, (size_t)count * sizeof *result);                               \
    for (int64_t copy = 1; copy < copy_count; copy++) {                                    \
      numbers += stride;                                                                   \
      for (int64_t k = 0; k < count; k++) result[k] += numbers[k];                         \
    }                                                                                      \
  }
DEFINE_SUM(sum_floats, float)
DEFINE_SUM(sum_doubles, double)

// Those of a parameter may be many, one for each strip of the batch and slice of the time: they are
// added in double.
static void sum_floats_in_double(float *result, const float *copies, int64_t copy_count,
                                 int64_t copy_stride, int64_t count) {
  for (int64_t k = 0; k < count; k++) {
    double total = 0;
    for (int64_t copy = 0; copy < copy_count; copy++)
      total += (double)copies[copy * copy_stride + k];
    result[k] = (float)total;
  }
}

// A result that is narrower than a number is rounded once, when the sum is whole.
static void sum_narrow(const sum *s, int64_t to, int64_t from, int64_t count) {
  enum { ROW = 256 };
  float row[ROW];
  const float *copies = (const float *)(const void *)s->copies + from;
  for (int64_t k = 0; k < count; k += ROW) {
    int64_t numbers = smaller(ROW, count - k);
    sum_floats(row, copies + k, s->copy_count, s->copy_stride, numbers);
    rec_narrow((uint16_t *)s->result.data + to + k, row, numbers, s->stored);
  }
}

static void sum_result_numbers(const sum *s, int64_t batch, int64_t step, int64_t first,
                               int64_t last) {
  int64_t from = batch * s->batch_stride + step * s->numbers + first;
  int64_t to = batch * s->result.batch_stride + step * s->result.time_stride + first;
  int64_t count = last - first;
  int64_t bytes = s->call->table->number_bytes;
  const void *copies = s->copies + from * bytes;
  char *result = s->result.data;
  if (s->stored != REC_STORED_NUMBER && bytes != 8 && !s->parameter)
    sum_narrow(s, to, from, count);
  else if (bytes == 8)
    sum_doubles((double *)(void *)(result + to * bytes), copies, s->copy_count, s->copy_stride,
                count);
  else if (s->parameter)
    sum_floats_in_double((float *)(void *)(result + to * bytes), copies, s->copy_count,
                         s->copy_stride, count);
  else
    sum_floats((float *)(void *)(result + to * bytes), copies, s->copy_count, s->copy_stride,
               count);
}

// A block is a range of the numbers of one batch entry, all steps one behind the other.
static void sum_lane(void *argument, int64_t lane) {
  (void)lane;
  sum *s = argument;
  for (;;) {
    int64_t block = atomic_fetch_add_explicit(&s->next, 1, memory_order_relaxed);
    if (block >= s->blocks * s->batch) return;
    int64_t batch = block / s->blocks, first = block % s->blocks * SUM_BLOCK;
    int64_t last = smaller(first + SUM_BLOCK, s->steps * s->numbers);
    while (first < last) {
      int64_t step = first / s->numbers, within = first % s->numbers;
      int64_t end = smaller(s->numbers, within + last - first);
      sum_result_numbers(s, batch, step, within, end);
      first += end - within;
    }
  }
}

void stage_sum_copies(const call *c, const rec_table_memory *memory, const void *copies,
                      int64_t copy_count) {
  sum s = {.call = c,
           .result = call_slot(c, memory),
           .copies = copies,
           .copy_count = copy_count,
           .numbers = call_numbers(c, memory),
           .parameter = !memory->per_batch,
           .stored = memory->stored,
           .batch = stage_entries(c, memory),
           .steps = memory->token ? c->time : 1};
  if (s.result.time_stride == s.numbers) {  // dense: one long row
    s.numbers *= s.steps;
    s.steps = 1;
  }
  s.copy_stride = s.numbers * s.steps;
  s.batch_stride = s.copy_stride * s.copy_count;
  s.blocks = (s.numbers * s.steps + SUM_BLOCK - 1) / SUM_BLOCK;
  int64_t lanes = smaller(s.blocks * s.batch, SUM_LANES);
  stage_run_parallel(c, lanes, s.blocks * s.batch * SUM_BLOCK * s.copy_count > STAGE_WORTH_THREADS,
                     sum_lane, &s);
}
