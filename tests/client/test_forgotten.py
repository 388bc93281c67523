"""Agents that forget the ids of their messages, or send members that nobody can read: what is wrong
costs as little as it can, and `client.notes` says so.
"""

import asyncio
import json
from typing import Any

import pytest

from accord import Agent
from accord.client import NO_RETRY, BadAnswer, connect
from accord.model import Message, StatusUpdate, TaskState
from accord.push import Receiver
from tests.client.peers import Request, answer, card, scripted, sse, task
from tests.client.sdk import DOORS, serving_sdk

MADE_UP = "messages of the agent come without messageId; ids are made up"
WORDS = ["on it", "on it", "nearly", "that is all"]


def agents_words(messages) -> list[Message]:
    return [message for message in messages if message is not None and message.role == "ROLE_AGENT"]


@pytest.mark.parametrize(("binding", "version"), DOORS)
async def test_ids_that_an_sdk_agent_forgot(binding, version):
    """On every door of the official SDK: in a stream, in a task that is sent and one that is read
    again. The ids differ, and a task read twice has the same.
    """
    async with (
        serving_sdk() as url,
        connect(url, binding=binding, version=version) as client,
    ):
        stream = client.stream("forget")
        told = [event.status.message async for event in stream if type(event) is StatusUpdate]
        said = agents_words(told)
        assert [message.text for message in said] == WORDS
        assert len({message.message_id for message in said}) == len(WORDS)
        task = (await client.send("forget")).task
        assert task is not None
        seen = []
        for found in (task, await client.get(task.id), await client.get(task.id)):
            assert found.status.state is TaskState.COMPLETED
            said = agents_words([*found.history, found.status.message])
            assert [message.text for message in said] == WORDS
            seen.append([message.message_id for message in said])
        assert seen[0] == seen[1] == seen[2]
        assert len(set(seen[0])) == len(WORDS)
        assert MADE_UP in client.notes


async def test_a_relay_of_an_agent_that_forgets_ids():
    """Its task is completed, as the agent's is."""
    async with serving_sdk() as url:
        relay = await asyncio.to_thread(Agent.proxy, url)
        async with relay.app().serving() as at, connect(at) as client:
            reply = await client.send("forget")
            assert (reply.state, reply.text) == (TaskState.COMPLETED, "done")


# What each version calls its objects: an answer to a send whose message forgets its id and whose
# parts are of a kind that nobody knows, and the same as events of a stream.

ODD = {"hologram": {"size": 3}}
ODD_KIND = {"kind": "hologram", "size": 3}


def said_1_0(*parts):
    return {"role": "ROLE_AGENT", "parts": [{"text": "so"}, *parts]}


def task_1_0(*odd):
    artifacts = [{"artifactId": "a", "parts": [*odd, {"text": "17"}]}]
    status = {"state": "TASK_STATE_COMPLETED", "message": said_1_0(*odd)}
    history = [said_1_0(*odd), said_1_0(), {"messageId": "m", "parts": "what?"}]
    return task(text="", artifacts=artifacts, status=status, history=history)


def task_0_3(*odd):
    said = {"kind": "message", "role": "agent", "parts": [{"kind": "text", "text": "so"}, *odd]}
    return {
        "kind": "task",
        "id": "t-1",
        "contextId": "c-1",
        "status": {"state": "completed", "message": said},
        "history": [said, said, {"messageId": "m", "parts": "what?"}],
        "artifacts": [{"artifactId": "a", "parts": [*odd, {"kind": "text", "text": "17"}]}],
    }


def task_0_3_proto(*odd):
    said = {"role": "ROLE_AGENT", "content": [{"text": "so"}, *odd]}
    return {
        "id": "t-1",
        "contextId": "c-1",
        "status": {"state": "TASK_STATE_COMPLETED", "message": said},
        "history": [said, said, {"messageId": "m", "content": "what?"}],
        "artifacts": [{"artifactId": "a", "parts": [*odd, {"text": "17"}]}],
    }


def task_0_1(*odd):
    said = {"role": "agent", "parts": [{"type": "text", "text": "so"}, *odd]}
    return {
        "id": "t-1",
        "status": {"state": "completed", "message": said},
        "history": [said, said, {"role": "agent", "parts": "what?"}],
        "artifacts": [{"index": 0, "parts": [*odd, {"type": "text", "text": "17"}]}],
    }


CASES = {
    ("JSONRPC", "1.0"): ({"task": task_1_0(ODD)}, task_1_0(ODD)),
    ("HTTP+JSON", "1.0"): ({"task": task_1_0(ODD)}, task_1_0(ODD)),
    ("JSONRPC", "0.3"): (task_0_3(ODD_KIND), task_0_3(ODD_KIND)),
    ("HTTP+JSON", "0.3"): ({"task": task_0_3_proto(ODD)}, task_0_3_proto(ODD)),
    ("JSONRPC", "0.1"): (task_0_1(ODD_KIND), task_0_1(ODD_KIND)),
}


