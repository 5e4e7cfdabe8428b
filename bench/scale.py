"""How right `laptime scale` is: next to a bare torchrun script, on planted losses, and about counts it did not see.

    python bench/scale.py                         all of it: about three quarters of an hour
    python bench/scale.py --only bare --out FILE.json

**bare**: the same network trained by a script of thirty lines under torchrun, in turns with laptime: the efficiency of
two processes, and the time of a step. **planted**: a slow rank, loaders that share a disk, a link of 200 Mbit/s in a
network namespace, and two nodes under torchrun in two namespaces whose link takes 1, 10, 100 ms; each has to be named
first, with its share. **model**: what 1 and 2 processes predict of 4, whose
devices sleep, so that two cores are enough.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for
from laptime import api
from laptime.model.ask import Ask
from laptime.model.machine import Machine
from laptime.model.stats import log_mean_interval, median
from laptime.questions.scale.nouns import ScaleAnswer
from laptime.questions.scale.options import ScaleAsk
from laptime.questions.scale.run import ScalePrepared, prepare_scale
from scale_trainings import lost_to_disk_ms
from scale_turns import BARE, FREE, OURS, Times, take_turns
from slow_link import linked
from slow_link_processes import DEVICE

PARTS = ("bare", "planted", "model")
BIN = Path(sys.executable).parent
TRAININGS = Path(__file__).with_name("scale_trainings.py")
AS_JSON = ("--json", "--quiet")
DELAYS_MS = (1, 10, 100)
TURNS = 16
RATE_BITS = 200e6
LINK = f"ip link set lo up && tc qdisc add dev lo root tbf rate {RATE_BITS / 1e6:.0f}mbit burst 256k latency 2s && exec"


@dataclass(frozen=True)
class Planted:
    """A training with one loss, what has to be named first, and how many milliseconds of a step it takes.

    Where that is not known beforehand, it is measured without laptime: over a link that delays, gloo goes there and
    back more than once, and a sleep on a shared disk lasts longer than it was asked to.
    """

    training: str
    first: str
    lost_ms: float | None = None
    slow_link: bool = False
    delay_ms: float | None = None  # of a link between two nodes, one way


WEIGHTS = 256 * 2048 + 2048 + 2048 * 10 + 10
PLANTED = {
    "a rank slowed by 20 %": Planted("slow_rank", "straggler", 0.2 * 20),
    "loaders that share a disk": Planted("shared_disk", "loader"),
    # Each of two ranks sends all gradients once, over one queue of the kernel.
    **{f"nodes whose link takes {delay} ms": Planted("few_weights", "exchange", delay_ms=delay) for delay in DELAYS_MS},
    "a link of 200 Mbit/s": Planted("many_weights", "exchange", 2 * 4 * WEIGHTS * 8 / RATE_BITS * 1e3, slow_link=True),
}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--rounds", type=int, default=5, help="of bare, and repeats of each planted loss")
    parser.add_argument("--planted", choices=PLANTED, action="append", help="only these losses")
    given = parser.parse_args()
    chosen = given.only or PARTS
    planted = {name: each for name, each in PLANTED.items() if name in (given.planted or PLANTED)}
    figures: list[Figure] = []
    details: dict[str, Any] = {}
    with fresh_home() as place:
        if "bare" in chosen:
            figures += check_bare(given.rounds, details, place)
        if "planted" in chosen:
            figures += check_planted(planted, given.rounds, details)
        if "model" in chosen:
            figures += check_model(details)
    return finish("scale", figures, given.out, details=details)


def ask(command: list[str]) -> dict[str, Any]:
    """Run laptime, and return its record."""
    ended = subprocess.run([*command, *AS_JSON], capture_output=True, text=True, check=False)
    if not ended.stdout:
        raise SystemExit(f"{' '.join(command)} ended with {ended.returncode}: {ended.stderr}")
    record: dict[str, Any] = json.loads(ended.stdout)
    return record


def check_bare(rounds: int, details: dict[str, Any], place: Path) -> list[Figure]:
    """Let the script and laptime take turns, on one and on two processes of one core each."""
    lanes = {1: "torch/1xcpu/weak+threads=1", 2: "torch/2xcpu/weak+threads=1"}
    over, steps, free, ones, ours, theirs = [], [], [], [], [], []
    for _ in range(rounds):
        times, failed = take_turns(TRAININGS, f"{TRAININGS}:plain", lanes, place, TURNS)
        if failed:
            raise SystemExit(f"a heat did not finish: {failed}")
        details.setdefault("bare", []).append({f"{who} {count}": time for (who, count), time in times.items()})
        ours.append(_ratio(times, (OURS, 1), (OURS, 2)))
        theirs.append(_ratio(times, (BARE, 1), (BARE, 2)))
        over.append(ours[-1] / theirs[-1])
        steps.append(_ratio(times, (OURS, 2), (BARE, 2)))
        free.append(_ratio(times, (FREE, 2), (BARE, 2)))
        ones.append(_ratio(times, (OURS, 1), (BARE, 1)))
        told = [each[-1] for each in (theirs, ours, steps, free, ones)]
        print("efficiency {:.3f}, laptime {:.3f}; a step {:.3f} {:.3f} {:.3f}".format(*told), flush=True)
    record = ask([str(BIN / "laptime"), "race", f"{TRAININGS}:plain", *lanes.values(), "--heats", "1"])
    same = [lane["parity"]["status"] for lane in record["lanes"]]
    return [
        Figure("proofs that are not the same work", sum(each != "same" for each in same), "", most=0),
        _figure("efficiency of two processes under torchrun", theirs),
        _figure("the same in laptime", ours),
        _figure("laptime's over the script's", over, 1.03, 0.97),
        _figure("a step of two processes over the script's", steps, 1.01),
        _figure("the same, not kept to cores", free),
        _figure("a step of one process over the script's", ones, 1.01),
    ]


def _figure(name: str, starts: list[float], most: float | None = None, least: float | None = None) -> Figure:
    """Return the mean of all starts with its interval: starts differ by a tenth, laptime's and the script's."""
    found = log_mean_interval(starts, 0.05)
    return Figure(name, found.estimate, "times", found.low, found.high, most, least)


def _ratio(times: Times, one: tuple[str, int], other: tuple[str, int]) -> float:
    """Return the median, over all turns, of the one's step over the other's in the same turn."""
    return median([mine / theirs for mine, theirs in zip(times[one], times[other], strict=True)])


def check_planted(losses: dict[str, Planted], rounds: int, details: dict[str, Any]) -> list[Figure]:
    """Ask what is lost, and hold the answer against what was planted."""
    figures, right, asked = [], 0, 0
    for name, planted in losses.items():
        if planted.slow_link and not shutil.which("tc"):
            raise SystemExit("a slow link needs tc, of the package iproute2")
        errors = []
        for _ in range(rounds):
            lost_ms = _lost_ms(planted)
            found = _scaled(planted)
            (curve,) = found["answer"]["scaling"]["curves"]
            lost = curve["lost"]
            step_ms = curve["points"][-1]["step_ms"]
            share = next(each["share"]["value"] for each in lost["parts"] if each["of"] == planted.first)
            errors.append(share * step_ms / lost_ms - 1)
            told = {"first": lost["first"], "planted_ms": lost_ms, "step_ms": step_ms, "parts": lost["parts"]}
            told["profiled"] = curve["profiled"]
            right += lost["first"] == planted.first
            asked += 1
            details.setdefault(name, []).append(told)
            print(f"{name}: {found['answer']['scaling']['says']} ({errors[-1]:+.0%})", flush=True)
        figures.append(
            Figure(f"{name}: its share, off by", median(errors), "", min(errors), max(errors), most=0.2, least=-0.2)
        )
    return [Figure("planted losses that were named first, of all", right / asked, "", least=0.9), *figures]


def _lost_ms(planted: Planted) -> float:
    """Return how many milliseconds of a step the planted loss takes."""
    if planted.delay_ms is not None:
        return _bare_exchange(planted.delay_ms)
    return lost_to_disk_ms() if planted.lost_ms is None else planted.lost_ms


def _scaled(planted: Planted) -> dict[str, Any]:
    words = ["scale", f"{TRAININGS}:{planted.training}", "torch/cpu/threads=1"]
    words += ["--devices", "1,2", "--heats", "2", "--budget", "20s"]
    if planted.delay_ms is not None:
        return _ask_on_nodes(words, planted.delay_ms)
    command = [str(BIN / "laptime"), *words]
    if not planted.slow_link:
        return ask(command)
    return ask(["unshare", "-rn", "bash", "-c", f'{LINK} "$@"', "bash", *command])


def _ask_on_nodes(words: list[str], delay_ms: float) -> dict[str, Any]:
    """Run laptime under torchrun on two nodes, which are network namespaces of this machine; return its record."""
    record: dict[str, Any] = json.loads(_on_nodes(["-m", "laptime", *words, "--on", "torchrun", *AS_JSON], delay_ms))
    return record


def _bare_exchange(delay_ms: float) -> float:
    return float(_on_nodes([str(TRAININGS)], delay_ms))


def _on_nodes(words: list[str], delay_ms: float) -> str:
    """Start words under torchrun on two nodes, and return what the first one prints."""
    torchrun = [str(BIN / "torchrun"), "--nnodes", "2", "--nproc-per-node", "1", "--master-port", "29500"]
    with linked(delay_ms) as sides:
        device = f"GLOO_SOCKET_IFNAME={DEVICE}"
        commands = [
            side.wrap(
                [
                    "env",
                    device,
                    "OMP_NUM_THREADS=1",
                    *torchrun,
                    "--master-addr",
                    sides[0].address,
                    "--node-rank",
                    str(number),
                    *words,
                ]
            )
            for number, side in enumerate(sides)
        ]
        nodes = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
        ]
        (printed, said), _ = [node.communicate(timeout=600) for node in nodes]
    if not printed:
        raise SystemExit(f"torchrun {' '.join(words)} printed nothing: {said}")
    return printed


def check_model(details: dict[str, Any]) -> list[Figure]:
    """Fit on 1 and 2 processes, and hold the prediction against 4. They sleep, so two cores are enough."""
    figures = []
    for name in ("nothing", "many_weights"):
        asked = Ask(
            f"{TRAININGS}:{name}", ("torch/cpu/threads=1",), heats=3, budget_s=60.0, scale=ScaleAsk(devices=(1, 2, 4))
        )
        record = api.answer("scale", asked, prepare=_prepare_on_four)
        answer = record.answer
        assert isinstance(answer, ScaleAnswer) and answer.scaling is not None  # noqa: PT018  it has run
        held = answer.scaling.curves[0].held_out
        details[f"model: {name}"] = None if held is None else [held.predicted, held.measured]
        print(name, answer.scaling.says, held, flush=True)
        error = None if held is None else held.error
        figures.append(
            Figure(f"{name}: 4 processes, predicted over measured, less 1", error, "", most=0.15, least=-0.15)
        )
    return figures


def _prepare_on_four(asked: Ask, machine: Machine) -> ScalePrepared:
    """Plan as if there were four cores."""
    processor = replace(machine.processor, cores_usable=4, cores_visible=4)
    return prepare_scale(asked, replace(machine, processor=processor))


if __name__ == "__main__":
    raise SystemExit(main())
