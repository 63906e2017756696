"""Times jitted scans of dense cells with their gradients: jax_cells.py CELL BATCH TIME prints the least milliseconds of a call.

With one thread processor time counts, which other programs do not disturb.
"""
import sys
import time

import jax
import jax.numpy as jnp
import numpy


def lstm(w, x, s):
    c, h = s
    u = x + jnp.einsum("gde,be->bgd", w["hh"], h) + w["bias"]
    i, f, g, o = (u[:, k] for k in range(4))
    c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
    h = jax.nn.sigmoid(o) * jnp.tanh(c)
    return (c, h), h


def gru(w, x, s):
    (h,) = s
    u = jnp.einsum("gde,be->bgd", w["hh"], h) + w["bias"]
    r, z = jax.nn.sigmoid(x[:, 0] + u[:, 0]), jax.nn.sigmoid(x[:, 1] + u[:, 1])
    h = (1 - z) * jnp.tanh(x[:, 2] + r * u[:, 2]) + z * h
    return (h,), h


def slstm(w, x, s):
    c, n, m, h = s
    u = x + jnp.einsum("hgde,bhe->bghd", w["hh"], h)
    i, f = u[:, 0], jax.nn.log_sigmoid(u[:, 1]) + m
    m = jnp.maximum(i, f)
    c = jnp.exp(f - m) * c + jnp.exp(i - m) * jnp.tanh(u[:, 2])
    n = jnp.exp(f - m) * n + jnp.exp(i - m)
    h = jax.nn.sigmoid(u[:, 3]) * c / jnp.maximum(n, 1)
    return (c, n, m, h), h


def blocks(w, x, s):
    h = jnp.einsum("hde,bhe->bhd", w["hh"], s[0]) + x
    return (h,), h


# the cell, axes of x, of the matrix, of the bias, of a state, how many states
CELLS = {
    "lstm": (lstm, (4, 128), (4, 128, 128), (4, 128), (128,), 2),
    "gru": (gru, (3, 128), (3, 128, 128), (3, 128), (128,), 1),
    "slstm": (slstm, (4, 4, 64), (4, 4, 64, 64), (), (4, 64), 4),
    "blocks": (blocks, (4, 64), (4, 64, 64), (), (4, 64), 1),
}


def main():
    name, batch, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    one = len(sys.argv) > 4
    cell, of_x, of_matrix, of_bias, of_state, states = CELLS[name]
    draw = numpy.random.default_rng(1)
    numbers = lambda *shape: jnp.asarray(draw.standard_normal(shape), dtype=jnp.float32)
    w = {"hh": 0.1 * numbers(*of_matrix), "bias": 0.1 * numbers(*of_bias)}
    x, target = numbers(steps, batch, *of_x), numbers(steps, batch, *of_state)
    start = tuple(numbers(batch, *of_state) for _ in range(states))

    def loss(w, x, start):
        end, y = jax.lax.scan(lambda s, row: cell(w, row, s), start, x)
        return jnp.sum(y * target) + sum(jnp.sum(e) for e in end)

    call = jax.jit(jax.value_and_grad(loss, argnums=(0, 1, 2)))
    clock = time.process_time if one else time.perf_counter
    jax.block_until_ready(call(w, x, start))
    least = float("inf")
    for _ in range(20):
        begin = clock()
        jax.block_until_ready(call(w, x, start))
        least = min(least, clock() - begin)
    print(f"{1000 * least:.2f}")


main()
