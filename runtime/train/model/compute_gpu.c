// The operations of compute.h on a GPU or the executor: kernels of models, and cuBLAS for the products
// where there is one.
//
//   y = x weight^T: [round weight] cublasGemmEx, or rec_model_product_f32 over tiles of 64 x 64
#include <stdlib.h>

#include "runtime/train/model/gpu_place.h"

static const gpu_place *place(const compute *c) { return (const gpu_place *)(uintptr_t)c; }

static model_rows rows_there(rows x) { return (model_rows){x.data, x.count, x.width, x.stride}; }

// Numbers one behind the other, as one row.
static model_rows one_row(const void *values, int64_t count) {
  return (model_rows){(void *)(uintptr_t)values, 1, count, count};
}

static int64_t blocks_for(int64_t numbers) { return (numbers + MODEL_THREADS - 1) / MODEL_THREADS; }

// ---- products -----------------------------------------------------------------------------------

static int64_t gpu_linear_room(const compute *c, int64_t in, int64_t out) {
  bool rounds = place(c)->narrow && place(c)->blas.opened;
  return rounds ? in * out * (int64_t)sizeof(uint16_t) : 0;
}

static int64_t tiles_of(const model_product *p) {
  return (p->rows + MODEL_TILE - 1) / MODEL_TILE * ((p->columns + MODEL_TILE - 1) / MODEL_TILE);
}

static rec_status start_product(const compute *c, int kernel, const model_product *p) {
  return gpu_start(c, kernel, tiles_of(p), p);
}

static int row_type(const compute *c) { return place(c)->narrow ? CUDA_TYPE_BF16 : CUDA_TYPE_F32; }

// Rows of tokens as the columns of a matrix.
static cublas_matrix columns_of(const compute *c, rows x) { return (cublas_matrix){x.data, x.stride, row_type(c), false}; }

// The weights [out][in] in the type of rows: `in` numbers in each of `out` columns.
static rec_status weights_for_blas(const compute *c, const void *weight, int64_t in, int64_t out, void *room,
                                   cublas_matrix *w) {
  *w = (cublas_matrix){weight, in, row_type(c), false};
  if (!place(c)->narrow) return REC_OK;
  w->data = room;
  model_round p = {weight, room, in * out};
  return gpu_start(c, MODEL_round, blocks_for(in * out), &p);
}

static rec_status gpu_linear(const compute *c, rows x, const void *weight, const void *bias, rows y, void *room) {
  if (!x.count) return REC_OK;
  // cuBLAS knows no bias.
  if (place(c)->blas.opened && !bias) {
    cublas_matrix w;
    rec_status status = weights_for_blas(c, weight, x.width, y.width, room, &w);
    w.transposed = true;
    return status ? status
                  : cublas_product(&place(c)->blas, y.width, x.count, x.width, w, columns_of(c, x), columns_of(c, y), false);
  }
  model_product p = {.a = x.data,
                     .b = weight,
                     .to = y.data,
                     .bias = bias,
                     .rows = x.count,
                     .columns = y.width,
                     .depth = x.width,
                     .a_row = x.stride,
                     .a_column = 1,
                     .b_row = 1,
                     .b_column = x.width,
                     .to_row = y.stride};
  return start_product(c, MODEL_product, &p);
}

// dx = (dx +) dy weight
static rec_status input_gradient(const compute *c, const void *weight, rows dy, rows dx, bool add, void *room) {
  if (place(c)->blas.opened) {
    cublas_matrix w;
    rec_status status = weights_for_blas(c, weight, dx.width, dy.width, room, &w);
    return status ? status
                  : cublas_product(&place(c)->blas, dx.width, dy.count, dy.width, w, columns_of(c, dy), columns_of(c, dx), add);
  }
  model_product p = {.a = dy.data,
                     .b = weight,
                     .to = dx.data,
                     .rows = dy.count,
                     .columns = dx.width,
                     .depth = dy.width,
                     .a_row = dy.stride,
                     .a_column = 1,
                     .b_row = dx.width,
                     .b_column = 1,
                     .to_row = dx.stride,
                     .add = add};
  return start_product(c, MODEL_product, &p);
}

