"""All routes of the REST interface."""

from . import admin, agents, openapi, secrets, transfer

__all__ = ["ROUTES"]

ROUTES = (
    *agents.ROUTES,
    *secrets.ROUTES,
    *admin.ROUTES,
    *transfer.ROUTES,
    *openapi.ROUTES,
)
