"""The part of the Python files for PyTorch that does not depend on the recurrence; see common.py."""
import torch
from torch.autograd import forward_ad as _forward_ad

from common import (_BROADCAST, _choose, _CUDA, _DTYPES, _fail, _formula, _HASH, _library, _launch, _manifest, math, _NAME, NamedTuple,
                    _of_sizes, Optional, _or_type, _Recurrence, _Row, _Sizes, _workspace, ctypes, json, os, re)

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
        # vmap over cotangents, or create_graph
        if torch._C._are_functorch_transforms_active() or _is_differentiated(arguments[6:]):
            gradients = _MappedBackward.apply(*arguments)
        else:
            gradients = ctx.functions.gradients(*arguments[1:])
        return None, None, None, *(gradient if want else None for gradient, want in zip(gradients, wanted))

    @staticmethod
    def jvp(ctx, *tangents):
        raise _no_tangents(ctx.functions.name)


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
    """A backward whose results cannot be differentiated again, and say so."""

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


_functions: dict = {}  # by the recurrence's name


class _Functions:
    """What the functions of a recurrence call: operators, each for all variants."""

    def __init__(self, family: tuple):
        what, symbol = family[0], family[0].plain
        _functions[what.name] = self
        self.family, self.name, self.rows = family, what.name, what.operands
        self.count = len(what.operands)
        self.wide = [at for at, row in enumerate(what.operands) if row.kind != "token"]
        operands = [f"Tensor{'?' * row.optional} {row.name}" for row in what.operands]
        cotangents = [f"Tensor? {row.name}" for row in what.cotangents]
        whole, one = operands + ["Tensor? cu_seqlens"], len(what.results)
        self.op = _operator(f"{symbol}_forward", _schema(whole, one), self.run, self.fake,
                            self.autograd, self.autocast)
        self.save_op = _operator(f"{symbol}_forward_save", _schema(whole, one + 1), self.run_save, self.fake_save)
        self.step_op = _operator(f"{symbol}_step", _schema(operands, one), self.run, self.fake,
                                 self.autograd, self.autocast)
        backward = _schema([*whole, "Tensor saved", *cotangents, "int wanted"], len(what.gradients))
        self.backward_op = _operator(f"{symbol}_backward", backward, self.run_backward, self.fake_backward)
        self.quick = _quick_operator(f"{symbol}_quick_forward", f"rec_torch_{symbol}_forward", _schema(whole, one), self.fake,
                                     self.op)
        self.quick_save = _quick_operator(f"{symbol}_quick_save", f"rec_torch_{symbol}_save", _schema(whole, one + 1), self.fake_save,
                                          self.save_op)
        self.quick_step = _quick_operator(f"{symbol}_quick_step", f"rec_torch_{symbol}_step", _schema(operands, one), self.fake,
                                          self.step_op)
        self.quick_backward = _quick_operator(f"{symbol}_quick_backward", f"rec_torch_{symbol}_backward", backward, self.fake_backward,
                                              self.backward_op)

    # Operators on tensors with numbers.

    def taken(self, arguments: tuple) -> tuple:
        """Operands of a call, its cu_seqlens, and whether it is a step, which has none."""
        step = len(arguments) == self.count
        return arguments[:self.count], None if step else arguments[self.count], step

    def run(self, *arguments, saves: bool = False):
        operands, offsets, step = self.taken(arguments)
        call = _read_known(self.family, operands, offsets, step)
        first = operands[0]
        results = _new(call, call.what.results, first, step)
        saved = first.new_empty(_saved_bytes(call, first.is_cpu), dtype=torch.uint8) if saves else None
        run = _Run(call, step)
        run.read(call.what.operands, operands)
        run.write(call.what.results, results)
        run.run("step" if step else "forward", offsets, saved, first.device)
        return _bare([*results, saved] if saves else results)

    def run_save(self, *arguments):
        return self.run(*arguments, saves=True)

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

    def fake(self, *arguments, saves: bool = False):
        operands, offsets, step = self.taken(arguments)
        call = _read(self.family, operands, offsets, step)
        first = operands[0]
        results = _new(call, call.what.results, first, step)
        if saves:
            results.append(first.new_empty(_saved_bytes(call, first.device.type == "cpu"), dtype=torch.uint8))
        return _bare(results)

    def fake_save(self, *arguments):
        return self.fake(*arguments, saves=True)

    def fake_backward(self, *arguments):
        operands, offsets, _, _, wanted = self.split(arguments)
        return _bare(self.make_gradients(_read(self.family, operands, offsets, False), wanted, operands[0]))

    # Autograd: what compiled graphs and exported programs come to.

    def autograd(self, *arguments):
        operands, offsets, step = self.taken(arguments)
        if _forward_ad._current_level >= 0 or _is_differentiated(operands):
            return _bare(_Differentiated.apply(self, step, offsets, *operands))
        with torch._C._AutoDispatchBelowAutograd():
            return (self.step_op if step else self.op)(*arguments)

    def autocast(self, *arguments):
        operands, _, step = self.taken(arguments)
        with torch._C._ExcludeDispatchKeyGuard(_AUTOCAST):
            return (self.step_op if step else self.op)(*_cast(self.family, operands), *arguments[self.count:])

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

    # What modules call.

    def of_sizes(self, sizes: dict) -> tuple:
        """The variant of a module, and the sizes of axes by name. Computed ones are needed only
        where all others are known."""
        dtype = self.family[0].operands[0].dtype
        typed = tuple(what for what in self.family if what.operands[0].dtype == dtype)
        chosen = {axis: size for axis, size in sizes.items() if axis in typed[0].chosen}
        what = _of_sizes(typed, chosen)
        axes = {**what.axes, **sizes}
        if all(size is not None for axis, size in axes.items() if axis not in what.computed):
            for axis, size in what.computed.items():
                axes[axis] = size(axes)
        return what, axes

    def add_parameters(self, module: torch.nn.Module, sizes: dict, device, dtype) -> None:
        """sizes: of axes that the library leaves open, or of which it has several."""
        what, axes = self.of_sizes(sizes)
        dtype = _wide(dtype or getattr(torch, what.operands[0].dtype))
        module._sizes, module._names = sizes, []
        for row in what.operands:
            if row.kind == "param":
                name = row.name + "_" * hasattr(module, row.name)
                shape = what.shape(row, _Sizes(0, 0, None, axes))
                weight = torch.empty(shape, dtype=dtype, device=device)
                module.register_parameter(name, torch.nn.Parameter(weight))
                module._names.append(name)

    def reset(self, module: torch.nn.Module) -> None:
        what, axes = self.of_sizes(module._sizes)
        rows = [row for row in what.operands if row.kind == "param"]
        with torch.no_grad():
            for name, row, tree in zip(module._names, rows, what.starts):
                weight = getattr(module, name)
                count = weight.numel() // (1 + row.complex)
                value = _Start(count, axes, {}).value(tree)
                if row.complex:
                    value = torch.view_as_real((value + 0j).resolve_conj())
                weight.copy_(value.expand(count, *(2,) * row.complex).reshape(weight.shape))

    def with_parameters(self, module: torch.nn.Module, *given) -> _Operands:
        """Operands: parameters stand between tokens and states."""
        first = self.wide[0]
        return *given[:first], *[getattr(module, name) for name in module._names], *given[first:]


