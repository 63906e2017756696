// Generated tasks: every sequence obeys the definition of its task. Answers stand where the task
// has them and nowhere else. Draws depend on seed and position alone.
#include "runtime/train/data/tasks.h"
#include "runtime/train/model/numeric.h"

#include "tests/unit/unit.h"

enum { ROOM = 300, SEQUENCES = 500 };

typedef struct sequence {
  token_id tokens[ROOM], targets[ROOM];
} sequence;

static sequence draw(const train_task *t, uint64_t position) {
  sequence s;
  memset(&s, 0xAA, sizeof s);
  task_sequence(t, 7, 9, position, ROOM, s.tokens, s.targets);
  for (int i = 0; i < ROOM; i++) {
    assert_in_range(s.tokens[i], 0, task_vocabulary(t) - 1);
    if (s.targets[i] != NO_TARGET) assert_in_range(s.targets[i], 0, task_vocabulary(t) - 1);
  }
  return s;
}

static int answers(const sequence *s, int from, int to) {
  int count = 0;
  for (int i = from; i < to; i++) count += s->targets[i] != NO_TARGET;
  return count;
}

static int find_token(const sequence *s, int token) {
  int place = 0;
  while (place < ROOM && s->tokens[place] != token) place++;
  return place;
}

static int ascending(const void *a, const void *b) {
  return *(const token_id *)a - *(const token_id *)b;
}

// The answer that the letters of a sequence of this kind have.
static void expected_answer(task_kind kind, const token_id *letters, int count, token_id *answer) {
  for (int i = 0; i < count; i++)
    answer[i] = letters[kind == TASK_STACK_COPYING ? count - 1 - i : i];
  if (kind == TASK_SORTING) qsort(answer, (size_t)count, sizeof *answer, ascending);
}

TEST(copies_hold_their_answers) {
  static const task_kind kinds[] = {TASK_COPYING, TASK_STACK_COPYING, TASK_SORTING};
  for (int k = 0; k < 3; k++) {
    train_task t = {.kind = kinds[k], .shortest = 3, .length = 12, .alphabet = 26};
    int lengths[ROOM] = {0};
    for (uint64_t p = 0; p < SEQUENCES; p++) {
      sequence s = draw(&t, p);
      int n = find_token(&s, 26);
      token_id answer[ROOM];
      assert_in_range(n, 3, 12);
      lengths[n]++;
      expected_answer(kinds[k], s.tokens, n, answer);
      assert_memory_equal(s.tokens + n + 1, answer, (size_t)n * sizeof *answer);
      assert_memory_equal(s.targets + n, answer, (size_t)n * sizeof *answer);
      assert_int_equal(s.targets[2 * n], 27);
      assert_int_equal(answers(&s, 0, ROOM), n + 1);
      assert_int_equal(answers(&s, n, 2 * n + 1), n + 1);
      for (int i = 2 * n + 1; i < ROOM; i++) assert_int_equal(s.tokens[i], 27);
    }
    for (int n = 3; n <= 12; n++) assert_in_range(lengths[n], 25, 80);
  }
}

TEST(selected_letters_are_asked_for_in_order) {
  train_task t = {
      .kind = TASK_SELECTIVE_COPYING, .shortest = 40, .length = 40, .alphabet = 16, .count = 5};
  int at[40] = {0};
  for (uint64_t p = 0; p < SEQUENCES; p++) {
    sequence s = draw(&t, p);
    int found = 0;
    for (int i = 0; i < 40; i++) {
      if (s.tokens[i] == 16) continue;
      assert_in_range(s.tokens[i], 0, 15);
      assert_int_equal(s.tokens[i], s.targets[40 + found++]);
      at[i]++;
    }
    assert_int_equal(found, 5);
    for (int i = 40; i < 45; i++) assert_int_equal(s.tokens[i], 17);
    assert_int_equal(answers(&s, 0, ROOM), 5);
  }
  for (int i = 0; i < 40; i++) assert_in_range(at[i], 30, 105);
}

