"""All routes of the REST interface."""

from . import agents

__all__ = ["ROUTES"]

ROUTES = (*agents.ROUTES,)
