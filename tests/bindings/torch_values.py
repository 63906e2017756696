"""--emit=torch against plain loops in torch: values and every gradient; and what torch does with operators.

    torch_values.py FOLDER       which has what recc wrote for recurrences.rec: FOLDER/all/recurrences.py, with variants for f64,
                                 f32 and bf16, and for K = 4 and 6 of gla; FOLDER/f32 of gla alone

Prints FAILED lines and `N passed, N failed`.
"""
import math
import os
import sys
import threading
import warnings

import torch
from torch.nn.functional import logsigmoid, softplus

from checks import RECURRENCES, E, G, H, K, N, R, V, check, finish, load, tried

torch.set_num_threads(1)
torch.manual_seed(4)
warnings.filterwarnings("ignore")


def error(a, b):
    """The largest error by the rms of what is expected; of bfloat16, whose large numbers round by as much, the rms error."""
    if a is None or a.shape != b.shape or not torch.isfinite(a).all():
        return math.inf
    narrow = a.dtype is torch.bfloat16
    a, b = a.detach().double(), b.detach().double()
    wrong = (a - b).square().mean().sqrt() if narrow else (a - b).abs().max() if a.numel() else 0.0
    return 0.0 if a.numel() == 0 else float(wrong) / max(float(b.square().mean().sqrt()), 1e-30)


def close(what, a, b, bound):
    check(f"{what}: error {error(a, b):.1e}, at most {bound:.0e}", error(a, b) <= bound)


every, single = (load(os.path.join(sys.argv[1], name)) for name in ("all", "f32"))

# ---- loops ---------------------------------------------------------------------------------------------------------------
# A step of each recurrence: (inputs of the step, parameters, states) -> (y, states). Sums over K are those of axis -2 of S.


def unit(x):
    return x / (x.square().sum(-1, keepdim=True) + 1e-6).sqrt()


def read(q, S):
    return (q[..., None] * S).sum(-2)


def outer(k, v):
    return k[..., None] * v[..., None, :]


def gla(x, p, s):
    q, k, v, gate = x
    S = torch.sigmoid(gate).pow(1 / 16)[..., None] * s[0] + outer(k, v)
    return q.shape[-1] ** -0.5 * read(q, S), (S,)


def ssd(x, p, s):
    (u, dt, B, C), (A_log, dt_bias, D) = x, p
    delta = softplus(dt + dt_bias)
    h = torch.exp(-A_log.exp() * delta)[..., None, None] * s[0] + (delta[..., None] * u)[..., None] * B[:, :, None, None, :]
    return (C[:, :, None, None, :] * h).sum(-1) + D[..., None] * u, (h,)


def selective_scan(x, p, s):
    (u, dt, B, C), (A_log, dt_bias, D) = x, p
    delta = softplus(dt + dt_bias)
    h = torch.exp(-A_log.exp() * delta[..., None]) * s[0] + (delta * u)[..., None] * B[:, None, :]
    return (C[:, None, :] * h).sum(-1) + D * u, (h,)


def delta_rule(q, k, v, rate, decay, S):
    kn, kept = unit(k), decay * S
    S = kept + torch.sigmoid(rate)[..., None, None] * outer(kn, v - read(kn, kept))
    return q.shape[-1] ** -0.5 * read(unit(q), S), (S,)


def gated_deltanet(x, p, s):
    (q, k, v, rate, gate), (A_log, dt_bias) = x, p
    return delta_rule(q, k, v, rate, torch.exp(-A_log.exp() * softplus(gate + dt_bias))[..., None, None], s[0])


def kda(x, p, s):
    (q, k, v, rate, gate), (A_log, dt_bias) = x, p
    return delta_rule(q, k, v, rate, torch.exp(-A_log.exp()[:, None] * softplus(gate + dt_bias))[..., None], s[0])


def rwkv6(x, p, s):
    (r, k, v, decay), (bonus,) = x, p
    return read(r, s[0] + outer(bonus * k, v)), (torch.exp(-decay.exp())[..., None] * s[0] + outer(k, v),)


def rwkv7(x, p, s):
    r, decay, k, v, erase, rate = x
    kk, w = unit(erase), torch.exp(-math.exp(-0.5) * torch.sigmoid(decay))
    S = w[..., None] * s[0] - outer(torch.sigmoid(rate) * kk, read(kk, s[0])) + outer(k, v)
    return read(r, S), (S,)


