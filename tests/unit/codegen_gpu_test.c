// GPU kernels on the executor against the reference interpreter: values and all gradients in f32.
// Initial states and cotangents are absent or present, sequences are packed, in step and chunk
// form. Of the programs in step form a third are drawn, of the types on tensor cores one.
#include <dlfcn.h>
#include <math.h>

#include "compiler/base/arena.h"
#include "compiler/schedule/gpu/schedule.h"
#include "tests/recurrence/gpu_run.h"
#include "tests/recurrence/kernel_programs.h"
#include "tests/recurrence/kernel_run.h"
#include "tests/unit/unit.h"

static double allowed = 3e-5;

static void same_numbers(const recurrence *r, trial *t) {
  for (int i = 0; i < r->body.tensors.count; i++) {
    for (int64_t n = 0; n < t->tensor_numbers[i]; n++)
      if (t->run.tensors[i].data) t->run.tensors[i].data[n] = (float)t->run.tensors[i].data[n];
  }
}

static void without_states(const recurrence *r, trial *t) {
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    t->run.tensors[i].data = t->run.d_final_states[i].data = NULL;
  }
  for (int i = 0; i < r->body.lags.count; i++)
    t->run.lags[i].data = t->run.d_final_lags[i].data = NULL;
}

typedef struct shape {
  int64_t batch, time;
  const int32_t *cu_seqlens;
  int64_t sequences;
  bool bare;
} shape;

static void compare(const recurrence *r, const gpu_library *lib, shape s, const char *what) {
  arena *a = arena_new();
  trial t = trial_new(a, r, s.batch, s.time, s.cu_seqlens, s.sequences, 5);
  trial u = trial_new(a, r, s.batch, s.time, s.cu_seqlens, s.sequences, 5);
  if (s.bare) without_states(r, &t);
  same_numbers(r, &t);
  assert_true(reference_execute(r, &t.run, true));
  gpu_launch l = gpu_launch_new(a, lib, &u, s.bare);
  l.cu_seqlens = s.cu_seqlens;
  gpu_launch_kernel(&l, KERNEL_FORWARD);
  gpu_launch_kernel(&l, KERNEL_BACKWARD);
  assert_equal_runs(&t, &u, allowed, what);
  gpu_launch_forget_saved(&l);
  l.seed = 2;
  l.shift = 1;
  gpu_launch_kernel(&l, KERNEL_STATES);
  gpu_launch_kernel(&l, KERNEL_BACKWARD);
  assert_equal_runs(&t, &u, allowed,
                    arena_printf(a, "%s, states made again, tensors not aligned", what));
  if (s.time == 1 && !s.cu_seqlens) {
    gpu_launch_kernel(&l, KERNEL_STEP);
    assert_equal_runs(&t, &u, allowed, arena_printf(a, "%s, step", what));
  }
  arena_free(a);
}

static void compare_program(int number, schedule_form form, codegen_gpu_options gpu) {
  const char *only = getenv("ONLY");
  if (only && !strstr(kernel_programs[number].name, only)) return;
  static const int32_t sequences[] = {0, 0, 5, 22, 22, 23, 40};
  static const shape shapes[] = {{2, 0, NULL, 0, false}, {2, 1, NULL, 0, false},
                                 {1, 1, NULL, 0, true},  {2, 37, NULL, 0, false},
                                 {1, 70, NULL, 0, true}, {1, 40, sequences, 6, false}};
  fixture f = fixture_open();
  recurrence *r = fixture_analyse(&f, kernel_programs[number].source);
  schedule_options options = {.gpu = true, .form = form};
  recurrence_kernels *kernels = codegen_gpu_schedule(f.memory, r, options, gpu);
  gpu_library lib = gpu_library_load(f.memory, kernels, gpu);
  printf("%-16s %s\n", kernel_programs[number].name, kernels->form);
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const char *what =
        arena_printf(f.memory, "%s, %s, T = %d%s%s", kernel_programs[number].name, kernels->form,
                     (int)shapes[i].time, shapes[i].bare ? ", bare" : "",
                     shapes[i].cu_seqlens ? ", packed" : "");
    compare(r, &lib, shapes[i], what);
  }
  dlclose(lib.handle);
  fixture_close(&f);
}

