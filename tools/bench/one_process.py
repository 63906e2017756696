"""What training by one process costs in one build of rec beside another: processor time, a run of each in turn.

  python3 tools/bench/one_process.py OLD/bin/rec NEW/bin/rec [RUNS = 15] [THREADS = 1]

Trains tests/ranks/ranks.rec (small steps) and a model of 0.8M weights (large steps). The first run of each counts as a warm-up.
Prints the least time of each and the ratio of the two, then the median of the ratios of neighbouring runs with its quartiles. A
build against itself shows how far to trust both on a machine that is busy with other work.
"""
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parents[2]
old, new = (pathlib.Path(word).resolve() for word in sys.argv[1:3])
runs = int(sys.argv[3]) if len(sys.argv) > 3 else 15
threads = sys.argv[4] if len(sys.argv) > 4 else "1"
text = "".join(path.read_text() for folder in ("stdlib", "compiler") for path in sorted((root / folder).glob("*.*")) if path.suffix in (".rec", ".md"))
source = (root / "tests/ranks/ranks.rec").read_text()
steps = re.compile(r"\b40\b")  # of the program
programs = {
    "small steps": steps.sub("120", source),
    "large steps": steps.sub("12", source.replace("D = 16)", "D = 192)").replace("R = 2, P = 8", "R = 12, P = 32")),
}


def seconds(rec, folder):
    """Processor time of a training from its beginning to its end."""
    child = subprocess.Popen([rec, "train", "program.so", "--runs", "runs", "--again", "--threads", threads], cwd=folder,
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    if status:
        sys.exit(f"{rec}: {said.decode()}")
    return usage.ru_utime + usage.ru_stime


for name, program in programs.items():
    with tempfile.TemporaryDirectory() as place:
        folders = []
        for rec in (old, new):
            folder = pathlib.Path(place) / str(len(folders))
            folder.mkdir()
            (folder / "text.txt").write_text(text)
            (folder / "program.rec").write_text(program)
            subprocess.run([rec.parent / "recc", "program.rec", "-o", "program.so"], cwd=folder, check=True)
            folders.append(folder)
        pairs = []
        for run in range(runs + 1):
            pair = [(rec, folder) for rec, folder in zip((old, new), folders)]
            if run % 2:
                pair.reverse()
            taken = [seconds(*one) for one in pair]
            pairs.append(taken[::-1] if run % 2 else taken)
        before, after = (min(side) for side in zip(*pairs[1:]))
        low, middle, high = statistics.quantiles([b / a for a, b in pairs[1:]])
        same = (folders[0] / "runs/base/model.safetensors").read_bytes() == (folders[1] / "runs/base/model.safetensors").read_bytes()
        print(f"{name:12} {before:.3f} s  {after:.3f} s  ratio {after / before:.4f}  median {middle:.4f} ({low:.4f} to {high:.4f})"
              f"{'' if same else '  other weights'}")
