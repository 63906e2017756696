// Device classes: kernels for the shared memory that every device has, for devices with more of it, and for devices with wgmma.
// The targets decide which classes are scheduled.
//
//   sm_80, sm_90a, sm_100a:   small: for sm_80   large: for sm_100a   groups: for sm_90a
//
// A class whose kernels are hardly cheaper gets none of its own. A kernel that is the same in two classes is one function for
// both.
#include <string.h>

#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/gpu/schedule.h"
#include "runtime/shared/gpu_costs.h"

// ---- kernels that are the same in two classes ----

static bool is_same_work(const kernel *x, const kernel *y) {
  return x->chunk == y->chunk && x->program->chunk == y->program->chunk && x->grid_count == y->grid_count &&
         x->gpu.lanes == y->gpu.lanes && x->lane_axis == y->lane_axis && x->lane_block == y->lane_block &&
         x->gpu.value_axis == y->gpu.value_axis && x->gpu.value_entries == y->gpu.value_entries;
}

// Are two kernels the same function? A larger limit of shared memory changes nothing where it is not used.
static bool is_same_form(arena *a, const kernel *x, const kernel *y, codegen_gpu_options options) {
  if (x->kind != y->kind || !is_same_work(x, y)) return false;
  codegen_gpu_kernel p = codegen_gpu_describe(a, x, options), q = codegen_gpu_describe(a, y, options);
  if (p.wgmma_products != q.wgmma_products) return false;
  return x->gpu.threads == y->gpu.threads && p.shared_bytes == q.shared_bytes && p.nests == q.nests && p.threads == q.threads &&
         p.base.scratch.constant == q.base.scratch.constant;
}

// Takes the kernel of another class where it is the same; the others are marked as those of `devices`.
static void share_forms(arena *a, recurrence_kernels *own, recurrence_kernels *others, device_class devices,
                        codegen_gpu_options options) {
  for (int i = 0; i < own->kernels.count; i++) {
    kernel *k = &own->kernels.items[i];
    kernel *other = i < others->kernels.count ? &others->kernels.items[i] : NULL;
    if (other && is_same_form(a, other, k, options)) {
      if (other->gpu.device_class) other->gpu.device_class |= devices;
      *k = *other;
      continue;
    }
    k->gpu.device_class = devices;
    k->symbol = arena_printf(a, "%s_%s", k->symbol, devices == CLASS_LARGE ? "large" : "groups");
  }
}

// Kernels for all classes that have a form of their own in this class remain for the others.
static void leave_class(recurrence_kernels *kernels, const recurrence_kernels *own, device_class others) {
  for (int i = 0; i < kernels->kernels.count && i < own->kernels.count; i++) {
    kernel *k = &kernels->kernels.items[i];
    if (k->gpu.device_class == CLASS_ANY && own->kernels.items[i].gpu.device_class) k->gpu.device_class = others;
  }
}

// A function of two classes is marked with both.
static void unite_classes(recurrence_kernels *some, recurrence_kernels *others) {
  for (int i = 0; i < some->kernels.count && i < others->kernels.count; i++) {
    kernel *k = &some->kernels.items[i], *other = &others->kernels.items[i];
    if (!k->gpu.device_class || !other->gpu.device_class || strcmp(k->symbol, other->symbol) != 0) continue;
    k->gpu.device_class |= other->gpu.device_class;
    other->gpu.device_class = k->gpu.device_class;
  }
}

// ---- what the kernels of another class cost here ----

static double cost_of(const kernel *k, codegen_gpu_target target) { return gpu_time_of(k->gpu.plan, target).cost; }

// A step forward and back.
static double cost_on(const recurrence_kernels *kernels, codegen_gpu_target target) {
  return cost_of(schedule_kernel(kernels, KERNEL_FORWARD), target) + cost_of(schedule_kernel(kernels, KERNEL_BACKWARD), target);
}

// Kernels of another class remain where those made for this one do not cost less than `worth` times as much: more shared memory
// for a block may leave room for fewer blocks.
static void keep_as_good(recurrence_kernels *own, const recurrence_kernels *others, double worth, codegen_gpu_options options) {
  codegen_gpu_target target = gpu_target_for(options);
  if (!gpu_may_go_together(own, others) || own->kernels.count != others->kernels.count) return;
  for (int i = 0; i < own->kernels.count; i++) {
    kernel *k = &own->kernels.items[i];
    const kernel *other = &others->kernels.items[i];
    if (k->kind == other->kind && cost_of(k, target) >= worth * cost_of(other, target)) *k = *other;
  }
}

