"""Trainings that are none of the built-in five: is no honest lane accused, and is every planted difference caught?

    python bench/honest.py                          every training and every planted difference
    python bench/honest.py --only lstm tied         those whose name holds one of these words
    python bench/honest.py --half honest            one of the two halves, honest or planted
    python bench/honest.py --groups keras           the Keras models alone

The rows are those of `honest_keras.py` and `honest_torch.py`. Each training is proven in every lane and judged as in a
race: a lane that seems to differ is proven again from another seed. What is planted is judged by the first proof alone,
and has to differ in every lane it is planted in. Nothing is timed: one process a lane proves all trainings.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from common import Figure, finish, parser_for, print_table
from laptime.analysis.parity import judge_parity, may_be_chance
from laptime.engine.heat.loop import take_proof
from laptime.model.errors import LaptimeError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.record import Parity
from laptime.model.sample import Appeal, ProofRun, Reference
from laptime.planner.plan import OWN_PROOF
from laptime.questions.proving import SEEDS_ON

HERE = Path(__file__).resolve().parent
CPU = Device("cpu", "cpu", "the processor", usable=True)
PACE = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
PLAIN = Settings()
BEST = Settings(preset="best", optimizer="fused", layout="channels_last")
SETTINGS = {
    "keras-tf": PLAIN,
    "keras-jax": PLAIN,
    "keras-torch": PLAIN,
    "torch": PLAIN,
    "torch/best": BEST,
    "torch/best+compile": replace(BEST, execution="compile"),
}


@dataclass(frozen=True, slots=True)
class Group:
    """A table of trainings and the lanes that race them; the first one's framework computes the reference.

    Differences are planted in all lanes but those that compile, which take seconds for each. A framework that
    `differs_from` them does other work in these trainings, on its own, and has to be distinguished from them.
    """

    file: str
    table: str
    lanes: tuple[str, ...]
    differs_from: str | None = None

    def planted_in(self) -> tuple[str, ...]:
        return tuple(lane for lane in self.lanes if "compile" not in lane)


GROUPS = {
    "keras": Group("honest_keras", "TRAININGS", ("keras-tf", "keras-jax", "keras-torch")),
    "repeated": Group("honest_keras", "OFTEN", ("keras-jax", "keras-torch"), differs_from="keras-tf"),
    "torch": Group("honest_torch", "TRAININGS", ("torch", "torch/best", "torch/best+compile")),
}
CAUGHT_AT_LEAST = 0.95


@dataclass(frozen=True, slots=True)
class Task:
    """What one process does with all of these trainings: prove them in a lane, compute their references, or both."""

    file: str
    lane: str
    names: tuple[str, ...]
    seed: int
    refers: bool = False
    proves: bool = True


@dataclass(frozen=True, slots=True)
class Answer:
    name: str
    runs: tuple[ProofRun, ...] = ()
    reference: Reference | None = None
    problem: str | None = None
    seconds: float = 0.0


Answers = dict[str, Answer]


def answer_here(task: Task) -> Iterator[Answer]:
    """Prove each, in this process."""
    from laptime.engine.backends import open_backend

    framework, settings = task.lane.partition("/")[0], SETTINGS[task.lane]
    backend = open_backend(framework)
    for name in task.names:
        began = time.perf_counter()
        file = str(HERE / f"{task.file}.py")
        subject = Subject(name, "", None, None, None, None, "items", file=file, function=name)
        order = HeatOrder(subject, PlannedLane(task.lane, framework, CPU, settings), task.seed, OWN_PROOF, PACE)
        try:
            training = backend.build(order)
            runs = take_proof(training, settings) if task.proves else ()
            reference = training.reference() if task.refers else None
            yield Answer(name, runs, reference, seconds=time.perf_counter() - began)
        except LaptimeError as error:
            yield Answer(name, problem=error.says)
        except Exception as error:  # noqa: BLE001  a framework's own words; the other trainings go on
            yield Answer(name, problem=f"{type(error).__name__}: {error}")
        training = None
        if framework.startswith("keras"):
            importlib.import_module("keras").backend.clear_session()
        gc.collect()


def ask(task: Task) -> Answers:
    """Have a fresh process answer, and show what it says of itself if it cannot."""
    with tempfile.TemporaryFile() as told:
        ended = subprocess.run(
            [sys.executable, __file__, "--answer"],
            input=msgspec.json.encode(task),
            stdout=subprocess.PIPE,
            stderr=told,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "OMP_NUM_THREADS": "1"},
            check=False,
        )
        told.seek(0)
        if ended.returncode:
            sys.stderr.write(told.read().decode()[-2000:])
    found = [msgspec.json.decode(line, type=Answer) for line in ended.stdout.splitlines() if line.startswith(b"{")]
    print(f"  {task.lane} {'refers' if task.refers else 'proves'} {len(found)} of {len(task.names)}", file=sys.stderr)
    lost = Answer("", problem=f"its process ended with {ended.returncode}")
    return {**dict.fromkeys(task.names, lost), **{each.name: each for each in found}}


def ask_all(tasks: Sequence[Task]) -> list[Answers]:
    """Two processes at once: nothing is timed."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(ask, tasks))


