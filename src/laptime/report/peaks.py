"""What each device can do at most, as it was measured: a table below the devices, and why something is not in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from laptime.model.limits import COPY, NOT_MEASURED, DeviceKey, DevicePeaks
from laptime.model.missing import Missing
from laptime.report.figures import number
from laptime.report.layout import Cell, Column, Row, lay_out, wrap
from laptime.report.phrases import chip_words

FLOPS, BYTES = "FLOP/s", "B/s"
PREFIXES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))
HINT = "What each can do at most: laptime devices --measure"
Limits = Sequence["tuple[DeviceKey, DevicePeaks | Missing]"]


def peak_lines(limits: Limits, width: int) -> list[str]:
    """Give the table of all devices that were measured, then in a line each what is not known, and why."""
    measured = [each for _, each in limits if isinstance(each, DevicePeaks)]
    columns = [
        Column("at most", least=12),
        Column("what"),
        Column("best", right=True),
        Column("middle", right=True),
        Column("by", least=16),
    ]
    rows = [row for each in measured for row in _rows(each)]
    lines = (lay_out(columns, rows, width, color=False) or list(_sentences(rows, width))) if rows else []
    lines += [line for sentence in _reasons(limits) for line in wrap(sentence, width, "  ")]
    if any(each == NOT_MEASURED for _, each in limits):
        lines += wrap(HINT, width, "  ")
    return lines


def rate(value: float, unit: str) -> str:
    """Give a rate with the prefix that fits: `235 GFLOP/s`."""
    return rates((value,), unit)


def rates(values: Sequence[float], unit: str) -> str:
    """Give rates with the prefix that fits the last: `96 of 235 GFLOP/s`."""
    size, prefix = next((each for each in PREFIXES if float(f"{values[-1]:.3g}") >= each[0]), PREFIXES[-1])
    return f"{' of '.join(number(value / size) for value in values)} {prefix}{unit}"


def _rows(peaks: DevicePeaks) -> Iterator[Row]:
    name = chip_words(peaks.label)
    for limit, peak in peaks.peaks.items():
        unit = BYTES if limit == COPY else FLOPS
        what = COPY if limit == COPY else f"{limit} product"
        told = (name, what, rate(peak.best_per_s, unit), rate(peak.median_per_s, unit), f"{peak.by}, {peak.of}")
        yield Row(tuple(map(Cell, told)))
        name = ""


def _sentences(rows: Sequence[Row], width: int) -> Iterator[str]:
    for row in rows:
        device, what, best, middle, by = (cell.text for cell in row.cells)
        said = f"{what} at most {best} (middle {middle}), by {by}"
        yield from wrap(f"{device}: {said}" if device else f"  {said}", width, "  ")


def _reasons(limits: Limits) -> Iterator[str]:
    for key, each in limits:
        name = chip_words(key.label)
        if isinstance(each, DevicePeaks):
            yield from (f"- ({name}, {limit}: {why.missing})" for limit, why in each.absent.items())
            yield f"{name}: measured {each.measured[:10]}"
        elif each != NOT_MEASURED:
            yield f"- ({name}: {each.missing})"