@pytest.mark.parametrize(("binding", "version"), CASES)
async def test_a_member_that_can_not_be_read_is_left_out(binding, version):
    """A part of an unknown kind, a message that is none: the rest of the task is there."""
    sent, got = CASES[binding, version]
    is_rpc = binding == "JSONRPC"

    def agent(request: Request) -> bytes:
        if request.path.endswith("card.json"):
            where = [{"url": peer.url, "protocolBinding": binding, "protocolVersion": version}]
            return answer(card(peer.url, supportedInterfaces=where))
        is_send = "end" in (request.json["method"] if is_rpc else request.path)
        value = sent if is_send else got
        return (
            answer({"jsonrpc": "2.0", "id": request.json["id"], "result": value})
            if (is_rpc)
            else answer(value)
        )

    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        for found in ((await client.send("count")).task, await client.get("t-1")):
            assert found is not None
            assert [part.text for part in found.artifacts[0].parts] == ["17"]
            assert [message.text for message in found.history] == ["so", "so"]
            assert found.status.message is not None
            assert found.status.message.text == "so"
            assert all(message.message_id for message in found.history)
        assert any(note.startswith("a part can't be read") for note in client.notes)
        assert any(note.startswith("a message can't be read") for note in client.notes)
        assert len(client.notes) == len(set(client.notes))


@pytest.mark.parametrize(("binding", "version"), [c for c in CASES if c[1] != "0.1"])
async def test_a_task_that_can_not_be_read_is_left_out_of_a_list(binding, version):
    """The others are listed."""
    _, got = CASES[binding, version]

    def agent(request: Request) -> bytes:
        if request.path.endswith("card.json"):
            where = [{"url": peer.url, "protocolBinding": binding, "protocolVersion": version}]
            return answer(card(peer.url, supportedInterfaces=where))
        odd = {"id": "t-2", "status": "?"}
        page: dict[str, Any] = {"tasks": [got, odd, 7], "nextPageToken": ""}
        page |= {"pageSize": 3, "totalSize": 3}
        if binding != "JSONRPC":
            return answer(page)
        return answer({"jsonrpc": "2.0", "id": request.json["id"], "result": page})

    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        assert [one.id async for one in client.list()] == ["t-1"]
        assert any(note.startswith("a task can't be read") for note in client.notes)


async def test_a_stream_with_members_that_can_not_be_read():
    """The events go on. What is noted of them has an end."""
    update = {"taskId": "t-1", "contextId": "c-1"}
    events = [
        {"task": task("WORKING", text="")},
        *(
            {
                "statusUpdate": update
                | {"status": {"state": "TASK_STATE_WORKING", "message": said_1_0({f"k{i}": i})}}
            }
            for i in range(300)
        ),
        {
            "artifactUpdate": update
            | {"artifact": {"artifactId": "a", "parts": [ODD, {"text": "!"}]}}
        },
        {"statusUpdate": update | {"status": {"state": "TASK_STATE_COMPLETED"}}},
    ]

    def agent(request: Request) -> bytes:
        if request.path.endswith("card.json"):
            return answer(card(peer.url))
        return sse(*({"jsonrpc": "2.0", "id": 1, "result": event} for event in events))

    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        stream = client.stream("count")
        seen = [event async for event in stream]
        assert len(seen) == len(events)
        assert (stream.reply.state, stream.reply.text) == (TaskState.COMPLETED, "!")
        ids = [event.status.message.message_id for event in seen[1:301]]
        assert len(set(ids)) == 300
        assert len(client.notes) <= 100


async def test_an_answer_without_any_part_that_can_be_read_is_a_fault():
    """An empty answer would look like one."""

    def agent(request: Request) -> bytes:
        if request.path.endswith("card.json"):
            return answer(card(peer.url))
        message = {"role": "ROLE_AGENT", "parts": [ODD]}
        return answer({"jsonrpc": "2.0", "id": 1, "result": {"message": message}})

    async with scripted(agent) as peer, connect(peer.url, retry=NO_RETRY) as client:
        with pytest.raises(BadAnswer, match="part"):
            await client.send("count")


@pytest.mark.parametrize(
    "body",
    [
        {
            "statusUpdate": {
                "taskId": "t-1",
                "contextId": "c-1",
                "status": {"state": "TASK_STATE_COMPLETED", "message": said_1_0(ODD)},
            }
        },
        {"task": task_1_0(ODD)},
        task_0_3(ODD_KIND),
        task_0_1(ODD_KIND),
    ],
    ids=["1.0 event", "1.0 task", "0.3", "0.1"],
)
async def test_a_notification_is_taken_as_an_answer_is(body):
    """What `send` understands, a webhook understands. Its messages have ids that differ."""
    receiver = Receiver(is_unverified=True)
    ids = set()
    for number in (1, 2):
        headers = {"webhook-id": f"t-1/{number}/c"}
        notified = await receiver.receive(headers, json.dumps(body).encode())
        assert notified is not None
        assert notified.state is TaskState.COMPLETED
        message = notified.task.status.message
        assert message is not None
        assert message.text == "so"
        ids.add(message.message_id)
    assert all(ids)
    assert len(ids) == (2 if "statusUpdate" in body else len(ids))
