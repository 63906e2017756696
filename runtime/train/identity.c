// A JSON object of all that decides which weights a run ends with. Where a value would be long it has
// sixteen digits of a hash.
//
//   {"dtype": "f32", "chunk": 0, "form": "chosen", "model": "LM(D = 16)", "layers": "90ab..",
//    "formulas": {"LM.ssd": "12cd.."}, "weights": {"embedding.weight": "34ef.."},
//    "data": "1000 tokens, 56ab..", "settings": {"lr": 0.003, ..}}
#include "runtime/train/identity.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/json.h"
#include "runtime/module.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

// ---- what a run is trained with -----------------------------------------------------------------

static cJSON *digits(uint64_t hash) {
  char text[17];
  snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
  return cJSON_CreateString(text);
}

// A null stays one: where there is no memory, the whole has no text.
static uint64_t hash_of_json(const cJSON *json, uint64_t seed) {
  char *text = cJSON_PrintUnformatted(json);
  uint64_t hash = text ? XXH64(text, strlen(text), seed) : 0;
  cJSON_free(text);
  return hash;
}

static void copy(cJSON *to, const cJSON *from, const char *key) {
  const cJSON *item = json_get(from, key);
  if (item) cJSON_AddItemToObject(to, key, cJSON_Duplicate(item, true));
}

// How the parts of the model are put together, without its weights, which are listed by themselves.
static cJSON *layers_of(const train_model *model) {
  static const char *const keys[] = {"vocabulary", "row", "logits", "states", "tensors", "ops", "backward"};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) hash = hash_of_json(json_get(model->json, keys[i]), hash);
  return digits(hash);
}

static cJSON *formulas_of(const session *s, const train_model *model) {
  cJSON *list = cJSON_CreateObject();
  for (int i = 0; i < model->op_count; i++) {
    if (model->ops[i].kernel < 0) continue;
    const char *name = s->program->kernels[model->ops[i].kernel];
    const rec_recurrence *r = rec_module_find(s->module, name);
    if (r && r->formulas && !json_get(list, name)) cJSON_AddStringToObject(list, name, r->formulas);
  }
  return list;
}

static cJSON *weights_of(const train_model *model) {
  cJSON *list = cJSON_CreateObject(), *item;
  cJSON_ArrayForEach(item, json_get(model->json, "parameters")) {
    const char *name = cJSON_GetStringValue(json_get(item, "name"));
    if (name) cJSON_AddItemToObject(list, name, digits(hash_of_json(item, 0)));
  }
  return list;
}

// The path of the data is no part of it, nor is the place of the model in its file.
static cJSON *settings_of(const train_block *block) {
  cJSON *settings = cJSON_Duplicate(block->json, true);
  static const char *const others[] = {"name", "file", "model"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) cJSON_DeleteItemFromObjectCaseSensitive(settings, others[i]);
  return settings;
}

static cJSON *data_of(const train_data *data) {
  char text[64];
  snprintf(text, sizeof text, "%lld tokens, %016llx", (long long)data->count, (unsigned long long)train_data_hash(data));
  return cJSON_CreateString(text);
}

char *identity_of(const session *s, const train_block *block, const train_data *data) {
  const train_model *model = &s->program->models[block->model];
  cJSON *all = cJSON_CreateObject();
  copy(all, s->module->json, "dtype");
  copy(all, s->module->json, "chunk");
  copy(all, s->module->json, "form");
  cJSON_AddStringToObject(all, "model", model->text);
  cJSON_AddItemToObject(all, "layers", layers_of(model));
  cJSON_AddItemToObject(all, "formulas", formulas_of(s, model));
  cJSON_AddItemToObject(all, "weights", weights_of(model));
  if (!block->generated) cJSON_AddItemToObject(all, "data", data_of(data));
  cJSON_AddItemToObject(all, "settings", settings_of(block));
  char *printed = cJSON_PrintUnformatted(all), *text = printed ? strdup(printed) : NULL;
  cJSON_free(printed);
  cJSON_Delete(all);
  return text;
}

