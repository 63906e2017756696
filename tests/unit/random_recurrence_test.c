// Properties of random recurrences. What the front end accepts verifies and prints. Gradients are
// those of differences. Normalisation and the parts of the structure change no number. Time can be
// cut, and sequences packed. REC_SEED=N runs the program of that seed alone.
#include <math.h>
#include <time.h>

#include "tests/random/program.h"
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

typedef struct subject {
  fixture fixture;
  const char *text;
  uint64_t seed;
  recurrence *raw, *analysed;
} subject;

static void assert_small(const subject *s, double difference, double limit, const char *what) {
  if (difference <= limit) return;
  fail_msg("%s differ by %g; again with REC_SEED=%llu\n%s", what, difference,
           (unsigned long long)s->seed, s->text);
}

static void check_text(subject *s) {
  arena *memory = s->fixture.memory;
  const char *wrong = recurrence_verify(memory, s->analysed);
  if (wrong) fail_msg("seed %llu: %s\n%s", (unsigned long long)s->seed, wrong, s->text);
  char *printed = recurrence_print(memory, s->analysed);
  recurrence *again = fixture_ir(&s->fixture, printed);
  assert_string_equal(recurrence_print(memory, again), printed);
  recurrence *twice = recurrence_analyse(memory, &again->body);
  assert_string_equal(recurrence_print(memory, twice), printed);
}

static void check_gradients(subject *s) {
  if (strstr(s->text, "stop_gradient")) return;  // differences see what it hides
  const char *where = "";
  trial t = trial_new(s->fixture.memory, s->analysed, 1, 4, NULL, 0, s->seed);
  double error = trial_gradient_error(&t, s->fixture.memory, 2, s->seed, &where);
  assert_small(s, error, 1e-6, where);
}

static void check_normalisation(subject *s) {
  assert_small(s, fixture_difference(&s->fixture, s->raw, s->analysed, s->seed), 1e-9,
               "raw and normalised");
  recurrence *parts = fixture_from_parts(&s->fixture, s->analysed);
  assert_small(s, fixture_difference(&s->fixture, s->analysed, parts, s->seed), 1e-9,
               "update and parts");
}

// Runs 7 steps as 3 and 4, the state handed on and its gradient handed back.
static void check_cut(subject *s) {
  arena *memory = s->fixture.memory;
  const recurrence *r = s->analysed;
  trial whole = trial_new(memory, r, 1, 7, NULL, 0, s->seed);
  assert_true(reference_execute(r, &whole.run, true));
  trial first = trial_part(&whole, memory, 0, 0, 3), second = trial_part(&whole, memory, 0, 3, 4);
  assert_true(reference_execute(r, &first.run, false));
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    second.run.tensors[i].data = first.run.final_states[i].data;
    first.run.d_final_states[i].data = second.run.d_initial_states[i].data;
  }
  for (int i = 0; i < r->body.lags.count; i++) {
    second.run.lags[i].data = first.run.final_lags[i].data;
    first.run.d_final_lags[i].data = second.run.d_initial_lags[i].data;
  }
  assert_true(reference_execute(r, &second.run, true));
  assert_true(reference_execute(r, &first.run, true));
  assert_small(s, trial_part_distance(&whole, &first, 0, 0, false), 1e-12,
               "a cut sequence (first part) and the whole");
  assert_small(s, trial_part_distance(&whole, &second, 0, 3, false), 1e-12,
               "a cut sequence (last part) and the whole");
}

static void check_packed(subject *s) {
  static const int32_t offsets[] = {0, 2, 2, 6};
  trial packed = trial_new(s->fixture.memory, s->analysed, 1, 6, offsets, 3, s->seed);
  assert_true(reference_execute(s->analysed, &packed.run, true));
  for (int k = 0; k < 3; k++) {
    trial one = trial_part(&packed, s->fixture.memory, k, offsets[k], offsets[k + 1] - offsets[k]);
    assert_true(reference_execute(s->analysed, &one.run, true));
    assert_small(s, trial_part_distance(&packed, &one, k, offsets[k], true), 1e-12,
                 "packed sequences and single ones");
  }
}

static void check_seed(uint64_t seed) {
  subject s = {.fixture = fixture_open(), .seed = seed};
  s.text = random_program(s.fixture.memory, seed, "r", NULL);
  const typed_body *body = fixture_source(&s.fixture, s.text);
  s.raw = fixture_raw(&s.fixture, body);
  s.analysed = recurrence_analyse(s.fixture.memory, body);
  check_text(&s);
  check_normalisation(&s);
  check_gradients(&s);
  check_cut(&s);
  check_packed(&s);
  fixture_close(&s.fixture);
}

TEST(random_recurrences_have_the_properties) {
  const char *given = getenv("REC_SEED");
  if (given) {
    check_seed(strtoull(given, NULL, 10));
    return;
  }
  uint64_t first = (uint64_t)time(NULL) * 1000;
  print_message("seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)first + 299);
  for (uint64_t k = 0; k < 300; k++) check_seed(first + k);
}
