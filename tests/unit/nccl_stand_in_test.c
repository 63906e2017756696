// The NCCL of the tests (tests/cuda/nccl.c) refuses what NCCL may not: each rule is broken once.
// Two communicators live in one process, on two devices of the tests' driver.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "runtime/ranks/nccl.h"

#include "tests/unit/unit.h"

enum { BYTES = 1000, INVALID_ARGUMENT = 4, INVALID_USAGE = 5 };

static struct {
#define MEMBER(name, symbol, parameters) nccl_result(*name) parameters;
  NCCL_FUNCTIONS(MEMBER)
#undef MEMBER
} nccl_calls;
static const char *(*last_error)(nccl_comm comm);
static struct {
#define MEMBER(name, symbol, parameters) cuda_result(*name) parameters;
  CUDA_DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} driver;
static int (*new_stream)(void **stream, unsigned flags);

typedef struct pair {
  nccl_comm comms[2];
  cuda_context contexts[2];
  char *memory[2];
} pair;

static void *function(void *library, const char *name) {
  void *found = dlsym(library, name);
  assert_non_null(found);
  return found;
}

static int open_libraries(void **state) {
  (void)state;
  setenv("CUDA_DEVICES", "2", 1);
  void *cuda = dlopen(REC_BINARY_DIR "/tests/cuda_driver/libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  void *library = dlopen(REC_BINARY_DIR "/tests/nccl/libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
  if (!cuda || !library) return -1;
#define TAKE(name, symbol, parameters) *(void **)&nccl_calls.name = function(library, #symbol);
  NCCL_FUNCTIONS(TAKE)
#undef TAKE
#define TAKE(name, symbol, parameters) *(void **)&driver.name = function(cuda, #symbol);
  CUDA_DRIVER_FUNCTIONS(TAKE)
#undef TAKE
  *(void **)&last_error = function(library, "ncclGetLastError");
  *(void **)&new_stream = function(cuda, "cuStreamCreate");
  return driver.init(0);
}

static void enter(const pair *p, int number) {
  cuda_context before;
  driver.context_pop(&before);
  assert_int_equal(driver.context_push(p->contexts[number]), 0);
}

static nccl_result settled(nccl_comm comm) {
  nccl_result found = NCCL_IN_PROGRESS;
  for (int i = 0; i < 100 && found == NCCL_IN_PROGRESS; i++)
    assert_int_equal(nccl_calls.async_error(comm, &found), NCCL_DONE);
  return found;
}

static pair opened(void) {
  pair p;
  nccl_id id;
  nccl_config config = {.size = sizeof config, .magic = NCCL_CONFIG_MAGIC, .version = NCCL_OLDEST};
  assert_int_equal(nccl_calls.new_id(&id), NCCL_DONE);
  for (int i = 0; i < 2; i++) {
    cuda_pointer memory = 0;
    assert_int_equal(driver.primary_context(&p.contexts[i], i), 0);
    enter(&p, i);
    assert_int_equal(driver.allocate(&memory, BYTES), 0);
    p.memory[i] = (char *)(uintptr_t)memory;
    assert_int_equal(nccl_calls.init(&p.comms[i], 2, id, i, &config), NCCL_IN_PROGRESS);
  }
  for (int i = 0; i < 2; i++) assert_int_equal(settled(p.comms[i]), NCCL_DONE);
  enter(&p, 0);
  return p;
}

static void aborted(const pair *p) {
  for (int i = 0; i < 2; i++) {
    assert_int_equal(nccl_calls.abort(p->comms[i]), NCCL_DONE);
    driver.release((cuda_pointer)(uintptr_t)p->memory[i]);
  }
}

static nccl_result send(const pair *p, const void *bytes, int to, cuda_stream stream) {
  return nccl_calls.send(bytes, BYTES, NCCL_BYTE, to, p->comms[0], stream);
}

#define REFUSED(call, result, text)                  \
  do {                                               \
    assert_int_equal(call, result);                  \
    assert_non_null(strstr(last_error(NULL), text)); \
  } while (0)

TEST(groups) {
  pair p = opened();
  REFUSED(send(&p, p.memory[0], 1, NULL), INVALID_USAGE, "ncclSend outside of a group");
  REFUSED(nccl_calls.group_end(), INVALID_USAGE, "ncclGroupEnd without ncclGroupStart");
  assert_int_equal(nccl_calls.group_start(), NCCL_DONE);
  REFUSED(nccl_calls.group_start(), INVALID_USAGE, "ncclGroupStart in a group");
  REFUSED(nccl_calls.finalize(p.comms[0]), INVALID_USAGE, "ncclGroupEnd is missing");
  assert_int_equal(send(&p, p.memory[0], 1, NULL), NCCL_DONE);
  assert_int_equal(nccl_calls.group_end(), NCCL_IN_PROGRESS);
  assert_int_equal(nccl_calls.group_start(), NCCL_DONE);
  REFUSED(send(&p, p.memory[0], 1, NULL), INVALID_USAGE,
          "ncclSend before the last group is issued");
  assert_int_equal(nccl_calls.group_end(), NCCL_DONE);
  aborted(&p);
}

TEST(arguments) {
  char here[BYTES] = {0};
  cuda_stream other = NULL;
  pair p = opened();
  assert_int_equal(new_stream(&other, 0), 0);
  assert_int_equal(nccl_calls.group_start(), NCCL_DONE);
  REFUSED(send(&p, here, 1, NULL), INVALID_ARGUMENT, "1000 bytes that are not memory of the GPU");
  REFUSED(send(&p, p.memory[0] + 1, 1, NULL), INVALID_ARGUMENT,
          "1000 bytes that are not memory of the GPU");
  REFUSED(send(&p, p.memory[0], 0, NULL), INVALID_ARGUMENT, "ncclSend with rank 0");
  REFUSED(send(&p, p.memory[0], 2, NULL), INVALID_ARGUMENT, "ncclSend with rank 2");
  assert_int_equal(send(&p, p.memory[0], 1, NULL), NCCL_DONE);
  REFUSED(send(&p, p.memory[0], 1, other), INVALID_USAGE, "ncclSend in a group of another stream");
  enter(&p, 1);
  REFUSED(send(&p, p.memory[0], 1, NULL), INVALID_USAGE, "ncclSend in another context");
  enter(&p, 0);
  assert_int_equal(nccl_calls.group_end(), NCCL_IN_PROGRESS);
  aborted(&p);
}

TEST(after_abort) {
  nccl_result found;
  pair p = opened();
  aborted(&p);
  assert_int_equal(nccl_calls.group_start(), NCCL_DONE);
  REFUSED(send(&p, p.memory[0], 1, NULL), INVALID_USAGE, "ncclSend after ncclCommAbort");
  assert_int_equal(nccl_calls.group_end(), NCCL_DONE);
  REFUSED(nccl_calls.async_error(p.comms[0], &found), INVALID_USAGE, "after ncclCommAbort");
  REFUSED(nccl_calls.finalize(p.comms[0]), INVALID_USAGE, "ncclCommFinalize after ncclCommAbort");
  REFUSED(nccl_calls.destroy(p.comms[0]), INVALID_USAGE, "ncclCommDestroy before ncclCommFinalize");
  REFUSED(nccl_calls.abort(p.comms[0]), INVALID_USAGE, "ncclCommAbort after the end");
}

typedef struct side {
  const pair *p;
  int number;
} side;

// One of two threads that move as ranks would. It comes back when the communicator is aborted.
static void *move(void *argument) {
  const side *s = argument;
  const pair *p = s->p;
  nccl_result found;
  driver.context_push(p->contexts[s->number]);
  nccl_calls.group_start();
  if (s->number)
    nccl_calls.receive(p->memory[1], BYTES - 1, NCCL_BYTE, 0, p->comms[1], NULL);
  else
    send(p, p->memory[0], 1, NULL);
  nccl_calls.group_end();
  for (int i = 0;
       i < 10 && !nccl_calls.async_error(p->comms[s->number], &found) && found == NCCL_IN_PROGRESS;
       i++)
    continue;
  return NULL;
}

TEST(sizes_disagree) {
  pair p = opened();
  side sides[2] = {{&p, 0}, {&p, 1}};
  pthread_t threads[2];
  nccl_result found = NCCL_DONE;
  for (int i = 0; i < 2; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, move, &sides[i]), 0);
  for (int i = 0; i < 5000 && found != INVALID_USAGE; i++, usleep(1000))
    assert_int_equal(nccl_calls.async_error(p.comms[1], &found), NCCL_DONE);
  REFUSED(found, INVALID_USAGE, "rank 1 receives 999 bytes from rank 0, which sends 1000");
  aborted(&p);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
}

TEST(one_gpu_for_two) {
  pair p = {{NULL}, {NULL}, {NULL}};
  nccl_id id;
  nccl_config config = {.size = sizeof config, .magic = NCCL_CONFIG_MAGIC, .version = NCCL_OLDEST};
  assert_int_equal(nccl_calls.new_id(&id), NCCL_DONE);
  assert_int_equal(driver.primary_context(&p.contexts[0], 0), 0);
  enter(&p, 0);
  for (int i = 0; i < 2; i++)
    assert_int_equal(nccl_calls.init(&p.comms[i], 2, id, i, &config), NCCL_IN_PROGRESS);
  REFUSED(settled(p.comms[0]), INVALID_USAGE, "ranks 0 and 1 have one GPU");
  for (int i = 0; i < 2; i++) assert_int_equal(nccl_calls.abort(p.comms[i]), NCCL_DONE);
}

TEST_AROUND(open_libraries, NULL)
