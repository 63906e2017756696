// Where a model runs: memory, and the operations of program.h on it. The host is one such place
// (compute_host.c). Pointers to tokens, rows, weights, gradients and losses point into the memory
// of the place. Single numbers are returned to the host.
#pragma once

#include "compiler/abi/launch.h"
#include "runtime/rec.h"
#include "runtime/train/model/numeric.h"

typedef struct compute compute;

// Weights, or what is computed of them, row by row: `stride` numbers from one row to the next.
typedef struct matrix {
  const void *data;
  int64_t stride;
  bool transposed;
} matrix;

// Numbers one behind the other.
typedef struct value_list {
  const void *values;
  int64_t count;
} value_list;

enum { SQUARES_AT_ONCE = 64 };

// What operations do is said in numeric.h. `room` has linear_room bytes.
typedef struct compute_ops {
  // At a multiple of REC_ALIGNMENT; NULL for 0 bytes.
  rec_status (*allocate)(const compute *c, int64_t bytes, void **memory);
  void (*release)(const compute *c, void *memory);  // NULL is allowed
  rec_status (*upload)(const compute *c, void *to, const void *from, int64_t bytes);
  rec_status (*download)(const compute *c, void *to, const void *from, int64_t bytes);
  rec_status (*copy)(const compute *c, void *to, const void *from, int64_t bytes);
  rec_status (*clear)(const compute *c, void *to, int64_t bytes);

  int64_t (*linear_room)(const compute *c, int64_t in, int64_t out);
  rec_status (*linear)(const compute *c, rows x, const void *weight, const void *bias, rows y,
                       void *room);
  rec_status (*linear_backward)(const compute *c, rows x, const void *weight, rows dy, rows dx,
                                bool add_to_dx, void *d_weight, void *d_bias, void *room);
  rec_status (*embed)(const compute *c, const token_id *tokens, const void *table, rows y);
  rec_status (*embed_backward)(const compute *c, const token_id *tokens, rows dy, void *d_table);
  // *total: the sum. `losses`: each row's own; NULL is allowed on the host, which alone needs
  // `row`.
  rec_status (*cross_entropy)(const compute *c, rows logits, const token_id *targets,
                              const float *weights, double scale, rows d_logits, float *losses,
                              void *row, double *total);
  rec_status (*hits)(const compute *c, rows logits, const token_id *targets, uint8_t *hits);
  rec_status (*add)(const compute *c, rows to, rows from);
  rec_status (*zero)(const compute *c, rows to);
  rec_status (*row_squares)(const compute *c, rows x, double *sum);
  rec_status (*sum_into)(const compute *c, void *to, const void *from, int64_t count);
  // Of each of at most SQUARES_AT_ONCE lists. A device is waited for once.
  rec_status (*square_sums)(const compute *c, const value_list *lists, int count, double *sums);
  rec_status (*adamw)(const compute *c, void *values, const void *gradient, void *moment1,
                      void *moment2, int64_t count, const adamw_step *step);
  // to[height][width] = a[height][depth] b[depth][width]
  rec_status (*product)(const compute *c, int64_t height, int64_t width, int64_t depth, matrix a,
                        matrix b, void *to);
  // to = alpha to + beta from
  rec_status (*combine)(const compute *c, void *to, double alpha, const void *from, double beta,
                        int64_t count);
  // Divides numbers by epsilon and the root of the sum of their squares.
  rec_status (*normalize)(const compute *c, void *values, int64_t count, double epsilon);
} compute_ops;

// Each of them, for the tables of places: `OPERATION(name)` is an entry.
// clang-format off
#define COMPUTE_OPERATIONS(OPERATION) \
  OPERATION(allocate) OPERATION(release) OPERATION(upload) OPERATION(download) OPERATION(copy) OPERATION(clear) \
  OPERATION(linear_room) OPERATION(linear) OPERATION(linear_backward) OPERATION(embed) OPERATION(embed_backward) \
  OPERATION(cross_entropy) OPERATION(hits) OPERATION(add) OPERATION(zero) OPERATION(row_squares) OPERATION(sum_into) \
  OPERATION(square_sums) OPERATION(adamw) OPERATION(product) OPERATION(combine) OPERATION(normalize)
// clang-format on

struct compute {
  const compute_ops *ops;
  const numeric *n;  // the types of numbers, and arithmetic on what lies in the host's memory
  int32_t device;    // REC_DEVICE_HOST, ..: of the kernels of recurrences
};

extern const compute compute_host_f32, compute_host_f64, compute_host_bf16;

// What lies in the host's memory, as the operations can read it: itself, or a copy until
// compute_take_back.
rec_status compute_place(const compute *c, const void *here, int64_t bytes, void **there);
void compute_take_back(const compute *c, const void *here, void *there);

static inline bool compute_is_host(const compute *c) { return c->device == REC_DEVICE_HOST; }
