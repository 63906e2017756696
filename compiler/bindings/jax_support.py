"""The part of the Python files for JAX that does not depend on the recurrence; see common.py."""
import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.custom_partitioning import ArrayMapping, custom_partitioning, SdyShardingRule
from jax.sharding import NamedSharding, PartitionSpec

from common import (_choose, _CUDA, _HASH, _library, math, _measure, NamedTuple, Optional, _or_type, re, RecError, _Recurrence,
                    _Row, _Sizes)

# ---- arrays --------------------------------------------------------------------------------------------------------------


def _check_kind(what: _Recurrence, row: _Row, array) -> None:
    if not isinstance(array, (jax.Array, np.ndarray)):
        raise TypeError(what.wrong(row, f"expected an array of JAX or NumPy, found {type(array).__name__}"))


def _is_narrow(row: _Row, array) -> bool:
    """A parameter or a state of 16 bits."""
    return row.kind != "token" and array.dtype.name in ("bfloat16", "float16")


def _widening(what: _Recurrence, run):
    """The function, to which parameters and states of 16 bits go in the library's type; their gradients have 16 bits again."""

    def widened(operands, *rest):
        return run(tuple(array.astype(row.dtype) if array is not None and _is_narrow(row, array) else array
                         for row, array in zip(what.operands, operands)), *rest)

    return widened


def _check_type(what: _Recurrence, row: _Row, array) -> None:
    lacks_wide = row.dtype == "float64" and not jax.config.jax_enable_x64
    found = array.dtype.name
    if found != row.dtype and not _is_narrow(row, array):
        held = f"{row.name}.astype(jnp.{row.dtype})" + ' after jax.config.update("jax_enable_x64", True)' * lacks_wide
        raise TypeError(what.wrong(row, f"expected {row.dtype}, found {found}; hand over {held}{_or_type(found)}"))
    if lacks_wide:
        raise TypeError(what.wrong(row, "expected JAX to have float64, which is switched off; call "
                                        f'jax.config.update("jax_enable_x64", True) first{_or_type("float32")}'))


def _offsets(what: _Recurrence, cu_seqlens):
    """Offsets as int32. JAX checks no numbers while it traces: what is known before is checked here, the rest in the library."""
    if cu_seqlens is None:
        return None
    if isinstance(cu_seqlens, jax.Array):
        if cu_seqlens.dtype == np.int64:  # what does not fit becomes a number that the library refuses
            return jnp.clip(cu_seqlens, -1, 2**31 - 1).astype(jnp.int32)
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
    """The sizes of a call that JAX traces; an exception if its operands do not fit. Exported functions may have sizes without a
    number, which the library's `saved` cannot have."""
    for row, array in zip(what.operands, operands):
        for size in () if array is None else array.shape:
            if not isinstance(size, (int, np.integer)):
                raise TypeError(what.wrong(row, f"expected sizes that are known when JAX traces the call, found {size}; export a "
                                                "function for each length"))
    return what.read(operands, offsets, step)


# ---- calls ---------------------------------------------------------------------------------------------------------------
# A call of the library is one custom call of XLA. Its attributes say which tensor of the call each operand and each result is: by
# positions from 1 on, of operands and results of a forward, or of operands, cotangents and gradients of a backward.

_SAVED, _OFFSETS = 0, -1  # in place of a position
_WRITTEN = -2  # in place of a position, and not of the library: how a forward wrote what it saved
_MAPPED_MAX = 16  # axes of vmap that the library takes


def _target(symbol: str, entry: str) -> str:
    """The name by which XLA knows the handlers of the library, for CPU and CUDA; it is that of all variants of a recurrence."""
    name = f"rec.{symbol}.{entry}.{_HASH}"
    if name not in _targets:
        for platform, ending in (("cpu", ""), ("CUDA", "_cuda")):
            handler = jax.ffi.pycapsule(getattr(_library, f"rec_xla_{symbol}_{entry}{ending}"))
            try:
                jax.ffi.register_ffi_target(name, handler, platform=platform)
            except Exception as reason:  # a copy of this file has registered its own copy of the same library
                if not re.search("already registered|duplicate", str(reason).lower()):
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


class _Call(NamedTuple):
    """A call of the library, but for its arrays."""

    what: _Recurrence
    entry: str  # "forward", "step", "backward"
    sizes: _Sizes
    operands: tuple  # positions
    results: tuple
    aliases: dict = {}  # operand: the result that takes its memory
    saved: tuple = ()  # the shape of what forward saves
    mapped: tuple = ()  # sizes of axes that vmap has put before all others


