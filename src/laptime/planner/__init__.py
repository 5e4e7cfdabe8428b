"""(ask, machine, subject) -> plan: decide and check what will run, before anything runs. Pure functions."""

from laptime.planner.lanes import parse_lane
from laptime.planner.plan import make_plan

__all__ = ["make_plan", "parse_lane"]
