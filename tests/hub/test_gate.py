"""The gateway: every entry is an agent at the hub's address."""

import asyncio
import contextlib
import json
import time
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest
from a2a import types
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.utils.signing import create_signature_verifier
from jwt import PyJWK

from accord import Agent, Caller, connect
from accord.auth import Credentials, scheme
from accord.client import NO_RETRY, ApiKey, BadCard, Client, ConnectionLost
from accord.hub.gate.upstream import is_unanswered
from accord.model import (
    A2AError,
    AgentInterface,
    AgentNotFound,
    HTTPAuthSecurityScheme,
    InvalidAgentResponse,
    PermissionDenied,
    SecurityScheme,
    TaskNotFound,
    TaskState,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from tests.auth.test_client import Agent as OAuthAgent
from tests.auth.test_client import oauth
from tests.auth.tokens import holds_as_received
from tests.client.peers import PATIENCE_S, scripted
from tests.hub.hubs import Desk, agent_named, hub_at
from tests.legacy.test_clients import HERE, JS, PYTHON, helper, needs_node, packages
from tests.processes import free_port, run
from tests.relay.relays import DOORS, Gate, clerk, served

WAYS_IN = list(DOORS)
SEND = b'{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"hello"}]}}'


def entrance(desk: Desk, name: str, by: str = "admin", door: str = "", **more: Any) -> Client:
    """A client of an entry, for one of the people a key was made for."""
    auth = ApiKey(desk.keys[by]) if desk.keys[by] else None
    if door:
        more["binding"], more["version"] = DOORS[door]
    return connect(f"{desk.url}/agents/{name}", auth=auth, **more)


def only(agent: Agent, door: str) -> Agent:
    """The agent with a card that has one interface."""
    binding, version = DOORS[door]

    @agent.card
    def edit(card: Any) -> None:
        places = [i.url for i in card.supported_interfaces if i.protocol_binding == binding]
        url = places[0] if places else "127.0.0.1:1"  # a port that gRPC does not have yet
        card.supported_interfaces = [AgentInterface(url, binding, version)]

    return agent


# Any to any


async def test_every_way_in_reaches_every_way_out(tmp_path, capsys):
    """What callers do, by 8 ways in, with agents that have 1 of 8 ways out each: 512 cells. 5 ways
    in are of versions before 1.0, which have no list.
    """
    cells = 0
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(hub_at(tmp_path, grpc_port=0))
        for way_out in DOORS:
            agent = only(clerk(), way_out)
            url = await stack.enter_async_context(served(agent))
            await desk.add(url, name=way_out.replace(".", "-"))
        for way_out in DOORS:
            for way_in in WAYS_IN:
                async with entrance(desk, way_out.replace(".", "-"), door=way_in) as client:
                    cells += await all_that_callers_do(client)
            used = desk.hub.gate.upstreams.clients_of(way_out.replace(".", "-"))
            assert {(client.binding, client.version) for client in used} == {DOORS[way_out]}
    with capsys.disabled():
        print(f"\nany to any through the hub: 512 cells, {cells} pass, 40 have no list before 1.0")
    assert cells == 8 * (8 * 8 - 5)


async def all_that_callers_do(client: Client) -> int:
    reply = await client.send("hello")
    assert (reply.text, reply.state) == ("HELLO", TaskState.COMPLETED)
    stream = client.stream("count 3")
    assert [event async for event in stream]
    assert stream.reply.text == "0 1 2 "
    asked = await client.send("ask")
    answered = await asked.answer("three")
    assert (answered.text, answered.task_id) == ("heard three", asked.task_id)
    assert (await client.get(asked.task_id)).status.state is TaskState.COMPLETED
    [file] = (await client.send("file abc")).files
    assert file.data == b"abcabcabc"
    open_ = await client.send("ask")
    events = client.subscribe(open_.task_id)
    await anext(events)
    assert (await client.cancel(open_.task_id)).status.state is TaskState.CANCELED
    assert [event async for event in events][-1].status.state is TaskState.CANCELED
    if client.version != "1.0":
        return 7  # older versions have no list
    assert open_.task_id in {task.id async for task in client.list()}
    return 8


@needs_node
async def test_real_clients_see_through_the_hub_what_they_see_directly(tmp_path, capsys):
    """a2a-sdk 0.3 and 1.x and the JavaScript client, with a 0.1 agent, a 0.3 gRPC agent and a 1.0
    REST agent.
    """
    packages()
    clients = {
        "a2a-sdk 0.3": (PYTHON, HERE / "sdk03.py", "URL", "JSONRPC"),
        "a2a-js 1.x": ("node", "client_1.mjs", "URL", "JSONRPC", "plain"),
    }
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(hub_at(tmp_path))
        direct = await stack.enter_async_context(served(helper(), push=False))
        seen: dict[str, Any] = {
            name: await seen_by(command, direct) for name, command in clients.items()
        }
        seen["a2a-sdk 1.x"] = await seen_by_sdk(direct)
        for way_out in ("jsonrpc-0.1", "grpc-0.3", "rest-1.0"):
            url = await stack.enter_async_context(served(only(helper(), way_out), push=False))
            name = way_out.replace(".", "-")
            await desk.add(url, name=name)
            at = f"{desk.url}/agents/{name}"
            for client, command in clients.items():
                through = await seen_by(command, f"{at}/" if command[0] == "node" else at)
                assert comparable(through, way_out) == comparable(seen[client], way_out)
            assert await seen_by_sdk(at) == seen["a2a-sdk 1.x"]
    with capsys.disabled():
        print(f"\nreal clients through the hub: {len(seen)} clients x 3 agents, as directly")


@needs_node
async def test_an_unmodified_client_of_0_3_reaches_an_agent_over_grpc(tmp_path):
    """Its requests name no agent: the host does, if the hub has a domain for that. Without one the
    card lists no gRPC, and the client would reach the hub's own agent.
    """
    packages()
    async with (
        served(helper(), push=False) as url,
        hub_at(tmp_path, grpc_port=0, grpc_domain="agents.localhost") as desk,
    ):
        await desk.add(url)
        at = f"{desk.url}/agents/helper"
        over_http = await seen_by((PYTHON, HERE / "sdk03.py", "URL", "JSONRPC"), at)
        over_grpc = await seen_by((PYTHON, HERE / "sdk03.py", "URL", "GRPC"), at)
        errors = {
            "cancel twice",
            "unknown",
            "send to nobody",
            "follow nobody",
        }  # named, not numbered
        assert {name for name in over_http if over_grpc[name] != over_http[name]} == errors
        async with httpx.AsyncClient(trust_env=False) as http:
            card = (await http.get(f"{at}/.well-known/agent.json")).json()
        places = card["additionalInterfaces"]
        port = desk.hub.app.grpc_port
        assert [one["url"] for one in places if one["transport"] == "GRPC"] == [
            f"helper.agents.localhost:{port}"
        ]


async def seen_by(command: tuple[Any, ...], url: str) -> dict[str, Any]:
    done = await run(*(url if word == "URL" else word for word in command), cwd=JS)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


async def seen_by_sdk(url: str) -> dict[str, Any]:
    """What a2a-sdk 1.x sees: it sends, streams, reads, answers, follows, cancels and lists."""
    seen: dict[str, Any] = {}
    async with httpx.AsyncClient(trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http)).create(card)

        async def send(text: str, task: Any = None) -> list[Any]:
            message = types.Message(
                message_id=f"m-{text}", role=types.Role.ROLE_USER, parts=[types.Part(text=text)]
            )
            if task is not None:
                message.task_id, message.context_id = task.id, task.context_id
            request = types.SendMessageRequest(message=message)
            return [event async for event in client.send_message(request)]

        async def read(id_: str) -> Any:
            return await client.get_task(types.GetTaskRequest(id=id_))

        events = await send("hello")
        done = await read(events[0].task.id)
        seen["card"] = [card.name, [skill.id for skill in card.skills]]
        seen["stream"] = [event.WhichOneof("payload") for event in events]
        seen["get"] = [done.status.state, _text(done), done.history[0].parts[0].text]
        asked = (await send("ask"))[0].task
        seen["asked"] = (await read(asked.id)).status.state
        await send("noon", asked)
        answered = await read(asked.id)
        seen["answered"] = [answered.status.state, _text(answered)]
        open_ = (await send("ask"))[0].task
        followed = client.subscribe(types.SubscribeToTaskRequest(id=open_.id))
        seen["subscribe"] = (await anext(followed)).WhichOneof("payload")
        canceled = await client.cancel_task(types.CancelTaskRequest(id=open_.id))
        last = [event async for event in followed][-1]
        seen["cancel"] = [canceled.status.state, last.status_update.status.state]
        listed = await client.list_tasks(types.ListTasksRequest())
        seen["list"] = {asked.id, open_.id, done.id} <= {task.id for task in listed.tasks}
        with pytest.raises(Exception, match="ound") as refused:
            await read("nobody")
        seen["unknown"] = type(refused.value).__name__
    return seen


