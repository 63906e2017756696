// The processor: x86-64's is asked by cpuid, because the compiler's own builtin would need libgcc.
#include "runtime/support/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/support/error.h"

#if defined(__x86_64__)
static const char *const clone_names[] = {"v2", "v3", "v4", "v4-bf16"};
static const char all_clones[] = "v2, v3, v4 or v4-bf16";

#define BIT(word, n) (((word) >> (n)) & 1u)

// Register state that the operating system saves: bit 1 SSE, 2 AVX, 5-7 AVX-512.
static unsigned saved_registers(void) {
  unsigned low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// -1: not even x86-64-v2. The lists are those of the x86-64 psABI's levels.
static int best_clone(void) {
  unsigned a, b, c, d;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return -1;
  unsigned basic = c;
  // SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT
  if (!(BIT(c, 0) && BIT(c, 9) && BIT(c, 13) && BIT(c, 19) && BIT(c, 20) && BIT(c, 23))) return -1;
  unsigned extended = 0;
  if (__get_cpuid(0x80000001u, &a, &b, &c, &d)) extended = c;
  unsigned b7 = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) b7 = b;
  // FMA, MOVBE, OSXSAVE, AVX, F16C; LZCNT; BMI1, AVX2, BMI2
  if (!(BIT(basic, 12) && BIT(basic, 22) && BIT(basic, 27) && BIT(basic, 28) && BIT(basic, 29)))
    return 0;
  if (!(BIT(extended, 5) && BIT(b7, 3) && BIT(b7, 5) && BIT(b7, 8))) return 0;
  unsigned state = saved_registers();
  if ((state & 0x6u) != 0x6u) return 0;
  // AVX512F, DQ, CD, BW, VL
  if (!(BIT(b7, 16) && BIT(b7, 17) && BIT(b7, 28) && BIT(b7, 30) && BIT(b7, 31))) return 1;
  if ((state & 0xe6u) != 0xe6u) return 1;
  // AVX512_BF16
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && BIT(a, 5) ? 3 : 2;
}

enum { DENORMALS_READ_0 = 1 << 6, DENORMALS_MADE_0 = 1 << 15 };  // of MXCSR

unsigned rec_cpu_flush_denormals(void) {
  unsigned before = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(before | DENORMALS_READ_0 | DENORMALS_MADE_0);
  return before;
}

void rec_cpu_restore(unsigned before) { __builtin_ia32_ldmxcsr(before); }

#elif defined(__aarch64__)
static const char *const clone_names[] = {"neon"};
static const char all_clones[] = "neon";

// Every aarch64 that runs Linux has NEON.
static int best_clone(void) { return 0; }

enum { DENORMALS_0 = 1 << 24 };  // of FPCR: as operands and as results

static void set_fpcr(unsigned value) { __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)value)); }

unsigned rec_cpu_flush_denormals(void) {
  uint64_t before;
  __asm__ volatile("mrs %0, fpcr" : "=r"(before));
  set_fpcr((unsigned)before | DENORMALS_0);
  return (unsigned)before;
}

void rec_cpu_restore(unsigned before) { set_fpcr(before); }

#else
#error "the support code is written for x86-64 and aarch64"
#endif

// -1: none has the name.
static int clone_named(const char *name) {
  for (int i = 0; i < (int)(sizeof clone_names / sizeof *clone_names); i++)
    if (strcmp(name, clone_names[i]) == 0) return i;
  return -1;
}

rec_status rec_cpu_clone(int *clone) {
  static _Atomic int chosen = -1;
  int known = atomic_load_explicit(&chosen, memory_order_relaxed);
  if (known >= 0) {
    *clone = known;
    return REC_OK;
  }
  int best = best_clone();
  if (best < 0)
    return rec_fail(REC_ERROR_DEVICE,
                    "expected a processor with x86-64-v2 (SSE4.2), found an older one");
  const char *asked = getenv("REC_CPU");
  if (asked && *asked) {
    int named = clone_named(asked);
    if (named < 0)
      return rec_fail(REC_ERROR_DEVICE, "expected REC_CPU to be %s, found '%.32s'", all_clones,
                      asked);
    if (named > best)
      return rec_fail(REC_ERROR_DEVICE, "expected REC_CPU at most %s on this processor, found '%s'",
                      clone_names[best], asked);
    best = named;
  }
  atomic_store_explicit(&chosen, best, memory_order_relaxed);
  *clone = best;
  return REC_OK;
}

// A number of at least 1 that fills the text; 0: it is none. Newer C libraries have another symbol
// for strtol.
static int64_t positive_whole(const char *text) {
  int64_t number = 0;
  while (*text >= '0' && *text <= '9' && number < INT64_MAX / 16)
    number = 10 * number + (*text++ - '0');
  return *text ? 0 : number;
}

rec_status rec_cpu_threads(int64_t wanted, int64_t *threads) {
  if (wanted > 0) {
    *threads = wanted;
    return REC_OK;
  }
  const char *asked = getenv("REC_NUM_THREADS");
  if (asked && *asked) {
    int64_t number = positive_whole(asked);
    if (number < 1)
      return rec_fail(REC_ERROR_ARGUMENT,
                      "expected REC_NUM_THREADS to be a number of at least 1, found '%.32s'",
                      asked);
    *threads = number;
    return REC_OK;
  }
  // Room for more processors than cpu_set_t has; the kernel refuses a set that is too small.
  cpu_set_t set[16];
  memset(set, 0, sizeof set);
  int count = sched_getaffinity(0, sizeof set, set) == 0 ? CPU_COUNT_S(sizeof set, set) : 1;
  *threads = count > 0 ? count : 1;
  return REC_OK;
}
