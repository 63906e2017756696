"""Wrong uses of what --emit=numpy, --emit=torch and --emit=jax write: each is an exception that says what to do, none a crash.

    wrong.py numpy|torch|jax FOLDER RECC   FOLDER/f64/recurrences.py, FOLDER/f32/recurrences.py; FOLDER/all/recurrences.py for
                                           f64, f32 and bf16, and for K = 4 and 6

Prints FAILED lines and `N passed, N failed`.
"""
import contextlib
import functools
import os
import re
import shlex
import shutil
import subprocess
import sys

from checks import check, finish, load

framework, folder, recc = sys.argv[1:4]


def wrong(what, kind, text, use):
    """`use` must raise an exception of this kind whose message has the text, a regular expression."""
    try:
        used = use()
        if framework == "jax":  # which may still be computing
            jax.block_until_ready(used)
        said = "nothing was raised"
    except Exception as mistake:
        said = f"{type(mistake).__name__}: {mistake}"
        if kind in [base.__name__ for base in type(mistake).__mro__] and re.search(text, str(mistake)):
            return check(what, True)
    check(f"{framework}, {what}: expected {kind} with {text!r}, found {said}", False)


if framework == "numpy":
    import numpy as np

    def zeros(shape, dtype="float64"):
        return np.zeros(shape, dtype)
elif framework == "jax":
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    import jax.numpy as jnp
    import numpy as np

    def zeros(shape, dtype="float64"):
        return jnp.zeros(shape, dtype)
else:
    import torch

    torch.set_num_threads(1)

    def zeros(shape, dtype="float64"):
        return torch.zeros(shape, dtype=getattr(torch, dtype))

library = load(folder + "/f64")
shapes = {"q": (2, 6, 3, 4), "k": (2, 6, 3, 4), "v": (2, 6, 3, 5), "gate": (2, 6, 3, 4), "h0_S": (2, 3, 4, 5)}
axes = {"q": "batch time H K", "k": "batch time H K", "v": "batch time H V", "gate": "batch time H K", "h0_S": "batch H K V"}
good = {name: zeros(shape) for name, shape in shapes.items()}
library.gla(**good)


def gla(**changed):
    return lambda: library.gla(**{**good, **changed})


for name, shape in shapes.items():
    words = axes[name].split()
    wrong(f"{name} with an axis too few", "ValueError", f"gla: {name}: expected 4 axes \\[{', '.join(words)[:5]}", gla(**{name: zeros(shape[1:])}))
    for at, axis in enumerate(words):
        changed = zeros(shape[:at] + (shape[at] + 1,) + shape[at + 1:])
        fixed = f".*{axis} is fixed when the library is compiled.*-D gla.{axis}={shape[at]},{shape[at] + 1}" if axis in "KV" else ""
        # Sizes that the first tensor tells are those that the next one is held to.
        place = "k" if name == "q" and axis not in "KV" else name
        wrong(f"{name} with another {axis}", "ValueError", f"gla: {place}: expected shape .*found \\[{fixed}", gla(**{name: changed}))
    wrong(f"{name} as float32", "TypeError", f"gla: {name}: expected (torch.)?float64, found .*float32.*--dtype", gla(**{name: zeros(shape, "float32")}))
    wrong(f"{name} as int64", "TypeError", f"gla: {name}: expected (torch.)?float64, found .*int64", gla(**{name: zeros(shape, "int64")}))
    if name != "h0_S":
        wrong(f"{name} as a list", "TypeError", f"{name}", gla(**{name: [1.0, 2.0]}))
        wrong(f"{name} as None", "TypeError", f"{name}", gla(**{name: None}))

# Parameters, lag buffers, computed axes, complex states.
shapes = {"class_": (2, 9, 3), "is_": (2, 9, 3, 2), "len_": (3,), "from_": (9,)}
words = {name: zeros(shape) for name, shape in shapes.items()}
for name, shape in [("len_", (4,)), ("from_", (3,)), ("h0_turned", (2, 3)), ("h0_turned", (2, 3, 3)), ("h0_class_lag", (2, 2, 3)),
                    ("h0_print", (2, 3)), ("is_", (2, 9, 3, 3))]:
    wrong(f"{name} {shape}", "ValueError", f"words: {name}: expected", lambda: library.words(**{**words, name: zeros(shape)}))

