"""From samples to facts: estimates, comparisons and parity; opinions are elsewhere."""
