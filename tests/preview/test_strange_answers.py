"""Agents that mean something else by the names of A2A 1.1, or use them in the wrong place."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from accord import connect
from accord.model import StatusUpdate
from accord.push import Receiver
from tests.client.peers import answer, card, scripted, sse, task

VERSIONS = ["1.0", "1.1"]
STATUS = {"taskId": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"}}
ODD: dict[str, dict[str, Any]] = {
    "generation, an object": {"generation": {"of": "crates"}},
    "generation, a word": {"generation": "third"},
    "generation, seven": {"generation": 7},
    "generation, seven as text": {"generation": "7"},
    "timeline, a word": {"timeline": "long"},
    "timeline, numbers": {"timeline": [7]},
    "artifactGenerations": {"artifactGenerations": "x"},
    "artifact_generations": {"artifact_generations": {"a": [1, 2]}},
}


@asynccontextmanager
async def _answering(version: str, result: Any) -> AsyncIterator[Any]:
    """A client of an agent that gives one answer to all questions."""

    async def handle(request: Any) -> bytes:
        if request.path.startswith("/.well-known"):
            url = f"http://{request.headers['host']}/"
            one = {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": version}
            return answer(card(url, supportedInterfaces=[one]))
        body = {"jsonrpc": "2.0", "id": request.json["id"], "result": result}
        return sse(body) if request.json["method"] == "SendStreamingMessage" else answer(body)

    async with scripted(handle) as peer, connect(peer.url, previews=["1.1"]) as client:
        assert client.version == version
        yield client


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ODD)
async def test_a_task_is_read_whatever_else_it_says(version, name):
    """To 1.0 these are members that nobody knows: they are left out. Metadata is the agent's."""
    said = task(metadata={"generation": 5, "timeline": "x"}) | ODD[name]
    async with _answering(version, said) as client:
        found = await client.get("t")
    assert found.metadata == {"generation": 5, "timeline": "x"}
    assert found.generation == (7 if version == "1.1" and "seven" in name else 0)
    assert (found.timeline, found.artifact_generations) == ([], {})


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_task_that_can_not_be_read_costs_no_other(version):
    """A list is read without it, and each task keeps its own generation."""
    said = {"tasks": [task(id=7, generation="2"), task(id="t", generation="3")]}
    async with _answering(version, said) as client:
        found = [one async for one in client.list()]
    assert [(one.id, one.generation) for one in found] == [("t", 3 if version == "1.1" else 0)]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("wrapped", [{}, {"metadata": {}}])
async def test_an_event_is_read_whatever_else_it_says(version, name, wrapped):
    said = wrapped | {"statusUpdate": STATUS | ODD[name]}
    async with _answering(version, said) as client:
        events = [event async for event in client.stream("go")]
    assert isinstance(events[-1], StatusUpdate)
    assert events[-1].generation == (7 if version == "1.1" and "seven" in name else 0)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_notification_has_the_generation_of_its_version(version):
    body = json.dumps({"statusUpdate": STATUS | {"generation": "4"}}).encode()
    notified = await Receiver(token="t").receive(
        {"x-a2a-notification-token": "t", "a2a-version": version}, body
    )
    assert notified is not None
    assert isinstance(notified.event, StatusUpdate)
    assert notified.event.generation == (4 if version == "1.1" else 0)
