// What a part of time leaves of the states before it, beside the states after it.
//
//   next S = a * S + dot K V over t    ->    next S = a * S + dot K V over t
//                                            next S transfer = a * (S transfer)
//
// Every value is taken apart into a factor of the state and the rest: %5 = add (mul %1 S) %2 has
// the factor %1. That works where states are used entry by entry. A complex state is a pair whose
// next parts are  a re - b im  and  b re + a im. States that mix their entries are left to
// columns.c.
#include "compiler/tile/share.h"

// Why there is no factor of a state, the worst last.
typedef enum obstacle {
  NO_OBSTACLE,
  OTHER_STATES,   // it is made of them, too
  OTHER_ENTRIES,  // of its own
  NOT_LINEAR
} obstacle;

typedef struct transfer {
  arena *arena;
  tile_program *program;
  share_list of;       // of the state at hand
  int values;          // of the program, without those of factors
  uint64_t *states;    // by value: the arguments that enter it, the last bit for all from 63 on
  uint64_t lags;       // those that are earlier steps
  bool earlier_given;  // of tokens: nobody has to make them
  obstacle worst;
  const char *why;  // for the worst
} transfer;

static const char *name_of_state(const tile_place *place) {
  return place->name ? place->name : "a state";
}

static uint64_t bit_of(int argument) { return (uint64_t)1 << (argument < 63 ? argument : 63); }

// Which states enter each value.
static void find_entering_states(transfer *x, tile_role read) {
  tile_program *p = x->program;
  x->states = ARENA_ARRAY(x->arena, uint64_t, p->values.count);
  for (int i = 0; i < p->values.count; i++) {
    const tile_value *v = &p->values.items[i];
    if (v->op == TILE_ARGUMENT && tile_place_of(p, v)->role == read)
      x->states[i] = bit_of(tile_argument_number(v));
    for (int k = 0; k < tile_arity(v->op); k++) x->states[i] |= x->states[v->args[k]];
  }
}

// The parts of one state, or of a few: their results and arguments, -1 where there is none.
typedef struct pair {
  int result[MOST_PARTS], argument[MOST_PARTS];
} pair;

static const pair no_pair = {{-1, -1, -1, -1}, {-1, -1, -1, -1}};

static pair find_pair(const tile_program *p, int tensor, tile_role read, int results) {
  pair found = no_pair;
  for (int i = 0; i < results; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->lag < 0 && place->tensor == tensor) found.result[place->component] = i;
  }
  for (int i = 0; i < p->arguments.count; i++) {
    const tile_place *place = &p->arguments.items[i];
    if (place->role == read && place->tensor == tensor && !place->transfer)
      found.argument[place->component] = i;
  }
  return found;
}

static void find_shares(transfer *x, const pair *state, int values) {
  tile_program *p = x->program;
  x->of.axes = tile_place_axes(p, &p->results.items[state->result[0]].place);
  for (int i = 0; i < values; i++) {
    const tile_value *v = &p->values.items[i];
    share own = share_none;
    for (int k = 0; k < MOST_PARTS && v->op == TILE_ARGUMENT; k++)
      if (tile_argument_number(v) == state->argument[k]) own.of[k] = tile_number(p, 1);
    x->of.shares[i] = share_is_any(&own) ? own : share_of(&x->of, i);
  }
}

// Earlier steps are known where a part begins a chunk before its own steps: tokens make them, and a
// chunk has them all.
static bool knows_earlier_steps(transfer *x) {
  tile_program *p = x->program;
  for (int i = 0; i < p->arguments.count && i < 63; i++)
    if (p->arguments.items[i].lag >= 0) x->lags |= bit_of(i);
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->lag < 0) continue;
    if (!x->earlier_given && (p->form != TILE_CHUNK || place->slot >= p->chunk)) return false;
    if (x->states[p->results.items[i].value] & ~x->lags) return false;
  }
  return true;
}

