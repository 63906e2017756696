// What the warps of a block do in a nest, counted from its plan as lower/gpu divides it.
//
//   points [t 16,K 128] with a sum over K     16 points: half a warp goes 128 times through loads, operations and stores
//   product t 64 x V 128 x K 128, mma         blocks of 16 rows and 32 columns: 16 for 8 warps, 8 steps of k each
#include <math.h>

#include "compiler/schedule/gpu/model.h"
#include "runtime/shared/gpu_costs.h"

// A nest being counted. What follows is of one warp at one turn, until the end.
typedef struct nest_count {
  const placed_program *p;
  const plan_nest *nest;
  plan_lanes at;  // of the first warp; its vector axis is that whose neighbours a thread takes together
  axis_set over;
  bool *seen;     // by value: it is loaded already
  double shares;  // numbers of a sum that the lanes of a point take at once
  double operations, accesses, loops;
  double addresses;  // made once, when the nest begins
  double wavefronts, specials, bytes, far;
} nest_count;

static const tile_value *value_of(const nest_count *c, tile_id id) { return &c->p->of->p->program->values.items[id]; }

// ---- operations ------------------------------------------------------------------------------

static double times_of(const nest_count *c, axis_set by) {
  double all = model_entries(c->p, c->over & by);
  return all > c->shares ? all / c->shares : 1;
}

// How many entries one operation takes: those of a vector, if there is one and these axes have it.
static int entries_at_once(const nest_count *c, axis_set by) {
  return c->at.vector >= 0 && axis_in(by, c->at.vector) ? c->at.numbers : 1;
}

static axis_set moved_by(const plan_access *x) {
  axis_set by = 0;
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    if (x->stride[axis]) by |= axis_bit(axis);
  return by;
}

// Sectors of memory that the lanes read, so many words each.
static double sectors(const int64_t addresses[MODEL_LANES], int of_each) {
  enum { SECTOR_BYTES = 32, SECTOR_WORDS = 8 };
  int64_t seen[MODEL_LANES];
  int found = 0, count = 0;
  for (int i = 0; i < MODEL_LANES; i++) {
    int n = 0;
    if (addresses[i] < 0) continue;
    while (n < found && seen[n] != addresses[i] / SECTOR_BYTES) n++;
    if (n == found) seen[found++] = addresses[i] / SECTOR_BYTES;
    count++;
  }
  double whole = (double)count * of_each / SECTOR_WORDS;
  return found > whole ? found : whole;
}

typedef enum access_kind { LOAD, STORE } access_kind;

// Neighbours that lie apart take an access each, or one, if all of them are the same number.
static warp_access access_of(const plan_access *x, access_kind kind, const plan_lanes *at) {
  enum { WORD = 4, MOST_BYTES = 16, SECTOR = 32 };
  int64_t addresses[MODEL_LANES];
  bool apart = plan_lies_apart(x, at) || (kind == LOAD && x->of_call && at->numbers > 1);
  int pieces = apart && x->stride[at->vector] ? at->numbers : 1;
  int bytes = plan_bytes_of(x->stored) * (apart ? 1 : at->numbers);
  if (bytes > MOST_BYTES) pieces = bytes / MOST_BYTES, bytes = MOST_BYTES;
  plan_offsets_of(x, at, addresses);
  plan_addresses_in(x, addresses);
  if (x->in_shared) return (warp_access){pieces, pieces * plan_wavefronts(addresses, bytes), 0};
  return (warp_access){pieces, 0, SECTOR * pieces * sectors(addresses, bytes < WORD ? 1 : bytes / WORD)};
}

static void add_access(nest_count *c, const plan_access *x, access_kind kind, double times) {
  if (!x->placed) return;
  warp_access own = access_of(x, kind, &c->at);
  double convert = kind == LOAD ? gpu_cost_widen : gpu_cost_narrow;
  if (number_is_narrow(x->stored)) c->operations += times * convert * entries_at_once(c, moved_by(x));
  c->accesses += times * own.accesses;
  c->addresses += own.accesses;
  c->wavefronts += times * own.wavefronts;
  c->bytes += times * own.bytes;
  if (!x->in_shared) c->far = 1;
}

static void add_operation(nest_count *c, tile_op op, double times) {
  operation_cost cost = model_cost_of_operation(c->p, op);
  c->operations += times * cost.instructions;
  c->specials += times * cost.specials;
}

