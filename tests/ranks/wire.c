// rec-wire HOSTS MICROSECONDS MBIT LOSS COMMAND..: runs COMMAND on the first of some hosts that
// this program alone connects.
//
// A host is a network namespace with the address 10.77.0.N, N from 1, and a name of its own, since
// MPI libraries name files of shared memory by it. Its packets come here by /dev/net/tun. A packet
// waits until its sender's link, of MBIT a second (0: no limit), has carried it, and MICROSECONDS
// more. LOSS of a million packets are lost. SIGUSR1 cuts the wire: every packet is lost, until
// SIGUSR2 mends it. When COMMAND has ended, or SIGTERM has come, processes that it left behind are
// killed. The exit status is COMMAND's; 77: this machine does not allow it.
//
// rec-wire at ADDRESS WORD..: hands the words to a shell on another of these hosts, as ssh does.
// COMMAND and what it starts may call it, for REC_WIRE in the environment names the process that
// has the namespaces.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_HOSTS = 8, MTU = 9000, MOST_QUEUED = 8 << 20, FIRST_NAMESPACE = 100, NOT_ALLOWED = 77 };

struct packet {
  struct packet *next;
  int64_t due;  // nanoseconds
  ssize_t size;
  unsigned char bytes[];
};

// `free_at`: when the link has carried all packets of the queue; they are in order of `due`.
struct host {
  int tun;
  int64_t free_at, queued;
  struct packet *first, **last;
};

static struct host hosts[MOST_HOSTS];
static int host_count;
static int64_t delay;       // nanoseconds
static double bit_seconds;  // nanoseconds a bit takes
static unsigned loss;       // of a million
static pid_t command;
static volatile sig_atomic_t cut, ended, told_to_end;

static void when_cut(int number) { cut = number == SIGUSR1; }
static void when_ended(int number) {
  ended = 1;
  if (number != SIGCHLD) told_to_end = 1;
}

static _Noreturn void not_allowed(const char *what) {
  fprintf(stderr, "rec-wire: %s: %s\n", what, strerror(errno));
  exit(NOT_ALLOWED);
}

static int64_t now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

// ---- hosts -----------------------------------------------------------------------------------

static void set_address(int socket, unsigned long what, uint32_t address) {
  struct ifreq request = {.ifr_name = "wire"};
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
  memcpy(&request.ifr_addr, &to, sizeof to);
  if (ioctl(socket, what, &request)) not_allowed("an address");
}

static void set_up(int socket, const char *name) {
  struct ifreq request = {.ifr_flags = IFF_UP | IFF_RUNNING};
  snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
  if (ioctl(socket, SIOCSIFFLAGS, &request)) not_allowed("an interface");
}

static int open_tun(void) {
  struct ifreq request = {.ifr_name = "wire", .ifr_flags = IFF_TUN | IFF_NO_PI};
  int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (tun < 0 || ioctl(tun, TUNSETIFF, &request)) not_allowed("/dev/net/tun");
  return tun;
}

// What a host has of its own. The descriptor of kind K of host N has the number FIRST_NAMESPACE +
// KINDS * N + K, for `at`.
enum { KINDS = 2 };
static const struct {
  const char *file;
  int flag;
} kinds[KINDS] = {{"net", CLONE_NEWNET}, {"uts", CLONE_NEWUTS}};

// This process is left in the namespace.
static void make_namespace(int number, int kind) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/ns/%s", kinds[kind].file);
  int namespace = unshare(kinds[kind].flag) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (namespace < 0 || dup3(namespace, FIRST_NAMESPACE + KINDS * number + kind, O_CLOEXEC) < 0)
    not_allowed("a namespace");
  close(namespace);
}

static void make_host(int number) {
  char name[16];
  for (int kind = 0; kind < KINDS; kind++) make_namespace(number, kind);
  if (sethostname(name, (size_t)snprintf(name, sizeof name, "wire%d", number + 1)))
    not_allowed("a host's name");
  hosts[number] = (struct host){.tun = open_tun(), .last = &hosts[number].first};
  int any = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (any < 0) not_allowed("a socket");
  struct ifreq size = {.ifr_name = "wire", .ifr_mtu = MTU};
  if (ioctl(any, SIOCSIFMTU, &size)) not_allowed("packets of 9000 bytes");
  set_address(any, SIOCSIFADDR, 0x0a4d0001 + (uint32_t)number);
  set_address(any, SIOCSIFNETMASK, 0xffffff00);
  set_up(any, "wire");
  set_up(any, "lo");
  close(any);
}

static void enter(pid_t owner, int number) {
  for (int kind = 0; kind < KINDS; kind++) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)owner,
             FIRST_NAMESPACE + KINDS * number + kind);
    int namespace = open(path, O_RDONLY | O_CLOEXEC);
    if (namespace < 0 || setns(namespace, kinds[kind].flag)) not_allowed(path);
    close(namespace);
  }
}

// ssh's options are none of ours; launchers give some.
static int run_at(char **words) {
  const char *owner = getenv("REC_WIRE");
  while (*words && **words == '-') words++;
  int number = *words ? atoi(strrchr(*words, '.') ? strrchr(*words, '.') + 1 : "") - 1 : -1;
  if (!owner || number < 0)
    return fprintf(stderr, "rec-wire at: expected an address of a running rec-wire\n"), 2;
  enter(atoi(owner), number);
  char line[1 << 16] = "";
  for (words++; *words; words++)
    snprintf(line + strlen(line), sizeof line - strlen(line), "%s ", *words);
  execl("/bin/sh", "sh", "-c", line, (char *)NULL);
  return 127;
}

// ---- packets ---------------------------------------------------------------------------------

static bool is_lost(void) {
  static uint64_t state = UINT64_C(88172645463325252);
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return cut || state % 1000000 < loss;
}

