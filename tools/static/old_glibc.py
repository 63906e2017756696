"""A library to link against in place of this machine's C library, so that programs run with older ones.

    old_glibc.py /lib/x86_64-linux-gnu/libc.so.6 OUT.S OUT.versions

OUT.S has the symbols of the library without their code, OUT.versions their versions: of each symbol the newest one that glibc 2.17
had. What came later keeps its first version; old_glibc.c has some of those for all. Data that lies at one address stays so, for
programs get copies of it.
"""
import re
import subprocess
import sys
from collections import defaultdict

OLDEST = (2, 17)


def number(version):
    return tuple(int(part) for part in version[len("GLIBC_"):].split("."))


def by_version(symbol):
    return number(symbol[0])


# name -> [(version, address, size, whether it is data)]
symbols = defaultdict(list)
table = subprocess.run(["objdump", "-T", sys.argv[1]], check=True, stdout=subprocess.PIPE, text=True).stdout
for line in table.splitlines():
    row = re.fullmatch(r"([0-9a-f]+) .{6}(.) (\S+)\s+([0-9a-f]+)\s+\(?(GLIBC_[0-9.]+)\)?\s+(\S+)", line)
    if row and row[3] not in ("*UND*", "*ABS*"):
        symbols[row[6]].append((row[5], row[1], int(row[4], 16), row[2] == "O"))

text, versions, data = "  .text\n", defaultdict(list), defaultdict(list)
for name, found in sorted(symbols.items()):
    old = [one for one in found if number(one[0]) <= OLDEST]
    version, address, size, is_data = max(old, key=by_version) if old else min(found, key=by_version)
    versions[version].append(name)
    if is_data:
        data[address].append((name, size))
    else:
        text += f"  .globl {name}\n  .type {name}, @function\n{name}: ret\n"
text += "  .data\n"
for names in data.values():
    for name, size in names:
        text += f"  .globl {name}\n  .type {name}, @object\n  .size {name}, {size}\n"
    text += "  .balign 32\n" + "".join(f"{name}:\n" for name, _ in names) + f"  .zero {max(size for _, size in names)}\n"
open(sys.argv[2], "w").write(text + '  .section .note.GNU-stack, "", @progbits\n')
open(sys.argv[3], "w").write("".join(f"{version} {{ global: {'; '.join(versions[version])}; }};\n"
                                     for version in sorted(versions, key=number)))
