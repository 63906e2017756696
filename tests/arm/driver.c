// Runs calls of libraries for aarch64 that it reads from standard input, under qemu-aarch64.
// Nothing of rec is linked into it. Tensors end where a page begins that must not be touched.
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/abi/launch.h"
#include "tests/arm/call.h"

typedef int (*entry)(const void *arguments, const rec_launch *launch);
typedef int (*sizes_entry)(const void *arguments, rec_sizes *sizes);

static void stop(const char *what) {
  fprintf(stderr, "driver: %s\n", what);
  exit(2);
}

static bool receive(void *to, size_t size) { return fread(to, 1, size, stdin) == size; }
static void must_receive(void *to, size_t size) {
  if (!receive(to, size)) stop("the request ends early");
}
static void send_back(const void *from, size_t size) {
  if (fwrite(from, 1, size, stdout) != size) stop("the answer is not read");
}

static size_t whole_pages(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  return (bytes + page - 1) / page * page;
}

static char *before_a_wall(size_t bytes) {
  size_t pages = whole_pages(bytes), wall = whole_pages(1);
  char *memory =
      mmap(NULL, pages + wall, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory + pages, wall, PROT_NONE)) stop("no memory");
  return memory + pages - bytes;
}

static void free_before_a_wall(char *buffer, size_t bytes) {
  munmap(buffer + bytes - whole_pages(bytes), whole_pages(bytes) + whole_pages(1));
}

// The libraries stay open: each has its own name.
static void find(const arm_call *c, const char *name, const char *suffix, void *function) {
  char whole[256];
  void *library = dlopen(c->library, RTLD_NOW | RTLD_LOCAL);
  if (!library) stop(dlerror());
  snprintf(whole, sizeof whole, "%s%s", name, suffix);
  void *found = dlsym(library, whole);
  if (!found) stop(dlerror());
  memcpy(function, &found, sizeof found);
}

static void *aligned(int64_t bytes) {
  void *memory = bytes ? aligned_alloc(REC_ALIGNMENT, ((size_t)bytes + REC_ALIGNMENT - 1) /
                                                          REC_ALIGNMENT * REC_ALIGNMENT)
                       : NULL;
  if (bytes && !memory) stop("no memory");
  return memory;
}

static int run(const arm_call *c, const void *arguments) {
  rec_sizes sizes = {.size = sizeof sizes};
  rec_launch launch = {.size = sizeof launch,
                       .abi_major = REC_ABI_MAJOR,
                       .abi_minor = REC_ABI_MINOR,
                       .threads = c->threads};
  sizes_entry ask;
  entry forward, backward;
  find(c, c->symbol, "_sizes", &ask);
  find(c, c->symbol, c->step ? "_step" : "_forward", &forward);
  find(c, c->symbol, "_backward", &backward);
  int status = ask(arguments, &sizes);
  if (status) return status;
  launch.workspace = aligned(launch.workspace_bytes = sizes.workspace);
  if (c->backward && !c->recompute) launch.saved = aligned(launch.saved_bytes = sizes.saved);
  status = forward(arguments, &launch);
  if (!status && c->backward) status = backward(arguments, &launch);
  free(launch.workspace);
  free(launch.saved);
  return status;
}

static void answer(const arm_call *c) {
  char *arguments = calloc(1, (size_t)c->arguments_size + 1),
       **data = calloc((size_t)c->buffers + 1, sizeof *data);
  arm_buffer *buffers = calloc((size_t)c->buffers + 1, sizeof *buffers);
  if (!arguments || !data || !buffers) stop("no memory");
  must_receive(arguments, (size_t)c->arguments_size);
  for (int i = 0; i < c->buffers; i++) {
    must_receive(&buffers[i], sizeof *buffers);
    data[i] = before_a_wall((size_t)buffers[i].bytes);
    must_receive(data[i], (size_t)buffers[i].bytes);
    memcpy(arguments + buffers[i].offset, &data[i], sizeof data[i]);
  }
  arm_answer a = {.status = run(c, arguments)};
  const char *(*error)(void);
  find(c, "rec_error", "", &error);
  if (a.status) snprintf(a.message, sizeof a.message, "%s", error());
  send_back(&a, sizeof a);
  for (int i = 0; i < c->buffers; i++) {
    send_back(data[i], (size_t)buffers[i].bytes);
    free_before_a_wall(data[i], (size_t)buffers[i].bytes);
  }
  fflush(stdout);
  free(arguments);
  free(data);
  free(buffers);
}

int main(void) {
  arm_call c;
  while (receive(&c, sizeof c)) answer(&c);
  return 0;
}
