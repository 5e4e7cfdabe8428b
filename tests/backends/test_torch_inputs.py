"""Where batches come from: each source gives the right images, in the lane's layout, shuffled and without end."""

import planted_orders
import pytest
import torch

from laptime.engine.backends.torch.inputs import ShuffledItems, open_source
from laptime.engine.backends.torch.recipe import BuiltInRecipe
from laptime.model.process import Settings

CPU = torch.device("cpu")


def source(**settings):
    chosen = Settings(**settings)
    return open_source(BuiltInRecipe(planted_orders.built_in_order("plates-cnn", chosen)), chosen, CPU, 0)


@pytest.mark.parametrize("kind", ["published", "fast", "cached", "resident"])
@pytest.mark.parametrize("layout", ["framework", "channels_last"])
def test_every_source_gives_whole_batches_in_the_lanes_layout(kind, layout):
    """Twenty-five batches: more than one lap of the items in memory."""
    taken = source(input=kind, layout=layout, batch=64)
    form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    for _ in range(25):
        images, labels = taken()
        assert tuple(images.shape) == (64, 3, 64, 128)
        assert tuple(labels.shape) == (64, 8)
        assert images.is_contiguous(memory_format=form)
    taken.close()


def test_both_layouts_hold_the_same_numbers():
    """Channels last is another order in memory, not another picture."""
    plain, last = source(batch=8)(), source(batch=8, layout="channels_last")()
    assert torch.equal(plain[0], last[0])
    assert torch.equal(plain[1], last[1])


def test_a_lap_shows_every_item_once_and_the_next_in_another_order():
    """Shuffled without repeating."""
    recipe = BuiltInRecipe(planted_orders.built_in_order("cifar-cnn", Settings()))
    gather = ShuffledItems(recipe, 1000, channels_last=True, pin=False, seed=0)
    first = torch.cat([gather(number)[0][:, :, 0, 0] for number in range(10)])
    second = torch.cat([gather(number)[0][:, :, 0, 0] for number in range(10, 20)])
    assert not torch.equal(first, second)
    assert torch.equal(first.sort(0).values, second.sort(0).values)


def test_only_what_is_fetched_ahead_is_run_down():
    """Two batches a worker may lie ready; made-on-demand sources hold none."""
    assert source(input="published").ready_batches == 0
    fast = source(input="fast", workers=3)
    assert fast.ready_batches == 6
    fast.close()


def test_a_batch_larger_than_the_items_in_memory_is_made():
    """More items are made, not fewer given."""
    images, _ = source(batch=1500)()
    assert len(images) == 1500
