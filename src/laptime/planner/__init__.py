"""(ask, machine, subject) -> plan: what will run, decided and checked before anything runs; pure."""

from laptime.planner.lanes import parse_lane
from laptime.planner.plan import make_plan

__all__ = ["make_plan", "parse_lane"]
