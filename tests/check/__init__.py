"""Checks and probes of agents."""
