"""The part of the Python files for PyTorch that does not depend on the recurrence; see common.py."""
import torch
from torch.autograd import forward_ad as _forward_ad

from common import (_BROADCAST, _choose, _CUDA, _DTYPES, _fail, _formula, _HASH, _library, _launch, math, _NAME, NamedTuple, Optional,
                    _or_type, _Recurrence, _Row, _Sizes, _workspace, ctypes, os)

# ---- tensors of torch ----------------------------------------------------------------------------------------------------

_TYPES = tuple(getattr(torch, name) for name in _DTYPES)  # of tokens
_NARROW = (torch.bfloat16, torch.float16)
_Operands = tuple  # a tensor or None for each operand of a recurrence


def _rows_of(tensor: torch.Tensor, leading: int):
    """A tensor whose steps are dense, with its strides of batch and time (0: dense): itself where that is so, else a copy."""
    shape, strides, dense = tensor.shape, tensor.stride(), 1
    for at in range(len(shape) - 1, leading - 1, -1):
        if shape[at] != 1 and strides[at] != dense:
            return tensor.contiguous(), 0, 0
        dense *= shape[at]
    batch = strides[0] or (_BROADCAST if shape[0] > 1 else dense)
    time = 0 if leading == 1 else strides[1] or (_BROADCAST if shape[1] > 1 else dense)
    return tensor, batch, time


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The type of parameters and states beside tokens of that type."""
    return torch.float64 if dtype is torch.float64 else torch.float32


def _narrowed(offsets: torch.Tensor) -> torch.Tensor:
    """Offsets of 64 bits in 32. What does not fit becomes a number that the library refuses."""
    return offsets.clamp(-1, 2**31 - 1).to(torch.int32)


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _listed(results) -> tuple:
    """What an operator returns, as a tuple: torch unpacks a single result."""
    return (results,) if isinstance(results, torch.Tensor) else results


def _bare(results: tuple):
    return results[0] if len(results) == 1 else tuple(results)


def _with_time(rows: tuple, tensors: tuple, change) -> list:
    """The tensors, tokens with an axis of one step more or less: change is torch.unsqueeze or torch.squeeze."""
    return [change(tensor, 1) if row.kind == "token" and tensor is not None else tensor for row, tensor in zip(rows, tensors)]


# ---- checks --------------------------------------------------------------------------------------------------------------


def _check_operands(family: tuple, operands: _Operands) -> None:
    what = family[0]
    for row, tensor in zip(what.operands, operands):
        if (tensor is not None or not row.optional) and not (isinstance(tensor, torch.Tensor) and tensor.layout is torch.strided):
            found = f"one of {tensor.layout}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
            raise TypeError(what.wrong(row, f"expected a dense tensor, found {found}"))


def _check_types(what: _Recurrence, operands: _Operands) -> None:
    device = operands[0].device
    for row, tensor in zip(what.operands, operands):
        if tensor is None:
            continue
        dtype = getattr(torch, row.dtype)
        if tensor.dtype is not dtype:
            raise TypeError(what.wrong(row, f"expected {dtype}, found {tensor.dtype}; hand over {row.name}.to({dtype})"
                                            f"{_or_type(_name_of(tensor.dtype))}"))
        if tensor.device != device:
            raise ValueError(what.wrong(row, f"expected a tensor on {device}, where {what.operands[0].name} is, found one on "
                                             f"{tensor.device}"))


def _check_offsets(what: _Recurrence, offsets, device: torch.device) -> None:
    if not isinstance(offsets, torch.Tensor) or offsets.dtype is not torch.int32:
        found = offsets.dtype if isinstance(offsets, torch.Tensor) else type(offsets).__name__
        raise TypeError(f"{what.name}: cu_seqlens: expected a tensor of torch.int32 or torch.int64, found {found}")
    if offsets.device != device:
        raise ValueError(f"{what.name}: cu_seqlens: expected a tensor on {device}, found one on {offsets.device}")


class _Call(NamedTuple):
    """What a call is, by its operands."""

    what: _Recurrence
    sizes: _Sizes


def _read(family: tuple, operands: _Operands, offsets, step: bool) -> _Call:
    """Says what is wrong with the operands of a call, if anything is."""
    _check_operands(family, operands)
    what = _choose(family, _name_of(operands[0].dtype), operands)
    _check_types(what, operands)
    if offsets is not None:
        _check_offsets(what, offsets, operands[0].device)
    return _Call(what, what.read(operands, offsets, step))


_read_calls: dict = {}


def _read_known(family: tuple, operands: _Operands, offsets, step: bool) -> _Call:
    """`_read`, which takes longer than a small call, once for tensors of the same types, devices and shapes."""
    try:
        key = (family, step, offsets if offsets is None else (offsets.dtype, offsets.device, offsets.shape),
               *[tensor if tensor is None else (tensor.dtype, tensor.device, tensor.shape) for tensor in operands])
        call = _read_calls.get(key)
    except (AttributeError, TypeError):  # no tensors
        return _read(family, operands, offsets, step)
    if call is None:
        call = _read(family, operands, offsets, step)
        if len(_read_calls) >= 4096:
            _read_calls.clear()
        _read_calls[key] = call
    return call


# ---- calls ---------------------------------------------------------------------------------------------------------------


def _new(call: _Call, rows: tuple, like: torch.Tensor, step: bool = False) -> list:
    """Tensors for results."""
    return [like.new_empty(call.what.shape(row, call.sizes, step), dtype=getattr(torch, row.dtype)) for row in rows]


def _saved_bytes(call: _Call, is_cpu: bool):
    """Bytes that forward saves for backward: enough for each class of GPUs."""
    packed = call.sizes.sequences is not None
    sizes = {**call.sizes.axes, "batch": call.sizes.batch, "time": call.sizes.time, "sequences": call.sizes.sequences or 0}
    bytes_of = [_formula(row["saved"]["packed" if packed else "batch"], tuple(sizes))(sizes) for row in call.what.saved
                if is_cpu == (row["device"] == "host")]
    most = 0
    for count in bytes_of:
        most = count if is_cpu else torch.sym_max(most, count)
    return most


class _Run:
    """One call of an entry point of the library. Holds what the library reads until it has returned."""

    def __init__(self, call: _Call, step: bool = False):
        self.call, self.leading = call, 1 if step else 2
        self.places: dict = {}
        self.alive: list = []

    def read(self, rows: tuple, tensors) -> None:
        for row, tensor in zip(rows, tensors):
            if tensor is None:
                continue
            batch = time = 0
            if not tensor.is_contiguous():
                tensor, batch, time = _rows_of(tensor, self.leading) if row.kind == "token" else (tensor.contiguous(), 0, 0)
            self.put(row, tensor, batch, time)

    def put(self, row: _Row, tensor: torch.Tensor, batch: int = 0, time: int = 0) -> None:
        self.alive.append(tensor)
        self.places[row.place] = tensor.data_ptr()
        if row.kind == "token":
            self.places[row.place + 1], self.places[row.place + 2] = batch, time

    def write(self, rows: tuple, tensors) -> None:
        for row, tensor in zip(rows, tensors):
            self.put(row, tensor)

    def run(self, entry: str, offsets, saved, device: torch.device) -> None:
        what, sizes = self.call
        offsets = offsets if offsets is None else offsets.contiguous()
        arguments = what.pack(sizes, 0 if offsets is None else offsets.data_ptr(), self.places)
        key = (sizes.batch, sizes.time, sizes.sequences, *sizes.axes.values())
        (_run_on_cpu if device.type == "cpu" else _run_on_cuda)(what, entry, key, arguments, saved, device)


def _run_on_cpu(what: _Recurrence, entry: str, key: tuple, arguments: bytes, saved, device: torch.device) -> None:
    room = getattr(what.rooms.get(key) or what.room(key, arguments), entry)
    address = _workspace.address if _workspace.size >= room else _workspace.grow(room)
    at, size = (0, 0) if saved is None else (saved.data_ptr(), saved.numel())
    status = getattr(what, entry)(arguments, _launch(torch.get_num_threads(), address, _workspace.size, at, size))
    if status:
        _fail(status)


def _run_on_cuda(what: _Recurrence, entry: str, key: tuple, arguments: bytes, saved, device: torch.device) -> None:
    """Starts the kernels on the current stream, in the context of torch. Its allocator keeps the workspace for that stream."""
    with torch.cuda.device(device):
        key = (*key, device.index)
        room = getattr(what.rooms.get(key) or what.room(key, arguments, _CUDA, device.index), entry)
        workspace = torch.empty(room, dtype=torch.uint8, device=device)
        at, size = (0, 0) if saved is None else (saved.data_ptr(), saved.numel())
        stream = torch.cuda.current_stream(device).cuda_stream
        status = getattr(what, entry)(arguments, _launch(0, workspace.data_ptr(), room, at, size, _CUDA, device.index, stream))
    if status:
        _fail(status)


def _aligned(saved: torch.Tensor) -> torch.Tensor:
    """What forward saved may come back as a copy that begins anywhere."""
    return saved if saved.data_ptr() % 64 == 0 else saved.clone()


# ---- autocast ------------------------------------------------------------------------------------------------------------

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def _is_autocast(tensor: torch.Tensor) -> bool:
    device = tensor.device.type
    return device in ("cpu", "cuda") and torch.is_autocast_enabled(device)


def _type_for(tensor: torch.Tensor) -> torch.dtype:
    """The number type of a call under autocast, by its first tensor."""
    dtype = tensor.dtype
    if dtype.is_floating_point and dtype is not torch.float64:
        wanted = torch.get_autocast_dtype(tensor.device.type)
        return wanted if wanted in _TYPES else torch.float32 if torch.float32 in _TYPES else dtype
    return dtype


def _cast(family: tuple, operands: _Operands) -> _Operands:
    """What autocast makes of operands."""
    what = _choose(family, _name_of(_type_for(operands[0])), operands)
    return tuple(tensor if tensor is None or not tensor.is_floating_point() or tensor.dtype is torch.float64
                 else tensor.to(getattr(torch, row.dtype)) for row, tensor in zip(what.operands, operands))


# ---- derivatives ---------------------------------------------------------------------------------------------------------


def _is_differentiated(tensors) -> bool:
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    return False


def _bits(wanted: tuple) -> int:
    return sum(want << at for at, want in enumerate(wanted))


def _no_tangents(name: str) -> RuntimeError:
    return RuntimeError(f"{name}: expected derivatives by backward, found forward ones (jvp), which the library does not have; "
                        "torch.autograd.grad, torch.autograd.functional.jacobian and torch.func.jacrev go backward")


def _no_second(name: str) -> RuntimeError:
    return RuntimeError(f"{name}: expected first derivatives, found a second one, which the library does not have")


class _Differentiated(torch.autograd.Function):
    """A call that saves for its backward."""

    @staticmethod
    def forward(ctx, functions, step, offsets, *operands):
        *results, saved = functions.save(operands, offsets, step)
        ctx.save_for_backward(*operands, offsets, saved)
        ctx.functions, ctx.step = functions, step
        ctx.set_materialize_grads(False)
        return tuple(results)

    @staticmethod
    def backward(ctx, *cotangents):
        *operands, offsets, saved = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        arguments = (ctx.functions, ctx.step, _bits(wanted), offsets, saved, len(operands), *operands, *cotangents)
        if torch._C._are_functorch_transforms_active():  # vmap over cotangents
            gradients = _MappedBackward.apply(*arguments)
        elif _is_differentiated(arguments[6:]):
            gradients = _Once.apply(*arguments)
        else:
            gradients = ctx.functions.gradients(*arguments[1:])
        return None, None, None, *(gradient if want else None for gradient, want in zip(gradients, wanted))

    @staticmethod
    def jvp(ctx, *tangents):
        raise _no_tangents(ctx.functions.name)


class _Once(torch.autograd.Function):
    """A backward whose results cannot be differentiated again, and say so."""

    @staticmethod
    def forward(ctx, functions, *arguments):
        ctx.name = functions.name
        return functions.gradients(*arguments)

    @staticmethod
    def backward(ctx, *cotangents):
        raise _no_second(ctx.name)


# ---- transforms of torch.func --------------------------------------------------------------------------------------------
# torch takes an autograd.Function apart, level by level, where a function is called, and no operator behind it: an operator's own
# autograd knows one level alone. What forward saves is a result here, for a level keeps nothing but operands and results.


def _each(info, in_dims: tuple, arguments: tuple, run) -> tuple:
    """vmap: a call for each entry."""
    entries = [run(*(x if dim is None else x.select(dim, at) for x, dim in zip(arguments, in_dims))) for at in range(info.batch_size)]
    if not entries:
        raise ValueError(f"{arguments[0].name}: expected a vmap over one entry or more, found none")
    return tuple(torch.stack(several) for several in zip(*entries)), (0,) * len(entries[0])


class _Mapped(torch.autograd.Function):
    """A call that saves for its backward, as torch.func takes it."""

    @staticmethod
    def forward(functions, step, offsets, *operands):
        return tuple(functions.save(operands, offsets, step))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.functions, ctx.step, offsets, *operands = inputs
        ctx.save_for_backward(*operands, offsets, output[-1])
        ctx.mark_non_differentiable(output[-1])
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, *cotangents):
        *operands, offsets, saved = ctx.saved_tensors
        wanted = ctx.needs_input_grad[3:]
        gradients = _MappedBackward.apply(ctx.functions, ctx.step, _bits(wanted), offsets, saved, len(operands), *operands, *cotangents[:-1])
        return None, None, None, *(gradient if want else None for gradient, want in zip(gradients, wanted))

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _each(info, in_dims, arguments, _Mapped.apply)

    @staticmethod
    def jvp(ctx, *tangents):
        raise _no_tangents(ctx.functions.name)


class _MappedBackward(torch.autograd.Function):
    @staticmethod
    def forward(functions, *arguments):
        return tuple(functions.gradients(*arguments))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.name = inputs[0].name

    @staticmethod
    def backward(ctx, *cotangents):
        raise _no_second(ctx.name)

    @staticmethod
    def vmap(info, in_dims, *arguments):
        return _each(info, in_dims, arguments, _MappedBackward.apply)

    @staticmethod
    def jvp(ctx, *tangents):
        raise _no_second(ctx.name)


# ---- operators -----------------------------------------------------------------------------------------------------------


def _open_operators() -> torch.library.Library:
    """A namespace named after the library; a copy of this file in the same process takes the next one."""
    global _operators, _kernels
    if "_operators" in globals():  # reloaded
        _kernels.close()
        _operators._destroy()
    name, number = f"rec_{_NAME}_{_HASH}", 1
    while True:
        operators = torch.library.Library(name if number == 1 else f"{name}_{number}", "FRAGMENT")
        try:
            operators.define("is_taken() -> ()")
            return operators
        except RuntimeError:
            number += 1


_operators = _open_operators()


class _Kernels:
    """Kernels of the library for operators on the CPU, registered through torch's stable C ABI (2.10 and later). A call through them
    costs half of one through Python. REC_TORCH_KERNELS=python leaves them out."""

    def __init__(self, namespace: str):
        self.handle = ctypes.c_void_p()
        self.file = _NAME.encode()  # torch keeps its address
        try:
            self.torch = ctypes.CDLL("libtorch_cpu.so", mode=os.RTLD_NOW | os.RTLD_NOLOAD)
            self.there = os.environ.get("REC_TORCH_KERNELS") != "python" and not self.torch.aoti_torch_library_init_impl(
                namespace.encode(), b"CPU", self.file, ctypes.c_uint32(0), ctypes.byref(self.handle))
        except (AttributeError, OSError):
            self.there = False

    def add(self, operator: str, symbol: str) -> bool:
        kernel = getattr(_library, symbol)
        kernel.restype = ctypes.c_int64
        if not self.there or kernel(None) != 1:  # without arguments a kernel tells whether torch has what it needs
            return False
        return not self.torch.aoti_torch_library_impl(self.handle, operator.encode(), kernel)

    def close(self) -> None:
        if self.handle:
            self.torch.aoti_torch_delete_library_object(self.handle)


_kernels = _Kernels(_operators.ns)


def _operator(name: str, schema: str, run, fake, autograd=None, autocast=None):
    """Defines an operator for CPU and CUDA; returns it. torch runs what is for CUDA where any tensor is on a GPU."""
    _operators.define(name + schema)
    for key in ("CPU", "CUDA"):
        _operators.impl(name, run, key)
    torch.library.register_fake(f"{_operators.ns}::{name}", fake, lib=_operators)
    if autograd is not None:
        _operators.impl(name, autograd, "Autograd")
    if autocast is not None:
        for key in ("AutocastCPU", "AutocastCUDA"):
            _operators.impl(name, autocast, key)
    return getattr(getattr(torch.ops, _operators.ns), name).default


def _quick_operator(name: str, symbol: str, schema: str, fake, operator):
    """The operator for calls without gradients, whose kernel on the CPU is the library's; `operator` where torch cannot have it. The
    kernel's errors are RuntimeErrors: whoever calls it calls `operator` then, which raises the right ones."""
    _operators.define(name + schema)
    if not _kernels.add(name, symbol):
        return operator
    for key in ("CUDA", "AutocastCPU", "AutocastCUDA"):
        _operators.impl(name, operator, key)
    torch.library.register_fake(f"{_operators.ns}::{name}", fake, lib=_operators)
    return getattr(getattr(torch.ops, _operators.ns), name).default


