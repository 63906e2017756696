"""tools/gpu/peers.py without a GPU: peers_test.py PEERS SHAPES

torch, fla and mamba_ssm are modules made here, whose functions take the arguments of the real ones and look at their shapes.
"""
import contextlib
import io
import json
import runpy
import sys
import types

PEERS, SHAPES = sys.argv[1:3]


class Tensor:
    def __init__(self, *shape):
        self.shape = shape

    def __sub__(self, _):
        return self

    __mul__ = __sub__

    def __neg__(self):
        return self

    def requires_grad_(self):
        return self

    def backward(self, cotangent, retain_graph):
        assert cotangent.shape == self.shape and retain_graph


class Event:
    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        pass

    def elapsed_time(self, end):
        return 0.5


def module(name, **items):
    made = types.ModuleType(name)
    made.__dict__.update(items)
    made.__path__ = []
    sys.modules[name] = made
    return made


module("torch", bfloat16="bf16", rand=lambda *shape, device, dtype=None: Tensor(*shape), rand_like=lambda x: Tensor(*x.shape),
       cuda=types.SimpleNamespace(Event=Event, synchronize=lambda: None))


def like(x, *others):
    for other in others:
        assert other.shape == x.shape, (other.shape, x.shape)


def fla(gate, beta=False):
    def function(q, k, v, g=None, beta=None, use_qk_l2norm_in_kernel=False):
        like(q, k)
        assert v.shape[:3] == q.shape[:3]
        assert (g.shape if g else None) == {"none": None, "head": q.shape[:3], "key": q.shape}[gate]
        assert (beta is not None) == wants_beta and (not wants_beta or beta.shape == q.shape[:3])
        return v, None

    wants_beta = beta
    return function


def rwkv6(r, k, v, w, u):
    like(r, k, v, w)
    assert u.shape == r.shape[2:]
    return v, None


def rwkv7(r, w, k, v, a, b):
    like(r, w, k, v, a, b)
    return v, None


def ssd(x, dt, a, b, c, chunk_size, dt_softplus):
    like(b, c)
    assert dt.shape == x.shape[:3] and a.shape == x.shape[2:3] and b.shape[:2] == x.shape[:2]
    return x


def selective_scan(u, delta, a, b, c, d, delta_softplus):
    like(u, delta)
    like(b, c)
    assert a.shape == (u.shape[1], b.shape[1]) and d.shape == u.shape[1:2] and b.shape[2] == u.shape[2]
    return u


def run(*labels):
    said, wrong = io.StringIO(), io.StringIO()
    sys.argv = [PEERS, SHAPES, *labels]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(wrong):
        runpy.run_path(PEERS)
    assert bool(wrong.getvalue()) == ('"absent"' in said.getvalue()), wrong.getvalue()
    return [json.loads(line) for line in said.getvalue().splitlines()]


rows = run()
assert {row["kind"] for row in rows} == {"absent"} and all(row["part"].startswith("peer torch mamba2") for row in rows), (
    "without fla and mamba_ssm there is torch, which this one is not")
module("fla")
module("fla.ops", chunk_gla=fla("key"), chunk_simple_gla=fla("head"), chunk_retention=fla("none"),
       chunk_gated_delta_rule=fla("head", True))
module("fla.ops.kda", chunk_kda=fla("key", True))
module("fla.ops.rwkv6", chunk_rwkv6=rwkv6)
module("fla.ops.rwkv7", chunk_rwkv7=rwkv7)
for name in ("mamba_ssm", "mamba_ssm.ops", "mamba_ssm.ops.triton"):
    module(name)
module("mamba_ssm.ops.triton.ssd_combined", mamba_chunk_scan_combined=ssd)
module("mamba_ssm.ops.selective_scan_interface", selective_scan_fn=selective_scan)
labels = [line.split()[0] for line in open(SHAPES)
          if line.strip() and line[0] != "#" and len(line.split()) > 4 and line.split()[0] not in ("library", "peers", "passes")
          and line.split()[4] != "step"]
rows = run()
assert [(row["label"], row["pass"]) for row in rows] == [(label, what) for label in labels for what in ("forward", "backward")]
assert {row["by"] for row in rows} == {"fla", "mamba"} and all(row["milliseconds"] == 0.5 for row in rows)
measured, = [line.split()[1:] for line in open(SHAPES) if line.startswith("peers ")]
assert set(measured) <= set(labels) and [row["label"] for row in run(measured[0])] == [measured[0]] * 2
del sys.modules["fla.ops.kda"].chunk_kda
assert not any(row["label"].startswith("kda") for row in run()), "what an older fla lacks is left out"
