#include "runtime/ranks/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/internal.h"

enum { EXIT_CANNOT_START = 127, DOOR_NAME = 32 };

// In the environment of the ranks that rec has started itself.
static const char door_variable[] = "REC_LAUNCHED";

// ---- what a launcher tells -------------------------------------------------------------------

static const struct {
  launcher by;
  const char *rank, *count;  // names of variables; count: NULL, it does not tell
} told[] = {
    {LAUNCHER_OPEN_MPI, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {LAUNCHER_PMI, "PMI_RANK", "PMI_SIZE"},
    {LAUNCHER_PMIX, "PMIX_RANK", "SLURM_STEP_NUM_TASKS"},
};

static int64_t environment_number(const char *variable, int64_t otherwise) {
  const char *text = getenv(variable);
  char *end = NULL;
  long long number = text ? strtoll(text, &end, 10) : 0;
  return text && end != text && !*end && number >= 0 ? number : otherwise;
}

rec_status launch_find(launched *found) {
  *found = (launched){LAUNCHER_NONE, 1, 0};
  for (size_t i = 0; i < sizeof told / sizeof *told && !found->by; i++)
    if (getenv(told[i].rank))
      *found = (launched){told[i].by, environment_number(told[i].count, 0),
                          environment_number(told[i].rank, 0)};
  int64_t tasks = environment_number("SLURM_STEP_NUM_TASKS", 1);
  if (found->by == LAUNCHER_PMI && found->count == tasks &&
      found->number == environment_number("SLURM_PROCID", -1))
    found->by = LAUNCHER_SLURM;
  if (found->by || tasks == 1) return REC_OK;
  found->number = environment_number("SLURM_PROCID", 0);
  return rec_fail(REC_ERROR_DEVICE,
                  "srun has started %lld processes that cannot find each other; srun --mpi=list "
                  "shows what there is: take pmix for Open MPI, pmi2 for MPICH",
                  (long long)tasks);
}

bool launch_speaks(void) {
  launched l;
  launch_find(&l);
  return l.number == 0;
}

// ---- starting one ----------------------------------------------------------------------------

// Empty entries of the path are the current folder, whose programs are not run unasked.
bool launch_find_program(const char *name, char *file, size_t size) {
  const char *path = getenv("PATH");
  struct stat about;
  for (const char *next = path ? path : ""; *next;) {
    size_t length = strcspn(next, ":");
    int written = snprintf(file, size, "%.*s/%s", (int)length, next, name);
    if (length && written > 0 && (size_t)written < size && access(file, X_OK) == 0 &&
        stat(file, &about) == 0 && !S_ISDIR(about.st_mode))
      return true;
    next += length + (next[length] == ':');
  }
  return false;
}

static bool is_launcher(pid_t process) {
  static const char *const names[] = {"mpirun", "mpiexec", "orterun", "prterun", "orted", "prted"};
  char name[32] = "";
  FILE *file = fopen(rec_path("/proc/%ld/comm", (long)process).text, "r");
  bool found = false, read = file && fgets(name, sizeof name, file);
  if (file) fclose(file);
  name[strcspn(name, "\n")] = '\0';
  for (size_t i = 0; read && i < sizeof names / sizeof *names; i++)
    found |= strcmp(name, names[i]) == 0;
  return found;
}

// It has a session of its own, for a launcher kills the groups of its ranks, and no files, for it
// waits until they are closed.
_Noreturn static void outlast(int handle, int seconds) {
  setsid();
  dup2(handle, STDIN_FILENO);
  syscall(SYS_close_range, 1U, ~0U, 0U);
  struct pollfd ended = {.fd = STDIN_FILENO, .events = POLLIN};
  if (poll(&ended, 1, seconds * 1000) == 0)
    syscall(SYS_pidfd_send_signal, STDIN_FILENO, SIGTERM, NULL, 0);
  _exit(0);
}

void launch_outlast(int seconds) {
  pid_t parent = getppid();
  int handle = (int)syscall(SYS_pidfd_open, parent, 0);
  if (handle < 0) return;
  if (is_launcher(parent) && fork() == 0) outlast(handle, seconds);
  close(handle);
}

void launch_cancel_step(void) {
  char program[PATH_MAX];
  const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
  if (!job || !step || !launch_find_program("scancel", program, sizeof program)) return;
  file_path name = rec_path("%s.%s", job, step);
  pid_t child = fork();
  if (child == 0) {
    execl(program, program, "--quiet", "--signal=KILL", name.text, (char *)NULL);
    _exit(EXIT_CANNOT_START);
  }
  if (child > 0) waitpid(child, NULL, 0);
}

bool launch_program(char *file, size_t size) {
  return launch_find_program("mpirun", file, size) || launch_find_program("mpiexec", file, size);
}

// What Open MPI 4 and 5 refuse or do otherwise: to run as root, ranks that outnumber the
// processors, threads of a rank on more than one processor. Who has set a variable knows better.
// MPICH has no such rules.
static void allow(void) {
  static const char *const variables[][2] = {
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"OMPI_MCA_hwloc_base_binding_policy", "none"},
      {"PRTE_MCA_hwloc_default_binding_policy", "none"},
  };
  static const char *const as_root[] = {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
                                        "PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"};
  for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
    setenv(variables[i][0], variables[i][1], 0);
  for (size_t i = 0; i < sizeof as_root / sizeof *as_root && geteuid() == 0; i++)
    setenv(as_root[i], "1", 0);
}

