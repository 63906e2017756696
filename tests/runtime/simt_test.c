// The GPU code of every recurrence of the grid, run and checked by the executor, against the
// interpreter. It covers values and all gradients, with and without what forward keeps, token by
// token, packed. f32 is as exact as on the host; bf16 and f16 have the tolerances of chunked
// products in 16 bits. Races, addresses, missing waits end a run with a message.
//
//   simt_test          a seeded twelfth of the standard library and the golden programs: a third in bf16 or f16, the others in f32;
//                      a length of every kind; a sixth of the larger sizes, a twelfth of the programs with warpgroups
//   simt_test full     every program in f32, bf16 and f16, all lengths (more than half an hour)
//   REC_SEED=N         the same draws again; else new ones each run
//   REC_GRID=NAME      the recurrences whose name contains NAME alone
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/simt_options.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/grid_cases.h"
#include "tests/runtime/problem.h"

// By kind: next to none, around 16, around a chunk, several chunks.
static const int64_t lengths[][3] = {{0, 1, 1}, {15, 16, 17}, {64, 65, 64}, {130, 130, 130}};
enum { KINDS = sizeof lengths / sizeof *lengths };

typedef struct subject {
  const grid_case *case_;
  const rec_recurrence *recurrence;
  const char *type;
  uint64_t seed;
  bool full;
  int32_t device_number;
} subject;

static double worst[3];  // f32, bf16, f16
static int by_groups;    // recurrences with products by warpgroups

static double least_of(const subject *s) {
  return strcmp(s->type, "f32") == 0 ? 2e-5 : strcmp(s->type, "bf16") == 0 ? 6e-2 : 7.5e-3;
}

static void note(const subject *s, double error) {
  double *w = &worst[strcmp(s->type, "f32") == 0 ? 0 : strcmp(s->type, "bf16") == 0 ? 1 : 2];
  *w = fmax(*w, error);
}

// Products round their operands to the tokens' 16 bits. In f32 the bound is that of the grid.
static double wider(const subject *s, const problem *inputs, const problem *exact, bool backward,
                    double least) {
  double rounding = strcmp(s->type, "bf16") == 0 ? 0x1p-8 : 0x1p-11;
  if (strcmp(s->type, "f32") != 0)
    return problem_rounded_tolerance(inputs, exact, s->recurrence, least, rounding, backward);
  return fmax(least, 10 * problem_plain_error(inputs, exact, s->recurrence, backward, 4));
}

// Runs `got`, a copy of the inputs. Returns how many kernels were started.
static int64_t judge_run(const subject *s, const problem *inputs, const problem *exact,
                         problem *got, const char *what, rec_run_options options) {
  char where[256];
  rec_simt_options simt = {.size = sizeof simt, .seed = s->seed, .watched = true};
  options.simt = &simt;
  options.device_number = s->device_number;
  bool ran = problem_run(got, s->recurrence, "simt", &options);
  const char *name = rec_recurrence_signature(s->recurrence)->name;
  if (check(ran, "%s %s %s T=%d: %s", name, s->type, what, (int)inputs->time, rec_message())) {
    double error = problem_compare(exact, got, options.backward, 1e-4, where, sizeof where);
    double tolerance = least_of(s);
    if (error > tolerance) tolerance = wider(s, inputs, exact, options.backward, tolerance);
    check(error <= tolerance, "%s %s %s T=%d: error %.2e > %.2e at %s; again: REC_SEED=%llu", name,
          s->type, what, (int)inputs->time, error, tolerance, where, (unsigned long long)s->seed);
    note(s, error);
  }
  return simt.launches;
}

static void judge(const subject *s, const problem *inputs, const problem *exact, const char *what,
                  rec_run_options options) {
  problem *got = problem_copy(inputs);
  judge_run(s, inputs, exact, got, what, options);
  problem_free(got);
}

