"""The fast dropout is dropout: each value is kept with the right chance, scaled, and alone in its fate."""

import pytest
import torch
from torch import nn

from laptime.engine.backends.torch.recipe import WordDropout, speed_up_dropout


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_values_are_kept_at_the_rate_and_scaled(rate):
    """A million values: the share that is dropped is known to a tenth of a percent."""
    torch.manual_seed(0)
    kept = WordDropout(rate)(torch.ones(1000, 1003))
    assert rate == pytest.approx((kept == 0).float().mean().item(), abs=0.002)
    assert kept[kept != 0].unique().item() == pytest.approx(1 / (1 - rate))


def test_neighbours_do_not_share_their_fate():
    """Four values come from one random word; each has sixteen bits of its own."""
    torch.manual_seed(0)
    kept = (WordDropout(0.5)(torch.ones(400_000)) != 0).float().view(-1, 4)
    table = torch.corrcoef(kept.T)
    assert (table - torch.eye(4)).abs().max() < 0.01


def test_the_gradient_passes_where_the_value_passed():
    """Backward uses the very mask of forward."""
    inputs = torch.ones(64, 7, requires_grad=True)
    outputs = WordDropout(0.5)(inputs)
    outputs.sum().backward()
    assert torch.equal(inputs.grad, outputs.detach())


def test_nothing_is_dropped_in_evaluation_or_at_rate_nothing():
    """As in PyTorch's own layer."""
    inputs = torch.randn(5, 5)
    assert WordDropout(0.5).eval()(inputs) is inputs
    assert WordDropout(0.0)(inputs) is inputs


def test_at_rate_one_all_is_dropped_as_in_pytorch():
    """Outputs and gradients are zeros; what is no number stays none."""
    for layer in (WordDropout(1.0), nn.Dropout(1.0)):
        inputs = torch.tensor([1.0, -2.0, 0.0, float("nan")], requires_grad=True)
        outputs = layer(inputs)
        outputs.nansum().backward()
        assert outputs.nan_to_num(7.0).tolist() == [0.0, 0.0, 0.0, 7.0]
        assert inputs.grad[:3].tolist() == [0.0, 0.0, 0.0]
    assert WordDropout(1.0).eval()(inputs) is inputs


@pytest.mark.parametrize("rate", [0.0, 0.5, 1.0])
def test_in_place_changes_its_inputs(rate):
    """As PyTorch's does: a network may go on with what it gave, and gradients pass where values passed."""
    leaf = torch.ones(4_000, requires_grad=True)
    inputs = leaf * 1.0
    outputs = WordDropout(rate, inplace=True)(inputs)
    assert outputs is inputs
    outputs.sum().backward()
    assert torch.equal(leaf.grad, outputs.detach())
    assert (1 - rate) * 4_000 == pytest.approx((outputs != 0).sum().item(), abs=200)


def test_only_plain_dropout_is_exchanged():
    """A dropout of whole channels means something else."""
    network = nn.Sequential(nn.Dropout(0.2), nn.Dropout2d(0.2), nn.Linear(2, 2))
    assert speed_up_dropout(network)
    assert [type(each) for each in network] == [WordDropout, nn.Dropout2d, nn.Linear]
    assert not speed_up_dropout(nn.Sequential(nn.Linear(2, 2)))
