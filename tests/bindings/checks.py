"""What the programs of this folder and of tests/jax share: they load a Python file that recc wrote, and count their checks."""
import importlib.util
import os
import re
import sys

_passed = _failed = 0


def load(folder, stem="recurrences"):
    """The module FOLDER/STEM.py. Each folder is a module of its own."""
    name = f"{stem}_" + re.sub(r"\W", "_", folder)
    spec = importlib.util.spec_from_file_location(name, f"{folder}/{stem}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # torch.compile of torch 2.4 imports it again
    spec.loader.exec_module(module)
    return module


def check(what, good):
    """Counts a check, and names it where it fails."""
    global _passed, _failed
    _passed += bool(good)
    _failed += not good
    if not good:
        program = os.path.abspath(sys.argv[0])
        print(f"FAILED {os.path.relpath(program, os.path.dirname(os.path.dirname(program)))}: {what}")


def tried(what, use):
    """Counts whether `use` ends without an exception, and with something else than False."""
    try:
        check(what, use() is not False)
    except Exception as mistake:
        check(f"{what}: {type(mistake).__name__}: {str(mistake)[:2000]}", False)


def finish():
    """Prints the line of counts."""
    print(f"{_passed} passed, {_failed} failed")


# The recurrences that are compared with loops: axes of inputs, of parameters, of states.
H, K, V, G, R, P, N, E = 3, 4, 5, 1, 2, 5, 6, 7
_heads = [(H, K), (H, K), (H, V)]
RECURRENCES = {
    "gla": (_heads + [(H, K)], [], [(H, K, V)]),
    "ssd": ([(G, R, P), (G, R), (G, N), (G, N)], [(G, R)] * 3, [(G, R, P, N)]),
    "selective_scan": ([(E,), (E,), (N,), (N,)], [(E, N), (E,), (E,)], [(E, N)]),
    "gated_deltanet": (_heads + [(H,), (H,)], [(H,), (H,)], [(H, K, V)]),
    "kda": (_heads + [(H,), (H, K)], [(H,), (H, K)], [(H, K, V)]),
    "rwkv6": (_heads + [(H, K)], [(H, K)], [(H, K, V)]),
    "rwkv7": ([(H, K), (H, K), (H, K), (H, V), (H, K), (H, K)], [], [(H, K, V)]),
    "s4d": ([(H,)], [(H,), (H, N), (H, N), (H, N, 2), (H,)], [(H, N, 2)]),
    "lru": ([(H,)], [(N,)] * 3 + [(N, H)] * 2 + [(H, N)] * 2 + [(H, H)], [(N, 2)]),
    "mlstm": (_heads + [(H,), (H,)], [], [(H, K, V), (H, K), (H,)]),
}
