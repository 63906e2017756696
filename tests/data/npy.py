"""A file of 16-bit tokens as NumPy's np.save writes it, of 64 bits: npy.py TOKENS NAME.npy"""
import array
import sys

tokens = array.array("H")
with open(sys.argv[1], "rb") as file:
    tokens.frombytes(file.read())
header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(tokens)},), }}"
header += " " * (-(len(header) + 11) % 64) + "\n"
with open(sys.argv[2], "wb") as file:
    file.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode() + array.array("q", tokens).tobytes())
