// Messages between the memories of GPUs: NCCL, from a library that is opened at run time. It moves
// bytes from one rank to another and does nothing else.
//
// NCCL has no tags: two ranks must issue what they move between them in one order. A message
// occupies the stream until the other rank comes to it. So messages are moved in lists, each of
// which is one group of NCCL, in the order of the program, on the stream that computes.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "runtime/ranks/patience.h"
#include "runtime/ranks/ranks.h"
#include "runtime/support/cuda_driver.h"

typedef int nccl_result;  // NCCL_DONE, ..
typedef struct nccl_comm *nccl_comm;

typedef struct nccl_id {
  char bytes[128];
} nccl_id;

// The first members of ncclConfig_t, which all versions from 2.14 on read.
typedef struct nccl_config {
  size_t size;
  unsigned magic, version;
  int blocking;  // 0: calls may return NCCL_IN_PROGRESS
} nccl_config;

enum { NCCL_DONE = 0, NCCL_IN_PROGRESS = 7, NCCL_BYTE = 1, NCCL_OLDEST = 21400 };
#define NCCL_CONFIG_MAGIC 0xcafebeefu

// F(name here, name in libnccl.so.2, parameters)
#define NCCL_FUNCTIONS(F)                                                                    \
  F(version, ncclGetVersion, (int *version))                                                 \
  F(new_id, ncclGetUniqueId, (nccl_id * id))                                                 \
  F(init, ncclCommInitRankConfig,                                                            \
    (nccl_comm * made, int count, nccl_id id, int number, nccl_config *config))              \
  F(finalize, ncclCommFinalize, (nccl_comm comm))                                            \
  F(destroy, ncclCommDestroy, (nccl_comm comm))                                              \
  F(abort, ncclCommAbort, (nccl_comm comm))                                                  \
  F(async_error, ncclCommGetAsyncError, (nccl_comm comm, nccl_result * found))               \
  F(group_start, ncclGroupStart, (void))                                                     \
  F(group_end, ncclGroupEnd, (void))                                                         \
  F(send, ncclSend,                                                                          \
    (const void *bytes, size_t count, int type, int to, nccl_comm comm, cuda_stream stream)) \
  F(receive, ncclRecv,                                                                       \
    (void *bytes, size_t count, int type, int from, nccl_comm comm, cuda_stream stream))

typedef struct nccl nccl;

typedef struct nccl_settings {
  ranks *job;
  int64_t patience;  // seconds
  // Of a list on its way: it has been waited for a second more, which may end the job; it has
  // ended.
  void (*second)(ranks *job, rank_wait *w);
  void (*end)(ranks *job, rank_wait *w);
} nccl_settings;

// Opens the library that REC_NCCL names, or libnccl.so.2. A current CUDA context is what it is for.
rec_status nccl_open(const nccl_settings *settings, nccl **made);
rec_status nccl_new_id(nccl *n, nccl_id *id);
// Of the context's device, the same for no two of a machine.
rec_status nccl_device(const nccl *n, char uuid[16]);
// All ranks with the id of one of them.
rec_status nccl_join(nccl *n, const nccl_id *id);
const char *nccl_version_text(const nccl *n);
// As ranks_move. What fails ends the job.
void nccl_move(nccl *n, const listed_message *list, int count, message_place place);
// After a rank has not joined: this one leaves.
void nccl_give_up(nccl *n);
// All ranks come here, after their last list. NULL is allowed.
void nccl_close(nccl *n);