static void add_operands(nest_count *c, tile_id id, const plan_index_map *maps);

// A value that an operation reads: in registers, computed where it is read, or in memory.
// Is it the state that stays in the accumulators of this nest?
static bool is_accumulator(const nest_count *c, const tile_value *v) {
  const plan *p = c->p->of->p;
  bool is = false;
  for (int i = 0; v->op == TILE_ARGUMENT && i < p->carried_count; i++)
    is = is ||
         (p->carried[i].argument == tile_argument_number(v) && p->carried[i].accumulator == (int)(c->nest - p->nests.items));
  return is;
}

static void add_below(nest_count *c, tile_id id, const plan_index_map *maps) {
  const plan *p = c->p->of->p;
  const tile_value *v = value_of(c, id);
  const plan_index_map here = {v, maps};
  if (is_accumulator(c, v)) return;
  if (plan_is_inline(v->op) && tile_arity(v->op) == 1) {
    add_below(c, v->args[0], &here);
    return;
  }
  if (plan_at_hand(p, id) && v->op != TILE_ARGUMENT) {
    double times = times_of(c, v->axes & c->over) * entries_at_once(c, v->axes);
    if (tile_arity(v->op)) add_operation(c, v->op, times);
    if (!tile_arity(v->op) && v->op != TILE_NUMBER) c->operations += times;
    add_operands(c, id, maps);
    return;
  }
  for (int i = 0; i < c->nest->values.count; i++)
    if (c->nest->values.items[i] == id) return;
  if (v->op == TILE_SEGMENT && plan_levels_of(&c->p->w->m, c->p->of->p->program, id)) {
    // two numbers of the level of both steps, added up
    double times = times_of(c, v->axes & c->over) * entries_at_once(c, v->axes);
    c->operations += times * GPU_COST_LEVEL_READ;
    c->accesses += 2 * times;
    c->wavefronts += 2 * times;
    return;
  }
  if (p->values[id].held == HELD_NEST || p->values[id].held == HELD_WARPS || p->values[id].held == HELD_SCALAR) return;
  plan_access x = gpu_access_of(c->p, id, maps);
  add_access(c, &x, LOAD, times_of(c, moved_by(&x)));
}

static void add_operand(nest_count *c, tile_id id, const plan_index_map *maps) {
  bool moved = c->seen[id];
  c->seen[id] = true;
  if (!moved) add_below(c, id, maps);
}

static void add_operands(nest_count *c, tile_id id, const plan_index_map *maps) {
  const tile_value *v = value_of(c, id);
  for (int k = 0; k < tile_arity(v->op); k++) add_operand(c, v->args[k], maps);
}

static void add_buffer(nest_count *c, int buffer, access_kind kind, double times) {
  plan_access x = gpu_access_of_buffer(c->p, buffer);
  add_access(c, &x, kind, times);
}

static bool is_block(const nest_count *c) { return c->p->w->m.kind == MAP_BLOCK; }

// Where the value goes when it is made.
static void add_stores(nest_count *c, tile_id id, double times) {
  const plan_value *pv = &c->p->of->p->values[id];
  if (!is_block(c) && !c->p->w->m.looped) return;
  if (pv->held == HELD_BUFFER && pv->buffer >= 0 && pv->into == NO_TILE) add_buffer(c, pv->buffer, STORE, times);
  if (pv->copied != NO_TILE && pv->copy >= 0) add_buffer(c, pv->copy, STORE, times);
}

// A value that a later product is added to begins as the other summand, and does nothing where that has its place already.
static bool begins(nest_count *c, tile_id id) {
  const plan *p = c->p->of->p;
  const plan_value *pv = &p->values[id];
  const tile_value *v = value_of(c, id);
  if (pv->nest == (int)(c->nest - p->nests.items) || pv->dot == NO_TILE) return false;
  tile_id other = v->args[v->args[0] == pv->dot];
  if (pv->held == HELD_BUFFER && p->values[other].held == HELD_BUFFER && p->values[other].buffer == pv->buffer) return true;
  add_operand(c, other, NULL);
  add_stores(c, id, times_of(c, v->axes));
  return true;
}

