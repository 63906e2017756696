#include "runtime/train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/identity.h"
#include "runtime/train/model/optimizer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

// A list of tensors to write, with their names.
typedef struct tensor_list {
  rec_tensor *tensors;
  char (*names)[512];
  int64_t (*shapes)[2];
  int count, capacity;
} tensor_list;

static bool open_list(tensor_list *list, int capacity) {
  *list = (tensor_list){.capacity = capacity};
  list->tensors = calloc((size_t)capacity + 1, sizeof *list->tensors);
  list->names = calloc((size_t)capacity + 1, sizeof *list->names);
  list->shapes = calloc((size_t)capacity + 1, sizeof *list->shapes);
  return list->tensors && list->names && list->shapes;
}

static void close_list(tensor_list *list) {
  free(list->tensors);
  free(list->names);
  free(list->shapes);
}

static void add(tensor_list *list, const char *prefix, const char *name, const trained_model *of, int rank,
                const int64_t *shape, const void *data, int64_t elements) {
  snprintf(list->names[list->count], sizeof *list->names, "%s%s", prefix, name);
  list->tensors[list->count] =
      (rec_tensor){list->names[list->count], of->dtype, rank, shape, (void *)data, (size_t)(elements * of->n->element_size)};
  list->count++;
}

static void add_parameters(tensor_list *list, const char *prefix, const trained_model *of, const void *block) {
  for (int i = 0; i < of->model->parameter_count; i++) {
    const model_parameter *p = &of->model->parameters[i];
    add(list, prefix, p->name, of, p->rank, p->shape, (const char *)block + p->place * of->n->element_size, p->elements);
  }
}

// The prefix of state `number` of a parameter's optimizer; false: it has none.
static bool moment_prefix(const trainer *t, int parameter, int number, char prefix[64]) {
  optimizer_kind kind = optimizer_of(t->of.model, t->block, parameter);
  if (number >= optimizer_rules_of[kind].states) return false;
  snprintf(prefix, 64, "optimizer.%s.", optimizers[kind].state_names[number]);
  return true;
}

static char *moment(const trainer *t, int parameter, int number) {
  return (char *)t->moments + trainer_moment(t, parameter, number) * t->of.n->element_size;
}

static void add_moments(tensor_list *list, const trainer *t) {
  char prefix[64];
  for (int k = 0; k < MOST_OPTIMIZER_STATES; k++)
    for (int i = 0; i < t->of.model->parameter_count; i++) {
      const model_parameter *p = &t->of.model->parameters[i];
      if (moment_prefix(t, i, k, prefix)) add(list, prefix, p->name, &t->of, p->rank, p->shape, moment(t, i, k), p->elements);
    }
}

static void add_states(tensor_list *list, const trainer *t) {
  for (int i = 0; i < t->of.model->state_count; i++) {
    const model_state *s = &t->of.model->states[i];
    int64_t *shape = list->shapes[list->count];
    shape[0] = t->block->batch, shape[1] = s->elements;
    add(list, "state.", s->name, &t->of, 2, shape,
        (const char *)t->carried + s->place * t->block->batch * t->of.n->element_size, s->elements * t->block->batch);
  }
}

// Means and variances of the heads of the states that have them, in double precision.
static void add_fitted(tensor_list *list, const trainer *t) {
  for (int i = 0; i < t->of.model->state_count; i++) {
    const model_state *s = &t->of.model->states[i];
    if (!t->fitted_valid[i]) continue;
    int64_t *shape = list->shapes[list->count];
    char *name = list->names[list->count];
    shape[0] = 2, shape[1] = t->groups[i].count;
    snprintf(name, sizeof *list->names, "fitted.%s", s->name);
    list->tensors[list->count++] =
        (rec_tensor){name, REC_F64, 2, shape, t->groups[i].mean, (size_t)(2 * shape[1]) * sizeof(double)};
  }
}

// How many tokens the carried states have behind them, by state and row.
static void add_ages(tensor_list *list, const trainer *t) {
  int64_t *shape = list->shapes[list->count], states = t->of.model->state_count;
  shape[0] = states, shape[1] = t->block->batch;
  list->tensors[list->count++] =
      (rec_tensor){"age", REC_F64, 2, shape, t->age, (size_t)(states * t->block->batch) * sizeof(double)};
}

// ---- the checksum --------------------------------------------------------------------------------

static uint64_t hash_of(const char *name, const void *bytes, size_t size) {
  return XXH3_64bits_withSeed(bytes, size, XXH64(name, strlen(name), 0));
}

// Metadata that is read again, and what older checkpoints have of it (rec.program); what else a file says does not change a run.
static const char *const sealed[] = {"rec.block",   "rec.step",    "rec.steps",      "rec.model",
                                     "rec.trained", "rec.carried", "rec.characters", "rec.program"};

