"""A framework that two distributions brought: which files are imported, and the way out; none is imported for it."""

from __future__ import annotations

import os
import shutil
from importlib.util import find_spec

import pytest

pytestmark = [
    pytest.mark.skipif(find_spec("keras") is None, reason="without Keras, nobody looks for its engines"),
    pytest.mark.long,
]


def install(folder, name, version, module, *, size=None, record=True):
    """Install a distribution of one file; a later one writes over it. `size` is what it says that its file has."""
    home = folder / module
    home.mkdir(parents=True, exist_ok=True)
    text = f"# {name} {version}\nraise ImportError('nobody asked for it')\n"
    (home / "__init__.py").write_text(text, encoding="utf-8")
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    if record:
        told = len(text) if size is None else size
        (info / "RECORD").write_text(f"{module}/__init__.py,sha256=x,{told}\n{info.name}/RECORD,,\n", encoding="utf-8")
    return text


def searched(*folders):
    """Put these before all else that is searched for modules."""
    return {"PYTHONPATH": os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])}


def notes_of(house, framework, *folders):
    """Return what is said of each framework on this path, where one is asked; to ask all takes half a minute."""
    rows = house.done("devices", "--framework", framework, "--json", env=searched(*folders)).json
    return {row["framework"]: row["notes"] for row in rows}


@pytest.fixture
def path(tmp_path):
    return [tmp_path / "first", tmp_path / "second"]


def test_a_folder_in_front_hides_another(house, path):
    """Whichever comes first on the path is imported."""
    install(path[0], "jax", "0.9.1", "jax")
    install(path[1], "jax", "0.8.0", "jax", record=False)
    (note,) = notes_of(house, "keras-jax", *path)["keras-jax"]
    assert note.startswith("jax is installed ")
    assert f"jax 0.9.1 in {path[0]} is imported" in note
    assert f"jax 0.8.0 in {path[1]} is not" in note
    assert "(pip uninstall jax, and install the one that is meant, or take the other's folder off PYTHONPATH)" in note


@pytest.mark.long
def test_two_in_one_folder_have_written_over_each_other(house, path):
    """The sizes that each came with tell whose files are left."""
    install(path[0], "tensorflow", "2.20.0", "tensorflow", size=10)
    install(path[0], "tensorflow-cpu", "2.21.0", "tensorflow")
    said = " ".join(house.done("devices", "--framework", "keras-tf", env=searched(path[0])).out.split())
    assert said.count("tensorflow is installed") == 1
    assert f"tensorflow 2.20.0 and tensorflow-cpu 2.21.0 have written over each other in {path[0]}, and most" in said
    assert "most files are those of tensorflow-cpu 2.21.0" in said
    assert "(pip uninstall tensorflow tensorflow-cpu, and install the one that is meant" in said


@pytest.mark.long
def test_who_only_bears_the_name_is_no_second_one(house, path):
    """A distribution may hold nothing but what it depends on, and one folder may be named twice."""
    info = path[0] / "jax-9.9.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: jax\nVersion: 9.9\n", encoding="utf-8")
    (info / "RECORD").write_text(f"{info.name}/RECORD,,\n", encoding="utf-8")
    assert not any(notes_of(house, "keras-jax", path[0], path[0]).values())


@pytest.mark.long
@pytest.mark.framework
@pytest.mark.skipif(find_spec("torch") is None, reason="its lanes are PyTorch's")
def test_the_lanes_that_are_concerned_say_it(house, path):
    """One that is not imported is left over, and the lanes run on the other."""
    install(path[0], "torch", "2.99", "torch")
    shutil.rmtree(path[0] / "torch")
    words = ("race", "cifar-mlp", "torch/cpu", "fake/cpu", "--dry-run", "--json")
    torch, fake = house.done(*words, env=searched(path[0])).json["lanes"]
    assert fake["notes"] == []
    assert torch["notes"][0].startswith("torch is installed twice: torch ")
    assert f"torch 2.99 in {path[0]} is not" in torch["notes"][0]
