"""Agents as tools of an MCP server, called with the MCP SDK in both generations of the protocol:
2026-07-28, and the handshake before it.
"""

import asyncio
import base64
import json
from contextlib import asynccontextmanager
from typing import Any

import mcp_types
import pytest
from mcp import Client as McpClient
from mcp.shared.exceptions import MCPError

from accord import Agent, Context, connect
from accord.auth import Keyring
from accord.client import Client
from accord.engine.skills import definition_of
from accord.integrations.mcp import make_server
from accord.observe import current_trace
from tests.integrations.agents import PNG, WAV, trip_planner, workshop

PATIENCE_S = 60
CLIENTS: list[Client] = []  # of the agents behind the MCP server, to look at their tasks


@pytest.fixture(params=["2026-07-28", "legacy"])
def era(request):
    return request.param


@asynccontextmanager
async def connected(agent, era, *, asked=None, **options):
    """A client of an MCP server whose tools are this agent. `asked` answers its user's forms."""
    agents = agent if isinstance(agent, list) else [agent]
    async with asyncio.timeout(PATIENCE_S):
        clients = [await connect(one) for one in agents]
        try:
            server = make_server(clients, **options)
            callback = None
            if asked is not None:

                async def callback(_, params):
                    return asked(params)

            async with McpClient(server, mode=era, elicitation_callback=callback) as client:
                CLIENTS[:] = clients
                yield client
        finally:
            for one in clients:
                await one.close()


def fill(**content):
    return mcp_types.ElicitResult(action="accept", content=content)


def text_of(result):
    return "\n".join(block.text for block in result.content if hasattr(block, "text"))


async def test_a_question_is_asked_of_the_user_and_progress_grows(era):
    """One call, however many rounds the protocol needs for it."""
    forms, progress = [], []

    def asked(params):
        forms.append((params.message, params.requested_schema["properties"]))
        return fill(answer=2)

    async def on_progress(done, total, message):
        progress.append((done, message))

    async with connected(trip_planner(), era, asked=asked) as client:
        result = await client.call_tool(
            "trip_planner", {"message": "Rome"}, progress_callback=on_progress
        )
    assert text_of(result) == "Day 1. Day 2. That is Rome."
    assert not result.is_error
    assert result.meta["a2a/state"] == "completed"
    assert forms == [("How many days do you have?", {"answer": {"type": "integer"}})]
    numbers = [done for done, _ in progress]
    assert numbers == sorted(set(numbers))
    assert "looking for 2 days" in [message for _, message in progress]


async def test_numbers_of_an_agent_are_the_numbers_of_mcp(era):
    """They grow, as MCP wants it, also where the agent says something in between, or less."""
    agent, told = Agent("Counter"), []

    @agent.skill
    async def count(text: str, ctx: Context) -> str:
        ctx.progress(20, 100, "rows read")
        ctx.status("still reading")
        ctx.progress(10, 100)
        ctx.progress(50, 100)
        return "done"

    async def on_progress(done, total, message):
        told.append((done, total, message))

    async with connected(agent, era) as client:
        await client.call_tool("counter", {"message": "x"}, progress_callback=on_progress)
    numbers = [done for done, _, _ in told]
    assert numbers == sorted(set(numbers))
    assert (20, 100, "20 of 100 rows read") in told
    assert (50, 100, "50 of 100") in told
    assert all(done < 50.1 for done in numbers)


async def test_a_client_that_can_not_ask_gets_the_question_as_a_result(era):
    async with connected(trip_planner(), era) as client:
        result = await client.call_tool("trip_planner", {"message": "Rome"})
        assert "How many days do you have?" in text_of(result)
        assert result.structured_content["schema"] == {"type": "integer"}
        task_id = result.structured_content["task_id"]
        result = await client.call_tool("trip_planner", {"message": "1", "task_id": task_id})
        assert text_of(result) == "Day 1. That is Rome."


async def test_a_client_that_fails_to_ask_gets_the_question_too():
    """It says that it can, and then answers with an error."""
    asked = lambda _: mcp_types.ErrorData(code=-32601, message="not now")  # noqa: E731
    async with connected(trip_planner(), "legacy", asked=asked) as client:
        result = await client.call_tool("trip_planner", {"message": "Rome"})
        assert "How many days do you have?" in text_of(result)


async def test_more_questions_than_a_client_repeats_calls_for_are_asked_in_results():
    agent = Agent("Curious")

    @agent.skill
    async def ask(text: str, ctx: Context) -> int:
        return sum([await ctx.ask(f"Number {i}?", int) for i in range(12)])

    asked = lambda _: fill(answer=1)  # noqa: E731
    async with connected(agent, "2026-07-28", asked=asked) as client:
        result = await client.call_tool("curious", {"message": "x"})
        assert "Number 8?" in text_of(result)
        again = {"message": "1", "task_id": result.structured_content["task_id"]}
        assert text_of(await client.call_tool("curious", again)) == "12"


