"""What all pages share: the answer first and the rest on request, tables of one record, bars; and the display while a
question runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import isfinite
from typing import ClassVar, Generic

from laptime.model.figure import Figure, Glance
from laptime.model.record import Progress, Record
from laptime.model.visible import cells_wide
from laptime.show.pages.layout import (
    FIELD_INDENT,
    Cell,
    Column,
    Item,
    Style,
    clean,
    flow,
    lay_out_table,
    paint,
    painted,
    table_or_sentences,
    wrap,
)
from laptime.show.pages.words import accelerator_words, duration, machine_words, trained_words

NARROWEST = 40
NOTES_MOST = 5  # lines below the figures
NOT_SAVED = "Not saved."
Lines = Sequence[str]


@dataclass(frozen=True, slots=True)
class View:
    """How a page is shown. Without `blocks`, letters draw the charts. A record that is not `kept` was not saved."""

    width: int = 100
    color: bool = False
    kept: bool = True
    blocks: bool = True
    details: bool = False

    @property
    def inner(self) -> View:
        """Return the view that is left inside of the indent of figures."""
        return replace(self, width=self.width - len(FIELD_INDENT))


@dataclass(frozen=True, slots=True)
class Said:
    """A sentence of the answer."""

    text: str
    style: Style = "strong"


@dataclass(frozen=True, slots=True)
class PageParts:
    """What a page says. The answer, figures, and the first lines of the notes are always shown.

    `notes` are sentences, the most important ones first. `done` says what was run and how sure it is, `then` which
    commands come next. `details` has everything that the record holds, in sections; they take the place of figures and
    notes where a reader asks for them. `command` goes on with the record. `glance` is what a report shows first,
    and `drawn` what it draws in the first colours, where that is not the lanes.
    """

    answer: Sequence[Said]
    figures: Lines
    notes: Lines
    done: str
    then: Lines = ()
    details: Sequence[Lines] = field(default_factory=tuple)
    command: str = "laptime show"
    glance: Glance | None = None
    drawn: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class QuestionPage:
    """What `page.py` of a question holds: what a record's page says, the few words of a list, and what is drawn."""

    FILE: ClassVar[str] = "page"

    parts: Callable[[Record, View], PageParts]
    summary: Callable[[Record], list[str]]
    live: Callable[[Record, Progress, View], list[str]]  # redrawn while it runs
    figures: Callable[[Record], list[Figure]] = lambda _record: []  # of a report; without them it has the page alone

    def render(self, record: Record, view: View) -> str:
        return page_text(self.parts(record, view), record, view)


def page_text(page: PageParts, record: Record, view: View) -> str:
    """Return the page as text. It ends with the id, and the command that goes on with the record."""
    answer: list[str] = []
    for sentence in page.answer:
        answer += painted(sentence.text, view.width, sentence.style, color=view.color)
    saved = f"Saved as {record.id}; {page.command} {record.id}"
    if view.details:
        body = [line for section in page.details for line in section]
        own_s = record.overhead.get("parent_processor_s")
        if own_s is not None:
            body += wrap(f"laptime itself took {own_s:.1f} s of processor time.", view.width, "  ")
        return _joined([answer, body, _closing(page, saved, view)])
    figures = [FIELD_INDENT + line if line else "" for line in page.figures]
    notes: list[str] = []
    left_out = 0
    for note in filter(None, page.notes):
        broken = wrap(note, view.width, FIELD_INDENT)
        if len(notes) + len(broken) <= NOTES_MOST:
            notes += broken
        else:
            left_out += 1
    count = sum(1 for section in page.details if section) + left_out
    more = f"{count} details: laptime show {record.id} --details"
    saved = more if page.command == "laptime show" else saved
    return _joined([answer, ["", *figures, ""] if figures else [], notes, _closing(page, saved, view)])


