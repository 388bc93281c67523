"""Receives push notifications: verifies them, makes tasks of them, and gives them to a function."""

import contextlib
import hmac
import inspect
import logging
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Container, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs

import msgspec
from msgspec.structs import replace

from ..model import (
    A2AError,
    ArtifactUpdate,
    Event,
    Fold,
    Limits,
    Message,
    StatusUpdate,
    Task,
    TaskState,
    TaskStatus,
    new_id,
    whole_number,
)
from ..net import parse_url
from ..observe import enter, tracing
from ..protocol import MessageIds, read_mended, spoken_version
from ..protocol.v01 import client as v01
from ..protocol.v03 import client as v03
from .signing import digest, is_signed, read_delivery_id, secrets_of

if TYPE_CHECKING:
    from ..auth import KeySource

__all__ = ["Notified", "Receiver", "Refusal"]

log_ = logging.getLogger("accord.push")

MAX_AGE_S = 300.0
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
SKEW_S = 60.0  # how far clocks may be apart
_LAST_S = 253_402_300_800  # the end of the year 9999
MAX_BODY = 64 << 20
TASKS = 1_000  # how many are remembered
SEEN = 100_000  # deliveries that are remembered
# What readers raise for a body that is no event: members of other kinds than expected.
_NO_EVENT = (
    *(ValueError, TypeError, KeyError, AttributeError, RecursionError),
    msgspec.MsgspecError,
)
CHALLENGE = "validationToken"

_decode_json = msgspec.json.Decoder().decode


class Notified(msgspec.Struct, frozen=True):
    """A notification that was verified."""

    task_id: str
    event: Event | Message
    task: Task  # as far as it is known here: the events received so far, folded
    number: int | None = None  # of the event in its task, if the sender numbers them
    id: str = ""  # of the delivery: the same if it comes again

    @property
    def state(self) -> TaskState:
        return self.task.status.state


