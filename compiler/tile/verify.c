// The checker that stands between the passes, and what follows from a program without changing it:
// sections, cost.
//
//   %5 [G] = sum %4 over N     must have an operand with axis N, and axes = the operand's without N
//   %6 [G] = accumulate %5     must not be an operand of a body value
#include "compiler/tile/tile.h"

// ---- sections --------------------------------------------------------------------------------

tile_section tile_value_section(const tile_program *program, tile_id id,
                                const tile_section *sections) {
  const tile_value *v = &program->values.items[id];
  if (v->op == TILE_ACCUMULATE) return TILE_EPILOGUE;
  if (tile_op_is(v->op, TILE_PER_RUN)) return TILE_BODY;
  if (v->op == TILE_ARGUMENT)
    return tile_place_of(program, v)->role == TILE_PARAM ? TILE_PROLOGUE : TILE_BODY;
  tile_section section = TILE_PROLOGUE;
  for (int k = 0; k < tile_arity(v->op); k++)
    if (sections[v->args[k]] > section) section = sections[v->args[k]];
  return section;
}

tile_section *tile_sections(arena *a, const tile_program *program) {
  tile_section *sections = ARENA_ARRAY(a, tile_section, program->values.count);
  for (int i = 0; i < program->values.count; i++)
    sections[i] = tile_value_section(program, i, sections);
  return sections;
}

axis_set *tile_partial(arena *a, const tile_program *program) {
  axis_set *partial = ARENA_ARRAY(a, axis_set, program->values.count);
  for (int i = 0; i < program->values.count; i++)
    partial[i] = tile_partial_value(program, i, partial);
  return partial;
}

axis_set tile_partial_value(const tile_program *program, tile_id id, const axis_set *partial) {
  const tile_value *v = &program->values.items[id];
  if (tile_op_is(v->op, TILE_COMPARES)) return 0;  // questions about an instance's own part
  if (v->op == TILE_ARGUMENT) return tile_place_of(program, v)->partial;
  axis_set set = v->op == TILE_SUM || v->op == TILE_DOT ? v->over & program->grid : 0;
  for (int k = 0; k < tile_arity(v->op); k++) set |= partial[v->args[k]];
  return set;
}

// ---- cost ------------------------------------------------------------------------------------

static double elements(const tile_program *program, axis_set axes, const int64_t *axis_sizes) {
  double count = 1;
  for (int i = 0; i < program->axes.count; i++) {
    if (!axis_in(axes, i)) continue;
    const tile_axis *axis = &program->axes.items[i];
    count *= axis->body_axis >= 0 ? (double)axis_sizes[axis->body_axis] : (double)axis->size;
  }
  return count;
}

static bool takes_exponential_of_size(tile_op op) {
  return op == TILE_SIGMOID || op == TILE_LOG_SIGMOID || op == TILE_SOFTPLUS;
}

static tile_id without_sign(const tile_program *program, tile_id x) {
  const tile_value *v = &program->values.items[x];
  return v->op == TILE_NEG ? v->args[0] : x;
}

// Has an earlier value made e^-|x| (emit/math.c), for the same x or for -x? LLVM keeps one of them.
static bool shares_exponential(const tile_program *program, tile_id id) {
  const tile_value *values = program->values.items;
  if (!takes_exponential_of_size(values[id].op)) return false;
  tile_id x = without_sign(program, values[id].args[0]);
  for (tile_id i = 0; i < id; i++)
    if (takes_exponential_of_size(values[i].op) && without_sign(program, values[i].args[0]) == x)
      return true;
  return false;
}

double tile_value_operations(const tile_program *program, tile_id id) {
  double alone = tile_op_cost(program->values.items[id].op);
  return shares_exponential(program, id) ? alone - tile_op_cost(TILE_EXP) : alone;
}

double tile_value_cost(const tile_program *program, tile_id id, const int64_t *axis_sizes) {
  const tile_value *v = &program->values.items[id];
  axis_set product = v->axes;
  for (int k = 0; k < tile_arity(v->op); k++) product |= program->values.items[v->args[k]].axes;
  return tile_value_operations(program, id) * elements(program, product, axis_sizes);
}

