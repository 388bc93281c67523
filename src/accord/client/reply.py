"""An agent's answer, as a user wants to hold it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from msgspec import UNSET

from ..model import (
    FINAL,
    INTERRUPTED,
    File,
    InvalidAgentResponse,
    InvalidParams,
    Message,
    Metadata,
    Part,
    Progress,
    Question,
    Task,
    TaskState,
    naming,
)
from ..schema import Shape, to_builtins
from .errors import CallFailed

if TYPE_CHECKING:
    from .client import Client

__all__ = ["ClientReply", "Content", "answering", "parts_of"]

T = TypeVar("T")

_ENDED_BADLY = (TaskState.FAILED, TaskState.REJECTED, TaskState.CANCELED)

Content = Any  # str, Message, Part, File, bytes, a list of those, or anything that is JSON


class ClientReply:
    """Hold the answer of an agent: a task, or a message without a task. The properties work for
    both."""

    def __init__(self, client: "Client", found: Task | Message) -> None:
        # Called with the reply to `answer`, and with the replies to that: a conversation sets it.
        self.on_answer: Callable[[ClientReply], None] | None = None
        self._client = client
        self.task = found if isinstance(found, Task) else None
        self.message = found if isinstance(found, Message) else None

    @property
    def parts(self) -> list[Part]:
        """The parts of all artifacts; if there are none, those of the last message."""
        if self.message is not None:
            return self.message.parts
        assert self.task is not None  # it is one or the other
        made = [part for artifact in self.task.artifacts for part in artifact.parts]
        said = self.task.status.message
        return made or (said.parts if said is not None else [])

    @property
    def text(self) -> str:
        """The text of the answer: chunks of an artifact joined as they are, artifacts on lines of
        their own.
        """
        if self.task is not None and self.task.artifacts:
            return "\n".join(text for artifact in self.task.artifacts if (text := artifact.text))
        return "\n".join(part.text for part in self.parts if isinstance(part.text, str))

    @property
    def data(self) -> Any:
        """The first JSON value in the answer; None if there is none."""
        return next((part.data for part in self.parts if part.data is not UNSET), None)

    def as_(self, type_: type[T]) -> T:
        """Return the answer as a type: a dataclass, a msgspec or pydantic class, `list[int]` ….

        It is read from the first JSON value, or from the text if there is none.

        Raises:
            InvalidAgentResponse: The answer does not fit; says where.
        """
        shape = Shape(type_)
        try:
            found: T = (
                shape.read_text(self.text, "answer")
                if self.data is None
                else shape.read(self.data, "answer")
            )
        except InvalidParams as error:
            raise InvalidAgentResponse(str(error)) from None
        return found

    @property
    def files(self) -> list[File]:
        """Its files. `await file.read()` gives the bytes, also of one that is at a URL."""
        found = [file for part in self.parts if (file := _file(part)) is not None]
        return [file.opened_by(self._client.connection.open_url) for file in found]

    @property
    def state(self) -> TaskState:
        """The state of the task; completed, if the answer has no task."""
        return self.task.status.state if self.task is not None else TaskState.COMPLETED

    @property
    def progress(self) -> Progress | None:
        """The progress that the agent reported last, in numbers; None if it reported none."""
        return self.task.progress if self.task is not None else None

    @property
    def is_final(self) -> bool:
        """Return whether the task has ended. An answer without a task is final."""
        return self.state in FINAL

    @property
    def ok(self) -> bool:
        """Return whether the task is completed, or the agent answered without a task."""
        return self.state is TaskState.COMPLETED

    @property
    def error(self) -> str:
        """Return why the task failed, was rejected or canceled, in the agent's words; else empty.

        If the agent gives no reason, this is the state: "failed".
        """
        if self.task is None or self.state not in _ENDED_BADLY:
            return ""
        said = self.task.status.message
        return (said.text if said is not None else "") or self.state.word

    def raise_for_failure(self) -> Self:
        """Return this reply, or raise if the task failed, was rejected or canceled.

        reply = (await client.send("Book it")).raise_for_failure()

        Raises:
            CallFailed: `error.reply` is this reply.
        """
        if self.error:
            raise CallFailed(f"task {self.task_id}", self)
        return self

    @property
    def question(self) -> str:
        """The question that the agent asks; empty if it asks nothing."""
        return self.questions[0].text if self.questions else ""

    @property
    def questions(self) -> list[Question]:
        """The questions that are open: each with its text, its id, and its deadline if it has one
        (`expires_at`). Empty if the agent asks nothing.
        """
        if self.task is None or self.state not in INTERRUPTED:
            return []
        said = self.task.status.message
        return [Question.read(said) if said is not None else Question()]

    @property
    def task_id(self) -> str:
        """The id of the task; empty if the answer has none."""
        return self.task.id if self.task is not None else ""

    @property
    def context_id(self) -> str:
        """The id of the conversation; empty if the agent named none."""
        found = self.task or self.message
        return found.context_id if found is not None else ""

    async def answer(self, message: Content, *, timeout_s: float | None = None) -> "ClientReply":
        """Answer the agent's question: the next message of the same task. It names the question,
        so that it can't answer another one.
        """
        if self.task is None:
            raise ValueError(
                "this answer has no task to go on with; send a new message with its context_id"
            )
        reply = await self._client.send(
            message,
            task_id=self.task.id,
            context_id=self.context_id,
            metadata=answering(self),
            timeout_s=timeout_s,
        )
        if self.on_answer is not None:
            reply.on_answer = self.on_answer
            self.on_answer(reply)
        return reply

    def __repr__(self) -> str:
        return f"ClientReply({self.state.word}, {self.text[:60]!r})"


def answering(reply: ClientReply, metadata: Metadata | None = None) -> Metadata | None:
    """Return the metadata of a message that answers what a reply asks."""
    questions = reply.questions
    return naming(questions[0].id, metadata) if questions else metadata


def parts_of(content: Content) -> list[Part]:
    """Return `content` as the parts of a message: text for str, a file for File or bytes, data for
    other JSON values.
    """
    match content:
        case str():
            return [Part(text=content if type(content) is str else str.__str__(content))]
        case Part():
            return [content]
        case File():
            return [content.part()]
        case bytes():
            return [Part(raw=content, media_type="application/octet-stream")]
        case list() | tuple() if content and any(
            isinstance(item, (Part, File, bytes)) for item in content
        ):
            return [part for item in content for part in parts_of(item)]
    return [Part(data=to_builtins(content), media_type="application/json")]


def _file(part: Part) -> File | None:
    if isinstance(part.raw, bytes):
        return File(part.raw, name=part.filename, media_type=part.media_type)
    if isinstance(part.url, str):
        return (
            File(url=part.url, name=part.filename, media_type=part.media_type) if part.url else None
        )
    return None
