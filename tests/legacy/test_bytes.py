"""File bytes of 0.3: whoever sends them, over whatever binding, they arrive and come back as they
are.

Real clients and servers of 0.3, unchanged; and clients that do what the proto says and name no
library that is known.
"""

import json
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old

from accord import Agent, File
from accord.client import connect
from accord.protocol import BindingName
from accord.protocol.v03.file_bytes import Form, form_of_caller, form_of_server
from tests.client.clerk import started
from tests.drive import serving
from tests.grpc.raw import call, connected
from tests.legacy.test_clients import HERE, JS, PYTHON, needs_node, packages
from tests.processes import run

# Short texts that are base64 of something else, what base64 looks like, what is no text at all, and
# nothing.
CONTENTS = [
    b"abcd",
    b"YWJjZA==",
    b"aGVsbG8=",
    b"WVdKalpBPT0=",
    b"hello",
    b"\xff\xfe\x00\x80",
    bytes(range(256)),
    b"",
]
BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


@asynccontextmanager
async def giving_back():
    """An agent that says what came, and gives it back."""
    agent = Agent("Mirror")

    @agent.skill
    async def back(file: File):
        yield file.data.hex()
        yield File(file.data, media_type="application/octet-stream")

    app = agent.app(grpc_port=0)
    async with serving(app, app.close) as url:
        await app.open()
        yield url, f"127.0.0.1:{app.grpc_port}"


async def seen_by(*command: str | Path) -> list:
    async with giving_back() as (url, _):
        words = [url if word == "URL" else word for word in command]
        done = await run(*words, *(content.hex() for content in CONTENTS), cwd=JS)
        assert done.code == 0, done.err
        return json.loads(done.out)


def unharmed() -> list:
    """Sent, asked for, streamed, and in the history: everywhere the same."""
    return [
        [word, [word, word], [word, word], [word, word], [word]]
        for word in (content.hex() for content in CONTENTS)
    ]


@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_python_client_of_0_3(binding):
    """It puts base64 text into the bytes field, and reads nothing else from there."""
    assert await seen_by(PYTHON, HERE / "bytes03.py", "URL", binding) == unharmed()


@needs_node
@pytest.mark.parametrize("binding", BINDINGS)
async def test_the_javascript_client_of_0_3(binding):
    """It goes by the letter of the proto."""
    packages()
    assert await seen_by("node", "bytes_0_3.mjs", "URL", binding) == unharmed()


@pytest.mark.parametrize("agent", [b"grpc-java-netty/1.76.0", b"tonic/0.12", b""])
@pytest.mark.parametrize("content", CONTENTS)
async def test_a_grpc_client_by_the_letter(agent, content):
    """The field holds the content."""
    part = old.Part(
        file=old.FilePart(file_with_bytes=content, mime_type="application/octet-stream")
    )
    message = old.Message(message_id="m", role=old.ROLE_USER, content=[part])
    request = old.SendMessageRequest(
        request=message, configuration=old.SendMessageConfiguration(blocking=True)
    )
    async with giving_back() as (_, address), connected(address) as peer:
        peer.send(
            call(
                1,
                request.SerializeToString(),
                path=b"/a2a.v1.A2AService/SendMessage",
                user_agent=agent,
            )
        )
        answer = await peer.answer(1)
        text, file = old.SendMessageResponse.FromString(answer.data[5:]).task.artifacts[0].parts
        assert (text.text, file.file.file_with_bytes) == (content.hex(), content)


async def exchanged(url: str, binding: BindingName) -> None:
    """Our client sends every content, and reads it from the answer, from the task, and from a
    stream.
    """
    async with connect(url, binding=binding, version="0.3") as client:
        for content in CONTENTS:
            reply = await client.send(content)
            stream = client.stream(content)
            async for _ in stream:
                pass
            for parts in (
                reply.parts,
                stream.reply.parts,
                (await client.get(reply.task_id)).artifacts[0].parts,
            ):
                assert (parts[0].text, parts[1].raw) == (content.hex(), content)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_our_client_and_our_server(binding):
    """By the letter, also over grpcio."""
    async with giving_back() as (url, _):
        await exchanged(url, binding)


@pytest.mark.parametrize("binding", BINDINGS)
async def test_our_client_and_a_python_server_of_0_3(binding):
    """What gave the card says that it is Python's, and so do the answers over HTTP."""
    with started(PYTHON, HERE.parent / "client" / "clerk_sdk03.py") as url:
        await exchanged(url, binding)


async def test_our_client_hears_from_the_answers_who_speaks():
    """A card that was handed over came from nowhere; the first answer tells."""
    with started(PYTHON, HERE.parent / "client" / "clerk_sdk03.py") as url:
        async with connect(url) as looking:
            card = looking.card
        async with connect(card, binding="HTTP+JSON", version="0.3") as client:
            await client.send("hello")
            reply = await client.send(b"abcd")
        assert (reply.parts[0].text, reply.parts[1].raw) == (b"abcd".hex(), b"abcd")


@needs_node
@pytest.mark.parametrize("binding", BINDINGS)
async def test_our_client_and_a_javascript_server_of_0_3(binding):
    """Nothing says otherwise: by the letter."""
    packages()
    with started("node", JS / "server_0_3.mjs") as url:
        await exchanged(url, binding)


@pytest.mark.parametrize(
    ("binding", "agent", "form"),
    [
        ("GRPC", "grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form.TEXT),
        ("GRPC", "grpc-python/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form.TEXT),
        ("GRPC", "my-app/1.0 grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form.TEXT),
        ("GRPC", "grpc-go/1.76.0", Form.TEXT),
        ("GRPC", "accord grpc-python-asyncio/1.85.1 grpc-c/58.0.0 (linux; chttp2)", Form.RAW),
        ("GRPC", "grpc-node-js/1.14.7", Form.RAW),
        ("GRPC", "grpc-java-netty/1.76.0", Form.RAW),
        ("GRPC", "", Form.RAW),
        ("HTTP+JSON", "python-httpx/0.28.1", Form.TEXT),
        ("HTTP+JSON", "Go-http-client/1.1", Form.RAW),
        ("HTTP+JSON", "node", Form.RAW),
        ("HTTP+JSON", "undici", Form.RAW),
        ("HTTP+JSON", "accord", Form.RAW),
        ("HTTP+JSON", "not-python-httpx/1.0", Form.RAW),
        ("HTTP+JSON", "", Form.RAW),
    ],
)
def test_a_client_is_known_by_its_user_agent(binding, agent, form):
    """The table, row by row."""
    assert form_of_caller(binding, agent) is form


def test_a_server_is_known_by_its_header():
    """Python's web servers; all others tell nothing."""
    assert form_of_server("uvicorn") is form_of_server("gunicorn/22.0.0") is Form.TEXT
    assert form_of_server("nginx/1.24.0") is form_of_server("") is None
