"""Keras 3 on TensorFlow, JAX or PyTorch: one room, three engines."""
