"""From an ask to a plan that this machine can run: find the subject, scout the frameworks, plan."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import util
from itertools import chain
from pathlib import Path
from typing import ClassVar

from laptime.engine.run.launchers import LOCAL, Launcher
from laptime.engine.run.scout import NO_VARIABLES, ask_scouts
from laptime.machine.cards import CardSearch
from laptime.machine.look import CoresTaken, add_cards
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import DEFAULT_FRAMEWORK, find_framework, frameworks_of
from laptime.model.machine import Framework, Machine
from laptime.model.options import given_options
from laptime.model.plan import OwnTraining, Plan, Subject
from laptime.model.protocol import FullPlan, InferPlan
from laptime.model.record import Record
from laptime.model.secrets import mask_secrets
from laptime.model.workload import Published, Workload
from laptime.planner import join_plans, make_plan
from laptime.planner.groups import choose_pace
from laptime.planner.lanes import default_framework, frameworks_asked, names_a_lane
from laptime.planner.plan import check_ask, expect_environment, find_devices, plan_script
from laptime.planner.refusals import SubjectFacts
from laptime.planner.settings import with_settings
from laptime.questions.noted_code import FileStates, NotedCode, note_code_of, note_files
from laptime.questions.sources import place_named_by
from laptime.questions.subject import (
    describe_supply,
    family_in,
    family_of,
    find_given,
    find_subjects,
    inspect_training,
    name_apart,
    names_a_file,
    read_tree,
    trainings_in,
)
from laptime.store.disk import expand_home, name_in_utf8

ONLY_NOISE = "on a cluster only the noise of each window is read: other instruments are those of this machine"
AS_MANY_CORES = "on a cluster a lane on a processor gets as many cores as it names threads, and 1 if it names none"
PROFILED = "each lane that finished takes some steps more under its framework's profiler, after the race and its budget"

__all__ = [
    "Prepared",
    "are_scripts",
    "facts_of",
    "installed_of",
    "keep_apart",
    "names_a_file",
    "names_a_lane",
    "prepare",
    "prepare_pair",
    "prepare_scripts",
    "prepare_trainings",
    "scout_machine",
    "with_lane",
]


@dataclass(frozen=True, slots=True)
class Prepared:
    """A plan, the machine with what its frameworks see, what was published of the workload, and what starts heats.

    `own` is what is known of a training of the user's own, if its function was called. `begun` is the record that is
    gone on with. `code` is the user's own code, as it was before any of it ran.
    """

    plan: Plan
    machine: Machine
    published: Published | None
    launcher: Launcher = field(default=LOCAL, kw_only=True)
    own: OwnTraining | None = field(default=None, kw_only=True)
    begun: Record | None = field(default=None, kw_only=True)
    code: NotedCode = field(default_factory=NotedCode, kw_only=True)

    shares_process: ClassVar[bool] = False  # what is measured runs in this process, so laptime's own time is not known

    @property
    def outline(self) -> Plan | FullPlan | InferPlan:
        """What `--dry-run` shows."""
        return self.plan

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether whole trainings are run, which write checkpoints."""
        return False

    @property
    def adds_lanes(self) -> bool:
        """Whether the question adds lanes to the plan by what it finds."""
        return False


@dataclass(frozen=True, slots=True)
class Trained:
    """What is trained: its workload if it is built in, and what is known of a training of the user's own.

    `seen` is the framework that was scouted by the process that called the user's function, and `code` the user's own,
    as it was before.
    """

    subject: Subject
    workload: Workload | None
    own: OwnTraining | None
    seen: Framework | None
    code: FileStates | None = None


def prepare(ask: Ask, machine: Machine, launcher: Launcher = LOCAL, *, one_lane: bool = False) -> Prepared:
    """Prepare a question about one training. With `one_lane`, an ask without lanes gets one."""
    if ask.others:
        says = f"'{ask.others[0]}' is a second training, and only laptime race takes several"
        raise UsageError(says, f"Ask about each on its own, or: laptime race {shlex.join([ask.what, *ask.others])}")
    check_ask(ask)
    with CoresTaken() as taken:
        (trained,) = _find_trained(ask, machine, launcher)
        ask = with_lane(ask, machine, trained.subject) if one_lane else ask
        return _plan(ask, machine, [trained], taken, launcher)


