"""Words on a page of a given width: lines are broken between words, and no figure is ever cut."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Style = Literal["", "strong", "good", "bad", "quiet"]
CODES: dict[Style, str] = {"strong": "1", "good": "32", "bad": "31", "quiet": "2"}
ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.)?")
GAPS = (4, 3, 2)
SEPARATOR = " · "
GLUE = "\0"
UNITS = re.compile(r"(?<=\d) (?=(?:%|ms|µs|s|min|h|bytes|[kMGT]B)(?![A-Za-z]))")


@dataclass(frozen=True, slots=True)
class Column:
    """`least` is how narrow a column may become by breaking its lines; without it, it keeps its width."""

    title: str
    right: bool = False
    least: int | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    text: str
    style: Style = ""


@dataclass(frozen=True, slots=True)
class Row:
    """With `spans`, the last cell reaches over all columns that are left."""

    cells: tuple[Cell, ...]
    spans: bool = False


def lay_out(columns: Sequence[Column], rows: Sequence[Row], width: int, *, color: bool) -> list[str] | None:
    """Give the lines of a table, or nothing where it cannot be as narrow as `width`."""
    fitted = _fit(columns, rows, width)
    if fitted is None:
        return None
    widths, gap = fitted
    head = Row(tuple(Cell(column.title, "strong") for column in columns))
    lines: list[str] = []
    for row in (head, *rows):
        lines += _lines_of(row, columns, widths, gap, width, color=color)
    return lines


def wrap(text: str, width: int, indent: str = "") -> list[str]:
    """Break a text between words; later lines begin with `indent`."""
    words = UNITS.sub(GLUE, clean(text)).lstrip(" ").split(" ")
    lines, line = [], " " * (len(text) - len(text.lstrip(" ")))
    for piece in (piece for word in words for piece in _pieces(word, max(width - len(indent), 1))):
        joined = f"{line} {piece}" if line.strip() else line + piece
        if line.strip() and cells_wide(joined) > width:
            lines.append(line)
            joined = indent + piece
        line = joined
    return [each.replace(GLUE, " ").rstrip() for each in [*lines, line]]


def flow(parts: Iterable[str], width: int, start: str = "", indent: str = "  ") -> list[str]:
    """Join parts with dots, and break a line between two of them where that is possible."""
    lines, line = [], start
    for number, part in enumerate(clean(part).strip() for part in parts):
        joined = line + (SEPARATOR if number else "") + part
        if number and cells_wide(joined) > width:
            lines.append(line)
            joined = indent + part
        line = joined
    return [broken for each in [*lines, line] for broken in wrap(each, width, indent)]


def clean(text: str) -> str:
    """Take out what would steer a terminal: names and messages come from other people's programs."""
    without = ESCAPES.sub("", text.replace("\t", " "))
    return "".join(each if each.isprintable() else " " if each.isspace() else "" for each in without)


def paint(text: str, style: Style, *, color: bool) -> str:
    return f"\x1b[{CODES[style]}m{text}\x1b[0m" if color and style and text else text


def cells_wide(text: str) -> int:
    """Count places on a terminal: Chinese, Japanese and Korean signs take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF") for each in text)


def padded(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cells_wide(text))
    return space + text if right else text + space


def _fit(columns: Sequence[Column], rows: Sequence[Row], width: int) -> tuple[list[int], int] | None:
    """Choose widths: natural with the widest gap that fits, else narrower from the last column on."""
    natural = [_natural(columns, rows, place) for place in range(len(columns))]
    for gap in GAPS:
        if sum(natural) + gap * (len(columns) - 1) <= width:
            return natural, gap
    gap = GAPS[-1]
    over = sum(natural) + gap * (len(columns) - 1) - width
    for place in reversed(range(len(columns))):
        least = columns[place].least
        given = 0 if least is None else min(over, max(0, natural[place] - least))
        natural[place] -= given
        over -= given
    return None if over > 0 else (natural, gap)


def _natural(columns: Sequence[Column], rows: Sequence[Row], place: int) -> int:
    texts = [row.cells[place].text for row in rows if place < len(row.cells) - row.spans]
    return max(cells_wide(clean(text)) for text in [columns[place].title, *texts])


def _lines_of(
    row: Row, columns: Sequence[Column], widths: Sequence[int], gap: int, width: int, *, color: bool
) -> list[str]:
    """Break every cell into lines and set them side by side."""
    own = list(widths[: len(row.cells)])
    if row.spans:
        own[-1] = width - sum(own[:-1]) - gap * (len(own) - 1)
    broken = [wrap(cell.text, wide) for cell, wide in zip(row.cells, own, strict=True)]
    lines = []
    for level in range(max(map(len, broken))):
        texts = [lines_[level] if level < len(lines_) else "" for lines_ in broken]
        parts = [
            _set(text, wide, cell.style, right=column.right and not row.spans, color=color)
            for text, wide, cell, column in zip(texts, own, row.cells, columns, strict=False)
        ]
        lines.append((" " * gap).join(parts).rstrip())
    return lines


def _set(text: str, width: int, style: Style, *, right: bool, color: bool) -> str:
    plain = padded(text, width, right=right)
    return plain.replace(text, paint(text, style, color=color), 1) if text else plain


def _pieces(word: str, width: int) -> list[str]:
    """Break a word that is too long after a slash or a plus if it has one, else where it must be."""
    pieces = []
    while cells_wide(word) > width:
        head = word[:width]
        while cells_wide(head) > width:
            head = head[:-1]
        at = max(head.rfind(mark) for mark in "/+") + 1 or max(len(head), 1)
        pieces.append(word[:at])
        word = word[at:]
    return [*pieces, word]
