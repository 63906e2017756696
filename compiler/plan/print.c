// A plan as text: what runs, in order, and where its numbers lie.
//
//    2 body product 64 x 16 x 64 (t V s) mma: %12 = dot[s](%9, v{t->s}) -> b3
//    3 body points [t 64,V 16]: %13 y = %12 * %7; store output y
//   b3 %12 [t 64,V 16] f32, 4096 bytes in shared memory at 8192, nests 2 .. 3
//
// One line is one nest or one buffer. What is written out in an operand is computed where it is
// read; `%9` was made before. `{t->s}` behind an operand says how its index moves, which costs
// nothing.
#include "compiler/base/text.h"
#include "compiler/plan/planner.h"
#include "compiler/plan/tensor_cores.h"

typedef struct printer {
  FILE *out;
  const mapping *m;
  const plan *p;
} printer;

static const char *planned_axis_name(const printer *o, int axis) {
  return o->p->program->axes.items[axis].name;
}

static void put_size(printer *o, int axis) {
  int64_t size = plan_axis_size(o->p->program, axis);
  if (size == TILE_RUNTIME_SIZE)
    fprintf(o->out, "%s", planned_axis_name(o, axis));
  else
    fprintf(o->out, "%s %lld", planned_axis_name(o, axis), (long long)size);
}

// Time first, as the text of a tile program has it.
static void put_axis_set(printer *o, axis_set axes) {
  const tile_program *program = o->p->program;
  const char *separator = "";
  fprintf(o->out, "[");
  for (int pass = 0; pass < 2; pass++) {
    for (int axis = 0; axis < program->axes.count; axis++) {
      if (!axis_in(axes, axis) || (program->axes.items[axis].body_axis < 0) != (pass == 0))
        continue;
      fprintf(o->out, "%s", separator);
      put_size(o, axis);
      separator = ",";
    }
  }
  fprintf(o->out, "]");
}

static void put_planned_over(printer *o, axis_set over) {
  const char *separator = "";
  fprintf(o->out, "[");
  for (int axis = 0; axis < o->p->program->axes.count; axis++) {
    if (!axis_in(over, axis)) continue;
    fprintf(o->out, "%s%s", separator, planned_axis_name(o, axis));
    separator = ",";
  }
  fprintf(o->out, "]");
}

static void put_planned_place(printer *o, const tile_place *place) {
  fprintf(o->out, "%s", tile_role_text(place->role));
  if (place->name) fprintf(o->out, " %s", place->name);
  if (!place->name && place->stash >= 0) fprintf(o->out, " %d", place->stash);
  if (place->lag >= 0) fprintf(o->out, "[%d]", place->slot);
  if (place->component) fprintf(o->out, ".im");
  if (place->ahead) fprintf(o->out, " ahead");
  if (place->transfer) fprintf(o->out, " transfer");
}

// ---- operands --------------------------------------------------------------------------------

static bool is_plain(const tile_place *place) {
  bool own = place->role == TILE_INPUT || place->role == TILE_PARAM;
  return own && place->name && !place->component && !place->ahead && place->lag < 0;
}

// What the program reads: `x` of the inputs and parameters, else with its role.
static void put_argument(printer *o, const tile_place *place) {
  if (is_plain(place))
    fprintf(o->out, "%s", place->name);
  else
    put_planned_place(o, place);
}

static void put_leaf(printer *o, const tile_value *v) {
  switch (v->op) {
    case TILE_NUMBER: print_number(o->out, v->number); break;
    case TILE_ARGUMENT: put_argument(o, tile_place_of(o->p->program, v)); break;
    case TILE_AXIS_SIZE:
    case TILE_INDEX:
      fprintf(o->out, "%s(%s)", tile_op_text(v->op), planned_axis_name(o, tile_index_axis(v)));
      break;
    case TILE_CAUSAL:
      fprintf(o->out, "%s %s %s", planned_axis_name(o, tile_step_axis(v)),
              tile_is_exclusive(v) ? ">" : ">=", planned_axis_name(o, tile_other_step_axis(v)));
      break;
    case TILE_AT_END: fprintf(o->out, "at_end(%d)", tile_steps_before_end(v)); break;
    default: fprintf(o->out, "%s", tile_op_text(v->op)); break;
  }
}

