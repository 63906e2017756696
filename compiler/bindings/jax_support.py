"""The part of the Python files for JAX that does not depend on the recurrence; see common.py."""
import jax
import jax.numpy as jnp
import numpy as np

from common import _choose, _CUDA, _HASH, _library, _measure, Optional, _or_type, RecError, _Recurrence, _Row, _Sizes

# ---- arrays --------------------------------------------------------------------------------------------------------------


def _check_kind(what: _Recurrence, row: _Row, array) -> None:
    if not isinstance(array, (jax.Array, np.ndarray)):
        raise TypeError(what.wrong(row, f"expected an array of JAX or NumPy, found {type(array).__name__}"))


def _check_type(what: _Recurrence, row: _Row, array) -> None:
    lacks_wide = row.dtype == "float64" and not jax.config.jax_enable_x64
    found = array.dtype.name
    if found != row.dtype:
        held = f"{row.name}.astype(jnp.{row.dtype})" + ' after jax.config.update("jax_enable_x64", True)' * lacks_wide
        raise TypeError(what.wrong(row, f"expected {row.dtype}, found {found}; hand over {held}{_or_type(found)}"))
    if lacks_wide:
        raise TypeError(what.wrong(row, "expected JAX to have float64, which is switched off; call "
                                        f'jax.config.update("jax_enable_x64", True) first{_or_type("float32")}'))


def _check_sizes(what: _Recurrence, row: _Row, array) -> None:
    """Exported functions may have sizes without a number, which the library's `saved` cannot have."""
    for size in array.shape:
        if not isinstance(size, (int, np.integer)):
            raise TypeError(what.wrong(row, f"expected sizes that are known when JAX traces the call, found {size}; export a "
                                            "function for each length"))


def _offsets(what: _Recurrence, cu_seqlens):
    """Offsets as int32. JAX checks no numbers while it traces: what is known before is checked here, the rest in the library."""
    if cu_seqlens is None:
        return None
    if isinstance(cu_seqlens, jax.Array):
        if cu_seqlens.dtype != np.int32:
            raise TypeError(f"{what.name}: cu_seqlens: expected int32, found {cu_seqlens.dtype}; hand over "
                            "cu_seqlens.astype(jnp.int32)")
        return cu_seqlens
    offsets = np.asarray(cu_seqlens)
    if offsets.dtype.kind not in "iu":
        raise TypeError(f"{what.name}: cu_seqlens: expected whole numbers, found {offsets.dtype}")
    if offsets.size and (offsets.max() > 2**31 - 1 or offsets.min() < 0):
        raise ValueError(f"{what.name}: cu_seqlens: expected offsets from 0 to 2**31 - 1, found {offsets.min()} .. {offsets.max()}")
    return offsets.astype(np.int32)


def _read(what: _Recurrence, operands: tuple, offsets, step: bool = False) -> _Sizes:
    """The sizes of a call that JAX traces; an exception if its operands do not fit."""
    for row, array in zip(what.operands, operands):
        if array is not None:
            _check_sizes(what, row, array)
    return what.read(operands, offsets, step)


# ---- calls ---------------------------------------------------------------------------------------------------------------
# A call of the library is one custom call of XLA. Its attributes say which tensor of the call each operand and each result is: by
# positions from 1 on, of operands and results of a forward, or of operands, cotangents and gradients of a backward.

_SAVED, _OFFSETS = 0, -1  # in place of a position


def _target(symbol: str, entry: str) -> str:
    """The name by which XLA knows the handlers of the library, for CPU and CUDA; it is that of all variants of a recurrence."""
    name = f"rec.{symbol}.{entry}.{_HASH}"
    if name not in _targets:
        for platform, ending in (("cpu", ""), ("CUDA", "_cuda")):
            handler = jax.ffi.pycapsule(getattr(_library, f"rec_xla_{symbol}_{entry}{ending}"))
            try:
                jax.ffi.register_ffi_target(name, handler, platform=platform)
            except Exception as reason:  # a copy of this file has registered its own copy of the same library
                if "already registered" not in str(reason).lower():
                    raise
        _targets.add(name)
    return name


_targets: set = set()


_gpus: Optional[list] = None


def _find_gpus() -> list:
    """The numbers of JAX's GPUs."""
    global _gpus
    if _gpus is None:
        try:
            _gpus = [device.local_hardware_id for device in jax.local_devices(backend="cuda")]
        except RuntimeError:  # this JAX knows no GPU
            _gpus = []
    return _gpus


def _saved_on_gpu(what: _Recurrence, arguments: bytes, number: int) -> int:
    try:
        return _measure(what.sizes, arguments, _CUDA, number).saved
    except RecError:  # the library has no code for it: a call there says so
        return 0


