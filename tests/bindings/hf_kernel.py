"""A folder of --emit=hf-kernel: what it holds, and that it loads: by Hugging Face's `kernels` where that is installed, else as
`kernels` 0.17 imports it.

    hf_kernel.py FOLDER       which has what recc wrote for Two_Words-2.rec, a recurrence `decay`

Prints FAILED lines and `N passed, N failed`. Without torch the content alone is looked at.
"""
import importlib.util
import json
import os
import re
import sys
from pathlib import Path

from checks import check, finish

folder = Path(sys.argv[1])
variant = folder / "build" / "torch-cpu"
os.environ["HF_HUB_OFFLINE"] = "1"


def load(metadata):
    try:
        import kernels
    except ImportError:
        spec = importlib.util.spec_from_file_location(metadata["id"], variant / "__init__.py")
        module = sys.modules[metadata["id"]] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    return kernels.get_local_kernel(folder, backend="cpu")


check("the files of a kernel", sorted(os.listdir(variant)) == ["Two_Words_2.py", "__init__.py", "libTwo_Words_2.so", "metadata.json"])
metadata = json.loads((variant / "metadata.json").read_text())
check("the id is the name of a module", metadata["id"].isidentifier() and metadata["id"].startswith("Two_Words_2_"))
check("a name as kernels has them", metadata["name"] == "two-words-2" and re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", metadata["name"]))
check("a kernel for CPUs that needs nothing", metadata["backend"] == {"type": "cpu"} and metadata["python-depends"] == [])
check("a version and a licence, which kernels asks for", metadata["version"] == 1 and metadata["license"])
if importlib.util.find_spec("torch"):
    import torch
    kernel = load(metadata)
    x = torch.ones(1, 3, 2, requires_grad=True)
    y, h = kernel.decay(x)
    y.sum().backward()
    check("its recurrence computes", torch.equal(y[0, :, 0], torch.tensor([1.0, 1.5, 1.75])))
    check("its gradient", torch.equal(x.grad[0, :, 0], torch.tensor([1.75, 1.5, 1.0])))
finish()
