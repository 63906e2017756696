// GPU: time slices of states that mix their entries (tile/columns.c).
//
//   KERNEL_SUMMARY, blocks of V:       0 .. all chunks of the slice .. summary: columns of states
//   as many blocks behind them      1 in one row each; tokens that have V are 0 .. all chunks .. summary: columns of the matrix
//   FORWARD                         for each slice before this one: states = matrix * states + summary
//
// Transition blocks run the same code, on multiprocessors that would be idle. With MAP_THREADS, a
// thread of such a block has a column of the matrix. The products that combine slices are in f32.
#include "compiler/kernel/gpu/frame.h"
#include "compiler/lower/gpu/nests.h"

ir gpu_lane_blocks(kernel_frame *h) {
  return int_add_n(h->e, frame_lane_blocks(h), gpu_transition_blocks(h->k));
}

// ---- the matrix in the summary: after the states, [row of a state][column], in the order of the
// states ----

static ir place_numbers(kernel_frame *h, const tile_place *place) {
  ir numbers = integer(h->e, gpu_row_numbers(h->k));
  for (int x = 0; x < place->axis_count; x++)
    if (place->axes[x] != h->k->value_axis)
      numbers = int_mul(h->e, numbers, h->axis_size[place->axes[x]]);
  return numbers;
}

ir gpu_columns_offset(kernel_frame *h, const tile_place *state) {
  emitter *e = h->e;
  const tile_program *ends = gpu_summary_program(h->k);
  ir offset = integer(e, 0);
  for (int i = 0; i < ends->results.count; i++)
    offset = int_add(e, offset, gpu_summary_elements_of(h, &ends->results.items[i].place));
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (state && place->tensor == state->tensor && place->component == state->component) break;
    if (gpu_is_column(h->k, place)) offset = int_add(e, offset, place_numbers(h, place));
  }
  return offset;
}

// The rows of a state in the matrix of slice `number`, from column `first` on.
static view matrix_view(kernel_frame *h, const tile_place *state, ir number, ir first) {
  emitter *e = h->e;
  ir offset = int_add(e, gpu_columns_offset(h, state), first);
  view v = {.base = gpu_summary_at(h, number, offset)};
  ir stride = integer(e, gpu_row_numbers(h->k));
  for (int x = state->axis_count - 1; x >= 0; x--) {
    int axis = state->axes[x];
    v.stride[axis] = axis == h->k->value_axis ? integer(e, 1) : stride;
    if (axis != h->k->value_axis) stride = int_mul(e, stride, h->axis_size[axis]);
  }
  return v;
}

// ---- transition blocks ----

// The first entry of the lane axis that the block has; in a transition block, its first column.
ir gpu_first_of_lanes(kernel_frame *h) {
  emitter *e = h->e;
  ir block = integer(e, h->k->lane_block), first = int_mul(e, h->gpu->lane_block, block);
  h->gpu->lane_end = h->axis_size[h->k->lane_axis];
  if (!gpu_transition_blocks(h->k)) return first;
  ir own = int_div(e, int_add_n(e, h->gpu->lane_end, h->k->lane_block - 1), block);
  h->gpu->slice.of_matrix = int_compare(e, LLVMIntSGE, h->gpu->lane_block, own);
  h->gpu->lane_end =
      int_choose(e, h->gpu->slice.of_matrix, integer(e, h->k->transition_size), h->gpu->lane_end);
  h->gpu->slice.first_column = int_mul(e, int_sub(e, h->gpu->lane_block, own), block);
  return kernel_has_own_lanes(h->k)
             ? int_choose(e, h->gpu->slice.of_matrix, h->gpu->slice.first_column, first)
             : first;
}

// The first row of a state in the matrix; *rows: its number of rows.
static int64_t first_state_row(kernel_frame *h, const tile_place *state, int64_t *rows) {
  const tile_program *ends = gpu_summary_program(h->k);
  int64_t first = 0;
  for (int i = 0; i < ends->results.count; i++) {
    const tile_place *place = &ends->results.items[i].place;
    if (!gpu_is_column(h->k, place)) continue;
    *rows = 1;
    for (int x = 0; x < place->axis_count; x++) {
      int axis = place->axes[x];
      if (axis != h->k->value_axis && !axis_in(h->m.instance, axis))
        *rows *= plan_axis_size(ends, axis);
    }
    if (place->tensor == state->tensor && place->component == state->component) return first;
    first += *rows;
  }
  ICE("kernel", "%s is no column", state->name ? state->name : "?");
}

typedef struct identity {
  kernel_frame *h;
  const tile_place *state;
  const view *to;
} identity;

