"""The findings of gpu_check as text."""
import math


def ratio_of(row, prediction):
    """Measured over modelled; None: one of them is not known."""
    if not prediction or not row.get("milliseconds") or not prediction["model_ms"]:
        return None
    return row["milliseconds"] / prediction["model_ms"]


def passed(rows, kind):
    return sum(row["passed"] for row in rows if row["kind"] == kind), sum(not row["passed"] for row in rows if row["kind"] == kind)


def value_of(micro):
    return micro.get("cycles") or micro.get("megahertz") or micro.get("microseconds")


def failures(rows):
    unknown = [row["name"] for row in rows if row["kind"] == "micro" and not value_of(row)]
    if unknown:
        yield "FAILED: instructions not measured: " + ", ".join(unknown)
    for row in rows:
        if row["kind"] == "speed" and row["by"] == "rec" and "milliseconds" not in row:
            yield "FAILED: {label} {pass}: not run".format(**row)
        if row.get("passed", True):
            continue
        deviation = "error {error} > {tolerance} at {where}".format(**row) if "where" in row else ""
        yield "FAILED: " + {
            "op": lambda: "operation {name}".format(**row),
            "part": lambda: "{part}: {what}".format(**row),
            "check": lambda: "{recurrence} {type} {way} T={time}: ".format(**row) + deviation,
            "shape": lambda: "shape {label}, {batch} x {time}: ".format(**row) + deviation,
            "sanitizer": lambda: "{tool} {library}".format(**row),
            "pass": lambda: "{label} {pass} without {without}: not run".format(**row) if row["without"] else "{label} {pass}, beside others: not run".format(**row),
            "framework": lambda: "{name}: {what}".format(**row),
        }[row["kind"]]()


def summary(rows):
    of = lambda kind: [row for row in rows if row["kind"] == kind]
    for row in of("device"):
        yield "{name}, compute capability {capability}, {multiprocessors} multiprocessors, driver {driver}".format(**row)
    for row in of("machine"):
        yield "the machine copies {gigabytes_a_second} GB/s, multiplies {mma_sync_teraflops} TFLOP/s by mma.sync".format(**row)
    if not of("machine"):
        yield "the machine: not measured"
    micros = of("micro")
    if micros:
        measured = sum(value_of(row) is not None for row in micros)
        yield f"instructions: {measured} measured, {len(micros) - measured} not"
    for kind, what in (("op", "operations"), ("check", "recurrences, in checks"), ("shape", "shapes, held against the host"),
                       ("framework", "frameworks"), ("sanitizer", "compute-sanitizer")):
        if of(kind):
            yield "%s: %d passed, %d failed" % (what, *passed(rows, kind))
    if of("op_not_run"):
        yield f"operations of compute capability 9.0 alone: {len(of('op_not_run'))}, not run on this GPU"
    if of("part"):
        yield f"parts that did not come to their end: {len(of('part'))}"
    for row in of("framework"):
        yield "  {name}: {what}".format(**row)
    loads = of("load")
    if loads:
        worst = max(loads, key=lambda row: row["milliseconds"])
        yield "loading: %.0f ms for %d libraries; the longest %.0f ms, %s" % (
            sum(row["milliseconds"] for row in loads), len(loads), worst["milliseconds"], worst["library"])
        for row in loads:
            if ".ptx." in row["library"]:
                yield "  as PTX, which the driver assembles: %.0f ms, %s" % (row["milliseconds"], row["library"])


