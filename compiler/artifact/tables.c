// Writes the table of a recurrence that the support code reads (compiler/abi/library.h).
//
//   abi_recurrence, host kernels by kind, GPU kernels by device class and kind  ->  rec_table, then the data that its
//     positions point to, as one block of bytes
//
// Only the addresses of the kernels are relocated; all other positions count bytes from the block's
// start.
#include "compiler/artifact/tables.h"

#include <stdlib.h>
#include <string.h>

#include "compiler/abi/library.h"
#include "compiler/base/ice.h"
#include "compiler/plan/kernel_plan.h"

_Static_assert(REC_AXES_MAX == TYPED_MAX_AXES && REC_CLONES == CLONE_X86_COUNT,
               "the support code and the compiler count axes and clones alike");

typedef struct table_builder {
  arena *arena;
  VEC(unsigned char) bytes;
  VEC(codegen_address) addresses;
  const abi_recurrence *abi;
  const char *inner;  // the symbol of the table without long lags; NULL: there are none
  artifact_transfers transfers;
} table_builder;

// Positions are multiples of 8, so that every struct is aligned.
static int32_t put_table_bytes(table_builder *b, const void *data, size_t size) {
  while (b->bytes.count % 8 != 0) vec_push(b->arena, &b->bytes, 0);
  int32_t position = b->bytes.count;
  for (size_t i = 0; i < size; i++) vec_push(b->arena, &b->bytes, ((const unsigned char *)data)[i]);
  return position;
}

// The items of a VEC.
#define put_table_items(b, v) put_table_bytes((b), (v).items, (size_t)(v).count * sizeof *(v).items)

static int32_t put_table_axes(table_builder *b, const int *axes, int count) {
  _Static_assert(sizeof *axes == sizeof(int32_t), "a table has axes as an int holds them");
  return put_table_bytes(b, axes, sizeof *axes * (size_t)count);
}

static int32_t put_table_text(table_builder *b, const char *text) {
  return put_table_bytes(b, text, strlen(text) + 1);
}

// ---- axes ------------------------------------------------------------------------------------

typedef VEC(rec_table_size_step) size_steps;

static int named_axis(const typed_body *body, const char *name) {
  int axis = body_axis_named(body, name);
  if (axis >= 0) return axis;
  ICE("artifact", "size expression names '%s', which is no axis of %s", name, body->name);
}

static int32_t call_op(const table_builder *b, const ast_expr *e) {
  if (strcmp(e->call.callee.text, "min") == 0) return REC_SIZE_MIN;
  if (strcmp(e->call.callee.text, "max") == 0) return REC_SIZE_MAX;
  ICE("artifact", "size expression of %s calls '%s'", b->abi->body->name, e->call.callee.text);
}

// Appends the postfix program of an expression; returns the operands that it holds at one time.
static int size_program(table_builder *b, const ast_expr *e, size_steps *steps) {
  static const int32_t ops[] = {[AST_ADD] = REC_SIZE_ADD,
                                [AST_SUBTRACT] = REC_SIZE_SUB,
                                [AST_MULTIPLY] = REC_SIZE_MUL,
                                [AST_DIVIDE] = REC_SIZE_DIV,
                                [AST_POWER] = REC_SIZE_POW};
  rec_table_size_step step = {0};
  int depth = 1;
  switch (e->kind) {
    case AST_NUMBER:
      step.op = REC_SIZE_NUMBER;
      step.number = e->number.value;
      break;
    case AST_NAME:
      if (strcmp(e->name.text, "pi") == 0) {  // reserved: never an axis
        step.op = REC_SIZE_NUMBER;
        step.number = 3.14159265358979323846;
        break;
      }
      step.op = REC_SIZE_AXIS;
      step.axis = named_axis(b->abi->body, e->name.text);
      break;
    case AST_NEGATE:
      depth = size_program(b, e->negate.operand, steps);
      step.op = REC_SIZE_NEG;
      break;
    case AST_BINARY:
    case AST_CALL: {
      bool binary = e->kind == AST_BINARY;
      int left = size_program(b, binary ? e->binary.left : e->call.args.items[0].value, steps);
      int right =
          size_program(b, binary ? e->binary.right : e->call.args.items[1].value, steps) + 1;
      depth = left > right ? left : right;
      step.op = binary ? ops[e->binary.op] : call_op(b, e);
      break;
    }
    default: ICE("artifact", "size expression of kind %d in %s", e->kind, b->abi->body->name);
  }
  vec_push(b->arena, steps, step);
  return depth;
}

