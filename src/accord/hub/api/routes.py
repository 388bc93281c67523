"""All routes of the REST interface."""

from . import admin, agents, catalog, openapi, probes, search, secrets, traces, transfer

__all__ = ["ROUTES"]

ROUTES = (
    *agents.ROUTES,
    *search.ROUTES,
    *catalog.ROUTES,
    *probes.ROUTES,
    *secrets.ROUTES,
    *admin.ROUTES,
    *traces.ROUTES,
    *transfer.ROUTES,
    *openapi.ROUTES,
)
