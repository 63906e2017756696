// Questions after the kind of bAbI (arXiv 1502.05698), their facts hidden among sentences that say
// nothing about them, as in BABILong (arXiv 2406.10149). In order, at random places between whole
// sentences:
//
//   .. the wind.  Mary went to the garden.  Rain fell ..  John moved to the office.  ..
//   Question: Where is Mary? Answer: garden.
//
// Task 1 asks where a person is. Task 2 asks where an object is that somebody carries. Task 6 asks
// whether a person is at a place: yes or no.
#include <stdio.h>
#include <string.h>

#include "runtime/train/data/tasks_draw.h"

static const char *const people[] = {"Mary", "John", "Daniel", "Sandra"};
static const char *const places[] = {"bathroom", "hallway", "garden",
                                     "office",   "bedroom", "kitchen"};
static const char *const objects[] = {"apple", "football", "milk"};
static const char *const moves[] = {"went", "moved", "travelled", "journeyed"};
static const char *const filler[] = {"The old clock struck nine and nobody heard it. ",
                                     "Rain had fallen since the morning. ",
                                     "A letter lay unopened for many days. ",
                                     "The wind turned and the birds were silent. ",
                                     "There was much talk of the harvest that year. ",
                                     "Far away a bell was ringing. ",
                                     "The river was higher than anyone could remember. ",
                                     "Snow covered the hills and the roads. ",
                                     "It was a long story and a sad one. ",
                                     "The candles burned low and the evening passed. ",
                                     "Three ships came in with the tide. ",
                                     "Nothing was said about it again. "};

enum { PEOPLE = 4, PLACES = 6, OBJECTS = 3, MOVES = 4, FILLERS = 12, NOBODY = -1 };

// A story: its facts as text, and what is so after them.
typedef struct story {
  char text[MOST_BABI_FACTS][48];
  int count;
  int place[PEOPLE], moved_by[PEOPLE];  // NOBODY: not told; the fact that told it
  int carrier[OBJECTS];                 // NOBODY: not told
} story;

static void tell_move(story *s, draws *d, int person) {
  int place = (int)below(d, PLACES);
  snprintf(s->text[s->count], sizeof *s->text, "%s %s to the %s. ", people[person],
           moves[below(d, MOVES)], places[place]);
  s->place[person] = place;
  s->moved_by[person] = s->count++;
}

static void tell_taking(story *s, draws *d, int person) {
  int object = (int)below(d, OBJECTS);
  snprintf(s->text[s->count], sizeof *s->text, "%s got the %s. ", people[person], objects[object]);
  s->carrier[object] = person;
  s->count++;
}

// One of `count` of which something is told: where a person is, who carries an object.
static int one_of(const int *told, int count, draws *d) {
  int one = (int)below(d, count);
  while (told[one] == NOBODY) one = (one + 1) % count;
  return one;
}

static int somebody(const story *s, draws *d) { return one_of(s->place, PEOPLE, d); }

static void tell(const train_task *t, story *s, draws *d) {
  memset(s, 0xFF, sizeof *s);  // all NOBODY
  s->count = 0;
  tell_move(s, d, (int)below(d, PEOPLE));
  while (s->count < t->count) {
    bool takes = t->alphabet == 2 && (s->count == 1 || below(d, 3) == 0);
    if (takes)
      tell_taking(s, d, somebody(s, d));
    else
      tell_move(s, d, (int)below(d, PEOPLE));
  }
}

typedef struct question {
  char text[80], answer[16];
  int fact;
} question;

static question ask_question(const train_task *t, const story *s, draws *d) {
  question q;
  if (t->alphabet == 2) {
    int object = one_of(s->carrier, OBJECTS, d), person = s->carrier[object];
    snprintf(q.text, sizeof q.text, "Question: Where is the %s? Answer: ", objects[object]);
    snprintf(q.answer, sizeof q.answer, "%s.", places[s->place[person]]);
    q.fact = s->moved_by[person];
    return q;
  }
  int person = somebody(s, d);
  q.fact = s->moved_by[person];
  if (t->alphabet == 1) {
    snprintf(q.text, sizeof q.text, "Question: Where is %s? Answer: ", people[person]);
    snprintf(q.answer, sizeof q.answer, "%s.", places[s->place[person]]);
    return q;
  }
  bool yes = below(d, 2) == 0;
  int place = yes ? s->place[person] : (s->place[person] + 1 + (int)below(d, PLACES - 1)) % PLACES;
  snprintf(q.text, sizeof q.text, "Question: Is %s in the %s? Answer: ", people[person],
           places[place]);
  snprintf(q.answer, sizeof q.answer, "%s.", yes ? "yes" : "no");
  return q;
}

// How many whole sentences fit into `room` bytes; in *left what they leave.
static int64_t count_filler(draws d, int64_t room, int64_t *left) {
  int64_t count = 0;
  for (;; count++) {
    int64_t size = (int64_t)strlen(filler[below(&d, FILLERS)]);
    if (size > room) break;
    room -= size;
  }
  *left = room;
  return count;
}

int64_t babi_sequence(const train_task *t, int64_t length, draws *d, token_id *tokens,
                      token_id *targets, int64_t *fact) {
  story s;
  int64_t slots[MOST_BABI_FACTS], left, at = 0, room = length;
  tell(t, &s, d);
  question q = ask_question(t, &s, d);
  for (int i = 0; i < s.count; i++) room -= (int64_t)strlen(s.text[i]);
  room -= (int64_t)(strlen(q.text) + strlen(q.answer));
  draws sentences = {d->seed, d->stream, d->next + MOST_BABI_FACTS};
  int64_t count = count_filler(sentences, room, &left);
  for (int i = 0; i < s.count; i++) {
    slots[i] = below(d, count + 1);
    for (int k = i; k > 0 && slots[k - 1] > slots[k]; k--) {
      int64_t old = slots[k];
      slots[k] = slots[k - 1], slots[k - 1] = old;
    }
  }
  // The text begins with the end of a sentence, so that it has the length that is asked for.
  const char *first = filler[0];
  for (; left > 0; left--)
    tokens[at++] =
        (token_id)first[(int64_t)strlen(first) - 1 - (left - 1) % (int64_t)strlen(first)];
  for (int64_t slot = 0, told = 0; slot <= count; slot++) {
    for (; told < s.count && slots[told] == slot; told++) {
      if (told == q.fact) *fact = at;
      at += put_text(tokens + at, s.text[told]);
    }
    if (slot < count) at += put_text(tokens + at, filler[below(&sentences, FILLERS)]);
  }
  at += put_text(tokens + at, q.text);
  put_text(targets + at - 1, q.answer);
  return at + put_text(tokens + at, q.answer);
}
