"""What is trained, and the data that it reads.

The subject is a built-in workload by its name, or a user's own function as `file.py:function`. The data is at the path
that the user gives, or is made.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from laptime.engine.run.launchers import LOCAL, Launcher
from laptime.engine.run.runner import ProcessRunner
from laptime.engine.run.scout import Failure, ask_training, scout_with_training
from laptime.model.ask import Ask, DataSource
from laptime.model.errors import TrainingError, UsageError
from laptime.model.frameworks import (
    DEFAULT_FRAMEWORK,
    all_frameworks,
    family_of_any_steps,
    find_framework,
    step_families,
)
from laptime.model.machine import Device, Framework, Machine
from laptime.model.plan import OwnTraining, Plan, PlannedLane, Subject
from laptime.model.process import FROM_FILES, Lane
from laptime.model.record import Record
from laptime.model.workload import AT_WIDTH, Adam, Workload, name_at_width
from laptime.planner.lanes import default_framework, parse_lane
from laptime.planner.plan import expect_environment
from laptime.planner.refusals import refuse_kind
from laptime.planner.settings import cuts_batches
from laptime.questions.sources import name_source, place_named_by
from laptime.questions.user_code import LARGEST_BYTES
from laptime.store.disk import expand_home, name_in_utf8, read_regular
from laptime.trainings.data import describe_made, make_source, read_source
from laptime.trainings.workloads import find_workload

STAR_IMPORT = "*"  # what `from x import *` binds is known only when it runs
HOLDS_STATEMENTS = (ast.stmt, ast.ExceptHandler, ast.match_case)


LEAVES_OUT = "without="  # in a lane, and then the line of a file


def names_a_file(word: str) -> bool:
    """Whether a word names a training of the user's own, and neither a built-in one nor a lane."""
    return ".py" in word.partition(LEAVES_OUT)[0]


def find_subject(what: str) -> tuple[Subject, Workload | None]:
    """Return the subject that WHAT names, and its workload if it is built in. No user code runs here."""
    if names_a_file(what):
        return _own_subject(what), None
    if AT_WIDTH in what:
        raise UsageError(f"{what}: a width is an axis of laptime sweep", "laptime sweep cifar-cnn --width 0.5,1")
    workload = find_workload(what)
    return _describe(workload), workload


def find_widths(subject: Subject, widths: Sequence[str]) -> dict[str, Subject]:
    """Return a built-in training at each width."""
    if not subject.is_built_in:
        says = "--width: laptime knows the layers of built-in trainings, and not those of a training of your own"
        raise UsageError(says, "name a built-in one (laptime workloads), or race functions that build each width")
    return {width: _describe(find_workload(name_at_width(subject.name, width))) for width in widths}


def find_subjects(whats: Sequence[str]) -> list[tuple[Subject, Workload | None]]:
    """Return the subjects of a race. Where there are several, all are the user's own, and their names differ."""
    found = [find_subject(what) for what in whats]
    if len(found) == 1:
        return found
    built_in = next((subject.name for subject, workload in found if workload is not None), None)
    if built_in is not None:
        says = f"{built_in} is built in, and several trainings in one race have to be your own"
        raise UsageError(says, "race it on its own, or write file.py:function for each")
    return [(subject, None) for subject in name_apart(whats, [subject for subject, _ in found])]


def name_apart(whats: Sequence[str], subjects: Sequence[Subject]) -> list[Subject]:
    """Return the same subjects with names that differ: with their commit or patch, or else with their folders."""
    names = [name_source(what, subject.name) for what, subject in zip(whats, subjects, strict=True)]
    if len(set(names)) < len(names):
        places = [(Path(subject.file or "").parts, subject.function) for subject in subjects]
        if len(set(places)) < len(places):
            twice = next(
                subject.name for subject, place in zip(subjects, places, strict=True) if places.count(place) > 1
            )
            raise UsageError(f"{twice} is named twice", "name trainings that differ, or one of them and its lanes")
        longest = max(len(parts) for parts, _ in places)
        named = (
            [f"{'/'.join(parts[-most:])}{f':{function}' if function else ''}" for parts, function in places]
            for most in range(1, longest + 1)
        )
        names = next(names for names in named if len(set(names)) == len(names))
    return [replace(subject, name=name) for subject, name in zip(subjects, names, strict=True)]


def _describe(workload: Workload) -> Subject:
    optimizer = "Adam" if isinstance(workload.optimizer, Adam) else "SGD"
    return Subject(
        name=workload.name,
        title=workload.title,
        parameters=workload.parameters,
        batch=workload.batch,
        steps_per_lap=workload.steps_per_lap,
        laps=workload.laps,
        items=workload.items,
        optimizer=optimizer,
        loss=workload.loss,
    )


