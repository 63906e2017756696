#include "runtime/train/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/train/identity.h"
#include "runtime/train/trainer_parts.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

// The tensors of a file, with their names, and where their numbers lie.
typedef struct tensor_list {
  rec_blocks memory;
  rec_tensor *tensors;
  char (*names)[512];
  int64_t (*shapes)[2];
  int count;
} tensor_list;

static rec_status open_list(tensor_list *list, int capacity) {
  *list = (tensor_list){0};
  list->tensors = rec_blocks_list(&list->memory, capacity, sizeof *list->tensors);
  list->names = rec_blocks_list(&list->memory, capacity, sizeof *list->names);
  list->shapes = rec_blocks_list(&list->memory, capacity, sizeof *list->shapes);
  return list->memory.failed ? rec_no_memory() : REC_OK;
}

static void add(tensor_list *list, const char *prefix, const char *name, rec_dtype dtype, int rank, const int64_t *shape,
                void *data) {
  char *full = list->names[list->count];
  rec_tensor *t = &list->tensors[list->count++];
  snprintf(full, sizeof *list->names, "%s%s", prefix, name);
  *t = (rec_tensor){.name = full, .dtype = dtype, .rank = rank, .shape = shape, .data = data};
  t->bytes = (size_t)rec_tensor_elements(t) * rec_dtype_size(dtype);
}

static void add_table(tensor_list *list, const char *prefix, const char *name, rec_dtype dtype, int64_t height, int64_t width,
                      void *data) {
  int64_t *shape = list->shapes[list->count];
  shape[0] = height, shape[1] = width;
  add(list, prefix, name, dtype, 2, shape, data);
}

static void add_parameters(tensor_list *list, const trained_model *of, const void *block) {
  for (int i = 0; i < of->model->parameter_count; i++) {
    const model_parameter *p = &of->model->parameters[i];
    add(list, "", p->name, of->dtype, p->rank, p->shape, (char *)block + p->place * of->n->element_size);
  }
}

static void add_moments(tensor_list *list, const trainer *t) {
  char prefix[64];
  for (int k = 0; k < MOST_OPTIMIZER_STATES; k++)
    for (int i = 0; i < t->of.model->parameter_count; i++) {
      const model_parameter *p = &t->of.model->parameters[i];
      optimizer_kind kind = optimizer_of(t->of.model, t->block, i);
      if (k >= optimizer_rules_of[kind].states) continue;
      snprintf(prefix, sizeof prefix, "optimizer.%s.", optimizers[kind].state_names[k]);
      add(list, prefix, p->name, t->of.dtype, p->rank, p->shape,
          (char *)t->moments + trainer_moment(t, i, k) * t->of.n->element_size);
    }
}

// The carried states, and how many tokens they have behind them, by state and row.
static void add_states(tensor_list *list, const trainer *t) {
  int64_t batch = t->in->rows, size = t->of.n->element_size;
  for (int i = 0; i < t->of.model->state_count; i++) {
    const model_state *s = &t->of.model->states[i];
    add_table(list, "state.", s->name, t->of.dtype, batch, s->elements, (char *)t->carried + s->place * batch * size);
  }
  add_table(list, "", "age", REC_F64, t->of.model->state_count, batch, t->age);
}

// Means and variances of the heads of the states that have them.
static void add_fitted(tensor_list *list, const trainer *t) {
  for (int i = 0; i < t->of.model->state_count; i++)
    if (t->fitted_valid[i])
      add_table(list, "fitted.", t->of.model->states[i].name, REC_F64, 2, t->groups[i].count, t->groups[i].mean);
}

// All that a checkpoint holds. The list is to be given back after a failure, too.
static rec_status list_tensors(const trainer *t, tensor_list *list) {
  rec_status status =
      open_list(list, (1 + MOST_OPTIMIZER_STATES) * t->of.model->parameter_count + 2 * t->of.model->state_count + 1);
  if (status) return status;
  add_parameters(list, &t->of, t->weights);
  add_moments(list, t);
  if (t->carried && t->carried_valid) add_states(list, t);
  add_fitted(list, t);
  return REC_OK;
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
  rec_status status = list_tensors(t, &list);
  if (!status) status = write_list(&list, path, metadata, count);
  rec_blocks_free(&list.memory);
  return status;
}

rec_status checkpoint_save_weights(const trained_model *of, const void *weights, const char *characters, const char *path) {
  tensor_list list;
  rec_metadata metadata[4] = {{"format", "pt"}, {"rec.model", of->model->text}, {"rec.characters", characters}};
  rec_status status = open_list(&list, of->model->parameter_count);
  if (!status) {
    add_parameters(&list, of, weights);
    status = write_list(&list, path, metadata, characters ? 3 : 2);
  }
  rec_blocks_free(&list.memory);
  return status;
}

// ---- reading ------------------------------------------------------------------------------------

static rec_status read_tensor(const rec_file *file, const rec_tensor *to) {
  const rec_tensor *found = rec_file_find(file, to->name);
  int64_t elements = rec_tensor_elements(to);
  if (!found) return rec_fail(REC_ERROR_FORMAT, "%s: expected the tensor '%s', found none", rec_file_path(file), to->name);
  if (rec_tensor_elements(found) != elements || !rec_dtype_is_real(found->dtype))
    return rec_fail(REC_ERROR_FORMAT, "%s: expected %lld real numbers in '%s', found %lld of type %s", rec_file_path(file),
                    (long long)elements, to->name, (long long)rec_tensor_elements(found), rec_dtype_name(found->dtype));
  return rec_convert(to->data, to->dtype, found->data, found->dtype, elements);
}

static rec_status read_list(const rec_file *file, const tensor_list *list) {
  rec_status status = REC_OK;
  for (int i = 0; !status && i < list->count; i++) status = read_tensor(file, &list->tensors[i]);
  return status;
}

static rec_status read_parameters(const rec_file *file, const trained_model *of, void *block) {
  tensor_list list;
  rec_status status = open_list(&list, of->model->parameter_count);
  if (!status) add_parameters(&list, of, block);
  if (!status) status = read_list(file, &list);
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
  tensor_list list = {0};
  rec_status status = read_number(file, "rec.step", &t->step);
  if (!status) status = check_identity(t, file);
  t->carried_valid = carried && !strcmp(carried, "yes");
  find_fitted(file, t);
  if (!status) status = list_tensors(t, &list);
  if (!status) status = read_list(file, &list);
  rec_blocks_free(&list.memory);
  if (!t->carried) t->carried_valid = t->step > 0;
  return status;
}

rec_status checkpoint_load(trainer *t, const char *path) {
  rec_file *file = NULL;
  rec_status status = rec_file_open(path, &file);
  if (!status) status = check_seal(file);
  if (!status) status = load(t, file);
  rec_file_close(file);
  return status;
}

rec_status checkpoint_load_weights(const trained_model *of, void *weights, const char *path) {
  rec_file *file = NULL;
  rec_status status = rec_file_open(path, &file);
  if (!status) status = check_seal(file);
  if (!status) status = read_parameters(file, of, weights);
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
