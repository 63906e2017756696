// GPU, single steps: a matrix of parameters times a vector, among all threads of a block.
//
//   %7 [D,G] = dot %h [E], %weight [G,D,E] over E        the sum is along the rows of memory: a warp takes whole rows,
//                                                        sixteen one after another, and adds up its lanes for all at once
//   %53 [E] = dot %50 [D,G], %weight [G,D,E] over D, G   the sum is across the rows: a thread takes neighbouring columns of
//                                                        some rows; parts of a column meet in shuffles, then in shared memory
//
// Either way neighbouring threads read neighbouring numbers, so that one copy of the matrix serves forward and backward. The
// copy stays in shared memory from the first step to the last if it fits (plan/products.c), with 16 bits where tokens have 16
// bits.
#include "compiler/lower/gpu/nests.h"

enum { MOST_ROUNDS = 16, MOST_SUMS = 64, MOST_PIECE = 8 };

typedef struct product {
  gpu_matrix g;
  const plan_nest *nest;
  const gpu_operands *o;
  loop_axes rows, depth;
  int64_t row_count, depth_count;
  view parts;
} product;

// By rank, but `last` behind all others if it is among them.
static loop_axes axes_to(const lower *l, axis_set axes, int last) {
  bool has = axis_in(axes, last);
  loop_axes list = lower_by_rank(l, has ? axes & ~axis_bit(last) : axes);
  if (has) list.axes[list.count++] = last;
  return list;
}

static void go_to(lower *l, const loop_axes *axes, ir number, place_in_loops *at) {
  for (int i = axes->count - 1; i > 0; i--) {
    at->index[axes->axes[i]] = int_rem(l->e, number, l->axis_size[axes->axes[i]]);
    number = int_div(l->e, number, l->axis_size[axes->axes[i]]);
  }
  if (axes->count) at->index[axes->axes[0]] = number;
}

static place_in_loops wide(const product *p, const place_in_loops *at) {
  place_in_loops place = *at;
  place.vector_axis = p->g.piece > 1 ? p->g.last : -1;
  place.lanes = p->g.piece > 1 ? p->g.piece : 0;
  return place;
}

static ir matrix_at(lower *l, const product *p, const place_in_loops *at) {
  place_in_loops place = wide(p, at);
  return view_load(l, &p->o->first.b, &place, p->o->first.b_axes);
}

// The product is x at this row.
static void finish_row(lower *l, const product *p, const place_in_loops *at, ir row, ir x) {
  place_in_loops place = *at;
  emitter *e = l->e;
  go_to(l, &p->rows, row, &place);
  if (p->o->first.minus) x = real_neg(e, x);
  if (p->o->add || p->o->start != NO_TILE) x = real_add(e, gpu_first_sum(l, p->o, &place, NULL), x);
  gpu_last_sum(l, p->nest, p->o, &place, x);
}

static ir from_lane(lower *l, ir x, int64_t mask) {
  return gpu_call(l->e, GPU_SHFL_BFLY_F32, (ir[]){x, LLVMConstInt(l->e->i32, (unsigned)mask, 0)}, 2);
}

// ---- along rows ----

typedef struct rounds {
  int64_t lanes;  // as gpu_matrix.lanes
  int64_t turns;  // pieces of a row that a lane has
  int64_t at_once, count;
  int batch;
} rounds;

static rounds rounds_of(const lower *l, const product *p) {
  int64_t pieces = p->depth_count / p->g.piece;
  rounds r = {.lanes = p->g.lanes, .batch = 1};
  r.turns = pieces / r.lanes;
  r.at_once = l->team->threads / r.lanes;
  r.count = (p->row_count + r.at_once - 1) / r.at_once;
  while (2 * r.batch <= r.count && r.batch < MOST_ROUNDS && 2 * r.batch * p->g.piece <= MOST_SUMS) r.batch *= 2;
  return r;
}

// Half of the sums go to the lane on the other side, and as many come from there, until each lane has its own; then lanes have the
// same ones. Returns how many are left, `first` of them.
static int add_up_lanes(lower *l, const rounds *r, ir lane, ir *sums, ir *first) {
  emitter *e = l->e;
  int count = r->batch;
  *first = integer(e, 0);
  for (int64_t mask = r->lanes / 2; mask; mask /= 2) {
    if (count == 1) {
      sums[0] = real_add(e, sums[0], from_lane(l, sums[0], mask));
      continue;
    }
    count /= 2;
    ir bit = int_rem(e, int_div(e, lane, integer(e, mask)), integer(e, 2));
    ir upper = int_compare(e, LLVMIntNE, bit, integer(e, 0));
    for (int i = 0; i < count; i++) {
      ir own = choose(e, upper, sums[i + count], sums[i]), other = choose(e, upper, sums[i], sums[i + count]);
      sums[i] = real_add(e, own, from_lane(l, other, mask));
    }
    *first = int_add(e, *first, int_mul(e, bit, integer(e, count)));
  }
  return count;
}

