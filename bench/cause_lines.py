"""Whether `laptime watch` names the line that slows a script down, or makes its memory grow.

    python bench/cause_lines.py                       all of them: some ten minutes
    python bench/cause_lines.py --only slow_transform

Each script of bench/line_scripts/ has one cause planted in it, in the line that ends with `# the cause`; those that are
named `nothing` have none. Scripts of Keras run on two of its engines. A script is run under `laptime watch` as a user
would run it. `CAUSES` says which rule has to find the cause; the line that the finding names is compared with the
marked one. That the cause is the first sentence is counted apart: on a busy machine another part may take more of the
time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from common import Figure, finish, fresh_home, parser_for

SCRIPTS = Path(__file__).parent / "line_scripts"
LAPTIME = str(Path(sys.executable).parent / "laptime")
MARK = "# the cause"
LIMIT_S = 600
ENGINES = ("torch", "tensorflow")  # of Keras
# The script (and the engine of Keras), and the rule that has to name its line.
CAUSES = {
    "slow_transform": "script waits for data",
    "slow_transform_in_workers": "script waits for data",
    "slow_collate": "script waits for data",
    "slow_decoder": "script waits for data",
    "item_each_step": "script outside the step",
    "print_each_step": "script without gradients",
    "blocking_logger": "script outside the step",
    "log_to_disk": "script outside the step",
    "logger_without_loader": "script waits in a line",
    "batch_from_afar": "script waits in a line",
    "validation_in_loop": "script without gradients",
    "evaluation_mode_in_loop": "script without gradients",
    "validation_between": "script between iterations",
    "float64_by_default": "script in float64",
    "float64_model": "script in float64",
    "float64_weights": "script in float64",
    "losses_kept": "script memory grows",
    "outputs_kept": "script memory grows",
    "running_total_kept": "script memory grows",
    "saves_each_step": "script saves in its steps",
    "nothing": None,
    **{f"keras_slow_dataset {engine}": "script waits for data" for engine in ENGINES},
    **{f"keras_slow_generator {engine}": "script waits for data" for engine in ENGINES},
    **{f"keras_callback_logs {engine}": "script outside the step" for engine in ENGINES},
    **{f"keras_callback_predicts {engine}": "script outside the step" for engine in ENGINES},
    **{f"keras_nothing {engine}": None for engine in ENGINES},
    "manual_slow_transform": "script waits for data",
    "manual_losses_kept": "script memory grows",
    "manual_nothing": None,
    "nothing_without_loader": None,
}


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", action="append", choices=sorted(CAUSES), metavar="NAME")
    given = parser.parse_args()
    rows = []
    for name in given.only or CAUSES:
        rows.append(watch(name))
        print(json.dumps(rows[-1]), flush=True)
    planted = [row for row in rows if row["rule"] is not None]
    figures = [
        Figure("planted causes that were found", sum(row["is_found"] for row in planted), "", least=len(planted)),
        Figure("lines named right", sum(row["is_line_right"] for row in planted), "", least=len(planted)),
        Figure("lines named wrong", sum(row["is_line_wrong"] for row in planted), "", most=0),
        Figure("causes in the first sentence", sum(row["is_first"] for row in planted), ""),
        Figure(
            "findings where nothing is wrong", sum(len(row["found"]) for row in rows if not row["rule"]), "", most=0
        ),
    ]
    return finish("cause_lines", figures, given.out, details={"scripts": rows})


def watch(name: str) -> dict[str, Any]:
    """Run one script watched, and hold what was found against what was planted."""
    script, _, engine = name.partition(" ")
    file = SCRIPTS / f"{script}.py"
    lines = [at for at, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1) if line.endswith(MARK)]
    with fresh_home() as home:
        place = home / "record.json"
        command = [LAPTIME, "watch", "--json", str(place), "--", sys.executable, str(file)]
        environment = {**os.environ, **({"KERAS_BACKEND": engine} if engine else {})}
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, check=False, cwd=SCRIPTS, env=environment
        )
        if ended.returncode or not place.exists():
            raise RuntimeError(f"{name} ended with {ended.returncode}: {ended.stderr[-2000:]}")
        record = json.loads(place.read_bytes())
    found = [each for each in record["findings"] if each["rule"] != "not reliable"]
    rule = CAUSES[name]
    of_rule = next((each for each in found if each["rule"] == rule), None)
    where = of_rule["where"] if of_rule else None
    expected = f"{file.name}:{lines[0]}" if lines else None
    (process,) = record["answer"]["processes"]
    return {
        "name": name,
        "rule": rule,
        "expected": expected,
        "where": where,
        "is_found": of_rule is not None,
        "is_line_right": where == expected and where is not None,
        "is_line_wrong": where is not None and where != expected,
        "is_first": bool(found) and found[0]["rule"] == rule,
        "says": of_rule["says"] if of_rule else None,
        "found": [each["rule"] for each in found],
        "first": found[0]["says"] if found else None,
        "iterations": process["loop"]["iterations"],
        "failed": process["failed"],
        "reliable": len(found) == len(record["findings"]),
    }


if __name__ == "__main__":
    sys.exit(main())
