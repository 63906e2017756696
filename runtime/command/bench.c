// rec bench: how fast a recurrence runs, beside what this machine could do.
//
// Machine and recurrence are measured in turns, because a machine's speed drifts: peak, forward,
// backward, peak, .. Each fraction is the median over the turns of (limit in this turn / time in
// this turn).
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/json.h"
#include "runtime/command/command.h"
#include "runtime/device.h"
#include "runtime/front.h"
#include "runtime/limit.h"
#include "runtime/machine.h"
#include "runtime/train/model/weights.h"

enum { ROUNDS_LEAST = 9, ROUNDS_MOST = 199 };

typedef struct bench {
  module_request module;
  int64_t time, batch, rounds;
  int threads;
  bool forward_only, json;
  const char *target;  // of --device simt; NULL: sm_80
  void *summary[2];    // of a segment, backward; NULL: the library has none
  const rec_recurrence *recurrence;
  const rec_signature *signature;
  int64_t *axis_sizes;
  rec_call call;
  double forward_fma;  // multiply-adds of one forward, at least
  double forward_bytes;
} bench;

// Medians of one bench.
typedef struct figures {
  double peak, bandwidth;
  double forward, saving, backward, both, step;  // seconds
  double forward_limit, forward_fraction, both_fraction, ratio;
  double summary[2], summary_share[2];  // of the forward that saves, and of the backward
  // The least of all turns: other programs only add to it.
  double least_forward, least_saving, least_backward;
} figures;

// ---- Sizes and tensors -----------------------------------------------------------------------

// Where the size of an axis stands in `N=16`, or in `ssd.N=16` for the recurrence `name`: NULL if
// it is of another.
static const char *size_in_define(const char *define, const char *name, const char *axis) {
  const char *equals = strchr(define, '='), *dot = strchr(define, '.');
  size_t length = strlen(name);
  if (dot && equals && dot < equals) {
    if ((size_t)(dot - define) != length || strncmp(define, name, length) != 0) return NULL;
    define = dot + 1;
  }
  length = strlen(axis);
  bool same = equals && (size_t)(equals - define) == length && !strncmp(define, axis, length);
  return same ? equals + 1 : NULL;
}

// `-D G=4` or `-D ssd.G=4` for an axis of this recurrence; the last one counts.
static int64_t defined_size(const bench *b, const char *axis) {
  for (int i = b->module.define_count - 1; i >= 0; i--) {
    const char *size = size_in_define(b->module.defines[i], b->signature->name, axis);
    if (size) return strtoll(size, NULL, 10);
  }
  return -1;
}

// Is there an axis that it sizes? A library that fixes another size is not made again: it is what
// is measured.
static int check_define(const bench *b, const rec_module *module, const char *define) {
  bool known = false;
  for (int i = 0; i < rec_module_count(module); i++) {
    const rec_signature *s = rec_recurrence_signature(rec_module_recurrence(module, i));
    for (int k = 0; k < s->axis_count; k++) {
      const char *size = size_in_define(define, s->name, s->axes[k].name);
      if (!size) continue;
      known = true;
      char *end;
      long long found = strtoll(size, &end, 10);
      if (end == size || *end || found < 1) {
        fprintf(stderr, "rec bench: expected -D %s=SIZE, found `-D %s`\n", s->axes[k].name, define);
        return EXIT_USAGE;
      }
      if (s != b->signature || s->axes[k].size < 0 || s->axes[k].size == found) continue;
      fprintf(stderr,
              "rec bench: %s: expected the size %lld for the axis %s, which %s fixes, found %lld; "
              "compile it with recc -D %s=%lld, or measure its .rec file\n",
              s->name, (long long)s->axes[k].size, s->axes[k].name, b->module.file, found,
              s->axes[k].name, found);
      return EXIT_USAGE;
    }
  }
  if (known) return 0;
  fprintf(stderr, "rec bench: %s: expected -D AXIS=SIZE of an axis of %s, found `-D %s`; there are",
          b->module.file, b->signature->name, define);
  for (int k = 0; k < b->signature->axis_count; k++)
    fprintf(stderr, " %s", b->signature->axes[k].name);
  fprintf(stderr, "\n");
  return EXIT_USAGE;
}

