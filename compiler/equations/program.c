// A tile program as equations. Index maps cost nothing: they change what stands in brackets.
//
//   %15 [s,G,N] = rename %14 t -> s
//   %16 [t,s,G] = dot %3 %15 over N          A1[t,s,G] = sum[N](C[t] * B[s])
//   %23 [t,s,G] = segment %22           ->   L1[t,s,G] = (s <= t) * exp(sum[s < j <= t](g[j]))
//   ..                                       y[t,G,P] = sum[s](A1[t,s] * L1[t,s] * x[s]) + ..
//
// Rows behind the end of the sequence, which count as 0, are left out, and so is what keeps 0 *
// infinity out of gradients.
#include <stdlib.h>
#include <string.h>

#include "compiler/equations/writer.h"

// What stands in brackets for each axis; NULL: its name.
typedef struct places {
  const char *of[TILE_MAX_AXES];
} places;

static const char *index_text(const tile_writer *w, const places *at, int axis) {
  return at->of[axis] ? at->of[axis] : formula_axis_name(w, axis);
}

static const places named;  // each axis by its name

// "t,s": what stands for these axes.
static const char *axes_text(const tile_writer *w, axis_set axes, const places *at) {
  const char *text = "";
  for (int axis = 0; axis < w->p->axes.count; axis++)
    if (axis_in(axes, axis))
      text = arena_printf(w->a, "%s%s%s", text, *text ? "," : "", index_text(w, at, axis));
  return text;
}

// The time axes of a value, at a place; in step form "t" if it changes from step to step.
static const char *time_index(const tile_writer *w, tile_id id, const places *at) {
  if (w->p->form == TILE_STEP) return w->sections[id] == TILE_BODY ? "t" : "";
  return axes_text(w, step_axes(w, tile_at(w->p, id)->axes), at);
}

// ---- names of tensors ----

static int depth_of_lag(const tile_writer *w, int lag) {
  int depth = 0;
  vec_each(const tile_place, place, w->p->arguments)
    if (place->lag == lag && place->slot >= depth) depth = place->slot + 1;
  return depth;
}

// Which step of its tensor a place is: "t", "t-1" or, of a chunk, "0" and "c"; "" for parameters.
static const char *place_step(const tile_writer *w, const tile_place *place, const places *at) {
  bool chunk = w->p->form == TILE_CHUNK;
  switch (place->role) {
    case TILE_PARAM:
    case TILE_D_PARAM: return "";
    case TILE_STATE:
    case TILE_D_STATE: return chunk ? "0" : "t-1";
    case TILE_NEXT_STATE:
    case TILE_D_NEXT_STATE: return chunk ? "c" : "t";
    default: return chunk ? index_text(w, at, w->p->time_axis) : "t";
  }
}

static const formula *tensor(const tile_writer *w, const tile_place *place, const places *at,
                             bool with_axes) {
  const char *index = place_step(w, place, at), *name = place->name;
  if (place->lag >= 0) {  // x.lag, whose newest entry is x[t-1]
    name = arena_printf(w->a, "%.*s", (int)(strlen(name) - strlen(".lag")), name);
    bool before = place->role == TILE_STATE || place->role == TILE_D_STATE;
    int back = depth_of_lag(w, place->lag) - place->slot - !before;
    index = back ? arena_printf(w->a, "t-%d", back) : "t";
  }
  const char *axes = "";
  for (int i = 0; with_axes && i < place->axis_count; i++)
    axes = arena_printf(w->a, "%s%s%s", axes, i ? "," : "", formula_axis_name(w, place->axes[i]));
  formula *f = formula_left(w->a, name, index, axes);
  f->gradient = place->role == TILE_D_OUTPUT || place->role == TILE_D_NEXT_STATE ||
                place->role >= TILE_D_INPUT;
  if (!is_complex_place(w, place)) return f;
  return formula_call(w->a, place->component ? "im" : "re", (const formula *[]){f}, 1);
}

// ---- formulas ----

static const formula *formula_at(tile_writer *w, tile_id id, const places *at);

