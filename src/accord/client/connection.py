"""The connection to one agent: it finds the agent once, calls it over the interface that works, and
repeats calls where that is safe.
"""

import asyncio
import logging
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import IO, TYPE_CHECKING, Any

import msgspec

from ..model import (
    FORK,
    IDEMPOTENT,
    MAX_FETCHED,
    RESUME,
    A2AError,
    AgentCard,
    AgentInterface,
    InvalidRequest,
    MethodNotFound,
    PushNotificationNotSupported,
    SendMessageRequest,
    UnsupportedOperation,
    VersionNotSupported,
)
from ..net import Http, OnFetched, fetch_file, origin_of
from ..observe import NO_TRACE, outgoing, tracing
from ..protocol import DEFAULT_SEMANTICS, Semantics, spoken_version
from .bindings import Binding, Extra, Items
from .budget import Budget
from .errors import AgentFault, BadAnswer, TooSlow, Unreachable, about_task, task_of
from .retry import Failures, Pause, Retry, is_interrupted, may_repeat
from .uploads import UploadProgress, has_files, upload_parts, upload_place

if TYPE_CHECKING:
    from ..observe import TracingSpan

__all__ = ["AgentConnection", "FoundAgent", "Options"]

log_ = logging.getLogger("accord")

_HELD_S = 30.0  # how long an agent may hold a request, more than it takes to answer it
# What every agent of every version understands: if one of these is not known, it is the version
# that is wrong.
_BASIC_OPERATIONS = ("SendMessage", "SendStreamingMessage", "GetTask")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Hold the options of `connect`."""

    tenant: str | None = None
    extensions: tuple[str, ...] = ()
    sends_trace: bool = True  # False: the caller gave a traceparent among the headers
    retry: Retry = Retry()
    budget: Budget = Budget()
    # called when a call has ended: with its error, None if the agent answered
    on_call: Callable[[Exception | None], None] | None = None
    # called with the name of a file, the bytes that were uploaded, and all of them
    on_upload: UploadProgress | None = None


class FoundAgent(msgspec.Struct):
    """An agent that was found: its card, and the ways to talk to it, the preferred one first."""

    card: AgentCard
    interfaces: list[AgentInterface]
    bind: Callable[[AgentInterface], Binding]
    # Reads an extended card, given as JSON, and chooses its interfaces; none if they can't be used.
    read_extended: Callable[[Any], Awaitable[tuple[AgentCard, list[AgentInterface]]]]
    notes: list[str]
    close: Callable[[], Awaitable[None]]
    http: Http  # what its HTTP interfaces are called with, credentials included
    # it told its card itself; one that was handed over says nothing of whether anybody is there
    is_met: bool = True
    origin: str = ""  # where its card was found; empty if it was handed over


class AgentConnection:
    """Finds the agent at first use, and falls back to its next interface while none has
    worked yet.
    """

    def __init__(self, find: Callable[[], Awaitable[FoundAgent]], options: Options) -> None:
        self.retry = options.retry
        self.budget = options.budget
        self._find = find
        self._options = options
        self._finding: asyncio.Task[FoundAgent] | None = None
        self._found: FoundAgent | None = None
        self._interface: AgentInterface | None = None
        self._version = spoken_version("")  # what can be expected of the interface
        self._binding: Binding | None = None
        self._is_proven = False
        self._is_reached = (
            False  # someone was there: from then on it is waited for, not passed over
        )
        self._away: set[str] = set()  # where nobody was, since the preferred interface was tried
        self._is_closed = False
        self._extra = Extra()
        self._tenant = ""
        self._offered: frozenset[str] = frozenset()
        self._reported: weakref.ref[Exception] | None = None
        self.calls = 0  # that have not ended, streams among them

    @property
    def found(self) -> FoundAgent:
        if self._found is None:
            raise RuntimeError(
                "not connected yet: use `async with connect(...)` or `await connect(...)`"
            )
        return self._found

    @property
    def interface(self) -> AgentInterface:
        """The one in use."""
        if self._interface is None:
            raise RuntimeError(
                "not connected yet: use `async with connect(...)` or `await connect(...)`"
            )
        return self._interface

    @property
    def name(self) -> str:
        """The agent, as errors name it."""
        if self._found is None or self._interface is None:
            return "the agent"
        return f"{self._found.card.name or 'agent'} ({self._interface.url})"

    # Opening and closing

    async def open(self) -> None:
        """Find the agent and choose how to talk to it, waiting for it if it is away. Done once,
        however many ask.
        """
        failures = Failures(self.retry)
        while True:
            try:
                return await self._open()
            except (A2AError, AgentFault) as error:
                pause = self.pause_after(error, failures, None) if is_interrupted(error) else None
                if pause is None:
                    raise
                if pause.attempt == 1 and self.retry.on_pause is None:
                    log_.warning("%s; trying again", error)
                await self.pause(pause)

    async def _open(self) -> None:
        if self._is_closed:
            raise RuntimeError("this client is closed; connect again")
        if self._found is None:
            if self._finding is None:
                self._finding = asyncio.ensure_future(self._find())
            try:
                self._found = await asyncio.shield(self._finding)
            except Exception:
                self._finding = None
                raise
            if self._interface is None:
                self._use(self._found, self._found.interfaces[0])

    async def close(self) -> None:
        """Let go of all connections. Streams that are still read end with an error."""
        self._is_closed = True
        finding, self._finding = self._finding, None
        found, self._found = self._found, None
        self._binding = self._interface = None
        if finding is not None and found is None:  # whoever opened this has given up
            finding.cancel()
            await asyncio.wait({finding})
            if not finding.cancelled() and finding.exception() is None:
                found = finding.result()
        if found is not None:
            await found.close()

    async def open_url(
        self, url: str, limit: int | None, on_fetched: OnFetched | None = None
    ) -> IO[bytes]:
        """Fetch a file that the agent names. Credentials go to the agent's own address only, and
        only a file there may have any size.
        """
        await self._open()
        if limit is None and origin_of(url) != origin_of(self.interface.url):
            limit = MAX_FETCHED
        return await fetch_file(self.found.http, url, limit, on_fetched)

    async def _upload(self, request: SendMessageRequest) -> None:
        """Have the large files of a message uploaded, if the agent takes uploads."""
        found = self.found
        await upload_parts(
            found.http, upload_place(found.card), request.message, self._options.on_upload
        )

    def check_forks(self) -> None:
        """Raise if the agent does not say that its tasks can be forked: another agent would take
        the message for that of a new task.
        """
        if not self._offers(FORK):
            raise UnsupportedOperation(
                f"{self.name}: its card does not offer to fork tasks ({FORK}); nothing was sent"
            )

    # Streams

    async def can_stream(self) -> bool:
        await self._open()
        return self.found.card.capabilities.streaming is True

    @property
    def can_resume(self) -> bool:
        """The agent goes on with a stream after any event it is named."""
        return self._offers(RESUME)

    @property
    def snapshots_first(self) -> bool:
        """A subscription starts with the task as it stands."""
        return self._version.snapshots_first

    def may_send_again(self, key: str) -> bool:
        """Whether a message may be sent twice: the agent recognises one it has had, or the caller
        takes the risk.
        """
        return bool(key) or self.retry.unsafe or self.deduplicates

    @property
    def deduplicates(self) -> bool:
        """The agent recognises a message it has had: by its id, if the version has a place for
        that.
        """
        return self._offers(IDEMPOTENT) and not self.names_tasks

    @property
    def names_tasks(self) -> bool:
        """New tasks get their id from us: the id of the first message."""
        return self._version.names_tasks

    @property
    def has_generations(self) -> bool:
        """The agent numbers the changes of a task."""
        return self._version.asked is not None

    async def open_stream(
        self,
        operation: str,
        request: Any,
        *,
        key: str = "",
        after: str = "",
        extensions: Sequence[str] = (),
        timeout_s: float | None = None,
        semantics: Semantics = DEFAULT_SEMANTICS,
    ) -> AsyncGenerator[Items, None]:
        """Yield what comes; errors as they are. Whoever reads it reports the one that ends it."""
        self.calls += 1
        try:
            while True:
                binding = self._binding or await self._opened()
                self._check_push(operation, request)
                if has_files(request):
                    await self._upload(request)
                if self._tenant and not request.tenant:
                    request.tenant = self._tenant
                span = self._span(operation, binding)
                extra = self._with(key, after, extensions, span)
                try:
                    # Closed with us: a connection must not live on because nobody has collected its
                    # generator yet.
                    sent = self._asked(request, semantics)
                    async with aclosing(
                        await binding.stream(
                            operation, sent, extra, timeout_s or self.budget.work_s
                        )
                    ) as source:
                        self.report(None)  # it has answered; what follows is the same call
                        yield []
                        async for items in source:
                            self._is_proven = self._is_proven or bool(items)
                            yield items
                    return
                except (A2AError, AgentFault) as error:
                    if span is not None:
                        span.fail(type(error).__name__)
                    if not self._fall_back(operation, error, binding):
                        raise
                finally:
                    if span is not None:
                        span.end()
        finally:
            self.calls -= 1

    def _asked(self, request: Any, semantics: Semantics) -> Any:
        """Return a request with what only some versions have a place for.

        Raises:
            UnsupportedOperation: The one in use has none.
        """
        if semantics is DEFAULT_SEMANTICS:
            return request
        if self._version.asked is None:
            raise UnsupportedOperation(
                f"{self.name}: A2A {self.interface.protocol_version} has no generations; "
                "nothing was sent"
            )
        return self._version.asked(request, semantics)

    def _span(self, operation: str, binding: Binding) -> "TracingSpan | None":
        """The span of one call; None while this process does not trace."""
        spans = tracing()
        if spans is None or not self._options.sends_trace:
            return None
        name = self._found.card.name if self._found is not None else ""
        return spans.call(operation, name, binding.url, binding.name, binding.version)

    # Calls

    async def call(
        self,
        operation: str,
        request: Any,
        *,
        is_send: bool = False,
        key: str = "",
        extensions: Sequence[str] = (),
        deadline: float | None = None,
        on_repeat: Callable[[], None] | None = None,
        semantics: Semantics = DEFAULT_SEMANTICS,
    ) -> Any:
        """Return an operation's result.

        A send is done twice only if the agent will notice, or if told to; anything else may be.
        `on_repeat` is called before that.
        """
        loop = asyncio.get_running_loop()
        failures: Failures | None = None
        before: Exception | None = None
        task_id = ""
        binding: Binding | None = None
        self.calls += 1
        try:
            while True:
                try:
                    binding = self._binding or await self._opened()
                    self._check_push(operation, request)
                    if is_send and has_files(request):
                        await self._upload(request)
                    if self._tenant and not request.tenant:
                        request.tenant = self._tenant
                    held_s = _HELD_S if semantics.current_generation is not None else 0.0
                    timeout_s = self._time_for(is_send, deadline, loop.time(), held_s)
                    span = self._span(operation, binding)
                    extra = self._with(key, extensions=extensions, span=span)
                    sent = self._asked(request, semantics)
                    result = await _attempt(binding, operation, sent, extra, timeout_s, span)
                except (A2AError, AgentFault) as error:
                    if self._fall_back(operation, error, binding):
                        continue
                    failures = failures or Failures(self.retry)
                    task_id = task_of(error) or task_id
                    is_safe = not is_send or self.may_send_again(key)
                    pause = (
                        self.pause_after(error, failures, deadline)
                        if may_repeat(error, is_safe=is_safe)
                        else None
                    )
                    if pause is None:
                        if isinstance(error, TooSlow) and before is not None:
                            error.fault = (
                                f"not done in time; the attempt before failed with: {before}"
                            )
                        self.report(error)
                        raise about_task(self.named(error), task_id) from None
                    before = error
                    if on_repeat is not None and not isinstance(error, Unreachable):
                        on_repeat()
                    await self.pause(pause)
                else:
                    self._is_proven = True
                    self.report(None)
                    return result
        finally:
            self.calls -= 1

    def report(self, error: Exception | None) -> None:
        """Pass on how a call ended: once, whatever its attempts and however many pass the error
        on.
        """
        if self._options.on_call is None:
            return
        if error is not None:
            if self._reported is not None and self._reported() is error:
                return
            self._reported = weakref.ref(error)
        self._options.on_call(error)

    def _time_for(self, is_send: bool, deadline: float | None, now: float, held_s: float) -> float:
        """Return how long one attempt may take. A send may take all the time there is, any other
        call `call_s` and the time for which the agent may hold it.
        """
        call_s = self.budget.call_s + held_s
        left_s = max(deadline - now, 0.001) if deadline is not None else call_s
        return left_s if is_send else min(left_s, call_s)

    def pause_after(
        self, error: A2AError | AgentFault, failures: Failures, deadline: float | None
    ) -> Pause | None:
        """Return the pause before the next attempt, or None if it is time to give up."""
        now = asyncio.get_running_loop().time()
        if not isinstance(error, Unreachable) or self._is_met:
            return failures.pause(error, now, deadline)
        pause = (
            failures.pause(error, now, deadline, is_first=True) if not error.is_lasting else None
        )
        if pause is None and not error.is_lasting:
            error.fault += (
                f"; this address has never answered, {failures.tried(now)}: check the address, "
                "and whether the agent runs"
            )
        return pause

    @property
    def _is_met(self) -> bool:
        """Somebody has answered there before."""
        if self._is_proven or self._is_reached:
            return True
        return self._found is not None and self._found.is_met and not self._is_elsewhere

    @property
    def _is_elsewhere(self) -> bool:
        """The card sends callers to another place than its own."""
        found, interface = self._found, self._interface
        if found is None or interface is None or not found.origin:
            return False
        return interface.protocol_binding != "GRPC" and origin_of(interface.url) != found.origin

    async def pause(self, pause: Pause) -> None:
        """Wait before the next attempt. While nobody was there, that begins with the preferred
        interface again.
        """
        if self.retry.on_pause is not None:
            self.retry.on_pause(pause)
        found = self._found
        if (
            found is not None
            and self._away
            and not self._is_reached
            and self._interface is not found.interfaces[0]
        ):
            self._use(found, found.interfaces[0])
        self._away.clear()
        await asyncio.sleep(pause.seconds)

    async def _opened(self) -> Binding:
        await self._open()
        assert self._binding is not None  # that is what opening is
        return self._binding

    def named(self, error: A2AError | AgentFault) -> A2AError | AgentFault:
        """Return an error that names this agent."""
        if isinstance(error, AgentFault):
            if self._found is not None:
                error.agent = self.name
                self._explain(error, self._found)
        elif not getattr(error, "__notes__", None):
            error.agent = self.name
            error.add_note(f"said by {self.name}")
        return error

    def _explain(self, error: AgentFault, found: FoundAgent) -> None:
        """Say so if it is the card that leads to where nothing answers."""
        if not isinstance(error, Unreachable) or self._is_proven or not self._is_elsewhere:
            return
        place = origin_of(self.interface.url)
        if not error.fault.startswith("the card of"):
            error.fault = (
                f"the card of {found.origin} names {place}, where nothing answers ({error.fault}); "
                f"if its server is at {found.origin}, it has to say so: accord serve --url "
                f"{found.origin}"
            )

    # Choosing

    async def adopt(self, extended: Any) -> AgentCard:
        """Read an extended card, given as JSON, and return it. It is used from now on."""
        found = self.found
        card, interfaces = await found.read_extended(extended)
        if interfaces:
            found.card, found.interfaces = card, interfaces
            used = self.interface
            same = [i for i in interfaces if _describe(i) == _describe(used)]
            self._is_proven = self._is_proven and bool(same)
            self._use(found, same[0] if same else interfaces[0])
        return card

    def _check_push(self, operation: str, request: Any) -> None:
        """Raise PushNotificationNotSupported if a request has a webhook that is never called."""
        if operation in ("SendMessage", "SendStreamingMessage"):
            configuration = request.configuration
            is_wanted = (
                configuration is not None
                and configuration.task_push_notification_config is not None
            )
        else:
            is_wanted = operation == "CreateTaskPushNotificationConfig"
        if is_wanted and self.found.card.capabilities.push_notifications is not True:
            raise PushNotificationNotSupported(
                f"{self.name}: its card says that it sends no push notifications; nothing was sent"
            )

    def _use(self, found: FoundAgent, interface: AgentInterface) -> None:
        self._interface = interface
        self._version = spoken_version(interface.protocol_version)
        self._is_reached = False
        self._binding = found.bind(interface)
        self._offered = frozenset(extension.uri for extension in found.card.capabilities.extensions)
        self._tenant = (
            self._options.tenant if self._options.tenant is not None else interface.tenant
        )
        wanted = list(self._options.extensions)
        for extension in found.card.capabilities.extensions:
            if extension.required and extension.uri not in (*wanted, IDEMPOTENT, RESUME):
                note = (
                    f"the agent requires the extension {extension.uri}; "
                    "activate it with extensions="
                )
                if note not in found.notes:
                    found.notes.append(note)
        if self.retry.is_on:
            wanted += [
                uri for uri in (IDEMPOTENT, RESUME) if self._offers(uri) and uri not in wanted
            ]
        self._extra = Extra(extensions=", ".join(wanted))

    def _fall_back(
        self, operation: str, error: A2AError | AgentFault, used: Binding | None
    ) -> bool:
        """Turn to the agent's next interface, if the one used has never worked and the error says
        it won't.
        """
        found, interface = self._found, self._interface
        if self._is_proven or found is None or interface is None or used is None:
            return False
        if used is not self._binding:
            return True  # another call has found out before, and turned
        rest = found.interfaces[found.interfaces.index(interface) + 1 :]
        if isinstance(error, Unreachable):
            self._away.add(_authority(interface))
            # What is served at the same place is away with it; and where a message has arrived, it
            # is sent again.
            rest = (
                []
                if self._is_reached
                else [other for other in rest if _authority(other) not in self._away]
            )
        else:
            self._is_reached = True
        if not rest or not (
            isinstance(error, Unreachable)
            or _is_wrong_interface(operation, error, interface, rest[0])
        ):
            return False
        note = f"{_describe(interface)} did not work ({error}); went on with {_describe(rest[0])}"
        if note not in found.notes:
            found.notes.append(note)
        self._use(found, rest[0])
        return True

    def _offers(self, uri: str) -> bool:
        return uri in self._offered

    def _with(
        self,
        key: str = "",
        after: str = "",
        extensions: Sequence[str] = (),
        span: "TracingSpan | None" = None,
    ) -> Extra:
        trace = NO_TRACE
        if span is not None:
            trace = span.trace
        elif self._options.sends_trace:
            trace = outgoing()
        if not key and not after and not extensions and trace is NO_TRACE:
            return self._extra
        active = self._extra.extensions
        if extensions:
            more = [uri for uri in extensions if uri not in active.split(", ")]
            active = ", ".join([active, *more] if active else more)
        return Extra(active, key, after, trace)


async def _attempt(
    binding: Binding,
    operation: str,
    request: Any,
    extra: Extra,
    timeout_s: float,
    span: "TracingSpan | None",
) -> Any:
    if span is None:
        return await binding.call(operation, request, extra, timeout_s)
    try:
        return await binding.call(operation, request, extra, timeout_s)
    except BaseException as error:
        span.fail(type(error).__name__)
        raise
    finally:
        span.end()


def _describe(interface: AgentInterface) -> str:
    return f"{interface.protocol_binding} {interface.protocol_version} at {interface.url}"


def _is_wrong_interface(
    operation: str, error: A2AError | AgentFault, used: AgentInterface, other: AgentInterface
) -> bool:
    """Whether an agent refused an interface as such, not what was asked of it."""
    # The same door under another version is a guess: there an old agent may refuse the new words in
    # any way it likes.
    is_guess = other.url == used.url and other.protocol_binding == used.protocol_binding
    is_nowhere = isinstance(error, BadAnswer) and error.http_status in (400, 404, 405)
    is_refused = (
        is_guess
        and isinstance(error, (MethodNotFound, InvalidRequest))
        and operation in _BASIC_OPERATIONS
    )
    return isinstance(error, VersionNotSupported) or is_nowhere or is_refused


def _authority(interface: AgentInterface) -> str:
    """The host and port it is at."""
    return (interface.url.partition("://")[2] or interface.url).partition("/")[0]
