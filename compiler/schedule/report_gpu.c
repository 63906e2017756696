// The lines of the report about GPU kernels: their blocks and memory, the modelled time, slices of
// time, and kernels for few instances.
#include <math.h>

#include "compiler/abi/gpu_costs.h"
#include "compiler/base/text.h"
#include "compiler/schedule/cost.h"
#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/reporter.h"

// The tile that an instance has of an axis, or that it computes at a time.
static const char *tiles_text(const reporter *r, const kernel *k) {
  const char *text = "";
  if (k->gpu.lanes == LANES_TILE)
    text = arena_printf(r->a, ", instances of %d %s", k->lane_block,
                        r->body->axes.items[k->lane_axis].name);
  if (k->gpu.lanes == LANES_IN_TURN)
    text = arena_printf(r->a, ", instances of %d %s, one after another", k->lane_block,
                        r->body->axes.items[k->lane_axis].name);
  if (k->gpu.value_entries)
    text = arena_printf(r->a, "%s, tiles of %d %s, one after another", text, k->gpu.value_entries,
                        r->body->axes.items[k->gpu.value_axis].name);
  return text;
}

static const char *resources_text(const reporter *r, const kernel *k,
                                  const report_resources *resources) {
  const report_resources *x = &resources[k - r->kernels->kernels.items];
  const char *tiles = tiles_text(r, k), *scratch = "";
  if (x->scratch_bytes)
    scratch = arena_printf(r->a, ", %lld of scratch", (long long)x->scratch_bytes);
  const char *groups = "";
  if (x->wgmma_products)
    groups =
        arena_printf(r->a, ", %d of %d products by warpgroups", x->wgmma_products, x->products);
  return arena_printf(r->a, "%s; %d threads, %lld bytes of shared memory%s, %d launch%s%s", tiles,
                      x->threads, (long long)x->shared_bytes, scratch, x->launches,
                      x->launches == 1 ? "" : "es", groups);
}

// The work of a kernel of summaries, relative to its work on the columns of states alone.
static double work_with_matrix(const kernel *k) {
  int64_t size = k->transition_size ? k->summary->axes.items[k->value_axis].size : 1;
  return k->transition_size && size != TILE_RUNTIME_SIZE
             ? (double)(size + k->transition_size) / (double)size
             : 1;
}

