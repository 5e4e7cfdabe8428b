"""The answer as a whole: parts that add up, ceilings, predicted gains, the order of experiments, the verdict."""

from __future__ import annotations

from dataclasses import replace
from math import fsum

import pytest
from cases import CUDA, DID, MACHINE, case_of, lane_of, near, signs_of, steps_windows, trial
from hypothesis import given
from hypothesis import strategies as st
from timelines import CARD, channel

from laptime.model.quantities import Factor, Missing
from laptime.model.record import Finding
from laptime.questions.why.answer import explain, remedies
from laptime.questions.why.causes import CAUSES, judge_causes, predict, rank_experiments, sum_up
from laptime.questions.why.facts import ceilings, split
from laptime.questions.why.nouns import Verdict

IN_ORDER = (
    "measuring error",
    "not on the device",
    "device memory full",
    "device shared",
    "clocks lowered",
    "outside the step",
    "input pipeline",
    "copy to the device",
    "host waits for values",
    "too little work a step",
    "several devices",
    "processor limited",
    "processor oddities",
    "float64",
    "changing shapes",
    "poor kernels",
)
BUSY = channel(CARD, "busy_percent", "%")
FAULTS = channel("heat", "minor_faults", "faults", "counter")
SLOW_LOADER = {"loader": 90.0, "compute": 10.0}
stage_ms = st.one_of(st.none(), st.floats(1e-3, 1e4))


def on_card(busy, **changes):
    return lane_of(100.0, device=CUDA, shown={BUSY: lambda _: busy}, **changes)


def shares(case):
    return {part.of: part.share for part in split(case)}


def foretold(case, name, **experiment):
    return predict(case, trial(name, **experiment).experiment)


@given(stage_ms, stage_ms, stage_ms, st.floats(0, 100), st.booleans())
def test_the_parts_of_a_step_add_up(loader, copy, compute, busy, is_card):
    """To 1, whatever was measured, and none is negative."""
    lane = on_card(busy) if is_card else lane_of(100.0)
    told = {"loader": loader, "copy": copy, "compute": compute}
    parts = split(case_of(lane, stages={stage: ms for stage, ms in told.items() if ms is not None}))
    assert fsum(part.share for part in parts) == pytest.approx(1, abs=1e-12)
    assert all(0 <= part.share <= 1 for part in parts)
    assert parts[-1].of == "unattributed"


def test_a_serial_step_is_divided_as_its_stages_are():
    assert shares(case_of(lane_of(100.0), stages={"loader": 70.0, "compute": 25.0})) == pytest.approx(
        {"loader": 0.7, "compute": 0.25, "unattributed": 0.05}
    )


def test_what_is_worked_on_meanwhile_costs_nothing():
    """A loader that would take 80 of 100 ms alone, next to 75 ms of computing, is waited for no longer than 25."""
    assert shares(case_of(lane_of(100.0), stages={"loader": 80.0, "compute": 75.0})) == pytest.approx(
        {"loader": 0.25, "compute": 0.75, "unattributed": 0.0}
    )


def test_a_device_that_waits_for_its_host_is_a_part_of_its_own():
    assert shares(case_of(on_card(30.0), stages={"compute": 90.0})) == pytest.approx(
        {"compute": 0.3, "host": 0.6, "unattributed": 0.1}
    )


def test_pauses_are_outside_the_step():
    """A third of the time is between the laps; the rest is divided as ever."""
    lane = lane_of(15.0, windows=steps_windows(*[[*[10.0] * 9, 60.0] * 2] * 5))
    told = shares(case_of(lane, stages={"loader": 1.0, "compute": 9.0}))
    assert told == pytest.approx({"outside": 1 / 3, "compute": 0.6, "loader": 1 / 15, "unattributed": 0.0}, abs=0.01)


def test_steps_taken_apart_stand_in_for_ceilings():
    signs = signs_of(wait_ns=600_000_000, compute_ns=400_000_000)
    assert shares(case_of(lane_of(100.0, signs=signs))) == pytest.approx(
        {"loader": 0.6, "compute": 0.4, "unattributed": 0.0}, rel=1e-3
    )


def test_nothing_known_is_unattributed():
    assert shares(case_of(lane_of(100.0))) == {"unattributed": 1.0}


def test_the_slowest_ceiling_binds():
    """In items a second with its interval; a processor has no copy, and a reason."""
    loader, copy, compute = ceilings(case_of(lane_of(100.0), stages=SLOW_LOADER))
    assert (round(loader.items_per_s), loader.binds, loader.lane) == (1111, True, "torch/cpu/as-written")
    assert loader.low < loader.items_per_s < loader.high
    assert (round(compute.items_per_s), compute.binds) == (10_000, False)
    assert copy.items_per_s == Missing("a lane on the processor copies nothing to a device")


