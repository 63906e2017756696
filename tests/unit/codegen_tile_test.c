// Tile programs of segments, shifts, scans and triangular systems, compiled and run, against the tile
// interpreter. They cover values and derived gradients, f64 and f32, clones drawn of those that this
// machine runs, chunks of 1 to 128 steps, and ragged ends. 15 seconds, most of them in LLVM.
#include <dlfcn.h>

#include "tests/recurrence/kernel_run.h"
#include "tests/recurrence/tile_run.h"
#include "tests/unit/unit.h"

// What the programs read and write; what they compute is said in tiles below, the updates here are
// not looked at.
static const char declarations[] =
    "recurrence r(H, K = %d, V = %d) {\n"
    "  input q[H,K], k[H,K], v[H,V], f[H,K]\n"
    "  param w[K]\n"
    "  state S[H,K,V], n[H,K]\n"
    "  output y[H,V]\n"
    "  S = f * S[t-1] + k * v\n"
    "  n = n[t-1] + w * k\n"
    "  y = sum[K](q * S)\n"
    "}\n";

enum { H, K, V };

typedef struct builder {
  tile_program *p;
  const typed_body *body;
  int chunk, t, s;
  tile_id q, k, v, f, w, S, n;
} builder;

static tile_id argument(builder *b, tile_role role, int tensor) {
  return tile_argument(b->p, tile_tensor_place(role, b->body, tensor, 0));
}

static builder open_program(arena *a, const typed_body *body, const char *name, int chunk) {
  builder b = {.body = body, .chunk = chunk};
  b.p = tile_program_new(a, name, body, TILE_CHUNK, chunk);
  b.t = b.p->time_axis, b.s = b.p->pair_axis;
  b.q = argument(&b, TILE_INPUT, 0), b.k = argument(&b, TILE_INPUT, 1);
  b.v = argument(&b, TILE_INPUT, 2), b.f = argument(&b, TILE_INPUT, 3);
  b.w = argument(&b, TILE_PARAM, 4);
  b.S = argument(&b, TILE_STATE, 5), b.n = argument(&b, TILE_STATE, 6);
  tile_id valid = tile_leaf(b.p, TILE_VALID, 0);
  b.f = tile_select(b.p, valid, b.f, tile_number(b.p, 1));
  return b;
}

static tile_program *close_program(arena *a, builder *b, tile_id y, tile_id S, tile_id n) {
  tile_add_result(b->p, tile_tensor_place(TILE_OUTPUT, b->body, 7, 0), y);
  tile_add_result(b->p, tile_tensor_place(TILE_NEXT_STATE, b->body, 5, 0), S);
  tile_add_result(b->p, tile_tensor_place(TILE_NEXT_STATE, b->body, 6, 0), n);
  tile_program *simple = tile_simplify(a, b->p);
  tile_find_grid(simple);
  return simple;
}

static tile_id mul(builder *b, tile_id x, tile_id y) { return tile_binary(b->p, TILE_MUL, x, y); }
static tile_id add(builder *b, tile_id x, tile_id y) { return tile_binary(b->p, TILE_ADD, x, y); }
static tile_id slice(builder *b, tile_id x, int axis, int entry) {
  return tile_indexed(b->p, TILE_SLICE, x, axis, entry);
}

// ---- segments of 1, 2, 4, .. steps -----------------------------------------------------------

typedef struct level {
  int64_t n;    // steps of a segment
  int u, i, j;  // segment, step in it, step of a pair in it
  int pair, h;  // pairs of segments: which, and which half
} level;

static level new_level(builder *b, int64_t n, int h) {
  arena *a = b->p->arena;
  level x = {.n = n, .h = h};
  x.u = tile_axis_new(b->p, arena_printf(a, "u%d", (int)n), b->chunk / n);
  x.i = tile_axis_new(b->p, arena_printf(a, "i%d", (int)n), n);
  x.j = tile_axis_new(b->p, arena_printf(a, "j%d", (int)n), n);
  if (2 * n <= b->chunk)
    x.pair = tile_axis_new(b->p, arena_printf(a, "w%d", (int)n), b->chunk / n / 2);
  return x;
}