static void put_map(printer *o, const tile_value *v) {
  const char *index = planned_axis_name(o, v->index);
  switch (v->op) {
    case TILE_RENAME:
      fprintf(o->out, "{%s->%s}", index, planned_axis_name(o, tile_renamed_to(v)));
      break;
    case TILE_SLICE: fprintf(o->out, "{%s=%d}", index, tile_entry(v)); break;
    case TILE_PLACE: fprintf(o->out, "{at %s=%d}", index, tile_entry(v)); break;
    case TILE_SPLIT:
      fprintf(o->out, "{%s->%s,%s}", index, planned_axis_name(o, tile_outer_axis(v)),
              planned_axis_name(o, tile_inner_axis(v)));
      break;
    case TILE_JOIN:
      fprintf(o->out, "{%s,%s->%s}", planned_axis_name(o, tile_outer_axis(v)),
              planned_axis_name(o, tile_inner_axis(v)), index);
      break;
    case TILE_SHIFT: fprintf(o->out, "{%s by %d}", index, tile_shift_distance(v)); break;
    default: break;  // broadcasts and stops are what lies below them
  }
}

static const char *infix(tile_op op) {
  switch (op) {
    case TILE_ADD: return "+";
    case TILE_SUB: return "-";
    case TILE_MUL: return "*";
    case TILE_DIV: return "/";
    case TILE_LESS: return "<";
    case TILE_LESS_EQUAL: return "<=";
    case TILE_EQUAL: return "==";
    default: return NULL;
  }
}

static void put_planned_operand(printer *o, tile_id id);
static void put_planned_operation(printer *o, const tile_value *v);

// Inside brackets already.
static void put_alone(printer *o, tile_id id) {
  const tile_value *v = tile_at(o->p->program, id);
  if (o->p->values[id].inlined)
    put_planned_operation(o, v);
  else if (plan_at_hand(o->p, id) && !tile_arity(v->op))
    put_leaf(o, v);
  else
    put_planned_operand(o, id);
}

// More than one word, which brackets hold together.
static bool value_has_words(const printer *o, const tile_value *v) {
  if (v->op == TILE_CAUSAL) return true;
  if (v->op != TILE_ARGUMENT) return false;
  const tile_place *place = tile_place_of(o->p->program, v);
  return !is_plain(place);
}

static void put_op_call(printer *o, const tile_value *v) {
  fprintf(o->out, "%s", tile_op_text(v->op));
  if (v->over) put_planned_over(o, v->over);
  bool pairs = v->op == TILE_SEGMENT || v->op == TILE_SEGMENT_ADJOINT;
  if (pairs || tile_is_running(v->op) || tile_is_scan(v->op)) {
    bool exclusive = tile_is_exclusive(v), reverse = !pairs && tile_is_from_end(v);
    fprintf(o->out, "[%s%s%s]", planned_axis_name(o, tile_step_axis(v)),
            exclusive ? " exclusive" : "", reverse ? " reverse" : "");
  }
  fprintf(o->out, "(");
  for (int k = 0; k < tile_arity(v->op); k++) {
    if (k) fprintf(o->out, ", ");
    put_alone(o, v->args[k]);
  }
  fprintf(o->out, ")");
}

static void put_planned_operation(printer *o, const tile_value *v) {
  if (!infix(v->op)) {
    put_op_call(o, v);
    return;
  }
  put_planned_operand(o, v->args[0]);
  fprintf(o->out, " %s ", infix(v->op));
  put_planned_operand(o, v->args[1]);
}

// What is at hand is written out, what a nest makes is named.
static void put_planned_operand(printer *o, tile_id id) {
  const tile_value *v = tile_at(o->p->program, id);
  if (!plan_at_hand(o->p, id)) {
    fprintf(o->out, "%%%d", (int)id);
  } else if (!tile_arity(v->op)) {
    if (value_has_words(o, v)) fprintf(o->out, "(");
    put_leaf(o, v);
    if (value_has_words(o, v)) fprintf(o->out, ")");
  } else if (plan_is_inline(v->op)) {
    put_planned_operand(o, v->args[0]);
    put_map(o, v);
  } else {
    if (infix(v->op)) fprintf(o->out, "(");
    put_planned_operation(o, v);
    if (infix(v->op)) fprintf(o->out, ")");
  }
}

