// `rec apply` from the outside: what fits runs; what does not costs one line, exit status 2 and no
// output file.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/internal.h"
#include "tests/runtime/compiled.h"

extern char **environ;

static const char program[] =
    "recurrence small(G, N = 4) {\n"
    "  input x[G,N], dt[G]\n"
    "  param a[G]\n"
    "  state h[G,N]\n"
    "  output y[G]\n"
    "  h = sigmoid(a * dt) * h[t-1] + x - x[t-2]\n"
    "  y = sum[N](h)\n"
    "}\n"
    "\n"
    "recurrence turn(D, E = 2*D) {\n"
    "  input u[D], v[E]\n"
    "  state z[D] : complex\n"
    "  output w[D] : complex, r[E]\n"
    "  z = complex(0, 1) * z[t-1] + u\n"
    "  w = z\n"
    "  r = v\n"
    "}\n";

static char folder[] = "/tmp/apply_test.XXXXXX";
static char source_path[64], input_path[64], output_path[64], error_path[64];

// ---- Files -----------------------------------------------------------------------------------

enum { TENSOR_COUNT = 12, RANK = 5, BYTES = 4096 };

// A tensor of the input file; dtype REC_DTYPE_COUNT: not in the file.
typedef struct part {
  const char *name;
  rec_dtype dtype;
  int rank;
  int64_t shape[RANK];
} part;

static const part usual[] = {
    {"x", REC_F32, 4, {2, 3, 2, 4}}, {"dt", REC_F32, 3, {2, 3, 2}},          {"a", REC_F32, 1, {2}},
    {"h0.h", REC_F32, 3, {2, 2, 4}}, {"h0.x.lag", REC_F32, 4, {2, 2, 2, 4}},
};

// Writes the usual tensors with `changes` in place of those of the same name, or behind them.
static void write_input(const part *changes, int count) {
  static char bytes[BYTES];
  rec_tensor tensors[TENSOR_COUNT];
  int written = 0;
  for (int i = 0; i < 5 + count; i++) {
    const part *p = i < 5 ? &usual[i] : &changes[i - 5];
    for (int c = 0; i < 5 && c < count; c++) {
      if (strcmp(changes[c].name, p->name) == 0) p = NULL;
      if (!p) break;
    }
    if (!p || p->dtype == REC_DTYPE_COUNT) continue;
    tensors[written] = (rec_tensor){p->name, p->dtype, p->rank, p->shape, bytes, 0};
    tensors[written].bytes =
        (size_t)rec_tensor_elements(&tensors[written]) * rec_dtype_size(p->dtype);
    written++;
  }
  if (rec_file_write(input_path, tensors, written, NULL, 0)) abort();
}

// ---- Running ---------------------------------------------------------------------------------

static char error_text[4096];

