// rec generate: a trained model reads a prompt and writes on.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compiler/abi/json.h"
#include "compiler/abi/output.h"
#include "runtime/command/session.h"
#include "runtime/command/writer.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/model/carried.h"
#include "runtime/train/model/folder.h"
#include "runtime/train/result.h"

enum { MOST_BYTES = 256, STOPPED = 130 };

typedef struct generate_request {
  session_options options;
  module_request module;
  double temperature, top_p;
  int64_t top_k, seed, tokens;
  const char *prompt, *prompt_file, *checkpoint, *block, *logits, *start, *tokenizer, *stop;
  bool again;
} generate_request;

#define REQUEST generate_request
static const option options[] = {
    TEXT("--prompt", "TEXT", prompt, "what the text begins with; it is not written again"),
    TEXT("--prompt-file", "FILE", prompt_file,
         "the same from a file, or from standard input: -\n"
         "without a prompt the text begins as if after the end of a line, or after token 0"),
    TEXT("--stop", "TEXT|ID", stop,
         "ends before this text, or, for a model of tokens, at the token of this number"),
    TEXT("--tokenizer", "PATH|none", tokenizer,
         "a tokenizer.json, a vocabulary of RWKV, or a folder with one: a model of tokens reads "
         "and writes words\n"
         "(default: what rec import kept); none: numbers of tokens"),
    NUMBER("--tokens", "N", tokens, 0, "bytes, characters or tokens to write (default: 200)"),
    REAL("--temperature", "X", temperature, 0, 1000,
         "above 1 bolder, below 1 safer; 0: always the most probable one (default: 1)"),
    REAL("--greedy", NULL, temperature, 0, 0, "--temperature 0"),
    NUMBER("--top-k", "K", top_k, 1, "draw from the K most probable ones"),
    REAL("--top-p", "P", top_p, 0, 1,
         "draw from the fewest most probable ones that make up the probability P"),
    NUMBER("--seed", "S", seed, 0, "another seed, another text (default: 1)"),
    TEXT("--logits", "FILE", logits,
         "the logits that each one was drawn from, as the tensor `logits` of a safetensors file"),
    AGAIN(again),
    TEXT("--initial-state", "zero|learned", start,
         "zero, or learned: the states that were trained with the weights (default: zero)"),
    TEXT("--checkpoint", "PATH", checkpoint, "a safetensors file with the weights of the model"),
    TEXT("--runs", "DIR", options.runs, "where runs are kept (default: runs)"),
    THREADS(options.threads, "threads (default: REC_NUM_THREADS, or one for each processor)"),
    SESSION_MODULE_OPTIONS,
    OPTIONS_END};

static int read_words(words *w, generate_request *r) {
  if (read_options(w, options, r)) return EXIT_USAGE;
  if (w->given_count > 1) return usage_error(w, "expected one FILE, found also `%s`", w->given[1]);
  if (!w->given_count) return usage_error(w, "expected FILE, a compiled library or a .rec file");
  if (r->start && strcmp(r->start, "zero") != 0 && strcmp(r->start, "learned") != 0)
    return usage_error(w, "expected zero or learned after `--initial-state`, found `%s`", r->start);
  if (r->prompt && r->prompt_file)
    return usage_error(w, "expected --prompt or --prompt-file, found both");
  r->block = split_block(w->given[0]);
  r->module.file = w->given[0];
  if (r->prompt_file && !strcmp(r->prompt_file, "-"))
    output_note_input(STDIN_FILENO);
  else
    output_note_input_path(r->prompt_file);
  return 0;
}

// ---- the model ----------------------------------------------------------------------------------

static rec_status unknown_block(const generate_request *r, const session *s) {
  char names[512] = "";
  size_t used = 0;
  for (int i = 0; i < s->program->block_count && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, " %s", s->program->blocks[i].name);
  return rec_fail(REC_ERROR_ARGUMENT, "expected a train block of %s, found `%s`; there are%s",
                  r->module.file, r->block, *names ? names : " none");
}

// The block whose model is meant: the one that is named, else the last that has ended, else the
// last.
static rec_status find_block(const generate_request *r, const session *s,
                             const train_block **block) {
  const train_program *p = s->program;
  *block = r->block         ? train_program_block(p, r->block)
           : p->block_count ? &p->blocks[p->block_count - 1]
                            : NULL;
  if (r->block && !*block) return unknown_block(r, s);
  if (!*block)
    return rec_fail(REC_ERROR_ARGUMENT, "%s: expected a train block, found none", r->module.file);
  for (int i = p->block_count - 1; i >= 0 && !r->block && !r->checkpoint; i--)
    if (result_is_there(s, &p->blocks[i])) return *block = &p->blocks[i], REC_OK;
  return REC_OK;
}