// A value of the nest at all its points.
static void add_value(nest_count *c, tile_id id) {
  const tile_value *v = value_of(c, id);
  if (begins(c, id)) return;
  bool reduces = tile_op_is(v->op, TILE_REDUCES);
  double points = times_of(c, reduces ? ~(axis_set)0 : v->axes);
  int numbers = entries_at_once(c, v->axes | (reduces ? v->over : 0));
  bool in_product = c->p->of->p->values[id].dot != NO_TILE;  // tensor cores add it
  if (!in_product) add_operation(c, v->op == TILE_DOT ? TILE_ADD : v->op, points * numbers);
  add_operands(c, id, NULL);
  add_stores(c, id, reduces ? 1 : points);
}

static void add_result(nest_count *c, int result) {
  const tile_program *program = c->p->of->p->program;
  const tile_result *r = &program->results.items[result];
  axis_set axes = tile_place_axes(program, &r->place);
  add_operand(c, r->value, NULL);
  if (plan_is_carried_role(r->place.role)) return;
  bool summed = !is_block(c) && r->place.role != TILE_KEEP && !axis_in(axes, c->p->w->k->lane_axis);
  if (summed) c->operations += times_of(c, axes) * GPU_COST_SUM_OF_WARP;
  if (summed) return;
  plan_access x = gpu_access_of_tensor(c->p, &r->place);
  add_access(c, &x, STORE, times_of(c, axes));
  c->far = 0;  // nothing waits for a store
}

// ---- who runs a point ------------------------------------------------------------------------

static double instructions_of(const nest_count *c) { return c->operations + c->accesses + gpu_cost_loop * c->loops; }

// Each warp begins the nest once, and goes through its body at each turn.
static gpu_work total(const nest_count *c, model_turns t) {
  double warps = (double)c->p->w->threads / MODEL_LANES, used = t.all < warps ? t.all : warps;
  double own = instructions_of(c), begin = gpu_cost_begin + gpu_cost_address * c->addresses;
  return (gpu_work){.instructions = t.all * own + used * begin,
                    .busiest = t.busiest * own + begin,
                    .operations = t.all * c->operations,
                    .accesses = t.all * c->accesses,
                    .loops = t.all * c->loops,
                    .begins = used,
                    .addresses = used * c->addresses,
                    .wavefronts = t.all * c->wavefronts,
                    .specials = t.all * c->specials,
                    .bytes = t.all * c->bytes,
                    .far = c->far};
}

static void add_values(nest_count *c) {
  if (c->nest->kind == NEST_PACK) {
    add_operand(c, c->nest->packed, NULL);
    add_buffer(c, c->nest->pack, STORE, times_of(c, c->nest->axes));
  }
  for (int i = 0; i < c->nest->values.count; i++) add_value(c, c->nest->values.items[i]);
  for (int i = 0; i < c->nest->results.count; i++) add_result(c, c->nest->results.items[i]);
}

static nest_count count_of(const placed_program *p, const plan_nest *nest, bool *seen) {
  for (int i = 0; i < p->of->p->program->values.count; i++) seen[i] = false;
  return (nest_count){.p = p, .nest = nest, .at.numbers = 1, .over = nest->over, .shares = 1, .seen = seen};
}

// A thread by itself goes through all points.
static gpu_work work_of_thread(nest_count *c) {
  c->over = plan_tile_axes(&c->p->w->m, c->nest->axes);
  for (int lane = 0; lane < MODEL_LANES; lane++) plan_put_index(&c->at, c->p->w->k->lane_axis, lane, lane);
  add_values(c);
  return total(c, (model_turns){(double)c->p->w->threads / MODEL_LANES, 1});
}

static int sums_of(const nest_count *c) {
  int sums = 0;
  for (int i = 0; i < c->nest->values.count; i++) sums += tile_op_is(value_of(c, c->nest->values.items[i])->op, TILE_REDUCES);
  return sums;
}

// All threads share out one sum, or copy numbers.
static gpu_work work_of_numbers(nest_count *c) {
  double all = model_entries(c->p, c->nest->axes);
  axis_list axes = plan_by_rank(&c->p->w->m, c->p->of->program, c->nest->axes);
  bool copies = c->nest->kind == NEST_PACK;
  int last = axes.count ? axes.axes[axes.count - 1] : -1, numbers = 1;
  if (copies && last >= 0) numbers = plan_numbers_at_once(model_size_of(c->p, last), (int64_t)all, c->p->w->threads);
  all /= numbers;
  plan_put_pieces(&c->p->w->m, c->p->of->program, &axes, numbers, &c->at);
  c->over = 0;
  add_values(c);
  gpu_work work = total(c, model_turns_of(c->p, all));
  double sums = copies ? 0 : 2.0 * sums_of(c) * GPU_COST_SUM_OF_WARP;
  work.busiest += sums;
  work.instructions += sums * c->p->w->threads / MODEL_LANES;
  return work;
}

