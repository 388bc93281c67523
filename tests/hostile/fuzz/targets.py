"""All that is attacked, by name."""

from .client import Answers, Cards, Sse
from .grpc import Grpc
from .http import Http
from .http1 import Http1
from .target import Target

__all__ = ["TARGETS"]

TARGETS: dict[str, type[Target]] = {
    target.name: target for target in (Http, Http1, Grpc, Sse, Cards, Answers)
}
