// What the warps of a block do in a product on tensor cores: its factors are loaded for each step of k,
// blocks of results are shared out to warps as lower/gpu/mma.c shares them.
#include <math.h>
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/gpu/nest_count.h"

// A factor of a product as the lanes of a warp load it for a step of k.
typedef struct factor {
  bool by_matrix;
  double operations, accesses, wavefronts, bytes;  // of 16 rows, or of 8 columns
} factor;

// Rows of 16 bytes (lower/gpu/mma_operands.c). 16-bit numbers are transposed on the way.
static bool is_in_rows(const nest_count *c, const plan_dot *dot, const plan_access *m, int line,
                       int tile_lines) {
  bool narrow = number_is_narrow(c->p->m->dtype);
  return m->in_shared && number_is_narrow(m->stored) == narrow &&
         gpu_size_in(c->p, line) % tile_lines == 0 &&
         gpu_size_in(c->p, dot->k) % (narrow ? GPU_GROUP_DEPTH : GPU_GROUP_DEPTH / 2) == 0 &&
         (m->stride[dot->k] == 1 || (narrow && m->stride[line] == 1));
}

// `times`: of all warps.
static factor factor_of(const nest_count *c, const plan_dot *dot, tile_id id, int pack, int line,
                        int tile_lines, double times) {
  plan_lanes at;
  plan_access m = gpu_access_of_operand(c->p, id, pack);
  bool narrow = number_is_narrow(c->p->m->dtype);
  double registers = tile_lines / 4;
  if (!m.placed) return (factor){.operations = registers};
  bool rows = is_in_rows(c, dot, &m, line, tile_lines);
  if (rows && narrow)  // without conflicts
    return (factor){.by_matrix = true, .accesses = 1, .wavefronts = registers};
  if (rows)
    plan_put_matrices(line, dot->k, tile_lines, &at);
  else
    plan_put_fragment(line, dot->k, narrow ? 2 : 1, &at);
  double loads = rows ? 1 : registers;
  count_shown(c, &m, &at, times * loads);
  warp_access x = plan_access_of_warp(&m, LOAD, &at);
  double convert = !narrow ? 0 : number_is_narrow(m.stored) ? 2 * gpu_cost_widen : 1;
  return (factor){rows, registers * convert, loads * x.accesses, loads * x.wavefronts,
                  loads * x.bytes};
}

// The place of the sum: its axes may have other names than the product's.
static void rename_place(nest_count *c, tile_id operand, tile_id product) {
  if (operand == product) return;
  const tile_value *v = counted_value(c, operand);
  rename_place(c, v->args[0], product);
  if (v->op != TILE_RENAME) return;
  int from = tile_renamed_from(v), to = tile_renamed_to(v);
  memcpy(c->at.index[to], c->at.index[from], sizeof c->at.index[to]);
  c->at.placed |= axis_bit(to);
  if (c->at.vector == from) c->at.vector = to;
}

// What is loaded before, computed behind and stored of a pair of sums.
static void add_around_product(nest_count *c) {
  const plan *p = c->p->p;
  tile_id id = c->nest->values.items[0], sum = p->values[id].into;
  tile_id made = sum != NO_TILE ? sum : id;
  int buffer = p->values[made].buffer;
  bool listed = false;
  if (c->nest->two && c->nest->scaled != NO_TILE) count_operand(c, c->nest->scaled, NULL);
  for (int i = 1; i < c->nest->values.count; i++) {
    count_value(c, c->nest->values.items[i]);
    listed = listed || c->nest->values.items[i] == sum;
  }
  for (int i = 0; i < c->nest->results.count; i++) count_result(c, c->nest->results.items[i]);
  if (buffer < 0 || listed || plan_sums_state(p, c->nest)) return;
  if (sum != NO_TILE && !c->nest->two) count_buffer(c, buffer, LOAD, 1);
  count_buffer(c, buffer, STORE, 1);
}

