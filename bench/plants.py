"""Is work that the proof's steps do not show refused, or named as unproven; and is no honest training accused?

    python bench/plants.py [--out FILE.json]           every plant of plants_torch.py against its honest twin
    python bench/plants.py --honest [--most 40]        trainings of honest_torch.py, each raced in two lanes
    python bench/plants.py --lane torch/cuda           either on a card

A plant is raced as anybody would race it: `laptime race honest plant torch/cpu`. It is caught if the page says that it
does other work, or which part of it is not proven. An honest training is accused if a lane of it is said to do other
work; one that is unproven is listed with the reason.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for

HERE = Path(__file__).resolve().parent
LAPTIME = str(Path(sys.executable).parent / "laptime")
PLANTS = (
    "another_dropout_rate",
    "no_dropout",
    "another_momentum",
    "half_of_the_data",
    "smaller_batch_later",
    "every_seventh_step_skipped",
    "another_rate_later",
    "fewer_blocks_while_timed",
    "no_gradients_while_timed",
    "part_of_the_loss_while_timed",
    "every_other_step_skipped_while_timed",
)
TABLE = """
import sys
sys.path.insert(0, {here!r})
from honest_torch import TRAININGS, build
"""
FUNCTION = """
def t{}():
    return build(TRAININGS[{}])
"""


def race(*words: str) -> dict[str, Any]:
    """Run a race of a heat a lane; return its record, or why there is none."""
    command = [LAPTIME, "race", *words, "--heats", "1", "--budget", "10s", "--json", "-q"]
    ended = subprocess.run(command, check=False, capture_output=True, text=True)
    if not ended.stdout.strip():
        return {"problem": ended.stderr[-300:]}
    told: dict[str, Any] = json.loads(ended.stdout)
    return told


def words_of(same_work: Any) -> str:
    """Return True, False or the reason why it is not known, as a record has it."""
    return str(same_work["missing"]) if isinstance(same_work, dict) else str(same_work)


def judge_plants(lane: str) -> tuple[list[Figure], dict[str, Any]]:
    said: dict[str, str] = {}
    for name in ("twin", *PLANTS):
        told = race(*(f"{HERE / 'plants_torch.py'}:{each}" for each in ("honest", name)), lane)
        found = told.get("answer", {}).get("comparisons")
        said[name] = words_of(found[0]["same_work"]) if found else str(told.get("problem", "no comparison"))
        print(f"{name}: {said[name]}", flush=True)
    caught = sum(said[name] != "True" for name in PLANTS)
    return [
        Figure("plants refused or named as unproven", caught, "", least=len(PLANTS)),
        Figure("the honest twin is proven", int(said["twin"] == "True"), "", least=1),
    ], said


def judge_honest(lane: str, most: int) -> tuple[list[Figure], dict[str, Any]]:
    sys.path.insert(0, str(HERE))
    import honest_torch

    said: dict[str, str] = {}
    names = list(honest_torch.TRAININGS)[:most]
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "honest.py"
        file.write_text(TABLE.format(here=str(HERE)) + "".join(map(FUNCTION.format, count(), map(repr, names))))
        for number, name in enumerate(names):
            told = race(f"{file}:t{number}", lane, f"{lane}/best")
            found = told.get("answer", {}).get("comparisons")
            said[name] = words_of(found[0]["same_work"]) if found else f"not raced: {told.get('problem', '')}"
            print(f"{name}: {said[name]}", flush=True)
    raced = [each for each in said.values() if not each.startswith("not raced")]
    return [
        Figure("honest trainings raced in two lanes", len(raced), "", least=len(names)),
        Figure("accused of these", raced.count("False"), "", most=0),
        Figure("proven", raced.count("True"), ""),
    ], said


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--honest", action="store_true", help="race honest trainings instead")
    parser.add_argument("--most", type=int, default=40, help="of them")
    parser.add_argument("--lane", default="torch/cpu", help="where they run")
    given = parser.parse_args()
    with fresh_home():
        figures, details = judge_honest(given.lane, given.most) if given.honest else judge_plants(given.lane)
    return finish("plants", figures, given.out, details=details)


if __name__ == "__main__":
    sys.exit(main())
