"""A lane is proven once: a later heat shows by its first losses that it trains the same, or is proven as well."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from test_heat_loop import Notebook, order_for

from laptime.engine import wire
from laptime.engine.backends.fake import FakeBackend
from laptime.engine.heat.loop import run_heat
from laptime.engine.heat.work import WORK_STEPS, find_distance, take_losses


class Losing:
    """A runner whose losses are known."""

    stride = 1

    def __init__(self, *losses, holds=False):
        self._losses, self.holds, self._step = losses, holds, 0

    def run(self, steps):
        self._step += steps

    def fence(self):
        pass

    def loss(self):
        return self._losses[self._step]


def heard(order):
    """Return the phases of a heat, its first step, and how often it was proven."""
    line = Notebook()
    run_heat(FakeBackend(), order, line)
    phases = [each.name for each in line.said if isinstance(each, wire.Phase)]
    [first] = [each for each in line.said if isinstance(each, wire.FirstStep)]
    return phases, first, sum(isinstance(each, wire.Proved) for each in line.said), line


def test_the_first_heat_is_proven_and_reports_its_first_losses():
    """They are those of the step that was timed and of one more."""
    phases, first, proofs, _ = heard(replace(order_for(), first_losses=()))
    assert phases == ["build", "proof", "first step", "first losses", "timing", "late step", "end"]
    assert (first.ns, len(first.losses), proofs) == (300_000_000, WORK_STEPS, 1)


def test_a_heat_that_repeats_them_is_not_proven_again():
    """It has done the same steps from the same start."""
    _, first, _, _ = heard(replace(order_for(), first_losses=()))
    phases, again, proofs, _ = heard(replace(order_for(), first_losses=first.losses))
    assert phases == ["build", "first step", "first losses", "timing", "end"]
    assert (again, proofs) == (first, 0)


@pytest.mark.parametrize("factor", [1 + 1e-4, 0.5])
def test_a_heat_that_does_not_is_proven_as_well(factor):
    """Before it is timed, and it says why."""
    _, first, _, _ = heard(replace(order_for(), first_losses=()))
    other = (*first.losses[:-1], first.losses[-1] * factor)
    phases, _, proofs, line = heard(replace(order_for(), first_losses=other))
    assert phases == ["build", "first step", "first losses", "proof", "first losses", "timing", "end"]
    assert proofs == 1
    notes = [note for each in line.said if isinstance(each, wire.Noted) for note in each.notes]
    assert any("its first losses are not those of the heat that was proven" in note for note in notes)
    assert len(line.windows) == 10


def test_without_an_order_each_heat_is_proven():
    """So it is where a training cannot be repeated."""
    phases, first, proofs, _ = heard(order_for())
    assert phases == ["build", "proof", "first step", "timing", "end"]
    assert (first.losses, proofs) == ((), 1)


def test_losses_that_are_not_seen_or_not_finite_prove_nothing():
    """No distance to them is small."""
    assert take_losses(Losing(3.0, 2.0, 1.0)) == (3.0, 2.0)
    assert take_losses(Losing(3.0, None, 1.0)) == take_losses(Losing(3.0, math.nan, 1.0)) == ()
    assert take_losses(Losing(3.0, 2.0, 1.0, holds=True)) == (3.0,)
    assert find_distance((), ()) == find_distance((1.0,), (1.0, 2.0)) == math.inf
    assert find_distance((1.0, 2.2), (1.0, 2.0)) == pytest.approx(0.1)
