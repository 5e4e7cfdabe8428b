"""What lines, threads and graphs of a watched training show: each rule where it holds, and where it is silent."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import MACHINE
from watched_cases import TEN, changed, found, watched

from laptime.analysis.script_process import names_of_calls
from laptime.model.script import (
    BusyThread,
    MemoryTrend,
    Multiplicity,
    SeenGraph,
    SeenLine,
    SeenLoader,
    SeenOptimizer,
    SeenReads,
)
from laptime.model.symptoms import TimedPlace

SGD = SeenOptimizer("SGD", {"cpu": 100_000}, ("float32",), threads=2)
COMPUTES = watched(0, TEN, forward_backward_s=0.009, backward_s=0.004)


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("x = x.to(torch.float64).clone()", ("x.to", ".clone")),
        ("torch.save(net.state_dict(), f'{name}(1).pt')  # of copy.deepcopy(net)", ("torch.save", "net.state_dict")),
        ("for row in zip(a, b):", ("for", "zip")),
        ("x = (a + b) * (c)", ()),
    ],
)
def test_the_names_of_what_a_line_calls_are_kept_without_its_strings(code, names):
    assert names_of_calls(code) == names


def line(number, part, share, *calls, per_step=None):
    return SeenLine(f"train.py:{number}", part, share, per_step=per_step, calls=calls)


def test_lines_that_copy_are_named_together():
    """A layer that is called next to a copy is no copy, and a batch has to move to a card."""
    copies = [line(number, "forward", 0.15, "x.to", ".clone", "x.view") for number in range(1, 6)]
    (judged,) = found(changed(COMPUTES, lines=(*copies, line(9, "forward", 0.25, "self.layer", "x.clone")))).values()
    assert judged.rule == "script copies"
    assert judged.says == "37 % of an iteration is copying tensors (train.py:1 and 4 other lines)."
    assert judged.gain is not None
    assert (judged.gain.likely, judged.gain.most) == (pytest.approx(1.509, abs=1e-3), pytest.approx(1 / 0.155))
    on_card = (replace(SGD, parameters={"cuda:0": 9}),)
    for silent in (
        changed(COMPUTES, lines=(line(1, "forward", 0.9, "self.layer", "x.clone"),)),
        changed(COMPUTES, lines=(line(1, "forward", 0.9),)),
        changed(COMPUTES, lines=(line(1, "backward", 0.9, "x.clone"),)),
        changed(COMPUTES, lines=tuple(copies), optimizers=on_card),
    ):
        assert "script copies" not in found(silent)


@pytest.mark.parametrize(
    ("calls", "says"),
    [
        (("copy.deepcopy", "net.state_dict"), "copying the whole model"),
        (("gc.collect",), "giving memory back that the next iteration asks for again"),
        (("torch.histc", "float"), "computing statistics"),
        (("f.write",), "writing what is logged"),
        (("time.sleep",), "waiting for what computes nothing"),
    ],
)
def test_what_a_line_outside_of_the_step_does_is_said_in_place_of_where_it_is(calls, says):
    answer = changed(watched(0, TEN, outside_s=0.006), lines=(line(7, "outside", 0.9, *calls),))
    (judged,) = found(answer).values()
    assert judged.says == f"54 % of an iteration is {says} (train.py:7)."
    assert judged.where == "train.py:7"
    reads = found(changed(answer, reads=(SeenReads("train.py:7", 1, 0.1),)))
    assert list(reads) == ["script outside the step"]


def test_a_loop_without_a_loader_logs_in_front_of_its_forward_pass():
    """Half a training wrote its weights as JSON, and nothing was said: what follows a step counts to the next pass."""
    logs = changed(COMPUTES, lines=(line(7, "forward", 0.9, "json.dump", "value.tolist"),))
    (judged,) = found(logs).values()
    assert judged.says == "45 % of an iteration is writing what is logged (train.py:7)."
    assert found(changed(COMPUTES, lines=(line(7, "forward", 0.9, "x.log"),))) == {}, "a layer may take logarithms"


def test_lines_may_take_all_of_the_part_in_which_they_are():
    """They are timed in a few iterations: a loop that took all of 90 % was said to gain 2.3x at most."""
    answer = changed(watched(0, TEN, outside_s=0.009), lines=(line(7, "outside", 0.6, per_step=1024.0),))
    (judged,) = found(answer).values()
    assert judged.rule == "script loop"
    assert judged.gain is not None
    assert judged.gain.likely == pytest.approx(1 / (1 - 0.9 * 0.54))
    assert judged.gain.most == pytest.approx(50)


def test_a_loop_in_python_is_named_by_how_often_it_runs():
    often = (line(4, "forward", 0.5, "torch.add", per_step=256.0), line(3, "forward", 0.3, per_step=257.0))
    (judged,) = found(changed(COMPUTES, lines=often)).values()
    begin = "40 % of an iteration is a loop in Python that runs at least 256 times in each"
    assert judged.says == f"{begin} (train.py:4 and 1 other line)."
    of_items = (replace(often[0], part="data"), replace(often[1], per_step=4.0))
    assert "script loop" not in found(changed(COMPUTES, lines=of_items))


def test_computing_again_is_needless_where_memory_has_room():
    used = MACHINE.memory_bytes // 10
    again = (
        line(20, "forward", 0.2, "checkpoint"),
        line(8, "forward", 0.6, "self.layer"),
        line(8, "backward", 0.7, "self.layer"),
    )
    trend = MemoryTrend(0.0, -1.0, 1.0, used, used, grows=False)
    judged = found(changed(COMPUTES, lines=again, memory=trend))["script recomputes"]
    assert judged.where == "train.py:20"
    assert judged.says.startswith("28 % of an iteration, the backward pass computes again what was computed before")
    full = replace(trend, last_bytes=MACHINE.memory_bytes * 3 // 4)
    plain = (replace(again[0], calls=("self.layer",)), *again[1:])
    for silent in (changed(COMPUTES, lines=again, memory=full), changed(COMPUTES, lines=plain, memory=trend)):
        assert "script recomputes" not in found(silent)


def test_a_thread_that_keeps_python_busy_is_named_where_the_training_waits():
    """The lines that wait are innocent."""
    waiting = (SeenLine("train.py:30", "forward", 0.9, waited=0.9),)
    answer = changed(COMPUTES, lines=waiting, busy_thread=BusyThread("spin.py:4", 0.9, 0.7))
    (judged,) = found(answer).values()
    assert (judged.rule, judged.where) == ("script lock held", "spin.py:4")
    assert judged.says == "70 % of an iteration, the training waits while another thread keeps Python busy (spin.py:4)."
    waits = changed(watched(0, TEN, data_wait_s=0.006), busy_thread=BusyThread("spin.py:4", 0.9, 0.8))
    assert next(iter(found(waits))) == "script lock held", "a loader in the same process waits for the thread, too"
    waits = changed(watched(2, TEN, data_wait_s=0.006), busy_thread=BusyThread("spin.py:4", 0.9, 0.8))
    assert next(iter(found(waits))) == "script waits for data"
    for thread in (BusyThread("spin.py:4", 0.1, 0.7), BusyThread("spin.py:4", 0.9, 0.1)):
        assert "script lock held" not in found(changed(answer, busy_thread=thread))


def small(items: float, passes: float, nodes: int, **parts: float):
    answer = watched(0, TEN, **parts)
    loop = answer.processes[0].loop
    loop = replace(loop, items_per_iteration=items, per_iteration=Multiplicity(passes, passes, 1, 0))
    return changed(answer, loop=loop, graph=SeenGraph(nodes, is_made=False), optimizers=(SGD,))


def test_small_batches_are_named_by_what_any_batch_takes():
    """Of 9 ms for two items, 100 operators and the weights take 3.1, and the optimizer 1."""
    (judged,) = found(small(2, 1, 100, forward_backward_s=0.009, optimizer_s=0.001)).values()
    assert judged.says == "A batch has 2 items, and 41 % of an iteration would be the same for more of them."
    assert judged.advice.startswith("Take larger batches: 32 items in place of 2.")
    assert judged.gain is not None
    assert (judged.gain.likely, judged.gain.most) == (pytest.approx(1.630, abs=1e-3), pytest.approx(50.0))
    (parts,) = found(small(8, 4, 100, forward_backward_s=0.009, optimizer_s=0.001)).values()
    assert parts.advice.startswith("Take fewer and larger parts of each batch: 8 items in place of 2.")
    for silent in (small(64, 1, 100, forward_backward_s=0.009), small(2, 1, 2, forward_backward_s=0.009)):
        assert found(silent) == {}


def test_a_wait_for_the_disk_is_that_of_the_line_that_asked_for_it():
    """A log that is written behind the optimizer's step was put down to the step."""
    answer = watched(0, TEN, forward_backward_s=0.009)
    places = (TimedPlace("log.py:8", "waiting for the disk", 3_200, 6_000_000),)
    lines = (SeenLine("train.py:30", "forward", 0.9, waited=0.9),)
    (judged,) = found(changed(answer, places=places, lines=lines)).values()
    assert (judged.rule, judged.where) == ("script waits for the disk", "log.py:8")
    assert judged.says.startswith("60 % of an iteration, on average, is waiting until the disk has what was written")


