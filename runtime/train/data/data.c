// Windows of tokens: at random places, piece after piece, or drawn from a task. Which tokens a window
// has is a function of data, seed, stream and position alone.
//
//   documents apart, context 4:   a b c d e | f g | h ..     pieces a b c d, e, f g, h ..
#include "runtime/train/data/data.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/train/data/random.h"

// ---- tokens -------------------------------------------------------------------------------------

static uint16_t token_at(const train_data *data, int64_t place) {
  return data->tokens ? data->tokens[place] : ((const uint8_t *)data->text.bytes)[place];
}

static void copy_tokens(const train_data *data, int64_t place, int64_t count, uint16_t *to) {
  if (data->tokens)
    memcpy(to, data->tokens + place, (size_t)count * sizeof *to);
  else
    for (int64_t i = 0; i < count; i++) to[i] = token_at(data, place + i);
}

// `count` tokens from a place on, and their successors.
static void copy_window(const train_data *data, int64_t place, int64_t count, uint16_t *tokens,
                        uint16_t *targets) {
  copy_tokens(data, place, count, tokens);
  copy_tokens(data, place + 1, count, targets);
}

const void *train_data_memory(const train_data *data, size_t *size) {
  *size = (size_t)data->count * (data->tokens ? sizeof *data->tokens : 1);
  return data->tokens ? (const void *)data->tokens : data->text.bytes;
}

// ---- checks -------------------------------------------------------------------------------------

static rec_status check_tokens(const char *path, const train_data *data) {
  static const char *const units[SOURCES] = {"byte", "character", "token"};
  const char *unit = units[data->source.kind];
  int vocabulary = data->windows.vocabulary;
  if (!data->tokens && vocabulary > UINT8_MAX) return REC_OK;
  for (int64_t i = 0; i < data->count; i++)
    if (token_at(data, i) >= vocabulary)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "%s: expected %ss below %d, the symbols of the model, found %d at %s %lld",
                      path, unit, vocabulary, token_at(data, i), unit, (long long)i);
  return REC_OK;
}

static rec_status check(const char *path, train_data *data) {
  int64_t context = data->windows.context;
  data->train_count = (int64_t)((double)data->count * data->source.split);
  int64_t held_out = data->count - data->train_count;
  if (data->train_count <= context || held_out <= 1)
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "%s: expected more than %lld %s to train on and 2 held out, found %lld and %lld", path,
        (long long)context, data->source.kind == SOURCE_BYTES ? "bytes" : "tokens",
        (long long)data->train_count, (long long)held_out);
  return check_tokens(path, data);
}

// ---- documents ----------------------------------------------------------------------------------

// Documents begin at the separators, whose successors are their first tokens; the next separator is
// a document's last target.
static rec_status find_separators(train_data *data) {
  int64_t count = 1;
  uint16_t separator = (uint16_t)data->source.separator;
  for (int64_t i = 1; i < data->train_count; i++) count += token_at(data, i) == separator;
  int64_t *starts = data->owned_starts = calloc((size_t)count + 1, sizeof *starts);
  if (!starts) return rec_no_memory();
  for (int64_t i = 1, n = 1; i < data->train_count; i++)
    if (token_at(data, i) == separator) starts[n++] = i;
  data->starts = starts;
  data->document_count = count;
  data->ends_count = true;
  return REC_OK;
}

static rec_status one_document(train_data *data) {
  data->starts = data->owned_starts = calloc(2, sizeof(int64_t));
  data->document_count = 1;
  data->ends_count = true;
  return data->starts ? REC_OK : rec_no_memory();
}

// Those of the file's documents that begin in the training part.
static rec_status documents_of_file(train_data *data) {
  data->starts = data->file.starts;
  while (data->document_count < data->file.document_count &&
         data->starts[data->document_count] < data->train_count)
    data->document_count++;
  return REC_OK;
}

// Behind the last input of a document.
static int64_t document_end(const train_data *data, int64_t document) {
  int64_t end =
      document + 1 < data->document_count ? data->starts[document + 1] : data->train_count;
  // What follows the last input is its target, of this document or, behind a separator, the next.
  return data->ends_count && end < data->count ? end : end - 1;
}

static rec_status cut_pieces(const char *path, train_data *data) {
  const train_source *s = &data->source;
  rec_status status = !s->apart                   ? one_document(data)
                      : s->separator >= 0         ? find_separators(data)
                      : data->file.document_count ? documents_of_file(data)
                                                  : REC_OK;
  if (status) return status;
  if (!data->document_count)
    return rec_fail(REC_ERROR_ARGUMENT,
                    "%s: expected marks of documents, as Megatron's index has them, found none; "
                    "say separator = N",
                    path);
  data->pieces_before = calloc((size_t)data->document_count + 1, sizeof *data->pieces_before);
  if (!data->pieces_before) return rec_no_memory();
  for (int64_t i = 0; i < data->document_count; i++) {
    int64_t length = document_end(data, i) - data->starts[i], context = data->windows.context;
    data->pieces_before[i + 1] =
        data->pieces_before[i] + (length > 0 ? (length + context - 1) / context : 0);
  }
  if (data->pieces_before[data->document_count]) return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT, "%s: expected documents of two tokens or more, found none",
                  path);
}

