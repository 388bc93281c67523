"""The state of a run's conversation: loaded before the function is called, and stored with the
status that ends a turn.
"""

import asyncio
import json
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from ...model import InvalidAgentResponse, Unavailable
from ...net import backoff_s
from ...store import ConversationState, StateWrite
from ..log import StateLoaded

if TYPE_CHECKING:
    from .run import Run

__all__ = ["StateOfConversation"]

RETRY_S, LONGEST_RETRY_S = 0.05, 1.0
_EMPTY = ConversationState(0, b"{}")


class StateOfConversation:
    """What a function finds in `ctx.state`, and leaves there.

    A later attempt of the function must find what the first one found. So it is recorded in the log
    when the function first asks for it: at once if the skill is durable, else with the first
    question, since without one no other attempt is made.
    """

    __slots__ = ("_is_noted", "_last", "_loaded", "_run", "_value", "_wants_note")

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._loaded = _EMPTY
        self._last = b""  # what was stored last; or loaded
        self._value: dict[str, Any] | None = None  # once the function has asked for it
        self._is_noted = False
        self._wants_note = run.skill.is_durable

    async def load(self) -> None:
        """Read it. What the run before left must be stored by then."""
        run = self._run
        if run.history is not None and run.history.state is not None:
            found = run.history.state
            self._loaded = ConversationState(found.number, bytes(found.data))
            self._is_noted = True
            return
        if run.log.commits.has_unstored_state or run.log.about.fork_of:
            await run.log.commits.stored_after_outage()
        tries = 0
        while True:
            try:
                self._loaded = await self._stored() or _EMPTY
                return
            except Unavailable:  # the run waits until the store works again, as for a commit
                await asyncio.sleep(backoff_s(tries, first_s=RETRY_S, most_s=LONGEST_RETRY_S))
                tries += 1

    async def _stored(self) -> ConversationState | None:
        tasks, log = self._run.runs.tasks, self._run.log
        if not log.about.fork_of:
            return await tasks.store.conversation_state(log.namespace, log.ids.context_id)
        for one in reversed(await tasks.reader.entries(log)):
            if isinstance(one.entry, StateLoaded):
                return ConversationState(one.entry.number, bytes(one.entry.data))
        return None

    @property
    def value(self) -> dict[str, Any]:
        if self._value is None:
            self._value = json.loads(self._loaded.data)
            self._last = self._loaded.data
            if self._wants_note or self._run.history is not None:
                self._run.output.act(self._note)
        return self._value

    def question_follows(self) -> None:
        """Have the log know it: a question may be answered in a later attempt."""
        self._wants_note = True
        if self._value is not None:
            self._note()

    def _note(self) -> None:
        if not self._is_noted:
            self._is_noted = True
            self._run.note(StateLoaded(self._loaded.number, Raw(self._loaded.data)))

    def to_store(self) -> StateWrite | None:
        """Return what is to be stored now; None if nothing changed.

        Raises:
            InvalidAgentResponse: It is not JSON, or larger than it may be.
        """
        if self._value is None:
            return None
        run = self._run
        data = _encode(self._value, run.log.writer.limits.state_size)
        # After a restart it is not known what was stored last.
        if data == self._last and run.history is None:
            return None
        self._last = data
        return StateWrite(run.log.ids.context_id, self._loaded.number, data)


def _encode(value: dict[str, Any], limit: int) -> bytes:
    try:
        data = json.dumps(
            value, ensure_ascii=False, allow_nan=False, separators=(",", ":")
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidAgentResponse(f"ctx.state is not JSON: {error}") from error
    if len(data) > limit:
        raise InvalidAgentResponse(
            f"ctx.state takes {len(data)} bytes as JSON, and the state of a conversation may "
            f"take {limit}; keep large things elsewhere, and here where to find them"
        )
    return data
