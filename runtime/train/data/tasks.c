#include "runtime/train/data/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/train/data/tasks_draw.h"

task_kind task_find(const char *name) {
  int kind = 0;
  while (kind < TASK_KINDS && strcmp(task_rules_of[kind].name, name) != 0) kind++;
  return (task_kind)kind;
}

int64_t task_vocabulary(const train_task *t) {
  const task_rules *r = &task_rules_of[t->kind];
  return r->symbols + (r->text ? 0 : t->alphabet);
}

int64_t task_least(const train_task *t) {
  return task_rules_of[t->kind].least + task_rules_of[t->kind].least_for_each * t->count;
}

int64_t task_tokens(const train_task *t, int64_t length) {
  const task_rules *r = &task_rules_of[t->kind];
  return r->tokens_for_each * length + r->tokens_beyond + r->tokens_for_each_count * t->count;
}

// ---- draws --------------------------------------------------------------------------------------

static draws draws_of(uint64_t seed, uint64_t stream, uint64_t position) {
  uint32_t bits[4];
  random_bits(seed, stream, position, bits);
  return (draws){(uint64_t)bits[0] << 32 | bits[1], stream, 0};
}

static void swap_tokens(token_id *a, token_id *b) {
  token_id old = *a;
  *a = *b, *b = old;
}

// ---- letters ------------------------------------------------------------------------------------

// By insertion: no memory, and the letters of a sequence are few.
static void sort(token_id *letters, int64_t count) {
  for (int64_t i = 1; i < count; i++)
    for (int64_t k = i; k > 0 && letters[k - 1] > letters[k]; k--)
      swap_tokens(&letters[k - 1], &letters[k]);
}

static int64_t copying(const train_task *t, int64_t length, draws *d, token_id *tokens,
                       token_id *targets) {
  token_id delimiter = (token_id)t->alphabet, stop = (token_id)(t->alphabet + 1);
  token_id *answer = tokens + length + 1;
  for (int64_t i = 0; i < length; i++) tokens[i] = (token_id)below(d, t->alphabet);
  tokens[length] = delimiter;
  for (int64_t i = 0; i < length; i++)
    answer[i] = tokens[t->kind == TASK_STACK_COPYING ? length - 1 - i : i];
  if (t->kind == TASK_SORTING) sort(answer, length);
  memcpy(targets + length, answer, (size_t)length * sizeof *targets);
  targets[2 * length] = stop;
  return 2 * length + 1;
}

// Which places hold letters: each in turn with the probability that leaves every choice equally
// likely.
static int64_t selective_copying(const train_task *t, int64_t length, draws *d, token_id *tokens,
                                 token_id *targets) {
  token_id blank = (token_id)t->alphabet, delimiter = (token_id)(t->alphabet + 1);
  int64_t found = 0;
  for (int64_t i = 0; i < length; i++) {
    bool letter = below(d, length - i) < t->count - found;
    tokens[i] = letter ? (token_id)below(d, t->alphabet) : blank;
    if (letter) targets[length + found++] = tokens[i];
  }
  for (int64_t i = 0; i < t->count; i++) tokens[length + i] = delimiter;
  return length + t->count;
}

// ---- multi-query associative recall -------------------------------------------------------------

// `count` different numbers from first .. first + limit - 1 in random order, at every second place
// (Floyd's sampling, then a shuffle).
static void different(draws *d, int64_t first, int64_t limit, int64_t count, token_id *to) {
  for (int64_t i = 0; i < count; i++) {
    int64_t last = limit - count + i;
    token_id pick = (token_id)(first + below(d, last + 1));
    for (int64_t k = 0; k < i; k++)
      if (to[2 * k] == pick) pick = (token_id)(first + last);
    to[2 * i] = pick;
  }
  for (int64_t i = count - 1; i > 0; i--) swap_tokens(&to[2 * i], &to[2 * below(d, i + 1)]);
}

