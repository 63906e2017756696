// A libcuda.so.1 for tests: a CUDA driver whose GPU is the executor (runtime/support/simt) of the library
// under test.
//
// Its memory is the host's, but only what cuMemAlloc gave is taken for the GPU's. A module is the
// PTX that was loaded, or data that begins like a cubin. A kernel must have an .entry in PTX. The
// driver runs the code of the same name that the library has for the executor, found in the
// library's table of symbols. What is asked of it goes, a line a call, into the file $CUDA_LOG.
//
//   CUDA_CAPABILITY   of the device, 90 if not set         CUDA_DEVICES   how many there are, 1
//   CUDA_SHARED       bytes a block may have, 232448       CUDA_FAIL      a call that fails with error 700: cuLaunchKernel
//   CUDA_VERSION      of the driver, 13000: newer PTX is refused, and cubins that say `of CUDA N` for a later N
//   CUDA_CUBINS       0: machine code is refused            CUDA_HANG      a kernel that never ends: rec_op_barrier
//   CUDA_CODE         a library with code for the executor, for PTX that is in no library, or in one whose file is gone
//   CUDA_MEMORY       bytes there are, 64 MiB
//   CUDA_WRONG        a kernel whose last block does nothing   CUDA_MISSING   a kernel that modules lack
//   CUDA_MULTIPROCESSORS   of the device, 2
//   CUDA_DRY          1: launches and copies do nothing, and memory of any size is there; for a recurrence's kernel, the log says
//                     `items N slices N steps N` of its launch
//   CUDA_LATE         1: work on a stream is done when that stream or the context is waited for, and no earlier
//                     2: a thread of the driver does the work, while the program goes on
//
// A stream can be captured, one at a time. What a real driver refuses during a capture is refused:
// calls that are not for a stream (memory, waiting, loading except in the relaxed mode). So is the
// stream NULL. A graph runs what was captured, with the parameters of then.
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compiler/abi/gpu_frame.h"
#include "compiler/abi/simt.h"
#include "runtime/support/cuda_driver.h"

enum {
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NO_DEVICE = 100,
  INVALID_IMAGE = 200,
  INVALID_CONTEXT = 201,
  UNSUPPORTED_PTX = 222,
  NOT_FOUND = 500,
  INVALID_DEVICE = 101,
  ILLEGAL_ADDRESS = 700
};
enum { CAPTURE_UNSUPPORTED = 900, CAPTURE_INVALIDATED = 901, CAPTURE_IMPLICIT = 906 };
enum { MOST_SHARED = 232448 };

#define EXPORT __attribute__((visibility("default")))

#define PROTOTYPE(name, symbol, parameters) EXPORT cuda_result symbol parameters;
CUDA_DRIVER_FUNCTIONS(PROTOTYPE)
CUDA_DRIVER_LATER_FUNCTIONS(PROTOTYPE)

