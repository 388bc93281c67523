"""What a relay passes on, what it keeps to itself, and what it does when its agent is away."""

import asyncio

import pytest

from accord import Agent, Ask, Context, Reply
from accord.auth import ApiKeys
from accord.client import NO_RETRY, connect
from accord.model import (
    AgentExtension,
    ArtifactUpdate,
    ContentTypeNotSupported,
    InvalidParams,
    Message,
    Part,
    Role,
    StatusUpdate,
    TaskNotCancelable,
    TaskState,
    Unavailable,
    UnsupportedOperation,
)
from tests.relay.relays import Gate, clerk, proxied, relayed, served, switched


async def test_a_message_stays_a_message():
    """What the agent answers without a task makes none here."""
    async with relayed(clerk()) as client:
        reply = await client.send("hi", skill="reply")
        assert (reply.text, reply.task) == ("bare hi", None)
        assert [task async for task in client.list()] == []


async def test_errors_are_the_agents_own():
    """Before there is a task, an error of the agent is the error of the call."""
    async with relayed(clerk()) as client:
        with pytest.raises(ContentTypeNotSupported, match="file"):
            await client.send("no file", skill="size")
        assert [task async for task in client.list()] == []
        rejected = await client.send("reject")
        assert (rejected.state, rejected.task.status.message.text) == (TaskState.REJECTED, "never")


async def test_parts_ids_and_metadata_come_as_they_are():
    """Only the ids of task and context are ours."""
    agent = clerk()
    async with served(agent) as url, connect(url) as direct:
        relay = await proxied(url)
        async with served(relay) as address, connect(address) as client:
            seen = []
            for one in (direct, client):
                stream = one.stream("meta", metadata={"color": "blue"})
                seen.append([event async for event in stream])
    told = [
        [
            (e.artifact, e.append, e.last_chunk)
            if isinstance(e, ArtifactUpdate)
            else (e.status.state, e.status.message and e.status.message.parts, e.metadata)
            for e in events
            if isinstance(e, ArtifactUpdate | StatusUpdate)
        ]
        for events in seen
    ]
    assert told[0] == told[1]
    assert "blue" in told[1][-2][0].text


async def test_a_conversation_is_one_there_too():
    """Tasks of one context here are tasks of one context there; never one a caller chose."""
    async with relayed(clerk()) as client:
        first = await client.send("context")
        again = await client.send("context", context_id=first.context_id)
        chosen = await client.send("context", context_id="mine")
        once_more = await client.send("context", context_id="mine")
    assert first.text == again.text != first.context_id
    assert chosen.text == once_more.text not in ("mine", first.text)


async def test_a_refused_answer_leaves_the_question_open():
    """Who sent it gets the agent's error; the task waits as before, here and there."""
    agent = Agent("Asks")

    @agent.skill
    async def nights(count: int, ctx: Context):
        return Ask("How many nights?") if len(ctx.history) == 1 else f"{count} nights"

    async with relayed(agent) as client:
        asked = await client.send("1")
        with pytest.raises(InvalidParams, match="whole number"):
            await asked.answer("many")
        now = await client.get(asked.task_id)
        assert now.status.state is TaskState.INPUT_REQUIRED
        assert now.status.message.text == "How many nights?"
        done = await asked.answer("3")
        assert (done.state, done.text) == (TaskState.COMPLETED, "3 nights")


@pytest.mark.parametrize("how", ["by itself", "by a message"])
async def test_an_authorization_is_waited_for(how):
    """Auth-required is passed on; the stream stays open and goes on with the agent."""
    gate = Gate()
    async with relayed(clerk(gate)) as client:
        stream = client.stream("auth")
        states = []
        async for event in stream:
            if isinstance(event, StatusUpdate):
                states.append(event.status.state)
                if event.status.state is TaskState.AUTH_REQUIRED:
                    if how == "by itself":
                        gate.event.set()
                    else:
                        await client.send("done", task_id=stream.task_id, wait=False)
        assert states[-1] is TaskState.COMPLETED
        assert states.count(TaskState.AUTH_REQUIRED) == 1
        assert stream.reply.text == "signed in"


async def test_cancel_is_asked_of_the_agent():
    """What the agent says is what the caller gets."""
    agent = Agent("Finishes")

    @agent.skill
    async def stubborn(text: str):
        yield "begun"
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            yield " ended"

    async with relayed(agent) as client:
        async with client.stream("go") as stream:
            async for event in stream:
                if isinstance(event, ArtifactUpdate):
                    break
        with pytest.raises(TaskNotCancelable):
            await client.cancel(stream.task_id)
        reply = await client.wait(stream.task_id)
        assert (reply.state, reply.text) == (TaskState.COMPLETED, "begun ended")


