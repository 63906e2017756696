// Device classes: kernels for the shared memory that every device has, for devices with more of it,
// and for devices with wgmma. The targets decide which classes are scheduled.
//
//   sm_80, sm_90a, sm_100a:   small: for sm_80   large: for sm_100a   groups: for sm_90a
//
// The kernels of a class depend on its own devices and on the small form, which every library has,
// and on no other target. A class whose kernels are hardly cheaper gets none of its own. A kernel
// that is the same in two classes is one function for both.
#include <string.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/gpu/schedule.h"

// ---- kernels that are the same in two classes ----

static bool is_same_work(const kernel *x, const kernel *y) {
  return x->chunk == y->chunk && x->program->chunk == y->program->chunk &&
         x->grid_count == y->grid_count && x->gpu.lanes == y->gpu.lanes &&
         x->lane_axis == y->lane_axis && x->lane_block == y->lane_block &&
         x->gpu.value_axis == y->gpu.value_axis && x->gpu.value_entries == y->gpu.value_entries;
}

// Are two kernels the same function? A larger limit of shared memory changes nothing where it is
// not used.
static bool is_same_form(arena *a, const kernel *x, const kernel *y, codegen_gpu_options options) {
  if (x->kind != y->kind || x->gpu.few != y->gpu.few || !is_same_work(x, y)) return false;
  codegen_gpu_kernel p = codegen_gpu_describe(a, x, options),
                     q = codegen_gpu_describe(a, y, options);
  if (p.wgmma_products != q.wgmma_products) return false;
  return x->gpu.threads == y->gpu.threads && p.shared_bytes == q.shared_bytes &&
         p.nests == q.nests && p.threads == q.threads &&
         p.base.scratch.constant == q.base.scratch.constant;
}

static const kernel *same_in(arena *a, const recurrence_kernels *others, const kernel *k,
                             codegen_gpu_options options) {
  for (int i = 0; others && i < others->kernels.count; i++)
    if (is_same_form(a, &others->kernels.items[i], k, options)) return &others->kernels.items[i];
  return NULL;
}

// The same in the first of these lists that has it.
static const kernel *same_as(arena *a, const gpu_forms *others, const kernel *k,
                             codegen_gpu_options options) {
  const kernel *same = same_in(a, others->small, k, options);
  return same ? same : same_in(a, others->large, k, options);
}

// Takes the kernels of other classes where they are the same, and names those that are new.
static void share_forms(arena *a, recurrence_kernels *own, const gpu_forms *others,
                        const char *name, codegen_gpu_options options) {
  vec_each(kernel, k, own->kernels) {
    const kernel *same = same_as(a, others, k, options);
    if (same)
      *k = *same;
    else
      k->symbol = arena_printf(a, "%s_%s", k->symbol, name);
  }
}

enum { CLASSES = 3 };
typedef struct class_form {
  recurrence_kernels *kernels;
  device_class devices;  // that run them
} class_form;

static bool has_function(const recurrence_kernels *kernels, const char *symbol) {
  for (int i = 0; i < kernels->kernels.count; i++)
    if (strcmp(kernels->kernels.items[i].symbol, symbol) == 0) return true;
  return false;
}

// Marks each function with the classes of devices that run it. Devices without a form of their own
// run the small one.
static void mark_devices(gpu_forms *forms) {
  const device_class all = CLASS_SMALL | CLASS_LARGE | CLASS_WARPGROUPS;
  device_class large = forms->large ? CLASS_LARGE : 0,
               groups = forms->warpgroups ? CLASS_WARPGROUPS : 0;
  const class_form of[CLASSES] = {
      {forms->small, all & ~large & ~groups}, {forms->large, large}, {forms->warpgroups, groups}};
  for (int x = 0; x < CLASSES; x++) {
    for (int i = 0; of[x].kernels && i < of[x].kernels->kernels.count; i++) {
      kernel *k = &of[x].kernels->kernels.items[i];
      device_class devices = 0;
      for (int y = 0; y < CLASSES; y++)
        if (of[y].kernels && has_function(of[y].kernels, k->symbol)) devices |= of[y].devices;
      k->gpu.device_class = devices == all ? CLASS_ANY : devices;
    }
  }
}

// ---- what the kernels of another class cost here ----

static double cost_of(const kernel *k, codegen_gpu_target target) {
  return gpu_time_of(k->gpu.plan, target).cost;
}

// A step forward and back.
static double cost_on(const recurrence_kernels *kernels, codegen_gpu_target target) {
  return cost_of(schedule_kernel(kernels, KERNEL_FORWARD), target) +
         cost_of(schedule_kernel(kernels, KERNEL_BACKWARD), target);
}

// Kernels of another class remain where those made for this one are hardly cheaper.
static void keep_as_good(recurrence_kernels *own, const recurrence_kernels *others,
                         codegen_gpu_options options) {
  codegen_gpu_target target = gpu_target_for(options);
  if (!gpu_may_go_together(own, others) || own->kernels.count != others->kernels.count) return;
  for (int i = 0; i < own->kernels.count; i++) {
    kernel *k = &own->kernels.items[i];
    const kernel *other = &others->kernels.items[i];
    if (k->kind == other->kind && cost_of(k, target) >= gpu_cost_worth * cost_of(other, target))
      *k = *other;
  }
}

