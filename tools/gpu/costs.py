"""gpu_costs.def with what the micro-benchmarks found in place of its guesses.

Cycles come from tools/gpu/micro.c, by the name of a row. "Instructions" are turns of a scheduler, measured with 16 warps, four for
each of the four schedulers: the time that the model gives so many instructions. What is a choice of ours, a limit or a share, keeps its
guess: whole kernels measure it (tools/gpu_model)."""
import re

import table

SCHEDULERS, WARPS, ISSUED_EACH = 4, 16, 1.1


def turns(cycles):
    return cycles * SCHEDULERS / WARPS / ISSUED_EACH


# The full rate is that of gpu_targets.def: 1024 multiply-adds in a cycle by mma, 2048 by wgmma.
FIGURES = {
    "FAR": lambda m: m["global_near"],
    "swift": lambda m: (5 * m["fma_issue"] + m["fma"]) / 6,
    "slow": lambda m: (m["fma_issue"] + m["fma"]) / 2,
    "BARRIER_CYCLES": lambda m: m["barrier_8"],
    "mma_slack": lambda m: m["mma_block"] / (8 * 16 * 8 * 16 / 1024),
    "wgmma_slack": lambda m: m["wgmma_block"] / (64 * 128 * 16 / 2048),
    "COMBINE": lambda m: m["combine"],
    "combine_element": lambda m: m["combine_element"] / (32 * 8),
    "combine_product": lambda m: m["combine_product"] / (32 * 8),
    "GROUP_WAIT": lambda m: max(0, m["wgmma"] - m["mma"]) / 2,
    "VECTOR_MEETING": lambda m: m["barrier_8"] / 2,
    "GROUP_STEP": lambda m: 1 + turns(m["group_step"]),
    "SPLIT": lambda m: turns(m["split"]) - 3 / ISSUED_EACH,
    "widen": lambda m: (turns(m["widen"]) - 3 / ISSUED_EACH) / 2,
    "SHUFFLED": lambda m: turns(m["shuffled"]),
    "MEETING": lambda m: turns(m["meeting"]),
    "LEVEL": lambda m: turns(m["level"]),
    "LEVEL_STEP": lambda m: turns(m["level_step"]),
    "LEVEL_READ": lambda m: turns(m["level_read"]),
    "VECTOR": lambda m: turns(m["vector"]),
    "VECTOR_TILE": lambda m: turns(m["vector_tile"]),
    "VECTOR_SUM": lambda m: turns(m["vector_sum"]),
    "VECTOR_PART": lambda m: turns(m["vector_part"]),
    "BY_THREADS": lambda m: turns(m["by_threads"]),
    "SOLVE_BLOCK": lambda m: turns(m["solve_block"]),
    "SOLVE_ROW": lambda m: turns(m["solve_row"]),
    "SOLVE_TERMS": lambda m: turns(m["solve_terms"]),
    "SOLVE_SHARED": lambda m: turns(m["solve_shared"]),
    "SOLVE_OWN": lambda m: turns(m["solve_own"]),
}


ROW = re.compile(r'GPU_(COUNT|FACTOR)\((\w+), ([\d.]+), ("[^"]*"), ("[^"]*"),\s*"(guess[^"]*)"\)')


def text(rows, definitions):
    """The file, with a line in front that says what was measured."""
    m = {row["name"]: table.value_of(row) for row in rows if row["kind"] == "micro"}
    device = next((row["name"] for row in rows if row["kind"] == "device"), "a GPU")
    measured, kept = [], []

    def replace(row):
        kind, name, value, unit, what, source = row.groups()
        try:
            found = float(FIGURES[name](m))
        except (KeyError, TypeError):  # not measured
            kept.append(name)
            return row[0]
        measured.append(name)
        number = str(max(0, round(found))) if kind == "COUNT" else "%.3g" % found
        return f'GPU_{kind}({name}, {number}, {unit}, {what}, "{device}: tools/gpu/micro.c; was {value}, a {source}")'

    body = ROW.sub(replace, definitions)
    return (f"// {device}: {len(measured)} figures are measured; {len(kept)} are guesses still: {', '.join(kept)}.\n"
            f"// For gpu_targets.def: {m.get('clock') or 0:.0f} MHz while tensor cores multiply.\n{body}")