// Those of a .rec file were recc's, and are checked.
static int check_defines(const bench *b, const rec_module *module) {
  bool compiled = !is_source(b->module.file);
  int status = 0;
  for (int i = 0; i < b->module.define_count && compiled && !status; i++)
    status = check_define(b, module, b->module.defines[i]);
  return status;
}

static int choose_bench_sizes(bench *b) {
  b->axis_sizes = calloc((size_t)b->signature->axis_count + 1, sizeof *b->axis_sizes);
  if (!b->axis_sizes) return EXIT_USAGE;
  const recurrence *program;
  if (rec_program_of(b->recurrence, &program)) return report_failure("bench");
  for (int i = 0; i < b->signature->axis_count; i++) {
    const rec_axis *axis = &b->signature->axes[i];
    int64_t size = axis->size >= 0 ? axis->size : defined_size(b, axis->name);
    if (size < 0 && axis->expression) rec_front_size(program, i, b->axis_sizes, &size);
    if (size <= 0) {
      fprintf(stderr, "rec bench: %s: expected a size for the axis %s; give one by -D %s=..\n",
              b->signature->name, axis->name, axis->name);
      return EXIT_USAGE;
    }
    b->axis_sizes[i] = size;
  }
  b->forward_fma = rec_limit_forward(program, b->axis_sizes) * (double)(b->time * b->batch);
  return 0;
}

// Small numbers of both signs, the same in each run.
static void draw_bench_tensor(char *buffer, rec_dtype type, int64_t numbers, uint64_t *state) {
  for (int64_t i = 0; i < numbers; i++) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    double value = (double)(*state >> 40) * 0x1p-23 - 1;
    rec_convert(buffer + (size_t)i * rec_dtype_size(type), type, &value, REC_F64, 1);
  }
}

static void *make_bench_tensor(const bench *b, int variable, uint64_t *state) {
  rec_dtype type = rec_compiled_type(b->signature, &b->signature->variables[variable]);
  int64_t numbers;
  if (!rec_call_numbers(b->signature, variable, &b->call, &numbers)) return NULL;
  char *buffer = rec_numbers_new(numbers * (int64_t)rec_dtype_size(type));
  if (buffer) draw_bench_tensor(buffer, type, numbers, state);
  return buffer;
}

// Parameters as the program starts them: how fast states decay may decide how fast kernels are.
static rec_status start_bench_parameters(bench *b) {
  const cJSON *tensors = json_get(b->recurrence->json, "tensors");
  const numeric *n = b->signature->carried_type == REC_F64 ? &numeric_f64 : &numeric_f32;
  rec_status status = REC_OK;
  for (int i = 0; !status && i < b->signature->variable_count; i++) {
    const cJSON *draw = json_get(cJSON_GetArrayItem(tensors, i), "draw");
    if (draw && !cJSON_IsNull(draw))
      status = parameter_start(b->signature, i, draw, b->axis_sizes, n, b->call.value[i]);
  }
  return status;
}

static bool make_call(bench *b) {
  int count = b->signature->variable_count;
  uint64_t state = 1;
  b->call = (rec_call){.batch = b->batch, .time = b->time, .axis_sizes = b->axis_sizes};
  if (!rec_call_tables(b->signature, &b->call)) return false;
  for (int i = 0; i < count; i++) {
    const rec_variable *v = &b->signature->variables[i];
    bool carried = rec_is_carried(v);
    void **kept = carried ? &b->call.final[i] : &b->call.value[i];
    *kept = make_bench_tensor(b, i, &state);
    if (!*kept || !(b->call.gradient[i] = make_bench_tensor(b, i, &state))) return false;
    if (!rec_is_token(v)) continue;
    b->forward_bytes += (double)rec_variable_numbers(b->signature, i, b->axis_sizes) *
                        (double)(b->time * b->batch) *
                        (double)rec_dtype_size(b->signature->token_type);
  }
  return true;
}

