// Folds summaries of segments into states, and combines them: NAME_fold, NAME_combine. Folds go
// segment after segment, backward from the last.
#include <stdatomic.h>
#include <string.h>

#include "runtime/support/gpu.h"
#include "runtime/support/segment.h"

typedef struct folding {
  const call *call;
  const rec_segments *segments;
  bool back;
  char *states[2];
  int64_t first, last, all;  // instances
  int64_t blocks;            // of instances
  _Atomic int64_t next;      // block
} folding;

static const void *summary_in_order(const rec_segments *segments, int64_t number) {
  return segments->summaries[segments->backward ? segments->count - 1 - number : number];
}

int64_t fold_workspace(const call *c) {
  int64_t bytes = 0;
  for (int back = 0; back < 2; back++) bytes = larger(bytes, segment_bytes(c, back));
  return 2 * bytes;
}

// Copies the states of instances between a caller's memory and the states of a fold; `from` NULL:
// zeros.
static void copy_folded(const folding *x, int part, char *to, const char *from) {
  const call *c = x->call;
  int64_t bytes = segment_numbers(c, part) * c->table->number_bytes / x->all;
  if (!to) return;
  if (from)
    memmove(to + x->first * bytes, from + x->first * bytes, (size_t)((x->last - x->first) * bytes));
  else
    memset(to + x->first * bytes, 0, (size_t)((x->last - x->first) * bytes));
}

static void each_folded(const folding *x, bool out) {
  const call *c = x->call;
  const rec_table_summary *of = segment_of(c, x->back);
  for (int i = 0; i < of->part_count; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    if (part->kind != REC_PART_OWN) continue;
    char *states = x->states[out ? x->segments->count & 1 : 0] + segment_part_at(c, of, i);
    void *before = call_data(c, table_memory(c->table, part->state)),
         *after = call_data(c, table_memory(c->table, part->memory));
    copy_folded(x, part->memory, out ? after : states, out ? states : before);
  }
}

// Cotangents that no earlier step reads have no part.
static void clear_unread(const folding *x) {
  const call *c = x->call;
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    bool state = stage_is_state(memory) && !memory->depth && memory->copy_from >= 0;
    bool written = (x->back ? memory->backward_use : memory->forward_use) == REC_WRITE_OPTIONAL;
    if (state && written && segment_own_part(c, segment_of(c, x->back), memory->copy_from) < 0)
      copy_folded(x, i, call_data(c, memory), NULL);
  }
}

// Takes the instances of a block through all segments.
static void fold_block(const folding *x, int64_t block) {
  int64_t count = x->last - x->first;
  fold f = {.call = x->call, .of = segment_of(x->call, x->back), .block = -1, .all = x->all};
  f.first = x->first + count * block / x->blocks;
  f.last = x->first + count * (block + 1) / x->blocks;
  for (int64_t i = 0; i < x->segments->count; i++) {
    f.summary = summary_in_order(x->segments, i);
    f.before = x->states[i & 1];
    f.after = x->states[~i & 1];
    fold_segment(&f);
  }
}

static void fold_lane(void *argument, int64_t lane) {
  folding *x = argument;
  (void)lane;
  for (;;) {
    int64_t block = atomic_fetch_add_explicit(&x->next, 1, memory_order_relaxed);
    if (block >= x->blocks) return;
    fold_block(x, block);
  }
}

static rec_status check_segments(const call *c, const rec_segments *segments) {
  if (!segments) return call_fail(c, REC_ERROR_ARGUMENT, "expected rec_segments, found NULL");
  if (segments->size < sizeof *segments)
    return call_fail(c, REC_ERROR_ABI,
                     "expected rec_segments of at least %zu bytes, found size = %llu; set it to "
                     "sizeof(rec_segments)",
                     sizeof *segments, (unsigned long long)segments->size);
  if (segments->count < 0 || (segments->count && !segments->summaries))
    return call_fail(c, REC_ERROR_ARGUMENT, "expected a list of at least 0 summaries, found %s%lld",
                     segments->summaries ? "" : "NULL, ", (long long)segments->count);
  if (segments->backward != 0 && segments->backward != 1)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected backward = 0 or 1, found %d",
                     segments->backward);
  if (c->packed)
    return call_fail(
        c, REC_ERROR_ARGUMENT,
        "expected batch = 1 and no cu_seqlens of packed sequences, found %lld sequences",
        (long long)c->sequences);
  rec_status status = REC_OK;
  for (int64_t i = 0; i < segments->count && status == REC_OK; i++)
    if (c->batch > 0) status = segment_check_memory(c, segments->summaries[i]);
  return status;
}

