// What calls.c sends to driver.c, and what comes back. Both processors have the same sizes and
// order of bytes.
//
//   request: arm_call, the arguments, for each buffer an arm_buffer and its bytes   ->   answer: arm_answer, the bytes of all buffers
#pragma once

#include <stdint.h>

typedef struct arm_call {
  char library[256], symbol[128];  // a path, NAME
  int32_t step, backward, recompute;
  int32_t buffers;
  int64_t arguments_size, threads;
} arm_call;

// A tensor that the arguments point to, at this offset.
typedef struct arm_buffer {
  int64_t offset, bytes;
} arm_buffer;

typedef struct arm_answer {
  int32_t status;
  char message[508];
} arm_answer;
