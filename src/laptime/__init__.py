"""laptime."""
