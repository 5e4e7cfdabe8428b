"""A busy machine: an inference's calls, a size of batch, or sizes that contradict each other; and a watched run."""

from __future__ import annotations

import pytest
from timelines import channel, timeline

from laptime.analysis.diagnosis.findings import judge_answers, judge_run
from laptime.analysis.usage import Span
from laptime.model.process import ProcessRun
from laptime.model.protocol import BatchRun, InferHeat
from laptime.model.record import NOT_RELIABLE
from laptime.model.sample import Window
from laptime.questions.infer.reduce import describe_answers

MS = 1_000_000
OTHERS = "other processes took 1.00 cores"


def run_of(batch, call_ms, flag=None):
    return BatchRun(batch, tuple(Window(at * MS, (at + 10 * call_ms) * MS, 10, flag=flag) for at in range(0, 500, 100)))


def heat(*runs, calls_flag=None):
    process = ProcessRun("torch/cpu/best", "ok", phases_s={})
    return InferHeat(process, 0, 0, 1, 10 * MS, (10 * MS,) * 20, batches=runs, calls_flag=calls_flag)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (heat(run_of(1, 10), run_of(8, 12), run_of(64, 40)), None),
        (
            heat(run_of(1, 10), run_of(8, 12), run_of(64, 40), calls_flag=OTHERS),
            f"1 of 1 windows of the single calls of torch/cpu/best that count were disturbed ({OTHERS}).",
        ),
        (
            heat(run_of(1, 10), run_of(8, 12), run_of(32, 20), run_of(64, 40, OTHERS)),
            f"5 of 5 windows of torch/cpu/best at batch 64 that count were disturbed ({OTHERS}).",
        ),
        (
            heat(run_of(1, 22), run_of(8, 2), run_of(64, 40)),
            "torch/cpu/best: a call of 1 took 11.0 times as long as one of 8, which its work does not explain.",
        ),
    ],
)
def test_what_was_disturbed_is_named(given, says):
    """Though most windows of the lane were quiet."""
    found = judge_answers(describe_answers("torch/cpu/best", [given]))
    assert (found.says if found else None) == says
    assert found is None or (found.rule, found.advice) == (NOT_RELIABLE, "Ask again while the machine is quiet.")


@pytest.mark.parametrize(("ours", "all_", "is_found"), [(1.0, 1.6, False), (1.0, 1.97, True), (1.9, 1.95, False)])
def test_what_others_take_of_idle_cores_takes_nothing_from_a_run(ours, all_, is_found):
    """A script with one thread, next to another program, on two cores."""
    busy = {
        channel("heat", "busy_s", "s", "counter"): lambda at: ours * at,
        channel("host", "busy_s", "s", "counter"): lambda at: all_ * at,
    }
    found = judge_run(timeline(busy), Span(0.0, 10.0), "train.py", 2)
    assert bool(found) is is_found
    if found:
        assert found[0].says == "while train.py ran, other processes took 0.97 of 2 cores."


@pytest.mark.parametrize(("all_", "is_found"), [(1.97, False), (3.95, True)])
def test_what_others_take_of_cores_that_are_not_ours_takes_nothing_from_a_run(all_, is_found):
    """A script on one core of four, all of which the machine counts."""
    seen = {
        channel("heat", "busy_s", "s", "counter"): lambda at: 0.5 * at,
        channel("host", "busy_s", "s", "counter"): lambda at: all_ * at,
        channel("host", "cores_online", "cores"): lambda _at: 4.0,
    }
    assert bool(judge_run(timeline(seen), Span(0.0, 10.0), "train.py", 1)) is is_found
