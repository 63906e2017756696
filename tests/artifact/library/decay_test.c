// Uses a compiled library as a C program would: through its header alone, linked with -l, checked
// against plain loops.
#include "decay.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

// The size of K that the library was compiled with.
#ifndef KEYS
#define KEYS 4
#endif
// Whether it looks at the step before; without that it is computed in chunks.
#ifndef LAGS
#define LAGS 1
#endif
// What a program says that knows no members behind these.
#ifdef SMALL_STRUCTS
#define SIZES_BYTES offsetof(rec_sizes, device_kind)
#define LAUNCH_BYTES offsetof(rec_launch, time_parts)
#else
#define SIZES_BYTES sizeof(rec_sizes)
#define LAUNCH_BYTES sizeof(rec_launch)
#endif
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
enum { B = 3, T = 37, G = 6, K = KEYS, V = 5 };
enum { X = B * T * G * V, KEY = B * T * G * K, A = B * T * G, S = B * G * K * V, LAG = B * G * V };

static int failures;

static void expect(int condition, const char *what) {
  if (condition) return;
  printf("FAILED: %s (%s)\n", what, rec_error());
  failures++;
}

// ---- the recurrence by plain loops, in double ------------------------------------------------

typedef struct problem {
  double x[X], k[KEY], q[KEY], a[A], b[G], d[V], h0[S], lag0[LAG];
  double d_y[X], d_hT[S], d_lagT[LAG];
} problem;

typedef struct answer {
  double y[X], hT[S];
} answer;

static double at_or_before(const problem *p, int b, int t, int i) {
  return t >= 0 ? p->x[(b * T + t) * G * V + i] : p->lag0[b * G * V + i];
}

// The loss whose gradients NAME_backward computes: <d_y, y> + <d_hT, hT>.
static double run(const problem *p, answer *out) {
  double loss = 0;
  for (int b = 0; b < B; b++) {
    for (int g = 0; g < G; g++) {
      double s[K][V];
      for (int i = 0; i < K * V; i++) s[i / V][i % V] = p->h0[(b * G + g) * K * V + i];
      for (int t = 0; t < T; t++) {
        int step = (b * T + t) * G + g;
        double w = 1 / (1 + exp(-p->a[step] - p->b[g]));
        for (int v = 0; v < V; v++) {
          double x = p->x[step * V + v],
                 y = p->d[v] * x + 0.5 * LAGS * at_or_before(p, b, t - 1, g * V + v);
          for (int k = 0; k < K; k++) {
            s[k][v] = w * s[k][v] + p->k[step * K + k] * x;
            y += p->q[step * K + k] * s[k][v];
          }
          out->y[step * V + v] = y;
          loss += y * p->d_y[step * V + v];
        }
      }
      for (int i = 0; i < K * V; i++) {
        out->hT[(b * G + g) * K * V + i] = s[i / V][i % V];
        loss += s[i / V][i % V] * p->d_hT[(b * G + g) * K * V + i];
      }
    }
    for (int i = 0; LAGS && i < G * V; i++)
      loss += at_or_before(p, b, T - 1, i) * p->d_lagT[b * G * V + i];
  }
  return loss;
}

// Slope of the loss along one number: it is at most quadratic in all but a and b.
static double slope(problem *p, double *number) {
  static answer scratch;
  double before = *number, width = 1e-4;
  *number = before + width;
  double high = run(p, &scratch);
  *number = before - width;
  double low = run(p, &scratch);
  *number = before;
  return (high - low) / (2 * width);
}

// ---- the library -----------------------------------------------------------------------------

// The header's numbers: float, or double when the test is compiled for it.
#ifndef NUMBER
#define NUMBER float
#endif
typedef NUMBER number;

typedef struct tensors {
  number x[X], k[KEY], q[KEY], a[A], b[G], d[V], h0[S], lag0[LAG], y[X], hT[S], lagT[LAG];
  number d_y[X], d_hT[S], d_lagT[LAG], d_x[X], d_k[KEY], d_q[KEY], d_a[A], d_b[G], d_d[V], d_h0[S],
      d_lag0[LAG];
} tensors;

static problem p;
static answer expected;
static tensors one, two;

static void fill(double *values, number *copy, int count) {
  static unsigned random = 1;
  for (int i = 0; i < count; i++) {
    random = random * 1664525u + 1013904223u;
    copy[i] = (number)((double)(random >> 8) / (1 << 23) - 1);
    values[i] = copy[i];
  }
}

