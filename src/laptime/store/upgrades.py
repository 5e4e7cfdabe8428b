"""Upgrades of older records to the current schema: one function per schema, on plain JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Tree = dict[str, Any]

OF_A_PROCESS = ("status", "phases_s", "notes", "dnf", "timeline", "versions", "parameters", "items_per_step",
                "peak_memory_bytes", "device_memory_bytes")  # fmt: skip


def to_schema_2(tree: Tree) -> Tree:
    """Move the process of each heat and training into `process`, the answer into `answer`, and "class" to "steady"."""
    tree = dict(tree)
    comparisons, why = tree.pop("comparisons", []), tree.pop("why", None)
    full, infer = tree.pop("full", None), tree.pop("infer", None)
    tree["lanes"] = [_lane(lane) for lane in tree["lanes"]]
    question = tree["question"]
    if question == "full":
        tree["answer"] = {**full, "runs": [_with_process(run, run["lane"]) for run in full["runs"]]}
    elif question == "infer":
        tree["answer"] = {**infer, "lanes": [_infer_lane(lane) for lane in infer["lanes"]]}
    elif question == "why":
        tree["answer"] = {"comparisons": comparisons, "why": why}
    else:
        tree["answer"] = {"comparisons": comparisons} if question == "race" else {}
    return tree


def _lane(lane: Tree) -> Tree:
    return {**lane, "heats": [_heat(heat, lane) for heat in lane.get("heats", [])]}


def _heat(heat: Tree, lane: Tree) -> Tree:
    """Upgrade a heat. Schema 1 had versions and items only in the lane, and memory in the heat's readings."""
    heat = dict(heat)
    memory = heat.pop("readings", {})
    heat["steady"] = heat.pop("class")
    known = {"versions": lane["framework"], "items_per_step": lane.get("items_per_step")}
    known |= {name: _whole(memory[name]) for name in ("peak_memory_bytes", "device_memory_bytes") if name in memory}
    return _with_process({**known, **heat}, lane["name"])


def _infer_lane(lane: Tree) -> Tree:
    return {**lane, "heats": [_with_process(heat, heat["lane"]) for heat in lane.get("heats", [])]}


def _with_process(run: Tree, lane: str) -> Tree:
    process = {name: run[name] for name in OF_A_PROCESS if name in run}
    rest = {name: value for name, value in run.items() if name not in process and name != "lane"}
    return {"process": {"lane": lane, **process}, **rest}


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) else value


UPGRADES: tuple[Callable[[Tree], Tree], ...] = (to_schema_2,)
"""The function at index n turns schema n + 1 into schema n + 2."""