// Entry `inner` of block `outer`: "16*o+i"; block t/16, entry t%16 is t.
static const char *split_place(const tile_writer *w, const char *outer, const char *inner,
                               long long size) {
  size_t block = strlen(arena_printf(w->a, "/%lld", size)), length = strlen(outer);
  const char *whole = arena_printf(w->a, "%.*s", length > block ? (int)(length - block) : 0, outer);
  bool same = strcmp(outer, arena_printf(w->a, "%s/%lld", whole, size)) == 0 &&
              strcmp(inner, arena_printf(w->a, "%s%%%lld", whole, size)) == 0;
  if (same) return whole;
  const char *form = strpbrk(outer, "+-/%") ? "%lld*(%s)" : "%lld*%s";
  const char *start = arena_printf(w->a, form, size, outer);
  bool number = outer[strspn(outer, "0123456789")] == 0;
  if (number) start = arena_printf(w->a, "%lld", size * atoll(outer));
  if (strcmp(start, "0") == 0) start = "";
  if (strcmp(inner, "0") == 0 && *start) return start;
  return arena_printf(w->a, "%s%s%s", start, *start ? "+" : "", inner);
}

static const char *part_of_place(const tile_writer *w, const char *place, char sign,
                                 long long size) {
  const char *form = strpbrk(place, "+-*") ? "(%s)%c%lld" : "%s%c%lld";
  return arena_printf(w->a, form, place, sign, size);
}

static const formula *view_at(tile_writer *w, tile_id id, const places *at) {
  const tile_value *v = tile_at(w->p, id);
  places from = *at;
  switch (v->op) {
    case TILE_RENAME: from.of[tile_renamed_from(v)] = index_text(w, at, tile_renamed_to(v)); break;
    case TILE_SPLIT: {
      const char *outer = index_text(w, at, tile_outer_axis(v)),
                 *inner = index_text(w, at, tile_inner_axis(v));
      from.of[tile_whole_axis(v)] =
          split_place(w, outer, inner, formula_axis_size(w, tile_inner_axis(v)));
      break;
    }
    case TILE_SLICE: from.of[tile_entry_axis(v)] = arena_printf(w->a, "%d", tile_entry(v)); break;
    case TILE_JOIN: {
      const char *whole = index_text(w, at, tile_whole_axis(v));
      from.of[tile_outer_axis(v)] =
          part_of_place(w, whole, '/', formula_axis_size(w, tile_inner_axis(v)));
      from.of[tile_inner_axis(v)] =
          part_of_place(w, whole, '%', formula_axis_size(w, tile_inner_axis(v)));
      break;
    }
    case TILE_SHIFT:
      from.of[tile_shift_axis(v)] = arena_printf(
          w->a, "%s%+d", index_text(w, at, tile_shift_axis(v)), -tile_shift_distance(v));
      break;
    default: break;
  }
  return formula_at(w, equation_view(w, id), &from);
}

static const char *new_index(const tile_writer *w) {
  static const char *const letters[] = {"j", "i", "l", "m", "n"};
  return letters[w->depth % 5];
}

// Does an index of another axis read `name`?
static bool is_index_read(const tile_writer *w, const places *at, int axis, const char *name) {
  for (int other = 0; other < w->p->axes.count; other++) {
    if (other == axis || !counts_steps(w, other) || !at->of[other]) continue;
    if (strstr(at->of[other], name)) return true;
  }
  return false;
}

// The operands of a sum over `over`: an axis whose name means something else here gets another.
// Returns what to write below the sum.
static const char *bind_sum_axes(tile_writer *w, axis_set over, places *at) {
  const char *text = "";
  for (int axis = 0; axis < w->p->axes.count; axis++) {
    if (!axis_in(over, axis)) continue;
    const char *name = formula_axis_name(w, axis);
    if (counts_steps(w, axis) && is_index_read(w, at, axis, name)) {
      name = new_index(w);
      w->depth++;
    }
    at->of[axis] = counts_steps(w, axis) ? name : NULL;
    text = arena_printf(w->a, "%s%s%s", text, *text ? "," : "", name);
  }
  return text;
}

