"""Several agents on one engine and one store, each below its path."""

import signal
from pathlib import Path

import aiohttp
import pytest

from accord import Agent, Caller, Context, connect
from accord.auth import Credentials, scheme
from accord.client import BadCard
from accord.model import (
    A2AError,
    AgentNotFound,
    APIKeySecurityScheme,
    SecurityScheme,
    TaskNotFound,
    Unauthenticated,
)
from accord.slug import nearest
from tests.cli.shell import accord, found, served

BINDINGS = ["JSONRPC", "HTTP+JSON", "GRPC"]


def named(name: str, **more: object) -> Agent:
    agent = Agent(name, description=f"Is {name}.", **more)  # type: ignore[arg-type]

    @agent.skill
    async def say(ctx: Context, text: str) -> str:
        """Say it."""
        if text == "ask":
            return await ctx.ask("What?")
        return f"{name}: {text}"

    return agent


@pytest.mark.parametrize("binding", BINDINGS)
async def test_each_is_an_agent_of_its_own_over_every_binding(binding):
    """Nothing of one is visible through another: not even with the id of its task."""
    app = named("Human Resources").app(beside=[named("IT")], grpc_port=0)
    async with app.serving() as url:
        seen = {}
        for path, name in [("human-resources", "Human Resources"), ("it", "IT")]:
            async with connect(f"{url}/{path}", binding=binding) as client:
                assert client.card.name == name
                assert client.binding == binding
                reply = await client.send("hi")
                assert reply.text == f"{name}: hi"
                assert [task.id async for task in client.list()] == [reply.task_id]
                asked = await client.send("ask")
                assert (await asked.answer("that")).text == "that"
                seen[path] = reply.task_id
        async with connect(f"{url}/it", binding=binding) as client:
            with pytest.raises(TaskNotFound):
                await client.get(seen["human-resources"])
            with pytest.raises(TaskNotFound):
                await client.cancel(seen["human-resources"])


@pytest.mark.parametrize("binding", BINDINGS)
async def test_names_in_another_script_have_paths_too(binding):
    """Each its own, the same every time."""
    agents = [named("天气"), named("酒店"), named("酒店 Agent"), named("Погода"), named("🚀")]
    app = agents[0].app(beside=agents[1:], grpc_port=0)
    assert agents[0].slug == "agent-4d947325"
    async with app.serving() as url:
        for agent in agents:
            async with connect(f"{url}/{agent.slug}", binding=binding) as client:
                assert (await client.send("hi")).text == f"{agent.name}: hi"


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("HR & IT", "hr-it"),
        ("Café", "caf"),
        ("Agent №5", "agent-5"),
        ("天气", "agent-4d947325"),
        ("天气 2", "2-3eec3482"),
        ("x" * 300, "x" * 100),
        ("天 " + "x" * 300, "x" * 91 + "-2822e076"),
    ],
)
def test_a_name_in_paths(name, slug):
    """Names in Latin letters stay what they were: stores and addresses have them."""
    assert Agent(name).slug == slug


@pytest.mark.parametrize(("name", "read"), [("x" * 201, 0), ("agent-10-of-hr", 501)])
def test_a_hint_at_a_name_costs_little(name, read):
    """Strangers choose the name, and may send megabytes; of many names not all are compared."""
    names = [f"agent-{n}-of-it" for n in range(10, 99)] * 100
    known = iter(names)
    assert nearest(name, known) == ("agent-10-of-it" if read else "")
    assert len(names) - len(list(known)) <= read


async def test_the_root_says_which_there_are():
    """Whoever knows the address alone finds the agents below it."""
    app = named("HR").app(beside=[named("IT")])
    async with app.serving() as url, aiohttp.ClientSession() as http:
        async with http.get(f"{url}/") as answer:
            found_ = await answer.json()
        assert [one["name"] for one in found_["agents"]] == ["HR", "IT"]
        for one in found_["agents"]:
            async with http.get(one["card"]) as answer:
                assert (await answer.json())["name"] == one["name"]
            old = one["card"].replace("agent-card.json", "agent.json")
            async with http.get(old) as answer:
                assert (await answer.json())["url"].startswith(url)
        async with connect(url) as client:
            assert (await client.send("who is here?")).data == found_
        async with http.get(f"{url}/nobody/.well-known/agent-card.json") as answer:
            assert answer.status == 404