def _joined(parts: Sequence[Lines]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


def _closing(page: PageParts, saved: str, view: View) -> list[str]:
    """Return what was done and, in the last line, what to type next."""
    done = wrap(page.done, view.width, FIELD_INDENT)
    saved = saved if view.kept else NOT_SAVED
    if view.details:
        return [*done, *wrap(saved, view.width, FIELD_INDENT)]
    return [*done, *flow([*page.then, saved], view.width)]


@dataclass(frozen=True, slots=True)
class RecordColumn(Generic[Item]):
    """One column of a record's table: its title, what it shows of an item, and when it is shown.

    On a narrow page, columns with `leaves` above 0 go below the table, 1 first; the page says itself what is in one
    with `own_words`. A column that `breaks_last` shrinks only when all of these are gone.
    """

    title: str | Callable[[Record], str]
    value: Callable[[Item, Record], Cell | str]
    right: bool = False
    least: int | None = None
    leaves: int = 0
    breaks_last: bool = False
    shown: Callable[[Record], object] = lambda _record: True
    own_words: bool = False

    def of(self, record: Record, *, breaks: bool) -> Column[Item]:
        """Return this column for a table of a record."""
        title = self.title if isinstance(self.title, str) else self.title(record)
        least = self.least if breaks or not self.breaks_last else None
        return Column(title, lambda item: self.value(item, record), self.right, least)


def fit_table(
    columns: Iterable[RecordColumn[Item]],
    items: Sequence[Item],
    record: Record,
    width: int,
    *,
    color: bool,
    failed: Callable[[Item], str] | None = None,
) -> tuple[list[str], list[RecordColumn[Item]]]:
    """Return a table with the columns below it that had no room, or a sentence for each item if none fits.

    Also return the columns that are not in the table.
    """
    candidates = [column for column in columns if column.shown(record)]
    leaving = sorted((column for column in candidates if column.leaves), key=lambda column: column.leaves)
    for count in range(len(leaving) + 1):
        gone = leaving[:count]
        kept = [column.of(record, breaks=gone == leaving) for column in candidates if column not in gone]
        lines = lay_out_table(kept, items, width, color=color, failed=failed)
        if lines is not None:
            for column in candidates:
                if column in gone and not column.own_words:
                    lines += _below(column.of(record, breaks=True), candidates[0].of(record, breaks=True), items, width)
            return lines, gone
    whole = [column.of(record, breaks=True) for column in candidates if column not in leaving or not column.own_words]
    return table_or_sentences(whole, items, width, color=color, failed=failed), leaving


def _below(column: Column[Item], names: Column[Item], items: Sequence[Item], width: int) -> list[str]:
    """Return the figures of a column that has no room in the table."""
    figures = []
    for item in items:
        name, figure = (
            cell if isinstance(cell, str) else cell.text for cell in (names.value(item), column.value(item))
        )
        if figure not in {"", "-"}:
            figures.append(f"{name} {figure}")
    return flow(figures, width, f"{column.title}: ") if figures else []


def header(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the workload, with the machine at the right end of its line or, if it does not fit, below."""
    subject = clean(trained_words(record))
    machine = clean(", ".join(words for words in (machine_words(record.machine), accelerator_words(record)) if words))
    space = width - cells_wide(subject) - cells_wide(machine)
    if space >= 2:
        return [paint(subject, "strong", color=color) + " " * space + machine]
    return [*painted(subject, width, "strong", color=color), *wrap(machine, width, "  ")]


def quiet(lines: list[str], *, color: bool) -> list[str]:
    return [paint(line, "quiet", color=color) for line in lines]


# Bars, one row a lane: the longest is the slowest. Where bars have no room, the figures stand alone.

LEAST_BAR = 10
MOST_BAR = 40
COLUMN_GAP = 2
SPARK_SIGNS = "▁▂▃▄▅▆▇█"  # of a sparkline
SPARK_LETTERS = "_.-=+*#@"  # where a terminal cannot show blocks
EIGHTHS = " ▏▎▍▌▋▊▉"


@dataclass(frozen=True, slots=True)
class Row:
    """A lane's name, how long its bar is (None: it has none), and its figures; or, in place of both, its failure."""

    name: str
    length: float | None
    figures: tuple[Cell, ...]
    failed: str = ""
    told: tuple[str, ...] = ()  # the figures in a sentence, where no table fits


def bar_rows(rows: Sequence[Row], view: View) -> list[str]:
    """Return the rows as lines of name, bar and figures. Columns without any figure are left out."""
    count = max((len(row.figures) for row in rows), default=0)
    shown = [place for place in range(count) if any(_figure(row, place).text for row in rows)]
    names: Column[Row] = Column("", lambda row: row.name, least=14)
    figures: list[Column[Row]] = [Column("", partial(_figure, place=place)) for place in shown]
    longest = max((row.length for row in rows if row.length), default=0.0)
    taken = max((cells_wide(clean(row.name)) for row in rows), default=0) + sum(
        COLUMN_GAP + max(cells_wide(_figure(row, place).text) for row in rows) for place in shown
    )
    room = min(view.width - taken - COLUMN_GAP, MOST_BAR)
    bars: list[Column[Row]] = [Column("", lambda row: bar(row.length, longest, room, blocks=view.blocks))]
    columns = [names, *(bars if room >= LEAST_BAR and len(rows) > 1 else []), *figures]
    lines = lay_out_table(columns, rows, view.width, color=view.color, failed=lambda row: row.failed)
    if lines is not None:
        return lines[1:]  # no column has a title
    sentences = [replace(row, figures=tuple(map(Cell, row.told)) or row.figures) for row in rows]
    return table_or_sentences([names, *figures], sentences, view.width, color=view.color, failed=lambda row: row.failed)


def bar(length: float | None, longest: float, room: int, *, blocks: bool) -> str:
    """Return a bar whose share of the room is that of the longest; every bar has at least a part of a cell."""
    if not length or not longest or not isfinite(length / longest):
        return ""
    eighths = max(round(8 * room * (length / longest)), 1)
    if not blocks:
        return "#" * max(round(eighths / 8), 1)
    whole, rest = divmod(eighths, 8)
    return "█" * whole + EIGHTHS[rest].strip()


def _figure(row: Row, place: int) -> Cell:
    return row.figures[place] if place < len(row.figures) and not row.failed else Cell("")


def sparkline(shares: Sequence[float], *, blocks: bool) -> str:
    """Return a sign a value, from 0 (the lowest) to 1 (the highest)."""
    signs = SPARK_SIGNS if blocks else SPARK_LETTERS
    return "".join(signs[min(int(len(signs) * share), len(signs) - 1)] for share in shares)


# The display while a question runs: what is done, how much of the time is gone, a row a lane. All is drawn here.

WORDS_GAP = "   "


def live_page(what: str, progress: Progress, rows: Sequence[Row], view: View) -> list[str]:
    """Return what is trained and done with the bar of its time, a row a lane, and notes."""
    words = WORDS_GAP.join(filter(None, [what, progress.doing]))
    clock = clock_words(progress)
    room = view.width - cells_wide(words) - cells_wide(clock) - len(WORDS_GAP) - 2
    if progress.share is None:
        clock = clock if progress.elapsed_s else ""
        head = painted(WORDS_GAP.join(filter(None, [words, clock])), view.width, "strong", color=view.color)
    elif room >= LEAST_BAR:
        head = [f"{paint(words, 'strong', color=view.color)}{WORDS_GAP}{time_bar(progress.share, room, view)}  {clock}"]
    else:
        head = painted(words, view.width, "strong", color=view.color)
        room = view.width - cells_wide(clock) - 2
        drawn = f"{time_bar(progress.share, room, view)}  " if room >= LEAST_BAR else ""
        head += wrap(f"{drawn}{clock}", view.width, FIELD_INDENT)
    lanes = [FIELD_INDENT + line for line in bar_rows(rows, view.inner)] if rows else []
    notes = flow(progress.notes, view.width, FIELD_INDENT) if progress.notes else []
    return [*head, *lanes, *(paint(line, "quiet", color=view.color) for line in notes)]


def time_bar(share: float, room: int, view: View) -> str:
    """Return a bar of the time: what is gone, and what is still to come."""
    wide = min(room, MOST_BAR)
    full, empty = ("━", "─") if view.blocks else ("=", "-")
    gone = min(max(round(wide * share), 0), wide)
    return full * gone + empty * (wide - gone)


def clock_words(progress: Progress) -> str:
    """Return how long it takes so far, and how long it goes on."""
    spent = duration(progress.elapsed_s)
    left_s = progress.left_s
    if left_s is None:
        return spent
    if left_s < 1:
        return f"{spent}, the budget is used up"
    return f"{spent}, {'at most' if progress.is_most else 'about'} {duration(left_s)} more"


def progress_line(progress: Progress) -> str:
    """Return the progress in one line, for a file."""
    return progress.doing if progress.left_s is None else f"{progress.doing}; {clock_words(progress)}"