static int number_of(const char *variable, int otherwise) {
  const char *text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

// Writes a line of the log; what the call answers.
__attribute__((format(printf, 2, 3))) static int called(const char *call, const char *format, ...) {
  const char *path = getenv("CUDA_LOG"), *fails = getenv("CUDA_FAIL");
  FILE *log = path ? fopen(path, "a") : NULL;
  va_list arguments;
  va_start(arguments, format);
  if (log) {
    fprintf(log, "%s", call);
    vfprintf(log, format, arguments);
    fputc('\n', log);
    fclose(log);
  }
  va_end(arguments);
  return fails && strcmp(fails, call) == 0 ? ILLEGAL_ADDRESS : 0;
}

static bool is_dry(void) { return number_of("CUDA_DRY", 0); }

// Is the kernel the one that this variable names?
static bool is_named(const char *variable, const char *kernel) {
  const char *name = getenv(variable);
  return name && strcmp(name, kernel) == 0;
}

static int driver_version(void) { return number_of("CUDA_VERSION", 13000); }

// ---- streams ----

typedef struct queue queue;

// An event: the count of work items that its stream held when it was recorded.
typedef struct event {
  queue *of;
  int given;
} event;

// A launch, the clearing or copying of memory, a function of the host, or waiting for an event.
typedef struct node {
  void (*run)(const struct node *);
  event event;
  const void *kernel;
  unsigned blocks, threads, shared_bytes;
  void *stream;
  cuda_pointer to, from;
  size_t bytes;
  unsigned char value;
  void (*function)(void *);
  void *data;
  const void *parameters;  // of a launch
  size_t parameter_bytes;  // 0: machine code does not tell
  // the parameters as they were then, aligned as a kernel may ask for
  _Alignas(64) char kept[4096];
} node;

// Work that is queued but not done. Each stream does its own work in order, independently of other
// streams. Any thread may ask how much is done.
struct queue {
  node *work[256];
  int given, done;
};

// The streams that cuStreamCreate makes; the first is the stream NULL.
enum { STREAMS = 9 };
static queue streams[STREAMS];

static queue *queue_of(void *handle) { return handle ? handle : &streams[0]; }

static _Thread_local bool is_worker;

static bool by_worker(void) { return number_of("CUDA_LATE", 0) == 2 && !is_worker; }

static void catch_up(queue *s, int given) {
  while (by_worker() && __atomic_load_n(&s->done, __ATOMIC_ACQUIRE) < given) usleep(100);
  while (s->done < given) {
    node *n = s->work[s->done % 256];
    n->run(n);
    free(n);
    __atomic_fetch_add(&s->done, 1, __ATOMIC_RELEASE);
  }
}

static void run_wait(const node *n) {
  if (n->event.of) catch_up(n->event.of, n->event.given);
}

// Runs all queued work in the order least kind to missing waits: the last stream first.
static void catch_up_all(void) {
  for (int i = STREAMS - 1; i >= 0; i--) catch_up(&streams[i], streams[i].given);
}

static pthread_t worker;
static _Atomic bool has_worker, ending;

static void *run_worker(void *unused) {
  is_worker = true;
  for (; !ending; usleep(200))
    for (int i = STREAMS - 1; i >= 0; i--)
      catch_up(&streams[i], __atomic_load_n(&streams[i].given, __ATOMIC_ACQUIRE));
  return unused;
}

static void start_worker(void) {
  if (pthread_create(&worker, NULL, run_worker, NULL)) abort();
  has_worker = true;
}

// The leak sanitizer faults on a thread that is at work. After a failure the worker may wait for
// ever.
__attribute__((destructor)) static void end_worker(void) {
  struct timespec until;
  ending = true;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec++;
  if (has_worker) pthread_timedjoin_np(worker, NULL, &until);
}

// A copy of the node that holds its parameters as they are now.
static void copy_node(node *to, const node *from) {
  *to = *from;
  if (from->parameters) to->parameters = memcpy(to->kept, from->parameters, from->parameter_bytes);
}

static int put_off(queue *s, const node *n) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  node *later = aligned_alloc(_Alignof(node), sizeof *later);
  if (by_worker()) pthread_once(&once, start_worker);
  if (s->given - s->done == 256) catch_up(s, s->given);
  copy_node(later, n);
  s->work[s->given % 256] = later;
  __atomic_fetch_add(&s->given, 1, __ATOMIC_RELEASE);
  return 0;
}

// ---- capture ----

typedef struct graph {
  node nodes[64];
  int count;
} graph;

static struct {
  void *stream;
  graph *graph;
  int broken;
} captured;

static _Thread_local int capture_mode;

// Calls that belong to no stream: 0, or the error of a call that a capture forbids.
static int unless_captured(int relaxed_may) {
  if (!captured.graph || (relaxed_may && capture_mode == CUDA_CAPTURE_RELAXED)) return 0;
  captured.broken = 1;
  return CAPTURE_UNSUPPORTED;
}

// Takes work for a stream: it runs at once, or is captured, or queued.
static int give(const node *n) {
  if (!captured.graph) {
    if (number_of("CUDA_LATE", 0)) return put_off(queue_of(n->stream), n);
    n->run(n);
    return 0;
  }
  if (n->stream == captured.stream && captured.graph->count < 64) {
    copy_node(&captured.graph->nodes[captured.graph->count++], n);
    return 0;
  }
  captured.broken = 1;
  return CAPTURE_IMPLICIT;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags);
