"""--emit=jax against plain scans in JAX: values and every gradient; and what JAX does with functions.

    jax_values.py FOLDER [full]       FOLDER has what recc wrote for recurrences.rec: FOLDER/all/recurrences.py with all variants,
                                      FOLDER/f16/recurrences.py

But for `full`, half of the recurrences are compared with their scans, which REC_SEED says. Prints FAILED lines and `N passed, N failed`.
"""
import functools
import math
import os
import shutil
import sys
import tempfile
import threading
import time

# What is compared with is compiled once and runs once.
os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.test_util import check_grads  # noqa: E402

from checks import RECURRENCES, H, K, V, check, finish, load, tried  # noqa: E402


def error(a, b):
    """The largest error by the rms of what is expected; of 16 bits, whose large numbers round by as much, the rms error."""
    if a is None or a.shape != b.shape or not np.isfinite(np.asarray(a, np.float64)).all():
        return math.inf
    narrow = a.dtype.itemsize == 2
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    if a.size == 0:
        return 0.0
    wrong = np.sqrt(np.mean((a - b) ** 2)) if narrow else np.abs(a - b).max()
    return float(wrong) / max(float(np.sqrt(np.mean(b * b))), 1e-30)


def close(what, a, b, bound=1e-12):
    check(f"{what}: error {error(a, b):.1e}, at most {bound:.0e}", error(a, b) <= bound)


def all_close(what, found, expected, bound=1e-12):
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    check(f"{what}: {len(found)} results, expected {len(expected)}", len(found) == len(expected))
    for i, (a, b) in enumerate(zip(found, expected)):
        close(f"{what}: result {i}", a, b, bound)


registered = []
_register = jax.ffi.register_ffi_target
jax.ffi.register_ffi_target = lambda name, handler, platform: (registered.append((name, platform)), _register(name, handler, platform=platform))
every, f16 = (load(os.path.join(sys.argv[1], folder)) for folder in ("all", "f16"))

# ---- scans ---------------------------------------------------------------------------------------------------------------
# A step of each recurrence: (inputs of the step, parameters, states) -> (y, states). Sums over K are those of axis -2 of S.

sigmoid, softplus, exp = jax.nn.sigmoid, jax.nn.softplus, jnp.exp


def unit(x):
    return x / jnp.sqrt(jnp.sum(x * x, -1, keepdims=True) + 1e-6)


def read(q, S):
    return (q[..., None] * S).sum(-2)


def outer(k, v):
    return k[..., None] * v[..., None, :]


def to_complex(x):
    return x[..., 0] + 1j * x[..., 1]


def to_real(x):
    return jnp.stack([x.real, x.imag], -1)


def gla(x, p, s):
    q, k, v, gate = x
    S = (sigmoid(gate) ** (1 / 16))[..., None] * s[0] + outer(k, v)
    return q.shape[-1] ** -0.5 * read(q, S), (S,)


def ssd(x, p, s):
    (u, dt, B, C), (A_log, dt_bias, D) = x, p
    delta = softplus(dt + dt_bias)
    h = exp(-exp(A_log) * delta)[..., None, None] * s[0] + (delta[..., None] * u)[..., None] * B[:, :, None, None, :]
    return (C[:, :, None, None, :] * h).sum(-1) + D[..., None] * u, (h,)


def selective_scan(x, p, s):
    (u, dt, B, C), (A_log, dt_bias, D) = x, p
    delta = softplus(dt + dt_bias)
    h = exp(-exp(A_log) * delta[..., None]) * s[0] + (delta * u)[..., None] * B[:, None, :]
    return (C[:, None, :] * h).sum(-1) + D * u, (h,)


def delta_rule(q, k, v, rate, decay, S):
    kn, kept = unit(k), decay * S
    S = kept + sigmoid(rate)[..., None, None] * outer(kn, v - read(kn, kept))
    return q.shape[-1] ** -0.5 * read(unit(q), S), (S,)


def gated_deltanet(x, p, s):
    (q, k, v, rate, gate), (A_log, dt_bias) = x, p
    return delta_rule(q, k, v, rate, exp(-exp(A_log) * softplus(gate + dt_bias))[..., None, None], s[0])


def kda(x, p, s):
    (q, k, v, rate, gate), (A_log, dt_bias) = x, p
    return delta_rule(q, k, v, rate, exp(-exp(A_log)[:, None] * softplus(gate + dt_bias))[..., None], s[0])