class Refusal(Exception):
    """A notification that is not taken: the HTTP status it is answered with, and why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class _Proof(NamedTuple):
    """Hold what a signature proves."""

    at_s: float
    once: str  # no two deliveries have the same
    task_id: str = ""


Handler = Callable[[Notified], Awaitable[None] | None]


class Receiver:
    """Receive push notifications, as an ASGI app.

    async def on_event(notified: Notified): print(notified.task_id, notified.state.word)

    receiver = Receiver(
        on_event, agent="https://agent.example.com", url="https://me.example/hooks/", token="k7-ops"
    )
    uvicorn.run(receiver)                   # or in FastAPI: app.mount("/hooks", receiver)

    A notification that is not valid is answered with 401, and one that came before with 200;
    neither is passed on. If the function fails, the answer is 500, so the sender tries again.

    Args:
        handle: A function that is called with each new notification.
        agent: The address of the agent. Notifications must be signed with a key that it publishes
          at `/.well-known/jwks.json`.
        jwks: The agent's keys, if they are elsewhere: a URL, a file, or a JWK set.
        url: The URL of this webhook, as the agent knows it. The agent signs it too, so a
          notification for another webhook is refused. Without it, whoever runs another webhook of
          the same agent can forward here what was sent there.
        secret: The secret that the agent signs with (Standard Webhooks), like `whsec_...`; two
          while you change it.
        token: The `token` of the push config, which each notification must have.
        credentials: The `authentication.credentials` of the push config, which each notification
          must have in `Authorization`, after the name of the scheme.
        tasks: The ids of the tasks that are expected; by default all.
        is_unverified: Accept notifications without a signature or token. For tests.
    """

    def __init__(
        self,
        handle: Handler | None = None,
        *,
        agent: str = "",
        jwks: "str | Mapping[str, Any] | None" = None,
        url: str = "",
        secret: str = "",
        token: str = "",
        credentials: str = "",
        tasks: Container[str] | None = None,
        is_unverified: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if not (agent or jwks or secret or token or credentials or is_unverified):
            raise ValueError(
                "nothing would be verified: give agent=, jwks=, secret=, token= or credentials=, "
                "or is_unverified=True in a test"
            )
        if url and not (agent or jwks):
            raise ValueError("url= is verified by the agent's signature: give agent= or jwks= too")
        self.handle = handle
        self.url = url
        self.tasks = tasks
        self._issuer = agent.rstrip("/")
        self._keys = _keys(jwks or (f"{self._issuer}/.well-known/jwks.json" if agent else None))
        self._secrets = secrets_of(secret) if secret else []
        self._token = token.encode()
        self._credentials = credentials.encode()
        self._clock = clock
        self._folds: OrderedDict[str, Fold] = OrderedDict()
        self._taken: OrderedDict[str, None] = OrderedDict()  # deliveries, by their id
        self._used: OrderedDict[str, float] = OrderedDict()  # proofs, and until when they count

    # Receiving

    async def receive(self, headers: Mapping[str, str], body: bytes) -> Notified | None:
        """Take a notification, with the names of its headers in lower case. Returns None for one
        that was taken before.

        Raises:
            Refusal: It is not taken.
        """
        proof = await self._verified(headers, body)
        sent_as = headers.get("webhook-id", "")
        event, task_id = self._read(body, sent_as, headers.get("a2a-version", ""))
        if proof is not None and proof.task_id and proof.task_id != task_id:
            raise Refusal(401, "the signature is for another task")
        if self.tasks is not None and task_id not in self.tasks:
            raise Refusal(403, "nobody waits for this task")
        if proof is not None:
            self._use(proof)
        if sent_as and sent_as in self._taken:
            return None
        place = read_delivery_id(sent_as)
        number = place[1] if place is not None and place[0] == task_id else None
        notified = Notified(task_id, event, self._folded(task_id, event), number, sent_as)
        if self.handle is not None:
            enter(headers.get("traceparent", ""), headers.get("tracestate", ""))
            spans = tracing()
            with spans.received(task_id) if spans is not None else contextlib.nullcontext():
                await self._notify(self.handle, notified)
        if sent_as:
            _remember(self._taken, sent_as, None)
        return notified

    async def _notify(self, handle: Handler, notified: Notified) -> None:
        try:
            awaited = handle(notified)
            if inspect.isawaitable(awaited):
                await awaited
        except Exception as error:
            log_.exception("a notification of task %s could not be handled", notified.task_id)
            raise Refusal(500, "it could not be handled; send it again") from error

    async def _verified(self, headers: Mapping[str, str], body: bytes) -> _Proof | None:
        given = headers.get("x-a2a-notification-token", "").encode("utf-8", "surrogateescape")
        if self._token and not hmac.compare_digest(given, self._token):
            raise Refusal(401, "the token is not the one that was agreed")
        if self._credentials and not self._is_authorized(headers.get("authorization", "")):
            raise Refusal(401, "the credentials are not those that were agreed")
        proof = None
        if self._secrets:
            proof = self._signed_by_secret(headers, body)
        elif self._keys is not None:
            proof = await self._signed_by_key(self._keys, headers, body)
        if proof is not None:
            age_s = self._clock() - proof.at_s
            if age_s > MAX_AGE_S:
                raise Refusal(401, "it was signed too long ago")
            if age_s < -SKEW_S:
                raise Refusal(401, "it was signed in the future")
            if self._used.get(proof.once, 0.0) > self._clock():
                raise Refusal(401, "it was already received")
        return proof

    def _is_authorized(self, header: str) -> bool:
        shown = header.partition(" ")[2].strip().encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._credentials)

    def _signed_by_secret(self, headers: Mapping[str, str], body: bytes) -> _Proof:
        sent_as, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        signature = headers.get("webhook-signature", "")
        if not sent_as or not signature or whole_number(at) is None:
            raise Refusal(401, "it is not signed as Standard Webhooks are")
        if not is_signed(self._secrets, sent_as, at, body, signature):
            raise Refusal(401, "the signature is not valid")
        place = read_delivery_id(sent_as)
        return _Proof(float(at), f"{sent_as} {at}", place[0] if place is not None else "")

    async def _signed_by_key(
        self, keys: "KeySource", headers: Mapping[str, str], body: bytes
    ) -> _Proof:
        from ..auth import InvalidSignature, IssuerUnavailable, verify  # brings cryptography

        token = headers.get("x-a2a-signature", "")
        if not token:
            scheme, _, token = headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or token.count(".") != 2:
                raise Refusal(401, "it is not signed")
        kid = _kid(token)
        try:
            _, payload, _ = verify(token, await keys.keys(kid))
            claims = _decode_json(payload)
            at_s, once = _seconds(claims["iat"]), str(claims["jti"])
            expires_s, issuer = _seconds(claims["exp"]), claims.get("iss", "")
            hashed = claims["request_body_sha256"]
        except IssuerUnavailable as error:
            raise Refusal(503, f"the agent's keys can't be fetched: {error}") from None
        except InvalidSignature as error:
            raise Refusal(401, str(error)) from None
        except (KeyError, TypeError, ValueError, msgspec.MsgspecError):
            raise Refusal(401, "the signature lacks a claim: iat, exp, jti, body hash") from None
        if not isinstance(hashed, str) or not hmac.compare_digest(
            hashed.encode(), digest(body).encode()
        ):
            raise Refusal(401, "the body is not the one that was signed")
        if self._issuer and _one_name(str(issuer)) != _one_name(self._issuer):
            raise Refusal(401, f"it was signed by {issuer!r:.200}, not by {self._issuer}")
        if self.url and not _is_for(self.url, claims.get("aud")):
            raise Refusal(401, f"it was signed for another webhook than {_without_query(self.url)}")
        if self._clock() > expires_s + SKEW_S:
            raise Refusal(401, "the signature has expired")
        sent_as = headers.get("webhook-id", "")
        if claims.get("sub") and sent_as and claims["sub"] != sent_as:
            raise Refusal(401, "the signature is for another delivery")
        return _Proof(at_s, once, str(claims.get("taskId", "")))

    def _use(self, proof: _Proof) -> None:
        now = self._clock()
        while self._used and next(iter(self._used.values())) < now:
            self._used.popitem(last=False)
        _remember(self._used, proof.once, now + MAX_AGE_S + SKEW_S)

    # Understanding

    def _read(self, body: bytes, sent_as: str, version: str) -> tuple[Event | Message, str]:
        """The event in a body, whatever version wrote it, and the id of its task."""
        try:
            event = _event_of(body, sent_as, version)
        except (*_NO_EVENT, A2AError):
            raise Refusal(400, "the body is not an A2A event") from None
        task_id = event.id if isinstance(event, Task) else event.task_id
        if not task_id:
            raise Refusal(400, "the body names no task")
        return event, task_id

    def _folded(self, task_id: str, event: Event | Message) -> Task:
        fold = self._folds.get(task_id)
        if isinstance(event, Task):
            fold = Fold(event)
        elif fold is None:  # the first that is heard of it
            status = (
                event.status
                if isinstance(event, StatusUpdate)
                else TaskStatus(state=TaskState.UNSPECIFIED)
            )
            fold = Fold(Task(id=task_id, context_id=event.context_id, status=status))
            if isinstance(event, ArtifactUpdate):
                _apply(fold, event)
        elif not isinstance(event, Message):
            _apply(fold, event)
        _remember(self._folds, task_id, fold, TASKS)
        task = fold.joined()
        # A copy: the next event changes the original.
        return replace(task, history=[*task.history], artifacts=[*task.artifacts])

    # HTTP

    async def __call__(
        self,
        scope: dict[str, Any],
        receive: Callable[[], Awaitable[dict[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
    ) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["type"] == "http":
            status, text = await self.answer(
                scope["method"],
                scope.get("query_string", b"").decode("latin-1"),
                {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in scope["headers"]},
                await _body(receive),
            )
            headers = [(b"content-type", b"text/plain"), (b"content-length", b"%d" % len(text))]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": text})

    async def answer(
        self, verb: str, query: str, headers: Mapping[str, str], body: bytes | None
    ) -> tuple[int, bytes]:
        """Answer an HTTP request with a status and a text. For servers that don't use ASGI."""
        if verb == "GET":  # who registers this address has to show that it listens there
            return 200, parse_qs(query).get(CHALLENGE, [""])[0].encode()[:1000]
        if verb != "POST":
            return 405, b"notifications are sent with POST"
        if body is None:
            return 413, b"too large"
        try:
            await self.receive(headers, body)
        except Refusal as refusal:
            if refusal.status < 500:
                log_.warning("a notification was refused: %s", refusal)
            return refusal.status, str(refusal).encode()
        return 200, b""


