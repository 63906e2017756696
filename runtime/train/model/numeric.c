// numeric_f32, numeric_f64 and numeric_bf16: numeric_body.h for the three pairs of types.
#include "runtime/train/model/numeric.h"

#include <cblas.h>
#include <math.h>

#include "runtime/support/narrow.h"

static CBLAS_TRANSPOSE turned(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

// From 8 rows on, a product of matrices is as fast as one by rows (384 and 1536 inputs, AVX2). A
// block of weights stays in the second-level cache while its rows are multiplied.
enum { FEW_ROWS = 7, FEW_ROWS_BLOCK = 1 << 17 };

#define WIDE(x) (x)
#define NARROW(x) (x)

#define REAL float
#define TOKEN float
#define OF(name) name##_f32
#define BLAS(name) cblas_s##name
#define EXP expf
#define SQRT sqrtf
#include "runtime/train/model/numeric_linear.h"
// Apart from the above, the order of which matters.
#include "runtime/train/model/numeric_body.h"
#undef REAL
#undef TOKEN
#undef OF
#undef BLAS
#undef EXP
#undef SQRT

#define REAL double
#define TOKEN double
#define OF(name) name##_f64
#define BLAS(name) cblas_d##name
#define EXP exp
#define SQRT sqrt
#include "runtime/train/model/numeric_linear.h"
// Apart from the above, the order of which matters.
#include "runtime/train/model/numeric_body.h"
#undef REAL
#undef TOKEN
#undef OF
#undef BLAS
#undef EXP
#undef SQRT

#undef WIDE
#undef NARROW
#define WIDE(x) rec_widen_bf16(x)
#define NARROW(x) rec_narrow_bf16(x)
#define REAL float
#define TOKEN uint16_t
#define OF(name) name##_bf16
#define BLAS(name) cblas_s##name
#define EXP expf
#define SQRT sqrtf
#include "runtime/train/model/numeric_panels.h"
// Apart from the above, the order of which matters.
#include "runtime/train/model/numeric_body.h"
