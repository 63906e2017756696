// A compiled recurrence from C: prompts of different lengths in one call, tokens that follow one by
// one, and a gradient.
//
//   recc memory.rec
//   cc -std=c11 -O2 main.c ./memory.so -lm -Wl,-rpath,. -o main && ./main
//
// memory.h is all that is needed: it tells every argument, and nothing of rec is installed or
// linked but memory.so.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { SEQUENCES = 4, H = 3, K = 16, V = 16, TOTAL = 3 + 40 + 0 + 17 };

// How many tokens each sequence has, and how many of them are there at first. The third has none;
// the second has no token to follow.
static const int lengths[SEQUENCES] = {3, 40, 0, 17}, prompts[SEQUENCES] = {1, 40, 0, 12};

static void stop(const char *what) {
  fprintf(stderr, "%s: %s\n", what, rec_error());
  exit(1);
}

static void *allocate(size_t bytes) {
  void *memory = aligned_alloc(REC_ALIGNMENT, (bytes / REC_ALIGNMENT + 1) * REC_ALIGNMENT);
  if (!memory) exit(1);
  return memset(memory, 0, bytes);
}

static float *numbers(size_t count) { return allocate(count * sizeof(float)); }

// Numbers between -1 and 1, the same in every run.
static float *draw(size_t count) {
  static unsigned random = 1;
  float *drawn = numbers(count);
  for (size_t i = 0; i < count; i++) {
    random = random * 1664525u + 1013904223u;
    drawn[i] = (float)(random >> 8) / (float)(1 << 23) - 1;
  }
  return drawn;
}

// ---- tokens ----------------------------------------------------------------------------------

// All sequences behind each other, as cu_seqlens describes it: [1, tokens, H, ..].
typedef struct tokens {
  float *q, *k, *v, *gate, *y;
} tokens;

static tokens draw_tokens(void) {
  return (tokens){draw(TOTAL * H * K), draw(TOTAL * H * K), draw(TOTAL * H * V),
                  draw(TOTAL * H * K), numbers(TOTAL * H * V)};
}

static tokens empty_tokens(void) {
  return (tokens){numbers(TOTAL * H * K), numbers(TOTAL * H * K), numbers(TOTAL * H * V),
                  numbers(TOTAL * H * K), numbers(TOTAL * H * V)};
}

// Where the tokens of a sequence begin among all.
static int first_token(int sequence) {
  int first = 0;
  for (int s = 0; s < sequence; s++) first += lengths[s];
  return first;
}

static void copy_token(tokens to, int at, tokens from, int place) {
  memcpy(to.q + at * H * K, from.q + place * H * K, H * K * sizeof(float));
  memcpy(to.k + at * H * K, from.k + place * H * K, H * K * sizeof(float));
  memcpy(to.v + at * H * V, from.v + place * H * V, H * V * sizeof(float));
  memcpy(to.gate + at * H * K, from.gate + place * H * K, H * K * sizeof(float));
}

// ---- calls -----------------------------------------------------------------------------------

// What is carried from call to call: a row for each sequence, of the same size at any length.
typedef struct cache {
  float *S;      // [SEQUENCES, H, K, V]
  float *k_lag;  // [SEQUENCES, 1, H, K]: the key before, for k[t-1]
} cache;

static cache new_cache(void) {
  return (cache){numbers(SEQUENCES * H * K * V), numbers(SEQUENCES * H * K)};
}

// `offsets` has SEQUENCES + 1 entries; the state is read from the cache and left there.
static memory_arguments arguments_for(tokens t, const int32_t *offsets, float *mix, cache state) {
  return (memory_arguments){.size = sizeof(memory_arguments),
                            .batch = 1,
                            .time = offsets[SEQUENCES],
                            .sequences = SEQUENCES,
                            .cu_seqlens = offsets,
                            .H = H,
                            .q = t.q,
                            .k = t.k,
                            .v = t.v,
                            .gate = t.gate,
                            .mix = mix,
                            .h0_S = state.S,
                            .hT_S = state.S,
                            .h0_k_lag = state.k_lag,
                            .hT_k_lag = state.k_lag,
                            .y = t.y};
}

// Memory for calls of such sizes, whatever the lengths of the sequences. `keep`: forward leaves for
// backward what that would else compute again.
static rec_launch launch_for(const memory_arguments *arguments, int keep) {
  rec_sizes sizes = {.size = sizeof sizes};
  if (memory_sizes(arguments, &sizes)) stop("memory_sizes");
  rec_launch launch = {
      .size = sizeof launch, .abi_major = REC_ABI_MAJOR, .abi_minor = REC_ABI_MINOR};
  launch.workspace_bytes = sizes.workspace;
  launch.workspace = allocate((size_t)sizes.workspace);
  if (keep) {
    launch.saved_bytes = sizes.saved;
    launch.saved = allocate((size_t)sizes.saved);
  }
  return launch;
}

static void free_launch(rec_launch *launch) {
  free(launch->workspace);
  free(launch->saved);
}

static void forward(tokens t, const int32_t *offsets, float *mix, cache state) {
  memory_arguments arguments = arguments_for(t, offsets, mix, state);
  rec_launch launch = launch_for(&arguments, 0);
  if (memory_forward(&arguments, &launch)) stop("memory_forward");
  free_launch(&launch);
}

// ---- prompts, then tokens one by one ---------------------------------------------------------

