"""Proofs of what survives what, each named in docs/survives.md (`make soak` runs their long
forms).
"""
