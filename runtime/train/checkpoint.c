#include "runtime/train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ranks/ranks.h"
#include "runtime/tensor_writer.h"
#include "runtime/train/identity.h"
#include "runtime/train/model/optimizer.h"
#include "runtime/train/seal.h"

// Some numbers of a tensor, and where they lie here.
typedef struct tensor_part {
  int tensor;
  int64_t first, count;
  void *data;
} tensor_part;

// The tensors of a file with their names, and the parts of them that this process writes or reads.
typedef struct tensor_list {
  rec_blocks memory;
  rec_tensor *tensors;
  char (*names)[512];
  int64_t (*shapes)[2];
  int count;
  tensor_part *parts;
  int part_count;
} tensor_list;

static rec_status open_tensor_list(tensor_list *list, int capacity, int64_t parts) {
  *list = (tensor_list){0};
  list->tensors = rec_blocks_list(&list->memory, capacity, sizeof *list->tensors);
  list->names = rec_blocks_list(&list->memory, capacity, sizeof *list->names);
  list->shapes = rec_blocks_list(&list->memory, capacity, sizeof *list->shapes);
  list->parts = rec_blocks_list(&list->memory, parts, sizeof *list->parts);
  return list->memory.failed ? rec_no_memory() : REC_OK;
}

static void add_saved_tensor(tensor_list *list, const char *prefix, const char *name,
                             rec_dtype dtype, int rank, const int64_t *shape) {
  char *full = list->names[list->count];
  rec_tensor *t = &list->tensors[list->count++];
  snprintf(full, sizeof *list->names, "%s%s", prefix, name);
  *t = (rec_tensor){.name = full, .dtype = dtype, .rank = rank, .shape = shape};
  t->bytes = (size_t)rec_tensor_elements(t) * rec_dtype_size(dtype);
}

static void add_table(tensor_list *list, const char *prefix, const char *name, rec_dtype dtype,
                      int64_t height, int64_t width) {
  int64_t *shape = list->shapes[list->count];
  shape[0] = height, shape[1] = width;
  add_saved_tensor(list, prefix, name, dtype, 2, shape);
}

// A part of the tensor that was added last.
static void add_tensor_part(tensor_list *list, int64_t first, int64_t count, void *data) {
  if (count) list->parts[list->part_count++] = (tensor_part){list->count - 1, first, count, data};
}

// Whole parameters, or with a trainer those parts of them that it steps.
static void add_parameters(tensor_list *list, const trained_model *of, void *block,
                           const trainer *owner) {
  for (int i = 0; i < of->model->parameter_count; i++) {
    const model_parameter *p = &of->model->parameters[i];
    moment_part own = owner ? trainer_moment(owner, i, 0) : (moment_part){0, p->elements, 0};
    add_saved_tensor(list, "", p->name, of->dtype, p->rank, p->shape);
    add_tensor_part(list, own.first, own.count,
                    (char *)block + (p->place + own.first) * of->n->element_size);
  }
}

static void add_moments(tensor_list *list, const trainer *t) {
  char prefix[64];
  for (int k = 0; k < MOST_OPTIMIZER_STATES; k++)
    for (int i = 0; i < t->of.model->parameter_count; i++) {
      const model_parameter *p = &t->of.model->parameters[i];
      optimizer_kind kind = optimizer_of(t->of.model, t->block, i);
      if (k >= optimizer_rules_of[kind].states) continue;
      moment_part own = trainer_moment(t, i, k);
      snprintf(prefix, sizeof prefix, "optimizer.%s.", optimizers[kind].state_names[k]);
      add_saved_tensor(list, prefix, p->name, t->of.dtype, p->rank, p->shape);
      add_tensor_part(list, own.first, own.count,
                      (char *)t->moments + own.place * t->of.n->element_size);
    }
}

