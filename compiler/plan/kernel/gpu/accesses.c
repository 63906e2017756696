// GPU: where the values that nests read and write lie, once a kernel's memory has places; and the
// products that wgmma makes.
//
//   S [K 128,V 128] f32     in shared memory, rows of 512 bytes
//   q [t 64,K 64] bf16      rows of a chunk in shared memory, in wgmma's layout
#include <string.h>

#include "compiler/plan/kernel_plan.h"

// ---- memory ----------------------------------------------------------------------------------

static const plan_access in_registers = {.memory = -1};

placed_program gpu_placed(const kernel_plan *w, const program_plan *of) {
  return (placed_program){&w->m, of->p, w->threads, w, of};
}

static void lay_tiles(plan_access *x, int64_t row, int64_t rows) {
  if (!plan_is_in_tiles(row, rows)) return;
  x->width = row;
  x->tile = rows * PLAN_TILE_COLUMNS;
}

static int64_t placed_size(const placed_program *p, int axis) {
  return plan_typical_size(p->p->program, axis);
}

// Buffers of 16-bit numbers have one layout in shared memory and in scratch. Those of 32 bits are
// swizzled in shared memory alone.
static plan_layout layout_of(const plan_buffer *b, int64_t row, bool shared) {
  if (b->axis_count < 2 || b->kept) return (plan_layout){0};
  if (number_is_narrow(b->stored)) return plan_layout_of_rows(b->stored, row);
  return shared ? b->layout : (plan_layout){0};
}

static plan_access as_laid_out(const placed_program *p, const plan_buffer *b, bool shared) {
  int64_t row = b->axis_count ? placed_size(p, b->axes[b->axis_count - 1]) : 1;
  plan_access x = {.memory = -1, .placed = true, .in_shared = shared, .stored = b->stored};
  x.layout = layout_of(b, row, shared);
  if (b->wgmma_layout && x.layout.pattern) lay_tiles(&x, row, b->numbers.factor / row);
  for (int i = 0; i < b->axis_count; i++) x.stride[b->axes[i]] = b->stride[b->axes[i]].factor;
  return x;
}

static plan_access of_carried(const placed_program *p, int c) {
  plan_buffer laid = p->of->carried.items[c].memory;
  const carried_pair *pair = &p->p->carried[c];
  if (p->of->carried_at[c].offset < 0) return in_registers;
  laid.wgmma_layout = pair->wgmma_layout;
  laid.layout = pair->layout;
  if (pair->has_copy) laid.stored = p->m->dtype;
  return as_laid_out(p, &laid, p->of->carried_at[c].in_shared);
}

plan_access gpu_access_of_buffer(const placed_program *p, int buffer) {
  if (!p->w) return plan_access_of_buffer(p->m, p->p, buffer);
  const plan_buffer *b = &p->p->buffers.items[buffer];
  if (b->carried >= 0) return of_carried(p, b->carried);
  const location *at = b->persistent ? p->of->persistent_at
                       : b->kept     ? p->of->kept_at
                                     : p->of->buffer_at;
  return !at || at[buffer].offset < 0 ? in_registers : as_laid_out(p, b, at[buffer].in_shared);
}

bool gpu_is_staged(const program_plan *p, int argument) {
  const tile_place *place = tile_argument_place(p->program, argument);
  return place->time && !kernel_is_saved(p->backward, place);
}

// Threads by themselves: rows that are copied ahead, with neighbouring threads side by side.
static plan_access of_thread(const placed_program *p, int argument, plan_access x) {
  if (tile_argument_place(p->p->program, argument)->role == TILE_PARAM) return in_registers;
  x.in_shared = p->of->staging_buffers && p->of->staging_buffers[argument].ahead.in_shared;
  int lane = p->m->kernel->lane_axis;
  for (int axis = 0; axis < PLAN_MAX_AXES && x.stride[lane]; axis++)
    if (axis != lane) x.stride[axis] *= p->threads;
  return x;
}

// Only tokens have 16 bits in a call's tensors: not parameters, states, or gradients that blocks
// add up.
static bool is_narrow_in_call(const placed_program *p, const tile_place *place) {
  int slot = kernel_find_slot(p->w->described, place->role, place);
  return slot >= 0 && p->w->described->slots.items[slot].narrow && number_is_narrow(p->m->dtype);
}

plan_access gpu_access_of_tensor(const placed_program *p, const tile_place *place) {
  if (!p->w) return plan_access_of_tensor(p->m, p->p, place);
  bool kept = place->role == TILE_STASH || place->role == TILE_KEEP;
  if (kept && p->m->kind == MAP_BLOCK && place->stash < p->w->stash_count)
    return as_laid_out(p, &p->w->stashes[place->stash], p->w->stash_at[place->stash].in_shared);
  plan_access x = {.memory = -1, .placed = true, .of_call = true};
  x.stored = is_narrow_in_call(p, place) ? p->m->dtype : NUMBER_F32;
  int64_t dense = kernel_is_complex(p->w->k, place) ? 2 : 1;
  for (int i = place->axis_count - 1; i >= 0; i--) {
    if (axis_in(p->m->instance, place->axes[i])) continue;
    x.stride[place->axes[i]] = dense;
    dense *= placed_size(p, place->axes[i]);
  }
  bool moves = place->time && p->p->program->time_axis >= 0;
  if (moves && p->m->kind != MAP_THREADS) x.stride[p->p->program->time_axis] = dense;
  return x;
}

