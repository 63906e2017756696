// GPU: loops whose points the threads of a block divide.
//
//   [t, N]     for point = thread; point < t N; point += threads: ..
//
// A thread may take neighbours along the last axis as lanes of a vector, if all threads still have
// work.
#include "compiler/emit/bits.h"
#include "compiler/lower/gpu/nests.h"

// Turns of a loop that stand one behind the other, and the instructions of them all, as plans
// estimate them. A nest that reads scratch has fewer: the assembler begins all of its loads at
// once, each into registers of its own.
enum { MOST_TURNS = 8, MOST_WRITTEN_OUT = 1600, MOST_WITH_SCRATCH = 600 };

int64_t gpu_point_count(const lower *l, const loop_axes *axes) {
  int64_t points = 1;
  for (int i = 0; i < axes->count; i++) {
    if (known_size(l, axes->axes[i]) == TILE_RUNTIME_SIZE) return -1;
    points *= known_size(l, axes->axes[i]);
  }
  return points;
}

void gpu_go_to_point(lower *l, const loop_axes *axes, ir index, place_in_loops *at) {
  for (int i = axes->count - 1; i >= 0; i--) {
    ir size = l->axis_size[axes->axes[i]];
    at->index[axes->axes[i]] = int_rem(l->e, index, size);
    index = int_div(l->e, index, size);
  }
}

// Neighbours along the last axis that a thread takes at once, while all threads have work.
static int neighbours_of_thread(const lower *l, const loop_axes *axes) {
  int64_t points = gpu_point_count(l, axes);
  if (!l->team->shares || !axes->count || points < 0) return 1;
  return plan_numbers_at_once(known_size(l, axes->axes[axes->count - 1]), points, l->team->threads);
}

// The points of these axes, divided into vectors of `numbers` neighbours along the last axis.
typedef struct shared_pieces {
  const loop_axes *axes;
  int numbers;
  ir sizes[PLAN_MAX_AXES], count;
} shared_pieces;

// What is done at each piece.
typedef struct shared_body {
  place_in_loops *at;
  nest_function *inner;
  void *data;
} shared_body;

static shared_pieces pieces_of(lower *l, const loop_axes *axes, int numbers) {
  emitter *e = l->e;
  shared_pieces s = {.axes = axes, .numbers = numbers, .count = integer(e, 1)};
  for (int i = 0; i < axes->count; i++) {
    s.sizes[i] = l->axis_size[axes->axes[i]];
    if (i == axes->count - 1 && numbers > 1)
      s.sizes[i] = integer(e, known_size(l, axes->axes[i]) / numbers);
    s.count = int_mul(e, s.count, s.sizes[i]);
  }
  return s;
}

// A number of a piece: `own`, of the thread, below `step`, and `turn`, a multiple of it. Where
// sizes allow, quotients and rests of the two are taken apart: those of the thread are the same in
// all turns, those of a turn that is known are constants.
typedef struct piece_number {
  ir own, turn;  // own: NULL: 0
  int64_t step;
} piece_number;

static ir piece_index(emitter *e, const piece_number *n) {
  return n->own ? int_add(e, n->turn, n->own) : n->turn;
}

// Takes the index along an axis of this size off the number.
static ir take_index(emitter *e, piece_number *n, ir size) {
  int64_t known;
  bool apart = n->own && int_known(size, &known);
  if (apart && n->step % known == 0) {
    ir index = int_rem(e, n->own, size);
    *n = (piece_number){int_div(e, n->own, size), int_div(e, n->turn, size), n->step / known};
    return index;
  }
  if (apart && known % n->step == 0) {
    ir index = int_add(e, int_rem(e, n->turn, size), n->own);
    *n = (piece_number){NULL, int_div(e, n->turn, size), 1};
    return index;
  }
  ir whole = piece_index(e, n);
  *n = (piece_number){NULL, int_div(e, whole, size), 1};
  return int_rem(e, whole, size);
}

static void go_to_piece(lower *l, const shared_pieces *s, piece_number n, place_in_loops *at) {
  emitter *e = l->e;
  int last = s->axes->count - 1;
  for (int i = last; i > 0; i--) at->index[s->axes->axes[i]] = take_index(e, &n, s->sizes[i]);
  at->index[s->axes->axes[0]] = piece_index(e, &n);
  at->index[s->axes->axes[last]] = int_mul_n(e, at->index[s->axes->axes[last]], s->numbers);
}

