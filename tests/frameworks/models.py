"""Small random models of transformers and flash-linear-attention, against rec: models.py make|compare FOLDER.

make saves each model as FOLDER/NAME, a folder of the library's own save_pretrained. compare reads what `rec generate --logits`
wrote of it (NAME.logits, NAME.tokens) and the folder that `rec export` made (NAME.back): the logits of the library's model must be
those of rec, and what it loads from the export the same model again. It prints a line `NAME ok` or `NAME FAILED: why` for each.
"""
import os
import sys
import warnings

import interpreter  # before torch

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.filterwarnings("ignore")


import torch
import transformers

transformers.logging.set_verbosity_error()

COMMON = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2}
MAMBA2 = {**COMMON, "state_size": 8, "conv_kernel": 4, "expand": 2, "chunk_size": 16, "head_dim": 8}

# What weights do not tell, or what no model of the library computes with.
NOT_TOLD = ("feature_map", "allow_neg_eigval", "output_gate_activation", "chunk_size", "residual_in_fp32")


def transformers_models():
    from transformers import Mamba2Config, Mamba2ForCausalLM, MambaConfig, MambaForCausalLM
    mamba = {**COMMON, "state_size": 4, "expand": 2}
    yield "mamba", MambaForCausalLM, MambaConfig(**mamba)
    yield "mamba-untied", MambaForCausalLM, MambaConfig(**mamba, tie_word_embeddings=False, conv_kernel=3, time_step_rank=8)
    yield "mamba-forms", MambaForCausalLM, MambaConfig(**mamba, use_bias=True, use_conv_bias=False, layer_norm_epsilon=1e-3)
    yield "mamba2-1-group", Mamba2ForCausalLM, Mamba2Config(**MAMBA2, num_heads=8, n_groups=1)
    yield "mamba2-2-groups", Mamba2ForCausalLM, Mamba2Config(**MAMBA2, num_heads=8, n_groups=2, tie_word_embeddings=True)
    yield "mamba2-8-groups", Mamba2ForCausalLM, Mamba2Config(**MAMBA2, num_heads=8, n_groups=8)
    yield "mamba2-forms", Mamba2ForCausalLM, Mamba2Config(**MAMBA2, num_heads=8, n_groups=4, use_bias=True, use_conv_bias=False,
                                                          layer_norm_epsilon=1e-3)


def fla_models():
    import fla.models as fla
    blocks = {**COMMON, "intermediate_size": 48}
    gla = {**blocks, "num_heads": 4}
    yield "fla-mamba", fla.MambaForCausalLM, fla.MambaConfig(**COMMON, state_size=4, norm_eps=1e-3)
    yield "fla-mamba2", fla.Mamba2ForCausalLM, fla.Mamba2Config(**MAMBA2, n_groups=1, norm_eps=1e-3)
    yield "gla", fla.GLAForCausalLM, fla.GLAConfig(**gla)
    yield "gla-forms", fla.GLAForCausalLM, fla.GLAConfig(**gla, num_kv_heads=2, use_short_conv=True, conv_size=3, norm_eps=1e-3,
                                                         feature_map="relu", tie_word_embeddings=True)
    yield "gla-without-gate", fla.GLAForCausalLM, fla.GLAConfig(**gla, use_output_gate=False, expand_k=1.0)
    delta = {**blocks, "num_heads": 2, "head_dim": 8}
    yield "gated_deltanet", fla.GatedDeltaNetForCausalLM, fla.GatedDeltaNetConfig(**delta)
    yield "gated_deltanet-forms", fla.GatedDeltaNetForCausalLM, fla.GatedDeltaNetConfig(
        **delta, num_v_heads=4, allow_neg_eigval=True, use_gate=False, expand_v=1.0, norm_eps=1e-3)
    yield "gated_deltanet-without-convolution", fla.GatedDeltaNetForCausalLM, fla.GatedDeltaNetConfig(
        **delta, use_short_conv=False, output_gate_activation="sigmoid")
    yield "rwkv6", fla.RWKV6ForCausalLM, fla.RWKV6Config(**blocks, num_heads=4, proj_low_rank_dim=4, gate_low_rank_dim=6)
    yield "rwkv7", fla.RWKV7ForCausalLM, fla.RWKV7Config(**blocks, head_dim=8, decay_low_rank_dim=4, gate_low_rank_dim=8,
                                                         a_low_rank_dim=4, v_low_rank_dim=4)


def models():
    yield from transformers_models()
    yield from fla_models()


def make(root):
    for name, kind, config in models():
        torch.manual_seed(len(name))
        model = kind(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():  # norms and biases, too, are no longer 1 and 0
                parameter.add_(0.2 * torch.randn_like(parameter))
        model.save_pretrained(os.path.join(root, name))
        print(name)


def logits(model, tokens):
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0].double()


def apart(model, tokens, found):
    expected = logits(model, tokens)[len(tokens) - len(found):]
    return float((expected - found).abs().max() / expected.abs().max())


def same(a, b):
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):  # what a file says is a list, what it does not a tuple
        return list(a) == list(b)
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def differences(before, after):
    """Equal configs and equal weights are the same model."""
    return [key for key in before | after if key != "_name_or_path"
            and not (key in before and key in after and same(before[key], after[key]))]


def compare_one(root, name, kind):
    from safetensors.torch import load_file
    path = os.path.join(root, name)
    with open(path + ".tokens") as file:
        tokens = [int(word) for word in file.read().split()]
    found = load_file(path + ".logits")["logits"].double()
    model, back, told = (kind.from_pretrained(path + end, dtype=torch.float32).eval() for end in ("", ".back", ".told"))
    changed = differences(model.config.to_dict(), back.config.to_dict()) + differences(model.state_dict(), back.state_dict())
    if changed:
        return f"FAILED: its export differs in {', '.join(changed)}"
    changed = [key for key in differences(model.config.to_dict(), told.config.to_dict())
               if key in model.config.to_dict() and key not in NOT_TOLD]
    changed += differences(model.state_dict(), told.state_dict())
    if changed:
        return f"FAILED: its export without the config differs in {', '.join(changed)}"
    distance = apart(model, tokens[:-1], found)
    return "ok" if distance <= 1e-5 else f"FAILED: logits apart by {distance:.2g}"


def compare(root):
    for name, kind, _ in models():
        try:
            print(name, compare_one(root, name, kind), flush=True)
        except Exception as error:  # a library that refuses what rec wrote is what is looked for
            print(name, "FAILED:", " ".join(str(error).split())[:300], flush=True)


interpreter.run_triton_on_the_host()
{"make": make, "compare": compare}[sys.argv[1]](sys.argv[2])
