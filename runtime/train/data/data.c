// Windows of tokens: at random places, piece after piece, or drawn from a task. Which tokens a
// window has is a function of data, seed, stream and position alone.
//
//   documents apart, context 4:   a b c d e | f g | h ..     pieces a b c d, e, f g, h ..
#include "runtime/train/data/data.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "runtime/train/data/file_sign.h"
#include "runtime/train/data/random.h"

// ---- tokens -------------------------------------------------------------------------------------

enum { BLOCK = 4096 };

static void copy_tokens(const train_data *data, int64_t place, int64_t count, token_id *to) {
  const uint8_t *bytes = data->bytes.bytes;
  if (data->source.kind == SOURCE_TOKENS)
    token_file_copy(&data->file, place, count, data->windows.vocabulary, to);
  else if (bytes)
    for (int64_t i = 0; i < count; i++) to[i] = bytes[place + i];
  else
    train_text_read(&data->text, place, count, to);
}

// As many as a block has, or fewer at the end.
static int64_t copy_block(const train_data *data, int64_t place, int64_t end, token_id to[BLOCK]) {
  int64_t count = end - place < BLOCK ? end - place : BLOCK;
  copy_tokens(data, place, count, to);
  return count;
}

// `count` tokens from a place on, and their successors.
static void copy_window(const train_data *data, int64_t place, int64_t count, token_id *tokens,
                        token_id *targets) {
  copy_tokens(data, place, count, tokens);
  copy_tokens(data, place + 1, count, targets);
}

int64_t train_data_memory(const train_data *data) {
  if (data->source.kind == SOURCE_TOKENS) return data->count * data->file.type.bytes;
  return data->bytes.bytes ? (int64_t)data->bytes.size : train_text_memory(&data->text);
}

// Of all tokens, whatever numbers a file has them in: of 16 bits where all symbols have so many,
// else of 32.
static uint64_t hash_of_tokens(const train_data *data, uint64_t seed) {
  token_id block[BLOCK];
  uint16_t narrow[BLOCK];
  bool wide = data->windows.vocabulary > UINT16_MAX + 1;
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  XXH3_64bits_reset_withSeed(&state, seed);
  for (int64_t i = 0; i < data->count; i += BLOCK) {
    int64_t count = copy_block(data, i, data->count, block);
    for (int64_t k = 0; k < count; k++) narrow[k] = (uint16_t)block[k];
    XXH3_64bits_update(&state, wide ? (const void *)block : narrow,
                       (size_t)count * (wide ? sizeof *block : sizeof *narrow));
  }
  return XXH3_64bits_digest(&state);
}

uint64_t train_data_hash(const train_data *data) {
  const char *characters = data->text.characters;
  if (data->bytes.bytes) return XXH3_64bits(data->bytes.bytes, data->bytes.size);
  return hash_of_tokens(data, characters ? XXH64(characters, strlen(characters), 0) : 0);
}

// ---- checks -------------------------------------------------------------------------------------

static rec_status refuse_token(const char *path, const train_data *data, int64_t number,
                               int64_t place) {
  const char *unit = source_units[data->source.kind];
  return rec_fail(REC_ERROR_ARGUMENT,
                  "%s: expected %ss below %lld, the symbols of the model, found %lld at %s %lld",
                  path, unit, (long long)data->windows.vocabulary, (long long)number, unit,
                  (long long)place);
}

static rec_status check_vocabulary(const char *path, const train_data *data) {
  const uint8_t *bytes = data->bytes.bytes;
  int64_t vocabulary = data->windows.vocabulary;
  if (data->source.kind == SOURCE_TOKENS) {
    int64_t wrong = token_file_first_wrong(&data->file, vocabulary);
    return wrong < data->count
               ? refuse_token(path, data, token_file_number(&data->file, wrong), wrong)
               : REC_OK;
  }
  for (int64_t i = 0; bytes && vocabulary <= UINT8_MAX && i < data->count; i++)
    if (bytes[i] >= vocabulary) return refuse_token(path, data, bytes[i], i);
  return REC_OK;
}

