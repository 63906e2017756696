// The members normalizer, pre_tokenizer and decoder of a tokenizer.json, as lists of steps.
#include <stdlib.h>

#include "runtime/tokenizer/parts.h"

// Patterns of public models of which it is proven that a text may be cut at both places (encode.c
// says how).
static const char byte_level_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";
static const char *const proven[] = {
    byte_level_pattern,  // GPT-2, GPT-NeoX
    // Llama 3, GPT-4
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    // Qwen 2
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};

typedef struct reading {
  tokenizer *t;
  const char *where;  // of messages
  steps *to;
  int room;
} reading;

static rec_status add_text_step(reading *r, step s) {
  if (r->to->count == r->room) {
    if (s.regex) onig_free(s.regex);
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: %s: expected at most %d steps", r->t->path,
                    r->where, r->room);
  }
  r->to->list[r->to->count++] = s;
  return REC_OK;
}

// ---- what several steps have -----------------------------------------------------------------

static rec_status read_regex(const reading *r, const char *pattern, size_t size, OnigRegex *regex) {
  OnigErrorInfo about;
  int failed = onig_new(regex, (const OnigUChar *)pattern, (const OnigUChar *)pattern + size,
                        ONIG_OPTION_NONE, ONIG_ENCODING_UTF8, ONIG_SYNTAX_DEFAULT, &about);
  if (!failed) return REC_OK;
  OnigUChar why[ONIG_MAX_ERROR_MESSAGE_LEN] = "";
  onig_error_code_to_str(why, failed, &about);
  *regex = NULL;
  return rec_fail(REC_ERROR_FORMAT, "%s: %s: expected a pattern, found `%.80s`: %s", r->t->path,
                  r->where, pattern, (const char *)why);
}

// {"String": "x"} or {"Regex": "x"}; a string is one that matches itself alone.
static rec_status read_pattern(const reading *r, const cJSON *json, OnigRegex *regex) {
  const cJSON *pattern = json_get(json, "pattern");
  const char *plain = json_text(pattern, "String"), *given = json_text(pattern, "Regex");
  if (!*plain == !*given)
    return wrong_value(r->t, r->where, "pattern", pattern, "a String or a Regex");
  utf8_text escaped = {0};
  for (const char *c = plain; *c; c++) {
    if (strchr("\\.+*?()|[]{}^$#&-~", *c)) text_add(&escaped, "\\", 1);
    text_add(&escaped, c, 1);
  }
  rec_status status = escaped.failed ? rec_no_memory()
                      : *plain       ? read_regex(r, escaped.bytes, escaped.size, regex)
                                     : read_regex(r, given, strlen(given), regex);
  free(escaped.bytes);
  return status;
}

static rec_status read_content(const reading *r, const cJSON *json, const char *member,
                               const char **content) {
  const cJSON *found = json_get(json, member);
  if (!cJSON_IsString(found)) return wrong_value(r->t, r->where, member, found, "a text");
  return keep_text(r->t, found->valuestring, strlen(found->valuestring), content);
}

static rec_status read_character_member(const reading *r, const cJSON *json, const char *member,
                                        const char **content) {
  int length = 0;
  rec_status status = read_content(r, json, member, content);
  if (!status && **content) utf8_read(*content, strlen(*content), &length);
  return status || (length && !(*content)[length])
             ? status
             : wrong_value(r->t, r->where, member, json_get(json, member), "a character");
}

static rec_status read_behavior(const reading *r, const cJSON *json, split_behavior *behavior) {
  static const char *const names[] = {"Removed", "Isolated", "Contiguous", "MergedWithPrevious",
                                      "MergedWithNext"};
  const cJSON *found = json_get(json, "behavior");
  for (int i = 0; i < 5; i++)
    if (found && !strcmp(json_text(json, "behavior"), names[i]))
      return *behavior = (split_behavior)i, REC_OK;
  return wrong_value(r->t, r->where, "behavior", found,
                     "Removed, Isolated, Contiguous, MergedWithPrevious or MergedWithNext");
}

// ---- normalizers -----------------------------------------------------------------------------

static rec_status read_form_step(reading *r, const cJSON *json, step s) {
  (void)json;
  s.cuts = CUT_SPACE | CUT_LINE;
  return add_text_step(r, s);
}

