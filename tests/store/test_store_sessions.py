"""The state of a session of verdicts: what is spent is on the disk before it is used, also by what is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from laptime.model.errors import RecordError, StoreError
from laptime.questions.verdict.nouns import SESSION_ERROR, SessionState, share_of_error
from laptime.store.sessions import update_session

BEGIN = SessionState.with_verdict
NAMES = ("loop", "fix/loader", "../up", "a/../../b", "x" * 100, "цикл")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    """Return every test a home of its own."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "sessions"


def spend(state):
    return state.without_share(state.next_share)


def state_file(home):
    (path,) = home.glob("*/state")
    return path


def test_all_shares_together_are_the_error_of_a_session():
    shares = [share_of_error(number) for number in range(1, 10_000)]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(SESSION_ERROR, rel=1e-3)
    assert sum(shares) < SESSION_ERROR


def test_a_verdict_is_counted_and_a_share_that_comes_back_is_the_next_one_again():
    assert update_session("loop", BEGIN) == SessionState("loop", 1)
    assert update_session("loop", spend).spent == (1,)
    assert update_session("loop", spend).spent == (1, 2)
    assert update_session("loop", lambda state: state.with_share(1)).next_share == 1
    assert update_session("loop", BEGIN) == SessionState("loop", 2, (2,))


def test_sessions_are_apart_and_none_leaves_its_folder(home):
    for name in NAMES:
        update_session(name, BEGIN)
    for name in NAMES:
        assert update_session(name, BEGIN) == SessionState(name, 2)
    assert len([*home.glob("*/state")]) == len(NAMES)
    assert {path.name for path in home.parent.iterdir()} == {"sessions"}


def damages(whole):
    """Return contents that laptime never wrote: cut, with any bit turned, with a line more, of another form."""
    yield from (whole[:length] for length in range(0, len(whole), 3))
    yield from (whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :] for place in range(0, len(whole), 3))
    yield from (whole + b"\n", b"\n" + whole, whole * 2, b"[" * 100_000, b'{"name":"loop","verdicts":0,"spent":[]}')


def test_a_damaged_state_is_an_error_with_the_way_out_and_never_a_new_session(home):
    update_session("loop", lambda state: spend(state.with_verdict()))
    path = state_file(home)
    whole = path.read_bytes()
    for damaged in damages(whole):
        path.write_bytes(damaged)
        with pytest.raises(RecordError) as refused:
            update_session("loop", BEGIN)
        assert f"the session loop cannot go on with {path}: it is damaged" in refused.value.says
        assert "--session OTHER-NAME" in refused.value.hint
        assert path.read_bytes() == damaged
    path.write_bytes(whole)
    assert update_session("loop", BEGIN) == SessionState("loop", 2, (1,))


def test_what_is_no_file_or_of_another_session_is_refused_at_once(home):
    update_session("loop", BEGIN)
    update_session("other", spend)
    path = next(path for path in home.glob("*/state") if path.parent.name.startswith("loop"))
    other = next(each for each in home.glob("*/state") if each != path)
    path.write_bytes(other.read_bytes())
    with pytest.raises(RecordError, match="it is of the session other"):
        update_session("loop", BEGIN)
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(RecordError, match="not a regular file"):
        update_session("loop", BEGIN)
    path.unlink()
    path.mkdir()
    with pytest.raises(RecordError):
        update_session("loop", BEGIN)


def test_a_session_that_cannot_be_kept_is_said_before_anything_is_spent(home):
    home.parent.mkdir()
    home.write_text("a file")
    with pytest.raises(StoreError, match=r"the session loop cannot be kept in .*: a file is where a folder is needed"):
        update_session("loop", BEGIN)


WORKER = """
import os, signal, sys, time
from laptime.store.sessions import update_session
from laptime.questions.verdict.nouns import SessionState
what = sys.argv[1]
if what == "count":
    for _ in range(12):
        update_session("loop", lambda state: state.with_verdict().without_share(state.next_share))
def die(state):
    print("in", flush=True)
    time.sleep(60)
if what == "change":
    update_session("loop", die)
if what == "after":
    update_session("loop", lambda state: state.without_share(state.next_share))
    print("in", flush=True)
    time.sleep(60)
"""


def start(what):
    return subprocess.Popen([sys.executable, "-c", WORKER, what], stdout=subprocess.PIPE)


def test_verdicts_at_once_never_spend_the_same_share():
    for each in [start("count") for _ in range(3)]:
        with each:
            assert each.wait(timeout=60) == 0
    state = update_session("loop", BEGIN)
    assert (state.verdicts, state.spent) == (37, tuple(range(1, 37)))


@pytest.mark.parametrize(("killed", "spent"), [("change", (1,)), ("after", (1, 2))])
def test_what_was_spent_stays_spent_when_a_verdict_is_killed(home, killed, spent):
    """One that is killed before its state was written has spent nothing, and nothing waits for it."""
    update_session("loop", spend)
    with start(killed) as process:
        assert process.stdout.readline() == b"in\n"
        process.send_signal(signal.SIGKILL)
    assert update_session("loop", BEGIN) == SessionState("loop", 1, spent)
    assert {path.name for path in state_file(home).parent.iterdir()} == {"lock", "state"}


def test_what_a_killed_verdict_had_half_written_is_removed(home):
    update_session("loop", BEGIN)
    name = "sys.argv[1] + '/' + temporary_name('state')"
    code = f"import sys; from laptime.store.disk import temporary_name; open({name}, 'x')"
    subprocess.run([sys.executable, "-c", code, str(state_file(home).parent)], check=True, timeout=60)
    assert len([*Path(state_file(home).parent).iterdir()]) == 3
    update_session("loop", BEGIN)
    assert {path.name for path in state_file(home).parent.iterdir()} == {"lock", "state"}
