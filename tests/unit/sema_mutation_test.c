// Thousands of damaged programs: whatever sema accepts is a well-formed body, whatever it refuses
// has a message, and nothing crashes. The programs of tests/sema are damaged token by token:
// deleted, repeated, swapped, replaced by tokens of other programs. REC_SEED and REC_MUTATIONS
// choose another run.
#include <time.h>

#include <dirent.h>

#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"
#include "tests/unit/unit.h"

typedef struct token {
  const char *text;
  size_t length;
} token;
typedef VEC(token) tokens;
typedef VEC(const char *) texts;

static uint64_t random_state;

static uint64_t next_random(void) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  uint64_t x = random_state;
  x ^= x >> 33;
  return x * UINT64_C(0xff51afd7ed558ccd) >> 20;
}

static int below(int n) { return (int)(next_random() % (uint64_t)n); }

// ---- programs --------------------------------------------------------------------------------

static void add_folder(arena *a, texts *programs, const char *folder) {
  DIR *dir = opendir(folder);
  assert_non_null(dir);
  for (struct dirent *entry; (entry = readdir(dir));) {
    size_t length = strlen(entry->d_name);
    if (length < 4 || strcmp(entry->d_name + length - 4, ".rec") != 0) continue;
    const char *text = text_of(a, arena_printf(a, "%s/%s", folder, entry->d_name));
    // The mutants must not read or depend on files.
    if (!strstr(text, "import")) vec_push(a, programs, text);
  }
  closedir(dir);
}

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static tokens split(arena *a, const char *text) {
  tokens list = {0};
  while (*text) {
    size_t length = 1;
    if (is_word(*text))
      while (is_word(text[length])) length++;
    vec_push(a, &list, (token){text, length});
    text += length;
  }
  return list;
}

static const char *join(arena *a, const tokens *list) {
  size_t size = 1;
  for (int i = 0; i < list->count; i++) size += list->items[i].length;
  char *text = arena_alloc(a, size), *end = text;
  for (int i = 0; i < list->count; i++) {
    memcpy(end, list->items[i].text, list->items[i].length);
    end += list->items[i].length;
  }
  return text;
}

static bool is_blank(token t) { return *t.text == ' ' || *t.text == '\n'; }

static int pick(const tokens *list) {
  for (int tries = 0; tries < 50; tries++) {
    int i = below(list->count);
    if (!is_blank(list->items[i])) return i;
  }
  return 0;
}

static void mutate(tokens *list, const tokens *donor) {
  int i = pick(list), k = pick(list);
  token t = list->items[i];
  switch (below(12)) {
    case 0: list->items[i].length = 0; break;
    case 1: list->items[i] = donor->items[pick(donor)]; break;
    case 2:
      list->items[i] = list->items[k];
      list->items[k] = t;
      break;
    case 3: list->items[i] = list->items[k]; break;
    default: {
      // One word for another: most such programs still parse.
      for (int tries = 0; tries < 20 && !is_word(*list->items[k].text); tries++) k = pick(list);
      if (is_word(*t.text)) list->items[i] = list->items[k];
      break;
    }
  }
}

// ---- what must hold --------------------------------------------------------------------------

static void check_values(const typed_body *body) {
  axis_set all = 0;
  for (int i = 0; i < body->axes.count; i++) all |= axis_bit(i);
  for (int i = 0; i < body->values.count; i++) {
    const typed_value *v = &body->values.items[i];
    assert_int_equal(v->axes & ~all, 0);
    for (int k = 0; k < value_arity(v->op); k++) assert_in_range(v->args[k], 0, i - 1);
    if (v->op == VALUE_LAG) {
      assert_in_range(v->index, 0, body->lags.count - 1);
      assert_in_range(v->steps, 1, body->lags.items[v->index].depth);
    }
    for (int k = 0; v->over && k < body->axes.count; k++)
      if (axis_in(v->over, k)) assert_true(body->axes.items[k].size > 0);
  }
}

static void check_body(arena *a, const typed_body *body) {
  check_values(body);
  bool has_input = false;
  vec_each(const typed_tensor, tensor, body->tensors) {
    has_input |= tensor->kind == TENSOR_INPUT;
    bool assigned = tensor->kind == TENSOR_STATE || tensor->kind == TENSOR_OUTPUT;
    if (!assigned) continue;
    assert_in_range(tensor->assigned, 0, body->values.count - 1);
    const typed_value *v = &body->values.items[tensor->assigned];
    assert_int_equal(v->axes & ~tensor->axis_set, 0);
    assert_int_equal(v->complex, tensor->complex);
  }
  assert_true(has_input);
  vec_each(const typed_lag, lag, body->lags) {
    assert_in_range(lag->source, 0, body->values.count - 1);
    assert_int_equal(body->values.items[lag->source].axes & ~lag->axes, 0);
  }
  assert_non_null(typed_print_body(a, body));
}

static bool accepted(const char *text) {
  arena *a = arena_new();
  sources *all = sources_new(a);
  diag *messages = diag_new(a, all);
  interner *names = interner_new(a);
  const char *error = NULL;
  const source *program = sources_add(all, "mutant.rec", text, strlen(text), &error);
  bool fine = false;
  if (program) {
    ast_file *file = parse_source(a, names, messages, program);
    sema_options options = {0};
    if (!diag_has_errors(messages)) {
      typed_program *typed = sema_check(a, names, messages, all, file, &options);
      fine = !diag_has_errors(messages);
      for (int i = 0; fine && i < typed->recurrences.count; i++)
        check_body(a, typed->recurrences.items[i]);
    }
    if (!fine) assert_true(*diag_error_text(messages, 0));
  }
  arena_free(a);
  return fine;
}

static int setting(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text ? atoi(text) : otherwise;
}

TEST(damaged_programs_are_refused_or_well_formed) {
  int seed = setting("REC_SEED", (int)(time(NULL) % 1000000007)),
      mutants = setting("REC_MUTATIONS", 4000);
  random_state = (uint64_t)seed;
  printf("REC_SEED=%d\n", seed);
  arena *a = arena_new();
  texts programs = {0};
  add_folder(a, &programs, REC_SOURCE_DIR "/tests/sema");
  int legal = programs.count;
  add_folder(a, &programs, REC_SOURCE_DIR "/tests/sema/errors");
  assert_true(programs.count > 100);
  int good = 0;
  const char *show = getenv("REC_SHOW_ACCEPTED");
  for (int i = 0; i < mutants; i++) {
    arena *work = arena_new();
    tokens list = split(work, programs.items[below(below(4) ? legal : programs.count)]);
    tokens donor = split(work, programs.items[below(programs.count)]);
    for (int n = 1 + below(3); n > 0; n--) mutate(&list, &donor);
    const char *text = join(work, &list);
    if (getenv("REC_SHOW_MUTANTS")) fprintf(stderr, "%s\n", text);
    bool fine = accepted(text);
    if (fine && show) printf("---- accepted\n%s", text);
    good += fine;
    arena_free(work);
  }
  printf("%d of %d mutants are legal programs\n", good, mutants);
  assert_true(good > 0 && good < mutants);
  arena_free(a);
}
