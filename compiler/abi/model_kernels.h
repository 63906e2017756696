// The GPU kernels of models: what a model does beside its recurrences (compute.h). They know no
// model: all sizes come with a launch. compiler/model_kernels writes them, librec carries them as
// PTX and for the executor, compute_gpu.c starts them. The two must agree on what follows.
//
// Each has one parameter, a struct of below. Names end in the type of rows, _f32 or _bf16; weights,
// their gradients and moments are f32. Blocks have MODEL_THREADS threads, grids any number of
// blocks. Sums have a fixed order.
#pragma once

#include "compiler/abi/token.h"

enum {
  MODEL_THREADS = 256,
  // rows and columns of a product that a block makes at a time
  MODEL_TILE = 64,
  // of the two factors in shared memory, f32
  MODEL_DEPTH = 16,
  MODEL_CORE_DEPTH = 32,  // the same for tensor cores, 16 bits
  // between rows: eight of them differ in their banks
  MODEL_PITCH = MODEL_CORE_DEPTH + 8,
  MODEL_SHARED_BYTES = 2 * MODEL_TILE * MODEL_PITCH * 2,  // as much as any of them has
  // of the symbols, for gradients of a table
  MODEL_PARTS = 64
};

// F(name, parameter): every kernel, once for each type of rows.
#define MODEL_KERNELS(F)                \
  F(product, model_product)             \
  F(weight_product, model_product)      \
  F(column_sums, model_column_sums)     \
  F(embed, model_embed)                 \
  F(embed_backward, model_embed)        \
  F(cross_entropy, model_cross_entropy) \
  F(add, model_add)                     \
  F(square_sums, model_square_sums)     \
  F(adamw, model_adamw)                 \
  F(combine, model_combine)             \
  F(normalize, model_normalize)         \
  F(round, model_round)

enum {
#define MODEL_KERNEL_NUMBER(name, parameter) MODEL_##name,
  MODEL_KERNELS(MODEL_KERNEL_NUMBER)
#undef MODEL_KERNEL_NUMBER
      MODEL_KERNEL_COUNT
};

typedef struct model_rows {
  void *data;
  int64_t count, width, stride;
} model_rows;

// to[i][j] = (to[i][j] +) (bias[j] +) sum over k of a[i][k] b[k][j].
//   product         a and `to` are rows, b weights, which bf16 rows have rounded
//   weight_product  a and b are rows, `to` a weight's gradient
typedef struct model_product {
  const void *a, *b;
  void *to;
  const float *bias;  // NULL: none
  int64_t rows, columns, depth;
  int64_t a_row, a_column, b_row, b_column, to_row;  // numbers from one to the next
  int64_t add;                                       // 0: `to` is overwritten
} model_product;

typedef struct model_column_sums {  // to[j] += sum over i of from[i][j]
  model_rows from;
  float *to;
} model_column_sums;

typedef struct model_embed {
  const token_id *tokens;
  model_rows rows;
  float *table;  // [symbol][width]: read, or added to
} model_embed;

typedef struct model_cross_entropy {
  model_rows logits;
  model_rows d_logits;      // data NULL: not wanted; may be the logits' own memory
  const token_id *targets;  // NO_TARGET: none
  const float *weights;     // NULL: 1
  float *losses;            // of each row
  float scale;
} model_cross_entropy;

typedef struct model_add {  // to += from; to = 0 where from.data is NULL
  model_rows to, from;
} model_add;

typedef struct model_square_sums {
  model_rows from;
  float *sums;  // by block
} model_square_sums;

typedef struct model_adamw {
  float *values, *moment1, *moment2;
  const float *gradient;
  int64_t count;
  float rate, beta1, beta2, epsilon, gradient_scale;
  float spread, shrink;  // 1 / (1 - beta2^step), 1 - rate * decay
} model_adamw;

typedef struct model_combine {  // to = alpha to + beta from
  float *to;
  const float *from;
  int64_t count;
  float alpha, beta;
} model_combine;

typedef struct model_normalize {  // values /= sqrt(sum of sums) + epsilon
  float *values;
  const float *sums;
  int64_t count, sum_count;
  float epsilon;
} model_normalize;

typedef struct model_round {  // weights in the type of rows
  const float *from;
  void *to;
  int64_t count;
} model_round;
