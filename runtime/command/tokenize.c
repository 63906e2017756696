// rec tokenize: texts to a file of tokens, and back.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "compiler/abi/clock.h"
#include "compiler/abi/output.h"
#include "runtime/command/command.h"
#include "runtime/internal.h"
#include "runtime/tokenizer/text.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/train/data/token_file.h"

enum { BLOCK = 1 << 18, LLMC_HEADER = 1024, NARROW_SYMBOLS = 1 << 16, STOPPED = 130 };

typedef struct tokenize_request {
  const char *tokenizer, *out, *format, *separator, *line;
  bool decode, again;
} tokenize_request;

#define REQUEST tokenize_request
static const option options[] = {
    TEXT("-o", "NAME", out,
         "the file of tokens; with --decode the text (default: standard output)"),
    TEXT("--format", "raw|llmc|megatron", format,
         "numbers alone, llm.c's header before them, or NAME.idx of Megatron beside NAME.bin "
         "(default: raw)"),
    TEXT("--separator", "TOKEN|none", separator,
         "by its text or number: stands before each document, in Megatron's format behind it "
         "(default: <|endoftext|>,\n"
         "or the 0 of RWKV)"),
    TEXT("--split-at", "LINE", line, "a text has several documents, with this line between them"),
    FLAG("--decode", decode, "the way back: files of tokens to text"),
    AGAIN(again),
    OPTIONS_END};

static int read_words(words *w, tokenize_request *r) {
  static const char *const formats[] = {"raw", "llmc", "megatron"};
  if (read_options(w, options, r)) return EXIT_USAGE;
  if (w->given_count < 2)
    return usage_error(w, "expected TOKENIZER and at least one FILE, found %d words",
                       w->given_count);
  if (!r->out && !r->decode)
    return usage_error(w, "expected -o NAME, the file of tokens, found none");
  bool known = !r->format;
  for (int i = 0; !known && i < 3; i++) known = !strcmp(r->format, formats[i]);
  if (!known) return usage_error(w, "expected --format raw, llmc or megatron, found %s", r->format);
  if (!r->format) r->format = "raw";
  r->tokenizer = w->given[0];
  return 0;
}

// ---- the work --------------------------------------------------------------------------------

typedef struct tokenizing {
  const tokenize_request *request;
  tokenizer *t;
  encoder *e;
  decoder *d;
  output file;
  bool wide, behind;   // tokens of 32 bits; separators behind documents
  token_id separator;  // -1: none
  unsigned char *numbers;
  size_t number_room;
  int32_t *lengths;  // of documents, in Megatron's format
  size_t length_room;
  int64_t tokens, documents, begun;  // begun: the tokens before this document
  bool inside;                       // of a document
  int64_t read, total;               // bytes; total: 0 is not known
  double start, shown;
} tokenizing;

static volatile sig_atomic_t stopped;
static void stop(int signal) { stopped = signal; }

// On a terminal ten times a second, elsewhere every ten seconds, as rec train shows its steps.
static void show_progress(tokenizing *z) {
  bool terminal = isatty(STDERR_FILENO) == 1;
  double now = clock_seconds(CLOCK_MONOTONIC), elapsed = now - z->start,
         rate = elapsed > 0 ? (double)z->read / elapsed : 0;
  if (now - z->shown < (terminal ? 0.1 : 10)) return;
  z->shown = now;
  fprintf(stderr, "%s  %.1f", terminal ? "\r" : "", (double)z->read / 1e6);
  if (z->total) fprintf(stderr, "/%.1f", (double)z->total / 1e6);
  fprintf(stderr, " MB  %.1f MB/s  %lld tokens", rate / 1e6, (long long)z->tokens);
  if (z->total > z->read && rate > 0) {
    int left = (int)((double)(z->total - z->read) / rate);
    fprintf(stderr, "  %d:%02d left", left / 60, left % 60);
  }
  fprintf(stderr, terminal ? "\x1b[K" : "\n");
}

static void end_progress(const tokenizing *z) {
  if (z->shown > z->start && isatty(STDERR_FILENO) == 1) fprintf(stderr, "\r\x1b[K");
}

static rec_status put_output_bytes(tokenizing *z, const void *bytes, size_t size) {
  return output_put(&z->file, bytes, size)
             ? REC_OK
             : rec_file_failed(z->request->out ? z->request->out : "standard output");
}

// ---- documents -------------------------------------------------------------------------------

