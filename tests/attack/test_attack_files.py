"""Hostile files in the place of pictures, archives, Python sources and manifests: refused in words, and nothing runs.

No file may start a program, hang, take memory without bound or end in a traceback; none outside is touched.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import hostile
import pytest
from attacking import IS_LONG

from laptime.trainings.data.made_sets import make_source
from laptime.trainings.workloads import find_workload

READING = Path(__file__).with_name("reading.py")
FLIPS = 400 if IS_LONG else 12  # of each kind of sound file
KINDS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF")
LONGEST_S = 900


@pytest.fixture
def trap(tmp_path):
    """Return a PATH on which every interpreter that a file could start leaves a trace."""
    bin_folder, trace = tmp_path / "bin", tmp_path / "started"
    bin_folder.mkdir()
    for name in ("gs", "gswin32c", "gswin64c", "sh", "bash", "python", "convert", "touch"):
        program = bin_folder / name
        program.write_text(f"#!/bin/sh\necho {name} >> {trace}\n")
        program.chmod(0o755)
    return {"PATH": str(bin_folder)}, trace


def ask(kind, paths, env):
    """Have a process read these files, and give what it answers to each."""
    joined = b"\0".join(os.fsencode(path) for path in paths)
    command = [sys.executable, str(READING), kind]
    done = subprocess.run(
        command, input=joined, capture_output=True, env={**os.environ, **env}, timeout=LONGEST_S, check=False
    )
    answers = done.stdout.decode("utf-8", "replace").splitlines()
    assert len(answers) == len(paths), f"{kind}: {answers} and {done.stderr.decode()[-2000:]}"
    return answers


def attack(tally, kind, places, trap):
    """Have all read, and note what failed; no program was started on the way."""
    env, trace = trap
    tally.what = "hostile files"
    for place, answer in zip(places, ask(kind, places, env), strict=True):
        tally.note(None if answer == "ok" else f"{kind} {place.name!r} in {place.parent.name!r}: {answer}")
    tally.note(f"started: {trace.read_text()}" if trace.exists() else None)
    tally.check(least=len(places))


def written(folder, rows, name):
    """Write each row's file in a folder of its own."""
    places = []
    for number, (says, write) in enumerate(rows.items()):
        place = folder / f"{number} {says}".replace("/", "-") / name
        place.parent.mkdir(parents=True)
        write(place)
        places.append(place)
    return places


def flipped(folder, sound, name):
    """Write some damaged copies of a sound file."""
    rng = random.Random(0)
    rows = {f"flipped {number}": hostile.write(hostile.flipped(sound, rng)) for number in range(FLIPS)}
    return written(folder, rows, name)


def test_no_picture_starts_a_program_hangs_or_fills_the_memory(tmp_path, tally, trap):
    places = written(tmp_path / "made", hostile.IMAGES, "picture.jpg")
    for kind in KINDS:
        places += flipped(tmp_path / kind, hostile.sound(kind), f"picture.{kind.lower()}")
    for number, name in enumerate(hostile.NAMES):
        place = tmp_path / "names" / str(number) / name
        place.parent.mkdir(parents=True)
        place.write_bytes(hostile.sound("JPEG"))
        places.append(place)
    attack(tally, "image", places, trap)


def test_no_archive_does(tmp_path, tally, trap):
    places = written(tmp_path / "made", hostile.ARCHIVES, "cifar-10-python.tar.gz")
    source = Path(make_source(find_workload("cifar-mlp"), 320, lambda _says: None).folder)
    sound = (source / "data_batch_1").read_bytes()
    packed = hostile.tar(hostile.member(hostile.INSIDE, data=sound))
    places += flipped(tmp_path / "packed", packed, "cifar-10-python.tar.gz")
    attack(tally, "archive", places, trap)
    assert not list(tmp_path.rglob("ran"))


def test_no_python_source_does(tmp_path, tally, trap):
    attack(tally, "module", written(tmp_path, hostile.SOURCES, "my.py"), trap)


def test_no_manifest_does(tmp_path, tally, trap):
    attack(tally, "manifest", written(tmp_path, hostile.MANIFESTS, "manifest.json"), trap)
