// Products of tiles: register blocks of rows x vectors, one multiply-add per element and step of k.
//
//   %12 [t,P] = dot %10 %11 over s      for each block of 4 rows and 4 vectors of P:
//                                         for s: c[row] += broadcast(a[row, s]) * b[s, P..]
//
// A lone row is multiplied by more vectors at a time. One function per shape, strides and clone,
// shared by all products that have them. A factor that is zero above the diagonal of (t, s) shortens
// the loop over k, block by block.
//
// Products of pairs of bf16 round their operands first, and take two steps of k at a time (pairs.c).
#include <stdio.h>
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/lower/host/nests.h"

typedef enum k_range {
  K_ALL,
  K_TO_ROW,      // k <= i
  K_FROM_ROW,    // k >= i
  K_TO_COLUMN,   // k <= j
  K_FROM_COLUMN  // k >= j
} k_range;

typedef struct shape {
  int64_t rows, columns, depth;  // depth 0: known at run time
  dot_start start;
  bool scaled;  // what it is added to has a factor for each row
  k_range range;
  int lines, entries;  // of what it fetches: an entry, a block
  bool pairs;          // operands become pairs of bf16 (pairs.c)
  bool a_along;        // and k is contiguous in a
} shape;

typedef struct product {
  emitter *e;
  shape s;
  ir a, a_i, a_k, b, b_k, c, c_i;
  ir scale, scale_i;  // the factors of rows; NULL: there are none
  ir fetch;           // prefetch.c; NULL: nothing is fetched beside it
  ir depth;
  ir words;  // the columns of a block of b, as pairs
} product;

// A processor begins SUMS_AT_A_TIME additions before the first is done. A lone row has as many
// vectors.
enum { SUMS_AT_A_TIME = 8, MOST_ROWS = 8, MOST_VECTORS = SUMS_AT_A_TIME, VECTORS_OF_ROWS = 4 };

static int64_t in_parts(int64_t whole, int64_t part) { return (whole + part - 1) / part; }

// Rows and vectors of a block: as many accumulators as the registers hold beside the operands.
static void choose_block_shape(const emitter *e, const shape *s, int *rows, int *vectors) {
  int registers = clone_targets[e->clone].vector_registers;
  int64_t wide = (s->columns + e->lanes - 1) / e->lanes;
  *vectors = s->rows == 1 ? MOST_VECTORS : registers >= 32 ? VECTORS_OF_ROWS : VECTORS_OF_ROWS / 2;
  if (*vectors > wide) *vectors = (int)wide;
  int most = s->rows == 1 ? 1 : (registers - 1 - *vectors) / *vectors;
  if (most > MOST_ROWS) most = MOST_ROWS;
  if (most > s->rows) most = (int)s->rows;
  *rows = most;
  for (int r = most; 4 * r > 3 * most && r > 1; r--) {  // a divisor saves the rest block
    if (s->rows % r == 0) {
      *rows = r;
      break;
    }
  }
}

typedef struct block {
  int rows, vectors;
  int lanes[MOST_VECTORS];
  ir i, j;
  ir b_j;           // where its columns of b begin
  ir a, c, scales;  // of its first row
} block;

// The address of a row of a block. A stride that is known makes it a constant behind the first row.
static ir row_of_block(product *p, ir first, int row, ir stride) {
  return element(p->e, p->e->real, first, int_mul(p->e, integer(p->e, row), stride));
}

static ir c_address(product *p, const block *b, int row, int64_t column) {
  ir first = row_of_block(p, b->c, row, p->c_i);
  return element(p->e, p->e->real, first, integer(p->e, column));
}

static void k_bounds(product *p, const block *b, int64_t columns, ir *begin, ir *end) {
  emitter *e = p->e;
  *begin = integer(e, 0);
  *end = p->depth;
  switch (p->s.range) {
    case K_ALL: break;
    case K_TO_ROW: *end = int_min(e, *end, int_add_n(e, b->i, b->rows)); break;
    case K_FROM_ROW: *begin = b->i; break;
    case K_TO_COLUMN: *end = int_min(e, *end, int_add_n(e, b->j, columns)); break;
    case K_FROM_COLUMN: *begin = b->j; break;
  }
  if (!p->s.pairs) return;
  *begin = int_div_n(e, *begin, 2);
  *end = int_div_n(e, int_add_n(e, *end, 1), 2);
}

