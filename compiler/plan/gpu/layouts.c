// GPU: the layout of each f32 buffer and state in shared memory, chosen over all that read and
// write it.
//
//   state S [K 128,V 128] f32      read and written as accumulators: lanes have rows 0 .. 7 and pairs of columns
//                                  read as operand B: lanes have rows 0, 2, 4, 6 and columns 0 .. 7
//                                  -> PATTERN_GRAY: both without conflicts
//
// For each access of a warp the lanes' addresses are counted in each pattern (banks.c). A pattern
// costs instructions as well: a few for a nest, where lanes have places of a fragment; else a few
// for each access.
#include <string.h>

#include "compiler/plan/gpu/accesses.h"
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

enum { LANES = GPU_WARP_LANES, NUMBER_BYTES = 4 };

// Patterns without groups, then those with groups of 4, 8, 16 and 32 lines.
enum { FIRST_GROUP = 2, LAST_GROUP = 5, GROUPED = PATTERN_COUNT - PATTERN_GROUPS };
enum { CANDIDATES = PATTERN_GROUPS + GROUPED * (LAST_GROUP - FIRST_GROUP + 1) };

static plan_layout candidate(int number, int line) {
  if (number < PATTERN_GROUPS) return (plan_layout){(plan_pattern)number, line, 0};
  number -= PATTERN_GROUPS;
  return (plan_layout){(plan_pattern)(PATTERN_GROUPS + number % GROUPED), line,
                       FIRST_GROUP + number / GROUPED};
}

// The lanes of a warp in the accesses of a nest.
typedef struct warp_place {
  plan_lanes lanes;
  double times;   // so many such accesses
  double warps;   // that make them at the same time
  double share;   // of the runs of the body: how often the nest runs
  bool fragment;  // lanes have places that are known before the loops of the nest
  int lines;      // bits of the number of a line that are constants in the code
} warp_place;

// The memory of buffers, then of carried values.
typedef struct memory_cost {
  bool chosen;  // it may have any pattern
  int line;
  double cycles[CANDIDATES];
} memory_cost;

// Wavefronts that have been counted before.
typedef struct known_access {
  int64_t offsets[LANES];
  int numbers, line;
  int wavefronts[CANDIDATES];
} known_access;

enum { MOST_KNOWN = 16 };

typedef struct layouts {
  planner *q;
  arena *scratch;  // for the accesses of all nests, which are many
  memory_cost *memory;
  warp_place *at;
  known_access *known;
  int known_count;
} layouts;

static int64_t size_of(const layouts *c, int axis) {
  return plan_typical_size(c->q->m, c->q->program, axis);
}

// ---- an access ----

// Addresses of fragments are made once for all elements, and so are those of code whose constants
// are all that numbers trade places by. Where such constants are nothing that they trade places by,
// all these lines have one address. Elsewhere the bits that trade places are put into each address.
static double instructions_of(const layouts *c, const memory_cost *memory, int number) {
  plan_swap swaps[PLAN_MOST_SWAPS];
  int64_t read = 0;
  const int lines = 1 << c->at->lines,
            count = plan_swaps_of(candidate(number, memory->line), NUMBER_F32, swaps);
  for (int i = 0; i < count; i++) read |= swaps[i].bits << swaps[i].down;
  if (!count) return 0;
  read >>= memory->line;
  if (c->at->fragment) return read & (lines - 1) ? 1 : 1.0 / lines;
  return read / lines == 0 ? 1 : 1 + count;
}

static int wavefronts_in(plan_layout layout, const known_access *x) {
  int64_t places[LANES];
  for (int lane = 0; lane < LANES; lane++)
    places[lane] = x->offsets[lane] < 0
                       ? -1
                       : NUMBER_BYTES * plan_offset_in(layout, NUMBER_F32, x->offsets[lane]);
  return plan_wavefronts(places, NUMBER_BYTES * x->numbers);
}

// Do the lanes that are served together have numbers of one block of banks? Then no pattern changes
// anything.
static bool is_in_blocks(const known_access *x) {
  int together = LANES / x->numbers;
  for (int lane = 0; lane < LANES; lane++)
    if (x->offsets[lane] / PLAN_BANKS != x->offsets[lane / together * together] / PLAN_BANKS)
      return false;
  return true;
}

static void count_wavefronts(known_access *x) {
  bool same = is_in_blocks(x);
  for (int i = 0; i < CANDIDATES; i++)
    x->wavefronts[i] = same && i ? x->wavefronts[0] : wavefronts_in(candidate(i, x->line), x);
}