def rwkv6(x, p, s):
    (r, k, v, decay), (bonus,) = x, p
    return read(r, s[0] + outer(bonus * k, v)), (exp(-exp(decay))[..., None] * s[0] + outer(k, v),)


def rwkv7(x, p, s):
    r, decay, k, v, erase, rate = x
    kk, w = unit(erase), exp(-math.exp(-0.5) * sigmoid(decay))
    S = w[..., None] * s[0] - outer(sigmoid(rate) * kk, read(kk, s[0])) + outer(k, v)
    return read(r, S), (S,)


def s4d(x, p, s):
    (u,), (log_dt, log_A_real, A_imag, C, D) = x, p
    lam = -exp(log_A_real) + 1j * A_imag
    z = exp(log_dt)[:, None] * lam
    h = exp(z) * to_complex(s[0]) + (exp(z) - 1) / lam * u[..., None]
    return 2 * (to_complex(C) * h).sum(-1).real + D * u, (to_real(h),)


def lru(x, p, s):
    (u,), (nu, theta, gamma, B_re, B_im, C_re, C_im, D) = x, p
    lam = exp(-exp(nu) + 1j * exp(theta))
    h = lam * to_complex(s[0]) + exp(gamma) * ((B_re + 1j * B_im) * u[:, None, :]).sum(-1)
    return ((C_re + 1j * C_im) * h[:, None, :]).sum(-1).real + (D * u[:, None, :]).sum(-1), (to_real(h),)


def mlstm(x, p, s):
    (q, k, v, write, forget), (C, n, m) = x, s
    log_f = jax.nn.log_sigmoid(forget)
    new = jax.lax.stop_gradient(jnp.maximum(log_f + m, write))
    f, i = exp(log_f + m - new), exp(write - new)
    C = f[..., None, None] * C + i[..., None, None] * outer(k, v)
    n = f[..., None] * n + i[..., None] * k
    q = q.shape[-1] ** -0.5 * q
    return read(q, C) / jnp.maximum(jnp.abs((q * n).sum(-1)), exp(-new))[..., None], (C, n, new)


def run(step, inputs, parameters, states):
    def one(carry, x):
        y, carry = step(x, parameters, carry)
        return tuple(carry), y

    last, ys = jax.lax.scan(one, tuple(states), tuple(jnp.moveaxis(x, 1, 0) for x in inputs))
    return (jnp.moveaxis(ys, 0, 1), *last)


# Scan, axes of inputs, of parameters, of states (checks.py).
cases = {name: (globals()[name], *shapes) for name, shapes in RECURRENCES.items()}
rng = np.random.default_rng(5)


def draw(*shape, scale=1.0):
    return jnp.asarray(scale * rng.normal(size=shape))


def operands(name, batch, time, entries=None):
    _, inputs, parameters, states = cases[name]
    return ([draw(batch, time, *axes) for axes in inputs], [draw(*axes, scale=0.5) for axes in parameters],
            [draw(entries or batch, *axes) for axes in states])


@functools.partial(jax.jit, static_argnums=0)
def expected(name, inputs, parameters, states, cotangents):
    results, pull = jax.vjp(functools.partial(run, cases[name][0]), inputs, parameters, states)
    return results, jax.tree.leaves(pull(cotangents))


def compare(name, kind, bound, lists, cotangents):
    inputs, parameters, states = lists
    wide = "float64" if kind == "float64" else "float32"
    told = [x.astype(kind) for x in inputs] + [x.astype(wide) for x in parameters + states]
    exact = [x.astype(jnp.float64) for x in told]  # rounded as the library has them
    a, b = len(inputs), len(inputs) + len(parameters)
    found, pull = jax.vjp(lambda *x: tuple(getattr(every, name)(*x)), *told)
    narrow = tuple(c.astype(f.dtype) for c, f in zip(cotangents, found))
    want, theirs = expected(name, exact[:a], exact[a:b], exact[b:], tuple(c.astype(jnp.float64) for c in narrow))
    what = f"{name}, {kind}, T = {inputs[0].shape[1]}"
    all_close(f"{what}: values", found, want, bound)
    for i, (w, f) in enumerate(zip(theirs, pull(narrow))):
        if not w.any():  # the m of mlstm has no gradient
            check(f"{name}, {kind}: no gradient {i}", float(jnp.abs(f).max()) <= bound)
        else:
            close(f"{what}: gradient {i}", f, w, bound)
    return want


