"""Webhooks of tasks: what a config may hold, and how its secrets are stored."""

import asyncio
import contextlib
import logging
import re
import secrets
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import msgspec

from ..model import (
    AuthenticationInfo,
    InvalidParams,
    Limits,
    PushNotificationNotSupported,
    TaskPushNotificationConfig,
    Unavailable,
    new_id,
)
from ..net import Guard, Http, NotPublic, Request, parse_url
from ..store import CommitFailed, Namespace, Push, PushStore
from .settings import PushSettings
from .signing import HMAC_SCHEME, secrets_of

if TYPE_CHECKING:
    from ..auth import Keyring

__all__ = ["Webhook", "Webhooks"]

log_ = logging.getLogger("accord.push")

MAX_URL = 2_048
MAX_TOKEN = 4_096
MAX_CREDENTIALS = 8_192
RESOLVE_S = 5.0
CHALLENGE = "validationToken"

_VISIBLE = re.compile(r"[\x20-\x7e]*")  # what a header can hold, and every receiver reads alike
_SCHEME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,64}")


class Webhook(msgspec.Struct, frozen=True, omit_defaults=True):
    """Hold the secrets of a webhook, which are stored sealed."""

    url: str
    token: str = ""
    scheme: str = ""
    credentials: str = ""

    def __repr__(self) -> str:
        return "Webhook(...)"  # it is all secret


_decode_hook = msgspec.json.Decoder(Webhook).decode
_encode = msgspec.json.Encoder().encode


