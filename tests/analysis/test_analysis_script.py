"""Events of a watched script become iterations: literal events, exact parts; and any order of events is survived."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.analysis.script_loop import WINDOWS_MOST
from laptime.analysis.script_process import ProcessReader, compare_ranks
from laptime.analysis.script_units import KEPT_MOST, SPANS_MOST
from laptime.attach import kinds
from laptime.model.quantities import Missing
from laptime.model.script import ScriptProcess, TrainingLoop

HELLO = {"pid": 7, "parent": 1, "python": "3.8.20", "executable": "/usr/bin/python", "versions": {"torch": "2.13.0"}}
MS = 1_000_000
Event = tuple[int, float, float, int]


def read(events: Sequence[Event], *, facts: Sequence[dict[str, Any]] = (), **more: Any) -> ScriptProcess:
    """Return what is read of these events; times are in milliseconds."""
    reader = ProcessReader({**HELLO, **more})
    for each in facts:
        reader.take_facts(each)
    packed = [
        struct.pack(kinds.EVENT, kind, round(begin * MS), round(end * MS), value) for kind, begin, end, value in events
    ]
    reader.take_events(b"".join(packed))
    reader.take_facts({"is_leaving": True, "lost": 0})
    return reader.process()


def loop_of(events: Sequence[Event], **more: Any) -> TrainingLoop:
    loop = read(events, **more).loop
    assert loop is not None
    return loop


def fetch(begin: float, end: float, *, loader: int = 1, items: int = 8) -> Event:
    return (kinds.FETCH, begin, end, loader << kinds.ITEMS_SHIFT | items)


def steps(count: int, start: float = 0.0, *, loader: int = 1) -> list[Event]:
    """Return iterations of 10 ms: 3 waiting, 4 forward and backward (2 of it backward), 2.5 optimizer, 0.5 outside."""
    found: list[Event] = []
    for number in range(count):
        at = start + 10 * number
        found += [
            fetch(at, at + 3, loader=loader),
            (kinds.BACKWARD, at + 5, at + 7, 0),
            (kinds.STEP, at + 7, at + 9.5, 1),
        ]
    return found


def test_the_parts_of_an_iteration_are_exact() -> None:
    loop = loop_of([(kinds.LOADER_OPEN, -1, 0, 1), *steps(20), (kinds.LOADER_END, 200, 201, 1)])
    steady = loop.steady
    assert (loop.iterations, loop.epochs, loop.items_per_iteration) == (20, 1, 8)
    assert steady.wall_s == pytest.approx(0.010)
    assert steady.data_wait_s == pytest.approx(0.003)
    assert steady.forward_backward_s == pytest.approx(0.004)
    assert steady.backward_s == pytest.approx(0.002)
    assert steady.optimizer_s == pytest.approx(0.0025)
    assert steady.outside_s == pytest.approx(0.0005)
    assert steady.unattributed_s == pytest.approx(0, abs=1e-12)
    assert loop.step_ms is not None
    assert loop.step_ms.median == pytest.approx(10)
    assert loop.items_per_s == pytest.approx(800)
    assert loop.steady_kind == "flat"


def in_time(loop: TrainingLoop) -> list[tuple[str, float, float]]:
    assert loop.typical is not None
    return [(each.part, each.start_ns / MS, each.end_ns / MS) for each in loop.typical.spans]


def test_the_middle_iteration_is_kept_as_it_was() -> None:
    """Without a hole, in the order of its events; one of 10 ms, although others take 10 and 20 times as long."""
    events = [
        (kinds.LOADER_OPEN, -1, 0, 1),
        *steps(20),
        *steps(1, 200.0),
        *slower(3, 210.0),
        (kinds.LOADER_END, 600, 601, 1),
    ]
    loop = loop_of(events)
    assert loop.typical is not None
    assert (loop.typical.wall_ns, 1 < loop.typical.number <= 24) == (10 * MS, True)
    assert 15 <= loop.typical.of <= 23
    assert in_time(loop) == [
        ("data", 0, 3), ("forward", 3, 5), ("backward", 5, 7), ("optimizer", 7, 9.5), ("outside", 9.5, 10)
    ]  # fmt: skip


def test_what_is_within_another_part_has_its_own_time() -> None:
    """A copy and a pass without gradients within the forward pass; a checkpoint and the disk behind the step."""
    events: list[Event] = []
    for at in range(0, 200, 20):
        events += [
            fetch(at, at + 3),
            (kinds.COPY, at + 3.5, at + 4, 0),
            (kinds.NO_GRAD, at + 5, at + 6, 1),
            (kinds.BACKWARD, at + 8, at + 10, 0),
            (kinds.STEP, at + 10, at + 12, 1),
            (kinds.SAVE, at + 13, at + 15, 2),
            (kinds.SYNC, at + 16, at + 17, 3),
        ]
    assert in_time(loop_of(events)) == [
        ("data", 0, 3), ("forward", 3, 3.5), ("copy", 3.5, 4), ("forward", 4, 5), ("no_grad", 5, 6),
        ("forward", 6, 8), ("backward", 8, 10), ("optimizer", 10, 12), ("outside", 12, 13), ("checkpoint", 13, 15),
        ("outside", 15, 16), ("disk", 16, 17), ("outside", 17, 20),
    ]  # fmt: skip


def test_accumulated_gradients_are_one_iteration_in_time() -> None:
    events: list[Event] = []
    for at in range(0, 200, 10):
        events += [fetch(at, at + 3), (kinds.BACKWARD, at + 5, at + 7, 0)]
        events += [(kinds.STEP, at + 7, at + 9, 1)] if at % 20 else []
    assert [part for part, _, _ in in_time(loop_of(events))] == [
        "data", "forward", "backward", "unattributed", "data", "forward", "backward", "optimizer", "outside"
    ]  # fmt: skip


def test_of_very_many_iterations_some_are_kept_in_time_and_of_very_long_ones_none() -> None:
    loop = loop_of(steps(3000))
    assert loop.typical is not None
    assert 32 <= loop.typical.of <= KEPT_MOST
    long: list[Event] = []
    for at in range(0, 3000, 300):
        long += [fetch(at + place, at + place + 0.5) for place in range(SPANS_MOST + 2)]
        long += [(kinds.BACKWARD, at + 290, at + 292, 0), (kinds.STEP, at + 292, at + 293, 1)]
    found = loop_of(long)
    assert (found.iterations, found.typical) == (10, None)


def test_what_is_seen_as_one_call_is_one_span() -> None:
    """A batch of Keras, and one of `laptime.steps`."""
    batches = [(kinds.KERAS_BATCH, 10.0 * at, 10.0 * at + 9, 1) for at in range(20)]
    assert in_time(loop_of(batches)) == [("step", 0, 9), ("outside", 9, 10)]
    reader = ProcessReader(HELLO)
    reader.take_facts({"steps_loader": 1, "batches": 20})
    events = [fetch(10.0 * at, 10.0 * at + 4) for at in range(20)]
    reader.take_events(
        b"".join(struct.pack(kinds.EVENT, kind, round(a * MS), round(b * MS), value) for kind, a, b, value in events)
    )
    loop = reader.process().loop
    assert loop is not None
    assert in_time(loop) == [("data", 0, 4), ("step", 4, 10)]


def test_time_that_nothing_claims_is_unattributed() -> None:
    clipped = [(kind, begin + (kind == kinds.STEP), end, value) for kind, begin, end, value in steps(10)]
    assert loop_of(clipped).steady.unattributed_s == pytest.approx(0.001)


def test_a_checkpoint_is_no_work_outside_of_the_step() -> None:
    events = steps(5)
    events.insert(6, (kinds.SAVE, 19.5, 19.9, 0))
    whole = loop_of(events).whole
    assert whole.checkpoint_s == pytest.approx(0.0004)
    assert whole.outside_s == pytest.approx(0.0005 * 4 - 0.0004)


def bare_steps(count: int) -> list[Event]:
    """Return iterations of 10 ms without a loader: 7 forward and backward (2 of it backward), 3 optimizer."""
    return [
        event
        for at in range(0, 10 * count, 10)
        for event in ((kinds.BACKWARD, at + 5, at + 7, 0), (kinds.STEP, at + 7, at + 10, 1))
    ]


def test_a_checkpoint_behind_the_last_step_is_no_part_of_it() -> None:
    """A loop without a loader, then a drawing of 1 s, then the file; one within the loop belongs to its iteration."""
    within = (kinds.SAVE, 100, 101, 0)
    events = [
        *bare_steps(10),
        within,
        *((kind, at + 10, end + 10, each) for kind, at, end, each in bare_steps(20)[20:]),
    ]
    loop = loop_of([*events, (kinds.SAVE, 1210, 1220, 0)])
    assert loop.iterations == 20
    assert loop.whole.wall_s == pytest.approx(0.205)  # the first iteration begins with its backward pass
    assert loop.whole.checkpoint_s == pytest.approx(0.001)
    assert loop.whole.outside_s == pytest.approx(0)
    assert loop.gaps == ()


def test_passes_without_gradients_are_a_part_of_their_own() -> None:
    """Two passes in each iteration: once within `eval()` and `train()`, so that no time counts twice."""
    events = [
        event
        for each in bare_steps(20)
        for event in (
            [(kinds.NO_GRAD, each[1] - 4, each[1] - 3, 0), (kinds.NO_GRAD, each[1] - 4.5, each[1] - 2, 0), each]
            if each[0] == kinds.BACKWARD
            else [each]
        )
    ]
    steady = loop_of(events).steady
    assert steady.wall_s == pytest.approx(0.010)
    assert steady.no_grad_s == pytest.approx(0.0025)
    assert steady.forward_backward_s == pytest.approx(0.0045)
    assert steady.optimizer_s == pytest.approx(0.003)
    assert steady.unattributed_s == pytest.approx(0, abs=1e-12)


def test_metrics_without_gradients_behind_the_step_are_not_outside_of_it() -> None:
    events = [event for each in steps(20) for event in (each, *_metrics_after(each))]
    steady = loop_of(events).steady
    assert steady.no_grad_s == pytest.approx(0.0003 * 18 / 19)  # the last iteration ends with its step
    assert steady.outside_s == pytest.approx(0.0002 * 18 / 19)


def _metrics_after(event: Event) -> list[Event]:
    return [(kinds.NO_GRAD, event[2] + 0.1, event[2] + 0.4, 0)] if event[0] == kinds.STEP else []


def test_a_stretch_with_a_backward_pass_in_it_is_no_evaluation() -> None:
    """A part of the model that is in `eval()` for an epoch, while the rest trains."""
    events = bare_steps(20)
    events.insert(7, (kinds.NO_GRAD, 1, 31, 0))
    assert loop_of(events).steady.no_grad_s == 0


def test_without_an_optimizer_what_has_no_gradients_may_be_the_update() -> None:
    events = [each for each in bare_steps(20) if each[0] == kinds.BACKWARD]
    events = [event for each in events for event in (each, (kinds.NO_GRAD, each[2], each[2] + 2, 0))]
    steady = loop_of(events).steady
    assert isinstance(steady.no_grad_s, Missing)
    assert steady.forward_backward_s == pytest.approx(steady.wall_s)


def test_a_model_that_evaluates_does_not_update_its_weights_then() -> None:
    """Without an optimizer: 1 ms without gradients may be the update, 2 ms from `eval()` to `train()` are not."""
    events = [
        event
        for at in range(0, 200, 10)
        for event in (
            (kinds.NO_GRAD, at, at + 1, 0),
            (kinds.NO_GRAD, at + 2.5, at + 3, 0),
            (kinds.EVALUATED, at + 2, at + 4, 0),
            (kinds.BACKWARD, at + 5, at + 10, 0),
        )
    ]
    loop = loop_of(events)
    assert (loop.iterations, loop.counted) == (20, "backward passes")
    assert loop.steady.no_grad_s == pytest.approx(0.002)
    assert loop.steady.forward_backward_s == pytest.approx(0.008)
    assert loop.steady.wall_s == pytest.approx(0.010)


def test_evaluation_between_epochs_that_uses_no_loader_is_validation() -> None:
    events = [
        *steps(10),
        (kinds.LOADER_END, 100, 101, 1),
        (kinds.NO_GRAD, 102, 110, 0),
        (kinds.LOADER_OPEN, 116, 119, 1),
    ]
    gaps = {each.kind: round(each.seconds * 1e3, 6) for each in loop_of([*events, *steps(10, 120)]).gaps}
    assert gaps == {"validation": 8.0, "loader start": 3.0, "between epochs": 9.0}


def test_a_final_evaluation_is_no_validation_between_iterations() -> None:
    """After the last iteration, only what was evaluated between others before is the validation of an epoch."""

    def evaluated(start: float, loader: int) -> list[Event]:
        passed = [fetch(start + 2, start + 3, loader=loader), (kinds.LOADER_END, start + 9, start + 10, loader)]
        return [(kinds.LOADER_OPEN, start, start + 1, loader), *passed]

    def validations(events: list[Event]) -> list[int]:
        return [each.times for each in loop_of(events).gaps if each.kind == "validation"]

    first = [*steps(10), (kinds.LOADER_END, 100, 101, 1)]
    second = [(kinds.LOADER_OPEN, 116, 119, 1), *steps(10, 120), (kinds.LOADER_END, 220, 221, 1)]
    assert validations([*first, *evaluated(104, 2)]) == []
    assert validations([*first, *evaluated(104, 2), *second]) == [1]
    assert validations([*first, *evaluated(104, 2), *second, *evaluated(224, 3)]) == [1]
    assert validations([*first, *evaluated(104, 2), *second, *evaluated(224, 2), *evaluated(240, 3)]) == [2]
    reader = ProcessReader(HELLO)
    events = [*first, *evaluated(104, 2)]
    reader.take_events(
        b"".join(struct.pack(kinds.EVENT, kind, int(b * MS), int(e * MS), v) for kind, b, e, v in events)
    )
    assert reader.progress.gaps_s == pytest.approx(0.014), "a race takes it out of its windows at once"


def test_the_first_iteration_is_no_part_of_what_a_step_waits_and_computes() -> None:
    """It compiles: in a heat of 30 steps its two seconds would be most of what they computed."""
    slow = [fetch(0, 3), (kinds.BACKWARD, 1990, 2000, 0), (kinds.STEP, 2000, 2001, 1)]
    reader = ProcessReader(HELLO)
    events = [*slow, *steps(30, 2010)]
    reader.take_events(
        b"".join(struct.pack(kinds.EVENT, kind, int(b * MS), int(e * MS), v) for kind, b, e, v in events)
    )
    progress = reader.progress
    assert progress.later == progress.iterations - 1
    assert progress.data_ns / progress.later == 3 * MS
    assert progress.computing_ns / progress.later == pytest.approx(6.5 * MS)
    assert progress.first_ns == 2010 * MS


def test_gaps_between_epochs_are_named() -> None:
    """Validation, another start of the loader, and the rest; together with the iterations they are all the time."""
    validation = [
        (kinds.LOADER_OPEN, 104, 106, 2),
        fetch(106, 107, loader=2),
        fetch(110, 111, loader=2),
        (kinds.LOADER_END, 114, 115, 2),
    ]
    events = [
        *steps(10),
        (kinds.LOADER_END, 100, 101, 1),
        *validation,
        (kinds.LOADER_OPEN, 116, 119, 1),
        *steps(10, 120),
    ]
    loop = loop_of(events)
    gaps = {each.kind: round(each.seconds * 1e3, 6) for each in loop.gaps}
    assert gaps == {"validation": 9.0, "loader start": 5.0, "between epochs": 6.0}
    span_s = (loop.windows[-1].end_ns - loop.windows[0].start_ns) / 1e9
    assert loop.whole.wall_s + sum(each.seconds for each in loop.gaps) == pytest.approx(span_s)


def test_a_batch_that_was_fetched_ahead_is_worked_on_after_the_loaders_end() -> None:
    events = [fetch(0, 1), fetch(1, 2), (kinds.BACKWARD, 3, 4, 0), (kinds.STEP, 4, 5, 1)]
    events += [(kinds.LOADER_END, 5, 6, 1), (kinds.BACKWARD, 7, 8, 0), (kinds.STEP, 8, 9, 1)]
    loop = loop_of(events)
    assert (loop.iterations, loop.gaps) == (2, ())
    assert loop.whole.data_wait_s == pytest.approx(0.003)


def test_many_updates_after_the_only_fetch_are_iterations() -> None:
    """All of the data is one batch. Where another batch follows, or two optimizers take turns, it is one iteration."""

    def trained(start: float, count: int, optimizers: int) -> list[Event]:
        found = [fetch(start, start + 3)]
        for number in range(count):
            at = start + 10 * number
            found += [(kinds.BACKWARD, at + 5, at + 7, 0), (kinds.STEP, at + 7, at + 9.5, 1 + number % optimizers)]
        return found

    assert loop_of(trained(0, 20, 1)).iterations == 20
    assert loop_of(trained(0, 2, 2)).iterations == 1
    assert loop_of([*trained(0, 20, 1), *trained(200, 20, 1)]).iterations == 2


def test_many_iterations_keep_few_windows_and_every_sum() -> None:
    events = steps(5000)
    loop = loop_of(events)
    assert loop.iterations == 5000
    assert len(loop.windows) <= WINDOWS_MOST + 1
    assert sum(each.iterations for each in loop.windows) == 5000
    assert loop.whole.wall_s == pytest.approx(50, rel=1e-4)
    assert loop.step_ms is not None
    assert loop.step_ms.median == pytest.approx(10, rel=1e-4)
    assert loop.steady.wall_s * 1e3 == pytest.approx(loop.step_ms.median)
    assert loop.items_per_s * loop.step_ms.median / 1e3 == pytest.approx(loop.items_per_iteration)


def test_a_loader_that_another_thread_reads_has_no_wait() -> None:
    other = 1 << kinds.THREAD_SHIFT
    events = [(kind | (other if kind == kinds.FETCH else 0), *rest) for kind, *rest in steps(6)]
    events.insert(0, (kinds.BACKWARD, -2, -1, 0))
    loop = loop_of([(int(kind), float(begin), float(end), int(value)) for kind, begin, end, value in events])
    assert isinstance(loop.steady.data_wait_s, Missing)


def test_a_process_that_left_without_a_word_is_not_sure_of_its_count() -> None:
    reader = ProcessReader(HELLO)
    reader.take_events(b"".join(struct.pack(kinds.EVENT, *map(int, each)) for each in steps(3)))
    loop = reader.process().loop
    assert loop is not None
    assert "ended without a word" in str(loop.unsure)
    reader = ProcessReader(HELLO)
    reader.take_events(struct.pack(kinds.EVENT, kinds.BACKWARD, 1, 2, 0))
    reader.take_facts({"is_leaving": True, "lost": 12})
    lost = reader.process()
    assert lost.loop is not None
    assert (lost.lost, lost.loop.unsure) == (12, "12 events were lost")


def test_iterations_that_were_not_sent_are_counted_and_no_part_of_another() -> None:
    """Two batches an iteration; between the sixth and the next, half a second passes in which 40 more were trained."""
    accumulating = [each for at in range(24) for each in steps(at + 1)[3 * at : 3 * at + (3 if at % 2 else 2)]]
    reader = ProcessReader(HELLO)
    first, then = (
        accumulating[:30],
        [(kind, begin + 500, end + 500, value) for kind, begin, end, value in accumulating[30:]],
    )
    for events in (first, then):
        reader.take_events(
            b"".join(struct.pack(kinds.EVENT, kind, round(b * MS), round(e * MS), v) for kind, b, e, v in events)
        )
        if events is first:
            reader.take_facts({"skipped": {"4": 80, "1": 80, "5": 40}})
    reader.take_facts({"is_leaving": True, "lost": 0})
    loop = reader.process().loop
    assert loop is not None
    assert loop.iterations == 12 + 40
    assert loop.per_iteration.fetches == 2
    assert loop.step_ms is not None
    assert loop.step_ms.median == pytest.approx(20, rel=0.02)
    assert loop.whole.wall_s == pytest.approx(0.24, rel=0.05)
    assert str(loop.unsure).startswith("40 iterations were too fast to be read")


def test_a_loss_is_kept_with_its_time() -> None:
    bits = struct.unpack("<q", struct.pack("<d", 2.5))[0]
    loop = loop_of([*steps(3), (kinds.LOSS, 7, 7, bits)])
    assert loop.losses == ((7 * MS, 2.5),)


def test_keras_batches_are_cut_at_their_begins() -> None:
    events = [(kinds.KERAS_BATCH, 10 * at, 10 * at + 8, 4) for at in range(6)] + [(kinds.KERAS_EPOCH, 0, 58, 0)]
    reader = ProcessReader(HELLO)
    reader.take_facts({"keras_batch": 32, "keras_data": "ArrayDataAdapter", "iterator": 1})
    reader.take_events(b"".join(struct.pack(kinds.EVENT, kind, b * MS, e * MS, v) for kind, b, e, v in events))
    loop = reader.process().loop
    assert loop is not None
    assert (loop.iterations, loop.counted, loop.items_per_iteration) == (6, "Keras batches", 128)
    assert loop.per_iteration.optimizer_steps == 4
    assert loop.steady.outside_s == pytest.approx((4 * 0.002 + 0) / 5)


def test_a_keras_iteration_begins_with_its_own_fetch() -> None:
    """Fetches of a validation in between are none of the training's."""
    reader = ProcessReader(HELLO)
    for number, batch in ((1, 32), (2, 500)):
        reader.take_facts({"keras_batch": batch, "keras_data": "ArrayDataAdapter", "iterator": number})
    reader.take_facts({"keras_fit": 1, "model": 9, "trained": 4})
    events = [
        event
        for at in range(0, 60, 10)
        for event in ((kinds.KERAS_FETCH, at, at + 3, 1), (kinds.KERAS_BATCH, at + 3, at + 9, 1))
    ]
    events += [(kinds.KERAS_FETCH, 61, 66, 2), (kinds.KERAS_TEST, 60, 70, 0), (kinds.KERAS_EPOCH, 0, 71, 0)]
    reader.take_events(b"".join(struct.pack(kinds.EVENT, kind, b * MS, e * MS, v) for kind, b, e, v in events))
    loop = reader.process().loop
    assert loop is not None
    assert (loop.iterations, loop.items_per_iteration, loop.trainings) == (6, 32, 1)
    assert loop.steady.data_wait_s == pytest.approx(0.003)
    assert loop.steady.forward_backward_s == pytest.approx(0.006)
    assert loop.steady.outside_s == pytest.approx(0.001)
    assert [(each.kind, each.seconds) for each in loop.gaps] == [("validation", pytest.approx(0.010))]


