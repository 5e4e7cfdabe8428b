"""Records of sweeps as literals: a processor that a card overtakes, and one lane over two axes."""

from __future__ import annotations

from dataclasses import replace

import records

from laptime.model.quantities import Bounded, Estimate, Missing
from laptime.model.record import Record
from laptime.questions.sweep.nouns import Crossover, Sweep, SweepAnswer, SweepAxis, SweepCell, SweepCurve, SweepFactor
from laptime.questions.sweep.options import SweepAsk
from laptime.questions.sweep.reduce import RatioPoint, bounded_words, find_crossovers

CPU, CUDA = "torch/cpu/as-written", "torch/cuda:0/as-written"
BATCHES = SweepAxis("batch", ("8", "64", "512"))


def cell(of: str, *at: str, rate: float | None, **more: object) -> SweepCell:
    step_ms = None if rate is None else 1e3 * int(at[0]) / rate
    return replace(SweepCell(of, at, f"{of.rpartition('/')[0]}/batch={at[0]}", step_ms, rate, 1 << 30), **more)


def swept(sweep: Sweep) -> Record:
    names = dict.fromkeys(each.lane for each in sweep.cells if each.lane is not None)
    made = tuple(records.lane(name, 10.0 + number) for number, name in enumerate(names))
    record = records.record(made)
    return replace(
        record, question="sweep", ask=replace(record.ask, sweep=SweepAsk("8,64,512")), answer=SweepAnswer(sweep)
    )


def crossover() -> Record:
    full = {"reason": "OutOfMemoryError: CUDA out of memory", "out_of_memory": True, "memory_bytes": None}
    cells = (
        *(cell(CPU, batch, rate=rate) for batch, rate in zip(BATCHES.values, (617.0, 843.0, 879.0), strict=True)),
        *(cell(CUDA, batch, rate=rate) for batch, rate in zip(BATCHES.values[:2], (646.0, 3082.0), strict=True)),
        cell(CUDA, "512", rate=None, estimated_memory_bytes=26_100_000_000, **full),
    )
    curves = (
        SweepCurve(
            CPU, None, "512", 879.0, "64", None, Bounded(4.0, 3.9, 4.1), {"largest": Missing("all batches fit")}
        ),
        SweepCurve(CUDA, None, "64", 3082.0, None, 496, Bounded(11.2, 11.1, 11.3), {"knee": Missing("it still grows")}),
    )
    says = "torch/cuda:0 overtakes torch/cpu at batch 7.3 (7.2-7.4)."
    return swept(Sweep(says, (BATCHES,), cells, curves, (Crossover(CUDA, CPU, Bounded(7.3, 7.2, 7.4)),)))


def crossed() -> Record:
    """A card that overtakes a processor between two batches, with the intervals of both and of their factor."""
    batches, rates = ("1", "2", "4", "8", "16", "32"), {}
    rates[CPU] = (310.0, 430.0, 540.0, 617.0, 760.0, 843.0)
    rates[CUDA] = (90.0, 178.0, 350.0, 646.0, 1240.0, 2210.0)
    cells = tuple(
        cell(of, batch, rate=rate) for of, each in rates.items() for batch, rate in zip(batches, each, strict=True)
    )
    ratios = [card / cpu for cpu, card in zip(rates[CPU], rates[CUDA], strict=True)]
    factors = tuple(
        SweepFactor(CUDA, CPU, batch, ratio, ratio * 0.94, ratio * 1.06)
        for batch, ratio in zip(batches, ratios, strict=True)
    )
    points = [RatioPoint(float(each.at), each.ratio, each.low, each.high) for each in factors]
    ((at, _),) = find_crossovers(points)
    curves = tuple(SweepCurve(of, None, "32", each[-1], None, None, None) for of, each in rates.items())
    says = f"torch/cuda:0 overtakes torch/cpu at batch {bounded_words(at)}."
    axis = SweepAxis("batch", batches)
    made = swept(Sweep(says, (axis,), cells, curves, (Crossover(CUDA, CPU, at),), factors))
    known = {each.lane: each for each in cells}
    lanes = tuple(
        replace(
            lane,
            heats=(),
            step_ms=Estimate(
                known[lane.name].step_ms, known[lane.name].step_ms * 0.97, known[lane.name].step_ms * 1.03
            ),
            items_per_s=Estimate(
                known[lane.name].items_per_s, known[lane.name].items_per_s * 0.97, known[lane.name].items_per_s * 1.03
            ),
        )
        for lane in made.lanes
    )
    return replace(made, lanes=lanes)


def two_axes() -> Record:
    threads, rates = SweepAxis("threads", ("1", "2", "64")), {"1": 300.0, "2": 600.0, "64": None}
    refused = {"reason": "threads=64: this machine has 2 cores", "lane": None, "memory_bytes": None}
    cells = tuple(
        cell(CPU, batch, value, rate=rates[value], **(refused if value == "64" else {}))
        for batch in BATCHES.values
        for value in threads.values
    )
    unknown = Missing("one round alone gives no interval")
    curves = (
        SweepCurve(CPU, "1", "8", 300.0, "8", None, Bounded(0.4, unknown, unknown)),
        SweepCurve(CPU, "2", "8", 600.0, "8", None, Bounded(0.2, unknown, unknown)),
    )
    return swept(Sweep("torch/cpu is fastest at batch 8 with threads 2.", (BATCHES, threads), cells, curves))


SHOWN = {"crossover": crossover, "two-axes": two_axes}
