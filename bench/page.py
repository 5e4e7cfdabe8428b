"""docs/published.md has places for what benchmarks find; each is written anew between its two marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from common import ROOT

PAGE = ROOT / "docs" / "published.md"


def put(text: str, begin: str, end: str) -> None:
    """Put a text where the page has its place for it."""
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE} has no place for it: {begin} ... {end}")
    PAGE.write_text(f"{before}{begin}\n{text}{end}{after}", encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    return [f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (head, ("---",) * len(head), *rows)]