static rec_status check_split(const char *path, train_data *data) {
  int64_t context = data->windows.context;
  data->train_count = (int64_t)((double)data->count * data->source.split);
  int64_t held_out = data->count - data->train_count;
  if (data->train_count <= context || held_out <= 1)
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "%s: expected more than %lld %s to train on and 2 held out, found %lld and %lld", path,
        (long long)context, data->source.kind == SOURCE_BYTES ? "bytes" : "tokens",
        (long long)data->train_count, (long long)held_out);
  return check_vocabulary(path, data);
}

// ---- documents ----------------------------------------------------------------------------------

// Documents begin at the separators, whose successors are their first tokens; the next separator is
// a document's last target.

// The separators from the token `begin` to `end` - 1; their places where there is memory for them.
static int64_t list_separators(const train_data *data, int64_t begin, int64_t end,
                               int64_t *places) {
  int64_t found = 0;
  token_id block[BLOCK];
  for (int64_t first = begin; first < end; first += BLOCK) {
    int64_t count = copy_block(data, first, end, block);
    for (int64_t i = 0; i < count; i++) {
      if (block[i] != data->source.separator) continue;
      if (places) places[found] = first + i;
      found++;
    }
  }
  return found;
}

// Behind the first token a separator begins a further document.
static rec_status find_separators(const char *path, train_data *data) {
  int64_t count = list_separators(data, 1, data->train_count, NULL) + 1;
  if (count == 1 && !list_separators(data, 0, data->count, NULL))
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "%s: expected the separator %lld between documents, found it nowhere in the file", path,
        (long long)data->source.separator);
  int64_t *starts = data->owned_starts = calloc((size_t)count + 1, sizeof *starts);
  if (!starts) return rec_no_memory();
  list_separators(data, 1, data->train_count, starts + 1);
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
                      : s->separator >= 0         ? find_separators(path, data)
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

// A file of bytes or characters, which are no text if they are those of another format.
static rec_status map_text(const char *path, token_format format, rec_mapping *bytes) {
  rec_status status = rec_map(path, bytes);
  const char *binary = status || format == FORMAT_RAW ? NULL : file_binary(*bytes);
  if (!binary) return status;
  rec_unmap(bytes);
  return rec_fail(REC_ERROR_FORMAT,
                  "%s: expected text, found %s; format = raw takes the bytes as they are", path,
                  binary);
}

static rec_status open_train_source(const char *path, train_data *data) {
  const train_source *s = &data->source;
  rec_mapping bytes;
  if (s->kind == SOURCE_TOKENS) {
    rec_status status = token_file_open(path, s->format, s->bits, &data->file);
    data->count = data->file.count;
    return status;
  }
  rec_status status = map_text(path, s->format, &bytes);
  if (s->kind == SOURCE_BYTES) {
    data->bytes = bytes;
    data->count = (int64_t)bytes.size;
  } else if (!status) {
    status = train_text_of(path, bytes, data->windows.vocabulary, &data->text);
    data->count = data->text.count;
    if (status) rec_unmap(&bytes);
  }
  return status;
}

rec_status train_data_open(const char *path, const train_source *source,
                           const train_windows *windows, train_data *data) {
  *data = (train_data){.source = *source, .windows = *windows};
  rec_status status = open_train_source(path, data);
  if (!status) status = check_split(path, data);
  if (!status && (source->streaming || source->apart)) status = cut_pieces(path, data);
  if (status) train_data_close(data);
  return status;
}

// The compiler has checked this; a damaged library has not been compiled.
rec_status train_data_generate(const train_task *task, int64_t context, int64_t vocabulary,
                               train_data *data) {
  *data = (train_data){.task = task};
  int64_t tokens = task_tokens(task, task->length), symbols = task_vocabulary(task);
  if (task_least(task) <= task->shortest && task->shortest <= task->length && tokens <= context &&
      symbols <= vocabulary)
    return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "%s: expected lengths from %lld on, a context of %lld tokens and %lld symbols, "
                  "found %lld..%lld, %lld and %lld",
                  task_rules_of[task->kind].name, (long long)task_least(task), (long long)tokens,
                  (long long)symbols, (long long)task->shortest, (long long)task->length,
                  (long long)context, (long long)vocabulary);
}