def test_what_a_keras_step_fetches_within_itself_is_its_wait_for_data() -> None:
    """As on JAX; a loader of PyTorch that is read there fetches within that fetch, and does not count twice."""
    reader = ProcessReader(HELLO)
    reader.take_facts({"keras_fit": 1, "model": 9, "trained": 4})
    events = [
        event
        for at in range(0, 60, 10)
        for event in (
            (kinds.FETCH, at + 2, at + 4, 5 << kinds.ITEMS_SHIFT),
            (kinds.KERAS_FETCH, at + 1, at + 5, 1),
            (kinds.KERAS_FETCH, at + 5, at + 6, 2),
            (kinds.KERAS_BATCH, at, at + 9, 1),
        )
    ]
    reader.take_events(b"".join(struct.pack(kinds.EVENT, kind, b * MS, e * MS, v) for kind, b, e, v in events))
    loop = reader.process().loop
    assert loop is not None
    assert loop.iterations == 6
    parts = loop.steady.data_wait_s, loop.steady.forward_backward_s, loop.steady.outside_s
    assert parts == pytest.approx((0.004, 0.005, 0.0008), abs=0.0003)


def made_ahead(*events: Event, steps_at_once: int = 1) -> TrainingLoop | None:
    """Return the loop of a `fit` whose batches come from iterator 1, made in a thread."""
    reader = ProcessReader(HELLO)
    reader.take_facts({"keras_fit": 1, "model": 9, "trained": 4, "at_once": steps_at_once})
    for kind, begin, end, value in events:
        reader.take_events(struct.pack(kinds.EVENT, kind, round(begin * MS), round(end * MS), value))
    return reader.process().loop