static const formula *reduction_at(tile_writer *w, tile_id id, const places *at) {
  static const char *const words[] = {
      [TILE_SUM] = "sum", [TILE_DOT] = "sum", [TILE_MAX_OVER] = "max", [TILE_MIN_OVER] = "min"};
  const tile_value *v = tile_at(w->p, id);
  int depth = w->depth;
  places inner = *at;
  const char *index = bind_sum_axes(w, v->over, &inner);
  const formula *x = formula_at(w, v->args[0], &inner);
  if (v->op == TILE_DOT)
    x = formula_binary(w->a, FORMULA_MULTIPLY, x, formula_at(w, v->args[1], &inner));
  w->depth = depth;
  return formula_over(w->a, words[v->op], index, x);
}

// PREFIX, SEGMENT, SEGMENT_ADJOINT: sums along time with an index of their own.
static const formula *along_at(tile_writer *w, tile_id id, const places *at) {
  const tile_value *v = tile_at(w->p, id);
  const char *j = new_index(w), *t = index_text(w, at, tile_step_axis(v)), *range;
  int depth = w->depth;
  places inner = *at;
  w->depth++;
  inner.of[tile_step_axis(v)] = j;
  if (v->op == TILE_PREFIX) {
    const char *sign = tile_is_from_end(v)    ? (tile_is_exclusive(v) ? ">" : ">=")
                       : tile_is_exclusive(v) ? "<"
                                              : "<=";
    range = arena_printf(w->a, "%s %s %s", j, sign, t);
    if (tile_is_from_end(v) && tile_step_axis(v) != w->p->time_axis)  // to the end of a block
      range = arena_printf(w->a, "%s %s %s < %lld", t, tile_is_exclusive(v) ? "<" : "<=", j,
                           formula_axis_size(w, tile_step_axis(v)));
  } else {
    bool adjoint = v->op == TILE_SEGMENT_ADJOINT;
    const char *s = adjoint ? bind_sum_axes(w, axis_bit(tile_other_step_axis(v)), &inner)
                            : index_text(w, at, tile_other_step_axis(v));
    range =
        adjoint
            ? arena_printf(w->a, "%s %s %s, %s < %s", j, tile_is_exclusive(v) ? ">" : ">=", t, s, t)
            : arena_printf(w->a, "%s < %s %s %s", s, j, tile_is_exclusive(v) ? "<" : "<=", t);
  }
  const formula *sum = formula_over(w->a, "sum", range, formula_at(w, v->args[0], &inner));
  w->depth = depth;
  return sum;
}

static const formula *causal(const tile_writer *w, const tile_value *v, const places *at) {
  return formula_compare(w->a, tile_is_exclusive(v) ? "<" : "<=",
                         formula_symbol(w->a, index_text(w, at, tile_other_step_axis(v)), NULL),
                         formula_symbol(w->a, index_text(w, at, tile_step_axis(v)), NULL));
}

static const formula *select_at(const tile_writer *w, const formula *const *x) {
  if (formula_is_number(x[2], 0) && x[0]->kind == FORMULA_COMPARE)
    return formula_binary(w->a, FORMULA_MULTIPLY, x[0], x[1]);
  return formula_call(w->a, "where", x, 3);
}

// X[t] = R[t] + sum of A[t,s] X[s] over s < t, which its own equation says.
static const formula *solve_at(tile_writer *w, tile_id id, const places *at) {
  const tile_value *v = tile_at(w->p, id);
  const char *t = index_text(w, at, tile_row_axis(v)), *s = index_text(w, at, tile_column_axis(v));
  const formula *x = formula_symbol(w->a, w->names[id], s);
  places entry = *at;
  if (tile_is_transposed(v)) {  // of A[s,t]
    entry.of[tile_row_axis(v)] = s;
    entry.of[tile_column_axis(v)] = t;
  }
  const formula *a = formula_at(w, v->args[0], &entry);
  const formula *sum = formula_over(
      w->a, "sum", arena_printf(w->a, "%s %s %s", s, tile_is_transposed(v) ? ">" : "<", t),
      formula_binary(w->a, FORMULA_MULTIPLY, a, x));
  return formula_binary(w->a, FORMULA_ADD, formula_at(w, v->args[1], at), sum);
}

