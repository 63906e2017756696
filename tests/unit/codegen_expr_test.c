// Elementary functions of generated code against libm over the full range, every clone that this
// machine runs. f32: 2^20 numbers spread over all exponents of both signs, error at most 3e-7 of
// the result (or half a denormal). f64: 2^15 numbers, 1e-14. f64 in an f32 program: 1e-10. GPU code
// on the executor, whose approximations are off by as much as they may be. f32 is off by at most
// 6e-7, with 16-bit storage 1e-5: an exponential of -80 has lost 80 halves of a last bit.
#include <dlfcn.h>
#include <math.h>
#include <time.h>

#include "compiler/emit/emit.h"
#include "compiler/kernel/gpu/gpu.h"
#include "compiler/target/images.h"
#include "tests/recurrence/load.h"
#include "tests/unit/unit.h"

typedef long double exact_function(long double);

static long double exact_sigmoid(long double x) { return 1 / (1 + expl(-x)); }
static long double exact_softplus(long double x) { return fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static long double exact_log_sigmoid(long double x) { return -exact_softplus(-x); }
static long double exact_silu(long double x) { return x * exact_sigmoid(x); }
static long double exact_rsqrt(long double x) { return 1 / sqrtl(x); }

typedef struct function_row {
  tile_op op;
  const char *name;
  exact_function *exact;
} function_row;

static const function_row functions[] = {
    {TILE_EXP, "exp", expl},
    {TILE_EXP2, "exp2", exp2l},
    {TILE_EXPM1, "expm1", expm1l},
    {TILE_LOG, "log", logl},
    {TILE_LOG1P, "log1p", log1pl},
    {TILE_SIGMOID, "sigmoid", exact_sigmoid},
    {TILE_LOG_SIGMOID, "log_sigmoid", exact_log_sigmoid},
    {TILE_SOFTPLUS, "softplus", exact_softplus},
    {TILE_SILU, "silu", exact_silu},
    {TILE_TANH, "tanh", tanhl},
    {TILE_ERF, "erf", erfl},
    {TILE_SIN, "sin", sinl},
    {TILE_COS, "cos", cosl},
    {TILE_SQRT, "sqrt", sqrtl},
    {TILE_RSQRT, "rsqrt", exact_rsqrt},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

// Those with polynomials of their own in f64.
static const function_row wide_functions[] = {{TILE_EXP, "exp", expl},
                                              {TILE_EXPM1, "expm1", expm1l},
                                              {TILE_SIN, "sin", sinl},
                                              {TILE_COS, "cos", cosl}};
enum { WIDE = sizeof wide_functions / sizeof *wide_functions };

// void NAME(const real *x, const real *p, real *y, i64 n): y = op(x, p), n a multiple of `lanes`
static void make_function(emitter *e, const char *name, tile_op op, int lanes) {
  LLVMTypeRef types[] = {e->pointer, e->pointer, e->pointer, e->i64};
  ir f = llvm_function(e->m, name, LLVMFunctionType(LLVMVoidTypeInContext(e->context), types, 4, 0),
                       e->clone);
  LLVMSetVisibility(f, LLVMProtectedVisibility);
  emit_open(e, f);
  emit_loop loop = loop_begin(e, integer(e, 0), LLVMGetParam(f, 3), lanes ? lanes : 1, "i");
  ir args[2];
  for (unsigned i = 0; i < 2; i++)
    args[i] = load_real(e, element(e, e->real, LLVMGetParam(f, i), loop.index), lanes);
  store_real(e, expr_apply(e, op, args), element(e, e->real, LLVMGetParam(f, 2), loop.index));
  loop_end(e, &loop);
  LLVMBuildRetVoid(e->b);
  assert_true(llvm_instruction_count(f) < 1000);
}

static void *make_library(bool f64) {
  arena *a = arena_new();
  llvm_module m = llvm_module_new("math", 2, PROCESSOR_HOST);
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    emitter e = emitter_new(a, &m, clone, f64 ? NUMBER_F64 : NUMBER_F32);
    for (int i = 0; i < FUNCTIONS; i++) {
      make_function(&e, arena_printf(a, "%s%s", functions[i].name, clone_targets[clone].suffix),
                    functions[i].op, i % 2 ? e.lanes : 2 * e.lanes);
    }
    make_function(&e, arena_printf(a, "pow%s", clone_targets[clone].suffix), TILE_POWER, e.lanes);
    make_function(&e, arena_printf(a, "hypot%s", clone_targets[clone].suffix), TILE_HYPOT, e.lanes);
    make_function(&e, arena_printf(a, "wrap%s", clone_targets[clone].suffix), TILE_WRAP, e.lanes);
    make_function(&e, arena_printf(a, "exp_scalar%s", clone_targets[clone].suffix), TILE_EXP, 0);
    for (int i = 0; i < WIDE && !f64; i++) {
      emitter wide = emit_wide(&e);
      const char *name =
          arena_printf(a, "wide_%s%s", wide_functions[i].name, clone_targets[clone].suffix);
      make_function(&wide, name, wide_functions[i].op, e.lanes);
    }
    emitter_free(&e);
  }
  llvm_verify(&m);
  llvm_optimise(&m, 2);
  link_object object = {.name = "math.o"};
  object.bytes = llvm_object(a, &m, &object.size);
  llvm_module_free(&m);
  void *library = load_objects(a, &object, 1);
  arena_free(a);
  return library;
}

static void *make_gpu_library(number_type storage) {
  arena *a = arena_new();
  llvm_module m = gpu_module_new("math");
  emitter e = emitter_new(a, &m, CLONE_GPU, storage);
  for (int i = 0; i < FUNCTIONS; i++)
    make_function(&e, functions[i].name, functions[i].op, i % 2 ? 4 : 0);
  make_function(&e, "hypot", TILE_HYPOT, 4);
  make_function(&e, "div", TILE_DIV, 4);
  emitter_free(&e);
  llvm_verify(&m);
  link_object objects[] = {simt_object(a, &m, 3, NULL), embedded_object("simt"),
                           embedded_object("support")};
  llvm_module_free(&m);
  void *library = load_objects(a, objects, 3);
  arena_free(a);
  return library;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef void f32_function(const float *, const float *, float *, int64_t);
typedef void f64_function(const double *, const double *, double *, int64_t);

static void *find(void *library, const char *name, codegen_clone clone) {
  char symbol[64];
  snprintf(symbol, sizeof symbol, "%s%s", name, clone_targets[clone].suffix);
  void *f = dlsym(library, symbol);
  assert_non_null(f);
  return f;
}

// error in units of the allowed one
static double error_of(double got, long double exact, double allowed, double least) {
  if (isnan(exact)) return isnan(got) ? 0 : INFINITY;
  if (isinf(got) || isinf((double)exact)) return got == (double)exact ? 0 : INFINITY;
  return (double)(fabsl((long double)got - exact) / (allowed * fabsl(exact) + least));
}

static bool ends_in_an_exponential(tile_op op) {
  return op == TILE_EXP || op == TILE_EXP2 || op == TILE_SIGMOID || op == TILE_SILU ||
         op == TILE_SOFTPLUS || op == TILE_LOG_SIGMOID;
}

// x * sigmoid(x) scales the rounding of a denormal sigmoid. In f32 exponentials end a little above
// the denormal numbers.
static double least_error(const function_row *f, double x, double least) {
  static const double least_of_doubles = 1e-300;
  if (least > least_of_doubles && ends_in_an_exponential(f->op)) least = 0x1.6ap-126;
  return f->op == TILE_SILU && fabs(x) > 1 ? least * fabs(x) : least;
}

enum { POINTS = 1 << 20 };

static void fill_f32(float *x) {
  uint32_t step = (uint32_t)(((uint64_t)1 << 32) / POINTS);
  for (uint32_t i = 0; i < POINTS; i++) {
    // all signs and exponents, mantissas scattered
    uint32_t bits = i * step + (i * 2654435761u) % step;
    memcpy(&x[i], &bits, 4);
  }
  // dense where the functions bend, at their edges and at multiples of pi / 2
  for (int i = 0; i < POINTS / 4; i++) x[4 * i + 1] = (float)(-110.0 + 200.0 * i / (POINTS / 4));
  for (int i = 0; i < POINTS / 8; i++) x[8 * i + 2] = (float)(-4.0 + 8.0 * i / (POINTS / 8));
  for (int i = 0; i < POINTS / 8; i++)
    x[8 * i + 6] = (float)(1.57079632679489661923 * (i - POINTS / 16));
  const float edges[] = {0.0f, -0.0f,  1.0f,          -1.0f,   INFINITY, -INFINITY,
                         NAN,  1e-45f, 3.4028235e38f, -104.0f, 88.72283f};
  memcpy(x, edges, sizeof edges);
}

static float round_f32(long double exact) { return (float)exact; }

TEST(f32_within_3e_7) {
  double start = seconds();
  void *library = make_library(false);
  float *x = malloc(POINTS * sizeof *x), *y = malloc(POINTS * sizeof *y);
  long double *exact = malloc(POINTS * sizeof *exact);
  fill_f32(x);
  for (int f = 0; f < FUNCTIONS; f++) {
    for (int i = 0; i < POINTS; i++) exact[i] = functions[f].exact(x[i]);
    for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
      if (!kernel_clone_runs(clone)) continue;
      f32_function *call;
      *(void **)&call = find(library, functions[f].name, clone);
      call(x, x, y, POINTS);
      double worst = 0;
      int at = 0;
      for (int i = 0; i < POINTS; i++) {
        if (functions[f].op == TILE_SILU && isinf(x[i])) continue;  // inf * 0
        double error =
            isinf(round_f32(exact[i]))
                ? (y[i] == round_f32(exact[i]) ? 0
                   : fabs(y[i]) > 3.4e38       ? 0
                                               : INFINITY)
                : error_of(y[i], exact[i], 3e-7, least_error(&functions[f], x[i], 1.5e-45));
        if (error > worst) worst = error, at = i;
      }
      printf("%-12s f32 %s: worst error %.2e at %.9g\n", functions[f].name,
             codegen_clone_name(clone), worst * 3e-7, x[at]);
      if (worst > 1)
        fail_msg("%s(%.9g) = %.9g, expected %.9Lg", functions[f].name, x[at], y[at], exact[at]);
    }
  }
  printf("f32: %.1f s\n", seconds() - start);
  free(x), free(y), free(exact);
  dlclose(library);
}

// `least`: the absolute error that is allowed beside the relative one.
static void gpu_within(number_type storage, double allowed, double least) {
  void *library = make_gpu_library(storage);
  float *x = malloc(POINTS * sizeof *x), *y = malloc(POINTS * sizeof *y);
  fill_f32(x);
  for (int f = 0; f < FUNCTIONS; f++) {
    f32_function *call;
    *(void **)&call = dlsym(library, functions[f].name);
    assert_non_null(call);
    call(x, x, y, POINTS);
    double worst = 0;
    int at = 0;
    for (int i = 0; i < POINTS; i++) {
      if (functions[f].op == TILE_SILU && isinf(x[i])) continue;
      long double exact = functions[f].exact(x[i]);
      bool over = isinf(round_f32(exact * (1 + allowed))) && fabs(y[i]) > 3.4e38;
      double error =
          over ? 0 : error_of(y[i], exact, allowed, least_error(&functions[f], x[i], least));
      if (error > worst) worst = error, at = i;
    }
    printf("%-12s gpu: worst error %.2e at %.9g\n", functions[f].name, worst * allowed, x[at]);
    if (worst > 1) fail_msg("%s(%.9g) = %.9g", functions[f].name, x[at], y[at]);
  }
  free(x), free(y);
  dlclose(library);
}

TEST(gpu_f32_within_6e_7) { gpu_within(NUMBER_F32, 6e-7, 1.5e-45); }

TEST(gpu_16_bits_within_1e_5) { gpu_within(NUMBER_BF16, 1e-5, 0x1p-126); }

// Within 1e-6 between 1e-3 and 20; from 9.02 on exactly 1, so that gradients are 0; signs,
// infinities and NaN as libm has them.
TEST(gpu_16_bits_tanh) {
  enum { N = 1 << 18 };
  void *library = make_gpu_library(NUMBER_BF16);
  float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  for (int i = 0; i < N; i++) x[i] = (i % 2 ? -1.0f : 1.0f) * (1e-3f + 20.0f * (float)i / N);
  const float edges[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 3.4028235e38f, 1e-30f};
  memcpy(x, edges, sizeof edges);
  f32_function *call;
  *(void **)&call = dlsym(library, "tanh");
  assert_non_null(call);
  call(x, x, y, N);
  for (int i = 0; i < N; i++) {
    long double exact = tanhl(x[i]);
    bool right =
        fabsf(x[i]) > 9.02f ? y[i] == copysignf(1, x[i]) : error_of(y[i], exact, 1e-6, 1e-45) <= 1;
    if (!right || (x[i] == 0 && signbit(x[i]) != signbit(y[i])))
      fail_msg("tanh(%.9g) = %.9g", x[i], y[i]);
  }
  free(x), free(y);
  dlclose(library);
}

// Of all exponents, near each other and far apart: no reciprocal of a large or a denormal divisor
// spoils a quotient.
TEST(gpu_16_bits_divide) {
  enum { N = 1 << 18 };
  void *library = make_gpu_library(NUMBER_BF16);
  float *x = malloc(N * sizeof *x), *p = malloc(N * sizeof *p), *y = malloc(N * sizeof *y);
  for (int i = 0; i < N; i++) {
    uint32_t bits = (uint32_t)i * (0x7f800000u / N),
             other = bits ^ (uint32_t)i * 2654435761u >> (i % 4 ? 8 : 1);
    memcpy(&x[i], &bits, 4);
    memcpy(&p[i], &other, 4);
  }
  f32_function *divide;
  *(void **)&divide = dlsym(library, "div");
  assert_non_null(divide);
  divide(x, p, y, N);
  for (int i = 0; i < N; i++) {
    if (!isfinite(p[i]) || (x[i] == 0 && p[i] == 0)) continue;
    long double exact = (long double)x[i] / p[i];
    bool over = isinf(round_f32(exact * (1 + 1e-6L))) && fabs(y[i]) > 3.4e38;
    if (!over && error_of(y[i], exact, 1e-6, 1.5e-45) > 1)
      fail_msg("%.9g / %.9g = %.9g", x[i], p[i], y[i]);
  }
  free(x), free(p), free(y);
  dlclose(library);
}

TEST(pow_f32_within_3e_7) {
  void *library = make_library(false);
  enum { N = 1 << 18 };
  float *x = malloc(N * sizeof *x), *p = malloc(N * sizeof *p), *y = malloc(N * sizeof *y);
  for (int i = 0; i < N; i++) {
    uint32_t bits = (uint32_t)i * (0x7f800000u / N) + (uint32_t)i % 97;
    memcpy(&x[i], &bits, 4);
    p[i] = i % 3 == 0   ? (float)((i * 7919) % 2001 - 1000) / 100
           : i % 3 == 1 ? 0.5f
                        : (float)(i % 11) - 5;
  }
  const float edges_x[] = {0, 0, 0, 1, INFINITY, INFINITY, NAN, 4, 2},
              edges_p[] = {0, 2, -1, NAN, 2, -2, 1, 0.5f, 200};
  memcpy(x, edges_x, sizeof edges_x);
  memcpy(p, edges_p, sizeof edges_p);
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    if (!kernel_clone_runs(clone)) continue;
    f32_function *call;
    *(void **)&call = find(library, "pow", clone);
    call(x, p, y, N);
    for (int i = 0; i < N; i++) {
      if (x[i] == 1 && isnan(p[i])) {  // exp(p log x), unlike C's pow
        assert_true(isnan(y[i]));
        continue;
      }
      long double exact = powl(x[i], p[i]);
      double error = isinf(round_f32(exact)) ? !isinf(y[i]) : error_of(y[i], exact, 3e-7, 1.5e-45);
      if (error > 1) fail_msg("pow(%.9g, %.9g) = %.9g, expected %.9Lg", x[i], p[i], y[i], exact);
    }
  }
  free(x), free(p), free(y);
  dlclose(library);
}