static gpu_work work_of_points(const placed_program *p, const plan_nest *nest, bool *seen) {
  nest_count c = count_of(p, nest, seen);
  if (!is_block(&c)) return work_of_thread(&c);
  plan_threads t = nest->threads;
  double points = model_entries(p, nest->axes & ~nest->over);
  if (t.lanes == PLAN_ALL_THREADS || !t.lanes) return work_of_numbers(&c);
  bool of_sums = t.width > 1 && axis_in(nest->over, t.vector);
  c.shares = t.lanes * (of_sums ? t.width : 1);
  if (!of_sums) points /= t.width;
  plan_put_lanes(&p->w->m, p->of->program, nest, &t, &c.at);
  if (nest->over) c.loops = ceil(model_entries(p, nest->over) / c.shares);
  add_values(&c);
  if (!c.operations && !c.accesses) return (gpu_work){0};
  if (t.lanes > 1) c.operations += sums_of(&c) * (of_sums ? 1 : t.width) * log2(t.lanes) * GPU_COST_SHUFFLED;
  return total(&c, model_turns_of(p, points * t.lanes));
}

// ---- products --------------------------------------------------------------------------------

// A factor of a product as the lanes of a warp load it for 16 steps of k.
typedef struct factor {
  bool by_matrix;
  double operations, accesses, wavefronts, bytes;  // of 16 rows, or of 8 columns
} factor;

static factor factor_of(const nest_count *c, const plan_dot *dot, tile_id id, int pack, int line, int tile_lines) {
  plan_lanes at;
  plan_access m = gpu_access_of_operand(c->p, id, pack);
  bool narrow = number_is_narrow(c->p->w->m.dtype);
  double registers = tile_lines / 8 * (narrow ? 2 : 1);
  if (!m.placed) return (factor){.operations = registers};
  bool whole = model_size_of(c->p, line) % tile_lines == 0 && model_size_of(c->p, dot->k) % GPU_GROUP_DEPTH == 0;
  if (m.in_shared && whole && number_is_narrow(m.stored) == narrow)
    return (factor){.by_matrix = true, .accesses = 1, .wavefronts = tile_lines / 4};
  plan_put_fragment(line, dot->k, 2, &at);
  warp_access x = access_of(&m, LOAD, &at);
  double convert = number_is_narrow(m.stored) ? 2 * gpu_cost_widen : 1;
  return (factor){false, registers * convert, registers * x.accesses, registers * x.wavefronts, registers * x.bytes};
}

// What is loaded before, computed behind and stored of a pair of sums.
static void add_around_product(nest_count *c) {
  const plan *p = c->p->of->p;
  tile_id id = c->nest->values.items[0], sum = p->values[id].into;
  tile_id made = sum != NO_TILE ? sum : id;
  int buffer = p->values[made].buffer;
  bool listed = false;
  for (int i = 1; i < c->nest->values.count; i++) {
    add_value(c, c->nest->values.items[i]);
    listed = listed || c->nest->values.items[i] == sum;
  }
  for (int i = 0; i < c->nest->results.count; i++) add_result(c, c->nest->results.items[i]);
  if (buffer < 0 || listed || plan_sums_state(p, c->nest)) return;
  if (sum != NO_TILE && !c->nest->two) add_buffer(c, buffer, LOAD, 1);
  add_buffer(c, buffer, STORE, 1);
}

// The share of the steps of k that a product takes, where a factor is 0 above its diagonal.
static double share_below(const nest_count *c, const plan_dot *dot) {
  const plan *p = c->p->of->p;
  int t = p->program->time_axis, s = p->program->pair_axis;
  tile_id factors[] = {dot->a, dot->b};
  int lines[] = {dot->i, dot->j};
  for (int k = 0; k < 2; k++) {
    bool pair = (lines[k] == t && dot->k == s) || (lines[k] == s && dot->k == t);
    double blocks = ceil((double)model_size_of(c->p, dot->k) / GPU_TILE_ROWS);
    if (pair && p->values[factors[k]].zero_above) return (blocks + 1) / (2 * blocks);
  }
  return 1;
}

