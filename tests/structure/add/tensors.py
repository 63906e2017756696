"""Tensors of the recurrence `lowest`, without NumPy: tensors.py make FILE, tensors.py compare FILE FILE."""
import json
import random
import struct
import sys

SHAPES = {"x": (2, 40, 3), "f": (2, 40, 3), "h0.m": (2, 3), "d.y": (2, 40, 3), "d.hT.m": (2, 3)}


def make(path):
    random.seed(1)
    header, data = {}, b""
    for name, shape in SHAPES.items():
        count = shape[0] * shape[-1] * (shape[1] if len(shape) == 3 else 1)
        data += struct.pack(f"<{count}d", *(random.gauss(0, 1) for _ in range(count)))
        header[name] = {"dtype": "F64", "shape": shape, "data_offsets": [len(data) - 8 * count, len(data)]}
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, tensor in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            tensors[name] = struct.unpack(f"<{(end - begin) // 8}d", data[begin:end])
    return tensors


def compare(one, other):
    a, b = read(one), read(other)
    assert a.keys() == b.keys() and {"y", "hT.m", "d.x", "d.f", "d.h0.m"} <= a.keys(), (a.keys(), b.keys())
    for name, values in a.items():
        worst = max(abs(x - y) for x, y in zip(values, b[name], strict=True))
        assert worst < 1e-12, f"{name}: a difference of {worst}"
        assert any(values), f"{name} is zero everywhere"


{"make": make, "compare": compare}[sys.argv[1]](*sys.argv[2:])
