// What a call lays out beside the kernels of a recurrence with long lags (runtime/support/delay.h):
// which rows of which memories.
//
//   x[t-512] at step t          row t - 512 of x, row 512 + t - 512 of h0.x.lag: each where there is such a row
//   hT.x.lag, entry j           row j - 512 + T of x, row j + T of h0.x.lag
//   d.x at step t               the kernels' d.x, row t + 512 of d.x[t-512], row t + 512 - T of d.hT.x.lag
//   d.h0.x.lag, entry j         row j of d.x[t-512], row j - T of d.hT.x.lag
#include "compiler/artifact/tables.h"

typedef struct row_list {
  arena *arena;
  const artifact_recurrence *r;
  artifact_rows rows;
} row_list;

static const typed_lag *typed_lag_of(const row_list *l, int lag) {
  return &l->r->abi->body->lags.items[lag];
}

static artifact_row_sources *begin_rows(row_list *l, int when, bool inner, abi_role role,
                                        int tensor, int lag) {
  const abi_recurrence *abi = inner ? l->r->inner : l->r->abi;
  artifact_row_sources x = {
      .rows = {.memory = abi_find(abi, role, tensor, lag), .inner = inner, .when = when}};
  if (lag >= 0) x.rows.rows = typed_lag_of(l, lag)->depth;
  vec_push(l->arena, &l->rows, x);
  return &l->rows.items[l->rows.count - 1];
}

// Steps of a tensor.
static void add_tensor_steps(row_list *l, artifact_row_sources *x, bool inner, abi_role role,
                             int tensor, int offset, int ends) {
  const abi_recurrence *abi = inner ? l->r->inner : l->r->abi;
  rec_table_row_source rows = {
      .memory = abi_find(abi, role, tensor, -1), .inner = inner, .offset = offset, .ends = ends};
  vec_push(l->arena, &x->sources, rows);
}

// Entries of a lag buffer of the caller's.
static void add_lag_entries(row_list *l, artifact_row_sources *x, abi_role role, int lag,
                            int offset, int ends) {
  rec_table_row_source rows = {.memory = abi_find(l->r->abi, role, -1, lag),
                               .rows = typed_lag_of(l, lag)->depth,
                               .offset = offset,
                               .ends = ends};
  vec_push(l->arena, &x->sources, rows);
}

static void add_delay(row_list *l, const recurrence_delay *d) {
  artifact_row_sources *x = begin_rows(l, REC_ROWS_BEFORE, true, ABI_VALUE, d->tensor, -1);
  if (d->starts)
    vec_push(l->arena, &x->sources, (rec_table_row_source){.memory = -1, .rows = d->steps});
  if (d->source >= 0) add_tensor_steps(l, x, false, ABI_VALUE, d->source, -d->steps, 0);
  if (d->lag >= 0)
    add_lag_entries(l, x, ABI_H0, d->lag, typed_lag_of(l, d->lag)->depth - d->steps, 0);
}

static bool is_delayed_lag(const row_list *l, int lag) { return l->r->delays->lags[lag] < 0; }

// The last values of a buffer that no kernel has.
static void add_last_rows(row_list *l, int lag) {
  int input = typed_lag_of(l, lag)->input, depth = typed_lag_of(l, lag)->depth,
      kept = l->r->delays->kept[lag];
  artifact_row_sources *x = begin_rows(l, REC_ROWS_AFTER_FORWARD, false, ABI_HT, -1, lag);
  add_tensor_steps(l, x, input < 0, ABI_VALUE, input < 0 ? kept : input, -depth, 1);
  add_lag_entries(l, x, ABI_H0, lag, 0, 1);
  if (kept < 0) return;
  x = begin_rows(l, REC_ROWS_BEFORE_BACKWARD, true, ABI_D_VALUE, kept, -1);
  add_lag_entries(l, x, ABI_D_HT, lag, depth, -1);
}

// A lag whose readers were folded away has no delay, but gradients of its last values.
static bool goes_into_lag(const row_list *l, int input, int lag) {
  return typed_lag_of(l, lag)->input == input && is_delayed_lag(l, lag);
}

