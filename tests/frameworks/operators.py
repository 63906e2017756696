"""Functions of rec_lang.transformers.linear_attention against those of flash-linear-attention, whose Triton
kernels run in Triton's interpreter: values, final states and every gradient, that of the initial state too. Then, whether
flash_linear_attention.patch() makes flash-linear-attention's functions those of rec.

    operators.py [full]      prints FAILED lines and `N passed, N failed`; full: longer, and functions that are forms of others
"""
import os
import sys
import warnings

import interpreter  # before torch
import torch

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))
warnings.filterwarnings("ignore")
interpreter.run_triton_on_the_host()

import fla.ops
import fla.ops.hgrn
import fla.ops.rwkv7

from rec_lang.transformers import flash_linear_attention, linear_attention

torch.set_num_threads(1)
torch.manual_seed(1)
full = sys.argv[1:] == ["full"]
passed = failed = 0
TIME = 150 if full else 70  # chunks have 64 steps
H, K, V = 2, 16, 16
BOUND = 3e-4  # theirs err by up to 1.3e-4 against double precision, where rec errs by 4e-6
# With safe_gate theirs err by up to 7e-4, without by 4e-5; rec errs by 1.3e-6, as a loop in f32 does.
SAFE_GATE_BOUND, EXACT_BOUND = 2e-3, 2e-5


def check(what, true):
    global passed, failed
    passed, failed = passed + bool(true), failed + (not true)
    if not true:
        print("FAILED frameworks/operators:", what, flush=True)


# ---- operands ------------------------------------------------------------------------------------------------------------


def rows(*axes):
    return torch.randn(1, TIME, *axes)


def units(*axes):
    return torch.nn.functional.normalize(rows(*axes), dim=-1)


def shares(*axes):
    return torch.rand(1, TIME, *axes)


def decays(*axes):
    """Logarithms of decays, from almost 0 to almost 1."""
    return -0.3 * rows(*axes).exp()


def attention(heads=H):
    return {"q": rows(H, K), "k": rows(H, K), "v": rows(heads, V)}


def raw_gates(heads, *keys):
    """What projections give: decays and step sizes are made of it within the function."""
    width = heads * (keys[0] if keys else 1)
    return {**attention(heads), "g": rows(heads, *keys), "beta": rows(heads), "A_log": torch.randn(heads), "dt_bias": torch.randn(width)}


IN_KERNEL = {"use_qk_l2norm_in_kernel": True, "use_gate_in_kernel": True, "use_beta_sigmoid_in_kernel": True}
PACKED = {"cu_seqlens": torch.tensor([0, 5, 5, TIME - 20, TIME])}
RWKV6 = {"r": rows(H, K), "k": rows(H, K), "v": rows(H, V), "w": decays(H, K), "u": torch.randn(H, K)}
RWKV7 = {"r": rows(H, K), "w": decays(H, K), "k": rows(H, K), "v": rows(H, V)}
KK = units(H, K)
DELTA = {"q": units(H, K), "k": units(H, K), "v": rows(H, V)}
RWKV7_ALL = {**RWKV7, "a": -KK, "b": KK * shares(H, K)}
# What flash-linear-attention's function has no gradient of, or a wrong one: fused_recurrent_rwkv6 leaves out that of hT.
NO_BACKWARD, NO_LAST_STATE = "no backward", "no gradient of the last state"
# Function, operands, settings, what it lacks.
QUICK = [
    ("chunk_gla", {**attention(), "g": decays(H, K)}, {}, None),
    ("chunk_simple_gla", {**attention(), "g": decays(H)}, {"scale": 0.7}, None),
    ("chunk_gated_delta_rule", {**DELTA, "g": decays(H), "beta": shares(H)}, PACKED, None),
    ("chunk_gated_delta_rule", raw_gates(2 * H), {**IN_KERNEL, "allow_neg_eigval": True, "state_v_first": True}, None),
    ("chunk_kda", {**attention(), "g": decays(H, K), "beta": shares(H)}, {"use_qk_l2norm_in_kernel": True}, None),
    ("chunk_rwkv6", RWKV6, {"scale": 1.0}, None),
    ("fused_recurrent_rwkv7", RWKV7_ALL, {"scale": 1.0}, NO_BACKWARD),
    ("chunk_rwkv7", RWKV7_ALL, {"safe_gate": True, "chunk_size": 64}, None),
    ("fused_recurrent_delta_rule", {**attention(), "beta": shares(H)}, {"use_qk_l2norm_in_kernel": True}, None),
    ("fused_recurrent_hgrn", {"x": rows(32), "g": decays(32)}, {}, None),
]
LONG = [
    ("chunk_gla", {**attention(), "g": decays(H, K)}, PACKED, None),
    ("fused_recurrent_gla", {**attention(), "gk": decays(H, K)}, {"scale": 0.5}, None),
    ("chunk_simple_gla", {**attention(), "g": decays(H)}, PACKED, None),
    ("fused_recurrent_simple_gla", {**attention(), "g": decays(H)}, {}, None),
    ("fused_recurrent_gated_delta_rule", raw_gates(2 * H), {**IN_KERNEL, "state_v_first": True}, NO_BACKWARD),
    ("chunk_kda", raw_gates(2 * H, K), {**IN_KERNEL, "state_v_first": True}, None),
    ("chunk_kda", raw_gates(H, K), {**IN_KERNEL, "lower_bound": -5.0, **PACKED}, None),
    ("fused_recurrent_kda", raw_gates(H, K), {**IN_KERNEL, "state_v_first": True}, NO_BACKWARD),
    ("chunk_rwkv6", RWKV6, PACKED, None),
    ("fused_recurrent_rwkv6", RWKV6, {"scale": 1.0}, NO_LAST_STATE),
    ("chunk_rwkv7", RWKV7_ALL, {}, None),
    ("fused_mul_recurrent_rwkv7", {**RWKV7, "kk": KK, "a": shares(H, K)}, {}, NO_BACKWARD),
    ("fused_recurrent_delta_rule", {**DELTA, "beta": shares(H)}, PACKED, None),
]