// ---- checks ----------------------------------------------------------------------------------

typedef struct checker {
  const tile_program *program;
  tile_section *section;
  axis_set *partial;
} checker;

static axis_set arg_axes(const checker *c, const tile_value *v, int i) {
  return c->program->values.items[v->args[i]].axes;
}

static bool axis_exists(const checker *c, int axis) {
  return axis >= 0 && axis < c->program->axes.count;
}

static bool within(axis_set part, axis_set whole) { return (part & ~whole) == 0; }

// An entry must lie inside an axis of known size; entries of run-time axes cannot be checked here.
static bool entry_exists(const checker *c, int axis, int entry) {
  int64_t size = c->program->axes.items[axis].size;
  return entry >= 0 && (size == TILE_RUNTIME_SIZE || entry < size);
}

static bool sizes_agree(const checker *c, int axis, int other) {
  int64_t a = c->program->axes.items[axis].size, b = c->program->axes.items[other].size;
  return a == b || a == TILE_RUNTIME_SIZE || b == TILE_RUNTIME_SIZE;
}

static bool is_pair(const checker *c, int axis, int other) {
  return axis_exists(c, axis) && axis_exists(c, other) && axis != other &&
         sizes_agree(c, axis, other);
}

// An axis as the product of an outer and an inner one, all of sizes known now.
static bool is_product_of_axes(const checker *c, const tile_value *v) {
  int whole = tile_whole_axis(v), outer = tile_outer_axis(v), inner = tile_inner_axis(v);
  if (!axis_exists(c, whole) || !axis_exists(c, outer) || !axis_exists(c, inner)) return false;
  if (whole == outer || whole == inner || outer == inner) return false;
  const tile_axis *axes = c->program->axes.items;
  int64_t size = axes[whole].size, of_outer = axes[outer].size, of_inner = axes[inner].size;
  return size > 0 && of_outer > 0 && of_inner > 0 && size / of_outer == of_inner &&
         size % of_outer == 0;
}

static const char *check_tile_leaf(const checker *c, const tile_value *v) {
  switch (v->op) {
    case TILE_NUMBER:
    case TILE_ARGUMENT: return NULL;
    case TILE_AXIS_SIZE:
    case TILE_INDEX: return axis_exists(c, tile_index_axis(v)) ? NULL : "no such axis";
    case TILE_VALID:
    case TILE_AT_END:
    case TILE_LENGTH:
      return c->program->form == TILE_CHUNK ? NULL : "a question about the chunk in a step program";
    case TILE_CAUSAL:
      return is_pair(c, tile_step_axis(v), tile_other_step_axis(v))
                 ? NULL
                 : "its axes are no pair of one size";
    default: return "not a leaf";
  }
}

static const char *check_elementwise(const checker *c, const tile_value *v) {
  if (v->op != TILE_ACCUMULATE || c->section[v->args[0]] == TILE_BODY) return NULL;
  return "the operand of accumulate is not in the body";
}

static const char *check_reduction(const checker *c, const tile_value *v) {
  axis_set x = arg_axes(c, v, 0);
  if (!v->over) return "no axis to reduce";
  if (!within(v->over, x)) return "the operand lacks an axis that is reduced";
  if (v->op == TILE_DOT && !within(v->over, arg_axes(c, v, 1)))
    return "the second operand lacks an axis that is contracted";
  return NULL;
}

