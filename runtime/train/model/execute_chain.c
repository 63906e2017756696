// One operation on all segments of this place, by a chain of summaries (chain.h).
//
//   segments        0          1          2               of which the summary of 1 is out of range
//   summaries       made       made       made
//   states          fold ->  kernel ->  fold -> next place
//   kernels         0                     2
#include "runtime/train/model/execute_parts.h"

// A pass of one operation.
typedef struct chain {
  run *r;
  int op;
  const model_step *step;  // NULL: forward
  bool back;
} chain;

static seams *ends_of(const chain *c) { return &c->r->x->ends; }
static const model_op *chain_op(const chain *c) { return &c->r->x->model->ops[c->op]; }

// Goes to a segment, counted in the order of the pass.
static void enter_segment(const chain *c, int turn) {
  run_enter(c->r, c->back ? c->r->count - 1 - turn : turn);
}

static char *turn_summary(const chain *c, int turn) {
  return c->r->x->summaries + turn * c->r->x->summary_bytes;
}

static bool is_usable(const chain *c, int turn) { return c->r->x->usable[turn]; }

static rec_status make_chain_summary(const chain *c, int turn) {
  executor *x = c->r->x;
  x->usable[turn] = turn + 1 < c->r->count || !seams_ends(ends_of(c), c->back);
  if (!x->usable[turn]) return REC_OK;
  enter_segment(c, turn);
  rec_status status = run_summary(c->r, c->op, c->step, turn_summary(c, turn));
  return status ? status
                : run_check_summary(c->r, c->op, c->step, turn_summary(c, turn), &x->usable[turn]);
}

// Block after block, takes the states before segment `from` to those before segment `to`. The first
// and the last segment of this place have a neighbour at another one.
static rec_status fold_stretch(const chain *c, int from, int to) {
  seams *ends = ends_of(c);
  const model_op *op = chain_op(c);
  rec_status status = REC_OK;
  for (int b = 0; !status && b < seams_blocks(ends, op); b++) {
    const run_block block = {seams_instance(ends, op, b), seams_instance(ends, op, b + 1)};
    if (from == 0) status = seams_take(ends, op, c->back, b);
    for (int turn = from; !status && turn < to; turn++) {
      enter_segment(c, turn);
      status = run_fold(c->r, c->op, c->step, turn_summary(c, turn), block);
    }
    if (!status && to == c->r->count) status = seams_give(ends, op, c->back, b);
  }
  return status;
}

// A segment whose kernel leaves the states.
static rec_status run_whole(const chain *c, int turn) {
  enter_segment(c, turn);
  rec_status status = run_call(c->r, c->op, c->step);
  return status ? status : seams_after(ends_of(c), chain_op(c), c->r->segment, c->back);
}

static rec_status pass_states(const chain *c) {
  rec_status status = REC_OK;
  for (int from = 0, to; !status && from < c->r->count; from = to + 1) {
    for (to = from; to < c->r->count && is_usable(c, to);) to++;
    status = fold_stretch(c, from, to);
    if (!status && to < c->r->count) status = run_whole(c, to);
  }
  return status;
}

static rec_status run_inside(const chain *c) {
  rec_status status = REC_OK;
  c->r->inside = true;
  for (int turn = 0; !status && turn < c->r->count; turn++) {
    if (!is_usable(c, turn)) continue;
    enter_segment(c, turn);
    status = run_call(c->r, c->op, c->step);
  }
  c->r->inside = false;
  return status;
}

rec_status run_chain(run *r, int op, const model_step *step) {
  const chain c = {r, op, step, step != NULL};
  rec_status status = REC_OK;
  for (int turn = 0; !status && turn < r->count; turn++) status = make_chain_summary(&c, turn);
  if (!status) status = pass_states(&c);
  return status ? status : run_inside(&c);
}
