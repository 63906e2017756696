// The recurrences of tests/spellings/pairs.rec, which passes bring into one form, compute what they
// computed as they were written.
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

static void check_meaning(const char *text, size_t size) {
  fixture f = fixture_open();
  const char *program = arena_printf(f.memory, "%.*s", (int)size, text);
  const typed_body *body = fixture_source(&f, program);
  recurrence *analysed = recurrence_analyse(f.memory, body);
  double difference = fixture_difference(&f, fixture_raw(&f, body), analysed, 5);
  if (!(difference < 1e-9)) fail_msg("%s differs by %g", body->name, difference);
  fixture_close(&f);
}

TEST(forms_keep_the_meaning) {
  arena *memory = arena_new();
  const char *text = text_of(memory, REC_SOURCE_DIR "/tests/spellings/pairs.rec");
  int checked = 0;
  for (const char *at = strstr(text, "\nrecurrence "); at; checked++) {
    const char *next = strstr(at + 1, "\nrecurrence ");
    check_meaning(at, next ? (size_t)(next - at) : strlen(at));
    at = next;
  }
  assert_true(checked > 40);
  arena_free(memory);
}