// ---- nests -----------------------------------------------------------------------------------

// A sum to which a product is added has memory for what is there before.
static bool is_in_buffer(const plan_value *pv) {
  return pv->into == NO_TILE && pv->buffer >= 0 && (pv->held == HELD_BUFFER || pv->dot != NO_TILE);
}

// Where a value goes when it is made.
static void put_target(printer *o, const plan_value *pv) {
  if (pv->into != NO_TILE) fprintf(o->out, " -> added to %%%d", (int)pv->into);
  if (is_in_buffer(pv)) fprintf(o->out, " -> b%d", pv->buffer);
  if (pv->held == HELD_SCALAR) fprintf(o->out, " -> variable");
}

static void put_planned_value(printer *o, int n, tile_id id) {
  const tile_value *v = tile_at(o->p->program, id);
  const plan_value *pv = &o->p->values[id];
  fprintf(o->out, "%%%d", (int)id);
  if (v->name) fprintf(o->out, " %s", v->name);
  if (n != pv->nest) {  // the product comes in a later nest
    fprintf(o->out, " begins as ");
    put_planned_operand(o, plan_begins_as(o->p, id));
  } else {
    fprintf(o->out, " = ");
    put_planned_operation(o, v);
  }
  put_target(o, pv);
}

// What the product of the nest is added to, where no nest lists it: its first operand is made here,
// too.
static tile_id added_sum(const plan *p, const plan_nest *nest) {
  tile_id sum = nest->kind == NEST_DOT ? p->values[nest->values.items[0]].into : NO_TILE;
  for (int i = 0; i < nest->values.count; i++)
    if (nest->values.items[i] == sum) return NO_TILE;
  return nest->two ? sum : NO_TILE;
}

static const char *core_text(const printer *o, const plan_dot *dot, bool steps) {
  const mapping *m = o->m;
  if (steps && m->kind == MAP_LANES) return "over the steps of a chunk";
  if (m->kind == MAP_LANES)
    return dot->along   ? "vectors along the depth"
           : dot->pairs ? "vectors along the columns, pairs of bf16"
                        : "vectors along the columns";
  if (dot->wgmma) return "wgmma";
  if (!plan_is_mma(m, o->p->program, dot)) return "multiply-adds";
  return number_is_narrow(m->dtype) ? "mma" : m->tf32 ? "mma tf32" : "mma 3 x tf32";
}

static void put_copy(printer *o, tile_id operand, int buffer) {
  fprintf(o->out, ", ");
  put_planned_operand(o, operand);
  fprintf(o->out, " from b%d", buffer);
}

static void put_core(printer *o, const plan_nest *nest, const plan_dot *dot) {
  if (o->m->kind != MAP_BLOCK || dot->i >= 0) {
    fprintf(o->out, ", %s", core_text(o, dot, nest->region == REGION_STEPS));
    return;
  }
  matrix_vector g = plan_matrix_vector(o->m, o->p, nest->values.items[0], dot);
  if (g.vectors == 1) fprintf(o->out, ", a matrix by a vector");
  if (g.vectors > 1) fprintf(o->out, ", a matrix by %d vectors", g.vectors);
  if (g.mma) fprintf(o->out, ", mma");
  if (dot->held_b) fprintf(o->out, " from registers");
  if (g.mma && g.splits > 1) fprintf(o->out, ", %lld warps for each sum", (long long)g.splits);
}

