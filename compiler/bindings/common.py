"""The part that the emitted Python files of all frameworks share: the library, its tensors, its calls.

recc copies what stands below the first line of dashes into each file that it writes, and writes before it

    _NAME, _PREFIX, _HASH, _ABI               the library beside the file, and what it must be
    _SOURCE, _OPTIONS, _DEFINES, _HAS_MODELS  how it is compiled again: recc's word and options, the sizes of -D
    _DTYPES                                   number types of tokens
"""
import ctypes
import functools
import json
import math
import os
import re
import struct
import threading
from typing import Callable, NamedTuple, Optional

_NAME, _PREFIX, _HASH, _ABI = "", "", "", (1, 0)
_SOURCE, _OPTIONS, _DEFINES, _HAS_MODELS, _DTYPES = "", "", {}, False, ("float32",)

# ---- the library ---------------------------------------------------------------------------------------------------------


class RecError(RuntimeError):
    """The library cannot be used, or has refused a call; the message is one line."""


_DTYPE_WORDS = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}


def _again(recurrence: str = "", dtypes: tuple = (), sizes: Optional[dict] = None, damaged: bool = False) -> str:
    """The command that writes library and file again, with further types and with these sizes of axes (K: 64, 128).

    damaged: the library is not as recc wrote it, and is replaced only with --again.
    """
    defines = dict(_DEFINES)
    for axis, several in (sizes or {}).items():
        name = f"{recurrence}.{axis}" if f"{recurrence}.{axis}" in defines else axis
        defines[name] = ",".join(map(str, several[-1:] if _HAS_MODELS else several))  # models have one size of each
    types = ",".join(_DTYPE_WORDS[dtype] for dtype in dict.fromkeys((*_DTYPES, *dtypes)))
    words = ["recc", _SOURCE, _OPTIONS, "--dtype", types, *(f"-D {name}={size}" for name, size in defines.items())]
    words += ["--again"] if damaged else []
    return f"`{' '.join(words)} -o {os.path.dirname(os.path.abspath(__file__))}`"


def _or_type(dtype: str) -> str:
    """What else helps against a wrong type: a library that has it."""
    return f", or {_again(dtypes=(dtype,))} adds {dtype}" if dtype in _DTYPE_WORDS and dtype not in _DTYPES else ""


def _is_whole(path: str) -> bool:
    """Whether a file is an ELF library that ends where it says: loading one that was cut off would kill the process."""
    with open(path, "rb") as file:
        head = file.read(64)
    if len(head) < 64 or head[:4] != b"\x7fELF":
        return False
    sections, size, count = struct.unpack_from("<Q", head, 40)[0], *struct.unpack_from("<HH", head, 58)
    return sections + size * count <= os.path.getsize(path)


def _processor_of(path: str) -> str:
    """The processor that an ELF library is for, as os.uname().machine has it."""
    with open(path, "rb") as file:
        number = struct.unpack_from("<H", file.read(20), 18)[0]
    return {62: "x86_64", 183: "aarch64"}.get(number, f"processor {number} of ELF")


