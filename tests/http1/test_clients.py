"""Clients people have, as they come: each asks, asks again on the same connection, and reads a
stream.
"""

import asyncio
import http.client
import shutil
import sys
from pathlib import Path

import aiohttp
import pytest

from tests.http1.raw import send, served
from tests.processes import run

HERE = Path(__file__).parent
PATIENCE_S = 60.0

BODIES = [send("one"), send("two"), send("three", method="SendStreamingMessage")]
HEADERS = {"Content-Type": "application/json", "A2A-Version": "1.0"}


def checked(answers: list[str]) -> None:
    """The right answers, in order."""
    assert len(answers) == 3
    for answer, text in zip(answers, ("one", "two", "three"), strict=True):
        assert f'"text":"{text}"' in answer
        assert "TASK_STATE_COMPLETED" in answer
    assert answers[2].count("data: ") == 4


async def said(*command: str) -> list[str]:
    """Run a program; return the lines it printed."""
    done = await run(*command)
    assert done.code == 0, done.err
    return done.out.splitlines()


def found(program: str) -> str:
    path = shutil.which(program)
    if path is None:
        pytest.skip(f"no {program} on this machine")
    return path


async def test_java():
    """java.net.http: an offer of HTTP/2 with the first request, which has a body. uvicorn takes it
    and loses the body.
    """
    async with served() as agent:
        lines = await said(
            found("java"),
            str(HERE / "Ask.java"),
            agent.server.url + "/",
            *(body.decode() for body in BODIES),
        )
        assert [line.split()[:2] for line in lines] == [["200", "HTTP_1_1"]] * 3
        checked(lines)


async def test_node():
    """fetch, which keeps its connections."""
    async with served() as agent:
        checked(
            await said(
                found("node"),
                str(HERE / "ask.mjs"),
                agent.server.url + "/",
                *(body.decode() for body in BODIES),
            )
        )


@pytest.mark.parametrize(
    "options", ["", "--http2", "--http1.0", "-HTransfer-Encoding:chunked", "-HExpect:100-continue"]
)
async def test_curl(options):
    """All its ways to send a body; several requests in one call share a connection."""
    curl = found("curl")
    async with served() as agent:
        answers = []
        for body in BODIES:
            named = [word for name, value in HEADERS.items() for word in ("-H", f"{name}: {value}")]
            lines = await said(
                curl, "-sS", *options.split(), *named, "-d", body.decode(), agent.server.url + "/"
            )
            answers.append(" ".join(lines))
        checked(answers)


async def test_http_client():
    """Python's own, which sends head and body in two pieces."""
    async with served() as agent:

        def ask() -> list[str]:
            line = http.client.HTTPConnection("127.0.0.1", agent.server.port, timeout=PATIENCE_S)
            answers = []
            for body in BODIES:
                line.request("POST", "/", body, HEADERS)
                answers.append(line.getresponse().read().decode())
            line.close()
            return answers

        checked(await asyncio.to_thread(ask))


async def test_httpx():
    """The client of a2a-sdk."""
    httpx = pytest.importorskip("httpx")
    async with served() as agent, httpx.AsyncClient(trust_env=False) as client:
        checked(
            [
                (await client.post(agent.server.url, content=body, headers=HEADERS)).text
                for body in BODIES
            ]
        )
        assert len(agent.server.connections) == 1


async def test_aiohttp():
    async with served() as agent, aiohttp.ClientSession() as client:
        answers = []
        for body in BODIES:
            async with client.post(agent.server.url, data=body, headers=HEADERS) as answer:
                answers.append(await answer.text())
        checked(answers)
        assert len(agent.server.connections) == 1


async def test_our_own():
    """Reads what we write; said once here, everywhere else at length."""
    code = (
        "import asyncio, sys; from accord import connect\n"
        "async def main():\n"
        "    async with connect(sys.argv[1]) as agent:\n"
        "        print((await agent.send('one')).text, (await agent.send('two')).text)\n"
        "asyncio.run(main())"
    )
    async with served() as agent:
        assert await said(sys.executable, "-c", code, agent.server.url) == ["one two"]
