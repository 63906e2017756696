// Cuts a kernel's work into tasks and runs them. stage_sums.c then sums the copies of results that
// several tasks add to.
#include "runtime/support/stage.h"

#include <stdatomic.h>
#include <string.h>

#include "runtime/support/cpu.h"
#include "runtime/support/pool.h"

enum {
  TASKS_WANTED = 64,  // enough for any machine's balance; more only costs copies and calls
  GROUPS_MAX = 8,
  STRIPS_MAX = 128,
  LANES_MAX = 128,
  SLICE_STEPS_MIN = 64,
  TASKS_LEAST = 2,  // that sequences taken together leave
};

// A slot during a run: in place, or copies in the workspace.
typedef struct run_slot {
  rec_slot slot;  // of the first copy
  int64_t copies;
  bool apart;       // copies, perhaps a single one
  int64_t numbers;  // of one entry
  int64_t bytes;    // of a number
} run_slot;

// ---- the cut ---------------------------------------------------------------------------------

// Instances of the nest from the first of the axes `from` inwards; of all if `from` is every axis.
static int64_t count_instances(const call *c, const rec_table_kernel *kernel, uint64_t from) {
  const int32_t *grid = table_at(c->table, kernel->grid_at);
  int64_t instances = 1;
  bool inside = false;
  for (int i = 0; i < kernel->grid_count; i++) {
    if (grid[i] == kernel->lane_axis) continue;
    inside |= from >> grid[i] & 1;
    if (inside) instances *= c->axis_size[grid[i]];
  }
  if (kernel->lane_axis < 0) return instances;
  inside |= from >> kernel->lane_axis & 1;  // lane blocks are the innermost
  return inside ? instances * ((c->axis_size[kernel->lane_axis] + kernel->lane_block - 1) /
                               kernel->lane_block)
                : instances;
}

// The largest block of instances that can stay whole while there are enough groups. Instances of a
// block that add to the same entries then do so one after another, without copies.
static int64_t choose_unit(const call *c, const rec_table_kernel *kernel, int64_t instances,
                           int64_t groups) {
  int64_t unit = 1;
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, kernel, i);
    if (!slot->accumulated || slot->summed == 0) continue;
    int64_t block = count_instances(c, kernel, slot->summed);
    if (block > unit && instances / block >= groups) unit = block;
  }
  return unit;
}

static int64_t in_blocks(int64_t whole, int64_t block) { return (whole + block - 1) / block; }

// How many tasks of equal work the batch entries make; sequences make no more than the longest of
// them fits into all steps.
static int64_t equal_tasks(const call *c) {
  return larger(1, c->packed ? c->time / larger(1, c->longest) : c->batch);
}

// Packed sequences of one length lie as those of a batch, and so do their saved states if it is
// whole chunks.
static bool is_regular(const call *c) {
  if (!c->packed) return true;
  return c->longest * c->sequences == c->time && c->longest % c->table->chunk == 0 &&
         !call_runs_alone(c, c->longest);
}

// Sequences that a kernel takes together make one task: not where no other would be left.
static int64_t task_sequences(const call *c, const rec_table_kernel *kernel, int64_t groups) {
  bool enough = call_entries(c) * groups >= TASKS_LEAST * kernel->sequences;
  return kernel->sequences && enough && is_regular(c) ? kernel->sequences : 1;
}

static stage_cut cut_into(const call *c, const rec_table_kernel *kernel, int64_t groups) {
  stage_cut cut = {.instances = count_instances(c, kernel, UINT64_MAX)};
  cut.groups = smaller(cut.instances, smaller(GROUPS_MAX, groups));
  cut.unit = choose_unit(c, kernel, cut.instances, cut.groups);
  cut.sequences = task_sequences(c, kernel, cut.groups);
  cut.strips = smaller(in_blocks(call_entries(c), cut.sequences), STRIPS_MAX);
  cut.slices = 1;
  cut.slice_steps = c->time;
  if (kernel->time_splits && !c->packed && cut.strips > 0) {
    int64_t wanted = larger(1, TASKS_WANTED / (cut.strips * cut.groups));
    cut.slice_steps = larger(SLICE_STEPS_MIN, (c->time + wanted - 1) / wanted);
    cut.slice_steps = round_up(cut.slice_steps, c->table->chunk);
    cut.slices = (c->time + cut.slice_steps - 1) / cut.slice_steps;
  } else if (c->slices > 1) {
    cut.slices = c->slices;
    cut.slice_steps = c->slice_steps;
  }
  cut.tasks = cut.strips * cut.groups * cut.slices;
  cut.lanes = smaller(cut.tasks, LANES_MAX);
  int64_t units = cut.instances / cut.unit,
          largest_group = (units + cut.groups - 1) / cut.groups * cut.unit;
  cut.scratch_bytes = round_up(call_count(c, &kernel->scratch, largest_group), REC_ALIGNMENT);
  cut.lane_bytes =
      cut.scratch_bytes + round_up((int64_t)sizeof(rec_slot) * kernel->slot_count, REC_ALIGNMENT);
  return cut;
}

