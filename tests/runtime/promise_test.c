// Promised ranges in libraries of recc --check. The first number outside is named with its place
// and step, in packed calls, in chunks and in single steps. Libraries without --check do not look.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

static const char text[] =
    "recurrence kept(G, N = 3) {\n"
    "  input x[G,N] in [-2, 2], g[G] in [-5, 0]\n"
    "  param w[G] in [0, 2*pi], c : complex in [-1, 1]\n"
    "  state h[G,N] in [-4, 4]\n"
    "  output y[G] in [-10, 10]\n"
    "  h = exp(g) * h[t-1] + x\n"
    "  y = w * sum[N](h) + re(c) + im(c)\n"
    "}\n"
    "\n"
    "recurrence plain(G) {\n"
    "  input x[G] in [0, 1]\n"
    "  output y[G] in [0, 3/2]\n"
    "  y = 2 * x\n"
    "}\n"
    "\n"
    "recurrence chunked(H, K = 16, V = 16) {\n"
    "  input q[H,K], k[H,K], v[H,V], a[H]\n"
    "  state S[H,K,V] in [-2, 2]\n"
    "  output y[H,V]\n"
    "  S = exp(a) * S[t-1] + k * v\n"
    "  y = sum[K](q * S)\n"
    "}\n";

static double *numbers_of(problem *p, const char *name) {
  for (int i = 0; i < p->signature->variable_count; i++)
    if (strcmp(p->signature->variables[i].name, name) == 0) return p->value[i];
  abort();
}

// Everything is 0: all promises are kept.
static void clear(problem *p) {
  problem_draw(p, 1, 0);
  if (strcmp(p->signature->name, "kept") == 0) {
    bool f64 = p->signature->carried_type == REC_F64;  // 2 * pi as the parameter can hold it
    for (int i = 0; i < 2; i++)
      numbers_of(p, "w")[i] = f64 ? 6.283185307179586 : 6.2831854820251465;
  }
}

static problem *batch_of(const rec_recurrence *r, int64_t batch, int64_t time) {
  problem *p = problem_new(rec_recurrence_signature(r), batch, time, 2);
  clear(p);
  return p;
}

static problem *packed_of(const rec_recurrence *r, const int32_t *lengths, int64_t count) {
  problem *p = problem_packed(rec_recurrence_signature(r), lengths, count, 2);
  clear(p);
  return p;
}

static void keeps(problem *p, const rec_recurrence *r, rec_run_options options) {
  check(problem_run(p, r, "host", &options), "a promise that is kept: %s", rec_message());
  problem_free(p);
}

static void breaks(problem *p, const rec_recurrence *r, rec_run_options options,
                   const char *message) {
  bool ran = problem_run(p, r, "host", &options);
  check(!ran && strcmp(rec_message(), message) == 0, "expected\n  %s\nfound\n  %s", message,
        ran ? "no error" : rec_message());
  problem_free(p);
}

static const rec_run_options forward = {0}, step = {.step = true};

static void check_operands(const rec_recurrence *r) {
  keeps(batch_of(r, 2, 7), r, (rec_run_options){.backward = true});
  problem *p = batch_of(r, 2, 7);
  numbers_of(p, "g")[(7 + 3) * 2 + 1] = 0.25;
  numbers_of(p, "g")[(7 + 4) * 2] = -7;
  breaks(p, r, forward,
         "kept: kept_forward: expected g in [-5, 0], as promised, found 0.25 in step 3 of batch "
         "entry 1, [G=1]");
  p = batch_of(r, 1, 7);
  numbers_of(p, "x")[5 * 6 + 4] = NAN;
  breaks(p, r, forward,
         "kept: kept_forward: expected x in [-2, 2], as promised, found nan in step 5 of batch "
         "entry 0, [G=1,N=1]");
  p = batch_of(r, 1, 7);
  numbers_of(p, "w")[1] = 6.5;
  breaks(p, r, forward,
         "kept: kept_forward: expected w in [0, 6.28318531], as promised, found 6.5, [G=1]");
  p = batch_of(r, 1, 7);
  numbers_of(p, "c")[1] = -1.5;
  breaks(p, r, forward,
         "kept: kept_forward: expected c in [-1, 1], as promised, found -1.5, imaginary part");
  p = batch_of(r, 3, 7);
  numbers_of(p, "h")[2 * 6 + 5] = 9;
  breaks(p, r, step,
         "step 0: kept: kept_step: expected h0_h in [-4, 4], as promised, found 9 in batch entry "
         "2, [G=1,N=2]");
}

