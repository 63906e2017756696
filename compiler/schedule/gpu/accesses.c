// Where the lanes of a warp read and write: wavefronts of shared memory, and sectors of memory beyond.
//
//   S [K 128,V 128] f32 at (lane / 4, 2 (lane % 4))     rows lie 512 bytes apart: four lanes of each bank, 4 wavefronts
#include <string.h>

#include "compiler/schedule/gpu/model.h"

// ---- memory ----------------------------------------------------------------------------------

enum { NUMBER_BYTES = 4, NARROW_BYTES = 2 };

static const model_memory in_registers = {0};

int64_t model_size_of(const model_program *p, int axis) {
  int64_t size = plan_axis_size(&p->w->m, p->of->program, axis);
  return size == TILE_RUNTIME_SIZE ? TILE_TYPICAL_SIZE : size;
}

static int bytes_of(number_type stored) { return number_is_narrow(stored) ? NARROW_BYTES : NUMBER_BYTES; }

static void lay_tiles(model_memory *m, int64_t row, int64_t rows) {
  if (!plan_is_in_tiles(row, rows)) return;
  m->width = row;
  m->tile = rows * PLAN_TILE_COLUMNS;
}

static model_memory as_laid_out(const model_program *p, const plan_buffer *b, bool shared) {
  model_memory m = {.known = true, .shared = shared, .stored = b->stored, .bytes = bytes_of(b->stored)};
  int last = b->axis_count ? b->axes[b->axis_count - 1] : -1;
  if (last >= 0 && !b->kept) m.layout = b->layout;
  if (b->wgmma_layout && m.layout.pattern) lay_tiles(&m, model_size_of(p, last), b->numbers.factor / model_size_of(p, last));
  for (int i = 0; i < b->axis_count; i++) m.stride[b->axes[i]] = b->stride[b->axes[i]].factor;
  return m;
}

static int64_t row_of(const model_program *p, const plan_buffer *b) {
  return b->axis_count ? model_size_of(p, b->axes[b->axis_count - 1]) : 1;
}

static model_memory of_carried(const model_program *p, int c) {
  plan_buffer laid = p->of->carried.items[c].memory;
  if (p->of->carried_at[c].offset < 0) return in_registers;
  laid.wgmma_layout = p->of->p->carried[c].wgmma_layout;
  laid.layout = p->of->p->carried[c].layout;
  if (p->of->p->carried[c].has_copy) {
    laid.stored = p->w->m.dtype;
    laid.layout = plan_layout_of_rows(laid.stored, row_of(p, &laid));
  }
  return as_laid_out(p, &laid, p->of->carried_at[c].in_shared);
}

model_memory model_memory_of_buffer(const model_program *p, int buffer) {
  const plan_buffer *b = &p->of->p->buffers.items[buffer];
  if (b->carried >= 0) return of_carried(p, b->carried);
  const location *at = b->persistent ? p->of->persistent_at : b->kept ? p->of->kept_at : p->of->buffer_at;
  return !at || at[buffer].offset < 0 ? in_registers : as_laid_out(p, b, at[buffer].in_shared);
}

// Threads by themselves: rows that are copied ahead, with neighbouring threads side by side.
static model_memory of_thread(const model_program *p, int argument, model_memory m) {
  if (tile_argument_place(p->of->program, argument)->role == TILE_PARAM) return in_registers;
  m.shared = p->of->staging_buffers && p->of->staging_buffers[argument].ahead.in_shared;
  int lane = p->w->k->lane_axis;
  for (int axis = 0; axis < PLAN_MAX_AXES && m.stride[lane]; axis++)
    if (axis != lane) m.stride[axis] *= p->w->threads;
  return m;
}

// The rows of a chunk, or what the caller has.
static model_memory of_tokens(const model_program *p, int argument) {
  const tile_place *place = tile_argument_place(p->of->program, argument);
  bool narrow = kernel_stores_narrow(&p->w->m, place);
  number_type stored = narrow ? p->w->m.dtype : NUMBER_F32;
  model_memory m = {.known = true, .stored = stored, .bytes = narrow ? NARROW_BYTES : NUMBER_BYTES};
  const staging_buffer *d = &p->of->staging_buffers[argument];
  int64_t dense = 1;
  for (int x = place->axis_count - 1; x >= 0; x--) {
    if (axis_in(p->w->m.instance, place->axes[x])) continue;
    m.stride[place->axes[x]] = dense;
    dense *= model_size_of(p, place->axes[x]);
  }
  if (p->w->m.kind == MAP_THREADS) return of_thread(p, argument, m);
  if (!d->row || !gpu_is_staged(p->of, argument)) {
    if (place->time && p->of->program->time_axis >= 0) m.stride[p->of->program->time_axis] = dense;
    return m;
  }
  memcpy(m.stride, d->stride, sizeof m.stride);
  m.stride[p->of->program->time_axis] = d->row;
  m.shared = d->at.in_shared;
  if (narrow) m.layout = plan_layout_of_rows(p->w->m.dtype, d->row);
  if (m.layout.pattern && p->of->p->wgmma_layout && p->of->p->wgmma_layout[argument])
    lay_tiles(&m, d->row, p->of->program->chunk);
  return m;
}

static model_memory of_argument(const model_program *p, int argument) {
  for (int c = 0; c < p->of->p->carried_count; c++)
    if (p->of->p->carried[c].argument == argument) return of_carried(p, c);
  if (p->of->history && p->of->history[argument].axis_count)
    return as_laid_out(p, &p->of->history[argument], p->of->history_at[argument].in_shared);
  return of_tokens(p, argument);
}