// The identity: 1 where row and column are equal.
static ir one_at(const identity *x, lower *l, const place_in_loops *at) {
  kernel_frame *h = x->h;
  emitter *e = l->e;
  int64_t rows, first = first_state_row(h, x->state, &rows);
  ir row = integer(e, 0), stride = integer(e, 1);
  for (int i = x->state->axis_count - 1; i >= 0; i--) {
    int axis = x->state->axes[i];
    if (axis == h->k->value_axis || axis_in(h->m.instance, axis)) continue;
    row = int_add(e, row, int_mul(e, at->index[axis], stride));
    stride = int_mul(e, stride, l->axis_size[axis]);
  }
  ir column = at->index[h->k->value_axis];
  if (!kernel_has_own_lanes(h->k)) column = int_add(e, h->gpu->slice.first_column, column);
  ir same = int_compare(e, LLVMIntEQ, int_add_n(e, row, first), column);
  return LLVMBuildSelect(e->b, same, real_number(e, 1, 0), real_number(e, 0, 0), "");
}

static ir identity_element(const identity *x, lower *l, const place_in_loops *at) {
  emitter *e = l->e;
  if (at->vector_axis < 0) return one_at(x, l, at);
  ir all = LLVMGetPoison(real_type(e, at->lanes));
  for (int i = 0; i < at->lanes; i++) {
    place_in_loops one = *at;
    one.index[at->vector_axis] = int_add_n(e, at->index[at->vector_axis], i);
    all = LLVMBuildInsertElement(e->b, all, one_at(x, l, &one), integer(e, i), "");
  }
  return all;
}

static void identity_point(lower *l, const place_in_loops *at, void *data) {
  const identity *x = data;
  view_store(l, x->to, at, tile_body_axes(x->state), identity_element(x, l, at));
}

static void identity_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  gpu_set_pair(l->e, slots, identity_element(data, l, at));
}

void gpu_begin_column(kernel_frame *h, frame_program *p, const tile_place *state, const view *to) {
  emitter *e = h->e;
  identity x = {h, state, to};
  const register_accumulators *kept = gpu_registers_of(p, to);
  if (!gpu_transition_blocks(h->k) || !gpu_is_column(h->k, state)) return;
  emit_branch branch = branch_begin(e, h->gpu->slice.of_matrix);
  p->l.outside = h->at;
  if (kept)
    gpu_accumulators_each(&p->l, kept, identity_pair, &x);
  else
    lower_copies(&p->l, plan_tile_axes(&h->m, tile_body_axes(state)), false, identity_point, &x);
  branch_end(e, &branch);
}

void gpu_end_column(kernel_frame *h, frame_program *p, const tile_place *state, const view *from) {
  emitter *e = h->e;
  if (!gpu_is_column(h->k, state)) return;
  view to = matrix_view(h, state, h->gpu->slice.number,
                        kernel_has_own_lanes(h->k) ? integer(e, 0) : h->gpu->slice.first_column);
  ir here = bit_and(e, h->gpu->slice.of_matrix, frame_writes_state(h, state));
  emit_branch branch = branch_begin(e, gpu_by_this_thread(h, here));
  if (!kernel_has_own_lanes(h->k)) to.aligned = gpu_aligned(h, p, &to, tile_body_axes(state));
  frame_copy_state(h, p, state, from, &to);
  branch_end(e, &branch);
}

// ---- combining ----

// All states before a slice: [row][entry of the value axis].
typedef struct product {
  kernel_frame *h;
  frame_program *p;
  const tile_place *state;
  const view *to;
  view kept, matrix;
  axis_set axes;
} product;

// Elements of a row of all states before the slice. With MAP_THREADS, each thread has a column.
static ir row_width(const kernel_frame *h, const frame_program *p) {
  return kernel_has_own_lanes(h->k) ? integer(h->e, h->gpu->team.threads)
                                    : p->l.axis_size[h->k->value_axis];
}

static view before_view(kernel_frame *h, frame_program *p, ir row) {
  emitter *e = h->e;
  view v = {.base = frame_located(h, h->plan->combined_at), .alignment = 1};
  if (kernel_has_own_lanes(h->k)) v.base = element(e, e->real, v.base, h->gpu->team.thread);
  v.base = element(e, e->real, v.base, int_mul(e, row, row_width(h, p)));
  if (!kernel_has_own_lanes(h->k)) v.stride[h->k->value_axis] = integer(e, 1);
  return v;
}

