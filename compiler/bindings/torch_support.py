"""The part of the Python files for PyTorch that does not depend on the recurrence; see common.py."""
import torch
from torch.autograd import forward_ad as _forward_ad

from common import (_ABI, _BROADCAST, _choose, _CUDA, _DTYPES, _fail, _HASH, _HOST, _LAUNCH, _launch, _NAME, _or_type, _Recurrence,
                    _workspace, Optional)

# ---- tensors of torch ----------------------------------------------------------------------------------------------------

_TYPES = tuple(getattr(torch, name) for name in _DTYPES)  # of tokens


def _rows(tensor: torch.Tensor, leading: int = 2):
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


def _widened(tensor: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """A parameter or a state of 16 bits in the type that it has in the library; its gradient has 16 bits again."""
    return tensor.to(_wide(tokens.dtype)) if tensor.dtype in (torch.bfloat16, torch.float16) else tensor


def _narrowed(offsets: torch.Tensor) -> torch.Tensor:
    """Offsets of 64 bits in 32. What does not fit becomes a number that the library refuses."""
    return offsets.clamp(-1, 2**31 - 1).to(torch.int32)


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _refuse(what: _Recurrence, operands: tuple, cu_seqlens=None, step: bool = False) -> None:
    """Says what is wrong with the operands of a call."""
    given = [at for at, row in enumerate(what.operands) if operands[at] is not None or not row.optional]
    for row, tensor in [(what.operands[at], operands[at]) for at in given]:
        if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.strided:
            raise TypeError(what.wrong(row, f"expected a dense tensor, found {type(tensor).__name__}"))
    what = _choose(what.family, _name_of(operands[0].dtype), operands)
    device = operands[0].device
    for row, tensor in [(what.operands[at], operands[at]) for at in given]:
        dtype = getattr(torch, row.dtype)
        if tensor.dtype is not dtype:
            raise TypeError(what.wrong(row, f"expected {dtype}, found {tensor.dtype}; hand over {row.name}.to({dtype})"
                                            f"{_or_type(_name_of(tensor.dtype))}"))
        if tensor.device != device:
            raise ValueError(what.wrong(row, f"expected a tensor on {device}, where {what.operands[0].name} is, found one on "
                                             f"{tensor.device}"))
    if cu_seqlens is not None and getattr(cu_seqlens, "dtype", None) is not torch.int32:
        found = cu_seqlens.dtype if isinstance(cu_seqlens, torch.Tensor) else type(cu_seqlens).__name__
        raise TypeError(f"{what.name}: cu_seqlens: expected a tensor of torch.int32 or torch.int64, found {found}")
    if cu_seqlens is not None and cu_seqlens.device != device:
        raise ValueError(f"{what.name}: cu_seqlens: expected a tensor on {device}, found one on {cu_seqlens.device}")
    what.read(operands, cu_seqlens, step)
    raise ValueError(f"{what.name}: expected operands as its docstring has them, found "
                     f"{[None if tensor is None else tuple(tensor.shape) for tensor in operands]}")


def _is_on(device: torch.device, tensors: tuple) -> bool:
    for tensor in tensors:
        if tensor is not None and tensor.device != device:
            return False
    return True


# ---- calls ---------------------------------------------------------------------------------------------------------------

_FORWARD, _STEP, _BACKWARD = 0, 1, 2  # members of _Room


def _run(what: _Recurrence, entry, need: int, key: tuple, arguments: bytes, tensor: torch.Tensor, saved=None) -> None:
    """Calls the library, on the device of `tensor`."""
    if not tensor.is_cpu:
        return _run_cuda(what, entry, need, key, arguments, tensor.device, saved)
    room = what.rooms.get(key) or what.room(key, arguments)
    address = _workspace.address if _workspace.size >= room[need] else _workspace.grow(room[need])
    if saved is None:
        at = size = 0
    else:
        at, size = saved.data_ptr(), saved.numel()
    status = entry(arguments, _LAUNCH.pack(_LAUNCH.size, _ABI[0], _ABI[1], _HOST, 0, 0, torch.get_num_threads(), 0, 0, address,
                                           _workspace.size, at, size, 0))
    if status:
        _fail(status)


def _run_cuda(what: _Recurrence, entry, need: int, key: tuple, arguments: bytes, device: torch.device, saved) -> None:
    """Starts the kernels on the current stream, in the context of torch. Its allocator keeps the workspace for that stream."""
    with torch.cuda.device(device):
        key = (*key, device.index)
        room = what.rooms.get(key) or what.room(key, arguments, _CUDA, device.index)
        workspace = torch.empty(room[need], dtype=torch.uint8, device=device)
        at, size = (0, 0) if saved is None else (saved.data_ptr(), saved.numel())
        stream = torch.cuda.current_stream(device).cuda_stream
        status = entry(arguments, _launch(0, workspace.data_ptr(), room[need], at, size, _CUDA, device.index, stream))
    if status:
        _fail(status)


def _aligned(saved: torch.Tensor) -> torch.Tensor:
    """What forward saved may come back as a copy that begins anywhere."""
    return saved if saved.data_ptr() % 64 == 0 else saved.clone()


def _floor_div(a, b):
    return a // b


def _ceil_div(a, b):
    return (a + b - 1) // b


def _align(a, b):
    return (a + b - 1) // b * b


# ---- operators -----------------------------------------------------------------------------------------------------------

_AUTOCAST = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCPU) | torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)


