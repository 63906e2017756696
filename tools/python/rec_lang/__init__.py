"""Recurrences of rec in PyTorch, JAX and NumPy, compiled when they are asked for.

    import rec_lang

    gla = rec_lang.compile("std.gla", "torch", sizes={"K": 64, "V": 64})
    y, hT_S = gla.gla(q, k, v, gate)

`compile` runs recc once for a program and its options; from then on the module comes from a cache of files. `compile_all` does so
for several programs at once.
"""
from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from concurrent import futures
from pathlib import Path
from types import ModuleType
from typing import Any, Iterable, Mapping, Optional, Sequence, Union

__version__ = "0.1.0"
__all__ = ["compile", "compile_all", "CompileError", "CompileWarning", "cache_folder", "find_recc"]

_STANDARD = re.compile(r"std(\.\w+)+")
_FRAMEWORKS = {"pytorch": "torch"}  # other names of frameworks
_DTYPES = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}
_STALE_SECONDS = 3600  # age of a folder that a killed process has left in the cache


class CompileError(RuntimeError):
    """recc has refused a program or an option. The text is what recc printed."""


class CompileWarning(UserWarning):
    """recc has compiled a program and warns of something. The text is what recc printed."""


def compile(
    source: Union[str, os.PathLike],
    framework: str = "torch",
    *,
    dtype: Any = "f32",
    sizes: Optional[Mapping[str, Union[int, Sequence[int]]]] = None,
    export: Union[None, str, Sequence[str]] = None,
    target: str = "host",
    options: Sequence[str] = (),
    cache: Union[None, str, os.PathLike] = None,
) -> ModuleType:
    """The module of a program's recurrences for a framework: "torch" ("pytorch"), "jax" or "numpy".

    source     the path of a .rec file; "std.NAME", a file of the standard library; or the text of a program
    dtype      "f32", "f64", "bf16" or "f16", or several of them; "float32" and types of torch, JAX and NumPy are understood
    sizes      of axes: {"K": 64}, {"ssd.N": 128}; a sequence of sizes makes code for each
    export     names of imported recurrences that the module is to have, too
    target     "host", or GPUs as in recc's --target: "sm_90a", "all"
    options    more words for recc (`recc --help`)
    cache      the folder of compiled modules; $REC_CACHE without it, else ~/.cache/rec

    A path, or text with a program's `{`, is told by what it looks like; a pathlib.Path is always a path.
    The same arguments give the same module, as long as neither the program nor what it imports changes.
    """
    return _modules([_Job(source, framework, dtype, sizes, export, target, options, cache)])[0]


def compile_all(calls: Iterable[Mapping[str, Any]]) -> list:
    """The modules of several calls of `compile`, each given as its arguments by name: [{"source": "std.gla"}, ..].

    What is missing is compiled by as many processes of recc at once as there are processors. The first that fails ends the others.
    Its CompileError begins with the words that recc was given.
    """
    arguments = [inspect.signature(compile).bind(**call) for call in calls]
    for one in arguments:
        one.apply_defaults()
    return _modules([_Job(**one.arguments) for one in arguments], are_named=True)


def find_recc() -> str:
    """The path of recc: $RECC, that of this package, of the checkout that it lies in, beside Python, or in $PATH."""
    named = os.environ.get("RECC")
    if named:
        return shutil.which(named) or named
    here = Path(__file__).resolve().parent
    tree = here.parents[2] if len(here.parents) > 2 else here
    for place in (here / "bin", tree / "build" / "release" / "bin", Path(sys.executable).parent):
        if os.access(place / "recc", os.X_OK):
            return str(place / "recc")
    found = shutil.which("recc")
    if found is None:
        raise FileNotFoundError(f"expected recc in {here / 'bin'}, beside {sys.executable} or in PATH, found none; $RECC names one")
    return found


def cache_folder() -> str:
    """The folder of compiled modules. What lies there may be removed at any time while no process compiles."""
    return os.path.abspath(os.environ.get("REC_CACHE") or os.path.expanduser("~/.cache/rec"))


def _several(one_or_more) -> list:
    is_one = isinstance(one_or_more, str) or not isinstance(one_or_more, Iterable)
    return [one_or_more] if is_one else list(one_or_more)


