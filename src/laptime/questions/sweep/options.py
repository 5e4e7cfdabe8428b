"""What `laptime sweep` is asked besides what is raced: one axis or two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from laptime.model.option_kinds import (
    Option,
    OptionKind,
    QuestionOptions,
    is_number,
    parse_items,
    read_item_count,
    write_items,
)


@dataclass(frozen=True, slots=True)
class SweepAsk:
    """The values of one axis or two, as they were written: `1..4096` doubles, `8,16,24` is a list."""

    batch: str | None = None
    threads: str | None = None
    workers: str | None = None
    items: str | None = None
    lr: str | None = None
    width: str | None = None

    @property
    def changes_data(self) -> bool:
        """Whether lanes may read other batches, or with other workers, than they were written with."""
        return self == SweepAsk() or self.batch is not None or self.workers is not None


def _read_axis(value: object) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, Sequence) or not all(map(is_number, value)):
        raise ValueError("expected a text such as '1..64', or a list of numbers")
    return ",".join(map(str, value))


def _read_items_or_axis(value: object) -> int | str:
    return read_item_count(value) if isinstance(value, int) or value == "all" else _read_axis(value)


def _parse_items_or_axis(text: str) -> int | str:
    return text if {".", ","} & set(text) else parse_items(text, "is no count")


COUNTS_AXIS = OptionKind("text", "str | Sequence[int]", str, _read_axis)
NUMBERS_AXIS = OptionKind("text", "str | Sequence[float]", str, _read_axis)
ITEMS_AXIS = OptionKind(
    "A..B", "ItemsLike | str | Sequence[int]", _parse_items_or_axis, _read_items_or_axis, write_items
)
SWEEP = ("sweep",)

PART = QuestionOptions(SweepAsk, [
    Option("batch", COUNTS_AXIS, SWEEP, "sweep.batch", "Batches: 1..1024, or 8,16,24.  [default: 1..1024]",
           metavar="A..B"),
    Option("threads", COUNTS_AXIS, SWEEP, "sweep.threads", "Threads on the processor.", metavar="A..B"),
    Option("workers", COUNTS_AXIS, SWEEP, "sweep.workers", "Workers of the loader.", metavar="A..B"),
    Option("items", ITEMS_AXIS, SWEEP, "sweep.items", "Items that are made to train on; one number is for all.",
           metavar="A..B", fills_one="items"),
    Option("lr", NUMBERS_AXIS, SWEEP, "sweep.lr", "Learning rates.", metavar="A,B", is_rare=True),
    Option("width", NUMBERS_AXIS, SWEEP, "sweep.width", "Widths of a built-in network: 0.25..4.", metavar="A..B"),
])  # fmt: skip
