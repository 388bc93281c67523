"""How a file's bytes travel in 0.3's protobuf definition: as they are, or as base64 text. Who sends
decides, never the bytes.

`file_with_bytes` is a bytes field: by the letter of the proto it holds the content itself, which
HTTP+JSON writes as base64, once. Two libraries put the base64 text of their JSON types into it, and
expect to find such text there. `abcd` is both, so looking at the bytes can't tell: a client is
known by its user agent, a server by its `Server` header. Everyone else is taken at the letter.
"""

import base64
from enum import Enum
from typing import Any

from ...model import InvalidParams
from ..legacy import plain_base64, refuse

__all__ = ["Form", "form_of_caller", "form_of_server", "read_bytes", "write_bytes"]


class Form(Enum):
    """What the bytes field of a file holds."""

    RAW = "raw"  # the content
    TEXT = "text"  # the content as base64 text


# Clients that send and expect text, by a product in their user agent. The user agent names the HTTP
# or gRPC library and not the SDK, so another program on the same library is taken for the SDK.
# Measured user agents:
#   a2a-sdk 0.3.26 (Python)   text   python-httpx/0.28.1 and
#                                    grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)
#   @a2a-js/sdk 0.3.14        raw    node and grpc-node-js/1.14.7
# According to its source, a2a-go 0.3 sends text over gRPC (grpc-go/...). Its HTTP+JSON follows the
# specification's prose, which has no such field. When a2a-go 1.x uses 0.3, it sends raw bytes under
# the same name. It uses 1.0 with this server, unless only 0.3 is served.
_TEXT_CALLERS = {
    "GRPC": frozenset({"grpc-python", "grpc-python-asyncio", "grpc-go"}),
    "HTTP+JSON": frozenset({"python-httpx"}),
}
_OURS = (
    "accord"  # our client goes by the letter, also over grpcio, which adds its own name behind ours
)

# What Python's web servers say of themselves: an agent on 0.3 behind one is a2a-sdk's. gRPC servers
# say nothing.
_TEXT_SERVERS = frozenset(
    {"uvicorn", "hypercorn-h11", "hypercorn-h2", "hypercorn-h3", "gunicorn", "daphne", "granian"}
)


def form_of_caller(binding: str, user_agent: str) -> Form:
    """Return the form a client sends on a binding, and gets back."""
    products = _products(user_agent)
    return Form.TEXT if _OURS not in products and products & _TEXT_CALLERS[binding] else Form.RAW


def form_of_server(server: str) -> Form | None:
    """Return the form that the agent behind a `Server` header uses; None if the header does not
    tell.
    """
    return Form.TEXT if _products(server) & _TEXT_SERVERS else None


def _products(header: str) -> set[str]:
    """The names in a header like `name/1.0 other/2.0 (comment)`."""
    return {word.partition("/")[0].lower() for word in header[:500].split()}


def write_bytes(raw: str, form: Form) -> str:
    """Return the JSON of the field for a content that is given as base64."""
    return raw if form is Form.RAW else base64.b64encode(raw.encode("ascii")).decode()


def read_bytes(value: Any, field: str, form: Form) -> str:
    """Return the content as base64; `value` is the JSON of the field. Raises InvalidParams."""
    stored = plain_base64(value, field)
    if form is Form.RAW:
        return stored
    try:
        return plain_base64(base64.b64decode(stored).decode("ascii"), field)
    except (UnicodeDecodeError, InvalidParams):
        raise refuse(
            field, "does not hold base64 text, as the library of this sender writes it"
        ) from None
