"""Handing a part of a task to another agent."""

import asyncio
import contextlib
import uuid

import pytest

from accord import Agent, Context, Fail, Message, Part, connect
from accord.auth import ApiKeys
from accord.client import ApiKey, Retry
from accord.model import Role, TaskState, UnsupportedOperation
from tests.drive import serving
from tests.engine.processes import Disk, Memory, Twice, ended, message, text_of, told, until


def agent_of(skill, name="Desk", **options):
    agent = Agent(name, **options)
    agent.skill(skill)
    return agent


async def test_the_answer_comes_back_and_progress_becomes_ours():
    async def measure(item: str, ctx: Context):
        await ctx.status("measuring")
        yield f"{item}: 3 m"

    desk = agent_of(measure)

    async def order(item: str, ctx: Context):
        reply = await ctx.delegate(desk, item)
        return f"ordered {reply.text}"

    async with connect(agent_of(order, "Shop")) as client:
        stream = client.stream("shelf")
        said = [
            e.status.message.text
            async for e in stream
            if getattr(e, "status", None) and e.status.message
        ]
        assert (stream.reply.text, said) == ("ordered shelf: 3 m", ["Desk: measuring"])


async def test_the_answer_comes_back_as_the_type_that_is_named():
    async def measure(item: str) -> dict[str, int]:
        return {"metres": 3}

    desk = agent_of(measure)

    async def order(item: str, ctx: Context) -> int:
        found = await ctx.delegate(desk, item, returns=dict[str, int])
        return found["metres"]

    async with connect(agent_of(order, "Shop")) as client:
        assert (await client.send("shelf")).data == 3


async def test_a_question_of_the_other_agent_is_asked_of_our_client():
    """With its schema, and the answer is passed on; the other agent never learns that it was not
    its own client.
    """

    async def paint(item: str, ctx: Context):
        colour = await ctx.ask("Which colour?")
        coats = await ctx.ask("How many coats?", int)
        return f"{coats} coats of {colour}"

    desk = agent_of(paint)

    async def order(item: str, ctx: Context):
        return (await ctx.delegate(desk, item)).text

    async with connect(agent_of(order, "Shop")) as client:
        reply = await client.send("shelf")
        assert reply.question == "Which colour?"
        reply = await reply.answer("blue")
        assert reply.question == "How many coats?"
        assert reply.task.status.message.parts[1].data == {"type": "integer"}
        assert (await reply.answer("2")).text == "2 coats of blue"


@pytest.mark.parametrize("how", ["a message", "without one"])
async def test_an_authorization_the_other_agent_needs_is_asked_of_our_client(how):
    """The stream of the other agent stays open while it waits: our client has to hear of it all
    the same. Nobody need say that it was given.
    """
    given = asyncio.Event()

    async def pay(item: str, ctx: Context):
        until = given.wait() if how == "without one" else None
        await ctx.require_auth("Log in at https://bank.example.com", until=until)
        return f"paid for {item}"

    desk = agent_of(pay)

    async def order(item: str, ctx: Context):
        return (await ctx.delegate(desk, item)).text

    async with asyncio.timeout(30), connect(agent_of(order, "Shop")) as client:
        async with client.stream("shelf") as stream:
            async for event in stream:
                if getattr(event, "status", None) and event.status.message:
                    break
        assert stream.task.state is TaskState.AUTH_REQUIRED
        assert event.status.message.text == "Desk: Log in at https://bank.example.com"
        if how == "a message":
            assert (await client.send("done", task_id=stream.task_id)).text == "paid for shelf"
        else:
            given.set()
            with contextlib.suppress(UnsupportedOperation):  # it may have ended already
                async for _ in client.subscribe(stream.task_id):
                    pass
            assert (await client.wait(stream.task_id)).text == "paid for shelf"


async def test_a_part_that_fails_fails_the_whole_with_its_reason_unless_caught():
    async def refuse(item: str, ctx: Context):
        ctx.reject("out of stock")

    desk = agent_of(refuse)

    async def order(item: str, ctx: Context):
        await ctx.delegate(desk, item)

    async with connect(agent_of(order, "Shop")) as client:
        reply = await client.send("shelf")
        assert (reply.state, reply.task.status.message.text) == (
            TaskState.FAILED,
            "Desk declined: out of stock",
        )

    async def order_elsewhere(item: str, ctx: Context):
        try:
            await ctx.delegate(desk, item)
        except Fail as error:
            return f"elsewhere, because {error}"

    async with connect(agent_of(order_elsewhere, "Shop")) as client:
        reply = await client.send("shelf")
        assert reply.text == "elsewhere, because Desk declined: out of stock"


