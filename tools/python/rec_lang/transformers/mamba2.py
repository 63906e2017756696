"""Mamba-2's functions: mamba_chunk_scan_combined, selective_state_update and mamba_split_conv1d_scan_combined, by
std.ops.mamba_chunk_scan and std.ops.gated_rms_norm.

The files of Mamba-2, Bamba, Falcon-H1, GraniteMoeHybrid, Nemotron-H and Zamba2 call them.
"""
import inspect
import math

import torch.nn.functional as F

from . import convolution, mamba
from .convolution import convolve
from .kernels import element_type, kernel, library, number, packing, parameter, state_type, together
from .registry import Unsupported, function

_NO_LIMIT = (0.0, math.inf)


def scan(x, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, dt_limit=_NO_LIMIT, state=None, packed=None, step=False):
    """Mamba-2's scan: the outputs and the last states [batch, heads, P, N].

    x [batch, time, heads, P], dt [batch, time, heads], B, C [batch, time, groups, N], A, D, dt_bias [heads]; for a step without
    time.
    """
    heads, groups = x.shape[-2], B.shape[-2]
    split = (groups, heads // groups)
    dtype = element_type(x, dt, B, C)
    held = state_type(dtype)
    operands = [x.to(dtype).unflatten(-2, split), dt.to(dtype).unflatten(-1, split), B.to(dtype), C.to(dtype)]
    if packed is not None:
        operands = [packed.join(tensor) for tensor in operands]
        state = packed.states(state)
    operands += [parameter(tensor, split, held) for tensor in (A, dt_bias, D)]
    operands += [number(value, held) for value in (bool(dt_softplus), *dt_limit)]
    operands.append(None if state is None else state.to(held).unflatten(1, split))
    if packed is not None:
        operands.append(packed.offsets)
    run = kernel("mamba_chunk_scan", "mamba_chunk_scan" + ("_step" if step else ""), dtype, P=x.shape[-1], N=B.shape[-1])
    y, last = run(*operands)
    last = last.flatten(1, 2)
    return y.reshape(x.shape).to(x.dtype), last if packed is None else packed.finals(last)


def _skip(y, x, D):
    """Adds D x for a D [heads, P]."""
    return y if D is None or D.dim() == 1 else y + x * D


@function("mamba2_chunk_scan")
def mamba_chunk_scan_combined(hidden_states, dt, A, B, C, chunk_size=None, D=None, dt_bias=None, initial_states=None,
                              dt_softplus=False, dt_limit=_NO_LIMIT, return_final_states=False, z=None, seq_idx=None,
                              cu_seqlens=None, **_):
    """hidden_states [batch, time, heads, P]; rec chooses its own chunk_size."""
    packed = packing(*hidden_states.shape[:2], seq_idx, cu_seqlens)
    y, last = scan(hidden_states, dt, A, B, C, D if D is not None and D.dim() == 1 else None, dt_bias, dt_softplus, dt_limit,
                   initial_states, packed)
    y = _skip(y, hidden_states, D)
    if z is not None:
        y = y * F.silu(z)
    return (y, last) if return_final_states else y


def _of_heads(tensor, axes):
    """The value of each head, where its last axes are spread (`expand`) or of size 1; else None."""
    for _ in range(axes):
        if tensor.shape[-1] != 1 and tensor.stride(-1) != 0:
            return None
        tensor = tensor[..., 0]
    return tensor


@function("mamba2_selective_state_update")
def selective_state_update(state, hidden_states, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None, **_):
    """One step of a text: hidden_states, dt, z [batch, heads, P], A [heads, P, N], D, dt_bias [heads, P], B, C [batch, groups, N];
    state [batch, heads, P, N] is updated."""
    tied = [None if tensor is None else _of_heads(tensor, axes) for tensor, axes in ((dt, 1), (A, 2), (D, 1), (dt_bias, 1))]
    if all((one is None) == (tensor is None) for one, tensor in zip(tied, (dt, A, D, dt_bias))):
        dt, A, D, dt_bias = tied
        y, last = scan(hidden_states, dt, A, B, C, D, dt_bias, dt_softplus, state=state, step=True)
    else:
        flat = [None if tensor is None else tensor.flatten(-2) for tensor in (hidden_states, dt, D, dt_bias)]
        y, last = mamba.scan(flat[0], flat[1], A.flatten(0, 1), B, C, flat[2], None, flat[3], dt_softplus, state.flatten(1, 2),
                             step=True)
        y = y.view(hidden_states.shape)
    state.copy_(last.view(state.shape))
    return y if z is None else y * F.silu(z)


def gated_norm(y, z, weight, eps, groups, norm_before_gate):
    """The root mean square norm of each group of y [.., width], gated by z: of y times silu(z), or the gate after the norm."""
    dtype, size = element_type(y, z), y.shape[-1] // groups
    held = state_type(dtype)
    # With the number of groups known, the kernel goes along the channels of a group, many at a time.
    run = kernel("gated_rms_norm", "rms_norm_gated" if norm_before_gate else "gated_rms_norm", dtype, G=groups, P=size)
    split = (groups, size)
    normed = run(y.to(dtype).unflatten(-1, split), z.to(dtype).unflatten(-1, split), weight.to(held).view(split), number(eps, held))
    return normed.flatten(-2).to(y.dtype)


def _norm_of(file):
    """Whether the gated norm of a modeling file goes over each group: most of those before transformers 5.23 know no groups."""
    norms = [value for name, value in vars(file).items() if name.endswith("RMSNormGated")]
    known = {word for norm in norms for word in inspect.signature(norm).parameters}
    return {"norm_has_groups": not norms or not known.isdisjoint(("group_size", "n_groups"))}


@function("mamba2_split_conv1d_scan_combined", ask=_norm_of)
def mamba_split_conv1d_scan_combined(zxbcdt, conv1d_weight, conv1d_bias, dt_bias, A, D, chunk_size=None, initial_states=None,
                                     dt_limit=_NO_LIMIT, return_final_states=False, activation="silu", rmsnorm_weight=None,
                                     rmsnorm_eps=1e-6, outproj_weight=None, outproj_bias=None, headdim=None, ngroups=1,
                                     norm_before_gate=True, seq_idx=None, cu_seqlens=None, norm_has_groups=True, **_):
    """The whole mixer behind its first projection, for training: zxbcdt [batch, time, 2 * inner + 2 * groups * N + heads].

    As mamba_ssm has it: steps that a mask hides before the convolution are not hidden behind it.
    """
    heads = A.shape[0]
    inner = heads * (D.shape[1] if D.dim() == 2 else headdim)
    channels = conv1d_weight.shape[0]
    if zxbcdt.shape[-1] != inner + channels + heads:
        raise Unsupported(f"expected zxbcdt of width {inner + channels + heads}, found {zxbcdt.shape[-1]}")
    packed = packing(*zxbcdt.shape[:2], seq_idx, cu_seqlens)
    z, xBC, dt = zxbcdt.split([inner, channels, heads], -1)
    size, groups = (channels - inner) // 2, ngroups if norm_has_groups else 1
    libraries = [convolution.needs(xBC, conv1d_weight),
                 library("mamba_chunk_scan", element_type(zxbcdt), P=inner // heads, N=size // ngroups)]
    if rmsnorm_weight is not None:
        libraries.append(library("gated_rms_norm", element_type(zxbcdt), G=groups, P=inner // groups))
    together(*libraries)
    xBC, _ = convolve(xBC, conv1d_weight, conv1d_bias, activation, packed=packed)
    x, B, C = xBC.split([inner, size, size], -1)
    x, B, C = x.unflatten(-1, (heads, -1)), B.unflatten(-1, (ngroups, -1)), C.unflatten(-1, (ngroups, -1))
    y, last = scan(x, dt, A, B, C, D if D.dim() == 1 else None, dt_bias, True, dt_limit, initial_states, packed)
    y = _skip(y, x, D).flatten(-2)
    if rmsnorm_weight is None:
        y = y * F.silu(z)
    else:
        y = gated_norm(y, z, rmsnorm_weight, rmsnorm_eps, groups, norm_before_gate)
    if outproj_weight is not None:
        y = F.linear(y, outproj_weight, outproj_bias)
    return (y, last) if return_final_states else y
