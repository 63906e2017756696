"""What the models of the GPU predict for the shapes that gpu_check measures.

  model.py --pack FOLDER --bin FOLDER --driver FOLDER [--ptxas PATH]     writes model.json and model.txt into the pack

Two models give the cycles of a step of each kernel: the schedule's (recc --emit=gpu-model), and the executor's count (recc
--emit=gpu-cost, which does not count single steps and summaries of time slices). Which kernels a call starts, with how many work
items and steps, says the driver of the tests (tests/cuda/driver.c), which makes a dry run as on 132 multiprocessors. A call takes
the time of its kernels, but none less than its bytes of the second-level cache take, and no less than its inputs and outputs take
of memory (compiler/abi/gpu_targets.def)."""
import argparse, concurrent.futures, json, math, os, re, subprocess, tempfile

TARGET = "sm_90a"
MODEL = re.compile(r"^(\S+) on \S+: ([\d.]+) cycles a step, for .+; ([\d.]+) alone, .* (\d+) blocks at a time, (\d+) for an instance; "
                   r".*, (\d+) instances in turn", re.M)
COUNT = re.compile(r"^(\S+) on \S+ .*\n.*\n  a step of a block: ([\d.]+) \.\. ([\d.]+) cycles.*\n"
                   r"  a step of (\d+) on a multiprocessor: ([\d.]+) \.\. ([\d.]+) cycles; bound by (.*)\n"
                   r"  around the steps: (-?\d+) \.\. (-?\d+) cycles\n.*\n +[\d.]+ .*?x +[\d.]+ +[\d.]+x +(\d+) ", re.M)


def run(words, **environment):
    return subprocess.run(words, capture_output=True, text=True, check=True, env={**os.environ, **environment}).stdout


def read_shapes(path):
    """Libraries by name: a file and its sizes; the lines of the shapes."""
    libraries, shapes = {}, []
    for line in open(path):
        words = line.split("#")[0].split()
        if words[:1] == ["library"]:
            libraries[words[1]] = words[2:]
        elif len(words) > 4 and words[0] not in ("peers", "passes"):
            shapes.append(words)
    return libraries, shapes


def device():
    """Figures of the H100 in gpu_targets.def."""
    text = open("compiler/abi/gpu_targets.def").read()
    count = re.search(r'^GPU_TARGET\(\w+, "%s", \d+, \w+, \w+, \w+, \d+, (\d+)' % TARGET, text, re.M)[1]
    mhz, cache, memory = re.search(r'^GPU_DEVICE\("%s", "[^"]*", (\d+), (\d+), \d+, \d+, (\d+)' % TARGET, text, re.M).groups()
    return {"multiprocessors": int(count), "mhz": float(mhz), "cache": float(cache), "memory": float(memory)}


def kernels_of(recc, ptxas, library):
    """By the name of a kernel: what both models say of it."""
    words = [recc, library[0], *[x for size in library[1:] for x in ("-D", size)], "--dtype", "bf16", "--target", TARGET]
    modelled = run([*words, "--emit=gpu-model"])
    counted = run([*words, *(["--ptxas", ptxas] if ptxas else []), "--emit=gpu-cost"])
    kernels = {}
    for name, cycles, alone, blocks, tiles, turns in MODEL.findall(modelled):
        each = float(turns) / float(tiles)
        kernels[name + "_gpu"] = {"each": float(cycles) * each, "alone": float(alone) * float(turns), "blocks": int(blocks),
                                  "turns": int(turns)}
    for name, low, high, blocks, low_of, high_of, bound, around_low, around_high, cache in COUNT.findall(counted):
        kernel = kernels.setdefault(name, {})
        times = lambda *figures: [float(x) * kernel.get("turns", 1) for x in figures]  # counted with one instance
        kernel["counted"] = {
            "alone": times(low, high), "blocks": int(blocks), "together": times(low_of, high_of), "bound": bound,
            "around": times(around_low, around_high), "bytes": times(cache)[0]}
    return kernels


def launches_of(checker, driver, folder, shape, multiprocessors):
    """What a dry run starts: bytes of each pass, and its kernels with work items and steps."""
    with tempfile.TemporaryDirectory() as work:
        one, log = os.path.join(work, "shape"), os.path.join(work, "log")
        open(one, "w").write(" ".join(shape))
        said = run([checker, "once", folder, one], LD_LIBRARY_PATH=driver, CUDA_DRY="1", CUDA_LOG=log,
                   CUDA_MULTIPROCESSORS=str(multiprocessors))
        passes, kernels = [json.loads(line) for line in said.splitlines()], []
        calls = [[]]
        for line in open(log):
            words = line.split()
            if words[0] == "cuLaunchKernel":
                calls[-1].append({"name": words[1], "blocks": int(words[3])})
            elif words[0] == "items":
                calls[-1][-1].update(items=int(words[1]), slices=int(words[3]), steps=int(words[5]))
            elif words[0] == "cuCtxSynchronize" and calls[-1]:
                calls.append([])
    return [dict(p, kernels=k) for p, k in zip(passes, calls)]


