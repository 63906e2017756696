#!/usr/bin/env python3
"""On a machine with a GPU, nothing else needed: ./gpu_check [--seconds N] [--out FOLDER] [--jobs N] [--only NAME,..] [PART ..]

Parts, in the order of their worth, which is the default:
  device      what GPU there is
  machine     what it copies and multiplies, cycles of instructions (gpu_costs.def, with figures in place of guesses)
  ops         both bodies of each abstract operation against each other
  speed       the shapes of the file `shapes` down to its line `remaining`, each held against the host, beside what the models predict
  check       each recurrence of the standard library against the host, several at once; those of `speed` in bf16 first
  peers       kernels of flash-linear-attention and of torch at some of these shapes; first all at once, so that they are compiled
  ncu         counters of ten kernels, ncu.csv
  passes      what passes of the compiler are worth at five shapes: libraries made without each, timed in turn
  frameworks  torch, JAX and `rec train`
  sanitize    two libraries under compute-sanitizer
  remaining   the other shapes

Each library, shape and operation is a process. One that outlasts its limit has failed: a kernel that waits for what never comes.
Then a new process goes on, if the GPU still answers. --seconds is the time of the whole: what it does not reach is not run, and
the last line of the table names it. FOLDER gets results.lines as findings come, and after each process results.txt, the table,
results.json and messages. --only: these of the operations alone. Exit status: 0 all is well, 1 something is wrong, 3 nothing is wrong, but not all was reached.
GPU_CHECK_LIMIT: seconds in place of every limit, for tests."""
import argparse, concurrent.futures, contextlib, csv, glob, json, os, shutil, signal, subprocess, sys, threading, time

import costs, table

PARTS = "device machine ops speed check peers ncu passes frameworks sanitize remaining".split()
MOST_HANGS = 3  # of the operations: each costs its limit
PROFILED = "gla-32x64x128-64k gated_deltanet-64x128-8k kda-64x128-16k rwkv7-64x64-32k mamba2-64x64-64k".split()
SECTIONS = "SpeedOfLight Occupancy SchedulerStats WarpStateStats MemoryWorkloadAnalysis MemoryWorkloadAnalysis_Tables".split()
SANITIZED = ["gla.bf16.so gla 2 100 H=2", "mamba1.f32.so selective_scan 2 100 E=40"]


class Job:
    """One process; `together`: others of its kind may run beside it."""

    def __init__(self, part, name, limit, words, together=False):
        self.part, self.name, self.words, self.together = part, name, words, together
        self.ours = part not in ("peers", "ncu", "sanitize")  # where those are slow or break off, rec is not wrong
        self.limit = float(os.environ.get("GPU_CHECK_LIMIT", limit))


