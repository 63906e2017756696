// The text form of the recurrence IR: it reads back to itself, and malformed text is refused with
// one message.
#include "tests/recurrence/fixture.h"
#include "tests/unit/unit.h"

// Every operation and every form of declaration, as recurrence_print lays it out.
static const char everything[] =
    "recurrence all {\n"
    "  axis H\n"
    "  axis K = 16 summed\n"
    "  axis M = 16\n"
    "  axis E = {2 * H + max(K, 3)}\n"
    "  input x[H,K] in [-5, 0.1]\n"
    "  input z[K,H] : complex\n"
    "  param p\n"
    "  state S[H,K] : complex\n"
    "  state m[H]\n"
    "  output y[H]\n"
    "  lag x[H,K] depth 3\n"
    "  lag e[H,K] : complex depth 1\n"
    "\n"
    "  %0 [H,K] = input x\n"
    "  %1 [H,K] complex = input z\n"
    "  %2 = param p\n"
    "  %3 [H,K] complex = previous S\n"
    "  %4 [H] = previous m\n"
    "  %5 [H,K] = lag x 3\n"
    "  %6 = number -inf\n"
    "  %7 = number 0.1\n"
    "  %8 = size H\n"
    "  %9 [K] = index K\n"
    "  %10 [H,K] = neg %0\n"
    "  %11 [H,K] complex = mul %3 %1 \"e\"\n"
    "  %12 [H,K] = ipow -2 %0\n"
    "  %13 [H,K] = sqrt kink %0\n"
    "  %14 [H,K] = where %0 %5 %6\n"
    "  %15 [H,K] = cabs %11\n"
    "  %16 [H] = sum[K] %15\n"
    "  %17 [H] = max_over[K] %5\n"
    "  %18 [H,M] = rename[K -> M] %0\n"
    "  %19 [H] = slice[M = 3] %18\n"
    "  %20 [H] = clamp %16 %7 %19\n"
    "\n"
    "  S = %11\n"
    "  m = %4\n"
    "  y = %20\n"
    "  x.lag = %0\n"
    "  e.lag = %11\n"
    "\n"
    "  structure S: elementwise, stratum 0, decay %1, log_decay %0, increment %11, keys [K], "
    "values [H], limit %10 \"a \\\"reason\\\"\"\n"
    "  structure m: linear, stratum 1, limit \"words\"\n"
    "}\n";

TEST(text_reads_back_to_itself) {
  fixture s = fixture_open();
  recurrence *r = fixture_ir(&s, everything);
  assert_string_equal(recurrence_print(s.memory, r), everything);
  assert_null(recurrence_verify(s.memory, r));
  assert_int_equal(r->states.count, 2);
  assert_int_equal(r->stratum_count, 2);
  assert_int_equal(r->body.lags.items[0].input, 0);
  assert_int_equal(r->body.lags.items[1].input, -1);
  fixture_close(&s);
}

