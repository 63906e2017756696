/* Cubins: NVIDIA's assembler run on the PTX of a library, where there is one, so that no driver has to.
 *
 *   sm_90a.ptx  --ptxas -arch=sm_90a-->  sm_90a.cubin, for compute capability 9.0 alone, beside the PTX
 */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/artifact/abi.h"

extern char **environ;

/* One run, and its files in a folder of their own. */
typedef struct assembly {
  const char *input, *output, *said;
  pid_t process; /* 0: not started */
} assembly;

static const char *folder_path(arena *a) {
  const char *where = getenv("TMPDIR");
  char *path = arena_printf(a, "%s/recc.XXXXXX", where && *where ? where : "/tmp");
  return mkdtemp(path);
}

static void start(arena *a, const char *ptxas, const char *folder, codegen_gpu_image *image,
                  bool lines, assembly *run) {
  const char *name = codegen_gpu_target_name(image->target);
  run->input = arena_printf(a, "%s/%s.ptx", folder, name);
  run->output = arena_printf(a, "%s/%s.cubin", folder, name);
  run->said = arena_printf(a, "%s/%s.said", folder, name);
  if (write_file(a, run->input, image->text, strlen(image->text), false)) return;
  const char *words[] = {ptxas,      arena_printf(a, "-arch=%s", name),     "-o", run->output,
                         run->input, lines ? "--generate-line-info" : NULL, NULL};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, run->said, O_WRONLY | O_CREAT, 0600);
  if (posix_spawnp(&run->process, ptxas, &files, NULL, (char **)words, environ) != 0)
    run->process = 0;
  posix_spawn_file_actions_destroy(&files);
}

/* The whole file, NULL if there is none. */
static const char *read_all(arena *a, const char *path, size_t *size) {
  struct stat status;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  char *bytes = NULL;
  if (file >= 0 && fstat(file, &status) == 0) {
    *size = (size_t)status.st_size;
    bytes = arena_alloc(a, *size + 1);
    if (read(file, bytes, *size) != status.st_size) bytes = NULL;
    if (bytes) bytes[*size] = 0;
  }
  if (file >= 0) close(file);
  return bytes;
}

/* Waits for a run. NULL, or why there is no cubin. */
static const char *finish(arena *a, const char *ptxas, codegen_gpu_image *image, assembly *run) {
  const char *name = codegen_gpu_target_name(image->target);
  int status = 0;
  if (!run->process || waitpid(run->process, &status, 0) < 0)
    return arena_printf(a, "%s cannot be run", ptxas);
  size_t size = 0;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    image->cubin = read_all(a, run->output, &image->cubin_bytes);
    if (image->cubin) return NULL;
  }
  const char *said = read_all(a, run->said, &size);
  size_t line = said ? strcspn(said, "\n") : 0;
  return arena_printf(a, "%s for %s: %.*s", ptxas, name, line ? (int)line : 18,
                      line ? said : "it wrote no cubin");
}

const char *artifact_assemble(arena *a, const char *ptxas, unsigned targets, bool lines,
                              codegen_gpu_object *gpu) {
  targets &= ~(1u << GPU_SIMT);
  const char *folder = folder_path(a), *wrong = NULL;
  if (!folder) return "no folder for temporary files";
  assembly runs[GPU_TARGET_COUNT] = {{0}};
  for (int i = 0; i < gpu->images.count; i++) {
    codegen_gpu_image *image = &gpu->images.items[i];
    if (targets >> image->target & 1) start(a, ptxas, folder, image, lines, &runs[i]);
  }
  for (int i = 0; i < gpu->images.count; i++) {
    codegen_gpu_image *image = &gpu->images.items[i];
    if (!(targets >> image->target & 1)) continue;
    const char *why = finish(a, ptxas, image, &runs[i]);
    if (!wrong) wrong = why;
    unlink(runs[i].input);
    unlink(runs[i].output);
    unlink(runs[i].said);
  }
  rmdir(folder);
  return wrong;
}
