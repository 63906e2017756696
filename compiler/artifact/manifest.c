// Prints the manifest of a library as JSON; abi.h describes it.
#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compiler/abi/output.h"
#include "compiler/artifact/tables.h"
#include "compiler/base/ice.h"
#include "compiler/graph/graph.h"
#include "compiler/schedule/report.h"
#include "compiler/syntax/syntax.h"

// cJSON returns NULL when memory is short, and only then.
static cJSON *must(cJSON *json) {
  if (!json) ICE("artifact", "no memory for the manifest");
  return json;
}

static cJSON *text_or_null(const char *text) {
  return must(text ? cJSON_CreateString(text) : cJSON_CreateNull());
}

static void add_json_item(cJSON *object, const char *key, cJSON *value) {
  cJSON_AddItemToObject(object, key, must(value));
}
static void add_json_text(cJSON *object, const char *key, const char *text) {
  add_json_item(object, key, text_or_null(text));
}
static void add_json_number(cJSON *object, const char *key, double number) {
  add_json_item(object, key, cJSON_CreateNumber(number));
}

static cJSON *axis_names(const typed_body *body, const int *axes, int count) {
  cJSON *names = must(cJSON_CreateArray());
  for (int i = 0; i < count; i++)
    cJSON_AddItemToArray(names, text_or_null(body->axes.items[axes[i]].name));
  return names;
}

static cJSON *texts_json(const char *const *texts, int count) {
  cJSON *list = must(cJSON_CreateArray());
  for (int i = 0; i < count; i++) cJSON_AddItemToArray(list, text_or_null(texts[i]));
  return list;
}

// "scalar decay"
static void add_class(cJSON *row, state_class class) {
  char text[32];
  snprintf(text, sizeof text, "%s", state_class_word(class));
  for (char *c = text; *c; c++)
    if (*c == '_') *c = ' ';
  add_json_text(row, "class", text);
}

static cJSON *structure_json(const recurrence *r) {
  cJSON *list = must(cJSON_CreateArray());
  int state = 0;
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    const state_structure *structure = &r->states.items[state++];
    cJSON *row = must(cJSON_CreateObject());
    add_json_text(row, "state", r->body.tensors.items[i].name);
    add_class(row, structure->class);
    add_json_number(row, "stratum", structure->stratum);
    cJSON_AddItemToArray(list, row);
  }
  return list;
}

static cJSON *axes_json(arena *a, const typed_body *body) {
  cJSON *list = must(cJSON_CreateArray());
  vec_each(const typed_axis, axis, body->axes) {
    cJSON *row = must(cJSON_CreateObject());
    add_json_text(row, "name", axis->name);
    add_json_item(row, "size",
                  axis->size == TYPED_RUNTIME_SIZE ? cJSON_CreateNull()
                                                   : cJSON_CreateNumber((double)axis->size));
    bool computed = axis->size == TYPED_RUNTIME_SIZE && axis->size_expr;
    add_json_text(row, "expression", computed ? expr_to_text(a, axis->size_expr) : NULL);
    cJSON_AddItemToArray(list, row);
  }
  return list;
}

static cJSON *tensors_json(arena *a, const typed_body *body) {
  static const char *const kinds[] = {[TENSOR_INPUT] = "input",
                                      [TENSOR_PARAM] = "param",
                                      [TENSOR_STATE] = "state",
                                      [TENSOR_OUTPUT] = "output"};
  cJSON *list = must(cJSON_CreateArray());
  vec_each(const typed_tensor, tensor, body->tensors) {
    cJSON *row = must(cJSON_CreateObject());
    add_json_text(row, "name", tensor->name);
    add_json_text(row, "kind", kinds[tensor->kind]);
    add_json_item(row, "axes", axis_names(body, tensor->axes, tensor->axis_count));
    add_json_item(row, "complex", cJSON_CreateBool(tensor->complex));
    double promise[2] = {tensor->low, tensor->high};
    add_json_item(row, "promise",
                  tensor->promised ? cJSON_CreateDoubleArray(promise, 2) : cJSON_CreateNull());
    bool has_start = tensor->start && tensor->start->source;
    const char *begin = tensor->begin ? begin_text(a, body, tensor) : NULL;
    add_json_text(row, "start", has_start ? expr_to_text(a, tensor->start->source) : begin);
    if (tensor->start) add_json_item(row, "draw", tensor_start_json(a, body, tensor));
    add_json_text(row, "doc", tensor->doc);
    cJSON_AddItemToArray(list, row);
  }
  return list;
}