model_memory model_memory_of(const model_program *p, tile_id id) {
  const tile_value *v = &p->of->p->program->values.items[id];
  const plan_value *pv = &p->of->p->values[id];
  if (v->op == TILE_ARGUMENT) return of_argument(p, tile_argument_number(v));
  int buffer = pv->into != NO_TILE ? p->of->p->values[pv->into].buffer : pv->buffer;
  return buffer < 0 ? (model_memory){0} : model_memory_of_buffer(p, buffer);
}

// ---- addresses -------------------------------------------------------------------------------

static int64_t offset_of(const model_memory *m, const warp_place *at, int lane) {
  int64_t offset = 0, row = 0, column = 0;
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) {
    if (!m->stride[axis] || !at->index[axis]) continue;
    int64_t here = at->index[axis]->at[lane] * m->stride[axis];
    offset += here;
    if (m->width && m->stride[axis] % m->width) column += here;
    if (m->width && m->stride[axis] % m->width == 0) row += here / m->width;
  }
  enum { PIECE_BITS = 3, LINE_BITS = 6 };
  if (m->width) {
    int64_t width = m->width < PLAN_TILE_COLUMNS ? m->width : PLAN_TILE_COLUMNS;
    offset = row * width + column / PLAN_TILE_COLUMNS * m->tile + column % PLAN_TILE_COLUMNS;
    return offset ^ ((offset >> LINE_BITS & (width / 8 - 1)) << PIECE_BITS);
  }
  return plan_offset_in(m->layout, m->stored, offset);
}

static double sectors(const int64_t *words, int count, int of_each) {
  enum { SECTOR_WORDS = 8 };
  int64_t seen[MODEL_LANES];
  int found = 0;
  for (int i = 0; i < count; i++) {
    int64_t sector = words[i] / SECTOR_WORDS;
    int n = 0;
    while (n < found && seen[n] != sector) n++;
    if (n == found) seen[found++] = sector;
  }
  double whole = (double)count * of_each / SECTOR_WORDS;
  return found > whole ? found : whole;
}

warp_access model_access(const model_memory *m, const warp_place *at, int numbers) {
  enum { WORD = 4, MOST_BYTES = 16, SECTOR = 32 };
  int64_t words[MODEL_LANES], addresses[MODEL_LANES];
  warp_access x = {0};
  int64_t first = offset_of(m, at, 0);
  bool together = numbers > 1 && offset_of(m, at, MODEL_NEXT) == first + 1;
  int bytes = together ? numbers * m->bytes : m->bytes;
  int pieces = together ? 1 : numbers;
  if (bytes > MOST_BYTES) pieces = bytes / MOST_BYTES, bytes = MOST_BYTES;
  for (int i = 0; i < MODEL_LANES; i++) {
    addresses[i] = i < at->active ? offset_of(m, at, i) * m->bytes : -1;
    words[i] = addresses[i] / WORD;
  }
  x.accesses = pieces;
  if (m->shared)
    x.wavefronts = pieces * plan_wavefronts(addresses, bytes);
  else
    x.bytes = SECTOR * pieces * sectors(words, at->active, bytes < WORD ? 1 : bytes / WORD);
  return x;
}

// ---- index maps ------------------------------------------------------------------------------

static lane_indices *new_indices(model_maps *maps) {
  lane_indices *made = &maps->made[maps->count < MODEL_MOST_MAPS ? maps->count++ : MODEL_MOST_MAPS - 1];
  *made = (lane_indices){0};
  return made;
}

static int32_t at_lane(const lane_indices *x, int lane) { return x ? x->at[lane] : 0; }

static axis_set moves(const lane_indices *x) { return x ? x->by : 0; }

static const lane_indices *constant(model_maps *maps, int entry) {
  lane_indices *made = new_indices(maps);
  for (int i = 0; i < MODEL_PLACES; i++) made->at[i] = entry;
  return made;
}

static void split_below(const model_program *p, const tile_value *v, warp_place *at, model_maps *maps) {
  const lane_indices *outer = at->index[tile_outer_axis(v)], *inner = at->index[tile_inner_axis(v)];
  lane_indices *made = new_indices(maps);
  int32_t size = (int32_t)model_size_of(p, tile_inner_axis(v));
  for (int i = 0; i < MODEL_PLACES; i++) made->at[i] = at_lane(outer, i) * size + at_lane(inner, i);
  made->by = moves(outer) | moves(inner);
  at->index[tile_whole_axis(v)] = made;
}

static void join_below(const model_program *p, const tile_value *v, warp_place *at, model_maps *maps) {
  const lane_indices *whole = at->index[tile_whole_axis(v)];
  lane_indices *outer = new_indices(maps), *inner = new_indices(maps);
  int32_t size = (int32_t)model_size_of(p, tile_inner_axis(v));
  for (int i = 0; i < MODEL_PLACES; i++) {
    outer->at[i] = at_lane(whole, i) / size;
    inner->at[i] = at_lane(whole, i) % size;
  }
  outer->by = inner->by = moves(whole);
  at->index[tile_outer_axis(v)] = outer;
  at->index[tile_inner_axis(v)] = inner;
}

tile_id model_below_maps(const model_program *p, tile_id id, warp_place *at, model_maps *maps) {
  const plan *of = p->of->p;
  const tile_value *v = &of->program->values.items[id];
  while (plan_is_inline(v->op) && tile_arity(v->op) == 1) {
    switch (v->op) {
      case TILE_RENAME: at->index[tile_renamed_from(v)] = at->index[tile_renamed_to(v)]; break;
      case TILE_SLICE: at->index[tile_entry_axis(v)] = constant(maps, tile_entry(v)); break;
      case TILE_SPLIT: split_below(p, v, at, maps); break;
      case TILE_JOIN: join_below(p, v, at, maps); break;
      default: break;  // entries beside each other stay so
    }
    id = v->args[0];
    v = &of->program->values.items[id];
  }
  return id;
}
