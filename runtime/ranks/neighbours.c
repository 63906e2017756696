#include "runtime/ranks/neighbours.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/internal.h"

neighbour neighbour_self(void) {
  neighbour self = {.process = getpid()};
  struct stat space;
  gethostname(self.machine, sizeof self.machine - 1);
  sched_getaffinity(0, sizeof self.processors, &self.processors);
  FILE *boot = fopen("/proc/sys/kernel/random/boot_id", "r");
  if (boot && !fgets(self.boot, sizeof self.boot, boot)) *self.boot = '\0';
  if (boot) fclose(boot);
  if (!stat("/proc/self/ns/pid", &space)) self.processes = (uint64_t)space.st_ino;
  return self;
}

bool neighbour_is_here(const neighbour *self, const neighbour *other) {
  return strcmp(self->machine, other->machine) == 0;
}

// The letter after the name of the program, which stands in brackets and may have brackets itself.
static char process_letter(const char *text) {
  const char *end = strrchr(text, ')');
  return end && end[1] == ' ' ? end[2] : '\0';
}

// Whether the number of the other process means the same here.
static bool sees(const neighbour *self, const neighbour *other) {
  return neighbour_is_here(self, other) && *self->boot && strcmp(self->boot, other->boot) == 0 &&
         self->processes && self->processes == other->processes;
}

process_state neighbour_process(const neighbour *self, const neighbour *other) {
  char text[512] = "";
  if (!sees(self, other)) return PROCESS_UNKNOWN;
  FILE *file = fopen(rec_path("/proc/%ld/stat", (long)other->process).text, "r");
  if (!file) return errno == ENOENT ? PROCESS_ENDED : PROCESS_UNKNOWN;
  size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  if (!size) return PROCESS_ENDED;  // between the two calls
  switch (process_letter(text)) {
    case 'Z':  // nobody has asked how it has ended
    case 'X': return PROCESS_ENDED;
    case 'T':
    case 't': return PROCESS_STOPPED;
    case 'D': return PROCESS_IN_IO;
    default: return PROCESS_RUNS;
  }
}