def _text(task: Any) -> str:
    return "".join(part.text for artifact in task.artifacts for part in artifact.parts)


def comparable(seen: dict[str, Any], way_out: str) -> dict[str, Any]:
    """What has to be the same. The hub provides push notifications though the agent does not; an
    agent of 0.1 answers everything with a task.
    """
    different = ("push", "reply") if way_out == "jsonrpc-0.1" else ("push",)
    return {what: value for what, value in seen.items() if not what.startswith(different)}


# Cards


async def test_the_card_is_the_hubs_and_the_original_is_kept(tmp_path):
    agent = clerk()
    async with served(agent, sign_card=True) as url, hub_at(tmp_path) as desk:
        await desk.add(url)
        async with httpx.AsyncClient(trust_env=False) as http:
            place, version = f"{url}/.well-known/agent-card.json", {"A2A-Version": "1.0"}
            given = [(await http.get(place)).content]
            given.append((await http.get(place, headers=version)).content)
            at = f"{desk.url}/agents/clerk"
            admin = {"X-API-Key": desk.hub.admin_key}
            assert (await http.get(f"{at}/card/original", headers=admin)).content in given
            answer = await http.get(
                f"{at}/.well-known/agent-card.json", headers={"A2A-Version": "1.0"}
            )
            old = await http.get(f"{at}/.well-known/agent.json")
        card = answer.json()
        assert old.json()["url"].startswith(at)
        assert all(i["url"].startswith(at) for i in card["supportedInterfaces"])
        via = next(e for e in card["capabilities"]["extensions"] if e["uri"] == "urn:accord:via:1")
        assert list(via["params"]) == ["sha256"]
        keys = {key["kid"] for key in desk.hub.app.keyring.jwks()["keys"]}
        assert {_kid(one) for one in card["signatures"]} <= keys
        assert holds_as_received(card, desk.hub.app.keyring.jwks())
        assert holds_as_received(old.json(), desk.hub.app.keyring.jwks())
        assert "url" not in card
        own = await desk.call("GET", "/.well-known/agent-card.json")
        assert holds_as_received(own.body, desk.hub.app.keyring.jwks())
        async with connect(at, verify=True) as client:  # with the hub's key
            assert (await client.send("hi")).text == "HI"