# Steps.
step = {name: zeros(shape) for name, shape in {"q": (2, 3, 4), "k": (2, 3, 4), "v": (2, 3, 5), "gate": (2, 3, 4)}.items()}
wrong("a step with an axis of time", "ValueError", r"gla: q: expected 3 axes \[batch, H, K\]", lambda: library.gla_step(**{**step, "q": good["q"]}))
wrong("a step of another batch", "ValueError", "gla: v: expected shape", lambda: library.gla_step(**{**step, "v": zeros((3, 3, 5))}))

# Packed sequences.
row = {name: zeros(shape) for name, shape in {"q": (1, 6, 3, 4), "k": (1, 6, 3, 4), "v": (1, 6, 3, 5), "gate": (1, 6, 3, 4)}.items()}


def offsets(values, dtype="int32"):
    if framework != "torch":
        return (np if framework == "numpy" else jnp).array(values, dtype)
    return torch.tensor(values, dtype=getattr(torch, dtype))


def packed(values, dtype="int32", **changed):
    return lambda: library.gla(**{**row, **changed}, cu_seqlens=offsets(values, dtype))


refused = "RuntimeError" if framework == "jax" else "RecError"  # by the library; XLA hands on its message
wrong("packed, batch 2", "ValueError", "expected batch = 1 with cu_seqlens, found 2", packed([0, 6], **{n: x for n, x in good.items() if n != "h0_S"}))
wrong("cu_seqlens beyond the end", refused, "expected cu_seqlens to end at time = 6, found 7", packed([0, 7]))
wrong("cu_seqlens that fall", refused, "cu_seqlens that never fall", packed([0, 4, 3, 6]))
wrong("cu_seqlens that start late", refused, "cu_seqlens to start at 0", packed([1, 6]))
wrong("cu_seqlens of two axes", "ValueError", "cu_seqlens: expected one axis", packed([[0, 6]]))
wrong("cu_seqlens without an entry", "ValueError", "cu_seqlens: expected one axis", packed([]))
wrong("cu_seqlens as float64", "TypeError", "cu_seqlens: expected", packed([0.0, 6.0], "float64"))
wrong("states of too few sequences", "ValueError", r"gla: h0_S: expected shape \[sequences = 2, .*found \[1,", packed([0, 2, 6], h0_S=zeros((1, 3, 4, 5))))

