"""MCP tasks: long work of an agent, for clients that declare the extension."""

import asyncio
from contextlib import asynccontextmanager
from typing import Any, Literal

import mcp_types
import pytest
from mcp import Client as McpClient
from mcp.client.extension import ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError
from pydantic import Field

from accord import Agent, Context, connect
from accord.client import NO_RETRY, Client
from accord.integrations.mcp import DirectoryFailed, make_server
from accord.model import QUESTION

PATIENCE_S = 60
EXTENSION = "io.modelcontextprotocol/tasks"


class TaskHandle(mcp_types.Result):
    result_type: Literal["task"] = Field(alias="resultType")
    task_id: str = Field(alias="taskId")
    status: str
    created_at: str = Field(alias="createdAt")
    last_updated_at: str = Field(alias="lastUpdatedAt")
    ttl_ms: int | None = Field(alias="ttlMs")


class Tasks(ClientExtension):
    """Declares the extension, and keeps the handles."""

    identifier = EXTENSION

    def claims(self) -> Any:
        async def resolve(result: Any, ctx: Any) -> Any:
            raise AssertionError("the tests look at handles themselves")

        return [ResultClaim(result_type="task", model=TaskHandle, resolve=resolve)]


class Ended(mcp_types.Result):
    model_config = {"extra": "allow"}


class TaskRequest(mcp_types.Request[dict[str, Any], str]):
    name_param = "taskId"


def _agent(oven: asyncio.Event) -> Agent:
    """Its long work waits for the oven."""
    agent = Agent("Baker")

    @agent.skill
    async def bake(request: str, ctx: Context) -> str:
        """Bake something."""
        if request == "quick":
            return "a bun"
        if request == "ask":
            return await ctx.ask("Which flour?")
        await ctx.progress(1, 3)
        await oven.wait()
        if request == "burn":
            raise RuntimeError("burnt")
        return "bread"

    return agent


@asynccontextmanager
async def connected(
    *, mode: str = "2026-07-28", extensions: tuple[Any, ...] = (Tasks(),), **options: Any
) -> Any:
    """A client that declares the extension, the agent's own client, and what it waits for."""
    oven = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        agent: Client = await connect(_agent(oven))
        try:
            server = make_server([agent], wait_s=0.1)
            async with McpClient(server, mode=mode, extensions=[*extensions], **options) as client:
                yield client, agent, oven
        finally:
            await agent.close()


async def _call(client: McpClient, message: str) -> Any:
    return await client.session.call_tool("baker", {"message": message}, allow_claimed=True)


async def _ask(client: McpClient, method: str, handle: str, **more: Any) -> dict[str, Any]:
    request = TaskRequest(method=f"tasks/{method}", params={"taskId": handle, **more})
    return (await client.session.send_request(request, Ended)).model_dump(by_alias=True)


async def _until(client: McpClient, handle: str, status: str) -> dict[str, Any]:
    while (found := await _ask(client, "get", handle))["status"] != status:
        assert found["status"] == "working"
        await asyncio.sleep(0.05)
    return found


async def test_long_work_is_a_task_that_is_polled():
    """Its handle resolves at once, and its end has the result of the call."""
    async with connected() as (client, agent, oven):
        handle = await _call(client, "bread")
        assert (handle.result_type, handle.status) == ("task", "working")
        first = await _ask(client, "get", handle.task_id)
        assert (first["status"], first["resultType"]) == ("working", "complete")
        oven.set()
        done = await _until(client, handle.task_id, "completed")
        assert done["result"]["content"] == [{"type": "text", "text": "bread"}]
        assert handle.task_id.rpartition("/")[2] == (await anext(agent.list())).id
        assert first["createdAt"] == done["createdAt"] == handle.created_at
        assert done["createdAt"] <= done["lastUpdatedAt"]


async def test_quick_work_is_no_task():
    async with connected() as (client, _, _):
        result = await _call(client, "quick")
        assert result.content[0].text == "a bun"


async def test_a_task_is_cancelled():
    async with connected() as (client, agent, _):
        handle = await _call(client, "forever")
        await _ask(client, "cancel", handle.task_id)
        assert (await _until(client, handle.task_id, "cancelled"))["status"] == "cancelled"
        [task] = [task async for task in agent.list()]
        assert task.state.word == "canceled"


async def test_work_that_fails_is_a_result():
    """`failed` is for errors of the protocol; a tool that fails has a result that says so."""
    async with connected() as (client, _, oven):
        handle = await _call(client, "burn")
        oven.set()
        done = await _until(client, handle.task_id, "completed")
        assert done["result"]["isError"] is True


