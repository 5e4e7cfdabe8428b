"""The catalogue of built-in trainings, framework-neutral: networks, published results, data and starting weights."""

from laptime.workloads.catalogue import CATALOGUE, find_workload

__all__ = ["CATALOGUE", "find_workload"]
