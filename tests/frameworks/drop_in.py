"""rec_lang.transformers: functions of transformers on rec's kernels, against plain torch; then whole models, against themselves.

    drop_in.py

Logits and all gradients of small random models are those of transformers' own functions, and generate() writes the same tokens.
Prints FAILED lines and `N passed, N failed`.
"""
import os
import sys
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")

import torch
import torch.nn.functional as F
import accelerator  # noqa: F401  before transformers
import transformers

import rec_lang.transformers
from rec_lang.transformers import convolution, kernels, mamba, mamba2, registry

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
torch.manual_seed(5)
f64 = torch.float64
passed = failed = 0
VERSION = tuple(int(part) for part in transformers.__version__.split(".")[:2])
LOSES_A_TOKEN = VERSION < (5, 23)  # Falcon-H1's attention, whose cache is a token shorter than a mask


def check(what, good):
    global passed, failed
    passed += bool(good)
    failed += not good
    if not good:
        print(f"FAILED frameworks/drop_in: {what}", flush=True)


def apart(found, expected):
    return float((found.double() - expected.double()).abs().max() / expected.double().abs().max().clamp(min=1e-30))


def close(what, found, expected, bound):
    shape = found is not None and found.shape == expected.shape
    distance = apart(found, expected) if shape else float("inf")
    check(f"{what}: apart by {distance:.2g} > {bound:g}", distance <= bound)


def draw(*shape, dtype=f64):
    return torch.randn(*shape, dtype=dtype)


# ---- plain torch, step by step -----------------------------------------------------------------------------------------------


def step_size(dt, bias, softplus, limit=(0.0, float("inf"))):
    dt = dt if bias is None else dt + bias
    dt = F.softplus(dt) if softplus else dt
    return dt.clamp(*limit)


def plain_scan(x, dt, A, B, C, D, h):
    """x, dt [batch, time, heads, P], A [heads, P, N], B, C [batch, time, groups, N], D [heads, P], h [batch, heads, P, N]."""
    repeat = x.shape[2] // B.shape[2]
    ys = []
    for t in range(x.shape[1]):
        b, c = (part[:, t].repeat_interleave(repeat, 1)[:, :, None] for part in (B, C))
        h = (A * dt[:, t, ..., None]).exp() * h + dt[:, t, ..., None] * b * x[:, t, ..., None]
        ys.append((h * c).sum(-1) + D * x[:, t])
    return torch.stack(ys, 1), h


def plain_convolution(x, weight, bias, silu):
    """x [batch, D, time]."""
    width = weight.shape[-1]
    y = F.conv1d(F.pad(x, (width - 1, 0)), weight[:, None], bias, groups=x.shape[1])
    return F.silu(y) if silu else y


def compare(what, ours, plain, given, bound=1e-10):
    """Results and gradients of two functions of the same tensors; None among them is handed on."""
    leaves = [[tensor if tensor is None else tensor.clone().requires_grad_() for tensor in given] for _ in range(2)]
    results = [run(*own) for run, own in zip((ours, plain), leaves)]
    results = [result if isinstance(result, tuple) else (result,) for result in results]
    cotangents = [draw(*result.shape).to(result.dtype) for result in results[0]]
    gradients = []
    for found, own in zip(results, leaves):
        wanted = [tensor for tensor in own if tensor is not None]
        total = sum((part * cotangent.to(part.dtype)).sum() for part, cotangent in zip(found, cotangents))
        gradients.append(torch.autograd.grad(total, wanted, allow_unused=True))
    for i, (found, expected) in enumerate(zip(*results)):
        close(f"{what}: result {i}", found, expected, bound)
    for i, (found, expected) in enumerate(zip(*gradients)):
        close(f"{what}: gradient {i}", found, expected, bound)


# ---- the functions -------------------------------------------------------------------------------------------------------------


def scan_operands(groups, dtype=f64, batch=2, time=21, heads=8, P=3, N=5):
    return [draw(batch, time, heads, P), draw(batch, time, heads), -draw(heads).abs(), draw(batch, time, groups, N),
            draw(batch, time, groups, N), draw(heads), draw(heads), draw(batch, heads, P, N)]