// The blocks of a product, as lower/gpu/mma.c gives them to warps.
typedef struct product_blocks {
  int rows, columns;  // of a matrix
  int tiles;          // of a block
  int count, warps;   // of all matrices
} product_blocks;

static product_blocks blocks_of(const nest_count *c, axis_set around) {
  const plan_dot *dot = &c->nest->dot;
  int tiles = plan_tiles_of_nest(c->p->m, c->p->p, c->nest);
  double columns = ceil((double)gpu_size_in(c->p, dot->j) / GPU_TILE_COLUMNS);
  product_blocks b = {.tiles = tiles, .warps = c->p->threads / GPU_WARP_LANES};
  b.rows = (int)ceil((double)gpu_size_in(c->p, dot->i) / GPU_TILE_ROWS);
  b.columns = (int)ceil(columns / tiles);
  b.count = b.rows * b.columns * (int)gpu_entries(c->p, around);
  return b;
}

// What blocks take of the work of a whole one: the mean, and all blocks of the busiest warp.
typedef struct block_shares {
  double mean, busiest;
} block_shares;

// The share of a block grows with its row, or with its column.
static block_shares shares_below(const nest_count *c, const product_blocks *b, bool by_rows) {
  enum { MOST_WARPS = GPU_BLOCK_THREADS / GPU_WARP_LANES };
  double of_warp[MOST_WARPS] = {0}, all = 0;
  block_shares x = {0};
  bool together = c->p->m->warpgroups && b->rows % GPU_GROUP_WARPS == 0;
  for (int block = 0; block < b->count; block++) {
    int index = together ? block / GPU_GROUP_WARPS : block,
        rows = together ? b->rows / GPU_GROUP_WARPS : b->rows;
    int row = index / b->columns % rows, column = index % b->columns;
    if (together) row = row * GPU_GROUP_WARPS + block % GPU_GROUP_WARPS;
    double share = by_rows ? (row + 1.0) / b->rows : (column + 1.0) / b->columns;
    double *own = &of_warp[block % b->warps % MOST_WARPS];
    *own += share, all += share;
    if (*own > x.busiest) x.busiest = *own;
  }
  x.mean = all / b->count;
  return x;
}

// Blocks of a product that is 0 above its diagonal, or whose operand is, leave out what is 0.
static block_shares shares_of(const nest_count *c, const plan_dot *dot, const product_blocks *b) {
  const plan *p = c->p->p;
  int t = p->program->time_axis, s = p->program->pair_axis;
  tile_id factors[] = {dot->a, dot->b};
  int lines[] = {dot->i, dot->j};
  for (int k = 0; k < 2; k++) {
    bool pair = (lines[k] == t && dot->k == s) || (lines[k] == s && dot->k == t);
    if (pair && p->values[factors[k]].zero_above && !dot->wgmma) return shares_below(c, b, k == 0);
  }
  return (block_shares){1, ceil((double)b->count / b->warps)};
}

// Of a warp's block of the product; busiest: instructions of all blocks of the busiest warp.
typedef struct product_work {
  double operations, accesses, loops, wait, wavefronts, bytes, tensor, groups, busiest;
} product_work;

