"""Proofs of what survives: kills, races, repeats and broken streams (`make soak` runs their long
forms).
"""
