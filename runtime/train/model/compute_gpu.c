// The operations of compute.h on a GPU or the executor: kernels of models, and cuBLAS for the
// products where there is one.
//
//   y = x weight^T: [round weight] cublasGemmEx, or rec_model_product_f32 over tiles of 64 x 64

#include "runtime/train/model/gpu_place.h"

static const gpu_place *gpu_place_of(const compute *c) { return (const gpu_place *)(uintptr_t)c; }

static model_rows rows_there(rows x) { return (model_rows){x.data, x.count, x.width, x.stride}; }

// Numbers one behind the other, as one row.
static model_rows one_row(const void *values, int64_t count) {
  return (model_rows){(void *)(uintptr_t)values, 1, count, count};
}

static int64_t blocks_for(int64_t numbers) { return (numbers + MODEL_THREADS - 1) / MODEL_THREADS; }

// ---- products -----------------------------------------------------------------------------------

static int64_t gpu_linear_room(const compute *c, int64_t in, int64_t out) {
  bool rounds = gpu_place_of(c)->narrow && gpu_place_of(c)->blas.opened;
  return rounds ? in * out * (int64_t)sizeof(uint16_t) : 0;
}

// Entry [i][k] of an operand stands at i * row + k * column.
typedef struct operand {
  const void *data;
  int64_t row, column;
} operand;

static operand rows_operand(rows x) { return (operand){x.data, x.stride, 1}; }
static operand turned(operand x) { return (operand){x.data, x.column, x.row}; }

// to[height][width] = a[height][depth] b[depth][width]
static model_product operand_product(int64_t height, int64_t width, int64_t depth, operand a,
                                     operand b, operand to) {
  return (model_product){.a = a.data,
                         .b = b.data,
                         .to = (void *)(uintptr_t)to.data,
                         .rows = height,
                         .columns = width,
                         .depth = depth,
                         .a_row = a.row,
                         .a_column = a.column,
                         .b_row = b.row,
                         .b_column = b.column,
                         .to_row = to.row};
}

static int64_t product_tiles(const model_product *p) {
  return (p->rows + MODEL_TILE - 1) / MODEL_TILE * ((p->columns + MODEL_TILE - 1) / MODEL_TILE);
}

static int row_type(const compute *c) {
  return gpu_place_of(c)->narrow ? CUDA_TYPE_BF16 : CUDA_TYPE_F32;
}

// Rows of tokens as the columns of a matrix.
static cublas_matrix cublas_columns(const compute *c, rows x) {
  return (cublas_matrix){x.data, x.stride, row_type(c), false};
}

// The weights [out][in] in the type of rows: `in` numbers in each of `out` columns.
static rec_status weights_for_blas(const compute *c, const void *weight, int64_t in, int64_t out,
                                   void *room, cublas_matrix *w) {
  *w = (cublas_matrix){weight, in, row_type(c), false};
  if (!gpu_place_of(c)->narrow) return REC_OK;
  w->data = room;
  model_round p = {weight, room, in * out};
  return gpu_start(c, MODEL_round, blocks_for(in * out), &p);
}

static rec_status gpu_linear(const compute *c, rows x, const void *weight, const void *bias, rows y,
                             void *room) {
  if (!x.count) return REC_OK;
  // cuBLAS knows no bias.
  if (gpu_place_of(c)->blas.opened && !bias) {
    cublas_matrix w;
    rec_status status = weights_for_blas(c, weight, x.width, y.width, room, &w);
    w.transposed = true;
    return status ? status
                  : cublas_product(&gpu_place_of(c)->blas, y.width, x.count, x.width, w,
                                   cublas_columns(c, x), cublas_columns(c, y), false);
  }
  model_product p = operand_product(x.count, y.width, x.width, rows_operand(x),
                                    (operand){weight, 1, x.width}, rows_operand(y));
  p.bias = bias;
  return gpu_start(c, MODEL_product, product_tiles(&p), &p);
}

// dx = (dx +) dy weight
static rec_status input_gradient(const compute *c, const void *weight, rows dy, rows dx, bool add,
                                 void *room) {
  if (gpu_place_of(c)->blas.opened) {
    cublas_matrix w;
    rec_status status = weights_for_blas(c, weight, dx.width, dy.width, room, &w);
    return status ? status
                  : cublas_product(&gpu_place_of(c)->blas, dx.width, dy.count, dy.width, w,
                                   cublas_columns(c, dy), cublas_columns(c, dx), add);
  }
  model_product p = operand_product(dy.count, dx.width, dy.width, rows_operand(dy),
                                    (operand){weight, dx.width, 1}, rows_operand(dx));
  p.add = add;
  return gpu_start(c, MODEL_product, product_tiles(&p), &p);
}

