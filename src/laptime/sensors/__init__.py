"""Instruments, read in the parent: each probes, opens, reads and closes; siblings never import each other."""