static product_work work_of_product(nest_count *c, tile_id id, const plan_dot *dot,
                                    const product_blocks *b) {
  const mapping *m = c->p->m;
  bool narrow = number_is_narrow(m->dtype);
  double depth = ceil((double)gpu_size_in(c->p, dot->k) / (narrow ? 16 : 8)),
         three = narrow || m->tf32 ? 1 : 3;
  depth *= gpu_entries(c->p, plan_tile_axes(m, counted_value(c, id)->over) & ~plan_inner_axes(dot));
  block_shares shares = shares_of(c, dot, b);
  int tiles = b->tiles;
  double times = b->count * depth * shares.mean;
  factor a = factor_of(c, dot, dot->a, dot->pack_a, dot->i, GPU_TILE_ROWS, times);
  factor own = factor_of(c, dot, dot->b, dot->pack_b, dot->j, GPU_TILE_COLUMNS, tiles * times);
  product_work x;
  if (dot->wgmma) {  // four warps read B together
    x = (product_work){.operations = depth * (a.by_matrix ? GPU_COST_GROUP_STEP
                                                          : a.operations + GPU_COST_GROUP_STEP),
                       .accesses = a.by_matrix ? 0 : depth * a.accesses,
                       .wait = GPU_COST_GROUP_WAIT,
                       .wavefronts = depth * ((a.by_matrix ? 4 : a.wavefronts) + tiles / 2.0),
                       .groups = depth * 16 * 8 * tiles * 16};
  } else {
    depth *= shares.mean;
    double split = three > 1 ? GPU_COST_SPLIT * (4 + 2.0 * tiles) : 0;
    x = (product_work){
        .operations = depth * (a.operations + tiles * (own.operations + three) + split),
        .accesses = depth * (a.accesses + tiles * own.accesses),
        .loops = depth,
        .wavefronts = depth * (a.wavefronts + tiles * own.wavefronts),
        .bytes = depth * (a.bytes + tiles * own.bytes),
        // tf32 has half the rate
        .tensor = depth * three * tiles * 16 * 8 * 16 * (narrow ? 1 : 2)};
  }
  x.busiest = (x.operations + x.accesses + gpu_cost_step * x.loops) / shares.mean * shares.busiest;
  return x;
}

static void add_product(product_work *x, product_work y) {
  x->operations += y.operations;
  x->accesses += y.accesses;
  x->loops += y.loops;
  x->wavefronts += y.wavefronts;
  x->bytes += y.bytes;
  x->tensor += y.tensor;
  x->groups += y.groups;
  x->busiest += y.busiest;
}

// Results of a nest that go to the caller's memory.
static double results_of(const nest_count *c) {
  const tile_program *program = c->p->p->program;
  double count = 0;
  for (int i = 0; i < c->nest->results.count; i++)
    count += !plan_is_carried_role(program->results.items[c->nest->results.items[i]].place.role);
  return count;
}

nest_work gpu_work_of_mma(nest_count *c) {
  const placed_program *p = c->p;
  const plan_nest *nest = c->nest;
  const plan_dot *dot = &nest->dot;
  const tile_value *v = counted_value(c, nest->values.items[0]);
  product_blocks b =
      blocks_of(c, plan_tile_axes(p->m, v->axes) & ~(axis_bit(dot->i) | axis_bit(dot->j)));
  tile_id id = nest->values.items[0], into = p->p->values[id].into;
  c->over = 0;
  c->fragment = true, c->turns = 2.0 * b.tiles * b.count;
  plan_put_fragment(dot->i, dot->j, 2, &c->at);
  if (into != NO_TILE) rename_place(c, p->p->values[into].dot, id);
  add_around_product(c);
  product_work x = work_of_product(c, id, dot, &b);
  if (nest->two) add_product(&x, work_of_product(c, nest->other, &nest->other_dot, &b));
  double pairs = 2 * b.tiles, count = b.count, turns = ceil(count / b.warps);
  double operations = x.operations + pairs * (c->operations + gpu_cost_result * results_of(c));
  double accesses = x.accesses + pairs * c->accesses;
  double around = operations + accesses - x.operations - x.accesses;
  double own = operations + accesses + gpu_cost_step * x.loops;
  return (nest_work){.all.instructions = count * (own + gpu_cost_block),
                     .all.busiest = turns * (gpu_cost_block + x.wait + around) + x.busiest,
                     .used = b.count < b.warps ? b.count : b.warps,
                     .operations = count * operations,
                     .accesses = count * accesses,
                     .loops = count * x.loops,
                     .begins = count,
                     .all.wavefronts = count * (x.wavefronts + pairs * c->wavefronts),
                     .all.specials = count * pairs * c->specials,
                     .all.tensor = count * x.tensor,
                     .all.groups = count * x.groups,
                     .all.bytes = count * (x.bytes + pairs * c->bytes),
                     .all.far = c->far};
}
