// The checks of verify.c that ask where values are: in registers of a nest, in buffers with axes of
// their own, in the state that they replace; how long buffers live, and that none lies over another.
#include "compiler/plan/verify.h"

// ---- where values are held ----

void check_held(checker *c, const plan_read *r) {
  const plan_value *pv = planned(c, r->id);
  if (checked_value(c, r->id)->op == TILE_ARGUMENT || pv->nest == r->nest) return;
  if (pv->held != HELD_BUFFER && pv->held != HELD_SCALAR)
    plan_refuse(c, checked_nest_text(c, r->nest),
                "it reads %%%d, which is in registers of nest %d alone", (int)r->id, pv->nest);
}

static bool shape_agrees(const checker *c, tile_id id, const plan_buffer *b) {
  axis_set tile = tile_of(c, id);
  if (plan_levels_of(c->m, c->p->program, id))
    tile &= ~axis_bit(tile_other_step_axis(checked_value(c, id)));
  return plan_buffer_axes(b) == tile && b->lane == planned(c, id)->lane;
}

// Is a product made elsewhere with the columns that its own buffer has?
static bool turned_in_vain(const checker *c, const plan_value *pv) {
  const plan_nest *nest = nest_of(c, pv->nest);
  if (nest->kind != NEST_DOT || nest->dot.pack_c < 0) return false;
  const plan_buffer *b = &c->p->buffers.items[pv->buffer];
  return b->axes[b->axis_count - 1] == nest->dot.j;
}

void check_result_shapes(checker *c) {
  for (tile_id id = 0; id < c->p->program->values.count; id++) {
    const plan_value *pv = planned(c, id);
    if (!is_nest_result(c, id)) continue;
    if (pv->held == HELD_BUFFER && (pv->buffer < 0 || pv->buffer >= c->p->buffers.count)) {
      plan_refuse(c, checked_value_text(c, id), "its buffer does not exist");
    } else if (pv->held == HELD_BUFFER && !shape_agrees(c, id, &c->p->buffers.items[pv->buffer])) {
      plan_refuse(c, checked_value_text(c, id), "buffer %d has other axes", pv->buffer);
    } else if (pv->held == HELD_BUFFER && checked_value(c, id)->op == TILE_ACCUMULATE &&
               !c->p->buffers.items[pv->buffer].persistent) {
      plan_refuse(c, checked_value_text(c, id),
                  "a sum over all steps does not live through all runs");
    } else if (pv->held == HELD_SCALAR && pv->tile) {
      plan_refuse(c, checked_value_text(c, id), "a variable holds more than one number");
    } else if (turned_in_vain(c, pv)) {
      plan_refuse(c, checked_value_text(c, id), "it is turned to the columns that it has");
    }
  }
}

// Whether numbers of a layout stay within the memory: they trade places within a block of banks, by
// bits of higher lines.
static bool layout_fits(const checker *c, plan_layout layout, const plan_buffer *b) {
  enum { LEAST_LINE = 5 };
  plan_swap swaps[PLAN_MOST_SWAPS];
  if (!layout.pattern) return true;
  if (layout.pattern >= PATTERN_COUNT || c->m->kind != MAP_BLOCK || b->stored != NUMBER_F32 ||
      b->lane || b->kept)
    return false;
  if (b->numbers.sizes || b->numbers.factor % PLAN_BANKS || layout.line < LEAST_LINE) return false;
  return plan_swaps_of(layout, b->stored, swaps) > 0;
}

void check_layouts(checker *c) {
  for (int i = 0; i < c->p->buffers.count; i++)
    if (!layout_fits(c, c->p->buffers.items[i].layout, &c->p->buffers.items[i]))
      plan_refuse(c, checked_buffer_text(c, i),
                  "its layout is not one of f32 numbers in whole blocks of banks");
  for (int s = 0; s < c->p->carried_count; s++) {
    const carried_pair *pair = &c->p->carried[s];
    if (pair->layout.pattern && pair->accumulator >= 0)
      plan_refuse(c, arena_printf(c->a, "state %d", s), "it has a layout, and lies in registers");
  }
}

// Buffers that are no state and live in one run alone may have 16 bits, and those alone may lie in
// tiles.
void check_storage(checker *c) {
  for (int i = 0; i < c->p->buffers.count; i++) {
    const plan_buffer *b = &c->p->buffers.items[i];
    bool narrow = number_is_narrow(b->stored);
    if (narrow && (b->persistent || b->carried >= 0))
      plan_refuse(c, checked_buffer_text(c, i), "its numbers live on, and have 16 bits");
    if (b->wgmma_layout && !narrow)
      plan_refuse(c, checked_buffer_text(c, i),
                  "it lies as warpgroups read it, and has no 16 bits");
  }
}

// ---- states ----

// Whether the nest writes the buffer in which a state becomes the next one.
static bool overwrites(const checker *c, int n, int state) {
  const plan_nest *nest = nest_of(c, n);
  for (int i = 0; i < nest->values.count; i++) {
    const plan_value *pv = planned(c, nest->values.items[i]);
    if (pv->into != NO_TILE) pv = planned(c, pv->into);
    if (pv->buffer >= 0 && c->p->buffers.items[pv->buffer].carried == state) return true;
  }
  return false;
}

static int first_overwriting(const checker *c, int state) {
  for (int n = 0; n < c->p->nests.count; n++)
    if (overwrites(c, n, state)) return n;
  return c->p->nests.count;
}

