#include "runtime/cuda_memory.h"

#include <pthread.h>
#include <stdlib.h>

enum { GRAIN = 512, LARGE_GRAIN = 2 << 20, OUT_OF_MEMORY = 2 };

typedef struct piece {
  unsigned long long context;  // its number
  cuda_pointer memory;
  int64_t bytes;
  cuda_event last_use;  // recorded on the stream that gave the piece back
  bool used;
  bool unordered;  // given back, but last_use could not be recorded
  struct piece *next;
} piece;

static pthread_mutex_t pieces_lock = PTHREAD_MUTEX_INITIALIZER;
static piece *pieces;

// Sizes that differ by little are one, so that pieces are used again.
static int64_t rounded_to_grain(int64_t bytes) {
  int64_t grain = bytes < LARGE_GRAIN ? GRAIN : LARGE_GRAIN;
  return (bytes + grain - 1) / grain * grain;
}

// The smallest that is free; half as much again would be wasted.
static piece *find_free_piece(unsigned long long context, int64_t bytes) {
  piece *best = NULL;
  for (piece *p = pieces; p; p = p->next) {
    if (p->used || p->unordered || p->context != context) continue;
    if (p->bytes < bytes || p->bytes > bytes + bytes / 2) continue;
    if (!best || p->bytes < best->bytes) best = p;
  }
  return best;
}

static int64_t held(unsigned long long context, bool used) {
  int64_t bytes = 0;
  for (const piece *p = pieces; p; p = p->next)
    if (p->context == context && p->used == used) bytes += p->bytes;
  return bytes;
}

static void release_piece(const cuda_driver *d, piece *p) {
  if (p->memory) d->release(p->memory);
  if (p->last_use) d->event_destroy(p->last_use);
  free(p);
}

// Gives back what is kept, after the work of all streams. Where that work fails, the context is
// lost, and its memory with it.
static void release_kept(const cuda_driver *d, unsigned long long context) {
  if (held(context, false) == 0 || d->context_synchronize()) return;
  for (piece **at = &pieces; *at;) {
    piece *p = *at;
    if (p->used || p->context != context) {
      at = &p->next;
      continue;
    }
    *at = p->next;
    release_piece(d, p);
  }
}

static int64_t limit(void) {
  const char *text = getenv("REC_GPU_MEMORY");
  int64_t mebibytes = text ? strtoll(text, NULL, 10) : 0;
  return mebibytes > 0 && mebibytes < INT64_MAX >> 20 ? mebibytes << 20 : INT64_MAX;
}

static cuda_result ask_driver(const cuda_driver *d, unsigned long long context, int64_t bytes,
                              cuda_pointer *memory) {
  if (bytes > limit() - held(context, true) - held(context, false)) return OUT_OF_MEMORY;
  return d->allocate(memory, (size_t)bytes);
}

static rec_status no_room(const cuda_driver *d, unsigned long long context, int64_t bytes) {
  size_t unused = 0, total = 0;
  d->memory_info(&unused, &total);
  long long used = (long long)held(context, true);
  if (limit() != INT64_MAX && bytes > limit() - used)
    return rec_fail(REC_ERROR_MEMORY,
                    "expected %lld bytes of GPU memory, found %lld in use of the %lld that "
                    "REC_GPU_MEMORY allows",
                    (long long)bytes, used, (long long)limit());
  return rec_fail(REC_ERROR_MEMORY,
                  "expected %lld bytes of GPU memory, found %lld free of %lld; rec uses %lld",
                  (long long)bytes, (long long)unused, (long long)total, used);
}

// A new piece for the driver's memory.
static rec_status allocate_piece(const cuda_driver *d, piece *fresh) {
  int64_t bytes = fresh->bytes;
  unsigned long long context = fresh->context;
  cuda_result result = d->event_create(&fresh->last_use, CUDA_EVENT_WITHOUT_TIME);
  if (result) return cuda_check(d, result, "cuEventCreate", NULL);
  result = ask_driver(d, context, bytes, &fresh->memory);
  if (result == OUT_OF_MEMORY) {
    release_kept(d, context);
    result = ask_driver(d, context, bytes, &fresh->memory);
  }
  return result == OUT_OF_MEMORY ? no_room(d, context, bytes)
                                 : cuda_check(d, result, "cuMemAlloc", NULL);
}

static rec_status take_new(const cuda_driver *d, unsigned long long context, int64_t bytes,
                           piece **taken) {
  piece *fresh = calloc(1, sizeof *fresh);
  if (!fresh) return rec_no_memory();
  *fresh = (piece){.context = context, .bytes = bytes};
  rec_status status = allocate_piece(d, fresh);
  if (status) {
    release_piece(d, fresh);
    return status;
  }
  fresh->next = pieces;
  *taken = pieces = fresh;
  return REC_OK;
}

// The stream's work waits on the device for the piece's last use; the caller does not wait.
static rec_status take_piece(const cuda_driver *d, unsigned long long context, cuda_stream stream,
                             int64_t bytes, piece **taken) {
  *taken = find_free_piece(context, bytes);
  if (!*taken) return take_new(d, context, bytes, taken);
  return cuda_check(d, d->stream_wait(stream, (*taken)->last_use, 0), "cuStreamWaitEvent", NULL);
}

rec_status rec_cuda_take(const cuda_driver *d, cuda_stream stream, int64_t bytes, void **memory) {
  cuda_context context = NULL;
  unsigned long long number = 0;
  *memory = NULL;
  if (bytes == 0) return REC_OK;
  if (bytes < 0 || bytes > INT64_MAX - LARGE_GRAIN) return rec_no_memory();
  rec_status status = cuda_check(d, d->context_current(&context), "cuCtxGetCurrent", NULL);
  if (!status) status = cuda_check(d, d->context_number(context, &number), "cuCtxGetId", NULL);
  if (status) return status;
  piece *p = NULL;
  pthread_mutex_lock(&pieces_lock);
  status = take_piece(d, number, stream, rounded_to_grain(bytes), &p);
  if (!status) {
    p->used = true;
    *memory = (void *)(uintptr_t)p->memory;
  }
  pthread_mutex_unlock(&pieces_lock);
  return status;
}

void rec_cuda_give(const cuda_driver *d, cuda_stream stream, void *memory) {
  if (!memory) return;
  pthread_mutex_lock(&pieces_lock);
  for (piece *p = pieces; p; p = p->next) {
    if (p->memory != (cuda_pointer)(uintptr_t)memory || !p->used) continue;
    p->used = false;
    p->unordered = d->event_record(p->last_use, stream) != 0;
  }
  pthread_mutex_unlock(&pieces_lock);
}
