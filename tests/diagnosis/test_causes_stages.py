"""Into which stage the time goes: each cause proven by what its removal gains, ruled out by a figure, or not tested."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import CUDA, case_of, lane_of, signs_of, steps_windows, trial
from timelines import CARD, channel

from laptime.model.quantities import Estimate, Missing
from laptime.model.record import Forecast
from laptime.model.sample import Noise
from laptime.model.symptoms import Site
from laptime.questions.why.step_causes import (
    copy_to_device,
    host_waits,
    input_pipeline,
    outside_step,
    several_devices,
    too_little_work,
)

BUSY = channel(CARD, "busy_percent", "%")
LAP_ENDS = steps_windows(*[[*[10.0] * 9, 60.0] * 2] * 5)
BEAT = steps_windows(*[[10.0, 10.0, 40.0] * 6] * 5)
STOPPED = Noise(0.0, 0.5, 120.0)
READS = signs_of(reads=2.0, sites=(Site("train.py:12", ".item()", 2.0),))
BY_CARD = {"loader": 2.0, "copy": 40.0, "compute": 58.0}


def on_card(busy=95.0, **changes):
    return lane_of(100.0, device=CUDA, shown={BUSY: lambda _: busy}, **changes)


def lap_ends():
    return lane_of(15.0, windows=LAP_ENDS)


def hogged():
    return lane_of(100.0, windows=steps_windows(*[[100.0] * 4] * 5, noise=Noise(1.0, 2.0, 0.0)))


def foretold(validation_s):
    train_s = Estimate(900.0, 890.0, 910.0)
    return Forecast(10, 500.0, 2.0, train_s, validation_s, 5.0, train_s)


CASES = {
    "pauses that batches that are ready leave out are proven": (
        outside_step, "proven", "every 10 steps a pause of 50 ms takes 33 % of the time",
        lambda: case_of(lap_ends(), trial("compute", 1.5), stages={"loader": 0.1, "compute": 10.0}),
    ),
    "pauses within the step are likely": (
        outside_step, "likely", "takes 33 % of the time",
        lambda: case_of(lap_ends(), trial("compute", 1.0), stages={"loader": 0.1, "compute": 15.0}),
    ),
    "a quota's stops are the quota's": (
        outside_step, "ruled out", "takes 33 % of the time: so the container's quota stops it, for 40 % of the time",
        lambda: case_of(lane_of(15.0, windows=steps_windows(*[[*[10.0] * 9, 60.0] * 2] * 5, noise=STOPPED))),
    ),
    "a loader's beat is no pause": (
        outside_step, "ruled out", "at no even distances",
        lambda: case_of(lane_of(20.0, windows=BEAT)),
    ),
    "a lap whose end was not seen": (
        outside_step, "not tested", "a lap has 500 steps, and no more than 50 were timed",
        lambda: case_of(lane_of(100.0)),
    ),
    "a validation that takes a tenth of the training": (
        outside_step, "likely", "validation after each lap takes 10 % of the training",
        lambda: case_of(replace(lane_of(100.0), whole=foretold(validation_s=100.0))),
    ),
    "a validation that takes little": (
        outside_step, "not tested", "no end of a lap was seen",
        lambda: case_of(replace(lane_of(100.0), whole=foretold(validation_s=10.0))),
    ),
    "steps that nobody timed": (
        outside_step, "not testable here", "no step of this lane was timed on its own",
        lambda: case_of(lane_of(100.0, windows=without_steps())),
    ),
    "the swap proves the loader": (
        input_pipeline, "proven", "the loader takes 90 % of a step, alone 90 ms of 100 ms; on decoded batches",
        lambda: case_of(lane_of(100.0), trial("decoded", 9.5), stages={"loader": 90.0, "compute": 10.0}),
    ),
    "a loader's share alone is likely": (
        input_pipeline, "likely", "the loader takes 90 % of a step",
        lambda: case_of(lane_of(100.0), stages={"loader": 90.0, "compute": 10.0}),
    ),
    "a loader that is fast": (
        input_pipeline, "ruled out", "the loader takes 2 % of a step (2 ms of 100 ms)",
        lambda: case_of(lane_of(100.0), stages={"loader": 2.0, "compute": 98.0}),
    ),
    "a loader that works while the step computes": (
        input_pipeline, "ruled out", "alone it takes 60 ms of 100 ms, and works while the step computes",
        lambda: case_of(lane_of(100.0), stages={"loader": 60.0, "compute": 99.0}),
    ),
    "a loader that could not be run alone": (
        input_pipeline, "not testable here", "no loader of its own",
        lambda: case_of(lane_of(100.0), trial("decoded", absent="it has no loader of its own")),
    ),
    "batches on the device prove the copy": (
        copy_to_device, "proven", "the copy to the device takes 40 % of a step",
        lambda: case_of(on_card(), trial("compute", 1.7), stages=BY_CARD),
    ),
    "a copy behind a slower loader is likely": (
        copy_to_device, "likely", "the copy to the device takes 20 % of a step",
        lambda: case_of(on_card(), trial("compute", 3.3), stages={"loader": 50.0, "copy": 20.0, "compute": 30.0}),
    ),
    "a copy that is fast, with its rate": (
        copy_to_device, "ruled out", "takes 2 % of a step, at 10 GB/s",
        lambda: case_of(
            on_card(signs=signs_of(copied_bytes=200_000_000, copy_ns=20_000_000)), stages={"copy": 2.0, "compute": 98.0}
        ),
    ),
    "no copy on a processor": (
        copy_to_device, "not testable here", "copies nothing to a device",
        lambda: case_of(lane_of(100.0)),
    ),
    "reads put off prove the waits": (
        host_waits, "proven", "2 times a step, at train.py:12 (.item()); with its reads put off it is 1.80x",
        lambda: case_of(on_card(signs=READS), trial("deferred", 1.8)),
    ),
    "reads that cost nothing": (
        host_waits, "ruled out", "with its reads put off it is 1.00x",
        lambda: case_of(on_card(signs=READS), trial("deferred", 1.0)),
    ),
    "reads alone are likely": (
        host_waits, "likely", "2 times a step",
        lambda: case_of(on_card(signs=READS)),
    ),
    "no reads at all": (
        host_waits, "ruled out", "for no value within a step",
        lambda: case_of(on_card(signs=signs_of(reads=0.0))),
    ),
    "reads that were not counted": (
        host_waits, "not tested", "reads were not counted",
        lambda: case_of(on_card()),
    ),
    "nobody waits on a processor": (
        host_waits, "not testable here", "waits for nothing",
        lambda: case_of(lane_of(100.0, signs=READS)),
    ),
    "twice the batch proves too little work": (
        too_little_work, "proven", "the device is busy for 20 % of the time; at twice the batch it is 1.90x",
        lambda: case_of(on_card(20.0), trial("batch 2x", 1.9), stages={"compute": 100.0}),
    ),
    "a graph proves it on a card": (
        too_little_work, "proven", "as one CUDA graph it is 1.60x",
        lambda: case_of(on_card(20.0), trial("graph", 1.6), stages={"compute": 100.0}),
    ),
    "an idle device makes it likely": (
        too_little_work, "likely", "busy for 20 % of the time",
        lambda: case_of(on_card(20.0), stages={"compute": 100.0}),
    ),
    "a step that grows with its batch": (
        too_little_work, "ruled out", "at twice the batch it is 1.02x",
        lambda: case_of(lane_of(100.0), trial("batch 2x", 1.02)),
    ),
    "little computing, little matter": (
        too_little_work, "ruled out", "computing takes 10 % of a step",
        lambda: case_of(lane_of(100.0), trial("batch 2x", 1.9), stages={"loader": 90.0, "compute": 10.0}),
    ),
    "neighbours slow each step alike, so that it is likely only": (
        too_little_work, "likely", "but other processes take 1 core",
        lambda: case_of(hogged(), trial("batch 2x", 1.5)),
    ),
    "threads that gain more explain it": (
        too_little_work, "likely", "but other threads gain more",
        lambda: case_of(lane_of(100.0), trial("batch 2x", 1.5), trial("threads", 5.0)),
    ),
    "no budget for a batch": (
        too_little_work, "not tested", "the budget had no room for it",
        lambda: case_of(lane_of(100.0), trial("batch 2x", reason="the budget had no room for it")),
    ),
    "too few heats for a batch": (
        too_little_work, "not tested", "too few heats to tell",
        lambda: case_of(lane_of(100.0), trial("batch 2x", 1.1, 0.5)),
    ),
    "one device": (
        several_devices, "not testable here", "trains on one device (cpu)",
        lambda: case_of(lane_of(100.0)),
    ),
}  # fmt: skip


def without_steps():
    return tuple(replace(each, step_ns=()) for each in steps_windows(*[[100.0] * 4] * 5))


@pytest.mark.parametrize("name", CASES)
def test_a_cause_stands_as_its_figures_say(name):
    rule, standing, says, make = CASES[name]
    verdict = rule(make())
    assert (verdict.standing, says in verdict.says or verdict.says) == (standing, True)


def test_a_proven_cause_says_what_its_removal_gains():
    """The factor of the experiment, with its interval in the evidence and its lane by name."""
    verdict = input_pipeline(case_of(lane_of(100.0), trial("decoded", 9.5), stages={"loader": 90.0, "compute": 10.0}))
    assert verdict.gain == 9.5
    assert verdict.lanes == ("torch/cpu/decoded",)
    assert verdict.evidence["experiments"]["decoded"] == pytest.approx([9.5, 9.31, 9.69])


def test_what_is_ruled_out_gains_nothing():
    verdict = input_pipeline(case_of(lane_of(100.0), stages={"loader": 2.0, "compute": 98.0}))
    assert isinstance(verdict.gain, Missing)
    assert verdict.evidence["share"] == pytest.approx(0.02)
