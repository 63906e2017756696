"""A recurrence in torch and in JAX on the GPU against the CPU, and a training run: frameworks.py torch|jax|train [DEVICE]

The folder `frameworks` holds what recc wrote (gla for torch and for JAX, a model, a text); `rec` lies beside it. One line of JSON
for each comparison. DEVICE: cuda if not given; cpu and host, for tests of this program, run all on the CPU."""
import glob, importlib, json, os, site, statistics, subprocess, sys

TOLERANCE = 1e-4  # of f32, by the root mean square of what is expected
SHAPE = {"q": 64, "k": 64, "v": 64, "gate": 64}
BATCH, TIME, HEADS, STEPS = 2, 300, 4, 200


def say(name, error, tolerance, what=""):
    print(json.dumps({"kind": "framework", "name": name, "passed": bool(error <= tolerance), "what": what or f"error {error:.3g}"}), flush=True)
    return not error <= tolerance


def error_of(numpy, got, expected):
    got, expected = (numpy.asarray(x, dtype="float64") for x in (got, expected))
    return float(abs(got - expected).max() / (expected ** 2).mean() ** 0.5)


def inputs(numpy):
    draw = numpy.random.default_rng(1)
    return [draw.normal(size=(BATCH, TIME, HEADS, size)).astype("float32") for size in SHAPE.values()]


def run_torch(device):
    import numpy, torch
    gla = importlib.import_module("gla").gla
    arrays = [torch.tensor(x) for x in inputs(numpy)]

    def gradients(call, tensors):
        tensors = [x.detach().clone().requires_grad_() for x in tensors]
        y, state = call(*tensors)[:2]
        (y.square().mean() + state.square().mean()).backward()
        return [y.detach().cpu(), state.detach().cpu(), *(x.grad.cpu() for x in tensors)]

    expected, there = gradients(gla, arrays), [x.to(device) for x in arrays]
    compare = lambda name, got: say("torch " + name, max(error_of(numpy, a, b) for a, b in zip(got, expected)), TOLERANCE)
    failed = compare("autograd", gradients(gla, there))
    failed += compare("compile", gradients(torch.compile(gla, fullgraph=True), there))
    if device != "cuda":
        return failed
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        other = gradients(gla, there)
    stream.synchronize()
    failed += compare("on a stream of its own", other)
    static = [torch.zeros_like(x) for x in there]
    with torch.no_grad(), torch.cuda.stream(stream):
        gla(*static)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        captured = gla(*static)
    for to, x in zip(static, there):
        to.copy_(x)
    graph.replay()
    torch.cuda.synchronize()
    return failed + compare("graph", [x.cpu() for x in captured[:2]])


def run_jax(device):
    import jax, numpy
    gla = importlib.import_module("gla").gla
    host, there = jax.devices("cpu")[0], jax.devices(device)[0]

    def loss(*x):
        y, state = gla(*x)[:2]
        return (y ** 2).mean() + (state ** 2).mean()

    def both(on):
        x = [jax.device_put(a, on) for a in inputs(numpy)]
        return [*jax.jit(gla)(*x)[:2], *jax.jit(jax.grad(loss, (0, 1, 2, 3)))(*x)]
    expected, got = both(host), both(there)
    errors = [error_of(numpy, a, b) for a, b in zip(got, expected)]
    return say("jax jit", max(errors[:2]), TOLERANCE) + say("jax grad", max(errors[2:]), TOLERANCE)


def train(device):
    folders = [x for place in [*site.getsitepackages(), *sys.path] for x in glob.glob(place + "/nvidia/*/lib")]  # cuBLAS
    environment = {**os.environ, "LD_LIBRARY_PATH": ":".join([os.environ.get("LD_LIBRARY_PATH", ""), *folders])}
    logs, said = {}, ""
    for name in ("host", device):
        words = ["../rec", "train", "./lm.so", "base", "--data", "text.txt", "--runs", "runs-" + name, "--again", "--device", name]
        ran = subprocess.run(words, env=environment, capture_output=True, text=True)
        if ran.returncode:
            return say("rec train", 1, 0, ran.stderr.strip()[-300:])
        said = next((line.strip() for line in ran.stderr.splitlines() if "matrix products by" in line), "")
        logs[name] = [json.loads(line) for line in open(f"runs-{name}/base/log.jsonl")]
    own, host = logs[device], logs["host"]
    seconds = lambda log: statistics.median(row["tokens"] / (row["step"] + 1) / row["tokens_per_second"] for row in log[len(log) // 2:])
    return say("rec train", abs(own[-1]["loss"] - host[-1]["loss"]), 0.05,
               f"{len(own)} steps, loss {own[-1]['loss']:.4f}, on the host {host[-1]['loss']:.4f}; a step {1e3 * seconds(own):.2f} ms, "
               f"on the host {1e3 * seconds(host):.2f} ms; {said}")


def main():
    what, device = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "cuda"
    os.chdir("frameworks")
    sys.path.insert(0, os.path.abspath(what))
    try:
        return 1 if {"torch": run_torch, "jax": run_jax, "train": train}[what](device) else 0
    except ModuleNotFoundError as problem:
        print(json.dumps({"kind": "absent", "part": "frameworks " + what, "what": str(problem)}), flush=True)
        return 0
    except Exception as problem:  # 1 is for findings
        print(f"{what}: {type(problem).__name__}: {problem}", file=sys.stderr)
        return 2


sys.exit(main())
