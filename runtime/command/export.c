// rec export: a trained model whose weights have public names as a Hugging Face folder.
#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/command/finite.h"
#include "runtime/command/session.h"
#include "runtime/train/model/public.h"
#include "runtime/train/report/whole_file.h"
#include "runtime/train/result.h"

typedef struct export_request {
  module_request module;
  session_options options;
  const char *block, *folder, *type, *like;
  bool again, anyway;
} export_request;

#define REQUEST export_request
static const option options[] = {
    TEXT("-o", "DIR", folder, "the folder, which may exist"),
    AGAIN(again),
    TEXT("--as", "f32|f16|bf16", type, "the type of the numbers (default: f32)"),
    TEXT("--like", "DIR", like, "each tensor in the type that it has in this folder"),
    FLAG("--anyway", anyway,
         "writes weights though some of their numbers are not finite in the type"),
    TEXT("--runs", "DIR", options.runs, "where runs are kept (default: runs)"),
    OF_MODULE("-D", "axis=size", OPTION_DEFINE, NULL),
    OF_MODULE("--dtype", "T", OPTION_DTYPE, NULL),
    OF_MODULE("--chunk", "N", OPTION_RECC, NULL),
    OF_MODULE("--form", "F", OPTION_RECC, NULL),
    OF_MODULE("--check", NULL, OPTION_RECC, NULL),
    OPTIONS_END};

static int read_words(words *w, export_request *r) {
  if (read_options(w, options, r)) return EXIT_USAGE;
  if (w->given_count > 1) return usage_error(w, "expected one FILE, found also `%s`", w->given[1]);
  if (!w->given_count) return usage_error(w, "expected FILE, a compiled library or a .rec file");
  if (!r->folder) return usage_error(w, "expected -o DIR");
  r->block = split_block(w->given[0]);
  r->module.file = w->given[0];
  // nothing is run
  if (is_source(r->module.file)) r->module.recc_words[r->module.recc_word_count++] = "-O0";
  return 0;
}

// ---- tensors ------------------------------------------------------------------------------------

typedef struct exported {
  rec_tensor *tensors;
  int64_t (*shapes)[MOST_PUBLIC_AXES];
  int count;
  int endless;  // tensors with numbers that are not finite
} exported;

typedef struct export_config {
  char *text;
  bool told;                // from the weights, not that of an import
  char noted[OUTPUT_NOTE];  // its checksum
} export_config;

static rec_status export_tensor(exported *e, const trained_model *of, const char *weights,
                                const model_parameter *p, const char *name, rec_dtype type,
                                const tensor_folder *like) {
  const rec_tensor *found = like ? tensor_folder_find(like, name) : NULL;
  int64_t *shape = e->shapes[e->count];
  rec_tensor *t = &e->tensors[e->count];
  if (found) type = found->dtype;
  *t = (rec_tensor){name,  type, public_shape(of->model, p, shape),
                    shape, NULL, (size_t)p->elements * rec_dtype_size(type)};
  t->data = malloc(t->bytes + 1);
  if (!t->data) return rec_no_memory();
  e->count++;
  const char *from = weights + p->place * of->n->element_size;
  rec_status status = rec_convert(t->data, type, from, of->dtype, p->elements);
  if (!status) e->endless += !finite_weight(p->name, t->data, type, from, of->dtype, p->elements);
  return status;
}

static rec_status make_export_folder(const char *folder) {
  return mkdir(folder, 0777) && errno != EEXIST ? rec_file_failed(folder) : REC_OK;
}

// exported: what the file says of its model.
static rec_status export_tensors(const trained_model *of, const char *weights, rec_dtype type,
                                 const tensor_folder *like, const char *exported_text,
                                 const export_config *config, const export_request *r) {
  int count = of->model->parameter_count;
  exported e = {calloc((size_t)count + 1, sizeof *e.tensors),
                calloc((size_t)count + 1, sizeof *e.shapes), 0, 0};
  const rec_metadata metadata[] = {{"format", "pt"},
                                   {"rec.mark", OUTPUT_MARK_TEXT},
                                   {"rec.exported", exported_text},
                                   {"rec.config", config->noted}};
  rec_status status = e.tensors && e.shapes ? REC_OK : rec_no_memory();
  for (int i = 0; !status && i < count; i++) {
    const model_parameter *p = &of->model->parameters[i];
    const char *name = config->told ? public_name(p) : p->name;
    status = export_tensor(&e, of, weights, p, name, type, like);
  }
  if (!status && e.endless && !r->anyway)
    status =
        rec_fail(REC_ERROR_ARGUMENT,
                 "%s: expected finite numbers, found others in %d of the weights; nothing is "
                 "written (--as bf16 or f32 has larger numbers than f16, --anyway writes these)",
                 r->folder, e.endless);
  if (!status) status = make_export_folder(r->folder);
  if (!status)
    status = rec_file_write(rec_path("%s/model.safetensors", r->folder).text, e.tensors, e.count,
                            metadata, 4);
  for (int i = 0; i < e.count; i++) free(e.tensors[i].data);
  free(e.tensors);
  free(e.shapes);
  return status;
}

// ---- config -------------------------------------------------------------------------------------

static rec_status told_config(const train_model *m, char **text) {
  cJSON *config = NULL;
  rec_status status = public_config(m, &config);
  if (!status) *text = cJSON_Print(config);
  cJSON_Delete(config);
  return status || *text ? status : rec_no_memory();
}

