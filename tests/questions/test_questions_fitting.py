"""Which lanes surely do not fit into memory, before they run and after a batch of theirs has run."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from measured import heat_of, windows_of

from laptime.model.ask import Ask
from laptime.model.frameworks import SCRIPT
from laptime.model.machine import Device, Framework, Machine, Processor
from laptime.model.quantities import Missing
from laptime.planner import make_plan
from laptime.planner.lanes import parse_lane
from laptime.planner.plan import find_devices, plan_lane, plan_script_lane
from laptime.planner.refusals import SubjectFacts
from laptime.questions.asking import Prepared, facts_of
from laptime.questions.heat_rounds import Fitting, HeatRounds
from laptime.questions.job import CheckpointFiles, Job, Services
from laptime.questions.proving import ReferenceCache
from laptime.questions.subject import find_subject
from laptime.questions.tune.lanes import find_tunable
from laptime.questions.tune.options import TuneAsk
from laptime.questions.tune.search import Objective, Search
from laptime.trainings.workloads.shapes import count_heat_memory, count_step_memory

CARD = Device("cuda:0", "cuda", "a card", usable=True, memory_bytes=20 * 10**9, features=("bf16", "compile"))
NONE = Missing("none")
MACHINE = Machine(
    Processor("a processor", "x86_64", 2, 2, NONE), 1 << 34, NONE, "Linux 6.1", "3.11.7", None,
    (Framework("torch", "2.13.0", {"torch": "2.13.0"}, (CARD,)),),
)  # fmt: skip
PETS, WORKLOAD = find_subject("pets-densenet")
OVERHEAD = 2 * 10**9


@pytest.fixture
def prepared():
    lanes = ("cuda", "cuda/batch=32", "cuda/batch=256", "cuda/batch=256+bf16")
    plan = make_plan(Ask("pets-densenet", tuple(f"torch/{lane}" for lane in lanes)), MACHINE, PETS, WORKLOAD)
    return Prepared(plan, MACHINE, WORKLOAD.published)


@pytest.fixture
def rounds(prepared):
    """No process runs: heats are planted."""
    services = Services("r-1", "2026-01-01T00:00:00+00:00", {}, lambda _record: None,
                        ReferenceCache({}.get, lambda _kept: None), CheckpointFiles(Path, Path.unlink), Path,
                        lambda _record, _note: None, lambda _moment: None)  # fmt: skip
    return HeatRounds(Job("tune", prepared, services), prepared.plan.pace)


def test_the_rounds_of_a_question_are_weighed(rounds):
    """A neighbour took a core in the third one."""
    for lane, step_ms in zip(rounds.job.plan.lanes[:2], (100.0, 50.0), strict=True):
        for number in range(4):
            flags = dict.fromkeys(range(5), "planted") if number == 2 else {}
            windows = windows_of(*[step_ms * (3.0 if flags else 1.0)] * 5, flags=flags)
            turned = tuple(replace(window, turn=turn) for turn, window in enumerate(windows))
            rounds.heats[lane.name].append(heat_of(step_ms, number, lane=lane.name, windows=turned))
    first, second = rounds.results()[:2]
    assert [heat.hardly_counts for heat in first.heats] == [False, False, True, False]
    assert [first.step_ms.median, second.step_ms.median] == pytest.approx([100.0, 50.0], rel=1e-3)


@pytest.mark.parametrize(("execution", "share"), [("eager", 1 - 9 / 13.05), ("compile", 1.0), ("compiled_graph", 1.0)])
def test_a_next_heat_saves_its_proof_but_not_what_the_proof_compiled(rounds, monkeypatch, execution, share):
    """Its first step compiles again, which a proven heat no longer shows."""
    monkeypatch.setattr(HeatRounds, "_proven_losses", lambda _self, _lane: (2.3,))
    usual = rounds.job.plan.lanes[0]
    lane = replace(usual, settings=replace(usual.settings, execution=execution))
    rounds.heats[lane.name].append(heat_of(100.0, lane=lane.name))
    assert rounds.share_again([lane]) == pytest.approx(share)


def test_shapes_alone_refuse_what_even_a_step_without_the_framework_does_not_fit(rounds):
    usual, _, large, half = rounds.job.plan.lanes
    fitting = Fitting(rounds)
    assert isinstance(fitting.estimate(large), Missing), "nothing has run"
    step_gb = count_step_memory(WORKLOAD, 256, "cuda") / 1e9
    assert fitting.why_too_large(large) == (
        f"it would need about {step_gb:.1f} GB, and 20.0 GB are all that cuda:0 has"
    )
    assert fitting.why_too_large(usual) is None
    assert fitting.why_too_large(half) is None, "what bf16 holds is not known"


def test_a_heat_at_one_batch_adds_what_the_framework_holds(rounds):
    usual, small, large, _ = rounds.job.plan.lanes
    held = count_heat_memory(WORKLOAD, small.settings, "cuda") + OVERHEAD
    rounds.heats[small.name].append(heat_of(100.0, lane=small.name, items_per_step=32, device_memory_bytes=held))
    fitting = Fitting(rounds)
    assert fitting.estimate(usual) == count_heat_memory(WORKLOAD, usual.settings, "cuda") + OVERHEAD
    assert fitting.estimate(small) == held
    most = fitting.largest_batch(usual)
    assert fitting.why_too_large(large) is not None
    assert most == pytest.approx((CARD.memory_bytes - OVERHEAD) / 131e6, rel=0.02)


def test_a_tuning_does_not_try_a_batch_that_does_not_fit_nor_anything_with_it(prepared, rounds):
    """Four times 64 images would need 34 GB; twice may fit."""
    facts = facts_of(prepared, WORKLOAD)
    lane = prepared.plan.ask.lanes[0]
    tunable = find_tunable(
        parse_lane(lane), MACHINE, facts, lambda each: plan_lane(each, MACHINE, facts), TuneAsk(("batch",))
    )
    search = Search(tunable, rounds, Objective(prepared.plan.ask))
    assert search.add((("batch", "2x"),))
    assert not search.add((("batch", "4x"),))
    assert search.refused[("batch", "4x"),].startswith("it would need about 33.6 GB")
    assert not [words for words in search.neighbours((), {}) if ("batch", "4x") in words]


def test_next_to_a_first_guess_its_next_values_are_tried_first(prepared, rounds):
    """A guess may be off: the values on both sides of it come before all other settings, and are known as its own."""
    plan = partial(plan_script_lane, devices=find_devices(MACHINE), machine=MACHINE)
    lane = replace(parse_lane("cuda"), framework=SCRIPT)
    tunable = replace(find_tunable(lane, MACHINE, SubjectFacts(None), plan, TuneAsk()), first="workers")
    search = Search(tunable, rounds, Objective(prepared.plan.ask))
    guess = (("workers", "2"),)
    found = search.neighbours(guess, {})
    assert found[:3] == [(("workers", value),) for value in ("1", "4", "0")]
    assert [search.is_about_first(words, guess) for words in found] == [True] * 3 + [False] * (len(found) - 3)
    assert len(found) > 3
