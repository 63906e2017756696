// Opens compiled libraries and turns their manifest into signatures and offsets of arguments.
#include "runtime/module.h"
#include "compiler/abi/json.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/library_file.h"

rec_module *rec_module_new(const char *path) {
  rec_module *module = calloc(1, sizeof *module);
  if (module) module->path = strdup(path);
  if (module && module->path) return module;
  free(module);
  rec_no_memory();
  return NULL;
}

void rec_module_close(rec_module *module) {
  if (!module) return;
  rec_front_free(module->front);
  cJSON_Delete(module->json);
  if (module->library) dlclose(module->library);
  rec_blocks_free(&module->blocks);
  free(module->manifest);
  free(module->path);
  free(module);
}

const char *rec_module_manifest(const rec_module *module) {
  return module->manifest ? module->manifest : "";
}

bool rec_module_has_target(const rec_module *module, const char *target) {
  const cJSON *word;
  cJSON_ArrayForEach(word, json_get(module->json, "targets")) if (cJSON_IsString(word) &&
                                                                  strcmp(word->valuestring,
                                                                         target) == 0) return true;
  return false;
}

int rec_module_count(const rec_module *module) { return module->count; }

const rec_recurrence *rec_module_recurrence(const rec_module *module, int index) {
  return index >= 0 && index < module->count ? &module->recurrences[index] : NULL;
}

const rec_recurrence *rec_module_find(const rec_module *module, const char *name) {
  for (int i = 0; i < module->count; i++)
    if (strcmp(module->recurrences[i].signature.name, name) == 0) return &module->recurrences[i];
  return NULL;
}

const rec_signature *rec_recurrence_signature(const rec_recurrence *recurrence) {
  return &recurrence->signature;
}

bool rec_call_numbers(const rec_signature *signature, int variable, const rec_call *call,
                      int64_t *numbers) {
  const rec_variable *v = &signature->variables[variable];
  bool packed = call->cu_seqlens && rec_is_carried(v);
  int64_t entries = v->kind == REC_PARAM ? 1 : packed ? call->sequences : call->batch;
  bool fits =
      rec_multiply(rec_variable_numbers(signature, variable, call->axis_sizes), entries, numbers) &&
      (!rec_is_token(v) || rec_multiply(*numbers, call->time, numbers));
  return fits && *numbers < INT64_MAX / 16;
}

void **rec_call_tables(const rec_signature *signature, rec_call *call) {
  size_t count = (size_t)signature->variable_count;
  void **tables = calloc(4 * count + 1, sizeof *tables);
  if (!tables) return NULL;
  call->value = tables;
  call->final = tables + count;
  call->gradient = tables + 2 * count;
  call->d_final = tables + 3 * count;
  return tables;
}

int64_t rec_variable_numbers(const rec_signature *signature, int variable,
                             const int64_t *axis_sizes) {
  const rec_variable *v = &signature->variables[variable];
  int64_t numbers = v->complex ? 2 : 1;
  bool fits = true;
  if (v->kind == REC_LAG) fits = rec_multiply(numbers, v->depth, &numbers);
  for (int i = 0; i < v->axis_count; i++)
    fits = fits && rec_multiply(numbers, axis_sizes[v->axes[i]], &numbers);
  return fits ? numbers : INT64_MAX;
}

// ---- The manifest ----------------------------------------------------------------------------

// Reading stops at the first thing that is not as the manifest's description says; `what` names it.
typedef struct reader {
  rec_module *module;
  rec_recurrence *recurrence;  // whose lists are being read
  const char *what;
} reader;

static const cJSON *get(reader *r, const cJSON *object, const char *key) {
  const cJSON *item = json_get(object, key);
  if (!item && !r->what) r->what = key;
  return item;
}

static const char *get_text(reader *r, const cJSON *object, const char *key) {
  const cJSON *item = get(r, object, key);
  if (!cJSON_IsString(item) && !r->what) r->what = key;
  return cJSON_IsString(item) ? item->valuestring : "";
}

// A text or null.
static const char *get_optional(reader *r, const cJSON *object, const char *key) {
  const cJSON *item = get(r, object, key);
  return cJSON_IsString(item) ? item->valuestring : NULL;
}

