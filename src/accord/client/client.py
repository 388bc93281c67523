"""The client of one agent. It is used the same way with every version and binding of A2A."""

import asyncio
import difflib
import hashlib
import weakref
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import msgspec

from ..model import (
    FINAL,
    FORK,
    INTERRUPTED,
    A2AError,
    AgentCard,
    AuthenticationInfo,
    CancelTaskRequest,
    DeletePushConfigRequest,
    ForkPoint,
    GetExtendedCardRequest,
    GetPushConfigRequest,
    GetTaskRequest,
    ListPushConfigsRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    Metadata,
    Role,
    SendConfiguration,
    SendMessageRequest,
    SubscribeRequest,
    Task,
    TaskNotCancelable,
    TaskPushNotificationConfig,
    TaskState,
    Unavailable,
    fork_metadata,
    new_id,
)
from ..protocol import DEFAULT_SEMANTICS, Semantics
from .connection import AgentConnection
from .conversation import Conversation
from .errors import AgentFault, BadAnswer, CallFailed, TooSlow, about_task, task_of
from .notified import notifications
from .reply import ClientReply, Content, parts_of
from .streams import Stream, message_arrived
from .uploads import upload_place

if TYPE_CHECKING:
    from ..push import Notified

__all__ = ["Client"]

T = TypeVar("T")

# Inside Client, `list` is a method. These names stand for the builtin.
Configs: TypeAlias = list[TaskPushNotificationConfig]
Notes: TypeAlias = list[str]

_SETTLED = FINAL | INTERRUPTED
_MAX_POLL_S = 2.0
_POLL_GROWTH = 1.5
# Bounds for agents whose lists never end.
_MAX_EMPTY_PAGES = 100  # in a row
_MAX_PUSH_CONFIGS = 10_000