static const known_access *known_of(layouts *c, const known_access *x) {
  for (int i = 0; i < MOST_KNOWN && i < c->known_count; i++) {
    const known_access *known = &c->known[i];
    bool same = known->numbers == x->numbers && known->line == x->line;
    if (same && memcmp(known->offsets, x->offsets, sizeof x->offsets) == 0) return known;
  }
  known_access *next = &c->known[c->known_count++ % MOST_KNOWN];
  *next = *x;
  count_wavefronts(next);
  return next;
}

static void count_access(layouts *c, const plan_access *access) {
  const warp_place *at = c->at;
  if (access->memory < 0 || !c->memory[access->memory].chosen) return;
  memory_cost *memory = &c->memory[access->memory];
  bool apart = plan_lies_apart(access, &at->lanes);
  double times =
      apart && access->stride[at->lanes.vector] ? at->times * at->lanes.numbers : at->times;
  known_access x = {.numbers = apart ? 1 : at->lanes.numbers, .line = memory->line};
  plan_offsets_of(access, &at->lanes, x.offsets);
  const known_access *known = known_of(c, &x);
  for (int i = 0; i < CANDIDATES; i++)
    memory->cycles[i] +=
        at->share * times *
        (known->wavefronts[i] + gpu_cost_latency / at->warps * instructions_of(c, memory, i));
}

static void count_accesses(layouts *c, plan_accesses accesses) {
  for (int i = 0; i < accesses.count; i++) count_access(c, &accesses.items[i]);
}

static void count_buffer(layouts *c, int buffer) {
  if (buffer < 0) return;
  const plan_access access = plan_access_of_buffer(c->q->m, c->q->p, buffer);
  count_access(c, &access);
}

static void count_read(layouts *c, tile_id id) {
  count_accesses(c, plan_accesses_of_read(c->scratch, c->q->m, c->q->p, id));
}

static void count_written(layouts *c, tile_id id) {
  count_accesses(c, plan_accesses_of_written(c->scratch, c->q->m, c->q->p, id));
}

// The values from number `first` on.
static void count_values(layouts *c, const plan_nest *nest, int first) {
  count_accesses(c, plan_accesses_of(c->scratch, c->q->m, c->q->p, nest, first));
}

// An operand of a product or a system, or its copy.
static void count_operand(layouts *c, tile_id id, int pack) {
  pack >= 0 ? count_buffer(c, pack) : count_read(c, id);
}

// ---- points ----

static axis_list by_rank(const layouts *c, axis_set axes) {
  return plan_by_rank(c->q->m, c->q->program, axes);
}

static double product_of(const layouts *c, const axis_list *list) {
  double points = 1;
  for (int i = 0; i < list->count; i++) points *= (double)size_of(c, list->axes[i]);
  return points;
}

static double warps_of(const layouts *c, double pieces) {
  double most = (double)c->q->m->threads / LANES;
  return pieces < 1 ? 1 : pieces < most ? pieces : most;
}

// Neighbouring threads have neighbouring points, of `numbers` along the last axis.
static void take_points(layouts *c, const axis_list *list, int numbers, double turns) {
  double pieces = product_of(c, list) / numbers / LANES;
  c->at->fragment = false, c->at->lines = 0;
  c->at->times = turns * (pieces < 1 ? 1 : pieces);
  c->at->warps = warps_of(c, pieces);
  plan_put_pieces(c->q->m, c->q->program, list, numbers, &c->at->lanes);
}

static int neighbours_of(const layouts *c, const axis_list *list) {
  if (!list->count) return 1;
  return plan_numbers_at_once(size_of(c, list->axes[list->count - 1]), (int64_t)product_of(c, list),
                              c->q->m->threads);
}

static double entries_of(const layouts *c, axis_set axes) {
  double entries = 1;
  for (int axis = 0; axis < c->q->program->axes.count; axis++)
    if (axis_in(axes, axis)) entries *= (double)size_of(c, axis);
  return entries;
}

static void count_points(layouts *c, const plan_nest *nest) {
  const plan_threads *t = &nest->threads;
  const axis_list points = by_rank(c, nest->axes & ~nest->over), summed = by_rank(c, nest->over);
  int width = t->width > 1 ? t->width : 1, lanes = t->lanes == PLAN_ALL_THREADS ? LANES : t->lanes;
  bool sums = width > 1 && axis_in(nest->over, t->vector);
  double warps = product_of(c, &points) / (sums ? 1 : width) / (LANES / lanes);
  double turns = (double)blocks_up((int64_t)product_of(c, &summed) / (sums ? width : 1), lanes);
  c->at->fragment = false, c->at->lines = 0;
  plan_put_lanes(c->q->m, c->q->program, nest, t, &c->at->lanes);
  c->at->times = turns * (warps < 1 ? 1 : warps);
  c->at->warps = warps_of(c, t->lanes == PLAN_ALL_THREADS ? turns : warps);
  count_values(c, nest, 0);
}

