// Reads and checks the arguments of a caller. Every mistake gives one line: the entry point, what
// was expected and what was found.
#include "runtime/support/call.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "runtime/support/cpu.h"
#include "runtime/support/error.h"

// No tensor may have more numbers, so that products and byte counts stay within 63 bits.
#define NUMBERS_MAX ((int64_t)1 << 56)

rec_status call_fail(const call *c, rec_status status, const char *format, ...) {
  char text[REC_ERROR_TEXT_MAX];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return rec_fail(status, "%s_%s: %s", call_name(c), c->entry, text);
}

void call_set_workspace(rec_sizes *sizes) {
  sizes->workspace = larger(larger(sizes->workspace_forward, sizes->workspace_step),
                            larger(sizes->workspace_backward, sizes->workspace_backward_recompute));
  if (sizes->size < sizeof *sizes) return;
  sizes->workspace =
      larger(larger(sizes->workspace, sizes->workspace_fold),
             larger(larger(sizes->workspace_summary, sizes->workspace_summary_backward),
                    sizes->workspace_summary_backward_recompute));
}

void call_without_summaries(const call *c, rec_sizes *sizes) {
  sizes->summary = sizes->summary_backward = sizes->instances = 0;
  sizes->workspace_summary = sizes->workspace_summary_backward =
      sizes->workspace_summary_backward_recompute = 0;
  sizes->workspace_fold = 0;
  sizes->segment_multiple = c->table->segment_multiple;
}

static int64_t read_size(const call *c, int32_t field) {
  int64_t value;
  memcpy(&value, c->arguments + field, sizeof value);
  return value;
}

static void *read_pointer(const call *c, int32_t field) {
  void *value;
  memcpy(&value, c->arguments + field, sizeof value);
  return value;
}

static double size_operation(int32_t op, double left, double right) {
  switch (op) {
    case REC_SIZE_ADD: return left + right;
    case REC_SIZE_SUB: return left - right;
    case REC_SIZE_MUL: return left * right;
    case REC_SIZE_DIV: return left / right;
    case REC_SIZE_MIN: return left < right ? left : right;
    case REC_SIZE_MAX: return left > right ? left : right;
    default: return pow(left, right);
  }
}

static double size_expression(const call *c, const rec_table_axis *axis) {
  const rec_table_size_step *step = table_at(c->table, axis->expression_at);
  double stack[REC_SIZE_STACK];
  int top = 0;
  for (int i = 0; i < axis->expression_count; i++, step++) {
    if (step->op == REC_SIZE_NUMBER) {
      stack[top++] = step->number;
    } else if (step->op == REC_SIZE_AXIS) {
      stack[top++] = (double)c->axis_size[step->axis];
    } else if (step->op == REC_SIZE_NEG) {
      stack[top - 1] = -stack[top - 1];
    } else {
      top--;
      stack[top - 1] = size_operation(step->op, stack[top - 1], stack[top]);
    }
  }
  return stack[0];
}

static rec_status read_axis_size(call *c, int index) {
  const rec_table_axis *axis = table_axis(c->table, index);
  const char *name = table_text(c->table, axis->name_at);
  int64_t given = read_size(c, axis->field);
  if (axis->size != REC_RUNTIME_SIZE) {
    if (given != 0 && given != axis->size)
      return call_fail(c, REC_ERROR_ARGUMENT,
                       "expected %s = %lld, its compile-time size, found %lld", name,
                       (long long)axis->size, (long long)given);
    given = axis->size;
  } else if (axis->expression_count > 0) {
    const char *text = table_text(c->table, axis->expression_text_at);
    double computed = size_expression(c, axis);
    if (!(computed >= 1 && computed <= (double)NUMBERS_MAX) || computed != floor(computed))
      return call_fail(c, REC_ERROR_ARGUMENT,
                       "expected a whole size of at least 1 for %s = %s, found %g", name, text,
                       computed);
    if (given != 0 && given != (int64_t)computed)
      return call_fail(c, REC_ERROR_ARGUMENT, "expected %s = %s = %lld, found %lld", name, text,
                       (long long)computed, (long long)given);
    given = (int64_t)computed;
  }
  if (given < 1)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected a size of at least 1 for axis %s, found %lld",
                     name, (long long)given);
  if (given < axis->least)
    return call_fail(
        c, REC_ERROR_ARGUMENT,
        "expected a size of at least %d for axis %s, whose entry %d is read, found %lld",
        axis->least, name, axis->least - 1, (long long)given);
  c->axis_size[index] = given;
  return REC_OK;
}