enum { PAIRS = 1 << 16 };

// Pairs of all exponents, near each other and far apart; the squares of most leave the range.
static void fill_pairs(double *x, double *y, int exponents) {
  for (int i = 0; i < PAIRS; i++) {
    double size = 1 + (i * 7919 % PAIRS) / (double)PAIRS;
    int exponent = i % (2 * exponents) - exponents;
    x[i] = ldexp(size, exponent) * (i % 3 ? 1 : -1);
    y[i] = i % 5 ? ldexp(size, exponent - i % 30) : 0;
  }
  const double edges_x[] = {0, -0.0, INFINITY, -INFINITY, INFINITY, NAN},
               edges_y[] = {0, 0, 1, 0, INFINITY, 1};
  memcpy(x, edges_x, sizeof edges_x);
  memcpy(y, edges_y, sizeof edges_y);
}

static void hypot_in_floats(void *library, const char *symbol) {
  double *x = malloc(PAIRS * sizeof *x), *y = malloc(PAIRS * sizeof *y);
  float *a = malloc(PAIRS * sizeof *a), *b = malloc(PAIRS * sizeof *b),
        *z = malloc(PAIRS * sizeof *z);
  f32_function *call;
  *(void **)&call = dlsym(library, symbol);
  assert_non_null(call);
  fill_pairs(x, y, 127);
  for (int i = 0; i < PAIRS; i++) a[i] = (float)x[i], b[i] = (float)y[i];
  call(a, b, z, PAIRS);
  for (int i = 0; i < PAIRS; i++) {
    long double exact = hypotl(a[i], b[i]);
    double error = isinf(round_f32(exact)) ? !isinf(z[i]) : error_of(z[i], exact, 3e-7, 1.5e-45);
    if (error > 1)
      fail_msg("%s(%.9g, %.9g) = %.9g, expected %.9Lg", symbol, a[i], b[i], z[i], exact);
  }
  free(x), free(y), free(a), free(b), free(z);
}