async def test_the_agents_own_addresses_are_shown_to_its_owner_alone(tmp_path):
    """Whoever knows them could go past the hub: its rules, limits and log."""
    port = free_port()
    async with hub_at(tmp_path) as desk:
        await desk.key("ada")
        await desk.key("olga", "publisher")
        server = contextlib.AsyncExitStack()
        url = await server.enter_async_context(clerk().app(sign_card=True).serving(port))
        entry = await desk.add(url, by="olga", name="clerk")
        await desk.approve(entry)
        assert (await desk.call("POST", "/agents/clerk:probe", by="olga")).status == 200
        here = f":{port}"
        everywhere = (
            "/api/v1/agents",
            "/api/v1/agents/clerk",
            "/api/v1/agents/clerk/health",
            "/api/v1/search?text=clerk",
            "/api/v1/ai-catalog.json",
            "/.well-known/ai-catalog.json",
            "/ard/agents",
            "/agents/clerk/card/original",
            "/agents/clerk/.well-known/agent-card.json",
            "/agents/clerk/.well-known/agent.json",
            "/agents/clerk/extendedAgentCard",
            "/.well-known/agent-card.json",
        )

        async def showing(by: str) -> set[str]:
            headers = {"A2A-Version": "1.0"} | (
                {"X-API-Key": desk.keys[by]} if desk.keys[by] else {}
            )
            async with httpx.AsyncClient(trust_env=False, headers=headers) as http:
                answers = {path: await http.get(desk.url + path) for path in everywhere}
            return {path for path, answer in answers.items() if here in answer.text}

        owners = {"/api/v1/agents", "/api/v1/agents/clerk", "/api/v1/agents/clerk/health"}
        assert await showing("olga") == owners | {"/agents/clerk/card/original"}
        assert await showing("admin") == owners | {"/agents/clerk/card/original"}
        assert await showing("ada") == await showing("guest") == set()
        await server.aclose()  # what is wrong with it is said with its address
        assert (await desk.call("POST", "/agents/clerk:probe", by="olga")).status == 200
        with pytest.raises(Unavailable) as away:
            await _send_once(desk, "clerk")
        assert here not in f"{away.value}{away.value.detail}"
        assert await showing("ada") == await showing("guest") == set()


async def test_their_client_verifies_both_cards(tmp_path):
    """a2a-sdk 1.x takes the gateway's card with the hub's key alone, and the original, kept
    beside it, with the agent's.
    """
    app = clerk().app(sign_card=True)
    async with app.serving() as url, hub_at(tmp_path) as desk, httpx.AsyncClient() as http:
        await desk.add(url)
        http.headers["X-API-Key"] = desk.hub.admin_key  # the original is not for everybody
        of_hub, of_agent = desk.hub.app.keyring.jwks()["keys"], app.keyring.jwks()["keys"]

        async def verified(path: str, keys: list[Any]) -> bool:
            def key(kid: str, jku: str) -> PyJWK:
                return PyJWK(next(one for one in keys if one["kid"] == kid))

            verifier = create_signature_verifier(key, ["ES256"])
            resolver = A2ACardResolver(http, f"{desk.url}/agents/clerk", agent_card_path=path)
            try:
                card = await resolver.get_agent_card(signature_verifier=verifier)
            except Exception:
                return False
            return card.name == "Clerk"

        for path, right, wrong in (
            ("/.well-known/agent-card.json", of_hub, of_agent),
            ("/card/original", of_agent, of_hub),
        ):
            assert await verified(path, right), path
            assert not await verified(path, wrong), path