class Client:
    """The client of one agent. Create it with `connect`.

    It finds the agent at the first call. `await client` or `async with client` does so earlier.

    - An error that the agent reports is raised as its class in `accord.model.errors`. Every other
      failure is an `AgentFault` that names the agent.
    - A failed call is repeated only if the agent can't do the work twice (see `retry`).
    """

    def __init__(self, connection: AgentConnection) -> None:
        self.connection = connection
        self.streams: weakref.WeakSet[Stream] = weakref.WeakSet()  # the open ones, for `cancel`

    # About the agent

    @property
    def card(self) -> AgentCard:
        """The agent card, with what the client repaired in it."""
        return self.connection.found.card

    @property
    def notes(self) -> Notes:
        """Problems with this agent that the client repaired or worked around, one text each."""
        return self.connection.found.notes

    @property
    def url(self) -> str:
        """The URL of the interface that the client uses."""
        return self.connection.interface.url

    @property
    def binding(self) -> str:
        """The binding that the client uses: JSONRPC, HTTP+JSON or GRPC."""
        return self.connection.interface.protocol_binding

    @property
    def deduplicates(self) -> bool:
        """Return whether the agent's card says that it detects repeated messages.

        Such an agent compares message ids and idempotency keys.
        """
        return self.connection.deduplicates

    @property
    def version(self) -> str:
        """The version of A2A that the client uses with this agent."""
        return self.connection.interface.protocol_version

    # Sending

    async def send(
        self,
        message: Content,
        *,
        skill: str = "",
        task_id: str = "",
        context_id: str = "",
        metadata: Metadata | None = None,
        wait: bool = True,
        history_length: int | None = None,
        output_modes: Sequence[str] = (),
        push: str | TaskPushNotificationConfig | None = None,
        references: Sequence[str] = (),
        key: str = "",
        if_generation_match: int | None = None,
        extensions: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> ClientReply:
        """Send a message and return the reply.

        Args:
            message: Text, a `Message`, a `Part`, a `File`, bytes, a list of those, or anything that
              is JSON: dicts, dataclasses, msgspec and pydantic objects.
            skill: The skill to run, sent as `metadata.skill`. Agents made with Accord read it.
              Without it the agent chooses.
            task_id: Continue this task.
            context_id: Start a new task in this conversation.
            metadata: The metadata of the message.
            wait: Return when the task has ended or needs input. With False, return at once.
            history_length: How many messages of the task's history to return.
            output_modes: The media types that the caller accepts.
            push: Where to send push notifications about the task: a URL or a push config.
            references: The ids of other tasks that the message refers to.
            key: An idempotency key. Calls with the same key get the same task, also from another
              process. With a key, a call is repeated after the connection was lost. Use it only
              with agents that support such keys (`deduplicates`).
            if_generation_match: For a message to a task: refuse it with TaskGenerationMismatch if
              the task has changed since this generation. Only A2A 1.1 has generations.
            extensions: URIs of extensions to activate for this message, beside those of the client.
            timeout_s: The limit for everything: repeated calls and waiting included.
        """
        request = _request(
            message,
            task_id,
            context_id,
            _with_skill(metadata, skill),
            history_length,
            output_modes,
            push,
            references,
            key,
        )
        return ClientReply(
            self,
            await self.send_request(
                request,
                key=key,
                wait=wait,
                extensions=extensions,
                timeout_s=timeout_s,
                semantics=_if_match(if_generation_match),
            ),
        )

    @overload
    async def call(
        self,
        skill: str,
        value: Content = None,
        /,
        *,
        returns: type[T],
        timeout_s: float | None = None,
        **fields: Any,
    ) -> T: ...

    @overload
    async def call(
        self,
        skill: str,
        value: Content = None,
        /,
        *,
        returns: None = None,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> Any: ...

    async def call(
        self,
        skill: str,
        value: Content = None,
        /,
        *,
        returns: type[T] | None = None,
        timeout_s: float | None = None,
        **fields: Any,
    ) -> Any:
        """Call a skill like a function and return its result.

        total = await client.call("add", a=1, b=2)
        trip = await client.call("plan", Wishes(city="Rome"), returns=Trip)

        Args:
            skill: The skill's id.
            value: The skill's input, if that is a single value.
            fields: The skill's parameters by name. Give either these or `value`.
            returns: The type of the result. Without it, the result is the JSON value or the text.
            timeout_s: The limit for everything: repeated calls and waiting included.

        Raises:
            TypeError: The schema of the skill in the agent's card has no such field.
            CallFailed: The task failed, was rejected, or needs input. `error.reply` is the reply.
        """
        if value is not None and fields:
            raise TypeError("give a value or fields, not both")
        if fields:
            await self.connection.open()
            _check_fields(self.card, skill, fields)
        content = value if value is not None else fields
        reply = await self.send(content, skill=skill, timeout_s=timeout_s)
        if reply.state is not TaskState.COMPLETED:
            raise CallFailed(skill, reply)
        if returns is not None:
            return reply.as_(returns)
        return reply.data if reply.data is not None else reply.text

    def stream(
        self,
        message: Content,
        *,
        skill: str = "",
        task_id: str = "",
        context_id: str = "",
        metadata: Metadata | None = None,
        history_length: int | None = None,
        output_modes: Sequence[str] = (),
        push: str | TaskPushNotificationConfig | None = None,
        references: Sequence[str] = (),
        key: str = "",
        if_generation_match: int | None = None,
        extensions: Sequence[str] = (),
        timeout_s: float | None = None,
    ) -> Stream:
        """Send a message and return the stream of events that follow.

        The options are those of `send`. The message is sent when the stream is first read.
        `timeout_s` limits the whole stream, counted from then. `extensions` are activated for this
        message, beside those of the client.
        """
        request = _request(
            message,
            task_id,
            context_id,
            _with_skill(metadata, skill),
            history_length,
            output_modes,
            push,
            references,
            key,
        )
        return Stream(
            self,
            request,
            key=key,
            extensions=extensions,
            timeout_s=timeout_s,
            semantics=_if_match(if_generation_match),
        )

    async def fork(
        self,
        task_id: str,
        at: int,
        *,
        answer: Content | None = None,
        message: Content | None = None,
        wait: bool = True,
        key: str = "",
        timeout_s: float | None = None,
    ) -> ClientReply:
        """Fork a task: a new task goes on from one of its events, with all that was recorded before
        the next one. What the agent did after that, it does again.

        Args:
            task_id: The task to fork. It stays as it is.
            at: The number of the event, from 1 on, as streams number them.
            answer: The answer to the question that was open there.
            message: A message to the new task instead.
            wait: Return when the new task has ended or needs input. With False, return at once.
            key: An idempotency key, as with `send`.
            timeout_s: The limit for everything, waiting included.

        Raises:
            UnsupportedOperation: The agent or the task can't be forked; says why.
            InvalidParams: The task has no such event.
        """
        if answer is not None and message is not None:
            raise TypeError("give an answer or a message, not both")
        await self.open()
        self.connection.check_forks()
        said = message if answer is None else answer
        point = ForkPoint(task_id, at, is_answer=answer is not None)
        request = _request(
            "" if said is None else said,
            *("", "", fork_metadata(point), None, (), None, (task_id,), key),
        )
        if said is None:
            request.message.parts = []
        sent = self.send_request(
            request, key=key, wait=wait, extensions=(FORK,), timeout_s=timeout_s
        )
        return ClientReply(self, await sent)

    def subscribe(
        self, task_id: str, *, after: str | int | None = None, seen: Task | None = None
    ) -> Stream:
        """Return the stream of a task's events from now on.

        If the agent numbers its events, `after` can be the cursor of an earlier stream. Then the
        events since that cursor come first.

        `seen` is the task as you saw it last, for instance before a crash. The stream goes on from
        there with every agent: missed events come first. If single events can't be had any more,
        whole artifacts come instead of a `Gap` (their `append` is False).
        """
        cursor = "" if after is None else str(after)
        return Stream(self, SubscribeRequest(id=task_id), after=cursor, seen=seen)

    def conversation(self, context_id: str = "") -> Conversation:
        """Return a conversation. Its messages share a context.

        If a task in it needs input, the next message answers that task.
        """
        return Conversation(self, context_id)

    # Tasks

    async def get(
        self,
        task_id: str,
        *,
        history_length: int | None = None,
        current_generation: int | None = None,
    ) -> Task:
        """Return a task in its current state.

        Args:
            task_id: The task.
            history_length: How many messages of its history to return.
            current_generation: The generation that you know. The agent answers when the task is
              beyond it, or after a while (Accord: 30 s) with the task as it is. Only A2A 1.1 has
              generations.

        Raises:
            TaskNotFound: There is none, or it is not yours.
            UnsupportedOperation: The version in use has no generations. Nothing was sent.
        """
        return await self._get(
            GetTaskRequest(id=task_id, history_length=history_length), current_generation
        )

    async def _get(
        self,
        request: GetTaskRequest,
        current_generation: int | None = None,
        deadline: float | None = None,
    ) -> Task:
        task: Task = await self.connection.call(
            "GetTask",
            request,
            deadline=deadline,
            semantics=DEFAULT_SEMANTICS
            if current_generation is None
            else Semantics(current_generation=current_generation),
        )
        return task

    async def wait(
        self,
        task_id: str,
        *,
        timeout_s: float | None = None,
        on_look: Callable[[Task], None] | None = None,
    ) -> ClientReply:
        """Wait until a task has ended or needs input. `on_look` is called with the task as it
        stands, each time it was fetched.
        """
        deadline = self._deadline(timeout_s)
        return ClientReply(self, await self._poll_until_settled(task_id, deadline, on_look=on_look))

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
        """Yield the caller's tasks, newest first, at most `limit`. Fetches pages as needed."""
        token = ""
        seen_tokens = {""}
        empty_pages = 0
        left = limit if limit is not None else -1  # below 0 it never reaches 0: no limit
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
            empty_pages = 0 if page.tasks else empty_pages + 1
            if not token:
                return
            if token in seen_tokens or empty_pages > _MAX_EMPTY_PAGES:
                raise BadAnswer(
                    self.connection.name,
                    "its list of tasks does not end: pages repeat or are empty",
                )
            seen_tokens.add(token)

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
        """Return one page of tasks. `token` is the `next_page_token` of the page before."""
        request = ListTasksRequest(
            context_id=context_id,
            status=state or TaskState.UNSPECIFIED,
            page_size=page_size,
            page_token=token,
            history_length=history_length,
            status_timestamp_after=since,
            include_artifacts=True if artifacts else None,
        )
        page: ListTasksResponse = await self.connection.call("ListTasks", request)
        return page

    async def cancel(self, task_id: str, *, metadata: Metadata | None = None) -> Task:
        """Cancel a task and return it. Streams of this client about it end soon after."""
        task = await self._cancel(task_id, metadata)
        if task.status.state in FINAL:
            for stream in [one for one in self.streams if one.task_id == task_id]:
                stream.expect_end()
        return task

    async def _cancel(self, task_id: str, metadata: Metadata | None) -> Task:
        was_repeated = False

        def note_repeat() -> None:
            nonlocal was_repeated
            was_repeated = True

        try:
            task: Task = await self.connection.call(
                "CancelTask",
                CancelTaskRequest(id=task_id, metadata=metadata),
                on_repeat=note_repeat,
            )
        except TaskNotCancelable:
            # The first attempt may have canceled the task before its answer was lost.
            if was_repeated:
                task = await self.get(task_id)
                if task.status.state is TaskState.CANCELED:
                    return task
            raise
        return task

    # Push notifications

    async def create_push_config(
        self,
        task_id: str,
        url: str,
        *,
        id: str = "",
        token: str = "",
        scheme: str = "",
        credentials: str = "",
    ) -> TaskPushNotificationConfig:
        """Have the agent send push notifications about a task to `url`.

        Raises:
            PushNotificationNotSupported: Its card says that it sends none. Nothing was sent.
        """
        request = TaskPushNotificationConfig(
            url=url,
            # The client sets the id, so that a repeated call replaces the config.
            id=id or new_id(),
            task_id=task_id,
            token=token,
            authentication=AuthenticationInfo(scheme=scheme, credentials=credentials)
            if scheme
            else None,
        )
        config: TaskPushNotificationConfig = await self.connection.call(
            "CreateTaskPushNotificationConfig", request
        )
        return config

    async def get_push_config(self, task_id: str, id: str) -> TaskPushNotificationConfig:
        """Return a push config of a task."""
        config: TaskPushNotificationConfig = await self.connection.call(
            "GetTaskPushNotificationConfig", GetPushConfigRequest(task_id=task_id, id=id)
        )
        return config

    async def list_push_configs(self, task_id: str) -> Sequence[TaskPushNotificationConfig]:
        """Return the push configs of a task."""
        configs: Configs = []
        token = ""
        while True:
            request = ListPushConfigsRequest(task_id=task_id, page_token=token)
            page = await self.connection.call("ListTaskPushNotificationConfigs", request)
            configs += page.configs
            next_token = page.next_page_token
            if not next_token or next_token == token or len(configs) > _MAX_PUSH_CONFIGS:
                return configs
            token = next_token

    async def delete_push_config(self, task_id: str, id: str) -> None:
        """Delete a push config of a task."""
        await self.connection.call(
            "DeleteTaskPushNotificationConfig", DeletePushConfigRequest(task_id=task_id, id=id)
        )

    def notified(
        self, task_id: str, *, url: str = "", host: str = "127.0.0.1", port: int = 0
    ) -> AsyncIterator["Notified"]:
        """Yield a task's current state and then its changes, received as push notifications.

        Unlike a stream, this holds no connection open. It ends when the task does.

        This starts a receiver on `host` and `port`. `url` is the address at which the agent reaches
        the receiver. It is not needed if the agent runs on this machine. If the agent sends no
        notifications, or they don't arrive, the client polls the task.
        """
        return notifications(self, task_id, url=url, host=host, port=port)

    async def extended_card(self) -> AgentCard:
        """Return the agent's extended card, which it shows only to authenticated callers.

        From then on it is the agent's card: the client uses what it offers. With `verify=` this
        needs a signature that is trusted; without one, `notes` says that the card is not used.
        """
        value = await self.connection.call("GetExtendedAgentCard", GetExtendedCardRequest())
        return await self.connection.adopt(value)

    # Opening and closing

    async def open(self) -> "Client":
        """Fetch the agent's card and choose a version and binding. Only the first call does so."""
        await self.connection.open()
        return self

    async def close(self) -> None:
        """Close the connections of this client. Tasks of the agent go on."""
        await self.connection.close()

    def __await__(self) -> Generator[Any, None, "Client"]:
        return self.open().__await__()

    async def __aenter__(self) -> "Client":
        try:
            return await self.open()
        except BaseException:  # given up while it connects, it would keep its connections
            await self.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Files

    def has_file(self, url: str) -> bool:
        """Return whether an address is that of a file in the agent's own file store."""
        place = upload_place(self.card)
        return place is not None and url.startswith(f"{place.url}/")

    async def open_file(
        self,
        url: str,
        limit: int | None = None,
        on_fetched: Callable[[int, int], None] | None = None,
    ) -> IO[bytes]:
        """Fetch a file that the agent names, of any size if it is the agent's own and there is no
        limit. `on_fetched` is called with the bytes that have come, and all of them.

        Raises:
            AgentFault: It can't be had, or is larger.
        """
        return await self.connection.open_url(url, limit, on_fetched)

    # Used by streams

    async def send_request(
        self,
        request: SendMessageRequest,
        *,
        key: str,
        wait: bool,
        timeout_s: float | None,
        extensions: Sequence[str] = (),
        semantics: Semantics = DEFAULT_SEMANTICS,
    ) -> Task | Message:
        """Send a message. With `wait`, poll the task until it has ended or needs input."""
        if not wait:
            request.configuration = request.configuration or SendConfiguration()
            request.configuration.return_immediately = True
        deadline = self._deadline(timeout_s)
        try:
            response = await self.connection.call(
                "SendMessage",
                request,
                is_send=True,
                key=key,
                extensions=extensions,
                deadline=deadline,
                semantics=semantics,
            )
        except Unavailable as error:
            # The agent is stopping, but names the task that it will continue after a restart.
            # Sending again could do the work twice. Waiting for the named task is safe.
            task_id = task_of(error)
            may_wait = self.connection.retry.is_on and not self.connection.may_send_again(key)
            if not task_id or not may_wait:
                raise
            task = await self._poll_until_settled(task_id, deadline)
            if not message_arrived(request, task):
                raise
            return task
        if response.task is None:
            message: Message = response.message
            return message
        task = response.task
        if wait and task.status.state not in _SETTLED:
            task = await self._poll_until_settled(task.id, deadline, task)
        return task

    async def _poll_until_settled(
        self,
        task_id: str,
        deadline: float,
        task: Task | None = None,
        on_look: Callable[[Task], None] | None = None,
    ) -> Task:
        """Get a task repeatedly, at growing intervals, until it has ended or needs input.

        `task` is its last known state. Without one, the first poll is immediate.
        """
        loop = asyncio.get_running_loop()
        poll_s = self.connection.budget.poll_s
        pause_s = poll_s or self.connection.retry.first_s
        while task is None or task.status.state not in _SETTLED:
            if task is not None and loop.time() + pause_s > deadline:
                what = (
                    f"still {task.status.state.word} when the time was up; "
                    f"wait({task_id!r}) goes on waiting"
                )
                raise about_task(TooSlow(self.connection.name, what), task_id)
            try:
                is_first = task is None
                if task is None:
                    task = await self._get(GetTaskRequest(id=task_id), deadline=deadline)
                else:
                    task = await self.poll(task, pause_s, deadline)
            except (A2AError, AgentFault) as error:
                raise about_task(error, task_id) from None
            if on_look is not None:
                on_look(task)
            if is_first:
                continue
            pause_s = poll_s or min(pause_s * _POLL_GROWTH, _MAX_POLL_S)
        return task

    async def poll(self, task: Task, pause_s: float, deadline: float | None = None) -> Task:
        """Return a task when it may have changed: after a pause, or when an agent with generations
        says so.
        """
        loop = asyncio.get_running_loop()
        request = GetTaskRequest(id=task.id)
        if not task.generation or not self.connection.has_generations:
            await asyncio.sleep(pause_s)
            return await self._get(request, deadline=deadline)
        begun_s = loop.time()
        try:
            found = await self._get(request, task.generation, deadline)
        except TooSlow:
            return task
        if found.generation <= task.generation:
            # An agent that does not hold the request is not asked again at once.
            await asyncio.sleep(pause_s - (loop.time() - begun_s))
        return found

    def _deadline(self, timeout_s: float | None) -> float:
        """Return when a call has to end, on the loop's clock."""
        return asyncio.get_running_loop().time() + (
            self.connection.budget.work_s if timeout_s is None else timeout_s
        )


def _check_fields(card: AgentCard, skill: str, fields: Iterable[str]) -> None:
    """Raise TypeError for a field that a skill does not have. Agents ignore unknown fields, so a
    misspelt name would go unnoticed.
    """
    schema = card.input_schema(skill) or {}
    known = schema.get("properties")
    if not isinstance(known, dict) or not known or schema.get("additionalProperties"):
        return
    for name in fields:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            takes = ", ".join(known)
            raise TypeError(f"{skill!r} has no field {name!r}{meant} (it takes {takes})")


def _if_match(generation: int | None) -> Semantics:
    return DEFAULT_SEMANTICS if generation is None else Semantics(if_generation_match=generation)


def _with_skill(metadata: Metadata | None, skill: str) -> Metadata | None:
    return {**(metadata or {}), "skill": skill} if skill else metadata


def _request(
    message: Content,
    task_id: str,
    context_id: str,
    metadata: Metadata | None,
    history_length: int | None,
    output_modes: Sequence[str],
    push: str | TaskPushNotificationConfig | None,
    references: Sequence[str],
    key: str = "",
) -> SendMessageRequest:
    if not isinstance(message, Message):
        # The id depends only on the key. So a call that is repeated by another process sends the
        # same message, and the agent can tell.
        message_id = hashlib.sha256(key.encode()).hexdigest()[:32] if key else new_id()
        message = Message(message_id=message_id, role=Role.USER, parts=parts_of(message))
    else:
        message = msgspec.structs.replace(message)  # a copy: the caller's message must not change
    message.task_id = task_id or message.task_id
    message.context_id = context_id or message.context_id
    if metadata is not None:
        message.metadata = (message.metadata or {}) | metadata
    if references:
        message.reference_task_ids = [*message.reference_task_ids, *references]
    request = SendMessageRequest(message=message)
    if history_length is not None or output_modes or push is not None:
        request.configuration = SendConfiguration(
            accepted_output_modes=[*output_modes],
            history_length=history_length,
            task_push_notification_config=(
                TaskPushNotificationConfig(url=push) if isinstance(push, str) else push
            ),
        )
    return request
