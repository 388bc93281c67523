"""The gRPC server: its port, its probes, and calls that end before their work does."""

import asyncio
import socket

import grpc
import pytest
from a2a.types import a2a_pb2 as pb
from a2a.types.a2a_pb2_grpc import A2AServiceStub
from google.protobuf import descriptor_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from accord import Agent, Reply
from accord.auth import Basic, Resources
from accord.model import Limits
from tests.drive import PATIENCE_S, refusal_of, say, state_of
from tests.drive_grpc import refused_by

RESUME = {"A2A-Extensions": "urn:accord:resume:1"}


async def echo(request: str):
    return request


def an_agent():
    agent = Agent("Echo")
    agent.skill(echo)
    return agent


# Port and card


async def test_the_card_names_the_address_of_grpc(connect_grpc):
    """A bare host and port for every version served, and only then."""
    async with connect_grpc(echo) as client:
        places = [
            (i["protocolVersion"], i["url"])
            for i in (await client.card())["supportedInterfaces"]
            if i["protocolBinding"] == "GRPC"
        ]
        assert places == [("1.0", client.address), ("0.3", client.address)]


async def test_without_grpc_the_card_says_nothing_of_it(connect_rpc):
    """Only what is really served."""
    async with connect_rpc(echo) as client:
        assert {i["protocolBinding"] for i in (await client.card())["supportedInterfaces"]} == {
            "JSONRPC",
            "HTTP+JSON",
        }


async def test_a_version_that_is_not_served_is_not_there(connect_grpc):
    """One package per version: the other is unimplemented, and not in the card."""
    async with connect_grpc(echo, versions=["1.0"]) as client:
        places = [
            i["protocolVersion"]
            for i in (await client.card())["supportedInterfaces"]
            if i["protocolBinding"] == "GRPC"
        ]
        assert places == ["1.0"]
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await client.channel.unary_unary("/a2a.v1.A2AService/GetAgentCard")(
                b"", timeout=PATIENCE_S
            )
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_second_server_on_the_port_fails_to_start(connect_grpc):
    """Ports are never shared: half of the calls would go to the other."""
    async with connect_grpc(echo) as client:
        other = an_agent().app(grpc_port=int(client.address.rpartition(":")[2]))
        with pytest.raises(RuntimeError, match=r"gRPC cannot listen on .*: the port is in use"):
            await other.open()


async def test_a_port_taken_by_another_program_is_said(connect_grpc):
    """By whoever."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RuntimeError, match="gRPC cannot listen on"):
            await an_agent().app(grpc_port=taken.getsockname()[1]).open()


@pytest.mark.parametrize("port", ["grpc_port", "metrics"])
async def test_an_app_that_can_not_listen_closes_what_it_has_opened(port: str):
    """A host may go on without the agent, and keeps nothing of it."""
    scheme = Noted({"ada": "secret"})
    agent = Agent("Locked", auth=scheme)
    agent.skill(echo)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(RuntimeError):
            await agent.app(**{port: taken.getsockname()[1]}).open()
    assert scheme.seen == ["open", "close"]


class Noted(Basic):
    """A scheme that notes when it is opened and closed."""

    def __init__(self, users: dict[str, str]) -> None:
        super().__init__(users)
        self.seen: list[str] = []

    async def open(self, resources: Resources) -> None:
        self.seen.append("open")
        await super().open(resources)

    async def close(self) -> None:
        self.seen.append("close")
        await super().close()


async def test_a_closed_app_has_closed_its_port():
    """And can be opened again by the next."""
    app = an_agent().app(grpc_port=0)
    await app.open()
    port = app.grpc_port
    await app.close()
    again = an_agent().app(grpc_port=port)
    await again.open()
    await again.close()


# Probes


async def test_health_is_told_of_the_server_and_each_service(connect_grpc):
    """What load balancers ask."""
    async with connect_grpc(echo) as client:
        stub = health_pb2_grpc.HealthStub(client.channel)
        for service in ("", "lf.a2a.v1.A2AService", "a2a.v1.A2AService"):
            answer = await stub.Check(
                health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S
            )
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=PATIENCE_S)
        assert caught.value.code() is grpc.StatusCode.NOT_FOUND


async def test_whoever_watches_hears_that_the_server_stops():
    """Before its calls are ended."""
    app = an_agent().app(grpc_port=0)
    await app.open()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.grpc_port}") as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(
            health_pb2.HealthCheckRequest(), timeout=PATIENCE_S
        )
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await app.close()
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


async def test_reflection_lists_the_services(connect_grpc):
    """What grpcurl and its like begin with."""
    async with connect_grpc(echo) as client:
        [answer] = await ask(client, reflection_pb2.ServerReflectionRequest(list_services=""))
        names = [service.name for service in answer.list_services_response.service]
        assert names == [
            "a2a.v1.A2AService",
            "grpc.health.v1.Health",
            "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection",
            "lf.a2a.v1.A2AService",
        ]


async def ask(client, *requests):
    calls = reflection_pb2_grpc.ServerReflectionStub(client.channel).ServerReflectionInfo(
        iter(requests), timeout=PATIENCE_S
    )
    return [answer async for answer in calls]


async def test_reflection_gives_a_file_with_all_it_needs(connect_grpc):
    """By symbol, or by name; one answer is enough to build every message."""
    async with connect_grpc(echo) as client:
        requests = [
            reflection_pb2.ServerReflectionRequest(file_containing_symbol="lf.a2a.v1.Task"),
            reflection_pb2.ServerReflectionRequest(file_by_filename="lf_a2a_v1.proto"),
        ]
        for answer in await ask(client, *requests):
            files = [
                descriptor_pb2.FileDescriptorProto.FromString(f)
                for f in answer.file_descriptor_response.file_descriptor_proto
            ]
            names = [file.name for file in files]
            assert names[0] == "lf_a2a_v1.proto"
            assert {need for file in files for need in file.dependency} <= set(names)


async def test_reflection_says_what_it_does_not_have(connect_grpc):
    """And answers the next question on the same stream."""
    async with connect_grpc(echo) as client:
        unknown = reflection_pb2.ServerReflectionRequest(file_containing_symbol="no.such.Thing")
        extension = reflection_pb2.ServerReflectionRequest(
            all_extension_numbers_of_type="lf.a2a.v1.Task"
        )
        first, second = await ask(client, unknown, extension)
        assert (
            first.error_response.error_code,
            list(second.all_extension_numbers_response.extension_number),
        ) == (5, [])


async def test_a_reflection_client_finds_every_method(connect_grpc):
    """grpcio's own client of the service, in its thread."""
    async with connect_grpc(echo) as client:

        def look():
            with grpc.insecure_channel(client.address) as channel:
                database = ProtoReflectionDescriptorDatabase(channel)
                file = database.FindFileContainingSymbol("lf.a2a.v1.A2AService")
                return len(file.service[0].method), "a2a.v1.A2AService" in database.get_services()

        assert await asyncio.to_thread(look) == (11, True)