EXPORT int cuStreamSynchronize(void *stream);
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode);
EXPORT int cuStreamEndCapture(void *stream, graph **made);
EXPORT int cuGraphLaunch(const graph *g, void *stream);
EXPORT int cuGraphDestroy(graph *g);

EXPORT int cuStreamCreate(void **made, unsigned flags) {
  static int count;
  (void)flags;
  *made = &streams[1 + count++ % (STREAMS - 1)];
  return 0;
}
EXPORT int cuStreamSynchronize(void *stream) {
  catch_up(queue_of(stream), queue_of(stream)->given);
  return 0;
}
EXPORT int cuStreamBeginCapture_v2(void *stream, int mode) {
  if (!stream || captured.graph || mode != 0) return INVALID_VALUE;
  captured.stream = stream;
  captured.graph = aligned_alloc(_Alignof(graph), sizeof *captured.graph);
  captured.graph->count = 0;
  captured.broken = 0;
  return 0;
}
EXPORT int cuStreamEndCapture(void *stream, graph **made) {
  if (!captured.graph || stream != captured.stream) return INVALID_VALUE;
  *made = captured.graph;
  captured.graph = NULL;
  if (!captured.broken) return 0;
  free(*made);
  *made = NULL;
  return CAPTURE_INVALIDATED;
}
// An instantiated graph is the graph itself.
EXPORT int cuGraphLaunch(const graph *g, void *stream) {
  (void)stream;
  for (int i = 0; i < g->count; i++) g->nodes[i].run(&g->nodes[i]);
  return g->count;
}
EXPORT int cuGraphDestroy(graph *g) {
  free(g);
  return 0;
}

// ---- devices and contexts ----

enum { DEVICES = 16 };
static _Thread_local void *current;
static int primary[DEVICES];  // their addresses are the contexts

static int device_of(const void *context) {
  for (int i = 0; i < DEVICES; i++)
    if (context == &primary[i]) return i;
  return -1;
}

EXPORT int cuInit(unsigned flags) {
  (void)flags;
  return number_of("CUDA_DEVICES", 1) > 0 ? called("cuInit", " ") : NO_DEVICE;
}
EXPORT int cuDriverGetVersion(int *version) {
  *version = driver_version();
  return 0;
}
EXPORT int cuGetErrorName(int result, const char **name) {
  *name = result == ILLEGAL_ADDRESS       ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : result == NO_DEVICE           ? "CUDA_ERROR_NO_DEVICE"
          : result == INVALID_IMAGE       ? "CUDA_ERROR_INVALID_IMAGE"
          : result == UNSUPPORTED_PTX     ? "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"
          : result == CAPTURE_UNSUPPORTED ? "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"
                                          : NULL;
  return 0;
}
EXPORT int cuGetErrorString(int result, const char **text) {
  *text = result == ILLEGAL_ADDRESS ? "an illegal memory access was encountered"
          : result == NO_DEVICE     ? "no CUDA-capable device is detected"
                                    : NULL;
  return 0;
}
EXPORT int cuDeviceGetCount(int *count) {
  *count = number_of("CUDA_DEVICES", 1);
  return 0;
}
EXPORT int cuDeviceGet(int *device, int number) {
  *device = number;
  return 0;
}
EXPORT int cuDeviceGetName(char *name, int size, int device) {
  (void)device;
  snprintf(name, (size_t)size, "the executor");
  return 0;
}
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  int capability = number_of("CUDA_CAPABILITY", 90);
  switch (attribute) {
    case CUDA_MULTIPROCESSORS: *value = number_of("CUDA_MULTIPROCESSORS", 2); return 0;
    case CUDA_COMPUTE_MAJOR: *value = capability / 10; return 0;
    case CUDA_COMPUTE_MINOR: *value = capability % 10; return 0;
    case CUDA_SHARED_BYTES: *value = number_of("CUDA_SHARED", MOST_SHARED); return 0;
    default: return INVALID_VALUE;
  }
}
EXPORT int cuCtxGetCurrent(void **context) {
  *context = current;
  return 0;
}
EXPORT int cuCtxGetDevice(int *device) {
  *device = device_of(current);
  return current ? 0 : INVALID_CONTEXT;
}
// Devices of all processes have numbers from $CUDA_FIRST on: processes that see the same ones share
// them.
EXPORT int cuDeviceGetUuid(char uuid[16], int device) {
  memset(uuid, 0, 16);
  uuid[0] = (char)(number_of("CUDA_FIRST", 0) + device);
  return device < number_of("CUDA_DEVICES", 1) ? 0 : INVALID_DEVICE;
}
EXPORT int cuCtxGetId(void *context, unsigned long long *number) {
  *number = 1 + (unsigned long long)device_of(context);
  return device_of(context) >= 0 ? 0 : INVALID_CONTEXT;
}
EXPORT int cuCtxPushCurrent_v2(void *context) {
  current = context;
  return 0;
}
EXPORT int cuCtxPopCurrent_v2(void **context) {
  *context = current;
  current = NULL;
  return 0;
}
EXPORT int cuCtxSynchronize(void) {
  int refused = unless_captured(0);
  if (refused) return refused;
  catch_up_all();
  return called("cuCtxSynchronize", " ");
}