def test_chunk_scan():
    for groups, softplus, limit in ((1, True, (0.0, float("inf"))), (2, True, (0.3, 1.5)), (8, False, (0.1, 0.9))):
        def ours(x, dt, A, B, C, D, bias, h):
            return mamba2.mamba_chunk_scan_combined(x, dt, A, B, C, 16, D, bias, h, softplus, limit, True)

        def plain(x, dt, A, B, C, D, bias, h):
            delta = step_size(dt, bias, softplus, limit)[..., None].expand(x.shape)
            return plain_scan(x, delta, A[:, None, None], B, C, D[:, None], h)

        compare(f"mamba_chunk_scan_combined, {groups} groups", ours, plain, scan_operands(groups))
    x, dt, A, B, C, D, bias, h = scan_operands(2)
    z, wide = torch.randn_like(x), draw(8, 3)
    compare("mamba_chunk_scan_combined with z, D [heads, P], nothing else",
            lambda x, dt, z, D: mamba2.mamba_chunk_scan_combined(x, dt.abs(), A, B, C, 16, D, z=z),
            lambda x, dt, z, D: plain_scan(x, dt.abs()[..., None].expand(x.shape), A[:, None, None], B, C, D,
                                           torch.zeros_like(h))[0] * F.silu(z), [x, dt, z, wide])


def test_packed_scan():
    """seq_idx: two rows, of 3 and 2 sequences; a row's initial state is that of its first."""
    x, dt, A, B, C, D, bias, h = scan_operands(2)
    seq_idx = torch.tensor([[0] * 4 + [1] + [2] * 16, [0] * 9 + [1] * 12], dtype=torch.int32)

    def plain(x, dt, A, B, C, D, bias, h):
        delta, rows, finals = step_size(dt, bias, True)[..., None].expand(x.shape), [], []
        for row, cuts in enumerate(([0, 4, 5, 21], [0, 9, 21])):
            ys = []
            for first, end in zip(cuts, cuts[1:]):
                start = h[row:row + 1] if first == 0 else torch.zeros_like(h[:1])
                y, last = plain_scan(*(part[row:row + 1, first:end] for part in (x, delta)), A[:, None, None],
                                     *(part[row:row + 1, first:end] for part in (B, C)), D[:, None], start)
                ys.append(y)
            rows.append(torch.cat(ys, 1))
            finals.append(last)
        return torch.cat(rows), torch.cat(finals)

    compare("mamba_chunk_scan_combined, seq_idx", lambda x, dt, A, B, C, D, bias, h: mamba2.mamba_chunk_scan_combined(
        x, dt, A, B, C, 16, D, bias, h, True, return_final_states=True, seq_idx=seq_idx), plain, [x, dt, A, B, C, D, bias, h])
    offsets = torch.tensor([0, 4, 5, 21])
    ours = mamba2.mamba_chunk_scan_combined(x[:1], dt[:1], A, B[:1], C[:1], 16, D, bias, dt_softplus=True, cu_seqlens=offsets)
    theirs = mamba2.mamba_chunk_scan_combined(x[:1], dt[:1], A, B[:1], C[:1], 16, D, bias, dt_softplus=True, seq_idx=seq_idx[:1])
    check("cu_seqlens is seq_idx", torch.equal(ours, theirs))
    weight, bias, x = draw(6, 4), draw(6), draw(2, 6, 21)
    compare("causal_conv1d_fn, seq_idx", lambda x, w, b: convolution.causal_conv1d_fn(x, w, b, "silu", seq_idx=seq_idx),
            lambda x, w, b: torch.stack([torch.cat([plain_convolution(row[None, :, first:end], w, b, True)[0]
                                                    for first, end in zip(cuts, cuts[1:])], -1)
                                         for row, cuts in zip(x, ([0, 4, 5, 21], [0, 9, 21]))]), [x, weight, bias])


