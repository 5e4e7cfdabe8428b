"""SETTINGS is the one table of settings: each row is read, listed and named; docs/lanes.md has that table."""

from __future__ import annotations

from pathlib import Path

import pytest
from planner_machines import CPU, machine_with, plan_for

from laptime.cli.help import lanes_text
from laptime.engine.run.remote import FORWARDED
from laptime.model.frameworks import FRAMEWORKS, find_framework
from laptime.model.plan import NODE_VARIABLES
from laptime.model.process import Settings
from laptime.planner.groups import split_processor
from laptime.planner.plan import name_device, with_values
from laptime.planner.settings import (
    SETTINGS,
    find_setting,
    learn_alike,
    list_settings,
    settings_table,
)

PAGE = Path(__file__).parents[2] / "docs" / "lanes.md"
EXAMPLES = {"N": "2", "X": "0.001", "FILE:LINE": "train.py:45"}


@pytest.mark.parametrize("name", SETTINGS)
def test_every_listed_value_is_read_as_it_is_written(name):
    """What a list of settings shows can be typed, once a number takes the place of its letter."""
    row = SETTINGS[name]
    for value in row.listed:
        typed = EXAMPLES.get(value, value)
        assert find_setting(row.written(typed)) == (row, typed)
        assert row.can_be(typed)


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_listed_where_people_look(name):
    """In `laptime help lanes`, and in the hint where a setting is not known."""
    row = SETTINGS[name]
    assert row.list_values(row.listed) in list_settings()
    assert " ".join(map(row.written, row.listed)) in lanes_text()
    assert row.about
    assert row.takes or row.stands_alone


def test_the_page_of_lanes_has_the_table_that_is_made_from_the_rows():
    made = settings_table()
    found = made in PAGE.read_text(encoding="utf-8")
    assert found, f"the table in docs/lanes.md is not the one that SETTINGS makes; replace it by:\n\n{made}"


def test_a_node_sets_what_lanes_bring_and_nothing_else(monkeypatch):
    """The list of the agents is that of all settings, devices and forwarded variables."""
    monkeypatch.delenv("NPROC", raising=False)
    brought = set(FORWARDED) | set(split_processor(find_framework("jax"), (CPU, CPU), 1))
    for framework in FRAMEWORKS:
        brought |= set(name_device(framework, CPU))
    for row in SETTINGS.values():
        for value in row.listed:
            if row.read is None:
                settings = with_values(Settings(), {row.main_field: row.kind(EXAMPLES.get(value, value))})
                brought |= set(row.environment(settings, CPU))
    assert brought == NODE_VARIABLES


def test_a_row_is_in_what_a_plan_fills_in():
    """Every value of Settings but the preset and what has no word of its own is a row's."""
    filled = plan_for(machine_with(CPU), "cpu").lanes[0].settings
    unread = {name for name in filled.__dataclass_fields__ if name not in SETTINGS}
    assert unread == {"preset", "learning_rate", "joined", "extra"}


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (Settings(precision="bf16", threads=2), True),
        (Settings(batch=64), False),
        (Settings(joined=4), False),
        (Settings(learning_rate=0.1), False),
    ],
)
def test_lanes_that_are_meant_to_learn_the_same(other, alike):
    """A batch and a rate change what is learned, what computes it does not."""
    assert learn_alike(Settings(), other) is alike