// ---- events ----

EXPORT int cuEventCreate(void **made, unsigned flags) {
  *made = calloc(1, sizeof(event));
  return flags == CUDA_EVENT_WITHOUT_TIME ? called("cuEventCreate", " ") : INVALID_VALUE;
}
EXPORT int cuEventDestroy_v2(void *e) {
  free(e);
  return 0;
}
EXPORT int cuEventRecord(void *e, void *stream) {
  int refused = unless_captured(0);
  if (refused || !current) return refused ? refused : INVALID_CONTEXT;
  int failed = called("cuEventRecord", " stream %p", stream);
  if (!failed) *(event *)e = (event){queue_of(stream), queue_of(stream)->given};
  return failed;
}
EXPORT int cuEventQuery(void *e) {
  const event *asked = e;
  if (!current) return INVALID_CONTEXT;
  return !asked->of || __atomic_load_n(&asked->of->done, __ATOMIC_ACQUIRE) >= asked->given
             ? 0
             : CUDA_NOT_READY;
}
EXPORT int cuStreamWaitEvent(void *stream, void *e, unsigned flags) {
  int refused = unless_captured(0);
  if (refused || flags) return refused ? refused : INVALID_VALUE;
  int failed = called("cuStreamWaitEvent", " stream %p", stream);
  return failed ? failed : give(&(node){.run = run_wait, .event = *(event *)e, .stream = stream});
}
EXPORT int cuDevicePrimaryCtxRetain(void **context, int device) {
  *context = &primary[device];
  return called("cuDevicePrimaryCtxRetain", " %d", device);
}
EXPORT int cuThreadExchangeStreamCaptureMode(int *mode) {
  int before = capture_mode;
  capture_mode = *mode;
  *mode = before;
  return 0;
}

// ---- memory ----

enum { PIECES = 4096 };
static struct {
  char *data;
  size_t bytes;
} pieces[PIECES];

static int is_ours(cuda_pointer at, size_t bytes) {
  for (int i = 0; i < PIECES; i++)
    if (pieces[i].data && (char *)(uintptr_t)at >= pieces[i].data &&
        (char *)(uintptr_t)at + bytes <= pieces[i].data + pieces[i].bytes)
      return 1;
  return 0;
}

static size_t bytes_in_use(void) {
  size_t bytes = 0;
  for (int i = 0; i < PIECES; i++)
    if (pieces[i].data) bytes += pieces[i].bytes;
  return bytes;
}

