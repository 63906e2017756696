// Event files for TensorBoard: scalars by step.
#pragma once

#include <stdio.h>

#include "runtime/internal.h"

typedef struct event_scalar {
  const char *tag;
  double value;
} event_scalar;

uint32_t events_crc(const void *bytes, size_t size);  // CRC-32C

// Takes away the event files of the folder that begin at this step or later. That of judging begins
// at 0.
void events_remove_from(const char *folder, int64_t step);
// FOLDER/events.out.tfevents.STEP, from this step on, in place of those that begin there or later.
// TensorBoard leaves out later events of earlier files.
rec_status events_open(const char *folder, int64_t step, FILE **made);
// One event with all these scalars.
rec_status events_put(FILE *file, int64_t step, const event_scalar *scalars, int count);

// FOLDER/events.out.tfevents.judged: what judging left there as CSV, bits, states and remembrance
// by position, accuracy by length. None if there is nothing.
rec_status events_of_tables(const char *folder);
