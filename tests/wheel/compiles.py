"""rec_lang.compile of an installed wheel, in the current folder, which has decay.rec.

    compiles.py RECC        RECC: a recc that writes a line to $REC_RUNS for each run, and waits while $REC_WAIT is a file

Prints FAILED lines and `N passed, N failed`.
"""
import importlib.metadata
import os
import pickle
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import rec_lang
from checks import check, finish

RUNS, WAIT = Path(os.environ["REC_RUNS"]), Path(os.environ["REC_WAIT"])
FAST = {"target": "x86-64-v2", "options": ["-O0"]}
DECAY = Path("decay.rec").read_text()
# What another process runs, which prints 4.0; {}: its cache.
MAKE = """
module = rec_lang.compile('decay.rec', 'numpy', dtype='f64', cache={}, **FAST)
print(module.decay(np.ones((1, 1, 1, 4)), np.ones(1)).y.sum())"""


def runs():
    return len(RUNS.read_text().splitlines()) if RUNS.exists() else 0


def compiled(source, **given):
    """The module, and whether recc ran."""
    before = runs()
    module = rec_lang.compile(source, **{**FAST, "framework": "numpy", "dtype": "f64", **given})
    return module, runs() > before


def python(code, **options):
    """Another process."""
    code = f"import rec_lang, numpy as np\nFAST = {FAST!r}\n{code}"
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)


def refusal(source, **given):
    try:
        compiled(source, **given)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "none"


def said_by_recc(*words):
    return subprocess.run([os.environ["RECC"], *words], capture_output=True, text=True).stderr.rstrip("\n")


def values():
    del os.environ["RECC"]
    inside = Path(rec_lang.__file__).parent / "bin" / "recc"
    check(f"recc is that of the wheel, not {rec_lang.find_recc()}", Path(rec_lang.find_recc()) == inside)
    check("the version is the wheel's", rec_lang.__version__ == importlib.metadata.version("rec-lang"))
    check("recc runs", rec_lang.compile("decay.rec", "numpy", dtype="f64").decay)
    os.environ["RECC"] = sys.argv[1]
    x = np.random.default_rng(1).standard_normal((2, 7, 3, 4))
    mix = np.arange(1.0, 4)
    module, ran = compiled("decay.rec")
    y, h, _ = module.decay(x, mix)
    state, expected = 0, []
    for t in range(7):
        state = 0.5 * state + mix[:, None] * x[:, t]
        expected.append(state)
    check("the first call runs recc", ran)
    check("values", np.allclose(y, np.stack(expected, 1), rtol=1e-14) and np.allclose(h, state, rtol=1e-14))
    return module


def hits(module):
    started = time.perf_counter()
    again, ran = compiled(Path("decay.rec").absolute())
    seconds = time.perf_counter() - started
    check("the same program is the same module, without a run of recc", again is module and not ran)
    check(f"found in {1e3 * seconds:.1f} ms, expected 50 at most", seconds < 0.05)
    other_type, ran = compiled("decay.rec", dtype="f32")
    check("another type is another module", other_type is not module and ran)
    other, ran = compiled("decay.rec", sizes={"N": 8})
    check("other sizes are another module", other is not module and ran)
    check("a size of its own", other.decay(np.ones((1, 2, 3, 8)), np.ones(3)).y.shape == (1, 2, 3, 8))
    before = runs()
    child = python(MAKE.format("None"))
    check("another process has it without a run of recc", child.communicate()[0] == "4.0\n" and runs() == before)
    for name in ("float32", np.float32, np.dtype("float32"), ("f32",)):
        check(f"{name!r} is f32", compiled("decay.rec", dtype=name)[0] is other_type)
    missing = refusal("decay.rec", framework="pytorch")
    check(f"pytorch is torch: {missing}", missing == "ModuleNotFoundError: No module named 'torch'")
    text, ran = compiled(DECAY)
    check("text is a program", ran and text.decay(np.ones((1, 1, 1, 4)), np.ones(1)).y.sum() == 4 and not compiled(DECAY)[1])
    standard, _ = compiled("std.mingru")
    check("a file of the standard library", standard.mingru and not compiled("std.mingru")[1])


def imports():
    """A change of a file that an import imports."""
    Path("a b").mkdir()
    main, beside, far = Path("main.rec"), Path("a b/beside #1.rec"), Path("a b/far.rec")
    main.write_text('import "a b/beside #1.rec"\n' + DECAY.replace("0.5", "factor(1)"))
    beside.write_text('import "far.rec"\nfn factor(x) = half(x)\n')
    far.write_text("fn half(x) = x / 2\n")

    def second():
        module, ran = compiled(main)
        return module.decay(np.ones((1, 2, 1, 4)), np.ones(1)).y[0, 1, 0, 0], ran

    check("imports", second() == (1.5, True))
    check("unchanged", second() == (1.5, False))
    far.write_text("fn half(x) = x / 4\n")
    check("an import's import has changed", second() == (1.25, True))
    far.write_text("fn half(x) = x / 2\n")
    check("and changed back", second() == (1.5, False))
    far.unlink()
    check(f"it is gone: {refusal(main)}", refusal(main) == f"CompileError: {said_by_recc('main.rec')}")


