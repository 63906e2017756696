// 16-bit numbers in generated code and in the support code, for every clone that this machine runs.
// On the way in: all 65536 patterns of bf16 and f16. On the way out: every float half way between
// two neighbours, the floats beside it, and 2^18 others. The other side of each comparison is
// rec_convert, which goes through doubles.
#include <dlfcn.h>
#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "compiler/abi/library.h"
#include "compiler/emit/emit.h"
#include "runtime/rec.h"
#include "runtime/support/narrow.c"
#include "tests/recurrence/load.h"
#include "tests/unit/unit.h"

enum { PATTERNS = 1 << 16, RANDOM = 1 << 18, FLOATS = 6 * (PATTERNS / 2) + RANDOM };

// How a vector's numbers lie: side by side, two apart, further apart (known at run time only).
typedef enum spacing { DENSE, PAIRS, FAR, SPACINGS } spacing;
static const char *const spacing_names[] = {"dense", "pairs", "far"};
static const int64_t spacing_strides[] = {1, 2, 3};

static const int lane_counts[] = {0, 1, 3, 8, 16, 33, 64};
enum { LANE_COUNTS = sizeof lane_counts / sizeof *lane_counts };

static const number_type types[] = {NUMBER_BF16, NUMBER_F16};
static const rec_dtype rec_types[] = {REC_BF16, REC_F16};
static const int stored[] = {REC_STORED_BF16, REC_STORED_F16};

// Of the function for a type, a spacing, lanes, with a mask or without.
static const char *name_of(bool store, int type, spacing s, int lanes, bool masked, int clone) {
  static char name[64];
  snprintf(name, sizeof name, "%s_%s_%s_%d%s%s", store ? "store" : "load",
           number_type_text(types[type]), spacing_names[s], lanes, masked ? "_masked" : "",
           clone_targets[clone].suffix);
  return name;
}

// void NAME(u16 *x, float *y, i64 n, i64 stride, i64 count): n numbers, in vectors of which `count`
// lanes are taken.
static void make_function(emitter *e, bool store, int type, spacing s, int lanes, bool masked) {
  LLVMTypeRef parameters[] = {e->pointer, e->pointer, e->i64, e->i64, e->i64};
  LLVMTypeRef function_type = LLVMFunctionType(LLVMVoidTypeInContext(e->context), parameters, 5, 0);
  ir f = llvm_function(e->m, name_of(store, type, s, lanes, masked, e->clone), function_type,
                       e->clone);
  LLVMSetVisibility(f, LLVMProtectedVisibility);
  emit_open(e, f);
  ir args[5];
  LLVMGetParams(f, args);
  ir stride = s == FAR ? args[3] : integer(e, spacing_strides[s]);
  emit_loop loop = loop_begin(e, integer(e, 0), args[2], lanes ? lanes : 1, "i");
  ir narrow = element(e, e->i16, args[0], int_mul(e, loop.index, stride));
  ir wide = element(e, e->real, args[1], loop.index);
  ir mask = masked ? lane_mask(e, args[4], lanes) : NULL;
  if (store)
    store_narrow(e, types[type], load_real(e, wide, lanes), narrow, stride, mask);
  else
    store_real(e, load_narrow(e, types[type], narrow, stride, mask, lanes), wide);
  loop_end(e, &loop);
  LLVMBuildRetVoid(e->b);
}

static void make_functions(emitter *e) {
  for (int type = 0; type < 2; type++) {
    for (int i = 0; i < LANE_COUNTS; i++) {
      for (spacing s = DENSE; s < SPACINGS; s++) {
        if (s != DENSE && lane_counts[i] != 8 && lane_counts[i] != 33) continue;
        for (int variant = 0; variant < (lane_counts[i] ? 4 : 2); variant++)
          make_function(e, variant % 2, type, s, lane_counts[i], variant >= 2);
      }
    }
  }
}

static void *make_library(void) {
  arena *a = arena_new();
  llvm_module m = llvm_module_new("narrow", 1, PROCESSOR_HOST);
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    emitter e = emitter_new(a, &m, clone, NUMBER_F32);
    make_functions(&e);
    emitter_free(&e);
  }
  llvm_verify(&m);
  llvm_optimise(&m, 1);
  link_object object = {.name = "narrow.o"};
  object.bytes = llvm_object(a, &m, &object.size);
  llvm_module_free(&m);
  void *library = load_objects(a, &object, 1);
  arena_free(a);
  return library;
}

typedef void moving_function(uint16_t *, float *, int64_t, int64_t, int64_t);

typedef struct narrow_fixture {
  void *library;
  float *floats;
  uint16_t *narrow[2];  // of the floats, by type
  float *widened[2];    // of all patterns, by type
} narrow_fixture;

static moving_function *find(const narrow_fixture *f, const char *name) {
  moving_function *function;
  *(void **)&function = dlsym(f->library, name);
  if (!function) fail_msg("no function %s", name);
  return function;
}

static uint32_t bits_in(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}

