// The pictures of report.html that have files of their own.
#ifndef REC_TRAIN_REPORT_H
#define REC_TRAIN_REPORT_H

#include "runtime/train/session.h"

// Runs gnuplot on a script; false without it or if it fails.
bool report_draw(const char *script, size_t size);
// RUNS/NAME/FILE as text, which the caller frees; NULL: it is not there.
char *report_text(const session *s, const char *name, const char *file);

// The attention maps of an evaluate block as a picture.
bool report_attention(const session *s, const evaluate_block *e, const char *svg);
#endif
