"""What earlier lives of a run have told: output the log has is not told again."""

from typing import TypeAlias

from msgspec.structs import replace

from ...model import Artifact, ArtifactUpdate

__all__ = ["Marks", "Told"]

Marks: TypeAlias = "tuple[dict[str, tuple[int, int]], int]"  # how far each artifact, and the words of progress, had come


class _Record:
    """One artifact: its versions, each begun when it was told anew, and how far this life has come in them."""

    def __init__(self) -> None:
        self.versions: list[Artifact] = []
        self.place = (0, 0)  # a version, and how many of its parts have been said

    @property
    def end(self) -> tuple[int, int]:
        return len(self.versions) - 1, len(self.versions[-1].parts)

    def read(self, update: ArtifactUpdate) -> None:
        if update.append and self.versions:
            self.versions[-1].parts += update.artifact.parts
        else:
            self.versions.append(replace(update.artifact, parts=list(update.artifact.parts)))

    def say(self, artifact: Artifact, *, append: bool, is_whole: bool) -> tuple[Artifact, bool] | None:
        parts = artifact.parts
        version, count = self.place
        if append and self.versions[version].parts[count : count + len(parts)] == parts:
            self.place = (version, count + len(parts))
            return None
        said = [*self.versions[version].parts[:count], *parts] if append else parts
        for later in range(version if not append and count == 0 else version + 1, len(self.versions)):
            known = self.versions[later]
            if known.parts[: None if is_whole else len(said)] == said and (append or _is_same(known, artifact)):
                self.place = (later, len(said))
                return None
        if append and self.place == self.end:
            self.versions[-1].parts += parts
            self.place = self.end
            return artifact, True
        self.versions.append(replace(artifact, parts=list(said)))
        self.place = self.end
        return replace(artifact, parts=list(said)), False


class Told:
    """The output of a run's earlier lives, and what of it has come up again in this one."""

    def __init__(self) -> None:
        self._records: dict[str, _Record] = {}
        self._named: set[str] = set()  # ids that have come up in this life
        self._words: list[str] = []
        self._word = 0
        self._heard: list[int] = []  # how long the history was after each word

    # Reading the log

    def read(self, update: ArtifactUpdate) -> None:
        self._records.setdefault(update.artifact.artifact_id, _Record()).read(update)

    def read_word(self, text: str, heard: int) -> None:
        self._words.append(text)
        self._heard.append(heard)

    def marks(self, artifacts: list[str], words: int) -> Marks:
        """How far what a step said goes, when all before its end has been read."""
        return {id_: self._records[id_].end for id_ in artifacts if id_ in self._records}, len(self._words) if words else 0

    # Going through it again

    def skip(self, marks: Marks) -> None:
        """What was said up to there does not come up again: it was said within a step, which is not done again."""
        places, word = marks
        self._named.update(places)
        for id_, place in places.items():
            self._records[id_].place = max(self._records[id_].place, place)
        self._word = max(self._word, word)

    def say(self, artifact: Artifact, *, append: bool, is_whole: bool) -> tuple[Artifact, bool] | None:
        """What to send for a chunk or an artifact: nothing if it was sent before, else that and whether to append it.

        An artifact that becomes another than before is sent as a whole, as far as it has been said.
        """
        record = self._records.get(artifact.artifact_id)
        return (artifact, append) if record is None else record.say(artifact, append=append, is_whole=is_whole)

    def name(self, artifact: Artifact, number: int, *, is_whole: bool) -> tuple[str, int]:
        """The id of an artifact that was given none, and the number it stands for: that of one which was told before just like
        this, and has not come up again yet; else the next one that is free.
        """
        for id_, record in self._records.items():
            known = record.versions[-1 if is_whole else 0]
            parts = known.parts if is_whole else known.parts[: len(artifact.parts)]
            if id_ not in self._named and record.place == (0, 0) and parts == artifact.parts and _is_same(known, artifact):
                self._named.add(id_)
                return id_, number
        while (id_ := f"artifact-{number}") in self._named:
            number += 1
        self._named.add(id_)
        return id_, number

    @property
    def heard(self) -> int:
        """How long the history was after the last word that has come up again."""
        return self._heard[self._word - 1] if self._word else 0

    def word(self, text: str) -> bool:
        """Whether a word of progress was said before, here or further on."""
        try:
            self._word = self._words.index(text, self._word) + 1
        except ValueError:
            return False
        return True


def _is_same(one: Artifact, other: Artifact) -> bool:
    """Whether they differ in nothing but their ids and parts."""
    return replace(one, artifact_id="", parts=[]) == replace(other, artifact_id="", parts=[])
