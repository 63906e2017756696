// A handler of XLA's typed FFI that does nothing: what bindings_jax.py measures beside those of a
// library.
#include "runtime/support/xla.h"

void *xla_empty(const xla_frame *frame);

void *xla_empty(const xla_frame *frame) {
  for (const xla_extension *e = frame->extensions; e; e = e->next)
    if (e->type == XLA_EXTENSION_METADATA) {
      xla_metadata *metadata = ((const xla_metadata_extension *)e)->metadata;
      metadata->version.major = XLA_API_MAJOR;
      metadata->version.minor = XLA_API_MINOR;
      metadata->traits = 0;
    }
  return NULL;
}
