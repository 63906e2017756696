// Python files that call a library from a framework (--emit=numpy, --emit=torch, --emit=jax).
//
// A file has two parts. The generated part has, for each recurrence, its typed functions. The fixed
// part behind it is Python text of this folder, which recc carries: common.py, and NAME_support.py
// of the framework. It reads the library's manifest.
#pragma once

#include "compiler/artifact/abi.h"
#include "compiler/graph/graph.h"

typedef enum binding_framework {
  BINDING_NUMPY,
  BINDING_TORCH,
  BINDING_JAX,
  BINDING_COUNT
} binding_framework;

// The Python file NAME.py for a library, libNAME.so beside it; `graph`: NULL, or the models of the
// file.
char *bindings_print(arena *a, const artifact *library, const graph_program *graph,
                     const char *name, binding_framework framework);

// A folder of Hugging Face's `kernels` (--emit=hf-kernel) has these two files beside the Python
// file for torch, NAME.py, and the library: what `kernels` asks about the kernel, and the package
// that it imports.
#define HF_KERNEL_FOLDER "build/torch-cpu"
const char *hf_kernel_metadata(arena *a, const artifact *library, const char *name);
// note: a line about the metadata, as a comment.
const char *hf_kernel_package(arena *a, const artifact *library, const char *name,
                              const char *note);

// The stem of the Python file and the library of a source file: a name that Python can import.
const char *bindings_module_name(arena *a, const char *path);
