"""Random models against what the manual says they mean, in NumPy: losses, gradients, logits token by token.

    random_models.py RECC REC COUNT [SEED]          about 2 s each

A program is drawn together with its meaning. Each array has the shape [T, D, E, F, H, K, V], with 1 for an axis that it lacks.
Layers, lags, convolutions, norms, repeats, paths of weights: no code is shared with the compiler. Gradients come from the
imaginary part of the loss at weights + i * 1e-30 * direction, a direction for each weight.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile

import numpy as np

SIZE = {"D": 6, "E": 5, "F": 5, "H": 2, "K": 4, "V": 3}
AXES = "DEFHKV"
VOCAB, STEPS = 11, 37
HEADER = {"D": "D = 6", "E": "E = 5", "F": "F = E", "H": "H = 2", "K": "K = 4", "V": "V = 3"}


# ---- values ----------------------------------------------------------------------------------------------

def spread(array, axes):
    """An array whose last axes are `axes`, in this order, with all axes."""
    order = sorted(range(len(axes)), key=lambda i: AXES.index(axes[i]))
    lead = array.ndim - len(axes)
    array = np.transpose(array, [*range(lead), *(lead + i for i in order)])
    return array.reshape(array.shape[:lead] + tuple(SIZE[a] if a in axes else 1 for a in AXES))


def packed(array, axes):
    """The opposite, [T, entries]: a value's axes stand in the order of the header."""
    return np.broadcast_to(array, (STEPS, *(SIZE[a] if a in axes else 1 for a in AXES))).reshape(STEPS, -1)


def unpacked(array, axes):
    return spread(array.reshape(STEPS, *(SIZE[a] for a in axes)), axes)


def header(text, program):
    """The axes that a text uses, those of what its layers give included."""
    text += " ".join(a for l in program.layers if l.name + "(" in text for axes in l.outputs for a in axes)
    return ", ".join(HEADER[a] for a in AXES if re.search(rf"\b{a}\b", text))


def lagged(array, lag):
    if not lag:
        return array
    array = np.broadcast_to(array, (STEPS, *array.shape[1:]))
    return np.concatenate([np.zeros_like(array[:lag]), array[:-lag]])


def places(axes):
    return tuple(1 + AXES.index(a) for a in axes)


def total(array, axes):
    for a in axes:
        if array.shape[places(a)[0]] == 1:
            array = array * SIZE[a]
    return array.sum(places(axes), keepdims=True)


def mean(array, axes):
    return total(array, axes) / np.prod([SIZE[a] for a in axes])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axes):
    e = np.exp(x - x.real.max())
    return e / total(e, axes)


def renamed(x, old, new):
    return np.swapaxes(x, *places(old + new))


UNARY = {"sigmoid": sigmoid, "tanh": np.tanh, "silu": lambda x: x * sigmoid(x), "sin": np.sin, "cos": np.cos,
         "softplus": lambda x: np.log(1 + np.exp(x)), "bounded": lambda x: x / np.sqrt(1 + x * x), "-": lambda x: -x,
         "relu": lambda x: np.where(x.real > 0, x, 0 * x), "abs": lambda x: np.where(x.real < 0, -x, x)}
BINARY = {"{} + {}": lambda a, b: a + b, "{} - {}": lambda a, b: a - b, "{} * {}": lambda a, b: a * b,
          "{} / (1 + {}^2)": lambda a, b: a / (1 + b * b), "max({}, {})": lambda a, b: np.where(a.real > b.real, a, b)}


# ---- recurrences -----------------------------------------------------------------------------------------

def leaky(x, f, b):
    h, out = 0, []
    for t in range(STEPS):
        h = sigmoid(f[t] + b) * h + x[t]
        out.append(h)
    return [np.array(out)]


def attention(q, k, v, f):
    state, out = 0, []
    for t in range(STEPS):
        state = sigmoid(f[t]) * state + k[t] * v[t]
        out.append(total((q[t] * state)[None], "K")[0])
    return [np.array(out)]


