// Offsets by bits: of every thread of a block the number that the sum of terms has, swizzled or
// not, in few instructions. Below a second.
#include "compiler/emit/fields.h"
#include "compiler/base/arena.h"
#include "tests/unit/unit.h"

enum { THREADS = 256, WARP = 32 };

// A function of a thread's number and its warp's, whose instructions are read and never run.
typedef struct fixture {
  arena *memory;
  llvm_module module;
  emitter e;
  ir thread, warp;
} fixture;

static fixture fixture_open(void) {
  fixture f = {.memory = arena_new(), .module = llvm_module_new("fields", 0, PROCESSOR_HOST)};
  f.e = emitter_new(f.memory, &f.module, CLONE_GPU, NUMBER_F32);
  LLVMTypeRef type =
      LLVMFunctionType(LLVMVoidTypeInContext(f.e.context), (LLVMTypeRef[]){f.e.i32, f.e.i32}, 2, 0);
  emit_open(&f.e, llvm_function(&f.module, "offset", type, CLONE_GPU));
  f.thread = int_rem(&f.e, LLVMGetParam(f.e.function, 0), integer(&f.e, THREADS));
  f.warp = int_rem(&f.e, LLVMGetParam(f.e.function, 1), integer(&f.e, THREADS / WARP));
  return f;
}

static void fixture_close(fixture *f) {
  emitter_free(&f->e);
  llvm_module_free(&f->module);
  arena_free(f->memory);
}

static uint32_t value_of(const fixture *f, ir x, uint32_t thread) {
  int64_t n;
  if (int_known(x, &n)) return (uint32_t)n;
  if (x == f->thread) return thread;
  if (x == f->warp) return thread / WARP;
  uint32_t a = value_of(f, LLVMGetOperand(x, 0), thread),
           b = value_of(f, LLVMGetOperand(x, 1), thread);
  switch (LLVMGetInstructionOpcode(x)) {
    case LLVMAdd: return a + b;
    case LLVMMul: return a * b;
    case LLVMUDiv: return a / b;
    case LLVMURem: return a % b;
    case LLVMAnd: return a & b;
    case LLVMOr: return a | b;
    case LLVMXor: return a ^ b;
    case LLVMShl: return a << b;
    case LLVMLShr: return a >> b;
    default: fail_msg("an operation that fields have no need of"); return 0;
  }
}

static int instructions_of(const fixture *f, ir x) {
  if (!LLVMIsAInstruction(x) || x == f->thread || x == f->warp) return 0;
  return 1 + instructions_of(f, LLVMGetOperand(x, 0)) + instructions_of(f, LLVMGetOperand(x, 1));
}

static uint32_t swapped(uint32_t offset, const int_swap *swaps, int count) {
  uint32_t to = offset;
  for (int i = 0; i < count; i++) to ^= (offset >> swaps[i].down) & swaps[i].bits;
  return to;
}

static void same_for_all_threads(fixture *f, const int_terms *sum, const int_swap *swaps, int count,
                                 int most) {
  int_fields fields = {.whole = f->thread, .groups = f->warp};
  assert_true(int_fields_of(&fields, sum));
  int_fields_swap(&fields, swaps, count);
  assert_true(int_fields_shift(&fields, 2));
  ir number = int_fields_number(&f->e, &fields);
  assert_true(instructions_of(f, number) <= most);
  for (uint32_t thread = 0; thread < THREADS; thread++) {
    uint32_t expected = (uint32_t)sum->constant;
    for (int i = 0; i < sum->count; i++) expected += value_of(f, sum->items[i], thread);
    assert_int_equal(value_of(f, number, thread) + fields.constant,
                     4 * swapped(expected, swaps, count));
  }
}

// row * stride + 4 * (thread % 16) + constant, where the row is thread / 16
static int_terms pieces_of_rows(fixture *f, int64_t stride, int64_t constant) {
  emitter *e = &f->e;
  ir sixteen = integer(e, 16);
  int_terms sum = {.constant = constant};
  int_add_terms(e, &sum, int_div(e, f->thread, sixteen), stride);
  int_add_terms(e, &sum, int_rem(e, f->thread, sixteen), 4);
  return sum;
}

TEST(neighbours_in_memory_are_one_field) {
  fixture f = fixture_open();
  int_terms whole = pieces_of_rows(&f, 64, 3), longer = pieces_of_rows(&f, 128, 1);
  same_for_all_threads(&f, &whole, NULL, 0, 1);
  same_for_all_threads(&f, &longer, NULL, 0, 5);
  fixture_close(&f);
}

TEST(warps_are_bits_of_the_thread) {
  fixture f = fixture_open();
  emitter *e = &f.e;
  int_terms sum = {.constant = 2};
  int_add_terms(e, &sum, f.warp, 4 * WARP);
  int_add_terms(e, &sum, int_rem(e, f.thread, integer(e, WARP)), 4);
  same_for_all_threads(&f, &sum, NULL, 0, 1);
  fixture_close(&f);
}

TEST(swizzles_move_fields_and_constants) {
  static const int_swap swaps[] = {{24, 3}, {24, 4}, {4, 6}};
  fixture f = fixture_open();
  for (int64_t constant = 0; constant < 4096; constant += 1024) {
    for (int count = 0; count <= 3; count++) {
      int_terms sum = pieces_of_rows(&f, 64, constant);
      same_for_all_threads(&f, &sum, swaps, count, 16);
    }
  }
  fixture_close(&f);
}

TEST(sums_that_carry_are_no_fields) {
  fixture f = fixture_open();
  int_terms sum = pieces_of_rows(&f, 48, 0);
  int_fields fields = {.whole = f.thread};
  assert_false(int_fields_of(&fields, &sum));
  fixture_close(&f);
}

// Offsets are taken as positive numbers of 32 bits: 16 rows of 2^26 numbers of 4 bytes are too far
// apart.
TEST(memory_above_two_gigabytes_has_no_fields) {
  fixture f = fixture_open();
  for (int rows = 25; rows <= 26; rows++) {
    int_terms sum = pieces_of_rows(&f, 1 << rows, 0);
    int_fields fields = {.whole = f.thread};
    assert_true(int_fields_of(&fields, &sum));
    assert_int_equal(int_fields_shift(&fields, 2), rows == 25);
  }
  int_fields constant = {.constant = 1u << 29};
  assert_false(int_fields_shift(&constant, 2));
  fixture_close(&f);
}