static rec_status load_weights(const generate_request *r, const session *s,
                               const train_block *block, void *weights) {
  return r->checkpoint ? result_load_from(s, block, r->checkpoint, weights)
                       : result_load(s, block, weights);
}

typedef struct model_of_text {
  trained_model of;
  void *weights;
  text_kind kind;
  char *characters;  // of TEXT_CHARACTERS
  tokenizer *words;  // of TEXT_WORDS
  token_id ends[MOST_END_TOKENS];
  int end_count;
} model_of_text;

// A file that rec import kept for the block, or for one that it goes back to.
static bool find_imported_file(const session *s, const train_block *block,
                               bool (*find)(const char *folder, file_path *path), file_path *path) {
  for (; block; block = block->after ? train_program_block(s->program, block->after) : NULL)
    if (find(rec_path("%s/%s", s->options.runs, block->name).text, path)) return true;
  return false;
}

static bool has_config(const char *folder, file_path *path) {
  *path = rec_path("%s", folder);
  return !access(rec_path("%s/config.json", folder).text, R_OK);
}

// eos_token_id: a number, or several.
static rec_status read_ends(const session *s, const train_block *block, model_of_text *m) {
  file_path path;
  cJSON *config = NULL;
  if (tokenizer_ends_by_zero(m->words)) m->ends[m->end_count++] = 0;
  if (!find_imported_file(s, block, has_config, &path)) return REC_OK;
  rec_status status = folder_read_json(path.text, "config.json", &config);
  const cJSON *ends = json_get(config, "eos_token_id"), *end;
  if (cJSON_IsNumber(ends)) m->ends[m->end_count++] = ends->valueint;
  if (cJSON_IsArray(ends))
    cJSON_ArrayForEach(end, ends) if (cJSON_IsNumber(end) && m->end_count < MOST_END_TOKENS)
        m->ends[m->end_count++] = end->valueint;
  cJSON_Delete(config);
  return status;
}

static rec_status find_tokenizer(const generate_request *r, const session *s,
                                 const train_block *block, model_of_text *m) {
  file_path path;
  bool none = r->tokenizer && !strcmp(r->tokenizer, "none");
  if (none || (!r->tokenizer && !find_imported_file(s, block, tokenizer_in_folder, &path)))
    return REC_OK;
  rec_status status = tokenizer_open(r->tokenizer ? r->tokenizer : path.text, &m->words);
  if (status) return status;
  m->kind = TEXT_WORDS;
  if (tokenizer_size(m->words) > m->of.model->vocabulary)
    return rec_fail(REC_ERROR_ARGUMENT,
                    "expected a tokenizer of at most %" PRId64
                    " tokens, those of the model, found one of %d",
                    m->of.model->vocabulary, tokenizer_size(m->words));
  return read_ends(s, block, m);
}

static rec_status load_model(const generate_request *r, const session *s, model_of_text *m) {
  const train_block *block;
  rec_status status = find_block(r, s, &block);
  if (!status) {
    m->of = session_model(s, block);
    m->weights = rec_numbers_new(trained_bytes(&m->of));
    status = m->weights ? load_weights(r, s, block, m->weights) : rec_no_memory();
  }
  if (!status)
    status = checkpoint_says(r->checkpoint ? r->checkpoint : result_path(s, block).text,
                             "rec.characters", &m->characters);
  if (status) return status;
  bool numbers = block->generated || block->source.kind == SOURCE_TOKENS;
  m->kind = numbers ? TEXT_NUMBERS : m->characters ? TEXT_CHARACTERS : TEXT_BYTES;
  if (m->kind == TEXT_BYTES && m->of.model->vocabulary > MOST_BYTES)
    return rec_fail(REC_ERROR_UNSUPPORTED,
                    "expected a model of bytes, of at most %d symbols, found %" PRId64, MOST_BYTES,
                    m->of.model->vocabulary);
  return numbers ? find_tokenizer(r, s, block, m) : REC_OK;
}

// ---- the text -----------------------------------------------------------------------------------

static void report(const writer *w) {
  fprintf(stderr, "\nrec generate: read %" PRId64 " %s in %.3f s, wrote %" PRId64 " in %.3f s%s\n",
          w->read, writer_unit(w), w->read_seconds, w->written, w->written_seconds,
          session_stop ? "; stopped"
          : w->ended   ? "; at its end"
                       : "");
}

// --logits: what each token was drawn from, one row each.
static rec_status save_logits(const writer *w, const char *path) {
  const int64_t shape[] = {w->drawn, w->sampler.count};
  const rec_tensor tensor = {
      "logits", REC_F64, 2, shape, w->logits, (size_t)(shape[0] * shape[1]) * sizeof *w->logits};
  const rec_metadata mark = {"rec.mark", OUTPUT_MARK_TEXT};
  return rec_file_write(path, &tensor, 1, &mark, 1);
}

