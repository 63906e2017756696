// Products on tensor cores. A warp takes 16 rows and up to 32 columns of the result, 16 steps of k
// at a time (tf32: 8).
//
//   %12 [t,P] = dot %10 %11 over s      warp n: rows 16 i .. 16 i + 15, columns 8 j .. 8 j + 31
//                                       for s by 16: a <- 16 x 16 of %10; for each 8 columns: b <- 16 x 8 of %11; c += a b
//
// Operands have 16 bits, or are f32, split into two tf32 parts: three products for one (--tf32:
// one). Accumulators are f32.
#include "compiler/lower/gpu/mma.h"

#include <string.h>

#include "compiler/emit/bits.h"

enum { TILE_ROWS = GPU_TILE_ROWS, TILE_COLUMNS = GPU_TILE_COLUMNS, MOST_TILES = GPU_MOST_TILES };

// ---- one block of a warp ----

static void add_mma_product(lower *l, mma *p, int tile, const ir a[4], const ir b[2]) {
  emitter *e = l->e;
  ir args[10] = {a[0], a[1], a[2], a[3], b[0], b[1]};
  gpu_op op = gpu_mma_is_tf32(p)       ? GPU_MMA_M16N8K8_TF32
              : p->type == NUMBER_BF16 ? GPU_MMA_M16N8K16_BF16
                                       : GPU_MMA_M16N8K16_F16;
  for (int r = 0; r < 4; r++) args[6 + r] = load_real(e, p->sums[tile][r], 0);
  ir d = gpu_call(e, op, args, 10);
  for (unsigned r = 0; r < 4; r++)
    store_real(e, LLVMBuildExtractValue(e->b, d, r, ""), p->sums[tile][r]);
}

// Splits f32 bits into a tf32 number and the rest. ptxas makes four instructions of cvt.rna,
// because it keeps every NaN. Rounding by hand takes two; it may lose a NaN, but then the rest is a
// NaN. The rest has 12 bits, of which tensor cores read the first 11. It has either sign, so the
// result has no bias.
static void split_f32(lower *l, const ir *bits, int count, ir *high, ir *low) {
  emitter *e = l->e;
  ir half = LLVMConstInt(e->i32, 0x1000, 0), kept = LLVMConstInt(e->i32, 0xffffe000u, 0);
  for (int r = 0; r < count; r++) {
    ir x = LLVMBuildBitCast(e->b, bits[r], e->real, "");
    if (l->m->tf32) {
      high[r] = gpu_call(e, GPU_CVT_TF32, &x, 1);
      continue;
    }
    ir number = LLVMBuildBitCast(e->b, bits[r], e->i32, "");
    high[r] = bit_and(e, LLVMBuildAdd(e->b, number, half, ""), kept);
    ir rest = real_sub(e, x, LLVMBuildBitCast(e->b, high[r], e->real, ""));
    low[r] = LLVMBuildBitCast(e->b, rest, e->i32, "");
  }
}

// f32: 21 bits of each operand, in two parts. The product of the low parts is below an f32's last
// bit, so it is left out. Small products go first.
static void multiply_fragments(lower *l, mma *p, const place_in_loops *at, ir k) {
  ir a[4], b[2], high_a[4], low_a[4], high_b[2], low_b[2];
  gpu_mma_a(l, p, at, k, a);
  if (gpu_mma_is_tf32(p)) split_f32(l, a, 4, high_a, low_a);
  for (int tile = 0; tile < p->tiles; tile++) {
    gpu_mma_b(l, p, at, tile, k, b);
    if (!gpu_mma_is_tf32(p)) {
      add_mma_product(l, p, tile, a, b);
      continue;
    }
    split_f32(l, b, 2, high_b, low_b);
    if (!l->m->tf32) {
      add_mma_product(l, p, tile, low_a, high_b);
      add_mma_product(l, p, tile, high_a, low_b);
    }
    add_mma_product(l, p, tile, high_a, high_b);
  }
}

// Is the operand 0 where a step of `columns` is later than a step of `rows`?
static bool is_causal(const lower *l, tile_id id, int rows, int columns) {
  const tile_program *program = l->p->program;
  return l->p->values[id].zero_above && rows == program->time_axis && columns == program->pair_axis;
}