def test_more_threads_than_cores_and_a_second_graph_are_named():
    crowded = (replace(SGD, threads=64),)
    (judged,) = found(changed(COMPUTES, optimizers=crowded)).values()
    assert judged.says.startswith(f"PyTorch computes with 64 threads on {MACHINE.processor.cores_usable} cores")
    answer = changed(COMPUTES, graph=SeenGraph(30, is_made=True), lines=(line(12, "backward", 0.9, "loss.backward"),))
    (judged,) = found(answer).values()
    assert (judged.rule, judged.where) == ("script makes a second graph", "train.py:12")


def test_a_loop_of_tensorflow_is_told_to_decode_ahead():
    answer = changed(watched(0, TEN, data_wait_s=0.004), loaders=(), versions={"tensorflow": "2.21.0"})
    (judged,) = found(answer).values()
    assert "num_parallel_calls" in judged.advice


def test_rows_in_memory_are_taken_at_once_and_not_by_workers():
    answer = watched(0, TEN, data_wait_s=0.004)
    answer = changed(answer, loaders=(SeenLoader(8, 10, 0, is_in_memory=True),))
    (judged,) = found(answer).values()
    assert "BatchSampler" in judged.advice
    assert judged.gain is not None
    assert judged.gain.likely == pytest.approx(1 / 0.68)