async def test_a_waiting_task_is_cancelled_there_too():
    agent = clerk()
    async with served(agent) as url, connect(url) as direct:
        relay = await proxied(url)
        async with served(relay) as address, connect(address) as client:
            asked = await client.send("ask")
            assert (await client.cancel(asked.task_id)).status.state is TaskState.CANCELED
            assert [t.status.state async for t in direct.list()] == [TaskState.CANCELED]


async def test_extensions_and_modes_go_along():
    """What a caller activates is active at the agent, if its card offers it."""
    uri = "https://example.com/loud"
    agent = Agent("Loud", extensions=[AgentExtension(uri=uri, description="Louder.")])

    @agent.skill
    async def speak(text: str, ctx: Context) -> str:
        return f"{uri in ctx.extensions} {ctx.accepted_output_modes}"

    async with served(agent) as url:
        relay = await proxied(url)
        async with served(relay) as address, connect(address, extensions=[uri]) as client:
            assert uri in {e.uri for e in client.card.capabilities.extensions}
            assert (await client.send("x", output_modes=["text/csv"])).text == "True ['text/csv']"


async def test_the_card_is_the_agents_with_our_addresses():
    agent = clerk()
    async with served(agent) as url:
        relay = await proxied(url)
        async with served(relay) as address, connect(address) as client:
            card = client.card
    assert (card.name, card.description, card.version) == (
        "Clerk",
        "Does a bit of everything.",
        "7",
    )
    assert [skill.id for skill in card.skills] == ["work", "reply", "size"]
    assert card.supported_interfaces[0].url.startswith(address)
    assert url not in str([interface.url for interface in card.supported_interfaces])


async def test_callers_do_not_see_each_other():
    """They share the relay's credential there, and nothing here: not even under the same message
    id, key or context.
    """
    keys = ApiKeys(keys={"k-ada-0123456789": "ada", "k-bob-0123456789": "bob"})
    agent = clerk()
    async with served(agent) as url:
        relay = await proxied(url, auth=keys)
        async with served(relay) as address:
            tasks = {}
            for name in ("ada", "bob"):
                async with connect(address, auth=f"k-{name}-0123456789") as client:
                    said = Message(
                        message_id="same",
                        role=Role.USER,
                        parts=[Part(text="context")],
                        context_id="same",
                    )
                    reply = await client.send(said, key="same")
                    tasks[name] = (reply.task_id, reply.text)
                    assert len([t async for t in client.list(context_id="same")]) == 1
    assert tasks["ada"][0] != tasks["bob"][0]
    assert tasks["ada"][1] != tasks["bob"][1]


async def test_a_silent_agent_gets_a_task():
    """After a while the sender is told that there is a task; a message that comes later is its
    end.
    """
    gate = Gate()
    agent = Agent("Slow")

    @agent.skill
    async def think(text: str) -> Reply:
        await gate.event.wait()
        return Reply("at last")

    async with relayed(agent, silent_s=0.05) as client:
        reply = await client.send("hello", wait=False)
        assert reply.state is TaskState.SUBMITTED
        gate.event.set()
        done = await client.wait(reply.task_id)
        assert (done.state, done.text) == (TaskState.COMPLETED, "at last")


async def test_a_silent_agent_that_is_away_for_a_while():
    """One that recognises the message gets it again when it is back, and does it once."""
    gate, calls = Gate(), []
    agent = Agent("Slow")

    @agent.skill(first_word=True)
    async def think(text: str) -> str:
        calls.append(text)
        await gate.event.wait()
        return "at last"

    async with switched(agent) as place:
        relay = await proxied(place.url, silent_s=0.05)
        async with served(relay) as address, connect(address) as client:
            reply = await client.send("hello", wait=False)
            await place.off()
            gate.event.set()
            assert (await client.get(reply.task_id)).status.state is TaskState.SUBMITTED
            await place.on()
            done = await client.wait(reply.task_id, timeout_s=60)
            assert (done.state, done.text, calls) == (TaskState.COMPLETED, "at last", ["hello"])


async def test_an_agent_that_is_not_there():
    """Before there is a task that is the error of the call, without a word of where it is."""
    async with served(clerk()) as url:
        relay = await proxied(url)
    async with served(relay) as address, connect(address, retry=NO_RETRY) as client:
        with pytest.raises(Unavailable, match="can't be reached") as caught:
            await client.send("hello", timeout_s=20)
        assert url.rpartition(":")[2] not in str(caught.value)


async def begun(client, text: str = "wait") -> str:
    """Start a task and leave it when it has written something; return its id."""
    async with client.stream(text) as stream:
        async for event in stream:
            if isinstance(event, ArtifactUpdate):
                return stream.task_id
    raise AssertionError("the stream ended")


