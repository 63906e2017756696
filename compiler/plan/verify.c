// The rules of a plan, checked after the pass that has just changed it.
//
//   nest 3: %9 = mul %8 x      %8 is made by nest 5                            refused: an operand is made later
//   buffer 2, nests 1 .. 4     nest 6 reads it                                 refused: a life ends too early
//   S in place by nest 4       nest 6 reads the old S                          refused: an old state is read
//
// The checks do not know how a pass decides. They follow every read of every nest down to the
// values that are made, and ask whether each value is available there. plan.c calls them; a check
// applies from the stage that first makes what it looks at.
#include <stdarg.h>

#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

typedef struct checker {
  arena *a;
  const mapping *m;
  const plan *p;
  const char *pass;
  plan_stage stage;
  int *writer;        // by buffer: the nest that fills it as a copy; -1: none
  const char *wrong;  // the first mistake
} checker;

static const tile_value *checked_value(const checker *c, tile_id id) {
  return &c->p->program->values.items[id];
}

static const plan_value *planned(const checker *c, tile_id id) { return &c->p->values[id]; }

static const plan_nest *nest_of(const checker *c, int n) { return &c->p->nests.items[n]; }

static bool is_nest_result(const checker *c, tile_id id) {
  return c->p->values[id].needed && !plan_at_hand(c->p, id);
}

// ---- what is said ----

static const char *nest_text(const checker *c, int n) {
  if (n == c->p->nests.count) return "the next states";
  const plan_nest *nest = nest_of(c, n);
  tile_id id = nest->kind == NEST_PACK ? nest->packed
               : nest->values.count    ? nest->values.items[0]
                                       : NO_TILE;
  if (id == NO_TILE) return arena_printf(c->a, "nest %d", n);
  return arena_printf(c->a, "nest %d (%%%d = %s)", n, (int)id,
                      tile_op_text(checked_value(c, id)->op));
}

static const char *value_text(const checker *c, tile_id id) {
  return arena_printf(c->a, "value %%%d (%s)", (int)id, tile_op_text(checked_value(c, id)->op));
}

static const char *buffer_text(const checker *c, int buffer) {
  return arena_printf(c->a, "buffer %d", buffer);
}

// The first mistake counts.
__attribute__((format(printf, 3, 4))) static void refuse(checker *c, const char *where,
                                                         const char *format, ...) {
  if (c->wrong) return;
  va_list arguments;
  va_start(arguments, format);
  const char *what = arena_vprintf(c->a, format, arguments);
  va_end(arguments);
  c->wrong = arena_printf(c->a, "after the pass '%s', %s: %s", c->pass, where, what);
}

// ---- the program ----

// Sums over axes that are cut are gone, so that tile_verify's rules for instances do not hold;
// those of a straight line do.
static void check_program(checker *c) {
  const tile_program *program = c->p->program;
  for (tile_id id = 0; id < program->values.count; id++) {
    const tile_value *v = checked_value(c, id);
    axis_set axes = 0;
    for (int k = 0; k < tile_arity(v->op); k++) {
      if (v->args[k] < 0 || v->args[k] >= id)
        refuse(c, value_text(c, id), "an operand does not stand above it");
      if (c->wrong) return;
      axes |= checked_value(c, v->args[k])->axes;
    }
    if (tile_elementwise(v->op) && v->axes != axes)
      refuse(c, value_text(c, id), "its axes are not those of its operands together");
  }
  for (int i = 0; i < program->results.count; i++) {
    tile_id id = program->results.items[i].value;
    if (id < 0 || id >= program->values.count)
      refuse(c, arena_printf(c->a, "result %d", i), "it has no value");
  }
}

// ---- what nests read ----

// What is read for an operand, where nothing is copied: a value that some nest makes, or an
// argument.
typedef struct plan_read {
  int nest;      // plan.nests.count: the next states, behind all nests
  int position;  // of the reader in its nest; its number of values: a result
  tile_id id;
  bool moved;  // at another point than the nest's own
} plan_read;

typedef void read_check(checker *, const plan_read *);