if framework == "torch":
    for values in ([0, 2**32 + 6], [-2**32, 6]):
        wrong(f"cu_seqlens {values} as int64", "RecError", "expected cu_seqlens to ", packed(values, "int64"))
    wrong("cu_seqlens as a list", "TypeError", "cu_seqlens: expected a tensor of torch.int32 or torch.int64, found list",
          lambda: library.gla(**row, cu_seqlens=[0, 6]))
    wrong("h0_S as a list", "TypeError", "gla: h0_S: expected a dense tensor, found list", gla(h0_S=[1.0]))
    for name, shape in shapes.items():
        good_words = {**words, name: words[name].to("meta")}
        wrong(f"{name} on another device", "Exception", "expected", lambda: library.words(**good_words))
    sparse = good["k"].to_sparse()
    wrong("a sparse tensor", "TypeError", "gla: k: expected a dense tensor, found one of torch.sparse_coo", gla(k=sparse))
    with torch._subclasses.FakeTensorMode():
        where = {name: torch.empty(x.shape, dtype=x.dtype, device="cuda") for name, x in good.items()}
        wrong("k on a GPU, the others not", "Exception", r"gla: k: expected a tensor on cpu, where q is, found one on cuda",
              lambda: library.gla(**{**{n: torch.empty(x.shape, dtype=x.dtype) for n, x in good.items()}, "k": where["k"]}))
    if not torch.cuda.is_available():
        wrong("a GPU that is not there", "Exception", "CUDA|NVIDIA", lambda: good["q"].to("cuda"))
    y = library.gla(**{**good, "q": good["q"].clone().requires_grad_()}).y
    wrong("a cotangent of another shape", "RuntimeError", "shape", lambda: y.backward(zeros((2, 6, 3, 4))))
    one = {name: x if name == "h0_S" else x[:, 0] for name, x in good.items()}
    forward = "gla: expected derivatives by backward, found forward ones"
    with torch.autograd.forward_ad.dual_level():
        dual = {name: torch.autograd.forward_ad.make_dual(x, x + 1) for name, x in good.items()}
        wrong("forward derivatives", "RuntimeError", forward, lambda: library.gla(**{**good, "k": dual["k"]}))
        wrong("forward derivatives of what has backward ones", "RuntimeError", forward,
              lambda: library.gla(**{**good, "q": good["q"].clone().requires_grad_(), "h0_S": dual["h0_S"]}))
        wrong("forward derivatives of a step", "RuntimeError", forward, lambda: library.gla_step(**{**one, "q": dual["q"][:, 0]}))
        check("a call without tangents beside forward derivatives", torch.equal(library.gla(**good).y, zeros((2, 6, 3, 5))))
    wrong("torch.func.jvp", "RuntimeError", forward, lambda: torch.func.jvp(library.gla, tuple(good.values()), tuple(good.values())))
    wrong("torch.func.jacfwd", "RuntimeError", forward, lambda: torch.func.jacfwd(library.gla)(*good.values()))
    # What a call of CUDA tensors comes to where the library has no code for them; the guard of torch needs a GPU.
    host = load(folder + "/f32")
    what = host._functions_gla.family[0]
    arguments = what.pack(host._Sizes(2, 6, None, {"H": 3, "K": 4, "V": 5}), 0, {})
    guard, torch.cuda.device = torch.cuda.device, lambda device: contextlib.nullcontext()
    wrong("a library without code for GPUs", "RecError", "gla_sizes: expected a library with PTX, found none; compile it with --target",
          lambda: host._run_on_cuda(what, "forward", (2, 6, None, 3, 4, 5), arguments, None, torch.device("cuda", 0)))
    torch.cuda.device = guard
    wrong("a library in f32 with tensors in f64", "TypeError", "expected torch.float32, found torch.float64", lambda: load(folder + "/f32").gla(**good))

if framework == "numpy":
    wrong("cu_seqlens below 0", "ValueError", "cu_seqlens: expected offsets", packed([-1, 6], "int64"))
    wrong("cu_seqlens beyond 32 bits", "ValueError", "cu_seqlens: expected offsets", packed([0, 2**40], "int64"))
    saved = library.gla(**good, save=True).saved
    for name, shape in [("d_y", (2, 6, 3, 4)), ("d_y", (2, 6, 15)), ("d_hT_S", (1, 3, 4, 5))]:
        wrong(f"{name} {shape}", "ValueError", f"gla: {name}: expected", lambda: library.gla_backward(**good, **{name: zeros(shape)}))
    wrong("d_y as float32", "TypeError", "gla: d_y: expected float64", lambda: library.gla_backward(**good, d_y=zeros((2, 6, 3, 5), "float32")))
    wrong("saved of other sizes", "ValueError", "saved: expected the", lambda: library.gla_backward(**good, saved=saved[:64]))
    wrong("saved of another type", "ValueError", "saved: expected the", lambda: library.gla_backward(**good, saved=zeros((4096,))))

