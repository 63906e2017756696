// model-kernels OUT.ptx OUT.o: writes the GPU kernels of models, for librec. Run by the build.
#include <stdio.h>
#include <string.h>

#include "compiler/model_kernels/kernels.h"

static int write_bytes(const char *path, const void *bytes, size_t size) {
  FILE *file = fopen(path, "wb");
  if (!file || fwrite(bytes, 1, size, file) != size || fclose(file)) {
    perror(path);
    return 1;
  }
  return 0;
}

int main(int count, char **words) {
  if (count != 3) {
    fprintf(stderr, "usage: model-kernels OUT.ptx OUT.o\n");
    return 2;
  }
  arena *a = arena_new();
  gpu_model_images images = codegen_gpu_model(a);
  int status = write_bytes(words[1], images.ptx, strlen(images.ptx));
  if (!status) status = write_bytes(words[2], images.executor.bytes, images.executor.size);
  arena_free(a);
  return status;
}
