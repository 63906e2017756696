// Operations on axes of tile programs: what the interpreter makes of them, and derived gradients
// against differences.
#include <math.h>

#include "tests/recurrence/tile_interpret.h"
#include "tests/unit/unit.h"

static tile_program *parse(arena *a, const char *text) {
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *file = sources_add(all, "text.tile", text, strlen(text), &error);
  diag *messages = diag_new(a, all);
  tile_program *p = tile_parse(a, interner_new(a), messages, file);
  if (!p) {
    diag_print(messages, stderr);
    abort();
  }
  const char *wrong = tile_verify(a, p);
  if (wrong) fail_msg("%s", wrong);
  return p;
}

// ---- one run of a program --------------------------------------------------------------------

static tile_id value_of_argument(const tile_program *p, int argument) {
  for (int i = 0; i < p->values.count; i++)
    if (p->values.items[i].op == TILE_ARGUMENT && p->values.items[i].index == argument) return i;
  return NO_TILE;
}

// The argument with the role and tensor; NO_TILE if the program does not read it.
static tile_id argument_of(const tile_program *p, tile_role role, int tensor) {
  for (int i = 0; i < p->arguments.count; i++) {
    const tile_place *place = &p->arguments.items[i];
    if (place->role == role && place->tensor == tensor) return value_of_argument(p, i);
  }
  return NO_TILE;
}

// Where the entry of a value's array lies in time: padded rows are no part of the sequence.
static bool padded(const tile_machine *m, tile_id id, int64_t entry) {
  int t = m->program->time_axis;
  if (t < 0 || !axis_in(m->program->values.items[id].axes, t)) return false;
  return entry / tile_machine_stride(m, id, t) % m->sizes[t] >= m->valid;
}

static uint32_t seed;

static double random_number(void) {
  seed = seed * 1664525u + 1013904223u;
  return (double)(seed >> 8) / (1 << 24) - 0.5;
}

static void fill(const tile_machine *m, tile_id id) {
  for (int64_t i = 0; i < m->count[id]; i++)
    m->data[id][i] = padded(m, id, i) ? 0 : random_number();
}

static void run_all(tile_machine *m) {
  tile_machine_reset(m);
  tile_machine_run(m, TILE_PROLOGUE);
  tile_machine_run(m, TILE_BODY);
  tile_machine_run(m, TILE_EPILOGUE);
}

typedef struct pair_of_machines {
  tile_machine forward, backward;
} pair_of_machines;

// The results weighted with the cotangents that the backward is given.
static double loss(pair_of_machines *m) {
  const tile_program *p = m->forward.program;
  run_all(&m->forward);
  double sum = 0;
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    tile_role role = place->role == TILE_OUTPUT ? TILE_D_OUTPUT : TILE_D_NEXT_STATE;
    tile_id d = argument_of(m->backward.program, role, place->tensor),
            y = p->results.items[i].value;
    if (d == NO_TILE) continue;
    for (int64_t k = 0; k < m->forward.count[y]; k++) {
      if (padded(&m->forward, y, k)) continue;
      sum += m->forward.data[y][k] * m->backward.data[d][k];
    }
  }
  return sum;
}

static tile_role gradient_of(tile_role role) {
  return role == TILE_INPUT ? TILE_D_INPUT : role == TILE_STATE ? TILE_D_STATE : TILE_D_PARAM;
}

static void compare_gradient(pair_of_machines *m, const tile_result *result, tile_id x) {
  tile_machine *f = &m->forward;
  for (int64_t k = 0; k < f->count[x]; k++) {
    if (padded(f, x, k)) continue;
    double kept = f->data[x][k], h = 1e-5;
    f->data[x][k] = kept + h;
    double above = loss(m);
    f->data[x][k] = kept - h;
    double below = loss(m);
    f->data[x][k] = kept;
    double measured = (above - below) / (2 * h), derived = m->backward.data[result->value][k];
    if (fabs(measured - derived) > 1e-7 * (1 + fabs(measured))) {
      fail_msg("%s: gradient %lld of %s is %.10g, differences give %.10g", f->program->name,
               (long long)k, result->place.name, derived, measured);
    }
  }
}