// d_weight += dy^T x
static rec_status weight_gradient(const compute *c, rows x, rows dy, void *d_weight) {
  if (place(c)->blas.opened) {
    cublas_matrix across = columns_of(c, dy), to = {d_weight, x.width, CUDA_TYPE_F32, false};
    across.transposed = true;
    return cublas_product(&place(c)->blas, x.width, dy.width, x.count, columns_of(c, x), across, to, true);
  }
  model_product p = {.a = dy.data,
                     .b = x.data,
                     .to = d_weight,
                     .rows = dy.width,
                     .columns = x.width,
                     .depth = x.count,
                     .a_row = 1,
                     .a_column = dy.stride,
                     .b_row = x.stride,
                     .b_column = 1,
                     .to_row = x.width,
                     .add = 1};
  return start_product(c, MODEL_weight_product, &p);
}

static rec_status gpu_linear_backward(const compute *c, rows x, const void *weight, rows dy, rows dx, bool add_to_dx,
                                      void *d_weight, void *d_bias, void *room) {
  if (!x.count) return REC_OK;
  rec_status status = dx.data ? input_gradient(c, weight, dy, dx, add_to_dx, room) : REC_OK;
  if (!status) status = weight_gradient(c, x, dy, d_weight);
  if (status || !d_bias) return status;
  model_column_sums p = {rows_there(dy), d_bias};
  return gpu_start(c, MODEL_column_sums, blocks_for(dy.width), &p);
}

// ---- tables, the loss ---------------------------------------------------------------------------

static rec_status gpu_embed(const compute *c, const uint16_t *tokens, const void *table, rows y) {
  model_embed p = {tokens, rows_there(y), (float *)(uintptr_t)table};
  return gpu_start(c, MODEL_embed, blocks_for(y.count * y.width), &p);
}

static rec_status gpu_embed_backward(const compute *c, const uint16_t *tokens, rows dy, void *d_table) {
  model_embed p = {tokens, rows_there(dy), d_table};
  return gpu_start(c, MODEL_embed_backward, blocks_for(MODEL_PARTS * dy.width), &p);
}

static rec_status gpu_cross_entropy(const compute *c, rows logits, const uint16_t *targets, const float *weights, double scale,
                                    rows d_logits, float *losses, double *total) {
  model_cross_entropy p = {rows_there(logits), rows_there(d_logits), targets, weights, losses, (float)scale};
  int64_t bytes = logits.count * (int64_t)sizeof *losses;
  *total = 0;
  rec_status status = gpu_start(c, MODEL_cross_entropy, logits.count, &p);
  float *here = status || !bytes ? NULL : gpu_here(c, bytes);
  if (status || !bytes) return status;
  if (!here) return REC_ERROR_MEMORY;
  status = gpu_download(c, here, losses, bytes);
  for (int64_t i = 0; !status && i < logits.count; i++) *total += (double)here[i];
  return status;
}

// ---- sums ---------------------------------------------------------------------------------------

static rec_status gpu_add(const compute *c, rows to, rows from) {
  model_add p = {rows_there(to), rows_there(from)};
  return gpu_start(c, MODEL_add, blocks_for(to.count * to.width), &p);
}

static rec_status gpu_zero(const compute *c, rows to) { return gpu_add(c, to, (rows){0}); }

typedef rec_status starter(const compute *c, int kernel, int64_t items, const void *parameter);

static rec_status square_sums(const compute *c, starter *start, model_rows from, double *sum) {
  int64_t blocks = gpu_blocks(c, blocks_for(from.count * from.width));
  model_square_sums p = {from, place(c)->sums};
  *sum = 0;
  rec_status status = start(c, MODEL_square_sums, blocks, &p);
  float *here = status || !blocks ? NULL : gpu_here(c, blocks * (int64_t)sizeof *here);
  if (status || !blocks) return status;
  if (!here) return REC_ERROR_MEMORY;
  status = gpu_download(c, here, place(c)->sums, blocks * (int64_t)sizeof *here);
  for (int64_t i = 0; !status && i < blocks; i++) *sum += (double)here[i];
  return status;
}

static rec_status gpu_row_squares(const compute *c, rows x, double *sum) {
  return square_sums(c, gpu_start, rows_there(x), sum);
}

static rec_status gpu_square_sum(const compute *c, const void *values, int64_t count, double *sum) {
  return square_sums(c, gpu_start_f32, one_row(values, count), sum);
}

static rec_status gpu_sum_into(const compute *c, void *to, const void *from, int64_t count) {
  model_add p = {one_row(to, count), one_row(from, count)};
  return gpu_start_f32(c, MODEL_add, blocks_for(count), &p);
}