// ---- the forms of a recurrence ----

bool codegen_gpu_has_target(codegen_gpu_options options, device_class devices) {
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (options.targets >> target & 1 && codegen_gpu_class(target) == devices)
      return !options.shared_kib;
  return false;
}

// The executor has the kernels of all classes.
static bool wants_large(codegen_gpu_options options) {
  return codegen_gpu_has_target(options, CLASS_LARGE) || codegen_gpu_has_target(options, CLASS_ANY);
}

// The kernels of a class in the form of the small ones, chosen for a device of it whatever else is in
// the library; NULL: those of `small` are as good.
static recurrence_kernels *made_for_class(arena *a, const recurrence_kernels *small,
                                          schedule_options schedule, codegen_gpu_options options) {
  schedule.form = schedule_form_find(small->form);  // there is none for "pointwise"
  if (schedule.form == FORM_COUNT) schedule.form = FORM_CHOSEN;
  recurrence_kernels *own = codegen_gpu_schedule(a, small->recurrence, schedule, options);
  codegen_gpu_target target = gpu_target_for(options);
  keep_as_good(own, small, options);
  return cost_on(own, target) < gpu_cost_worth * cost_on(small, target) ? own : NULL;
}

void codegen_gpu_schedule_large(arena *a, gpu_forms *forms, schedule_options schedule,
                                codegen_gpu_options options) {
  if (!wants_large(options)) return;
  options.shared_kib = GPU_LARGE_KIB;
  forms->large = made_for_class(a, forms->small, schedule, options);
  if (!forms->large) return;
  share_forms(a, forms->large, &(gpu_forms){.small = forms->small}, "large", options);
  mark_devices(forms);
}

void codegen_gpu_schedule_groups(arena *a, gpu_forms *forms, schedule_options schedule,
                                 codegen_gpu_options options) {
  if (!codegen_gpu_has_target(options, CLASS_WARPGROUPS)) return;
  options.shared_kib = GPU_LARGE_KIB;
  options.warpgroups = true;
  forms->warpgroups = made_for_class(a, forms->small, schedule, options);
  if (!forms->warpgroups) return;
  share_forms(a, forms->warpgroups, forms, "groups", options);
  mark_devices(forms);
}

// ---- few instances ----

// Adds a kernel for few instances, by the figures of this class. It is shared where another class
// has the same.
static void add_few(arena *a, recurrence_kernels *own, kernel_kind kind, const gpu_forms *others,
                    const char *name, codegen_gpu_options options) {
  int index = own->kernels.count;
  gpu_add_few(a, own, kind, options);
  if (own->kernels.count == index) return;
  kernel *few = &own->kernels.items[index];
  const kernel *same = same_as(a, others, few, options);
  bool named = (others->small && has_function(others->small, few->symbol)) ||
               (others->large && has_function(others->large, few->symbol));
  if (same) {
    few->symbol = same->symbol;
    few->gpu.plan = same->gpu.plan;
  } else if (named) {
    few->symbol = arena_printf(a, "%s_%s_few", schedule_kernel(own, kind)->symbol, name);
  }
}

static void add_few_of_form(arena *a, recurrence_kernels *own, const gpu_forms *others,
                            const char *name, codegen_gpu_options options) {
  if (!own) return;
  add_few(a, own, KERNEL_FORWARD, others, name, options);
  add_few(a, own, KERNEL_BACKWARD, others, name, options);
}

void codegen_gpu_schedule_few(arena *a, gpu_forms *forms, codegen_gpu_options options) {
  gpu_forms before = {0};
  add_few_of_form(a, forms->small, &before, "", options);
  before.small = forms->small;
  if (!options.shared_kib) options.shared_kib = GPU_LARGE_KIB;
  add_few_of_form(a, forms->large, &before, "large", options);
  before.large = forms->large;
  options.warpgroups = true;
  add_few_of_form(a, forms->warpgroups, &before, "groups", options);
  mark_devices(forms);
}

// ---- the kernels of all forms ----

void codegen_gpu_add_kernels(arena *a, const gpu_forms *forms, kernel_list *all) {
  for (int n = 0; forms->small && n < forms->small->kernels.count; n++)
    vec_push(a, all, &forms->small->kernels.items[n]);
  for (int n = 0; forms->large && n < forms->large->kernels.count; n++)
    if ((forms->large->kernels.items[n].gpu.device_class & (CLASS_SMALL | CLASS_LARGE)) ==
        CLASS_LARGE)
      vec_push(a, all, &forms->large->kernels.items[n]);
  for (int n = 0; forms->warpgroups && n < forms->warpgroups->kernels.count; n++)
    if (forms->warpgroups->kernels.items[n].gpu.device_class == CLASS_WARPGROUPS)
      vec_push(a, all, &forms->warpgroups->kernels.items[n]);
}

bool codegen_gpu_is_for(const kernel *k, unsigned targets) {
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (targets >> target & 1 && codegen_gpu_is_of_class(target, k->gpu.device_class)) return true;
  return false;
}