static void put_dot(printer *o, const plan_nest *nest, const plan_dot *dot) {
  const int axes[] = {dot->i, dot->j, dot->k};
  const char *separator = "";
  for (int i = 0; i < 3; i++) {
    if (axes[i] < 0) continue;
    int64_t size = plan_axis_size(o->p->program, axes[i]);
    if (size == TILE_RUNTIME_SIZE)
      fprintf(o->out, "%s%s ?", separator, planned_axis_name(o, axes[i]));
    if (size != TILE_RUNTIME_SIZE)
      fprintf(o->out, "%s%s %lld", separator, planned_axis_name(o, axes[i]), (long long)size);
    separator = " x ";
  }
  put_core(o, nest, dot);
  if (dot->pack_a >= 0) put_copy(o, dot->a, dot->pack_a);
  if (dot->pack_b >= 0) put_copy(o, dot->b, dot->pack_b);
  if (dot->pack_c >= 0) fprintf(o->out, ", turned from b%d", dot->pack_c);
}

const char *plan_nest_text(nest_kind kind) {
  static const char *const kinds[] = {"points",       "copy", "product", "solve",
                                      "prefix",       "scan", "segment", "segment_adjoint",
                                      "first_extreme"};
  return kinds[kind];
}

// Host: points of the axis that is contiguous in buffers are computed together. One axis alone can
// be no other.
static void put_vectors(printer *o, const plan_nest *nest) {
  int along = -1;
  bool several = nest->axes & (nest->axes - 1);
  if (o->m->kind != MAP_LANES || nest->kind != NEST_POINTS || nest->lane || !several) return;
  for (int axis = 0; axis < o->p->program->axes.count; axis++)
    if (axis_in(nest->axes, axis) && (along < 0 || o->m->rank[axis] > o->m->rank[along]))
      along = axis;
  fprintf(o->out, ", vectors along %s", planned_axis_name(o, along));
}

// GPU: who has a point, where that is not a thread alone.
static void put_threads(printer *o, const plan_nest *nest) {
  const plan_threads *t = &nest->threads;
  if (t->lanes == PLAN_ALL_THREADS) fprintf(o->out, ", all threads for each sum");
  if (t->lanes > 1)
    fprintf(o->out, ", %d lanes%s for each sum", t->lanes, t->apart ? " apart" : "");
  if (t->far) fprintf(o->out, ", rows 4 apart");
  if (t->orders > 1) fprintf(o->out, ", in %d orders", t->orders);
  if (t->width > 1)
    fprintf(o->out, ", %d of %s at once", t->width, planned_axis_name(o, t->vector));
  if (t->begin) fprintf(o->out, ", from warp %d on", t->begin);
  if (t->steps) fprintf(o->out, ", a warp for each %d steps", t->steps);
  if (t->warps > 1) fprintf(o->out, ", a warp for each level");
  if (t->warps == 1) fprintf(o->out, ", a warp for all levels");
}

// GPU: the lanes that share a column of a triangular system.
static void put_lanes_of_system(printer *o, const plan_nest *nest) {
  const tile_program *program = o->p->program;
  int row = tile_row_axis(tile_at(program, nest->values.items[0]));
  int64_t columns = plan_entries(program, nest->axes & ~axis_bit(row));
  int lanes =
      columns < 0 ? 1 : plan_lanes_of_system(o->m, (double)columns, plan_axis_size(program, row));
  if (lanes > 1) fprintf(o->out, ", %d lanes for each column", lanes);
}

static void put_planned_points(printer *o, const plan_nest *nest) {
  axis_set axes = nest->axes;
  if (nest->kind == NEST_DOT) {
    fprintf(o->out, " ");
    put_dot(o, nest, &nest->dot);
    if (nest->two) fprintf(o->out, "; ");
    if (nest->two) put_dot(o, nest, &nest->other_dot);
    axes &= ~plan_inner_axes(&nest->dot);
    if (axes) fprintf(o->out, ", for each ");
  } else {
    fprintf(o->out, " ");
  }
  if (axes || nest->kind != NEST_DOT) put_axis_set(o, axes);
  if (nest->lane) fprintf(o->out, " lanes");
  put_vectors(o, nest);
  put_threads(o, nest);
  if (nest->wide) fprintf(o->out, " f64");
  if (nest->at_end) fprintf(o->out, ", step length - %d alone", nest->at_end);
  if (nest->kind == NEST_SOLVE) put_lanes_of_system(o, nest);
  if (nest->beside) fprintf(o->out, ", beside the nest before");
  if (nest->kind == NEST_SOLVE && nest->dot.pack_a >= 0) put_copy(o, nest->dot.a, nest->dot.pack_a);
}

