"""flash-linear-attention on rec's operators, on a CPU.

    from rec_lang.transformers import flash_linear_attention
    flash_linear_attention.patch()

Entry points whose backend flash-linear-attention looks up get a backend "rec"; the others are replaced in its modules. It works
before and after models are made. CUDA tensors go to flash-linear-attention's own kernels; a call on the CPU that rec has no
operator for raises Unsupported. The rest of its models (norms, convolutions, token shifts) is Triton as before: on a CPU, that
runs in Triton's interpreter (TRITON_INTERPRET=1).
"""
import functools
import importlib
import sys

import torch

from . import linear_attention

# Modules of fla.ops that define functions of linear_attention, and the operation whose registry looks up who computes it ("":
# the function has a registry of its own; None: nobody is looked up).
_FUNCTIONS = {
    "chunk_gated_delta_rule": ("gated_delta_rule.chunk", "gated_delta_rule"),
    "fused_recurrent_gated_delta_rule": ("gated_delta_rule.fused_recurrent", None),
    "chunk_kda": ("kda.chunk", ""),
    "fused_recurrent_kda": ("kda.fused_recurrent", None),
    "chunk_delta_rule": ("delta_rule.chunk", None),
    "fused_recurrent_delta_rule": ("delta_rule.fused_recurrent", None),
    "chunk_gla": ("gla.chunk", None),
    "fused_recurrent_gla": ("gla.fused_recurrent", None),
    "chunk_simple_gla": ("simple_gla.chunk", None),
    "fused_recurrent_simple_gla": ("simple_gla.fused_recurrent", ""),
    "chunk_rwkv6": ("rwkv6.chunk", None),
    "fused_recurrent_rwkv6": ("rwkv6.fused_recurrent", None),
    "chunk_dplr_delta_rule": ("generalized_delta_rule.dplr.chunk", "generalized_delta_rule.dplr"),  # chunk_rwkv7 calls it
    "fused_recurrent_rwkv7": ("rwkv7.fused_recurrent", None),
    "fused_mul_recurrent_rwkv7": ("rwkv7.fused_recurrent", None),
    "chunk_hgrn": ("hgrn.chunk", None),
    "fused_recurrent_hgrn": ("hgrn.fused_recurrent", None),
}
_is_on = False
_installed = False


def patch():
    """Makes rec compute what flash-linear-attention is asked for on a CPU. A second call changes nothing."""
    global _is_on, _installed
    _is_on = True
    if _installed:
        return
    _installed = True
    for name, (module, operation) in _FUNCTIONS.items():
        original = getattr(importlib.import_module(f"fla.ops.{module}"), name)
        if operation is None:
            _replace(original, getattr(linear_attention, name))
        else:
            _register(operation or original, name, getattr(linear_attention, name))


def unpatch():
    """Gives flash-linear-attention its functions back."""
    global _is_on
    _is_on = False


def _is_ours(arguments, words):
    return all(x.is_cpu for x in (*arguments, *words.values()) if isinstance(x, torch.Tensor))


def _register(entry_point, name, function):
    from fla.backends import BaseBackend, register

    class Rec(BaseBackend):
        backend_type = "rec"
        priority = 1

        def is_enabled(self):
            return _is_on

        def verify(self, function_name, *arguments, **words):
            return (True, None) if _is_ours(arguments, words) else (False, "rec is for tensors on the CPU")

    setattr(Rec, name, staticmethod(function))
    register(entry_point)(Rec)


def _replace(original, function):
    """Puts a function in the place of another wherever a module of flash-linear-attention has it."""

    @functools.wraps(original)
    def choose(*arguments, **words):
        return (function if _is_on and _is_ours(arguments, words) else original)(*arguments, **words)

    for path, module in list(sys.modules.items()):
        if path.partition(".")[0] == "fla":
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, choose)