// Terms in sizes: values between the axes of several tensors.
static bool count_fits(const call *c, const rec_table_count *count) {
  const rec_table_term *terms = table_at(c->table, count->terms_at);
  for (int i = 0; i < count->term_count; i++) {
    int64_t product = terms[i].coefficient;
    for (int axis = 0; axis < c->table->axis_count; axis++)
      if ((terms[i].axes >> axis & 1) &&
          __builtin_mul_overflow(product, c->axis_size[axis], &product))
        return false;
    if (product > NUMBERS_MAX) return false;
  }
  return true;
}

// Refuses sizes whose tensors no machine can hold; afterwards no product of sizes overflows.
static rec_status check_totals(const call *c) {
  for (int i = 0; i < c->table->memory_count; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    const int32_t *axes = table_at(c->table, memory->axes_at);
    int64_t total = memory->factor;
    bool fits = true;
    for (int k = 0; k < memory->axis_count; k++)
      fits &= !__builtin_mul_overflow(total, c->axis_size[axes[k]], &total);
    int64_t entries = memory->token ? c->batch : call_entries(c);
    if (memory->per_batch && entries > 0) fits &= !__builtin_mul_overflow(total, entries, &total);
    if (memory->token && c->time > 0) fits &= !__builtin_mul_overflow(total, c->time, &total);
    if (!fits || total > NUMBERS_MAX)
      return call_fail(c, REC_ERROR_ARGUMENT,
                       "expected sizes that fit in memory, found %s%s of more than 2^56 numbers",
                       table_text(c->table, memory->name_at),
                       table_text(c->table, memory->shape_at));
  }
  for (int kind = 0; kind < REC_KERNEL_COUNT; kind++) {
    bool fits = count_fits(c, &c->table->kernels[kind].scratch);
    for (int room = 0; room < REC_GPU_CLASSES; room++)
      fits &= count_fits(c, &c->table->gpu[room].kernels[kind].base.scratch);
    if (!fits)
      return call_fail(c, REC_ERROR_ARGUMENT,
                       "expected sizes that fit in memory, found ones whose intermediate values "
                       "take more than 2^56 bytes");
  }
  return REC_OK;
}

rec_status call_read_size_fields(call *c, const rec_table *table, const char *entry,
                                 const void *arguments) {
  memset(c, 0, sizeof *c);
  c->table = table;
  c->entry = entry;
  c->arguments = arguments;
  if (!arguments) return call_fail(c, REC_ERROR_ARGUMENT, "expected arguments, found NULL");
  uint64_t size;
  memcpy(&size, arguments, sizeof size);
  if (size < (uint64_t)table->arguments_size)
    return call_fail(c, REC_ERROR_ABI,
                     "expected arguments of at least %d bytes, found size = %llu; set it to "
                     "sizeof(%s_arguments)",
                     table->arguments_size, (unsigned long long)size, call_name(c));
  c->batch = read_size(c, table->batch_field);
  c->time = read_size(c, table->time_field);
  if (c->batch < 0 || c->time < 0)
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected batch and time of at least 0, found batch = %lld, time = %lld",
                     (long long)c->batch, (long long)c->time);
  c->whole_time = c->time;
  c->sequences = read_size(c, table->sequences_field);
  c->cu_seqlens = read_pointer(c, table->cu_seqlens_field);
  c->saved_sequences = c->sequences;
  c->packed = c->sequences != 0 || c->cu_seqlens;
  if (c->packed && (c->batch != 1 || c->sequences < 0))
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected batch = 1 and sequences of at least 0 with packed sequences, found "
                     "batch = %lld, sequences = %lld",
                     (long long)c->batch, (long long)c->sequences);
  for (int i = 0; i < table->axis_count; i++) {
    rec_status status = read_axis_size(c, i);
    if (status != REC_OK) return status;
  }
  return check_totals(c);
}

// Checks the lengths of packed sequences and finds the longest.
static rec_status read_sequences(call *c) {
  const int32_t *offsets = c->cu_seqlens;
  if (!c->packed) return REC_OK;
  if (!offsets)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected cu_seqlens with sequences = %lld, found NULL",
                     (long long)c->sequences);
  if (offsets[0] != 0)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected cu_seqlens to start at 0, found %d",
                     offsets[0]);
  for (int64_t i = 0; i < c->sequences; i++) {
    int64_t length = (int64_t)offsets[i + 1] - offsets[i];
    if (length < 0)
      return call_fail(c, REC_ERROR_ARGUMENT,
                       "expected cu_seqlens that never fall, found %d after %d", offsets[i + 1],
                       offsets[i]);
    if (length <= c->longest) continue;
    c->longest = length;
    c->longest_at = i;
  }
  if (offsets[c->sequences] != c->time)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected cu_seqlens to end at time = %lld, found %d",
                     (long long)c->time, offsets[c->sequences]);
  return REC_OK;
}