if framework == "jax":
    ffi = jax.ffi.ffi_call

    def shape(*sizes, dtype="float64"):
        return jax.ShapeDtypeStruct(sizes, dtype)

    def traced(**changed):
        """The call as jit and vmap see it."""
        return lambda: jax.jit(library.gla)(**{**good, **changed})

    wrong("cu_seqlens beyond 32 bits in an array", refused, "expected cu_seqlens to end at time", packed([0, 2**32 + 6], "int64"))
    wrong("cu_seqlens below 0", "ValueError", "cu_seqlens: expected offsets", lambda: library.gla(**row, cu_seqlens=[-1, 6]))
    wrong("cu_seqlens beyond 32 bits", "ValueError", "cu_seqlens: expected offsets", lambda: library.gla(**row, cu_seqlens=[0, 2**40]))
    wrong("cu_seqlens of words", "TypeError", "cu_seqlens: expected whole numbers", lambda: library.gla(**row, cu_seqlens=["a"]))
    wrong("a number for k", "TypeError", "gla: k: expected an array of JAX or NumPy, found float", gla(k=1.0))
    wrong("a text for k", "TypeError", "gla: k: expected an array of JAX or NumPy, found str", gla(k="k"))
    wrong("a NumPy array as float32", "TypeError", "gla: k: expected float64, found float32", gla(k=np.zeros((2, 6, 3, 4), "float32")))
    wrong("complex numbers", "TypeError", "gla: k: expected float64, found complex128", gla(k=zeros((2, 6, 3, 4), "complex128")))
    wrong("a library in f32 with arrays in f64", "TypeError", "expected float32, found float64", lambda: load(folder + "/f32").gla(**good))
    wrong("float32 for float16", "TypeError", r"gla: q: expected float16, found float32; hand over q.astype\(jnp.float16\)",
          lambda: load(folder + "/f16").gla(**{name: x.astype("float32") for name, x in good.items()}))
    for name, x in good.items():
        wrong(f"{name} with an axis too many, under jit", "ValueError", f"gla: {name}: expected", traced(**{name: x[None]}))
    wrong("v of another time, under jit", "ValueError", "gla: v: expected shape .*time = 6.*found", traced(v=zeros((2, 7, 3, 5))))
    wrong("k as float32, under jit", "TypeError", "gla: k: expected float64, found float32", traced(k=zeros((2, 6, 3, 4), "float32")))
    wrong("k of another K under vmap", "ValueError", "gla: k: expected shape .*K = 4",
          lambda: jax.vmap(lambda k: library.gla(**{**good, "k": k}))(zeros((3, 2, 6, 3, 8))))
    wrong("an axis of vmap that differs", "ValueError", "vmap", lambda: jax.vmap(library.gla)(*(
        zeros((3 + (name == "v"), *x.shape)) for name, x in good.items())))
    wrong("a cotangent of another shape", "ValueError", "shape|structure", lambda: jax.vjp(library.gla, *good.values())[1](
        library.gla_result(zeros((2, 6, 3, 4)), zeros((2, 3, 4, 5)))))
    wrong("a derivative forward", "TypeError", "custom_vjp", lambda: jax.jvp(library.gla, tuple(good.values()), tuple(good.values())))
    wrong("a second derivative", "NotImplementedError", "gla: expected first derivatives", lambda: jax.grad(lambda q: jax.grad(
        lambda q: library.gla(**{**good, "q": q}).y.sum())(q).sum())(good["q"]))

    def lengths_unknown():
        from jax import export

        length = export.symbolic_shape("T")[0]
        shapes = [jax.ShapeDtypeStruct(tuple(length if axis == "time" else size for size, axis in zip(x.shape, axes[name].split())),
                                       x.dtype) for name, x in good.items()]
        return export.export(jax.jit(library.gla))(*shapes)

    wrong("exported for all lengths", "TypeError", "gla: q: expected sizes that are known when JAX traces", lengths_unknown)
    jax.config.update("jax_enable_x64", False)
    wrong("float64 switched off", "TypeError", r"gla: q: expected .*jax.config.update\(.jax_enable_x64., True\)", gla())
    wrong("float32 where float64 is switched off", "TypeError", r"gla: q: expected float64, found float32; hand over q.astype.* after "
          r"jax.config.update\(.jax_enable_x64., True\)", gla(q=zeros((2, 6, 3, 4), "float32")))
    jax.config.update("jax_enable_x64", True)

    # The handler itself, for what has not gone through Python.
    target, results = library._target("gla", "forward"), (shape(2, 6, 3, 5), shape(2, 3, 4, 5))
    places = {"operands": np.arange(1, 6), "results": np.arange(6, 8)}

    def handler(given=good, made=results, **changed):
        return lambda: ffi(target, made)(*given.values(), **{**places, **changed})

    library_said = functools.partial(wrong, kind="RuntimeError")
    check("the handler", all(not np.asarray(x).any() for x in handler()()))
    for name, x in good.items():
        library_said(f"handler, {name} with an axis too many", text="gla_forward: expected", use=handler({**good, name: x[None]}))
        library_said(f"handler, {name} with an axis too few", text="gla_forward: expected", use=handler({**good, name: x[0]}))
        library_said(f"handler, {name} as float32", text=f"expected float64 for {name}", use=handler({**good, name: x.astype("float32")}))
        library_said(f"handler, {name} as bool", text=f"expected float64 for {name}", use=handler({**good, name: x != 0}))
        for at, axis in enumerate(axes[name].split()):
            longer = zeros(x.shape[:at] + (x.shape[at] + 1,) + x.shape[at + 1:])
            library_said(f"handler, {name} with another {axis}", text=f"expected {axis} = ", use=handler({**good, name: longer}))
    library_said("handler, y of another shape", text="expected V = 5", use=handler(made=(shape(2, 6, 3, 4), results[1])))
    library_said("handler, y as float32", text="expected float64 for y", use=handler(made=(shape(2, 6, 3, 5, dtype="float32"), results[1])))
    library_said("handler, y too long", text="expected time = 6", use=handler(made=(shape(2, 60, 3, 5), results[1])))
    for what, positions in (("missing", {"operands": 3}), ("too few", {"operands": np.arange(1, 5)}), ("of 32 bits", {"results": np.arange(2, dtype="int32")})):
        library_said(f"handler, positions {what}", text="expected an attribute (operands|results) with [0-9] positions, found", use=handler(**positions))
    for what, positions in (("unknown", [1, 2, 3, 4, 99]), ("negative", [1, 2, 3, 4, -7]), ("of a result", [1, 2, 3, 4, 6])):
        library_said(f"handler, a position {what}", text="expected the positions of operands, each once, found", use=handler(operands=np.array(positions)))
    library_said("handler, a result at no position", text="expected the positions of results", use=handler(results=np.array([6, 99])))
    library_said("handler, a result as operand", text="expected the positions of results", use=handler(results=np.array([6, 2])))
    library_said("handler, one tensor twice", text="gla_forward: expected", use=handler(operands=np.array([1, 2, 3, 4, 4])))
    library_said("handler, no tensor for v", text="expected a tensor for v",
                 use=handler({n: x for n, x in good.items() if n != "v"}, operands=np.array([1, 2, 4, 5])))
    library_said("handler, nothing", text="gla_forward: expected", use=handler({}, (shape(1),), operands=np.array([], int), results=np.array([0])))
    library_said("handler, saved too short", text="saved", use=handler(
        made=(*results, shape(8, dtype="uint8")), results=np.array([6, 7, 0])))
    library_said("handler, offsets as int64", text="expected int32 for cu_seqlens", use=handler(
        {**good, "offsets": jnp.array([0, 6])}, operands=np.array([1, 2, 3, 4, 5, -1])))
    library_said("handler, offsets that fall", text="cu_seqlens that never fall", use=handler(
        {**row, "offsets": jnp.array([0, 4, 3, 6], "int32")}, (shape(1, 6, 3, 5), shape(3, 3, 4, 5)),
        operands=np.array([1, 2, 3, 4, -1])))

