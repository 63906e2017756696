"""Without PyTorch: the loop in NumPy beside the compiled recurrence, gradients beside differences."""
import numpy as np

from kernels_numpy.memory import memory, memory_backward


def loop(q, k, v, forget, write, bias):
    S, ys = np.zeros((*q.shape[:1], *q.shape[2:], v.shape[-1])), []
    for t in range(q.shape[1]):
        S = S / (1 + np.exp(-forget[:, t] - bias))[..., None, None]
        new = (v[:, t] - np.einsum("bhk,bhkv->bhv", k[:, t], S)) / (1 + np.exp(-write[:, t]))[..., None]
        S = S + k[:, t][..., None] * new[..., None, :]
        ys.append(np.einsum("bhk,bhkv->bhv", q[:, t], S))
    return np.stack(ys, 1)


random = np.random.default_rng(1)
operands = [random.normal(size=(2, 200, 2, 16)) for _ in "qkv"] + [random.normal(size=(2, 200, 2)) for _ in range(2)] + [np.full(2, 2.0)]
operands[1] /= np.linalg.norm(operands[1], axis=-1, keepdims=True)
y, _, saved = memory(*operands, save=True)
expected = loop(*operands)
errors = {"outputs": abs(y - expected).max() / abs(expected).max()}

d_y = random.normal(size=y.shape)
gradients = memory_backward(*operands, d_y=d_y, saved=saved)
for at, name in enumerate(("q", "k", "v", "forget", "write", "bias")):
    along = random.normal(size=operands[at].shape)
    ends = [loop(*operands[:at], operands[at] + sign * 1e-6 * along, *operands[at + 1:]) for sign in (-1, 1)]
    slope = ((ends[1] - ends[0]) * d_y).sum() / 2e-6
    errors[f"slope along {name}"] = abs((gradients[at] * along).sum() - slope) / abs(slope)
for name, error in errors.items():
    print(f"  {name:28s}{error:.1e}")
    assert error < (1e-12 if name == "outputs" else 1e-6), "the .rec file says something else"