def s4d(x, p, s):
    (u,), (log_dt, log_A_real, A_imag, C, D) = x, p
    lam = torch.complex(-log_A_real.exp(), A_imag)
    z = log_dt.exp()[:, None] * lam
    h = z.exp() * torch.view_as_complex(s[0]) + (z.exp() - 1) / lam * u[..., None]
    return 2 * (torch.view_as_complex(C) * h).sum(-1).real + D * u, (torch.view_as_real(h),)


def lru(x, p, s):
    (u,), (nu, theta, gamma, B_re, B_im, C_re, C_im, D) = x, p
    lam = torch.polar(torch.exp(-nu.exp()), theta.exp())
    h = lam * torch.view_as_complex(s[0]) + gamma.exp() * (torch.complex(B_re, B_im) * u[:, None, :]).sum(-1)
    return (torch.complex(C_re, C_im) * h[:, None, :]).sum(-1).real + (D * u[:, None, :]).sum(-1), (torch.view_as_real(h),)


def mlstm(x, p, s):
    (q, k, v, write, forget), (C, n, m) = x, s
    log_f = logsigmoid(forget)
    new = torch.maximum(log_f + m, write).detach()
    f, i = torch.exp(log_f + m - new), torch.exp(write - new)
    C = f[..., None, None] * C + i[..., None, None] * outer(k, v)
    n = f[..., None] * n + i[..., None] * k
    q = q.shape[-1] ** -0.5 * q
    return read(q, C) / torch.maximum((q * n).sum(-1).abs(), torch.exp(-new))[..., None], (C, n, new)


def run(step, inputs, parameters, states):
    ys = []
    for t in range(inputs[0].shape[1]):
        y, states = step([x[:, t] for x in inputs], parameters, states)
        ys.append(y)
    return (torch.stack(ys, 1), *states)


# Loop, axes of inputs, of parameters, of states (checks.py).
cases = {name: (globals()[name], *shapes) for name, shapes in RECURRENCES.items()}


def draw(*shape, scale=1.0):
    return scale * torch.randn(shape, dtype=torch.float64)


def operands(name, batch, time, entries=None):
    _, inputs, parameters, states = cases[name]
    return ([draw(batch, time, *axes) for axes in inputs], [draw(*axes, scale=0.5) for axes in parameters],
            [draw(entries or batch, *axes) for axes in states])


def as_of(dtype, inputs, parameters, states):
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    return [x.to(dtype) for x in inputs], [x.to(wide) for x in parameters], [x.to(wide) for x in states]


def leaves(lists):
    return [x.detach().clone().requires_grad_() for several in lists for x in several]


def gradients(results, given, cotangents):
    pairs = [(r, c.to(r.dtype)) for r, c in zip(results, cotangents) if r.requires_grad]
    return torch.autograd.grad([r for r, _ in pairs], given, [c for _, c in pairs], allow_unused=True)


def compare(name, dtype, bound, time, batch=2):
    lists = operands(name, batch, time)
    narrow = as_of(dtype, *lists)
    step = cases[name][0]
    exact = [x.double() for several in narrow for x in several]  # rounded as the library has them
    given, told = leaves([exact]), leaves(narrow)
    a, b = len(lists[0]), len(lists[0]) + len(lists[1])
    want = run(step, given[:a], given[a:b], given[b:])
    found = getattr(every, name)(*told)
    kind = str(dtype).split(".")[1]
    cotangents = [draw(*r.shape).to(f.dtype) for r, f in zip(want, found)]
    for i, (w, f) in enumerate(zip(want, found)):
        close(f"{name}, {kind}, T = {time}: result {i}", f, w, bound)
    ours = gradients(found, told, cotangents)
    theirs = gradients(want, given, [c.double() for c in cotangents])
    for i, (w, f) in enumerate(zip(theirs, ours)):
        if w is None or not w.any():  # the m of mlstm has no gradient
            check(f"{name}, {kind}: no gradient {i}", f is None or float(f.abs().max()) <= bound)
        else:
            close(f"{name}, {kind}, T = {time}: gradient {i}", f, w, bound)


for name in cases:
    compare(name, torch.float64, 1e-10, 70)
    compare(name, torch.float32, 3e-4, 40)
    compare(name, torch.float64, 1e-10, 1)
for name in ("gla", "ssd", "gated_deltanet", "s4d"):
    compare(name, torch.bfloat16, 2e-2, 40)
small_cases = cases["gla"]
cases["gla"] = (gla, [(H, 6), (H, 6), (H, V), (H, 6)], [], [(H, 6, V)])  # the other size
for dtype, bound in ((torch.float64, 1e-10), (torch.float32, 3e-4), (torch.bfloat16, 2e-2)):
    compare("gla", dtype, bound, 40)