// Takes the inputs.
static void run_ways(const subject *s, problem *inputs, const char *what, bool steps) {
  const rec_run_options backward = {.backward = true};
  problem *exact = problem_copy(inputs);
  if (check(problem_run(exact, s->recurrence, "reference", &backward), "%s: %s", what,
            rec_message())) {
    bool recompute = (s->seed + (uint64_t)inputs->time) % 3 == 0;
    judge(s, inputs, exact, what, (rec_run_options){.backward = true, .recompute = recompute});
    if (steps) judge(s, inputs, exact, "token by token", (rec_run_options){.step = true});
  }
  problem_free(inputs);
  problem_free(exact);
}

static problem *new_packed(const rec_signature *signature, int64_t run_time_size) {
  static const int32_t packed_lengths[] = {0, 1, 17, 0, 35, 64, 2, 0};
  return problem_packed(signature, packed_lengths, 8, run_time_size);
}

static void check_threads(const subject *s) {
  const rec_run_options one = {.backward = true, .threads = 1},
                        three = {.backward = true, .threads = 3};
  problem *p = problem_new(rec_recurrence_signature(s->recurrence), 2, 40, s->case_->run_time_size);
  grid_draw(s->case_, p, s->seed);
  problem *q = problem_copy(p);
  bool ran =
      problem_run(p, s->recurrence, "simt", &one) && problem_run(q, s->recurrence, "simt", &three);
  check(ran && problem_equal(p, q, true), "%s %s: 3 threads give other bits than one",
        p->signature->name, s->type);
  problem_free(p);
  problem_free(q);
}

// Slices of time, side by side: the values and gradients of the interpreter, the same bits twice,
// at most three launches forward and five backward. The second run has three threads and its warps
// take turns in another order. `whole`: in one slice, too, with more chunks and saved states than
// elsewhere. Takes the inputs.
static void run_cut(const subject *s, problem *inputs, int64_t slices, bool whole,
                    const char *what) {
  const char *name = inputs->signature->name;
  char nothing_saved[64];
  snprintf(nothing_saved, sizeof nothing_saved, "%s, nothing saved", what);
  rec_run_options many = {
      .backward = true, .time_slices = slices, .device_number = s->device_number};
  problem *exact = problem_copy(inputs);
  problem *saved = problem_copy(inputs), *unsaved = problem_copy(inputs),
          *again = problem_copy(inputs);
  bool known = problem_run(exact, s->recurrence, "reference", &many);
  if (check(known, "%s: %s", what, rec_message())) {
    if (whole) judge(s, inputs, exact, "not in slices", (rec_run_options){.backward = true});
    int64_t launches = judge_run(s, inputs, exact, saved, what, many);
    check(launches <= 3 + 3, "%s %s: %d launches in slices", name, what, (int)launches);
    many.recompute = true;
    launches = judge_run(s, inputs, exact, unsaved, nothing_saved, many);
    check(launches <= 3 + 5, "%s %s: %d launches, nothing saved", name, what, (int)launches);
    many.recompute = s->seed % 2;
    many.threads = 3;
    bool ran = problem_run(again, s->recurrence, "simt", &many);
    check(ran && problem_equal(many.recompute ? unsaved : saved, again, true),
          "%s %s: slices give other bits when run again", name, what);
  }
  problem_free(inputs);
  problem_free(exact);
  problem_free(saved);
  problem_free(unsaved);
  problem_free(again);
}

static problem *new_edge(const subject *s, int number) {
  static const int64_t edges[] = {129, 255, 256, 257, 300};
  problem *p = problem_new(rec_recurrence_signature(s->recurrence), 1, edges[number],
                           s->case_->run_time_size);
  grid_draw(s->case_, p, s->seed + 2000);
  return p;
}

static problem *new_packed_edges(const subject *s) {
  static const int32_t steps[] = {0, 1, 128, 1, 257, 0};
  problem *p = problem_packed(rec_recurrence_signature(s->recurrence), steps,
                              sizeof steps / sizeof *steps, s->case_->run_time_size);
  grid_draw(s->case_, p, s->seed + 3000);
  return p;
}