// Time slices, and what they cost; or why time is not cut.
static void put_slices(const reporter *r, bool back) {
  const kernel *k = reported_kernel(r, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
  fprintf(r->out, "    %-12s", back ? "slices back" : "slices");
  if (!k->summary) {
    fprintf(r->out, "none: %s\n", r->kernels->whole[back]);
    return;
  }
  double cost = cost_of_run(r->a, k->program, r->kernels->clone);
  const tile_program *again = back ? reported_kernel(r, KERNEL_SUMMARY_BACK)->recompute : NULL;
  double more = again ? cost_of_run(r->a, again, r->kernels->clone) : 0;
  if (back && reads_steps_again(k->program))
    cost += cost_of_run(r->a, k->recompute, r->kernels->clone);
  if (again && !reads_steps_again(k->program)) cost += more;
  fprintf(
      r->out,
      "of time where blocks are few, combined: %s; one launch and %.0f %% of the work more, a "
      "summary takes %d step%s\n",
      matrix_text(r->a, r->body, k->summary, k->transition_size),
      100 * (work_with_matrix(k) * cost_of_run(r->a, k->summary, r->kernels->clone) + more) / cost,
      k->gpu.combine_steps, k->gpu.combine_steps == 1 ? "" : "s");
}

static const char *chunks_text(const reporter *r) {
  int forward = reported_kernel(r, KERNEL_FORWARD)->program->chunk,
      back = reported_kernel(r, KERNEL_BACKWARD)->program->chunk;
  if (forward == back) return arena_printf(r->a, "%d at a time", forward);
  return arena_printf(r->a, "%d at a time, %d backward", forward, back);
}

// What a multiprocessor takes for a step of an instance, and what most of that time is for.
static void put_times(const reporter *r, codegen_gpu_options options, codegen_gpu_target target) {
  fprintf(r->out, "    modelled  for %s, cycles of a multiprocessor a step:",
          codegen_gpu_target_name(target));
  for (int back = 0; back < 2; back++) {
    const kernel *k = reported_kernel(r, back ? KERNEL_BACKWARD : KERNEL_FORWARD);
    gpu_time time = gpu_time_of(gpu_plan_of(r->a, k, options), target);
    fprintf(r->out, "%s %s, for %s", back ? "; backward" : " forward",
            count_with_unit(r->a, round(time.cycles)), gpu_limit_text(time.limit));
    if (time.blocks > 1) fprintf(r->out, ", %d blocks at a time", (int)time.blocks);
  }
  fputc('\n', r->out);
}

// The blocks of a call, as the runtime counts them.
static int64_t kernel_blocks(const kernel *k, int64_t instances) {
  if (k->gpu.lanes == LANES_IN_TURN) return (instances + k->lane_block - 1) / k->lane_block;
  return k->gpu.lanes == LANES_TILE ? instances * gpu_tiles(k) : instances;
}

static double kernel_cycles(const kernel *k, int64_t instances, int64_t multiprocessors) {
  return gpu_cost_of_blocks(kernel_blocks(k, instances), multiprocessors, k->gpu.cycles_alone,
                            k->gpu.cycles_each, k->gpu.blocks_each);
}

// Up to how many instances calls take the kernel for few of them.
static int64_t most_instances(const kernel *few, const kernel *usual, int64_t multiprocessors) {
  enum { ROUNDS = 8 };
  int64_t most = 0;
  while (most < ROUNDS * multiprocessors && kernel_cycles(few, most + 1, multiprocessors) <
                                                kernel_cycles(usual, most + 1, multiprocessors))
    most++;
  return most;
}

// A kernel for few instances, and when calls take it.
static void put_few(const reporter *r, const kernel *k, const report_resources *resources,
                    codegen_gpu_target target) {
  enum { STEPS = 64 };
  const kernel *usual = reported_kernel(r, k->kind);
  fprintf(r->out,
          "    few       %s%s; for up to %d instances: %s cycles a step of a block by itself, in "
          "place of %s\n",
          k->kind == KERNEL_FORWARD ? "forward" : "backward", resources_text(r, k, resources),
          (int)most_instances(k, usual, machine_device_of(target).multiprocessors),
          count_with_unit(r->a, round(k->gpu.cycles_alone / (double)STEPS)),
          count_with_unit(r->a, round(usual->gpu.cycles_alone / (double)STEPS)));
}

// The target whose kernels these are.
static codegen_gpu_target reported_target(const reporter *r, codegen_gpu_options options, int kib) {
  options.shared_kib = kib;
  options.warpgroups = kib && reported_kernel(r, KERNEL_FORWARD)->gpu.warpgroups;
  return gpu_target_for(options);
}

char *schedule_report_gpu(arena *a, const recurrence_kernels *kernels, codegen_gpu_options options,
                          const report_resources *resources, int kib) {
  text_stream text;
  reporter r = {
      .a = a, .kernels = kernels, .body = &kernels->recurrence->body, .dtype = options.dtype};
  r.out = text_begin(&text);
  codegen_gpu_target target = reported_target(&r, options, kib);
  const kernel *forward = reported_kernel(&r, KERNEL_FORWARD),
               *backward = reported_kernel(&r, KERNEL_BACKWARD);
  const char *room = kib ? arena_printf(a, "with %d KiB of shared memory: ", kib) : "";
  fprintf(r.out, "  gpu         %s%s, %s, %d steps between saved states, %s\n", room, kernels->form,
          chunks_text(&r), kernels->chunk,
          kernel_has_own_lanes(forward) ? "a thread for each entry of the lanes"
                                        : "a block of threads for each instance");
  fprintf(r.out, "    forward   %s%s\n", step_cost_text(&r, KERNEL_FORWARD),
          resources_text(&r, forward, resources));
  fprintf(r.out, "    backward  %s%s\n", step_cost_text(&r, KERNEL_BACKWARD),
          resources_text(&r, backward, resources));
  put_times(&r, options, target);
  for (int i = 0; i < kernels->kernels.count; i++)
    if (kernels->kernels.items[i].gpu.few)
      put_few(&r, &kernels->kernels.items[i], resources, target);
  for (int back = 0; back < 2 && kernels->recurrence->states.count; back++) put_slices(&r, back);
  return text_end(&text, a);
}
