"""The user's own modules are compiled each time that they are imported, where their code is raced or judged.

A compiled file next to a source may be of other code, and none is read there or left there. Installed packages are
imported as ever.
"""

from __future__ import annotations

import os
import sys
from importlib.machinery import (
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    FileFinder,
    SourceFileLoader,
    SourcelessFileLoader,
)

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from importlib.abc import PathEntryFinder
    from types import CodeType
    from typing import Any

INSTALLED_IN = ("site-packages", "dist-packages")


class FreshLoader(SourceFileLoader):
    """Compiles a source each time, with one of its statements changed where that is named (`left_out`)."""

    changes: Any = ()  # for each: the name of a setting, and where the statement is
    was_changed: Any = staticmethod(lambda _name: None)  # is called then

    def get_code(self, fullname: str) -> CodeType:
        place = self.get_filename(fullname)
        data = self.get_data(place)
        for name, where in self.changes:
            from .left_out import compile_changed, line_in

            line = line_in(place, where)
            code: Any = compile_changed(data, place, line, name) if line else None
            if code is not None:
                self.was_changed(name)
                return code
        return self.source_to_code(data, place)


def compile_afresh(folder: str) -> None:
    """Import the modules below a folder from their sources. What is imported already stays."""
    inside = folder.rstrip(os.sep) + os.sep
    fresh = FileFinder.path_hook(
        (ExtensionFileLoader, EXTENSION_SUFFIXES),
        (FreshLoader, SOURCE_SUFFIXES),
        (SourcelessFileLoader, BYTECODE_SUFFIXES),
    )

    def is_own(place: str) -> bool:
        return (place + os.sep).startswith(inside) and not any(name in place for name in INSTALLED_IN)

    def find(place: str) -> PathEntryFinder:
        if not is_own(place):
            raise ImportError(place + " is not the user's own")
        return fresh(place)

    sys.path_hooks.insert(0, find)
    for place in [place for place in sys.path_importer_cache if is_own(place)]:
        del sys.path_importer_cache[place]
