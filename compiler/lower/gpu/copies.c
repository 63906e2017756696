// GPU: copies of states among the threads of a block, one function for all copies of one shape.
//
//   S in shared memory <- h0, saved states; saved states, hT <- S      call rec_copy_..(to, from, strides)
//
// A kernel copies each of its states at several places, and each copy exists in two ways: by 16
// bytes and by single numbers.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <string.h>

#include "compiler/lower/gpu/nests.h"

const char *gpu_short_name(emitter *e, const char *what, const char *parts) {
  return arena_printf(e->a, "rec_%s_%016llx", what,
                      (unsigned long long)XXH64(parts, strlen(parts), 0));
}

// The members of a view that are known at run time alone, in order.
typedef struct view_parts {
  int count;
  ir parts[PLAN_MAX_AXES + 4];
} view_parts;

static void list_part(view_parts *x, ir *part, ir *with) {
  int64_t n;
  if (!*part || int_known(*part, &n)) return;
  if (with) *part = with[x->count];
  x->parts[x->count++] = *part;
}

// Lists them; `with`: replaces them by these.
static view_parts view_parts_of(view *v, ir *with) {
  view_parts x = {0};
  list_part(&x, &v->base, with);
  list_part(&x, &v->offset, with);
  list_part(&x, &v->aligned, with);
  list_part(&x, &v->present, with);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++) list_part(&x, &v->stride[axis], with);
  return x;
}

// The view, from the first element of the instance on.
static view of_instance(lower *l, const view *v, axis_set axes) {
  view own = *v;
  axis_set cut = axes & l->m->instance;
  if (cut) own.base = view_address(l, v, &l->outside, cut);
  for (int axis = 0; axis < PLAN_MAX_AXES; axis++)
    if (axis_in(l->m->instance, axis) || !axis_in(axes, axis)) own.stride[axis] = NULL;
  return own;
}

static const char *name_of_tiles(arena *a, const view *v) {
  return v->width ? arena_printf(a, "_tiles%d_%lld", v->width, (long long)v->tile) : "";
}

static const char *name_of_view(lower *l, const view *v, axis_set tile) {
  arena *a = l->e->a;
  const char *name = arena_printf(
      a, "_%u%d_%d_%d_%d_%d%s%s%s%s", LLVMGetPointerAddressSpace(LLVMTypeOf(v->base)), v->stored,
      v->layout.pattern, v->layout.line, v->layout.group, v->alignment, v->offset ? "_offset" : "",
      v->aligned ? "_asks" : "", v->present ? "_optional" : "", name_of_tiles(a, v));
  for (int axis = 0; axis < l->p->program->axes.count; axis++) {
    int64_t stride = 0;
    if (!axis_in(tile, axis)) continue;
    if (v->stride[axis]) int_known(v->stride[axis], &stride);
    const char *text = arena_printf(a, "%lld", (long long)stride);
    name = arena_printf(a, "%s_%s", name, !v->stride[axis] ? "x" : stride ? text : "n");
  }
  return name;
}

static const char *view_copy_name(lower *l, const view_copy *c, axis_set tile) {
  arena *a = l->e->a;
  const char *name = arena_printf(a, "_%d", l->team->threads);
  loop_axes all = lower_by_rank(l, tile);
  for (int i = 0; i < all.count; i++)
    name = arena_printf(a, "%s_%lld", name, (long long)known_size(l, all.axes[i]));
  name = arena_printf(a, "%s%s", name, name_of_view(l, &c->to, tile));
  return c->from ? arena_printf(a, "%s%s", name, name_of_view(l, c->from, tile)) : name;
}

static void open_function(lower *l, emitter *inside, view_copy c, axis_set tile, ir *args) {
  lower here = *l;
  view from;
  view_parts to = view_parts_of(&c.to, args);
  if (c.from) {
    from = *c.from;
    view_parts_of(&from, args + to.count);
    c.from = &from;
  }
  here.e = inside;
  here.outside = (place_in_loops){.vector_axis = -1};
  l->target->enter(&here);
  c.axes = tile;
  lower_copy_loops(&here, tile, false, lower_copy_point, &c);
}

// Does the copy go by a call? A copy within shared memory is shorter than a call.
static bool copies_by_call(const lower *l, const view_copy *c, axis_set tile) {
  const view *views[] = {&c->to, c->from};
  if (!l->team->shares || !plan_sized(l->p->program, tile)) return false;
  for (int i = 0; i < 2; i++)
    if (views[i] && LLVMGetPointerAddressSpace(LLVMTypeOf(views[i]->base)) == GPU_GLOBAL)
      return true;
  return false;
}

static void copy_by_call(lower *l, const view_copy *copy, axis_set tile) {
  emitter *e = l->e, inside;
  view_copy c = *copy;
  view from;
  c.to = of_instance(l, &copy->to, copy->axes);
  if (c.from) from = of_instance(l, copy->from, copy->axes), c.from = &from;
  view_parts to = view_parts_of(&c.to, NULL), old = {0};
  if (c.from) old = view_parts_of(&from, NULL);
  ir args[2 * (PLAN_MAX_AXES + 4)], own[2 * (PLAN_MAX_AXES + 4)], function;
  LLVMTypeRef types[2 * (PLAN_MAX_AXES + 4)];
  int count = to.count + old.count;
  for (int i = 0; i < count; i++) {
    args[i] = i < to.count ? to.parts[i] : old.parts[i - to.count];
    types[i] = LLVMTypeOf(args[i]);
  }
  LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, (unsigned)count, 0);
  if (emit_shared(e, gpu_short_name(e, "copy", view_copy_name(l, &c, tile)), type, &function,
                  &inside, own)) {
    open_function(l, &inside, c, tile, own);
    emit_shared_end(&inside);
  }
  LLVMBuildCall2(e->b, type, function, args, (unsigned)count, "");
}

static void copy_here(lower *l, const view_copy *c) {
  team *all = l->team, own = gpu_team_of_nest(l, 0);
  l->team = &own;
  lower_copy_by_loops(l, c);
  l->team = all;
}

void gpu_copy_view(lower *l, const view_copy *c) {
  axis_set tile = plan_tile_axes(l->m, c->axes);
  copies_by_call(l, c, tile) ? copy_by_call(l, c, tile) : copy_here(l, c);
}
