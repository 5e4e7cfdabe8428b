"""What a lane of a tuning has learned after its whole laps, from trainings as literals."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.process import Dnf, ProcessRun
from laptime.model.protocol import Evaluation, FullRun, LapResult, Protocol, Score
from laptime.model.quantities import Missing
from laptime.questions.tune.run import describe_learned

PROTOCOL = Protocol(2, 500)
LAPS = tuple(LapResult(number, 500, 9.0, Score(50_000, 1.6 / number, 0.3 * number)) for number in (1, 2))
RUN = FullRun(ProcessRun("torch/cpu/fused", "ok"), seed=0, order=0, laps=LAPS)


def figures(run):
    found = describe_learned(run, PROTOCOL)
    return (found.laps, found.over, found.items, found.loss, found.accuracy)


def test_the_test_counts_else_the_validation_else_the_lap_itself():
    seen = Evaluation(Score(1_000, 0.7, 0.65), 1.0)
    validated = replace(RUN, laps=(LAPS[0], replace(LAPS[1], validation=seen)))
    tested = replace(validated, test=Evaluation(Score(10_000, 0.75, 0.62), 9.0))
    assert figures(tested) == (2, "test", 10_000, 0.75, 0.62)
    assert figures(validated) == (2, "validation", 1_000, 0.7, 0.65)
    assert figures(RUN) == (2, "training", 50_000, 0.8, 0.6)


def test_a_training_without_an_end_has_its_reason():
    stopped = replace(RUN, process=ProcessRun("torch/cpu/fused", "interrupted"), laps=LAPS[:1])
    why = Missing("it ended in lap 2 of 2: it was stopped")
    assert figures(stopped) == (1, "training", 0, why, why)
    failed = replace(stopped, process=ProcessRun("torch/cpu/fused", "dnf", dnf=Dnf("lap 2", "no memory")))
    assert figures(failed)[3] == Missing("it ended in lap 2 of 2: no memory")
