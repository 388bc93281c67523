"""The client of one agent: every operation, the same on every version and binding."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from ..model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    AgentCard,
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
    Role,
    SendConfiguration,
    SendMessageRequest,
    SubscribeRequest,
    Task,
    TaskNotCancelable,
    TaskPushNotificationConfig,
    TaskState,
    Unavailable,
    new_id,
)
from .connection import AgentConnection
from .conversation import Conversation
from .errors import AgentFault, BadAnswer, CallFailed, TooSlow, about_task, task_of
from .notified import notifications
from .reply import ClientReply, Content, parts_of
from .streams import Stream, has_come

if TYPE_CHECKING:
    from ..push import Notified

__all__ = ["Client"]

T = TypeVar("T")

Configs: TypeAlias = list[TaskPushNotificationConfig]
Notes: TypeAlias = list[str]

_SETTLED = FINAL | INTERRUPTED
_POLL_MOST_S = 2.0
_EMPTY_PAGES = 100


class Client:
    """Talks to one agent. Made by `connect`; ready at first use, or with `async with`, or `await`.

    - Errors of the agent are the classes of `accord.model.errors`; other faults are `AgentFault`s
      naming the agent.
    - A call is repeated only if that can't do the work twice (see `retry`).
    """

    def __init__(self, connection: AgentConnection) -> None:
        self.connection = connection

    # What was found

    @property
    def card(self) -> AgentCard:
        return self.connection.found.card

    @property
    def notes(self) -> Notes:
        """What had to be repaired or worked around to talk to this agent."""
        return self.connection.found.notes

    @property
    def url(self) -> str:
        return self.connection.interface.url

    @property
    def binding(self) -> str:
        return self.connection.interface.protocol_binding

    @property
    def deduplicates(self) -> bool:
        """Whether the agent says that it recognises a message it has had, by its id or by an
        idempotency key.
        """
        return self.connection.deduplicates

    @property
    def version(self) -> str:
        """The version of A2A spoken with this agent."""
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
        timeout_s: float | None = None,
    ) -> ClientReply:
        """Send a message and return the answer: when the task has ended or asks something, or at
        once with `wait=False`.

        Args:
            message: Text, a `Message`, a `Part`, a `File`, bytes, a list of those, or anything that
              is JSON: dicts, dataclasses, msgspec and pydantic objects.
            skill: The skill it is for, of an agent that takes its name in `metadata.skill` as
              Accord's do; without it the agent chooses.
            task_id: Continue this task.
            context_id: Start a new task in this conversation.
            metadata: Of the message.
            key: An idempotency key: the same call with the same key, also from another process, is
              the same task. Only for agents that know such keys (`deduplicates`): with one, a call
              that broke off is repeated.
            push: A URL, or a config, that what happens to the task is sent to.
            timeout_s: For all of it, repeated calls and waiting included.
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
            self, await self.send_request(request, key=key, wait=wait, timeout_s=timeout_s)
        )

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
            skill: Its id.
            value: What it takes, if that is one thing; or its parameters by name, as `fields`.
            returns: The type of the result; without it, it is the JSON value or the text.
            timeout_s: For all of it.

        Raises:
            CallFailed: It failed, declined, or asks something first; `error.reply` has the rest.
        """
        if value is not None and fields:
            raise TypeError("give a value or fields, not both")
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
        timeout_s: float | None = None,
    ) -> Stream:
        """Send a message and read what happens, as it happens. Options are those of `send`; nothing
        is sent before it is read.

        `timeout_s` is for the whole stream, from the first read on.
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
        return Stream(self, request, key=key, timeout_s=timeout_s)

    def subscribe(self, task_id: str, *, after: str | int | None = None) -> Stream:
        """Read what happens to a task from now on; `after` a cursor of an earlier stream, if the
        agent numbers its events.
        """
        return Stream(self, SubscribeRequest(id=task_id), after="" if after is None else str(after))

    def conversation(self, context_id: str = "") -> Conversation:
        """Return a conversation: its messages share a context, and answer open questions."""
        return Conversation(self, context_id)

    # Tasks

    async def get(self, task_id: str, *, history_length: int | None = None) -> Task:
        """Return a task as it stands."""
        task: Task = await self.connection.call(
            "GetTask", GetTaskRequest(id=task_id, history_length=history_length)
        )
        return task

    async def wait(self, task_id: str, *, timeout_s: float | None = None) -> ClientReply:
        """Wait until a task has ended or asks something."""
        return ClientReply(self, await self._settled(task_id, self._deadline(timeout_s)))

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
                raise BadAnswer(
                    self.connection.name,
                    "its list of tasks does not end: pages repeat or are empty",
                )
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
        page: ListTasksResponse = await self.connection.call("ListTasks", request)
        return page

    async def cancel(self, task_id: str, *, metadata: Metadata | None = None) -> Task:
        """Ask the agent to stop working on a task, and return the task."""
        was_repeated = False

        def repeated() -> None:
            nonlocal was_repeated
            was_repeated = True

        try:
            task: Task = await self.connection.call(
                "CancelTask", CancelTaskRequest(id=task_id, metadata=metadata), on_repeat=repeated
            )
        except TaskNotCancelable:
            if was_repeated:  # the first attempt, whose answer was lost, may have done it
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
        """Have what happens to a task sent to `url`."""
        request = TaskPushNotificationConfig(
            url=url,
            id=id or new_id(),  # ours, so that creating it twice is creating it once
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
        config: TaskPushNotificationConfig = await self.connection.call(
            "GetTaskPushNotificationConfig", GetPushConfigRequest(task_id=task_id, id=id)
        )
        return config

    async def list_push_configs(self, task_id: str) -> Sequence[TaskPushNotificationConfig]:
        configs: Configs = []
        token = ""
        while True:
            request = ListPushConfigsRequest(task_id=task_id, page_token=token)
            page = await self.connection.call("ListTaskPushNotificationConfigs", request)
            configs += page.configs
            if not page.next_page_token or page.next_page_token == token or len(configs) > 10_000:
                return configs
            token = page.next_page_token

    async def delete_push_config(self, task_id: str, id: str) -> None:
        await self.connection.call(
            "DeleteTaskPushNotificationConfig", DeletePushConfigRequest(task_id=task_id, id=id)
        )

    def notified(
        self, task_id: str, *, url: str = "", host: str = "127.0.0.1", port: int = 0
    ) -> AsyncIterator["Notified"]:
        """Read what happens to a task as the agent notifies us of it, from how it stands now to its
        end; other than a stream this holds no connection open.

        A receiver listens on `host` and `port`; `url` is the address it has for the agent. An agent
        on this machine needs none. Where the agent sends no notifications, or does not reach us,
        the task is asked for from time to time.
        """
        return notifications(self, task_id, url=url, host=host, port=port)

    async def extended_card(self) -> AgentCard:
        """Return what the agent says of itself to those it knows."""
        card: AgentCard = await self.connection.call(
            "GetExtendedAgentCard", GetExtendedCardRequest()
        )
        return card

    # Opening and closing

    async def open(self) -> "Client":
        """Find the agent and choose how to talk to it. Done once, however many ask."""
        await self.connection.open()
        return self

    async def close(self) -> None:
        await self.connection.close()

    def __await__(self) -> Generator[Any, None, "Client"]:
        return self.open().__await__()

    async def __aenter__(self) -> "Client":
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # For replies and streams

    async def send_request(
        self, request: SendMessageRequest, *, key: str, wait: bool, timeout_s: float | None
    ) -> Task | Message:
        """Send, and wait for the task if it is still at work."""
        if not wait:
            request.configuration = request.configuration or SendConfiguration()
            request.configuration.return_immediately = True
        deadline = self._deadline(timeout_s)
        try:
            response = await self.connection.call(
                "SendMessage", request, is_send=True, key=key, deadline=deadline
            )
        except Unavailable as error:
            # Not to be sent again, for all we know; but the agent says which task it will go on
            # with.
            if (
                not task_of(error)
                or self.connection.may_send_again(key)
                or not self.connection.retry.is_on
            ):
                raise
            return await self._taken_up(request, task_of(error), error, deadline)
        task = response.task
        if task is None:
            message: Message = response.message
            return message
        if wait and task.status.state not in _SETTLED:
            task = await self._settled(task.id, deadline, task)
        found: Task = task
        return found

    async def _taken_up(
        self, request: SendMessageRequest, task_id: str, error: Unavailable, deadline: float
    ) -> Task:
        """Wait for the task of a message whose sender was sent away."""
        task = await self._settled(task_id, deadline)
        if not has_come(request, task):
            raise error
        return task

    async def _settled(self, task_id: str, deadline: float, task: Task | None = None) -> Task:
        """Ask for a task until it has ended or asks something, at growing intervals."""
        loop = asyncio.get_running_loop()
        poll_s = self.connection.budget.poll_s
        pause_s = poll_s or self.connection.retry.first_s
        while task is None or task.status.state not in _SETTLED:
            if task is not None:
                if loop.time() + pause_s > deadline:
                    what = (
                        f"still {task.status.state.word} when the time was up; "
                        f"wait({task_id!r}) goes on waiting"
                    )
                    raise about_task(TooSlow(self.connection.name, what), task_id)
                await asyncio.sleep(pause_s)
                pause_s = poll_s or min(pause_s * 1.5, _POLL_MOST_S)
            try:
                found: Task = await self.connection.call(
                    "GetTask", GetTaskRequest(id=task_id), deadline=deadline
                )
            except (A2AError, AgentFault) as error:
                raise about_task(error, task_id) from None
            task = found
        return task

    def _deadline(self, timeout_s: float | None) -> float:
        return asyncio.get_running_loop().time() + (
            self.connection.budget.work_s if timeout_s is None else timeout_s
        )


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
        # With a key of the caller's, the same call in another life is the same message to the last
        # byte.
        message_id = hashlib.sha256(key.encode()).hexdigest()[:32] if key else new_id()
        message = Message(message_id=message_id, role=Role.USER, parts=parts_of(message))
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
            accepted_output_modes=[*output_modes],
            history_length=history_length,
            task_push_notification_config=(
                TaskPushNotificationConfig(url=push) if isinstance(push, str) else push
            ),
        )
    return request