static rec_table_axis axis_row(table_builder *b, int index) {
  const typed_axis *axis = &b->abi->body->axes.items[index];
  rec_table_axis row = {.size = axis->size == TYPED_RUNTIME_SIZE ? REC_RUNTIME_SIZE : axis->size,
                        .name_at = put_table_text(b, axis->name),
                        .field = abi_field_of(b->abi, ABI_AXIS, index)->offset,
                        .least = (int32_t)axis->least};
  if (axis->size == TYPED_RUNTIME_SIZE && axis->size_expr) {
    size_steps steps = {0};
    if (size_program(b, axis->size_expr, &steps) > REC_SIZE_STACK)
      ICE("artifact", "size expression of axis %s is too deep", axis->name);
    row.expression_at = put_table_items(b, steps);
    row.expression_count = steps.count;
    row.expression_text_at = put_table_text(b, expr_to_text(b->arena, axis->size_expr));
  }
  return row;
}

// ---- memories --------------------------------------------------------------------------------

static int32_t forward_use(const typed_body *body, const abi_memory *memory) {
  if (memory->role == ABI_H0) return REC_READ_OPTIONAL;
  if (memory->role == ABI_HT) return REC_WRITE_OPTIONAL;
  if (memory->role != ABI_VALUE) return REC_UNUSED;
  return body->tensors.items[memory->tensor].kind == TENSOR_OUTPUT ? REC_WRITE : REC_READ;
}

static int32_t backward_use(const typed_body *body, const abi_memory *memory) {
  bool output = memory->tensor >= 0 && body->tensors.items[memory->tensor].kind == TENSOR_OUTPUT;
  switch (memory->role) {
    case ABI_VALUE: return output ? REC_UNUSED : REC_READ;
    case ABI_D_VALUE: return output ? REC_READ_OPTIONAL : REC_WRITE_OPTIONAL;
    case ABI_H0:
    case ABI_D_HT: return REC_READ_OPTIONAL;
    case ABI_D_H0: return REC_WRITE_OPTIONAL;
    case ABI_HT: return REC_UNUSED;
  }
  return REC_UNUSED;
}

static int32_t stored_as(number_type type) {
  return type == NUMBER_BF16  ? REC_STORED_BF16
         : type == NUMBER_F16 ? REC_STORED_F16
                              : REC_STORED_NUMBER;
}

static rec_table_memory memory_row(table_builder *b, int index, number_type dtype, bool checked) {
  const abi_recurrence *abi = b->abi;
  const abi_memory *memory = &abi->memories.items[index];
  rec_table_memory row = {
      .name_at = put_table_text(b, abi->fields.items[memory->data].name),
      .shape_at = put_table_text(b, abi_shape(b->arena, abi, memory, ",", true)),
      .data_field = abi->fields.items[memory->data].offset,
      .batch_stride_field = memory->token ? abi->fields.items[memory->batch_stride].offset : -1,
      .time_stride_field = memory->token ? abi->fields.items[memory->time_stride].offset : -1,
      .factor = abi_factor(abi, memory),
      .token = memory->token,
      .per_batch = abi_per_batch(abi, memory),
      .forward_use = forward_use(abi->body, memory),
      .backward_use = backward_use(abi->body, memory),
      .copy_from = -1,
      .depth = memory->lag >= 0 ? abi->body->lags.items[memory->lag].depth : 0,
      .stored = stored_as(abi_number_type(memory, dtype))};
  int axes[TYPED_MAX_AXES];
  row.axis_count = abi_axes(abi, memory, axes);
  row.axes_at = put_table_axes(b, axes, row.axis_count);
  bool value = memory->role <= ABI_HT && memory->tensor >= 0;
  if (checked && value && abi->body->tensors.items[memory->tensor].promised) {
    row.promised = true;
    row.low = abi->body->tensors.items[memory->tensor].low;
    row.high = abi->body->tensors.items[memory->tensor].high;
  }
  if (memory->role == ABI_HT) row.copy_from = abi_find(abi, ABI_H0, memory->tensor, memory->lag);
  if (memory->role == ABI_D_H0)
    row.copy_from = abi_find(abi, ABI_D_HT, memory->tensor, memory->lag);
  return row;
}