# Calls that end before their work


async def test_a_deadline_ends_the_call_and_not_the_task(connect_grpc):
    """The work goes on and can be asked for (reliability A39)."""
    gate = asyncio.Event()

    async def slow(request: str):
        await gate.wait()
        return "done"

    async with connect_grpc(slow) as client:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await A2AServiceStub(client.channel).SendMessage(a_send(), timeout=0.2)
        assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        [task] = (await client.list())["tasks"]
        frames = await client.subscribe(task["id"])
        gate.set()
        assert state_of((await frames.rest())[-1]["statusUpdate"]) == "completed"


async def test_hanging_up_stops_nothing(connect_grpc):
    """Neither a blocking send nor a stream."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(request: str):
        begun.set()
        await gate.wait()
        return request

    async with connect_grpc(slow) as client:
        call = A2AServiceStub(client.channel).SendMessage(a_send())
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        call.cancel()
        stream = await client.stream("two")
        await stream.next()
        stream.close()
        readers = [await client.subscribe(task["id"]) for task in (await client.list())["tasks"]]
        gate.set()
        ends = [(await reader.rest())[-1]["statusUpdate"] for reader in readers]
        assert [state_of(end) for end in ends] == ["completed", "completed"]


async def test_a_cancel_whose_caller_is_gone_is_still_carried_out(connect_grpc):
    """A function that takes its time to clean up is not left half cancelled."""
    cleaning, clean = asyncio.Event(), asyncio.Event()

    async def tidy(request: str):
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await clean.wait()

    async with connect_grpc(tidy) as client:
        task = (await client.send(say(configuration={"returnImmediately": True})))["task"]
        reader = await client.subscribe(task["id"])
        call = A2AServiceStub(client.channel).CancelTask(pb.CancelTaskRequest(id=task["id"]))
        call.add_done_callback(lambda _: None)
        await asyncio.wait_for(cleaning.wait(), PATIENCE_S)
        call.cancel()
        clean.set()
        assert state_of((await reader.rest())[-1]["statusUpdate"]) == "canceled"


async def test_a_key_whose_first_sender_hung_up_is_still_one_task(connect_grpc):
    """The repeat gets the answer of the first (design, rule 17)."""
    gate, begun = asyncio.Event(), asyncio.Event()

    async def slow(request: str):
        begun.set()
        await gate.wait()
        return request

    async with connect_grpc(slow) as client:
        request = a_send()
        stub = A2AServiceStub(client.channel)
        first = stub.SendMessage(request, metadata=(("idempotency-key", "k-1"),))
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        first.cancel()
        again = stub.SendMessage(
            request, metadata=(("idempotency-key", "k-1"),), timeout=PATIENCE_S
        )
        gate.set()
        assert (await again).task.status.state == pb.TASK_STATE_COMPLETED
        assert (await client.list())["totalSize"] == 1


def a_send(text="hi"):
    message = pb.Message(message_id="m-1", role=pb.ROLE_USER, parts=[pb.Part(text=text)])
    return pb.SendMessageRequest(message=message)


# Streams


async def test_a_stream_says_the_number_of_its_first_frame(connect_grpc):
    """Later ones count up by one; a resumed stream goes on where it broke (design, rules 1
    and 2).
    """

    async def count(request: str):
        for n in range(5):
            yield str(n)

    async with connect_grpc(count) as client:
        stream = await client.stream("go")
        whole = await stream.rest()
        assert (stream.headers["accord-seq"], stream.ids) == ("1", list(range(1, len(whole) + 1)))
        task_id = whole[0]["task"]["id"]
        tail = await client.subscribe(task_id, headers=RESUME | {"Last-Event-ID": "3"})
        assert (await tail.rest(), tail.headers["accord-seq"]) == (whole[3:], "4")


async def test_an_idle_stream_has_its_head_at_once(connect_grpc):
    """A client that waits for the metadata of a resumed stream is not kept waiting for the next
    event.
    """
    gate = asyncio.Event()

    async def wait(request: str):
        await gate.wait()

    async with connect_grpc(wait) as client:
        stream = await client.stream("go")
        frames = await stream.take(2)
        tail = await client.subscribe(
            frames[0]["task"]["id"], headers=RESUME | {"Last-Event-ID": "2"}
        )
        assert tail.headers["accord-seq"] == "3"
        gate.set()
        assert tail.ids == []
        assert (len(await tail.rest()), tail.ids) == (1, [3])


async def drained(stream):
    while await stream.read() is not grpc.aio.EOF:
        pass


async def test_a_reader_that_takes_nothing_is_refused_the_rest(connect_grpc):
    """RESOURCE_EXHAUSTED: a cut must not look like an end (design, rule 5). Other readers do not
    notice.
    """

    gate = asyncio.Event()

    async def flood(request: str):
        await gate.wait()
        for _ in range(400):
            yield "x" * 20_000

    async with connect_grpc(flood, limits=Limits(stalled_s=0.3)) as client:
        # A channel of its own, with the smallest window there is.
        options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(client.address, options=options) as channel:
            stalled = A2AServiceStub(channel).SendStreamingMessage(a_send("go"))
            healthy = await client.subscribe((await stalled.read()).task.id)
            gate.set()
            assert state_of((await healthy.rest())[-1]["statusUpdate"]) == "completed"
            await asyncio.sleep(1.0)  # this is what a reader that takes nothing does
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await drained(stalled)
            assert refused_by(caught.value).error["status"] == "RESOURCE_EXHAUSTED"


async def test_streams_end_when_the_server_stops():
    """With the last word of the task: what was interrupted is told as failed."""
    begun = asyncio.Event()

    agent = Agent("Waiting")

    @agent.skill
    async def wait(request: str):
        begun.set()
        await asyncio.Event().wait()

    app = agent.app(grpc_port=0)
    await app.open()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{app.grpc_port}") as channel:
        stream = A2AServiceStub(channel).SendStreamingMessage(a_send())
        await asyncio.wait_for(begun.wait(), PATIENCE_S)
        frames = [await stream.read(), await stream.read()]
        await app.close()
        assert frames[0].task.id
        last = await asyncio.wait_for(stream.read(), PATIENCE_S)
        assert last is not grpc.aio.EOF
        assert last.status_update.status.state == pb.TASK_STATE_FAILED


# Metadata


async def test_extensions_in_force_are_named_in_the_answer(connect_grpc):
    """In the initial metadata (EXT-3)."""
    async with connect_grpc(echo) as client:
        await client.send("hi", headers=RESUME)
        assert client.answer_headers["a2a-extensions"] == "urn:accord:resume:1"


async def test_the_old_package_refuses_a_caller_who_says_1_0(connect_grpc):
    """Only a release candidate spoke so, with other field numbers."""
    async with connect_grpc(echo) as client:
        get = client.channel.unary_unary("/a2a.v1.A2AService/GetTask")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await get(b"", metadata=(("a2a-version", "1.0"),), timeout=PATIENCE_S)
        assert refused_by(caught.value).reason == "VERSION_NOT_SUPPORTED"


async def test_errors_of_our_own_carry_a_number_and_no_secret(connect_grpc):
    """The log has the cause; the caller gets what to quote (reliability A20)."""

    async def break_(request: str) -> Reply:
        raise RuntimeError("the password is swordfish")

    async with connect_grpc(break_) as client:
        refused = await refusal_of(client.send("hi"))
        assert (refused.error["status"], "swordfish" in str(refused.error)) == ("INTERNAL", False)
