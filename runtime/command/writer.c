#include "runtime/command/writer.h"
#include "compiler/abi/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCK_OF_PROMPT = 4096 };

const char *writer_unit(const writer *w) {
  static const char *const units[] = {"bytes", "characters", "tokens", "tokens"};
  return units[w->kind];
}

// ---- reading ------------------------------------------------------------------------------------

static rec_status take_tokens(writer *w, const token_id *tokens, int64_t count) {
  w->read += count;
  return generator_read(w->g, tokens, count);
}

static rec_status unknown_character(const writer *w, const char *text, size_t size, int64_t place) {
  enum { SHOWN = 200 };
  const char *all = w->alphabet.characters;
  char found[16];
  uint32_t point;
  int length = train_character((const unsigned char *)text, size, &point);
  size_t shown = strlen(all);
  if (!length)
    snprintf(found, sizeof found, "the byte %d", (unsigned char)*text);
  else if (point < ' ')
    snprintf(found, sizeof found, "U+%04X", point);
  else
    snprintf(found, sizeof found, "`%.*s`", length, text);
  if (shown > SHOWN)
    for (shown = SHOWN; (all[shown] & 0xC0) == 0x80;) shown--;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "expected a prompt of characters of the model's text, found %s as character "
                  "%" PRId64 "; the text has %d: %.*s%s",
                  found, place, w->alphabet.count, (int)shown, all, all[shown] ? ".." : "");
}

// Characters may begin in one block of bytes and end in the next.
static rec_status read_characters(writer *w, const char *bytes, size_t count) {
  token_id tokens[BLOCK_OF_PROMPT + 4];
  char text[BLOCK_OF_PROMPT + 4];
  int64_t found = 0;
  size_t at = 0, size = w->part_size + count;
  memcpy(text, w->part, w->part_size);
  memcpy(text + w->part_size, bytes, count);
  for (int length; at < size; at += (size_t)length, found++) {
    length = train_alphabet_read(&w->alphabet, text + at, size - at, &tokens[found]);
    if (length < 0) break;
    if (!length) return unknown_character(w, text + at, size - at, w->read + found);
  }
  w->part_size = size - at;
  memcpy(w->part, text + at, size - at);
  return take_tokens(w, tokens, found);
}

static rec_status read_bytes(writer *w, const char *bytes, size_t count) {
  token_id tokens[BLOCK_OF_PROMPT];
  for (size_t i = 0; i < count; i++) {
    tokens[i] = (unsigned char)bytes[i];
    if (tokens[i] >= w->sampler.count)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected a prompt of bytes below %d, found %d at byte %" PRId64,
                      w->sampler.count, tokens[i], w->read + (int64_t)i);
  }
  return take_tokens(w, tokens, (int64_t)count);
}

// Numbers, too, may begin in one block and end in the next, which is why the last byte of a prompt
// must be a blank.
static rec_status read_numbers(writer *w, const char *bytes, size_t count) {
  token_id tokens[BLOCK_OF_PROMPT];
  int64_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (bytes[i] >= '0' && bytes[i] <= '9') {
      w->number = (w->number < 0 ? 0 : 10 * w->number) + (bytes[i] - '0');
    } else if (!strchr(" \t\r\n", bytes[i]) || !bytes[i]) {
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected a prompt of numbers between blanks, found byte %d after %" PRId64
                      " of them",
                      (unsigned char)bytes[i], w->read + found);
    } else if (w->number >= 0) {
      tokens[found++] = (token_id)w->number;
      w->number = -1;
    }
    if (w->number >= w->sampler.count)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected a prompt of tokens below %d, found %" PRId64
                      " or more after %" PRId64 " of them",
                      w->sampler.count, w->number, w->read + found);
  }
  return take_tokens(w, tokens, found);
}

// What was encoded goes through the decoder as well: what is written behind the prompt continues
// it.
static rec_status decode_words(writer *w) {
  encoded *e = encoder_tokens(w->encoder);
  const char *text;
  size_t size;
  rec_status status = decoder_take(w->decoder, e->tokens, e->count, &text, &size);
  if (!status && e->count) status = take_tokens(w, e->tokens, (int64_t)e->count);
  e->count = 0;
  return status;
}

