"""Four sequences packed into one call, the same ones token by token, and a gradient checked by differences.

    recc ../02_from_c/memory.rec --dtype f64 -o memory.so
    python3 main.py
"""
import os
import sys

import numpy as np

from recurrence import Library

here = os.path.dirname(os.path.abspath(__file__))
memory = Library(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "memory.so")).recurrence("memory")
lengths, heads, keys, values = [3, 40, 0, 17], 3, 16, 16
offsets = np.concatenate([[0], np.cumsum(lengths)])
total, count = offsets[-1], len(lengths)
rng = np.random.default_rng(1)
tokens = {"q": rng.normal(size=(1, total, heads, keys)), "k": rng.normal(size=(1, total, heads, keys)),
          "v": rng.normal(size=(1, total, heads, values)), "gate": rng.normal(size=(1, total, heads, keys))}
mix = rng.normal(size=(heads, keys))
failures = 0


def check(what, error, allowed=1e-11):
    global failures
    failures += not error <= allowed
    print(f"{what:48} {error:.1e}{'' if error <= allowed else '  <- too much'}")


def error(a, b):
    return np.abs(a - b).max() / np.sqrt((b * b).mean())


# One call over all sequences.
whole = memory.forward(save=True, cu_seqlens=offsets, mix=mix, **tokens)
print(f"{count} sequences, {total} tokens in one call; y {whole['y'].shape}, hT.S {whole['hT.S'].shape}")

# The same ones token by token: at each step those that are not over. What a call returns is handed to the next.
state = {"h0__S": np.zeros((count, heads, keys, values)), "h0__k.lag": np.zeros((count, 1, heads, keys))}
y = np.empty_like(whole["y"])
for step in range(max(lengths)):
    on = [s for s in range(count) if step < lengths[s]]
    at = [offsets[s] + step for s in on]
    packed = np.concatenate([[0], np.cumsum([step < length for length in lengths])])
    one = memory.step(cu_seqlens=packed, mix=mix, **{name: value[:, at] for name, value in tokens.items()}, **state)
    y[:, at] = one["y"]
    state = {"h0__S": one["hT.S"], "h0__k.lag": one["hT.k.lag"]}
check("  outputs, token by token", error(y, whole["y"]))
check("  states, token by token", error(state["h0__S"], whole["hT.S"]))

# The gradient of sum(y^2) / 2, from what forward saved, and by differences.
gradient = memory.backward(saved=whole["saved"], cu_seqlens=offsets, mix=mix, d__y=whole["y"], **tokens)
for name, array in [("mix", mix), ("gate", tokens["gate"])]:
    direction = rng.normal(size=array.shape)
    sides = []
    for sign in (-1, 1):
        moved = dict(tokens, mix=mix)
        moved[name] = array + sign * 1e-5 * direction
        sides.append((memory.forward(cu_seqlens=offsets, **moved)["y"] ** 2).sum() / 2)
    slope = (sides[1] - sides[0]) / 2e-5
    check(f"  slope along {name}", abs((gradient["d." + name] * direction).sum() / slope - 1), 1e-7)

# A mistake is an exception with one line.
try:
    memory.forward(cu_seqlens=[0, 10, total + 1], mix=mix, **tokens)
except RuntimeError as mistake:
    print(f"a mistake: {mistake}")
sys.exit(failures != 0)
