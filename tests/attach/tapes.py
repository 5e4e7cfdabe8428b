"""What the agents in real programs have sent, on tape: heard once by `record`, and read again without the programs.

    python tests/attach/tapes.py [NAME ...]    # runs these programs or all, and writes their tapes again

Run it when the agent sends something else, or when another release of a framework is to be on the tapes.
"""

from __future__ import annotations

import base64
import gzip
import json
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from corpus import SCRIPTS

from laptime.attach import kinds
from laptime.attach.listener import Mailbox
from laptime.engine.run.command import Listener, watched_environment
from laptime.model.script import TrainingLoop
from laptime.questions.watch.run import Visitors

PLACE = Path(__file__).parents[1] / "recordings" / "programs.json.gz"
SHOWN = {"folder": "/home/user/train", "python": "/usr/bin/python3"}  # in place of the paths of who has recorded
# Each program with what runs it, and the engine of Keras.
PROGRAMS = {
    "Accelerate": "torch",
    "Hugging Face Trainer": "torch",
    "Lightning": "torch",
    "Keras": "torch",
    "Keras fits several times": "torch",
    "Keras with validation": "tensorflow",
    "Keras with a train_step": "jax",
    "torchrun": "torch",
    "workers by spawn": "torch",
}


class Track:
    """One connection of an agent: it keeps what comes, as the agent has sent it."""

    def __init__(self, hide: Mapping[str, str]) -> None:
        self._hide, self.data = hide, bytearray()

    def take_facts(self, facts: dict[str, Any]) -> None:
        text = json.dumps(facts)
        for path, shown in self._hide.items():
            text = text.replace(path, shown)
        self._keep(kinds.FACTS, text.encode())

    def take_events(self, body: bytes) -> None:
        self._keep(kinds.EVENTS, body)

    def _keep(self, kind: bytes, body: bytes) -> None:
        self.data += struct.pack(kinds.MESSAGE_HEAD, kind, len(body)) + body


class Tape:
    """Takes the place of what reads the messages of agents."""

    def __init__(self, hide: Mapping[str, str]) -> None:
        self._hide = hide
        self.tracks: list[Track] = []

    def reader_of(self, _hello: Mapping[str, Any]) -> Track:
        self.tracks.append(Track(self._hide))
        return self.tracks[-1]


def record(name: str) -> list[str]:
    """Run a program, and return what each connection of its agents sent."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "train.py"
        script.write_text(SCRIPTS[name].source, encoding="utf-8")
        tape = Tape({folder: SHOWN["folder"], sys.executable: SHOWN["python"]})
        ranks = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"] * (name == "torchrun")
        with Listener(tape) as listener:
            listener.begin()
            environment = {**watched_environment(listener.address), "KERAS_BACKEND": PROGRAMS[name]}
            subprocess.run([sys.executable, *ranks, str(script)], env=environment, check=True)
    return [base64.b64encode(each.data).decode() for each in tape.tracks]


def play(tracks: list[str]) -> dict[str, Any]:
    """Return what `laptime watch` saves of the processes that are on a tape."""
    visitors = Visitors()
    for track in tracks:
        assert Mailbox(visitors).take(base64.b64decode(track))
    seen = [reader.process() for reader in visitors.readers.values()]
    trained = sorted((each for each in seen if isinstance(each.loop, TrainingLoop)), key=lambda each: each.rank or 0)
    return {"processes": msgspec.to_builtins(trained), "others": len(seen) - len(trained)}


def read_tapes() -> dict[str, dict[str, Any]]:
    tapes = json.loads(gzip.decompress(PLACE.read_bytes()))
    return {name: play(tracks) for name, tracks in tapes.items()}


if __name__ == "__main__":
    made = json.loads(gzip.decompress(PLACE.read_bytes())) if PLACE.exists() else {}
    made |= {name: record(name) for name in sys.argv[1:] or PROGRAMS}
    PLACE.write_bytes(gzip.compress(json.dumps(made).encode(), mtime=0))
