"""A loader that a loop starts, or makes, in each of its turns: the changed script runs, and does what it did."""

from __future__ import annotations

import subprocess
import sys

import pytest

from laptime.questions.rewrites import rewrite
from laptime.questions.user_code import NoPlaceError, read_code

HEAD = '''\
"""A script."""
from __future__ import annotations

import torch
from torch.utils.data import DataLoader

data = torch.arange(8)


'''
STARTED = (
    HEAD
    + """\
def train(loader):
    for epoch in range(2):
        for step in range(4):
            rows = next(iter(loader))
            print(*rows.tolist())

train(DataLoader(data, 2))
"""
)
MADE = (
    HEAD
    + """\
for epoch in range(2):
    loader = DataLoader(  # of the training
        data,
        batch_size=4,
    )
    for rows in loader:
        print(*rows.tolist())
"""
)


def change(tmp_path, text, word):
    script = tmp_path / "train.py"
    script.write_text(text)
    script.write_bytes(rewrite(read_code(script, None), word).data)
    return script


def run(script):
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    return ended.stdout.splitlines()


def test_a_loader_that_is_started_once_gives_all_its_batches_and_begins_again(tmp_path):
    script = change(tmp_path, STARTED, "loader_started_once")
    assert run(script) == ["0 1", "2 3", "4 5", "6 7"] * 2
    text = script.read_text()
    assert text.index("import itertools") > text.index("annotations")
    assert "    loader_batches = itertools" in text


def test_a_loader_that_is_made_once_gives_what_it_gave(tmp_path):
    (tmp_path / "before.py").write_text(MADE)
    script = change(tmp_path, MADE, "loader_made_once")
    assert run(script) == run(tmp_path / "before.py")
    lines = script.read_text().splitlines()
    assert lines.index("loader = DataLoader(  # of the training") < lines.index("for epoch in range(2):")


@pytest.mark.parametrize(
    ("word", "text", "why"),
    [
        ("loader_started_once", "rows = next(iter(loader))\n", "0 loops"),
        ("loader_started_once", "for i in range(9):\n    next(iter(one))\n    next(iter(other))\n", "2 loops"),
        ("loader_started_once", "for loader in loaders:\n    next(iter(loader))\n", "is in no loop"),
        ("loader_made_once", "loader = DataLoader(data)\n", "0 loops"),
        ("loader_made_once", "for i in range(9):\n    loader = DataLoader(data[i:])\n    go(loader)\n", "another one"),
        ("loader_made_once", "for i in range(9):\n    go(DataLoader(data))\n    go(i)\n", "does more"),
        (
            "loader_made_once",
            "for i in range(9):\n    if i:\n        loader = DataLoader(data)\n    go(i)\n",
            "does more",
        ),
        ("loader_made_once", "for i in range(9):\n    data = draw()\n    a = DataLoader(data)\n", "another one"),
    ],
)
def test_what_is_another_loader_in_each_turn_stays(tmp_path, word, text, why):
    with pytest.raises(NoPlaceError, match=why):
        change(tmp_path, "import torch\nfrom torch.utils.data import DataLoader\n" + text, word)