TEST(kernels_agree_with_the_reference) {
  for (int i = 0; i < kernel_program_count; i++)
    if (kernel_is_drawn(i, 2)) compare_program(i, FORM_CHOSEN, (codegen_gpu_options){0});
}

TEST(kernels_in_step_form_agree_with_the_reference) {
  for (int i = 0; i < kernel_program_count; i++)
    if (kernel_is_drawn(i, 3)) compare_program(i, FORM_STEP, (codegen_gpu_options){0});
}

// Tensor cores: sizes that are whole tiles and sizes that are not. Rounding is that of the numbers'
// type.
TEST(products_on_tensor_cores_agree) {
  static const char *const names[] = {"large heads", "delta rule", "linear attention",
                                      "read before"};
  static const struct {
    codegen_gpu_options options;
    double allowed;
  } kinds[] = {
      {{.dtype = NUMBER_BF16}, 4e-2}, {{.dtype = NUMBER_F16}, 6e-3}, {{.tf32 = true}, 6e-3}};
  for (int kind = 0; kind < 3; kind++) {
    if (!kernel_is_drawn(kind, 3)) continue;
    allowed = kinds[kind].allowed;
    for (int i = 0; i < kernel_program_count; i++) {
      for (int n = 0; n < 4; n++)
        if (strcmp(kernel_programs[i].name, names[n]) == 0)
          compare_program(i, FORM_CHUNK, kinds[kind].options);
    }
  }
  allowed = 3e-5;
}

// f32 goes into products in two parts: where the bits of a NaN get lost from one of them, the other
// one is a NaN.
TEST(not_a_number_stays_one_in_products) {
  enum { TIME = 24, STEP = 19 };
  static const uint32_t bits[] = {0x7fffffff, 0xffffffff, 0x7fc00000, 0x7f800001};
  fixture f = fixture_open();
  recurrence *r = fixture_analyse(&f, kernel_program_source("linear attention"));
  recurrence_kernels *kernels = codegen_gpu_schedule(
      f.memory, r, (schedule_options){.gpu = true, .form = FORM_CHUNK}, (codegen_gpu_options){0});
  gpu_library lib = gpu_library_load(f.memory, kernels, (codegen_gpu_options){0});
  for (int input = 0; input < 3; input++) {
    for (size_t b = 0; b < sizeof bits / sizeof *bits; b++) {
      trial t = trial_new(f.memory, r, 1, TIME, NULL, 0, 5);
      for (int i = 0; i < r->body.tensors.count; i++)
        for (int64_t n = 0; n < t.tensor_numbers[i]; n++)
          if (t.run.tensors[i].data) t.run.tensors[i].data[n] = (float)t.run.tensors[i].data[n];
      int64_t row = t.tensor_numbers[input] / TIME;
      float number;
      memcpy(&number, &bits[b], sizeof number);
      for (int64_t n = 0; n < row; n++) t.run.tensors[input].data[STEP * row + n] = (double)number;
      gpu_launch l = gpu_launch_new(f.memory, &lib, &t, true);
      gpu_launch_kernel(&l, KERNEL_FORWARD);
      for (int i = 0; i < r->body.tensors.count; i++) {
        if (r->body.tensors.items[i].kind != TENSOR_OUTPUT) continue;
        row = t.tensor_numbers[i] / TIME;
        for (int64_t n = 0; n < row; n++) assert_true(isnan(t.run.tensors[i].data[STEP * row + n]));
      }
    }
  }
  dlclose(lib.handle);
  fixture_close(&f);
}
