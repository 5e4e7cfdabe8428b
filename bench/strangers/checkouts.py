"""Gets published scripts at their commits, makes copies with edits, and makes the files that they read."""

from __future__ import annotations

import os
import pickle
import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

from strangers.counter import CODE
from strangers.nouns import Edit, Script
from strangers.scripts import COMMITS

STAND_INS = Path(__file__).parent / "stand_ins"
PACKAGES = (  # what scripts import; laptime needs none of it
    "gymnasium", "farama-notifications", "tyro", "docstring-parser", "typeguard", "matplotlib", "contourpy", "cycler",
    "fonttools", "kiwisolver", "pyparsing", "tensorboard",
)  # fmt: skip
WORDS = 2_000
NODES, FEATURES, CITES = 2_000, 300, 5_000


class CheckoutError(RuntimeError):
    """A repository, a commit or a place of an edit is not there."""


class Checkouts:
    """A folder in which each copy of a script has a place of its own."""

    def __init__(self, work: Path, sources: Path | None) -> None:
        self.work = work
        self.sources = sources
        self.libraries = work / "site-packages"  # laptime takes what is in here for a library's
        work.mkdir(parents=True, exist_ok=True)

    def prepare_libraries(self) -> None:
        """Install packages, stand-ins and the counter."""
        if not (self.libraries / "gymnasium").exists():
            command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(self.libraries)]
            subprocess.run([*command, *PACKAGES], check=True)
        for each in STAND_INS.iterdir():
            shutil.copytree(each, self.libraries / each.name, dirs_exist_ok=True)
        (self.libraries / "sitecustomize.py").write_text(CODE, encoding="utf-8")

    def copy(self, script: Script, name: str, edits: tuple[Edit, ...]) -> Path:
        """Return the folder of a fresh copy of a script, edited, with the files that it reads."""
        place = self.work / "copies" / name.replace("/", "-").replace(" ", "-")
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(self._checkout(script), place)
        for edit in (*script.edits, *edits):
            make_edit(place / (edit.file or script.file), edit)
        for made in script.makes:
            make(place, *made.split(" "))
        for words in (["init", "-q"], ["add", "--all"]):  # `laptime apply` changes what git tracks
            subprocess.run(["git", *words], cwd=place, check=True)
        return place

    def _checkout(self, script: Script) -> Path:
        """Return the Python files of a script's folder at its commit."""
        place = self.work / "checkouts" / script.repository.replace("/", "+") / script.folder
        if (place / script.file).exists():
            return place
        git, commit = ["git", f"--git-dir={self._repository(script)}"], COMMITS[script.repository]
        within = [] if script.folder == "." else [script.folder]
        listed = subprocess.run(
            [*git, "ls-tree", "-rz", "--name-only", commit, "--", *within], capture_output=True, text=True, check=True
        )
        for name in listed.stdout.split("\0"):
            if name.endswith(".py"):
                file = self.work / "checkouts" / script.repository.replace("/", "+") / name
                file.parent.mkdir(parents=True, exist_ok=True)
                shown = subprocess.run([*git, "show", f"{commit}:{name}"], capture_output=True, check=True)
                file.write_bytes(shown.stdout)
        if not (place / script.file).exists():
            raise CheckoutError(f"{script.repository} has no {script.folder}/{script.file} at {commit}")
        return place

    def _repository(self, script: Script) -> Path:
        owner, name = script.repository.split("/")
        if self.sources is None:
            place = self.work / "clones" / f"{owner}+{name}"
            if not place.exists():
                address = f"https://github.com/{script.repository}"
                subprocess.run(["git", "clone", "--quiet", "--bare", address, str(place)], check=True)
            return place
        names = (f"{owner}+{name}", f"{owner}/{name}", f"{owner}/{name}.git")
        places = [self.sources / each / inner for each in names for inner in ("repo", ".git", ".")]
        found = next((place for place in places if (place / "HEAD").exists()), None)
        if found is None:
            raise CheckoutError(f"{self.sources} has no clone of {script.repository}, such as {names[0]}")
        return found


def make_edit(file: Path, edit: Edit) -> None:
    text = file.read_bytes().decode().replace("\r\n", "\n")
    if text.count(edit.old) != 1:
        raise CheckoutError(f"{file.name} has {text.count(edit.old)} places of the edit's text, not one: {edit.old!r}")
    file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")


def make(place: Path, kind: str, name: str = "", number: str = "0") -> None:
    """Make a file or folder of made data that a script reads."""
    target = place / name
    target.parent.mkdir(parents=True, exist_ok=True)
    source = random.Random(name)
    if kind == "folder":
        target.mkdir()
    elif kind == "text":
        words = [f"w{source.randrange(WORDS)}{'.' * (word % 20 == 19)}" for word in range(int(number))]
        lines = [" ".join(words[at : at + 25]) for at in range(0, len(words), 25)]
        target.write_text("O God, O God!\n" + "\n".join(lines) + "\n", encoding="utf-8")
    elif kind == "names":
        letters = "abcdefghijklmnopqrstuvwxyz"
        names = ("".join(source.choices(letters, k=source.randint(3, 10))) for _ in range(6_000))
        target.write_text("\n".join(names) + "\n", encoding="utf-8")
    elif kind == "numbers":
        target.mkdir(exist_ok=True)
        for part in ("train", "val"):
            numbers = [source.randrange(256) for _ in range(60_000)]
            (target / f"{part}.bin").write_bytes(struct.pack(f"<{len(numbers)}H", *numbers))
        (target / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 256}))
    elif kind == "sines":
        code = "import numpy, sys, torch; a = numpy.arange(80) + numpy.random.default_rng(0).integers(-80, 80, (40, 1))"
        subprocess.run([sys.executable, "-c", f"{code}; torch.save(numpy.sin(a / 20.0), sys.argv[1])", str(target)],
                       check=True)  # fmt: skip
    elif kind == "images":
        target.mkdir(exist_ok=True)
        made = np.random.default_rng(0)
        for image in range(int(number)):
            coarse = made.integers(0, 256, (24, 24, 3), dtype=np.uint8)
            Image.fromarray(coarse).resize((481, 321), Image.BICUBIC).save(target / f"{image}.jpg")
    elif kind == "cora":
        make_cora(place / "cora", source)


def make_cora(folder: Path, source: random.Random) -> None:
    """Make a graph of papers in the files of Cora: each has an id, words that it contains, and a class."""
    folder.mkdir()
    with (folder / "cora.content").open("w", encoding="utf-8") as file:
        for node in range(NODES):
            words = (str(int(source.random() < 0.02)) for _ in range(FEATURES - 1))
            file.write("\t".join((str(node), "1", *words, f"class{node % 7}")) + "\n")
    cites = (f"{source.randrange(NODES)}\t{source.randrange(NODES)}" for _ in range(CITES))
    (folder / "cora.cites").write_text("\n".join(dict.fromkeys(cites)) + "\n", encoding="utf-8")


def environment_of(checkouts: Checkouts, script: Script, folder: Path, items: tuple[int, int]) -> dict[str, str]:
    """Return the variables that a script runs with."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(checkouts.libraries), str(folder))),
        "STAND_IN_ITEMS": ",".join(map(str, items)),
        "STRANGERS_SCRIPT": Path(script.file).name,
        "MPLBACKEND": "agg",
        "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1",  # older scripts load arrays of NumPy
        "COLUMNS": "100",
    }
