"""The ids of messages: the caller's own go on to the agent, and callers stay apart."""

import uuid
from typing import Any

import pytest

from accord import Agent, Context, connect
from accord.auth import ApiKeys
from accord.model import IDEMPOTENT, Message, Part, Role
from tests.relay.relays import DOORS, proxied, served

KEYS = {f"k-{name}-0123456789": name for name in ("ada", "bob")}


def told(*, has_keys: bool = True) -> Agent:
    """An agent that says under which ids it got messages. Without `has_keys` it does not say that
    it knows idempotency keys, as most don't.
    """
    agent = Agent("Told")

    @agent.skill
    async def say(text: str, ctx: Context) -> str:
        first = ctx.message.message_id
        if text == "ask":
            await ctx.ask("And now?")
            said = [one.message_id for one in ctx.task.history if one.role is Role.USER]
            return " ".join(said)
        return first

    @agent.card
    def edit(card: Any) -> None:
        if not has_keys:
            offered = card.capabilities.extensions
            card.capabilities.extensions = [e for e in offered if e.uri != IDEMPOTENT]

    return agent


def message(id_: str, text: str = "hi", task_id: str = "") -> Message:
    return Message(message_id=id_, role=Role.USER, parts=[Part(text=text)], task_id=task_id)


@pytest.mark.parametrize("door", [door for door in DOORS if not door.endswith("0.1")])
@pytest.mark.parametrize("id_", ["m-1", str(uuid.uuid4())], ids=["short", "uuid"])
@pytest.mark.parametrize("has_keys", [True, False])
async def test_the_agent_is_told_the_callers_id(door, id_, has_keys):
    """So that logs on both sides speak of the same message; here it is the same too."""
    async with served(told(has_keys=has_keys)) as url:
        relay = await proxied(url, door)
        async with served(relay) as address, connect(address) as client:
            for _ in range(2):  # who sends again what they sent is who they are
                reply = await client.send(message(id_))
                assert reply.text == id_
                assert reply.task.history[0].message_id == id_


async def test_an_answer_has_its_own_id_too():
    async with (
        served(told()) as url,
        served(await proxied(url)) as address,
        connect(address) as client,
    ):
        asked = await client.send(message("q-1", "ask"))
        answered = await client.send(message("a-1", "this", asked.task_id))
        assert answered.text.split() == ["q-1", "a-1"]


@pytest.mark.parametrize("has_keys", [True, False])
async def test_callers_with_equal_ids_stay_apart(has_keys):
    """An agent may take a message for one it knows by its id. So an id is the first caller's, also
    after a restart, unless keys tell them apart.
    """
    async with served(told(has_keys=has_keys)) as url:
        relay = await proxied(url, auth=ApiKeys(keys=KEYS))
        async with served(relay) as address:
            seen: dict[str, set[str]] = {}
            for key, name in [*KEYS.items(), *KEYS.items()]:
                async with connect(address, auth=key) as client:
                    reply = await client.send(message("same"))
                    assert reply.task.history[0].message_id == "same"
                    seen.setdefault(name, set()).add(reply.text)
    assert seen["ada"] == {"same"}
    if has_keys:
        assert seen["bob"] == {"same"}
    else:
        [made] = seen["bob"]
        assert made != "same"