async def test_forms_have_the_fields_of_the_question(era):
    """An object's fields, then a yes or no: two questions in one call."""
    forms = []

    def asked(params):
        forms.append(params.requested_schema)
        return fill(name="Ada", age=36) if len(forms) == 1 else fill(answer=True)

    agent, _ = workshop()
    async with connected(agent, era, asked=asked) as client:
        result = await client.call_tool("workshop_register", {"message": "me"})
    assert text_of(result) == "Ada, 36: True"
    assert set(forms[0]["properties"]) == {"name", "age"}
    assert forms[0]["required"] == ["name", "age"]
    assert forms[1]["properties"]["answer"]["type"] == "boolean"


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_who_does_not_answer_cancels_the_task(era, action):
    asked = lambda _: mcp_types.ElicitResult(action=action)  # noqa: E731
    async with connected(trip_planner(), era, asked=asked) as client:
        result = await client.call_tool("trip_planner", {"message": "Rome"})
        assert result.is_error
        tasks = [task async for task in CLIENTS[0].list()]
    assert [task.state.word for task in tasks] == ["canceled"]


async def test_cancelling_the_call_cancels_the_task(era):
    agent, events = workshop()
    async with connected(agent, era) as client:
        call = asyncio.create_task(client.call_tool("workshop_build", {"message": "x"}))
        await events["begun"].wait()
        call.cancel()
        await events["canceled"].wait()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_long_work_is_named_and_waited_for_by_calling_again(era):
    agent, events = workshop()
    async with connected(agent, era, wait_s=0.01) as client:
        result = await client.call_tool("workshop_build", {"message": "x"})
        assert "still working" in text_of(result)
        assert not result.is_error
        again = {"message": "", "task_id": result.structured_content["task_id"]}
        events["may_end"].set()
        while "still working" in text_of(result):
            result = await client.call_tool("workshop_build", again)
        assert text_of(result) == "built x"


async def test_long_work_is_waited_for_in_rounds_that_the_client_repeats_itself():
    """With 2026-07-28 a model sees nothing of it, as long as that takes fewer than ten rounds."""
    agent, events = workshop()

    async def on_progress(done, total, message):
        if done > 3:  # more than happens in the first round
            events["may_end"].set()

    async with connected(agent, "2026-07-28", wait_s=0.01) as client:
        result = await client.call_tool(
            "workshop_build", {"message": "x"}, progress_callback=on_progress
        )
    assert text_of(result) == "built x"


async def test_the_trace_of_a_call_goes_on_in_the_agent(era):
    agent = Agent("Tracer")

    @agent.skill
    async def trace(text: str) -> dict:
        return current_trace()._asdict()

    trace_id = "4bf92f3577b34da6a3ce929d0e0e4736"
    meta: Any = {"traceparent": f"00-{trace_id}-00f067aa0ba902b7-01", "tracestate": "a=1"}
    async with connected(agent, era) as client:
        result = await client.call_tool("tracer", {"message": "x"}, meta=meta)
    assert trace_id in result.structured_content["traceparent"]
    assert result.structured_content["tracestate"] == "a=1"


async def test_what_an_agent_makes_is_content_and_resources(era):
    agent, _ = workshop()
    async with connected(agent, era) as client:
        result = await client.call_tool("workshop_paint", {"message": "x"})
        text, picture, sound, paper, large, elsewhere = result.content
        assert text.text == "two words"
        assert (picture.mime_type, base64.b64decode(picture.data)) == ("image/png", PNG)
        assert (sound.mime_type, base64.b64decode(sound.data)) == ("audio/wav", WAV)
        assert base64.b64decode(paper.resource.blob) == b"%PDF"
        assert str(elsewhere.uri) == "https://files.example.com/b.pdf"
        assert (large.type, large.size) == ("resource_link", 2 << 20)
        [contents] = (await client.read_resource(str(large.uri))).contents
        assert len(base64.b64decode(contents.blob)) == 2 << 20
        [contents] = (await client.read_resource(str(paper.resource.uri))).contents
        assert contents.mime_type == "application/pdf"
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.uri_template for one in templates] == ["a2a://{tool}/{task_id}/{artifact_id}"]
        for wrong in ("a2a://workshop_paint/x/y", "a2a://other/x/y", "file:///etc/passwd"):
            with pytest.raises(MCPError):
                await client.read_resource(wrong)


async def test_a_skill_with_a_schema_is_a_tool_with_it(era):
    agent, _ = workshop()
    async with connected(agent, era) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        schema = tools["workshop_order"].input_schema
        assert schema["required"] == ["thing"]
        assert set(schema["properties"]) == {"thing", "count", "colour", "task_id", "answer"}
        result = await client.call_tool("workshop_order", {"thing": "chair", "count": 4})
        assert result.structured_content == {"thing": "chair", "count": 4, "colour": "red"}
        assert json.loads(text_of(result)) == result.structured_content
        assert text_of(await client.call_tool("workshop_double", {"value": 21})) == "42"
        missing = await client.call_tool("workshop_order", {"count": 4})
        assert (missing.is_error, text_of(missing)) == (True, "workshop_order needs thing")


