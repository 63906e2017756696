// The host as a place to run: its memory, and numeric.c for everything else. Several threads may
// use it at the same time.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/internal.h"
#include "runtime/train/model/compute.h"

static rec_status host_allocate(const compute *c, int64_t bytes, void **memory) {
  (void)c;
  *memory = NULL;
  if (bytes == 0) return REC_OK;
  *memory = rec_numbers_new(bytes);
  return *memory ? REC_OK : rec_no_memory();
}

static void host_release(const compute *c, void *memory) {
  (void)c;
  free(memory);
}

static rec_status host_copy(const compute *c, void *to, const void *from, int64_t bytes) {
  (void)c;
  if (bytes) memcpy(to, from, (size_t)bytes);
  return REC_OK;
}

static rec_status host_clear(const compute *c, void *to, int64_t bytes) {
  (void)c;
  if (bytes) memset(to, 0, (size_t)bytes);
  return REC_OK;
}

static int64_t host_linear_room(const compute *c, int64_t in, int64_t out) {
  return c->n->linear_room(in, out);
}

// What numeric.h does, which cannot fail.
#define NUMERIC(name, parameters, call)      \
  static rec_status host_##name parameters { \
    call;                                    \
    return REC_OK;                           \
  }
NUMERIC(linear,
        (const compute *c, rows x, const void *weight, const void *bias, rows y, void *room),
        c->n->linear(x, weight, bias, y, room))
NUMERIC(linear_backward,
        (const compute *c, rows x, const void *weight, rows dy, rows dx, bool add, void *d_weight,
         void *d_bias, void *room),
        c->n->linear_backward(x, weight, dy, dx, add, d_weight, d_bias, room))
NUMERIC(embed, (const compute *c, const token_id *tokens, const void *table, rows y),
        c->n->embed(tokens, table, y))
NUMERIC(embed_backward, (const compute *c, const token_id *tokens, rows dy, void *d_table),
        c->n->embed_backward(tokens, dy, d_table))
NUMERIC(cross_entropy,
        (const compute *c, rows logits, const token_id *targets, const float *weights, double scale,
         rows d_logits, float *losses, void *row, double *total),
        *total = c->n->cross_entropy(logits, targets, weights, scale, d_logits, losses, row))
NUMERIC(hits, (const compute *c, rows logits, const token_id *targets, uint8_t *hits),
        c->n->hits(logits, targets, hits))
NUMERIC(add, (const compute *c, rows to, rows from), c->n->add(to, from))
NUMERIC(zero, (const compute *c, rows to), c->n->zero(to))
NUMERIC(row_squares, (const compute *c, rows x, double *sum), *sum = c->n->row_squares(x))
NUMERIC(sum_into, (const compute *c, void *to, const void *from, int64_t count),
        c->n->sum_into(to, from, count))
NUMERIC(square_sums, (const compute *c, const value_list *lists, int count, double *sums),
        for (int i = 0; i < count; i++) sums[i] = c->n->square_sum(lists[i].values, lists[i].count))
NUMERIC(adamw,
        (const compute *c, void *values, const void *gradient, void *moment1, void *moment2,
         int64_t count, const adamw_step *step),
        c->n->adamw(values, gradient, moment1, moment2, count, step))
NUMERIC(product,
        (const compute *c, int64_t height, int64_t width, int64_t depth, matrix a, matrix b,
         void *to),
        c->n->product(height, width, depth, a.data, a.stride, a.transposed, b.data, b.stride,
                      b.transposed, to))
NUMERIC(combine,
        (const compute *c, void *to, double alpha, const void *from, double beta, int64_t count),
        c->n->combine(to, alpha, from, beta, count))
#undef NUMERIC

static rec_status host_normalize(const compute *c, void *values, int64_t count, double epsilon) {
  c->n->combine(values, 1 / (sqrt(c->n->square_sum(values, count)) + epsilon), values, 0, count);
  return REC_OK;
}

#define host_upload host_copy
#define host_download host_copy
#define OPERATION(name) .name = host_##name,
static const compute_ops host_ops = {COMPUTE_OPERATIONS(OPERATION)};
#undef OPERATION

rec_status compute_place(const compute *c, const void *here, int64_t bytes, void **there) {
  *there = (void *)(uintptr_t)here;
  if (compute_is_host(c)) return REC_OK;
  rec_status status = c->ops->allocate(c, bytes, there);
  return status ? status : c->ops->upload(c, *there, here, bytes);
}

void compute_take_back(const compute *c, const void *here, void *there) {
  if (there != here) c->ops->release(c, there);
}

const compute compute_host_f32 = {&host_ops, &numeric_f32, REC_DEVICE_HOST};
const compute compute_host_f64 = {&host_ops, &numeric_f64, REC_DEVICE_HOST};
const compute compute_host_bf16 = {&host_ops, &numeric_bf16, REC_DEVICE_HOST};
