"""Is each device usable? If not: the cause, and the command."""
