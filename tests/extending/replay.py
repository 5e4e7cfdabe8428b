"""A past addition, taken out of a copy of the source and asked for there: what knows of it without its few places."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import laptime

HOUSE = Path(laptime.__file__).parent


def copy_without(folder: Path, places: Mapping[str, Iterable[str]]) -> Path:
    """Copy the source, and take out of some files what has these names: definitions, and rows of tables.

    A file or a folder without names is taken out whole.
    """
    copied = folder / "laptime"
    shutil.copytree(HOUSE, copied, ignore=shutil.ignore_patterns("__pycache__"))
    for place, names in places.items():
        path = copied / place
        if not names:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
            continue
        path.write_text(take_out(path.read_text(encoding="utf-8"), set(names), place), encoding="utf-8")
    return folder


def take_out(text: str, names: set[str], place: str) -> str:
    """Return a module without the definitions and imports of these names, and without the rows of one of them."""
    taken: set[str] = set()

    def has(node: ast.AST) -> bool:
        found = _names_of(node) & names
        taken.update(found)
        return bool(found)

    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.names = [each for each in node.names if not has(each)]
        elif isinstance(node, ast.Module | ast.ClassDef):
            node.body = [each for each in node.body if not has(each)]
        elif isinstance(node, ast.Tuple | ast.List):
            node.elts = [each for each in node.elts if not has(each)]
        elif isinstance(node, ast.Dict):
            kept = [pair for pair in zip(node.keys, node.values, strict=True) if pair[0] is None or not has(pair[0])]
            node.keys, node.values = [key for key, _ in kept], [value for _, value in kept]
    assert taken == names, f"{place} has no {names - taken}"
    tree.body = [each for each in tree.body if not isinstance(each, ast.ImportFrom) or each.names]
    return ast.unparse(tree)


def ask(program: str, source: Path = HOUSE.parent, given: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a program with the source, or with a copy of it, and return what it prints."""
    paths = (source, *(Path(__file__).parents[1] / room for room in ("planner", "diagnosis", "analysis")))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))} | (given or {})
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


WORKS = """
import contextlib
import importlib
import io
import json
import pkgutil

import laptime
from laptime.cli.main import group

FRAMEWORKS = {"torch", "jax", "keras"}


def printed(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        group.main([*words], prog_name="laptime", standalone_mode=False)
    return out.getvalue()


broken = []
modules = [each.name for each in pkgutil.walk_packages(laptime.__path__, "laptime.", onerror=broken.append)]
for name in modules:
    inside = name.split(".")[1:]
    if name.endswith(("__main__", "sitecustomize")) or ("backends" in inside and {*inside} & FRAMEWORKS):
        continue
    try:
        importlib.import_module(name)
    except ImportError as error:
        broken.append(f"{name}: {error}")
raced = laptime.race("cifar-cnn", ["fake/cpu", "fake/cpu/best"], heats=1, budget="1s")
print(json.dumps({
    "modules": [len(modules) > 250, broken],
    "help": ["race" in printed("--help"), "race" in printed("help", "all")],
    "race": [raced.status, [lane.status for lane in raced.lanes]],
    "page": [raced.id in printed("list"), len(printed("show", raced.id)) > 200],
    "report": "<svg" in raced.to_html(),
    "plan": laptime.plan("cifar-cnn", ["fake/cpu"]).lanes,
}))
"""


def check_all_else_works(source: Path, home: Path) -> None:
    """Import every module of a copy, run a race of the fake back end there, list, show and report it."""
    given = {f"LAPTIME_{name}": str(home / name.lower()) for name in ("HOME", "CACHE")}
    assert ask(WORKS, source, given | {"LAPTIME_FAKE": "1"}) == {
        "modules": [True, []],
        "help": [True, True],
        "race": ["finished", ["ok", "ok"]],
        "page": [True, True],
        "report": True,
        "plan": ["fake/cpu/as-written"],
    }


def files_naming(*words: str) -> set[str]:
    """Return the files of the source in which one of these words is."""
    texts = {path.relative_to(HOUSE).as_posix(): path.read_text(encoding="utf-8") for path in HOUSE.rglob("*.py")}
    return {place for place, text in texts.items() if any(word in text for word in words)}


def _names_of(node: ast.AST) -> set[str]:
    """Return the names of a definition, an import, a row (its first argument, or `name=`), or of a text alone."""
    if isinstance(node, ast.alias):
        return {node.name}
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {each.id for each in node.targets if isinstance(each, ast.Name)}
    if isinstance(node, ast.AnnAssign):
        return {ast.unparse(node.target)}
    if isinstance(node, ast.Call) and (named := [each.value for each in node.keywords if each.arg == "name"]):
        return _names_of(named[0])
    if isinstance(node, ast.Call) and node.args:
        return _names_of(node.args[0])
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return {node.value}
    return {ast.unparse(node)} if isinstance(node, ast.Attribute | ast.Name) else set()