def test_one_ceiling_alone_binds_nothing():
    case = case_of(lane_of(100.0), trial("loader", absent="its batches lie ready"), stages={"compute": 100.0})
    loader, _, compute = ceilings(case)
    assert (loader.items_per_s, compute.binds) == (Missing("its batches lie ready"), False)


@pytest.mark.parametrize(
    ("expected", "name", "settings", "case"),
    [
        (10.0, "decoded", (), case_of(lane_of(100.0), stages=SLOW_LOADER)),
        # Two workers of 90 ms on four cores: 45 ms each, and the training has 22.5 ms less of its cores.
        (100 / 45, "workers", ("workers=2",), case_of(lane_of(100.0), stages=SLOW_LOADER)),
        (100 / 32.5, "workers", ("workers=8",), case_of(lane_of(100.0), stages=SLOW_LOADER)),
        (100 / 30, "workers", ("workers=3",), case_of(on_card(9.0), stages=SLOW_LOADER)),
        (2.0, "batch 2x", (), case_of(on_card(20.0), stages={"compute": 100.0})),
        (1 / 0.9, "batch 2x", (), case_of(on_card(90.0), stages={"compute": 100.0})),
        # 100 ms for one batch and 125 for two: 175 for four, and 87.5 for a half.
        (4 / 1.75, "batch 4x", (), case_of(lane_of(100.0), trial("batch 2x", 1.6))),
        (0.5 / 0.875, "half batch", (), case_of(lane_of(100.0), trial("batch 2x", 1.6))),
        (1 / 0.825, "keep", (), case_of(lane_of(100.0, shown={FAULTS: lambda t: 500_000 * t}))),
        (2.5, "graph", (), case_of(on_card(40.0), stages={"compute": 100.0})),
        (2.5, "deferred", (), case_of(on_card(40.0, signs=signs_of(reads=1.0)), stages={"compute": 100.0})),
        (1.0, "flush", (), case_of(lane_of(100.0, signs=signs_of(denormals=0.0)))),
        (2.5, "compute", (), case_of(lane_of(100.0, signs=signs_of(wait_ns=600_000_000, compute_ns=400_000_000)))),
    ],
)
def test_gains_are_foretold(expected, name, settings, case):
    assert foretold(case, name, settings=settings) == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("name", ["compile", "batch 4x", "keep", "decoded", "threads", "workers", "deferred"])
def test_what_cannot_be_foretold_says_why(name):
    told = foretold(case_of(lane_of(100.0)), name)
    assert isinstance(told, Missing)
    assert told.missing


def test_experiments_follow_the_signs():
    """A loader that takes nearly all promises the most; what a figure rules out is left out."""
    case = case_of(lane_of(100.0, signs=signs_of(denormals=0.0, shapes=1, compiles=0)), stages=SLOW_LOADER)
    names = [*rank_experiments(case)]
    assert names[:2] == ["decoded", "workers"]
    assert not {"flush", "one", "half batch", "deferred", "graph", "batch 2x"} & set(names)


def test_denormals_come_first_where_they_are_many():
    case = case_of(lane_of(100.0, signs=signs_of(denormals=0.4, shapes=1, compiles=0)), stages={"compute": 99.0})
    assert next(iter(rank_experiments(case))) == "flush"


def test_what_was_tried_is_not_tried_again():
    signs = signs_of(denormals=0.4)
    assert "flush" not in rank_experiments(case_of(lane_of(100.0, signs=signs), trial("flush", 3.0)))


def test_four_times_the_batch_waits_for_twice():
    lane = lane_of(1.0)
    assert "batch 4x" not in rank_experiments(case_of(lane))
    assert "batch 4x" in rank_experiments(case_of(lane, trial("batch 2x", 1.8)))
    assert "batch 4x" not in rank_experiments(case_of(lane, trial("batch 2x", 1.0)))


def test_an_idle_card_is_given_more_work():
    assert next(iter(rank_experiments(case_of(on_card(20.0), stages={"compute": 100.0})))) in {"graph", "batch 2x"}


