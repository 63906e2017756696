"""Small random models whose recurrences rec computes (rec_lang.transformers), against the same models without rec: logits,
gradients of all weights, generated tokens.

    hybrids.py transformers       delta rules in transformers, beside its own code in torch
    hybrids.py fla [full]         flash-linear-attention, beside its Triton kernels in Triton's interpreter; full: more models

Prints FAILED lines and `N passed, N failed`.
"""
import os
import sys
import warnings

library, full = sys.argv[1], sys.argv[2:] == ["full"]
os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")
if library == "fla":
    import interpreter  # before torch
else:
    sys.modules["fla"] = None  # transformers would prefer it to its own code

import torch
import accelerator  # noqa: F401  before transformers
import transformers

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "python"))
import rec_lang.transformers
from rec_lang.transformers import flash_linear_attention, linear_attention

transformers.logging.set_verbosity_error()
torch.set_num_threads(1)
passed = failed = 0


def check(what, true):
    global passed, failed
    passed, failed = passed + bool(true), failed + (not true)
    if not true:
        print("FAILED frameworks/hybrids:", what, flush=True)


# ---- models --------------------------------------------------------------------------------------------------------------

SMALL = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "pad_token_id": None, "bos_token_id": None,
         "eos_token_id": None}


def transformers_models():
    attention = {**SMALL, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    layers = {"num_hidden_layers": 3, "layer_types": ["linear_attention", "full_attention", "linear_attention"]}
    heads = {"linear_key_head_dim": 16, "linear_value_head_dim": 8, "linear_num_key_heads": 2, "linear_num_value_heads": 4}
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16}
    yield transformers.Qwen3NextForCausalLM, transformers.Qwen3NextConfig(**attention, **layers, **heads, **experts)
    yield transformers.Qwen3_5ForCausalLM, transformers.Qwen3_5TextConfig(**attention, **layers, **heads)
    yield transformers.OlmoHybridForCausalLM, transformers.OlmoHybridConfig(
        **{**attention, "num_key_value_heads": 2}, **layers, **{**heads, "linear_num_value_heads": 2})
    latent = {"kv_lora_rank": 8, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, "num_local_experts": 4,
              "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    yield transformers.KimiLinearForCausalLM, transformers.KimiLinearConfig(
        **SMALL, **layers, **latent, num_attention_heads=2, num_key_value_heads=2, linear_head_dim=16, linear_num_heads=2)


def fla_models():
    import fla.models as fla
    small = {**SMALL, "num_hidden_layers": 2}
    delta = {**small, "num_heads": 2, "head_dim": 16}
    yield fla.GLAForCausalLM, fla.GLAConfig(**small, num_heads=2)
    yield fla.KDAForCausalLM, fla.KDAConfig(**delta)
    yield fla.RWKV6ForCausalLM, fla.RWKV6Config(**small, num_heads=2, proj_low_rank_dim=4, gate_low_rank_dim=6)
    yield fla.RWKV7ForCausalLM, fla.RWKV7Config(**small, head_dim=16, decay_low_rank_dim=4, gate_low_rank_dim=8,
                                                a_low_rank_dim=4, v_low_rank_dim=4)
    if full:
        yield fla.GatedDeltaNetForCausalLM, fla.GatedDeltaNetConfig(**delta, num_v_heads=4)
        yield fla.DeltaNetForCausalLM, fla.DeltaNetConfig(**small, num_heads=2)


def make(kind, config):
    torch.manual_seed(1)
    model = kind(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


calls = []  # recurrences that rec has been asked for
_kernel = linear_attention.kernel
linear_attention.kernel = lambda file, *rest, **sizes: calls.append(file) or _kernel(file, *rest, **sizes)

# ---- what a model gives --------------------------------------------------------------------------------------------------


def results(model, time):
    """Logits, gradients by weight, and the tokens that a prompt goes on with."""
    tokens = torch.randint(40, (2, time), generator=torch.Generator().manual_seed(2))
    model.zero_grad()
    logits = model(input_ids=tokens, use_cache=False).logits
    torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten()).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    with torch.no_grad():
        written = model.generate(input_ids=tokens[:1, :6], max_new_tokens=4, do_sample=False)
    return logits.detach(), gradients, written


def error(found, expected):
    if expected is None or found is None:
        return 0.0 if found is expected else float("inf")
    return float((found - expected).abs().max() / expected.abs().max().clamp(min=1e-6))


def compare(kind, config, patch, unpatch, time):
    name, model = kind.__name__, make(kind, config)
    logits, gradients, written = results(model, time)
    check(f"{name}: computed by rec before patch()", not calls)
    patch()
    found_logits, found_gradients, found_written = results(model, time)
    unpatch()
    check(f"{name}: not computed by rec", calls)
    calls.clear()
    check(f"{name}: logits: error {error(found_logits, logits):.1e}", error(found_logits, logits) <= 1e-4)
    for weight, gradient in gradients.items():
        apart = error(found_gradients[weight], gradient)
        check(f"{name}: gradient of {weight}: error {apart:.1e}", apart <= 1e-3)
    check(f"{name}: generated {found_written.tolist()}, expected {written.tolist()}", torch.equal(found_written, written))


if library == "fla":
    interpreter.run_triton_on_the_host()
    models, of, time = fla_models(), flash_linear_attention, 10
else:
    models, of, time = transformers_models(), rec_lang.transformers, 70
for kind, config in models:
    compare(kind, config, of.patch, of.unpatch, time)
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
