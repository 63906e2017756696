#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/command/command.h"
#include "runtime/machine.h"

bool take_value(words *w, const char *option, const char **value) {
  if (w->failed || w->next == w->count) return false;
  const char *word = w->list[w->next];
  size_t length = strlen(option);
  if (strncmp(word, option, length) != 0) return false;
  if (word[length] == '=' || (length == 2 && word[length])) {  // --option=VALUE, -DVALUE
    *value = word + length + (word[length] == '=' && length > 2);
    w->next++;
    return true;
  }
  if (word[length]) return false;
  if (w->next + 1 == w->count) {
    usage_error(w, "expected a value after `%s`", option);
    return false;
  }
  *value = w->list[w->next + 1];
  w->next += 2;
  return true;
}

bool take_number(words *w, const char *option, int64_t least, int64_t *number) {
  const char *text;
  if (!take_value(w, option, &text)) return false;
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end == text || *end || errno || value < least) {
    usage_error(w, "expected a whole number from %lld after `%s`, found `%s`", (long long)least, option, text);
    return false;
  }
  *number = value;
  return true;
}

bool take_threads(words *w, int *threads) {
  int64_t number;
  if (!take_number(w, "--threads", 1, &number)) return false;
  *threads = number < REC_MOST_THREADS ? (int)number : REC_MOST_THREADS;
  return true;
}

bool take_real(words *w, const char *option, double least, double most, double *number) {
  const char *text;
  if (!take_value(w, option, &text)) return false;
  char *end;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= least && value <= most)) {
    usage_error(w, "expected a number from %g to %g after `%s`, found `%s`", least, most, option, text);
    return false;
  }
  *number = value;
  return true;
}

bool take_flag(words *w, const char *option) {
  if (w->failed || w->next == w->count || strcmp(w->list[w->next], option) != 0) return false;
  w->next++;
  return true;
}

bool take_word(words *w, const char **word) {
  if (w->failed || w->next == w->count || w->list[w->next][0] == '-') return false;
  *word = w->list[w->next++];
  return true;
}

int usage_error(words *w, const char *format, ...) {
  if (w->failed) return EXIT_USAGE;
  w->failed = true;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "rec %s: ", w->command);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "; see `rec %s --help`\n", w->command);
  va_end(arguments);
  return EXIT_USAGE;
}

int report_failure(const char *command) {
  fprintf(stderr, "rec %s: %s\n", command, rec_message());
  return EXIT_USAGE;
}