// Backward, a chunk makes cotangents of earlier steps of its own. A slice that begins a chunk after
// its own steps therefore needs none from others. Other cotangents must not be made of them.
static bool makes_earlier_steps(const transfer *x) {
  const tile_program *p = x->program;
  uint64_t lags = 0;
  bool any = false;
  for (int i = 0; i < p->arguments.count; i++)
    if (p->arguments.items[i].lag >= 0 && p->arguments.items[i].role == TILE_D_NEXT_STATE)
      lags |= bit_of(i);
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->lag >= 0 && x->earlier_given) continue;
    any = any || place->lag >= 0;
    if (place->lag >= 0 && place->slot >= p->chunk) return false;
    if (x->states[p->results.items[i].value] & lags) return false;
  }
  return !any || p->form == TILE_CHUNK;
}

static bool reads_tensor_state(const tile_program *p, tile_role read, int tensor) {
  vec_each(const tile_place, place, p->arguments)
    if (place->role == read && place->lag < 0 && place->tensor == tensor) return true;
  return false;
}

// The cotangents that slices hand on. Cotangents of earlier steps are not among them. Neither are
// cotangents that reach no result of the whole program, such as that of a maximum behind
// stop_gradient (`whole` NULL: all are). (Forward, backward wants all states before each chunk.)
static tile_program *with_cotangents(arena *a, const tile_program *program,
                                     const tile_program *whole) {
  const tile_program *all = whole ? tile_restrict(a, whole, ~0u) : NULL;
  tile_program p = *program;
  bool *read = ARENA_ARRAY(a, bool, program->results.count), any = false;
  for (int i = 0; i < program->results.count; i++) {
    const tile_place *place = &program->results.items[i].place;
    read[i] = place->lag < 0 && (!all || reads_tensor_state(all, TILE_D_NEXT_STATE, place->tensor));
    any = any || read[i];
  }
  p.results.items = ARENA_ARRAY(a, tile_result, program->results.count);
  p.results.count = 0;
  for (int i = 0; i < program->results.count; i++) {
    const tile_result *r = &program->results.items[i];
    if (any ? read[i] : r->place.lag < 0) p.results.items[p.results.count++] = *r;
  }
  return tile_restrict(a, &p, 1u << TILE_D_STATE);
}

static bool enters_alone(const transfer *x, const pair *state) {
  uint64_t own = x->lags;
  for (int k = 0; k < 2; k++)
    if (state->argument[k] >= 0 && state->argument[k] < 63)
      own |= (uint64_t)1 << state->argument[k];
  for (int k = 0; k < 2; k++)
    if (state->result[k] >= 0 &&
        (x->states[x->program->results.items[state->result[k]].value] & ~own))
      return false;
  return true;
}

static bool has_other_axes(const transfer *x, tile_id id) {
  return id != NO_TILE && (x->program->values.items[id].axes & ~x->of.axes);
}

// Of several states, the worst is told; columns may help against the others.
static void say_why(transfer *x, obstacle why, const tile_place *place) {
  static const char *const texts[] = {
      [OTHER_STATES] = "%s is made of other states",
      [OTHER_ENTRIES] = "entries of %s are made of others, and not alike in columns",
      [NOT_LINEAR] = "%s is not linear in itself",
  };
  if (why <= x->worst) return;
  x->worst = why;
  x->why = arena_printf(x->arena, texts[why], name_of_state(place));
}

// The factor (re, im) of a state; false: there is none.
static bool find_factor(transfer *x, const pair *state, tile_id factor[2]) {
  tile_program *p = x->program;
  bool complex = state->result[1] >= 0;
  const tile_place *place = &p->results.items[state->result[0]].place;
  const share *re = &x->of.shares[p->results.items[state->result[0]].value];
  const share *im = complex ? &x->of.shares[p->results.items[state->result[1]].value] : &share_none;
  bool others = has_other_axes(x, re->of[0]) || has_other_axes(x, im->of[0]);
  bool mixed = re->mixed || im->mixed, bent = mixed && x->of.bent;
  if (mixed || others || !enters_alone(x, state)) {
    say_why(x, bent ? NOT_LINEAR : mixed || others ? OTHER_ENTRIES : OTHER_STATES, place);
    return false;
  }
  factor[0] = re->of[0];
  factor[1] = complex ? im->of[0] : NO_TILE;
  if (!complex) return true;
  tile_id minus = share_negated(p, re->of[1]);
  if (im->of[1] == factor[0] && minus == factor[1]) return true;
  say_why(x, OTHER_ENTRIES, place);
  return false;
}

