// Files mapped to be read.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/output.h"
#include "runtime/internal.h"

// ---- faults -------------------------------------------------------------------------------------

// The files that are mapped, for a signal handler. One beyond these has no name there.
enum { MOST_MAPPED = 256 };

static struct mapped_file {
  const char *bytes;
  size_t size;
  char *path;
} mapped_files[MOST_MAPPED];

static pthread_mutex_t files_lock = PTHREAD_MUTEX_INITIALIZER;

static void remember(const char *path, const void *bytes, size_t size) {
  pthread_mutex_lock(&files_lock);
  int i = 0;
  while (i < MOST_MAPPED && mapped_files[i].path) i++;
  if (i < MOST_MAPPED) mapped_files[i] = (struct mapped_file){bytes, size, strdup(path)};
  pthread_mutex_unlock(&files_lock);
}

static void forget_mapping(const void *bytes) {
  pthread_mutex_lock(&files_lock);
  for (int i = 0; i < MOST_MAPPED; i++) {
    if (!mapped_files[i].path || mapped_files[i].bytes != bytes) continue;
    free(mapped_files[i].path);
    mapped_files[i] = (struct mapped_file){0};
    break;
  }
  pthread_mutex_unlock(&files_lock);
}

static void write_fault_line(const char *text) {
  if (write(STDERR_FILENO, text, strlen(text)) < 0) return;
}

// Several threads may fault at once; only the first one prints.
static void on_mapping_fault(int number, siginfo_t *about, void *context) {
  static atomic_flag speaks = ATOMIC_FLAG_INIT;
  const char *address = about->si_addr;
  (void)context;
  for (int i = 0; i < MOST_MAPPED; i++) {
    const struct mapped_file *f = &mapped_files[i];
    if (!f->path || address < f->bytes || address >= f->bytes + f->size) continue;
    while (atomic_flag_test_and_set(&speaks)) pause();
    write_fault_line("rec: ");
    write_fault_line(f->path);
    write_fault_line(": the file was cut, or could not be read, while it was in use\n");
    _exit(2);
  }
  signal(number, SIG_DFL);  // the access is made again, and ends the process as ever
}

void rec_map_report_faults(void) {
  struct sigaction action = {.sa_sigaction = on_mapping_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  sigaction(SIGBUS, &action, NULL);
}

// ---- mapping ------------------------------------------------------------------------------------

static const char *file_kind(mode_t mode) {
  return S_ISDIR(mode) ? "a folder" : S_ISFIFO(mode) ? "a pipe" : "a device or socket";
}

rec_status rec_map(const char *path, rec_mapping *mapping) {
  *mapping = (rec_mapping){0};
  int handle = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a pipe must not be waited for
  if (handle < 0) return rec_file_failed(path);
  output_note_input(handle);
  struct stat about;
  rec_status status = REC_OK;
  if (fstat(handle, &about) != 0) {
    status = rec_file_failed(path);
  } else if (!S_ISREG(about.st_mode)) {
    status = rec_fail(REC_ERROR_FORMAT, "%s: expected a regular file, found %s", path,
                      file_kind(about.st_mode));
  } else if (about.st_size > 0) {
    void *bytes = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_PRIVATE, handle, 0);
    if (bytes == MAP_FAILED)
      status = rec_file_failed(path);
    else
      *mapping = (rec_mapping){bytes, (size_t)about.st_size};
  }
  close(handle);
  if (mapping->bytes) remember(path, mapping->bytes, mapping->size);
  return status;
}

void rec_unmap(rec_mapping *mapping) {
  if (mapping->bytes) {
    forget_mapping(mapping->bytes);
    munmap((void *)mapping->bytes, mapping->size);
  }
  *mapping = (rec_mapping){0};
}