static rec_status read_fold(call *c, const rec_table *table, const char *entry,
                            const void *arguments, const rec_launch *launch,
                            const rec_segments *segments) {
  rec_status status = call_read(c, table, entry, arguments, launch);
  if (status == REC_OK) status = check_segments(c, segments);
  if (status == REC_OK && launch->device_kind == REC_DEVICE_HOST)
    status = segment_check(c, segments->backward);
  return status;
}

static rec_status check_fold_workspace(const call *c) {
  const rec_launch *launch = c->launch;
  return call_check_buffer(c, "a workspace", launch->workspace, launch->workspace_bytes,
                           fold_workspace(c));
}

static rec_status check_folded(const call *c, bool back) {
  const rec_table_summary *of = segment_of(c, back);
  rec_status status = REC_OK;
  for (int i = 0; i < of->part_count && status == REC_OK; i++) {
    const rec_table_part *part = segment_part(c, of, i);
    if (part->kind != REC_PART_OWN) continue;
    status = call_check_memory(c, table_memory(c->table, part->state), REC_READ_OPTIONAL);
    if (status == REC_OK)
      status = call_check_memory(c, table_memory(c->table, part->memory), REC_WRITE_OPTIONAL);
  }
  return status;
}

static bool any_out_of_range(const rec_segments *segments) {
  bool any = false;
  for (int64_t i = 0; i < segments->count; i++)
    any |= segment_is_out_of_range(segments->summaries[i]);
  return any;
}

rec_status fold_segments(const rec_table *table, const void *arguments, const rec_launch *launch,
                         const rec_segments *segments) {
  enum { MOST_BLOCKS = 64, WORTH_THREADS = 1 << 17 };
  call c;
  folding x = {.call = &c, .segments = segments};
  rec_status status = read_fold(&c, table, "fold", arguments, launch, segments);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    return gpu_fold_call(&c, segments);
  if (status == REC_OK) status = check_folded(&c, segments->backward);
  if (status == REC_OK) {
    x.all = segment_instances(&c);
    status = segment_find_instances(&c, x.all, &x.first, &x.last);
  }
  if (status == REC_OK) status = check_fold_workspace(&c);
  if (status != REC_OK) return status;
  if (segments->out_of_range) *segments->out_of_range = c.batch > 0 && any_out_of_range(segments);
  x.back = segments->backward;
  if (x.last == x.first) return REC_OK;
  x.states[0] = launch->workspace;
  x.states[1] = x.states[0] + segment_bytes(&c, x.back);
  x.blocks = smaller(MOST_BLOCKS, x.last - x.first);
  each_folded(&x, false);
  stage_run_parallel(&c, x.blocks, segment_states_bytes(&c, x.back) > WORTH_THREADS, fold_lane, &x);
  each_folded(&x, true);
  clear_unread(&x);
  return REC_OK;
}

int rec_combine_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                      const rec_segments *segments, void *summary) {
  call c;
  rec_status status = read_fold(&c, table, "combine", arguments, launch, segments);
  if (status == REC_OK) status = call_check_instances(&c);
  if (status == REC_OK && segments->count < 1)
    status = call_fail(&c, REC_ERROR_ARGUMENT, "expected at least 1 summary, found %lld",
                       (long long)segments->count);
  if (status == REC_OK && launch->device_kind != REC_DEVICE_HOST)
    return gpu_combine_call(&c, segments, summary);
  if (status == REC_OK) status = segment_check_memory(&c, summary);
  if (status == REC_OK) status = check_fold_workspace(&c);
  if (status != REC_OK) return status;
  bool back = segments->backward;
  int64_t bytes = segment_bytes(&c, back), all = segment_instances(&c);
  char *both[2] = {launch->workspace, (char *)launch->workspace + bytes};
  fold f = {.call = &c, .of = segment_of(&c, back), .block = -1, .last = all, .all = all};
  bool out_of_range = c.batch > 0 && any_out_of_range(segments);
  if (c.batch > 0) memcpy(both[0], summary_in_order(segments, 0), (size_t)bytes);
  for (int64_t i = 1; i < segments->count && c.batch > 0; i++) {
    f.summary = summary_in_order(segments, i);
    f.before = both[~i & 1];
    f.after = both[i & 1];
    fold_summaries(&f);
  }
  memcpy(summary, both[~segments->count & 1], (size_t)bytes);
  segment_guard(&c, back, summary, out_of_range);
  if (segments->out_of_range) *segments->out_of_range = segment_is_out_of_range(summary);
  return REC_OK;
}