static void hypot_in_doubles(void *library, const char *symbol) {
  double *x = malloc(PAIRS * sizeof *x), *y = malloc(PAIRS * sizeof *y),
         *z = malloc(PAIRS * sizeof *z);
  f64_function *call;
  *(void **)&call = dlsym(library, symbol);
  assert_non_null(call);
  fill_pairs(x, y, 1022);
  call(x, y, z, PAIRS);
  for (int i = 0; i < PAIRS; i++) {
    long double exact = hypotl(x[i], y[i]);
    if (error_of(z[i], exact, 1e-15, 5e-324) > 1)
      fail_msg("%s(%.17g, %.17g) = %.17g, expected %.17Lg", symbol, x[i], y[i], z[i], exact);
  }
  free(x), free(y), free(z);
}

TEST(hypot_of_all_sizes) {
  void *library = make_library(false), *library64 = make_library(true),
       *executed = make_gpu_library(NUMBER_F32);
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    char symbol[32];
    if (!kernel_clone_runs(clone)) continue;
    snprintf(symbol, sizeof symbol, "hypot%s", clone_targets[clone].suffix);
    hypot_in_floats(library, symbol);
    hypot_in_doubles(library64, symbol);
  }
  hypot_in_floats(executed, "hypot");
  dlclose(library), dlclose(library64), dlclose(executed);
}