static const formula *leaf_at(const tile_writer *w, tile_id id, const places *at) {
  const tile_value *v = tile_at(w->p, id);
  switch (v->op) {
    case TILE_NUMBER: return formula_number(w->a, v->number);
    case TILE_AXIS_SIZE:
      return formula_symbol(w->a, formula_axis_name(w, tile_index_axis(v)), NULL);
    case TILE_INDEX:
      return counts_steps(w, tile_index_axis(v))
                 ? formula_symbol(w->a, index_text(w, at, tile_index_axis(v)), NULL)
                 : formula_symbol(w->a, "index", formula_axis_name(w, tile_index_axis(v)));
    case TILE_ARGUMENT: return tensor(w, tile_place_of(w->p, v), at, false);
    case TILE_CAUSAL: return causal(w, v, at);
    case TILE_VALID: return formula_number(w->a, 1);
    case TILE_AT_END: {
      const formula *end = formula_symbol(w->a, "c", NULL);
      if (tile_steps_before_end(v))
        end = formula_binary(w->a, FORMULA_SUBTRACT, end,
                             formula_number(w->a, tile_steps_before_end(v)));
      return formula_compare(w->a, "==", formula_symbol(w->a, time_index(w, id, at), NULL), end);
    }
    default: return formula_symbol(w->a, tile_op_text(v->op), NULL);
  }
}

static const formula *changed_at(const tile_writer *w, const tile_value *v, const places *at,
                                 const formula *x) {
  const char *from = formula_axis_name(w, v->index);
  switch (v->op) {
    case TILE_RENAME:
      return formula_changed(
          w->a, arena_printf(w->a, "{%s -> %s}", from, formula_axis_name(w, tile_renamed_to(v))),
          x);
    case TILE_SLICE:
      return formula_changed(w->a, arena_printf(w->a, "[%s = %d]", from, tile_entry(v)), x);
    case TILE_PLACE: {
      const formula *index = counts_steps(w, tile_entry_axis(v))
                                 ? formula_symbol(w->a, index_text(w, at, tile_entry_axis(v)), NULL)
                                 : formula_symbol(w->a, "index", from);
      const formula *here = formula_compare(w->a, "==", index, formula_number(w->a, tile_entry(v)));
      return formula_binary(w->a, FORMULA_MULTIPLY, here, x);
    }
    default: return formula_call(w->a, tile_op_text(v->op), &x, 1);
  }
}

static const formula *by_operation(tile_writer *w, const tile_value *v, const places *at,
                                   const formula *const *x) {
  switch (v->op) {
    case TILE_EXP2: return formula_binary(w->a, FORMULA_POWER, formula_number(w->a, 2), x[0]);
    case TILE_SQRT_KINK: return formula_call(w->a, "sqrt", x, 1);
    case TILE_EQUAL: {
      bool first = x[0]->kind == FORMULA_NUMBER;
      return formula_compare(w->a, "==", x[first], x[!first]);
    }
    case TILE_SELECT: return select_at(w, x);
    case TILE_STOP: return formula_call(w->a, "stop_gradient", x, 1);
    case TILE_FIRST_MAX: return formula_over(w->a, "argmax", axes_text(w, v->over, &named), x[0]);
    case TILE_FIRST_MIN: return formula_over(w->a, "argmin", axes_text(w, v->over, &named), x[0]);
    case TILE_ACCUMULATE:
      return formula_over(w->a, "sum", w->p->form == TILE_CHUNK ? "chunks" : "steps", x[0]);
    default:
      if (tile_op_is(v->op, TILE_MOVES_INDEX)) return changed_at(w, v, at, x[0]);
      return formula_operation(w->a, tile_op_text(v->op), x, tile_arity(v->op));
  }
}