static void follow(checker *c, plan_read r, read_check *check) {
  const tile_value *v = checked_value(c, r.id);
  if (!plan_at_hand(c->p, r.id) || v->op == TILE_ARGUMENT) {
    check(c, &r);
    return;
  }
  bool moved = r.moved || tile_op_is(v->op, TILE_MOVES_INDEX);
  for (int k = 0; k < tile_arity(v->op); k++)
    follow(c, (plan_read){r.nest, r.position, v->args[k], moved}, check);
}

static bool is_product_nest(const plan_nest *nest) {
  return nest->kind == NEST_DOT || nest->kind == NEST_SOLVE;
}

// A product reads its factors at points of their own.
static void follow_factors(checker *c, int n, const plan_dot *dot, read_check *check) {
  if (dot->pack_a < 0) follow(c, (plan_read){n, 0, dot->a, true}, check);
  if (dot->pack_b < 0) follow(c, (plan_read){n, 0, dot->b, true}, check);
}

static bool reads_along(tile_op op) { return tile_op_is(op, TILE_OWN_NEST) && op != TILE_SOLVE; }

static void follow_value(checker *c, int n, int position, read_check *check) {
  tile_id id = nest_of(c, n)->values.items[position];
  const tile_value *v = checked_value(c, id);
  for (int k = 0; k < tile_arity(v->op); k++)
    if (v->args[k] != planned(c, id)->dot)
      follow(c, (plan_read){n, position, v->args[k], reads_along(v->op)}, check);
}

static void follow_nest(checker *c, int n, read_check *check) {
  const plan_nest *nest = nest_of(c, n);
  if (is_product_nest(nest)) follow_factors(c, n, &nest->dot, check);
  for (int i = is_product_nest(nest); i < nest->values.count; i++) follow_value(c, n, i, check);
  if (nest->two) follow_factors(c, n, &nest->other_dot, check);
  if (nest->two && nest->scaled != NO_TILE)
    follow(c, (plan_read){n, 1, nest->scaled, false}, check);
  for (int i = 0; i < nest->results.count; i++) {
    tile_id id = c->p->program->results.items[nest->results.items[i]].value;
    follow(c, (plan_read){n, nest->values.count, id, false}, check);
  }
  if (nest->kind == NEST_PACK) follow(c, (plan_read){n, 0, nest->packed, true}, check);
}

static void follow_all(checker *c, read_check *check) {
  for (int n = 0; n < c->p->nests.count; n++) follow_nest(c, n, check);
  vec_each(const tile_result, r, c->p->program->results) {
    if (plan_is_carried_role(r->place.role))
      follow(c, (plan_read){c->p->nests.count, 0, r->value, true}, check);
  }
}

// ---- each value has one nest ----

// The nest adds a product to such a sum, whose first operand is there: no nest lists it.
static bool is_made_by_adding(const checker *c, tile_id id) {
  const plan_value *pv = planned(c, id);
  if (pv->dot == NO_TILE || pv->nest < 0) return false;
  tile_id product = plan_product_of(c->p->program, pv->dot);
  const plan_nest *nest = nest_of(c, pv->nest);
  bool adds = nest->kind == NEST_DOT && nest->values.count && nest->values.items[0] == product;
  return adds && (nest->two || checked_value(c, id)->op == TILE_ACCUMULATE);
}

static void check_listed(checker *c, const int *listed) {
  for (tile_id id = 0; id < c->p->program->values.count; id++) {
    if (!is_nest_result(c, id)) {
      if (listed[id]) refuse(c, value_text(c, id), "a nest makes it, and nothing needs it");
    } else if (listed[id] > 1) {
      refuse(c, value_text(c, id), "more than one nest makes it");
    } else if (!listed[id] && !is_made_by_adding(c, id)) {
      refuse(c, value_text(c, id), "no nest makes it");
    }
  }
}

static void note_listed(checker *c, int *listed, tile_id id, int n) {
  const plan_value *pv = planned(c, id);
  listed[id]++;
  if (pv->start != n && pv->nest != n)
    refuse(c, nest_text(c, n), "it lists %%%d, whose nest is %d", (int)id, pv->nest);
}