def delta(q, k, v, g):
    state, out = np.zeros(1), []
    for t in range(STEPS):
        key = k[t] / np.sqrt(total((k[t] * k[t])[None], "K")[0] + 1e-6)
        old = total((key * state + 0 * v[t])[None], "K")[0]
        state = state + sigmoid(g[t]) * key * (v[t] - old)
        out.append(total((q[t] * state)[None], "K")[0])
    return [np.array(out)]


def rotation(x, a):
    real, imaginary, out = 0, 0, []
    for t in range(STEPS):
        real, imaginary = (0.9 * (np.cos(a) * real - np.sin(a) * imaginary) + x[t],
                           0.9 * (np.sin(a) * real + np.cos(a) * imaginary))
        out.append(real - imaginary)
    return [np.array(out)]


def lags(x, y):
    h, out, kept = 0, [], []
    before, late = lagged(x, 2), lagged(np.sin(y) + 0 * x, 1)
    for t in range(STEPS):
        h = 0.5 * np.tanh(h + before[t]) + late[t]
        out.append(h)
        kept.append(h * x[t])
    return [np.array(out), np.array(kept)]


# name: (inputs, params, outputs, text, meaning); A stands for an axis that is drawn.
RECURRENCES = {
    "leaky": ("AA", "A", "A", "input x[A], f[A] param b[A] ~ normal(0, 1) state h[A] output y[A]\n"
              "  h = sigmoid(f + b) * h[t-1] + x\n  y = h", leaky),
    "attention": (["K", "K", "A", ""], "", "A", "input q[K], k[K], v[A], f state S[K,A] output y[A]\n"
                  "  S = sigmoid(f) * S[t-1] + k * v\n  y = sum[K](q * S)", attention),
    "delta": (["K", "K", "A", ""], "", "A", "input q[K], k[K], v[A], g state S[K,A] output y[A]\n  let n = normalize[K](k)\n"
              "  S = S[t-1] + sigmoid(g) * n * (v - sum[K](n * S[t-1]))\n  y = sum[K](q * S)", delta),
    "rotation": ("A", "A", "A", "input x[A] param b[A] ~ uniform(0, 3) state h[A]: complex output y[A]\n"
                 "  h = polar(0.9, b) * h[t-1] + x\n  y = re(h) - im(h)", rotation),
    "lags": ("AA", "", "AA", "input x[A], y[A] state h[A] output u[A], v[A]\n  let s = sin(y)\n"
             "  h = 0.5 * tanh(h[t-1] + x[t-2]) + s[t-1]\n  u = h\n  v = h * x", lags),
}


# ---- programs --------------------------------------------------------------------------------------------

class Program:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.recurrences, self.layers, self.names = {}, [], 0

    def name(self, letter):
        self.names += 1
        return f"{letter}{self.names}"

    def axes(self, most=2):
        return "".join(self.random.sample("DEHKV", self.random.choice([1, 1, most])))

    def recurrence(self, kind, axis):
        name = f"{kind}_{axis.lower()}"
        axes = axis if axis == "K" or isinstance(RECURRENCES[kind][0], str) else f"K = 4, {axis}"
        text = RECURRENCES[kind][3].replace("[A]", f"[{axis}]").replace(",A]", f",{axis}]")
        self.recurrences[name] = f"recurrence {name}({axes}) {{\n  {text}\n}}\n"
        return name

    def text(self):
        return "\n".join(["fn bounded(x) = x * rsqrt(1 + x^2)\n", *self.recurrences.values(), *(l.text for l in self.layers), self.model])