// Of a warp's block of the product.
typedef struct product_work {
  double operations, accesses, loops, wait, wavefronts, bytes, tensor, groups;
} product_work;

static product_work work_of_product(nest_count *c, tile_id id, const plan_dot *dot, int tiles) {
  const mapping *m = &c->p->w->m;
  const tile_program *program = c->p->of->p->program;
  bool narrow = number_is_narrow(m->dtype);
  double depth = ceil((double)model_size_of(c->p, dot->k) / (narrow ? 16 : 8)), three = narrow || m->tf32 ? 1 : 3;
  const tile_value *v = &program->values.items[id];
  depth *= model_entries(c->p, plan_tile_axes(m, v->over) & ~plan_inner_axes(dot));
  factor a = {.by_matrix = true}, b;
  if (!dot->register_a) a = factor_of(c, dot, dot->a, dot->pack_a, dot->i, GPU_TILE_ROWS);
  b = factor_of(c, dot, dot->b, dot->pack_b, dot->j, GPU_TILE_COLUMNS);
  if (dot->wgmma)  // four warps read B together
    return (product_work){.operations = depth * (a.by_matrix ? GPU_COST_GROUP_STEP : a.operations + GPU_COST_GROUP_STEP),
                          .accesses = a.by_matrix ? 0 : depth * a.accesses,
                          .wait = GPU_COST_GROUP_WAIT,
                          .wavefronts = depth * ((a.by_matrix ? 4 : a.wavefronts) + tiles / 2.0),
                          .groups = depth * 16 * 8 * tiles * 16};
  depth *= share_below(c, dot);
  double split = three > 1 ? GPU_COST_SPLIT * (4 + 2.0 * tiles) : 0;
  return (product_work){.operations = depth * (a.operations + tiles * (b.operations + three) + split),
                        .accesses = depth * (a.accesses + tiles * b.accesses),
                        .loops = depth,
                        .wavefronts = depth * (a.wavefronts + tiles * b.wavefronts),
                        .bytes = depth * (a.bytes + tiles * b.bytes),
                        .tensor = depth * three * tiles * 16 * 8 * 16 * (narrow ? 1 : 2)};  // tf32 has half the rate
}

static void add_product(product_work *x, product_work y) {
  x->operations += y.operations;
  x->accesses += y.accesses;
  x->loops += y.loops;
  x->wavefronts += y.wavefronts;
  x->bytes += y.bytes;
  x->tensor += y.tensor;
  x->groups += y.groups;
}

static gpu_work work_of_mma(const placed_program *p, const plan_nest *nest, bool *seen) {
  nest_count c = count_of(p, nest, seen);
  const plan_dot *dot = &nest->dot;
  tile_id id = nest->values.items[0];
  const tile_value *v = &p->of->p->program->values.items[id];
  axis_set around = plan_tile_axes(&p->w->m, v->axes) & ~(axis_bit(dot->i) | axis_bit(dot->j));
  double rows = ceil((double)model_size_of(p, dot->i) / GPU_TILE_ROWS) * model_entries(p, around);
  double columns = ceil((double)model_size_of(p, dot->j) / GPU_TILE_COLUMNS);
  int tiles = plan_tiles_of_nest(&p->w->m, p->of->p, nest);
  double tasks = rows * ceil(columns / tiles), warps = (double)p->w->threads / MODEL_LANES;
  c.over = 0;
  plan_put_fragment(dot->i, dot->j, 2, &c.at);
  add_around_product(&c);
  product_work x = work_of_product(&c, id, dot, tiles);
  if (nest->two) add_product(&x, work_of_product(&c, nest->other, &nest->other_dot, tiles));
  double pairs = 2 * tiles, operations = x.operations + pairs * c.operations, accesses = x.accesses + pairs * c.accesses;
  double own = gpu_cost_block + operations + accesses + gpu_cost_step * x.loops;
  return (gpu_work){.instructions = tasks * own,
                    .busiest = ceil(tasks / warps) * (own + x.wait),
                    .operations = tasks * operations,
                    .accesses = tasks * accesses,
                    .loops = tasks * x.loops,
                    .begins = tasks,
                    .wavefronts = tasks * (x.wavefronts + pairs * c.wavefronts),
                    .specials = tasks * pairs * c.specials,
                    .tensor = tasks * x.tensor,
                    .groups = tasks * x.groups,
                    .bytes = tasks * (x.bytes + pairs * c.bytes),
                    .far = c.far};
}