static cJSON *lags_json(arena *a, const abi_recurrence *abi) {
  cJSON *list = must(cJSON_CreateArray());
  for (int i = 0; i < abi->body->lags.count; i++) {
    const typed_lag *lag = &abi->body->lags.items[i];
    int axes[TYPED_MAX_AXES];
    int count = abi_axes(abi, &abi->memories.items[abi_find(abi, ABI_H0, -1, i)], axes);
    cJSON *row = must(cJSON_CreateObject());
    add_json_text(row, "name", arena_printf(a, "%s.lag", lag->name));
    add_json_text(row, "of", lag->name);
    add_json_number(row, "depth", lag->depth);
    add_json_item(row, "axes", axis_names(abi->body, axes, count));
    add_json_item(row, "complex", cJSON_CreateBool(lag->complex));
    cJSON_AddItemToArray(list, row);
  }
  return list;
}

static cJSON *arguments_json(const abi_recurrence *abi) {
  static const char *const kinds[] = {[ABI_SIZE] = "size",
                                      [ABI_BATCH] = "batch",
                                      [ABI_TIME] = "time",
                                      [ABI_SEQUENCES] = "sequences",
                                      [ABI_AXIS] = "axis",
                                      [ABI_CU_SEQLENS] = "cu_seqlens",
                                      [ABI_DATA] = "data",
                                      [ABI_BATCH_STRIDE] = "batch_stride",
                                      [ABI_TIME_STRIDE] = "time_stride"};
  cJSON *fields = must(cJSON_CreateArray());
  vec_each(const abi_field, field, abi->fields) {
    const char *of = NULL;
    if (field->kind == ABI_AXIS) of = abi->body->axes.items[field->index].name;
    if (field->kind >= ABI_DATA) of = abi->memories.items[field->index].apply_name;
    cJSON *row = must(cJSON_CreateObject());
    add_json_text(row, "name", field->name);
    add_json_number(row, "offset", field->offset);
    add_json_text(row, "kind", kinds[field->kind]);
    add_json_text(row, "of", of);
    cJSON_AddItemToArray(fields, row);
  }
  cJSON *arguments = must(cJSON_CreateObject());
  add_json_number(arguments, "size", abi->arguments_size);
  add_json_item(arguments, "fields", fields);
  return arguments;
}

static bool runs_on(codegen_gpu_target target, int device) {
  static const device_class classes[] = {[REC_GPU_SMALL] = CLASS_SMALL,
                                         [REC_GPU_LARGE] = CLASS_LARGE,
                                         [REC_GPU_GROUPS] = CLASS_WARPGROUPS};
  return target == GPU_SIMT || codegen_gpu_class(target) == classes[device];
}

// The targets of the library that run the kernels for GPUs of a class.
static cJSON *library_targets(const artifact *library, int device) {
  cJSON *names = must(cJSON_CreateArray());
  for (int target = 0; target < GPU_TARGET_COUNT; target++)
    if (library->gpu_targets >> target & 1 && runs_on((codegen_gpu_target)target, device))
      cJSON_AddItemToArray(names,
                           text_or_null(codegen_gpu_target_name((codegen_gpu_target)target)));
  return names;
}

static cJSON *device_json(const artifact *library, const artifact_saved_texts *saved, int device) {
  bool host = device == ARTIFACT_HOST;
  cJSON *row = must(cJSON_CreateObject()), *formulas = must(cJSON_CreateObject());
  add_json_text(row, "device", host ? "host" : "gpu");
  add_json_item(row, "class", host ? cJSON_CreateNull() : cJSON_CreateNumber(device));
  add_json_item(row, "code", host ? cJSON_CreateArray() : library_targets(library, device));
  add_json_text(formulas, "batch", saved->batch[device + 1]);
  add_json_text(formulas, "packed", saved->packed[device + 1]);
  add_json_item(row, "saved", formulas);
  return row;
}

static cJSON *sizes_json(arena *a, const artifact *library, const artifact_recurrence *r) {
  artifact_saved_texts saved = artifact_saved_formulas(a, library, r);
  cJSON *list = must(cJSON_CreateArray());
  for (int device = ARTIFACT_HOST; device < ARTIFACT_CLASSES; device++)
    if (saved.batch[device + 1]) cJSON_AddItemToArray(list, device_json(library, &saved, device));
  return list;
}

