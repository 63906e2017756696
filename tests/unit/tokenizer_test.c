// A text that is cut into blocks at every place that allows it has the tokens of the whole, and
// tokens that come one by one the text of all. What a file asks for and rec lacks is refused by
// name. tests/tokenize compares with the package itself.
#include "runtime/tokenizer/parts.h"
#include "tests/unit/unit.h"

// ---- files -----------------------------------------------------------------------------------

// Byte characters, the other characters of the texts below, and what the merges make of them.
static void print_bpe(FILE *out, const char *settings) {
  static const char *const extra[] = {"日", "▁",  "▁▁",  "th",   "the", "▁t", "▁a", "▁the",
                                      "at", "Ġt", "Ġth", "Ġthe", "ĠĠ",  "ĊĊ", "Ã©"};
  static const char *const merges =
      "\"t h\", \"th e\", \"Ġ t\", \"Ġ th\", \"Ġt h\", \"Ġth e\", \"Ġ Ġ\", \"Ċ Ċ\", \"Ã ©\", \"▁ "
      "▁\", \"▁ t\", \"▁ a\", \"▁ the\", \"a t\"";
  char character[5] = "";
  fprintf(out, "\"model\": {\"type\": \"BPE\", %s \"vocab\": {", settings);
  for (int b = 0; b < 256; b++) {
    character[utf8_write(byte_character((unsigned char)b), character)] = 0;
    fprintf(out, "\"%s%s\": %d, ", strchr("\"\\", *character) ? "\\" : "", character, b);
  }
  for (int i = 0; i < 256; i++) fprintf(out, "\"<0x%02X>\": %d, ", (unsigned)i, 256 + i);
  for (size_t i = 0; i < sizeof extra / sizeof *extra; i++)
    fprintf(out, "\"%s\": %zu, ", extra[i], 512 + i);
  fprintf(out, "\"<unk>\": 527}, \"merges\": [%s]}", merges);
}

static void print_unigram(FILE *out) {
  fprintf(out,
          "\"model\": {\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"▁\", "
          "-2], [\"a\", -3.5], [\"t\", -3], [\"h\", -4], [\"e\", -3.25], [\"th\", -4], [\"he\", "
          "-4.5], [\"▁the\", -5], [\"▁t\", -3.75], [\"at\", -4.125], [\".\", -6]]}");
}

static char *file_of(const char *members, const char *settings) {
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  fprintf(out, "{%s, ", members);
  if (settings)
    print_bpe(out, settings);
  else
    print_unigram(out);
  fprintf(out, "}");
  fclose(out);
  return text;
}

static tokenizer *opened(const char *members, const char *settings) {
  tokenizer *t = NULL;
  char *text = file_of(members, settings);
  rec_status status = tokenizer_read("test", text, strlen(text), &t);
  if (status) print_error("%s\n", rec_message());
  free(text);
  assert_int_equal(status, REC_OK);
  return t;
}

// ---- texts -----------------------------------------------------------------------------------

static uint64_t drawn = 1;
static unsigned draw(unsigned below) {
  drawn = drawn * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(drawn >> 33) % below;
}

static size_t draw_text(char *to) {
  static const char *const parts[] = {
      " ",      " ",       " ",   "\n",  "\n", "\r", "\t", "a",    "t",        "h", "e", "the",
      "s",      "'s",      "1",   "23",  ".",  "!?", "é",  "日",   "́",         "▁", " ", "<e>",
      "<left>", "<right>", "<w>", "a b", "ﱞ",  "²",  "  ", "\xff", "\xe6\x97", "İ"};
  size_t size = 0;
  for (unsigned count = draw(40); count; count--) {
    const char *part = parts[draw(sizeof parts / sizeof *parts)];
    memcpy(to + size, part, strlen(part));
    size += strlen(part);
  }
  return size;
}

enum { MOST = 4096 };

static void encode(const tokenizer *t, const char *text, size_t size, bool whole, token_id *tokens,
                   size_t *count) {
  encoder *e;
  assert_int_equal(encoder_new(t, &e), REC_OK);
  e->block = e->wanted = whole ? MOST : 1;
  for (size_t at = 0, part; at < size; at += part) {
    part = whole ? size : 1 + draw(4);
    if (part > size - at) part = size - at;
    assert_int_equal(encoder_take(e, text + at, part), REC_OK);
  }
  assert_int_equal(encoder_end(e), REC_OK);
  *count = encoder_tokens(e)->count;
  assert_true(*count < MOST);
  if (*count) memcpy(tokens, encoder_tokens(e)->tokens, *count * sizeof *tokens);
  encoder_free(e);
}

