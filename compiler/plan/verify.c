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

#include "compiler/plan/tensor_cores.h"
#include "compiler/plan/verify.h"

// ---- what is said ----

const char *checked_nest_text(const checker *c, int n) {
  if (n == c->p->nests.count) return "the next states";
  const plan_nest *nest = nest_of(c, n);
  tile_id id = nest->kind == NEST_PACK ? nest->packed
               : nest->values.count    ? nest->values.items[0]
                                       : NO_TILE;
  if (id == NO_TILE) return arena_printf(c->a, "nest %d", n);
  return arena_printf(c->a, "nest %d (%%%d = %s)", n, (int)id,
                      tile_op_text(checked_value(c, id)->op));
}

const char *checked_value_text(const checker *c, tile_id id) {
  return arena_printf(c->a, "value %%%d (%s)", (int)id, tile_op_text(checked_value(c, id)->op));
}

const char *checked_buffer_text(const checker *c, int buffer) {
  return arena_printf(c->a, "buffer %d", buffer);
}

void plan_refuse(checker *c, const char *where, const char *format, ...) {
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
        plan_refuse(c, checked_value_text(c, id), "an operand does not stand above it");
      if (c->wrong) return;
      axes |= checked_value(c, v->args[k])->axes;
    }
    if (tile_elementwise(v->op) && v->axes != axes)
      plan_refuse(c, checked_value_text(c, id), "its axes are not those of its operands together");
  }
  for (int i = 0; i < program->results.count; i++) {
    tile_id id = program->results.items[i].value;
    if (id < 0 || id >= program->values.count)
      plan_refuse(c, arena_printf(c->a, "result %d", i), "it has no value");
  }
}

// ---- what nests read ----

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

void check_all_reads(checker *c, read_check *check) {
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
      if (listed[id])
        plan_refuse(c, checked_value_text(c, id), "a nest makes it, and nothing needs it");
    } else if (listed[id] > 1) {
      plan_refuse(c, checked_value_text(c, id), "more than one nest makes it");
    } else if (!listed[id] && !is_made_by_adding(c, id)) {
      plan_refuse(c, checked_value_text(c, id), "no nest makes it");
    }
  }
}

static void note_listed(checker *c, int *listed, tile_id id, int n) {
  const plan_value *pv = planned(c, id);
  listed[id]++;
  if (pv->start != n && pv->nest != n)
    plan_refuse(c, checked_nest_text(c, n), "it lists %%%d, whose nest is %d", (int)id, pv->nest);
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
    plan_refuse(c, checked_nest_text(c, r->nest), "it reads %%%d before it makes it", (int)r->id);
  if (r->moved)
    plan_refuse(c, checked_nest_text(c, r->nest),
                "it reads %%%d at other points, and makes it itself", (int)r->id);
}

static void check_precedes(checker *c, const plan_read *r) {
  const plan_value *pv = planned(c, r->id);
  if (checked_value(c, r->id)->op == TILE_ARGUMENT) return;
  if (pv->nest < 0 || pv->nest >= c->p->nests.count) {
    plan_refuse(c, checked_nest_text(c, r->nest), "it reads %%%d, which no nest makes", (int)r->id);
  } else if (pv->nest == r->nest) {
    check_same_nest(c, r);
  } else if (!comes_before_nest(c, pv->nest, r->nest)) {
    plan_refuse(c, checked_nest_text(c, r->nest), "it reads %%%d, which nest %d makes later",
                (int)r->id, pv->nest);
  }
}

static void check_sorted(checker *c) {
  for (int n = 1; n < c->p->nests.count; n++)
    if (nest_of(c, n)->region < nest_of(c, n - 1)->region)
      plan_refuse(c, checked_nest_text(c, n), "it stands behind a nest of a later region");
}

// ---- copies ----

static void note_writer(checker *c, int n, int buffer) {
  if (buffer < 0) return;
  if (buffer >= c->p->buffers.count)
    plan_refuse(c, checked_nest_text(c, n), "it fills a buffer that does not exist");
  else if (c->writer[buffer] >= 0)
    plan_refuse(c, checked_buffer_text(c, buffer), "nest %d fills it, and another one has", n);
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
    plan_refuse(c, checked_nest_text(c, n), "it reads a copy that no nest fills: buffer %d",
                buffer);
    return;
  }
  read[buffer] = true;
  if (!comes_before_nest(c, c->writer[buffer], n))
    plan_refuse(c, checked_nest_text(c, n), "it reads the copy in buffer %d before it is filled",
                buffer);
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
      plan_refuse(c, checked_buffer_text(c, i), "nest %d fills this copy, and no product reads it",
                  c->writer[i]);
}