cases["gla"] = small_cases

# ---- parameters of 16 bits, as model.bfloat16() leaves them ---------------------------------------------------------------


def widened(what, tokens, narrow, call):
    """call(*inputs, *parameters, *states) of bf16 parameters and states is that of the same numbers in the library's type."""
    lists = operands("ssd", 2, 5)
    inputs = [x.to(tokens) for x in lists[0]]
    given = leaves([[x.to(narrow) for several in lists[1:] for x in several]])
    wide = leaves([as_of(tokens, [], given, [])[1]])
    found, expected = call(*inputs, *given), every.ssd(*inputs, *wide)
    check(f"{what}: results", all(torch.equal(a, b) for a, b in zip(found, expected)))
    ours, theirs = (torch.autograd.grad(sum(x.double().square().sum() for x in r), g) for r, g in ((found, given), (expected, wide)))
    check(f"{what}: gradients have the type of their tensors", all(a.dtype is narrow for a in ours))
    check(f"{what}: gradients", all(torch.equal(a, b.to(narrow)) for a, b in zip(ours, theirs)))
    with torch.inference_mode():
        check(f"{what}: without gradients", all(torch.equal(a, b) for a, b in zip(call(*inputs, *given), expected)))
    step = every.ssd_step(*[x[:, 0] for x in inputs], *given)
    check(f"{what}: a step", all(torch.equal(a, b) for a, b in zip(step, every.ssd_step(*[x[:, 0] for x in inputs], *wide))))


for tokens in (torch.bfloat16, torch.float32, torch.float64):
    widened(f"{tokens}, bf16 parameters", tokens, torch.bfloat16, every.ssd)
widened("f16 parameters", torch.float32, torch.float16, every.ssd)
widened("compiled", torch.float32, torch.bfloat16, torch.compile(every.ssd, fullgraph=True, backend="aot_eager"))

# ---- tensors of all kinds --------------------------------------------------------------------------------------------------

inputs, _, states = operands("gla", 2, 37)
want = run(gla, inputs, [], states)
found = every.gla(*inputs, *states)


def same(what, results, expected=want):
    for i, (a, b) in enumerate(zip(results, expected)):
        close(f"{what}: result {i}", a, b, 1e-12)


twice_as_long = draw(2, 80, H, K)
twice_as_long[:, 1:75:2] = inputs[0]
same("every second step", every.gla(twice_as_long[:, 1:75:2], *inputs[1:], *states))
same("time before batch", every.gla(*(x.transpose(0, 1).contiguous().transpose(0, 1) for x in inputs), *states))
same("axes in another order", every.gla(*(x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0) for x in inputs), *states))
spread = [x[:1, :1].expand(2, 37, -1, -1) for x in inputs]
same("expanded", every.gla(*spread, *states), run(gla, spread, [], states))
flat = torch.cat([x.flatten(2) for x in inputs], -1)
parts = [part.unflatten(-1, (H, -1)) for part in flat.split([12, 12, 15, 12], -1)]
same("slices of a row", every.gla(*parts, *states))
given = leaves([inputs, states])
every.gla(*given)[0].sum().backward()  # an expanded cotangent
again = leaves([inputs, states])
run(gla, again[:4], [], again[4:])[0].sum().backward()
for i, (a, b) in enumerate(zip(given, again)):
    close(f"expanded cotangent: gradient {i}", a.grad, b.grad, 1e-12)
same("no initial state", every.gla(*inputs), run(gla, inputs, [], [torch.zeros_like(states[0])]))

# Only what is wanted is computed; one result alone may be used.
given = leaves([inputs, states])
given[1].requires_grad_(False)
y, hT = every.gla(*given)
some = torch.autograd.grad(hT.sum(), [given[0], given[2], given[4]], allow_unused=True)
again = leaves([inputs, states])
theirs = torch.autograd.grad(run(gla, again[:4], [], again[4:])[1].sum(), [again[2], again[4]])
check("q has no part in the state", some[0] is None or not some[0].any())
close("gradient of the state alone by v", some[1], theirs[0], 1e-12)
close("gradient of the state alone by h0", some[2], theirs[1], 1e-12)

empty = every.gla(*operands("gla", 2, 0)[0], *states)
check("no steps", empty.y.shape == (2, 0, H, V) and torch.equal(empty.hT_S, states[0]))
none = [x.requires_grad_() for x in operands("gla", 0, 7)[0]]
every.gla(*none)[0].sum().backward()
check("no batch", none[0].grad.shape == (0, 7, H, K))
given = leaves([operands("gla", 2, 0)[0], states])
every.gla(*given)[1].sum().backward()
check("gradient of no steps", torch.equal(given[4].grad, torch.ones_like(states[0])))

