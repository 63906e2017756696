#include "compiler/recurrence/reference_ops.h"

#include <math.h>

#include "compiler/base/ice.h"

static const double root_half = 0.70710678118654752440;          // 1 / sqrt(2)
static const double root_half_over_pi = 0.39894228040143267794;  // 1 / sqrt(2 pi)

// ---- real ---------------------------------------------------------------------------------------

static double reference_sigmoid(double x) { return value_function_of(VALUE_SIGMOID)(&x); }

// The share of a normal distribution below x.
static double normal_below(double x) { return 0.5 * erfc(-x * root_half); }

static double whole_power(double x, int64_t n) {
  double power = 1, square = x;
  for (uint64_t k = (uint64_t)(n < 0 ? -n : n); k; k >>= 1) {
    if (k & 1) power *= square;
    square *= square;
  }
  return n < 0 ? 1 / power : power;
}

static double positive_power(double x, double p) { return x < 0 ? NAN : pow(x, p); }

double real_value(const typed_value *v, const double x[3]) {
  if (v->op == VALUE_WHOLE_POWER) return whole_power(x[0], v->index);
  if (v->op == VALUE_POWER) return positive_power(x[0], x[1]);
  return value_function_of(v->op)(x);
}

// Clamp: the gradient goes to the bound that holds the value, and nowhere at the kinks.
static void clamp_derivative(const double x[3], double dz, double d[3]) {
  double raised = x[0] < x[1] ? x[1] : x[0];
  if (raised > x[2])
    d[2] = dz;
  else if (x[0] < x[1])
    d[1] = dz;
  else if (x[0] > x[1] && x[0] < x[2])
    d[0] = dz;
}

