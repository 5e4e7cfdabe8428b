"""Loaders that start again: their workers for each epoch, or all of it for each batch."""

from __future__ import annotations

import pytest
from test_analysis_script import Event, fetch, loop_of, steps

from laptime.attach import kinds

LOADER = {"loader": 1, "batch_size": 8, "batches": 5, "num_workers": 2, "persistent_workers": False}


def test_what_starting_workers_again_takes_is_counted() -> None:
    """In each of two later epochs 1 ms to begin, 11 instead of 3 for the first batch, and 1 to end.

    The first epoch starts the workers anyway; a loader without any, or that keeps them, starts nothing.
    """

    def epoch(start: float, wait: float) -> list[Event]:
        waited = fetch(start - wait, start + 3)
        return [
            (kinds.LOADER_OPEN, start - wait - 1, start - wait, 1),
            waited,
            *steps(5, start)[1:],
            (kinds.LOADER_END, start + 50, start + 51, 1),
        ]

    events = [*epoch(0, 40), *epoch(100, 8), *epoch(200, 8)]
    loop = loop_of(events, facts=(LOADER,))
    assert (loop.iterations, loop.epochs) == (15, 3)
    assert loop.restarts_s == pytest.approx(0.020)
    for other in ({**LOADER, "num_workers": 0}, {**LOADER, "persistent_workers": True}):
        assert loop_of(events, facts=(other,)).restarts_s == 0


def test_a_loader_that_starts_for_each_batch_is_a_part_of_each_iteration() -> None:
    """Its start is a wait for data. One that a loop leaves behind some batches starts again between epochs."""
    events: list[Event] = []
    for number in range(20):
        start = [(kinds.LOADER_OPEN, 12 * number - 2, 12 * number, 1)]
        events += [*start, *steps(1, 12 * number)]
    loop = loop_of(events, facts=(LOADER,))
    assert (loop.iterations, loop.epochs, loop.started_anew) == (20, 20, 1)
    assert loop_of(events, facts=({**LOADER, "batches": 1},)).started_anew == 0, "its only batch is all data"
    assert loop.step_ms is not None
    assert loop.step_ms.median == pytest.approx(12, rel=0.01), "the last one takes 10"
    assert loop.steady.data_wait_s == pytest.approx(0.005, rel=0.02)
    assert loop.gaps == ()
    left = [(kinds.LOADER_OPEN, -2, 0, 1), *steps(5), (kinds.LOADER_OPEN, 50, 52, 1), *steps(5, 52)]
    assert [gap.kind for gap in loop_of(left).gaps] == ["loader start"]


def test_loaders_that_are_made_again_start_their_workers_again() -> None:
    """For each epoch one of its own, alike: what keeps its workers keeps them for one epoch only."""
    events: list[Event] = []
    for number in (1, 2, 3):
        start = 100 * number
        events += [
            (kinds.LOADER_OPEN, start - 9, start - 8, number),
            fetch(start - 8, start + 3, loader=number),
            *steps(5, start, loader=number)[1:],
            (kinds.LOADER_END, start + 50, start + 51, number),
        ]
    for keeps in (False, True):
        facts = [{**LOADER, "loader": number, "persistent_workers": keeps} for number in (1, 2, 3)]
        assert loop_of(events, facts=facts).restarts_s == pytest.approx(0.020)
    facts = [{**LOADER, "loader": number, "batch_size": 8 * number} for number in (1, 2, 3)]
    assert loop_of(events, facts=facts).restarts_s == 0, "they are not alike, and each starts once"