async def test_cancelling_the_whole_cancels_the_part():
    stopped, started = asyncio.Event(), asyncio.Event()

    async def forever(item: str):
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    desk = agent_of(forever)

    async with connect(desk) as to_desk:

        async def order(item: str, ctx: Context):
            await ctx.delegate(to_desk, item)

        async with connect(agent_of(order, "Shop")) as client:
            reply = await client.send("shelf", wait=False)
            await asyncio.wait_for(started.wait(), 10)
            assert (await client.cancel(reply.task_id)).state is TaskState.CANCELED
            await asyncio.wait_for(stopped.wait(), 10)
        assert [task.state async for task in to_desk.list()] == [TaskState.CANCELED]


async def test_cancelling_the_whole_before_the_part_has_said_anything_cancels_it(monkeypatch):
    """The task of the other agent is not known yet, and it is cancelled when it is."""
    monkeypatch.setattr("accord.delegate.FIRST_S", 60)
    taken, speaks, stopped = asyncio.Event(), asyncio.Event(), asyncio.Event()
    desk = Agent("Desk")

    @desk.skill(first_word=True)
    async def forever(item: str, ctx: Context):
        taken.set()
        await speaks.wait()
        await ctx.status("on it")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    app = desk.app()
    async with serving(app, app.close) as url:

        async def order(item: str, ctx: Context):
            await ctx.delegate(url, item)

        async with connect(agent_of(order, "Shop")) as client, connect(url) as to_desk:
            reply = await client.send("shelf", wait=False)
            await asyncio.wait_for(taken.wait(), 30)
            assert (await client.cancel(reply.task_id)).state is TaskState.CANCELED
            assert not [task async for task in to_desk.list()]
            speaks.set()
            await asyncio.wait_for(stopped.wait(), 30)
            [part] = [task async for task in to_desk.list()]
            with contextlib.suppress(UnsupportedOperation):  # it has ended
                async for _ in to_desk.subscribe(part.id):
                    pass
            assert (await to_desk.get(part.id)).state is TaskState.CANCELED


async def test_who_gives_up_a_delegation_does_not_wait_for_a_silent_agent(monkeypatch):
    """Its task is cancelled when it is known, at the latest before our server has closed."""
    monkeypatch.setattr("accord.delegate.FIRST_S", 120)
    monkeypatch.setattr("accord.delegate.CANCEL_S", 60)
    speaks = asyncio.Event()
    patience: list[asyncio.Timeout] = []
    desk = Agent("Desk")

    @desk.skill(first_word=True)
    async def forever(item: str, ctx: Context):
        patience[0].reschedule(0)  # at once
        await speaks.wait()
        await ctx.status("on it")
        await asyncio.Event().wait()

    app = desk.app()
    async with serving(app, app.close) as url, connect(url) as to_desk:

        async def order(item: str, ctx: Context):
            try:
                async with asyncio.timeout(None) as limit:
                    patience.append(limit)
                    await ctx.delegate(url, item)
            except TimeoutError:
                return "gave up"

        async with connect(agent_of(order, "Shop")) as client:
            assert (await asyncio.wait_for(client.send("shelf"), 30)).text == "gave up"
            speaks.set()
        assert [task.state async for task in to_desk.list()] == [TaskState.CANCELED]


async def test_an_agent_that_is_not_there_fails_the_task(caplog):
    async def order(item: str, ctx: Context):
        await ctx.delegate("http://127.0.0.1:9", item)

    async with connect(agent_of(order, "Shop")) as client:
        assert (await client.send("shelf")).state is TaskState.FAILED
    assert "127.0.0.1:9" in caplog.text


@pytest.mark.parametrize(
    "given", ["", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "nonsense"]
)
async def test_the_trace_travels_along(given):
    """W3C trace context: the same trace, a span of its own; a new trace if none came (OPS-4)."""
    from accord import observe

    async def check(item: str):
        return observe.current()

    desk = agent_of(check)

    async def order(item: str, ctx: Context):
        return (await ctx.delegate(desk, item)).text

    async with connect(
        agent_of(order, "Shop"), headers={"traceparent": given} if given else None
    ) as client:
        version, trace, span, _flags = (await client.send("x")).text.split("-")
    assert (version, len(trace), len(span)) == ("00", 32, 16)
    if given.startswith("00"):
        assert trace == given.split("-")[1]
        assert span != given.split("-")[2]