stage_cut stage_plan(const call *c, const rec_table_kernel *kernel) {
  return cut_into(c, kernel, larger(1, TASKS_WANTED / equal_tasks(c)));
}

// Whether two groups may add to the same entries. The blocks are nested, so a unit holds whole
// smaller ones.
static bool groups_collide(const call *c, const rec_table_kernel *kernel, const stage_cut *cut,
                           const rec_table_slot *slot) {
  return cut->groups > 1 && slot->summed != 0 &&
         count_instances(c, kernel, slot->summed) > cut->unit;
}

// Copies of a memory that the kernel adds to: 1 means that it adds in place. A memory of batch
// entries has that many for each entry.
static int64_t stage_copies(const call *c, const rec_table_kernel *kernel, const stage_cut *cut,
                            const rec_table_slot *slot) {
  if (!slot->accumulated) return 1;
  const rec_table_memory *memory = table_memory(c->table, slot->memory);
  int64_t copies = groups_collide(c, kernel, cut, slot) ? cut->groups : 1;
  if (!memory->token) copies *= cut->slices;
  return memory->per_batch ? copies : copies * cut->strips;
}

// Sums are formed in numbers: where the caller stores something narrower, even a single copy lies
// in the workspace.
static bool needs_workspace_sum(const call *c, const rec_table_slot *slot, int64_t copies) {
  const rec_table_memory *memory = table_memory(c->table, slot->memory);
  return copies > 1 || (slot->accumulated && memory->stored != REC_STORED_NUMBER);
}

static int64_t slots_bytes(const rec_table_kernel *kernel) {
  return round_up((int64_t)sizeof(run_slot) * kernel->slot_count, REC_ALIGNMENT);
}

static int64_t copies_bytes(const call *c, const rec_table_memory *memory, int64_t copies) {
  return round_up(call_total(c, memory) * copies * c->table->number_bytes, REC_ALIGNMENT);
}

static int64_t cut_bytes(const call *c, const rec_table_kernel *kernel, stage_cut cut) {
  int64_t bytes = slots_bytes(kernel) + cut.lanes * cut.lane_bytes;
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, kernel, i);
    const rec_table_memory *memory = table_memory(c->table, slot->memory);
    int64_t copies = stage_copies(c, kernel, &cut, slot);
    if (needs_workspace_sum(c, slot, copies)) bytes += copies_bytes(c, memory, copies);
  }
  return bytes;
}

// The lengths of packed sequences decide how many groups there are.
int64_t stage_bytes(const call *c, const rec_table_kernel *kernel) {
  if (!c->packed) return cut_bytes(c, kernel, stage_plan(c, kernel));
  int64_t bytes = 0;
  for (int64_t groups = 1; groups <= GROUPS_MAX; groups++)
    bytes = larger(bytes, cut_bytes(c, kernel, cut_into(c, kernel, groups)));
  return bytes;
}

int64_t stage_step_copies(const call *c, const rec_table_kernel *kernel) {
  stage_cut cut = stage_plan(c, kernel);
  int64_t bytes = 0;
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, kernel, i);
    const rec_table_memory *memory = table_memory(c->table, slot->memory);
    int64_t copies = stage_copies(c, kernel, &cut, slot);
    if (memory->token && needs_workspace_sum(c, slot, copies))
      bytes += c->batch * call_numbers(c, memory) * copies * c->table->number_bytes;
  }
  return bytes;
}

// ---- one run ---------------------------------------------------------------------------------

typedef struct run {
  const call *call;
  const rec_table_kernel *kernel;
  stage_cut cut;
  stage_saved saved;
  const stage_slices *slices;
  run_slot *slots;
  char *lane_memory;
  rec_kernel_function function;
  int64_t first_strip;  // begun first
  _Atomic int64_t next;
} run;

