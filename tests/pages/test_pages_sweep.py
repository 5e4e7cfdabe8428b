"""The page of a sweep: the crossover first, a row for each value, and why some have no result.

After a change that is meant, write the pages again with `LAPTIME_REGOLD=1 python -m pytest tests/pages`.
"""

from __future__ import annotations

import pytest
import sweep_records
from shown import in_details

from golden import assert_agreed
from laptime.api.showing import report_of
from laptime.model.figure import Plane
from laptime.questions.sweep import page as sweep
from laptime.questions.sweep.page import summary
from laptime.show.pages.page import View

details = in_details(sweep.PART.render)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", sweep_records.SHOWN)
def test_a_page_is_as_it_was_agreed(name, width):
    assert_agreed(f"sweep-{name}", width, details(sweep_records.SHOWN[name](), width))
    assert_agreed(f"short-sweep-{name}", width, sweep.PART.render(sweep_records.SHOWN[name](), View(width)))


def test_a_list_has_the_crossover_and_a_report_its_curves():
    assert summary(sweep_records.crossover())[0] == "6 cells"
    assert "overtakes torch/cpu at batch 7.3 (7.2-7.4)" in summary(sweep_records.crossover())[1]
    figures = {each.title: each.chart for each in report_of(sweep_records.crossover()).figures}
    plane = figures["Rate over batch"]
    assert isinstance(plane, Plane)
    assert {each.label: each.points for each in plane.curves}["torch/cuda:0"] == ((8.0, 646.0), (64.0, 3082.0))