static bool is_sealed(const char *key) {
  for (size_t i = 0; i < sizeof sealed / sizeof *sealed; i++)
    if (strcmp(sealed[i], key) == 0) return true;
  return false;
}

// A sum over tensors and metadata, each with its name: their order in the file does not matter.
static void seal(const tensor_list *list, const rec_metadata *metadata, int count, char digits[17]) {
  uint64_t sum = 0;
  for (int i = 0; i < list->count; i++) sum += hash_of(list->tensors[i].name, list->tensors[i].data, list->tensors[i].bytes);
  for (int i = 0; i < count; i++)
    if (metadata[i].value && is_sealed(metadata[i].key))
      sum += hash_of(metadata[i].key, metadata[i].value, strlen(metadata[i].value));
  snprintf(digits, 17, "%016llx", (unsigned long long)sum);
}

// A file without a checksum, as what others write, has nothing to be held to.
static rec_status check_seal(const rec_file *file) {
  const char *expected = rec_file_metadata(file, "rec.checksum");
  uint64_t sum = 0;
  char found[17];
  if (!expected) return REC_OK;
  for (int i = 0; i < rec_file_count(file); i++) {
    const rec_tensor *tensor = rec_file_tensor(file, i);
    sum += hash_of(tensor->name, tensor->data, tensor->bytes);
  }
  for (size_t i = 0; i < sizeof sealed / sizeof *sealed; i++) {
    const char *value = rec_file_metadata(file, sealed[i]);
    if (value) sum += hash_of(sealed[i], value, strlen(value));
  }
  snprintf(found, sizeof found, "%016llx", (unsigned long long)sum);
  if (strcmp(found, expected) == 0) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected the checksum %s, found %s; the file is damaged", rec_file_path(file),
                  expected, found);
}

// ---- writing ------------------------------------------------------------------------------------

static rec_status write_list(const tensor_list *list, const char *path, rec_metadata *metadata, int count) {
  char digits[17];
  seal(list, metadata, count, digits);
  metadata[count] = (rec_metadata){"rec.checksum", digits};
  return rec_file_write(path, list->tensors, list->count, metadata, count + 1);
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
  if (!open_list(&list, 3 * t->of.model->parameter_count + 2 * t->of.model->state_count + 1)) {
    close_list(&list);
    return rec_no_memory();
  }
  add_parameters(&list, "", &t->of, t->weights);
  add_moments(&list, t);
  if (t->carried && t->carried_valid) add_states(&list, t), add_ages(&list, t);
  add_fitted(&list, t);
  rec_status status = write_list(&list, path, metadata, count);
  close_list(&list);
  return status;
}

rec_status checkpoint_save_weights(const trained_model *of, const void *weights, const char *characters, const char *path) {
  tensor_list list;
  rec_metadata metadata[4] = {{"format", "pt"}, {"rec.model", of->model->text}, {"rec.characters", characters}};
  if (!open_list(&list, of->model->parameter_count)) {
    close_list(&list);
    return rec_no_memory();
  }
  add_parameters(&list, "", of, weights);
  rec_status status = write_list(&list, path, metadata, characters ? 3 : 2);
  close_list(&list);
  return status;
}

// ---- reading ------------------------------------------------------------------------------------

static rec_status read_tensor(const rec_file *file, const char *prefix, const char *name, const trained_model *of,
                              int64_t elements, void *to) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", prefix, name);
  const rec_tensor *tensor = rec_file_find(file, full);
  if (!tensor) return rec_fail(REC_ERROR_FORMAT, "%s: expected the tensor '%s', found none", rec_file_path(file), full);
  if (rec_tensor_elements(tensor) != elements || !rec_dtype_is_real(tensor->dtype))
    return rec_fail(REC_ERROR_FORMAT, "%s: expected %lld real numbers in '%s', found %lld of type %s", rec_file_path(file),
                    (long long)elements, full, (long long)rec_tensor_elements(tensor), rec_dtype_name(tensor->dtype));
  return rec_convert(to, of->dtype, tensor->data, tensor->dtype, elements);
}

static rec_status read_parameters(const rec_file *file, const char *prefix, const trained_model *of, void *block) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < of->model->parameter_count; i++) {
    const model_parameter *p = &of->model->parameters[i];
    status = read_tensor(file, prefix, p->name, of, p->elements, (char *)block + p->place * of->n->element_size);
  }
  return status;
}

static rec_status read_moments(const rec_file *file, trainer *t) {
  char prefix[64];
  rec_status status = REC_OK;
  for (int k = 0; k < MOST_OPTIMIZER_STATES; k++)
    for (int i = 0; !status && i < t->of.model->parameter_count; i++) {
      const model_parameter *p = &t->of.model->parameters[i];
      if (moment_prefix(t, i, k, prefix)) status = read_tensor(file, prefix, p->name, &t->of, p->elements, moment(t, i, k));
    }
  return status;
}