def _kid(signature: dict[str, Any]) -> str:
    import base64

    head = signature["protected"]
    return str(json.loads(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))["kid"])


async def test_a_card_shows_the_skills_its_reader_may_call(tmp_path):
    async with served(clerk()) as url, hub_at(tmp_path, guests="call") as desk:
        await desk.add(url)
        await desk.key("ada")
        await desk.call(
            "POST", "/policies", {"who": "!user:ada", "what": "skill:clerk/size", "effect": "deny"}
        )
        async with entrance(desk, "clerk", "guest") as client:
            assert [skill.id for skill in client.card.skills] == ["work", "reply"]
        async with entrance(desk, "clerk", "ada") as client:
            assert [skill.id for skill in client.card.skills] == ["work", "reply", "size"]
            extended = await client.extended_card()
            assert [skill.id for skill in extended.skills] == ["work", "reply", "size"]


# Who may do what


async def test_what_is_hidden_is_as_if_it_were_missing(tmp_path):
    """Byte for byte, over HTTP by path and by tenant, and over gRPC."""
    async with served(clerk()) as url, hub_at(tmp_path, grpc_port=0, guests="see") as desk:
        await desk.add(url, name="hidden", visibility="team", team="hr")
        await desk.key("ada")
        await desk.key("eva", "user", "hr")
        async with entrance(desk, "hidden", "eva") as eva:
            assert (await eva.send("hi")).text == "HI"
        body = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "SendMessage",
            "params": {
                "message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}
            },
        }
        async with httpx.AsyncClient(trust_env=False) as http:

            async def said(name: str, by: str) -> list[Any]:
                headers = {"A2A-Version": "1.0"}
                if desk.keys[by]:
                    headers["X-API-Key"] = desk.keys[by]
                at = f"{desk.url}/agents/{name}"
                tenant = body | {"params": body["params"] | {"tenant": name}}  # type: ignore[operator]
                answers = [
                    await http.get(f"{at}/.well-known/agent-card.json", headers=headers),
                    await http.get(f"{at}/card/original", headers=headers),
                    await http.post(at, json=body, headers=headers),
                    await http.post(f"{at}/message:send", json=body["params"], headers=headers),
                    await http.get(f"{at}/tasks/1", headers=headers),
                    await http.post(desk.url, json=tenant, headers=headers),
                    await http.get(f"{desk.url}/{name}/tasks/1", headers=headers),
                ]
                return [
                    (one.status_code, one.content.replace(name.encode(), b"NAME"))
                    for one in answers
                ]

            for by in ("ada", "guest"):
                hidden, missing = await said("hidden", by), await said("absent", by)
                assert hidden == missing
                assert all(status in (400, 401, 404) for status, _ in hidden[:5])
        port = desk.hub.app.grpc_port
        card = (await _card(f"{desk.url}/agents/hidden", desk.keys["eva"])).decode()
        assert f'"{port}"' in card or f":{port}" in card
        errors = []
        for tenant in ("hidden", "absent"):
            async with connect(
                desk.url,
                binding="GRPC",
                version="1.0",
                tenant=tenant,
                headers={"X-API-Key": desk.keys["ada"]},
            ) as client:
                with pytest.raises(A2AError) as caught:
                    await client.send("hi")
                errors.append((type(caught.value), str(caught.value).replace(tenant, "NAME")))
        assert errors[0] == errors[1]


async def _card(at: str, key: str) -> bytes:
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(f"{at}/.well-known/agent-card.json", headers={"X-API-Key": key})
        return answer.content


async def test_a_message_for_an_agent_that_is_not_there_goes_to_no_other(tmp_path):
    """The hub itself is an agent, which would pass it to whoever fits its words."""
    async with served(agent_named()) as url, hub_at(tmp_path) as desk:
        await desk.add(url)
        await desk.call("DELETE", "/agents/echo")
        await desk.add(url, name="other")
        for name in ("echo", "echo/"):
            with pytest.raises(BadCard, match="says that no agent is there"):
                await connect(f"{desk.url}/agents/{name}", auth=ApiKey(desk.keys["admin"]))
        found = await desk.call("POST", "/agents", {"url": f"{desk.url}/agents/echo"})
        assert found.status in (401, 422)


