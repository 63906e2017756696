// What the warps of a block do in a nest, counted from its plan as lower/gpu divides it.
//
//   points [t 16,K 128] with a sum over K     16 points: half a warp goes 128 times through loads, operations and stores
//   product t 64 x V 128 x K 128, mma         blocks of 16 rows and 32 columns: 16 for 8 warps, 8 steps of k each
#include <math.h>

#include "compiler/schedule/gpu/model.h"
#include "runtime/shared/gpu_costs.h"

// A nest being counted. What follows is of one warp at one turn, until the end.
typedef struct nest_count {
  const model_program *p;
  const plan_nest *nest;
  warp_place at;
  int vector, numbers;  // the axis whose neighbours a thread takes together, and how many
  axis_set over;
  model_maps maps;
  bool *seen;     // by value: it is loaded already
  double shares;  // numbers of a sum that the lanes of a point take at once
  double operations, accesses, loops, turns;
  double wavefronts, specials, bytes, far;
} nest_count;

static const tile_value *value_of(const nest_count *c, tile_id id) { return &c->p->of->p->program->values.items[id]; }

// ---- operations ------------------------------------------------------------------------------

static double times_of(const nest_count *c, axis_set by) {
  double all = model_entries(c->p, c->over & by);
  return all > c->shares ? all / c->shares : 1;
}

static int numbers_of(const nest_count *c, axis_set by) { return c->vector >= 0 && axis_in(by, c->vector) ? c->numbers : 1; }

static axis_set moved_by(const warp_place *at, const model_memory *m) {
  axis_set by = 0;
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    if (m->stride[axis] && at->index[axis]) by |= at->index[axis]->by;
  return by;
}

static void add_access(nest_count *c, const model_memory *m, const warp_place *at, double times) {
  int numbers = numbers_of(c, moved_by(at, m));
  warp_access x = model_access(m, at, numbers);
  double convert = m->bytes < 4 ? (double)numbers : 0;
  c->accesses += times * x.accesses;
  c->operations += times * convert;
  c->wavefronts += times * x.wavefronts;
  c->bytes += times * x.bytes;
  if (!m->shared) c->far = 1;
}

static void add_operation(nest_count *c, tile_op op, double times) {
  operation_cost cost = model_cost_of_operation(c->p, op);
  c->operations += times * cost.instructions;
  c->specials += times * cost.specials;
}

static void add_operands(nest_count *c, tile_id id, warp_place at);

// A value that an operation reads: in registers, computed where it is read, or in memory.
static void add_operand(nest_count *c, tile_id id, warp_place at) {
  const plan *p = c->p->of->p;
  bool moved = c->seen[id];
  c->seen[id] = true;
  if (moved) return;
  id = model_below_maps(c->p, id, &at, &c->maps);
  const tile_value *v = value_of(c, id);
  if (plan_at_hand(p, id) && v->op != TILE_ARGUMENT) {
    double times = times_of(c, v->axes & c->over) * numbers_of(c, v->axes);
    if (tile_arity(v->op)) add_operation(c, v->op, times);
    if (!tile_arity(v->op) && v->op != TILE_NUMBER) c->operations += times;
    add_operands(c, id, at);
    return;
  }
  for (int i = 0; i < c->nest->values.count; i++)
    if (c->nest->values.items[i] == id) return;
  if (v->op == TILE_SEGMENT && plan_levels_of(&c->p->w->m, c->p->of->p->program, id)) {
    // two numbers of the level of both steps, added up
    enum { OF_LEVEL = 10 };
    double times = times_of(c, v->axes & c->over) * numbers_of(c, v->axes);
    c->operations += times * OF_LEVEL;
    c->accesses += 2 * times;
    c->wavefronts += 2 * times;
    return;
  }
  if (p->values[id].held == HELD_NEST || p->values[id].held == HELD_WARPS || p->values[id].held == HELD_SCALAR) return;
  model_memory m = model_memory_of(c->p, id);
  if (m.known) add_access(c, &m, &at, times_of(c, moved_by(&at, &m)));
}

static void add_operands(nest_count *c, tile_id id, warp_place at) {
  const tile_value *v = value_of(c, id);
  for (int k = 0; k < tile_arity(v->op); k++) add_operand(c, v->args[k], at);
}

