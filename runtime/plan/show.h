// Predictions as a table with its conclusions, as JSON, as a picture.
#ifndef REC_PLAN_SHOW_H
#define REC_PLAN_SHOW_H

#include <stdio.h>

#include "runtime/plan/predict.h"

typedef struct plan_shown {
  const plan_program *program;
  const plan_request *request;
  const predictions *found;
  const char *times_from, *network_from;  // files; NULL: measured
} plan_shown;

void plan_print(FILE *out, const plan_shown *s);
// An object with the members program, times, network, predictions; a file of times or of a network may be cut from it.
rec_status plan_print_json(FILE *out, const plan_shown *s);
// An error if the files of plan_draw are inputs, or another's.
rec_status plan_may_draw(const char *folder, bool again);
// FOLDER/plan.csv, and FOLDER/plan.svg if gnuplot is there.
rec_status plan_draw(const plan_shown *s, const char *folder, bool *drawn);

#endif
