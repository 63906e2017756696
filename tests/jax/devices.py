"""--emit=jax: calls over several devices.

    devices.py FOLDER [full]        FOLDER has what recc wrote for axes.rec, with f64

But for `full`, half of the layouts are tried, each on one kind of mesh, with or without what jax checks itself: REC_SEED says which.

Values and gradients are compared with scans of JAX on one device. Entries of batch, and heads, stay on the devices that have them.
Prints FAILED lines and `N passed, N failed`.
"""
import functools
import itertools
import os
import re
import sys
import time

os.environ["XLA_FLAGS"] = ("--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true "
                           "--xla_force_host_platform_device_count=4")

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec  # noqa: E402

from checks import check, finish, load, tried  # noqa: E402

axes = load(sys.argv[1], "axes")
rng = np.random.default_rng(11)
SIZES = {"b": 4, "t": 40, "e": 4, "h": 4, "k": 2}

# ---- recurrences -----------------------------------------------------------------------------------------------------------------


def faded(h, x, w):
    h = jax.nn.sigmoid(w) * h + x[0]
    return h, h * w + x[0]


def headed(S, x, decay, b):
    x, q = x
    S = jax.nn.sigmoid(decay)[:, None] * S + b * x
    return S, (q[:, None] * S).sum(-1)


def mixed(h, x, w):
    h = jax.nn.sigmoid(w) * h + x[0]
    return h, h * x[0].sum(-1, keepdims=True)


# A step, the axes of operands, those of results.
CASES = {"faded": (faded, ("bte", "e", "be"), ("bte", "be")),
         "headed": (headed, ("bthk", "btk", "h", "k", "bhk"), ("bth", "bhk")),
         "mixed": (mixed, ("btk", "k", "bk"), ("btk", "bk"))}


def by_scan(name, *operands):
    step, letters, _ = CASES[name]
    tokens = [x for x, own in zip(operands, letters) if "t" in own]
    state, ys = jax.lax.scan(lambda state, x: step(state, x, *operands[len(tokens):-1]), operands[-1],
                             tuple(jnp.moveaxis(x, 1, 0) for x in tokens))
    return jnp.moveaxis(ys, 0, 1), state


def library(name, *operands):
    return tuple(getattr(axes, name)(*operands))


def by_step(name, *operands):
    _, letters, _ = CASES[name]
    tokens = [x for x, own in zip(operands, letters) if "t" in own]

    def one(state, x):
        y, state = getattr(axes, name + "_step")(*x, *operands[len(tokens):-1], state)
        return state, y

    state, ys = jax.lax.scan(one, operands[-1], tuple(jnp.moveaxis(x, 1, 0) for x in tokens))
    return jnp.moveaxis(ys, 0, 1), state


def draw(own, sizes=SIZES):
    return jnp.asarray(rng.normal(size=[sizes[axis] for axis in own]))


def loss(function):
    return lambda *operands: sum((y * y).sum() for y in function(*operands))


def slopes(function, count):
    return jax.grad(loss(function), tuple(range(count)))


def both(function):
    return lambda *operands: (function(*operands), slopes(function, len(operands))(*operands))


def close(what, use, expected):
    """Compares what a function returns."""
    def compare():
        found, wanted = jax.tree.leaves(use()), jax.tree.leaves(expected)
        wrong = [at for at, (a, b) in enumerate(zip(found, wanted)) if a.shape != b.shape or not np.allclose(a, b, 1e-12, 1e-12)]
        check(f"{what}: results {wrong} of {len(found)} are wrong, expected {len(wanted)}", not wrong and len(found) == len(wanted))

    tried(what, compare)


CALLS = {name: functools.partial(library, name) for name in CASES}
OPERANDS = {name: tuple(map(draw, letters)) for name, (_, letters, _) in CASES.items()}
WANT = {name: jax.jit(both(functools.partial(by_scan, name)))(*OPERANDS[name]) for name in CASES}

