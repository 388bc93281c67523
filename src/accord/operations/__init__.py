"""The operations of A2A, each once, for every version and binding."""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .call import IDEMPOTENT as IDEMPOTENT
    from .call import RESUME as RESUME
    from .call import SCHEMA as SCHEMA
    from .call import Call as Call
    from .headers import ORDINARY_HEADERS as ORDINARY_HEADERS
    from .service import Admission as Admission
    from .service import Service as Service
    from .service import Tenants as Tenants
    from .service import no_agent as no_agent
    from .table import ASSUMED as ASSUMED
    from .table import NEWEST as NEWEST
    from .table import OPERATIONS as OPERATIONS
    from .table import PREVIEWS as PREVIEWS
    from .table import VERSIONS as VERSIONS
    from .table import Operation as Operation
    from .table import Version as Version
    from .table import known_version as known_version
    from .table import major_minor as major_minor
    from .table import methods as methods
    from .table import numbers as numbers
    from .table import served_versions as served_versions

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