static void set_lags(decay_arguments *f, tensors *m) {
#if LAGS
  f->h0_x_lag = m->lag0, f->hT_x_lag = m->lagT;
  f->d_h0_x_lag = m->d_lag0, f->d_hT_x_lag = m->d_lagT;
#else
  (void)f, (void)m;
#endif
}

// What the next call starts from: the states after the last one.
static void hand_over(decay_arguments *f) {
  f->h0_S = f->hT_S;
#if LAGS
  f->h0_x_lag = f->hT_x_lag;
#endif
}

static decay_arguments arguments_of(tensors *m) {
  decay_arguments f;
  memset(&f, 0, sizeof f);
  f.size = sizeof f;
  f.batch = B, f.time = T, f.G = G, f.V = V;
  f.x = m->x, f.k = m->k, f.q = m->q, f.a = m->a, f.b = m->b, f.d = m->d;
  f.h0_S = m->h0, f.hT_S = m->hT, f.y = m->y;
  f.d_x = m->d_x, f.d_k = m->d_k, f.d_q = m->d_q, f.d_a = m->d_a, f.d_b = m->d_b, f.d_d = m->d_d;
  f.d_h0_S = m->d_h0, f.d_hT_S = m->d_hT, f.d_y = m->d_y;
  set_lags(&f, m);
  return f;
}