// States are saved every 128 steps in chunks: slices end there. The seed says which of the two
// inputs runs whole. Of products by warpgroups, which take longest here, it says which of the two
// runs at all.
static void run_in_slices(const subject *s) {
  enum { EDGES = 5 };
  bool one_alone = s->device_number == 2 && !s->full,
       packed_alone = one_alone && (s->seed / 2 + (uint64_t)by_groups) % 2;
  for (int i = 0; i < EDGES; i++) {
    if (packed_alone || (!s->full && s->seed % EDGES != (uint64_t)i)) continue;
    run_cut(s, new_edge(s, i), 2 + (int64_t)(s->seed % 3), s->full || s->seed % 2, "in slices");
  }
  if (one_alone && !packed_alone) return;
  run_cut(s, new_packed_edges(s), 4, s->full || s->seed % 2 == 0, "packed, in slices");
}

static void run_length(const subject *s, int64_t time, bool steps) {
  const rec_signature *signature = rec_recurrence_signature(s->recurrence);
  problem *p = problem_new(signature, time > 100 ? 1 : 2, time, s->case_->run_time_size);
  grid_draw(s->case_, p, s->seed + (uint64_t)time);
  run_ways(s, p, "backward", steps);
}

static void run_subject(const subject *s) {
  const rec_signature *signature = rec_recurrence_signature(s->recurrence);
  for (int kind = 0; kind < KINDS; kind++) {
    for (int i = 0; i < 3; i++) {
      bool chosen = (s->seed + (uint64_t)kind) % 3 == (uint64_t)i;
      if (s->full ? i > 0 && lengths[kind][i] == lengths[kind][i - 1] : !chosen) continue;
      run_length(s, lengths[kind][i], kind == 1);
    }
  }
  problem *packed = new_packed(signature, s->case_->run_time_size);
  grid_draw(s->case_, packed, s->seed + 1000);
  run_ways(s, packed, "packed", false);
  run_in_slices(s);
  check_threads(s);
  by_groups += s->device_number == 2;
}

static void run_with(const grid_case *c, const char *type, const char *shared_kib, uint64_t seed,
                     bool full) {
  bool groups = strcmp(shared_kib, "groups") == 0;
  int32_t device = groups ? 2 : strcmp(shared_kib, "227") == 0;
  const char *words[24] = {"--target", simt_target(), "-O0", "--dtype", type};
  int count = 5;
  if (device) words[1] = simt_90a_target();
  if (groups) {
    words[count++] = "--chunk";
    words[count++] = "64";
  } else if (!device) {
    words[count++] = "--shared-memory";
    words[count++] = shared_kib;
  }
  for (int i = 0; i < 6 && c->sizes[i]; i++) {
    words[count++] = "-D";
    words[count++] = c->sizes[i];
  }
  rec_module *module = compile_file(c->path, words);
  if (check(module, "%s %s does not compile", c->path, type)) {
    subject s = {c, rec_module_find(module, c->recurrence), type, seed, full, device};
    if (check(s.recurrence, "%s: no recurrence %s", c->path, c->recurrence)) run_subject(&s);
  }
  rec_module_close(module);
}

static void run_case(const grid_case *c, const char *type, uint64_t seed, bool full) {
  run_with(c, type, "99", seed, full);
}

// A recurrence of the standard library at other sizes.
typedef struct sized {
  const char *name, *type, *shared_kib;
  int run_time_size;
  const char *sizes[6];
} sized;

static bool is_operator(const grid_case *c) { return strncmp(c->path, "stdlib/ops/", 11) == 0; }

static void run_sized(const sized *r, const char *type, uint64_t seed, bool full) {
  for (int i = 0; i < grid_case_count; i++) {
    grid_case c = grid_cases[i];
    if (strncmp(c.path, "stdlib/", 7) != 0 || strcmp(c.recurrence, r->name) != 0 ||
        (is_operator(&c) && !full))
      continue;
    memcpy(c.sizes, r->sizes, sizeof c.sizes);
    c.run_time_size = r->run_time_size;
    run_with(&c, type, r->shared_kib, seed, full);
  }
}

