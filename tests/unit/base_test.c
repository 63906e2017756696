// Arena, interner, arrays, sources, diagnostics and processors.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/base/arena.h"
#include "compiler/base/diag.h"
#include "compiler/base/embedded.h"
#include "compiler/base/intern.h"
#include "compiler/base/processors.h"
#include "compiler/base/source.h"
#include "compiler/base/vec.h"
#include "tests/unit/unit.h"

TEST(arena_memory_is_zeroed_and_aligned) {
  arena *a = arena_new();
  for (size_t size = 0; size < 5000; size += 37) {
    unsigned char *p = arena_alloc(a, size);
    assert_int_equal((uintptr_t)p % 16, 0);
    for (size_t i = 0; i < size; i++) assert_int_equal(p[i], 0);
    memset(p, 0xAA, size);
  }
  assert_string_equal(arena_printf(a, "%d-%s", 7, "x"), "7-x");
  unsigned char *large = arena_alloc(a, 3u << 20);
  assert_int_equal(large[(3u << 20) - 1], 0);
  arena_free(a);
}

TEST(an_arena_takes_over_another) {
  arena *a = arena_new(), *empty = arena_new(), *other = arena_new();
  char *text = arena_strdup(other, "its own");
  arena_adopt(a, other);
  char *more = arena_strdup(a, "more");
  arena_adopt(a, empty);
  assert_string_equal(text, "its own");
  assert_string_equal(more, "more");
  arena_free(a);
}

TEST(equal_names_are_one_pointer) {
  arena *a = arena_new();
  interner *names = interner_new(a);
  const char *first[1000];
  for (int i = 0; i < 1000; i++) first[i] = intern(names, arena_printf(a, "name%d", i));
  for (int i = 0; i < 1000; i++)
    assert_ptr_equal(first[i], intern(names, arena_printf(a, "name%d", i)));
  assert_ptr_equal(intern_n(names, "name12345", 6), first[12]);
  arena_free(a);
}

TEST(arrays_keep_their_elements) {
  arena *a = arena_new();
  VEC(int)
  numbers = {0};
  for (int i = 0; i < 1000; i++) vec_push(a, &numbers, i);
  assert_int_equal(numbers.count, 1000);
  for (int i = 0; i < 1000; i++) assert_int_equal(numbers.items[i], i);
  arena_free(a);
}

TEST(columns_count_characters) {
  arena *a = arena_new();
  sources *all = sources_new(a);
  const char *error = NULL;
  const char text[] = "a\n\t\xC3\xA4\xE2\x82\xAC b\n";
  const source *s = sources_add(all, "x.rec", text, strlen(text), &error);
  assert_non_null(s);
  assert_int_equal(s->line_count, 3);
  source_position at = source_locate(s, (uint32_t)(strchr(text, 'b') - text));
  assert_int_equal(at.line, 2);
  assert_int_equal(at.column, 5);
  arena_free(a);
}

static void assert_refused(const char *text, size_t size, const char *message) {
  arena *a = arena_new();
  const char *error = NULL;
  assert_null(sources_add(sources_new(a), "x.rec", text, size, &error));
  assert_string_equal(error, message);
  arena_free(a);
}

TEST(unusable_sources_are_refused) {
  assert_refused("ab\n\xFF", 4, "'x.rec' is not UTF-8 text: byte 0xff at line 2, column 1");
  assert_refused("a\0b", 3, "'x.rec' is not UTF-8 text: byte 0x00 at line 1, column 2");
  assert_refused("\xC0\x80", 2, "'x.rec' is not UTF-8 text: byte 0xc0 at line 1, column 1");
  assert_refused("\xED\xA0\x80", 3, "'x.rec' is not UTF-8 text: byte 0xed at line 1, column 1");
  assert_refused("\xE2\x82", 2, "'x.rec' is not UTF-8 text: byte 0xe2 at line 1, column 1");
  char *large = calloc(1, SOURCE_SIZE_MAX + 1);
  assert_refused(large, SOURCE_SIZE_MAX + 1, "'x.rec' is larger than 4 MiB");
  free(large);
  arena *a = arena_new();
  const char *error = NULL;
  assert_null(sources_load(sources_new(a), "/no/such.rec", &error));
  assert_string_equal(error, "cannot read '/no/such.rec': No such file or directory");
  assert_null(sources_load(sources_new(a), "/tmp", &error));
  assert_string_equal(error, "cannot read '/tmp': it is a folder");
  arena_free(a);
}

