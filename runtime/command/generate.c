// rec generate: a trained model of bytes reads a prompt and writes on.
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/command/command.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/generate.h"
#include "runtime/train/sample.h"
#include "runtime/train/session.h"

const char generate_usage[] =
    "rec generate FILE[:BLOCK]\n"
    "\n"
    "Writes text with a model of bytes of a compiled library or of a .rec file: reads the prompt, "
    "then samples byte after\n"
    "byte to standard output, in memory that does not grow. The weights are those that `rec train` "
    "left in RUNS/BLOCK; without\n"
    "BLOCK, of the last train block that has a checkpoint. Text and options alone decide what is "
    "written, not the threads.\n"
    "\n"
    "  --prompt TEXT         what the text begins with; it is not written again\n"
    "  --prompt-file FILE    the same from a file, or from standard input: -\n"
    "                        without a prompt the text begins as if after the end of a line\n"
    "  --tokens N            bytes to write (default: 200)\n"
    "  --temperature X       above 1 bolder, below 1 safer; 0: always the most probable byte "
    "(default: 1)\n"
    "  --greedy              --temperature 0\n"
    "  --top-k K             draw from the K most probable bytes\n"
    "  --top-p P             draw from the fewest most probable bytes that make up the probability "
    "P\n"
    "  --seed S              another seed, another text (default: 1)\n"
    "  --checkpoint PATH     a safetensors file with the weights of the model\n"
    "  --runs DIR            where runs are kept (default: runs)\n"
    "  --threads N           threads (default: one for each processor)\n"
    "  -D axis=size, --dtype f32|f64|bf16, --chunk N    for a .rec file, as in recc\n";

enum { BLOCK_OF_PROMPT = 4096, STOPPED = 130 };

typedef struct generate_request {
  session_options options;
  module_request module;
  sample_options sample;
  const char *prompt, *prompt_file, *checkpoint, *block;
  int64_t tokens;
} generate_request;

static volatile sig_atomic_t asked_to_stop;

static void on_signal(int number) {
  (void)number;
  asked_to_stop = 1;
}

// ---- words --------------------------------------------------------------------------------------

static bool read_number(words *w, generate_request *r) {
  int64_t number;
  if (take_number(w, "--tokens", 0, &r->tokens)) return true;
  if (take_number(w, "--top-k", 1, &number))
    return r->sample.top_k = number < SAMPLE_MOST_TOKENS ? (int)number : 0, true;
  if (take_number(w, "--seed", 0, &number)) return r->sample.seed = (uint64_t)number, true;
  if (take_number(w, "--threads", 1, &number))
    return r->options.threads = number < 1024 ? (int)number : 1024, true;
  return take_real(w, "--temperature", 0, 1000, &r->sample.temperature) ||
         take_real(w, "--top-p", 0, 1, &r->sample.top_p);
}

static bool read_option(words *w, generate_request *r) {
  if (take_flag(w, "--greedy")) return r->sample.temperature = 0, true;
  return take_value(w, "--prompt", &r->prompt) || take_value(w, "--prompt-file", &r->prompt_file) ||
         take_value(w, "--checkpoint", &r->checkpoint) ||
         take_value(w, "--runs", &r->options.runs) || read_number(w, r) ||
         take_module_option(w, &r->module);
}

// FILE:BLOCK, unless a file is called so.
static char *split_block(const char *word, const char **block) {
  char *file = strdup(word), *colon = file ? strrchr(file, ':') : NULL;
  if (colon && access(word, F_OK) != 0) {
    *colon = '\0';
    *block = word + (colon - file) + 1;
  }
  return file;
}

static int read_words(words *w, generate_request *r) {
  while (w->next < w->count && !w->failed) {
    const char *word;
    if (read_option(w, r)) continue;
    if (w->failed) break;
    if (!take_word(w, &word)) return usage_error(w, "unknown option `%s`", w->list[w->next]);
    if (r->module.file) return usage_error(w, "expected one FILE, found also `%s`", word);
    r->module.file = word;
  }
  if (w->failed) return EXIT_USAGE;
  if (!r->module.file) return usage_error(w, "expected FILE, a compiled library or a .rec file");
  if (r->prompt && r->prompt_file)
    return usage_error(w, "expected --prompt or --prompt-file, found both");
  r->module.file = split_block(r->module.file, &r->block);
  return r->module.file ? 0 : report_failure(w->command);
}

// ---- the model ----------------------------------------------------------------------------------

static char *checkpoint_of(const session *s, const train_block *b) {
  char *path = session_path(s, b->name, "checkpoint.safetensors");
  if (path && access(path, R_OK) == 0) return path;
  free(path);
  return NULL;
}

