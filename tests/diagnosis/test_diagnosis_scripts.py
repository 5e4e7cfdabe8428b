"""What is conspicuous in a watched script: each rule where it holds, and where it has to be silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from cases import MACHINE
from watched_cases import TEN, UNSEEN, changed, found, watched

from laptime.analysis.diagnosis.script_findings import script_findings
from laptime.analysis.diagnosis.script_gains import Room, by_workers
from laptime.model.quantities import Estimate, Missing
from laptime.model.sample import Energy, Usage
from laptime.model.script import (
    Gap,
    GrowingList,
    LoopWindow,
    MemoryTrend,
    RankSkew,
    SeenLine,
    SeenLoader,
    SeenOptimizer,
    SeenReads,
)
from laptime.model.symptoms import DenormalCensus, TimedPlace
from laptime.model.watched import WatchAnswer

SKEW = RankSkew((0, 1), (2.0, 3.0), 1, 1.5, 1.4, 1.6, 300)


def test_a_straggler_has_an_interval_above_1() -> None:
    """With one, it is named; where the interval has 1 in it or is not known, or the factor is small, it is not."""
    answer = WatchAnswer(("torchrun",), 0, 1.0, skew=SKEW)
    assert "1.5 times (1.4 to 1.6) as long" in found(answer)["script straggler"].says
    for other in (replace(SKEW, low=0.9), replace(SKEW, low=Missing("too few")), replace(SKEW, spread=1.1)):
        assert "script straggler" not in found(replace(answer, skew=other))


def test_no_more_workers_are_advised_than_there_are_cores() -> None:
    cores = MACHINE.processor.cores_usable
    counts = (0, 1, cores, 2 * cores)
    advice = [found(watched(count, TEN, data_wait_s=0.005))["script waits for data"].advice for count in counts]
    assert "num_workers=2" in advice[0]
    assert advice[1].startswith("Try more workers")
    for count, words in zip(counts[2:], advice[2:], strict=True):
        assert words.startswith(f"{count} workers and the training share {cores} cores: more of them gain nothing.")


@pytest.mark.parametrize(
    ("kind", "begins"),
    [("PyDatasetAdapter", "give your PyDataset"), ("GeneratorDataAdapter", "make your generator a PyDataset with")],
)
def test_data_of_keras_are_fetched_ahead_by_its_own_workers(kind: str, begins: str) -> None:
    """On PyTorch, Keras reads them by a DataLoader of its own, on whose workers a script has no say."""
    answer = watched(0, Estimate(10.0, 9.0, 11.0), data_wait_s=0.005)
    (process,) = answer.processes
    own = SeenLoader(None, None, None, kind=kind)
    answer = replace(answer, processes=(replace(process, loaders=(own, *process.loaders)),))
    assert found(answer)["script waits for data"].advice == (
        f"Fetch ahead: {begins} workers=2, use_multiprocessing=True."
    )


def test_a_thread_that_always_makes_batches_bounds_the_training_though_no_step_waits() -> None:
    """Plain Python in it keeps the lock that the step needs; a wait of most of a step says it already."""
    answer = watched(0, TEN, data_wait_s=0.0001)
    (process,) = answer.processes
    for made, wait_s, begins in (
        (0.96, 0.0001, "A thread makes batches for 96 % of an iteration"),
        (0.96, 0.008, "80 % of an iteration is waiting for data"),
        (0.6, 0.0001, None),
    ):
        loop = replace(process.loop, made_share=made, steady=replace(process.loop.steady, data_wait_s=wait_s))
        judged = found(changed(answer, loop=loop)).get("script waits for data")
        assert (judged is None) == (begins is None)
        assert judged is None or judged.says.startswith(begins)


def test_few_iterations_show_nothing() -> None:
    """One iteration that waited is no finding; enough of them are."""
    parts = {"data_wait_s": 0.004, "outside_s": 0.003, "no_grad_s": 0.003}
    assert found(watched(0, None, **parts)) == {}
    assert found(watched(0, TEN, **parts)).keys() == {
        "script waits for data", "script outside the step", "script without gradients"
    }  # fmt: skip


def test_what_takes_the_most_is_first() -> None:
    """A loop that reads its loss, and waits a little; the time between iterations counts against theirs."""
    waits, outside, validates = "script waits for data", "script outside the step", "script between iterations"
    answer = watched(0, TEN, data_wait_s=0.0025, outside_s=0.0065)
    assert list(found(answer)) == [outside, waits]
    for seconds, first in ((0.004, outside), (0.02, validates)):
        process = answer.processes[0]
        loop = replace(process.loop, gaps=(Gap("validation", 1, seconds),))
        assert next(iter(found(replace(answer, processes=(replace(process, loop=loop),))))) == first


def test_what_else_is_between_iterations_is_named_with_its_share() -> None:
    """Metrics after a validation, for example. Alone, it has no name; where workers start again, it is their time."""

    def says(*gaps: Gap, **told: Any) -> str | None:
        (process,) = watched(0, TEN).processes
        loop = replace(process.loop, gaps=gaps, **told)
        named = found(WatchAnswer(("python",), 0, 1.0, (replace(process, loop=loop),)))
        return named["script between iterations"].says if "script between iterations" in named else None

    other = Gap("between epochs", 2, 0.04)
    both = "88 % of the time is between iterations: 38 % validation, 50 % other work."
    assert says(Gap("validation", 1, 0.03), other) == both
    assert says(Gap("validation", 1, 0.03), other, restarts_s=0.01) == (
        "38 % of the time is validation, between iterations."
    )
    assert says(Gap("between epochs", 2, 0.8)) == (
        "99 % of the time is between iterations, and neither validation nor checkpoints."
    )
    assert says(other) is None  # 40 ms of a training of 50
    assert says(Gap("between epochs", 1, 0.002)) is None


def test_workers_that_start_again_are_named_with_the_wait_for_them() -> None:
    """Before the wait for data that they cause; not where they are kept, or where there are none."""
    restarts, waits = "script restarts workers", "script waits for data"
    (process,) = watched(2, TEN, data_wait_s=0.006).processes
    loop = replace(process.loop, gaps=(Gap("loader start", 3, 0.002),), restarts_s=0.0075)

    def named(workers: int = 2, *, keeps_workers: bool | None) -> list[str]:
        loader = SeenLoader(8, 10, workers, keeps_workers=keeps_workers)
        return list(found(WatchAnswer(("python",), 0, 1.0, (replace(process, loop=loop, loaders=(loader,)),))))

    assert named(keeps_workers=False) == [restarts, waits]
    assert named(keeps_workers=True) == [waits]
    assert named(0, keeps_workers=None) == [waits]


def test_checkpoints_within_the_steps_are_named() -> None:
    """One that takes a twentieth of the time is not."""
    assert "60 % of an iteration" in found(watched(0, TEN, checkpoint_s=0.006))["script saves in its steps"].says
    assert found(watched(0, TEN, checkpoint_s=0.0005)) == {}


def test_float64_is_named_behind_what_takes_more_than_it_can_save() -> None:
    """Half of what computes could be saved; a loader that takes most of the time is first."""
    for data_wait_s, computing_s, order in (
        (0.002, 0.008, ["script in float64", "script waits for data"]),
        (0.006, 0.004, ["script waits for data", "script in float64"]),
    ):
        answer = watched(0, TEN, data_wait_s=data_wait_s, forward_backward_s=computing_s)
        for types, names in (("float64",), order), (("float32",), ["script waits for data"]):
            process = replace(answer.processes[0], optimizers=(SeenOptimizer("SGD", {"cpu": 10}, types),))
            assert list(found(replace(answer, processes=(process,)))) == names


def test_iterations_that_become_slow_where_others_took_the_cores_are_not_the_scripts_doing() -> None:
    """Unless its numbers are denormal: no other process does that."""
    slow = "steps that become slow"
    answer = watched(0, TEN, forward_backward_s=0.01)
    process = answer.processes[0]
    windows = tuple(window(at, 10 if at < 30 else 100) for at in range(60))
    process = replace(process, loop=replace(process.loop, windows=windows))
    answer = replace(answer, processes=(process,))
    assert slow in found(answer)
    assert slow not in found(answer, is_quiet=False)
    census = DenormalCensus({"weights": 0.5}, ("float32",), step=30)
    answer = replace(answer, processes=(replace(process, census=census),))
    assert "50 % of the weights are denormal numbers" in found(answer, is_quiet=False)[slow].says


def window(number: int, length_ms: int) -> LoopWindow:
    nothing = (0,) * 7
    at, length = number * 100_000_000, length_ms * 1_000_000
    return LoopWindow(at, at + length, length, 1, *nothing, length, length)


# The lines of the script in the sentences.

GROWS, STAYS = MemoryTrend(2e6, 1e6, 3e6, 100, 900, grows=True), MemoryTrend(1e3, -1e3, 3e3, 100, 101, grows=False)


def test_a_line_that_takes_much_of_a_part_is_named_with_its_share() -> None:
    """That of the part alone; one that takes less than a third is not."""
    answer = watched(0, TEN, data_wait_s=0.008)
    lines = (SeenLine("train.py:9", "data", 0.9), SeenLine("train.py:30", "outside", 0.95))
    waits = found(changed(answer, lines=lines))["script waits for data"]
    assert (waits.says, waits.where) == (
        "80 % of an iteration is waiting for data, 90 % of it in train.py:9.", "train.py:9"
    )  # fmt: skip
    spread = found(changed(answer, lines=(SeenLine("train.py:9", "data", 0.2),)))["script waits for data"]
    assert (spread.says, spread.where) == ("80 % of an iteration is waiting for data.", None)


def test_outside_of_the_step_a_line_that_reads_tensors_is_told_from_one_that_waits() -> None:
    answer = changed(watched(0, TEN, outside_s=0.007), lines=(SeenLine("train.py:30", "outside", 0.95),))
    says = found(answer)["script outside the step"].says
    assert "95 % of it in train.py:30: logging, metrics, or reading the loss" in says
    reads = found(changed(answer, reads=(SeenReads("train.py:30", 200, 0.1),)))["script outside the step"]
    assert "95 % of it in train.py:30: it reads 200 values of tensors" in reads.says
    assert reads.evidence["reads"] == 200


def test_a_line_that_waits_is_named_where_no_part_has_its_name() -> None:
    """In a loop without a loader, a logger is seen in what precedes the next backward pass. Python that computes there
    is the training's own; what waits in another part is that part's.
    """
    answer = watched(0, TEN, forward_backward_s=0.009, backward_s=0.003)
    logs = SeenLine("train.py:30", "forward", 0.7, waited=0.5), SeenLine("train.py:9", "forward", 0.3)
    still = found(changed(answer, lines=logs))["script waits in a line"]
    assert (still.says, still.where) == (
        "30 % of an iteration, train.py:30 waits, and nothing is computed.", "train.py:30"
    )  # fmt: skip
    for lines in (logs[1:], (SeenLine("train.py:30", "backward", 0.9, waited=0.9),)):
        assert "script waits in a line" not in found(changed(answer, lines=lines))


def test_a_read_that_waits_for_a_card_is_named_and_on_a_processor_it_waits_for_nothing() -> None:
    answer = changed(watched(0, TEN), reads=(SeenReads("train.py:12", 1, 4.0), SeenReads("train.py:3", 9, 0.1)))
    for device, rules in (("cuda:0", ["script reads in each step"]), ("cpu", [])):
        here = changed(answer, optimizers=(SeenOptimizer("SGD", {device: 10}, ("float32",)),))
        judged = {name: each for name, each in found(here).items() if name != "script on processor"}
        assert list(judged) == rules
        for each in judged.values():
            assert each.says == (
                "40 % of an iteration is waiting for the card in train.py:12, which reads 1 value of tensors in a step."
            )


def test_evaluation_checkpoints_and_float64_have_their_lines() -> None:
    within = (TimedPlace(None, "checkpoints", 1, 9), TimedPlace("train.py:7", "evaluation", 3, 5))
    between = (TimedPlace("train.py:8", "evaluation", 3, 5),)
    answer = changed(watched(0, TEN, no_grad_s=0.003, checkpoint_s=0.003), places=within, between=between)
    judged = found(answer)
    assert judged["script without gradients"].where == "train.py:7"
    assert judged["script without gradients"].says.endswith("evaluation, or metrics (train.py:7).")
    assert judged["script saves in its steps"].where is None
    loop = replace(answer.processes[0].loop, gaps=(Gap("validation", 1, 0.02),))
    assert found(changed(answer, loop=loop))["script between iterations"].where == "train.py:8"
    double = (SeenOptimizer("SGD", {"cpu": 10}, ("float64",)),)
    answer = watched(0, TEN, forward_backward_s=0.009)
    says = found(changed(answer, optimizers=double, double_at="net.py:3"))["script in float64"].says
    assert says.startswith("It computes in float64 since net.py:3, in 90 % of an iteration")


def used(answer: WatchAnswer, percent: float) -> WatchAnswer:
    usage = Usage(percent, *[UNSEEN] * 5, "processor", *[UNSEEN] * 3, Energy("processor", *[UNSEEN] * 5))
    return replace(answer, usage=usage)


@pytest.mark.parametrize(
    ("waits", "busy", "likely", "most"),
    [
        (0.5, 50.0, 1.887, 1 / 0.43),
        (0.5, 75.0, 1.282, 1 / 0.43),
        (0.5, 97.0, 1.176, 1 / 0.43),
        (0.12, 50.0, None, None),
    ],
    ids=["cores are free", "few are free", "none is free", "it waits little"],
)
def test_workers_gain_the_wait_as_far_as_there_are_cores_for_them(waits, busy, likely, most) -> None:
    """They were advised from 6 % of waiting on, and on two busy cores, where they gained nothing."""
    judged = found(used(watched(0, TEN, data_wait_s=waits / 100), busy))
    if likely is None:
        assert judged == {}
        return
    gain = judged["script waits for data"].gain
    assert (gain.likely, gain.most) == (pytest.approx(likely, abs=1e-3), pytest.approx(most))


def test_where_no_core_is_free_the_line_that_loads_is_to_be_faster() -> None:
    """On one core nothing was said of a collate function that took 70 % of each iteration."""
    lines = (SeenLine("data.py:8", "data", 0.8),)
    answer = changed(used(watched(0, TEN, data_wait_s=0.006), 97.0), lines=lines)
    (judged,) = found(answer).values()
    assert judged.where == "data.py:8"
    assert judged.says == "60 % of an iteration is waiting for data, 80 % of it in data.py:8."
    assert judged.advice.startswith("Worker processes would gain little here. Make this line faster")
    likely, most = 1 / (1 - 0.7 * 0.8 * 0.6), 1 / (1 - 1.1 * 0.6 - 0.02)
    assert (judged.gain.likely, judged.gain.most) == (pytest.approx(likely), pytest.approx(most))
    of_library = (replace(lines[0], calls=("for", "enumerate")),)
    (kept,) = found(changed(answer, lines=of_library)).values()
    assert "laptime.cached(dataset) keeps its items" in kept.advice, "the loop over a loader loads nothing itself"
    streams = tuple(replace(each, is_iterable=True) for each in answer.processes[0].loaders)
    assert found(changed(answer, lines=of_library, loaders=streams)) == {}, "and a stream has no items to keep"
    assert "worker" in found(changed(used(answer, 50.0)))["script waits for data"].advice.split(":")[0]


# Loaders of Python and PIL in the process that trains, with two threads of PyTorch on two cores: which part of an
# iteration was waiting, how many milliseconds it took, and what two worker processes gained (Intel Xeon, 2026-11-30).
LOADERS = [
    (0.88, 9.2, 0.86), (0.45, 13.4, 0.74), (0.18, 46.2, 0.93), (0.46, 12.7, 0.72), (0.91, 9.5, 0.97),
    (0.95, 23.0, 1.52), (0.98, 65.0, 1.45), (0.33, 22.0, 0.98), (0.51, 32.7, 0.94), (0.82, 88.0, 1.22),
]  # fmt: skip


@pytest.mark.parametrize(("share", "step_ms", "gained"), LOADERS)
def test_workers_next_to_a_thread_on_each_core_gain_what_they_gained(share, step_ms, gained) -> None:
    """1.4 was said where they gained 0.74: an idle thread of PyTorch keeps its core, and a batch costs its transfer."""
    likely = by_workers(share, Room(step_ms, 0.7, threads=2, cores=2, waited=0.0)).likely
    assert 0.65 * gained <= likely <= 1.1 * max(gained, 1.0)
    assert by_workers(share, Room(step_ms, 0.7, threads=2, cores=2, waited=1.0)).likely > likely


def test_a_training_on_one_of_two_cores_leaves_the_other_to_workers() -> None:
    assert by_workers(0.85, Room(32.0, 0.5, threads=1, cores=2, waited=0.0)).likely == pytest.approx(1.49, abs=0.02)


def test_workers_are_advised_where_what_loads_waits_or_a_core_is_free() -> None:
    here = replace(MACHINE, processor=replace(MACHINE.processor, cores_usable=2))
    lines = (SeenLine("data.py:8", "data", 0.9),)
    waits = changed(used(watched(0, TEN, data_wait_s=0.0058), 71.0), optimizers=(replace(ADAM, is_fused=True),))
    (judged,) = script_findings(waits, here, is_quiet=True)
    assert "laptime.cached(dataset)" in judged.advice
    assert judged.gain.likely == pytest.approx(1 / (1 - 0.3 * 0.58))
    (judged,) = script_findings(replace(waits, usage=used(waits, 40.0).usage), here, is_quiet=True)
    assert "worker processes" in judged.advice, "a loader that waits for a disk leaves the core to the training"
    sleeps = changed(waits, lines=(replace(lines[0], waited=1.0),))
    (judged,) = script_findings(sleeps, here, is_quiet=True)
    assert "worker processes" in judged.advice, "whatever else was busy"
    (judged,) = script_findings(changed(waits, lines=lines), here, is_quiet=True)
    assert judged.advice.startswith("Worker processes would gain little here. Make this line faster")
    assert judged.gain.likely == pytest.approx(1 / (1 - 0.7 * 0.9 * 0.58))


def test_a_gain_is_one_of_the_whole_training() -> None:
    """Half of an iteration that waits is a quarter of a training that validates for as long as it trains."""
    (process,) = watched(0, TEN, outside_s=0.005).processes
    loop = replace(process.loop, gaps=(Gap("validation", 1, 0.01),))
    judged = found(WatchAnswer(("python",), 0, 1.0, (replace(process, loop=loop),)))
    assert judged["script outside the step"].gain.most == pytest.approx(1 / 0.705)
    assert judged["script between iterations"].gain.most == pytest.approx(1 / 0.43)


@pytest.mark.parametrize(("times", "is_said"), [(1.02, False), (140.0, True)])
def test_denormal_numbers_are_named_where_this_processor_is_slow_with_them(times, is_said) -> None:
    answer = changed(watched(0, TEN, forward_backward_s=0.01), census=DenormalCensus({"gradients": 0.98}))
    judged = script_findings(answer, MACHINE, is_quiet=True, denormal_times=times)
    assert [each.says for each in judged] == is_said * [
        "98 % of the gradients are denormal numbers, and this processor takes up to 140x as long with them."
    ]


def test_memory_that_grows_is_named_with_what_grows_and_its_line() -> None:
    """A list of numbers that grows is no reason where memory does not; a kept graph always is."""
    answer = watched(0, TEN, forward_backward_s=0.01)
    graph = GrowingList("train.py:5", "losses", 1.0, "graph", 4)
    numbers = GrowingList("train.py:6", "history", 1.0, "float", 0)
    cases = {
        ((), None): None, ((), STAYS): None, ((numbers,), STAYS): None,
        ((), GROWS): "Memory grows by 2.00 MB (1.00 MB to 3.00 MB) an iteration.",
        ((numbers,), GROWS): "Memory grows by 2.00 MB (1.00 MB to 3.00 MB) an iteration: in each step, train.py:6 adds "
        "an item to `history`.",
        ((graph, numbers), STAYS): "Memory grows: in each step, train.py:5 adds a tensor with its graph to `losses`.",
    }  # fmt: skip
    for (lists, memory), says in cases.items():
        judged = found(changed(answer, lists=lists, memory=memory)).get("script memory grows")
        assert (judged and judged.says) == says
    says = found(changed(answer, memory=GROWS, tensors_per_step=2.0))["script memory grows"].says
    assert says.endswith("an iteration: with each step, 2 more tensors are alive.")
    on_card = found(changed(answer, memory=STAYS, card_memory=GROWS))["script memory grows"]
    assert on_card.says.startswith("The memory of the card grows by 2.00 MB")


ADAM = SeenOptimizer("Adam", {"cpu": 9_000}, ("float32",), tensors=3_000, is_fused=False, threads=2)


def test_an_optimizer_that_takes_much_has_a_fused_form() -> None:
    answer = changed(watched(0, TEN, optimizer_s=0.008, forward_backward_s=0.002), optimizers=(ADAM,))
    judged = found(answer)["script optimizer"]
    assert judged.says == "80 % of an iteration is Adam's step, one after another for its 3,000 tensors."
    assert "Adam(..., fused=True)" in judged.advice
    assert judged.gain is not None
    assert (judged.gain.likely, judged.gain.most) == (pytest.approx(1 / 0.52), pytest.approx(1 / 0.1))
    for other in (replace(ADAM, is_fused=True), replace(ADAM, name="Muon"), replace(ADAM, is_fused=None)):
        assert found(changed(answer, optimizers=(other,))) == {}
    few = changed(watched(0, TEN, optimizer_s=0.001, forward_backward_s=0.009), optimizers=(ADAM,))
    assert found(few) == {}


def test_settings_that_were_left_on_are_named() -> None:
    """One thread, where the machine has cores and a step is long; and the search for anomalies."""
    answer = watched(0, TEN, forward_backward_s=0.009)
    (one,) = found(changed(answer, optimizers=(replace(ADAM, threads=1),))).values()
    assert one.rule == "script on one thread"
    assert one.says.startswith(f"PyTorch computes on one of {MACHINE.processor.cores_usable} cores")
    (checks,) = found(changed(answer, optimizers=(replace(ADAM, finds_anomalies=True),))).values()
    assert checks.rule == "script finds anomalies"
    assert checks.rewrite == "no_anomalies"
    short = changed(
        watched(0, Estimate(2.0, 1.9, 2.1), forward_backward_s=0.009), optimizers=(replace(ADAM, threads=1),)
    )
    assert found(short) == {}
    assert found(changed(answer, optimizers=(replace(ADAM, threads=1),), world=2)) == {}