static void count_pack(layouts *c, const plan_nest *nest) {
  const plan_buffer *b = &c->q->p->buffers.items[nest->pack];
  axis_list list = {.count = b->axis_count};
  memcpy(list.axes, b->axes, (size_t)b->axis_count * sizeof *b->axes);
  take_points(c, &list, neighbours_of(c, &list), 1);
  count_read(c, nest->packed);
  count_buffer(c, nest->pack);
}

// Lanes that share a column: the first rows of neighbours lie so many rows apart.
static void take_shared(layouts *c, const axis_list *list, int row, int lanes, int64_t apart) {
  double columns = product_of(c, list);
  int side = LANES / lanes;
  plan_put_rows(c->q->m, c->q->program, list, row, lanes, apart, &c->at->lanes);
  c->at->fragment = true, c->at->lines = 0;
  c->at->warps = warps_of(c, columns / side);
  c->at->times = (double)(size_of(c, row) / lanes) * (columns < side ? 1 : columns / side);
}

// Neighbouring threads have neighbouring columns, and walk along them.
static axis_list take_columns(layouts *c, const plan_nest *nest, int row) {
  const axis_list columns = by_rank(c, nest->axes & ~axis_bit(row));
  take_points(c, &columns, 1, entries_of(c, axis_bit(row)));
  return columns;
}

static void count_prefix(layouts *c, const plan_nest *nest) {
  int row = tile_step_axis(value(c->q, nest->values.items[0]));
  const axis_list columns = take_columns(c, nest, row);
  int lanes = plan_lanes_of_scan(c->q->m, product_of(c, &columns), size_of(c, row));
  // Each adds up rows that follow each other (lower/gpu/scan.c).
  if (lanes > 1) take_shared(c, &columns, row, lanes, size_of(c, row) / lanes);
  count_values(c, nest, 0);
}

// Bits of the rows of a block.
enum { BITS_OF_ROWS = 2 };

// Lanes that share a column: each reads its own rows of the matrix, or transposed its own columns,
// four numbers at once.
static void take_shared_matrix(layouts *c, const tile_value *v, const axis_list *columns,
                               int lanes) {
  const int row = tile_row_axis(v), own = tile_is_transposed(v) ? tile_column_axis(v) : row;
  const double kept = (double)(size_of(c, row) / GPU_SYSTEM_ROWS / lanes);
  take_shared(c, columns, own, lanes, GPU_SYSTEM_ROWS);
  c->at->lines = BITS_OF_ROWS;
  c->at->lanes.placed = axis_bit(own);
  c->at->lanes.vector = tile_column_axis(v), c->at->lanes.numbers = GPU_SYSTEM_ROWS;
  c->at->times *= lanes * (kept + 1) / 2;
}

// A thread reads a row that is solved for each block of rows behind it. Lanes that share a column
// keep theirs, a block of rows each.
static void count_solve(layouts *c, const plan_nest *nest) {
  const tile_value *v = value(c->q, nest->values.items[0]);
  int row = tile_row_axis(v);
  const axis_list columns = take_columns(c, nest, row);
  const double made = c->at->times, rows = entries_of(c, axis_bit(row));
  const double again = made / rows * GPU_SYSTEM_ROWS * plan_blocks_of_system((int64_t)rows);
  const int lanes = plan_lanes_of_system(c->q->m, product_of(c, &columns), size_of(c, row));
  if (lanes > 1) take_shared(c, &columns, row, lanes, GPU_SYSTEM_ROWS);
  if (size_of(c, row) % GPU_SYSTEM_ROWS == 0) c->at->lines = BITS_OF_ROWS;
  count_read(c, v->args[1]);
  if (lanes == 1) c->at->times += again;
  count_written(c, nest->values.items[0]);
  if (lanes > 1) {
    take_shared_matrix(c, v, &columns, lanes);
  } else {
    take_columns(c, nest, row);
    c->at->lanes.placed = 0;
    c->at->times = made + again;
  }
  count_operand(c, v->args[0], nest->dot.pack_a);
}