static void at_piece(lower *l, const shared_pieces *s, piece_number n, const shared_body *b) {
  go_to_piece(l, s, n, b->at);
  b->inner(l, b->at, b->data);
  for (int i = 0; i < s->axes->count; i++) b->at->index[s->axes->axes[i]] = NULL;
}

// May the turns stand one behind the other?
static bool is_written_out(const lower *l, int64_t turns, int64_t instructions) {
  int most = l->scratch == SCRATCH_READ ? MOST_WITH_SCRATCH : MOST_WRITTEN_OUT;
  return turns <= MOST_TURNS && turns * instructions <= most;
}

// How many of these turns a loop takes at once. Where the loop is there because of scratch alone,
// several: they share addresses.
static int64_t unrolled_turns(const lower *l, int64_t turns, int64_t instructions) {
  int64_t most = 1;
  for (int64_t n = 2; n <= MOST_TURNS && l->scratch == SCRATCH_READ; n++)
    if (turns % n == 0 && is_written_out(l, n, instructions)) most = n;
  return most;
}

static ir ordered_turn(emitter *e, const piece_share *share, ir turn) {
  return share->order ? LLVMBuildXor(e->b, share->order, turn, "") : turn;
}

// Turns of a thread whose numbers are first, first + step, .. below `count`. The first is below
// step.
static void known_turns(lower *l, const shared_pieces *s, piece_share share, int64_t count,
                        const shared_body *b) {
  emitter *e = l->e;
  for (int64_t turn = 0; turn < count; turn += share.step) {
    emit_branch branch = {0};
    bool some = turn + share.step > count;
    ir number = LLVMConstInt(e->i32, (unsigned long long)turn, 0);
    if (some)
      branch = branch_begin(e, int_compare(e, LLVMIntSLT, share.first, integer(e, count - turn)));
    at_piece(l, s, (piece_number){share.first, ordered_turn(e, &share, number), share.step}, b);
    if (some) branch_end(e, &branch);
  }
}

// A loop over turns of which each thread has equally many.
static void even_turns(lower *l, const shared_pieces *s, piece_share share, int64_t count,
                       int64_t instructions, const shared_body *b) {
  emitter *e = l->e;
  int64_t step = share.step, all = step * unrolled_turns(l, count / step, instructions);
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, count), all, "piece");
  ir first = int_multiple(e, loop.index, all & -all);
  for (int64_t turn = 0; turn < all; turn += step) {
    ir number = int_add_n(e, first, turn);
    at_piece(l, s, (piece_number){share.first, ordered_turn(e, &share, number), step}, b);
  }
  loop_end(e, &loop);
}

static void pieces_by(lower *l, const shared_pieces *s, piece_share share, int64_t instructions,
                      const shared_body *b) {
  emitter *e = l->e;
  int64_t count;
  bool known = int_known(s->count, &count);
  if (known && share.whole) count = blocks_up(count, share.whole) * share.whole;
  if (known && is_written_out(l, blocks_up(count, share.step), instructions)) {
    known_turns(l, s, share, count, b);
    return;
  }
  if (known && count % share.step == 0) {
    even_turns(l, s, share, count, instructions, b);
    return;
  }
  emit_loop loop =
      loop_begin(e, share.first, known ? integer(e, count) : s->count, share.step, "piece");
  at_piece(l, s, (piece_number){NULL, loop.index, 1}, b);
  loop_end(e, &loop);
}

void gpu_pieces_of(lower *l, const loop_axes *axes, int numbers, piece_share share,
                   int64_t instructions, place_in_loops *at, nest_function *inner, void *data) {
  shared_pieces s = pieces_of(l, axes, numbers);
  pieces_by(l, &s, share, instructions, &(shared_body){at, inner, data});
}

void gpu_shared_pieces(lower *l, const loop_axes *axes, int numbers, int64_t instructions,
                       place_in_loops *at, nest_function *inner, void *data) {
  piece_share share = {.first = l->team->thread, .step = l->team->threads};
  gpu_pieces_of(l, axes, numbers, share, instructions, at, inner, data);
}

