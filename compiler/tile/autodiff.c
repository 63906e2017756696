// Reverse mode of straight-line tile programs: the backward is derived, never written.
//
//   %2 = exp %0                       %5 = argument d.y
//   %3 = mul %2 %1              ->    %6 = mul %5 %2           dx1
//   result output y = %3              %7 = mul (mul %5 %1) %2  dx0
//
// The backward program begins with the forward's values, recomputed inside the chunk. It goes
// through them from the last to the first, and collects for each value the terms of its cotangent.
// Cotangents never carry axes that their values lack: what is missing is summed at once; over a
// grid axis that sum is partial (tile.h). A cotangent may lack axes of its value, then it is the
// same along them.
//
// Values that depend on parameters alone get their cotangent accumulated over the runs and are left
// to the epilogue.
//
// Guards. Where a `select` does not take a branch, the cotangent that enters the branch is 0. A
// rule may still multiply it by an infinity on the way (log at 0). For a value that is seen through
// branches alone, such a term is therefore formed as select (dy == 0) 0 term. Padded rows are such
// branches (`select valid x 0`).
//
// A branch of `seldom` gets its cotangent whole. What it gives to values that it shares with the
// rest is chosen there, so that nothing of a branch that is not taken is ever read.
//
//   z = seldom c (exp x) (sin x)      ->      dx = seldom c (dz * exp x) (dz * cos x)
#include <string.h>

#include "compiler/base/ice.h"
#include "compiler/tile/gradient.h"
#include "compiler/tile/stash.h"

// ---- what is known of the backward program's values ------------------------------------------

static void update_facts(gradient *g) {
  tile_program *p = g->program;
  for (int i = g->partial.count; i < p->values.count; i++) {
    vec_push(p->arena, &g->partial, 0);
    g->partial.items[i] = tile_partial_value(p, i, g->partial.items);
    vec_push(p->arena, &g->sections, TILE_PROLOGUE);
    g->sections.items[i] = tile_value_section(p, i, g->sections.items);
  }
}

static axis_set partial_of(gradient *g, tile_id id) {
  update_facts(g);
  return g->partial.items[id];
}

static tile_section section_of(gradient *g, tile_id id) {
  update_facts(g);
  return g->sections.items[id];
}

// Is the first operand a condition, through which no gradient comes back?
static bool has_condition(tile_op op) { return op == TILE_SELECT || op == TILE_SELDOM; }

// ---- guards ----------------------------------------------------------------------------------

static guard weaker(guard a, guard b) { return a < b ? a : b; }

// The weakest guard over all ways from a value to a result along which a gradient comes back.
static void find_guards(gradient *g) {
  const tile_program *f = g->forward;
  for (int i = 0; i < f->values.count; i++) g->guards[i] = GUARD_BRANCH;
  for (int i = 0; i < f->results.count; i++) g->guards[f->results.items[i].value] = GUARD_NONE;
  for (int i = f->values.count - 1; i >= 0; i--) {
    const tile_value *v = &f->values.items[i];
    for (int k = 0; k < tile_arity(v->op); k++) {
      if (!gradient_has_rule(v->op) || (has_condition(v->op) && k == 0)) continue;  // no way back
      guard seen = g->guards[i];
      if (v->op == TILE_SELECT) {
        // Above the diagonal the sums of pairs are 0, as inputs are on padded rows.
        tile_op condition = f->values.items[v->args[0]].op;
        bool padding = condition == TILE_VALID || condition == TILE_CAUSAL;
        guard own = padding ? GUARD_PADDING : GUARD_BRANCH;
        if (own > seen) seen = own;
      }
      g->guards[v->args[k]] = weaker(g->guards[v->args[k]], seen);
    }
  }
}

// Is what must not be 0 something else on padded rows?
static bool kept_from_0(const tile_program *p, tile_id x) {
  bool over_time = p->time_axis >= 0 && axis_in(p->values.items[x].axes, p->time_axis);
  return !over_time || tile_padding_is_1(p, x) || tile_is_positive(p, x);
}