static bool is_block(const nest_count *c) { return c->p->w->m.kind == MAP_BLOCK; }

// Where the value goes when it is made.
static void add_stores(nest_count *c, tile_id id, double times) {
  const plan_value *pv = &c->p->of->p->values[id];
  if (!is_block(c) && !c->p->w->m.looped) return;
  if (pv->held == HELD_BUFFER && pv->buffer >= 0 && pv->into == NO_TILE) {
    model_memory m = model_memory_of_buffer(c->p, pv->buffer);
    add_access(c, &m, &c->at, times);
  }
  if (pv->copied != NO_TILE && pv->copy >= 0) {
    model_memory m = model_memory_of_buffer(c->p, pv->copy);
    add_access(c, &m, &c->at, times);
  }
}

// A value that a later product is added to begins as the other summand, and does nothing where that has its place already.
static bool begins(nest_count *c, tile_id id) {
  const plan *p = c->p->of->p;
  const plan_value *pv = &p->values[id];
  const tile_value *v = value_of(c, id);
  if (pv->nest == (int)(c->nest - p->nests.items) || pv->dot == NO_TILE) return false;
  tile_id other = v->args[v->args[0] == pv->dot];
  if (pv->held == HELD_BUFFER && p->values[other].held == HELD_BUFFER && p->values[other].buffer == pv->buffer) return true;
  add_operand(c, other, c->at);
  add_stores(c, id, times_of(c, v->axes));
  return true;
}

// A value of the nest at all its points.
static void add_value(nest_count *c, tile_id id) {
  const tile_value *v = value_of(c, id);
  if (begins(c, id)) return;
  bool reduces = tile_op_is(v->op, TILE_REDUCES);
  double points = times_of(c, reduces ? ~(axis_set)0 : v->axes);
  int numbers = numbers_of(c, v->axes | (reduces ? v->over : 0));
  add_operation(c, v->op == TILE_DOT ? TILE_ADD : v->op, points * numbers);
  add_operands(c, id, c->at);
  add_stores(c, id, reduces ? 1 : points);
}

static void add_result(nest_count *c, int result) {
  const tile_program *program = c->p->of->p->program;
  const tile_result *r = &program->results.items[result];
  axis_set axes = tile_place_axes(program, &r->place);
  add_operand(c, r->value, c->at);
  if (plan_is_carried_role(r->place.role)) return;
  bool summed = !is_block(c) && r->place.role != TILE_KEEP && !axis_in(axes, c->p->w->k->lane_axis);
  if (summed) c->operations += times_of(c, axes) * GPU_COST_SUM_OF_WARP;
  if (summed) return;
  model_memory m = {.known = true, .bytes = kernel_stores_narrow(&c->p->w->m, &r->place) ? 2 : 4};
  int64_t dense = 1;
  for (int x = r->place.axis_count - 1; x >= 0; x--) {
    if (axis_in(c->p->w->m.instance, r->place.axes[x])) continue;
    m.stride[r->place.axes[x]] = dense;
    dense *= model_size_of(c->p, r->place.axes[x]);
  }
  if (r->place.time && program->time_axis >= 0) m.stride[program->time_axis] = dense;
  add_access(c, &m, &c->at, times_of(c, axes));
  c->far = 0;  // nothing waits for a store
}

// ---- who runs a point ------------------------------------------------------------------------

// The pieces that the lanes of the first warp have at its first turn.
typedef struct lane_pieces {
  int64_t of[MODEL_PLACES];
} lane_pieces;

static lane_pieces one_each(double count) {
  lane_pieces p;
  for (int i = 0; i < MODEL_PLACES; i++) p.of[i] = i < MODEL_NEXT && i < count ? i : 0;
  return p;
}

// Indices of the lanes along these axes; the last one counts fastest.
static void place_lanes(nest_count *c, const axis_list *list, lane_pieces pieces, lane_indices *made) {
  for (int x = list->count - 1; x >= 0; x--) {
    int axis = list->axes[x], numbers = axis == c->vector ? c->numbers : 1;
    int64_t size = model_size_of(c->p, axis) / numbers;
    if (size < 1) size = 1;
    for (int i = 0; i < MODEL_PLACES; i++) {
      made[x].at[i] = (int32_t)(pieces.of[i] % size * numbers);
      pieces.of[i] /= size;
    }
    if (numbers > 1) made[x].at[MODEL_NEXT]++;
    made[x].by = axis_bit(axis);
    c->at.index[axis] = &made[x];
  }
}

