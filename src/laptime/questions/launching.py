"""A race on a cluster: check that it can be, reach the cluster, and look at one of its nodes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from laptime.errors import LaneError, UsageError
from laptime.machine import look_at_machine
from laptime.model.ask import Ask
from laptime.model.launchers import LAUNCHERS, Place, find_launcher
from laptime.model.machine import Machine
from laptime.model.questions import QUESTIONS, Question, find_question
from laptime.planner.groups import split_group
from laptime.planner.lanes import parse_lane
from laptime.questions.asking import Prepared
from laptime.questions.script import means_a_script
from laptime.run.fleet import Fleet
from laptime.run.launchers import Launcher, Tell, Wanted

TORCHRUN, STARTED_BY_TORCHRUN = "torchrun", "TORCHELASTIC_RUN_ID"
HERE = "leave out --on to run it on this machine"


@contextmanager
def prepared_for(
    question: Question, ask: Ask, prepare: Callable[..., Prepared] | None = None, tell: Tell = lambda _note: None
) -> Iterator[Prepared]:
    """Prepare a question, here or on the cluster that the ask names, and leave the cluster at the end.

    `tell` is called with what is waited for meanwhile.
    """
    prepare = prepare or question.part("prepare")
    if ask.on != TORCHRUN and STARTED_BY_TORCHRUN in os.environ:
        says = "torchrun has started this command, so each of its processes would race on its own"
        raise UsageError(says, "add --on torchrun, or start laptime without torchrun")
    if ask.on is None:
        yield prepare(ask, look_at_machine())
        return
    with launched(question.name, ask, tell) as (launcher, machine):
        yield prepare(ask, machine, launcher=launcher)


def stand_by(ask: Ask) -> bool:
    """Serve another process of this command to its end and return True, if torchrun has started this one for that."""
    if ask.on != TORCHRUN:
        return False
    from laptime.run.on_torchrun import stand_by as serve  # noqa: PLC0415  few races need it

    return serve(ask.patience_s)


@contextmanager
def launched(question: str, ask: Ask, tell: Tell) -> Iterator[tuple[Launcher, Machine]]:
    """Reach the cluster that an ask names. Give what starts its heats, and a node's description; leave it at the end.

    The node is one as the lanes need: with cards if any lane names one, and with as many cores as the largest.
    """
    check_cluster(question, ask)
    from laptime.run.remote_launcher import RemoteLauncher  # noqa: PLC0415  few races need it

    launcher = RemoteLauncher(Wanted(ask.on or "", _largest_place(ask), ask.patience_s, ask.patience_s + ask.budget_s))
    launcher.report_to(tell)
    try:
        if ask.each is None:
            yield launcher, launcher.look()
        else:
            yield launcher, _first_machine(launcher.look_at_each(ask.each), ask)
    finally:
        launcher.close()


def _first_machine(fleet: Fleet, ask: Ask) -> Machine:
    """Return the first node that can be used as the machine of the race."""
    found = next((each.machine for each in fleet.nodes if each.machine is not None), None)
    if found is None:
        problem = next(each.problem for each in fleet.nodes)
        raise LaneError(f"--on {ask.on} --each {ask.each}: no node can be used: {problem}")
    return found


def check_cluster(question: str, ask: Ask) -> None:
    """Refuse what cannot run on a cluster."""
    on = f"--on {ask.on}"
    if ask.on is None or find_launcher(ask.on) is None:
        known = ", ".join(row.word for row in LAUNCHERS)
        raise UsageError(f"{on}: expected one of {known}, or ray://host:10001", HERE)
    if not find_question(question).runs_on_clusters:
        able = " and ".join(f"laptime {each.command}" for each in QUESTIONS if each.runs_on_clusters)
        raise UsageError(f"{on}: only {able} run on a cluster", HERE)
    if means_a_script(ask):
        raise UsageError(f"{on}: a script that runs as it is runs here only", "race a workload or file.py:function")
    if not ask.lanes:
        raise UsageError(f"{on}: no lane is named", "name what runs there, such as torch/cpu torch/cuda")
    if ask.each is not None and ask.others:
        raise UsageError(f"--each {ask.each}: it takes one training, and several are named", "race them one by one")
    if ask.each is not None and not ask.on.startswith("ray"):
        raise UsageError(f"{on} with --each: only Ray says which types of nodes there are", "leave out --each")
    for option, given in (("--profile", ask.profile), ("--every", ask.every)):
        if given:
            raise UsageError(f"{on} with {option}: that runs here only", f"leave out {option}")
    if ask.sensors not in {None, ("none",)}:
        raise UsageError(f"{on} with --sensors: instruments are read on this machine only", "leave out --sensors")


def _largest_place(ask: Ask) -> Place:
    """Return the largest place that any of the named lanes asks for."""
    places = [place_asked(text) for text in ask.lanes]
    return Place(max(each.cpus for each in places), max(each.gpus for each in places))


def place_asked(text: str) -> Place:
    """Return what a lane asks for, by its name. Refuse devices that no cluster gives."""
    lane = parse_lane(text)
    if lane.device is None:
        raise UsageError(f"lane '{text}' names no device", f"on a cluster it has to: {lane.framework}/cpu or /cuda")
    devices = split_group(lane.device)
    kinds = {each.partition(":")[0] for each in devices}
    if kinds == {"cpu"}:
        threads = dict(lane.overrides).get("threads", "")
        return Place(cpus=len(devices) * (int(threads) if threads.isdecimal() else 1))
    if not kinds <= {"cuda", "gpu"}:
        raise UsageError(f"lane '{text}': a cluster gives cores and CUDA cards", "name cpu, cuda or 2xcuda")
    numbers = [each.partition(":")[2] or "0" for each in devices]
    if kinds == {"cuda"} and numbers != [str(number) for number in range(len(devices))]:
        says = f"lane '{text}': on a cluster a lane gets cards of its own, which are cuda:0 and so on to it"
        raise UsageError(says, "name cuda or 2xcuda")
    return Place(gpus=len(devices))
