// Folds summaries of segments into states, and combines them: NAME_fold, NAME_combine. Folds go
// segment after segment, backward from the last.
#include <stdatomic.h>

#include "runtime/support/fold.h"

static const void *summary_in_order(const rec_segments *segments, int64_t number) {
  return segments->summaries[segments->backward ? segments->count - 1 - number : number];
}

// Zeros of a GPU, then states before and after, or two summaries.
static int64_t fold_zeros(const segment_layout *l) { return l->device ? REC_ALIGNMENT : 0; }

int64_t fold_workspace(const segment_layout *l) {
  if (l->why_not || (l->device && l->entries == 0)) return 0;
  return fold_zeros(l) + 2 * larger(segment_states_bytes(l), segment_bytes(l));
}

// ---- folds -----------------------------------------------------------------------------------

// Blocks of instances go through all segments by themselves.
typedef struct fold_blocks {
  const folding *all;
  const rec_segments *segments;
  int64_t blocks;
  _Atomic int64_t next;
} fold_blocks;

static void fold_all(folding *f, const rec_segments *segments) {
  for (int64_t i = 0; i < segments->count && f->status == REC_OK; i++) {
    f->summary = summary_in_order(segments, i);
    fold_states(f);
    char *from = f->from;
    f->from = f->to;
    f->to = from;
  }
}

static void fold_lane(void *argument, int64_t lane) {
  fold_blocks *x = argument;
  (void)lane;
  for (;;) {
    int64_t block = atomic_fetch_add_explicit(&x->next, 1, memory_order_relaxed);
    if (block >= x->blocks) return;
    folding f = *x->all;
    int64_t count = f.last - f.first;
    f.last = f.first + count * (block + 1) / x->blocks;
    f.first += count * block / x->blocks;
    fold_all(&f, x->segments);
  }
}

static void fold_on_host(folding *f, const rec_segments *segments) {
  enum { MOST_BLOCKS = 64, WORTH_THREADS = 1 << 17 };
  bool worth = segment_states_bytes(f->layout) > WORTH_THREADS;
  fold_blocks x = {.all = f, .segments = segments};
  x.blocks = smaller(worth ? MOST_BLOCKS : 1, f->last - f->first);
  stage_run_parallel(f->layout->call, x.blocks, worth, fold_lane, &x);
  if (segments->count & 1) f->from = f->to;
}

// ---- calls -----------------------------------------------------------------------------------