static rec_launch launch_for(const decay_arguments *f, int threads, int keep) {
  rec_sizes sizes;
  memset(&sizes, 0, sizeof sizes);
  sizes.size = SIZES_BYTES;
  rec_launch launch;
  memset(&launch, 0, sizeof launch);
  expect(decay_sizes(f, &sizes) == REC_OK, "sizes");
  launch.size = LAUNCH_BYTES;
  launch.abi_major = REC_ABI_MAJOR;
  launch.abi_minor = REC_ABI_MINOR;
  launch.threads = threads;
  launch.workspace_bytes = sizes.workspace;
  launch.workspace =
      aligned_alloc(REC_ALIGNMENT, (size_t)(sizes.workspace / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  launch.saved_bytes = sizes.saved;
  if (keep)
    launch.saved =
        aligned_alloc(REC_ALIGNMENT, (size_t)(sizes.saved / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  return launch;
}

static void run_library(tensors *m, int threads, int keep) {
  decay_arguments f = arguments_of(m);
  rec_launch launch = launch_for(&f, threads, keep);
  expect(decay_forward(&f, &launch) == REC_OK, "forward");
  expect(decay_backward(&f, &launch) == REC_OK, "backward");
  free(launch.workspace);
  free(launch.saved);
}

static void compare(const char *what, const double *wanted, const number *found, int count) {
  double worst = 0, square = 0;
  for (int i = 0; i < count; i++) {
    worst = fmax(worst, fabs(wanted[i] - (double)found[i]));
    square += wanted[i] * wanted[i];
  }
  double error = worst / sqrt(square / count), allowed = sizeof(number) == 8 ? 1e-12 : 5e-6;
  if (!(error <= allowed)) {
    printf("FAILED: %s: error %g, allowed %g\n", what, error, allowed);
    failures++;
  }
}

static void compare_slopes(const char *what, double *values, const number *found, int count) {
  for (int i = 0; i < count; i += 1 + count / 23) {
    double wanted = slope(&p, &values[i]);
    if (fabs(wanted - (double)found[i]) <= 1e-4 * (1 + fabs(wanted))) continue;
    printf("FAILED: %s[%d]: expected %g, found %g\n", what, i, wanted, (double)found[i]);
    failures++;
  }
}

static void check_values(void) {
  run(&p, &expected);
  run_library(&one, 2, 1);
  compare("y", expected.y, one.y, X);
  compare("hT", expected.hT, one.hT, S);
  for (int b = 0; LAGS && b < B; b++)
    expect(
        memcmp(one.lagT + b * G * V, one.x + (b * T + T - 1) * G * V, G * V * sizeof(number)) == 0,
        "lag buffer");
  compare_slopes("d_x", p.x, one.d_x, X);
  compare_slopes("d_k", p.k, one.d_k, KEY);
  compare_slopes("d_q", p.q, one.d_q, KEY);
  compare_slopes("d_a", p.a, one.d_a, A);
  compare_slopes("d_b", p.b, one.d_b, G);
  compare_slopes("d_d", p.d, one.d_d, V);
  compare_slopes("d_h0", p.h0, one.d_h0, S);
  if (LAGS) compare_slopes("d_lag0", p.lag0, one.d_lag0, LAG);
}

// Every result equal, bit for bit, for any number of threads, with `saved` and without.
static void check_threads(void) {
  for (int threads = 1; threads <= 5; threads++) {
    two = one;
    memset(two.y, 0, sizeof two.y);
    memset(two.d_x, 0, sizeof two - (size_t)((char *)two.d_x - (char *)&two));
    run_library(&two, threads, threads % 2);
    expect(memcmp(&one, &two, sizeof one) == 0, "results equal for any number of threads");
  }
}

// Step by step, the state handed over in place: the same as the whole sequence.
static void check_step(void) {
  two = one;
  memset(two.y, 0, sizeof two.y);
  memcpy(two.hT, two.h0, sizeof two.h0);
  memcpy(two.lagT, two.lag0, sizeof two.lag0);
  for (int t = 0; t < T; t++) {
    decay_arguments f = arguments_of(&two);
    f.time = 1;
    f.x += t * G * V, f.x_batch_stride = T * G * V;
    f.k += t * G * K, f.k_batch_stride = T * G * K;
    f.q += t * G * K, f.q_batch_stride = T * G * K;
    f.a += t * G, f.a_batch_stride = T * G;
    f.y += t * G * V, f.y_batch_stride = T * G * V;
    hand_over(&f);
    rec_launch launch = launch_for(&f, 1, 0);
    expect(decay_step(&f, &launch) == REC_OK, "step");
    free(launch.workspace);
  }
  compare("y by steps", expected.y, two.y, X);
  compare("hT by steps", expected.hT, two.hT, S);
}

// Two calls with the state handed over: the same as one.
static void check_split(void) {
  enum { FIRST = 20 };
  two = one;
  memset(two.y, 0, sizeof two.y);
  for (int part = 0; part < 2; part++) {
    decay_arguments f = arguments_of(&two);
    int start = part * FIRST;
    f.time = part ? T - FIRST : FIRST;
    f.x += start * G * V, f.x_batch_stride = T * G * V;
    f.k += start * G * K, f.k_batch_stride = T * G * K;
    f.q += start * G * K, f.q_batch_stride = T * G * K;
    f.a += start * G, f.a_batch_stride = T * G;
    f.y += start * G * V, f.y_batch_stride = T * G * V;
    if (part) hand_over(&f);
    rec_launch launch = launch_for(&f, 2, 0);
    expect(decay_forward(&f, &launch) == REC_OK, "forward of a part");
    free(launch.workspace);
  }
  compare("y in two calls", expected.y, two.y, X);
  compare("hT in two calls", expected.hT, two.hT, S);
}

// Memory between two pages that must not be touched: at the end of its pages, or at their start.
static void *guarded(const void *from, size_t bytes, size_t alignment, int at_end) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE),
         rounded = (bytes + alignment - 1) / alignment * alignment;
  size_t inside = (rounded + page - 1) / page * page;
  char *all = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(all + page, inside, PROT_READ | PROT_WRITE);
  char *memory = all + page + (at_end ? inside - rounded : 0);
  if (from) memcpy(memory, from, bytes);
  return memory;
}

// Nothing is read or written outside of the tensors, the workspace and what is saved.
static void check_bounds(void) {
  for (int at_end = 0; at_end < 2; at_end++) {
    decay_arguments f = arguments_of(&one);
#define GUARD(member) f.member = guarded(one.member, sizeof one.member, sizeof(number), at_end)
#define GUARD_AS(field, member) \
  f.field = guarded(one.member, sizeof one.member, sizeof(number), at_end)
    GUARD(x), GUARD(k), GUARD(q), GUARD(a), GUARD(b), GUARD(d), GUARD(y);
    GUARD(d_y), GUARD(d_x), GUARD(d_k), GUARD(d_q), GUARD(d_a), GUARD(d_b), GUARD(d_d);
    GUARD_AS(h0_S, h0), GUARD_AS(hT_S, hT), GUARD_AS(d_hT_S, d_hT), GUARD_AS(d_h0_S, d_h0);
#if LAGS
    GUARD_AS(h0_x_lag, lag0), GUARD_AS(hT_x_lag, lagT);
    GUARD_AS(d_h0_x_lag, d_lag0), GUARD_AS(d_hT_x_lag, d_lagT);
#endif
    rec_launch launch = launch_for(&f, 1, 1);
    launch.workspace = guarded(NULL, (size_t)launch.workspace_bytes, REC_ALIGNMENT, at_end);
    launch.saved = guarded(NULL, (size_t)launch.saved_bytes, REC_ALIGNMENT, at_end);
    expect(decay_forward(&f, &launch) == REC_OK, "forward between guards");
    expect(decay_backward(&f, &launch) == REC_OK, "backward between guards");
    expect(memcmp(f.y, one.y, sizeof one.y) == 0, "outputs between guards");
    expect(memcmp(f.d_k, one.d_k, sizeof one.d_k) == 0, "gradients between guards");
  }
}

// The same tokens as sequences of many lengths behind each other, all memory between guards.
enum { SEQUENCES = 6 };
static const int32_t offsets[SEQUENCES + 1] = {0, 0, 1, 38, 38, B *T - 2, B *T};
typedef struct packed_states {
  number h0[SEQUENCES * G * K * V], hT[SEQUENCES * G * K * V], lag0[SEQUENCES * G * V],
      lagT[SEQUENCES * G * V];
  number d_hT[SEQUENCES * G * K * V], d_h0[SEQUENCES * G * K * V], d_lagT[SEQUENCES * G * V],
      d_lag0[SEQUENCES * G * V];
} packed_states;

// Sums over instances may be formed in another order.
static void expect_near(const number *found, const number *wanted, int count, const char *what) {
  double worst = 0, size = 0;
  for (int i = 0; i < count; i++) {
    worst = fmax(worst, fabs((double)found[i] - (double)wanted[i]));
    size = fmax(size, fabs((double)wanted[i]));
  }
  expect(worst <= 1e-5 * size, what);
}

// One call for each sequence, or one for all of them (sequence -1).
static void run_sequences(decay_arguments f, packed_states *m, int sequence, int at_end) {
  f.batch = 1, f.time = B * T, f.sequences = SEQUENCES;
  int from = sequence < 0 ? 0 : sequence, states = sequence < 0 ? SEQUENCES : 1;
  if (sequence < 0)
    f.cu_seqlens = guarded(offsets, sizeof offsets, sizeof(int32_t), at_end);
  else
    f.sequences = 0, f.time = offsets[sequence + 1] - offsets[sequence];
  int64_t first = offsets[from];
  f.x += first * G * V, f.k += first * G * K, f.q += first * G * K, f.a += first * G;
  f.y += first * G * V, f.d_y += first * G * V, f.d_x += first * G * V;
  f.d_k += first * G * K, f.d_q += first * G * K, f.d_a += first * G;
  size_t bytes = (size_t)(states * G * K * V) * sizeof(number);
  number *hT = guarded(NULL, bytes, sizeof(number), at_end),
         *d_h0 = guarded(NULL, bytes, sizeof(number), at_end);
  f.h0_S = guarded(m->h0 + from * G * K * V, bytes, sizeof(number), at_end), f.hT_S = hT;
  f.d_hT_S = guarded(m->d_hT + from * G * K * V, bytes, sizeof(number), at_end), f.d_h0_S = d_h0;
#if LAGS
  f.h0_x_lag = m->lag0 + from * G * V, f.hT_x_lag = m->lagT + from * G * V;
  f.d_h0_x_lag = m->d_lag0 + from * G * V, f.d_hT_x_lag = m->d_lagT + from * G * V;
#endif
  rec_launch launch = launch_for(&f, 2, 1);
  launch.workspace = guarded(NULL, (size_t)launch.workspace_bytes, REC_ALIGNMENT, at_end);
  launch.saved = guarded(NULL, (size_t)launch.saved_bytes, REC_ALIGNMENT, at_end);
  expect(decay_forward(&f, &launch) == REC_OK, "forward of packed sequences");
  expect(decay_backward(&f, &launch) == REC_OK, "backward of packed sequences");
  memcpy(m->hT + from * G * K * V, hT, bytes);
  memcpy(m->d_h0 + from * G * K * V, d_h0, bytes);
}

static void check_packed(void) {
  static packed_states packed, single;
  static double unused[SEQUENCES * G * K * V];
  fill(unused, packed.h0, SEQUENCES * G * K * V), fill(unused, packed.d_hT, SEQUENCES * G * K * V);
  fill(unused, packed.lag0, SEQUENCES * G * V), fill(unused, packed.d_lagT, SEQUENCES * G * V);
  single = packed;
  for (int at_end = 0; at_end < 2; at_end++) {
    static tensors all, each;
    all = each = one;
    decay_arguments f = arguments_of(&all), g = arguments_of(&each);
    number *guards[] = {f.y = guarded(NULL, sizeof one.y, sizeof(number), at_end),
                        f.d_q = guarded(NULL, sizeof one.d_q, sizeof(number), at_end)};
    f.x = guarded(one.x, sizeof one.x, sizeof(number), at_end);
    f.k = guarded(one.k, sizeof one.k, sizeof(number), at_end);
    run_sequences(f, &packed, -1, at_end);
    for (int s = 0; s < SEQUENCES; s++) run_sequences(g, &single, s, at_end);
    expect(memcmp(guards[0], each.y, sizeof each.y) == 0, "outputs of packed sequences");
    expect(memcmp(packed.hT, single.hT, sizeof single.hT) == 0, "states of packed sequences");
    expect(memcmp(packed.lagT, single.lagT, sizeof single.lagT) == 0, "lags of packed sequences");
    expect_near(guards[1], each.d_q, KEY, "gradients of packed sequences");
    expect_near(packed.d_h0, single.d_h0, SEQUENCES * G * K * V, "gradients of their states");
    expect_near(packed.d_lag0, single.d_lag0, SEQUENCES * G * V, "gradients of their lags");
  }
}

static void check_fork(void) {
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    two = one;
    memset(two.y, 0, sizeof two.y);
    run_library(&two, 2, 1);
    _exit(failures || memcmp(one.y, two.y, sizeof one.y) != 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a child process after fork");
}

static void expect_error(int status, int wanted, const char *message) {
  if (status == wanted && strcmp(rec_error(), message) == 0) return;
  printf("FAILED: expected status %d, %s\n        found status %d, %s\n", wanted, message, status,
         rec_error());
  failures++;
}

static void check_errors(void) {
  decay_arguments f = arguments_of(&one);
  rec_launch launch = launch_for(&f, 1, 0), none = launch;
  f.K = 7;
  expect_error(decay_forward(&f, &launch), REC_ERROR_ARGUMENT,
               "decay_forward: expected K = " TEXT(KEYS) ", its compile-time size, found 7");
  f.K = K, f.q = NULL;
  expect_error(decay_backward(&f, &launch), REC_ERROR_ARGUMENT,
               "decay_backward: expected data for q[batch,time,G,K], found NULL");
  f.q = one.q, f.size = 16;
  expect(decay_forward(&f, &launch) == REC_ERROR_ABI, "a struct that is too small");
  f.size = sizeof f;
  none.workspace = NULL;
  expect(decay_forward(&f, &none) == REC_ERROR_WORKSPACE, "no workspace");
  none = launch, none.abi_major = 2;
  none.abi_minor = 0;
  expect_error(decay_forward(&f, &none), REC_ERROR_ABI,
               "decay_forward: expected ABI 1.x, found 2.0 in rec_launch");
  expect_error(decay_step(&f, &launch), REC_ERROR_ARGUMENT,
               "decay_step: expected time = 1, found 37");
  free(launch.workspace);
}

// With the word no-fork not everything runs: emulators cannot fork beside threads.
int main(int words, char **unused) {
  (void)unused;
  fill(p.x, one.x, X), fill(p.k, one.k, KEY), fill(p.q, one.q, KEY), fill(p.a, one.a, A);
  fill(p.b, one.b, G), fill(p.d, one.d, V), fill(p.h0, one.h0, S), fill(p.lag0, one.lag0, LAG);
  fill(p.d_y, one.d_y, X), fill(p.d_hT, one.d_hT, S), fill(p.d_lagT, one.d_lagT, LAG);
  check_values();
  check_threads();
  check_step();
  check_split();
  check_bounds();
  check_packed();
  if (words == 1) check_fork();
  check_errors();
  expect(strncmp(rec_manifest, "{\"rec\":", 7) == 0, "the manifest is the text itself");
  return failures != 0;
}
