"""Saved results: records, their list, and the references of proofs."""