static ir row_of(lower *l, const rounds *r, ir own, ir round) {
  return int_add(l->e, int_mul(l->e, round, integer(l->e, r->at_once)), own);
}

static void add_piece(lower *l, const product *p, const rounds *r, const place_in_loops *at, ir piece, const ir *rows,
                      const ir *slots) {
  emitter *e = l->e;
  place_in_loops place = *at;
  go_to(l, &p->depth, int_mul(e, piece, integer(e, p->g.piece)), &place);
  place_in_loops of_x = wide(p, &place);
  ir x = view_load(l, &p->o->first.a, &of_x, p->o->first.a_axes);
  int lanes = p->g.piece > 1 ? p->g.piece : 0;
  for (int i = 0; i < r->batch; i++) {
    go_to(l, &p->rows, rows[i], &place);
    store_real(e, real_fma(e, matrix_at(l, p, &place), x, load_real(e, slots[i], lanes)), slots[i]);
  }
}

static void rounds_at_once(lower *l, const product *p, const rounds *r, const place_in_loops *at, ir first_round) {
  emitter *e = l->e;
  ir lane = gpu_lane(l), of_row = int_rem(e, lane, integer(e, r->lanes));
  ir own = int_div(e, l->team->thread, integer(e, r->lanes)), end = integer(e, p->row_count);
  ir rows[MOST_ROUNDS], slots[MOST_ROUNDS], sums[MOST_ROUNDS], first;
  int lanes = p->g.piece > 1 ? p->g.piece : 0;
  bool whole = p->row_count % (r->at_once * r->batch) == 0;
  for (int i = 0; i < r->batch; i++) {
    rows[i] = row_of(l, r, own, int_add(e, first_round, integer(e, i)));
    if (!whole) rows[i] = int_choose(e, int_compare(e, LLVMIntSLT, rows[i], end), rows[i], integer(e, 0));
    slots[i] = stack_slot(e, real_type(e, lanes), "sum");
    store_real(e, real_number(e, 0, lanes), slots[i]);
  }
  emit_loop turns = loop_begin(e, integer(e, 0), integer(e, r->turns), 1, "turn");
  add_piece(l, p, r, at, int_add(e, int_mul(e, turns.index, integer(e, r->lanes)), of_row), rows, slots);
  loop_end(e, &turns);
  for (int i = 0; i < r->batch; i++) {
    sums[i] = load_real(e, slots[i], lanes);
    if (lanes) sums[i] = sum_of_lanes(e, sums[i]);
  }
  int count = add_up_lanes(l, r, lane, sums, &first);
  ir alike = integer(e, r->lanes > r->batch ? r->lanes / r->batch : 1);
  ir mine = int_compare(e, LLVMIntEQ, int_rem(e, lane, alike), integer(e, 0));
  for (int i = 0; i < count; i++) {
    ir row = row_of(l, r, own, int_add(e, first_round, int_add(e, first, integer(e, i))));
    ir here = whole ? mine : LLVMBuildAnd(e->b, mine, int_compare(e, LLVMIntSLT, row, end), "");
    emit_branch branch = branch_begin(e, here);
    finish_row(l, p, at, row, sums[i]);
    branch_end(e, &branch);
  }
}

static void along_rows(lower *l, const product *p, const place_in_loops *at) {
  rounds r = rounds_of(l, p);
  emit_loop loop = loop_begin(l->e, integer(l->e, 0), integer(l->e, r.count), r.batch, "rows");
  rounds_at_once(l, p, &r, at, loop.index);
  loop_end(l->e, &loop);
}

// ---- across rows ----

static ir part_address(lower *l, const product *p, ir part, ir row) {
  ir at = int_add(l->e, int_mul(l->e, part, integer(l->e, p->row_count)), row);
  return element(l->e, l->e->real, p->parts.base, at);
}

static ir lane_of(emitter *e, ir x, int lane) {
  return ir_lanes(x) ? LLVMBuildExtractElement(e->b, x, integer(e, lane), "") : x;
}

