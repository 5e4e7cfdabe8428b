"""Tables and parts of `bench/strangers.py`."""
