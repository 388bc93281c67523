"""The client of one agent: every operation, the same on every version and binding."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from types import TracebackType
from typing import Any

import msgspec

from ..model import (
    FINAL,
    IDEMPOTENT,
    INTERRUPTED,
    RESUME,
    A2AError,
    AgentCard,
    AgentInterface,
    AuthenticationInfo,
    CancelTaskRequest,
    DeletePushConfigRequest,
    GetExtendedCardRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Metadata,
    MethodNotFound,
    Role,
    SendConfiguration,
    SendMessageRequest,
    SubscribeRequest,
    Task,
    TaskNotCancelable,
    TaskPushNotificationConfig,
    TaskState,
    VersionNotSupported,
    new_id,
)
from .binding import Binding, Extra, Item
from .budget import Budget
from .conversation import Conversation
from .errors import AgentFault, BadAnswer, TooSlow, Unreachable
from .reply import Content, Reply, parts_of
from .resume import Stream
from .retry import Retry, may_repeat

__all__ = ["Client", "Found", "Options"]

_SETTLED = FINAL | INTERRUPTED
_POLL_MOST_S = 2.0
_EMPTY_PAGES = 100


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller of `connect` may decide."""

    tenant: str | None = None
    extensions: tuple[str, ...] = ()
    retry: Retry = Retry()
    budget: Budget = Budget()


class Found(msgspec.Struct):
    """An agent that was found: its card, and the ways to talk to it, the preferred one first."""

    card: AgentCard
    interfaces: list[AgentInterface]
    bind: Callable[[AgentInterface], Binding]
    notes: list[str]
    close: Callable[[], Awaitable[None]]


