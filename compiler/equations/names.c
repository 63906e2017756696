// Which values of a tile program have equations of their own, and their names: results that are read,
// values with names in the source, sums along time and masks of decays, and the heaviest operands of
// what would be too long.
#include <string.h>

#include "compiler/equations/writer.h"

enum { LONGEST = 16 };  // symbols of an equation

// ---- views ----

// select valid x 0, or 1 where decays are padded, or a state before the chunk
static bool is_padded(const tile_writer *w, const tile_value *v) {
  return tile_at(w->p, v->args[0])->op == TILE_VALID;
}

// select (0 == dy) 0 term, where the term has the factor dy
static bool is_guarded(const tile_writer *w, const tile_value *v) {
  const tile_value *condition = tile_at(w->p, v->args[0]);
  if (tile_at(w->p, v->args[2])->op == TILE_NUMBER) return false;
  return condition->op == TILE_EQUAL && tile_is_number(w->p, condition->args[0], 0) &&
         tile_is_number(w->p, v->args[1], 0);
}

static bool is_comparison_of_leaves(const tile_writer *w, const tile_value *v) {
  return tile_op_is(v->op, TILE_COMPARES) && !tile_arity(tile_at(w->p, v->args[0])->op) &&
         !tile_arity(tile_at(w->p, v->args[1])->op);
}

// sum (select (index == 0) x 0) over an axis that x lacks: x, counted in one instance
static bool is_counted_once(const tile_writer *w, const tile_value *v) {
  const tile_value *choice = tile_at(w->p, v->args[0]);
  if (v->op != TILE_SUM || choice->op != TILE_SELECT || !tile_is_number(w->p, choice->args[2], 0))
    return false;
  const tile_value *first = tile_at(w->p, choice->args[0]);
  if (first->op != TILE_EQUAL || !is_comparison_of_leaves(w, first)) return false;
  bool zero = tile_is_number(w->p, first->args[0], 0) || tile_is_number(w->p, first->args[1], 0);
  return zero && first->axes == v->over && !(tile_at(w->p, choice->args[1])->axes & v->over);
}

// Values that are their operand seen otherwise.
bool is_view_value(const tile_writer *w, tile_id id) {
  const tile_value *v = tile_at(w->p, id);
  switch (v->op) {
    case TILE_EXPAND: return true;
    case TILE_RENAME:
      return counts_steps(w, tile_renamed_from(v)) && counts_steps(w, tile_renamed_to(v));
    case TILE_SPLIT:
    case TILE_JOIN: return counts_steps(w, tile_whole_axis(v));
    case TILE_SLICE: return counts_steps(w, tile_entry_axis(v));
    case TILE_SHIFT: return counts_steps(w, tile_shift_axis(v));
    case TILE_SUM: return is_counted_once(w, v);
    case TILE_SELECT: return is_padded(w, v) || (w->derived[id] && is_guarded(w, v));
    default: return false;
  }
}

tile_id equation_view(const tile_writer *w, tile_id id) {
  const tile_value *v = tile_at(w->p, id);
  if (v->op == TILE_SUM) return tile_at(w->p, v->args[0])->args[1];
  return v->args[v->op != TILE_SELECT ? 0 : is_padded(w, v) ? 1 : 2];
}

bool is_complex_place(const tile_writer *w, const tile_place *place) {
  for (int i = 0; i < w->p->arguments.count + w->p->results.count; i++) {
    const tile_place *other = i < w->p->arguments.count
                                  ? &w->p->arguments.items[i]
                                  : &w->p->results.items[i - w->p->arguments.count].place;
    if (other->tensor == place->tensor && other->lag == place->lag && other->component) return true;
  }
  return false;
}

// ---- names ----

static bool is_formula_name_taken(const tile_writer *w, const char *name) {
  for (int i = 0; i < w->taken.count; i++)
    if (strcmp(w->taken.items[i], name) == 0) return true;
  for (int axis = 0; axis < w->p->axes.count; axis++)
    if (strcmp(formula_axis_name(w, axis), name) == 0) return true;
  for (int i = 0; i < w->p->arguments.count; i++)
    if (strcmp(w->p->arguments.items[i].name, name) == 0) return true;
  for (int i = 0; i < w->p->results.count; i++)
    if (strcmp(w->p->results.items[i].place.name, name) == 0) return true;
  return false;
}

static bool has_pairs_of_steps(const tile_writer *w, tile_id id) {
  axis_set steps = step_axes(w, tile_at(w->p, id)->axes);
  return steps & (steps - 1);
}

// exp of sums over the steps between two, or 0: what a decay leaves from step to step.
static bool is_decay_mask(const tile_writer *w, tile_id id) {
  const tile_value *v = tile_at(w->p, id);
  return v->op == TILE_SELECT && tile_at(w->p, v->args[0])->op == TILE_CAUSAL &&
         tile_at(w->p, v->args[1])->op == TILE_EXP;
}

// A letter that tells what it is: g what sums along time add up, L masks of decays, A other pairs
// of steps, X solutions.
static const char *formula_letter(const tile_writer *w, tile_id id, bool summed_along_time) {
  if (tile_at(w->p, id)->op == TILE_SOLVE) return "X";
  if (summed_along_time) return "g";
  if (is_decay_mask(w, id)) return "L";
  return has_pairs_of_steps(w, id) ? "A" : "u";
}