EXPORT int cuMemGetAddressRange_v2(cuda_pointer *base, size_t *bytes, cuda_pointer at);
EXPORT int cuMemGetAddressRange_v2(cuda_pointer *base, size_t *bytes, cuda_pointer at) {
  for (int i = 0; i < PIECES; i++) {
    if (!pieces[i].data || (char *)(uintptr_t)at < pieces[i].data ||
        (char *)(uintptr_t)at >= pieces[i].data + pieces[i].bytes)
      continue;
    *base = (cuda_pointer)(uintptr_t)pieces[i].data;
    *bytes = pieces[i].bytes;
    return 0;
  }
  return NOT_FOUND;
}
EXPORT int cuMemGetInfo_v2(size_t *unused, size_t *total) {
  *total = is_dry() ? (size_t)1 << 46 : (size_t)number_of("CUDA_MEMORY", 64 << 20);
  *unused = *total > bytes_in_use() ? *total - bytes_in_use() : 0;
  return 0;
}
EXPORT int cuMemAlloc_v2(cuda_pointer *memory, size_t bytes) {
  int i = 0, refused = unless_captured(0);
  size_t unused, total;
  if (refused) return refused;
  cuMemGetInfo_v2(&unused, &total);
  if (bytes > unused) return OUT_OF_MEMORY;
  while (i < PIECES && pieces[i].data) i++;
  if (i == PIECES || bytes == 0) return INVALID_VALUE;
  pieces[i].bytes = bytes;
  if (is_dry()) {
    pieces[i].data = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pieces[i].data == MAP_FAILED) abort();
  } else {
    pieces[i].data = aligned_alloc(256, (bytes + 255) / 256 * 256);
    memset(pieces[i].data, 0xff, bytes);
  }
  *memory = (cuda_pointer)(uintptr_t)pieces[i].data;
  return called("cuMemAlloc", " ");
}
EXPORT int cuMemFree_v2(cuda_pointer memory) {
  int refused = unless_captured(0);
  if (refused) return refused;
  catch_up_all();
  called("cuMemFree", " ");
  for (int i = 0; i < PIECES; i++) {
    if (pieces[i].data != (char *)(uintptr_t)memory) continue;
    if (is_dry())
      munmap(pieces[i].data, pieces[i].bytes);
    else
      free(pieces[i].data);
    pieces[i].data = NULL;
    return 0;
  }
  return INVALID_VALUE;
}
EXPORT int cuMemcpyHtoD_v2(cuda_pointer to, const void *from, size_t bytes) {
  if (unless_captured(0)) return CAPTURE_UNSUPPORTED;
  if (!is_ours(to, bytes)) return ILLEGAL_ADDRESS;
  cuStreamSynchronize(NULL);
  if (!is_dry()) memcpy((void *)(uintptr_t)to, from, bytes);
  return 0;
}
EXPORT int cuMemcpyDtoH_v2(void *to, cuda_pointer from, size_t bytes) {
  if (unless_captured(0)) return CAPTURE_UNSUPPORTED;
  if (!is_ours(from, bytes)) return ILLEGAL_ADDRESS;
  cuStreamSynchronize(NULL);
  memcpy(to, (void *)(uintptr_t)from, bytes);
  return 0;
}
static void run_clear(const node *n) {
  if (!is_dry()) memset((void *)(uintptr_t)n->to, n->value, n->bytes);
}
static void run_copy(const node *n) {
  if (!is_dry()) memmove((void *)(uintptr_t)n->to, (void *)(uintptr_t)n->from, n->bytes);
}

EXPORT int cuMemsetD8Async(cuda_pointer to, unsigned char value, size_t bytes, void *stream) {
  if (!is_ours(to, bytes)) return ILLEGAL_ADDRESS;
  int refused =
      give(&(node){.run = run_clear, .stream = stream, .to = to, .bytes = bytes, .value = value});
  return refused ? refused : called("cuMemsetD8Async", " stream %p", stream);
}
EXPORT int cuMemcpyDtoDAsync_v2(cuda_pointer to, cuda_pointer from, size_t bytes, void *stream) {
  if (!is_ours(to, bytes) || !is_ours(from, bytes)) return ILLEGAL_ADDRESS;
  int refused =
      give(&(node){.run = run_copy, .stream = stream, .to = to, .from = from, .bytes = bytes});
  return refused ? refused : called("cuMemcpyDtoDAsync", " stream %p", stream);
}

