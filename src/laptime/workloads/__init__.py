"""The catalogue of built-in trainings, framework-neutral: networks, published results, data and starting weights."""

from laptime.workloads.catalogue import CATALOGUE, find_workload
from laptime.workloads.layers import LayerRow, list_layers

__all__ = ["CATALOGUE", "LayerRow", "find_workload", "list_layers"]
