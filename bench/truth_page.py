"""The table of bench/truth.py: a row a lane, in words, and the page that holds it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from laptime.model.quantities import Estimate, Missing
from laptime.model.record import Comparison, LaneResult, Record

HEAD = ("workload", "lane", "step", "lap", "against first", "proof", "strays")


def render(told: dict[str, Any], rows: list[list[str]]) -> str:
    """Return the page in Markdown."""
    labels = "; ".join(
        f"{row['name']}: {row['label']}" for row in told["details"]["devices"] if "label" in row and row["usable"]
    )
    lines = [
        f"# All five workloads, {told['date'][:10]}",
        "",
        f"{told['machine']['processor']['name']}, {told['machine']['processor']['cores_usable']} cores; {labels}.",
        f"Versions: {', '.join(f'{name} {version}' for name, version in told['versions'].items())}.",
        f"Made by `{told['command']}`; all records are in truth.json. Intervals are of 95 %.",
        "",
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in (HEAD, ["---"] * len(HEAD))),
        *(f"| {' | '.join(cell.replace('|', '/') for cell in row)} |" for row in rows),
    ]
    return "\n".join(lines) + "\n"


def rows_of(name: str, record: Record | None, problem: str | None) -> Iterator[list[str]]:
    """Return a row a lane; what failed is a row that says why."""
    if problem is not None:
        yield [name, f"failed: {problem}", "", "", "", "", ""]
    if record is None:
        return
    against = {comparison.lane: comparison for comparison in record.answer.comparisons}
    for lane in record.lanes:
        start = [name, lane.name]
        if lane.step_ms is None or lane.status != "ok":
            yield [*start, f"failed: {lane.reason or 'no heat was finished'}", "", "", proof_words(lane), ""]
            continue
        step, lap = estimate_words(lane.step_ms, "ms"), estimate_words(lane.lap_s, "s")
        yield [*start, step, lap, factor_words(against.get(lane.name)), proof_words(lane), strays_words(lane)]


def estimate_words(estimate: Estimate | None, unit: str) -> str:
    if estimate is None:
        return "none"
    if isinstance(estimate.low, Missing) or isinstance(estimate.high, Missing):
        return f"{estimate.median:.4g} {unit}"
    return f"{estimate.median:.4g} {unit} ({estimate.low:.4g}-{estimate.high:.4g})"


def factor_words(found: Comparison | None) -> str:
    if found is None:
        return "1"
    if isinstance(found.low, Missing) or isinstance(found.high, Missing):
        return f"{found.ratio:.3g}x (one pair, no interval)"
    return f"{found.ratio:.3g}x {found.verdict} ({found.low:.3g}-{found.high:.3g})"


def proof_words(lane: LaneResult) -> str:
    parity = lane.parity
    if parity.status != "same" or parity.worst is None:
        return f"{parity.status}: {parity.reason}"
    return f"same: {parity.worst:.0e} of {parity.tolerance or 0:.0e}, moved {parity.moved or 0:.2g} of 1"


def strays_words(lane: LaneResult) -> str:
    parity = lane.parity
    if parity.strays is None:
        return ""
    return f"{parity.strays:.0e} of {parity.strays_tolerance or 0:.0e} in {parity.strays_precision}"