// The config of the import that the block goes back to, byte for byte: readers tell 1 from 1.0. Or
// else one told from the weights.
static rec_status find_config(const session *s, const train_block *block, const train_model *m,
                              export_config *config) {
  for (; block; block = block->after ? train_program_block(s->program, block->after) : NULL) {
    file_path path = session_path(s, block->name, "config.json");
    if (!access(path.text, R_OK)) return whole_file_read(path.text, &config->text);
  }
  config->told = true;
  return told_config(m, &config->text);
}

// ---- the command --------------------------------------------------------------------------------

// The last block that has ended, or the one that is named, with its weights.
static rec_status load_block_weights(const session *s, const char *name, const train_block **block,
                                     void **weights) {
  const train_program *p = s->program;
  rec_status status = REC_OK;
  *block = name ? train_program_block(p, name) : NULL;
  if (name && !*block)
    return rec_fail(REC_ERROR_ARGUMENT, "expected a train block of the program, found `%s`", name);
  for (int i = p->block_count - 1; i >= 0; i--) {
    if (name && &p->blocks[i] != *block) continue;
    trained_model of = session_model(s, &p->blocks[i]);
    *block = &p->blocks[i];
    *weights = calloc((size_t)of.model->parameter_elements + 1, (size_t)of.n->element_size);
    status = *weights ? result_load(s, *block, *weights) : rec_no_memory();
    if (!status) return REC_OK;
    free(*weights);
    *weights = NULL;
  }
  return status ? status : rec_fail(REC_ERROR_ARGUMENT, "expected a train block, found none");
}

// The names of the exported block and model, and a checksum of the model: its layers with their
// sizes.
static rec_status exported_text_of(const train_model *m, const train_block *block,
                                   file_path *text) {
  char note[OUTPUT_NOTE], *made_of = cJSON_PrintUnformatted(m->json);
  if (!made_of) return rec_no_memory();
  output_note(note, m->text, made_of, strlen(made_of));
  *text = rec_path("%s of %s", block->name, note);
  cJSON_free(made_of);
  return REC_OK;
}

// Only an earlier export of the same block and model may be replaced.
static rec_status check_model(const char *path, const char *exported_text) {
  rec_file *file;
  if (access(path, F_OK) || rec_file_open(path, &file)) return REC_OK;
  const char *found = rec_file_metadata(file, "rec.exported");
  rec_status status = REC_OK;
  if (!found || strcmp(found, exported_text) != 0)
    status = rec_fail(REC_ERROR_FILE,
                      "%s: expected an export of %s, found one of %s; --again replaces it", path,
                      exported_text, found ? found : "another model");
  rec_file_close(file);
  return status;
}

static rec_status check_export_folder(const export_request *r, const char *tensors,
                                      const char *settings, const char *exported_text) {
  const output_proof config = {.noted_in = tensors};
  rec_status status = allow_output(tensors, r->module.file, r->again);
  if (!status) status = whole_file_allowed(settings, &config, r->again);
  return status || r->again ? status : check_model(tensors, exported_text);
}

static rec_status write_folder(const session *s, const export_request *r, const train_block *block,
                               const void *weights) {
  trained_model of = session_model(s, block);
  rec_dtype type = REC_F32;
  tensor_folder *like = NULL;
  export_config config = {.text = NULL};
  if (r->type && (!rec_number_type(r->type, &type) || type == REC_F64))
    return rec_fail(REC_ERROR_ARGUMENT, "expected --as f32, f16 or bf16, found `%s`", r->type);
  file_path tensors = rec_path("%s/model.safetensors", r->folder),
            settings = rec_path("%s/config.json", r->folder);
  file_path exported_text;
  rec_status status = exported_text_of(of.model, block, &exported_text);
  if (!status && r->like) status = tensor_folder_open(r->like, &like);
  if (!status) status = find_config(s, block, of.model, &config);
  if (!status) status = check_export_folder(r, tensors.text, settings.text, exported_text.text);
  if (!status) output_note(config.noted, "config.json", config.text, strlen(config.text));
  if (!status) status = export_tensors(&of, weights, type, like, exported_text.text, &config, r);
  if (!status) status = whole_file_write(settings.text, config.text, strlen(config.text));
  if (!status)
    printf("export %s of %s: %s, %lld weights\n", block->name, of.model->text, r->folder,
           (long long)of.model->weight_count);
  tensor_folder_close(like);
  free(config.text);
  return status;
}

static int export_block(session *s, void *request) {
  const export_request *r = request;
  const train_block *block;
  void *weights = NULL;
  bool failed =
      load_block_weights(s, r->block, &block, &weights) || write_folder(s, r, block, weights);
  free(weights);
  return failed ? report_failure("export") : 0;
}

static int export(words *w) {
  export_request r = {.module = module_request_of(w)};
  int status = read_words(w, &r);
  return status ? status : with_session(&r.module, &r.options, export_block, &r);
}

const subcommand export_command = {
    .name = "export",
    .purpose = "writes a trained model as a Hugging Face folder",
    .synopsis = "FILE[:BLOCK] -o DIR",
    .text =
        "Writes the model of a train block (default: the last one that is trained) as a Hugging "
        "Face folder:\n"
        "model.safetensors and config.json. Its weights must have the names of a public model, as "
        "rec import writes them.\n"
        "config.json is that of the import, if there was one.\n",
    .options = options,
    .run = export,
};
