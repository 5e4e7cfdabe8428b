"""A training that reaches for all that is not its own, and reports what came of it; and an honest twin."""

import json
import multiprocessing
import os
import socket
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import laptime

WANTED = json.loads(os.environ.get("REACHES_FOR", "{}"))


def _connect(family: int, address: object) -> None:
    with socket.socket(family) as opened:
        opened.settimeout(5)
        opened.connect(address)


def _write(name: str) -> None:
    with Path(WANTED[name]).open("a") as file:
        file.write("x")


ATTEMPTS = {
    "writes the base": lambda: _write("base"),
    "cuts off the base": lambda: os.truncate(WANTED["base"], 0),
    "moves the base": lambda: Path(WANTED["base"]).rename(WANTED["base"] + "x"),
    "removes the base": lambda: Path(WANTED["base"]).unlink(),
    "another process writes the base": lambda: subprocess.run(["sh", "-c", f"echo x > '{WANTED['base']}'"], check=True),
    "writes next to the base": lambda: _write("neighbour"),
    "writes a record": lambda: _write("record"),
    "writes into the cache": lambda: _write("cached"),
    "writes into the home folder": lambda: _write("home"),
    "writes into /tmp": lambda: _write("tmp"),
    "a link to the base": lambda: os.link(WANTED["base"], Path(tempfile.gettempdir(), "linked")),
    "connects": lambda: _connect(socket.AF_INET, ("127.0.0.1", WANTED["port"])),
    "connects to an abstract socket": lambda: _connect(socket.AF_UNIX, f"\0{WANTED['abstract']}"),
    "a signal to the parent": lambda: os.kill(WANTED["parent"], 0),
    "reads the memory of the parent": lambda: Path(f"/proc/{WANTED['parent']}/environ").read_bytes(),
    "an attribute of the base": lambda: os.setxattr(WANTED["base"], "user.kept", b"x"),
    "rights of the base": lambda: Path(WANTED["base"]).chmod(0o600),
    "writes /dev/shm": lambda: _write("shm"),
}


def reaches_out() -> laptime.Training:
    """Try all of it, and end with an error that lists the numbers of what came to pass."""
    came = []
    for number, attempt in enumerate(ATTEMPTS.values()):
        try:
            attempt()
        except (OSError, subprocess.SubprocessError):
            continue
        came.append(number)
    raise RuntimeError(f"came: {came}")


def honest() -> laptime.Training:
    """Use what is its own: temporary files, shared memory, semaphores, processes and devices."""
    assert Path(tempfile.gettempdir()) == Path(os.environ["TMPDIR"])
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a").write_text("x")
        Path(folder, "a").rename(f"{folder}/b")
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(abs, [-1, -2]) == [1, 2]
    Path(os.devnull).write_text("x")
    assert Path(WANTED["base"]).read_text() == "base"
    os.kill(os.getpid(), 0)
    if WANTED.get("has network"):
        socket.create_server(("127.0.0.1", 0)).close()
    return laptime.Training(step=lambda state, _batch: (state, 1.0), state=np.ones(8), data=[np.ones(8)] * 8)
