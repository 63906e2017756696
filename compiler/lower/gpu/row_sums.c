// GPU: sums over the columns of a product, made in its accumulator.
//
//   dot [t,P] %40; %43 = sum of %0 * %40 over P      a lane adds up its columns of two rows; four lanes have a row together:
//                                                    two shuffles, and one of the lanes stores
//
// If a warp has only some columns of a row, the partial sums lie in shared memory; after a barrier,
// threads add them up.
#include "compiler/lower/gpu/mma.h"

enum { LANES_OF_ROW = 4, HALF_ROWS = GPU_TILE_ROWS / 2 };

static bool is_sum(const lower *l, const mma *p, int position) {
  return position && tile_op_is(value(l, p->nest->values.items[position])->op, TILE_REDUCES);
}

void gpu_rows_open(lower *l, mma *p, int lanes) {
  emitter *e = l->e;
  int count = p->nest->values.count;
  p->row_lanes = lanes;
  p->row_sums[0] = p->row_sums[1] = NULL;
  for (int i = 1; i < count; i++) {
    if (!is_sum(l, p, i)) continue;
    double start = lower_identity(value(l, p->nest->values.items[i])->op);
    for (int half = 0; half < 2; half++) {
      if (!p->row_sums[half]) p->row_sums[half] = ARENA_ARRAY(e->a, ir, count);
      p->row_sums[half][i] = real_slot(e, real_number(e, start, lanes), "row");
    }
  }
}

// Reduces the columns of all four lanes of a row.
static ir row_of_lanes(lower *l, tile_op op, ir x) {
  emitter *e = l->e;
  if (ir_lanes(x)) x = lower_lanes_together(e, op, x);
  for (int mask = 1; mask < LANES_OF_ROW; mask *= 2)
    x = lower_combine(e, op, x, gpu_from_lane(e, GPU_SHFL_BFLY_F32, x, mask));
  return x;
}

static view sums_of_warp(lower *l, int buffer, int64_t warps, ir warp) {
  emitter *e = l->e;
  view v = lower_buffer(l, buffer);
  int64_t numbers = l->p->buffers.items[buffer].numbers.factor / warps;
  v.base = element(e, e->real, v.base, int_mul_n(e, warp, numbers));
  return v;
}

static void store_row(lower *l, tile_id id, int64_t warps, ir warp, const place_in_loops *at,
                      ir x) {
  if (warps == 1) {
    lower_keep_value(l, at, id, x);
    return;
  }
  view v = sums_of_warp(l, l->p->values[id].partial_sums, warps, warp);
  view_store(l, &v, at, value(l, id)->axes, x);
}

// The first of the four lanes stores the sum of the row in the upper half, the second that of the
// lower half.
void gpu_rows_close(lower *l, const mma *p, const place_in_loops *at, ir column_block) {
  emitter *e = l->e;
  const plan_dot *dot = &p->nest->dot;
  if (!p->row_sums[0]) return;
  ir *rows = ARENA_ARRAY(e->a, ir, p->nest->values.count);
  ir upper = int_compare(e, LLVMIntEQ, p->pair, integer(e, 0));
  for (int i = 1; i < p->nest->values.count; i++) {
    if (!is_sum(l, p, i)) continue;
    ir halves[2];
    for (int half = 0; half < 2; half++)
      halves[half] = row_of_lanes(l, value(l, p->nest->values.items[i])->op,
                                  load_real(e, p->row_sums[half][i], p->row_lanes));
    rows[i] = choose(e, upper, halves[0], halves[1]);
  }
  place_in_loops where = *at;
  ir row = int_add(e, p->first_row, p->group);
  row = where.index[dot->i] = int_add(e, row, int_mul_n(e, p->pair, HALF_ROWS));
  where = gpu_place_made(l, &where, p->nest);
  ir stores = int_compare(e, LLVMIntSLT, p->pair, integer(e, 2)),
     end = integer(e, known_size(l, dot->i));
  if (known_size(l, dot->i) % GPU_TILE_ROWS)
    stores = bit_and(e, stores, int_compare(e, LLVMIntSLT, row, end));
  emit_branch branch = branch_begin(e, stores);
  for (int i = 1; i < p->nest->values.count; i++)
    if (rows[i])
      store_row(l, p->nest->values.items[i], plan_warps_of_row(l->m, l->p, p->nest), column_block,
                &where, rows[i]);
  branch_end(e, &branch);
}

typedef struct split_sum {
  tile_id id;
  int64_t warps;
} split_sum;

static void add_warps(lower *l, const place_in_loops *at, void *data) {
  const split_sum *s = data;
  ir x = NULL;
  for (int64_t warp = 0; warp < s->warps; warp++) {
    view v = sums_of_warp(l, l->p->values[s->id].partial_sums, s->warps, integer(l->e, warp));
    ir y = view_load(l, &v, at, value(l, s->id)->axes);
    x = x ? lower_combine(l->e, value(l, s->id)->op, x, y) : y;
  }
  lower_keep_value(l, at, s->id, x);
}

void gpu_rows_finish(lower *l, const mma *p) {
  split_sum s = {.warps = plan_warps_of_row(l->m, l->p, p->nest)};
  bool met = false;
  for (int i = 1; s.warps > 1 && i < p->nest->values.count; i++) {
    if (!is_sum(l, p, i)) continue;
    s.id = p->nest->values.items[i];
    if (!met) lower_barrier(l);
    met = true;
    loop_axes axes = lower_by_rank(l, l->p->values[s.id].tile);
    place_in_loops at = lower_start_place(l, false);
    gpu_each_point(l, &axes, GPU_SHORT_BODY, &at, add_warps, &s);
  }
}
