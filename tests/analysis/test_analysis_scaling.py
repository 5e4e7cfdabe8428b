"""The parts of a step on several devices, and what more devices would bring: figures with known answers."""

from __future__ import annotations

import random

import measured
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laptime.analysis.heats import summarise_heat
from laptime.model.process import Collectives, Exchange, RankReport
from laptime.model.quantities import Missing
from laptime.questions.scale.nouns import HeldOut
from laptime.questions.scale.reduce import (
    AloneRanks,
    ScaleRound,
    describe_link,
    expected_slowest,
    fit,
    fit_all_reduce,
    hold_out,
    profiled_exchange,
    project,
)

GRADIENTS = 50_000_000
HOP_MS, GB_PER_S = 0.1, 2.0


def all_reduce_ms(devices, size):
    return 2 * (devices - 1) * HOP_MS + 2 * (devices - 1) / devices * size / (GB_PER_S * 1e6)


def exchanges(devices):
    return tuple(Exchange(size, all_reduce_ms(devices, size) * 1e6) for size in (4, GRADIENTS))


def alone(*rank_ms, slowest=None, draws=()):
    return AloneRanks(rank_ms, max(rank_ms) if slowest is None else slowest, draws)


def a_round(mode="weak", counts=(2, 4), hidden=5.0, one=50.0, ranks=None, **more):
    most = max(counts)
    ranks = ranks or alone(*[one] * most)
    several = {count: ranks.slowest_ms + all_reduce_ms(count, GRADIENTS) - hidden for count in counts}
    parts = {"part_ms": None, "one_ready_ms": None, "alone_ready": None, **more}
    return ScaleRound(mode, most, one, several, ranks, exchanges={each: exchanges(each) for each in counts}, **parts)


def test_the_parts_of_a_step_are_what_was_planted_and_add_up_to_it():
    ready = alone(38.0, 48.0, 38.0, 38.0, slowest=51.0)
    seen = a_round(ranks=alone(51.0, 61.0, 51.0, 51.0, slowest=64.0), one_ready_ms=40.0, alone_ready=ready)
    parts = seen.parts_ms()
    assert sum(parts.values()) == pytest.approx(seen.several_ms[4])
    exposed = all_reduce_ms(4, GRADIENTS) - 5.0
    expected = {"computing": 50.0, "straggler": 10.0, "waiting": 3.0, "loader": 3.0, "host": -2.0, "exchange": exposed}
    assert {name: parts[name] for name in expected} == pytest.approx(expected)


def test_loaders_that_are_slow_in_turns_are_no_slow_rank():
    """In each step another rank reads last, as from one disk: ready batches take that wait away."""
    ranks, ready = alone(*[55.0] * 4, slowest=66.0), alone(*[40.0] * 4)
    parts = a_round(ranks=ranks, one_ready_ms=40.0, alone_ready=ready).parts_ms()
    assert {name: parts[name] for name in ("loader", "waiting", "straggler", "host")} == pytest.approx(
        {"loader": 16.0, "waiting": 0.0, "straggler": 0.0, "host": 0.0}
    )


def test_a_smaller_batch_is_told_apart_from_what_the_devices_lose_to_each_other():
    ranks = alone(*[16.0] * 4)
    seen = a_round("strong", one=48.0, ranks=ranks, part_ms=15.0)
    parts = seen.parts_ms()
    assert (parts["computing"], parts["smaller batch"], parts["host"]) == pytest.approx((12.0, 3.0, 1.0))


def test_the_link_is_found_from_two_exchanges():
    found = fit_all_reduce(exchanges(4), 4)
    assert found.hop_ms == pytest.approx(HOP_MS, rel=1e-3)
    assert 1e-6 / found.byte_ms == pytest.approx(GB_PER_S, rel=1e-3)
    link = describe_link([a_round()], 4)
    assert (link.latency_us, link.gb_per_s, link.hidden_ms) == pytest.approx((100.0, 2.0, 5.0), rel=1e-2)
    assert fit_all_reduce((), 4) is None