static void check_nests_of_values(checker *c) {
  int *listed = ARENA_ARRAY(c->a, int, c->p->program->values.count + 1);
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    for (int i = 0; i < nest->values.count; i++) note_listed(c, listed, nest->values.items[i], n);
    if (nest->two) note_listed(c, listed, nest->other, n);
  }
  check_listed(c, listed);
}

// ---- operands precede ----

// Regions follow each other, in whatever order nests are listed.
static bool comes_before_nest(const checker *c, int n, int other) {
  if (other == c->p->nests.count) return true;
  region r = nest_of(c, n)->region, s = nest_of(c, other)->region;
  return r != s ? r < s : n < other;
}

// Where a nest has made the value: -1, before its first point; its number of values if it does not
// make it.
static int position_in(const plan_nest *nest, const checker *c, tile_id id) {
  for (int i = 0; i < nest->values.count; i++)
    if (nest->values.items[i] == id) return i;
  bool added = nest->values.count && planned(c, nest->values.items[0])->into == id;
  return added || (nest->two && nest->other == id) ? 0 : nest->values.count;
}

static void check_same_nest(checker *c, const plan_read *r) {
  const plan_nest *nest = nest_of(c, r->nest);
  int made = position_in(nest, c, r->id);
  if (made >= nest->values.count || made >= r->position + (nest->two && !r->position))
    refuse(c, nest_text(c, r->nest), "it reads %%%d before it makes it", (int)r->id);
  if (r->moved)
    refuse(c, nest_text(c, r->nest), "it reads %%%d at other points, and makes it itself",
           (int)r->id);
}

static void check_precedes(checker *c, const plan_read *r) {
  const plan_value *pv = planned(c, r->id);
  if (checked_value(c, r->id)->op == TILE_ARGUMENT) return;
  if (pv->nest < 0 || pv->nest >= c->p->nests.count) {
    refuse(c, nest_text(c, r->nest), "it reads %%%d, which no nest makes", (int)r->id);
  } else if (pv->nest == r->nest) {
    check_same_nest(c, r);
  } else if (!comes_before_nest(c, pv->nest, r->nest)) {
    refuse(c, nest_text(c, r->nest), "it reads %%%d, which nest %d makes later", (int)r->id,
           pv->nest);
  }
}

static void check_sorted(checker *c) {
  for (int n = 1; n < c->p->nests.count; n++)
    if (nest_of(c, n)->region < nest_of(c, n - 1)->region)
      refuse(c, nest_text(c, n), "it stands behind a nest of a later region");
}

// ---- copies ----

static void note_writer(checker *c, int n, int buffer) {
  if (buffer < 0) return;
  if (buffer >= c->p->buffers.count)
    refuse(c, nest_text(c, n), "it fills a buffer that does not exist");
  else if (c->writer[buffer] >= 0)
    refuse(c, buffer_text(c, buffer), "nest %d fills it, and another one has", n);
  else
    c->writer[buffer] = n;
}

static void note_writers(checker *c) {
  c->writer = ARENA_ARRAY(c->a, int, c->p->buffers.count + 1);
  for (int i = 0; i < c->p->buffers.count; i++) c->writer[i] = -1;
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    if (nest->kind == NEST_PACK) note_writer(c, n, nest->pack);
  }
}

static void note_reader(checker *c, bool *read, int n, int buffer) {
  if (buffer < 0) return;
  if (buffer >= c->p->buffers.count || c->writer[buffer] < 0) {
    refuse(c, nest_text(c, n), "it reads a copy that no nest fills: buffer %d", buffer);
    return;
  }
  read[buffer] = true;
  if (!comes_before_nest(c, c->writer[buffer], n))
    refuse(c, nest_text(c, n), "it reads the copy in buffer %d before it is filled", buffer);
}

static void check_copies(checker *c) {
  bool *read = ARENA_ARRAY(c->a, bool, c->p->buffers.count + 1);
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    if (!is_product_nest(nest)) continue;
    note_reader(c, read, n, nest->dot.pack_a);
    note_reader(c, read, n, nest->dot.pack_b);
    if (nest->two) note_reader(c, read, n, nest->other_dot.pack_a);
    if (nest->two) note_reader(c, read, n, nest->other_dot.pack_b);
  }
  for (int i = 0; i < c->p->buffers.count; i++)
    if (c->writer[i] >= 0 && !read[i])
      refuse(c, buffer_text(c, i), "nest %d fills this copy, and no product reads it",
             c->writer[i]);
}

