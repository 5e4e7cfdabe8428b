"""Records of whole trainings as literals."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean

from records import BEST, FIRST, record

from laptime.analysis.heats import estimate
from laptime.model.ask import Ask
from laptime.model.plan import Subject
from laptime.model.process import Dnf, ProcessRun
from laptime.model.protocol import (
    Evaluation,
    FullRun,
    LapFactor,
    LapResult,
    Predictions,
    Protocol,
    Reached,
    Score,
)
from laptime.model.quantities import Missing
from laptime.model.record import Finding, LaneResult, Record, TrainingAnswer
from laptime.questions.train.options import FullAsk
from laptime.questions.train.reduce import later_laps

ORDER = "one lane after another, as they were named: each has the machine to itself"
PROTOCOL = Protocol(3, 500, 1_000, 10_000, 20, until_accuracy=0.65)
ONE = Missing("one training of each gives no interval")
TRUTH = (
    (3,),
    (8,),
    (8,),
    (0,),
    (6,),
    (6,),
    (1,),
    (6,),
    (3,),
    (1,),
    (0,),
    (9,),
    (5,),
    (7,),
    (9,),
    (8,),
    (5,),
    (7,),
    (8,),
    (6,),
)
GUESS = (*TRUTH[:4], (4,), *TRUTH[5:])


def laps(*times_s: float, seen: bool = True, whole: bool = False) -> tuple[LapResult, ...]:
    """Return laps in which the loss falls by a fifth each."""
    made = []
    for place, train_s in enumerate(times_s):
        loss, accuracy = 1.6 * 0.8**place, 1 - 0.55 * 0.8**place
        share = accuracy**4 if whole else Missing("an item has one label")
        validation = Evaluation(Score(1_000, loss * 0.9, accuracy + 0.03, share), 2.1) if seen else None
        made.append(
            LapResult(place + 1, 500, train_s, Score(50_000, loss, accuracy, share), place == 0, validation, 0.05)
        )
    return tuple(made)


def run(lane: str, order: int, *times_s: float, **changes: object) -> FullRun:
    made = FullRun(
        process=ProcessRun(lane, "ok"),
        seed=0,
        order=order,
        laps=laps(*times_s),
        test=Evaluation(Score(10_000, 1.0243 + 0.0005 * order, 0.6481 - 0.001 * order), 14.2),
        predictions=Predictions(GUESS, TRUTH),
        reached=Reached(0.65, 0.678, 3, sum(times_s[:3])),
        processes=1,
    )
    of_process = {name: changes.pop(name) for name in ("status", "dnf", "notes", "versions") if name in changes}
    return replace(made, process=replace(made.process, **of_process), **changes)


def full(runs: tuple[FullRun, ...], factors: tuple[LapFactor, ...] = (), **changes: object) -> Record:
    race = TrainingAnswer(changes.pop("protocol", PROTOCOL), changes.pop("order", ORDER), runs, factors)
    given = {"question": "full", "answer": race, "ask": Ask(full=FullAsk(laps=3)), "elapsed_s": 331.0, **changes}
    lanes = given.pop("lanes", tuple(replace(lane, heats=()) for lane in (FIRST, BEST)))
    return record(tuple(_with_lap(lane, runs) for lane in lanes), **given)


def _with_lap(lane: LaneResult, runs: tuple[FullRun, ...]) -> LaneResult:
    """Return the lane with the lap of its trainings, as `summarise_full_lane` has it."""
    means = [mean(lap.train_s for lap in later_laps(run)) for run in runs if run.process.lane == lane.name and run.laps]
    return replace(lane, lap_s=estimate(means)) if means else lane


FACTOR = LapFactor("torch/cpu/best", "torch/cpu/as-written", 1.637, 1.584, ONE, ONE, same_work=True)


def whole() -> Record:
    """Two lanes trained whole; the same learning, and a factor."""
    runs = (run("torch/cpu/as-written", 0, 52.4, 51.3, 51.9), run("torch/cpu/best", 1, 33.1, 31.4, 31.7))
    return full(runs, (FACTOR,))


def broken() -> Record:
    """One lane lost its way in the second lap, the other was interrupted and taken up once before."""
    nan = Missing("the loss became nan")
    lost = replace(laps(52.4, 51.3)[1], score=Score(50_000, nan, 0.1), validation=None, checkpoint_s=Missing("lost"))
    dnf = Dnf("lap 2", "the loss became nan in lap 2: this lane does not learn", None, 1, 812_000_000)
    first = run("torch/cpu/as-written", 0, 52.4, status="dnf", dnf=dnf, test=None, predictions=None)
    first = replace(first, laps=(*first.laps, lost), reached=Reached(0.65, 0.48))
    other = run("torch/cpu/best", 1, 33.1, 31.4, status="interrupted", processes=2, test=None, predictions=None)
    other = replace(other, reached=Reached(0.65, 0.59))
    lanes = (replace(FIRST, status="dnf", reason=dnf.reason, heats=()), replace(BEST, heats=()))
    return full((first, other), (), lanes=lanes, status="interrupted")


def seeds() -> Record:
    """Two seeds a lane, whose learning differs; plates, with two accuracies."""
    plates = Subject("plates-cnn", "licence plates", 264_560, 128, 821, 10, "images")
    runs = tuple(
        replace(
            run(lane, order, test=None, predictions=None, reached=None),
            laps=laps(first_s, later_s, seen=True, whole=True),
            seed=seed,
        )
        for order, (lane, seed, first_s, later_s) in enumerate(
            (
                ("torch/cpu/as-written", 0, 123.0, 121.0),
                ("torch/cpu/best", 0, 71.0, 60.1),
                ("torch/cpu/best", 1, 72.0, 60.4),
                ("torch/cpu/as-written", 1, 124.0, 121.5),
            )
        )
    )
    says = (
        "learning differs: torch/cpu/best ends at an accuracy of 0.5211, torch/cpu/as-written at 0.5712; "
        "they differ by 0.0501, and 2 seeds do not explain it (Welch's t 9.1, by chance 4.3)."
    )
    return full(
        runs,
        (replace(FACTOR, later_laps=2.013, low=1.95, high=2.08),),
        workload=plates,
        published=None,
        protocol=Protocol(2, 821, 76_000, seeds=2),
        order="one training after another, seed by seed",
        findings=(Finding("learning", says, {}, "", "likely"),),
    )


def own() -> Record:
    """A person's own training: no validation, no test."""
    subject = Subject("my.py:training", "my.py:training", None, None, None, None, "items", "my.py", "training")
    made = run("torch/cpu/as-written", 0, test=None, predictions=None, reached=None)
    return full(
        (replace(made, laps=laps(0.431, 0.0944, seen=False)),),
        workload=subject,
        published=None,
        protocol=Protocol(2, None),
        lanes=(replace(FIRST, heats=()),),
    )


SHOWN = {"whole": whole, "broken": broken, "seeds": seeds, "own": own}
