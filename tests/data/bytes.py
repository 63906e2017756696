"""A tokenizer.json of a symbol for each byte behind <|endoftext|>: bytes.py SYMBOLS; those beyond 257 are in no text."""
import json
import sys

printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
others = [b for b in range(256) if b not in printed]
characters = {b: chr(b) for b in printed} | {b: chr(256 + n) for n, b in enumerate(others)}
texts = ["<|endoftext|>", *(characters[b] for b in range(256)), *(f"unused {n}" for n in range(int(sys.argv[1]) - 257))]
level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
json.dump({"added_tokens": [{"id": 0, "content": "<|endoftext|>", "special": True, "normalized": False}], "pre_tokenizer": level,
           "decoder": level, "model": {"type": "BPE", "vocab": {t: i for i, t in enumerate(texts)}, "merges": []}}, sys.stdout)