// The gradient of sums between steps (lower/gpu/segment_adjoint.c): of each block of 8 steps a warp
// reads the rows behind it, 4 rows of 32 numbers at once; of 4 steps, 8 rows of 16 numbers.
static void count_segment_adjoint(layouts *c, const plan_nest *nest) {
  enum { AT_ONCE = 4 };
  const int block = nest->threads.steps ? nest->threads.steps : LANES;
  const tile_value *v = value(c->q, nest->values.items[0]);
  const int t = tile_step_axis(v), s = tile_other_step_axis(v);
  const double steps = (double)size_of(c, t),
               blocks = entries_of(c, nest->axes & ~(axis_bit(t) | axis_bit(s))) * steps / block;
  plan_lanes *at = &c->at->lanes;
  plan_put_none(at, s, AT_ONCE);
  c->at->fragment = false, c->at->lines = 0;
  c->at->times = blocks * steps / 2 / (LANES / block), c->at->warps = warps_of(c, blocks);
  for (int lane = 0; lane < LANES; lane++) {
    plan_put_index(at, t, lane, lane / block);
    plan_put_index(at, s, lane, lane % block * AT_ONCE);
  }
  count_read(c, v->args[0]);
}

// ---- products ----

static bool is_tf32(const layouts *c) { return !number_is_narrow(c->q->m->dtype); }

static void take_places(layouts *c, double times) {
  c->at->fragment = true, c->at->lines = 0;
  c->at->times = times, c->at->warps = warps_of(c, times);
}

static void take_fragment(layouts *c, int line, int along, int numbers, double times) {
  plan_put_fragment(line, along, numbers, &c->at->lanes);
  take_places(c, times);
}

// Rows of 16 bytes, as ldmatrix loads them.
static void take_matrices(layouts *c, int line, int along, double times) {
  plan_put_none(&c->at->lanes, along, 4);
  for (int lane = 0; lane < LANES; lane++) {
    plan_put_index(&c->at->lanes, line, lane, lane % 16);
    plan_put_index(&c->at->lanes, along, lane, lane / 16 * 4);
  }
  take_places(c, times);
}

static bool in_matrices(const layouts *c, tile_id id, int pack, int k) {
  if (!is_tf32(c)) return false;
  const plan_buffer *b = pack < 0 ? NULL : &c->q->p->buffers.items[pack];
  if (b) return b->axis_count && b->axes[b->axis_count - 1] == k;
  return plan_contiguous_axis(c->q->m, c->q->p, id) == k;
}

static void count_factor(layouts *c, tile_id id, int pack, int line, int k, double registers) {
  if (in_matrices(c, id, pack, k)) {
    take_matrices(c, line, k, registers / 4);
  } else {
    take_fragment(c, line, k, is_tf32(c) ? 1 : 2, registers);
  }
  count_operand(c, id, pack);
}

static void count_operands(layouts *c, const plan_dot *dot, double around) {
  enum { REGISTERS_OF_A = 4, REGISTERS_OF_B = 2 };
  const mapping *m = c->q->m;
  int depth = is_tf32(c) ? 8 : 16;
  double rows = (double)blocks_up(size_of(c, dot->i), GPU_TILE_ROWS);
  double columns = (double)blocks_up(size_of(c, dot->j), GPU_TILE_COLUMNS);
  double steps = (double)blocks_up(size_of(c, dot->k), depth) * around;
  double tiles = plan_tiles_of_warp(m, c->q->program, dot, (int64_t)rows);
  count_factor(c, dot->a, dot->pack_a, dot->i, dot->k,
               rows * columns / tiles * steps * REGISTERS_OF_A);
  count_factor(c, dot->b, dot->pack_b, dot->j, dot->k, rows * columns * steps * REGISTERS_OF_B);
}

static void take_accumulator(layouts *c, const plan_nest *nest, double around) {
  const plan_dot *dot = &nest->dot;
  double rows = (double)blocks_up(size_of(c, dot->i), GPU_TILE_ROWS);
  double columns = (double)blocks_up(size_of(c, dot->j), GPU_TILE_COLUMNS);
  take_fragment(c, dot->i, dot->j, 2, 2 * rows * columns * around);
}

// The place of the sum: its axes may have other names than the product's.
static void rename_place(layouts *c, tile_id operand, tile_id product) {
  if (operand == product) return;
  const tile_value *v = value(c->q, operand);
  rename_place(c, v->args[0], product);
  if (v->op != TILE_RENAME) return;
  int from = tile_renamed_from(v), to = tile_renamed_to(v);
  memcpy(c->at->lanes.index[to], c->at->lanes.index[from], sizeof c->at->lanes.index[to]);
  c->at->lanes.placed |= axis_bit(to);
  if (c->at->lanes.vector == from) c->at->lanes.vector = to;
}