// Every sixth one, which the seed says, or all.
static void run_sixth(const sized *list, int count, uint64_t seed, bool all, bool full) {
  for (int i = 0; i < count; i++)
    if (all || (seed + (uint64_t)i) % 6 == 0) run_sized(&list[i], list[i].type, seed, full);
}

// Little shared memory: instances have tiles of the value axis, and backward goes through the tiles
// one after another.
static void run_value_tiles(uint64_t seed, bool whole_list, bool full) {
  static const sized all[] = {
      {"simple_gla", "f32", "16", 2, {"K=40", "V=64"}},
      {"gla", "bf16", "16", 2, {"K=40", "V=64"}},
      {"rwkv6", "f16", "16", 2, {"K=40", "V=64"}},
      {"gated_deltanet", "bf16", "16", 2, {"K=40", "V=64"}},
      {"ssd", "bf16", "16", 5, {"P=64", "N=36"}},
      {"s4d", "f32", "16", 9, {"N=16"}},  // more than the registers of a thread hold
  };
  run_sixth(all, sizeof all / sizeof *all, seed, whole_list, full);
}

// States as large as the standard sizes make them: they stay in registers, up to eight tiles to a
// warp.
static void run_kept(uint64_t seed, bool whole_list, bool full) {
  static const sized all[] = {
      {"ssd", "bf16", "99", 1, {"G=1", "P=64", "N=128"}},
      {"simple_gla", "f16", "99", 1, {"K=64", "V=64"}},
      {"mlstm", "bf16", "99", 1, {"K=64", "V=64"}},
      {"gla", "bf16", "99", 1, {"K=128", "V=16"}},
      {"gated_deltanet", "bf16", "99", 1, {"K=64", "V=64"}},
  };
  run_sixth(all, sizeof all / sizeof *all, seed / 6, whole_list, full);
}

// Kernels for devices with more shared memory, in a library that has those for others, too.
static void run_large(uint64_t seed, bool whole_list, bool full) {
  static const sized all[] = {{"gla", "bf16", "227", 2, {"K=16", "V=64"}},
                              {"s4d", "f32", "227", 9, {NULL}}};
  for (uint64_t i = 0; i < 2; i++)
    if (whole_list || (seed + i) % 4 == 0) run_sized(&all[i], all[i].type, seed, full);
}

// Products by warpgroups, in chunks of 64 steps: of every structure whose states are matrices.
static void run_groups(uint64_t seed, bool whole_list, bool full) {
  static const sized all[] = {
      {"ssd", NULL, "groups", 1, {"G=1", "P=64", "N=128"}},
      {"gla", NULL, "groups", 1, {"K=64", "V=128"}},
      {"rwkv6", NULL, "groups", 1, {"K=64", "V=64"}},
      {"gated_deltanet", NULL, "groups", 1, {"K=64", "V=64"}},
      {"rwkv7", NULL, "groups", 1, {"K=64", "V=64"}},
      {"simple_gla", NULL, "groups", 1, {"K=64", "V=32"}},
      {"kda", NULL, "groups", 1, {"K=64", "V=64"}},
      {"deltaproduct", NULL, "groups", 1, {"K=64", "V=64"}},
      {"mlstm", NULL, "groups", 1, {"K=64", "V=64"}},
      {"mamba3", NULL, "groups", 1, {"P=64", "N=64"}},
      {"retnet", NULL, "groups", 1, {"K=128", "V=64"}},
      {"linear_attention", NULL, "groups", 1, {"K=64", "V=16"}},
  };
  enum { COUNT = sizeof all / sizeof *all, EACH = 12 };
  for (int i = 0; i < COUNT; i++) {
    if (!whole_list && (seed + (uint64_t)i) % EACH) continue;
    run_sized(&all[i], (seed / EACH + (uint64_t)i) % 2 ? "bf16" : "f16", seed, full);
  }
}

