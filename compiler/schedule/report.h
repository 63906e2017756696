/* The report for people about kernels: what runs, why, and what it costs. */
#ifndef REC_SCHEDULE_REPORT_H
#define REC_SCHEDULE_REPORT_H

#include "../base/number.h"
#include "kernel.h"

/* The lines behind recurrence_report. `dtype`: of inputs and outputs. */
char *schedule_report(arena *arena, const recurrence_kernels *kernels, number_type dtype);

#endif