def test_rules_ask_for_experiments_that_there_are():
    """A cause names its experiments: none that the table has not."""

    class Asked(dict):
        def get(self, name, default=None):
            asked.add(name)
            return super().get(name, default)

    asked = set()
    told = signs_of(denormals=0.0, shapes=7, compiles=5, reads=2.0, wait_ns=1, copy_ns=10**9, compute_ns=1)
    for lane in (lane_of(100.0, signs=told), on_card(30.0, signs=told), lane_of(100.0, threads=16)):
        for stages in ({}, SLOW_LOADER, {"loader": 1.0, "compute": 99.0}):
            facts = case_of(lane, *map(trial, DID), stages=stages)
            facts = replace(facts, trials=Asked(facts.trials))
            rank_experiments(facts)
            explain(facts)
    assert asked <= DID.keys()
    assert {"decoded", "compute", "deferred", "threads", "one thread", "flush", "keep", "one", "layout"} <= asked


def test_remedies_stand_by_what_they_gained():
    """The recommended one changes nothing, though one that takes memory gains a little more; a failed one says why."""
    case = case_of(
        lane_of(100.0),
        trial("workers", 9.0, settings=("workers=2",)),
        trial("decoded", 9.5, changes="4.2 GB of memory"),
        trial("batch 4x", failed=True, reason="out of memory", changes="the learning"),
        trial("compile", reason="nothing pointed to it"),
        trial("loader", 1.1, is_remedy=False),
        stages=SLOW_LOADER,
    )
    rows = remedies(case, case.trials, ())
    assert [row.says for row in rows] == ["decoded", "workers", "batch 4x", "compile"]
    assert [row.recommended for row in rows] == [False, True, False, False]
    assert [row.reason for row in rows] == [None, None, "out of memory", "nothing pointed to it"]
    assert rows[0].predicted == pytest.approx(10.0)


def test_memory_is_recommended_where_it_gains_far_more():
    case = case_of(lane_of(100.0), trial("workers", 1.8), trial("decoded", 9.5, changes="4.2 GB of memory"))
    assert [(row.says, row.recommended) for row in remedies(case, case.trials, ())] == [
        ("decoded", True),
        ("workers", False),
    ]


def test_a_remedy_that_freezes_drawn_items_is_last_and_says_what_it_changes():
    """It gains most, and is not recommended: its training is another one."""
    for drawn in (True, False):
        lane = lane_of(100.0, signs=signs_of(redrawn=drawn))
        case = case_of(lane, trial("decoded", 9.5, changes="memory"), trial("workers", 1.8), trial("layout", 0.9))
        rows = remedies(case, case.trials, ())
        told = [(row.says, row.changes, row.recommended) for row in rows]
        others = [("workers", "nothing", drawn), ("layout", "nothing", False)]
        frozen = ("decoded (freezes items that are drawn again each time)", "the learning", False)
        assert told == ([*others, frozen] if drawn else [("decoded", "memory", True), *others])


def test_a_rate_is_not_called_possible_that_only_frozen_items_gave():
    """The same training cannot have it."""
    for drawn in (True, False):
        lane = lane_of(100.0, signs=signs_of(redrawn=drawn))
        case = case_of(lane, trial("decoded", 9.5, changes="memory"), stages=SLOW_LOADER)
        assert ("of a possible" in explain(case).says) == (not drawn)


def test_memory_is_recommended_where_nothing_else_gains():
    case = case_of(lane_of(100.0), trial("keep", 2.0, changes="memory"), trial("layout", 0.9))
    assert [row.recommended for row in remedies(case, case.trials, ())] == [True, False]


@pytest.mark.parametrize(("part", "recommended"), [(1.5, "one thread"), (1.2, "best")])
def test_one_part_of_a_preset_is_recommended_where_it_gains_as_much(part, recommended):
    """It is the smaller change."""
    case = case_of(lane_of(100.0), trial("best", 1.55), trial("one thread", part))
    assert [row.says for row in remedies(case, case.trials, ()) if row.recommended] == [recommended]


def test_nothing_is_recommended_that_does_not_gain():
    case = case_of(lane_of(100.0), trial("layout", 1.02), trial("batch 2x", 2.0, changes="the learning"))
    assert not any(row.recommended for row in remedies(case, case.trials, ()))


def test_one_pair_recommends_what_was_foretold_only():
    """It has no interval; what nobody expected may be the machine's own doing."""
    for stages, is_recommended in ((SLOW_LOADER, True), ({"loader": 0.1, "compute": 99.0}, False)):
        alone = trial("decoded", 9.5, changes="memory")
        bare = replace(alone, factor=Factor(9.5, Missing("one pair"), Missing("one pair")))
        case = case_of(lane_of(100.0), bare, stages=stages)
        assert [row.recommended for row in remedies(case, case.trials, ())] == [is_recommended]


