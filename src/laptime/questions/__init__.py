"""The questions. Each is a choice of lanes and a way to evaluate their samples, in one small file."""
