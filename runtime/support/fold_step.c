// A step of a fold on the host (compiler/abi/fold.h), row by row of the last axis.
#include <math.h>
#include <string.h>

#include "runtime/support/fold.h"

// Numbers of an operand along a row. A stride of 0: they are all one.
typedef struct row_numbers {
  char *data;
  int64_t stride;
} row_numbers;

// Where a step is: the entries of the axes before the last one, and a part of the last axis.
typedef struct step_place {
  const rec_fold *step;
  int64_t bytes;  // of a number
  int64_t index[REC_FOLD_AXES];
  int64_t count;
} step_place;

static row_numbers row_numbers_of(const step_place *at, const rec_fold_operand *x) {
  int64_t number = 0;
  int axes = (int)at->step->axis_count;
  for (int k = 0; k < axes; k++) number += at->index[k] * x->stride[k];
  char *data = (char *)(uintptr_t)x->data;
  return (row_numbers){data ? data + number * at->bytes : NULL, x->stride[axes - 1]};
}

static double row_number(const step_place *at, row_numbers x, int64_t k) {
  const void *data = x.data + k * x.stride * at->bytes;
  return at->bytes == 8 ? *(const double *)data : (double)*(const float *)data;
}

static void set_row_number(const step_place *at, row_numbers to, int64_t k, double number) {
  void *data = to.data + k * to.stride * at->bytes;
  if (at->bytes == 8)
    *(double *)data = number;
  else
    *(float *)data = (float)number;
}

static void set_row(const step_place *at, row_numbers to) {
  row_numbers own = row_numbers_of(at, &at->step->own);
  if (own.data && own.stride == 1 && to.stride == 1) {
    memmove(to.data, own.data, (size_t)(at->count * at->bytes));
    return;
  }
  for (int64_t k = 0; k < at->count; k++)
    set_row_number(at, to, k, own.data ? row_number(at, own, k) : (double)at->step->absent);
}

// ---- terms -----------------------------------------------------------------------------------

// y + sign * f * x; of pairs y + (f0 * x0 + sign * f1 * x1).
#define DEFINE_PRODUCTS(number)                                                             \
  static void add_##number##s(const rec_fold_term *t, row_numbers to, row_numbers by,       \
                              row_numbers from, int64_t count) {                            \
    number *y = (void *)to.data, sign = (number)t->sign;                                    \
    const number *f = (void *)by.data, *x = (void *)from.data;                              \
    int64_t f1 = t->factor_stride, x1 = t->from_stride;                                     \
    if (t->kind == REC_FOLD_PAIR) {                                                         \
      for (int64_t k = 0; k < count; k++, y += to.stride, f += by.stride, x += from.stride) \
        *y += f[0] * x[0] + sign * f[f1] * x[x1];                                           \
      return;                                                                               \
    }                                                                                       \
    for (int64_t row = 0; row < t->rows; row++, f += f1, x += x1) {                         \
      if (to.stride == 1 && from.stride == 1 && by.stride == 0) {                           \
        for (int64_t k = 0; k < count; k++) y[k] += sign * f[0] * x[k];                     \
      } else if (to.stride == 1 && from.stride == 1 && by.stride == 1) {                    \
        for (int64_t k = 0; k < count; k++) y[k] += sign * f[k] * x[k];                     \
      } else {                                                                              \
        for (int64_t k = 0; k < count; k++)                                                 \
          y[k * to.stride] += sign * f[k * by.stride] * x[k * from.stride];                 \
      }                                                                                     \
    }                                                                                       \
  }
DEFINE_PRODUCTS(float)
DEFINE_PRODUCTS(double)

static void add_row_products(const step_place *at, const rec_fold_term *t, row_numbers to) {
  row_numbers by = row_numbers_of(at, &t->factor), from = row_numbers_of(at, &t->from);
  (at->bytes == 8 ? add_doubles : add_floats)(t, to, by, from, at->count);
}

static void add_row_numbers(const step_place *at, const rec_fold_term *t, row_numbers to) {
  row_numbers from = row_numbers_of(at, &t->from);
  for (int64_t k = 0; k < at->count; k++)
    set_row_number(at, to, k, row_number(at, to, k) + t->sign * row_number(at, from, k));
}

static void take_row_maximum(const step_place *at, const rec_fold_term *t, row_numbers to) {
  row_numbers shift = row_numbers_of(at, &t->factor), from = row_numbers_of(at, &t->from);
  for (int64_t k = 0; k < at->count; k++)
    set_row_number(at, to, k,
                   fmax(row_number(at, from, k) + row_number(at, shift, k), row_number(at, to, k)));
}

static void add_relative_row(const step_place *at, const rec_fold_term *t, row_numbers to) {
  row_numbers sum = row_numbers_of(at, &t->factor), from = row_numbers_of(at, &t->from),
              maximum = row_numbers_of(at, &t->maximum), shift = row_numbers_of(at, &t->shift),
              largest = row_numbers_of(at, &t->largest);
  bool alike = !(sum.stride | maximum.stride | shift.stride | largest.stride);
  double keeps = 0, writes = 0;
  for (int64_t k = 0; k < at->count; k++) {
    if (k == 0 || !alike) {
      double shifted = row_number(at, maximum, k) + row_number(at, shift, k),
             top = row_number(at, largest, k);
      keeps = exp(fmin(0, shifted - top) + row_number(at, sum, k));
      writes = exp(fmin(0, top - shifted));
    }
    set_row_number(at, to, k, keeps * row_number(at, from, k) + writes * row_number(at, to, k));
  }
}

// ---- rows ------------------------------------------------------------------------------------

static void make_step_row(const step_place *at) {
  static void (*const kinds[])(const step_place *, const rec_fold_term *, row_numbers) = {
      [REC_FOLD_ADD] = add_row_numbers,
      [REC_FOLD_PRODUCT] = add_row_products,
      [REC_FOLD_MAXIMUM] = take_row_maximum,
      [REC_FOLD_RELATIVE] = add_relative_row,
      [REC_FOLD_PAIR] = add_row_products};
  row_numbers to = row_numbers_of(at, &at->step->to);
  set_row(at, to);
  for (int64_t i = 0; i < at->step->term_count; i++) {
    const rec_fold_term *term = &at->step->terms[i];
    kinds[term->kind](at, term, to);
  }
}

void fold_step_run(const rec_fold *step, int64_t number_bytes) {
  step_place at = {.step = step, .bytes = number_bytes};
  int last = (int)step->axis_count - 1;
  int64_t rest = step->first;
  for (int k = last; k >= 0; k--) {
    at.index[k] = rest % step->size[k];
    rest /= step->size[k];
  }
  for (int64_t i = step->first; i < step->end; i += at.count) {
    at.count = smaller(step->size[last] - at.index[last], step->end - i);
    make_step_row(&at);
    at.index[last] = 0;
    for (int k = last - 1; k >= 0 && ++at.index[k] == step->size[k]; k--) at.index[k] = 0;
  }
}