// The carried states, and how many tokens they have behind them, by state and sequence.
static void add_carried_states(tensor_list *list, const trainer *t, bool mine) {
  const trainer_rows own = trainer_own_rows(t);
  int64_t batch = t->block->batch, size = t->of.n->element_size, states = t->of.model->state_count;
  for (int i = 0; i < states; i++) {
    const model_state *s = &t->of.model->states[i];
    add_table(list, "state.", s->name, t->of.dtype, batch, s->elements);
    if (mine)
      add_tensor_part(list, own.first * s->elements, own.count * s->elements,
                      (char *)t->carried + s->place * own.count * size);
  }
  add_table(list, "", "age", REC_F64, states, batch);
  for (int i = 0; mine && i < states; i++)
    add_tensor_part(list, i * batch + own.first, own.count, t->age + i * own.count);
}

// Means and variances of the heads of the states that have them. Every rank has all of them.
static void add_fitted(tensor_list *list, const trainer *t, bool mine) {
  for (int i = 0; i < t->of.model->state_count; i++) {
    if (!t->fitted_valid[i]) continue;
    add_table(list, "fitted.", t->of.model->states[i].name, REC_F64, 2, t->groups[i].count);
    if (mine) add_tensor_part(list, 0, 2 * t->groups[i].count, t->groups[i].mean);
  }
}

// All that a checkpoint holds. To be written, every number is part of one rank. The list is to be
// given back after a failure, too.
static rec_status list_checkpoint(const trainer *t, bool writes, tensor_list *list) {
  int capacity =
      (1 + MOST_OPTIMIZER_STATES) * t->of.model->parameter_count + 2 * t->of.model->state_count + 1;
  rec_status status = open_tensor_list(list, capacity, capacity + t->of.model->state_count);
  if (status) return status;
  add_parameters(list, &t->of, t->weights, writes ? t : NULL);
  add_moments(list, t);
  if (t->carried && t->carried_valid)
    add_carried_states(list, t, !writes || ranks_time(t->ranks) == 0);
  add_fitted(list, t, !writes || ranks_number(t->ranks) == 0);
  return REC_OK;
}

// ---- writing ------------------------------------------------------------------------------------

// The ranks that write a file, and what they do meanwhile.
typedef struct writers {
  ranks *shared;
  message_place place;
} writers;

static writers writers_of(const trainer *t) {
  return (writers){t->ranks, {t->step, -1, "parts of a checkpoint"}};
}

static int64_t size_of_number(const tensor_list *list, const tensor_part *p) {
  return (int64_t)rec_dtype_size(list->tensors[p->tensor].dtype);
}

static uint64_t seal_parts(const tensor_list *list) {
  uint64_t sum = 0;
  for (int i = 0; i < list->part_count; i++) {
    const tensor_part *p = &list->parts[i];
    int64_t size = size_of_number(list, p);
    sum += seal_of_part(list->tensors[p->tensor].name, p->first * size, p->data,
                        (size_t)(p->count * size));
  }
  return sum;
}

// The checksum of the parts of all ranks.
static void seal(const tensor_list *list, const rec_metadata *metadata, int count, writers by,
                 char text[SEAL_TEXT]) {
  uint64_t own = seal_parts(list),
           sum = seal_of_header(list->tensors, list->count, metadata, count);
  uint64_t *all = ranks_gathered(by.shared, &own, sizeof own, by.place);
  for (int i = 0; i < ranks_count(by.shared); i++) sum += all[i];
  free(all);
  seal_text(sum, text);
}

static rec_status put_parts(tensor_writer *w, const tensor_list *list) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < list->part_count; i++) {
    const tensor_part *p = &list->parts[i];
    int64_t size = size_of_number(list, p);
    status = tensor_writer_put(w, p->tensor, p->first * size, p->data, (size_t)(p->count * size));
  }
  return status ? status : tensor_writer_flush(w);
}

// The file that rank 0 has begun.
static rec_status open_together(const char *path, const tensor_plan *plan, writers by,
                                tensor_writer **w) {
  file_path file = {0};
  rec_status status = ranks_number(by.shared) ? REC_OK : tensor_writer_open(path, NULL, plan, w);
  status = ranks_agree(by.shared, status, by.place);
  if (status || ranks_count(by.shared) == 1) return status;
  if (*w) file = tensor_writer_file(*w);
  ranks_broadcast(by.shared, 0, &file, sizeof file, by.place);
  return ranks_agree(by.shared, *w ? REC_OK : tensor_writer_open(path, &file, plan, w), by.place);
}

