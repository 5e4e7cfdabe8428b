"""From an ask to a plan that this machine can run: find the subject, scout the frameworks, plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import util
from typing import ClassVar

from laptime.errors import UsageError
from laptime.machine import CardSearch, add_cards
from laptime.model.ask import Ask
from laptime.model.frameworks import find_framework
from laptime.model.inference import InferPlan
from laptime.model.machine import Machine
from laptime.model.plan import Plan, Subject
from laptime.model.protocol import FullPlan
from laptime.model.workload import Published
from laptime.planner import make_plan
from laptime.planner.frameworks import default_framework, frameworks_asked
from laptime.planner.lanes import names_a_lane
from laptime.planner.plan import check_ask
from laptime.questions.own_code import family_of, inspect_training
from laptime.questions.subject import describe_supply, find_given, find_subject
from laptime.run.scout import ask_scouts

PROFILED = "each lane that finished takes some steps more under its framework's profiler, after the race and its budget"

__all__ = ["Prepared", "installed_of", "names_a_lane", "prepare", "scout_machine", "with_lane"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, the machine with what its frameworks see, and what was published of the workload."""

    plan: Plan
    machine: Machine
    published: Published | None

    keeps_checkpoints: ClassVar[bool] = False

    @property
    def outline(self) -> Plan | FullPlan | InferPlan:
        """What `laptime plan` shows."""
        return self.plan


def prepare(ask: Ask, machine: Machine, *, one_lane: bool = False) -> Prepared:
    """Check everything that needs no process, then scout and plan. With `one_lane`, an ask without lanes gets one."""
    check_ask(ask)
    subject, workload = find_subject(ask.what)
    if ask.pretrained:
        _check_pretrained(subject.name)
    if workload is None:
        find_given(ask, None)  # refuses --data before the user's function is called
    own = inspect_training(ask, machine, subject)
    if own is not None:
        subject = replace(subject, written_for=family_of(own, subject), gives_step=own.kind == "step")
    ask = with_lane(ask, machine, subject) if one_lane else ask
    seen = scout_machine(machine, frameworks_asked(ask, machine, subject), ask.patience_s)
    data = find_given(ask, workload)
    plan = make_plan(ask, seen, subject, workload, reads_images=util.find_spec("PIL") is not None, own=own)
    plan = replace(plan, data=data)
    said = [describe_supply(plan), PROFILED if ask.profile else None]
    plan = replace(plan, notes=(*plan.notes, *filter(None, said)))
    return Prepared(plan, seen, workload.published if workload else None)


def with_lane(ask: Ask, machine: Machine, subject: Subject) -> Ask:
    """Add a lane to an ask that has none: the framework's card if there is one, else the processor."""
    if ask.lanes or ask.every:
        return ask
    framework = default_framework(machine, subject)
    # No framework has tried a card for plain Python, so the user has to name it.
    return replace(ask, lanes=(f"{framework}/cpu" if find_framework(framework).is_opaque else framework,))


def _check_pretrained(name: str) -> None:
    if name != "pets-densenet":
        raise UsageError(f"--pretrained: there are no pre-trained weights for {name}", "only for pets-densenet")
    if util.find_spec("torchvision") is None:
        raise UsageError(
            "--pretrained: torchvision is not installed, and the pre-trained weights come with it",
            "pip install torchvision, or leave out --pretrained",
        )


def say_end(left_s: float) -> str:
    """Return a note on when a race ends that has `left_s` of its budget left. A round that has begun is completed."""
    return (
        f"the race ends within about {left_s:.0f} s"
        if left_s >= 1
        else "the budget is used up, this round ends the race"
    )


def installed_of(wanted: Iterable[str] | None, machine: Machine) -> tuple[str, ...]:
    """Return the frameworks to ask: all installed ones, or the wanted ones, which must be installed."""
    installed = tuple(each.name for each in machine.frameworks)
    if wanted is None:
        return installed
    for name in (named := tuple(wanted)):
        if name not in installed:
            raise UsageError(f"--framework {name}: it is not installed here", f"installed: {', '.join(installed)}")
    return named


def scout_machine(machine: Machine, names: Iterable[str], patience_s: float) -> Machine:
    """Fill in what the named frameworks see (others stay as they are), and the cards that drivers report.

    Both take seconds and run in parallel.
    """
    wanted, search = set(names), CardSearch()
    asked = [each for each in machine.frameworks if each.name in wanted and each.problem is None]
    scouted = {each.name: each for each in ask_scouts(asked, patience_s)}
    seen = replace(machine, frameworks=tuple(scouted.get(each.name, each) for each in machine.frameworks))
    return add_cards(seen, search.end(patience_s))