// A text that is cut behind the end of a line would lose that end.
static rec_status read_strip(reading *r, const cJSON *json, step s) {
  s.cuts = CUT_SPACE;
  rec_status status = read_flag(r->t, r->where, json, "strip_left", true, &s.left);
  if (!status) status = read_flag(r->t, r->where, json, "strip_right", true, &s.right);
  return status ? status : add_text_step(r, s);
}

static rec_status read_prepend(reading *r, const cJSON *json, step s) {
  s.cuts = CUT_SPACE | CUT_LINE;
  rec_status status = read_content(r, json, "prepend", &s.content);
  return status ? status : add_text_step(r, s);
}

// Of patterns in general nothing is known; a blank that becomes Metaspace's character stands where
// it stood.
static rec_status read_replace(reading *r, const cJSON *json, step s) {
  const cJSON *pattern = json_get(json, "pattern");
  rec_status status = read_pattern(r, json, &s.regex);
  if (!status) status = read_content(r, json, "content", &s.content);
  bool space =
      !status && !strcmp(json_text(pattern, "String"), " ") && !strcmp(s.content, METASPACE);
  if (space) s.cuts = CUT_SPACE;
  // also after a failure: who closes the tokenizer frees the pattern
  rec_status added = add_text_step(r, s);
  return status ? status : added;
}

// ---- pre-tokenizers --------------------------------------------------------------------------

// With other patterns than these, and where matches are removed, a text is not cut.
static rec_status read_split(reading *r, const cJSON *json, step s) {
  rec_status status = read_pattern(r, json, &s.regex);
  if (!status) status = read_behavior(r, json, &s.behavior);
  if (!status) status = read_flag(r->t, r->where, json, "invert", false, &s.invert);
  const char *pattern = json_text(json_get(json, "pattern"), "Regex");
  bool whole = s.behavior == SPLIT_ISOLATED || (s.behavior == SPLIT_REMOVED && s.invert);
  for (size_t i = 0; whole && i < sizeof proven / sizeof *proven; i++)
    if (!strcmp(pattern, proven[i])) s.cuts = s.splits_at = CUT_SPACE | CUT_LINE;
  rec_status added = add_text_step(r, s);
  return status ? status : added;
}

static rec_status read_byte_level(reading *r, const cJSON *json, step s) {
  bool prefix, regex;
  rec_status status = read_flag(r->t, r->where, json, "add_prefix_space", true, &prefix);
  if (!status) status = read_flag(r->t, r->where, json, "use_regex", true, &regex);
  if (!status && regex)
    status = read_regex(r, byte_level_pattern, sizeof byte_level_pattern - 1, &s.regex);
  s.behavior = SPLIT_ISOLATED;
  s.prepend = prefix ? PREPEND_ALWAYS : PREPEND_NEVER;
  s.cuts = prefix ? CUT_SPACE : CUT_SPACE | CUT_LINE;
  s.splits_at = s.regex ? s.cuts : 0;
  rec_status added = add_text_step(r, s);
  return status ? status : added;
}

static rec_status read_prepend_scheme(const reading *r, const cJSON *json, prepend_scheme *scheme) {
  static const char *const names[] = {"never", "first", "always"};
  const cJSON *found = json_get(json, "prepend_scheme"),
              *prefix = json_get(json, "add_prefix_space");
  *scheme = PREPEND_ALWAYS;
  bool known = !found;
  for (int i = 0; found && i < 3; i++)
    if (!strcmp(json_text(json, "prepend_scheme"), names[i]))
      *scheme = (prepend_scheme)i, known = true;
  if (!known) return wrong_value(r->t, r->where, "prepend_scheme", found, "never, first or always");
  if (!cJSON_IsFalse(prefix)) return REC_OK;
  if (found && *scheme != PREPEND_NEVER)
    return wrong_value(r->t, r->where, "add_prefix_space", prefix, "what prepend_scheme says");
  *scheme = PREPEND_NEVER;
  return REC_OK;
}