static double sign_number(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

void real_derivative(const typed_value *v, const double x[3], double z, double dz, double d[3]) {
  d[0] = d[1] = d[2] = 0;
  switch (v->op) {
    case VALUE_NEG: d[0] = -dz; break;
    case VALUE_ADD: d[0] = d[1] = dz; break;
    case VALUE_SUB:
      d[0] = dz;
      d[1] = -dz;
      break;
    case VALUE_MUL:
      d[0] = dz * x[1];
      d[1] = dz * x[0];
      break;
    case VALUE_DIV:
      d[0] = dz / x[1];
      d[1] = -dz * z / x[1];
      break;
    case VALUE_WHOLE_POWER:
      if (v->index) d[0] = dz * v->index * whole_power(x[0], (int64_t)v->index - 1);
      break;
    case VALUE_POWER:
      d[0] = dz * x[1] * positive_power(x[0], x[1] - 1);
      if (z != 0) d[1] = dz * z * log(x[0]);
      break;
    case VALUE_EXP: d[0] = dz * z; break;
    case VALUE_EXPM1: d[0] = dz * exp(x[0]); break;
    case VALUE_LOG: d[0] = dz / x[0]; break;
    case VALUE_LOG1P: d[0] = dz / (1 + x[0]); break;
    case VALUE_SQRT:
      if (!(v->kink && x[0] == 0)) d[0] = dz / (2 * z);
      break;
    case VALUE_RSQRT: d[0] = -dz * z / (2 * x[0]); break;
    case VALUE_ABS:
    case VALUE_COMPLEX_ABS: d[0] = dz * sign_number(x[0]); break;
    case VALUE_SIGMOID: d[0] = dz * z * reference_sigmoid(-x[0]); break;
    case VALUE_LOG_SIGMOID: d[0] = dz * reference_sigmoid(-x[0]); break;
    case VALUE_SOFTPLUS: d[0] = dz * reference_sigmoid(x[0]); break;
    case VALUE_SILU:
      d[0] = dz * reference_sigmoid(x[0]) * (1 + x[0] * reference_sigmoid(-x[0]));
      break;
    case VALUE_GELU:
      d[0] = dz * (normal_below(x[0]) + x[0] * root_half_over_pi * exp(-0.5 * x[0] * x[0]));
      break;
    case VALUE_RELU: d[0] = x[0] > 0 ? dz : 0; break;
    case VALUE_TANH: d[0] = dz * (1 - z) * (1 + z); break;
    case VALUE_SIN: d[0] = dz * cos(x[0]); break;
    case VALUE_COS: d[0] = -dz * sin(x[0]); break;
    case VALUE_MIN: d[x[0] < x[1] ? 0 : 1] = dz; break;
    case VALUE_MAX: d[x[0] > x[1] ? 0 : 1] = dz; break;
    case VALUE_CLAMP: clamp_derivative(x, dz, d); break;
    case VALUE_WHERE: d[x[0] != 0 ? 1 : 2] = dz; break;
    case VALUE_REAL_PART:
    case VALUE_CONJUGATE: d[0] = dz; break;
    case VALUE_LESS:
    case VALUE_LESS_EQUAL:
    case VALUE_GREATER:
    case VALUE_GREATER_EQUAL:
    case VALUE_EQUAL:
    case VALUE_STOP_GRADIENT:
    case VALUE_IMAGINARY_PART: break;
    default: ICE("reference", "derivative of %s by real operands", value_op_text(v->op));
  }
}

// ---- complex ------------------------------------------------------------------------------------

static complex_number negative(complex_number a) { return (complex_number){-a.re, -a.im}; }
static complex_number conjugate(complex_number a) { return (complex_number){a.re, -a.im}; }
static complex_number scaled_complex(complex_number a, double s) {
  return (complex_number){a.re * s, a.im * s};
}

static complex_number complex_product(complex_number a, complex_number b) {
  return (complex_number){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

// The larger part of b is divided out first, so that |b|^2 need not be representable.
static complex_number over(complex_number a, complex_number b) {
  if (fabs(b.re) >= fabs(b.im)) {
    double ratio = b.im / b.re, divisor = b.re + b.im * ratio;
    return (complex_number){(a.re + a.im * ratio) / divisor, (a.im - a.re * ratio) / divisor};
  }
  double ratio = b.re / b.im, divisor = b.re * ratio + b.im;
  return (complex_number){(a.re * ratio + a.im) / divisor, (a.im * ratio - a.re) / divisor};
}

static complex_number complex_whole_power(complex_number x, int64_t n) {
  complex_number power = {1, 0}, square = x;
  for (uint64_t k = (uint64_t)(n < 0 ? -n : n); k; k >>= 1) {
    if (k & 1) power = complex_product(power, square);
    square = complex_product(square, square);
  }
  return n < 0 ? over((complex_number){1, 0}, power) : power;
}

static complex_number polar(double radius, double angle) {
  return (complex_number){radius * cos(angle), radius * sin(angle)};
}

// exp(a + ib) - 1 without the cancellation near 0: the real part is expm1(a) - 2 exp(a) sin^2(b/2).
static complex_number complex_expm1(complex_number x) {
  double half = sin(0.5 * x.im), radius = exp(x.re);
  return (complex_number){expm1(x.re) - 2 * radius * half * half, radius * sin(x.im)};
}

complex_number complex_value(const typed_value *v, const complex_number x[3]) {
  switch (v->op) {
    case VALUE_NEG: return negative(x[0]);
    case VALUE_ADD: return (complex_number){x[0].re + x[1].re, x[0].im + x[1].im};
    case VALUE_SUB: return (complex_number){x[0].re - x[1].re, x[0].im - x[1].im};
    case VALUE_MUL: return complex_product(x[0], x[1]);
    case VALUE_DIV: return over(x[0], x[1]);
    case VALUE_WHOLE_POWER: return complex_whole_power(x[0], v->index);
    case VALUE_EXP: return polar(exp(x[0].re), x[0].im);
    case VALUE_EXPM1: return complex_expm1(x[0]);
    case VALUE_WHERE: return x[0].re != 0 ? x[1] : x[2];
    case VALUE_STOP_GRADIENT: return x[0];
    case VALUE_COMPLEX: return (complex_number){x[0].re, x[1].re};
    case VALUE_POLAR: return polar(x[0].re, x[1].re);
    case VALUE_REAL_PART: return (complex_number){x[0].re, 0};
    case VALUE_IMAGINARY_PART: return (complex_number){x[0].im, 0};
    case VALUE_CONJUGATE: return conjugate(x[0]);
    case VALUE_COMPLEX_ABS: return (complex_number){hypot(x[0].re, x[0].im), 0};
    default: ICE("reference", "%s of complex operands", value_op_text(v->op));
  }
}

static double rounded_to_float(double x) { return (float)x; }

complex_number complex_value_in_floats(const typed_value *v, const complex_number x[3]) {
  complex_number a = x[0], b = x[1];
  if (v->op != VALUE_MUL) return complex_value(v, x);
  return (complex_number){rounded_to_float(a.re * b.re) - rounded_to_float(a.im * b.im),
                          rounded_to_float(a.re * b.im) + rounded_to_float(a.im * b.re)};
}

// For z = f(x) with a complex derivative f', the cotangent of x is conj(f') dz.
void complex_derivative(const typed_value *v, const complex_number x[3], complex_number z,
                        complex_number dz, complex_number d[3]) {
  d[0] = d[1] = d[2] = (complex_number){0, 0};
  switch (v->op) {
    case VALUE_NEG: d[0] = negative(dz); break;
    case VALUE_ADD: d[0] = d[1] = dz; break;
    case VALUE_SUB:
      d[0] = dz;
      d[1] = negative(dz);
      break;
    case VALUE_MUL:
      d[0] = complex_product(dz, conjugate(x[1]));
      d[1] = complex_product(dz, conjugate(x[0]));
      break;
    case VALUE_DIV:
      d[0] = over(dz, conjugate(x[1]));
      d[1] = negative(complex_product(d[0], conjugate(z)));
      break;
    case VALUE_WHOLE_POWER:
      if (v->index) {
        complex_number slope = complex_whole_power(x[0], (int64_t)v->index - 1);
        d[0] = complex_product(dz, conjugate(scaled_complex(slope, v->index)));
      }
      break;
    case VALUE_EXP: d[0] = complex_product(dz, conjugate(z)); break;
    case VALUE_EXPM1: d[0] = complex_product(dz, conjugate(polar(exp(x[0].re), x[0].im))); break;
    case VALUE_WHERE: d[x[0].re != 0 ? 1 : 2] = dz; break;
    case VALUE_STOP_GRADIENT: break;
    case VALUE_COMPLEX:
      d[0].re = dz.re;
      d[1].re = dz.im;
      break;
    case VALUE_POLAR:
      d[0].re = dz.re * cos(x[1].re) + dz.im * sin(x[1].re);
      d[1].re = dz.im * z.re - dz.re * z.im;
      break;
    case VALUE_REAL_PART: d[0].re = dz.re; break;
    case VALUE_IMAGINARY_PART: d[0].im = dz.re; break;
    case VALUE_CONJUGATE: d[0] = conjugate(dz); break;
    case VALUE_COMPLEX_ABS:
      if (z.re != 0) d[0] = scaled_complex((complex_number){x[0].re / z.re, x[0].im / z.re}, dz.re);
      break;
    default: ICE("reference", "derivative of %s by complex operands", value_op_text(v->op));
  }
}
