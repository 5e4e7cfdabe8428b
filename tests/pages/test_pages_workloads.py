"""One workload whole, as a page: golden pages, and what must hold of every page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from golden import assert_agreed
from laptime.model.visible import cells_wide
from laptime.model.workload import Sgd
from laptime.show.pages.listing import fact_lines, render_workload
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.catalogue import list_layers


def page_of(name, width, **changes):
    workload = CATALOGUE[name]
    return render_workload(replace(workload, **changes), list_layers(workload), width)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_page_is_as_it_was_agreed(name, width):
    """A page changes only on purpose; LAPTIME_REGOLD=1 writes it again."""
    assert_agreed(f"workload-{name}", width, page_of(name, width))


@pytest.mark.parametrize("name", CATALOGUE)
@settings(deadline=None, max_examples=30)
@given(width=st.integers(40, 160))
def test_no_line_is_wider_than_the_page(name, width):
    """What a terminal breaks is no table."""
    assert width >= max(map(cells_wide, page_of(name, width).splitlines()))


@pytest.mark.parametrize("width", [40, 80, 120])
@pytest.mark.parametrize("name", CATALOGUE)
def test_no_figure_is_lost_at_any_width(name, width):
    """Every layer's parameters, their total and the claim stand on the page, table or not."""
    workload, page = CATALOGUE[name], page_of(name, width)
    words = " ".join(page.split())
    assert all(f"{row.parameters:,}" in words for row in list_layers(workload))
    assert f"{workload.parameters:,}" in words
    assert workload.published.claim in words
    assert all(result.device in words for result in workload.published.results)


def test_an_optimizer_is_told_with_every_figure():
    """What a library takes for granted is spelled out here."""
    adam = "Adam, learning rate 0.001, beta1 0.9, beta2 0.999, epsilon 1e-7 (added before the bias correction)"
    assert f"optimizer  {adam}, weight decay 0\n" in page_of("scenes-cnn", 200)
    assert "epsilon 1e-8 (added after the bias correction)" in page_of("pets-densenet", 200)
    sgd = page_of("cifar-mlp", 200, optimizer=Sgd(0.05, weight_decay=1e-4))
    assert "optimizer  SGD, learning rate 0.05, weight decay 0.0001\n" in sgd


def test_published_figures_keep_the_digits_of_their_authors():
    """0.7000 was measured to four digits, and 0.99 to two."""
    scenes, pets = page_of("scenes-cnn", 200), page_of("pets-densenet", 200)
    assert "laps 38, 42, 45, 44, 45 s · step 35, 42, 44, 43, 45 ms" in scenes
    assert "validation accuracy 0.6938, 0.7000, 0.6938, 0.7094, 0.7594" in scenes
    assert "13 h in all · one item inferred in 5 s · accuracy 0.99 · 60, 63 % busy · 32 GB of memory" in pets
    assert "307 processes · 5,410 threads" in pets


def test_facts_stand_beside_their_names():
    """Names in one column, later lines under what was said first; no facts are no lines."""
    facts = [("loss", "one two"), ("optimizer", "three four five")]
    assert fact_lines(facts, 22) == ["loss       one two", "optimizer  three four", "           five"]
    assert fact_lines([], 80) == []