// What a segment leaves of a state: memory of a summary, which the caller never sees.
static rec_table_memory transfer_row(table_builder *b, const codegen_slot *slot) {
  int axes[TYPED_MAX_AXES];
  const typed_tensor *state = &b->abi->body->tensors.items[slot->tensor];
  rec_table_memory row = {.name_at = put_table_text(b, state->name),
                          .shape_at = put_table_text(b, ""),
                          .data_field = -1,
                          .batch_stride_field = -1,
                          .time_stride_field = -1,
                          .factor = state->complex ? 2 : 1,
                          .per_batch = 1,
                          .copy_from = -1,
                          .stored = REC_STORED_NUMBER};
  for (int i = 0; i < state->axis_count; i++)
    if (axis_in(slot->axes, state->axes[i])) axes[row.axis_count++] = state->axes[i];
  row.axes_at = put_table_axes(b, axes, row.axis_count);
  return row;
}

// ---- kernels ---------------------------------------------------------------------------------

abi_role artifact_slot_role(tile_role role) {
  switch (role) {
    case TILE_STATE: return ABI_H0;
    case TILE_NEXT_STATE: return ABI_HT;
    case TILE_D_OUTPUT:
    case TILE_D_INPUT:
    case TILE_D_PARAM: return ABI_D_VALUE;
    case TILE_D_NEXT_STATE: return ABI_D_HT;
    case TILE_D_STATE: return ABI_D_H0;
    default: return ABI_VALUE;
  }
}

static rec_table_count byte_count_row(table_builder *b, const codegen_bytes *count) {
  VEC(rec_table_term) terms = {0};
  for (int i = 0; i < count->terms.count; i++)
    vec_push(b->arena, &terms,
             (rec_table_term){count->terms.items[i].coefficient, count->terms.items[i].axes});
  return (rec_table_count){.constant = count->constant,
                           .per_instance = count->per_instance,
                           .term_count = terms.count,
                           .terms_at = put_table_items(b, terms)};
}

// Among the clones of its processor.
static int clone_level(codegen_clone clone) {
  return (int)(clone - processor_rows[clone_targets[clone].processor].first);
}

static rec_table_kernel kernel_row(table_builder *b, const codegen_kernel *compiled,
                                   int32_t row_at) {
  const kernel *k = compiled->kernel;
  VEC(rec_table_slot) slots = {0};
  for (int i = 0; i < compiled->slots.count; i++) {
    const codegen_slot *slot = &compiled->slots.items[i];
    int memory = slot->transfer
                     ? b->abi->memories.count + artifact_transfer_number(&b->transfers, slot)
                     : abi_find(b->abi, artifact_slot_role(slot->role), slot->tensor, slot->lag);
    if (memory < 0)
      ICE("artifact", "slot %d of kernel %s is no tensor of the recurrence", i, k->symbol);
    vec_push(b->arena, &slots,
             (rec_table_slot){.summed = slot->summed,
                              .memory = memory,
                              .written = slot->written,
                              .accumulated = slot->accumulated,
                              .single = slot->single});
  }
  rec_table_kernel row = {.scratch = byte_count_row(b, &compiled->scratch),
                          .slot_count = slots.count,
                          .slots_at = put_table_items(b, slots),
                          .grid_count = k->grid_count,
                          .lane_axis = k->lane_axis,
                          .lane_block = k->lane_block,
                          .reads_saved = compiled->reads_saved,
                          .writes_saved = compiled->writes_saved,
                          .time_splits = compiled->time_splits,
                          .sequences = compiled->batched ? compiled->batched->sequences : 0};
  row.grid_at = put_table_axes(b, k->grid_axes, k->grid_count);
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    if (compiled->symbols[clone])
      vec_push(b->arena, &b->addresses,
               (codegen_address){row_at + (int64_t)sizeof(rec_kernel_function) * clone_level(clone),
                                 compiled->symbols[clone]});
  return row;
}