static int64_t cut_at(int64_t total, int64_t slices, int64_t i) { return total * i / slices; }

static void *element_address(void *data, int64_t index, int64_t bytes) {
  return data ? (char *)data + index * bytes : NULL;
}

// The saved states of a chunk.
static void *chunk_saved(const run *r, int64_t chunk) {
  return element_address(r->saved.data, chunk * r->saved.chunk_stride,
                         r->call->table->number_bytes);
}

static void zero_steps(rec_slot slot, int64_t bytes, int64_t batch, int64_t steps,
                       int64_t numbers) {
  for (int64_t t = 0; t < steps; t++)
    memset(element_address(slot.data, batch * slot.batch_stride + t * slot.time_stride, bytes), 0,
           (size_t)(numbers * bytes));
}

// Groups that do not collide share a copy: each adds to entries of its own. Other results that a
// task adds to, or their copies, are the task's alone.
static bool shares_copy(const run *r, const rec_table_slot *slot) {
  return r->cut.groups > 1 && !groups_collide(r->call, r->kernel, &r->cut, slot);
}

// What a task works on: instances, batch entries (or sequences), steps of each (or of all).
typedef struct task_range {
  int64_t strip, group, slice;
  int64_t first, last;  // instances
  int64_t begin, end;   // entries
  int64_t start, steps;
} task_range;

// Position of a task's copy: of the batch entry where the memory is per batch.
static int64_t copy_index(const run *r, const rec_table_memory *memory, const rec_table_slot *slot,
                          const task_range *t) {
  int64_t index = groups_collide(r->call, r->kernel, &r->cut, slot) ? t->group : 0;
  if (!memory->token) index = index * r->cut.slices + t->slice;
  return memory->per_batch ? index : index * r->cut.strips + t->strip;
}

// A sequence costs its steps and a start.
static int64_t cost_before(const call *c, int64_t sequence) {
  return c->cu_seqlens[sequence] + sequence * (1 + c->table->chunk / 2);
}

