"""What all pages share: the header, tables of one record, dimmed lines, the closing line, the frame of a live view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal

from laptime.model.record import Record
from laptime.report.layout import Cell, Column, Item, clean, lay_out, paint, painted, table_or_sentences, wrap
from laptime.report.words import accelerator_words, machine_words, subject_words
from laptime.visible import cells_wide

NARROWEST = 40
NOT_SAVED = "Not saved."


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
    subject = clean(subject_words(record.workload))
    machine = clean(", ".join(words for words in (machine_words(record.machine), accelerator_words(record)) if words))
    space = width - cells_wide(subject) - cells_wide(machine)
    if space >= 2:
        return [paint(subject, "strong", color=color) + " " * space + machine]
    return [*painted(subject, width, "strong", color=color), *wrap(machine, width, "  ")]


def quiet(lines: list[str], *, color: bool) -> list[str]:
    return [paint(line, "quiet", color=color) for line in lines]


def page_text(
    lines: Iterable[str], said: str, record: Record, width: int, *, kept: bool, command: str = "laptime show"
) -> str:
    """Return a page that ends with what was done and, if the record is `kept`, the command that shows it again."""
    said, saved = clean(said), clean(f"Saved as {record.id}; {command} {record.id}" if kept else NOT_SAVED)
    if cells_wide(said) + 2 + cells_wide(saved) <= width:
        closing = [f"{said}  {saved}"]
    else:
        closing = [*wrap(said, width, "  "), *wrap(saved, width, "  ")]
    return "\n".join(line for line in [*lines, *_own_cost(record, width), *closing] if line) + "\n"


def _own_cost(record: Record, width: int) -> list[str]:
    """Return how much processor time laptime's own process took."""
    own_s = record.overhead.get("parent_processor_s")
    return [] if own_s is None else wrap(f"laptime itself took {own_s:.1f} s of processor time.", width, "  ")


def live_page(record: Record, note: str, table: list[str], width: int, *, color: bool) -> list[str]:
    """Return what is shown while a question runs: the workload, a table, and a note on what is being done."""
    subject = painted(subject_words(record.workload), width, "strong", color=color)
    return [*subject, *table, *painted(note, width, "quiet", color=color)]
