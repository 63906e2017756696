"""The models of transformers on rec's kernels beside transformers' own functions: `drop_in.py [NAME ..]`.

Small random models in f32: a training step (forward, backward) and the forward pass over a prompt, and the recurrences alone.
Both ways run in turn; the figures are medians of the CPU time of the whole process, in ms, so that what else runs on the machine
matters little. With two threads that counts what torch's threads spin while they wait; the time by the clock stands beside it.

`kernels` is the share of rec's time that is in rec's kernels, by torch's profiler. `bound` is how many times faster the model were if
these took no time: the rest, matrix products and attention, is torch's in both ways.

    build/frameworks/bin/python3 tools/bench/drop_in.py [NAME ..]
"""
import argparse
import os
import sys
import time
import warnings

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "python"))
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # torch's profiler tells of no GPU
warnings.filterwarnings("ignore")

sys.modules["fla"] = None  # transformers would prefer it to its own code, and it does not run on a CPU

import torch
import transformers

import rec_lang.transformers

transformers.logging.set_verbosity_error()
WIDTH = {"vocab_size": 256, "hidden_size": 768, "num_hidden_layers": 2}
TIME = 1024
SHORT = 128  # for Mamba's scan: the time of transformers' own, a loop over slices, grows with the square of the length


def models():
    yield "mamba", "MambaForCausalLM", transformers.MambaConfig(**WIDTH)
    yield "mamba2", "Mamba2ForCausalLM", transformers.Mamba2Config(**WIDTH, num_heads=24, head_dim=64, n_groups=1, state_size=128)
    yield "mamba2-8-groups", "Mamba2ForCausalLM", transformers.Mamba2Config(**WIDTH, num_heads=24, head_dim=64, n_groups=8,
                                                                           state_size=128)
    yield "falcon_h1", "FalconH1ForCausalLM", transformers.FalconH1Config(
        **WIDTH, intermediate_size=1024, num_attention_heads=12, num_key_value_heads=4, mamba_d_ssm=1536, mamba_n_heads=24,
        mamba_d_head=64, mamba_n_groups=1, mamba_d_state=128)
    yield "granitemoehybrid", "GraniteMoeHybridForCausalLM", transformers.GraniteMoeHybridConfig(
        **WIDTH, intermediate_size=512, shared_intermediate_size=1024, num_attention_heads=12, num_key_value_heads=4,
        num_local_experts=0, num_experts_per_tok=0, mamba_n_heads=24, mamba_d_head=64, mamba_d_state=128,
        layer_types=["mamba", "attention"])
    yield "jamba", "JambaForCausalLM", transformers.JambaConfig(
        **WIDTH, intermediate_size=1024, num_attention_heads=12, num_key_value_heads=4, num_experts=1, attn_layer_period=2,
        attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1)
    attention = {**WIDTH, "intermediate_size": 1024, "num_attention_heads": 6, "num_key_value_heads": 2}
    yield "qwen3_5", "Qwen3_5ForCausalLM", transformers.Qwen3_5TextConfig(
        **attention, layer_types=["linear_attention", "full_attention"], linear_num_key_heads=4, linear_num_value_heads=8)
    yield "kimi_linear", "KimiLinearForCausalLM", transformers.KimiLinearConfig(
        **{**attention, "num_key_value_heads": 6}, layer_types=["linear_attention", "full_attention"], linear_num_heads=6,
        kv_lora_rank=128, mlp_layer_types=["dense", "dense"], pad_token_id=None, bos_token_id=None, eos_token_id=None)
    yield "lfm2", "Lfm2ForCausalLM", transformers.Lfm2Config(
        **WIDTH, intermediate_size=1024, num_attention_heads=12, num_key_value_heads=4, layer_types=["conv", "full_attention"])


