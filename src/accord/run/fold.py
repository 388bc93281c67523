"""Fold events into a task.

The only place that knows which event may follow which. No clock, no store, no await.
"""

from ..model import FINAL, Artifact, ArtifactUpdate, Event, InvalidAgentResponse, Limits, Message, StatusUpdate, Task, TaskState

__all__ = ["add_message", "apply", "keep_last_word"]

_DEFAULT = Limits()

# How far back a status message can lie in the history: behind at most the messages waiting for a turn, and one.
_NEAR = 33


def apply(task: Task, event: Event, limits: Limits = _DEFAULT) -> None:
    """Bring `task`, the draft its run owns, to where it stands once `event` has happened.

    Raises:
        InvalidAgentResponse: The agent spoke after the end, appended to an artifact it never started, or made more
            artifacts than a task may hold.
    """
    if isinstance(event, StatusUpdate):
        # Submitted again is the one thing that may follow an end: a version whose tasks can be reopened asked for it.
        if task.status.state in FINAL and event.status.state is not TaskState.SUBMITTED:
            raise _after_the_end(task)
        keep_last_word(task, limits)
        task.status = event.status
        if event.metadata is not None:
            task.metadata = (task.metadata or {}) | event.metadata
    elif isinstance(event, ArtifactUpdate):
        if task.status.state in FINAL:
            raise _after_the_end(task)
        _merge(task, event, limits)
    else:
        raise InvalidAgentResponse(f"task {task.id} was started twice")


def add_message(task: Task, message: Message, limits: Limits = _DEFAULT) -> None:
    """Add a message of the user to the history, after everything said before it."""
    if task.status.state in FINAL:
        raise _after_the_end(task)
    keep_last_word(task, limits)
    task.history.append(message)


def keep_last_word(task: Task, limits: Limits = _DEFAULT) -> None:
    """Move the status message into the history, once, before something newer takes its place (spec 7, A34)."""
    last = task.status.message
    if last is None or len(task.history) >= limits.history:
        return  # a full history takes no more of the agent's words (spec MSG-2)
    if not any(m.message_id == last.message_id for m in task.history[: -_NEAR - 1 : -1]):
        task.history.append(last)


def _merge(task: Task, event: ArtifactUpdate, limits: Limits) -> None:
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
    if len(task.artifacts) >= limits.artifacts:
        raise InvalidAgentResponse(f"task {task.id} has {limits.artifacts} artifacts, the most a task may hold")
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