typedef struct block_sums {
  ir at[MOST_ROWS][MOST_VECTORS];
} block_sums;

static void open_block_sums(product *p, const block *b, block_sums *sums) {
  emitter *e = p->e;
  int64_t columns = 0;
  ir scales[MOST_ROWS];
  for (int r = 0; p->s.scaled && r < b->rows; r++)
    scales[r] = load_real(e, row_of_block(p, b->scales, r, p->scale_i), 0);
  for (int v = 0; v < b->vectors; v++) {
    for (int r = 0; r < b->rows; r++) {
      ir start = p->s.start != START_ZERO ? load_real(e, c_address(p, b, r, columns), b->lanes[v])
                                          : real_number(e, 0, b->lanes[v]);
      if (p->s.scaled) start = real_mul(e, start, spread(e, scales[r], b->lanes[v]));
      sums->at[r][v] = real_slot(e, start, "sum");
    }
    columns += b->lanes[v];
  }
}

static void add_product_step(product *p, const block *b, const block_sums *sums, ir k) {
  emitter *e = p->e;
  ir factor[MOST_VECTORS];
  ir b_row = element(e, e->real, p->b, int_add(e, int_mul(e, k, p->b_k), b->b_j));
  int64_t column = 0;
  for (int v = 0; v < b->vectors; v++) {
    factor[v] = load_real(e, element(e, e->real, b_row, integer(e, column)), b->lanes[v]);
    column += b->lanes[v];
  }
  for (int r = 0; r < b->rows; r++) {
    ir row = row_of_block(p, b->a, r, p->a_i);
    ir x = load_real(e, element(e, e->real, row, int_mul(e, k, p->a_k)), 0);
    if (p->s.start == START_SUBTRACT && !p->s.pairs) x = real_neg(e, x);
    for (int v = 0; v < b->vectors; v++) {
      ir sum = load_real(e, sums->at[r][v], b->lanes[v]);
      sum = p->s.pairs ? add_pairs(e, x, factor[v], sum) : real_fma(e, x, factor[v], sum);
      store_real(e, sum, sums->at[r][v]);
    }
  }
}

static void close_sums(product *p, const block *b, const block_sums *sums) {
  emitter *e = p->e;
  int64_t column = 0;
  for (int v = 0; v < b->vectors; v++) {
    for (int r = 0; r < b->rows; r++)
      store_real(e, load_real(e, sums->at[r][v], b->lanes[v]), c_address(p, b, r, column));
    column += b->lanes[v];
  }
}

static int64_t steps_of(const product *p) { return p->s.pairs ? p->s.depth / 2 : p->s.depth; }

// Steps between two fetches; all, if nothing is fetched.
static int64_t steps_of_part(const product *p) {
  return p->fetch ? in_parts(steps_of(p), p->s.entries) : steps_of(p);
}

// The number of interleaved sums that a single row of few vectors has. It divides the steps, and
// the steps between two prefetches.
static int chains_of(const product *p, const block *b) {
  int chains = 1;
  int64_t parts = steps_of_part(p);
  bool splits = p->s.rows == 1 && p->s.range == K_ALL && p->s.depth;
  while (splits && 2 * chains * b->vectors <= MOST_VECTORS && p->s.depth % (2 * chains) == 0 &&
         parts % (2 * chains) == 0)
    chains *= 2;
  return chains;
}

static void open_chain(product *p, const block *b, block_sums *sums) {
  for (int v = 0; v < b->vectors; v++)
    sums->at[0][v] = real_slot(p->e, real_number(p->e, 0, b->lanes[v]), "sum");
}

static void add_chain(product *p, const block *b, const block_sums *sums, const block_sums *chain) {
  emitter *e = p->e;
  for (int v = 0; v < b->vectors; v++) {
    ir x = load_real(e, sums->at[0][v], b->lanes[v]),
       y = load_real(e, chain->at[0][v], b->lanes[v]);
    store_real(e, real_add(e, x, y), sums->at[0][v]);
  }
}