// The right side of the equation of a value.
static const formula *definition(tile_writer *w, tile_id id, const places *at) {
  const tile_value *v = tile_at(w->p, id);
  if (tile_arity(v->op) == 0) return leaf_at(w, id, at);
  if (is_view_value(w, id)) return view_at(w, id, at);
  if (v->op == TILE_PREFIX || v->op == TILE_SEGMENT || v->op == TILE_SEGMENT_ADJOINT)
    return along_at(w, id, at);
  if (v->op == TILE_SOLVE) return solve_at(w, id, at);
  bool reduces = v->op == TILE_SUM || v->op == TILE_DOT;
  if (reduces || tile_op_is(v->op, TILE_PICKS)) return reduction_at(w, id, at);
  const formula *x[3];
  for (int k = 0; k < tile_arity(v->op); k++) x[k] = formula_at(w, v->args[k], at);
  return by_operation(w, v, at, x);
}

static const formula *formula_at(tile_writer *w, tile_id id, const places *at) {
  if (w->names[id]) return formula_symbol(w->a, w->names[id], time_index(w, id, at));
  return definition(w, id, at);
}

// ---- values that the forward program has ----

static void know_forward(tile_writer *w, const tile_writer *f) {
  tile_id *image = tile_find_equal(w->a, f->p, w->p);
  for (tile_id id = 0; id < w->p->values.count; id++) {
    w->derived[id] = image[id] == NO_TILE;
    if (w->derived[id] || !f->names[image[id]]) continue;
    w->names[id] = f->names[image[id]];
    w->known[id] = true;
  }
  for (int i = 0; i < f->taken.count; i++) vec_push(w->a, &w->taken, f->taken.items[i]);
}

// ---- the list ----

// The gradient by a lag buffer's entry may be handed through.
static bool says_nothing(const formula *left, const formula *right) {
  bool symbols = left->kind == FORMULA_SYMBOL && right->kind == FORMULA_SYMBOL;
  return symbols && left->gradient == right->gradient && strcmp(left->name, right->name) == 0 &&
         left->index && right->index && strcmp(left->index, right->index) == 0;
}

static void add_equation(tile_writer *w, const formula *left, const formula *right) {
  if (!says_nothing(left, right)) vec_push(w->a, &w->list, ((equation){left, right}));
}

static bool is_shown_place(const tile_place *place) {
  return place->lag < 0 || place->role != TILE_NEXT_STATE;  // how a lag buffer moves is known
}

static tile_writer writer_for(arena *a, const tile_program *p, const tile_writer *forward) {
  tile_writer w = {.a = a, .p = p, .sections = tile_sections(a, p)};
  int count = p->values.count;
  w.names = ARENA_ARRAY(a, const char *, count);
  w.known = ARENA_ARRAY(a, bool, count);
  w.derived = ARENA_ARRAY(a, bool, count);
  w.uses = ARENA_ARRAY(a, int, count);
  w.weight = ARENA_ARRAY(a, int, count);
  w.results = ARENA_ARRAY(a, int, count);
  for (int i = 0; i < count; i++) w.results[i] = -1;
  if (forward) know_forward(&w, forward);
  name_values(&w);
  return w;
}

equation_list equations_of_program(arena *a, const tile_program *p, const tile_program *forward) {
  tile_writer f, w;
  if (forward) f = writer_for(a, forward, NULL);
  w = writer_for(a, p, forward ? &f : NULL);
  for (tile_id id = 0; id < p->values.count; id++) {
    if (!w.uses[id] || !w.names[id] || w.known[id]) continue;
    axis_set axes = tile_at(w.p, id)->axes;
    const char *body_axes = axes_text(&w, axes & ~step_axes(&w, axes), &named);
    const formula *left = formula_left(a, w.names[id], time_index(&w, id, &named), body_axes);
    add_equation(&w, left, definition(&w, id, &named));
  }
  for (int i = 0; i < p->results.count; i++) {
    const tile_result *r = &p->results.items[i];
    if (is_shown_place(&r->place) && w.results[r->value] != i)
      add_equation(&w, tensor(&w, &r->place, &named, true), formula_at(&w, r->value, &named));
  }
  return w.list;
}