async def test_the_name_of_an_agent_that_is_not_there_is_answered_with_the_nearest(tmp_path):
    """On every way in it is not found. The hub's own agent does not answer in its place."""
    async with served(clerk()) as url, hub_at(tmp_path, grpc_port=0) as desk:
        await desk.add(url)
        other = url.replace("127.0.0.1", "localhost")
        await desk.add(other, name="secret", visibility="private")
        await desk.key("mia")
        key = {"X-API-Key": desk.keys["mia"]}
        for name, near in (("clark", "clerk"), ("secrets", ""), ("zzz", "")):
            for binding, version in (
                *(("JSONRPC", "1.0"), ("HTTP+JSON", "1.0"), ("GRPC", "1.0"), ("GRPC", "0.3")),
            ):
                more: dict[str, Any] = {
                    "tenant": name,
                    "binding": binding,
                    "version": version,
                    "headers": key,
                }
                async with connect(desk.url, **more) as client:
                    with pytest.raises(AgentNotFound, match=f"no agent '{name}' here") as caught:
                        await client.send("hello")
                assert str(caught.value).endswith(f"did you mean '{near}'?") == bool(near)
            where = f"{desk.url}/agents/{name}"
            async with httpx.AsyncClient(trust_env=False, headers=key) as http:
                for verb, path, body in (
                    ("POST", where, b"{}"),
                    ("GET", f"{where}/tasks", b""),
                    ("POST", f"{desk.url}/{name}", b"{}"),
                    ("POST", f"{desk.url}/{name}/message:send", SEND),
                    ("GET", f"{desk.url}/{name}/.well-known/agent-card.json", b""),
                    ("GET", f"{desk.url}/{name}/", b""),
                ):
                    answer = await http.request(
                        verb, path, content=body, headers={"Content-Type": "application/json"}
                    )
                    assert answer.status_code == 404, path
                    assert '"NOT_FOUND"' in answer.text
                    assert (near in answer.text) if near else ("did you mean" not in answer.text)
            for place in (f"{desk.url}/{name}", where):
                with pytest.raises(BadCard, match=f"no agent is there: .*{name}.*{near}"):
                    await connect(place, auth=ApiKey(desk.keys["mia"]))
        with pytest.raises(BadCard, match="did you mean /agents/clerk/"):
            await connect(f"{desk.url}/clerk", auth=ApiKey(desk.keys["mia"]))


async def test_an_entry_is_reached_by_tenant_too(tmp_path):
    async with served(clerk()) as url, hub_at(tmp_path, grpc_port=0) as desk:
        await desk.add(url)
        headers = {"X-API-Key": desk.keys["admin"]}
        async with entrance(desk, "clerk") as direct:
            for binding in ("JSONRPC", "HTTP+JSON", "GRPC"):
                async with connect(
                    desk.url, tenant="clerk", binding=binding, version="1.0", headers=headers
                ) as client:
                    reply = await client.send("hello")
                    assert reply.text == "HELLO"
                    assert (await direct.get(reply.task_id)).id == reply.task_id


async def test_rules_by_skill_are_kept(tmp_path):
    """(a) what is named is checked and passed on; (c) one allowed is set, of several one has to be
    named.
    """
    async with served(clerk()) as url, hub_at(tmp_path) as desk:
        await desk.add(url)
        await desk.key("ada")
        for skill in ("size", "reply"):
            rule = {"who": "user:ada", "what": f"skill:clerk/{skill}", "effect": "deny"}
            await desk.call("POST", "/policies", rule)
        async with entrance(desk, "clerk", "ada") as ada:
            with pytest.raises(PermissionDenied, match="rule: deny user:ada call skill:clerk/size"):
                await ada.send("x", skill="size")
            meta = await ada.send("meta")
            assert "'skill': 'work'" in meta.text  # it was set
        [rules] = [(await desk.call("GET", "/policies")).body["policies"]]
        dropped = next(rule["id"] for rule in rules if rule["what"].endswith("reply"))
        await desk.call("DELETE", f"/policies/{dropped}")
        async with entrance(desk, "clerk", "ada") as ada:
            with pytest.raises(PermissionDenied, match=r"metadata\.skill: work, reply"):
                await ada.send("hello")
            assert (await ada.send("hello", skill="work")).text == "HELLO"
        await desk.hub.refusals.flush()
        (row, *_) = (await desk.call("GET", "/audit")).body["rows"]
        assert (row["who"], row["did"]) == ("ada", "refused")
        assert json.loads(row["detail"]) == {"requests": 2, "what": {"clerk": 2}}


# Limits


