// Building tile programs: the table of operations, shared values (hash-consing) and the short
// constructors.
//
//   %4 [t,G] = mul %2 %3
//   tile_binary(program, TILE_MUL, x, y) with x = %2, y = %3   ->   %4 again, no new value
//
// Simplification while appending is in fold.c.
#include <string.h>

#include "compiler/base/hash.h"
#include "compiler/base/ice.h"
#include "compiler/tile/tile.h"

typedef enum shape_class {
  SHAPE_LEAF,
  SHAPE_ELEMENTWISE,
  SHAPE_REDUCE,
  SHAPE_DOT,
  SHAPE_first,
  SHAPE_expand,
  SHAPE_rename,
  SHAPE_slice,
  SHAPE_place,
  SHAPE_split,
  SHAPE_join,
  SHAPE_shift,
  SHAPE_prefix,
  SHAPE_segment,
  SHAPE_segment_adjoint,
  SHAPE_scan,
  SHAPE_solve
} shape_class;

// The words of the last column of ops.def.
enum {
  NO_PROPERTY = 0,
#define TILE_PROPERTY(word) word = TILE_##word,
#include "compiler/tile/ops.def"
#undef TILE_PROPERTY
};

static const struct {
  const char *text, *detail;
  int arity;
  shape_class shape;
  double cost, instructions, specials;
  unsigned properties;
} rows[] = {
#define TILE_OP(id, text, detail, arity, shape, vjp, cost, instructions, specials, properties) \
  {text, detail, arity, SHAPE_##shape, cost, instructions, specials, properties},
#include "compiler/tile/ops.def"
#undef TILE_OP
};

int tile_arity(tile_op op) { return rows[op].arity; }

const char *tile_op_text(tile_op op) { return rows[op].text; }

const char *tile_op_detail(tile_op op) { return rows[op].detail; }

tile_op tile_op_find(const char *text) {
  for (int op = 0; op < TILE_OP_COUNT; op++)
    if (strcmp(rows[op].text, text) == 0) return (tile_op)op;
  return TILE_OP_COUNT;
}

bool tile_elementwise(tile_op op) { return rows[op].shape == SHAPE_ELEMENTWISE; }

double tile_op_cost(tile_op op) { return rows[op].cost; }

double tile_op_instructions(tile_op op) { return rows[op].instructions; }

double tile_op_specials(tile_op op) { return rows[op].specials; }

bool tile_op_is(tile_op op, unsigned properties) { return (rows[op].properties & properties) != 0; }

static const char *const role_texts[] = {"input",    "param",   "state",   "stash",
                                         "d.output", "d.next",  "output",  "next",
                                         "keep",     "d.input", "d.param", "d.state"};

const char *tile_role_text(tile_role role) { return role_texts[role]; }

bool tile_role_is_result(tile_role role) { return role >= TILE_OUTPUT; }

// ---- programs --------------------------------------------------------------------------------

tile_program *tile_program_new(arena *a, const char *name, const typed_body *body, tile_form form,
                               int chunk) {
  tile_program *program = ARENA_NEW(a, tile_program);
  program->arena = a;
  program->name = name;
  program->form = form;
  program->chunk = form == TILE_STEP ? 1 : chunk;
  program->time_axis = program->pair_axis = -1;
  bool s_taken = false;
  for (int i = 0; i < body->axes.count; i++) {
    const typed_axis *axis = &body->axes.items[i];
    int64_t size = axis->size == TYPED_RUNTIME_SIZE ? TILE_RUNTIME_SIZE : axis->size;
    vec_push(program->arena, &program->axes,
             (tile_axis){.name = axis->name, .size = size, .body_axis = i});
    if (strcmp(axis->name, "s") == 0) s_taken = true;
  }
  if (form == TILE_CHUNK) {
    program->time_axis = program->axes.count;
    vec_push(program->arena, &program->axes,
             (tile_axis){.name = "t", .size = chunk, .body_axis = -1});
    program->pair_axis = program->axes.count;
    // The body may have an axis called s; a name with a prime collides with none.
    vec_push(program->arena, &program->axes,
             (tile_axis){.name = s_taken ? "s'" : "s", .size = chunk, .body_axis = -1});
  }
  return program;
}

tile_program *tile_program_like(arena *a, const char *name, const tile_program *program) {
  tile_program *like = ARENA_NEW(a, tile_program);
  like->arena = a;
  like->name = name;
  like->form = program->form;
  like->chunk = program->chunk;
  like->host = program->host;
  like->time_axis = program->time_axis;
  like->pair_axis = program->pair_axis;
  like->grid = program->grid;
  for (int i = 0; i < program->axes.count; i++) vec_push(a, &like->axes, program->axes.items[i]);
  for (int i = 0; i < program->arguments.count; i++)
    vec_push(a, &like->arguments, program->arguments.items[i]);
  return like;
}

tile_program *tile_program_copy(arena *a, const tile_program *program) {
  tile_program *copy = ARENA_NEW(a, tile_program);
  *copy = *program;
  copy->arena = a;
  copy->name = arena_strdup(a, program->name);
  vec_keep(a, &copy->axes);
  vec_keep(a, &copy->arguments);
  vec_keep(a, &copy->values);
  vec_keep(a, &copy->results);
  copy->table = ARENA_ARRAY(a, int32_t, program->table_size);
  if (program->table_size)
    memcpy(copy->table, program->table, (size_t)program->table_size * sizeof *copy->table);
  return copy;
}

tile_program *tile_program_out_of(arena *scratch, arena *a, const tile_program *program) {
  tile_program *copy = tile_program_copy(a, program);
  arena_free(scratch);
  return copy;
}

int tile_axis_new(tile_program *program, const char *name, int64_t size) {
  if (!tile_axes_left(program)) ICE("tile", "%s has no room for axis %s", program->name, name);
  if (size < 1) ICE("tile", "axis %s of %s has no size", name, program->name);
  vec_push(program->arena, &program->axes,
           (tile_axis){.name = name, .size = size, .body_axis = -1});
  return program->axes.count - 1;
}

int tile_axes_left(const tile_program *program) { return TILE_MAX_AXES - program->axes.count; }

axis_set tile_body_axes(const tile_place *place) {
  axis_set axes = 0;
  for (int i = 0; i < place->axis_count; i++) axes |= axis_bit(place->axes[i]);
  return axes;
}

axis_set tile_place_axes(const tile_program *program, const tile_place *place) {
  bool steps = place->time && program->form == TILE_CHUNK;
  return tile_body_axes(place) | (steps ? axis_bit(program->time_axis) : 0);
}

tile_place tile_tensor_place(tile_role role, const typed_body *body, int tensor, int component) {
  const typed_tensor *t = &body->tensors.items[tensor];
  tile_place place = {.role = role,
                      .tensor = tensor,
                      .lag = -1,
                      .component = component,
                      .stash = -1,
                      .axis_count = t->axis_count,
                      .time = t->kind == TENSOR_INPUT || t->kind == TENSOR_OUTPUT,
                      .name = t->name};
  for (int i = 0; i < t->axis_count; i++) place.axes[i] = t->axes[i];
  return place;
}

void tile_find_grid(tile_program *program) {
  axis_set consumed = 0;
  vec_each(const tile_value, v, program->values) {
    switch (rows[v->op].shape) {
      case SHAPE_REDUCE:
      case SHAPE_DOT:
      case SHAPE_first: consumed |= v->over; break;
      case SHAPE_rename:
        consumed |= axis_bit(tile_renamed_from(v)) | axis_bit(tile_renamed_to(v));
        break;
      case SHAPE_slice:
      case SHAPE_place: consumed |= axis_bit(tile_entry_axis(v)); break;
      case SHAPE_split:
      case SHAPE_join: consumed |= axis_bit(tile_whole_axis(v)); break;
      case SHAPE_shift: consumed |= axis_bit(tile_shift_axis(v)); break;
      case SHAPE_prefix: consumed |= axis_bit(tile_step_axis(v)); break;
      case SHAPE_segment:
      case SHAPE_segment_adjoint:
        consumed |= axis_bit(tile_step_axis(v)) | axis_bit(tile_other_step_axis(v));
        break;
      case SHAPE_solve:
        consumed |= axis_bit(tile_row_axis(v)) | axis_bit(tile_column_axis(v));
        break;
      case SHAPE_LEAF:
        if (v->op == TILE_CAUSAL)
          consumed |= axis_bit(tile_step_axis(v)) | axis_bit(tile_other_step_axis(v));
        break;
      default: break;
    }
  }
  program->grid = 0;
  for (int i = 0; i < program->axes.count; i++)
    if (program->axes.items[i].body_axis >= 0 && !axis_in(consumed, i))
      program->grid |= axis_bit(i);
}

// ---- shared values ---------------------------------------------------------------------------

axis_set tile_axes_of(const tile_program *program, const tile_value *v) {
  axis_set of[3] = {0, 0, 0}, all = 0;
  for (int i = 0; i < rows[v->op].arity; i++) {
    of[i] = program->values.items[v->args[i]].axes;
    all |= of[i];
  }
  switch (rows[v->op].shape) {
    case SHAPE_LEAF:
      switch (v->op) {
        case TILE_INDEX: return axis_bit(tile_index_axis(v));
        case TILE_VALID:
        case TILE_AT_END: return program->time_axis < 0 ? 0 : axis_bit(program->time_axis);
        case TILE_ARGUMENT: return tile_place_axes(program, tile_place_of(program, v));
        case TILE_CAUSAL: return axis_bit(tile_step_axis(v)) | axis_bit(tile_other_step_axis(v));
        default: return 0;
      }
    case SHAPE_ELEMENTWISE:
    case SHAPE_first: return all;
    case SHAPE_REDUCE:
    case SHAPE_DOT: return all & ~v->over;
    case SHAPE_expand: return all | v->over;
    case SHAPE_rename:
      return (all & ~axis_bit(tile_renamed_from(v))) | axis_bit(tile_renamed_to(v));
    case SHAPE_slice: return all & ~axis_bit(tile_entry_axis(v));
    case SHAPE_place: return all | axis_bit(tile_entry_axis(v));
    case SHAPE_split:
      return (all & ~axis_bit(tile_whole_axis(v))) | axis_bit(tile_outer_axis(v)) |
             axis_bit(tile_inner_axis(v));
    case SHAPE_join:
      return (all & ~axis_bit(tile_outer_axis(v)) & ~axis_bit(tile_inner_axis(v))) |
             axis_bit(tile_whole_axis(v));
    case SHAPE_shift:
    case SHAPE_prefix: return all;
    case SHAPE_segment: return all | axis_bit(tile_other_step_axis(v));
    case SHAPE_segment_adjoint: return all & ~axis_bit(tile_other_step_axis(v));
    case SHAPE_scan: return (all & ~v->over) | tile_scan_axes(v);
    case SHAPE_solve: return (of[0] & ~axis_bit(tile_column_axis(v))) | of[1];
  }
  ICE("tile", "operation %d has no shape rule", (int)v->op);
}

static uint64_t hash_tile_value(const tile_value *v) {
  uint64_t h = hash_mix(0, (uint64_t)v->op);
  for (int i = 0; i < rows[v->op].arity; i++) h = hash_mix(h, (uint64_t)v->args[i]);
  h = hash_mix(h, v->over);
  h = hash_mix(h, number_bits(v->number));
  h = hash_mix(h, (uint64_t)(uint32_t)v->index << 32 | (uint32_t)v->index2);
  h = hash_mix(h, (uint32_t)v->index3);
  return h;
}

static bool same_tile_value(const tile_value *a, const tile_value *b) {
  if (a->op != b->op || a->over != b->over || a->index != b->index || a->index2 != b->index2 ||
      a->index3 != b->index3 || number_bits(a->number) != number_bits(b->number)) {
    return false;
  }
  for (int i = 0; i < rows[a->op].arity; i++)
    if (a->args[i] != b->args[i]) return false;
  return true;
}

static void table_insert(tile_program *program, tile_id id) {
  uint64_t mask = (uint64_t)program->table_size - 1;
  uint64_t at = hash_tile_value(&program->values.items[id]) & mask;
  while (program->table[at]) at = (at + 1) & mask;
  program->table[at] = id + 1;
}

static void table_grow(tile_program *program) {
  program->table_size = program->table_size ? 2 * program->table_size : 64;
  program->table = ARENA_ARRAY(program->arena, int32_t, program->table_size);
  for (int i = 0; i < program->values.count; i++) table_insert(program, i);
}

tile_id tile_find(const tile_program *program, tile_value value) {
  if (!program->table_size) return NO_TILE;
  uint64_t mask = (uint64_t)program->table_size - 1;
  for (uint64_t at = hash_tile_value(&value) & mask; program->table[at]; at = (at + 1) & mask) {
    tile_id found = program->table[at] - 1;
    if (same_tile_value(&program->values.items[found], &value)) return found;
  }
  return NO_TILE;
}

tile_id tile_append_exact(tile_program *program, tile_value value) {
  int arity = rows[value.op].arity;
  for (int i = 0; i < arity; i++)
    if (value.args[i] < 0 || value.args[i] >= program->values.count)
      ICE("tile", "operand %d of %s is not a value of %s", i, rows[value.op].text, program->name);
  for (int i = arity; i < 3; i++) value.args[i] = NO_TILE;
  tile_id found = tile_find(program, value);
  if (found != NO_TILE) {
    tile_value *old = &program->values.items[found];
    if (!old->name) old->name = value.name;
    return found;
  }
  if (2 * (program->values.count + 1) > program->table_size) table_grow(program);
  value.axes = tile_axes_of(program, &value);
  if (!value.where.source) value.where = program->where;
  for (int i = arity; i-- > 0 && !value.where.source;)
    value.where = program->values.items[value.args[i]].where;
  tile_id id = program->values.count;
  vec_push(program->arena, &program->values, value);
  table_insert(program, id);
  return id;
}

// ---- short constructors ----------------------------------------------------------------------

tile_id tile_number(tile_program *program, double number) {
  return tile_append(program, (tile_value){.op = TILE_NUMBER, .number = number});
}

tile_id tile_leaf(tile_program *program, tile_op op, int index) {
  tile_value value = {.op = op, .index = index};
  if (op == TILE_CAUSAL) {
    value.index2 = program->time_axis;
    value.index3 = program->pair_axis;
  }
  return tile_append(program, value);
}

tile_id tile_unary(tile_program *program, tile_op op, tile_id x) {
  return tile_append(program, (tile_value){.op = op, .args = {x}});
}

tile_id tile_binary(tile_program *program, tile_op op, tile_id x, tile_id y) {
  return tile_append(program, (tile_value){.op = op, .args = {x, y}});
}

tile_id tile_select(tile_program *program, tile_id condition, tile_id x, tile_id y) {
  return tile_append(program, (tile_value){.op = TILE_SELECT, .args = {condition, x, y}});
}

tile_id tile_seldom(tile_program *program, tile_id condition, tile_id x, tile_id y) {
  return tile_append(program, (tile_value){.op = TILE_SELDOM, .args = {condition, x, y}});
}

tile_id tile_reduce(tile_program *program, tile_op op, tile_id x, axis_set over) {
  return tile_append(program, (tile_value){.op = op, .args = {x}, .over = over});
}

tile_id tile_dot(tile_program *program, tile_id x, tile_id y, axis_set over) {
  return tile_append(program, (tile_value){.op = TILE_DOT, .args = {x, y}, .over = over});
}

tile_id tile_indexed(tile_program *program, tile_op op, tile_id x, int index, int index2) {
  if (op == TILE_PREFIX || op == TILE_SEGMENT || op == TILE_SEGMENT_ADJOINT)
    return tile_along(program, op, x, index, program->time_axis, program->pair_axis);
  tile_value value = {.op = op, .args = {x}, .index = index, .index2 = index2};
  return tile_append(program, value);
}

tile_id tile_along(tile_program *program, tile_op op, tile_id x, int kind, int axis, int pair) {
  tile_value value = {.op = op, .args = {x}, .index = kind, .index2 = axis};
  if (op != TILE_PREFIX) value.index3 = pair;
  return tile_append(program, value);
}

tile_id tile_regroup(tile_program *program, tile_op op, tile_id x, int axis, int outer, int inner) {
  tile_value value = {.op = op, .args = {x}, .index = axis, .index2 = outer, .index3 = inner};
  return tile_append(program, value);
}

tile_id tile_scan(tile_program *program, tile_id a, tile_id re, tile_id im, int axis, int part,
                  bool from_end) {
  tile_value value = {.op = part < 0 ? TILE_SCAN : TILE_SCAN_PAIR,
                      .args = {a, re, im},
                      .index = from_end ? 2 : 0,
                      .index2 = axis,
                      .index3 = part};
  if (part < 0) value.args[2] = value.index3 = 0;
  return tile_append(program, value);
}

tile_id tile_scan_joint(tile_program *program, tile_id a, tile_id x, int axis, int from, int to,
                        bool from_end) {
  tile_value value = {.op = TILE_SCAN_JOINT,
                      .args = {a, x},
                      .over = axis_bit(from),
                      .index = from_end ? 2 : 0,
                      .index2 = axis,
                      .index3 = to};
  return tile_append(program, value);
}

tile_id tile_solve(tile_program *program, tile_id matrix, tile_id r, int row, int pair,
                   bool transposed) {
  tile_value value = {
      .op = TILE_SOLVE, .args = {matrix, r}, .index = row, .index2 = pair, .index3 = transposed};
  return tile_append(program, value);
}

tile_id tile_argument(tile_program *program, tile_place place) {
  vec_push(program->arena, &program->arguments, place);
  tile_value value = {
      .op = TILE_ARGUMENT, .index = program->arguments.count - 1, .name = place.name};
  return tile_append(program, value);
}

void tile_add_result(tile_program *program, tile_place place, tile_id value) {
  axis_set wanted = tile_place_axes(program, &place);
  value = tile_reduce(program, TILE_EXPAND, value, wanted);
  vec_push(program->arena, &program->results, (tile_result){.place = place, .value = value});
}

tile_value tile_with_images(tile_value value, const tile_id *image) {
  for (int k = 0; k < rows[value.op].arity; k++) value.args[k] = image[value.args[k]];
  return value;
}

void tile_copy_results(tile_program *to, const tile_program *from, const tile_id *image) {
  for (int i = 0; i < from->results.count; i++) {
    tile_result result = from->results.items[i];
    result.value = image[result.value];
    vec_push(to->arena, &to->results, result);
  }
}

void tile_add_results(tile_program *to, const tile_program *from, const tile_id *image) {
  for (int i = 0; i < from->results.count; i++)
    tile_add_result(to, from->results.items[i].place, image[from->results.items[i].value]);
}

bool tile_is_number(const tile_program *program, tile_id x, double number) {
  const tile_value *v = &program->values.items[x];
  return v->op == TILE_NUMBER && v->number == number;
}

int tile_parameter_matrix(const tile_program *program, const tile_section *sections, tile_id sum) {
  const tile_value *v = &program->values.items[sum];
  const tile_value *mul = v->op == TILE_SUM ? &program->values.items[v->args[0]] : v;
  if (v->op != TILE_SUM || mul->op != TILE_MUL) return -1;
  int matrix = sections[mul->args[0]] == TILE_PROLOGUE ? 0 : 1;
  tile_id w = mul->args[matrix], x = mul->args[!matrix];
  if (sections[w] != TILE_PROLOGUE || sections[x] != TILE_BODY) return -1;
  axis_set of_w = program->values.items[w].axes, of_x = program->values.items[x].axes;
  return (of_w & ~of_x) && !(v->over & ~(of_w & of_x)) ? matrix : -1;
}

int *tile_count_uses(arena *a, const tile_program *program) {
  int *uses = ARENA_ARRAY(a, int, program->values.count);
  vec_each(const tile_value, v, program->values) {
    for (int k = 0; k < tile_arity(v->op); k++) uses[v->args[k]]++;
  }
  for (int i = 0; i < program->results.count; i++) uses[program->results.items[i].value]++;
  return uses;
}

bool tile_has_op(const tile_program *program, tile_op op) {
  for (int i = 0; i < program->values.count; i++)
    if (program->values.items[i].op == op) return true;
  return false;
}

bool tile_has_products(const tile_program *program) {
  return tile_has_op(program, TILE_DOT) || tile_has_op(program, TILE_SOLVE);
}
