"""The hub's REST interface: a table of routes, and what runs them."""

from typing import TYPE_CHECKING

from ...lazy import lazy

if TYPE_CHECKING:
    from .catalog import ARD_ROUTES as ARD_ROUTES
    from .catalog import CATALOG_ROUTES as CATALOG_ROUTES
    from .router import ApiCall as ApiCall
    from .router import ApiRoute as ApiRoute
    from .router import HubApi as HubApi
    from .router import Routes as Routes
    from .routes import ROUTES as ROUTES

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "ARD_ROUTES": "catalog",
            "CATALOG_ROUTES": "catalog",
            "ROUTES": "routes",
            "HubApi": "router",
            "ApiCall": "router",
            "ApiRoute": "router",
            "Routes": "router",
        },
    )
