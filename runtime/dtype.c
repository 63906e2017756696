// Element types: names, sizes, and conversion of real values between them.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compiler/base/number.h"
#include "runtime/internal.h"

typedef struct dtype_row {
  const char *name;
  size_t size;
  bool real;
} dtype_row;

static const dtype_row rows[REC_DTYPE_COUNT] = {
    [REC_BOOL] = {"BOOL", 1, false},      [REC_U8] = {"U8", 1, false},
    [REC_I8] = {"I8", 1, false},          [REC_F8_E5M2] = {"F8_E5M2", 1, true},
    [REC_F8_E4M3] = {"F8_E4M3", 1, true}, [REC_I16] = {"I16", 2, false},
    [REC_U16] = {"U16", 2, false},        [REC_F16] = {"F16", 2, true},
    [REC_BF16] = {"BF16", 2, true},       [REC_I32] = {"I32", 4, false},
    [REC_U32] = {"U32", 4, false},        [REC_F32] = {"F32", 4, true},
    [REC_F64] = {"F64", 8, true},         [REC_I64] = {"I64", 8, false},
    [REC_U64] = {"U64", 8, false},
};

const char *rec_dtype_name(rec_dtype dtype) { return rows[dtype].name; }
size_t rec_dtype_size(rec_dtype dtype) { return rows[dtype].size; }
bool rec_dtype_is_real(rec_dtype dtype) { return rows[dtype].real; }

bool rec_dtype_find(const char *name, rec_dtype *dtype) {
  for (int i = 0; i < REC_DTYPE_COUNT; i++) {
    if (strcmp(name, rows[i].name) == 0) {
      *dtype = (rec_dtype)i;
      return true;
    }
  }
  return false;
}

static const rec_dtype number_types[NUMBER_TYPE_COUNT] = {[NUMBER_F32] = REC_F32,
                                                          [NUMBER_F64] = REC_F64,
                                                          [NUMBER_BF16] = REC_BF16,
                                                          [NUMBER_F16] = REC_F16};

bool rec_number_type(const char *text, rec_dtype *type) {
  number_type number;
  if (!number_type_find(text, &number)) return false;
  *type = number_types[number];
  return true;
}

const char *rec_number_text(rec_dtype type) {
  for (int i = 0; i < NUMBER_TYPE_COUNT; i++)
    if (number_types[i] == type) return number_type_text((number_type)i);
  return rows[type].name;
}

int64_t rec_tensor_elements(const rec_tensor *tensor) {
  int64_t count = 1;
  for (int i = 0; i < tensor->rank; i++) count *= tensor->shape[i];
  return count;
}

char *rec_shape_text(char *text, size_t size, rec_dtype dtype, int rank, const int64_t *shape) {
  size_t at = (size_t)snprintf(text, size, "%s [", rows[dtype].name);
  for (int i = 0; i < rank && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? "," : "", (long long)shape[i]);
  if (at < size) snprintf(text + at, size - at, "]");
  return text;
}

// A small float of `exponent_bits` and `fraction_bits`; `finite`: the top exponent holds numbers,
// all ones is NaN (E4M3).
static double small_float(unsigned bits, int exponent_bits, int fraction_bits, bool finite) {
  int top = (1 << exponent_bits) - 1, bias = top >> 1;
  int exponent = (int)(bits >> fraction_bits) & top;
  unsigned ones = (1u << fraction_bits) - 1, fraction = bits & ones;
  double sign = bits >> (exponent_bits + fraction_bits) ? -1 : 1;
  if (exponent == top && !finite) return fraction ? copysign(NAN, sign) : sign * INFINITY;
  if (exponent == top && fraction == ones) return copysign(NAN, sign);
  if (exponent == 0) return sign * ldexp(fraction, 1 - bias - fraction_bits);
  return sign * ldexp(fraction + (1u << fraction_bits), exponent - bias - fraction_bits);
}

// Rounds to a type of `fraction_bits` fraction bits: nearest, ties to even. Values stay exact
// doubles until the end.
static uint16_t double_to_small(double value, int exponent_bits, int fraction_bits) {
  int top = (1 << exponent_bits) - 1, bias = top >> 1;
  unsigned sign = signbit(value) ? 1u << (exponent_bits + fraction_bits) : 0;
  unsigned infinite = (unsigned)top << fraction_bits;
  if (isnan(value)) return (uint16_t)(sign | infinite | 1u << (fraction_bits - 1));
  double size = fabs(value);
  if (isinf(size)) return (uint16_t)(sign | infinite);
  int exponent = 1 - bias;
  if (size > 0 && ilogb(size) > exponent) exponent = ilogb(size);
  // the fraction with its leading one, if it has one
  double units = rint(ldexp(size, fraction_bits - exponent));
  if (exponent > bias) return (uint16_t)(sign | infinite);
  // A carry out of the fraction raises the exponent by itself, up to infinity.
  return (uint16_t)(sign | (((unsigned)(exponent + bias - 1) << fraction_bits) + (unsigned)units));
}

static double load_typed_number(const unsigned char *from, rec_dtype type) {
  uint16_t two;
  uint32_t four;
  float single;
  double value;
  switch (type) {
    case REC_F8_E5M2: return small_float(*from, 5, 2, false);
    case REC_F8_E4M3: return small_float(*from, 4, 3, true);
    case REC_F16: memcpy(&two, from, 2); return small_float(two, 5, 10, false);
    case REC_BF16:
      memcpy(&two, from, 2);
      four = (uint32_t)two << 16;
      memcpy(&single, &four, 4);
      return single;
    case REC_F32: memcpy(&single, from, 4); return single;
    default: memcpy(&value, from, 8); return value;
  }
}

double rec_number_at(const void *data, rec_dtype type, int64_t place) {
  return load_typed_number((const unsigned char *)data + (size_t)place * rows[type].size, type);
}

static void store(unsigned char *to, rec_dtype type, double value) {
  uint16_t two;
  float single;
  switch (type) {
    case REC_F16:
      two = double_to_small(value, 5, 10);
      memcpy(to, &two, 2);
      return;
    case REC_BF16:
      two = double_to_small(value, 8, 7);
      memcpy(to, &two, 2);
      return;
    case REC_F32:
      single = (float)value;
      memcpy(to, &single, 4);
      return;
    default: memcpy(to, &value, 8); return;
  }
}

static bool can_store(rec_dtype type) {
  return type == REC_F16 || type == REC_BF16 || type == REC_F32 || type == REC_F64;
}

rec_status rec_convert(void *to, rec_dtype to_type, const void *from, rec_dtype from_type,
                       int64_t count) {
  if (!rows[from_type].real || !can_store(to_type)) {
    return rec_fail(REC_ERROR_ARGUMENT, "expected real element types, found %s to %s",
                    rows[from_type].name, rows[to_type].name);
  }
  if (count == 0) return REC_OK;
  if (from_type == to_type) {
    memcpy(to, from, (size_t)count * rows[to_type].size);
    return REC_OK;
  }
  const unsigned char *source = from;
  unsigned char *target = to;
  for (int64_t i = 0; i < count; i++) {
    store(target, to_type, load_typed_number(source, from_type));
    source += rows[from_type].size;
    target += rows[to_type].size;
  }
  return REC_OK;
}