static void add_in_chains(product *p, const block *b, const block_sums *sums, int chains, ir begin,
                          ir end) {
  emitter *e = p->e;
  block_sums others[MOST_VECTORS];
  others[0] = *sums;
  for (int c = 1; c < chains; c++) open_chain(p, b, &others[c]);
  emit_loop loop = loop_begin(e, begin, end, chains, "k");
  for (int c = 0; c < chains; c++) add_product_step(p, b, &others[c], int_add_n(e, loop.index, c));
  loop_end(e, &loop);
  for (int c = 1; c < chains; c++) add_chain(p, b, sums, &others[c]);
}

static void add_product_steps(product *p, const block *b, const block_sums *sums, ir begin,
                              ir end) {
  int chains = chains_of(p, b);
  if (chains > 1) {
    add_in_chains(p, b, sums, chains, begin, end);
    return;
  }
  emit_loop loop = loop_begin(p->e, begin, end, 1, "k");
  add_product_step(p, b, sums, loop.index);
  loop_end(p->e, &loop);
}

// A few lines, then so many steps that they may come in their time.
static void add_and_fetch(product *p, const block *b, const block_sums *sums) {
  emitter *e = p->e;
  fetch_list list = {p->fetch, p->s.lines, p->s.entries};
  int64_t steps = steps_of_part(p), all = steps_of(p);
  emit_loop loop = loop_begin(e, integer(e, 0), integer(e, all), steps, "fetched");
  fetch_entry(e, &list);
  ir end = int_add_n(e, loop.index, steps);
  if (all % steps) end = int_min(e, end, integer(e, all));
  add_product_steps(p, b, sums, loop.index, end);
  loop_end(e, &loop);
}

static void one_block(product *p, block *b) {
  emitter *e = p->e;
  block_sums sums;
  int64_t columns = 0;
  ir begin, end;
  b->a = element(e, e->real, p->a, int_mul(e, b->i, p->a_i));
  b->c = element(e, e->real, p->c, int_add(e, int_mul(e, b->i, p->c_i), b->j));
  if (p->s.scaled) b->scales = element(e, e->real, p->scale, int_mul(e, b->i, p->scale_i));
  open_block_sums(p, b, &sums);
  for (int v = 0; v < b->vectors; v++) columns += b->lanes[v];
  if (p->fetch) {
    add_and_fetch(p, b, &sums);
  } else {
    k_bounds(p, b, columns, &begin, &end);
    add_product_steps(p, b, &sums, begin, end);
  }
  close_sums(p, b, &sums);
}

// A rest of few rows has too few sums at a time, so it shares the rows of the block before it: 32
// rows are blocks of 6 6 6 6 4 4, not of 6 6 6 6 6 2.
static void row_blocks(product *p, block b, int rows) {
  emitter *e = p->e;
  int64_t rest = p->s.rows % rows, whole = p->s.rows - rest;
  if (whole && rest && rest * b.vectors < SUMS_AT_A_TIME) {
    whole -= rows;
    rest += rows;
  }
  b.rows = rows;
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), rows, "i");
    b.i = loop.index;
    one_block(p, &b);
    loop_end(e, &loop);
  }
  for (int64_t blocks = in_parts(rest, rows); blocks > 0; blocks--) {
    b.rows = (int)in_parts(rest, blocks);
    b.i = integer(e, p->s.rows - rest);
    one_block(p, &b);
    rest -= b.rows;
  }
}

static ir stack_of_words(product *p, int64_t rows) {
  return stack_slot(p->e, LLVMArrayType2(p->e->real, (uint64_t)(rows * p->s.depth / 2)), "pairs");
}

static void round_rows(product *p) {
  emitter *e = p->e;
  const shape *s = &p->s;
  pairs_of a = {p->a,    p->a_i,   p->a_k,     stack_of_words(p, s->rows),
                s->rows, s->depth, s->a_along, s->start == START_SUBTRACT};
  round_pairs(e, &a);
  p->a = a.to;
  p->a_i = integer(e, s->a_along ? s->depth / 2 : 1);
  p->a_k = integer(e, s->a_along ? 1 : s->rows);
}