static rec_status check_call_segments(const call *c, const rec_segments *segments) {
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

static rec_status find_instances(const segment_layout *l, int64_t *first, int64_t *last) {
  const call *c = l->call;
  int64_t all = l->instances;
  *first = c->first_instance;
  *last = c->instance_count ? *first + c->instance_count : all;
  if (*first >= 0 && c->instance_count >= 0 && *first <= all && c->instance_count <= all - *first)
    return REC_OK;
  return call_fail(c, REC_ERROR_ARGUMENT,
                   "expected instances within 0 to %lld, found %lld from %lld on",
                   (long long)all - 1, (long long)c->instance_count, (long long)c->first_instance);
}

static rec_status check_states(const segment_layout *l) {
  const call *c = l->call;
  rec_status status = REC_OK;
  for (int i = 0; i < l->part_count && status == REC_OK; i++) {
    const rec_table_part *part = segment_part(l, i);
    if (part->kind != REC_PART_OWN) continue;
    status = call_check_memory(c, table_memory(c->table, part->state), REC_READ_OPTIONAL);
    if (status == REC_OK)
      status = call_check_memory(c, table_memory(c->table, part->memory), REC_WRITE_OPTIONAL);
  }
  return status;
}

typedef struct fold_call {
  call c;
  gpu_device device;
  segment_layout layout;
} fold_call;

static rec_status open_call(fold_call *x, const rec_table *table, const char *entry,
                            const void *arguments, const rec_launch *launch,
                            const rec_segments *segments) {
  rec_status status = call_read(&x->c, table, entry, arguments, launch);
  if (status == REC_OK) status = check_call_segments(&x->c, segments);
  if (status != REC_OK) return status;
  bool on_host = launch->device_kind == REC_DEVICE_HOST;
  if (!on_host) status = gpu_device_find(&x->c, launch->device_kind, &x->device);
  if (status != REC_OK) return status;
  x->layout = segment_layout_of(&x->c, on_host ? NULL : &x->device, segments->backward);
  return segment_check(&x->layout);
}

static rec_status begin_call(folding *f, const segment_layout *l, const rec_segments *segments) {
  const rec_launch *launch = l->call->launch;
  rec_status status = call_check_buffer(l->call, "a workspace", launch->workspace,
                                        launch->workspace_bytes, fold_workspace(l));
  if (status != REC_OK) return status;
  *f = fold_open(l, launch->workspace);
  f->out_of_range = segments->out_of_range;
  if (f->out_of_range) fold_copy(f, f->out_of_range, NULL, sizeof *f->out_of_range);
  return f->status;
}

rec_status fold_segments(const rec_table *table, const void *arguments, const rec_launch *launch,
                         const rec_segments *segments) {
  fold_call x;
  folding f;
  int64_t first, last;
  rec_status status = open_call(&x, table, "fold", arguments, launch, segments);
  if (status == REC_OK) status = check_states(&x.layout);
  if (status == REC_OK) status = find_instances(&x.layout, &first, &last);
  if (status == REC_OK) status = begin_call(&f, &x.layout, segments);
  if (status != REC_OK || x.layout.entries == 0) return status;
  for (int64_t i = 0; i < segments->count; i++)
    fold_note_out_of_range(&f, summary_in_order(segments, i));
  f.first = first;
  f.last = last;
  if (first == last) return f.status;
  f.from = (char *)launch->workspace + fold_zeros(&x.layout);
  f.to = f.from + segment_states_bytes(&x.layout);
  fold_read_states(&f);
  if (x.layout.device)
    fold_all(&f, segments);
  else
    fold_on_host(&f, segments);
  fold_write_states(&f);
  return f.status;
}

static void combine_all(folding *f, const rec_segments *segments, char *summary) {
  const segment_layout *l = f->layout;
  int64_t bytes = segment_bytes(l);
  char *workspace = (char *)l->call->launch->workspace + fold_zeros(l);
  char *both[2] = {workspace, workspace + bytes};
  fold_copy(f, both[0], summary_in_order(segments, 0), bytes);
  for (int64_t i = 1; i < segments->count && f->status == REC_OK; i++) {
    f->summary = summary_in_order(segments, i);
    f->before = both[~i & 1];
    f->both = both[i & 1];
    fold_summaries(f);
  }
  fold_copy(f, summary, both[~segments->count & 1], bytes);
}

int rec_combine_entry(const rec_table *table, const void *arguments, const rec_launch *launch,
                      const rec_segments *segments, void *summary) {
  fold_call x;
  folding f;
  rec_status status = open_call(&x, table, "combine", arguments, launch, segments);
  if (status == REC_OK) status = call_check_instances(&x.c);
  if (status == REC_OK && segments->count < 1)
    status = call_fail(&x.c, REC_ERROR_ARGUMENT, "expected at least 1 summary, found %lld",
                       (long long)segments->count);
  if (status == REC_OK) status = segment_check_memory(&x.c, summary);
  if (status == REC_OK) status = begin_call(&f, &x.layout, segments);
  if (status != REC_OK) return status;
  bool any = false;
  if (x.layout.entries > 0) combine_all(&f, segments, summary);
  for (int64_t i = 0; i < segments->count && !x.layout.device && x.layout.entries > 0; i++)
    any |= segment_is_out_of_range(segments->summaries[i]);
  if (!x.layout.device) segment_guard(&x.layout, summary, any);
  fold_note_out_of_range(&f, summary);
  return f.status;
}