def made(begin: float, end: float, lap: int = 1, iterator: int = 1) -> Event:
    return (kinds.KERAS_MADE, begin, end, iterator << kinds.PASS_SHIFT | lap)


def test_a_step_on_tensorflow_waits_until_its_batch_was_made() -> None:
    """The thread makes one in 6 ms and is one ahead; a step takes 3 ms. In the second lap, batches are ready.

    A validation in between has batches of its own, and the pass before may still make one.
    """
    first: list[Event] = []
    for at in range(0, 60, 6):
        first += [made(at, at + 6), (kinds.KERAS_BATCH, at + (at > 0) * 3, at + 9, 1)]
    between = [made(61, 62, iterator=2), (kinds.KERAS_TEST, 63, 69, 0), (kinds.KERAS_EPOCH, 0, 70, 0)]
    loop = made_ahead(*first, *between)
    assert loop is not None
    assert (loop.iterations, loop.epochs) == (10, 1)
    assert (loop.steady.data_wait_s, loop.steady.forward_backward_s) == pytest.approx((0.003, 0.003))
    assert loop.made_share == 1
    ready = [made(70 + at, 71 + at, 2) for at in range(3)]
    late = made(72, 90)  # of the first pass
    quick = [(kinds.KERAS_BATCH, 100 + 10 * at, 109 + 10 * at, 1) for at in range(3)]
    again = made_ahead(*first, *between, *ready, late, *quick)
    assert again is not None
    assert [window.data_ns / MS for window in again.windows][-3:] == [0, 0, 0]


