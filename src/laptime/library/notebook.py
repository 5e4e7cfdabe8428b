"""A training that was written in the cells of a notebook: its file, and what else is there of IPython."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import inspect
import os
import shutil
import sys
import time
import warnings
import webbrowser
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from html import escape
from pathlib import Path
from types import FrameType
from typing import Any

from laptime import api, showing
from laptime.disk import cache_folder, write_atomically
from laptime.errors import LaptimeError, RecordError, StoreError, UsageError
from laptime.library.cells import read_cells, without_failed, write_file
from laptime.model.progress import Progress
from laptime.model.protocol import Moment
from laptime.model.record import Record
from laptime.showing import WIDTH_OFF_TERMINAL
from laptime.visible import visible

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


# Progress of a call: a live table in a notebook, by default; elsewhere one line, with `progress=True`.

UPDATES_MOST = 4  # a second
LAPS_MOST = 20  # finished laps above that which runs
EMPTY_BUNDLE = {"text/plain": "", "text/html": ""}
FROM_THE_LEFT, TO_THE_END = "\r", "\x1b[K"


class ProgressLine:
    """Where notes on progress go. This one shows nothing."""

    def write(self, note: str) -> None:
        """Show a note in place of the last one."""

    def end(self) -> None:
        """Remove the last note, where it can be removed."""

    def show(self, _record: Record | None, progress: Progress) -> None:
        if progress.is_news:
            self.write(showing.progress_line(progress))

    def tell(self, moment: Moment) -> None:
        """Show a moment of a whole training."""
        self.write(showing.step_words(moment))


class NotebookTable(ProgressLine):
    """A display of the notebook that is updated: the lines that the command shows while it runs.

    It changes on news only, never by a timer, so that nothing wakes while a heat runs. Of news that come faster than
    `UPDATES_MOST` a second, the next that is in time shows all.
    """

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display").display
        self._handle: Any = display(EMPTY_BUNDLE, raw=True, display_id=True)
        self._sent: deque[float] = deque(maxlen=UPDATES_MOST)
        self._laps: deque[str] = deque(maxlen=LAPS_MOST)

    def write(self, note: str) -> None:
        self._update(lambda: [note])

    def show(self, record: Record | None, progress: Progress) -> None:
        self._update(lambda: showing.live_lines(record, progress, showing.View(WIDTH_OFF_TERMINAL)))

    def tell(self, moment: Moment) -> None:
        if moment.lap is not None:
            self._laps.append(showing.moment_words(moment))
            self._update(lambda: [*self._laps])
        else:
            self._update(lambda: [*self._laps, *showing.lap_lines(moment, showing.View(WIDTH_OFF_TERMINAL))])

    def end(self) -> None:
        """Remove the table: the cell shows its value, the result."""
        self._handle.update(EMPTY_BUNDLE, raw=True)

    def _update(self, make: Callable[[], Sequence[str]]) -> None:
        """Show the lines, if the last updates are long enough ago. A table that cannot be made is left out."""
        now = time.monotonic()
        if len(self._sent) == UPDATES_MOST and now - self._sent[0] < 1:
            return
        self._sent.append(now)
        with contextlib.suppress(RecordError):
            text = visible("\n".join(make()))
            self._handle.update({"text/plain": text, "text/html": as_block(text)}, raw=True)


class TerminalLine(ProgressLine):
    """A line of stderr that is written over; where stderr is no terminal, a line for each note."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last = ""

    def write(self, note: str) -> None:
        if note != self._last:
            shown = " ".join(visible(note).splitlines())
            columns = shutil.get_terminal_size().columns - 1  # a line that wraps could not be written over
            self._send(f"{FROM_THE_LEFT}{shown[:columns]}{TO_THE_END}" if self._is_terminal else f"{shown}\n")
        self._last = note

    def end(self) -> None:
        if self._is_terminal:
            self._send(f"{FROM_THE_LEFT}{TO_THE_END}")

    def _send(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            encoding = sys.stderr.encoding or "ascii"
            sys.stderr.write(text.encode(encoding, "backslashreplace").decode(encoding))
            sys.stderr.flush()


@contextlib.contextmanager
def progress_shown(*, wanted: bool | None) -> Iterator[ProgressLine]:
    """Return where progress goes. By default only a notebook shows it."""
    line = _open(wanted=wanted)
    try:
        yield line
    finally:
        line.end()


def _open(*, wanted: bool | None) -> ProgressLine:
    in_notebook = is_notebook()
    if wanted is False or (wanted is None and not in_notebook):
        return ProgressLine()
    return NotebookTable() if in_notebook else TerminalLine()


# What prints as a page: in a terminal, in a file, and in a notebook.

AS_TYPED = "white-space:pre;line-height:1.25"  # bars of blocks touch, and no line is broken


def _width() -> int:
    """Return the terminal's width. A notebook's is not that of the terminal in which its server was started."""
    return WIDTH_OFF_TERMINAL if is_notebook() else shutil.get_terminal_size((WIDTH_OFF_TERMINAL, 24)).columns


def as_block(text: str) -> str:
    """Return a page as HTML, every letter in its place."""
    return f'<pre style="{AS_TYPED}">{escape(visible(text))}</pre>'


class Shown:
    """What prints as a page."""

    __slots__ = ()

    def page(self, *, width: int | None = None, details: bool = False) -> str:
        """Return the page, in `width` columns: by default the terminal's, or 100. With `details` it has all notes."""
        return visible(self._page(width or _width(), details=details))

    def _page(self, width: int, *, details: bool) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        try:
            return self.page()
        except LaptimeError as error:
            return f"<{type(self).__name__}: {error.says}>"

    __str__ = __repr__

    def _repr_html_(self) -> str:
        """Return the page for a notebook."""
        return as_block(repr(self))


# A report of records as a file or a folder, as `laptime report` writes it.

TO_STDOUT = "-"


def write_report(
    records: Sequence[Record],
    output: str | os.PathLike[str] | None,
    form: str | None,
    *,
    card: bool = False,
    badge: bool = False,
    dark: bool = False,
    opens: bool = False,
) -> Path:
    """Write the report of these records and return where. If it `opens`, a browser shows it then."""
    given = None if output is None else os.fspath(output)
    if given == TO_STDOUT:
        raise UsageError("output='-' prints on the command line only", "Use print(result.to_html()), or name a file.")
    made = showing.made_report(records, form, given, card=card, badge=badge, dark=dark)
    place = Path(given or made.name)
    api.write_files(place, made.files, is_folder=made.is_folder)
    address = place.resolve().as_uri()
    if opens and not webbrowser.open(address):
        warnings.warn(f"no browser was found; open {address}", RuntimeWarning, stacklevel=3)
    return place