// ---- the forms of a recurrence ----

bool codegen_gpu_has_target(codegen_gpu_options options, device_class devices) {
  for (codegen_gpu_target target = 0; target < GPU_TARGET_COUNT; target++)
    if (options.targets >> target & 1 && codegen_gpu_class(target) == devices) return !options.shared_kib;
  return false;
}

// The executor has the kernels of all classes.
static bool wants_large(codegen_gpu_options options) {
  return codegen_gpu_has_target(options, CLASS_LARGE) || codegen_gpu_has_target(options, CLASS_ANY);
}

static bool wants_groups(codegen_gpu_options options) { return codegen_gpu_has_target(options, CLASS_WARPGROUPS); }

void codegen_gpu_schedule_large(arena *a, gpu_forms *forms, schedule_options schedule, codegen_gpu_options options) {
  if (!wants_large(options) && !wants_groups(options)) return;
  options.shared_kib = GPU_LARGE_KIB;
  recurrence_kernels *large = codegen_gpu_schedule(a, forms->small->recurrence, schedule, options);
  codegen_gpu_target target = gpu_target_for(options);
  keep_as_good(large, forms->small, gpu_cost_worth, options);
  if (cost_on(large, target) >= gpu_cost_worth * cost_on(forms->small, target)) return;
  share_forms(a, large, forms->small, CLASS_LARGE, options);
  leave_class(forms->small, large, CLASS_SMALL);
  forms->large = large;
}

// Devices with wgmma run the kernels with large shared memory.
static void give_large_to_groups(gpu_forms *forms) {
  for (int i = 0; forms->large && i < forms->large->kernels.count; i++)
    if (forms->large->kernels.items[i].gpu.device_class == CLASS_LARGE)
      forms->large->kernels.items[i].gpu.device_class |= CLASS_WARPGROUPS;
}

// The share of the cost of others below which kernels with wgmma are worth their room in the library. They take none where they
// replace those with large shared memory, which no other device has.
static double worth_of_groups(const gpu_forms *forms, codegen_gpu_options options) {
  return forms->large && !codegen_gpu_has_target(options, CLASS_LARGE) ? 1 : gpu_cost_worth;
}

void codegen_gpu_schedule_groups(arena *a, gpu_forms *forms, schedule_options schedule, codegen_gpu_options options) {
  if (!wants_groups(options)) return;
  bool has_large = wants_large(options);
  double worth = worth_of_groups(forms, options);
  options.shared_kib = GPU_LARGE_KIB;
  options.warpgroups = true;
  recurrence_kernels *groups = codegen_gpu_schedule(a, forms->small->recurrence, schedule, options);
  const recurrence_kernels *others = forms->large ? forms->large : forms->small;
  codegen_gpu_target target = gpu_target_for(options);
  keep_as_good(groups, others, worth, options);
  if (cost_on(groups, target) >= worth * cost_on(others, target)) {
    give_large_to_groups(forms);
    return;
  }
  if (!has_large) forms->large = NULL;
  share_forms(a, groups, forms->large ? forms->large : forms->small, CLASS_WARPGROUPS, options);
  leave_class(forms->small, groups, forms->large ? CLASS_SMALL : CLASS_SMALL | CLASS_LARGE);
  if (forms->large) {
    leave_class(forms->large, groups, CLASS_LARGE);
    unite_classes(forms->small, forms->large);
  }
  forms->warpgroups = groups;
}

// ---- the kernels of all forms ----

void codegen_gpu_add_kernels(arena *a, const gpu_forms *forms, kernel_list *all) {
  for (int n = 0; forms->small && n < forms->small->kernels.count; n++) vec_push(a, all, &forms->small->kernels.items[n]);
  for (int n = 0; forms->large && n < forms->large->kernels.count; n++)
    if ((forms->large->kernels.items[n].gpu.device_class & (CLASS_SMALL | CLASS_LARGE)) == CLASS_LARGE)
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