static tile_id segments(builder *b, tile_id x, const level *l) {
  return tile_regroup(b->p, TILE_SPLIT, x, b->t, l->u, l->i);
}

static tile_id pairs(builder *b, tile_id x, const level *l) {
  return tile_regroup(b->p, TILE_SPLIT, x, l->u, l->pair, l->h);
}

// Products of decays of segments twice as long; `late`: those of the second half take the total of
// the first.
static tile_id doubled(builder *b, tile_id products, tile_id totals, const level *l, bool late) {
  tile_program *p = b->p;
  tile_id sibling = slice(b, pairs(b, totals, l), l->h, late ? 0 : 1);
  tile_id half = tile_leaf(p, TILE_INDEX, l->h), one = tile_number(p, 1);
  tile_id factor = late ? tile_select(p, half, sibling, one) : tile_select(p, half, one, sibling);
  tile_id longer = tile_regroup(p, TILE_JOIN, mul(b, pairs(b, segments(b, products, l), l), factor),
                                l->u, l->pair, l->h);
  return tile_regroup(p, TILE_JOIN, longer, b->t, l->u, l->i);
}

// Decay per key: reads in the second segment of each pair of writes in the first.
static tile_program *decays_per_key(arena *a, const typed_body *body, int chunk) {
  builder b = open_program(a, body, "r.forward", chunk);
  tile_program *p = b.p;
  tile_id prefix = b.f, suffix = tile_number(p, 1);
  tile_id y = mul(&b, tile_reduce(p, TILE_SUM, mul(&b, b.q, b.k), axis_bit(K)), b.v);
  int h = chunk > 1 ? tile_axis_new(p, "h", 2) : -1;
  for (int64_t n = 1; 2 * n <= chunk; n *= 2) {
    level l = new_level(&b, n, h);
    tile_id reads = slice(&b, pairs(&b, segments(&b, mul(&b, b.q, prefix), &l), &l), h, 1);
    tile_id writes = slice(&b, pairs(&b, segments(&b, mul(&b, b.k, suffix), &l), &l), h, 0);
    tile_id values = slice(&b, pairs(&b, segments(&b, b.v, &l), &l), h, 0);
    tile_id scores =
        tile_dot(p, reads, tile_indexed(p, TILE_RENAME, writes, l.i, l.j), axis_bit(K));
    tile_id read =
        tile_dot(p, scores, tile_indexed(p, TILE_RENAME, values, l.i, l.j), axis_bit(l.j));
    read = tile_regroup(p, TILE_JOIN, tile_indexed(p, TILE_PLACE, read, h, 1), l.u, l.pair, h);
    y = add(&b, y, tile_regroup(p, TILE_JOIN, read, b.t, l.u, l.i));
    tile_id totals = slice(&b, segments(&b, prefix, &l), l.i, (int)n - 1);
    tile_id next = doubled(&b, prefix, totals, &l, true);
    suffix = doubled(&b, suffix, totals, &l, false);
    prefix = next;
  }
  y = add(&b, y, tile_dot(p, mul(&b, b.q, prefix), b.S, axis_bit(K)));
  tile_id total = slice(&b, prefix, b.t, chunk - 1);
  tile_id S = add(&b, mul(&b, total, b.S), tile_dot(p, mul(&b, b.k, suffix), b.v, axis_bit(b.t)));
  return close_program(a, &b, y, S, mul(&b, b.n, b.w));
}

// ---- systems ---------------------------------------------------------------------------------

