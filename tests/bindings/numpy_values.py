"""--emit=numpy against loops written out in NumPy, against itself token by token, and against differences.

    numpy_values.py FOLDER       which has what recc wrote for recurrences.rec in f64, f32, f16, bf16: f64/recurrences.py, ..;
                                 all/recurrences.py has f64, f32 and bf16, and K = 4 and 6

Prints FAILED lines and `N passed, N failed`.
"""
import inspect
import os
import sys
import threading

import numpy as np

from checks import check, finish, load


def error(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return np.inf if a.shape != b.shape else 0 if a.size == 0 else np.abs(a - b).max() / max(np.sqrt((b * b).mean()), 1e-30)


def close(what, a, b, bound=1e-12):
    check(f"{what}: error {error(a, b):.1e}, at most {bound:.0e}", error(a, b) <= bound)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gla(q, k, v, gate, h0):
    S, ys = h0.copy(), []
    for t in range(q.shape[1]):
        S = (sigmoid(gate[:, t]) ** (1 / 16))[..., None] * S + k[:, t][..., None] * v[:, t][:, :, None]
        ys.append(q.shape[-1] ** -0.5 * (q[:, t][..., None] * S).sum(2))
    return np.stack(ys, 1) if ys else np.zeros(q.shape[:3] + v.shape[-1:]), S


rng = np.random.default_rng(3)
f64, f32, f16, bf16 = (load(os.path.join(sys.argv[1], dtype)) for dtype in ("f64", "f32", "f16", "bf16"))


def operands(B, T, H=3, K=4, V=5):
    return [rng.normal(size=(B, T, H, n)) for n in (K, K, V, K)]


given, h0 = operands(2, 37), rng.normal(size=(2, 3, 4, 5))
y, S = gla(*given, h0)
whole = f64.gla(*given, h0_S=h0, save=True)
close("gla y", whole.y, y)
close("gla hT", whole.hT_S, S)
for module, dtype, bound in [(f32, np.float32, 2e-6), (f16, np.float16, 2e-2)]:
    narrow = module.gla(*(x.astype(dtype) for x in given), h0_S=h0.astype(np.float32))
    check(f"gla {dtype.__name__}: types of results", narrow.y.dtype == dtype and narrow.hT_S.dtype == np.float32)
    close(f"gla {dtype.__name__}", narrow.y, y, bound)
every = load(os.path.join(sys.argv[1], "all"))
check("a variant gives what it gives alone", np.array_equal(every.gla(*given, h0_S=h0).y, whole.y))
single = [x.astype(np.float32) for x in given]
check("a variant of f32", np.array_equal(every.gla(*single).y, f32.gla(*single).y))
six, six_h0 = [rng.normal(size=(2, 37, 3, n)) for n in (6, 6, 5, 6)], rng.normal(size=(2, 3, 6, 5))
six_y, six_S = gla(*six, six_h0)
found = every.gla(*six, h0_S=six_h0, save=True)
close("a variant of another size, y", found.y, six_y)
close("a variant of another size, hT", found.hT_S, six_S)
close("a step of it", every.gla_step(*(x[:, 0] for x in six), h0_S=six_h0).y, six_y[:, 0])
gradients = every.gla_backward(*six, h0_S=six_h0, d_y=np.ones_like(found.y), saved=found.saved)
check("its gradients", gradients.d_q.shape == (2, 37, 3, 6) and np.isfinite(gradients.d_q).all() and gradients.d_q.any())
bits = [(x.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for x in given]
narrow = bf16.gla(*bits, h0_S=h0.astype(np.float32))
check("bfloat16, as bits, among variants", np.array_equal(every.gla(*bits, h0_S=h0.astype(np.float32)).y, narrow.y))
close("gla bfloat16, as bits", (narrow.y.astype(np.uint32) << 16).view(np.float32), y, 6e-2)

# Strides: steps of a longer array, and axes that only a copy can bring into order.
wide = np.zeros((2, 80, 3, 4))
wide[:, 1:75:2] = given[0]
order = [np.ascontiguousarray(x.transpose(3, 2, 1, 0)).transpose(3, 2, 1, 0) for x in given]
close("every second step", f64.gla(wide[:, 1:75:2], *given[1:], h0_S=h0).y, y)
close("axes in another order", f64.gla(*order, h0_S=h0.transpose(0, 1, 3, 2).copy().transpose(0, 1, 3, 2)).y, y)
close("steps backwards", f64.gla(*(x[:, ::-1].copy()[:, ::-1] for x in given), h0_S=h0).y, y)
one = rng.normal(size=(1, 1, 3, 4))
spread = np.broadcast_to(one, (2, 37, 3, 4))
close("expanded", f64.gla(spread, *given[1:], h0_S=h0).y, gla(spread, *given[1:], h0)[0])

# Token by token, empty calls, packed sequences.
state, ys = h0, []
for t in range(37):
    step = f64.gla_step(*(x[:, t] for x in given), h0_S=state)
    state = step.hT_S
    ys.append(step.y)
close("token by token, y", np.stack(ys, 1), y)
close("token by token, hT", state, S)
empty = f64.gla(*operands(2, 0), h0_S=h0)
check("no steps", empty.y.shape == (2, 0, 3, 5) and np.array_equal(empty.hT_S, h0))
check("no batch", f64.gla(*operands(0, 7)).y.shape == (0, 7, 3, 5))
offsets = [0, 5, 5, 36, 37]
row = [x[:1] for x in given]
starts = rng.normal(size=(4, 3, 4, 5))
packed = f64.gla(*row, h0_S=starts, cu_seqlens=offsets, save=True)
for i, (a, b) in enumerate(zip(offsets, offsets[1:])):
    want, last = gla(*(x[:, a:b] for x in row), starts[i:i + 1])
    close(f"packed sequence {i}, y", packed.y[:, a:b], want)
    close(f"packed sequence {i}, hT", packed.hT_S[i:i + 1], last)


# Gradients against differences, of every operand.
def slopes(name, function, backward, arguments, **more):
    result = function(**arguments, **more, save=True)
    words = [word for word in inspect.signature(backward).parameters if word.startswith("d_")]
    cotangents = {word: rng.normal(size=value.shape) for word, value in zip(words, result)}

    def loss(given):
        found = function(**given, **more)
        return sum((cotangent * value).sum() for cotangent, value in zip(cotangents.values(), found))

    for how, saved in (("saved", result.saved), ("computed again", None)):
        gradients = backward(**arguments, **cotangents, **more, saved=saved)
        for at, (word, value) in enumerate(arguments.items()):
            direction = rng.normal(size=value.shape)
            sides = [loss({**arguments, word: value + sign * 1e-5 * direction}) for sign in (-1, 1)]
            slope, got = (sides[1] - sides[0]) / 2e-5, (gradients[at] * direction).sum()
            check(f"{name}, {how}: gradient by {word}: {got} against {slope}", abs(got - slope) <= 1e-6 * max(abs(slope), 1))


names = dict(zip(("q", "k", "v", "gate"), given))
slopes("gla", f64.gla, f64.gla_backward, {**names, "h0_S": h0})
slopes("packed", f64.gla, f64.gla_backward, {**dict(zip(names, row)), "h0_S": starts}, cu_seqlens=offsets)
words = {word: rng.normal(size=shape) for word, shape in [
    ("class_", (2, 9, 3)), ("is_", (2, 9, 3, 2)), ("len_", (3,)), ("from_", (9,)), ("h0_self", (2, 3, 2)),
    ("h0_turned", (2, 3, 2)), ("h0_print", (2, 9)), ("h0_class_lag", (2, 3, 3))]}
slopes("words of Python", f64.words, f64.words_backward, words)
check("docstrings", f64.words.__doc__.startswith('What a Python file must get right: words of Python, a "quoted" \\ doc'))

# Threads of Python side by side, each with its own workspace.
got = [None] * 4
threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, [f64.gla(*given, h0_S=h0).y for _ in range(20)])) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
check("four threads", all(np.array_equal(x, whole.y) for several in got for x in several))

# A child process.
child = os.fork()
if child == 0:
    os._exit(int(error(f64.gla(*given, h0_S=h0).y, y) > 1e-12))
check("after fork", os.waitpid(child, 0)[1] == 0)

finish()
