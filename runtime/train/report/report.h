// The page of a run.
#ifndef REC_TRAIN_REPORT_H
#define REC_TRAIN_REPORT_H

#include "runtime/train/report/plot.h"
#include "runtime/train/session.h"

// RUNS/NAME/FILE as text, which the caller frees; NULL: it is not there.
char *report_text(const session *s, const char *name, const char *file);

// The attention maps of an evaluate block as a picture.
bool report_attention(const session *s, const evaluate_block *e, const char *svg);
#endif
