// GPU: how the threads of a block divide a nest of points.
//
//   points [t 16,K 128]: %6 = log_sigmoid(gate) -> b1; %9 = dot[K](q, k) -> b0      256 threads
//     a thread for each sum:                16 threads at work, whose neighbours read 128 numbers apart
//     16 lanes for each, 4 of K at once:    all at work, and a row of K is read by neighbours
//
// Lanes that share a sum are neighbours if they read neighbours of memory: the contiguous axis is
// summed. Otherwise neighbouring lanes have neighbouring points (`apart`). Of all ways to divide a
// nest the one with the fewest cycles is taken, by the count of its work (nest_work.c).
#include "compiler/plan/gpu/nest_work.h"
#include "compiler/plan/planner.h"

typedef struct dividing {
  const planner *q;
  plan_nest *nest;
  axis_list points, summed;  // by rank, the last one contiguous
  int64_t point_count, sum_length;
  arena *scratch;
} dividing;

static int64_t planned_size(const dividing *d, int axis) {
  return plan_axis_size(d->q->program, axis);
}

static int last_of(const axis_list *list) { return list->count ? list->axes[list->count - 1] : -1; }

// Rows of results end with the sequence, so that time is not taken in vectors where there are any.
static bool may_be_vector(const dividing *d, int axis) {
  if (axis < 0 || planned_size(d, axis) == TILE_RUNTIME_SIZE) return false;
  return axis != d->q->program->time_axis || !d->nest->results.count;
}

// Of the nest, if the threads divide it so.
static gpu_work points_work(const dividing *d, const plan_threads *t) {
  const placed_program p = {.m = d->q->m, .p = d->q->p, .threads = d->q->m->threads};
  d->nest->threads = *t;
  return gpu_work_of_nest(d->scratch, &p, d->nest, NULL, NULL).all;
}

// ---- choice ----

// Neighbours along the last of these axes while all threads have work.
static plan_threads in_vectors(const dividing *d, int lanes, int vector, int64_t count) {
  bool whole = may_be_vector(d, vector) && count >= 0;
  int width = whole ? plan_numbers_at_once(planned_size(d, vector), count, d->q->m->threads) : 1;
  return (plan_threads){.lanes = lanes, .vector = vector, .width = width};
}

static void take_if_better(const dividing *d, plan_threads t, plan_threads *best, double *least) {
  const gpu_machine device = machine_device_of(GPU_SM_80);
  const gpu_speed speed = gpu_speed_of(&device);
  gpu_work work = points_work(d, &t);
  double cycles = gpu_cycles(&work, &speed);
  if (*least >= 0 && cycles >= *least) return;
  *best = t;
  *least = cycles;
}

// ---- rows in other banks ----

// The axis along which a warp has several rows.
static int warp_row_axis(const dividing *d, const plan_threads *t) {
  return last_of(t->apart ? &d->summed : &d->points);
}

static void take_if_fewer(const dividing *d, plan_threads t, plan_threads *best, double *fewest) {
  const double wavefronts = points_work(d, &t).wavefronts;
  if (wavefronts >= *fewest) return;
  *best = t;
  *fewest = wavefronts;
}

// Rows that are summed lie 4 apart, and points take their numbers in several orders, if fewer
// wavefronts serve them so.
static plan_threads spread(const dividing *d, plan_threads t) {
  enum { MOST_ORDERS = 4 };
  if (t.lanes == 1 || t.lanes == GPU_WARP_LANES) return t;
  plan_threads best = t, other = t;
  double fewest = points_work(d, &t).wavefronts;
  other.far = t.apart && t.lanes % PLAN_FAR_ROWS == 0 &&
              planned_size(d, warp_row_axis(d, &t)) % PLAN_FAR_ROWS == 0;
  if (other.far) take_if_fewer(d, other, &best, &fewest);
  const bool sums_vector = t.width > 1 && axis_in(d->nest->over, t.vector);
  for (int orders = 2; sums_vector && orders <= MOST_ORDERS && orders * t.lanes <= GPU_WARP_LANES;
       orders *= 2) {
    other.orders = orders;
    if (d->sum_length / t.width % (t.lanes * orders) == 0) take_if_fewer(d, other, &best, &fewest);
  }
  return best;
}

// Of unknown sizes a warp has each sum if its numbers are neighbours.
static plan_threads divided_unknown(bool sums_last) {
  return (plan_threads){.lanes = sums_last ? GPU_WARP_LANES : 1, .width = 1};
}

static plan_threads divided_sums(const dividing *d) {
  int last = last_of(&d->points), summed = last_of(&d->summed);
  bool sums_last = d->q->m->rank[summed] > d->q->m->rank[last];
  if (d->point_count < 0 || d->sum_length < 0) return divided_unknown(sums_last);
  plan_threads best = {0};
  double least = -1;
  int vector = sums_last ? summed : last;
  enum { MOST_AT_ONCE = 4 };
  int most = may_be_vector(d, vector) ? MOST_AT_ONCE : 1;
  for (int width = 1; width <= most && planned_size(d, vector) % width == 0; width *= 2) {
    for (int lanes = 1; lanes <= GPU_WARP_LANES; lanes *= 2) {
      if (lanes > 1 && lanes > d->sum_length) break;
      take_if_better(
          d, (plan_threads){.lanes = lanes, .apart = !sums_last, .vector = vector, .width = width},
          &best, &least);
    }
  }
  return spread(d, best);
}