def _dtype_word(dtype: Any) -> str:
    """recc's word for a number type: "float32", torch.float32, numpy.float32, numpy.dtype("float32") and jax.numpy.float32 are "f32"."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    name = name.rsplit(".", 1)[-1]
    return _DTYPES.get(name, name)


# ---- programs ------------------------------------------------------------------------------------------------------------


class _Program:
    """What is compiled: a name of the standard library, a file, or text."""

    def __init__(self, source: Union[str, os.PathLike]):
        self.path: Optional[str] = None  # of a file
        self.text: Optional[bytes] = None  # that was given in place of a file
        self.word = os.fspath(source)  # for recc
        if isinstance(source, str) and _STANDARD.fullmatch(source):
            return
        if isinstance(source, str) and "{" in source and not source.endswith(".rec"):
            self.text, self.word = source.encode(), "program.rec"
        else:
            self.path = os.path.abspath(source)

    def content(self) -> bytes:
        """Of the file, or the text; nothing for the standard library, which is recc's, and for a file that is missing."""
        return self.text if self.text is not None else _read(self.path) or b""

    def beside(self, name: str) -> Optional[str]:
        """The path of an import, which is named from the folder of the program."""
        return None if self.path is None else os.path.join(os.path.dirname(self.path), name)


def _read(path: Optional[str]) -> Optional[bytes]:
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError:
        return None


# ---- the cache -----------------------------------------------------------------------------------------------------------
#
#   HASH.imports             the files that a program imports, as recc has named them; HASH is that of the program, the options
#                            and recc
#   NAME_HASH                what recc has made, never changed; this HASH has the imports as well
#   making-*                 what is being made, or was left by a process that was killed


class _Key:
    """Where a module lies in the cache."""

    def __init__(self, recc: str, words: Sequence[str], program: _Program, folder: str):
        self.program, self.folder = program, folder
        about = os.stat(recc)
        tool = [os.path.realpath(recc), about.st_size, about.st_mtime_ns, shutil.which("ptxas")]
        # Only the last part of a path is part of what recc writes.
        name = os.path.basename(program.word)
        self.stem = re.sub(r"\W", "_", name.rsplit(".", 1)[0] if program.path or program.text else name.rsplit(".", 1)[-1])
        self.hash = _hash(repr((tool, list(words), name)).encode(), program.content())
        self.list = os.path.join(folder, f"{self.hash}.imports")

    def entry(self, imports: Sequence[str]) -> Optional[str]:
        """The folder of the module, given the names of its imports; None where one of them cannot be read."""
        contents = [_read(self.program.beside(name)) for name in imports]
        if None in contents:
            return None
        return os.path.join(self.folder, f"{self.stem}_{_hash(self.hash.encode(), *contents)}")

    def find(self) -> Optional[str]:
        """The module's folder, if it has been made."""
        known = _read(self.list)
        entry = None if known is None else self.entry(known.decode().splitlines())
        return entry if entry and os.path.isdir(entry) else None

    def remember(self, imports: Sequence[str], work: str) -> None:
        written = os.path.join(work, "imports")
        Path(written).write_text("".join(f"{name}\n" for name in imports))
        os.replace(written, self.list)


def _hash(*parts: bytes) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(b"%d " % len(part) + part)
    return whole.hexdigest()[:24]


def _remove_stale(folder: str) -> None:
    with os.scandir(folder) as there:
        for found in there:
            if found.name.startswith("making-") and _age(found) > _STALE_SECONDS:
                shutil.rmtree(found.path, ignore_errors=True)


def _age(found: os.DirEntry) -> float:
    try:
        return time.time() - found.stat().st_mtime
    except FileNotFoundError:  # its process has finished
        return 0


# ---- runs of recc --------------------------------------------------------------------------------------------------------