// The place of a factor: that of the state without the axes that the factor lacks.
static tile_place place_of_factor(tile_place place, tile_role role, axis_set axes) {
  tile_place made = place;
  made.role = role;
  made.transfer = true;
  made.axis_count = 0;
  for (int i = 0; i < place.axis_count; i++)
    if (axis_in(axes, place.axes[i])) made.axes[made.axis_count++] = place.axes[i];
  return made;
}

static void add_state_factor(transfer *x, const pair *state, tile_role read,
                             const tile_id factor[2]) {
  tile_program *p = x->program;
  axis_set axes = 0;
  tile_id value[2] = {NO_TILE, NO_TILE}, by[2];
  int count = state->result[1] >= 0 ? 2 : 1;
  for (int k = 0; k < count; k++) {
    by[k] = factor[k] == NO_TILE ? tile_number(p, 0) : factor[k];
    axes |= p->values.items[by[k]].axes;
  }
  for (int k = 0; k < count; k++) {
    tile_place place = p->results.items[state->result[k]].place;
    value[k] = tile_argument(p, place_of_factor(place, read, axes));
  }
  tile_id next[2] = {tile_binary(p, TILE_MUL, by[0], value[0]), NO_TILE};
  if (count == 2) {
    tile_id both = tile_binary(p, TILE_MUL, by[1], value[1]);
    next[0] = tile_binary(p, TILE_SUB, next[0], both);
    next[1] = tile_binary(p, TILE_ADD, tile_binary(p, TILE_MUL, by[1], value[0]),
                          tile_binary(p, TILE_MUL, by[0], value[1]));
  }
  for (int k = 0; k < count; k++) {
    tile_place place = p->results.items[state->result[k]].place;
    tile_add_result(p, place_of_factor(place, place.role, axes), next[k]);
  }
}

// Why the program has no summary: a cotangent that several instances hold would be added once for
// each of them. Results are asked, and not arguments: a segment without steps hands on a cotangent
// that no step reads.
static const char *who_else_has_it(const tile_program *p) {
  for (int i = 0; i < p->results.count; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->partial)
      return arena_printf(p->arena, "several instances have %s", name_of_state(place));
  }
  return NULL;
}

static int tensors_of(const tile_program *p) {
  int count = 0;
  for (int i = 0; i < p->results.count + p->arguments.count; i++) {
    const tile_place *place = i < p->results.count ? &p->results.items[i].place
                                                   : &p->arguments.items[i - p->results.count];
    if (place->tensor >= count) count = place->tensor + 1;
  }
  return count;
}

// States without a factor: a matrix for all columns, if they have some.
static bool has_columns(transfer *x, tile_role read, const bool *mixed, axis_set axes, int *axis) {
  bool any = false;
  for (int i = 0; i < x->program->results.count; i++) {
    const tile_place *place = &x->program->results.items[i].place;
    any = any || (place->lag < 0 && mixed[place->tensor]);
  }
  return !any || tile_find_columns(x->arena, x->program, read, mixed, axes, axis);
}

// *mixed: there is none, for entries depend on others.
static void make_state_factor(transfer *x, const pair *state, tile_role read, bool *mixed) {
  tile_id factor[2] = {NO_TILE, NO_TILE};
  x->of.bent = false;
  find_shares(x, state, x->values);
  *mixed = !find_factor(x, state, factor);
  if (!*mixed) add_state_factor(x, state, read, factor);
}

