#include "runtime/front.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compiler/base/embedded.h"
#include "compiler/base/program.h"
#include "compiler/graph/graph.h"
#include "compiler/sema/sema.h"
#include "compiler/syntax/syntax.h"

struct rec_front {
  arena *memory;
  VEC(recurrence *)
  recurrences;
};

// "P=32" or "ssd.P=32".
static bool parse_define(arena *memory, interner *names, const char *text, size_override *define) {
  const char *equals = strchr(text, '='), *dot = strchr(text, '.');
  if (!equals || equals == text) return false;
  char *end;
  long long size = strtoll(equals + 1, &end, 10);
  if (end == equals + 1 || *end || size < 0) return false;
  *define = (size_override){.size = size};
  if (dot && dot < equals) {
    define->item = intern_n(names, text, (size_t)(dot - text));
    text = dot + 1;
  }
  define->axis = intern(names, arena_strndup(memory, text, (size_t)(equals - text)));
  return true;
}

static rec_status program_error(diag *d, FILE *messages) {
  if (messages) diag_print(d, messages);
  const char *first = diag_error_text(d, 0);
  return rec_fail(REC_ERROR_FORMAT, "%s", first ? first : "the program has errors");
}

static rec_status load_sources(arena *memory, sources *all, const char *path,
                               const rec_source_text *texts, int count, const source **main) {
  const char *error = NULL;
  *main = NULL;
  if (count == 0) *main = program_load(all, memory, embedded_stdlib, path, &error);
  for (int i = 0; i < count && !error; i++) {
    const source *s = sources_add(all, texts[i].path, texts[i].text, strlen(texts[i].text), &error);
    if (i == 0) *main = s;
  }
  return error ? rec_fail(REC_ERROR_FILE, "%s", error) : REC_OK;
}

static void add_front_program(rec_front *front, interner *names, diag *d, sources *all,
                              const source *main, const sema_options *options) {
  arena *memory = front->memory;
  ast_file *file = parse_source(memory, names, d, main);
  if (diag_has_errors(d)) return;
  typed_program *program = sema_check(memory, names, d, all, file, options);
  if (diag_has_errors(d)) return;
  graph_program *graph = graph_build(memory, names, d, program);
  if (diag_has_errors(d)) return;
  for (int i = 0; i < program->recurrences.count; i++)
    vec_push(memory, &front->recurrences,
             recurrence_analyse(memory, program->recurrences.items[i]));
  for (int i = 0; graph && i < graph->kernels.count; i++)
    vec_push(memory, &front->recurrences, recurrence_analyse(memory, graph->kernels.items[i].body));
}

static rec_status build_front(rec_front *front, const char *path, const rec_source_text *texts,
                              int count, const char *from, const char *const *defines,
                              int define_count, FILE *messages) {
  arena *memory = front->memory;
  interner *names = interner_new(memory);
  sources *all = sources_new(memory);
  diag *d = diag_new(memory, all);
  size_override *overrides = ARENA_ARRAY(memory, size_override, define_count + 1);
  for (int i = 0; i < define_count; i++)
    if (!parse_define(memory, names, defines[i], &overrides[i]))
      return rec_fail(REC_ERROR_ARGUMENT, "-D %s: expected axis=size or item.axis=size",
                      defines[i]);
  const source *main;
  rec_status status = load_sources(memory, all, path, texts, count, &main);
  if (status) return status;
  if (from) {
    recurrence *r = recurrence_from_text(memory, names, d, main);
    if (r) vec_push(memory, &front->recurrences, r);
  } else {
    sema_options options = {
        .overrides = overrides, .override_count = define_count, .stdlib = embedded_stdlib};
    add_front_program(front, names, d, all, main, &options);
  }
  if (diag_has_errors(d)) return program_error(d, messages);
  if (messages) diag_print(d, messages);
  return REC_OK;
}

rec_status rec_front_new(const char *path, const rec_source_text *texts, int text_count,
                         const char *from, const char *const *defines, int define_count,
                         FILE *messages, rec_front **out) {
  *out = NULL;
  rec_front *front = calloc(1, sizeof *front);
  if (!front) return rec_no_memory();
  front->memory = arena_new();
  rec_status status =
      build_front(front, path, texts, text_count, from, defines, define_count, messages);
  if (status)
    rec_front_free(front);
  else
    *out = front;
  return status;
}

void rec_front_free(rec_front *front) {
  if (!front) return;
  arena_free(front->memory);
  free(front);
}

int rec_front_count(const rec_front *front) { return front->recurrences.count; }

const recurrence *rec_front_recurrence(const rec_front *front, int index) {
  return front->recurrences.items[index];
}

const recurrence *rec_front_find(const rec_front *front, const char *name) {
  for (int i = 0; i < front->recurrences.count; i++)
    if (strcmp(front->recurrences.items[i]->body.name, name) == 0)
      return front->recurrences.items[i];
  return NULL;
}

bool rec_front_size(const recurrence *program, int axis, const int64_t *sizes, int64_t *size) {
  double value = typed_axis_value(&program->body, axis, sizes);
  if (!(value >= 0 && value < 9007199254740992.0) || value != floor(value)) return false;
  *size = (int64_t)value;
  return true;
}

const char *rec_front_text(const rec_front *front, const ast_expr *expression) {
  return expr_to_text(front->memory, expression);
}