static rec_status unknown_block(const generate_request *r, const session *s) {
  char names[512] = "";
  size_t used = 0;
  for (int i = 0; i < s->program->block_count && used < sizeof names; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, " %s", s->program->blocks[i].name);
  return rec_fail(REC_ERROR_ARGUMENT, "expected a train block of %s, found `%s`; there are%s",
                  r->module.file, r->block, *names ? names : " none");
}

// The block whose model is meant and the file with its weights, which the caller frees.
static rec_status find_weights(const generate_request *r, const session *s,
                               const train_block **block, char **path) {
  const train_program *p = s->program;
  *block = r->block ? train_program_block(p, r->block) : NULL;
  if (r->block && !*block) return unknown_block(r, s);
  *path = r->checkpoint ? strdup(r->checkpoint) : *block ? checkpoint_of(s, *block) : NULL;
  for (int i = p->block_count - 1; i >= 0 && !r->block && !*path; i--) {
    *block = &p->blocks[i];
    *path = checkpoint_of(s, *block);
  }
  if (r->checkpoint && !*block && p->block_count) *block = &p->blocks[p->block_count - 1];
  if (*path && *block) return REC_OK;
  if (!p->block_count)
    return rec_fail(REC_ERROR_ARGUMENT, "%s: expected a train block, found none", r->module.file);
  return rec_fail(REC_ERROR_FILE,
                  "expected %s%s to be trained, found no checkpoint in %s; run rec train first",
                  r->block ? "the block " : "a block", r->block ? r->block : "", s->options.runs);
}

// `characters`: those of the model's tokens, NULL where they are bytes.
static rec_status load_weights(const generate_request *r, const session *s, trained_model *of,
                               void **weights, char **characters) {
  const train_block *block;
  char *path = NULL;
  rec_status status = find_weights(r, s, &block, &path);
  if (!status) {
    *of = session_model(s, block);
    if (block->source.kind == SOURCE_TOKENS)
      status = rec_fail(REC_ERROR_UNSUPPORTED,
                        "expected a model of bytes or characters, found one of a file of tokens");
    else if (of->model->vocabulary > SAMPLE_MOST_TOKENS)
      status = rec_fail(REC_ERROR_UNSUPPORTED,
                        "expected a model of bytes, of at most %d symbols, found %d",
                        SAMPLE_MOST_TOKENS, of->model->vocabulary);
  }
  if (!status) {
    *weights = calloc((size_t)of->model->parameter_elements + 1, (size_t)of->n->element_size);
    status = *weights ? checkpoint_load_weights(of, *weights, path) : rec_no_memory();
  }
  if (!status) status = checkpoint_characters(path, characters);
  free(path);
  return status;
}

// ---- reading and writing ------------------------------------------------------------------------

// A text that is read and written, byte by byte.
typedef struct writer {
  const generate_request *request;
  generator *g;
  int vocabulary;
  train_alphabet alphabet;
  char part[4];  // of a character that the bytes read so far do not end
  size_t part_size;
  int64_t read, written;
  double read_seconds, written_seconds;
} writer;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// Characters may begin in one block of bytes and end in the next.
static rec_status read_characters(writer *w, const char *bytes, size_t count) {
  uint16_t tokens[BLOCK_OF_PROMPT + 4];
  char text[BLOCK_OF_PROMPT + 4];
  int64_t found = 0;
  size_t at = 0, size = w->part_size + count;
  memcpy(text, w->part, w->part_size);
  memcpy(text + w->part_size, bytes, count);
  for (int length; at < size; at += (size_t)length, found++) {
    length = train_alphabet_read(&w->alphabet, text + at, size - at, &tokens[found]);
    if (length < 0) break;
    if (!length)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected a prompt of characters of the model's text, found another as "
                      "character %" PRId64,
                      w->read + found);
  }
  w->part_size = size - at;
  memcpy(w->part, text + at, size - at);
  w->read += found;
  return generator_read(w->g, tokens, found);
}

static rec_status read_bytes(writer *w, const unsigned char *bytes, size_t count) {
  if (w->alphabet.characters) return read_characters(w, (const char *)bytes, count);
  uint16_t tokens[BLOCK_OF_PROMPT];
  for (size_t i = 0; i < count; i++) {
    if (bytes[i] >= w->vocabulary)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected a prompt of bytes below %d, found %d at byte %" PRId64,
                      w->vocabulary, bytes[i], w->read + (int64_t)i);
    tokens[i] = bytes[i];
  }
  w->read += (int64_t)count;
  return generator_read(w->g, tokens, (int64_t)count);
}

static rec_status read_file(writer *w, const char *path) {
  bool standard = strcmp(path, "-") == 0;
  FILE *file = standard ? stdin : fopen(path, "rb");
  if (!file) return rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
  unsigned char bytes[BLOCK_OF_PROMPT];
  rec_status status = REC_OK;
  for (size_t size; !status && !asked_to_stop && (size = fread(bytes, 1, sizeof bytes, file)) > 0;)
    status = read_bytes(w, bytes, size);
  if (!status && !asked_to_stop && ferror(file))
    status = rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
  if (!standard) fclose(file);
  return status;
}

