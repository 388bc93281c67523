"""Several messages that belong together."""

from typing import TYPE_CHECKING

from ..model import INTERRUPTED, Message, Metadata
from .reply import ClientReply, Content

if TYPE_CHECKING:
    from .client import Client
    from .streams import Stream

__all__ = ["Conversation"]


class Conversation:
    """A conversation with an agent: carries the context from message to message, and answers
    questions that are open.

    talk = client.conversation()
    reply = await talk.send("A weekend in Rome")
    if reply.question:
        reply = await talk.send("two days")
    """

    def __init__(self, client: "Client", context_id: str = "") -> None:
        self.context_id = context_id
        self.last: ClientReply | None = None
        self._client = client
        self._reading: Stream | None = None

    async def send(
        self,
        message: Content,
        *,
        skill: str = "",
        metadata: Metadata | None = None,
        timeout_s: float | None = None,
    ) -> ClientReply:
        self._catch_up()
        reply = await self._client.send(
            message,
            task_id=self._open_task,
            context_id=self.context_id,
            skill="" if self._open_task else skill,
            metadata=metadata,
            timeout_s=timeout_s,
        )
        self._remember(reply)
        return reply

    def stream(
        self,
        message: Content,
        *,
        skill: str = "",
        metadata: Metadata | None = None,
        timeout_s: float | None = None,
    ) -> "Stream":
        self._catch_up()
        self._reading = self._client.stream(
            message,
            task_id=self._open_task,
            context_id=self.context_id,
            skill="" if self._open_task else skill,
            metadata=metadata,
            timeout_s=timeout_s,
        )
        return self._reading

    @property
    def _open_task(self) -> str:
        last = self.last
        return last.task_id if last is not None and last.state in INTERRUPTED else ""

    def _catch_up(self) -> None:
        """A stream is read by the user; what it came to counts when the conversation goes on."""
        reading, self._reading = self._reading, None
        if reading is not None and (
            reading.task is not None or isinstance(reading.message, Message)
        ):
            self._remember(reading.reply)

    def _remember(self, reply: ClientReply) -> None:
        self.last = reply
        self.context_id = reply.context_id or self.context_id
