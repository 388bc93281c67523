"""The page on relays: its programs run, and its command does what it says."""

import asyncio
from typing import Any

from accord import Agent
from accord.auth import Caller
from accord.client import connect
from accord.model import TaskState
from accord.relay import RequestContext
from tests.docs.page import ROOT, blocks
from tests.relay.relays import clerk, served

PROGRAMS = [text for language, text in blocks(ROOT / "docs/relay.md") if language == "python"]


async def test_a_relay_of_an_address():
    async with served(clerk()) as url:
        names: dict[str, Any] = {"__name__": "front"}
        program = PROGRAMS[0].replace("https://old-agent.example.com", url)
        await asyncio.to_thread(exec, program, names)  # it waits for the card, which we serve
        agent = names["agent"]
        assert isinstance(agent, Agent)
        async with served(agent) as address, connect(address) as client:
            reply = await client.send("hello")
    assert (reply.text, reply.state) == ("HELLO", TaskState.COMPLETED)


async def test_clients_by_caller_and_member():
    names: dict[str, Any] = {}
    exec(PROGRAMS[1], names)
    context = RequestContext(caller=Caller(name="ada"))
    client = await names["client_for"](context)
    assert context.member == "north"
    assert await names["client_for"](context) is client
    assert names["in_front_of"](clerk().app().card("http://localhost")).name == "Clerk"
