"""The back end for steps that are plain Python functions; it imports no framework."""
