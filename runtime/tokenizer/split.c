// A text to pieces, which no token crosses.
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

// ---- pieces ----------------------------------------------------------------------------------

static void pieces_clear(pieces *p) { p->count = p->text.size = 0; }

// What was added since the last end is a piece, unless it is empty.
static void pieces_end(pieces *p) {
  if (p->text.size == (p->count ? p->ends[p->count - 1] : 0)) return;
  if (rec_list_grow(&p->ends, &p->room, p->count, 1, sizeof *p->ends))
    p->ends[p->count++] = p->text.size;
  else
    p->text.failed = true;
}

static void add_split_piece(pieces *p, const char *bytes, size_t size) {
  text_add(&p->text, bytes, size);
  pieces_end(p);
}

// ---- matches ---------------------------------------------------------------------------------

static bool match_character(const step *s, const char *bytes, size_t size, size_t at, size_t *start,
                            size_t *end) {
  for (int length; at < size; at += (size_t)length) {
    if (!s->is_match(utf8_read(bytes + at, size - at, &length))) continue;
    *start = at, *end = at + (size_t)length;
    return true;
  }
  return false;
}

// The next match from a place on, as Rust's iterator over matches goes. Empty matches right behind
// the last one, which ended at `empty_at`, do not count.
static rec_status next_match(const step *s, OnigRegion *region, const char *bytes, size_t size,
                             size_t from, size_t empty_at, size_t *start, size_t *end,
                             bool *found) {
  if (s->is_match) return *found = match_character(s, bytes, size, from, start, end), REC_OK;
  const OnigUChar *text = (const OnigUChar *)bytes;
  *found = false;
  for (int length; from <= size; from += (size_t)length) {
    int place = onig_search(s->regex, text, text + size, text + from, text + size, region,
                            ONIG_OPTION_NONE);
    if (place == ONIG_MISMATCH) return REC_OK;
    if (place < 0) {
      OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = "";
      onig_error_code_to_str(why, place);
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected text that the tokenizer's pattern takes, found: %s",
                      (const char *)why);
    }
    *start = (size_t)region->beg[0], *end = (size_t)region->end[0];
    *found = *start < *end || *end != empty_at;
    if (*found || from == size) return REC_OK;
    utf8_read(bytes + from, size - from, &length);
  }
  return REC_OK;
}

rec_status replace_matches(const step *s, OnigRegion *region, const char *bytes, size_t size,
                           utf8_text *to) {
  size_t at = 0, empty = SIZE_MAX, start, end;
  for (bool found = true;; at = empty = end) {
    rec_status status = next_match(s, region, bytes, size, at, empty, &start, &end, &found);
    if (status || !found) return text_add(to, bytes + at, size - at), status;
    text_add(to, bytes + at, start - at);
    text_add(to, s->content, strlen(s->content));
  }
}

// ---- splitting at matches --------------------------------------------------------------------

// Matches and what lies between them, in order. A part that may be joined with the next one is
// open.
typedef struct parts {
  const step *step;
  const char *bytes;
  pieces *to;
  bool open, was_match;
} parts;

static void add_split_part(parts *p, size_t start, size_t end, bool is_match) {
  split_behavior behavior = p->step->behavior;
  is_match = is_match != p->step->invert;
  bool joins = p->open && (behavior == SPLIT_CONTIGUOUS             ? is_match == p->was_match
                           : behavior == SPLIT_MERGED_WITH_PREVIOUS ? is_match && !p->was_match
                           : behavior == SPLIT_MERGED_WITH_NEXT     ? !is_match && p->was_match
                                                                    : false);
  if (!joins) pieces_end(p->to);
  if (behavior != SPLIT_REMOVED || !is_match) text_add(&p->to->text, p->bytes + start, end - start);
  p->open = true;
  p->was_match = is_match;
}

static rec_status split_at_matches(const step *s, OnigRegion *region, const char *bytes,
                                   size_t size, pieces *to) {
  parts p = {s, bytes, to, false, false};
  size_t at = 0, start, end, last = SIZE_MAX;
  for (bool found = true;;) {
    rec_status status = next_match(s, region, bytes, size, at, last, &start, &end, &found);
    if (status) return status;
    if (!found) break;
    if (at < start) add_split_part(&p, at, start, false);
    add_split_part(&p, start, end, true);
    at = last = end;
  }
  if (at < size) add_split_part(&p, at, size, false);
  pieces_end(to);
  return REC_OK;
}

