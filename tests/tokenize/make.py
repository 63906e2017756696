"""Vocabularies of the package `tokenizers`, made here, and what it does with a text of a megabyte: for tests/tokenize/check.

  make.py FOLDER [SEED]    NAME.json, NAME.ids (numbers of 16 bits), NAME.back (the text of these tokens); text, and text.fixed, the
                           text without broken characters
"""
import json
import random
import sys
from pathlib import Path

import numpy
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

ROOT = Path(__file__).resolve().parents[2]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
# First and last character of scripts, of signs, and of what normal forms change.
SCRIPTS = [(0x61, 0x7A), (0x41, 0x5A), (0xC0, 0x17F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x621, 0x64A), (0x905, 0x939),
           (0xE01, 0xE30), (0x10A0, 0x10C5), (0x1100, 0x11C2), (0x3041, 0x3096), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x300, 0x36F),
           (0x2000, 0x206F), (0x2190, 0x23FF), (0x24B6, 0x24E9), (0x1F300, 0x1F64F), (0x1F1E6, 0x1F1FF), (0x30, 0x39), (0x660, 0x669),
           (0x2160, 0x2188), (0xB2, 0xBE), (0x20000, 0x2A6DF), (0xFB00, 0xFB06), (0x212A, 0x212B), (0xE000, 0xE010)]
BROKEN = [b"\xff", b"\xc3", b"\xe2\x96", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80", b"\x80\x80", b"\xe2\x28\xa1"]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<s>", "</s>", "<unk>", "<mask>", " <mask> ", "[WORD]", "a[WORD]b", "<e>\n", "\u2581", "\u0120"]


def random_piece(draw):
    kind = draw.randrange(12)
    if kind < 5:
        first, last = draw.choice(SCRIPTS)
        letters = [chr(draw.randint(first, last)) for _ in range(draw.randint(1, 9))]
        return (draw.choice(["", " ", " ", " "]) + "".join(letters)).encode()
    if kind == 5:
        return draw.choice(["'s", "'S", "'LL", "'\u017f", "I'm", "don't", "we'RE", "...", "!?\r\n", "--\n\n", "\u00a0", "\u3000", "\u180e"]).encode()
    if kind == 6:
        return draw.choice([" ", "\n", "\t", "\r\n", "\n\n  ", " \n", "\u2028"]).encode() * draw.randint(1, 5)
    if kind == 7 and not draw.randrange(20):
        return draw.choice([b" ", b"\n", b"=", b"a", "\u00e9".encode(), b"0"]) * draw.randint(20, 3000)
    if kind == 8:
        return draw.choice(SPECIAL).encode()
    if kind == 9:
        return draw.choice(BROKEN) if not draw.randrange(4) else bytes([draw.randrange(1, 32)])
    return str(draw.randrange(10 ** draw.randint(1, 12))).encode()


def mixed_text(draw, size):
    folders = ("compiler", "examples", "runtime", "stdlib", "tools")
    files = sorted(p for folder in folders for ending in ("md", "c", "rec", "py") for p in ROOT.glob(f"{folder}/**/*.{ending}"))
    parts, length = [], 0
    while length < size:
        lines = draw.choice(files).read_bytes().splitlines(keepends=True)
        begin = draw.randrange(len(lines) + 1)
        chosen = lines[begin:begin + draw.randint(1, 120)]
        chosen += [random_piece(draw) for _ in range(draw.randint(1, 400))]
        parts += chosen
        length += sum(map(len, chosen))
    return b"".join(parts)[:size]


def byte_level(text):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel()
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=3000, show_progress=False, special_tokens=["<|endoftext|>"],
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    byte_level.made = t
    return t


def llama3(text):
    t = Tokenizer(models.BPE(ignore_merges=True))
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.decoder = decoders.ByteLevel()
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=3000, show_progress=False,
                                                    initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.add_special_tokens(["<|endoftext|>", "<|im_start|>"])
    t.add_tokens([AddedToken("<mask>", lstrip=True), AddedToken("[WORD]", single_word=True), AddedToken("<e>", rstrip=True)])
    number = t.token_to_id("<|im_start|>")
    t.post_processor = processors.TemplateProcessing(single="<|im_start|> $A", special_tokens=[("<|im_start|>", number)])
    return t


def llama2(text):
    t = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    t.train_from_iterator(text, trainers.BpeTrainer(vocab_size=3000, limit_alphabet=300, show_progress=False, special_tokens=names))
    state = json.loads(t.to_str())
    state["added_tokens"] = [a for a in state["added_tokens"] if a["id"] < 3]
    state["pre_tokenizer"] = None
    state["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": "\u2581"}, {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]}
    state["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    llama2.made = Tokenizer.from_str(json.dumps(state))
    return llama2.made


def unknown(text):
    """Characters that the vocabulary of llama2 lacks, one token each."""
    state = json.loads(llama2.made.to_str())
    state["model"].update(byte_fallback=False, fuse_unk=False)
    return Tokenizer.from_str(json.dumps(state))


def unigram(text):
    t = Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    t.decoder = decoders.Metaspace(prepend_scheme="first")
    text = ["".join(c for c in part if c < "\u0500") for part in text[:3]]  # the vocabulary must have each character
    t.train_from_iterator(text, trainers.UnigramTrainer(vocab_size=1200, show_progress=False, unk_token="<unk>", n_sub_iterations=1,
                                                        special_tokens=["<unk>", "<s>", "</s>"]))
    return t


def neox(text):
    t = Tokenizer.from_str(byte_level.made.to_str())
    t.normalizer = normalizers.NFC()
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    return t


def main():
    folder, seed = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    draw = random.Random(seed)
    text = mixed_text(draw, 1 << 20)
    fixed = text.decode(errors="replace")
    (folder / "text").write_bytes(text)
    (folder / "text.fixed").write_text(fixed, newline="")
    train = [fixed[at:at + 20000] for at in range(0, 300000, 20000)]
    for make in (byte_level, llama3, llama2, unknown, unigram, neox):
        t = make([part.replace("\0", "") for part in train])
        ids = t.encode(fixed, add_special_tokens=False).ids
        name = make.__name__
        t.save(str(folder / f"{name}.json"))
        numpy.array(ids, numpy.uint16).tofile(folder / f"{name}.ids")
        (folder / f"{name}.back").write_text(t.decode(ids, skip_special_tokens=False), newline="")


main()