async def test_limits_name_themselves(tmp_path):
    """The N-th call passes, the next is refused with the limit's name."""
    gate = Gate()
    async with served(clerk(gate)) as url, hub_at(tmp_path, calls_per_minute=5) as desk:
        await desk.add(url)
        for name in ("ada", "bob", "eva"):
            await desk.key(name)
        async with entrance(desk, "clerk", "ada") as ada:
            for _ in range(5):
                await ada.send("hello")
        assert await _refused(desk, "ada") == "calls_per_minute of a caller"

        limits = {"open_tasks": 1}
        await desk.call("PATCH", "/agents/clerk", {"settings": {"limits": limits}})
        async with entrance(desk, "clerk", "bob") as bob, bob.stream("wait") as stream:
            await anext(stream)
            assert await _refused(desk, "bob") == "open_tasks of the entry"
            await desk.call("PATCH", "/agents/clerk", {"settings": {"limits": {"open_streams": 2}}})
            async with bob.subscribe(stream.task_id) as second:
                await anext(second)
                async with entrance(desk, "clerk", "bob", retry=NO_RETRY) as again:
                    for third in (again.subscribe(stream.task_id), again.stream("hello")):
                        with pytest.raises(TooManyRequests, match="2 open streams"):
                            await anext(third)
            wrong = {"settings": {"limits": {"open_stream": 2}}}
            assert (await desk.call("PATCH", "/agents/clerk", wrong)).status == 400
            gate.event.set()
            assert [event async for event in stream][-1].status.state is TaskState.COMPLETED
        assert await _refused(desk, "bob") == ""

        await desk.call("PATCH", "/agents/clerk", {"settings": {"limits": {"calls_per_minute": 1}}})
        assert await _refused(desk, "eva") == ""
        assert await _refused(desk, "bob") == "calls_per_minute of the entry"
        rule = {"who": "user:eva", "what": "agent:clerk", "effect": "allow", "limit": 1}
        await desk.call("PATCH", "/agents/clerk", {"settings": {"limits": {}}})
        await desk.call("POST", "/policies", rule)
        assert await _refused(desk, "eva") == ""
        assert await _refused(desk, "eva") == "limit of a rule"


@pytest.mark.parametrize("door", ["jsonrpc-1.0", "grpc-1.0"])
async def test_streams_that_come_together_are_counted_and_sends_that_wait_are_not(tmp_path, door):
    """A stream counts from its admission to its end, whichever that is: all read, closed by the
    caller, refused, or a bare message.
    """
    gate = Gate()
    async with (
        asyncio.timeout(PATIENCE_S),
        served(clerk(gate)) as url,
        hub_at(tmp_path, grpc_port=0) as desk,
    ):
        await desk.add(url)
        await desk.call("PATCH", "/agents/clerk", {"settings": {"limits": {"open_streams": 2}}})
        async with entrance(desk, "clerk", door=door, retry=NO_RETRY) as client:
            sends = [asyncio.ensure_future(client.send("wait")) for _ in range(3)]
            while len([task async for task in client.list(state=TaskState.WORKING)]) < 3:
                pass
            streams = [client.stream("wait") for _ in range(6)]
            first = await asyncio.gather(*map(anext, streams), return_exceptions=True)
            refused = [one for one in first if isinstance(one, Exception)]
            assert [type(one) for one in refused] == [TooManyRequests] * 4
            for stream in streams:
                await stream.close()
            for how in ({"skill": "reply"}, {}, {"skill": "reply"}, {}):
                assert await _streamed(client, "hello", **how)
            for _ in range(3):
                with pytest.raises(TaskNotFound):
                    await anext(client.subscribe("nowhere"))
            assert await _streamed(client, "hello")
            gate.event.set()
            assert [reply.text for reply in await asyncio.gather(*sends)] == ["begun done"] * 3


async def _streamed(client: Client, message: str, **how: Any) -> list[Any]:
    """What a stream brings, as soon as there is room for one."""
    while True:
        with contextlib.suppress(TooManyRequests):
            return [event async for event in client.stream(message, **how)]


async def _refused(desk: Desk, by: str) -> str:
    """Call, and return the name of the limit that was in the way."""
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.post(
            f"{desk.url}/agents/clerk/message:send",
            json={"message": {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "x"}]}},
            headers={"A2A-Version": "1.0", "X-API-Key": desk.keys[by]},
        )
        if answer.status_code == 200:
            return ""
        assert answer.status_code == 429, answer.text
        assert int(answer.headers["Retry-After"]) > 0
        return str(answer.json()["error"]["details"][0]["metadata"]["limit"])


# Agents that are away


async def test_the_breaker_opens_and_closes(tmp_path, capsys):
    """An agent is stopped: after 5 calls, each of several attempts, calls are refused at once,
    neighbours are served as before, tasks can be read; when it is back, calls pass again.
    """
    port = free_port()
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(hub_at(tmp_path, open_s=1.0))
        near = await stack.enter_async_context(served(agent_named("Neighbour")))
        await desk.add(near)
        app = clerk().app()
        server = contextlib.AsyncExitStack()
        url = await server.enter_async_context(app.serving(port))
        await desk.add(url)
        async with entrance(desk, "clerk") as client, entrance(desk, "neighbour") as neighbour:
            kept = await client.send("hello")
            await server.aclose()
            failed = await asyncio.gather(
                *(_send_once(desk, "clerk") for _ in range(4)), return_exceptions=True
            )
            assert [type(one) for one in failed] == [Unavailable] * 4
            assert not desk.hub.gate.upstreams.is_away("clerk")
            with pytest.raises(Unavailable):
                await _send_once(desk, "clerk")
            assert desk.hub.gate.upstreams.is_away("clerk")
            begun = time.perf_counter()
            with pytest.raises(Unavailable) as refused:
                await _send_once(desk, "clerk")
            refused_ms = (time.perf_counter() - begun) * 1000
            assert refused.value.retry_after_s
            assert (await neighbour.send("hi")).text == "hi"
            assert (await client.get(kept.task_id)).id == kept.task_id
            assert kept.task_id in [task.id async for task in client.list()]
            again = clerk().app()
            await stack.enter_async_context(again.serving(port))
            begun = time.perf_counter()
            while True:
                try:
                    assert (await _send_once(desk, "clerk")).text == "HELLO"
                    break
                except Unavailable:
                    await asyncio.sleep(0.05)  # as a caller would
            back_s = time.perf_counter() - begun
    with capsys.disabled():
        print(
            f"\nbreaker: open after 5 calls, then refused in {refused_ms:.1f} ms, "
            f"back {back_s:.1f} s after the agent (it is tried every 1-2 s here, 5-10 s by default)"
        )


