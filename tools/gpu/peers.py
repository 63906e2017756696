"""The kernels of flash-linear-attention and mamba at the shapes that rec is measured at: peers.py shapes [LABEL ..]

One line of JSON for each shape and pass, as rec-gpu-check prints them. What cannot be imported is left out. State space duality
without mamba_ssm is four products of torch for each chunk.
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
    found.setdefault("ssd", ssd)
    return found


def ssd(x, dt, a, b, c, chunk_size, dt_softplus):
    """mamba_chunk_scan_combined in torch: Dao & Gu 2024, arXiv 2405.21060, listing 1."""
    assert dt_softplus
    (batch, time, heads, _), chunks = x.shape, x.shape[1] // chunk_size
    dt = torch.nn.functional.softplus(dt.float())
    decay = (dt * a).view(batch, chunks, chunk_size, heads).permute(0, 3, 1, 2).cumsum(-1)
    x = (x * dt[..., None].to(x.dtype)).view(batch, chunks, chunk_size, heads, -1)
    b, c = (y.repeat_interleave(heads // y.shape[2], 2).view(batch, chunks, chunk_size, heads, -1) for y in (b, c))
    rows = torch.arange(chunk_size, device=x.device)
    within = (decay[..., :, None] - decay[..., None, :]).masked_fill(rows[:, None] < rows, -torch.inf).exp().to(x.dtype)
    y = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, within, x)
    states = torch.einsum("bclhn,bhcl,bclhp->bchpn", b, (decay[..., -1:] - decay).exp().to(x.dtype), x)
    ends = torch.nn.functional.pad(decay[..., -1], (1, 0)).cumsum(-1)
    chunk = torch.arange(chunks + 1, device=x.device)
    between = (ends[..., :, None] - ends[..., None, :]).masked_fill(chunk[:, None] < chunk, -torch.inf).exp().to(x.dtype)
    states = torch.einsum("bhzc,bchpn->bzhpn", between[:, :, :-1, 1:], states)
    return (y + torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, decay.exp().to(x.dtype))).reshape(batch, time, heads, -1)


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
    found, libraries, wanted = peers(), {}, sys.argv[2:]
    for line in open(sys.argv[1]):
        words = line.split("#")[0].split()
        if words[:1] == ["library"]:
            libraries[words[1] + ".so"] = {k: int(v) for k, v in (w.split("=") for w in words[3:])}
        if len(words) < 5 or words[0] in ("library", "peers", "passes") or (wanted and words[0] not in wanted):
            continue
        label, library, name, batch, time = words[:5]
        if name not in found or time == "step":
            continue
        sizes = {**libraries[library], **{k: int(v) for k, v in (w.split("=") for w in words[5:])}}
        by = "torch" if found[name] is ssd else PLACES[name][0].split("_")[0].split(".")[0]
        try:
            call = call_of(name, found[name], int(batch), int(time), sizes)
            output = call()
            cotangent = torch.rand_like(output)
            passes = {"forward": call, "backward": lambda: output.backward(cotangent, retain_graph=True)}
            for what, run in passes.items():
                print(json.dumps({"kind": "speed", "label": label, "by": by, "pass": what, "milliseconds": round(milliseconds(run), 4)}),
                      flush=True)
        except Exception as problem:  # a peer that does not run here is no failure of ours
            print(f"{label}: {problem}", file=sys.stderr)
            print(json.dumps({"kind": "absent", "part": f"peer {by} {label}", "what": type(problem).__name__}), flush=True)
    for label in wanted:
        if not any(line.startswith(label + " ") for line in open(sys.argv[1])):
            sys.exit(f"peers.py: expected a label of {sys.argv[1]}, found {label}")


main()