static int64_t get_number(reader *r, const cJSON *object, const char *key) {
  const cJSON *item = get(r, object, key);
  bool fits = cJSON_IsNumber(item) && item->valuedouble >= -1 && item->valuedouble <= INT32_MAX;
  if (!fits && !r->what) r->what = key;
  return fits ? (int64_t)item->valuedouble : 0;
}

static int get_count(reader *r, const cJSON *object, const char *key, const cJSON **list) {
  *list = get(r, object, key);
  if (!cJSON_IsArray(*list) && !r->what) r->what = key;
  return cJSON_IsArray(*list) ? cJSON_GetArraySize(*list) : 0;
}

static void *take_module_memory(reader *r, int count, size_t size) {
  void *memory = rec_blocks_take(&r->module->blocks, ((size_t)count + 1) * size);
  if (!memory) r->what = "memory";
  return memory;
}

typedef void read_entry(reader *r, const cJSON *item, void *entry);

// The list `key`: `read` for each of its items and the entry of `size` bytes that is made of it.
static void *read_module_list(reader *r, const cJSON *json, const char *key, size_t size,
                              int *count, read_entry *read) {
  const cJSON *list, *item;
  *count = get_count(r, json, key, &list);
  char *entries = take_module_memory(r, *count, size), *entry = entries;
  if (!r->what) cJSON_ArrayForEach(item, list) read(r, item, entry), entry += size;
  return entries;
}

static int signature_axis(reader *r, const rec_signature *signature, const char *name) {
  for (int i = 0; i < signature->axis_count; i++)
    if (strcmp(signature->axes[i].name, name) == 0) return i;
  r->what = "axes";
  return 0;
}

static void read_manifest_axis(reader *r, const cJSON *item, void *entry) {
  *(rec_axis *)entry =
      (rec_axis){.name = get_text(r, item, "name"),
                 .size = cJSON_IsNull(get(r, item, "size")) ? -1 : get_number(r, item, "size"),
                 .expression = get_optional(r, item, "expression")};
}

static void read_variable_axis(reader *r, const cJSON *item, void *entry) {
  *(int *)entry =
      signature_axis(r, &r->recurrence->signature, cJSON_IsString(item) ? item->valuestring : "");
}

static void read_variable(reader *r, const cJSON *json, rec_variable *v) {
  v->name = get_text(r, json, "name");
  v->complex = cJSON_IsTrue(get(r, json, "complex"));
  v->axes = read_module_list(r, json, "axes", sizeof *v->axes, &v->axis_count, read_variable_axis);
}

static rec_kind variable_kind(reader *r, const char *text) {
  static const char *const kinds[] = {"input", "param", "state", "output"};
  for (int i = 0; i < 4; i++)
    if (strcmp(text, kinds[i]) == 0) return (rec_kind)i;
  r->what = "kind";
  return REC_INPUT;
}

static void read_variables(reader *r, const cJSON *json, rec_signature *signature) {
  const cJSON *tensors, *lags, *item;
  int tensor_count = get_count(r, json, "tensors", &tensors);
  int lag_count = get_count(r, json, "lags", &lags);
  signature->variable_count = tensor_count + lag_count;
  rec_variable *v = take_module_memory(r, signature->variable_count, sizeof *v);
  if (r->what) return;
  signature->variables = v;
  cJSON_ArrayForEach(item, tensors) {
    v->kind = variable_kind(r, get_text(r, item, "kind"));
    read_variable(r, item, v++);
  }
  cJSON_ArrayForEach(item, lags) {
    v->kind = REC_LAG;
    v->depth = get_number(r, item, "depth");
    read_variable(r, item, v++);
  }
}

// The place that a field of kind data or stride belongs to, by the name it has in `rec apply`
// ("d.h0.x.lag").
static rec_place *find_field_place(rec_recurrence *recurrence, const char *of) {
  bool gradient = strncmp(of, "d.", 2) == 0;
  if (gradient) of += 2;
  bool before = strncmp(of, "h0.", 3) == 0, after = strncmp(of, "hT.", 3) == 0;
  if (before || after) of += 3;
  for (int i = 0; i < recurrence->signature.variable_count; i++) {
    if (strcmp(recurrence->signature.variables[i].name, of) != 0) continue;
    rec_places *p = &recurrence->places[i];
    if (after) return gradient ? &p->d_final : &p->final;
    return gradient ? &p->gradient : &p->value;
  }
  return NULL;
}