static bool is_summed_along_time(const tile_writer *w, tile_id id) {
  for (tile_id user = id + 1; user < w->p->values.count; user++) {
    const tile_value *v = tile_at(w->p, user);
    bool along = v->op == TILE_PREFIX || v->op == TILE_SEGMENT;
    tile_id x = along ? v->args[0] : NO_TILE;
    while (x != NO_TILE && x != id && is_view_value(w, x)) x = equation_view(w, x);
    if (x == id) return true;
  }
  return false;
}

static void name_tile(tile_writer *w, tile_id id) {
  const char *name = tile_at(w->p, id)->name;
  w->weight[id] = 1;
  if (name && !is_formula_name_taken(w, name)) {
    w->names[id] = name;
    vec_push(w->a, &w->taken, name);
    return;
  }
  const char *letter = formula_letter(w, id, is_summed_along_time(w, id));
  for (int number = 1; !w->names[id]; number++) {
    name = number == 1 ? letter : arena_printf(w->a, "%s%d", letter, number);
    if (is_formula_name_taken(w, name)) continue;
    w->names[id] = name;
    vec_push(w->a, &w->taken, name);
  }
}

static bool may_have_name(const tile_writer *w, tile_id id) {
  const tile_value *v = tile_at(w->p, id);
  if (!tile_arity(v->op) || is_comparison_of_leaves(w, v)) return false;
  return !is_view_value(w, id) && !w->names[id];
}

// Operands behind views.
static tile_id printed_operand(const tile_writer *w, tile_id id, int k) {
  tile_id x = tile_at(w->p, id)->args[k];
  while (is_view_value(w, x) && !w->names[x]) x = equation_view(w, x);
  return x;
}

static void weigh_value(tile_writer *w, tile_id id) {
  const tile_value *v = tile_at(w->p, id);
  w->weight[id] = tile_arity(v->op) ? 0 : 1;
  if (is_view_value(w, id)) {
    w->weight[id] = w->weight[equation_view(w, id)];
    return;
  }
  for (int k = 0; k < tile_arity(v->op); k++) w->weight[id] += w->weight[v->args[k]];
}

// Names the heaviest operands until the equation is short.
static void shorten(tile_writer *w, tile_id id) {
  weigh_value(w, id);
  while (w->weight[id] > LONGEST) {
    tile_id heaviest = NO_TILE;
    for (int k = 0; k < tile_arity(tile_at(w->p, id)->op); k++) {
      tile_id x = printed_operand(w, id, k);
      if (may_have_name(w, x) && (heaviest == NO_TILE || w->weight[x] > w->weight[heaviest]))
        heaviest = x;
    }
    if (heaviest == NO_TILE || w->weight[heaviest] <= 1) return;
    name_tile(w, heaviest);
    for (tile_id x = heaviest + 1; x <= id; x++)
      if (!w->names[x]) weigh_value(w, x);
  }
}

static void count_tile_uses(tile_writer *w) {
  for (int i = 0; i < w->p->results.count; i++) w->uses[w->p->results.items[i].value]++;
  for (tile_id id = w->p->values.count - 1; id >= 0; id--) {
    const tile_value *v = tile_at(w->p, id);
    if (!w->uses[id]) continue;
    if (is_view_value(w, id)) {
      w->uses[equation_view(w, id)] += w->uses[id];
      continue;
    }
    for (int k = 0; k < tile_arity(v->op); k++) w->uses[v->args[k]]++;
  }
}

// A value whose only use is a result is written as that result.
static bool is_result_alone(const tile_writer *w, tile_id id) {
  if (w->uses[id] != 1) return false;
  for (int i = 0; i < w->p->results.count; i++)
    if (w->p->results.items[i].value == id) return true;
  return false;
}

// A result that other values read as well is called by its tensor, where that means this step.
static void name_results(tile_writer *w) {
  for (int i = 0; i < w->p->results.count; i++) {
    const tile_result *r = &w->p->results.items[i];
    tile_role role = r->place.role;
    bool here = role == TILE_OUTPUT || (role == TILE_NEXT_STATE && w->p->form == TILE_STEP);
    if (!here || r->place.lag >= 0 || is_complex_place(w, &r->place)) continue;
    if (w->names[r->value] || w->uses[r->value] < 2 || !may_have_name(w, r->value)) continue;
    w->names[r->value] = r->place.name;
    w->results[r->value] = i;
  }
}

static void choose_names(tile_writer *w) {
  for (tile_id id = 0; id < w->p->values.count; id++) {
    const tile_value *v = tile_at(w->p, id);
    if (!w->uses[id]) continue;
    shorten(w, id);
    if (w->names[id]) w->weight[id] = 1;
    if (!may_have_name(w, id) || is_result_alone(w, id)) continue;
    bool told = v->name && w->weight[id] > 1;
    bool known_kind = v->op == TILE_SOLVE || is_decay_mask(w, id) ||
                      (v->op == TILE_DOT && has_pairs_of_steps(w, id));
    if (told || known_kind || (w->uses[id] > 1 && w->weight[id] > 1)) name_tile(w, id);
  }
}

void name_values(tile_writer *w) {
  count_tile_uses(w);
  name_results(w);
  choose_names(w);
}
