"""The clients people use: grpcio with threads, grpcio on asyncio, @grpc/grpc-js. Every operation,
and HTTP/2 at its edges.
"""

import asyncio
import base64
import contextlib
import json
import shutil
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub

from accord import Agent, Limits
from tests.grpc.raw import call, connected
from tests.processes import run
from tests.reliability.harness import report

JS = Path(__file__).parent.parent / "legacy" / "js"
LARGE = 10_000_000
CALLS = 1_000
CONNECTIONS = 512
NOT_FOUND, UNSUPPORTED, OK = "NOT_FOUND", ("UNIMPLEMENTED", "FAILED_PRECONDITION"), "OK"
OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.keepalive_time_ms", 50),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
]


def a_send(text: str) -> pb.SendMessageRequest:
    return pb.SendMessageRequest(
        message=pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    )


@contextlib.asynccontextmanager
async def serving() -> AsyncIterator[str]:
    """An agent that repeats what it is told, or counts without end."""
    agent = Agent("Echo")

    @agent.skill
    async def echo(request: str) -> Any:
        """Repeat."""
        if request == "wait":
            await asyncio.Event().wait()
        if request == "endless":
            while True:
                yield "x" * 1_000
                await asyncio.sleep(0.001)
        yield request

    app = agent.app(grpc_port=0, limits=Limits(body=16 << 20, task_size=64 << 20))
    await app.open()
    try:
        yield f"127.0.0.1:{app.grpc_port}"
    finally:
        await app.close()


# Every operation of 1.0: what is asked, whether it is a stream, and how it may end.
OPERATIONS: dict[str, tuple[Any, bool, tuple[str, ...]]] = {
    "SendMessage": (a_send("hello"), False, (OK,)),
    "SendStreamingMessage": (a_send("hello"), True, (OK,)),
    "GetTask": (pb.GetTaskRequest(id="nobody"), False, (NOT_FOUND,)),
    "ListTasks": (pb.ListTasksRequest(page_size=1), False, (OK,)),
    "CancelTask": (pb.CancelTaskRequest(id="nobody"), False, (NOT_FOUND,)),
    "SubscribeToTask": (pb.SubscribeToTaskRequest(id="nobody"), True, (NOT_FOUND,)),
    "CreateTaskPushNotificationConfig": (
        pb.TaskPushNotificationConfig(task_id="nobody", id="c", url="https://hooks.example/x"),
        False,
        (NOT_FOUND, *UNSUPPORTED),
    ),
    "GetTaskPushNotificationConfig": (
        pb.GetTaskPushNotificationConfigRequest(task_id="nobody", id="c"),
        False,
        (NOT_FOUND, *UNSUPPORTED),
    ),
    "ListTaskPushNotificationConfigs": (
        pb.ListTaskPushNotificationConfigsRequest(task_id="nobody"),
        False,
        (NOT_FOUND, *UNSUPPORTED),
    ),
    "DeleteTaskPushNotificationConfig": (
        pb.DeleteTaskPushNotificationConfigRequest(task_id="nobody", id="c"),
        False,
        (NOT_FOUND, *UNSUPPORTED),
    ),
    "GetExtendedAgentCard": (
        pb.GetExtendedAgentCardRequest(),
        False,
        (OK, "INVALID_ARGUMENT", *UNSUPPORTED),
    ),
}


async def test_the_client_on_asyncio():
    """Every operation, a deadline, a cancel, 10 MB both ways, pings all the time, and 1,000 calls
    at once.
    """
    async with serving() as address, grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        stub = A2AServiceStub(channel)
        for name, (request, is_stream, ends) in OPERATIONS.items():
            made = getattr(stub, name)(request, timeout=20)
            if is_stream:
                with contextlib.suppress(grpc.aio.AioRpcError):
                    async for _ in made:
                        pass
            assert (await made.code()).name in ends, name
        late = stub.SendMessage(a_send("wait"), timeout=0.2)
        assert (await late.code()).name == "DEADLINE_EXCEEDED"
        endless = stub.SendStreamingMessage(a_send("endless"))
        await endless.read()
        endless.cancel()
        assert (await stub.SendMessage(a_send("x" * LARGE), timeout=60)).task.artifacts[0].parts[
            0
        ].text == "x" * LARGE
        await asyncio.sleep(0.3)  # pings, while nothing is called
        answers = await asyncio.gather(
            *(stub.SendMessage(a_send(str(n)), timeout=60) for n in range(CALLS))
        )
        assert [answer.task.artifacts[0].parts[0].text for answer in answers] == [
            str(n) for n in range(CALLS)
        ]