static rec_status put_tokens(tokenizing *z, const token_id *tokens, size_t count) {
  if (!rec_list_grow(&z->numbers, &z->number_room, 0, 4 * count, 1)) return rec_no_memory();
  for (size_t i = 0; i < count; i++) {
    uint16_t narrow = (uint16_t)tokens[i];
    if (z->wide)
      memcpy(z->numbers + 4 * i, &tokens[i], 4);
    else
      memcpy(z->numbers + 2 * i, &narrow, 2);
  }
  z->tokens += (int64_t)count;
  return put_output_bytes(z, z->numbers, count * (z->wide ? 4 : 2));
}

static rec_status put_separator(tokenizing *z, bool wanted) {
  return wanted && z->separator >= 0 ? put_tokens(z, &z->separator, 1) : REC_OK;
}

static rec_status put_encoded(tokenizing *z) {
  encoded *e = encoder_tokens(z->e);
  rec_status status = put_tokens(z, e->tokens, e->count);
  e->count = 0;
  return status;
}

static rec_status take_bytes(tokenizing *z, const char *bytes, size_t size) {
  rec_status status = REC_OK;
  if (!size) return REC_OK;
  if (!z->inside) {
    z->inside = true;
    z->begun = z->tokens;
    status = put_separator(z, !z->behind);
  }
  if (!status) status = encoder_take(z->e, bytes, size);
  return status ? status : put_encoded(z);
}

// Documents without a byte are none.
static rec_status end_document(tokenizing *z) {
  if (!z->inside) return REC_OK;
  z->inside = false;
  rec_status status = encoder_end(z->e);
  if (!status) status = put_encoded(z);
  if (!status) status = put_separator(z, z->behind);
  if (status) return status;
  int64_t length = z->tokens - z->begun;
  if (z->behind) {
    if (length > INT32_MAX)
      return rec_fail(
          REC_ERROR_UNSUPPORTED,
          "%s: expected documents of at most %d tokens in Megatron's format, found one of %lld",
          z->request->out, INT32_MAX, (long long)length);
    if (!rec_list_grow(&z->lengths, &z->length_room, (size_t)z->documents, 1, sizeof *z->lengths))
      return rec_no_memory();
    z->lengths[z->documents] = (int32_t)length;
  }
  z->documents++;
  return REC_OK;
}

// ---- texts -----------------------------------------------------------------------------------

// Documents of the bytes up to where a line between them may have begun: `left` bytes wait for the
// next block.
static rec_status split_documents(tokenizing *z, char *bytes, size_t size, const char *mark,
                                  bool ends, size_t *left) {
  size_t length = strlen(mark), at = 0;
  rec_status status = REC_OK;
  for (const char *found;
       !status && length && (found = memmem(bytes + at, size - at, mark, length));) {
    status = take_bytes(z, bytes + at, (size_t)(found - bytes) - at);
    if (!status) status = end_document(z);
    at = (size_t)(found - bytes) + length;
  }
  size_t keep = ends || !length ? 0 : length - 1 < size - at ? length - 1 : size - at;
  if (!status) status = take_bytes(z, bytes + at, size - at - keep);
  memmove(bytes, bytes + size - keep, keep);
  *left = keep;
  return status;
}

static rec_status read_blocks(tokenizing *z, const char *path, int handle, const char *mark) {
  size_t left = 0, length = strlen(mark);
  char *bytes = malloc(BLOCK + length + 1);
  rec_status status = bytes ? REC_OK : rec_no_memory();
  for (ssize_t got = 1; !status && got && !stopped;) {
    got = read(handle, bytes + left, BLOCK);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      status = rec_file_failed(path);
      break;
    }
    z->read += got;
    status = split_documents(z, bytes, left + (size_t)got, mark, !got, &left);
    show_progress(z);
  }
  free(bytes);
  return status || stopped ? status : end_document(z);
}

static rec_status read_text(tokenizing *z, const char *path, const char *mark) {
  bool standard = !strcmp(path, "-");
  int handle = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (handle < 0) return rec_file_failed(path);
  rec_status status = read_blocks(z, standard ? "standard input" : path, handle, mark);
  if (!standard) close(handle);
  return status;
}

// ---- the file of tokens ----------------------------------------------------------------------