# After a restart


class Desk:
    """Another agent, which counts what it is asked to do."""

    def __init__(self) -> None:
        self.agent = Agent("Desk")
        self.done: list[str] = []
        self.agent.skill(self.paint)

    async def paint(self, item: str, ctx: Context) -> str:
        self.done.append(item)
        colour = await ctx.ask("Which colour?") if item == "shelf" else "white"
        return f"{item} in {colour}"


async def test_a_finished_delegation_is_found_again(twice: Twice) -> None:
    """Its answer is in our log: the other agent is not asked again, however long ago it was."""
    desk = Desk()

    @twice.agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> str:
        reply = await ctx.delegate(desk.agent, "chair")
        await twice.die()
        return f"ordered {reply.text} ({reply.state.word})"

    _, after = await twice.run()
    assert text_of(after) == "ordered chair in white (completed)", told(after)
    assert desk.done == ["chair"]


async def test_an_answer_to_another_agents_question_stays_with_it(place: Disk | Memory) -> None:
    """After a restart it is not handed to a question of our own."""
    desk, agent = Desk(), Agent("Shop")

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> str:
        reply = await ctx.delegate(desk.agent, item)
        return f"{reply.text} for {await ctx.ask('Your name?')}"

    async with place.dying(agent) as process:
        task = await process.send(message("shelf"))
        assert told(task) == "Which colour?"
        task = await process.send(message("red", task_id=task["id"]))
        assert told(task) == "Your name?"
    async with place.process(agent) as process:
        assert (
            text_of(await process.send(message("Ada", task_id=task["id"])))
            == "shelf in red for Ada"
        )
    assert desk.done == ["shelf"]


async def test_delegations_of_branches_keep_their_answers(twice: Twice) -> None:
    desk = Desk()

    @twice.agent.skill(durable=True)
    async def order(text: str, ctx: Context) -> str:
        async def late() -> str:
            if twice.is_first:
                await until(lambda: "table" in desk.done)
            return (await ctx.delegate(desk.agent, "chair")).text

        found = await ctx.gather(late(), ctx.delegate(desk.agent, "table"))
        await twice.die()
        return f"{found[0]}, {found[1].text}"

    _, after = await twice.run()
    assert text_of(after) == "chair in white, table in white", told(after)
    assert desk.done == ["table", "chair"]


@pytest.mark.parametrize("how", ["stopped", "died"])
async def test_a_run_that_is_released_does_not_cancel_what_it_has_delegated(
    place: Disk | Memory, how: str
) -> None:
    """Its next process goes on with the same task of the other agent: our stop is not its stop."""
    other, agent = Agent("Desk"), Agent("Shop")
    working, go_on = asyncio.Event(), asyncio.Event()
    ends: list[str] = []

    @other.skill
    async def paint(item: str) -> str:
        working.set()
        try:
            await go_on.wait()
            ends.append("done")
        except asyncio.CancelledError:
            ends.append("canceled")
            raise
        return f"{item} painted"

    @agent.skill(durable=True)
    async def order(item: str, ctx: Context) -> str:
        return (await ctx.delegate(desk, item)).text

    async with connect(other) as desk:
        async with place.process(agent) if how == "stopped" else place.dying(agent) as process:
            await process.send(message("chair", returnImmediately=True))
            await until(working.is_set)
            await process.app._engine.tasks.flush()
        go_on.set()
        async with place.process(agent) as process:
            assert text_of(await ended(process)) == "chair painted"
    assert ends == ["done"]


async def test_a_delegation_without_an_answer_has_none_in_the_next_attempt(twice: Twice) -> None:
    """A function that went another way because of it goes the same way again, though the other
    agent may be back.
    """
    desk = Desk()
    client = connect("http://127.0.0.1:9", retry=Retry(first_max_time_s=0))

    @twice.agent.skill(durable=True)
    async def order(text: str, ctx: Context) -> str:
        try:
            found = (await ctx.delegate(client if twice.is_first else desk.agent, "chair")).text
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        twice.done.append(found)
        await twice.die()
        return found

    _, after = await twice.run()
    first, second = twice.done
    assert first == second == text_of(after), told(after)
    assert first.endswith("can't be reached")
    assert desk.done == []


