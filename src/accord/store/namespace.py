"""Whose tasks."""

from typing import NamedTuple

__all__ = ["Namespace"]


class Namespace(NamedTuple):
    """Say whose tasks these are. Everything is stored and found inside one namespace."""

    agent: str = ""
    tenant: str = ""
    caller: str = ""