// Corrections of a delta rule without decay, their transposed counterpart, and systems with one
// column.
static tile_program *systems(arena *a, const typed_body *body, int chunk) {
  builder b = open_program(a, body, "r.forward", chunk);
  tile_program *p = b.p;
  tile_id tenth = tile_number(p, 0.1);
  tile_id scores =
      mul(&b, tenth, tile_dot(p, b.k, tile_indexed(p, TILE_RENAME, b.q, b.t, b.s), axis_bit(K)));
  tile_id right = tile_binary(p, TILE_SUB, b.v, tile_dot(p, b.k, b.S, axis_bit(K)));
  tile_id x = tile_solve(p, scores, right, b.t, b.s, false);
  tile_id back = tile_solve(p, scores, mul(&b, b.v, b.v), b.t, b.s, true);
  tile_id single =
      tile_solve(p, scores, tile_reduce(p, TILE_SUM, b.f, axis_bit(K)), b.t, b.s, false);
  tile_id wide = mul(&b, scores, tile_indexed(p, TILE_RENAME, b.k, b.t, b.s));
  tile_id keys = tile_solve(p, wide, b.f, b.t, b.s, true);
  tile_id y = add(&b, add(&b, x, back), mul(&b, single, b.v));
  y = add(&b, y, tile_dot(p, keys, b.S, axis_bit(K)));
  tile_id S = add(&b, b.S, tile_dot(p, b.k, x, axis_bit(b.t)));
  return close_program(a, &b, y, S, mul(&b, b.n, b.w));
}

// ---- shifts and what a chunk hands on --------------------------------------------------------

// Sums and masks along segments; the rows of a ragged end that the next chunk starts from.
static tile_program *shifts(arena *a, const typed_body *body, int chunk) {
  builder b = open_program(a, body, "r.forward", chunk);
  tile_program *p = b.p;
  tile_id zero = tile_number(p, 0);
  tile_id before = tile_indexed(p, TILE_SHIFT, b.k, b.t, 1);
  tile_id later = tile_indexed(p, TILE_SHIFT, b.q, b.t, -2);
  tile_id weight = tile_reduce(p, TILE_SUM, mul(&b, before, later), axis_bit(K));
  weight = add(&b, weight, tile_indexed(p, TILE_SHIFT, weight, b.t, 3));
  tile_id y = mul(&b, weight, b.v);
  if (chunk % 4 == 0) {
    int u = tile_axis_new(p, "u", chunk / 4), i = tile_axis_new(p, "i", 4),
        j = tile_axis_new(p, "j", 4);
    tile_id x = tile_regroup(p, TILE_SPLIT, b.q, b.t, u, i);
    tile_id sums = tile_along(p, TILE_PREFIX, x, 1, u, -1);
    sums = add(&b, sums, tile_along(p, TILE_PREFIX, x, 2, i, -1));
    tile_id single = tile_reduce(p, TILE_SUM, x, axis_bit(K));
    tile_id pair_sums = tile_along(p, TILE_SEGMENT, single, 0, i, j);
    tile_id below = tile_along(p, TILE_CAUSAL, NO_TILE, 1, i, j);
    tile_id column = tile_indexed(p, TILE_RENAME, single, i, j);
    tile_id masked = tile_select(p, below, mul(&b, pair_sums, column), zero);
    tile_id read = tile_reduce(p, TILE_SUM, masked, axis_bit(j));
    tile_id all = tile_regroup(p, TILE_JOIN, mul(&b, sums, read), b.t, u, i);
    y = add(&b, y, tile_dot(p, all, b.S, axis_bit(K)));
    // One number for each step: lanes along time.
    tile_id steps = tile_regroup(p, TILE_JOIN, mul(&b, read, single), b.t, u, i);
    tile_id turned =
        tile_along(p, TILE_PREFIX, tile_regroup(p, TILE_SPLIT, steps, b.t, u, i), 0, u, -1);
    steps = add(&b, steps, tile_regroup(p, TILE_JOIN, turned, b.t, u, i));
    y = add(&b, y, mul(&b, steps, b.v));
  }
  tile_id last = tile_leaf(p, TILE_AT_END, 0);
  tile_value second = {.op = TILE_AT_END, .index2 = 1};
  tile_id row = tile_reduce(p, TILE_SUM, tile_select(p, last, b.k, zero), axis_bit(b.t));
  tile_id row2 =
      tile_reduce(p, TILE_SUM, tile_select(p, tile_append(p, second), b.q, zero), axis_bit(b.t));
  tile_id length = tile_leaf(p, TILE_LENGTH, 0);
  tile_id n = add(&b, mul(&b, tile_number(p, 0.25), add(&b, b.n, row)), mul(&b, b.w, row2));
  n = add(&b, n, mul(&b, mul(&b, tile_number(p, 0.01), length), b.w));
  tile_id S = mul(&b, tile_number(p, 0.5),
                  add(&b, b.S, tile_reduce(p, TILE_SUM, mul(&b, b.v, weight), axis_bit(b.t))));
  return close_program(a, &b, y, S, n);
}