def _row(call: _Call, position: int) -> _Row:
    what = call.what
    return (what.operands + (what.cotangents + what.gradients if call.entry == "backward" else what.results))[position - 1]


def _shape(call: _Call, position: int) -> jax.ShapeDtypeStruct:
    """Shape and type of a result."""
    if position == _WRITTEN:
        return jax.ShapeDtypeStruct((1 + len(call.what.instances) + _MAPPED_MAX,), np.int32)
    if position == _SAVED:
        return jax.ShapeDtypeStruct(call.mapped + call.saved, np.uint8)
    row = _row(call, position)
    return jax.ShapeDtypeStruct(call.mapped + call.what.shape(row, call.sizes, call.entry == "step"), jnp.dtype(row.dtype))


def _run_library(call: _Call, *arrays) -> tuple:
    """One custom call of XLA. Every array has the axes of vmap, of size 1 where it is shared."""
    run = jax.ffi.ffi_call(_target(call.what.plain, call.entry), tuple(_shape(call, at) for at in call.results),
                           input_output_aliases=call.aliases)
    axes = _varying(arrays)
    results = run(*(_vary(array, axes) for array in arrays), operands=np.array(call.operands, np.int64),
                  results=np.array(call.results, np.int64))
    return tuple(_vary(result, axes) for result in results)


def _run(call: _Call, *arrays) -> tuple:
    """A call on one device, which may be a part of one over several. A backward takes only what a forward of its own sizes saved."""
    if _WRITTEN in call.results:
        return *_run_library(call._replace(results=call.results[:-1]), *arrays), _written(call, call.mapped)
    if _WRITTEN not in call.operands:
        return _run_library(call, *arrays)
    *arrays, written = arrays
    call = call._replace(operands=call.operands[:-1])
    at = call.operands.index(_SAVED)
    without = call._replace(operands=call.operands[:at] + call.operands[at + 1:])
    expected = _written(call, arrays[at].shape[:len(call.mapped)])
    return jax.lax.cond((written == expected).all(), lambda *arrays: _run_library(call, *arrays),
                        lambda *arrays: _run_library(without, *arrays[:at], *arrays[at + 1:]), *arrays)


def _with_vmap(call: _Call):
    """The call, with a rule for vmap. An operand without the axis is shared, but if a result takes its memory."""
    run = jax.custom_batching.custom_vmap(lambda *arrays: _over_devices(call, *arrays))

    def with_axis(size, at, array, has_axis):
        if call.operands[at] == _WRITTEN:
            return array[0] if has_axis else array
        if has_axis:
            return array
        return jnp.broadcast_to(array, (size, *array.shape)) if at in call.aliases else array[None]

    @run.def_vmap
    def batched(size, has_axis, *arrays):
        arrays = [with_axis(size, at, *pair) for at, pair in enumerate(zip(arrays, has_axis))]
        results = _with_vmap(call._replace(mapped=(size, *call.mapped)))(*arrays)
        return results, tuple(position != _WRITTEN for position in call.results)

    return run


def _do(call: _Call, arrays) -> tuple:
    def refuse(*_):
        raise NotImplementedError(f"{call.what.name}: expected first derivatives, found a second one, which the library does not have")

    once = jax.custom_jvp(_with_vmap(call))
    once.defjvp(refuse)
    return once(*arrays)


def _given(arrays: tuple, first: int = 1) -> dict:
    """Arrays by position."""
    return {at: array for at, array in enumerate(arrays, first) if array is not None}


def _operands(operands: tuple, offsets) -> dict:
    return _given(operands) | ({} if offsets is None else {_OFFSETS: offsets})


def _results(what: _Recurrence) -> tuple:
    return tuple(range(1 + len(what.operands), 1 + len(what.operands) + len(what.results)))


def _forward(what: _Recurrence, operands: tuple, offsets=None, step: bool = False) -> tuple:
    """Results. States after the last step take the memory of those before the first, if XLA needs them no more."""
    sizes = _read(what, operands, offsets, step)
    given = _operands(operands, offsets)
    places = list(given)
    before = [at for at, row in enumerate(what.operands, 1) if row.optional]
    after = [at for at, row in enumerate(what.results) if row.kind == "state"]
    aliases = {places.index(position): at for position, at in zip(before, after) if position in given}
    return _do(_Call(what, "step" if step else "forward", sizes, tuple(given), _results(what), aliases), given.values())