// Operations whose value or derivative is infinite for some finite operand. On padded rows operands
// are 0 or parameters, for which exponentials are finite, and quotients where the builder keeps
// them from 0.
static bool op_unsafe(const tile_program *p, const tile_value *v, guard guarded) {
  if (tile_op_is(v->op, TILE_OVERFLOWS)) return guarded == GUARD_BRANCH;
  if (!tile_op_is(v->op, TILE_SINGULAR)) return false;
  tile_id x = v->args[v->op == TILE_DIV];
  return guarded != GUARD_PADDING || v->op == TILE_LOG1P || !kept_from_0(p, x);
}

// Values that are infinite on rows of the sequence are seen by somebody; padding hides what padded
// rows hold, no more.
static void find_unsafe(gradient *g) {
  const tile_program *f = g->forward;
  for (int i = 0; i < f->values.count; i++) {
    const tile_value *v = &f->values.items[i];
    if (v->op == TILE_EXP && !tile_may_overflow(f, i))
      continue;  // at most 1, if of an infinite sum
    g->unsafe[i] = op_unsafe(f, v, g->guards[i]);
    guard on_padding = g->guards[i] == GUARD_BRANCH ? GUARD_BRANCH : GUARD_PADDING;
    g->unsafe_on_padding[i] = op_unsafe(f, v, on_padding);
    bool masked = v->op == TILE_SELECT && f->values.items[v->args[0]].op == TILE_VALID;
    for (int k = 0; k < tile_arity(v->op); k++) {
      g->unsafe[i] |= g->unsafe[v->args[k]];
      if (!(masked && k == 1)) g->unsafe_on_padding[i] |= g->unsafe_on_padding[v->args[k]];
    }
  }
}

// May a factor that the rule of this value uses be infinite? Terms of a solution and of a scan need
// not be 0 where its cotangent is.
static bool rule_unsafe(const gradient *g, tile_id id) {
  tile_op op = g->forward->values.items[id].op;
  if (tile_op_is(op, TILE_LINEAR | TILE_MASKS | TILE_OWN_NEST)) return false;
  return g->guards[id] == GUARD_PADDING ? g->unsafe_on_padding[id] : g->unsafe[id];
}

static bool needs_guard(const gradient *g, tile_id id) {
  return g->guards[id] != GUARD_NONE && rule_unsafe(g, id);
}

static tile_id guarded_term(gradient *g, tile_id id, tile_id term, tile_id dy) {
  if (!needs_guard(g, id)) return term;
  tile_id zero = tile_number(g->program, 0);
  return tile_select(g->program, tile_binary(g->program, TILE_EQUAL, zero, dy), zero, term);
}

// ---- terms -----------------------------------------------------------------------------------

static axis_set gradient_axes(const gradient *g, tile_id id) {
  return g->program->values.items[id].axes;
}

static const tile_branch any_branch = {NO_TILE, false};

static bool is_branch(tile_branch x, tile_branch y) {
  return x.condition == y.condition && x.rare == y.rare;
}

static void add_gradient_term(gradient *g, tile_id target, tile_id term, bool once,
                              tile_branch branch) {
  if (tile_is_number(g->program, term, 0)) return;
  cotangent_terms *terms = once ? &g->epilogue[target] : &g->body[target];
  vec_push(g->program->arena, terms, (cotangent_term){term, partial_of(g, term), branch});
}

// The branch of a term that comes from operand k of a value: that of the value, unless the operand
// belongs to it, too.
static tile_branch branch_of_term(const gradient *g, tile_id id, int k) {
  const tile_value *v = &g->forward->values.items[id];
  tile_branch branch = g->branches[id];
  if (v->op == TILE_SELDOM && branch.condition == NO_TILE)
    branch = (tile_branch){v->args[0], k == 1};
  return is_branch(branch, g->branches[v->args[k]]) ? any_branch : branch;
}

// A condition with axes that the target lacks cannot choose between sums over them.
static bool chooses_entries(const gradient *g, tile_branch branch, tile_id target) {
  return branch.condition != NO_TILE &&
         (gradient_axes(g, branch.condition) & ~gradient_axes(g, target));
}

