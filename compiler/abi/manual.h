// What a program says about its command line. It is written down once. All texts that show it are
// made from that: the help, the manual page, and the completions of bash, zsh and fish.
#pragma once

#include <stdbool.h>
#include <stdio.h>

typedef struct manual_option {
  const char *name;   // "--chunk"; NULL: behind the last one
  const char *value;  // as the texts call it: "N", "DIR", "f32|f64"; NULL: a flag
  const char *help;   // lines, each without a blank before it
  // what may stand for the value ("host, simt"), beside what `value` itself says; or NULL
  const char *values;
} manual_option;

typedef struct manual_command {
  const char *name;              // the word behind the program's name; "": none
  const char *synopsis;          // of the words behind it: "FILE [BLOCK...]"
  const char *purpose;           // half a sentence
  const char *text;              // paragraphs, with an empty line between; ends with a line end
  const manual_option *options;  // up to one without a name
  // words that are neither options nor files ("std.gla, std.mamba2"), or NULL
  const char *operands;
} manual_command;

typedef struct manual {
  const char *program, *purpose;
  const manual_command *commands;
  int command_count;
  const manual_option *options;      // of the program where no command is named
  const manual_option *environment;  // variables, up to one without a name
  const char *see_also;              // a line of the manual page
} manual;

// `recc --help`, `rec train --help`.
void manual_print_help(FILE *out, const manual *of, const manual_command *command);

// `--manual KIND`: man, bash, zsh or fish. False: there is no such kind.
bool manual_print(FILE *out, const manual *of, const char *kind);
extern const char manual_kinds[];

// Of a list "a, b" or "a|b": the length of the first word, and the next word, NULL behind the last
// one.
int manual_word(const char *list);
const char *manual_next(const char *word);

// What stands for a value.
typedef enum manual_value { MANUAL_ANYTHING, MANUAL_FILE, MANUAL_FOLDER } manual_value;
manual_value manual_value_of(const manual_option *o);

// completions.c
void manual_print_bash(FILE *out, const manual *of);
void manual_print_zsh(FILE *out, const manual *of);
void manual_print_fish(FILE *out, const manual *of);