@pytest.mark.parametrize(
    "handle",
    ["x", "baker/", "baker/1", "baker/1/", "baker/1/nothing", "baker/x/1", "other/1/1", "/", ""],
)
async def test_an_unknown_task_is_refused(handle):
    async with connected() as (client, _, _):
        for method in ("get", "cancel", "update"):
            more = {"inputResponses": {}} if method == "update" else {}
            with pytest.raises(MCPError) as caught:
                await _ask(client, method, handle or " ", **more)
            assert caught.value.error.code == mcp_types.INVALID_PARAMS


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("2026-07-28", mcp_types.MISSING_REQUIRED_CLIENT_CAPABILITY),
        ("legacy", mcp_types.METHOD_NOT_FOUND),
    ],
)
async def test_a_client_that_does_not_declare_tasks_has_none(mode, code):
    """The error names the extension that is missing; nothing is cancelled or answered."""
    async with connected(mode=mode, extensions=()) as (client, agent, _):
        task = (await agent.send("ask")).task
        for method in ("get", "cancel", "update"):
            more = {"inputResponses": {}} if method == "update" else {}
            with pytest.raises(MCPError) as caught:
                await _ask(client, method, f"baker/1/{task.id}", **more)
            assert caught.value.error.code == code
            if mode != "legacy":
                needed = caught.value.error.data["requiredCapabilities"]
                assert EXTENSION in needed["extensions"]
        assert (await agent.get(task.id)).state.word == "input-required"


async def test_an_agent_that_is_away_does_not_end_its_tasks():
    """A wrong handle is one; an agent that does not answer now is no reason to poll no more."""
    agent = _agent(asyncio.Event())
    app = agent.app()
    async with asyncio.timeout(PATIENCE_S), app.serving() as url:
        baker = await connect(url, retry=NO_RETRY)
        server = make_server([baker], wait_s=0.1)
        async with McpClient(server, mode="2026-07-28", extensions=[Tasks()]) as client:
            handle = await _call(client, "bread")
            await app.close()
            with pytest.raises(MCPError) as caught:
                await _ask(client, "get", handle.task_id)
            assert caught.value.error.code == mcp_types.INTERNAL_ERROR
        await baker.close()


class Books:
    """A directory of one agent, which may be closed."""

    def __init__(self, agent: Client) -> None:
        self._agent = agent
        self.is_open = True

    async def find(self, query: str) -> list[str]:
        return ["corner bakery: bakes"]

    async def client(self, name: str) -> Client | None:
        if not self.is_open:
            raise DirectoryFailed("the directory is closed")
        return self._agent if name == "corner bakery" else None


async def test_agents_that_are_asked_by_name_have_tasks_too():
    """Their tasks don't end if the directory does not answer now."""
    oven = asyncio.Event()
    async with asyncio.timeout(PATIENCE_S):
        agent = await connect(_agent(oven))
        books = Books(agent)
        server = make_server(books, wait_s=0.1)
        async with McpClient(server, mode="2026-07-28", extensions=[Tasks()]) as client:
            arguments = {"name": "corner bakery", "message": "bread"}
            handle = await client.session.call_tool("ask_agent", arguments, allow_claimed=True)
            books.is_open = False
            with pytest.raises(MCPError, match="is closed") as caught:
                await _ask(client, "get", handle.task_id)
            assert caught.value.error.code == mcp_types.INTERNAL_ERROR
            books.is_open = True
            oven.set()
            done = await _until(client, handle.task_id, "completed")
            assert done["result"]["content"][0]["text"] == "bread"
        await agent.close()


async def _answered(ctx: Any, params: Any) -> Any:
    return mcp_types.ElicitResult(action="accept", content={"answer": "rye"})


async def test_questions_stay_elicitations():
    """Before the work is a task, in the call; and in a task, as its input requests."""
    async with connected(elicitation_callback=_answered) as (client, agent, _):
        result = await client.call_tool("baker", {"message": "ask"})
        assert result.content[0].text == "rye"
        task = (await agent.send("ask")).task
        handle = f"baker/1/{task.id}"
        asked = await _ask(client, "get", handle)
        assert asked["status"] == "input_required"
        [(key, request)] = asked["inputRequests"].items()
        assert request["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"answer": "spelt"}}
        for responses in ({"other": answer}, {key: answer}, {key: answer}):
            await _ask(client, "update", handle, inputResponses=responses)
        done = await _until(client, handle, "completed")
        assert done["result"]["content"][0]["text"] == "spelt"


async def test_an_answer_names_the_question_that_the_user_saw():
    """So it can't pay for the next one, which the agent may have asked meanwhile."""
    async with connected(elicitation_callback=_answered) as (client, agent, _):
        await client.call_tool("baker", {"message": "ask"})
        task = (await agent.send("ask")).task
        handle = f"baker/1/{task.id}"
        [key] = (await _ask(client, "get", handle))["inputRequests"]
        answer = {"action": "accept", "content": {"answer": "spelt"}}
        await _ask(client, "update", handle, inputResponses={key: answer})
        await _until(client, handle, "completed")
        for done in [await agent.get(one.id) async for one in agent.list()]:
            asked = next(one for one in done.history if one.text == "Which flour?")
            assert done.history[-1].metadata[QUESTION]["id"] == asked.metadata[QUESTION]["id"]


async def test_who_declines_cancels():
    async with connected(elicitation_callback=_answered) as (client, agent, _):
        task = (await agent.send("ask")).task
        handle = f"baker/1/{task.id}"
        [key] = (await _ask(client, "get", handle))["inputRequests"]
        await _ask(client, "update", handle, inputResponses={key: {"action": "decline"}})
        assert (await _until(client, handle, "cancelled"))["status"] == "cancelled"
