// The settings of a config.json. What a setting must not be is said once, with the value that was found.
#ifndef REC_TRAIN_PUBLIC_SETTINGS_H
#define REC_TRAIN_PUBLIC_SETTINGS_H

#include <cjson/cJSON.h>

#include "runtime/internal.h"

typedef struct settings {
  const cJSON *object;
  rec_status status;  // of the first setting that is refused
} settings;

const cJSON *config_setting(const settings *s, const char *key);
bool config_is_absent(const settings *s, const char *key);  // or null
void config_refuse(settings *s, const char *key, const char *expected);

// A whole number from 1 on; `by_default` where there is none, or, below 0, refused.
int64_t config_whole(settings *s, const char *key, int64_t by_default);
// The setting times `size`: its whole part, which is at least 1.
int64_t config_multiple(settings *s, const char *key, double by_default, int64_t size);
bool config_flag(settings *s, const char *key, bool by_default);
// What a norm adds to the mean of squares.
double config_eps(settings *s, const char *key, double by_default);
// The name that the function has in the language; NULL where there is no setting and no default.
const char *config_function(settings *s, const char *key, const char *by_default);

void config_must_be(settings *s, const char *key, bool by_default, bool wanted);
void config_must_be_absent(settings *s, const char *key);
void config_must_be_word(settings *s, const char *key, const char *word);
// Bounds of time steps that bound nothing.
void config_must_not_bound(settings *s, const char *key);

// The shortest text that reads as the same number.
enum { SHORTEST_TEXT = 32 };
const char *shortest_text(double x, char text[SHORTEST_TEXT]);

#endif
