"""Kernels by name and size, and what the functions share: element types and packed sequences."""
import functools

import torch

import rec_lang

from .registry import Unsupported

_TYPES = torch.float32, torch.float64, torch.bfloat16, torch.float16


_modules = {}  # library -> module
_noted = None  # a list of libraries, while calls only say what they need


class Noted(Exception):
    """A call has said what it needs, and computes nothing."""


def library(file, dtype, **sizes):
    """std.ops.FILE for these sizes and this type of tokens."""
    return file, dtype, tuple(sorted(sizes.items()))


def together(*libraries):
    """Compiles those that are missing at once, before a function calls the first of them."""
    if _noted is not None:
        _noted.extend(libraries)
        return
    missing = [one for one in dict.fromkeys(libraries) if one not in _modules]
    if not missing:
        return
    calls = [{"source": f"std.ops.{file}", "dtype": dtype, "sizes": dict(sizes)} for file, dtype, sizes in missing]
    _modules.update(zip(missing, rec_lang.compile_all(calls)))


def kernel(file, name, dtype, **sizes):
    """The function `name` of std.ops.FILE for these sizes and this type of tokens. It is compiled at the first call."""
    wanted = library(file, dtype, **sizes)
    together(wanted)
    if _noted is not None:
        raise Noted
    return getattr(_modules[wanted], name)


def needs(call):
    """The libraries of a call, which is not made."""
    global _noted
    _noted = []
    try:
        call()
    except (Noted, Unsupported):
        pass
    finally:
        noted, _noted = _noted, None
    return noted


def element_type(*tensors):
    """The type that holds the tokens of all these tensors; None among them is passed over."""
    tensors = [tensor for tensor in tensors if tensor is not None]
    for tensor in tensors:
        if tensor.device.type != "cpu":
            raise Unsupported(f"expected tensors on the CPU, found one on {tensor.device}")
    dtype = functools.reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    if dtype not in _TYPES:
        raise Unsupported(f"expected floating-point tensors, found {dtype}")
    return dtype


def state_type(dtype):
    """The type of parameters and states beside tokens of this type."""
    return torch.float64 if dtype is torch.float64 else torch.float32


@functools.lru_cache(maxsize=None)
def number(value, dtype):
    """A parameter without axes."""
    return torch.tensor(float(value), dtype=dtype)


def parameter(tensor, shape, dtype):
    """A parameter of this shape; zeros for None."""
    return torch.zeros(shape, dtype=dtype) if tensor is None else tensor.to(dtype).reshape(shape)


class Packing:
    """Sequences that lie behind one another in the rows of a batch, as seq_idx or cu_seqlens says. Rows become one row.

    seq_idx [batch, time] holds the number of each step's sequence; cu_seqlens the offsets of the sequences of a single row.
    """

    def __init__(self, batch, time, seq_idx=None, cu_seqlens=None):
        if cu_seqlens is not None:
            if batch != 1:
                raise Unsupported(f"expected batch = 1 beside cu_seqlens, found {batch}")
            self.offsets = cu_seqlens.to(torch.int32)
            self.first = self.last = None
            return
        if tuple(seq_idx.shape) != (batch, time):
            raise Unsupported(f"expected seq_idx [{batch}, {time}], found {list(seq_idx.shape)}")
        begins = torch.ones(batch, time, dtype=torch.bool)
        begins[:, 1:] = seq_idx[:, 1:] != seq_idx[:, :-1]
        starts = begins.flatten().nonzero().squeeze(1)
        self.offsets = torch.cat([starts, starts.new_tensor([batch * time])]).to(torch.int32)
        number_of = begins.flatten().cumsum(0).view(batch, time) - 1
        self.first, self.last = number_of[:, 0], number_of[:, -1]  # the first and the last sequence of each row

    @staticmethod
    def join(tensor):
        """[batch, time, ..] as one row."""
        return tensor.reshape(1, -1, *tensor.shape[2:])

    def states(self, initial):
        """The state of each sequence, given one for each row: that of its first sequence."""
        if initial is None or self.first is None:
            return initial
        states = initial.new_zeros(len(self.offsets) - 1, *initial.shape[1:])
        return states.index_put((self.first,), initial)

    def finals(self, states):
        """The states that rows end with, given one for each sequence; for cu_seqlens, all of them."""
        return states if self.last is None else states[self.last]


def packing(batch, time, seq_idx, cu_seqlens):
    """A Packing, or None where each row is one sequence."""
    return None if seq_idx is None and cu_seqlens is None else Packing(batch, time, seq_idx, cu_seqlens)
