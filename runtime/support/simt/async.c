// Asynchronous copies from global to shared memory. A copy lands when its thread waits for it,
// never before. Until then the destination holds NaNs, and nobody may change the source.
//
//   cp_async16 a; commit; cp_async16 b; commit; wait_1   ->   a has landed, b has not
#include <string.h>

#include "runtime/support/simt/block.h"
#include "runtime/support/simt/ops.h"

static void begin_copy(void *to, const void *from, uint32_t size, int32_t bytes) {
  simt_block *b = simt_current;
  simt_thread *thread = &b->threads[b->running];
  if (bytes < 0 || (uint32_t)bytes > size)
    simt_fail("copies %d bytes by an asynchronous copy of %u", bytes, size);
  shared_check(b, b->running, to, size, size, true);
  b->counts.copies++;
  if (bytes > 0) global_check(b, from, bytes, (int32_t)size, 0);
  thread->copies = simt_grown(thread->copies, thread->copy_count, &thread->copy_room,
                              sizeof *thread->copies, "copies");
  async_copy *copy = &thread->copies[thread->copy_count++];
  *copy = (async_copy){
      .group = thread->group, .bytes = size, .source = from, .source_bytes = (uint32_t)bytes};
  copy->offset = (uint32_t)((unsigned char *)to - b->shared);
  if (bytes > 0) memcpy(copy->data, from, (size_t)bytes);
  memset(to, 0xff, size);
  shared_in_flight(b, b->running, copy->offset, size);
}

void simt_cp_async16(void *to, const void *from, int32_t bytes) { begin_copy(to, from, 16, bytes); }
void simt_cp_async4(void *to, const void *from, int32_t bytes) { begin_copy(to, from, 4, bytes); }

void simt_cp_async_commit(void) { simt_current->threads[simt_current->running].group++; }

// Lands the copies of all committed groups but the last `but`.
static void wait_copies(int but) {
  simt_block *b = simt_current;
  simt_thread *thread = &b->threads[b->running];
  if (simt_is_skipped(&thread->waits, b->launch->skipped_wait)) return;
  int kept = 0;
  for (int i = 0; i < thread->copy_count; i++) {
    const async_copy *copy = &thread->copies[i];
    if (copy->group >= thread->group - but) {
      thread->copies[kept++] = *copy;
      continue;
    }
    if (memcmp(copy->source, copy->data, copy->source_bytes) != 0)
      simt_fail(
          "race: waits for an asynchronous copy whose %u bytes of global memory changed under way",
          copy->source_bytes);
    memcpy(b->shared + copy->offset, copy->data, copy->bytes);
    shared_landed(b, b->running, copy->offset, copy->bytes);
  }
  thread->copy_count = kept;
}

void simt_cp_async_wait_0(void) { wait_copies(0); }
void simt_cp_async_wait_1(void) { wait_copies(1); }

void async_check_exit(simt_block *b, int thread) {
  if (b->threads[thread].copy_count > 0)
    simt_fail("ends with %d asynchronous copies that it has not waited for",
              b->threads[thread].copy_count);
}