// Steps that multiply states by a matrix of parameters: its gradient is a product over the steps of
// a chunk.
static void run_cells(uint64_t seed, bool full) {
  static const grid_case cells[] = {
      {"stdlib/lstm.rec", "lstm", .sizes = {"D=24"}, .run_time_size = 1,
       .domains = {{"weight_hh", SMALL}}},
      {"stdlib/gru.rec", "gru", .sizes = {"D=32"}, .run_time_size = 1,
       .domains = {{"weight_hh", SMALL}}},
      {"tools/bench/dense/blocks.rec", "blocks", .sizes = {"H=2", "D=20"}, .run_time_size = 1,
       .domains = {{"turn", SMALL}}},
      {"tests/invented/slstm.rec", "slstm", .sizes = {"H=2", "D=20"}, .run_time_size = 1,
       .domains = {{"weight", SMALL}}},
  };
  enum { COUNT = sizeof cells / sizeof *cells };
  for (uint64_t i = 0; i < COUNT; i++)
    for (uint64_t narrow = 0; narrow < 2; narrow++)
      if (full || (seed + i + 2 * narrow) % 4 == 0)
        run_with(&cells[i], narrow ? "bf16" : "f32", seed / 4 % 2 ? "227" : "99", seed, full);
}

// Without states, time is cut into slices that run side by side; what they add to parameters is
// summed.
static const char stateless[] =
    "recurrence mix(H, K = 9) {\n"
    "  input  x[H,K], g[H]\n"
    "  param  w[H,K], b[K]\n"
    "  output y[H,K], z[K]\n\n"
    "  y = sigmoid(g) * w * x + b\n"
    "  z = sum[H](w * x * x)\n"
    "}\n";

static void run_stateless(uint64_t seed) {
  const char *const words[] = {"--target", simt_target(), "-O0", "-D", "H=3", NULL};
  static const grid_case none = {.run_time_size = 3};
  rec_module *module = compile_text(stateless, words);
  if (check(module, "mix does not compile")) {
    subject s = {&none, rec_module_find(module, "mix"), "f32", seed, true, 0};
    run_length(&s, 1000, false);
    check_threads(&s);
  }
  rec_module_close(module);
}

typedef enum left_out { BARRIER, WAIT, FENCE } left_out;

// Whether the executor says what is missing.
static bool tells(left_out kind, const char *message) {
  static const char *const words[] = {
      "race: ",          "asynchronous cop",           "without a fence",      "with no fence",
      "is at a barrier", "that it has not waited for", "nobody has waited for"};
  int first = kind == FENCE ? 2 : 0, last = kind == BARRIER ? 2 : 7;
  for (int i = first; i < last; i++)
    if (strstr(message, words[i])) return true;
  return false;
}