# ---- runs ----------------------------------------------------------------------------------------------------------------


def theirs(name):
    return next(getattr(module, name) for module in (fla.ops, fla.ops.rwkv7, fla.ops.hgrn) if hasattr(module, name))


def first_state(operands, settings):
    sequences = len(settings["cu_seqlens"]) - 1 if "cu_seqlens" in settings else 1
    if "x" in operands:
        return torch.randn(sequences, operands["x"].shape[-1])
    return torch.randn(sequences, operands["v"].shape[2], *((V, K) if settings.get("state_v_first") else (K, V)))


def run(function, operands, settings, lacks):
    """Results by name."""
    leaves = {name: x.clone().requires_grad_(lacks is not NO_BACKWARD) for name, x in operands.items()}
    y, hT = function(**leaves, **settings, output_final_state=True)
    results = {"y": y, "hT": hT}
    if lacks is NO_BACKWARD:
        return results
    noise = torch.Generator().manual_seed(2)
    loss = (y * torch.randn(y.shape, generator=noise)).sum()
    if lacks is not NO_LAST_STATE:
        loss = loss + (hT * torch.randn(hT.shape, generator=noise)).sum()
    loss.backward()
    return {**results, **{f"d_{name}": leaf.grad for name, leaf in leaves.items()}}


def error(found, expected):
    """The largest one, by the rms of what is expected."""
    if found is None or found.shape != expected.shape or found.dtype is not expected.dtype:
        return float("inf")
    return float((found - expected).detach().abs().max() / expected.detach().square().mean().sqrt())


def rwkv7_steps(r, w, k, v, a, b, initial_state, output_final_state):
    """What both are to compute, step by step."""
    S, ys = initial_state, []
    for t in range(r.shape[1]):
        r_t, w_t, k_t, a_t, b_t = (x[:, t, :, :, None] for x in (r, w, k, a, b))
        S = w_t.exp() * S + b_t * (a_t * S).sum(-2, keepdim=True) + k_t * v[:, t, :, None]
        ys.append((r_t * S).sum(-2))
    return torch.stack(ys, 1), S


def compare(what, found, expected, bound):
    for result, value in expected.items():
        apart = error(found[result], value)
        check(f"{what}: {result}: error {apart:.1e}, at most {bound:.0e}", apart <= bound)


def case(name, operands, settings, lacks):
    operands = {**operands, "initial_state": first_state(operands, settings)}
    found = run(getattr(linear_attention, name), operands, settings, lacks)
    what = f"{name} {sorted(settings)}"
    compare(what, found, run(theirs(name), operands, settings, lacks), SAFE_GATE_BOUND if "safe_gate" in settings else BOUND)
    if name == "chunk_rwkv7":
        exact = run(rwkv7_steps, {name: x.double() for name, x in operands.items()}, {}, lacks)
        compare(f"{what}, step by step", found, {name: x.float() for name, x in exact.items()}, EXACT_BOUND)
    return name, operands, settings, lacks, found


def patched(name, operands, settings, lacks, before):
    """flash-linear-attention's function, now that it is to be rec's: the same bits."""
    after = run(theirs(name), operands, settings, lacks)
    check(f"{name} is rec's once it is patched", all(torch.equal(before[result], after[result]) for result in before))


done = [case(*one) for one in (QUICK + LONG if full else QUICK)]
flash_linear_attention.patch()
for one in done:
    patched(*one)
flash_linear_attention.unpatch()
name, operands, settings, lacks, before = done[0]
check("unpatch gives functions back", not torch.equal(run(theirs(name), operands, settings, lacks)["d_g"], before["d_g"]))
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
