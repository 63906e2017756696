"""Triton's interpreter for the kernels of flash-linear-attention. Import this module before torch and triton."""
import builtins
import os
import sys

os.environ["TRITON_INTERPRET"] = "1"


def run_triton_on_the_host():
    """Triton's interpreter, for kernels that were tuned on a GPU: the first configuration of each is taken, and `range` inside a
    kernel counts in tensors, for kernels call methods of what it yields. `gather` is that of the moment of the call, which the
    interpreter puts in the place of Triton's while a kernel runs."""
    import triton.language as language
    import triton.runtime.autotuner as tuner
    import triton.runtime.interpreter as interpreter
    tuner.Autotuner._bench = lambda self, *arguments, config=None, **settings: [0.0, 0.0, 0.0]
    running, call = [False], interpreter.GridExecutor.__call__

    def run(self, *arguments, **settings):
        running[0] = True
        try:
            return call(self, *arguments, **settings)
        finally:
            running[0] = False

    class Range:
        def __new__(cls, *arguments):
            numbers = builtins.range(*(int(getattr(a, "item", lambda a=a: a)()) for a in arguments))
            return (interpreter._implicit_cvt(i) for i in numbers) if running[0] else numbers

    def gather(*arguments, **settings):
        return language.gather(*arguments, **settings)

    interpreter.GridExecutor.__call__ = run
    import fla.models
    for name, module in list(sys.modules.items()):
        if name.startswith(("fla.ops.", "fla.modules.")):
            module.range = Range
            if hasattr(module, "gather"):
                module.gather = gather