// ---- products ----

static axis_set tile_of(const checker *c, tile_id id) { return planned(c, id)->tile; }

static bool has_factors(const tile_value *v, const plan_dot *dot) {
  return (v->args[0] == dot->a && v->args[1] == dot->b) ||
         (v->args[0] == dot->b && v->args[1] == dot->a);
}

// Rows of a, columns of b, and what is summed of both.
static bool axes_agree(const checker *c, tile_id id, const plan_dot *dot) {
  axis_set a = tile_of(c, dot->a), b = tile_of(c, dot->b), made = tile_of(c, id);
  if (dot->i >= 0 && !axis_in(a & ~b & made, dot->i)) return false;
  if (dot->j >= 0 && !axis_in(b & ~a & made, dot->j)) return false;
  bool steps = dot->k == c->p->steps && dot->i >= 0;  // those of a chunk: no factor has the axis
  return dot->k < 0 || steps ||
         (axis_in(a & b & ~made, dot->k) && axis_in(checked_value(c, id)->over, dot->k));
}

static void check_product(checker *c, int n, tile_id id, const plan_dot *dot) {
  if (!has_factors(checked_value(c, id), dot))
    refuse(c, nest_text(c, n), "the factors are not those of %%%d", (int)id);
  if (!c->wrong && !axes_agree(c, id, dot))
    refuse(c, nest_text(c, n), "rows, columns and depth are not those of %%%d", (int)id);
  tile_id sum = planned(c, id)->into;
  if (sum != NO_TILE && planned(c, sum)->lane != nest_of(c, n)->lane)
    refuse(c, nest_text(c, n), "%%%d is added to %%%d, and one of them alone has lanes", (int)id,
           (int)sum);
}

static void check_products(checker *c) {
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    if (nest->kind != NEST_DOT) continue;
    if (!nest->values.count || checked_value(c, nest->values.items[0])->op != TILE_DOT) {
      refuse(c, nest_text(c, n), "it has no product");
      return;
    }
    check_product(c, n, nest->values.items[0], &nest->dot);
    if (!nest->two) continue;
    check_product(c, n, nest->other, &nest->other_dot);
    if (nest->other_dot.i != nest->dot.i || nest->other_dot.j != nest->dot.j)
      refuse(c, nest_text(c, n), "rows and columns of %%%d are others", (int)nest->other);
  }
}

// ---- results ----

static void check_results(checker *c) {
  const tile_program *program = c->p->program;
  int *stored = ARENA_ARRAY(c->a, int, program->results.count + 1);
  for (int n = 0; n < c->p->nests.count; n++)
    for (int i = 0; i < nest_of(c, n)->results.count; i++)
      stored[nest_of(c, n)->results.items[i]]++;
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *r = &program->results.items[i];
    if (stored[i] != !plan_is_carried_role(r->place.role))
      refuse(c, value_text(c, r->value), "%d nests store result %d", stored[i], i);
  }
}

// ---- branches ----

static void check_asked(checker *c, int n, tile_id condition) {
  if (!condition) return;
  int made = planned(c, condition)->nest;
  if (nest_of(c, n)->results.count)
    refuse(c, nest_text(c, n), "it stores a result, and does not run in every chunk");
  if (made >= 0 && !comes_before_nest(c, made, n))
    refuse(c, nest_text(c, n), "it runs by %%%d, which nest %d makes later", (int)condition, made);
}

// Values of the rare branch are made there alone. Those of the usual one may be made in both.
static void check_branches(checker *c) {
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    for (int i = 0; i < nest->values.count; i++) {
      const plan_value *pv = planned(c, nest->values.items[i]);
      if (pv->rare != nest->rare || (nest->usual && pv->usual != nest->usual))
        refuse(c, nest_text(c, n), "it runs in another branch than %%%d is needed in",
               (int)nest->values.items[i]);
    }
    check_asked(c, n, nest->rare);
    check_asked(c, n, nest->usual);
  }
  for (int i = 0; i < c->p->program->results.count; i++) {
    tile_id id = c->p->program->results.items[i].value;
    int made = planned(c, id)->nest;
    if (made >= 0 && (nest_of(c, made)->rare || nest_of(c, made)->usual))
      refuse(c, value_text(c, id), "it is a result, and nest %d does not run in every chunk", made);
  }
}

