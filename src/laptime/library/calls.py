"""The functions of `import laptime` that run something. Each asks one question and returns its result.

Their options are those of the table, with the defaults of the command line; `functions.pyi` has their types. Arguments
that several functions share are explained once, in `race` and on docs/library.md.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from laptime import api
from laptime.errors import StoreError, UsageError
from laptime.library.asking import (
    DurationLike,
    LaneNames,
    PathLike,
    ShareLike,
    Trainings,
    What,
    ask_again,
    check_threshold,
    make_ask,
    options_as_arguments,
    read_argument,
)
from laptime.library.notebook import progress_shown
from laptime.library.results import DevicesResult, DoctorResult, PlanResult, RaceResult, Result
from laptime.library.saved import Recorded, judge, read_threshold, record_of
from laptime.library.signatures import with_options
from laptime.model.ask import DEFAULT_WORKLOAD, Ask
from laptime.model.record import Record
from laptime.run.child import refuse_within_a_heat


@with_options("race")
def race(
    what: What | Trainings = DEFAULT_WORKLOAD,
    lanes: LaneNames = (),
    *,
    against: Recorded | None = None,
    trust: str | None = None,
    fail_above: ShareLike | None = None,
    progress: bool | None = None,
    **given: Any,
) -> RaceResult:
    """Race the lanes: which is faster, by how much, and did they learn the same?

    `what` is a function that returns a `laptime.Training`, the name of a built-in workload, "file.py:function", or
    an `Ask`; a list of functions or files races these against each other. `lanes` are named as on the command line:
    ["cpu", "cuda/best"]. With no lane, every usable device races, as written and at its best; with `every`, every
    installed framework.

    The race ends within `budget` ("1m", or seconds), when every ratio is known to `margin` ("5%", or 0.05), or
    after `heats`. `data` is a folder of real data, `items` how many are made where there is none. `patience` is for
    starting and compiling, `watchdog` for a heat that sends nothing. `sensors` are those to read, `sensor_rate` how
    often a second. Each lane races once for every `batch`. `price` (of a kWh) and `rate` (of the machine per hour)
    add costs. `label` names the record: `laptime.load("@label")`. `progress` shows a live table in a notebook, where it
    is the default, and one line elsewhere.

    "train.py" may also be a script that knows nothing of laptime: `arguments` are its own, and each of its runs is
    stopped after `steps` timed steps, or when enough is known.

    `on` names a cluster: "ray", "ray://host:10001" or "slurm". Each heat then runs on a node of it. `each` is a label
    of a Ray cluster's nodes: each lane races on each type of them. `prices` are per hour: {"small": 0.1, "big": 1.2}.

    `against` (a result, an id, a file, "@label") runs that race again as it was, and compares: `.comparison`. Next to
    it only `label`, `trust`, `fail_above` and `progress` can be given. A record that you did not make here is run again
    only if `trust` is its id: it starts what it names. With `fail_above` ("5%", or 0.05) the lanes that take
    more than that longer for certain are in `.comparison.failing`; without `against`, the further trainings of a list
    are compared with its first.
    """
    before, share = None if against is None else record_of(against), read_threshold(fail_above)
    if before is not None:
        found_as = os.fspath(against) if isinstance(against, str | os.PathLike) else None
        ask = ask_again(before, what, lanes, found_as=found_as, trust=trust, given=given)
    elif trust is not None:
        raise UsageError("trust is for a record that is run again", "laptime.race(against=ID, trust=ID)")
    else:
        ask = make_ask(what, lanes, **given)
    check_threshold(ask, before, share)
    record, is_saved = answer("race", ask, progress=progress)
    return RaceResult(record, is_saved, judge(before, record, share))


@with_options("train")
def train(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Train each lane whole, one after another: laps, validation, a test. The record is saved after every lap.

    `laps` and `steps_per_lap` replace what was published. Each lane is trained from `seeds` seeds, and once for every
    pair of `lr` and `batch`. `until_accuracy` (0.7 or "70%") says when that was reached. For the rest see `race`.
    """
    return Result(*answer("full", make_ask(what, lanes, "train", **given), progress=progress))


