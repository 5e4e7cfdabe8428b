"""Any record that can be, for the room that keeps them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_type_hints

from hypothesis import strategies as st
from measured import with_heat

from laptime.model.ask import Ask
from laptime.model.machine import Device, Machine, Processor
from laptime.model.plan import Subject
from laptime.model.process import ProcessRun, Settings
from laptime.model.quantities import Estimate, Missing
from laptime.model.questions import QUESTIONS
from laptime.model.record import (
    SCHEMA,
    Answer,
    Comparison,
    Finding,
    HeatResult,
    LaneResult,
    Parity,
    QuestionAnswer,
    RaceAnswer,
    Record,
)
from laptime.model.sample import Heat, Noise, ProofRun, Reference, Window
from laptime.store.schema import figure_fields as sound_figures

ID = r"r-2[0-9]{3}-[01][0-9]-[0-3][0-9]-[0-9a-f]{4,16}"
numbers = st.floats(allow_nan=False)
counts = st.integers(-(2**63), 2**63 - 1)
SIGNED = {float: numbers, int: counts}
FROM_ONE = {float: st.floats(1, allow_nan=False), int: st.integers(1, 2**63 - 1)}
LEAVES = {
    str: st.text(max_size=8),
    Answer: st.just(RaceAnswer()),  # the question says which it is
    Any: st.none() | counts | st.text(max_size=8),
}


def of(kind: Any, numbers: dict[Any, st.SearchStrategy[Any]] = SIGNED) -> st.SearchStrategy[Any]:
    """Return any value of a type: small tuples and dicts, every branch of a union; figures that a record may hold."""
    origin, parts = getattr(kind, "__origin__", None), getattr(kind, "__args__", ())
    if kind in numbers or kind in LEAVES:
        return (LEAVES | numbers)[kind]
    if origin is tuple and parts[-1] is not Ellipsis:
        return st.tuples(*(of(part, numbers) for part in parts))
    if origin is tuple:
        return st.lists(of(parts[0], numbers), max_size=2).map(tuple)
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), of(parts[1], numbers), max_size=2)
    if origin is None and parts:
        return st.one_of([of(part, numbers) for part in parts])
    if hasattr(kind, "__dataclass_fields__"):
        checked = {name for name, *_ in sound_figures(kind)}
        hints = get_type_hints(kind).items()
        return st.builds(kind, **{name: of(hint, FROM_ONE if name in checked else SIGNED) for name, hint in hints})
    return st.from_type(kind)


ids = st.from_regex(ID, fullmatch=True)
answers = st.sampled_from(QUESTIONS).flatmap(
    lambda row: st.tuples(st.just(row.name), of(row.part(QuestionAnswer).answer))
)
records = st.builds(
    lambda made, name, answered: replace(made, schema=SCHEMA, id=name, question=answered[0], answer=answered[1]),
    of(Record),
    ids,
    answers,
)
references = of(Reference)


def record(identity: str = "r-2026-11-20-a1b2", started: str = "2026-11-20T10:00:00+00:00") -> Record:
    """Return a small record with one heat."""
    window = Window(0, 200, 2, (100, 100), Noise(0.1, 0.5, Missing("no container")), None)
    proof = ProofRun("fp32", (2.3, 2.2), 1.0, 0.1, (0.1, 0.2))
    process = ProcessRun("torch/cpu/best", "ok", phases_s={"build": 0.4})
    heat = Heat(process, 0, 0, first_step_ns=300_000, proofs=(proof,), windows=(window,), losses=(2.3, 2.2))
    figure = Estimate(0.1, 0.09, 0.11)
    lane = LaneResult(
        name="torch/cpu/best",
        framework={"torch": "2.13.0"},
        device=Device("cpu", "cpu", "a processor", usable=True),
        settings=Settings(),
        status="ok",
        reason=None,
        step_ms=figure,
        lap_s=figure,
        items_per_s=figure,
        first_step_ms=0.3,
        startup_s=1.0,
        peak_memory_bytes=1000,
        device_memory_bytes=Missing("none"),
        energy_j_per_lap=Missing("no sensor"),
        parity=Parity("same", 10, 3e-6, 2e-5, 0.1),
        heats=(HeatResult(heat, "flat", 0, 0.1),),
    )
    faster = Comparison("torch/cpu/best", "torch/cpu/as-written", 1.49, 1.38, 1.61, "faster", True, 5, True, 0.05)
    return Record(
        schema=SCHEMA,
        tool={"laptime": "0.1.0"},
        id=identity,
        started=started,
        question="race",
        status="finished",
        ask=Ask(),
        machine=Machine(
            Processor("a processor", "x86_64", 2, 2, Missing("none")),
            24,
            Missing("none"),
            "Linux",
            "3.11",
            None,
        ),
        workload=Subject("cifar-cnn", "a network", 1_337_002, 100, 500, 10, "images"),
        published=None,
        lanes=(lane,),
        answer=RaceAnswer((faster,)),
        findings=(Finding("a-rule", "it says", {"seen": [1, 2.5, "three"]}, "do", "likely"),),
    )


def with_losses(*losses: float) -> Record:
    """Return a record whose one heat had these losses."""
    made = record()
    lane = made.lanes[0]
    return replace(made, lanes=(replace(lane, heats=(with_heat(lane.heats[0], losses=losses),)),))
