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
import os

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
        "workspace", "saved", "workspace_forward", "workspace_step", "workspace_backward", "workspace_backward_recompute")] + [
        ("device_kind", ctypes.c_int32), ("device_number", ctypes.c_int32)] + [(name, ctypes.c_int64) for name in (
            "time_parts", "summary", "summary_backward", "workspace_summary", "workspace_summary_backward",
            "workspace_summary_backward_recompute", "workspace_fold", "segment_multiple", "instances")]


class Segments(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint64), ("summaries", ctypes.POINTER(ctypes.c_void_p)), ("count", ctypes.c_int64),
                ("backward", ctypes.c_int32), ("unused", ctypes.c_int32), ("out_of_range", ctypes.POINTER(ctypes.c_int32))]


def aligned(size):
    """Bytes that start at a multiple of 64, as workspace and saved states must."""
    raw = np.empty(size + ALIGNMENT, np.uint8)
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start:start + size]  # a view: it keeps `raw` alive


class Library:
    def __init__(self, path):
        self.c = ctypes.CDLL(os.path.abspath(path))
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

    # ---- segments of time ----
    #
    # A summary is what a segment does to any states before it, as bytes that may be sent: the same for cotangents, of the states
    # after it. `fold` takes the states before some segments through them, or the cotangents after them.

    def summary(self, **options):
        return self._call("summary", options)

    def summary_backward(self, saved=None, **options):
        return self._call("summary_backward", options, saved=saved)

    def fold(self, summaries, backward=False, batch=1, axes={}, **states):
        """The states after the segments of these summaries, in the order of time: h0__S= gives hT.S, d__hT__S= gives d.h0.S.
        States that are not given are 0. `axes`: sizes that are known at run time only."""
        call = Call(self, batch, 0, None, dict(self.axes, **axes), states)
        before, after = ("d.hT.", "d.h0.") if backward else ("h0.", "hT.")
        for tensor in self.of_kind.get("state", []):
            call.operand(before + tensor["name"], tensor)
            call.result(after + tensor["name"], tensor)
        places = (ctypes.c_void_p * len(summaries))(*[summary.ctypes.data for summary in summaries])
        out_of_range = ctypes.c_int32()
        segments = Segments(ctypes.sizeof(Segments), places, len(summaries), backward, 0, ctypes.pointer(out_of_range))
        call.run("fold", ctypes.byref(segments))
        if out_of_range.value:
            raise OverflowError("a segment multiplies a state by more than 1024: its states come from forward alone")
        return call.results

    def _call(self, entry, options, save=False, saved=None):
        cu_seqlens, threads = options.pop("cu_seqlens", None), options.pop("threads", 0)
        first = np.asarray(options[self.of_kind["input"][0]["name"].replace(".", "__")])
        sizes = self.sizes_of({name: np.asarray(value) for name, value in options.items()})
        call = Call(self, *first.shape[:2], cu_seqlens, sizes, options)
        forward, backward = entry in ("forward", "step"), entry == "backward"
        for kind, tensors in self.of_kind.items():
            for tensor in tensors:
                name = tensor["name"]
                if kind in ("input", "param"):
                    call.operand(name, tensor)
                    if backward:
                        call.result("d." + name, tensor)
                elif kind == "output":
                    (call.result if forward else call.operand)(name if forward else "d." + name, tensor)
                else:
                    call.operand("h0." + name, tensor)
                    call.operand("d.hT." + name, tensor)
                    if forward or backward:
                        call.result(("hT." if forward else "d.h0.") + name, tensor)
        needed = call.sizes()
        if save:
            saved = call.results["saved"] = aligned(needed.saved)
        if forward or backward:
            call.run(entry, saved=saved, threads=threads)
            return call.results
        summary = aligned(getattr(needed, entry))
        call.run(entry, ctypes.c_void_p(summary.ctypes.data), saved=saved, threads=threads)
        return summary


class Call:
    """The arguments of one call. `alive` holds every array whose address the library gets, until the call has returned."""

    def __init__(self, recurrence, batch, time, cu_seqlens, sizes, options):
        described = recurrence.described
        self.recurrence, self.axis_sizes, self.alive, self.results = recurrence, sizes, [], {}
        self.given = {name.replace("__", "."): value for name, value in options.items()}  # h0__S= for h0.S
        self.arguments = ctypes.create_string_buffer(described["arguments"]["size"])
        self.time, self.entries = time, {"batch": batch, "states": batch}
        self.put("size", None, ctypes.sizeof(self.arguments))
        self.put("batch", None, batch)
        self.put("time", None, time)
        if cu_seqlens is not None:
            offsets = np.ascontiguousarray(cu_seqlens, np.int32)
            self.alive.append(offsets)
            self.entries["states"] = len(offsets) - 1
            self.put("sequences", None, len(offsets) - 1)
            self.put("cu_seqlens", None, offsets.ctypes.data)
        for axis, size in sizes.items():
            self.put("axis", axis, size)

    def put(self, kind, of, value):
        ctypes.c_int64.from_buffer(self.arguments, self.recurrence.fields[kind, of]).value = value

    def put_array(self, name, array):
        self.alive.append(array)
        self.put("data", name, array.ctypes.data)
        return array

    def operand(self, name, tensor):
        if self.given.get(name) is None:
            return
        array = np.ascontiguousarray(self.given[name], self.recurrence.dtype)
        expected = tuple(self.recurrence.shape(tensor, self.axis_sizes, self.entries, self.time))
        if array.shape != expected:
            raise ValueError(f"{name}: expected shape {expected}, found {array.shape}")
        self.put_array(name, array)

    def result(self, name, tensor):
        shape = self.recurrence.shape(tensor, self.axis_sizes, self.entries, self.time)
        self.results[name] = self.put_array(name, np.empty(shape, self.recurrence.dtype))

    def sizes(self):
        needed = Sizes(size=ctypes.sizeof(Sizes))
        self._check(self._function("sizes")(self.arguments, ctypes.byref(needed)))
        return needed

    def run(self, entry, *rest, saved=None, threads=0):
        abi, workspace = self.recurrence.library.abi, aligned(self.sizes().workspace)
        launch = Launch(size=ctypes.sizeof(Launch), abi_major=abi[0], abi_minor=abi[1], threads=threads,
                        workspace=workspace.ctypes.data, workspace_bytes=workspace.nbytes)
        if saved is not None:
            launch.saved, launch.saved_bytes = saved.ctypes.data, saved.nbytes
        self._check(self._function(entry)(self.arguments, ctypes.byref(launch), *rest))
        del self.alive[:], workspace  # not before here

    def _function(self, entry):
        return self.recurrence.library.c[f"{self.recurrence.described['symbol']}_{entry}"]

    def _check(self, status):
        if status != 0:
            raise RuntimeError(self.recurrence.library.c.rec_error().decode())
