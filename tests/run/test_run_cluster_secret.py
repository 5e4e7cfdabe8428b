"""All nodes of a torchrun know the same secret, which is in a variable or in a file that only this user can read."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from laptime.engine.run.node import GIVEN_TO_ALL, take_cluster_secret
from laptime.model.errors import UsageError

TAKE = "from laptime.engine.run.node import take_cluster_secret; print(take_cluster_secret())"


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Return where the file is."""
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path))
    monkeypatch.delenv(GIVEN_TO_ALL, raising=False)
    return tmp_path / "laptime" / "cluster-secret"


def test_the_first_node_makes_the_secret_and_the_others_read_it(kept):
    secret = take_cluster_secret()
    assert (len(secret), kept.stat().st_mode & 0o777) == (64, 0o600)
    assert take_cluster_secret() == secret


def test_nodes_that_start_at_once_have_the_same(kept):
    env = os.environ | {"LAPTIME_CACHE": str(kept.parent.parent)}
    started = [
        subprocess.Popen([sys.executable, "-c", TAKE], stdout=subprocess.PIPE, text=True, env=env) for _ in range(4)
    ]
    assert {each.communicate(timeout=30)[0] for each in started} == {take_cluster_secret() + "\n"}
    assert [each.name for each in kept.parent.iterdir()] == [kept.name]


def test_a_given_secret_is_taken_once(kept, monkeypatch):
    """No process that starts later has it in its environment."""
    monkeypatch.setenv(GIVEN_TO_ALL, "é" * 16)
    assert take_cluster_secret() == "é" * 16
    assert GIVEN_TO_ALL not in os.environ
    assert not kept.exists()


def test_a_short_secret_is_refused(kept, monkeypatch):
    monkeypatch.setenv(GIVEN_TO_ALL, "x" * 15)
    with pytest.raises(UsageError, match=f"{GIVEN_TO_ALL} has 15 characters, and a secret has 16 or more") as refused:
        take_cluster_secret()
    assert "openssl rand -hex 32" in refused.value.hint
    assert not kept.exists()


def make_readable(path):
    path.write_text("x" * 64)
    path.chmod(0o640)


def make_link(path):
    other = path.with_name("other")
    other.write_text("x" * 64)
    other.chmod(0o600)
    path.symlink_to(other)


def make_pipe(path):
    os.mkfifo(path, 0o600)


def make_empty(path):
    path.touch(0o600)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (make_readable, "is not a file that you own and only you can read"),
        (make_link, "no secret for the nodes is in "),
        (make_pipe, "is not a file that you own and only you can read"),
        (make_empty, "has no secret of 16 or more characters"),
    ],
)
def test_a_file_that_others_could_have_made_or_read_is_refused(kept, make, says):
    kept.parent.mkdir()
    make(kept)
    with pytest.raises(UsageError, match=says) as refused:
        take_cluster_secret()
    assert GIVEN_TO_ALL in refused.value.hint


def test_a_folder_that_cannot_be_written_is_named(kept):
    kept.parent.write_text("a file")
    with pytest.raises(UsageError, match="no secret for the nodes is in "):
        take_cluster_secret()
