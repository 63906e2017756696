#include "runtime/train/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/train/numeric.h"
#include "runtime/train/random.h"

static rec_status read_bytes(FILE *file, const char *path, train_data *data) {
  unsigned char block[65536];
  for (size_t got; (got = fread(block, 1, sizeof block, file)) > 0;) {
    uint16_t *grown = realloc(data->tokens, ((size_t)data->count + got) * sizeof *grown);
    if (!grown) return rec_no_memory();
    data->tokens = grown;
    for (size_t i = 0; i < got; i++) data->tokens[data->count++] = block[i];
  }
  return ferror(file) ? rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno)) : REC_OK;
}

static rec_status check(const char *path, double split, int64_t context, int vocabulary,
                        train_data *data) {
  data->train_count = (int64_t)((double)data->count * split);
  int64_t held_out = data->count - data->train_count;
  if (data->train_count <= context || held_out <= 1)
    return rec_fail(
        REC_ERROR_ARGUMENT,
        "%s: expected more than %lld bytes to train on and 2 held out, found %lld and %lld", path,
        (long long)context, (long long)data->train_count, (long long)held_out);
  for (int64_t i = 0; i < data->count; i++)
    if (data->tokens[i] >= vocabulary)
      return rec_fail(
          REC_ERROR_ARGUMENT,
          "%s: expected bytes below %d, the symbols of the model, found %d at byte %lld", path,
          vocabulary, data->tokens[i], (long long)i);
  return REC_OK;
}

rec_status train_data_open(const char *path, double split, int64_t context, int vocabulary,
                           train_data *data) {
  struct stat info;
  *data = (train_data){0};
  if (!stat(path, &info) && S_ISDIR(info.st_mode))
    return rec_fail(REC_ERROR_FILE, "%s: expected a file, found a folder", path);
  FILE *file = fopen(path, "rb");
  if (!file) return rec_fail(REC_ERROR_FILE, "%s: %s", path, strerror(errno));
  rec_status status = read_bytes(file, path, data);
  fclose(file);
  if (!status) status = check(path, split, context, vocabulary, data);
  if (status) train_data_close(data);
  return status;
}

// The compiler has checked this; a damaged library has not been compiled.
rec_status train_data_generate(const train_task *task, int64_t context, int vocabulary,
                               train_data *data) {
  *data = (train_data){.task = task};
  int64_t tokens = task_tokens(task, task->length), symbols = task_vocabulary(task);
  if (task_least(task) <= task->shortest && task->shortest <= task->length && tokens <= context &&
      symbols <= vocabulary)
    return REC_OK;
  return rec_fail(REC_ERROR_ARGUMENT,
                  "%s: expected lengths from %lld on, a context of %lld tokens and %lld symbols, "
                  "found %lld..%lld, %lld and %d",
                  task_name(task->kind), (long long)task_least(task), (long long)tokens,
                  (long long)symbols, (long long)task->shortest, (long long)task->length,
                  (long long)context, vocabulary);
}

void train_data_close(train_data *data) {
  free(data->tokens);
  *data = (train_data){0};
}

int64_t train_data_window(const train_data *data, uint64_t seed, uint64_t stream, uint64_t position,
                          int64_t length, uint16_t *tokens, uint16_t *targets) {
  if (data->task) {
    int64_t count = 0;
    task_sequence(data->task, seed, stream, position, length, tokens, targets);
    for (int64_t i = 0; i < length; i++) count += targets[i] != NO_TARGET;
    return count;
  }
  int64_t start = random_below(seed, stream, position, data->train_count - length);
  memcpy(tokens, data->tokens + start, (size_t)length * sizeof *tokens);
  memcpy(targets, data->tokens + start + 1, (size_t)length * sizeof *targets);
  return length;
}

void train_data_held_out(const train_data *data, int64_t place, int64_t length, uint16_t *tokens,
                         uint16_t *targets) {
  int64_t ring = data->count - data->train_count;
  const uint16_t *held_out = data->tokens + data->train_count;
  for (int64_t i = 0; i < length; i++) {
    tokens[i] = held_out[(place + i) % ring];
    targets[i] = held_out[(place + i + 1) % ring];
  }
}
