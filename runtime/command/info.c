// rec info: what a compiled library holds, from its manifest. The library is not loaded.
#include <stdlib.h>
#include <string.h>

#include "compiler/abi/json.h"
#include "runtime/command/command.h"
#include "runtime/internal.h"
#include "runtime/library_file.h"

static void print_list(const char *title, const cJSON *list) {
  const cJSON *item;
  bool first = true;
  printf("%-12s", title);
  cJSON_ArrayForEach(item, list) {
    if (cJSON_IsString(item)) printf("%s%s", first ? "" : " ", item->valuestring);
    first = false;
  }
  printf("\n");
}

// x[G,R,P] : complex
static void print_shape(const cJSON *tensor) {
  const cJSON *axes = json_get(tensor, "axes"), *axis;
  const char *separator = "[";
  printf("%s", json_text(tensor, "name"));
  cJSON_ArrayForEach(axis, axes) {
    printf("%s%s", separator, cJSON_IsString(axis) ? axis->valuestring : "");
    separator = ",";
  }
  printf("%s%s", *separator == ',' ? "]" : "",
         cJSON_IsTrue(json_get(tensor, "complex")) ? " : complex" : "");
}

static void print_tensors(const cJSON *recurrence, const char *kind, const char *title) {
  const cJSON *tensors = json_get(recurrence, "tensors"), *tensor;
  bool any = false;
  cJSON_ArrayForEach(tensor, tensors) {
    if (strcmp(json_text(tensor, "kind"), kind) != 0) continue;
    if (any)
      printf("  ");
    else
      printf("  %-12s", title);
    any = true;
    print_shape(tensor);
  }
  if (any) printf("\n");
}

static void print_recurrence_axes(const cJSON *recurrence) {
  const cJSON *axes = json_get(recurrence, "axes"), *axis;
  bool run_time = false;
  printf("  %-12s", "axes");
  cJSON_ArrayForEach(axis, axes) {
    const cJSON *size = json_get(axis, "size");
    const char *expression = json_text(axis, "expression");
    printf("%s", json_text(axis, "name"));
    if (cJSON_IsNumber(size))
      printf(" = %.0f", size->valuedouble);
    else if (*expression)
      printf(" = %s", expression);
    run_time |= !cJSON_IsNumber(size);
    printf("  ");
  }
  printf("%s\n", run_time ? "(those without a number at run time)" : "");
}

static void print_lags(const cJSON *recurrence) {
  const cJSON *lags = json_get(recurrence, "lags"), *lag;
  cJSON_ArrayForEach(lag, lags) {
    const cJSON *depth = json_get(lag, "depth");
    printf("  %-12s", "lag buffer");
    print_shape(lag);
    printf(", %.0f step(s)\n", cJSON_IsNumber(depth) ? depth->valuedouble : 0);
  }
}

// A library without summaries has none to tell.
static void print_segments(const cJSON *recurrence) {
  const cJSON *segment = json_get(recurrence, "segment");
  const char *forward = json_text(segment, "forward"), *backward = json_text(segment, "backward");
  if (!*forward) return;
  printf("  %-12sof a multiple of %.0f steps, joined by summaries: %s", "segments",
         cJSON_GetNumberValue(json_get(segment, "multiple")), forward);
  printf(*backward ? "; backward: %s\n" : "; backward: none%s\n", backward);
}

static void print_recurrence_info(const cJSON *recurrence) {
  const char *doc = json_text(recurrence, "doc");
  const char *whole = json_text(recurrence, "variant_of");
  printf("\n%s", json_text(recurrence, *whole ? "symbol" : "name"));
  if (*whole)
    printf(", a variant of %s in %s", json_text(recurrence, "name"),
           json_text(recurrence, "dtype"));
  if (*doc) printf("  %.*s", (int)strcspn(doc, "\n"), doc);
  printf("\n");
  print_recurrence_axes(recurrence);
  print_tensors(recurrence, "input", "inputs");
  print_tensors(recurrence, "param", "parameters");
  print_tensors(recurrence, "state", "states");
  print_lags(recurrence);
  print_tensors(recurrence, "output", "outputs");
  const cJSON *structure = json_get(recurrence, "structure"), *state;
  cJSON_ArrayForEach(state, structure) {
    printf("  %-12s%s: %s\n", "structure", json_text(state, "state"), json_text(state, "class"));
  }
  const cJSON *chunk = json_get(recurrence, "chunk");
  printf("  %-12s%s, chunk %.0f; %s\n", "compiled", json_text(recurrence, "form"),
         cJSON_IsNumber(chunk) ? chunk->valuedouble : 0, json_text(recurrence, "why"));
  print_segments(recurrence);
}

