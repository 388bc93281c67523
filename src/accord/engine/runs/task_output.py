"""What a run says: statuses, artifacts and messages, written into the log of its task."""

import asyncio
import copy
import logging
import time
from collections.abc import Callable
from typing import Any

from msgspec import Raw
from msgspec.structs import replace

from ...files import Files
from ...model import (
    FINAL,
    INTERRUPTED,
    A2AError,
    Artifact,
    ArtifactUpdate,
    InvalidAgentResponse,
    Message,
    Metadata,
    Part,
    PathPart,
    StatusUpdate,
    TaskState,
)
from ...store import StateWrite
from ..durable import RUN_POSITION, Branch, History, Output, Send
from ..log import NO_ORIGIN, ArtifactChanged, Log, Noted, Origin, StateLoaded
from ..skills import Reply, Rewrite, Skill, StatusMessage, rewritten, to_parts
from ..threads import LoopThread
from .conversation_state import StateOfConversation
from .lifecycle import OVER, Lifecycle, Move, State
from .messages import agent_message, with_bytes
from .output_files import OutputFiles
from .pending import PendingTask

__all__ = ["TaskOutput"]

log_ = logging.getLogger("accord")

_PAUSE_EVENTS = 64  # after so many events in one go, the rest of the loop has a turn


class TaskOutput:
    """Writes what one run says into the log of its task.

    - After the end nothing is written: a cancelled thread may go on talking for a while.
    - With the first output a pending task begins to exist, unless that output is the answer itself.
    """

    __slots__ = (
        "_events",
        "_file_store",
        "_files",
        "_history",
        "_home",
        "_life",
        "_log",
        "_root",
        "_skill",
        "conversation",
        "has_output",
        "last_message",
        "left_open",
        "pending",
        "rewrites",
    )

    def __init__(
        self,
        log: Log,
        skill: Skill,
        life: Lifecycle,
        history: History | None,
        pending: PendingTask | None,
        home: LoopThread,
        files: Files | None = None,
    ) -> None:
        self._log = log
        self._file_store = files
        self._files: OutputFiles | None = None  # made when it says something that may be a file
        self._skill = skill
        self._life = life
        self._history = history
        self._home = home
        self._root: Branch | None = None
        self._events = 0
        self.pending = pending  # None: there is a task
        # The state of the conversation, which is stored with the status that ends a turn.
        self.conversation: StateOfConversation | None = None
        self.rewrites: list[Rewrite] = []  # of middleware
        self.has_output = False
        self.last_message: Message | None = None
        self.left_open: StatusUpdate | None = None  # the question a bridge ended its turn with

    # Before there is a task

    def begin_task(self, *, works: bool = True) -> None:
        """Make a pending task exist. Do nothing if there is a task already."""
        pending, self.pending = self.pending, None
        if pending is None:
            return
        if works:
            self._log.set_status(TaskState.WORKING)
        pending.begin_task()

    def answer(self, word: Reply | StatusMessage | Message) -> bool:
        """Answer with a message if the task is pending. Return False if there is a task: then the
        message belongs to its last status.
        """
        skill = self._skill
        if isinstance(word, Reply) and skill.makes_task and not skill.has_first_word:
            raise TypeError(
                f"{skill.function.__qualname__} has a task, and a Reply is an answer without one; "
                "annotate it -> Reply, or say StatusMessage(...)"
            )
        pending = self.pending
        if isinstance(word, StatusMessage) or pending is None or pending.always_task:
            return False
        self.pending = None
        self._life.move(Move.END)
        message = with_bytes(agent_message(word, "", self._log.ids.context_id))
        pending.answer(replace(message, parts=rewritten(message.parts, self.rewrites)))
        return True

    def refuse(self, error: A2AError) -> bool:
        """Give the sender of a pending task an error. Return False if there is a task."""
        pending, self.pending = self.pending, None
        if pending is None:
            return False
        self._life.move(Move.END)
        pending.refuse(error)
        return True

    # Statuses

    def status(
        self,
        state: TaskState,
        word: Any = None,
        metadata: Metadata | None = None,
        origin: Origin = NO_ORIGIN,
        *,
        refusal: A2AError | None = None,
        cursor: str | None = None,
        keeps_waiting: bool = False,
    ) -> None:
        """Give the task a new status."""
        if self._is_dropped():
            return
        if self.pending is not None:
            self.begin_task()
        self._life.progressed_s = time.monotonic()
        self.has_output = True
        self._log.set_status(
            state,
            None if word is None else self.message(word),
            metadata,
            origin,
            refusal=refusal,
            cursor=cursor,
            keeps_waiting=keeps_waiting,
        )

    def progress(self, text: str, metadata: Metadata | None) -> None:
        """Say how far the work is."""
        branch, origin = self._origin()
        if branch.output.status(is_in_step=bool(origin.step)):
            self.status(TaskState.WORKING, text, metadata, origin)

    # Artifacts

    def emit(self, value: Any, *, is_last: bool = False) -> None:
        """Add what was yielded or returned: an Artifact is one of its own, anything else is a chunk
        of the branch's artifact.
        """
        if isinstance(value, (Reply, StatusMessage, Message)):
            if not self.answer(value):
                self.last_message = self.message(value)
            return
        if self._is_dropped():
            return
        branch, origin = self._origin()
        output = branch.output
        if isinstance(value, Artifact):
            if not value.parts:
                raise InvalidAgentResponse(f"artifact {value.artifact_id!r} has no parts")
            artifact = copy.copy(value)
            if self.rewrites:
                artifact.parts = rewritten(artifact.parts, self.rewrites)
            send = output.artifact(artifact, is_in_step=bool(origin.step))
        else:
            parts = [Part(text=value)] if type(value) is str else to_parts(value)
            if not parts:
                raise InvalidAgentResponse("an artifact needs at least one part")
            if self.rewrites:
                parts = rewritten(parts, self.rewrites)
            send = output.chunk(parts, is_last=is_last, is_in_step=bool(origin.step))
        if send is not None:
            self._send(send, origin, is_text=isinstance(value, str) and not self.rewrites)

    def begin_file(self, name: str, media_type: str, description: str, data: bytes) -> str:
        """Begin an artifact that is a file, with its first bytes. Return its id; nothing if the
        log has it from an earlier attempt.
        """
        if self._is_dropped():
            return ""
        branch, origin = self._origin()
        artifact = Artifact(
            artifact_id="",
            parts=[Part(raw=data, filename=name, media_type=media_type)],
            name=name,
            description=description,
        )
        send = branch.output.artifact(artifact, is_in_step=bool(origin.step))
        if send is None:
            return ""
        self._send(send._replace(last_chunk=False), origin)
        return send.artifact.artifact_id

    def grow_file(self, artifact_id: str, data: bytes, media_type: str, *, is_last: bool) -> None:
        """Add bytes to the file of an artifact."""
        if self._is_dropped():
            return
        artifact = Artifact(artifact_id=artifact_id, parts=[Part(raw=data, media_type=media_type)])
        self._send(Send(artifact, True, is_last), self._origin()[1])

    def add_artifact(
        self,
        content: tuple[Any, ...],
        *,
        name: str,
        description: str,
        artifact_id: str,
        metadata: Metadata | None,
    ) -> None:
        """Add a whole artifact."""
        parts = [part for value in content for part in to_parts(value)]
        self.emit(
            Artifact(
                artifact_id=artifact_id,
                parts=parts,
                name=name,
                description=description,
                metadata=metadata,
            )
        )

    def resend_changed(self) -> None:
        """Send again what an earlier attempt of the function had said in another way."""
        if self._root is not None:
            for path, send in self._root.output.finish():
                self._send(send, Origin(path))

    def _send(
        self,
        send: Send,
        origin: Origin,
        *,
        is_text: bool = False,
        cursor: str | None = None,
        is_said: bool = False,
    ) -> None:
        """Log an artifact or a chunk of one. If it `is_text` and nothing else, no file can be in
        it, and nothing that the function still holds and may change.
        """
        if self.pending is not None:
            self.begin_task()
        self._life.progressed_s = time.monotonic()
        self.has_output = True
        if not is_text and (files := self._output_files()) is not None:
            send = files.stored(send, is_said=is_said)
        task_id, context_id = self._log.ids
        update = ArtifactUpdate(
            task_id=task_id,
            context_id=context_id,
            artifact=send.artifact,
            append=send.append,
            last_chunk=send.last_chunk,
        )
        entry = ArtifactChanged(update, origin.branch, origin.step, cursor)
        self._log.append(entry, is_ours=is_text)

    # Events of bridges to other agents

    def say(
        self, event: StatusUpdate | ArtifactUpdate | Message, cursor: str | None = None
    ) -> None:
        """Add an event of the protocol as it is, with the ids of this task."""
        if isinstance(event, Message):
            if not self.answer(event):
                self.last_message = self.message(event)
            return
        if self._skill.is_durable and cursor is None:
            raise TypeError(
                "in a durable skill ctx.say needs cursor=, the place of the event on the other "
                "side (or '' if there are none): a later attempt has to find out by ctx.cursor and "
                "ctx.task what was said; else use ctx.status, ctx.write and ctx.artifact"
            )
        if self._is_dropped():
            return
        if isinstance(event, ArtifactUpdate):
            artifact = copy.copy(event.artifact)
            artifact.parts = rewritten(artifact.parts, self.rewrites)
            send = Send(artifact, bool(event.append), bool(event.last_chunk))
            self._send(send, self._origin()[1], cursor=cursor, is_said=True)
        else:
            self._say_status(event, cursor)

    def _say_status(self, event: StatusUpdate, cursor: str | None) -> None:
        state, message = event.status.state, event.status.message
        if state in FINAL:
            write = self.state_to_store() if state is TaskState.COMPLETED else None
            self.status(state, message, event.metadata, cursor=cursor)
            self.store_state(write)
            self._life.move(Move.END)
        elif state in INTERRUPTED:
            if self._skill.is_durable:
                raise TypeError("a durable skill asks with ctx.ask or ctx.require_auth")
            self.left_open = event
            if state is TaskState.AUTH_REQUIRED:
                # The sender has to know, while the function may wait for the authorization.
                self.status(state, message, event.metadata)
        else:
            self.left_open = None
            is_first = self.pending is not None
            self.begin_task(works=False)
            if is_first and state is TaskState.SUBMITTED and message is None:
                return  # every task begins in this way
            self.status(state, message, event.metadata, cursor=cursor)

    def end_turn(
        self,
        state: TaskState,
        message: Message | None,
        metadata: Metadata | None,
        *,
        refusal: A2AError,
    ) -> None:
        """End the task; the sender gets an error."""
        self.status(state, message, metadata, refusal=refusal, cursor="")
        self._life.move(Move.END)

    # The end of a turn

    def end(self, state: TaskState, word: Any = None) -> None:
        """End the task, unless the run is over. A task that its client cancelled does not fail."""
        life = self._life
        if life.state in OVER:
            return
        if self.pending is not None:
            self.begin_task()
        if life.state is State.CANCELING and state in (TaskState.FAILED, TaskState.REJECTED):
            state = TaskState.CANCELED
        message = None if word is None else self.closing_message(word)
        if self._files is not None:
            self._files.finish()
        try:
            write = None
            if self.conversation is not None and state is TaskState.COMPLETED:
                write = self.conversation.to_store()
            self._log.set_status(state, message)
            if write is not None:
                self.store_state(write)
        except InvalidAgentResponse as error:  # more than the task, or its state, may have
            self.complain(logging.ERROR, str(error))
            self._log.set_status(TaskState.FAILED, self.closing_message(str(error)))
        life.move(Move.END)

    def wait_for_message(
        self,
        state: TaskState,
        word: Any,
        metadata: Metadata | None,
        *,
        keeps_waiting: bool = False,
    ) -> None:
        """End the turn with a question: the function has returned, and the next message calls it
        again.
        """
        write = self.state_to_store()
        self.hand_back()
        if self._files is not None:
            self._files.finish()
        self.status(state, word, metadata, keeps_waiting=keeps_waiting)
        self.store_state(write)
        self._life.move(Move.END)

    def wait_in_last_status(self, private: str) -> None:
        """End the turn: the status that was said last stays."""
        write = self.state_to_store()
        self.hand_back()
        self._log.append(Noted(private))  # the task is given up with a commit
        self.store_state(write)
        self._life.move(Move.END)

    def hand_back(self) -> None:
        """Give the task up: its function has returned, it waits, and any process may go on."""
        self._log.is_clear = True
        self._log.slot.free()

    def state_to_store(self) -> StateWrite | None:
        """Return the state of the conversation, to be stored with the status that follows. Raises
        as `StateOfConversation.to_store` does.
        """
        return self.conversation.to_store() if self.conversation is not None else None

    def store_state(self, write: StateWrite | None) -> None:
        if write is None or self._log.commits.is_lost:
            return
        if self._log.about.fork_of:  # the conversation is the forked task's
            self._log.append(StateLoaded(write.read, Raw(write.data)))
        else:
            self._log.remember(write)

    def _output_files(self) -> OutputFiles | None:
        """Return where files of this run go; None: into the log."""
        if self._files is None and self._file_store is not None:
            self._files = OutputFiles(self._file_store, self._log)
        return self._files

    def grows_at(self, artifact_id: str, offset: int) -> bool:
        """Return whether a chunk at this place goes on with the file of an artifact of this run."""
        return self._files is not None and self._files.grows_at(artifact_id, offset)

    def stored_file(self, part: Part) -> Part:
        """Return the part of a file as the log holds it: its bytes are stored if they are many."""
        files = self._output_files()
        if files is not None:
            return files.part(part)
        return part.read() if isinstance(part, PathPart) else part

    # Messages

    def message(self, word: Any) -> Message:
        """Return what the agent says as a message of this task."""
        message = agent_message(word, *self._log.ids)
        if self.rewrites:
            message = replace(message, parts=rewritten(message.parts, self.rewrites))
        files = self._output_files()
        return message if files is None else files.message(message)

    def closing_message(self, word: Any) -> Message | None:
        """Return the message a task ends with; None if middleware fails to rewrite it."""
        if isinstance(word, Message):
            return agent_message(word, *self._log.ids)  # it was rewritten when it was said
        try:
            return self.message(word)
        except Exception:
            task_id = self._log.ids.task_id
            log_.exception("task %s: its last message could not be rewritten", task_id)
            return None

    # Where it is said

    def root(self, task: "asyncio.Task[None] | None") -> Branch:
        """Return the branch of the function itself."""
        if self._root is None:
            history = self._history
            count = history.artifacts if history is not None else len(self._log.draft.artifacts)
            self._root = Branch("", Output(history, count), task)
        return self._root

    def _origin(self) -> tuple[Branch, Origin]:
        """Return where in the function we are."""
        place = RUN_POSITION.get()
        if place is None or place.run.output is not self:
            return self.root(None), NO_ORIGIN  # outside of the function's own tasks
        branch, step = place.branch, place.step
        return branch, Origin(branch.path, step) if branch.path or step else NO_ORIGIN

    def act(self, action: Callable[[], None]) -> None:
        """Say something at once, or from another thread as soon as the loop gets to it."""
        home = self._home
        if home.is_here:
            action()
            return
        home.loop.call_soon_threadsafe(self._act_later, action)
        if self._log.commits.is_far_ahead:
            asyncio.run_coroutine_threadsafe(self._log.commits.drain(), home.loop).result()

    def _act_later(self, action: Callable[[], None]) -> None:
        try:
            action()
        except InvalidAgentResponse as error:
            self.complain(logging.WARNING, str(error))

    async def drain(self) -> None:
        """Wait until the commit has caught up, and give others a turn now and then."""
        self._events += 1
        if self._events % _PAUSE_EVENTS == 0:
            await asyncio.sleep(0)
        if self._log.commits.is_far_ahead:
            await self._log.commits.drain()
        if self._life.state is State.RELEASED:
            raise asyncio.CancelledError

    def _is_dropped(self) -> bool:
        """Return whether the task has ended, so that nothing more is said."""
        if self._life.state not in OVER and self._log.draft.status.state not in FINAL:
            return False
        if self._life.state is not State.RELEASED:  # else the next run says it
            self.complain(logging.WARNING, "output after the end was dropped")
        return True

    def complain(self, level: int, text: str) -> None:
        """Write a line to the log of the server."""
        task_id = self._log.ids.task_id
        log_.log(
            level,
            "task %s: skill %s: %s",
            *(task_id, self._skill.id, text),
            extra={"task_id": task_id},
        )

    def close(self) -> None:
        """Drop what refers to the run, so that nothing is left to the garbage collector."""
        if self._root is not None:
            self._root.task = None
        self._root = self.conversation = None
