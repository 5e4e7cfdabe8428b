"""A workload's data on disk: read if a path is given, made if not, and listed for training."""

from laptime.trainings.data.made_sets import describe_made, describe_set, made_sets, make_source, remove_set
from laptime.trainings.data.source import list_items, read_arrays, read_source

__all__ = [
    "describe_made",
    "describe_set",
    "list_items",
    "made_sets",
    "make_source",
    "read_arrays",
    "read_source",
    "remove_set",
]
