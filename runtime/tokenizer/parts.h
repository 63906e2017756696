// A tokenizer as its file says it, and the stages of encoding.
#pragma once

#include <oniguruma.h>

#include "compiler/abi/json.h"
#include "runtime/tokenizer/text.h"
#include "runtime/tokenizer/tokenizer.h"
#include "runtime/tokenizer/trie.h"

#define METASPACE "\xe2\x96\x81"  // U+2581, which stands for a blank

// ---- steps: normalizers, pre-tokenizers and decoders -----------------------------------------

typedef enum step_kind {
  STEP_NFC,
  STEP_NFD,
  STEP_NFKC,
  STEP_NFKD,
  STEP_LOWERCASE,
  STEP_STRIP,    // blanks at both ends
  STEP_PREPEND,  // `content`
  STEP_REPLACE,  // matches by `content`
  STEP_SPLIT,    // at matches of `regex`; no regex: at characters of `is_match`
  STEP_BYTES,    // ByteLevel: bytes are characters of their own
  STEP_METASPACE,
  STEP_BYTE_FALLBACK,
  STEP_FUSE,
  STEP_CUT  // the decoder Strip: characters `content` at the ends
} step_kind;

// What becomes of a match where a text is split.
typedef enum split_behavior {
  SPLIT_REMOVED,
  SPLIT_ISOLATED,
  SPLIT_CONTIGUOUS,
  SPLIT_MERGED_WITH_PREVIOUS,
  SPLIT_MERGED_WITH_NEXT
} split_behavior;

typedef enum prepend_scheme { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend_scheme;

// Places where a text may be cut: the tokens of both sides are those of the whole. `|` is the cut.
enum {
  CUT_SPACE = 1,  // letter| letter
  CUT_LINE = 2    // no blank, end of line|letter
};

typedef struct step {
  step_kind kind;
  OnigRegex regex;
  bool (*is_match)(int32_t c);
  split_behavior behavior;
  bool invert;             // what lies between matches is the match
  const char *content;     // of Replace, Prepend; the character of Metaspace and Strip
  bool left, right;        // of Strip
  int start;               // of the decoder Strip: how many
  prepend_scheme prepend;  // of Metaspace; of ByteLevel PREPEND_ALWAYS or PREPEND_NEVER
  bool splits;             // of Metaspace
  bool joined;             // of a decoder: behind a step that joins all tokens
  int cuts;                // that this step leaves as they are
  int splits_at;           // cuts at which this step itself splits
} step;

typedef struct steps {
  step *list;
  int count;
} steps;

// ---- models -------------------------------------------------------------------------------------

typedef struct merge {
  uint64_t pair;  // left and right token; the table's free places have `rank` -1
  int32_t rank, token;
} merge;

typedef enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_LONGEST } model_kind;

typedef struct token_text {
  const char *bytes;  // NULL: no token has this number
  uint32_t size;
  double score;  // of Unigram
} token_text;

typedef struct added_token {
  token_id token;
  const char *content;
  bool single_word, left, right, normalized;  // left, right: takes the blanks there
} added_token;

struct tokenizer {
  const char *path;  // of messages
  rec_blocks memory;
  model_kind model;
  token_text *tokens;  // by number
  int token_count;
  trie vocabulary;
  size_t longest;  // of its texts, in bytes

  merge *merges;  // a hash table
  size_t merge_room;
  token_id unknown;  // -1: none
  bool fuses_unknown, ignores_merges, has_bytes;
  token_id bytes[256];  // of byte_fallback
  // Metaspace's character, before which BPE may split because no token goes on with it; NULL: none
  const char *space;
  double unknown_score;  // of Unigram

  added_token *added;
  int added_count;
  trie added_raw, added_normal;  // to indices of `added`

  steps normalizer, splitter, decoder;
  bool joins_by_space;  // there is no decoder
  int cuts;
  token_id *first;
  int first_count;
};

// ---- reading ---------------------------------------------------------------------------------

