// Places in memory: each item of a kernel gets one in scratch, on the stack, or in shared memory.
//
//   Mamba on x86-64-v4: lanes 32 of D; state [N] x 32 and sums of parameters, then recomputed rows of a chunk, then buffers
#include "compiler/kernel/frame.h"

static int64_t rounded_up(int64_t n) { return (n + 15) / 16 * 16; }

static int64_t take(int64_t *total, int64_t numbers) {
  int64_t offset = *total;
  *total += rounded_up(numbers);
  return offset;
}

// GPU: shared memory while there is some. Where threads share nothing each has its own numbers.
location gpu_take(kernel_frame *h, int64_t numbers) {
  if (h->m.kind == MAP_THREADS) numbers *= h->team.threads;
  numbers = (numbers + 31) / 32 * 32;  // lines of banks
  int64_t at = gpu_chip_place(h, h->on_chip, numbers);
  if (at + numbers > h->chip_limit) return (location){take(&h->shared_numbers, numbers), -1, false};
  h->on_chip = at + numbers;
  return (location){at, -1, true};
}

// Scratch of the call for so many of an extent.
static location take_extent(kernel_frame *h, extent numbers, int64_t times) {
  numbers.factor *= times;
  if (h->m.kind != MAP_LANES && !numbers.sizes) return gpu_take(h, numbers.factor);
  if (!numbers.sizes) return (location){take(&h->shared_numbers, numbers.factor), -1, false};
  if (h->k->program->form == TILE_CHUNK) ICE("kernel", "%s has run-time tiles", h->symbol);
  vec_push(h->a, &h->sized, numbers);
  return (location){0, h->sized.count - 1, false};
}

static const location on_stack = {-1, -1, false};

// What lives from run to run. Lanes of a state need not be in it: a buffer without the lane axis is small, too.
static location place_persistent(kernel_frame *h, const plan_buffer *b) {
  bool seldom = h->m.kind == MAP_BLOCK && b->gathered && !b->numbers.sizes;
  if (seldom) return (location){take(&h->shared_numbers, b->numbers.factor), -1, false};
  if (h->crowded && !b->numbers.sizes) return gpu_take(h, b->numbers.factor);
  if (h->tiles.used) return (location){take(&h->instance_numbers, b->numbers.factor), -1, false};
  if (h->m.kind == MAP_THREADS && !b->numbers.sizes) return on_stack;
  bool small = !b->numbers.sizes && b->numbers.factor <= (int64_t)PLAN_STACK_VECTORS * h->m.width;
  if (!h->m.chunks_outside && b->lane && small) return on_stack;
  if (h->m.chunks_outside) return (location){take(&h->instance_numbers, b->numbers.factor), -1, false};
  return take_extent(h, b->numbers, 1);
}

void frame_place_carried(kernel_frame *h, part *p) {
  p->carried_at = ARENA_ARRAY(h->a, location, p->carried.count);
  for (int c = 0; c < p->carried.count; c++) {
    plan_buffer words = p->carried.items[c].memory, *memory = &words;
    if (p->p->carried[c].sums >= 0) words.numbers.factor = p->p->carried[c].shown ? (words.numbers.factor + 1) / 2 : 0;
    bool registers = h->m.kind == MAP_THREADS && !memory->numbers.sizes;
    if (h->m.looped) registers = false;
    p->carried_at[c] = registers ? on_stack : h->tiles.used ? gpu_take(h, memory->numbers.factor) : place_persistent(h, memory);
  }
  p->persistent_at = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    p->persistent_at[i] = b->persistent ? place_persistent(h, b) : on_stack;
  }
}

void frame_place_scratch(kernel_frame *h, part *p) {
  p->scratch = ARENA_ARRAY(h->a, location, p->p->scratch.count);
  for (int i = 0; i < p->p->scratch.count; i++) p->scratch[i] = take_extent(h, p->p->scratch.items[i], 1);
}

// Buffers with a row for every step of a chunk.
void frame_place_kept(kernel_frame *h, part *p) {
  p->kept_at = ARENA_ARRAY(h->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->kept) p->kept_at[i] = take_extent(h, plan_words(b), h->k->chunk);
  }
}