class Client:
    """Talks to one agent. Made by `connect`; ready at first use, or with `async with`, or `await`.

    - Errors of the agent are the classes of `accord.model.errors`; other faults are `AgentFault`s naming the agent.
    - A call is repeated only if that can't do the work twice (see `retry`).
    """

    def __init__(self, find: Callable[[], Awaitable[Found]], options: Options) -> None:
        self.retry = options.retry
        self.budget = options.budget
        self.notes: list[str] = []
        self._find = find
        self._options = options
        self._finding: asyncio.Task[Found] | None = None
        self._found: Found | None = None
        self._interface: AgentInterface | None = None
        self._binding: Binding | None = None
        self._is_proven = False
        self._extra = Extra()
        self._tenant = ""

    # What was found

    @property
    def card(self) -> AgentCard:
        return self._ready.card

    @property
    def name(self) -> str:
        """The agent, as errors name it."""
        if self._found is None or self._interface is None:
            return "the agent"
        return f"{self._found.card.name or 'agent'} ({self._interface.url})"

    @property
    def url(self) -> str:
        return self._wire.url

    @property
    def binding(self) -> str:
        return self._wire.name

    @property
    def version(self) -> str:
        """The version of A2A spoken with this agent."""
        assert self._interface is not None  # `_wire` of any client in use has its interface
        return self._interface.protocol_version

    @property
    def _ready(self) -> Found:
        if self._found is None:
            raise RuntimeError("not connected yet: use `async with connect(...)` or `await connect(...)`")
        return self._found

    @property
    def _wire(self) -> Binding:
        if self._binding is None:
            raise RuntimeError("not connected yet: use `async with connect(...)` or `await connect(...)`")
        return self._binding

    # Sending

    async def send(
        self,
        message: Content,
        *,
        task_id: str = "",
        context_id: str = "",
        metadata: Metadata | None = None,
        wait: bool = True,
        history_length: int | None = None,
        output_modes: Sequence[str] = (),
        push: TaskPushNotificationConfig | None = None,
        references: Sequence[str] = (),
        key: str = "",
        timeout_s: float | None = None,
    ) -> Reply:
        """Send a message and return the answer: when the task has ended or asks something, or at once with `wait=False`.

        Args:
            message: Text, a `Message`, a `Part`, a `File`, bytes, a list of those, or any JSON value.
            task_id: Continue this task.
            context_id: Start a new task in this conversation.
            metadata: Of the message; `{"skill": ...}` names a skill of an Accord agent.
            key: An idempotency key. The agent must know them: with one, a call that broke off is repeated.
            timeout_s: For all of it, repeated calls and waiting included.
        """
        request = await self._request(
            message, task_id, context_id, metadata, history_length, output_modes, push, references, return_immediately=not wait
        )
        return Reply(self, await self.send_request(request, key=key, wait=wait, timeout_s=timeout_s))

    def stream(
        self,
        message: Content,
        *,
        task_id: str = "",
        context_id: str = "",
        metadata: Metadata | None = None,
        history_length: int | None = None,
        output_modes: Sequence[str] = (),
        push: TaskPushNotificationConfig | None = None,
        references: Sequence[str] = (),
        key: str = "",
        timeout_s: float | None = None,
    ) -> Stream:
        """Send a message and read what happens, as it happens. Options are those of `send`; nothing is sent before it is read."""
        request = _request(message, task_id, context_id, metadata, history_length, output_modes, push, references)
        return Stream(self, request, key=key, timeout_s=timeout_s)

    def subscribe(self, task_id: str, *, after: str | int | None = None) -> Stream:
        """Read what happens to a task from now on; `after` a cursor of an earlier stream, if the agent numbers its events."""
        return Stream(self, SubscribeRequest(id=task_id), after="" if after is None else str(after))

    def conversation(self, context_id: str = "") -> Conversation:
        """Return a conversation: its messages share a context, and answer open questions."""
        return Conversation(self, context_id)

    # Tasks

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        """Return a task as it stands."""
        task: Task = await self._call("GetTask", GetTaskRequest(id=task_id, history_length=history_length))
        return task

    async def wait(self, task_id: str, *, timeout_s: float | None = None) -> Reply:
        """Wait until a task has ended or asks something."""
        return Reply(self, await self._settled(task_id, self._deadline(timeout_s)))

    async def list(
        self,
        *,
        context_id: str = "",
        state: TaskState | None = None,
        page_size: int | None = None,
        history_length: int | None = None,
        since: str = "",
        artifacts: bool = False,
        limit: int | None = None,
    ) -> AsyncIterator[Task]:
        """Yield the caller's tasks, newest first, page after page; `limit` of them at most."""
        token, left, empty, seen = "", limit if limit is not None else -1, 0, {""}
        while left != 0:
            page = await self.page(
                context_id=context_id,
                state=state,
                page_size=page_size,
                history_length=history_length,
                since=since,
                artifacts=artifacts,
                token=token,
            )
            for task in page.tasks:
                yield task
                left -= 1
                if left == 0:
                    return
            token = page.next_page_token
            empty = 0 if page.tasks else empty + 1
            if not token:
                return
            if token in seen or empty > _EMPTY_PAGES:
                raise BadAnswer(self.name, "its list of tasks never ends: the pages repeat or stay empty")
            seen.add(token)

    async def page(
        self,
        *,
        context_id: str = "",
        state: TaskState | None = None,
        page_size: int | None = None,
        history_length: int | None = None,
        since: str = "",
        artifacts: bool = False,
        token: str = "",
    ) -> ListTasksResponse:
        """Return one page of tasks."""
        request = ListTasksRequest(
            context_id=context_id,
            status=state or TaskState.UNSPECIFIED,
            page_size=page_size,
            page_token=token,
            history_length=history_length,
            status_timestamp_after=since,
            include_artifacts=True if artifacts else None,
        )
        page: ListTasksResponse = await self._call("ListTasks", request)
        return page

    async def cancel(self, task_id: str, *, metadata: Metadata | None = None) -> Task:
        """Ask the agent to stop working on a task, and return the task."""
        was_repeated = False

        def repeated() -> None:
            nonlocal was_repeated
            was_repeated = True

        try:
            task: Task = await self._call("CancelTask", CancelTaskRequest(id=task_id, metadata=metadata), on_repeat=repeated)
        except TaskNotCancelable:
            if was_repeated:  # the first attempt, whose answer was lost, may have done it
                task = await self.get(task_id)
                if task.status.state is TaskState.CANCELED:
                    return task
            raise
        return task

    # Push notifications

    async def create_push_config(
        self, task_id: str, url: str, *, id: str = "", token: str = "", scheme: str = "", credentials: str = ""
    ) -> TaskPushNotificationConfig:
        """Have what happens to a task sent to `url`."""
        request = TaskPushNotificationConfig(
            url=url,
            id=id or new_id(),  # ours, so that creating it twice is creating it once
            task_id=task_id,
            token=token,
            authentication=AuthenticationInfo(scheme=scheme, credentials=credentials) if scheme else None,
        )
        config: TaskPushNotificationConfig = await self._call("CreateTaskPushNotificationConfig", request)
        return config

    async def get_push_config(self, task_id: str, id: str) -> TaskPushNotificationConfig:
        config: TaskPushNotificationConfig = await self._call(
            "GetTaskPushNotificationConfig", GetPushConfigRequest(task_id=task_id, id=id)
        )
        return config

    async def list_push_configs(self, task_id: str) -> "list[TaskPushNotificationConfig]":
        configs, token = [], ""
        while True:
            request = ListPushConfigsRequest(task_id=task_id, page_token=token)
            page = await self._call("ListTaskPushNotificationConfigs", request)
            configs += page.configs
            if not page.next_page_token or page.next_page_token == token or len(configs) > 10_000:
                return configs
            token = page.next_page_token

    async def delete_push_config(self, task_id: str, id: str) -> None:
        await self._call("DeleteTaskPushNotificationConfig", DeletePushConfigRequest(task_id=task_id, id=id))

    async def extended_card(self) -> AgentCard:
        """Return what the agent says of itself to those it knows."""
        card: AgentCard = await self._call("GetExtendedAgentCard", GetExtendedCardRequest())
        return card

    # Opening and closing

    async def open(self) -> "Client":
        """Find the agent and choose how to talk to it. Done once, however many ask."""
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
        return self

    async def close(self) -> None:
        finding, self._finding = self._finding, None
        if finding is not None and not finding.done():
            finding.cancel()
        found, self._found = self._found, None
        self._binding = self._interface = None
        if found is not None:
            await found.close()

    def __await__(self) -> Generator[Any, None, "Client"]:
        return self.open().__await__()

    async def __aenter__(self) -> "Client":
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.close()

    # For streams

    async def can_stream(self) -> bool:
        await self.open()
        return self.card.capabilities.streaming is True

    @property
    def can_resume(self) -> bool:
        """The agent goes on with a stream after any event it is named."""
        return self._offers(RESUME)

    @property
    def snapshots_first(self) -> bool:
        """A subscription starts with the task as it stands."""
        return self._interface is not None and self._interface.protocol_version.startswith("1.")

    def is_deduplicating(self, key: str) -> bool:
        """Whether the agent recognises a message it has had."""
        return bool(key) or self._offers(IDEMPOTENT)

    async def open_stream(
        self, operation: str, request: Any, *, key: str = "", after: str = "", timeout_s: float | None = None
    ) -> AsyncIterator[list[Item]]:
        """Yield what comes; errors as they are."""
        while True:
            binding = await self._prepare(request)
            extra = self._with(key, after)
            try:
                async for items in binding.stream(operation, request, extra, timeout_s or self.budget.work_s):
                    self._is_proven = True
                    yield items
                return
            except (A2AError, AgentFault) as error:
                if not self._fall_back(error):
                    raise

    async def send_request(self, request: SendMessageRequest, *, key: str, wait: bool, timeout_s: float | None) -> Task | Message:
        """Send, and wait for the task if it is still at work."""
        if not wait:
            request.configuration = request.configuration or SendConfiguration()
            request.configuration.return_immediately = True
        deadline = self._deadline(timeout_s)
        response = await self._call(
            "SendMessage",
            request,
            is_safe=self.retry.unsafe or self.is_deduplicating(key),
            key=key,
            deadline=deadline,
        )
        task = response.task
        if task is None:
            message: Message = response.message
            return message
        if wait and task.status.state not in _SETTLED:
            task = await self._settled(task.id, deadline, task)
        found: Task = task
        return found

    def named(self, error: A2AError | AgentFault) -> A2AError | AgentFault:
        """Return an error that names this agent."""
        if isinstance(error, AgentFault):
            if self._found is not None:
                error.agent = self.name
        elif not getattr(error, "__notes__", None):
            error.add_note(f"said by {self.name}")
        return error

    # Calling

    async def _request(self, message: Content, *given: Any, return_immediately: bool) -> SendMessageRequest:
        if self._found is None:
            await self.open()
        request = _request(message, *given)
        if return_immediately:
            request.configuration = request.configuration or SendConfiguration()
            request.configuration.return_immediately = True
        return request

    async def _call(
        self,
        operation: str,
        request: Any,
        *,
        is_safe: bool = True,
        key: str = "",
        deadline: float | None = None,
        on_repeat: Callable[[], None] | None = None,
    ) -> Any:
        loop = asyncio.get_running_loop()
        attempt = 1
        while True:
            try:
                binding = await self._prepare(request)
                timeout_s = self.budget.call_s if deadline is None else max(deadline - loop.time(), 0.001)
                result = await binding.call(operation, request, self._with(key) if key else self._extra, timeout_s)
            except (A2AError, AgentFault) as error:
                if self._fall_back(error):
                    continue
                pause_s = self.retry.pause_s(attempt, error)
                is_late = deadline is not None and loop.time() + pause_s >= deadline
                if attempt >= self.retry.attempts or is_late or not may_repeat(error, is_safe=is_safe):
                    raise self.named(error) from None
                if on_repeat is not None and not isinstance(error, Unreachable):
                    on_repeat()
                attempt += 1
                await asyncio.sleep(pause_s)
            else:
                self._is_proven = True
                return result

    async def _prepare(self, request: Any) -> Binding:
        if self._binding is None:
            await self.open()
        if self._tenant and not request.tenant:
            request.tenant = self._tenant
        return self._wire

    async def _settled(self, task_id: str, deadline: float, task: Task | None = None) -> Task:
        """Ask for a task until it has ended or asks something, at growing intervals."""
        loop = asyncio.get_running_loop()
        pause_s = self.retry.first_s
        while task is None or task.status.state not in _SETTLED:
            if task is not None:
                if loop.time() + pause_s > deadline:
                    raise TooSlow(self.name, f"task {task_id} is still {task.status.state.word}; wait({task_id!r}) goes on waiting")
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, _POLL_MOST_S)
            found: Task = await self._call("GetTask", GetTaskRequest(id=task_id), deadline=deadline)
            task = found
        return task

    def _deadline(self, timeout_s: float | None) -> float:
        return asyncio.get_running_loop().time() + (self.budget.work_s if timeout_s is None else timeout_s)

    # Choosing

    def _use(self, found: Found, interface: AgentInterface) -> None:
        self._interface = interface
        self._binding = found.bind(interface)
        self.notes = found.notes
        self._tenant = self._options.tenant if self._options.tenant is not None else interface.tenant
        wanted = list(self._options.extensions)
        if self.retry.attempts > 1:
            wanted += [uri for uri in (IDEMPOTENT, RESUME) if self._offers(uri) and uri not in wanted]
        self._extra = Extra(extensions=", ".join(wanted))

    def _fall_back(self, error: A2AError | AgentFault) -> bool:
        """Turn to the agent's next interface, if this one has never worked and the error says it won't."""
        found, interface = self._found, self._interface
        if self._is_proven or found is None or interface is None:
            return False
        if not isinstance(error, (Unreachable, MethodNotFound, VersionNotSupported)):
            return False
        rest = found.interfaces[found.interfaces.index(interface) + 1 :]
        if not isinstance(error, Unreachable):
            rest = [other for other in rest if other.protocol_version != interface.protocol_version or other.url != interface.url]
        if not rest:
            return False
        found.notes.append(f"{_words(interface)} did not work ({error}); went on with {_words(rest[0])}")
        self._use(found, rest[0])
        return True

    def _offers(self, uri: str) -> bool:
        found = self._found
        return found is not None and any(extension.uri == uri for extension in found.card.capabilities.extensions)

    def _with(self, key: str = "", after: str = "") -> Extra:
        return Extra(self._extra.extensions, key, after) if key or after else self._extra


def _words(interface: AgentInterface) -> str:
    return f"{interface.protocol_binding} {interface.protocol_version} at {interface.url}"


def _request(
    message: Content,
    task_id: str,
    context_id: str,
    metadata: Metadata | None,
    history_length: int | None,
    output_modes: Sequence[str],
    push: TaskPushNotificationConfig | None,
    references: Sequence[str],
) -> SendMessageRequest:
    if not isinstance(message, Message):
        message = Message(message_id=new_id(), role=Role.USER, parts=parts_of(message))
    else:
        message = msgspec.structs.replace(message)  # the caller's own stays as it is
    message.task_id = task_id or message.task_id
    message.context_id = context_id or message.context_id
    if metadata is not None:
        message.metadata = (message.metadata or {}) | metadata
    if references:
        message.reference_task_ids = [*message.reference_task_ids, *references]
    request = SendMessageRequest(message=message)
    if history_length is not None or output_modes or push is not None:
        request.configuration = SendConfiguration(
            accepted_output_modes=[*output_modes], history_length=history_length, task_push_notification_config=push
        )
    return request