// A state is updated in place. The first nest that writes it reads old elements at its own point
// alone; later nests read none.
void check_old_state(checker *c, const plan_read *r) {
  if (checked_value(c, r->id)->op != TILE_ARGUMENT) return;
  for (int s = 0; s < c->p->carried_count; s++) {
    const carried_pair *pair = &c->p->carried[s];
    if (!pair->in_place || pair->argument != tile_argument_number(checked_value(c, r->id)))
      continue;
    int first = first_overwriting(c, s);
    if (r->nest > first || (r->nest == first && r->moved))
      plan_refuse(c, checked_nest_text(c, r->nest),
                  "it reads the old state %%%d, which nest %d has overwritten", (int)r->id, first);
  }
}

void check_pairs(checker *c) {
  for (int s = 0; s < c->p->carried_count; s++) {
    const carried_pair *pair = &c->p->carried[s];
    if (!pair->in_place && pair->accumulator < 0) continue;
    tile_id id = c->p->program->results.items[pair->result].value;
    const plan_value *pv = planned(c, id);
    if (pv->held != HELD_BUFFER || c->p->buffers.items[pv->buffer].carried != s)
      plan_refuse(c, checked_value_text(c, id),
                  "it is the next state in place, and has other memory");
    if (pair->accumulator >= 0 && pair->accumulator != pv->nest)
      plan_refuse(c, checked_value_text(c, id),
                  "nest %d has the state in registers, and another one makes it",
                  pair->accumulator);
  }
}

// ---- lives ----

static void check_alive(checker *c, int n, int buffer) {
  if (buffer < 0 || c->wrong) return;
  const plan_buffer *b = &c->p->buffers.items[buffer];
  if (n >= b->first && n <= b->last) return;
  plan_refuse(c, checked_buffer_text(c, buffer), "its life, nests %d to %d, lacks nest %d",
              b->first, b->last, n);
}

static void check_read_alive(checker *c, const plan_read *r) {
  if (checked_value(c, r->id)->op != TILE_ARGUMENT)
    check_alive(c, r->nest, planned(c, r->id)->buffer);
}

static void check_written_alive(checker *c, int n) {
  const plan_nest *nest = nest_of(c, n);
  for (int i = 0; i < nest->values.count; i++) {
    const plan_value *pv = planned(c, nest->values.items[i]);
    check_alive(c, n, pv->buffer);
    check_alive(c, n, pv->partial_sums);
    if (pv->into != NO_TILE) check_alive(c, n, planned(c, pv->into)->buffer);
  }
  if (nest->kind == NEST_PACK) check_alive(c, n, nest->pack);
  if (!is_product_nest(nest)) return;
  check_alive(c, n, nest->dot.pack_a);
  check_alive(c, n, nest->dot.pack_b);
  check_alive(c, n, nest->dot.pack_c);
  if (nest->two) check_alive(c, n, nest->other_dot.pack_a);
  if (nest->two) check_alive(c, n, nest->other_dot.pack_b);
}

// What is made once is read in every later run.
static void check_whole_run(checker *c, int n) {
  const plan_nest *nest = nest_of(c, n);
  if (nest->region != REGION_PROLOGUE && nest->region != REGION_SHARED) return;
  int end = c->p->nests.count;
  if (nest->kind == NEST_PACK) check_alive(c, end, nest->pack);
  for (int i = 0; i < nest->values.count; i++)
    check_alive(c, end, planned(c, nest->values.items[i])->buffer);
}

void check_lives(checker *c) {
  check_all_reads(c, check_read_alive);
  for (int n = 0; n < c->p->nests.count; n++) {
    check_written_alive(c, n);
    check_whole_run(c, n);
  }
}

// ---- memory ----

static bool live_together(const plan_buffer *x, const plan_buffer *y) {
  return x->last >= 0 && y->last >= 0 && x->first <= y->last && y->first <= x->last;
}

static bool has_place(const plan_buffer *b) {
  return b->last >= 0 && b->offset >= 0 && b->carried < 0 && !b->persistent && !b->kept &&
         !b->stack;
}

void check_buffer_places(checker *c) {
  for (int i = 0; i < c->p->buffers.count; i++) {
    const plan_buffer *x = &c->p->buffers.items[i];
    for (int k = 0; has_place(x) && k < i; k++) {
      const plan_buffer *y = &c->p->buffers.items[k];
      if (!has_place(y) || x->numbers.sizes != y->numbers.sizes || !live_together(x, y)) continue;
      if (x->offset < y->offset + y->numbers.factor && y->offset < x->offset + x->numbers.factor)
        plan_refuse(c, checked_buffer_text(c, i), "it lies over buffer %d, which is alive as well",
                    k);
    }
  }
}

const char plan_shared[] = "in shared memory", plan_scratch[] = "in scratch",
           plan_instance[] = "in the instance's scratch", plan_stack[] = "on the stack",
           plan_registers[] = "in registers";

const char *plan_verify_places(arena *a, const plan *p, const plan_place *at) {
  for (int i = 0; i < p->buffers.count; i++) {
    for (int k = 0; at[i].space && at[i].offset >= 0 && k < i; k++) {
      if (at[i].space != at[k].space || at[k].offset < 0) continue;
      bool apart =
          at[i].offset >= at[k].offset + at[k].bytes || at[k].offset >= at[i].offset + at[i].bytes;
      if (!apart && live_together(&p->buffers.items[i], &p->buffers.items[k]))
        return arena_printf(a, "buffer %d lies over buffer %d %s, and both are alive", i, k,
                            at[i].space);
    }
  }
  return NULL;
}