static int kernel_position(const kernel *k) {
  switch (k->kind) {
    case KERNEL_FORWARD: return k->gpu.few ? REC_KERNEL_FORWARD_FEW : REC_KERNEL_FORWARD;
    case KERNEL_STEP: return REC_KERNEL_STEP;
    case KERNEL_STATES: return REC_KERNEL_STATES;
    case KERNEL_BACKWARD: return k->gpu.few ? REC_KERNEL_BACKWARD_FEW : REC_KERNEL_BACKWARD;
    case KERNEL_SUMMARY: return REC_KERNEL_SUMMARY;
    case KERNEL_SUMMARY_BACK: return REC_KERNEL_SUMMARY_BACK;
    case KERNEL_SLICE: return REC_KERNEL_SLICE;
  }
  ICE("artifact", "kernel of kind %d", k->kind);
}

static void add_address(table_builder *b, size_t offset, const char *symbol) {
  vec_push(b->arena, &b->addresses, (codegen_address){(int64_t)offset, symbol});
}

// What a kernel that makes summaries leaves in them.
static int32_t put_parts(table_builder *b, const kernel *k, const codegen_kernel *host,
                         int32_t *count) {
  artifact_summary_parts parts =
      artifact_summary_parts_of(b->arena, b->abi, &b->transfers, k, host);
  VEC(rec_table_part) rows = {0};
  for (int i = 0; i < parts.count; i++) {
    rec_table_part part = parts.items[i].row;
    part.axis_count = parts.items[i].place->axis_count;
    part.axes_at = put_table_axes(b, parts.items[i].place->axes, part.axis_count);
    vec_push(b->arena, &rows, part);
  }
  *count = rows.count;
  return put_table_items(b, rows);
}

static void add_parts(table_builder *b, const kernel *k, rec_table_gpu_kernel *row) {
  row->value_axis = -1;
  if (!kernel_summarises(k->kind)) return;
  row->parts_at = put_parts(b, k, NULL, &row->part_count);
  if (!k->transition_size) return;
  row->value_axis = k->value_axis;
  row->row_numbers = (int32_t)gpu_row_numbers(k);
}

static rec_table_gpu_kernel gpu_row(table_builder *b, const codegen_gpu_kernel *described,
                                    bool simt, size_t row_at) {
  rec_table_gpu_kernel row = {
      .base = kernel_row(b, &described->base, (int32_t)row_at),
      .threads = described->threads,
      .shared_bytes = described->shared_bytes,
      .parameter_bytes = described->parameter_bytes,
      .combines = described->base.combines,
      .summary = byte_count_row(b, &described->summary),
      .transition_blocks = described->transition_blocks,
      .combine_steps = described->base.kernel->gpu.combine_steps,
      .summary_percent = described->base.kernel->gpu.summary_percent,
      .cycles_alone = described->base.kernel->gpu.cycles_alone,
      .cycles_each = described->base.kernel->gpu.cycles_each,
      .blocks_each = described->base.kernel->gpu.blocks_each,
      .warm_up_steps = described->base.kernel->warms_up ? described->base.chunk : 0,
      .batched_shared_bytes = described->batched_shared_bytes,
      .batched_scratch = byte_count_row(b, &described->batched)};
  row.base.sequences = described->sequences;
  add_parts(b, described->base.kernel, &row);
  if (described->why_not) row.why_not_at = put_table_text(b, described->why_not);
  if (!described->symbol) return row;
  row.symbol_at = put_table_text(b, described->symbol);
  if (simt) add_address(b, row_at + offsetof(rec_table_gpu_kernel, simt), described->symbol);
  return row;
}