state, ys = states[0], []
for t in range(37):
    y, state = every.gla_step(*(x[:, t] for x in inputs), state)
    ys.append(y)
same("token by token", (torch.stack(ys, 1), state))
given = leaves([[x[:, 0] for x in inputs], states])
y, hT = every.gla_step(*given)
again = leaves([inputs, states])
first = run(gla, [x[:, :1] for x in again[:4]], [], again[4:])
theirs = torch.autograd.grad(first[0].sum() + first[1].sum(), again)
for i, (a, b) in enumerate(zip(torch.autograd.grad(y.sum() + hT.sum(), given), theirs)):
    close(f"a step's gradient {i}", a, b[:, 0] if i < 4 else b, 1e-12)

# Packed sequences, one of them empty; and two calls that hand on the state.
offsets = torch.tensor([0, 5, 5, 36, 37], dtype=torch.int32)
row, _, starts = operands("gla", 1, 37, entries=4)
given, again = leaves([row, starts]), leaves([row, starts])
packed = every.gla(*given, cu_seqlens=offsets)
ends = offsets.tolist()
check("offsets of 64 bits", torch.equal(every.gla(*given, cu_seqlens=offsets.long()).y, packed.y))
alone = [run(gla, [x[:, a:b] for x in again[:4]], [], [again[4][i:i + 1]]) for i, (a, b) in enumerate(zip(ends, ends[1:])) if b > a]
close("packed, y", packed.y, torch.cat([y for y, _ in alone], 1), 1e-12)
close("packed, hT", packed.hT_S[[0, 2, 3]], torch.cat([S for _, S in alone]), 1e-12)
check("packed, an empty sequence", torch.equal(packed.hT_S[1], starts[0][1]))
ours = torch.autograd.grad(packed.y.square().sum() + packed.hT_S[[0, 2, 3]].sum(), given)
theirs = torch.autograd.grad(sum(y.square().sum() + S.sum() for y, S in alone), again)
for i, (a, b) in enumerate(zip(ours, theirs)):
    close(f"packed, gradient {i}", a, b, 1e-12)


def in_two(q, k, v, gate, S):
    first = every.gla(q[:, :20], k[:, :20], v[:, :20], gate[:, :20], S)
    second = every.gla(q[:, 20:], k[:, 20:], v[:, 20:], gate[:, 20:], first.hT_S)
    return torch.cat([first.y, second.y], 1), second.hT_S


given = leaves([inputs, states])
again = leaves([inputs, states])
ours = torch.autograd.grad(in_two(*given)[0].square().sum(), given)
theirs = torch.autograd.grad(every.gla(*again).y.square().sum(), again)
for i, (a, b) in enumerate(zip(ours, theirs)):
    close(f"two calls, gradient {i}", a, b, 1e-12)

# ---- modules -----------------------------------------------------------------------------------------------------------------

layer = every.ssd_module(1, 200)
check("parameters of a module", [(n, tuple(x.shape)) for n, x in layer.named_parameters()] == [
    ("A_log", (1, 200)), ("dt_bias", (1, 200)), ("D", (1, 200))])
A, dt = layer.A_log.exp(), softplus(layer.dt_bias)
check("A starts from 1 to 16", 1 <= A.min() < 3 < 14 < A.max() <= 16)
check("dt starts from 1e-3 to 1e-1", 1e-3 <= dt.min() < 2e-3 < 5e-2 < dt.max() <= 1e-1 + 1e-12 and 5e-3 < dt.median() < 2e-2)
check("D starts as 1", bool((layer.D == 1).all()))
scan = every.selective_scan_module(E)
close("A of selective_scan", scan.A_log.exp(), torch.arange(1.0, N + 1, dtype=torch.float64).expand(E, N), 1e-12)
check("D of lru is the identity", torch.equal(every.lru_module().D.data, torch.eye(H, dtype=torch.float64)))
check("computed axes", tuple(every.words_module(3).from_.shape) == (9,))
for K in (4, 8):
    keyed = every.keyed_module(3, K)
    check(f"a module of variant K = {K}", tuple(keyed.w.shape) == (2 * K,) and torch.allclose(keyed.w, torch.tensor(K**-0.5).double()))
    close(f"it is called, K = {K}", keyed(draw(1, 2, 3, K) * 0)[0], torch.full((1, 2, 3, K), 2 * K**0.5).double(), 1e-6)