def recurrences():
    """(name, function of the tensors, the tensors), each at the sizes of the models above."""
    from transformers.models.kimi_linear import modeling_kimi_linear
    from transformers.models.mamba import modeling_mamba
    from transformers.models.mamba2 import modeling_mamba2
    from transformers.models.qwen3_next import modeling_qwen3_next
    draw = torch.randn
    q, k, v, beta = draw(1, TIME, 8, 128), draw(1, TIME, 8, 128), draw(1, TIME, 8, 128), torch.rand(1, TIME, 8)
    settings = {"initial_state": None, "output_final_state": False, "use_qk_l2norm_in_kernel": True}
    yield ("chunk_gated_delta_rule", lambda *x: modeling_qwen3_next.torch_chunk_gated_delta_rule(*x, **settings)[0],
           (q, k, v, -0.1 * torch.rand(1, TIME, 8), beta))
    yield ("chunk_kda", lambda *x: modeling_kimi_linear.chunk_kimi_delta_attention(*x, **settings)[0],
           (q, k, v, -0.1 * torch.rand(1, TIME, 8, 128), beta))
    x, dt = draw(1, TIME, 24, 64), draw(1, TIME, 24)
    A, bias, D = -torch.rand(24) - 0.5, draw(24) - 3, draw(24)
    for groups in (1, 8):
        B, C = draw(1, TIME, groups, 128), draw(1, TIME, groups, 128)
        yield (f"mamba_chunk_scan_combined, {groups} groups", lambda x, dt, A, B, C, D, bias: modeling_mamba2.mamba2_chunk_scan(
            x, dt, A, B, C, chunk_size=256, D=D, dt_bias=bias, dt_softplus=True), (x, dt, A, B, C, D, bias))
    u, delta, z = draw(1, 1536, SHORT), draw(1, 1536, SHORT), draw(1, 1536, SHORT)
    A, D, bias = -torch.rand(1536, 16) * 16 - 0.5, draw(1536), draw(1536) - 3
    yield ("selective_scan_fn", lambda u, dt, A, B, C, D, z, bias: modeling_mamba.mamba_selective_scan(
        u, dt, A, B, C, D=D, z=z, delta_bias=bias, delta_softplus=True), (u, delta, A, draw(1, 16, SHORT),
                                                                     draw(1, 16, SHORT), D, z, bias))
    x, weight, bias = draw(1, TIME, 1792).transpose(1, 2), draw(1792, 4), draw(1792)
    yield "causal_conv1d_fn", lambda x, w, b: modeling_mamba2.causal_conv1d_fn(x, w, b, activation="silu"), (x, weight, bias)


def times(run):
    clock, cpu = time.perf_counter(), time.process_time()
    run()
    return 1e3 * (time.process_time() - cpu), 1e3 * (time.perf_counter() - clock)


def median(numbers):
    return sorted(numbers)[len(numbers) // 2]


def share_of_kernels(run):
    """Of the time of a run, in operators of rec."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        run()
    spent = {event.key: event.self_cpu_time_total for event in profile.key_averages()}
    return sum(time for name, time in spent.items() if name.startswith("rec_")) / sum(spent.values())


def compare(what, run, rounds):
    """Both ways in turn, after one round that is not counted."""
    taken = {False: [], True: []}
    for turn in range(rounds + 1):
        for ours in (True, False):
            (rec_lang.transformers.patch if ours else rec_lang.transformers.unpatch)()
            spent = times(run)
            if turn:
                taken[ours].append(spent)
    rec_lang.transformers.patch()
    share = share_of_kernels(run)
    rec_lang.transformers.unpatch()
    (cpu, clock), (cpu_theirs, clock_theirs) = ([median(column) for column in zip(*taken[ours])] for ours in (True, False))
    print(f"{what:48} {cpu:9.1f} {cpu_theirs:9.1f} {cpu_theirs / cpu:6.1f}x {clock:9.1f} {clock_theirs:9.1f} {clock_theirs / clock:6.1f}x "
          f"{100 * share:7.0f}% {cpu_theirs / (cpu * (1 - share)):6.1f}x", flush=True)


def bench_model(name, kind, config, rounds):
    torch.manual_seed(1)
    model = getattr(transformers, kind)(config)
    tokens = torch.randint(config.vocab_size, (1, SHORT if name in ("mamba", "jamba") else TIME))

    def train():
        model.zero_grad(set_to_none=True)
        model(tokens, labels=tokens).loss.backward()

    def prefill():
        with torch.no_grad():
            model(tokens, use_cache=True)

    model.train()
    compare(f"{name}, training step", train, rounds)
    model.eval()
    compare(f"{name}, prompt", prefill, rounds)


def bench_recurrence(name, function, tensors, rounds):
    given = [tensor.clone().requires_grad_() for tensor in tensors]
    cotangents = {}  # by strides: each way gets them as its own results lie

    def forward():
        with torch.no_grad():
            function(*given)

    def gradients():
        y = function(*given)
        if y.stride() not in cotangents:
            cotangents[y.stride()] = torch.randn_like(y)
        torch.autograd.grad(y, given, cotangents[y.stride()])

    compare(f"{name}, forward", forward, rounds)
    compare(f"{name}, with gradients", gradients, rounds)


def main():
    words = argparse.ArgumentParser()
    words.add_argument("names", nargs="*")
    words.add_argument("--rounds", type=int, default=5)
    words.add_argument("--threads", default="1,2")
    words = words.parse_args()
    for threads in words.threads.split(","):
        torch.set_num_threads(int(threads))
        print(f"{threads + ' thread(s)':48} {'CPU: rec':>9} {'theirs':>9} {'':7} {'rec':>9} {'theirs':>9} {'':7} {'kernels':>8} {'bound':>7}")
        for row in recurrences():
            if not words.names or row[0].split(",")[0] in words.names:
                bench_recurrence(*row, words.rounds)
        for row in models():
            if not words.names or row[0] in words.names:
                bench_model(*row, words.rounds)


main()
