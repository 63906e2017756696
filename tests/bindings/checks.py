"""What the programs of this folder share: they load a Python file that recc wrote, and count their checks."""
import importlib.util
import os
import re
import sys

_passed = _failed = 0


def load(folder):
    """The module FOLDER/recurrences.py. Each folder is a module of its own."""
    name = "recurrences_" + re.sub(r"\W", "_", folder)
    spec = importlib.util.spec_from_file_location(name, folder + "/recurrences.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # torch.compile of torch 2.4 imports it again
    spec.loader.exec_module(module)
    return module


def check(what, good):
    """Counts a check, and names it where it fails."""
    global _passed, _failed
    _passed += bool(good)
    _failed += not good
    if not good:
        print(f"FAILED bindings/{os.path.basename(sys.argv[0])}: {what}")


def finish():
    """Prints the line of counts."""
    print(f"{_passed} passed, {_failed} failed")
