// Places in memory: each item of a kernel gets one in scratch, on the stack, or in shared memory.
// The rules here hold for the host and for GPUs; host/memory.c and gpu/memory.c call them in their
// own order, and place what differs.
#include "compiler/plan/kernel_plan.h"

static int64_t rounded_up(int64_t n) { return (n + 15) / 16 * 16; }

static int64_t take_rounded(int64_t *total, int64_t numbers) {
  int64_t offset = *total;
  *total += rounded_up(numbers);
  return offset;
}

location kernel_take_scratch(kernel_plan *w, int64_t numbers) {
  return (location){take_rounded(&w->shared_numbers, numbers), -1, false};
}

location kernel_take_of_instance(kernel_plan *w, int64_t numbers) {
  return (location){take_rounded(&w->instance_numbers, numbers), LOCATION_OF_INSTANCE, false};
}

location kernel_take_extent(kernel_plan *w, extent numbers, int64_t times) {
  numbers.factor *= times;
  if (!numbers.sizes) return w->take(w, numbers.factor);
  if (w->k->program->form == TILE_CHUNK) ICE("kernel", "%s has run-time tiles", w->k->symbol);
  numbers.factor *= w->copies;
  vec_push(w->a, &w->sized, numbers);
  return (location){0, w->sized.count - 1, false};
}

static const location on_stack = {-1, -1, false};

kernel_plan kernel_plan_for(arena *a, const codegen_kernel *described, const kernel *k,
                            codegen_clone clone, number_type dtype) {
  bool recomputes = kernel_reads_saved(k) && k->recompute;
  return (kernel_plan){.a = a,
                       .k = k,
                       .described = described,
                       .m = kernel_mapping_of(k, clone, dtype),
                       .recomputes = recomputes};
}

void kernel_place_persistent(kernel_plan *w, program_plan *p, buffer_placer *place) {
  p->persistent_at = ARENA_ARRAY(w->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    p->persistent_at[i] = b->persistent ? place(w, b) : on_stack;
  }
}

// Rows that steps keep: with the room between rows that they have in shared memory.
static location take_kept_rows(kernel_plan *w, const plan_buffer *row, int64_t rows) {
  return kernel_take_extent(w, plan_words_of_kept_row(w->main.p, row, true), rows);
}

// Buffers with a row for every step of a chunk.
void kernel_place_kept(kernel_plan *w, program_plan *p) {
  p->kept_at = ARENA_ARRAY(w->a, location, p->p->buffers.count);
  for (int i = 0; i < p->p->buffers.count; i++) {
    const plan_buffer *b = &p->p->buffers.items[i];
    if (b->kept) p->kept_at[i] = take_kept_rows(w, b, w->k->chunk);
  }
}

// Chunk form: rows beyond the end of the sequence are read from a copy that ends in zeros. The copy
// keeps the strides of the tensor inside a row where they are known. Tensors stored in 16 bits, or
// in lanes, are always read from a copy, which is dense.
void kernel_place_staging(kernel_plan *w, program_plan *p) {
  p->staging_buffers = ARENA_ARRAY(w->a, staging_buffer, p->program->arguments.count);
  if (p->program->form != TILE_CHUNK) return;
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    if (!place->time || place->role == TILE_STASH) continue;
    int64_t stride = kernel_is_complex(w->k, place) ? 2 : 1, dense = 1, last = 0;
    bool lanes = plan_has_lane(&w->m, tile_body_axes(place));
    bool narrow = kernel_stores_narrow(&w->m, place);
    if (narrow || w->m.kind == MAP_BLOCK || lanes) stride = -1;
    if (lanes) dense = w->m.lanes, last = dense - 1;
    for (int x = place->axis_count - 1; x >= 0; x--) {
      int axis = place->axes[x];
      if (axis == w->m.lane_axis) continue;
      int64_t size = p->program->axes.items[axis].size;
      if (!axis_in(w->m.instance, axis)) {
        p->staging_buffers[i].stride[axis] = stride > 0 ? stride : dense;
        last += (size - 1) * p->staging_buffers[i].stride[axis];
        dense *= size;
      }
      stride = stride > 0 && size != TILE_RUNTIME_SIZE ? stride * size : -1;
      if (stride < 0 && dense <= last) dense = last + 1;
    }
    p->staging_buffers[i].row = last + 1;
    int64_t numbers = (last + 1) * p->program->chunk;
    p->staging_buffers[i].at =
        w->take(w, narrow && w->m.kind == MAP_BLOCK ? (numbers + 1) / 2 : numbers);
  }
}