static void put_planned_result(printer *o, int result) {
  const tile_result *r = &o->p->program->results.items[result];
  fprintf(o->out, "store ");
  put_planned_place(o, &r->place);
  fprintf(o->out, " = ");
  put_planned_operand(o, r->value);
}

static void put_nest(printer *o, int n) {
  static const char *const regions[] = {"prologue", "shared", "body", "steps", "epilogue"};
  const plan_nest *nest = &o->p->nests.items[n];
  const char *separator = "";
  fprintf(o->out, "%3d %s %s", n, regions[nest->region], plan_nest_text(nest->kind));
  put_planned_points(o, nest);
  if (nest->rare) fprintf(o->out, ", where %%%d", (int)nest->rare);
  if (nest->usual) fprintf(o->out, ", unless %%%d", (int)nest->usual);
  fprintf(o->out, ": ");
  if (nest->kind == NEST_PACK) {
    put_planned_operand(o, nest->packed);
    fprintf(o->out, " -> b%d", nest->pack);
  }
  tile_id begun = plan_begun_sum(o->p, nest);
  if (nest->two) put_planned_value(o, n, nest->other), separator = "; ";
  if (nest->two && begun != NO_TILE) fprintf(o->out, "; "), put_planned_value(o, n, begun);
  for (int i = 0; i < nest->values.count; i++, separator = "; ") {
    if (nest->two && nest->values.items[i] == begun) continue;
    fprintf(o->out, "%s", separator);
    put_planned_value(o, n, nest->values.items[i]);
    if (i || added_sum(o->p, nest) == NO_TILE) continue;
    fprintf(o->out, "; ");
    put_planned_value(o, n, added_sum(o->p, nest));
  }
  for (int i = 0; i < nest->results.count; i++, separator = "; ") {
    fprintf(o->out, "%s", separator);
    put_planned_result(o, nest->results.items[i]);
  }
  fprintf(o->out, "\n");
}

// ---- memory ----------------------------------------------------------------------------------

static void put_numbers(printer *o, const plan_buffer *b) {
  number_type type = b->stored != NUMBER_F32 ? b->stored : o->m->f64 ? NUMBER_F64 : NUMBER_F32;
  put_axis_set(o, plan_buffer_axes(b));
  fprintf(o->out, " %s%s", number_type_text(type), b->lane ? " lanes" : "");
}

static void put_layout(printer *o, plan_layout layout) {
  static const char *const texts[PATTERN_COUNT] = {
      [PATTERN_PIECES] = "pieces",
      [PATTERN_LINES] = "lines",
      [PATTERN_PAIRS] = "pairs",
      [PATTERN_GRAY] = "gray",
      [PATTERN_MATRICES] = "matrices",
      [PATTERN_GROUPS] = "groups",
      [PATTERN_LINES_AND_GROUPS] = "lines and groups",
      [PATTERN_GRAY_AND_GROUPS] = "gray and groups",
  };
  if (!layout.pattern) return;
  fprintf(o->out, ", %s", texts[layout.pattern]);
  if (layout.group) fprintf(o->out, " of %d lines", 1 << layout.group);
  fprintf(o->out, " of %lld", (long long)1 << layout.line);
}

static void put_where(printer *o, const plan_buffer *b, const plan_place *at) {
  extent words = plan_words(b);
  fprintf(o->out, ", %lld", (long long)(words.factor * (o->m->f64 ? 8 : 4)));
  for (int axis = 0; axis < o->p->program->axes.count; axis++)
    if (axis_in(words.sizes, axis)) fprintf(o->out, " * %s", planned_axis_name(o, axis));
  fprintf(o->out, " bytes");
  if (b->wgmma_layout) fprintf(o->out, " in wgmma's layout");
  put_layout(o, b->layout);
  if (!at || !at->space) return;
  fprintf(o->out, " %s", at->space);
  if (at->offset >= 0) fprintf(o->out, " at %lld", (long long)at->offset);
}

static void put_life(printer *o, int n) {
  if (n >= o->p->nests.count)
    fprintf(o->out, "end");
  else
    fprintf(o->out, "%d", n);
}

