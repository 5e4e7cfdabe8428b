"""A training that was written in the cells of a notebook: its file, the statements that go into it, and what else is
there of IPython.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import importlib
import inspect
import os
import re
import shutil
import symtable
import sys
import time
import types
import warnings
import webbrowser
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from types import FrameType
from typing import Any

from laptime import api
from laptime.api import showing
from laptime.model.errors import LaptimeError, RecordError, StoreError, UsageError
from laptime.model.protocol import Moment
from laptime.model.questions import QUESTIONS
from laptime.model.record import Progress, Record
from laptime.model.visible import visible
from laptime.show.listing import WIDTH_OFF_TERMINAL
from laptime.store.disk import cache_folder, write_atomically

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
    shell = find_shell()
    inner = inspect.unwrap(function)
    if shell is None or not inspect.isfunction(inner) or inner.__globals__ is not shell.user_ns:
        return False
    place = Path(inner.__code__.co_filename)
    return place.parent.name.startswith(OF_CELLS) or not place.is_file()


def file_of_cells(name: str) -> str:
    """Write all that a function of a cell needs into one file of the cache, and return its path."""
    shell = find_shell()
    held = shell.user_ns
    # The line of the running cell that calls laptime: what is below it did not run yet.
    frame: FrameType | None = sys._getframe()  # noqa: SLF001  the only way to the calling cell
    while frame is not None and not (frame.f_globals is held and frame.f_code.co_name == "<module>"):
        frame = frame.f_back
    cells = read_cells(held.get("In", []), None if frame is None else frame.f_lineno)
    statements = without_failed(cells, _sources(held))
    path = [str(Path(folder).absolute()) for folder in sys.path]  # "" is the notebook's own folder
    text = write_file(statements, name, path).encode()
    place = cache_folder() / "notebooks" / f"notebook_{hashlib.sha256(text).hexdigest()[:8]}.py"
    try:
        if not place.is_file():
            write_atomically(place, text)
    except OSError as error:
        says = f"the cells of this notebook could not be written to {place.parent}: {error.strerror}"
        raise StoreError(says, "Make room there, or set LAPTIME_CACHE to a folder that can be written.") from error
    return str(place)


def _sources(held: dict[str, Any]) -> dict[str, str]:
    """Return the source of each function that the notebook holds now, where it is known."""
    found = {}
    for name, value in held.items():
        if inspect.isfunction(value) and value.__globals__ is held:
            try:
                found[name] = inspect.getsource(value)
            except (OSError, TypeError):
                continue
    return found


# Progress of a call: a live table in a notebook, by default; elsewhere one line, with `progress=True`.

UPDATES_MOST = 4  # a second
LAPS_MOST = 20  # finished laps above that which runs
NOTICES_MOST = 3  # above what runs
EMPTY_BUNDLE = {"text/plain": "", "text/html": ""}
FROM_THE_LEFT = "\r"
TO_THE_END = "\x1b[K"


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
        self.write(showing.lap_step_words(moment))


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
        self._notices: deque[str] = deque(maxlen=NOTICES_MOST)  # as that the budget is too short

    def write(self, note: str) -> None:
        self._update(lambda: [note])

    def show(self, record: Record | None, progress: Progress) -> None:
        if progress.stays:
            self._notices.append(progress.doing)
        lines = partial(showing.live_lines, record, progress, showing.View(WIDTH_OFF_TERMINAL))
        self._update(lambda: [*self._notices, *([] if progress.stays else lines())])

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
    in_notebook = is_notebook()
    line = ProgressLine()
    if wanted is not False and (wanted is not None or in_notebook):
        line = NotebookTable() if in_notebook else TerminalLine()
    try:
        yield line
    finally:
        line.end()


# What prints as a page: in a terminal, in a file, and in a notebook.

AS_TYPED = "white-space:pre;line-height:1.25"  # bars of blocks touch, and no line is broken


def as_block(text: str) -> str:
    """Return a page as HTML, every letter in its place."""
    return f'<pre style="{AS_TYPED}">{escape(visible(text))}</pre>'


class Shown:
    """What prints as a page."""

    __slots__ = ()

    def page(self, *, width: int | None = None, details: bool = False) -> str:
        """Return the page, in `width` columns: by default the terminal's, or 100. With `details` it has all notes."""
        if not width:
            # A notebook's width is not that of the terminal in which its server was started.
            usual = (WIDTH_OFF_TERMINAL, 24)
            width = WIDTH_OFF_TERMINAL if is_notebook() else shutil.get_terminal_size(usual).columns
        return visible(self._page(width, details=details))

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


