"""The hub as one agent."""

import contextlib

import pytest

from accord import Agent, Context, connect
from accord.client import ApiKey
from accord.model import InvalidParams, PermissionDenied, TaskState, UnsupportedOperation
from examples.onboarding import facilities, hr, it
from examples.onboarding.onboarding import onboarding_agent
from tests.hub.hubs import hub_at
from tests.relay.relays import served


def department(name: str, skill: str, description: str, tags: list[str]) -> Agent:
    agent = Agent(name, description=f"The department {name}.")

    @agent.skill(id=skill, description=description, tags=tags)
    async def work(text: str, ctx: Context) -> str:
        if "ask" in text:
            return f"{name} heard {await ctx.ask('When?')}"
        return f"{name} did: {text}"

    return agent


@contextlib.asynccontextmanager
async def company(folder, **settings):
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(hub_at(folder, **settings))
        for agent in (
            department("HR", "createEmployee", "Create the record of a new employee.", ["hr"]),
            department("IT", "orderLaptop", "Order a laptop for an employee.", ["hardware"]),
            department("Shop", "orderPhone", "Order a phone for an employee.", ["hardware"]),
        ):
            await desk.add(await stack.enter_async_context(served(agent)))
        yield desk


async def test_the_card_lists_what_its_reader_may_call(tmp_path):
    async with company(tmp_path, guests="see") as desk:
        await desk.key("ada")
        async with (
            connect(desk.url) as guest,
            connect(desk.url, auth=ApiKey(desk.keys["ada"])) as ada,
        ):
            own = [skill.id for skill in guest.card.skills]
            assert "find" in own
            assert not [one for one in own if "/" in one]
            skills = [skill.id for skill in ada.card.skills if "/" in skill.id]
            assert skills == ["hr/createEmployee", "it/orderLaptop", "shop/orderPhone"]


async def test_a_named_skill_is_called_and_its_questions_pass_through(tmp_path):
    async with company(tmp_path) as desk, connect(desk.url) as hub:
        assert (await hub.send("Ada", skill="hr/createEmployee")).text == "HR did: Ada"
        asked = await hub.send("ask", skill="it/orderLaptop")
        assert asked.question == "When?"
        assert (await asked.answer("noon")).text == "IT heard noon"
        open_ = await hub.send("ask", skill="it/orderLaptop")
        assert (await hub.cancel(open_.task_id)).status.state is TaskState.CANCELED
        with pytest.raises(InvalidParams, match="no agent 'nobody' here"):
            await hub.send("x", skill="nobody/work")
        rule = {"who": "anyone", "what": "agent:hr", "effect": "deny"}
        await desk.call("POST", "/policies", rule)
        with pytest.raises(PermissionDenied):
            await hub.send("Ada", skill="hr/createEmployee")


async def test_a_task_of_another_agent_is_forked_there(tmp_path):
    """At the hub as one agent, and at the gateway, whose card does not offer it."""
    async with company(tmp_path) as desk, connect(desk.url) as hub:
        asked = await hub.send("ask", skill="it/orderLaptop")
        with pytest.raises(UnsupportedOperation, match="another agent does the work; fork the ta"):
            await hub.fork(asked.task_id, at=3, answer="noon")
        async with connect(f"{desk.url}/agents/it") as gate:
            asked = await gate.send("ask")
            with pytest.raises(UnsupportedOperation, match="does not offer to fork tasks"):
                await gate.fork(asked.task_id, at=3, answer="noon")


async def test_later_messages_of_a_task_are_decided_on_too(tmp_path):
    async with company(tmp_path) as desk:
        await desk.key("ada")
        async with connect(desk.url, auth=ApiKey(desk.keys["ada"])) as hub:
            asked = await hub.send("ask", skill="it/orderLaptop")
            other = await hub.send("ask", skill="it/orderLaptop")
            await desk.call("POST", "/agents/it:suspend")
            with pytest.raises(InvalidParams, match="no agent 'it' here"):
                await asked.answer("noon")
            assert (await hub.cancel(other.task_id)).status.state is TaskState.CANCELED
            await desk.call("POST", "/agents/it:resume")
            rule = {"who": "user:ada", "what": "agent:it", "may": "call", "effect": "deny"}
            made = await desk.call("POST", "/policies", rule)
            with pytest.raises(PermissionDenied, match="rule"):
                await hub.send("noon", task_id=asked.task_id)
            assert (await hub.get(asked.task_id)).status.state is TaskState.INPUT_REQUIRED
            await desk.call("DELETE", f"/policies/{made.body['id']}")
            assert (await hub.send("noon", task_id=asked.task_id)).text == "IT heard noon"


