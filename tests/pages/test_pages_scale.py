"""The page of a scale: the sentence, the curve, what is lost, and what more devices would bring.

After a change that is meant, write the pages again with `LAPTIME_REGOLD=1 python -m pytest tests/pages`.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import scale_records
from scale_records import bounded
from shown import in_details

from golden import assert_agreed
from laptime.api.showing import report_of
from laptime.model.figure import Bars, Plane
from laptime.model.quantities import Missing
from laptime.questions.scale import page as scale
from laptime.questions.scale.nouns import ProfiledExchange, say_curve
from laptime.questions.scale.page import summary
from laptime.show.pages.page import View

details = in_details(scale.PART.render)
AGREED = ("exchange", "slow-rank", "one-process")


def words_of(text):
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", AGREED)
def test_a_page_is_as_it_was_agreed(name, width):
    assert_agreed(f"scale-{name}", width, details(scale_records.SHOWN[name](), width))
    assert_agreed(f"short-scale-{name}", width, scale.PART.render(scale_records.SHOWN[name](), View(width)))


def test_the_answer_has_the_factor_and_what_is_lost():
    page = words_of(scale.PART.render(scale_records.exchange(), View(100)))
    assert "four cards give 2.67x (2.64-2.70) the rate of one: 31 % of a step is an exchange of gradients" in page
    assert "Predicted for more cards on such links: 8: 5.10x (4.80-5.40)" in page
    assert summary(scale_records.exchange()) == ["4 devices 2.67x"]
    assert summary(scale_records.one_process()) == ["no count has a result"]


def test_a_slow_rank_is_named_with_its_cause_and_threads_that_are_faster():
    page = words_of(scale.PART.render(scale_records.slow_rank(), View(100)))
    assert "rank 1 (cpu) takes 22 % longer than the others: it had no core for 20 % of its time" in page
    assert "One process on all 2 cores is faster: 1.90x" in page


def profiled(exposed, half=0.03, **lost):
    """Return a curve with this share by the profiler."""
    seen = ProfiledExchange("a profiler", bounded(exposed + 0.1, half), bounded(exposed, half))
    return replace(scale_records.exchange().answer.scaling.curves[0], profiled=seen, **lost)


def test_the_profilers_share_is_next_to_that_by_experiment():
    (said,) = scale.exchange_words(profiled(0.33))
    assert "By the profiler, 33 % (30 % to 36 %) of a step is an exchange that nothing hides" in said
    assert "an exchange is in progress for 43 % of a step. By experiment, 31 % (30 % to 32 %) is exchange." in said


@pytest.mark.parametrize(("exposed", "half", "apart"), [(0.5, 0.03, "18 points more"), (0.12, None, "19 points less")])
def test_a_profiler_that_differs_is_named(exposed, half, apart):
    """Waiting (1 % here) may be in the profiler's share, so that much more is no difference."""
    assert (
        f"The profiler shows {apart}. The answer is that of the experiment."
        in scale.exchange_words(profiled(exposed, half))[1]
    )


@pytest.mark.parametrize(("exposed", "half"), [(0.41, 0.03), (0.22, None), (0.6, 0.3)])
def test_shares_within_ten_points_or_their_intervals_do_not_differ(exposed, half):
    assert len(scale.exchange_words(profiled(exposed, half))) == 1


def test_without_an_experiment_the_profilers_share_is_the_answer_and_named():
    curve = profiled(0.33, lost=None, absent={"lost": Missing("no round finished without the exchange")})
    assert say_curve(curve, "cuda").endswith(
        "the rate of one: by the profiler, 33 % of a step is an exchange of gradients that nothing hides."
    )
    assert scale.exchange_words(curve)[0].endswith("There is no figure by experiment.")
    assert say_curve(replace(curve, profiled=None), "cuda").endswith("the rate of one.")


def test_the_charts_hold_the_records_numbers():
    figures = {each.title: each.chart for each in report_of(scale_records.exchange()).figures}
    plane, lost = figures["What more devices bring"], figures["Where the time of a step goes on torch/4xcuda/weak"]
    assert isinstance(plane, Plane)
    assert isinstance(lost, Bars)
    curves = {each.label: each.points for each in plane.curves}
    assert curves["torch/cuda, weak"] == ((1.0, 1.0), (2.0, 1.67), (4.0, 2.67))
    assert curves["torch/cuda, weak, predicted"][-1] == (32.0, 16.4)
    (beyond,) = (each for each in plane.curves if each.label == "torch/cuda, weak, predicted")
    assert beyond.ends == (pytest.approx((4.8, 5.4)), pytest.approx((13.3, 19.5)))
    (measured,) = (each for each in plane.curves if each.label == "torch/cuda, weak")
    assert measured.ends[-1] == pytest.approx((2.64, 2.7))
    exchange = next(each for each in lost.bars if each.label == "exchange of gradients")
    assert (exchange.value, exchange.words) == (31.0, "31 % (30 % to 32 %)")