def drawn(name, time):
    """Operands of a call, and cotangents of its results."""
    lists = operands(name, 2, time)
    shapes = jax.eval_shape(functools.partial(run, cases[name][0]), *lists)
    return lists, tuple(draw(*x.shape) for x in shapes)


turn = int(os.environ.get("REC_SEED") or time.time())
for name in cases if sys.argv[2:] else list(cases)[turn % 2::2]:
    lists, cotangents = drawn(name, 40)
    y, *_ = compare(name, "float64", 1e-10, lists, cotangents)
    compare(name, "float32", 3e-4, lists, cotangents)
    if name in ("gla", "ssd", "gated_deltanet", "s4d"):
        compare(name, "bfloat16", 2e-2, lists, cotangents)
    several, parameters, states = lists
    for t in range(2):
        one, *states = getattr(every, name + "_step")(*(x[:, t] for x in several), *parameters, *states)
        close(f"{name}, step {t}", one, y[:, t], 1e-10)
for name in ("gla", "ssd", "lru"):
    compare(name, "float64", 1e-10, *drawn(name, 1))

# ---- empty calls, steps, packed sequences ------------------------------------------------------------------------------------

inputs, _, states = operands("gla", 2, 37)
want = run(gla, inputs, [], states)
all_close("NumPy arrays", every.gla(*map(np.asarray, inputs + states)), want)
all_close("no initial state", every.gla(*inputs), run(gla, inputs, [], [jnp.zeros_like(states[0])]))
half = f16.gla(*(x.astype(jnp.float16) for x in inputs), states[0].astype(jnp.float32))
check("float16: types", (half.y.dtype, half.hT_S.dtype) == (jnp.float16, jnp.float32))
all_close("float16", half, want, 2e-2)
empty = every.gla(*operands("gla", 2, 0)[0], *states)
check("no steps", empty.y.shape == (2, 0, H, V) and bool((empty.hT_S == states[0]).all()))
slopes = jax.grad(lambda *x: every.gla(*x).hT_S.sum(), tuple(range(5)))(*operands("gla", 2, 0)[0], *states)
check("gradient of no steps", slopes[0].shape == (2, 0, H, K) and bool((slopes[4] == 1).all()))
none = jax.grad(lambda *x: every.gla(*x).y.sum())(*operands("gla", 0, 7)[0])
check("gradient of no batch", none.shape == (0, 7, H, K))
only = jax.grad(lambda v: every.gla(*inputs[:2], v, inputs[3]).hT_S.sum())(inputs[2])
close("gradient of the state alone, by one operand", only,
      jax.grad(lambda v: run(gla, [*inputs[:2], v, inputs[3]], [], [jnp.zeros_like(states[0])])[1].sum())(inputs[2]))


@jax.jit
def token_by_token(state, *tokens):
    """States stay where they are: each step writes over the last."""
    def one(state, x):
        y, state = every.gla_step(*x, state)
        return state, y

    state, ys = jax.lax.scan(one, state, tuple(jnp.moveaxis(x, 1, 0) for x in tokens))
    return jnp.moveaxis(ys, 0, 1), state


all_close("token by token", token_by_token(states[0], *inputs), want)
close("the state that a step was given is as it was", every.gla(*inputs, *states).y, want[0])
slopes = jax.grad(lambda *x: token_by_token(*x)[0].sum(), tuple(range(5)))(states[0], *inputs)
whole = jax.grad(lambda S, *x: every.gla(*x, S).y.sum(), tuple(range(5)))(states[0], *inputs)
all_close("gradients token by token", slopes, whole)
given = jnp.array(states[0])
all_close("a state that is given away", jax.jit(every.gla, donate_argnums=4)(*inputs, given), want)

words = {"class_": (2, 9, 3), "is_": (2, 9, 3, 2), "len_": (3,), "from_": (9,), "h0_self": (2, 3, 2), "h0_turned": (2, 3, 2),
         "h0_print": (2, 9), "h0_class_lag": (2, 3, 3)}
words = {name: draw(*shape) for name, shape in words.items()}
whole = every.words(**words)
carried = {name: x for name, x in words.items() if name.startswith("h0_")}
tokens = ("class_", "is_")


@jax.jit
def words_by_step(carried):
    def one(carried, x):
        found = every.words_step(**dict(zip(tokens, x)), len_=words["len_"], from_=words["from_"], **carried)
        return {name: getattr(found, "hT" + name[2:]) for name in carried}, found.return_

    return jax.lax.scan(one, carried, tuple(jnp.moveaxis(words[name], 1, 0) for name in tokens))