def prepare_trainings(ask: Ask, machine: Machine, launcher: Launcher = LOCAL) -> Prepared:
    """Prepare a race of one training, or of several of the user's own."""
    check_ask(ask)
    with CoresTaken() as taken:
        trained = _find_trained(ask, machine, launcher)
        return _plan(ask, machine, trained, taken, launcher)


def prepare_pair(ask: Ask, machine: Machine, twin: str | None = None, launcher: Launcher = LOCAL) -> Prepared:
    """Prepare a race of two trainings on one lane; with the name of a `twin`, the first one races itself, too."""
    check_ask(ask)
    with CoresTaken() as taken:
        trained = _find_trained(ask, machine, launcher)
        ask = with_lane(ask, machine, trained[0].subject)
        if twin is not None:
            trained.append(replace(trained[0], subject=replace(trained[0].subject, name=twin)))
            ask = replace(ask, others=(*ask.others, ask.what))
        return _plan(ask, machine, trained, taken, launcher)


def _find_trained(ask: Ask, machine: Machine, launcher: Launcher = LOCAL) -> list[Trained]:
    """Find all that is trained, and check everything that needs no process but that of a user's own function."""
    # What only a script that runs as it is can have
    for row, _ in given_options("race", ask):
        if row.only_for == "scripts":
            given = "words behind --" if row.only == "library" else row.option
            raise UsageError(
                f"{given}: {ask.what} is no script that runs as it is",
                "leave it out, name lanes such as torch/cpu/threads=1, or race a script: laptime race train.py -- -e 3",
            )
    found = find_subjects((ask.what, *ask.others))
    if ask.pretrained:
        name = found[0][0].name
        if name != "pets-densenet":
            raise UsageError(f"--pretrained: there are no pre-trained weights for {name}", "only for pets-densenet")
        if util.find_spec("torchvision") is None:
            raise UsageError(
                "--pretrained: torchvision is not installed, and the pre-trained weights come with it",
                "pip install torchvision, or leave out --pretrained",
            )
    if found[0][1] is None:
        find_given(ask, None)  # refuses --data before the user's function is called
    noted = [None if subject.file is None else note_files(Path(subject.file)) for subject, _ in found]
    inspected = [_inspect(ask, machine, subject, workload, launcher) for subject, workload in found]
    return [replace(training, code=code) for training, code in zip(inspected, noted, strict=True)]


def _inspect(ask: Ask, machine: Machine, subject: Subject, workload: Workload | None, launcher: Launcher) -> Trained:
    inspection = inspect_training(ask, machine, subject, launcher)
    own = inspection.own
    if own is not None:
        subject = replace(subject, written_for=family_of(own, subject), gives_step=own.kind == "step")
    return Trained(subject, workload, own, inspection.seen)


def _plan(ask: Ask, machine: Machine, trained: Sequence[Trained], taken: CoresTaken, launcher: Launcher) -> Prepared:
    """Scout the frameworks that the lanes need, unless they were, and plan the lanes of each training."""
    asked = set(chain.from_iterable(frameworks_asked(ask, machine, training.subject) for training in trained))
    known = [training.seen for training in trained if training.seen is not None]
    expected = {name: expect_environment(ask, name) for name in asked}
    machine = scout_machine(machine, asked, ask.patience_s, known, launcher, environments=expected)
    if not launcher.is_elsewhere and any(find_framework(name).runs_own_code for name in asked):  # a fake has no cores
        machine = replace(machine, cores_taken=taken.count())
    workload = trained[0].workload
    data = find_given(ask, workload)
    reads = util.find_spec("PIL") is not None
    plans = [
        make_plan(ask, machine, training.subject, training.workload, reads_images=reads, own=training.own)
        for training in trained
    ]
    plan = replace(join_plans(plans, machine), data=data)
    notes = [describe_supply(plan), PROFILED if ask.profile else None]
    if launcher.is_elsewhere:
        plan = keep_apart(plan, launcher.why_alone(plan.lanes))
        notes += [AS_MANY_CORES, ONLY_NOISE]
    plan = replace(plan, notes=(*plan.notes, *filter(None, notes)))
    published = workload.published if workload else None
    code = NotedCode({training.subject.name: training.code for training in trained if training.code is not None})
    return Prepared(plan, machine, published, launcher=launcher, own=trained[0].own, code=code)


