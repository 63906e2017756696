// The settings of a config.json, which the same calls read from one or write to one. `told` is what
// the weights say; it counts where there is no config. What a setting must not be is said once,
// with the value that was found.
#pragma once

#include <cjson/cJSON.h>

#include "runtime/internal.h"

// The library that has written a config, and that reads it: some names are settings of one alone.
typedef enum config_writer {
  BY_FLA,           // flash-linear-attention
  BY_TRANSFORMERS,  // transformers
  BY_EITHER,        // one of these two, which cannot be told
  BY_STATE_SPACES   // state-spaces/mamba, whose settings of layers lie apart in `ssm_cfg`
} config_writer;

typedef struct settings {
  const cJSON *read;  // or
  cJSON *told;
  config_writer writer;
  rec_status status;  // of the first setting that is refused, or that the weights do not tell
} settings;

enum { NEEDED = -1 };  // in place of a default

// A whole number from 1 on. An open setting is first read from the weights. For an automatic one
// the config may also say "auto": the weights then decide, or else the default.
void config_size(settings *s, int64_t *value, const char *key, int64_t by_default, int64_t told);
void config_open_size(settings *s, int64_t *value, const char *key, int64_t by_default,
                      int64_t told);
void config_automatic_size(settings *s, int64_t *value, const char *key, int64_t by_default,
                           int64_t told);
// A size that the config says as a multiple of another: its whole part, at least 1. Told as a whole
// number, or as Python's float.
void config_ratio(settings *s, int64_t *value, const char *key, double by_default, int64_t of,
                  int64_t told);
void config_real_ratio(settings *s, int64_t *value, const char *key, double by_default, int64_t of,
                       int64_t told);
void config_flag(settings *s, bool *value, const char *key, bool by_default, bool told);
// What a norm adds to the mean of squares.
void config_eps(settings *s, double *value, const char *key, double by_default, double told);

// What is only told.
void config_tell_size(settings *s, const char *key, int64_t size);
void config_tell_flag(settings *s, const char *key, bool on);
void config_tell_word(settings *s, const char *key, const char *word);

// What is only read: where no config is read, the default.
const cJSON *config_setting(const settings *s, const char *key);
bool config_has(const settings *s, const char *key);
bool config_read_flag(settings *s, const char *key, bool by_default);
// The name that the function has in the language; NULL where there is no setting and no default.
const char *config_function(settings *s, const char *key, const char *by_default);

// What is refused.
void config_must(settings *s, const char *key, bool right, const char *expected);
void config_must_be(settings *s, const char *key, bool wanted);
void config_must_be_absent(settings *s, const char *key);
void config_must_be_word(settings *s, const char *key, const char *word);
void config_must_be_silu(settings *s, const char *key);  // which is also called swish
// Bounds of time steps that bound nothing.
void config_must_not_bound(settings *s, const char *key);
