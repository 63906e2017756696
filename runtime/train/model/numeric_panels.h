// The linear products of numeric.c for rows in bfloat16. BLAS knows float alone, so weights and
// some rows at a time are widened into panels. The result of a panel is rounded.
//
//   y = x weight^T  ->  W = widened(rounded(weight));  for PANEL rows: X = widened(x), Y = X W^T, y = rounded(Y)

enum { PANEL = 128 };          // rows; the least shard of a usual batch
enum { FEW_BLOCK = 1 << 17 };  // bytes of weights that stay in the second-level cache

typedef struct panels {
  float *weight;    // [out][in]
  float *in, *out;  // [PANEL][width]
} panels;

static int64_t linear_room_bf16(int64_t in, int64_t out) {
  return (in * out + PANEL * (in + out)) * (int64_t)sizeof(float);
}

static panels room_for_panels(void *room, int64_t in, int64_t out) {
  return (panels){room, (float *)room + in * out, (float *)room + in * out + PANEL * in};
}

static void round_weights(const float *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = rec_widen_bf16(rec_narrow_bf16(from[i]));
}

static panels panels_of(void *room, int64_t in, int64_t out, const float *weight) {
  panels p = room_for_panels(room, in, out);
  round_weights(weight, p.weight, in * out);
  return p;
}

// The rows first .. first + PANEL - 1, or as many as there are.
static rows part_of(rows all, int64_t first) {
  int64_t left = all.count - first;
  return (rows){(uint16_t *)all.data + first * all.stride, left < PANEL ? left : PANEL, all.width,
                all.stride};
}

static void widen_rows(rows from, float *to) {
  for (int64_t i = 0; i < from.count; i++) {
    const uint16_t *restrict x = (const uint16_t *)from.data + i * from.stride;
    float *restrict y = to + i * from.width;
    for (int64_t j = 0; j < from.width; j++) y[j] = rec_widen_bf16(x[j]);
  }
}

static void narrow_rows(const float *from, rows to) {
  for (int64_t i = 0; i < to.count; i++) {
    const float *restrict x = from + i * to.width;
    uint16_t *restrict y = (uint16_t *)to.data + i * to.stride;
    for (int64_t j = 0; j < to.width; j++) y[j] = rec_narrow_bf16(x[j]);
  }
}

// Few rows: a block of weights is rounded and multiplied before the next.
static void linear_few_bf16(rows x, const float *weight, const float *bias, rows y, void *room) {
  panels p = room_for_panels(room, x.width, y.width);
  widen_rows(x, p.in);
  for (int64_t i = 0; bias && i < x.count; i++)
    memcpy(p.out + i * y.width, bias, (size_t)y.width * sizeof(float));
  for (int64_t first = 0, count; first < y.width; first += count) {
    count = least_of(y.width - first, 1 + FEW_BLOCK / (x.width * (int64_t)sizeof(float)));
    round_weights(weight + first * x.width, p.weight, count * x.width);
    linear_few_f32((rows){p.in, x.count, x.width, x.width}, p.weight, bias,
                   (rows){p.out + first, x.count, count, y.width});
  }
  narrow_rows(p.out, y);
}

static void linear_bf16(rows x, const void *weight, const void *bias, rows y, void *room) {
  if (!x.count) return;
  if (x.count <= FEW_ROWS) {
    linear_few_bf16(x, weight, bias, y, room);
    return;
  }
  panels p = panels_of(room, x.width, y.width, weight);
  for (int64_t first = 0; first < x.count; first += PANEL) {
    rows from = part_of(x, first), to = part_of(y, first);
    widen_rows(from, p.in);
    for (int64_t i = 0; bias && i < to.count; i++)
      memcpy(p.out + i * y.width, bias, (size_t)y.width * sizeof(float));
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)from.count, (int)y.width,
                (int)x.width, 1, p.in, (int)x.width, p.weight, (int)x.width, bias ? 1 : 0, p.out,
                (int)y.width);
    narrow_rows(p.out, to);
  }
}

static void linear_backward_bf16(rows x, const void *weight, rows dy, rows dx, bool add_to_dx,
                                 void *d_weight, void *d_bias, void *room) {
  if (!x.count) return;
  panels p = panels_of(room, x.width, dy.width, weight);
  float *db = d_bias;
  for (int64_t first = 0; first < x.count; first += PANEL) {
    rows d_out = part_of(dy, first);
    widen_rows(d_out, p.out);
    if (dx.data) {
      rows d_in = part_of(dx, first);
      if (add_to_dx) widen_rows(d_in, p.in);
      cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)d_in.count, (int)x.width,
                  (int)dy.width, 1, p.out, (int)dy.width, p.weight, (int)x.width, add_to_dx ? 1 : 0,
                  p.in, (int)x.width);
      narrow_rows(p.in, d_in);
    }
    widen_rows(part_of(x, first), p.in);
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)dy.width, (int)x.width,
                (int)d_out.count, 1, p.out, (int)dy.width, p.in, (int)x.width, 1, d_weight,
                (int)x.width);
    for (int64_t i = 0; db && i < d_out.count; i++)
      for (int64_t j = 0; j < dy.width; j++) db[j] += p.out[i * dy.width + j];
  }
}
