// rec-compare EXPECTED GOT [TOLERANCE = 2e-5]: are the tensors of two safetensors files the same up
// to rounding?
//
// The error of a tensor is max|got - expected| / rms(expected). A tensor that is nearly zero is
// measured against 1e-4 of the largest rms of its kind (outputs and states, or gradients). Prints
// every tensor; exit status 1 if one is beyond the tolerance or absent.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/rec.h"

static double *numbers_of(const rec_tensor *t) {
  int64_t count = rec_tensor_elements(t);
  double *numbers = calloc((size_t)count + 1, sizeof *numbers);
  if (numbers && rec_convert(numbers, REC_F64, t->data, t->dtype, count)) {
    free(numbers);
    return NULL;
  }
  return numbers;
}

static double rms(const rec_tensor *t) {
  double sum = 0, *numbers = numbers_of(t);
  int64_t count = rec_tensor_elements(t);
  for (int64_t i = 0; numbers && i < count; i++) sum += numbers[i] * numbers[i];
  free(numbers);
  return count ? sqrt(sum / (double)count) : 0;
}

static bool is_gradient(const rec_tensor *t) { return strncmp(t->name, "d.", 2) == 0; }

static double largest_rms(const rec_file *file, bool gradient) {
  double largest = 0;
  for (int i = 0; i < rec_file_count(file); i++) {
    const rec_tensor *t = rec_file_tensor(file, i);
    if (is_gradient(t) == gradient) largest = fmax(largest, rms(t));
  }
  return largest;
}

// The error of one tensor; `text` tells the place or what is wrong.
static double error_of(const rec_tensor *expected, const rec_tensor *got, double floor, char *text,
                       size_t size) {
  snprintf(text, size, "absent");
  if (!got) return INFINITY;
  bool same_shape = expected->rank == got->rank;
  for (int i = 0; same_shape && i < expected->rank; i++)
    same_shape = expected->shape[i] == got->shape[i];
  snprintf(text, size, "another shape");
  if (!same_shape) return INFINITY;
  double *e = numbers_of(expected), *g = numbers_of(got), worst = 0,
         scale = fmax(rms(expected), floor);
  snprintf(text, size, "equal");
  for (int64_t i = 0; e && g && i < rec_tensor_elements(expected); i++) {
    double error = e[i] == g[i] ? 0 : fabs(e[i] - g[i]) / scale;
    if (!isfinite(g[i])) error = INFINITY;
    if (error <= worst) continue;
    worst = error;
    snprintf(text, size, "element %lld: %.9g, expected %.9g", (long long)i, g[i], e[i]);
  }
  free(e);
  free(g);
  return worst;
}

static int compare(const rec_file *expected, const rec_file *got, double tolerance) {
  double floors[2] = {1e-4 * largest_rms(expected, false), 1e-4 * largest_rms(expected, true)};
  int beyond = 0;
  for (int i = 0; i < rec_file_count(expected); i++) {
    const rec_tensor *t = rec_file_tensor(expected, i);
    char text[128];
    double error = error_of(t, rec_file_find(got, t->name), fmax(floors[is_gradient(t)], 1e-30),
                            text, sizeof text);
    printf("%-16s %.2e %s%s\n", t->name, error, text,
           error > tolerance ? "  <- beyond the tolerance" : "");
    beyond += error > tolerance;
  }
  return beyond != 0;
}

int main(int count, char **words) {
  rec_file *expected = NULL, *got = NULL;
  if (count < 3 || count > 4) {
    fprintf(stderr, "rec-compare EXPECTED GOT [TOLERANCE = 2e-5]\n");
    return 2;
  }
  int status = 2;
  if (rec_file_open(words[1], &expected) || rec_file_open(words[2], &got))
    fprintf(stderr, "rec-compare: %s\n", rec_message());
  else
    status = compare(expected, got, count == 4 ? strtod(words[3], NULL) : 2e-5);
  rec_file_close(expected);
  rec_file_close(got);
  return status;
}
