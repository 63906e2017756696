"""The kernels of flash-linear-attention and mamba at the shapes that rec is measured at: peers.py shapes

One line of JSON for each shape and pass, as rec-gpu-check prints them. What cannot be imported is left out.
"""
import importlib
import json
import sys

import torch


# Ours -> where the peer's is.
PLACES = {
    "gla": ("fla.ops", "chunk_gla"),
    "simple_gla": ("fla.ops", "chunk_simple_gla"),
    "gated_deltanet": ("fla.ops", "chunk_gated_delta_rule"),
    "retnet": ("fla.ops", "chunk_retention"),
    "kda": ("fla.ops.kda", "chunk_kda"),
    "rwkv6": ("fla.ops.rwkv6", "chunk_rwkv6"),
    "rwkv7": ("fla.ops.rwkv7", "chunk_rwkv7"),
    "ssd": ("mamba_ssm.ops.triton.ssd_combined", "mamba_chunk_scan_combined"),
    "selective_scan": ("mamba_ssm.ops.selective_scan_interface", "selective_scan_fn"),
}


def peers():
    found = {}
    for name, (module, function) in PLACES.items():
        try:
            found[name] = getattr(importlib.import_module(module), function)
        except (ImportError, AttributeError):
            pass
    return found


def random(*shape):
    return (torch.rand(*shape, device="cuda", dtype=torch.bfloat16) - 0.5).requires_grad_()


def decay(*shape):
    return (-torch.rand(*shape, device="cuda") * 0.1).requires_grad_()


def call_of(name, function, batch, time, sizes):
    """A function without arguments that runs forward and returns its output."""
    if name == "ssd":
        heads, shared = sizes["R"], (batch, time, sizes["G"], sizes["N"])
        x, b, c = random(batch, time, heads, sizes["P"]), random(*shared), random(*shared)
        dt, a = random(batch, time, heads), -torch.rand(heads, device="cuda")
        return lambda: function(x, dt, a, b, c, chunk_size=256, dt_softplus=True)
    if name == "selective_scan":
        channels, states = sizes["E"], sizes["N"]
        x, dt = random(batch, channels, time), random(batch, channels, time)
        b, c = random(batch, states, time), random(batch, states, time)
        a, d = -torch.rand(channels, states, device="cuda"), torch.rand(channels, device="cuda")
        return lambda: function(x, dt, a, b, c, d, delta_softplus=True)
    keys, values = (batch, time, sizes["H"], sizes["K"]), (batch, time, sizes["H"], sizes["V"])
    q, k, v = random(*keys), random(*keys), random(*values)
    if name == "gla":
        g = decay(*keys)
        return lambda: function(q, k, v, g)[0]
    if name == "simple_gla":
        g = decay(*keys[:3])
        return lambda: function(q, k, v, g)[0]
    if name == "retnet":
        return lambda: function(q, k, v)[0]
    if name == "rwkv6":
        w, u = decay(*keys), random(*keys[2:])
        return lambda: function(r=q, k=k, v=v, w=w, u=u)[0]
    if name == "rwkv7":
        w, a, b = decay(*keys), random(*keys), random(*keys)
        return lambda: function(r=q, w=w, k=k, v=v, a=a, b=b)[0]
    beta = torch.rand(*keys[:3], device="cuda", dtype=torch.bfloat16).requires_grad_()
    g = decay(*keys) if name == "kda" else decay(*keys[:3])
    return lambda: function(q, k, v, g, beta, use_qk_l2norm_in_kernel=True)[0]


def milliseconds(call):
    for _ in range(3):
        call()
    figures = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        torch.cuda.synchronize()
        figures.append(begin.elapsed_time(end))
    return sorted(figures)[len(figures) // 2]


def main():
    found, libraries = peers(), {}
    for line in open(sys.argv[1]):
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] == "library":
            libraries[words[1] + ".so"] = {k: int(v) for k, v in (w.split("=") for w in words[3:])}
            continue
        label, library, name, batch, time = words[:5]
        if name not in found or time == "step":
            continue
        sizes = {**libraries[library], **{k: int(v) for k, v in (w.split("=") for w in words[5:])}}
        try:
            call = call_of(name, found[name], int(batch), int(time), sizes)
            output = call()
            cotangent = torch.rand_like(output)
            passes = {"forward": call, "backward": lambda: output.backward(cotangent, retain_graph=True)}
            for what, run in passes.items():
                print(json.dumps({"kind": "speed", "label": label, "by": PLACES[name][0].split("_")[0].split(".")[0], "pass": what,
                                  "milliseconds": round(milliseconds(run), 4)}), flush=True)
        except Exception as problem:  # a peer that does not run here is no failure of ours
            print(f"{label}: {problem}", file=sys.stderr)


main()