// Checks the launch and chooses clone and threads.
static rec_status read_launch(call *c, const rec_launch *launch) {
  if (!launch) return call_fail(c, REC_ERROR_ARGUMENT, "expected a rec_launch, found NULL");
  const size_t least = offsetof(rec_launch, time_parts);
  if (launch->size < least)
    return call_fail(c, REC_ERROR_ABI,
                     "expected a rec_launch of at least %zu bytes, found size = %llu; set it to "
                     "sizeof(rec_launch)",
                     least, (unsigned long long)launch->size);
  if (launch->abi_major != REC_ABI_MAJOR)
    return call_fail(c, REC_ERROR_ABI, "expected ABI %d.x, found %u.%u in rec_launch",
                     REC_ABI_MAJOR, launch->abi_major, launch->abi_minor);
  if (launch->threads < 0)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected threads of at least 0, found %lld",
                     (long long)launch->threads);
  if (launch->workspace_bytes < 0 || launch->saved_bytes < 0)
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected workspace_bytes and saved_bytes of at least 0, found %lld and %lld",
                     (long long)launch->workspace_bytes, (long long)launch->saved_bytes);
  c->launch = launch;
  c->device_number = launch->device_number;
  if (launch->size >= offsetof(rec_launch, first_instance)) c->time_slices = launch->time_parts;
  if (launch->size >= sizeof *launch) {
    c->first_instance = launch->first_instance;
    c->instance_count = launch->instance_count;
  }
  if (c->time_slices < 0)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected time_parts of at least 0, found %lld",
                     (long long)c->time_slices);
  rec_status status = rec_cpu_clone(&c->clone);
  if (status != REC_OK || launch->parallel_for) return status;
  return rec_cpu_threads(launch->threads, &c->threads);
}

rec_status call_read(call *c, const rec_table *table, const char *entry, const void *arguments,
                     const rec_launch *launch) {
  rec_status status = call_read_size_fields(c, table, entry, arguments);
  if (status == REC_OK) status = read_launch(c, launch);
  if (status != REC_OK || launch->device_kind == REC_DEVICE_CUDA) return status;
  return read_sequences(c);
}

rec_status call_check_instances(const call *c) {
  if (c->first_instance == 0 && c->instance_count == 0) return REC_OK;
  return call_fail(c, REC_ERROR_UNSUPPORTED,
                   "expected all instances, found %lld from %lld on; %s_fold takes some of them",
                   (long long)c->instance_count, (long long)c->first_instance, call_name(c));
}

rec_status call_check_steps(const call *c) {
  if (c->packed && c->longest > 1)
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected packed sequences of at most 1 step, found one of %lld",
                     (long long)c->longest);
  if (c->packed && c->time > c->sequences)
    return call_fail(
        c, REC_ERROR_ARGUMENT,
        "expected packed sequences of at most 1 step, found %lld steps of %lld sequences",
        (long long)c->time, (long long)c->sequences);
  if (!c->packed && c->time != 1)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected time = 1, found %lld", (long long)c->time);
  return REC_OK;
}

int32_t call_device_kind(const rec_sizes *sizes) {
  return sizes->size < offsetof(rec_sizes, time_parts) ? REC_DEVICE_HOST : sizes->device_kind;
}

rec_status call_check_buffer(const call *c, const char *what, const void *data, int64_t bytes,
                             int64_t needed) {
  if (needed == 0) return REC_OK;
  if (!data || bytes < needed)
    return call_fail(c, REC_ERROR_WORKSPACE,
                     "expected %s of at least %lld bytes, found %s%lld; ask %s_sizes", what,
                     (long long)needed, data ? "" : "NULL, ", (long long)bytes, call_name(c));
  if ((uintptr_t)data % REC_ALIGNMENT != 0)
    return call_fail(c, REC_ERROR_WORKSPACE, "expected %s aligned to %d bytes, found address %p",
                     what, REC_ALIGNMENT, data);
  return REC_OK;
}