async def test_a_task_outlives_its_agent_being_away():
    """The task stays as it is while the agent is away, can be read, and goes on when it is back."""
    gate = Gate()
    async with switched(clerk(gate)) as agent:
        relay = await proxied(agent.url)
        async with served(relay) as address, connect(address, retry=NO_RETRY) as client:
            task_id = await begun(client)
            await agent.off()
            gate.event.set()
            task = await client.get(task_id)
            assert (task.status.state, task.artifacts[0].text) == (TaskState.WORKING, "begun")
            with pytest.raises(Unavailable):
                await client.cancel(task_id)
            assert (await client.get(task_id)).status.state is TaskState.WORKING
            await agent.on()
            reply = await client.wait(task_id, timeout_s=60)
            assert (reply.state, reply.text) == (TaskState.COMPLETED, "begun done")


async def test_an_answer_is_refused_while_the_agent_is_away():
    """The question stays, and can be answered when the agent is back."""
    async with switched(clerk()) as agent:
        relay = await proxied(agent.url)
        async with served(relay) as address, connect(address, retry=NO_RETRY) as client:
            asked = await client.send("ask")
            await agent.off()
            with pytest.raises(Unavailable, match="can't be reached"):
                await asked.answer("three")
            now = await client.get(asked.task_id)
            assert now.status.state is TaskState.INPUT_REQUIRED
            await agent.on()
            answered = await asked.answer("three")
            assert (answered.state, answered.text) == (TaskState.COMPLETED, "heard three")


async def test_a_question_whose_task_has_ended_there():
    """Who answers it is told, and the task becomes what it is there."""
    async with switched(clerk()) as agent, connect(agent.url) as direct:
        relay = await proxied(agent.url)
        async with served(relay) as address, connect(address) as client:
            asked = await client.send("ask")
            [there] = [task async for task in direct.list()]
            await direct.cancel(there.id)
            with pytest.raises(UnsupportedOperation) as caught:
                await asked.answer("three")
            assert there.id not in str(caught.value)
            assert (await client.get(asked.task_id)).status.state is TaskState.CANCELED


async def test_an_agent_that_does_not_come_back_fails_its_tasks():
    """After `lost_after_s`, which is an hour unless told otherwise."""
    async with switched(clerk(Gate())) as agent:
        relay = await proxied(agent.url, lost_after_s=0.1)
        async with served(relay) as address, connect(address) as client:
            task_id = await begun(client)
            await agent.off()
            reply = await client.wait(task_id, timeout_s=60)
            assert reply.state is TaskState.FAILED
            assert "was away for 0.1 s" in reply.task.status.message.text


async def test_a_task_says_that_its_agent_is_away():
    """In its metadata, from `stale_after_s` on until the agent is heard of again."""
    gate = Gate()
    async with switched(clerk(gate)) as agent:
        relay = await proxied(agent.url, stale_after_s=0.1)
        async with served(relay) as address, connect(address) as client:
            task_id = await begun(client)
            await agent.off()
            async for event in client.subscribe(task_id):
                if event.metadata:
                    break
            task = await client.get(task_id)
            assert task.metadata == {"via.stale": True}
            assert task.status.state is TaskState.WORKING
            await agent.on()
            gate.event.set()
            reply = await client.wait(task_id, timeout_s=60)
            assert reply.task.metadata == {"via.stale": False}


async def test_an_agent_that_forgets_fails_its_tasks():
    """If it no longer knows the task, nobody will end it."""
    async with switched(clerk(Gate())) as agent:
        relay = await proxied(agent.url)
        async with served(relay) as address, connect(address) as client:
            task_id = await begun(client)
            await agent.off()
            forgetful = clerk(Gate()).app()
            await agent.on(forgetful)
            reply = await client.wait(task_id, timeout_s=60)
            await forgetful.close()
            assert reply.state is TaskState.FAILED
            assert "no longer knows" in reply.task.status.message.text


@pytest.mark.parametrize("way_out", ["jsonrpc-0.1", "jsonrpc-1.0"])
async def test_a_task_that_is_begun_anew(way_out):
    """0.1 lets an ended task go on: there too, or as a new task of the same conversation."""
    async with relayed(clerk(), "jsonrpc-0.1", way_out) as client:
        first = await client.send("hello")
        again = await client.send("more", task_id=first.task_id, context_id=first.context_id)
        assert (again.state, again.task_id) == (TaskState.COMPLETED, first.task_id)
        assert [artifact.text for artifact in again.task.artifacts][-1] == "MORE"
        third = await client.send("ask", task_id=first.task_id, context_id=first.context_id)
        assert third.state is TaskState.INPUT_REQUIRED
        done = await client.send("two", task_id=first.task_id, context_id=first.context_id)
        assert (done.state, done.task.artifacts[-1].text) == (TaskState.COMPLETED, "heard two")