def _own_subject(word: str) -> Subject:
    what = place_named_by(word)
    place, _, function = (what, "", "") if what.endswith(".py") else what.rpartition(":")
    if not (place and function.isidentifier()) and place != what:
        raise UsageError(
            f"'{what}' names a file but no function in it",
            f"give {what.split(':', 1)[0]}:function, where the function returns a laptime.Training",
        )
    file = expand_home(place, "the training's file")
    if not file.is_file():
        raise UsageError(f"there is no file {file}", "give the path of a Python file, as file.py:function")
    tree = read_tree(file)
    function = function or _only_training(tree, file)
    _check_function(tree, file, function)
    # Whether a Training with a step is made in the function, or anywhere in the file if the function makes none
    bodies = [node for node in _functions_at_top(tree) if node.name == function]
    made = [call for body in bodies for call in trainings_in(body)] or trainings_in(tree)
    gives_step = any(keyword.arg == "step" for call in made for keyword in call.keywords)
    return Subject(
        name=f"{file.name}:{function}",
        title=f"{function} of {file.name}",
        parameters=None,
        batch=None,
        steps_per_lap=None,
        laps=None,
        items="items",
        file=name_in_utf8(file.resolve(), "Rename the file or its folder."),
        function=function,
        written_for=family_in(tree, gives_step=gives_step),
        gives_step=gives_step,
    )


def read_tree(file: Path) -> ast.Module:
    """Parse a file's bytes, as Python does: the file names its own encoding. Only the child runs the file."""
    try:
        return ast.parse(read_regular(file, LARGEST_BYTES))
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError) as error:
        # A null byte is a ValueError before Python 3.11.4; thousands of nested levels raise one of the last two.
        says = str(error) or "its expressions are nested too deep"
        raise UsageError(f"{file} cannot be read as Python: {says}", "fix the file") from None


def family_in(tree: ast.Module, *, gives_step: bool = False) -> str | None:
    """Return the family of frameworks that the file imports. Keras comes first, because the others are its engines.

    A step function runs in a lane of its own framework, or in one that works with any (python).
    """
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    roots = {name.split(".")[0] for name in named}
    found = [row for row in all_frameworks().values() if roots & {*row.imports}]
    if gives_step:
        found = [row for row in found if row.takes_steps_only or row.takes_steps]
        found.sort(key=lambda row: row.takes_steps)
        return found[0].family if found else family_of_any_steps()
    found.sort(key=lambda row: row.engine.name == row.family)
    return found[0].family if found else None


def find_trainings(tree: ast.Module) -> list[str]:
    """Return the functions that return a Training: by their annotation, or else because they make one."""
    callable_ones = [node for node in _functions_at_top(tree) if _needs_no_arguments(node)]
    annotated = [node.name for node in callable_ones if node.returns is not None and _names_training(node.returns)]
    making = [node.name for node in callable_ones if not node.name.startswith("_") and trainings_in(node)]
    return list(dict.fromkeys(annotated or making))


def find_callable(tree: ast.Module) -> list[str]:
    """Return the public functions that need no arguments."""
    found = (node for node in _functions_at_top(tree) if _needs_no_arguments(node))
    return [node.name for node in found if not node.name.startswith("_")]


def _only_training(tree: ast.Module, file: Path) -> str:
    """Return the one function that returns a Training."""
    found = find_trainings(tree)
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"{file} has {len(found)} trainings: {', '.join(found)}", f"name one: {file}:{found[0]}")
    able = [name for name in find_callable(tree) if not _returns_nothing(tree, name)]
    named = f"\nIf one of its functions returns a Training, name it: {file}:{able[0]}" if able else ""
    says = f"{file} has no function that returns a laptime.Training"
    raise UsageError(says, f"{_how_to_make_one(file, tree)}{named}")


def _how_to_make_one(file: Path, tree: ast.Module) -> str:
    """Return what takes a script as it is, and the lines of a Training for all else."""
    as_it_is = f"laptime race {file}, laptime why {file} and laptime watch python {file} take a script as it is."
    needs = "All else needs a function that returns what it trains, and does not train:"
    written = {row.family: row.training_lines for row in all_frameworks().values() if row.training_lines}
    lines = written.get(family_in(tree) or "", written[find_framework(DEFAULT_FRAMEWORK).family])
    return "\n".join([as_it_is, needs, *(f"  {line}" for line in ("import laptime", "def training():", *lines))])


