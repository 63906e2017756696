// Entry points for several sizes: the variant that has the sizes of a call gets it.
//
//   gla_forward with K = 64, V = 128  ->  the table of gla_K64_V128
//
// An axis that is 0 fits every variant; where several fit, the call must say more.
#include <stdio.h>
#include <string.h>

#include "compiler/abi/library.h"
#include "runtime/support/error.h"

static const void *table_place(const void *table, int32_t offset) {
  return (const char *)table + offset;
}

static const rec_table_axis *table_axis_at(const rec_table *table, int32_t axis) {
  return (const rec_table_axis *)table_place(table, table->axes_at) + axis;
}

static int64_t size_in(const void *arguments, const rec_table_axis *axis) {
  int64_t size;
  memcpy(&size, table_place(arguments, axis->field), sizeof size);
  return size;
}

static int variant_fits(const rec_choice *choice, const rec_table *table, const void *arguments) {
  for (int32_t i = 0; i < choice->axis_count; i++) {
    const rec_table_axis *axis = table_axis_at(table, choice->axes[i].axis);
    int64_t size = size_in(arguments, axis);
    if (size != 0 && size != axis->size) return 0;
  }
  return 1;
}

// ---- the message -----------------------------------------------------------------------------

typedef struct message {
  char text[REC_ERROR_TEXT_MAX];
  size_t length;
} message;

static void add_message_text(message *m, const char *text) {
  int written = snprintf(m->text + m->length, sizeof m->text - m->length, "%s", text);
  m->length += (size_t)written;
  if (m->length >= sizeof m->text) m->length = sizeof m->text - 1;
}

static void add_number_text(message *m, int64_t number) {
  char text[24];
  snprintf(text, sizeof text, "%lld", (long long)number);
  add_message_text(m, text);
}

// The sizes of an axis, each once. Returns whether `wanted` is among them.
static int add_sizes(message *m, const rec_choice *choice, int32_t axis, const char *separator,
                     int64_t wanted) {
  int found = 0;
  for (int32_t i = 0; i < choice->count; i++) {
    int64_t size = table_axis_at(choice->tables[i], axis)->size;
    int before = 0;
    for (int32_t k = 0; k < i; k++) before |= table_axis_at(choice->tables[k], axis)->size == size;
    if (before) continue;
    if (i) add_message_text(m, separator);
    add_number_text(m, size);
    found |= size == wanted;
  }
  return found;
}

// expected K of 64 or 128, found 32
static void add_expectation(message *m, const rec_choice *choice, int32_t index,
                            const void *arguments) {
  const rec_table *first = choice->tables[0];
  const rec_table_axis *axis = table_axis_at(first, choice->axes[index].axis);
  add_message_text(m, index ? "; " : "expected ");
  add_message_text(m, table_place(first, axis->name_at));
  add_message_text(m, " of ");
  add_sizes(m, choice, choice->axes[index].axis, " or ", 0);
  add_message_text(m, ", found ");
  add_number_text(m, size_in(arguments, axis));
}

// The command that adds the variant.
static void add_command(message *m, const rec_choice *choice, const void *arguments) {
  add_message_text(m, table_place(choice, choice->command_at));
  for (int32_t i = 0; i < choice->axis_count; i++) {
    int64_t size = size_in(arguments, table_axis_at(choice->tables[0], choice->axes[i].axis));
    add_message_text(m, " -D ");
    add_message_text(m, table_place(choice, choice->axes[i].define_at));
    add_message_text(m, "=");
    if (add_sizes(m, choice, choice->axes[i].axis, ",", size) || size < 1) continue;
    add_message_text(m, ",");
    add_number_text(m, size);
  }
}

static rec_status refuse_sizes(const rec_choice *choice, const char *entry, const void *arguments,
                               int fitting) {
  message m = {.length = 0};
  for (int32_t i = 0; i < choice->axis_count; i++) add_expectation(&m, choice, i, arguments);
  if (!fitting) {
    add_message_text(&m, "; ");
    add_command(&m, choice, arguments);
    add_message_text(&m, " adds it");
  }
  return rec_fail(REC_ERROR_UNSUPPORTED, "%s_%s: %s",
                  (const char *)table_place(choice, choice->name_at), entry, m.text);
}

// Finds the variant that has the sizes of a call. Arguments that cannot be read go to the first
// variant, which refuses them.
static rec_status choose_variant(const rec_choice *choice, const char *entry, const void *arguments,
                                 const rec_table **table) {
  *table = choice->tables[0];
  uint64_t size = 0;
  if (arguments) memcpy(&size, arguments, sizeof size);
  if (size < (uint64_t)(*table)->arguments_size) return REC_OK;
  int fitting = 0;
  for (int32_t i = 0; i < choice->count; i++) {
    if (!variant_fits(choice, choice->tables[i], arguments)) continue;
    *table = choice->tables[i];
    fitting++;
  }
  return fitting == 1 ? REC_OK : refuse_sizes(choice, entry, arguments, fitting);
}

// ---- the entry points ------------------------------------------------------------------------

// `others`: the parameters behind `arguments`, by name.
#define DEFINE_CHOSEN(entry, others, ...)                                                  \
  int rec_##entry##_chosen(const rec_choice *choice, const void *arguments, __VA_ARGS__) { \
    const rec_table *table;                                                                \
    rec_status status = choose_variant(choice, #entry, arguments, &table);                 \
    return status ? (int)status : rec_##entry##_entry(table, arguments, NAMES others);     \
  }
#define NAMES(...) __VA_ARGS__

DEFINE_CHOSEN(forward, (launch), const rec_launch *launch)
DEFINE_CHOSEN(backward, (launch), const rec_launch *launch)
DEFINE_CHOSEN(step, (launch), const rec_launch *launch)
DEFINE_CHOSEN(sizes, (sizes), rec_sizes *sizes)
DEFINE_CHOSEN(summary, (launch, summary), const rec_launch *launch, void *summary)
DEFINE_CHOSEN(summary_backward, (launch, summary), const rec_launch *launch, void *summary)
DEFINE_CHOSEN(fold, (launch, segments), const rec_launch *launch, const rec_segments *segments)
DEFINE_CHOSEN(combine, (launch, segments, summary), const rec_launch *launch,
              const rec_segments *segments, void *summary)
