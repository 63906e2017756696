// What a handler of XLA's typed FFI is given, API 0.1 (XLA_FFI_CallFrame and what it points to).
// Later versions only add members at the ends of structs.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { XLA_API_MAJOR = 0, XLA_API_MINOR = 1 };

typedef struct xla_extension {
  size_t size;
  int type;
  struct xla_extension *next;
} xla_extension;

typedef struct xla_api_version {
  size_t size;
  xla_extension *extensions;
  int major, minor;
} xla_api_version;

enum { XLA_EXTENSION_METADATA = 1 };

// XLA asks for the version of a handler by a call with this extension. The metadata have no list of
// extensions.
typedef struct xla_metadata {
  size_t size;
  xla_api_version version;
  uint32_t traits;
} xla_metadata;

typedef struct xla_metadata_extension {
  xla_extension base;
  xla_metadata *metadata;
} xla_metadata_extension;

enum {
  XLA_S32 = 4,
  XLA_S64 = 5,
  XLA_U8 = 6,
  XLA_F16 = 10,
  XLA_F32 = 11,
  XLA_F64 = 12,
  XLA_BF16 = 16
};

// A dense tensor.
typedef struct xla_buffer {
  size_t size;
  xla_extension *extensions;
  int dtype;
  void *data;
  int64_t rank;
  const int64_t *dims;
} xla_buffer;

// Operands; results.
typedef struct xla_buffers {
  size_t size;
  xla_extension *extensions;
  int64_t count;
  const int *types;  // XLA_BUFFER
  xla_buffer *const *items;
} xla_buffers;

enum { XLA_BUFFER = 1, XLA_ATTRIBUTE_ARRAY = 1 };

typedef struct xla_text {
  const char *data;
  size_t length;
} xla_text;

typedef struct xla_array {
  int dtype;
  size_t count;
  const void *data;
} xla_array;

typedef struct xla_attributes {
  size_t size;
  xla_extension *extensions;
  int64_t count;
  const int *types;
  const xla_text *const *names;
  const void *const *items;
} xla_attributes;

typedef struct xla_error xla_error;

enum {
  XLA_INVALID_ARGUMENT = 3,
  XLA_RESOURCE_EXHAUSTED = 8,
  XLA_FAILED_PRECONDITION = 9,
  XLA_INTERNAL = 13
};

typedef struct xla_error_create {
  size_t size;
  xla_extension *extensions;
  const char *message;
  int code;
} xla_error_create;

typedef struct xla_error_destroy {
  size_t size;
  xla_extension *extensions;
  xla_error *error;
} xla_error_destroy;

typedef struct xla_stream_get {
  size_t size;
  xla_extension *extensions;
  void *context;
  void *stream;  // set
} xla_stream_get;

typedef struct xla_memory_allocate {
  size_t size;
  xla_extension *extensions;
  void *context;
  size_t bytes, alignment;
  void *data;  // set
} xla_memory_allocate;

typedef struct xla_memory_free {
  size_t size;
  xla_extension *extensions;
  void *context;
  size_t bytes;
  void *data;
} xla_memory_free;

typedef struct xla_api {
  size_t size;
  xla_extension *extensions;
  xla_api_version version;
  const void *internal;
  xla_error *(*create_error)(xla_error_create *);
  void (*error_message)(void);
  void (*destroy_error)(xla_error_destroy *);
  void (*register_handler)(void);
  xla_error *(*get_stream)(xla_stream_get *);
  void (*unused[4])(void);  // types, states
  xla_error *(*allocate_memory)(xla_memory_allocate *);
  xla_error *(*free_memory)(xla_memory_free *);
} xla_api;

enum { XLA_EXECUTE = 3 };

typedef struct xla_frame {
  size_t size;
  xla_extension *extensions;
  const xla_api *api;
  void *context;
  int stage;
  xla_buffers operands, results;
  xla_attributes attributes;
} xla_frame;

_Static_assert(offsetof(xla_frame, operands) == 40 && offsetof(xla_frame, results) == 80 &&
                   offsetof(xla_frame, attributes) == 120,
               "XLA_FFI_CallFrame");
_Static_assert(sizeof(xla_buffer) == 48 && sizeof(xla_attributes) == 48 &&
                   offsetof(xla_api, create_error) == 48 && offsetof(xla_api, get_stream) == 80 &&
                   offsetof(xla_api, allocate_memory) == 120,
               "XLA_FFI_Api");