def judge(lane: str, answer: Answer, reference: Answer, appeal: Appeal | None = None) -> Parity:
    held = reference.reference or f"no reference: {reference.problem}"
    return judge_parity(SETTINGS[lane], [answer.runs] if answer.runs else [], held, appeal)


def judge_honest(group: Group, names: tuple[str, ...], references: Answers) -> list[dict[str, Any]]:
    asked = ask_all([Task(group.file, lane, names, 0) for lane in group.lanes])
    proven = dict(zip(group.lanes, asked, strict=True))
    verdicts = {
        (lane, name): judge(lane, proven[lane][name], references[name]) for lane in group.lanes for name in names
    }
    doubted = [
        key
        for key, parity in verdicts.items()
        if parity.status == "differs" and _may_be_cleared(key, proven, references)
    ]
    first = {key: verdicts[key] for key in doubted}
    if doubted:
        verdicts |= hear_again(group, doubted, proven, references)
    return [
        row(lane, name, verdicts[lane, name], proven[lane][name], first.get((lane, name))) for lane, name in verdicts
    ]


def _may_be_cleared(key: tuple[str, str], proven: dict[str, Answers], references: Answers) -> bool:
    lane, name = key
    reference = references[name].reference
    return reference is not None and may_be_chance([proven[lane][name].runs], reference)


def hear_again(
    group: Group, doubted: list[tuple[str, str]], proven: dict[str, Answers], references: Answers
) -> dict[tuple[str, str], Parity]:
    """Prove those again from another seed that seem to differ."""
    names = tuple(dict.fromkeys(name for _, name in doubted))
    lanes = list(dict.fromkeys(lane for lane, _ in doubted))
    again, *others = ask_all(
        [
            Task(group.file, group.lanes[0], names, SEEDS_ON, refers=True, proves=False),
            *(Task(group.file, lane, names, SEEDS_ON) for lane in lanes),
        ]
    )
    found = dict(zip(lanes, others, strict=True))
    judged = {}
    for lane, name in doubted:
        reference = again[name].reference
        appeal = Appeal(SEEDS_ON, reference, found[lane][name].runs) if reference is not None else None
        judged[lane, name] = judge(lane, proven[lane][name], references[name], appeal)
    return judged


def judge_planted(group: Group, planted: dict[str, str], references: Answers) -> list[dict[str, Any]]:
    """Judge each by the first proof alone, held against the training that it was planted in."""
    lanes = group.planted_in()
    asked = ask_all([Task(group.file, lane, tuple(planted), 0) for lane in lanes])
    return [
        row(lane, name, judge(lane, answers[name], references[base]), answers[name])
        for lane, answers in zip(lanes, asked, strict=True)
        for name, base in planted.items()
    ]


def row(lane: str, name: str, parity: Parity, answer: Answer, first: Parity | None = None) -> dict[str, Any]:
    loss = (parity.worst or 0.0) / (parity.tolerance or 1.0)
    return {
        "training": name,
        "lane": lane,
        "status": parity.status,
        "reason": answer.problem or parity.reason,
        "first_reason": first.reason if first else None,
        "loss_of_tolerance": loss,
        "moved_of_tolerance": parity.moved,
        "seconds": round(answer.seconds, 2),
    }


def is_wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def planted_base(name: str) -> str:
    return name.partition(": ")[0]


