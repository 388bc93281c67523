"""One attempt to deliver one event."""

import datetime
import enum
import secrets
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from ..model import whole_number
from ..net import AgentFault, Http, Request, Response, origin_of
from ..observe import NO_TRACE, Trace, child_of, tracing
from .signing import HMAC_SCHEME, delivery_id, digest, hmac_signature, secrets_of
from .webhooks import Webhook

if TYPE_CHECKING:
    from ..auth import Keyring

__all__ = ["AttemptResult", "Deliverer", "Notification", "SeenAttempt", "Verdict"]

TOKEN_HEADER = "X-A2A-Notification-Token"
SIGNATURE_HEADER = "X-A2A-Signature"
MAX_RETRY_AFTER_S = 3600.0
VALID_S = 300  # how long a signature is valid
MAX_ANSWER = 64 << 10  # only the status of an answer counts


class Verdict(enum.Enum):
    DELIVERED = "delivered"
    LATER = "later"  # it is tried again
    REFUSED = "refused"  # it will never be taken: dead letter
    GONE = "gone"  # nothing will: the webhook is disabled


class AttemptResult(NamedTuple):
    verdict: Verdict
    error: str = ""
    after_s: float | None = None  # what the endpoint asks for
    is_down: bool = False  # the endpoint, not this event, is the trouble


class Notification(NamedTuple):
    """An event, as one version of the protocol pushes it."""

    task_id: str
    config_id: str
    number: int
    body: bytes
    content_type: str
    version: str  # of the protocol
    trace: Trace = NO_TRACE  # the one the task belongs to


class SeenAttempt(NamedTuple):
    """An attempt as somebody who watches sees it."""

    what: Notification
    endpoint: str  # the origin of the webhook: the rest of its address may be a secret
    at_ms: int
    ms: float
    verdict: Verdict
    error: str
    headers: Mapping[str, str]
    status: int  # 0 if there was no answer
    answer_headers: Mapping[str, str]
    answer: bytes


class Deliverer:
    """Signs and sends. Redirects are not followed, and of an answer only the status counts."""

    def __init__(
        self,
        http: Callable[[], Http],
        keyring: Callable[[], "Keyring"],
        issuer: Callable[[], str],
        *,
        timeout_s: float,
    ) -> None:
        self._http = http
        self._keyring = keyring
        self._issuer = issuer
        self._timeout_s = timeout_s
        self.on_attempt: Callable[[SeenAttempt], None] | None = None  # called after each

    async def attempt(self, webhook: Webhook, what: Notification) -> AttemptResult:
        spans = tracing()
        if spans is None:
            return await self._attempt(webhook, what._replace(trace=child_of(what.trace)))
        span = spans.push(what.trace, what.task_id, what.number, webhook.url)
        try:
            result = await self._attempt(webhook, what._replace(trace=span.trace))
            if result.verdict is not Verdict.DELIVERED:
                span.fail(result.verdict.value)
            return result
        finally:
            span.end()

    async def _attempt(self, webhook: Webhook, what: Notification) -> AttemptResult:
        since_s = time.time()
        headers = self.headers(webhook, what, int(since_s))
        request = Request("POST", webhook.url, self._timeout_s, headers, what.body)
        answer: Response | None = None
        try:
            answer = await self._http().fetch(request, limit=MAX_ANSWER)
        except AgentFault as error:
            result = AttemptResult(Verdict.LATER, _storable(error.fault), is_down=True)
        else:
            result = _judged(answer.status, answer.headers.get("Retry-After"))
        if self.on_attempt is not None:
            self.on_attempt(
                SeenAttempt(
                    what,
                    origin_of(webhook.url),
                    int(since_s * 1000),
                    (time.time() - since_s) * 1000,
                    result.verdict,
                    result.error,
                    headers,
                    0 if answer is None else answer.status,
                    {} if answer is None else answer.headers,
                    b"" if answer is None else answer.body,
                )
            )
        return result

    def headers(self, webhook: Webhook, what: Notification, now_s: int) -> dict[str, str]:
        """Return the headers of a body: the sender, what the config asks for, and signatures."""
        sent_as = delivery_id(what.task_id, what.number, what.config_id)
        headers = {
            "Content-Type": what.content_type,
            "A2A-Version": what.version,
            "webhook-id": sent_as,
            "webhook-timestamp": str(now_s),
        }
        if what.trace.traceparent:
            headers["traceparent"] = what.trace.traceparent
        if what.trace.tracestate:
            headers["tracestate"] = what.trace.tracestate
        if webhook.token:
            headers[TOKEN_HEADER] = webhook.token
        is_hmac = webhook.scheme.lower() == HMAC_SCHEME
        if is_hmac:
            headers["webhook-signature"] = hmac_signature(
                secrets_of(webhook.credentials), sent_as, now_s, what.body
            )
        elif webhook.scheme and webhook.credentials:
            headers["Authorization"] = f"{webhook.scheme} {webhook.credentials}"
        jwt = self._keyring().sign(self._claims(webhook, what, sent_as, now_s))
        if webhook.scheme.lower() == "bearer" and not webhook.credentials:
            headers["Authorization"] = f"{webhook.scheme} {jwt}"
        else:
            headers[SIGNATURE_HEADER] = jwt
        return headers

    def _claims(
        self, webhook: Webhook, what: Notification, sent_as: str, now_s: int
    ) -> dict[str, object]:
        return {
            "iss": self._issuer(),
            "aud": webhook.url.partition("?")[0],
            "iat": now_s,
            "exp": now_s + VALID_S,
            "jti": secrets.token_urlsafe(12),
            "taskId": what.task_id,
            "sub": sent_as,
            "request_body_sha256": digest(what.body),
        }


def _storable(text: str) -> str:
    """Return a text without characters a database refuses: an endpoint may have written it."""
    return text.replace("\0", "").encode("utf-8", "replace").decode()


def _judged(status: int, retry_after: str | None) -> AttemptResult:
    if 200 <= status < 300:
        return AttemptResult(Verdict.DELIVERED)
    try:
        text = f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        text = str(status)
    if status == HTTPStatus.GONE:
        return AttemptResult(Verdict.GONE, text)
    if status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        return AttemptResult(
            Verdict.LATER, text, after_s=_seconds(retry_after), is_down=status == 503
        )
    if 400 <= status < 500 and status not in (
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_EARLY,
    ):
        return AttemptResult(Verdict.REFUSED, text)
    return AttemptResult(Verdict.LATER, text, is_down=status >= 500)


def _seconds(retry_after: str | None) -> float | None:
    """Return how long an endpoint asks us to wait, at most an hour; None if it does not say."""
    if not retry_after:
        return None
    wait_s: float | None = whole_number(retry_after)
    if wait_s is not None:
        return min(float(wait_s), MAX_RETRY_AFTER_S)
    try:
        until = parsedate_to_datetime(retry_after)
    except (ValueError, OverflowError):
        return None
    if until.tzinfo is None:
        until = until.replace(tzinfo=datetime.UTC)
    wait_s = (until - datetime.datetime.now(datetime.UTC)).total_seconds()
    return min(max(wait_s, 0.0), MAX_RETRY_AFTER_S)