// The bounds of the loop over k. An operand that is 0 above the diagonal skips whole tiles.
static void depth_range(lower *l, const mma *p, ir *begin, ir *end) {
  emitter *e = l->e;
  const plan_dot *dot = p->factors->dot;
  *begin = integer(e, 0);
  *end = integer(e, known_size(l, dot->k));
  ir columns = integer(e, p->depth);
  if (is_causal(l, dot->a, dot->i, dot->k))
    *end = int_min(e, *end, int_add_n(l->e, p->first_row, TILE_ROWS));
  if (is_causal(l, dot->a, dot->k, dot->i)) *begin = p->first_row;
  if (is_causal(l, dot->b, dot->j, dot->k))
    *end = int_min(e, *end, int_add_n(l->e, p->first_column, p->tiles * TILE_COLUMNS));
  if (is_causal(l, dot->b, dot->k, dot->j))
    *begin = int_mul(e, int_div(e, p->first_column, columns), columns);
}

static bool is_global_operand(const mma_operand *o) {
  return o->way == BY_ELEMENTS && LLVMGetPointerAddressSpace(LLVMTypeOf(o->v.base)) == GPU_GLOBAL;
}

// Elements that a lane loads from global memory, one by one, in an iteration along k.
static int64_t numbers_of_turn(const mma *p) {
  enum { OF_ROWS = 8, OF_TILE = 4 };
  return OF_ROWS * is_global_operand(&p->a) + OF_TILE * p->tiles * is_global_operand(&p->b);
}

// Is the number of iterations always a multiple of `turns`? Where an operand is 0 above the
// diagonal, the current block's rows or columns bound the loop.
static bool in_groups_of(lower *l, const mma *p, ir begin, ir end, int64_t turns) {
  int64_t first, last, steps = turns * p->depth;
  if (int_known(begin, &first) && int_known(end, &last)) return (last - first) % steps == 0;
  return known_size(l, p->factors->dot->k) % steps == 0 && TILE_ROWS % steps == 0 &&
         p->tiles * TILE_COLUMNS % steps == 0;
}

// The unroll factor; 0: the assembler chooses. It would unroll up to 64 times, with all loads in
// registers. Three products for one hide the loads of the next iteration anyway.
static int64_t mma_unroll_factor(lower *l, const mma *p, ir begin, ir end) {
  enum { MANY = 128, AT_ONCE = 64, OF_THREE_PRODUCTS = 2 };
  int64_t numbers = numbers_of_turn(p);
  int64_t all = numbers * (known_size(l, p->factors->dot->k) / p->depth);
  if (gpu_mma_is_tf32(p) && !l->m->tf32 && in_groups_of(l, p, begin, end, OF_THREE_PRODUCTS))
    return OF_THREE_PRODUCTS;
  if (all < MANY) return 0;
  int64_t turns = numbers < AT_ONCE ? AT_ONCE / numbers : 1;
  return in_groups_of(l, p, begin, end, turns) ? turns : 1;
}

static void along_k(lower *l, mma *p, const place_in_loops *at, ir begin, ir end) {
  emitter *e = l->e;
  int64_t turns = mma_unroll_factor(l, p, begin, end), first, last;
  enum { WRITTEN_OUT = 8 };
  if (!turns && int_known(begin, &first) && int_known(end, &last) &&
      (last - first) / p->depth <= WRITTEN_OUT) {
    for (int64_t k = first; k < last; k += p->depth)
      multiply_fragments(l, p, at, LLVMConstInt(e->i32, (unsigned long long)k, 0));
    return;
  }
  if (!turns) {
    emit_loop loop = loop_begin(e, begin, end, p->depth, "k");
    multiply_fragments(l, p, at, int_multiple(e, loop.index, p->depth));
    loop_end(e, &loop);
    return;
  }
  emit_groups g = groups_begin(e, begin, end, p->depth, turns, (group_names){"turns", "turn"});
  ir group = int_multiple(e, g.groups.index, p->depth),
     turn = int_multiple(e, g.turns.index, p->depth);
  multiply_fragments(l, p, at, int_add(e, group, turn));
  groups_end(e, &g);
}

