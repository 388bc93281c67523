"""Free probes: `GetTask` of a random id must be answered with TaskNotFound.

That proves address, TLS, credentials, binding, version and the form of errors, and costs the agent
nothing: no task is made. What is wrong has a category and a sentence that says what to fix.
"""

import asyncio
import json
import re
import time
from enum import StrEnum
from typing import Any

import msgspec

from ..client import (
    NO_RETRY,
    AgentFault,
    BadAnswer,
    BadCard,
    Budget,
    Cards,
    Client,
    ConnectionLost,
    TooSlow,
    Unreachable,
    connect,
)
from ..model import (
    PROBE,
    A2AError,
    AgentCard,
    GetTaskRequest,
    Message,
    MethodNotFound,
    Part,
    PermissionDenied,
    Role,
    SendConfiguration,
    SendMessageRequest,
    TaskNotFound,
    TaskState,
    Unauthenticated,
    Unavailable,
    VersionNotSupported,
    new_id,
)
from ..net import safe_url
from ..protocol import NEWEST
from .interface import CallOutcome, CheckedInterface
from .record import ExchangeRecorder

__all__ = [
    "PROBE",
    "Category",
    "InterfaceProbe",
    "ProbeReport",
    "judge",
    "no_card",
    "open_agent",
    "probe",
    "probe_message",
]

TIMEOUT_S = 15.0
MESSAGE = "Hello, what can you do?"

# What agents say when a service behind them fails, not they themselves.
_BACKEND = re.compile(
    r"api[ _-]?key|openai|anthropic|gemini|bedrock|azure|upstream|rate.?limit|quota|"
    r"model .{0,40}(not found|overloaded|unavailable)|bad gateway|gateway time-?out",
    re.IGNORECASE,
)
_PAYMENT = re.compile(r"payment required|x402|insufficient (funds|credit)", re.IGNORECASE)


class Category(StrEnum):
    """Name what is wrong with an agent; OK if nothing is."""

    OK = "OK"
    DNS = "DNS"
    REFUSED = "REFUSED"
    TLS = "TLS"
    TIMEOUT = "TIMEOUT"
    NO_INTERFACE = "NO_INTERFACE"
    NOT_FOUND = "NOT_FOUND"
    WRONG_VERB = "WRONG_VERB"
    BAD_JSON = "BAD_JSON"
    BAD_SHAPE = "BAD_SHAPE"
    WRONG_VERSION = "WRONG_VERSION"
    NO_METHOD = "NO_METHOD"
    AGENT_FAILED = "AGENT_FAILED"
    ITS_BACKEND = "ITS_BACKEND"
    PAYMENT = "PAYMENT"
    TOO_SLOW = "TOO_SLOW"
    LOCKED = "LOCKED"


_FIX = {
    Category.OK: "",
    Category.DNS: "The name in {url} is not known. Register it, or correct the address.",
    Category.REFUSED: "Nothing answers at {url}. Start the agent, or correct the address.",
    Category.TLS: "There is no secure connection to {url}. Renew its certificate, or name an "
    "address without TLS as http://.",
    Category.TIMEOUT: "{url} takes no connections. Open it in the firewall, or correct the "
    "address.",
    Category.NO_INTERFACE: "The card names no interface that can be used. List one of JSONRPC, "
    "HTTP+JSON or GRPC, with its address and version.",
    Category.NOT_FOUND: "There is nothing at {url}. Correct the path in the card, or serve the "
    "agent there.",
    Category.WRONG_VERB: "{url} does not take the HTTP method that the binding uses. Serve A2A "
    "there, or correct the path in the card.",
    Category.BAD_JSON: "{url} does not answer with JSON. Serve A2A there, or correct the path in "
    "the card; look whether a proxy answers in its place.",
    Category.BAD_SHAPE: "{url} answers in another form than A2A {version} over {binding}. Correct "
    "the answer, or the version and binding in the card.",
    Category.WRONG_VERSION: "{url} refuses A2A {version}, which the card names. Correct "
    "protocolVersion in the card, or serve that version.",
    Category.NO_METHOD: "{url} does not know the methods of A2A {version}. Serve them, or correct "
    "protocolVersion in the card: the names of the methods depend on it.",
    Category.AGENT_FAILED: "{url} fails. Look into the agent's log.",
    Category.ITS_BACKEND: "The agent answers, but a service behind it fails. Look at its model, "
    "its keys and what it calls.",
    Category.PAYMENT: "The agent asks for payment. Pay for it, or ask its owner for access.",
    Category.TOO_SLOW: "{url} takes too long to answer. Make it faster, or answer early with a "
    "task.",
    Category.LOCKED: "The agent needs a credential{schemes}. Add one.",
}

_GUARDED = "{url} may not be called from here. Allow its network, or correct the address."


