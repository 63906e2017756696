// What the warps of a block do in a triangular system, as lower/gpu/solve.c divides it.
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/plan/gpu/nest_work.h"

int64_t gpu_size_in(const placed_program *p, int axis) {
  return plan_typical_size(p->p->program, axis);
}

double gpu_entries(const placed_program *p, axis_set axes) {
  double count = 1;
  for (int axis = 0; axis < p->p->program->axes.count; axis++)
    if (axis_in(axes, axis)) count *= (double)gpu_size_in(p, axis);
  return count;
}

gpu_turns gpu_turns_of(const placed_program *p, double points) {
  double threads = p->threads;
  return (gpu_turns){ceil(points / GPU_WARP_LANES), ceil(points / threads)};
}

double gpu_warps_in(const placed_program *p, double turns) {
  return fmin(fmax(turns, 1), (double)p->threads / GPU_WARP_LANES);
}

// A system being counted. Rows of a column are solved in blocks of four, which go to the lanes that
// share it in turn.
typedef struct system_count {
  const placed_program *p;
  access_visitor *visitor;
  const tile_value *v;
  axis_list columns;  // all axes but that of the rows
  int row, lanes;
  double rows, blocks, kept;  // of a column; blocks of a lane
  gpu_turns turns;            // of warps
  nest_work work;
} system_count;

// `times` in each turn.
static void add(system_count *c, const plan_access *x, access_kind kind, const plan_lanes *at,
                double times) {
  enum { BITS_OF_ROWS = 2 };
  if (!x->placed) return;
  const nest_access access = {
      .x = x,
      .at = at,
      .times = times * c->turns.all,
      .warps = gpu_warps_in(c->p, c->turns.all),
      .fragment = c->lanes > 1,
      .lines = gpu_size_in(c->p, c->row) % GPU_SYSTEM_ROWS ? 0 : BITS_OF_ROWS};
  if (c->visitor) c->visitor->visit(c->visitor, &access);
  warp_access own = plan_access_of_warp(x, kind, at);
  c->work.all.wavefronts += access.times * own.wavefronts;
  c->work.all.bytes += access.times * own.bytes;
}

static void put_columns(const system_count *c, int row, plan_lanes *at) {
  const tile_program *program = c->p->p->program;
  if (c->lanes > 1)
    plan_put_rows(program, &c->columns, row, c->lanes, GPU_SYSTEM_ROWS, at);
  else
    plan_put_pieces(program, &c->columns, 1, at);
}

// Each lane reads its own rows of the matrix, or transposed its own columns, four numbers at once. By
// itself it has a column: all lanes read the same.
static void put_matrix(const system_count *c, plan_lanes *at) {
  int column = tile_column_axis(c->v), own = tile_is_transposed(c->v) ? column : c->row;
  put_columns(c, own, at);
  at->placed = c->lanes > 1 ? axis_bit(own) : 0;
  at->vector = column, at->numbers = GPU_SYSTEM_ROWS;
}

// Each solved block adds its terms to those behind it.
static void add_accesses(system_count *c, const plan_nest *nest) {
  plan_access right = gpu_access_of_operand(c->p, c->v->args[1], -1),
              matrix = gpu_access_of_operand(c->p, nest->dot.a, nest->dot.pack_a),
              solved = gpu_access_of_buffer(c->p, c->p->p->values[nest->values.items[0]].buffer);
  double pairs = c->blocks * (c->blocks - 1) / 2 / c->lanes;
  plan_lanes at;
  put_columns(c, c->row, &at);
  add(c, &right, LOAD, &at, c->rows / c->lanes);
  add(c, &solved, STORE, &at, c->rows / c->lanes);
  if (c->lanes == 1) add(c, &solved, LOAD, &at, GPU_SYSTEM_ROWS * pairs);
  put_matrix(c, &at);
  add(c, &matrix, LOAD, &at, GPU_SYSTEM_ROWS * pairs + (GPU_SYSTEM_ROWS - 1) * c->kept);
}

// Of a lane.
static double instructions_of(const system_count *c) {
  if (c->lanes == 1)
    return plan_blocks_of_system((int64_t)c->rows) * GPU_COST_SOLVE_BLOCK +
           GPU_COST_SOLVE_ROW * c->rows;
  return c->blocks * (c->kept + 1) / 2 * GPU_COST_SOLVE_TERMS + c->blocks * GPU_COST_SOLVE_SHARED +
         c->kept * GPU_COST_SOLVE_OWN;
}

nest_work gpu_work_of_solve(const placed_program *p, const plan_nest *nest,
                            access_visitor *visitor) {
  system_count c = {.p = p, .visitor = visitor};
  c.v = tile_at(p->p->program, nest->values.items[0]);
  c.row = tile_row_axis(c.v);
  axis_set axes = plan_tile_axes(p->m, c.v->axes) & ~axis_bit(c.row);
  double columns = gpu_entries(p, axes);
  c.columns = plan_by_rank(p->m, p->p->program, axes);
  c.rows = (double)gpu_size_in(p, c.row), c.blocks = c.rows / GPU_SYSTEM_ROWS;
  c.lanes = plan_lanes_of_system(p->m, columns, (int64_t)c.rows);
  c.kept = c.blocks / c.lanes;
  c.turns = gpu_turns_of(p, columns * c.lanes);
  add_accesses(&c, nest);
  c.work.all.instructions = c.turns.all * instructions_of(&c);
  c.work.all.busiest = c.turns.busiest * instructions_of(&c);
  c.work.all.far = c.work.all.bytes > 0 ? c.kept : 0;
  c.work.used = (int)c.turns.all < p->threads / GPU_WARP_LANES ? (int)c.turns.all : 0;
  return c.work;
}
