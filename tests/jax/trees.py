"""--emit=jax: trees of bfloat16 parameters, whose gradients and steps have the parameters' types.

    trees.py FOLDER       which has what recc wrote for axes.rec, with f32 and bf16

Each is compared with a scan of JAX over float32. Prints FAILED lines and `N passed, N failed`.
"""
import os
import sys

os.environ["XLA_FLAGS"] = "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true"

import jax  # noqa: E402

jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402

from checks import check, finish, load  # noqa: E402

axes = load(sys.argv[1], "axes")
rng = np.random.default_rng(8)
H, K, LAYERS = 3, 2, 2
ROUNDING = 2.0**-8  # of bfloat16


def draw(*shape):
    return jnp.asarray(0.5 * rng.normal(size=shape), jnp.bfloat16)


def of_type(dtype, tree):
    return jax.tree.map(lambda leaf: leaf.astype(dtype), tree)


def types(tree):
    return {str(leaf.dtype) for leaf in jax.tree.leaves(tree)}


def apart(found, expected):
    """The largest distance of a leaf by its norm."""
    pairs = zip(jax.tree.leaves(of_type(jnp.float32, found)), jax.tree.leaves(of_type(jnp.float32, expected)))
    return max(float(jnp.linalg.norm(a - b) / jnp.linalg.norm(b)) for a, b in pairs)


layers = [{"faded": {"w": draw(H * K)}, "headed": (draw(H), draw(K)), "mix": draw(H, H * K)} for _ in range(LAYERS)]
parameters = {"layers": layers, "out": draw(H * K)}
tokens = draw(2, 7, H * K)


def by_rec(layer, x):
    y = axes.faded(x, layer["faded"]["w"]).y.reshape(*x.shape[:2], H, K)
    return axes.headed(y, x[..., :K], *layer["headed"]).y


def by_scan(layer, x):
    w, (decay, b) = layer["faded"]["w"], layer["headed"]

    def step(states, x):
        h, S = states
        h = jax.nn.sigmoid(w) * h + x
        S = jax.nn.sigmoid(decay)[:, None] * S + b * (h * w + x).reshape(-1, H, K)
        return (h, S), (x[:, None, :K] * S).sum(-1)

    start = jnp.zeros_like(x[:, 0]), jnp.zeros((x.shape[0], H, K), x.dtype)
    return jnp.moveaxis(jax.lax.scan(step, start, jnp.moveaxis(x, 1, 0))[1], 0, 1)


def loss_by(recurrences):
    def loss(tree, x):
        for layer in tree["layers"]:
            x = x + recurrences(layer, x) @ layer["mix"]
        return jnp.square((x * tree["out"]).astype(jnp.float32)).mean()
    return loss


exact = jax.grad(loss_by(by_scan))(of_type(jnp.float32, parameters), tokens.astype(jnp.float32))
slopes = {"grad": jax.grad(loss_by(by_rec)), "jit": jax.jit(jax.grad(loss_by(by_rec)))}
for name, slope in slopes.items():
    found = slope(of_type(jnp.float32, parameters), tokens.astype(jnp.float32))
    check(f"{name} of float32: gradients of {types(found)}", types(found) == {"float32"})
    check(f"{name} of float32: apart by {apart(found, exact):.1g}", apart(found, exact) <= 1e-5)
    found = slope(parameters, tokens)
    check(f"{name} of bfloat16: the same tree", jax.tree.structure(found) == jax.tree.structure(parameters))
    check(f"{name} of bfloat16: gradients of {types(found)}", types(found) == {"bfloat16"})
    # Several values of this type lie between a parameter and the loss.
    check(f"{name} of bfloat16: apart by {apart(found, exact):.2g}", apart(found, exact) <= 4 * ROUNDING)

# Tokens of float32 beside parameters of bfloat16: nothing is rounded but the parameters, and once the gradient.
layer, wide = parameters["layers"][0], tokens.astype(jnp.float32)
found, expected = ((jax.jit(jax.grad(lambda layer: jnp.square(by_rec(layer, wide)).sum()))(of_type(dtype, layer)))
                   for dtype in (jnp.bfloat16, jnp.float32))
for part in ("faded", "headed"):
    same = jax.tree.map(lambda a, b: bool((a == b.astype(jnp.bfloat16)).all()), found[part], expected[part])
    check(f"{part}: a gradient is that of float32, rounded: {same}", all(jax.tree.leaves(same)) and types(found[part]) == {"bfloat16"})


@jax.jit
def train(tree, x):
    loss, gradient = jax.value_and_grad(loss_by(by_rec))(tree, x)
    return jax.tree.map(lambda leaf, slope: leaf - 0.5 * slope, tree, gradient), loss


losses, trained = [], parameters
for _ in range(20):
    trained, loss = train(trained, tokens)
    losses.append(float(loss))
check(f"steps keep {types(trained)}", types(trained) == {"bfloat16"})
check(f"and lower the loss from {losses[0]:.3g} to {losses[-1]:.3g}", losses[-1] < 0.25 * losses[0])
stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parameters["layers"])


def scanned(tree, x):
    x, _ = jax.lax.scan(lambda x, layer: (x + by_rec(layer, x) @ layer["mix"], None), x, tree)
    return jnp.square((x * parameters["out"]).astype(jnp.float32)).mean()


found = jax.jit(jax.grad(scanned))(stacked, tokens)
want = jax.tree.map(lambda *leaves: jnp.stack(leaves), *slopes["jit"](parameters, tokens)["layers"])
check(f"layers in a scan: gradients of {types(found)}", types(found) == {"bfloat16"})
check(f"layers in a scan: apart by {apart(found, want):.2g}", apart(found, want) <= 2 * ROUNDING)
finish()
