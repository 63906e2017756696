// Whatever passes and choices recc --without leaves out, values and gradients are the
// interpreter's: on the host where the pass is one of the host's, else on the executor, with
// kernels for warpgroups and without.
//
//   without_test          a third of the words of --without, each for one recurrence in one type, which the seed says (20 s)
//   without_test full     all words for all recurrences
//   without_test WORD     a word for all of them
//   REC_SEED=N            the same draw again
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/runtime/compiled.h"
#include "tests/runtime/problem.h"

typedef struct subject {
  const char *path, *recurrence, *sizes[5];
} subject;

// Chunks with systems, scans, shared keys and outer products; steps with matrices; steps of
// threads.
static const subject subjects[] = {
    {"gated_deltanet", "gated_deltanet", {"H=1", "K=32", "V=64"}},
    {"mamba2", "ssd", {"G=1", "R=2", "P=32", "N=64"}},
    {"gla", "gla", {"H=1", "K=64", "V=64"}},
    {"mlstm", "mlstm", {"H=1", "K=32", "V=32"}},
    {"lstm", "lstm", {"D=32"}},
    {"lru", "lru", {"N=32"}},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static const char *const types[] = {"bf16", "f32"};

static void agree(const rec_recurrence *r, problem *inputs, const char *device, int32_t number,
                  agreement allowed, const char *what) {
  problem_draw(inputs, 7, 0.7);
  problem_retype(inputs, inputs->signature);
  agree_with_reference(inputs, r, device,
                       &(rec_run_options){.backward = true, .device_number = number}, allowed, "%s",
                       what);
}

static void run(const subject *s, const char *type, bool warpgroups, const char *word) {
  bool f32 = strcmp(type, "f32") == 0;
  char path[512], what[256];
  snprintf(path, sizeof path, REC_SOURCE_DIR "/stdlib/%s.rec", s->path);
  snprintf(what, sizeof what, "%s in %s without %s%s", s->recurrence, type, word,
           warpgroups ? ", warpgroups" : "");
  const char *words[24] = {"--target", warpgroups ? simt_90a_target() : simt_target(),
                           "-O0",      "--dtype",
                           type,       "--without",
                           word};
  int count = 7;
  for (int i = 0; i < 5 && s->sizes[i]; i++) words[count++] = "-D", words[count++] = s->sizes[i];
  rec_module *module = compile_file(path, words);
  if (!check(module, "%s does not compile", what)) return;
  const rec_recurrence *r = rec_module_find(module, s->recurrence);
  const rec_signature *signature = rec_recurrence_signature(r);
  agreement allowed = {1e-4, f32 ? 2e-5 : 6e-2, f32 ? 0x1p-24 : 0x1p-8};
  static const int32_t lengths[] = {0, 1, 64, 15};
  agree(r, problem_new(signature, 1, 130, 1), "simt", warpgroups ? 2 : 0, allowed, what);
  agree(r, problem_packed(signature, lengths, 4, 1), "simt", warpgroups ? 2 : 0, allowed, what);
  agree(r, problem_new(signature, 2, 70, 1), "host", 0, allowed, what);
  rec_module_close(module);
}

// The words, as recc lists them for a word that is none.
static const char *list_of_words(void) {
  static char text[4096];
  FILE *said = popen(REC_BINARY_DIR "/bin/recc --without=? 2>&1", "r");
  size_t length = said ? fread(text, 1, sizeof text - 1, said) : 0;
  if (said) pclose(said);
  text[length] = 0;
  char *begin = strstr(text, "a list of "), *end = strstr(text, ", found '?'");
  if (!begin || !end) return "";
  *end = 0;
  return begin + strlen("a list of ");
}

int main(int count, char **words) {
  bool full = count > 1 && strcmp(words[1], "full") == 0;
  const char *only = count > 1 && !full ? words[1] : NULL;
  uint64_t seed = chosen_seed(), draw = seed;
  printf("seed %llu\n", (unsigned long long)seed);
  char *list = strdup(list_of_words()), *rest = list;
  int seen = 0;
  for (char *word; (word = strtok_r(rest, ", ", &rest)); seen++) {
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    int drawn = (int)(draw >> 33) % (SUBJECTS * 4);
    for (int i = 0; i < SUBJECTS * 4; i++)
      if (only ? strcmp(word, only) == 0 : full || (i == drawn && (seed + (uint64_t)seen) % 3 == 0))
        run(&subjects[i / 4], types[i / 2 % 2], i % 2, word);
  }
  check(seen > 20, "recc lists %d words for --without", seen);
  free(list);
  return checked();
}
