// What bash, zsh and fish complete: commands, options, their values, files.
//
//   option {"--dtype", "f32|f64", ..}  ->  --dtype) _rec_words 'f32 f64' ;;
#include <ctype.h>
#include <string.h>

#include "compiler/abi/manual.h"

// ---- values ----------------------------------------------------------------------------------

// Names in capitals stand for something; all other words are meant as they are.
static bool is_meant(const char *word) {
  return !isupper((unsigned char)*word) && *word != '[' && *word != '.';
}

static int print_meant(FILE *out, const char *list, int printed) {
  for (const char *word = list; word && *word; word = manual_next(word))
    if (is_meant(word)) fprintf(out, "%s%.*s", printed++ ? " " : "", manual_word(word), word);
  return printed;
}

// Words that may stand for the value, with blanks between. A value `f32|f64` lists them; `N` has
// none.
static int print_words(FILE *out, const manual_option *o) {
  int printed = strchr(o->value, '|') ? print_meant(out, o->value, 0) : 0;
  return print_meant(out, o->values, printed);
}

static bool option_has_words(const manual_option *o) {
  if (o->values) return true;
  for (const char *word = strchr(o->value, '|') ? o->value : NULL; word; word = manual_next(word))
    if (is_meant(word)) return true;
  return false;
}

// Values that are lists of words with commas between: LIST, or `f32|f64,..`.
static bool is_list(const manual_option *o) {
  return strcmp(o->value, "LIST") == 0 || strstr(o->value, ",..");
}

// The first line of a help, without what the quotes of a shell or `also` would end.
static void print_line(FILE *out, const char *help, const char *also) {
  for (; *help && *help != '\n'; help++)
    if (*help != '\'' && *help != '`' && !strchr(also, *help)) fputc(*help, out);
}

// ---- bash ------------------------------------------------------------------------------------

static void bash_value(FILE *out, const manual_option *o) {
  fprintf(out, "      %s) ", o->name);
  if (option_has_words(o)) {
    fprintf(out, "_%s '", is_list(o) ? "rec_list" : "rec_words");
    print_words(out, o);
    fprintf(out, "'; ");
  }
  if (manual_value_of(o) == MANUAL_FILE) fprintf(out, "_rec_files -f; ");
  if (manual_value_of(o) == MANUAL_FOLDER) fprintf(out, "_rec_files -d; ");
  fprintf(out, "return ;;\n");
}

static void bash_command(FILE *out, const manual_option *options, const char *pattern,
                         const char *operands) {
  fprintf(out, "  %s)\n    case $before in\n", pattern);
  for (const manual_option *o = options; o && o->name; o++)
    if (o->value) bash_value(out, o);
  fprintf(out, "    esac\n    options='");
  for (const manual_option *o = options; o && o->name; o++)
    fprintf(out, "%s%s", o == options ? "" : " ", o->name);
  fprintf(out, "' operands='");
  print_meant(out, operands, 0);
  fprintf(out, "' ;;\n");
}

static bool has_default(const manual *of) { return of->command_count && !*of->commands[0].name; }

// A word behind `=` is a word of its own to bash.
static const char bash_head[] =
    "_rec_words() { mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -W \"$1\" -- \"$word\"); "
    "}\n"
    "_rec_list() {\n"
    "  local last=${word##*,}\n"
    "  mapfile -t COMPREPLY < <(compgen -P \"${word%\"$last\"}\" -W \"$1\" -- \"$last\")\n"
    "}\n"
    "_rec_files() {\n"
    "  compopt -o filenames 2>/dev/null\n"
    "  mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen \"$1\" -- \"$word\")\n"
    "}\n";

static const char bash_variables[] =
    "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options operands\n"
    "  COMPREPLY=()\n"
    "  [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD-2]}\n"
    "  [[ $word != = ]] || word=\n";

static const char bash_tail[] =
    "  if [[ $word == -* ]]; then\n"
    "    _rec_words \"$options\"\n"
    "  else\n"
    "    _rec_words \"$operands\"\n"
    "    _rec_files -f\n"
    "  fi\n";

void manual_print_bash(FILE *out, const manual *of) {
  fprintf(out, "# What bash completes for %s; made by `%s --manual bash`.\n%s_%s() {\n%s",
          of->program, of->program, bash_head, of->program, bash_variables);
  fprintf(out, "  if ((COMP_CWORD == 1)) && [[ $word != -* ]]; then\n    _rec_words '");
  for (int i = 0; i < of->command_count; i++)
    fprintf(out, "%s%s", i && *of->commands[i - 1].name ? " " : "", of->commands[i].name);
  fprintf(out, "'\n  %s\n  case ${COMP_WORDS[1]} in\n", has_default(of) ? "fi" : "  return\n  fi");
  for (int i = has_default(of); i < of->command_count; i++)
    bash_command(out, of->commands[i].options, of->commands[i].name, of->commands[i].operands);
  const manual_command *first = has_default(of) ? &of->commands[0] : NULL;
  bash_command(out, first ? first->options : of->options, "*", first ? first->operands : NULL);
  fprintf(out, "  esac\n%s}\ncomplete -F _%s %s\n", bash_tail, of->program, of->program);
}

// ---- zsh -------------------------------------------------------------------------------------