def test_selective_scan():
    batch, time, width, N = 2, 19, 6, 5
    for groups, gated, softplus in ((1, True, True), (2, False, True), (3, True, False)):
        B, C = ([draw(batch, N, time) for _ in range(2)] if groups == 1 else [draw(batch, groups, N, time) for _ in range(2)])
        z = draw(batch, width, time) if gated else None

        def ours(x, dt, A, B, C, D, z, bias):
            return mamba.selective_scan_fn(x, dt if softplus else dt.abs(), A, B, C, D, z, bias, softplus, True)

        def plain(x, dt, A, B, C, D, z, bias):
            delta = step_size((dt if softplus else dt.abs()).transpose(1, 2), bias, softplus, (None, float("inf")))
            tokens = [part.transpose(1, 2)[:, :, None] if groups == 1 else part.permute(0, 3, 1, 2) for part in (B, C)]
            y, h = plain_scan(x.transpose(1, 2)[..., None], delta[..., None], A[:, None], *tokens, D[:, None],
                              torch.zeros(batch, width, 1, N, dtype=f64))
            y = y[..., 0].transpose(1, 2)
            return y if z is None else y * F.silu(z), h[:, :, 0]

        compare(f"selective_scan_fn, {groups} groups", ours, plain, [
            draw(batch, width, time), draw(batch, width, time), -draw(width, N).abs(), B, C, draw(width), z, draw(width)])


def test_state_update():
    batch, heads, P, N = 2, 6, 4, 5
    for groups, tied in ((1, True), (2, True), (3, False)):
        x, z, state = draw(batch, heads, P), draw(batch, heads, P), draw(batch, heads, P, N)
        B, C = draw(batch, groups, N), draw(batch, groups, N)
        if tied:  # as Mamba-2's files spread them
            dt, A = draw(batch, heads, 1).expand(-1, -1, P), -draw(heads, 1, 1).abs().expand(-1, P, N)
            D, bias = draw(heads, 1).expand(-1, P), draw(heads, 1).expand(-1, P)
        else:
            dt, A, D, bias = draw(batch, heads, P), -draw(heads, P, N).abs(), draw(heads, P), draw(heads, P)
        expected, last = plain_scan(x[:, None], step_size(dt, bias, True)[:, None], A, B[:, None], C[:, None], D, state.clone())
        y = mamba2.selective_state_update(state, x, dt, A, B, C, D, dt_bias=bias, dt_softplus=True, z=z)
        close(f"selective_state_update, {groups} groups", y, expected[:, 0] * F.silu(z), 1e-10)
        close("its state", state, last, 1e-10)
    x, state, A, B, C = draw(2, 6), draw(2, 6, 5), -draw(6, 5).abs(), draw(2, 5), draw(2, 5)
    dt = draw(2, 6).abs()
    expected, last = plain_scan(x[:, None, :, None], dt[:, None, :, None], A[:, None], B[:, None, None], C[:, None, None],
                                torch.zeros(1, dtype=f64), state[:, :, None].clone())
    close("selective_state_update of Mamba", mamba.selective_state_update(state, x, dt, A, B, C), expected[:, 0, :, 0], 1e-10)
    close("its state", state, last[:, :, 0], 1e-10)


def test_convolution():
    for width, silu, biased in ((4, True, True), (3, False, True), (2, True, False)):
        compare(f"causal_conv1d_fn of {width}", lambda x, w, b: convolution.causal_conv1d_fn(x, w, b, "silu" if silu else None),
                lambda x, w, b: plain_convolution(x, w, b, silu), [draw(2, 6, 13), draw(6, width), draw(6) if biased else None])
    x, weight, bias = draw(2, 6, 13), draw(6, 4), draw(6)
    whole = plain_convolution(x, weight, bias, True)
    for kept in (3, 4, 7):
        state = F.pad(x[..., :5], (kept, 0))[..., -kept:].contiguous()
        found = [convolution.causal_conv1d_update(part, state, weight, bias, "silu") for part in x[..., 5:].split([1, 1, 4, 2], -1)]
        close(f"causal_conv1d_update of {kept} kept steps", torch.cat(found, -1), whole[..., 5:], 1e-10)
        check("its state", torch.equal(state, x[..., -kept:]))