async def test_the_client_with_threads():
    """The same with the client that blocks."""
    async with serving() as address:
        await asyncio.to_thread(_talk, address)


def _talk(address: str) -> None:
    with grpc.insecure_channel(address, options=OPTIONS) as channel, ThreadPoolExecutor(32) as pool:
        stub = A2AServiceStub(channel)
        for name, (request, is_stream, ends) in OPERATIONS.items():
            made = (
                getattr(stub, name)(request, timeout=20)
                if is_stream
                else getattr(stub, name).future(request, timeout=20)
            )
            with contextlib.suppress(grpc.RpcError):
                list(made) if is_stream else made.result()
            assert made.code().name in ends, name
        with pytest.raises(grpc.RpcError) as late:
            stub.SendMessage(a_send("wait"), timeout=0.2)
        assert late.value.code().name == "DEADLINE_EXCEEDED"
        endless = stub.SendStreamingMessage(a_send("endless"))
        next(endless)
        endless.cancel()
        assert (
            stub.SendMessage(a_send("x" * LARGE), timeout=60).task.artifacts[0].parts[0].text
            == "x" * LARGE
        )
        calls = [stub.SendMessage.future(a_send(str(n)), timeout=60) for n in range(CALLS)]
        found = list(pool.map(lambda made: made.result().task.artifacts[0].parts[0].text, calls))
        assert found == [str(n) for n in range(CALLS)]


@pytest.mark.skipif(
    shutil.which("node") is None, reason="grpc-js needs Node.js, which is not installed"
)
async def test_the_client_of_javascript(tmp_path):
    """The same with grpc-js."""
    assert (JS / "node_modules").is_dir(), (
        "the JavaScript clients are not installed; `make test` does it"
    )
    wanted = tmp_path / "wanted.json"
    texts = {"large": "x" * LARGE, "small": "hello", "endless": "endless"}
    operations = [
        (name, _packed(request), is_stream) for name, (request, is_stream, _) in OPERATIONS.items()
    ]
    wanted.write_text(
        json.dumps(
            {name: _packed(a_send(text)) for name, text in texts.items()}
            | {"operations": operations}
        )
    )
    async with serving() as address:
        done = await run("node", JS / "client_grpc_many.mjs", address, wanted)
    assert done.code == 0, done.err
    seen = json.loads(done.out)
    codes = {code.value[0]: code.name for code in grpc.StatusCode}
    for name, (_, _, ends) in OPERATIONS.items():
        assert codes[seen["operations"][name]["code"]] in ends, name
    assert (seen["large"]["code"], seen["cancelled"]["code"]) == (0, 1)
    assert seen["large"]["size"] > LARGE
    assert seen["many"] == {"0": CALLS}


def _packed(request: Any) -> str:
    return base64.b64encode(request.SerializeToString()).decode()


async def test_no_answer_goes_to_another():
    """512 connections, each with calls of its own at the same time: 0 wrong answers."""
    wrong = answered = 0

    async def talk(address: str, number: int) -> None:
        nonlocal wrong, answered
        async with connected(address) as peer:
            texts = {1 + 2 * n: f"{number}/{n}" for n in range(4)}
            peer.send(
                *(
                    call(id_, a_send(text).SerializeToString(), b"SendMessage")
                    for id_, text in texts.items()
                )
            )
            found = await peer.answers(len(texts))
            for id_, text in texts.items():
                task = pb.SendMessageResponse.FromString(found[id_][5:]).task
                wrong += task.artifacts[0].parts[0].text != text
                answered += 1

    async with serving() as address:
        await asyncio.gather(*(talk(address, number) for number in range(CONNECTIONS)))
    report("gRPC connections", connections=CONNECTIONS, answers=answered, wrong=wrong)
    assert (answered, wrong) == (4 * CONNECTIONS, 0)