static view before_of_state(kernel_frame *h, frame_program *p, const tile_place *state) {
  int64_t rows, first = first_state_row(h, state, &rows);
  view v = before_view(h, p, integer(h->e, first));
  ir stride = row_width(h, p);
  for (int x = state->axis_count - 1; x >= 0; x--) {
    int axis = state->axes[x];
    if (axis_in(h->m.instance, axis) || axis == h->k->value_axis) continue;
    v.stride[axis] = stride;
    stride = int_mul(h->e, stride, p->l.axis_size[axis]);
  }
  return v;
}

// x + an element of the matrix times the old element of that row.
static ir add_old_row(const product *d, lower *l, const place_in_loops *at, ir row, ir x) {
  kernel_frame *h = d->h;
  emitter *e = l->e;
  int axis = h->k->value_axis, lanes = at->vector_axis >= 0 ? at->lanes : 0;
  view matrix = d->matrix, before = before_view(h, d->p, row);
  matrix.base = element(e, e->real, matrix.base, row);
  ir entry = view_load(l, &matrix, at, d->axes & ~axis_bit(axis));
  ir number = view_load(l, &before, at, axis_bit(axis));
  return real_fma(e, spread(e, entry, lanes), spread(e, number, lanes), x);
}

static emit_loop begin_row_loop(const product *d) {
  return loop_begin(d->h->e, integer(d->h->e, 0), integer(d->h->e, d->h->k->transition_size), 1,
                    "row");
}

static void product_point(lower *l, const place_in_loops *at, void *data) {
  const product *d = data;
  emitter *e = l->e;
  int lanes = at->vector_axis >= 0 ? at->lanes : 0;
  ir sum = stack_slot(e, real_type(e, lanes), "joined");
  store_real(e, view_load(l, &d->kept, at, d->axes), sum);
  emit_loop loop = begin_row_loop(d);
  store_real(e, add_old_row(d, l, at, loop.index, load_real(e, sum, lanes)), sum);
  loop_end(e, &loop);
  view_store(l, d->to, at, d->axes, load_real(e, sum, lanes));
}

typedef struct row_of_product {
  const product *product;
  ir row;
} row_of_product;

static void product_pair(lower *l, const place_in_loops *at, const ir *slots, void *data) {
  const row_of_product *d = data;
  gpu_set_pair(l->e, slots, add_old_row(d->product, l, at, d->row, gpu_pair_of(l->e, slots)));
}

// Register-resident states have no address, so all their elements take a row at a time.
static void add_row_at_point(lower *l, const place_in_loops *at, void *data) {
  const row_of_product *d = data;
  const product *x = d->product;
  view_store(l, x->to, at, x->axes,
             add_old_row(x, l, at, d->row, view_load(l, x->to, at, x->axes)));
}

static void multiply_alone(product *d) {
  kernel_frame *h = d->h;
  frame_copy_state(h, d->p, d->state, &d->kept, d->to);
  emit_loop loop = begin_row_loop(d);
  row_of_product row = {d, loop.index};
  lower_copies(&d->p->l, plan_tile_axes(&h->m, d->axes), false, add_row_at_point, &row);
  loop_end(h->e, &loop);
}

static void multiply_transition(product *d) {
  kernel_frame *h = d->h;
  lower *l = &d->p->l;
  const register_accumulators *kept = gpu_registers_of(d->p, d->to);
  if (kernel_has_own_lanes(h->k)) {
    multiply_alone(d);
    return;
  }
  if (!kept) {
    lower_copy_loops(l, plan_tile_axes(&h->m, d->axes), false, product_point, d);
    return;
  }
  gpu_accumulators_load(l, kept, &d->kept, d->axes);
  emit_loop loop = begin_row_loop(d);
  row_of_product row = {d, loop.index};
  gpu_accumulators_each(l, kept, product_pair, &row);
  loop_end(h->e, &loop);
}

void gpu_combine_columns(kernel_frame *h, frame_program *p, ir number) {
  lower *l = &p->l;
  bool any = false;
  lower_barrier(l);
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *state = &p->carried.items[c].place;
    if (!gpu_is_column(h->k, state)) continue;
    view before = before_of_state(h, p, state);
    frame_copy_state(h, p, state, &l->carried[c], &before);
    any = true;
  }
  if (any) lower_barrier(l);
  for (int c = 0; c < p->carried.count; c++) {
    const tile_place *state = &p->carried.items[c].place;
    if (!gpu_is_column(h->k, state)) continue;
    product d = {
        .h = h, .p = p, .state = state, .to = &l->carried[c], .axes = tile_body_axes(state)};
    d.kept = gpu_summary_view(h, p, state, number);
    d.matrix = matrix_view(h, state, number, integer(h->e, 0));
    d.matrix.stride[h->k->value_axis] = NULL;
    multiply_transition(&d);
  }
  gpu_forget_accesses(l, false);
}
