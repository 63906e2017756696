// Values as affine functions of one other value, the leaf: factor * leaf + reads + rest.
#pragma once

#include "compiler/recurrence/make.h"

// outer * sum[over](inner * leaf). Factors that are 1 are the number 1.
typedef struct affine_read {
  value_id outer;
  axis_set over;
  value_id inner;
  value_id source;  // the sum in the body, for messages
} affine_read;

typedef struct affine {
  bool done;
  bool depends;     // on the leaf
  bool linear;      // affine in the leaf at all
  bool split;       // the parts below say how
  value_id factor;  // elementwise factor of the leaf; NO_VALUE: 0
  value_id rest;    // what does not depend on the leaf; NO_VALUE: 0
  VEC(affine_read) reads;
  value_id limit;      // where it is not linear, or not split: the value, and why in words
  const char *reason;  // continues "TEXT ..."
} affine;

typedef struct affine_analysis {
  builder *builder;
  value_id leaf;
  axis_set leaf_axes;
  affine *forms;  // by value
  bool *depends;
  int count;              // values when the analysis began; later ones do not depend on the leaf
  const char *leaf_text;  // h[t-1]
} affine_analysis;

// `leaf_text` names the leaf in messages.
affine_analysis affine_begin(builder *b, value_id leaf, const char *leaf_text);
// The form of a value that the body had when the analysis began.
const affine *affine_form(affine_analysis *a, value_id id);
