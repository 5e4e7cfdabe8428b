"""Is a state of a training that costs time found and named: in a race, by why, and in a script that is watched?

    python bench/states.py [--out FILE.json] [--what slows]

Four trainings of states_torch.py: one is five times as slow from its 12th step on, one learns its four batches by
heart, one reads sequences that grow, and one trains on the made data of before, which are learned to nothing. The race
of the first one is against itself with half the threads: its factor has to be that of equal steps. Its record has the
steps' times, so both factors, of the steps before the 12th and from it on, are computed from these.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from math import exp, log
from pathlib import Path
from statistics import fmean
from typing import Any

from common import Figure, finish, fresh_home, parser_for

FILE = Path(__file__).resolve().parent / "states_torch.py"
LAPTIME = str(Path(sys.executable).parent / "laptime")
RULES = ("steps that become slow", "denormal numbers")
SLOW_FROM = 12
RACES = {
    "slows": ("torch/cpu", "torch/cpu+threads=1"),
    "memorised": ("torch/cpu", "torch/cpu+denormals=flush"),
    "curriculum": ("torch/cpu", "torch/cpu+threads=1"),
    "old_data": ("torch/cpu", "torch/cpu/best"),
}
Record = dict[str, Any]


def ask(*words: str) -> Record:
    with tempfile.TemporaryDirectory() as place:
        kept = Path(place) / "record.json"
        command = [LAPTIME, *words] if "watch" in words else [LAPTIME, *words, "--json", "-q"]
        if "watch" in words:
            command[2:2] = ["--json", str(kept)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
        told = kept.read_text() if kept.exists() else ended.stdout
        if not told.strip():
            print(ended.stderr[-500:])
            return {"findings": [], "problem": ended.stderr[-500:]}
    found: Record = json.loads(told)
    return found


def findings_of(record: Record) -> list[str]:
    return [each["says"] for each in record["findings"] if each["rule"] in RULES]


def factors_by_step(record: Record) -> dict[str, float]:
    """Return the ratio of the two lanes' step times, of the steps before the slow ones and of the slow ones."""
    sides: dict[str, list[float]] = {"before": [], "from it on": []}
    one, other = ([_by_step(result["heat"]) for result in lane["heats"]] for lane in record["lanes"][:2])
    for mine, theirs in zip(one, other, strict=False):
        for step in mine.keys() & theirs.keys():
            sides["before" if step < SLOW_FROM else "from it on"].append(log(mine[step] / theirs[step]))
    return {side: exp(fmean(told)) for side, told in sides.items() if told}


def _by_step(heat: Record) -> dict[int, int]:
    return {
        window["first_step"] + place: ns for window in heat["windows"] for place, ns in enumerate(window["step_ns"])
    }


def race(name: str) -> tuple[list[Figure], Record]:
    record = ask("race", f"{FILE}:{name}", *RACES[name])
    compared = (record.get("answer") or {}).get("comparisons") or [None]
    said = findings_of(record)
    details: Record = {"comparison": compared[0], "findings": said}
    figures = [Figure(f"{name}: named by a race", len(said), "findings", least=1)]
    if compared[0] is not None:
        figures.append(
            Figure(f"{name}: factor", compared[0]["ratio"], "times", compared[0]["low"], compared[0]["high"])
        )
    if name == "slows" and compared[0] is not None:
        details["by step"] = factors_by_step(record)
        for side, factor in details["by step"].items():
            figures.append(Figure(f"{name}: factor of the steps {side}", factor, "times"))
        figures.append(
            Figure(f"{name}: the finding names step 12", int(any("from step 12 on" in each for each in said)), least=1)
        )
    return figures, details


def why(name: str) -> tuple[list[Figure], Record]:
    record = ask("why", f"{FILE}:{name}", "torch/cpu")
    told = (record.get("answer") or {}).get("why") or {"says": "", "first": [], "causes": []}
    said = findings_of(record)
    figures = [Figure(f"{name}: named by why", len(said), "findings", least=1)]
    if name in {"memorised", "old_data"}:
        first = next((each for each in told["causes"] if told["first"] and each["cause"] == told["first"][0]), {})
        is_it = first.get("evidence", {}).get("oddity") == "denormal numbers" and first.get("standing") == "proven"
        figures.append(Figure(f"{name}: why names denormals first, proven (Intel)", int(is_it), least=1))
    return figures, {"says": told["says"], "findings": said}


def watch(name: str) -> tuple[list[Figure], Record]:
    record = ask("watch", "--", sys.executable, str(FILE), name)
    said = findings_of(record)
    return [Figure(f"{name}: named by watch", len(said), "findings", least=1)], {"findings": said}


ASKED: Sequence[tuple[str, Callable[[str], tuple[list[Figure], Record]]]] = (
    ("race", race),
    ("why", why),
    ("watch", watch),
)


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--what", action="append", choices=RACES, help="only these trainings")
    given = parser.parse_args()
    figures: list[Figure] = []
    details: Record = {}
    with fresh_home():
        for name in given.what or RACES:
            details[name] = {}
            for question, answer in ASKED:
                more, details[name][question] = answer(name)
                figures += more
                print(name, question, json.dumps(details[name][question])[:400], flush=True)
    return finish("states", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
