// The words of recc's command line.
#pragma once

#include "compiler/abi/manual.h"
#include "compiler/pipeline.h"

// What a command line asks for in place of compiling.
typedef enum options_question {
  ASKS_NOTHING,
  ASKS_HELP,
  ASKS_VERSION,
  ASKS_MANUAL
} options_question;

typedef struct option_reader {
  arena *memory;
  interner *names;
  compile_options *options;
  options_question question;
  const char *manual;  // ASKS_MANUAL: its kind
} option_reader;

// Reads words up to the end or a question. Returns 0, or the exit status after a message.
int read_options(option_reader *r, char **words, int count);

// Prints what was expected and found. Returns the exit status of a mistake.
int usage_error(const char *expected, const char *found);

// Help, manual page and completions.
const manual *options_manual(arena *a);
