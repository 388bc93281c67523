"""What a reader has seen of a task, and how that is brought together with the task as it stands
now. Pure.
"""

from typing import Any

import msgspec

from ...model import (
    Artifact,
    ArtifactUpdate,
    Event,
    Message,
    Part,
    Role,
    SendMessageRequest,
    StatusUpdate,
    SubscribeRequest,
    Task,
    TaskState,
    TaskStatus,
    join_text,
)

__all__ = ["Echo", "Gap", "apply", "catch_up", "message_arrived", "own", "reconcile", "unseen"]


class Gap(msgspec.Struct, frozen=True):
    """Report that the reader missed events of the task, which can't be had any more.

    `task` is the task in its current state.
    """

    task: Task
    reason: str


def own(task: Task) -> Task:
    """Return a copy whose lists may grow: an event handed to a user does not change under their
    hands.
    """
    return Task(
        id=task.id,
        status=task.status,
        context_id=task.context_id,
        artifacts=[_own(artifact) for artifact in task.artifacts],
        history=list(task.history),
        metadata=task.metadata,
        generation=task.generation,
        timeline=task.timeline,
        artifact_generations=task.artifact_generations,
    )


def apply(task: Task, event: Event) -> None:
    """Apply `event` to `task`. Agents are strangers: what makes no sense is
    taken as it comes.
    """
    if isinstance(event, StatusUpdate):
        last = task.status.message
        if last is not None and all(
            message.message_id != last.message_id for message in task.history[-33:]
        ):
            task.history.append(last)
        task.status = event.status
        if event.metadata:
            task.metadata = (task.metadata or {}) | event.metadata
    elif isinstance(event, ArtifactUpdate):
        _merge(task.artifacts, event)
    if not isinstance(event, Task):
        task.generation = event.generation or task.generation


def message_arrived(request: SendMessageRequest | SubscribeRequest, task: Task) -> bool:
    """Whether the message of `request` reached this task.

    A message without a task id created the task, so it did. A message for an existing task did if
    the task's history has it.
    """
    if isinstance(request, SubscribeRequest) or not request.message.task_id:
        return True
    return any(said.message_id == request.message.message_id for said in task.history)


def reconcile(seen: Task, now: Task) -> list[Event | Gap]:
    """Return the events that lead from what was seen to the task as it stands.

    Chunks that were missed come as chunks, status messages that were missed come from the history.
    What left no trace (an agent that keeps no history, an artifact taken away) is a Gap.
    """
    ids: dict[str, Any] = {"task_id": now.id, "context_id": now.context_id}
    missed: list[Event | Gap] = []
    known = {artifact.artifact_id: artifact for artifact in seen.artifacts}
    for artifact in now.artifacts:
        rest = _rest(known.pop(artifact.artifact_id, None), artifact)
        if rest is not None:
            missed.append(ArtifactUpdate(**ids, artifact=rest[0], append=rest[1]))
    is_lossy = bool(known) and bool(now.artifacts)
    if seen.status != now.status:
        messages = _missed_messages(seen, now)
        if messages is None:
            is_lossy = True
        for message in messages or ():
            status = msgspec.structs.replace(
                now.status, state=TaskState.WORKING, message=message, timestamp=""
            )
            missed.append(StatusUpdate(**ids, status=status))
        missed.append(StatusUpdate(**ids, status=now.status))
    if is_lossy:
        missed.insert(
            0,
            Gap(
                now,
                "the connection was lost, and the agent can't send all events that happened "
                "meanwhile",
            ),
        )
    return missed


def catch_up(seen: Task, now: Task) -> list[Event]:
    """As `reconcile`, for someone who has recorded what it saw, at times of its own: all that is
    left of what was missed, and no word of what is lost.
    """
    if _is_same(seen.status, now.status):
        seen = msgspec.structs.replace(seen, status=now.status)
    return [event for event in reconcile(seen, now) if not isinstance(event, Gap)]


def _is_same(one: TaskStatus, other: TaskStatus) -> bool:
    """Whether two statuses say the same, whenever that was."""
    if one.state is not other.state or (one.message is None) is not (other.message is None):
        return False
    if one.message is None or other.message is None:
        return True
    return one.message.message_id == other.message.message_id


def unseen(task: Task, event: ArtifactUpdate) -> ArtifactUpdate | None:
    """Return what of an artifact told as a whole was not seen before, as the chunk it would have
    been; None if all of it was.
    """
    known = next(
        (
            artifact
            for artifact in task.artifacts
            if artifact.artifact_id == event.artifact.artifact_id
        ),
        None,
    )
    rest = _rest(known, event.artifact)
    return (
        msgspec.structs.replace(event, artifact=rest[0], append=rest[1])
        if rest is not None
        else None
    )


