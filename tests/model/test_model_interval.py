"""Figures with an interval: what they share, and that every class with two ends is one of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import laptime
from laptime.model.quantities import Estimate, Factor, Missing

ALONE = Missing("one pair")
# A leaf of floats, axes, what is drawn, rows of the board's files, where null is what is not known, and the public
# class of the library, which is documented as it is.
OF_OTHER_KIND = {
    "Interval",
    "Scale",
    "_Axis",
    "Bar",
    "Part",
    "ShownFactor",
    "RowFigure",
    "RowFactor",
    "Ratio",
    "LearningFields",
    "ToldFactor",
    "VerdictFields",
}


@pytest.mark.parametrize(
    ("low", "high", "above", "below"),
    [(1.1, 1.3, True, False), (0.7, 0.9, False, True), (0.9, 1.1, False, False), (1.0, 1.0, False, False)],
)
def test_a_whole_interval_is_above_or_below_a_bound(low, high, above, below):
    figure = Factor(1.0, low, high)
    assert (figure.is_above(1), figure.is_below(1)) == (above, below)
    assert (figure.ends, figure.drawn_ends) == ((low, high), (low, high))
    assert figure.half == pytest.approx((high - low) / 2)


def test_what_has_no_interval_is_neither_above_nor_below():
    figure = Estimate(5.0, ALONE, ALONE)
    assert not figure.is_above(0)
    assert not figure.is_below(9)
    assert (figure.ends, figure.half, figure.drawn_ends) == (None, None, (None, None))


def test_every_class_with_two_ends_is_such_a_figure():
    others = []
    for path in Path(laptime.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ClassDef) and node.name not in OF_OTHER_KIND | {"IntervalFigure"}:
                fields = {ast.unparse(each.target) for each in node.body if isinstance(each, ast.AnnAssign)}
                bases = {ast.unparse(each) for each in node.bases}
                others += [node.name] if {"low", "high"} <= fields and "IntervalFigure" not in bases else []
    assert others == []