class _Job:
    """One call of `compile`."""

    def __init__(self, source, framework, dtype, sizes, export, target, options, cache):
        dtypes = ",".join(_dtype_word(one) for one in _several(dtype))
        self.words = [f"--emit={_FRAMEWORKS.get(framework, framework)}", "--dtype", dtypes, "--target", target]
        for axis, size in (sizes or {}).items():
            self.words += ["-D", f"{axis}={','.join(str(int(one)) for one in _several(size))}"]
        for name in _several(export or ()):
            self.words += ["--export", name]
        self.words += options
        self.recc, self.program = find_recc(), _Program(source)
        folder = cache_folder() if cache is None else os.path.abspath(cache)
        os.makedirs(folder, exist_ok=True)
        self.key = _Key(self.recc, self.words, self.program, folder)

    def name(self) -> str:
        return " ".join(["recc", self.program.word, *self.words])

    def make(self, runs: _Runs) -> tuple:
        """Compiles into a folder of this job's own, which then gets its name at once: the module's folder, and what recc said."""
        key, program = self.key, self.program
        with tempfile.TemporaryDirectory(prefix="making-", dir=key.folder) as work:
            made = os.path.join(work, "made")
            if program.text is not None:
                Path(work, program.word).write_bytes(program.text)
            command = [self.recc, program.word, *self.words, "-MD", "-o", made]
            said = runs.run(command, work if program.text is not None else None)
            imports = _take_imports(made, program)
            entry = key.entry(imports)
            if entry is None:
                raise CompileError(f"{program.word}: expected its imports to stay as they are while it is compiled, found one removed")
            try:
                os.rename(made, entry)
            except OSError:  # another process was faster
                if not os.path.isdir(entry):
                    raise
            key.remember(imports, work)
        return entry, said


class _Stopped(Exception):
    """A run has been ended, or was not begun, because another has failed or the user has stopped this program."""


class _Runs:
    """Processes of recc, which can be ended together."""

    def __init__(self):
        self.lock, self.going_on, self.are_stopped = threading.Lock(), set(), False

    def run(self, command: Sequence[str], folder: Optional[str]) -> str:
        """What recc said, if it has compiled."""
        with self.lock:
            if self.are_stopped:
                raise _Stopped
            process = subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8",
                                       errors="replace")
            self.going_on.add(process)
        with process:
            said = process.communicate()[1].rstrip("\n")
        with self.lock:
            self.going_on.remove(process)
            if self.are_stopped:
                raise _Stopped
        if process.returncode:
            raise CompileError(said or f"{' '.join(command)}: ended with status {process.returncode}")
        return said

    def stop(self) -> None:
        with self.lock:
            self.are_stopped = True
            for process in self.going_on:
                process.kill()


def _modules(jobs: Sequence[_Job], are_named: bool = False) -> list:
    """The modules of these jobs. Where they `are_named`, a message says whose it is. Warnings of recc become Python's."""
    entries = {job.key.hash: job.key.find() for job in jobs}
    missing = {job.key.hash: job for job in jobs if entries[job.key.hash] is None}
    for folder in {job.key.folder for job in missing.values()}:
        _remove_stale(folder)
    for job, (entry, said) in _make_all(list(missing.values()), are_named):
        entries[job.key.hash] = entry
        if said:
            warnings.warn(f"{job.name()}:\n{said}" if are_named else said, CompileWarning, stacklevel=3)
    return [_import(entries[job.key.hash]) for job in jobs]


def _make_all(jobs: Sequence[_Job], are_named: bool) -> list:
    """Each job and what it has made. Nothing goes on, and no unfinished folder is left, however this ends."""
    if not jobs:
        return []
    runs, pool = _Runs(), futures.ThreadPoolExecutor(min(len(jobs), _processors()))
    making = {pool.submit(job.make, runs): job for job in jobs}
    try:
        futures.wait(making, return_when=futures.FIRST_EXCEPTION)
    finally:
        runs.stop()
        pool.shutdown()
    for done, job in making.items():
        mistake = done.exception()
        if are_named and isinstance(mistake, CompileError):
            raise CompileError(f"{job.name()}:\n{mistake}") from None
        if mistake is not None and not isinstance(mistake, _Stopped):
            raise mistake
    return [(job, done.result()) for done, job in making.items()]


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _take_imports(made: str, program: _Program) -> list:
    """The imports of a program, from the rule for make that recc has written, which goes."""
    rule, = Path(made).glob("*.d")
    words = re.findall(r"(?:\\.|\$\$|[^\s\\])+", rule.read_text())[1:]
    rule.unlink()
    paths = [os.path.abspath(re.sub(r"\\(.)|\$(\$)", r"\1\2", word)) for word in words]
    if program.path is None:
        return []
    return [os.path.relpath(path, os.path.dirname(program.path)) for path in paths if path != program.path]


def _import(entry: str) -> ModuleType:
    from rec_lang import compiled

    folder, package = os.path.split(entry)
    if folder not in compiled.__path__:
        compiled.__path__.append(folder)
    file, = Path(entry).glob("*.py")
    importlib.invalidate_caches()
    return importlib.import_module(f"rec_lang.compiled.{package}.{file.stem}")
