"""A layer as one writes it first: its recurrence is a loop over time in plain PyTorch."""
import torch
from torch.nn.functional import normalize


class Memory(torch.nn.Module):
    """A matrix for each head, which forgets, and corrects what it holds about a key."""

    def __init__(self, width: int = 32, heads: int = 2, size: int = 16):
        super().__init__()
        self.sizes = heads, size
        self.inward = torch.nn.Linear(width, heads * (3 * size + 2))
        self.outward = torch.nn.Linear(heads * size, width)
        self.bias = torch.nn.Parameter(torch.full((heads,), 2.0))

    def forward(self, x):
        heads, size = self.sizes
        rows = self.inward(x).unflatten(-1, (heads, 3 * size + 2))
        q, k, v, gates = rows.split([size, size, size, 2], -1)
        y = self.recurrence(q, normalize(k, dim=-1), v, gates[..., 0], gates[..., 1], self.bias)
        return self.outward(y.flatten(-2))

    def recurrence(self, q, k, v, forget, write, bias):
        S = q.new_zeros(q.shape[0], *q.shape[2:], v.shape[-1])      # [batch, H, K, V]
        ys = []
        for t in range(q.shape[1]):
            S = torch.sigmoid(forget[:, t] + bias)[..., None, None] * S
            held = torch.einsum("bhk,bhkv->bhv", k[:, t], S)
            new = torch.sigmoid(write[:, t])[..., None] * (v[:, t] - held)
            S = S + k[:, t][..., None] * new[..., None, :]
            ys.append(torch.einsum("bhk,bhkv->bhv", q[:, t], S))
        return torch.stack(ys, 1)
