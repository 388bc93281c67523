"""Schemas of the SQLite file, from the first to the newest: numbered SQL files, each applied once."""

from .migrate import migrate, newest, scripts

__all__ = ["migrate", "newest", "scripts"]
