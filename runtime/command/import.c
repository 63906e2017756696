// rec import: a Hugging Face folder becomes a program with a finished run of its own.
#include <cjson/cJSON.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/base/program.h"
#include "runtime/command/finite.h"
#include "runtime/command/session.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/model/public.h"
#include "runtime/train/report/whole_file.h"
#include "runtime/train/result.h"

typedef struct import_request {
  const char *folder, *program;
  tensor_folder *tensors;  // of the folder
  bool again, anyway;
  session_options options;
} import_request;

#define REQUEST import_request
static const option options[] = {
    TEXT("-o", "NAME.rec", program, "the program"),
    FLAG("--again", again,
         "replace a program that rec did not write, or that was changed since, and a run with "
         "other weights"),
    TEXT("--runs", "DIR", options.runs, "where runs are kept (default: runs)"),
    FLAG("--anyway", anyway, "takes weights though some of their numbers are not finite"),
    OPTIONS_END};

static int read_words(words *w, import_request *r) {
  if (read_options(w, options, r)) return EXIT_USAGE;
  if (w->given_count > 1) return usage_error(w, "expected one DIR, found also `%s`", w->given[1]);
  if (!w->given_count) return usage_error(w, "expected DIR, a folder with config.json and weights");
  r->folder = w->given[0];
  if (r->program && is_source(r->program) && !program_standard_name(r->program)) return 0;
  return usage_error(w, "expected -o NAME.rec, as every program is named, found %s",
                     r->program ? r->program : "none");
}

// ---- what fits ----------------------------------------------------------------------------------

typedef struct fitting {
  const tensor_folder *folder;
  trained_model of;
  char *weights;
  int wrong, extra, taken;
  int endless;  // weights with numbers that are not finite
} fitting;

static bool has_shape(const rec_tensor *t, int rank, const int64_t *shape) {
  if (t->rank != rank) return false;
  for (int i = 0; i < rank; i++)
    if (t->shape[i] != shape[i]) return false;
  return true;
}

static void complain(fitting *f, const char *what, const char *name, const char *wanted,
                     const rec_tensor *found) {
  char text[256] = "none";
  if (found) rec_shape_text(text, sizeof text, found->dtype, found->rank, found->shape);
  fprintf(stderr, "  %-8s %s: expected %s, found %s\n", what, name, wanted, text);
  f->wrong++;
}

static rec_status fit(fitting *f, const model_parameter *p) {
  const rec_tensor *t = tensor_folder_find(f->folder, p->name);
  int64_t shape[MOST_PUBLIC_AXES];
  int rank = public_shape(f->of.model, p, shape);
  char wanted[256];
  rec_shape_text(wanted, sizeof wanted, REC_F32, rank, shape);
  if (!t) return complain(f, "missing", p->name, wanted, NULL), REC_OK;
  if (!has_shape(t, rank, shape)) return complain(f, "shape", p->name, wanted, t), REC_OK;
  if (!rec_dtype_is_real(t->dtype)) return complain(f, "type", p->name, wanted, t), REC_OK;
  f->taken++;
  void *to = f->weights + p->place * f->of.n->element_size;
  rec_status status = rec_convert(to, f->of.dtype, t->data, t->dtype, p->elements);
  if (!status)
    f->endless += !finite_weight(p->name, to, f->of.dtype, t->data, t->dtype, p->elements);
  return status;
}

// The head of a tied model may stand in the file once more.
static bool is_tied_head(const fitting *f, const rec_tensor *t) {
  if (strcmp(t->name, "lm_head.weight") != 0) return false;
  static const char *const tables[] = {"backbone.embeddings.weight", "backbone.embedding.weight",
                                       "model.embeddings.weight"};
  for (int i = 0; i < 3; i++) {
    const rec_tensor *table = tensor_folder_find(f->folder, tables[i]);
    if (table && table->bytes == t->bytes && !memcmp(table->data, t->data, t->bytes)) return true;
  }
  return false;
}

