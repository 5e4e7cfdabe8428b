"""PyTorch's room."""