static rec_status write_checkpoint_list(const tensor_list *list, const char *path,
                                        rec_metadata *metadata, int count, writers by) {
  char text[SEAL_TEXT];
  tensor_writer *w = NULL;
  seal(list, metadata, count, by, text);
  metadata[count] = (rec_metadata){"rec.checksum", text};
  const tensor_plan plan = {list->tensors, list->count, metadata, count + 1};
  rec_status status = open_together(path, &plan, by, &w);
  if (!status) status = ranks_agree(by.shared, put_parts(w, list), by.place);
  if (!status)
    status = ranks_agree(by.shared, ranks_number(by.shared) ? REC_OK : tensor_writer_finish(w),
                         by.place);
  tensor_writer_close(w);
  return status;
}

rec_status checkpoint_save(const trainer *t, const char *path) {
  tensor_list list;
  char step[32], steps[32];
  rec_metadata metadata[8] = {{"rec.block", t->block->name},
                              {"rec.step", step},
                              {"rec.steps", steps},
                              {"rec.model", t->of.model->text},
                              {"rec.carried", t->carried && t->carried_valid ? "yes" : "no"}};
  int count = 5;
  if (t->identity) metadata[count++] = (rec_metadata){"rec.trained", t->identity};
  if (t->characters) metadata[count++] = (rec_metadata){"rec.characters", t->characters};
  snprintf(step, sizeof step, "%lld", (long long)t->step);
  snprintf(steps, sizeof steps, "%lld", (long long)t->block->steps);
  const writers by = writers_of(t);
  rec_status status = ranks_agree(t->ranks, list_checkpoint(t, true, &list), by.place);
  if (!status) status = write_checkpoint_list(&list, path, metadata, count, by);
  rec_blocks_free(&list.memory);
  return status;
}

rec_status checkpoint_save_weights(const trained_model *of, const void *weights,
                                   const trainer *owner, const char *path) {
  tensor_list list;
  const writers by = owner ? writers_of(owner) : (writers){0};
  rec_metadata metadata[5] = {{"format", "pt"}, {"rec.model", of->model->text}};
  int count = 2;
  if (owner && owner->identity) metadata[count++] = (rec_metadata){"rec.trained", owner->identity};
  if (owner && owner->characters)
    metadata[count++] = (rec_metadata){"rec.characters", owner->characters};
  rec_status status =
      open_tensor_list(&list, of->model->parameter_count, of->model->parameter_count);
  if (!status) add_parameters(&list, of, (void *)(uintptr_t)weights, owner);
  status = ranks_agree(by.shared, status, by.place);
  if (!status) status = write_checkpoint_list(&list, path, metadata, count, by);
  rec_blocks_free(&list.memory);
  return status;
}

void checkpoint_sum(const trained_model *of, const void *weights, char text[SEAL_TEXT]) {
  uint64_t sum = 0;
  for (int i = 0; i < of->model->parameter_count; i++) {
    const model_parameter *p = &of->model->parameters[i];
    const char *numbers = (const char *)weights + p->place * of->n->element_size;
    sum += seal_of_part(p->name, 0, numbers, (size_t)(p->elements * of->n->element_size));
  }
  seal_text(sum, text);
}

// ---- reading ------------------------------------------------------------------------------------

static rec_status read_tensor_part(const rec_file *file, const tensor_list *list,
                                   const tensor_part *p) {
  const rec_tensor *to = &list->tensors[p->tensor], *found = rec_file_find(file, to->name);
  int64_t elements = rec_tensor_elements(to);
  if (!found)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected the tensor '%s', found none",
                    rec_file_path(file), to->name);
  if (rec_tensor_elements(found) != elements || !rec_dtype_is_real(found->dtype))
    return rec_fail(REC_ERROR_FORMAT,
                    "%s: expected %lld real numbers in '%s', found %lld of type %s",
                    rec_file_path(file), (long long)elements, to->name,
                    (long long)rec_tensor_elements(found), rec_dtype_name(found->dtype));
  const char *from = (const char *)found->data + (size_t)p->first * rec_dtype_size(found->dtype);
  return rec_convert(p->data, to->dtype, from, found->dtype, p->count);
}