static void print_summary(const char *path, const cJSON *manifest) {
  const cJSON *list = json_get(manifest, "recurrences"), *item;
  printf("%-12s%s\n", "library", path);
  printf("%-12srec %s, binary interface %s, hash %s\n", "made by", json_text(manifest, "rec"),
         json_text(manifest, "abi"), json_text(manifest, "hash"));
  if (cJSON_GetArraySize(json_get(manifest, "dtypes")) > 1)
    print_list("dtypes", json_get(manifest, "dtypes"));
  else
    printf("%-12s%s\n", "dtype", json_text(manifest, "dtype"));
  print_list("targets", json_get(manifest, "targets"));
  if (cJSON_GetArraySize(json_get(manifest, "defines")))
    print_list("sizes", json_get(manifest, "defines"));
  printf("%-12s", "sources");
  cJSON_ArrayForEach(item, json_get(manifest, "sources")) printf("%s ", json_text(item, "path"));
  printf("\n");
  cJSON_ArrayForEach(item, list) print_recurrence_info(item);
  print_program(manifest);
}

typedef struct info_request {
  bool manifest, source, json;
} info_request;

#define REQUEST info_request
static const option options[] = {
    FLAG("--manifest", manifest, "print the manifest itself (JSON)"),
    FLAG("--source", source, "print the program that the library was compiled from"),
    FLAG(
        "--json", json,
        "print the manifest with the file's name and what this command counts, as one JSON object"),
    OPTIONS_END};

static rec_status print_json(const char *path, cJSON *manifest) {
  cJSON_AddStringToObject(manifest, "file", path);
  count_program(manifest);
  char *text = cJSON_Print(manifest);
  if (!text) return rec_no_memory();
  printf("%s\n", text);
  cJSON_free(text);
  return REC_OK;
}

static rec_status show_manifest(const char *path, const char *text, const info_request *r) {
  if (r->manifest) {
    printf("%s\n", text);
    return REC_OK;
  }
  cJSON *json = cJSON_Parse(text);
  if (!json) return rec_fail(REC_ERROR_FORMAT, "%s: its manifest is not JSON", path);
  rec_status status = REC_OK;
  if (r->source)
    printf("%s", json_text(cJSON_GetArrayItem(json_get(json, "sources"), 0), "text"));
  else if (r->json)
    status = print_json(path, json);
  else
    print_summary(path, json);
  cJSON_Delete(json);
  return status;
}

static int info(words *w) {
  info_request r = {0};
  char *text;
  if (read_options(w, options, &r)) return EXIT_USAGE;
  if (r.manifest + r.source + r.json > 1)
    return usage_error(w, "expected one of --manifest, --source and --json, found more");
  if (w->given_count > 1) return usage_error(w, "expected one FILE.so, found `%s`", w->given[1]);
  if (!w->given_count) return usage_error(w, "expected FILE.so");
  rec_status status = library_read_manifest(w->given[0], false, &text);
  if (!status) status = show_manifest(w->given[0], text, &r);
  free(text);
  return status ? report_failure("info") : 0;
}

const subcommand info_command = {
    .name = "info",
    .purpose = "shows what a compiled library holds",
    .synopsis = "FILE.so",
    .text =
        "Shows the recurrences of a compiled library: their tensors, sizes, structure and how they "
        "were compiled.\n"
        "The file is read, nothing in it is run; apply, train and whatever else opens a library "
        "runs it.\n",
    .options = options,
    .run = info,
};