def _needs_no_arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    given = node.args
    return len(given.posonlyargs) + len(given.args) == len(given.defaults) and None not in given.kw_defaults


def _names_training(annotation: ast.expr) -> bool:
    """Whether an annotation is Training or laptime.Training, in quotes or not."""
    if isinstance(annotation, ast.Constant):
        return annotation.value in {"Training", "laptime.Training"}
    return _is_training(annotation)


def trainings_in(tree: ast.AST) -> list[ast.Call]:
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return [call for call in calls if _is_training(call.func)]


def _is_training(called: ast.expr) -> bool:
    match called:
        case ast.Name(id="Training") | ast.Attribute(value=ast.Name(id="laptime"), attr="Training"):
            return True
    return False


def _check_function(tree: ast.Module, file: Path, function: str) -> None:
    names = list(dict.fromkeys(node.name for node in _functions_at_top(tree)))
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    bound |= {alias.asname or alias.name for node in ast.walk(tree)
              if isinstance(node, ast.ImportFrom) for alias in node.names}  # fmt: skip
    if function not in bound | set(names) and STAR_IMPORT not in bound:
        there = f"functions there: {', '.join(names) or 'none'}"
        defined = (node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        if function in defined:
            says = f"{file}: '{function}' is defined inside something else, and only its top can be called"
            raise UsageError(says, f"move it to the top of the file; {there}")
        raise UsageError(f"{file} has no function '{function}'", there)
    if _returns_nothing(tree, function):
        says = f"{function} in {file} returns nothing, and a laptime.Training was expected"
        raise UsageError(says, _how_to_make_one(file, tree))


def _returns_nothing(tree: ast.Module, function: str) -> bool:
    """Whether a function surely returns None: calling it would run a script's whole training for nothing.

    What is decorated, annotated, bound to other values as well, empty, ends with an error, or returns anything, is only
    known once it is called.
    """
    bodies = [node for node in _functions_at_top(tree) if node.name == function]
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return bool(bodies) and function not in stored and not any(map(_may_return, bodies))


def _may_return(body: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a call of a function may give anything but None."""
    if isinstance(body, ast.AsyncFunctionDef) or body.decorator_list or body.returns is not None:
        return True
    # All nodes of the function that are not those of a function or class within it
    nodes: list[ast.AST] = []
    left: list[ast.AST] = [*body.body]
    while left:
        node = left.pop()
        nodes.append(node)
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            left += ast.iter_child_nodes(node)
    works = any(isinstance(node, ast.Call) for node in nodes)  # else it takes no time to call it
    return not works or isinstance(body.body[-1], ast.Raise) or any(map(_yields_value, nodes))


def _yields_value(node: ast.AST) -> bool:
    if isinstance(node, ast.Return):
        return node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None)
    return isinstance(node, ast.Yield | ast.YieldFrom)


def _functions_at_top(tree: ast.Module) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Find the functions that an import may define, in order, including those under `if`, `try`, `with` and so on."""
    found: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
    left: list[ast.AST] = [*reversed(tree.body)]
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.append(node)
        elif not isinstance(node, ast.ClassDef):
            inside = (part for part in ast.iter_child_nodes(node) if isinstance(part, HOLDS_STATEMENTS))
            left += [*reversed([*inside])]
    return found


def find_given(ask: Ask, workload: Workload | None) -> DataSource | None:
    """Read the folder or archive of --data, so that errors in it appear before anything runs."""
    if ask.data is None:
        return None
    if workload is None:
        raise UsageError("--data: a training of your own brings its data with it", "leave --data out")
    return read_source(workload, expand_home(ask.data, "--data"), ask.seed)


def supply(plan: Plan, tell: Callable[[str], None], notify: Callable[[str], None]) -> Plan:
    """Return the plan with its data, which is made only if a lane reads it."""
    make = partial(make_source, tell=tell, notify=notify)
    sets = {count: make(find_workload(plan.subject.name), count) for count in _counts_named(plan)}
    if plan.data is None and needs_files(plan):
        plan = replace(plan, data=make(find_workload(plan.subject.name), plan.ask.items))
    return replace(plan, sets=sets)


def describe_supply(plan: Plan) -> str | None:
    """Return sentences on the data that would be read or made, or None."""
    if plan.data is not None:
        return (
            f"data: {plan.data.folder}, {plan.data.train_items:,} items to train and {plan.data.test_items:,} to test"
        )
    counts = [*([plan.ask.items] if needs_files(plan) else []), *_counts_named(plan)]
    return "; ".join(describe_made(find_workload(plan.subject.name), count) for count in counts) or None


def needs_files(plan: Plan) -> bool:
    """Whether any lane reads the plan's files. --items asks for made files even if arrays would be enough."""
    lanes = [lane for lane in _lanes_of_built_in(plan) if lane.items is None]
    if plan.ask.items is not None:
        return bool(lanes)
    reads = bool(lanes) and find_workload(plan.subject.name).reads_files
    return reads and any(lane.settings.input in FROM_FILES for lane in lanes)


def _counts_named(plan: Plan) -> list[int]:
    """Return the numbers of items that lanes name for themselves."""
    return sorted({lane.items for lane in _lanes_of_built_in(plan) if lane.items is not None})


def _lanes_of_built_in(plan: Plan) -> list[PlannedLane]:
    """Return the lanes that train a built-in workload, and do not only pretend to."""
    if not plan.subject.is_built_in:
        return []
    return [lane for lane in plan.lanes if lane.row.runs_own_code]


# A user's own code: what kind of training its function returns, and when its errors end a question.
#
# An error of this code meets every lane, so it is reported once, with its place, and not lane by lane. An error that
# may be one lane's alone (memory, a device, a setting) is not: so a question ends only where nothing of the training
# has worked yet, and where the error has met every framework and kind of device in the race.

PROCESSOR = Device("cpu", "cpu", "the processor", usable=True)
ON_LOAD = "load"  # the file's import or its function raised, before anything was placed on a device
NAMES_ITS_LINE = ("own", ON_LOAD)  # errors that name file and line
TRACEBACK = "Traceback (most recent call last):\n"  # what follows says where a script failed, and is enough
BY_ITS_CODE = (*NAMES_ITS_LINE, "exit", "error", "TrainingError")


@dataclass(frozen=True, slots=True)
class Inspection:
    """What is known of a training before it runs: what kind it is, and what the framework sees that was asked."""

    own: OwnTraining | None = None
    seen: Framework | None = None


class OwnCode:
    """Ends a question with a TrainingError as soon as a training's own code keeps all its lanes from running."""

    def __init__(self, plan: Plan) -> None:
        self._subject_of = plan.subject_of
        self._untried = {
            training.name: {
                (lane.framework, lane.device.kind) for lane in plan.lanes if plan.subject_of(lane) == training
            }
            for training in plan.subjects
        }
        self._works = {training.name for training in plan.subjects if training.is_built_in}

    def look_at(self, lane: PlannedLane, runner: ProcessRunner) -> None:
        """Note how a lane's process ended, or how far it came."""
        if runner.works:
            self.note_success(lane)
        elif runner.failed is not None:
            failed = runner.failed
            printed = runner.printed.replace(TRACEBACK, "") if self._subject_of(lane).command else ""
            self.note_failure(lane, Failure(failed.reason, failed.kind, failed.source or printed))

    def note_success(self, lane: PlannedLane) -> None:
        """Note that the first steps of a lane's training ran without an error."""
        self._works.add(self._subject_of(lane).name)

    def note_failure(self, lane: PlannedLane, failure: Failure) -> None:
        """Raise a TrainingError if no lane is left that could run."""
        name = self._subject_of(lane).name
        if name in self._works or failure.kind not in BY_ITS_CODE:
            return
        row = lane.row
        kind = lane.device.kind
        is_everywhere = failure.kind == ON_LOAD and not row.is_opaque
        untried = self._untried[name]
        untried -= {pair for pair in untried if pair[0] == row.name and (is_everywhere or pair[1] == kind)}
        if not untried:
            raise say_failure(name, failure)


def say_failure(name: str, failure: Failure) -> TrainingError:
    """Return an error that names the training, or the place in its file."""
    is_named = failure.kind in NAMES_ITS_LINE or failure.source or failure.reason.startswith(name.partition(":")[0])
    return TrainingError(failure.reason if is_named else f"{name}: {failure.reason}", failure.source, name)


def inspect_training(ask: Ask, machine: Machine, subject: Subject, launcher: Launcher = LOCAL) -> Inspection:
    """Call the user's function once, before anything else runs, if the text of its file does not say enough.

    The process that calls it scouts its framework first. Refuse lanes whose framework cannot run what it returns.
    `own` is None if the call is not needed, or did not work for a reason that a lane will show. Raise a TrainingError
    if the user's code raised.
    """
    framework = _framework_to_ask(ask, machine, subject)
    if framework is None:
        return Inspection()
    environment = expect_environment(ask, framework.name)
    scouted, own = scout_with_training(framework, subject, environment, ask.patience_s, launcher)
    if isinstance(own, Failure) and own.kind in BY_ITS_CODE and scouted is not None and _may_have_started(scouted):
        own = ask_training(framework.name, subject, environment, ask.patience_s, launcher)
    if isinstance(own, OwnTraining):
        for text in ask.lanes:
            refuse_kind(parse_lane(text).row, own, subject.name)
        return Inspection(own, scouted)
    if own.kind in BY_ITS_CODE:
        raise say_failure(subject.name, own)
    return Inspection(seen=scouted)


def _may_have_started(framework: Framework) -> bool:
    """Whether a scout may have started devices, which some code cannot bear: it configures them, or forks."""
    has_card = any(device.usable and device.kind != PROCESSOR.kind for device in framework.devices)
    return has_card or not find_framework(framework.name).engine.starts_late


def family_of(training: OwnTraining, subject: Subject) -> str | None:
    """Return the family of frameworks that can run a training."""
    if training.kind == "step":
        return subject.written_for if subject.written_for in step_families() else family_of_any_steps()
    return subject.written_for if training.kind == "other" else training.kind


def _framework_to_ask(ask: Ask, machine: Machine, subject: Subject) -> Framework | None:
    """Return the framework in whose process the function is called, or None if nothing is to be found out."""
    lanes = [parse_lane(text) for text in ask.lanes]
    rows = [row for row in (lane.row for lane in lanes) if row.runs_own_code]
    if subject.file is None or len(rows) < len(lanes):
        return None
    fits = all(
        row.family == subject.written_for or {row.family, subject.written_for} <= step_families() for row in rows
    )
    on_cards = any(row.is_opaque and lane.device != "cpu" for row, lane in zip(rows, lanes, strict=True))
    if subject.written_for is not None and fits and not _changes_data(ask, lanes) and not on_cards:
        return None
    guess = default_framework(machine, subject) if subject.written_for is not None or not rows else rows[0].name
    able = [guess, *(row.name for row in rows), *(framework.name for framework in machine.frameworks)]
    views = (machine.framework(name) for name in able)
    return next((view for view in views if view is not None and view.problem is None), None)


def _changes_data(ask: Ask, lanes: Sequence[Lane]) -> bool:
    """Whether a lane may have other batches or workers than the user's data, which these have to allow."""
    named = [setting for lane in lanes for setting in lane.overrides]
    if any(key == "workers" or (key == "batch" and cuts_batches(value)) for key, value in named):
        return True
    return ask.changes_data


# A record is data: what it names is started only if this user made it here, or says that it is trusted.

ERROR_SHOWN_MOST = 1_500  # characters: an error is cut at 2,000, and what is cut could hide the worst part


def check_trusted(record: Record, trusted: str | None, *, is_ours: bool, acts: str = "") -> None:
    """Refuse what a record would do, unless it is this user's or `trusted` is its id.

    `acts` says what that is; without it, the record would start what it names.
    """
    if trusted is not None and trusted != record.id:
        says = f"--trust names {trusted}, and the record is {record.id}"
        raise UsageError(says, f"If you trust it: --trust {record.id}")
    if is_ours or trusted:
        return
    acts = acts or f"start {'; '.join(describe_start(record))}"
    if len(acts) > ERROR_SHOWN_MOST:
        acts = f"do more than fits here, {len(acts)} characters; read it whole: laptime show {record.id} --json"
    raise UsageError(
        f"{record.id} bears no signature of yours: it was made elsewhere, by another user, or by an older laptime. "
        f"It would {acts}",
        f"If you trust all of that: --trust {record.id}",
    )


def describe_start(record: Record) -> Iterator[str]:
    """Yield all that a record would start, open or reach if it were run again, whole."""
    ask = record.ask
    if ask.command:
        yield f"the command: {shlex.join(ask.command)}"
    subjects = (record.workload, *(other.subject for other in record.others))
    for what, subject in zip_longest((ask.what, *ask.others), subjects):
        if subject is not None and subject.command:
            describe_training = f"the command: {shlex.join(subject.command)}"
        elif subject is not None and subject.file is not None:
            describe_training = f"the code of {shlex.quote(subject.file)} ({what})"
        else:
            describe_training = f"the training {what}"
        yield describe_training
    if ask.data is not None:
        yield f"on the data in {shlex.quote(ask.data)}"
    if ask.on is not None:
        yield f"on the cluster {shlex.quote(ask.on)}"
    lanes = ", ".join(dict.fromkeys(lane.name for lane in record.lanes))
    yield f"on {lanes or 'no lane'}"
