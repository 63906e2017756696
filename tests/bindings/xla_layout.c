// The layouts that the support code declares for itself are those of XLA's own header, which jaxlib
// brings.
#include "xla/ffi/api/c_api.h"

#include "runtime/support/xla.h"
#include "tests/bindings/layout.h"

SAME(xla_extension, type, XLA_FFI_Extension_Base, type);
SAME(xla_extension, next, XLA_FFI_Extension_Base, next);
SAME(xla_api_version, major, XLA_FFI_Api_Version, major_version);
SAME(xla_api_version, minor, XLA_FFI_Api_Version, minor_version);
SAME(xla_metadata, version, XLA_FFI_Metadata, api_version);
SAME(xla_metadata, traits, XLA_FFI_Metadata, traits);
SAME(xla_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata);

SAME(xla_buffer, dtype, XLA_FFI_Buffer, dtype);
SAME(xla_buffer, data, XLA_FFI_Buffer, data);
SAME(xla_buffer, rank, XLA_FFI_Buffer, rank);
SAME(xla_buffer, dims, XLA_FFI_Buffer, dims);
SAME(xla_buffers, count, XLA_FFI_Args, size);
SAME(xla_buffers, types, XLA_FFI_Args, types);
SAME(xla_buffers, items, XLA_FFI_Args, args);
SAME(xla_buffers, items, XLA_FFI_Rets, rets);
SAME(xla_text, data, XLA_FFI_ByteSpan, ptr);
SAME(xla_text, length, XLA_FFI_ByteSpan, len);
SAME(xla_array, dtype, XLA_FFI_Array, dtype);
SAME(xla_array, count, XLA_FFI_Array, size);
SAME(xla_array, data, XLA_FFI_Array, data);
SAME(xla_attributes, count, XLA_FFI_Attrs, size);
SAME(xla_attributes, types, XLA_FFI_Attrs, types);
SAME(xla_attributes, names, XLA_FFI_Attrs, names);
SAME(xla_attributes, items, XLA_FFI_Attrs, attrs);

SAME(xla_error_create, message, XLA_FFI_Error_Create_Args, message);
SAME(xla_error_create, code, XLA_FFI_Error_Create_Args, errc);
SAME(xla_error_destroy, error, XLA_FFI_Error_Destroy_Args, error);
SAME(xla_stream_get, context, XLA_FFI_Stream_Get_Args, ctx);
SAME(xla_stream_get, stream, XLA_FFI_Stream_Get_Args, stream);
SAME(xla_memory_allocate, context, XLA_FFI_DeviceMemory_Allocate_Args, ctx);
SAME(xla_memory_allocate, bytes, XLA_FFI_DeviceMemory_Allocate_Args, size);
SAME(xla_memory_allocate, alignment, XLA_FFI_DeviceMemory_Allocate_Args, alignment);
SAME(xla_memory_allocate, data, XLA_FFI_DeviceMemory_Allocate_Args, data);
SAME(xla_memory_free, context, XLA_FFI_DeviceMemory_Free_Args, ctx);
SAME(xla_memory_free, bytes, XLA_FFI_DeviceMemory_Free_Args, size);
SAME(xla_memory_free, data, XLA_FFI_DeviceMemory_Free_Args, data);

SAME(xla_api, create_error, XLA_FFI_Api, XLA_FFI_Error_Create);
SAME(xla_api, destroy_error, XLA_FFI_Api, XLA_FFI_Error_Destroy);
SAME(xla_api, get_stream, XLA_FFI_Api, XLA_FFI_Stream_Get);
SAME(xla_api, allocate_memory, XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate);
SAME(xla_api, free_memory, XLA_FFI_Api, XLA_FFI_DeviceMemory_Free);

SAME(xla_frame, api, XLA_FFI_CallFrame, api);
SAME(xla_frame, context, XLA_FFI_CallFrame, ctx);
SAME(xla_frame, stage, XLA_FFI_CallFrame, stage);
SAME(xla_frame, operands, XLA_FFI_CallFrame, args);
SAME(xla_frame, results, XLA_FFI_CallFrame, rets);
SAME(xla_frame, attributes, XLA_FFI_CallFrame, attrs);

_Static_assert(XLA_S32 == (int)XLA_FFI_DataType_S32 && XLA_S64 == (int)XLA_FFI_DataType_S64 &&
                   XLA_U8 == (int)XLA_FFI_DataType_U8 && XLA_F16 == (int)XLA_FFI_DataType_F16 &&
                   XLA_F32 == (int)XLA_FFI_DataType_F32 && XLA_F64 == (int)XLA_FFI_DataType_F64 &&
                   XLA_BF16 == (int)XLA_FFI_DataType_BF16,
               "types");
_Static_assert(XLA_BUFFER == (int)XLA_FFI_ArgType_BUFFER &&
                   XLA_BUFFER == (int)XLA_FFI_RetType_BUFFER &&
                   XLA_ATTRIBUTE_ARRAY == (int)XLA_FFI_AttrType_ARRAY &&
                   XLA_EXECUTE == (int)XLA_FFI_ExecutionStage_EXECUTE &&
                   XLA_EXTENSION_METADATA == (int)XLA_FFI_Extension_Metadata,
               "kinds");
_Static_assert(XLA_INVALID_ARGUMENT == (int)XLA_FFI_Error_Code_INVALID_ARGUMENT &&
                   XLA_RESOURCE_EXHAUSTED == (int)XLA_FFI_Error_Code_RESOURCE_EXHAUSTED &&
                   XLA_FAILED_PRECONDITION == (int)XLA_FFI_Error_Code_FAILED_PRECONDITION &&
                   XLA_INTERNAL == (int)XLA_FFI_Error_Code_INTERNAL,
               "errors");