static rec_status find_separator(tokenizing *z) {
  const char *asked = z->request->separator, *name = asked ? asked : "<|endoftext|>";
  char *end;
  z->separator = -1;
  if (!strcmp(name, "none")) return REC_OK;
  z->separator = tokenizer_find(z->t, name);
  if (z->separator >= 0) return REC_OK;
  long number = strtol(name, &end, 10);
  if (*name >= '0' && *name <= '9' && !*end && number < tokenizer_size(z->t))
    return z->separator = (token_id)number, REC_OK;
  if (!asked && tokenizer_ends_by_zero(z->t)) return z->separator = 0, REC_OK;
  return rec_fail(
      REC_ERROR_ARGUMENT,
      "%s: expected --separator TOKEN of the tokenizer, or none, found %s, which it lacks",
      z->request->tokenizer, name);
}

// Numbers of files have their lowest byte first, as the processors rec runs on.
static void put_file_number(unsigned char **to, int64_t number, size_t bytes) {
  memcpy(*to, &number, bytes);
  *to += bytes;
}

static rec_status put_llmc_header(tokenizing *z) {
  const uint32_t header[3] = {z->wide ? 20240801 : 20240520, z->wide ? 7 : 1, (uint32_t)z->tokens};
  if (z->tokens > UINT32_MAX)
    return rec_fail(REC_ERROR_UNSUPPORTED,
                    "%s: expected at most %u tokens in llm.c's format, found %lld", z->request->out,
                    UINT32_MAX, (long long)z->tokens);
  return pwrite(z->file.handle, header, sizeof header, 0) == (ssize_t)sizeof header
             ? REC_OK
             : rec_file_failed(z->request->out);
}

// What runtime/train/data/token_file.c reads as Megatron's index: type, lengths, places in bytes,
// documents.
static rec_status put_index(const tokenizing *z) {
  size_t count = (size_t)z->documents, size = 34 + count * 20 + 8;
  unsigned char *bytes = malloc(size), *at = bytes;
  int64_t place = 0;
  if (!bytes) return rec_no_memory();
  memcpy(at, "MMIDIDX\0", 9);
  at += 9;
  put_file_number(&at, 1, 8);
  put_file_number(&at, z->wide ? 4 : 8, 1);
  put_file_number(&at, z->documents, 8);
  put_file_number(&at, z->documents + 1, 8);
  for (size_t i = 0; i < count; i++) put_file_number(&at, z->lengths[i], 4);
  for (size_t i = 0; i < count; place += z->lengths[i++] * (z->wide ? 4 : 2))
    put_file_number(&at, place, 8);
  for (size_t i = 0; i <= count; i++) put_file_number(&at, (int64_t)i, 8);
  const struct iovec part = {bytes, size};
  file_path path = token_index_path(z->request->out);
  bool good = output_write(path.text, &part, 1, OUTPUT_FOLLOW);
  free(bytes);
  return good ? REC_OK : rec_file_failed(path.text);
}

// A file of tokens has no room for a mark that would tell rec's own from others.
static rec_status check_output(const char *path, bool again) {
  rec_status status = allow_output(path, NULL, true);
  if (status || again || !allow_output(path, NULL, false)) return status;
  return rec_fail(REC_ERROR_FILE,
                  "%s: expected no file of that name, found one; --again replaces it", path);
}

static rec_status tokenize_texts(tokenizing *z, words *w) {
  const tokenize_request *r = z->request;
  const char zeros[LLMC_HEADER] = "";
  bool llmc = !strcmp(r->format, "llmc");
  char *mark = NULL;
  z->behind = !strcmp(r->format, "megatron");
  z->wide = tokenizer_size(z->t) > NARROW_SYMBOLS;
  rec_status status = find_separator(z);
  if (!status && z->behind) status = check_output(token_index_path(r->out).text, r->again);
  if (!status) status = encoder_new(z->t, &z->e);
  if (!status && asprintf(&mark, r->line ? "\n%s\n" : "%s", r->line ? r->line : "") < 0)
    status = rec_no_memory();
  if (!status && llmc) status = put_output_bytes(z, zeros, sizeof zeros);
  for (int i = 1; !status && !stopped && i < w->given_count; i++)
    status = read_text(z, w->given[i], mark);
  if (!status && !stopped && llmc) status = put_llmc_header(z);
  if (!status && !stopped && z->behind) status = put_index(z);
  free(mark);
  return status;
}

static void report(const tokenizing *z) {
  int64_t broken = encoder_tokens(z->e)->broken;
  FILE *to = output_stands(z->request->out) ? stderr : stdout;
  fprintf(to, "%s: %lld tokens below %d in %lld documents", z->request->out, (long long)z->tokens,
          tokenizer_size(z->t), (long long)z->documents);
  if (z->separator >= 0) fprintf(to, ", separator %d", (int)z->separator);
  if (z->wide && !strcmp(z->request->format, "raw")) fprintf(to, ", bits = 32");
  if (broken) fprintf(to, "; %lld broken characters, each read as U+FFFD", (long long)broken);
  fprintf(to, "\n");
}