class Body:
    """Statements of a layer, a model or a repeat, and what they do: `run(env, weights, path)`."""

    def __init__(self, program, scope, indent="  "):
        self.p, self.scope, self.indent = program, dict(scope), indent
        self.lines, self.actions = [], []

    def lag(self, name, *choices):
        return 0 if name[0] == "p" else self.p.random.choice(choices)  # a param is the same at all steps

    def add(self, line, action):
        self.lines.append(self.indent + line)
        self.actions.append(action)

    def run(self, env, weights, path):
        for action in self.actions:
            action(env, weights, path)

    # -- expressions: (text, meaning of an environment), of exactly these axes

    def leaf(self, axes):
        r = self.p.random
        found = [n for n, a in self.scope.items() if set(a) == set(axes)]
        if found and r.random() < 0.9:
            name = r.choice(found)
            lag = self.lag(name, 0, 0, 0, 1, 2, 3)
            return (f"{name}[t-{lag}]" if lag else name), lambda env: lagged(env[name], lag)
        wider = [(n, a) for n, a in self.scope.items() if set(a) > set(axes)]
        if wider and r.random() < 0.7:
            name, all_axes = r.choice(wider)
            rest = [a for a in all_axes if a not in axes]
            if len(rest) == 1 and r.random() < 0.5:
                at = r.randrange(SIZE[rest[0]])
                lag = self.lag(name, 0, 0, 1)
                where = f"[t-{lag}]" if lag else ""
                return (f"{name}{where}[{rest[0]} = {at}]",
                        lambda env: lagged(np.take(env[name], [at if env[name].shape[places(rest[0])[0]] > 1 else 0],
                                                   places(rest[0])[0]), lag))
            how = r.choice([("sum", total), ("mean", mean)])
            return f"{how[0]}[{','.join(rest)}]({name})", lambda env: how[1](env[name], rest)
        if not axes:
            number = round(r.uniform(-1, 1), 2)
            return f"({number})", lambda env: np.full((1,) * 7, number)
        axis = r.choice(axes)
        rest = axes.replace(axis, "")
        ramp = spread(np.cos(np.arange(SIZE[axis]))[None], axis)
        if not rest:
            return f"cos(index[{axis}])", lambda env: ramp
        text, of = self.expression(rest, 0)
        return f"({text} * cos(index[{axis}]))", lambda env: of(env) * ramp

    def dependent(self, axes, depth):
        """An expression that depends on the token."""
        while True:
            text, of = self.expression(axes, depth)
            if re.search(r"\b[uvx]\d", text):
                return text, of

    def expression(self, axes, depth):
        r = self.p.random
        if depth == 0 or r.random() < 0.1:
            return self.leaf(axes)
        kind = r.random()
        if kind < 0.35:
            f = r.choice(list(UNARY))
            text, of = self.expression(axes, depth - 1)
            return f"{f}({text})", lambda env: UNARY[f](of(env))
        if kind < 0.45 and len(axes) < 3:
            more = r.choice([a for a in "DEHKV" if a not in axes])
            (x, of_x), (y, of_y) = self.expression(axes + more, depth - 1), self.expression(more, depth - 1)
            return f"sum[{more}]({x} * {y})", lambda env: total(of_x(env) * of_y(env), more)
        if kind < 0.52 and axes:
            axis = r.choice(axes)
            x, of = self.expression(axes, depth - 1)
            if r.random() < 0.5:
                return f"softmax[{axis}]({x})", lambda env: softmax(of(env) + np.zeros(SIZE[axis]).reshape(
                    [SIZE[axis] if a == axis else 1 for a in " " + AXES]), axis)
            return f"normalize[{axis}]({x})", lambda env: (lambda e: e / np.sqrt(total(e * e, axis) + 1e-6))(of(env))
        if kind < 0.56 and len(axes) < 3:
            more = r.choice([a for a in "DEHKV" if a not in axes])
            (x, of), y, s = self.expression(axes, depth - 1), self.value(axes + more), self.p.name("s")

            def fold(env):
                value, steps = of(env), env[y]
                for i in range(SIZE[more]):
                    value = np.tanh(value + np.take(steps, [i if steps.shape[places(more)[0]] > 1 else 0], places(more)[0]))
                return value
            return f"fold[{more}]({s} = {x}, tanh({s} + {y}))", fold
        if kind < 0.62:
            (x, of_x), (y, of_y) = self.expression(axes, depth - 1), self.expression(axes, depth - 1)
            part = "".join(a for a in axes if r.random() < 0.6)
            c, of_c = self.expression(part, depth - 1)
            return (f"where({c} > 0.1, {x}, {y})",
                    lambda env: np.where(of_c(env).real > 0.1, of_x(env), of_y(env)))
        part = "".join(a for a in axes if r.random() < 0.7)
        other = "".join(a for a in axes if a not in part or r.random() < 0.4)
        (x, of_x), (y, of_y) = self.expression(part, depth - 1), self.expression(other, depth - 1)
        op = r.choice([*BINARY, "{} * {}"])
        return f"({op.format(x, y)})", lambda env: BINARY[op](of_x(env), of_y(env))

    # -- statements

    def value(self, axes=None):
        """A name with these axes, made anew or there already."""
        axes = self.p.axes() if axes is None else axes
        found = [n for n, a in self.scope.items() if a == axes]
        if found and self.p.random.random() < 0.6:
            return self.p.random.choice(found)
        return self.let(axes) if self.p.random.random() < 0.5 or not axes else self.linear(axes)

    def bind(self, axes, letter="v"):  # q: made of params alone
        name = self.p.name(letter)
        self.scope[name] = axes
        return name, f"{name}[{','.join(axes)}]" if axes else name

    def let(self, axes=None):
        axes = self.p.axes(3) if axes is None else axes
        text, of = self.dependent(axes, self.p.random.choice([1, 2, 2, 3]))
        name, written = self.bind(axes)
        self.add(f"let {written} = {text}", lambda env, w, path: env.update({name: of(env)}))
        return name

    def linear(self, axes=None):
        r = self.p.random
        source = r.choice([n for n, a in self.scope.items() if a and n[0] not in "pq"])
        of, weight, bias = self.scope[source], self.p.name("w"), r.random() < 0.4
        parts = [axes or self.p.axes() for _ in range(1 if axes or r.random() < 0.6 else r.choice([2, 3]))]
        made = [(*self.bind(a), a) for a in parts]
        lag = self.lag(source, 0, 0, 0, 1, 2)

        def action(env, weights, path):
            y = packed(lagged(env[source], lag), of) @ weights[path + weight + ".weight"].T
            y = y + weights[path + weight + ".bias"] if bias else y
            for (name, _, a), end in zip(made, np.cumsum([np.prod([SIZE[x] for x in a]) for a in parts])):
                size = np.prod([SIZE[x] for x in a])
                env[name] = unpacked(y[:, end - size:end], a)

        left = made[0][1] if len(made) == 1 else "(" + ", ".join(m[1] for m in made) + ")"
        self.add(f"let {left} = linear({source}{f'[t-{lag}]' if lag else ''}, name = \"{weight}\"{', bias = on' if bias else ''})",
                 action)
        return made[0][0]

    def convolution(self):
        r = self.p.random
        sources = [self.value() for _ in range(r.choice([1, 1, 2]))]
        parts = [self.scope[s] for s in sources]
        if not all(parts):
            return
        width, weight, bias = r.choice([2, 3, 4]), self.p.name("c"), r.random() < 0.6
        made = [(self.bind(a)[0], a) for a in parts]
        f = r.choice([None, "silu", "tanh"])

        def action(env, weights, path):
            x = np.concatenate([packed(env[s], a) for s, a in zip(sources, parts)], 1)
            kernel = weights[path + weight + ".weight"][:, 0]
            y = sum(lagged(x, width - 1 - i) * kernel[:, i] for i in range(width))
            y = y + weights[path + weight + ".bias"] if bias else y
            y = UNARY[f](y) if f else y
            end = 0
            for name, a in made:
                end += (size := int(np.prod([SIZE[x] for x in a])))
                env[name] = unpacked(y[:, end - size:end], sorted(a, key=AXES.index))

        tuple_of = lambda names: names[0] if len(names) == 1 else f"({', '.join(names)})"
        call = f"conv1d({tuple_of(sources)}, width = {width}, name = \"{weight}\"{'' if bias else ', bias = off'})"
        self.add(f"let {tuple_of([m[0] for m in made])} = {f'{f}({call})' if f else call}", action)

    def norm(self, source=None):
        source = source or self.value()
        axes = self.scope[source]
        if not axes:
            return source
        over = "".join(self.p.random.sample(axes, self.p.random.randint(1, len(axes))))
        own = over if self.p.random.random() < 0.6 else axes
        weight = self.p.name("n")
        name, written = self.bind(axes)

        def action(env, weights, path):
            x = env[source] + np.zeros([1, *(SIZE[a] if a in axes else 1 for a in AXES)])
            scale = weights[path + weight + ".weight"].reshape(1, *(SIZE[a] for a in own))
            env[name] = x / np.sqrt(mean(x * x, over) + 1e-5) * spread(scale, own)

        shape = f", weight = [{','.join(own)}]" if own != over else ""
        self.add(f"let {written} = rms_norm[{','.join(over)}]({source}{shape}, name = \"{weight}\")", action)
        return name

    def rename(self):
        text, of = self.dependent("E", 2)
        name, written = self.bind("F")
        self.add(f"let {written} = ({text}){{E -> F}}", lambda env, w, path: env.update({name: renamed(of(env), "E", "F")}))
        back, written = self.bind("E")
        self.add(f"let {written} = tanh({name}{{F -> E}})",
                 lambda env, w, path: env.update({back: np.tanh(renamed(env[name], "F", "E"))}))

    def call_recurrence(self):
        r = self.p.random
        kind = r.choice(list(RECURRENCES))
        inputs, params, outputs, _, meaning = RECURRENCES[kind]
        axis = r.choice([a for a in "DEHV"])
        callee = self.p.recurrence(kind, axis)
        texts = [self.argument(a.replace("A", axis)) for a in inputs]
        made = [self.bind(axis)[0] for _ in outputs]
        param = self.p.name("b") if params else None

        def action(env, weights, path):
            full = [np.broadcast_to(x, (STEPS, *x.shape[1:])) for x in (of(env) for _, of in texts)]
            more = [spread(weights[path + param][None], axis)[0]] if param else []
            for name, y in zip(made, meaning(*full, *more)):
                env[name] = y + np.zeros([1, *(SIZE[a] if a == axis else 1 for a in AXES)])

        written = made[0] if len(made) == 1 else f"({', '.join(made)})"
        name = f', b = "{param}"' if param else ""
        self.add(f"let {written} = {callee}({', '.join(t for t, _ in texts)}{name})", action)

    def argument(self, axes):
        if self.p.random.random() < 0.5:
            name = self.value(axes)
            return name, lambda env: env[name]
        return self.dependent(axes, 2)

    def call_layer(self):
        if not self.p.layers:
            return
        layer = self.p.random.choice(self.p.layers)
        texts = [self.argument(a) for a in layer.inputs]
        made = [self.bind(a)[0] for a in layer.outputs]
        word = self.p.name("l")

        def action(env, weights, path):
            for name, y in zip(made, layer.meaning([of(env) for _, of in texts], weights, f"{path}{word}.")):
                env[name] = y

        written = made[0] if len(made) == 1 else f"({', '.join(made)})"
        self.add(f"let {written} = {layer.name}({', '.join(t for t, _ in texts)}, name = \"{word}\")", action)

    def statements(self, count):
        kinds = [self.let, self.linear, self.convolution, self.norm, self.call_recurrence, self.call_recurrence, self.rename,
                 self.call_layer]
        for _ in range(count):
            self.p.random.choice(kinds)()

    def repeat(self, deep):
        r = self.p.random
        carried = [(self.p.name("x"), self.value(a)) for a in ["D", *([self.p.axes()] if r.random() < 0.5 else [])]]
        times, word = r.choice([1, 2, 2, 3]), self.p.name("layers")
        inner = Body(self.p, {**self.scope, **{name: self.scope[x] for name, x in carried}}, self.indent + "  ")
        inner.statements(r.choice([1, 2, 3]))
        if deep:
            inner.repeat(False)
        results = [(name, *inner.argument(inner.scope[name])) for name, _ in carried]
        final = []
        for name, text, of in results:
            final.append(f"{inner.indent}{name} = tanh({name} + {text})")
            inner.actions.append(lambda env, w, path, name=name, of=of: env.update({name: np.tanh(env[name] + of(env))}))
        made = [(self.bind(self.scope[x])[0], name) for name, x in carried]

        def action(env, weights, path):
            now = {**env, **{name: env[x] for name, x in carried}}
            for i in range(times):
                inner.run(now, weights, f"{path}{word}.{i}.")
            for own, name in made:
                env[own] = now[name]

        written = made[0][0] if len(made) == 1 else f"({', '.join(m[0] for m in made)})"
        opening = ", ".join(f"{name} = {x}" for name, x in carried)
        self.add("\n".join([f"let {written} = repeat {times} ({opening}, name = \"{word}\") {{", *inner.lines, *final,
                            self.indent + "}"]), action)


