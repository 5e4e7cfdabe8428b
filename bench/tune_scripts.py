"""How near `laptime tune train.py` comes to the best settings of a script, and in which part of a grid's time.

    python bench/tune_scripts.py [--out FILE.json] [--script slow_disk ...] [--share 0.19]

Each script is one of SCRIPTS, which nobody changes. All sets of some of its settings run a heat each, a few at a time
next to the best so far, and the best five two more: that is the grid. `laptime tune` then has `--share` of the grid's
time and all settings that it knows. Its winner and the grid's best race each other: the winner has to reach 97 % of the
grid's best in a fifth of its time. The diff of the winner is made in the copy of the script, whose loss after the first
lap has to be that of before, unless its items are drawn again each time.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import laptime
from common import ROOT, Figure, finish, fresh_home, parser_for, result, write_json
from laptime import api
from laptime.machine.look import look_at_machine
from laptime.model.ask import Ask
from laptime.model.machine import Machine
from laptime.model.record import Record
from laptime.questions.asking import python_here
from laptime.questions.job import Job
from laptime.questions.tune.nouns import TuneAnswer, TunedLane
from laptime.questions.tune.run import Tune, TunePrepared, prepare_tune
from laptime.store.files import new_id

OF_GRID, OF_ITS_TIME, SHARE = 0.97, 0.2, 0.19  # a question takes some seconds more than it is given
MANY_EPOCHS = ("--epochs", "9999")
LANE = "cpu"
NO_LIMIT_S = 36_000.0
AT_ONCE, BEST, AGAIN = 8, 5, 2
ROUNDS = 5


@dataclass(frozen=True)
class Script:
    """One script, the settings of its grid, and whether it makes its items again each time."""

    settings: tuple[str, ...]
    folder: str = "bench/tuned_scripts"
    redraws: bool = False


LOADS = ("workers", "prefetch", "optimizer", "malloc")  # what a script that waits for its items may want
COMPUTES = ("threads", "optimizer", "malloc", "denormals", "pinning", "layout")
SCRIPTS = {
    "slow_disk": Script(LOADS, "examples"),
    "plain_loop": Script(("workers", "prefetch", "layout", "malloc"), "examples", redraws=True),
    "far_storage": Script(LOADS),
    "rows_in_memory": Script(("workers", "malloc", "denormals", "threads")),
    "many_weights": Script(COMPUTES),
    "large_arrays": Script(COMPUTES),
    "one_thread": Script(COMPUTES),
    "characters": Script(COMPUTES),
    "wide_convolution": Script(COMPUTES),
    "by_accelerate": Script(LOADS),
    "by_lightning": Script(LOADS),
    "by_trainer": Script(LOADS),
}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--script", choices=SCRIPTS, action="append", help="only these")
    parser.add_argument("--share", type=float, default=SHARE, help="of the grid's time, which a tuning has")
    given = parser.parse_args()
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    with fresh_home() as _place, tempfile.TemporaryDirectory() as folder:
        for name in given.script or SCRIPTS:
            file = copy_script(name, Path(folder) / name)
            figures += check_script(name, file, given.share, details)
            if given.out is not None:  # what is measured outlasts an interruption
                write_json(given.out, result("tune_scripts", figures, details=details, versions={}))
    return finish("tune_scripts", figures, given.out, details=details)


def copy_script(name: str, folder: Path) -> Path:
    """Copy a script, and what it imports, into a folder of its own."""
    shutil.copytree(ROOT / SCRIPTS[name].folder, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder / f"{name}.py"


def check_script(name: str, file: Path, share: float, details: dict[str, Any]) -> list[Figure]:
    """Run the grid, tune in a share of its time, and race the two winners."""
    began_s = time.monotonic()
    best = winner_of(run_grid(ask_for(file, NO_LIMIT_S), SCRIPTS[name].settings))
    grid_s = time.monotonic() - began_s
    began_s = time.monotonic()
    tuned = winner_of(api.answer("tune", ask_for(file, share * grid_s)))
    took_s = time.monotonic() - began_s
    ratio = 1.0 if best.winner == tuned.winner else race_winners(file, best, tuned)
    same = check_change(file, tuned)
    details[name] = {
        "sets": best.tried, "best": best.words, "grid_s": grid_s, "words": tuned.words, "standing": tuned.standing,
        "gain": None if tuned.gain is None else tuned.gain.ratio, "tried": tuned.tried, "took_s": took_s,
        "ratio": ratio, "unplaced": [each.word for each in tuned.unplaced], "losses": same,
        "workers": {each.word: [each.alone.ratio, each.alone.low, each.alone.high] for each in tuned.settings
                    if each.alone is not None},
    }  # fmt: skip
    print(f"{name}: grid {'+'.join(best.words)} in {grid_s:.0f} s ({best.tried} sets), "
          f"tune {'+'.join(tuned.words)} in {took_s:.0f} s: {ratio:.3f}", flush=True)  # fmt: skip
    return [
        Figure(f"{name}: the winner over the grid's best", ratio, "times", least=OF_GRID),
        Figure(f"{name}: its time over the grid's", took_s / grid_s, "times", most=OF_ITS_TIME),
        Figure(f"{name}: its loss after the diff, off by", same, "", most=None if SCRIPTS[name].redraws else 1e-3),
    ]


def ask_for(file: Path, budget_s: float) -> Ask:
    return Ask(str(file), (LANE,), budget_s=budget_s, command=MANY_EPOCHS, tune=laptime.TuneAsk())


def winner_of(record: Record) -> TunedLane:
    assert isinstance(record.answer, TuneAnswer)
    assert record.answer.tuning is not None
    return record.answer.tuning.lanes[0]


class Grid(Tune):
    """Runs all first guesses instead of a search, and the best of them again. No winner races on fresh heats."""

    def run(self) -> None:
        (search,) = self._searches
        with self._rounds.prestarter() as prestarter:
            self._rounds.make_ready(prestarter)
            self._look(search, prestarter)
            for words in search.tunable.known:
                search.add(words)
            every = [words for words in search.tried if words]
            for first in range(0, len(every), AT_ONCE):
                beside = search.winner() if first else ()
                self._run(search, [beside, *every[first : first + AT_ONCE]], prestarter)
            for _ in range(AGAIN):
                ratings = search.ratings()
                best = sorted(ratings, key=lambda words: -ratings[words].log)[:BEST]
                self._run(search, best, prestarter)
            search.settle()


def run_grid(ask: Ask, settings: Sequence[str]) -> Record:
    """Run a grid as a question runs, and return its record."""
    began = dt.datetime.now(dt.UTC)
    services = api._open_services(new_id(began, random.Random()), began.isoformat(timespec="seconds"))  # noqa: SLF001
    prepared = prepare_grid(settings, ask, look_at_machine())
    job = Job("tune", prepared, services)
    return job.answer(Grid(job, prepared))


def prepare_grid(settings: Sequence[str], ask: Ask, machine: Machine) -> TunePrepared:
    """Prepare a tuning whose first guesses are all sets of these settings: they race first, and nothing is left."""
    prepared = prepare_tune(ask, machine)
    (one,) = prepared.tunables
    values = {name: each for name, each in one.values.items() if name in settings}
    choices = [[None, *each] for each in values.values()]
    every = (
        tuple((name, value) for name, value in zip(values, chosen, strict=True) if value is not None)
        for chosen in itertools.product(*choices)
    )
    grid = replace(one, values={}, known=tuple(words for words in every if words))
    return replace(prepared, tunables=(grid,))


def race_winners(file: Path, best: TunedLane, tuned: TunedLane) -> float:
    """Return how many times as fast the tuning's winner is as the grid's best, in a race of its own."""
    lanes = [best.winner, tuned.winner]
    found = laptime.race(file, lanes, arguments=MANY_EPOCHS, heats=ROUNDS, budget="1m", progress=False)
    return float(found.ratios[tuned.winner].value)


def check_change(file: Path, tuned: TunedLane) -> float:
    """Make the diff of the winner, and return how far the loss of the first lap is then from that before.

    Workers that stay shuffle later laps otherwise.
    """
    before = run_script(file)
    for change in tuned.changes:
        assert isinstance(change.diff, str)
        subprocess.run(["git", "apply", "-"], input=change.diff, text=True, cwd=file.parent, check=True)
    return abs(run_script(file)[0] / before[0] - 1)


def run_script(file: Path) -> list[float]:
    ran = subprocess.run(
        [python_here(), file.name, "--epochs", "1"], cwd=file.parent, capture_output=True, text=True, check=True
    )
    return [float(each) for each in re.findall(r"loss ([0-9.]+)", ran.stdout)]


if __name__ == "__main__":
    sys.exit(main())