class Webhooks:
    """Checks webhooks when they are registered, and keeps them."""

    def __init__(
        self,
        store: PushStore,
        keyring: Callable[[], "Keyring"],
        guard: Guard,
        http: Callable[[], Http],
        settings: PushSettings,
        limits: Limits,
    ) -> None:
        self.store = store
        self._keyring = keyring
        self._guard = guard
        self._http = http
        self._settings = settings
        self._limits = limits
        self._warming: asyncio.Future[None] | None = None

    async def put(self, push: Push) -> bool:
        """Store a webhook; False if there is no such task.

        Raises:
            Unavailable: It can't be stored now.
        """
        with _storing():
            return await self.store.put(push)

    async def delete(self, task: int, id: str) -> None:
        """Delete a webhook, if it is there. Raises as `put` does."""
        with _storing():
            await self.store.delete(task, id)

    async def warm(self) -> None:
        """Load what signs and what connects out, in a thread: that would hold up the loop for a
        good part of a second.
        """
        if self._warming is None or (self._warming.done() and self._warming.exception()):
            self._warming = asyncio.ensure_future(asyncio.to_thread(self._load))
        await asyncio.shield(self._warming)

    def _load(self) -> None:
        from ..net import Network, resolve  # noqa: F401  both bring aiohttp

        self._keyring()

    async def check(
        self, config: TaskPushNotificationConfig, namespace: Namespace, *, field: str = ""
    ) -> None:
        """Refuse a config that could never be delivered to, with the reason.

        Raises:
            InvalidParams: Names every field that is wrong.
        """
        wrong = self._violations(config)
        if not wrong:
            await self._check_keys()
        if not wrong and (what := await self._elsewhere(config.url)):
            wrong.append(("url", what))
        if not wrong and self._settings.challenge and (what := await self._challenge(config.url)):
            wrong.append(("url", what))
        if wrong:
            wrong = [(field + name, what) for name, what in wrong]
            raise InvalidParams(
                "; ".join(f"{name}: {what}" for name, what in wrong), violations=tuple(wrong)
            )
        most = self._limits.push_configs_per_caller
        # Anonymous callers are all one, and not counted.
        if namespace.caller and await self.store.count(namespace) >= most:
            raise InvalidParams(
                f"you have {most} push configs on tasks that have not ended, the most allowed"
            )

    async def _check_keys(self) -> None:
        """Without a key nothing can be sealed or signed: what to do is for the operator to know."""
        from ..auth import KeyringError  # brings cryptography

        try:
            await self.warm()
        except KeyringError as error:
            log_.error("push notifications can't be sent: %s", error)
            raise PushNotificationNotSupported(
                "this server has no key to sign push notifications with; its log says what to do"
            ) from None

    def _violations(self, config: TaskPushNotificationConfig) -> list[tuple[str, str]]:
        wrong: list[tuple[str, str]] = []
        if not config.url:
            wrong.append(("url", "is required"))
        elif len(config.url) > MAX_URL:
            wrong.append(("url", f"is longer than {MAX_URL} characters"))
        else:
            try:
                self._guard.check_url(config.url)
            except NotPublic as error:
                wrong.append(("url", _not_public(error.host)))
            except ValueError as error:
                wrong.append(("url", str(error)))
        for name, value, most in (
            ("id", config.id, self._limits.id_length),
            ("token", config.token, MAX_TOKEN),
        ):
            if len(value) > most:
                wrong.append((name, f"is longer than {most} characters"))
            elif not _VISIBLE.fullmatch(value):
                wrong.append((name, "holds characters that a header can't hold"))
        if config.authentication is not None:
            wrong += _authentication(config.authentication)
        return wrong

    async def _elsewhere(self, url: str) -> str:
        """Return what is wrong with the addresses its name has now. A name that can't be resolved
        today is not refused.
        """
        from ..net import resolve  # brings aiohttp

        host = parse_url(url).host
        if self._guard.allows_name(host):
            return ""
        try:
            async with asyncio.timeout(RESOLVE_S):
                for _, address in await resolve(host):
                    self._guard.check(address)
        except PermissionError:
            return _not_public(host)
        except (OSError, TimeoutError):
            return ""
        return ""

    async def _challenge(self, url: str) -> str:
        """Whether who gave the URL also answers there: it has to repeat a random text."""
        text = secrets.token_urlsafe(24)
        joint = "&" if "?" in url else "?"
        url += joint + urlencode({CHALLENGE: text})
        request = Request("GET", url, self._settings.timeout_s, {"Accept": "text/plain"})
        try:
            answer = await self._http().fetch(request, limit=4_096)
        except Exception as error:
            return f"it did not answer a challenge: {type(error).__name__}"
        if answer.status == 200 and answer.body.strip() == text.encode():
            return ""
        return f"it did not repeat the {CHALLENGE} of a GET request ({answer.status})"

    def made(
        self,
        config: TaskPushNotificationConfig,
        *,
        task: int,
        task_id: str,
        namespace: Namespace,
        version: str,
        sent: int,
        has_artifacts: bool,
    ) -> Push:
        """Return a config as it is stored. Its id and task are set, if they were not."""
        config.task_id = task_id
        config.id = config.id or new_id()
        authentication = config.authentication or AuthenticationInfo(scheme="")
        webhook = Webhook(
            config.url, config.token, authentication.scheme, authentication.credentials
        )
        context = _context(namespace, task_id, config.id)
        return Push(
            task=task,
            id=config.id,
            namespace=namespace,
            endpoint=parse_url(config.url).origin,
            version=version,
            data=self._keyring().seal(_encode(webhook), context=context),
            has_artifacts=has_artifacts or self._settings.artifacts,
            sent=sent,
            upto=sent,
        )

    def opened(self, push: Push) -> Webhook:
        """Return what is sealed. Raises KeyringError if it can't be read."""
        context = _context(push.namespace, push.task_id, push.id)
        return _decode_hook(self._keyring().unseal(push.data, context=context))

    def shown(self, push: Push) -> TaskPushNotificationConfig:
        """Return a webhook as its owner sees it: the token is the client's own to compare, the
        credentials are told to nobody.
        """
        from ..auth import KeyringError

        try:
            webhook = self.opened(push)
        except KeyringError as error:  # one lost key must not hide the other configs
            log_.error("a push config of task %s can't be read: %s", push.task_id, error)
            webhook = Webhook(push.endpoint)
        return TaskPushNotificationConfig(
            url=webhook.url,
            id=push.id,
            task_id=push.task_id,
            tenant=push.namespace.tenant,
            token=webhook.token,
            authentication=AuthenticationInfo(scheme=webhook.scheme) if webhook.scheme else None,
        )


@contextlib.contextmanager
def _storing() -> Iterator[None]:
    try:
        yield
    except CommitFailed as error:
        log_.error("a webhook can't be stored: %s", error)
        raise Unavailable(
            "the store can't be written now; try again later", retry_after_s=5
        ) from error


def _context(namespace: Namespace, task_id: str, config_id: str) -> str:
    """Whose secrets these are: sealed for one config, they are of no use in another."""
    return "push " + "\0".join((*namespace, task_id, config_id))


def _not_public(host: str) -> str:
    return (
        f"{host} is no public address; whoever runs this agent can allow it with "
        f"--allow-host {host} (allow_hosts=)"
    )


def _authentication(given: AuthenticationInfo) -> list[tuple[str, str]]:
    wrong = []
    if not _SCHEME.fullmatch(given.scheme):
        wrong.append(("authentication.scheme", "is no name of an HTTP authentication scheme"))
    field = "authentication.credentials"
    if len(given.credentials) > MAX_CREDENTIALS:
        wrong.append((field, f"is longer than {MAX_CREDENTIALS} characters"))
    elif not _VISIBLE.fullmatch(given.credentials):
        wrong.append((field, "holds characters that a header can't hold"))
    elif given.scheme.lower() == HMAC_SCHEME:
        try:
            secrets_of(given.credentials)
        except ValueError as error:
            wrong.append((field, str(error)))
    return wrong
