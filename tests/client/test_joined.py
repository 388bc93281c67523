"""A stream comes in chunks; the task it leaves has each text as one part."""

import pytest
from msgspec import UNSET

from accord import Agent, File
from accord.client import connect
from accord.model import FINAL, ArtifactUpdate, Part, StatusUpdate
from tests.drive import serving


async def talk(text: str):
    yield "one "
    yield "two"
    yield File(url="https://x.y/z")
    yield "three "
    yield "four"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("reads_to_the_end", [True, False])
async def test_the_task_at_the_end_has_whole_texts(binding, reads_to_the_end):
    """Events stay chunks, also those handed out before; who stops at the last event has the same
    task.
    """
    agent = Agent("Talker")
    agent.skill(talk)
    app = agent.app()
    chunks = []
    async with serving(app, app.close) as url, connect(url, binding=binding) as client:
        stream = client.stream("go")
        async for event in stream:
            if isinstance(event, ArtifactUpdate):
                chunks.append(event.artifact)
            if (
                isinstance(event, StatusUpdate)
                and event.status.state in FINAL
                and not reads_to_the_end
            ):
                break
        await stream.close()
    assert [part.text for chunk in chunks for part in chunk.parts] == [
        "one ",
        "two",
        UNSET,
        "three ",
        "four",
    ]
    assert stream.reply.parts == [
        Part(text="one two"),
        Part(url="https://x.y/z", media_type="application/octet-stream"),
        Part(text="three four"),
    ]
    assert stream.task.artifacts[0].text == stream.reply.text == "one twothree four"