static void read_field(reader *r, const cJSON *json, rec_recurrence *recurrence) {
  const char *kind = get_text(r, json, "kind"), *of = get_optional(r, json, "of");
  int offset = (int)get_number(r, json, "offset");
  if (r->what) return;
  const struct {
    const char *kind;
    int *offset;
  } single[] = {{"size", &recurrence->size_offset},
                {"batch", &recurrence->batch_offset},
                {"time", &recurrence->time_offset},
                {"sequences", &recurrence->sequences_offset},
                {"cu_seqlens", &recurrence->cu_seqlens_offset}};
  for (int i = 0; i < 5; i++) {
    if (strcmp(kind, single[i].kind) == 0) {
      *single[i].offset = offset;
      return;
    }
  }
  if (!of) {
    r->what = "of";
  } else if (strcmp(kind, "axis") == 0) {
    int axis = signature_axis(r, &recurrence->signature, of);
    if (!r->what) recurrence->axis_offsets[axis] = offset;
  } else {
    rec_place *place = find_field_place(recurrence, of);
    if (!place)
      r->what = of;
    else if (strcmp(kind, "data") == 0)
      place->data = offset;
    else if (strcmp(kind, "batch_stride") == 0)
      place->batch_stride = offset;
    else if (strcmp(kind, "time_stride") == 0)
      place->time_stride = offset;
    else
      r->what = kind;
  }
}

static void read_entry_arguments(reader *r, const cJSON *json, rec_recurrence *recurrence) {
  int variables = recurrence->signature.variable_count, axes = recurrence->signature.axis_count;
  const cJSON *arguments = get(r, json, "arguments"), *list, *item;
  recurrence->arguments_size = (int)get_number(r, arguments, "size");
  recurrence->places = take_module_memory(r, variables, sizeof *recurrence->places);
  recurrence->axis_offsets = take_module_memory(r, axes, sizeof *recurrence->axis_offsets);
  get_count(r, arguments, "fields", &list);
  if (r->what) return;
  const rec_place none = {-1, -1, -1};
  for (int i = 0; i < variables; i++) recurrence->places[i] = (rec_places){none, none, none, none};
  for (int i = 0; i < axes; i++) recurrence->axis_offsets[i] = -1;
  recurrence->size_offset = recurrence->batch_offset = recurrence->time_offset = -1;
  recurrence->sequences_offset = recurrence->cu_seqlens_offset = -1;
  cJSON_ArrayForEach(item, list) read_field(r, item, recurrence);
}

static void *find_entry_point(const reader *r, const char *symbol, const char *suffix) {
  char name[512];
  snprintf(name, sizeof name, "%s_%s", symbol, suffix);
  return dlsym(r->module->library, name);
}

static void *need_entry_point(reader *r, const char *symbol, const char *suffix) {
  void *address = find_entry_point(r, symbol, suffix);
  if (!address && !r->what) r->what = suffix;
  return address;
}

static void read_recurrence(reader *r, const cJSON *json, void *entry_of_list) {
  rec_recurrence *recurrence = r->recurrence = entry_of_list;
  recurrence->index = r->module->count++;
  recurrence->module = r->module;
  recurrence->json = json;
  recurrence->signature.name = get_text(r, json, "name");
  recurrence->signature.doc = get_optional(r, json, "doc");
  recurrence->signature.token_type = r->module->dtype;
  recurrence->signature.carried_type = rec_carried_type(r->module->dtype);
  recurrence->symbol = get_text(r, json, "symbol");
  recurrence->formulas = cJSON_GetStringValue(json_get(json, "formulas"));
  recurrence->signature.axes =
      read_module_list(r, json, "axes", sizeof *recurrence->signature.axes,
                       &recurrence->signature.axis_count, read_manifest_axis);
  if (!r->what) read_variables(r, json, &recurrence->signature);
  if (!r->what) read_entry_arguments(r, json, recurrence);
  if (r->what) return;
  *(void **)&recurrence->forward = need_entry_point(r, recurrence->symbol, "forward");
  *(void **)&recurrence->backward = need_entry_point(r, recurrence->symbol, "backward");
  *(void **)&recurrence->step = need_entry_point(r, recurrence->symbol, "step");
  *(void **)&recurrence->sizes = need_entry_point(r, recurrence->symbol, "sizes");
  *(void **)&recurrence->summary = find_entry_point(r, recurrence->symbol, "summary");
  *(void **)&recurrence->summary_backward =
      find_entry_point(r, recurrence->symbol, "summary_backward");
  *(void **)&recurrence->fold = find_entry_point(r, recurrence->symbol, "fold");
  *(void **)&recurrence->combine = find_entry_point(r, recurrence->symbol, "combine");
}

