"""One sequence on several processes of torch.distributed, each with a segment of it, beside one call over all steps.

    recc ../../stdlib/gla.rec --summary --dtype f64 -D gla.K=16 -D gla.V=16 -o gla.so
    torchrun --standalone --nproc-per-node 2 segments.py gla.so

Processes send each other summaries of their segments, and nothing else: what a segment does to any states before it, or to the
cotangents of those after it. Each then folds those of the others into what its own segment starts from.
"""
import os
import sys

import torch
import torch.distributed as dist

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(here, "..", "03_from_python"))
from recurrence import Library  # noqa: E402

dist.init_process_group("gloo")
rank, count = dist.get_rank(), dist.get_world_size()
gla = Library(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "gla.so")).recurrence("gla")
batch, steps, heads, keys, values = 2, 128 * count, 3, gla.axes["K"], gla.axes["V"]
torch.manual_seed(1)
sizes = {"q": keys, "k": keys, "v": values, "gate": keys}
tokens = {name: torch.randn(batch, steps, heads, size, dtype=torch.float64) for name, size in sizes.items()}
d_y = torch.randn(batch, steps, heads, values, dtype=torch.float64)
segment = slice(rank * 128, (rank + 1) * 128)


def all_gather(summary):
    """The summaries of all segments, in the order of time. Tensors of torch start at multiples of 64 bytes, as summaries must."""
    received = [torch.empty(summary.nbytes, dtype=torch.uint8) for _ in range(count)]
    dist.all_gather(received, torch.from_numpy(summary))
    return [one.numpy() for one in received]


# Forward: from the summaries before, the states that this segment starts from.
own = {name: x[:, segment].contiguous().numpy() for name, x in tokens.items()}
summaries = all_gather(gla.summary(**own))
h0 = gla.fold(summaries[:rank], batch=batch, axes={"H": heads})["hT.S"] if rank > 0 else None
forward = gla.forward(save=True, h0__S=h0, **own)

# Backward: from the summaries after, the cotangents of the states that it ends with.
own_d_y = d_y[:, segment].contiguous().numpy()
summaries = all_gather(gla.summary_backward(saved=forward["saved"], h0__S=h0, d__y=own_d_y, **own))
rest = summaries[rank + 1:]
d_hT = gla.fold(rest, backward=True, batch=batch, axes={"H": heads})["d.h0.S"] if rest else None
backward = gla.backward(saved=forward["saved"], h0__S=h0, d__y=own_d_y, d__hT__S=d_hT, **own)

# The same in one call.
whole = {name: x.numpy() for name, x in tokens.items()}
expected = gla.forward(save=True, **whole)
expected |= gla.backward(saved=expected["saved"], d__y=d_y.numpy(), **whole)
names = ["y"] + ["d." + name for name in tokens]
found = forward | backward
errors = torch.tensor([abs(found[name] - expected[name][:, segment]).max() / (expected[name] ** 2).mean() ** 0.5 for name in names])
dist.all_reduce(errors, dist.ReduceOp.MAX)
if rank == 0:
    print(f"{count} segments of 128 steps; a summary has {summaries[0].nbytes} bytes, the tokens of a segment {sum(x.nbytes for x in own.values())}")
    for name, error in zip(names, errors.tolist()):
        print(f"  {name:8} {error:.1e}{'' if error < 1e-12 else '  <- too much'}")
dist.destroy_process_group()
sys.exit(not bool((errors < 1e-12).all()))