# ---- jit over a mesh -------------------------------------------------------------------------------------------------------------
# A layout says which axes of the mesh share an axis of tensors: {"b": "d"}.

turns = itertools.count(int(os.environ.get("REC_SEED") or time.time()))


def some(of):
    return list(of) if sys.argv[2:] else [list(of)[next(turns) % len(of)]]


TWO = {kind: Mesh(np.array(jax.devices()[:2]), ("d",), axis_types=(kind,)) for kind in (AxisType.Auto, AxisType.Explicit)}
FOUR = {kind: Mesh(np.array(jax.devices()).reshape(2, 2), ("d", "m"), axis_types=(kind, kind)) for kind in TWO}


def spec(own, layout):
    return PartitionSpec(*(layout.get(axis) for axis in own))


def place(mesh, operands, letters, layout):
    return [jax.device_put(x, NamedSharding(mesh, spec(own, layout))) for x, own in zip(operands, letters)]


def moves(compiled):
    """How often a compiled program moves parts of arrays between devices, or asks at run time."""
    text = compiled.as_text()
    words = ("all-gather", "all-to-all", "collective-permute", "reduce-scatter", "conditional")
    return {word: count for word in words if (count := len(re.findall(rf"\b{word}(?:-start)?\(", text)))}


def compiled_alone(what, function, operands, expected):
    """The results of a compiled program, which must not move parts of arrays."""
    found = []

    def use():
        program = jax.jit(function).lower(*operands).compile()
        check(f"{what}: {moves(program)}", not moves(program))
        found.append(program(*operands))
        return found

    close(what, use, expected)
    return found


def is_placed(mesh, arrays, letters, layout):
    return all(x.sharding.is_equivalent_to(NamedSharding(mesh, spec(own, layout)), x.ndim) for x, own in zip(arrays, letters))


def over_mesh(name, mesh, layout):
    _, letters, out = CASES[name]
    what = f"{name}, {mesh.axis_types[0].name}, {layout}"
    for values, gradients in compiled_alone(what, both(CALLS[name]), place(mesh, OPERANDS[name], letters, layout), WANT[name]):
        check(f"{what}: results are shared out", is_placed(mesh, values, out, layout))
        check(f"{what}: gradients are shared out", is_placed(mesh, gradients, letters, layout))


layouts = {"faded": ({"b": "d"}, {"e": "d"}, {"b": "d", "e": "m"}, {"b": ("d", "m")}, {"e": ("m", "d")}, {}),
           "headed": ({"b": "d"}, {"h": "d"}, {"b": "m", "h": "d"}), "mixed": ({"b": "d"}, {"b": ("d", "m")})}
for name, several in layouts.items():
    for layout in several if sys.argv[2:] else several[next(turns) % 2::2]:
        for kind in some(TWO):
            over_mesh(name, (FOUR if "m" in str(layout) else TWO)[kind], layout)

# ---- less of a layout ------------------------------------------------------------------------------------------------------------


for name in ("faded", "headed"):
    letters = CASES[name][1]
    for layout in ({"b": "d"}, {"e": "d", "h": "d"}):
        for mesh in some(TWO.values()):
            for alone in some((0, -1)):
                placed = place(mesh, OPERANDS[name], letters, {})
                placed[alone], = place(mesh, [OPERANDS[name][alone]], [letters[alone]], layout)
                close(f"{name}, {mesh.axis_types[0].name}: {layout} of {letters[alone]} alone", lambda: jax.jit(both(CALLS[name]))(*placed),
                      WANT[name])

auto = TWO[AxisType.Auto]
letters = CASES["headed"][1]
by_batch, by_heads = ({kind: place(mesh, OPERANDS["headed"], letters, layout) for kind, mesh in TWO.items()}
                      for layout in ({"b": "d"}, {"h": "d"}))

