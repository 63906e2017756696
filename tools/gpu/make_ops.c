// Writes the kernels of gpu_op_kernels: OUT.ptx and OUT_sm_90a.ptx for GPUs, and OUT.o, the same
// for the executor. Part of the build.
#include <stdio.h>
#include <string.h>

#include "compiler/artifact/abi.h"
#include "tools/gpu/op_kernels.h"

int main(int count, char **words) {
  if (count != 2) return 2;
  arena *a = arena_new();
  const char *wrong = NULL;
  const codegen_gpu_object *ops =
      gpu_op_kernels(a, 1u << GPU_SM_80 | 1u << GPU_SM_90A | 1u << GPU_SIMT);
  for (int i = 0; i < ops->images.count && !wrong; i++) {
    const codegen_gpu_image *image = &ops->images.items[i];
    bool ptx = image->target != GPU_SIMT;
    const char *of = image->target == GPU_SM_90A ? "_sm_90a" : "";
    const char *path = arena_printf(a, "%s%s.%s", words[1], of, ptx ? "ptx" : "o");
    wrong = ptx ? write_file(a, path, image->text, strlen(image->text), NULL, 0)
                : write_file(a, path, image->object.bytes, image->object.size, NULL, 0);
  }
  if (wrong) fprintf(stderr, "%s\n", wrong);
  arena_free(a);
  return wrong != NULL;
}