last, ys = words_by_step(carried)
close("lags, token by token", jnp.moveaxis(ys, 0, 1), whole.return_)
for name in carried:
    close(f"lags, token by token: {name}", last[name], getattr(whole, "hT" + name[2:]))

offsets = np.array([0, 5, 5, 36, 37], np.int32)
row, _, starts = operands("gla", 1, 37, entries=4)


def packed(*x, cuts=offsets):
    return tuple(every.gla(*x, cu_seqlens=cuts))


def alone(*x):
    parts = [every.gla(*(t[:, a:b] for t in x[:4]), x[4][i:i + 1]) for i, (a, b) in enumerate(zip(offsets, offsets[1:]))]
    return jnp.concatenate([part.y for part in parts], 1), jnp.concatenate([part.hT_S for part in parts])


def squares(function):
    return lambda *x: sum((y * y).sum() for y in function(*x))


everything = tuple(range(5))
sequences = alone(*row, *starts)
all_close("packed", packed(*row, *starts), sequences)
all_close("packed, as a list", packed(*row, *starts, cuts=offsets.tolist()), sequences)
all_close("packed, offsets traced", jax.jit(lambda cuts: packed(*row, *starts, cuts=cuts))(jnp.asarray(offsets)), sequences)
all_close("packed, gradients", *(jax.jit(jax.grad(squares(function), everything))(*row, *starts) for function in (packed, alone)))

# ---- what JAX does with functions --------------------------------------------------------------------------------------------

small, _, start = operands("gla", 2, 5)
line, cuts = [*operands("gla", 1, 5)[0], *operands("gla", 2, 5)[2]], np.array([0, 2, 5], np.int32)
slope = functools.partial(check_grads, order=1, modes=["rev"])
tried("check_grads", lambda: slope(lambda *x: tuple(every.gla(*x)), (*small, *start)))
tried("check_grads, packed", lambda: slope(lambda *x: tuple(every.gla(*x, cu_seqlens=cuts)), tuple(line)))
tried("check_grads, words of Python, lags, complex states", lambda: slope(lambda *x: tuple(every.words(*x)), tuple(words.values())))
tried("check_grads, a step", lambda: slope(lambda *x: tuple(every.gla_step(*x)), (*(x[:, 0] for x in small), *start)))


def slopes_of(function, *x):
    """Values, and all gradients of their squares."""
    return function(*x), jax.grad(squares(function), tuple(range(len(x))))(*x)


def library(module, name):
    return lambda *x: tuple(getattr(module, name)(*x))


@functools.cache
def of_one(name):
    """What vmap is compared with: one entry after another."""
    return jax.jit(functools.partial(slopes_of, library(every, name)))


def entry(lists, axes, i):
    return [x if axis is None else jnp.take(x, i, axis) for x, axis in zip(lists, axes)]


def mapped(what, name, axes, slope_too=False):
    """vmap of values and gradients, over the operands with an axis; the gradient of vmap."""
    lists = [x for several in operands(name, 2, 6) for x in several]
    lists = [x if axis is None else jnp.stack([x * (1 + 0.1 * i) for i in range(3)], axis) for x, axis in zip(lists, axes)]
    ours = library(every, name)
    entries = [of_one(name)(*entry(lists, axes, i)) for i in range(3)]
    values, slopes = jax.tree.map(lambda *x: jnp.stack(x), *entries)
    all_close(f"vmap, {what}", jax.jit(jax.vmap(functools.partial(slopes_of, ours), axes))(*lists), (values, slopes))
    if slope_too:
        summed = [x.sum(0) if axis is None else jnp.moveaxis(x, 0, axis) for x, axis in zip(slopes, axes)]
        all_close(f"gradient of vmap, {what}", jax.jit(functools.partial(slopes_of, jax.vmap(ours, axes)))(*lists)[1], summed)


mapped("everything", "gla", [0] * 5)
mapped("another axis", "gla", [1, 2, 0, 3, 1], slope_too=True)
mapped("shared parameters", "ssd", [0] * 4 + [None] * 3 + [0], slope_too=True)
mapped("parameters alone", "ssd", [None] * 4 + [0] * 3 + [None])
mapped("tokens alone", "ssd", [0, None, 0, None, None, None, None, None])
mapped("states alone", "s4d", [None] * 6 + [0])
several = [x for lists in operands("ssd", 2, 6) for x in lists]