static void summed_loops(lower *l, mma *p, place_in_loops *at, axis_set axes) {
  emitter *e = l->e;
  ir begin, end;
  int axis = 0;
  while (axes && !axis_in(axes, axis)) axis++;
  if (axes) {
    emit_loop loop = loop_begin(e, integer(e, 0), l->axis_size[axis], 1, "outer");
    at->index[axis] = loop.index;
    summed_loops(l, p, at, axes & ~axis_bit(axis));
    at->index[axis] = NULL;
    loop_end(e, &loop);
    return;
  }
  if (gpu_is_group(l, p)) {
    gpu_group_multiply(l, p, at);
    return;
  }
  depth_range(l, p, &begin, &end);
  along_k(l, p, at, begin, end);
}

// Called for each element of the result that this lane holds, or each pair side by side, with their
// slots.
typedef void sum_function(lower *l, const mma *p, const place_in_loops *at, const ir *slots);

static void start_sums(lower *l, const mma *p, const place_in_loops *at, const ir *slots) {
  emitter *e = l->e;
  ir kept = p->operands->kept ? gpu_pair_of(e, slots) : NULL;
  ir x = gpu_first_sum(l, p->operands, at, kept);
  for (int i = 0; i < (at->lanes ? at->lanes : 1); i++) store_real(e, lane_of(e, x, i), slots[i]);
}

// A number of the accumulator, or two neighbours of a row.
static ir number_of(emitter *e, const place_in_loops *at, const ir *slots) {
  return at->lanes ? gpu_pair_of(e, slots) : load_real(e, slots[0], 0);
}

static void set_number(emitter *e, const place_in_loops *at, const ir *slots, ir x) {
  at->lanes ? gpu_set_pair(e, slots, x) : store_real(e, x, slots[0]);
}

static void finish_mma_sums(lower *l, const mma *p, const place_in_loops *at, const ir *slots) {
  l->row_sums = p->row_sums[(slots - &p->sums[0][0]) % 4 / 2];
  gpu_last_sum(l, p->nest, p->operands, at, number_of(l->e, at, slots));
}

// Scales the accumulator of the first of two products, before the second is added.
static void scale_sums(lower *l, const mma *p, const place_in_loops *at, const ir *slots) {
  ir x = number_of(l->e, at, slots);
  set_number(l->e, at, slots, gpu_between_products(l, at, p->nest, x));
}

// Adds the scaled first product to the accumulator of the second.
static void add_scaled_product(lower *l, const mma *p, const place_in_loops *at, const ir *slots) {
  emitter *e = l->e;
  const ir *others = &p->others[0][0] + (slots - &p->sums[0][0]);
  ir x = number_of(e, at, others), sum = number_of(e, at, slots);
  set_number(e, at, slots, real_add(e, sum, gpu_between_products(l, at, p->nest, x)));
}

// May a lane handle two neighbours of a row as a vector? Rows of results end with the sequence, so
// time is in no vector.
static bool in_pairs(lower *l, const mma *p) {
  int j = p->factors->dot->j;
  bool time = j == l->p->program->time_axis && p->nest->results.count;
  return known_size(l, j) % 2 == 0 && !time;
}

static void each_sum(lower *l, const mma *p, const place_in_loops *at, sum_function *body) {
  emitter *e = l->e;
  const plan_dot *dot = p->factors->dot;
  int step = in_pairs(l, p) ? 2 : 1;
  bool whole = known_size(l, dot->i) % TILE_ROWS == 0 &&
               known_size(l, dot->j) % (p->tiles * TILE_COLUMNS) == 0;
  for (int tile = 0; tile < p->tiles; tile++) {
    for (int r = 0; r < 4; r += step) {
      place_in_loops where = *at;
      ir row = int_add_n(l->e, int_add(e, p->first_row, p->group), r / 2 * 8);
      ir column = int_add_n(l->e, p->first_column, tile * TILE_COLUMNS + r % 2);
      column = int_add(e, column, int_mul_n(e, p->pair, 2));
      where.index[dot->i] = row;
      where.index[dot->j] = column;
      where.vector_axis = step == 2 ? dot->j : -1;
      where.lanes = step == 2 ? 2 : 0;
      emit_branch branch = {0};
      if (!whole) {
        ir inside = bit_and(e, gpu_mma_below(l, row, dot->i), gpu_mma_below(l, column, dot->j));
        branch = branch_begin(e, inside);
      }
      body(l, p, &where, &p->sums[tile][r]);
      if (!whole) branch_end(e, &branch);
    }
  }
}

