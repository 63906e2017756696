#include "runtime/command/finite.h"

#include <math.h>
#include <stdio.h>

bool finite_weight(const char *name, const void *to, rec_dtype to_type, const void *from,
                   rec_dtype from_type, int64_t count) {
  int64_t first = -1, others = -1;
  for (int64_t i = 0; i < count; i++) {
    if (isfinite(rec_number_at(to, to_type, i))) continue;
    if (first < 0) first = i;
    others++;
  }
  if (first < 0) return true;
  double number = rec_number_at(from, from_type, first);
  fprintf(stderr, "  numbers  %s: expected finite numbers%s%s, found %g at %lld", name,
          isfinite(number) ? " in " : "", isfinite(number) ? rec_dtype_name(to_type) : "", number,
          (long long)first);
  if (others) fprintf(stderr, " and %lld more", (long long)others);
  fprintf(stderr, "\n");
  return false;
}
