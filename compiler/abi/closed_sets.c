#include "compiler/abi/closed_sets.h"

#include <stddef.h>

const char *const intervention_names[] = {
#define INTERVENTION(name, text, noise, ...) #text,
#include "compiler/abi/interventions.def"
#undef INTERVENTION
};
const char *const intervention_written[] = {
#define INTERVENTION(name, text, noise, written, ...) written,
#include "compiler/abi/interventions.def"
#undef INTERVENTION
};
const bool intervention_noise[] = {
#define INTERVENTION(name, text, noise, ...) noise,
#include "compiler/abi/interventions.def"
#undef INTERVENTION
};

const char *const schedule_names[] = {
#define SCHEDULE(name, text, settings, ...) #text,
#include "compiler/abi/schedules.def"
#undef SCHEDULE
};
const int schedule_settings[] = {
#define SCHEDULE(name, text, settings, ...) settings,
#include "compiler/abi/schedules.def"
#undef SCHEDULE
};

const char *const distance_names[] = {
#define DISTANCE(name, text, ...) #text,
#include "compiler/abi/distances.def"
#undef DISTANCE
};

const char *const exchange_names[] = {
#define EXCHANGE(name, text) #text,
#include "compiler/abi/exchanges.def"
#undef EXCHANGE
};

const char *const parameter_kind_names[] = {
#define PARAMETER(name, text, decays) #text,
#include "compiler/abi/parameters.def"
#undef PARAMETER
};
const bool parameter_kind_decays[] = {
#define PARAMETER(name, text, decays) decays,
#include "compiler/abi/parameters.def"
#undef PARAMETER
};

const char *const model_op_names[] = {
#define MODEL_OP(name, text) #text,
#include "compiler/abi/model_ops.def"
#undef MODEL_OP
};

const char *const source_names[] = {
#define SOURCE(name, text, unit) #text,
#include "compiler/abi/sources.def"
#undef SOURCE
};
const char *const source_units[] = {
#define SOURCE(name, text, unit) #unit,
#include "compiler/abi/sources.def"
#undef SOURCE
};

const char *const token_format_names[] = {
#define TOKEN_FORMAT(name, text) #text,
#include "compiler/abi/token_formats.def"
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
#include "compiler/abi/tasks.def"
#undef TASK
};

const optimizer_rules optimizer_rules_of[] = {
#define OPTIMIZER(name, text, states, matrices, own, by_default, ...) \
  {#text, states, matrices, own, by_default},
#include "compiler/abi/optimizers.def"
#undef OPTIMIZER
};