// ---- products ----

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
    plan_refuse(c, checked_nest_text(c, n), "the factors are not those of %%%d", (int)id);
  if (!c->wrong && !axes_agree(c, id, dot))
    plan_refuse(c, checked_nest_text(c, n), "rows, columns and depth are not those of %%%d",
                (int)id);
  tile_id sum = planned(c, id)->into;
  if (sum != NO_TILE && planned(c, sum)->lane != nest_of(c, n)->lane)
    plan_refuse(c, checked_nest_text(c, n),
                "%%%d is added to %%%d, and one of them alone has lanes", (int)id, (int)sum);
}

static void check_products(checker *c) {
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    if (nest->kind != NEST_DOT) continue;
    if (!nest->values.count || checked_value(c, nest->values.items[0])->op != TILE_DOT) {
      plan_refuse(c, checked_nest_text(c, n), "it has no product");
      return;
    }
    check_product(c, n, nest->values.items[0], &nest->dot);
    if (!nest->two) continue;
    check_product(c, n, nest->other, &nest->other_dot);
    if (nest->other_dot.i != nest->dot.i || nest->other_dot.j != nest->dot.j)
      plan_refuse(c, checked_nest_text(c, n), "rows and columns of %%%d are others",
                  (int)nest->other);
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
      plan_refuse(c, checked_value_text(c, r->value), "%d nests store result %d", stored[i], i);
  }
}

// ---- branches ----

static void check_asked(checker *c, int n, tile_id condition) {
  if (!condition) return;
  int made = planned(c, condition)->nest;
  if (nest_of(c, n)->results.count)
    plan_refuse(c, checked_nest_text(c, n), "it stores a result, and does not run in every chunk");
  if (made >= 0 && !comes_before_nest(c, made, n))
    plan_refuse(c, checked_nest_text(c, n), "it runs by %%%d, which nest %d makes later",
                (int)condition, made);
}

// Values of the rare branch are made there alone. Those of the usual one may be made in both.
static void check_branches(checker *c) {
  for (int n = 0; n < c->p->nests.count; n++) {
    const plan_nest *nest = nest_of(c, n);
    for (int i = 0; i < nest->values.count; i++) {
      const plan_value *pv = planned(c, nest->values.items[i]);
      if (pv->rare != nest->rare || (nest->usual && pv->usual != nest->usual))
        plan_refuse(c, checked_nest_text(c, n), "it runs in another branch than %%%d is needed in",
                    (int)nest->values.items[i]);
    }
    check_asked(c, n, nest->rare);
    check_asked(c, n, nest->usual);
  }
  for (int i = 0; i < c->p->program->results.count; i++) {
    tile_id id = c->p->program->results.items[i].value;
    int made = planned(c, id)->nest;
    if (made >= 0 && (nest_of(c, made)->rare || nest_of(c, made)->usual))
      plan_refuse(c, checked_value_text(c, id),
                  "it is a result, and nest %d does not run in every chunk", made);
  }
}

// ---- threads ----

static void check_threads(checker *c) {
  for (int n = 0; n < c->p->nests.count && c->m->kind == MAP_BLOCK; n++) {
    const char *wrong = plan_wrong_threads(c->a, c->m, c->p, nest_of(c, n));
    if (wrong) plan_refuse(c, checked_nest_text(c, n), "%s", wrong);
  }
}

// Barriers stand where nests touch the same memory, or memory of a buffer that is no longer alive.
static void check_beside(checker *c) {
  int n = c->m->kind == MAP_BLOCK ? plan_lacks_barrier(c->a, c->p) : -1;
  if (n >= 0) plan_refuse(c, checked_nest_text(c, n), "it waits for the nests beside it");
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
    checks[i].check ? checks[i].check(&c) : check_all_reads(&c, checks[i].of_reads);
  }
  return c.wrong;
}