static void add_gradient_of_input(row_list *l, int input) {
  const recurrence_delays *delays = l->r->delays;
  int lags = l->r->abi->body->lags.count;
  bool any = false;
  for (int i = 0; i < delays->delays.count; i++) any |= delays->delays.items[i].source == input;
  for (int i = 0; i < lags; i++) any |= goes_into_lag(l, input, i);
  if (!any) return;
  artifact_row_sources *x = begin_rows(l, REC_ROWS_AFTER_BACKWARD, false, ABI_D_VALUE, input, -1);
  add_tensor_steps(l, x, true, ABI_D_VALUE, input, 0, 0);
  vec_each(const recurrence_delay, d, delays->delays)
    if (d->source == input) add_tensor_steps(l, x, true, ABI_D_VALUE, d->tensor, d->steps, 0);
  for (int i = 0; i < lags; i++)
    if (goes_into_lag(l, input, i))
      add_lag_entries(l, x, ABI_D_HT, i, typed_lag_of(l, i)->depth, -1);
}

static bool is_lag_read(const row_list *l, int lag) {
  for (int i = 0; i < l->r->delays->delays.count; i++)
    if (l->r->delays->delays.items[i].lag == lag) return true;
  return false;
}

static void add_gradient_of_buffer(row_list *l, int lag) {
  if (!is_delayed_lag(l, lag) && !is_lag_read(l, lag)) return;
  const recurrence_delays *delays = l->r->delays;
  int depth = typed_lag_of(l, lag)->depth;
  artifact_row_sources *x = begin_rows(l, REC_ROWS_AFTER_BACKWARD, false, ABI_D_H0, -1, lag);
  if (is_delayed_lag(l, lag)) {
    add_lag_entries(l, x, ABI_D_HT, lag, 0, -1);
  } else {
    rec_table_row_source own = {.memory = abi_find(l->r->inner, ABI_D_H0, -1, delays->lags[lag]),
                                .inner = true,
                                .rows = depth};
    vec_push(l->arena, &x->sources, own);
  }
  vec_each(const recurrence_delay, d, delays->delays)
    if (d->lag == lag) add_tensor_steps(l, x, true, ABI_D_VALUE, d->tensor, d->steps - depth, 0);
}

// Gradients of buffers come last: they may take the place of d.hT.
artifact_rows artifact_delay_rows(arena *a, const artifact_recurrence *r) {
  row_list l = {.arena = a, .r = r};
  const typed_body *body = r->abi->body;
  for (int i = 0; i < r->delays->delays.count; i++) add_delay(&l, &r->delays->delays.items[i]);
  for (int i = 0; i < body->lags.count; i++)
    if (is_delayed_lag(&l, i)) add_last_rows(&l, i);
  for (int i = 0; i < body->tensors.count; i++)
    if (body->tensors.items[i].kind == TENSOR_INPUT) add_gradient_of_input(&l, i);
  for (int i = 0; i < body->lags.count; i++) add_gradient_of_buffer(&l, i);
  return l.rows;
}

static int outer_lag(const artifact_recurrence *r, int inner) {
  for (int i = 0; i < r->abi->body->lags.count && inner >= 0; i++)
    if (r->delays->lags[i] == inner) return i;
  return -1;
}

int32_t *artifact_inner_memories(arena *a, const artifact_recurrence *r) {
  int32_t *memories = ARENA_ARRAY(a, int32_t, r->inner->memories.count);
  for (int i = 0; i < r->inner->memories.count; i++) {
    const abi_memory *m = &r->inner->memories.items[i];
    memories[i] = abi_find(r->abi, m->role, m->tensor, outer_lag(r, m->lag));
  }
  artifact_rows rows = artifact_delay_rows(a, r);
  for (int i = 0; i < rows.count; i++)
    for (int k = 0; k < rows.items[i].sources.count; k++)
      if (rows.items[i].sources.items[k].inner)
        memories[rows.items[i].sources.items[k].memory] = -1;
  return memories;
}
