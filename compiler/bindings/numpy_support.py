"""The part of the Python files for NumPy that does not depend on the recurrence; see common.py."""
import numpy as np

from common import _BROADCAST, _HOST, NamedTuple, Optional, _again, _choose, _fail, _launch, _Recurrence, _Row, _workspace

# ---- arrays --------------------------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """Where an array lies."""

    array: np.ndarray  # what must live until the call has returned: the array, or its copy
    batch_stride: int
    time_stride: int


def _type_name(dtype: np.dtype) -> str:
    if dtype == np.uint16:  # NumPy has no bfloat16: its bits, or the type of another package
        return "bfloat16"
    return dtype.name if dtype.isnative else str(dtype)


def _check_array(what: _Recurrence, row: _Row, array) -> None:
    if not isinstance(array, np.ndarray):
        raise TypeError(what.wrong(row, f"expected a NumPy array, found {type(array).__name__}"))
    found = _type_name(array.dtype)
    if found != row.dtype:
        held = "as bfloat16, or its bits as uint16" if row.dtype == "bfloat16" else f"{row.name}.astype(np.{row.dtype})"
        raise TypeError(what.wrong(row, f"expected {row.dtype}, found {array.dtype}; hand over {held}{_or_type(found)}"))


def _choose_for(family: tuple, operands: tuple) -> _Recurrence:
    """The variant for the arrays of a call."""
    first = operands[0]
    return _choose(family, _type_name(first.dtype), operands) if isinstance(first, np.ndarray) else family[0]


def _steps_of(array: np.ndarray, leading: int) -> Optional[tuple]:
    """Strides of batch and time, in numbers, of an array whose steps are dense; None: it must be copied."""
    dense = array.itemsize
    for size, stride in zip(array.shape[:leading - 1:-1], array.strides[:leading - 1:-1]):
        if size > 1 and stride != dense:
            return None
        dense *= size
    strides = []
    for size, stride in zip(array.shape[:leading], array.strides[:leading]):
        if size <= 1:
            stride = dense  # is not used
        elif stride < 0 or stride % array.itemsize:
            return None
        strides.append(stride // array.itemsize or _BROADCAST)
    return tuple(strides)


def _place(row: _Row, array: np.ndarray, step: bool) -> _Place:
    """The array as it is where the library can read it, else a dense copy."""
    if row.kind != "token" or not array.flags.aligned or array.size == 0:
        return _Place(np.require(array, requirements=("C", "A")), 0, 0)
    strides = _steps_of(array, 1 if step else 2)
    if strides is None:
        return _Place(np.require(np.ascontiguousarray(array), requirements=("C", "A")), 0, 0)
    return _Place(array, strides[0], 0 if step else strides[1])


def _offsets(what: _Recurrence, cu_seqlens) -> Optional[np.ndarray]:
    if cu_seqlens is None:
        return None
    offsets = np.asarray(cu_seqlens)
    if offsets.dtype.kind not in "iu":
        raise TypeError(f"{what.name}: cu_seqlens: expected whole numbers, found {offsets.dtype}")
    if offsets.size and (offsets.max() > 2**31 - 1 or offsets.min() < 0):
        raise ValueError(f"{what.name}: cu_seqlens: expected offsets from 0 to 2**31 - 1, found {offsets.min()} .. {offsets.max()}")
    return np.ascontiguousarray(offsets, np.int32)


def _saved_bytes(size: int) -> np.ndarray:
    """Memory that begins at a multiple of 64, as the library wants it."""
    raw = np.empty(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start:start + size]


# ---- calls ---------------------------------------------------------------------------------------------------------------


class _Call:
    """The arguments of one call; holds every array until the call has returned."""

    def __init__(self, family: tuple, operands: tuple, cu_seqlens=None, step: bool = False):
        self.what = what = _choose_for(family, operands)
        self.step = step
        self.alive: list = []
        self.places: dict = {}
        for row, array in zip(what.operands, operands):
            if array is not None or not row.optional:
                _check_array(what, row, array)
        offsets = _offsets(what, cu_seqlens)
        self.sizes = what.read(operands, offsets, step)
        self.offsets = 0
        if offsets is not None:
            self.alive.append(offsets)
            self.offsets = offsets.ctypes.data
        self.tokens = operands[0].dtype
        for row, array in zip(what.operands, operands):
            self.read(row, array)

    def read(self, row: _Row, array) -> None:
        if array is None:
            return
        place = _place(row, array, self.step)
        self.put(row, place.array, place.batch_stride, place.time_stride)

    def put(self, row: _Row, array: np.ndarray, batch_stride: int = 0, time_stride: int = 0) -> None:
        self.alive.append(array)
        self.places[row.place] = array.ctypes.data
        if row.kind == "token":
            self.places[row.place + 1], self.places[row.place + 2] = batch_stride, time_stride

    def read_cotangents(self, cotangents: tuple) -> None:
        for row, array in zip(self.what.cotangents, cotangents):
            if array is not None:
                _check_array(self.what, row, array)
                self.what.check(row, array, self.sizes)
                self.read(row, array)

    def make(self, rows: tuple) -> list:
        """New arrays for results."""
        results = []
        for row in rows:
            dtype = self.tokens if row.dtype == "bfloat16" else np.dtype(row.dtype)
            array = np.empty(self.what.shape(row, self.sizes, self.step), dtype)
            self.put(row, array)
            results.append(array)
        return results

    def run(self, entry: str, threads: int, save: bool = False, saved: Optional[np.ndarray] = None) -> Optional[np.ndarray]:
        """Calls the library. Returns what it saves for backward."""
        what, sizes = self.what, self.sizes
        arguments = what.pack(sizes, self.offsets, self.places)
        key = (sizes.batch, sizes.time, sizes.sequences, *sizes.axes.values())
        room = what.rooms.get(key) or what.room(key, arguments)
        if saved is not None and (saved.dtype != np.uint8 or saved.nbytes < room.saved or saved.ctypes.data % 64
                                  or not saved.flags.c_contiguous):
            raise ValueError(f"{what.name}: saved: expected the {room.saved} bytes that forward with save=True gave for these "
                             f"sizes, found {saved.nbytes} of {saved.dtype}")
        if save:
            saved = _saved_bytes(room.saved)
        size = getattr(room, "recompute" if entry == "backward" and saved is None else entry)
        address = _workspace.address if _workspace.size >= size else _workspace.grow(size)
        launch = _launch(threads, address, _workspace.size, saved.ctypes.data if saved is not None else 0,
                         saved.nbytes if saved is not None else 0, _HOST)
        status = getattr(what, entry)(arguments, launch)
        if status:
            _fail(status)
        del self.alive[:]
        return saved