static void place_sums(nest_count *c, lane_indices *made) {
  for (int axis = 0, n = 0; axis < c->p->of->program->axes.count; axis++) {
    if (!axis_in(c->over, axis)) continue;
    made[n] = (lane_indices){.by = axis_bit(axis)};
    c->at.index[axis] = &made[n++];
  }
}

static double instructions_of(const nest_count *c) {
  return c->operations + (1 + gpu_cost_address) * c->accesses + gpu_cost_loop * c->loops + gpu_cost_turn * c->turns;
}

// Each warp begins the nest once, and goes through its body at each turn.
static gpu_work total(const nest_count *c, model_turns t) {
  double warps = (double)c->p->w->threads / MODEL_LANES, own = instructions_of(c), begin = gpu_cost_begin * c->turns;
  return (gpu_work){.instructions = t.all * own + begin * (t.all < warps ? t.all : warps),
                    .busiest = t.busiest * own + begin,
                    .operations = t.all * c->operations,
                    .accesses = t.all * c->accesses,
                    .loops = t.all * c->loops,
                    .turns = t.all * c->turns,
                    .wavefronts = t.all * c->wavefronts,
                    .specials = t.all * c->specials,
                    .bytes = t.all * c->bytes,
                    .far = c->far};
}

static void add_values(nest_count *c) {
  if (c->nest->kind == NEST_PACK) {
    model_memory m = model_memory_of_buffer(c->p, c->nest->pack);
    add_operand(c, c->nest->packed, c->at);
    add_access(c, &m, &c->at, times_of(c, c->nest->axes));
  }
  for (int i = 0; i < c->nest->values.count; i++) add_value(c, c->nest->values.items[i]);
  for (int i = 0; i < c->nest->results.count; i++) add_result(c, c->nest->results.items[i]);
}

static nest_count count_of(const model_program *p, const plan_nest *nest, bool *seen) {
  for (int i = 0; i < p->of->p->program->values.count; i++) seen[i] = false;
  return (nest_count){.p = p, .nest = nest, .vector = -1, .numbers = 1, .over = nest->over, .shares = 1, .seen = seen};
}

// A thread by itself goes through all points.
static gpu_work work_of_thread(nest_count *c, lane_indices *lane_at, lane_indices *over_at) {
  axis_list lane = {1, {c->p->w->k->lane_axis}};
  c->over = plan_tile_axes(&c->p->w->m, c->nest->axes);
  c->at.active = MODEL_LANES;
  place_lanes(c, &lane, one_each(MODEL_LANES), lane_at);
  lane_at[0].by = 0;
  place_sums(c, over_at);
  add_values(c);
  return total(c, (model_turns){(double)c->p->w->threads / MODEL_LANES, 1});
}

static int sums_of(const nest_count *c) {
  int sums = 0;
  for (int i = 0; i < c->nest->values.count; i++) sums += tile_op_is(value_of(c, c->nest->values.items[i])->op, TILE_REDUCES);
  return sums;
}

// The lanes of the first warp: those that share a sum lie side by side, or apart.
static void place_shares(nest_count *c, const plan_threads *t, double points, lane_indices *outer_at, lane_indices *over_at) {
  int lanes = t->lanes, side = MODEL_LANES / lanes;
  lane_pieces of_points = {0}, of_sums = {0};
  c->at.active = points * lanes < MODEL_LANES ? (int)(points * lanes) : MODEL_LANES;
  for (int i = 0; i < MODEL_LANES; i++) {
    of_points.of[i] = t->apart ? i % side : i / lanes;
    of_sums.of[i] = t->apart ? i / side : i % lanes;
  }
  axis_list outer = plan_by_rank(&c->p->w->m, c->p->of->program, c->nest->axes & ~c->nest->over),
            over = plan_by_rank(&c->p->w->m, c->p->of->program, c->nest->over);
  place_lanes(c, &outer, of_points, outer_at);
  place_lanes(c, &over, of_sums, over_at);
}