// What a part of the rows adds to a piece: each x once for all of it.
static ir sum_of_part(lower *l, const product *p, const place_in_loops *at, ir part) {
  enum { AT_ONCE = 4 };
  emitter *e = l->e;
  int lanes = p->g.piece > 1 ? p->g.piece : 0;
  ir slot = stack_slot(e, real_type(e, lanes), "sum");
  store_real(e, real_number(e, 0, lanes), slot);
  bool whole = p->depth_count % (p->g.parts * AT_ONCE) == 0;
  emit_groups groups;
  emit_loop loop;
  if (whole) {
    groups = groups_begin(e, integer(e, 0), integer(e, p->depth_count), p->g.parts, AT_ONCE, (group_names){"turns", "turn"});
  } else {
    loop = loop_begin(e, part, integer(e, p->depth_count), p->g.parts, "turn");
  }
  place_in_loops place = *at;
  go_to(l, &p->depth, whole ? int_add(e, groups.index, part) : loop.index, &place);
  ir x = spread(e, view_load(l, &p->o->first.a, &place, p->o->first.a_axes), lanes);
  store_real(e, real_fma(e, matrix_at(l, p, &place), x, load_real(e, slot, lanes)), slot);
  whole ? groups_end(e, &groups) : loop_end(e, &loop);
  return load_real(e, slot, lanes);
}

static void one_piece(lower *l, const product *p, const place_in_loops *at, ir index) {
  emitter *e = l->e;
  int64_t pieces = p->row_count / p->g.piece, parts = p->g.parts / p->g.in_warp;
  ir part = int_div(e, index, integer(e, pieces)), row = int_rem(e, index, integer(e, pieces));
  row = int_mul(e, row, integer(e, p->g.piece));
  place_in_loops place = *at;
  go_to(l, &p->rows, row, &place);
  ir all = sum_of_part(l, p, &place, part), sums[MOST_PIECE];
  for (int i = 0; i < p->g.piece; i++) {
    sums[i] = lane_of(e, all, i);
    for (int64_t mask = GPU_WARP_LANES / 2; p->g.in_warp > 1 && mask >= pieces; mask /= 2)
      sums[i] = real_add(e, sums[i], from_lane(l, sums[i], mask));
  }
  ir in_warp = integer(e, p->g.in_warp);
  emit_branch branch = {0};
  bool some = p->g.in_warp > 1;
  if (some) branch = branch_begin(e, int_compare(e, LLVMIntEQ, int_rem(e, part, in_warp), integer(e, 0)));
  for (int i = 0; i < p->g.piece; i++) {
    ir of_sum = int_add(e, row, integer(e, i));
    if (parts > 1) {
      store_real(e, sums[i], part_address(l, p, int_div(e, part, in_warp), of_sum));
    } else {
      finish_row(l, p, at, of_sum, sums[i]);
    }
  }
  if (some) branch_end(e, &branch);
}

static void add_up_parts(lower *l, const product *p, const place_in_loops *at) {
  emitter *e = l->e;
  lower_barrier(l);
  emit_loop loop = loop_begin(e, l->team->thread, integer(e, p->row_count), l->team->threads, "row");
  ir sum = NULL;
  for (int64_t part = 0; part < p->g.parts / p->g.in_warp; part++) {
    ir x = load_real(e, part_address(l, p, integer(e, part), loop.index), 0);
    sum = sum ? real_add(e, sum, x) : x;
  }
  finish_row(l, p, at, loop.index, sum);
  loop_end(e, &loop);
}

static void across_rows(lower *l, const product *p, const place_in_loops *at) {
  emitter *e = l->e;
  int64_t all = p->row_count / p->g.piece * p->g.parts;
  if (all == l->team->threads) {
    one_piece(l, p, at, int_rem(e, l->team->thread, integer(e, all)));
  } else {
    emit_loop loop = loop_begin(e, l->team->thread, integer(e, all), l->team->threads, "piece");
    one_piece(l, p, at, loop.index);
    loop_end(e, &loop);
  }
  if (p->g.parts / p->g.in_warp > 1) add_up_parts(l, p, at);
}

// ---- the product ----

void gpu_matrix_product(lower *l, const plan_nest *nest, const gpu_operands *o) {
  emitter *e = l->e;
  tile_id id = nest->values.items[0];
  product p = {.g = gpu_matrix_of(l->m, l->p, id, &nest->dot), .nest = nest, .o = o};
  p.rows = axes_to(l, p.g.rows, p.g.last);
  p.depth = axes_to(l, p.g.depth, p.g.last);
  p.row_count = plan_entries(l->m, l->p->program, p.g.rows);
  p.depth_count = plan_entries(l->m, l->p->program, p.g.depth);
  int parts = l->p->values[id].row_parts;
  if (parts >= 0) p.parts = lower_buffer(l, parts);
  loop_axes around = lower_by_rank(l, p.g.around);
  place_in_loops at = l->outside;
  if (!around.count) {
    p.g.along ? along_rows(l, &p, &at) : across_rows(l, &p, &at);
    return;
  }
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, plan_entries(l->m, l->p->program, p.g.around)), 1, "around");
  go_to(l, &around, loop.index, &at);
  if (parts >= 0) lower_barrier(l);  // others may still read what the last turn left
  p.g.along ? along_rows(l, &p, &at) : across_rows(l, &p, &at);
  loop_end(e, &loop);
}
