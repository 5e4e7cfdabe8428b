"""A training that was written in the cells of a notebook: its file, and what else is there of IPython."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from laptime.disk import cache_folder, write_atomically
from laptime.errors import StoreError
from laptime.library.cells import read_cells, without_failed, write_file

OF_CELLS = "ipykernel_"  # the folder of a cell's file; a debugger really writes it, with that cell alone


def find_shell() -> Any:
    """Return the running IPython, or None. IPython is never imported for this."""
    found = getattr(sys.modules.get("IPython"), "get_ipython", None)
    return found() if callable(found) else None


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    return getattr(find_shell(), "kernel", None) is not None


def is_of_a_cell(function: Callable[..., object]) -> bool:
    """Whether a cell of the running IPython defined the function; `%run` and `import` have files."""
    shell, inner = find_shell(), inspect.unwrap(function)
    if shell is None or not inspect.isfunction(inner) or inner.__globals__ is not shell.user_ns:
        return False
    place = Path(inner.__code__.co_filename)
    return place.parent.name.startswith(OF_CELLS) or not place.is_file()


def file_of_cells(name: str) -> str:
    """Write all that a function of a cell needs into one file of the cache, and return its path."""
    shell = find_shell()
    held = shell.user_ns
    statements = without_failed(read_cells(held.get("In", []), _line_reached(held)), _sources(held))
    path = [str(Path(each).absolute()) for each in sys.path]  # "" is the notebook's own folder
    text = write_file(statements, name, path).encode()
    place = cache_folder() / "notebooks" / f"notebook_{hashlib.sha256(text).hexdigest()[:8]}.py"
    try:
        if not place.is_file():
            write_atomically(place, text)
    except OSError as error:
        says = f"the cells of this notebook could not be written to {place.parent}: {error.strerror}"
        raise StoreError(says, "Make room there, or set LAPTIME_CACHE to a folder that can be written.") from error
    return str(place)


def _line_reached(held: dict[str, Any]) -> int | None:
    """Return the line of the running cell that calls laptime: what is below it did not run yet."""
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  the only way to the calling cell
    while frame is not None:
        if frame.f_globals is held and frame.f_code.co_name == "<module>":
            return frame.f_lineno
        frame = frame.f_back
    return None


def _sources(held: dict[str, Any]) -> dict[str, str]:
    """Return the source of each function that the notebook holds now, where it is known."""
    found = {}
    for name, each in held.items():
        if inspect.isfunction(each) and each.__globals__ is held:
            try:
                found[name] = inspect.getsource(each)
            except (OSError, TypeError):
                continue
    return found
