"""A house of its own for each test, with its records and its cache, and the real command run in it."""

from __future__ import annotations

import atexit
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from command_server import CommandServer
from forked_heats import find_kind

NOT_INHERITED = ("LAPTIME_FAKE", "LAPTIME_HOME", "LAPTIME_CACHE", "COLUMNS", "NO_COLOR", "TERM")
EXIT_UNTRUSTED = 4
BUSY = re.compile(r"NOT RELIABLE: (\d+ of \d+ windows|while |\S+: a call of )")
LONGEST_S = 180
LONGEST_REAL_S = 400


@dataclass(frozen=True)
class Answer:
    """What a command gave back."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def _answer(code: int, out: str, err: str) -> Answer:
    """Return what a command gave back. Tests run side by side, so races of real lanes may say that others were busy.

    That is passed over, and a lane that does other work is not: either ends a command with the same exit code.
    """
    busy = '"rule": "not reliable"' in out or BUSY.match(out)
    is_pardoned = busy and '"status": "differs"' not in out
    return Answer(0 if code == EXIT_UNTRUSTED and is_pardoned else code, out, err)


def on_all_cores() -> None:
    """Let a command use all cores: the tests next to it have one each."""
    os.sched_setaffinity(0, range(os.cpu_count() or 1))


def hear_interrupts() -> None:
    """A shell lets what it starts in the background ignore Ctrl-C, nohup SIGHUP, and so would tests started so."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


SERVERS: dict[str, CommandServer] = {}


def _server(kind: str, environment: dict[str, str]) -> CommandServer:
    """Return the server that runs this process's commands whose heats are of a kind. The first command starts it."""
    if kind not in SERVERS:
        shared = {name: value for name, value in environment.items() if name != "LAPTIME_HOME"}  # it is of no one house
        SERVERS[kind] = CommandServer(kind, shared)
        atexit.register(SERVERS[kind].close)
    return SERVERS[kind]


def _starts_like_any_other(environment: dict[str, str]) -> bool:
    """Whether Python, started with this environment, would begin as the server did."""
    names = {name for name in (*environment, *os.environ) if name.startswith(("PYTHON", "LC_", "LANG", "LD_"))}
    return all(environment.get(name) == os.environ.get(name) for name in names)


class House:
    """A folder with its own records and cache; commands run in it on the shipped fake back end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.cache = folder / "cache" / "laptime"
        self.fake = "1"
        self.longest_s = LONGEST_S
        self.is_brief = False
        self._said: dict[int, str] = {}

    def script(self, text: str) -> None:
        """Let fake lanes behave as this TOML says."""
        place = self.folder / "fake.toml"
        place.write_text(text, encoding="utf-8")
        self.fake = str(place)

    def environment(self, **more: str) -> dict[str, str]:
        own = {"LAPTIME_FAKE": self.fake, "LAPTIME_HOME": str(self.home), "LAPTIME_CACHE": str(self.cache.parent)}
        if not self.fake:  # the scout, the reference and each lane of a race compile the same in JAX
            own["JAX_COMPILATION_CACHE_DIR"] = str(self.cache.parent / "xla")
            own["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
        kept = {key: value for key, value in os.environ.items() if key not in NOT_INHERITED}
        return {**kept, **own, **more}

    def start(
        self, *words: str, env: dict[str, str] | None = None, warnings: str = "error", **options: Any
    ) -> subprocess.Popen[str]:
        """Start a command, and leave it running."""
        command = [sys.executable, "-W", warnings, "-m", "laptime", *words]
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.folder, **options}
        options.setdefault("preexec_fn", hear_interrupts)
        return subprocess.Popen(command, env=self.environment(**(env or {})), text=True, **options)

    def run(
        self, *words: str, env: dict[str, str] | None = None, starts: str = "", is_wide: bool = False, **options: Any
    ) -> Answer:
        """Run a command to its end; none may ever show a traceback. A server runs all that start like any other.

        `starts` says how its heats do: "cold" as users start them, or forked, as those of a kind (`forked_heats.KINDS`)
        that the command does not name. One that `is_wide` may use all cores: the tests next to it have one each.
        """
        environment = self.environment(**(env or {}))
        if options or not _starts_like_any_other(environment):
            return self.finish(self.start(*words, env=env, **options))
        kind = starts or find_kind(words, is_fake=bool(environment["LAPTIME_FAKE"])) or "cold"
        server = _server("fake" if kind == "cold" else kind, environment)
        place = str(self.folder)
        is_brief = self.is_brief and kind != "cold"
        request = {"words": words, "environment": environment, "folder": place}
        code, out, err = server.run(
            {**request, "forks": kind != "cold", "is_wide": is_wide, "is_brief": is_brief}, self.longest_s
        )
        assert "Traceback" not in err, err
        return _answer(code, out, err)

    def done(self, *words: str, code: int = 0, **options: Any) -> Answer:
        """Run a command that has to end with this exit code."""
        answer = self.run(*words, **options)
        assert code == answer.code, answer.out + answer.err
        return answer

    def read_until(self, process: subprocess.Popen[str], words: str) -> None:
        """Read a command's stderr until these words come; not a letter further, so that `finish` has the rest."""
        assert process.stderr is not None
        said = b""
        while words.encode() not in said:
            letter = os.read(process.stderr.fileno(), 1)
            assert letter, f"'{words}' was never said, only: {said.decode()}"
            said += letter
        self._said[process.pid] = said.decode()

    def wait_for_processes(self, count: int) -> None:
        """Wait until this many processes of the house run, as when its last heat is under way."""
        deadline = time.monotonic() + 30
        while len(self.processes()) < count:
            assert time.monotonic() < deadline, f"{len(self.processes())} of {count} processes"
            time.sleep(0.02)

    def finish(self, process: subprocess.Popen[str]) -> Answer:
        """Wait for a command's end; one that does not come to an end is ended here."""
        try:
            out, err = process.communicate(timeout=self.longest_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise
        err = self._said.pop(process.pid, "") + (err or "")
        assert "Traceback" not in err, err
        return _answer(process.returncode, out or "", err)

    def race(self, *words: str, **options: Any) -> Answer:
        """Race, and print all that the record holds: most tests look for what is not on the short page."""
        return self.run("race", *words, "--details", "--quiet", **options)

    def raced(self, *words: str, **options: Any) -> Any:
        """Return the record that a race prints as JSON."""
        answer = self.race(*words, "--json", **options)
        return {"exit code": answer.code, **answer.json}

    def files(self) -> list[Path]:
        return sorted((self.home / "records").glob("*.json"))

    def kept(self) -> Any:
        """Return the one record that is on disk, without its signature."""
        (place,) = self.files()
        return {name: told for name, told in json.loads(place.read_bytes()).items() if name != "signature"}

    def processes(self) -> list[psutil.Process]:
        """Return every process that was started for this house and is still there."""
        return [each for each in psutil.process_iter() if self._is_ours(each)]

    def is_empty_within(self, seconds: float) -> bool:
        """Wait until no process of this house is left, but no longer than this."""
        deadline = time.monotonic() + seconds
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def _is_ours(self, process: psutil.Process) -> bool:
        """Whether it has this house's environment; one that was forked shows another's, and has our working folder."""
        try:
            ours = process.environ().get("LAPTIME_HOME") == str(self.home) or process.cwd() == str(self.folder)
            return ours and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


def real_house(folder: Path, cache: Path) -> House:
    """Return a house in which real trainings run."""
    house = House(folder)
    house.fake, house.cache, house.longest_s, house.is_brief = "", cache, LONGEST_REAL_S, True
    return house