static rec_status encode_words(writer *w, const char *bytes, size_t count) {
  rec_status status = encoder_take(w->encoder, bytes, count);
  return status ? status : decode_words(w);
}

static rec_status end_words(writer *w) {
  rec_status status = encoder_end(w->encoder);
  if (!status) status = decode_words(w);
  if (status || !encoder_tokens(w->encoder)->broken) return status;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "expected a prompt of whole characters in UTF-8, found bytes that are none; is "
                  "it cut inside of one?");
}

// What the tokenizer puts before each text.
static rec_status write_first_text(writer *w) {
  const token_id *first;
  int count = tokenizer_first(w->words, &first);
  const char *text;
  size_t size;
  rec_status status = decoder_take(w->decoder, first, (size_t)count, &text, &size);
  return status || !count ? status : take_tokens(w, first, count);
}

static rec_status take_prompt_block(writer *w, const char *bytes, size_t count) {
  return w->kind == TEXT_BYTES        ? read_bytes(w, bytes, count)
         : w->kind == TEXT_WORDS      ? encode_words(w, bytes, count)
         : w->kind == TEXT_CHARACTERS ? read_characters(w, bytes, count)
                                      : read_numbers(w, bytes, count);
}

static rec_status read_input_file(writer *w, const char *path) {
  bool standard = strcmp(path, "-") == 0;
  FILE *file = standard ? stdin : fopen(path, "rb");
  if (!file) return rec_file_failed(path);
  char bytes[BLOCK_OF_PROMPT];
  rec_status status = REC_OK;
  for (size_t size; !status && !*w->stopped && (size = fread(bytes, 1, sizeof bytes, file)) > 0;)
    status = take_prompt_block(w, bytes, size);
  if (!status && !*w->stopped && ferror(file)) status = rec_file_failed(path);
  if (!standard) fclose(file);
  return status;
}

static rec_status read_text(writer *w, const char *text) {
  rec_status status = REC_OK;
  for (size_t left = strlen(text), size; !status && !*w->stopped && left > 0;
       left -= size, text += size) {
    size = left < BLOCK_OF_PROMPT ? left : BLOCK_OF_PROMPT;
    status = take_prompt_block(w, text, size);
  }
  return status;
}

// Nothing can be foretold before something was read.
static rec_status feed_start_token(writer *w) {
  token_id start = w->kind == TEXT_BYTES ? '\n' : 0;
  if (w->kind == TEXT_CHARACTERS && train_alphabet_read(&w->alphabet, "\n", 1, &start) != 1)
    start = 0;
  if (w->kind == TEXT_WORDS && w->end_count) start = w->ends[0];
  if (start < 0 || start >= w->sampler.count) start = 0;
  return generator_read(w->g, &start, 1);
}

rec_status writer_read(writer *w, const char *text, const char *path) {
  double begin = clock_seconds(CLOCK_MONOTONIC);
  w->number = -1;
  rec_status status = w->kind == TEXT_WORDS ? write_first_text(w) : REC_OK;
  if (!status) status = path ? read_input_file(w, path) : text ? read_text(w, text) : REC_OK;
  if (!status && w->kind == TEXT_WORDS && !*w->stopped) status = end_words(w);
  if (!status && w->part_size && !*w->stopped)
    status = rec_fail(
        REC_ERROR_ARGUMENT,
        "expected a prompt of whole characters, found its end inside of one, after %" PRId64
        " of them",
        w->read);
  if (!status && w->number >= 0) status = read_numbers(w, " ", 1);
  if (!status && !w->read && !*w->stopped) status = feed_start_token(w);
  w->read_seconds = clock_seconds(CLOCK_MONOTONIC) - begin;
  return status;
}

// ---- writing ------------------------------------------------------------------------------------

// Counts the characters that it prints: each has one byte that continues no other.
static bool print_bytes(writer *w, const char *bytes, size_t size) {
  for (size_t i = 0; i < size && w->kind != TEXT_WORDS; i++)
    w->written += w->kind == TEXT_BYTES || (bytes[i] & 0xC0) != 0x80;
  return fwrite(bytes, 1, size, stdout) == size && !fflush(stdout);
}