def _apply(fold: Fold, event: StatusUpdate | ArtifactUpdate) -> None:
    try:
        fold.apply(event, Limits())
    except A2AError:  # it contradicts what came before, or goes on with what was never heard of
        if isinstance(event, StatusUpdate):
            fold.draft.status = event.status  # the newest counts


def _one_name(agent: str) -> str:
    """Return the address of an agent with one name for this machine, which has several: an agent
    that is called as localhost may sign as 127.0.0.1.
    """
    try:
        url = parse_url(agent)
    except ValueError:
        return agent
    return str(url._replace(host="localhost")) if url.host in _THIS_MACHINE else agent


def _keys(jwks: "str | Mapping[str, Any] | None") -> "KeySource | None":
    if jwks is None:
        return None
    from ..auth import FileKeys, RemoteKeys  # brings cryptography

    if isinstance(jwks, str) and jwks.startswith(("http://", "https://")):
        return RemoteKeys(jwks)
    return FileKeys(jwks)


def _is_for(url: str, audience: object) -> bool:
    """Whether a claim `aud`, a text or a list of texts (RFC 7519, section 4.1.3), names a URL."""
    named = audience if isinstance(audience, list) else [audience]
    return _without_query(url) in {_without_query(one) for one in named if isinstance(one, str)}


