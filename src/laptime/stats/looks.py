"""How strict each look at a growing race must be, so that stopping early keeps the error rate.

A race is examined after every round of heats and stops when its intervals are narrow enough. Each look is a chance to
be wrong, so each spends a share of the error rate. By the union bound the shares may not add up to more than the whole,
whatever the rule for stopping. The rate holds for each ratio separately, as long as what ends a race early (a time
budget) does not depend on the ratio.
"""

from __future__ import annotations

FIRST_LOOK = 3

# Each look before the last gets the same small share. A race on a quiet machine (a spread of 0.5 % from round to round)
# stops at 4 rounds, one of 1.5 % at 5; a noisy race, which needs all its rounds, keeps most for the last look:
# its interval of 7 rounds is 5 % wider than without looks. Checked by bench/coverage.py.
_EARLY_SHARE = 0.04
_MOST_SPENT_EARLY = 0.24


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
    """Divide what the looks before the last may spend: equally, and not too much in all."""
    looks = planned - FIRST_LOOK
    return [min(_EARLY_SHARE, _MOST_SPENT_EARLY / looks)] * looks if looks > 0 else []


def _check(heats: int, planned: int, total: float) -> None:
    """Reject a look that is not in the plan."""
    if not 0 < total < 1:
        raise ValueError(f"an error rate between 0 and 1 is needed, not {total}")
    if not 1 <= heats <= planned:
        raise ValueError(f"a look after {heats} heats does not fit a plan of at most {planned}")