static rec_status read_checkpoint_list(const rec_file *file, const tensor_list *list) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < list->part_count; i++)
    status = read_tensor_part(file, list, &list->parts[i]);
  return status;
}

static rec_status read_parameters(const rec_file *file, const trained_model *of, void *block) {
  tensor_list list;
  rec_status status =
      open_tensor_list(&list, of->model->parameter_count, of->model->parameter_count);
  if (!status) add_parameters(&list, of, block, NULL);
  if (!status) status = read_checkpoint_list(file, &list);
  rec_blocks_free(&list.memory);
  return status;
}

static void find_fitted(const rec_file *file, trainer *t) {
  char name[512];
  for (int i = 0; i < t->of.model->state_count; i++) {
    snprintf(name, sizeof name, "fitted.%s", t->of.model->states[i].name);
    t->fitted_valid[i] = rec_file_find(file, name) != NULL;
  }
}

static rec_status read_metadata_number(const rec_file *file, const char *key, int64_t *number) {
  const char *text = rec_file_metadata(file, key);
  char *end = NULL;
  *number = text ? strtoll(text, &end, 10) : -1;
  if (text && end != text && !*end && *number >= 0) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected a checkpoint with '%s', found none",
                  rec_file_path(file), key);
}

rec_status checkpoint_progress(const char *path, int64_t *step, int64_t *steps) {
  rec_file *file;
  rec_status status = rec_file_open(path, &file);
  if (status) return status;
  status = read_metadata_number(file, "rec.step", step);
  if (!status) status = read_metadata_number(file, "rec.steps", steps);
  rec_file_close(file);
  return status;
}

static rec_status check_identity(const trainer *t, const rec_file *file) {
  return t->identity ? identity_check(rec_file_path(file), rec_file_metadata(file, "rec.trained"),
                                      t->identity)
                     : REC_OK;
}

static rec_status load_checkpoint(trainer *t, const rec_file *file) {
  const char *carried = rec_file_metadata(file, "rec.carried");
  tensor_list list = {0};
  rec_status status = read_metadata_number(file, "rec.step", &t->step);
  if (!status && ranks_number(t->ranks) == 0) status = check_identity(t, file);
  t->carried_valid = carried && !strcmp(carried, "yes");
  find_fitted(file, t);
  if (!status) status = list_checkpoint(t, false, &list);
  if (!status) status = read_checkpoint_list(file, &list);
  rec_blocks_free(&list.memory);
  if (!t->carried) t->carried_valid = t->step > 0;
  return status;
}

static const message_place reading = {-1, -1, "a checkpoint to be read"};

rec_status checkpoint_load(trainer *t, const char *path) {
  rec_file *file = NULL;
  rec_status status = ranks_agree(t->ranks, rec_file_open(path, &file), reading);
  if (!status) status = seal_check(file, t->ranks);
  if (!status) status = load_checkpoint(t, file);
  rec_file_close(file);
  return ranks_agree(t->ranks, status, reading);
}

rec_status checkpoint_load_weights(const trained_model *of, void *weights, const char *path) {
  rec_file *file = NULL;
  rec_status status = rec_file_open(path, &file);
  if (!status) status = seal_check(file, NULL);
  if (!status) status = read_parameters(file, of, weights);
  rec_file_close(file);
  return status;
}

// What was imported, or written by others, says nothing about itself.
rec_status checkpoint_check_result(const trainer *t, const char *path) {
  rec_file *file = NULL;
  rec_status status = rec_file_open(path, &file);
  if (!status) status = seal_check(file, NULL);
  if (!status && rec_file_metadata(file, "rec.trained")) status = check_identity(t, file);
  rec_file_close(file);
  return status;
}

rec_status checkpoint_says(const char *path, const char *key, char **text) {
  rec_file *file;
  *text = NULL;
  rec_status status = rec_file_open(path, &file);
  if (status) return status;
  const char *found = rec_file_metadata(file, key);
  if (found && !(*text = strdup(found))) status = rec_no_memory();
  rec_file_close(file);
  return status;
}