// Blocks of all rows, and of these columns.
static void column_block(product *p, block b, int rows) {
  emitter *e = p->e;
  if (!p->s.pairs) {
    b.b_j = b.j;
    row_blocks(p, b, rows);
    return;
  }
  int64_t columns = (int64_t)b.vectors * e->lanes;
  round_pairs(e, &(pairs_of){element(e, e->real, p->b, b.j), integer(e, 1), p->b_k, p->words,
                             columns, p->s.depth, false, false});
  product words = *p;
  words.b = p->words;
  words.b_k = integer(e, columns);
  b.b_j = integer(e, 0);
  row_blocks(&words, b, rows);
}

static void product_body(product *p) {
  emitter *e = p->e;
  int rows, vectors;
  choose_block_shape(e, &p->s, &rows, &vectors);
  int64_t wide = (int64_t)vectors * e->lanes, whole = p->s.columns / wide * wide;
  block b = {.vectors = vectors};
  for (int v = 0; v < vectors; v++) b.lanes[v] = e->lanes;
  if (p->s.pairs) {
    round_rows(p);
    p->words = stack_of_words(p, wide);
  }
  if (whole) {
    emit_loop loop = loop_begin(e, integer(e, 0), integer(e, whole), wide, "j");
    b.j = loop.index;
    column_block(p, b, rows);
    loop_end(e, &loop);
  }
  int64_t rest = p->s.columns - whole;
  if (!rest) return;
  b.vectors = 0;
  b.j = integer(e, whole);
  while (rest > 0) {
    int lanes = rest < e->lanes ? (int)rest : e->lanes;
    b.lanes[b.vectors++] = lanes;
    rest -= lanes;
  }
  column_block(p, b, rows);
}

// Arguments 8 and 9 are the factors of rows. Argument 7 is the list of what is fetched, or the depth
// where that is known at run time.
static unsigned product_arguments(const shape *s) {
  return s->scaled ? 10 : s->entries || !s->depth ? 8 : 7;
}

static void call_product_function(emitter *e, shape s, const ir *given) {
  char name[128], fetches[32] = "";
  const char *pairs = !s.pairs ? "" : s.a_along ? "_pairs_along" : "_pairs";
  if (s.entries) snprintf(fetches, sizeof fetches, "_fetch%d_%d", s.lines, s.entries);
  snprintf(name, sizeof name, "rec_dot_%lldx%lldx%lld_%d%d%s%s%s%s", (long long)s.rows,
           (long long)s.columns, (long long)s.depth, s.start, s.range, s.scaled ? "_scaled" : "",
           pairs, fetches, clone_targets[e->clone].suffix);
  ir args[10] = {0};
  emitter inner;
  if (!emit_shared_call(e, name, given, product_arguments(&s), &inner, args)) return;
  product p = {.e = &inner,
               .s = s,
               .a = args[0],
               .a_i = args[1],
               .a_k = args[2],
               .b = args[3],
               .b_k = args[4]};
  p.c = args[5], p.c_i = args[6];
  p.fetch = s.entries ? args[7] : NULL;
  p.scale = args[8], p.scale_i = args[9];
  p.depth = s.depth ? integer(&inner, s.depth) : args[7];
  product_body(&p);
  emit_shared_end(&inner);
}

// ---- a product of the plan ----

static k_range nonzero_depth(const lower *l, const plan_dot *d) {
  int t = l->p->program->time_axis, s = l->p->program->pair_axis;
  const plan_value *a = &l->p->values[d->a], *b = &l->p->values[d->b];
  if (a->zero_above && d->i == t && d->k == s) return K_TO_ROW;
  if (a->zero_above && d->i == s && d->k == t) return K_FROM_ROW;
  if (b->zero_above && d->j == t && d->k == s) return K_TO_COLUMN;
  if (b->zero_above && d->j == s && d->k == t) return K_FROM_COLUMN;
  return K_ALL;
}

typedef struct dot_data {
  const plan_nest *nest;
  view a, b, c;
  tile_id scale;  // a factor for each row of what the product is added to; NO_TILE
  axis_set a_axes, b_axes, c_axes;
  axis_set free, summed;  // loops around the blocked kernel
} dot_data;

