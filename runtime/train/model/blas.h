// Room for the products of BLAS.
#pragma once

#include "runtime/internal.h"

// Makes the buffers that OpenBLAS needs for `threads` threads that multiply at a time. Without them
// it asks for memory where there is none, again and again. Not to be called while a product runs.
rec_status blas_reserve(int threads);
