#include "runtime/train/turns.h"

#include "runtime/train/leaves.h"
#include "runtime/train/starts.h"

// Shards that the first place has under way. Each takes the memory of its activations, so that there are few. A rank waits for the
// one behind it as long as the recurrences of one layer take, forward and backward. If they are a third of the layer, a rank needs to
// be ahead by one layer.
static int64_t most_under_way(const train_model *m, const compute *where, int64_t places, int64_t count) {
  enum { MOST = 4 };
  int64_t layers = starts_layer_count(m);
  if (!compute_is_host(where) || layers == 0) return 1;  // messages of a device have one order on both of its ends
  return least_of(least_of(1 + ceiling(places - 1, layers), MOST), count > 0 ? count : 1);
}

// The last operation with states up to this one; a pass is cut before it.
static int64_t cut_before(const train_model *m, int64_t op) {
  while (op > 0 && m->ops[op].state_count == 0) op--;
  return op;
}

// Where all shards may be under way, all run forward first. Otherwise the places are ahead of each other by equal parts.
turns turns_of(const train_model *m, const compute *where, int64_t place, int64_t places, int64_t count) {
  const int64_t n = m->op_count, most = most_under_way(m, where, places, count), all = (most - 1) * n;
  int64_t ahead = most == count ? all : all * (places - 1 - place) / (places > 1 ? places - 1 : 1);
  return (turns){.count = count, .operations = n, .ahead = ahead / n * n + cut_before(m, ahead % n)};
}

int64_t turns_under_way(const turns *t) { return 1 + ceiling(t->ahead, t->operations); }

bool turns_next(turns *t, turn *next) {
  const int64_t n = t->operations, until = least_of((t->backward + 1) * n + t->ahead, t->count * n);
  if (t->backward == t->count) return false;
  if (t->forward < until) {
    int64_t first = t->forward % n, end = least_of(n, first + until - t->forward);
    *next = (turn){.shard = t->forward / n, .operations = {(int)first, (int)end}};
    t->forward += end - first;
  } else {
    *next = (turn){.shard = t->backward++, .backward = true};
  }
  return true;
}

static rec_status need_at(const train_model *m, const train_kernel *kernels, const compute *where, const executor_form *form,
                          int64_t place, int64_t places, int64_t count, int64_t *bytes) {
  const turns order = turns_of(m, where, place, places, count);
  executor_bytes_needed of = {0};
  rec_status status = executor_need(m, kernels, where, form, (int)place, (int)places, &of);
  *bytes = of.whole + (turns_under_way(&order) - 1) * of.beside;
  return status;
}

// The ranks between the first and the last have neighbours on both sides; none of them has more under way than the next after the
// first.
rec_status turns_need(const train_model *m, const train_kernel *kernels, const compute *where, const executor_form *form,
                      int64_t places, int64_t count, int64_t *bytes) {
  int64_t second = 0;
  rec_status status = need_at(m, kernels, where, form, 0, places, count, bytes);
  if (!status && places > 1) status = need_at(m, kernels, where, form, 1, places, count, &second);
  if (second > *bytes) *bytes = second;
  return status;
}
