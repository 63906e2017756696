// Inside the readers of train and evaluate blocks: settings.c, recipe.c, initial_state.c;
// setting_values.c is what they share.
#pragma once

#include "compiler/graph/build.h"

enum {
  MODEL,
  INIT,
  DATA,
  CONTEXT,
  BATCH,
  STEPS,
  SEED,
  OPTIMIZER,
  SCHEDULE,
  ACCUMULATE,
  SEGMENTS,
  EXCHANGE,
  LOSS,
  INITIAL_STATE,
  SETTING_COUNT
};
extern const char *const setting_names[SETTING_COUNT];

// A train block while it is read.
typedef struct train_settings {
  graph_builder *b;
  graph_train *train;
  sema_scope *scope;                           // for constants
  const ast_setting *settings[SETTING_COUNT];  // its own or inherited, or NULL
  const ast_expr *floor;                       // of the schedule; NULL: none
} train_settings;

// The arguments of `NAME(arg = value, ..)`.
typedef struct setting_call {
  const char *const *names;
  int count;
  const ast_expr *values[8];
  const ast_expr *positional;
  bool pairs;  // `a -> b` may stand among them: they are the caller's to read
} setting_call;

// Checks the names and that each stands once. `positional`: one argument may stand without.
bool setting_arguments(train_settings *k, const ast_expr *e, setting_call *call, bool positional);
// The value of a setting that is no block. NULL after an error.
const ast_expr *setting_value(train_settings *k, int setting, const char *wanted);
// A whole number from `least` on; `by_default` where the setting is not there, below 0: it must be.
bool setting_whole(train_settings *k, int setting, int64_t least, int64_t by_default, int64_t *x);
// "" if it is no name and no call
const char *setting_callee(const ast_expr *e);
const char *setting_list(arena *memory, const char *const *names, int count);    // a, b, c
const char *setting_choice(arena *memory, const char *const *names, int count);  // a, b or c
// A number, or a percentage of the whole.
bool setting_part(train_settings *k, const ast_expr *e, const char *what, double whole, double *x);
bool setting_in_range(train_settings *k, const ast_expr *at, const char *what, double x, double low,
                      double high);
// They leave *x as it is if `e` is NULL. setting_share: 10% is 0.1.
bool setting_optional(train_settings *k, const ast_expr *e, const char *what, double low,
                      double high, double *x);
bool setting_share(train_settings *k, const ast_expr *e, const char *what, double low, double high,
                   double *x);
// layers(a..b)
bool setting_layers(train_settings *k, const ast_expr *filter, int *first, int *last);

// ---- recipe.c ----
bool read_optimizer(train_settings *k);
bool read_schedule(train_settings *k);  // after the optimizer
bool check_floor(const train_settings *k);
bool read_loss(train_settings *k);

// ---- source.c ----
// The file of the data `e`, which comes after the model. `values`: by place in the names of its
// rules.
bool source_read(train_settings *k, const ast_expr *e, const ast_expr *file,
                 const ast_expr *const *values);

// ---- initial_state.c ----
bool read_initial_state(train_settings *k);