// Runs `rec` with the words; its standard error goes to error_text. Returns the exit status.
static int run_rec(const char *const *words) {
  const char *list[32] = {REC_BINARY_DIR "/bin/rec"};
  for (int i = 0; words[i]; i++) list[i + 1] = words[i];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, error_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child;
  int status = -1;
  if (posix_spawn(&child, list[0], &actions, NULL, (char **)list, environ) ||
      waitpid(child, &status, 0) != child)
    abort();
  posix_spawn_file_actions_destroy(&actions);
  FILE *file = fopen(error_path, "r");
  size_t size = file ? fread(error_text, 1, sizeof error_text - 1, file) : 0;
  error_text[size] = '\0';
  if (file) fclose(file);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int apply(const char *name, const char *first, const char *second) {
  const char *words[] = {"apply",     source_path, name,        "--inputs", input_path, "--outputs",
                         output_path, "--device",  "reference", first,      second,     NULL};
  unlink(output_path);
  return run_rec(words);
}

static void refused(const char *what, int status, const char *message) {
  char line[4096];
  snprintf(line, sizeof line, "rec apply: %s\n", message);
  // Paths differ from run to run.
  char *place = strstr(line, "IN");
  if (place) {
    char tail[2048];
    snprintf(tail, sizeof tail, "%s", place + 2);
    snprintf(place, sizeof line - (size_t)(place - line), "%s%s", input_path, tail);
  }
  check(status == 2, "%s: exit status %d, expected 2", what, status);
  check(strcmp(error_text, line) == 0, "%s: expected\n  %sfound\n  %s", what, line, error_text);
  check(access(output_path, F_OK) != 0, "%s: there is an output file", what);
}

// ---- Tests -----------------------------------------------------------------------------------

typedef struct misfit {
  const char *what;
  part change;
  const char *option, *message;
} misfit;

static const misfit misfits[] = {
    {"an input is missing",
     {.name = "dt", .dtype = REC_DTYPE_COUNT},
     NULL,
     "IN: expected the input `dt`, F32 [B=2,T=3,G=2], found no such tensor"},
    {"a parameter is missing",
     {.name = "a", .dtype = REC_DTYPE_COUNT},
     NULL,
     "IN: expected the parameter `a`, F32 [G=2], found no such tensor"},
    {"a name is unknown",
     {"zeta", REC_F32, 1, {2}},
     NULL,
     "IN: expected tensors among x dt a h0.h h0.x.lag, found `zeta`"},
    {"an output is given",
     {"y", REC_F32, 3, {2, 3, 2}},
     NULL,
     "IN: expected tensors among x dt a h0.h h0.x.lag, found `y`"},
    {"a final state is given",
     {"hT.h", REC_F32, 3, {2, 2, 4}},
     NULL,
     "IN: expected tensors among x dt a h0.h h0.x.lag, found `hT.h`"},
    {"a gradient is given",
     {"d.x", REC_F32, 4, {2, 3, 2, 4}},
     "--backward",
     "IN: expected tensors among x dt a h0.h d.y h0.x.lag, found `d.x`"},
    {"a size at run time differs",
     {"dt", REC_F32, 3, {2, 3, 3}},
     NULL,
     "IN: `dt`: expected F32 [B=2,T=3,G=2], found F32 [2,3,3]"},
    {"a compiled size differs",
     {"x", REC_F32, 4, {2, 3, 2, 5}},
     NULL,
     "IN: `x`: expected F32 [B,T,G,N=4], found F32 [2,3,2,5]"},
    {"an axis is missing",
     {"x", REC_F32, 3, {3, 2, 4}},
     NULL,
     "IN: `x`: expected F32 [B,T,G,N=4], found F32 [3,2,4]"},
    {"a state has another batch",
     {"h0.h", REC_F32, 3, {1, 2, 4}},
     NULL,
     "IN: `h0.h`: expected F32 [B=2,G=2,N=4], found F32 [1,2,4]"},
    {"a lag buffer is too short",
     {"h0.x.lag", REC_F32, 4, {2, 1, 2, 4}},
     NULL,
     "IN: `h0.x.lag`: expected F32 [B=2,lag=2,G=2,N=4], found F32 [2,1,2,4]"},
    {"a wider type",
     {"x", REC_F64, 4, {2, 3, 2, 4}},
     NULL,
     "IN: `x`: expected F32 [B,T,G,N=4], found F64 [2,3,2,4]"},
    {"whole numbers", {"a", REC_I32, 1, {2}}, NULL, "IN: `a`: expected F32 [G=2], found I32 [2]"},
    {"a cotangent is missing",
     {.name = "h0.h", .dtype = REC_DTYPE_COUNT},
     "--backward",
     "IN: expected the cotangent `d.y`, F32 [B=2,T=3,G=2], found no such tensor"},
    {"a batch with packed sequences",
     {"cu_seqlens", REC_I32, 1, {3}},
     NULL,
     "IN: `x`: expected F32 [B=1,T,G,N=4], found F32 [2,3,2,4]"},
    {"offsets of another type",
     {"cu_seqlens", REC_I64, 1, {3}},
     NULL,
     "IN: `cu_seqlens`: expected I32 [sequences + 1], found I64 [3]"},
    {"no offsets",
     {"cu_seqlens", REC_I32, 1, {0}},
     NULL,
     "IN: `cu_seqlens`: expected I32 [sequences + 1], found I32 [0]"},
};

static void check_misfits(void) {
  for (size_t i = 0; i < sizeof misfits / sizeof *misfits; i++) {
    write_input(&misfits[i].change, 1);
    refused(misfits[i].what, apply("small", misfits[i].option, NULL), misfits[i].message);
  }
}

static void check_offsets(void) {
  const struct {
    int32_t offsets[4];
    const char *message;
  } lists[] = {
      {{1, 1, 2, 3}, "IN: `cu_seqlens`: expected a start at 0, found 1"},
      {{0, 2, 1, 3}, "IN: `cu_seqlens`: expected offsets that never fall, found 1 after 2"},
      {{0, 1, 2, 4}, "IN: `cu_seqlens`: expected an end at T=3, found 4"},
      {{0, -1, 2, 3}, "IN: `cu_seqlens`: expected offsets that never fall, found -1 after 0"}};
  float zeros[64] = {0};
  int64_t x[] = {1, 3, 2, 4}, dt[] = {1, 3, 2}, two = 2, four = 4;
  for (int i = 0; i < 4; i++) {
    rec_tensor tensors[] = {{"x", REC_F32, 4, x, zeros, 96},
                            {"dt", REC_F32, 3, dt, zeros, 24},
                            {"a", REC_F32, 1, &two, zeros, 8},
                            {"cu_seqlens", REC_I32, 1, &four, (void *)lists[i].offsets, 16}};
    if (rec_file_write(input_path, tensors, 4, NULL, 0)) abort();
    refused("offsets", apply("small", NULL, NULL), lists[i].message);
  }
}

static void check_words(void) {
  const char *unknown[] = {"apply",     source_path, "small",  "--inputs", input_path,
                           "--outputs", output_path, "--fast", NULL};
  const char *device[] = {"apply",     source_path, "small",    "--inputs", input_path,
                          "--outputs", output_path, "--device", "tpu",      NULL};
  const char *both[] = {"apply",     source_path, "small",  "--inputs",   input_path,
                        "--outputs", output_path, "--step", "--backward", NULL};
  const char *threads[] = {"apply",     source_path, "small",     "--inputs", input_path,
                           "--outputs", output_path, "--threads", "0",        NULL};
  const char *nothing[] = {"apply", NULL}, *command[] = {"aply", NULL};
  write_input(NULL, 0);
  refused("option", run_rec(unknown), "unknown option `--fast`; see `rec apply --help`");
  refused(
      "device", run_rec(device),
      "expected a device among host, reference, simt, cuda, found `tpu`; see `rec apply --help`");
  refused("step and backward", run_rec(both),
          "expected --step or --backward, found both; see `rec apply --help`");
  refused("threads", run_rec(threads),
          "expected a whole number from 1 after `--threads`, found `0`; see `rec apply --help`");
  refused("no words", run_rec(nothing), "expected FILE NAME; see `rec apply --help`");
  check(run_rec(command) == 2, "an unknown command is not refused");
  check(apply("large", NULL, NULL) == 2, "an unknown recurrence is not refused");
  char line[256];
  snprintf(line, sizeof line,
           "rec apply: %s: expected a recurrence among small, turn; found `large`\n", source_path);
  check(strcmp(error_text, line) == 0, "unknown recurrence: %s", error_text);
  unlink(input_path);
  check(apply("small", NULL, NULL) == 2 && strstr(error_text, "No such file or directory"),
        "no input: %s", error_text);
}

// A size that follows from another must be what the header says.
static void check_derived_size(void) {
  float zeros[64] = {0};
  int64_t u[] = {1, 2, 3}, v[] = {1, 2, 5};
  rec_tensor tensors[] = {{"u", REC_F32, 3, u, zeros, 24}, {"v", REC_F32, 3, v, zeros, 40}};
  if (rec_file_write(input_path, tensors, 2, NULL, 0)) abort();
  refused("derived size", apply("turn", NULL, NULL), "turn: expected E = 2 * D, found 5");
}

static bool has_shape(const rec_file *file, const char *name, rec_dtype dtype, int rank,
                      const int64_t *shape) {
  const rec_tensor *t = rec_file_find(file, name);
  bool same = t && t->dtype == dtype && t->rank == rank;
  for (int i = 0; same && i < rank; i++) same = t->shape[i] == shape[i];
  return same;
}

// T = 0 and B = 0 are legal, and the state of no steps is the state before them.
static void check_empty(void) {
  float zeros[4] = {0}, state[16], lag[32];
  for (int i = 0; i < 16; i++) state[i] = (float)i;
  for (int i = 0; i < 32; i++) lag[i] = (float)-i;
  int64_t x[] = {2, 0, 2, 4}, dt[] = {2, 0, 2}, two = 2, h[] = {2, 2, 4}, l[] = {2, 2, 2, 4};
  rec_tensor tensors[] = {{"x", REC_F32, 4, x, zeros, 0},
                          {"dt", REC_F32, 3, dt, zeros, 0},
                          {"a", REC_F32, 1, &two, zeros, 8},
                          {"h0.h", REC_F32, 3, h, state, sizeof state},
                          {"h0.x.lag", REC_F32, 4, l, lag, sizeof lag},
                          {"d.y", REC_F32, 3, dt, zeros, 0}};
  if (rec_file_write(input_path, tensors, 6, NULL, 0)) abort();
  check(apply("small", "--backward", NULL) == 0, "T = 0: %s", error_text);
  rec_file *file;
  if (!check(!rec_file_open(output_path, &file), "T = 0: %s", rec_message())) return;
  check(has_shape(file, "y", REC_F32, 3, dt), "T = 0: y");
  check(has_shape(file, "hT.h", REC_F32, 3, h) &&
            memcmp(rec_file_find(file, "hT.h")->data, state, sizeof state) == 0,
        "T = 0: hT.h");
  check(has_shape(file, "hT.x.lag", REC_F32, 4, l) &&
            memcmp(rec_file_find(file, "hT.x.lag")->data, lag, sizeof lag) == 0,
        "T = 0: hT.x.lag");
  check(has_shape(file, "d.a", REC_F32, 1, &two), "T = 0: d.a");
  check(has_shape(file, "d.h0.x.lag", REC_F32, 4, l), "T = 0: d.h0.x.lag");
  check(rec_file_count(file) == 8, "T = 0: %d tensors", rec_file_count(file));
  rec_file_close(file);
  const part none[] = {{"x", REC_F32, 4, {0, 3, 2, 4}},
                       {"dt", REC_F32, 3, {0, 3, 2}},
                       {"h0.h", REC_F32, 3, {0, 2, 4}},
                       {.name = "h0.x.lag", .dtype = REC_DTYPE_COUNT},
                       {"d.y", REC_F32, 3, {0, 3, 2}}};
  write_input(none, 5);
  check(apply("small", "--backward", NULL) == 0, "B = 0: %s", error_text);
}

// d.* are ignored without --backward, even nonsense; narrower types are widened; f64 writes F64; a
// complex axis is 2.
static void check_types(void) {
  const part loose[] = {
      {"x", REC_BF16, 4, {2, 3, 2, 4}}, {"dt", REC_F16, 3, {2, 3, 2}}, {"d.q", REC_I64, 2, {3, 3}}};
  write_input(loose, 3);
  check(apply("small", NULL, NULL) == 0, "widening: %s", error_text);
  check(apply("small", "--dtype", "f64") == 0, "f64: %s", error_text);
  rec_file *file;
  int64_t y[] = {2, 3, 2};
  if (check(!rec_file_open(output_path, &file), "f64: %s", rec_message())) {
    check(has_shape(file, "y", REC_F64, 3, y), "f64: y");
    rec_file_close(file);
  }
  float u[] = {1, 0, 0}, v[6] = {0}, h[] = {0, 1};
  int64_t us[] = {1, 3, 1}, vs[] = {1, 3, 2}, hs[] = {1, 1, 2}, ws[] = {1, 3, 1, 2};
  rec_tensor tensors[] = {{"u", REC_F32, 3, us, u, sizeof u},
                          {"v", REC_F32, 3, vs, v, sizeof v},
                          {"h0.z", REC_F32, 3, hs, h, sizeof h}};
  if (rec_file_write(input_path, tensors, 3, NULL, 0)) abort();
  check(apply("turn", NULL, NULL) == 0, "complex: %s", error_text);
  if (!check(!rec_file_open(output_path, &file), "complex: %s", rec_message())) return;
  // i * (i) + 1 = 0, then 0, then 0.
  const rec_tensor *w = rec_file_find(file, "w");
  check(has_shape(file, "w", REC_F32, 4, ws), "complex: w");
  for (int i = 0; w && i < 6; i++) check(((const float *)w->data)[i] == 0, "complex: w[%d]", i);
  rec_file_close(file);
}

// Tokens and their gradients in bf16, everything else F32; a wider or another token is refused.
static void check_narrow_types(void) {
  const part bf16[] = {{"x", REC_BF16, 4, {2, 3, 2, 4}},
                       {"dt", REC_BF16, 3, {2, 3, 2}},
                       {"h0.h", REC_F16, 3, {2, 2, 4}},
                       {"d.y", REC_BF16, 3, {2, 3, 2}}};
  const int64_t y[] = {2, 3, 2}, x[] = {2, 3, 2, 4}, h[] = {2, 2, 4}, two = 2;
  static const char *const devices[] = {"reference", "host", "simt"};
  for (int i = 0; i < 3; i++) {
    const char *words[] = {"apply",     source_path,  "small",    "--inputs", input_path,
                           "--outputs", output_path,  "--device", devices[i], "--dtype",
                           "bf16",      "--backward", NULL};
    write_input(bf16, 4);
    unlink(output_path);
    check(run_rec(words) == 0, "bf16 on %s: %s", devices[i], error_text);
    rec_file *file;
    if (!check(!rec_file_open(output_path, &file), "bf16: %s", rec_message())) continue;
    check(has_shape(file, "y", REC_BF16, 3, y), "bf16 on %s: y", devices[i]);
    check(has_shape(file, "d.x", REC_BF16, 4, x), "bf16 on %s: d.x", devices[i]);
    check(has_shape(file, "hT.h", REC_F32, 3, h), "bf16 on %s: hT.h", devices[i]);
    check(has_shape(file, "d.a", REC_F32, 1, &two), "bf16 on %s: d.a", devices[i]);
    rec_file_close(file);
  }
  write_input(NULL, 0);
  refused("wide tokens", apply("small", "--dtype", "bf16"),
          "IN: `x`: expected BF16 [B,T,G,N=4], found F32 [2,3,2,4]");
  write_input(bf16, 3);
  refused("other tokens", apply("small", "--dtype", "f16"),
          "IN: `x`: expected F16 [B,T,G,N=4], found BF16 [2,3,2,4]");
}

// GPU code runs on the executor; a library without it is compiled again.
static void check_simt(void) {
  const part doubles[] = {{"x", REC_F64, 4, {2, 3, 2, 4}},
                          {"dt", REC_F64, 3, {2, 3, 2}},
                          {"a", REC_F64, 1, {2}},
                          {"h0.h", REC_F64, 3, {2, 2, 4}},
                          {"h0.x.lag", REC_F64, 4, {2, 2, 2, 4}}};
  const char *f64[] = {"apply",     source_path, "small", "--inputs", input_path, "--outputs",
                       output_path, "--device",  "simt",  "--dtype",  "f64",      NULL};
  unlink(output_path);
  write_input(doubles, 5);
  refused("f64 on a GPU", run_rec(f64),
          "small: expected a library of f32, bf16 or f16 for the device `simt`, found f64");
  char library[80], header[80];
  snprintf(library, sizeof library, "%s/small.so", folder);
  snprintf(header, sizeof header, "%s/small.h", folder);
  const char *words[] = {"apply",     library,     "small",    "--inputs", input_path,
                         "--outputs", output_path, "--device", "simt",     NULL};
  write_input(NULL, 0);
  pid_t child;
  const char *recc[] = {REC_BINARY_DIR "/bin/recc", source_path, "-o", library, NULL};
  int status = -1;
  if (posix_spawn(&child, recc[0], NULL, NULL, (char **)recc, environ) ||
      waitpid(child, &status, 0) != child)
    abort();
  check(status == 0, "recc failed");
  check(run_rec(words) == 0, "a library without GPU code on simt: %s", error_text);
  check(unlink(output_path) == 0 && unlink(library) == 0 && unlink(header) == 0,
        "files of a library are missing");
}

// An output file that stands already is left alone by a run that fails.
static void check_old_output(void) {
  const part wrong = {"a", REC_F32, 1, {3}};
  write_input(&wrong, 1);
  FILE *file = fopen(output_path, "w");
  if (!file || fputs("old", file) < 0 || fclose(file)) abort();
  const char *words[] = {"apply",     source_path, "small",     "--inputs", input_path, "--outputs",
                         output_path, "--device",  "reference", "--again",  NULL};
  check(run_rec(words) == 2, "a misfit is not refused");
  char text[8] = "";
  file = fopen(output_path, "r");
  check(file && fgets(text, sizeof text, file) && strcmp(text, "old") == 0,
        "an old output file was touched");
  if (file) fclose(file);
  unlink(output_path);
}

// ---- Compiling on the fly --------------------------------------------------------------------

static char beside_path[64], recc_path[64], temporary_path[64];

static void copy_program(const char *from, const char *to) {
  int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
  char bytes[65536];
  ssize_t size;
  if (in < 0 || out < 0) abort();
  while ((size = read(in, bytes, sizeof bytes)) > 0)
    if (write(out, bytes, (size_t)size) != size) abort();
  close(in);
  close(out);
}

static int entries_of(const char *path) {
  int count = 0;
  DIR *list = opendir(path);
  for (struct dirent *entry; list && (entry = readdir(list));) count += entry->d_name[0] != '.';
  if (list) closedir(list);
  return count;
}

static pid_t start_beside(const char *script) {
  FILE *file = fopen(recc_path, "w");
  if (!file || fputs(script, file) < 0 || fclose(file) || chmod(recc_path, 0700)) abort();
  const char *list[] = {beside_path, "apply",     source_path, "small", "--inputs",
                        input_path,  "--outputs", output_path, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 2, error_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  setenv("TMPDIR", temporary_path, 1);
  // Whoever runs the tests in the background may have them ignore SIGINT.
  posix_spawnattr_t attributes;
  sigset_t every;
  sigfillset(&every);
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigdefault(&attributes, &every);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t child;
  if (posix_spawn(&child, list[0], &actions, &attributes, (char **)list, environ)) abort();
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return child;
}

// The folder that a .rec file is compiled in goes: on success, on errors, on signals.
static void check_temporary_folder(void) {
  snprintf(beside_path, sizeof beside_path, "%s/rec", folder);
  snprintf(recc_path, sizeof recc_path, "%s/recc", folder);
  snprintf(temporary_path, sizeof temporary_path, "%s/tmp", folder);
  copy_program(REC_BINARY_DIR "/bin/rec", beside_path);
  mkdir(temporary_path, 0700);
  write_input(NULL, 0);
  int status;
  waitpid(start_beside("#!/bin/sh\necho no >\"$3\".part; exit 3\n"), &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 2, "a failure of recc is not refused");
  check(entries_of(temporary_path) == 0, "a failure of recc leaves files");
  waitpid(start_beside("#!/bin/sh\necho no library >\"$3\"\n"), &status, 0);
  check(WIFEXITED(status) && WEXITSTATUS(status) == 2, "a file that is no library is not refused");
  check(entries_of(temporary_path) == 0, "a library that does not load leaves files");
  const int signals[] = {SIGTERM, SIGINT, SIGHUP};
  for (int i = 0; i < 3; i++) {
    pid_t child = start_beside("#!/bin/sh\necho part >\"$3\".part; exec sleep 20\n");
    for (int wait = 0; wait < 1000 && entries_of(temporary_path) == 0; wait++) usleep(5000);
    usleep(20000);
    kill(child, signals[i]);
    waitpid(child, &status, 0);
    check(WIFSIGNALED(status) && WTERMSIG(status) == signals[i],
          "signal %d did not end the program", signals[i]);
    check(entries_of(temporary_path) == 0, "signal %d leaves files", signals[i]);
  }
  unsetenv("TMPDIR");
  unlink(beside_path);
  unlink(recc_path);
  rmdir(temporary_path);
}

static void check_bad_program(void) {
  FILE *file = fopen(source_path, "w");
  if (!file || fputs("recurrence small(G) { input x[G] output y[G] y = z }\n", file) < 0 ||
      fclose(file))
    abort();
  write_input(NULL, 0);
  check(apply("small", NULL, NULL) == 2, "a program with errors is not refused");
  check(strstr(error_text, ":1:") && strstr(error_text, "error:"), "a program with errors: %s",
        error_text);
}

int main(void) {
  if (!mkdtemp(folder)) return 1;
  snprintf(source_path, sizeof source_path, "%s/small.rec", folder);
  snprintf(input_path, sizeof input_path, "%s/in", folder);
  snprintf(output_path, sizeof output_path, "%s/out", folder);
  snprintf(error_path, sizeof error_path, "%s/err", folder);
  FILE *file = fopen(source_path, "w");
  if (!file || fputs(program, file) < 0 || fclose(file)) return 1;
  check_misfits();
  check_offsets();
  check_words();
  check_derived_size();
  check_empty();
  check_types();
  check_narrow_types();
  check_simt();
  check_old_output();
  check_temporary_folder();
  check_bad_program();
  const char *const paths[] = {source_path, input_path, output_path, error_path};
  for (int i = 0; i < 4; i++) unlink(paths[i]);
  check(rmdir(folder) == 0, "files were left behind");
  return checked();
}