rec_launch call_launch_behind(const call *c, int64_t taken) {
  rec_launch launch = {0};
  int64_t size = smaller(sizeof launch, (int64_t)c->launch->size);
  memcpy(&launch, c->launch, (size_t)size);
  launch.size = (uint64_t)size;
  if (taken) {
    launch.workspace = (char *)launch.workspace + taken;
    launch.workspace_bytes -= taken;
  }
  return launch;
}

void call_flatten(call *c, const rec_table_kernel *forward) {
  bool carries = !forward->time_splits;
  if (!carries) c->saved_sequences = 0;
  if (!c->packed || call_entries(c) == 0 || c->time == 0 || (carries && c->sequences > 1)) return;
  c->packed = false;
  c->sequences = 0;
  c->cu_seqlens = NULL;
}

bool call_lacks_grid_axis(const call *c, const rec_table_kernel *kernel,
                          const rec_table_memory *memory) {
  const int32_t *grid = table_at(c->table, kernel->grid_at),
                *axes = table_at(c->table, memory->axes_at);
  for (int i = 0; i <= kernel->grid_count; i++) {
    int32_t axis = i < kernel->grid_count ? grid[i] : kernel->lane_axis;
    bool found = axis < 0;
    for (int k = 0; k < memory->axis_count; k++) found |= axes[k] == axis;
    if (!found) return true;
  }
  return false;
}

void *call_data(const call *c, const rec_table_memory *memory) {
  if (memory->data_field < 0) return NULL;
  void *replaced = c->replaced ? c->replaced[memory - table_memory(c->table, 0)] : NULL;
  if (replaced) return replaced;
  char *data = read_pointer(c, memory->data_field);
  bool state = memory->per_batch && !memory->token;
  if (!data || !state || c->first_state == 0) return data;
  return data + c->first_state * call_numbers(c, memory) * table_bytes(c->table, memory);
}

int64_t call_numbers(const call *c, const rec_table_memory *memory) {
  const int32_t *axes = table_at(c->table, memory->axes_at);
  int64_t numbers = memory->factor;
  for (int k = 0; k < memory->axis_count; k++) numbers *= c->axis_size[axes[k]];
  return numbers;
}

int64_t call_total(const call *c, const rec_table_memory *memory) {
  int64_t total = call_numbers(c, memory);
  if (memory->per_batch) total *= memory->token ? c->batch : call_entries(c);
  return memory->token ? total * c->time : total;
}

// As the caller gives them.
typedef struct given_strides {
  int64_t batch, time;
} given_strides;

static given_strides read_strides(const call *c, const rec_table_memory *memory) {
  return (given_strides){read_size(c, memory->batch_stride_field),
                         read_size(c, memory->time_stride_field)};
}

static int64_t time_stride_of(given_strides given, int64_t numbers) {
  if (given.time == REC_STRIDE_BROADCAST) return 0;
  return given.time == 0 ? numbers : given.time;
}

// Dense batch entries lie behind each other's steps: behind the one step that all of them share.
static int64_t batch_stride_of(given_strides given, int64_t time, int64_t numbers) {
  if (given.batch == REC_STRIDE_BROADCAST) return 0;
  if (given.batch != 0) return given.batch;
  return given.time == REC_STRIDE_BROADCAST ? numbers : time * time_stride_of(given, numbers);
}

bool call_has_axis(const call *c, const rec_table_memory *memory, int axis) {
  const int32_t *axes = table_at(c->table, memory->axes_at);
  for (int k = 0; k < memory->axis_count; k++)
    if (axes[k] == axis) return true;
  return false;
}

rec_slot call_slot(const call *c, const rec_table_memory *memory) {
  bool state = memory->per_batch && !memory->token;
  if (c->zeros && !state && call_has_axis(c, memory, c->zero_axis))
    return (rec_slot){.data = (void *)(uintptr_t)c->zeros};
  rec_slot slot = {.data = call_data(c, memory)};
  int64_t numbers = call_numbers(c, memory);
  if (memory->token) {
    given_strides given = read_strides(c, memory);
    slot.time_stride = time_stride_of(given, numbers);
    slot.batch_stride = batch_stride_of(given, c->whole_time, numbers);
    int64_t first = c->first_entry * slot.batch_stride + c->first_step * slot.time_stride;
    if (slot.data) slot.data = (char *)slot.data + first * table_bytes(c->table, memory);
  } else if (memory->per_batch) {
    slot.batch_stride = numbers;
  }
  return slot;
}