// Multiply-adds by threads, or a matrix of parameters times a vector: what is loaded is spread evenly.
static gpu_work spread_out(const placed_program *p, double instructions, double wavefronts, double tasks) {
  double warps = (double)p->w->threads / MODEL_LANES, used = ceil(tasks / MODEL_LANES);
  double busy = used < warps ? used : warps;
  return (gpu_work){.instructions = instructions, .busiest = instructions / (busy > 1 ? busy : 1), .wavefronts = wavefronts};
}

// A matrix of parameters times vectors on tensor cores: each warp converts the vectors that it multiplies.
static gpu_work work_of_vectors(const placed_program *p, const plan_nest *nest, const matrix_vector *g) {
  const double warps = (double)p->w->threads / MODEL_LANES, splits = (double)g->splits;
  const double tiles = model_entries(p, g->rows) / GPU_TILE_ROWS * splits / warps, steps = model_entries(p, g->depth) / 16 / splits;
  const double products = tiles * steps, loads = nest->dot.held_b ? 0 : products;
  const double ends = ceil(tiles * GPU_TILE_ROWS * g->vectors / MODEL_LANES);
  double own = gpu_cost_begin + steps * GPU_COST_VECTOR_STEP + products + 2 * loads + ends * GPU_COST_VECTOR_END;
  if (splits > 1) own += ceil(model_entries(p, g->rows) * g->vectors / p->w->threads) * (2 * splits + GPU_COST_VECTOR_END);
  return (gpu_work){.instructions = warps * own,
                    .busiest = own,
                    .wavefronts = warps * 4 * (steps + loads),
                    .tensor = warps * products * GPU_TILE_ROWS * GPU_TILE_COLUMNS * 16,
                    .barriers = splits > 1};
}

// The same by threads (plan/gpu/matrix_vector.c). What the threads of a column have is added up behind a barrier.
static gpu_work work_of_matrix_vector(const placed_program *p, const plan_nest *nest, double all) {
  const mapping *m = &p->w->m;
  matrix_vector g = plan_matrix_vector(m, p->of->p, nest->values.items[0], &nest->dot);
  if (g.mma) return work_of_vectors(p, nest, &g);
  double rows = model_entries(p, g.rows), threads = g.along ? rows * (double)g.lanes : rows / g.width * (double)g.splits;
  plan_access matrix = gpu_access_of_operand(p, nest->dot.b, nest->dot.pack_b);
  double words = all * plan_bytes_of(matrix.stored) / 4, vector = all / g.width;
  gpu_work work = spread_out(p, GPU_COST_VECTOR * all, vector + (matrix.in_shared ? words : 0), threads);
  if (!matrix.in_shared) work.bytes = MODEL_LANES * 4 * words, work.far = 1;
  work.barriers = !g.along && g.splits > g.in_warp;
  return work;
}

static gpu_work work_by_threads(const placed_program *p, const plan_nest *nest) {
  const plan_dot *dot = &nest->dot;
  const tile_value *v = &p->of->p->program->values.items[nest->values.items[0]];
  double all = model_entries(p, (plan_tile_axes(&p->w->m, v->axes | v->over)) | axis_bit(dot->k)) / MODEL_LANES;
  double results = model_entries(p, plan_tile_axes(&p->w->m, v->axes));
  if (dot->i < 0) return work_of_matrix_vector(p, nest, all);
  return spread_out(p, GPU_COST_BY_THREADS * all, all / 2, results / 16);  // blocks of 4 x 4
}

// ---- along time ------------------------------------------------------------------------------

// Lanes of a column load their rows, add up, meet, load them again unless they kept them, add up and store.
static void add_shared_scan(nest_count *c, tile_id id, double rows) {
  enum { MOST_KEPT = 4 };  // of rows in registers (lower/gpu/scan.c)
  bool kept = rows <= MOST_KEPT;
  add_operands(c, id, NULL);
  double loads = kept ? 1 : 2;
  c->operations *= loads, c->accesses *= loads, c->wavefronts *= loads, c->bytes *= loads;
  add_stores(c, id, rows);
  c->operations += 2 * rows + (log2(c->shares) + 1) * GPU_COST_MEETING;
  if (!kept) c->operations += c->accesses * gpu_cost_row;
}