def _open_library() -> tuple:
    """The library beside this file and its manifest, once it is known to be the one that this file was written for."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), f"lib{_NAME}.so")
    if not os.path.exists(path):
        raise RecError(f"expected {path}, found no such file; {_again()} writes it and this file")
    try:
        if not _is_whole(path):
            raise OSError("it is no library, or not a whole one")
        if _processor_of(path) != os.uname().machine:
            raise OSError(f"it is for {_processor_of(path)}, and this machine is {os.uname().machine}")
        library = ctypes.CDLL(path)
        manifest = ctypes.addressof(ctypes.c_char.in_dll(library, f"{_PREFIX}rec_manifest"))
    except (OSError, ValueError) as reason:
        raise RecError(f"expected a library of recc, found {path}: {reason}; {_again(damaged=True)} writes it") from None
    try:
        manifest = json.loads(ctypes.string_at(manifest).decode())
        abi, found = tuple(map(int, manifest["abi"].split("."))), manifest["hash"]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise RecError(f"expected a library of recc, found {path}, whose manifest cannot be read; "
                       f"{_again(damaged=True)} writes it") from None
    if abi[0] != _ABI[0] or abi < _ABI:
        raise RecError(f"expected a library with ABI {_ABI[0]}.{_ABI[1]}, found {manifest['abi']} in {path}; "
                       f"{_again()} writes library and file anew")
    if found != _HASH:
        raise RecError(f"expected the library {_HASH} that this file was written for, found {found} in {path}; "
                       f"{_again()} writes both anew (a process that has loaded the old library must start again)")
    return library, manifest


_library, _manifest = _open_library()
_error = getattr(_library, f"{_PREFIX}rec_error")
_error.restype = ctypes.c_char_p


def _entry(name: str):
    """A C function of two pointers: to arguments, to a launch or to sizes. Packed bytes are passed as they are."""
    function = getattr(_library, name)
    function.argtypes = (ctypes.c_char_p, ctypes.c_char_p)
    function.restype = ctypes.c_int
    return function


def _fail(status: int) -> None:
    """What the library said about a call that it refused."""
    raise RecError(f"{_error().decode()} (status {status})")


# size, ABI, device kind and number; stream, threads, parallel_for and its context, workspace, saved, time_parts
_LAUNCH = struct.Struct("=QIIii9q")
_SIZES = struct.Struct("=Q6qiiq")
_HOST, _CUDA = 0, 1
_BROADCAST = -(1 << 63)  # a stride of 0, where 0 means dense


def _launch(threads: int, workspace: int, workspace_bytes: int, saved: int = 0, saved_bytes: int = 0, kind: int = _HOST,
            number: int = 0, stream: int = 0) -> bytes:
    return _LAUNCH.pack(_LAUNCH.size, _ABI[0], _ABI[1], kind, number, stream, threads, 0, 0, workspace, workspace_bytes, saved,
                        saved_bytes, 0)


class _Room(NamedTuple):
    """Bytes that calls of given sizes need."""

    forward: int
    step: int
    backward: int  # with `saved`
    recompute: int  # backward without
    saved: int


def _measure(sizes_entry, arguments: bytes, kind: int = _HOST, number: int = 0) -> _Room:
    sizes = ctypes.create_string_buffer(_SIZES.pack(_SIZES.size, 0, 0, 0, 0, 0, 0, kind, number, 0), _SIZES.size)
    status = sizes_entry(arguments, sizes)
    if status:
        _fail(status)
    _, _, saved, forward, step, backward, recompute, _, _, _ = _SIZES.unpack(sizes.raw)
    return _Room(forward, step, backward, recompute, saved)


class _Workspace(threading.local):
    """Memory of one thread for its calls. It grows and is kept: fresh pages cost more than small calls do."""

    address, size, memory = 0, 0, None

    def grow(self, size: int) -> int:
        self.address = self.size = 0
        self.memory = ctypes.create_string_buffer(size + 63)
        self.size = size
        self.address = -(-ctypes.addressof(self.memory) // 64) * 64
        return self.address


_workspace = _Workspace()


# ---- tensors -------------------------------------------------------------------------------------------------------------


class _Row(NamedTuple):
    """One tensor of a call."""

    name: str  # of the argument
    kind: str  # "token": [batch, time, axes], "state": [batch or sequences, axes], "param": [axes]
    axes: tuple  # names of axes, in the order of memory
    depth: int  # of a lag buffer, whose first axis this is; else 0
    complex: bool  # the last axis is (re, im)
    dtype: str  # of its numbers: "float32", "bfloat16"
    place: int  # of its address among the eight-byte fields of the arguments; a token's two strides follow
    optional: bool


class _Sizes(NamedTuple):
    """The sizes of a call."""

    batch: int
    time: int
    sequences: Optional[int]  # None: not packed
    axes: dict


@functools.cache
def _formula(text: str, names: tuple) -> Callable:
    """A formula of the manifest as a function of a dictionary with the sizes that it names."""
    def python(word):
        return f"sizes[{word[0]!r}]" if word[0] in names else {"pi": "math.pi"}.get(word[0], word[0])

    functions = {"math": math, "min": min, "max": max, "floor_div": lambda a, b: a // b, "ceil_div": lambda a, b: (a + b - 1) // b,
                 "align": lambda a, b: (a + b - 1) // b * b}
    return eval("lambda sizes: " + re.sub(r"\b[A-Za-z_]\w*", python, text.replace("^", "**")), functions)


def _computed(text: str, names: tuple) -> Callable:
    """The size of an axis that is computed from others. Products stay sizes without a number where frameworks have such."""
    size = _formula(text, names)
    return (lambda sizes: int(size(sizes))) if re.search(r"[/.^]", text) else size


def _rows(recurrence: dict, renamed: dict) -> dict:
    """What a recurrence of the manifest reads and writes: rows by their role and the kind of their tensor."""
    tensors = {tensor["name"]: tensor for tensor in recurrence["tensors"]}
    lags = {lag["name"]: {**lag, "kind": "state"} for lag in recurrence["lags"]}
    narrow = {word: name for name, word in _DTYPE_WORDS.items()}[recurrence["dtype"]]
    rows: dict = {}
    for field in recurrence["arguments"]["fields"]:
        if field["kind"] != "data":
            continue
        role, of = re.fullmatch(r"((?:d\.)?(?:h0\.|hT\.)?)(.*)", field["of"]).groups()
        tensor = tensors.get(of) or lags[of]
        kind = tensor["kind"] if tensor["kind"] in ("param", "state") else "token"
        name = renamed.get(field["name"], field["name"])
        dtype = narrow if kind == "token" or narrow == "float64" else "float32"
        row = _Row(name, kind, tuple(tensor["axes"]), tensor.get("depth", 0), tensor["complex"], dtype, field["offset"] // 8,
                   role == "h0." or role.startswith("d."))
        rows.setdefault(role + tensor["kind"], []).append(row)
    return rows


class _Recurrence:
    """What calls of a recurrence of the manifest take. Checks shapes and says what is wrong with them."""

    def __init__(self, recurrence: dict, renamed: dict, instances: tuple):
        symbol = recurrence["symbol"]
        self.name, self.size = recurrence["name"], recurrence["arguments"]["size"]  # size: bytes of the arguments
        self.plain = recurrence["variant_of"] or symbol  # the symbol of all variants
        # Name: size, or None where the tensors tell it; in the order of the arguments.
        self.axes = {axis["name"]: axis["size"] for axis in recurrence["axes"]}
        # Name: its size as a function of the axes before it.
        self.computed = {axis["name"]: _computed(axis["expression"], tuple(self.axes)) for axis in recurrence["axes"] if axis["expression"]}
        self.chosen = tuple(axis for axis in self.axes if axis in recurrence["fixed"])  # whose sizes tell variants apart
        self.starts = [tensor.get("draw") for tensor in recurrence["tensors"] if tensor["kind"] == "param"]
        self.instances = instances  # axes whose entries are as independent as batch entries
        self.saved = recurrence["sizes"]  # formulas of what forward saves, by device
        rows = _rows(recurrence, renamed)

        def listed(*roles):
            return tuple(row for role in roles for row in rows.get(role, ()))

        self.operands = listed("input", "param", "h0.state")
        self.results = listed("output", "hT.state")
        self.cotangents = listed("d.output", "d.hT.state")
        self.gradients = listed("d.input", "d.param", "d.h0.state")
        self.sizes, self.forward = _entry(symbol + "_sizes"), _entry(symbol + "_forward")
        self.backward, self.step = _entry(symbol + "_backward"), _entry(symbol + "_step")
        self.rooms: dict = {}
        self.family: tuple = (self,)

    def room(self, key, arguments: bytes, kind: int = _HOST, number: int = 0) -> _Room:
        """What the library says about a call of new sizes; kept, for the question costs more than small calls."""
        if len(self.rooms) >= 4096:
            self.rooms.clear()
        room = self.rooms[key] = _measure(self.sizes, arguments, kind, number)
        return room

    def words(self, row: _Row, step: bool = False) -> list:
        """Axes as messages name them: "batch", "time", "H", and numbers."""
        leading = {"token": ["batch"] if step else ["batch", "time"], "state": ["batch"], "param": []}[row.kind]
        return leading + [row.depth] * bool(row.depth) + list(row.axes) + [2] * row.complex

    def shape(self, row: _Row, sizes: _Sizes, step: bool = False) -> tuple:
        entries = sizes.batch if sizes.sequences is None else sizes.sequences
        leading = {"token": (sizes.batch,) if step else (sizes.batch, sizes.time), "state": (entries,), "param": ()}[row.kind]
        return (leading + (row.depth,) * bool(row.depth) + tuple(sizes.axes[axis] for axis in row.axes) + (2,) * row.complex)

    def wrong(self, row: _Row, text: str) -> str:
        return f"{self.name}: {row.name}: {text}"

    def read(self, tensors, offsets, step: bool = False) -> _Sizes:
        """The sizes of a call, by what has a shape, or None; ValueError if they do not fit. `offsets`: cu_seqlens."""
        batch = time = None
        axes = dict(self.axes)
        for row, tensor in zip(self.operands, tensors):
            if tensor is None and row.optional:
                continue
            words, shape = self.words(row, step), tuple(tensor.shape)
            if len(shape) != len(words):
                raise ValueError(self.wrong(row, f"expected {len(words)} axes [{', '.join(map(str, words))}], "
                                                 f"found shape {list(shape)}"))
            if row.kind == "token" and batch is None:
                batch, time = shape[0], 1 if step else shape[1]
            for axis, found in zip(row.axes, shape[len(words) - len(row.axes) - row.complex:]):
                if axes[axis] is None:
                    axes[axis] = found
        for axis, size in self.computed.items():
            axes[axis] = size(axes)
        for axis, size in axes.items():
            if size is None:
                wanted = next((row.name for row in self.operands if axis in row.axes), "a tensor")
                raise ValueError(f"{self.name}: expected {wanted}, which alone tells the size of {axis}, found None")
        sizes = _Sizes(batch, time, None if offsets is None else self.read_offsets(offsets, batch), axes)
        for row, tensor in zip(self.operands, tensors):
            if tensor is not None:
                self.check(row, tensor, sizes, step)
        return sizes

    def read_offsets(self, offsets, batch: int) -> int:
        shape = tuple(offsets.shape)
        if len(shape) != 1 or shape[0] < 1:
            raise ValueError(f"{self.name}: cu_seqlens: expected one axis with the offsets of all sequences and their end, "
                             f"found shape {list(shape)}")
        if batch != 1:
            raise ValueError(f"{self.name}: expected batch = 1 with cu_seqlens, found {batch}; packed sequences lie behind "
                             "one another in one batch entry")
        return shape[0] - 1

    def check(self, row: _Row, tensor, sizes: _Sizes, step: bool = False) -> None:
        expected, found = self.shape(row, sizes, step), tuple(tensor.shape)
        if found == expected:
            return
        words = self.words(row, step)
        if sizes.sequences is not None and row.kind == "state":
            words[0] = "sequences"
        listed = ", ".join(f"{word} = {size}" if isinstance(word, str) else str(size) for word, size in zip(words, expected))
        if len(found) != len(expected):
            raise ValueError(self.wrong(row, f"expected {len(words)} axes [{listed}], found shape {list(found)}"))
        at = next(i for i in range(len(found)) if found[i] != expected[i])
        advice = ""
        is_axis = at >= len(words) - len(row.axes) - row.complex and words[at] in self.axes
        sizes = _sizes_of(self.family, words[at]) if is_axis else [None]
        if sizes[0] is not None and found[at] not in sizes:
            again = _again(self.name, sizes={words[at]: [*sizes, found[at]]})
            advice = f"; {words[at]} is fixed when the library is compiled: {again}"
        raise ValueError(self.wrong(row, f"expected shape [{listed}], found {list(found)}{advice}"))

    def pack(self, sizes: _Sizes, offsets: int, places: dict) -> bytes:
        """The arguments: `places` has addresses and strides by their fields."""
        fields = [0] * (self.size // 8)
        fields[:4] = self.size, sizes.batch, sizes.time, sizes.sequences or 0
        fields[4:5 + len(self.axes)] = *(sizes.axes[axis] for axis in self.axes), offsets
        for place, value in places.items():
            fields[place] = value
        return struct.pack(f"={len(fields)}q", *fields)


# ---- variants: a recurrence for several types and sizes ------------------------------------------------------------------


def _family(symbol: str, renamed: Optional[dict] = None, instances: tuple = ()) -> tuple:
    """The variants of a recurrence. `renamed`: fields whose names Python does not leave free."""
    variants = tuple(_Recurrence(recurrence, renamed or {}, instances) for recurrence in _manifest["recurrences"]
                     if symbol in (recurrence["symbol"], recurrence["variant_of"]))
    for variant in variants:
        variant.family = variants
    return variants


def _sizes_of(family: tuple, axis: str) -> list:
    return list(dict.fromkeys(variant.axes[axis] for variant in family))


def _size_in(what: _Recurrence, axis: str, tensors: tuple) -> Optional[int]:
    """The size of an axis in a call; None: no tensor tells it."""
    for row, tensor in zip(what.operands, tensors):
        if axis in row.axes:
            shape = getattr(tensor, "shape", ())
            from_end = len(row.axes) - row.axes.index(axis) + row.complex
            if len(shape) >= from_end:
                return shape[-from_end]
    return None


def _has_sizes(variant: _Recurrence, sizes: dict) -> bool:
    return all(size is None or variant.axes[axis] == size for axis, size in sizes.items())


def _no_variant(family: tuple, sizes: dict) -> ValueError:
    """What says that no variant has the sizes."""
    there = " or ".join(", ".join(f"{axis} = {variant.axes[axis]}" for axis in sizes) for variant in family)
    found = ", ".join(f"{axis} = {size}" for axis, size in sizes.items())
    wanted = {axis: list(dict.fromkeys((*_sizes_of(family, axis), size))) for axis, size in sizes.items() if size is not None}
    return ValueError(f"{family[0].name}: expected {there}, found {found}; {_again(family[0].name, sizes=wanted)} adds it")


def _of_sizes(typed: tuple, sizes: dict) -> _Recurrence:
    """The variant that has the sizes, among those of one type."""
    for variant in typed:
        if _has_sizes(variant, sizes):
            return variant
    raise _no_variant(typed, sizes)


def _choose(family: tuple, dtype: str, tensors: tuple) -> _Recurrence:
    """The variant for tensors of a call, the first of which has that type."""
    if len(family) == 1:
        return family[0]
    typed = tuple(variant for variant in family if variant.operands[0].dtype == dtype)
    if not typed:
        there = " or ".join(dict.fromkeys(variant.operands[0].dtype for variant in family))
        raise TypeError(family[0].wrong(family[0].operands[0], f"expected {there}, found {dtype}{_or_type(dtype)}"))
    return _of_sizes(typed, {axis: _size_in(typed[0], axis, tensors) for axis in typed[0].chosen})
