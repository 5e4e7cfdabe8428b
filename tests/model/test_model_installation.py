"""Hints name the command that installs from where laptime itself came."""

from __future__ import annotations

import pytest

from laptime.model.frameworks import command_for, install_command, upgrade_command

FOLDER = "file:///home/me/my%20laptime"


@pytest.mark.parametrize(
    ("origin", "command"),
    [
        ({}, "pip install 'laptime[torch]'"),
        ({"url": FOLDER, "dir_info": {"editable": True}}, "pip install -e '/home/me/my laptime[torch]'"),
        ({"url": "file:///src/laptime", "dir_info": {}}, "pip install '/src/laptime[torch]'"),
        (
            {"url": "https://git.example/laptime.git", "vcs_info": {"vcs": "git", "commit_id": "1"}},
            "pip install 'laptime[torch] @ git+https://git.example/laptime.git'",
        ),
        ({"url": "file:///wheels/laptime-1.whl", "archive_info": {}}, "pip install 'laptime[torch]'"),
    ],
)
def test_an_extra_comes_from_where_laptime_came(origin, command):
    assert command_for(origin, ("torch",)) == command


def test_several_extras_are_one_command():
    assert command_for({}, ("keras", "jax")) == "pip install 'laptime[keras,jax]'"


def test_this_laptime_knows_where_it_came_from():
    assert install_command("torch").startswith("pip install ")
    assert "[torch]" in install_command("torch")
    assert upgrade_command()
