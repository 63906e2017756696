"""Layers of --emit=torch by themselves against plain torch, starts that ask for other draws, learned initial states.

    torch_layers.py FOLDER       which has what recc wrote for layers.rec with --dtype f64,bf16: layers.py

Prints FAILED lines and `N passed, N failed`.
"""
import sys

import torch
from torch.nn.functional import linear, silu

from checks import check, finish

sys.path.insert(0, sys.argv[1])
import layers  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(6)


def close(what, a, b, bound=1e-12):
    error = float((a - b).detach().abs().max()) if a.shape == b.shape else float("inf")
    check(f"{what}: error {error:.1e}, at most {bound:.0e}", error <= bound)


# ---- a layer by itself ---------------------------------------------------------------------------------------------------


def gates(w, u, skip, level):
    """The layer Gates, step by step, from zero."""
    row = linear(u, w["in_proj.weight"])
    x, gate = row[..., :8].unflatten(-1, (2, 4)), row[..., 8:] * w["scale"]
    s, z, ys = torch.zeros_like(x[:, 0]), torch.zeros_like(gate[:, 0], dtype=torch.complex128), []
    for t in range(u.shape[1]):
        s = torch.sigmoid(w["rate"] * gate[:, t])[..., None] * s + x[:, t]
        z = torch.polar(torch.full_like(gate[:, t], 0.9), gate[:, t]) * z + gate[:, t]
        ys.append(s + z.real[..., None])
    y = torch.stack(ys, 1)
    before = torch.cat([torch.zeros_like(skip[:, :2]), skip], 1)[:, :-2]
    out = linear(y.flatten(2), w["out_proj.weight"], w["out_proj.bias"])
    return y * silu(skip) + before, (out * level[..., None]).sum(-1), skip


def draw(*shape):
    return torch.randn(shape, dtype=torch.float64)


layer = layers.Gates()
weights = dict(layer.named_parameters())
check("names and shapes", {name: tuple(w.shape) for name, w in weights.items()} == {
    "scale": (2,), "in_proj.weight": (10, 6), "rate": (2,), "out_proj.weight": (8, 8), "out_proj.bias": (8,)})
check("a start by index", layer.scale.tolist() == [1, 2])
inputs = [draw(2, 19, 6), draw(2, 19, 2, 4), draw(2, 19)]
given = [x.clone().requires_grad_() for x in inputs]
*found, states = layer(*given)
again = [x.clone().requires_grad_() for x in inputs]
want = gates(weights, *again)
for name, a, b in zip(("v", "total", "same"), found, want):
    close(f"a layer, {name}", a, b)
cotangents = [draw(*x.shape) for x in want]
sources = [*given, *weights.values()], [*again, *weights.values()]
ours, theirs = (torch.autograd.grad(results, source, cotangents) for results, source in zip((found, want), sources))
for i, (a, b) in enumerate(zip(ours, theirs)):
    close(f"a layer, gradient {i}", a, b, 1e-10)
state, rows = None, []
with torch.no_grad():
    for t in range(19):
        *row, state = layer.step(*(x[:, t] for x in inputs), state)
        rows.append(row)
for i, name in enumerate(("v", "total", "same")):
    close(f"a layer, token by token, {name}", torch.stack([row[i] for row in rows], 1), want[i])
check("its states", sorted(states) == sorted(state) == ["s", "skip.lag", "z"])
for name in states:
    close(f"a layer, state {name}", state[name], states[name])
first = layer(*(x[:, :7] for x in inputs))
second = layer(*(x[:, 7:] for x in inputs), first[-1])
close("a layer, in two calls", torch.cat([first[0], second[0]], 1), want[0])
packed = layer(*(torch.cat([x[:1], x[1:]], 1) for x in inputs), None, torch.tensor([0, 19, 38], dtype=torch.int32))
close("a layer, packed", packed[0].unflatten(1, (2, 19))[0], want[0])
half = layers.Gates(dtype=torch.bfloat16)
*narrow, last = half(*(x.bfloat16() for x in inputs))
check("a layer in bfloat16", all(x.dtype is torch.bfloat16 for x in narrow) and last["s"].dtype is torch.float32)
double = layers.Gates()
double.load_state_dict(half.state_dict())
exact = double(*(x.bfloat16().double() for x in inputs))
rms = exact[0].square().mean().sqrt()
check("a layer in bfloat16, v", float((narrow[0].double() - exact[0]).square().mean().sqrt() / rms) <= 2e-2)
compiled = torch.compile(layer, fullgraph=True, dynamic=True, backend="aot_eager")
for time in (19, 11):
    close(f"a layer compiled, T = {time}", compiled(*(x[:, :time] for x in inputs))[0], want[0][:, :time])
