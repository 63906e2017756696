// Tokens to text, one after another, through the steps of the file's decoder. Broken bytes become
// U+FFFD as in the package, but for one case: ByteFallback gives up all bytes of a row of byte
// tokens if one of them is broken, this code only the broken ones, as it cannot wait for the end of
// the row.
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

struct decoder {
  const tokenizer *t;
  utf8_text out;
  utf8_repair repair;  // of ByteLevel or ByteFallback
  int repaired_by;     // its place among the steps
  OnigRegion *region;
  int *seen;  // by each step: tokens, or characters it has cut
  bool begun;
};

rec_status decoder_new(const tokenizer *t, decoder **made) {
  decoder *d = calloc(1, sizeof *d);
  *made = d;
  if (!d) return rec_no_memory();
  d->t = t;
  d->region = onig_region_new();
  d->seen = calloc((size_t)t->decoder.count + 1, sizeof *d->seen);
  if (d->region && d->seen) return REC_OK;
  decoder_free(d);
  *made = NULL;
  return rec_no_memory();
}

void decoder_free(decoder *d) {
  if (!d) return;
  if (d->region) onig_region_free(d->region, 1);
  free(d->out.bytes);
  free(d->seen);
  free(d);
}

static rec_status pass(decoder *d, int step_number, const char *bytes, size_t size);

// ---- steps -----------------------------------------------------------------------------------

static void undo_metaspace(const step *s, const char *bytes, size_t size, bool first,
                           utf8_text *to) {
  size_t length = strlen(s->content);
  for (size_t at = 0; at < size;) {
    bool meta = size - at >= length && !memcmp(bytes + at, s->content, length);
    if (!meta)
      text_add(to, bytes + at, 1);
    else if (!first || s->prepend == PREPEND_NEVER)
      text_add(to, " ", 1);
    at += meta ? length : 1;
  }
}

// From the beginning of each token, or, behind a step that joins them, of the text: then `cut` goes
// on.
static size_t cut_start(const step *s, const char *bytes, size_t size, int *cut) {
  size_t length = strlen(s->content), at = 0;
  while (*cut < s->start && size - at >= length && !memcmp(bytes + at, s->content, length))
    at += length, ++*cut;
  if (at < size) *cut = s->start;
  return at;
}

// <0x00> to <0xFF>; -1: another token.
static int byte_of_name(const char *bytes, size_t size) {
  char digits[3] = "", *end;
  if (size != 6 || memcmp(bytes, "<0x", 3) != 0 || bytes[5] != '>') return -1;
  memcpy(digits, bytes + 3, 2);
  long value = strtol(digits, &end, 16);
  return *end || digits[0] == '-' || digits[0] == ' ' ? -1 : (int)value;
}

// A token of byte characters alone is their bytes.
static void to_bytes(const char *bytes, size_t size, utf8_text *to) {
  int length, byte = 0;
  for (size_t at = 0; at < size && byte >= 0; at += (size_t)length)
    byte = byte_of_character(utf8_read(bytes + at, size - at, &length));
  for (size_t at = 0; at < size && byte >= 0; at += (size_t)length)
    text_add(to, &(char){(char)byte_of_character(utf8_read(bytes + at, size - at, &length))}, 1);
  if (byte < 0) text_add(to, bytes, size);
}

static rec_status pass_byte(decoder *d, int number, int byte, utf8_text *to) {
  d->repair.each_byte = true;
  d->repaired_by = number;
  utf8_repair_add(&d->repair, to, &(char){(char)byte}, 1);
  return to->size ? pass(d, number + 1, to->bytes, to->size) : REC_OK;
}

// What broke off before another token.
static rec_status end_bytes(decoder *d, int number) {
  utf8_text rest = {0};
  utf8_repair_end(&d->repair, &rest);
  rec_status status = rest.size ? pass(d, number + 1, rest.bytes, rest.size) : REC_OK;
  free(rest.bytes);
  return status;
}

static rec_status pass_step(decoder *d, int number, const char *bytes, size_t size, utf8_text *to) {
  const step *s = &d->t->decoder.list[number];
  rec_status status = REC_OK;
  int cut = 0, byte;
  size_t start;
  switch (s->kind) {
    case STEP_REPLACE: status = replace_matches(s, d->region, bytes, size, to); break;
    case STEP_METASPACE: undo_metaspace(s, bytes, size, !d->seen[number], to); break;
    case STEP_CUT:
      start = cut_start(s, bytes, size, s->joined ? &d->seen[number] : &cut);
      return pass(d, number + 1, bytes + start, size - start);
    case STEP_BYTE_FALLBACK:
      if ((byte = byte_of_name(bytes, size)) >= 0) return pass_byte(d, number, byte, to);
      status = end_bytes(d, number);
      return status ? status : pass(d, number + 1, bytes, size);
    case STEP_BYTES: {
      utf8_text found = {0};
      to_bytes(bytes, size, &found);
      utf8_repair_add(&d->repair, to, found.bytes, found.size);
      to->failed = to->failed || found.failed;
      d->repaired_by = number;
      free(found.bytes);
      break;
    }
    default: return pass(d, number + 1, bytes, size);
  }
  if (!d->seen[number]) d->seen[number] = 1;
  return status ? status : pass(d, number + 1, to->bytes, to->size);
}

// A token, or what became of it, through the steps from one on.
static rec_status pass(decoder *d, int number, const char *bytes, size_t size) {
  if (number == d->t->decoder.count) return text_add(&d->out, bytes, size), REC_OK;
  utf8_text to = {0};
  rec_status status = pass_step(d, number, bytes, size, &to);
  if (!status && to.failed) status = rec_no_memory();
  free(to.bytes);
  return status;
}

// ---- tokens ----------------------------------------------------------------------------------

static rec_status decode_token(decoder *d, token_id token) {
  const tokenizer *t = d->t;
  if (token < 0 || token >= t->token_count || !t->tokens[token].bytes) return REC_OK;
  const char *bytes = t->tokens[token].bytes;
  size_t size = t->tokens[token].size;
  if (t->model == MODEL_LONGEST) return utf8_repair_add(&d->repair, &d->out, bytes, size), REC_OK;
  if (t->joins_by_space && d->begun) text_add(&d->out, " ", 1);
  d->begun = true;
  return pass(d, 0, bytes, size);
}

rec_status decoder_take(decoder *d, const token_id *tokens, size_t count, const char **bytes,
                        size_t *size) {
  rec_status status = REC_OK;
  d->out.size = 0;
  for (size_t i = 0; !status && i < count; i++) status = decode_token(d, tokens[i]);
  *bytes = d->out.bytes ? d->out.bytes : "";
  *size = d->out.size;
  return status || !d->out.failed ? status : rec_no_memory();
}

rec_status decoder_end(decoder *d, const char **bytes, size_t *size) {
  rec_status status = REC_OK;
  d->out.size = 0;
  if (d->t->model == MODEL_LONGEST)
    utf8_repair_end(&d->repair, &d->out);
  else if (d->repair.size)
    status = end_bytes(d, d->repaired_by);
  memset(d->seen, 0, (size_t)d->t->decoder.count * sizeof *d->seen);
  d->begun = false;
  *bytes = d->out.bytes ? d->out.bytes : "";
  *size = d->out.size;
  return status || !d->out.failed ? status : rec_no_memory();
}
