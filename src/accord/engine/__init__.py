"""Agents and their runs: from a message to events in the log."""
