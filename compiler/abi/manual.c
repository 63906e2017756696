#include "compiler/abi/manual.h"

#include <ctype.h>
#include <string.h>

enum { LINE_WIDTH = 128 };

// ---- lists -----------------------------------------------------------------------------------

int manual_word(const char *list) { return (int)strcspn(list, ",| "); }

const char *manual_next(const char *word) {
  word += manual_word(word);
  word += strspn(word, ",| ");
  return *word ? word : NULL;
}

// Names of values in capitals stand for something; those of files have an ending, or are among
// these.
static bool names_file(const char *word, int length) {
  static const char *const files[] = {"FILE", "PATH", "IN", "OUT"};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if ((int)strlen(files[i]) == length && strncmp(files[i], word, (size_t)length) == 0)
      return true;
  return isupper((unsigned char)*word) && memchr(word, '.', (size_t)length);
}

manual_value manual_value_of(const manual_option *o) {
  for (const char *word = o->value; word; word = manual_next(word)) {
    if (names_file(word, manual_word(word))) return MANUAL_FILE;
    if (strncmp(word, "DIR", 3) == 0) return MANUAL_FOLDER;
  }
  return MANUAL_ANYTHING;
}

// ---- help ------------------------------------------------------------------------------------

// `LIST: host, sm_80, ..`, in lines that begin in the column `indent`.
static void print_values(FILE *out, const manual_option *o, int indent) {
  int column = fprintf(out, "%*s%s:", indent, "", o->value);
  for (const char *word = o->values; word; word = manual_next(word)) {
    int length = manual_word(word);
    if (column + length + 2 > LINE_WIDTH) column = fprintf(out, "\n%*s", indent - 1, "") - 1;
    column += fprintf(out, " %.*s%s", length, word, manual_next(word) ? "," : "");
  }
  fprintf(out, "\n");
}

static void print_option(FILE *out, const manual_option *o, int width) {
  int written = fprintf(out, "  %s%s%s", o->name, o->value ? " " : "", o->value ? o->value : "");
  for (const char *line = o->help, *end; line; line = *end ? end + 1 : NULL, written = 0) {
    end = strchrnul(line, '\n');
    fprintf(out, "%*s%.*s\n", width - written, "", (int)(end - line), line);
  }
  if (o->values) print_values(out, o, width);
}

static void print_options(FILE *out, const manual_option *options) {
  size_t widest = 0;
  for (const manual_option *o = options; o->name; o++) {
    size_t width = strlen(o->name) + (o->value ? 1 + strlen(o->value) : 0);
    if (width > widest) widest = width;
  }
  for (const manual_option *o = options; o->name; o++) print_option(out, o, (int)widest + 4);
}

void manual_print_help(FILE *out, const manual *of, const manual_command *command) {
  fprintf(out, "usage: %s%s%s %s\n\n%s\n", of->program, *command->name ? " " : "", command->name,
          command->synopsis, command->text);
  print_options(out, command->options);
}

// ---- the manual page -------------------------------------------------------------------------

// Text as roff reads it: a line's first point or quote is no request, a hyphen stays a hyphen.
static void print_roff(FILE *out, const char *text, size_t length) {
  bool first = true;
  for (size_t i = 0; i < length; i++) {
    if (first && (text[i] == '.' || text[i] == '\'')) fprintf(out, "\\&");
    first = text[i] == '\n';
    if (text[i] == '-')
      fprintf(out, "\\-");
    else if (text[i] == '\\')
      fprintf(out, "\\e");
    else
      fputc(text[i], out);
  }
}

static void print_roff_text(FILE *out, const char *text) { print_roff(out, text, strlen(text)); }

// Paragraphs; an empty line parts them.
static void print_paragraphs(FILE *out, const char *text) {
  for (const char *end; *text; text = end + strspn(end, "\n")) {
    end = strstr(text, "\n\n");
    if (!end) end = text + strlen(text);
    size_t length = (size_t)(end - text);
    while (length && text[length - 1] == '\n') length--;
    fprintf(out, ".PP\n");
    print_roff(out, text, length);
    fprintf(out, "\n");
  }
}

static void print_roff_option(FILE *out, const manual_option *o) {
  fprintf(out, ".TP\n\\fB");
  print_roff_text(out, o->name);
  fprintf(out, "\\fR");
  if (o->value) {
    fprintf(out, " \\fI");
    print_roff_text(out, o->value);
    fprintf(out, "\\fR");
  }
  fprintf(out, "\n");
  print_roff_text(out, o->help);
  fprintf(out, "\n");
  if (!o->values) return;
  fprintf(out, ".br\n\\fI%s\\fR: ", o->value);
  print_roff_text(out, o->values);
  fprintf(out, "\n");
}

static void print_roff_options(FILE *out, const manual_option *options) {
  for (const manual_option *o = options; o && o->name; o++) print_roff_option(out, o);
}

static void print_roff_command(FILE *out, const manual *of, const manual_command *c) {
  if (*c->name) fprintf(out, ".SS %s %s\n", of->program, c->name);
  fprintf(out, ".PP\n\\fB%s%s%s\\fR ", of->program, *c->name ? " " : "", c->name);
  print_roff_text(out, c->synopsis);
  fprintf(out, "\n");
  print_paragraphs(out, c->text);
  print_roff_options(out, c->options);
}

static void print_capitals(FILE *out, const char *text) {
  for (; *text; text++) fputc(toupper((unsigned char)*text), out);
}

static void print_man(FILE *out, const manual *of) {
  fprintf(out, ".TH ");
  print_capitals(out, of->program);
  fprintf(out, " 1 \"\" \"rec " REC_VERSION "\" \"User Commands\"\n.SH NAME\n");
  print_roff_text(out, of->program);
  fprintf(out, " \\- %s\n.SH SYNOPSIS\n.nf\n", of->purpose);
  for (int i = 0; i < of->command_count; i++) {
    const manual_command *c = &of->commands[i];
    fprintf(out, "\\fB");
    print_roff_text(out, of->program);
    fprintf(out, "%s%s\\fR ", *c->name ? " " : "", c->name);
    print_roff_text(out, c->synopsis);
    fprintf(out, "\n");
  }
  fprintf(out, ".fi\n.SH DESCRIPTION\n");
  for (int i = 0; i < of->command_count; i++) print_roff_command(out, of, &of->commands[i]);
  if (of->options && of->options->name) {
    fprintf(out, ".SH OPTIONS\n");
    print_roff_options(out, of->options);
  }
  fprintf(out, ".SH ENVIRONMENT\n");
  print_roff_options(out, of->environment);
  fprintf(out, ".SH SEE ALSO\n%s\n", of->see_also);
}

const char manual_kinds[] = "man|bash|zsh|fish";

bool manual_print(FILE *out, const manual *of, const char *kind) {
  static const struct {
    const char *name;
    void (*print)(FILE *, const manual *);
  } kinds[] = {{"man", print_man},
               {"bash", manual_print_bash},
               {"zsh", manual_print_zsh},
               {"fish", manual_print_fish}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, kind) != 0) continue;
    kinds[i].print(out, of);
    return true;
  }
  return false;
}