static void free_call(bench *b) {
  for (int i = 0; b->call.value && i < 4 * b->signature->variable_count; i++)
    free(b->call.value[i]);
  free(b->call.value);
  free(b->summary[false]);
  free(b->summary[true]);
  free(b->axis_sizes);
}

// ---- Measuring -------------------------------------------------------------------------------

typedef struct turns {
  double peak[ROUNDS_MOST], scratch[ROUNDS_MOST];
  double forward[ROUNDS_MOST];  // alone, as in generation
  double saving[ROUNDS_MOST];   // forward that keeps the chunk-start states for backward
  double backward[ROUNDS_MOST];
  double summary[2][ROUNDS_MOST];
  int count;
} turns;

static int compare_doubles(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(turns *t, const double *list) {
  memcpy(t->scratch, list, (size_t)t->count * sizeof *list);
  qsort(t->scratch, (size_t)t->count, sizeof *list, compare_doubles);
  return t->count % 2 ? t->scratch[t->count / 2]
                      : (t->scratch[t->count / 2 - 1] + t->scratch[t->count / 2]) / 2;
}

// Makes room for the summaries that the library writes.
static rec_status take_summaries(bench *b, const rec_host_session *s) {
  rec_sizes sizes = {.size = sizeof sizes};
  rec_status status = rec_library_answer(b->recurrence, b->recurrence->sizes(s->arguments, &sizes));
  int64_t bytes[2] = {sizes.summary, sizes.summary_backward};
  for (int back = 0; back < 2 && !status; back++)
    if (bytes[back] && !(b->summary[back] = rec_numbers_new(bytes[back]))) status = rec_no_memory();
  return status;
}

static double least_time(const turns *t, const double *list) {
  double found = INFINITY;
  for (int i = 0; i < t->count; i++) found = fmin(found, list[i]);
  return found;
}

// The time of one run; short ones are repeated until there is something to measure.
static rec_status time_run(const bench *b, const rec_host_session *s,
                           rec_status (*run)(const bench *, const rec_host_session *),
                           double *seconds) {
  double begin = rec_seconds(b->threads), end = begin;
  int64_t runs = 0;
  while (end - begin < 0.004) {
    rec_status status = run(b, s);
    if (status) return status;
    runs++;
    end = rec_seconds(b->threads);
  }
  *seconds = (end - begin) / (double)runs;
  return REC_OK;
}

static rec_status bench_forward(const bench *b, const rec_host_session *s) {
  return (void)b, rec_host_forward(s);
}
static rec_status bench_backward(const bench *b, const rec_host_session *s) {
  return (void)b, rec_host_backward(s);
}
static rec_status bench_step(const bench *b, const rec_host_session *s) {
  return (void)b, rec_host_step(s);
}

static rec_status run_summary(const bench *b, const rec_host_session *s) {
  return rec_library_answer(b->recurrence,
                            b->recurrence->summary(s->arguments, &s->launch, b->summary[false]));
}

static rec_status run_summary_backward(const bench *b, const rec_host_session *s) {
  return rec_library_answer(
      b->recurrence, b->recurrence->summary_backward(s->arguments, &s->launch, b->summary[true]));
}

// `training` is a session of its own, NULL for forward alone.
static rec_status take_turn(const bench *b, const rec_host_session *alone,
                            const rec_host_session *training, turns *t) {
  int i = t->count++;
  t->peak[i] = rec_machine_peak(b->threads, 0.02);
  rec_status status = time_run(b, alone, bench_forward, &t->forward[i]);
  if (!status && b->summary[false]) status = time_run(b, alone, run_summary, &t->summary[false][i]);
  if (!status && training) status = time_run(b, training, bench_forward, &t->saving[i]);
  if (!status && training) status = time_run(b, training, bench_backward, &t->backward[i]);
  if (!status && training && b->summary[true])
    status = time_run(b, training, run_summary_backward, &t->summary[true][i]);
  return status;
}

// What the arithmetic alone takes: for the recurrences of the field, memory takes less.
static double forward_limit(const bench *b, double peak) { return 2 * b->forward_fma / peak; }

// What a summary takes of the pass that it stands for.
static void summarize_segments(turns *t, figures *f) {
  double shares[ROUNDS_MOST];
  for (int back = 0; back < 2; back++) {
    for (int i = 0; i < t->count; i++)
      shares[i] = t->summary[back][i] / (back ? t->backward[i] : t->forward[i]);
    f->summary[back] = median(t, t->summary[back]);
    f->summary_share[back] = median(t, shares);
  }
}

static void summarize(const bench *b, turns *t, figures *f) {
  double fractions[ROUNDS_MOST], both_fractions[ROUNDS_MOST], ratios[ROUNDS_MOST],
      both[ROUNDS_MOST];
  double scale = rec_dtype_size(b->signature->carried_type) == 8 ? 2 : 1;  // half as many lanes
  for (int i = 0; i < t->count; i++) {
    double limit = scale * forward_limit(b, t->peak[i]);
    both[i] = t->saving[i] + t->backward[i];
    fractions[i] = limit / t->forward[i];
    both_fractions[i] = REC_LIMIT_BOTH * limit / both[i];
    ratios[i] = both[i] / t->forward[i];
  }
  f->peak = median(t, t->peak);
  f->forward = median(t, t->forward);
  f->saving = median(t, t->saving);
  f->backward = median(t, t->backward);
  f->least_forward = least_time(t, t->forward);
  f->least_saving = least_time(t, t->saving);
  f->least_backward = least_time(t, t->backward);
  f->both = median(t, both);
  f->forward_fraction = median(t, fractions);
  f->both_fraction = median(t, both_fractions);
  f->ratio = median(t, ratios);
  f->forward_limit = scale * forward_limit(b, f->peak);
  summarize_segments(t, f);
}

static rec_status measure_step(const bench *b, figures *f) {
  rec_call one = b->call;
  one.time = 1;
  rec_host_session s;
  rec_run_options options = {.threads = b->threads};
  rec_status status = rec_host_open(b->recurrence, &one, &options, &s);
  if (status) return status;
  turns t = {0};
  for (; t.count < ROUNDS_LEAST && !status; t.count++)
    status = time_run(b, &s, bench_step, &t.forward[t.count]);
  f->step = median(&t, t.forward);
  rec_host_close(&s);
  return status;
}

static rec_status take_turns(const bench *b, const rec_host_session *alone,
                             const rec_host_session *training, turns *t) {
  rec_status status = take_turn(b, alone, training, t);  // the first one finds everything cold
  t->count = 0;
  double begin = rec_seconds(0);
  int64_t most = b->rounds > 0 ? b->rounds : ROUNDS_MOST;
  while (!status && t->count < most &&
         (t->count < ROUNDS_LEAST || b->rounds > 0 || rec_seconds(0) - begin < 2))
    status = take_turn(b, alone, training, t);
  return status;
}

static rec_status measure_figures(bench *b, figures *f) {
  static turns t;
  rec_host_session alone, training;
  rec_run_options options = {.threads = b->threads};
  f->bandwidth = rec_machine_bandwidth(b->threads);
  rec_status status = rec_host_open(b->recurrence, &b->call, &options, &alone);
  if (status) return status;
  if (b->recurrence->summary) status = take_summaries(b, &alone);
  options.backward = true;
  if (!status && !b->forward_only)
    status = rec_host_open(b->recurrence, &b->call, &options, &training);
  if (!status) {
    status = take_turns(b, &alone, b->forward_only ? NULL : &training, &t);
    if (!b->forward_only) rec_host_close(&training);
  }
  rec_host_close(&alone);
  if (status) return status;
  summarize(b, &t, f);
  return measure_step(b, f);
}

// ---- Showing ---------------------------------------------------------------------------------

static void show_text(const bench *b, const figures *f) {
  double tokens = (double)(b->time * b->batch);
  printf(
      "machine             %d thread(s): %.1f GFLOP/s multiply-add (%d bit, f32), %.1f GB/s read\n",
      b->threads, f->peak / 1e9, rec_machine_vector_bits(), f->bandwidth / 1e9);
  printf("%-19s B=%lld T=%lld", b->signature->name, (long long)b->batch, (long long)b->time);
  for (int i = 0; i < b->signature->axis_count; i++)
    printf(" %s=%lld", b->signature->axes[i].name, (long long)b->axis_sizes[i]);
  printf(", %s\n", rec_number_text(b->signature->token_type));
  printf(
      "limit               %.2f ms forward: %.3f GFLOP of the cheapest algorithm, %.1f MB of "
      "tokens\n",
      1e3 * f->forward_limit, 2 * b->forward_fma / 1e9, b->forward_bytes / 1e6);
  printf("forward             %.3f ms, %.0f tokens/s, %.1f %% of the limit\n", 1e3 * f->forward,
         tokens / f->forward, 100 * f->forward_fraction);
  if (!b->forward_only) {
    printf("forward that saves  %.3f ms (the states that backward starts its chunks from)\n",
           1e3 * f->saving);
    printf("backward            %.3f ms\n", 1e3 * f->backward);
    printf(
        "forward + backward  %.3f ms, %.0f tokens/s, %.2f times forward, %.1f %% of the limit "
        "(%.1f times forward's)\n",
        1e3 * f->both, tokens / f->both, f->ratio, 100 * f->both_fraction, REC_LIMIT_BOTH);
  }
  if (b->summary[false])
    printf("summary             %.3f ms, %.0f %% of forward\n", 1e3 * f->summary[false],
           100 * f->summary_share[false]);
  if (b->summary[true] && !b->forward_only)
    printf("summary backward    %.3f ms, %.0f %% of backward\n", 1e3 * f->summary[true],
           100 * f->summary_share[true]);
  printf("step                %.4f ms\n", 1e3 * f->step);
}

static void show_json(const bench *b, const figures *f) {
  printf("{\"recurrence\": \"%s\", \"batch\": %lld, \"time\": %lld, \"threads\": %d",
         b->signature->name, (long long)b->batch, (long long)b->time, b->threads);
  for (int i = 0; i < b->signature->axis_count; i++)
    printf(", \"axis_%s\": %lld", b->signature->axes[i].name, (long long)b->axis_sizes[i]);
  printf(
      ", \"peak_gflops\": %.3f, \"read_gb_per_s\": %.3f, \"forward_gflop\": %.6f, "
      "\"forward_limit_ms\": %.4f",
      f->peak / 1e9, f->bandwidth / 1e9, 2 * b->forward_fma / 1e9, 1e3 * f->forward_limit);
  printf(", \"forward_ms\": %.4f, \"least_forward_ms\": %.4f, \"forward_fraction\": %.4f",
         1e3 * f->forward, 1e3 * f->least_forward, f->forward_fraction);
  if (!b->forward_only) {
    printf(
        ", \"forward_saving_ms\": %.4f, \"backward_ms\": %.4f, \"both_ms\": %.4f, "
        "\"least_saving_ms\": %.4f, \"least_backward_ms\": %.4f, \"both_over_forward\": %.4f, "
        "\"both_fraction\": %.4f",
        1e3 * f->saving, 1e3 * f->backward, 1e3 * f->both, 1e3 * f->least_saving,
        1e3 * f->least_backward, f->ratio, f->both_fraction);
  }
  if (b->summary[false])
    printf(", \"summary_ms\": %.4f, \"summary_over_forward\": %.4f", 1e3 * f->summary[false],
           f->summary_share[false]);
  if (b->summary[true] && !b->forward_only)
    printf(", \"summary_backward_ms\": %.4f, \"summary_over_backward\": %.4f",
           1e3 * f->summary[true], f->summary_share[true]);
  printf(", \"step_ms\": %.5f}\n", 1e3 * f->step);
}

// ---- The command -----------------------------------------------------------------------------

#define REQUEST bench
static const option options[] = {
    OF_MODULE("--device", "host|simt", OPTION_DEVICE,
              "host (default); simt: nothing is timed; the GPU's code runs in the executor, which "
              "counts what it costs, and a\n"
              "model says how long a GPU takes"),
    TEXT("--target", "sm_80|sm_90a|..", target, "the GPU that simt stands for (sm_80)"),
    OF_MODULE("-D", "axis=size", OPTION_DEFINE,
              "size of an axis; those known at run time need one"),
    NUMBER("--time", "T", time, 1, "steps (2048)"),
    NUMBER("--batch", "B", batch, 1, "sequences (1)"),
    THREADS(threads,
            "threads (REC_NUM_THREADS, or all processors); 1 is timed by processor time, which "
            "other programs do not disturb"),
    NUMBER("--rounds", "N", rounds, ROUNDS_LEAST,
           "turns; medians are shown (9 or more, for about two seconds)"),
    FLAG("--forward", forward_only, "forward only"),
    OF_MODULE("--dtype", "f32|f64|bf16|f16", OPTION_DTYPE,
              "element type of tokens for a .rec file"),
    OF_MODULE("--chunk", "N", OPTION_RECC, "steps in a chunk for a .rec file"),
    OF_MODULE("--form", "F", OPTION_RECC, NULL),
    OF_MODULE("--check", NULL, OPTION_RECC, NULL),
    OF_MODULE("--summary", NULL, OPTION_RECC,
              "measures summaries of segments of time, too; for a .rec file, as in recc"),
    FLAG("--json", json, "one JSON object"),
    OPTIONS_END};

static int read_words(words *w, bench *b) {
  if (read_options(w, options, b)) return EXIT_USAGE;
  if (w->given_count > 2)
    return usage_error(w, "expected options behind FILE NAME, found `%s`", w->given[2]);
  if (!w->given_count) return usage_error(w, "expected FILE");
  b->module.file = w->given[0];
  if (b->rounds > ROUNDS_MOST) b->rounds = ROUNDS_MOST;
  bool simt = b->module.device == REC_DEVICE_SIMT;
  if (b->module.device == REC_DEVICE_CUDA)
    return usage_error(w, "expected host or simt after `--device`, found `cuda`");
  if (simt && b->json) return usage_error(w, "expected --json with --device host alone");
  if (!simt && b->target) return usage_error(w, "expected --target with --device simt alone");
  if (!b->target) b->target = "sm_80";
  return simt ? choose_counted_target(&b->module, b->target) : 0;
}

static int run_bench(bench *b) {
  figures f = {0};
  int status = choose_bench_sizes(b);
  if (!status && rec_machine_threads(b->threads, &b->threads)) status = report_failure("bench");
  if (!status && !make_call(b)) {
    fprintf(stderr, "rec bench: out of memory\n");
    status = EXIT_USAGE;
  }
  if (!status && start_bench_parameters(b)) status = report_failure("bench");
  if (!status && b->module.device == REC_DEVICE_SIMT)
    status = bench_on_simt(b->recurrence, &b->call, b->target, !b->forward_only);
  else if (!status && measure_figures(b, &f))
    status = report_failure("bench");
  bool timed = !status && b->module.device == REC_DEVICE_HOST;
  if (timed && b->json) show_json(b, &f);
  if (timed && !b->json) show_text(b, &f);
  free_call(b);
  return status;
}

static int bench_file(words *w) {
  bench b = {.time = 2048, .batch = 1, .module = module_request_of(w)};
  rec_module *module = NULL;
  int status = read_words(w, &b);
  b.module.run_time_defines = true;
  if (!status) status = open_module(&b.module, &module);
  // Without a second word the name is NULL.
  if (!status && !(b.recurrence = choose_recurrence("bench", b.module.file, module, w->given[1])))
    status = EXIT_USAGE;
  if (!status) {
    b.signature = rec_recurrence_signature(b.recurrence);
    status = check_defines(&b, module);
  }
  if (!status) status = run_bench(&b);
  rec_module_close(module);
  return status;
}

const subcommand bench_command = {
    .name = "bench",
    .purpose = "measures a recurrence beside what the machine can do",
    .synopsis = "FILE [NAME]",
    .text =
        "Measures a recurrence of a compiled library, or of a .rec file, on random tensors: "
        "forward, backward and one step,\n"
        "beside the multiply-adds and the memory speed that this machine reaches.\n",
    .options = options,
    .run = bench_file};
