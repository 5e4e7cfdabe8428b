"""Runs a script as `python SCRIPT ARGUMENTS` would, without one of its statements: see `left_out`.

Modules that the script imports are compiled so when they are imported; the script itself is not imported.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


def _code_of_script() -> Any:
    import os
    from importlib import import_module

    here = os.path.dirname(os.path.abspath(__file__))
    del sys.argv[0]
    place = os.path.abspath(sys.argv[0])
    if sys.path and os.path.abspath(sys.path[0]) == here:
        sys.path[0] = os.path.dirname(os.path.realpath(place))
    globals().update(__file__=place, __doc__=None)
    return import_module("_laptime_attach.own_modules").FreshLoader("__main__", place).get_code("__main__")


if __name__ == "__main__":
    exec(_code_of_script(), globals())  # noqa: S102  it is the script