static void count_product(layouts *c, const plan_nest *nest) {
  const plan_dot *dot = &nest->dot;
  tile_id id = nest->values.items[0], into = c->q->p->values[id].into;
  if (!plan_is_mma(c->q->m, c->q->program, dot)) return;
  double around = entries_of(c, nest->axes & ~plan_inner_axes(dot));
  count_operands(c, dot, around);
  if (nest->two) count_operands(c, &nest->other_dot, around);
  take_accumulator(c, nest, around);
  if (nest->two && nest->scaled != NO_TILE) count_read(c, nest->scaled);
  if (into == NO_TILE) {
    count_written(c, id);
  } else {
    rename_place(c, c->q->p->values[into].dot, id);
    tile_id begun = plan_begun_sum(c->q->p, nest);
    if (begun == NO_TILE) count_buffer(c, c->q->p->values[into].buffer);
    if (begun != into) count_written(c, into);
  }
  count_values(c, nest, 1);
}

// Nests before the first step and behind the last one hardly count.
static void count_nest(layouts *c, const plan_nest *nest) {
  const double seldom = 0.01;
  c->at->share = nest->region == REGION_PROLOGUE || nest->region == REGION_EPILOGUE ? seldom : 1;
  switch (nest->kind) {
    case NEST_POINTS: count_points(c, nest); break;
    case NEST_PACK: count_pack(c, nest); break;
    case NEST_DOT: count_product(c, nest); break;
    case NEST_SOLVE: count_solve(c, nest); break;
    case NEST_PREFIX: count_prefix(c, nest); break;
    case NEST_SEGMENT_ADJOINT: count_segment_adjoint(c, nest); break;
    default: break;
  }
}

// ---- choice ----

// A row of 32 numbers or of a multiple is a line, or the largest power of two that divides it.
static int line_of(int64_t row) {
  enum { LEAST = 5 };
  int line = LEAST;
  while (row % ((int64_t)2 << line) == 0) line++;
  return line;
}

static void open_memory(const layouts *c, memory_cost *memory, const plan_buffer *b) {
  enum { LINE = 32 };
  bool plain = b->numbers.sizes || b->lane || b->kept || b->gathered || b->axis_count < 2 ||
               b->stored != NUMBER_F32;
  if (plain || b->numbers.factor % LINE) return;
  memory->chosen = true;
  memory->line = line_of(size_of(c, b->axes[b->axis_count - 1]));
}

static void open_all(layouts *c) {
  plan *p = c->q->p;
  c->memory = ARENA_ARRAY(c->scratch, memory_cost, p->buffers.count + p->carried_count + 1);
  for (int i = 0; i < p->buffers.count; i++) {
    const plan_buffer *b = &p->buffers.items[i];
    if (b->carried < 0 && b->last >= 0) open_memory(c, &c->memory[i], b);
  }
  for (int s = 0; s < p->carried_count; s++)
    if (p->carried[s].accumulator < 0)
      open_memory(c, &c->memory[p->buffers.count + s], &c->q->carried->items[s].memory);
  // Sums along time in levels have addresses of their own.
  for (tile_id id = 0; id < c->q->program->values.count; id++)
    if (p->values[id].buffer >= 0 && plan_levels_of(c->q->m, c->q->program, id))
      c->memory[p->values[id].buffer].chosen = false;
}

// The pattern of the fewest cycles; the plainest of equal ones.
static plan_layout best_of(const memory_cost *memory) {
  int best = 0;
  for (int i = 1; memory->chosen && i < CANDIDATES; i++)
    if (memory->cycles[i] < memory->cycles[best]) best = i;
  return best ? candidate(best, memory->line) : (plan_layout){0};
}

void plan_choose_layouts(planner *q) {
  plan *p = q->p;
  if (q->m->kernel->program->form != TILE_CHUNK) return;
  arena *scratch = arena_new();
  layouts c = {.q = q,
               .scratch = scratch,
               .at = ARENA_NEW(scratch, warp_place),
               .known = ARENA_ARRAY(scratch, known_access, MOST_KNOWN)};
  open_all(&c);
  for (int n = 0; n < p->nests.count; n++) count_nest(&c, &p->nests.items[n]);
  for (int i = 0; i < p->buffers.count; i++) p->buffers.items[i].layout = best_of(&c.memory[i]);
  for (int s = 0; s < p->carried_count; s++)
    p->carried[s].layout = best_of(&c.memory[p->buffers.count + s]);
  arena_free(scratch);
}
