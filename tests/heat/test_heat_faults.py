"""What a page fault costs is measured: more than writing the same memory again, and 0 on a clock that stays."""

from __future__ import annotations

import time

from laptime.engine.heat.work import time_fault_ns
from laptime.model.quantities import Missing


def test_a_fault_takes_time_and_not_a_second():
    """Between what a hypervisor's slowest takes and what no processor beats."""
    cost_ns = time_fault_ns(time.perf_counter_ns)
    assert not isinstance(cost_ns, Missing)
    assert 20 < cost_ns < 200_000


def test_on_a_clock_that_stands_it_is_not_known():
    assert isinstance(time_fault_ns(lambda: 7), Missing)