// The first entry of a strip: strips of sequences have about equal costs.
static int64_t strip_begin(const run *r, int64_t strip) {
  const call *c = r->call;
  if (!c->packed || r->cut.sequences > 1) {
    int64_t blocks = in_blocks(call_entries(c), r->cut.sequences);
    return smaller(call_entries(c), cut_at(blocks, r->cut.strips, strip) * r->cut.sequences);
  }
  int64_t cost = cut_at(cost_before(c, c->sequences), r->cut.strips, strip);
  int64_t low = 0, high = c->sequences;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (cost_before(c, middle) < cost)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

// The strip of the longest sequence is begun first: nothing then waits for it in the end.
static int64_t find_first_strip(const run *r) {
  if (!r->call->packed) return 0;
  int64_t low = 0, high = r->cut.strips - 1;
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (strip_begin(r, middle + 1) <= r->call->longest_at)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

static task_range task_range_of(const run *r, int64_t task) {
  const call *c = r->call;
  task_range t = {.slice = task % r->cut.slices, .group = task / r->cut.slices % r->cut.groups};
  t.strip = (r->first_strip + task / r->cut.slices / r->cut.groups) % r->cut.strips;
  int64_t units = r->cut.instances / r->cut.unit;
  t.first = cut_at(units, r->cut.groups, t.group) * r->cut.unit;
  t.last = cut_at(units, r->cut.groups, t.group + 1) * r->cut.unit;
  t.begin = strip_begin(r, t.strip);
  t.end = strip_begin(r, t.strip + 1);
  t.start = t.slice * r->cut.slice_steps;
  t.steps = smaller(r->cut.slice_steps, c->time - t.start);
  if (!c->packed) return t;
  t.start = c->cu_seqlens[t.begin];
  t.steps = c->cu_seqlens[t.end] - t.start;
  return t;
}

static void zero_own(const run *r, const task_range *t, const rec_table_memory *memory,
                     const run_slot *s, rec_slot slot) {
  bool entries = memory->per_batch && !(memory->token && r->call->packed);
  int64_t begin = entries ? t->begin : 0, end = entries ? t->end : 1;
  for (int64_t b = begin; b < end; b++)
    zero_steps(slot, s->bytes, b, memory->token ? t->steps : 1, s->numbers);
}

// The slots as the task sees them: from its first step on.
static void place_task(const run *r, const task_range *t, rec_slot *slots) {
  const call *c = r->call;
  for (int i = 0; i < r->kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, r->kernel, i);
    const rec_table_memory *memory = table_memory(c->table, slot->memory);
    const run_slot *s = &r->slots[i];
    slots[i] = s->slot;
    if (r->slices && stage_is_state(memory)) {
      slots[i].data = r->slices->state(r->slices->context, slot->memory, t->slice);
      continue;
    }
    if (!s->slot.data) continue;
    int64_t offset = memory->token ? t->start * s->slot.time_stride : 0;
    if (s->apart) {
      int64_t copy_numbers = s->numbers * (memory->token ? c->time : 1);
      offset += copy_index(r, memory, slot, t) * copy_numbers;
    }
    slots[i].data = element_address(s->slot.data, offset, s->bytes);
    if (slot->accumulated && !shares_copy(r, slot)) zero_own(r, t, memory, s, slots[i]);
  }
}

// Batch entries, or packed sequences that lie as such.
static void run_entries(const run *r, const task_range *t, rec_frame *frame, void *scratch) {
  for (int64_t b = t->begin; b < t->end; b += frame->sequences) {
    frame->sequences = t->end - b >= r->cut.sequences ? r->cut.sequences : 1;
    r->function(frame, b, t->first, t->last, scratch);
  }
}

// Packed sequences of one length; slots have the tokens of the task's first one.
static void run_regular(const run *r, const task_range *t, rec_frame *frame, rec_slot *slots,
                        void *scratch) {
  const call *c = r->call;
  for (int i = 0; i < r->kernel->slot_count; i++) {
    rec_slot *s = &slots[i];
    if (!table_memory(c->table, table_slot(c->table, r->kernel, i)->memory)->token) continue;
    s->batch_stride = c->longest * s->time_stride;
    s->data = element_address(s->data, -t->begin * s->batch_stride, r->slots[i].bytes);
  }
  frame->time = c->longest;
  frame->saved = r->saved.data;
  frame->saved_batch_stride = call_chunks_before(c, 1) * r->saved.chunk_stride;
  run_entries(r, t, frame, scratch);
}

// Sequences differ in where their tokens are: those of each in turn stand as batch entry 0, moved
// to its number. One without steps is left to the end (entry.c), a long one to alone.c.
static void run_sequences(const run *r, const task_range *t, rec_frame *frame, rec_slot *slots,
                          void *scratch) {
  const call *c = r->call;
  const rec_table_kernel *kernel = r->kernel;
  int64_t at = t->start;
  for (int i = 0; i < kernel->slot_count; i++)
    if (table_memory(c->table, table_slot(c->table, kernel, i)->memory)->token)
      slots[i].batch_stride = 0;
  for (int64_t s = t->begin; s < t->end; s++) {
    int64_t start = c->cu_seqlens[s];
    frame->time = c->cu_seqlens[s + 1] - start;
    if (frame->time == 0 || call_runs_alone(c, frame->time)) continue;
    for (int i = 0; i < kernel->slot_count; i++)
      if (table_memory(c->table, table_slot(c->table, kernel, i)->memory)->token)
        slots[i].data =
            element_address(slots[i].data, (start - at) * slots[i].time_stride, r->slots[i].bytes);
    at = start;
    frame->saved = chunk_saved(r, call_chunks_before(c, s));
    r->function(frame, s, t->first, t->last, scratch);
  }
}

static void run_stage_task(run *r, int64_t task, rec_slot *slots, void *scratch) {
  const call *c = r->call;
  task_range t = task_range_of(r, task);
  if (r->slices && (t.slice < r->slices->first || t.slice >= r->slices->last)) return;
  place_task(r, &t, slots);
  rec_frame frame = {.batch = call_entries(c),
                     .time = t.steps,
                     .axis_size = c->axis_size,
                     .slots = slots,
                     .saved_chunk_stride = r->saved.chunk_stride,
                     .sequences = 1};
  if (c->packed) {
    (r->cut.sequences > 1 ? run_regular : run_sequences)(r, &t, &frame, slots, scratch);
    return;
  }
  frame.saved = chunk_saved(r, t.start / c->table->chunk);
  frame.saved_batch_stride = r->saved.batch_stride;
  run_entries(r, &t, &frame, scratch);
}

static void run_stage_lane(void *argument, int64_t lane) {
  run *r = argument;
  char *memory = r->lane_memory + lane * r->cut.lane_bytes;
  unsigned before = rec_cpu_flush_denormals();
  for (;;) {
    int64_t task = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    if (task >= r->cut.tasks) break;
    run_stage_task(r, task, (rec_slot *)(void *)(memory + r->cut.scratch_bytes), memory);
  }
  rec_cpu_restore(before);
}

void stage_run_parallel(const call *c, int64_t lanes, bool worth, rec_task lane, void *argument) {
  if (lanes <= 0) return;
  if (!worth || lanes == 1)
    lane(argument, 0);
  else if (c->launch->parallel_for)
    c->launch->parallel_for(c->launch->parallel_context, lanes, lane, argument);
  else
    rec_pool_run(c->threads, lanes, lane, argument);
}

// ---- a stage ---------------------------------------------------------------------------------

// Where a slot's numbers go during the run.
static run_slot place_slot(run *r, int index, stage_results results, char **free_memory) {
  const call *c = r->call;
  const rec_table_slot *slot = table_slot(c->table, r->kernel, index);
  const rec_table_memory *memory = table_memory(c->table, slot->memory);
  run_slot s = {.slot = call_slot(c, memory),
                .copies = 1,
                .numbers = call_numbers(c, memory),
                .bytes = table_bytes(c->table, memory)};
  bool wanted = results == STAGE_ALL || (results == STAGE_STATES && stage_is_state(memory));
  if (slot->written && !wanted) s.slot.data = NULL;
  if (!s.slot.data) return s;
  s.copies = stage_copies(c, r->kernel, &r->cut, slot);
  s.apart = needs_workspace_sum(c, slot, s.copies);
  if (!s.apart) return s;
  s.bytes = c->table->number_bytes;
  int64_t copy_numbers = s.numbers * (memory->token ? c->time : 1);
  s.slot = (rec_slot){.data = *free_memory,
                      .batch_stride = memory->per_batch ? copy_numbers * s.copies : 0,
                      .time_stride = memory->token ? s.numbers : 0};
  *free_memory += copies_bytes(c, memory, s.copies);
  return s;
}

// A task zeroes what is its own; what tasks share is zeroed before the first one.
static void zero_shared(const run *r) {
  const call *c = r->call;
  for (int i = 0; i < r->kernel->slot_count; i++) {
    const rec_table_slot *slot = table_slot(c->table, r->kernel, i);
    const rec_table_memory *memory = table_memory(c->table, slot->memory);
    const run_slot *s = &r->slots[i];
    if (!slot->accumulated || !s->slot.data || !shares_copy(r, slot)) continue;
    int64_t batch = stage_entries(c, memory), steps = memory->token ? c->time : 1;
    int64_t numbers = memory->per_batch ? s->numbers : s->numbers * s->copies;
    for (int64_t b = 0; b < batch; b++) zero_steps(s->slot, s->bytes, b, steps, numbers);
  }
}

// Numbers that the kernel reads and writes, about.
static int64_t stage_work(const call *c, const rec_table_kernel *kernel) {
  int64_t work = 0;
  for (int i = 0; i < kernel->slot_count; i++) {
    const rec_table_memory *memory =
        table_memory(c->table, table_slot(c->table, kernel, i)->memory);
    work += call_numbers(c, memory) * (memory->per_batch ? c->batch * c->time : 1);
  }
  return work;
}

void stage_run(const call *c, const rec_table_kernel *kernel, stage_saved saved,
               stage_results results, const stage_slices *slices, void *workspace) {
  run_slot *slots = workspace;
  run r = {.call = c,
           .kernel = kernel,
           .cut = stage_plan(c, kernel),
           .saved = saved,
           .slices = slices,
           .slots = slots};
  r.function = kernel->functions[c->clone];
  r.first_strip = find_first_strip(&r);
  r.lane_memory = (char *)workspace + slots_bytes(kernel);
  char *free_memory = r.lane_memory + r.cut.lanes * r.cut.lane_bytes;
  for (int i = 0; i < kernel->slot_count; i++) slots[i] = place_slot(&r, i, results, &free_memory);
  zero_shared(&r);
  stage_run_parallel(c, r.cut.lanes, stage_work(c, kernel) > STAGE_WORTH_THREADS, run_stage_lane,
                     &r);
  for (int i = 0; i < kernel->slot_count; i++)
    if (slots[i].slot.data && slots[i].apart)
      stage_sum_copies(c, table_memory(c->table, table_slot(c->table, kernel, i)->memory),
                       slots[i].slot.data, slots[i].copies);
}
