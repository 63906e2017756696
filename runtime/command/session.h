// Subcommands that work on the training program of a file.
#pragma once

#include "runtime/command/command.h"
#include "runtime/train/session.h"

// Opens the module and a session on it, whose models run on the device of `module`, for `run`.
// Returns what that returns, or the exit status after printing why there is no session.
int with_session(const module_request *module, const session_options *options,
                 int (*run)(session *s, void *request), void *request);

// --device, -D, --dtype, --chunk of a request with a `module`.
#define SESSION_MODULE_OPTIONS                                                               \
  OF_MODULE("--device", "host|cuda|simt", OPTION_DEVICE,                                     \
            "host (default); cuda, a GPU; simt, the GPU's code run and checked on the CPU"), \
      OF_MODULE("-D", "axis=size", OPTION_DEFINE, "a size, for a .rec file, as in recc"),    \
      OF_MODULE("--dtype", "f32|f64|bf16", OPTION_DTYPE,                                     \
                "element type of tokens for a .rec file"),                                   \
      OF_MODULE("--chunk", "N", OPTION_RECC, "steps in a chunk for a .rec file"),            \
      OF_MODULE("--form", "F", OPTION_RECC, NULL), OF_MODULE("--check", NULL, OPTION_RECC, NULL)