// Half way from each number to the next larger one, from the largest to what would follow it, with
// its neighbours and of both signs.
static int add_boundaries(float *floats, int type) {
  int count = 0;
  for (uint32_t bits = 0; bits < (type ? 0x7c00u : 0x7f80u); bits++) {
    float middle = float_of((bits << 16) + 0x8000);
    if (type) {
      int exponent = bits >> 10 ? (int)(bits >> 10) : 1;
      double fraction = (bits & 0x3ff) + (bits >> 10 ? 1024 : 0) + 0.5;
      middle = (float)ldexp(fraction, exponent - 25);
    }
    float three[] = {middle, nextafterf(middle, 0), nextafterf(middle, INFINITY)};
    for (int i = 0; i < 3; i++) {
      floats[count++] = three[i];
      floats[count++] = -three[i];
    }
  }
  return count;
}

static void fill_floats(float *floats, int type) {
  int count = add_boundaries(floats, type);
  uint32_t state = 1;
  const uint32_t special[] = {0x7f800000, 0xff800000, 0x7f800001, 0xff800001, 0x7fc00000,
                              0x7fbfffff, 0x7fffffff, 0xffffffff, 0,          0x80000000,
                              1,          0x80000001, 0x7f7fffff, 0xff7fffff};
  for (size_t i = 0; i < sizeof special / sizeof *special; i++)
    floats[count++] = float_of(special[i]);
  while (count < FLOATS) floats[count++] = float_of(state = state * 1664525 + 1013904223);
}

static int set_up(void **state) {
  static narrow_fixture f;
  f.library = make_library();
  f.floats = malloc(2 * sizeof(float) * FLOATS);
  for (int type = 0; type < 2; type++) {
    f.narrow[type] = malloc(sizeof(uint16_t) * FLOATS);
    f.widened[type] = malloc(sizeof(float) * PATTERNS);
    uint16_t *patterns = malloc(sizeof(uint16_t) * PATTERNS);
    for (int i = 0; i < PATTERNS; i++) patterns[i] = (uint16_t)i;
    fill_floats(f.floats + type * FLOATS, type);
    assert_int_equal(rec_convert(f.widened[type], REC_F32, patterns, rec_types[type], PATTERNS), 0);
    for (int i = 0; i < FLOATS; i++) {
      double exact = (double)f.floats[type * FLOATS + i];
      rec_convert(&f.narrow[type][i], rec_types[type], &exact, REC_F64, 1);
    }
    free(patterns);
  }
  *state = &f;
  return 0;
}

static int tear_down(void **state) {
  narrow_fixture *f = *state;
  dlclose(f->library);
  free(f->floats);
  for (int type = 0; type < 2; type++) {
    free(f->narrow[type]);
    free(f->widened[type]);
  }
  return 0;
}

static bool is_nan_pattern(int type, uint16_t bits) {
  return (bits & 0x7fff) > (type ? 0x7c00 : 0x7f80);
}

static void assert_same_narrow(int type, const char *name, float x, uint16_t got,
                               uint16_t expected) {
  bool both = is_nan_pattern(type, got) && is_nan_pattern(type, expected);
  if (got == expected || (both && !((got ^ expected) & 0x8000))) return;
  fail_msg("%s: %a (%08x) became %04x, expected %04x", name, (double)x, bits_in(x), got, expected);
}

static void assert_same_wide(const char *name, int pattern, float got, float expected) {
  if (bits_in(got) == bits_in(expected)) return;
  if (isnan(got) && isnan(expected) && !signbit(got) == !signbit(expected)) return;
  fail_msg("%s: %04x became %a, expected %a", name, pattern, (double)got, (double)expected);
}

static void check_loads(const narrow_fixture *f, int type, spacing s, int lanes, int clone) {
  enum { STRIDE = 3, SPARE = 256 };
  static uint16_t narrow[STRIDE * (PATTERNS + SPARE)];
  static float wide[PATTERNS + SPARE];
  const char *name = name_of(false, type, s, lanes, false, clone);
  int64_t stride = spacing_strides[s];
  for (int64_t i = 0; i < PATTERNS; i++) narrow[i * stride] = (uint16_t)i;
  find(f, name)(narrow, wide, PATTERNS, stride, 0);
  for (int i = 0; i < PATTERNS; i++) assert_same_wide(name, i, wide[i], f->widened[type][i]);
}

static void check_stores(const narrow_fixture *f, int type, spacing s, int lanes, int clone) {
  enum { STRIDE = 3, SPARE = 256 };
  static uint16_t narrow[STRIDE * (FLOATS + SPARE)];
  static float wide[FLOATS + SPARE];
  const char *name = name_of(true, type, s, lanes, false, clone);
  const float *floats = f->floats + type * FLOATS;
  int64_t stride = spacing_strides[s];
  memcpy(wide, floats, sizeof(float) * FLOATS);
  memset(narrow, 0xaa, sizeof narrow);
  find(f, name)(narrow, wide, FLOATS, stride, 0);
  for (int64_t i = 0; i < FLOATS; i++) {
    assert_same_narrow(type, name, floats[i], narrow[i * stride], f->narrow[type][i]);
    for (int64_t k = 1; k < stride; k++) assert_int_equal(narrow[i * stride + k], 0xaaaa);
  }
}

