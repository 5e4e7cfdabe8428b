"""The back end for JAX."""