// A warp makes all levels of the sums of a column, or one of them, for which it goes through the levels below.
static gpu_work work_of_levels(const placed_program *p, const plan_nest *nest, double columns, double steps, int levels) {
  double turns = ceil(steps / MODEL_LANES), warps = (double)p->w->threads / MODEL_LANES;
  double tasks = columns * nest->threads.warps, stored = columns * levels * turns;
  double own = (nest->threads.warps > 1 ? levels - 1 : levels) * (GPU_COST_LEVEL + GPU_COST_LEVEL_STEP * turns);
  return (gpu_work){.instructions = tasks * own + gpu_cost_begin * (tasks < warps ? tasks : warps),
                    .busiest = ceil(tasks / warps) * own + gpu_cost_begin,
                    .wavefronts = stored + tasks * turns};
}

// A warp for each block of steps of each column (lower/gpu/segment_adjoint.c).
static gpu_work work_of_adjoint(const placed_program *p, const plan_nest *nest, double columns, double steps) {
  enum { USUAL = 8 };
  int block = nest->threads.steps ? nest->threads.steps : USUAL;
  double blocks = columns * steps / block, of_block = gpu_cost_adjoint_block + gpu_cost_adjoint_step * steps;
  if (block < USUAL) of_block *= gpu_cost_adjoint_half;
  return (gpu_work){.instructions = blocks * of_block,
                    .busiest = ceil(blocks * MODEL_LANES / p->w->threads) * of_block,
                    .wavefronts = blocks * steps * steps / MODEL_LANES};
}

// A prefix, a segment or its adjoint; several lanes share a column where there are few.
static gpu_work work_of_scan(const placed_program *p, const plan_nest *nest, bool *seen) {
  nest_count c = count_of(p, nest, seen);
  tile_id id = nest->values.items[0];
  int t = tile_step_axis(value_of(&c, id));
  axis_list columns = plan_by_rank(&p->w->m, p->of->program, nest->axes & ~axis_bit(t));
  double count = model_entries(p, nest->axes & ~axis_bit(t)), steps = (double)model_size_of(p, t);
  int lanes = plan_lanes_of_scan(&p->w->m, count, model_size_of(p, t));
  int levels = nest->kind == NEST_SEGMENT ? plan_levels_of(&p->w->m, p->of->p->program, id) : 0;
  if (levels)
    return work_of_levels(p, nest, count / (double)model_size_of(p, tile_other_step_axis(value_of(&c, id))), steps, levels);
  if (nest->kind == NEST_SEGMENT_ADJOINT && is_block(&c))
    return work_of_adjoint(p, nest, count / (double)model_size_of(p, tile_other_step_axis(value_of(&c, id))), steps);
  c.over = axis_bit(t);
  c.shares = lanes;
  if (lanes > 1) {
    plan_put_rows(&p->w->m, p->of->program, &columns, t, lanes, model_size_of(p, t) / lanes, &c.at);
    add_shared_scan(&c, id, steps / lanes);
    return total(&c, model_turns_of(p, count * lanes));
  }
  plan_put_pieces(&p->w->m, p->of->program, &columns, 1, &c.at);
  add_operands(&c, id, NULL);
  add_stores(&c, id, steps);
  c.operations += steps + gpu_cost_row;
  return total(&c, model_turns_of(p, count));
}

static gpu_work work_of_nest(arena *scratch, const placed_program *p, const plan_nest *nest) {
  bool *seen = ARENA_ARRAY(scratch, bool, p->of->p->program->values.count + 1);
  switch (nest->kind) {
    case NEST_DOT:
      if (nest->dot.i >= 0 && plan_is_mma(&p->w->m, p->of->p->program, &nest->dot)) return work_of_mma(p, nest, seen);
      return work_by_threads(p, nest);
    case NEST_SOLVE: return model_work_of_solve(p, nest);
    case NEST_PREFIX:
    case NEST_SEGMENT:
    case NEST_SEGMENT_ADJOINT: return work_of_scan(p, nest, seen);
    default: return work_of_points(p, nest, seen);
  }
}

gpu_work model_work_of_nest(arena *scratch, const placed_program *p, const plan_nest *nest, memory_since *since) {
  gpu_work work = work_of_nest(scratch, p, nest);
  work.barriers += p->w->m.kind == MAP_BLOCK && plan_waits(scratch, since, nest);
  return work;
}
