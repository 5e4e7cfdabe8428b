"""What is trained, as the engine names it: a workload's name, or `file.py:function` for a function or a path."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from laptime.errors import UsageError
from laptime.library.notebook import file_of_cells, find_shell, is_of_a_cell

AT_THE_TOP = "Write a function without arguments at the top of a file or a cell: `def training(): ...`, and give that."
NEEDS_NONE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def name_subject(what: object) -> str:
    """Return a workload's name or `file.py:function`. The processes that train it import the file."""
    if isinstance(what, str | os.PathLike):
        return str(os.fspath(what))
    if callable(what):
        return _name_function(what)
    raise UsageError(
        f"{_brief(what)} is not a training",
        "Give a function that returns a laptime.Training, 'file.py:function', or a workload's name: 'cifar-cnn'.",
    )


def _name_function(function: Callable[..., object]) -> str:
    name = _name_at_the_top(function)
    _check_arguments(function, name)
    module = sys.modules.get(function.__module__)
    if getattr(module, name, None) is not function:
        raise UsageError(f"'{name}' is not this function's name at the top of {function.__module__}", AT_THE_TOP)
    if is_of_a_cell(function):
        return f"{file_of_cells(name)}:{name}"
    return f"{_file_of(function, module, name)}:{name}"


def _name_at_the_top(function: Callable[..., object]) -> str:
    """Return the function's name. Refuse what another process cannot find under a name."""
    name = getattr(function, "__qualname__", "")
    if inspect.isclass(function) or not name:
        raise UsageError(f"{_brief(function)} is not a function", AT_THE_TOP)
    if name.endswith("<lambda>"):
        raise UsageError("a lambda has no name by which another process can find it", AT_THE_TOP)
    if "<locals>" in name:
        outer, _, inner = name.rpartition(".<locals>.")
        says = f"'{inner}' is defined inside '{outer.rpartition('.')[2]}', where another process cannot find it"
        raise UsageError(says, AT_THE_TOP)
    if "." in name or inspect.ismethod(function):
        raise UsageError(f"'{name}' is a method", AT_THE_TOP)
    return name


def _check_arguments(function: Callable[..., object], name: str) -> None:
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return
    needed = [f"'{each.name}'" for each in given if each.default is each.empty and each.kind not in NEEDS_NONE]
    if needed:
        says = f"'{name}' needs {', '.join(needed)}, and laptime calls it without arguments"
        raise UsageError(says, f"Write a function that calls it: `def training(): return {name}(...)`, and give that.")


def _file_of(function: Callable[..., object], module: ModuleType | None, name: str) -> str:
    """Return the file that holds the function."""
    named = getattr(module, "__file__", None)
    if named is None and find_shell() is not None:  # IPython's %run leaves the functions, and not the module
        named = inspect.getsourcefile(inspect.unwrap(function))
    if named is None or not Path(named).is_file():
        raise UsageError(
            f"'{name}' is in no file: it was typed, or made by a program",
            f"Save it in a file, and give 'file.py:{name}'.",
        )
    file = Path(named).resolve()
    if file.suffix != ".py":
        raise UsageError(f"'{name}' is in {file.name}, which is no .py file", "Save it in a file that ends with .py.")
    return str(file)


def _brief(what: object) -> str:
    """Return what was given, short enough for a sentence."""
    shown = repr(what)
    return shown if len(shown) <= 60 else f"a {type(what).__name__}"