// Chunk form: rows beyond the end of the sequence are read from a copy that ends in zeros. Strides inside a row stay as
// they are in memory where they are known. What is stored in 16 bits, or lies in lanes, is always read from a copy, which is
// dense.
void frame_place_pads(kernel_frame *h, part *p) {
  p->pads = ARENA_ARRAY(h->a, pad, p->program->arguments.count);
  if (p->program->form != TILE_CHUNK) return;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (!place->time || place->role == TILE_STASH) continue;
    int64_t stride = frame_is_complex(h, place) ? 2 : 1, dense = 1, last = 0;
    bool lanes = plan_has_lane(&h->m, frame_axes_of_place(place));
    bool narrow = frame_stores_narrow(h, place);
    if (narrow || h->m.kind == MAP_BLOCK || lanes) stride = -1;
    if (lanes) dense = h->m.lanes, last = dense - 1;
    for (int x = place->axis_count - 1; x >= 0; x--) {
      int axis = place->axes[x];
      if (axis == h->m.lane_axis) continue;
      int64_t size = p->program->axes.items[axis].size;
      if (!axis_in(h->m.instance, axis)) {
        p->pads[i].stride[axis] = stride > 0 ? stride : dense;
        last += (size - 1) * p->pads[i].stride[axis];
        dense *= size;
      }
      stride = stride > 0 && size != TILE_RUNTIME_SIZE ? stride * size : -1;
      if (stride < 0 && dense <= last) dense = last + 1;
    }
    p->pads[i].row = last + 1;
    if (h->m.kind == MAP_BLOCK) {
      int64_t numbers = (last + 1) * p->program->chunk;
      p->pads[i].at = gpu_take(h, narrow ? (numbers + 1) / 2 : numbers);
      continue;
    }
    p->pads[i].offset = take(&h->shared_numbers, (last + 1) * p->program->chunk);
  }
}

// Rows of what is kept between the states that forward saves: steps, or chunks.
static int64_t kept_rows(const kernel_frame *h) { return h->k->chunk / h->k->program->chunk; }

// In chunk form with 16 bits where products read the state, and round it; states go on from what is not rounded.
static void place_state(kernel_frame *h, part *p, int argument, const plan_buffer *memory) {
  plan_buffer *row = &p->history[argument];
  *row = *memory;
  if (h->k->program->form != TILE_CHUNK) {
    p->history_at[argument] = take_extent(h, row->numbers, kept_rows(h));
    return;
  }
  row->groups = false;
  row->stored = plan_narrows_argument(&h->m, p->p, argument) ? h->m.dtype : NUMBER_F32;
  int64_t words = plan_words(row).factor * kept_rows(h);
  h->history += words;
  p->history_at[argument] = (location){take(&h->shared_numbers, words), -1, false};
}

void frame_place_history(kernel_frame *h, part *p) {
  p->history = ARENA_ARRAY(h->a, plan_buffer, p->program->arguments.count);
  p->history_at = ARENA_ARRAY(h->a, location, p->program->arguments.count);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    p->history_at[i] = on_stack;
    if (!h->recomputes || p != &h->main || place->role != TILE_STATE) continue;
    for (int c = 0; c < h->recompute.carried.count; c++) {
      const carried_value *state = &h->recompute.carried.items[c];
      if (plan_same_state(&state->place, place)) place_state(h, p, i, &state->memory);
    }
    if (p->history_at[i].offset < 0) ICE("kernel", "no recomputation of state %s", place->name ? place->name : "?");
  }
}

void frame_place_stashes(kernel_frame *h) {
  if (!h->recomputes) return;
  const tile_program *program = h->k->recompute;
  for (int i = 0; i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    if (place->role == TILE_KEEP && place->stash >= h->stash_count) h->stash_count = place->stash + 1;
  }
  h->stash_at = ARENA_ARRAY(h->a, location, h->stash_count);
  h->stashes = ARENA_ARRAY(h->a, plan_buffer, h->stash_count);
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *r = &program->results.items[i];
    if (r->place.role != TILE_KEEP) continue;
    axis_set axes = program->values.items[r->value].axes;
    bool lane = h->m.lane_axis >= 0 && axis_in(axes, h->m.lane_axis);
    plan_buffer b = plan_buffer_for(&h->m, program, plan_tile_axes(&h->m, axes), lane, -1);
    h->stashes[r->place.stash] = b;
    h->stash_at[r->place.stash] = take_extent(h, b.numbers, h->k->chunk);
  }
}

void frame_plan_program(kernel_frame *h, part *p, const tile_program *program, bool backward) {
  p->program = program;
  p->backward = backward;
  p->carried = plan_carried(h->a, &h->m, program, backward);
  p->p = plan_program(h->a, &h->m, program, &p->carried);
  for (int c = 0; c < p->carried.count; c++)  // memory has a copy
    if (p->p->carried[c].sums >= 0) {
      p->carried.items[c].memory.stored = h->m.dtype;
      p->carried.items[c].memory.groups = p->p->carried[c].groups;
    }
}

// Products of warpgroups want what they read to begin at multiples of 1024 bytes; whatever has fewer is none of it.
int64_t gpu_chip_place(const kernel_frame *h, int64_t at, int64_t words) {
  enum { WORDS = 256 };
  return h->m.groups && words >= WORDS ? (at + WORDS - 1) / WORDS * WORDS : at;
}