static rec_status read_metaspace(reading *r, const cJSON *json, step s) {
  rec_status status = read_character_member(r, json, "replacement", &s.content);
  if (!status) status = read_prepend_scheme(r, json, &s.prepend);
  if (!status) status = read_flag(r->t, r->where, json, "split", true, &s.splits);
  if (!status && s.prepend == PREPEND_FIRST && r->to == &r->t->splitter && r->to->count)
    status = wrong_value(r->t, r->where, "prepend_scheme", json_get(json, "prepend_scheme"),
                         "never or always behind another pre-tokenizer");
  s.cuts = CUT_SPACE;
  s.splits_at = s.splits ? CUT_SPACE : 0;
  return status ? status : add_text_step(r, s);
}

// Single characters that are split off keep a letter and the blank behind it as they are.
static rec_status read_digits(reading *r, const cJSON *json, step s) {
  bool single;
  rec_status status = read_flag(r->t, r->where, json, "individual_digits", false, &single);
  s.is_match = utf8_is_number;
  s.behavior = single ? SPLIT_ISOLATED : SPLIT_CONTIGUOUS;
  s.cuts = CUT_SPACE | CUT_LINE;
  return status ? status : add_text_step(r, s);
}

static rec_status read_punctuation(reading *r, const cJSON *json, step s) {
  s.behavior = SPLIT_ISOLATED;
  rec_status status = json_get(json, "behavior") ? read_behavior(r, json, &s.behavior) : REC_OK;
  s.is_match = utf8_is_punctuation;
  if (s.behavior <= SPLIT_CONTIGUOUS) s.cuts = CUT_SPACE | CUT_LINE;
  return status ? status : add_text_step(r, s);
}

static rec_status read_blanks(reading *r, const cJSON *json, step s) {
  (void)json;
  s.is_match = utf8_is_blank;
  s.behavior = SPLIT_REMOVED;
  s.cuts = s.splits_at = CUT_SPACE | CUT_LINE;
  return add_text_step(r, s);
}

// \w+|[^\w\s]+: without blanks, where characters of words and others meet.
static rec_status read_word_splits(reading *r, const cJSON *json, step s) {
  rec_status status = read_blanks(r, json, s);
  s.is_match = utf8_is_word;
  s.behavior = SPLIT_CONTIGUOUS;
  s.cuts = CUT_SPACE | CUT_LINE;
  return status ? status : add_text_step(r, s);
}

// ---- decoders --------------------------------------------------------------------------------

static rec_status read_plain_step(reading *r, const cJSON *json, step s) {
  (void)json;
  return add_text_step(r, s);
}

static rec_status read_cut(reading *r, const cJSON *json, step s) {
  const cJSON *start = json_get(json, "start"), *stop = json_get(json, "stop");
  rec_status status = read_character_member(r, json, "content", &s.content);
  s.start = cJSON_IsNumber(start) ? start->valueint : -1;
  if (!status && s.start < 0) status = wrong_value(r->t, r->where, "start", start, "a number");
  if (!status && !(cJSON_IsNumber(stop) && stop->valueint == 0))
    status = wrong_value(r->t, r->where, "stop", stop, "0");
  return status ? status : add_text_step(r, s);
}

// ---- all of them -----------------------------------------------------------------------------

typedef struct step_row {
  const char *name, *members;
  step_kind kind;
  rec_status (*read)(reading *r, const cJSON *json, step s);
} step_row;

static const step_row normalizers[] = {
    {"NFC", "type", STEP_NFC, read_form_step},
    {"NFD", "type", STEP_NFD, read_form_step},
    {"NFKC", "type", STEP_NFKC, read_form_step},
    {"NFKD", "type", STEP_NFKD, read_form_step},
    {"Lowercase", "type", STEP_LOWERCASE, read_form_step},
    {"Strip", "type strip_left strip_right", STEP_STRIP, read_strip},
    {"Prepend", "type prepend", STEP_PREPEND, read_prepend},
    {"Replace", "type pattern content", STEP_REPLACE, read_replace},
    {0}};
static const char metaspace_members[] =
    "type replacement str_rep add_prefix_space prepend_scheme split";
