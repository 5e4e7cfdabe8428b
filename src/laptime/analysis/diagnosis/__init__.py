"""Opinions on facts: rules, each a plain function of what a race has measured, listed in visible tables."""
