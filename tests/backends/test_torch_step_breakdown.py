"""A step of PyTorch's taken apart: what it waits for, reads, copies and compiles, and where in the user's code."""

from __future__ import annotations

import time
from pathlib import Path

import planted_orders
import pytest
import torch
from torch import Tensor

from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.symptoms import SyncDetector, SyncDispatch, count
from laptime.engine.heat.work import break_down_steps
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.symptoms import DenormalCensus

FILE = Path(__file__).with_name("own_counterfactuals.py")
LINES = FILE.read_text().splitlines()


def symptoms_of(function, **settings):
    """Take a user's steps apart after a few of them."""
    runner = TorchTraining(planted_orders.own_order(str(FILE), function, Settings(**settings))).start()
    runner.run(2)
    symptoms = break_down_steps(time.perf_counter_ns, runner.fence, runner.parts())
    assert runner.close() == ()
    return symptoms


def line_of(text):
    return next(f"{FILE.name}:{number}" for number, line in enumerate(LINES, 1) if text in line)


def test_reads_are_counted_and_found():
    """Each where it is in the user's file; what a printed figure is made of is not counted again."""
    symptoms = symptoms_of("reads")
    found = {each.where: (each.what, each.per_step) for each in symptoms.sites}
    assert found == {
        line_of("TOLD.append"): (".item()", 1.0),
        line_of("if loss > 1e9"): ("bool()", 1.0),
        line_of('f"{loss:.3f}"'): ("print", 1.0),
    }
    assert symptoms.reads == 3.0


def test_a_step_that_reads_nothing_has_no_reads():
    """Adam's own count of steps is on the host, and nothing waits for it."""
    symptoms = symptoms_of("reads_nothing")
    assert (symptoms.reads, symptoms.sites) == (0.0, ())


def test_threads_are_those_that_the_training_computes_with():
    """Its own code's, where it has set them; a lane that names some has those."""
    before = torch.get_num_threads()
    try:
        assert symptoms_of("takes_five_threads").threads == 5
        assert symptoms_of("takes_five_threads", threads=2).threads == 2
    finally:
        torch.set_num_threads(before)


def test_the_parts_have_their_times():
    """On a processor nothing is copied to a device."""
    symptoms = symptoms_of("reads_nothing")
    assert 3 <= symptoms.steps <= 50
    assert 0 < symptoms.wait_ns < symptoms.compute_ns
    assert (symptoms.copied_bytes, symptoms.copied_arrays) == (0, 0.0)
    assert (symptoms.shapes, symptoms.compiles) == (1, 0)


@pytest.mark.long
def test_shapes_are_counted():
    """As many as these steps' batches had."""
    assert symptoms_of("shapes").shapes == 3
    assert symptoms_of("shapes", input="one").shapes == 1


def test_denormal_numbers_are_found():
    """Among weights here; the largest share of any kind is reported, and whose it is."""
    symptoms = symptoms_of("tiny")
    assert symptoms.denormals > 0.2
    assert symptoms.notes["denormals"].startswith("of ")
    assert symptoms_of("reads_nothing").denormals < 0.01


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_denormal_is_what_is_below_the_smallest_normal_number(kind):
    """And not 0, of either sign."""
    tiny = torch.finfo(kind).tiny
    values = torch.tensor([0.0, -0.0, tiny, -tiny, 1.0, float("inf"), float("nan")], dtype=kind)
    assert count(values) == 0
    assert count(torch.tensor([tiny, -tiny, 1.0], dtype=kind) / 4) == 2


def test_an_empty_census_has_found_nothing():
    assert (DenormalCensus().worst, DenormalCensus().costs) == ((0.0, ""), False)


def test_a_lane_of_one_stage_has_its_time_alone():
    """There is no step that could be looked into."""
    symptoms = symptoms_of("reads", input="only")
    assert isinstance(symptoms.reads, Missing)
    assert symptoms.wait_ns > 0


def test_a_users_own_tensor_is_as_it_was_afterwards():
    """All methods are put back, also after an error."""
    before = {name: getattr(Tensor, name) for name in ("item", "__bool__", "__repr__", "numpy", "cpu")}
    with pytest.raises(ZeroDivisionError), SyncDetector(torch.device("cpu")):
        raise ZeroDivisionError
    assert before == {name: getattr(Tensor, name) for name in before}


def test_what_waits_within_pytorch_is_seen_as_operators():
    """A value, or a shape that depends on values; here on the processor, in place of a card."""
    device = torch.device("cpu")
    values, reads = torch.ones(3), SyncDetector(device)
    with SyncDispatch(reads, device):
        values.sum().item()
        values.nonzero()
        values[values > 0]
        values[torch.tensor([0, 1])]
        values.to(torch.float64)
    assert {each.what: each.per_step for each in reads.sites(1)} == {".item()": 1.0, "nonzero": 1.0, "a mask": 1.0}


def test_every_way_to_read_is_seen():
    """Once each, on the line that has it."""
    value, reads = torch.ones(()), SyncDetector(torch.device("cpu"))
    with reads:
        value.item()
        value.tolist()
        float(value)
        int(value)
        bool(value)
        value.cpu()
        value.numpy()
        repr(value)
    assert reads.total() == 8
    assert {each.what for each in reads.sites(1)} == {
        *(".item()", ".tolist()", "float()", "int()", "bool()", ".cpu()", ".numpy()", "print")
    }
    assert {each.where.split(":")[0] for each in reads.sites(1)} == {Path(__file__).name}
