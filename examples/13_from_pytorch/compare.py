"""The layer with the loop beside the one with the compiled recurrence: outputs, gradients, training, time."""
import time

import torch

from fast import FastMemory
from loop import Memory


def pair(dtype):
    torch.manual_seed(1)
    slow, fast = Memory().to(dtype), FastMemory().to(dtype)
    fast.load_state_dict(slow.state_dict())
    return slow, fast


def run(layer, x):
    y = layer(x)
    names, parameters = zip(*layer.named_parameters())
    gradients = torch.autograd.grad(y.square().mean(), parameters)
    return dict(zip(("outputs", *(f"gradient of {name}" for name in names)), (y.detach(), *gradients)))


def train(layer, x):
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    for _ in range(10):
        optimizer.zero_grad()
        loss = (layer(x)[:, 8:] - x[:, :-8]).square().mean()         # say what was 8 steps ago
        loss.backward()
        optimizer.step()
    return loss.detach()


def milliseconds(layer, x):
    """Of the processor: other programs do not count."""
    times = []
    for _ in range(4):
        start = time.process_time()
        run(layer, x)
        times.append(time.process_time() - start)
    return 1e3 * min(times)


slow, fast = pair(torch.float64)
x = torch.randn(2, 200, 32, dtype=torch.float64)
results = [run(layer, x) for layer in (slow, fast)]
results = [found | {"loss after ten steps": train(layer, x)} for layer, found in zip((slow, fast), results)]
print("largest difference, of the largest number")
for name, expected in results[0].items():
    error = float((results[1][name] - expected).abs().max() / expected.abs().max())
    print(f"  {name:28s}{error:.1e}")
    assert error < 1e-9, "the .rec file says something else"

torch.set_num_threads(1)
slow, fast = pair(torch.float32)
print("forward and backward, one thread")
for steps in (64, 256, 1024):
    x = torch.randn(2, steps, 32)
    loop, compiled = milliseconds(slow, x), milliseconds(fast, x)
    print(f"  {steps:4d} steps: loop {loop:.1f} ms, compiled {compiled:.1f} ms, {loop / compiled:.0f} times faster")