// All threads share out one sum, or copy numbers.
static gpu_work work_of_numbers(nest_count *c, lane_indices *made) {
  double all = model_entries(c->p, c->nest->axes);
  axis_list axes = plan_by_rank(&c->p->w->m, c->p->of->program, c->nest->axes);
  bool copies = c->nest->kind == NEST_PACK;
  int last = axes.count ? axes.axes[axes.count - 1] : -1;
  if (copies && last >= 0) c->numbers = plan_numbers_at_once(model_size_of(c->p, last), (int64_t)all, c->p->w->threads);
  if (c->numbers > 1) c->vector = last;
  all /= c->numbers;
  c->at.active = all < MODEL_LANES ? (int)all : MODEL_LANES;
  place_lanes(c, &axes, one_each(all), made);
  c->over = 0;
  add_values(c);
  gpu_work work = total(c, model_turns_of(c->p, all));
  double sums = copies ? 0 : 2.0 * sums_of(c) * GPU_COST_SUM_OF_WARP;
  work.busiest += sums;
  work.instructions += sums * c->p->w->threads / MODEL_LANES;
  return work;
}

static gpu_work work_of_points(const model_program *p, const plan_nest *nest, bool *seen) {
  lane_indices outer_at[PLAN_MAX_AXES] = {0}, over_at[PLAN_MAX_AXES] = {0};
  nest_count c = count_of(p, nest, seen);
  if (!is_block(&c)) return work_of_thread(&c, outer_at, over_at);
  plan_threads t = nest->threads;
  double points = model_entries(p, nest->axes & ~nest->over);
  c.turns = 1;
  if (t.lanes == PLAN_ALL_THREADS || !t.lanes) return work_of_numbers(&c, outer_at);
  if (t.width > 1) c.vector = t.vector, c.numbers = t.width;
  bool of_sums = t.width > 1 && axis_in(nest->over, t.vector);
  c.shares = t.lanes * (of_sums ? t.width : 1);
  if (!of_sums) points /= t.width;
  place_shares(&c, &t, points, outer_at, over_at);
  if (nest->over) c.loops = ceil(model_entries(p, nest->over) / c.shares);
  add_values(&c);
  if (!c.operations && !c.accesses) return (gpu_work){0};
  if (t.lanes > 1) c.operations += sums_of(&c) * (of_sums ? 1 : t.width) * log2(t.lanes) * 3;
  return total(&c, model_turns_of(p, points * t.lanes));
}

// ---- products --------------------------------------------------------------------------------

// A factor of a product as the lanes of a warp load it for 16 steps of k.
typedef struct factor {
  bool by_matrix;
  double instructions, wavefronts, bytes;  // of 16 rows, or of 8 columns
} factor;

// The place of a lane in a fragment: a row or column for each four lanes, two neighbours of k for each.
static factor factor_of(nest_count *c, const plan_dot *dot, tile_id id, int pack, int line, int tile_lines) {
  const plan *p = c->p->of->p;
  lane_indices of_line = {.by = axis_bit(line)}, of_depth = {.by = axis_bit(dot->k)};
  for (int i = 0; i < MODEL_PLACES; i++) {
    of_line.at[i] = i < MODEL_NEXT ? i / 4 : 0;
    of_depth.at[i] = i < MODEL_NEXT ? 2 * (i % 4) : 1;
  }
  warp_place at = {.active = MODEL_LANES};
  at.index[line] = &of_line;
  at.index[dot->k] = &of_depth;
  tile_id leaf = pack < 0 ? model_below_maps(c->p, id, &at, &c->maps) : id;
  model_memory m = pack < 0 ? model_memory_of(c->p, leaf) : model_memory_of_buffer(c->p, pack);
  bool narrow = number_is_narrow(c->p->w->m.dtype);
  double registers = tile_lines / 8 * (narrow ? 2 : 1);
  if (!m.known) return (factor){.instructions = registers};
  bool whole = model_size_of(c->p, line) % tile_lines == 0 && model_size_of(c->p, dot->k) % GPU_GROUP_DEPTH == 0;
  if (m.shared && whole && m.bytes == (narrow ? 2 : 4) && p->values[leaf].held != HELD_SCALAR)
    return (factor){true, 1 + 2 * gpu_cost_address, tile_lines / 4, 0};
  warp_access x = model_access(&m, &at, 2);
  double convert = m.bytes < 4 ? 2 : 1;
  return (factor){false, registers * (x.accesses * (1 + gpu_cost_address) + convert), registers * x.wavefronts,
                  registers * x.bytes};
}

