"""Connecting out: HTTP through one contract, TLS, proxies, and the guard on addresses that
strangers gave. And what every side of a connection needs: one circuit breaker, one token bucket,
one back-off.

The names load on first use, so that what never connects out does not pay for aiohttp.
"""

from typing import TYPE_CHECKING

from ..lazy_imports import lazy_imports

if TYPE_CHECKING:
    from .backoff import backoff_s as backoff_s
    from .breaker import CircuitBreaker as CircuitBreaker
    from .errors import AgentFault as AgentFault
    from .errors import BadAnswer as BadAnswer
    from .errors import ConnectionLost as ConnectionLost
    from .errors import FileTooLarge as FileTooLarge
    from .errors import TooSlow as TooSlow
    from .errors import Unreachable as Unreachable
    from .errors import why as why
    from .files import OnFetched as OnFetched
    from .files import fetch_file as fetch_file
    from .guard import Guard as Guard
    from .guard import NotPublic as NotPublic
    from .guard import egress_words as egress_words
    from .guard import guard_beside as guard_beside
    from .guard import is_allowed as is_allowed
    from .http import Http as Http
    from .http import Request as Request
    from .http import Response as Response
    from .http import ResponseBody as ResponseBody
    from .http import ResponseHeaders as ResponseHeaders
    from .http import may_be_set as may_be_set
    from .limits import Rate as Rate
    from .limits import TokenBucket as TokenBucket
    from .limits import TokenBuckets as TokenBuckets
    from .network import Network as Network
    from .pool import resolve as resolve
    from .proxies import Proxies as Proxies
    from .tls import client_tls as client_tls
    from .url import Url as Url
    from .url import host_of as host_of
    from .url import origin_of as origin_of
    from .url import parse_url as parse_url
    from .url import safe_url as safe_url
    from .wire import log_body as log_body
    from .wire import log_rpc as log_rpc
    from .wire import shows_wire as shows_wire

if not TYPE_CHECKING:  # else every name would seem to exist
    __getattr__, __dir__ = lazy_imports(__name__)