// The hash of the formulas, without the names of lets, which stand in quotes. Names of lets and
// comments do not change it, nor does what the compiler makes of the formulas.
static const char *formulas_hash(arena *a, const typed_body *body) {
  const recurrence as_written = {.body = *body};
  char *text = recurrence_print(a, &as_written), *end = text;
  bool quoted = false;
  for (const char *c = text; *c; c++) {
    if (*c == '"') quoted = !quoted;
    if (!quoted) *end++ = *c;
  }
  return arena_printf(a, "%016llx", (unsigned long long)XXH64(text, (size_t)(end - text), 0));
}

// The axes of -D that have several sizes, and those of a variant.
static cJSON *fixed_json(const artifact_recurrence *r) {
  cJSON *json = must(cJSON_CreateObject());
  for (int i = 0; i < r->fixed.count; i++)
    add_json_number(json, r->fixed.items[i].axis, (double)r->fixed.items[i].size);
  return json;
}

static cJSON *segment_json(arena *a, const artifact_recurrence *r) {
  artifact_kernels kernels = artifact_describe(a, r->variant, r);
  const typed_body *body = r->abi->body;
  axis_set instances = artifact_instance_axes(body, &kernels);
  cJSON *json = must(cJSON_CreateObject());
  int axes[TYPED_MAX_AXES], count = 0;
  for (int i = 0; i < body->tensors.count && !count; i++) {
    const typed_tensor *t = &body->tensors.items[i];
    for (int x = 0; t->kind == TENSOR_STATE && x < t->axis_count; x++)
      if (axis_in(instances, t->axes[x])) axes[count++] = t->axes[x];
  }
  add_json_number(json, "multiple", (double)artifact_segment_multiple(&kernels, r->kernels->chunk));
  add_json_item(json, "instances", axis_names(body, axes, count));
  add_json_text(json, "forward", r->delays ? NULL : schedule_summary_text(a, r->kernels, false));
  add_json_text(json, "backward", r->delays ? NULL : schedule_summary_text(a, r->kernels, true));
  return json;
}

static cJSON *recurrence_json(arena *a, const artifact_recurrence *r) {
  const typed_body *body = r->abi->body;
  cJSON *json = must(cJSON_CreateObject());
  add_json_text(json, "name", body->name);
  add_json_text(json, "symbol", r->abi->symbol);
  add_json_text(json, "dtype", number_type_text(r->variant->dtype));
  add_json_text(json, "variant_of", strcmp(r->abi->symbol, r->plain) == 0 ? NULL : r->plain);
  add_json_item(json, "fixed", fixed_json(r));
  add_json_text(json, "doc", body->doc);
  add_json_text(json, "form", r->kernels->form);
  add_json_text(json, "why", r->kernels->why);
  add_json_number(json, "chunk", r->kernels->chunk);
  add_json_text(json, "report", r->report);
  add_json_text(json, "formulas", formulas_hash(a, r->formulas));
  add_json_item(json, "structure", structure_json(r->kernels->recurrence));
  add_json_item(json, "axes", axes_json(a, body));
  add_json_item(json, "tensors", tensors_json(a, body));
  add_json_item(json, "lags", lags_json(a, r->abi));
  add_json_item(json, "arguments", arguments_json(r->abi));
  add_json_item(json, "sizes", sizes_json(a, r->variant, r));
  add_json_item(json, "segment", segment_json(a, r));
  return json;
}

static cJSON *entries_json(const artifact *library) {
  cJSON *list = must(cJSON_CreateArray());
  vec_each(const artifact_entry, entry, library->entries) {
    cJSON *row = must(cJSON_CreateObject()), *variants = must(cJSON_CreateArray());
    add_json_text(row, "symbol", entry->symbol);
    add_json_text(row, "same_as", entry->same_as);
    for (int k = 0; k < entry->variants.count; k++)
      cJSON_AddItemToArray(
          variants, text_or_null(library->recurrences.items[entry->variants.items[k]].abi->symbol));
    add_json_item(row, "variants", variants);
    cJSON_AddItemToArray(list, row);
  }
  return list;
}