check("a start that knows the size of another axis", 0.05 < float(every.words_module(64).from_.std()) < 0.25)
check("a recurrence named as a module", torch.equal(every.json_(torch.ones(1, 2, 1).double()).isinstance_.flatten(), torch.tensor([1, 1.5]).double()))
tokens, _, _ = operands("ssd", 2, 6)
layer = every.ssd_module(G, R)
out, h = layer(*tokens)
close("a module is its function", out, every.ssd(*tokens, *layer.parameters()).y, 0)
out.square().sum().backward()
check("a module has gradients", all(x.grad is not None and bool(x.grad.any()) for x in layer.parameters()))
last = None
with torch.no_grad():
    for t in range(6):
        one, last = layer.step(*(x[:, t] for x in tokens), last)
close("a module, token by token", last, h, 1e-12)
again = every.ssd_module(G, R)
again.load_state_dict(layer.state_dict())
for dtype, wide in ((torch.float64, torch.float64), (torch.float32, torch.float32), (torch.bfloat16, torch.float32)):
    typed = every.ssd_module(G, R, dtype=dtype)
    out_typed, h_typed = typed(*(x.to(dtype) for x in tokens))
    check(f"a module for {dtype}", typed.A_log.dtype is wide and out_typed.dtype is dtype and h_typed.dtype is wide)
    check(f"a module brought to {dtype}", layer.__class__(G, R).to(dtype)(*(x.to(dtype) for x in tokens))[0].dtype is dtype)
check("state_dict", torch.equal(again(*tokens).y, out))

# ---- what torch does with operators ------------------------------------------------------------------------------------------

small, _, start = operands("gla", 2, 5)
given = leaves([small, start])
tried("gradcheck", lambda: torch.autograd.gradcheck(every.gla, given))
line = leaves([operands("gla", 1, 5)[0], operands("gla", 2, 5)[2]])
cuts = torch.tensor([0, 2, 5], dtype=torch.int32)
tried("gradcheck, packed", lambda: torch.autograd.gradcheck(lambda *x: every.gla(*x, cu_seqlens=cuts), line))
words = leaves([[draw(2, 5, 3), draw(2, 5, 3, 2), draw(3), draw(9), draw(2, 3, 2), draw(2, 3, 2), draw(2, 9), draw(2, 3, 3)]])
tried("gradcheck, words of Python, lags, complex states", lambda: torch.autograd.gradcheck(every.words, words))
for what, arguments in (("", (*given, None)), (", packed", (*line, cuts)), (", no gradient", (*small, None, None))):
    tried("opcheck" + what, lambda: set(torch.library.opcheck(every._functions_gla.op, arguments).values()) == {"SUCCESS"})
tried("opcheck of a step", lambda: set(torch.library.opcheck(every._functions_gla.step_op, (*(x[:, 0] for x in small), *start)).values()) == {"SUCCESS"})
tried("checkpoint", lambda: all(torch.equal(a, b) for a, b in zip(
    torch.autograd.grad(torch.utils.checkpoint.checkpoint(every.gla, *given, use_reentrant=False).y.sum(), given),
    torch.autograd.grad(every.gla(*given).y.sum(), given))))
several = [torch.stack([x, 2 * x]) for x in (*small, *start)]
mapped = torch.func.vmap(every.gla)(*several)
same("vmap", mapped, [torch.stack(pair) for pair in zip(every.gla(*small, *start), every.gla(*(2 * x for x in (*small, *start))))])
# Autocast takes the library's variant of that type, else f32; f64 stays.
for cast, library, out in ((torch.bfloat16, single, torch.float32), (torch.float16, single, torch.float32),
                           (torch.float16, every, torch.float32), (torch.bfloat16, every, torch.bfloat16)):
    with torch.autocast("cpu", cast):
        half = [x.to(cast).requires_grad_() for x in inputs]
        y, hT = library.gla(*half)
        check(f"autocast {cast}: {out} out", y.dtype is out and hT.dtype is torch.float32)
        y.sum().backward()
        check(f"autocast {cast}: gradients", all(x.grad.dtype is cast for x in half))
        step, last = library.gla_step(*(x[:, 0] for x in half), states[0].bfloat16())
        check(f"autocast {cast}: a step", step.dtype is out and last.dtype is torch.float32)
with torch.autocast("cpu", torch.bfloat16):
    y, hT = every.gla(*(x.float() for x in inputs), states[0].bfloat16())
    check("autocast of f32", y.dtype is torch.bfloat16 and hT.dtype is torch.float32)
    check("autocast of f64", every.gla(*inputs).y.dtype is torch.float64)