// ---- scans -----------------------------------------------------------------------------------

static tile_id parts(builder *b, tile_id re, tile_id im, int part) {
  return add(b, tile_indexed(b->p, TILE_PLACE, re, part, 0),
             tile_indexed(b->p, TILE_PLACE, im, part, 1));
}

// Of two parts that make each other.
static tile_id joint_scans(builder *b, tile_id factor, tile_id constant, int part) {
  int before = tile_axis_new(b->p, "before", 2);
  tile_id varying = parts(b, parts(b, factor, mul(b, factor, b->w), before),
                          parts(b, constant, mul(b, tile_number(b->p, 0.3), b->k), before), part);
  tile_id same = parts(b, parts(b, constant, tile_number(b->p, 0.2), before),
                       parts(b, tile_number(b->p, 0), constant, before), part);
  tile_id x = tile_scan_joint(b->p, varying, parts(b, b->q, b->k, part), b->t, before, part, false);
  x = add(b, x, tile_scan_joint(b->p, same, parts(b, b->n, b->q, part), b->t, before, part, true));
  x = add(b, x, tile_scan_joint(b->p, same, b->k, b->t, before, part, false));
  return add(b, slice(b, x, part, 0), mul(b, b->w, slice(b, x, part, 1)));
}

// Both directions, factors that change from step to step and one that does not, what is added at
// each step being the same or 0; real numbers and pairs of parts.
static tile_program *scans(arena *a, const typed_body *body, int chunk) {
  builder b = open_program(a, body, "r.forward", chunk);
  tile_program *p = b.p;
  int part = tile_axis_new(p, "part", 2);
  tile_id half = tile_number(p, 0.5), factor = mul(&b, half, b.f), constant = mul(&b, half, b.w);
  tile_id real = tile_scan(p, factor, b.k, NO_TILE, b.t, -1, false);
  real = add(&b, real, tile_scan(p, constant, b.q, NO_TILE, b.t, -1, true));
  real = add(&b, real, tile_scan(p, factor, b.n, NO_TILE, b.t, -1, true));
  tile_id turning = parts(&b, factor, mul(&b, half, b.k), part);
  tile_id pair = tile_scan(p, turning, b.q, b.k, b.t, part, false);
  pair = add(&b, pair, tile_scan(p, turning, tile_number(p, 0), b.q, b.t, part, true));
  pair = add(&b, pair, tile_scan(p, parts(&b, constant, half, part), b.k, b.n, b.t, part, false));
  tile_id both = add(&b, slice(&b, pair, part, 0), mul(&b, b.w, slice(&b, pair, part, 1)));
  both = add(&b, both, joint_scans(&b, factor, constant, part));
  tile_id read = mul(&b, tile_number(p, 0.1), add(&b, real, both));
  tile_id y = add(&b, tile_dot(p, read, b.S, axis_bit(K)), b.v);
  tile_id row = tile_select(p, tile_leaf(p, TILE_AT_END, 0), read, tile_number(p, 0));
  tile_id n = add(&b, mul(&b, half, b.n), tile_reduce(p, TILE_SUM, row, axis_bit(b.t)));
  return close_program(a, &b, y, mul(&b, half, b.S), n);
}

// ---- comparison ------------------------------------------------------------------------------

typedef tile_program *program_builder(arena *a, const typed_body *body, int chunk);

