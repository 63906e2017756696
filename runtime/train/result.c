#include "runtime/train/result.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/ranks/ranks.h"
#include "runtime/train/checkpoint.h"
#include "runtime/train/identity.h"

file_path result_path(const session *s, const train_block *block) {
  return session_path(s, block->name, "model.safetensors");
}

bool result_is_there(const session *s, const train_block *block) {
  return rec_file_is_there(result_path(s, block).text);
}

// It says how far its training has come.
static rec_status not_ended(const session *s, const train_block *block) {
  int64_t step, steps;
  file_path checkpoint = session_path(s, block->name, "checkpoint.safetensors");
  if (!rec_file_is_there(checkpoint.text))
    return rec_fail(REC_ERROR_FILE,
                    "expected the block '%s' to be trained, found no %s; run rec train first",
                    block->name, result_path(s, block).text);
  rec_status status = checkpoint_progress(checkpoint.text, &step, &steps);
  if (status) return status;
  return rec_fail(
      REC_ERROR_ARGUMENT,
      "expected the block '%s' to be trained, found %lld of %lld steps; run rec train --resume",
      block->name, (long long)step, (long long)steps);
}

// `now`: what a program would train, which is freed here.
static rec_status load_trained(const session *s, const train_block *block, const char *path,
                               char *now, void *weights) {
  char *was = NULL;
  const trained_model of = session_model(s, block);
  rec_status status = now ? checkpoint_says(path, "rec.trained", &was) : rec_no_memory();
  if (!status) status = identity_check_reader(path, was, now, ranks_number(s->options.ranks) == 0);
  if (!status) status = checkpoint_load_weights(&of, weights, path);
  free(was);
  free(now);
  return status;
}

rec_status result_load_from(const session *s, const train_block *block, const char *path,
                            void *weights) {
  return load_trained(s, block, path, identity_of_model(s, block), weights);
}

rec_status result_load(const session *s, const train_block *block, void *weights) {
  if (!result_is_there(s, block)) return not_ended(s, block);
  return result_load_from(s, block, result_path(s, block).text, weights);
}

rec_status result_load_run(const session *s, const train_block *block, const train_data *data,
                           void *weights) {
  if (!result_is_there(s, block)) return not_ended(s, block);
  return load_trained(s, block, result_path(s, block).text, identity_of(s, block, data, NULL),
                      weights);
}

rec_status result_check_finite(const session *s, const train_block *block, const void *weights) {
  const trained_model of = session_model(s, block);
  const char *bad = trained_bad_weight(&of, weights);
  if (!bad) return REC_OK;
  return rec_fail(REC_ERROR_FORMAT, "%s: expected finite weights, found others in %s",
                  result_path(s, block).text, bad);
}

// NULL: they are numbers, whose meaning is not known here.
static const char *symbols_of(const train_block *block, const char *characters) {
  if (block->generated || block->source.kind == SOURCE_TOKENS) return NULL;
  return characters ? characters : "bytes";
}

rec_status result_check_alphabet(const session *s, const train_block *block,
                                 const train_block *reader, const train_data *data) {
  char *characters = NULL;
  rec_status status = checkpoint_says(result_path(s, block).text, "rec.characters", &characters);
  const char *learned = symbols_of(block, characters),
             *read = symbols_of(reader, data->text.characters);
  if (!status && learned && read && strcmp(learned, read) != 0)
    status = rec_fail(REC_ERROR_ARGUMENT,
                      "%s: expected a text of the characters that the weights of '%s' have "
                      "learned, found one of others, which would be numbered otherwise",
                      session_data_path(s, reader).text, block->name);
  free(characters);
  return status;
}