// Values that the recurrence computes: a state that is inside again at the end, an output.
static void check_results(const rec_recurrence *r) {
  problem *p = batch_of(r, 2, 7);
  for (int t = 2; t < 5; t++) numbers_of(p, "x")[(7 + t) * 6] = 2;
  numbers_of(p, "g")[(7 + 5) * 2] = -5;
  for (int i = 0; i < 2; i++) numbers_of(p, "w")[i] = 0;
  breaks(p, r, forward,
         "kept: kept_forward: expected hT_h in [-4, 4], as promised, found 6 in step 4 of batch "
         "entry 1, [G=0,N=0]");
  p = batch_of(r, 1, 7);
  numbers_of(p, "w")[0] = 6;
  for (int n = 0; n < 3; n++) numbers_of(p, "x")[6 * 6 + n] = 0.75;
  breaks(p, r, forward,
         "kept: kept_forward: expected y in [-10, 10], as promised, found 13.5 in step 6 of batch "
         "entry 0, [G=0]");
}

static void check_packed(const rec_recurrence *r) {
  static const int32_t lengths[] = {0, 3, 1, 0, 4}, one[] = {7};
  keeps(packed_of(r, lengths, 5), r, (rec_run_options){.backward = true, .recompute = true});
  problem *p = packed_of(r, lengths, 5);
  numbers_of(p, "g")[(4 + 1) * 2] = 1;
  breaks(p, r, forward,
         "kept: kept_forward: expected g in [-5, 0], as promised, found 1 in step 1 of sequence 4, "
         "[G=0]");
  p = packed_of(r, lengths, 5);
  for (int t = 4; t < 7; t++) numbers_of(p, "x")[t * 6 + 1] = 2;
  breaks(p, r, forward,
         "kept: kept_forward: expected hT_h in [-4, 4], as promised, found 6 in step 2 of sequence "
         "4, [G=0,N=1]");
  p = packed_of(r, lengths, 5);
  numbers_of(p, "h")[3 * 6] = -5;
  breaks(p, r, forward,
         "kept: kept_forward: expected h0_h in [-4, 4], as promised, found -5 in sequence 3, "
         "[G=0,N=0]");
  p = packed_of(r, one, 1);
  numbers_of(p, "x")[6 * 6] = 3;
  breaks(p, r, forward,
         "kept: kept_forward: expected x in [-2, 2], as promised, found 3 in step 6 of sequence 0, "
         "[G=0,N=0]");
  p = packed_of(r, lengths, 5);
  numbers_of(p, "w")[0] = 6;
  for (int n = 0; n < 3; n++) numbers_of(p, "x")[6 * 6 + n] = 1;
  breaks(p, r, step,
         "step 2: kept: kept_step: expected y in [-10, 10], as promised, found 18 in step 0 of "
         "sequence 4, [G=0]");
}

// Without states, the boundaries of sequences matter to the message alone.
static void check_plain(const rec_recurrence *r) {
  static const int32_t lengths[] = {2, 0, 3};
  problem *p = packed_of(r, lengths, 3);
  numbers_of(p, "x")[2 * 4 + 1] = 0.875;
  breaks(p, r, forward,
         "plain: plain_forward: expected y in [0, 1.5], as promised, found 1.75 in step 2 of "
         "sequence 2, [G=1]");
}

// Inside of chunks no state exists: the steps are made beside them.
static void check_chunked(const rec_recurrence *r) {
  problem *p = batch_of(r, 2, 150);
  for (int t = 0; t < 150; t++) numbers_of(p, "a")[(150 + t) * 2 + 1] = -0.25;
  numbers_of(p, "k")[((150 + 40) * 2 + 1) * 16 + 3] = 3;
  numbers_of(p, "v")[((150 + 40) * 2 + 1) * 16 + 5] = 1;
  breaks(p, r, forward,
         "chunked: chunked_forward: expected hT_S in [-2, 2], as promised, found 3 in step 40 of "
         "batch entry 1, [H=1,K=3,V=5]");
  p = batch_of(r, 1, 150);
  numbers_of(p, "k")[17] = numbers_of(p, "v")[17] = 1.25;
  keeps(p, r, (rec_run_options){.backward = true});
}

static void check_type(const char *type) {
  const char *const options[] = {"--check", "--dtype", type, NULL};
  rec_module *module = compile_text(text, options);
  if (!check(module, "--check --dtype %s does not compile", type)) return;
  check_operands(rec_module_find(module, "kept"));
  check_packed(rec_module_find(module, "kept"));
  check_plain(rec_module_find(module, "plain"));
  check_chunked(rec_module_find(module, "chunked"));
  check_results(rec_module_find(module, "kept"));
  rec_module_close(module);
}

static void check_unchecked(void) {
  rec_module *module = compile_text(text, NULL);
  if (!check(module, "the program does not compile")) return;
  const rec_recurrence *r = rec_module_find(module, "kept");
  problem *p = batch_of(r, 2, 7);
  numbers_of(p, "g")[3] = 0.25;
  keeps(p, r, forward);
  rec_module_close(module);
}

int main(void) {
  check_type("f32");
  check_type("f64");
  check_type("bf16");
  check_unchecked();
  return checked();
}