def read_names(group: Group, words: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return a table's trainings, and where each difference is planted, as another process reads them."""
    code = f"import json, {group.file} as f; print(json.dumps([list(f.{group.table}), list(f.PLANTED)]))"
    environment = {**os.environ, "KERAS_BACKEND": "torch"}
    said = subprocess.run(
        [sys.executable, "-c", code], cwd=HERE, env=environment, capture_output=True, text=True, check=True
    )
    trainings, planted = json.loads(said.stdout.splitlines()[-1])
    return (
        tuple(name for name in trainings if is_wanted(name, words)),
        {name: base for name in planted if is_wanted(name, words) and (base := planted_base(name)) in trainings},
    )


def run_group(group: Group, words: Sequence[str], halves: set[str]) -> dict[str, list[dict[str, Any]]]:
    names, planted = read_names(group, words)
    names, planted = (names if "honest" in halves else ()), (planted if "planted" in halves else {})
    wanted = tuple(dict.fromkeys([*names, *planted.values()]))
    found: dict[str, list[dict[str, Any]]] = {"honest": [], "planted": [], "exposed": []}
    if not wanted:
        return found
    references = ask(Task(group.file, group.lanes[0], wanted, 0, refers=True, proves=False))
    found["honest"] = judge_honest(group, names, references) if names else []
    found["planted"] = judge_planted(group, planted, references) if planted else []
    if names and group.differs_from:
        others = ask(Task(group.file, group.differs_from, names, 0, refers=True, proves=False))
        found["exposed"] = judge_planted(group, {name: name for name in names}, others)
    return found


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="+", default=(), metavar="WORD")
    parser.add_argument("--groups", nargs="+", choices=GROUPS, default=tuple(GROUPS))
    parser.add_argument("--half", choices=("honest", "planted"))
    given = parser.parse_args()
    if given.answer:
        return tell_answers()
    halves = {given.half} if given.half else {"honest", "planted"}
    found = [run_group(GROUPS[name], given.only, halves) for name in given.groups]
    honest, planted, exposed = ([each for part in found for each in part[key]] for key in found[0])
    show("honest", honest, wrong={"differs", "unproven"})
    show("planted", planted, wrong={"same", "unproven"})
    show("differs on its own", exposed, wrong={"same", "unproven"})
    details = {"honest": honest, "planted": planted, "differ by themselves": exposed}
    return finish("own_trainings", figures_of(honest, planted, exposed), given.out, details=details)


def figures_of(
    honest: list[dict[str, Any]], planted: list[dict[str, Any]], exposed: list[dict[str, Any]]
) -> list[Figure]:
    def count(rows: list[dict[str, Any]], status: str) -> int:
        return sum(each["status"] == status for each in rows)

    caught = count(planted, "differs") / len(planted) if planted else None
    twice = sum(each["status"] == "same" and each["first_reason"] is not None for each in honest)
    figures = [
        Figure("honest trainings", len({each["training"] for each in honest})),
        Figure("honest proofs, each training in each lane", len(honest)),
        Figure("of these accused", count(honest, "differs"), most=0),
        Figure("of these unproven", count(honest, "unproven"), most=0),
        Figure("of these cleared by the second proof", twice),
    ]
    if planted:
        figures += [
            Figure("planted differences, each in each lane", len(planted)),
            Figure("of these caught, a share", caught, least=CAUGHT_AT_LEAST),
        ]
    if exposed:
        known = sum(each["status"] == "differs" and "; " in (each["reason"] or "") for each in exposed) / len(exposed)
        figures += [
            Figure("trainings in which an engine does other work on its own, each in each lane", len(exposed)),
            Figure("of these found, with the reason, a share", known, least=1),
        ]
    return figures


def show(title: str, rows: list[dict[str, Any]], wrong: set[str]) -> None:
    """Print what went wrong, and how near the others came."""
    shown = [each for each in rows if each["status"] in wrong or each["first_reason"]]
    cells = [
        [title, each["training"], each["lane"], each["status"], f"{each['loss_of_tolerance']:.2g}",
         f"{each['moved_of_tolerance'] or 0:.2g}", str(each["first_reason"] or each["reason"] or "")[:90]]
        for each in shown
    ]  # fmt: skip
    if cells:
        print_table(["", "training", "lane", "verdict", "loss", "moved", "why"], cells)


def tell_answers() -> int:
    """Answer a parent's task, a line a training."""
    task = msgspec.json.decode(sys.stdin.buffer.read(), type=Task)
    with contextlib.redirect_stdout(sys.stderr):
        for answer in answer_here(task):
            sys.__stdout__.buffer.write(msgspec.json.encode(answer) + b"\n")
            sys.__stdout__.flush()
    sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