// Do all entries lie within 2^56 numbers? Nothing that is computed of strides overflows then.
static bool strides_fit(const call *c, given_strides given, int64_t numbers) {
  int64_t steps, entries, all, whole, time_stride = time_stride_of(given, numbers);
  if (__builtin_mul_overflow(c->time, time_stride, &whole) ||
      __builtin_mul_overflow(c->time - 1, time_stride, &steps))
    return false;
  return !__builtin_mul_overflow(c->batch - 1, batch_stride_of(given, c->time, numbers),
                                 &entries) &&
         !__builtin_add_overflow(steps, entries, &all) && all <= NUMBERS_MAX - numbers;
}

static const char *stride_text(int64_t stride, char text[24]) {
  if (stride == REC_STRIDE_BROADCAST) return "REC_STRIDE_BROADCAST";
  snprintf(text, 24, "%lld", (long long)stride);
  return text;
}

static bool is_negative(int64_t stride) { return stride < 0 && stride != REC_STRIDE_BROADCAST; }

// A negative stride walks out of the tensor; a result's entries must not overlap each other.
static rec_status check_strides(const call *c, const rec_table_memory *memory, bool written) {
  given_strides given = read_strides(c, memory);
  bool negative = is_negative(given.batch) || is_negative(given.time);
  int64_t numbers = call_numbers(c, memory), least = written ? numbers : 0;
  const char *name = table_text(c->table, memory->name_at),
             *shape = table_text(c->table, memory->shape_at);
  char batch[24], time[24];
  if (!negative && !strides_fit(c, given, numbers))
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected strides that span at most 2^56 numbers for %s%s, found batch stride "
                     "%s, time stride %s",
                     name, shape, stride_text(given.batch, batch), stride_text(given.time, time));
  rec_slot slot = call_slot(c, memory);
  if (negative || (c->time > 1 && slot.time_stride < least) ||
      (c->batch > 1 && slot.batch_stride < least))
    return call_fail(c, REC_ERROR_ARGUMENT,
                     "expected strides of at least %lld (or 0: dense) for %s%s, found batch stride "
                     "%s, time stride %s",
                     (long long)least, name, shape, stride_text(given.batch, batch),
                     stride_text(given.time, time));
  return REC_OK;
}

rec_status call_check_memory(const call *c, const rec_table_memory *memory, int32_t use) {
  if (use == REC_UNUSED || call_total(c, memory) == 0) return REC_OK;
  const char *name = table_text(c->table, memory->name_at),
             *shape = table_text(c->table, memory->shape_at);
  const void *data = call_data(c, memory);
  if (!data && use == REC_READ)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected data for %s%s, found NULL", name, shape);
  int bytes = (int)table_bytes(c->table, memory);
  if ((uintptr_t)data % (uintptr_t)bytes != 0)
    return call_fail(c, REC_ERROR_ARGUMENT, "expected %s%s aligned to %d bytes, found address %p",
                     name, shape, bytes, data);
  if (!memory->token || !data) return REC_OK;
  return check_strides(c, memory, use == REC_WRITE || use == REC_WRITE_OPTIONAL);
}

rec_status call_check_memories(const call *c, bool backward) {
  rec_status status = REC_OK;
  for (int i = 0; i < c->table->memory_count && status == REC_OK; i++) {
    const rec_table_memory *memory = table_memory(c->table, i);
    status = call_check_memory(c, memory, backward ? memory->backward_use : memory->forward_use);
  }
  return status;
}

rec_status call_choose_clone(call *c, const rec_table_kernel *kernel) {
  while (c->clone > 0 && !kernel->functions[c->clone]) c->clone--;
  if (kernel->functions[c->clone]) return REC_OK;
  return call_fail(c, REC_ERROR_DEVICE,
                   "expected code for this processor, found only code for newer ones");
}

int64_t call_count(const call *c, const rec_table_count *count, int64_t instances) {
  const rec_table_term *terms = table_at(c->table, count->terms_at);
  int64_t total = count->constant + count->per_instance * instances;
  for (int i = 0; i < count->term_count; i++) {
    int64_t product = terms[i].coefficient;
    for (int axis = 0; axis < c->table->axis_count; axis++)
      if (terms[i].axes >> axis & 1) product *= c->axis_size[axis];
    total += product;
  }
  return total;
}

call_room call_saved_room(const call *c) {
  int64_t line = REC_ALIGNMENT / c->table->number_bytes;
  call_room room = {.chunks = call_chunks(c, c->table->chunk)};
  room.chunk_numbers =
      round_up(call_count(c, &c->table->kept, 0) + call_count(c, &c->table->saved, 0), line);
  room.bytes = c->batch * room.chunks * room.chunk_numbers * c->table->number_bytes;
  return room;
}