// One call over all prompts.
static void prefill(tokens all, tokens y, float *mix, cache state) {
  tokens some = empty_tokens();
  int32_t offsets[SEQUENCES + 1] = {0};
  for (int s = 0; s < SEQUENCES; s++) {
    offsets[s + 1] = offsets[s] + prompts[s];
    for (int t = 0; t < prompts[s]; t++) copy_token(some, offsets[s] + t, all, first_token(s) + t);
  }
  forward(some, offsets, mix, state);
  for (int s = 0; s < SEQUENCES; s++)
    memcpy(y.y + first_token(s) * H * V, some.y + offsets[s] * H * V,
           (size_t)prompts[s] * H * V * sizeof(float));
}

// The next token of every sequence that has one; the state of the others stays as it is. Returns
// how many had one.
static int one_step(tokens all, tokens y, float *mix, cache state, int step) {
  tokens some = empty_tokens();
  int32_t offsets[SEQUENCES + 1] = {0};
  for (int s = 0; s < SEQUENCES; s++) {
    int goes_on = prompts[s] + step < lengths[s];
    if (goes_on) copy_token(some, offsets[s], all, first_token(s) + prompts[s] + step);
    offsets[s + 1] = offsets[s] + goes_on;
  }
  memory_arguments arguments = arguments_for(some, offsets, mix, state);
  rec_launch launch = launch_for(&arguments, 0);
  if (memory_step(&arguments, &launch)) stop("memory_step");
  free_launch(&launch);
  for (int s = 0; s < SEQUENCES; s++)
    if (offsets[s + 1] > offsets[s])
      memcpy(y.y + (first_token(s) + prompts[s] + step) * H * V, some.y + offsets[s] * H * V,
             H * V * sizeof(float));
  return offsets[SEQUENCES];
}

// max|a - b| / rms(b)
static double error(const float *a, const float *b, size_t count) {
  double worst = 0, square = 0;
  for (size_t i = 0; i < count; i++) {
    worst = fmax(worst, fabs((double)a[i] - (double)b[i]));
    square += (double)b[i] * (double)b[i];
  }
  return worst / sqrt(square / (double)count);
}

static int check(const char *what, double error) {
  int good = error < 1e-5;
  printf("%-48s %.1e%s\n", what, error, good ? "" : "  <- too much");
  return !good;
}

static int check_generation(tokens all, const int32_t *offsets, float *mix) {
  cache whole = new_cache(), pieces = new_cache();
  tokens y = empty_tokens();
  int step = 0;
  forward(all, offsets, mix, whole);
  prefill(all, y, mix, pieces);
  while (one_step(all, y, mix, pieces, step)) step++;
  printf("%d sequences, %d tokens: one call, or prompts and %d steps\n", SEQUENCES, TOTAL, step);
  return check("  outputs", error(y.y, all.y, TOTAL * H * V)) +
         check("  states", error(pieces.S, whole.S, SEQUENCES * H * K * V));
}

// ---- gradients -------------------------------------------------------------------------------

static double inner(const float *a, const float *b, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; i++) sum += (double)a[i] * (double)b[i];
  return sum;
}

// Without a state before, outputs are linear in v and in q: then <d_y, y> = <d_v, v> = <d_q, q>.
static int check_gradients(tokens all, const int32_t *offsets, float *mix) {
  cache state = new_cache();
  memory_arguments arguments = arguments_for(all, offsets, mix, state);
  arguments.h0_S = arguments.h0_k_lag = NULL;  // zero
  arguments.hT_S = arguments.hT_k_lag = NULL;  // not wanted
  float *d_y = draw(TOTAL * H * V);
  arguments.d_y = d_y;
  arguments.d_q = numbers(TOTAL * H * K);
  arguments.d_v = numbers(TOTAL * H * V);
  arguments.d_mix = numbers(H * K);
  rec_launch launch = launch_for(&arguments, 1);
  if (memory_forward(&arguments, &launch)) stop("memory_forward");
  if (memory_backward(&arguments, &launch)) stop("memory_backward");
  double loss = inner(d_y, all.y, TOTAL * H * V);
  printf("backward: <d_y, y> = %.3f\n", loss);
  int failures = check("  <d_v, v>", fabs(inner(arguments.d_v, all.v, TOTAL * H * V) / loss - 1)) +
                 check("  <d_q, q>", fabs(inner(arguments.d_q, all.q, TOTAL * H * K) / loss - 1));
  // Without what forward left, backward computes it again: the same to the last bit, on any number
  // of threads.
  float *before = arguments.d_mix;
  arguments.d_mix = numbers(H * K);
  free(launch.saved);
  launch.saved = NULL;
  launch.threads = 3;
  if (memory_backward(&arguments, &launch)) stop("memory_backward");
  int same = memcmp(before, arguments.d_mix, H * K * sizeof(float)) == 0;
  printf("  again, without saved states, on 3 threads       %s\n",
         same ? "the same bits" : "OTHER BITS");
  free_launch(&launch);
  return failures + !same;
}

int main(void) {
  int32_t offsets[SEQUENCES + 1] = {0};
  for (int s = 0; s < SEQUENCES; s++) offsets[s + 1] = offsets[s] + lengths[s];
  tokens all = draw_tokens();
  float *mix = draw(H * K);
  int failures = check_generation(all, offsets, mix) + check_gradients(all, offsets, mix);
  // A mistake is one line.
  offsets[2] = 1;
  memory_arguments wrong = arguments_for(all, offsets, mix, new_cache());
  rec_launch launch = launch_for(&wrong, 0);
  if (memory_forward(&wrong, &launch) != REC_OK) printf("a mistake: %s\n", rec_error());
  return failures != 0;
}
