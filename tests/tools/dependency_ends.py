"""Print constraints for pip that hold laptime's own dependencies at one end of the ranges in pyproject.toml.

    python tests/tools/dependency_ends.py lowest > lowest.txt     # each at the lowest version of its range
    python tests/tools/dependency_ends.py newest > newest.txt     # none of them, so that pip takes the newest

All else is as in constraints.txt. `make test-matrix` installs by these.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
RANGE = re.compile(r"(?P<name>[\w.-]+)>=(?P<lowest>[\d.]+),<(?P<limit>[\d.]+)")
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>\S+)")
ENDS = ("lowest", "newest")


def read_ranges(project: str) -> dict[str, str]:
    """Return the lowest version of each dependency. One without a lower and an upper bound is an error."""
    ranges: dict[str, str] = {}
    for written in tomllib.loads(project)["project"]["dependencies"]:
        found = RANGE.fullmatch(written)
        if found is None:
            raise ValueError(f"{written}: expected NAME>=LOWEST,<LIMIT")
        ranges[found["name"]] = found["lowest"]
    return ranges


def read_pins(constraints: str) -> dict[str, str]:
    """Return the version of each package that constraints.txt or requirements.lock holds."""
    return {found["name"]: found["version"] for found in map(PIN.match, constraints.splitlines()) if found}


def constrain(end: str, lowest: dict[str, str], pins: dict[str, str]) -> list[str]:
    """Return the lines for one end of the ranges."""
    own = lowest if end == "lowest" else {}
    others = {name: version for name, version in pins.items() if name not in lowest}
    return [f"{name}=={version}" for name, version in {**own, **others}.items()]


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("end", choices=ENDS)
    end = parser.parse_args(words).end
    lowest = read_ranges((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    print("\n".join(constrain(end, lowest, read_pins((ROOT / "constraints.txt").read_text(encoding="utf-8")))))


if __name__ == "__main__":
    main()