// d_weight += dy^T x
static rec_status weight_gradient(const compute *c, rows x, rows dy, void *d_weight) {
  if (gpu_place_of(c)->blas.opened) {
    cublas_matrix across = cublas_columns(c, dy), to = {d_weight, x.width, CUDA_TYPE_F32, false};
    across.transposed = true;
    return cublas_product(&gpu_place_of(c)->blas, x.width, dy.width, x.count, cublas_columns(c, x),
                          across, to, true);
  }
  model_product p = operand_product(dy.width, x.width, x.count, turned(rows_operand(dy)),
                                    rows_operand(x), (operand){d_weight, x.width, 1});
  p.add = 1;
  return gpu_start(c, MODEL_weight_product, product_tiles(&p), &p);
}

static rec_status gpu_linear_backward(const compute *c, rows x, const void *weight, rows dy,
                                      rows dx, bool add_to_dx, void *d_weight, void *d_bias,
                                      void *room) {
  if (!x.count) return REC_OK;
  rec_status status = dx.data ? input_gradient(c, weight, dy, dx, add_to_dx, room) : REC_OK;
  if (!status) status = weight_gradient(c, x, dy, d_weight);
  if (status || !d_bias) return status;
  model_column_sums p = {rows_there(dy), d_bias};
  return gpu_start(c, MODEL_column_sums, blocks_for(dy.width), &p);
}

// ---- tables, the loss ---------------------------------------------------------------------------

static rec_status gpu_embed(const compute *c, const token_id *tokens, const void *table, rows y) {
  model_embed p = {tokens, rows_there(y), (float *)(uintptr_t)table};
  return gpu_start(c, MODEL_embed, blocks_for(y.count * y.width), &p);
}

static rec_status gpu_embed_backward(const compute *c, const token_id *tokens, rows dy,
                                     void *d_table) {
  model_embed p = {tokens, rows_there(dy), d_table};
  return gpu_start(c, MODEL_embed_backward, blocks_for(MODEL_PARTS * dy.width), &p);
}

// Added on the host, in double.
static rec_status sum_floats_on_host(const compute *c, const float *there, int64_t count,
                                     double *sum) {
  int64_t bytes = count * (int64_t)sizeof *there;
  *sum = 0;
  if (!count) return REC_OK;
  float *here = gpu_here(c, bytes);
  rec_status status = here ? gpu_download(c, here, there, bytes) : REC_ERROR_MEMORY;
  for (int64_t i = 0; !status && i < count; i++) *sum += (double)here[i];
  return status;
}

static rec_status gpu_cross_entropy(const compute *c, rows logits, const token_id *targets,
                                    const float *weights, double scale, rows d_logits,
                                    float *losses, void *row, double *total) {
  (void)row;
  model_cross_entropy p = {rows_there(logits), rows_there(d_logits), targets, weights, losses,
                           (float)scale};
  rec_status status = gpu_start(c, MODEL_cross_entropy, logits.count, &p);
  return status ? status : sum_floats_on_host(c, losses, logits.count, total);
}

// ---- sums ---------------------------------------------------------------------------------------

static rec_status gpu_add(const compute *c, rows to, rows from) {
  model_add p = {rows_there(to), rows_there(from)};
  return gpu_start(c, MODEL_add, blocks_for(to.count * to.width), &p);
}

static rec_status gpu_zero(const compute *c, rows to) { return gpu_add(c, to, (rows){0}); }

static rec_status gpu_row_squares(const compute *c, rows x, double *sum) {
  int64_t blocks = gpu_blocks(c, blocks_for(x.count * x.width));
  model_square_sums p = {rows_there(x), gpu_place_of(c)->sums};
  rec_status status = gpu_start(c, MODEL_square_sums, blocks, &p);
  return status ? status : sum_floats_on_host(c, gpu_place_of(c)->sums, blocks, sum);
}

static int64_t reduction_blocks(const compute *c, const value_list *list) {
  return gpu_blocks(c, blocks_for(list->count));
}

