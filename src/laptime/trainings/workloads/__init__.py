"""The built-in trainings, independent of any framework: networks, published results, data and starting weights."""

from laptime.trainings.workloads.catalogue import CATALOGUE, find_workload

__all__ = ["CATALOGUE", "find_workload"]