static const char byte_level_members[] = "type add_prefix_space trim_offsets use_regex";
static const step_row splitters[] = {
    {"ByteLevel", byte_level_members, STEP_BYTES, read_byte_level},
    {"Split", "type pattern behavior invert", STEP_SPLIT, read_split},
    {"Metaspace", metaspace_members, STEP_METASPACE, read_metaspace},
    {"Digits", "type individual_digits", STEP_SPLIT, read_digits},
    {"Punctuation", "type behavior", STEP_SPLIT, read_punctuation},
    {"Whitespace", "type", STEP_SPLIT, read_word_splits},
    {"WhitespaceSplit", "type", STEP_SPLIT, read_blanks},
    {0}};
static const step_row decoders[] = {
    {"ByteLevel", byte_level_members, STEP_BYTES, read_plain_step},
    {"Metaspace", metaspace_members, STEP_METASPACE, read_metaspace},
    {"Replace", "type pattern content", STEP_REPLACE, read_replace},
    {"ByteFallback", "type", STEP_BYTE_FALLBACK, read_plain_step},
    {"Fuse", "type", STEP_FUSE, read_plain_step},
    {"Strip", "type content start stop", STEP_CUT, read_cut},
    {0}};

static rec_status read_tokenizer_step(reading *r, const step_row *rows, const cJSON *json) {
  const char *type = json_text(json, "type");
  const step_row *row = rows;
  while (row->name && strcmp(row->name, type) != 0) row++;
  if (!row->name)
    return rec_fail(REC_ERROR_UNSUPPORTED, "%s: %s.type: expected one that rec has, found %s",
                    r->t->path, r->where, *type ? type : "none");
  rec_status status = check_members(r->t, r->where, json, row->members);
  return status ? status : row->read(r, json, (step){.kind = row->kind});
}

// Sequences may hold others; `depth` of them.
static rec_status read_step_sequence(reading *r, const step_row *rows, const char *list,
                                     const cJSON *json, int depth) {
  if (!json || cJSON_IsNull(json)) return REC_OK;
  if (strcmp(json_text(json, "type"), "Sequence") != 0) return read_tokenizer_step(r, rows, json);
  const cJSON *inner = json_get(json, list);
  if (!cJSON_IsArray(inner) || depth > 8) return wrong_value(r->t, r->where, list, inner, "a list");
  rec_status status = REC_OK;
  for (const cJSON *s = inner->child; !status && s; s = s->next)
    status = read_step_sequence(r, rows, list, s, depth + 1);
  return status;
}

enum { MOST_STEPS = 64 };

static rec_status read_step_list(tokenizer *t, steps *to, const char *where, const step_row *rows,
                                 const char *list, const cJSON *json) {
  reading r = {t, where, to, MOST_STEPS};
  to->list = rec_blocks_list(&t->memory, MOST_STEPS, sizeof *to->list);
  return to->list ? read_step_sequence(&r, rows, list, json, 0) : rec_no_memory();
}

rec_status read_normalizer(tokenizer *t, const cJSON *json) {
  return read_step_list(t, &t->normalizer, "normalizer", normalizers, "normalizers", json);
}

rec_status read_splitter(tokenizer *t, const cJSON *json) {
  return read_step_list(t, &t->splitter, "pre_tokenizer", splitters, "pretokenizers", json);
}

// Behind a step that joins all tokens a text is decoded as it comes: only what its beginning loses
// can be told then.
rec_status read_decoder(tokenizer *t, const cJSON *json) {
  rec_status status = read_step_list(t, &t->decoder, "decoder", decoders, "decoders", json);
  t->joins_by_space = !json || cJSON_IsNull(json);
  bool joined = false, by_bytes = false;
  for (int i = 0; !status && i < t->decoder.count; i++) {
    step_kind kind = t->decoder.list[i].kind;
    bool fits = kind == STEP_FUSE || (kind == STEP_CUT && (joined || !by_bytes)) ||
                (!joined && (!by_bytes || kind == STEP_METASPACE));
    if (!fits)
      status = rec_fail(REC_ERROR_UNSUPPORTED,
                        "%s: decoder.decoders[%d]: expected Fuse or Strip behind steps that join "
                        "tokens, found another",
                        t->path, i);
    t->decoder.list[i].joined = joined;
    joined = joined || kind == STEP_FUSE || kind == STEP_BYTES;
    by_bytes = by_bytes || kind == STEP_BYTE_FALLBACK;
  }
  return status;
}