def narrow_parameters():
    """Parameters and states of 16 bits, and offsets of 64."""
    tokens, narrow = ([x.astype(dtype) for x in some] for some, dtype in ((several[:4], jnp.float32), (several[4:], jnp.bfloat16)))
    wide = [x.astype(jnp.float32) for x in narrow]
    squares = jax.grad(lambda given: sum(jnp.sum(jnp.square(y)) for y in every.ssd(*tokens, *given)))
    all_close("bf16 parameters", every.ssd(*tokens, *narrow), every.ssd(*tokens, *wide), 0)
    all_close("bf16 parameters, gradients", squares(narrow), [x.astype(jnp.bfloat16) for x in squares(wide)], 0)
    check("gradients of bf16 parameters have their type", all(x.dtype == jnp.bfloat16 for x in squares(narrow)))
    step = [x[:, 0] for x in tokens]
    all_close("a step with bf16 parameters", every.ssd_step(*step, *narrow), every.ssd_step(*step, *wide), 0)
    line, cuts_of = operands("gla", 1, 6)[0], [jnp.array([0, 2, 6], dtype) for dtype in (jnp.int64, jnp.int32)]
    all_close("offsets of 64 bits", *(every.gla(*line, cu_seqlens=cuts) for cuts in cuts_of), 0)


narrow_parameters()
ours = functools.partial(slopes_of, library(every, "ssd"))
far, near = (None, 0, 0) + (None,) * 5, (0, None, 0) + (None,) * 5  # each over other operands, and both over one
grid = [jnp.stack([several[0], 2 * several[0]]), jnp.stack([several[1], 3 * several[1]]),
        jnp.stack([jnp.stack([several[2] * (1 + i + 2 * j) for i in range(2)]) for j in range(2)]), *several[3:]]
want_grid = [[of_one("ssd")(*entry(entry(grid, far, j), near, i)) for i in range(2)] for j in range(2)]
all_close("vmap of vmap", jax.jit(jax.vmap(jax.vmap(ours, near), far))(*grid),
          jax.tree.map(lambda *x: jnp.stack(x), *(jax.tree.map(lambda *x: jnp.stack(x), *line) for line in want_grid)))
pairs = [jnp.stack([x, 2 * x]) for x in row]
all_close("vmap, packed", jax.vmap(lambda *x: packed(*x, *starts))(*pairs), [jnp.stack(two) for two in zip(
    packed(*row, *starts), packed(*(2 * x for x in row), *starts))])
cuts = jnp.asarray([[0, 5, 5, 36, 37], [0, 1, 2, 3, 37]], jnp.int32)
all_close("vmap over offsets", jax.vmap(lambda c: packed(*row, *starts, cuts=c))(cuts), [jnp.stack(two) for two in zip(
    *(packed(*row, *starts, cuts=c) for c in cuts))])
first = [x[:, 0] for x in several[:4]]
all_close("vmap of a step from one state", jax.vmap(lambda x: tuple(every.ssd_step(x, *first[1:], *several[4:])))(jnp.stack([first[0]] * 2)),
          [jnp.stack([x, x]) for x in every.ssd_step(*first, *several[4:])])

given = (*inputs, *states)
ours = library(every, "gla")
all_close("remat", jax.jit(functools.partial(slopes_of, jax.checkpoint(ours)))(*given), slopes_of(ours, *given))
compiled = jax.jit(ours)
for time in (1, 8, 33):
    close(f"jit, T = {time}", compiled(*(x[:, :time] for x in inputs), *states)[0], want[0][:, :time])


def in_two(q, k, v, gate, S):
    first = every.gla(q[:, :20], k[:, :20], v[:, :20], gate[:, :20], S)
    second = every.gla(q[:, 20:], k[:, 20:], v[:, 20:], gate[:, 20:], first.hT_S)
    return jnp.concatenate([first.y, second.y], 1), second.hT_S


all_close("two calls", jax.jit(functools.partial(slopes_of, in_two))(*given), slopes_of(ours, *given))
shapes = jax.eval_shape(every.gla, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given))
check("eval_shape", shapes.y.shape == want[0].shape and shapes.hT_S.shape == want[1].shape)
ahead = jax.jit(every.gla).lower(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in given)).compile()
all_close("compiled ahead", ahead(*given), want)