def _without_query(url: str) -> str:
    """A URL as the sender signs it: its query may hold a secret. An empty path is `/`."""
    url = url.partition("?")[0]
    return url + "/" if url.count("/") == 2 else url


def _seconds(value: Any) -> float:
    """Return a time as claims have it. Raises ValueError for what is no number, or has no age:
    `"nan"` is neither early nor late.
    """
    if type(value) not in (int, float) or not 0 <= value <= _LAST_S:
        raise ValueError("no time")
    return float(value)


def _kid(token: str) -> str | None:
    from ..auth import InvalidSignature, header_of

    try:
        kid = header_of(token).get("kid")
    except InvalidSignature as error:
        raise Refusal(401, str(error)) from None
    return kid if isinstance(kid, str) else None


def _event_of(body: bytes, sent_as: str, version: str) -> Event | Message:
    """Read the event in a body, mended as the client mends answers."""
    value = _decode_json(body)
    if not isinstance(value, dict):
        raise ValueError("no object")
    ids = MessageIds(sent_as or new_id())
    if "kind" in value:
        return read_mended(body, v03.read_event, v03.READERS, ids, log_.debug)
    if "id" in value and "status" in value:
        return read_mended(body, v01.read_task, v01.READERS, ids, log_.debug)
    return spoken_version(version).read_pushed(body, ids, log_.debug)


def _remember(known: OrderedDict[str, Any], name: str, value: Any, most: int = SEEN) -> None:
    known[name] = value
    known.move_to_end(name)
    while len(known) > most:
        known.popitem(last=False)


async def _body(receive: Callable[[], Awaitable[dict[str, Any]]]) -> bytes | None:
    """The body of a request; None if it is too large."""
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > MAX_BODY:
            return None
        if not message.get("more_body"):
            return bytes(body)


async def _live(
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})
