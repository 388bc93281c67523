"""Bytes to model and back. Pure: no clock, no store, no network."""
