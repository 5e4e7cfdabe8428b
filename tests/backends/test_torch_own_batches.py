"""Another batch of a user's own data: the same items in the same order, or a refusal in words."""

from __future__ import annotations

import json
from typing import NamedTuple

import pytest
import torch
from torch.utils.data import DataLoader

from laptime.engine.backends.torch.batches import look_at_batches, with_batch
from laptime.model.errors import TrainingError
from laptime.model.plan import OwnBatches
from laptime.model.workload import Training


class Pair(NamedTuple):
    rows: torch.Tensor
    labels: dict


def pairs(*lengths):
    """Return batches whose rows and labels are their numbers, one after another."""
    starts = [sum(lengths[:place]) for place in range(len(lengths))]
    numbers = [torch.arange(start, start + length) for start, length in zip(starts, lengths, strict=True)]
    return [Pair(each[:, None].float(), {"label": each, "mask": None}) for each in numbers]


def cut(data, batch, **given):
    return with_batch(Training(model=print, data=data, **given), batch, "mine.py:training")


def test_a_data_loader_takes_another_batch():
    """Same items, same order. A lap has whole batches only, so that each step has the items that are counted."""
    items = torch.arange(64)
    loader = DataLoader(items, batch_size=8, shuffle=True)
    made = cut(loader, 16, steps_per_lap=8)
    assert (len(made.data), made.data.batch_size, made.steps_per_lap) == (4, 16, 4)
    assert made.data.sampler is loader.sampler
    assert sorted(torch.cat(list(made.data)).tolist()) == items.tolist()
    assert [len(each) for each in cut(loader, 48).data] == [48]
    assert with_batch(made, None, "mine.py:training") is made


@pytest.mark.parametrize(("batch", "count"), [(2, 7), (5, 3), (16, 1)])
def test_a_list_of_batches_is_cut_into_others(batch, count):
    """With whatever holds its tensors; the batches may have had several lengths."""
    data = pairs(8, 4, 4) if batch != 2 else pairs(8, 6)
    made = cut(data, batch, steps_per_lap=3).data
    assert [type(each) for each in made] == [Pair] * count
    assert torch.cat([each.rows[:, 0] for each in made]).tolist() == list(range(batch * count))
    assert torch.cat([each.labels["label"] for each in made]).tolist() == list(range(batch * count))
    assert made[0].labels["mask"] is None


def loader_of_batches():
    return DataLoader(torch.arange(64), batch_size=None)


def a_graph():
    return torch.eye(3).to_sparse()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (iter([torch.zeros(2, 3)]), "its data are no DataLoader and no list of batches (batch=2x joins them)"),
        ([], "its data are no DataLoader and no list of batches (batch=2x joins them)"),
        (loader_of_batches(), "its DataLoader does not make its batches itself: batch_size is None"),
        ([("a", torch.zeros(2))], "str is no tensor"),
        ([torch.zeros(2), (torch.zeros(2),)], "they do not hold the same"),
        ([torch.zeros(2, 3), torch.zeros(2, 4)], "their tensors have other shapes or types from batch to batch"),
        ([torch.zeros(2), torch.zeros(2).double()], "their tensors have other shapes or types from batch to batch"),
        ([torch.tensor(1.0)], "one holds a single number, or nothing"),
        ([a_graph()], "they hold sparse or nested tensors"),
        (
            [(torch.zeros(5, 2), torch.zeros(2))],
            "the tensors of a batch have different lengths, and which axis counts the items is not known",
        ),
        (pairs(4, 4), "a lap of it has 8 items"),
    ],
)
def test_what_cannot_be_cut_is_refused_in_the_words_of_the_plan(data, why):
    with pytest.raises(TrainingError) as caught:
        cut(data, 16)
    assert (caught.value.says, caught.value.hint) == OwnBatches.refusal("16", "mine.py:training", why)


def test_what_a_lap_holds_is_known_before_anything_runs():
    assert look_at_batches(pairs(4, 4, 2)) == OwnBatches("", 4, 10)
    assert look_at_batches(DataLoader(torch.arange(64), batch_size=8)) == OwnBatches("", 8, 64)
    assert json.dumps(look_at_batches(iter(())).why_not(1))
