/* Chunk lengths and blocks of values for a GPU: what fits into the shared memory of a thread block decides.
 *
 *   gla forward, K = V = 128, bf16:   64 steps, all of V: 160 KiB outside   ..   32 steps, 64 of V: all on chip
 *
 * Columns of a state along the value axis are independent: instances may have a part of them each, and compute what they
 * share again.
 */
#include <string.h>

#include "gpu.h"

enum { LONGEST = 64, SHORTEST = 16 };

/* ---- parts of the value axis ---- */

static const tile_program *with_part(arena *a, const tile_program *program, int axis, int entries) {
  if (!program) return NULL;
  tile_program *p = ARENA_NEW(a, tile_program);
  *p = *program;
  p->axes.items = ARENA_ARRAY(a, tile_axis, program->axes.count);
  memcpy(p->axes.items, program->axes.items, (size_t)program->axes.count * sizeof(tile_axis));
  p->axes.items[axis].size = entries;
  return p;
}

/* The longest axis of known size that is a tile of the kernel and may be cut; -1: there is none. */
static int value_axis(const kernel *k) {
  int best = -1;
  axis_set cut = k->cut;
  for (int i = 0; i < k->grid_count; i++) cut &= ~axis_bit(k->grid_axes[i]);
  for (int axis = 0; axis < k->recurrence->body.axes.count; axis++) {
    int64_t size = k->program->axes.items[axis].size;
    if (!axis_in(cut, axis) || size == TILE_RUNTIME_SIZE) continue;
    if (best < 0 || size > k->program->axes.items[best].size) best = axis;
  }
  return best;
}

/* Instances with `entries` of the axis each. */
static kernel cut_into_instances(arena *a, const kernel *whole, int axis, int entries) {
  kernel k = *whole;
  k.program = with_part(a, whole->program, axis, entries);
  k.recompute = with_part(a, whole->recompute, axis, entries);
  k.lane_axis = axis;
  k.lane_block = entries;
  k.lanes = LANES_TILE;
  return k;
}

/* ---- the choice ---- */

/* Bytes that a block keeps in its scratch beside what is kept for long: they are written and read once or more for the
 * steps of a chunk. */
static int64_t outside_of(arena *a, const kernel *k, codegen_gpu_options options) {
  codegen_gpu_kernel described = codegen_gpu_describe(a, k, options);
  int64_t bytes = described.base.scratch.constant - described.history_bytes;
  return bytes > 64 ? bytes : 0;
}

/* Fewer entries of the value axis where the whole does not fit. */
static kernel fitted(arena *a, const kernel *whole, codegen_gpu_options options) {
  enum { FEWEST_ENTRIES = 16 };
  kernel best = *whole;
  int axis = value_axis(whole);
  if (axis < 0 || whole->lane_axis >= 0 || whole->kind == KERNEL_BACKWARD) return best;
  int64_t least = outside_of(a, whole, options), size = whole->program->axes.items[axis].size;
  for (int64_t entries = size / 2; least && size % entries == 0 && entries >= FEWEST_ENTRIES;
       entries /= 2) {
    kernel part = cut_into_instances(a, whole, axis, (int)entries);
    int64_t bytes = outside_of(a, &part, options);
    if (bytes >= least) continue;
    best = part;
    least = bytes;
  }
  return best;
}

/* Bytes outside for each step. */
static int64_t outside(arena *a, recurrence_kernels *kernels, codegen_gpu_options options) {
  int64_t bytes = 0;
  for (int i = 0; i < kernels->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    *k = fitted(a, k, options);
    if (k->kind == KERNEL_FORWARD || k->kind == KERNEL_BACKWARD)
      bytes += outside_of(a, k, options) / k->program->chunk;
  }
  return bytes;
}

recurrence_kernels *codegen_gpu_schedule(arena *a, const recurrence *r, schedule_options schedule,
                                         codegen_gpu_options options) {
  schedule.gpu = true;
  recurrence_kernels *best = NULL;
  int64_t least = 0;
  for (int chunk = LONGEST; chunk >= SHORTEST && !schedule.chunk; chunk /= 2) {
    schedule_options with = schedule;
    with.chunk = chunk;
    recurrence_kernels *kernels = schedule_recurrence(a, r, with);
    if (strcmp(kernels->form, "chunk") != 0) break;
    int64_t bytes = outside(a, kernels, options);
    if (best && bytes >= least) continue;
    best = kernels;
    least = bytes;
    if (!bytes) break;
  }
  return best ? best : schedule_recurrence(a, r, schedule);
}
