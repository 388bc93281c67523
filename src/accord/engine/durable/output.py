"""What becomes of a function's output, in the first attempt and in later ones.

Chunks feed one artifact per branch until one is the last. While recorded work is gone through again
nothing is sent: chunks gather, with those of steps that are not done again. The first chunk after
that sends its artifact as a whole, and readers replace what they had. Whole artifacts and statuses
that the log has are skipped by their position in the branch.

Ids are counted, not random, so that an attempt gives the ids of the one before: `artifact-3` in the
function itself, `artifact-0.1-3` in branch 0.1. The first number is one more than the artifacts the
task had before the run.
"""

from typing import NamedTuple

from msgspec.structs import replace

from ...model import Artifact, Part, whole_number
from .history import History, RecordedOutput

__all__ = ["Output", "Send"]


class Send(NamedTuple):
    """What is to be sent."""

    artifact: Artifact
    append: bool
    last_chunk: bool


class Output:
    """The output of one branch."""

    __slots__ = (
        "_all",
        "_gathered",
        "_history",
        "_is_live",
        "_is_sent",
        "_number",
        "_open",
        "_path",
        "_prefix",
        "_recorded",
        "_start",
        "_statuses",
        "_wholes",
    )

    def __init__(
        self,
        history: History | None,
        artifacts: int,
        path: str = "",
        all_: "list[Output] | None" = None,
    ) -> None:
        """Args:
        history: What the log has of the run, if this is not its first attempt.
        artifacts: How many the task had before the run.
        path: Of the branch.
        all_: Outputs of the run that have gathered something; None for the first one.
        """
        self._history = history
        self._path = path
        self._prefix = f"artifact-{path}-" if path else "artifact-"
        self._start = self._number = artifacts
        self._recorded: RecordedOutput | None = (
            history.output(path) if history is not None else None
        )
        self._is_live = self._recorded is None  # the record of the branch has been gone through
        self._open = ""  # the artifact that chunks feed
        self._is_sent = False  # this attempt has sent it
        self._wholes = self._statuses = 0  # said outside of steps
        # artifacts in chunks which this attempt has not sent
        self._gathered: dict[str, list[Part]] = {}
        self._all: list[Output] = [] if all_ is None else all_

    def child(self, path: str) -> "Output":
        """The output of another branch of the run."""
        return Output(self._history, self._start, path, self._all)

    def chunk(
        self, parts: list[Part], *, is_last: bool = False, is_in_step: bool = False
    ) -> Send | None:
        """A chunk was written: what to send, None if nothing. After the last chunk of an artifact
        the next one begins another.
        """
        id_ = self._open
        if not id_:
            id_ = self._next_id()
            if is_last:
                return self._whole(Artifact(artifact_id=id_, parts=parts), is_in_step)
            self._open = id_
        append = self._is_sent
        if not append:
            if not self._is_live and self._is_replaying():
                self._gather(id_, parts)
                if is_last:
                    self._open = ""
                return None
            parts = [*self._gathered.pop(id_, ()), *parts]
        self._is_sent = not is_last
        if is_last:
            self._open = ""
        return Send(Artifact(artifact_id=id_, parts=parts), append, is_last)

    def artifact(self, artifact: Artifact, *, is_in_step: bool = False) -> Send | None:
        """A whole artifact was made: what to send, None if the log has it. Without an id it gets
        one.
        """
        if not artifact.artifact_id:
            artifact = replace(artifact, artifact_id=self._next_id())
        else:
            self._count(artifact.artifact_id)
        return self._whole(artifact, is_in_step)

    def _whole(self, artifact: Artifact, is_in_step: bool) -> Send | None:
        if not is_in_step:  # a step that is done again makes its artifacts again
            self._wholes += 1
            if self._recorded is not None and self._wholes <= self._recorded.wholes:
                return None
        return Send(artifact, False, True)

    def status(self, *, is_in_step: bool = False) -> bool:
        """A status was said: whether it is to be sent."""
        if is_in_step:
            return True
        self._statuses += 1
        return self._recorded is None or self._statuses > self._recorded.statuses

    def claim(self, step: str) -> None:
        """A step is not done again: its recorded output takes its place in the order."""
        if self._recorded is None:
            return
        for update in self._recorded.steps.pop(step, ()):
            id_, parts = update.artifact.artifact_id, update.artifact.parts
            self._count(id_)
            is_chunk = update.append or not update.last_chunk or id_ in self._gathered
            if not is_chunk:
                continue
            if not update.append:
                self._gathered.pop(id_, None)
            self._gather(id_, parts)
            self._open, self._is_sent = ("" if update.last_chunk else id_), False

    def finish(self) -> list[tuple[str, Send]]:
        """The run has ended: the artifacts of all branches that are to be sent as a whole, since
        the log has something else.
        """
        found = []
        for output in self._all:
            content = output._recorded.content if output._recorded is not None else {}
            for id_, parts in output._gathered.items():
                if content.get(id_) != parts:
                    send = Send(Artifact(artifact_id=id_, parts=parts), False, id_ != output._open)
                    found.append((output._path, send))
            output._gathered = {}
        self._all.clear()
        return found

    def _is_replaying(self) -> bool:
        self._is_live = self._history is None or not self._history.is_replaying(self._path)
        return not self._is_live

    def _gather(self, id_: str, parts: list[Part]) -> None:
        if not self._gathered:
            self._all.append(self)
        self._gathered.setdefault(id_, []).extend(parts)

    def _next_id(self) -> str:
        self._number += 1
        return f"{self._prefix}{self._number}"

    def _count(self, id_: str) -> None:
        """Give no id twice: one we have given before, or one of the user's that looks like ours."""
        number = whole_number(id_.removeprefix(self._prefix))
        if number is not None and id_.startswith(self._prefix):
            self._number = max(self._number, number)