async def test_what_an_agent_refuses_is_an_error_the_model_can_read(era):
    agent, _ = workshop()
    async with connected(agent, era) as client:
        result = await client.call_tool("workshop_refuse", {"message": "x"})
        assert (result.is_error, text_of(result)) == (True, "Workshop declined: we are closed")
        result = await client.call_tool("workshop_double", {"value": "many"})
        assert result.is_error
        assert "a whole number" in text_of(result)
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("sing", {})


async def test_an_authorization_is_asked_for_with_its_address(era):
    """In URL mode: what is secret is no matter of a form."""
    urls = []

    def asked(params):
        urls.append(params.url)
        return mcp_types.ElicitResult(action="accept")

    agent, _ = workshop()
    async with connected(agent, era, asked=asked) as client:
        result = await client.call_tool("workshop_pay", {"message": "x"})
    assert (text_of(result), urls) == ("paid", ["https://bank.example.com/login?id=7"])


async def test_many_agents_are_found_and_asked_by_name(era):
    """Hundreds of tools would leave a model no room for its work."""
    agents = []
    for i in range(30):
        agent = Agent(f"Clerk {i}", description=f"Keeps the books of department {i}.")
        agent.skill(lambda text: f"noted {text}", id="note", description="Take a note.")
        definition_of(agent).skills["note"].function.__annotations__["text"] = str
        agents.append(agent)
    async with connected([*agents, trip_planner()], era) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == ["find_agents", "ask_agent"]
        found = text_of(await client.call_tool("find_agents", {"query": "plan a trip"}))
        assert found.splitlines()[2] == "trip_planner: Plans short trips. Skills: plan"
        ask = {"name": "trip_planner", "message": "Rome"}
        result = await client.call_tool("ask_agent", ask)
        assert 'call ask_agent with name="trip_planner" again' in text_of(result)
        answer = {"message": "1", "task_id": result.structured_content["task_id"]}
        result = await client.call_tool("ask_agent", ask | answer)
        assert text_of(result) == "Day 1. That is Rome."
        missing = await client.call_tool("ask_agent", {"name": "x", "message": "y"})
        assert "find_agents tells the names" in text_of(missing)
        noted = {"name": "clerk_7", "skill": "note", "message": "x"}
        assert text_of(await client.call_tool("ask_agent", noted)) == "noted x"


async def test_two_agents_of_one_name_are_two_tools(era):
    async with connected([trip_planner(), trip_planner()], era) as client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
    assert tools == ["trip_planner", "trip_planner_2"]


class Rounds:
    """The rounds of a call in 2026-07-28, one by one."""

    def __init__(self, client):
        self.client = client

    async def call(self, state=None, **content):
        responses = {"question": fill(**content)} if content else None
        return await self.client.session.call_tool(
            "trip_planner",
            {"message": "Rome"},
            input_responses=responses,
            request_state=state,
            allow_input_required=True,
        )


async def test_the_state_of_a_question_is_sealed():
    """A client holds it, and may be anyone: it can neither read it nor make one."""
    asked = lambda _: None  # noqa: E731
    async with connected(trip_planner(), "2026-07-28", asked=asked) as client:
        rounds = Rounds(client)
        first = await rounds.call()
        assert isinstance(first, mcp_types.InputRequiredResult)
        [task] = [task async for task in CLIENTS[0].list()]
        sealed = base64.urlsafe_b64decode(first.request_state)
        assert task.id.encode() not in sealed
        forged = base64.urlsafe_b64encode(sealed[:-1] + bytes([sealed[-1] ^ 1])).decode()
        for state in (forged, "x", json.dumps({"task_id": task.id})):
            with pytest.raises(MCPError, match="requestState"):
                await rounds.call(state, answer=1)
        done = await rounds.call(first.request_state, answer=1)
        assert text_of(done) == "Day 1. That is Rome."


async def test_a_round_that_is_repeated_answers_once():
    """A client that did not get the result sends the same round again."""
    agent, _ = workshop()
    asked = lambda _: None  # noqa: E731
    async with connected(agent, "2026-07-28", asked=asked) as client:
        call = client.session.call_tool
        options: dict[str, Any] = {"allow_input_required": True}
        first = await call("workshop_register", {"message": "x"}, **options)
        options |= {
            "request_state": first.request_state,
            "input_responses": {"question": fill(name="Ada", age=36)},
        }
        second = await call("workshop_register", {"message": "x"}, **options)
        again = await call("workshop_register", {"message": "x"}, **options)
        for result in (second, again):
            assert result.input_requests["question"].params.message == "Is Ada right?"


async def test_processes_with_the_same_keys_take_each_others_questions():
    """Behind a load balancer, or after a restart."""
    keys = Keyring.in_memory()

    async def never_asked(_, params):
        raise AssertionError("the test answers itself")

    async with connect(trip_planner()) as agent:
        states = []
        for _ in range(2):
            server = make_server([agent], keyring=keys)
            async with McpClient(
                server, mode="2026-07-28", elicitation_callback=never_asked
            ) as client:
                if not states:
                    states.append((await Rounds(client).call()).request_state)
                else:
                    done = await Rounds(client).call(states[0], answer=1)
        assert text_of(done) == "Day 1. That is Rome."
