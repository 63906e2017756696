"""prepare: the kernels of a model, before it runs."""
import torch

from . import kernels, registry


def prepare(model, **inputs):
    """Compiles what model(**inputs) needs, all kernels at once; two tokens are the inputs, unless others are given.

    transformers' own functions compute it once, without gradients, and rec's say which kernels they would call.
    """
    if not registry.is_patched():
        raise RuntimeError("prepare: expected patch() before, found transformers' own functions")
    inputs = inputs or {"input_ids": torch.zeros(1, 2, dtype=torch.int64)}
    libraries = []
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        registry.ask(lambda: model(**inputs), lambda call: libraries.extend(kernels.needs(call)))
    kernels.together(*libraries)