class Layer:
    def __init__(self, program):
        r = program.random
        self.name = program.name("Layer")
        self.inputs = [program.axes() for _ in range(r.choice([1, 1, 2]))]
        names = [program.name("u") for _ in self.inputs]
        body = Body(program, dict(zip(names, self.inputs)))
        for i in range(r.choice([0, 1])):
            axes, param = program.axes(), program.name("p")
            body.scope[param] = axes
            body.add(f"param {param}[{','.join(axes)}] ~ normal(0, 1)",
                     lambda env, w, path, param=param, axes=axes: env.update({param: spread(w[path + param][None], axes)}))
        for name, axes in list(body.scope.items()):  # each must be used
            made, written = body.bind(axes, "q" if name[0] == "p" else "v")
            body.add(f"let {written} = tanh({name})",
                     lambda env, w, path, made=made, name=name: env.update({made: np.tanh(env[name])}))
        body.statements(r.choice([2, 3, 4, 5]))
        if r.random() < 0.3:
            body.repeat(False)
        self.outputs = [program.axes() for _ in range(r.choice([1, 1, 2]))]
        final, outs = [], []
        for axes in self.outputs:
            text, of = body.dependent(axes, 2)
            outs.append(of)
            final.append(f"  output {program.name('y')}[{','.join(axes)}] = {text}")
        written = ", ".join(f"{n}[{','.join(a)}]" for n, a in zip(names, self.inputs))
        text = "\n".join([f"  input {written}", *body.lines, *final, "}\n"])
        self.text = f"layer {self.name}({header(text, program)}) {{\n{text}"

        def meaning(values, weights, path):
            env = dict(zip(names, values))
            body.run(env, weights, path)
            return [of(env) for of in outs]

        self.meaning = meaning


