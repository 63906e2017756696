// Generation: what is drawn from given logits, and a model that reads a text whole, in parts and
// byte by byte.
#include <malloc.h>
#include <math.h>
#include <unistd.h>

#include "runtime/train/data/random.h"
#include "runtime/train/model/generate.h"
#include "runtime/train/model/sample.h"
#include "runtime/train/model/weights.h"
#include "runtime/train/session.h"
#include "tests/unit/unit.h"

// ---- the sampler --------------------------------------------------------------------------------

static void assert_distribution(sample_options o, int count, const double *weights,
                                const double *expected) {
  double logits[8];
  sampler s;
  assert_true(sampler_open(&s, &o, count));
  for (int i = 0; i < count; i++) logits[i] = log(weights[i]) + 3;
  assert_true(sample_distribution(&s, logits));
  const double *probabilities = s.probabilities;
  for (int i = 0; i < count; i++) {
    if (fabs(probabilities[i] - expected[i]) > 1e-14)
      fail_msg("token %d: expected %.17g, found %.17g", i, expected[i], probabilities[i]);
    assert_int_equal(probabilities[i] == 0, expected[i] == 0);
  }
  sampler_close(&s);
}

TEST(distributions_are_exact) {
  const double weights[] = {0.125, 0.5, 0.125, 0.25};
  assert_distribution((sample_options){1, 0, 1, 0}, 4, weights, weights);
  // 1/64, 1/4, 1/64, 1/16 of 11/32
  assert_distribution((sample_options){0.5, 0, 1, 0}, 4, weights,
                      (double[]){1. / 22, 16. / 22, 1. / 22, 4. / 22});
  assert_distribution((sample_options){1, 1, 1, 0}, 4, weights, (double[]){0, 1, 0, 0});
  assert_distribution((sample_options){1, 2, 1, 0}, 4, weights, (double[]){0, 2. / 3, 0, 1. / 3});
  // of two equal ones the lower stays
  assert_distribution((sample_options){1, 3, 1, 0}, 4, weights,
                      (double[]){1. / 7, 4. / 7, 0, 2. / 7});
  assert_distribution((sample_options){1, 9, 1, 0}, 4, weights, weights);
  assert_distribution((sample_options){1, 0, 0.4, 0}, 4, weights, (double[]){0, 1, 0, 0});
  assert_distribution((sample_options){1, 0, 0.74, 0}, 4, weights,
                      (double[]){0, 2. / 3, 0, 1. / 3});
  assert_distribution((sample_options){1, 0, 0.76, 0}, 4, weights,
                      (double[]){1. / 7, 4. / 7, 0, 2. / 7});
  assert_distribution((sample_options){1, 0, 0, 0}, 4, weights, (double[]){0, 1, 0, 0});
  // top_p counts what top_k left: 0.5 and 0.25 are two thirds and one third
  assert_distribution((sample_options){1, 2, 0.66, 0}, 4, weights, (double[]){0, 1, 0, 0});
  assert_distribution((sample_options){1, 2, 0.67, 0}, 4, weights,
                      (double[]){0, 2. / 3, 0, 1. / 3});
  assert_distribution((sample_options){0, 0, 1, 0}, 4, weights, (double[]){0, 1, 0, 0});
  // what has no probability is never kept by a sum that needs it
  assert_distribution((sample_options){1, 0, 1, 0}, 3, (double[]){0.5, 0, 0.5},
                      (double[]){0.5, 0, 0.5});
}

TEST(extreme_logits_have_distributions) {
  const sample_options plain = {1, 0, 1, 0}, near_zero = {1e-300, 0, 1, 0};
  sampler o, hot;
  assert_true(sampler_open(&o, &plain, 3) && sampler_open(&hot, &near_zero, 3));
  assert_true(sample_distribution(&o, (double[]){1e300, -1e300, 1e300}));
  assert_true(o.probabilities[0] == 0.5 && o.probabilities[1] == 0 && o.probabilities[2] == 0.5);
  assert_true(sample_distribution(&hot, (double[]){1, 2, 2}));
  assert_true(hot.probabilities[0] == 0 && hot.probabilities[1] == 0.5 &&
              hot.probabilities[2] == 0.5);
  assert_false(sample_distribution(&o, (double[]){0, NAN, 0}));
  assert_false(sample_distribution(&o, (double[]){0, INFINITY, 0}));
  assert_false(sample_distribution(&o, (double[]){-INFINITY, -INFINITY, -INFINITY}));
  assert_int_equal(sample_token(&o, (double[]){0, NAN, 0}, 7), -1);
  sampler_close(&o);
  sampler_close(&hot);
}