static void find_extra(fitting *f) {
  for (int i = 0; i < tensor_folder_count(f->folder); i++) {
    const rec_tensor *t = tensor_folder_tensor(f->folder, i);
    if (train_model_parameter(f->of.model, t->name) || is_tied_head(f, t)) continue;
    complain(f, "extra", t->name, "none", t);
    f->extra++;
  }
}

static rec_status fit_all_weights(fitting *f, const import_request *r) {
  const train_model *m = f->of.model;
  rec_status status = REC_OK;
  for (int i = 0; !status && i < m->parameter_count; i++) status = fit(f, &m->parameters[i]);
  if (!status) find_extra(f);
  if (!status && f->wrong)
    status = rec_fail(
        REC_ERROR_FORMAT,
        "%s: expected the %d weights of %s, found %d of them and %d others; nothing is imported",
        r->folder, m->parameter_count, m->name, f->taken, f->extra);
  if (!status && f->endless && !r->anyway)
    status = rec_fail(REC_ERROR_FORMAT,
                      "%s: expected finite numbers, found others in %d of the weights; nothing is "
                      "imported (--anyway takes them)",
                      r->folder, f->endless);
  return status;
}

// ---- writing ------------------------------------------------------------------------------------

// The same weights may be imported again. Those of another model stay: its program would run with
// the new ones.
static rec_status check_run(const session *s, const train_block *block, const fitting *f) {
  const int64_t size = trained_bytes(&f->of);
  file_path model = result_path(s, block);
  rec_status status = session_check_new(s, block);
  if (!status) return REC_OK;
  char *found = calloc((size_t)size + 1, 1);
  bool same = found && !checkpoint_load_weights(&f->of, found, model.text) &&
              !memcmp(found, f->weights, (size_t)size);
  free(found);
  if (same) return REC_OK;
  return rec_fail(REC_ERROR_FILE,
                  "%s/%s: expected no run, or one with these weights, found one with others; "
                  "--runs DIR imports into another folder, --again replaces it",
                  s->options.runs, block->name);
}

// The folder that is read may be that of the run.
static rec_status check_inputs(const session *s, const train_block *block) {
  static const char *const names[] = {"model.safetensors", "config.json"};
  rec_status status = REC_OK;
  for (int i = 0; i < 2 && !status; i++)
    status = allow_output(session_path(s, block->name, names[i]).text, NULL, true);
  return status;
}

// rec generate reads it there. A run that had one of another model has it no longer; the folder
// that is read may be that of the run. A tokenizer that rec cannot read leaves the model one of
// numbers.
static rec_status keep_tokenizer(const session *s, const train_block *block,
                                 const import_request *r) {
  file_path from, old;
  char *text = NULL;
  tokenizer *t = NULL;
  bool found = tokenizer_in_folder(r->folder, &from),
       good = found && !tokenizer_open(from.text, &t);
  tokenizer_close(t);
  if (found && !good) printf("tokenizer: not kept; %s\n", rec_message());
  rec_status status = good ? whole_file_read(from.text, &text) : REC_OK;
  file_path folder = rec_path("%s/%s", s->options.runs, block->name),
            to = rec_path("%s/%s", folder.text, good ? strrchr(from.text, '/') + 1 : "");
  if (!status && good) status = whole_file_write(to.text, text, strlen(text));
  while (!status && tokenizer_in_folder(folder.text, &old) &&
         (!good || strcmp(old.text, to.text) != 0))
    if (unlink(old.text)) status = rec_file_failed(old.text);
  if (!status && good) printf("tokenizer: %s\n", to.text);
  free(text);
  return status;
}

// The run of a block that has ended. Where a disk has no room for the weights, all stays as it was.
static rec_status write_run(session *s, const train_block *block, const fitting *f,
                            const import_request *r) {
  char *text = NULL;
  file_path model = result_path(s, block);
  rec_status status = session_lock(s, true);
  if (!status) status = check_inputs(s, block);
  if (!status && !r->again) status = check_run(s, block, f);
  if (!status) status = session_make_folder(s, block->name);
  if (!status) status = whole_file_read(rec_path("%s/config.json", r->folder).text, &text);
  if (!status) status = checkpoint_save_weights(&f->of, f->weights, NULL, model.text);
  if (!status)
    status = whole_file_write(session_path(s, block->name, "config.json").text, text, strlen(text));
  if (!status) status = keep_tokenizer(s, block, r);
  if (!status)
    printf("import %s: %s, %lld weights in %d tensors\nprogram: %s\nweights: %s\n", r->folder,
           f->of.model->text, (long long)f->of.model->weight_count, f->taken, r->program,
           model.text);
  free(text);
  return status;
}

