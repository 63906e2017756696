// The types of numbers. `--dtype` names the type in which tokens (inputs, outputs and their
// gradients) are stored. The 16-bit types are storage alone: parameters, states and all arithmetic
// are then f32.
#pragma once

#include <stdbool.h>
#include <string.h>

typedef enum number_type {
  NUMBER_F32,
  NUMBER_F64,
  NUMBER_BF16,
  NUMBER_F16,
  NUMBER_TYPE_COUNT
} number_type;

static inline const char *number_type_text(number_type type) {
  static const char *const texts[NUMBER_TYPE_COUNT] = {"f32", "f64", "bf16", "f16"};
  return texts[type];
}

static inline bool number_type_find(const char *text, number_type *type) {
  for (int i = 0; i < NUMBER_TYPE_COUNT; i++) {
    if (strcmp(number_type_text((number_type)i), text) != 0) continue;
    *type = (number_type)i;
    return true;
  }
  return false;
}

static inline bool number_is_narrow(number_type type) {
  return type == NUMBER_BF16 || type == NUMBER_F16;
}

static inline int number_type_bytes(number_type type) {
  return number_is_narrow(type) ? 2 : type == NUMBER_F64 ? 8 : 4;
}

// Bytes of a number in memory, where computing is in f64 or f32.
static inline int number_stored_bytes(number_type stored, bool f64) {
  return number_is_narrow(stored) ? 2 : f64 ? 8 : 4;
}