@pytest.mark.parametrize(
    ("skill", "said"),
    [
        ("closed", "did not accept our credentials"),
        ("scoped", "did not allow it"),
        ("typed", "answered with an error"),
        ("gone", "can't be reached"),
    ],
)
async def test_what_came_of_a_delegation_is_said(skill: str, said: str) -> None:
    """An agent that said no has given an answer. Where it is stays between it and us."""
    key = "the-key-of-mia-0123456789"
    closed = Agent("Closed", auth=ApiKeys(keys={key: "mia"}))
    closed.skill(Desk().paint)
    scoped = Agent("Scoped", auth=ApiKeys(keys={key: "mia"}))
    scoped.skill(scopes=["paint"])(Desk().paint)
    typed = Agent("Typed")

    @typed.skill
    async def count(number: int) -> str:
        return str(number)

    agent = Agent("Orders")

    @agent.skill
    async def order(text: str, ctx: Context) -> str:
        return (await ctx.delegate(clients[text], "chair")).text

    async with (
        closed.app().serving() as url,
        connect(scoped, auth=ApiKey(key)) as with_key,
        connect(typed) as of_numbers,
        connect(agent) as client,
    ):
        clients = {
            "closed": url,
            "scoped": with_key,
            "typed": of_numbers,
            "gone": connect("http://127.0.0.1:9", retry=Retry(first_max_time_s=0)),
        }
        reply = await client.send(skill)
    assert reply.state is TaskState.FAILED
    assert reply.text == f"another agent that does a part of this task {said}"


async def test_a_message_with_a_new_id_in_every_attempt_is_the_same_delegation(
    twice: Twice,
) -> None:
    desk = Desk()

    @twice.agent.skill(durable=True)
    async def order(text: str, ctx: Context) -> str:
        found = await ctx.delegate(
            desk.agent,
            Message(message_id=uuid.uuid4().hex, role=Role.USER, parts=[Part(text="chair")]),
        )
        await twice.die()
        return str(found.text)

    _, after = await twice.run()
    assert text_of(after) == "chair in white", told(after)
    assert desk.done == ["chair"]


async def test_the_message_that_came_can_be_handed_on(disk: Disk) -> None:
    """The task it names is ours, and none of the other agent's."""
    desk, shop = Desk(), Agent("Shop")

    @shop.skill
    async def order(item: str, ctx: Context) -> str:
        return (await ctx.delegate(desk.agent, ctx.message)).text

    async with disk.process(shop) as process:
        assert text_of(await process.send(message("chair"))) == "chair in white"


async def test_a_delegation_names_a_skill_and_writes_as_the_other_agent_writes():
    """Its chunks are ours as they come, once, and its metadata and skill are as we say."""
    desk = Agent("Desk")

    @desk.skill
    async def refuse(item: str, ctx: Context):
        ctx.fail("the wrong skill")

    @desk.skill
    async def describe(item: str, ctx: Context):
        assert ctx.message.metadata == {"skill": "describe", "tone": "calm"}
        for word in ("a ", "fine ", item):
            await ctx.write(word)
            await asyncio.sleep(0)

    async def order(item: str, ctx: Context):
        await ctx.write("Desk says: ")
        await ctx.delegate(desk, item, skill="describe", metadata={"tone": "calm"}, write=True)

    async with connect(agent_of(order, "Shop")) as client:
        stream = client.stream("shelf")
        texts = [text async for text in stream.text()]
        assert "".join(texts) == "Desk says: a fine shelf"
        assert stream.reply.text == "Desk says: a fine shelf"


@pytest.mark.parametrize("is_durable", [True, False])
async def test_durable_work_that_waits_for_tasks_in_memory_is_warned_of(
    tmp_path, caplog, is_durable
):
    """Once for each agent, and not for an app, which may have a store."""

    async def measure(item: str) -> str:
        return f"{item}: 3 m"

    desk, store = agent_of(measure), agent_of(measure, "Stored")
    app = store.app(store=f"sqlite:///{tmp_path}/stored.db")
    shop = Agent("Shop")

    @shop.skill(durable=is_durable)
    async def order(item: str, ctx: Context) -> str:
        for agent in (desk, desk, app):
            reply = await ctx.delegate(agent, item)
        return reply.text

    shops = shop.app(store=f"sqlite:///{tmp_path}/shop.db")
    async with serving(app, app.close), serving(shops, shops.close), connect(shops) as client:
        assert (await client.send("shelf")).text == "shelf: 3 m"
    warned = [one.getMessage() for one in caplog.records if "Agent object" in one.getMessage()]
    assert len(warned) == is_durable
    assert all("skill order delegates to the Agent object 'Desk'" in one for one in warned)
