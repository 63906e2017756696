// What assembler and disassembler tell of a target's machine code, where they are.
//
//   ptxas -v:      Compiling entry function 'k' for 'sm_90a' .. 0 bytes stack frame .. Used 89 registers
//   nvdisasm -c:   .text.k:   /*0040*/  @!P0 EXIT ;
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compiler/abi/gpu_model.h"
#include "compiler/artifact/abi.h"

extern char **environ;

// ---- ptxas -----------------------------------------------------------------------------------

// The number behind `before`, up to `end`; -1: there is none.
static int number_behind(const char *text, const char *end, const char *before) {
  const char *found = strstr(text, before);
  return found && found < end ? atoi(found + strlen(before)) : -1;
}

// The number in front of `behind`.
static int number_before(const char *text, const char *end, const char *behind) {
  const char *found = strstr(text, behind);
  if (!found || found >= end) return -1;
  while (found > text && found[-1] >= '0' && found[-1] <= '9') found--;
  return atoi(found);
}

static void read_kernel(const char *text, const char *end, gpu_model_code *code) {
  char own[200];
  snprintf(own, sizeof own, "Function properties for %s\n", code->kernel);
  code->registers = number_behind(text, end, "Used ");
  const char *properties = strstr(text, own);
  if (!properties || properties >= end) return;
  code->stack = number_before(properties, end, " bytes stack frame");
  int stores = number_before(properties, end, " bytes spill stores"),
      loads = number_before(properties, end, " bytes spill loads");
  code->spilled = stores < 0 || loads < 0 ? -1 : stores + loads;
}

static void read_assembler(arena *a, const char *said, artifact_codes *codes) {
  static const char begin[] = "Compiling entry function '";
  for (const char *at = strstr(said, begin), *next; at; at = next) {
    const char *name = at + strlen(begin);
    next = strstr(name, begin);
    struct gpu_model_code code = {
        arena_strndup(a, name, strcspn(name, "'")), -1, -1, -1, -1, -1, -1};
    read_kernel(name, next ? next : name + strlen(name), &code);
    vec_push(a, codes, code);
  }
}

// ---- nvdisasm --------------------------------------------------------------------------------

// The kernel whose code begins in this line; NULL: none does.
static gpu_model_code *code_of_line(artifact_codes *codes, const char *line, size_t length) {
  static const char begin[] = ".text.";
  if (strncmp(line, begin, strlen(begin)) != 0 || line[length - 1] != ':') return NULL;
  for (int i = 0; i < codes->count; i++) {
    const char *own = codes->items[i].kernel;
    if (strlen(own) == length - strlen(begin) - 1 &&
        strncmp(line + strlen(begin), own, strlen(own)) == 0)
      return &codes->items[i];
  }
  return NULL;
}

static bool word_begins_with(const char *word, const char *what) {
  return strncmp(word, what, strlen(what)) == 0;
}

// Counts an instruction of the disassembler: "/*0040*/ @!P0 EXIT ;".
static void count_disassembled(gpu_model_code *code, const char *line) {
  const char *word = strstr(line, "*/");
  if (!word) return;
  word += strlen("*/");
  word += strspn(word, " \t");
  if (*word == '@') word += strcspn(word, " "), word += strspn(word, " ");
  code->instructions++;
  code->branches += word_begins_with(word, "BRA") || word_begins_with(word, "CALL") ||
                    word_begins_with(word, "RET");
  code->specials += word_begins_with(word, "MUFU");
}

static void read_disassembler(FILE *text, artifact_codes *codes) {
  char line[1024];
  gpu_model_code *now = NULL;
  for (int i = 0; i < codes->count; i++)
    codes->items[i].instructions = codes->items[i].branches = codes->items[i].specials = 0;
  while (fgets(line, sizeof line, text)) {
    size_t length = strcspn(line, "\n"), blank = strspn(line, " \t");
    if (length && line[0] == '.' && word_begins_with(line, ".text."))
      now = code_of_line(codes, line, length);
    if (now && word_begins_with(line + blank, "/*")) count_disassembled(now, line);
  }
}

// Runs `nvdisasm -c` on a cubin. False: it cannot be run, or says nothing.
static bool disassemble(const char *program, const char *cubin, const char *output) {
  pid_t process;
  int status = 1;
  posix_spawn_file_actions_t files;
  const char *words[] = {program, "-c", cubin, NULL};
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_TRUNC,
                                   0600);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  bool ran = posix_spawnp(&process, program, &files, NULL, (char **)words, environ) == 0 &&
             waitpid(process, &status, 0) >= 0;
  posix_spawn_file_actions_destroy(&files);
  return ran && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void add_instructions(arena *a, const codegen_gpu_image *image, artifact_codes *codes) {
  const char *program = getenv("REC_NVDISASM"), *where = getenv("TMPDIR");
  char *folder = mkdtemp(arena_printf(a, "%s/recc.XXXXXX", where && *where ? where : "/tmp"));
  if (!folder) return;
  const char *cubin = arena_printf(a, "%s/cubin", folder),
             *output = arena_printf(a, "%s/sass", folder);
  bool written = write_file(a, cubin, image->cubin, image->cubin_bytes, NULL, 0) == NULL;
  FILE *text = written && disassemble(program && *program ? program : "nvdisasm", cubin, output)
                   ? fopen(output, "r")
                   : NULL;
  if (text) read_disassembler(text, codes);
  if (text) fclose(text);
  unlink(cubin);
  unlink(output);
  rmdir(folder);
}

artifact_codes artifact_machine_codes(arena *a, const codegen_gpu_object *object,
                                      codegen_gpu_target target) {
  artifact_codes codes = {0};
  vec_each(const codegen_gpu_image, image, object->images) {
    if (image->target != target || !image->said) continue;
    read_assembler(a, image->said, &codes);
    if (image->cubin) add_instructions(a, image, &codes);
  }
  return codes;
}