TEST(keys_are_asked_for_once_and_have_their_values) {
  train_task t = {.kind = TASK_MQAR, .shortest = 64, .length = 64, .alphabet = 40, .count = 16};
  int early = 0, late = 0;
  for (uint64_t p = 0; p < SEQUENCES; p++) {
    sequence s = draw(&t, p);
    int value_of[40] = {0}, asked[40] = {0};
    for (int i = 0; i < 32; i += 2) {
      assert_in_range(s.tokens[i], 1, 19);
      assert_in_range(s.tokens[i + 1], 20, 39);
      assert_int_equal(value_of[s.tokens[i]], 0);
      for (int k = 1; k < i; k += 2) assert_int_not_equal(s.tokens[i + 1], s.tokens[k]);
      value_of[s.tokens[i]] = s.tokens[i + 1];
    }
    for (int i = 32; i < 64; i += 2) {
      assert_int_equal(s.targets[i + 1], NO_TARGET);
      assert_int_not_equal(s.targets[i], NO_TARGET);  // 16 pairs, 16 gaps
      assert_int_equal(s.targets[i], value_of[s.tokens[i]]);
      assert_int_equal(asked[s.tokens[i]]++, 0);
    }
    assert_int_equal(answers(&s, 0, ROOM), 16);
  }
  t.count = 4, t.shortest = t.length = 200;
  for (uint64_t p = 0; p < SEQUENCES; p++) {
    sequence s = draw(&t, p);
    assert_int_equal(answers(&s, 0, ROOM), 4);
    early += answers(&s, 8, 28), late += answers(&s, 180, 200);
  }
  assert_true(early > 4 * late && late > 0);  // the power law: ten gaps each
}

TEST(pass_key_is_told_once_and_asked_for) {
  train_task t = {.kind = TASK_PASSKEY, .shortest = 128, .length = 250};
  for (uint64_t p = 0; p < SEQUENCES; p++) {
    sequence s = draw(&t, p);
    char text[ROOM + 1] = {0}, told[80];
    for (int i = 0; i < ROOM; i++) text[i] = (char)s.tokens[i];
    const char *first = strstr(text, "The pass key is "), *question = strstr(text, "What is");
    assert_non_null(first);
    assert_non_null(question);
    int key = atoi(first + 16), answer = (int)(strstr(question, "key is ") - text) + 7;
    assert_in_range(key, 1, 50000);
    snprintf(told, sizeof told, "The pass key is %d. Remember it. %d is the pass key. ", key, key);
    assert_memory_equal(first, told, strlen(told));
    int count = snprintf(told, sizeof told, "%d.", key);
    assert_memory_equal(text + answer, told, (size_t)count);
    assert_in_range(answer + count, 128, 250);
    for (int i = 0; i < count; i++) assert_int_equal(s.targets[answer - 1 + i], told[i]);
    assert_int_equal(answers(&s, 0, ROOM), count);
    assert_in_range(first - text, 1, ROOM);
  }
}

static const train_task each[TASK_KINDS] = {
    {TASK_COPYING, 2, 20, 26, 0, false}, {TASK_STACK_COPYING, 2, 20, 26, 0, false},
    {TASK_SORTING, 2, 20, 26, 0, false}, {TASK_SELECTIVE_COPYING, 20, 40, 26, 8, false},
    {TASK_MQAR, 40, 80, 64, 8, false},   {TASK_PASSKEY, 130, 200, 0, 0, false},
    {TASK_BABI, 250, 290, 2, 4, false}};

TEST(sequences_follow_from_seed_stream_and_position) {
  for (int k = 0; k < TASK_KINDS; k++) {
    const train_task *t = &each[k];
    assert_int_equal(task_find(task_rules_of[t->kind].name), t->kind);
    assert_true(task_least(t) <= t->shortest && task_tokens(t, t->length) <= ROOM);
    sequence one = draw(t, 5), other = draw(t, 6), again = draw(t, 5), seeded = one;
    assert_memory_equal(&one, &again, sizeof one);
    assert_memory_not_equal(one.tokens, other.tokens, sizeof one.tokens);
    task_sequence(t, 8, 9, 5, ROOM, seeded.tokens, seeded.targets);
    assert_memory_not_equal(one.tokens, seeded.tokens, sizeof one.tokens);
    task_sequence(t, 7, 10, 5, ROOM, seeded.tokens, seeded.targets);
    assert_memory_not_equal(one.tokens, seeded.tokens, sizeof one.tokens);
  }
  assert_int_equal(task_find("text"), TASK_KINDS);
}

