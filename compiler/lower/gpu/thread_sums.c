// GPU: sums over the threads of a block.
//
//   d.B[n] += x[n] of every channel    sums of warps by shuffles, into shared memory; then thread n adds up the warps
//
// Numbers of a thread that are in registers are summed over a warp all at once. Each exchange
// halves how many a lane has left:
//
//   lane 0  a b c d      a0+a2  b0+b2      a0+a1+a2+a3
//   lane 1  a b c d      a1+a3  b1+b3      b0+b1+b2+b3
//   lane 2  a b c d  ->  c0+c2  d0+d2  ->  c0+c1+c2+c3
//   lane 3  a b c d      c1+c3  d1+d3      d0+d1+d2+d3
//
// So 32 numbers take 31 shuffles, where sums of one after the other take 160, and each lane stores
// one of them.
#include "compiler/lower/gpu/nests.h"

static int team_warps(const lower *l) { return l->team->threads / GPU_WARP_LANES; }

// ---- one number ----

// The first lane of every warp stores the sum of its warp.
static void store_of_warp(lower *l, ir x, ir at) {
  emitter *e = l->e;
  ir first = int_compare(e, LLVMIntEQ, gpu_lane(l), integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  store_real(e, x, element(e, e->real, l->team->sums, at));
  branch_end(e, &branch);
}

ir team_all(lower *l, tile_op op, ir x) {
  emitter *e = l->e;
  x = gpu_across_lanes(e, op, x, GPU_WARP_LANES / 2, 1);
  lower_barrier(l);
  store_of_warp(l, x, gpu_warp(l));
  lower_barrier(l);
  for (int warp = 0; warp < team_warps(l); warp++) {
    ir y = load_real(e, element(e, e->real, l->team->sums, integer(e, warp)), 0);
    x = warp ? lower_combine(e, op, x, y) : y;
  }
  return x;
}

// ---- where the sums of warps lie ----

// The place of a number among those of the nest: behind those of the nest's earlier results.
static ir result_number(lower *l, const team_sums *s, int position, const place_in_loops *at) {
  emitter *e = l->e;
  ir number = integer(e, 0);
  for (int axis = 0; s->points >= 0 && axis < l->p->program->axes.count; axis++)
    if (axis_in(s->nest->axes, axis))
      number = int_add(e, int_mul(e, number, l->axis_size[axis]), at->index[axis]);
  int before = 0;
  for (int i = 0; i < position; i++) before += l->results[s->nest->results.items[i]].over_threads;
  return int_add_n(e, number, before * (s->points < 0 ? 1 : s->points));
}

// Neighbouring numbers of a warp lie side by side.
static ir warp_sum_place(lower *l, const team_sums *s, ir warp, ir number) {
  return int_add(l->e, int_mul_n(l->e, warp, s->numbers), number);
}

// ---- all numbers of a warp ----

// Lanes with that bit keep the second half of the numbers and give the first; the others keep the
// first.
static void halve(lower *l, ir *x, int count, int mask) {
  emitter *e = l->e;
  ir bit = bit_and(e, gpu_lane(l), LLVMConstInt(e->i32, (unsigned)mask, 0));
  ir upper = int_compare(e, LLVMIntNE, bit, integer(e, 0));
  for (int i = 0; i < count / 2; i++) {
    ir low = x[i], high = x[i + count / 2];
    if (!low) break;
    if (!high) high = real_number(e, 0, 0);
    ir other = gpu_from_lane(e, GPU_SHFL_BFLY_F32, choose(e, upper, low, high), mask);
    x[i] = real_add(e, choose(e, upper, high, low), other);
  }
}

// Sums up to 32 numbers, from the first on, over the lanes of each warp, and stores them.
static void sum_in_warps(lower *l, const team_sums *s, int first) {
  emitter *e = l->e;
  ir x[GPU_WARP_LANES] = {NULL};
  int count = 1, there = s->numbers - first < GPU_WARP_LANES ? s->numbers - first : GPU_WARP_LANES;
  while (count < there) count *= 2;
  for (int i = 0; i < there; i++)
    x[i] = load_real(e, element(e, e->real, s->staged, integer(e, first + i)), 0);
  int alike = GPU_WARP_LANES / count, mask = GPU_WARP_LANES / 2;
  for (int left = count; left > 1; left /= 2, mask /= 2) halve(l, x, left, mask);
  x[0] = gpu_across_lanes(e, TILE_SUM, x[0], mask, 1);
  ir number = int_div_n(e, gpu_lane(l), alike);
  ir stores = int_compare(e, LLVMIntULT, number, integer(e, there));
  if (alike > 1) {
    ir rest = int_rem_n(e, gpu_lane(l), alike);
    stores = bit_and(e, stores, int_compare(e, LLVMIntEQ, rest, integer(e, 0)));
  }
  emit_branch branch = branch_begin(e, stores);
  ir at = warp_sum_place(l, s, gpu_warp(l), int_add_n(e, number, first));
  store_real(e, x[0], element(e, e->real, l->team->sums, at));
  branch_end(e, &branch);
}

// ---- results ----

static void store_sum(lower *l, const team_sums *s, int position, const place_in_loops *at) {
  emitter *e = l->e;
  int result = s->nest->results.items[position];
  const result_target *target = &l->results[result];
  ir number = result_number(l, s, position, at), sum = NULL;
  for (int warp = 0; warp < team_warps(l); warp++) {
    ir x = load_real(
        e, element(e, e->real, l->team->sums, warp_sum_place(l, s, integer(e, warp), number)), 0);
    sum = sum ? real_add(e, sum, x) : x;
  }
  emit_branch branch = branch_begin(e, target->active);
  view_store(l, &target->at, at,
             tile_place_axes(l->p->program, &l->p->program->results.items[result].place), sum);
  branch_end(e, &branch);
}

// Run-time sizes: every point is summed at once, with barriers of its own.
static void sum_each_point(lower *l, const team_sums *s, int position, const place_in_loops *at) {
  emitter *e = l->e;
  gpu_call(e, GPU_BARRIER, NULL, 0);
  ir first = int_compare(e, LLVMIntEQ, l->team->thread, integer(e, 0));
  emit_branch branch = branch_begin(e, first);
  store_sum(l, s, position, at);
  branch_end(e, &branch);
  gpu_call(e, GPU_BARRIER, NULL, 0);
}

// Registers hold what a nest sums if its loops are unrolled.
static bool in_registers(const lower *l, const team_sums *s) {
  enum { MOST_NUMBERS = 2 * GPU_WARP_LANES };
  return l->m->kind == MAP_THREADS && !l->m->looped && s->points >= 0 && s->numbers > 1 &&
         s->numbers <= MOST_NUMBERS;
}

team_sums team_open(lower *l, const plan_nest *nest) {
  team_sums s = {.nest = nest, .points = plan_entries(l->p->program, nest->axes)};
  int results = 0;
  for (int i = 0; i < nest->results.count; i++)
    results += l->results[nest->results.items[i]].over_threads;
  s.numbers = results * (int)(s.points < 0 ? 1 : s.points);
  if (in_registers(l, &s))
    s.staged = stack_slot(l->e, LLVMArrayType2(l->e->real, (uint64_t)s.numbers), "staged");
  return s;
}

void team_stage(lower *l, const team_sums *s, int position, const place_in_loops *at, ir x) {
  emitter *e = l->e;
  const team *t = l->team;
  const result_target *target = &l->results[s->nest->results.items[position]];
  ir zero = real_number(e, 0, 0), number = result_number(l, s, position, at);
  if (target->own) x = choose(e, target->own, x, zero);
  x = choose(e, t->inside, x, zero);
  if (s->staged) {
    store_real(e, x, element(e, e->real, s->staged, number));
    return;
  }
  ir at_warp = warp_sum_place(l, s, gpu_warp(l), number);
  store_of_warp(l, gpu_across_lanes(e, TILE_SUM, x, GPU_WARP_LANES / 2, 1), at_warp);
  if (s->points < 0) sum_each_point(l, s, position, at);
}

static void point_among_threads(lower *l, const team_sums *s, int position) {
  emitter *e = l->e;
  emit_loop loop = loop_begin(e, l->team->thread, integer(e, s->points), l->team->threads, "sum");
  place_in_loops at = l->outside;
  ir rest = loop.index;
  for (int axis = l->p->program->axes.count - 1; axis >= 0; axis--) {
    if (!axis_in(s->nest->axes, axis)) continue;
    at.index[axis] = int_rem(e, rest, l->axis_size[axis]);
    rest = int_div(e, rest, l->axis_size[axis]);
  }
  store_sum(l, s, position, &at);
  loop_end(e, &loop);
}

void team_finish(lower *l, const team_sums *s) {
  if (!s->numbers || s->points < 0) return;
  for (int first = 0; s->staged && first < s->numbers; first += GPU_WARP_LANES)
    sum_in_warps(l, s, first);
  gpu_call(l->e, GPU_BARRIER, NULL, 0);
  for (int i = 0; i < s->nest->results.count; i++)
    if (l->results[s->nest->results.items[i]].over_threads) point_among_threads(l, s, i);
  gpu_call(l->e, GPU_BARRIER, NULL, 0);
}
