"""What the contract suites share."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True)
def nothing_lingers():
    """Free what a test leaves behind at its end, however it is tied together.

    A data iterator of TensorFlow may wait, as it is freed, for about as long as it has lived: up to a minute in all,
    in whichever test the collector comes to it.
    """
    gc.freeze()
    yield
    gc.collect()