class Run:
    def __init__(self, words):
        self.out, self.jobs_at_once, self.only = words.out, words.jobs, words.only
        self.deadline = time.monotonic() + words.seconds if words.seconds else float("inf")
        self.children, self.lock, self.left, self.gone = set(), threading.RLock(), [], False
        for name in ("results.lines", "messages", "ncu.csv"):
            open(self.path(name), "w").close()

    def path(self, name):
        return os.path.join(self.out, name)

    def say(self, **finding):
        with open(self.path("results.lines"), "a") as lines:
            lines.write(json.dumps(finding) + "\n")

    def broken(self, name, what):
        print(f"gpu_check: {name}: {what}", file=sys.stderr)
        self.say(kind="part", part=name, passed=False, what=what)

    # ---- findings ----

    def findings(self):
        """A line that a kill cut off is none."""
        rows = []
        for line in open(self.path("results.lines"), errors="replace"):
            try:
                rows.append(json.loads(line))
            except ValueError:
                pass
        return rows

    def write(self, name, text):
        with open(self.path(name + ".new"), "w") as file:
            file.write(text)
        os.replace(self.path(name + ".new"), self.path(name))

    def report(self):
        with self.lock:
            rows = self.findings()
            text, status = table.text(rows, self.left, json.load(open("model.json")) if os.path.exists("model.json") else [])
            self.write("results.json", "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
            self.write("results.txt", text)
            if any(row["kind"] == "micro" for row in rows) and os.path.exists("guesses.def"):
                try:
                    self.write("gpu_costs.def", costs.text(rows, open("guesses.def").read()))
                except Exception as problem:
                    open(self.path("messages"), "a").write(f"gpu_check: gpu_costs.def: {type(problem).__name__}: {problem}\n")
        return text, status

    # ---- processes ----

    def process(self, words, limit, out=None, by_finding=False):
        """Exit status; None where it was stopped: after the limit, or where the last finding is so long ago."""
        with open(out or self.path("results.lines"), "ab") as lines, open(self.path("messages"), "ab") as messages:
            child = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=lines, stderr=messages, start_new_session=True)
        self.children.add(child)
        try:
            size = None
            while by_finding and size != (size := os.path.getsize(self.path("results.lines"))):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    return child.wait(max(0.1, min(limit, self.deadline - time.monotonic())))
            return child.wait(max(0.1, min(0 if by_finding else limit, self.deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            try:
                child.wait(15)
            except subprocess.TimeoutExpired:
                self.gone = True
                self.broken("all that is left", "not run: the driver does not let go of a process that was stopped")
            return None
        finally:
            self.children.discard(child)

    def ended(self, name, status, limit, ours=True):
        """Is all well, or said in findings? Else the GPU may not answer any more."""
        if status in (0, 1) or (status is None and time.monotonic() >= self.deadline):
            return True
        said = open(self.path("messages"), errors="replace").read().strip().splitlines()[-1:]
        what = f"exit status {status}; the end of what it said: {''.join(said)}"
        if status is None:
            what = f"not done after {limit:g} seconds: the GPU hangs, or is that slow"
        if ours:
            self.broken(name, what)
        else:
            self.say(kind="absent", part=name, what=what)
        if self.process(["./rec-gpu-check", "device"], 20, os.devnull) != 0 and time.monotonic() < self.deadline:
            self.gone = True
            self.broken("all that is left", "not run: the GPU does not answer any more")
        return False

    def over(self):
        return self.gone or time.monotonic() >= self.deadline

    def run(self, job):
        if self.over():
            return
        try:
            before = len(list(table.failures(self.findings())))
            status = job.words(self, job) if callable(job.words) else self.process(job.words, job.limit)
            if status == 1 and len(list(table.failures(self.findings()))) == before:
                status = "1, without a finding"
            done = self.ended(job.name, status, job.limit, job.ours)
        except Exception as problem:  # what is behind it still runs
            self.broken(job.name, f"{type(problem).__name__}: {problem}")
            status, done = 1, True
        with self.lock:
            if done and status is None:
                return  # cut off by the end of the time
            self.left.remove((job.part, job.name))
        self.report()

    def run_all(self, jobs):
        """One after another, or as many at once as `together` allows."""
        self.left = [(job.part, job.name) for job in jobs]
        self.report()
        while jobs:
            count = 1
            while jobs[0].together and count < len(jobs) and jobs[count].together:
                count += 1
            with concurrent.futures.ThreadPoolExecutor(self.jobs_at_once if count > 1 else 1) as pool:
                list(pool.map(self.run, jobs[:count]))
            jobs = jobs[count:]

    def stop(self, *_):
        for child in list(self.children):
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        print(self.report()[0], end="", flush=True)
        os._exit(3)


# ---- parts of more than one process --------------------------------------------------------------


def operations(run, job):
    """All in one process. One that breaks off has its line; a new process takes those behind it."""
    names = subprocess.run(["./rec-gpu-check", "names"], capture_output=True, text=True, check=True).stdout.split()
    unknown = sorted(set(run.only) - set(names))
    if unknown:
        run.broken("operations", f"expected names of operations after --only, found {', '.join(unknown)}")
        return 1
    names = run.only or names
    breaks, status = 0, 0
    while names and breaks < MOST_HANGS and not run.over():
        status = run.process(["./rec-gpu-check", "ops", *names], job.limit, by_finding=True)
        seen = {row["name"] for row in run.findings() if row["kind"].startswith("op")}
        rest = [name for name in names if name not in seen]
        if not rest or run.ended("operation " + rest[0], status, job.limit):
            return status
        breaks, names = breaks + 1, rest[1:]
    if names and breaks == MOST_HANGS:
        run.broken("operations", f"{len(names)} are not run, for {breaks} broke off")
    return 1


# The counters that the table shows, by their names in ncu.
COUNTERS = {"nanoseconds": "gpu__time_duration.sum", "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
            "issue": "smsp__issue_active.avg.pct_of_peak_sustained_active", "dram": "dram__bytes.sum", "cache": "lts__t_bytes.sum",
            "conflicts": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum"}


def profile(label):
    def words(run, job):
        shape, log = one_shape(label), os.path.abspath("ncu.one")
        ncu = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "--kernel-name", "regex:rec_kernel",
               "--log-file", log, *[x for s in SECTIONS for x in ("--section", s)]]
        status = 2
        for more in (["--metrics", ",".join(COUNTERS.values())], []):  # where a name of these is none
            if status not in (0, None):
                status = run.process([*ncu, *more, "./rec-gpu-check", "once", "speed", shape], job.limit, os.devnull)
        if not os.path.exists(log):
            return status
        lines = [line for line in open(log, errors="replace") if line.startswith('"')]
        with open(run.path("ncu.csv"), "a") as file:
            file.writelines([f"# {label}\n", *lines])
        for row in list(csv.DictReader(lines))[1:]:  # behind the units
            found = {name: row.get(counter) for name, counter in COUNTERS.items()}
            run.say(kind="ncu", label=label, kernel=row.get("Kernel Name"), **found)
        os.remove(log)
        return status
    return words


def one_shape(label):
    """A file with this line of the shapes alone."""
    line, = [line for line in open("shapes") if line.split()[:1] == [label]]
    path = os.path.abspath("shapes." + label)
    open(path, "w").write(line)
    return path


def variants(words):
    """A file of the shape, and of the same shape for each library that is made without a pass."""
    label, *without = words
    line, = [line.split() for line in open("shapes") if line.split()[:1] == [label]]
    path = os.path.abspath("shapes.passes." + label)
    with open(path, "w") as file:
        for word in ["", *without]:
            library = line[1].removesuffix(".so") + "." + word + ".so" if word else line[1]
            file.write(" ".join([word or label, library, *line[2:]]) + "\n")
    return path


def compiled(words):
    """Triton keeps what it compiles; the figures, of several processes at once, count for nothing."""
    def compile_all(run, job):
        run.process(words, job.limit, os.devnull)
        return 0
    return compile_all


def peers(shapes):
    labels = [label for words in shapes if words[0] == "peers" for label in words[1:]]
    words = lambda label: [sys.executable, "peers.py", "shapes", label]
    return ([Job("peers", "compiling for " + label, 75, compiled(words(label)), together=True) for label in labels] +
            [Job("peers", label, 75, words(label)) for label in labels])


def sanitizers():
    jobs = []
    for tool in ("memcheck", "racecheck"):
        for line in SANITIZED:
            path = os.path.abspath("shapes." + line.split(".so")[0])
            open(path, "w").write("sanitized " + line + "\n")
            jobs.append((tool, line.split()[0], ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", "./rec-gpu-check", "once",
                                                 "libraries", path]))

    def words(tool, library, command):
        def sanitize(run, job):
            log = os.path.abspath("sanitizer.log")
            open(log, "w").close()
            status = run.process(command, job.limit, log)
            if status is not None:
                run.say(kind="sanitizer", tool=tool, library=library, passed=status == 0)
                if status != 0:
                    open(run.path("messages"), "a").write(open(log, errors="replace").read()[-20000:])
            return None if status is None else int(status != 0)
        return sanitize
    return [Job("sanitize", f"{tool} {library}", 23, words(tool, library, command)) for tool, library, command in jobs]


def libraries():
    """Those of the shapes in bf16 first."""
    first = {line.split()[1].split("-")[0] for line in open("shapes") if line.startswith("library ")}

    def worth(path):
        name, kind = os.path.basename(path).split(".")[:2]
        return (not (name in first and kind != "f32"), kind == "f32", path)
    return sorted(glob.glob("libraries/*.so"), key=worth)


def lacks(part):
    """What a part needs that is not here."""
    if part in ("ncu", "sanitize"):
        command = {"ncu": "ncu", "sanitize": "compute-sanitizer"}[part]
        return None if shutil.which(command) else f"no {command} in the path"
    if part == "frameworks":
        return None if os.path.isdir("frameworks") else "not in this pack"
    return None


def jobs_of(part):
    shapes = [line.split() for line in open("shapes") if line.strip() and line[0] != "#"]
    labels = [words[0] for words in shapes if words[0] not in ("library", "peers", "passes")]
    at = labels.index("remaining") if "remaining" in labels else len(labels)
    if part == "device":
        return [Job(part, "device", 20, ["./rec-gpu-check", "device"])]
    if part == "machine":
        return [Job(part, name, 20, ["./rec-gpu-check", name]) for name in ("machine", "micro")]
    if part == "ops":
        return [Job(part, "operations", 20, operations)]
    if part in ("speed", "remaining"):
        return [Job(part, label, 20, ["./rec-gpu-check", "speed", "speed", one_shape(label)])
                for label in (labels[:at] if part == "speed" else labels[at + 1:])]
    if part == "check":
        return [Job(part, os.path.basename(path), 20, ["./rec-gpu-check", "check", path], together=True) for path in libraries()]
    if part == "peers":
        return peers(shapes)
    if part == "ncu":
        return [Job(part, label, 30, profile(label)) for label in PROFILED if label in labels]
    if part == "passes":
        return [Job(part, words[1], 20, ["./rec-gpu-check", "passes", "speed", variants(words[1:])]) for words in shapes if words[0] == "passes"]
    if part == "frameworks":
        return [Job(part, name, 60, [sys.executable, "frameworks.py", name]) for name in ("torch", "jax", "train")]
    return sanitizers()


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float)
    words.add_argument("--out", default=".")
    words.add_argument("--jobs", type=int, default=max(1, min(8, (os.cpu_count() or 1) // 2)))
    words.add_argument("--only", type=lambda names: names.split(","), default=[], metavar="NAME,..")
    words.add_argument("parts", nargs="*", metavar="PART", choices=[*PARTS, []])
    words = words.parse_args()
    words.out = os.path.abspath(words.out)
    os.makedirs(words.out, exist_ok=True)
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, [os.path.abspath("lib"), os.environ.get("LD_LIBRARY_PATH")]))
    os.environ["PYTHONPATH"] = ":".join(filter(None, [os.path.abspath("python"), os.environ.get("PYTHONPATH")]))
    run = Run(words)
    signal.signal(signal.SIGTERM, run.stop)
    signal.signal(signal.SIGINT, run.stop)
    jobs = []
    for part in words.parts or PARTS:
        if lacks(part):
            run.say(kind="absent", part=part, what=lacks(part))
        else:
            jobs += jobs_of(part)
    run.run_all(jobs)
    text, status = run.report()
    print(text, end="")
    sys.exit(status)


main()
