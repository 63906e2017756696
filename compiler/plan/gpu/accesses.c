// GPU: the memory that nests read and write, and the lanes of a warp in it.
//
//   points [t,K]: %9 = q{t->s} * %4 -> b2      q at s * 128 + K, b1 at t * 128 + K, b2 at t * 128 + K
//   4 lanes for each sum over K, 4 of K at once      lane 5: t = 1, K = 4 .. 7
#include "compiler/plan/gpu/accesses.h"

#include <string.h>

#include "compiler/plan/planner.h"

int64_t plan_typical_size(const tile_program *program, int axis) {
  int64_t size = plan_axis_size(program, axis);
  return size == TILE_RUNTIME_SIZE ? TILE_TYPICAL_SIZE : size;
}

// ---- index maps ----

static void move_stride(int64_t *stride, int from, int to, int64_t factor) {
  int64_t moved = stride[from] * factor;
  stride[from] = 0;
  stride[to] = moved;
}

static void split_stride(const tile_value *v, int64_t inner, int64_t *stride) {
  stride[tile_inner_axis(v)] = stride[tile_whole_axis(v)];
  move_stride(stride, tile_whole_axis(v), tile_outer_axis(v), inner);
}

static void join_strides(const tile_value *v, int64_t *stride) {
  stride[tile_outer_axis(v)] = 0;
  move_stride(stride, tile_inner_axis(v), tile_whole_axis(v), 1);
}

static void slice_stride(const tile_value *v, plan_access *access) {
  access->offset += tile_entry(v) * access->stride[tile_entry_axis(v)];
  access->stride[tile_entry_axis(v)] = 0;
}

// A joined axis has the stride of its inner one.
void plan_map_access(const tile_program *program, const plan_index_map *maps, plan_access *access) {
  int64_t *stride = access->stride;
  for (; maps; maps = maps->above) {
    const tile_value *v = maps->v;
    switch (v->op) {
      case TILE_RENAME: move_stride(stride, tile_renamed_from(v), tile_renamed_to(v), 1); break;
      case TILE_SLICE: slice_stride(v, access); break;
      case TILE_SPLIT:
        split_stride(v, plan_typical_size(program, tile_inner_axis(v)), stride);
        break;
      case TILE_JOIN: join_strides(v, stride); break;
      default: break;
    }
  }
}

// ---- memory ----

static plan_access of_memory(const mapping *m, const plan_buffer *b, int memory) {
  plan_access access = {.stored = b->stored, .memory = memory, .placed = true, .in_shared = true};
  for (int i = 0; i < b->axis_count; i++) access.stride[b->axes[i]] = b->stride[b->axes[i]].factor;
  int last = b->axis_count - 1;
  bool rows = last > 0 && !b->kept && !b->by_vectors;
  int64_t row = rows ? b->stride[b->axes[last - 1]].factor : 0;
  if (rows) access.layout = plan_layout_of_rows(b->stored, row);
  access.open = rows && m->kernel->program->form == TILE_CHUNK && b->stored == NUMBER_F32 &&
                row % PLAN_BANKS == 0;
  if (access.open)
    access.layout = (plan_layout){PATTERN_GRAY, __builtin_ctzll((unsigned long long)row), 0};
  return access;
}

// A state in accumulators may have a copy for other products.
static plan_access of_carried(const mapping *m, const plan *p, int c, plan_buffer b) {
  const carried_pair *pair = &p->carried[c];
  if (pair->accumulator >= 0 && !pair->has_copy) return (plan_access){.memory = -1};
  if (pair->has_copy) b.stored = m->dtype;
  return of_memory(m, &b, p->buffers.count + c);
}

plan_access plan_access_of_buffer(const mapping *m, const plan *p, int buffer) {
  const plan_buffer *b = &p->buffers.items[buffer];
  return b->carried >= 0 ? of_carried(m, p, b->carried, *b) : of_memory(m, b, buffer);
}

static bool is_state_place(const tile_place *place) {
  return place->role == TILE_STATE || place->role == TILE_D_NEXT_STATE || place->role == TILE_STASH;
}

plan_access plan_access_of_tensor(const mapping *m, const plan *p, const tile_place *place) {
  int t = p->program->time_axis;
  plan_access access = {
      .stored = place->time ? m->dtype : NUMBER_F32, .memory = -1, .placed = true};
  int64_t stride = 1;
  for (int i = place->axis_count - 1; i >= 0; i--) {
    bool tile = plan_tile_axes(m, axis_bit(place->axes[i]));
    if (tile) access.stride[place->axes[i]] = stride;
    if (tile || !place->time) stride *= plan_typical_size(p->program, place->axes[i]);
  }
  if (place->time && t >= 0) access.stride[t] = stride;
  if (place->time) access.layout = plan_layout_of_rows(m->dtype, stride);
  return access;
}