// '--runs=[where runs are kept]:DIR:_files -/'
static void zsh_option(FILE *out, const manual_option *o) {
  bool letter = strlen(o->name) == 2;
  fprintf(out, " \\\n        '*%s%s[", o->name, !o->value ? "" : letter ? "+" : "=");
  print_line(out, o->help, "[]:\\");
  fprintf(out, "]");
  if (o->value) {
    manual_value kind = manual_value_of(o);
    fprintf(out, ":value:");
    if (option_has_words(o)) {
      fprintf(out, "%s", is_list(o) ? "_values -s , value " : "(");
      print_words(out, o);
      if (!is_list(o)) fprintf(out, ")");
    } else {
      fprintf(out, "%s",
              kind == MANUAL_FILE     ? "_files"
              : kind == MANUAL_FOLDER ? "_files -/"
                                      : " ");
    }
  }
  fprintf(out, "'");
}

static void zsh_options(FILE *out, const manual_option *options, const char *operands) {
  fprintf(out, "      _arguments -S");
  for (const manual_option *o = options; o && o->name; o++) zsh_option(out, o);
  if (operands) {
    fprintf(out, " \\\n        '*:file:_alternative \"words:word:(");
    print_meant(out, operands, 0);
    fprintf(out, ")\" \"files:file:_files\"'\n");
  } else {
    fprintf(out, " \\\n        '*:file:_files'\n");
  }
}

void manual_print_zsh(FILE *out, const manual *of) {
  fprintf(out,
          "#compdef %s\n# What zsh completes for %s; made by `%s --manual zsh`.\n_%s() {\n  local "
          "-a commands=(",
          of->program, of->program, of->program, of->program);
  for (int i = has_default(of); i < of->command_count; i++) {
    fprintf(out, "\n    '%s:", of->commands[i].name);
    print_line(out, of->commands[i].purpose, ":\\");
    fprintf(out, "'");
  }
  fprintf(out, "\n  )\n  (( CURRENT != 2 )) || _describe command commands\n  case $words[2] in\n");
  for (int i = has_default(of); i < of->command_count; i++) {
    fprintf(out, "    %s)\n      shift words\n      (( CURRENT-- ))\n", of->commands[i].name);
    zsh_options(out, of->commands[i].options, of->commands[i].operands);
    fprintf(out, "      ;;\n");
  }
  const manual_command *first = has_default(of) ? &of->commands[0] : NULL;
  fprintf(out, "    *)\n");
  zsh_options(out, first ? first->options : of->options, first ? first->operands : NULL);
  fprintf(out, "      ;;\n  esac\n}\n_%s \"$@\"\n", of->program);
}

// ---- fish ------------------------------------------------------------------------------------

static void fish_option(FILE *out, const manual *of, const manual_option *o,
                        const char *condition) {
  bool word = strncmp(o->name, "--", 2) == 0, letter = strlen(o->name) == 2;
  fprintf(out, "complete -c %s%s -%s %s", of->program, condition,
          word     ? "l"
          : letter ? "s"
                   : "o",
          o->name + (word ? 2 : 1));
  if (o->value) {
    manual_value kind = manual_value_of(o);
    fprintf(out, "%s",
            kind == MANUAL_FILE     ? " -r -F"
            : kind == MANUAL_FOLDER ? " -x -a '(__fish_complete_directories)'"
                                    : " -x");
    if (option_has_words(o)) {
      fprintf(out, " -a '%s", is_list(o) ? "(__fish_append , " : "");
      print_words(out, o);
      fprintf(out, "%s'", is_list(o) ? ")" : "");
    }
  }
  fprintf(out, " -d '");
  print_line(out, o->help, "\\");
  fprintf(out, "'\n");
}

static void fish_command(FILE *out, const manual *of, const manual_option *options,
                         const char *operands, const char *condition) {
  for (const manual_option *o = options; o && o->name; o++) fish_option(out, of, o, condition);
  if (!operands) return;
  fprintf(out, "complete -c %s%s -a '", of->program, condition);
  print_meant(out, operands, 0);
  fprintf(out, "'\n");
}

void manual_print_fish(FILE *out, const manual *of) {
  fprintf(out, "# What fish completes for %s; made by `%s --manual fish`.\n", of->program,
          of->program);
  char condition[128], others[256] = " -n __fish_use_subcommand";
  if (has_default(of)) snprintf(others, sizeof others, " -n 'not __fish_seen_subcommand_from");
  for (int i = has_default(of); i < of->command_count; i++) {
    const manual_command *c = &of->commands[i];
    fprintf(out, "complete -c %s -n __fish_use_subcommand -a %s -d '", of->program, c->name);
    print_line(out, c->purpose, "\\");
    fprintf(out, "'\n");
    snprintf(condition, sizeof condition, " -n '__fish_seen_subcommand_from %s'", c->name);
    fish_command(out, of, c->options, c->operands, condition);
    size_t used = strlen(others);
    if (has_default(of)) snprintf(others + used, sizeof others - used, " %s", c->name);
  }
  const manual_command *first = has_default(of) ? &of->commands[0] : NULL;
  if (first) strncat(others, "'", sizeof others - strlen(others) - 1);
  fish_command(out, of, first ? first->options : of->options, first ? first->operands : NULL,
               others);
}