// ---- opening ------------------------------------------------------------------------------------

static rec_status open_source(const char *path, train_data *data) {
  uint16_t *tokens = NULL;
  if (data->source.kind == SOURCE_TOKENS) {
    rec_status status = token_file_open(path, data->source.format, &data->file);
    data->tokens = data->file.tokens;
    data->count = data->file.count;
    return status;
  }
  if (data->source.kind == SOURCE_BYTES) {
    rec_status status = rec_map(path, &data->text);
    data->count = (int64_t)data->text.size;
    return status;
  }
  rec_status status = train_text_read(path, data->windows.vocabulary, &tokens, &data->count,
                                      &data->characters);
  data->tokens = data->owned_tokens = tokens;
  return status;
}

rec_status train_data_open(const char *path, const train_source *source,
                           const train_windows *windows, train_data *data) {
  *data = (train_data){.source = *source, .windows = *windows};
  rec_status status = open_source(path, data);
  if (!status) status = check(path, data);
  if (!status && (source->streaming || source->apart)) status = cut_pieces(path, data);
  if (status) train_data_close(data);
  return status;
}

// The compiler has checked this; a damaged library has not been compiled.
rec_status train_data_generate(const train_task *task, int64_t context, int vocabulary,
                               train_data *data) {
  *data = (train_data){.task = task};
  int64_t tokens = task_tokens(task, task->length), symbols = task_vocabulary(task);
  if (task_least(task) <= task->shortest && task->shortest <= task->length && tokens <= context &&
      symbols <= vocabulary)
    return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "%s: expected lengths from %lld on, a context of %lld tokens and %lld symbols, "
                  "found %lld..%lld, %lld and %d",
                  task_rules_of[task->kind].name, (long long)task_least(task), (long long)tokens,
                  (long long)symbols, (long long)task->shortest, (long long)task->length,
                  (long long)context, vocabulary);
}

void train_data_close(train_data *data) {
  token_file_close(&data->file);
  rec_unmap(&data->text);
  free(data->owned_tokens);
  free(data->owned_starts);
  free(data->pieces_before);
  free(data->characters);
  *data = (train_data){0};
}

// ---- windows ------------------------------------------------------------------------------------

static int64_t task_window(const train_data *data, uint64_t seed, uint64_t stream,
                           uint64_t position, int64_t length, uint16_t *tokens, uint16_t *targets) {
  int64_t count = 0;
  task_sequence(data->task, seed, stream, position, length, tokens, targets);
  for (int64_t i = 0; i < length; i++) count += targets[i] != NO_TARGET;
  return count;
}

// The document of a piece: the last with at most so many pieces before it that is not empty.
static int64_t document_of(const train_data *data, int64_t piece) {
  int64_t low = 0, high = data->document_count;
  while (high - low > 1) {
    int64_t middle = low + (high - low) / 2;
    if (data->pieces_before[middle] <= piece)
      low = middle;
    else
      high = middle;
  }
  return low;
}

// Each row reads its own share of the pieces, and then on, around the end.
static int64_t piece_of_stream(const train_data *data, uint64_t position) {
  int64_t pieces = data->pieces_before[data->document_count], batch = data->windows.rows;
  int64_t row = (int64_t)(position % (uint64_t)batch), step = (int64_t)(position / (uint64_t)batch);
  int64_t first = pieces / batch * row + pieces % batch * row / batch;
  return (first + step % pieces) % pieces;
}

static int64_t piece_window(const train_data *data, int64_t piece, int64_t length, uint16_t *tokens,
                            uint16_t *targets) {
  int64_t document = document_of(data, piece), end = document_end(data, document);
  int64_t first =
      data->starts[document] + (piece - data->pieces_before[document]) * data->windows.context;
  int64_t count = end - first < length ? end - first : length;
  copy_window(data, first, count, tokens, targets);
  for (int64_t i = count; i < length; i++) tokens[i] = 0, targets[i] = NO_TARGET;
  return count;
}

int64_t train_data_window(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position,
                          int64_t length, uint16_t *tokens, uint16_t *targets) {
  if (data->task) return task_window(data, seed, stream, position, length, tokens, targets);
  if (data->source.streaming)
    return piece_window(data, piece_of_stream(data, position), length, tokens, targets);
  if (data->source.apart) {
    int64_t pieces = data->pieces_before[data->document_count];
    return piece_window(data, random_below(seed, stream, position, pieces), length, tokens,
                        targets);
  }
  int64_t start = random_below(seed, stream, position, data->train_count - length);
  copy_window(data, start, length, tokens, targets);
  return length;
}

bool train_data_begins(const train_data *data, uint64_t position) {
  if (data->task || !data->source.streaming) return false;
  int64_t piece = piece_of_stream(data, position);
  return data->pieces_before[document_of(data, piece)] == piece;
}

void train_data_held_out(const train_data *data, int64_t place, int64_t length, uint16_t *tokens,
                         uint16_t *targets) {
  int64_t ring = data->count - data->train_count;
  for (int64_t i = 0; i < length; i++) {
    tokens[i] = token_at(data, data->train_count + (place + i) % ring);
    targets[i] = token_at(data, data->train_count + (place + i + 1) % ring);
  }
}