static rec_status gpu_adamw(const compute *c, void *values, const void *gradient, void *moment1, void *moment2, int64_t count,
                            const adamw_step *step) {
  model_adamw p = {.values = values,
                   .moment1 = moment1,
                   .moment2 = moment2,
                   .gradient = gradient,
                   .count = count,
                   .rate = (float)(step->rate / step->correction1),
                   .beta1 = (float)step->beta1,
                   .beta2 = (float)step->beta2,
                   .epsilon = (float)step->epsilon,
                   .gradient_scale = (float)step->gradient_scale,
                   .spread = (float)(1 / step->correction2),
                   .shrink = (float)(1 - step->rate * step->decay)};
  return gpu_start_f32(c, MODEL_adamw, blocks_for(count), &p);
}

static rec_status gpu_product(const compute *c, int64_t height, int64_t width, int64_t depth, matrix a, matrix b, void *to) {
  // Row by row a matrix is the transposed one column by column.
  if (place(c)->blas.opened)
    return cublas_product(&place(c)->blas, width, height, depth, (cublas_matrix){b.data, b.stride, CUDA_TYPE_F32, b.transposed},
                          (cublas_matrix){a.data, a.stride, CUDA_TYPE_F32, a.transposed},
                          (cublas_matrix){to, width, CUDA_TYPE_F32, false}, false);
  model_product p = {.a = a.data,
                     .b = b.data,
                     .to = to,
                     .rows = height,
                     .columns = width,
                     .depth = depth,
                     .a_row = a.transposed ? 1 : a.stride,
                     .a_column = a.transposed ? a.stride : 1,
                     .b_row = b.transposed ? 1 : b.stride,
                     .b_column = b.transposed ? b.stride : 1,
                     .to_row = width};
  return gpu_start_f32(c, MODEL_product, tiles_of(&p), &p);
}

static rec_status gpu_combine(const compute *c, void *to, double alpha, const void *from, double beta, int64_t count) {
  model_combine p = {to, from, count, (float)alpha, (float)beta};
  return gpu_start_f32(c, MODEL_combine, blocks_for(count), &p);
}

// Nothing comes to the host: a step has many matrices.
static rec_status gpu_normalize(const compute *c, void *values, int64_t count, double epsilon) {
  int64_t blocks = gpu_blocks(c, blocks_for(count));
  model_square_sums squares = {one_row(values, count), place(c)->sums};
  model_normalize p = {values, place(c)->sums, count, blocks, (float)epsilon};
  rec_status status = gpu_start_f32(c, MODEL_square_sums, blocks, &squares);
  return status ? status : gpu_start_f32(c, MODEL_normalize, blocks_for(count), &p);
}

// ---- looked at on the host ----------------------------------------------------------------------

static rec_status gpu_hits(const compute *c, rows logits, const uint16_t *targets, uint8_t *hits) {
  if (!logits.count) return REC_OK;
  int64_t wide = logits.count * logits.stride * c->n->token_size, narrow = logits.count * (int64_t)sizeof *targets;
  char *here = gpu_here(c, wide + narrow + logits.count);
  if (!here) return REC_ERROR_MEMORY;
  rows copy = {here, logits.count, logits.width, logits.stride};
  // The last row ends with its width.
  int64_t last = (logits.stride - logits.width) * c->n->token_size;
  uint16_t *targets_here = (uint16_t *)(void *)(here + wide);
  uint8_t *found = (uint8_t *)(here + wide + narrow);
  rec_status status = gpu_download(c, here, logits.data, wide - last);
  if (!status) status = gpu_download(c, targets_here, targets, narrow);
  if (!status) c->n->hits(copy, targets_here, found);
  return status ? status : gpu_upload(c, hits, found, logits.count);
}

const compute_ops gpu_ops_of_models = {.allocate = gpu_allocate,
                                       .release = gpu_release,
                                       .upload = gpu_upload,
                                       .download = gpu_download,
                                       .copy = gpu_copy,
                                       .clear = gpu_clear,
                                       .linear_room = gpu_linear_room,
                                       .linear = gpu_linear,
                                       .linear_backward = gpu_linear_backward,
                                       .embed = gpu_embed,
                                       .embed_backward = gpu_embed_backward,
                                       .cross_entropy = gpu_cross_entropy,
                                       .hits = gpu_hits,
                                       .add = gpu_add,
                                       .zero = gpu_zero,
                                       .row_squares = gpu_row_squares,
                                       .sum_into = gpu_sum_into,
                                       .square_sum = gpu_square_sum,
                                       .adamw = gpu_adamw,
                                       .product = gpu_product,
                                       .combine = gpu_combine,
                                       .normalize = gpu_normalize};