// Exactly task_tokens() tokens are needed, and the loss over all tokens has the next one as target
// wherever the answers alone have none.
TEST(loss_over_all_tokens_adds_the_next_ones) {
  for (int k = 0; k < TASK_KINDS; k++) {
    train_task t = each[k];
    t.shortest = t.length;
    int room = (int)task_tokens(&t, t.length);
    sequence s = draw(&t, 3), full;
    t.all = true;
    memset(&full, 0xAA, sizeof full);
    task_sequence(&t, 7, 9, 3, room, full.tokens, full.targets);
    assert_memory_equal(s.tokens, full.tokens, (size_t)room * sizeof *s.tokens);
    assert_int_equal(full.tokens[room], (token_id)0xAAAAAAAA);
    assert_int_equal(full.targets[room], (token_id)0xAAAAAAAA);
    for (int i = 0; i < room; i++)
      assert_int_equal(full.targets[i], s.targets[i] != NO_TARGET ? s.targets[i]
                                        : i + 1 < room            ? full.tokens[i + 1]
                                                                  : NO_TARGET);
  }
}

// ---- babi: the answer again, from the text alone ------------------------------------------------

static const char *const babi_people[] = {"Mary ", "John ", "Daniel ", "Sandra "};
static const char *const babi_things[] = {"apple", "football", "milk"};

// Where the last sentence of a person that contains `words` begins; NULL: nowhere.
static const char *last_of(const char *text, const char *end, const char *person,
                           const char *words) {
  const char *found = NULL;
  for (const char *at = text; (at = strstr(at, person)) && at < end; at++) {
    const char *stop = strchr(at, '.'), *there = strstr(at, words);
    if (there && there < stop) found = at;
  }
  return found;
}

static void expect_place(const char *sentence, const char *answer) {
  assert_non_null(sentence);
  const char *place = strstr(sentence, " to the ") + strlen(" to the ");
  assert_memory_equal(place, answer, strlen(answer));
}

static void check_babi(const train_task *t, uint64_t position) {
  char text[ROOM + 1] = "", answer[20] = "";
  sequence s = draw(t, position);
  int first = -1;
  for (int i = 0; i < ROOM; i++) {
    text[i] = (char)s.tokens[i];
    if (s.targets[i] != NO_TARGET && first < 0) first = i;
    if (s.targets[i] != NO_TARGET) answer[i - first] = (char)s.targets[i];
  }
  assert_memory_equal(text + first + 1, answer, strlen(answer));
  const char *question = strstr(text, "Question: ");
  int64_t fact = task_sequence(t, 7, 9, position, ROOM, s.tokens, s.targets);
  for (int p = 0; p < 4; p++) {
    char name[16];
    snprintf(name, sizeof name, " %.*s", (int)strlen(babi_people[p]) - 1, babi_people[p]);
    const char *moved = last_of(text, question, babi_people[p], " to the ");
    if (t->alphabet == 2) {
      for (int o = 0; o < 3; o++) {
        const char *got = last_of(text, question, babi_people[p], babi_things[o]);
        bool later = false;
        for (int other = 0; other < 4; other++)
          later |= last_of(text, question, babi_people[other], babi_things[o]) > got;
        if (!got || later || !strstr(question, babi_things[o])) continue;
        expect_place(moved, answer);
        assert_int_equal(moved - text, fact);
      }
    } else if (strstr(question, name)) {
      if (t->alphabet == 1) expect_place(moved, answer);
      const char *asked = strstr(question, " in the "), *place = strstr(moved, " to the ") + 8;
      size_t length = strcspn(place, ".");
      if (t->alphabet == 6)
        assert_string_equal(answer, !strncmp(asked + 8, place, length) ? "yes." : "no.");
      assert_int_equal(moved - text, fact);
    }
  }
}

TEST(babi_answers_follow_from_the_facts) {
  for (int task = 1; task <= 6; task++) {
    if (task > 2 && task < 6) continue;
    train_task t = {
        .kind = TASK_BABI, .shortest = 240, .length = ROOM, .alphabet = task, .count = 4};
    int yes = 0;
    for (uint64_t i = 0; i < SEQUENCES; i++) {
      check_babi(&t, i);
      sequence s = draw(&t, i);
      yes += answers(&s, 0, ROOM) == 4;  // "yes."
    }
    if (task == 6) assert_in_range(yes, SEQUENCES / 3, 2 * SEQUENCES / 3);
  }
}
