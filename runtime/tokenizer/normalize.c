// The normal form of a section.
#include <stdlib.h>
#include <utf8proc.h>

#include "runtime/tokenizer/parts.h"

static bool is_ascii(const char *bytes, size_t size) {
  for (size_t i = 0; i < size; i++)
    if ((signed char)bytes[i] < 0) return false;
  return true;
}

static rec_status compose_unicode(step_kind kind, const char *bytes, size_t size, utf8_text *to) {
  static const int options[] = {[STEP_NFC] = UTF8PROC_COMPOSE,
                                [STEP_NFD] = UTF8PROC_DECOMPOSE,
                                [STEP_NFKC] = UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                [STEP_NFKD] = UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT};
  if (is_ascii(bytes, size)) return text_add(to, bytes, size), REC_OK;
  utf8proc_uint8_t *made = NULL;
  utf8proc_ssize_t made_size =
      utf8proc_map((const utf8proc_uint8_t *)bytes, (utf8proc_ssize_t)size, &made,
                   (utf8proc_option_t)(options[kind] | UTF8PROC_STABLE));
  if (made_size >= 0) text_add(to, made, (size_t)made_size);
  free(made);
  return made_size < 0
             ? rec_fail(REC_ERROR_ARGUMENT, "expected text that has a normal form, found: %s",
                        utf8proc_errmsg(made_size))
             : REC_OK;
}

static void lower(const char *bytes, size_t size, utf8_text *to) {
  int length;
  for (size_t at = 0; at < size; at += (size_t)length) {
    int32_t c = utf8_read(bytes + at, size - at, &length);
    text_add_character(to, c == 0x130 ? 'i' : utf8proc_tolower(c));
    if (c == 0x130) text_add_character(to, 0x307);  // the only letter of which Unicode makes two
  }
}

static void strip_blanks(const step *s, const char *bytes, size_t size, utf8_text *to) {
  size_t start = s->left ? utf8_blanks_behind(bytes, size, 0) : 0,
         end = s->right ? utf8_blanks_before(bytes, size, start) : size;
  text_add(to, bytes + start, end - start);
}

static rec_status normalize_by(encoder *e, const step *s, const char *bytes, size_t size,
                               bool begins, utf8_text *to) {
  switch (s->kind) {
    case STEP_LOWERCASE: lower(bytes, size, to); return REC_OK;
    case STEP_STRIP: {
      step here = *s;
      here.left = here.left && begins;
      strip_blanks(&here, bytes, size, to);
      return REC_OK;
    }
    case STEP_PREPEND:
      if (begins && size) text_add(to, s->content, strlen(s->content));
      text_add(to, bytes, size);
      return REC_OK;
    case STEP_REPLACE: return replace_matches(s, e->region, bytes, size, to);
    default: return compose_unicode(s->kind, bytes, size, to);
  }
}

rec_status text_normalize(encoder *e, const steps *list, const char *bytes, size_t size,
                          bool begins, utf8_text *to) {
  rec_status status = REC_OK;
  to->size = 0;
  text_add(to, bytes, size);
  for (int i = 0; !status && i < list->count; i++) {
    utf8_text from = *to;
    *to = e->spare;
    to->size = 0;
    status = normalize_by(e, &list->list[i], from.bytes, from.size, begins, to);
    to->failed = to->failed || from.failed;
    e->spare = from;
  }
  return status || !to->failed ? status : rec_no_memory();
}
