"""Call a user's own function in the child and check what it returns; digest the user's files that it imported."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import itertools
import os
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from laptime.backends.returned import as_training
from laptime.errors import TrainingError
from laptime.model.memory_errors import is_memory_error
from laptime.model.sources import digest_source
from laptime.model.workload import Training

INSTALLED = {"site-packages", "dist-packages"}
LAPTIME = Path(__file__).parents[1]
RELATIVE_IMPORT = re.compile(rb"^\s*from\s+\.", re.MULTILINE)


def call_own(file: str, function: str) -> Training:
    """Load the file with its folder on the import path, as `python file.py` does, and call its function."""
    path = Path(file)
    sys.path.insert(0, str(path.parent))
    module = _load(path)
    named = getattr(module, function, None)
    if not callable(named):
        raise TrainingError(*_why_not_callable(path, function, module))
    try:
        returned = named()
    except Exception as error:
        if is_memory_error(error):
            raise
        raise TrainingError(f"{path.name}:{function} raised {type(error).__name__}: {error}") from error
    return as_training(returned, f"{path.name}:{function}")


def _why_not_callable(path: Path, function: str, module: Any) -> tuple[str, str]:
    """Return why a file has no such function at its top, and what to name instead."""
    found = [each for each in ast.walk(ast.parse(path.read_bytes())) if isinstance(each, ast.FunctionDef)]
    at_the_top = [each.name for each in found if callable(getattr(module, each.name, None))]
    way = f"its functions: {', '.join(at_the_top)}" if at_the_top else "give file.py:function"
    if any(each.name == function for each in found):
        says = f"{path.name}: '{function}' is defined inside something else, and only its top can be called"
        return says, f"move it to the top of the file; {way}"
    if hasattr(module, function):
        return f"{path.name}: '{function}' is not a function", way
    return f"{path.name} has no function '{function}'", way


def _load(path: Path) -> Any:
    # The module has the file's name, so that its classes and functions can be pickled for loader processes.
    package = _package_of(path)
    name = f"{package}.{path.stem}" if package else path.stem
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise TrainingError(f"{path} cannot be loaded as Python", "give the path of a .py file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        if package:
            importlib.import_module(package)
        spec.loader.exec_module(module)
    except Exception as error:
        if is_memory_error(error):
            raise
        raise TrainingError(f"{path.name} raised {type(error).__name__} on import: {error}") from error
    return module


def _package_of(path: Path) -> str:
    """Return the package of a file that imports relative to it, and put the package's folder on the import path."""
    try:
        text = path.read_bytes()
    except OSError:
        return ""
    if not RELATIVE_IMPORT.search(text):
        return ""
    names: list[str] = []
    folder = path.parent
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    sys.path.insert(0, str(folder))
    return ".".join(names)


def length_of(data: Any) -> int | None:
    """Return how many batches there are, if the data has a length."""
    try:
        return len(data)
    except (TypeError, NotImplementedError, ValueError, OverflowError):  # a loader passes on what its data set raises
        return None


def endless(data: Iterable[Any], name: str) -> Iterator[Any]:
    """Iterate a user's data again and again; raise an error if a lap has no batch."""
    for lap in itertools.count():
        seen = 0
        for batch in data:
            seen += 1
            yield batch
        if not seen:
            lap_words = f"in lap {lap + 1}, after {lap} that had some" if lap else "at all: it is empty"
            raise TrainingError(
                f"{name}: data gave no batch {lap_words}", "it must give batches each time it is iterated"
            )


def digest_imported(file: str) -> dict[str, str]:
    """Digest the user's file and all modules imported from its folder, except installed packages."""
    folder = Path(file).parent
    found = {}
    for path in sorted({file, *_imported_from(folder)}):
        with contextlib.suppress(OSError):
            found[Path(path).relative_to(folder).as_posix()] = digest_source(Path(path).read_bytes())
    return found


def _imported_from(folder: Path) -> Iterator[str]:
    is_own = make_own_test(folder)
    for module in list(sys.modules.values()):
        path = _file_of(module)
        if is_own(path):
            yield path


def make_own_test(folder: Path) -> Callable[[str], bool]:
    """Return a test whether a path is in the user's folder, and not of an installed package, Python or laptime."""
    inside = _as_beginning(folder)
    outside = tuple(map(_as_beginning, _installed_folders()))

    def is_own(path: str) -> bool:
        is_ours = path.startswith(inside) and not path.startswith(outside)
        return is_ours and INSTALLED.isdisjoint(Path(path).relative_to(folder).parts)

    return is_own


def _installed_folders() -> list[Path]:
    """Return folders that may be below a user's folder but are not the user's: Python's library, packages, laptime."""
    return [LAPTIME, *(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib"))]


def _as_beginning(folder: Path) -> str:
    return f"{str(folder).rstrip(os.sep)}{os.sep}"


def _file_of(module: object) -> str:
    """Return a module's file without importing it: `getattr` on a lazy module would import that module."""
    try:
        path = object.__getattribute__(module, "__dict__").get("__file__")
    except AttributeError:
        return ""
    return path if isinstance(path, str) else ""
