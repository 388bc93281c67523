"""The hub's REST interface: tables of routes, a class for each subject, and what runs them."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .agents import AgentRoutes as AgentRoutes
    from .agents import AgentViews as AgentViews
    from .catalog import ArdRoutes as ArdRoutes
    from .catalog import CatalogRoutes as CatalogRoutes
    from .catalog import CatalogViews as CatalogViews
    from .openapi import OpenApiRoutes as OpenApiRoutes
    from .policies import PolicyRoutes as PolicyRoutes
    from .principals import PrincipalRoutes as PrincipalRoutes
    from .probes import ProbeRoutes as ProbeRoutes
    from .records import RecordRoutes as RecordRoutes
    from .router import ApiCall as ApiCall
    from .router import ApiRoute as ApiRoute
    from .router import HubApi as HubApi
    from .router import Routes as Routes
    from .search import SearchRoutes as SearchRoutes
    from .secrets import CredentialRoutes as CredentialRoutes
    from .tasks import TaskRoutes as TaskRoutes
    from .traces import TraceRoutes as TraceRoutes
    from .trust import TrustRoutes as TrustRoutes

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
