"""What a watched training keeps, has handed out again, and has looked through; and what slows all of it down."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import MACHINE
from watched_cases import TEN, changed, found, watched

from laptime.analysis.diagnosis.script_computing import LEFT_ON
from laptime.analysis.diagnosis.script_findings import script_findings
from laptime.model.record import Finding
from laptime.model.script import Gap, MemoryTrend, SeenGraph, SeenLine, SeenOptimizer
from laptime.model.watched import WatchAnswer

COMPUTES = watched(0, TEN, forward_backward_s=0.009)
ON_PROCESSOR = SeenOptimizer("SGD", {"cpu": 10}, ("float32",), threads=1)
HANDED_OUT = changed(COMPUTES, faults=5000.0, optimizers=(ON_PROCESSOR,))


def of_loop(answer: WatchAnswer, **changes: object) -> WatchAnswer:
    return changed(answer, loop=replace(answer.processes[0].loop, **changes))


def test_memory_that_is_handed_out_again_is_named_with_its_change() -> None:
    """5,000 pages of 4 KiB take some 3.5 of 10 ms, by one thread; several take some at the same time."""
    finding = found(HANDED_OUT)["script gives memory back"]
    assert finding.says == ("35 % of an iteration, the system hands out memory again that was given back (20.5 MB).")
    assert finding.gain is not None
    assert finding.gain.likely == pytest.approx(1 / (1 - 0.8 * 0.35), rel=0.01)
    assert finding.rewrite == "keep_memory"
    two = changed(HANDED_OUT, optimizers=(replace(ON_PROCESSOR, threads=2),))
    assert found(two)["script gives memory back"].evidence["share"] == pytest.approx(0.35 / 2**0.5, rel=0.01)


def test_what_memory_grows_by_was_not_given_back() -> None:
    """Nor do a few pages count, or those next to a card, whose memory is its own."""
    name = "script gives memory back"
    grows = MemoryTrend(5000 * 4096.0, 5000 * 4000.0, 5000 * 4200.0, 1 << 30, 2 << 30, grows=True)
    for other in (
        changed(HANDED_OUT, memory=grows),
        changed(HANDED_OUT, faults=500.0),
        changed(HANDED_OUT, faults=None),
        changed(HANDED_OUT, optimizers=(replace(ON_PROCESSOR, parameters={"cuda:0": 10}),)),
    ):
        assert name not in found(other)
    assert name in found(changed(HANDED_OUT, memory=replace(grows, grows=False)))


def test_a_search_for_garbage_is_named_unless_a_line_asks_for_it() -> None:
    name = "script collects garbage"
    searches = changed(COMPUTES, collected_ns=2e6)
    assert found(searches)[name].says.startswith("20 % of an iteration, Python looks for garbage")
    for call in ("gc.collect", ".collect"):  # as __import__("gc").collect() is seen
        asks = SeenLine("train.py:3", "forward", 0.9, calls=(call,))
        assert name not in found(changed(searches, lines=(asks,)))
    assert name not in found(changed(searches, collected_ns=2e5))


def test_a_graph_that_is_kept_says_why_iterations_become_slow() -> None:
    """Half of 1,000 iterations are behind the mean one, and one remains."""
    kept = of_loop(changed(COMPUTES, graph=SeenGraph(160, is_made=False, per_step=10.0)), iterations=1000)
    finding = found(kept)["script keeps graphs"]
    assert "with each, 10 more steps of computing are behind the loss" in finding.says
    assert finding.evidence["share"] == pytest.approx(0.9 * (1 - 10 / 5160), rel=0.01)
    assert "script keeps graphs" not in found(changed(kept, graph=SeenGraph(160, is_made=False)))


def test_a_loader_that_is_started_for_each_batch_is_no_lack_of_workers() -> None:
    waits = watched(0, TEN, data_wait_s=0.006)
    anew = of_loop(waits, started_anew=1.0, gaps=(Gap("loader start", 1, 0.001),))
    line = SeenLine("train.py:7", "data", 0.9, calls=("next", "iter"))
    judged = found(changed(anew, lines=(line,)))
    assert judged["script restarts its loader"].says == (
        "Each iteration starts the data loader again, for its first batch (train.py:7): 64 % of the time."
    )
    assert "script waits for data" not in judged
    assert "script waits for data" in found(waits)


@pytest.mark.parametrize("name", LEFT_ON)
def test_what_was_left_on_is_named(name: str) -> None:
    finding: Finding = found(changed(COMPUTES, left_on=(name,)))["script left on"]
    assert finding.says == f"{LEFT_ON[name].says}, in every iteration."
    assert finding.advice == LEFT_ON[name].advice
    assert finding.rewrite == "not_left_on"
    assert "script left on" not in found(COMPUTES)


def test_halves_are_named_where_a_processor_cannot_compute_them() -> None:
    """Of one kind it may have instructions, and of the other not. Of some processors, none is known."""
    for dtype, features, is_named in (
        ("bfloat16", ("avx2",), True),
        ("bfloat16", ("avx2", "avx512_bf16"), False),
        ("bfloat16", (), False),
        ("float16", ("avx2", "avx512_bf16"), True),
        ("float32", ("avx2",), False),
    ):
        machine = replace(MACHINE, processor=replace(MACHINE.processor, features=features))
        answer = changed(COMPUTES, optimizers=(replace(ON_PROCESSOR, dtypes=(dtype,)),))
        named = {each.rule for each in script_findings(answer, machine, is_quiet=True)}
        assert ("script in halves" in named) == is_named


def test_what_records_each_operation_is_first() -> None:
    """With the profiler on, 60 % were waiting for data, workers were advised first, and took 1.4 times as long."""
    waits = watched(0, TEN, data_wait_s=0.006, forward_backward_s=0.003)
    assert next(iter(found(changed(waits, left_on=("profiler",))))) == "script left on"
    assert next(iter(found(changed(waits, left_on=("deterministic",))))) == "script waits for data"


def test_of_several_that_were_left_on_the_slowest_is_named() -> None:
    """And what another agent may call so is none."""
    finding = found(changed(COMPUTES, left_on=("deterministic", "profiler", "the light")))["script left on"]
    assert finding.says.startswith("PyTorch's profiler")
    assert "script left on" not in found(changed(COMPUTES, left_on=("the light",)))
