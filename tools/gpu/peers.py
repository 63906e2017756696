"""The kernels of flash-linear-attention and mamba at the shapes that rec is measured at: peers.py shapes

One line of JSON for each shape and pass, as rec-gpu-check prints them. What cannot be imported is left out.
"""
import json
import sys

import torch


def peers():
    found = {}
    try:
        from fla.ops import chunk_gated_delta_rule, chunk_gla, chunk_retention, chunk_simple_gla
        found.update(gla=chunk_gla, simple_gla=chunk_simple_gla, gated_deltanet=chunk_gated_delta_rule, retnet=chunk_retention)
    except ImportError:
        pass
    try:
        from fla.ops.kda import chunk_kda
        found["kda"] = chunk_kda
    except ImportError:
        pass
    try:
        from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined
        found["ssd"] = mamba_chunk_scan_combined
    except ImportError:
        pass
    return found


def random(*shape):
    return (torch.rand(*shape, device="cuda", dtype=torch.bfloat16) - 0.5).requires_grad_()


def decay(*shape):
    return (-torch.rand(*shape, device="cuda") * 0.1).requires_grad_()


def call_of(name, function, batch, time, sizes, key, value):
    """A function without arguments that runs forward and returns its output."""
    if name == "ssd":
        heads = sizes["R"]
        x, b, c = random(batch, time, heads, key), random(batch, time, sizes["G"], value), random(batch, time, sizes["G"], value)
        dt, a = random(batch, time, heads), -torch.rand(heads, device="cuda")
        return lambda: function(x, dt, a, b, c, chunk_size=256, dt_softplus=True)
    heads = sizes["H"]
    q, k = random(batch, time, heads, key), random(batch, time, heads, key)
    v = random(batch, time, heads, value)
    if name == "gla":
        g = decay(batch, time, heads, key)
        return lambda: function(q, k, v, g)[0]
    if name == "simple_gla":
        g = decay(batch, time, heads)
        return lambda: function(q, k, v, g)[0]
    if name == "retnet":
        return lambda: function(q, k, v)[0]
    beta = torch.rand(batch, time, heads, device="cuda", dtype=torch.bfloat16).requires_grad_()
    g = decay(batch, time, heads, key) if name == "kda" else decay(batch, time, heads)
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
        sizes = {k: int(v) for k, v in (w.split("=") for w in words[5:])}
        fixed = libraries[library]
        key, value = (fixed["P"], fixed["N"]) if name == "ssd" else (fixed["K"], fixed["V"])
        try:
            call = call_of(name, found[name], int(batch), int(time), sizes, key, value)
            output = call()
            cotangent = torch.rand_like(output)
            passes = {"forward": call, "backward": lambda: output.backward(cotangent, retain_graph=True)}
            for what, run in passes.items():
                print(json.dumps({"kind": "speed", "label": label, "by": "mamba" if name == "ssd" else "fla", "pass": what,
                                  "milliseconds": round(milliseconds(run), 4)}), flush=True)
        except Exception as problem:  # a peer that does not run here is no failure of ours
            print(f"{label}: {problem}", file=sys.stderr)


main()