static void run_function(const node *n) { n->function(n->data); }

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data);
EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *), void *data) {
  int refused =
      give(&(node){.run = run_function, .stream = stream, .function = function, .data = data});
  return refused ? refused : called("cuLaunchHostFunc", " stream %p", stream);
}

// ---- modules ----

typedef struct loaded_kernel {
  const char *name;
  void (*function)(const void *);
  simt_answer (*run)(const simt_launch *, int64_t, int64_t, simt_counts *, char *);
  size_t parameter_bytes;
} loaded_kernel;

// The newest PTX that a driver knows, 80 for 8.0, as NVIDIA's table of releases has it.
static int newest_ptx(void) {
  static const struct {
    int driver, ptx;
  } releases[] = {{11080, 78}, {12000, 80}, {12010, 81}, {12020, 82}, {12030, 83}, {12040, 84},
                  {12050, 85}, {12070, 86}, {12080, 87}, {12090, 88}, {13000, 90}, {13010, 91}};
  int newest = 0;
  for (size_t i = 0; i < sizeof releases / sizeof *releases; i++)
    if (releases[i].driver <= driver_version()) newest = releases[i].ptx;
  return newest;
}

static int refuse_ptx(const char *ptx, unsigned count, const int *options, void **values) {
  int major = 0, minor = 0;
  const char *version = strstr(ptx, ".version ");
  if (!version || sscanf(version, ".version %d.%d", &major, &minor) != 2) return INVALID_IMAGE;
  if (10 * major + minor <= newest_ptx()) return 0;
  if (count == 2 && options[0] == CUDA_LOAD_ERROR_LOG)
    snprintf(values[0], (size_t)(uintptr_t)values[1],
             "ptxas fatal   : Unsupported .version %d.%d; current version is '%d.%d'", major, minor,
             newest_ptx() / 10, newest_ptx() % 10);
  return UNSUPPORTED_PTX;
}

// Any driver of a release's first number takes cubins of all releases with it.
static int refuse_cubin(const char *cubin) {
  const char *toolkit = strstr(cubin, " of CUDA ");
  bool newer = toolkit && atoi(toolkit + 9) > driver_version() / 1000;
  return newer || number_of("CUDA_CUBINS", 1) == 0 ? INVALID_IMAGE : 0;
}

EXPORT int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options,
                              void **values) {
  int refused = unless_captured(1);
  if (refused) return refused;
  *module = (void *)(uintptr_t)image;
  if (memcmp(image, "\177ELF", 4) == 0) {
    refused = refuse_cubin((const char *)image + 4);
    return refused ? refused : called("cuModuleLoadDataEx", " cubin%s", (const char *)image + 4);
  }
  const char *target = strstr(image, ".target ");
  if (!target) return INVALID_IMAGE;
  refused = refuse_ptx(image, count, options, values);
  if (refused) return refused;
  return called("cuModuleLoadDataEx", " %.*s", (int)strcspn(target, "\n,"), target);
}

// The library that holds the PTX, or if there is none, or its file is gone, the one that $CUDA_CODE
// names, or the program itself.
static int find_library(const void *image, Dl_info *library) {
  if (dladdr(image, library) && access(library->dli_fname, R_OK) == 0) return 1;
  const char *path = getenv("CUDA_CODE");
  if (!path) return dladdr((void *)(uintptr_t)getauxval(AT_ENTRY), library);
  void *opened = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  return opened && dladdr(dlsym(opened, "rec_manifest"), library);
}