// ---- where values are held ----

static void check_held(checker *c, const plan_read *r) {
  const plan_value *pv = planned(c, r->id);
  if (checked_value(c, r->id)->op == TILE_ARGUMENT || pv->nest == r->nest) return;
  if (pv->held != HELD_BUFFER && pv->held != HELD_SCALAR)
    refuse(c, nest_text(c, r->nest), "it reads %%%d, which is in registers of nest %d alone",
           (int)r->id, pv->nest);
}

static bool shape_agrees(const checker *c, tile_id id, const plan_buffer *b) {
  axis_set axes = 0;
  for (int i = 0; i < b->axis_count; i++) axes |= axis_bit(b->axes[i]);
  axis_set tile = tile_of(c, id);
  if (plan_levels_of(c->m, c->p->program, id))
    tile &= ~axis_bit(tile_other_step_axis(checked_value(c, id)));
  return axes == tile && b->lane == planned(c, id)->lane;
}

static void check_result_shapes(checker *c) {
  for (tile_id id = 0; id < c->p->program->values.count; id++) {
    const plan_value *pv = planned(c, id);
    if (!is_nest_result(c, id)) continue;
    if (pv->held == HELD_BUFFER && (pv->buffer < 0 || pv->buffer >= c->p->buffers.count)) {
      refuse(c, value_text(c, id), "its buffer does not exist");
    } else if (pv->held == HELD_BUFFER && !shape_agrees(c, id, &c->p->buffers.items[pv->buffer])) {
      refuse(c, value_text(c, id), "buffer %d has other axes", pv->buffer);
    } else if (pv->held == HELD_BUFFER && checked_value(c, id)->op == TILE_ACCUMULATE &&
               !c->p->buffers.items[pv->buffer].persistent) {
      refuse(c, value_text(c, id), "a sum over all steps does not live through all runs");
    } else if (pv->held == HELD_SCALAR && pv->tile) {
      refuse(c, value_text(c, id), "a variable holds more than one number");
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

static void check_layouts(checker *c) {
  for (int i = 0; i < c->p->buffers.count; i++)
    if (!layout_fits(c, c->p->buffers.items[i].layout, &c->p->buffers.items[i]))
      refuse(c, buffer_text(c, i), "its layout is not one of f32 numbers in whole blocks of banks");
  for (int s = 0; s < c->p->carried_count; s++) {
    const carried_pair *pair = &c->p->carried[s];
    if (pair->layout.pattern && pair->accumulator >= 0)
      refuse(c, arena_printf(c->a, "state %d", s), "it has a layout, and lies in registers");
  }
}

// Buffers that are no state and live in one run alone may have 16 bits, and those alone may lie in
// tiles.
static void check_storage(checker *c) {
  for (int i = 0; i < c->p->buffers.count; i++) {
    const plan_buffer *b = &c->p->buffers.items[i];
    bool narrow = number_is_narrow(b->stored);
    if (narrow && (b->persistent || b->carried >= 0))
      refuse(c, buffer_text(c, i), "its numbers live on, and have 16 bits");
    if (b->wgmma_layout && !narrow)
      refuse(c, buffer_text(c, i), "it lies as warpgroups read it, and has no 16 bits");
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
static void check_old_state(checker *c, const plan_read *r) {
  if (checked_value(c, r->id)->op != TILE_ARGUMENT) return;
  for (int s = 0; s < c->p->carried_count; s++) {
    const carried_pair *pair = &c->p->carried[s];
    if (!pair->in_place || pair->argument != tile_argument_number(checked_value(c, r->id)))
      continue;
    int first = first_overwriting(c, s);
    if (r->nest > first || (r->nest == first && r->moved))
      refuse(c, nest_text(c, r->nest), "it reads the old state %%%d, which nest %d has overwritten",
             (int)r->id, first);
  }
}

static void check_pairs(checker *c) {
  for (int s = 0; s < c->p->carried_count; s++) {
    const carried_pair *pair = &c->p->carried[s];
    if (!pair->in_place && pair->accumulator < 0) continue;
    tile_id id = c->p->program->results.items[pair->result].value;
    const plan_value *pv = planned(c, id);
    if (pv->held != HELD_BUFFER || c->p->buffers.items[pv->buffer].carried != s)
      refuse(c, value_text(c, id), "it is the next state in place, and has other memory");
    if (pair->accumulator >= 0 && pair->accumulator != pv->nest)
      refuse(c, value_text(c, id), "nest %d has the state in registers, and another one makes it",
             pair->accumulator);
  }
}

// ---- threads ----

static void check_threads(checker *c) {
  for (int n = 0; n < c->p->nests.count && c->m->kind == MAP_BLOCK; n++) {
    const char *wrong = plan_wrong_threads(c->a, c->m, c->p, nest_of(c, n));
    if (wrong) refuse(c, nest_text(c, n), "%s", wrong);
  }
}

// Barriers stand where nests touch the same memory, or memory of a buffer that is no longer alive.
static void check_beside(checker *c) {
  int n = c->m->kind == MAP_BLOCK ? plan_lacks_barrier(c->a, c->p) : -1;
  if (n >= 0) refuse(c, nest_text(c, n), "it waits for the nests beside it");
}

// ---- lives ----

static void check_alive(checker *c, int n, int buffer) {
  if (buffer < 0 || c->wrong) return;
  const plan_buffer *b = &c->p->buffers.items[buffer];
  if (n >= b->first && n <= b->last) return;
  refuse(c, buffer_text(c, buffer), "its life, nests %d to %d, lacks nest %d", b->first, b->last,
         n);
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

static void check_lives(checker *c) {
  follow_all(c, check_read_alive);
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

static void check_buffer_places(checker *c) {
  for (int i = 0; i < c->p->buffers.count; i++) {
    const plan_buffer *x = &c->p->buffers.items[i];
    for (int k = 0; has_place(x) && k < i; k++) {
      const plan_buffer *y = &c->p->buffers.items[k];
      if (!has_place(y) || x->numbers.sizes != y->numbers.sizes || !live_together(x, y)) continue;
      if (x->offset < y->offset + y->numbers.factor && y->offset < x->offset + x->numbers.factor)
        refuse(c, buffer_text(c, i), "it lies over buffer %d, which is alive as well", k);
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

// ---- all of it ----

typedef struct plan_check {
  plan_stage from;
  void (*check)(checker *);
  read_check *of_reads;  // in place of that: of every read
} plan_check;

static const plan_check checks[] = {
    {PLAN_PROGRAM, check_program, NULL},
    {PLAN_NESTS, check_nests_of_values, NULL},
    {PLAN_NESTS, check_products, NULL},
    {PLAN_NESTS, NULL, check_precedes},
    {PLAN_NESTS, note_writers, NULL},
    {PLAN_NESTS, check_copies, NULL},
    {PLAN_RESULTS, check_results, NULL},
    {PLAN_RESULTS, check_branches, NULL},
    {PLAN_SORTED, check_sorted, NULL},
    {PLAN_HELD, check_result_shapes, NULL},
    {PLAN_HELD, NULL, check_held},
    {PLAN_STATES, check_storage, NULL},
    {PLAN_STATES, check_pairs, NULL},
    {PLAN_LIVES, check_layouts, NULL},
    {PLAN_STATES, NULL, check_old_state},
    {PLAN_THREADS, check_threads, NULL},
    {PLAN_LIVES, check_lives, NULL},
    {PLAN_PLACED, check_beside, NULL},
    {PLAN_PLACED, check_buffer_places, NULL},
};

const char *plan_verify(arena *a, const mapping *m, const plan *p, const char *pass) {
  checker c = {.a = a, .m = m, .p = p, .pass = pass, .stage = plan_stage_after(pass)};
  for (size_t i = 0; i < sizeof checks / sizeof *checks && !c.wrong; i++) {
    if (checks[i].from > c.stage) continue;
    checks[i].check ? checks[i].check(&c) : follow_all(&c, checks[i].of_reads);
  }
  return c.wrong;
}