// ---- variants --------------------------------------------------------------------------------

static const char *axis_part_of_name(const char *name) {
  const char *dot = strchr(name, '.');
  return dot ? dot + 1 : name;
}

// K=64 is for gla.K, and gla.K=64 for K.
static bool is_same_axis(const char *left, const char *right) {
  if (strcmp(axis_part_of_name(left), axis_part_of_name(right)) != 0) return false;
  return axis_part_of_name(left) == left || axis_part_of_name(right) == right ||
         strcmp(left, right) == 0;
}

// The name of a define, in a buffer of its own; the sizes stand behind it.
static const char *split_define(const char *define, char *name, size_t room) {
  const char *equals = strchr(define, '=');
  snprintf(name, room, "%.*s", (int)(equals ? equals - define : 0), define);
  return equals ? equals + 1 : "";
}

static bool lists_size(const char *sizes, int64_t size) {
  for (; *sizes; sizes += strcspn(sizes, ",") + (sizes[strcspn(sizes, ",")] == ','))
    if (strtoll(sizes, NULL, 10) == size) return true;
  return false;
}

// The size of an axis by a tensor of the file, whose last dimensions are the variable's axes; 0:
// none of these.
static int64_t size_by_tensor(const cJSON *variable, const char *axis, const rec_file *file) {
  char name[1024];
  bool carried = strcmp(json_text(variable, "kind"), "state") == 0;
  snprintf(name, sizeof name, "%s%s", carried ? "h0." : "", json_text(variable, "name"));
  const rec_tensor *tensor = rec_file_find(file, name);
  const cJSON *axes = json_get(variable, "axes");
  int count = cJSON_GetArraySize(axes),
      rank = tensor ? tensor->rank - cJSON_IsTrue(json_get(variable, "complex")) : 0;
  for (int i = 0; i < count && count <= rank; i++) {
    const cJSON *item = cJSON_GetArrayItem(axes, i);
    if (cJSON_IsString(item) && strcmp(item->valuestring, axis) == 0)
      return tensor->shape[rank - count + i];
  }
  return 0;
}

// The size that the inputs of a recurrence give an axis of several sizes; 0: they do not have it.
static int64_t size_by_inputs(const cJSON *manifest, const char *name, const rec_variant *variant) {
  const cJSON *recurrence, *variable;
  cJSON_ArrayForEach(recurrence, json_get(manifest, "recurrences")) {
    if (strcmp(json_text(recurrence, "name"), variant->recurrence) != 0) continue;
    cJSON_ArrayForEach(variable, json_get(recurrence, "tensors")) {
      int64_t size = size_by_tensor(variable, axis_part_of_name(name), variant->inputs);
      if (size) return size;
    }
  }
  return 0;
}

// Whether a define is for a recurrence: `K` is for all, `gla.K` for gla.
static bool define_is_for(const char *name, const char *recurrence) {
  size_t length = strlen(recurrence);
  return axis_part_of_name(name) == name ||
         (strncmp(name, recurrence, length) == 0 && axis_part_of_name(name) == name + length + 1);
}

static void pick_by_inputs(rec_pick *pick, const cJSON *manifest, const char *sizes,
                           const rec_variant *variant) {
  if (!define_is_for(pick->name, variant->recurrence)) {
    pick->asked = true;  // nothing depends on it
    return;
  }
  int64_t size = size_by_inputs(manifest, pick->name, variant);
  pick->asked = lists_size(sizes, size);
  if (pick->asked) pick->size = size;
}

// Picks the size of a define that has several: the one asked for, if it is there, else that of the
// inputs, else the first.
static void pick_size(reader *r, const cJSON *manifest, const char *name, const char *sizes,
                      const rec_variant *variant) {
  rec_pick *pick = &r->module->picks[r->module->pick_count++];
  *pick = (rec_pick){name, strtoll(sizes, NULL, 10), false};
  if (variant->inputs) pick_by_inputs(pick, manifest, sizes, variant);
  for (int i = 0; i < variant->define_count; i++) {
    char asked[512];
    int64_t size = strtoll(split_define(variant->defines[i], asked, sizeof asked), NULL, 10);
    if (!is_same_axis(name, asked)) continue;
    pick->asked = lists_size(sizes, size);
    if (pick->asked) pick->size = size;
  }
}

