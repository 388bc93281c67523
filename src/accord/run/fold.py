"""Fold events into a task.

The only place that knows which event may follow which. No clock, no store, no await.
"""

from ..model import FINAL, Artifact, ArtifactUpdate, Event, InvalidAgentResponse, Message, StatusUpdate, Task

__all__ = ["MAX_ARTIFACTS", "MAX_HISTORY", "add_message", "apply", "keep_last_word"]

MAX_HISTORY = 10_000
MAX_ARTIFACTS = 10_000

# How far back a status message can lie in the history: behind at most the messages waiting for a turn, and one.
_NEAR = 33


def apply(task: Task, event: Event) -> None:
    """Bring `task`, the draft its run owns, to where it stands once `event` has happened.

    Raises:
        InvalidAgentResponse: The agent spoke after the end, appended to an artifact it never started, or made more
            artifacts or messages than a task may hold.
    """
    if isinstance(event, StatusUpdate):
        if task.status.state in FINAL:
            raise _after_the_end(task)
        keep_last_word(task)
        task.status = event.status
        if event.metadata is not None:
            task.metadata = (task.metadata or {}) | event.metadata
    elif isinstance(event, ArtifactUpdate):
        if task.status.state in FINAL:
            raise _after_the_end(task)
        _merge(task, event)
    else:
        raise InvalidAgentResponse(f"task {task.id} was started twice")


def add_message(task: Task, message: Message) -> None:
    """Add a message of the user to the history, after everything said before it."""
    if task.status.state in FINAL:
        raise _after_the_end(task)
    keep_last_word(task)
    _remember(task, message)


def keep_last_word(task: Task) -> None:
    """Move the status message into the history, once, before something newer takes its place (spec 7, A34)."""
    last = task.status.message
    if last is not None and all(m.message_id != last.message_id for m in task.history[-_NEAR:]):
        _remember(task, last)


def _remember(task: Task, message: Message) -> None:
    if len(task.history) >= MAX_HISTORY:
        raise InvalidAgentResponse(f"task {task.id} has {MAX_HISTORY} messages, the most a task may hold; start a new one")
    task.history.append(message)


def _merge(task: Task, event: ArtifactUpdate) -> None:
    chunk = event.artifact
    for i, known in enumerate(reversed(task.artifacts)):
        if known.artifact_id == chunk.artifact_id:
            if event.append:
                _extend(known, chunk)
            else:
                task.artifacts[-1 - i] = _own(chunk)
            return
    if event.append:
        raise InvalidAgentResponse(f"chunk for artifact {chunk.artifact_id!r} of task {task.id}, which was never started")
    if len(task.artifacts) >= MAX_ARTIFACTS:
        raise InvalidAgentResponse(f"task {task.id} has {MAX_ARTIFACTS} artifacts, the most a task may hold")
    task.artifacts.append(_own(chunk))


def _own(chunk: Artifact) -> Artifact:
    """A copy whose list of parts may grow: the event keeps its own."""
    return Artifact(
        artifact_id=chunk.artifact_id,
        parts=list(chunk.parts),
        name=chunk.name,
        description=chunk.description,
        metadata=chunk.metadata,
        extensions=chunk.extensions,
    )


def _extend(known: Artifact, chunk: Artifact) -> None:
    known.parts.extend(chunk.parts)
    known.name = chunk.name or known.name
    known.description = chunk.description or known.description
    if chunk.metadata is not None:
        known.metadata = (known.metadata or {}) | chunk.metadata


def _after_the_end(task: Task) -> InvalidAgentResponse:
    return InvalidAgentResponse(f"task {task.id} is already {task.status.state.word}")
