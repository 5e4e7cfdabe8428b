"""Opinions on facts: rules, each a plain function over what a race has seen, in one visible tuple."""