static const struct {
  const char *name;
  program_builder *build;
} programs[] = {
    {"decays per key", decays_per_key}, {"systems", systems}, {"shifts", shifts}, {"scans", scans}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

static recurrence_kernels *kernels_of(arena *a, const recurrence *r, const tile_program *forward,
                                      const tile_gradient *gradient) {
  recurrence_kernels *all = ARENA_NEW(a, recurrence_kernels);
  all->recurrence = r;
  all->chunk = forward->chunk;
  kernel k = {.recurrence = r, .chunk = forward->chunk, .lane_axis = -1, .lane_block = 1};
  k.grid_count = 1;
  k.grid_axes[0] = H;
  const struct {
    kernel_kind kind;
    const char *symbol;
    const tile_program *program;
  } kinds[] = {{KERNEL_FORWARD, "rec_kernel_r_forward", forward},
               {KERNEL_STATES, "rec_kernel_r_states", gradient->recompute},
               {KERNEL_BACKWARD, "rec_kernel_r_backward", gradient->backward}};
  for (int i = 0; i < 3; i++) {
    k.kind = kinds[i].kind;
    k.symbol = kinds[i].symbol;
    k.program = kinds[i].program;
    const char *wrong = tile_verify(a, k.program);
    if (wrong) fail_msg("%s\n%s", wrong, tile_print(a, k.program));
    vec_push(a, &all->kernels, k);
  }
  return all;
}

static void compare(const recurrence *r, const tile_program *forward, const tile_gradient *gradient,
                    const library *lib, codegen_clone clone, int64_t time, bool f64,
                    const char *what) {
  arena *a = arena_new();
  trial t = trial_new(a, r, 2, time, NULL, 0, 5), u = trial_new(a, r, 2, time, NULL, 0, 5);
  assert_true(tile_execute(r, forward, gradient, &t.run));
  launch l = launch_new(a, lib, clone, &u, f64, false);
  launch_kernel(&l, KERNEL_FORWARD);
  launch_kernel(&l, KERNEL_BACKWARD);
  assert_equal_runs(&t, &u, f64 ? 1e-11 : 5e-5, what);
  launch_forget_saved(&l);
  launch_kernel(&l, KERNEL_STATES);
  launch_kernel(&l, KERNEL_BACKWARD);
  assert_equal_runs(&t, &u, f64 ? 1e-11 : 5e-5, what);
  arena_free(a);
}

static int largest_function;

static void compare_program(int number, int chunk, int keys, int values, bool f64) {
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s, arena_printf(s.memory, declarations, keys, values));
  tile_program *built = programs[number].build(s.memory, &r->body, chunk);
  tile_gradient gradient = tile_differentiate(s.memory, built);
  tile_program *forward = tile_finish(s.memory, built);
  recurrence_kernels *kernels = kernels_of(s.memory, r, forward, &gradient);
  const codegen_options options = {.level = 2,
                                   .dtype = f64 ? NUMBER_F64 : NUMBER_F32,
                                   .clones = kernel_clones_drawn(number + chunk)};
  library lib = kernel_library(s.memory, kernels, options);
  for (int i = 0; i < lib.object->functions.count; i++) {
    int size = lib.object->functions.items[i].instructions;
    if (size > largest_function) largest_function = size;
  }
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    static const int64_t times[] = {1, 37, 150};
    if (!(codegen_clones(&options) >> clone & 1) || !kernel_clone_runs(clone)) continue;
    for (int i = 0; i < 3; i++) {
      const char *what =
          arena_printf(s.memory, "%s, chunk %d, %s, %s, T = %d", programs[number].name, chunk,
                       f64 ? "f64" : "f32", codegen_clone_name(clone), (int)times[i]);
      compare(r, forward, &gradient, &lib, clone, times[i], f64, what);
    }
  }
  dlclose(lib.handle);
  fixture_close(&s);
}

TEST(programs_agree_with_the_interpreter) {
  for (int i = 0; i < PROGRAMS; i++) {
    compare_program(i, 1, 5, 3, true);
    compare_program(i, 2, 20, 17, false);
    compare_program(i, 16, 7, 33, true);
    compare_program(i, 32, 24, 9, false);
    compare_program(i, 128, 16, 16, false);
  }
}

TEST(functions_are_small) {
  printf("largest function: %d instructions\n", largest_function);
  assert_true(largest_function <= 5000);
}
