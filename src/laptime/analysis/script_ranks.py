"""How the ranks of a watched training differ: the same iterations of each, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from laptime.analysis.script_loop import ALPHA, BLOCKS, FEWEST_STEADY
from laptime.model.missing import Missing
from laptime.model.script import RankSkew, ScriptProcess, TrainingLoop
from laptime.stats import log_mean_interval

TOO_FEW = Missing(f"fewer than {FEWEST_STEADY} stretches of iterations are common to all ranks")


def compare_ranks(processes: Sequence[ScriptProcess]) -> RankSkew | None:
    """Return how the ranks of a training differ; None where there is one only, or no iteration that all had.

    The interval is that of the mean ratio over blocks of iterations. That the slowest and the fastest were picked
    among all ranks makes it wider.
    """
    loops = {
        each.rank: each.loop
        for each in processes
        if each.rank is not None
        and isinstance(each.loop, TrainingLoop)
        and not isinstance(each.loop.steady.backward_s, Missing)
    }
    edges = _common_edges([*loops.values()])
    if len(loops) < 2 or len(edges) < 2:
        return None
    ranks = tuple(sorted(loops))
    blocks = {rank: _own_ms(loops[rank], edges) for rank in ranks}
    iterations = edges[-1] - edges[0]
    lengths = [last - first for first, last in pairwise(edges)]
    own = {
        rank: sum(ms * count for ms, count in zip(blocks[rank], lengths, strict=True)) / iterations for rank in ranks
    }
    slowest, fastest = max(ranks, key=lambda rank: own[rank]), min(ranks, key=lambda rank: own[rank])
    spread = own[slowest] / own[fastest]
    values = tuple(own[rank] for rank in ranks)
    if len(lengths) < FEWEST_STEADY:
        return RankSkew(ranks, values, slowest, spread, TOO_FEW, TOO_FEW, iterations)
    ratios = [slow / fast for slow, fast in zip(blocks[slowest], blocks[fastest], strict=True)]
    found = log_mean_interval(ratios, ALPHA / (len(ranks) * (len(ranks) - 1)))
    return RankSkew(ranks, values, slowest, spread, min(found.low, spread), max(found.high, spread), iterations)


def _common_edges(loops: Sequence[TrainingLoop]) -> list[int]:
    """Return after how many iterations blocks end that are the same in all ranks, in which all are steady.

    Where one of them becomes steady too late, they are compared from where the first one does.
    """
    if not loops:
        return []
    ends = [[*accumulate(each.iterations for each in loop.windows)] for loop in loops]
    steady = [after[min(loop.steady_from, len(after) - 1)] for loop, after in zip(loops, ends, strict=True)]
    common = sorted(set.intersection(*map(set, ends)))
    edges = [each for each in common if each >= max(steady)]
    if len(edges) <= BLOCKS:
        edges = [each for each in common if each >= min(steady)]
    blocks = min(BLOCKS, len(edges) - 1)
    return [edges[number * (len(edges) - 1) // blocks] for number in range(blocks + 1)] if blocks > 0 else []


def _own_ms(loop: TrainingLoop, edges: Sequence[int]) -> list[float]:
    """Return the mean iteration of each block without the backward pass, in which ranks wait for each other."""
    ends = accumulate(each.iterations for each in loop.windows)
    sums = accumulate(each.wall_ns - each.backward_ns for each in loop.windows)
    until = dict(zip(ends, sums, strict=True))
    return [max(until[last] - until[first], 1) / (last - first) / 1e6 for first, last in pairwise(edges)]
