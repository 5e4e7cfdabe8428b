"""A workload's data on disk: read where it is given, made on the spot where it is not, and listed for training."""

from laptime.data.listed import Arrays, Listing
from laptime.data.listing import list_items, read_arrays
from laptime.data.made import describe_made, make_source
from laptime.data.sets import MadeSet, describe_set, made_sets, remove_set
from laptime.data.source import read_source

__all__ = [
    "Arrays",
    "Listing",
    "MadeSet",
    "describe_made",
    "describe_set",
    "list_items",
    "made_sets",
    "make_source",
    "read_arrays",
    "read_source",
    "remove_set",
]
