"""How strict each look at a growing race must be, so that stopping early keeps the error rate.

A race is examined after every round of heats and stops when its intervals are narrow enough. Each look is a chance to
be wrong, so each spends a share of the error rate. By the union bound the shares may not add up to more than the whole,
whatever the rule for stopping. The rate holds for each ratio separately, as long as what ends a race early (a time
budget) does not depend on the ratio.
"""

from __future__ import annotations

FIRST_LOOK = 3

# Chosen by simulation with spreads between heats of 0.5 to 8 % and plans of 5, 10 and 20 heats, and checked
# by bench/coverage.py. For 0.05 and 5 heats the looks get 0.01, 0.008 and 0.032: quiet races stop at 3 heats,
# others soon after, and the last interval is 16 % wider than without earlier looks. Plans of more than 7 heats
# keep two fifths for the end.
_FIRST_SHARE = 0.2
_NEXT_SHARE = 0.8
_MOST_SPENT_EARLY = 0.6


def alpha_for_look(heats: int, *, planned: int, final: bool, total: float = 0.05, adaptive: bool = True) -> float:
    """Return the error rate for the intervals of a look after `heats` heats per lane, of at most `planned`.

    The last look (at the planned heats, or `final` because the budget is used up) gets what earlier ones left. Without
    an adaptive stop there are no earlier looks, and the only one gets everything.
    """
    _check(heats, planned, total)
    if not adaptive:
        return total
    last = final or heats == planned
    if not last and heats < FIRST_LOOK:
        raise ValueError(f"the first look is after {FIRST_LOOK} heats, not after {heats}")
    shares = _early_shares(planned)
    early = heats - FIRST_LOOK
    return total * (1 - sum(shares[: max(early, 0)])) if last else total * shares[early]


def _early_shares(planned: int) -> list[float]:
    """Divide what the looks before the last may spend, most to the first ones."""
    shares = [_FIRST_SHARE * _NEXT_SHARE**look for look in range(planned - FIRST_LOOK)]
    scale = min(1.0, _MOST_SPENT_EARLY / sum(shares)) if shares else 1.0
    return [share * scale for share in shares]


def _check(heats: int, planned: int, total: float) -> None:
    """Reject a look that is not in the plan."""
    if not 0 < total < 1:
        raise ValueError(f"an error rate between 0 and 1 is needed, not {total}")
    if not 1 <= heats <= planned:
        raise ValueError(f"a look after {heats} heats does not fit a plan of at most {planned}")
