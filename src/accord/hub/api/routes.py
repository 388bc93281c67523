"""All routes of the REST interface."""

from . import admin, agents, catalog, openapi, probes, search, secrets, transfer

__all__ = ["ROUTES"]

ROUTES = (
    *agents.ROUTES,
    *search.ROUTES,
    *catalog.ROUTES,
    *probes.ROUTES,
    *secrets.ROUTES,
    *admin.ROUTES,
    *transfer.ROUTES,
    *openapi.ROUTES,
)