static ir view_stride(lower *l, const view *v, int axis) {
  return axis >= 0 && v->stride[axis] ? v->stride[axis] : integer(l->e, 0);
}

static shape product_shape(const lower *l, const plan_nest *nest) {
  const plan_dot *dot = &nest->dot;
  const tile_program *program = l->p->program;
  return (shape){.rows = dot->i < 0 ? 1 : plan_axis_size(program, dot->i),
                 .columns = plan_axis_size(program, dot->j),
                 .depth = dot->k < 0 ? 0 : plan_axis_size(program, dot->k),
                 .range = nonzero_depth(l, dot)};
}

// All its blocks take all of k, and their time: others are not worth while, or made once for many
// instances.
static bool may_fetch(const lower *l, const plan_nest *nest) {
  return nest->kind == NEST_DOT && nest->region == REGION_BODY && !nest->lane && !nest->dot.along &&
         nonzero_depth(l, &nest->dot) == K_ALL;
}

int64_t dot_blocks(const lower *l, const plan_nest *nest) {
  if (!may_fetch(l, nest)) return 0;
  const plan_dot *dot = &nest->dot;
  shape s = product_shape(l, nest);
  int rows, vectors;
  choose_block_shape(l->e, &s, &rows, &vectors);
  int64_t blocks = in_parts(s.rows, rows) * in_parts(s.columns, (int64_t)vectors * l->e->lanes);
  const tile_value *v = tile_at(l->p->program, nest->values.items[0]);
  axis_set loops = (nest->axes | plan_tile_axes(l->m, v->over)) & ~plan_inner_axes(dot);
  for (int axis = 0; axis < l->p->program->axes.count; axis++)
    if (axis_in(loops, axis)) blocks *= plan_axis_size(l->p->program, axis);
  return blocks;
}

// From one number of an operand to the next of the sum: in REGION_STEPS, to the same one of the
// next step.
static ir stride_of_depth(lower *l, const view *v, const plan_dot *dot, tile_id id, int pack) {
  if (dot->k >= 0) return view_stride(l, v, dot->k);
  plan_buffer row = plan_kept_row(l->m, l->p, id, pack);
  return lower_extent(l->e, l->axis_size, plan_words(&row));
}

// Where they lie, and how far apart; one for all rows is stored first.
static void factors_of_rows(lower *l, const place_in_loops *at, const dot_data *d, ir *scale,
                            ir *scale_i) {
  emitter *e = l->e;
  axis_set axes = value(l, d->scale)->axes;
  *scale_i = integer(e, 0);
  if (l->p->values[d->scale].held == HELD_SCALAR) {
    *scale = stack_slot(e, e->real, "scale");
    store_real(e, lower_value_at(l, at, d->scale), *scale);
    return;
  }
  view v = value_view(l, d->scale);
  *scale = view_address(l, &v, at, axes & ~axis_bit(d->nest->dot.i));
  if (axis_in(axes, d->nest->dot.i)) *scale_i = view_stride(l, &v, d->nest->dot.i);
}

