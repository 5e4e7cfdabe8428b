"""Where a step's time goes, as a line of blocks: as long as its share, each part in a sign of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

from laptime.model.why import Part, PartOf
from laptime.report.layout import cells_wide, flow

# Told apart without colour, and where a terminal has no blocks.
BLOCKS: dict[PartOf, str] = {
    "loader": "█",
    "copy": "▓",
    "compute": "▒",
    "host": "░",
    "outside": "▚",
    "unattributed": "·",
}
LETTERS: dict[PartOf, str] = {
    "loader": "#",
    "copy": "=",
    "compute": "+",
    "host": "-",
    "outside": "o",
    "unattributed": ".",
}
NAMES: dict[PartOf, str] = {
    "host": "host (the device waits)",
    "outside": "outside the step",
}
WORTH_A_BLOCK = 0.005


def bar_lines(parts: Sequence[Part], width: int, *, ascii_only: bool = False) -> list[str]:
    """Give the bar over the whole width, and below it what its signs mean; the percentages add up to 100."""
    signs = LETTERS if ascii_only else BLOCKS
    shown = [part for part in parts if part.share > 0 or part.of == "unattributed"]
    cells = _shared_out([part.share for part in shown], width, least=WORTH_A_BLOCK)
    percents = _shared_out([part.share for part in shown], 100, least=1.0)
    bar = "".join(signs[part.of] * count for part, count in zip(shown, cells, strict=True))
    told = [
        f"{signs[part.of]} {NAMES.get(part.of, part.of)} {count} %" for part, count in zip(shown, percents, strict=True)
    ]
    one_line = "   ".join(told)
    return [bar, *([one_line] if cells_wide(one_line) <= width else flow(told, width))]


def _shared_out(shares: Sequence[float], whole: int, *, least: float) -> list[int]:
    """Share so many whole units out, so that none is lost; whoever has the `least` gets one."""
    exact = [share * whole for share in shares]
    given = [max(floor(each), int(share >= least)) for each, share in zip(exact, shares, strict=True)]
    by_rest = sorted(range(len(given)), key=lambda place: given[place] - exact[place])
    for place in by_rest[: max(0, whole - sum(given))]:
        given[place] += 1
    while sum(given) > whole:
        given[given.index(max(given))] -= 1
    return given
