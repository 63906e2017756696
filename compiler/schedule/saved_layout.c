// The layout of what kernels of a recurrence save for one another: alike in all.
//
//   S [H,K,J 4,V]   J, for it fills no vector, K, V: in chunks, and in steps with V in lanes
//
// The order of axes follows from a kernel's programs (plan/kernel/mapping.c), so it could differ.
#include "compiler/base/ice.h"
#include "compiler/plan/kernel_plan.h"
#include "compiler/schedule/scheduler.h"

// The order of axes in what a kernel saves, without those of one entry.
static axis_list saved_order(const scheduler *s, const kernel *k, axis_set axes) {
  mapping m = kernel_mapping_of(k, s->out->clone, NUMBER_F32);
  axis_list all = kernel_saved_order(&m, axes), order = {0};
  for (int i = 0; i < all.count; i++)
    if (k->program->axes.items[all.axes[i]].size != 1) order.axes[order.count++] = all.axes[i];
  return order;
}

// Do two kernels save what has these axes in the same layout?
static bool same_layout(const scheduler *s, const kernel *x, const kernel *y, axis_set axes) {
  axis_list of_x = saved_order(s, x, axes), of_y = saved_order(s, y, axes);
  bool same = of_x.count == of_y.count;
  for (int i = 0; same && i < of_x.count; i++) same = of_x.axes[i] == of_y.axes[i];
  return same;
}

bool scheduler_saves_alike(const scheduler *s, const kernel *x, const kernel *y) {
  bool same = true;
  vec_each(const typed_tensor, t, s->r->body.tensors)
    if (t->kind == TENSOR_STATE) same = same && same_layout(s, x, y, t->axis_set);
  vec_each(const typed_lag, lag, s->r->body.lags) same = same && same_layout(s, x, y, lag->axes);
  const tile_place *kept;
  for (int i = 0; (kept = kernel_kept_value(y, i)); i++)
    same = same && same_layout(s, x, y, tile_body_axes(kept) | axis_bit(y->program->time_axis));
  return same;
}

static void mark_products(recurrence_kernels *kernels) {
  bool any = false;
  vec_each(const kernel, k, kernels->kernels)
    any |= k->program->form == TILE_CHUNK && tile_has_products(k->program);
  for (int i = 0; i < kernels->kernels.count; i++) kernels->kernels.items[i].beside_products = any;
}

static bool touches_saved(const kernel *k) {
  switch (k->kind) {
    case KERNEL_FORWARD:
    case KERNEL_STATES:
    case KERNEL_SLICE: return true;
    default: return kernel_reads_saved(k);
  }
}

static void check_saved(const scheduler *s) {
  const kernel *back = schedule_kernel(s->out, KERNEL_BACKWARD);
  if (!kernel_reads_saved(back)) return;
  vec_each(const kernel, k, s->out->kernels)
    if (touches_saved(k) && !scheduler_saves_alike(s, k, back))
      ICE("schedule", "what %s and %s save is not laid out alike", k->symbol, back->symbol);
}

void scheduler_lay_out_saved(scheduler *s) {
  mark_products(s->out);
  check_saved(s);
}