def test_several_steps_in_a_call_wait_together() -> None:
    """Batches are ready at 0, 10 and 20 ms of a call of 24 ms: a step takes 4 ms, and 12 are waited for."""
    events: list[Event] = []
    for at in range(0, 600, 30):
        events += [*(made(at - 9 + each, at + each) for each in (0, 10, 20)), (kinds.KERAS_BATCH, at, at + 24, 3)]
    loop = made_ahead(*events, steps_at_once=3)
    assert loop is not None
    assert loop.steady.data_wait_s == pytest.approx(0.012)


def test_where_batches_were_not_seen_the_wait_is_not_known() -> None:
    """None was; or some were too many to be sent, until the next pass through the data begins."""
    batches = [(kinds.KERAS_BATCH, 10 * at, 10 * at + 9, 1) for at in range(30)]
    loop = made_ahead(*batches)
    assert loop is not None
    assert isinstance(loop.steady.data_wait_s, Missing)
    reader = ProcessReader(HELLO)
    reader.take_facts({"keras_fit": 1, "model": 9, "trained": 4})

    def take(*events: Event) -> None:
        for kind, begin, end, value in events:
            reader.take_events(struct.pack(kinds.EVENT, kind, round(begin * MS), round(end * MS), value))

    take(made(0, 4), batches[0])
    reader.take_facts({"skipped": {str(kinds.KERAS_MADE): 1, str(kinds.KERAS_BATCH): 1}})
    take(made(5, 25), batches[2], made(30, 34, 2), batches[3])
    found = reader.process().loop
    assert found is not None
    assert [window.data_ns / MS for window in found.windows] == [4, 0, 4]