// No part of a text ends inside of a character.
static void is_whole(const char *bytes, size_t size) {
  utf8_repair repair = {0};
  utf8_text copy = {0};
  utf8_repair_add(&repair, &copy, bytes, size);
  assert_int_equal(repair.size + repair.broken, 0);
  free(copy.bytes);
}

static size_t decode(const tokenizer *t, const token_id *tokens, size_t count, size_t at_once,
                     char *text) {
  decoder *d;
  const char *part;
  size_t length, size = 0;
  assert_int_equal(decoder_new(t, &d), REC_OK);
  for (size_t at = 0; at < count; at += at_once) {
    assert_int_equal(
        decoder_take(d, tokens + at, at_once < count - at ? at_once : count - at, &part, &length),
        REC_OK);
    is_whole(part, length);
    memcpy(text + size, part, length);
    size += length;
  }
  assert_int_equal(decoder_end(d, &part, &length), REC_OK);
  memcpy(text + size, part, length);
  decoder_free(d);
  return size + length;
}

// `cuts`: which the file allows.
static void holds(const char *members, const char *settings, int cuts) {
  static token_id tokens[MOST], others[MOST];
  static char text[MOST], back[8 * MOST], other[8 * MOST];
  tokenizer *t = opened(members, settings);
  assert_int_equal(t->cuts, cuts);
  for (int i = 0; i < 1500; i++) {
    size_t size = draw_text(text), count, other_count;
    encode(t, text, size, true, tokens, &count);
    encode(t, text, size, false, others, &other_count);
    if (count != other_count || memcmp(tokens, others, count * sizeof *tokens) != 0)
      fail_msg("%.60s: %zu tokens, %zu in blocks, of `%.*s`", members, count, other_count,
               (int)size, text);
    size_t length = decode(t, tokens, count, MOST, back);
    assert_int_equal(decode(t, tokens, count, 1, other), length);
    assert_memory_equal(back, other, length);
  }
  tokenizer_close(t);
}

#define ADDED(n, text, more) "{\"id\": " #n ", \"content\": \"" text "\"" more "}"
#define ADDED_TOKENS                                                                               \
  "\"added_tokens\": [" ADDED(528, "<e>", ", \"normalized\": false") ", " ADDED(                   \
      529, "<left>", ", \"lstrip\": true") ", " ADDED(530, "<right>",                              \
                                                      ", \"rstrip\": true") ", " ADDED(531, "<w>", \
                                                                                       ", "        \
                                                                                       "\"single_" \
                                                                                       "word\": "  \
                                                                                       "true") "]"
#define LLAMA3                                                                           \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}{1,3}| " \
  "?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*"                                              \
  "|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+"
#define SPLIT(pattern)                                        \
  "{\"type\": \"Split\", \"pattern\": {\"Regex\": \"" pattern \
  "\"}, \"behavior\": \"Isolated\", \"invert\": false}"
#define BYTES(prefix, regex) \
  "{\"type\": \"ByteLevel\", \"add_prefix_space\": " prefix ", \"use_regex\": " regex "}"
#define SEQUENCE(kind, list) "{\"type\": \"Sequence\", \"" kind "\": [" list "]}"
#define META(scheme)                                                                \
  "{\"type\": \"Metaspace\", \"replacement\": \"▁\", \"prepend_scheme\": \"" scheme \
  "\", \"split\": true}"
#define LLAMA2_NORMAL                                                                      \
  "\"normalizer\": " SEQUENCE(                                                             \
      "normalizers",                                                                       \
      "{\"type\": \"Prepend\", \"prepend\": \"▁\"}, {\"type\": \"Replace\", \"pattern\": " \
      "{\"String\": \" \"}, \"content\": \"▁\"}")
#define LLAMA2_BACK                                                                                \
  "\"decoder\": " SEQUENCE(                                                                        \
      "decoders",                                                                                  \
      "{\"type\": \"Replace\", \"pattern\": {\"String\": \"▁\"}, \"content\": \" \"}, "            \
      "{\"type\": \"ByteFallback\"}, {\"type\": \"Fuse\"}, {\"type\": \"Strip\", \"content\": \" " \
      "\", "                                                                                       \
      "\"start\": 1, \"stop\": 0}")