TEST(tokens_are_picked_by_their_share) {
  const double p[] = {0, 0.25, 0.5, 0, 0.25, 0};
  assert_int_equal(sample_pick(p, 6, 1e-300), 1);
  assert_int_equal(sample_pick(p, 6, 0.2499), 1);
  assert_int_equal(sample_pick(p, 6, 0.25), 2);
  assert_int_equal(sample_pick(p, 6, 0.7499), 2);
  assert_int_equal(sample_pick(p, 6, 0.75), 4);
  assert_int_equal(sample_pick(p, 6, 1), 4);
  // 65536 draws: five standard deviations
  enum { DRAWS = 65536 };
  double logits[6];
  int counts[6] = {0};
  for (int i = 0; i < 6; i++) logits[i] = log(p[i]);
  sampler s;
  assert_true(sampler_open(&s, &(sample_options){1, 0, 1, 11}, 6));
  for (int i = 0; i < DRAWS; i++) counts[sample_token(&s, logits, (uint64_t)i)]++;
  sampler_close(&s);
  for (int i = 0; i < 6; i++)
    assert_true(fabs(counts[i] - DRAWS * p[i]) <= 5 * sqrt(DRAWS * p[i] * (1 - p[i])));
}

TEST(one_candidate_is_the_most_probable) {
  enum { MANY = 50000 };  // a vocabulary of words
  sampler greedy, one, words;
  double *many = calloc(MANY, sizeof *many);
  assert_true(sampler_open(&greedy, &(sample_options){0, 0, 1, 1}, 256));
  assert_true(sampler_open(&one, &(sample_options){1.5, 1, 1, 1}, 256));
  assert_true(many && sampler_open(&words, &(sample_options){1, 1, 1, 1}, MANY));
  many[MANY - 7] = 1;
  assert_int_equal(sample_token(&words, many, 0), MANY - 7);
  free(many);
  sampler_close(&words);
  for (uint64_t i = 0; i < 1000; i++) {
    double logits[256];
    int best = 0;
    for (uint64_t k = 0; k < 256; k++) logits[k] = floor(8 * random_normal(3, 4, 256 * i + k));
    for (int k = 1; k < 256; k++)
      if (logits[k] > logits[best]) best = k;
    assert_int_equal(sample_token(&greedy, logits, i), best);
    assert_int_equal(sample_token(&one, logits, i), best);
  }
  sampler_close(&greedy);
  sampler_close(&one);
}

// ---- models -------------------------------------------------------------------------------------

static const char zoo[] =
    "import std.mamba1\n"
    "import std.mamba2\n"
    "import std.gla\n"
    "import std.norm\n"
    "model Zoo(vocab = 256, D = 16) {\n"
    "  input token\n"
    "  let x0[D] = embed(token, vocab)\n"
    "  let x1 = x0 + Mamba1(RMSNorm(x0, name = \"norm1\"), K = 2, N = 4, name = \"mamba1\")\n"
    "  let x2 = x1 + Mamba2(LayerNorm(x1, name = \"norm2\"), R = 2, P = 8, N = 4, name = "
    "\"mamba2\")\n"
    "  let x3 = x2 + GLA(RMSNorm(x2, name = \"norm3\"), H = 2, K = 4, V = 4, L = 2, name = "
    "\"gla\")\n"
    "  output logits[vocab] = unembed(x3)\n"
    "}\n"
    "train zoo { model Zoo  data text(\"text.txt\")  context 16  batch 4  steps 1  optimizer "
    "adamw(lr = 1e-2) }\n";

typedef struct subject {
  rec_module *module;
  session *s;
  trained_model of;
  char *weights;
} subject;

static void open_subject(subject *t, const char *program, const char *type) {
  char library[] = "/tmp/rec_generate.XXXXXX.so", command[2048];
  close(mkstemps(library, 3));
  snprintf(command, sizeof command,
           REC_BINARY_DIR "/bin/recc --dtype %s --target x86-64-v2 -O1 %s -o %s", type, program,
           library);
  assert_int_equal(system(command), 0);
  assert_int_equal(rec_module_open(library, &t->module), REC_OK);
  unlink(library);
  memcpy(library + strlen(library) - 2, "h", 2);
  unlink(library);
  session_options options = {.threads = 1};
  assert_int_equal(session_open(t->module, &options, &t->s), REC_OK);
  t->of = session_model(t->s, &t->s->program->blocks[0]);
  const train_model *m = t->of.model;
  t->weights = calloc((size_t)m->parameter_elements, (size_t)t->of.n->element_size);
  assert_int_equal(train_weights_start(m, 5, t->of.n, t->weights), REC_OK);
}

static void close_subject(subject *t) {
  free(t->weights);
  session_close(t->s);
  rec_module_close(t->module);
}

static generator *new_generator(const subject *t, int threads) {
  generator *g;
  assert_int_equal(generator_new(&t->of, t->weights, threads, &g), REC_OK);
  return g;
}