// Fills all arguments of both programs, runs the backward, and compares every gradient.
static void check_gradients(arena *a, const tile_program *p, int64_t valid) {
  tile_gradient gradient = tile_differentiate(a, p);
  const tile_program *b = gradient.backward;
  const char *wrong = tile_verify(a, b);
  if (wrong) fail_msg("%s\n%s", wrong, tile_print(a, b));
  int64_t sizes[TILE_MAX_AXES];
  for (int i = 0; i < p->axes.count; i++) sizes[i] = p->axes.items[i].size;
  pair_of_machines m;
  assert_true(tile_machine_new(a, &m.forward, p, sizes));
  assert_true(tile_machine_new(a, &m.backward, b, sizes));
  m.forward.valid = m.backward.valid = valid;
  for (int i = 0; i < p->arguments.count; i++) {
    tile_id x = value_of_argument(p, i);
    fill(&m.forward, x);
    tile_id again = argument_of(b, p->arguments.items[i].role, p->arguments.items[i].tensor);
    if (again == NO_TILE) continue;
    memcpy(m.backward.data[again], m.forward.data[x], (size_t)m.forward.count[x] * sizeof(double));
  }
  for (int i = 0; i < b->arguments.count; i++) {
    tile_role role = b->arguments.items[i].role;
    if (role == TILE_D_OUTPUT || role == TILE_D_NEXT_STATE) {
      tile_id d = value_of_argument(b, i);
      if (d != NO_TILE) fill(&m.backward, d);
    }
  }
  run_all(&m.backward);
  int compared = 0;
  for (int i = 0; i < p->arguments.count; i++) {
    const tile_place *place = &p->arguments.items[i];
    vec_each(const tile_result, r, b->results) {
      if (r->place.role != gradient_of(place->role) || r->place.tensor != place->tensor) continue;
      compare_gradient(&m, r, value_of_argument(p, i));
      compared++;
    }
  }
  assert_int_equal(compared, p->arguments.count);
  tile_machine_free(&m.forward);
  tile_machine_free(&m.backward);
}

// ---- programs --------------------------------------------------------------------------------

#define CHUNK_OF_8                                                                               \
  "axis K 3\naxis V 2\ntime t 8\npair s 8\nlocal u 4\nlocal i 2\nlocal w 2\nlocal h 2\nlocal j " \
  "2\n"
#define INPUTS                            \
  "argument 0 input q[K] time tensor 0\n" \
  "argument 1 input k[K] time tensor 1\n" \
  "argument 2 input v[V] time tensor 2\n" \
  "argument 3 state S[K,V] tensor 3\n"    \
  "%0 [t,K] = argument 0\n"               \
  "%1 [t,K] = argument 1\n"               \
  "%2 [t,V] = argument 2\n"               \
  "%3 [K,V] = argument 3\n"
#define OUTPUT "result output y[V] time tensor 4 = "

