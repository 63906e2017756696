// Results that several work items of a GPU add to: a copy for each of them, and their sums
// (gpu_frame.h).
#include "runtime/support/error.h"
#include "runtime/support/gpu_pass.h"
#include "runtime/support/stage.h"

// ---- copies ----------------------------------------------------------------------------------

// As gpu_frame.h numbers them.
static int64_t copies_of(const gpu_pass *p, const rec_table_slot *slot) {
  const rec_table_kernel *base = &p->kernel->base;
  const int32_t *grid = table_at(p->call->table, base->grid_at);
  const rec_table_memory *memory = table_memory(p->call->table, slot->memory);
  int64_t copies = (memory->per_batch ? 1 : p->copies) * (memory->token ? 1 : p->slices);
  for (int i = 0; i < base->grid_count; i++)
    if (slot->summed >> grid[i] & 1) copies *= p->call->axis_size[grid[i]];
  bool lanes = base->lane_axis >= 0 && (slot->summed >> base->lane_axis & 1);
  return lanes ? copies * p->lane_blocks : copies;
}

bool gpu_has_copies(const gpu_pass *p, const rec_table_slot *slot) {
  if (!slot->accumulated) return false;
  if (slot->single && copies_of(p, slot) == 1) return false;
  return table_memory(p->call->table, slot->memory)->stored != REC_STORED_NUMBER ||
         copies_of(p, slot) > 1;
}

int64_t gpu_copies_bytes(const gpu_pass *p, const rec_table_slot *slot) {
  int64_t numbers = call_total(p->call, table_memory(p->call->table, slot->memory));
  return round_up(numbers * copies_of(p, slot) * (int64_t)sizeof(float), REC_ALIGNMENT);
}

// ---- sums ------------------------------------------------------------------------------------

static int64_t task_entries(const rec_gpu_sum_list *list, const rec_gpu_sum_task *t) {
  return t->of == REC_GPU_OF_STEP ? list->batch : t->of == REC_GPU_OF_ENTRY ? list->entries : 1;
}

static int64_t steps_in(const rec_gpu_sum_list *list, const rec_gpu_sum_task *t) {
  return t->of == REC_GPU_OF_STEP ? list->steps : 1;
}

static int64_t task_total(const rec_gpu_sum_list *list, const rec_gpu_sum_task *t) {
  return task_entries(list, t) * steps_in(list, t) * t->numbers;
}

rec_status gpu_place_copies(gpu_sums *sums, const gpu_pass *p, const rec_table_slot *slot,
                            rec_slot result, char *copies, rec_gpu_slot *placed) {
  static const int64_t copies_limit = INT64_C(1) << 28;
  const call *c = p->call;
  const rec_table_memory *memory = table_memory(c->table, slot->memory);
  rec_gpu_sum_list *list = &sums->all.list;
  int64_t numbers = call_numbers(c, memory), count = copies_of(p, slot);
  if (numbers > UINT32_MAX || count >= copies_limit)
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected at most 4294967295 numbers of %s and 268435455 blocks of a GPU that "
                     "add to them, found %lld and %lld",
                     table_text(c->table, memory->name_at), (long long)numbers, (long long)count);
  if (list->count == 0)
    *list = (rec_gpu_sum_list){.copies = (const float *)(const void *)copies,
                               .batch = c->batch,
                               .entries = call_entries(c),
                               .steps = c->time};
  rec_gpu_sum_task *t = &sums->all.tasks[list->count++];
  *t = (rec_gpu_sum_task){.to = result.data,
                          .to_entry_stride = result.batch_stride,
                          .to_step_stride = result.time_stride,
                          .numbers = (uint32_t)numbers,
                          .copies = (uint32_t)count & 0xfffffff,
                          .stored = (uint32_t)memory->stored & 3,
                          .of = !memory->per_batch ? REC_GPU_OF_ALL
                                : memory->token    ? REC_GPU_OF_STEP
                                                   : REC_GPU_OF_ENTRY};
  sums->wanted = sums->wanted || result.data;
  if (!result.data) return REC_OK;
  *placed = (rec_gpu_slot){.data = copies,
                           .batch_stride = memory->per_batch ? steps_in(list, t) * numbers : 0,
                           .time_stride = memory->token ? numbers : 0,
                           .copy_stride = task_total(list, t)};
  return REC_OK;
}

// What they write.
static int regions_of(const gpu_sums *sums, simt_region regions[REC_GPU_SUM_TASKS]) {
  const rec_gpu_sum_list *list = &sums->all.list;
  int count = 0;
  for (int i = 0; i < list->count; i++) {
    const rec_gpu_sum_task *t = &sums->all.tasks[i];
    int64_t last = (task_entries(list, t) - 1) * t->to_entry_stride +
                   (steps_in(list, t) - 1) * t->to_step_stride;
    int64_t bytes = t->stored == REC_STORED_NUMBER ? 4 : 2;
    if (!t->to || t->numbers == 0) continue;
    regions[count++] = (simt_region){"a sum", t->to, (last + t->numbers) * bytes, true};
  }
  return count;
}

static int64_t bytes_of_copies(const rec_gpu_sum_list *list, const rec_gpu_sum_task *t) {
  return round_up(task_total(list, t) * t->copies * (int64_t)sizeof(float), REC_ALIGNMENT);
}

rec_status gpu_run_sums(const gpu_sums *sums, const gpu_pass *p) {
  simt_region regions[REC_GPU_SUM_TASKS + 1];
  const rec_gpu_sum_list *list = &sums->all.list;
  int64_t most = 0, bytes = 0;
  if (!sums->wanted) return REC_OK;
  for (int i = 0; i < list->count; i++) {
    most = larger(most, task_total(list, &sums->all.tasks[i]));
    bytes += bytes_of_copies(list, &sums->all.tasks[i]);
  }
  int count = regions_of(sums, regions);
  regions[count++] = (simt_region){"copies", (void *)list->copies, bytes, false};
  gpu_launch launch = {.name = "rec_gpu_sum",
                       .simt = p->call->table->simt_sum,
                       .threads = REC_GPU_SUM_THREADS,
                       .parameter = &sums->all,
                       .parameter_bytes = sizeof sums->all,
                       .regions = regions,
                       .region_count = count};
  launch.blocks =
      smaller((most + REC_GPU_SUM_THREADS - 1) / REC_GPU_SUM_THREADS, p->device->blocks);
  return p->device->launch(p->call, &launch);
}