# Operands that lie in different ways.
mixed_up = [batch if at % 2 else heads for at, (batch, heads) in enumerate(zip(by_batch[AxisType.Auto], by_heads[AxisType.Auto]))]
close("operands by batch and by heads", lambda: jax.jit(both(CALLS["headed"]))(*mixed_up), WANT["headed"])
three = [x[:3] if "b" in own else x for x, own in zip(OPERANDS["headed"], letters)]


def by_uneven_batch(*operands):
    return both(CALLS["headed"])(*(jax.lax.with_sharding_constraint(x, NamedSharding(auto, spec(own, {"b": "d"})))
                                   for x, own in zip(operands, letters)))


close("three batch entries on two devices", lambda: jax.jit(by_uneven_batch)(*three),
      jax.jit(both(functools.partial(by_scan, "headed")))(*three))

# Without jit, forward and backward are programs of their own, between which what is saved may be laid out anew.
for kind, mesh in some(TWO.items()):
    with jax.set_mesh(mesh):
        for by, placed in (("batch", by_batch[kind]), ("heads", by_heads[kind])):
            close(f"{kind.name}: no jit, by {by}", lambda: both(CALLS["headed"])(*placed), WANT["headed"])


def apart(then):
    values, pull = jax.jit(lambda *operands: jax.vjp(CALLS["headed"], *operands))(*by_heads[AxisType.Auto])
    pull = jax.tree.map(lambda x: jax.device_put(x, NamedSharding(auto, then(x))), pull)
    return values, jax.jit(lambda pull, values: pull(jax.tree.map(lambda y: 2 * y, values)))(pull, values)


close("backward on whole arrays", lambda: apart(lambda x: PartitionSpec()), WANT["headed"])
close("backward by batch", lambda: apart(lambda x: PartitionSpec("d" if x.ndim and x.shape[0] == SIZES["b"] else None)), WANT["headed"])


def layers(function):
    """A loop of layers, whose forwards are computed again."""
    def one(x, layer):
        return jax.checkpoint(lambda x, w: function(x, w, OPERANDS["faded"][2])[0])(x, layer), None

    return lambda x, w: (jax.lax.scan(one, x, jnp.stack([w, w / 2, -w]))[0],)


want = jax.jit(both(layers(functools.partial(by_scan, "faded"))))(*OPERANDS["faded"][:2])
for layout in ({"b": "d"}, {"e": "d"}):
    for mesh in some(TWO.values()):
        close(f"layers, {mesh.axis_types[0].name}, {layout}", lambda: jax.jit(both(layers(CALLS["faded"])))(
            *place(mesh, OPERANDS["faded"][:2], CASES["faded"][1], layout)), want)

# Steps; their gradients.
for layout in ({"b": "d"}, {"h": "d"}):
    for kind, mesh in some(TWO.items()):
        placed = place(mesh, OPERANDS["headed"], letters, layout)
        compiled_alone(f"steps, {kind.name}, {layout}", functools.partial(by_step, "headed"), placed, WANT["headed"][0])
        close(f"gradients of steps, {kind.name}, {layout}", lambda: jax.jit(slopes(functools.partial(by_step, "headed"), 5))(*placed),
              WANT["headed"][1])

# Packed sequences lie behind one another in one batch entry: heads are shared, time is not.
offsets = np.array([0, 7, 7, 40], np.int32)
row = [draw(own, SIZES | {"b": 3 if own == "be" else 1}) for own in CASES["faded"][1]]


def packed(*operands):
    return tuple(axes.faded(*operands, cu_seqlens=offsets))


want = jax.jit(both(packed))(*row)
for mesh in some(TWO.values()):
    compiled_alone(f"packed, {mesh.axis_types[0].name}", both(packed), place(mesh, row, CASES["faded"][1], {"e": "d"}), want)

# ---- vmap ------------------------------------------------------------------------------------------------------------------------
# "v" is the axis of vmap.