// Of everything that decides what the library computes.
const char *artifact_hash(arena *a, const artifact *library) {
  XXH64_state_t state;
  XXH64_reset(&state, 0);
  const char *options = arena_printf(
      a, "%s %s %s O%d chunk %d/%d %s%s%s%s%s%s%s%s%s", REC_VERSION, ABI_TEXT,
      number_type_text(library->dtype), library->level, library->chunk, library->save_every,
      schedule_form_text(library->form), library->check ? " check" : "",
      library->summary ? " summary" : "",
      library->clones ? arena_printf(a, " host %x", library->clones) : "",
      library->gpu_targets ? arena_printf(a, " gpu %x%s shared %d", library->gpu_targets,
                                          library->tf32 ? " tf32" : "", library->shared_kib)
                           : "",
      *library->prefix ? " prefix " : "", library->prefix, *library->without ? " without " : "",
      library->without);
  XXH64_update(&state, options, strlen(options) + 1);
  for (int i = 1; i < library->dtypes.count; i++)
    XXH64_update(&state, number_type_text(library->dtypes.items[i]),
                 strlen(number_type_text(library->dtypes.items[i])) + 1);
  for (int i = 0; i < library->defines.count; i++)
    XXH64_update(&state, library->defines.items[i], strlen(library->defines.items[i]) + 1);
  for (int i = 0; i < library->exported.count; i++)
    XXH64_update(&state, library->exported.items[i], strlen(library->exported.items[i]) + 1);
  for (int i = 0; i < library->sources.count; i++)
    XXH64_update(&state, library->sources.items[i]->text,
                 library->sources.items[i]->size + (size_t)1);
  return arena_printf(a, "%016llx", (unsigned long long)XXH64_digest(&state));
}

char *artifact_manifest(arena *a, const artifact *library, bool indented) {
  cJSON *json = must(cJSON_CreateObject());
  add_json_text(json, "rec", REC_VERSION);
  add_json_text(json, "mark", OUTPUT_MARK_TEXT);  // first of all text from the program
  add_json_text(json, "abi", ABI_TEXT);
  add_json_text(json, "prefix", library->prefix);
  add_json_text(json, "hash", artifact_hash(a, library));
  add_json_text(json, "dtype", number_type_text(library->dtype));
  cJSON *dtypes = must(cJSON_CreateArray());
  for (int i = 0; i < library->dtypes.count; i++)
    cJSON_AddItemToArray(dtypes, text_or_null(number_type_text(library->dtypes.items[i])));
  add_json_item(json, "dtypes", dtypes);
  unsigned clones = 0;
  for (int i = 0; i < library->dtypes.count; i++)
    clones |= codegen_clones_asked(library->clones, library->dtypes.items[i]);
  cJSON *targets = must(cJSON_CreateArray());
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    if (clones >> clone & 1)
      cJSON_AddItemToArray(targets, text_or_null(codegen_clone_name((codegen_clone)clone)));
  for (int target = 0; target < GPU_TARGET_COUNT; target++)
    if (library->gpu_targets >> target & 1)
      cJSON_AddItemToArray(targets, text_or_null(codegen_gpu_target_name(target)));
  add_json_item(json, "targets", targets);
  add_json_number(json, "optimisation", library->level);
  add_json_number(json, "chunk", library->chunk);
  add_json_number(json, "save_every", library->save_every);
  add_json_text(json, "form", schedule_form_text(library->form));
  add_json_item(json, "check", cJSON_CreateBool(library->check));
  add_json_item(json, "summary", cJSON_CreateBool(library->summary));
  add_json_item(json, "tf32", cJSON_CreateBool(library->tf32));
  add_json_number(json, "shared_memory", library->shared_kib);
  add_json_text(json, "without", library->without);
  add_json_item(json, "defines", texts_json(library->defines.items, library->defines.count));
  add_json_item(json, "exported", texts_json(library->exported.items, library->exported.count));
  add_json_text(json, "from", library->from);
  cJSON *files = must(cJSON_CreateArray());
  for (int i = 0; i < library->sources.count; i++) {
    cJSON *row = must(cJSON_CreateObject());
    add_json_text(row, "path", library->sources.items[i]->path);
    add_json_text(row, "text", library->sources.items[i]->text);
    cJSON_AddItemToArray(files, row);
  }
  add_json_item(json, "sources", files);
  cJSON *recurrences = must(cJSON_CreateArray());
  for (int i = 0; i < library->recurrences.count; i++)
    cJSON_AddItemToArray(recurrences, recurrence_json(a, &library->recurrences.items[i]));
  add_json_item(json, "recurrences", recurrences);
  add_json_item(json, "entries", entries_json(library));
  if (library->program) add_json_item(json, "program", cJSON_CreateRaw(library->program));
  char *printed = indented ? cJSON_Print(json) : cJSON_PrintUnformatted(json);
  if (!printed) ICE("artifact", "no memory for the manifest");
  char *text = arena_strdup(a, printed);
  cJSON_free(printed);
  cJSON_Delete(json);
  return text;
}
