"""A2A 1.1 over HTTP+JSON from the client's side."""

from ..v1 import rest_client as v1_rest_client
from . import client as v11_client

__all__ = ["error", "extensions_header", "frames", "result", "route", "version"]

version = v11_client.version
extensions_header = v11_client.extensions_header
route = v1_rest_client.route
result = v11_client.result
frames = v11_client.frames
error = v1_rest_client.error