# ---- variants --------------------------------------------------------------------------------------------------------------

every = load(folder + "/all")


def shaped(K, dtype="float64", **changed):
    return {**{name: zeros((2, 6, 3, n), dtype) for name, n in (("q", K), ("k", K), ("v", 5), ("gate", K))}, **changed}


wrong("a K that no variant has", "ValueError",
      "gla: expected K = 4 or K = 6, found K = 5; `recc recurrences.rec .* --dtype f64,f32,bf16 .*-D gla.K=4,6,5 -D gla.V=5 .*` adds it",
      lambda: every.gla(**shaped(5)))
wrong("a step with a K that no variant has", "ValueError", "gla: expected K = 4 or K = 6, found K = 5",
      lambda: every.gla_step(**{name: x[:, 0] for name, x in shaped(5).items()}))
if framework == "torch":
    wrong("a module of a size that no variant has", "ValueError", "keyed: expected K = 4 or K = 8, found K = 5; .* -D keyed.K=4,8,5 .* adds it",
          lambda: every.keyed_module(3, 5))
wrong("a type that no variant has", "TypeError",
      "gla: q: expected float64 or float32 or bfloat16, found float16, or `recc .* --dtype f64,f32,bf16,f16 .*` adds float16",
      lambda: every.gla(**shaped(4, "float16")))