def _forward_that_saves(what: _Recurrence, operands: tuple, offsets=None) -> tuple:
    """Results; and what backward starts from, with how it is written: nothing, if all forwards write in the same way."""
    sizes = _read(what, operands, offsets)
    given = _operands(operands, offsets)
    more = (_SAVED, _WRITTEN) if _is_shared_out() else (_SAVED,)
    call = _Call(what, "forward", sizes, tuple(given), _results(what) + more, saved=_saved_shape(what, sizes))
    results = _do(call, given.values())
    count = len(what.results)
    return results[:count], (*results[count:], np.zeros(0, np.int32))[:2]


def _backward(what: _Recurrence, operands: tuple, offsets, saved: tuple, cotangents: tuple, wanted: tuple) -> tuple:
    """The gradients of the operands: zero for those that are not wanted. Cotangents that are None are zero."""
    sizes = _read(what, operands, offsets)
    first = 1 + len(what.operands)
    given = _operands(operands, offsets) | {_SAVED: saved[0]} | _given(cotangents, first)
    if saved[1].size:
        given[_WRITTEN] = saved[1]
    results = tuple(at for at, want in enumerate(wanted, first + len(what.cotangents)) if want)
    gradients = iter(_do(_Call(what, "backward", sizes, tuple(given), results), given.values()))
    # JAX 0.6 takes no None for an operand whose gradient another backward of this function returns.
    return tuple(_placed_like(x, next(gradients)) if want else None if x is None else jnp.zeros_like(x)
                 for x, want in zip(operands, wanted))


# ---- devices -------------------------------------------------------------------------------------------------------------
# Entries of batch, of vmap and of a recurrence's instance axes (heads, channels) have nothing to do with each other: each device
# computes those that it has. A tensor without such an axis is whole on all devices that share the axis, and its gradient is summed
# over them. All other axes, time among them, are whole on each device.
#
#   under shard_map, pmap      arrays are parts already
#   axes of a mesh that types have (Explicit)      a shard_map over them
#   other axes (Auto)          XLA's partitioner says how arrays lie, and asks for the call of a part
#
# To JAX, what forward saves is bytes. Those of a batch entry lie together, but not those of a head. XLA may share out a forward
# in one way and its backward in another. So forward notes the sizes that it was called with (_WRITTEN), and a backward of other
# sizes computes the states again.

_BATCH = -1  # an axis, beside names of instance axes and positions of axes of vmap


def _varying(arrays) -> tuple:
    """The axes of shard_map along which an array may differ, as types of JAX have it."""
    axes = set()
    for kind in map(jax.typeof, arrays):
        axes |= kind.manual_axis_type.varying if hasattr(kind, "manual_axis_type") else getattr(kind, "vma", set())
    return tuple(sorted(axes, key=str))


def _vary(array, axes: tuple):
    """The array, with a type that says that it may differ along these axes. That of a custom call's result does not."""
    missing = tuple(axis for axis in axes if axis not in _varying([array]))
    if not missing:
        return array
    return jax.lax.pcast(array, missing, to="varying") if hasattr(jax.lax, "pcast") else jax.lax.pvary(array, missing)


def _vary_alike(arrays: tuple) -> tuple:
    """JAX sums the gradients of arrays that differed along fewer axes."""
    axes = _varying([array for array in arrays if array is not None])
    return tuple(None if array is None else _vary(array, axes) for array in arrays)


def _explicit_mesh(array):
    """The mesh of the array's type, if it says how the array is shared out. JAX 0.6 cannot lay out such arrays anew."""
    sharding = getattr(jax.typeof(array), "sharding", None) if hasattr(jax.sharding, "reshard") else None
    return sharding.mesh if sharding and jax.sharding.AxisType.Explicit in sharding.mesh.axis_types else None


def _placed_like(array, gradient):
    return gradient if _explicit_mesh(array) is None else jax.sharding.reshard(gradient, jax.typeof(array).sharding)


def _axis_kinds() -> set:
    """How axes of the mesh are treated where JAX traces a call. Along Manual ones, arrays are parts."""
    return set(jax.sharding.get_abstract_mesh().axis_types)


def _is_shared_out() -> bool:
    """Whether several devices may share a call that JAX traces."""
    return jax.device_count() > 1 and _axis_kinds() != {jax.sharding.AxisType.Manual}


def _written(call: _Call, mapped: tuple):
    """How a call writes what it saves. No constant array, which custom_partitioning does not take."""
    sizes = [call.sizes.batch, *(call.sizes.axes[axis] for axis in call.what.instances), *(1,) * (_MAPPED_MAX - len(mapped)), *mapped]
    return jnp.concatenate([jnp.full(1, size, np.int32) for size in sizes])