# From the cells of a notebook to one file: the statements that a function needs, in the order in which they ran.
#
# A statement is needed where it binds or changes a name that a needed statement reads. A name that a statement reads
# when it runs is looked up among the statements before it. A name in the body of a function is looked up where the
# function is called, so later definitions count.

# Calls whose only purpose is to change what they are called on, or a library's global state.
CHANGING_CALLS = re.compile(
    r"append|extend|insert|add|update|setdefault|remove|discard|pop|clear|sort|reverse"
    r"|(set|use|enable|disable|register)_\w+|(manual_)?seed"
)
ASKS = tuple(question.command for question in QUESTIONS if question.has_magic)
RUNS_ITS_CELL = {"time", "capture", "prun", *ASKS}  # cell magics that run the rest in the notebook's own names
OF_OURS = re.compile(rf"\s*get_ipython\(\)\.run_cell_magic\('({'|'.join(ASKS)})'")  # as IPython keeps a cell
RUN_AT_ONCE = {"listcomp", "setcomp", "dictcomp", "genexpr"}
ALWAYS_THERE = {*dir(builtins), *dir(types.ModuleType("any")), "__builtins__", "__file__"}
FUTURE = "__future__"
IMPORT_STAR = "*"
OWN_SCOPE = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
CONDITIONAL = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Try, ast.TryStar, ast.With, ast.AsyncWith, ast.Match)


@dataclass(frozen=True, slots=True)
class Statement:
    """One top-level statement of a cell.

    It `binds` names, and `changes` what other names hold. It `reads` names when it runs; functions in it read `later`
    names when they are called. If it `settles`, earlier definitions of what it binds do not matter.
    """

    node: ast.stmt
    binds: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()
    reads: frozenset[str] = frozenset()
    later: frozenset[str] = frozenset()
    settles: bool = True

    @property
    def is_definition(self) -> bool:
        return isinstance(self.node, DEFINITIONS)


def read_cells(cells: Iterable[str], reached: int | None = None) -> list[Statement]:
    """Return the statements of all cells, in order. Of the last one, only those above the line `reached`.

    A cell that is not Python, and so did not run, has none. A cell of laptime's own magic has run to its end.
    """
    texts = list(cells)
    trees = [_parse(cell) for cell in texts]
    if trees and reached is not None and not OF_OURS.match(texts[-1]):
        trees[-1] = [node for node in trees[-1] if (node.end_lineno or node.lineno) < reached]
    return [statement for nodes in trees for statement in map(_describe, nodes) if statement is not None]


def write_file(statements: Sequence[Statement], function: str, path: Sequence[str]) -> str:
    """Return the text of a file with all that `function` needs. `path` is added to the import path."""
    nodes = [statements[index].node for index in sorted(find_needed(statements, function))]
    future = dict.fromkeys(ast.unparse(statement.node) for statement in statements if _is_future(statement.node))
    lines = [f'"""laptime made this file from the cells of a notebook: all that `{function}` needs."""', *future]
    lines += ["import sys", f"sys.path += [each for each in {list(path)!r} if each not in sys.path]"]
    return "\n".join(lines) + "\n\n" + "\n\n".join(map(ast.unparse, nodes)) + "\n"


def find_needed(statements: Sequence[Statement], function: str) -> set[int]:
    """Return the places of the statements that the function needs. Refuse a name that no statement binds."""
    search = _Search(statements)
    search.find(function)
    if search.unknown:
        names = ", ".join(f"'{name}'" for name in sorted(search.unknown))
        raise UsageError(
            f"'{function}' needs {names}, which no cell of this notebook defines",
            "Define it in a cell (as Python, not by a magic), or write the training in a file and import it.",
        )
    return search.needed


class _Search:
    """Follows names to the statements that bind or change them, and their names in turn."""

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._statements = statements
        self._seen: set[tuple[str, int]] = set()
        self.needed: set[int] = set()
        self.unknown: set[str] = set()

    def find(self, name: str) -> None:
        wanted = [(name, len(self._statements), True)]
        while wanted:
            name, before, must_be_there = wanted.pop()
            if (name, before) in self._seen:
                continue
            self._seen.add((name, before))
            found = self._definers(name, before)
            if not found and must_be_there and name not in ALWAYS_THERE:
                self.unknown.add(name)
            self.needed.update(found)
            for place in found:
                statement = self._statements[place]
                wanted += [(read, place, read not in statement.binds) for read in statement.reads]
                wanted += [(read, before, True) for read in statement.later]
                if not statement.is_definition:  # a lambda may be called at once
                    wanted += [(read, place, False) for read in statement.later]

    def _definers(self, name: str, before: int) -> list[int]:
        """Return the last statement before a place that settles a name, and all after it that bind or change it."""
        found: list[int] = []
        is_bound = False
        for place in reversed(range(before)):
            statement = self._statements[place]
            if name in statement.binds | statement.changes:
                found.append(place)
            if name in statement.binds:
                is_bound = True
                if statement.settles:
                    break
        if is_bound or name in ALWAYS_THERE:
            return found
        return [place for place in range(before) if IMPORT_STAR in self._statements[place].binds]


