"""Causes."""
from strangers.nouns import Plant
PLANTS: dict[str, Plant] = {}