plan_access plan_access_of_argument(const mapping *m, const plan *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  plan_access x = plan_access_of_tensor(m, p, place);
  x.in_shared = place->time;
  if (!is_state_place(place)) return x;
  axis_set axes = plan_tile_axes(m, tile_place_axes(p->program, place));
  plan_buffer b = plan_buffer_for(m, p->program, axes, false, -1);
  for (int c = 0; c < p->carried_count; c++)
    if (p->carried[c].argument == argument) return of_carried(m, p, c, b);
  if (plan_narrows_argument(m, p, argument)) b.stored = m->dtype;
  x = of_memory(m, &b, -1);
  x.in_shared = false;
  return x;
}

// ---- lanes ----

void plan_put_none(plan_lanes *at, int vector, int numbers) {
  at->placed = 0, at->vector = vector, at->numbers = numbers;
  memset(at->absent, 0, sizeof at->absent);
}

void plan_put_index(plan_lanes *at, int axis, int lane, int index) {
  at->index[axis][lane] = index;
  at->placed |= axis_bit(axis);
}

// Puts a lane at piece number `rest` of these axes, of `numbers` along the last one.
static void put_lane(const tile_program *program, plan_lanes *at, int lane, const axis_list *list,
                     int numbers, int64_t rest) {
  for (int i = list->count - 1; i >= 0; i--) {
    int64_t step = i == list->count - 1 ? numbers : 1,
            size = plan_typical_size(program, list->axes[i]) / step;
    plan_put_index(at, list->axes[i], lane, (int)(rest % size * step));
    rest /= size;
  }
  at->absent[lane] |= rest != 0;
}

int64_t plan_far_row(int64_t row) { return (row & ~(int64_t)5) | (row & 1) << 2 | (row >> 2 & 1); }

void plan_put_lanes(const mapping *m, const tile_program *program, const plan_nest *nest,
                    const plan_threads *threads, plan_lanes *at) {
  const axis_list points = plan_by_rank(m, program, nest->axes & ~nest->over),
                  summed = plan_by_rank(m, program, nest->over);
  const int lanes = threads->lanes == PLAN_ALL_THREADS ? PLAN_BANKS : threads->lanes,
            side = PLAN_BANKS / lanes;
  const bool sums = threads->width > 1 && axis_in(nest->over, threads->vector);
  plan_put_none(at, threads->vector, threads->width > 1 ? threads->width : 1);
  for (int lane = 0; lane < PLAN_BANKS; lane++) {
    const int near = threads->apart ? lane % side : lane % lanes,
              row = threads->apart ? lane / side : lane / lanes;
    const int64_t rows = threads->far ? plan_far_row(row) : row;
    const int first = threads->orders > 1 ? row % threads->orders * lanes : 0;
    put_lane(program, at, lane, &points, sums ? 1 : at->numbers, threads->apart ? near : row);
    put_lane(program, at, lane, &summed, sums ? at->numbers : 1,
             threads->apart ? rows : first + near);
  }
}

void plan_put_pieces(const tile_program *program, const axis_list *list, int numbers,
                     plan_lanes *at) {
  plan_put_none(at, list->count ? list->axes[list->count - 1] : 0, numbers);
  for (int lane = 0; lane < PLAN_BANKS; lane++) put_lane(program, at, lane, list, numbers, lane);
}

void plan_put_rows(const tile_program *program, const axis_list *columns, int row, int lanes,
                   int64_t apart, plan_lanes *at) {
  const int side = PLAN_BANKS / lanes;
  plan_put_none(at, 0, 1);
  for (int lane = 0; lane < PLAN_BANKS; lane++) {
    put_lane(program, at, lane, columns, 1, lane % side);
    plan_put_index(at, row, lane, (int)(lane / side * apart));
  }
}

void plan_put_fragment(int line, int along, int numbers, plan_lanes *at) {
  plan_put_none(at, along, numbers);
  for (int lane = 0; lane < PLAN_BANKS; lane++) {
    plan_put_index(at, line, lane, lane / 4);
    plan_put_index(at, along, lane, lane % 4 * numbers);
  }
}

