"""RWKV's vocabulary in small, and what a plain search for the longest token makes of a text: longest.py FOLDER

Reads FOLDER/text; writes longest.text, rwkv_vocab_v20230424.txt and longest.ids (numbers of 16 bits).
"""
import array
import random
import sys
from pathlib import Path

folder = Path(sys.argv[1])
text = (folder / "text").read_bytes()[:300000]
(folder / "longest.text").write_bytes(text)
draw = random.Random(1)
tokens = {bytes([b]) for b in range(256)}
while len(tokens) < 8000:
    at = draw.randrange(len(text))
    tokens.add(text[at:at + draw.randint(2, 12)])


def literal(token):
    """As the file of RWKV has it: a str where the bytes are UTF-8."""
    try:
        return repr(token.decode())
    except UnicodeDecodeError:
        return repr(token)


numbers = {token: number for number, token in enumerate(sorted(tokens), 1)}
with open(folder / "rwkv_vocab_v20230424.txt", "w", encoding="utf-8") as file:
    for token, number in numbers.items():
        file.write(f"{number} {literal(token)} {len(token)}\n")
longest, at, ids = max(map(len, tokens)), 0, array.array("H")
while at < len(text):
    length = next(n for n in range(longest, 0, -1) if text[at:at + n] in numbers)
    ids.append(numbers[text[at:at + length]])
    at += length
(folder / "longest.ids").write_bytes(ids.tobytes())
