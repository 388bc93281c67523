"""How a message is sent in each version over each HTTP binding: what **Try** fills in and sends."""

from collections.abc import Iterable
from typing import Any

from ..model import Message, Part, Role, SendMessageRequest
from ..operations import Version
from ..protocol import spoken_version

__all__ = ["calls_of"]

# The page puts in place of these what somebody types.
_ID = "%id%"
_SKILL = "%skill%"
_CONTENT = {
    "text": Part(text="%text%"),
    "data": Part(data={"%data%": True}, media_type="application/json"),
}
_OPERATIONS = {"send": "SendMessage", "stream": "SendStreamingMessage"}


def calls_of(versions: Iterable[Version], rpc: str, rest: str) -> dict[str, Any]:
    """Return the requests that Accord's own client would make, by version, binding and operation:
    their path, headers and the body for a text and for data.
    """
    return {version.number: _bindings(version, rpc, rest) for version in versions}


def _bindings(version: Version, rpc: str, rest: str) -> dict[str, Any]:
    spoken = spoken_version(version.number)
    found: dict[str, Any] = {"JSONRPC": {}}
    for name, operation in _OPERATIONS.items():
        headers = {"Content-Type": "application/json"}
        if name == "stream":
            headers["Accept"] = "text/event-stream"
        requests = {kind: _request(part) for kind, part in _CONTENT.items()}
        found["JSONRPC"][name] = {
            "path": rpc,
            "headers": _with_version(headers, spoken.rpc.version),
            "body": {
                kind: '{"jsonrpc":"2.0","id":1,"method":"%s","params":%s}'
                % (spoken.rpc.method(operation), spoken.rpc.params(operation, request).decode())
                for kind, request in requests.items()
            },
        }
        if version.rest and spoken.rest is not None:
            routes = {
                kind: spoken.rest.route(operation, request) for kind, request in requests.items()
            }
            found.setdefault("HTTP+JSON", {})[name] = {
                "path": rest + routes["text"].path,
                "headers": _with_version(headers, spoken.rest.version),
                "body": {kind: (route.body or b"").decode() for kind, route in routes.items()},
            }
    return found


def _request(part: Part) -> SendMessageRequest:
    message = Message(message_id=_ID, role=Role.USER, parts=[part], metadata={"skill": _SKILL})
    return SendMessageRequest(message=message)


def _with_version(headers: dict[str, str], version: str) -> dict[str, str]:
    return headers | ({"A2A-Version": version} if version else {})