// Sums that a lane holds of a tile of 8 columns: pairs of neighbours, in two rows.
static void place_of_sums(const plan_dot *dot, warp_place *at, lane_indices made[2]) {
  made[0] = (lane_indices){.by = axis_bit(dot->i)};
  made[1] = (lane_indices){.by = axis_bit(dot->j)};
  for (int i = 0; i < MODEL_PLACES; i++) {
    made[0].at[i] = i < MODEL_NEXT ? i / 4 : 0;
    made[1].at[i] = i < MODEL_NEXT ? 2 * (i % 4) : 1;
  }
  *at = (warp_place){.active = MODEL_LANES};
  at->index[dot->i] = &made[0];
  at->index[dot->j] = &made[1];
}

// Is the sum the register-resident state of this nest?
static bool stays_in_registers(const nest_count *c, tile_id sum) {
  const plan *p = c->p->of->p;
  int buffer = p->values[sum].buffer, carried = buffer < 0 ? -1 : p->buffers.items[buffer].carried;
  return carried >= 0 && p->carried[carried].accumulator == (int)(c->nest - p->nests.items);
}

// What is loaded before, computed behind and stored of a pair of sums.
static void add_around_product(nest_count *c) {
  const plan *p = c->p->of->p;
  tile_id id = c->nest->values.items[0], sum = p->values[id].into;
  tile_id made = sum != NO_TILE ? sum : id;
  model_memory m = {0};
  bool listed = false;
  if (p->values[made].buffer >= 0) m = model_memory_of_buffer(c->p, p->values[made].buffer);
  for (int i = 1; i < c->nest->values.count; i++) {
    add_value(c, c->nest->values.items[i]);
    listed = listed || c->nest->values.items[i] == sum;
  }
  for (int i = 0; i < c->nest->results.count; i++) add_result(c, c->nest->results.items[i]);
  if (!m.known || stays_in_registers(c, made)) return;
  if (sum != NO_TILE && !listed && !c->nest->two) add_access(c, &m, &c->at, 1);
  if (!listed) add_access(c, &m, &c->at, 1);
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

typedef struct product_work {
  double of_task, wavefronts, bytes, tensor, groups;  // of a warp's block of the product
} product_work;

static product_work work_of_product(nest_count *c, tile_id id, const plan_dot *dot, int tiles) {
  const mapping *m = &c->p->w->m;
  const tile_program *program = c->p->of->p->program;
  bool narrow = number_is_narrow(m->dtype), group = plan_may_be_wgmma(m, program, dot);
  double depth = ceil((double)model_size_of(c->p, dot->k) / (narrow ? 16 : 8)), three = narrow || m->tf32 ? 1 : 3;
  const tile_value *v = &program->values.items[id];
  depth *= model_entries(c->p, plan_tile_axes(m, v->over) & ~plan_inner_axes(dot));
  factor a = {.by_matrix = true}, b;
  if (!dot->register_a) a = factor_of(c, dot, dot->a, dot->pack_a, dot->i, GPU_TILE_ROWS);
  b = factor_of(c, dot, dot->b, dot->pack_b, dot->j, GPU_TILE_COLUMNS);
  product_work x = {0};
  group = group && b.by_matrix;  // wgmma reads no scratch
  if (!group) depth *= share_below(c, dot);
  if (group) {
    double of_a = a.by_matrix ? 1 : a.instructions, read_a = a.by_matrix ? 4 : a.wavefronts;
    x.of_task = depth * (of_a + 1 + gpu_cost_address) + GPU_COST_GROUP_WAIT;
    x.wavefronts = depth * (read_a + tiles / 2.0);  // four warps read B together
    x.groups = depth * 16 * 8 * tiles * 16;
    return x;
  }
  double split = three > 1 ? 4 * (4 + 2.0 * tiles) : 0;
  x.of_task = depth * (a.instructions + tiles * (b.instructions + three) + split + gpu_cost_loop);
  x.wavefronts = depth * (a.wavefronts + tiles * b.wavefronts);
  x.bytes = depth * (a.bytes + tiles * b.bytes);
  x.tensor = depth * three * tiles * 16 * 8 * 16 * (narrow ? 1 : 2);  // tf32 has half the rate
  return x;
}

static gpu_work work_of_mma(const model_program *p, const plan_nest *nest, bool *seen) {
  lane_indices made[2];
  nest_count c = count_of(p, nest, seen);
  const plan_dot *dot = &nest->dot;
  tile_id id = nest->values.items[0];
  const tile_value *v = &p->of->p->program->values.items[id];
  axis_set around = plan_tile_axes(&p->w->m, v->axes) & ~(axis_bit(dot->i) | axis_bit(dot->j));
  double rows = ceil((double)model_size_of(p, dot->i) / GPU_TILE_ROWS) * model_entries(p, around);
  double columns = ceil((double)model_size_of(p, dot->j) / GPU_TILE_COLUMNS);
  int tiles = plan_tiles_of_warp(&p->w->m, p->of->p->program, dot, (int64_t)rows);
  if (plan_warps_of_row(&p->w->m, p->of->p, nest) == 1 && tiles < columns) tiles = (int)columns;
  double tasks = rows * ceil(columns / tiles), warps = (double)p->w->threads / MODEL_LANES;
  c.over = 0;
  place_of_sums(dot, &c.at, made);
  c.vector = dot->j, c.numbers = 2;
  add_around_product(&c);
  product_work x = work_of_product(&c, id, dot, tiles);
  if (nest->two) {
    product_work y = work_of_product(&c, nest->other, &nest->other_dot, tiles);
    x.of_task += y.of_task, x.wavefronts += y.wavefronts, x.bytes += y.bytes, x.tensor += y.tensor, x.groups += y.groups;
  }
  double pairs = 2 * tiles, own = gpu_cost_begin + x.of_task + pairs * (instructions_of(&c) + gpu_cost_address);
  return (gpu_work){.instructions = tasks * own,
                    .busiest = ceil(tasks / warps) * own,
                    .wavefronts = tasks * (x.wavefronts + pairs * c.wavefronts),
                    .specials = tasks * pairs * c.specials,
                    .tensor = tasks * x.tensor,
                    .groups = tasks * x.groups,
                    .bytes = tasks * (x.bytes + pairs * c.bytes),
                    .far = c.far};
}

// Multiply-adds by threads, or a matrix of parameters times a vector: what is loaded is spread evenly.
static gpu_work spread_out(const model_program *p, double instructions, double wavefronts, double tasks) {
  double warps = (double)p->w->threads / MODEL_LANES, used = ceil(tasks / MODEL_LANES);
  double busy = used < warps ? used : warps;
  return (gpu_work){.instructions = instructions, .busiest = instructions / (busy > 1 ? busy : 1), .wavefronts = wavefronts};
}

static gpu_work work_by_threads(const model_program *p, const plan_nest *nest) {
  enum { OF_VECTOR = 3 };  // a number of a matrix, unpacked, times one of a vector; lanes that add up
  const plan_dot *dot = &nest->dot;
  const tile_value *v = &p->of->p->program->values.items[nest->values.items[0]];
  double all = model_entries(p, (plan_tile_axes(&p->w->m, v->axes | v->over)) | axis_bit(dot->k)) / MODEL_LANES;
  double results = model_entries(p, plan_tile_axes(&p->w->m, v->axes));
  if (dot->i < 0) return spread_out(p, OF_VECTOR * all, all, results);
  return spread_out(p, 2 * all, all / 2, results / 16);  // blocks of 4 x 4
}

// ---- along time ------------------------------------------------------------------------------

// The lanes of the first warp: those that share a column lie apart, each with rows that follow one another.
static void place_rows(nest_count *c, const axis_list *columns, int t, int lanes, lane_indices *outer_at,
                       lane_indices *step_at) {
  lane_pieces of_columns = {0};
  int side = MODEL_LANES / lanes;
  int32_t rows = (int32_t)(model_size_of(c->p, t) / lanes);
  *step_at = (lane_indices){.by = axis_bit(t)};
  for (int i = 0; i < MODEL_LANES; i++) {
    of_columns.of[i] = i % side < c->at.active ? i % side : 0;
    step_at->at[i] = i / side * rows;
  }
  place_lanes(c, columns, of_columns, outer_at);
  c->at.index[t] = step_at;
}

// Lanes of a column load their rows, add up, meet, load them again unless they kept them, add up and store.
static void add_shared_scan(nest_count *c, tile_id id, double rows) {
  enum { MOST_KEPT = 4, OF_MEETING = 5 };  // a shuffle, a comparison, a choice, an addition, a copy
  bool kept = rows <= MOST_KEPT;
  add_operands(c, id, c->at);
  double loads = kept ? 1 : 2;
  c->operations *= loads, c->accesses *= loads, c->wavefronts *= loads, c->bytes *= loads;
  add_stores(c, id, rows);
  c->operations += 2 * rows + (log2(c->shares) + 1) * OF_MEETING;
  if (!kept) c->operations += c->accesses * gpu_cost_row, c->loops = 2 * rows;
}

// A warp for each column makes all levels of its sums.
static gpu_work work_of_levels(const model_program *p, double columns, double steps, int levels) {
  enum { OF_LEVEL = 4, OF_STEP = 3 };
  double of_column = levels * (OF_LEVEL + OF_STEP * ceil(steps / MODEL_LANES)), warps = (double)p->w->threads / MODEL_LANES;
  double each = ceil(columns / warps);
  return (gpu_work){.instructions = columns * of_column + gpu_cost_begin * (columns < warps ? columns : warps),
                    .busiest = each * of_column + gpu_cost_begin,
                    .wavefronts = columns * (levels + 1) * ceil(steps / MODEL_LANES)};
}

// A prefix, a segment or its adjoint; several lanes share a column where there are few.
static gpu_work work_of_scan(const model_program *p, const plan_nest *nest, bool *seen) {
  nest_count c = count_of(p, nest, seen);
  tile_id id = nest->values.items[0];
  lane_indices outer_at[PLAN_MAX_AXES], step_at[1];
  int t = tile_step_axis(value_of(&c, id));
  axis_list columns = plan_by_rank(&p->w->m, p->of->program, nest->axes & ~axis_bit(t));
  double count = model_entries(p, nest->axes & ~axis_bit(t)), steps = (double)model_size_of(p, t);
  int lanes = plan_lanes_of_scan(&p->w->m, count, model_size_of(p, t));
  int levels = nest->kind == NEST_SEGMENT ? plan_levels_of(&p->w->m, p->of->p->program, id) : 0;
  if (levels) return work_of_levels(p, count / (double)model_size_of(p, tile_other_step_axis(value_of(&c, id))), steps, levels);
  c.over = axis_bit(t);
  c.turns = 1;
  c.shares = lanes;
  c.at.active = count * lanes < MODEL_LANES ? (int)(count * lanes) : MODEL_LANES;
  if (lanes > 1) {
    place_rows(&c, &columns, t, lanes, outer_at, step_at);
    add_shared_scan(&c, id, steps / lanes);
    return total(&c, model_turns_of(p, count * lanes));
  }
  place_lanes(&c, &columns, one_each(count), outer_at);
  place_sums(&c, step_at);
  add_operands(&c, id, c.at);
  add_stores(&c, id, steps);
  c.loops = c.operations = steps;
  return total(&c, model_turns_of(p, count));
}

static gpu_work work_of_nest(const model_program *p, const plan_nest *nest) {
  bool *seen = ARENA_ARRAY(p->scratch, bool, p->of->p->program->values.count + 1);
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

gpu_work model_work_of_nest(const model_program *p, const plan_nest *nest, memory_since *since) {
  gpu_work work = work_of_nest(p, nest);
  work.barriers = p->w->m.kind == MAP_BLOCK && plan_waits(p->scratch, since, nest);
  return work;
}