static tile_id term_where_taken(gradient *g, tile_branch branch, tile_id term) {
  tile_id zero = tile_number(g->program, 0);
  return branch.rare ? tile_seldom(g->program, branch.condition, term, zero)
                     : tile_seldom(g->program, branch.condition, zero, term);
}

// Users in the prologue have their own cotangent in the epilogue.
static bool happens_once(const gradient *g, tile_id user) {
  return g->sections.items[user] == TILE_PROLOGUE;
}

void gradient_give(gradient *g, tile_id id, int k, tile_id term, tile_id dy) {
  tile_id target = g->forward->values.items[id].args[k];
  if (!g->wanted[target]) return;
  term = guarded_term(g, id, term, dy);
  tile_branch branch = branch_of_term(g, id, k);
  if (chooses_entries(g, branch, target)) {
    term = term_where_taken(g, branch, term);
    branch = any_branch;
  }
  // Where operands broadcast, so does the term, even along axes that it lacks.
  tile_op op = g->forward->values.items[id].op;
  bool broadcasts = tile_elementwise(op) || op == TILE_EXPAND;
  axis_set all = gradient_axes(g, term) | (broadcasts ? gradient_axes(g, id) : 0);
  axis_set lacking = all & ~gradient_axes(g, target);
  add_gradient_term(g, target, tile_reduce(g->program, TILE_SUM, term, lacking),
                    happens_once(g, id), branch);
}

void gradient_give_product(gradient *g, tile_id id, int k, tile_id dy, tile_id factor) {
  tile_id target = g->forward->values.items[id].args[k];
  if (!g->wanted[target]) return;
  bool dot = g->forward->values.items[id].op == TILE_DOT;
  tile_branch branch = branch_of_term(g, id, k);
  if (!dot || needs_guard(g, id) || chooses_entries(g, branch, target)) {
    gradient_give(g, id, k, tile_binary(g->program, TILE_MUL, dy, factor), dy);
    return;
  }
  axis_set lacking = (gradient_axes(g, dy) | gradient_axes(g, factor) | gradient_axes(g, id)) &
                     ~gradient_axes(g, target);
  add_gradient_term(g, target, tile_dot(g->program, dy, factor, lacking), happens_once(g, id),
                    branch);
}

// A sum that is not partial over an axis is counted in its entry 0 alone.
static tile_id make_partial(gradient *g, tile_id x, axis_set missing) {
  tile_program *p = g->program;
  for (int axis = 0; axis < p->axes.count; axis++) {
    if (!axis_in(missing, axis)) continue;
    tile_id zero = tile_number(p, 0);
    tile_id first = tile_binary(p, TILE_EQUAL, tile_leaf(p, TILE_INDEX, axis), zero);
    x = tile_reduce(p, TILE_SUM, tile_select(p, first, x, zero), axis_bit(axis));
  }
  return x;
}

static axis_set partial_of_terms(const cotangent_terms *terms) {
  axis_set all = 0;
  for (int i = 0; i < terms->count; i++) all |= terms->items[i].partial;
  return all;
}

// The sum of terms of one branch: first those that are partial over the same axes.
static tile_id sum_of_branch(gradient *g, const cotangent_terms *terms, axis_set all) {
  tile_id sum = tile_number(g->program, 0);
  bool *taken = ARENA_ARRAY(g->program->arena, bool, terms->count);
  for (int i = 0; i < terms->count; i++) {
    if (taken[i]) continue;
    axis_set partial = terms->items[i].partial;
    tile_id group = tile_number(g->program, 0);
    for (int k = i; k < terms->count; k++) {
      if (terms->items[k].partial != partial) continue;
      taken[k] = true;
      group = tile_binary(g->program, TILE_ADD, group, terms->items[k].value);
    }
    sum = tile_binary(g->program, TILE_ADD, sum, make_partial(g, group, all & ~partial));
  }
  return sum;
}

