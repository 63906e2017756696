// Cubins: NVIDIA's assembler run on the PTX of a library, where there is one, so that no driver has
// to.
//
//   sm_90a.ptx  --ptxas -arch=sm_90a-->  sm_90a.cubin, for compute capability 9.0 alone, beside the PTX
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/artifact/abi.h"
#include "compiler/base/processors.h"

extern char **environ;

enum { MOST_WORDS = 9 };

// One run, and its files.
typedef struct assembly {
  const char *input, *output, *said;
  const char *words[MOST_WORDS];  // of its command line
  pthread_t thread;
  const char *unwritten;  // why there is no input; NULL: there is
  bool started, ran;
  int status;  // what waitpid says of it, once it ran
} assembly;

struct artifact_assembly {
  arena *arena;
  const char *ptxas, *folder;  // of the files; NULL: none could be made, `no_folder` tells why
  const char *no_folder;
  unsigned targets;
  bool lines, tells;
  assembly runs[GPU_TARGET_COUNT];  // by image
};

static void make_assembly_folder(artifact_assembly *all) {
  const char *where = getenv("TMPDIR");
  if (!where || !*where) where = "/tmp";
  all->folder = mkdtemp(arena_printf(all->arena, "%s/recc.XXXXXX", where));
  if (!all->folder)
    all->no_folder =
        arena_printf(all->arena, "cannot make a folder for temporary files in %s (TMPDIR): %s",
                     where, strerror(errno));
}

// When a processor is free.
static void *run_assembly(void *argument) {
  assembly *run = argument;
  pid_t process;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, run->said, O_WRONLY | O_CREAT, 0600);
  processors_take(TURN_LONG);
  run->ran =
      posix_spawnp(&process, run->words[0], &files, NULL, (char **)run->words, environ) == 0 &&
      waitpid(process, &run->status, 0) >= 0;
  processors_give();
  posix_spawn_file_actions_destroy(&files);
  return NULL;
}

static void start_assembly(const artifact_assembly *all, const codegen_gpu_image *image,
                           assembly *run) {
  arena *a = all->arena;
  const char *name = codegen_gpu_target_name(image->target);
  run->input = arena_printf(a, "%s/%s.ptx", all->folder, name);
  run->output = arena_printf(a, "%s/%s.cubin", all->folder, name);
  run->said = arena_printf(a, "%s/%s.said", all->folder, name);
  run->unwritten = write_file(a, run->input, image->text, strlen(image->text), NULL, 0);
  if (run->unwritten) return;
  const char *words[MOST_WORDS] = {all->ptxas, arena_printf(a, "-arch=%s", name), "-o", run->output,
                                   run->input};
  int count = 5;
  if (all->lines) words[count++] = "--generate-line-info";
  if (all->tells) words[count++] = "-v";
  memcpy(run->words, words, sizeof words);
  run->started = pthread_create(&run->thread, NULL, run_assembly, run) == 0;
}

// The whole file, NULL if there is none.
static const char *read_all_bytes(arena *a, const char *path, size_t *size) {
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

// Waits for a run. NULL, or why there is no cubin.
static const char *finish_assembly(const artifact_assembly *all, codegen_gpu_image *image,
                                   assembly *run) {
  arena *a = all->arena;
  const char *ptxas = all->ptxas, *name = codegen_gpu_target_name(image->target);
  if (run->started) pthread_join(run->thread, NULL);
  if (!run->ran) return arena_printf(a, "%s cannot be run", ptxas);
  size_t size = 0;
  if (WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0) {
    image->cubin = read_all_bytes(a, run->output, &image->cubin_bytes);
    if (all->tells) image->said = read_all_bytes(a, run->said, &size);
    if (image->cubin) return NULL;
  }
  const char *said = read_all_bytes(a, run->said, &size);
  size_t line = said ? strcspn(said, "\n") : 0;
  return arena_printf(a, "%s for %s: %.*s", ptxas, name, line ? (int)line : 18,
                      line ? said : "it wrote no cubin");
}

static bool is_wanted_image(const artifact_assembly *all, const codegen_gpu_image *image) {
  return image->target != GPU_SIMT && all->targets >> image->target & 1;
}

artifact_assembly *artifact_assemble_begin(arena *a, const char *ptxas, unsigned targets,
                                           bool lines, bool tells) {
  artifact_assembly *all = ARENA_NEW(a, artifact_assembly);
  *all = (artifact_assembly){
      .arena = a, .ptxas = ptxas, .targets = targets, .lines = lines, .tells = tells};
  make_assembly_folder(all);
  return all;
}

void artifact_assemble_image(void *assembly_of_all, int image, const codegen_gpu_image *made) {
  artifact_assembly *all = assembly_of_all;
  if (all->folder && is_wanted_image(all, made)) start_assembly(all, made, &all->runs[image]);
}

const char *artifact_assemble_end(artifact_assembly *all, codegen_gpu_object *gpu, bool *no_files) {
  const char *wrong = NULL;
  *no_files = !all->folder;
  if (!all->folder) return all->no_folder;
  for (int i = 0; i < gpu->images.count; i++) {
    codegen_gpu_image *image = &gpu->images.items[i];
    assembly *run = &all->runs[i];
    if (!is_wanted_image(all, image)) continue;
    const char *why = run->unwritten ? run->unwritten : finish_assembly(all, image, run);
    *no_files |= run->unwritten != NULL;
    if (!wrong) wrong = why;
    unlink(run->input);
    unlink(run->output);
    unlink(run->said);
  }
  rmdir(all->folder);
  return wrong;
}