// Reads `tokens` cut at the places of `cuts`, the rest one by one if `steps`.
static void read_parts(generator *g, const token_id *tokens, int64_t count, const int64_t *cuts,
                       int cut_count, bool steps) {
  int64_t at = 0;
  for (int i = 0; i < cut_count; i++) {
    assert_int_equal(generator_read(g, tokens + at, cuts[i] - at), REC_OK);
    at = cuts[i];
  }
  for (; steps && at < count; at++) assert_int_equal(generator_read(g, tokens + at, 1), REC_OK);
  assert_int_equal(generator_read(g, tokens + at, count - at), REC_OK);
}

static double rms_of(const double *x, int count) {
  double sum = 0;
  for (int i = 0; i < count; i++) sum += x[i] * x[i];
  return sqrt(sum / count);
}

static void assert_same_logits(const subject *t, const generator *a, const generator *b,
                               const char *what) {
  int count = t->of.model->vocabulary;
  const double *x = generator_logits(a), *y = generator_logits(b);
  double tolerance = (t->of.dtype == REC_F64 ? 1e-11 : 1e-4) * rms_of(x, count);
  for (int i = 0; i < count; i++)
    if (!(fabs(x[i] - y[i]) <= tolerance))
      fail_msg("%s: logit %d: %.9g after one call, %.9g in parts", what, i, x[i], y[i]);
}

enum { TEXT = 1300 };  // longer than one window

static void check_parts(const subject *t) {
  const int64_t vocabulary = t->of.model->vocabulary;
  token_id tokens[TEXT];
  for (int i = 0; i < TEXT; i++) tokens[i] = (token_id)random_below(1, 2, (uint64_t)i, vocabulary);
  const struct {
    const char *what;
    int64_t count, cuts[3];
    int cut_count;
    bool steps;
  } ways[] = {{"all by steps", 150, {0}, 0, true},
              {"a prefill, then steps", 170, {101}, 1, true},
              {"steps after windows", TEXT, {TEXT - 5}, 1, true},
              {"parts", 300, {1, 2, 130}, 3, false},
              {"a step before a prefill", 200, {1}, 1, false},
              {"nothing in between", 90, {40, 40}, 2, true}};
  for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
    generator *one = new_generator(t, 1), *parts = new_generator(t, 1);
    read_parts(one, tokens, ways[i].count, NULL, 0, false);
    read_parts(parts, tokens, ways[i].count, ways[i].cuts, ways[i].cut_count, ways[i].steps);
    assert_true(rms_of(generator_logits(one), (int)vocabulary) > 0);
    assert_same_logits(t, one, parts, ways[i].what);
    generator_free(one);
    generator_free(parts);
  }
}

// Whole and in steps, with 1 and with 3 threads: the same bits.
static void check_threads(const subject *t) {
  token_id tokens[200];
  for (int i = 0; i < 200; i++)
    tokens[i] = (token_id)random_below(1, 3, (uint64_t)i, t->of.model->vocabulary);
  generator *one = new_generator(t, 1), *three = new_generator(t, 3);
  const int64_t cut = 190;
  read_parts(one, tokens, 200, &cut, 1, true);
  read_parts(three, tokens, 200, &cut, 1, true);
  assert_memory_equal(generator_logits(one), generator_logits(three),
                      (size_t)t->of.model->vocabulary * sizeof(double));
  generator_free(one);
  generator_free(three);
}

// Nothing is left behind by a token (a sanitizer's allocator counts nothing here, and finds leaks
// by itself).
static void check_memory(const subject *t) {
  generator *g = new_generator(t, 1);
  const token_id token = 3;
  assert_int_equal(generator_read(g, &token, 1), REC_OK);
  size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 1000; i++) assert_int_equal(generator_read(g, &token, 1), REC_OK);
  assert_int_equal(mallinfo2().uordblks, before);
  generator_free(g);
}

static void check_program(const char *path, const char *type) {
  subject t;
  open_subject(&t, path, type);
  check_parts(&t);
  check_threads(&t);
  check_memory(&t);
  close_subject(&t);
}

TEST(prefill_and_steps_are_one_long_call) {
  char path[] = "/tmp/rec_generate.XXXXXX.rec";
  FILE *file = fdopen(mkstemps(path, 4), "w");
  assert_non_null(file);
  assert_true(fputs(zoo, file) >= 0);
  assert_int_equal(fclose(file), 0);
  check_program(path, "f32");
  unlink(path);
  check_program(REC_SOURCE_DIR "/tests/graph/small-mamba2.rec", "f64");
  check_program(REC_SOURCE_DIR "/tests/graph/layers-of-all-kinds.rec", "f32");
}
