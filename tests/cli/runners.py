"""Runs the examples for continuous integration as their runners do, in a small git repository with two commits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "two_trainings.py").read_text(encoding="utf-8")
INPUT = re.compile(r"\$\{\{ inputs\.([\w-]+) \}\}")
OUTPUT = re.compile(r"\$\{\{ steps\.(\w+)\.outputs\.(\w+) \}\}")
EXPRESSION = "${{"
OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
BROKEN = 'import laptime\n\n\ndef training() -> laptime.Training:\n    raise RuntimeError("there is no data here")\n'


def training_of(function: str) -> str:
    """Return the example's file, one of whose trainings is called `training`."""
    return EXAMPLE.replace(f"def {function}()", "def training()")


def repository(folder: Path, base: str, head: str) -> str:
    """Make a repository with these two contents of train.py. Return the first commit."""
    git(folder, "init", "-q", "-b", "main")
    for content in (base, head):
        (folder / "train.py").write_text(content, encoding="utf-8")
        git(folder, "add", "train.py")
        git(folder, *OWN, "commit", "-qm", "a change")
    return git(folder, "rev-parse", "HEAD~1").strip()


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def action() -> dict:
    return yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Ran:
    """What a job left: its exit code, all that it printed, its outputs and its summary."""

    code: int
    said: str
    outputs: dict[str, str]
    summary: str


def run_action(folder: Path, environment: dict[str, str], *, installs: bool = True, **given: str) -> Ran:
    """Run the steps of action.yml in order, with inputs expanded as GitHub does, until one fails."""
    described = action()
    inputs = {name: str(each.get("default", "")) for name, each in described["inputs"].items()}
    inputs |= {name.replace("_", "-"): value for name, value in given.items()}
    files = {name: folder.parent / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT")}
    for each in files.values():
        each.touch()
    environment = environment | {name: str(each) for name, each in files.items()}
    environment |= {"GITHUB_ACTION_PATH": str(ROOT), "RUNNER_TEMP": str(folder.parent)}
    code, said = 0, ""
    for step in described["runs"]["steps"][0 if installs else 1 :]:
        own = {name: INPUT.sub(lambda found: inputs[found[1]], value) for name, value in step["env"].items()}
        assert not any(EXPRESSION in value for value in own.values()), own
        code, more = run_script(step["run"], folder, environment | own)
        said += more
        if code:
            break
    told = dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())
    outputs = {
        name: told.get(found[2], "")
        for name, each in described["outputs"].items()
        if (found := OUTPUT.fullmatch(each["value"]))
    }
    return Ran(code, said, outputs, files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8"))


def run_script(script: str, folder: Path, environment: dict[str, str]) -> tuple[int, str]:
    """Run the lines of a step as GitHub's `shell: bash` does."""
    place = folder.parent / "step.sh"
    place.write_text(script, encoding="utf-8")
    ran = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(place)],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr


def make_wheel(folder: Path) -> Path:
    """Return this checkout as a wheel, made without a build back end, which would have to be downloaded."""
    place = folder / "laptime-0.1.0-py3-none-any.whl"
    facts = "laptime-0.1.0.dist-info"
    with zipfile.ZipFile(place, "w") as wheel:
        for each in sorted((ROOT / "src" / "laptime").rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                wheel.write(each, str(each.relative_to(ROOT / "src")))
        wheel.writestr(f"{facts}/METADATA", "Metadata-Version: 2.1\nName: laptime\nVersion: 0.1.0\n")
        wheel.writestr(
            f"{facts}/WHEEL", "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{facts}/entry_points.txt", "[console_scripts]\nlaptime = laptime.__main__:main\n")
        wheel.writestr(f"{facts}/RECORD", "")
    return place


def make_python(folder: Path) -> Path:
    """Return the programs of a new Python that sees the packages of this one, but not its laptime."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    packages = [each for each in sys.path if each.endswith("site-packages")]
    (site / "zz_packages.pth").write_text("\n".join(packages) + "\n")
    return folder / "bin"


def programs_first(environment: dict[str, str], programs: Path) -> dict[str, str]:
    """Return an environment whose `python` and `laptime` are those of a folder."""
    left_out = ("PYTHONPATH", "LAPTIME_FAKE", "VIRTUAL_ENV")
    kept = {name: value for name, value in environment.items() if name not in left_out}
    return kept | {"PATH": os.pathsep.join([str(programs), environment["PATH"]])}
