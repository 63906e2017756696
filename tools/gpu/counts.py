"""What recc --emit=gpu-model and --emit=gpu-cost print, read as figures; and what a step costs by them."""
import math, os, re

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

MODEL = re.compile(r"^(\S+) on \S+: ([\d.]+) cycles a step, for (.+); ([\d.]+) alone, ([\d.]+) of it for memory, "
                   r"(\d+) blocks at a time, (\d+) for an instance; chunks of (\d+) steps, (\d+) threads, (\d+) instances in turn")
NEST = re.compile(r"^  (\S+) (\d+) (\w+): ([\d.]+) cycles, for .*; ([\d.]+) warp instructions, ([\d.]+) of one warp, ([\d.]+) wavefronts, "
                  r"[\d.]+ special, (\d+) bytes(?:; ([\d.]+) operations, ([\d.]+) accesses, ([\d.]+) turns of loops, ([\d.]+) begins, ([\d.]+) addresses)?")


def modelled(text):
    kernels, kernel = {}, None
    for line in text.splitlines():
        head, nest = MODEL.match(line), NEST.match(line)
        if head:
            turns = int(head[10])  # a work item has as many instances, one after another
            kernel = {"cycles": turns * float(head[2]), "limit": head[3], "alone": turns * (float(head[4]) - float(head[5])),
                      "waits": turns * float(head[5]), "blocks": int(head[6]), "tiles": int(head[7]), "chunk": int(head[8]),
                      "threads": int(head[9]), "turns": turns, "nests": {}}
            kernels[head[1]] = kernel
        elif nest and kernel:
            kernel["nests"][nest[1], int(nest[2])] = [nest[3]] + [kernel["turns"] * float(x or -1) for x in nest.groups()[3:]]
    return kernels


COLUMNS = ["low", "high", "share", "bound", "instructions", "busiest", "lanes", "work", "wavefronts", "", "sectors", "", "bytes", "", "tensor"]


def counted(text):
    """By kernel: the figures of a step of a block, `alone` its cycles; and those of its nests."""
    kernels, kernel = {}, None
    for line in text.splitlines():
        head = re.match(r"(\S+?)(?:_gpu)? on sm_", line)
        if head:
            kernel = {"nests": {}}
            kernels[head[1]] = kernel
            continue
        row = dict(zip(COLUMNS, line.split()))
        if not kernel or not row.get("share", "").endswith("%"):
            continue
        row = {k: float(v.rstrip("%x")) for k, v in row.items() if k and k != "bound"}
        place = re.search(r"(\S+\.(?:forward|backward)\S*) (\d+) ", line)
        if line.rstrip().endswith(" all"):
            kernel.update(row, alone=(row["low"] + row["high"]) / 2)
        elif place:
            kernel["nests"][place[1], int(place[2])] = row
    return kernels


def constants():
    text = open(ROOT + "/compiler/abi/gpu_costs.def").read()
    return {m[1]: float(m[2]) for m in re.finditer(r"GPU_(?:COUNT|FACTOR)\((\w+), ([\d.]+),", text)}


def cache_bytes(target):
    """In a cycle of a multiprocessor."""
    text = open(ROOT + "/compiler/abi/gpu_targets.def").read()
    count = float(re.search(r'^GPU_TARGET\(\w+, "%s", \d+, \w+, \w+, \w+, \d+, (\d+)' % target, text, re.M)[1])
    mhz, rate = re.search(r'^GPU_DEVICE\("%s", "[^"]*", (\d+), (\d+)' % target, text, re.M).groups()
    return float(rate) * 1000 / float(mhz) / count


def counted_cycles(kernel, blocks, costs, target):
    """Of a multiprocessor that has so many blocks: what one block takes alone, shared; or a unit that is always busy."""
    alone = kernel["alone"]
    units = [kernel["instructions"] * costs["issued_each"] / costs["SCHEDULERS"], kernel["wavefronts"], kernel["tensor"],
             kernel["bytes"] / cache_bytes(target)]
    return max([alone / blocks] + units)


def counted_cost(row):
    """Of an instance, as cycles_of_one and cost of compiler/schedule/gpu/time.c. A work item has some of them in turn."""
    one = row["counted_alone"] * math.ceil(row["tiles"] / row["blocks"])
    return (max(one, row["counted"]) + row["counted"]) / 2 / row["turns"]