@with_options("infer")
def infer(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Time answers, not training: how long one takes, and how many there are a second in batches. See `race`."""
    return Result(*answer("infer", make_ask(what, lanes, "infer", **given), progress=progress))


@with_options("profile")
def profile(
    what: What = DEFAULT_WORKLOAD, lanes: LaneNames = (), *, progress: bool | None = None, **given: Any
) -> Result:
    """Run some steps of each lane under its framework's profiler: operators, kernels, and a saved trace. See `race`."""
    return Result(*answer("profile", make_ask(what, lanes, "profile", **given), progress=progress))


@with_options("plan")
def plan(what: What | Trainings = DEFAULT_WORKLOAD, lanes: LaneNames = (), **given: Any) -> PlanResult:
    """Return what `race` would run with these arguments. Give an `Ask` to see a whole training or inference."""
    refuse_within_a_heat()
    ask = make_ask(what, lanes, "plan", **given)
    with options_as_arguments():
        return PlanResult(api.outline(ask))


def resume(
    name: str = "latest",
    *,
    changed: bool = False,
    again: bool = False,
    trust: str | None = None,
    progress: bool | None = None,
) -> Result:
    """Continue the whole trainings of a record from the checkpoints of their last laps.

    A training whose sources have changed since then goes on only with `changed`. Finished laps whose checkpoint is gone
    are trained again only with `again`. A record that you did not make here goes on only if `trust` is its id.
    """
    return Result(*run(partial(api.resume, name, changed=changed, again=again, trust=trust), progress=progress))


def devices(
    frameworks: Iterable[str] | None = None,
    *,
    measure: bool = False,
    patience: DurationLike = "2m",
    progress: bool | None = None,
) -> DevicesResult:
    """Describe this machine and what each installed framework sees of it. With `measure`, measure what each can do."""
    refuse_within_a_heat()
    seconds = read_argument("patience", patience)
    with options_as_arguments():
        machine = api.devices(frameworks, patience_s=seconds)
    if not measure:
        return DevicesResult(machine, api.kept_peaks(machine))
    unsaved: list[StoreError] = []
    with progress_shown(wanted=progress) as line:
        limits = api.measure_peaks(machine, line.write, unsaved.append, patience_s=seconds)
    warn(unsaved)
    return DevicesResult(machine, limits)


def doctor(
    data: PathLike | None = None, *, frameworks: Iterable[str] | None = None, progress: bool | None = None
) -> DoctorResult:
    """Check whether each installed framework can really use each device. `data` is a folder to look at too."""
    refuse_within_a_heat()
    with options_as_arguments(), progress_shown(wanted=progress) as line:
        return DoctorResult(api.doctor(Path(data) if data else None, line.write, frameworks=frameworks))


# Runs one question for a call of the library: with its progress, and with a warning of what could not be saved.


def answer(question: str, ask: Ask, *, progress: bool | None) -> tuple[Record, bool]:
    return run(partial(api.answer, question, ask), progress=progress)


def run(ask: Callable[..., Record], *, progress: bool | None) -> tuple[Record, bool]:
    """Run a question. Return its record, and whether it was saved to the end."""
    refuse_within_a_heat()
    unsaved: list[StoreError] = []
    with options_as_arguments(), progress_shown(wanted=progress) as line:
        record = ask(show=line.show, tell=line.tell, warn=unsaved.append)
    warn(unsaved)
    return record, not unsaved


def warn(unsaved: Sequence[StoreError]) -> None:
    """Warn, once, of what could not be saved: the result is there all the same."""
    if unsaved:
        warnings.warn(str(unsaved[-1]), RuntimeWarning, stacklevel=5)
