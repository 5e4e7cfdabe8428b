"""The child process's side: one process runs one framework, one lane, one heat."""