given = leaves([small, start])
twice = torch.autograd.grad(every.gla(*given).y.sum(), given[0], create_graph=True)[0]
try:
    twice.sum().backward()
    check("a second derivative is refused", False)
except RuntimeError as mistake:
    check("a second derivative is refused", "gla: expected first derivatives" in str(mistake))

# ---- transforms of torch.func ------------------------------------------------------------------------------------------------
# Against torch.autograd, one entry after the other.

from torch.func import functional_call, grad, hessian, jacrev, jvp, vjp, vmap  # noqa: E402

small, _, start = operands("gla", 2, 5)
one, weights = (*small, *start), draw(2, 5, H, V)
each = [torch.stack([x, 2 * x, -x]) for x in one]
five = (0, 1, 2, 3, 4)


def entries(xs, count=3):
    return [[x[at] for x in xs] for at in range(count)]


def loss(*x):
    y, hT = every.gla(*x)
    return (y * weights).sum() + hT.square().sum()


def step_loss(*x):
    y, hT = every.gla_step(*x)
    return y.square().sum() + hT.sum()


def packed_loss(*x):
    return every.gla(*x, cu_seqlens=cuts).y.square().sum()


def slopes(function, xs):
    given = leaves([xs])
    return torch.autograd.grad(function(*given), given)


def stacked(function, xs):
    return [torch.stack(several) for several in zip(*[slopes(function, entry) for entry in entries(xs)])]


def equal(what, found, expected):
    tried(f"torch.func, {what}", lambda: all(torch.allclose(a, b, 1e-12, 1e-12) and bool(a.any())
                                             for a, b in zip(found(), expected(), strict=True)))


def mapped_loss(*xs):
    return vmap(every.gla)(*xs).y.square().sum()


def looped_loss(*xs):
    return sum(every.gla(*entry).y.square().sum() for entry in entries(xs))


def shared_loss(q, *xs):
    return vmap(lambda *x: every.gla(q, *x))(*xs).y.square().sum()


def jacobian(what, x):
    return torch.autograd.functional.jacobian(what, x)


def of_k(k):
    return every.gla(one[0], k, *one[2:]).hT_S


equal("grad", lambda: grad(loss, five)(*one), lambda: slopes(loss, one))
equal("vjp", lambda: vjp(loss, *one)[1](torch.tensor(2.0).double()), lambda: [2 * x for x in slopes(loss, one)])
equal("jacrev", lambda: [jacrev(of_k)(one[1])], lambda: [jacobian(of_k, one[1])])
equal("a jacobian that is vectorized", lambda: [torch.autograd.functional.jacobian(of_k, one[1], vectorize=True)],
      lambda: [jacobian(of_k, one[1])])
equal("vmap of grad", lambda: vmap(grad(loss, five))(*each), lambda: stacked(loss, each))
equal("vmap of grad, q shared", lambda: vmap(grad(loss, five), (None, 0, 0, 0, 0))(one[0], *each[1:]),
      lambda: stacked(loss, [torch.stack([one[0]] * 3), *each[1:]]))
equal("vmap over other axes", lambda: vmap(grad(loss, five), (1, 2, 3, 0, 1))(*(x.movedim(0, at) for x, at in zip(each, (1, 2, 3, 0, 1)))),
      lambda: stacked(loss, each))
equal("vmap of vmap of grad", lambda: vmap(vmap(grad(loss, five)))(*(x[None] for x in each)), lambda: [x[None] for x in stacked(loss, each)])
equal("vmap of jacrev", lambda: [vmap(jacrev(of_k))(each[1])], lambda: [torch.stack([jacobian(of_k, x) for x in each[1]])])
equal("grad of vmap", lambda: grad(mapped_loss, five)(*each), lambda: slopes(looped_loss, each))
equal("grad of vmap, q shared", lambda: grad(shared_loss, five)(one[0], *each[1:]),
      lambda: slopes(lambda q, *xs: looped_loss(torch.stack([q] * 3), *xs), [one[0], *each[1:]]))
equal("torch.autograd of vmap", lambda: slopes(mapped_loss, each), lambda: slopes(looped_loss, each))
first_step = [*(x[:, :, 0] for x in each[:4]), each[4]]
equal("vmap of grad of a step", lambda: vmap(grad(step_loss, five))(*first_step), lambda: stacked(step_loss, first_step))
lines = [torch.stack([x, 2 * x, -x]).detach() for x in line]
equal("vmap of grad, packed", lambda: vmap(grad(packed_loss, five))(*lines), lambda: stacked(packed_loss, lines))
samples = [torch.stack([x, 2 * x, -x]) for x in tokens]
own = {name: x.detach() for name, x in layer.named_parameters()}


