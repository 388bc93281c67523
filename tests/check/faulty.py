"""Agents with one fault each, and what a probe must say of them."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from tests.client.peers import Peer, Request, answer, card, scripted, task

__all__ = ["FAULTS", "MESSAGE_FAULTS", "Fault", "MessageFault", "faulty", "says"]

Json = dict[str, Any]


def error(code: int, message: str = "no") -> Callable[[Request], bytes]:
    """An agent that answers every call with one JSON-RPC error."""
    return lambda request: answer(
        {"jsonrpc": "2.0", "id": request.json["id"], "error": {"code": code, "message": message}}
    )


def result(value: Any) -> Callable[[Request], bytes]:
    return lambda request: answer({"jsonrpc": "2.0", "id": request.json["id"], "result": value})


def status(code: int, body: Any = "no", kind: str = "text/plain") -> Callable[[Request], bytes]:
    return lambda request: answer(body, code, kind)


async def silent(request: Request) -> bytes:
    await asyncio.Event().wait()
    return b""


class Fault(NamedTuple):
    name: str
    category: str
    sentence: str  # how it begins or goes on
    calls: Any = error(-32001)  # what the interface answers
    card: Callable[[str], Any] = card  # what the card is, given the agent's address
    place: Callable[[str], str] = lambda url: f"{url}/rpc"  # where the card says the interface is


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def rest(url: str, version: str = "1.0") -> Json:
    interface = {"url": url, "protocolBinding": "HTTP+JSON", "protocolVersion": version}
    return card(url, supportedInterfaces=[interface])


def other_binding(url: str) -> Json:
    interface = {"url": url, "protocolBinding": "PIGEON", "protocolVersion": "1.0"}
    return card(url, supportedInterfaces=[interface])


def grpc(url: str) -> Json:
    interface = {"url": url, "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    return card(url, supportedInterfaces=[interface])


def nowhere(url: str) -> str:
    return f"http://127.0.0.1:{closed_port()}"


LOCKED = "The agent needs a credential"

FAULTS = [
    Fault("healthy", "OK", ""),
    Fault("unknown name", "DNS", "is not known", place=lambda url: "https://agent.invalid/rpc"),
    Fault("nobody there", "REFUSED", "Nothing answers at", place=nowhere),
    Fault(
        "nobody there over gRPC",
        "REFUSED",
        "Nothing answers at",
        card=grpc,
        place=lambda url: f"127.0.0.1:{closed_port()}",
    ),
    Fault("no known binding", "NO_INTERFACE", "names no interface", card=other_binding),
    Fault("no such path", "NOT_FOUND", "There is nothing at", status(404)),
    Fault("no such path, HTTP+JSON", "NOT_FOUND", "There is nothing at", status(404), rest),
    Fault(
        "no such path, 0.3",
        "NOT_FOUND",
        "There is nothing at",
        status(404, {"detail": "Not Found"}, "application/json"),
        lambda url: rest(url, "0.3"),
    ),
    Fault("moved away", "NOT_FOUND", "There is nothing at", status(302)),
    Fault("no card", "NOT_FOUND", "There is no card", card=lambda url: status(404)),
    Fault("only GET", "WRONG_VERB", "does not take the HTTP method", status(405)),
    Fault(
        "a web page", "BAD_JSON", "does not answer with JSON", status(200, "<html>", "text/html")
    ),
    Fault(
        "a web page as card",
        "BAD_JSON",
        "The card is not JSON",
        card=lambda url: status(200, "<p>"),
    ),
    Fault("a task for every id", "BAD_SHAPE", "in another form", result(task())),
    Fault("a list as answer", "BAD_SHAPE", "in another form", status(200, [], "application/json")),
    Fault("invalid parameters", "BAD_SHAPE", "in another form", error(-32602)),
    Fault(
        "some JSON as card",
        "BAD_SHAPE",
        "The card can't be used",
        card=lambda url: status(200, {"hello": "world"}, "application/json"),
    ),
    Fault("another version", "WRONG_VERSION", "refuses A2A 1.0", error(-32009)),
    Fault("other method names", "NO_METHOD", "does not know the methods of A2A 1.0", error(-32601)),
    Fault("an internal error", "AGENT_FAILED", "Look into the agent's log", error(-32603)),
    Fault("HTTP 500", "AGENT_FAILED", "Look into the agent's log", status(500)),
    Fault("HTTP 503", "AGENT_FAILED", "Look into the agent's log", status(503)),
    Fault("hangs up", "AGENT_FAILED", "Look into the agent's log", lambda request: b""),
    Fault("a gateway without its agent", "ITS_BACKEND", "a service behind it", status(502)),
    Fault("a gateway that waits in vain", "ITS_BACKEND", "a service behind it", status(504)),
    Fault("wants money", "PAYMENT", "asks for payment", status(402)),
    Fault("never answers", "TOO_SLOW", "takes too long", silent),
    Fault("unknown caller", "LOCKED", LOCKED, status(401)),
    Fault("forbidden", "LOCKED", LOCKED, status(403)),
    Fault("a locked card", "LOCKED", "The card needs a credential", card=lambda url: status(401)),
]


class MessageFault(NamedTuple):
    name: str
    category: str
    calls: Any


def failed(text: str) -> Callable[[Request], bytes]:
    said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": text}]}
    state = {"state": "TASK_STATE_FAILED", "message": said}
    return result({"task": task(status=state)})


MESSAGE_FAULTS = [
    MessageFault("healthy", "OK", result({"task": task()})),
    MessageFault("fails", "AGENT_FAILED", failed("division by zero")),
    MessageFault("its model's key", "ITS_BACKEND", failed("Incorrect API key provided: sk-…")),
    MessageFault("its model's limits", "ITS_BACKEND", error(-32603, "openai: rate limit reached")),
    MessageFault("wants money", "PAYMENT", failed("Payment required")),
    MessageFault("neither task nor message", "BAD_SHAPE", result({})),
    MessageFault("asks who you are", "LOCKED", result({"task": task("AUTH_REQUIRED")})),
    MessageFault("never answers", "TOO_SLOW", silent),
]


def says(request: Request) -> str:
    """The method of a call; empty for other requests."""
    return str(request.json["method"]) if request.verb == "POST" and request.body else ""


@asynccontextmanager
async def faulty(fault: Fault) -> AsyncIterator[Peer]:
    """Serve an agent with a fault."""
    place = ""

    def handle(request: Request) -> Any:
        if "/.well-known/" not in request.path:
            return fault.calls(request)
        found = fault.card(place)
        if callable(found):
            return found(request)
        return answer(found)

    async with scripted(handle) as peer:
        place = fault.place(peer.url)
        yield peer
