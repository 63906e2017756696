// A module of abstract operations becomes PTX, or an object for the executor.
#pragma once

#include "compiler/emit/gpu_ops.h"
#include "compiler/target/target.h"

// The functions of a module, of the host or of GPUs (gpu.c).
void codegen_count_functions(arena *a, const llvm_module *m, codegen_function_sizes *sizes);

// An empty module with NVPTX's data layout, to which gpu_call and kernels are added.
llvm_module gpu_module_new(const char *name);
// In the same context.
llvm_module module_clone(const llvm_module *m);
// Gives the operations of a module PTX, and runs LLVM's passes: once for all targets.
void nvptx_give_bodies(llvm_module *m);
// The text of that for a target; it takes the module, which is good for nothing but to be disposed
// of.
const char *nvptx_emit(arena *a, const llvm_module *with_bodies, codegen_gpu_target target);
// Whether the two devices run the same kernels of the module, and LLVM writes the same for both,
// but for the head.
bool nvptx_same_text(const llvm_module *m, codegen_gpu_target first, codegen_gpu_target second);
// The text of a module without bodies, which stays as it is.
const char *nvptx_text(arena *a, const llvm_module *module, codegen_gpu_target target);
// PTX of another target, whose kernels and instructions are the same, as that of this one.
const char *nvptx_text_for(arena *a, const char *text, codegen_gpu_target target);

// LLVM's passes for GPU code.
void gpu_optimise(const llvm_module *m);

// The object of a clone of the module, to be linked with the executor, made with an effort of 0 to
// 3; `text`: LLVM IR of what it runs, or NULL.
link_object simt_object(arena *a, const llvm_module *module, int level, const char **text);
// PTX of all functions of a module that the passes have gone over; operations get their bodies in
// it.
const char *nvptx_plain_text(arena *a, llvm_module *m);
// Code that is counted becomes what the assembler makes of it. LLVM joins adjacent accesses on the
// way to PTX. ptxas takes invariant instructions out of loops; gpu_optimise leaves that to it,
// since LLVM takes out more than registers hold.
void gpu_assemble(const llvm_module *m);

// The module for each target, added to object->images.
void gpu_make_images(arena *a, llvm_module *m, codegen_gpu_options options,
                     codegen_gpu_object *object);
