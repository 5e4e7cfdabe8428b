"""JAX's room."""