static const char *const programs[] = {
    // One level of pairs: reads of the second segment of each pair, writes of the first.
    "program level chunk 8\n" CHUNK_OF_8 INPUTS
    "%4 [u,i,K] = split %0 t -> u,i\n"
    "%5 [w,h,i,K] = split %4 u -> w,h\n"
    "%6 [w,i,K] = slice %5 h = 1\n"
    "%7 [u,i,K] = split %1 t -> u,i\n"
    "%8 [w,h,i,K] = split %7 u -> w,h\n"
    "%9 [w,i,K] = slice %8 h = 0\n"
    "%10 [w,j,K] = rename %9 i -> j\n"
    "%11 [i,w,j] = dot %6 %10 over K\n"
    "%12 [u,i,V] = split %2 t -> u,i\n"
    "%13 [w,h,i,V] = split %12 u -> w,h\n"
    "%14 [w,i,V] = slice %13 h = 0\n"
    "%15 [w,j,V] = rename %14 i -> j\n"
    "%16 [i,w,V] = dot %11 %15 over j\n"
    "%17 [i,w,h,V] = place %16 h = 1\n"
    "%18 [u,i,V] = join %17 w,h -> u\n"
    "%19 [t,V] = join %18 u,i -> t\n"
    "%20 [t,V] = dot %0 %3 over K\n"
    "%21 [t,V] = add %19 %20\n" OUTPUT "%21\n",
    // Products of decays: each segment's prefixes times the total of the segment before it.
    "program pyramid chunk 8\n" CHUNK_OF_8 INPUTS
    "%4 [u,i,K] = split %1 t -> u,i\n"
    "%5 [u,K] = slice %4 i = 0\n"
    "%6 [u,K] = slice %4 i = 1\n"
    "%7 [] = number 1\n"
    "%8 [i] = index i\n"
    "%9 [u,i,K] = select %8 %5 %7\n"
    "%10 [u,i,K] = mul %4 %9\n"
    "%11 [t,K] = join %10 u,i -> t\n"
    "%12 [t,K] = mul %11 %0\n"
    "%13 [t,V] = dot %12 %3 over K\n"
    "%14 [t,V] = mul %13 %2\n"
    "%15 [K] = sum %6 over u\n"
    "%16 [V] = dot %15 %3 over K\n"
    "%17 [t,V] = add %14 %16\n" OUTPUT "%17\n",
    // Sums and masks along axes that are not t and s.
    "program along chunk 8\n" CHUNK_OF_8 "local f 4\n" INPUTS
    "%4 [u,i,K] = split %0 t -> u,i\n"
    "%5 [u,i,K] = prefix %4 along u exclusive\n"
    "%6 [u,i,K] = prefix %5 along i reverse\n"
    "%7 [u,f,i,K] = segment %6 along u,f\n"
    "%8 [u,f] = causal along u,f exclusive\n"
    "%9 [u,f,i,K] = mul %8 %7\n"
    "%10 [u,i,K] = segment_adjoint %9 along u,f exclusive\n"
    "%11 [u,i,K] = mul %10 %6\n"
    "%12 [t,K] = join %11 u,i -> t\n"
    "%13 [t,V] = dot %12 %3 over K\n"
    "%14 [t,K] = prefix %1\n"
    "%15 [t] = sum %14 over K\n"
    "%16 [t,V] = mul %15 %2\n"
    "%17 [t,V] = add %13 %16\n" OUTPUT "%17\n",
    // Steps before and after, and what a chunk hands on to the next.
    "program shifts chunk 8\n" CHUNK_OF_8 INPUTS
    "%4 [t,K] = shift %0 t by 2\n"
    "%5 [t,K] = shift %1 t by -3\n"
    "%6 [t,K] = mul %4 %5\n"
    "%7 [t,V] = dot %6 %3 over K\n"
    "%8 [t,V] = mul %7 %2\n"
    "%9 [t] = at_end 1\n"
    "%10 [t,K] = mul %9 %1\n"
    "%11 [K] = sum %10 over t\n"
    "%12 [] = length\n"
    "%13 [K,V] = mul %11 %3\n"
    "%14 [K,V] = mul %12 %13\n"
    "result next S[K,V] tensor 3 = %14\n" OUTPUT "%8\n",
    // Triangular systems: forward with a batch axis, and the transposed one with the matrix along
    // columns.
    "program systems chunk 8\n" CHUNK_OF_8 INPUTS
    "%4 [s,K] = rename %1 t -> s\n"
    "%5 [t,s] = dot %0 %4 over K\n"
    "%6 [t,V] = solve %5 %2 along t,s\n"
    "%7 [s,V] = rename %6 t -> s\n"
    "%8 [t,s,K] = mul %4 %5\n"
    "%9 [t,K,V] = solve %8 %2 along t,s transposed\n"
    "%10 [t,V] = dot %9 %1 over K\n"
    "%11 [t,V] = mul %10 %6\n"
    "%12 [t,V] = dot %5 %7 over s\n"
    "%13 [t,V] = add %12 %11\n"
    "%14 [t,V] = dot %0 %3 over K\n"
    "%15 [t,V] = add %13 %14\n" OUTPUT "%15\n",
};

TEST(gradients_agree_with_differences) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    for (int64_t valid = 1; valid <= 8; valid++) {
      arena *a = arena_new();
      seed = (uint32_t)(17 * i) + (uint32_t)valid;
      check_gradients(a, parse(a, programs[i]), valid);
      arena_free(a);
    }
  }
}

TEST(text_reads_back) {
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    arena *a = arena_new();
    const char *text = tile_print(a, parse(a, programs[i]));
    assert_string_equal(tile_print(a, parse(a, text)), text);
    tile_program *simple = tile_simplify(a, parse(a, text));
    assert_null(tile_verify(a, simple));
    arena_free(a);
  }
}

// ---- values ----------------------------------------------------------------------------------

// Runs the body of a program whose argument 0 holds 1, 2, .. and returns the array of a value.
static double *body_value(arena *a, const char *text, int64_t valid, tile_id id) {
  tile_program *p = parse(a, text);
  tile_machine m;
  int64_t sizes[TILE_MAX_AXES] = {0};
  for (int i = 0; i < p->axes.count; i++) sizes[i] = p->axes.items[i].size;
  assert_true(tile_machine_new(a, &m, p, sizes));
  m.valid = valid;
  for (int64_t i = 0; i < m.count[0]; i++) m.data[0][i] = (double)(i + 1);
  tile_machine_run(&m, TILE_PROLOGUE);
  tile_machine_run(&m, TILE_BODY);
  double *copy = ARENA_ARRAY(a, double, m.count[id]);
  memcpy(copy, m.data[id], (size_t)m.count[id] * sizeof(double));
  tile_machine_free(&m);
  return copy;
}