// What is written there: values, copies, sums that several warps have parts of, next states.
static void put_owners(printer *o, int buffer) {
  for (tile_id id = 0; id < o->p->program->values.count; id++) {
    const plan_value *pv = &o->p->values[id];
    if (!pv->needed || plan_at_hand(o->p, id)) continue;
    if (is_in_buffer(pv) && pv->buffer == buffer) fprintf(o->out, " %%%d", (int)id);
    if (pv->partial_sums == buffer) fprintf(o->out, " row sums of %%%d", (int)id);
  }
  for (int n = 0; n < o->p->nests.count; n++) {
    const plan_nest *nest = &o->p->nests.items[n];
    if (nest->kind == NEST_PACK && nest->pack == buffer) fprintf(o->out, " copy of nest %d", n);
  }
  for (int c = 0; c < o->p->carried_count; c++) {
    if (o->p->carried[c].staging != buffer) continue;
    fprintf(o->out, " ");
    put_planned_place(o, &o->p->program->results.items[o->p->carried[c].result].place);
  }
}

static void put_buffer(printer *o, int buffer, const plan_place *at) {
  const plan_buffer *b = &o->p->buffers.items[buffer];
  if (b->last < 0) return;  // nothing reads it any more
  fprintf(o->out, " b%d", buffer);
  put_owners(o, buffer);
  fprintf(o->out, " ");
  put_numbers(o, b);
  if (b->carried >= 0)
    fprintf(o->out, ", the state's memory");
  else
    put_where(o, b, at);
  if (plan_has_fours_apart(o->p->program, b)) fprintf(o->out, ", fours of columns apart");
  if (b->persistent) fprintf(o->out, ", through all runs");
  if (b->kept) fprintf(o->out, ", of every step of a chunk");
  fprintf(o->out, ", nests ");
  put_life(o, b->first);
  fprintf(o->out, " .. ");
  put_life(o, b->last);
  fprintf(o->out, "\n");
}

static void put_next(printer *o, const carried_pair *pair) {
  if (pair->result < 0) return;
  tile_id id = o->p->program->results.items[pair->result].value;
  fprintf(o->out, ", next ");
  put_planned_operand(o, id);
  if (!pair->in_place && pair->staging < 0)
    fprintf(o->out, " copied from b%d", plan_copied_buffer(o->p, id));
  if (pair->in_place) fprintf(o->out, " in place");
  if (pair->accumulator >= 0)
    fprintf(o->out, ", in registers of nest %d%s", pair->accumulator,
            pair->has_copy ? " with a 16-bit copy" : "");
  if (pair->staging >= 0) fprintf(o->out, " by way of b%d", pair->staging);
}

static void put_carried_state(printer *o, const carried_value *state, const carried_pair *pair,
                              const plan_place *at) {
  tile_place place = state->place;
  if (place.role == TILE_NEXT_STATE) place.role = TILE_STATE;
  fprintf(o->out, " ");
  put_planned_place(o, &place);
  fprintf(o->out, " ");
  put_numbers(o, &state->memory);
  put_where(o, &state->memory, at);
  put_next(o, pair);
  fprintf(o->out, "\n");
}

char *plan_print_nest(arena *a, const mapping *m, const plan *p, int n) {
  text_stream text;
  printer o = {.out = text_begin(&text), .m = m, .p = p};
  put_nest(&o, n);
  char *line = text_end(&text, a);
  line[strcspn(line, "\n")] = 0;
  return line + strspn(line, " ");
}

char *plan_print(arena *a, const mapping *m, const plan *p, const carried_list *states,
                 const plan_places *at) {
  text_stream text;
  printer o = {.out = text_begin(&text), .m = m, .p = p};
  for (int n = 0; n < p->nests.count; n++) put_nest(&o, n);
  for (int c = 0; c < p->carried_count; c++)
    put_carried_state(&o, &states->items[c], &p->carried[c], at ? &at->states[c] : NULL);
  for (int i = 0; i < p->buffers.count; i++) put_buffer(&o, i, at ? &at->buffers[i] : NULL);
  return text_end(&text, a);
}