void train_data_close(train_data *data) {
  token_file_close(&data->file);
  rec_unmap(&data->bytes);
  train_text_close(&data->text);
  free(data->owned_starts);
  free(data->pieces_before);
  *data = (train_data){0};
}

// ---- windows ------------------------------------------------------------------------------------

static int64_t task_window(const train_data *data, uint64_t seed, uint64_t stream,
                           uint64_t position, int64_t length, token_id *tokens, token_id *targets) {
  int64_t count = 0;
  task_sequence(data->task, seed, stream, position, length, tokens, targets);
  for (int64_t i = 0; i < length; i++) count += targets[i] != NO_TARGET;
  return count;
}

// The document of a piece: the last with at most so many pieces before it that is not empty.
static int64_t piece_document(const train_data *data, int64_t piece) {
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

// The first token of a piece, and how many tokens its document has from there on.
static int64_t piece_place(const train_data *data, int64_t piece, int64_t *rest) {
  int64_t document = piece_document(data, piece);
  int64_t first =
      data->starts[document] + (piece - data->pieces_before[document]) * data->windows.context;
  *rest = document_end(data, document) - first;
  return first;
}

static int64_t random_piece(const train_data *data, uint64_t seed, uint64_t stream,
                            uint64_t position) {
  return random_below(seed, stream, position, data->pieces_before[data->document_count]);
}

static int64_t piece_window(const train_data *data, int64_t piece, int64_t length, token_id *tokens,
                            token_id *targets) {
  int64_t rest, first = piece_place(data, piece, &rest), count = rest < length ? rest : length;
  copy_window(data, first, count, tokens, targets);
  for (int64_t i = count; i < length; i++) tokens[i] = 0, targets[i] = NO_TARGET;
  return count;
}

int64_t train_data_window(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position,
                          int64_t length, token_id *tokens, token_id *targets) {
  if (data->task) return task_window(data, seed, stream, position, length, tokens, targets);
  if (data->source.streaming)
    return piece_window(data, piece_of_stream(data, position), length, tokens, targets);
  if (data->source.apart)
    return piece_window(data, random_piece(data, seed, stream, position), length, tokens, targets);
  int64_t start = random_below(seed, stream, position, data->train_count - length);
  copy_window(data, start, length, tokens, targets);
  return length;
}

static bool begins_document(const train_data *data, int64_t piece) {
  return data->pieces_before[piece_document(data, piece)] == piece;
}

// Behind the end of its document a window is filled up, and a state has read that as well.
static bool is_filled_up(const train_data *data, int64_t piece) {
  int64_t rest;
  piece_place(data, piece, &rest);
  return rest < data->windows.context;
}

bool train_data_begins(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position) {
  const uint64_t rows = (uint64_t)data->windows.rows;
  if (data->task) return false;
  if (data->source.streaming) return begins_document(data, piece_of_stream(data, position));
  return data->source.apart && position >= rows &&
         is_filled_up(data, random_piece(data, seed, stream, position - rows));
}

// `count` tokens of the ring of those held out.
static void copy_ring(const train_data *data, int64_t place, int64_t count, token_id *to) {
  int64_t ring = data->count - data->train_count;
  while (count > 0) {
    int64_t at = place % ring, run = ring - at < count ? ring - at : count;
    copy_tokens(data, data->train_count + at, run, to);
    place += run, to += run, count -= run;
  }
}

void train_data_held_out(const train_data *data, int64_t place, int64_t length, token_id *tokens,
                         token_id *targets) {
  copy_ring(data, place, length, tokens);
  copy_ring(data, place + 1, length, targets);
}