async def _send_once(desk: Desk, name: str) -> Any:
    async with entrance(desk, name, retry=NO_RETRY) as client:
        return await client.send("hello")


@pytest.mark.parametrize(
    ("error", "counts"),
    [
        (None, False),
        (TaskNotFound("that is an answer"), False),
        (InvalidAgentResponse("it is there"), False),
        (ConnectionLost("agent", "gone"), True),
        (Unavailable("not now"), True),
    ],
)
def test_what_an_agent_answers_is_no_failure(error, counts):
    """The breaker counts calls that nobody answered."""
    assert is_unanswered(error) is counts


async def test_what_is_not_to_be_kept_goes(tmp_path):
    """keep=none: tasks of this entry go when they have ended."""
    async with served(clerk()) as url, hub_at(tmp_path) as desk:
        desk.hub.gate.keep_none_s = 0.0
        await desk.add(url, name="secret", settings={"keep": "none"})
        async with entrance(desk, "secret") as client:
            done, asked = await client.send("hello"), await client.send("ask")

            async def is_gone() -> bool:
                await desk.hub.gate.forget()
                return done.task_id not in [task.id async for task in client.list()]

            async with asyncio.timeout(30):
                while not await is_gone():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert (await client.get(asked.task_id)).id == asked.task_id  # it is open


# Credentials


async def test_the_vaults_credential_goes_to_the_agent_and_the_callers_does_not(tmp_path):
    shown: list[str] = []

    @scheme(SecurityScheme(http_auth_security_scheme=HTTPAuthSecurityScheme(scheme="Bearer")))
    async def bearer(request: Credentials) -> Caller | None:
        shown.append(request.header("authorization") + request.header("x-api-key"))
        return Caller("hub") if request.header("authorization") == "Bearer s3cret" else None

    agent = Agent("Guarded", description="Needs a token.", auth=bearer)

    @agent.skill
    async def who(caller: Caller) -> str:
        return caller.name

    async with served(agent) as url, hub_at(tmp_path) as desk:
        await desk.add(url)
        await desk.key("ada")
        async with entrance(desk, "guarded", "ada") as ada:
            with pytest.raises(A2AError, match="refused this server's credentials"):
                await ada.send("who?")
            await desk.call(
                "PUT",
                "/agents/guarded/credentials/custom",
                {"kind": "bearer", "secret": "s3cret"},
            )
            assert (await ada.send("who?")).text == "hub"
    assert set(shown) == {"Bearer s3cret"}


async def test_clients_of_what_has_changed_are_closed_when_nobody_uses_them(tmp_path):
    """A new card, credential or network makes new clients; the old ones stayed open for good."""
    async with served(clerk(Gate())) as url, hub_at(tmp_path) as desk:
        await desk.add(url)
        upstreams = desk.hub.gate.upstreams
        upstreams.idle_s = 0.0
        async with entrance(desk, "clerk") as client:

            async def secret(text: str) -> None:
                body = {"kind": "api_key", "secret": text}
                put = await desk.call("PUT", "/agents/clerk/credentials/k", body)
                assert put.status in (200, 204), put.body

            async def network(what: str) -> None:
                assert (await desk.call("POST", "/networks", {"what": what})).status in (200, 201)

            waiting = await client.send("hello")
            for change in (secret("one"), secret("two"), network("10.1.0.0/16"), secret("three")):
                await change
                await client.send("hello")
            assert upstreams.open_clients == 5
            await upstreams.sweep()
            assert upstreams.open_clients == 1
            assert (await client.send("hello")).text == waiting.text
            assert upstreams.open_clients == 1
            # One that is used is closed when its call has ended.
            stream = client.stream("wait")
            async for _ in stream:
                break
            await secret("four")
            await client.send("hello")
            await upstreams.sweep()
            assert upstreams.open_clients == 2
            await client.cancel(stream.task_id)
            async with asyncio.timeout(30):
                while upstreams.open_clients > 1:
                    await upstreams.sweep()
                    await asyncio.sleep(0.01)
        assert (await desk.call("DELETE", "/agents/clerk")).status == 204
        await upstreams.sweep()
        assert upstreams.open_clients == 0


