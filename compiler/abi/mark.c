// Which files rec wrote, which it reads, and which it may therefore write.
#include "compiler/abi/mark.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

// ---- checksums ----------------------------------------------------------------------------------

enum { DIGITS = 16, LENGTH = sizeof OUTPUT_MARK_TEXT - 1, WORDS = LENGTH - DIGITS };

static void put_digits(char *to, uint64_t sum) {
  char text[DIGITS + 1];
  snprintf(text, sizeof text, "%016" PRIx64, sum);
  memcpy(to, text, DIGITS);
}

void mark_fill(const struct iovec *parts, int count) {
  XXH64_state_t sum;
  char *mark = NULL;
  for (int i = 0; i < count && !mark; i++)
    mark = memmem(parts[i].iov_base, parts[i].iov_len, OUTPUT_MARK_TEXT, LENGTH);
  if (!mark) return;
  XXH64_reset(&sum, 0);
  for (int i = 0; i < count; i++) XXH64_update(&sum, parts[i].iov_base, parts[i].iov_len);
  put_digits(mark + WORDS, XXH64_digest(&sum));
}

void output_note(char note[OUTPUT_NOTE], const char *name, const void *bytes, size_t size) {
  snprintf(note, OUTPUT_NOTE, "%s, checksum %016" PRIx64, name, XXH64(bytes, size, 0));
}

// ---- looking into files ----------------------------------------------------------------------

enum { BLOCK = 1 << 20 };

// A file that is looked into, with room for a block of it.
typedef struct looked_into {
  int handle;
  char *bytes;
} looked_into;

// A regular file alone: a pipe would be waited for.
static bool look(looked_into *l, const char *path) {
  struct stat about;
  *l = (looked_into){-1, NULL};
  if (stat(path, &about) || !S_ISREG(about.st_mode)) return false;
  l->handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  l->bytes = malloc(BLOCK);
  return l->handle >= 0 && l->bytes;
}

static void look_away(looked_into *l) {
  if (l->handle >= 0) close(l->handle);
  free(l->bytes);
}

// As much of a block as the file has.
static size_t read_file_block(const looked_into *l, off_t place) {
  size_t used = 0;
  while (used < BLOCK) {
    ssize_t got = pread(l->handle, l->bytes + used, BLOCK - used, place + (off_t)used);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    used += (size_t)got;
  }
  return used;
}

// Of the whole file, with zeros for the digits at a place; -1: of the file as it is.
static uint64_t file_checksum(const looked_into *l, off_t digits) {
  XXH64_state_t sum;
  XXH64_reset(&sum, 0);
  off_t at = 0;
  for (size_t size = 1; size > 0; at += (off_t)size) {
    size = read_file_block(l, at);
    for (off_t d = digits; digits >= 0 && d < digits + DIGITS; d++)
      if (d >= at && d < at + (off_t)size) l->bytes[d - at] = '0';
    XXH64_update(&sum, l->bytes, size);
  }
  return XXH64_digest(&sum);
}

// The place behind the next occurrence of the words with `behind` bytes after them, from *at on;
// -1: there is none.
static off_t find_marked_words(const looked_into *l, const char *words, size_t length,
                               size_t behind, off_t at) {
  for (size_t size = BLOCK; size == BLOCK; at += BLOCK - (off_t)(length + behind)) {
    size = read_file_block(l, at);
    const char *found = memmem(l->bytes, size, words, length);
    if (found && (size_t)(found - l->bytes) + length + behind <= size)
      return at + (found - l->bytes) + (off_t)length;
  }
  return -1;
}

// A file may quote the mark of another, as a library does that carries the text of a program.
static bool has_mark(const looked_into *l) {
  char found[DIGITS], expected[DIGITS];
  for (off_t at = 0; (at = find_marked_words(l, OUTPUT_MARK_TEXT, WORDS, DIGITS, at)) >= 0;) {
    if (pread(l->handle, found, DIGITS, at) != DIGITS) return false;
    put_digits(expected, file_checksum(l, at));
    if (!memcmp(found, expected, DIGITS)) return true;
  }
  return false;
}

bool output_is_marked(const char *path) {
  looked_into l;
  bool marked = look(&l, path) && has_mark(&l);
  look_away(&l);
  return marked;
}

// Whether the file at `path` has the checksum that the marked file `by` notes of it.
static bool is_noted(const char *path, const char *by) {
  looked_into l, noting = {-1, NULL};
  char note[OUTPUT_NOTE];
  const char *slash = strrchr(path, '/');
  bool noted = look(&l, path) && look(&noting, by) && has_mark(&noting);
  if (noted) {
    snprintf(note, sizeof note, "%s, checksum %016" PRIx64, slash ? slash + 1 : path,
             file_checksum(&l, -1));
    noted = find_marked_words(&noting, note, strlen(note), 0, 0) >= 0;
  }
  look_away(&l);
  look_away(&noting);
  return noted;
}

static bool file_begins_with(const char *path, const char *text) {
  looked_into l;
  size_t length = strlen(text);
  bool begins =
      look(&l, path) && read_file_block(&l, 0) >= length && !memcmp(l.bytes, text, length);
  look_away(&l);
  return begins;
}

// ---- inputs -------------------------------------------------------------------------------------

typedef struct inode {
  dev_t device;
  ino_t number;
} inode;

static inode *inputs;
static size_t input_count;
static pthread_mutex_t inputs_lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_noted_input(const struct stat *about) {
  bool found = false;
  pthread_mutex_lock(&inputs_lock);
  for (size_t i = 0; i < input_count && !found; i++)
    found = inputs[i].device == about->st_dev && inputs[i].number == about->st_ino;
  pthread_mutex_unlock(&inputs_lock);
  return found;
}

static void note_inode(const struct stat *about) {
  if (!S_ISREG(about->st_mode) || is_noted_input(about)) return;
  pthread_mutex_lock(&inputs_lock);
  inode *grown = realloc(inputs, sizeof *grown * (input_count + 1));
  if (grown) {
    inputs = grown;
    inputs[input_count++] = (inode){about->st_dev, about->st_ino};
  }
  pthread_mutex_unlock(&inputs_lock);
}

void output_note_input(int handle) {
  struct stat about;
  if (!fstat(handle, &about)) note_inode(&about);
}

void output_note_input_path(const char *path) {
  struct stat about;
  if (path && !stat(path, &about)) note_inode(&about);
}

// ---- what may be written ------------------------------------------------------------------------

static bool is_from_rec(const char *path, const output_proof *proof) {
  if (proof && proof->noted_in) return is_noted(path, proof->noted_in);
  if (proof && proof->first) return file_begins_with(path, proof->first);
  return output_is_marked(path);
}

bool output_allowed(const char *path, const output_proof *proof, bool again, char why[OUTPUT_WHY]) {
  struct stat about;
  int opened = output_descriptor(path);  // by a shell, perhaps an input
  if ((opened < 0 ? stat(path, &about) : fstat(opened, &about)) || !S_ISREG(about.st_mode))
    return true;
  if (is_noted_input(&about)) {
    snprintf(why, OUTPUT_WHY, "%s: expected an output that is no input, found a file that is read",
             path);
    return false;
  }
  if (again || opened >= 0 || !about.st_size || is_from_rec(path, proof)) return true;
  snprintf(why, OUTPUT_WHY,
           "%s: expected a file as rec wrote it, found another, or one that was changed since; "
           "--again replaces it",
           path);
  return false;
}
