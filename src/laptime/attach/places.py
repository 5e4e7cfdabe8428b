"""Where in the script something happened: the innermost line that is neither of a library nor of Python itself."""

from __future__ import annotations

import os
import sys

from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

OWN_FOLDER = os.path.dirname(__file__) + os.sep
PYTHON = os.path.dirname(os.__file__) + os.sep
LIBRARY_FOLDERS = ("site-packages", "dist-packages")
AGENT_PLACES_MOST = 1024


def place_here(agent: Agent) -> int:
    """Return the number of the line that is run now; 0 if none is the script's own."""
    try:
        key = _line_here()
        if key is None:
            return 0
        number = agent.places.get(key)
        if number is None:
            if len(agent.places) >= AGENT_PLACES_MOST:
                return 0
            number = agent.places[key] = agent.new_number()
        agent.describe_once(number, _describe, key)
    except Exception as error:
        agent.failed("places", error)
        return 0
    return number


def text_here() -> Any:
    """Return the line that is run now as a text, such as train.py:12; None if none is the script's own."""
    key = _line_here()
    return None if key is None else _text_of(key)


def _line_here() -> Any:
    frame: Any = sys._getframe(3)
    while frame is not None and _is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def _is_foreign(file: str) -> bool:
    return file.startswith((OWN_FOLDER, PYTHON, "<frozen")) or any(each in file for each in LIBRARY_FOLDERS)


def _text_of(key: tuple) -> str:
    return "%s:%d" % (os.path.basename(key[0]), key[1])


def _describe(key: tuple, number: int) -> dict:
    return {"place": number, "where": _text_of(key)}