static int import_into(session *s, void *request) {
  const import_request *r = request;
  const train_block *block = train_program_block(s->program, "imported");
  fitting f = {.folder = r->tensors, .of = session_model(s, block)};
  f.weights = calloc((size_t)f.of.model->parameter_elements + 1, (size_t)f.of.n->element_size);
  rec_status status = f.weights ? fit_all_weights(&f, r) : rec_no_memory();
  if (!status) status = write_run(s, block, &f, r);
  free(f.weights);
  return status ? report_failure("import") : 0;
}

static rec_status make_program(const import_request *r, made_text *program) {
  cJSON *config;
  char *text = NULL;
  if (!text_open(program)) return rec_no_memory();
  rec_status status = folder_read_json(r->folder, "config.json", &config);
  if (!status) status = public_program(config, r->tensors, &text);
  if (!status) fprintf(program->out, "%s\n// " OUTPUT_MARK_TEXT "\n", text);
  if (!status && fflush(program->out)) status = rec_no_memory();
  cJSON_Delete(config);
  free(text);
  return status;
}

// The draft has a unique name beside the program that ends in .rec.
static rec_status write_draft(const import_request *r, const made_text *program, file_path *draft) {
  static const char ending[] = ".draft.rec";
  *draft = rec_path("%s.XXXXXX%s", r->program, ending);
  output file = {.handle = mkostemps(draft->text, sizeof ending - 1, O_CLOEXEC)};
  if (file.handle < 0) return rec_file_failed(r->program);
  if (output_put(&file, program->text, program->size) && output_finish(&file, 0)) return REC_OK;
  output_drop(&file);
  unlink(draft->text);
  return rec_file_failed(draft->text);
}

// The program takes its name when its weights have fitted; until then it is a draft beside.
static int import_by_draft(words *w, import_request *r, made_text *program) {
  file_path draft;
  module_request request = module_request_of(w);
  request.file = draft.text;
  request.recc_words[request.recc_word_count++] = "-O0";  // nothing is run
  if (write_draft(r, program, &draft)) return report_failure("import");
  int status = with_session(&request, &r->options, import_into, r);
  unlink(draft.text);
  return status;
}

static int import(words *w) {
  import_request r = {0};
  made_text program = {0};
  int status = read_words(w, &r);
  if (status) return status;
  rec_status failed = tensor_folder_open(r.folder, &r.tensors);
  if (!failed) failed = make_program(&r, &program);
  if (!failed) failed = allow_output(r.program, NULL, r.again);
  status = failed ? report_failure("import") : import_by_draft(w, &r, &program);
  failed = text_save(&program, status ? REC_ERROR_FILE : REC_OK, r.program, OUTPUT_FOLLOW);
  if (!status && failed) status = report_failure("import");
  tensor_folder_close(r.tensors);
  return status;
}

const subcommand import_command = {
    .name = "import",
    .purpose = "reads a Hugging Face folder",
    .synopsis = "DIR -o NAME.rec",
    .text =
        "Reads a Hugging Face folder of mamba, mamba2, gla, gated_deltanet, rwkv6 or rwkv7: "
        "config.json and the weights\n"
        "in model.safetensors or pytorch_model.bin, in one file or several. Writes the model as "
        "the program NAME.rec and\n"
        "its weights as RUNS/imported, which other train blocks continue. Says which weights do "
        "not fit. A tokenizer.json or\n"
        "rwkv_vocab_v20230424.txt goes with them: `rec generate` then reads and writes words.\n",
    .options = options,
    .run = import};
