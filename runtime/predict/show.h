// Predictions as a table with its conclusions, as JSON, as a picture.
#pragma once

#include <stdio.h>

#include "runtime/predict/predict.h"

typedef struct shown_predictions {
  const predicted_program *program;
  const prediction_request *request;
  const predictions *found;
  const char *times_from, *network_from;  // files; NULL: measured
} shown_predictions;

void predictions_print(FILE *out, const shown_predictions *s);
// An object with the members program, times, network, predictions; a file of times or of a network
// may be cut from it.
rec_status predictions_print_json(FILE *out, const shown_predictions *s);
// An error if the files of predictions_draw are inputs, or another's.
rec_status predictions_may_draw(const char *folder, bool again);
// FOLDER/plan.csv, and FOLDER/plan.svg if gnuplot is there.
rec_status predictions_draw(const shown_predictions *s, const char *folder, bool *drawn);