def facts_of(prepared: Prepared, workload: Workload | None) -> SubjectFacts:
    """Return what further lanes of a prepared training depend on."""
    plan = prepared.plan
    reads = util.find_spec("PIL") is not None
    name = plan.subject.name
    gives_step = plan.subject.gives_step
    return SubjectFacts(workload, reads, prepared.own, name, gives_step, data_is_given=plan.ask.data is not None)


def keep_apart(plan: Plan, why: str | None) -> Plan:
    """Let the heats run one after another if there is a reason why not all can be alive at once."""
    if why is None or plan.alone is not None:
        return plan
    return replace(plan, alone=why, pace=choose_pace(plan.ask, len(plan.lanes)))


def with_lane(ask: Ask, machine: Machine, subject: Subject) -> Ask:
    """Add a lane to an ask that has none: the framework's card if there is one, else the processor."""
    if ask.lanes or ask.every:
        return ask
    framework = default_framework(machine, subject)
    # No framework has tried a card for plain Python, so the user has to name it.
    return replace(ask, lanes=(f"{framework}/cpu" if find_framework(framework).is_opaque else framework,))


def installed_of(wanted: Iterable[str] | None, machine: Machine) -> tuple[str, ...]:
    """Return the frameworks to ask: all installed ones, or the wanted ones, which must be installed."""
    installed = tuple(framework.name for framework in machine.frameworks)
    if wanted is None:
        return installed
    for name in (named := tuple(wanted)):
        if name not in installed:
            rows = [find_framework(framework) for framework in installed]
            meant = [row.name for row in rows if name in {row.engine.name, row.family, *row.imports}]
            if meant:
                raise UsageError(f"--framework {name}: it is the name of a package", f"use {' or '.join(meant)}")
            raise UsageError(f"--framework {name}: it is not installed here", f"installed: {', '.join(installed)}")
    return named


def scout_machine(
    machine: Machine,
    names: Iterable[str],
    patience_s: float,
    known: Iterable[Framework] = (),
    launcher: Launcher = LOCAL,
    *,
    environments: Mapping[str, dict[str, str]] = NO_VARIABLES,
) -> Machine:
    """Fill in what the named frameworks see (others stay as they are), and the cards that drivers report.

    Both take seconds and run in parallel. Frameworks that are `known` were scouted before. On a cluster, drivers are
    not asked. `environments` are what the first heat of each framework will probably need.
    """
    wanted = set(names)
    search = None if launcher.is_elsewhere else CardSearch()
    scouted = {framework.name: framework for framework in known if framework.name in wanted}
    asked = [
        framework
        for framework in machine.frameworks
        if framework.name in wanted - scouted.keys() and framework.problem is None
    ]
    scouted |= {scout.name: scout for scout in ask_scouts(asked, patience_s, launcher, environments)}
    able = {name: with_settings(framework) for name, framework in scouted.items()}
    filled = replace(machine, frameworks=tuple(able.get(framework.name, framework) for framework in machine.frameworks))
    return filled if search is None else add_cards(filled, search.end(patience_s))


# A race of a script that nobody changes: which script is meant, by which Python, and what its lanes are.


def means_a_script(ask: Ask) -> bool:
    """Whether an ask is about a script: a Python file that makes no Training, or a whole command."""
    if ask.others or (not ask.command and not ask.what.endswith(".py")):
        return False
    if ask.command:
        return not ask.what or ask.what.endswith(".py")
    file = expand_home(ask.what, "the script")
    return file.is_file() and not trainings_in(read_tree(file))


