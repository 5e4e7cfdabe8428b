"""What all pages share: the answer first and the rest on request, tables of one record, the frame of a live view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal

from laptime.model.record import Record
from laptime.pages.layout import (
    Cell,
    Column,
    Item,
    Style,
    clean,
    flow,
    lay_out,
    paint,
    painted,
    table_or_sentences,
    wrap,
)
from laptime.pages.words import accelerator_words, machine_words, trained_words
from laptime.visible import cells_wide

NARROWEST = 40
NOTES_MOST = 5  # lines below the figures
INDENT = "  "
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
        return replace(self, width=self.width - len(INDENT))


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
    notes where a reader asks for them. `command` goes on with the record.
    """

    answer: Sequence[Said]
    figures: Lines
    notes: Lines
    done: str
    then: Lines = ()
    details: Sequence[Lines] = field(default_factory=tuple)
    command: str = "laptime show"


def page_text(page: PageParts, record: Record, view: View) -> str:
    """Return the page as text. It ends with the id, and the command that goes on with the record."""
    answer = [line for each in page.answer for line in painted(each.text, view.width, each.style, color=view.color)]
    saved = f"Saved as {record.id}; {page.command} {record.id}"
    if view.details:
        body = [line for section in page.details for line in section]
        return _joined([answer, body, _own_cost(record, view.width), _closing(page, saved, view)])
    figures = [INDENT + line if line else "" for line in page.figures]
    notes, left_out = _first_notes(page.notes, view.width)
    count = sum(1 for section in page.details if section) + left_out
    more = f"{count} details: laptime show {record.id} --details"
    saved = more if page.command == "laptime show" else saved
    return _joined([answer, ["", *figures, ""] if figures else [], notes, _closing(page, saved, view)])


def rendered(parts: Callable[[Record, View], PageParts]) -> Callable[[Record, View], str]:
    """Return the function that makes a question's page as text, from the one that returns what it says."""
    return lambda record, view: page_text(parts(record, view), record, view)


def _joined(parts: Sequence[Lines]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


def _first_notes(notes: Lines, width: int) -> tuple[list[str], int]:
    """Return the lines of the notes that fit into a few lines, and how many notes do not."""
    lines: list[str] = []
    left_out = 0
    for note in filter(None, notes):
        broken = wrap(note, width, INDENT)
        if len(lines) + len(broken) <= NOTES_MOST:
            lines += broken
        else:
            left_out += 1
    return lines, left_out


def _closing(page: PageParts, saved: str, view: View) -> list[str]:
    """Return what was done and, in the last line, what to type next."""
    done = wrap(page.done, view.width, INDENT)
    saved = saved if view.kept else NOT_SAVED
    if view.details:
        return [*done, *wrap(saved, view.width, INDENT)]
    return [*done, *flow([*page.then, saved], view.width)]


@dataclass(frozen=True, slots=True)
class RecordColumn(Generic[Item]):
    """One column of a record's table: its title, what it shows of an item, and when it is shown.

    On a narrow page, columns with `leaves` above 0 are left out, 1 first. A column that `breaks_last` shrinks only when
    all of these are gone.
    """

    title: str | Callable[[Record], str]
    value: Callable[[Item, Record], Cell | str]
    right: bool = False
    least: int | None = None
    leaves: int = 0
    breaks_last: bool = False
    view: Literal["both", "page", "live"] = "both"
    shown: Callable[[Record], object] = lambda _record: True

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
    view: Literal["page", "live"] = "page",
) -> tuple[list[str], list[RecordColumn[Item]]]:
    """Return a table, or a sentence for each item if none fits, and the columns that were left out."""
    candidates = [each for each in columns if each.view in {"both", view} and each.shown(record)]
    leaving = sorted((each for each in candidates if each.leaves), key=lambda each: each.leaves)
    for count in range(len(leaving) + 1):
        gone = leaving[:count]
        kept = [each.of(record, breaks=gone == leaving) for each in candidates if each not in gone]
        lines = lay_out(kept, items, width, color=color, failed=failed)
        if lines is not None:
            return lines, gone
    return table_or_sentences(kept, items, width, color=color, failed=failed, titled=True), leaving


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


def _own_cost(record: Record, width: int) -> list[str]:
    """Return how much processor time laptime's own process took."""
    own_s = record.overhead.get("parent_processor_s")
    return [] if own_s is None else wrap(f"laptime itself took {own_s:.1f} s of processor time.", width, "  ")


def live_page(record: Record, note: str, table: list[str], width: int, *, color: bool) -> list[str]:
    """Return what is shown while a question runs: the workload, a table, and a note on what is being done."""
    subject = painted(trained_words(record), width, "strong", color=color)
    return [*subject, *table, *painted(note, width, "quiet", color=color)]