// Rows between two saved states: one for each step, or for each chunk.
static int64_t kept_rows(const kernel_plan *w) { return w->k->chunk / w->k->program->chunk; }

// Chunk form: states that products read are kept in 16 bits, as products would round them. The
// state itself goes on unrounded.
static void place_state(kernel_plan *w, program_plan *p, int argument, const plan_buffer *memory) {
  plan_buffer *row = &p->history[argument];
  *row = *memory;
  if (w->k->program->form != TILE_CHUNK) {
    p->history_at[argument] = take_kept_rows(w, row, kept_rows(w));
    return;
  }
  row->wgmma_layout = false;
  row->layout = (plan_layout){0};
  row->stored = plan_narrows_argument(&w->m, p->p, argument) ? w->m.dtype : NUMBER_F32;
  int64_t words = plan_words(row).factor * kept_rows(w);
  w->history += words;
  p->history_at[argument] = kernel_take_scratch(w, words);
}

void kernel_place_history(kernel_plan *w, program_plan *p) {
  p->history = ARENA_ARRAY(w->a, plan_buffer, p->program->arguments.count);
  p->history_at = ARENA_ARRAY(w->a, location, p->program->arguments.count);
  for (int i = 0; i < p->program->arguments.count; i++) {
    const tile_place *place = &p->program->arguments.items[i];
    p->history_at[i] = on_stack;
    if (!w->recomputes || p != &w->main || place->role != TILE_STATE) continue;
    vec_each(const carried_value, state, w->recompute.carried)
      if (plan_same_state(&state->place, place)) place_state(w, p, i, &state->memory);
    if (p->history_at[i].offset < 0)
      ICE("kernel", "no recomputation of state %s", place->name ? place->name : "?");
  }
}

static void place_stashes_of(kernel_plan *w, const tile_program *program, int64_t rows) {
  vec_each(const tile_result, r, program->results) {
    if (r->place.role != TILE_KEEP) continue;
    axis_set axes = tile_at(program, r->value)->axes;
    bool lane = w->m.lane_axis >= 0 && axis_in(axes, w->m.lane_axis);
    plan_buffer b = plan_buffer_for(&w->m, program, plan_tile_axes(&w->m, axes), lane, -1);
    w->stashes[r->place.stash] = b;
    w->stash_at[r->place.stash] = take_kept_rows(w, &b, rows);
  }
}

static int end_of_stashes(const tile_program *program) {
  int end = 0;
  for (int i = 0; program && i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    if (place->role == TILE_KEEP && place->stash >= end) end = place->stash + 1;
  }
  return end;
}

// Sums that open a step have two rows: of this step, and of the next one.
void kernel_place_stashes(kernel_plan *w) {
  const tile_program *program = w->recomputes ? w->k->recompute : w->common.program;
  const tile_program *opening = w->opening.program;
  w->stash_count = end_of_stashes(opening ? opening : program);
  w->stash_at = ARENA_ARRAY(w->a, location, w->stash_count);
  w->stashes = ARENA_ARRAY(w->a, plan_buffer, w->stash_count);
  if (program) place_stashes_of(w, program, kept_rows(w));
  if (opening) place_stashes_of(w, opening, 2);
}

void kernel_plan_program(kernel_plan *w, program_plan *p, const tile_program *program,
                         bool backward) {
  p->program = program;
  p->backward = backward;
  p->carried = plan_carried(w->a, &w->m, program, backward);
  p->p = plan_program(w->a, &w->m, program, &p->carried);
  for (int c = 0; c < p->carried.count; c++) {
    plan_buffer *memory = &p->carried.items[c].memory;
    memory->layout = p->p->carried[c].layout;
    if (p->p->carried[c].accumulator < 0) continue;
    memory->stored = w->m.dtype;  // memory has the 16-bit copy
    memory->wgmma_layout = p->p->carried[c].wgmma_layout;
  }
}

codegen_bytes kernel_bytes_of(arena *a, const kernel_plan *w) {
  int64_t size = w->m.f64 ? 8 : 4;
  if (w->value_tiles)
    return (codegen_bytes){
        .constant = (w->shared_numbers + w->instance_numbers * w->value_tiles) * size + 64};
  codegen_bytes bytes = {.constant = w->shared_numbers * size + 64,
                         .per_instance = w->instance_numbers * (w->panels ? w->panels : 1) * size};
  vec_each(const extent, block, w->sized)
    codegen_bytes_add(a, &bytes, (codegen_bytes_term){block->factor * size, block->sizes});
  return bytes;
}