// ---- states that are made of each other ------------------------------------------------------

// The states of a group, which those that enter them have the number of, too.
static bool spread_groups(const transfer *x, int results, int *group) {
  const tile_program *p = x->program;
  bool changed = false;
  for (int i = 0; i < results; i++) {
    const tile_place *place = &p->results.items[i].place;
    uint64_t enters = x->states[p->results.items[i].value] & ~x->lags;
    if (place->lag >= 0 || place->relative) continue;
    for (int k = 0; k < p->arguments.count; k++) {
      int other = p->arguments.items[k].tensor;
      if (!(enters & bit_of(k)) || other < 0 || group[other] == group[place->tensor]) continue;
      int both = group[other] < group[place->tensor] ? group[other] : group[place->tensor];
      group[other] = group[place->tensor] = both;
      changed = true;
    }
  }
  return changed;
}

// False: they are too many, some are complex or relative to maxima, or have different axes. Those
// relative to maxima alone are none.
static bool parts_of_group(const transfer *x, tile_role read, int results, const int *group, int of,
                           pair *parts, int *count) {
  tile_program *p = x->program;
  axis_set axes = 0;
  bool relative = false, complex = false;
  *parts = no_pair;
  *count = 0;
  for (int i = 0; i < results; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->lag >= 0 || place->component || group[place->tensor] != of) continue;
    relative = relative || place->relative;
    if (place->relative) continue;
    pair own = find_pair(p, place->tensor, read, results);
    axis_set has = tile_place_axes(p, place);
    if (*count == MOST_PARTS || (*count && has != axes)) return false;
    axes = has;
    complex = complex || own.result[1] >= 0;
    if (*count == 0) *parts = own;
    parts->result[*count] = own.result[0];
    parts->argument[(*count)++] = own.argument[0];
  }
  return *count < 2 ? !relative || !*count : !relative && !complex;
}

// What is left of each state by each: factor[i][k], of the state k in the next i; and where paths
// lead.
typedef struct operator{
  tile_id factor[MOST_PARTS][MOST_PARTS];
  bool leads[MOST_PARTS][MOST_PARTS];
  axis_set axes;
}
operator;

static bool find_operator(transfer *x, const pair *parts, int count, operator* made) {
  tile_program *p = x->program;
  made->axes = 0;
  find_shares(x, parts, x->values);
  for (int i = 0; i < count; i++) {
    share s = x->of.shares[p->results.items[parts->result[i]].value];
    if (s.mixed) return false;
    for (int k = 0; k < count; k++) {
      if (has_other_axes(x, s.of[k])) return false;
      made->factor[i][k] = s.of[k];
      made->leads[i][k] = i == k || s.of[k] != NO_TILE;
      if (s.of[k] != NO_TILE) made->axes |= p->values.items[s.of[k]].axes;
    }
  }
  for (int via = 0; via < count; via++)
    for (int i = 0; i < count; i++)
      for (int k = 0; k < count; k++)
        made->leads[i][k] |= made->leads[i][via] && made->leads[via][k];
  return true;
}

static tile_place place_of_pair(const tile_program *p, const pair *parts, const operator* made,
                                int i, int k, tile_role role) {
  const tile_place *state = &p->results.items[parts->result[i]].place;
  tile_place place = place_of_factor(*state, role, made->axes);
  if (i != k) place.source = 1 + p->results.items[parts->result[k]].place.tensor;
  return place;
}

