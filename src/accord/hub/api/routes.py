"""All routes of the REST interface."""

from . import admin, agents, catalog, openapi, probes, search, secrets, tasks, traces, transfer

__all__ = ["ROUTES"]

ROUTES = (
    *agents.ROUTES,
    *search.ROUTES,
    *catalog.ROUTES,
    *probes.ROUTES,
    *secrets.ROUTES,
    *admin.ROUTES,
    *tasks.ROUTES,
    *traces.ROUTES,
    *transfer.ROUTES,
    *openapi.ROUTES,
)
