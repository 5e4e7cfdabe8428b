"""(ask, machine, subject) -> plan: decide and check what will run, before anything runs. Pure functions."""

from laptime.planner.lanes import parse_lane
from laptime.planner.plan import join_plans, make_plan

__all__ = ["join_plans", "make_plan", "parse_lane"]