static cotangent_terms terms_of_branch(gradient *g, const cotangent_terms *terms,
                                       tile_branch branch) {
  cotangent_terms found = {0};
  for (int i = 0; i < terms->count; i++)
    if (is_branch(terms->items[i].branch, branch))
      vec_push(g->program->arena, &found, terms->items[i]);
  return found;
}

// The sum of all terms. Those that count in a branch alone are chosen together: a branch that is not
// taken may have infinite ones.
static tile_id cotangent_sum(gradient *g, const cotangent_terms *terms) {
  axis_set all = partial_of_terms(terms);
  cotangent_terms always = terms_of_branch(g, terms, any_branch);
  tile_id sum = sum_of_branch(g, &always, all);
  bool *taken = ARENA_ARRAY(g->program->arena, bool, g->forward->values.count);
  for (int i = 0; i < terms->count; i++) {
    tile_id condition = terms->items[i].branch.condition;
    if (condition == NO_TILE || taken[condition]) continue;
    taken[condition] = true;
    cotangent_terms rare = terms_of_branch(g, terms, (tile_branch){condition, true}),
                    usual = terms_of_branch(g, terms, (tile_branch){condition, false});
    tile_id chosen = tile_seldom(g->program, condition, sum_of_branch(g, &rare, all),
                                 sum_of_branch(g, &usual, all));
    sum = tile_binary(g->program, TILE_ADD, sum, chosen);
  }
  return sum;
}

// accumulate (p * x) = p * accumulate x for a p that is the same in all runs; what is accumulated
// gets smaller.
static tile_id accumulate(gradient *g, tile_id x) {
  tile_value v = g->program->values.items[x];
  if (v.op == TILE_MUL) {
    for (int i = 0; i < 2; i++) {
      if (section_of(g, v.args[i]) != TILE_PROLOGUE) continue;
      return tile_binary(g->program, TILE_MUL, v.args[i], accumulate(g, v.args[1 - i]));
    }
  }
  return tile_unary(g->program, TILE_ACCUMULATE, x);
}

static tile_id cotangent(gradient *g, tile_id id) {
  tile_id body = cotangent_sum(g, &g->body[id]);
  if (g->sections.items[id] != TILE_PROLOGUE) return body;
  if (tile_is_number(g->program, body, 0)) return cotangent_sum(g, &g->epilogue[id]);
  tile_id sum = accumulate(g, body);
  cotangent_terms terms = g->epilogue[id];
  vec_push(g->program->arena, &terms, (cotangent_term){sum, partial_of(g, sum), any_branch});
  return cotangent_sum(g, &terms);
}

// ---- the sweep -------------------------------------------------------------------------------

static void find_wanted(gradient *g) {
  const tile_program *f = g->forward;
  for (int i = 0; i < f->values.count; i++) {
    const tile_value *v = &f->values.items[i];
    g->wanted[i] = v->op == TILE_ARGUMENT;
    if (!gradient_has_rule(v->op)) continue;
    for (int k = has_condition(v->op); k < tile_arity(v->op); k++)
      g->wanted[i] |= g->wanted[v->args[k]];
  }
}

static tile_role gradient_role(tile_role argument) {
  switch (argument) {
    case TILE_INPUT: return TILE_D_INPUT;
    case TILE_PARAM: return TILE_D_PARAM;
    case TILE_STATE: return TILE_D_STATE;
    default: ICE("autodiff", "a forward program reads a %s", tile_role_text(argument));
  }
}

// ---- cotangents of states that stay partial --------------------------------------------------

// A state may lack an axis of run-time size that values reading it have. That axis must be cut into
// instances, because only compile-time sizes are looped over. Each instance then carries its own
// part of the state's cotangent from run to run. The sweep is linear in the cotangent, so the parts
// are summed at the end. All parts of a tensor or lag buffer do the same.
typedef struct partial_states {
  axis_set *tensors, *lags;
  bool grown;
} partial_states;

static axis_set *partial_of_place(partial_states *s, const tile_place *place) {
  return place->lag >= 0 ? &s->lags[place->lag] : &s->tensors[place->tensor];
}