def test_an_evaluation_of_keras_after_its_last_fit_is_no_validation() -> None:
    """One within an epoch is, and so is one between two calls of `fit`."""
    batches = [(kinds.KERAS_BATCH, 10 * at, 10 * at + 9, 1) for at in range(6)]
    epoch = [*batches, (kinds.KERAS_TEST, 60, 70, 0), (kinds.KERAS_EPOCH, 0, 71, 0)]
    after = (kinds.KERAS_TEST, 80, 95, 0)
    later = [(kinds.KERAS_BATCH, 100 + 10 * at, 109 + 10 * at, 1) for at in range(6)]
    again = [*later, (kinds.KERAS_EPOCH, 100, 161, 0)]

    def gaps_of(events: list[Event]) -> list[tuple[str, int, float]]:
        reader = ProcessReader(HELLO)
        reader.take_facts({"keras_fit": 1, "model": 9, "trained": 4})
        reader.take_events(b"".join(struct.pack(kinds.EVENT, kind, b * MS, e * MS, v) for kind, b, e, v in events))
        loop = reader.process().loop
        assert loop is not None
        return [(each.kind, each.times, round(each.seconds, 6)) for each in loop.gaps]

    assert gaps_of([*batches, (kinds.KERAS_EPOCH, 0, 60, 0), after]) == []
    assert gaps_of([*epoch, after]) == [("validation", 1, 0.01)]
    assert gaps_of([*epoch, after, *again]) == [("validation", 2, 0.025), ("between epochs", 1, 0.005)]


