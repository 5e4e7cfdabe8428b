"""Records of scales as literals: an exchange that nothing hides, a slow rank, and cards that one process uses."""

from __future__ import annotations

from dataclasses import replace

import records
from measured import with_heat

from laptime.model.ask import Ask
from laptime.model.process import Collectives, Exchange, RankReport
from laptime.model.quantities import Bounded, Missing
from laptime.model.record import Record
from laptime.questions.scale.nouns import (
    HeldOut,
    LinkCost,
    LostPart,
    LostTime,
    ProfiledExchange,
    Projection,
    RankRow,
    ScaleAnswer,
    ScaleCurve,
    ScaleLane,
    ScalePoint,
    Scaling,
    Straggler,
    say_curve,
)
from laptime.questions.scale.options import ScaleAsk

BY = "torch.profiler of PyTorch 2.13.0"
ONE_ROUND = Missing("one round alone gives no interval")


def bounded(value: float, half: float | None = 0.03) -> Bounded:
    return Bounded(value, ONE_ROUND, ONE_ROUND) if half is None else Bounded(value, value - half, value + half)


def point(devices: int, speedup: float, step_ms: float, name: str) -> ScalePoint:
    return ScalePoint(devices, name, step_ms, 100 * devices, bounded(speedup, 0.0 if devices == 1 else 0.03))


def lost(devices: int, lane: str, first: str, slow: Straggler | None = None, **shares: float) -> LostTime:
    parts = tuple(LostPart(name.replace("_", " "), bounded(share, 0.01)) for name, share in shares.items())
    return LostTime(devices, lane, parts, slow, first)


def scale(curve: ScaleCurve, *names: str, ranks: tuple[RankRow, ...] = (), **asked: object) -> Record:
    """Return a finished record of one curve."""
    lanes = tuple(
        replace(records.lane(name, step_ms), devices=(records.CUDA,) * count)
        for name, step_ms, count in zip(names, (20.0, 24.0, 30.0), (0, 2, 4), strict=False)
    )
    kind = lanes[0].device.kind
    roles = tuple(ScaleLane(curve.of, curve.mode, "several", each.devices, each.lane) for each in curve.points)
    answer = ScaleAnswer(roles, (), Scaling(say_curve(curve, kind), (curve,), ranks))
    made = records.record(lanes)
    return replace(made, question="scale", answer=answer, ask=Ask("cifar-cnn", (curve.of,), scale=ScaleAsk(**asked)))


def exchange() -> Record:
    """Four cards, most of whose loss is an exchange; the largest count was held out."""
    one, two, four = "torch/cuda:0/as-written", "torch/2xcuda/weak", "torch/4xcuda/weak"
    curve = ScaleCurve(
        "torch/cuda", "weak", (point(1, 1.0, 20.0, one), point(2, 1.67, 24.0, two), point(4, 2.67, 30.0, four)),
        lost(4, four, "exchange", computing=0.66, exchange=0.31, host=0.02, waiting=0.006, straggler=0.004),
        LinkCost(12.0, 21.3, 5_348_008, 1.4),
        (Projection(8, bounded(5.1, 0.3), "exchange"), Projection(32, bounded(16.4, 3.1), "exchange")),
        HeldOut(4, 2.75, 2.67), profiled=ProfiledExchange(BY, bounded(0.42), bounded(0.33)),
    )  # fmt: skip
    ranks = tuple(RankRow(four, rank, f"cuda:{rank}", "node-1", 310.0 + rank, 2 << 30, 3 << 30) for rank in range(4))
    return scale(curve, one, two, four, ranks=ranks, devices=(1, 2, 4))


def slow_rank() -> Record:
    """Two processes, of which one had no core for a fifth of its time; one process on all cores is faster."""
    one, two = "torch/cpu/threads=1", "torch/2xcpu/threads=1+weak"
    slow = Straggler(1, "cpu", "node-1", 0.22, 0.2, 0.1)
    curve = ScaleCurve(
        "torch/cpu", "weak", (point(1, 1.0, 20.0, one), point(2, 1.6, 25.0, two)),
        lost(2, two, "straggler", slow, computing=0.8, straggler=0.15, exchange=0.05),
        LinkCost(40.0, 1.2, 5_348_008, -0.4), (Projection(4, bounded(2.9, 0.2), "straggler"),), None,
        point(1, 1.9, 10.5, "torch/cpu/threads=2"),
        {"held_out": Missing("the smaller counts are one device alone: none could be held out")},
        ProfiledExchange(BY, bounded(0.4, None), bounded(0.34, None)),
    )  # fmt: skip
    ranks = (RankRow(two, 0, "cpu", "node-1", 41.0, 300 << 20, Missing("the processor's memory is the process's own")),)
    return scale(curve, one, two, ranks=ranks)


def one_process() -> Record:
    """Two cards of DataParallel: the loss cannot be taken apart."""
    one, two = "torch/cuda:0/as-written", "torch/2xcuda/dp"
    absent = {
        "lost": Missing("its devices are used by one process, whose exchange cannot be left out"),
        "link": Missing("what the devices exchange was not timed alone"),
        "beyond": Missing("what the devices exchange was not timed alone"),
        "held_out": Missing("none could be held out"),
        "profiled": Missing("its devices are used by one process, and only ranks are profiled"),
    }
    curve = ScaleCurve(
        "torch/cuda/dp", "strong", (point(1, 1.0, 20.0, one), ScalePoint(2, two, None, None, None, "out of memory")),
        absent=absent,
    )  # fmt: skip
    return scale(curve, one, two, growth=("strong",))


def of_heats() -> Record:
    """A record whose heats hold what each rank reported."""
    made = exchange()
    report = RankReport(
        1, "cuda:1", "node-1", 310_000_000, 2 << 30, Missing("not told"), 0.4, 2.0, Collectives(BY, 8, 3e7, 1.2e7, 1e7)
    )
    heats = tuple(with_heat(each, ranks=(report,), exchanges=(Exchange(4, 24e3),)) for each in made.lanes[2].heats)
    return replace(made, lanes=(*made.lanes[:2], replace(made.lanes[2], heats=heats)))


SHOWN = {"exchange": exchange, "slow-rank": slow_rank, "one-process": one_process, "heats": of_heats}