@pytest.mark.parametrize("mode", ["weak", "strong"])
def test_a_model_of_two_counts_predicts_the_next(mode):
    """Fitted on 1 and 2, it predicts 4, 8 and 16 of a machine that behaves so, and no more."""
    one = 400.0
    ranks = alone(*[one if mode == "weak" else one / 2] * 2)
    seen = a_round(mode, (2,), one=one, ranks=ranks, part_ms=None if mode == "weak" else one / 2)
    found = {each.devices: each.speedup for each in project([seen, seen], 2, Missing("none"))}
    assert min(found) == 4
    assert max(found) == 16
    for devices in (4, 8, 16):
        exposed = max(0.0, all_reduce_ms(devices, GRADIENTS) - 5.0)
        step = (one if mode == "weak" else one / devices) + exposed
        truth = (devices if mode == "weak" else 1) * one / step
        assert found[devices].low <= truth <= found[devices].high
        if devices <= 8:  # beyond, a ring and a tree differ: the interval holds both
            assert found[devices].value == pytest.approx(truth, rel=0.05)


def heat_of(*reports):
    """Return a heat whose ranks reported this; its first one may have been profiled."""
    return summarise_heat(measured.heat_of(20.0, ranks=reports))


def report(collectives=None, absent=None):
    return RankReport(0, "cpu", "here", 1, 1, 1, 0.0, 1.0, collectives, absent or {})


def test_the_profiled_exchange_is_the_mean_of_the_heats():
    seen = [Collectives("a profiler", 8, 100.0, held, exposed) for held, exposed in ((50.0, 30.0), (60.0, 40.0))]
    found = profiled_exchange([heat_of(report(each), report()) for each in seen])
    assert (found.by, found.in_progress.value, found.exposed.value) == ("a profiler", 0.55, pytest.approx(0.35))
    assert found.exposed.low < 0.3 < found.exposed.value < 0.4 < found.exposed.high
    assert isinstance(profiled_exchange([heat_of(report(seen[0]))]).exposed.low, Missing)


def test_a_profile_that_is_missing_says_why():
    blind = Missing("PyTorch's profiler told of no collective")
    assert profiled_exchange([heat_of(report(absent={"collectives": blind}))]) == blind
    assert "used by one process" in profiled_exchange([heat_of()]).missing
    assert profiled_exchange([]) == Missing("no heat on all of them finished")


def test_the_largest_count_is_held_out():
    held = hold_out([a_round(counts=(2, 4), hidden=0.0)] * 3)
    assert (held.devices, held.error) == (4, pytest.approx(0, abs=1e-6))
    assert isinstance(hold_out([a_round(counts=(2,))]), Missing)
    wide = project([a_round()] * 3, 4, HeldOut(4, 1.0, 2.0))[0].speedup
    narrow = project([a_round()] * 3, 4, HeldOut(4, 2.0, 2.0))[0].speedup
    assert wide.low < narrow.low < narrow.high < wide.high


def test_nothing_is_predicted_without_an_exchange_that_was_timed():
    seen = a_round()
    blind = ScaleRound("weak", 4, 50.0, seen.several_ms, seen.alone, None, None, None, {})
    assert isinstance(project([blind], 4, Missing("none")), Missing)
    assert project([], 4, Missing("none")) == Missing("one count alone was measured")
    assert fit(blind, 4) is None


def test_what_binds_many_devices_is_named():
    found = {
        each.devices: each.binds
        for each in project([a_round(hidden=all_reduce_ms(4, GRADIENTS) + 10)] * 2, 4, Missing("none"))
    }
    assert found[8] is None
    assert found[32] == "exchange"


def test_waiting_grows_as_the_greatest_of_more_draws():
    random.seed(1)
    draws = sorted(random.lognormvariate(0, 0.1) for _ in range(5_000))
    means = [expected_slowest(draws, count) for count in (1, 2, 16, 256)]
    assert means[0] == pytest.approx(sum(draws) / len(draws))
    assert means[1] == pytest.approx(1.06, abs=0.02)
    assert means == sorted(means)
    assert means[-1] <= draws[-1]


@given(
    st.lists(st.floats(1, 1e4), min_size=2, max_size=8),
    st.floats(0, 100), st.floats(1, 1e4), st.floats(0.1, 1e3),
)  # fmt: skip
def test_the_parts_always_add_up(rank_ms, more, one, exposed):
    ranks = alone(*rank_ms, slowest=max(rank_ms) + more)
    seen = ScaleRound(
        "weak", len(rank_ms), one, {len(rank_ms): ranks.slowest_ms + exposed}, ranks, None, None, None, {}
    )
    assert sum(seen.parts_ms().values()) == pytest.approx(ranks.slowest_ms + exposed)