def module_loss(parameters, *x):
    return functional_call(layer, parameters, x)[0].square().sum()


equal("gradients of a module for each sample", lambda: vmap(grad(module_loss), (None, 0, 0, 0, 0))(own, *samples).values(),
      lambda: [torch.stack(several) for several in zip(*[torch.autograd.grad(module_loss(dict(layer.named_parameters()), *entry),
                                                                            list(layer.parameters())) for entry in entries(samples)])])
equal("vmap over parameters", lambda: [vmap(module_loss, (0, None, None, None, None))({n: torch.stack([x, 2 * x]) for n, x in own.items()}, *tokens)],
      lambda: [torch.stack([module_loss({n: c * x for n, x in own.items()}, *tokens) for c in (1, 2)])])
if torch.torch_version.TorchVersion(torch.__version__) >= (2, 15):  # 2.6 cannot
    equal("compiled vmap of grad", lambda: torch.compile(vmap(grad(loss, five)), backend="aot_eager")(*each), lambda: stacked(loss, each))
with torch.autocast("cpu", torch.bfloat16):
    check("torch.func, autocast", grad(lambda *x: every.gla(*x).y.float().sum(), 4)(*(x.float() for x in one)).dtype is torch.float32)
for what, text, use in (("grad of grad", "expected first derivatives", lambda: grad(lambda *x: grad(loss)(*x).sum())(*one)),
                        ("jacrev of jacrev", "expected first derivatives", lambda: jacrev(jacrev(loss))(*one)),
                        ("hessian", "expected derivatives by backward", lambda: hessian(loss)(*one)),
                        ("jvp of grad", "expected derivatives by backward", lambda: jvp(grad(loss), one, one)),
                        ("vmap over nothing", "expected a vmap over one entry", lambda: vmap(every.gla)(*(x[:0] for x in each)))):
    try:
        use()
        check(f"torch.func, {what} is refused", False)
    except (RuntimeError, ValueError) as mistake:
        check(f"torch.func, {what} is refused: {mistake}", f"gla: {text}" in str(mistake))

# ---- the library's kernels for calls without gradients -----------------------------------------------------------------------
# They are there from torch 2.10 on. What they give has the same bits as what the operators in Python do.

check("the library's kernels are used",
      (every._functions_gla.quick is not every._functions_gla.op) == hasattr(every._kernels.torch, "torch_get_num_threads"))


def same_bits(what, quick, slow):
    check(f"kernel, {what}: the same bits", all(a.dtype is b.dtype and a.shape == b.shape and torch.equal(a, b)
                                                for a, b in zip(quick, slow, strict=True)))


def alike(what, name, arguments, step=False):
    """`arguments`: operands, and of a forward cu_seqlens."""
    functions = getattr(every, "_functions_" + name)
    if step:
        return same_bits(what, functions.quick_step(*arguments), functions.step_op(*arguments))
    results = functions.op(*arguments)
    same_bits(what, functions.quick(*arguments), results)
    *found, saved = functions.quick_save(*arguments)
    *_, as_much = functions.save_op(*arguments)
    same_bits(f"{what}, saving", found, results)
    check(f"kernel, {what}: as much is saved", saved.dtype is torch.uint8 and saved.shape == as_much.shape)
    cotangents = [torch.randn_like(x) for x in results]
    for wanted, some in ((-1, cotangents), (5, [cotangents[0], *(None for _ in cotangents[1:])])):
        same_bits(f"{what}, gradients {wanted}", *(run(*arguments, saved, *some, wanted)
                                                   for run in (functions.quick_backward, functions.backward_op)))


for dtype in (torch.float64, torch.float32, torch.bfloat16):
    for name in cases:
        tokens, parameters, before = as_of(dtype, *operands(name, 2, 9))
        what = f"{name}, {dtype}"
        alike(what, name, (*tokens, *parameters, *before, None))
        alike(what + ", from zero", name, (*tokens, *parameters, *(None for _ in before), None))
        alike(what + ", a step", name, (*(x[:, 0] for x in tokens), *parameters, *before), step=True)