// The sums of all blocks of all lists come to the host together; each list's are added there.
static rec_status gpu_square_sums(const compute *c, const value_list *lists, int count,
                                  double *sums) {
  const int64_t most = gpu_place_of(c)->blocks, bytes = count * most * (int64_t)sizeof(float);
  rec_status status = REC_OK;
  for (int i = 0; !status && i < count; i++) {
    model_square_sums p = {one_row(lists[i].values, lists[i].count),
                           gpu_place_of(c)->sums + i * most};
    status = gpu_start_f32(c, MODEL_square_sums, reduction_blocks(c, &lists[i]), &p);
  }
  float *here = gpu_here(c, bytes);
  if (!status)
    status = here ? gpu_download(c, here, gpu_place_of(c)->sums, bytes) : REC_ERROR_MEMORY;
  for (int i = 0; i < count; i++) {
    sums[i] = 0;
    for (int64_t k = 0; !status && k < reduction_blocks(c, &lists[i]); k++)
      sums[i] += (double)here[i * most + k];
  }
  return status;
}

static rec_status gpu_sum_into(const compute *c, void *to, const void *from, int64_t count) {
  model_add p = {one_row(to, count), one_row(from, count)};
  return gpu_start_f32(c, MODEL_add, blocks_for(count), &p);
}

static rec_status gpu_adamw(const compute *c, void *values, const void *gradient, void *moment1,
                            void *moment2, int64_t count, const adamw_step *step) {
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

static rec_status gpu_product(const compute *c, int64_t height, int64_t width, int64_t depth,
                              matrix a, matrix b, void *to) {
  // Row by row a matrix is the transposed one column by column.
  if (gpu_place_of(c)->blas.opened)
    return cublas_product(&gpu_place_of(c)->blas, width, height, depth,
                          (cublas_matrix){b.data, b.stride, CUDA_TYPE_F32, b.transposed},
                          (cublas_matrix){a.data, a.stride, CUDA_TYPE_F32, a.transposed},
                          (cublas_matrix){to, width, CUDA_TYPE_F32, false}, false);
  operand of_a = {a.data, a.stride, 1}, of_b = {b.data, b.stride, 1};
  model_product p = operand_product(height, width, depth, a.transposed ? turned(of_a) : of_a,
                                    b.transposed ? turned(of_b) : of_b, (operand){to, width, 1});
  return gpu_start_f32(c, MODEL_product, product_tiles(&p), &p);
}

static rec_status gpu_combine(const compute *c, void *to, double alpha, const void *from,
                              double beta, int64_t count) {
  model_combine p = {to, from, count, (float)alpha, (float)beta};
  return gpu_start_f32(c, MODEL_combine, blocks_for(count), &p);
}

// Nothing comes to the host: a step has many matrices.
static rec_status gpu_normalize(const compute *c, void *values, int64_t count, double epsilon) {
  int64_t blocks = gpu_blocks(c, blocks_for(count));
  model_square_sums squares = {one_row(values, count), gpu_place_of(c)->sums};
  model_normalize p = {values, gpu_place_of(c)->sums, count, blocks, (float)epsilon};
  rec_status status = gpu_start_f32(c, MODEL_square_sums, blocks, &squares);
  return status ? status : gpu_start_f32(c, MODEL_normalize, blocks_for(count), &p);
}

// ---- looked at on the host ----------------------------------------------------------------------

static rec_status gpu_hits(const compute *c, rows logits, const token_id *targets, uint8_t *hits) {
  if (!logits.count) return REC_OK;
  int64_t wide = logits.count * logits.stride * c->n->token_size,
          narrow = logits.count * (int64_t)sizeof *targets;
  token_id *targets_here = gpu_here(c, narrow + wide + logits.count);
  if (!targets_here) return REC_ERROR_MEMORY;
  rows copy = {targets_here + logits.count, logits.count, logits.width, logits.stride};
  // The last row ends with its width.
  int64_t last = (logits.stride - logits.width) * c->n->token_size;
  uint8_t *found = (uint8_t *)copy.data + wide;
  rec_status status = gpu_download(c, copy.data, logits.data, wide - last);
  if (!status) status = gpu_download(c, targets_here, targets, narrow);
  if (!status) c->n->hits(copy, targets_here, found);
  return status ? status : gpu_upload(c, hits, found, logits.count);
}

#define OPERATION(name) .name = gpu_##name,
const compute_ops gpu_ops_of_models = {COMPUTE_OPERATIONS(OPERATION)};
#undef OPERATION
