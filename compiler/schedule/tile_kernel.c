// A kernel for a tile program that was read as text, so that its plan can be printed (recc
// --from=tile --emit=plan).
//
//   axis H ? grid          instances along H
//   axis V 64 grid         stays in the tile
//   argument 3 state S[H,K,V] tensor 3     tensor 3 of a body that has what the program names, and no values
#include "compiler/schedule/tile_kernel.h"

static tensor_kind tensor_kind_of_role(tile_role role) {
  switch (role) {
    case TILE_PARAM:
    case TILE_D_PARAM: return TENSOR_PARAM;
    case TILE_OUTPUT:
    case TILE_D_OUTPUT: return TENSOR_OUTPUT;
    case TILE_INPUT:
    case TILE_D_INPUT: return TENSOR_INPUT;
    default: return TENSOR_STATE;
  }
}

static void add_place_tensor(arena *a, typed_body *body, const tile_place *place) {
  while (body->tensors.count <= place->tensor)
    vec_push(a, &body->tensors, ((typed_tensor){.name = "-", .assigned = -1}));
  typed_tensor *t = &body->tensors.items[place->tensor];
  bool complex = t->complex || place->component;
  int *axes = ARENA_ARRAY(a, int, place->axis_count + 1);
  for (int i = 0; i < place->axis_count; i++) axes[i] = place->axes[i];
  *t = (typed_tensor){.kind = tensor_kind_of_role(place->role),
                      .name = place->name ? place->name : "-",
                      .axis_count = place->axis_count,
                      .axes = axes,
                      .axis_set = tile_body_axes(place),
                      .complex = complex,
                      .assigned = -1};
}

static void add_lag(arena *a, typed_body *body, const tile_place *place) {
  while (body->lags.count <= place->lag)
    vec_push(a, &body->lags, ((typed_lag){.name = "-", .input = -1}));
  typed_lag *lag = &body->lags.items[place->lag];
  lag->name = place->name ? place->name : "-";
  lag->axes = tile_body_axes(place);
  lag->complex = lag->complex || place->component;
  if (place->slot >= lag->depth) lag->depth = place->slot + 1;
}

static void add_place(arena *a, typed_body *body, const tile_place *place) {
  if (place->tensor >= 0) add_place_tensor(a, body, place);
  if (place->lag >= 0) add_lag(a, body, place);
}

static const recurrence *tile_recurrence(arena *a, const tile_program *program) {
  recurrence *r = ARENA_NEW(a, recurrence);
  typed_body *body = &r->body;
  body->name = program->name;
  for (int axis = 0; axis < program->axes.count && program->axes.items[axis].body_axis >= 0;
       axis++) {
    const tile_axis *from = &program->axes.items[axis];
    int64_t size = from->size == TILE_RUNTIME_SIZE ? TYPED_RUNTIME_SIZE : from->size;
    vec_push(a, &body->axes, ((typed_axis){.name = from->name, .size = size}));
  }
  for (int i = 0; i < program->arguments.count; i++)
    add_place(a, body, &program->arguments.items[i]);
  for (int i = 0; i < program->results.count; i++)
    add_place(a, body, &program->results.items[i].place);
  return r;
}

static bool program_goes_back(const tile_program *program) {
  for (int i = 0; i < program->results.count; i++) {
    tile_role role = program->results.items[i].place.role;
    if (role == TILE_D_STATE || role == TILE_D_INPUT || role == TILE_D_PARAM) return true;
  }
  return false;
}

kernel *schedule_tile(arena *a, const tile_program *program) {
  kernel *k = ARENA_NEW(a, kernel);
  *k = (kernel){.kind = program_goes_back(program) ? KERNEL_BACKWARD : KERNEL_FORWARD,
                .recurrence = tile_recurrence(a, program),
                .symbol = program->name,
                .program = program,
                .chunk = program->chunk,
                .lane_axis = -1,
                .lane_block = 1,
                .cut = program->grid,
                .beside_products = tile_has_products(program)};
  for (int axis = 0; axis < program->axes.count; axis++)
    if (axis_in(program->grid, axis) && program->axes.items[axis].size == TILE_RUNTIME_SIZE)
      k->grid_axes[k->grid_count++] = axis;
  return k;
}