void gpu_each_point(lower *l, const loop_axes *axes, int64_t instructions, place_in_loops *at,
                    nest_function *inner, void *data) {
  if (!l->team->shares) {
    lower_loops_over(l, axes, 0, at, inner, data);
  } else if (axes->count) {
    gpu_shared_pieces(l, axes, 1, instructions, at, inner, data);
  } else {
    // a value that all threads need: all compute it, one stores it
    l->only = int_compare(l->e, LLVMIntEQ, l->team->thread, integer(l->e, 0));
    inner(l, at, data);
    l->only = NULL;
  }
}

void gpu_wide_loops(lower *l, const loop_axes *axes, int lanes, int64_t instructions,
                    place_in_loops *at, nest_function *inner, void *data) {
  if (lanes > 1) {
    at->vector_axis = axes->axes[axes->count - 1];
    at->lanes = lanes;
    gpu_shared_pieces(l, axes, lanes, instructions, at, inner, data);
    at->vector_axis = -1;
    at->lanes = 0;
  } else {
    gpu_each_point(l, axes, instructions, at, inner, data);
  }
}

void gpu_vectors(lower *l, const loop_axes *axes, bool copies, point_function *body, void *data) {
  place_in_loops at = lower_start_place(l, false);
  gpu_wide_loops(l, axes, copies ? neighbours_of_thread(l, axes) : 1,
                 copies ? GPU_SHORT_BODY : GPU_LONG_BODY, &at, body, data);
}

// Vectors that each thread takes at once, if all threads have as many.
static int pieces_at_once(const lower *l, const shared_pieces *s) {
  int64_t pieces;
  int most = MOST_POINTS_AT_ONCE;
  if (!int_known(s->count, &pieces)) return 1;
  while (most > 1 && pieces % ((int64_t)l->team->threads * most)) most /= 2;
  return most;
}

typedef struct single_point {
  points_function *body;
  void *data;
} single_point;

static void one_at_once(lower *l, const place_in_loops *at, void *data) {
  const single_point *s = data;
  s->body(l, at, 1, s->data);
}

void gpu_copies_at_once(lower *l, axis_set axes, points_function *body, void *data) {
  emitter *e = l->e;
  if (!l->team->shares) {
    single_point single = {body, data};
    lower_copies(l, axes, false, one_at_once, &single);
    return;
  }
  place_in_loops at[MOST_POINTS_AT_ONCE];
  loop_axes all = lower_by_rank(l, axes);
  int lanes = neighbours_of_thread(l, &all), count = 1;
  gpu_wait(l);
  shared_pieces s = pieces_of(l, &all, lanes);
  if (all.count) count = pieces_at_once(l, &s);
  emit_loop loop = loop_begin(e, l->team->thread, s.count, l->team->threads * count, "points");
  for (int i = 0; i < count; i++) {
    at[i] = lower_start_place(l, false);
    if (lanes > 1) at[i].vector_axis = all.axes[all.count - 1], at[i].lanes = lanes;
    if (all.count)
      go_to_piece(l, &s,
                  (piece_number){NULL, int_add_n(e, loop.index, (int64_t)i * l->team->threads), 1},
                  &at[i]);
  }
  body(l, at, count, data);
  loop_end(e, &loop);
}

// The four warps of a warpgroup have four blocks of rows, one below the other. Blocks count columns
// next, then rows.
ir gpu_block_at(lower *l, gpu_blocks all, ir index, ir *i, ir *j) {
  emitter *e = l->e;
  ir columns = integer(e, all.columns), four = integer(e, GPU_GROUP_WARPS);
  bool together = l->m->warpgroups && all.rows % GPU_GROUP_WARPS == 0;
  ir warp = together ? int_rem(e, index, four) : NULL;
  if (together) index = int_div(e, index, four), all.rows /= GPU_GROUP_WARPS;
  *j = int_rem(e, index, columns);
  index = int_div(e, index, columns);
  *i = int_rem_n(e, index, all.rows);
  if (together) *i = int_add(e, int_mul(e, *i, four), warp);
  return int_div_n(e, index, all.rows);
}
