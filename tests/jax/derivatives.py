"""--emit=jax: what JAX traces once and differentiates in several ways.

    derivatives.py FOLDER [full]       FOLDER has what recc wrote for axes.rec, with f64

But for `full`, a third of the ways to call the recurrence is tried, which REC_SEED says. JAX keeps what it has traced. A derivative by some operands must not depend on a derivative by others before it.
Prints FAILED lines and `N passed, N failed`.
"""
import itertools
import os
import re
import sys
import time

os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from checks import check, finish, load, tried  # noqa: E402

axes = load(sys.argv[1], "axes")
rng = np.random.default_rng(7)
x, w, start = (jnp.asarray(rng.normal(size=shape)) for shape in ((2, 6, 3), (3,), (2, 3)))


def close(what, found, expected, bound=1e-12):
    found, expected = jax.tree.leaves(found), jax.tree.leaves(expected)
    wrong = [at for at, (a, b) in enumerate(zip(found, expected)) if a.shape != b.shape or not np.allclose(a, b, bound, bound)]
    check(f"{what}: results {wrong} of {len(found)}, expected {len(expected)}", not wrong and len(found) == len(expected))


# ---- orders of derivatives -----------------------------------------------------------------------------------------------------
# Each way to call the recurrence is one function, of which JAX keeps traces. Its sum of squares is compared with a scan of JAX.


def by_scan(x, w, start):
    def one(h, x):
        h = jax.nn.sigmoid(w) * h + x
        return h, h * w + x

    last, ys = jax.lax.scan(one, start, jnp.moveaxis(x, 1, 0))
    return jnp.moveaxis(ys, 0, 1), last


def whole(x, w, start):
    return tuple(axes.faded(x, w, start))


def by_step(x, w, start):
    def one(h, x):
        y, h = axes.faded_step(x, w, h)
        return h, y

    last, ys = jax.lax.scan(one, start, jnp.moveaxis(x, 1, 0))
    return jnp.moveaxis(ys, 0, 1), last


def in_loop(x, w, start):
    """Two calls by a loop."""
    def one(h, x):
        y, h = axes.faded(x, w, h)
        return h, y

    last, ys = jax.lax.scan(one, start, jnp.moveaxis(x.reshape(2, 2, 3, 3), 1, 0))
    return jnp.moveaxis(ys, 0, 1).reshape(x.shape), last


def in_vmap(x, w, start):
    """A batch entry is one of vmap."""
    return tuple(a[:, 0] for a in jax.vmap(whole, (0, None, 0))(x[:, None], w, start[:, None]))


def in_cond(x, w, start):
    return jax.lax.cond(x.sum() < 1e9, whole, by_scan, x, w, start)


turn = int(os.environ.get("REC_SEED") or time.time())
nothing = jax.checkpoint_policies.nothing_saveable
ways = {"plain": whole, "jit": jax.jit(whole), "steps": jax.jit(by_step), "scan": jax.jit(in_loop), "vmap": in_vmap,
        "cond": jax.jit(in_cond), "checkpoint": jax.checkpoint(whole),
        "checkpoint that saves nothing": jax.checkpoint(whole, policy=nothing),
        "scan of checkpoint": jax.jit(jax.checkpoint(in_loop, policy=jax.checkpoint_policies.dots_saveable)),
        "vmap of jit": jax.vmap(jax.jit(lambda x, w, start: tuple(y[0] for y in whole(x[None], w, start[None]))), (0, None, 0))}

if not sys.argv[2:]:
    ways = {name: way for at, (name, way) in enumerate(ways.items()) if at % 3 == turn % 3}


def loss(function):
    return lambda *operands: sum((y * y).sum() for y in function(*operands))


def is_close(found, expected):
    return all(np.allclose(a, b, 1e-12, 1e-12) for a, b in zip(found, expected))


operands = (x, w, start)
want = jax.grad(loss(by_scan), (0, 1, 2))(*operands)
subsets = [several for count in (1, 2, 3) for several in itertools.combinations(range(3), count)]
parts_of_want = {by: [want[at] for at in by] for by in subsets}
back_and_forth = [*subsets, *reversed(subsets), *subsets]
for name, function in ways.items():
    slopes = {by: jax.grad(loss(function), by) for by in subsets}
    wrong = [(a, b) for a, b in itertools.combinations(subsets, 2) for by in (a, b, a)
             if not is_close(slopes[by](*operands), parts_of_want[by])]
    check(f"{name}, gradients: wrong in the orders {wrong}", not wrong)
    found = jax.jit(lambda *o: [slopes[by](*o) for by in back_and_forth])(*operands)
    wrong = [by for by, one in zip(back_and_forth, found) if not is_close(one, parts_of_want[by])]
    check(f"{name}, gradients in a jit: wrong {wrong}", not wrong)

# The results that have a cotangent, in such orders.
used = {(0,): lambda y, h: (y * y).sum(), (1,): lambda y, h: (h * h).sum(), (0, 1): lambda y, h: (y * y).sum() + (h * h).sum()}


def slopes_by(function):
    return {by: jax.grad(lambda *o: used[by](*function(*o)), (0, 1, 2)) for by in used}


parts_of_want = {by: slope(*operands) for by, slope in slopes_by(by_scan).items()}
for name, function in ways.items():
    slopes = slopes_by(function)
    wrong = [(a, b) for a, b in itertools.permutations(used, 2) for by in (a, b, a)
             if not is_close(slopes[by](*operands), parts_of_want[by])]
    check(f"{name}: wrong by the results {wrong}", not wrong)

