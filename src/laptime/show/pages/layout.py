"""Lay out text on a page of a given width. Lines break between words, and no figure is ever cut."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from laptime.model.visible import cells_wide, visible

Item = TypeVar("Item")
Style = Literal["", "strong", "good", "bad", "quiet"]
STYLE_CODES: dict[Style, str] = {"strong": "1", "good": "32", "bad": "31", "quiet": "2"}
GAPS = (4, 3, 2)
SEPARATOR = " · "
FIELD_INDENT = "  "
GLUE = "\0"
WORD_BREAKS = re.compile(r"(?<=[/+])")  # of a word that may be broken
UNIT_GAP = re.compile(r"(?<=\d) (?=(?:%|ms|µs|s|min|h|bytes|[kMGT]B)(?![A-Za-z]))")


@dataclass(frozen=True, slots=True)
class Cell:
    """A table cell. If it `spans`, it covers all remaining columns. `brief` says it next to a bar."""

    text: str
    style: Style = ""
    spans: bool = False
    brief: str = ""


@dataclass(frozen=True, slots=True)
class Column(Generic[Item]):
    """One column of a table: its title, and what it shows of an item.

    `least` is the smallest width to which the column may shrink by breaking its lines between words. Without it, it
    never shrinks. A column that `is_drawn` is left out where a table has no room for it.
    """

    title: str
    value: Callable[[Item], Cell | str]
    right: bool = False
    least: int | None = None
    is_drawn: bool = False


def lay_out_table(
    columns: Sequence[Column[Item]],
    items: Iterable[Item],
    width: int,
    *,
    color: bool = False,
    failed: Callable[[Item], str] | None = None,
) -> list[str] | None:
    """Return the lines of a table, or None if it cannot be as narrow as `width`.

    `failed` returns what is wrong with an item, or "". It replaces all columns but the first.
    """
    rows = [_cells(columns, item, failed) for item in items]
    fitted = _fit(columns, rows, width)
    if fitted is None:
        return None
    widths, gap = fitted
    head = [Cell(column.title, "strong") for column in columns]
    return [line for row in (head, *rows) for line in _lines_of(row, columns, widths, gap, width, color=color)]


def table_or_sentences(
    columns: Sequence[Column[Item]],
    items: Sequence[Item],
    width: int,
    *,
    color: bool = False,
    failed: Callable[[Item], str] | None = None,
) -> list[str]:
    """Return a table, or a sentence for each item if no table fits; it names each figure by the title of its column."""
    figures = [column for column in columns if not column.is_drawn]
    for shown in (columns, figures):
        table = lay_out_table(shown, items, width, color=color, failed=failed)
        if table is not None:
            return table
    lines: list[str] = []
    for item in items:
        first, *others = _cells(figures, item, failed)
        parts = [f"{figures[0].title} {first.text}".lstrip() if first.text[:1].isdecimal() else first.text]
        for column, cell in zip(figures[1:], others, strict=False):
            has_title = cell.text and not cell.spans
            parts.append(f"{column.title} {cell.text}".lstrip() if has_title else cell.text)
        lines += wrap(", ".join(filter(None, parts)), width, "  ")
    return lines


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text between words. Later lines begin with `indent`, cut to half the width."""
    indent = indent[: width // 2]
    words = UNIT_GAP.sub(GLUE, clean(text)).lstrip(" ").split(" ")
    lines = []
    line = " " * (len(text) - len(text.lstrip(" ")))
    for piece in (piece for word in words for piece in _pieces(word, max(width - len(indent), 1))):
        joined = f"{line} {piece}" if line.strip() else line + piece
        if line.strip() and cells_wide(joined) > width:
            lines.append(line)
            joined = indent + piece
        line = joined
    return [line.replace(GLUE, " ").rstrip() for line in [*lines, line]]


def flow(parts: Iterable[str], width: int, start: str = "", indent: str = "  ") -> list[str]:
    """Join parts with dots, and break lines between parts if possible."""
    lines = []
    line = start
    for number, part in enumerate(clean(part).strip() for part in parts):
        joined = line + (SEPARATOR if number else "") + part
        if number and cells_wide(joined) > width:
            lines.append(line)
            joined = indent + part
        line = joined
    return [broken for line in [*lines, line] for broken in wrap(line, width, indent)]


def wrap_all(sentences: Iterable[str], width: int) -> list[str]:
    """Break each sentence into lines. An empty sentence has no line."""
    return [line for sentence in sentences if sentence for line in wrap(sentence, width, "  ")]


def painted(text: str, width: int, style: Style, *, color: bool) -> list[str]:
    """Break a text into lines, and paint each."""
    return [paint(line, style, color=color) for line in wrap(text, width, "  ")]


def clean(text: str) -> str:
    """Return a text as one line without control characters: names and messages come from other programs."""
    return visible(text).replace("\t", " ").replace("\n", " ")


def paint(text: str, style: Style, *, color: bool) -> str:
    return f"\x1b[{STYLE_CODES[style]}m{text}\x1b[0m" if color and style and text else text


def padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cells_wide(text))
    return space + text if right else text + space


