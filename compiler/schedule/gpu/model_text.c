// The model as text: what it counts of each nest, and the time of the kernel (--emit=gpu-model).
//
//   gla.backward 9 points: 211.5 cycles, waits of its warps; 310 warp instructions, 105.7 of one warp, 24 wavefronts ..
#include "compiler/base/text.h"
#include "compiler/schedule/gpu/model.h"
#include "compiler/schedule/gpu/schedule.h"

static void put_modelled_program(FILE *out, arena *a, const kernel_plan *w, const program_plan *of,
                                 const gpu_speed *device) {
  placed_program p = gpu_placed(w, of);
  double steps = of->program->chunk;
  memory_since *since = plan_memory_since(a, of->p);
  for (int n = 0; n < of->p->nests.count; n++) {
    const plan_nest *nest = &of->p->nests.items[n];
    if (nest->region != REGION_BODY) continue;
    nest_work work = gpu_work_of_nest(a, &p, nest, since, NULL);
    const gpu_work *all = &work.all;
    gpu_limit limit = gpu_longest(all, device, gpu_cost_latency);
    fprintf(out,
            "  %s %d %s: %.1f cycles, for %s; %.1f warp instructions, %.1f of one warp, %.1f "
            "wavefronts, %.1f special, %.0f bytes",
            of->program->name, n, plan_nest_text(nest->kind), gpu_cycles(all, device) / steps,
            gpu_limit_text(limit), all->instructions / steps, all->busiest / steps,
            all->wavefronts / steps, all->specials / steps, all->bytes / steps);
    if (work.begins > 0)
      fprintf(out,
              "; %.2f operations, %.2f accesses, %.2f turns of loops, %.2f begins, %.2f addresses",
              work.operations / steps, work.accesses / steps, work.loops / steps,
              work.begins / steps, work.addresses / steps);
    fprintf(out, "\n");
  }
}

static void put_kernel_model(FILE *out, arena *a, const kernel *k, codegen_gpu_options options) {
  options.shared_kib = k->gpu.shared_kib;
  options.warpgroups = k->gpu.warpgroups;
  codegen_gpu_target target = gpu_target_for(options);
  const gpu_plan *made = gpu_plan_of(a, k, options);
  gpu_machine device = machine_device_of(target);
  gpu_speed speed = gpu_speed_of(&device);
  gpu_time time = gpu_time_of(made, target);
  fprintf(out,
          "%s on %s: %.1f cycles a step, for %s; %.1f alone, %.1f of it for memory, %d blocks at a "
          "time, %d for "
          "an instance; chunks of %d steps, %d threads, %d instances in turn\n",
          k->symbol, codegen_gpu_target_name(target), time.cycles, gpu_limit_text(time.limit),
          time.alone, time.waits, (int)time.blocks, k->gpu.value_entries ? 1 : (int)gpu_tiles(k),
          k->program->chunk, made->described.threads, gpu_heads_in_turn(k));
  if (made->whole->recomputes)
    put_modelled_program(out, a, made->whole, &made->whole->recompute, &speed);
  put_modelled_program(out, a, made->whole, &made->whole->main, &speed);
}

char *gpu_model_text(arena *a, const kernel *const *kernels, int count,
                     codegen_gpu_options options) {
  text_stream text;
  FILE *out = text_begin(&text);
  for (int i = 0; i < count; i++)
    if (codegen_gpu_is_for(kernels[i], options.targets))
      put_kernel_model(out, a, kernels[i], options);
  return text_end(&text, a);
}