// A define of the library as the variant has it.
static const char *variant_define(reader *r, const cJSON *manifest, const char *define,
                                  const rec_variant *variant) {
  char name[512], text[600];
  const char *sizes = split_define(define, name, sizeof name);
  if (!strchr(sizes, ',')) return define;
  char *kept = take_module_memory(r, (int)strlen(name), 1),
       *one = take_module_memory(r, (int)sizeof text, 1);
  if (r->what) return define;
  memcpy(kept, name, strlen(name) + 1);
  pick_size(r, manifest, kept, sizes, variant);
  snprintf(text, sizeof text, "%s=%lld", name,
           (long long)r->module->picks[r->module->pick_count - 1].size);
  memcpy(one, text, strlen(text) + 1);
  return one;
}

// Whether a later define is for the same axis, and counts in its place.
static bool is_overridden(const cJSON *define) {
  const char *text = cJSON_IsString(define) ? define->valuestring : "";
  size_t name = strcspn(text, "=") + 1;
  bool overridden = false;
  for (const cJSON *later = define->next; later; later = later->next)
    overridden |= cJSON_IsString(later) && strncmp(later->valuestring, text, name) == 0;
  return overridden;
}

static void read_defines(reader *r, const cJSON *json, const rec_variant *variant) {
  const cJSON *list = json_get(json, "defines"), *item;
  int count = cJSON_GetArraySize(list);
  r->module->defines = take_module_memory(r, count, sizeof *r->module->defines);
  r->module->picks = take_module_memory(r, count, sizeof *r->module->picks);
  if (r->what) return;
  cJSON_ArrayForEach(item, list) {
    const char *define = cJSON_IsString(item) ? item->valuestring : "";
    if (!is_overridden(item))
      r->module->defines[r->module->define_count++] = variant_define(r, json, define, variant);
  }
}

// The type that is asked for, if the library has it, else its first.
static void choose_dtype(reader *r, const cJSON *json, const rec_variant *variant) {
  // absent from older libraries, which have one
  const cJSON *types = json_get(json, "dtypes"), *type;
  if (!rec_number_type(get_text(r, json, "dtype"), &r->module->dtype) && !r->what)
    r->what = "dtype";
  r->module->dtype_asked = cJSON_GetArraySize(types) < 2;
  cJSON_ArrayForEach(type, types) {
    if (!variant->dtype || !cJSON_IsString(type) || strcmp(type->valuestring, variant->dtype) != 0)
      continue;
    r->module->dtype_asked = rec_number_type(variant->dtype, &r->module->dtype);
  }
}

static const rec_pick *find_pick(const rec_module *module, const char *recurrence,
                                 const char *axis) {
  const rec_pick *found = NULL;
  char named[1024];
  snprintf(named, sizeof named, "%s.%s", recurrence, axis);
  for (int i = 0; i < module->pick_count; i++) {
    if (strcmp(module->picks[i].name, axis) == 0 && !found) found = &module->picks[i];
    if (strcmp(module->picks[i].name, named) == 0) found = &module->picks[i];
  }
  return found;
}

// Whether a recurrence of the manifest belongs to the variant.
static bool is_of_variant(const rec_module *module, const cJSON *recurrence) {
  const char *name = json_text(recurrence, "name");
  const cJSON *size;
  rec_dtype dtype;
  if (rec_number_type(json_text(recurrence, "dtype"), &dtype) && dtype != module->dtype)
    return false;
  cJSON_ArrayForEach(size, json_get(recurrence, "fixed")) {
    const rec_pick *pick = find_pick(module, name, size->string);
    if (pick && size->valuedouble != (double)pick->size) return false;
  }
  return true;
}

bool rec_module_is(const rec_module *module, const rec_variant *variant) {
  rec_dtype dtype = module->dtype;
  if (variant->dtype && (!rec_number_type(variant->dtype, &dtype) || dtype != module->dtype))
    return false;
  for (int i = 0; i < variant->define_count; i++) {
    char asked[512];
    int64_t size = strtoll(split_define(variant->defines[i], asked, sizeof asked), NULL, 10);
    bool picked = false;
    for (int k = 0; k < module->pick_count; k++)
      picked |= is_same_axis(module->picks[k].name, asked) && module->picks[k].size == size;
    if (!picked) return false;
  }
  return true;
}