async def test_clients_that_nobody_uses_are_bounded(tmp_path):
    async with contextlib.AsyncExitStack() as stack:
        desk = await stack.enter_async_context(hub_at(tmp_path))
        upstreams = desk.hub.gate.upstreams
        upstreams.idle_s, upstreams.most = 0.0, 2
        for n in range(3):
            await desk.add(await stack.enter_async_context(served(clerk())), name=f"c{n}")
            async with entrance(desk, f"c{n}") as client:
                await client.send("hello")
        assert upstreams.open_clients == 3
        await upstreams.sweep()
        assert [len(upstreams.clients_of(f"c{n}")) for n in range(3)] == [0, 1, 1]


async def test_an_oauth_client_gets_its_tokens_itself(tmp_path):
    """Client credentials from the vault: one token for many calls, at the agent's own server."""
    agent = OAuthAgent(oauth)
    async with scripted(agent) as server, hub_at(tmp_path) as desk:
        await desk.add(server.url, name="dock")
        secret = {"kind": "client_credentials", "user": "me", "secret": "s3cret"}
        answer = await desk.call("PUT", "/agents/dock/credentials/s", secret)
        assert answer.status in (200, 204), answer.body
        agent.seen.clear()
        async with entrance(desk, "dock") as client:
            for _ in range(2):
                await client.send("hello")
    assert len(agent.forms) == 1
    assert {headers["authorization"] for headers in agent.seen} == {"Bearer token-1"}


async def test_a_name_that_is_given_again_has_none_of_the_old_tasks(tmp_path):
    async with (
        served(clerk()) as url,
        served(agent_named("Other")) as other,
        hub_at(tmp_path) as desk,
    ):
        await desk.add(url, name="desk")
        async with entrance(desk, "desk") as client:
            old = await client.send("ask")
        await desk.call("DELETE", "/agents/desk")
        await desk.add(other, name="desk")
        async with entrance(desk, "desk") as client:
            assert client.card.name == "Other"
            with pytest.raises(TaskNotFound):
                await client.get(old.task_id)
            assert (await client.send("hi")).text == "hi"


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON", "GRPC"])
@pytest.mark.parametrize("name", ["", "clerk"])
async def test_an_extended_card_is_not_for_guests(tmp_path, binding, name):
    """The hub asks for a credential before it (A2A 1.0, section 13.3), its own and its agents'."""
    async with served(clerk()) as agent, hub_at(tmp_path, grpc_port=0, guests="call") as desk:
        await desk.add(agent)
        await desk.key("ada")
        url = f"{desk.url}/agents/{name}" if name else desk.url
        async with connect(url, binding=binding) as guest:
            assert guest.card.capabilities.extended_agent_card is True
            with pytest.raises(Unauthenticated):
                await guest.extended_card()
        async with connect(url, binding=binding, auth=ApiKey(desk.keys["ada"])) as ada:
            assert (await ada.extended_card()).skills


async def test_an_address_that_every_client_reads_alike(tmp_path):
    """Some resolve the card's path against the address they were given, by the rules of URLs: then
    the last name is left out, unless there is a slash behind it.
    """
    async with served(clerk()) as agent, hub_at(tmp_path, guests="call") as desk:
        await desk.add(agent)
        address = (await desk.call("GET", "/agents/clerk", by="guest")).body["url"]
        assert address == f"{desk.url}/agents/clerk/"
        async with httpx.AsyncClient(trust_env=False) as http:
            card = await http.get(urljoin(address, ".well-known/agent-card.json"))
            assert card.json()["name"] == "Clerk"
            wrong = await http.get(urljoin(address[:-1], ".well-known/agent-card.json"))
            assert wrong.status_code == 404
            assert f"{desk.url}/agents/NAME/ with the slash" in wrong.text
        for place in (address, address[:-1]):
            async with connect(place) as client:
                assert (await client.send("hello")).text == "HELLO"


async def test_an_old_card_names_no_grpc_that_would_reach_another_agent(tmp_path):
    """Readers of 0.3 know no tenants; who does finds it among the interfaces of 1.0."""
    async with served(clerk()) as agent, hub_at(tmp_path, grpc_port=0, guests="call") as desk:
        await desk.add(agent)
        async with httpx.AsyncClient(trust_env=False) as http:
            card = (await http.get(f"{desk.url}/agents/clerk/.well-known/agent-card.json")).json()
        assert {place["transport"] for place in card["additionalInterfaces"]} == {
            "JSONRPC",
            "HTTP+JSON",
        }
        grpc_ = [i for i in card["supportedInterfaces"] if i["protocolBinding"] == "GRPC"]
        assert {(i["protocolVersion"], i["tenant"]) for i in grpc_} == {
            ("1.0", "clerk"),
            ("0.3", "clerk"),
        }
