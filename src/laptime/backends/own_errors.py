"""Where a user's own code raised an error: file, line and function, without the frames of libraries."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from laptime.backends.own import call_own, make_own_test
from laptime.errors import LaptimeError, TrainingError
from laptime.model.memory_errors import is_memory_error

LONGEST = 400  # characters of an error's own message
FRAME = re.compile(r'^\s*File "([^"]+)", line (\d+), in (\S+)', re.MULTILINE)
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# What marks a traceback in a message: of a DataLoader's worker, of TensorFlow's functions, of TensorFlow's tracing.
OF_A_WORKER, TRACE, OF_A_GRAPH = "Caught ", "Traceback (most recent call last)", "in user code:"
OF_KERAS = re.compile(r"^Exception encountered when calling .*?\n\n|\n\nArguments received by .*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class OwnError:
    """An error that a user's code raised, or that a library raised when this code called it.

    `reason` is the place and the error in one line, and `line` the source there. `on_load` says that the file's import
    or the call of its function raised. `trace` is the traceback without the frames of libraries.
    """

    reason: str
    line: str
    on_load: bool
    trace: str


def find_own_error(error: BaseException, file: str) -> OwnError | None:
    """Return where code from the folder of the user's file raised the error; None if it did not, or got no memory."""
    raised = error
    if isinstance(error, TrainingError) and error.__cause__ is not None:
        raised = error.__cause__
    if isinstance(raised, LaptimeError) or is_memory_error(raised):
        return None
    is_own = make_own_test(Path(file).parent)
    frames = _own_frames(raised, is_own)
    if not frames:
        return None
    words, last = _words_of(raised), frames[-1]
    function = "" if last.name == "<module>" else f", in {last.name}"
    place = f"{Path(last.filename).relative_to(Path(file).parent)}, line {last.lineno}{function}"
    source = f"{last.lineno} | {last.line}" if last.line else ""
    rows = traceback.format_list(frames)
    trace = "".join(["Traceback of your own code (most recent call last):\n", *rows, f"{words}\n"])
    return OwnError(f"{place}: {words}", source, _is_on_load(error.__traceback__), trace)


def _own_frames(error: BaseException, is_own: Callable[[str], bool]) -> list[traceback.FrameSummary]:
    """Return the user's frames, outermost first, without columns: Python would mark these in rows of `^`."""
    told = [(each.filename, each.lineno or 0, each.name) for each in traceback.extract_tb(error.__traceback__)]
    if TRACE in str(error) or OF_A_GRAPH in str(error):
        told += [(path, int(line), name) for path, line, name in FRAME.findall(str(error))]
    if isinstance(error, SyntaxError) and error.filename:
        told.append((error.filename, error.lineno or 0, "<module>"))
    return [
        traceback.FrameSummary(path, line, name, line=linecache.getline(path, line).strip())
        for path, line, name in told
        if is_own(path)
    ]


def _words_of(error: BaseException) -> str:
    """Return the error's kind and message in one line."""
    if isinstance(error, SystemExit):
        return f"its code ended the process: sys.exit({error.code!r})"
    said = OF_KERAS.sub("", COLOURS.sub("", error.msg if isinstance(error, SyntaxError) else str(error))).strip()
    if said.startswith(OF_A_WORKER) or OF_A_GRAPH in said:
        return _shortened(said.splitlines()[-1])
    said = said.partition(f"\n{TRACE}")[0]
    return _shortened(f"{type(error).__name__}: {said}" if said else type(error).__name__)


def _shortened(words: str) -> str:
    told = " ".join(words.split())
    return told if len(told) <= LONGEST else f"{told[: LONGEST - 4]} ..."


def _is_on_load(trace: TracebackType | None) -> bool:
    return any(frame.f_code is call_own.__code__ for frame, _ in traceback.walk_tb(trace))
