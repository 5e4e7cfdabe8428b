"""To which step the heats of an inquiry go on, so that they come to what the first one showed."""

from __future__ import annotations

import math

from laptime.analysis.diagnosis.findings import denormals_of
from laptime.analysis.diagnosis.lane_readings import first_script
from laptime.analysis.lanes import share_of_steps
from laptime.analysis.step_states import find_lane_state
from laptime.model.record import LaneResult

BEYOND = 1.5  # times the step by which a state was there
PROVEN_BEFORE = 10  # steps of a proof
TURNS_SEEN = 2  # times that a heat comes to what is between iterations
BETWEEN_MUCH = 0.1  # of the time


def find_reach(lane: LaneResult) -> int:
    """Return the step to which later heats go on, so that they have the state that the first one showed; 0 for none."""
    state = find_lane_state(lane)
    denormals = denormals_of(lane)
    begins = 0 if state is None else state.step
    if denormals is not None and denormals.cost:
        # They were there after the windows, at the latest in the last of the steps that were taken apart.
        apart = sum(result.heat.signs.steps for result in lane.heats if result.heat.signs is not None)
        begins = max(
            ((window.first_step or 0) + window.steps for result in lane.heats for window in result.heat.windows),
            default=0,
        )
        begins += apart
    # How many iterations pass from one turn of what is found between them to the next
    script = first_script(lane)
    loop = None if script is None else script.loop
    periods = []
    if lane.status == "ok" and loop is not None and share_of_steps(lane) < 1 - BETWEEN_MUCH:
        periods = [math.ceil(loop.iterations / gap.times) for gap in loop.gaps if gap.times]
    return max(round(BEYOND * begins), *(PROVEN_BEFORE + TURNS_SEEN * period for period in periods), 0)
