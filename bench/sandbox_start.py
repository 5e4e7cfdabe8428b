"""What a sandbox adds to a heat: the same start, and the same steps, with one and without, in turns.

`python bench/sandbox_start.py [--starts 20] [--rounds 10]` prints JSON: the milliseconds until a heat says that it is
there, forked from a template that has imported PyTorch, and as a fresh process, and until it has ended; then how long a
step of cifar-mlp takes in a sandbox over how long it takes without, in rounds of two heats that take turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from laptime.engine import wire
from laptime.engine.run.child import Child
from laptime.engine.run.confined import ConfinedLauncher
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.engine.run.templates import ForkedChild, HeatTemplate
from laptime.engine.run.turns import Player, play_turns
from laptime.machine.look import look_at_machine
from laptime.model.ask import Ask
from laptime.model.process import Sandbox
from laptime.model.stats import log_mean_interval
from laptime.questions.asking import prepare_trainings
from laptime.questions.proving import order_heat

IMPORT_S = 300.0
TURNS = 12  # of a heat


def time_start(start: Callable[[], Child]) -> tuple[float, float]:
    """Return the milliseconds until a child has greeted, and is gone."""
    began_s = time.perf_counter()
    child = start()
    while not isinstance(child.hear(IMPORT_S), wire.Hello):
        pass
    greeted_s = time.perf_counter()
    child.end(grace_s=0)
    return (greeted_s - began_s) * 1e3, (time.perf_counter() - greeted_s) * 1e3


def compare_steps(template: HeatTemplate, sandboxes: dict[str, Sandbox | None], rounds: int) -> dict[str, float]:
    """Return the factor of a step in a sandbox over one without, with its interval at 95 %."""
    plan = prepare_trainings(Ask("cifar-mlp", lanes=("torch/cpu",)), look_at_machine()).plan
    pace = replace(plan.pace, takes_turns=True, measure_s=0.25 * TURNS, window_s=0.25, windows_min=TURNS)
    order = order_heat(plan, plan.lanes[0], pace, 0)
    ratios = []
    for number in range(rounds):
        players = [
            Player(
                HeatRunner(order, Limits(), look_at_machine().processor.cores_usable, lambda _: None), order.lane.device
            )
            for _ in sandboxes
        ]
        for player, sandbox in zip(players, sandboxes.values(), strict=True):
            player.begin(Started(ForkedChild(template, sandbox=sandbox)))
            player.join()
        play_turns(players if number % 2 else players[::-1], pace)
        steps = [
            sum(each.end_ns - each.start_ns for each in player.runner.windows)
            / sum(each.steps for each in player.runner.windows)
            for player in players
        ]
        for player in players:
            player.leave()
        ratios.append(steps[1] / steps[0])
    found = log_mean_interval(ratios, 0.05)
    return {"factor": round(found.estimate, 4), "low": round(found.low, 4), "high": round(found.high, 4)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    template = HeatTemplate("torch", {}, 1)
    template.make_ready(time.monotonic() + IMPORT_S)
    sandboxes = {"without": None, "with": ConfinedLauncher().sandbox_for(None)}
    took: dict[str, list[tuple[float, float]]] = {}
    for _ in range(given.starts):
        for name, sandbox in sandboxes.items():
            forked = time_start(lambda sandbox=sandbox: ForkedChild(template, sandbox=sandbox))
            fresh = time_start(lambda sandbox=sandbox: Child({}, sandbox=sandbox))
            took.setdefault(f"forked, {name}", []).append(forked)
            took.setdefault(f"fresh, {name}", []).append(fresh)
    steps = compare_steps(template, sandboxes, given.rounds)
    template.close()
    found: dict[str, object] = {
        name: {
            part: {
                "median_ms": round(statistics.median(values), 1),
                "range_ms": [round(min(values), 1), round(max(values), 1)],
            }
            for part, values in zip(("start", "end"), zip(*pairs, strict=True), strict=True)
        }
        for name, pairs in took.items()
    }
    found["a step in a sandbox over one without"] = steps
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
