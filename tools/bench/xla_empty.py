"""A call of XLA's FFI with the shapes of gla and a handler that does nothing: no binding can take less."""
import ctypes
import os

import jax


def empty(folder):
    shapes = [jax.ShapeDtypeStruct(shape, "float32") for shape in ((1, 1, 1, 8), (1, 1, 8, 8))]
    handler = jax.ffi.pycapsule(ctypes.CDLL(os.path.join(folder, "empty.so")).xla_empty)
    jax.ffi.register_ffi_target("empty", handler, platform="cpu")
    return jax.jit(lambda *x: jax.ffi.ffi_call("empty", shapes)(*x))