def _parts(sizes: _Sizes, axes: tuple, devices: int):
    """The sizes of what a device may have of a call."""
    if not axes:
        yield sizes
        return
    for count in range(1, devices + 1):
        if count == 1 or sizes.axes[axes[0]] % count == 0:
            part = sizes._replace(axes=sizes.axes | {axes[0]: sizes.axes[axes[0]] // count})
            yield from _parts(part, axes[1:], devices // count)


def _saved_shape(what: _Recurrence, sizes: _Sizes) -> tuple:
    """Bytes of a batch entry; those of a head, as many as the smallest part needs, where devices may share heads."""
    entry = sizes._replace(batch=1)
    if not _is_shared_out():
        return (sizes.batch, *(1 for _ in what.instances), _saved_size(what, entry))
    most = 0
    for part in _parts(entry, what.instances, jax.device_count()):
        most = max(most, -(-_saved_size(what, part) // max(1, math.prod(part.axes[axis] for axis in what.instances))))
    return (sizes.batch, *(sizes.axes[axis] for axis in what.instances), -(-most // 64) * 64)


def _shareable(call: _Call, position: int, shape: tuple) -> tuple:
    """For each axis of a tensor: what it is if devices may share it, else None."""
    what, whole = call.what, dict(enumerate(call.mapped)) | {_BATCH: call.sizes.batch} | call.sizes.axes
    if position == _WRITTEN:
        return (None,)
    if position == _OFFSETS:
        own = (None,)
    elif position == _SAVED:
        own = (_BATCH, *what.instances, None)
    else:
        row = _row(call, position)
        time = (None,) * (row.kind == "token" and call.entry != "step")
        own = ((_BATCH,) * (row.kind != "param") + time + (None,) * bool(row.depth) +
               tuple(axis if axis in what.instances else None for axis in row.axes) + (None,) * row.complex)
    return tuple(axis if axis is not None and size == whole[axis] else None
                 for axis, size in zip((*range(len(call.mapped)), *own), shape))


def _axes_of_operands(call: _Call, arrays) -> list:
    return [_shareable(call, position, array.shape) for position, array in zip(call.operands, arrays)]


def _axes_of_results(call: _Call) -> list:
    return [_shareable(call, position, _shape(call, position).shape) for position in call.results]


def _share_out(call: _Call, axes: list, arrays, specs, counts: dict) -> dict:
    """The mesh axes over which each axis is shared, as the first array lies that has it. `counts`: devices along mesh axes."""
    shares, used, heads = {}, set(), jax.device_count()
    for own, array, spec in zip(axes, arrays, specs):
        for axis, size, over in zip(own, array.shape, spec):
            over = () if over is None else over if isinstance(over, tuple) else (over,)
            parts = math.prod(counts[name] for name in over)
            if axis is None or axis in shares or parts == 1 or used & set(over) or size % parts:
                continue
            if axis in call.what.instances:
                if parts > heads:  # what forward saves has no room for so many
                    continue
                heads //= parts
            shares[axis] = over
            used |= set(over)
    return shares


def _specs(shares: dict, axes: list) -> tuple:
    return tuple(PartitionSpec(*(shares.get(axis) for axis in own)) for own in axes)


def _part_of(call: _Call, shares: dict, counts: dict) -> _Call:
    """What one device does of a call."""
    def part(axis, size):
        return size // math.prod(counts[name] for name in shares.get(axis, ()))

    sizes = call.sizes._replace(batch=part(_BATCH, call.sizes.batch),
                                axes={axis: part(axis, size) for axis, size in call.sizes.axes.items()})
    saved = _shareable(call, _SAVED, call.mapped + call.saved)[len(call.mapped):]
    return call._replace(sizes=sizes, saved=tuple(part(axis, size) for axis, size in zip(saved, call.saved)),
                         mapped=tuple(part(axis, size) for axis, size in enumerate(call.mapped)))


def _run_part(call: _Call, shares: dict, counts: dict, *arrays) -> tuple:
    """The results of one device, gradients summed over the devices that share axes which they lack."""
    results = _run(_part_of(call, shares, counts), *arrays)
    if call.entry != "backward":
        return results
    lacked = [tuple(name for axis, names in shares.items() if axis not in own for name in names) for own in _axes_of_results(call)]
    return tuple(jax.lax.psum(result, names) if names else result for result, names in zip(results, lacked))


def _over_devices(call: _Call, *arrays) -> tuple:
    mesh = next((mesh for mesh in map(_explicit_mesh, arrays) if mesh is not None), None)
    if mesh is not None:
        return _run_by_types(call, mesh, arrays)
    if jax.device_count() == 1 or jax.sharding.AxisType.Manual in _axis_kinds():
        return _run(call, *arrays)
    return _run_by_partitioner(call, arrays)


def _run_by_types(call: _Call, mesh, arrays) -> tuple:
    names = [name for name, kind in zip(mesh.axis_names, mesh.axis_types) if kind == jax.sharding.AxisType.Explicit]
    counts = {name: mesh.shape[name] for name in names}
    axes = _axes_of_operands(call, arrays)
    shares = _share_out(call, axes, arrays, [jax.typeof(array).sharding.spec for array in arrays], counts)
    specs = _specs(shares, axes)
    arrays = [jax.sharding.reshard(array, NamedSharding(mesh, spec)) for array, spec in zip(arrays, specs)]
    if not shares:
        return _run(call, *arrays)
    run = jax.shard_map(lambda *arrays: _run_part(call, shares, counts, *arrays), mesh=mesh, in_specs=specs,
                        out_specs=_specs(shares, _axes_of_results(call)),
                        axis_names={name for over in shares.values() for name in over})
    return run(*arrays)


def _rule(call: _Call, arrays) -> SdyShardingRule:
    """What Shardy hands on between arrays: the axes that devices may share. Others have names of their own."""
    words = {_BATCH: "b"} | {axis: f"i{at}" for at, axis in enumerate(call.what.instances)} | {
        axis: f"v{axis}" for axis in range(len(call.mapped))}

    def mappings(side, axes):
        return tuple(ArrayMapping(*(words.get(axis, f"{side}{at}x{i}") for i, axis in enumerate(own))) for at, own in enumerate(axes))

    return SdyShardingRule(mappings("o", _axes_of_operands(call, arrays)), mappings("r", _axes_of_results(call)))


def _run_by_partitioner(call: _Call, arrays) -> tuple:
    def placed(mesh, specs):
        return tuple(NamedSharding(mesh, spec) for spec in specs)

    def shared(mesh, operands):
        axes = _axes_of_operands(call, operands)
        specs = [getattr(x.sharding, "spec", ()) for x in operands]  # XLA may not know yet how an operand lies
        return axes, _share_out(call, axes, operands, specs, mesh.shape)

    def infer(mesh, operands, results):
        return placed(mesh, _specs(shared(mesh, operands)[1], _axes_of_results(call)))

    def partition(mesh, operands, results):
        axes, shares = shared(mesh, operands)
        return (mesh, lambda *arrays: _run_part(call, shares, mesh.shape, *arrays),
                placed(mesh, _specs(shares, _axes_of_results(call))), placed(mesh, _specs(shares, axes)))

    run = custom_partitioning(lambda *arrays: _run(call, *arrays))
    run.def_partition(partition, infer_sharding_from_operands=infer, sharding_rule=_rule(call, arrays))
    return run(*arrays)


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
        results, saved = _forward_that_saves(what, values, offsets)
        return results, (values, offsets, saved, _note_wanted(operands))

    def backward(kept, cotangents):
        values, offsets, saved, noted = kept
        return _backward(what, values, offsets, saved, _nonzero(cotangents), _read_wanted(what, noted)), None

    run.defvjp(forward, backward, symbolic_zeros=True)

    def with_types(operands, offsets):
        *operands, offsets = _vary_alike((*operands, offsets))
        return run(tuple(operands), offsets)

    return with_types


def _differentiable_step(what: _Recurrence):
    """operands -> results. A step that is differentiated is a call over one step."""

    @jax.custom_vjp
    def run(operands):
        return _forward(what, operands, step=True)

    def forward(operands):
        values = _values(operands)
        _read(what, values, None, step=True)
        longer = _with_time(what.operands, values, jnp.expand_dims)
        results, saved = _forward_that_saves(what, longer)
        return _with_time(what.results, results, jnp.squeeze), (longer, saved, _note_wanted(operands))

    def backward(kept, cotangents):
        longer, saved, noted = kept
        cotangents = _with_time(what.cotangents, _nonzero(cotangents), jnp.expand_dims)
        gradients = _backward(what, longer, None, saved, cotangents, _read_wanted(what, noted))
        return (_with_time(what.gradients, gradients, jnp.squeeze),)

    run.defvjp(forward, backward, symbolic_zeros=True)
    return lambda operands: run(_vary_alike(operands))


class _Functions:
    """What the functions of a recurrence call."""

    def __init__(self, family: tuple):
        self.family = family
        self.whole = {what: jax.jit(_widening(what, _differentiable(what)), inline=True) for what in family}
        self.one = {what: jax.jit(_widening(what, _differentiable_step(what)), inline=True) for what in family}
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
        return self.whole[what](operands, _offsets(what, cu_seqlens))

    def step(self, operands: tuple):
        return self.one[self.find(operands)](operands)
