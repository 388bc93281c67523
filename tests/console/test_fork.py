"""Fork from here: an operator goes on from an event of anybody's task."""

import re
from typing import Any
from urllib.parse import urlencode

import aiohttp
from playwright.async_api import expect

from accord import Agent, Context, connect
from accord.auth import ApiKeys
from tests.console import test_server
from tests.console.browser import PATIENCE_MS, needs_browser, opened

KEY = "k" * 32


def shop() -> Agent:
    """Events: 1 submitted, 2 working, 3 asks, 4 working, 5 the result, 6 completed."""
    agent = Agent("Shop", auth=ApiKeys(keys={KEY: "mia"}))

    @agent.skill(durable=True)
    async def buy(text: str, ctx: Context) -> str:
        return "paid" if await ctx.ask("Pay?") == "yes" else "left it"

    return agent


async def forked(client: aiohttp.ClientSession, path: str, **body: Any) -> tuple[int, Any]:
    async with client.post(f"/console/api/tasks/{path}", json=body) as answer:
        return answer.status, await answer.json()


async def test_an_operator_forks_on_behalf_of_the_caller():
    async with test_server.opened(shop()) as (client, _, url), connect(url, auth=KEY) as mia:
        asked = await mia.send("tea")
        assert asked.task is not None
        assert (await asked.answer("yes")).text == "paid"
        _, page = await test_server.read(client, "tasks")
        whose = urlencode({"caller": page["tasks"][0]["caller"]})
        path = f"{asked.task.id}/fork?{whose}"
        status, found = await forked(client, path, at=3, answer="no")
        assert status == 200
        reply = await mia.wait(found["id"])  # it is hers
        assert reply.text == "left it"
        status, wrong = await forked(client, path, at=30)
        assert (status, wrong["error"]) == (
            400,
            f"task {asked.task.id} has the events 1 to 6; 30 is none of them",
        )
        status, wrong = await forked(client, path, at="three")
        assert status == 400
        assert wrong["error"] == (
            "the body of a fork is {at, answer}: at: expected a whole number, got text"
        )
        status, _ = await forked(client, f"{asked.task.id}/fork?caller=nobody", at=3)
        assert status == 404


async def test_only_who_is_logged_in_forks():
    async with test_server.served(shop()) as (client, _, _):
        status, _ = await forked(client, "0190/fork", at=3)
        assert status in (401, 403)


@needs_browser
async def test_a_task_is_forked_from_an_event_and_compared():
    """The page says first what happens again; then both stand beside each other."""
    async with opened() as (page, client, server):
        asked = await client.send("10 euros", skill="pays")
        assert (await asked.answer("yes")).text == "paid"
        await page.goto(f"{server.url}/console/tasks/{asked.task_id}")
        await page.wait_for_selector("[data-outcome=completed]")
        assert await page.locator("text=Fork from here").count() == 0  # it has ended there
        await page.goto(f"{server.url}/console/tasks/{asked.task_id}#e=3")
        await page.click("button:text-is('Fork from here')")
        await page.wait_for_selector("dialog [data-again] >> text=pay")
        await page.click('dialog button:text-is("Cancel")')
        assert len((await client.page()).tasks) == 1
        await page.click("button:text-is('Fork from here')")
        await page.fill("dialog input", "no")
        await page.click("dialog button:text-is('Fork')")
        await expect(page).to_have_url(re.compile(r"/compare\?"), timeout=PATIENCE_MS)
        await page.wait_for_selector("[data-pair=differs] td >> text=not paid")
        await page.wait_for_selector("[data-pair=differs] td >> text=StepEnded pay")
        await page.wait_for_selector("[data-pair=same] td >> text=Pay 10 euros?")
        assert len((await client.page()).tasks) == 2
        await page.click("th >> nth=1 >> a")
        await page.click("a:text-is('forked after event 3')")
        await expect(page).to_have_url(re.compile(r"/compare\?"), timeout=PATIENCE_MS)