#define STEPS_OF_6                                                \
  "program p chunk 6\ntime t 6\npair s 6\nlocal u 3\nlocal i 2\n" \
  "argument 0 input x[] time tensor 0\n%0 [t] = argument 0\n"

static void expect(const double *have, const double *want, int count) {
  for (int i = 0; i < count; i++)
    if (have[i] != want[i]) fail_msg("entry %d is %g, not %g", i, have[i], want[i]);
}

TEST(entries_move_as_the_rows_say) {
  arena *a = arena_new();
  // Arrays lie in the order of positions: u before i.
  expect(body_value(a, STEPS_OF_6 "%1 [u,i] = split %0 t -> u,i\n%2 [u] = slice %1 i = 1\n", 6, 2),
         (double[]){2, 4, 6}, 3);
  expect(body_value(a, STEPS_OF_6 "%1 [t] = shift %0 t by 2\n", 6, 1), (double[]){0, 0, 1, 2, 3, 4},
         6);
  expect(body_value(a, STEPS_OF_6 "%1 [t] = shift %0 t by -4\n", 6, 1),
         (double[]){5, 6, 0, 0, 0, 0}, 6);
  expect(body_value(a, STEPS_OF_6 "%1 [t] = at_end 0\n", 4, 1), (double[]){0, 0, 0, 1, 0, 0}, 6);
  expect(body_value(a, STEPS_OF_6 "%1 [t] = at_end 3\n", 4, 1), (double[]){1, 0, 0, 0, 0, 0}, 6);
  expect(body_value(a, STEPS_OF_6 "%1 [t] = at_end 4\n", 4, 1), (double[]){0, 0, 0, 0, 0, 0}, 6);
  expect(body_value(a, STEPS_OF_6 "%1 [] = length\n", 4, 1), (double[]){4}, 1);
  // Every pair counts 1: X doubles from step to step.
  expect(body_value(a,
                    STEPS_OF_6 "%1 [] = number 1\n%2 [t,s] = expand %1 over t,s\n"
                               "%3 [t] = at_end 5\n%4 [t] = solve %2 %3 along t,s\n",
                    6, 4),
         (double[]){1, 1, 2, 4, 8, 16}, 6);
  // Read from the transposed side: only pairs that lead from later steps.
  expect(
      body_value(a,
                 STEPS_OF_6 "%1 [s] = rename %0 t -> s\n%2 [t,s] = mul %0 %1\n%3 [t] = at_end 3\n"
                            "%4 [t] = solve %2 %3 along t,s transposed\n",
                 6, 4),
      (double[]){15, 6, 1, 0, 0, 0}, 6);
  arena_free(a);
}

// ---- simplification --------------------------------------------------------------------------

static tile_program *empty(arena *a) {
  return parse(
      a, "program p chunk 8\naxis K 3\ntime t 8\npair s 8\nlocal u 4\nlocal i 2\nlocal f 4\n");
}

