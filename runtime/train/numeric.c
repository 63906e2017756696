// numeric_f32 and numeric_f64: numeric_body.h for the two element types.
#include "runtime/train/numeric.h"

#include <cblas.h>
#include <math.h>
#include <string.h>

enum { MAX_SYMBOLS = 65535 };  // tokens are 16 bits; NO_TARGET is none

#define REAL float
#define OF(name) name##_f32
#define BLAS(name) cblas_s##name
#define EXP expf
#define SQRT sqrtf
#include "runtime/train/numeric_body.h"
#undef REAL
#undef OF
#undef BLAS
#undef EXP
#undef SQRT

#define REAL double
#define OF(name) name##_f64
#define BLAS(name) cblas_d##name
#define EXP exp
#define SQRT sqrt
#include "runtime/train/numeric_body.h"
