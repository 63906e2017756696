// A JSON object of all that decides which weights a run ends with. Where a value would be long it
// has sixteen digits of a hash.
//
//   {"dtype": "f32", "chunk": 0, "form": "chosen", "model": "LM(D = 16)", "layers": "90ab..",
//    "formulas": {"LM.ssd": "12cd.."}, "weights": {"embedding.weight": "34ef.."},
//    "data": "1000 tokens, 56ab..", "settings": {"lr": 0.003, ..}, "began from": "base 78cd.."}
#include "runtime/train/identity.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/json.h"
#include "runtime/module.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static const char BEGAN_FROM[] = "began from";

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

static void copy_member(cJSON *to, const cJSON *from, const char *key) {
  const cJSON *item = json_get(from, key);
  if (item) cJSON_AddItemToObject(to, key, cJSON_Duplicate(item, true));
}

// How the parts of the model are put together, without its weights, which are listed by themselves.
static cJSON *layers_identity(const train_model *model) {
  static const char *const keys[] = {"vocabulary", "row", "logits",  "states",
                                     "tensors",    "ops", "backward"};
  uint64_t hash = 0;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    hash = hash_of_json(json_get(model->json, keys[i]), hash);
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

static cJSON *weights_identity(const train_model *model) {
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
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    cJSON_DeleteItemFromObjectCaseSensitive(settings, others[i]);
  return settings;
}

static cJSON *data_identity(const train_data *data) {
  char text[64];
  snprintf(text, sizeof text, "%lld tokens, %016llx", (long long)data->count,
           (unsigned long long)train_data_hash(data));
  return cJSON_CreateString(text);
}

static cJSON *model_of(const session *s, const train_block *block) {
  const train_model *model = &s->program->models[block->model];
  cJSON *all = cJSON_CreateObject();
  copy_member(all, s->module->json, "dtype");
  copy_member(all, s->module->json, "chunk");
  copy_member(all, s->module->json, "save_every");
  copy_member(all, s->module->json, "form");
  cJSON_AddStringToObject(all, "model", model->text);
  cJSON_AddItemToObject(all, "layers", layers_identity(model));
  cJSON_AddItemToObject(all, "formulas", formulas_of(s, model));
  return all;
}

static char *printed_json(cJSON *all) {
  char *printed = cJSON_PrintUnformatted(all), *text = printed ? strdup(printed) : NULL;
  cJSON_free(printed);
  cJSON_Delete(all);
  return text;
}

char *identity_of_model(const session *s, const train_block *block) {
  return printed_json(model_of(s, block));
}

char *identity_of(const session *s, const train_block *block, const train_data *data,
                  const char *began_from) {
  cJSON *all = model_of(s, block);
  cJSON_AddItemToObject(all, "weights", weights_identity(&s->program->models[block->model]));
  if (data && !block->generated) cJSON_AddItemToObject(all, "data", data_identity(data));
  cJSON_AddItemToObject(all, "settings", settings_of(block));
  if (began_from) cJSON_AddStringToObject(all, BEGAN_FROM, began_from);
  return printed_json(all);
}

char *identity_began_from(const char *identity) {
  cJSON *all = cJSON_Parse(identity);
  const char *found = cJSON_GetStringValue(json_get(all, BEGAN_FROM));
  char *text = found ? strdup(found) : NULL;
  cJSON_Delete(all);
  return text;
}

// ---- what is another ----------------------------------------------------------------------------

static void print_json_value(FILE *to, const cJSON *value) {
  char *text = value ? cJSON_PrintUnformatted(value) : NULL;
  fprintf(to, "%s", text && strcmp(text, "null") != 0 ? text : "none");
  cJSON_free(text);
}

static bool is_leaf(const cJSON *value) {
  return !value || !(value->type & (cJSON_Object | cJSON_Array));
}

typedef struct changes {
  FILE *text;
  int count;
} changes;

// `lr 0.003, now 0.002`; of what is long, or is known by its hash, the name alone.
static void put_change(changes *c, const char *group, const cJSON *was, const cJSON *now) {
  enum { MOST = 8 };
  const char *key = was ? was->string : now->string;
  const char *of = !strcmp(group, "formulas")  ? "the formulas of "
                   : !strcmp(group, "weights") ? "the weight "
                                               : "";
  if (c->count++ >= MOST) {
    if (c->count == MOST + 1) fputs("; ..", c->text);
    return;
  }
  fprintf(c->text, "%s%s%s", c->count > 1 ? "; " : "", of, key);
  if (*of || !strcmp(key, "layers") || !is_leaf(was) || !is_leaf(now)) return;
  fputc(' ', c->text);
  print_json_value(c->text, was);
  fputs(", now ", c->text);
  print_json_value(c->text, now);
}

static void compare_identity(changes *c, const char *group, const cJSON *was, const cJSON *now) {
  const cJSON *item;
  cJSON_ArrayForEach(item, now) {
    const cJSON *old = json_get(was, item->string);
    if (cJSON_IsObject(item) && cJSON_IsObject(old))
      compare_identity(c, item->string, old, item);
    else if (!old || !cJSON_Compare(old, item, true))
      put_change(c, group, old, item);
  }
  cJSON_ArrayForEach(item, was) if (!json_get(now, item->string)) put_change(c, group, item, NULL);
}

static double number_of(const cJSON *object, const char *key) {
  const cJSON *item = json_get(object, key);
  return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

// Counts of steps that are the same share of all steps, within the rounding to whole ones.
static bool is_same_share(const cJSON *was, const cJSON *now, const char *key) {
  double share = number_of(now, "steps") / number_of(was, "steps"),
         wrong = number_of(was, key) * share - number_of(now, key);
  return fabs(wrong) <= 0.5 + 0.5 * share;
}

// With other steps, what follows from them is no change of its own: shares of all steps, and the
// end of the last initial states.
static void forget_shares_of_steps(cJSON *was, cJSON *now) {
  static const char *const shares[] = {"warmup", "decay"};
  cJSON *both[] = {was, now}, *range;
  if (cJSON_Compare(json_get(was, "steps"), json_get(now, "steps"), true)) return;
  for (int i = 0; i < 2; i++) {
    if (!is_same_share(was, now, shares[i])) continue;
    cJSON_DeleteItemFromObjectCaseSensitive(was, shares[i]);
    cJSON_DeleteItemFromObjectCaseSensitive(now, shares[i]);
  }
  for (int i = 0; i < 2; i++) cJSON_ArrayForEach(range, json_get(both[i], "initial_state")) {
      if (cJSON_Compare(json_get(range, "to"), json_get(both[i], "steps"), true))
        cJSON_DeleteItemFromObjectCaseSensitive(range, "to");
    }
}

// Of another model nothing is the same: its name and sizes say enough.
static void compare_all(changes *c, cJSON *was, cJSON *now) {
  static const char *const parts[] = {"layers", "formulas", "weights"};
  const cJSON *old = json_get(was, "model"), *fresh = json_get(now, "model");
  bool same = !old || !fresh || cJSON_Compare(old, fresh, true);
  for (size_t i = 0; i < sizeof parts / sizeof *parts && !same; i++) {
    cJSON_DeleteItemFromObjectCaseSensitive(was, parts[i]);
    cJSON_DeleteItemFromObjectCaseSensitive(now, parts[i]);
  }
  forget_shares_of_steps(json_get(was, "settings"), json_get(now, "settings"));
  compare_identity(c, "", was, now);
}

// What an older rec did not write of a run cannot be compared.
static void warn(const char *path, const char *what) {
  fprintf(stderr,
          "rec train: warning: %s: an older rec wrote this checkpoint; whether the %s the same is "
          "not known\n",
          path, what);
}

// It wrote what its compiler had found in the formulas.
static void forget_formulas(const char *path, cJSON *was, cJSON *now) {
  if (json_get(was, "formulas")) return;
  cJSON_DeleteItemFromObjectCaseSensitive(was, "equations");
  cJSON_DeleteItemFromObjectCaseSensitive(now, "formulas");
  warn(path, "formulas are");
}

// Without an end of the block before, the caller has said that it is not there.
static void forget_start(const char *path, cJSON *was, cJSON *now) {
  if (!json_get(now, BEGAN_FROM))
    cJSON_DeleteItemFromObjectCaseSensitive(was, BEGAN_FROM);
  else if (!json_get(was, BEGAN_FROM))
    cJSON_DeleteItemFromObjectCaseSensitive(now, BEGAN_FROM),
        warn(path, "weights that it began from are");
}

// What differs, as one text that the caller frees. NULL: no memory.
static char *changes_between(cJSON *was, cJSON *now, int *count) {
  char *text = NULL;
  size_t size = 0;
  changes c = {.text = was && now ? open_memstream(&text, &size) : NULL};
  if (!c.text) return NULL;
  compare_all(&c, was, now);
  *count = c.count;
  if (!fclose(c.text)) return text;
  free(text);
  return NULL;
}

rec_status identity_check(const char *path, const char *was, const char *now) {
  if (!was) return warn(path, "program, its data and its options are"), REC_OK;
  cJSON *old = cJSON_Parse(was), *fresh = cJSON_Parse(now);
  int count = 0;
  if (old && fresh) forget_formulas(path, old, fresh), forget_start(path, old, fresh);
  char *text = changes_between(old, fresh, &count);
  rec_status status = REC_OK;
  if (!text)
    status = rec_no_memory();
  else if (count)
    status = rec_fail(REC_ERROR_ARGUMENT,
                      "%s: expected what this run was trained with so far, found another: %s; put "
                      "it back to go on, or train in another folder (--runs DIR)",
                      path, text);
  free(text);
  cJSON_Delete(old);
  cJSON_Delete(fresh);
  return status;
}

// ---- weights that are read ----------------------------------------------------------------------

static void move_member(cJSON *to, cJSON *from, const char *key) {
  cJSON *item = cJSON_DetachItemFromObjectCaseSensitive(from, key);
  if (item) cJSON_AddItemToObject(to, key, item);
}

static cJSON *source_of(const cJSON *all) { return json_get(json_get(all, "settings"), "source"); }

// What decides the function that weights are, and the meaning of its tokens.
static cJSON *function_identity(cJSON *all) {
  cJSON *function = cJSON_CreateObject();
  static const char *const keys[] = {"model", "layers", "formulas"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) move_member(function, all, keys[i]);
  move_member(function, source_of(all), "tokens");
  return function;
}

// A member that one of the two does not have is not known, and so is what an older rec wrote in
// other words.
static void forget_others(cJSON *all, const cJSON *other) {
  for (cJSON *item = all->child, *next; item; item = next) {
    next = item->next;
    if (!json_get(other, item->string)) cJSON_Delete(cJSON_DetachItemViaPointer(all, item));
  }
}

static rec_status check_same_function(const char *path, cJSON *was, cJSON *now) {
  cJSON *old = function_identity(was), *fresh = function_identity(now);
  int count = 0;
  forget_others(old, fresh), forget_others(fresh, old);
  char *text = changes_between(old, fresh, &count);
  rec_status status = !text ? rec_no_memory() : REC_OK;
  if (text && count)
    status = rec_fail(REC_ERROR_ARGUMENT,
                      "%s: expected weights of this program, found those of another: %s; read them "
                      "with the program that they were trained with, or train again",
                      path, text);
  free(text);
  cJSON_Delete(old);
  cJSON_Delete(fresh);
  return status;
}

// The text behind the share that is trained on is judged. Of another text nothing is known.
static rec_status check_text_held_out(const char *path, const cJSON *was, const cJSON *now) {
  const cJSON *old = json_get(source_of(was), "split"), *fresh = json_get(source_of(now), "split");
  bool same_text = cJSON_Compare(json_get(was, "data"), json_get(now, "data"), true);
  if (!same_text || !cJSON_IsNumber(old) || !cJSON_IsNumber(fresh) ||
      old->valuedouble <= fresh->valuedouble)
    return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "%s: expected a held-out text that was not trained on, found split = %g, trained "
                  "with %g; put it back, or train again",
                  path, fresh->valuedouble, old->valuedouble);
}

static rec_status warn_of_others(const char *path, cJSON *was, cJSON *now) {
  int count = 0;
  char *text = changes_between(was, now, &count);
  if (!text) return rec_no_memory();
  if (count) fprintf(stderr, "rec: warning: %s was trained differently: %s\n", path, text);
  free(text);
  return REC_OK;
}

rec_status identity_check_reader(const char *path, const char *was, const char *now, bool speaks) {
  cJSON *old = was ? cJSON_Parse(was) : NULL, *fresh = cJSON_Parse(now);
  rec_status status = fresh ? REC_OK : rec_no_memory();
  if (!status && old) {
    forget_others(old, fresh), forget_others(fresh, old);
    status = check_same_function(path, old, fresh);
    if (!status) status = check_text_held_out(path, old, fresh);
    if (!status && speaks) status = warn_of_others(path, old, fresh);
  }
  cJSON_Delete(old);
  cJSON_Delete(fresh);
  return status;
}