static bool kernels_make_summaries(const artifact_kernels *kernels) {
  bool makes = false;
  for (int devices = 0; devices < REC_GPU_CLASSES; devices++)
    for (int i = 0; i < kernels->gpu[devices].count; i++)
      makes |= kernel_summarises(kernels->gpu[devices].items[i].base.kernel->kind);
  return makes;
}

static void add_gpu_rows(table_builder *b, rec_table *table, const artifact_kernels *kernels) {
  for (int devices = 0; devices < REC_GPU_CLASSES; devices++) {
    size_t class_at = offsetof(rec_table, gpu) + sizeof(rec_table_gpu) * (size_t)devices;
    vec_each(const codegen_gpu_kernel, k, kernels->gpu[devices]) {
      int kind = kernel_position(k->base.kernel);
      size_t row_at =
          class_at + offsetof(rec_table_gpu, kernels) + sizeof(rec_table_gpu_kernel) * (size_t)kind;
      table->gpu[devices].kernels[kind] = gpu_row(b, k, kernels->simt, row_at);
      table->gpu[devices].chunk = k->base.chunk;
    }
  }
  if (kernels->images) add_address(b, offsetof(rec_table, gpu_images), kernels->images);
  if (!kernels->simt) return;
  add_address(b, offsetof(rec_table, simt_run), "simt_run");
  add_address(b, offsetof(rec_table, simt_sum), "rec_gpu_sum");
  if (b->inner) add_address(b, offsetof(rec_table, simt_rows), "rec_gpu_rows");
  if (body_begins(b->abi->body)) add_address(b, offsetof(rec_table, simt_spread), "rec_gpu_spread");
  if (kernels->folds && kernels_make_summaries(kernels))
    add_address(b, offsetof(rec_table, simt_fold), "rec_gpu_fold");
}

static rec_table_summary summary_row(table_builder *b, const artifact_recurrence *r,
                                     const artifact_kernels *kernels, bool back) {
  rec_table_summary row = {.value_axis = -1};
  const codegen_kernel *k = artifact_summary_kernel(kernels, back);
  const char *why = b->inner && !k ? "it reads steps that are long ago" : r->kernels->whole[back];
  if (why || !k) row.why_at = put_table_text(b, why ? why : "it has no states");
  if (!k) return row;
  row.parts_at = put_parts(b, k->kernel, k, &row.part_count);
  if (!k->kernel->transition_size) return row;
  row.value_axis = k->kernel->value_axis;
  row.instance_axes = k->kernel->transition_axes;
  return row;
}

static int by_offset(const void *x, const void *y) {
  int64_t a = ((const codegen_address *)x)->offset, b = ((const codegen_address *)y)->offset;
  return (a > b) - (a < b);
}

static void put_delay_rows(table_builder *b, rec_table *table, const artifact_recurrence *r) {
  artifact_rows all = artifact_delay_rows(b->arena, r);
  VEC(rec_table_rows) rows = {0};
  vec_each(artifact_row_sources, x, all) {
    x->rows.source_count = x->sources.count;
    x->rows.sources_at = put_table_items(b, x->sources);
    vec_push(b->arena, &rows, x->rows);
  }
  table->rows_count = rows.count;
  table->rows_at = put_table_items(b, rows);
  table->inner_memories_at = put_table_bytes(b, artifact_inner_memories(b->arena, r),
                                             sizeof(int32_t) * (size_t)r->inner->memories.count);
  add_address(b, offsetof(rec_table, inner), b->inner);
}

