// Forward writes every byte of `saved`: two runs over memory with different contents leave the
// same, for batch entries, packed sequences and calls without steps. The second run has no room for
// outputs: nobody needs to want them. Takes about 10 s.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/raw_call.h"

static int64_t bytes_compared;

static void drop_outputs(const raw_call *x) {
  for (int i = 0; i < x->recurrence->signature.variable_count; i++)
    if (x->recurrence->signature.variables[i].kind == REC_OUTPUT)
      rec_set_pointer(x->arguments, x->recurrence->places[i].value.data, NULL);
}

static void compare(const rec_recurrence *r, int32_t device_kind, int64_t batch, int64_t time,
                    const int32_t *lengths, int64_t sequences) {
  raw_call *x = raw_call_new(r, device_kind, batch, time, lengths, sequences, 3);
  if (!x) return;
  size_t bytes = (size_t)x->sizes.saved, same = 0;
  char *first = malloc(bytes + 1), *saved = x->launch.saved;
  memset(saved, 0x55, bytes);
  bool ran = raw_run(x, r->forward);
  memcpy(first, saved, bytes);
  drop_outputs(x);
  memset(saved, 0xaa, bytes);
  memset(x->launch.workspace, 0xaa, (size_t)x->sizes.workspace);
  ran = ran && raw_run(x, r->forward);
  while (ran && same < bytes && first[same] == saved[same]) same++;
  if (ran)
    check(same == bytes,
          "%s on device %d, batch %lld, time %lld, %lld sequences: byte %zu of %zu was not written",
          r->symbol, device_kind, (long long)batch, (long long)x->time, (long long)sequences, same,
          bytes);
  bytes_compared += (int64_t)bytes;
  free(first);
  raw_call_free(x);
}

static void check_module(rec_module *module, const char *what, int32_t device_kind) {
  static const int32_t lengths[] = {0, 70, 1, 0, 3, 64, 129, 0}, equal[] = {64, 64, 64},
                       none[] = {0, 0}, single[] = {65}, alone[] = {5, 1100, 0};
  if (!check(module, "%s does not compile", what)) return;
  for (int i = 0; i < module->count; i++) {
    const rec_recurrence *r = rec_module_recurrence(module, i);
    compare(r, device_kind, 2, 70, NULL, 0);
    compare(r, device_kind, 1, 1, NULL, 0);
    compare(r, device_kind, 2, 0, NULL, 0);
    compare(r, device_kind, 1, 0, lengths, 8);
    compare(r, device_kind, 1, 0, equal, 3);
    compare(r, device_kind, 1, 0, none, 2);
    compare(r, device_kind, 1, 0, single, 1);
    if (device_kind == REC_DEVICE_HOST) compare(r, device_kind, 1, 0, alone, 3);
  }
  rec_module_close(module);
}

static const char *const programs[] = {
    "recurrence odd(N, M = N) {\n  input x[N], g\n  param w[N,M]\n  state S[N,M]\n  state h[N] : "
    "complex\n  output y[M]\n"
    "  S = sigmoid(g) * S[t-1] + x * w\n  h = 0.5 * h[t-1] + complex(x, g)\n  y = S[N = 0] + "
    "re(h)[N = 0] + x[t-3][N = 0]\n}\n",
    "recurrence late(D) {\n  input x[D]\n  state h[D]\n  output y[D]\n  h = 0.9 * h[t-1] + "
    "x[t-100]\n  y = h + x[t-300]\n}\n",
    "recurrence parts {\n  input x, g\n  state h\n  output y\n  h = sigmoid(g) * h[t-1] + x\n  y = "
    "h\n}\n"};

static void check_on_host(rec_module *module, const char *path) {
  check_module(module, path, REC_DEVICE_HOST);
}

int main(void) {
  static const char *const host[] = {"-O0", "--dtype", "f64", NULL}, *const gpu[] = {"-O0",
                                                                                     "--target",
                                                                                     "simt", NULL};
  static const char *const standard[] = {"-O0", "--target", "x86-64-v3", NULL};
  compile_standard_library(standard, check_on_host);
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    check_module(compile_text(programs[i], host), programs[i], REC_DEVICE_HOST);
    check_module(compile_text(programs[i], gpu), programs[i], REC_DEVICE_SIMT);
  }
  check_module(compile_file("stdlib/mlstm.rec", gpu), "mlstm for GPUs", REC_DEVICE_SIMT);
  check(bytes_compared > 1 << 20, "only %lld bytes compared", (long long)bytes_compared);
  return checked();
}
