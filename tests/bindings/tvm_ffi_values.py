"""The functions that a library has for tvm-ffi, called by tvm-ffi itself: the same bits as the Python file for NumPy, and its errors.

    tvm_ffi_values.py FOLDER       FOLDER/all: recurrences.py and its library, by --emit=numpy --dtype f64,f32,bf16

Prints FAILED lines and `N passed, N failed`.
"""
import os
import sys

import numpy as np
import tvm_ffi

from checks import check, finish, load

B, T, H, K, V = 2, 37, 3, 4, 5
module = tvm_ffi.load_module(os.path.join(sys.argv[1], "all", "librecurrences.so"))
numpy = load(os.path.join(sys.argv[1], "all"))
random = np.random.default_rng(7)


def draw(dtype, *shape):
    return random.standard_normal(shape).astype(dtype)


def same(what, found, expected):
    check(f"{what}: the same bits", all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(found, expected, strict=True)))


for dtype in ("float64", "float32"):
    given = [draw(dtype, B, T, H, K), draw(dtype, B, T, H, K), draw(dtype, B, T, H, V), draw(dtype, B, T, H, K)]
    h0 = draw(dtype, B, H, K, V)
    y, hT = np.empty((B, T, H, V), dtype), np.empty_like(h0)
    module.gla_forward(*given, h0, y, hT)
    want = numpy.gla(*given, h0_S=h0)
    same(f"forward, {dtype}", (y, hT), want[:2])
    module.gla_forward(*given, None, y, hT)
    same(f"forward from zero, {dtype}", (y, hT), numpy.gla(*given)[:2])
    same(f"forward, {dtype}: the last state is not wanted", (module.gla_forward(*given, h0, y, None), y)[1:], want[:1])
    cotangents = draw(dtype, B, T, H, V), draw(dtype, B, H, K, V)
    gradients = [np.empty_like(x) for x in (*given, h0)]
    module.gla_backward(*given, h0, *cotangents, *gradients)
    same(f"backward, {dtype}", gradients, numpy.gla_backward(*given, h0_S=h0, d_y=cotangents[0], d_hT_S=cotangents[1]))
    one = [np.ascontiguousarray(x[:, 0]) for x in given]
    step = np.empty((B, H, V), dtype)
    state = h0.copy()
    module.gla_step(*one, state, step, state)
    same(f"step, states in place, {dtype}", (step, state), numpy.gla_step(*one, h0_S=h0)[:2])
    wide = np.zeros((B, 2 * T, H, K), dtype)
    wide[:, ::2] = given[0]
    module.gla_forward(wide[:, ::2], *given[1:], h0, y, hT)
    same(f"every second step, {dtype}", (y, hT), want[:2])
    row = [np.ascontiguousarray(x[:1]) for x in given]
    offsets = np.array([0, 5, 5, T], np.int32)
    starts = draw(dtype, 3, H, K, V)
    ends = np.empty_like(starts)
    module.gla_forward(*row, starts, y[:1], ends, offsets)
    same(f"packed, {dtype}", (y[:1], ends), numpy.gla(*row, h0_S=starts, cu_seqlens=offsets)[:2])


def wrong(what, kind, text, *arguments, function=module.gla_forward):
    try:
        function(*arguments)
        said = "nothing was raised"
    except Exception as mistake:
        said = f"{type(mistake).__name__}: {mistake}"
    check(f"{what}: expected {kind.__name__} with {text!r}, found {said}", said.startswith(f"{kind.__name__}: gla_") and text in said)


wrong("another length", ValueError, "expected time = 37, as q[batch,time,H,K] has it, found 36", given[0], given[1][:, 1:].copy(), *given[2:], h0, y, hT)
wrong("another type", TypeError, "found int64; convert it", given[0].astype(np.int64), *given[1:], h0, y, hT)
wrong("two types", TypeError, "found float64; convert it", *given[:3], given[3].astype(np.float64), h0, y, hT)
wrong("another order", ValueError, "hand over a contiguous copy", *given, np.swapaxes(h0, 1, 2).copy().swapaxes(1, 2), y, hT)
wrong("a number", TypeError, "expected a tensor or None as argument 2", given[0], 3.5, *given[2:], h0, y, hT)
wrong("no output", ValueError, "expected data for y", *given, h0)
wrong("offsets that end early", ValueError, "cu_seqlens to end at time = 37, found 6", *row, None, y[:1], None, np.array([0, 6], np.int32))
wrong("too many arguments", TypeError, "expected at most 7 arguments, found 8", *one, h0, step, state, None, function=module.gla_step)

try:
    import torch
except ImportError:
    pass
else:
    same("tensors of torch", (module.gla_forward(*map(torch.from_numpy, (*given, h0, y, hT))), y, hT)[1:], want[:2])

finish()