def _saved_size(what: _Recurrence, sizes: _Sizes) -> int:
    """Enough on every device: where a call runs is not known when JAX traces it."""
    key = (sizes.batch, sizes.time, sizes.sequences, *sizes.axes.values())
    room = what.rooms.get(key)
    if room is None:
        arguments = what.pack(sizes, 0, {})
        room = what.room(key, arguments)
        most = max([room.saved, *(_saved_on_gpu(what, arguments, number) for number in _find_gpus())])
        room = what.rooms[key] = room._replace(saved=most)
    return room.saved


def _shape(what: _Recurrence, row: _Row, sizes: _Sizes, step: bool = False) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(what.shape(row, sizes, step), jnp.dtype(row.dtype))


def _in_place(run, aliases: dict):
    """`run`, whose results take the memory of operands. vmap must give these operands the axis that results have."""
    call = jax.custom_batching.custom_vmap(run)

    @call.def_vmap
    def batched(size, has_axis, *arrays):
        arrays = [jnp.broadcast_to(array, (size, *array.shape)) if at in aliases and not has_axis[at] else array
                  for at, array in enumerate(arrays)]
        axes = [0 if at in aliases or has_axis[at] else None for at in range(len(arrays))]
        results = _in_place(jax.vmap(run, axes), aliases)(*arrays)
        return results, tuple(True for _ in results)

    return call


def _call(what: _Recurrence, entry: str, operands: list, results: list, aliases: Optional[dict] = None) -> tuple:
    """`operands`: (position, array), `results`: (position, shape and type), `aliases`: operand: the result that takes its memory."""
    call = jax.ffi.ffi_call(_target(what.handlers, entry), tuple(shape for _, shape in results), vmap_method="expand_dims",
                            input_output_aliases=aliases)
    positions = {side: np.array([position for position, _ in pairs], np.int64)
                 for side, pairs in (("operands", operands), ("results", results))}

    def run(*arrays):
        return tuple(call(*arrays, **positions))

    def refuse(*_):
        raise NotImplementedError(f"{what.name}: expected first derivatives, found a second one, which the library does not have")

    once = jax.custom_jvp(_in_place(run, aliases) if aliases else run)
    once.defjvp(refuse)
    return once(*(array for _, array in operands))


def _given(arrays: tuple, first: int = 1) -> list:
    return [(at, array) for at, array in enumerate(arrays, first) if array is not None]


def _operands(operands: tuple, offsets) -> list:
    return _given(operands) + ([] if offsets is None else [(_OFFSETS, offsets)])


def _results(what: _Recurrence, sizes: _Sizes, step: bool = False) -> list:
    return [(at, _shape(what, row, sizes, step)) for at, row in enumerate(what.results, 1 + len(what.operands))]


def _forward(what: _Recurrence, operands: tuple, offsets=None, step: bool = False) -> tuple:
    """Results. States after the last step take the memory of those before the first, if XLA needs them no more."""
    sizes = _read(what, operands, offsets, step)
    given = _operands(operands, offsets)
    places = [position for position, _ in given]
    before = [at for at, row in enumerate(what.operands, 1) if row.optional]
    after = [at for at, row in enumerate(what.results) if row.kind == "state"]
    aliases = {places.index(position): at for position, at in zip(before, after) if position in places}
    return _call(what, "step" if step else "forward", given, _results(what, sizes, step), aliases)


def _forward_that_saves(what: _Recurrence, operands: tuple, offsets=None) -> tuple:
    """Results, and what backward starts from."""
    sizes = _read(what, operands, offsets)
    saved = (_SAVED, jax.ShapeDtypeStruct((_saved_size(what, sizes),), np.uint8))
    return _call(what, "forward", _operands(operands, offsets), [*_results(what, sizes), saved])


def _backward(what: _Recurrence, operands: tuple, offsets, saved, cotangents: tuple, wanted: tuple) -> tuple:
    """The gradients of the operands: zero for those that are not wanted. Cotangents that are None are zero."""
    sizes = _read(what, operands, offsets)
    first = 1 + len(what.operands)
    given = _operands(operands, offsets) + [(_SAVED, saved)] + _given(cotangents, first)
    rows = enumerate(zip(what.gradients, wanted), first + len(what.cotangents))
    results = [(at, _shape(what, row, sizes)) for at, (row, want) in rows if want]
    gradients = iter(_call(what, "backward", given, results))
    # JAX 0.6 takes no None for an operand whose gradient another backward of this function returns.
    return tuple(next(gradients) if want else None if x is None else jnp.zeros_like(x) for x, want in zip(operands, wanted))


# ---- derivatives ---------------------------------------------------------------------------------------------------------


