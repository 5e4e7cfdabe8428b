"""A few shapes in place of many; what is real stays where it was, and padding can be told from it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import laptime
from laptime.model.errors import UsageError

SIZES = (4, 8, 16)


def batch_of(length, items=3, kind=np):
    """Return inputs with a feature axis behind, and a target a place."""
    inputs = 1.0 + np.arange(items * length * 2, dtype=np.float32).reshape(items, length, 2)
    targets = np.arange(items * length).reshape(items, length)
    return (inputs, targets) if kind is np else (torch.from_numpy(inputs), torch.from_numpy(targets))


@given(lengths=st.lists(st.integers(1, 40), min_size=1), sizes=st.sets(st.integers(1, 20), min_size=1) | st.none())
@settings(deadline=None, max_examples=60)
@pytest.mark.parametrize("kind", [np, torch])
def test_shapes_are_few_and_what_is_real_stays(kind, lengths, sizes):
    """The smallest size that holds it; beyond the largest its next multiple, and never a cut."""
    batches = [batch_of(length, kind=kind) for length in lengths]
    wrapped = laptime.same_shapes(batches, sizes=None if sizes is None else tuple(sizes), fill=-7, target_axis=1)
    assert len(wrapped) == len(lengths)
    for (inputs, targets), (real, labels), length in zip(wrapped, batches, lengths, strict=True):
        size = inputs.shape[1]
        if sizes is None:
            assert size == 2 ** int(np.ceil(np.log2(length)))
        else:
            fits = [each for each in sizes if each >= length]
            assert size == (min(fits) if fits else -(-length // max(sizes)) * max(sizes))
        assert type(inputs) is type(real)
        assert (inputs.dtype, tuple(inputs.shape), tuple(targets.shape)) == (real.dtype, (3, size, 2), (3, size))
        assert bool((inputs[:, :length] == real).all())
        assert bool((targets[:, :length] == labels).all())
        assert bool((inputs[:, length:] == -7).all())
        assert bool((targets[:, length:] == -100).all())


@pytest.mark.parametrize(("last", "items"), [("drop", [3, 3]), ("pad", [3, 3, 3]), ("keep", [3, 3, 1])])
def test_a_short_last_batch_is_dropped_padded_or_kept(last, items):
    """In every lap again, and its length is known before where the batches are in a list."""
    batches = [batch_of(4), batch_of(3), batch_of(4, items=1)]
    wrapped = laptime.same_shapes(batches, sizes=SIZES, target_axis=1, last=last)
    for _ in range(2):
        assert [len(inputs) for inputs, _ in wrapped] == items
    assert len(wrapped) == len(items)
    padded = list(laptime.same_shapes(batches, last="pad", target_fill=-1))[-1]
    assert (padded[0][1:] == 0).all()
    assert (padded[1][1:] == -1).all()


def test_how_many_a_loader_gives_is_known_where_it_can_be():
    """Of a DataLoader by its items; of what has no length, by walking through it."""
    loader = torch.utils.data.DataLoader(torch.arange(20.0).reshape(10, 2), batch_size=4)
    wrapped = laptime.same_shapes(loader)
    assert len(wrapped) == len(list(wrapped)) == 2
    assert len(laptime.same_shapes(loader, last="keep")) == 3
    with pytest.raises(TypeError):
        len(laptime.same_shapes(iter([])))


@pytest.mark.parametrize("kind", [np, torch])
def test_weights_tell_what_is_real(kind):
    """As a third part: a mean by weights is that of the batch without padding."""
    real = [batch_of(4, kind=kind), batch_of(3, items=2, kind=kind)]
    _, last = laptime.same_shapes(real, sizes=SIZES, target_axis=1, last="pad", weights=True)
    inputs, targets, weights = last
    assert tuple(weights.shape) == tuple(targets.shape) == (3, 4)
    assert "float32" in str(weights.dtype)
    assert float(weights.sum()) == 6
    squares = inputs[..., 0] ** 2
    assert float((squares * weights).sum() / weights.sum()) == pytest.approx(float((real[1][0][..., 0] ** 2).mean()))
    rows = list(laptime.same_shapes([(x, x[:, 0, 0]) for x, _ in real], last="pad", weights=True))
    assert [each[2].tolist() for each in rows] == [[1, 1, 1], [1, 1, 0]]


def test_the_loss_of_padding_is_left_out_by_pytorch_unasked():
    """-100 is what its cross_entropy ignores."""
    scores = torch.randn(2, 5, 3)
    labels = torch.tensor([[0, 1, 2, 1, 0], [2, 2, 1, 0, 1]])
    ((padded, targets),) = laptime.same_shapes([(scores, labels)], target_axis=1)
    assert padded.shape == (2, 8, 3)
    expected = torch.nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten())
    assert torch.allclose(expected, torch.nn.functional.cross_entropy(padded.flatten(0, 1), targets.flatten()))


def test_a_dict_is_padded_by_name_and_a_plain_array_as_it_is():
    """Each with its own filling; what has no such axis stays."""
    batch = {"ids": np.ones((2, 3), np.int64), "labels": np.ones((2, 3), np.int64), "kind": np.ones(2)}
    (made,) = laptime.same_shapes([batch], fill={"labels": -100, "ids": 9})
    assert made["ids"].tolist() == [[1, 1, 1, 9]] * 2
    assert made["labels"].tolist() == [[1, 1, 1, -100]] * 2
    assert made["kind"] is batch["kind"]
    (plain,) = laptime.same_shapes([np.ones((2, 3))], sizes=(5,))
    assert plain.shape == (2, 5)


def test_another_axis_may_be_the_one_that_changes():
    """Pictures whose width differs; class targets have no such axis."""
    pictures = [(torch.ones(2, 3, 8, width), torch.tensor([1, 0])) for width in (5, 7, 8)]
    made = list(laptime.same_shapes(pictures, axis=3, sizes=(8,)))
    assert {tuple(picture.shape) for picture, _ in made} == {(2, 3, 8, 8)}
    assert all(targets.tolist() == [1, 0] for _, targets in made)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ({"last": "cut"}, "last='cut': expected drop, pad or keep"),
        ({"axis": 0}, "axis 0 is the batch's own"),
        ({"target_axis": 0}, "axis 0 is the batch's own"),
        ({"sizes": ()}, "expected one or more sizes"),
        ({"sizes": (4, 0)}, "expected one or more sizes"),
        ({"axis": 3}, "batch 1 has no array with an axis 3"),
        ({"weights": True, "batches": [(np.ones((2, 2)),) * 3]}, "batch 1 has 3 parts, so weights of its own"),
        ({"batches": [batch_of(2), batch_of(2, items=4)]}, "batch 2 has 4 items, and the first had 3"),
    ],
)
def test_what_cannot_be_meant_is_refused(words, says):
    with pytest.raises(UsageError, match=says):
        list(laptime.same_shapes(**{"batches": [batch_of(4)], **words}))
