"""FSDP2 around a module of rec: two processes of gloo on the CPU, parameters sharded, the forward in bfloat16.

    sharded.py

One step of training is that of the whole model in one process on the whole batch. Prints FAILED lines and `N passed, N failed`.
"""
import os
import sys
import tempfile
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
warnings.filterwarnings("ignore")

import torch
import torch.distributed
import torch.nn.functional as F
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import rec_lang

RANKS, RATE = 2, 0.1
# Gradients of a parameter, apart by the norm: a product of bfloat16 errs by 2^-9, and two ranks sum half of the batch each.
BOUND = 2e-2
passed = failed = 0


def check(what, good):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED frameworks/sharded: {what}", flush=True)


def made():
    """The model, and a head of torch's own behind it, the same in each process."""
    small = rec_lang.compile(os.path.join(ROOT, "tests", "bindings", "small.rec"), "torch", dtype=("f32", "bf16"),
                             target="x86-64-v2", options=["-O1"])
    torch.manual_seed(3)

    class Headed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = small.Small()
            self.head = torch.nn.Linear(256, 64)

        def forward(self, tokens):
            return self.head(self.body(tokens)[0])

    return Headed()


def batch():
    draw = torch.Generator().manual_seed(4)
    return torch.randint(256, (4, 24), generator=draw), torch.randint(64, (4, 24), generator=draw)


def loss_of(logits, targets):
    return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())


def whole(forward_type):
    """Gradients and parameters of a step in one process, whose forward sees parameters of this type."""
    model, (tokens, targets) = made(), batch()
    seen = {name: parameter.to(forward_type) for name, parameter in model.named_parameters()}
    loss_of(torch.func.functional_call(model, seen, (tokens,)), targets).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    torch.optim.SGD(model.parameters(), lr=RATE).step()
    return gradients, {name: parameter.detach() for name, parameter in model.named_parameters()}


def rank_step(rank, folder, forward_type):
    """One rank's part; rank 0 writes what it has seen."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=RANKS)
    model, (tokens, targets) = made(), batch()
    policy = MixedPrecisionPolicy(param_dtype=forward_type)
    fully_shard(model.body, mp_policy=policy)
    fully_shard(model, mp_policy=policy)
    forward_types, seen = set(), []
    body = model.body
    body.register_forward_pre_hook(lambda *_: forward_types.update(parameter.dtype for parameter in body.parameters()))
    body.register_forward_hook(lambda module, given, result: seen.append(result[0].dtype))
    logits = model(tokens.chunk(RANKS)[rank])
    loss_of(logits, targets.chunk(RANKS)[rank]).backward()
    shards = [parameter.grad.to_local().shape != parameter.shape for parameter in model.parameters()]
    types = {name: (parameter.dtype, parameter.grad.dtype) for name, parameter in model.named_parameters()}
    gradients = {name: parameter.grad.full_tensor() for name, parameter in model.named_parameters()}
    torch.optim.SGD(model.parameters(), lr=RATE).step()
    parameters = {name: parameter.detach().full_tensor() for name, parameter in model.named_parameters()}
    if rank == 0:
        torch.save((gradients, parameters, types, forward_types, seen, any(shards)), os.path.join(folder, "seen"))
    torch.distributed.destroy_process_group()


def sharded(forward_type):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_step, (folder, forward_type), RANKS)
        return torch.load(os.path.join(folder, "seen"), weights_only=False)


def apart(found, expected):
    return float((found - expected).norm() / expected.norm())


def test(forward_type, bound):
    what = str(forward_type)
    gradients, parameters, types, forward_types, seen, is_sharded = sharded(forward_type)
    expected_gradients, expected_parameters = whole(forward_type)
    begin = dict(made().named_parameters())
    check(f"{what}: parameters lie in parts", is_sharded)
    check(f"{what}: the forward sees {forward_types} and gives {seen}", forward_types == {forward_type} and seen == [forward_type])
    check(f"{what}: the same parameters", gradients.keys() == expected_gradients.keys())
    for name, expected in expected_gradients.items():
        check(f"{what}: {name} is {types[name]}, with its gradient", types[name] == (torch.float32, torch.float32))
        off = apart(gradients[name], expected)
        check(f"{what}: gradient of {name}: apart by {off:.2g}", off <= bound)
        off = float((parameters[name] - expected_parameters[name]).norm())
        most = bound * RATE * float(expected.norm()) + 1e-7 * float(begin[name].norm())  # the step's error, and rounding
        check(f"{what}: {name} after the step: apart by {off:.2g} > {most:.2g}", off <= most)
    exact, _ = whole(torch.float32)
    off = max(apart(gradients[name], exact[name]) for name in exact)
    is_rounded = forward_type is torch.bfloat16
    check(f"{what}: gradients are apart from those of float32 by {off:.2g}", off <= 0.1 and (off > 1e-3) == is_rounded)


if __name__ == "__main__":
    torch.set_num_threads(1)
    made()  # compiled before several processes want it
    test(torch.float32, 1e-4)
    test(torch.bfloat16, BOUND)
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)
