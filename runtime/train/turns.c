#include "runtime/train/turns.h"

#include "runtime/train/model/leaves.h"
#include "runtime/train/starts.h"

// Shards that the first place has under way. Each takes the memory of its activations, so that
// there are few. A rank waits for the one behind it as long as the recurrences of one layer take,
// forward and backward. If they are a third of the layer, a rank needs to be ahead by one layer.
static int64_t most_under_way(const train_model *m, const turn_line *line) {
  int64_t layers = starts_layer_count(m), most = line->most > 0 ? line->most : MOST_UNDER_WAY;
  if (layers == 0) return 1;
  return least_of(least_of(1 + ceiling(line->places - 1, layers), most), most_of(line->count, 1));
}

// The last operation with states up to this one; a pass is cut before it.
static int64_t cut_before(const train_model *m, int64_t op) {
  while (op > 0 && m->ops[op].state_count == 0) op--;
  return op;
}

// Where all shards may be under way, all run forward first. Otherwise the places are ahead of each
// other by equal parts, which are one shard at most.
static int64_t ahead_at(const train_model *m, const turn_line *line, int64_t place) {
  const int64_t n = m->op_count, most = most_under_way(m, line), all = (most - 1) * n,
                last = line->places - 1;
  int64_t ahead = most == line->count ? all : all * (last - place) / most_of(last, 1);
  return ahead / n * n + cut_before(m, ahead % n);
}

turns turns_of(const train_model *m, const turn_line *line, int64_t place) {
  return (turns){.count = line->count,
                 .operations = m->op_count,
                 .ahead = ahead_at(m, line, place),
                 .ahead_before = ahead_at(m, line, most_of(place - 1, 0)),
                 .ahead_behind = ahead_at(m, line, least_of(place + 1, line->places - 1))};
}

int64_t turns_under_way(const turns *t) { return 1 + ceiling(t->ahead, t->operations); }

// The operations that a rank so far ahead runs forward before the backward pass of a shard.
static int64_t forward_until(const turns *t, int64_t number, int64_t ahead) {
  return least_of((number + 1) * t->operations + ahead, t->count * t->operations);
}

// What has come with the cotangents of the shard before, and what is kept for those of the next
// one, has no message of its own.
static turn forward_turn(const turns *t, int64_t end) {
  const int64_t n = t->operations, number = t->forward / n;
  const int64_t come = t->backward ? forward_until(t, t->backward - 1, t->ahead_before) : 0;
  const int64_t kept = forward_until(t, t->backward, t->ahead_behind);
  return (turn){.shard = number,
                .operations = {(int)(t->forward - number * n), (int)(end - number * n)},
                .takes = {most_of(t->forward, come), end},
                .gives = {t->forward, least_of(end, kept)}};
}

static turn backward_turn(const turns *t) {
  const int64_t number = t->backward, own = forward_until(t, number, t->ahead);
  return (turn){.shard = number,
                .backward = true,
                .takes = {own, forward_until(t, number, t->ahead_before)},
                .gives = {forward_until(t, number, t->ahead_behind), own}};
}

bool turns_next(turns *t, turn *next) {
  if (t->backward == t->count) return false;
  int64_t until = forward_until(t, t->backward, t->ahead);
  if (t->forward < until) {
    int64_t end = least_of(until, (t->forward / t->operations + 1) * t->operations);
    *next = forward_turn(t, end);
    t->forward = end;
  } else {
    *next = backward_turn(t);
    t->backward++;
  }
  return true;
}

op_range turns_of_shard(const turns *t, turn_range range, int64_t number) {
  const int64_t n = t->operations, before = number * n;
  int64_t first = most_of(range.first - before, 0), end = least_of(range.end - before, n);
  return (op_range){(int)first, (int)most_of(first, end)};
}

static rec_status need_at(const trained_model *of, const executor_form *form, const turn_line *line,
                          int64_t place, int64_t *bytes) {
  const turns order = turns_of(of->model, line, place);
  executor_bytes_needed of_one = {0};
  rec_status status = executor_need(of, form, (int)place, (int)line->places, &of_one);
  *bytes = of_one.whole + (turns_under_way(&order) - 1) * of_one.beside;
  return status;
}

// The ranks between the first and the last have neighbours on both sides; none of them has more
// under way than the next after the first.
rec_status turns_need(const trained_model *of, const executor_form *form, const turn_line *line,
                      int64_t *bytes) {
  int64_t second = 0;
  rec_status status = need_at(of, form, line, 0, bytes);
  if (!status && line->places > 1) status = need_at(of, form, line, 1, &second);
  if (second > *bytes) *bytes = second;
  return status;
}