class Echo:
    """Knows again what a new subscription tells of its own first frame.

    Agents attach a reader before they read the task, so chunks on their way at that moment come
    twice: in the task, and once more behind it. A chunk is taken for such an echo if it is found
    near the end of the artifact, and as long as the ones after it go on from there. An agent may
    also really say the same twice; so who drops an echo compares with the task in the end.
    """

    NEAR = 64

    def __init__(self, task: Task) -> None:
        self._parts = {artifact.artifact_id: list(artifact.parts) for artifact in task.artifacts}
        self._at: dict[str, int] = {}

    def is_repeat(self, event: ArtifactUpdate) -> bool:
        name, chunk = event.artifact.artifact_id, event.artifact.parts
        known = self._parts.get(name)
        if not known or not chunk:
            return False
        at = self._at.get(name)
        last = len(known) - len(chunk)
        if at is None:
            places = range(last, max(last - self.NEAR, -1), -1)
            at = next(
                (place for place in places if known[place : place + len(chunk)] == chunk),
                len(known),
            )
        is_repeat = at <= last and known[at : at + len(chunk)] == chunk
        self._at[name] = at + len(chunk) if is_repeat else len(known)
        return is_repeat


def _rest(old: Artifact | None, new: Artifact) -> tuple[Artifact, bool] | None:
    """What of an artifact was not seen yet, and whether it is to be appended."""
    if old is None:
        return new, False
    count = len(old.parts)
    if new.parts[:count] == old.parts:
        return (_with(new, new.parts[count:]), True) if len(new.parts) > count else None
    # Some agents join the chunks of a text: then what was seen, joined as well, is how the new one
    # begins.
    seen, parts = join_text(old.parts), join_text(new.parts)
    last = len(seen) - 1
    if last >= 0 and len(parts) > last and parts[:last] == seen[:last]:
        rest = _after(seen[last], parts[last])
        if rest is not None:
            rest += parts[last + 1 :]
            return (_with(new, rest), True) if rest else None
    # Others join them whatever else they say of themselves.
    if (
        len(new.parts) == 1
        and isinstance(new.parts[0].text, str)
        and all(isinstance(p.text, str) for p in old.parts)
    ):
        text, known = new.parts[0].text, old.text
        if text.startswith(known):
            part = msgspec.structs.replace(new.parts[0], text=text[len(known) :])
            return (_with(new, [part]), True) if len(text) > len(known) else None
    return new, False


def _after(seen: Part, part: Part) -> list[Part] | None:
    """What follows `seen` in a part that begins with it: a part or none; None if it does not begin
    so.
    """
    if seen == part:
        return []
    if not (
        isinstance(seen.text, str)
        and isinstance(part.text, str)
        and part.text.startswith(seen.text)
    ):
        return None
    is_alike = msgspec.structs.replace(part, text=seen.text) == seen
    return [msgspec.structs.replace(part, text=part.text[len(seen.text) :])] if is_alike else None


def _missed_messages(seen: Task, now: Task) -> list[Message] | None:
    """The agent's messages between what was seen and the current one; None if the history does not
    tell.
    """
    if not now.history:
        return None
    said = {message.message_id for message in seen.history}
    if seen.status.message is not None:
        said.add(seen.status.message.message_id)
    if seen.history and not any(message.message_id in said for message in now.history):
        return None
    if now.status.message is not None:
        said.add(now.status.message.message_id)
    return [
        message
        for message in now.history
        if message.role is Role.AGENT and message.message_id not in said
    ]


def _merge(artifacts: list[Artifact], event: ArtifactUpdate) -> None:
    chunk = event.artifact
    for i in range(len(artifacts) - 1, -1, -1):
        known = artifacts[i]
        if known.artifact_id == chunk.artifact_id:
            if event.append:
                known.parts.extend(chunk.parts)
                if chunk.name:
                    known.name = chunk.name
                if chunk.description:
                    known.description = chunk.description
                if chunk.metadata:
                    known.metadata = (known.metadata or {}) | chunk.metadata
            else:
                artifacts[i] = _own(chunk)
            return
    artifacts.append(_own(chunk))


def _own(artifact: Artifact) -> Artifact:
    return _with(artifact, list(artifact.parts))


def _with(artifact: Artifact, parts: list[Part]) -> Artifact:
    return Artifact(
        artifact_id=artifact.artifact_id,
        parts=parts,
        name=artifact.name,
        description=artifact.description,
        metadata=artifact.metadata,
        extensions=artifact.extensions,
    )