static rec_status read_text(writer *w, const char *text) {
  rec_status status = REC_OK;
  for (size_t left = strlen(text), size; !status && !asked_to_stop && left > 0;
       left -= size, text += size) {
    size = left < BLOCK_OF_PROMPT ? left : BLOCK_OF_PROMPT;
    status = read_bytes(w, (const unsigned char *)text, size);
  }
  return status;
}

// Nothing can be foretold before something was read: an empty prompt is the end of a line.
static rec_status read_prompt(writer *w) {
  const generate_request *r = w->request;
  double begin = now();
  rec_status status = r->prompt_file ? read_file(w, r->prompt_file)
                      : r->prompt    ? read_text(w, r->prompt)
                                     : REC_OK;
  if (!status && !w->read && !asked_to_stop) {
    uint16_t start = 0;
    if (train_alphabet_read(&w->alphabet, "\n", 1, &start) != 1 || start >= w->vocabulary)
      start = 0;
    status = generator_read(w->g, &start, 1);
  }
  w->read_seconds = now() - begin;
  return status;
}

static rec_status write_byte(writer *w) {
  int token = sample_token(&w->request->sample, generator_logits(w->g), w->vocabulary,
                           (uint64_t)w->written);
  if (token < 0)
    return rec_fail(REC_ERROR_FORMAT,
                    "expected logits, found NaN or infinity after %" PRId64 " bytes",
                    w->read + w->written);
  int size = 1;
  const char byte = (char)token, *text = w->alphabet.characters
                                             ? train_alphabet_text(&w->alphabet, token, &size)
                                             : &byte;
  if (fwrite(text, 1, (size_t)size, stdout) != (size_t)size || fflush(stdout))
    return rec_fail(REC_ERROR_FILE, "standard output: %s", strerror(errno));
  w->written++;
  if (w->written == w->request->tokens) return REC_OK;
  const uint16_t next = (uint16_t)token;
  return generator_read(w->g, &next, 1);
}

static rec_status write_text(writer *w) {
  double begin = now();
  rec_status status = REC_OK;
  while (!status && !asked_to_stop && w->written < w->request->tokens) status = write_byte(w);
  w->written_seconds = now() - begin;
  return status;
}

static void report(const writer *w) {
  fprintf(stderr, "\nrec generate: read %" PRId64 " %s in %.3f s, wrote %" PRId64 " in %.3f s%s\n",
          w->read, w->alphabet.characters ? "characters" : "bytes", w->read_seconds, w->written,
          w->written_seconds, asked_to_stop ? "; stopped" : "");
}

// A signal ends the text after the byte at hand; it interrupts the reading of a prompt.
static int generate(const generate_request *r, const session *s) {
  struct sigaction act = {.sa_handler = on_signal}, old_interrupt, old_terminate;
  trained_model of;
  void *weights = NULL;
  char *characters = NULL;
  writer w = {.request = r};
  rec_status status = load_weights(r, s, &of, &weights, &characters);
  w.alphabet = train_alphabet_of(characters);
  if (!status) status = generator_new(&of, weights, s->options.threads, &w.g);
  if (!status) {
    w.vocabulary = of.model->vocabulary;
    sigaction(SIGINT, &act, &old_interrupt);
    sigaction(SIGTERM, &act, &old_terminate);
    status = read_prompt(&w);
    if (!status) status = write_text(&w);
    sigaction(SIGINT, &old_interrupt, NULL);
    sigaction(SIGTERM, &old_terminate, NULL);
  }
  if (!status) report(&w);
  generator_free(w.g);
  free(weights);
  free(characters);
  if (status) return report_failure("generate");
  return asked_to_stop ? STOPPED : 0;
}

int command_generate(int count, char **list) {
  words w = {.command = "generate", .count = count, .list = list};
  generate_request r = {.module = {.command = "generate"},
                        .sample = {.temperature = 1, .top_p = 1, .seed = 1},
                        .tokens = 200};
  const char **defines = calloc((size_t)count + 1, sizeof *defines),
             **recc_words = calloc((size_t)count + 1, sizeof *recc_words);
  r.module.defines = defines;
  r.module.recc_words = recc_words;
  rec_module *module = NULL;
  session *s = NULL;
  int status = defines && recc_words ? read_words(&w, &r) : report_failure("generate");
  bool named = !status;
  if (!status) status = open_module(&r.module, &module);
  if (!status && session_open(module, &r.options, &s)) status = report_failure("generate");
  if (!status) status = generate(&r, s);
  session_close(s);
  rec_module_close(module);
  if (named) free((char *)r.module.file);
  free(defines);
  free(recc_words);
  return status;
}