// Room for `count` tokens.
rec_status tokenizer_make_room(tokenizer *t, int64_t count);
// A token of the vocabulary; `bytes` stay. What is wrong is said of `where`.
rec_status tokenizer_put(tokenizer *t, const char *where, int64_t number, const char *bytes,
                         size_t size);
// The text of a number, which is in no vocabulary.
rec_status tokenizer_set(tokenizer *t, const char *where, int64_t number, const char *bytes,
                         size_t size);
rec_status read_rwkv(tokenizer *t, const char *bytes, size_t size);
rec_status read_bpe(tokenizer *t, const cJSON *json);
rec_status read_unigram(tokenizer *t, const cJSON *json);
rec_status read_normalizer(tokenizer *t, const cJSON *json);
rec_status read_splitter(tokenizer *t, const cJSON *json);
rec_status read_decoder(tokenizer *t, const cJSON *json);

// Only these members, between blanks, may be in an object.
rec_status check_members(const tokenizer *t, const char *where, const cJSON *json,
                         const char *members);
rec_status wrong_value(const tokenizer *t, const char *where, const char *member,
                       const cJSON *found, const char *wanted);
rec_status read_flag(const tokenizer *t, const char *where, const cJSON *json, const char *member,
                     bool otherwise, bool *value);
// A copy that lives as long as the tokenizer.
rec_status keep_text(tokenizer *t, const char *text, size_t size, const char **kept);

// ---- encoding: what the stages hand on -------------------------------------------------------

typedef struct pieces {
  utf8_text text;
  size_t *ends;
  size_t count, room;
} pieces;

enum { CACHED_TEXT = 24, CACHED_TOKENS = 8, CACHED_PIECES = 1 << 15 };

// Tokens of a short piece, for the next time.
typedef struct cached {
  uint8_t size, count;
  char text[CACHED_TEXT];
  token_id tokens[CACHED_TOKENS];
} cached;

typedef struct symbol {
  token_id token;
  int32_t before, next;  // -1: none
  bool gone;
} symbol;

typedef struct queued {
  int32_t rank, place;
  token_id token;
} queued;

typedef struct path_node {
  double score;
  size_t start;  // of the token that ends here; SIZE_MAX: none does
  size_t end;    // of the token of the best path that begins here
  token_id token;
} path_node;

struct encoder {
  const tokenizer *t;
  encoded out;
  utf8_text in;  // not yet encoded
  utf8_repair repair;
  size_t block, wanted;     // so many bytes, and so many in all, are looked through for a cut
  bool begun;               // the first piece of this text is done
  bool goes_on;             // what is in front was cut off the same section
  utf8_text normal, spare;  // a section in its normal form
  pieces pieces, more;      // and in pieces
  OnigRegion *region;
  cached *cache;
  symbol *symbols;  // BPE
  queued *queue;
  size_t symbol_room, queue_room, queue_count;
  path_node *nodes;  // Unigram
  size_t node_room;
};

rec_status encoder_put(encoder *e, token_id token);
// An added token in a text, with the blanks it takes. Looking for one begins at `next`, behind the
// last one without its blanks, and `end` is that with them, as in the package.
typedef struct found_token {
  size_t next, start, end;
  token_id token;
} found_token;

bool added_next(const tokenizer *t, const trie *in, const char *bytes, size_t size, found_token *f);
// A section to its normal form. begins: nothing was cut off before it.
rec_status text_normalize(encoder *e, const steps *list, const char *bytes, size_t size,
                          bool begins, utf8_text *to);
rec_status text_split(encoder *e, const char *bytes, size_t size, bool first);  // to e->pieces
// The text with `content` of the step instead of its matches.
rec_status replace_matches(const step *s, OnigRegion *region, const char *bytes, size_t size,
                           utf8_text *to);
rec_status encode_bpe(encoder *e, const char *bytes, size_t size);
rec_status encode_unigram(encoder *e, const char *bytes, size_t size);
// Tokens of bytes by the longest ones, up to where a longer text could go on with another; at the
// end all of it.
rec_status encode_longest(encoder *e, bool ends);

// ByteLevel's characters of bytes, and back (-1: it is none).
int32_t byte_character(unsigned char byte);
int byte_of_character(int32_t c);
