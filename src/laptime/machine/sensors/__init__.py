"""Instruments, read in the parent: each probes, opens, reads and closes. Sensors never import each other."""