// Leaves out one barrier, one wait for asynchronous copies and products, or one fence after
// another. Either the executor finds it, or it was not needed and the results are the same to the
// last bit. `device` 2: products by warpgroups, of which there is a whole chunk. But for `full`,
// every second barrier or fence.
static void leave_out(uint64_t seed, left_out kind, int32_t device, bool full) {
  const char *const small[] = {"--target", simt_target(), "-O0",  "--dtype", "bf16",
                               "--form",   "chunk",       "-D",   "H=1",     "-D",
                               "K=24",     "-D",          "V=16", NULL};
  const char *const groups[] = {"--target", simt_90a_target(),
                                "-O0",      "--dtype",
                                "bf16",     "--chunk",
                                "64",       "-D",
                                "H=1",      "-D",
                                "K=64",     "-D",
                                "V=64",     NULL};
  static const char *const names[] = {"barrier", "wait", "fence"};
  const char *what = names[kind];
  rec_module *module = compile_file(
      device ? REC_SOURCE_DIR "/stdlib/simple_gla.rec" : REC_SOURCE_DIR "/stdlib/gla.rec",
      device ? groups : small);
  if (!check(module, "gla does not compile")) return;
  const rec_recurrence *r = rec_module_find(module, device ? "simple_gla" : "gla");
  problem *inputs = problem_new(rec_recurrence_signature(r), 1, device ? 70 : 40, 1);
  problem_draw(inputs, seed, 0.7);
  problem_retype(inputs, inputs->signature);
  int found = 0, tried = 0;
  problem *right = problem_copy(inputs);
  rec_run_options options = {.backward = true, .device_number = device};
  check(problem_run(right, r, "simt", &options), "gla: %s", rec_message());
  bool few = kind == WAIT, all = few || full;
  for (int64_t n = all ? 1 : 1 + (int64_t)(seed % 2); n <= (few      ? 3
                                                            : device ? 16
                                                                     : 30);
       n += all ? 1 : 2) {
    rec_simt_options simt = {.size = sizeof simt, .seed = seed};
    *(kind == WAIT    ? &simt.skipped_wait
      : kind == FENCE ? &simt.skipped_fence
                      : &simt.skipped_barrier) = n;
    options.simt = &simt;
    problem *p = problem_copy(inputs);
    tried++;
    if (problem_run(p, r, "simt", &options))
      check(problem_equal(right, p, true), "gla without %s %d: wrong, and nothing is reported",
            what, (int)n);
    else
      found +=
          check(tells(kind, rec_message()), "gla without %s %d: %s", what, (int)n, rec_message());
    problem_free(p);
  }
  printf("%ss left out%s: %d, found: %d\n", what, device ? ", with warpgroups" : "", tried, found);
  check(3 * found > tried, "of %d %ss left out, %d were found", tried, what, found);
  problem_free(inputs);
  problem_free(right);
  rec_module_close(module);
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0,
       quick = count > 1 && strcmp(words[1], "quick") == 0;
  const char *only = getenv("REC_GRID");
  uint64_t seed = chosen_seed();
  printf("seed %llu\n", (unsigned long long)seed);
  fflush(stdout);
  for (int i = 0; i < grid_case_count; i++) {
    const grid_case *c = &grid_cases[i];
    bool common = !strncmp(c->path, "stdlib/", 7) || !strncmp(c->path, "tests/golden/", 13);
    bool chosen = (seed + (uint64_t)i) % 3 == 0;
    const char *narrow = seed / 3 % 2 && !full ? "f16" : "bf16";
    // Operators resemble the recurrences beside them: a twelfth of them, in one type.
    if (is_operator(c) && !only && !full) {
      if ((seed + (uint64_t)i) % 12 == 0 && !quick)
        run_case(c, seed / 2 % 2 ? "f32" : narrow, seed, false);
      continue;
    }
    if (only ? !strstr(c->recurrence, only) : !common && !full) continue;
    if (!full && !only && (seed / 36 + (uint64_t)i / 3) % 12 != 0) continue;
    if (full || only || !chosen) run_case(c, "f32", seed, full);
    if (full || chosen) run_case(c, narrow, seed, full);
    if (full) run_case(c, "f16", seed, full);
  }
  if (quick) return checked();
  if (!only || strcmp(only, "value-tiles") == 0) run_value_tiles(seed, full || only, full);
  if (!only || strcmp(only, "kept") == 0) run_kept(seed, full || only, full);
  if (!only || strcmp(only, "large") == 0) run_large(seed, full || only, full);
  if (!only || strcmp(only, "groups") == 0) run_groups(seed, full || only, full);
  if (!only || strcmp(only, "cells") == 0) run_cells(seed, full || only);
  if (!only) run_stateless(seed);
  for (left_out kind = BARRIER; kind <= FENCE && (!only || !strcmp(only, "faults")); kind++) {
    if (kind < FENCE) leave_out(seed, kind, 0, full);
    leave_out(seed, kind, 2, full);
  }
  printf("largest error f32 %.1e, bf16 %.1e, f16 %.1e beyond rounding\n", worst[0], worst[1],
         worst[2]);
  return checked();
}
