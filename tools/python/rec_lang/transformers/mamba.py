"""Mamba's functions: selective_scan_fn, selective_state_update and mamba_inner_fn, by std.ops.mamba_selective_scan.

The files of Mamba, Falcon-Mamba, Jamba and Zamba call them.
"""
import torch.nn.functional as F

from . import convolution
from .convolution import convolve
from .kernels import element_type, kernel, library, number, parameter, state_type, together
from .registry import Unsupported, function


def scan(x, dt, A, B, C, D=None, z=None, dt_bias=None, dt_softplus=False, state=None, step=False):
    """Mamba's scan: the outputs and the last state [batch, G * E, N].

    x, dt, z [batch, time, G * E], B, C [batch, time, G, N], A [G * E, N], D, dt_bias [G * E]; for a step without time.
    """
    groups, width = B.shape[-2], x.shape[-1] // B.shape[-2]
    dtype = element_type(x, dt, B, C, z)
    held = state_type(dtype)

    def cut(tensor, axis=-1):
        return tensor.to(dtype).unflatten(axis, (groups, width))

    operands = [cut(x), cut(dt), B.to(dtype), C.to(dtype)] + ([] if z is None else [cut(z)])
    operands += [A.to(held).unflatten(0, (groups, width)), parameter(dt_bias, (groups, width), held),
                 parameter(D, (groups, width), held), number(bool(dt_softplus), held)]
    if state is not None:
        operands.append(state.to(held).unflatten(1, (groups, width)))
    name = "mamba_selective_scan" if z is None else "mamba_selective_scan_gated"
    y, last = kernel("mamba_selective_scan", name + ("_step" if step else ""), dtype, N=A.shape[-1])(*operands)
    return y.flatten(-2).to(x.dtype), last.flatten(1, 2)


def _tokens(name, tensor):
    """B or C of selective_scan_fn, [batch, N, time] or [batch, G, N, time], as the kernel reads it."""
    if tensor.dim() == 3:
        return tensor.transpose(1, 2).unsqueeze(2)
    if tensor.dim() != 4:
        raise Unsupported(f"expected {name} [batch, groups, N, time] or [batch, N, time], found {list(tensor.shape)}")
    return tensor.permute(0, 3, 1, 2)


@function("mamba_selective_scan")
def selective_scan_fn(hidden_states, dt, A, B, C, D=None, z=None, delta_bias=None, delta_softplus=False, return_last_state=False,
                      **_):
    """hidden_states, dt, z and the result [batch, D, time], A [D, N]."""
    y, last = scan(hidden_states.transpose(1, 2), dt.transpose(1, 2), A, _tokens("B", B), _tokens("C", C), D,
                   None if z is None else z.transpose(1, 2), delta_bias, delta_softplus)
    y = y.transpose(1, 2)
    return (y, last) if return_last_state else y


@function("mamba_selective_state_update")
def selective_state_update(state, hidden_states, dt, A, B, C, D=None, dt_bias=None, dt_softplus=False, z=None, **_):
    """One step of a text: hidden_states, dt, z [batch, D], B, C [batch, N], A [D, N]; state [batch, D, N] is updated."""
    y, last = scan(hidden_states, dt, A, B.unsqueeze(-2), C.unsqueeze(-2), D, z, dt_bias, dt_softplus, state, step=True)
    state.copy_(last)
    return y


def _normed(x, weight, eps):
    """Of a weight that is longer than x the first entries count, as in mamba_ssm: Falcon-Mamba has one of ones for dt."""
    width = x.shape[-1]
    return x if weight is None else F.rms_norm(x, (width,), weight[:width], eps)


@function("mamba_inner_fn")
def mamba_inner_fn(xz, conv1d_weight, conv1d_bias, x_proj_weight, delta_proj_weight, out_proj_weight, out_proj_bias, A, B=None,
                   C=None, D=None, delta_bias=None, delta_softplus=True, b_rms_weight=None, c_rms_weight=None, dt_rms_weight=None,
                   b_c_dt_rms_eps=1e-6, **_):
    """The whole mixer behind its first projection, for training: xz [batch, 2 * D, time] to [batch, time, D of the model].

    As mamba_ssm has it: the activation is SiLU, and steps that a mask hides before the convolution are not hidden behind it.
    """
    if B is not None or C is not None:
        raise Unsupported("expected B and C to be made of the hidden states, found others")
    x, z = xz.transpose(1, 2).chunk(2, -1)
    conv1d_weight = conv1d_weight.squeeze(1)
    together(convolution.needs(x, conv1d_weight), library("mamba_selective_scan", element_type(x), N=A.shape[-1]))
    x, _ = convolve(x, conv1d_weight, conv1d_bias, "silu")
    rank, size = delta_proj_weight.shape[1], A.shape[-1]
    dt, B, C = F.linear(x, x_proj_weight).split([rank, size, size], -1)
    dt = F.linear(_normed(dt, dt_rms_weight, b_c_dt_rms_eps), delta_proj_weight)
    B = _normed(B, b_rms_weight, b_c_dt_rms_eps).unsqueeze(2)
    C = _normed(C, c_rms_weight, b_c_dt_rms_eps).unsqueeze(2)
    y, _ = scan(x, dt, A, B, C, D, z, delta_bias, delta_softplus)
    return F.linear(y, out_proj_weight, None if out_proj_bias is None else out_proj_bias.to(y.dtype))
