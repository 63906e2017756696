"""The measurements of tools/bench/bindings: `bindings.py FOLDER`, where gla.py lies."""
import subprocess
import sys
import time

import torch

torch.set_num_threads(1)
sys.path.insert(0, sys.argv[1])
child = ("import sys, time, torch; sys.path.insert(0, sys.argv[1]); t = time.perf_counter(); import gla; print(time.perf_counter() - t);"
         "x = [torch.randn(1, 1, 1, 8) for _ in range(4)]; t = time.perf_counter(); gla.gla(*x); print(time.perf_counter() - t)")
runs = [[float(x) for x in subprocess.run([sys.executable, "-c", child, sys.argv[1]], capture_output=True, text=True,
                                          check=True).stdout.split()] for _ in range(5)]
print(f"import, torch being there   {1e3 * min(run[0] for run in runs):6.1f} ms")
print(f"first call                  {1e3 * min(run[1] for run in runs):6.1f} ms")

import gla  # noqa: E402


def least(what, use, calls=20, runs=1000):
    best = 1.0
    for _ in range(runs):
        start = time.perf_counter()
        for _ in range(calls):
            use()
        best = min(best, (time.perf_counter() - start) / calls)
    print(f"{what:27} {1e6 * best:6.1f} us")


given = [torch.randn(1, 1, 1, 8) for _ in range(4)] + [torch.randn(1, 1, 8, 8)]
with torch.inference_mode():
    plain = [x.clone() for x in given]
    step = [x[:, 0] for x in plain[:4]]
    least("inference", lambda: gla.gla(*plain))
    least("step", lambda: gla.gla_step(*step, plain[4]))
with torch.no_grad():
    least("no_grad", lambda: gla.gla(*given))
wanted = [x.clone().requires_grad_() for x in given]
least("forward for a gradient", lambda: gla.gla(*wanted))
ones = torch.ones(1, 1, 1, 8)
least("forward and backward", lambda: torch.autograd.grad(gla.gla(*wanted).y, wanted, ones))
