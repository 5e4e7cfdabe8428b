"""Where in the script something happens: the innermost line that is neither of a library nor of Python itself."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

    from .agent import Agent

OWN_FOLDER = os.path.dirname(__file__) + os.sep
PYTHON = os.path.dirname(os.__file__) + os.sep
LIBRARY_FOLDERS = ("site-packages", "dist-packages")
AGENT_PLACES_MOST = 1024
CODE_LETTERS_MOST = 300  # of a line


def _find_start() -> str:
    """Return the folder in which this process began, as lines are named from there; a script may change it."""
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return ""


START = _find_start()


def place_here(agent: Agent) -> int:
    """Return the number of the line that is run now; 0 if none is the script's own. Describe it at once."""
    try:
        key = own_line(sys._getframe(2))
        number = 0 if key is None else place_number(agent, key)
        if number:
            agent.describe_once(number, describe_place, key)
    except Exception as error:
        agent.failed("places", error)
        return 0
    return number


def text_here() -> Any:
    """Return the line that is run now as a text, such as train.py:12; None if none is the script's own."""
    key = own_line(sys._getframe(2))
    return None if key is None else _text_of(key)


def own_line(frame: Any) -> Any:
    """Return the file and the line of a frame, or of the first one above it that is the script's own; None without."""
    while frame is not None and is_foreign(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def place_number(agent: Agent, key: tuple) -> int:
    """Return the number of a line; 0 where too many are known already."""
    number: int = agent.places.get(key, 0)
    if not number and len(agent.places) < AGENT_PLACES_MOST:
        number = agent.places[key] = agent.new_number()
    return number


def describe_place(key: tuple, number: int) -> dict:
    return {"place": number, "where": _text_of(key)}


def describe_code(key: tuple, number: int) -> dict:
    """Return the source of a line, by the negative number of its place: the parent keeps the names of what it calls."""
    lines = sys.modules.get("linecache")  # PyTorch and Keras import it
    code = lines.getline(*key).strip() if lines is not None else ""
    return {"code_of": -number, "code": code[:CODE_LETTERS_MOST]}


FOREIGN: dict = {}  # files: hooks of each step ask for all that are above them


def is_foreign(file: str) -> bool:
    """Whether a file is laptime's, Python's or a library's."""
    found = FOREIGN.get(file)
    if found is None:
        found = file.startswith((OWN_FOLDER, PYTHON, "<frozen")) or any(folder in file for folder in LIBRARY_FOLDERS)
        FOREIGN[file] = found
    return bool(found)


def _text_of(key: tuple) -> str:
    """Return a line as file:line, from the folder in which the script was started, or the file's name alone."""
    path = os.path.join(START, key[0])
    inside = path[len(START) :].lstrip(os.sep) if START and path.startswith(START.rstrip(os.sep) + os.sep) else ""
    return "%s:%d" % (inside or os.path.basename(path), key[1])