// `scratch`: for counting, which is done many times.
static plan_threads divide_nest(const planner *q, plan_nest *nest, arena *scratch) {
  dividing d = {.q = q,
                .nest = nest,
                .scratch = scratch,
                .points = plan_by_rank(q->m, q->program, nest->axes & ~nest->over),
                .summed = plan_by_rank(q->m, q->program, nest->over)};
  d.point_count = plan_entries(q->program, nest->axes & ~nest->over);
  d.sum_length = plan_entries(q->program, nest->over);
  if (!nest->over) return in_vectors(&d, 1, last_of(&d.points), d.point_count);
  if (!d.points.count) return in_vectors(&d, PLAN_ALL_THREADS, last_of(&d.summed), d.sum_length);
  if (choice_is_left_out(q->m->kernel->without, CHOICE_SHARED_SUMS))
    return in_vectors(&d, 1, last_of(&d.points), d.point_count);
  return divided_sums(&d);
}

// ---- levels of sums along time ----

// A warp that makes one level takes most of the time of all levels: it adds up the same blocks. It
// is worth it where all levels are made at once.
static plan_threads divided_levels(const planner *q, const plan_nest *nest) {
  tile_id id = nest->values.items[0];
  const tile_value *v = value(q, id);
  int levels = plan_levels_of(q->m, q->program, id);
  int64_t columns = plan_entries(
      q->program, nest->axes & ~(axis_bit(tile_step_axis(v)) | axis_bit(tile_other_step_axis(v))));
  bool each = levels && columns * levels <= q->m->threads / GPU_WARP_LANES;
  return (plan_threads){.warps = each ? levels : levels ? 1 : 0};
}

// A warp makes eight neighbouring steps, or four where warps would have none. The rows behind them
// are read once for all.
static plan_threads divided_adjoint(const planner *q, const plan_nest *nest) {
  enum { MOST = 8, FEWEST = 4 };
  const tile_value *v = value(q, nest->values.items[0]);
  int t = tile_step_axis(v);
  int64_t steps = plan_axis_size(q->program, t), warps = q->m->threads / GPU_WARP_LANES;
  int64_t columns =
      plan_entries(q->program, nest->axes & ~(axis_bit(t) | axis_bit(tile_other_step_axis(v))));
  if (steps % MOST || columns < 0) return (plan_threads){0};
  return (plan_threads){.steps = columns * steps / FEWEST <= warps ? FEWEST : MOST};
}

// ---- warps of nests side by side ----

static int64_t blocks_of_adjoint(const planner *q, const plan_nest *nest) {
  const tile_value *v = value(q, nest->values.items[0]);
  int64_t count = plan_entries(q->program, nest->axes & ~axis_bit(tile_other_step_axis(v)));
  return nest->threads.steps && count > 0 ? count / nest->threads.steps : 0;
}

// The points, columns or blocks of a nest that a warp has each, in warps; 0: they go to all warps,
// or to no other than those they have.
static int64_t warps_with_work(const planner *q, const plan_nest *nest) {
  const plan_threads *t = &nest->threads;
  if (nest->kind == NEST_SEGMENT_ADJOINT) return blocks_of_adjoint(q, nest);
  if (nest->kind == NEST_DOT) return nest->dot.i < 0 ? 0 : plan_blocks_of_nest(q->m, q->p, nest);
  bool points = nest->kind == NEST_POINTS && t->lanes == 1 && !nest->over && nest->axes;
  if (nest->results.count || !(points || nest->kind == NEST_PREFIX || t->warps)) return 0;
  const tile_value *v = value(q, nest->values.items[0]);
  axis_set axes = points ? nest->axes : nest->axes & ~axis_bit(tile_step_axis(v));
  if (t->warps) axes &= ~axis_bit(tile_other_step_axis(v));
  int64_t count = plan_entries(q->program, axes);
  if (count < 0) return 0;
  if (t->warps) return count * t->warps;
  int64_t threads = points
                        ? count / t->width
                        : count * plan_lanes_of_scan(q->m, (double)count,
                                                     plan_axis_size(q->program, tile_step_axis(v)));
  return blocks_up(threads, GPU_WARP_LANES);
}

// Of nests between the same barriers, each begins with the warp behind those that have work of the
// one before.
static void spread_over_warps(planner *q) {
  int64_t all = q->m->threads / GPU_WARP_LANES, next = 0;
  vec_each(plan_nest, nest, q->p->nests) {
    int64_t warps = warps_with_work(q, nest);
    if (!nest->beside) next = 0;
    if (!warps || warps >= all) continue;
    nest->threads.begin = (int)next;
    next = (next + warps) % all;
  }
}

void plan_divide_nests(planner *q) {
  arena *scratch = arena_new();
  vec_each(plan_nest, nest, q->p->nests) {
    if (nest->kind == NEST_POINTS) nest->threads = divide_nest(q, nest, scratch);
    if (nest->kind == NEST_SEGMENT) nest->threads = divided_levels(q, nest);
    if (nest->kind == NEST_SEGMENT_ADJOINT) nest->threads = divided_adjoint(q, nest);
  }
  if (!choice_is_left_out(q->m->kernel->without, CHOICE_WARPS_APART)) spread_over_warps(q);
  arena_free(scratch);
}
