"""The recurrences of transformers' models on a CPU, by kernels of rec.

    import rec_lang.transformers

    rec_lang.transformers.patch()            # from now on, for all models
    rec_lang.transformers.prepare(model)     # compiles its kernels at once; else each is compiled when it is met
    rec_lang.transformers.unpatch()

A model calls a few functions for its convolutions and scans (`functions()` lists them). patch() puts rec's in their place. A call
that rec has no kernel for goes to transformers' function, and a warning says why.

flash-linear-attention's own models and functions: rec_lang.transformers.flash_linear_attention.
"""
from . import convolution, linear_attention, mamba, mamba2  # noqa: F401  they register their functions
from .prepare import prepare
from .registry import Unsupported, function, functions, patch, unpatch

__all__ = ["Unsupported", "function", "functions", "patch", "prepare", "unpatch"]
