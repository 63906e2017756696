#include "runtime/ranks/patience.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(rank_answer) <= MOVER_ANSWER, "an answer fits into its message");

void patience_open(patience *p) { pthread_mutex_init(&p->lock, NULL); }
void patience_close(patience *p) { pthread_mutex_destroy(&p->lock); }

// ---- answers ---------------------------------------------------------------------------------

// A rank whose threads have lately computed a fiftieth of the time is not stuck; waiting takes
// less. A wait that has just been noted does not tell.
static bool computes(const patience *p, const rank_wait *w) {
  const rank_activity *a = &w->recent;
  double computed = p->processor(p->context) - a->processor_since;
  return !w->by_gpu &&
         (w->seconds == a->since || computed > 0.02 * (double)(w->seconds - a->since));
}

static rank_answer describe_wait(const rank_wait *w) {
  rank_answer a = {.receives = w->receives,
                   .peer = w->peer,
                   .kind = w->kind,
                   .layer = w->place.layer,
                   .step = w->place.step,
                   .seconds = w->seconds};
  snprintf(a.what, sizeof a.what, "%s", w->place.what);
  return a;
}

void patience_answer(void *context, void *answer) {
  patience *p = context;
  rank_answer *a = answer;
  const rank_wait *longest = NULL;
  pthread_mutex_lock(&p->lock);
  for (const rank_wait *w = p->waits; w; w = w->next)
    if (!longest || w->seconds > longest->seconds) longest = w;
  if (longest) {
    *a = describe_wait(longest);
    a->waits = true;
    a->computes = computes(p, longest);
  }
  pthread_mutex_unlock(&p->lock);
}

void patience_answered(void *context, int peer, const void *answer) {
  patience *p = context;
  pthread_mutex_lock(&p->lock);
  for (rank_wait *w = p->waits; w; w = w->next) {
    if (w->asked != peer) continue;
    memcpy(&w->answer, answer, sizeof w->answer);
    w->answered = true;
    w->answered_at = w->seconds;
  }
  pthread_mutex_unlock(&p->lock);
}

// ---- a second --------------------------------------------------------------------------------

typedef enum verdict { GOES_ON, ASKS, IS_OVER } verdict;

// Seconds that an answer may take.
static int64_t answer_time(const patience *p) {
  enum { MOST = 10 };
  int64_t half = p->seconds / 2;
  return half < 1 ? 1 : half > MOST ? MOST : half;
}

static process_state process_state_of(const patience *p, int rank) {
  return p->ranks ? neighbour_process(&p->ranks[p->mover->number], &p->ranks[rank])
                  : PROCESS_UNKNOWN;
}

// Seconds before the next question, so that the answer is there when the patience is over. One
// second would not tell who computes.
static int64_t pause(const patience *p) {
  int64_t rest = p->seconds - answer_time(p);
  return rest < 2 ? 2 : rest;
}

static void note_activity(patience *p, rank_wait *w) {
  const double processor = p->processor(p->context);
  w->ask_at = pause(p);
  w->recent = (rank_activity){w->seconds, w->seconds, processor, processor};
  w->next = p->waits;
  p->waits = w;
}

// What counts as lately: the time of one answer to two.
static void watch_activity(const patience *p, rank_wait *w) {
  rank_activity *a = &w->recent;
  if (w->seconds - a->until < answer_time(p)) return;
  *a = (rank_activity){a->until, w->seconds, a->processor_until, p->processor(p->context)};
}

static verdict ask_rank(rank_wait *w, int rank) {
  w->asked = rank;
  w->ask_at = w->seconds;
  w->answered = false;
  return ASKS;
}

static verdict ask_later(rank_wait *w, int64_t seconds) {
  w->ask_at = w->seconds + seconds;
  w->asked = w->peer;
  w->links = 0;
  return GOES_ON;
}

// A rank that waits leads to the one that it waits for, until one of them computes, or is this one:
// a circle. What is amiss further on ends the wait of the rank before it.
static verdict judge_answer(const patience *p, rank_wait *w) {
  const rank_answer *a = &w->answer;
  int own = p->mover->number;
  bool waits = a->waits && !a->computes, closes = waits && a->peer == own;
  bool long_enough = a->seconds + w->seconds - w->answered_at >= p->seconds;
  if (w->asked == w->peer) {
    w->direct = *a;
    w->direct.seconds += w->seconds - w->answered_at;
  }
  if (w->seconds >= MOST_PATIENCE * p->seconds || (closes && long_enough && !computes(p, w)))
    return IS_OVER;
  if (waits && !long_enough) return ask_later(w, 1);
  if (!waits || closes || ++w->links >= p->mover->count) return ask_later(w, pause(p));
  return ask_rank(w, a->peer);
}

