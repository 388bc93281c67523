"""Talking to agents."""

from .connect import connect

__all__ = ["connect"]