wrong("a type that no library has", "TypeError", "gla: q: expected float64 or float32 or bfloat16, found int64$",
      lambda: every.gla(**shaped(4, "int64")))
wrong("k of another type", "TypeError", "gla: k: expected (torch.)?float64, found (torch.)?float32",
      lambda: every.gla(**shaped(4, k=zeros((2, 6, 3, 4), "float32"))))
wrong("k with the K of another variant", "ValueError", "gla: k: expected shape .*K = 4.*found \\[2, 6, 3, 6\\]$",
      lambda: every.gla(**shaped(4, k=zeros((2, 6, 3, 6)))))
wrong("a V that is fixed", "ValueError", "gla: v: expected shape .*V = 5.*found .*7.*-D gla.K=4,6 -D gla.V=5,7 ",
      lambda: every.gla(**shaped(4, v=zeros((2, 6, 3, 7)))))
wrong("q without axes", "ValueError", "gla: q: expected 4 axes", lambda: every.gla(**shaped(4, q=zeros(()))))
wrong("q as a list", "TypeError", "gla: q: expected a", lambda: every.gla(**shaped(4, q=[1.0])))

# The command of such a message makes what was missing.
try:
    library.gla(**shaped(5))
    check("a K that the library does not have", False)
except ValueError as mistake:
    words = shlex.split(re.search("`(.*)`", str(mistake))[1])
    words[0], words[-1] = recc, folder + "/more"
    made = subprocess.run([*words, "--target", "x86-64-v2", "-O1"], cwd="tests/bindings", capture_output=True, text=True)
    check(f"the command of a message: {made.stderr}", made.returncode == 0)
    check("the variant that was missing", load(folder + "/more").gla(**shaped(5))[0].shape == (2, 6, 3, 5))

# ---- other libraries -----------------------------------------------------------------------------------------------------


def with_library(name, change):
    """The file for f64 in a folder of its own, beside what `change` makes of the library's bytes."""
    place = os.path.join(folder, name)
    os.makedirs(place)
    shutil.copy(folder + "/f64/recurrences.py", place)
    with open(folder + "/f64/librecurrences.so", "rb") as file:
        made = change(file.read())
    if made is not None:
        with open(place + "/librecurrences.so", "wb") as file:
            file.write(made)
    return lambda: load(place)


def other(path):
    with open(path, "rb") as file:
        return file.read()


wrong("no library", "RecError", "found no such file; `recc recurrences.rec --emit=" + framework, with_library("none", lambda was: None))
wrong("a stale library", "RecError", "expected the library [0-9a-f]{16} that this file was written for, found",
      with_library("stale", lambda was: other(folder + "/f32/librecurrences.so")))
wrong("another ABI", "RecError", r"expected a library with ABI 1\.\d+, found 2\.\d+ .*recc recurrences.rec",
      with_library("abi", lambda was: was.replace(b'"abi":"1.', b'"abi":"2.')))
wrong("half a library", "RecError", "expected a library of recc", with_library("half", lambda was: was[:len(was) // 2]))
wrong("a library for another processor", "RecError", "it is for (aarch64|x86_64), and this machine is",
      with_library("processor", lambda was: was[:18] + (b"\xb7" if was[18] == 62 else b"\x3e") + was[19:]))
wrong("a text", "RecError", "expected a library of recc.*--again -o .* writes it", with_library("text", lambda was: b"not a library\n"))
wrong("a library without a manifest", "RecError", "manifest cannot be read",
      with_library("manifest", lambda was: was.replace(b'"hash":"', b'"hush":"')))

finish()