bool rec_module_is_ambiguous(const rec_module *module) {
  bool asked = module->dtype_asked || !module->library;
  for (int i = 0; i < module->pick_count; i++) asked &= module->picks[i].asked;
  return !asked;
}

// ---- all of it -------------------------------------------------------------------------------

static void read_source_text(reader *r, const cJSON *item, void *entry_of_list) {
  *(rec_source_text *)entry_of_list =
      (rec_source_text){get_text(r, item, "path"), get_text(r, item, "text")};
}

// Those of the variant.
static void read_recurrences(reader *r, const cJSON *json) {
  const cJSON *list, *item;
  rec_module *m = r->module;
  int count = get_count(r, json, "recurrences", &list);
  m->recurrences = take_module_memory(r, count, sizeof *m->recurrences);
  if (r->what) return;
  cJSON_ArrayForEach(item, list) if (is_of_variant(m, item))
      read_recurrence(r, item, &m->recurrences[m->count]);
}

static void read_manifest(reader *r, const cJSON *json, const rec_variant *variant) {
  rec_module *m = r->module;
  const cJSON *defines;
  choose_dtype(r, json, variant);
  if (!r->what) read_defines(r, json, variant);
  read_recurrences(r, json);
  m->sources =
      read_module_list(r, json, "sources", sizeof *m->sources, &m->source_count, read_source_text);
  // Absent from the oldest libraries, which were made of programs.
  m->from = cJSON_GetStringValue(json_get(json, "from"));
  get_count(r, json, "defines", &defines);
}

// "1.0" as the manifest has it; a library with another major number must not be called.
static rec_status check_abi(const char *path, const cJSON *json) {
  const cJSON *abi = json_get(json, "abi");
  const char *text = cJSON_IsString(abi) ? abi->valuestring : "none";
  if (strtol(text, NULL, 10) == REC_ABI_MAJOR) return REC_OK;
  return rec_fail(REC_ERROR_ABI, "%s: expected binary interface %d, found %s; compile it again",
                  path, REC_ABI_MAJOR, text);
}

// Looks at the file before anything in it is run.
static rec_status read_module_file(rec_module *module) {
  const char *path = module->path;
  char *manifest;
  rec_status status = library_read_manifest(path, true, &manifest);
  if (status) return status;
  module->manifest = manifest;
  module->json = cJSON_Parse(manifest);
  if (!module->json) return rec_fail(REC_ERROR_FORMAT, "%s: its manifest is not JSON", path);
  return check_abi(path, module->json);
}

static rec_status load_compiled_module(rec_module *module, const rec_variant *variant) {
  const char *path = module->path;
  // Without a slash, dlopen searches elsewhere.
  char absolute[PATH_MAX];
  if (!realpath(path, absolute)) return rec_fail(REC_ERROR_FILE, "%s: no such file", path);
  rec_status status = read_module_file(module);
  if (status) return status;
  module->library = dlopen(absolute, RTLD_NOW | RTLD_LOCAL);
  if (!module->library)
    return rec_fail(REC_ERROR_FORMAT, "%s: not a library that can be loaded: %s", path, dlerror());
  // Absent from the oldest libraries, which have none.
  const char *prefix = cJSON_GetStringValue(json_get(module->json, "prefix"));
  char error[512];
  snprintf(error, sizeof error, "%srec_error", prefix ? prefix : "");
  *(void **)&module->error = dlsym(module->library, error);
  if (!module->error)
    return rec_fail(REC_ERROR_FORMAT, "%s: not made by recc: it has no %s", path, error);
  reader r = {.module = module};
  read_manifest(&r, module->json, variant);
  if (r.what)
    return rec_fail(REC_ERROR_FORMAT, "%s: its manifest lacks or misstates `%s`", path, r.what);
  return REC_OK;
}

rec_status rec_module_open_variant(const char *path, const rec_variant *variant, rec_module **out) {
  *out = NULL;
  rec_module *module = rec_module_new(path);
  if (!module) return REC_ERROR_MEMORY;
  rec_status status = load_compiled_module(module, variant);
  if (status)
    rec_module_close(module);
  else
    *out = module;
  return status;
}

rec_status rec_module_open(const char *path, rec_module **out) {
  return rec_module_open_variant(path, &(rec_variant){0}, out);
}