async def test_a_tenant_at_the_root_is_the_agent_of_that_path():
    """Whichever way a task was made, it is the same task of the same agent."""
    app = named("HR").app(beside=[named("IT")])
    async with app.serving() as url:
        async with connect(f"{url}/it") as direct, connect(url, tenant="it") as by_tenant:
            reply = await by_tenant.send("hi")
            assert reply.text == "IT: hi"
            assert (await direct.get(reply.task_id)).id == reply.task_id
        async with connect(url, tenant="nobody") as client:
            with pytest.raises(AgentNotFound, match="no agent 'nobody'"):
                await client.send("hi")
        with pytest.raises(BadCard, match="no agent is at /itt; did you mean /it/"):
            await connect(f"{url}/itt")


async def test_a_path_of_a_version_without_tenants_is_not_there_below_one():
    """A2A 0.3 reads its card at `/v1/card`; of a tenant there is none, whatever the verb."""
    app = named("HR").app(beside=[named("IT")])
    async with app.serving() as url, aiohttp.ClientSession() as http:
        for verb, path, status in (
            ("GET", "nobody/v1/card", 404),
            ("GET", "nobody/card", 404),
            ("PUT", "nobody/tasks/1", 405),
        ):
            async with http.request(verb, f"{url}/{path}") as answer:
                assert (answer.status, answer.headers.get("Allow", "GET")) == (status, "GET")
                assert "takes GET, not GET" not in await answer.text()


@scheme(
    SecurityScheme(api_key_security_scheme=APIKeySecurityScheme(location="header", name="X-Who"))
)
async def by_header(request: Credentials) -> Caller | None:
    return Caller("ada") if request.header("x-who") == "ada" else None


@pytest.mark.parametrize("binding", BINDINGS)
async def test_each_authenticates_its_own_callers(binding):
    """An agent without auth beside it opens no way around it, also not by tenant."""
    app = named("HR", auth=by_header).app(beside=[named("IT")], grpc_port=0)
    async with app.serving() as url:
        async with connect(f"{url}/it", binding=binding) as client:
            assert (await client.send("hi")).text == "IT: hi"
        async with connect(f"{url}/hr", binding=binding) as client:
            with pytest.raises(Unauthenticated):
                await client.send("hi")
        async with connect(f"{url}/hr", binding=binding, headers={"x-who": "ada"}) as client:
            assert (await client.send("hi")).text == "HR: hi"
        async with connect(url, tenant="hr") as client:
            with pytest.raises(Unauthenticated):
                await client.send("hi")


async def test_agents_come_and_go_while_the_app_runs():
    """A gateway adds and removes agents without a restart."""
    app = named("HR").app(beside=[named("IT")])
    async with app.serving() as url:
        await app.add(named("Late"), "teams/late")
        async with connect(f"{url}/teams/late") as client:
            asked = await client.send("ask")
            await app.remove("teams/late")
            with pytest.raises(A2AError):
                await client.get(asked.task_id)
        await app.add(named("Late"), "teams/late")
        async with connect(f"{url}/teams/late") as client:
            assert (await client.get(asked.task_id)).id == asked.task_id
        with pytest.raises(ValueError, match="two agents are called 'Late'"):
            await app.add(named("Late"), "another")
        with pytest.raises(ValueError, match="is taken"):
            await app.add(named("Later"), "it")


DURABLE = """
from accord import Agent, Context
agent = Agent({name!r}, description="Goes on.")
@agent.skill(durable=True)
async def work(ctx: Context, text: str) -> str:
    await ctx.step(str, "begun")
    answer = await ctx.ask("Go on?")
    return {name!r} + " " + answer
"""


def test_after_a_kill_all_of_them_go_on(tmp_path: Path):
    """One store, one process killed: a task of each agent is answered afterwards."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(DURABLE.format(name=name))
    asked = {}
    with served("one.py", "two.py", cwd=tmp_path) as (process, url):
        for name in ("one", "two"):
            sent = accord("send", f"{url}/{name}", "go")
            asked[name] = found(r"--task-id (\S+)", sent.err)
        process.stop_sync(signal.SIGKILL)
    assert (tmp_path / ".accord" / "agents.db").exists()
    with served("one.py", "two.py", cwd=tmp_path) as (_, url):
        for name, task_id in asked.items():
            done = accord("send", f"{url}/{name}", "yes", "--task-id", task_id)
            assert done.out.strip() == f"{name} yes"
