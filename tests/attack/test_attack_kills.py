"""Every question killed at a random moment, in every way: what was saved is kept, and nothing else is left.

One kill of each command by default, and of a third of them a day in `make test`; LAPTIME_ATTACK=long makes 1,000. A
failure names its seed: LAPTIME_SEED=N tries the same again, though no machine stops at the same instruction twice.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from attacking import IS_LONG, in_thirds, third

from laptime.model.errors import RecordError
from laptime.model.record import InferAnswer, TrainingAnswer
from laptime.store.schema import decode

SEED = int(os.environ.get("LAPTIME_SEED", "0"))
PARTS, KILLS = 40, 25  # of LAPTIME_ATTACK=long
EARLIEST_S, AT_FIRST_S = 0.02, 2.0 if IS_LONG else 1.0  # seldom later than the command's own end
MOST_TRIES = 20  # of one kill: a command may be done before its moment has come
GONE_WITHIN_S = 5.0
SCRATCH = "laptime-"  # a profiler's files, until they are read: kill -9 leaves them to the system

FULL = ("train", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--laps", "4", "--steps-per-lap", "50", "--quiet")
SCRIPT = str(Path(__file__).with_name("looping.py"))
MAKE = ("data", "make", "scenes-cnn", "--items", "40")
COMMANDS = (
    FULL,
    ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "8", "--quiet"),
    ("resume", "latest", "--quiet"),
    ("infer", "cifar-cnn", "fake/cpu", "--heats", "4", "--quiet"),
    ("why", "cifar-cnn", "fake/cpu", "--budget", "4s", "--quiet"),
    MAKE,
    ("profile", "cifar-cnn", "fake/cpu", "--quiet"),
    ("train", "cifar-cnn", "fake/cpu", "--laps", "2", "--steps-per-lap", "50", "--quiet"),
    ("race", "cifar-cnn", "fake/cpu", "--heats", "3", "--profile", "--json"),
    ("tune", "cifar-cnn", "fake/cpu", "--budget", "4s", "--quiet"),
    ("sweep", "cifar-cnn", "fake/cpu", "--batch", "16,32", "--budget", "4s", "--quiet"),
    ("scale", "cifar-cnn", "fake/cpu", "--devices", "1,2", "--budget", "4s", "--quiet"),
    ("forecast", "cifar-cnn", "fake/cpu", "--quiet"),
    ("watch", "--quiet", "--", "python", SCRIPT),
    ("race", SCRIPT, "cpu", "--budget", "4s", "--quiet"),
    ("why", SCRIPT, "cpu", "--budget", "4s", "--quiet"),
)
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
# 0 it was done by then, 2 nothing was left to resume, 3 a lane lost its process, 4 too noisy to tell, and by a signal,
# which may be that of the script that was watched.
GOOD_CODES = {0, 2, 3, 4, 130, 137, 143, *(-each for each in SIGNALS)}


def to_process(process, dice):
    sent = dice.choice(SIGNALS)
    return sent.name, lambda: process.send_signal(sent)


def to_group(process, dice):
    sent = dice.choice(SIGNALS)
    return f"{sent.name} to its group", lambda: os.killpg(process.pid, sent)


def to_child(process, dice):
    """Kill one of the processes that it has started, if there is one: the command goes on, and has to end well."""

    def kill() -> None:
        with suppress(psutil.Error):
            children = psutil.Process(process.pid).children(recursive=True)
            (dice.choice(children) if children else psutil.Process(process.pid)).kill()

    return "SIGKILL to a child", kill


WAYS = (to_process, to_group, to_child)


def saved(house):
    """Return what each record holds that may not be lost, or say which cannot be read."""
    held = {}
    for place in house.files():
        record = decode(place.read_bytes(), place.name)
        answer = record.answer
        results = ((lane.name, result.heat) for lane in record.lanes for result in lane.heats)
        heats = [(name, heat.order) for name, heat in results if heat.process.status == "ok"]
        runs = answer.runs if isinstance(answer, TrainingAnswer) else ()
        laps = [(run.process.lane, run.seed, lap.number) for run in runs for lap in run.laps]
        lanes = answer.lanes if isinstance(answer, InferAnswer) else ()
        calls = [(heat.process.lane, heat.order) for lane in lanes for heat in lane.heats]
        held[place.name] = {*heats, *laps, *calls}
    return held


def is_of_python_alone(said):
    """Whether Ctrl-C came while Python was starting: no line of `main` has run, at most its `def` is reached."""
    began = "laptime/cli" in said or re.search(r'laptime/__main__\.py", line \d+, in main\n +(?! |def )', said)
    return "KeyboardInterrupt" in said and not began


def is_pythons_own(place):
    """Whether this is the file by which Python tries whether it can write into the temporary folder."""
    return place.is_file() and len(place.name) == 8 and place.read_bytes() in {b"", b"blat"}


class Siege:
    """A house in which one command after another is killed."""

    def __init__(self, house, dice) -> None:
        self.house, self.dice = house, dice
        self.latest_s = dict.fromkeys(COMMANDS, AT_FIRST_S)
        self.scratch = house.folder / "tmp"
        self.scratch.mkdir()

    def strike(self, command) -> tuple[str | None, set[str]]:
        """Kill a command that is still at work; say what went wrong, if anything did, and which records are new."""
        for _ in range(MOST_TRIES):
            known = {place.stem for place in self.house.files()}
            way, failure, was_at_work = self._strike_once(command)
            if failure:
                return f"{' '.join(command)}, {way}: {failure}", set()
            if was_at_work:
                return None, {place.stem for place in self.house.files()} - known
        return f"{' '.join(command)}: it was never at work", set()

    def _strike_once(self, command):
        after_s = self.dice.uniform(EARLIEST_S, self.latest_s[command])
        process = self.house.start(
            *command, env={"TMPDIR": str(self.scratch)}, warnings="ignore", start_new_session=True
        )
        name, kill = self.dice.choice(WAYS)(process, self.dice)
        time.sleep(after_s)
        before = saved(self.house)
        was_at_work = process.poll() is None
        if was_at_work:
            with suppress(ProcessLookupError):
                kill()
        else:
            self.latest_s[command] = max(0.8 * after_s, 10 * EARLIEST_S)
        failure = self._look(process, before) or self._strays(may_keep_scratch="SIGKILL" in name)
        return f"{name} after {after_s:.3f} s", failure, was_at_work

    def _look(self, process, before) -> str | None:
        _, said = process.communicate(timeout=self.house.longest_s)
        starting = is_of_python_alone(said)
        if "Traceback" in said and not starting:
            return said
        if process.returncode not in GOOD_CODES and not starting:
            return f"it ended with {process.returncode}: {said}"
        if not self.house.is_empty_within(GONE_WITHIN_S):
            return f"left behind: {[each.cmdline() for each in self.house.processes()]}"
        try:
            after = saved(self.house)
        except RecordError as error:
            return f"{error}"
        lost = {name: held - after.get(name, set()) for name, held in before.items() if held - after.get(name, set())}
        return f"lost: {lost}" if lost else None

    def _strays(self, *, may_keep_scratch: bool) -> str | None:
        """Nothing may be written but into the home and the cache, nor stay in the temporary folder."""
        found = {each.name for each in self.house.folder.iterdir()} - {"home", "cache", "tmp"}
        for each in self.scratch.iterdir():
            is_allowed = is_pythons_own(each) or (may_keep_scratch and each.name.startswith(SCRATCH) and each.is_dir())
            found |= set() if is_allowed else {f"tmp/{each.name}"}
            shutil.rmtree(each) if each.is_dir() else each.unlink()
        return f"strays: {sorted(found)}" if found else None

    def resume(self, identity, unbroken) -> str | None:
        """Train on at what a kill has left: every figure is that of a training that nobody killed."""
        answer = self.house.run("resume", identity, "--json", "--quiet")
        if answer.code == 2 and "is finished" in answer.err:
            return None
        if answer.code:
            return f"resume ended with {answer.code}: {answer.err}"
        return None if curves(answer.json) == unbroken else "the resumed curve is not the unbroken one"

    def end(self) -> list[str]:
        """Look at what all these kills have left, with the commands that users have."""
        failures = []
        rows = self.house.run("list", "--json")
        failures += [f"{row['id']}: {row['unreadable']}" for row in rows.json if row["unreadable"]]
        if self.house.files() and (shown := self.house.run("show", "latest")).code:
            failures.append(f"show latest: {shown.err}")
        made = self.house.run(*MAKE)
        if made.code:
            failures.append(f"data make: {made.err}")
        if halves := [each.name for each in self.house.cache.rglob("*") if ".part-" in each.name]:
            failures.append(f"half made: {halves}")
        return failures


def curves(record):
    """Return what must not depend on where a training was broken."""
    return [
        (run["process"]["lane"], run["seed"], [(lap["number"], lap["score"], lap["validation"]) for lap in run["laps"]])
        for run in record["answer"]["runs"]
    ]


@pytest.fixture(scope="module")
def unbroken(shared_house):
    return curves(shared_house.done(*FULL, "--json").json)


def commands_of(part):
    if not IS_LONG:
        return third(part, COMMANDS)
    return [COMMANDS[((part - 1) * KILLS + number) % len(COMMANDS)] for number in range(KILLS)]


@pytest.mark.parametrize("part", range(1, PARTS + 1) if IS_LONG else in_thirds())
def test_no_kill_loses_what_was_saved(house, unbroken, tally, part):
    """No process, no damaged record, no lost heat, no stray file; a killed training goes on to the same figures."""
    tally.what = "kills at random moments"
    siege = Siege(house, random.Random(f"{SEED} {part}"))
    commands = commands_of(part)
    for number, command in enumerate(commands):
        failure, made = siege.strike(command)
        for identity in made if command == FULL else ():
            failure = failure or siege.resume(identity, unbroken)
        tally.note(f"seed {SEED}, part {part}, kill {number}: {failure}" if failure else None)
    for failure in siege.end():
        tally.note(f"seed {SEED}, part {part}, at the end: {failure}")
    tally.check(len(commands))