check("a layer without a size is none", not hasattr(layers, "Open"))
for name, wrong in (("u", (draw(2, 19, 2, 3), *inputs[1:])), ("skip", (inputs[0], draw(2, 19, 8), inputs[2])),
                    ("level", (*inputs[:2], draw(2, 19, 1)))):
    try:
        layer(*wrong)
        check(f"{name} of another shape", False)
    except ValueError as mistake:
        check(f"{name} of another shape: {mistake}", str(mistake).startswith(f"Gates: {name}: expected shape [batch, time"))
for kind, text, wrong in ((ValueError, "Gates: states: expected s, z, skip.lag, found S", {"S": states["s"]}),
                          (TypeError, "Gates: states: expected a dict of tensors, found Tensor", states["s"])):
    for call, at in ((layer, slice(None)), (layer.step, 0)):
        try:
            call(*(x[:, at] for x in inputs), wrong)
            check(f"states of another name or kind: {text}", False)
        except kind as mistake:
            check(f"states of another name or kind: {mistake}", str(mistake) == text)

# ---- starts ------------------------------------------------------------------------------------------------------------------

module = layers.functions_module(9, 3)
at = torch.arange(9, dtype=torch.float64)
rows = torch.arange(3, dtype=torch.float64)[:, None]
y, z, _ = module(*(x.expand(1, 1, 9) for x in (0.3 * at + 0.1, 0.7 * at - 1.5)))
close("each function", y[0, 0], torch.zeros_like(at), 1e-11)
check("which is not zero", bool((module.start.abs() > 1).all()))
angle = at + 1 / 9
close("a complex start", z[0, 0], (1 + rows) * (torch.cos(angle) + 100 * torch.sin(angle)), 1e-11)

# ---- starts that ask for the draws of other weights ------------------------------------------------------------------------

model = layers.Paired()
for at in (0, 1):
    z, x, B, C, dt = model.get_parameter(f"layers.{at}.in_proj.weight").split([16, 16, 16, 16, 2])
    bound = 8**-0.5
    rest = 2 * C - B  # what C would have started with
    check(f"B starts as without the init, layer {at}", float(B.abs().max()) <= bound and 0.5 * bound < float(B.std()) < 0.65 * bound)
    check(f"C is half B, layer {at}", float(rest.abs().max()) <= bound * (1 + 1e-12) and 0.5 * bound < float(rest.std()) < 0.65 * bound)
    check(f"the other half is not B, layer {at}", abs(float((rest * B).mean() / B.var())) < 0.3)
    check(f"A starts as 2, layer {at}", bool((model.get_parameter(f"layers.{at}.A_log") == 2).all()))
    bias = model.get_parameter(f"layers.{at}.dt_bias").exp()
    check(f"dt_bias starts with the draw that A would have had, layer {at}", bool(((bias >= 1) & (bias <= 16)).all()) and bias[0, 0] != bias[0, 1])
    taps = model.get_parameter(f"layers.{at}.conv1d.weight")
    check(f"convolutions hand through, layer {at}", bool((taps[..., :3] == 0).all() and (taps[..., 3] == 1).all()))

# ---- learned initial states -------------------------------------------------------------------------------------------------

tokens = torch.randint(0, 32, (3, 12))
zero = {name: torch.zeros_like(x) for name, x in model(tokens)[1].items()}
check("learned states start at zero", torch.equal(model(tokens)[0], model(tokens, zero)[0]))
learned = {name[3:]: w for name, w in model.named_parameters() if name.startswith("h0.")}
check("each state is learned", learned.keys() == zero.keys())
with torch.no_grad():
    for w in learned.values():
        w.copy_(draw(*w.shape))
given = {name: w.detach().expand(3, *w.shape) for name, w in learned.items()}
logits, last = model(tokens)
close("sequences start from them", logits, model(tokens, given)[0], 0)
check("they matter", not torch.allclose(logits, model(tokens, zero)[0]))
some = dict(list(given.items())[:2])
close("those that are not handed over", model(tokens, some)[0], logits, 0)
offsets = torch.tensor([0, 12, 24, 36], dtype=torch.int32)
close("packed sequences", model(tokens.reshape(1, -1), None, offsets)[0].reshape(logits.shape), logits)
with torch.no_grad():
    state, rows = None, []
    for t in range(12):
        row, state = model.step(tokens[:, t], state)
        rows.append(row)
close("token by token", torch.stack(rows, 1), logits)
logits.square().sum().backward()
# Convolutions that hand their input through read no tail.
check("they have gradients", all(w.grad is not None and (name.endswith(".lag") or bool(w.grad.any())) for name, w in learned.items()))

finish()
