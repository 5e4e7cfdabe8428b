"""An item comes out as it went in, in memory of its own."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from laptime.remedies.cached import UnpackableError, pack, unpack


class Pair(NamedTuple):
    """An item with names."""

    image: Any
    label: str


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | arrays.arrays(
        arrays.scalar_dtypes() | arrays.unicode_string_dtypes(), arrays.array_shapes(min_dims=0, min_side=0, max_side=4)
    )
)
ITEMS = st.recursive(
    LEAVES, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
TENSORS = (
    torch.arange(24.0).reshape(2, 3, 4),
    torch.arange(6, dtype=torch.int64).reshape(2, 3).T,
    torch.tensor(3.5, dtype=torch.bfloat16),
    torch.tensor([1, 2], dtype=torch.float16),
    torch.tensor([True, False]),
    torch.empty(0, 3),
    torch.tensor([1 + 2j, 3]),
    torch.tensor([1 + 2j, 3]).conj(),
    torch.zeros(2, 3, 4, 4).to(memory_format=torch.channels_last),
    torch.arange(10)[::2],
    torch.eye(3).to_sparse(),
    torch.nn.Parameter(torch.ones(2)),
    torch.ones(2, requires_grad=True),
)


def through(item):
    """Pack, lay the parts somewhere else, and unpack."""
    return unpack([memoryview(bytes(part)) for part in pack(item)])


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, np.ndarray):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert one.tobytes() == other.tobytes()
        assert other.flags.writeable
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for left, right in zip(one, other, strict=True):
            assert_same(left, right)
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert_same(list(one.values()), list(other.values()))
    else:
        assert one == other


@given(ITEMS)
@settings(deadline=None, max_examples=60)
def test_whatever_is_nested_comes_out_equal(item):
    assert_same(item, through(item))


@pytest.mark.parametrize("tensor", TENSORS, ids=lambda each: f"{each.dtype} {tuple(each.shape)}")
def test_a_tensor_comes_out_as_a_tensor(tensor):
    """Of its type and shape, and no warning on the way."""
    came = through((tensor, 1))[0]
    assert type(came) is type(tensor)
    assert (came.dtype, came.shape, came.requires_grad) == (tensor.dtype, tensor.shape, tensor.requires_grad)
    assert came.layout == tensor.layout
    left, right = (each.to_dense() if each.layout == torch.sparse_coo else each for each in (tensor, came))
    assert torch.equal(left, right)


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(12).reshape(3, 4)[:, ::2],
        np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.array([(1, 2.5), (3, 4.5)], [("a", "i4"), ("b", "f8")]),
        np.array([1, 2], ">i4"),
        np.array([{"a": 1}, None], dtype=object),
        np.ma.masked_array([1, 2, 3], [False, True, False]),
        np.float32(2.5),
        np.zeros((0, 4), np.float16),
    ],
    ids=str,
)
def test_odd_arrays_come_out_equal(array):
    came = through([array])[0]
    assert type(came) is type(array)
    assert (came.dtype, came.shape) == (array.dtype, array.shape)
    assert came.tolist() == array.tolist()
    if type(array) is np.ndarray:
        assert came.flags.f_contiguous == np.array(array).flags.f_contiguous


def test_what_comes_out_can_be_written_and_is_nobody_elses():
    """The parts stay as they are, though they could be written."""
    item = (np.arange(1000), torch.arange(1000.0), {"deep": np.ones(3)}, bytearray(b"abc"))
    parts = [memoryview(bytearray(part)) for part in pack(item)]
    before = [bytes(part) for part in parts]
    array, tensor, inner, letters = unpack(parts)
    array[:] = 0
    tensor.zero_()
    inner["deep"][:] = 5
    letters[:] = b"xyz"
    assert before == [bytes(part) for part in parts]


def test_large_arrays_are_not_copied_on_their_way_in():
    """The parts are the array's own memory, and the pickle next to them is short."""
    array, tensor = np.zeros(100_000), torch.zeros(100_000)
    stream, *parts = pack((array, tensor))
    assert len(stream) < 400
    assert [len(memoryview(part)) for part in parts] == [800_000, 400_000]
    assert np.shares_memory(np.frombuffer(parts[0]), array)
    assert np.shares_memory(np.frombuffer(parts[1], np.float32), tensor.numpy())


def test_one_array_held_twice_is_packed_once():
    array = np.zeros(1000)
    assert len(pack([array, array])) == 2
    first, second = through([array, array])
    assert first is second


def test_a_named_tuple_stays_one():
    assert through(Pair(1, "a")) == Pair(1, "a")
    assert type(through(Pair(1, "a"))) is Pair


@pytest.mark.parametrize("item", [lambda: 1, sys.stdout, (print for _ in ())])
def test_what_cannot_be_pickled_is_named(item):
    if item is sys.stdout:
        item = open(__file__)  # noqa: SIM115, PTH123  any open file
    try:
        with pytest.raises(UnpackableError, match=type(item).__name__):
            pack(item)
    finally:
        getattr(item, "close", lambda: None)()