def _cells(columns: Sequence[Column[Item]], item: Item, failed: Callable[[Item], str] | None) -> list[Cell]:
    """Return an item's cells, up to one that spans the remaining columns."""
    cells: list[Cell] = []
    failure = failed(item) if failed else ""
    for column in columns:
        shown = Cell(failure, "bad", spans=True) if failure and cells else column.value(item)
        cells.append(Cell(shown) if isinstance(shown, str) else shown)
        if cells[-1].spans:
            break
    return cells


def _fit(columns: Sequence[Column[Item]], rows: Sequence[list[Cell]], width: int) -> tuple[list[int], int] | None:
    """Choose widths: natural ones with the widest gap that fits, else shrink columns, starting with the last."""
    texts = [[clean(column.title)] for column in columns]
    for row in rows:
        for of_column, cell in zip(texts, row, strict=False):
            if not cell.spans:
                of_column.append(clean(cell.text))
    natural = [max(map(cells_wide, of_column)) for of_column in texts]
    for gap in GAPS:
        if sum(natural) + gap * (len(columns) - 1) <= width:
            return natural, gap
    over = sum(natural) + gap * (len(columns) - 1) - width
    for place in reversed(range(len(columns))):
        least = columns[place].least
        if least is not None:
            # The longest word of the column, where words may be broken after a slash or a plus
            words = [word for text in texts[place] for word in UNIT_GAP.sub(GLUE, text).split(" ")]
            longest = max(cells_wide(piece) for word in words for piece in WORD_BREAKS.split(word))
            given = min(over, max(0, natural[place] - max(least, longest)))
            natural[place] -= given
            over -= given
    return None if over > 0 else (natural, gap)


def _lines_of(
    row: Sequence[Cell], columns: Sequence[Column[Item]], widths: Sequence[int], gap: int, width: int, *, color: bool
) -> list[str]:
    """Break every cell into lines, and join the cells' lines."""
    own = list(widths[: len(row)])
    if row[-1].spans:
        own[-1] = width - sum(own[:-1]) - gap * (len(own) - 1)
    broken = [wrap(cell.text, wide) for cell, wide in zip(row, own, strict=True)]
    lines = []
    for level in range(max(map(len, broken))):
        texts = [lines_[level] if level < len(lines_) else "" for lines_ in broken]
        parts = []
        for text, wide, cell, column in zip(texts, own, row, columns, strict=False):
            plain = padded(text, wide, right=column.right and not row[-1].spans)
            parts.append(plain.replace(text, paint(text, cell.style, color=color), 1) if text else plain)
        lines.append((" " * gap).join(parts).rstrip())
    return lines


def _pieces(word: str, width: int) -> list[str]:
    """Break a word that is too long, after a slash or a plus if it has one, else at the width."""
    pieces = []
    while cells_wide(word) > width:
        head = word[:width]
        while cells_wide(head) > width:
            head = head[:-1]
        at = max(head.rfind(mark) for mark in "/+") + 1 or max(len(head), 1)
        pieces.append(word[:at])
        word = word[at:]
    return [*pieces, word]