static partial_states no_partial_states(arena *a, const tile_program *f) {
  int tensors = 0, lags = 0;
  for (int i = 0; i < f->arguments.count + f->results.count; i++) {
    const tile_place *place = i < f->arguments.count
                                  ? &f->arguments.items[i]
                                  : &f->results.items[i - f->arguments.count].place;
    if (place->tensor >= tensors) tensors = place->tensor + 1;
    if (place->lag >= lags) lags = place->lag + 1;
  }
  return (partial_states){ARENA_ARRAY(a, axis_set, tensors), ARENA_ARRAY(a, axis_set, lags), false};
}

static axis_set run_time_axes(const tile_program *p) {
  axis_set axes = 0;
  for (int i = 0; i < p->axes.count; i++)
    if (p->axes.items[i].size == TILE_RUNTIME_SIZE) axes |= axis_bit(i);
  return axes;
}

static void seed(gradient *g, partial_states *partial) {
  const tile_program *f = g->forward;
  for (int i = 0; i < f->results.count; i++) {
    tile_result result = f->results.items[i];
    result.place.role = result.place.role == TILE_OUTPUT ? TILE_D_OUTPUT : TILE_D_NEXT_STATE;
    if (result.place.role == TILE_D_NEXT_STATE)
      result.place.partial = *partial_of_place(partial, &result.place);
    tile_id d = tile_argument(g->program, result.place);
    if (g->wanted[result.value]) add_gradient_term(g, result.value, d, false, any_branch);
  }
}

// The cotangent of a state, as partial as the one that comes from the next run.
static tile_id state_gradient(gradient *g, tile_id d, tile_place *place, partial_states *partial) {
  axis_set found = partial_of(g, d), *carried = partial_of_place(partial, place);
  axis_set more = found & run_time_axes(g->program) & ~*carried;
  if (more) {
    *carried |= more;
    partial->grown = true;
  }
  place->partial = *carried;
  return make_partial(g, d, *carried & ~found);
}

static void add_gradients(gradient *g, const tile_id *leaf, partial_states *partial) {
  for (int i = 0; i < g->forward->arguments.count; i++) {
    tile_place place = g->forward->arguments.items[i];
    tile_id d = leaf[i] == NO_TILE ? tile_number(g->program, 0) : cotangent(g, leaf[i]);
    place.role = gradient_role(place.role);
    if (place.role == TILE_D_STATE) d = state_gradient(g, d, &place, partial);
    tile_add_result(g->program, place, d);
  }
}

// ssd.forward -> ssd.backward
static const char *backward_name(arena *a, const char *name) {
  size_t size = strlen(name), suffix = strlen(".forward");
  if (size > suffix && strcmp(name + size - suffix, ".forward") == 0) size -= suffix;
  return arena_printf(a, "%.*s.backward", (int)size, name);
}

// A value that lacks axes of its condition, or is made once for all runs, stands for entries and runs
// of which some count and some do not: its cotangent sums over those that do.
static tile_branch *branches_of_entries(arena *a, const tile_program *f) {
  tile_branch *branches = tile_branches(a, f);
  const tile_section *sections = tile_sections(a, f);
  for (tile_id id = 0; id < f->values.count; id++) {
    tile_id condition = branches[id].condition;
    if (condition == NO_TILE) continue;
    axis_set lacking = f->values.items[condition].axes & ~f->values.items[id].axes;
    if (lacking || sections[id] == TILE_PROLOGUE) branches[id] = any_branch;
  }
  return branches;
}

static gradient gradient_new(arena *a, const tile_program *f, tile_program *program) {
  int count = f->values.count;
  return (gradient){.forward = f,
                    .program = program,
                    .body = ARENA_ARRAY(a, cotangent_terms, count),
                    .epilogue = ARENA_ARRAY(a, cotangent_terms, count),
                    .wanted = ARENA_ARRAY(a, bool, count),
                    .branches = branches_of_entries(a, f),
                    .guards = ARENA_ARRAY(a, guard, count),
                    .unsafe = ARENA_ARRAY(a, bool, count),
                    .unsafe_on_padding = ARENA_ARRAY(a, bool, count)};
}

