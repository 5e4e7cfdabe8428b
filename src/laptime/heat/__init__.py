"""The child's side of the wall: one process, one framework, one lane, one heat."""
