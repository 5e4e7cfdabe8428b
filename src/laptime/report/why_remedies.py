"""Remedies as a table: what each was foretold to gain and did gain, what it changes, and the line that does it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from laptime.model.missing import Missing
from laptime.model.why import Factor, Remedy
from laptime.report.figures import factor
from laptime.report.layout import Cell, Column, Row, Style, clean, flow, lay_out, wrap

LEAST_REMEDY, LEAST_CHANGES = 18, 10
NOT_FORETOLD = "not foretold: "


def remedy_lines(remedies: Sequence[Remedy], width: int, *, color: bool) -> list[str]:
    """Show those that were tried, the failed ones with their reason; then name the others, by why they were not."""
    tried = [each for each in remedies if each.measured is not None or each.lane is not None]
    lines = _table(tried, width, color=color) if tried else []
    unknown = [each for each in tried if isinstance(each.predicted, Missing)]
    lines += _grouped(unknown, _why_not_foretold, "not foretold: ", width)
    others = [each for each in remedies if each not in tried]
    return lines + _grouped(others, lambda each: each.reason or "no reason is known", "not tried: ", width)


def measured_words(measured: Factor) -> str:
    """Give a factor with half its interval."""
    ratio = f"{factor(measured.ratio)}x"
    if isinstance(measured.low, Missing) or isinstance(measured.high, Missing):
        return f"{ratio} (one pair)"
    return f"{ratio} \N{PLUS-MINUS SIGN}{factor((measured.high - measured.low) / 2, measured.ratio)}"


def _table(tried: Sequence[Remedy], width: int, *, color: bool) -> list[str]:
    """A line of code is there to be copied: where it would be broken, it stands below the table."""
    with_code = lay_out(_columns(code=True), [_row(each, code=True) for each in tried], width, color=color)
    if with_code is not None:
        return with_code
    rows = [_row(each, code=False) for each in tried]
    table = lay_out(_columns(code=False), rows, width, color=color)
    if table is None:
        told = (": ".join((row.cells[0].text, ", ".join(cell.text for cell in row.cells[1:]))) for row in rows)
        table = [line for sentence in told for line in wrap(sentence, width, "  ")]
    return [*table, *_code_lines(tried, width)]


def _columns(*, code: bool) -> list[Column]:
    return [
        Column("remedy", least=LEAST_REMEDY),
        Column("predicted", right=True),
        Column("measured"),
        Column("changes", least=LEAST_CHANGES),
        *([Column("how")] if code else []),
    ]


def _row(remedy: Remedy, *, code: bool) -> Row:
    says = f"{remedy.says} (recommended)" if remedy.recommended else remedy.says
    foretold = "-" if isinstance(remedy.predicted, Missing) else f"{factor(remedy.predicted)}x"
    head = (Cell(says, "strong" if remedy.recommended else ""), Cell(foretold))
    if remedy.measured is None:
        return Row((*head, Cell(f"failed: {remedy.reason or 'no reason is known'}", "bad")), spans=True)
    cells = (*head, Cell(measured_words(remedy.measured), _style(remedy.measured)), Cell(remedy.changes))
    return Row((*cells, *([Cell(remedy.code)] if code else [])))


def _style(measured: Factor) -> Style:
    if not isinstance(measured.low, Missing) and measured.low > 1:
        return "good"
    return "bad" if not isinstance(measured.high, Missing) and measured.high < 1 else ""


def _code_lines(tried: Iterable[Remedy], width: int) -> list[str]:
    """Keep each line of code whole, whatever the width; of what gains nothing nobody wants one."""
    lines: list[str] = []
    for remedy in tried:
        if remedy.code and remedy.measured is not None and _style(remedy.measured) == "good":
            lines += [*wrap(f"{remedy.says}:", width, "  "), f"    {clean(remedy.code)}"]
    return lines


def _grouped(remedies: Sequence[Remedy], reason: Callable[[Remedy], str], head: str, width: int) -> list[str]:
    """Name all that have one reason together."""
    by_reason: dict[str, list[str]] = {}
    for remedy in remedies:
        by_reason.setdefault(reason(remedy), []).append(remedy.says)
    parts = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    return flow(parts, width, head) if parts else []


def _why_not_foretold(remedy: Remedy) -> str:
    told = remedy.predicted
    return told.missing.removeprefix(NOT_FORETOLD) if isinstance(told, Missing) else ""