def _type_for(tensor: torch.Tensor) -> torch.dtype:
    """The number type of a call: that of its first tensor, or what autocast makes of it."""
    dtype, device = tensor.dtype, tensor.device.type
    if device in ("cpu", "cuda") and torch.is_autocast_enabled(device) and dtype.is_floating_point and dtype is not torch.float64:
        wanted = torch.get_autocast_dtype(device)
        return wanted if wanted in _TYPES else torch.float32 if torch.float32 in _TYPES else dtype
    return dtype


def _cast(tensor, dtype: torch.dtype):
    """What autocast makes of an operand."""
    if tensor is None or not tensor.is_floating_point() or tensor.dtype is torch.float64:
        return tensor
    return tensor.to(dtype)


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


def _needs_gradient(arguments: tuple) -> bool:
    for argument in arguments:
        if isinstance(argument, torch.Tensor) and argument.requires_grad:
            return True
    return False


def _refuse_tangents(name: str, operands: tuple) -> None:
    """Derivatives forward: without this their results would be zero."""
    for operand in operands:
        if operand is not None and _forward_ad.unpack_dual(operand).tangent is not None:
            raise RuntimeError(f"{name}: expected derivatives by backward, found forward ones (jvp), which the library does not have; "
                               "torch.autograd.grad and torch.autograd.functional.jacobian go backward")


class _Once(torch.autograd.Function):
    """A backward whose results cannot be differentiated again, and say so."""

    @staticmethod
    def forward(ctx, operator, name, *arguments):
        ctx.name = name
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)

    @staticmethod
    def backward(ctx, *cotangents):
        raise RuntimeError(f"{ctx.name}: expected first derivatives, found a second one, which the library does not have")


def _on_one_device(what: _Recurrence, run):
    """For CUDA: torch comes here where any tensor is on a GPU. (It runs what is for CPU where all are on the CPU.)"""

    def checked(*arguments):
        if not _is_on(arguments[0].device, [x for x in arguments if isinstance(x, torch.Tensor)]):
            _refuse(what, arguments[:len(what.operands)])
        return run(*arguments)

    return checked


def _operator(what: _Recurrence, name: str, schema: str, run, fake, autograd=None, autocast=None):
    """Defines an operator for CPU and CUDA; returns it."""
    _operators.define(name + schema)
    _operators.impl(name, run, "CPU")
    _operators.impl(name, _on_one_device(what, run), "CUDA")
    full = f"{_operators.ns}::{name}"
    torch.library.register_fake(full, fake, lib=_operators)
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


def _picking(functions: tuple, pick, count: int, step: bool):
    """The function of the variant that a call takes. `count`: operands."""
    return lambda *arguments: functions[pick(*arguments[:count], step)](*arguments)


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
