"""The logits of public models, one token after another, straight from their files: reference.py FOLDER LOGITS TOKEN...

FOLDER has model.safetensors and config.json; LOGITS is what `rec generate --logits` wrote while it went on with the TOKENs it had
read; the tokens that it wrote follow after `then`. Prints how far the logits are apart, and fails beyond --tolerance.

Written after the modules of transformers (mamba, mamba2), state-spaces/mamba and flash-linear-attention as plain loops over
numbers, with nothing of rec in it: what this and rec agree on is not due to a common mistake about order or transposition.
"""
import array
import json
import math
import struct
import sys


# ---- numbers ----------------------------------------------------------------------------------------

def read(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    codes = {"F32": "f", "F64": "d"}
    return {name: Tensor(t["shape"], array.array(codes[t["dtype"]], data[slice(*t["data_offsets"])])) for name, t in header.items()}


class Tensor:
    """Numbers row after row, as torch has them."""

    def __init__(self, shape, numbers):
        self.shape, self.numbers = shape, list(numbers)

    def row(self, i):
        width = len(self.numbers) // self.shape[0]
        return self.numbers[i * width:(i + 1) * width]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def apply(weight, x, bias=None):
    """torch's Linear: row i of the weight makes output i."""
    y = [dot(weight.row(i), x) for i in range(weight.shape[0])]
    return [a + b for a, b in zip(y, bias.numbers)] if bias else y


def add(a, b):
    return [x + y for x, y in zip(a, b)]


def times(a, b):
    return [x * y for x, y in zip(a, b)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return math.log1p(math.exp(x))


def each(function, x):
    return [function(a) for a in x]


def rms(x, weight, eps):
    scale = (sum(a * a for a in x) / len(x) + eps) ** -0.5
    return [a * scale * w for a, w in zip(x, weight)]


def layer_norm(x, weight, bias, eps):
    mean = sum(x) / len(x)
    scale = (sum((a - mean) ** 2 for a in x) / len(x) + eps) ** -0.5
    return [(a - mean) * scale * w + b for a, w, b in zip(x, weight, bias)]


def heads(x, count):
    width = len(x) // count
    return [x[i * width:(i + 1) * width] for i in range(count)]


def unit(x, eps):
    scale = (sum(a * a for a in x) + eps) ** -0.5
    return [a * scale for a in x]


def matrix(rows, columns):
    return [[0.0] * columns for _ in range(rows)]


def heads_of_values(x, count):
    """One head for each of `count` that share it in turn, those of one side by side."""
    return [x[i // count] for i in range(count * len(x))]


class Convolution:
    """A causal convolution of each channel by itself; the last weight is the present token's."""

    def __init__(self, weight, bias=None):
        self.weight, self.bias = weight, bias
        self.past = [[0.0] * weight.shape[0] for _ in range(weight.shape[2])]

    def __call__(self, x):
        self.past = self.past[1:] + [x]
        y = [dot(self.weight.row(c), [p[c] for p in self.past]) for c in range(len(x))]
        return each(silu, add(y, self.bias.numbers) if self.bias else y)


# ---- layers: an object of the weights below a prefix, called once for each token --------------------

class Layer:
    def __init__(self, weights, prefix):
        self.weights, self.prefix = weights, prefix

    def __getitem__(self, name):
        return self.weights[self.prefix + name]

    def get(self, name):
        return self.weights.get(self.prefix + name)

    def linear(self, name, x):
        return apply(self[name + ".weight"], x, self.get(name + ".bias"))


class Mamba(Layer):
    def __init__(self, weights, prefix, config):
        super().__init__(weights, prefix)
        self.conv = Convolution(self["conv1d.weight"], self.get("conv1d.bias"))
        self.E, self.N = self["A_log"].shape
        self.K = self["dt_proj.weight"].shape[1]
        self.h = matrix(self.E, self.N)

    def __call__(self, u):
        xz = self.linear("in_proj", u)
        x, z = self.conv(xz[:self.E]), xz[self.E:]
        low = apply(self["x_proj.weight"], x)
        B, C = low[self.K:self.K + self.N], low[self.K + self.N:]
        dt = each(softplus, self.linear("dt_proj", low[:self.K]))
        y = []
        for e in range(self.E):
            A = self["A_log"].row(e)
            self.h[e] = [h * math.exp(-math.exp(a) * dt[e]) + dt[e] * x[e] * b for h, a, b in zip(self.h[e], A, B)]
            y.append((dot(self.h[e], C) + self["D"].numbers[e] * x[e]) * silu(z[e]))
        return self.linear("out_proj", y)


def eps_of(config):
    return config.get("layer_norm_epsilon", config.get("norm_eps", 1e-5))


class Mamba2(Layer):
    def __init__(self, weights, prefix, config):
        super().__init__(weights, prefix)
        self.conv = Convolution(self["conv1d.weight"], self.get("conv1d.bias"))
        self.eps = eps_of(config)
        self.norm_first = config.get("norm_before_gate", False) and "norm_eps" in config  # flash-linear-attention reads it
        self.H, self.E = self["A_log"].shape[0], self["norm.weight"].shape[0]
        self.P, self.N, self.G = self.E // self.H, config["state_size"], config["n_groups"]
        self.h = [matrix(self.P, self.N) for _ in range(self.H)]

    def __call__(self, u):
        row, width = self.linear("in_proj", u), self.E + 2 * self.G * self.N
        z, dt = row[:self.E], row[self.E + width:]
        xBC = self.conv(row[self.E:self.E + width])
        x = heads(xBC[:self.E], self.H)
        B, C = (heads(part, self.G) for part in (xBC[self.E:self.E + self.G * self.N], xBC[self.E + self.G * self.N:]))
        y = []
        for i in range(self.H):
            g = i // (self.H // self.G)
            step = softplus(dt[i] + self["dt_bias"].numbers[i])
            decay = math.exp(-math.exp(self["A_log"].numbers[i]) * step)
            for p in range(self.P):
                self.h[i][p] = [decay * h + step * b * x[i][p] for h, b in zip(self.h[i][p], B[g])]
                y.append(dot(self.h[i][p], C[g]) + self["D"].numbers[i] * x[i][p])
        gate, scales = each(silu, z), heads(self["norm.weight"].numbers, self.G)
        gated = y if self.norm_first else times(y, gate)
        gated = [x for part, scale in zip(heads(gated, self.G), scales) for x in rms(part, scale, self.eps)]
        return self.linear("out_proj", times(gated, gate) if self.norm_first else gated)


class Attention(Layer):
    """What GLA and Gated DeltaNet have in common: projections behind convolutions or not, and the gated norm of each head."""

    def __init__(self, weights, prefix, config, norm):
        super().__init__(weights, prefix)
        self.H, self.eps, self.norm = config["num_heads"], config.get("norm_eps", 1e-6), norm
        self.convs = {name: Convolution(self[name + "_conv1d.weight"]) for name in "qkv" if self.get(name + "_conv1d.weight")}

    def project(self, name, u):
        x = apply(self[name + "_proj.weight"], u)
        return self.convs[name](x) if self.convs else x

    def finish(self, y, u):
        y = [x for head in y for x in rms(head, self[self.norm + ".weight"].numbers, self.eps)]
        if self.get("g_proj.weight"):
            y = times(y, each(silu, apply(self["g_proj.weight"], u)))
        return apply(self["o_proj.weight"], y)


class GLA(Attention):
    def __init__(self, weights, prefix, config):
        super().__init__(weights, prefix, config, "g_norm_swish_gate" if config.get("fuse_norm", True) else "g_norm")
        self.shared = config.get("num_kv_heads", self.H)
        self.map = {None: lambda x: x, "relu": lambda x: max(x, 0)}[config.get("feature_map")]
        K, V = self["q_proj.weight"].shape[0] // self.H, self["v_proj.weight"].shape[0] // self.shared
        self.S, self.K = [matrix(K, V) for _ in range(self.H)], K

    def __call__(self, u):
        q = heads(each(self.map, self.project("q", u)), self.H)
        gate = self.linear("gk_proj.1", apply(self["gk_proj.0.weight"], u))
        k, v, gate = (heads_of_values(heads(x, self.shared), self.H // self.shared)
                      for x in (each(self.map, self.project("k", u)), self.project("v", u), gate))
        y = []
        for h in range(self.H):
            decay = [math.exp(-softplus(-a) / 16) for a in gate[h]]
            self.S[h] = [[a * s + kk * vv for s, vv in zip(row, v[h])] for row, a, kk in zip(self.S[h], decay, k[h])]
            y.append([self.K ** -0.5 * dot(q[h], column) for column in zip(*self.S[h])])
        return self.finish(y, u)


class GatedDeltaNet(Attention):
    def __init__(self, weights, prefix, config):
        super().__init__(weights, prefix, config, "o_norm")
        self.K, self.values, self.most = config["head_dim"], config.get("num_v_heads", self.H), 1 + config.get("allow_neg_eigval", False)
        V = self["v_proj.weight"].shape[0] // self.values
        self.S = [matrix(self.K, V) for _ in range(self.values)]

    def __call__(self, u):
        q, k, v = (self.project(name, u) if self.convs else each(silu, self.project(name, u)) for name in "qkv")
        q, k = (heads_of_values(heads(x, self.H), self.values // self.H) for x in (q, k))
        v = heads(v, self.values)
        a, b = apply(self["a_proj.weight"], u), each(sigmoid, apply(self["b_proj.weight"], u))
        y = []
        for h in range(self.values):
            decay = math.exp(-math.exp(self["A_log"].numbers[h]) * softplus(a[h] + self["dt_bias"].numbers[h]))
            kk = unit(k[h], 1e-6)
            S = [[decay * s for s in row] for row in self.S[h]]
            wrong = [vv - dot(kk, column) for vv, column in zip(v[h], zip(*S))]
            self.S[h] = [[s + self.most * b[h] * x * w for s, w in zip(row, wrong)] for row, x in zip(S, kk)]
            y.append([self.K ** -0.5 * dot(unit(q[h], 1e-6), column) for column in zip(*self.S[h])])
        return self.finish(y, u)


class Shifted(Layer):
    """Layers that read the token before: zeros before the first."""

    def change(self, u):
        before, self.before = getattr(self, "before", [0.0] * len(u)), u
        return [b - a for a, b in zip(u, before)]


def lean(u, change, mu):
    return [a + c * m for a, c, m in zip(u, change, mu)]


class RWKV6(Shifted):
    def __init__(self, weights, prefix, config):
        super().__init__(weights, prefix)
        self.H, self.D = config["num_heads"], config["hidden_size"]
        self.K, self.V = self["r_proj.linear.weight"].shape[0] // self.H, self["v_proj.linear.weight"].shape[0] // self.H
        self.S = [matrix(self.K, self.V) for _ in range(self.H)]

    def __call__(self, u):
        change = self.change(u)
        low = each(math.tanh, apply(self["x_proj.0.linear.weight"], lean(u, change, self["x_proj.0.mu"].numbers)))
        R, spread = len(low) // 5, self["x_proj.2.weight"]
        streams = []
        for s in range(5):
            mix = [dot(spread.row(d)[s * R:(s + 1) * R], low[s * R:(s + 1) * R]) for d in range(self.D)]
            streams.append(lean(u, change, add(mix, self["x_bias"].row(s))))
        ur, uw, uk, uv, ug = streams
        r, k, v, g = (apply(self[n + "_proj.linear.weight"], x) for n, x in (("r", ur), ("k", uk), ("v", uv), ("g", ug)))
        low = each(math.tanh, apply(self["w_proj.linear.lora.0.weight"], uw))
        w = [math.exp(-math.exp(x)) for x in self.linear("w_proj.linear.lora.2", low)]
        r, k, v, w = (heads(x, self.H) for x in (r, k, v, w))
        scale, shift = (heads(self["g_norm." + n].numbers, self.H) for n in ("weight", "bias"))
        y = []
        for h in range(self.H):
            bonus = self["bonus"].row(h)
            seen = [[s + b * kk * vv for s, vv in zip(row, v[h])] for row, b, kk in zip(self.S[h], bonus, k[h])]
            o = [dot(r[h], column) for column in zip(*seen)]
            self.S[h] = [[a * s + kk * vv for s, vv in zip(row, v[h])] for row, a, kk in zip(self.S[h], w[h], k[h])]
            y += layer_norm(o, scale[h], shift[h], 1e-5)
        return apply(self["o_proj.weight"], times(y, each(silu, g)))


class RWKV6MLP(Shifted):
    def __call__(self, u):
        change = self.change(u)
        k = apply(self["key.linear.weight"], lean(u, change, self["key.mu"].numbers))
        r = apply(self["receptance.linear.weight"], lean(u, change, self["receptance.mu"].numbers))
        return times(each(sigmoid, r), apply(self["value.weight"], [max(a, 0) ** 2 for a in k]))


class RWKV7(Shifted):
    def __init__(self, weights, prefix, config):
        super().__init__(weights, prefix)
        self.K = config["head_dim"]
        self.H = config["hidden_size"] // self.K
        self.V = self["v_proj.weight"].shape[0] // self.H
        self.S = [matrix(self.K, self.V) for _ in range(self.H)]

    def lora(self, name, activation, x):
        return self.linear(name + ".lora.2", each(activation, apply(self[name + ".lora.0.weight"], x)))

    def __call__(self, u, first):
        change, same = self.change(u), lambda a: a
        r, w, k, v, a, g = (lean(u, change, self["x_" + n].numbers) for n in "rwkvag")
        r, key = apply(self["r_proj.weight"], r), apply(self["k_proj.weight"], k)
        value = apply(self["v_proj.weight"], v)
        if first is None:
            first = value
        else:
            share = each(sigmoid, self.lora("v_lora", same, v))
            value = [x + s * (f - x) for x, f, s in zip(value, first, share)]
        decay = [math.exp(-math.exp(-0.5) * sigmoid(x)) for x in self.lora("w_lora", math.tanh, w)]
        rate, gate = each(sigmoid, self.lora("a_lora", same, a)), self.lora("g_lora", sigmoid, g)
        erase = times(key, self["k_k"].numbers)
        k = [x * (1 + (s - 1) * m) for x, s, m in zip(key, rate, self["k_a"].numbers)]
        r, k, v, erase, decay, rate = (heads(x, self.H) for x in (r, k, value, erase, decay, rate))
        scale, shift = (heads(self["g_norm." + n].numbers, self.H) for n in ("weight", "bias"))
        y = []
        for h in range(self.H):
            kk = unit(erase[h], 1e-6)  # of its fused norm; torch's own, without it, differs by 1e-5 here
            read = [dot(kk, column) for column in zip(*self.S[h])]
            self.S[h] = [[d * s - e * x * c + q * vv for s, c, vv in zip(row, read, v[h])]
                         for row, d, e, x, q in zip(self.S[h], decay[h], kk, rate[h], k[h])]
            o = layer_norm([dot(r[h], column) for column in zip(*self.S[h])], scale[h], shift[h], self.K * 1e-5)
            bonus = sum(x * q * m for x, q, m in zip(r[h], k[h], self["r_k"].row(h)))
            y += [x + bonus * vv for x, vv in zip(o, v[h])]
        return apply(self["o_proj.weight"], times(y, gate)), first


class RWKV7MLP(Shifted):
    def __call__(self, u):
        k = apply(self["key.weight"], lean(u, self.change(u), self["x_k"].numbers))
        return apply(self["value.weight"], [max(a, 0) ** 2 for a in k])


# ---- models -----------------------------------------------------------------------------------------

def count_layers(weights, prefix):
    return 1 + max(int(name.removeprefix(prefix).split(".")[0]) for name in weights if name.startswith(prefix))


def mamba_model(weights, config, kind):
    """Embedding, layers behind norms, norm, the embedding again."""
    eps = eps_of(config)
    table = weights.get("backbone.embeddings.weight") or weights["backbone.embedding.weight"]
    layers = [(weights[f"backbone.layers.{i}.norm.weight"].numbers, kind(weights, f"backbone.layers.{i}.mixer.", config))
              for i in range(count_layers(weights, "backbone.layers."))]

    def run(token):
        x = table.row(token)
        for weight, layer in layers:
            x = add(x, layer(rms(x, weight, eps)))
        return apply(table, rms(x, weights["backbone.norm_f.weight"].numbers, eps))
    return run


def gated_model(weights, config, kind):
    """flash-linear-attention's blocks: attention and a gated MLP."""
    eps = config.get("norm_eps", 1e-6)
    layers = [Layer(weights, f"model.layers.{i}.") for i in range(config["num_hidden_layers"])]
    attentions = [kind(weights, layer.prefix + "attn.", config) for layer in layers]

    def run(token):
        x = weights["model.embeddings.weight"].row(token)
        for layer, attention in zip(layers, attentions):
            x = add(x, attention(rms(x, layer["attn_norm.weight"].numbers, eps)))
            n = rms(x, layer["mlp_norm.weight"].numbers, eps)
            inner = times(each(silu, apply(layer["mlp.gate_proj.weight"], n)), apply(layer["mlp.up_proj.weight"], n))
            x = add(x, apply(layer["mlp.down_proj.weight"], inner))
        return apply(weights["lm_head.weight"], rms(x, weights["model.norm.weight"].numbers, eps))
    return run


def rwkv_model(weights, config, attention, mlp):
    layers = [Layer(weights, f"model.layers.{i}.") for i in range(config["num_hidden_layers"])]
    attentions = [attention(weights, layer.prefix + "attn.", config) for layer in layers]
    mlps = [mlp(weights, layer.prefix + "ffn.") for layer in layers]

    def norm(layer, name, x):
        return layer_norm(x, layer[name + ".weight"].numbers, layer[name + ".bias"].numbers, 1e-5)

    def run(token):
        x, first = weights["model.embeddings.weight"].row(token), None
        for i, layer in enumerate(layers):
            if i == 0:
                x = norm(layer, "pre_norm", x)
            n = norm(layer, "attn_norm", x)
            if attention is RWKV7:
                y, first = attentions[i](n, first)
            else:
                y = attentions[i](n)
            x = add(x, y)
            x = add(x, mlps[i](norm(layer, "ffn_norm", x)))
        return apply(weights["lm_head.weight"], norm(Layer(weights, "model."), "norm", x))
    return run


def model_of(folder):
    weights = read(folder + "/model.safetensors")
    with open(folder + "/config.json") as file:
        config = json.load(file)
    kind = config.get("model_type", "mamba")
    if kind == "mamba":
        return mamba_model(weights, config, Mamba)
    if kind == "mamba2":
        return mamba_model(weights, config, Mamba2)
    if kind in ("gla", "gated_deltanet"):
        return gated_model(weights, config, GLA if kind == "gla" else GatedDeltaNet)
    return rwkv_model(weights, config, *((RWKV6, RWKV6MLP) if kind == "rwkv6" else (RWKV7, RWKV7MLP)))


def main(folder, path, tolerance, words):
    then = words.index("then")
    prompt, written = ([int(w) for w in part] for part in (words[:then], words[then + 1:]))
    run, found = model_of(folder), read(path)["logits"]
    if found.shape[0] != len(written) or not written:
        sys.exit(f"expected {len(written)} rows, found {found.shape[0]}")
    for token in prompt[:-1]:
        run(token)
    apart, size = 0, 0
    for i, token in enumerate(prompt[-1:] + written[:-1]):
        expected = run(token)
        apart = max(apart, *(abs(a - b) for a, b in zip(expected, found.row(i))))
        size = max(size, *(abs(a) for a in expected))
    print(f"{folder}: logits to {size:.3g}, apart by {apart:.3g}")
    sys.exit(not apart <= tolerance * size)


main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4:])
