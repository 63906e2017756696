// Files that recc and rec write: whole or not at all, and none in place of what a person has.
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/uio.h>

// ---- writing ------------------------------------------------------------------------------------

// A file in the making. It lies beside its place under a name of its own, and takes the place once
// all of it is there: whoever looks finds the old file or the new one.
typedef struct output {
  char place[PATH_MAX + 1];
  char part[PATH_MAX + 1];  // "": written as it stands
  int handle;               // -1: closed
} output;

enum {
  // A link at the place stays one, and what it names is replaced. What is no regular file (a
  // device, a pipe, /dev/stdout) is written as it stands. Without this, whatever is at the place is
  // replaced itself.
  OUTPUT_FOLLOW = 1,
  OUTPUT_FLUSH = 2,       // the file is on the disk before it takes its place
  OUTPUT_EXECUTABLE = 4,  // for whom the umask allows it
  OUTPUT_MARK = 8         // output_write fills in the mark that its bytes hold
};

// These return false with errno.
bool output_open(output *o, const char *path, unsigned flags);
bool output_put(output *o, const void *bytes, size_t size);
// Puts the file in its place. After a failure nothing of it is left, and the old file is as it was.
bool output_finish(output *o, unsigned flags);
// All of these at once. OUTPUT_MARK writes to the bytes.
bool output_write(const char *path, const struct iovec *parts, int count, unsigned flags);

// Whether a path is written as it stands.
bool output_stands(const char *path);
// In place of output_finish: nothing of the file is left, and errno is as it was. What is finished
// may be dropped.
void output_drop(output *o);
// Whether a name in a folder is that of a part, as a process leaves it that is killed.
bool output_is_part(const char *name);

// ---- marks --------------------------------------------------------------------------------------

// What a file holds somewhere that says who wrote it. In the file the digits are a checksum of all
// its bytes, these digits as zeros.
#define OUTPUT_MARK_TEXT "written by rec, checksum 0000000000000000"

// The file has a mark, and is what was written.
bool output_is_marked(const char *path);

// A file without room for a mark (JSON for others) has a marked file beside it that holds `NAME,
// checksum 0123456789abcdef`.
enum { OUTPUT_NOTE = 320 };
void output_note(char note[OUTPUT_NOTE], const char *name, const void *bytes, size_t size);

// ---- what may be written ------------------------------------------------------------------------

// From here on nothing is written over this file, which is read. A file is known by its inode.
void output_note_input(int handle);
void output_note_input_path(const char *path);

// How a file without a mark shows that rec wrote it. {0}: it has one.
typedef struct output_proof {
  const char *noted_in;  // the marked file beside it that has its checksum
  const char *first;     // what it begins with: a table, whose first line no one else writes
} output_proof;

enum { OUTPUT_WHY = PATH_MAX + 256 };
// Whether a path may be written: what is there is no input, and is empty, or was written by rec and
// not changed since. `again`: it may be replaced, whatever it is. False: `why` is a message.
bool output_allowed(const char *path, const output_proof *proof, bool again, char why[OUTPUT_WHY]);