def exported():
    from jax import export

    names = [export.DisabledSafetyCheck.custom_call(every._target("gla", "forward"))]
    made = export.export(jax.jit(ours), disabled_checks=names)(*given)
    return all(error(a, b) == 0 for a, b in zip(made.call(*given), ours(*given)))


tried("export", exported)

# ---- CUDA ------------------------------------------------------------------------------------------------------------------
# This JAX has no GPU: its handlers are called in tests/cuda. Every handler of the CPU has one for CUDA beside it, programs for CUDA
# call it, and what forward saves is enough for both.

names = {platform: {name for name, at in registered if at == platform} for platform in ("cpu", "CUDA")}
check("handlers for CUDA", names["cpu"] == names["CUDA"] and any(".backward." in name for name in names["CUDA"]))
program = jax.jit(functools.partial(slopes_of, ours)).trace(*given).lower(lowering_platforms=("cuda",)).as_text()
check("a program for CUDA", all(f"rec.gla.{entry}." in program for entry in ("forward", "backward")))
what, sizes = every._functions_gla.family[0], every._Sizes(2, 33, None, {"H": H, "K": K, "V": V})
measure = every._measure
small = every._saved_size(what, sizes)
shorter = (*(x[:, :33] for x in inputs), *states)
usual = slopes_of(ours, *shorter)
for most, expected, found in ((4096 + small, 4096 + small, "more"), (1, small, "less"), (None, small, "no code")):
    def on_gpu(entry, arguments, kind=every._HOST, number=0):
        if kind == every._CUDA and most is None:
            raise every.RecError("no code")
        return measure(entry, arguments)._replace(saved=most) if kind == every._CUDA else measure(entry, arguments)

    every._gpus, every._measure = [0], on_gpu
    what.rooms.clear()
    check(f"saved, a GPU saves {found}", every._saved_size(what, sizes) == expected)
    if most == expected:
        jax.clear_caches()
        all_close("more is saved than the CPU needs", slopes_of(ours, *shorter), usual, 0)
        # All entries are one call of forward, but not of backward: they share a cotangent.
        slope = jax.grad(lambda *x: every.gla(*x).y.sum(), everything)
        all_close("more is saved than the CPU needs, vmap", jax.vmap(slope)(*(jnp.stack([x, 2 * x]) for x in shorter)),
                  [jnp.stack(two) for two in zip(slope(*shorter), slope(*(2 * x for x in shorter)))])
    every._measure, every._gpus = measure, []
    what.rooms.clear()

for what, use in (("a gradient of a gradient", lambda: jax.grad(lambda q: jax.grad(lambda q: squares(ours)(q, *given[1:]))(q).sum())(inputs[0])),
                  ("a Hessian", lambda: jax.hessian(lambda q: squares(ours)(q, *given[1:]))(inputs[0]))):
    try:
        use()
        check(f"{what} is refused", False)
    except (NotImplementedError, TypeError) as mistake:
        check(f"{what} is refused: {mistake}", "gla: expected first derivatives" in str(mistake) or "custom_vjp" in str(mistake))

# Threads; a second copy of the file; calls that XLA may run side by side.
found = every.gla(*given)
got = [None] * 4
threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, [every.gla(*given).y for _ in range(20)])) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
check("four threads", all(bool((x == found.y).all()) for several in got for x in several))
all_close("loaded again", load(os.path.join(sys.argv[1], "all")).gla(*given), want)
with tempfile.TemporaryDirectory() as elsewhere:
    copy = load(shutil.copytree(os.path.join(sys.argv[1], "all"), os.path.join(elsewhere, "copy")))
    tried("a copy in another folder", lambda: all_close("a copy in another folder", slopes_of(library(copy, "gla"), *given),
                                                        slopes_of(ours, *given), 0))
side = jax.jit(lambda *x: (every.gla(*x).y, every.gla(*(2 * t for t in x)).y, every.ssd(*several).y))
all_close("calls side by side", side(*given), (every.gla(*given).y, every.gla(*(2 * t for t in given)).y, every.ssd(*several).y))
wider = [jnp.concatenate([x, x[..., :2]], -1) if x.shape[-1] == K else x for x in inputs]
all_close("K = 6, another variant", every.gla(*wider), run(gla, wider, [], [jnp.zeros((2, H, 6, V))]))
check("docstrings", every.words.__doc__.startswith('What a Python file must get right: words of Python, a "quoted" \\ doc'))

finish()