static rec_status read_states(const rec_file *file, trainer *t) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < t->of.model->state_count; i++) {
    const model_state *s = &t->of.model->states[i];
    status = read_tensor(file, "state.", s->name, &t->of, s->elements * t->block->batch,
                         (char *)t->carried + s->place * t->block->batch * t->of.n->element_size);
  }
  return status;
}

static rec_status read_fitted(const rec_file *file, trainer *t) {
  for (int i = 0; i < t->of.model->state_count; i++) {
    const model_state *s = &t->of.model->states[i];
    char name[512];
    snprintf(name, sizeof name, "fitted.%s", s->name);
    const rec_tensor *tensor = rec_file_find(file, name);
    t->fitted_valid[i] = tensor != NULL;
    if (!tensor) continue;
    if (tensor->dtype != REC_F64 || rec_tensor_elements(tensor) != 2 * t->groups[i].count)
      return rec_fail(REC_ERROR_FORMAT, "%s: expected %lld numbers of type f64 in '%s', found %lld of type %s",
                      rec_file_path(file), (long long)(2 * t->groups[i].count), name, (long long)rec_tensor_elements(tensor),
                      rec_dtype_name(tensor->dtype));
    memcpy(t->groups[i].mean, tensor->data, (size_t)(2 * t->groups[i].count) * sizeof(double));
  }
  return REC_OK;
}

static rec_status read_ages(const rec_file *file, trainer *t) {
  const rec_tensor *tensor = rec_file_find(file, "age");
  int64_t count = t->of.model->state_count * t->block->batch;
  if (!tensor || tensor->dtype != REC_F64 || rec_tensor_elements(tensor) != count)
    return rec_fail(REC_ERROR_FORMAT, "%s: expected %lld numbers of type f64 in 'age', found %s", rec_file_path(file),
                    (long long)count, tensor ? "others" : "none");
  memcpy(t->age, tensor->data, (size_t)count * sizeof(double));
  return REC_OK;
}

static rec_status read_number(const rec_file *file, const char *key, int64_t *number) {
  const char *text = rec_file_metadata(file, key);
  char *end = NULL;
  *number = text ? strtoll(text, &end, 10) : -1;
  if (text && end != text && !*end && *number >= 0) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected a checkpoint with '%s', found none", rec_file_path(file), key);
}

rec_status checkpoint_progress(const char *path, int64_t *step, int64_t *steps) {
  rec_file *file;
  rec_status status = rec_file_open(path, &file);
  if (status) return status;
  status = read_number(file, "rec.step", step);
  if (!status) status = read_number(file, "rec.steps", steps);
  rec_file_close(file);
  return status;
}

// Imported weights were not trained here: their block has ended, and says nothing about itself.
static rec_status check_identity(const trainer *t, const rec_file *file) {
  const char *found = rec_file_metadata(file, "rec.trained");
  if (!t->identity || (!found && t->step >= t->block->steps)) return REC_OK;
  return identity_check(rec_file_path(file), found, t->identity);
}

static rec_status load(trainer *t, const rec_file *file) {
  const char *carried = rec_file_metadata(file, "rec.carried");
  rec_status status = read_number(file, "rec.step", &t->step);
  if (!status) status = check_identity(t, file);
  if (!status) status = read_parameters(file, "", &t->of, t->weights);
  if (!status) status = read_moments(file, t);
  t->carried_valid = carried && !strcmp(carried, "yes");
  if (!status && t->carried && t->carried_valid) status = read_states(file, t);
  if (!status && t->carried && t->carried_valid) status = read_ages(file, t);
  if (!status) status = read_fitted(file, t);
  if (!t->carried) t->carried_valid = t->step > 0;
  return status;
}

rec_status checkpoint_load(trainer *t, const char *path) {
  rec_file *file;
  rec_status status = rec_file_open(path, &file);
  if (status) return status;
  status = check_seal(file);
  if (!status) status = load(t, file);
  rec_file_close(file);
  return status;
}

rec_status checkpoint_load_weights(const trained_model *of, void *weights, const char *path) {
  rec_file *file;
  rec_status status = rec_file_open(path, &file);
  if (status) return status;
  status = check_seal(file);
  if (!status) status = read_parameters(file, "", of, weights);
  rec_file_close(file);
  return status;
}

rec_status checkpoint_characters(const char *path, char **characters) {
  rec_file *file;
  *characters = NULL;
  rec_status status = rec_file_open(path, &file);
  if (status) return status;
  const char *found = rec_file_metadata(file, "rec.characters");
  if (found && !(*characters = strdup(found))) status = rec_no_memory();
  rec_file_close(file);
  return status;
}