static void call_product(lower *l, const place_in_loops *at, const dot_data *d, dot_start start) {
  emitter *e = l->e;
  const plan_dot *dot = &d->nest->dot;
  shape s = product_shape(l, d->nest);
  s.start = start;
  s.scaled = d->scale != NO_TILE;
  if (l->fetch.list && may_fetch(l, d->nest)) {
    s.lines = l->fetch.lines;
    s.entries = l->fetch.entries < s.depth ? (int)l->fetch.entries : (int)s.depth;
  }
  axis_set inner = plan_inner_axes(dot);
  ir a = view_address(l, &d->a, at, d->a_axes & ~inner), a_i = view_stride(l, &d->a, dot->i);
  ir b = view_address(l, &d->b, at, d->b_axes & ~inner);
  ir c = view_address(l, &d->c, at, d->c_axes & ~inner), c_i = view_stride(l, &d->c, dot->i);
  if (d->nest->lane) {
    ir args[] = {a,
                 a_i,
                 view_stride(l, &d->a, dot->k),
                 b,
                 view_stride(l, &d->b, dot->j),
                 view_stride(l, &d->b, dot->k),
                 c,
                 c_i,
                 view_stride(l, &d->c, dot->j)};
    dot_lanes(e, (dot_sizes){s.rows, s.columns, s.depth}, l->m->lanes, start, args);
    return;
  }
  if (dot->along) {
    ir args[] = {a, a_i, b, view_stride(l, &d->b, dot->j), c, c_i};
    dot_along(e, (dot_sizes){s.rows, s.columns, s.depth}, start, args);
    return;
  }
  ir a_k = stride_of_depth(l, &d->a, dot, dot->a, dot->pack_a);
  s.pairs = dot->pairs;
  s.a_along = s.pairs && int_is(a_k, 1);
  if (s.pairs && !s.a_along && !int_is(a_i, 1))
    ICE("lower", "neither rows nor depth are contiguous");
  ir b_k = stride_of_depth(l, &d->b, dot, dot->b, dot->pack_b);
  ir last = !s.depth ? l->steps : s.entries ? l->fetch.list : LLVMConstNull(e->pointer);
  ir args[10] = {a, a_i, a_k, b, b_k, c, c_i, last};
  if (s.scaled) factors_of_rows(l, at, d, &args[8], &args[9]);
  call_product_function(e, s, args);
}

// Loops over axes that the blocked kernel does not take; the first product of a sum may start it,
// the others add.
static void product_loops(lower *l, place_in_loops *at, const dot_data *d, axis_set axes,
                          dot_start start) {
  if (!axes) {
    call_product(l, at, d, start);
    return;
  }
  emitter *e = l->e;
  int axis = axis_first(axes & d->free ? axes & d->free : axes);  // sums innermost
  int64_t size = plan_axis_size(l->p->program, axis);
  int64_t begin = 0;
  if (axis_in(d->summed, axis) && start == START_ZERO) {
    at->index[axis] = integer(e, 0);
    product_loops(l, at, d, axes & ~axis_bit(axis), start);
    start = START_ADD;
    begin = 1;
  }
  if (begin < size) {
    emit_loop loop = loop_begin(e, integer(e, begin), integer(e, size), 1, "outer");
    at->index[axis] = loop.index;
    product_loops(l, at, d, axes & ~axis_bit(axis), start);
    loop_end(e, &loop);
  }
  at->index[axis] = NULL;
}

void host_dot(lower *l, const plan_nest *nest) {
  const tile_program *program = l->p->program;
  tile_id id = nest->values.items[0];
  const tile_value *v = tile_at(program, id);
  const plan_value *pv = &l->p->values[id];
  const plan_dot *dot = &nest->dot;
  tile_id begun = plan_begun_sum(l->p, nest);  // as a state by a factor (plan/decayed_sums.c)
  dot_data d = {.nest = nest, .scale = NO_TILE};
  if (begun != NO_TILE) d.scale = plan_state_factor(l->p, begun);
  d.a = lower_operand(l, dot->a, dot->pack_a);
  d.b = lower_operand(l, dot->b, dot->pack_b);
  bool add = pv->into != NO_TILE;
  view to = lower_buffer(l, add ? l->p->values[pv->into].buffer : pv->buffer);
  if (dot->pack_c >= 0) d.c = lower_operand(l, id, dot->pack_c);
  if (dot->pack_c < 0) d.c = add ? view_of_product(l, l->p->values[pv->into].dot, to) : to;
  d.a_axes = tile_at(program, dot->a)->axes;
  d.b_axes = tile_at(program, dot->b)->axes;
  d.c_axes = v->axes;
  axis_set inner = plan_inner_axes(dot);
  d.summed = plan_tile_axes(l->m, v->over) & ~inner;
  d.free = nest->axes & ~inner & ~d.summed;
  place_in_loops at = l->outside;
  bool minus = add && tile_at(program, pv->into)->op == TILE_SUB;
  dot_start start = minus ? START_SUBTRACT : add ? START_ADD : START_ZERO;
  product_loops(l, &at, &d, d.free | d.summed, start);
  if (dot->pack_c >= 0) host_turn(l, nest, d.c, to);
}