static const struct {
  const char *text, *message;
} malformed[] = {
    {"", "expected 'recurrence', found the end of the text"},
    {"recurrence r {",
     "expected a declaration, a value or an assignment, found the end of the text"},
    {"recurrence r {} x", "expected nothing after the recurrence, found 'x'"},
    {"recurrence r { axis H axis H }", "expected a name that is not declared yet, found 'H'"},
    {"recurrence r { axis E = {2 * H} }",
     "expected a size made of numbers and earlier axes in braces, found '{'"},
    {"recurrence r { axis H axis E = {H +} }", "expected an expression, found the end of the file"},
    {"recurrence r { axis H axis E = {H", "expected a size in braces, found '{'"},
    {"recurrence r { input x[G] }", "expected an axis that is declared above, found 'G'"},
    {"recurrence r { %1 = number 1 }", "expected %0, the next value, found '%1'"},
    {"recurrence r { %0 = numbr 1 }", "expected an operation, found 'numbr'"},
    {"recurrence r { %0 = neg %0 }", "expected a value that stands above, found '%0'"},
    {"recurrence r { %0 = neg %99999999999999999999 }",
     "expected a value that stands above, found '%99999999999999999999'"},
    {"recurrence r { axis H %0 = index H }",
     "expected the axes and the element kind that follow from the operands, found '%0'"},
    {"recurrence r { output y %0 = number 1 y = %0 y = %0 }",
     "expected one assignment to each name, found 'y'"},
    {"recurrence r { output y }", "expected a valid recurrence, found that 'y' is not assigned"},
    {"recurrence r { axis H output y %0 [H] = index H y = %0 }",
     "expected a valid recurrence, found that 'y' is assigned a value with an axis that it lacks"},
    {"recurrence r { axis H = 2 %0 [H] = index H %1 = slice[H = 2] %0 }",
     "expected a valid recurrence, found that %1: entry 2 of the axis 'H'"},
    {"recurrence r { axis H = 2 axis G = 3 %0 [H] = index H %1 [G] = rename[H -> G] %0 }",
     "expected a valid recurrence, found that %1: rename between axes of different sizes"},
    {"recurrence r { axis H %0 = number 1 %1 = sum[H] %0 }",
     "expected a valid recurrence, found that %1: sum over an axis that the operand lacks"},
    {"recurrence r { input z : complex %0 complex = input z %1 = tanh %0 }",
     "expected a valid recurrence, found that %1: tanh of a complex operand"},
    {"recurrence r { input x %0 = previous x }",
     "expected a valid recurrence, found that %0: previous reads no such tensor"},
    {"recurrence r { input x lag x depth 1 %0 = input x %1 = lag x 2 x.lag = %0 }",
     "expected a valid recurrence, found that %1: 2 steps back in a lag buffer of depth 1"},
    {"recurrence r { state h %0 = previous h h = %0 structure h: fast, stratum 0 }",
     "expected a class, found 'fast'"},
    {"recurrence r { state h %0 = previous h h = %0 structure h: linear, stratum 0, keys [",
     "expected an axis, found the end of the text"},
    {"recurrence r { \"abc", "expected a declaration, a value or an assignment, found '\"abc'"},
};

TEST(malformed_text_is_refused) {
  for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
    fixture s = fixture_open();
    assert_null(fixture_read_ir(&s, malformed[i].text, strlen(malformed[i].text)));
    assert_int_equal(diag_error_count(s.messages), 1);
    assert_string_equal(diag_error_text(s.messages, 0), malformed[i].message);
    fixture_close(&s);
  }
}

// Whatever a damaged text says, it is refused with a message or is a recurrence that verifies and
// reads back to itself.
TEST(damaged_text_never_crashes) {
  static const char *const splices[] = {"%",  "[", "%3", "-",   "1e99", "complex",
                                        "\"", "}", "\\", "K,K", "lag",  "%20"};
  uint64_t seed = 12345;
  size_t size = sizeof everything - 1;
  for (int round = 0; round < 3000; round++) {
    char text[sizeof everything + 16];
    memcpy(text, everything, sizeof everything);
    size_t length = size;
    for (int edit = 0; edit < 1 + round % 3; edit++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      size_t at = (seed >> 33) % length;
      const char *splice = splices[(seed >> 20) % (sizeof splices / sizeof *splices)];
      size_t n = strlen(splice);
      if (at + n < length) memcpy(text + at, splice, n);
    }
    fixture s = fixture_open();
    recurrence *r = fixture_read_ir(&s, text, length);
    assert_true(r ? !diag_has_errors(s.messages) : diag_has_errors(s.messages));
    if (r) {
      char *printed = recurrence_print(s.memory, r);
      recurrence *again = fixture_read_ir(&s, printed, strlen(printed));
      assert_non_null(again);
      assert_string_equal(recurrence_print(s.memory, again), printed);
    }
    fixture_close(&s);
  }
}