def speed(rows, model):
    """A line for each shape and pass, with what the models predict and what peers take."""
    machine = next((row for row in rows if row["kind"] == "machine"), {})
    predictions = {(p["label"], p["pass"]): p for p in model}
    wrong = {row["label"] for row in rows if row["kind"] == "shape" and not row["passed"]}
    held = {row["label"] for row in rows if row["kind"] == "shape"}
    found = {}
    for row in (row for row in rows if row["kind"] == "speed"):
        found.setdefault((row["label"], row["pass"]), {})[row["by"]] = row
    if not found:
        return
    yield "%-28s %-9s %10s %-7s %9s %6s %19s %6s %9s %9s %9s %8s  %s" % (
        "shape", "pass", "ms", "result", "model ms", "ratio", "counted ms", "ratio", "cycles", "model", "bandwidth", "products", "peers ms")
    for (label, what), by in found.items():
        own, p = by.get("rec", {}), predictions.get((label, what))
        ms, ratio, counted = own.get("milliseconds"), ratio_of(own, p), p and p["counted_ms"]
        share = lambda amount, unit: "%.1f %%" % (100 * amount / (1e-3 * ms) / unit) if ms and amount and unit else "-"
        first = next((k for k in p["kernels"] if "model" in k), {}) if p else {}
        steps = first.get("steps", 0) and own.get("time") and ms
        yield ("%-28s %-9s %10s %-7s %9s %6s %19s %6s %9s %9s %9s %8s  %s" % (
            label, what, "%.4f" % ms if ms else "not run", "WRONG" if label in wrong else "right" if label in held else "-",
            "%.4f" % p["model_ms"] if p else "-", "%.2f" % ratio if ratio else "-",
            "%.4f .. %.4f" % tuple(counted) if counted else "-", "%.2f" % (2 * ms / sum(counted)) if counted and ms else "-",
            "%.0f" % (first["model"] * ratio) if steps and ratio else "-", "%.0f" % first["model"] if first else "-",
            share(own.get("bytes"), 1e9 * machine.get("gigabytes_a_second", 0)),
            share(own.get("operations"), 0.5e12 * machine.get("mma_sync_teraflops", 0)),
            " ".join(f"{name} {row['milliseconds']}" for name, row in by.items() if name != "rec"))).rstrip()
    ratios = {key: ratio_of(by.get("rec", {}), predictions.get(key)) for key, by in found.items()}
    ratios = {key: x for key, x in ratios.items() if x}
    if ratios:
        order = sorted(ratios.values())
        yield "measured over modelled: median %.2f of %d; furthest from it:" % (order[len(order) // 2], len(order))
        middle = order[len(order) // 2]
        for key in sorted(ratios, key=lambda key: -max(ratios[key] / middle, middle / ratios[key]))[:5]:
            yield "  %-28s %-9s %.2f" % (*key, ratios[key])


def passes(rows):
    """What the passes of the compiler are worth: time without each over that with all, and the mean over all shapes."""
    found = {(row["label"], row["pass"], row["without"]): row["milliseconds"] for row in rows if row["kind"] == "pass" and row["passed"]}
    ratios = {}
    for (label, what, without), milliseconds in found.items():
        if without and (label, what, "") in found:
            ratios.setdefault(without, {})[label, what] = milliseconds / found[label, what, ""]
    if ratios:
        yield "without a pass of the compiler, over with all: the mean, and each kernel"
    for without, own in sorted(ratios.items(), key=lambda item: -mean(item[1].values())):
        yield "  %-18s %5.2f   %s" % (without, mean(own.values()), ", ".join(f"{label} {what} {x:.2f}" for (label, what), x in own.items()))


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def counters(rows):
    for row in (row for row in rows if row["kind"] == "ncu"):
        yield "ncu %s %s: " % (row["label"], row["kernel"]) + ", ".join(
            f"{name} {value}" for name, value in row.items() if name not in ("kind", "label", "kernel"))


def not_reached(rows, left):
    """By part, with how many of how many processes are left."""
    parts = {}
    for part, name in left:
        parts.setdefault(part, []).append(name)
    said = [f"{part} ({', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''})" for part, names in parts.items()]
    return said + [f"{row['part']} ({row['what']})" for row in rows if row["kind"] == "absent"]


def text(rows, left, model):
    """The table and the exit status."""
    lines = [*summary(rows), *speed(rows, model), *passes(rows), *counters(rows)]
    wrong, rest = list(failures(rows)), not_reached(rows, left)
    lines += wrong
    lines.append("not reached: " + "; ".join(rest) if rest else "all was reached")
    return "\n".join(lines) + "\n", 1 if wrong else 3 if rest else 0