def modelled_cycles(k, launch, multiprocessors):
    """gpu_cost_of_blocks (compiler/abi/gpu_costs.h)."""
    most = math.ceil(launch["items"] / multiprocessors)
    return max(math.ceil(most / k["blocks"]) * k["alone"], most * k["each"]) * launch["steps"]


def counted_cycles(c, launch, multiprocessors, pace):
    """As gpu_model.c has a call: rounds of as many blocks as a multiprocessor has room for."""
    most = math.ceil(launch["items"] / multiprocessors)
    beside = min(most, c["blocks"])
    step = max(c["alone"][pace], c["together"][pace] * beside / c["blocks"])
    return math.ceil(most / c["blocks"]) * (launch["steps"] * step + c["around"][pace])


def predict(call, kernels, d):
    """Milliseconds of a call: by the schedule's model, and from .. to by the executor's count; None: a kernel is not counted."""
    floor = call["bytes"] / (1e6 * d["memory"])
    model, counted = 0, [0, 0]
    for launch in call["kernels"]:
        k = kernels.get(launch["name"], {})
        if "items" not in launch or "each" not in k:
            continue  # sums of copies
        launch.update(model=k["alone"], counted=k.get("counted", {}).get("alone"))
        one = modelled_cycles(k, launch, d["multiprocessors"]) / (1e3 * d["mhz"])
        model += one
        c = k.get("counted")
        for pace in (0, 1):
            if not c and "_part" in launch["name"]:
                counted[pace] += one  # a summary
            elif not c:
                counted = [math.nan, math.nan]
            else:
                cache = c["bytes"] * launch["items"] * launch["steps"] / (1e6 * d["cache"])
                counted[pace] += max(counted_cycles(c, launch, d["multiprocessors"], pace) / (1e3 * d["mhz"]), cache)
    known = not math.isnan(counted[0])
    return {"label": call["label"], "pass": call["pass"], "bytes": call["bytes"], "memory_ms": floor, "model_ms": max(model, floor),
            "counted_ms": [max(x, floor) for x in counted] if known else None, "kernels": call["kernels"]}


def text_of(predictions, d):
    lines = ["Predicted for %s, H100: %d multiprocessors, %.0f MHz, cache %.0f GB/s, memory %.0f GB/s. No GPU has measured any of this."
             % (TARGET, d["multiprocessors"], d["mhz"], d["cache"], d["memory"]),
             "cycles: of a step of a block alone, by the schedule's model and by the executor's count; ms: of the call. A kernel without",
             "a count has no work items (sums of copies), or is a single step or a summary of time slices, which the executor does not count.",
             "", "%-28s %-9s %-46s %7s %7s %8s %8s %17s %9s %9s %17s" % (
                 "shape", "pass", "kernel", "items", "slices", "steps", "cycles", "counted", "memory ms", "model ms", "counted ms")]
    for p in predictions:
        for i, k in enumerate(p["kernels"]):
            head = (p["label"], p["pass"]) if i == 0 else ("", "")
            items = (k["items"], k["slices"], k["steps"], "%.0f" % k["model"]) if "model" in k else ("", "", "", "")
            counted = "%.0f .. %.0f" % tuple(k["counted"]) if k.get("counted") else ""
            ends = ("", "", "")
            if i == 0:
                both = "%.4f .. %.4f" % tuple(p["counted_ms"]) if p["counted_ms"] else "-"
                ends = ("%.4f" % p["memory_ms"], "%.4f" % p["model_ms"], both)
            lines.append(("%-28s %-9s %-46s %7s %7s %8s %8s %17s %9s %9s %17s" % (*head, k["name"], *items, counted, *ends)).rstrip())
    return "\n".join(lines) + "\n"


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("pack", "bin", "driver"):
        words.add_argument("--" + name, required=True)
    words.add_argument("--ptxas")
    words = words.parse_args()
    libraries, shapes = read_shapes(os.path.join(words.pack, "shapes"))
    d, recc = device(), os.path.join(words.bin, "recc")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        known = dict(zip(libraries, pool.map(lambda x: kernels_of(recc, words.ptxas, x), libraries.values())))
    predictions = []
    for shape in shapes:
        calls = launches_of(os.path.join(words.bin, "rec-gpu-check"), words.driver, os.path.join(words.pack, "speed"), shape,
                            d["multiprocessors"])
        predictions += [predict(call, known[shape[1].removesuffix(".so")], d) for call in calls]
    json.dump(predictions, open(os.path.join(words.pack, "model.json"), "w"))
    open(os.path.join(words.pack, "model.txt"), "w").write(text_of(predictions, d))


if __name__ == "__main__":
    main()