def test_gated_norm():
    def plain(y, z, weight, groups, before):
        split = (y if before else y * F.silu(z)).unflatten(-1, (groups, -1))
        normed = (split * (split.square().mean(-1, keepdim=True) + 1e-3).rsqrt()).flatten(-2) * weight
        return normed * F.silu(z) if before else normed

    for groups, before in ((1, False), (3, False), (2, True)):
        compare(f"gated norm, {groups} groups", lambda y, z, w: mamba2.gated_norm(y, z, w, 1e-3, groups, before),
                lambda y, z, w: plain(y, z, w, groups, before), [draw(2, 5, 12), draw(2, 5, 12), draw(12)])


def test_types():
    """Tokens of 16 bits: as near to f64 as their rounding allows. A dt in f32 beside them is not rounded."""
    x, dt, A, B, C, D, bias, _ = scan_operands(2)
    narrow = [part.bfloat16() for part in (x, dt, B, C)]
    exact = mamba2.mamba_chunk_scan_combined(narrow[0].double(), narrow[1].double(), A, narrow[2].double(), narrow[3].double(), 16,
                                             D, bias, dt_softplus=True)
    found = mamba2.mamba_chunk_scan_combined(narrow[0], narrow[1], A.float(), *narrow[2:], 16, D.float(), bias.float(),
                                             dt_softplus=True)
    check("bfloat16 out", found.dtype is torch.bfloat16)
    close("bfloat16", found, exact, 2e-2)
    found = mamba2.mamba_chunk_scan_combined(narrow[0], narrow[1].float(), A.float(), *narrow[2:], 16, D.float(), bias.float(),
                                             dt_softplus=True)
    close("bfloat16 with dt in f32", found, exact, 1e-2)


# ---- whole models ------------------------------------------------------------------------------------------------------------