def _parse(cell: str) -> list[ast.stmt]:
    try:
        nodes = ast.parse(cell).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [inner for node in nodes for inner in _inside_magic(node)]


def _inside_magic(node: ast.stmt) -> list[ast.stmt]:
    """Return the statements below a cell magic such as %%time, which runs them; any other statement as it is."""
    match node:
        case ast.Expr(
            ast.Call(
                ast.Attribute(ast.Call(ast.Name("get_ipython")), "run_cell_magic"),
                [ast.Constant(str(magic)), _, ast.Constant(str(body))],
            )
        ) if magic in RUNS_ITS_CELL:
            return _parse(body)
    return [node]


def _describe(node: ast.stmt) -> Statement | None:
    """Return a statement with its names, or None where it cannot be compiled outside a notebook, as `await` is."""
    if isinstance(node, ast.ImportFrom) and node.names[0].name == IMPORT_STAR:
        return Statement(node, binds=frozenset({IMPORT_STAR}), settles=False)
    if _is_future(node):
        return Statement(node)
    try:
        table = symtable.symtable(ast.unparse(node), "cell", "exec")
    except (SyntaxError, RecursionError):
        return None
    symbols = table.get_symbols()
    at_once = {symbol.get_name() for symbol in symbols if symbol.is_referenced()}
    later: set[str] = set()
    for inner in table.get_children():
        _collect(inner, at_once, later)
    # Whether an earlier definition of the names is lost. `import a.b` adds to what an earlier `import a.c` bound.
    settles = not isinstance(node, (ast.AugAssign, *CONDITIONAL))
    if isinstance(node, ast.Import):
        settles = not any("." in name.name and name.asname is None for name in node.names)
    return Statement(
        node,
        binds=frozenset(symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()),
        changes=frozenset(_changed(node)),
        reads=frozenset(at_once),
        later=frozenset(later),
        settles=settles,
    )


def _collect(table: symtable.SymbolTable, at_once: set[str], later: set[str]) -> None:
    """Add the global names of a scope: the body of a class and a comprehension run at once, a function later."""
    runs_now = table.get_type() == "class" or table.get_name().strip("<>") in RUN_AT_ONCE
    names = at_once if runs_now else later
    names |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_global() and symbol.is_referenced()}
    for inner in table.get_children():
        _collect(inner, names, later)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Return the names whose objects a statement changes: `a.b = 1`, `a["b"] = 1`, `a.append(1)`, `a.b.set_c(1)`."""
    for inner in _same_scope(node):
        match inner:
            case ast.Attribute() | ast.Subscript() if not isinstance(inner.ctx, ast.Load):
                yield from _root(inner)
            case ast.Expr(ast.Call(ast.Attribute(attr=called) as function)) if CHANGING_CALLS.fullmatch(called):
                yield from _root(function)


def _same_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Return a node and all below it, but not what is in functions and classes."""
    yield node
    if not isinstance(node, OWN_SCOPE):
        for inner in ast.iter_child_nodes(node):
            yield from _same_scope(inner)


def _root(node: ast.AST) -> Iterator[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == FUTURE


def without_failed(statements: Sequence[Statement], lived: dict[str, str]) -> list[Statement]:
    """Leave out functions that never came to be, because their cell failed above them.

    `lived` has the source of each function that the notebook holds now.
    """
    last: dict[str, int] = {}
    for place, statement in enumerate(statements):
        if isinstance(statement.node, ast.FunctionDef) and _is_source(statement.node, lived):
            last[statement.node.name] = place
    return [
        statement
        for place, statement in enumerate(statements)
        if not isinstance(statement.node, ast.FunctionDef) or place <= last.get(statement.node.name, place)
    ]


def _is_source(node: ast.FunctionDef, lived: dict[str, str]) -> bool:
    with contextlib.suppress(SyntaxError, ValueError):
        return ast.dump(ast.parse(lived.get(node.name, ""))) == ast.dump(ast.Module([node], []))
    return False