static tile_program *derive_once(arena *a, const tile_program *f, partial_states *partial) {
  int count = f->values.count;
  gradient g = gradient_new(a, f, tile_program_like(a, backward_name(a, f->name), f));
  for (int i = 0; i < count; i++)
    if (tile_append_exact(g.program, f->values.items[i]) != i)
      ICE("autodiff", "%s computes %%%d twice", f->name, i);
  update_facts(&g);
  find_wanted(&g);
  find_guards(&g);
  find_unsafe(&g);
  seed(&g, partial);
  tile_id *leaf = ARENA_ARRAY(a, tile_id, f->arguments.count);
  for (int i = 0; i < f->arguments.count; i++) leaf[i] = NO_TILE;
  for (tile_id id = count - 1; id >= 0; id--) {
    const tile_value *v = &f->values.items[id];
    if (v->op == TILE_ARGUMENT) leaf[tile_argument_number(v)] = id;
    if (!g.wanted[id] || !gradient_has_rule(v->op)) continue;
    g.program->where = v->where;
    tile_id dy = cotangent(&g, id);
    if (!tile_is_number(g.program, dy, 0)) gradient_apply_rule(&g, id, dy);
  }
  add_gradients(&g, leaf, partial);
  return g.program;
}

tile_id tile_derivative(tile_program *p, tile_id y, tile_id x, tile_id dy) {
  arena *scratch = arena_new();
  tile_program before = *p;
  gradient g = gradient_new(scratch, &before, p);
  update_facts(&g);
  for (tile_id id = 0; id < before.values.count; id++) g.guards[id] = GUARD_BRANCH;
  find_unsafe(&g);
  g.wanted[x] = true;
  for (tile_id id = x + 1; id <= y; id++) {
    tile_value v = before.values.items[id];
    for (int k = has_condition(v.op); k < tile_arity(v.op) && gradient_has_rule(v.op); k++)
      g.wanted[id] |= g.wanted[v.args[k]];
  }
  add_gradient_term(&g, y, dy, false, any_branch);
  for (tile_id id = y; id > x; id--) {
    tile_id d = g.wanted[id] ? cotangent_sum(&g, &g.body[id]) : tile_number(p, 0);
    if (!tile_is_number(p, d, 0)) gradient_apply_rule(&g, id, d);
  }
  tile_id slope = cotangent_sum(&g, &g.body[x]);
  arena_free(scratch);
  return slope;
}

// Until no cotangent of a state is more partial than the one handed in. There are few states and
// fewer such axes.
static tile_program *derive(arena *a, const tile_program *f) {
  partial_states partial = no_partial_states(a, f);
  for (;;) {
    partial.grown = false;
    tile_program *derived = derive_once(a, f, &partial);
    if (!partial.grown) return derived;
  }
}

tile_program *tile_backward(arena *a, const tile_program *forward) {
  arena *scratch = arena_new();
  tile_program *simple =
      tile_simplify(scratch, tile_without_gradients(scratch, derive(scratch, forward)));
  return tile_program_out_of(scratch, a, tile_restrict(scratch, simple, ~0u));
}

static tile_gradient differentiate(arena *a, const tile_program *forward) {
  if (forward->form == TILE_STEP) return stash_forward_values(a, forward, derive(a, forward));
  tile_program *backward = tile_backward(a, forward);
  tile_program *recompute = tile_restrict(a, forward, 1u << TILE_NEXT_STATE);
  return (tile_gradient){.backward = tile_finish(a, backward),
                         .recompute = tile_finish(a, recompute)};
}

tile_gradient tile_differentiate(arena *a, const tile_program *forward) {
  arena *scratch = arena_new();
  tile_gradient made = differentiate(scratch, forward);
  made.backward = tile_program_copy(a, made.backward);
  made.recompute = tile_program_out_of(scratch, a, made.recompute);
  return made;
}
