"""Several messages that belong together."""

from typing import TYPE_CHECKING

from ..model import INTERRUPTED, Message, Metadata
from .reply import ClientReply, Content, answering

if TYPE_CHECKING:
    from .client import Client
    from .streams import Stream

__all__ = ["Conversation"]


class Conversation:
    """Keep a conversation with an agent: each message has the same context and answers the question
    that is open.

    talk = client.conversation()
    reply = await talk.send("A weekend in Rome")
    if reply.question:
        reply = await talk.send("two days")         # or reply.answer("two days")
    """

    def __init__(self, client: "Client", context_id: str = "") -> None:
        self._context_id = context_id
        self._last: ClientReply | None = None
        self._client = client
        self._reading: Stream | None = None

    @property
    def context_id(self) -> str:
        """The id of this conversation; `client.conversation(context_id)` continues it. Empty before
        the first answer.
        """
        self._catch_up()
        return self._context_id

    @property
    def last(self) -> ClientReply | None:
        """The last answer, as far as it has been read."""
        self._catch_up()
        return self._last

    async def send(
        self,
        message: Content,
        *,
        skill: str = "",
        metadata: Metadata | None = None,
        timeout_s: float | None = None,
    ) -> ClientReply:
        """Send a message in this conversation, or the answer to the open question."""
        reply = await self._client.send(
            message,
            task_id=self._open_task,
            context_id=self.context_id,
            skill="" if self._open_task else skill,
            metadata=self._naming(metadata),
            timeout_s=timeout_s,
        )
        reply.on_answer = self._take
        self._take(reply)
        return reply

    def stream(
        self,
        message: Content,
        *,
        skill: str = "",
        metadata: Metadata | None = None,
        timeout_s: float | None = None,
    ) -> "Stream":
        """Do the same as `send`, and return the stream of events."""
        self._reading = self._client.stream(
            message,
            task_id=self._open_task,
            context_id=self.context_id,
            skill="" if self._open_task else skill,
            metadata=self._naming(metadata),
            timeout_s=timeout_s,
        )
        self._reading.on_answer = self._take
        return self._reading

    @property
    def _open_task(self) -> str:
        last = self.last
        return last.task_id if last is not None and last.state in INTERRUPTED else ""

    def _naming(self, metadata: Metadata | None) -> Metadata | None:
        """Name the question that is open: the message answers that one, and no other."""
        last = self.last
        return answering(last, metadata) if last is not None and self._open_task else metadata

    def _catch_up(self) -> None:
        """A stream is read by the user: what it has come to counts."""
        reading = self._reading
        if reading is not None and (
            reading.task is not None or isinstance(reading.message, Message)
        ):
            self._remember(reading.reply)

    def _take(self, reply: ClientReply) -> None:
        """Remember a reply as the last one: to a message sent here, or to `reply.answer`."""
        self._reading = None
        self._remember(reply)

    def _remember(self, reply: ClientReply) -> None:
        self._last = reply
        self._context_id = reply.context_id or self._context_id