// ---- the way back ----------------------------------------------------------------------------

static rec_status check_tokens(const token_file *file, const char *path, int symbols) {
  int64_t wrong = token_file_first_wrong(file, symbols);
  if (wrong == file->count) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected tokens from 0 to %d, found %lld at %lld", path,
                  symbols - 1, (long long)token_file_number(file, wrong), (long long)wrong);
}

static rec_status decode_file(tokenizing *z, const char *path) {
  token_id tokens[4096];
  token_file file;
  const char *bytes;
  size_t size;
  int symbols = tokenizer_size(z->t);
  rec_status status =
      token_file_open(path, FORMAT_BY_CONTENT, symbols > NARROW_SYMBOLS ? 32 : 16, &file);
  if (status) return status;
  status = check_tokens(&file, path, symbols);
  for (int64_t at = 0, count; !status && !stopped && at < file.count; at += count) {
    count = file.count - at < 4096 ? file.count - at : 4096;
    token_file_copy(&file, at, count, symbols, tokens);
    status = decoder_take(z->d, tokens, (size_t)count, &bytes, &size);
    if (!status) status = put_output_bytes(z, bytes, size);
  }
  if (!status) status = decoder_end(z->d, &bytes, &size);
  if (!status) status = put_output_bytes(z, bytes, size);
  token_file_close(&file);
  return status;
}

static rec_status decode_files(tokenizing *z, words *w) {
  rec_status status = decoder_new(z->t, &z->d);
  for (int i = 1; !status && !stopped && i < w->given_count; i++)
    status = decode_file(z, w->given[i]);
  return status;
}

// ---- the command -----------------------------------------------------------------------------

static void note_inputs(tokenizing *z, words *w) {
  struct stat about;
  bool known = true;
  for (int i = 0; i < w->given_count; i++) {
    bool standard = !strcmp(w->given[i], "-");
    if (standard)
      output_note_input(STDIN_FILENO);
    else
      output_note_input_path(w->given[i]);
    known = known && !standard && !stat(w->given[i], &about) && (!i || S_ISREG(about.st_mode));
    if (known && i) z->total += about.st_size;
  }
  if (!known) z->total = 0;
}

static rec_status open_token_output(tokenizing *z) {
  const char *out = z->request->out ? z->request->out : "/dev/stdout";
  rec_status status = check_output(out, z->request->again);
  return status || output_open(&z->file, out, OUTPUT_FOLLOW) ? status : rec_file_failed(out);
}

static int tokenize(words *w) {
  tokenize_request r = {0};
  tokenizing z = {.request = &r, .file = {.handle = -1}, .start = clock_seconds(CLOCK_MONOTONIC)};
  struct sigaction action = {.sa_handler = stop};
  int wrong = read_words(w, &r);
  if (wrong) return wrong;
  z.shown = z.start;
  note_inputs(&z, w);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  rec_status status = tokenizer_open(r.tokenizer, &z.t);
  if (!status) status = open_token_output(&z);
  if (!status) status = r.decode ? decode_files(&z, w) : tokenize_texts(&z, w);
  end_progress(&z);
  if (!status && !stopped && !output_finish(&z.file, 0))
    status = rec_file_failed(r.out ? r.out : "standard output");
  output_drop(&z.file);
  if (!status && !stopped && !r.decode) report(&z);
  encoder_free(z.e);
  decoder_free(z.d);
  tokenizer_close(z.t);
  free(z.numbers);
  free(z.lengths);
  if (status) return report_failure("tokenize");
  return stopped ? STOPPED : 0;
}

const subcommand tokenize_command = {
    .name = "tokenize",
    .purpose = "turns texts into a file of tokens, and back",
    .synopsis = "TOKENIZER FILE .. -o NAME",
    .text =
        "Texts (-: standard input) to the tokens that `data tokens(\"NAME\")` reads, of 16 bits, "
        "or of 32 beyond 65536 symbols.\n"
        "TOKENIZER is a tokenizer.json of Hugging Face, a vocabulary of RWKV "
        "(rwkv_vocab_v20230424.txt), or the folder of a\n"
        "model with one of them. Each FILE is a document, or several with --split-at. Memory does "
        "not grow with a text that has\n"
        "words or lines; what is not UTF-8 is read as U+FFFD, and counted.\n",
    .options = options,
    .run = tokenize};