static void open_mma_sums(lower *l, ir slots[][4], int tiles) {
  emitter *e = l->e;
  for (int i = 0; i < 4 * tiles; i++)
    slots[i / 4][i % 4] = real_slot(e, real_number(e, 0, 0), "sum");
}

// Both products: by wgmma at the same time, else one after the other in the same accumulator.
static void both_products(lower *l, mma *p, place_in_loops *at) {
  bool apart = p->nest->scaled != NO_TILE;
  if (gpu_are_groups(l, p)) {
    if (apart) open_mma_sums(l, p->others, p->tiles);
    gpu_group_multiply_both(l, p, at);
    if (apart) each_sum(l, p, at, add_scaled_product);
    return;
  }
  gpu_mma_take(l, p, &p->operands->other);
  summed_loops(l, p, at, p->factors->summed);
  gpu_mma_take(l, p, &p->operands->first);
  if (apart) each_sum(l, p, at, scale_sums);
  summed_loops(l, p, at, p->factors->summed);
}

static void block_at(lower *l, mma *p, ir i, ir j, place_in_loops at) {
  emitter *e = l->e;
  p->first_row = int_mul_n(e, i, TILE_ROWS);
  ir four = integer(e, GPU_GROUP_WARPS);
  p->group_row = int_mul_n(e, int_div(e, i, four), GPU_GROUP_WARPS * TILE_ROWS);
  p->first_column = int_mul_n(e, j, p->tiles * TILE_COLUMNS);
  const register_accumulators *kept = p->operands->kept;
  if (kept) memcpy(p->sums, kept->slots + p->first_tile, (size_t)kept->tiles * sizeof *kept->slots);
  if (!kept) open_mma_sums(l, p->sums, p->tiles);
  if (p->operands->add) each_sum(l, p, &at, start_sums);
  p->nest->two ? both_products(l, p, &at) : summed_loops(l, p, &at, p->factors->summed);
  each_sum(l, p, &at, finish_mma_sums);
}

static void mma_block(lower *l, mma *p, ir index, int64_t row_blocks, int64_t transition_blocks,
                      const loop_axes *around) {
  place_in_loops at = l->outside;
  ir i, j, rest = gpu_block_at(l, (gpu_blocks){row_blocks, transition_blocks}, index, &i, &j);
  gpu_go_to_point(l, around, rest, &at);
  gpu_rows_open(l, p, in_pairs(l, p) ? 2 : 0);
  block_at(l, p, i, j, at);
  gpu_rows_close(l, p, &at, j);
}

// ---- the product ----

void gpu_mma(lower *l, const plan_nest *nest, const gpu_operands *operands) {
  emitter *e = l->e;
  const plan_dot *dot = &nest->dot;
  mma p = {.nest = nest, .type = l->m->dtype, .operands = operands};
  p.depth = number_is_narrow(p.type) ? 16 : 8;
  gpu_mma_take(l, &p, &operands->first);
  loop_axes around = lower_by_rank(l, operands->around);
  int64_t rows = blocks_up(known_size(l, dot->i), TILE_ROWS),
          outer = rows * gpu_point_count(l, &around);
  int64_t tiles = blocks_up(known_size(l, dot->j), TILE_COLUMNS);
  int warps = l->team->threads / GPU_WARP_LANES;
  p.tiles = plan_tiles_of_warp(l->m, l->p->program, dot, outer);
  if (operands->kept) p.tiles = operands->kept->tiles;
  int64_t columns = blocks_up(tiles, p.tiles);
  p.lane = gpu_lane(l);
  p.group = int_div_n(e, p.lane, 4);
  p.pair = int_rem_n(e, p.lane, 4);
  ir warp = gpu_warp(l);
  // every warp has as many blocks
  for (int block = 0; operands->kept && block < operands->kept->blocks; block++) {
    p.first_tile = block * p.tiles;
    ir index = int_add_n(e, warp, block * warps);
    mma_block(l, &p, index, rows, columns, &around);
  }
  if (operands->kept) return;
  emit_loop loop = loop_begin(e, warp, integer(e, outer * columns), warps, "block");
  mma_block(l, &p, loop.index, rows, columns, &around);
  loop_end(e, &loop);
  gpu_rows_finish(l, &p);
}
