"""causal_conv1d_fn and causal_conv1d_update, which 22 models call: std.ops.causal_conv1d."""
from .kernels import element_type, kernel, library, packing, parameter, state_type
from .registry import Unsupported, function

_LONGEST = 4
_SILU = ("silu", "swish")


def convolve(x, weight, bias, activation=None, history=None, packed=None):
    """The convolution of x [batch, time, D] with weight [D, W], and the last W - 1 steps [batch, W - 1, D]."""
    run, rest = _kernel(x, weight, bias, activation, "")
    if packed is None:
        y, tail = run(*rest, history)
    else:
        y, tail = run(packed.join(rest[0]), *rest[1:], history, packed.offsets)
        y = y.reshape(x.shape)
    return y.to(x.dtype), tail


def needs(x, weight):
    """The library of a convolution."""
    width = weight.shape[-1]
    if not 2 <= width <= _LONGEST:
        raise Unsupported(f"expected a convolution of 2 to {_LONGEST} steps, found {width}")
    return library("causal_conv1d", element_type(x, weight), W=width)


def _kernel(x, weight, bias, activation, ending):
    """The kernel and its operands."""
    file, dtype, sizes = needs(x, weight)
    if activation is not None and activation not in _SILU:
        raise Unsupported(f"expected the activation silu or None, found {activation!r}")
    name = "causal_conv1d_silu" if activation else "causal_conv1d"
    held = state_type(dtype)
    operands = x.to(dtype), weight.to(held), parameter(bias, weight.shape[:1], held)
    return kernel(file, name + ending, dtype, **dict(sizes)), operands


@function("causal_conv1d_fn")
def causal_conv1d_fn(hidden_states, weight, bias=None, activation=None, seq_idx=None, cu_seqlens=None, **_):
    """hidden_states and the result [batch, D, time], weight [D, W], bias [D]."""
    x = hidden_states.transpose(1, 2)
    return convolve(x, weight, bias, activation, packed=packing(*x.shape[:2], seq_idx, cu_seqlens))[0].transpose(1, 2)


@function("causal_conv1d_update")
def causal_conv1d_update(hidden_states, conv_state, weight, bias=None, activation=None):
    """The same for the next steps of a text; conv_state [batch, D, at least W - 1] holds the last steps and is updated."""
    x = hidden_states.transpose(1, 2)
    kept, wanted = conv_state.shape[-1], weight.shape[-1] - 1
    if kept < wanted:
        raise Unsupported(f"expected a conv_state of at least {wanted} steps, found {kept}")
    history = conv_state[..., kept - wanted:].transpose(1, 2).to(state_type(x.dtype))
    if x.shape[1] == 1:
        run, rest = _kernel(x[:, 0], weight, bias, activation, "_step")
        y = run(*rest, history).y.to(x.dtype)[:, None]
    else:
        y, _ = convolve(x, weight, bias, activation, history)
    conv_state.copy_(_joined(conv_state, hidden_states)[..., -kept:])
    return y.transpose(1, 2)


def _joined(conv_state, hidden_states):
    import torch
    return torch.cat([conv_state, hidden_states.to(conv_state.dtype)], -1)
