"""The items that a plan's lanes read from disk: found where the user says, or made on the spot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from laptime.data import describe_made, make_source, read_source
from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.dataset import DataSource
from laptime.model.plan import Plan
from laptime.model.workload import Workload
from laptime.workloads import find_workload

FROM_FILES = {"published", "fast", "only"}


def find_given(ask: Ask, workload: Workload | None) -> DataSource | None:
    """Read the folder or archive of --data, so that what is wrong with it is said before anything runs."""
    if ask.data is None:
        return None
    if workload is None:
        raise UsageError("--data: a training of your own brings its data with it", "leave --data out")
    return read_source(workload, Path(ask.data).expanduser(), ask.seed)


def supply(plan: Plan, tell: Callable[[str], None]) -> Plan:
    """Give the plan with its items at hand; none are made that no lane would read."""
    if plan.data is not None or not needs_files(plan):
        return plan
    return replace(plan, data=make_source(find_workload(plan.subject.name), plan.ask.items, tell))


def describe_supply(plan: Plan) -> str | None:
    """Say what would be read, or made, in one sentence."""
    if plan.data is not None:
        return (
            f"data: {plan.data.folder}, {plan.data.train_items:,} items to train and {plan.data.test_items:,} to test"
        )
    return describe_made(find_workload(plan.subject.name), plan.ask.items) if needs_files(plan) else None


def needs_files(plan: Plan) -> bool:
    """Tell whether any lane reads files; --items asks for made files even where arrays would do."""
    if plan.subject.file is not None or all(lane.framework == "fake" for lane in plan.lanes):
        return False
    if plan.ask.items is not None:
        return True
    return find_workload(plan.subject.name).reads_files and any(
        lane.settings.input in FROM_FILES for lane in plan.lanes
    )
