"""The gateway: every entry as an agent at the hub's address."""

from typing import TYPE_CHECKING

from ...lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .breakers import FLUSH_S as FLUSH_S
    from .breakers import Breakers as Breakers
    from .cards import VIA as VIA
    from .gate import FORGET_S as FORGET_S
    from .gate import Gate as Gate
    from .limits import CallLimits as CallLimits
    from .permits import Permits as Permits
    from .quota import CallQuota as CallQuota
    from .upstream import SWEEP_S as SWEEP_S
    from .upstream import Upstreams as Upstreams

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