# Only the gradients that are asked for are computed: the attribute of the call has their positions.
for by in subsets:
    text = jax.jit(jax.grad(loss(whole), by)).lower(*operands).as_text()
    found = re.search(r"faded\.backward\..*?results = dense<\[?([0-9, ]+)", text)[1]
    check(f"gradients {by}: computed {found}", found == ", ".join(str(6 + at) for at in by))

# ---- other ways to differentiate -----------------------------------------------------------------------------------------------

shared = jax.jit(whole)
cotangents = tuple(jnp.asarray(rng.normal(size=y.shape)) for y in whole(*operands))
expected = jax.vjp(by_scan, *operands)[1](cotangents)
for name, function in (("plain", whole), ("jit", shared)):
    close(f"{name}: vjp by one operand", jax.vjp(lambda w: function(x, w, start), w)[1](cotangents), expected[1:2])
    close(f"{name}: vjp", jax.vjp(function, *operands)[1](cotangents), expected)
    values, pull = jax.vjp(lambda *o: function(*o)[0], *operands)  # hT_h is not used
    close(f"{name}: vjp of one result", pull(cotangents[0]),
          jax.vjp(lambda *o: by_scan(*o)[0], *operands)[1](cotangents[0]))
    zeros = (cotangents[0], jnp.zeros_like(start))
    close(f"{name}: a cotangent of zeros", jax.vjp(function, *operands)[1](zeros), pull(cotangents[0]))
    close(f"{name}: vjp twice", [pull(cotangents[0]), pull(2 * cotangents[0])],
          [pull(cotangents[0]), [2 * g for g in pull(cotangents[0])]])
    value, pull = jax.vjp(lambda *o: function(*o), *operands)
    close(f"{name}: vmap of a pullback", jax.vmap(pull)(tuple(jnp.stack([c, 3 * c]) for c in cotangents)),
          [jnp.stack([g, 3 * g]) for g in expected])
    close(f"{name}: jacrev", jax.jacrev(lambda w: function(x, w, start)[1])(w), jax.jacrev(lambda w: by_scan(x, w, start)[1])(w))
    close(f"{name}: value and grad, with aux", jax.value_and_grad(lambda *o: (loss(function)(*o), function(*o)), (0, 2), has_aux=True)(
        *operands), jax.value_and_grad(lambda *o: (loss(by_scan)(*o), by_scan(*o)), (0, 2), has_aux=True)(*operands))
    stopped = jax.grad(lambda *o: loss(function)(o[0], jax.lax.stop_gradient(o[1]), o[2]), (0, 1, 2))(*operands)
    close(f"{name}: stop_gradient", stopped, (want[0], jnp.zeros_like(w), want[2]))
    close(f"{name}: the same operand twice", jax.grad(lambda x: loss(function)(x, x[0, 0], x[:, 0]))(x),
          jax.grad(lambda x: loss(by_scan)(x, x[0, 0], x[:, 0]))(x))

# Offsets are whole numbers, whose gradient has the type float0.
offsets = jnp.asarray([0, 2, 6], jnp.int32)
row, starts = x[:1], start


def packed(row, w, starts, offsets):
    return sum((y * y).sum() for y in axes.faded(row, w, starts, cu_seqlens=offsets))


def apart(row, w, starts):
    return loss(by_scan)(row[:, :2], w, starts[:1]) + loss(by_scan)(row[:, 2:], w, starts[1:])


slopes = jax.grad(apart, (0, 1, 2))(row, w, starts)
for a, b in itertools.combinations(subsets, 2):
    for by in (a, b, a):
        found = jax.grad(packed, by)(row, w, starts, offsets)
        close(f"packed, {by} beside {a} and {b}", found, [slopes[at] for at in by])
found = jax.jit(jax.grad(packed, (0, 3), allow_int=True))(row, w, starts, offsets)
close("packed, by the offsets as well", found[:1], slopes[:1])
check("packed, float0 for the offsets", found[1].dtype == jax.dtypes.float0 and found[1].shape == (3,))
tried("packed, vjp by all", lambda: close("packed, vjp", jax.vjp(packed, row, w, starts, offsets)[1](1.0)[:3], slopes))

# No memory of operands that are given away is read after them.
def train(x, w, start):
    slope = jax.grad(loss(whole), 1)(x, w, start)
    return w - slope, *whole(x, w, start)


given = jax.jit(train, donate_argnums=(1, 2))(x, jnp.array(w), jnp.array(start))
close("operands that are given away", given, (w - want[1], *by_scan(*operands)))
abstract = jax.eval_shape(jax.grad(loss(whole), (0, 1, 2)), *(jax.ShapeDtypeStruct(o.shape, o.dtype) for o in operands))
check("eval_shape of a gradient", [a.shape for a in abstract] == [o.shape for o in operands])

# Derivatives forward, and second ones, are refused by name, whatever was traced before.
for what, use in (("jvp", lambda: jax.jvp(shared, operands, operands)), ("linearize", lambda: jax.linearize(shared, *operands)[1](*operands)),
                  ("jvp of one operand", lambda: jax.jvp(lambda w: shared(x, w, start), (w,), (w,))),
                  ("a second derivative", lambda: jax.grad(lambda w: jax.grad(loss(shared), 1)(x, w, start).sum())(w))):
    try:
        use()
        check(f"{what} is refused", False)
    except (NotImplementedError, TypeError) as mistake:
        check(f"{what} is refused: {mistake}", "faded: expected first derivatives" in str(mistake) or "custom_vjp" in str(mistake))
close("after these", jax.grad(loss(shared), (0, 1, 2))(*operands), want)

finish()