// ---- ByteLevel -------------------------------------------------------------------------------

// Bytes that are printed stand for themselves, the others for the characters from U+0100 on, in
// order.
int32_t byte_character(unsigned char byte) {
  if ((byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad)) return byte;
  return byte <= ' ' ? 256 + byte : byte == 0xad ? 256 + 67 : 256 + 33 + (byte - 0x7f);
}

int byte_of_character(int32_t c) {
  if (c < 256) return byte_character((unsigned char)c) == c ? c : -1;
  int n = c - 256;
  return n > 67 ? -1 : n == 67 ? 0xad : n > 32 ? 0x7f + n - 33 : n;
}

// The parts are split before their bytes become characters.
static rec_status split_bytes(const step *s, OnigRegion *region, const char *bytes, size_t size,
                              pieces *to, utf8_text *spare) {
  spare->size = 0;
  if (s->prepend == PREPEND_ALWAYS && *bytes != ' ') text_add(spare, " ", 1);
  text_add(spare, bytes, size);
  if (spare->failed) return rec_no_memory();
  if (s->regex) return split_at_matches(s, region, spare->bytes, spare->size, to);
  add_split_piece(to, spare->bytes, spare->size);
  return REC_OK;
}

static void to_byte_characters(const pieces *from, pieces *to) {
  size_t at = 0;
  for (size_t i = 0; i < from->count; i++) {
    for (; at < from->ends[i]; at++)
      text_add_character(&to->text, byte_character((unsigned char)from->text.bytes[at]));
    pieces_end(to);
  }
}

// ---- Metaspace -------------------------------------------------------------------------------

static void split_metaspace(const step *s, const char *bytes, size_t size, bool first, pieces *to) {
  size_t length = strlen(s->content), at = 0;
  bool starts = *bytes == ' ' || (size >= length && !memcmp(bytes, s->content, length));
  if (!starts && (s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first)))
    text_add(&to->text, s->content, length);
  while (at < size) {
    bool space = bytes[at] == ' ',
         meta = !space && size - at >= length && !memcmp(bytes + at, s->content, length);
    if ((space || meta) && s->splits) pieces_end(to);
    if (space)
      text_add(&to->text, s->content, length);
    else
      text_add(&to->text, bytes + at, meta ? length : 1);
    at += meta ? length : 1;
  }
  pieces_end(to);
}

// ---- steps -----------------------------------------------------------------------------------

static rec_status split_piece(encoder *e, const step *s, const char *bytes, size_t size, bool first,
                              pieces *to) {
  if (s->kind == STEP_METASPACE) return split_metaspace(s, bytes, size, first, to), REC_OK;
  if (s->kind == STEP_BYTES) return split_bytes(s, e->region, bytes, size, to, &e->spare);
  return split_at_matches(s, e->region, bytes, size, to);
}

static void swap_pieces(encoder *e) {
  pieces p = e->pieces;
  e->pieces = e->more;
  e->more = p;
  pieces_clear(&e->pieces);
}

// first: this is the beginning of the whole text.
rec_status text_split(encoder *e, const char *bytes, size_t size, bool first) {
  pieces_clear(&e->pieces);
  add_split_piece(&e->pieces, bytes, size);
  rec_status status = REC_OK;
  for (int i = 0; !status && i < e->t->splitter.count; i++) {
    const step *s = &e->t->splitter.list[i];
    swap_pieces(e);
    size_t at = 0;
    for (size_t k = 0; !status && k < e->more.count; at = e->more.ends[k++])
      status =
          split_piece(e, s, e->more.text.bytes + at, e->more.ends[k] - at, first && !k, &e->pieces);
    if (s->kind != STEP_BYTES) continue;
    swap_pieces(e);
    to_byte_characters(&e->more, &e->pieces);
  }
  bool failed = e->pieces.text.failed || e->more.text.failed;
  return status || !failed ? status : rec_no_memory();
}
