"""What the objects of the model look like to people."""

from accord.model import Artifact, ArtifactUpdate, Part


def test_what_is_printed_of_an_object_is_short() -> None:
    """`print(event)` is the first thing everybody does with a stream."""
    update = ArtifactUpdate(
        task_id="t", context_id="c", artifact=Artifact(artifact_id="a", parts=[Part(text="Day 1")])
    )
    assert str(update) == "ArtifactUpdate('Day 1', artifact='a', task=t)"
