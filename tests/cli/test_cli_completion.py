"""What a shell offers after <Tab> comes from files that others may have written: nothing in it may run."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import sys
import termios
import time

import pytest

from long_cases import cases

RUNS = "v2$(touch${IFS}PWNED)"
BAD = (RUNS, "v2`touch${IFS}PWNED`", "v2;touch${IFS}PWNED", "v2\x1b]0;title\x07", "v2\nplain,v2x", "v*")
FAST = ("--heats", "1", "--budget", "5s", "--quiet")
PROMPT_S, TAB_S = 20.0, 2.0
FIRST_PROMPT = {"bash": "ready> ", "zsh": "ready> ", "fish": "# " if os.geteuid() == 0 else "> "}
# How each shell starts without its owner's settings, and what loads the completion.
SHELLS = {
    "bash": (("--norc", "--noprofile"), 'eval "$(laptime completion bash)"'),
    "zsh": (("-f",), 'autoload -U compinit; compinit -u; eval "$(laptime completion zsh)"'),
    "fish": (
        ("--no-config",),
        "function fish_prompt; echo -n 'ready> '; end; laptime completion fish | source",
    ),
}


@pytest.fixture(scope="module")
def planted(shared_house):
    """Records as another user may put them into a shared folder: labels, names of files and a workload."""
    made = shared_house.done("race", "cifar-cnn", "fake/cpu", "--label", "v1/main", "--json", *FAST).json
    folder = shared_house.home / "records"
    for number, label in enumerate(BAD):
        identity = f"r-2026-11-20-{number:04x}"
        bad = json.loads(json.dumps(made)) | {"id": identity, "ask": {**made["ask"], "label": label}}
        bad["workload"]["name"] = "a\x1b[31m\nplain\nr-x"
        (folder / f"{identity}.json").write_text(json.dumps(bad))
    (folder / "r-9$(touch${IFS}PWNED).json").write_text("{}")
    return shared_house


def offered(house, shell, *typed):
    words = " ".join(("laptime", *typed))
    asked = {"_LAPTIME_COMPLETE": f"{shell}_complete", "COMP_WORDS": words, "COMP_CWORD": str(len(typed))}
    if shell == "fish":
        asked |= {"COMP_CWORD": typed[-1]}
    return house.run(env=asked).out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("typed", [("show", "@"), ("show", "r-"), ("list", "--label", "v")])
def test_only_words_are_offered_on_which_no_shell_acts(planted, shell, typed):
    """What is good is still offered, and no escape reaches the terminal."""
    said = offered(planted, shell, *typed)
    assert {"@": "@v1/main", "r-": "r-2026-11-20-0000", "v": "v1/main"}[typed[-1]] in said
    assert not any(each in said for each in ("PWNED", "\x1b", "\x07", "*", "v2", "\nr-x"))


@pytest.mark.parametrize("shell", cases("bash", long=[each for each in SHELLS if each != "bash"]))
def test_tab_and_enter_run_nothing_of_a_label(planted, house, tmp_path, shell):
    """In a real shell at a terminal. bash put the only label onto the line, and then ran what was in it."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (house.home / "records").mkdir(parents=True)
    (place,) = [each for each in planted.files() if RUNS in each.read_text()]
    shutil.copy(place, house.home / "records")
    command = tmp_path / "laptime"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m laptime "$@"\n')
    command.chmod(0o755)
    environment = house.environment(PATH=f"{tmp_path}:{os.environ['PATH']}", PS1="ready> ", TERM="dumb")
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path)}
    options, loads = SHELLS[shell]
    pid, terminal = pty.fork()
    if not pid:
        os.chdir(tmp_path)
        os.execvpe(shell, [shell, *options, "-i"], environment)
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 40, 200, 0, 0))
        read_until(terminal, FIRST_PROMPT[shell])
        os.write(terminal, f'{loads}; echo loa""ded\n'.encode())
        read_until(terminal, "loaded")
        read_until(terminal, "ready> ")
        os.write(terminal, b"laptime show @\t")
        time.sleep(TAB_S)  # what the shell makes of a Tab has no end that could be waited for
        os.write(terminal, b"\n")
        said = read_until(terminal, "shows all records.")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.close(terminal)
        os.waitpid(pid, 0)
    assert "no record has the label ''" in " ".join(said.split())
    assert not (tmp_path / "PWNED").exists()


def read_until(terminal, words):
    """Read what a terminal shows until these words come, and not a letter further."""
    said, deadline = b"", time.monotonic() + PROMPT_S
    while words.encode() not in said:
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"{words!r} never came, only {said!r}"
        said += os.read(terminal, 1)
    return said.decode(errors="replace")


@pytest.mark.parametrize("label", [*BAD, "two words", "-x", "@x", "~x", "a'b", 'a"b', "a\\b", "a&b", "a(b)", "a{b,c}"])
@pytest.mark.parametrize("command", [("race", "cifar-cnn", "fake/cpu"), ("watch",)])
def test_a_new_label_has_an_alphabet(house, command, label):
    """That of the names of branches, on whose characters no shell acts."""
    script = ["true"] if command == ("watch",) else []
    answer = house.done(*command, f"--label={label}", *script, code=2)
    assert "--label" in answer.err
    assert "expected a letter or digit, then letters, digits or any of ._/+:,=@#%-" in " ".join(answer.err.split())
    assert house.files() == []


@pytest.mark.parametrize("label", ["main", "fix/loader", "2026-11-26", "v1.2+cu121", "größe_2", "a:b,c=d@e#f%g"])
def test_names_of_branches_are_labels(house, label):
    assert house.done("race", "cifar-cnn", "fake/cpu", "--label", label, "--dry-run").code == 0
