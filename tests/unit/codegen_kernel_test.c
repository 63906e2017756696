// Compiled kernels against the reference interpreter: values and all gradients, f64 and f32, for
// clones drawn of those that this machine runs. Instances come in several calls; initial states and
// cotangents are absent or present.
#include <dlfcn.h>
#include <unistd.h>

#include <math.h>

#include "compiler/base/arena.h"
#include "tests/recurrence/kernel_programs.h"
#include "tests/recurrence/kernel_run.h"
#include "tests/unit/unit.h"

// ---- comparison ------------------------------------------------------------------------------

static void compare(const recurrence *r, const library *lib, codegen_clone clone, int64_t time,
                    bool f64, bool bare, const char *what) {
  arena *a = arena_new();
  trial t = trial_new(a, r, 2, time, NULL, 0, 5), u = trial_new(a, r, 2, time, NULL, 0, 5);
  for (int i = 0; i < r->body.tensors.count; i++) {
    if (!bare || r->body.tensors.items[i].kind != TENSOR_STATE) continue;
    t.run.tensors[i].data = t.run.d_final_states[i].data = NULL;
  }
  for (int i = 0; bare && i < r->body.lags.count; i++)
    t.run.lags[i].data = t.run.d_final_lags[i].data = NULL;
  if (!f64) {  // the same numbers for both
    for (int i = 0; i < r->body.tensors.count; i++) {
      for (int64_t n = 0; n < t.tensor_numbers[i]; n++)
        if (t.run.tensors[i].data) t.run.tensors[i].data[n] = (float)t.run.tensors[i].data[n];
    }
  }
  assert_true(reference_execute(r, &t.run, true));
  launch l = launch_new(a, lib, clone, &u, f64, bare);
  launch_kernel(&l, KERNEL_FORWARD);
  launch_kernel(&l, KERNEL_BACKWARD);
  assert_equal_runs(&t, &u, f64 ? 1e-11 : 3e-5, what);
  launch_forget_saved(&l);
  launch_kernel(&l, KERNEL_STATES);
  launch_kernel(&l, KERNEL_BACKWARD);
  assert_equal_runs(&t, &u, f64 ? 1e-11 : 3e-5, arena_printf(a, "%s, states made again", what));
  if (time == 1) {
    launch_kernel(&l, KERNEL_STEP);
    assert_equal_runs(&t, &u, f64 ? 1e-11 : 3e-5, arena_printf(a, "%s, step", what));
  }
  arena_free(a);
}

static int largest_function;
static char largest_name[128];

// Each program is compiled for one kind of processor in f64 and for another in f32.
static void compare_program(int number, bool f64, bool steps) {
  const char *only = getenv("ONLY");
  if (only && !strstr(kernel_programs[number].name, only)) return;
  static const int64_t times[] = {0, 1, 37, 70};
  fixture s = fixture_open();
  recurrence *r = fixture_analyse(&s, kernel_programs[number].source);
  recurrence_kernels *kernels = schedule_recurrence(
      s.memory, r, (schedule_options){.f64 = f64, .form = steps ? FORM_STEP : FORM_CHOSEN});
  if (steps) assert_string_equal(kernels->form, "step");
  codegen_options host = {.level = 2,
                          .dtype = f64 ? NUMBER_F64 : NUMBER_F32,
                          .clones = kernel_clones_drawn(number + f64)};
  library lib = kernel_library(s.memory, kernels, host);
  printf("%-16s %-18s %s\n", kernel_programs[number].name, kernels->form, f64 ? "f64" : "f32");
  for (int i = 0; i < lib.object->functions.count; i++) {
    if (lib.object->functions.items[i].instructions <= largest_function) continue;
    largest_function = lib.object->functions.items[i].instructions;
    snprintf(largest_name, sizeof largest_name, "%s of '%s'", lib.object->functions.items[i].symbol,
             kernel_programs[number].name);
  }
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    if (!(host.clones >> clone & 1)) continue;
    for (int k = 0; k < 4; k++) {
      for (int bare = 0; bare < 2; bare++) {
        const char *what = arena_printf(
            s.memory, "%s, %s, %s, T = %d%s", kernel_programs[number].name, f64 ? "f64" : "f32",
            codegen_clone_name(clone), (int)times[k], bare ? ", bare" : "");
        compare(r, &lib, clone, times[k], f64, bare, what);
      }
    }
  }
  dlclose(lib.handle);
  fixture_close(&s);
}

TEST(kernels_agree_with_the_reference_in_f64) {
  for (int i = 0; i < kernel_program_count; i++) compare_program(i, true, false);
}

TEST(kernels_agree_with_the_reference_in_f32) {
  for (int i = 0; i < kernel_program_count; i++) compare_program(i, false, i % 2);
}

TEST(functions_are_small) {
  printf("largest function: %d instructions, %s\n", largest_function, largest_name);
  assert_true(largest_function <= 5000);
}
