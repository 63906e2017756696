#include "runtime/train/seal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ranks/ranks.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

static uint64_t tensor_hash(const char *name, const void *bytes, size_t size) {
  return XXH3_64bits_withSeed(bytes, size, XXH64(name, strlen(name), 0));
}

// ---- the header ---------------------------------------------------------------------------------

// Metadata that is read again, and what older checkpoints have of it (rec.program); what else a
// file says does not change a run.
static const char *const sealed[] = {"rec.block",   "rec.step",    "rec.steps",      "rec.model",
                                     "rec.trained", "rec.carried", "rec.characters", "rec.program"};
enum { SEALED = sizeof sealed / sizeof *sealed };

static bool is_sealed(const char *key) {
  for (int i = 0; i < SEALED; i++)
    if (strcmp(sealed[i], key) == 0) return true;
  return false;
}

uint64_t seal_of_header(const rec_tensor *tensors, int count, const rec_metadata *metadata,
                        int metadata_count) {
  uint64_t sum = 0;
  for (int i = 0; i < count; i++) sum += tensor_hash(tensors[i].name, NULL, 0);
  for (int i = 0; i < metadata_count; i++)
    if (metadata[i].value && is_sealed(metadata[i].key))
      sum += tensor_hash(metadata[i].key, metadata[i].value, strlen(metadata[i].value));
  return sum;
}

// ---- the numbers --------------------------------------------------------------------------------

// Word i of 4 bytes counts key[i % BLOCK] * (key of block i / BLOCK) times, modulo 2^64. Both are
// odd: no change of a single word leaves the sum as it was.
enum { BLOCK = 2048 };
static uint64_t keys[BLOCK];

// splitmix64
static uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

static void make_keys(void) {
  for (int i = 0; i < BLOCK; i++) keys[i] = mixed((uint64_t)i) | 1;
}

static uint64_t sum_of_words(const uint64_t *key, const char *bytes, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    uint32_t word;
    memcpy(&word, bytes + 4 * i, sizeof word);
    sum += key[i] * word;
  }
  return sum;
}

uint64_t seal_of_part(const char *tensor, int64_t first, const void *bytes, size_t size) {
  static pthread_once_t made = PTHREAD_ONCE_INIT;
  uint64_t sum = 0, seed = XXH64(tensor, strlen(tensor), 1), word = (uint64_t)first / 4;
  size_t words = size / 4, rest = size % 4;
  const char *at = bytes;
  pthread_once(&made, make_keys);
  for (size_t count; words > 0; words -= count, at += 4 * count, word += count) {
    size_t place = word % BLOCK;
    count = words < BLOCK - place ? words : BLOCK - place;
    sum += (mixed(seed + word / BLOCK) | 1) * sum_of_words(keys + place, at, count);
  }
  if (!rest) return sum;
  char last[4] = {0};
  memcpy(last, at, rest);
  return sum + (mixed(seed + word / BLOCK) | 1) * sum_of_words(keys + word % BLOCK, last, 1);
}

// ---- texts --------------------------------------------------------------------------------------

// The first checksums were sixteen digits alone.
static const char mark[] = "2-";

void seal_text(uint64_t sum, char text[SEAL_TEXT]) {
  snprintf(text, SEAL_TEXT, "%s%016llx", mark, (unsigned long long)sum);
}

static uint64_t first_checksum(const rec_file *file) {
  uint64_t sum = 0;
  for (int i = 0; i < rec_file_count(file); i++) {
    const rec_tensor *tensor = rec_file_tensor(file, i);
    sum += tensor_hash(tensor->name, tensor->data, tensor->bytes);
  }
  for (int i = 0; i < SEALED; i++) {
    const char *value = rec_file_metadata(file, sealed[i]);
    if (value) sum += tensor_hash(sealed[i], value, strlen(value));
  }
  return sum;
}

static uint64_t file_header_hash(const rec_file *file) {
  rec_metadata metadata[SEALED];
  uint64_t sum = 0;
  for (int i = 0; i < SEALED; i++)
    metadata[i] = (rec_metadata){sealed[i], rec_file_metadata(file, sealed[i])};
  for (int i = 0; i < rec_file_count(file); i++)
    sum += seal_of_header(rec_file_tensor(file, i), 1, NULL, 0);
  return sum + seal_of_header(NULL, 0, metadata, SEALED);
}

// The parts of all tensors that one of `count` ranks reads.
static uint64_t rank_share_hash(const rec_file *file, int number, int count) {
  uint64_t sum = 0;
  for (int i = 0; i < rec_file_count(file); i++) {
    const rec_tensor *t = rec_file_tensor(file, i);
    size_t words = t->bytes / 4, first = words * (size_t)number / (size_t)count * 4;
    size_t end = number + 1 == count ? t->bytes : words * ((size_t)number + 1) / (size_t)count * 4;
    sum += seal_of_part(t->name, (int64_t)first, (const char *)t->data + first, end - first);
  }
  return sum;
}

static uint64_t checksum(const rec_file *file, ranks *shared) {
  int count = ranks_count(shared);
  uint64_t sum = file_header_hash(file), own = rank_share_hash(file, ranks_number(shared), count);
  const message_place place = {-1, -1, "the checksum of a file"};
  uint64_t *all = ranks_gathered(shared, &own, sizeof own, place);
  for (int i = 0; i < count; i++) sum += all[i];
  free(all);
  return sum;
}

rec_status seal_check(const rec_file *file, ranks *shared) {
  const char *expected = rec_file_metadata(file, "rec.checksum");
  char found[SEAL_TEXT];
  if (!expected) return REC_OK;
  if (strncmp(expected, mark, sizeof mark - 1) == 0)
    seal_text(checksum(file, shared), found);
  else
    snprintf(found, sizeof found, "%016llx", (unsigned long long)first_checksum(file));
  if (strcmp(found, expected) == 0) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected the checksum %s, found %s; the file is damaged",
                  rec_file_path(file), expected, found);
}