# Which operands are differentiated is known when JAX traces a forward, and asked when it traces the backward of that forward. The
# tree of residuals cannot tell it: a function that is traced once and differentiated in several ways has one tree for all of
# them. The shape of a residual belongs to one forward: [0, bits], with a bit for each operand and no number at all.

_BITS = 32  # of one residual


def _note_wanted(primals: tuple) -> list:
    """Residuals that say which of the operands, as JAX hands them to a rule with symbolic zeros, are differentiated."""
    wanted = [primal is not None and primal.perturbed for primal in primals]
    return [jnp.zeros((0, sum(bit << at for at, bit in enumerate(wanted[first:first + _BITS]))), np.int8)
            for first in range(0, len(wanted), _BITS)]


def _read_wanted(what: _Recurrence, noted: list) -> tuple:
    return tuple(bool(noted[at // _BITS].shape[1] >> at % _BITS & 1) for at in range(len(what.operands)))


def _values(primals: tuple) -> tuple:
    return tuple(None if primal is None else primal.value for primal in primals)


def _nonzero(cotangents: tuple) -> tuple:
    return tuple(None if isinstance(x, jax.custom_derivatives.SymbolicZero) else x for x in cotangents)


def _with_time(rows: tuple, arrays: tuple, change) -> tuple:
    return tuple(change(array, 1) if row.kind == "token" and array is not None else array for row, array in zip(rows, arrays))


def _differentiable(what: _Recurrence):
    """(operands, offsets) -> results"""

    @jax.custom_vjp
    def run(operands, offsets):
        return _forward(what, operands, offsets)

    def forward(operands, offsets):
        values, offsets = _values(operands), None if offsets is None else offsets.value
        *results, saved = _forward_that_saves(what, values, offsets)
        return tuple(results), (values, offsets, saved, _note_wanted(operands))

    def backward(kept, cotangents):
        values, offsets, saved, noted = kept
        return _backward(what, values, offsets, saved, _nonzero(cotangents), _read_wanted(what, noted)), None

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run


def _differentiable_step(what: _Recurrence):
    """operands -> results. A step that is differentiated is a call over one step."""

    @jax.custom_vjp
    def run(operands):
        return _forward(what, operands, step=True)

    def forward(operands):
        values = _values(operands)
        _read(what, values, None, step=True)
        longer = _with_time(what.operands, values, jnp.expand_dims)
        *results, saved = _forward_that_saves(what, longer)
        return _with_time(what.results, tuple(results), jnp.squeeze), (longer, saved, _note_wanted(operands))

    def backward(kept, cotangents):
        longer, saved, noted = kept
        cotangents = _with_time(what.cotangents, _nonzero(cotangents), jnp.expand_dims)
        gradients = _backward(what, longer, None, saved, cotangents, _read_wanted(what, noted))
        return (_with_time(what.gradients, gradients, jnp.squeeze),)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return run


class _Functions:
    """What the functions of a recurrence call."""

    def __init__(self, symbol: str, family: tuple, make):
        self.family, self.make = family, make  # make: a named tuple of results
        for what in family:
            what.handlers = symbol
        self.whole = {what: jax.jit(_differentiable(what), inline=True) for what in family}
        self.one = {what: jax.jit(_differentiable_step(what), inline=True) for what in family}
        self.seen: dict = {}

    def find(self, operands: tuple) -> _Recurrence:
        """`choose`, which takes longer than a small call, once for arrays of the same types and shapes."""
        try:
            key = (jax.config.jax_enable_x64, *[None if x is None else (type(x), x.dtype, x.shape) for x in operands])
        except AttributeError:
            return self.choose(operands)
        what = self.seen.get(key)
        if what is None:
            what = self.choose(operands)
            if len(self.seen) >= 4096:
                self.seen.clear()
            if not any(isinstance(x, np.ndarray) for x in operands):  # which JAX may not take as they are
                self.seen[key] = what
        return what

    def choose(self, operands: tuple) -> _Recurrence:
        """The variant for the types and sizes of a call; an exception if its operands are no arrays of these types."""
        what = self.family[0]
        given = [at for at, row in enumerate(what.operands) if operands[at] is not None or not row.optional]
        for at in given:
            _check_kind(what, what.operands[at], operands[at])
        what = _choose(self.family, operands[0].dtype.name, operands)
        for at in given:
            _check_type(what, what.operands[at], operands[at])
        return what

    def __call__(self, operands: tuple, cu_seqlens):
        what = self.find(operands)
        return self.make(self.whole[what](operands, _offsets(what, cu_seqlens)))

    def step(self, operands: tuple):
        return self.make(self.one[self.find(operands)](operands))
