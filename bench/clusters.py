"""How much a cluster may lose: kills at random moments of a race, and many heats on few places.

    python bench/clusters.py --out FILE.json      about a quarter of an hour; the counts can be set

**kills**: a node (all its processes), a raylet, or the command itself is killed at a random moment of a race of fake
lanes on a Ray cluster of a head and two nodes on this machine. The record has to be readable with all heats that were
said to be done, and no process of the race may be left. A killed node is started again.
**queue**: heats on three places of Ray, and jobs of submitit here: as many as were asked for, in their order.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil

from common import Figure, finish, parser_for
from laptime.model.record import Record
from laptime.store.schema import decode

KINDS = ("node", "raylet", "driver")
LANES = ("fake/cpu", "fake/cpu/best")
GONE_S = 20.0
LONGEST_S = 600.0
EARLIEST_S, LATEST_S = 0.5, 9.0  # after its start, a race of 4 rounds takes about 10 s
SETTLE_S = 6.0
MARK = "LAPTIME_BENCH"  # in the environment of all that this bench starts


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--heats", type=int, default=200, help="of all lanes on Ray")
    parser.add_argument("--jobs", type=int, default=20, help="of submitit's executor on this machine")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    details: dict[str, Any] = {"kills": []}
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.TemporaryDirectory(prefix="laptime-bench-") as folder:
        os.environ[MARK] = folder
        bench = Bench(Path(folder), random.Random(given.seed))
        try:
            figures = [*bench.queue("ray", given.heats, details), *bench.kills(given.kills, details)]
        finally:
            bench.close()
        figures += bench.queue("slurm:local", given.jobs, details)
    return finish("clusters", figures, given.out, details=details)


class Bench:
    """A Ray cluster on this machine, and a folder with the records of its races."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        from ray.cluster_utils import Cluster

        self._folder, self._chance, self._races = folder, chance, 0
        head = {"num_cpus": 1, "labels": {"machine": "head"}, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._nodes = [self._add_node() for _ in range(2)]

    def close(self) -> None:
        self._cluster.shutdown()

    def queue(self, on: str, heats: int, details: dict[str, Any]) -> list[Figure]:
        """Run as many heats, and look at their number and their order."""
        began_s = time.monotonic()
        where = ["--on", on, *(["--each", "machine"] if on == "ray" else [])]
        lanes = LANES[:1] if on == "ray" else LANES
        each = -(-heats // 2)  # two types, or two lanes
        race, home = self._race(*lanes, *where, "--heats", str(each))
        race.wait(LONGEST_S)
        took_s = time.monotonic() - began_s
        record = self._record(home)
        assert record is not None
        orders = sorted(
            result.heat.order for lane in record.lanes for result in lane.heats if result.heat.process.status == "ok"
        )
        rounds = [[result.heat.round for result in lane.heats] for lane in record.lanes]
        details[f"queue on {on}"] = {"orders": orders, "rounds": rounds, "seconds": took_s}
        print(f"{on}: {len(orders)} heats in {took_s:.0f} s", flush=True)
        in_order = sum(each == list(range(len(each))) for each in rounds)
        return [
            Figure(f"{on}: heats that finished, of {2 * each}", len(orders), "", least=2 * each, most=2 * each),
            Figure(f"{on}: lanes whose rounds are in order, of {len(rounds)}", in_order, "", least=len(rounds)),
            Figure(f"{on}: processes left", len(self._left()), "", most=0),
            Figure(f"{on}: seconds a heat", took_s / max(1, len(orders)), "s"),
        ]

    def kills(self, count: int, details: dict[str, Any]) -> list[Figure]:
        """Kill something in a race again and again, and look at what is lost and what is left."""
        lost = unreadable = left = ended = 0
        for number in range(count):
            kind, after_s = KINDS[number % len(KINDS)], self._chance.uniform(EARLIEST_S, LATEST_S)
            race, home = self._race(LANES[0], "--on", "ray", "--each", "machine", "--heats", "4")
            if number % 2:  # every second one comes when there is something to lose
                self._await_heat(race, home)
                after_s /= 2
            time.sleep(after_s)
            seen = self._finished(home)
            self._kill(kind, race)
            race.wait(LONGEST_S)
            remains = self._left()
            kept = self._finished(home)
            broken = any(self._unreadable(place) for place in home.glob("records/*.json"))
            lost += max(0, seen - kept)
            unreadable, left, ended = unreadable + broken, left + len(remains), ended + (race.returncode >= 0)
            found = {"killed": kind, "after_s": after_s, "before": seen, "kept": kept, "code": race.returncode}
            details["kills"].append({**found, "left": remains, "unreadable": broken, "said": self._said(home)})
            print(f"kill {number + 1}: {found}, left {remains}", flush=True)
            self._mend()
        return [
            Figure("heats that were saved before a kill and are lost", lost, f"of {count} kills", most=0),
            Figure("records that cannot be read", unreadable, "", most=0),
            Figure("processes left after a kill", left, "", most=0),
            Figure("races that came to an end of their own", ended, f"of {count} kills"),
        ]

    def _add_node(self) -> Any:
        return self._cluster.add_node(num_cpus=1, labels={"machine": "small"})

    def _kill(self, kind: str, race: subprocess.Popen[str]) -> None:
        if kind == "driver":
            race.kill()
            return
        raylet = psutil.Process(self._chance.choice(self._nodes).all_processes["raylet"][0].process.pid)
        below = raylet.children(recursive=True) if kind == "node" else []
        for each in (raylet, *below):
            try:
                each.kill()
            except psutil.NoSuchProcess:
                continue

    def _await_heat(self, race: subprocess.Popen[str], home: Path) -> None:
        while race.poll() is None and not self._finished(home):
            time.sleep(0.1)

    def _mend(self) -> None:
        """Replace a node that was killed."""
        for place, node in enumerate(self._nodes):
            if node.all_processes["raylet"][0].process.poll() is not None:
                self._cluster.remove_node(node, allow_graceful=False)
                self._nodes[place] = self._add_node()
                time.sleep(SETTLE_S)  # until Ray knows that the other is gone

    def _race(self, *words: str) -> tuple[subprocess.Popen[str], Path]:
        """Start a race with a home of its own."""
        self._races += 1
        home = self._folder / str(self._races)
        home.mkdir()
        own = {"LAPTIME_FAKE": "1", "LAPTIME_HOME": str(home), "RAY_ADDRESS": self._cluster.address or ""}
        own["LAPTIME_CACHE"] = str(self._folder / "cache")
        command = [sys.executable, "-W", "ignore", "-m", "laptime", "race", "cifar-cnn", *words, "--budget", "1h"]
        with (home / "said").open("w") as said:
            return subprocess.Popen(command, stdout=said, stderr=said, text=True, env={**os.environ, **own}), home

    def _said(self, home: Path) -> str:
        lines = (home / "said").read_text(encoding="utf-8").strip().splitlines()
        return lines[-1] if lines else ""

    def _record(self, home: Path) -> Record | None:
        return next((decode(place.read_bytes(), place.name) for place in home.glob("records/*.json")), None)

    def _finished(self, home: Path) -> int:
        record = self._record(home)
        lanes = () if record is None else record.lanes
        return sum(result.heat.process.status == "ok" for lane in lanes for result in lane.heats)

    def _unreadable(self, place: Path) -> bool:
        try:
            json.loads(place.read_bytes())
            decode(place.read_bytes(), place.name)
        except Exception:  # noqa: BLE001  any error is one
            return True
        return False

    def _left(self) -> list[str]:
        """Return the processes of a race that are there some seconds after its end: its heats, guardians and agents."""
        deadline = time.monotonic() + GONE_S
        while (found := _processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found


def _processes() -> list[str]:
    """Return the command lines of this bench's agents, guardians and heats: each runs a module of laptime."""
    found = []
    for each in psutil.process_iter(["cmdline", "status", "environ"]):
        if (each.info["environ"] or {}).get(MARK) != os.environ[MARK]:
            continue
        words = each.info["cmdline"] or []
        mine = any(
            word.startswith(("laptime.engine.run", "laptime.engine.heat")) or "guardian" in word for word in words
        )
        if mine and each.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(" ".join(words)[:200])
    return found


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    raise SystemExit(main())
