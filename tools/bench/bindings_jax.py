"""The measurements of tools/bench/bindings for JAX: `bindings_jax.py FOLDER`, where gla.py and empty.so lie."""
import functools
import os
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

sys.path.insert(0, sys.argv[1])


def first_calls(program):
    """The least milliseconds that the program prints, of several processes."""
    before = "import sys, time, jax; x = [jax.numpy.ones((1, 1, 1, 8))] * 4; sys.path[:0] = sys.argv[1:];"
    words = [sys.executable, "-c", before + program, sys.argv[1], os.path.dirname(os.path.abspath(__file__))]
    runs = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.split() for _ in range(5)]
    return [1e3 * min(float(x) for x in row) for row in zip(*runs)]


floor, = first_calls("from xla_empty import empty; t = time.perf_counter(); jax.block_until_ready(empty(sys.argv[1])(*x));"
                     "print(time.perf_counter() - t)")
imported, first = first_calls("t = time.perf_counter(); import gla; print(time.perf_counter() - t);"
                              "t = time.perf_counter(); gla.gla(*x).y.block_until_ready(); print(time.perf_counter() - t)")
print(f"import, JAX being there     {imported:6.1f} ms")
print(f"first call, with XLA's part {first:6.1f} ms")
print(f"that of an empty handler    {floor:6.1f} ms")

import gla  # noqa: E402
from xla_empty import empty  # noqa: E402


def least(what, use, calls=20, runs=1000, unit=1e6):
    best = 1e9
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(calls):
            found = use()
        jax.block_until_ready(found)
        best = min(best, (time.perf_counter() - start) / calls)
    print(f"{what:27} {unit * best:6.1f} {'us' if unit == 1e6 else 'ms'}")


random = np.random.default_rng(1)


def draw(*shape):
    return jnp.asarray(random.normal(size=shape), jnp.float32)


def loss(function, *x):
    return function(*x)[0].sum()


given = [draw(1, 1, 1, 8) for _ in range(4)] + [draw(1, 1, 8, 8)]
tokens = [x[:, 0] for x in given[:4]]
slopes = jax.jit(jax.grad(functools.partial(loss, gla.gla), tuple(range(5))))
added = jax.jit(lambda x: x + x)
least("x + x under jit", lambda: added(given[0]))
least("an empty handler under jit", lambda f=empty(sys.argv[1]): f(*given))
least("call", lambda: gla.gla(*given))
least("call under jit", lambda f=jax.jit(gla.gla): f(*given))
least("step", lambda: gla.gla_step(*tokens, given[4]))
least("gradient under jit", lambda: slopes(*given))


def scan(q, k, v, gate):
    """The recurrence as JAX users write it."""
    def one(S, x):
        q, k, v, gate = x
        S = (jax.nn.sigmoid(gate) ** (1 / 16))[..., None] * S + k[..., None] * v[..., None, :]
        return S, q.shape[-1] ** -0.5 * (q[..., None] * S).sum(-2)

    S, y = jax.lax.scan(one, jnp.zeros((q.shape[0], *q.shape[2:], v.shape[-1])), tuple(jnp.moveaxis(x, 1, 0) for x in (q, k, v, gate)))
    return jnp.moveaxis(y, 0, 1), S


whole = [draw(1, 2048, 8, 8) for _ in range(4)]
for what, function in (("gla", gla.gla), ("lax.scan", scan)):
    least(f"{what}, 2048 steps of 8 heads", lambda f=jax.jit(function): f(*whole), 1, 20, 1e3)
    least(f"{what}, its gradient", lambda f=jax.jit(jax.grad(functools.partial(loss, function), (0, 1, 2, 3))): f(*whole), 1, 5, 1e3)
