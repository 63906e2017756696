// GPU: time slices of running maxima and of states relative to them (recurrence/relative.c).
//
//   KERNEL_SUMMARY:   no maximum, states 0, sums of logarithms 0 .. all chunks of the slice .. summary: M, S^, F, D
//   FORWARD:       for each slice before this one:  S = exp(min(0, d) + D) S + exp(min(0, -d)) S^,  m = max(F + m, M)
//                  where d = F + m - M
#include "compiler/abi/segment.h"
#include "compiler/kernel/gpu/frame.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/lower/gpu/nests.h"

void gpu_begin_maxima(kernel_frame *h, frame_program *p) {
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (kernel_is_maximum(place))
      frame_fill_state(h, p, place, SEGMENT_NO_MAXIMUM, &p->l.carried[c]);
  }
}

// An element of the summary that a state is combined with; absent: there is none.
typedef struct term {
  bool there;
  view v;
  axis_set axes;
} term;

typedef struct relative {
  const view *state;
  axis_set axes;
  bool is_maximum;
  term kept, sum;                // S^, D; for the maximum itself M, F
  term maximum, largest, shift;  // m, M, F
} relative;

static ir term_at(lower *l, const place_in_loops *at, const term *t) {
  emitter *e = l->e;
  int lanes = at->vector_axis >= 0 ? at->lanes : 0;
  if (!t->there) return real_number(e, 0, lanes);
  return spread(e, view_load(l, &t->v, at, t->axes), lanes);
}

static ir power_of(emitter *e, ir x) { return expr_apply(e, TILE_EXP, &x); }

ir gpu_joined_maximum(emitter *e, gpu_maximum m) {
  return expr_apply(e, TILE_MAX, (ir[]){real_add(e, m.before, m.shift), m.largest});
}

ir gpu_joined_relative(emitter *e, int lanes, gpu_maximum m, gpu_relative r) {
  ir zero = real_number(e, 0, lanes);
  ir above = real_sub(e, real_add(e, m.before, m.shift), m.largest), below = real_neg(e, above);
  ir keeps = expr_apply(e, TILE_MIN, (ir[]){above, zero}),
     writes = expr_apply(e, TILE_MIN, (ir[]){below, zero});
  ir own = real_mul(e, power_of(e, writes), r.own);
  return real_fma(e, power_of(e, real_add(e, keeps, r.sum)), r.before, own);
}

// The state after a slice, from the state before it.
static ir combined_state(lower *l, const place_in_loops *at, const relative *r, ir before) {
  gpu_maximum m = {.before = r->is_maximum ? before : term_at(l, at, &r->maximum),
                   .shift = term_at(l, at, &r->shift),
                   .largest = term_at(l, at, &r->largest)};
  if (r->is_maximum) return gpu_joined_maximum(l->e, m);
  return gpu_joined_relative(
      l->e, at->vector_axis >= 0 ? at->lanes : 0, m,
      (gpu_relative){
          .before = before, .sum = term_at(l, at, &r->sum), .own = term_at(l, at, &r->kept)});
}

static void join_point(lower *l, const place_in_loops *at, void *data) {
  const relative *r = data;
  emit_branch own = {0};
  if (l->only) own = branch_begin(l->e, l->only);
  view_store(l, r->state, at, r->axes,
             combined_state(l, at, r, view_load(l, r->state, at, r->axes)));
  if (l->only) branch_end(l->e, &own);
}

static void combine_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  gpu_set_pair(l->e, slots, combined_state(l, at, data, gpu_pair_of(l->e, slots)));
}

// ---- places in the summary ----

static const tile_place *place_in(const kernel *k, int tensor, bool transfer) {
  for (int i = 0; i < k->summary->results.count; i++) {
    const tile_place *place = &k->summary->results.items[i].place;
    if (place->relative && place->tensor == tensor && place->transfer == transfer) return place;
  }
  return NULL;
}

static term kept_term(kernel_frame *h, frame_program *p, int tensor, bool transfer, ir number) {
  const tile_place *place = place_in(h->k, tensor, transfer);
  term t = {.there = place};
  if (!place) return t;
  t.v = gpu_summary_view(h, p, place, number);
  t.axes = tile_body_axes(place);
  return t;
}

static int carried_state(const frame_program *p, int tensor) {
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *place = &p->carried.items[c].place;
    if (place->tensor == tensor && place->lag < 0) return c;
  }
  return -1;
}

// Combines slice `number` into all relative states, or into all maxima.
static void join_all(kernel_frame *h, frame_program *p, ir number, bool maxima) {
  for (int i = 0; i < h->k->summary->results.count; i++) {
    const tile_place *place = &h->k->summary->results.items[i].place;
    if (!place->relative || place->transfer || kernel_is_maximum(place) != maxima) continue;
    int m = place->relative - 1, at = carried_state(p, m);
    relative r = {.state = &p->l.carried[carried_state(p, place->tensor)],
                  .axes = tile_body_axes(place),
                  .is_maximum = maxima,
                  .kept = kept_term(h, p, place->tensor, false, number),
                  .sum = kept_term(h, p, place->tensor, true, number),
                  .largest = kept_term(h, p, m, false, number),
                  .shift = kept_term(h, p, m, true, number),
                  .maximum = {true, p->l.carried[at], tile_body_axes(&p->carried.items[at].place)}};
    const register_accumulators *kept = gpu_registers_of(p, r.state);
    if (kept) {
      r.kept.v.aligned = NULL;
      gpu_accumulators_each(&p->l, kept, combine_pair, &r);
    } else {
      lower_copies(&p->l, plan_tile_axes(&h->m, r.axes), false, join_point, &r);
    }
  }
}

bool gpu_combines_maxima(const kernel *k) {
  for (int i = 0; i < k->summary->results.count; i++)
    if (k->summary->results.items[i].place.relative) return true;
  return false;
}

// Relative states come first: they read the maximum before the slice.
void gpu_combine_maxima(kernel_frame *h, frame_program *p, ir number) {
  p->l.outside = h->at;
  lower_barrier(&p->l);
  join_all(h, p, number, false);
  lower_barrier(&p->l);
  join_all(h, p, number, true);
  gpu_forget_accesses(&p->l, false);
}