alike("lags and complex states", "words", (*(x.detach() for x in words), None))
alike("packed", "gla", (*row, *starts, offsets))
alike("every second step", "gla", (twice_as_long[:, 1:75:2], *inputs[1:], *states, None))
alike("axes in another order", "gla", (*(x.permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0) for x in (*inputs, *states)), None))
alike("expanded", "gla", (*spread, *(x[:1].expand(2, -1, -1, -1) for x in states), None))
alike("no steps", "gla", (*operands("gla", 2, 0)[0], *states, None))
alike("no batch", "gla", (*operands("gla", 0, 3)[0], None, None))
kept = every._functions_gla.quick_save(*small, *start, None)
for what, operator, arguments in ((" that saves", every._functions_gla.quick_save, (*small, *start, None)),
                                  (" of a backward", every._functions_gla.quick_backward,
                                   (*small, *start, None, kept[2], draw(2, 5, H, V), None, 27)),
                                  ("", every._functions_gla.quick, (*small, *start, None)), (", packed", every._functions_gla.quick, (*row, *starts, offsets)),
                                  (" of a step", every._functions_gla.quick_step, (*(x[:, 0] for x in small), *start))):
    tried(f"opcheck of a kernel{what}", lambda: set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"})
for what, arguments in (("another length", (small[0][:, :4], *small[1:], None, None)), ("too few axes", (small[0][0], *small[1:], None, None)),
                        ("another type", (small[0].float(), *small[1:], None, None)), ("complex", (small[0] + 0j, *small[1:], None, None)),
                        ("lengths of 64 bits", (*row, *starts, offsets.long()))):
    try:
        every._functions_gla.quick(*arguments)
        check(f"a kernel refuses {what}", False)
    except (RuntimeError, TypeError, ValueError) as mistake:
        check(f"a kernel refuses {what}: {mistake}", "expected" in str(mistake) and "found" in str(mistake))

# One graph for all lengths, forward and backward.
graphs = []




from torch._dynamo.backends.common import aot_autograd  # noqa: E402
from functorch.compile import make_boxed_func  # noqa: E402

compiled = torch.compile(lambda *x: every.gla(*x)[0].square().sum() * 2, fullgraph=True, dynamic=True,
                         backend=aot_autograd(fw_compiler=lambda g, _: (graphs.append(g), make_boxed_func(g))[1],
                                              bw_compiler=lambda g, _: (graphs.append(g), make_boxed_func(g))[1]))
for time in (37, 33, 64, 100, 257):
    several, _, start = operands("gla", 2, time)
    given, again = leaves([several, start]), leaves([several, start])
    compiled(*given).backward()
    (2 * every.gla(*again).y.square().sum()).backward()
    check(f"compiled, T = {time}", all(torch.allclose(a.grad, b.grad, 1e-12, 1e-12) for a, b in zip(given, again)))
check(f"five lengths, {len(graphs)} graphs, expected one forward and one backward", len(graphs) == 2)
graphs.clear()
packing = torch.compile(lambda *x: every.gla(*x[:-1], None, x[-1]).y.sum(), fullgraph=True, dynamic=True,
                        backend=aot_autograd(fw_compiler=lambda g, _: (graphs.append(g), make_boxed_func(g))[1]))
for cuts in ([0, 9], [0, 4, 20], [0, 1, 2, 30]):
    several = leaves([operands("gla", 1, cuts[-1])[0]])
    offsets = torch.tensor(cuts, dtype=torch.int32)
    tried(f"compiled, packed {cuts}", lambda: torch.allclose(packing(*several, offsets), every.gla(*several, cu_seqlens=offsets).y.sum()))
    packing(*several, offsets).backward()


class Layer(torch.nn.Module):
    def forward(self, q, k, v, gate):
        return every.gla(q, k, v, gate).y * 2


length = torch.export.Dim("T", min=2, max=4096)
tried("export", lambda: torch.allclose(
    torch.export.export(Layer(), tuple(inputs), dynamic_shapes=[{1: length}] * 4).module()(*(x[:, :11] for x in inputs)),
    2 * every.gla(*(x[:, :11] for x in inputs)).y))

# Threads, a child process, a second copy of the file.
got = [None] * 4
threads = [threading.Thread(target=lambda i=i: got.__setitem__(i, [every.gla(*inputs, *states).y for _ in range(20)])) for i in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
check("four threads", all(torch.equal(x, found.y) for several in got for x in several))
child = os.fork()
if child == 0:
    os._exit(int(not torch.equal(every.gla(*inputs, *states).y, found.y)))
check("after fork", os.waitpid(child, 0)[1] == 0)
same("a second copy", load(os.path.join(sys.argv[1], "all")).gla(*inputs, *states))
torch.set_num_threads(2)
check("two threads give the same", torch.equal(every.gla(*inputs, *states).y, found.y))

finish()
