// numeric_f32, numeric_f64 and numeric_bf16: numeric_body.h for the three pairs of types.
#include "runtime/train/model/numeric.h"

#include <cblas.h>
#include <math.h>

#include "runtime/support/cpu.h"
#include "runtime/support/narrow.h"
#include "runtime/train/model/leaves.h"

static CBLAS_TRANSPOSE turned(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

// From 12 rows on, or only from more than 24, by shape, a product of matrices is as fast (AVX2, 384
// to 1536 inputs).
enum { FEW_ROWS = 12 };
// Bytes of lanes, rows that are multiplied by a row of weights while it is read, and how many bytes
// ahead the weights are fetched.
enum { FEW_LANES = 64, FEW_INPUTS = 2, FEW_AHEAD = 1 << 14 };
// Columns of vectors of 16 bytes: x86-64 has 16 registers for them, AArch64 32.
#if defined(__x86_64__)
enum { FEW_COLUMNS_V2 = 1 };
#else
enum { FEW_COLUMNS_V2 = 3 };
#endif

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