class Model:
    def __init__(self, seed):
        p = Program(seed)
        r = p.random
        for _ in range(r.choice([0, 1, 2, 3])):
            p.layers.append(Layer(p))
        self.body = body = Body(p, {"x0": "D"})
        body.statements(r.choice([1, 2, 3]))
        if r.random() < 0.7:
            body.repeat(r.random() < 0.4)
        body.statements(r.choice([0, 1, 2]))
        self.last, self.tied = body.norm(body.value("D")), r.random() < 0.5
        text = "\n".join(
            ["  input token", "  let x0[D] = embed(token, vocab)", *body.lines,
             f"  output logits[vocab] = unembed({self.last}{'' if self.tied else ', tied = off'})", "}\n"])
        p.model = f"model LM(vocab = {VOCAB}, {header(text, p)}) {{\n{text}"
        train = "context {} batch {} steps 1 optimizer adamw(lr = 0.05, betas = (0, 0.9), clip = 1e9)"
        p.model += f"\ntrain one {{\n  model LM data tokens(\"t.bin\", split = 0.5)\n  {train.format(STEPS, r.choice([1, 2]))}\n}}\n"
        p.model += "train two after one { steps 1 }\n"
        self.text = p.text()

    def logits(self, tokens, weights):
        env = {"x0": spread(weights["embedding.weight"][tokens], "D")}
        self.body.run(env, weights, "")
        x = packed(env[self.last], "D")
        return x @ weights["embedding.weight" if self.tied else "unembedding.weight"].T

    def loss(self, tokens, weights):
        logits = self.logits(tokens[:-1], weights)
        logits = logits - logits.real.max(1, keepdims=True)
        return np.mean(np.log(np.exp(logits).sum(1)) - logits[np.arange(len(logits)), tokens[1:]])