// Nobody writes into the pipe: opening it would wait for ever.
TEST(an_import_is_no_pipe) {
  arena *a = arena_new();
  const char *error = NULL;
  char folder[] = "/tmp/rec-base-XXXXXX";
  assert_non_null(mkdtemp(folder));
  const char *path = arena_printf(a, "%s/pipe.rec", folder);
  assert_int_equal(mkfifo(path, 0600), 0);
  alarm(20);
  assert_null(sources_load_import(sources_new(a), path, &error));
  alarm(0);
  assert_string_equal(error, arena_printf(a, "cannot read '%s': it is a pipe or a device", path));
  assert_null(sources_load_import(sources_new(a), folder, &error));
  assert_string_equal(error, arena_printf(a, "cannot read '%s': it is a folder", folder));
  assert_null(sources_load_import(sources_new(a), "-", &error));
  assert_string_equal(error, "cannot read '-': No such file or directory");
  unlink(path);
  rmdir(folder);
  arena_free(a);
}

TEST(messages_are_sorted_with_line_caret_and_notes) {
  arena *a = arena_new();
  sources *all = sources_new(a);
  const char *error = NULL;
  const source *s = sources_add(all, "x.rec", "let a = b\n\tlet c\n", 17, &error);
  diag *d = diag_new(a, all);
  diag_error(d, (span){s->id, 15, 16}, "expected %s, found 'c'", "a name");
  diag_note(d, (span){s->id, 4, 5}, "declared here");
  diag_warning(d, (span){s->id, 0, 9}, "unused let");
  diag_error(d, (span){0}, "no input file");
  assert_true(diag_has_errors(d));
  assert_int_equal(diag_error_count(d), 2);
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  diag_print(d, out);
  diag_print(d, out);  // prints nothing twice
  fclose(out);
  assert_string_equal(text,
                      "error: no input file\n"
                      "x.rec:1:1: warning: unused let\n"
                      "  let a = b\n"
                      "  ^~~~~~~~~\n"
                      "x.rec:2:6: error: expected a name, found 'c'\n"
                      "  \tlet c\n"
                      "  \t    ^\n"
                      "x.rec:1:5: note: declared here\n"
                      "  let a = b\n"
                      "      ^\n");
  free(text);
  arena_free(a);
}

static const char *printed(arena *a, diag *d) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  diag_print(d, out);
  fclose(out);
  const char *copy = arena_printf(a, "%s", text);
  free(text);
  return copy;
}

TEST(an_unused_name_is_not_reported_beside_another_error) {
  arena *a = arena_new();
  diag *d = diag_new(a, sources_new(a));
  diag_unused_error(d, (span){0}, "unused input");
  diag_unused_warning(d, (span){0}, "unused let");
  assert_string_equal(diag_error_text(d, 0), "unused input");
  assert_string_equal(printed(a, d), "error: unused input\nwarning: unused let\n");
  diag_unused_error(d, (span){0}, "unused axis");
  diag_error(d, (span){0}, "misspelled");
  assert_string_equal(diag_error_text(d, 0), "misspelled");
  assert_string_equal(printed(a, d), "error: misspelled\n");
  arena_free(a);
}

TEST(support_object_is_embedded) {
  const embedded_file *object = embedded_find(embedded_support, "support");
  assert_non_null(object);
  assert_true(object->size > 64);
  assert_memory_equal(object->data, "\177ELF", 4);
  assert_null(embedded_find(embedded_stdlib, "no such file"));
}

static atomic_int at_work, most_at_work, turns_ended;

static void *work_in_turn(void *turn) {
  processors_take(*(processors_turn *)turn);
  int now = atomic_fetch_add(&at_work, 1) + 1, most = atomic_load(&most_at_work);
  while (now > most && !atomic_compare_exchange_weak(&most_at_work, &most, now)) continue;
  nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
  atomic_fetch_sub(&at_work, 1);
  atomic_fetch_add(&turns_ended, 1);
  processors_give();
  return NULL;
}

// On all processors and on one; less than 0.1 s.
TEST(no_more_turns_than_processors) {
  enum { THREADS = 24 };
  cpu_set_t all, first;
  pthread_t threads[THREADS];
  processors_turn turns[THREADS];
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&first);
  for (int i = 0; CPU_COUNT(&first) == 0; i++)
    if (CPU_ISSET(i, &all)) CPU_SET(i, &first);
  const cpu_set_t *sets[] = {&all, &first};
  for (int s = 0; s < 2; s++) {
    assert_int_equal(sched_setaffinity(0, sizeof all, sets[s]), 0);
    atomic_store(&most_at_work, 0);
    atomic_store(&turns_ended, 0);
    for (int i = 0; i < THREADS; i++) {
      turns[i] = i % 3 ? TURN_SHORT : TURN_LONG;
      assert_int_equal(pthread_create(&threads[i], NULL, work_in_turn, &turns[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&turns_ended), THREADS);
    assert_true(atomic_load(&most_at_work) <= CPU_COUNT(sets[s]));
    assert_int_equal(processors_count(), CPU_COUNT(sets[s]));
  }
  sched_setaffinity(0, sizeof all, &all);
}
