"""Remedies that a user's own script can import to run faster. The imports are light."""
