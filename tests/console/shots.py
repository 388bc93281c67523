"""Pictures of the console for the docs: `make shots`. Of a hub with 60 agents and 700 tasks."""

import asyncio
import logging
from pathlib import Path

from accord import connect
from tests.console.browser import chromium, page_of, serving
from tests.console.world import busy_hub

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
PAUSE_MS = 700  # until what is read has been drawn


async def shoot(page, url: str, pictures: dict[str, str]) -> None:
    for name, place in pictures.items():
        await page.goto(f"{url}/console/{place}")
        await page.wait_for_selector("main h1")
        await page.wait_for_timeout(PAUSE_MS)
        await page.screenshot(path=FOLDER / f"console-{name}.png")


async def of_agent(browser) -> None:
    async with serving() as server, page_of(browser, server) as page:
        async with connect(server.url) as client:
            reply = await client.send("A weekend in Rome", skill="plan")
            await page.wait_for_timeout(PAUSE_MS)  # the question waits for a while
            done = await reply.answer("3")
            asked = await client.send("A trip", skill="book")
        places = {
            "chat": f"chat?task={asked.task_id}",
            "task": f"tasks/{done.task_id}",
            "agent": "agent",
        }
        await shoot(page, server.url, places)


async def of_hub(browser) -> None:
    async with busy_hub() as world, page_of(browser, world, place="") as page:
        [trace, *_] = await world.hub.traces.newest(None)
        places = {"now": "", "tasks": "tasks", "trace": f"trace/{trace['id']}"}
        await shoot(page, world.url, places)


async def main() -> None:
    logging.disable()  # what fails here fails on purpose
    FOLDER.mkdir(exist_ok=True)
    async with chromium() as browser:
        await of_agent(browser)
        await of_hub(browser)


if __name__ == "__main__":
    asyncio.run(main())
