// What a program that calls a library as tvm-ffi does needs of its binary interface: DLPack's DLTensor and TVMFFIAny.
#ifndef REC_TESTS_TVM_FFI_HPP
#define REC_TESTS_TVM_FFI_HPP

#include <cstdint>

struct tensor {
  void *data;
  int32_t device_type, device_number, rank;
  uint8_t code, bits;
  uint16_t lanes;
  const int64_t *shape, *strides;
  uint64_t byte_offset;
};

struct any {
  int32_t type;
  uint32_t padding;
  const void *pointer;
};

#endif
