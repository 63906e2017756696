#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/command/command.h"
#include "runtime/device.h"
#include "runtime/machine.h"
#include "runtime/ranks/launch.h"
#include "runtime/ranks/ranks.h"
#include "runtime/train/report/whole_file.h"

// ---- one option ---------------------------------------------------------------------------------

// Is the next word this option? Then it is taken, with its value.
static bool take_option(words *w, const option *o, const char **value) {
  const char *word = w->list[w->next];
  size_t length = strlen(o->name);
  if (strncmp(word, o->name, length) != 0 || (!o->value && word[length])) return false;
  if (word[length] == '=' || (length == 2 && word[length])) {  // --option=VALUE, -DVALUE
    *value = word + length + (word[length] == '=' && length > 2);
    w->next++;
    return true;
  }
  if (word[length]) return false;
  w->next++;
  if (!o->value) return true;
  if (w->next == w->count)
    usage_error(w, "expected a value after `%s`", o->name);
  else
    *value = w->list[w->next++];
  return true;
}

static int64_t read_option_number(words *w, const option *o, const char *text) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (end != text && !*end && !errno && value >= (long long)o->least &&
      (o->most == 0 || value <= (long long)o->most))
    return value;
  char to[32] = "";
  if (o->most != 0) snprintf(to, sizeof to, " to %lld", (long long)o->most);
  usage_error(w, "expected a whole number from %lld%s after `%s`, found `%s`", (long long)o->least,
              to, o->name, text);
  return (int64_t)o->least;
}

static double read_real(words *w, const option *o, const char *text) {
  char *end;
  if (!o->value) return o->least;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= o->least && value <= o->most))
    usage_error(w, "expected a number from %g to %g after `%s`, found `%s`", o->least, o->most,
                o->name, text);
  return value;
}

static void read_device(words *w, const char *name, module_request *request) {
  static const struct {
    const char *name, *target;
    int32_t device;
  } devices[] = {{"host", NULL, REC_DEVICE_HOST},
                 {"simt", "simt", REC_DEVICE_SIMT},
                 {"cuda", NULL, REC_DEVICE_CUDA}};
  for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
    if (strcmp(devices[i].name, name) != 0) continue;
    request->device = devices[i].device;
    request->target = request->device == REC_DEVICE_CUDA ? rec_cuda_target() : devices[i].target;
    return;
  }
  usage_error(w, "expected host, simt or cuda after `--device`, found `%s`", name);
}

// Does the option take the name of a file or a folder? `value` is what the usage calls it.
static bool is_place(const char *value) {
  return strstr(value, "DIR") || strstr(value, "FILE") || strstr(value, "PATH");
}

static void read_option(words *w, const option *o, const char *text, void *to) {
  module_request *module = to;
  int64_t number;
  rec_dtype type;
  switch (o->kind) {
    case OPTION_FLAG: *(bool *)to = true; break;
    case OPTION_TEXT:
      *(const char **)to = text;
      if (!*text && is_place(o->value))
        usage_error(w, "expected %s after `%s`, found an empty word", o->value, o->name);
      break;
    case OPTION_NUMBER: *(int64_t *)to = read_option_number(w, o, text); break;
    case OPTION_THREADS:
      number = read_option_number(w, o, text);
      *(int *)to = number < REC_MOST_THREADS ? (int)number : REC_MOST_THREADS;
      break;
    case OPTION_REAL: *(double *)to = read_real(w, o, text); break;
    case OPTION_DEVICE: read_device(w, text, module); break;
    case OPTION_DEFINE: module->defines[module->define_count++] = text; break;
    case OPTION_DTYPE:
      module->dtype = text;
      if (!rec_number_type(text, &type))
        usage_error(w, "expected f32, f64, bf16 or f16 after `--dtype`, found `%s`", text);
      break;
    case OPTION_RECC:
      module->recc_words[module->recc_word_count++] = o->name;
      if (text) module->recc_words[module->recc_word_count++] = text;
      break;
  }
}

// ---- all words ----------------------------------------------------------------------------------

int read_options(words *w, const option *options, void *request) {
  while (w->next < w->count && !w->failed) {
    const char *value = NULL;
    const option *o = options;
    while (o->name && !take_option(w, o, &value)) o++;
    if (o->name && !w->failed)
      read_option(w, o, value, (char *)request + o->place);
    else if (!o->name && (w->list[w->next][0] != '-' || !w->list[w->next][1]))
      w->given[w->given_count++] = w->list[w->next++];
    else
      usage_error(w, "unknown option `%s`", w->list[w->next]);
  }
  return w->failed ? EXIT_USAGE : 0;
}

const char *split_block(char *word) {
  char *colon = strrchr(word, ':');
  if (!colon || strchr(colon, '/') || access(word, F_OK) == 0) return NULL;
  *colon = '\0';
  return colon + 1;
}

int usage_error(words *w, const char *format, ...) {
  if (w->failed) return EXIT_USAGE;
  w->failed = true;
  if (!launch_speaks()) return EXIT_USAGE;
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "rec %s: ", w->command);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, "; see `%s %s --help`\n", program_name(), w->command);
  va_end(arguments);
  return EXIT_USAGE;
}

rec_status allow_output(const char *path, const char *input, bool again) {
  output_note_input_path(input);
  return whole_file_allowed(path, NULL, again);
}

int report_failure(const char *command) {
  fprintf(stderr, "rec %s: %s\n", command, rec_message());
  return EXIT_USAGE;
}

int report_agreed(struct ranks *r, const char *command, rec_status own) {
  rec_status status = ranks_agree(r, own, (message_place){-1, -1, "their statuses"});
  if (!status) return 0;
  return ranks_number(r) ? EXIT_USAGE : report_failure(command);
}
