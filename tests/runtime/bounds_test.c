// Packed calls read and write nothing outside of their tensors, and need no more workspace and
// saved states than they said. All memory ends at a page that must not be touched. About 6 seconds.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/device.h"
#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

// Bytes that end with a page, but for REC_ALIGNMENT. All of them live until the call is over.
enum { PIECES_MAX = 256 };
static struct {
  void *start;
  size_t size;
} pieces[PIECES_MAX];
static int piece_count;

static void *guarded(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), inside = (bytes + page - 1) / page * page;
  char *all = mmap(NULL, inside + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED || piece_count == PIECES_MAX) abort();
  mprotect(all + page, inside, PROT_READ | PROT_WRITE);
  memset(all + page, 0x7f, inside);
  pieces[piece_count].start = all;
  pieces[piece_count++].size = inside + 2 * page;
  size_t rounded = (bytes + REC_ALIGNMENT - 1) / REC_ALIGNMENT * REC_ALIGNMENT;
  return all + page + inside - rounded;
}

static void free_pieces(void) {
  while (piece_count > 0) {
    piece_count--;
    munmap(pieces[piece_count].start, pieces[piece_count].size);
  }
}

static void *guarded_floats(const double *numbers, int64_t count) {
  float *copy = guarded((size_t)count * sizeof *copy);
  for (int64_t i = 0; i < count; i++) copy[i] = numbers ? (float)numbers[i] : 0;
  return copy;
}

static bool launch(rec_host_session *session, bool recompute) {
  rec_sizes sizes = {.size = sizeof sizes};
  const rec_recurrence *r = session->recurrence;
  if (r->sizes(session->arguments, &sizes)) return false;
  free(session->launch.workspace);
  free(session->launch.saved);
  session->launch.saved_bytes = sizes.saved;
  session->launch.saved = recompute ? NULL : guarded((size_t)sizes.saved);
  session->launch.workspace_bytes = sizes.workspace_forward;
  session->launch.workspace = guarded((size_t)sizes.workspace_forward);
  bool good = !rec_host_forward(session);
  int64_t bytes = recompute ? sizes.workspace_backward_recompute : sizes.workspace_backward;
  session->launch.workspace_bytes = bytes;
  session->launch.workspace = guarded((size_t)bytes);
  good = good && !rec_host_backward(session);
  session->launch.workspace = session->launch.saved = NULL;
  return good;
}

static void run(const rec_recurrence *r, const int32_t *lengths, int64_t count, int64_t size,
                bool recompute) {
  const rec_signature *s = rec_recurrence_signature(r);
  problem *p = problem_packed(s, lengths, count, size);
  problem_draw(p, 1, 0.7);
  rec_call call = {.batch = 1,
                   .time = p->time,
                   .sequences = count,
                   .cu_seqlens = p->cu_seqlens,
                   .axis_sizes = p->axis_sizes};
  void **all = rec_call_tables(s, &call);
  if (!all) abort();
  for (int i = 0; i < s->variable_count; i++) {
    int64_t numbers = problem_numbers(p, i);
    call.value[i] = guarded_floats(p->value[i], numbers);
    call.gradient[i] = guarded_floats(p->gradient[i], numbers);
    if (!is_carried(&s->variables[i])) continue;
    call.final[i] = guarded_floats(NULL, numbers);
    call.d_final[i] = guarded_floats(p->d_final[i], numbers);
  }
  rec_host_session session;
  rec_run_options options = {.backward = true, .recompute = recompute, .threads = 2};
  bool good = !rec_host_open(r, &call, &options, &session) && launch(&session, recompute);
  check(good, "%s, %d sequences: %s", s->name, (int)count, rec_message());
  rec_host_close(&session);
  free_pieces();
  free(all);
  problem_free(p);
}

static void check_program(const char *path, int64_t size) {
  static const int32_t one[] = {3, 1100, 0, 5, 64}, two[] = {1024, 0, 1, 1500, 70, 0},
                       most[] = {4000, 1}, last[] = {1, 2, 3, 40, 2500, 16, 17};
  int32_t many[200];
  for (int i = 0; i < 200; i++) many[i] = i % 4;
  char file[512];
  snprintf(file, sizeof file, REC_SOURCE_DIR "/tests/%s.rec", path);
  rec_module *module = compile_file(file, NULL);
  if (!check(module, "%s does not compile", path)) return;
  const rec_recurrence *r = rec_module_recurrence(module, 0);
  for (int recompute = 0; recompute < 2; recompute++) {
    run(r, one, 5, size, recompute);
    run(r, two, 6, size, recompute);
    run(r, most, 2, size, recompute);
    run(r, last, 7, size, recompute);
    run(r, many, 200, size, recompute);
    run(r, one, 1, size, recompute);
  }
  rec_module_close(module);
}

int main(void) {
  check_program("golden/mingru", 19);
  check_program("golden/gla", 1);
  check_program("golden/gla", 5);
  check_program("golden/mamba1", 17);
  check_program("golden/mamba2", 3);
  check_program("golden/gated_deltanet", 3);
  check_program("runtime/programs/mlstm", 3);
  check_program("runtime/programs/two_taps", 5);
  return checked();
}