// --stop: digits are the number of a token where the model has tokens.
static rec_status open_stop(writer *w, const char *stop) {
  bool of_tokens = w->kind == TEXT_NUMBERS || w->kind == TEXT_WORDS,
       number = stop && *stop && strspn(stop, "0123456789") == strlen(stop);
  if (!stop) return REC_OK;
  if (!*stop || (w->kind == TEXT_NUMBERS && !number))
    return rec_fail(REC_ERROR_ARGUMENT, "expected --stop %s, found `%s`",
                    *stop ? "ID, the number of a token" : "TEXT", stop);
  if (!of_tokens || !number) return w->stop = stop, REC_OK;
  long long token = atoll(stop);
  if (token >= w->sampler.count)
    return rec_fail(REC_ERROR_ARGUMENT, "expected --stop a token below %d, found %s",
                    w->sampler.count, stop);
  if (w->end_count == MOST_END_TOKENS) w->end_count--;
  w->ends[w->end_count++] = (token_id)token;
  return REC_OK;
}

static rec_status open_words(writer *w, const model_of_text *m) {
  if (m->kind != TEXT_WORDS) return REC_OK;
  w->words = m->words;
  w->end_count = m->end_count;
  memcpy(w->ends, m->ends, sizeof w->ends);
  rec_status status = encoder_new(m->words, &w->encoder);
  return status ? status : decoder_new(m->words, &w->decoder);
}

static rec_status open_writer(writer *w, const generate_request *r, const model_of_text *m,
                              int threads) {
  int64_t numbers;
  *w = (writer){
      .kind = m->kind, .alphabet = train_alphabet_of(m->characters), .stopped = &session_stop};
  int symbols = (int)m->of.model->vocabulary;
  const sample_options sample = {.temperature = r->temperature,
                                 .top_k = r->top_k < symbols ? (int)r->top_k : 0,
                                 .top_p = r->top_p,
                                 .seed = (uint64_t)r->seed};
  if (!sampler_open(&w->sampler, &sample, symbols)) return rec_no_memory();
  if (r->logits) {
    if (!rec_multiply(r->tokens, w->sampler.count, &numbers)) return rec_no_memory();
    w->logits = calloc((size_t)numbers + 1, sizeof *w->logits);
    if (!w->logits) return rec_no_memory();
  }
  rec_status status = open_words(w, m);
  if (!status) status = open_stop(w, r->stop);
  if (status) return status;
  bool learned = r->start && !strcmp(r->start, "learned");
  if (learned && !carried_learns(m->of.model))
    return rec_fail(REC_ERROR_ARGUMENT, "expected a model with learned states, found none");
  status = generator_new(&m->of, m->weights, threads, &w->g);
  if (!status && learned) generator_start_learned(w->g);
  return status;
}

static void close_writer(writer *w) {
  generator_free(w->g);
  sampler_close(&w->sampler);
  free(w->logits);
  writer_close(w);
}

// A signal ends the text after the token at hand; it interrupts the reading of a prompt.
static int generate_text(session *s, void *request) {
  const generate_request *r = request;
  model_of_text m = {0};
  writer w = {0};
  rec_status status = load_model(r, s, &m);
  if (!status && r->logits) status = allow_output(r->logits, r->module.file, r->again);
  if (!status) status = open_writer(&w, r, &m, s->options.threads);
  if (!status) {
    session_catch_signals(s, true, NULL);
    status = writer_read(&w, r->prompt, r->prompt_file);
    if (!status) status = writer_write(&w, r->tokens);
    session_catch_signals(s, false, NULL);
  }
  if (!status && r->logits) status = save_logits(&w, r->logits);
  if (!status) report(&w);
  close_writer(&w);
  free(m.weights);
  free(m.characters);
  tokenizer_close(m.words);
  if (status) return report_failure("generate");
  return session_stop ? STOPPED : 0;
}

static int generate(words *w) {
  generate_request r = {
      .module = module_request_of(w), .temperature = 1, .top_p = 1, .seed = 1, .tokens = 200};
  int status = read_words(w, &r);
  return status ? status : with_session(&r.module, &r.options, generate_text, &r);
}

const subcommand generate_command = {
    .name = "generate",
    .purpose = "writes text with a trained model",
    .synopsis = "FILE[:BLOCK]",
    .text =
        "Writes text with a model of a compiled library or of a .rec file: reads the prompt, then "
        "samples byte after byte to\n"
        "standard output, in memory that does not grow. The weights are those that `rec train` "
        "left in RUNS/BLOCK; without BLOCK,\n"
        "of the last train block that has ended. Text and options alone decide what is written, "
        "not the threads.\n"
        "The prompt and the text of a model of token files are words where there is a tokenizer, "
        "else, as those of a task,\n"
        "numbers between blanks. A text of words ends before the end token of the tokenizer or of "
        "the model's config.json.\n",
    .options = options,
    .run = generate};
