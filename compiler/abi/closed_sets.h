// The closed sets of a training program: the language, the manifest and the runtime name their
// members alike. Each set is a list of rows in a file of this folder. This header makes
// enumerations and tables of them; the front end, which librec has, holds the tables.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef enum intervention_kind {
#define INTERVENTION(name, ...) FROM_##name,
#include "compiler/abi/interventions.def"
#undef INTERVENTION
  INTERVENTION_KINDS
} intervention_kind;

extern const char *const intervention_names[INTERVENTION_KINDS];
// fitted_noise(beta = 0.1, per = [axes])
extern const char *const intervention_written[INTERVENTION_KINDS];
extern const bool intervention_noise[INTERVENTION_KINDS];

typedef enum schedule_kind {
#define SCHEDULE(name, ...) SCHEDULE_##name,
#include "compiler/abi/schedules.def"
#undef SCHEDULE
  SCHEDULE_KINDS
} schedule_kind;

extern const char *const schedule_names[SCHEDULE_KINDS];
extern const int schedule_settings[SCHEDULE_KINDS];

typedef enum distance_kind {
#define DISTANCE(name, ...) DISTANCE_##name,
#include "compiler/abi/distances.def"
#undef DISTANCE
  DISTANCE_KINDS
} distance_kind;

extern const char *const distance_names[DISTANCE_KINDS];

typedef enum exchange_kind {
#define EXCHANGE(name, ...) EXCHANGE_##name,
#include "compiler/abi/exchanges.def"
#undef EXCHANGE
  EXCHANGE_KINDS
} exchange_kind;

extern const char *const exchange_names[EXCHANGE_KINDS];

typedef enum parameter_kind {
#define PARAMETER(name, ...) PARAMETER_##name,
#include "compiler/abi/parameters.def"
#undef PARAMETER
  PARAMETER_KINDS
} parameter_kind;

extern const char *const parameter_kind_names[PARAMETER_KINDS];
extern const bool parameter_kind_decays[PARAMETER_KINDS];

typedef enum model_op_kind {
#define MODEL_OP(name, ...) OP_##name,
#include "compiler/abi/model_ops.def"
#undef MODEL_OP
} model_op_kind;

extern const char *const model_op_names[OP_LOSS + 1];

typedef enum source_kind {
#define SOURCE(name, ...) SOURCE_##name,
#include "compiler/abi/sources.def"
#undef SOURCE
  SOURCES
} source_kind;

extern const char *const source_names[SOURCES];
extern const char *const source_units[SOURCES];

typedef enum token_format {
#define TOKEN_FORMAT(name, ...) FORMAT_##name,
#include "compiler/abi/token_formats.def"
#undef TOKEN_FORMAT
  TOKEN_FORMATS
} token_format;

extern const char *const token_format_names[TOKEN_FORMATS];

typedef enum task_kind {
#define TASK(name, ...) TASK_##name,
#include "compiler/abi/tasks.def"
#undef TASK
  TASK_KINDS
} task_kind;

// What a generated task reads and asks for.
typedef struct task_rules {
  task_kind kind;
  const char *name;           // mqar
  const char *settings[5];    // NULL: not there
  int symbols;                // beyond the alphabet, if it has one
  bool text;                  // in bytes: no alphabet
  int least, least_for_each;  // length: least + least_for_each * count
  int tokens_for_each, tokens_beyond, tokens_for_each_count;
} task_rules;

extern const task_rules task_rules_of[TASK_KINDS];

typedef enum optimizer_kind {
#define OPTIMIZER(name, ...) OPTIMIZER_##name,
#include "compiler/abi/optimizers.def"
#undef OPTIMIZER
  OPTIMIZERS
} optimizer_kind;

typedef struct optimizer_rules {
  const char *name;
  int states;       // numbers that it keeps for each weight
  bool matrices;    // it steps hidden matrices alone; AdamW steps the other weights
  const char *own;  // a setting from 0 to 1 beyond those of AdamW, or NULL
  double by_default;
} optimizer_rules;

extern const optimizer_rules optimizer_rules_of[OPTIMIZERS];
