"""Which functions of transformers are replaced, and how.

The modeling files of transformers define each function once more, under the same name in every file, with the decorator
`use_kernel_func_from_hub_with_fallback`. patch() replaces the functions of the files that are imported, and the decorator for
those that will be.
"""
import functools
import sys
import warnings

_ours = {}  # name in the modeling files -> our function, and what tells it about the file that calls it
_decorator = None  # transformers' own, while ours is in its place
_said = set()
_note = None  # takes our calls, while a model is prepared
_HOOK = "use_kernel_func_from_hub_with_fallback"
_OLDEST, _NEWEST = (5, 19), (5, 24)  # versions of transformers: tests/frameworks runs with both ends


class Unsupported(Exception):
    """Raised by a function for a call that it has no kernel for. The text says what was expected and found."""


def function(*names, ask=None):
    """A decorator: this function stands in for those of these names in transformers' modeling files. ask(file), of a modeling file,
    gives more words for the calls that it makes."""

    def register(ours):
        _ours.update(dict.fromkeys(names, (ours, ask)))
        return ours

    return register


def functions():
    """The names of the functions that patch() replaces."""
    return sorted(_ours)


def patch():
    """Makes the models of transformers use rec's kernels. A second call changes nothing."""
    global _decorator
    if _decorator is not None:
        return
    _check_version()
    from transformers.integrations import hub_kernels
    _decorator = getattr(hub_kernels, _HOOK)
    _set_decorator(_decorating)
    for module, name, theirs in _found():
        setattr(module, name, _replacement(name, theirs, module.__name__))


def unpatch():
    """Gives transformers its functions back."""
    global _decorator
    if _decorator is None:
        return
    _set_decorator(_decorator)
    _decorator = None
    for module, name, ours in _found():
        if hasattr(ours, "theirs"):
            setattr(module, name, ours.theirs)


def ask(run, note):
    """Runs run() with transformers' own functions. note(call) is told each call of ours that would have been made."""
    global _note
    _note = note
    try:
        run()
    finally:
        _note = None


def is_patched():
    return _decorator is not None


def _check_version():
    """An ImportError for a version of transformers that is too old; a warning for one that no test has run with."""
    from transformers import __version__ as found
    version = tuple(int(part) for part in found.split(".")[:2])
    known = f"expected transformers {_OLDEST[0]}.{_OLDEST[1]} to {_NEWEST[0]}.{_NEWEST[1]}, found {found}"
    if version < _OLDEST:
        raise ImportError(f"rec_lang.transformers: {known}")
    if version > _NEWEST:
        _say(f"rec_lang.transformers: {known}, which it has not been tried with")


def _set_decorator(decorator):
    import transformers.integrations
    for module in (transformers.integrations, transformers.integrations.hub_kernels):
        setattr(module, _HOOK, decorator)


def _decorating(*words, **settings):
    theirs = _decorator(*words, **settings)
    return lambda torch_function: _replacement(torch_function.__name__, theirs(torch_function), torch_function.__module__)


def _found():
    """The functions of the modeling files that are imported: (module, name, function)."""
    for path, module in list(sys.modules.items()):
        if path.startswith("transformers.models."):
            for name in _ours.keys() & vars(module).keys():
                yield module, name, vars(module)[name]


def _replacement(name, theirs, file):
    if name not in _ours:
        return theirs
    ours, ask = _ours[name]

    @functools.lru_cache(maxsize=None)
    def told():  # not before the file is whole
        return ask(sys.modules[file]) if ask else {}

    @functools.wraps(theirs)
    def call(*arguments, **settings):
        if _note is not None:
            _note(lambda: ours(*arguments, **settings, **told()))
            return theirs(*arguments, **settings)
        try:
            return ours(*arguments, **settings, **told())
        except Unsupported as why:
            _say(f"{name}: {why}; transformers' own function is used")
            return theirs(*arguments, **settings)

    call.theirs = theirs
    return call


def _say(text):
    """Each text once."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, stacklevel=4)