void plan_put_matrices(int line, int along, int lines, plan_lanes *at) {
  enum { AT_ONCE = 4 };
  plan_put_none(at, along, AT_ONCE);
  for (int lane = 0; lane < PLAN_BANKS; lane++) {
    plan_put_index(at, line, lane, lane % lines);
    plan_put_index(at, along, lane, lane / lines % 2 * AT_ONCE);
    at->absent[lane] = lane >= 2 * lines;
  }
}

bool plan_lies_apart(const plan_access *access, const plan_lanes *at) {
  return at->numbers > 1 && access->stride[at->vector] != 1;
}

void plan_offsets_of(const plan_access *access, const plan_lanes *at, int64_t offsets[PLAN_BANKS]) {
  memset(offsets, 0, PLAN_BANKS * sizeof *offsets);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    for (int lane = 0; access->stride[axis] && axis_in(at->placed, axis) && lane < PLAN_BANKS;
         lane++)
      offsets[lane] += access->stride[axis] * at->index[axis][lane];
  for (int lane = 0; lane < PLAN_BANKS; lane++)
    if (at->absent[lane]) offsets[lane] = -1;
}

// ---- banks ----

// wgmma's layout: tiles of columns, whose 16-byte vectors trade places.
static int64_t offset_in_tiles(const plan_access *access, int64_t offset) {
  enum { VECTOR_BITS = 3, LINE_BITS = 6 };
  int64_t width = access->width < PLAN_TILE_COLUMNS ? access->width : PLAN_TILE_COLUMNS;
  int64_t row = offset / access->width, column = offset % access->width;
  offset = row * width + column / PLAN_TILE_COLUMNS * access->tile + column % PLAN_TILE_COLUMNS;
  return offset ^ ((offset >> LINE_BITS & (width / 8 - 1)) << VECTOR_BITS);
}

// Offsets become addresses in bytes.
static void find_addresses(const plan_access *access, int64_t offsets[PLAN_BANKS]) {
  const int bytes = number_type_bytes(access->stored);
  for (int lane = 0; lane < PLAN_BANKS; lane++) {
    if (offsets[lane] < 0) continue;
    if (access->width) offsets[lane] = bytes * offset_in_tiles(access, offsets[lane]);
    if (!access->width)
      offsets[lane] = bytes * plan_offset_in(access->layout, access->stored, offsets[lane]);
  }
}

// Sectors of memory that the lanes read, so many words each.
static double sectors(const int64_t addresses[PLAN_BANKS], int of_each) {
  enum { SECTOR_BYTES = 32, SECTOR_WORDS = 8 };
  int64_t seen[PLAN_BANKS];
  int found = 0, count = 0;
  for (int i = 0; i < PLAN_BANKS; i++) {
    int n = 0;
    if (addresses[i] < 0) continue;
    while (n < found && seen[n] != addresses[i] / SECTOR_BYTES) n++;
    if (n == found) seen[found++] = addresses[i] / SECTOR_BYTES;
    count++;
  }
  double whole = (double)count * of_each / SECTOR_WORDS;
  return found > whole ? found : whole;
}

// Wavefronts where numbers have no layout.
static int wavefronts_without(const plan_access *x, const int64_t offsets[PLAN_BANKS], int bytes) {
  int64_t addresses[PLAN_BANKS];
  for (int lane = 0; lane < PLAN_BANKS; lane++)
    addresses[lane] = offsets[lane] < 0 ? -1 : offsets[lane] * number_type_bytes(x->stored);
  return plan_wavefronts(addresses, bytes);
}

// Neighbours that lie apart take an access each, or one, if all of them are the same number.
warp_access plan_access_of_warp(const plan_access *x, access_kind kind, const plan_lanes *at) {
  enum { WORD = 4, MOST_BYTES = 16, SECTOR = 32 };
  int64_t addresses[PLAN_BANKS];
  bool apart = plan_lies_apart(x, at) || (kind == LOAD && x->of_call && at->numbers > 1);
  int pieces = apart && x->stride[at->vector] ? at->numbers : 1;
  int bytes = number_type_bytes(x->stored) * (apart ? 1 : at->numbers);
  if (bytes > MOST_BYTES) pieces = bytes / MOST_BYTES, bytes = MOST_BYTES;
  plan_offsets_of(x, at, addresses);
  int plain = x->open ? wavefronts_without(x, addresses, bytes) : PLAN_BANKS * PLAN_BANKS;
  find_addresses(x, addresses);
  if (x->in_shared) {
    int own = plan_wavefronts(addresses, bytes);
    return (warp_access){pieces, pieces * (own < plain ? own : plain), 0};
  }
  return (warp_access){pieces, 0,
                       SECTOR * pieces * sectors(addresses, bytes < WORD ? 1 : bytes / WORD)};
}
