"""A bare torchrun script and laptime's heats that take turns, on one and on two processes, all alive at once.

Two runs one after another differ by a fifth on a shared machine; two turns of a quarter of a second by far less.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import psutil

from laptime.engine.run.runner import HeatRunner, Limits
from laptime.engine.run.turns import Player, Prestarter
from laptime.machine.look import look_at_machine
from laptime.model.ask import Ask
from laptime.questions.asking import prepare
from laptime.questions.proving import order_heat

TURN_S = 0.25
BARE, OURS, FREE = "bare", "laptime", "laptime, not kept to cores"
Times = dict[tuple[str, int], list[float]]


@dataclass
class BareScript:
    """A script under torchrun that trains for a turn when it is asked to, and waits otherwise."""

    process: subprocess.Popen[bytes]
    asks: TextIO
    tells: TextIO

    def turn(self) -> float:
        """Return the milliseconds of a step."""
        print(file=self.asks, flush=True)
        return float(self.tells.readline())

    def end(self) -> None:
        self.asks.close()
        self.tells.close()
        self.process.terminate()
        self.process.wait()


def start_bare(script: Path, count: int, place: Path) -> BareScript:
    """Start the script on this many processes, each with one thread."""
    asked, told = place / f"asked-{count}", place / f"told-{count}"
    for each in (asked, told):
        each.unlink(missing_ok=True)
        os.mkfifo(each)
    torchrun = [str(Path(sys.executable).parent / "torchrun"), "--standalone", f"--nproc-per-node={count}"]
    process = subprocess.Popen(
        [*torchrun, str(script), str(asked), str(told), str(TURN_S)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return BareScript(process, asked.open("w"), told.open())


def _let_run_anywhere(pid: int) -> None:
    """Undo that each process of a heat is kept to its share of the cores."""
    cores = range(os.cpu_count() or 1)
    for process in psutil.Process(pid).children(recursive=True):
        for thread in process.threads():
            os.sched_setaffinity(thread.id, cores)


def take_turns(script: Path, training: str, lanes: dict[int, str], place: Path, turns: int) -> tuple[Times, list[str]]:
    """Return the milliseconds of a step in each turn, by who took it and on how many processes, and failed heats."""
    prepared = prepare(Ask(training, tuple(lanes.values())), look_at_machine())
    plan = prepared.plan
    times: Times = {(who, count): [] for who in (BARE, OURS) for count in lanes}
    times[FREE, max(lanes)] = []
    scripts = {count: start_bare(script, count, place) for count in lanes}
    failed: list[str] = []
    planned = dict(zip(lanes, plan.lanes, strict=True))
    players = {}
    with Prestarter(2, 600.0, 1) as prestarter:
        for number, (who, count) in enumerate(time for time in times if time[0] != BARE):
            lane = planned[count]
            prestarter.line_up([lane])
            runner = HeatRunner(order_heat(plan, lane, plan.pace, number), Limits(), 2, lambda _phase: None)
            player = players[who, count] = Player(runner, lane.device)
            player.join(prestarter.take(lane))
            if who == FREE:
                _let_run_anywhere(runner.child.pid)
        for turn in range(turns):
            for who, count in random.sample(list(times), len(times)):
                if who == BARE:
                    times[who, count].append(scripts[count].turn())
                    continue
                players[who, count].play(turn)
                window = players[who, count].runner.windows[-1]
                times[who, count].append((window.end_ns - window.start_ns) / window.steps / 1e6)
        failed = [str(dnf) for player in players.values() if (dnf := player.leave()) is not None]
    for each in scripts.values():
        each.end()
    return times, failed