class InterfaceProbe(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Report what a probe of one interface found."""

    interface: str
    category: Category
    sentence: str = ""  # what to fix; empty if nothing is wrong
    said: str = ""  # the answer, or what came instead of one
    ms: int = 0

    @property
    def is_ok(self) -> bool:
        return self.category is Category.OK


class ProbeReport(msgspec.Struct, kw_only=True):
    """Report what a probe of an agent found. If the card can't be had, `interfaces` is empty and
    `category` says why.
    """

    category: Category  # the worst of all interfaces
    sentence: str = ""
    said: str = ""
    card: AgentCard | None = None
    interfaces: list[InterfaceProbe] = []

    @property
    def is_ok(self) -> bool:
        return self.category is Category.OK


def open_agent(
    place: Any, recorder: ExchangeRecorder, timeout_s: float = TIMEOUT_S, **options: Any
) -> Client:
    """Return a client for checks: nothing is repeated, every exchange is recorded."""
    budget = Budget(
        connect_s=min(0.8 * timeout_s, 10.0),  # shorter than a call, to tell the two apart
        call_s=timeout_s,
        card_s=timeout_s,
        work_s=timeout_s,
    )
    options.setdefault("budget", budget)
    return connect(place, wrap=recorder.wrap, retry=NO_RETRY, cards=Cards(), **options)


async def probe(place: Any, *, timeout_s: float = TIMEOUT_S, **options: Any) -> ProbeReport:
    """Probe every interface of an agent, without making it work.

    Args:
        place: The agent, as `accord.connect` takes it.
        timeout_s: How long each interface may take.
        options: Those of `accord.connect`, like `auth` and `guard`.
    """
    recorder = ExchangeRecorder()
    client = open_agent(place, recorder, timeout_s, **options)
    try:
        try:
            await client.open()
        except (A2AError, AgentFault) as error:
            return no_card(error, recorder, str(place))
        interfaces = [
            CheckedInterface(client, interface, recorder, timeout_s)
            for interface in client.connection.found.interfaces
        ]
        found = [await _probe_interface(interface) for interface in interfaces]
        worst = next((one for one in found if not one.is_ok), found[0])
        return ProbeReport(
            category=worst.category,
            sentence=worst.sentence,
            said=worst.said,
            card=client.card,
            interfaces=found,
        )
    finally:
        await client.close()


async def _probe_interface(interface: CheckedInterface) -> InterfaceProbe:
    begun = time.monotonic()
    outcome = await interface.call("GetTask", GetTaskRequest(id=new_id()))
    found = judge(interface, outcome)
    return msgspec.structs.replace(found, ms=int(1000 * (time.monotonic() - begun)))


async def probe_message(
    place: Any,
    *,
    message: str = MESSAGE,
    timeout_s: float = TIMEOUT_S,
    **options: Any,
) -> InterfaceProbe:
    """Send an agent a real message over its preferred interface, and judge the answer.

    The message carries `metadata.probe`. An agent that offers the extension `urn:accord:probe:1`
    answers it by an echo, without calling a skill.
    """
    recorder = ExchangeRecorder()
    client = open_agent(place, recorder, timeout_s, **options)
    begun = time.monotonic()
    try:
        try:
            await client.open()
        except (A2AError, AgentFault) as error:
            report = no_card(error, recorder, str(place))
            return InterfaceProbe(
                interface=safe_url(str(place)),
                category=report.category,
                sentence=report.sentence,
                said=report.said,
            )
        interface = CheckedInterface(client, client.connection.interface, recorder, timeout_s)
        offered = {extension.uri for extension in client.card.capabilities.extensions}
        request = SendMessageRequest(
            message=Message(
                message_id=new_id(),
                role=Role.USER,
                parts=[Part(text=message)],
                metadata={"probe": True},
            ),
            configuration=SendConfiguration(),
        )
        outcome = await interface.call(
            "SendMessage", request, extensions=PROBE if PROBE in offered else ""
        )
        found = judge_message(interface, outcome)
        return msgspec.structs.replace(found, ms=int(1000 * (time.monotonic() - begun)))
    finally:
        await client.close()


# Judging


def judge(interface: CheckedInterface, outcome: CallOutcome) -> InterfaceProbe:
    """Judge an interface by its answer to a `GetTask` of a random id."""
    error = outcome.error
    if isinstance(error, TaskNotFound) and not _is_bare_404(interface, outcome):
        return _found(interface, Category.OK, outcome)
    if error is None:
        return _found(interface, Category.BAD_SHAPE, outcome)
    return _found(interface, _category(error, outcome, interface), outcome)


def judge_message(interface: CheckedInterface, outcome: CallOutcome) -> InterfaceProbe:
    """Judge an agent by its answer to a message."""
    if outcome.error is not None:
        said = outcome.said
        category = _category(outcome.error, outcome, interface)
        if category in (Category.AGENT_FAILED, Category.BAD_SHAPE):
            category = _by_words(said, category)
        return _found(interface, category, outcome)
    task = outcome.result.task
    if task is not None and task.status.state is TaskState.FAILED:
        said = task.status.message.text if task.status.message is not None else ""
        found = _found(interface, _by_words(said, Category.AGENT_FAILED), outcome)
        words = " ".join(said.split())[:300]
        return msgspec.structs.replace(found, said=f"the task failed: {words}")
    if task is not None and task.status.state is TaskState.AUTH_REQUIRED:
        return _found(interface, Category.LOCKED, outcome)
    return _found(interface, Category.OK, outcome)


def _by_words(said: str, otherwise: Category) -> Category:
    if _PAYMENT.search(said):
        return Category.PAYMENT
    return Category.ITS_BACKEND if _BACKEND.search(said) else otherwise


def _found(interface: CheckedInterface, category: Category, outcome: CallOutcome) -> InterfaceProbe:
    one = interface.interface
    schemes = ", ".join(interface.card.security_schemes)[:200]
    error = outcome.error
    is_ours = isinstance(error, Unreachable) and error.cause == "guard"
    sentence = (_GUARDED if is_ours else _FIX[category]).format(
        url=safe_url(one.url) if "://" in one.url else one.url,
        version=one.protocol_version,
        binding=one.protocol_binding,
        schemes=f" for {schemes}" if schemes else "",
    )
    return InterfaceProbe(
        interface=interface.name,
        category=category,
        sentence=sentence,
        said="" if category is Category.OK else outcome.said,
    )


_UNREACHABLE = {
    "dns": Category.DNS,
    "tls": Category.TLS,
    "timeout": Category.TIMEOUT,
    "refused": Category.REFUSED,
    "guard": Category.REFUSED,
}


def _category(
    error: Exception, outcome: CallOutcome, interface: CheckedInterface | None
) -> Category:
    match error:
        case Unauthenticated() | PermissionDenied():
            return Category.LOCKED
        case Unreachable():
            return _UNREACHABLE[error.cause]
        case TooSlow() | asyncio.TimeoutError():
            return Category.TOO_SLOW
        case ConnectionLost():
            return Category.AGENT_FAILED
        case VersionNotSupported():
            return Category.WRONG_VERSION
        case BadAnswer():
            return _of_status(error.http_status) or _of_body(outcome)
        case TaskNotFound():  # a bare 404
            return Category.NOT_FOUND
        case MethodNotFound():
            by_status = _of_status(outcome.exchange.status)
            is_rest = interface is not None and interface.is_rest
            return by_status if is_rest and by_status is not None else Category.NO_METHOD
        case Unavailable():
            is_behind = outcome.exchange.status in (502, 504)
            return Category.ITS_BACKEND if is_behind else Category.AGENT_FAILED
    by_status = _of_status(outcome.exchange.status)
    if by_status is not None and by_status is not Category.NOT_FOUND:
        return by_status
    # a plain internal error is the agent's; any other says what A2A does not have here
    return Category.AGENT_FAILED if type(error) is A2AError else Category.BAD_SHAPE


def _of_status(status: int) -> Category | None:
    match status:
        case 402:
            return Category.PAYMENT
        case 405:
            return Category.WRONG_VERB
        case 404 | 410 | 301 | 302 | 303 | 307 | 308:
            return Category.NOT_FOUND
        case 502 | 504:
            return Category.ITS_BACKEND
        case _ if status >= 500:
            return Category.AGENT_FAILED
    return None


def _of_body(outcome: CallOutcome) -> Category:
    exchange = outcome.exchange
    if 300 <= exchange.status < 400:
        return Category.NOT_FOUND
    if not exchange.status:
        return Category.BAD_SHAPE
    try:
        json.loads(exchange.body)
    except (ValueError, RecursionError):
        return Category.BAD_JSON
    return Category.BAD_SHAPE


def _is_bare_404(interface: CheckedInterface, outcome: CallOutcome) -> bool:
    """Whether a 404 is that of a web framework for a path it does not have: it says nothing of a
    task.
    """
    if not interface.is_rest or interface.is_1:
        return False
    try:
        said = json.loads(outcome.exchange.body or b"null")
    except (ValueError, RecursionError):
        return True
    return said in (None, {"detail": "Not Found"})


def no_card(error: A2AError | AgentFault, recorder: ExchangeRecorder, place: str) -> ProbeReport:
    """Report why there is no card."""
    last = CallOutcome(exchange=recorder.exchanges[-1]) if recorder.exchanges else CallOutcome()
    said = error.fault if isinstance(error, AgentFault) else str(error)
    if isinstance(error, BadCard):
        category = _BAD_CARD[error.cause]
    else:
        category = _category(error, last, None)
    sentence = _CARD_FIX.get(category) or _FIX[category].format(
        url=safe_url(place), version=NEWEST, binding="HTTP", schemes=""
    )
    return ProbeReport(category=category, sentence=sentence, said=said)


_BAD_CARD = {
    "missing": Category.NOT_FOUND,
    "several": Category.NOT_FOUND,
    "not JSON": Category.BAD_JSON,
    "no interface": Category.NO_INTERFACE,
    "content": Category.BAD_SHAPE,
}
_CARD_FIX = {
    Category.NOT_FOUND: "There is no card. Serve it at /.well-known/agent-card.json, or name its "
    "own address.",
    Category.BAD_JSON: "The card is not JSON. Serve the card itself at its address.",
    Category.BAD_SHAPE: "The card can't be used. Write it as A2A has it: accord card get "
    "--validate says what is wrong.",
    Category.LOCKED: "The card needs a credential. Add one, or serve the card to everybody.",
}
