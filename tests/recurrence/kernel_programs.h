// Small recurrences that between them reach every kind of nest: for tests that run kernels.
#ifndef REC_TESTS_RECURRENCE_KERNEL_PROGRAMS_H
#define REC_TESTS_RECURRENCE_KERNEL_PROGRAMS_H

typedef struct kernel_program {
  const char *name, *source;
} kernel_program;

extern const kernel_program kernel_programs[];
extern const int kernel_program_count;

#endif