async def test_a_clear_candidate_is_used_and_named(tmp_path):
    async with company(tmp_path) as desk, connect(desk.url) as hub:
        stream = hub.stream("create the record of a new employee")
        words = [
            event.status.message.text
            async for event in stream
            if getattr(event, "status", None) and event.status.message
        ]
        assert "hr/createEmployee is asked" in words
        assert stream.reply.text == "HR did: create the record of a new employee"


async def test_an_ambiguous_request_is_asked_about(tmp_path):
    """The question is typed: the candidates are its choices."""
    async with company(tmp_path) as desk, connect(desk.url) as hub:
        asked = await hub.send("order something for an employee")
        assert asked.state is TaskState.INPUT_REQUIRED
        assert "it/orderLaptop" in asked.question
        assert "shop/orderPhone" in asked.question
        schema = str(asked.task.status.message.metadata) + str(asked.task.status.message.parts)
        assert "enum" in schema
        done = await asked.answer("shop/orderPhone")
        assert done.text == "Shop did: order something for an employee"


async def test_the_only_candidate_is_asked_about_if_it_fits_by_its_stem_alone(tmp_path):
    """A university is no universe: no agent is called because two words begin alike."""
    agent = department("Stars", "lookUp", "Look at the universe.", ["universe"])
    async with served(agent) as url, hub_at(tmp_path) as desk, connect(desk.url) as hub:
        await desk.add(url)
        asked = await hub.send("university")
        assert asked.state is TaskState.INPUT_REQUIRED
        assert "stars/lookUp" in asked.question
        assert (await hub.send("universe")).text == "Stars did: universe"


async def test_what_nobody_does_is_rejected_with_what_there_is(tmp_path):
    async with company(tmp_path) as desk, connect(desk.url) as hub:
        reply = await hub.send("paint the moon yellow")
        assert reply.state is TaskState.REJECTED
        assert "hr/createEmployee" in reply.task.status.message.text


async def test_a_function_may_choose(tmp_path):
    async with company(tmp_path) as desk, connect(desk.url) as hub:

        @desk.hub.route
        async def choose(message, caller):
            return "it/orderLaptop" if "order" in message.text else None

        reply = await hub.send("order something for an employee")
        assert reply.text == "IT did: order something for an employee"


async def test_find_is_a_skill(tmp_path):
    async with company(tmp_path) as desk, connect(desk.url) as hub:
        found = await hub.call("find", {"query": "order a laptop"})
        assert await hub.call("find", "order a laptop") == found  # as `make demo` tells people to
        assert found["untrusted"][0]["agent"] == "it"
        assert found["untrusted"][0]["skills"][0]["id"] == "orderLaptop"


@pytest.mark.parametrize("id_", ["查询天气", "order lunch!"])
async def test_a_skill_is_called_by_the_id_that_is_shown(tmp_path, id_):
    """Also where the agent's own id is none that can be shown as it is."""
    agent = department("Canteen", id_, "Order lunch, see the weather.", [])
    async with served(agent) as url, hub_at(tmp_path) as desk, connect(desk.url) as hub:
        await desk.add(url)
        found = await hub.call("find", {"query": "order lunch"})
        [shown] = found["untrusted"][0]["skills"]
        reply = await hub.send("soup", skill=f"canteen/{shown['id']}")
        assert reply.text == "Canteen did: soup"
        async with connect(f"{desk.url}/agents/canteen") as direct:
            assert (await direct.send("tea", skill=shown["id"])).text == "Canteen did: tea"


async def test_onboarding_with_the_hubs_address_alone(tmp_path, capsys):
    """It finds its five skills there; questions pass through; one tree of tasks is the trace."""
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(hub_at(tmp_path))
        pro = onboarding_agent(hub=desk.url)
        for agent in (hr.agent, it.agent, facilities.agent, pro):
            await desk.add(await stack.enter_async_context(agent.app().serving()))
        client = await stack.enter_async_context(connect(f"{desk.url}/agents/onboardingpro"))
        asked = await client.send({"name": "Ada Lovelace", "role": "Engineer"})
        assert asked.question == "When does Ada Lovelace start?"
        again = await asked.answer("2026-12-01")
        assert again.question.startswith("Which laptop")
        done = await again.answer("16")
        assert done.state is TaskState.COMPLETED
        await desk.hub.traces.flush()
        [trace] = await desk.hub.traces.newest(None)
        spans = await desk.hub.traces.spans(trace["id"], None)
    roots = [span for span in spans if not span.parent]
    with capsys.disabled():
        print(f"\nonboarding through the hub: {len(spans)} tasks in one trace, 2 questions")
    assert [span.task for span in roots] == [asked.task_id]
    assert {span.parent for span in spans} == {"", asked.task_id}
    assert len(spans) == 6