def _schema(arguments: list, results: int) -> str:
    return f"({', '.join(arguments)}) -> ({', '.join(['Tensor'] * results)})"


class _Functions:
    """What the functions of a recurrence call: operators, each for all variants."""

    def __init__(self, family: tuple):
        what, symbol = family[0], family[0].plain
        self.family, self.name, self.rows = family, what.name, what.operands
        self.count = len(what.operands)
        self.wide = [at for at, row in enumerate(what.operands) if row.kind != "token"]
        operands = [f"Tensor{'?' * row.optional} {row.name}" for row in what.operands]
        cotangents = [f"Tensor? {row.name}" for row in what.cotangents]
        whole, one = operands + ["Tensor? cu_seqlens"], len(what.results)
        self.op = _operator(f"{symbol}_forward", _schema(whole, one), self.run_forward, self.fake_forward, self.autograd_forward,
                            self.autocast_forward)
        self.save_op = _operator(f"{symbol}_forward_save", _schema(whole, one + 1), self.run_save, self.fake_save)
        self.step_op = _operator(f"{symbol}_step", _schema(operands, one), self.run_step, self.fake_step, self.autograd_step,
                                 self.autocast_step)
        backward = _schema([*whole, "Tensor saved", *cotangents, "int wanted"], len(what.gradients))
        self.backward_op = _operator(f"{symbol}_backward", backward, self.run_backward, self.fake_backward)
        self.quick = _quick_operator(f"{symbol}_quick_forward", f"rec_torch_{symbol}_forward", _schema(whole, one), self.fake_forward,
                                     self.op)
        self.quick_save = _quick_operator(f"{symbol}_quick_save", f"rec_torch_{symbol}_save", _schema(whole, one + 1), self.fake_save,
                                          self.save_op)
        self.quick_step = _quick_operator(f"{symbol}_quick_step", f"rec_torch_{symbol}_step", _schema(operands, one), self.fake_step,
                                          self.step_op)
        self.quick_backward = _quick_operator(f"{symbol}_quick_backward", f"rec_torch_{symbol}_backward", backward, self.fake_backward,
                                              self.backward_op)

    # Operators on tensors with numbers. The last argument of a whole call is cu_seqlens.

    def run(self, entry: str, operands: _Operands, offsets, saves: bool = False):
        step = entry == "step"
        call = _read_known(self.family, operands, offsets, step)
        first = operands[0]
        results = _new(call, call.what.results, first, step)
        saved = first.new_empty(_saved_bytes(call, first.is_cpu), dtype=torch.uint8) if saves else None
        run = _Run(call, step)
        run.read(call.what.operands, operands)
        run.write(call.what.results, results)
        run.run(entry, offsets, saved, first.device)
        return _bare([*results, saved] if saves else results)

    def run_forward(self, *arguments):
        return self.run("forward", arguments[:-1], arguments[-1])

    def run_save(self, *arguments):
        return self.run("forward", arguments[:-1], arguments[-1], saves=True)

    def run_step(self, *operands):
        return self.run("step", operands, None)

    def split(self, arguments: tuple) -> tuple:
        """Arguments of a backward: operands, offsets, saved, cotangents, wanted."""
        count = self.count
        return arguments[:count], arguments[count], arguments[count + 1], arguments[count + 2:-1], arguments[-1]

    def make_gradients(self, call: _Call, wanted: int, like: torch.Tensor) -> list:
        """Gradients that nobody wants are empty, and no memory of the library's."""
        return [_new(call, (row,), like)[0] if wanted >> at & 1 else like.new_empty(0, dtype=getattr(torch, row.dtype))
                for at, row in enumerate(call.what.gradients)]

    def run_backward(self, *arguments):
        operands, offsets, saved, cotangents, wanted = self.split(arguments)
        call = _read_known(self.family, operands, offsets, False)
        gradients = self.make_gradients(call, wanted, operands[0])
        run = _Run(call)
        run.read(call.what.operands, operands)
        run.read(call.what.cotangents, cotangents)
        run.write(call.what.gradients, gradients)
        run.run("backward", offsets, _aligned(saved), operands[0].device)
        return _bare(gradients)

    # Fakes: shapes and types alone.

    def fake(self, operands: _Operands, offsets, step: bool = False, saves: bool = False):
        call = _read(self.family, operands, offsets, step)
        first = operands[0]
        results = _new(call, call.what.results, first, step)
        if saves:
            results.append(first.new_empty(_saved_bytes(call, first.device.type == "cpu"), dtype=torch.uint8))
        return _bare(results)

    def fake_forward(self, *arguments):
        return self.fake(arguments[:-1], arguments[-1])

    def fake_save(self, *arguments):
        return self.fake(arguments[:-1], arguments[-1], saves=True)

    def fake_step(self, *operands):
        return self.fake(operands, None, step=True)

    def fake_backward(self, *arguments):
        operands, offsets, _, _, wanted = self.split(arguments)
        return _bare(self.make_gradients(_read(self.family, operands, offsets, False), wanted, operands[0]))

    # Autograd: what compiled graphs and exported programs come to.

    def autograd(self, op, operands: _Operands, offsets, step: bool):
        if _forward_ad._current_level >= 0 or _is_differentiated(operands):
            return _bare(_Differentiated.apply(self, step, offsets, *operands))
        with torch._C._AutoDispatchBelowAutograd():
            return op(*operands) if step else op(*operands, offsets)

    def autograd_forward(self, *arguments):
        return self.autograd(self.op, arguments[:-1], arguments[-1], False)

    def autograd_step(self, *operands):
        return self.autograd(self.step_op, operands, None, True)

    def autocast_forward(self, *arguments):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return self.op(*_cast(self.family, arguments[:-1]), arguments[-1])

    def autocast_step(self, *operands):
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return self.step_op(*_cast(self.family, operands))

    def quickly(self, quick, operator, *arguments):
        """What the quick operator returns. Where it fails, the other one says what is wrong, or does what the kernel cannot."""
        try:
            return quick(*arguments)
        except RuntimeError:
            _check_operands(self.family, arguments)
            return operator(*arguments)

    # What _Differentiated calls.

    def save(self, operands: _Operands, offsets, step: bool) -> tuple:
        """Results, and what backward starts from. A step is a forward over one."""
        if not step:
            return self.quickly(self.quick_save, self.save_op, *operands, offsets)
        _read_known(self.family, operands, offsets, True)
        *results, saved = self.save(_with_time(self.rows, operands, torch.unsqueeze), offsets, False)
        return *_with_time(self.family[0].results, results, torch.squeeze), saved

    def gradients(self, step: bool, wanted: int, offsets, saved, count: int, *tensors) -> tuple:
        """Gradients of the operands. wanted: bits; tensors: the operands, `count` of them, then cotangents."""
        operands, cotangents = tensors[:count], tensors[count:]
        if step:
            operands = _with_time(self.rows, operands, torch.unsqueeze)
            cotangents = _with_time(self.family[0].cotangents, cotangents, torch.unsqueeze)
        gradients = _listed(self.quickly(self.quick_backward, self.backward_op, *operands, offsets, saved, *cotangents, wanted))
        if not step:
            return gradients
        return tuple(gradient.squeeze(1) if wanted >> at & 1 and row.kind == "token" else gradient
                     for at, (gradient, row) in enumerate(zip(gradients, self.family[0].gradients)))

    # What users call.

    def widened(self, operands: _Operands) -> _Operands:
        """Parameters and states of 16 bits in the type that they have in the library; their gradients have 16 bits again."""
        for at in self.wide:
            if operands[at] is not None and operands[at].dtype in _NARROW:
                wide = _wide(operands[0].dtype)
                return tuple(x.to(wide) if at in self.wide and x is not None and x.dtype in _NARROW else x
                             for at, x in enumerate(operands))
        return operands

    def __call__(self, operands: _Operands, offsets) -> tuple:
        if offsets is None:
            return self.call(operands, (None,), False)
        if not isinstance(offsets, torch.Tensor):
            _check_operands(self.family, operands)
            _check_offsets(self.family[0], offsets, operands[0].device)
        return self.call(operands, (_narrowed(offsets) if offsets.dtype is torch.int64 else offsets,), False)

    def step(self, operands: _Operands) -> tuple:
        return self.call(operands, (), True)

    def call(self, operands: _Operands, offsets: tuple, step: bool) -> tuple:
        """offsets: of a step, none."""
        if torch.compiler.is_compiling():
            return self.compiled(self.widened(operands), offsets, step)
        try:
            operands = self.widened(operands)
            differentiated = _forward_ad._current_level >= 0 or _is_differentiated(operands)
        except AttributeError:
            _check_operands(self.family, operands)
            raise
        if torch._C._are_functorch_transforms_active():
            return self.transformed(operands, *(offsets or (None,)), step)
        if not differentiated:
            return _listed(self.quickly(*((self.quick_step, self.step_op) if step else (self.quick, self.op)), *operands, *offsets))
        if _is_autocast(operands[0]):
            return _listed((self.step_op if step else self.op)(*operands, *offsets))
        return _Differentiated.apply(self, step, *(offsets or (None,)), *operands)

    def compiled(self, operands: _Operands, offsets: tuple, step: bool) -> tuple:
        """What becomes of a call in a graph of torch.compile."""
        if _is_differentiated(operands):
            return _listed((self.step_op if step else self.op)(*operands, *offsets))
        return _listed((self.quick_step if step else self.quick)(*operands, *offsets))

    def transformed(self, operands: _Operands, offsets, step: bool) -> tuple:
        """A call within grad, vmap, jacrev and the like of torch.func."""
        if not _is_autocast(operands[0]):
            return _Mapped.apply(self, step, offsets, *operands)[:-1]
        operands = _cast(self.family, operands)
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return _Mapped.apply(self, step, offsets, *operands)[:-1]


