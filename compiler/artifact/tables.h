/* Internal to compiler/artifact: the table of one recurrence. */
#ifndef REC_ARTIFACT_TABLES_H
#define REC_ARTIFACT_TABLES_H

#include "compiler/artifact/abi.h"
#include "compiler/syntax/syntax.h"

codegen_blob artifact_table(arena *a, const artifact_recurrence *recurrence,
                            const codegen_kernel *compiled, int count, number_type dtype,
                            const char *symbol);

#endif