def prepare_script(ask: Ask, machine: Machine) -> Prepared:
    """Find the script and the devices that it may see, and plan the lanes."""
    subject = describe_script(ask)
    code = note_code_of({subject.name: subject.file})
    machine = see_devices(ask, subject, machine)
    return Prepared(plan_script(ask, machine, subject), machine, None, code=code)


def are_scripts(ask: Ask) -> bool:
    """Whether an ask is about several scripts. What is a script, and what makes a Training, cannot be mixed."""
    words = (ask.what, *ask.others)
    scripts = [word for word in words if _is_script(word)]
    if scripts and len(scripts) < len(words):
        other = next(word for word in words if word not in scripts)
        says = f"{scripts[0]} is a script that runs as it is, and {other} names a function"
        raise UsageError(says, "give two scripts, or the function of both: file.py:function")
    if ask.command and not scripts:
        raise UsageError(f"{words[0]} is no script that runs as it is", "leave out what is behind --")
    return bool(scripts)


def _is_script(word: str) -> bool:
    place = place_named_by(word)
    if not place.endswith(".py"):
        return False
    file = expand_home(place, "the script")
    return file.is_file() and not trainings_in(read_tree(file))


def prepare_scripts(ask: Ask, machine: Machine, twin: str | None = None, launcher: Launcher = LOCAL) -> Prepared:
    """Prepare a race of several scripts on one lane; with the name of a `twin`, the first one races itself, too."""
    whats = (ask.what, *ask.others)
    subjects = name_apart(
        whats, [describe_script(replace(ask, what=place_named_by(what), others=())) for what in whats]
    )
    code = note_code_of({subject.name: subject.file for subject in subjects})
    machine = see_devices(ask, subjects[0], machine)
    processor, *cards = find_devices(machine)
    ask = ask if ask.lanes else replace(ask, lanes=((cards or [processor])[0].name,))
    if twin is not None:
        subjects.append(replace(subjects[0], name=twin))
        ask = replace(ask, others=(*ask.others, ask.what))
    plans = [plan_script(ask, machine, subject) for subject in subjects]
    plan = replace(join_plans(plans, machine), notes=tuple(note for planned in plans for note in planned.notes))
    return Prepared(plan, machine, None, launcher=launcher, code=code)


def see_devices(ask: Ask, subject: Subject, machine: Machine) -> Machine:
    """Scout one framework that the script may use: what it sees of the devices is what the script can see.

    Where only the processor is named, nothing has to be found out.
    """
    if ask.lanes and all(text.partition("/")[0] == "cpu" for text in ask.lanes):
        return machine
    installed = [framework.name for framework in machine.frameworks]
    wanted = [row.name for row in frameworks_of(subject.written_for or DEFAULT_FRAMEWORK) if row.name in installed]
    others = (row.name for row in map(find_framework, installed) if row.runs_own_code and not row.is_opaque)
    return scout_machine(machine, wanted[:1] or [*others][:1], ask.patience_s)


def describe_script(ask: Ask) -> Subject:
    """Return the script of an ask, with the command that runs it."""
    file = None
    command = ask.command
    if ask.what:
        file = expand_home(ask.what, "the script")
        if not file.is_file():
            raise UsageError(f"there is no file {file}", "give the path of a script: laptime race train.py")
        command = (python_here(), str(file), *ask.command)
    named = file or next((Path(word) for word in command if word.endswith(".py")), Path(command[0]))
    return Subject(
        name=named.name,
        title=shlex.join([named.name, *mask_secrets(ask.command)] if ask.what else mask_secrets(command)),
        parameters=None,
        batch=None,
        steps_per_lap=None,
        laps=None,
        items="items",
        file=None if file is None else name_in_utf8(file.resolve(), "Rename the file or its folder."),
        command=tuple(command),
        written_for=None if file is None else _family_of(file),
    )


def _family_of(file: Path) -> str | None:
    """Return what a script is written for, of the frameworks that its text names."""
    family = family_in(read_tree(file))
    return family if any(not row.is_opaque for row in frameworks_of(family)) else None


def python_here() -> str:
    """Return the Python that runs a script: the one that the shell would run, else the one that runs laptime."""
    return shutil.which("python") or shutil.which("python3") or sys.executable
