// Whether a model generalises in length and extends it, from losses that are measured: on ranges of
// positions, with a tolerance. Meant as Definition 3.2 of arXiv 2507.02782 and Definition 2.1 of
// LongSSM (arXiv 2406.02080), whose wording has not been compared.
//
//   2.1 at the context, then 2.0 2.1 2.3     generalises to the end of the second range; no extension
#include "runtime/train/evaluate/verdict.h"

verdict verdict_begin(int64_t context, double at_context, double tolerance) {
  return (verdict){.context = context,
                   .at_context = at_context,
                   .tolerance = tolerance,
                   .least = at_context,
                   .reaches = context,
                   .until = context,
                   .extension = STRONG_EXTENSION};
}

// A loss that is no number is above everything.
void verdict_range(verdict *v, int64_t end, double bits) {
  if (!(bits <= v->at_context + v->tolerance))
    v->extension = NO_EXTENSION;
  else if (bits > v->least + v->tolerance && v->extension == STRONG_EXTENSION)
    v->extension = WEAK_EXTENSION;
  if (v->extension != NO_EXTENSION) v->reaches = end;
  if (bits < v->least) v->least = bits;
  v->until = end;
}

const char *verdict_name(length_extension extension) {
  static const char *const names[] = {"strong", "weak", "no"};
  return names[extension];
}
