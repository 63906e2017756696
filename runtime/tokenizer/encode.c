// A text that comes in blocks, to tokens.
//
// Where the file allows it, a text is cut at `letter| letter`, and at the end of a line between two
// characters that are no blanks, `x\n|letter`. The tokens of both sides are then those of the
// whole:
//   - An added token reaches over no cut, and takes no blanks there (cuts_beside in read.c).
//   - Normal forms join nothing with a blank or an end of line, and put at most one blank before what they make of a letter.
//     A blank that becomes Metaspace's character stands where it stood.
//   - The patterns of public models match no letter together with a blank behind it, and no end of line together with a letter
//     behind it. So a match ends at the cut, and the next one begins there; what is ahead of a match is looked at only while
//     that is a blank. Metaspace splits at each blank.
//   - BPE without pieces makes no token across the cut if none goes on with Metaspace's character behind another one (find_space).
//   - What is put before a section, or taken off its ends, is so where the section begins or ends, not at a cut (goes_on).
// Other files, and texts without such places, are encoded as a whole.
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

enum { BLOCK = 1 << 16 };

rec_status encoder_new(const tokenizer *t, encoder **made) {
  encoder *e = calloc(1, sizeof *e);
  *made = e;
  if (!e) return rec_no_memory();
  e->t = t;
  e->block = e->wanted = BLOCK;
  e->region = onig_region_new();
  e->cache = calloc(CACHED_PIECES, sizeof *e->cache);
  if (e->region && e->cache) return REC_OK;
  encoder_free(e);
  *made = NULL;
  return rec_no_memory();
}

void encoder_free(encoder *e) {
  if (!e) return;
  if (e->region) onig_region_free(e->region, 1);
  free(e->out.tokens);
  free(e->in.bytes);
  free(e->normal.bytes);
  free(e->spare.bytes);
  free(e->pieces.text.bytes);
  free(e->pieces.ends);
  free(e->more.text.bytes);
  free(e->more.ends);
  free(e->cache);
  free(e->symbols);
  free(e->queue);
  free(e->nodes);
  free(e);
}

encoded *encoder_tokens(encoder *e) { return &e->out; }

// ---- sections --------------------------------------------------------------------------------

// What lies between added tokens, in its normal form.
static rec_status encode_part(encoder *e, const char *bytes, size_t size) {
  if (!size) return REC_OK;
  rec_status status = text_split(e, bytes, size, !e->begun);
  size_t at = 0;
  for (size_t i = 0; !status && i < e->pieces.count; at = e->pieces.ends[i++]) {
    const char *piece = e->pieces.text.bytes + at;
    size_t length = e->pieces.ends[i] - at;
    status =
        e->t->model == MODEL_BPE ? encode_bpe(e, piece, length) : encode_unigram(e, piece, length);
  }
  e->begun = true;
  return status;
}

static rec_status encode_section(encoder *e, const char *bytes, size_t size, bool begins) {
  rec_status status = text_normalize(e, &e->t->normalizer, bytes, size, begins, &e->normal);
  found_token f = {0};
  size_t at = 0;
  while (!status && added_next(e->t, &e->t->added_normal, e->normal.bytes, e->normal.size, &f)) {
    if (at < f.start) status = encode_part(e, e->normal.bytes + at, f.start - at);
    if (!status) status = encoder_put(e, f.token);
    e->begun = true;
    at = f.end;
  }
  return status || at >= e->normal.size ? status
                                        : encode_part(e, e->normal.bytes + at, e->normal.size - at);
}

static rec_status encode_text(encoder *e, const char *bytes, size_t size) {
  rec_status status = REC_OK;
  found_token f = {0};
  size_t at = 0;
  while (!status && added_next(e->t, &e->t->added_raw, bytes, size, &f)) {
    if (at < f.start) status = encode_section(e, bytes + at, f.start - at, at || !e->goes_on);
    if (!status) status = encoder_put(e, f.token);
    e->begun = true;
    e->goes_on = false;
    at = f.end;
  }
  if (status || at >= size) return status;
  status = encode_section(e, bytes + at, size - at, at || !e->goes_on);
  e->goes_on = true;
  return status;
}

// ---- cuts ------------------------------------------------------------------------------------

static bool is_letter_at(const char *bytes, size_t size, size_t at) {
  int length;
  return utf8_is_letter(utf8_read(bytes + at, size - at, &length));
}

static bool may_cut(const tokenizer *t, const char *bytes, size_t size, size_t at) {
  int length;
  if (t->cuts & CUT_SPACE && bytes[at] == ' ')
    return at + 1 < size && is_letter_at(bytes, size, at + 1) &&
           is_letter_at(bytes, size, utf8_before(bytes, at));
  if (!(t->cuts & CUT_LINE) || at < 2 || bytes[at - 1] != '\n' || !is_letter_at(bytes, size, at))
    return false;
  size_t before = utf8_before(bytes, at - 1);
  return !utf8_is_blank(utf8_read(bytes + before, size - before, &length));
}

// The last place; 0: there is none.
static size_t find_cut(const tokenizer *t, const char *bytes, size_t size) {
  for (size_t at = t->cuts ? size - 1 : 0; at > 0; at--)
    if (may_cut(t, bytes, size, at)) return at;
  return 0;
}

// ---- blocks ----------------------------------------------------------------------------------

static void drop_text(utf8_text *t, size_t size) {
  t->size -= size;
  memmove(t->bytes, t->bytes + size, t->size);
}

// Most of the text may have no place for a cut: then it is looked for in twice as much.
static rec_status encode_block(encoder *e) {
  size_t cut = find_cut(e->t, e->in.bytes, e->in.size);
  rec_status status = cut ? encode_text(e, e->in.bytes, cut) : REC_OK;
  if (cut) drop_text(&e->in, cut);
  e->wanted = cut ? e->in.size + e->block : 2 * e->in.size;
  return status;
}

rec_status encoder_take(encoder *e, const char *bytes, size_t count) {
  bool by_bytes = e->t->model == MODEL_LONGEST;
  if (by_bytes)
    text_add(&e->in, bytes, count);
  else
    utf8_repair_add(&e->repair, &e->in, bytes, count);
  e->out.broken = e->repair.broken;
  if (e->in.failed) return rec_no_memory();
  if (by_bytes) return encode_longest(e, false);
  return e->in.size < e->wanted ? REC_OK : encode_block(e);
}

rec_status encoder_end(encoder *e) {
  utf8_repair_end(&e->repair, &e->in);
  e->out.broken = e->repair.broken;
  rec_status status = e->in.failed                   ? rec_no_memory()
                      : e->t->model == MODEL_LONGEST ? encode_longest(e, true)
                                                     : encode_text(e, e->in.bytes, e->in.size);
  e->in.size = 0;
  e->wanted = e->block;
  e->begun = e->goes_on = false;
  return status;
}