# ---- starts of parameters ------------------------------------------------------------------------------------------------
# Trees of the manifest (compiler/graph/start_json.c), in double precision whatever the parameter
# has, in one row.


def _uniform(count: int, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return low + (high - low) * torch.rand(count, dtype=torch.float64)


def _loguniform(count: int, low: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
    return torch.exp(_uniform(count, torch.log(low), torch.log(high)))


def _normal(count: int, mean: torch.Tensor, deviation: torch.Tensor) -> torch.Tensor:
    return mean + deviation * torch.randn(count, dtype=torch.float64)


def _legs(size: int) -> tuple:
    """HiPPO-LegS: imaginary parts of its eigenvalues, from the smallest above 0, then the same
    below, and the lengths of its input along their eigenvectors."""
    odd = 2 * torch.arange(size, dtype=torch.float64) + 1
    product = torch.outer(odd.sqrt(), odd.sqrt()) / 2
    values = torch.linalg.eigvalsh(1j * (torch.triu(product, 1) - torch.tril(product, -1))).flip(0)
    first = values[:(size + 1) // 2].flip(0)
    imaginary = torch.cat([first, -first[size % 2:]])
    return imaginary, 1 / (odd / (odd * odd + 4 * imaginary[:, None] ** 2)).sum(1).sqrt()


_DRAWS = {"uniform": _uniform, "loguniform": _loguniform, "normal": _normal}
_PATTERNS = {  # by the positions of entries and whole numbers
    "index": lambda at, stride, size: at // stride % size,
    "identity": lambda at, columns: at // columns == at % columns,
    "tap": lambda at, width: at % width == width - 1,
    "legs_imag": lambda at, stride, size, all: _legs(all)[0][at // stride % size],
    "legs_input": lambda at, stride, size, all: _legs(all)[1][at // stride % size],
}
_ELEMENTWISE = {  # where torch has another name
    "cabs": torch.abs,
    "im": torch.imag,
    "inv_softplus": lambda x: torch.log(torch.expm1(x)),
    "log_sigmoid": torch.nn.functional.logsigmoid,
    "re": torch.real,
    "stop_gradient": lambda x: x,
    "where": lambda condition, a, b: torch.where(condition != 0, a, b),
}


class _Start:
    """What the entries of a parameter start from. sizes: of axes, by name; drawn: the draws of
    other parameters, by place."""

    def __init__(self, count: int, sizes: dict, drawn: dict):
        self.count, self.sizes, self.drawn = count, sizes, drawn
        self.own: dict = {}  # a draw that is used twice is drawn once

    def value(self, tree) -> torch.Tensor:
        if not isinstance(tree, list):  # None: nothing says how it starts
            number = self.sizes[tree] if isinstance(tree, str) else tree or 0
            return torch.tensor(number, dtype=torch.float64)
        name, *operands = tree
        if name == "weight":
            return self.drawn[tuple(operands)]
        if name in _DRAWS:
            if operands[0] not in self.own:
                self.own[operands[0]] = _DRAWS[name](self.count, *map(self.value, operands[1:]))
            return self.own[operands[0]]
        if name in _PATTERNS:
            numbers = [int(self.value(operand)) for operand in operands]
            return _PATTERNS[name](torch.arange(self.count), *numbers).double()
        if name == "ipow":
            return self.value(operands[0]) ** operands[1]
        function = _ELEMENTWISE.get(name) or getattr(torch, name, None)
        result = (function or getattr(torch.nn.functional, name))(*map(self.value, operands))
        return result.double() if result.dtype is torch.bool else result


# ---- layers and models ---------------------------------------------------------------------------------------------------
# The graph of the manifest (compiler/graph/json.c), operation by operation. A tensor of it is a
# row of numbers for each token: [batch, time, numbers], of a step [batch, numbers].


def _types_of(module: torch.nn.Module, tensor: torch.Tensor) -> tuple:
    """The types of a module's tokens and of all else: that of its parameters where the library has
    it, else its first."""
    parameters = list(module.parameters())
    dtype = parameters[0].dtype if parameters else tensor.dtype
    dtype = dtype if dtype in _TYPES else _TYPES[0]
    return dtype, _wide(dtype)


def _weight_of(module: torch.nn.Module, path: tuple) -> torch.Tensor:
    """A parameter by its public name: layers, 0, in_proj, weight."""
    *folders, name = path
    for folder in folders:  # quickly, but where something is wrapped around it
        module = module._modules.get(folder) or getattr(module, folder)
    return getattr(module, name)


class _Port(NamedTuple):
    """A tensor of the graph, and the axes that it has in place of its row."""

    tensor: int
    axes: tuple
    name: str = ""

    def to_row(self, tensor: torch.Tensor, leading: int) -> torch.Tensor:
        return tensor.flatten(leading) if self.axes else tensor.unsqueeze(-1)

    def from_row(self, row: torch.Tensor) -> torch.Tensor:
        if len(self.axes) > 1:
            return row.unflatten(-1, self.axes)
        return row if self.axes else row.squeeze(-1)


class _Use(NamedTuple):
    """Numbers of a parameter in a shape."""

    path: tuple
    part: Optional[tuple]  # the first, and the one behind the last; None: all
    shape: tuple  # (): the parameter's own

    def of(self, module: torch.nn.Module) -> torch.Tensor:
        weight = _weight_of(module, self.path)
        if self.part:
            weight = weight.flatten()[self.part[0]:self.part[1]]
        return weight.reshape(self.shape) if self.shape else weight


class _RowOp(NamedTuple):
    """A linear operation, or the embed of tokens: what it makes, and parts of that, are tensors."""

    input: Optional[int]  # None: tokens
    row: int
    parts: list  # tensor, its first number in the row, the one behind its last
    uses: list


class _CallOp(NamedTuple):
    """A call of a recurrence."""

    functions: _Functions
    inputs: list
    outputs: list
    uses: list
    states: list


class _Graph:
    """A layer or model: what its module calls."""

    def __init__(self, graph: dict):
        self.name, self.tensors, self.states = graph["name"], graph["tensors"], graph["states"]
        self.parameters = graph["parameters"]
        self.paths = [tuple(parameter["name"].split(".")) for parameter in self.parameters]
        self.inputs = [self.read_port(port) for port in graph.get("inputs", ())]
        self.outputs = ([self.read_port(port) for port in graph["outputs"]] if self.inputs
                        else [_Port(graph["logits"], (graph["vocabulary"],))])
        left_out = ("loss", "embed") if self.inputs else ("loss",)  # a layer's inputs are given
        self.ops = [self.read_call(op) if op["op"] == "call" else self.read_row(op)
                    for op in graph["ops"] if op["op"] not in left_out]

    def read_port(self, port: dict) -> _Port:
        axes = tuple(size for _, size in port["axes"]) + (2,) * port["complex"]
        return _Port(port["tensor"], axes, port["name"])

    def read_use(self, use: list, shape: tuple) -> _Use:
        parameter, first = use
        own, last = tuple(self.parameters[parameter]["shape"]), first + math.prod(shape)
        part = None if first == 0 and last == math.prod(own) else (first, last)
        return _Use(self.paths[parameter], part, shape if shape != own else ())

    def read_row(self, op: dict) -> _RowOp:
        source, row = (op["in"][0], op["row"]) if op["in"] else (None, op["out"][0])
        _, _, start, count, _ = self.tensors[row]
        parts = [(tensor, *self.tensors[tensor][2:4]) for tensor in op["out"] if tensor != row]
        parts = [(tensor, at - start, at - start + size) for tensor, at, size in parts]
        if source is None:
            elements = math.prod(self.parameters[op["use"][0][0]]["shape"])
            shapes = [(elements // count, count)]
        else:
            shapes = [(count, self.tensors[source][3]), (count,)]
        return _RowOp(source, row, parts, list(map(self.read_use, op["use"], shapes)))

    def read_call(self, op: dict) -> _CallOp:
        functions = _functions[_manifest["program"]["kernels"][op["kernel"]]]
        what = functions.family[0]

        def shapes(rows, kind):
            leading = 2 if kind == "token" else 0
            sizes = _Sizes(0, 0, None, what.axes)
            return [what.shape(row, sizes)[leading:] for row in rows if row.kind == kind]

        return _CallOp(functions, list(map(_Port, op["in"], shapes(what.operands, "token"))),
                       list(map(_Port, op["out"], shapes(what.results, "token"))),
                       list(map(self.read_use, op["use"], shapes(what.operands, "param"))),
                       [self.states[at] for at in op["states"]])

    def add_parameters(self, module: torch.nn.Module, device, dtype) -> None:
        for parameter, (*folders, name) in zip(self.parameters, self.paths):
            folder = module
            for part in folders:
                if part not in folder._modules:
                    folder.add_module(part, torch.nn.Module())
                folder = folder._modules[part]
            weight = torch.empty(parameter["shape"], dtype=dtype or _wide(_TYPES[0]), device=device)
            folder.register_parameter(name, torch.nn.Parameter(weight))

    def reset(self, module: torch.nn.Module) -> None:
        """Draws every parameter anew; first what the starts of other parameters ask for."""
        parts = {(at, i): part for at, parameter in enumerate(self.parameters)
                 for i, part in enumerate(parameter["parts"])}
        starts = json.dumps([part["start"] for part in parts.values()])
        drawn: dict = {}
        for place in re.findall(r'\["weight", (\d+), (\d+)\]', starts):
            place = tuple(map(int, place))
            if place not in drawn:
                part = parts[place]
                drawn[place] = _Start(part["count"], {}, {}).value(part["default"])
        with torch.no_grad():
            for place, part in parts.items():
                first, count, tree = part["first"], part["count"], part["start"]
                own = place in drawn and tree == part["default"]
                value = drawn[place] if own else _Start(count, {}, drawn).value(tree)
                weight = _weight_of(module, self.paths[place[0]])
                weight.view(-1)[first:first + count].copy_(value)

    def run(self, module: torch.nn.Module, given: list, states: Optional[dict], offsets=None,
            step: bool = False) -> tuple:
        """given: tokens, or the inputs of a layer. Logits or outputs, and the states behind."""
        leading = 1 if step else 2
        dtype, wide = _types_of(module, given[0])
        states, behind, rows = {} if states is None else states, {}, {}
        self.check_states(states)
        for port, tensor in zip(self.inputs, given):
            self.check(port, tensor, leading)
            rows[port.tensor] = port.to_row(tensor, leading)
        for op in self.ops:
            weights = [use.of(module) for use in op.uses]
            if isinstance(op, _CallOp):
                operands = [port.from_row(rows[port.tensor]) for port in op.inputs]
                operands += [weight.to(wide) for weight in weights]
                operands += [self.start(module, state, states, wide, given[0], offsets)
                             for state in op.states]
                results = op.functions.step(operands) if step else op.functions(operands, offsets)
                for port, result in zip(op.outputs, results):
                    rows[port.tensor] = port.to_row(result, leading)
                for state, result in zip(op.states, results[len(op.outputs):]):
                    behind[state["name"]] = result
            else:
                if op.input is None:
                    row = torch.nn.functional.embedding(given[0], weights[0]).to(dtype)
                else:
                    weights = [weight.to(dtype) for weight in weights]
                    row = torch.nn.functional.linear(rows[op.input], *weights)
                rows[op.row] = row
                for tensor, first, last in op.parts:
                    rows[tensor] = row[..., first:last]
        return *[port.from_row(rows[port.tensor]) for port in self.outputs], behind

    def check(self, port: _Port, tensor: torch.Tensor, leading: int) -> None:
        if tensor.dim() != leading + len(port.axes) or tuple(tensor.shape[leading:]) != port.axes:
            listed = ", ".join(["batch", "time"][:leading] + [str(size) for size in port.axes])
            raise ValueError(f"{self.name}: {port.name}: expected shape [{listed}], found "
                             f"{list(tensor.shape)}")

    def check_states(self, states: dict) -> None:
        """A state that is given under another name would start as if none were given."""
        if not isinstance(states, dict):
            raise TypeError(f"{self.name}: states: expected a dict of tensors, found "
                            f"{type(states).__name__}")
        names = [state["name"] for state in self.states]
        for name in states:
            if name not in names:
                there = ", ".join(names[:4] + [".."] * (len(names) > 4)) or "none"
                raise ValueError(f"{self.name}: states: expected {there}, found {name}")

    def start(self, module: torch.nn.Module, state: dict, states: dict, dtype: torch.dtype,
              tokens: torch.Tensor, offsets) -> Optional[torch.Tensor]:
        """What sequences start from: the state that is handed over, else the learned one for each
        of them, else None: the library knows."""
        found = states.get(state["name"])
        if found is not None or state["learned"] < 0:
            return found
        learned = _weight_of(module, self.paths[state["learned"]]).to(dtype)
        if "begin" in state:
            learned = learned + self.begin(module, state["begin"], state, learned)
        entries = tokens.shape[0] if offsets is None else offsets.shape[0] - 1
        return learned.expand(entries, *learned.shape)

    def begin(self, module: torch.nn.Module, begin: dict, state: dict, like: torch.Tensor):
        """What a state that is not learned starts from: a number, or numbers of a parameter."""
        if "number" in begin:
            number = begin["number"] if state["complex"] else begin["number"][0]
            return torch.tensor(number, dtype=like.dtype, device=like.device)
        parameter, first = begin["use"]
        numbers = _weight_of(module, self.paths[parameter]).to(like.dtype).reshape(-1)[first:]
        last = (1,) * state["complex"]
        return numbers.as_strided(like.shape, (*begin["strides"], *last))