#define BY_BYTES "\"decoder\": {\"type\": \"ByteLevel\"}"

TEST(test_blocks) {
  int both = CUT_SPACE | CUT_LINE;
  holds("\"pre_tokenizer\": " BYTES("false", "true") ", " BY_BYTES, "", both);
  holds("\"pre_tokenizer\": " BYTES("true", "true") ", " BY_BYTES ", " ADDED_TOKENS, "", CUT_SPACE);
  holds("\"normalizer\": {\"type\": \"NFC\"}, \"pre_tokenizer\": " SEQUENCE(
            "pretokenizers", SPLIT(LLAMA3) ", " BYTES("false", "false")) ", " BY_BYTES
                                                                         ", " ADDED_TOKENS,
        "\"ignore_merges\": true,", both);
  holds("\"normalizer\": {\"type\": \"NFKC\"}, \"pre_tokenizer\": " SEQUENCE(
            "pretokenizers",
            "{\"type\": \"Digits\", \"individual_digits\": true}, {\"type\": "
            "\"Punctuation\"}, " BYTES("false", "true")) ", " BY_BYTES,
        "", both);
  holds("\"normalizer\": " SEQUENCE(
            "normalizers",
            "{\"type\": \"Lowercase\"}, {\"type\": \"Strip\"}") ", \"pre_tokenizer\": " BYTES("false", "true") ", " BY_BYTES,
        "", CUT_SPACE);
  holds(LLAMA2_NORMAL ", " LLAMA2_BACK ", " ADDED_TOKENS,
        "\"byte_fallback\": true, \"unk_token\": \"<unk>\", \"fuse_unk\": true,", CUT_SPACE);
  holds("\"pre_tokenizer\": " META("first") ", \"decoder\": " META("first"),
        "\"unk_token\": \"<unk>\",", CUT_SPACE);
  holds("\"pre_tokenizer\": " SEQUENCE("pretokenizers",
                                       "{\"type\": \"WhitespaceSplit\"}, " META("always")),
        NULL, CUT_SPACE);
  holds("\"pre_tokenizer\": {\"type\": \"Whitespace\"}", "\"unk_token\": \"<unk>\",", both);
  holds("\"normalizer\": {\"type\": \"NFKD\"}, \"pre_tokenizer\": " META("always"), NULL,
        CUT_SPACE);
  holds("\"pre_tokenizer\": " BYTES("false", "true") ", " BY_BYTES ", \"added_tokens\": [" ADDED(
            516, "the", ", \"rstrip\": true") "]",
        "", CUT_LINE);
  holds("\"pre_tokenizer\": " BYTES("false", "true") ", " BY_BYTES ", \"added_tokens\": [" ADDED(
            516, "the", ", \"lstrip\": true") "]",
        "", CUT_SPACE);
  // Nothing is known of these: they are encoded as a whole.
  holds("\"pre_tokenizer\": " SPLIT("a|.{3}") ", \"decoder\": {\"type\": \"Fuse\"}", "", 0);
  holds("\"pre_tokenizer\": " BYTES("false", "true") ", " BY_BYTES ", \"added_tokens\": [" ADDED(
            528, "a b", "") ", " ADDED(529, "\\nt", "") "]",
        "", 0);
  holds(LLAMA2_NORMAL ", \"pre_tokenizer\": " BYTES("false", "true"), "", 0);
  holds(
      "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": "
      "\" \"}, \"pre_tokenizer\": " META("always"),
      NULL, 0);
}

// Greedily the longest token, at every place of a cut.
TEST(test_longest) {
  tokenizer *t;
  static char lines[MOST * 4];
  static token_id tokens[MOST], others[MOST];
  char text[MOST];
  size_t used = 0, count, other_count;
  for (int b = 0; b < 256; b++)
    used += (size_t)sprintf(lines + used, "%d b'\\x%02x' 1\n", b + 1, (unsigned)b);
  sprintf(lines + used,
          "300 'the' 3\n301 \"'s\" 2\n302 'é\\n' 3\n303 b'\\xe6\\x97' 2\n304 ' the a' 6\n305 "
          "'\\u65e5' 3\n");
  assert_int_equal(tokenizer_read("lines", lines, strlen(lines), &t), REC_OK);
  assert_int_equal(tokenizer_size(t), 306);
  assert_int_equal(tokenizer_find(t, " the a"), 304);
  for (int i = 0; i < 1500; i++) {
    size_t size = draw_text(text);
    encode(t, text, size, true, tokens, &count);
    encode(t, text, size, false, others, &other_count);
    assert_int_equal(count, other_count);
    assert_memory_equal(tokens, others, count * sizeof *tokens);
  }
  tokenizer_close(t);
}