TEST(f64_within_1e_14) {
  void *library = make_library(true);
  enum { N = 1 << 15 };
  double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  for (int i = 0; i < N; i++) {
    uint64_t bits = (uint64_t)i << 49 | (uint64_t)i * 6364136223846793005u >> 15;
    memcpy(&x[i], &bits, 8);
    if (i % 2) x[i] = -740 + 1450.0 * i / N;
  }
  for (int f = 0; f < FUNCTIONS; f++) {
    for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
      if (!kernel_clone_runs(clone)) continue;
      f64_function *call;
      *(void **)&call = find(library, functions[f].name, clone);
      call(x, x, y, N);
      for (int i = 0; i < N; i++) {
        if (functions[f].op == TILE_SILU && isinf(x[i])) continue;
        double error = error_of(y[i], functions[f].exact(x[i]), 1e-14,
                                least_error(&functions[f], x[i], 5e-324));
        if (error > 1) fail_msg("%s(%.17g) = %.17g", functions[f].name, x[i], y[i]);
      }
    }
  }
  free(x), free(y);
  dlclose(library);
}

// Of exponents above 1e-8, and of angles below and above 2^20, where libm takes over; near zeros of
// sin the absolute error counts.
TEST(wide_within_1e_10) {
  void *library = make_library(false);
  enum { N = 1 << 15 };
  double *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  for (int f = 0; f < WIDE; f++) {
    bool angle = wide_functions[f].op == TILE_SIN || wide_functions[f].op == TILE_COS;
    for (int i = 0; i < N; i++) {
      double part = (i * 7919 % N) / (double)N;
      x[i] = ldexp(1 + part, i % (angle ? 50 : 36) - 27) * (i % 2 ? 1 : -1);
    }
    for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
      if (!kernel_clone_runs(clone)) continue;
      char name[32];
      snprintf(name, sizeof name, "wide_%s", wide_functions[f].name);
      f64_function *call;
      *(void **)&call = find(library, name, clone);
      call(x, x, y, N);
      for (int i = 0; i < N; i++) {
        long double exact = wide_functions[f].exact(x[i]);
        double error = error_of(y[i], exact, 1e-10, angle ? 1e-10 : 0);
        if (error > 1) fail_msg("%s(%.17g) = %.17g, expected %.17Lg", name, x[i], y[i], exact);
      }
    }
  }
  free(x), free(y);
  dlclose(library);
}

