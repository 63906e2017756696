// Reads back from a manifest what its library was compiled from: a library carries its own source.
//
//   {"dtype": "f64", "optimisation": 3, "defines": ["P=32"], "sources": [{"path": .., ..}]}
//   ->  the sources, the first of them to be compiled; words --dtype=f64 -O3 -DP=32
#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/output.h"
#include "compiler/artifact/abi.h"

// The whole file with a NUL behind it, or NULL. To be freed.
static char *read_whole_file(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file) output_note_input(fileno(file));
  char *text = NULL;
  size_t used = 0, room = 0;
  for (size_t got = 1; file && got > 0; used += got) {
    if (room - used < 4096) {
      char *larger = realloc(text, room = 2 * room + 8192);
      if (!larger) break;
      text = larger;
    }
    got = fread(text + used, 1, room - used - 1, file);
  }
  bool good = text && !ferror(file) && feof(file);
  if (file) fclose(file);
  if (good) text[used] = 0;
  if (!good) free(text);
  return good ? text : NULL;
}

static const char *member_text(const cJSON *object, const char *key) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

static bool is_target(const char *word) {
  bool known = false;
  for (int clone = 0; clone < CLONE_COUNT; clone++)
    known |= strcmp(codegen_clone_name((codegen_clone)clone), word) == 0;
  for (int target = 0; target < GPU_TARGET_COUNT; target++)
    known |= strcmp(codegen_gpu_target_name((codegen_gpu_target)target), word) == 0;
  return known;
}

// The texts of a list with commas between, as options take them. `wanted` NULL: all.
static const char *joined(arena *a, const cJSON *json, const char *key,
                          bool (*wanted)(const char *word)) {
  const char *list = "";
  const cJSON *word;
  cJSON_ArrayForEach(word, cJSON_GetObjectItemCaseSensitive(json, key)) {
    if (cJSON_IsString(word) && (!wanted || wanted(word->valuestring)))
      list = arena_printf(a, "%s%s%s", list, *list ? "," : "", word->valuestring);
  }
  return list;
}

// A word for each text of a list.
static void add_each(arena *a, const cJSON *json, const char *key, const char *option,
                     artifact_carried *carried) {
  const cJSON *item;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, key)) {
    if (cJSON_IsString(item))
      vec_push(a, &carried->words, arena_printf(a, "%s%s", option, item->valuestring));
  }
}

// An option with a text or a number, or one without, where the library was compiled with it. Older
// libraries lack some.
static void add_word(arena *a, const cJSON *json, const char *key, const char *option,
                     artifact_carried *carried) {
  const cJSON *value = cJSON_GetObjectItemCaseSensitive(json, key);
  if (cJSON_IsString(value) && *value->valuestring)
    vec_push(a, &carried->words, arena_printf(a, "%s%s", option, value->valuestring));
  if (cJSON_IsNumber(value) && value->valueint > 0)
    vec_push(a, &carried->words, arena_printf(a, "%s%d", option, value->valueint));
  if (cJSON_IsTrue(value)) vec_push(a, &carried->words, option);
}

static void add_words(arena *a, const cJSON *json, artifact_carried *carried) {
  const cJSON *level = cJSON_GetObjectItemCaseSensitive(json, "optimisation");
  const char *dtype = member_text(json, "dtype"), *types = joined(a, json, "dtypes", NULL);
  const char *targets = joined(a, json, "targets", is_target);
  add_word(a, json, "prefix", "--prefix=", carried);
  // Absent from older libraries, which have one.
  if (dtype) vec_push(a, &carried->words, arena_printf(a, "--dtype=%s", *types ? types : dtype));
  if (cJSON_IsNumber(level)) vec_push(a, &carried->words, arena_printf(a, "-O%d", level->valueint));
  add_word(a, json, "chunk", "--chunk=", carried);
  add_word(a, json, "save_every", "--save-every=", carried);
  add_word(a, json, "form", "--form=", carried);
  vec_push(a, &carried->words, arena_printf(a, "--target=%s", *targets ? targets : "host"));
  add_word(a, json, "check", "--check", carried);
  add_word(a, json, "summary", "--summary", carried);
  add_word(a, json, "tf32", "--tf32", carried);
  add_word(a, json, "shared_memory", "--shared-memory=", carried);
  add_word(a, json, "without", "--without=", carried);
  add_each(a, json, "defines", "-D", carried);
  add_each(a, json, "exported", "--export=", carried);
}

const char *artifact_read_carried(arena *a, const char *path, artifact_carried *carried) {
  char *text = read_whole_file(path);
  if (!text) return arena_printf(a, "cannot read %s", path);
  cJSON *json = cJSON_Parse(text);
  free(text);
  const cJSON *item;
  cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(json, "sources")) {
    const char *name = member_text(item, "path"), *program = member_text(item, "text");
    if (!name || !program) break;
    artifact_text file = {arena_strdup(a, name), arena_strdup(a, program)};
    vec_push(a, &carried->sources, file);
  }
  if (json) add_words(a, json, carried);
  const char *from = member_text(json, "from");
  if (from) carried->from = arena_strdup(a, from);
  cJSON_Delete(json);
  if (carried->sources.count) return NULL;
  return arena_printf(a, "%s: expected a manifest that carries sources, found none", path);
}