static const char *check_axis_op(const checker *c, const tile_value *v) {
  axis_set x = arg_axes(c, v, 0);
  switch (v->op) {
    case TILE_EXPAND:
      if (!v->over || (v->over & x)) return "expand names axes that the operand has, or none";
      return NULL;
    case TILE_RENAME:
      if (!axis_exists(c, tile_renamed_from(v)) || !axis_exists(c, tile_renamed_to(v)))
        return "no such axis";
      if (!axis_in(x, tile_renamed_from(v))) return "the operand lacks the axis that is renamed";
      if (axis_in(x, tile_renamed_to(v))) return "the operand has the new axis already";
      if (!sizes_agree(c, tile_renamed_from(v), tile_renamed_to(v)))
        return "the axes differ in size";
      return NULL;
    case TILE_SLICE:
      if (!axis_exists(c, tile_entry_axis(v)) || !axis_in(x, tile_entry_axis(v)))
        return "the operand lacks the axis that is sliced";
      if (!entry_exists(c, tile_entry_axis(v), tile_entry(v)))
        return "the entry lies outside the axis";
      return NULL;
    case TILE_PLACE:
      if (!axis_exists(c, tile_entry_axis(v))) return "no such axis";
      if (axis_in(x, tile_entry_axis(v))) return "the operand has the new axis already";
      if (!entry_exists(c, tile_entry_axis(v), tile_entry(v)))
        return "the entry lies outside the axis";
      return NULL;
    case TILE_SHIFT:
      if (!axis_exists(c, tile_shift_axis(v)) || !axis_in(x, tile_shift_axis(v)))
        return "the operand lacks the axis that is shifted";
      if (c->program->axes.items[tile_shift_axis(v)].size == TILE_RUNTIME_SIZE)
        return "an axis of run-time size is shifted";
      return NULL;
    default: return "not an operation on axes";
  }
}

static const char *check_regroup(const checker *c, const tile_value *v) {
  if (!is_product_of_axes(c, v)) return "the axis is not the product of the other two";
  axis_set x = arg_axes(c, v, 0), whole = axis_bit(tile_whole_axis(v));
  axis_set parts = axis_bit(tile_outer_axis(v)) | axis_bit(tile_inner_axis(v));
  axis_set from = v->op == TILE_SPLIT ? whole : parts, to = v->op == TILE_SPLIT ? parts : whole;
  if (!within(from, x)) return "the operand lacks what is split or joined";
  if (x & to) return "the operand has the new axis already";
  return NULL;
}

static const char *check_solve(const checker *c, const tile_value *v) {
  axis_set matrix = arg_axes(c, v, 0), r = arg_axes(c, v, 1);
  if (!is_pair(c, tile_row_axis(v), tile_column_axis(v))) return "its axes are no pair of one size";
  axis_set row = axis_bit(tile_row_axis(v)), pair = axis_bit(tile_column_axis(v));
  if (!within(row | pair, matrix)) return "the matrix lacks an axis of the pair";
  if (!within(row, r)) return "the right side lacks the row axis";
  if (r & pair) return "the right side has the pair axis";
  if (c->program->axes.items[tile_row_axis(v)].size == TILE_RUNTIME_SIZE)
    return "a system of run-time size";
  return NULL;
}

static const char *check_scan(const checker *c, const tile_value *v) {
  if (!axis_exists(c, tile_step_axis(v))) return "no such axis";
  if (c->program->axes.items[tile_step_axis(v)].size == TILE_RUNTIME_SIZE)
    return "a scan of run-time size";
  if (v->op == TILE_SCAN_PAIR) {
    int part = tile_part_axis(v);
    if (!axis_exists(c, part) || part == tile_step_axis(v)) return "no such axis";
    if (c->program->axes.items[part].size != 2) return "its parts are not two";
    if (!axis_in(arg_axes(c, v, 0), part)) return "the factor lacks the axis of the parts";
    if (axis_in(arg_axes(c, v, 1) | arg_axes(c, v, 2), part)) return "a part has that axis already";
  }
  if (v->op == TILE_SCAN_JOINT) {
    int to = tile_part_axis(v), from = tile_from_axis(v);
    if (!axis_exists(c, to) || !v->over || (v->over & (v->over - 1))) return "no two axes of parts";
    if (!sizes_agree(c, from, to)) return "its axes of parts differ in size";
    if (c->program->axes.items[to].size > TILE_PARTS_MAX) return "it has too many parts";
    if (!within(axis_bit(to) | v->over, arg_axes(c, v, 0)))
      return "the factor lacks an axis of parts";
    if (arg_axes(c, v, 1) & v->over) return "what is added has the axis of the step before";
  }
  return NULL;
}

