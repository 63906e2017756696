"""The commands `recc` and `rec-lang` of the wheel: the programs in it."""
import os
import sys
from pathlib import Path


def _become(name: str) -> None:
    program = str(Path(__file__).resolve().parent / "bin" / name)
    os.execv(program, [program, *sys.argv[1:]])


def recc() -> None:
    _become("recc")


def rec() -> None:
    """Called rec-lang, for `rec` is sox's."""
    _become("rec")
