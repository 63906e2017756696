// Chunk lengths that users may ask for: the standard library is scheduled and planned, for the host
// and for GPUs, without code. A seed draws half of the lengths (kernel_is_drawn). What fails ends
// the program with the message of an internal error.
// (10 s of processor time.)
#include <dirent.h>

#include "compiler/schedule/gpu/schedule.h"
#include "compiler/target/target.h"
#include "runtime/front.h"
#include "tests/recurrence/kernel_programs.h"
#include "tests/unit/unit.h"

static void plan_for_host(arena *a, const recurrence *r, schedule_options options) {
  recurrence_kernels *host = schedule_recurrence(a, r, options);
  assert_true(host->kernels.count >= 4);
  for (int i = 0; i < host->kernels.count; i++)
    codegen_describe(a, &host->kernels.items[i], (codegen_options){.dtype = NUMBER_F32});
}

static void plan_for_gpu(arena *a, const recurrence *r, schedule_options options) {
  codegen_gpu_options gpu = {.dtype = NUMBER_BF16, .targets = 1u << GPU_SM_90A, .warpgroups = true};
  recurrence_kernels *device = codegen_gpu_schedule(a, r, options, gpu);
  assert_true(device->kernels.count >= 3);
  for (int i = 0; i < device->kernels.count; i++)
    codegen_gpu_describe(a, &device->kernels.items[i], gpu);
}

// Plans for GPUs take most of the time: beside few steps and powers of two they are made for some
// lengths.
static void plan_all(const recurrence *r, int chunk, bool on_gpu) {
  arena *a = arena_new();
  schedule_options options = {.chunk = chunk, .form = FORM_CHUNK};
  plan_for_host(a, r, options);
  if (on_gpu) plan_for_gpu(a, r, options);
  arena_free(a);
}

static void plan_file(const char *path) {
  rec_front *front;
  assert_int_equal(rec_front_new(path, NULL, 0, NULL, NULL, 0, stderr, &front), REC_OK);
  for (int i = 0; i < rec_front_count(front); i++) {
    const recurrence *r = rec_front_recurrence(front, i);
    for (int chunk = 1; chunk <= 70; chunk++)
      if (chunk < 4 || chunk % 24 == 0 || kernel_is_drawn(chunk, 2))
        plan_all(r, chunk, chunk < 4 || chunk % 24 == 0);
    for (int chunk = 128; chunk <= CHUNK_MOST_STEPS; chunk *= 2) plan_all(r, chunk, true);
  }
  rec_front_free(front);
}

TEST(the_standard_library_takes_every_length) {
  int files = 0;
  DIR *list = opendir(REC_SOURCE_DIR "/stdlib");
  assert_non_null(list);
  for (struct dirent *entry; (entry = readdir(list));) {
    const char *end = strrchr(entry->d_name, '.');
    char path[512];
    if (!end || strcmp(end, ".rec") != 0) continue;
    snprintf(path, sizeof path, REC_SOURCE_DIR "/stdlib/%s", entry->d_name);
    plan_file(path);
    files++;
  }
  closedir(list);
  assert_true(files > 20);
}
