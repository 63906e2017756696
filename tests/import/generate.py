"""Makes small Hugging Face folders with the names and shapes of public models: generate.py FOLDER.

The lists below follow the modules of transformers, state-spaces/mamba and flash-linear-attention; numbers are pseudo-random.
Files are written as the libraries do: safetensors, and torch.save's zip archive with a pickle of protocol 2.
"""
import collections
import json
import os
import pickle
import random
import struct
import sys
import types
import zipfile


def projection_biases(mixer, rows, D):
    yield mixer + "in_proj.bias", [rows]
    yield mixer + "out_proj.bias", [D]


def mamba(table, D=8, E=16, K=2, N=4, W=4, layers=2, symbols=24, forms=False):
    yield f"backbone.{table}.weight", [symbols, D]
    for i in range(layers):
        layer = f"backbone.layers.{i}."
        yield layer + "norm.weight", [D]
        mixer = layer + "mixer."
        yield mixer + "A_log", [E, N]
        yield mixer + "D", [E]
        yield mixer + "in_proj.weight", [2 * E, D]
        yield mixer + "conv1d.weight", [E, 1, W]
        yield from projection_biases(mixer, 2 * E, D) if forms else [(mixer + "conv1d.bias", [E])]
        yield mixer + "x_proj.weight", [K + 2 * N, E]
        yield mixer + "dt_proj.weight", [E, K]
        yield mixer + "dt_proj.bias", [E]
        yield mixer + "out_proj.weight", [D, E]
    yield "backbone.norm_f.weight", [D]


def mamba2(D=8, E=16, P=4, N=4, G=2, W=4, layers=2, symbols=24, forms=False):
    H = E // P
    yield "backbone.embeddings.weight", [symbols, D]
    for i in range(layers):
        layer = f"backbone.layers.{i}."
        yield layer + "norm.weight", [D]
        mixer = layer + "mixer."
        yield mixer + "A_log", [H]
        yield mixer + "D", [H]
        yield mixer + "dt_bias", [H]
        yield mixer + "in_proj.weight", [2 * E + 2 * G * N + H, D]
        yield mixer + "conv1d.weight", [E + 2 * G * N, 1, W]
        yield from projection_biases(mixer, 2 * E + 2 * G * N + H, D) if forms else [(mixer + "conv1d.bias", [E + 2 * G * N])]
        yield mixer + "norm.weight", [E]
        yield mixer + "out_proj.weight", [D, E]
    yield "backbone.norm_f.weight", [D]


def gated(layers, attention, D=8, F=12, symbols=24, tied=False):
    yield "model.embeddings.weight", [symbols, D]
    for i in range(layers):
        layer = f"model.layers.{i}."
        yield layer + "attn_norm.weight", [D]
        for name, shape in attention:
            yield layer + "attn." + name, shape
        yield layer + "mlp_norm.weight", [D]
        yield layer + "mlp.gate_proj.weight", [F, D]
        yield layer + "mlp.up_proj.weight", [F, D]
        yield layer + "mlp.down_proj.weight", [D, F]
    yield "model.norm.weight", [D]
    if not tied:
        yield "lm_head.weight", [symbols, D]