static const char *check_along_time(const checker *c, const tile_value *v) {
  bool pairs = !tile_is_running(v->op);
  if (!axis_exists(c, tile_step_axis(v))) return "no such axis";
  if (pairs && !is_pair(c, tile_step_axis(v), tile_other_step_axis(v)))
    return "its axes are no pair of one size";
  axis_set x = arg_axes(c, v, 0), t = axis_bit(tile_step_axis(v)),
           s = pairs ? axis_bit(tile_other_step_axis(v)) : 0;
  if (!within(t, x)) return "the operand lacks the axis of the sums";
  if (v->op == TILE_SEGMENT && (x & s)) return "the operand has the pair axis already";
  if (v->op == TILE_SEGMENT_ADJOINT && !(x & s)) return "the operand lacks the pair axis";
  return NULL;
}

// Partial values stand for sums over instances: only what is linear in them may use them.
static const char *check_partial(const checker *c, const tile_value *v) {
  axis_set of[3] = {0, 0, 0};
  for (int k = 0; k < tile_arity(v->op); k++) of[k] = c->partial[v->args[k]];
  if (!(of[0] | of[1] | of[2])) return NULL;
  switch (v->op) {
    case TILE_ADD:
    case TILE_SUB: return of[0] == of[1] ? NULL : "a sum of differently partial values";
    case TILE_MUL:
    case TILE_DOT: return of[0] && of[1] ? "a product of partial values" : NULL;
    case TILE_DIV: return of[1] ? "a quotient by a partial value" : NULL;
    case TILE_SELECT:
    case TILE_SELDOM:
      if (of[0]) return "a partial condition";
      for (int k = 1; k < 3; k++)
        if (!of[k] && !tile_is_number(c->program, v->args[k], 0))
          return "a value partial by choice";
      return of[1] && of[2] && of[1] != of[2] ? "a choice of differently partial values" : NULL;
    case TILE_NEG:
    case TILE_SUM:
    case TILE_EXPAND:
    case TILE_RENAME:
    case TILE_SLICE:
    case TILE_PLACE:
    case TILE_SPLIT:
    case TILE_JOIN:
    case TILE_SHIFT:
    case TILE_PREFIX:
    case TILE_SEGMENT:
    case TILE_SEGMENT_ADJOINT:
    case TILE_ACCUMULATE: return NULL;
    case TILE_SOLVE: return of[0] ? "a system with a partial matrix" : NULL;
    case TILE_SCAN:
    case TILE_SCAN_JOINT: return of[0] ? "a scan with a partial factor" : NULL;
    case TILE_SCAN_PAIR:
      if (of[0]) return "a scan with a partial factor";
      for (int k = 1; k < 3; k++)
        if (!of[k] && !tile_is_number(c->program, v->args[k], 0)) return "a part that is partial";
      return of[1] && of[2] && of[1] != of[2] ? "a scan of differently partial values" : NULL;
    case TILE_EQUAL: return NULL;  // is this instance's part zero?
    default: return "not linear in a partial operand";
  }
}

static const char *check_operation(const checker *c, const tile_value *v) {
  if (tile_arity(v->op) == 0) return check_tile_leaf(c, v);
  if (tile_elementwise(v->op)) return check_elementwise(c, v);
  switch (v->op) {
    case TILE_SUM:
    case TILE_MAX_OVER:
    case TILE_MIN_OVER:
    case TILE_FIRST_MAX:
    case TILE_FIRST_MIN:
    case TILE_DOT: return check_reduction(c, v);
    case TILE_PREFIX:
    case TILE_RUNNING_PRODUCT:
    case TILE_SEGMENT:
    case TILE_SEGMENT_ADJOINT: return check_along_time(c, v);
    case TILE_SPLIT:
    case TILE_JOIN: return check_regroup(c, v);
    case TILE_SOLVE: return check_solve(c, v);
    case TILE_SCAN:
    case TILE_SCAN_PAIR:
    case TILE_SCAN_JOINT: return check_scan(c, v);
    default: return check_axis_op(c, v);
  }
}

