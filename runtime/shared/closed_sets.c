#include "runtime/shared/closed_sets.h"

#include <stddef.h>

const char *const intervention_names[] = {
#define INTERVENTION(name, text, noise, ...) #text,
#include "runtime/shared/interventions.def"
#undef INTERVENTION
};
const char *const intervention_written[] = {
#define INTERVENTION(name, text, noise, written, ...) written,
#include "runtime/shared/interventions.def"
#undef INTERVENTION
};
const bool intervention_noise[] = {
#define INTERVENTION(name, text, noise, ...) noise,
#include "runtime/shared/interventions.def"
#undef INTERVENTION
};

const char *const schedule_names[] = {
#define SCHEDULE(name, text, settings, ...) #text,
#include "runtime/shared/schedules.def"
#undef SCHEDULE
};
const int schedule_settings[] = {
#define SCHEDULE(name, text, settings, ...) settings,
#include "runtime/shared/schedules.def"
#undef SCHEDULE
};

const char *const distance_names[] = {
#define DISTANCE(name, text, ...) #text,
#include "runtime/shared/distances.def"
#undef DISTANCE
};

const char *const exchange_names[] = {
#define EXCHANGE(name, text) #text,
#include "runtime/shared/exchanges.def"
#undef EXCHANGE
};

const char *const parameter_kind_names[] = {
#define PARAMETER(name, text, decays) #text,
#include "runtime/shared/parameters.def"
#undef PARAMETER
};
const bool parameter_kind_decays[] = {
#define PARAMETER(name, text, decays) decays,
#include "runtime/shared/parameters.def"
#undef PARAMETER
};

const char *const model_op_names[] = {
#define MODEL_OP(name, text) #text,
#include "runtime/shared/model_ops.def"
#undef MODEL_OP
};

const char *const source_names[] = {
#define SOURCE(name, text, unit) #text,
#include "runtime/shared/sources.def"
#undef SOURCE
};
const char *const source_units[] = {
#define SOURCE(name, text, unit) #unit,
#include "runtime/shared/sources.def"
#undef SOURCE
};

const char *const token_format_names[] = {
#define TOKEN_FORMAT(name, text) #text,
#include "runtime/shared/token_formats.def"
#undef TOKEN_FORMAT
};

const task_rules task_rules_of[] = {
#define TASK(name, text, fourth, count, symbols, bytes, least, least_for_each, tokens_for_each, \
             tokens_beyond, tokens_for_each_count, ...)                                         \
  {TASK_##name,                                                                                 \
   #text,                                                                                       \
   {"length", "shortest", "loss", fourth, count},                                               \
   symbols,                                                                                     \
   bytes,                                                                                       \
   least,                                                                                       \
   least_for_each,                                                                              \
   tokens_for_each,                                                                             \
   tokens_beyond,                                                                               \
   tokens_for_each_count},
#include "runtime/shared/tasks.def"
#undef TASK
};

const optimizer_rules optimizer_rules_of[] = {
#define OPTIMIZER(name, text, states, matrices, own, by_default, ...) \
  {#text, states, matrices, own, by_default},
#include "runtime/shared/optimizers.def"
#undef OPTIMIZER
};
