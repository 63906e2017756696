/* The GPU path: kernels as LLVM IR over abstract operations, and the two ways to give those bodies.
 *
 *   kernel/gpu/ tile programs -> a module whose kernels call rec.barrier, rec.mma_m16n8k16_bf16, .. (gpu_ops.def)
 *   ptx.c       the module with NVPTX bodies -> PTX
 *   executor.c  the module with calls of the executor -> an x86-64 object
 */
#ifndef REC_KERNEL_GPU_GPU_H
#define REC_KERNEL_GPU_GPU_H

#include "compiler/emit/emit.h"

typedef enum gpu_op {
#define GPU_OP(id, name, result, arguments, kind, section, map) GPU_##id,
#include "compiler/emit/gpu_ops.def"
#undef GPU_OP
  GPU_OP_COUNT
} gpu_op;

typedef enum gpu_op_kind { GPU_PURE, GPU_WARP, GPU_GROUP, GPU_BLOCK, GPU_MEMORY } gpu_op_kind;

typedef struct gpu_op_row {
  const char *name, *result, *arguments;
  gpu_op_kind kind;
  const char *section, *map;
} gpu_op_row;

extern const gpu_op_row gpu_ops[GPU_OP_COUNT];

enum { GPU_GLOBAL = 1, GPU_SHARED_MEMORY = 3, GPU_KERNEL_CONVENTION = 71, GPU_MOST_ARGUMENTS = 40 };
/* Of a block that shares out the points of nests, if its kernel does not say (kernel.threads). */
enum { GPU_BLOCK_THREADS = 256 };

LLVMTypeRef gpu_letter_type(LLVMContextRef context, char letter);
/* Letters of the table written out, `4fi` as `ffffi`. */
int gpu_letters(const char *text, char letters[GPU_MOST_ARGUMENTS + 1]);
/* How many registers a result has. */
int gpu_result_count(const gpu_op_row *row);
/* Rows that other targets than sm_90a lack: from this one on. */
enum { GPU_FIRST_OF_HOPPER = GPU_SHARED_ADDRESS };
LLVMTypeRef gpu_op_type(LLVMContextRef context, const gpu_op_row *row);
/* The declaration `rec.name` of the module; NULL if `declare` is false and nobody called it. */
LLVMValueRef gpu_op_function(LLVMModuleRef module, gpu_op op, bool declare);
ir gpu_call(emitter *e, gpu_op op, const ir *args, int count);

/* Of the function of a kernel that is not for all devices: its room, as a digit. */
extern const char gpu_room_attribute[];

/* emit/contract.c: products and sums that fuse. */
void gpu_contract(llvm_module *m);

/* An empty module with NVPTX's data layout, to which gpu_call and kernels are added. */
llvm_module gpu_module_new(const char *name);
/* A clone of the module with PTX for its operations, after LLVM's passes: once for all targets. */
llvm_module nvptx_bodies(const llvm_module *module);
/* PTX of a clone of that, and of a module without bodies; it stays as it is. */
const char *nvptx_emit(arena *a, const llvm_module *with_bodies, codegen_gpu_target target);
/* Whether the two devices run the same kernels of the module, and LLVM writes the same for both, but for the head. */
bool nvptx_same_text(const llvm_module *m, codegen_gpu_target first, codegen_gpu_target second);
const char *nvptx_text(arena *a, const llvm_module *module, codegen_gpu_target target);
/* PTX of another target, whose kernels and instructions are the same, as that of this one. */
const char *nvptx_text_for(arena *a, const char *text, codegen_gpu_target target);

/* LLVM's passes for GPU code. */
void gpu_optimise(const llvm_module *m);

/* The object of a clone of the module, to be linked with the executor; `text`: LLVM IR of what it runs, or NULL. */
link_object simt_object(arena *a, const llvm_module *module, const char **text);
/* kernel/gpu/kernel.c: opens a kernel of that name with a parameter of so many bytes. */
ir gpu_kernel_function(emitter *e, const char *symbol, int64_t bytes, int threads);
/* The module for each target, added to object->images. */
void gpu_make_images(arena *a, llvm_module *m, codegen_gpu_options options, codegen_gpu_object *object);
/* kernel/gpu/cache.c: blocks that a multiprocessor runs at a time; whether their scratch stays in the second level cache. */
int64_t gpu_blocks_at_a_time(const kernel *k, const codegen_gpu_kernel *described);
bool gpu_stays_in_cache(const kernel *k, const codegen_gpu_kernel *described);
/* reductions.c: the sums of a rec_gpu_sum_list and the tasks behind it, by threads of which this one has the number `first`. */
void gpu_sum_copies(emitter *e, ir list, ir first, ir threads);
void gpu_sum_kernel(arena *a, llvm_module *m);
/* A number as `stored` (an i64, REC_STORED_..) says. */
void gpu_store_as(emitter *e, ir stored, ir data, ir at, ir x);
/* kernel/gpu/delay.c: the kernel `rec_gpu_rows`; whether the kernels of a recurrence need it. */
void gpu_delay_kernel(arena *a, llvm_module *m);
bool gpu_has_delays(const recurrence *r);

/* The kernels of a module: functions with the convention of kernels, of one parameter `ptr byval([n x i8])`. */
bool gpu_is_kernel(LLVMValueRef function);

#endif
