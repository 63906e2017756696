// The layouts that the support code declares for itself are those of tvm-ffi's own header.
#include "tvm/ffi/c_api.h"

#include "runtime/support/tvm_ffi.h"
#include "tests/bindings/layout.h"

_Static_assert(sizeof(foreign_tensor) == sizeof(DLTensor), "a tensor");
SAME(foreign_tensor, data, DLTensor, data);
SAME(foreign_tensor, device, DLTensor, device);
SAME(foreign_tensor, rank, DLTensor, ndim);
SAME(foreign_tensor, dtype, DLTensor, dtype);
SAME(foreign_tensor, shape, DLTensor, shape);
SAME(foreign_tensor, strides, DLTensor, strides);
SAME(foreign_tensor, byte_offset, DLTensor, byte_offset);
SAME(foreign_dtype, code, DLDataType, code);
SAME(foreign_dtype, bits, DLDataType, bits);
SAME(foreign_dtype, lanes, DLDataType, lanes);
SAME(foreign_device, type, DLDevice, device_type);
SAME(foreign_device, number, DLDevice, device_id);

_Static_assert(FOREIGN_INT == (int)kDLInt && FOREIGN_UINT == (int)kDLUInt &&
                   FOREIGN_FLOAT == (int)kDLFloat && FOREIGN_OPAQUE == (int)kDLOpaqueHandle &&
                   FOREIGN_BFLOAT == (int)kDLBfloat && FOREIGN_COMPLEX == (int)kDLComplex &&
                   FOREIGN_BOOL == (int)kDLBool,
               "types");
_Static_assert(FOREIGN_CPU == (int)kDLCPU && FOREIGN_CUDA == (int)kDLCUDA &&
                   FOREIGN_CUDA_HOST == (int)kDLCUDAHost &&
                   FOREIGN_CUDA_MANAGED == (int)kDLCUDAManaged,
               "devices");

_Static_assert(sizeof(tvm_any) == sizeof(TVMFFIAny), "a value");
SAME(tvm_any, type, TVMFFIAny, type_index);
SAME(tvm_any, pointer, TVMFFIAny, v_ptr);
_Static_assert(sizeof(tvm_object) == sizeof(TVMFFIObject), "an object: a tensor stands behind it");
_Static_assert(TVM_NONE == (int)kTVMFFINone && TVM_DLTENSOR == (int)kTVMFFIDLTensorPtr &&
                   TVM_TENSOR == (int)kTVMFFITensor,
               "kinds of values");

TVMFFISafeCallType forward = (TVMFFISafeCallType)rec_forward_tvm_ffi;