TEST(regrouping_simplifies) {
  arena *a = arena_new();
  tile_program *p = empty(a);
  enum { K, T, S, U, I, F };
  tile_place place = {.role = TILE_INPUT, .lag = -1, .stash = -1, .axis_count = 1, .axes = {K}};
  place.time = true;
  tile_id x = tile_argument(p, place);
  tile_id split = tile_regroup(p, TILE_SPLIT, x, T, U, I);
  assert_int_equal(tile_regroup(p, TILE_JOIN, split, T, U, I), x);
  tile_id other = tile_unary(p, TILE_EXP, split),
          joined = tile_regroup(p, TILE_JOIN, other, T, U, I);
  assert_int_equal(tile_regroup(p, TILE_SPLIT, joined, T, U, I), other);
  // Along an axis that a value lacks it is the same everywhere.
  tile_id one = tile_number(p, 1);
  assert_int_equal(tile_regroup(p, TILE_SPLIT, one, T, U, I), one);
  assert_int_equal(tile_regroup(p, TILE_JOIN, one, T, U, I), one);
  // Renamed first or last, it is the same value.
  tile_id renamed = tile_indexed(p, TILE_RENAME, split, U, F);
  assert_int_equal(renamed, tile_regroup(p, TILE_SPLIT, x, T, F, I));
  tile_id at_s = tile_indexed(p, TILE_RENAME, x, T, S);
  assert_int_equal(tile_regroup(p, TILE_SPLIT, at_s, S, U, I), split);
  assert_int_equal(tile_indexed(p, TILE_RENAME, joined, T, S),
                   tile_regroup(p, TILE_JOIN, other, S, U, I));
  tile_id sum = tile_reduce(p, TILE_SUM, split, axis_bit(U) | axis_bit(I));
  assert_int_equal(sum, tile_reduce(p, TILE_SUM, x, axis_bit(T)));
  tile_id minus = tile_unary(p, TILE_NEG, x);
  assert_int_equal(tile_regroup(p, TILE_SPLIT, minus, T, U, I), tile_unary(p, TILE_NEG, split));
  assert_int_equal(tile_indexed(p, TILE_SHIFT, x, T, 0), x);
  assert_true(tile_is_number(p, tile_indexed(p, TILE_SHIFT, x, T, -8), 0));
  tile_id twice = tile_indexed(p, TILE_SHIFT, tile_indexed(p, TILE_SHIFT, x, T, 1), T, 2);
  assert_int_equal(twice, tile_indexed(p, TILE_SHIFT, x, T, 3));
  // There and back is not the same: what left the chunk is gone.
  tile_id back = tile_indexed(p, TILE_SHIFT, tile_indexed(p, TILE_SHIFT, x, T, 1), T, -1);
  assert_int_not_equal(back, x);
  assert_int_equal(tile_axes_left(p), 58);
  int axis = tile_axis_new(p, "g", 2);
  assert_int_equal(axis, 6);
  assert_int_equal(tile_axes_left(p), 57);
  assert_null(tile_verify(a, p));
  arena_free(a);
}

// The exponentials of first halves are not computed: half of the work is left.
TEST(slices_go_below_what_they_take_a_part_of) {
  arena *a = arena_new();
  tile_program *p = parse(a, "program sliced chunk 8\n" CHUNK_OF_8 INPUTS
                             "%4 [t,K] = mul %0 %1\n"
                             "%5 [t,K] = exp %4\n"
                             "%6 [u,i,K] = split %5 t -> u,i\n"
                             "%7 [w,h,i,K] = split %6 u -> w,h\n"
                             "%8 [w,i,K] = slice %7 h = 1\n"
                             "%9 [w,h,i,K] = place %8 h = 1\n"
                             "%10 [u,i,K] = join %9 w,h -> u\n"
                             "%11 [t,K] = join %10 u,i -> t\n"
                             "%12 [t,V] = dot %11 %3 over K\n"
                             "%13 [t,V] = mul %2 %12\n" OUTPUT "%13\n");
  tile_program *simple = tile_simplify(a, p);
  assert_null(tile_verify(a, simple));
  int64_t sizes[TILE_MAX_AXES] = {3, 2};
  double work[2] = {0, 0};
  const tile_program *programs_of[2] = {p, simple};
  for (int n = 0; n < 2; n++) {
    for (int i = 0; i < programs_of[n]->values.count; i++) {
      tile_op op = programs_of[n]->values.items[i].op;
      if (op == TILE_EXP) work[n] += tile_value_cost(programs_of[n], i, sizes);
    }
  }
  assert_true(work[0] == 8 * 3 * 14 && work[1] == work[0] / 2);
  seed = 3;
  check_gradients(a, simple, 8);
  check_gradients(a, simple, 5);
  arena_free(a);
}

TEST(wrong_groups_are_refused) {
  arena *a = arena_new();
  tile_program *p = parse(a, programs[0]);
  tile_program *q = parse(a, programs[4]);
  for (int i = 0; i < p->values.count; i++) {
    tile_value *v = &p->values.items[i], kept = *v;
    if (v->op != TILE_SPLIT && v->op != TILE_JOIN) continue;
    for (int axis = -1; axis <= p->axes.count; axis++) {
      if (axis == kept.index3) continue;
      v->index3 = axis;
      assert_non_null(tile_verify(a, p));
    }
    *v = kept;
  }
  assert_null(tile_verify(a, p));
  for (int i = 0; i < q->values.count; i++) {
    tile_value *v = &q->values.items[i], kept = *v;
    if (v->op != TILE_SOLVE) continue;
    for (int axis = -1; axis <= q->axes.count; axis++) {
      if (axis == kept.index2) continue;
      v->index2 = axis;
      assert_non_null(tile_verify(a, q));
    }
    *v = kept;
  }
  arena_free(a);
}
