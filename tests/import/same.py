"""Are the tensors of two folders' model.safetensors the same in name, type, shape and bits? same.py A B [table]

table: the table of embeddings may have the name of state-spaces/mamba in one and that of transformers in the other."""
import json
import struct
import sys


def read(folder):
    with open(folder + "/model.safetensors", "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header, data = json.loads(file.read(size)), file.read()
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


a, b = read(sys.argv[1]), read(sys.argv[2])
if sys.argv[3:] == ["table"]:
    a, b = ({name.replace("backbone.embedding.", "backbone.embeddings."): t for name, t in x.items()} for x in (a, b))
for name in sorted(a.keys() | b.keys()):
    if a.get(name) != b.get(name):
        print(name, *(t[name][:2] if name in t else "none" for t in (a, b)))
sys.exit(a != b)
