"""A package outside laptime that adds a row to one of its tables, as pip would install it."""

from __future__ import annotations

import os
from pathlib import Path


def install(folder: Path, entry_points: str, **modules: str) -> dict[str, str]:
    """Write the modules and the entry points; return the environment that finds them. `a__b` is b.py in package a."""
    information = folder / "toy-0.1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text(entry_points)
    for name, text in modules.items():
        file = folder / f"{name.replace('__', '/')}.py"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))}
