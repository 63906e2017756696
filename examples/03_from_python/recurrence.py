"""A compiled recurrence on NumPy arrays, by ctypes alone.

    ssd = Library("mamba2.so").recurrence("ssd")
    results = ssd.forward(time=300, x=x, dt=dt, B=B, C=C, A_log=A_log, dt_bias=dt_bias, D=D)
    results["y"], results["hT.h"]

Everything that a call needs to know stands in the library's manifest: which fields its arguments struct has, where they lie,
and what shape and type each tensor has. Tensors have the names of `rec apply`: x, h0.h, hT.h, d.y, d.x, d.h0.h, h0.x.lag.

Lifetimes. A call reads and writes memory of NumPy by address and keeps none of it: when it has returned, nothing in the
library points anywhere. During the call the arrays must live and stay in place, which `_call` sees to by holding them in a
list (ctypes would not: an address does not keep its array alive). Inputs are used as they are when they are dense and of the
right type, and copied otherwise; results are new arrays that belong to the caller. ctypes gives up the interpreter's lock
during a call, so threads may run calls of their own side by side; none may change an array that another one's call reads.
"""
import ctypes
import json

import numpy as np

ALIGNMENT = 64


class Launch(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("abi_major", ctypes.c_uint32), ("abi_minor", ctypes.c_uint32),
                ("device_kind", ctypes.c_int32), ("device_number", ctypes.c_int32), ("stream", ctypes.c_void_p),
                ("threads", ctypes.c_int64), ("parallel_for", ctypes.c_void_p), ("parallel_context", ctypes.c_void_p),
                ("workspace", ctypes.c_void_p), ("workspace_bytes", ctypes.c_int64),
                ("saved", ctypes.c_void_p), ("saved_bytes", ctypes.c_int64)]


class Sizes(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64)] + [(name, ctypes.c_int64) for name in (
        "workspace", "saved", "workspace_forward", "workspace_step", "workspace_backward", "workspace_backward_recompute")]


def aligned(size):
    """Bytes that start at a multiple of 64, as workspace and saved states must."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + size]  # a view: it keeps `raw` alive


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        self.c.rec_error.restype = ctypes.c_char_p
        text = ctypes.string_at(ctypes.addressof(ctypes.c_char.in_dll(self.c, "rec_manifest")))
        self.manifest = json.loads(text)
        self.abi = [int(part) for part in self.manifest["abi"].split(".")]

    def recurrence(self, name):
        for described in self.manifest["recurrences"]:
            if described["name"] == name:
                return Recurrence(self, described)
        raise KeyError(name)


class Recurrence:
    def __init__(self, library, described):
        self.library, self.described = library, described
        self.dtype = np.dtype({"f32": np.float32, "f64": np.float64}[library.manifest["dtype"]])
        self.axes = {axis["name"]: axis["size"] for axis in described["axes"]}
        self.of_kind = {}
        for tensor in described["tensors"]:
            self.of_kind.setdefault(tensor["kind"], []).append(tensor)
        for lag in described["lags"]:
            self.of_kind.setdefault("state", []).append(lag)
        self.fields = {(field["kind"], field["of"]): field["offset"] for field in described["arguments"]["fields"]}

    # ---- shapes ----

    def sizes_of(self, given):
        """Sizes of the axes that are known at run time only, from the inputs and parameters."""
        sizes = dict(self.axes)
        for kind, leading in (("input", 2), ("param", 0)):
            for tensor in self.of_kind.get(kind, []):
                for axis, size in zip(tensor["axes"], given[tensor["name"]].shape[leading:]):
                    sizes[axis] = size
        return sizes

    def shape(self, tensor, sizes, entries, time):
        kind = tensor.get("kind", "state")
        leading = {"input": [entries["batch"], time], "output": [entries["batch"], time], "param": [],
                   "state": [entries["states"]]}[kind]
        lag = [tensor["depth"]] if "depth" in tensor else []
        return leading + lag + [sizes[axis] for axis in tensor["axes"]] + ([2] if tensor["complex"] else [])

    # ---- calls ----

    def forward(self, save=False, **options):
        return self._call("forward", options, save=save)

    def step(self, **options):
        return self._call("step", options)

    def backward(self, saved=None, **options):
        return self._call("backward", options, saved=saved)

    def _call(self, entry, options, save=False, saved=None):
        cu_seqlens, threads = options.pop("cu_seqlens", None), options.pop("threads", 0)
        given = {name.replace("__", "."): value for name, value in options.items()}  # h0__S= for h0.S
        alive = []  # every array whose address the library gets, until the call has returned
        arguments = ctypes.create_string_buffer(self.described["arguments"]["size"])

        def put(kind, of, value):
            ctypes.c_int64.from_buffer(arguments, self.fields[kind, of]).value = value

        def put_array(name, array):
            alive.append(array)
            put("data", name, array.ctypes.data)
            return array

        first = np.asarray(given[self.of_kind["input"][0]["name"]])
        batch, time = first.shape[:2]
        entries = {"batch": batch, "states": batch}
        put("size", None, ctypes.sizeof(arguments))
        put("batch", None, batch)
        put("time", None, time)
        if cu_seqlens is not None:
            offsets = np.ascontiguousarray(cu_seqlens, np.int32)
            alive.append(offsets)
            entries["states"] = len(offsets) - 1
            put("sequences", None, len(offsets) - 1)
            put("cu_seqlens", None, offsets.ctypes.data)
        sizes = self.sizes_of({name: np.asarray(value) for name, value in given.items()})
        for axis, size in sizes.items():
            put("axis", axis, size)

        def operand(name, tensor):
            if given.get(name) is None:
                return
            array = np.ascontiguousarray(given[name], self.dtype)
            expected = tuple(self.shape(tensor, sizes, entries, time))
            if array.shape != expected:
                raise ValueError(f"{name}: expected shape {expected}, found {array.shape}")
            put_array(name, array)

        results = {}

        def result(name, tensor):
            results[name] = put_array(name, np.empty(self.shape(tensor, sizes, entries, time), self.dtype))

        for kind, tensors in self.of_kind.items():
            for tensor in tensors:
                name = tensor["name"]
                if kind in ("input", "param"):
                    operand(name, tensor)
                elif kind == "state":
                    operand("h0." + name, tensor)
                if entry != "backward":
                    if kind == "output":
                        result(name, tensor)
                    elif kind == "state":
                        result("hT." + name, tensor)
                elif kind == "output":
                    operand("d." + name, tensor)
                elif kind == "state":
                    operand("d.hT." + name, tensor)
                    result("d.h0." + name, tensor)
                else:
                    result("d." + name, tensor)

        c, symbol = self.library.c, self.described["symbol"]
        needed = Sizes(size=ctypes.sizeof(Sizes))
        self._check(c[symbol + "_sizes"](arguments, ctypes.byref(needed)))
        workspace = aligned(needed.workspace)
        launch = Launch(size=ctypes.sizeof(Launch), abi_major=self.library.abi[0], abi_minor=self.library.abi[1],
                        threads=threads, workspace=workspace.ctypes.data, workspace_bytes=needed.workspace)
        if save:
            saved = results["saved"] = aligned(needed.saved)
        if saved is not None:
            launch.saved, launch.saved_bytes = saved.ctypes.data, saved.nbytes
        self._check(c[f"{symbol}_{entry}"](arguments, ctypes.byref(launch)))
        del alive[:], workspace  # not before here
        return results

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.library.c.rec_error().decode())