for name, mapped in (("headed", (0, 0, None, None, 0)), ("headed", (0, None, 0, 0, None)), ("faded", (0, 0, 0))):
    _, letters, _ = CASES[name]
    own = ["v" * (axis == 0) + one for axis, one in zip(mapped, letters)]
    operands = [draw(one, SIZES | {"v": 2}) for one in own]
    want = jax.jit(both(jax.vmap(functools.partial(by_scan, name), mapped)))(*operands)
    for layout in ({"v": "d"}, {"b": "d"}, {"e": "d", "h": "d"}):
        for mesh in some(TWO.values()):
            compiled_alone(f"vmap over {mapped}, {name}, {mesh.axis_types[0].name}, {layout}", both(jax.vmap(CALLS[name], mapped)),
                           place(mesh, operands, own, layout), want)

# ---- shard_map, pmap -------------------------------------------------------------------------------------------------------------


def shared(function, mesh, letters, out, layout, **more):
    return jax.shard_map(function, mesh=mesh, in_specs=tuple(spec(own, layout) for own in letters),
                         out_specs=tuple(spec(own, layout) for own in out), **more)


for name, layout in (("faded", {"b": "d"}), ("faded", {"e": "d"}), ("headed", {"b": "d"}), ("headed", {"h": "d"}),
                     ("headed", {"b": "d", "h": "m"}), ("mixed", {"b": "d"})):
    _, letters, out = CASES[name]
    mesh = (FOUR if "m" in layout.values() else TWO)[AxisType.Auto]
    for checked in some((True, False)):
        function = shared(CALLS[name], mesh, letters, out, layout, check_vma=checked)
        compiled_alone(f"shard_map, {name}, {layout}, check_vma = {checked}", both(function),
                       place(mesh, OPERANDS[name], letters, layout), WANT[name])
        close(f"shard_map without jit, {name}, {layout}, check_vma = {checked}", lambda: both(function)(*OPERANDS[name]), WANT[name])
    close(f"shard_map of gradients, {name}, {layout}", lambda: jax.jit(shared(
        slopes(CALLS[name], len(letters)), mesh, letters, letters, layout))(*OPERANDS[name]), WANT[name][1])

_, letters, out = CASES["headed"]
for kind, mesh in some(FOUR.items()):
    close(f"shard_map over one of two axes, {kind.name}", lambda: jax.jit(both(shared(
        CALLS["headed"], mesh, letters, out, {"b": "d"}, axis_names={"d"})))(*place(
            mesh, OPERANDS["headed"], letters, {"b": "d", "h": "m"})), WANT["headed"])
steps = shared(functools.partial(by_step, "headed"), auto, letters, out, {"b": "d"})
close("shard_map of steps", lambda: jax.jit(both(steps))(*OPERANDS["headed"]), WANT["headed"])


def by_pmap(function):
    """Batch entries of two devices: [2, batch / 2, ..]."""
    batched = tuple(0 if "b" in own else None for own in letters)

    def over_parts(*operands):
        parts = [x if axis is None else x.reshape(2, -1, *x.shape[1:]) for x, axis in zip(operands, batched)]
        return jax.pmap(function, in_axes=batched, devices=jax.devices()[:2])(*parts)

    return over_parts


def joined(parts):
    return tuple(y.reshape(-1, *y.shape[2:]) for y in parts)


def gradients_by_pmap(*operands):
    parts = by_pmap(slopes(CALLS["headed"], len(letters)))(*operands)
    return tuple(joined([g])[0] if "b" in own else g.sum(0) for g, own in zip(parts, letters))


close("pmap, gradient of it", lambda: both(lambda *x: joined(by_pmap(CALLS["headed"])(*x)))(*OPERANDS["headed"]), WANT["headed"])
close("pmap of gradients", lambda: gradients_by_pmap(*OPERANDS["headed"]), WANT["headed"][1])

finish()
