// The arithmetic of a model outside its recurrences: matrix products through BLAS, tables of
// embeddings, the loss, the steps of optimizers. Everything runs on the calling thread and sums in
// a fixed order.
//
// Rows are tokens: activations and their gradients. A `rows` view is a part of wider rows: `stride`
// elements from one row to the next. Weights, their gradients and moments, and states are float or
// double. Rows have the same type, or bfloat16 with float. With bfloat16, operands are widened, all
// arithmetic and sums are in float, and a result is rounded once when it is written. The weights of
// matrix products and tables are rounded to bfloat16 as they are read. The block of weights itself
// keeps its digits, so that small steps add up.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "runtime/train/data/tasks.h"

typedef struct rows {
  void *data;
  int64_t count, width, stride;
} rows;

typedef struct adamw_step {
  double rate, beta1, beta2, epsilon, decay;
  double correction1, correction2;  // 1 - beta^step
  double gradient_scale;            // clipping by the global norm
} adamw_step;

// The operations for one pair of types. `weight` is [out][in] row-major, `table` is
// [symbols][width].
typedef struct numeric {
  int element_size;  // of weights, their gradients and moments, states
  int token_size;    // of an element of a row
  // Bytes of memory that `linear` and `linear_backward` work in.
  int64_t (*linear_room)(int64_t in, int64_t out);
  // y = x weight^T (+ bias)
  void (*linear)(rows x, const void *weight, const void *bias, rows y, void *room);
  // dx = (dx +) dy weight, unless dx.data is NULL; d_weight += dy^T x; d_bias += column sums of dy
  void (*linear_backward)(rows x, const void *weight, rows dy, rows dx, bool add_to_dx,
                          void *d_weight, void *d_bias, void *room);
  void (*embed)(const token_id *tokens, const void *table, rows y);
  void (*embed_backward)(const token_id *tokens, rows dy, void *d_table);
  // Sum over the rows of -log softmax(logits)[target], in nats; with `losses` each row's own.
  // d_logits (data may be NULL, may be the logits' own memory) becomes scale * (softmax - one hot).
  // A target of NO_TARGET counts nothing, with `weights` each row its own weight times. `row` has
  // room for the logits of one row as weights.
  double (*cross_entropy)(rows logits, const token_id *targets, const float *weights, double scale,
                          rows d_logits, float *losses, void *row);
  // 1 where the target is the first of the greatest logits, else 0.
  void (*hits)(rows logits, const token_id *targets, uint8_t *hits);
  void (*add)(rows to, rows from);
  void (*zero)(rows to);
  double (*row_squares)(rows x);  // the sum of their squares
  void (*store_token)(void *row, int64_t position, double value);
  double (*load_token)(const void *row, int64_t position);
  // Of weights, their gradients and states:
  void (*sum_into)(void *to, const void *from, int64_t count);  // to += from
  double (*square_sum)(const void *values, int64_t count);
  void (*adamw)(void *values, const void *gradient, void *moment1, void *moment2, int64_t count,
                const adamw_step *step);
  // to[height][width] = a[height][depth] b[depth][width]; `to` has no gaps
  void (*product)(int64_t height, int64_t width, int64_t depth, const void *a, int64_t a_stride,
                  bool a_transposed, const void *b, int64_t b_stride, bool b_transposed, void *to);
  void (*combine)(void *to, double alpha, const void *from, double beta, int64_t count);
  void (*store)(void *to, int64_t position, double value);
  double (*load)(const void *from, int64_t position);
} numeric;

extern const numeric numeric_f32, numeric_f64, numeric_bf16;