def test_the_rank_that_others_wait_for_is_named() -> None:
    """All ranks take 10 ms an iteration; the one with the shortest backward pass is the one that is waited for."""
    quick = replace(read(steps(10)), rank=0, world=2)
    late = [(kind, begin - (kind == kinds.BACKWARD) * -1.5, end, value) for kind, begin, end, value in steps(10)]
    slow = replace(read(late), rank=1, world=2, pid=8)
    skew = compare_ranks([quick, slow])
    assert skew is not None
    assert (skew.ranks, skew.slowest) == ((0, 1), 1)
    assert skew.spread == pytest.approx(9.5 / 8, rel=0.01)
    assert (skew.low, skew.high) == (pytest.approx(9.5 / 8, rel=0.01), pytest.approx(9.5 / 8, rel=0.01))
    assert compare_ranks([quick]) is None


def test_ranks_are_compared_over_the_same_iterations() -> None:
    """Both became twice as slow at the same time; one of them was not steady before, and is no straggler."""
    both = [*steps(200), *slower(120, 2000.0)]
    ranks = [replace(read(both), rank=rank, world=2, pid=rank) for rank in (0, 1)]
    loops = [each.loop for each in ranks if each.loop is not None]
    late = replace(ranks[1], loop=replace(loops[1], steady_from=250))
    skew = compare_ranks([replace(ranks[0], loop=replace(loops[0], steady_from=0)), late])
    assert skew is not None
    assert (skew.spread, skew.low, skew.high) == (pytest.approx(1), pytest.approx(1), pytest.approx(1))
    assert 60 <= skew.iterations <= 70