# ---- against rec -----------------------------------------------------------------------------------------

def read(path):
    with open(path, "rb") as f:
        data = f.read()
    end = 8 + int.from_bytes(data[:8], "little")
    types = {"F64": np.float64, "F32": np.float32}
    return {name: np.frombuffer(data[end + t["data_offsets"][0]:end + t["data_offsets"][1]], types[t["dtype"]]).reshape(t["shape"])
            for name, t in json.loads(data[8:end]).items() if name != "__metadata__"}


def close(what, found, expected, scale, errors, most):
    error = np.abs(np.asarray(found) - np.asarray(expected)).max() / scale
    if not error < most:
        errors.append(f"{what}: found {np.ravel(found)[:3]}, expected {np.ravel(expected)[:3]}, error {error:.1e}")


def trial(recc, rec, seed):
    model, draw = Model(seed), np.random.default_rng(seed)
    with open("m.rec", "w") as f:
        f.write(model.text)
    tokens = draw.integers(0, VOCAB, 2 * (STEPS + 1)).astype(np.uint16)
    tokens.tofile("t.bin")
    chunk = random.Random(seed).choice([[], [], ["--chunk", "16"], ["--chunk", "8"]])
    for command in ([recc, "m.rec", "--dtype", "f64", "-O1", *chunk, "-o", "m.so"], [rec, "train", "m.so", "--again"],
                    [rec, "generate", "m.so:two", "--prompt", "3 1 4 1 5 9", "--tokens", str(STEPS - 5), "--greedy",
                     "--logits", "logits.safetensors", "--again"]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return [f"{' '.join(command)}: {done.stdout[-600:]}{done.stderr[-600:]}"]
    errors, text = [], done.stdout
    weights = {name: x.astype(np.complex128) for name, x in read("runs/one/model.safetensors").items()}
    with open("runs/two/log.jsonl") as f:
        loss = json.loads(f.readline())["loss"]
    tokens = tokens[:STEPS + 1].astype(int)
    close("loss", loss, model.loss(tokens, weights).real, 1, errors, 1e-7)
    checkpoint = read("runs/two/checkpoint.safetensors")
    for name, x in weights.items():
        direction = draw.standard_normal(x.shape)
        moved = {**weights, name: x + 1e-30j * direction}
        expected = model.loss(tokens, moved).imag * 1e30
        gradient = checkpoint["optimizer.m." + name]
        close(f"gradient of {name}", (gradient * direction).sum(), expected,
              1e-7 + np.abs(gradient * direction).sum() + abs(expected), errors, 1e-6)
    after = read("runs/two/model.safetensors")
    whole = np.array([3, 1, 4, 1, 5, 9, *map(int, text.split())])[:STEPS]
    logits = model.logits(whole, after)[5:].real
    found = read("logits.safetensors")["logits"].reshape(-1, VOCAB)[:len(logits)]
    close("logits", found, logits, 1e-9 + np.abs(logits).max(), errors, 1e-6)
    return errors


def main():
    recc, rec, count = *map(os.path.abspath, sys.argv[1:3]), int(sys.argv[3])
    first = int(sys.argv[4]) if len(sys.argv) > 4 else 1
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for seed in range(first, first + count):
            errors = trial(recc, rec, seed)
            if errors:
                failed += 1
                print(f"FAILED: model {seed}", *errors, sep="\n  ")
    print(f"{count - failed} passed, {failed} failed")


if __name__ == "__main__":
    main()
