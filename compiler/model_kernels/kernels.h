// The GPU kernels of models (compiler/abi/model_kernels.h), in one module for both types of rows.
// Made once, when rec is built (compiler/model_kernels.c): librec carries them.
#pragma once

#include <stddef.h>

#include "compiler/abi/model_kernels.h"
#include "compiler/emit/link.h"
#include "compiler/kernel/gpu/gpu.h"

// PTX for sm_80, and an object for the executor.
typedef struct gpu_model_images {
  const char *ptx;
  link_object executor;
} gpu_model_images;

gpu_model_images codegen_gpu_model(arena *a);

// A kernel while it is being written.
typedef struct model_kernel {
  emitter *e;
  number_type rows;  // type of numbers in rows
  ir parameter, thread, block, blocks;
  ir first, all;  // of the threads of all blocks: this one's number, how many
} model_kernel;

// Fields of the parameter.
ir model_number(const model_kernel *k, size_t offset);
ir model_pointer(const model_kernel *k, size_t offset);

// A number of a tensor of that type.
ir model_load(const model_kernel *k, number_type type, ir data, ir place);
void model_store(const model_kernel *k, number_type type, ir x, ir data, ir place);

void model_barrier(const model_kernel *k);

// product.c; `to`: the type of the product.
void model_product_body(const model_kernel *k, number_type b, number_type to);