static void put_begins(table_builder *b, rec_table *table) {
  VEC(rec_table_begin) begins = {0};
  for (int i = 0; i < b->abi->body->tensors.count; i++) {
    const typed_begin *from = b->abi->body->tensors.items[i].begin;
    if (!from) continue;
    rec_table_begin row = {.before = abi_find(b->abi, ABI_H0, i, -1),
                           .d_before = abi_find(b->abi, ABI_D_H0, i, -1),
                           .parameter = -1,
                           .d_parameter = -1,
                           .number = {from->number[0], from->number[1]}};
    if (from->parameter != NO_PARAMETER) {
      row.parameter = abi_find(b->abi, ABI_VALUE, from->parameter, -1);
      row.d_parameter = abi_find(b->abi, ABI_D_VALUE, from->parameter, -1);
    }
    vec_push(b->arena, &begins, row);
  }
  table->begin_count = begins.count;
  if (begins.count) table->begins_at = put_table_items(b, begins);
}

codegen_blob artifact_table(arena *a, const artifact_recurrence *r, const abi_recurrence *abi,
                            const artifact_kernels *kernels, number_type dtype, const char *symbol,
                            const char *inner) {
  table_builder b = {.arena = a, .abi = abi, .inner = inner};
  rec_table table = {.number_bytes = dtype == NUMBER_F64 ? 8 : 4,
                     .arguments_size = abi->arguments_size,
                     .batch_field = abi_field_of(abi, ABI_BATCH, -1)->offset,
                     .time_field = abi_field_of(abi, ABI_TIME, -1)->offset,
                     .sequences_field = abi_field_of(abi, ABI_SEQUENCES, -1)->offset,
                     .cu_seqlens_field = abi_field_of(abi, ABI_CU_SEQLENS, -1)->offset,
                     .axis_count = abi->body->axes.count,
                     .memory_count = abi->memories.count,
                     .chunk = r->kernels->chunk};
  put_table_bytes(&b, &table, sizeof table);
  table.name_at = put_table_text(&b, abi->symbol);
  VEC(rec_table_axis) axes = {0};
  for (int i = 0; i < abi->body->axes.count; i++) vec_push(a, &axes, axis_row(&b, i));
  table.axes_at = put_table_items(&b, axes);
  VEC(rec_table_memory) memories = {0};
  for (int i = 0; i < abi->memories.count; i++)
    vec_push(a, &memories, memory_row(&b, i, dtype, r->check));
  b.transfers = artifact_transfers_of(a, kernels);
  table.inner_memory_count = b.transfers.count;
  for (int i = 0; i < b.transfers.count; i++)
    vec_push(a, &memories, transfer_row(&b, b.transfers.items[i]));
  table.memories_at = put_table_items(&b, memories);
  codegen_bytes saved = artifact_saved_numbers(a, abi);
  table.saved = byte_count_row(&b, &saved);
  vec_each(const codegen_kernel, compiled, kernels->host) {
    int kind = kernel_position(compiled->kernel);
    if (kind == REC_KERNEL_BACKWARD) table.kept = byte_count_row(&b, &compiled->kept);
    if (kind == REC_KERNEL_SLICE) table.kept_of_slice = byte_count_row(&b, &compiled->kept);
    int32_t row_at =
        (int32_t)(offsetof(rec_table, kernels) + sizeof(rec_table_kernel) * (size_t)kind);
    table.kernels[kind] = kernel_row(&b, compiled, row_at);
  }
  table.segment_multiple = (int32_t)artifact_segment_multiple(kernels, r->kernels->chunk);
  table.segment_instances = artifact_instance_axes(abi->body, kernels);
  for (int back = 0; back < 2; back++) table.summaries[back] = summary_row(&b, r, kernels, back);
  add_gpu_rows(&b, &table, kernels);
  if (inner) put_delay_rows(&b, &table, r);
  if (abi == r->abi) put_begins(&b, &table);
  if (b.addresses.items)
    qsort(b.addresses.items, (size_t)b.addresses.count, sizeof *b.addresses.items, by_offset);
  memcpy(b.bytes.items, &table, sizeof table);
  return (codegen_blob){.symbol = symbol,
                        .bytes = b.bytes.items,
                        .size = b.bytes.count,
                        .addresses = b.addresses.items,
                        .address_count = b.addresses.count};
}