def gla(D=8, K=4, V=8, H=2, L=16):
    return gated(2, [("q_proj.weight", [K, D]), ("k_proj.weight", [K, D]), ("v_proj.weight", [V, D]), ("g_proj.weight", [V, D]),
                     ("gk_proj.0.weight", [L, D]), ("gk_proj.1.weight", [K, L]), ("gk_proj.1.bias", [K]),
                     ("o_proj.weight", [D, V]), ("g_norm_swish_gate.weight", [V // H])])


def gated_deltanet(D=8, H=2, K=3, V=6, W=4):
    return gated(2, [("A_log", [H]), ("dt_bias", [H]), ("q_proj.weight", [H * K, D]), ("k_proj.weight", [H * K, D]),
                     ("v_proj.weight", [H * V, D]), ("a_proj.weight", [H, D]), ("b_proj.weight", [H, D]),
                     ("q_conv1d.weight", [H * K, 1, W]), ("k_conv1d.weight", [H * K, 1, W]),
                     ("v_conv1d.weight", [H * V, 1, W]), ("g_proj.weight", [H * V, D]), ("o_norm.weight", [V]),
                     ("o_proj.weight", [D, H * V])])


def gla_forms(D=8, K=4, V=8, H=2, L=16, W=3):
    """Both heads of queries share the keys, values and decays of one; short convolutions; the gate apart from the norm."""
    return gated(2, [("q_proj.weight", [K, D]), ("k_proj.weight", [K // H, D]), ("v_proj.weight", [V // H, D]),
                     ("q_conv1d.weight", [K, 1, W]), ("k_conv1d.weight", [K // H, 1, W]), ("v_conv1d.weight", [V // H, 1, W]),
                     ("g_proj.weight", [V, D]), ("gk_proj.0.weight", [L, D]), ("gk_proj.1.weight", [K // H, L]),
                     ("gk_proj.1.bias", [K // H]), ("o_proj.weight", [D, V]), ("g_norm.weight", [V // H])])


def gated_deltanet_forms(D=8, H=2, R=2, K=3, V=4):
    """R heads of values for each of keys; no convolutions and no gate."""
    return gated(2, [("A_log", [H * R]), ("dt_bias", [H * R]), ("q_proj.weight", [H * K, D]), ("k_proj.weight", [H * K, D]),
                     ("v_proj.weight", [H * R * V, D]), ("a_proj.weight", [H * R, D]), ("b_proj.weight", [H * R, D]),
                     ("o_norm.weight", [V]), ("o_proj.weight", [D, H * R * V])])


def norm(name, D):
    yield name + ".weight", [D]
    yield name + ".bias", [D]


def rwkv6(D=8, H=2, K=2, V=4, R=3, L=5, F=12, layers=2, symbols=24):
    yield "model.embeddings.weight", [symbols, D]
    for i in range(layers):
        layer = f"model.layers.{i}."
        if i == 0:
            yield from norm(layer + "pre_norm", D)
        yield from norm(layer + "attn_norm", D)
        attn = layer + "attn."
        yield attn + "x_bias", [5, D]
        yield attn + "bonus", [H, K]
        yield attn + "x_proj.0.mu", [D]
        yield attn + "x_proj.0.linear.weight", [5 * R, D]
        yield attn + "x_proj.2.weight", [D, 5 * R]
        yield attn + "r_proj.linear.weight", [H * K, D]
        yield attn + "w_proj.linear.lora.0.weight", [L, D]
        yield attn + "w_proj.linear.lora.2.weight", [H * K, L]
        yield attn + "w_proj.linear.lora.2.bias", [H * K]
        yield attn + "k_proj.linear.weight", [H * K, D]
        yield attn + "v_proj.linear.weight", [H * V, D]
        yield attn + "g_proj.linear.weight", [H * V, D]
        yield from norm(attn + "g_norm", H * V)
        yield attn + "o_proj.weight", [D, H * V]
        yield from norm(layer + "ffn_norm", D)
        ffn = layer + "ffn."
        yield ffn + "key.mu", [D]
        yield ffn + "key.linear.weight", [F, D]
        yield ffn + "value.weight", [D, F]
        yield ffn + "receptance.mu", [D]
        yield ffn + "receptance.linear.weight", [D, D]
    yield from norm("model.norm", D)
    yield "lm_head.weight", [symbols, D]


def rwkv7(D=8, H=2, K=4, LW=3, LA=5, LG=6, LV=2, F=12, layers=3, symbols=24):
    yield "model.embeddings.weight", [symbols, D]
    for i in range(layers):
        layer = f"model.layers.{i}."
        if i == 0:
            yield from norm(layer + "pre_norm", D)
        yield from norm(layer + "attn_norm", D)
        attn = layer + "attn."
        for stream in "rwkvag":
            yield attn + "x_" + stream, [1, 1, D]
        yield attn + "k_k", [D]
        yield attn + "k_a", [D]
        yield attn + "r_k", [H, K]
        for name in "rkvo":
            yield attn + name + "_proj.weight", [D, D]
        for name, rank in (("w", LW), ("v", LV), ("a", LA), ("g", LG)):
            if name == "v" and i == 0:
                continue
            yield attn + name + "_lora.lora.0.weight", [rank, D]
            yield attn + name + "_lora.lora.2.weight", [D, rank]
            if name != "g":
                yield attn + name + "_lora.lora.2.bias", [D]
        yield from norm(attn + "g_norm", D)
        yield from norm(layer + "ffn_norm", D)
        yield layer + "ffn.x_k", [D]
        yield layer + "ffn.key.weight", [F, D]
        yield layer + "ffn.value.weight", [D, F]
    yield from norm("model.norm", D)
    yield "lm_head.weight", [symbols, D]


MAMBA2 = {"model_type": "mamba2", "hidden_size": 8, "state_size": 4, "num_hidden_layers": 2, "expand": 2, "head_dim": 4,
          "num_heads": 4, "n_groups": 2, "conv_kernel": 4, "vocab_size": 24}

MODELS = {
    "mamba": (list(mamba("embeddings")), {"model_type": "mamba", "hidden_size": 8, "state_size": 4, "num_hidden_layers": 2,
              "expand": 2, "conv_kernel": 4, "time_step_rank": 2, "vocab_size": 24, "use_bias": False}),
    "original": (list(mamba("embedding")), {"d_model": 8, "n_layer": 2, "vocab_size": 20, "ssm_cfg": {"d_state": 4},
                 "rms_norm": True, "residual_in_fp32": True, "pad_vocab_size_multiple": 8}),
    # As state-spaces/mamba-130m-hf: transformers' settings, beside those of the config that it was converted from.
    "mamba-both": (list(mamba("embeddings")), {"architectures": ["MambaForCausalLM"], "model_type": "mamba", "conv_kernel": 4,
                   "d_inner": 16, "d_model": 8, "expand": 2, "fused_add_norm": True, "hidden_act": "silu", "hidden_size": 8,
                   "intermediate_size": 16, "layer_norm_epsilon": 1e-5, "n_layer": 2, "num_hidden_layers": 2,
                   "pad_vocab_size_multiple": 8, "rms_norm": True, "ssm_cfg": {}, "state_size": 4, "time_step_rank": 2,
                   "use_bias": False, "use_conv_bias": True, "vocab_size": 24}),
    "mamba2": (list(mamba2()), {**MAMBA2, "time_step_limit": [0.0, {"__float__": "Infinity"}], "time_step_scale": 1.0}),
    "mamba-forms": (list(mamba("embeddings", forms=True)), {"model_type": "mamba", "hidden_size": 8, "state_size": 4,
                    "num_hidden_layers": 2, "expand": 2, "conv_kernel": 4, "time_step_rank": 2, "vocab_size": 24,
                    "use_bias": True, "use_conv_bias": False, "layer_norm_epsilon": 1e-3}),
    "mamba2-forms": (list(mamba2(forms=True)), {**MAMBA2, "use_bias": True, "use_conv_bias": False, "layer_norm_epsilon": 0.001,
                     "time_step_limit": [0.0, float("inf")]}),
    # transformers reads none of the settings behind its own, as Codestral's config has them.
    "mamba2-unread": (list(mamba2()), {**MAMBA2, "layer_norm_epsilon": 1e-5, "norm_before_gate": True, "rms_norm": False,
                      "rmsnorm": False, "D_has_hdim": True, "dt_limit": [0.1, 0.2], "ssm_cfg": {"expand": 4, "d_state": 9}}),
    # flash-linear-attention does.
    "mamba2-fla": (list(mamba2()), {**MAMBA2, "norm_eps": 1e-3, "norm_before_gate": True, "rmsnorm": True, "rms_norm": False,
                   "dt_limit": [0.0, float("inf")], "hidden_act": "swish"}),
    "gla": (list(gla()), {"model_type": "gla", "hidden_size": 8, "num_hidden_layers": 2, "num_heads": 2, "expand_k": 0.5,
            "expand_v": 1, "norm_eps": 1e-6, "vocab_size": 24, "attn": None, "tie_word_embeddings": False}),
    "gla-forms": (list(gla_forms()), {"model_type": "gla", "hidden_size": 8, "num_hidden_layers": 2, "num_heads": 2,
                  "num_kv_heads": 1, "expand_k": 0.5, "expand_v": 1.0, "use_short_conv": True, "conv_size": 3,
                  "feature_map": "relu", "fuse_norm": False, "norm_eps": 1e-3, "vocab_size": 24, "tie_word_embeddings": False}),
    "gated_deltanet-forms": (list(gated_deltanet_forms()), {"model_type": "gated_deltanet", "hidden_size": 8,
                             "num_hidden_layers": 2, "num_heads": 2, "num_v_heads": 4, "head_dim": 3, "expand_v": 4 / 3,
                             "use_short_conv": False, "use_gate": False, "allow_neg_eigval": True, "vocab_size": 24,
                             "tie_word_embeddings": False}),
    "gated_deltanet": (list(gated_deltanet()), {"model_type": "gated_deltanet", "hidden_size": 8, "num_hidden_layers": 2,
                       "num_heads": 2, "head_dim": 3, "expand_v": 2, "conv_size": 4, "vocab_size": 24,
                       "tie_word_embeddings": False}),
    "rwkv6": (list(rwkv6()), {"model_type": "rwkv6", "hidden_size": 8, "num_hidden_layers": 2, "num_heads": 2, "expand_k": 0.5,
              "expand_v": 1.0, "proj_low_rank_dim": 3, "gate_low_rank_dim": 5, "vocab_size": 24, "tie_word_embeddings": False}),
    "rwkv7": (list(rwkv7()), {"model_type": "rwkv7", "hidden_size": 8, "num_hidden_layers": 3, "head_dim": 4,
              "decay_low_rank_dim": 3, "a_low_rank_dim": 5, "gate_low_rank_dim": 6, "v_low_rank_dim": 2, "vocab_size": 24,
              "tie_word_embeddings": False}),
    # As many symbols as RWKV World has.
    "world": (list(rwkv7(D=4, H=1, F=4, layers=2, symbols=65536)), {"model_type": "rwkv7", "hidden_size": 4, "head_dim": 4,
              "num_hidden_layers": 2, "vocab_size": 65536, "tie_word_embeddings": False}),
}


def count(shape):
    n = 1
    for size in shape:
        n *= size
    return n


def numbers(name, shape, dtype):
    draw = random.Random(name)
    values = [draw.uniform(-0.5, 0.5) for _ in range(count(shape))]
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    return struct.pack(f"<{len(bits)}H", *(b >> 16 for b in bits))


def write_safetensors(path, tensors):
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


# What torch.save pickles, without torch: classes and functions of the same names.
torch = types.ModuleType("torch")
torch_utils = types.ModuleType("torch._utils")
sys.modules["torch"], sys.modules["torch._utils"] = torch, torch_utils


def _rebuild_tensor_v2(*_):
    raise NotImplementedError


_rebuild_tensor_v2.__module__, _rebuild_tensor_v2.__qualname__ = "torch._utils", "_rebuild_tensor_v2"
torch_utils._rebuild_tensor_v2 = _rebuild_tensor_v2
for storage_name in ("FloatStorage", "BFloat16Storage"):
    setattr(torch, storage_name, type(storage_name, (), {"__module__": "torch", "__qualname__": storage_name}))


class Storage:
    def __init__(self, kind, key, size):
        self.kind, self.key, self.size = kind, key, size


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = (storage, offset, tuple(shape), tuple(strides), False, collections.OrderedDict())

    def __reduce_ex__(self, protocol):
        return _rebuild_tensor_v2, self.arguments


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if isinstance(value, Storage):
            return "storage", value.kind, value.key, "cpu", value.size
        return None


def write_torch(path, tensors, transposed=()):
    state, storages = collections.OrderedDict(), []
    state._metadata = collections.OrderedDict([("", {"version": 1})])
    for name, dtype, shape, data in tensors:
        size = 4 if dtype == "F32" else 2
        strides = [count(shape[i + 1:]) for i in range(len(shape))]
        if name in transposed:  # stored column by column, as a transposed matrix is
            rows, columns = shape
            data = b"".join(data[(r * columns + c) * size:][:size] for c in range(columns) for r in range(rows))
            strides = [1, rows]
        kind = torch.FloatStorage if dtype == "F32" else torch.BFloat16Storage
        storage = Storage(kind, str(len(storages)), len(data) // size + 3)
        storages.append(b"\7" * (3 * size) + data)
        state[name] = Tensor(storage, 3, shape, strides)
    folder = os.path.basename(path).removesuffix(".bin")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(f"{folder}/data.pkl", "w") as file:
            Pickler(file, protocol=2).dump(state)
        archive.writestr(f"{folder}/byteorder", "little")
        for number, data in enumerate(storages):
            archive.writestr(f"{folder}/data/{number}", data)
        archive.writestr(f"{folder}/version", "3\n")


def write_sharded(folder, stem, extension, write, tensors):
    index, parts = {}, [tensors[0::2], tensors[1::2]]
    for number, part in enumerate(parts):
        name = f"{stem}-{number + 1:05}-of-00002.{extension}"
        write(os.path.join(folder, name), part)
        index.update({tensor[0]: name for tensor in part})
    with open(os.path.join(folder, f"{stem}.{extension}.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": 1}, "weight_map": index}, file)


def make(folder, model, dtype="F32", torch_file=False, sharded=False, change=None):
    shapes, config = MODELS[model]
    os.makedirs(folder)
    tensors = [[name, "F32" if name.endswith("A_log") else dtype, shape] for name, shape in shapes]
    tensors = [(name, kind, shape, numbers(name, shape, kind)) for name, kind, shape in tensors]
    config = dict(config)
    if change:
        tensors, config = change(tensors, config)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    if torch_file:
        write = lambda path, part: write_torch(path, part, [t[0] for t in tensors if t[0].endswith("out_proj.weight")])
        stem, extension = "pytorch_model", "bin"
    else:
        write, stem, extension = write_safetensors, "model", "safetensors"
    if sharded:
        write_sharded(folder, stem, extension, write, tensors)
    else:
        write(os.path.join(folder, f"{stem}.{extension}"), tensors)


def with_tied_head(tensors, config):
    table = tensors[0]
    return tensors + [("lm_head.weight", *table[1:])], config


def misfits(tensors, config):
    kept = [t for t in tensors if not t[0].endswith("layers.1.mixer.D")]
    kept = [(n, d, [4, 8] if n.endswith("layers.0.mixer.dt_proj.weight") else s, b) for n, d, s, b in kept]
    kept = [(n, "I32" if n.endswith("norm_f.weight") else d, s, b) for n, d, s, b in kept]
    return kept + [("backbone.layers.0.mixer.in_proj.bias", "F32", [2], bytes(8))], config


def with_numbers(name, places):
    """The tensor of that name with other numbers at some places."""
    def change(tensors, config):
        def changed(data):
            numbers = list(struct.unpack(f"<{len(data) // 4}f", data))
            for place, number in places.items():
                numbers[place] = number
            return struct.pack(f"<{len(numbers)}f", *numbers)
        return [(n, d, s, changed(b) if n == name else b) for n, d, s, b in tensors], config
    return change


def with_words(folder):
    """A tokenizer beside the model: <s>, which begins each text, </s>, and a letter for each other token."""
    texts = ["<s>", "</s>", *"abcdefghijklmnopqrstuv"]
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump({"post_processor": template, "decoder": {"type": "Fuse"}, "added_tokens": [{"id": 1, "content": "</s>", "special": True}],
                   "model": {"type": "BPE", "vocab": {text: i for i, text in enumerate(texts)}, "merges": []}}, file)


def main(root):
    for model in MODELS:
        make(os.path.join(root, model), model)
        if "-" not in model and model != "world":
            make(os.path.join(root, model + "-bin"), model, torch_file=True)
    make(os.path.join(root, "mamba-bf16"), "mamba", dtype="BF16")
    make(os.path.join(root, "mamba-shards"), "mamba", dtype="BF16", sharded=True)
    make(os.path.join(root, "gla-bin-shards"), "gla", torch_file=True, sharded=True)
    make(os.path.join(root, "tied"), "original", torch_file=True, change=with_tied_head)
    make(os.path.join(root, "misfits"), "mamba", change=misfits)
    make(os.path.join(root, "nan"), "mamba", change=with_numbers("backbone.layers.1.mixer.D", {3: float("nan"), 5: -float("inf")}))
    make(os.path.join(root, "large"), "mamba", change=with_numbers("backbone.layers.0.mixer.D", {2: 65519.0, 4: -70000.0}))
    make(os.path.join(root, "clamped-gla"), "gla", change=lambda t, c: (t, {**c, "clamp_min": -0.5}))
    make(os.path.join(root, "either"), "mamba2-fla", change=lambda t, c: (t, {**c, "layer_norm_epsilon": 1e-3}))
    make(os.path.join(root, "two-eps"), "mamba2", change=lambda t, c: (t, {**c, "norm_eps": 1e-3, "layer_norm_epsilon": 1e-5}))
    make(os.path.join(root, "unnamed"), "gla", change=lambda t, c: (t, {k: v for k, v in c.items() if k != "model_type"}))
    make(os.path.join(root, "silu"), "gla", change=lambda t, c: (t, {**c, "hidden_act": "silu"}))
    make(os.path.join(root, "cut"), "mamba2", change=lambda t, c: (t, {**c, "time_step_limit": [0.0, 0.5]}))
    make(os.path.join(root, "grouped"), "mamba2", change=lambda t, c: ([(n.replace("embeddings", "embedding"), *r) for n, *r in t],
         {"d_model": 8, "n_layer": 2, "vocab_size": 24, "ssm_cfg": {"layer": "Mamba2", "d_state": 4, "headdim": 4, "ngroups": 2}}))
    make(os.path.join(root, "open-ranks"), "rwkv7", change=lambda t, c: (t, {k: v for k, v in c.items() if "low_rank" not in k}))
    make(os.path.join(root, "many-shared"), "gla", change=lambda t, c: (t, {**c, "num_kv_heads": 3}))
    make(os.path.join(root, "llama"), "gla", change=lambda t, c: (t, {**c, "model_type": "llama"}))
    make(os.path.join(root, "words"), "gla", change=lambda t, c: (t, {**c, "eos_token_id": [1, 1]}))
    with_words(os.path.join(root, "words"))
    with open(os.path.join(root, "code.bin"), "wb") as file:
        pickle.dump(print, file, protocol=2)
    with zipfile.ZipFile(os.path.join(root, "run.bin"), "w") as archive:
        archive.writestr("run/data.pkl", b"\x80\x02cos\nsystem\nq\x00X\x04\x00\x00\x00trueq\x01\x85q\x02Rq\x03.")


main(sys.argv[1])
