// A call of a handler as XLA makes it.
#pragma once

#include "runtime/support/xla.h"

typedef void *handler(xla_frame *frame);

// Positions of operands or of results, for their attribute.
static xla_array positions(size_t count, const int64_t *numbers) {
  return (xla_array){XLA_S64, count, numbers};
}

// Returns the error. `context` is handed to the functions of the interface.
static void *call_handler(handler *run, const xla_api *api, void *context,
                          xla_buffer *const *operands, xla_array read, xla_buffer *const *results,
                          xla_array written) {
  static const int arrays[] = {XLA_ATTRIBUTE_ARRAY, XLA_ATTRIBUTE_ARRAY};
  static const xla_text operands_name = {"operands", 8}, results_name = {"results", 7};
  static const xla_text *const names[] = {&operands_name, &results_name};
  const void *const attributes[] = {&read, &written};
  int types[16];
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) types[i] = XLA_BUFFER;
  xla_frame frame = {.size = sizeof frame,
                     .api = api,
                     .context = context,
                     .stage = XLA_EXECUTE,
                     .operands = {sizeof(xla_buffers), NULL, (int64_t)read.count, types, operands},
                     .results = {sizeof(xla_buffers), NULL, (int64_t)written.count, types, results},
                     .attributes = {sizeof(xla_attributes), NULL, 2, arrays, names, attributes}};
  return run(&frame);
}
