"""`laptime.race`: which lane is faster, from Python."""

from __future__ import annotations

import os
import textwrap
from dataclasses import dataclass
from typing import Any

from laptime.library.asking import (
    LaneNames,
    ShareLike,
    Trainings,
    What,
    ask_again,
    check_threshold,
    make_ask,
    with_options,
)
from laptime.library.calls import Recorded, answer, judge, read_threshold, record_of
from laptime.library.notebook import as_block
from laptime.library.results import QuestionCall, Result
from laptime.model.ask import DEFAULT_WORKLOAD
from laptime.model.errors import LaptimeError, UsageError
from laptime.questions.compare.call import CompareResult
from laptime.show.listing import WIDTH_OFF_TERMINAL


@dataclass(frozen=True, slots=True, repr=False)
class RaceResult(Result):
    """The answer of a race. `judged` is how it compares, where `against` or `fail_above` asked for it, or why not."""

    judged: CompareResult | LaptimeError | None = None

    @property
    def comparison(self) -> CompareResult:
        """How the race compares with that of `against` or, with `fail_above` alone, its trainings with its first."""
        if isinstance(self.judged, CompareResult):
            return self.judged
        if self.judged is not None:
            raise self.judged
        says = f"{self.id} was compared with nothing"
        raise UsageError(says, "Race with against='@main' or fail_above='5%', or call laptime.compare(before, result).")

    def _repr_html_(self) -> str:
        below = "" if self.judged is None else as_block(self._judged_page(WIDTH_OFF_TERMINAL, details=False))
        return Result._repr_html_(self) + below  # a dataclass with slots has no `super()`

    def _page(self, width: int, *, details: bool) -> str:
        page = Result._page(self, width, details=details)  # noqa: SLF001  as above
        return page if self.judged is None else f"{page}\n\n{self._judged_page(width, details=details)}"

    def _judged_page(self, width: int, *, details: bool) -> str:
        if isinstance(self.judged, LaptimeError):
            return textwrap.fill(f"Not compared: {self.judged.says}. {self.judged.hint}", width)
        return self.comparison.page(width=width, details=details)


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


PART = QuestionCall(race, RaceResult)