// ---- what is another ----------------------------------------------------------------------------

static void print_value(FILE *to, const cJSON *value) {
  char *text = value ? cJSON_PrintUnformatted(value) : NULL;
  fprintf(to, "%s", text && strcmp(text, "null") != 0 ? text : "none");
  cJSON_free(text);
}

static bool is_leaf(const cJSON *value) { return !value || !(value->type & (cJSON_Object | cJSON_Array)); }

typedef struct changes {
  FILE *text;
  int count;
} changes;

// `lr 0.003, now 0.002`; of what is long, or is known by its hash, the name alone.
static void put_change(changes *c, const char *group, const cJSON *was, const cJSON *now) {
  enum { MOST = 8 };
  const char *key = was ? was->string : now->string;
  const char *of = !strcmp(group, "formulas") ? "the formulas of " : !strcmp(group, "weights") ? "the weight " : "";
  if (c->count++ >= MOST) {
    if (c->count == MOST + 1) fputs("; ..", c->text);
    return;
  }
  fprintf(c->text, "%s%s%s", c->count > 1 ? "; " : "", of, key);
  if (*of || !strcmp(key, "layers") || !is_leaf(was) || !is_leaf(now)) return;
  fputc(' ', c->text);
  print_value(c->text, was);
  fputs(", now ", c->text);
  print_value(c->text, now);
}

static void compare(changes *c, const char *group, const cJSON *was, const cJSON *now) {
  const cJSON *item;
  cJSON_ArrayForEach(item, now) {
    const cJSON *old = json_get(was, item->string);
    if (cJSON_IsObject(item) && cJSON_IsObject(old))
      compare(c, item->string, old, item);
    else if (!old || !cJSON_Compare(old, item, true))
      put_change(c, group, old, item);
  }
  cJSON_ArrayForEach(item, was) if (!json_get(now, item->string)) put_change(c, group, item, NULL);
}

// Of another model nothing is the same: its name and sizes say enough.
static void compare_all(changes *c, cJSON *was, cJSON *now) {
  static const char *const parts[] = {"layers", "formulas", "weights"};
  bool same = cJSON_Compare(json_get(was, "model"), json_get(now, "model"), true);
  for (size_t i = 0; i < sizeof parts / sizeof *parts && !same; i++) {
    cJSON_DeleteItemFromObjectCaseSensitive(was, parts[i]);
    cJSON_DeleteItemFromObjectCaseSensitive(now, parts[i]);
  }
  compare(c, "", was, now);
}

// What an older rec did not write of a run cannot be compared.
static void warn(const char *path, const char *what) {
  fprintf(stderr, "rec train: warning: %s: an older rec wrote this checkpoint; whether the %s the same is not known\n", path,
          what);
}

// It wrote what its compiler had found in the formulas.
static void forget_formulas(const char *path, cJSON *was, cJSON *now) {
  if (json_get(was, "formulas")) return;
  cJSON_DeleteItemFromObjectCaseSensitive(was, "equations");
  cJSON_DeleteItemFromObjectCaseSensitive(now, "formulas");
  warn(path, "formulas are");
}

rec_status identity_check(const char *path, const char *was, const char *now) {
  if (!was) return warn(path, "program, its data and its options are"), REC_OK;
  cJSON *old = cJSON_Parse(was), *fresh = cJSON_Parse(now);
  char *text = NULL;
  size_t size = 0;
  changes c = {.text = old && fresh ? open_memstream(&text, &size) : NULL};
  if (c.text) forget_formulas(path, old, fresh);
  if (c.text) compare_all(&c, old, fresh);
  rec_status status = REC_OK;
  if (!c.text || fclose(c.text))
    status = rec_no_memory();
  else if (c.count)
    status = rec_fail(REC_ERROR_ARGUMENT,
                      "%s: expected what this run was trained with so far, found another: %s; put it back to go on, or train "
                      "in another folder (--runs DIR)",
                      path, text);
  free(text);
  cJSON_Delete(old);
  cJSON_Delete(fresh);
  return status;
}