def test_a_rank_that_is_slow_now_and_then_is_no_straggler() -> None:
    """Its mean is 1.3 times that of the other, by a few iterations; the interval has 1 in it."""
    quick, jumpy = read(steps(60)), read([*steps(58), *slower(2, 580.0, by=60.0)])
    skew = compare_ranks([replace(quick, rank=0, pid=1), replace(jumpy, rank=1, pid=2)])
    assert skew is not None
    assert skew.spread > 1.2
    assert not isinstance(skew.low, Missing)
    assert skew.low < 1
    few = compare_ranks([replace(read(steps(3)), rank=rank, pid=rank) for rank in (0, 1)])
    assert few is not None
    assert isinstance(few.low, Missing)


def test_ranks_of_different_lengths_are_compared_where_both_ran() -> None:
    """One of them has gone on and has joined its windows: the iterations are the same ones."""
    skew = compare_ranks([replace(read(steps(count)), rank=count, pid=count) for count in (400, 900)])
    assert skew is not None
    assert skew.spread == pytest.approx(1)
    assert 300 <= skew.iterations <= 400


def slower(count: int, start: float, by: float = 10.0) -> list[Event]:
    """Return iterations that take longer, in their forward pass."""
    found: list[Event] = []
    for number in range(count):
        at = start + (10 + by) * number
        found += [fetch(at, at + 3), (kinds.BACKWARD, at + 5 + by, at + 7 + by, 0)]
        found.append((kinds.STEP, at + 7 + by, at + 9.5 + by, 1))
    return found


EVENTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                kinds.FETCH,
                kinds.LOADER_END,
                kinds.LOADER_OPEN,
                kinds.BACKWARD,
                kinds.STEP,
                kinds.SKIP,
                kinds.SAVE,
                kinds.COMPILE,
                kinds.NO_GRAD,
                kinds.EVALUATED,
                kinds.SYNC,
            ]
        ),
        st.integers(0, 5),
        st.integers(0, 3),
        st.integers(1, 3),
    ),
    max_size=60,
)


@settings(max_examples=300, deadline=None)
@given(EVENTS)
def test_any_order_of_events_adds_up(rows: list[tuple[int, int, int, int]]) -> None:
    """Whatever a script does: nothing is raised, no part is negative, and the parts are the time."""
    events, at = [], 0
    for kind, pause, length, value in rows:
        begin, at = at + pause, at + pause + length
        loader = value << kinds.ITEMS_SHIFT if kind == kinds.FETCH else value
        events.append((kind, begin, at, loader))
    loop = read(events).loop
    if loop is None:
        return
    for window in loop.windows:
        parts = (
            window.data_ns,
            window.forward_backward_ns,
            window.optimizer_ns,
            window.checkpoint_ns,
            window.outside_ns,
            window.no_grad_ns,
        )
        assert min(parts) >= 0, window
        assert sum(parts) <= window.wall_ns, window
        assert window.wall_ns == window.end_ns - window.start_ns
    if loop.typical is not None:
        edges = [0, *(each.end_ns for each in loop.typical.spans)]
        assert edges[:-1] == [each.start_ns for each in loop.typical.spans], loop.typical
        assert edges[-1] == loop.typical.wall_ns, loop.typical
