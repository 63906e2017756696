"""tools/gpu/table.py and costs.py by findings made up here: table_test.py ROOT LINES

LINES: the findings of a run in which all was well."""
import json
import sys

ROOT, LINES = sys.argv[1:3]
sys.path.insert(0, ROOT + "/tools/gpu")
import costs
import table

rows = [json.loads(line) for line in open(LINES)]
assert table.text(rows, [], [])[1] == 0

# ---- measured beside modelled: the middle of seven ratios, and the five that lie furthest from it ----
rows += [{"kind": "machine", "gigabytes_a_second": 2000, "mma_sync_teraflops": 400},
         {"kind": "absent", "part": "ncu", "what": "no ncu in the path"}]
model = []
for i, ratio in enumerate([1, 2, 4, 8, 16, 32, 64]):
    rows.append({"kind": "speed", "label": f"s{i}", "by": "rec", "pass": "forward", "batch": 1, "time": 8, "bytes": 1e9, "operations": 1e11,
                 "milliseconds": ratio * 0.5})
    model.append({"label": f"s{i}", "pass": "forward", "model_ms": 0.5, "counted_ms": [0.25, 0.75], "kernels": [{"model": 10, "steps": 8}]})
rows.append({"kind": "speed", "label": "s0", "by": "fla", "pass": "forward", "milliseconds": 9.5})
rows.append({"kind": "speed", "label": "s9", "by": "rec", "pass": "forward", "batch": 1, "time": 8, "bytes": 1, "operations": 1})
assert table.text(rows, [], model)[1] == 1 and "FAILED: s9 forward: not run" in table.text(rows, [], model)[0]
rows.pop()
text, status = table.text(rows, [("check", "a.so"), ("check", "b.so"), ("check", "c.so"), ("check", "d.so"), ("sanitize", "memcheck a")], model)
lines = text.splitlines()
line, = [line for line in lines if line.startswith("s0 ")]
assert line.split() == "s0 forward 0.5000 - 0.5000 1.00 0.2500 .. 0.7500 1.00 10 10 100.0 % 100.0 % fla 9.5".split(), line
at = lines.index("measured over modelled: median 8.00 of 7; furthest from it:")
assert [line.split()[0] for line in lines[at + 1:at + 6]] == ["s0", "s6", "s1", "s5", "s2"], lines[at:]
assert status == 3 and lines[-1] == ("not reached: check (a.so, b.so, c.so and 1 more); sanitize (memcheck a); ncu (no ncu in the path)"), lines[-1]
rows.append({"kind": "shape", "label": "s0", "batch": 1, "time": 8, "passed": False, "error": 0.5, "tolerance": 0.1, "where": "y[3]"})
text, status = table.text(rows, [], model)
assert status == 1 and "FAILED: shape s0, 1 x 8: error 0.5 > 0.1 at y[3]" in text
assert [line.split()[3] for line in text.splitlines() if line.startswith("s0 forward") or line.startswith("s0  ")][0] == "WRONG"
for finding in ({"kind": "framework", "name": "jax jit", "passed": False, "what": "error 1"}, {"kind": "sanitizer", "tool": "memcheck", "library": "a", "passed": False}):
    assert table.text([finding], [], [])[1] == 1

# ---- every guess that a machine decides becomes a figure, the others stay; the file keeps its form ----
definitions = open(ROOT + "/compiler/abi/gpu_costs.def").read()
guesses = {row[1] for row in costs.ROW.findall(definitions)}
assert set(costs.FIGURES) <= guesses, set(costs.FIGURES) - guesses
names = {word for figure in costs.FIGURES.values() for word in figure.__code__.co_consts if isinstance(word, str)} | {"clock"}
found = [{"kind": "micro", "name": name, "cycles": 100.0} for name in sorted(names - {"clock"})]
found += [{"kind": "micro", "name": "clock", "megahertz": 2000.0}, {"kind": "device", "name": "GPU"}]
made = costs.text(found, definitions)
kept = [row[1] for row in costs.ROW.findall(definitions) if row[1] not in costs.FIGURES]
assert made.startswith(f"// GPU: {len(costs.FIGURES)} figures are measured; {len(guesses) - len(costs.FIGURES)} are guesses still: {kept[0]}, ")
assert 'GPU_COUNT(FAR, 100, "cycles", "until a number of the second-level cache is there", "GPU: tools/gpu/micro.c; was 300, a guess: ' in made
assert 'GPU_FACTOR(slow, 100, ' in made
assert len(costs.ROW.findall(made)) == len(guesses) - len(costs.FIGURES)
assert made.count("GPU_COUNT(") == definitions.count("GPU_COUNT(") and made.count("GPU_FACTOR(") == definitions.count("GPU_FACTOR(")
assert costs.text([], definitions).endswith(definitions)
# and every name is a micro-benchmark's
source = open(ROOT + "/tools/gpu/micro.c").read()
assert not [name for name in names - {"clock"} if f'{{"{name}", ' not in source]

# ---- the executor counts one instance of a kernel whose blocks take several in turn; the schedule's model says how many ----
import model as models
SAID = {"--emit=gpu-model": "rec_kernel_x on sm_90a: 255.7 cycles a step, for waits of its warps; 255.7 alone, 21.0 of it for memory, 1 blocks at a "
                            "time, 1 for an instance; chunks of 64 steps, 256 threads, 4 instances in turn\n",
        "--emit=gpu-cost": """rec_kernel_x_gpu on sm_90a (H100): 256 threads, 178176 bytes of shared memory, 1 work items
  ptxas: - registers, - bytes of stack, - spilled; nvdisasm: - instructions, - branches, - special functions
  a step of a block: 163.3 .. 185.9 cycles, 0.096 .. 0.109 us at 1700 MHz; between barriers: issue 56% shared 40%
  a step of 1 on a multiprocessor: 163.3 .. 185.9 cycles; bound by the block's own
  around the steps: 1972 .. 2220 cycles
    swift      slow  share bound     instr  busiest lanes  work    wavefr  ideal  sectors  ideal      L2   sync
    163.3     185.9 100.0% issue     454.6     61.7   98%   89%     107.1  1.02x     77.4  1.35x    2478  0.461
"""}
models.run = lambda words, **_: SAID[words[-1]]
kernel = models.kernels_of("recc", None, ["x.rec"])["rec_kernel_x_gpu"]
assert kernel["alone"] == kernel["each"] == 4 * 255.7 and kernel["blocks"] == 1
assert kernel["counted"] == {"alone": [4 * 163.3, 4 * 185.9], "blocks": 1, "together": [4 * 163.3, 4 * 185.9], "bound": "the block's own",
                             "around": [4 * 1972.0, 4 * 2220.0], "bytes": 4 * 2478.0}
