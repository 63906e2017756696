// Between tensor files and calls: the rules of `rec apply` (names, shapes, element types).
#pragma once

#include "runtime/module.h"

// A call whose buffers belong to it.
typedef struct rec_binding {
  const rec_signature *signature;
  const rec_device *device;
  bool backward;
  rec_call call;
  int64_t *axis_sizes;
  int32_t *cu_seqlens;
} rec_binding;

// Reads every input, parameter, initial state and cotangent of `file`, checks them against the
// signature and makes room for the results. On an error the binding is empty.
rec_status rec_bind(const rec_signature *signature, const rec_device *device, const rec_file *file,
                    bool backward, rec_binding *binding);
// Outputs and final states, after `backward` the gradients too.
rec_status rec_binding_write(const rec_binding *binding, const char *path);
void rec_binding_free(rec_binding *binding);