// How many bytes at the end of the text may begin the one that ends it.
static size_t begun_stop(const utf8_text *text, const char *stop) {
  size_t most = strlen(stop) - 1;
  if (most > text->size) most = text->size;
  while (most && memcmp(text->bytes + text->size - most, stop, most) != 0) most--;
  return most;
}

static bool write_held_text(writer *w, const char *bytes, size_t size) {
  if (!w->stop) return !size || print_bytes(w, bytes, size);
  text_add(&w->held, bytes, size);
  if (w->held.failed) return false;
  const char *found =
      w->held.size ? memmem(w->held.bytes, w->held.size, w->stop, strlen(w->stop)) : NULL;
  w->ended = w->cut = found != NULL;
  size_t ready =
      found ? (size_t)(found - w->held.bytes) : w->held.size - begun_stop(&w->held, w->stop);
  bool good = !ready || print_bytes(w, w->held.bytes, ready);
  w->held.size -= ready;
  if (ready) memmove(w->held.bytes, w->held.bytes + ready, w->held.size);
  return good;
}

static bool put_words(writer *w, token_id token, bool ends) {
  const char *bytes;
  size_t size;
  rec_status status = ends ? decoder_end(w->decoder, &bytes, &size)
                           : decoder_take(w->decoder, &token, 1, &bytes, &size);
  return !status && write_held_text(w, bytes, size);
}

static bool write_next_token(writer *w, int token) {
  int size = 1;
  const char byte = (char)token, *text = &byte;
  for (int i = 0; i < w->end_count; i++) w->ended = w->ended || w->ends[i] == token;
  if (w->ended) return true;
  if (w->kind == TEXT_NUMBERS)
    return printf(w->written++ ? " %d" : "%d", token) > 0 && !fflush(stdout);
  if (w->kind == TEXT_WORDS) {
    bool good = put_words(w, token, false);
    w->written += !w->cut;
    return good;
  }
  if (w->kind == TEXT_CHARACTERS) text = train_alphabet_text(&w->alphabet, token, &size);
  return write_held_text(w, text, (size_t)size);
}

// What was held back.
static bool put_rest(writer *w) {
  if (w->kind == TEXT_NUMBERS) return !w->written || (putchar('\n') >= 0 && !fflush(stdout));
  if (w->cut) return true;
  bool good = w->kind != TEXT_WORDS || put_words(w, 0, true);
  return good && (w->cut || !w->held.size || print_bytes(w, w->held.bytes, w->held.size));
}

static rec_status write_token(writer *w, int64_t count) {
  const double *logits = generator_logits(w->g);
  int token = sample_token(&w->sampler, logits, (uint64_t)w->drawn);
  if (token < 0)
    return rec_fail(REC_ERROR_FORMAT, "expected logits, found NaN or infinity after %" PRId64 " %s",
                    w->read + w->drawn, writer_unit(w));
  if (w->logits)
    memcpy(w->logits + w->drawn * w->sampler.count, logits,
           (size_t)w->sampler.count * sizeof *logits);
  if (!write_next_token(w, token))
    return rec_fail(REC_ERROR_FILE, "standard output: %s", strerror(errno));
  w->drawn++;
  if (w->ended || w->drawn == count) return REC_OK;
  const token_id next = (token_id)token;
  return generator_read(w->g, &next, 1);
}

rec_status writer_write(writer *w, int64_t count) {
  double begin = clock_seconds(CLOCK_MONOTONIC);
  rec_status status = REC_OK;
  while (!status && !*w->stopped && !w->ended && w->drawn < count) status = write_token(w, count);
  if (!status && !put_rest(w))
    status = rec_fail(REC_ERROR_FILE, "standard output: %s", strerror(errno));
  w->written_seconds = clock_seconds(CLOCK_MONOTONIC) - begin;
  return status;
}

void writer_close(writer *w) {
  encoder_free(w->encoder);
  decoder_free(w->decoder);
  free(w->held.bytes);
}