// ---- what is refused -------------------------------------------------------------------------

static void refuses_text(const char *text, const char *message) {
  tokenizer *t = NULL;
  rec_status status = tokenizer_read("t.json", text, strlen(text), &t);
  if (!status || strcmp(rec_message(), message) != 0)
    fail_msg("expected `%s`, found `%s`", message, status ? rec_message() : "none");
  assert_null(t);
}

static void refuses(const char *members, const char *settings, const char *message) {
  char *text = file_of(members, settings);
  refuses_text(text, message);
  free(text);
}

TEST(test_refused) {
  refuses("\"version\": \"1.0\", \"other\": 1", "",
          "t.json: tokenizer: expected version truncation padding added_tokens normalizer "
          "pre_tokenizer post_processor decoder model, found the member other, which rec does not "
          "know");
  refuses("\"truncation\": {}", "", "t.json: tokenizer.truncation: expected null, found {}");
  refuses("\"normalizer\": {\"type\": \"Precompiled\"}", "",
          "t.json: normalizer.type: expected one that rec has, found Precompiled");
  refuses("\"pre_tokenizer\": {\"type\": \"BertPreTokenizer\"}", "",
          "t.json: pre_tokenizer.type: expected one that rec has, found BertPreTokenizer");
  refuses("\"pre_tokenizer\": " SPLIT("("), "",
          "t.json: pre_tokenizer: expected a pattern, found `(`: end pattern with unmatched "
          "parenthesis");
  refuses("\"decoder\": {\"type\": \"Strip\", \"content\": \" \", \"start\": 0, \"stop\": 1}", "",
          "t.json: decoder.stop: expected 0, found 1");
  refuses("\"decoder\": " SEQUENCE("decoders", "{\"type\": \"Fuse\"}, {\"type\": \"ByteLevel\"}"),
          "",
          "t.json: decoder.decoders[1]: expected Fuse or Strip behind steps that join tokens, "
          "found another");
  refuses("\"post_processor\": {\"type\": \"BertProcessing\"}", "",
          "t.json: post_processor.type: expected ByteLevel, TemplateProcessing or a Sequence of "
          "them, found \"BertProcessing\"");
  refuses(
      "\"added_tokens\": [" ADDED(700, "new", "") "]", "",
      "t.json: added_tokens: expected the id 528 for new, as the package counts them, found 700");
  refuses("\"version\": null", "\"end_of_word_suffix\": \"</w>\",",
          "t.json: model.end_of_word_suffix: expected none, found \"</w>\"");
  refuses("\"version\": null", "\"dropout\": 0.1,",
          "t.json: model.dropout: expected none, found 0.1");
  refuses_text("{\"model\": {\"type\": \"WordPiece\"}}",
               "t.json: model.type: expected BPE or Unigram, found \"WordPiece\"");
  refuses_text("{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 0}, \"merges\": []}}",
               "t.json: model.vocab: expected one token of number 0, found a and b");
  refuses_text(
      "{\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1}, \"merges\": [\"a b\"]}}",
      "t.json: model.merges[0]: expected tokens of model.vocab, found a and b");
  refuses_text("{\"model\": {\"vocab\": {\"a\\u0000b\": 0}}}",
               "t.json: expected tokens without the character \\u0000, found one with it");
  refuses_text("{\"a\xff\": 1}", "t.json: expected JSON in UTF-8, found other bytes");
  refuses_text("[]", "t.json: expected a JSON object, found another value");
  refuses_text("{\"model\":\n  {},}", "t.json:2:6: expected JSON, found something else");
  refuses_text(
      "1 'ab' 3\n",
      "t.json:1: expected a number, a text in quotes and its length in bytes, found another line");
  refuses_text(
      "1 '\\U80000000A' 1\n",
      "t.json:1: expected a number, a text in quotes and its length in bytes, found another line");
}