// The product of the operators of all steps, a column of it for each state.
static void add_operator(transfer *x, const pair *parts, int count, tile_role read,
                         const operator* made) {
  tile_program *p = x->program;
  tile_role role = p->results.items[parts->result[0]].place.role;
  tile_id before[MOST_PARTS];
  for (int k = 0; k < count; k++) {
    for (int i = 0; i < count; i++)
      if (made->leads[i][k])
        before[i] = tile_argument(p, place_of_pair(p, parts, made, i, k, read));
    for (int i = 0; i < count; i++) {
      if (!made->leads[i][k]) continue;
      tile_id sum = NO_TILE;
      for (int via = 0; via < count; via++) {
        if (!made->leads[via][k] || made->factor[i][via] == NO_TILE) continue;
        tile_id product = tile_binary(p, TILE_MUL, made->factor[i][via], before[via]);
        sum = sum == NO_TILE ? product : tile_binary(p, TILE_ADD, sum, product);
      }
      tile_add_result(p, place_of_pair(p, parts, made, i, k, role),
                      sum == NO_TILE ? tile_number(p, 0) : sum);
    }
  }
}

// Takes all states group by group; false: one group has no operator.
static bool make_operators(transfer *x, tile_role read) {
  tile_program *p = x->program;
  int results = p->results.count, tensors = tensors_of(p);
  int *group = ARENA_ARRAY(x->arena, int, tensors);
  if (p->arguments.count > 63) return false;  // bit_of
  for (int i = 0; i < tensors; i++) group[i] = i;
  while (spread_groups(x, results, group)) continue;
  for (int of = 0; of < tensors; of++) {
    pair parts;
    operator made;
    int count;
    bool mixed = false;
    if (!parts_of_group(x, read, results, group, of, &parts, &count)) return false;
    if (count == 1) make_state_factor(x, &parts, read, &mixed);
    if (count > 1 && !find_operator(x, &parts, count, &made)) return false;
    if (count > 1) add_operator(x, &parts, count, read, &made);
    if (mixed) return false;
  }
  return true;
}

static void begin_transfer(transfer *x, tile_program *p, tile_role read) {
  x->program = p;
  find_entering_states(x, read);
  x->values = p->values.count;
  x->of = (share_list){.program = p, .shares = ARENA_ARRAY(x->arena, share, x->values)};
}

// The summary of the states that are results of `p`.
static tile_program *state_summary(transfer x, tile_program *p, tile_role read,
                                   axis_set column_axes, int *value_axis, const char **why) {
  *why = who_else_has_it(p);
  if (*why) return NULL;
  const tile_program *alone = tile_drop_unused(x.arena, p);
  begin_transfer(&x, p, read);
  int results = p->results.count;
  bool *mixed = ARENA_ARRAY(x.arena, bool, tensors_of(p));
  for (int i = 0; i < results; i++) {
    const tile_place *place = &p->results.items[i].place;
    if (place->component || place->lag >= 0 || place->relative) continue;
    pair state = find_pair(p, place->tensor, read, results);
    make_state_factor(&x, &state, read, &mixed[place->tensor]);
  }
  *value_axis = -1;
  if (has_columns(&x, read, mixed, column_axes, value_axis)) return p;
  *why = x.why;
  begin_transfer(&x, tile_drop_unused(x.arena, alone), read);
  return make_operators(&x, read) ? x.program : NULL;
}

tile_program *tile_transfer(arena *a, const tile_program *program, tile_role states,
                            bool earlier_given, axis_set column_axes, int *value_axis,
                            const char **why) {
  bool back = states == TILE_D_STATE;
  tile_role read = back ? TILE_D_NEXT_STATE : TILE_STATE;
  tile_program *p = tile_restrict(a, tile_without_gradients(a, program), 1u << states);
  transfer x = {.arena = a, .program = p, .earlier_given = earlier_given};
  find_entering_states(&x, read);
  *why = "earlier steps are states, too";
  if (back ? !makes_earlier_steps(&x) : !knows_earlier_steps(&x)) return NULL;
  // A segment without steps hands on a cotangent that no step reads. Segments have it where it can
  // be summarised.
  tile_program *whole =
      back ? state_summary(x, with_cotangents(a, p, NULL), read, column_axes, value_axis, why)
           : NULL;
  if (whole) return whole;
  return state_summary(x, back ? with_cotangents(a, p, program) : p, read, column_axes, value_axis,
                       why);
}