// The last byte of an IPv4 packet's destination; -1: a packet for nobody here.
static int destination(const struct packet *p) {
  int number = p->size >= 20 && p->bytes[0] >> 4 == 4 ? p->bytes[19] - 1 : -1;
  return number < host_count ? number : -1;
}

static void queue(struct host *from, const unsigned char *bytes, ssize_t size) {
  struct packet *p = malloc(sizeof *p + (size_t)size);
  if (!p) abort();
  int64_t begin = now();
  if (begin < from->free_at) begin = from->free_at;
  from->free_at = begin + (int64_t)((double)size * 8 * bit_seconds);
  *p = (struct packet){.due = from->free_at + delay, .size = size};
  memcpy(p->bytes, bytes, (size_t)size);
  *from->last = p;
  from->last = &p->next;
  from->queued += size;
}

// A full queue loses packets, as a switch does.
static void take(struct host *from) {
  unsigned char bytes[MTU + 64];
  for (ssize_t size; (size = read(from->tun, bytes, sizeof bytes)) > 0;)
    if (!is_lost() && from->queued < MOST_QUEUED) queue(from, bytes, size);
}

static void deliver(struct host *from, int64_t time) {
  while (from->first && from->first->due <= time) {
    struct packet *p = from->first;
    int to = destination(p);
    if (to >= 0 && !cut && write(hosts[to].tun, p->bytes, (size_t)p->size) < 0 && errno != EAGAIN)
      perror("rec-wire");
    from->first = p->next;
    from->queued -= p->size;
    if (!from->first) from->last = &from->first;
    free(p);
  }
}

static int64_t next_due(void) {
  int64_t next = INT64_MAX;
  for (int i = 0; i < host_count; i++)
    if (hosts[i].first && hosts[i].first->due < next) next = hosts[i].first->due;
  return next;
}

static void wait_for_packets(const sigset_t *mask) {
  struct pollfd tuns[MOST_HOSTS];
  for (int i = 0; i < host_count; i++)
    tuns[i] = (struct pollfd){.fd = hosts[i].tun, .events = POLLIN};
  int64_t due = next_due(), left = due == INT64_MAX ? INT64_C(1000000000) : due - now();
  if (left < 0) left = 0;
  struct timespec limit = {left / 1000000000, left % 1000000000};
  if (ppoll(tuns, (nfds_t)host_count, &limit, mask) <= 0) return;
  for (int i = 0; i < host_count; i++)
    if (tuns[i].revents) take(&hosts[i]);
}

// Signals come while it waits and at no other time, so that none is missed.
static void carry_packets(const sigset_t *mask) {
  while (!ended) {
    wait_for_packets(mask);
    for (int i = 0; i < host_count; i++) deliver(&hosts[i], now());
  }
}

// ---- the command -----------------------------------------------------------------------------

static void start(char **words) {
  char owner[16];
  snprintf(owner, sizeof owner, "%d", (int)getpid());
  setenv("REC_WIRE", owner, 1);
  command = fork();
  if (command < 0) not_allowed("a process");
  if (command) return;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  enter(getppid(), 0);
  execvp(words[0], words);
  _exit(127);
}

// The kernel gives this process the children of those that have ended. True: COMMAND itself has
// ended.
static bool has_ended(int *status) {
  ended = 0;
  int of_one;
  for (pid_t one; (one = waitpid(-1, &of_one, WNOHANG)) > 0;)
    if (one == command) return *status = of_one, true;
  return false;
}

static void kill_the_rest(void) {
  char path[64], line[4096];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  for (bool any = true; any;) {
    FILE *file = fopen(path, "r");
    any = file && fgets(line, sizeof line, file);
    if (file) fclose(file);
    char *rest = line;
    for (long child; any && (child = strtol(rest, &rest, 10)) > 0;) kill((pid_t)child, SIGKILL);
    if (any) waitpid(-1, NULL, 0);
  }
}

int main(int argc, char **argv) {
  if (argc > 2 && !strcmp(argv[1], "at")) return run_at(argv + 2);
  host_count = argc > 5 ? atoi(argv[1]) : 0;
  if (host_count < 1 || host_count > MOST_HOSTS)
    return fprintf(stderr,
                   "usage: rec-wire HOSTS MICROSECONDS MBIT LOSS COMMAND.. | rec-wire at ADDRESS "
                   "WORD..\n"),
           2;
  delay = atoll(argv[2]) * 1000;
  bit_seconds = atof(argv[3]) > 0 ? 1000 / atof(argv[3]) : 0;
  loss = (unsigned)atoi(argv[4]);

  sigset_t blocked, before;
  sigemptyset(&blocked);
  for (int i = 0; i < 5; i++)
    sigaddset(&blocked, (int[]){SIGUSR1, SIGUSR2, SIGCHLD, SIGTERM, SIGINT}[i]);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  sigaction(SIGUSR1, &(struct sigaction){.sa_handler = when_cut}, NULL);
  sigaction(SIGUSR2, &(struct sigaction){.sa_handler = when_cut}, NULL);
  for (int i = 0; i < 3; i++)
    sigaction((int[]){SIGCHLD, SIGTERM, SIGINT}[i], &(struct sigaction){.sa_handler = when_ended},
              NULL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  prctl(PR_SET_TIMERSLACK, 1);
  for (int i = 0; i < host_count; i++) make_host(i);
  start(argv + 5);

  int status = 0;
  do carry_packets(&before);
  while (!has_ended(&status) && !told_to_end);
  kill_the_rest();
  return told_to_end         ? 128 + SIGTERM
         : WIFEXITED(status) ? WEXITSTATUS(status)
                             : 128 + WTERMSIG(status);
}