COMMON = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
MAMBA2 = {**COMMON, "state_size": 8, "chunk_size": 16, "head_dim": 8, "num_heads": 8}
HYBRID = {**COMMON, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
HEADS = {"mamba_d_state": 8, "mamba_d_head": 8, "mamba_n_heads": 8, "mamba_expand": 2, "mamba_chunk_size": 16}


def models():
    t = transformers
    yield "Mamba", t.MambaConfig(**COMMON, state_size=4)
    yield "Mamba", t.MambaConfig(**COMMON, state_size=4, use_bias=True, use_conv_bias=False, conv_kernel=3)
    for groups in (1, 2, 8):
        yield "Mamba2", t.Mamba2Config(**MAMBA2, n_groups=groups)
    yield "Mamba2", t.Mamba2Config(**MAMBA2, n_groups=2, time_step_limit=(0.01, 0.05), use_bias=True)
    yield "FalconMamba", t.FalconMambaConfig(**COMMON, state_size=4)
    yield "FalconH1", t.FalconH1Config(**HYBRID, **HEADS, mamba_d_ssm=64, mamba_n_groups=1)
    yield "FalconH1", t.FalconH1Config(**HYBRID, **HEADS, mamba_d_ssm=64, mamba_n_groups=2, mamba_rms_norm=True)
    yield "Bamba", t.BambaConfig(**HYBRID, **HEADS, attn_layer_indices=[1])
    yield "GraniteMoeHybrid", t.GraniteMoeHybridConfig(**HYBRID, **HEADS, shared_intermediate_size=48, num_local_experts=4,
                                                       num_experts_per_tok=2, layer_types=["mamba", "attention"])
    yield "Jamba", t.JambaConfig(**HYBRID, mamba_d_state=4, mamba_dt_rank=4, num_experts=2, num_experts_per_tok=1,
                                 attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1)
    yield "Zamba2", t.Zamba2Config(**HYBRID, mamba_d_state=8, mamba_headdim=8, n_mamba_heads=8, mamba_ngroups=2, chunk_size=16,
                                   layers_block_type=["mamba", "hybrid"], num_mem_blocks=1)
    yield "NemotronH", t.NemotronHConfig(**HYBRID, ssm_state_size=8, mamba_num_heads=8, mamba_head_dim=8, n_groups=2, chunk_size=16,
                                         head_dim=8, layers_block_type=["mamba", "attention"])
    yield "Lfm2", t.Lfm2Config(**HYBRID, layer_types=["conv", "full_attention"])


def made(name, config):
    model = getattr(transformers, name + "ForCausalLM")(config)
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases, too, are no longer 1 and 0
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def step(model, tokens, **settings):
    model.zero_grad()
    out = model(tokens, **settings)
    F.cross_entropy(out.logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    return out.logits.detach(), {name: parameter.grad.clone() for name, parameter in model.named_parameters()
                                 if parameter.grad is not None}


def both(run):
    """What it returns with transformers' own functions, and with rec's."""
    theirs = run()
    rec_lang.transformers.patch()
    try:
        return theirs, run()
    finally:
        rec_lang.transformers.unpatch()


def compare_steps(what, theirs, ours):
    close(f"{what}: logits", ours[0], theirs[0], 1e-5)
    check(f"{what}: the same parameters have gradients", theirs[1].keys() == ours[1].keys())
    largest = max(float(gradient.abs().max()) for gradient in theirs[1].values())
    worst = max((float((ours[1][name] - theirs[1][name]).abs().max()) / max(float(theirs[1][name].abs().max()), 1e-3 * largest), name)
                for name in theirs[1])
    check(f"{what}: gradient of {worst[1]} apart by {worst[0]:.2g}", worst[0] <= 1e-4)


def test_model(what, model):
    tokens = torch.randint(3, 40, (2, 21))
    for training in (True, False):
        model.train(training)
        compare_steps(f"{what}, {'training' if training else 'evaluation'}", *both(lambda: step(model, tokens)))
    mask = torch.ones_like(tokens)
    mask[0, :6] = 0
    with torch.no_grad():
        theirs, ours = both(lambda: model(tokens, attention_mask=mask).logits)
        close(f"{what}, padded", ours[mask.bool()], theirs[mask.bool()], 1e-5)
        settings = {} if what == "FalconH1" and LOSES_A_TOKEN else {"attention_mask": mask}
        theirs, ours = both(lambda: model.generate(tokens, **settings, max_new_tokens=8, min_new_tokens=8, do_sample=False))
        check(f"{what}: generate gives other tokens", torch.equal(theirs, ours))


# Which of rec's recurrences have run: a model that does not reach them would agree with itself.
reached = set()


def note_kernels():
    for module in (convolution, mamba, mamba2):
        def noting(file, name, *sizes, original=module.kernel, **more):
            reached.add(name)
            return original(file, name, *sizes, **more)

        module.kernel = noting


def scans_of(model):
    """What a model must reach in a prompt, in training and in generation, beside convolutions."""
    kinds = {type(module).__name__ for module in model.modules()}
    if any(name.startswith("Lfm2") for name in kinds):
        return set()
    if any(name in ("MambaMixer", "FalconMambaMixer", "JambaMambaMixer") for name in kinds):
        return {"mamba_selective_scan_gated", "mamba_selective_scan_gated_step"}
    return {"mamba_chunk_scan", "mamba_chunk_scan_step"}


def test_models():
    note_kernels()
    for name, config in models():
        what = name
        reached.clear()
        try:
            model = made(name, config)
            test_model(what, model)
            missing = scans_of(model) - reached
            convolutions = {kernel for kernel in reached if kernel.startswith("causal_conv1d")}
            check(f"{what} has reached {reached}", not missing and len(convolutions) >= 2)
        except Exception as error:  # of a library whose arguments have changed, say
            check(f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}", False)


def test_prepare():
    """prepare() compiles what a training step, a prompt and its continuation call for, and changes nothing else."""
    tokens = torch.randint(3, 40, (2, 21))
    asked = []
    compile_all = rec_lang.compile_all
    rec_lang.compile_all = lambda calls: asked.append(len(calls)) or compile_all(calls)
    for name, config in (("Mamba", transformers.MambaConfig(**COMMON, state_size=6, conv_kernel=2)),
                         ("Mamba2", transformers.Mamba2Config(**{**MAMBA2, "state_size": 6, "conv_kernel": 2}, n_groups=4))):
        for training in (True, False):
            model = made(name, config).train(training)
            kernels._modules.clear()
            asked.clear()
            try:
                rec_lang.transformers.prepare(model)
                check(f"{name}: prepare() before patch()", False)
            except RuntimeError as error:
                check(f"{name}: prepare() before patch(): {error}", "expected patch() before" in str(error))
            rec_lang.transformers.patch()
            drawn = torch.get_rng_state()
            rec_lang.transformers.prepare(model)
            count = {("Mamba2", True): 3}.get((name, training), 2)
            check(f"{name}, training {training}: asked for {asked}, expected {count} at once", asked == [count])
            check(f"{name}: prepare() draws nothing", torch.equal(torch.get_rng_state(), drawn))
            step(model, tokens)
            if not training:
                model.generate(tokens, attention_mask=torch.ones_like(tokens), max_new_tokens=3, do_sample=False)
            check(f"{name}, training {training}: then asked for {asked[1:]}", len(asked) == 1)
            kernels._modules.clear()
            asked.clear()
            step(model, tokens)
            check(f"{name}, training {training}, not prepared: asked for {asked}", asked == ([count] if training else [1, 1]))
            rec_lang.transformers.unpatch()
    rec_lang.compile_all = compile_all
    try:
        kernels.together(*(kernels.library("kda", torch.float32, **sizes) for sizes in ({"K": 8, "V": 8}, {"X": 8})))
        said = "nothing"
    except rec_lang.CompileError as error:
        said = str(error)
    check(f"a mistake names its library: {said}", said.startswith("recc std.ops.kda --emit=torch --dtype f32 --target host -D X=8:\n")
          and "found 'X'" in said)


def continued(model, tokens, mask, last):
    """The logits of one more token behind a prompt, by the prompt's cache."""
    with torch.no_grad():
        cache = model(tokens, attention_mask=mask, use_cache=True).cache_params
        return model(last, cache_params=cache).logits[:, -1]


def test_right_padding():
    """What transformers' issue 48256 tells of: a prompt that is padded at the right leaves a wrong cache, the same one with rec."""
    for name, config in (("Mamba", transformers.MambaConfig(**COMMON)), ("Mamba2", transformers.Mamba2Config(**MAMBA2, n_groups=2))):
        model, tokens, last = made(name, config).eval(), torch.randint(3, 40, (2, 12)), torch.randint(3, 40, (2, 1))
        mask = torch.ones_like(tokens)
        mask[0, 8:] = 0
        theirs, ours = both(lambda: continued(model, tokens, mask, last))
        close(f"{name}: behind padding at the right", ours, theirs, 1e-5)
        alone = both(lambda: continued(model, tokens[:1, :8], None, last[:1]))
        close(f"{name}: the same text without padding", *reversed(alone), 1e-5)
        check(f"{name}: the README says that padding at the right is wrong", apart(theirs[:1], alone[0]) > 1e-2)
        rolled = torch.cat([tokens[:, 8:], tokens[:, :8]], 1)
        left = torch.cat([mask[:, 8:], mask[:, :8]], 1)
        left[1] = 1
        close(f"{name}: padding at the left is right", both(lambda: continued(model, rolled, left, last))[1][:1], alone[1], 1e-5)


def test_limits():
    """Limits of dt in Mamba-2: a prompt and training have them, a step of a text goes without, in transformers as with rec."""
    model = made("Mamba2", transformers.Mamba2Config(**MAMBA2, n_groups=2, time_step_limit=(0.01, 0.05))).eval()
    tokens = torch.randint(3, 40, (2, 12))
    with torch.no_grad():
        whole = both(lambda: model(tokens).logits[:, -1])
    steps = both(lambda: continued(model, tokens[:, :-1], None, tokens[:, -1:]))
    close("limits of dt: a prompt", whole[1], whole[0], 1e-5)
    close("limits of dt: a step", steps[1], steps[0], 1e-5)
    check("limits of dt: the README says that a step goes without them", apart(steps[0], whole[0]) > 1e-3)


def test_packed_model():
    """Sequences in one row, kept apart by seq_idx: the results of each alone. transformers alone refuses them."""
    model = made("Mamba2", transformers.Mamba2Config(**MAMBA2, n_groups=2)).backbone
    tokens = torch.randint(3, 40, (1, 21))
    seq_idx = torch.tensor([[0] * 8 + [1] * 13], dtype=torch.int32)
    for training in (True, False):
        model.train(training)
        rec_lang.transformers.patch()
        packed = model(tokens, seq_idx=seq_idx, use_cache=False)[0]
        rec_lang.transformers.unpatch()
        alone = torch.cat([model(part, use_cache=False)[0] for part in tokens.split([8, 13], 1)], 1)
        close(f"packed sequences of a model, training {training}", packed, alone, 1e-5)


# ---- patch and unpatch -------------------------------------------------------------------------------------------------------


def test_versions():
    """A version of transformers that no test has run with."""
    version = transformers.__version__
    ends = [".".join(map(str, end)) for end in (registry._OLDEST, registry._NEWEST)]
    check(f"the accepted range {ends} ends where it is tested, found {version}", VERSION in (registry._OLDEST, registry._NEWEST))
    said = []
    for other in ("5.18.0", "6.0.0.dev0"):
        transformers.__version__ = other
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                rec_lang.transformers.patch()
                said += [str(warning.message) for warning in caught]
            except ImportError as error:
                said.append(str(error))
            rec_lang.transformers.unpatch()
    transformers.__version__ = version
    check(f"other versions are told: {said}", said == [
        f"rec_lang.transformers: expected transformers {ends[0]} to {ends[1]}, found 5.18.0",
        f"rec_lang.transformers: expected transformers {ends[0]} to {ends[1]}, found 6.0.0.dev0, which it has not been tried with"])


def test_patch():
    from transformers.models.mamba2 import modeling_mamba2
    names = sorted(set(rec_lang.transformers.functions()) & vars(modeling_mamba2).keys())
    theirs = [getattr(modeling_mamba2, name) for name in names]
    rec_lang.transformers.patch()
    rec_lang.transformers.patch()
    check("all functions of a file are replaced", all(getattr(modeling_mamba2, name).theirs is own for name, own in zip(names, theirs)))
    from transformers.models.lfm2_moe import modeling_lfm2_moe  # a file that is imported later
    check("and those of a file that is imported later", hasattr(modeling_lfm2_moe.causal_conv1d_fn, "theirs"))
    x, weight = torch.randn(1, 3, 9), torch.randn(3, 6)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = modeling_mamba2.causal_conv1d_fn(x, weight)
    close("a call without a kernel is transformers' own", found, plain_convolution(x, weight, None, False), 1e-6)
    check("and is told", [str(warning.message) for warning in said] == [
        "causal_conv1d_fn: expected a convolution of 2 to 4 steps, found 6; transformers' own function is used"])
    rec_lang.transformers.unpatch()
    check("unpatch gives all back", [getattr(modeling_mamba2, name) for name in names] == theirs
          and not hasattr(modeling_lfm2_moe.causal_conv1d_fn, "theirs"))


for test in (test_chunk_scan, test_packed_scan, test_selective_scan, test_state_update, test_convolution, test_gated_norm, test_types,
             test_versions, test_patch, test_prepare, test_right_padding, test_limits, test_models, test_packed_model):
    try:
        test()
    except Exception as error:
        import traceback
        traceback.print_exc()
        check(f"{test.__name__}: {type(error).__name__}: {error}", False)
print(f"{passed} passed, {failed} failed")