// The rows of a chunk, or what the caller has.
static plan_access of_tokens(const placed_program *p, int argument) {
  const tile_place *place = tile_argument_place(p->p->program, argument);
  const staging_buffer *d = &p->of->staging_buffers[argument];
  plan_access x = gpu_access_of_tensor(p, place);
  if (p->m->kind == MAP_THREADS) return of_thread(p, argument, x);
  if (!d->row || !gpu_is_staged(p->of, argument)) return x;
  memcpy(x.stride, d->stride, sizeof x.stride);
  x.stride[p->p->program->time_axis] = d->row;
  x.in_shared = d->at.in_shared;
  x.of_call = false;
  x.layout = plan_layout_of_rows(x.stored, d->row);
  bool tiles = p->p->wgmma_layout[argument] && p->m->warpgroups;
  if (x.layout.pattern && tiles) lay_tiles(&x, d->row, p->p->program->chunk);
  return x;
}

static plan_access placed_argument_access(const placed_program *p, int argument) {
  if (!p->w) return plan_access_of_argument(p->m, p->p, argument);
  for (int c = 0; c < p->p->carried_count; c++)
    if (p->p->carried[c].argument == argument) return of_carried(p, c);
  if (p->of->history && p->of->history[argument].axis_count)
    return as_laid_out(p, &p->of->history[argument], p->of->history_at[argument].in_shared);
  return of_tokens(p, argument);
}

plan_access gpu_access_of(const placed_program *p, tile_id id, const plan_index_map *maps) {
  const tile_value *v = tile_at(p->p->program, id);
  const plan_value *pv = &p->p->values[id];
  plan_access x = in_registers;
  int buffer = pv->into != NO_TILE ? p->p->values[pv->into].buffer : pv->buffer;
  if (v->op == TILE_ARGUMENT) x = placed_argument_access(p, tile_argument_number(v));
  if (v->op != TILE_ARGUMENT && buffer >= 0) x = gpu_access_of_buffer(p, buffer);
  plan_map_access(p->p->program, maps, &x);
  return x;
}

// ---- products by wgmma -----------------------------------------------------------------------

static plan_access access_below_maps(const placed_program *p, tile_id id,
                                     const plan_index_map *maps) {
  const tile_value *v = tile_at(p->p->program, id);
  const plan_index_map here = {v, maps};
  bool map = plan_is_inline(v->op) && tile_arity(v->op) == 1;
  return map ? access_below_maps(p, v->args[0], &here) : gpu_access_of(p, id, maps);
}

plan_access gpu_access_of_operand(const placed_program *p, tile_id id, int pack) {
  return pack >= 0 ? gpu_access_of_buffer(p, pack) : access_below_maps(p, id, NULL);
}

// Does a step along an axis, or an offset, move by whole groups of 8 rows and so many columns?
static bool keeps_place(const plan_access *x, int64_t step, int64_t columns) {
  enum { ROWS_OF_PATTERN = 8 };
  return step / x->width % ROWS_OF_PATTERN == 0 && step % x->width % columns == 0;
}

// Does the operand lie in tiles, K-major or MN-major?
static bool is_in_tiles(const placed_program *p, const plan_access *x, int k, int line,
                        int64_t columns) {
  if (!x->width || !x->in_shared) return false;
  bool transposed = x->stride[k] == x->width && x->stride[line] == 1;
  if (!transposed && (x->stride[k] != 1 || x->stride[line] != x->width)) return false;
  if (!transposed) columns = GPU_GROUP_DEPTH;
  if (!keeps_place(x, x->offset, columns)) return false;
  for (int axis = 0; axis < p->p->program->axes.count; axis++)
    if (axis != k && axis != line && !keeps_place(x, x->stride[axis], columns)) return false;
  return true;
}

// An A operand that does not lie in tiles is loaded into registers before the first product.
static bool is_wgmma(const placed_program *p, const plan_dot *dot, int tiles) {
  enum { MOST_DEPTH_IN_REGISTERS = 64 };
  const mapping *m = p->m;
  const tile_program *program = p->p->program;
  int64_t columns = tiles * GPU_TILE_COLUMNS;
  if (!plan_may_be_wgmma(m, program, dot) || tiles & (tiles - 1) ||
      plan_axis_size(program, dot->j) % columns)
    return false;
  plan_access b = gpu_access_of_operand(p, dot->b, dot->pack_b);
  if (!is_in_tiles(p, &b, dot->k, dot->j, columns)) return false;
  if (plan_axis_size(program, dot->k) <= MOST_DEPTH_IN_REGISTERS) return true;
  plan_access a = gpu_access_of_operand(p, dot->a, dot->pack_a);
  return is_in_tiles(p, &a, dot->k, dot->i, GPU_GROUP_ROWS);
}

void gpu_mark_products(const kernel_plan *w, const program_plan *of) {
  const placed_program p = gpu_placed(w, of);
  of->p->wgmma_products = 0;
  vec_each(plan_nest, nest, of->p->nests) {
    if (nest->kind != NEST_DOT || nest->dot.i < 0) continue;
    int tiles = plan_tiles_of_nest(&w->m, of->p, nest);
    nest->dot.wgmma = is_wgmma(&p, &nest->dot, tiles);
    if (nest->two) nest->other_dot.wgmma = is_wgmma(&p, &nest->other_dot, tiles);
    if (nest->region == REGION_BODY)
      of->p->wgmma_products += nest->dot.wgmma + (nest->two && nest->other_dot.wgmma);
  }
}