// The same angle, nearest to 0, for all angles that sin and cos reduce themselves.
TEST(wrapped_angles) {
  void *library = make_library(false), *library64 = make_library(true);
  enum { N = 1 << 16 };
  const long double turn = 2 * acosl(-1);
  float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
  double *z = malloc(N * sizeof *z), *w = malloc(N * sizeof *w);
  for (int i = 0; i < N; i++) {
    z[i] = ldexp(1 + (i * 7919 % N) / (double)N, i % 40 - 20) * (i % 2 ? 1 : -1);
    z[i] = x[i] = (float)z[i];
  }
  for (codegen_clone clone = 0; clone < CLONE_X86_COUNT; clone++) {
    if (!kernel_clone_runs(clone)) continue;
    f32_function *call;
    f64_function *call64;
    *(void **)&call = find(library, "wrap", clone);
    *(void **)&call64 = find(library64, "wrap", clone);
    call(x, x, y, N);
    call64(z, z, w, N);
    for (int i = 0; i < N; i++) {
      double exact = (double)remainderl(x[i], turn);
      double allowed = 3e-7 * fabs(exact) + 1e-12, allowed64 = 1e-15 * (1 + fabs(z[i]) / 1e4);
      if (!(fabs(y[i] - exact) <= allowed)) fail_msg("wrap(%.9g) = %.9g", x[i], y[i]);
      if (!(fabs(w[i] - exact) <= allowed64)) fail_msg("wrap(%.17g) = %.17g", z[i], w[i]);
    }
  }
  free(x), free(y), free(z), free(w);
  dlclose(library), dlclose(library64);
}