TEST(all_patterns_and_boundaries) {
  const narrow_fixture *f = *state;
  for (int clone = 0; clone < CLONE_X86_COUNT; clone++) {
    if (!kernel_clone_runs(clone)) continue;
    for (int type = 0; type < 2; type++) {
      for (int i = 0; i < LANE_COUNTS; i++) {
        check_loads(f, type, DENSE, lane_counts[i], clone);
        check_stores(f, type, DENSE, lane_counts[i], clone);
      }
      for (spacing s = PAIRS; s < SPACINGS; s++) {
        check_loads(f, type, s, 8, clone);
        check_loads(f, type, s, 33, clone);
        check_stores(f, type, s, 8, clone);
        check_stores(f, type, s, 33, clone);
      }
    }
  }
}

// The numbers lie at the end of a page that nothing may be read or written behind.
static uint16_t *before_a_wall(char **pages, int64_t numbers) {
  long page = sysconf(_SC_PAGESIZE);
  *pages = mmap(NULL, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(*pages != MAP_FAILED);
  assert_int_equal(mprotect(*pages + page, (size_t)page, PROT_NONE), 0);
  return (uint16_t *)(void *)(*pages + page) - numbers;
}

static void check_masked(const narrow_fixture *f, int type, spacing s, int lanes, int clone) {
  int64_t stride = spacing_strides[s];
  for (int64_t count = 0; count <= lanes; count++) {
    char *pages;
    int64_t numbers = count ? (count - 1) * stride + 1 : 0;
    uint16_t *narrow = before_a_wall(&pages, numbers);
    float wide[64], from[64];
    for (int i = 0; i < lanes; i++) from[i] = wide[i] = (float)(i + 1);
    for (int64_t i = 0; i < numbers; i++) narrow[i] = 0xaaaa;
    const char *name = name_of(true, type, s, lanes, true, clone);
    find(f, name)(narrow, from, lanes, stride, count);
    for (int64_t i = 0; i < numbers; i++) {
      uint16_t expected = 0xaaaa;
      if (i % stride == 0) rec_narrow(&expected, &from[i / stride], 1, stored[type]);
      assert_int_equal(narrow[i], expected);
    }
    name = name_of(false, type, s, lanes, true, clone);
    find(f, name)(narrow, wide, lanes, stride, count);
    for (int64_t i = 0; i < lanes; i++) assert_true(wide[i] == (i < count ? from[i] : 0));
    munmap(pages, 2 * (size_t)sysconf(_SC_PAGESIZE));
  }
}

TEST(masks_take_the_first_lanes) {
  const narrow_fixture *f = *state;
  for (int clone = 0; clone < CLONE_X86_COUNT; clone++) {
    if (!kernel_clone_runs(clone)) continue;
    for (int type = 0; type < 2; type++) {
      for (int i = 1; i < LANE_COUNTS; i++) check_masked(f, type, DENSE, lane_counts[i], clone);
      for (spacing s = PAIRS; s < SPACINGS; s++) {
        check_masked(f, type, s, 8, clone);
        check_masked(f, type, s, 33, clone);
      }
    }
  }
}

// Two apart, whole vectors: the last number read is the last that there is.
TEST(pairs_end_where_they_end) {
  const narrow_fixture *f = *state;
  for (int clone = 0; clone < CLONE_X86_COUNT; clone++) {
    if (!kernel_clone_runs(clone)) continue;
    char *pages;
    float wide[33];
    uint16_t *narrow = before_a_wall(&pages, 2 * 33 - 1);
    find(f, name_of(false, 0, PAIRS, 33, false, clone))(narrow, wide, 33, 2, 0);
    assert_true(wide[32] == 0);
    munmap(pages, 2 * (size_t)sysconf(_SC_PAGESIZE));
  }
}

TEST(sums_are_rounded_alike) {
  const narrow_fixture *f = *state;
  uint16_t *narrow = malloc(sizeof(uint16_t) * FLOATS);
  for (int type = 0; type < 2; type++) {
    const float *floats = f->floats + type * FLOATS;
    rec_narrow(narrow, floats, FLOATS, stored[type]);
    for (int i = 0; i < FLOATS; i++)
      assert_same_narrow(type, "rec_narrow", floats[i], narrow[i], f->narrow[type][i]);
  }
  free(narrow);
}

TEST(patterns_are_widened_alike) {
  for (int type = 0; type < 2; type++) {
    for (uint32_t bits = 0; bits < 65536; bits++) {
      float wide = rec_widen((uint16_t)bits, stored[type]);
      uint16_t narrow;
      rec_narrow(&narrow, &wide, 1, stored[type]);
      if (wide == wide) assert_int_equal(narrow, bits);
      bool nan = (bits & 0x7fff) > (type == 0 ? 0x7f80 : 0x7c00);
      assert_int_equal(wide != wide, nan);
    }
  }
}

TEST_AROUND(set_up, tear_down)
