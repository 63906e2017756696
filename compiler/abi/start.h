// What recc and rec set up before they do anything, so that the system's troubles end in one line
// each.
#pragma once

// Descriptors 0 to 2 are open, so that no file gets one of them. A write beyond the limit of files
// (ulimit -f) fails in place of ending the process. Where the stack is used up (ulimit -s), a line
// that begins with `name` says so, and the process ends with this status.
void start_program(const char *name, int status);

// What was printed must have arrived, on a disk that may be full: else a line says so, and the status
// is `failed`. A run that has failed, with another status than 0, has said why.
int end_program(const char *name, int status, int failed);
