// The page of a run.
#pragma once

#include "runtime/train/model/program.h"

// What the page is made of: a program, its text, and the folder of its runs.
typedef struct report_source {
  const train_program *program;
  const char *runs, *path, *text;
} report_source;

// RUNS/report.html and the plots in it, from whatever the runs have left so far.
rec_status report_write(const report_source *s);

// The attention maps of an evaluate block, the text of attention.csv, as FOLDER/attention.svg;
// false: there is none.
bool report_attention(const evaluate_block *e, const char *csv, const char *folder);