def test_nothing_is_recommended_whose_cause_is_ruled_out():
    """A loader that gives a thousand times the items is no limit, whatever one pair next to a neighbour says."""
    alone = trial("decoded", 3.0, changes="memory")
    bare = replace(alone, factor=Factor(3.0, Missing("one pair"), Missing("one pair")))
    case = case_of(lane_of(100.0), bare, stages=SLOW_LOADER)
    acquitted = Verdict(alone.experiment.cause, "ruled out", "the loader is no limit")
    assert [row.recommended for row in remedies(case, case.trials, ())] == [True]
    assert [row.recommended for row in remedies(case, case.trials, (acquitted,))] == [False]


def test_on_a_processor_the_first_heats_foretell_what_decoded_items_gain():
    """After a wait its threads are slow for a while: the loader's part alone would tell less."""
    case = case_of(lane_of(100.0), stages={"loader": 80.0, "compute": 10.0})
    assert foretold(case, "decoded") == pytest.approx(10.0)
    assert foretold(case_of(on_card(50.0), stages={"loader": 80.0, "compute": 10.0}), "decoded") == pytest.approx(5.0)


def test_all_causes_are_judged_in_their_order():
    assert tuple(each.cause for each in judge_causes(case_of(lane_of(100.0)))) == IN_ORDER
    assert len(CAUSES) == 20
    script = case_of(lane_of(100.0, signs=signs_of(places=(), wall_ns=1)))
    own = ("own code", "evaluation", "checkpoints", "waiting for the disk")
    assert tuple(each.cause for each in judge_causes(script)) == (*IN_ORDER[:-1], *own, IN_ORDER[-1])


def test_the_verdict_names_the_proven_cause_that_costs_most():
    case = case_of(
        lane_of(100.0, shown={FAULTS: lambda t: 500_000 * t}),
        trial("decoded", 9.5),
        trial("keep", 1.3),
        stages=SLOW_LOADER,
        what="plates-cnn",
        items="images",
    )
    answer = explain(case, ("batch 4x",))
    assert answer.says == (
        "plates-cnn on torch/cpu: the loader bounds this training (proven). 1,000 images/s of a possible 9,500. "
        "Then: memory is given back to the system and fetched again in every step (proven, 1.30x). "
        "2 of 3 experiments were tried: there was no time for the others."
    )
    assert answer.first == ("input pipeline", "processor oddities")
    assert (answer.missing, answer.trusted, answer.lane) == (("batch 4x",), True, "torch/cpu/as-written")


def test_a_hidden_card_is_named_before_all_else():
    unseen = Finding("card not seen", "NVIDIA H100 is not used in torch: a build for processors.", {}, "x", "likely")
    case = case_of(lane_of(100.0), trial("decoded", 9.5), stages=SLOW_LOADER, unseen=(unseen,), machine=MACHINE)
    assert explain(case).first == ("not on the device", "input pipeline")


def test_what_is_likely_stands_behind_what_is_proven():
    """Whatever it may gain."""
    told = (Verdict("poor kernels", "likely", "", gain=9.0), Verdict("input pipeline", "proven", "", gain=1.2))
    assert sum_up(case_of(lane_of(100.0)), told)[1] == ("input pipeline", "poor kernels")


def test_where_nothing_gains_the_limit_is_named():
    lane = replace(lane_of(100.0, signs=signs_of(denormals=0.0, shapes=1, compiles=0)), roofline=near(0.71))
    case = case_of(lane, trial("layout", 1.0), trial("batch 2x", 1.01), stages={"loader": 1.0, "compute": 99.0})
    answer = explain(case)
    assert answer.first == ()
    assert answer.says.startswith(
        "torch/cpu: nothing that was tried makes it faster: it is bound by its device's arithmetic, at 71 % of what"
    )
    unmeasured = explain(replace(case, lane=replace(lane, roofline=None)))
    assert "how near it comes to what its device can do is not known" in unmeasured.says


def test_one_page_has_one_count_of_experiments():
    """Several experiments may share a lane, and noise was said of "each of 2 experiments" next to "1 of 4"."""
    wide = {"decoded": trial("decoded", 1.1, 0.9), "compute": trial("compute", 1.1, 0.9)}
    shared = [replace(each, lane="cpu/input=cached") for each in wide.values()]
    answer = explain(case_of(lane_of(100.0), *shared), ("threads", "best", "flush"))
    assert answer.says.endswith(" 1 of 4 experiments were tried: there was no time for the others.")
    assert answer.trusted, "one lane is no proof that all are blind"
