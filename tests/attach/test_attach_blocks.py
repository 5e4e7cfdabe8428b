"""What PyTorch's allocator keeps of a card, played without one."""

from __future__ import annotations

import itertools
import random

import pytest

from laptime.attach.blocks import LEAST_BLOCK, CachingAllocator, block_bytes

MIB = 1 << 20


def reserved(*sizes):
    """Return how many MiB are reserved after tensors of such sizes were made."""
    allocator = CachingAllocator()
    for size in sizes:
        allocator.take(size)
    return allocator.reserved / MIB


@pytest.mark.parametrize(
    ("mib", "sizes"),
    [
        (0, [0]),
        (2, [1]),
        (2, [MIB // 2] * 4),
        (4, [MIB // 2] * 5),
        (2, [MIB, MIB]),
        (20, [MIB + 1]),
        (20, [3 * MIB, 17 * MIB - 512]),
        (38, [3 * MIB, 18 * MIB - 512]),
        (10, [10 * MIB]),
        (12, [11 * MIB]),
        (14, [11 * MIB, 1]),
        (32, [11 * MIB, 2 * MIB]),
    ],
)
def test_a_tensor_is_cut_from_a_segment_of_its_size(mib, sizes):
    assert reserved(*sizes) == mib


def test_freed_neighbours_join_and_the_smallest_that_is_large_enough_is_taken():
    allocator = CachingAllocator()
    first, second, third = (allocator.take(6 * MIB) for _ in range(3))
    for block in (first, third, second):
        allocator.free(block)
    assert allocator.take(20 * MIB).at == first.at
    assert allocator.reserved == 20 * MIB
    large, small = allocator.take(60 * MIB), allocator.take(30 * MIB)
    allocator.free(large)
    allocator.free(small)
    assert allocator.take(25 * MIB).at == small.at
    assert allocator.reserved == 110 * MIB


@pytest.mark.parametrize("seed", range(5))
def test_no_two_tensors_share_memory_and_all_of_it_is_free_in_the_end(seed):
    drawn, allocator, held = random.Random(seed), CachingAllocator(), []
    for _ in range(400):
        if held and drawn.random() < 0.45:
            allocator.free(held.pop(drawn.randrange(len(held)))[0])
        else:
            size = round(2 ** drawn.uniform(1, 25))
            held.append((allocator.take(size), size))
    ends = sorted((block.at, block.at + block_bytes(size)) for block, size in held)
    assert all(end <= after for (_, end), (after, _) in itertools.pairwise(ends))
    assert sum(end - at for at, end in ends) <= allocator.reserved
    most = allocator.reserved
    for block, _ in held:
        allocator.free(block)
    whole = [allocator.take(size) for size in (MIB, 5 * MIB)]
    assert all(whole)
    assert allocator.reserved == most
    assert block_bytes(1) == LEAST_BLOCK