static const char *check_tile_value(const checker *c, tile_id id) {
  const tile_value *v = &c->program->values.items[id];
  for (int k = 0; k < tile_arity(v->op); k++) {
    bool late = c->section[v->args[k]] == TILE_EPILOGUE;
    bool mixed = c->section[id] == TILE_EPILOGUE && c->section[v->args[k]] == TILE_BODY;
    if (v->op == TILE_ACCUMULATE ? late : mixed) return "body and epilogue are mixed";
  }
  const char *wrong = check_partial(c, v);
  if (wrong) return wrong;
  if (c->partial[id] & v->axes) return "partial over an axis that it has";
  wrong = check_operation(c, v);
  if (wrong) return wrong;
  return v->axes == tile_axes_of(c->program, v) ? NULL : "the axes do not follow from the operands";
}

static const char *check_place(const checker *c, const tile_place *place, bool result) {
  if (tile_role_is_result(place->role) != result) return "a role on the wrong side";
  for (int i = 0; i < place->axis_count; i++) {
    if (!axis_exists(c, place->axes[i])) return "no such axis";
    for (int k = 0; k < i; k++)
      if (place->axes[k] == place->axes[i]) return "an axis stands twice";
  }
  bool stash = place->role == TILE_STASH || place->role == TILE_KEEP;
  if (stash != (place->stash >= 0)) return "the number of a stash does not go with the role";
  if (!stash && (place->tensor < 0) == (place->lag < 0))
    return "a place is either a tensor or a lag buffer";
  return NULL;
}

// Which section may yield a result: gradients of parameters come after the loop over time, all
// others from each run.
static const char *check_result(const checker *c, const tile_result *result) {
  const tile_program *p = c->program;
  const char *wrong = check_place(c, &result->place, true);
  if (wrong) return wrong;
  if (result->value < 0 || result->value >= p->values.count) return "no such value";
  axis_set have = p->values.items[result->value].axes;
  axis_set want = tile_place_axes(p, &result->place);
  if (!within(want, have)) return "the value lacks an axis of its place";
  bool gradient = result->place.role >= TILE_D_INPUT;
  if (!within(have & ~want, gradient ? p->grid : 0))
    return "the value has an axis that its place lacks";
  tile_section section = c->section[result->value];
  if (result->place.role == TILE_D_PARAM)
    return section == TILE_BODY ? "the gradient of a parameter is not accumulated" : NULL;
  return section == TILE_EPILOGUE ? "a result of each run stands in the epilogue" : NULL;
}

const char *tile_verify(arena *a, const tile_program *program) {
  checker c = {.program = program};
  if (program->axes.count > TILE_MAX_AXES) return "too many axes";
  for (int i = 0; i < program->arguments.count; i++) {
    const char *wrong = check_place(&c, &program->arguments.items[i], false);
    if (wrong) return arena_printf(a, "argument %d: %s", i, wrong);
  }
  // Operands before users first: sections are computed from above.
  for (int i = 0; i < program->values.count; i++) {
    const tile_value *v = &program->values.items[i];
    for (int k = 0; k < tile_arity(v->op); k++)
      if (v->args[k] < 0 || v->args[k] >= i)
        return arena_printf(a, "%%%d (%s): an operand does not stand above its user", i,
                            tile_op_text(v->op));
    if (v->op == TILE_ARGUMENT &&
        (tile_argument_number(v) < 0 || tile_argument_number(v) >= program->arguments.count)) {
      return arena_printf(a, "%%%d (argument): no such argument", i);
    }
  }
  c.section = tile_sections(a, program);
  c.partial = tile_partial(a, program);
  for (int i = 0; i < program->values.count; i++) {
    const char *wrong = check_tile_value(&c, i);
    if (wrong)
      return arena_printf(a, "%%%d (%s): %s", i, tile_op_text(program->values.items[i].op), wrong);
  }
  for (int i = 0; i < program->results.count; i++) {
    const char *wrong = check_result(&c, &program->results.items[i]);
    if (wrong) {
      const char *name = program->results.items[i].place.name;
      return arena_printf(a, "result %d (%s): %s", i, name ? name : "-", wrong);
    }
  }
  return NULL;
}
