"""docs/published.md has places for what benchmarks find; each is written again between its two marks."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from common import ROOT

PAGE = ROOT / "docs" / "published.md"
WIDTH = 116


def put(text: str, begin: str, end: str) -> None:
    """Put a text where the page has its place for it."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE} has no place for it: {begin} ... {end}")
    PAGE.write_text(f"{before}{begin}\n\n{text}\n{end}{after}", encoding="utf-8")


def paragraph(text: str) -> str:
    """Return a text as lines of the page's width, and an empty line after them."""
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (head, ("---",) * len(head), *rows)]