// A terminal's signals are for this process alone; should it be killed, the job ends.
_Noreturn static void become(char *const *list, const sigset_t *signals) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  setpgid(0, 0);
  signal(SIGUSR1, SIG_IGN);  // until the launcher has a handler
  int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  sigprocmask(SIG_SETMASK, signals, NULL);
  execv(list[0], list);
  fprintf(stderr, "rec: %s: %s\n", list[0], strerror(errno));
  _exit(EXIT_CANNOT_START);
}

// A socket by which rank 0 says that all ranks have begun, and the name of its address. Below 0:
// there is none.
static int open_door(char name[DOOR_NAME]) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  socklen_t size = sizeof address.sun_family;  // the kernel finds a name, in no folder
  int door = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (door < 0) return door;
  bool bound = !bind(door, (struct sockaddr *)&address, size) && !listen(door, 1);
  size = sizeof address;
  if (bound && !getsockname(door, (struct sockaddr *)&address, &size))
    snprintf(name, DOOR_NAME, "%.*s", (int)(size - offsetof(struct sockaddr_un, sun_path) - 1),
             address.sun_path + 1);
  return door;
}

void launch_begun(void) {
  const char *name = getenv(door_variable);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  int door = name && strlen(name) < DOOR_NAME ? socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0) : -1;
  if (door < 0) return;
  memcpy(address.sun_path + 1, name, strlen(name));
  connect(door, (struct sockaddr *)&address,
          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name)));
  close(door);
}

// Nobody knocks where rank 0 is on another machine.
static bool have_begun(int door, int waited) {
  enum { MOST_WAITED = 100 };
  int knock = accept4(door, NULL, NULL, SOCK_CLOEXEC);
  if (knock >= 0) close(knock);
  return knock >= 0 || waited > MOST_WAITED;
}

// Waits for the launcher, and hands signals on: the first as SIGUSR1, those behind it as SIGTERM.
// SIGUSR1 would end a rank that has no handler yet, so it waits until all have begun. Then it comes
// again and again, for a launcher may have missed one; ranks that have heard it take no notice of
// the next.
static int supervise(pid_t child, int door, const sigset_t *taken) {
  const struct timespec pause = {.tv_nsec = 100000000};
  int status = 0, wishes = 0, waited = 0;
  bool begun = false;
  while (waitpid(child, &status, WNOHANG) == 0) {
    int number = wishes == 1 ? sigtimedwait(taken, NULL, &pause) : sigwaitinfo(taken, NULL);
    if (number > 0 && number != SIGCHLD) wishes++;
    if (number == SIGCHLD || !wishes) continue;
    begun |= have_begun(door, waited++);
    if (wishes > 1)
      kill(child, SIGTERM);
    else if (begun)
      kill(child, SIGUSR1);
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static rec_status run_launcher(char *const *list, int door, int *exit_status) {
  const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD};
  sigset_t taken, before;
  sigemptyset(&taken);
  for (int i = 0; i < 5; i++) sigaddset(&taken, numbers[i]);
  signal(SIGCHLD, SIG_DFL);  // were it ignored, there would be nothing to wait for
  sigprocmask(SIG_BLOCK, &taken, &before);
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) become(list, &before);
  if (child > 0) *exit_status = supervise(child, door, &taken);
  sigprocmask(SIG_SETMASK, &before, NULL);
  return child > 0 ? REC_OK : rec_file_failed(list[0]);
}

rec_status launch_ranks(int64_t count, const char *command, char *const *words, int word_count,
                        int *exit_status) {
  char program[PATH_MAX], self[PATH_MAX], number[32], name[DOOR_NAME] = "none";
  if (getenv(door_variable))
    return rec_fail(REC_ERROR_DEVICE,
                    "expected Open MPI or MPICH, found another launcher, which does not tell this "
                    "process its rank");
  if (!launch_program(program, sizeof program))
    return rec_fail(REC_ERROR_DEVICE,
                    "expected mpirun or mpiexec in the path, found neither; install Open MPI or "
                    "MPICH (Debian: openmpi-bin; or pip install mpich)");
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  if (length <= 0) return rec_file_failed("/proc/self/exe");
  self[length] = '\0';
  snprintf(number, sizeof number, "%lld", (long long)count);
  char **list = calloc((size_t)word_count + 6, sizeof *list), **next = list;
  if (!list) return rec_no_memory();
  *next++ = program, *next++ = "-n", *next++ = number, *next++ = self,
  *next++ = (char *)(uintptr_t)command;
  for (int i = 0; i < word_count; i++) *next++ = words[i];
  allow();
  int door = open_door(name);
  setenv(door_variable, name, 1);
  rec_status status = run_launcher(list, door, exit_status);
  if (door >= 0) close(door);
  free(list);
  return status;
}
