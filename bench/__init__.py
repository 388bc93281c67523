"""Accord beside a2a-sdk on the same work: `python -m bench`."""