# ---- starts of parameters ------------------------------------------------------------------------------------------------
# In double precision, whatever the parameter has.


def _number(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _uniform(shape, low, high) -> torch.Tensor:
    return low + (high - low) * torch.rand(shape, dtype=torch.float64)


def _loguniform(shape, low, high) -> torch.Tensor:
    return torch.exp(_uniform(shape, torch.log(low), torch.log(high)))


def _normal(shape, mean, deviation) -> torch.Tensor:
    return mean + deviation * torch.randn(shape, dtype=torch.float64)


def _index(shape, axis: int) -> torch.Tensor:
    """0, 1, .. along an axis."""
    return torch.arange(shape[axis], dtype=torch.float64).reshape([-1 if at == axis else 1 for at in range(len(shape))])


def _identity(shape) -> torch.Tensor:
    return torch.eye(math.prod(shape[:-1]), shape[-1], dtype=torch.float64).reshape(shape)


def _last_tap(shape) -> torch.Tensor:
    """The convolution that hands its input through."""
    return (torch.arange(shape[-1]) == shape[-1] - 1).double().expand(shape)


def _legs(shape, axis: int, size) -> tuple:
    """HiPPO-LegS: imaginary parts of its eigenvalues, from the smallest above 0, then the same below, and the lengths of its input along their eigenvectors."""
    count = int(size)
    odd = 2 * torch.arange(count, dtype=torch.float64) + 1
    product = torch.outer(odd.sqrt(), odd.sqrt()) / 2
    values = torch.linalg.eigvalsh(1j * (torch.triu(product, 1) - torch.tril(product, -1))).flip(0)
    half = (count + 1) // 2
    first = values[:half].flip(0)
    imaginary = torch.cat([first, -first[count % 2:]])
    lengths = 1 / (odd / (odd * odd + 4 * imaginary[:, None] ** 2)).sum(1).sqrt()
    places = [-1 if at == axis else 1 for at in range(len(shape))]
    return imaginary[:shape[axis]].reshape(places), lengths[:shape[axis]].reshape(places)


def _row_of(tensor: torch.Tensor, what: str, axes: tuple, leading: int) -> torch.Tensor:
    """An input of a layer, its axes as one."""
    if tensor.dim() != leading + len(axes) or tuple(tensor.shape[leading:]) != axes:
        listed = ", ".join(["batch", "time"][:leading] + [str(size) for size in axes])
        raise ValueError(f"{what}: expected shape [{listed}], found {list(tensor.shape)}")
    return tensor.flatten(leading) if axes else tensor.unsqueeze(-1)


def _state_of(states: dict, name: str, learned: torch.Tensor, tokens: torch.Tensor, cu_seqlens=None) -> torch.Tensor:
    """What sequences start from: the state that is handed over, else the learned one for each of them."""
    state = states.get(name)
    if state is not None:
        return state
    entries = tokens.shape[0] if cu_seqlens is None else cu_seqlens.shape[0] - 1
    return learned.expand(entries, *learned.shape)


def _types_of(module: torch.nn.Module, tensor: Optional[torch.Tensor]) -> tuple:
    """The types of a module's tokens and of all else: that of its parameters where the library has it, else its first."""
    parameters = list(module.parameters())
    dtype = parameters[0].dtype if parameters else tensor.dtype
    dtype = dtype if dtype in _TYPES else _TYPES[0]
    return dtype, _wide(dtype)


def _start(weight: torch.Tensor, value: torch.Tensor) -> None:
    if value.is_complex():
        value = torch.view_as_real(value.resolve_conj())
    weight.copy_(value.expand(weight.shape))


def _add_parameter(module: torch.nn.Module, path: str, shape, device, dtype) -> None:
    """A parameter by its public name: layers.0.in_proj.weight."""
    *folders, name = path.split(".")
    for folder in folders:
        if folder not in module._modules:
            module.add_module(folder, torch.nn.Module())
        module = module._modules[folder]
    module.register_parameter(name, torch.nn.Parameter(torch.empty(shape, dtype=dtype, device=device)))