def mistakes():
    wrong = Path("wrong.rec")
    wrong.write_text(DECAY.replace("mix * x", "mix * z"))
    said = said_by_recc("wrong.rec")
    check("recc names the place", said.startswith("wrong.rec:6:") and said.count("\n") == 2)
    check("a mistake is an exception with recc's text", refusal("wrong.rec") == f"CompileError: {said}")
    check("in text as well", refusal(wrong.read_text()) == f"CompileError: {said.replace('wrong.rec', 'program.rec')}")
    for source in ("none.rec", "std.none", "none"):
        check(f"no such file: {source}", refusal(source) == f"CompileError: {said_by_recc(source)}")
    check("a wrong type", refusal("decay.rec", dtype="f8") == f"CompileError: {said_by_recc('decay.rec', '--dtype', 'f8')}")
    check("a wrong option", refusal("decay.rec", options=["--no"]) == f"CompileError: {said_by_recc('decay.rec', '--no')}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        compiled(DECAY.replace("  h =", "  let unused = 2 * x\n  h ="))
    check("a warning of recc is one of Python", [one.category for one in caught] == [rec_lang.CompileWarning])
    check("at the line of the call", [one.filename for one in caught] == [__file__])
    os.environ["RECC"] = "/nowhere/recc"
    check(f"no recc: {refusal('decay.rec')}", refusal("decay.rec").endswith("No such file or directory: '/nowhere/recc'"))
    os.environ["RECC"] = sys.argv[1]


def left(cache):
    """What stands in a cache besides lists of imports."""
    return sorted(name.split("_")[0].split("-")[0] for name in os.listdir(cache) if not name.endswith(".imports"))


def processes():
    """Two at once, and one that is killed."""
    shared, broken = MAKE.format("'shared'"), MAKE.format("'broken'")
    before = runs()
    WAIT.touch()
    both = [python(shared), python(shared)]
    wait_for(lambda: runs() == before + 2)
    WAIT.unlink()
    check("two processes at once", [one.communicate()[0] for one in both] == ["4.0\n"] * 2)
    check(f"leave one module: {left('shared')}", left("shared") == ["decay"])
    WAIT.touch()
    killed = python(broken, start_new_session=True)
    wait_for(lambda: runs() == before + 3)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    WAIT.unlink()
    check(f"a killed process leaves its own folder: {left('broken')}", left("broken") == ["making"])
    again = python(broken)
    check("the next one compiles", again.communicate()[0] == "4.0\n" and left("broken") == ["decay", "making"])
    for name in os.listdir("broken"):
        os.utime(Path("broken", name), (1, 1))
    compiled("decay.rec", cache="broken", sizes={"N": 2})
    check(f"what is old is removed: {left('broken')}", left("broken") == ["decay", "decay"])


def several():
    """Programs that are compiled at once."""
    sizes = (3, 5, 6, 7)
    count = min(len(sizes), len(os.sched_getaffinity(0)))
    code = f"""
calls = [dict(FAST, source='decay.rec', framework='numpy', sizes={{{{'N': n}}}}, cache='{{}}') for n in {sizes}]
modules = rec_lang.compile_all(calls)
print([float(one.decay(np.ones((1, 1, 1, n), 'f'), np.ones(1, 'f')).y.sum()) for one, n in zip(modules, {sizes})])"""
    before = runs()
    WAIT.touch()
    child = python(code.format("several"))
    wait_for(lambda: runs() == before + count)
    WAIT.unlink()
    said = child.communicate()[0]
    check(f"each module is its own: {said}", said == "[3.0, 5.0, 6.0, 7.0]\n")
    check(f"each is compiled once: {runs() - before} runs", runs() == before + len(sizes))
    check(f"{left('several')} are there", left("several") == ["decay"] * len(sizes))
    one = {**FAST, "source": "decay.rec", "framework": "numpy", "cache": "several"}
    again = rec_lang.compile_all([{**one, "dtype": dtype} for dtype in ("f64", "f64", "f32")])
    check("the same program twice is one module", again[0] is again[1] is not again[2] and runs() == before + len(sizes) + 2)
    wrong = {"source": "decay.rec", "framework": "numpy", "sizes": {"M": 2}, "cache": "one_wrong"}
    try:
        rec_lang.compile_all([{**FAST, **wrong}, {**FAST, **wrong, "sizes": {"N": 2}}])
        said = "none"
    except rec_lang.CompileError as error:
        said = str(error)
    words = ["decay.rec", "--emit=numpy", "--dtype", "f32", "--target", "x86-64-v2", "-D", "M=2", "-O0"]
    check(f"a mistake names its program: {said}", said == f"recc {' '.join(words)}:\n{said_by_recc(*words, '-o', 'none')}")
    check(f"nothing unfinished is left: {left('one_wrong')}", "making" not in left("one_wrong"))
    WAIT.touch()
    before = runs()
    # Tests that a shell runs in the background ignore SIGINT, and so would their children.
    child = python(code.format("stopped"), start_new_session=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
    wait_for(lambda: runs() == before + count)
    child.send_signal(signal.SIGINT)
    said = child.communicate()[0]
    check(f"Ctrl-C: {said}", said.endswith("KeyboardInterrupt\n"))
    check(f"leaves nothing: {left('stopped')}", os.listdir("stopped") == [] and runs() == before + count)
    # A run is a shell here, whose `sleep` ends by itself.
    wait_for(lambda: not is_group(child.pid))
    check("ends each run of recc", not is_group(child.pid))
    WAIT.unlink()


def is_group(number):
    """Whether a process of this group goes on."""
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def wait_for(what):
    until = time.monotonic() + 60
    while not what() and time.monotonic() < until:
        time.sleep(0.01)


def pickles(module):
    """A result has a class of the module's, which another process finds by its name."""
    Path("result.pickle").write_bytes(pickle.dumps(module.decay(np.ones((1, 1, 1, 4)), np.ones(1))))
    child = python("import pickle\nprint(pickle.load(open('result.pickle', 'rb')).y.sum())")
    check("pickles", child.communicate()[0] == "4.0\n")


module = values()
hits(module)
imports()
mistakes()
processes()
several()
pickles(module)
finish()