// A process may have sent a message and ended in order. It has arrived a second later.
static verdict judge_wait(const patience *p, rank_wait *w) {
  enum { GONE = 2 };
  w->gone = process_state_of(p, w->peer) == PROCESS_ENDED ? w->gone + 1 : 0;
  if (w->gone == GONE) return IS_OVER;
  if (w->seconds < w->ask_at) return GOES_ON;
  if (w->seconds == w->ask_at) return ask_rank(w, w->peer);
  if (w->answered && w->seconds >= p->seconds) return judge_answer(p, w);
  if (w->seconds < w->ask_at + answer_time(p)) return GOES_ON;
  return w->asked == w->peer ? IS_OVER : ask_later(w, pause(p));
}

bool patience_second(patience *p, rank_wait *w) {
  pthread_mutex_lock(&p->lock);
  if (!w->seconds++) note_activity(p, w);
  watch_activity(p, w);
  verdict v = judge_wait(p, w);
  pthread_mutex_unlock(&p->lock);
  if (v == ASKS) mover_ask(p->mover, w->asked);
  return v != IS_OVER;
}

void patience_end(patience *p, rank_wait *w) {
  if (!w->seconds) return;
  pthread_mutex_lock(&p->lock);
  rank_wait **at = &p->waits;
  while (*at && *at != w) at = &(*at)->next;
  if (*at) *at = w->next;
  pthread_mutex_unlock(&p->lock);
}

// ---- for people ------------------------------------------------------------------------------

enum { TEXT = 512 };

// "states (states) from rank 1 at step 3, layer 2"
static void put_what(char text[TEXT], const rank_answer *a) {
  int length =
      snprintf(text, TEXT, "%s (%s) %s rank %d", a->what, message_kind_name((message_kind)a->kind),
               a->receives ? "from" : "on their way to", a->peer);
  if (a->step >= 0 && length < TEXT)
    length += snprintf(text + length, (size_t)(TEXT - length), " at step %" PRId64, a->step);
  if (a->layer >= 0 && length < TEXT)
    snprintf(text + length, (size_t)(TEXT - length), ", layer %d", a->layer);
}

static void put_silence(const patience *p, int peer, char text[TEXT]) {
  static const char *const states[] = {[PROCESS_STOPPED] = "is stopped",
                                       [PROCESS_IN_IO] = "waits for a disk or a driver",
                                       [PROCESS_RUNS] = "runs",
                                       [PROCESS_ENDED] = "has ended"};
  process_state state = process_state_of(p, peer);
  if (state == PROCESS_UNKNOWN)
    snprintf(text, TEXT, "does not answer: it has ended, is stopped, or the network to %s is cut",
             p->ranks ? p->ranks[peer].machine : "its machine");
  else
    snprintf(text, TEXT, "does not answer%s its process %ld %s",
             state == PROCESS_RUNS ? ", though" : ":", (long)p->ranks[peer].process, states[state]);
}

static void put_reason(const patience *p, const rank_wait *w, char text[TEXT]) {
  char what[TEXT];
  if (!w->answered || w->gone) {
    put_silence(p, w->peer, text);
  } else if (w->direct.waits && !w->direct.computes) {
    put_what(what, &w->direct);
    snprintf(text, TEXT, "itself has waited %" PRId64 " seconds for %.400s", w->direct.seconds,
             what);
  } else {
    snprintf(text, TEXT, "answers, and computes or reads and writes files");
  }
}

void patience_explain(patience *p, const rank_wait *w, char *text, size_t size) {
  const rank_answer own = describe_wait(w);
  char what[TEXT], reason[TEXT] = "";
  put_what(what, &own);
  pthread_mutex_lock(&p->lock);
  put_reason(p, w, reason);
  pthread_mutex_unlock(&p->lock);
  snprintf(text, size, "waited %" PRId64 " seconds for %s; rank %d %s%s", w->seconds, what, w->peer,
           reason, w->gone ? "" : "; --patience N waits longer");
}
