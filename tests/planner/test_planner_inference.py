"""The budget of inference, shared out among heats and their parts."""

from __future__ import annotations

import pytest

from laptime.model.ask import Ask
from laptime.planner.groups import choose_infer_pace


@pytest.mark.parametrize(
    ("ask", "lanes", "heats", "part_s", "patience_s"),
    [
        (Ask(), 2, 3, 1.2, 3.6),
        (Ask(budget_s=600.0), 2, 3, 2.0, 57.6),
        (Ask(budget_s=5.0), 2, 3, 0.4, 2.0),
        (Ask(heats=1), 1, 1, 2.0, 33.6),
    ],
)
def test_every_part_gets_an_equal_share(ask, lanes, heats, part_s, patience_s):
    """Within reason: fast calls are known well after two seconds, and patience grows with the budget."""
    pace = choose_infer_pace(ask, lanes)
    assert pace.heats == heats
    assert pace.measure_s == pytest.approx(part_s)
    assert pace.patience_s == pytest.approx(patience_s)
    assert pace.window_s == pytest.approx(part_s / 10)
    in_turns = choose_infer_pace(ask, lanes, takes_turns=True)
    assert (in_turns.measure_s, in_turns.window_s) == (pytest.approx(part_s), pytest.approx(part_s / 4))