// Weight of gap number `place` from 0 on: near queries are likelier than far ones (Zoology's
// power law with exponent 0.01).
static double gap_weight(int64_t place) { return pow((double)(place + 1), 0.01 - 1); }

// One of the gaps that no query has taken yet.
static int64_t free_gap(draws *d, int64_t gaps, const token_id *targets) {
  double total = 0;
  int64_t chosen = 0;
  for (int64_t g = 0; g < gaps; g++)
    if (targets[2 * g] == NO_TARGET) total += gap_weight(g);
  double rest = total * random_uniform(d->seed, d->stream, d->next++);
  for (int64_t g = 0; g < gaps && rest >= 0; g++)
    if (targets[2 * g] == NO_TARGET) chosen = g, rest -= gap_weight(g);
  return chosen;
}

static int64_t mqar(const train_task *t, int64_t length, draws *d, token_id *tokens,
                    token_id *targets) {
  int64_t half = t->alphabet / 2, pairs = 2 * t->count;
  different(d, 1, half - 1, t->count, tokens);
  different(d, half, t->alphabet - half, t->count, tokens + 1);
  for (int64_t i = pairs; i < length; i++) tokens[i] = (token_id)below(d, t->alphabet);
  for (int64_t i = 0; i < t->count; i++) {
    int64_t place = pairs + 2 * free_gap(d, (length - pairs) / 2, targets + pairs);
    tokens[place] = tokens[2 * i];
    targets[place] = tokens[2 * i + 1];
  }
  return length;
}

// ---- pass key -----------------------------------------------------------------------------------

static token_id *put_filler(token_id *to, int64_t count) {
  static const char filler[] =
      "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again. ";
  for (int64_t i = 0; i < count; i++) *to++ = (token_id)filler[i % (int64_t)(sizeof filler - 1)];
  return to;
}

static int64_t passkey(int64_t length, draws *d, token_id *tokens, token_id *targets,
                       int64_t *fact) {
  char told[80], answer[16];
  const char *asked = " What is the pass key? The pass key is ";
  int key = (int)below(d, 50000) + 1;
  snprintf(told, sizeof told, " The pass key is %d. Remember it. %d is the pass key. ", key, key);
  snprintf(answer, sizeof answer, "%d.", key);
  int64_t filler = length - (int64_t)(strlen(told) + strlen(asked) + strlen(answer));
  int64_t before = below(d, filler + 1);
  *fact = before;
  token_id *to = put_filler(tokens, before);
  to = put_filler(to + put_text(to, told), filler - before);
  to += put_text(to, asked);
  put_text(targets + (to - tokens) - 1, answer);
  return to - tokens + put_text(to, answer);
}

// ---- sequences ----------------------------------------------------------------------------------

static token_id padding(const train_task *t) {
  return task_rules_of[t->kind].text ? ' ' : t->kind == TASK_MQAR ? 0 : (token_id)(t->alphabet + 1);
}

int64_t task_sequence(const train_task *t, uint64_t seed, uint64_t stream, uint64_t position,
                      int64_t room, token_id *tokens, token_id *targets) {
  draws d = draws_of(seed, stream, position);
  int64_t length = t->shortest + below(&d, t->length - t->shortest + 1), used, fact = -1;
  for (int64_t i = 0; i < room; i++) targets[i] = NO_TARGET;
  if (t->kind == TASK_PASSKEY)
    used = passkey(length, &d, tokens, targets, &fact);
  else if (t->kind == TASK_BABI)
    used = babi_sequence(t, length, &d, tokens, targets, &fact);
  else if (t->kind == TASK_MQAR)
    used = mqar(t, length, &d, tokens, targets);
  else if (t->kind == TASK_SELECTIVE_COPYING)
    used = selective_copying(t, length, &d, tokens, targets);
  else
    used = copying(t, length, &d, tokens, targets);
  for (int64_t i = used; i < room; i++) tokens[i] = padding(t);
  for (int64_t i = 0; t->all && i + 1 < used; i++)
    if (targets[i] == NO_TARGET) targets[i] = tokens[i + 1];
  return fact;
}