// The address of a local symbol of that library.
static void *find_symbol(const void *image, const char *name) {
  Dl_info library;
  struct stat status;
  void *found = NULL;
  if (!find_library(image, &library)) return NULL;
  int file = open(library.dli_fname, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &status) != 0) return NULL;
  const char *elf = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (elf == MAP_FAILED) return NULL;
  const Elf64_Ehdr *header = (const void *)elf;
  const Elf64_Shdr *sections = (const void *)(elf + header->e_shoff);
  for (int s = 0; s < header->e_shnum; s++) {
    if (sections[s].sh_type != SHT_SYMTAB) continue;
    const Elf64_Sym *symbols = (const void *)(elf + sections[s].sh_offset);
    const char *names = elf + sections[sections[s].sh_link].sh_offset;
    for (size_t i = 0; i < sections[s].sh_size / sizeof *symbols; i++)
      if (strcmp(names + symbols[i].st_name, name) == 0)
        found = (char *)library.dli_fbase + symbols[i].st_value;
  }
  munmap((void *)elf, (size_t)status.st_size);
  return found;
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name) {
  char entry[256];
  snprintf(entry, sizeof entry, ".entry %s(", name);
  if (is_named("CUDA_MISSING", name)) return NOT_FOUND;
  if (memcmp(module, "\177ELF", 4) != 0 && !strstr(module, entry)) return NOT_FOUND;
  static loaded_kernel kernels[256];
  loaded_kernel *k = kernels;
  while (k->name && strcmp(k->name, name) != 0) k++;
  if (!k->name) k->name = strdup(name);  // the caller may free its own
  *(void **)&k->function = find_symbol(module, name);
  *(void **)&k->run = find_symbol(module, "simt_run");
  snprintf(entry, sizeof entry, "%s_param_0[", name);
  const char *size = memcmp(module, "\177ELF", 4) != 0 ? strstr(module, entry) : NULL;
  k->parameter_bytes = size ? strtoul(size + strlen(entry), NULL, 10) : 0;
  called("cuModuleGetFunction", " %s", name);
  *function = k;
  return (k->function && k->run) || is_dry() ? 0 : NOT_FOUND;
}
EXPORT int cuFuncLoad(void *function) {
  const loaded_kernel *k = function;
  int refused = unless_captured(1);
  return refused ? refused : called("cuFuncLoad", " %s", k->name);
}
EXPORT int cuFuncSetAttribute(void *function, int attribute, int value) {
  const loaded_kernel *k = function;
  if (value > number_of("CUDA_SHARED", MOST_SHARED)) return INVALID_VALUE;
  return called("cuFuncSetAttribute", " %s %d %d", k->name, attribute, value);
}

static int launch_failed;

static void run_launch(const node *n) {
  const loaded_kernel *k = n->kernel;
  char message[SIMT_MESSAGE] = "";
  simt_launch launch = {.kernel = k->name,
                        .function = k->function,
                        .parameters = n->parameters,
                        .blocks = n->blocks,
                        .threads = (int)n->threads,
                        .shared_bytes = n->shared_bytes,
                        .seed = 1};
  if (is_dry()) return;
  int64_t blocks = is_named("CUDA_WRONG", k->name) ? n->blocks - 1 : n->blocks;
  launch_failed = k->run(&launch, 0, blocks, NULL, message) != SIMT_DONE;
  if (launch_failed) fprintf(stderr, "%s\n", message);
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z,
                          unsigned shared_bytes, void *stream, void **parameters, void **extra) {
  const loaded_kernel *k = function;
  int result =
      called("cuLaunchKernel", " %s grid %u block %u stream %p", k->name, grid_x, block_x, stream);
  if (result) return result;
  const rec_gpu_frame *frame = parameters[0];
  if (is_dry() && strncmp(k->name, "rec_kernel_", 11) == 0)
    called("items", " %lld slices %lld steps %lld", (long long)frame->blocks,
           (long long)frame->slices,
           (long long)(frame->slices > 1 ? frame->slice_steps : frame->time));
  while (is_named("CUDA_HANG", k->name)) pause();
  if (shared_bytes > (unsigned)number_of("CUDA_SHARED", MOST_SHARED)) return INVALID_VALUE;
  if (!current || grid_x == 0 || grid_y * grid_z * block_y * block_z != 1 || extra)
    return INVALID_VALUE;
  node n = {.run = run_launch,
            .kernel = k,
            .blocks = grid_x,
            .threads = block_x,
            .shared_bytes = shared_bytes,
            .stream = stream,
            .parameters = parameters[0],
            .parameter_bytes = k->parameter_bytes};
  if (n.parameter_bytes) n.parameters = memcpy(n.kept, parameters[0], n.parameter_bytes);
  launch_failed = 0;
  result = give(&n);
  return result ? result : launch_failed ? ILLEGAL_ADDRESS : 0;
}
