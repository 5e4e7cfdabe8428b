"""A training of your own is not resumed with other sources than it began with, unless that is asked for."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.long

MINE = """\
import os, time
import torch, laptime
from parts.loss import loss

class Batches(list):
    def __iter__(self):
        time.sleep(float(os.environ.get("PAUSE", "0")))
        return super().__iter__()

def training():
    model = torch.nn.Linear(4, 2)
    batches = Batches((torch.ones(8, 4) * each, torch.zeros(8, dtype=torch.long)) for each in range(4))
    return laptime.Training(model=model, loss=loss, optimizer=torch.optim.SGD(model.parameters(), 0.1), data=batches)
"""
LOSS = "import torch\ndef loss(a, b):\n    return {factor} * torch.nn.functional.cross_entropy(a, b)\n"


def test_changed_sources_are_refused_by_name_and_noted_where_they_are_allowed(house):
    """Killed after a lap, its loss edited: refused before a process starts; allowed, no proof is claimed for it."""
    house.fake, house.longest_s = "", 300
    (house.folder / "parts").mkdir()
    (house.folder / "mine.py").write_text(MINE)
    parts = house.folder / "parts" / "loss.py"
    parts.write_text(LOSS.format(factor=1))
    process = house.start("train", "mine.py:training", "torch/cpu/threads=1", "--laps", "20", env={"PAUSE": "0.3"})
    house.read_until(process, "lap 1 of 20:")
    process.kill()
    house.finish(process)
    before = house.kept()
    (run,) = before["answer"]["runs"]
    assert sorted(run["sources"]) == ["mine.py", "parts/loss.py"]

    parts.write_text(LOSS.format(factor=2))
    refused = house.run("resume", "latest")
    assert refused.code == 2
    assert f"{before['id']} was begun with other sources: parts/loss.py has changed" in refused.err
    assert f"laptime resume {before['id']} --changed" in refused.err
    parts.unlink()
    assert "parts/loss.py is gone" in house.run("resume", "latest").err
    assert house.kept() == before

    parts.write_text(LOSS.format(factor=2))
    answer = house.run("resume", "latest", "--changed", starts="torch")
    assert answer.code == 0, answer.err
    record = house.kept()
    (run,) = record["answer"]["runs"]
    assert (record["status"], run["process"]["status"], run["changed"]) == ("finished", "ok", ["parts/loss.py"])
    (lane,) = record["lanes"]
    assert lane["parity"]["status"] == "unproven"
    page = " ".join(answer.out.split())
    assert (
        f"after lap {len(before['answer']['runs'][0]['laps'])} it went on with changed sources: parts/loss.py" in page
    )
    assert "(parts/loss.py changed between these trainings" in page
    assert "same work: yes" not in page
