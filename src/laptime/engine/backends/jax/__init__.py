"""The back end for JAX."""

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX, once imported, takes 3/4 of the card else
