"""What all attacks share: a tally of what was tried and what failed.

They are fast by default, and some try a third of their rows a day; `make attack` (LAPTIME_ATTACK=long) goes on to the
numbers in docs/reliability.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from attacking import TALLY, Tally


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Tally]:
    """Count what a test tries; the sum over all tests ends the session."""
    made = Tally()
    yield made
    request.node.user_properties.append((TALLY, (made.what, made.tried, len(made.failed))))
