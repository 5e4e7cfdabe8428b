"""The back end for PyTorch."""
